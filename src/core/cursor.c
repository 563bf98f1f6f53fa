/*
 * cursor.c
 *		Hold grants; see cursor.h for the states, and for the issue itself.
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

/* Forget the first "count" grants; for this file and idgen_cursor_issue. */
void
idgen_cursor_drop_grants(IdgenCursor *cursor, int32_t count)
{
	for (int32_t i = count; i < cursor->grant_count; i++)
		cursor->grants[i - count] = cursor->grants[i];
	cursor->grant_count -= count;
}

/*
 * Add a grant, which must follow all grants held and all ticks issued.
 *
 * If there is no room, the oldest grant makes room once the clock has passed
 * it.  If the clock goes back again, the ticks of that grant are a gap.
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
		idgen_cursor_drop_grants(cursor, 1);
	if (cursor->grant_count == IDGEN_CURSOR_GRANTS_MAX)
		return IDGEN_INSTALL_FULL;
	cursor->grants[cursor->grant_count++] = *grant;
	return IDGEN_INSTALL_ADDED;
}

/* The end of the last grant held; 0 for an empty cursor. */
int64_t
idgen_cursor_granted_end(const IdgenCursor *cursor)
{
	return cursor->grant_count > 0 ?
		cursor->grants[cursor->grant_count - 1].end : 0;
}

/*
 * The last ID of a session came from a cursor of last_worker, at last_tick.
 * From which tick may a cursor of "worker" go on, so that the next ID is
 * greater (S11)?  From the same tick only if its worker is higher.
 */
int64_t
idgen_cursor_spill_tick(int32_t worker, int64_t last_tick, int64_t last_worker)
{
	return worker > last_worker ? last_tick : last_tick + 1;
}

/*
 * How many IDs a cursor could issue, one call after another, while the clock
 * stands still at demand->now; demand->count does not matter.
 */
int64_t
idgen_cursor_room(const IdgenCursor *cursor, const IdgenLayout *layout,
				  const IdgenCursorDemand *demand)
{
	const int64_t sequence_count = idgen_layout_sequence_count(layout);
	const int64_t limit = demand->now + demand->run_ahead + 1;
	int64_t		room = 0;

	for (int32_t i = 0; i < cursor->grant_count; i++)
	{
		int64_t		start = cursor->grants[i].start;
		int64_t		end = cursor->grants[i].end;

		start = start < demand->now ? demand->now : start;
		start = start < cursor->last_tick ? cursor->last_tick : start;
		start = start < demand->min_tick ? demand->min_tick : start;
		end = end > limit ? limit : end;
		if (start < end)
			room += (end - start) * sequence_count -
				idgen_cursor_first_free(cursor, start);
	}
	return room;
}
