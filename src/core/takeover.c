/*
 * takeover.c
 *		Judge a copy and a promotion, and say where a fence lies.
 */
#include "takeover.h"
#include "tick.h"

/*
 * What to do about a verdict before the first grant.  Another database of the same
 * server is another ID space.  If anything else differs, the original may still
 * issue.
 */
IdgenTakeover
idgen_takeover_judge(IdgenIdentityVerdict verdict, bool fence_copies)
{
	switch (verdict)
	{
		case IDGEN_IDENTITY_SAME:
			return IDGEN_TAKEOVER_NONE;
		case IDGEN_IDENTITY_OTHER_TIMELINE:
			return IDGEN_TAKEOVER_PROMOTED;
		case IDGEN_IDENTITY_OTHER_FILES:
			/* no copy can be running, but the tables may be a template's */
			return IDGEN_TAKEOVER_FENCED;
		case IDGEN_IDENTITY_OTHER_DATABASE:
			return IDGEN_TAKEOVER_TEMPLATE;
		case IDGEN_IDENTITY_OTHER_SYSTEM:
		case IDGEN_IDENTITY_OTHER_CONTROL:
			break;
	}
	return fence_copies ? IDGEN_TAKEOVER_FENCED : IDGEN_TAKEOVER_REFUSED;
}

/*
 * Was this server restarted and promoted on its own files, as high-availability
 * software does with a leader that crashed?  The files hold all that it ever
 * granted, so this is a restart.
 *
 * pg_rewind keeps the control file and its birth time, but not all that was
 * granted.  It moves the server to another server's timeline, and a promotion
 * after that begins a timeline that does not directly follow the recorded one.
 * But a server that is started right after pg_rewind, without becoming a
 * standby, stays on the other server's timeline.  So this is no restart either
 * if the server began to recover another server's files after the identity was
 * recorded, or up to clock_error before that, because a clock may have gone
 * back.
 *
 * Under "split" it is never a restart: the part changes with the timeline,
 * whichever server is promoted.
 */
bool
idgen_identity_is_in_place(const IdgenIdentity *recorded, const IdgenIdentity *found,
						   const IdgenPromotionFacts *facts)
{
	return facts->policy != IDGEN_PROMOTION_SPLIT &&
		facts->history_complete && !facts->has_target &&
		(facts->restored_ms == 0 ||
		 facts->restored_ms < facts->recorded_ms - facts->clock_error_ms) &&
		recorded->system_identifier == found->system_identifier &&
		found->timeline > recorded->timeline &&
		found->timeline - recorded->timeline == 1 &&
		recorded->control_birth != 0 &&
		recorded->control_birth == found->control_birth &&
		recorded->control_inode == found->control_inode;
}

/*
 * Of the last "parts" timelines, keep the latest known time that lies N ago or
 * longer; see below for N.
 */
static void
note_begun(const IdgenPromotionFacts *facts, uint32_t timeline, int64_t known_ms,
		   int64_t *begun_ms)
{
	if ((int64_t) timeline > (int64_t) facts->present - facts->parts &&
		timeline <= facts->present &&
		known_ms <= facts->now_ms - facts->horizon_ms - facts->clock_error_ms)
		*begun_ms = max_tick(*begun_ms, known_ms);
}

/*
 * May a promoted server use its part of the workers at once?
 *
 * The part was used before by the ancestors "parts" timelines ago and earlier.
 * If there are none, nobody used it.  Otherwise the nearest of them lost its
 * role when the timeline after it began.  So each timeline since then, up to
 * the present one, is evidence: if one of them is known to have begun N ago or
 * longer, with N = horizon + clock error, every grant made before it has
 * ended.  *begun_ms is that time; the floor must be N past it, in case the
 * clock goes back.
 */
static bool
part_is_free(const IdgenPromotionFacts *facts, int64_t *begun_ms)
{
	if ((int64_t) facts->present <= facts->parts)
		return true;
	if (facts->recorded != facts->present)
		note_begun(facts, facts->recorded, facts->recorded_ms, begun_ms);
	for (int i = 0; i < facts->begun_count; i++)
		note_begun(facts, facts->begun[i].timeline, facts->begun[i].known_ms, begun_ms);
	return *begun_ms != IDGEN_BEGUN_NEVER;
}

/*
 * What a change of timeline means (doc/design.md, "Identity of the authority").
 * *begun_ms is IDGEN_BEGUN_NEVER or, where "split" goes on at once because a timeline
 * began long enough ago, the time by which it had begun.
 *
 * A history that does not lead back to the record proves nothing.  After a
 * recovery to a target, grants may be missing that standbys had confirmed, or
 * that were made with this very part.
 */
IdgenPromotionVerdict
idgen_promotion_judge(const IdgenPromotionFacts *facts, int64_t *begun_ms)
{
	bool		is_known = facts->history_complete && !facts->has_target &&
		!facts->is_recreated;

	*begun_ms = IDGEN_BEGUN_NEVER;
	switch (facts->policy)
	{
		case IDGEN_PROMOTION_FENCE:
			return IDGEN_PROMOTION_WAIT;
		case IDGEN_PROMOTION_SPLIT:
			return is_known && part_is_free(facts, begun_ms) ? IDGEN_PROMOTION_AT_ONCE :
				IDGEN_PROMOTION_WAIT;
		case IDGEN_PROMOTION_TRUST:
			return is_known ? IDGEN_PROMOTION_AT_ONCE : IDGEN_PROMOTION_WAIT;
		case IDGEN_PROMOTION_REFUSE:
			return IDGEN_PROMOTION_NEVER;
	}
	return IDGEN_PROMOTION_NEVER;
}

/*
 * The floor that a fence sets: past all that a lost copy of the authority can
 * have granted.  Such a copy granted no further than its clock + horizon, and
 * its clock was at most clock_error ahead of every reading known here.  If the
 * field ends before that, the floor is the end of the field, which is then
 * used up.
 */
int64_t
idgen_fence_floor(const IdgenFenceFacts *facts, int64_t tick_count)
{
	int64_t		distance = facts->horizon + facts->clock_error;
	int64_t		latest = max_tick(max_tick(facts->now, facts->last_clock),
								  facts->highest_mark - facts->horizon);
	int64_t		floor;

	/* cut before adding: the field may reach INT64_MAX */
	floor = min_tick(max_tick(latest, 0), tick_count - distance) + distance;
	return min_tick(max_tick(floor, facts->above), tick_count);
}
