/*
 * hand_over.c
 *		Hand a namespace over, and adopt one by a ticket.
 *
 * A planned move costs no fence, because the side that hands over says what it has issued.
 * It kills its cursors first and reads then, in the authority process: nobody else opens
 * cursors, and this process opens none before the hand-over has committed.  So the ticket
 * is true when it is written.  From the commit on, the row of the namespace says that it is
 * handed over, here and in everything that is made from here later.
 *
 *		a crash before the commit		nothing is handed over; cursors open again
 *		a crash after it, or no answer	the ticket is in the row, and is returned again
 *
 * Whoever adopts the ticket begins past the greatest ID in it.  What was granted beyond
 * that on the other side is void: no cursor lives there, and grants to external generators
 * count to their ends.
 */
#include "compat.h"

#include "authority/hand_over.h"

#include "miscadmin.h"

#include "catalog/incarnation_rows.h"
#include "catalog/mark_rows.h"
#include "catalog/marks.h"
#include "catalog/namespace_rows.h"
#include "random.h"
#include "settings.h"
#include "shmem/ended.h"
#include "shmem/pool.h"

/* --------------------------------------------------------------------
 * Handing over
 * -------------------------------------------------------------------- */

/* Are the marks of a namespace, and its row, as idgen wrote them? */
static bool
is_intact(const IdgenNamespace *ns, IdgenError *error)
{
	switch (idgen_mark_rows_load(ns->name, idgen_marks_get(&ns->authority.uuid, ns->name)))
	{
		case IDGEN_LOAD_OK:
			return true;
		case IDGEN_LOAD_NO_IDENTITY:
			idgen_error_set(error, IDGEN_ERROR_COPIED, IDGEN_DETAIL_NO_IDENTITY, NULL);
			break;
		case IDGEN_LOAD_DAMAGED:
			idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE, IDGEN_DETAIL_MARKS_DAMAGED,
							IDGEN_HINT_ROW_CHANGED);
			break;
		case IDGEN_LOAD_ROW_CHANGED:
			idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE, IDGEN_DETAIL_ROW_CHANGED,
							IDGEN_HINT_ROW_CHANGED);
			break;
	}
	return false;
}

/*
 * Have all cursors of a namespace ended, and is it known until when they issued?  A
 * process that was stopped while it killed a cursor has not noted its end yet.
 */
static bool
issued_until(const IdgenNamespace *ns, int64 *until_ms)
{
	int64		worker;

	return idgen_pool_workers(MyDatabaseId, &ns->authority.uuid, &worker, 1) == 0 &&
		idgen_ended_issued_until(MyDatabaseId, ns->name, until_ms);
}

/* The tick past all that was issued; it is 0 if nothing was. */
static int64
issued_end(const IdgenNamespace *ns)
{
	const IdgenLayout *layout = &ns->row.layout;
	int64		end = idgen_namespace_rows_highest_mark(ns->name);
	int64		until_ms;
	IdgenFloorRow floor;

	if (!issued_until(ns, &until_ms))
		return end;
	(void) idgen_namespace_rows_floor(ns->name, &floor);
	if (until_ms > 0)
		end = Min(end, idgen_layout_tick_at(layout, until_ms - 1) + 1);
	else
		end = 0;
	return Max(end, Max(floor.floor, floor.external_end));
}

/*
 * The tick by which all that an ancestor of a promoted server had granted has ended: a
 * length of a fence after this server took the namespace over.  Under "split" the ancestor
 * used other workers, and its last grants may not have been received here.
 */
static int64
ancestors_end(const IdgenNamespace *ns)
{
	const IdgenLayout *layout = &ns->row.layout;

	if (ns->authority.identity.timeline <= 1)
		return 0;
	return idgen_layout_tick_at(layout, idgen_namespace_rows_recorded_ms(ns->name) +
								layout->horizon_ms + idgen_max_clock_error_ms) + 1;
}

/* The greatest ID before a tick, if the field has that tick; 0 for tick 0. */
static int64
greatest_id_before(const IdgenLayout *layout, int64 tick)
{
	int64		last = Min(tick, idgen_layout_tick_count(layout)) - 1;

	if (last < 0)
		return 0;
	return idgen_layout_assemble(layout, last, idgen_layout_worker_count(layout) - 1,
								 idgen_layout_sequence_count(layout) - 1);
}

