/*
 * capacity.c
 *		Refuse a batch that cannot be issued as a whole, before it begins.
 *
 * The estimates err on the high side: a batch that could be issued is never
 * refused.
 */
#include "compat.h"

#include "session/capacity.h"

#include "clock.h"
#include "session/cause.h"
#include "settings.h"

/*
 * How many IDs the cursors could issue to this session if the clock stood still.
 * It may be fewer, since other sessions issue from them, too.  False if it is not
 * known, because a cursor is busy or gone.
 */
static bool
room_now(IdgenSession *session, int64 *room)
{
	const IdgenNamespace *ns = session->ns;

	*room = 0;
	for (int i = 0; i < session->ref_count; i++)
	{
		const IdgenCursorRef *ref = &session->refs[i];
		IdgenCursorDemand demand = {
			.run_ahead = ns->run_ahead,
			.min_tick = ref->generation == session->last_generation ? 0 :
			idgen_cursor_spill_tick(ref->worker, session->last_tick,
									session->last_worker)
		};
		bool		known;

		if (!LWLockConditionalAcquire(&ref->slot->lock, LW_SHARED))
			return false;
		known = pg_atomic_read_u64(&ref->slot->generation) == ref->generation;
		demand.now = idgen_layout_tick_at(&ns->row.layout, idgen_clock_wall_ms());
		*room += idgen_cursor_room(&ref->slot->cursor, &ns->row.layout, &demand);
		LWLockRelease(&ref->slot->lock);
		if (!known)
			return false;
	}
	return true;
}

/*
 * The most IDs that a call can get.  If neither another tick nor another
 * cursor can come before its deadline, it gets at most what is there now.
 * Otherwise it gets at most what the greatest possible number of cursors can
 * issue in all ticks until then.  False if the number is not known, or if
 * there is no cursor.
 */
static bool
most_in_time(const IdgenCall *call, int64 *most)
{
	IdgenSession *session = call->session;
	const IdgenNamespace *ns = session->ns;
	const IdgenLayout *layout = &ns->row.layout;
	int64		left_ms = (call->deadline - idgen_clock_monotonic_us()) / 1000 + 1;
	int64		cursors = Max(Min(idgen_max_workers_per_namespace,
								  (int64) ns->row.last_worker - ns->row.first_worker + 1),
							  session->ref_count);
	int64		now_ms = idgen_clock_wall_ms();
	int64		ticks = idgen_layout_tick_at(layout, now_ms + left_ms) -
		idgen_layout_tick_at(layout, now_ms);

	if (session->ref_count == 0)
		return false;
	if (!call->may_wait || (ticks == 0 && session->ref_count == cursors))
		return room_now(session, most);

	/* tested first, so that the product cannot overflow */
	if (ticks + ns->run_ahead + 1 > IDGEN_MAX_BATCH_LIMIT)
		*most = IDGEN_MAX_BATCH_LIMIT;
	else
		*most = Min(cursors * (ticks + ns->run_ahead + 1) * idgen_layout_sequence_count(layout),
					IDGEN_MAX_BATCH_LIMIT);
	return true;
}

/*
 * If a batch cannot be issued in its time, wish for another cursor and raise
 * an error.
 */
void
idgen_capacity_check_batch(IdgenCall *call, int32 count)
{
	char		detail[IDGEN_ERROR_TEXT_MAX];
	int64		most;

	if (count < 2)
		return;
	idgen_session_list_cursors(call->session);

	/* if nothing at all can be issued, waiting will find the cause */
	if (!most_in_time(call, &most) || most == 0 || count <= most)
		return;
	idgen_wait_wish_for_cursor(call);
	snprintf(detail, sizeof(detail),
			 "%d IDs were requested, but only " INT64_FORMAT " can be issued in the time that the call may take; none was issued.",
			 count, most);
	idgen_error_set(&call->error, IDGEN_ERROR_CAPACITY, detail,
					"Request fewer IDs, raise \"idgen.wait_timeout\" or \"idgen.max_workers_per_namespace\", or use a format with more sequence bits.");
	idgen_cause_raise(call);
}
