/*
 * command.c
 *		Carry out commands on namespaces and incarnations, each in a
 *		transaction of its own that is durable when it is answered.
 *
 * Privileges are checked here, against the role that asks, because only here
 * they are checked against what is committed.
 */
#include "compat.h"

#include "authority/command.h"

#include "miscadmin.h"

#include "authority/authority.h"
#include "authority/fence.h"
#include "authority/hand_over.h"
#include "authority/round.h"
#include "authority/transaction.h"
#include "catalog/incarnation_rows.h"
#include "catalog/marks.h"
#include "catalog/namespace_cache.h"
#include "catalog/namespace_rows.h"
#include "catalog/policy_lock.h"
#include "catalog/table_lock.h"
#include "clock.h"
#include "shmem/clock_judge.h"
#include "shmem/counters.h"
#include "shmem/pool.h"

/*
 * The pause before a command that met a lock is tried again, no matter who
 * wakes the process: it may take the whole lock timeout each time, and no
 * grant is made meanwhile.
 */
#define RETRY_AFTER_US	INT64_C(500000)

/* How far in the future the ID may be that a fence is to rise above. */
#define ABOVE_MAX_MS	INT64_C(86400000)

/* What a command leaves to be done when it has committed. */
typedef struct IdgenAftermath
{
	bool		kill_namespace; /* end the cursors of the namespace ... */
	pg_uuid_t	uuid;			/* ... with this uuid */
	bool		kill_incarnation;	/* end the cursor of the incarnation asked
									 * about */
	int64		floor;			/* the new floor; 0 = unchanged */
	bool		changed;		/* the namespace was taken over: ask again */
	IdgenHandOver ticket;		/* of a hand-over */
	IdgenNamespace *ns;			/* the answer is as durable as this namespace
								 * asks */
} IdgenAftermath;

/* A command that met a lock. */
typedef struct IdgenCommandPause
{
	uint64		number;			/* of its request */
	int64		until_us;		/* monotonic: not tried before */
} IdgenCommandPause;

/* --------------------------------------------------------------------
 * Namespaces
 * -------------------------------------------------------------------- */

/*
 * Look up the namespace that a command is about.  Its policy stays as it is
 * until the answer is given.  NULL if there is none; NULL with an error if its
 * policy is being changed.
 */
static IdgenNamespace *
find_and_hold(const char *name, IdgenError *error, IdgenAftermath *aftermath)
{
	if (!idgen_policy_hold(name, error))
		return NULL;
	aftermath->ns = idgen_namespace_find(name);
	return aftermath->ns;
}

/*
 * The namespace of a request, locked, if the role owns it; else NULL, with an
 * error.  A lock of another session is not waited for: that would hold up
 * everybody else.
 */
static IdgenNamespace *
lock_owned(const IdgenTicket *ticket, IdgenError *error, IdgenAftermath *aftermath)
{
	IdgenNamespace *ns = find_and_hold(ticket->request.namespace_name, error, aftermath);

	if (error->kind != IDGEN_ERROR_NONE)
		return NULL;
	if (ns == NULL)
		idgen_error_set(error, IDGEN_ERROR_UNDEFINED, NULL, NULL);
	else if (!idgen_namespace_owned(ns, ticket->role))
	{
		idgen_error_set(error, IDGEN_ERROR_NOT_OWNER, NULL, NULL);
		ns = NULL;
	}
	else if (!idgen_namespace_rows_lock(ns->name))
	{
		idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE,
						"Another session has locked the namespace.",
						"Retry. If the error persists, look in pg_locks for the session that holds the lock.");
		ns = NULL;
	}
	return ns;
}

static void
retire(IdgenNamespace *ns, IdgenAftermath *aftermath)
{
	if (!ns->row.retired)
		idgen_namespace_rows_retire(ns->name);
	aftermath->kill_namespace = true;
	aftermath->uuid = ns->authority.uuid;
}

/* The first tick past an ID that somebody has seen; 0 for no ID. */
static int64
tick_above(const IdgenNamespace *ns, int64 id)
{
	int64_t		tick = 0;
	int64_t		worker = 0;
	int64_t		sequence = 0;

	if (id == 0 || idgen_layout_decode(&ns->row.layout, id, &tick, &worker,
									   &sequence) != IDGEN_FIT_OK)
		return 0;
	return tick + 1;
}

/*
 * Can a floor be set past an ID (0 = none)?  Not while the clock may be far in
 * the future, and not so far ahead of the clock that the namespace would be as
 * good as ended.
 */
