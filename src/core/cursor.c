/*
 * cursor.c
 *		Issue from grants; see cursor.h for the states.
 */
#include "cursor.h"

/* An empty cursor: it refuses everything until a grant is installed. */
void
idgen_cursor_init(IdgenCursor *cursor, int32_t worker)
{
	cursor->last_tick = -1;
	cursor->next_sequence = 0;
	cursor->worker = worker;
	cursor->grant_count = 0;
}

/* Forget the first "count" grants. */
static void
drop_grants(IdgenCursor *cursor, int32_t count)
{
	for (int32_t i = count; i < cursor->grant_count; i++)
		cursor->grants[i - count] = cursor->grants[i];
	cursor->grant_count -= count;
}

/*
 * Add a grant, which must follow all grants held and all ticks issued.
 *
 * Grants that the clock has passed make room for it; should the clock go back
 * again, their ticks are a gap.
 */
IdgenInstallCode
idgen_cursor_install(IdgenCursor *cursor, const IdgenGrant *grant, int64_t now)
{
	IdgenGrant *newest = cursor->grant_count > 0 ?
		&cursor->grants[cursor->grant_count - 1] : NULL;

	/* last_tick is at least -1, so this refuses a negative start, too */
	if (grant->start >= grant->end || grant->start <= cursor->last_tick ||
		(newest != NULL && grant->start < newest->end))
		return IDGEN_INSTALL_BAD;

	if (newest != NULL && grant->start == newest->end)
	{
		newest->end = grant->end;
		return IDGEN_INSTALL_MERGED;
	}
	if (cursor->grant_count == IDGEN_CURSOR_GRANTS_MAX &&
		cursor->grants[0].end <= now)
		drop_grants(cursor, 1);
	if (cursor->grant_count == IDGEN_CURSOR_GRANTS_MAX)
		return IDGEN_INSTALL_FULL;
	cursor->grants[cursor->grant_count++] = *grant;
	return IDGEN_INSTALL_ADDED;
}

/* The first sequence value of a tick that this cursor has not used. */
static inline int64_t
first_free_sequence(const IdgenCursor *cursor, int64_t tick)
{
	if (tick == cursor->last_tick)
		return cursor->next_sequence;
	/* the tuple (0,0,0) is never issued (S7) */
	return tick == 0 && cursor->worker == 0 ? 1 : 0;
}

/*
 * Take up to demand->count sequence values of one tick: the earliest tick that
 * is inside a grant, not before the clock, the last issue or min_tick, and not
 * spent.  It may be ahead of the clock by demand->run_ahead.
 *
 * Only the last four statements change the cursor; every refusal is before
 * them.
 */
IdgenCursorCode
idgen_cursor_issue(IdgenCursor *cursor, const IdgenLayout *layout,
				   const IdgenCursorDemand *demand, IdgenCursorRun *run)
{
	const int64_t sequence_count = idgen_layout_sequence_count(layout);
	int64_t		tick = demand->now;
	int64_t		sequence;
	int32_t		i = 0;

	if (tick < cursor->last_tick)
		tick = cursor->last_tick;
	if (tick < demand->min_tick)
		tick = demand->min_tick;

	/*
	 * Find the grant and a tick in it with something left.  A tick is skipped
	 * at most twice: the last one issued, and tick 0 of worker 0 when its only
	 * value is (0,0,0).
	 */
	for (;;)
	{
		while (i < cursor->grant_count && tick >= cursor->grants[i].end)
			i++;
		if (i == cursor->grant_count)
			return IDGEN_CURSOR_GRANT_ENDED;
		if (tick < cursor->grants[i].start)
			tick = cursor->grants[i].start;
		sequence = first_free_sequence(cursor, tick);
		if (sequence < sequence_count)
			break;
		tick++;
	}

	if (tick - demand->now > demand->run_ahead)
	{
		run->retry_at = tick - demand->run_ahead;
		if (cursor->last_tick >= 0 &&
			cursor->last_tick - demand->now > demand->run_ahead)
			return IDGEN_CURSOR_CLOCK_BEHIND;
		if (cursor->grants[i].start - demand->now > demand->run_ahead)
			return IDGEN_CURSOR_NOT_YET_VALID;
		return IDGEN_CURSOR_SEQUENCE_SPENT;
	}

	run->tick = tick;
	run->sequence = sequence;
	run->count = demand->count < sequence_count - sequence ?
		demand->count : sequence_count - sequence;

	if (i > 0)
		drop_grants(cursor, i);
	cursor->last_tick = tick;
	cursor->next_sequence = sequence + run->count;
	return IDGEN_CURSOR_ISSUED;
}

/* The end of the last grant held; 0 for an empty cursor. */
int64_t
idgen_cursor_granted_end(const IdgenCursor *cursor)
{
	return cursor->grant_count > 0 ?
		cursor->grants[cursor->grant_count - 1].end : 0;
}

/*
 * The earliest tick at which a cursor of "worker" continues a session whose
 * last ID was (last_tick, last_worker, any) from another cursor: the same tick
 * only upward in worker order (S11).
 */
int64_t
idgen_cursor_spill_tick(int32_t worker, int64_t last_tick, int64_t last_worker)
{
	return worker > last_worker ? last_tick : last_tick + 1;
}
