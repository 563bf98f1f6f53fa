/*
 * grant.c
 *		The interval rule, the choice of a worker, the identity verdict.
 */
#include "grant.h"

static int64_t
max_tick(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t
min_tick(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/*
 * Decide the next grant of one worker.
 *
 * start = max(high_water, eligible), never in the past; end is cut to the
 * horizon and to the end of the field.  The caller stores end as the new mark,
 * conditional on the mark it passed in.  On IDGEN_GRANT_BEYOND_HORIZON,
 * *retry_at is the tick of the authority's clock at which the same request can
 * first succeed.
 */
IdgenGrantVerdict
idgen_grant_decide(const IdgenGrantFacts *facts, int64_t tick_count,
				   IdgenGrant *grant, int64_t *retry_at)
{
	int64_t		start;
	int64_t		limit;

	if (facts->length < 1 || facts->horizon < 1 || facts->high_water < 0)
		return IDGEN_GRANT_BAD_REQUEST;

	start = max_tick(max_tick(facts->high_water, facts->eligible), facts->now);
	if (start >= tick_count)
		return IDGEN_GRANT_FIELD_EXHAUSTED;

	/* now may be far before tick 0, but never near INT64_MIN or INT64_MAX:
	 * see IDGEN_UNIX_MS_MAX */
	limit = facts->now + facts->horizon;
	if (start >= limit)
	{
		*retry_at = start - facts->horizon + 1;
		return IDGEN_GRANT_BEYOND_HORIZON;
	}

	limit = min_tick(limit, tick_count);
	grant->start = start;
	grant->end = facts->length < limit - start ? start + facts->length : limit;
	return IDGEN_GRANT_OK;
}

/*
 * The earliest start of a fresh incarnation whose IDs must be greater than all
 * issued before it, whatever its worker: after every tick that an earlier one
 * can have used, which is ahead of the clock by run_ahead at most and below the
 * highest mark.
 */
int64_t
idgen_grant_ordered_start(int64_t now, int64_t run_ahead, int64_t highest_mark)
{
	return max_tick(now, min_tick(now + run_ahead + 1, highest_mark));
}

/*
 * The tick of the clock from which a cursor granted up to granted_end should
 * be granted more: one length, or half a horizon, before it can run dry.  It
 * must hold what it may run ahead, and a grant should be worth its commit: at
 * least half a length, as far as the horizon leaves room for both.
 */
int64_t
idgen_grant_due_at(int64_t granted_end, int64_t length, int64_t horizon,
				   int64_t run_ahead)
{
	int64_t		step = min_tick(length, horizon / 2);
	int64_t		lead = min_tick(step + run_ahead,
								horizon - max_tick(step / 2, 1));

	return granted_end - max_tick(lead, min_tick(run_ahead + 1, horizon - 1));
}

/*
 * The tick from which it is granted more if that costs no commit of its own: with
 * others, or because somebody asks.  A quarter of a length before it is due.
 */
int64_t
idgen_grant_due_along(int64_t granted_end, int64_t length, int64_t horizon,
					  int64_t run_ahead)
{
	return idgen_grant_due_at(granted_end, length, horizon, run_ahead) - length / 4;
}

/*
 * The least length of a cursor's next grant, where that of this one was "needed".
 * A grant came late if less was left of it when it was published than its way there
 * took, or if the cursor was dry by then: the next one is twice as long.  If half of
 * it had left time enough, the next one is a little shorter, unless another cursor
 * has come late since this was decided.  So grants become long enough to follow each
 * other without a gap, however slowly they are made, and are short again some time
 * after.
 */
int64_t
idgen_grant_length_needed(int64_t needed, const IdgenGrantTiming *timing,
						  int64_t horizon)
{
	int64_t		left = timing->grant.end - timing->published_at;
	int64_t		enough = timing->length / 4;

	if (left <= timing->published_at - timing->decided_at ||
		timing->published_at > timing->dry_at)
		return max_tick(needed, min_tick(2 * timing->length, horizon));
	if (needed > timing->length)
		return needed;
	if (timing->published_at - timing->wanted_at <= enough)
		return min_tick(needed, timing->length - max_tick(timing->length / 8, 1));
	return needed;
}

/*
 * The floor a fence sets: past all that a lost copy of the authority can have
 * granted.  Such a copy granted at most its clock + horizon, and its clock was
 * at most clock_error ahead of every reading known here.  A field that ends
 * before that is used up: the floor is its end.
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

/*
 * Judge a request against the chain of grants.  A lost answer is asked for
 * again with the same request id, so a repetition is only harmless while
 * nothing followed it; a request that names another predecessor than the last
 * grant comes from a second holder of the same incarnation.
 */
IdgenChainVerdict
idgen_chain_judge(const IdgenChainFacts *facts)
{
	if (!facts->holds_worker)
		return IDGEN_CHAIN_TAKEN;
	if (facts->is_last_request)
		return IDGEN_CHAIN_REPEATED;
	if (facts->is_recorded)
		return IDGEN_CHAIN_STALE;
	return facts->after_grant == facts->last_grant ?
		IDGEN_CHAIN_NEXT : IDGEN_CHAIN_FORKED;
}

/*
 * How many workers external incarnations may hold at a time: all but what the
 * server keeps for its own cursors, which is at most a quarter, at least one.
 */
int64_t
idgen_external_workers_max(int64_t range_size, int64_t server_workers)
{
	int64_t		kept = min_tick(server_workers, range_size / 4);

	return max_tick(range_size - max_tick(kept, 1), 0);
}

/* How many of these those of one role may hold at a time: half, at least one. */
int64_t
idgen_external_role_max(int64_t workers_max)
{
	return max_tick(workers_max / 2, 1);
}

/* The first worker of the range's class that is not below "from". */
static int64_t
first_of_class(const IdgenWorkerRange *range, int64_t from)
{
	int64_t		gap = (range->remainder - from % range->modulus +
					   range->modulus) % range->modulus;

	return from + gap;
}

/* May an authority of this range use a worker? */
bool
idgen_worker_in_range(const IdgenWorkerRange *range, int64_t worker)
{
	return worker >= range->first && worker <= range->last &&
		worker % range->modulus == range->remainder;
}

/* How many workers the range offers; 0 if its part is empty. */
int64_t
idgen_worker_range_size(const IdgenWorkerRange *range)
{
	int64_t		first = first_of_class(range, range->first);

	if (first > range->last)
		return 0;
	return (range->last - first) / range->modulus + 1;
}

/*
 * Choose uniformly among the workers of a range that are not busy; -1 if all
 * are.  "busy" holds distinct workers in ascending order; those outside the
 * range or its class are ignored.
 */
int64_t
idgen_worker_choose(const IdgenWorkerRange *range, const int64_t *busy,
					size_t busy_count, uint64_t random)
{
	int64_t		size = idgen_worker_range_size(range);
	int64_t		first = first_of_class(range, range->first);
	int64_t		free_count = size;
	int64_t		rank;

	for (size_t i = 0; i < busy_count; i++)
		if (idgen_worker_in_range(range, busy[i]))
			free_count--;
	if (free_count <= 0)
		return -1;

	/* the rank-th free worker: every busy one at or below it pushes it up */
	rank = (int64_t) (random % (uint64_t) free_count);
	for (size_t i = 0; i < busy_count; i++)
	{
		if (!idgen_worker_in_range(range, busy[i]))
			continue;
		if ((busy[i] - first) / range->modulus > rank)
			break;
		rank++;
	}
	return first + rank * range->modulus;
}

/* Is a number among ascending ones? */
static bool
contains(const int64_t *numbers, size_t count, int64_t number)
{
	size_t		first = 0;

	while (count > 0)
	{
		size_t		half = count / 2;

		if (numbers[first + half] == number)
			return true;
		if (numbers[first + half] < number)
		{
			first += half + 1;
			count -= half + 1;
		}
		else
			count = half;
	}
	return false;
}

/*
 * Where no worker is free: of those of a range that were used before and are not
 * held, the one whose reservation ends first, the lowest of several; -1 if there is
 * none.  "held" is ascending.
 */
int64_t
idgen_worker_earliest(const IdgenWorkerRange *range,
					  const IdgenWorkerMark *marks, size_t mark_count,
					  const int64_t *held, size_t held_count)
{
	const IdgenWorkerMark *earliest = NULL;

	for (size_t i = 0; i < mark_count; i++)
	{
		const IdgenWorkerMark *mark = &marks[i];

		if (!idgen_worker_in_range(range, mark->worker) ||
			contains(held, held_count, mark->worker))
			continue;
		if (earliest == NULL || mark->high_water < earliest->high_water ||
			(mark->high_water == earliest->high_water && mark->worker < earliest->worker))
			earliest = mark;
	}
	return earliest == NULL ? -1 : earliest->worker;
}

/* An inode and, where both readings have one, a birth time. */
static bool
same_file(uint64_t inode_a, int64_t birth_a, uint64_t inode_b, int64_t birth_b)
{
	if (inode_a != inode_b)
		return false;
	return birth_a == 0 || birth_b == 0 || birth_a == birth_b;
}

/*
 * Is this authority still the one whose identity was recorded?  The strongest
 * difference is named, in this order: a copy or a promotion of a server must not
 * pass for a copy of a database, which is harmless.  Files are not compared after
 * a change of timeline: a standby's files are never the primary's.
 */
IdgenIdentityVerdict
idgen_identity_compare(const IdgenIdentity *recorded, const IdgenIdentity *found)
{
	if (recorded->system_identifier != found->system_identifier)
		return IDGEN_IDENTITY_OTHER_SYSTEM;
	if (recorded->timeline != found->timeline)
		return IDGEN_IDENTITY_OTHER_TIMELINE;
	if (!same_file(recorded->control_inode, recorded->control_birth,
				   found->control_inode, found->control_birth))
		return IDGEN_IDENTITY_OTHER_CONTROL;
	if (recorded->database != found->database)
		return IDGEN_IDENTITY_OTHER_DATABASE;
	if (!same_file(recorded->version_inode, recorded->version_birth,
				   found->version_inode, found->version_birth))
		return IDGEN_IDENTITY_OTHER_FILES;
	return IDGEN_IDENTITY_SAME;
}

/*
 * Was the database made anew on the same server, under its old number?  Then its
 * tables may be older than what the one before it granted, on this timeline too.
 * Told across a change of timeline, because the control file is that of the record.
 */
bool
idgen_identity_is_recreated(const IdgenIdentity *recorded, const IdgenIdentity *found)
{
	IdgenIdentity same_timeline = *recorded;

	same_timeline.timeline = found->timeline;
	return idgen_identity_compare(&same_timeline, found) == IDGEN_IDENTITY_OTHER_FILES;
}

/*
 * Was this server restarted and promoted on its own files, as an HA engine does with
 * a leader that crashed?  They hold all that it ever granted, so this is a restart.
 * pg_rewind keeps the control file, and its birth time, but not all that was granted.
 * It takes the server to another's timeline, so that the next one is not the successor
 * of the recorded one; but a server that is started after it as it is, without being
 * made a standby, stays on that timeline.  So what was recovered since the record
 * counts as well, and what was shortly before it, since a clock may have gone back.
 * Under "split" the part changes with the timeline, whoever is promoted.
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
 * What to do about a verdict, before the first grant.  Another database of the same
 * server is another ID space; where anything else differs, the original may live.
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
			/* no twin can live, but the tables may be those of a template */
			return IDGEN_TAKEOVER_FENCED;
		case IDGEN_IDENTITY_OTHER_DATABASE:
			return IDGEN_TAKEOVER_TEMPLATE;
		case IDGEN_IDENTITY_OTHER_SYSTEM:
		case IDGEN_IDENTITY_OTHER_CONTROL:
			break;
	}
	return fence_copies ? IDGEN_TAKEOVER_FENCED : IDGEN_TAKEOVER_REFUSED;
}