static bool
can_fence_above(const IdgenNamespace *ns, int64 above, IdgenError *error)
{
	char		detail[IDGEN_ERROR_TEXT_MAX];
	IdgenClockView clock;

	idgen_clock_judge(&clock);
	if (clock.verdict == IDGEN_CLOCK_AHEAD)
	{
		idgen_clock_judge_set_error(&clock, error);
		return false;
	}
	if (above == 0 || tick_above(ns, above) <=
		idgen_layout_tick_at(&ns->row.layout, clock.latest_ms + ABOVE_MAX_MS) + 1)
		return true;
	snprintf(detail, sizeof(detail),
			 "ID " INT64_FORMAT " lies more than a day in the future; after a fence above it, the namespace could not issue IDs until that time.",
			 above);
	idgen_error_set(error, IDGEN_ERROR_TOO_LATE, detail, NULL);
	return false;
}

/*
 * A fence on demand, which also accepts the row and the marks as they are.  A namespace
 * without an identity can only be adopted.
 */
static void
fence(IdgenNamespace *ns, const IdgenRequest *request, IdgenError *error,
	  IdgenAftermath *aftermath)
{
	IdgenFloorRow floor;

	if (ns->row.retired)
	{
		idgen_error_set(error, IDGEN_ERROR_RETIRED, NULL, NULL);
		return;
	}
	if (ns->row.handed_over)
	{
		idgen_error_set(error, IDGEN_ERROR_HANDED_OVER, NULL, NULL);
		return;
	}
	if (!ns->has_identity)
	{
		idgen_error_set(error, IDGEN_ERROR_COPIED,
						IDGEN_DETAIL_NO_IDENTITY,
						NULL);
		return;
	}
	if (!can_fence_above(ns, request->above, error))
		return;
	idgen_fence_raise(ns, tick_above(ns, request->above));
	idgen_namespace_rows_accept(ns->name);
	(void) idgen_namespace_rows_floor(ns->name, &floor);
	aftermath->floor = floor.floor;
	aftermath->kill_namespace = true;
	aftermath->uuid = ns->authority.uuid;
}

/*
 * Take a namespace over from whoever had it, past the tick "above" (0 = none).  The ticket
 * that was adopted, or else given, last is kept.
 */
static void
fence_and_adopt(IdgenNamespace *ns, const IdgenHandOver *ticket, int64 above)
{
	idgen_fence_raise(ns, above);
	if (ns->row.handed_over)
		idgen_namespace_rows_write_ticket(ns->name, false, idgen_hand_over_is_none(ticket) ?
										  &ns->row.ticket : ticket);
	idgen_fence_take_over(ns);
}

/*
 * Adopt a namespace: this server and database become its authority.  The
 * operator vouches that the original never issues again, or keeps to other
 * workers.  With a ticket, the original has said so itself.
 */
static void
adopt(IdgenNamespace *ns, const IdgenRequest *request, IdgenError *error,
	  IdgenAftermath *aftermath)
{
	IdgenFloorRow floor;
	IdgenTicketUse use = IDGEN_TICKET_FENCE;
	int64		above = Max(request->above, request->ticket.greatest_id);

	if (ns->row.retired)
	{
		idgen_error_set(error, IDGEN_ERROR_RETIRED, NULL, NULL);
		return;
	}
	if (!idgen_hand_over_is_none(&request->ticket))
		use = idgen_hand_over_judge(ns, request, error);
	if (use == IDGEN_TICKET_USED || use == IDGEN_TICKET_REFUSED ||
		!can_fence_above(ns, above, error))
		return;
	if (request->first_worker >= 0)
		idgen_namespace_rows_write_range(ns->name, request->first_worker,
										 request->last_worker);
	if (use == IDGEN_TICKET_MOVE)
		idgen_hand_over_take(ns, request, tick_above(ns, above));
	else
		fence_and_adopt(ns, &request->ticket, tick_above(ns, above));
	idgen_namespace_rows_accept(ns->name);
	(void) idgen_namespace_rows_floor(ns->name, &floor);
	aftermath->floor = floor.floor;
	aftermath->kill_namespace = ns->has_identity;
	aftermath->uuid = ns->authority.uuid;
}

/* End a namespace here, so that it can go on elsewhere. */
static void
hand_over(IdgenNamespace *ns, IdgenError *error, IdgenAftermath *aftermath)
{
	if (ns->row.retired)
	{
		idgen_error_set(error, IDGEN_ERROR_RETIRED, NULL, NULL);
		return;
	}
	aftermath->changed = idgen_hand_over_give(ns, &aftermath->ticket, error) ==
		IDGEN_OWNERSHIP_CHANGED;
	aftermath->kill_namespace = ns->has_identity;
	aftermath->uuid = ns->authority.uuid;
}

/* --------------------------------------------------------------------
 * Incarnations
 * -------------------------------------------------------------------- */