/*
 * Hand a namespace over.  Asked again, the ticket is the same.  REFUSED, with the error, if
 * that cannot be; CHANGED if the namespace has just been taken over, and is to be asked for
 * again.
 */
IdgenOwnership
idgen_hand_over_give(IdgenNamespace *ns, IdgenHandOver *ticket, IdgenError *error)
{
	IdgenOwnership ownership;

	if (ns->row.handed_over)
	{
		*ticket = ns->row.ticket;
		return IDGEN_OWNERSHIP_OURS;
	}
	ownership = idgen_fence_verify(ns, error);
	if (ownership != IDGEN_OWNERSHIP_OURS)
		return ownership;
	if (!is_intact(ns, error))
		return IDGEN_OWNERSHIP_REFUSED;
	idgen_pool_kill(MyDatabaseId, &ns->authority.uuid);
	idgen_random_uuid(&ticket->number);
	ticket->greatest_id = greatest_id_before(&ns->row.layout, Max(issued_end(ns), ancestors_end(ns)));
	idgen_incarnation_rows_end_all(ns->name);
	idgen_namespace_rows_write_ticket(ns->name, true, ticket);
	return IDGEN_OWNERSHIP_OURS;
}

/* --------------------------------------------------------------------
 * Adopting by a ticket
 * -------------------------------------------------------------------- */

static IdgenTicketUse
refuse(IdgenError *error, IdgenErrorKind kind, const char *detail, const char *hint)
{
	idgen_error_set(error, kind, detail, hint);
	return IDGEN_TICKET_REFUSED;
}

/*
 * What does a ticket mean here?  The session has seen that its format is that of the
 * namespace.
 */
IdgenTicketUse
idgen_hand_over_judge(const IdgenNamespace *ns, const IdgenRequest *request,
					  IdgenError *error)
{
	bool		here = idgen_fence_is_here(ns);
	bool		known = idgen_same_uuid(&ns->row.ticket.number, &request->ticket.number);

	if (known && here)
		return ns->row.handed_over ? IDGEN_TICKET_FENCE : IDGEN_TICKET_USED;
	if (known && !ns->row.handed_over)
		return refuse(error, IDGEN_ERROR_COPIED,
					  "This is a copy of the side that has adopted the ticket.", NULL);
	if (request->ticket.greatest_id < ns->row.ticket.greatest_id)
		return refuse(error, IDGEN_ERROR_TICKET,
					  "The namespace has given or adopted a later ticket.",
					  "Adopt the last ticket of the namespace.");

	/*
	 * one that was given here before, or one of a side that has issued
	 * nothing since
	 */
	if (ns->row.handed_over && !known &&
		request->ticket.greatest_id == ns->row.ticket.greatest_id)
		return IDGEN_TICKET_FENCE;
	if (idgen_same_uuid(&ns->row.lineage, &request->lineage))
		return IDGEN_TICKET_MOVE;

	/* IDs of two lineages can be equal */
	if (!here)
		return refuse(error, IDGEN_ERROR_TICKET,
					  "This is a copy of a namespace with another lineage, which may still issue IDs.",
					  "Adopt it without the ticket.");
	if (idgen_namespace_rows_ever_granted(ns->name))
		return refuse(error, IDGEN_ERROR_TICKET,
					  "The namespace has issued IDs of its own, which has another lineage.",
					  "Adopt the ticket where the namespace has issued nothing yet, or in a copy of the side that handed it over.");
	return IDGEN_TICKET_MOVE;
}

/*
 * Go on with a namespace that another side has handed over, at or after the tick "above",
 * which is past all that was issued there.
 *
 * In a copy that was made after the hand-over, the marks of workers reach as far as the
 * other side had granted.  Nothing can have been issued between the ticket and them, and
 * nothing was granted here, so they are dropped: the floor stands in for them.
 */
void
idgen_hand_over_take(IdgenNamespace *ns, const IdgenRequest *request, int64 above)
{
	if (ns->row.handed_over &&
		idgen_same_uuid(&ns->row.ticket.number, &request->ticket.number))
		idgen_namespace_rows_drop_marks(ns->name);
	idgen_namespace_rows_raise_floor(ns->name, above);
	idgen_incarnation_rows_end_all(ns->name);
	if (!idgen_same_uuid(&ns->row.lineage, &request->lineage))
		idgen_namespace_rows_write_lineage(ns->name, &request->lineage);
	idgen_namespace_rows_write_ticket(ns->name, false, &request->ticket);
	idgen_fence_take_over(ns);
}