/* Into how many parts a new namespace with so many workers is split. */
int
idgen_split_parts(int64_t worker_count)
{
	return worker_count >= IDGEN_SPLIT_MANY_WORKERS ?
		IDGEN_SPLIT_PARTS_MANY : IDGEN_SPLIT_PARTS_FEW;
}

/* Has every part of a range of so many workers, which are consecutive, one of them? */
bool
idgen_split_has_workers(int64_t worker_count, int parts)
{
	return worker_count >= parts;
}

/*
 * The part that a timeline uses: worker % parts.  By the number of the timeline
 * alone, so that a server knows it whatever has become of its history.
 */
int
idgen_split_class(uint32_t timeline, int parts)
{
	return (int) (timeline % (uint32_t) parts);
}

/* The latest time, N ago or longer, among those known so far. */
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
 * Those who used it before are the ancestors "parts" timelines ago and earlier.  If
 * there are none, nobody did.  Else the nearest of them lost its role when the
 * timeline after it began, so each timeline since then, up to the present one, tells:
 * if one is known to have begun N ago, with N = horizon + clock error, nothing that was
 * granted before it is still to come.  *begun_ms is that time; the floor must be past
 * it by N, for a clock that goes back.
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
 * What a change of timeline means (DESIGN 8).  *begun_ms is IDGEN_BEGUN_NEVER, or,
 * where "split" goes on at once because of it, when a timeline had begun.
 *
 * A history that does not lead back to the record says nothing, and one with a target
 * may have lost grants that were confirmed, or made by this very part.
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
