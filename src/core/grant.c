/*
 * grant.c
 *		Decide a grant: its interval, when it is due, and whether a request for
 *		it follows the last one.
 */
#include "grant.h"
#include "tick.h"

/*
 * Decide the next grant of one worker.
 *
 * start = max(high_water, eligible, now); end is cut to the horizon and to the
 * end of the field.  The caller stores end as the new mark, on the condition
 * that the mark is still the one it passed in.  On IDGEN_GRANT_BEYOND_HORIZON,
 * *retry_at is the tick of the authority's clock from which the same request
 * can succeed.
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

	/*
	 * now may be far before tick 0, but never near INT64_MIN or INT64_MAX:
	 * see IDGEN_UNIX_MS_MAX
	 */
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
 * The earliest start of a fresh incarnation whose IDs, whatever its worker, must be
 * greater than all IDs issued before.  It lies after every tick that an earlier
 * incarnation can have used; such a tick is ahead of the clock by run_ahead at
 * most, and below the highest mark.
 */
int64_t
idgen_grant_ordered_start(int64_t now, int64_t run_ahead, int64_t highest_mark)
{
	return max_tick(now, min_tick(now + run_ahead + 1, highest_mark));
}

/*
 * The tick from which a cursor that has been granted ticks up to granted_end
 * should be granted more: one length, but at most half a horizon, before it
 * can run dry.  The new grant should be worth its commit: if the horizon would
 * cut it to less than half of that time, the cursor is due later.  But the
 * cursor must keep as many ticks as it may run ahead, if the horizon has room
 * for them.
 */
int64_t
idgen_grant_due_at(int64_t granted_end, int64_t length, int64_t horizon,
				   int64_t run_ahead)
{
	int64_t		margin = min_tick(length, horizon / 2);
	int64_t		lead = min_tick(margin + run_ahead,
								horizon - max_tick(margin / 2, 1));

	return granted_end - max_tick(lead, min_tick(run_ahead + 1, horizon - 1));
}

/*
 * The tick from which a cursor is granted more if that costs no extra commit,
 * because other cursors are granted in the same round or somebody asks: a quarter
 * of a length before it is due.
 */
int64_t
idgen_grant_due_along(int64_t granted_end, int64_t length, int64_t horizon,
					  int64_t run_ahead)
{
	return idgen_grant_due_at(granted_end, length, horizon, run_ahead) - length / 4;
}

/*
 * The least length of a cursor's next grant; "needed" is the least length of this
 * one.  A grant came late if, when it was published, less of it was left than the
 * time from its decision to its publication, or if the cursor had run dry: the next
 * grant is then twice as long.  If a grant of half the length would have been early
 * enough, the next one is a little shorter, unless the grant of another cursor has
 * come late since this one was decided.  So grants become long enough to follow each
 * other without a gap, however slowly they are made, and become short again some
 * time later.
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
 * Judge a request against the chain of grants.  A client that lost an answer asks
 * again with the same request id.  That is harmless only as long as no other
 * request has followed.  A request that names a predecessor other than the last
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