/* The holder ends its incarnation; to do so twice is no error. */
static void
deactivate(const IdgenTicket *ticket, IdgenError *error, IdgenAftermath *aftermath)
{
	IdgenIncarnationRow row;

	if (!idgen_round_is_holder(ticket, &row))
	{
		idgen_error_set(error, IDGEN_ERROR_REJECTED,
						IDGEN_DETAIL_NOT_HOLDER,
						"Check the incarnation and its token.");
		return;
	}
	(void) find_and_hold(row.namespace_name, error, aftermath);
	if (row.active && error->kind == IDGEN_ERROR_NONE)
		idgen_incarnation_rows_deactivate(ticket->request.incarnation);
}

/* The owner of a namespace ends any incarnation of it. */
static void
end_incarnation(const IdgenTicket *ticket, IdgenError *error, IdgenAftermath *aftermath)
{
	IdgenIncarnationRow row;
	IdgenNamespace *ns = NULL;

	if (idgen_incarnation_rows_read(ticket->request.incarnation, &row))
	{
		ns = find_and_hold(row.namespace_name, error, aftermath);
		if (error->kind != IDGEN_ERROR_NONE)
			return;
	}
	else if (superuser_arg(ticket->role))
	{
		idgen_error_set(error, IDGEN_ERROR_REJECTED, "The incarnation is unknown.",
						"Table idgen_incarnation lists the incarnations.");
		return;
	}
	if (ns == NULL || !idgen_namespace_owned(ns, ticket->role))
	{
		idgen_error_set(error, IDGEN_ERROR_FORBIDDEN,
						"Only the owner of the namespace can end its incarnations.",
						NULL);
		return;
	}
	if (row.active)
		idgen_incarnation_rows_end(ticket->request.incarnation);
	aftermath->kill_incarnation = !row.external;
}

/* --------------------------------------------------------------------
 * Serving
 * -------------------------------------------------------------------- */

/* Carry a command out, in the transaction begun. */
static void
carry_out_command(IdgenAuthority *authority, const IdgenTicket *ticket,
				  IdgenError *error, IdgenAftermath *aftermath)
{
	const IdgenRequest *request = &ticket->request;
	IdgenNamespace *ns;

	if (!idgen_table_lock_all_now(error))
	{
		authority->tables_refused = true;
		return;
	}
	switch (request->kind)
	{
		case IDGEN_REQUEST_DEACTIVATE:
			deactivate(ticket, error, aftermath);
			return;
		case IDGEN_REQUEST_END:
			end_incarnation(ticket, error, aftermath);
			return;
		case IDGEN_REQUEST_RETIRE:
			ns = lock_owned(ticket, error, aftermath);
			if (ns != NULL)
				retire(ns, aftermath);
			return;
		case IDGEN_REQUEST_FENCE:
			ns = lock_owned(ticket, error, aftermath);
			if (ns != NULL)
				fence(ns, request, error, aftermath);
			return;
		case IDGEN_REQUEST_ADOPT:
			ns = lock_owned(ticket, error, aftermath);
			if (ns != NULL)
				adopt(ns, request, error, aftermath);
			return;
		case IDGEN_REQUEST_HAND_OVER:
			ns = lock_owned(ticket, error, aftermath);
			if (ns != NULL)
				hand_over(ns, error, aftermath);
			return;
		case IDGEN_REQUEST_SERVE:
		case IDGEN_REQUEST_ACTIVATE:
		case IDGEN_REQUEST_ACQUIRE:
			break;
	}
	elog(ERROR, "unexpected idgen request %d", (int) request->kind);
}

/* Note the new floor, for calls that do not wait and so do not ask. */
static void
tell_floor(const IdgenNamespace *ns, int64 floor)
{
	IdgenError	error;

	idgen_error_set(&error, IDGEN_ERROR_NOT_YET, NULL, NULL);
	(void) idgen_layout_unix_ms(&ns->row.layout, floor, &error.until_ms);
	idgen_counters_set_standing(idgen_counters_get(MyDatabaseId, ns->name), &error);
}

/*
 * After the commit: nothing is issued any more from what has ended.  That
 * comes first, since it cannot fail.  The rest may fail, if the holder of the
 * directory lock is stopped.
 */
static void
clean_up(IdgenAuthority *authority, const IdgenTicket *ticket,
		 const IdgenAftermath *aftermath)
{
	int64		incarnation = ticket->request.incarnation;

	if (aftermath->kill_namespace)
		idgen_pool_kill(MyDatabaseId, &aftermath->uuid);
	if (aftermath->kill_incarnation)
	{
		idgen_pool_kill_incarnation(MyDatabaseId, incarnation);
		idgen_confirm_forget_incarnation(&authority->confirm, incarnation);
	}
	idgen_marks_forget_all();
	if (aftermath->floor > 0)
		tell_floor(aftermath->ns, aftermath->floor);
}

/*
 * Carry out a command in a transaction of its own.  The error says why it was
 * not carried out; kind UNAVAILABLE means that it may succeed later.
 */
static void
try_command(IdgenAuthority *authority, const IdgenTicket *ticket, IdgenError *error,
			IdgenAftermath *aftermath)
{
	IdgenTransaction transaction;

	idgen_transaction_init(&transaction, authority);
	PG_TRY();
	{
		idgen_transaction_begin(&transaction);
		carry_out_command(authority, ticket, error, aftermath);
		idgen_transaction_commit(&transaction);
	}
	PG_CATCH();
	{
		char		message[IDGEN_ERROR_TEXT_MAX];

		idgen_transaction_abort(&transaction, message);
		idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE, message, NULL);
	}
	PG_END_TRY();
}

/*
 * Serve one command.  RETRY if it has to be tried again, as after meeting a
 * lock of another session: it is tried as long as its session waits.
 */
static IdgenOutcome
serve_one(IdgenAuthority *authority, const IdgenTicket *ticket)
{
	IdgenAftermath aftermath;
	IdgenAnswer answer;

	memset(&aftermath, 0, sizeof(aftermath));
	memset(&answer, 0, sizeof(answer));
	try_command(authority, ticket, &answer.error, &aftermath);
	if (answer.error.kind == IDGEN_ERROR_UNAVAILABLE)
	{
		answer.outcome = IDGEN_OUTCOME_RETRY;
		idgen_queue_note(ticket, &answer.error);
	}
	else if (answer.error.kind != IDGEN_ERROR_NONE)
	{
		answer.outcome = IDGEN_OUTCOME_REFUSED;
		idgen_queue_answer(ticket, &answer);
	}
	else
	{
		answer.outcome = aftermath.changed ? IDGEN_OUTCOME_CHANGED : IDGEN_OUTCOME_SERVED;
		answer.ticket = aftermath.ticket;
		clean_up(authority, ticket, &aftermath);
		if (aftermath.ns != NULL)
			idgen_confirm_answer(&authority->confirm, aftermath.ns, ticket, &answer);
		else
			idgen_queue_answer(ticket, &answer);
	}
	idgen_policy_let_go();
	return answer.outcome;
}

/* No command has met a lock yet; the memory is of the current context. */
void
idgen_command_init(IdgenCommandPauses *commands)
{
	commands->pauses = palloc0(idgen_queue_count() * sizeof(IdgenCommandPause));
	commands->last_met = -1;
}

/* Is a request a command, rather than one for grants? */
bool
idgen_command_is(const IdgenTicket *ticket)
{
	return ticket->request.kind != IDGEN_REQUEST_SERVE && !idgen_round_grants_to(ticket);
}

/*
 * The index of the first request of a process after "process"; 0 if there is
 * none.
 */
static int
first_after(const IdgenTicket *tickets, int count, int process)
{
	for (int i = 0; i < count; i++)
		if (tickets[i].process > process)
			return i;
	return 0;
}

/*
 * Serve the commands among the requests, until one meets a lock.  The others
 * wait for the next call, after the grants that are due.  That call begins
 * behind the command that met the lock, so that each is tried in turn.
 * Returns the milliseconds until this is to be called again.
 */
int64
idgen_command_serve(IdgenAuthority *authority, const IdgenTicket *tickets, int count)
{
	IdgenCommandPauses *commands = &authority->commands;
	int			first = first_after(tickets, count, commands->last_met);
	int64		again_ms = PG_INT64_MAX;
	bool		met_lock = false;

	for (int i = 0; i < count; i++)
	{
		const IdgenTicket *ticket = &tickets[(first + i) % count];
		IdgenCommandPause *pause = &commands->pauses[ticket->process];
		int64		now_us = idgen_clock_monotonic_us();

		if (!idgen_command_is(ticket))
			continue;
		if (pause->number == ticket->number && now_us < pause->until_us)
		{
			again_ms = Min(again_ms, (pause->until_us - now_us) / 1000 + 1);
			continue;
		}
		if (met_lock)
			break;
		if (serve_one(authority, ticket) != IDGEN_OUTCOME_RETRY)
			continue;
		met_lock = true;
		commands->last_met = ticket->process;
		pause->number = ticket->number;
		pause->until_us = idgen_clock_monotonic_us() + RETRY_AFTER_US;

		/* waiting for the lock consumes wake-ups: look again at once */
		again_ms = 0;
	}
	return again_ms;
}
