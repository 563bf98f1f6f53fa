/*
 * command.c
 *		Operations on namespaces and incarnations, each in a transaction of the
 *		authority worker of its own, durable when it is answered.
 *
 * The privilege is checked here, against the role that asks, because only here
 * it is checked against what is committed.
 */
#include "compat.h"

#include "authority/command.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "authority/fence.h"
#include "catalog/incarnation_rows.h"
#include "catalog/marks.h"
#include "catalog/namespace_cache.h"
#include "catalog/namespace_rows.h"
#include "catalog/policy_lock.h"
#include "shmem/pool.h"
#include "authority/confirm.h"
#include "authority/round.h"
#include "shmem/counters.h"
#include "shmem/clock_judge.h"
#include "catalog/table_lock.h"
#include "catalog/tables.h"

/* How far in the future an ID may be that a fence is to rise above. */
#define ABOVE_MAX_MS	INT64_C(86400000)

/* What an operation leaves to be done when it has committed. */
typedef struct IdgenAftermath
{
	bool		kill_namespace; /* its cursors */
	pg_uuid_t	uuid;
	bool		kill_incarnation;	/* the cursor of that one */
	int64		floor;			/* that was set; 0 = none was */
	IdgenNamespace *ns;			/* whose durability the answer has */
} IdgenAftermath;

/* --------------------------------------------------------------------
 * Namespaces
 * -------------------------------------------------------------------- */

/*
 * Look a namespace up whose durability the answer has; its policy stays as it is
 * until the answer is given.  NULL and the failure if that cannot be.
 */
static IdgenNamespace *
find_namespace(const char *name, IdgenError *error, IdgenAftermath *aftermath)
{
	if (!idgen_policy_hold(name, error))
		return NULL;
	aftermath->ns = idgen_namespace_find(name);
	return aftermath->ns;
}

/*
 * The namespace of a request, locked, if the role owns it; else NULL and the
 * failure.  What another session has locked is not waited for: that would hold
 * up all others.
 */
static IdgenNamespace *
owned_namespace(const IdgenMailTaken *request, IdgenError *error,
				IdgenAftermath *aftermath)
{
	IdgenNamespace *ns = find_namespace(request->mail.namespace_name, error, aftermath);

	if (error->kind != IDGEN_ERROR_NONE)
		return NULL;
	if (ns == NULL)
		idgen_error_set(error, IDGEN_ERROR_UNDEFINED, NULL, NULL);
	else if (!idgen_namespace_owned(ns, request->role))
	{
		idgen_error_set(error, IDGEN_ERROR_NOT_OWNER, NULL, NULL);
		ns = NULL;
	}
	else if (!idgen_namespace_rows_lock(ns->name))
	{
		idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE,
						  "Another session has locked the namespace.",
						  "Retry; if it goes on, look in pg_locks for who holds it.");
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

/* The first tick past an ID that somebody has seen; 0 if there is none. */
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
 * Can a floor be set past an ID (0 = none)?  Not while the clock may be far in the
 * future, nor so far ahead of it that the namespace would be at its end.
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
			 "ID " INT64_FORMAT " is of more than a day in the future; a fence above it would end the namespace until then.",
			 above);
	idgen_error_set(error, IDGEN_ERROR_TOO_LATE, detail, NULL);
	return false;
}

/* A fence on demand; only the authority itself can fence what is its own. */
static void
fence(IdgenNamespace *ns, const IdgenMail *mail, IdgenError *error,
	  IdgenAftermath *aftermath)
{
	IdgenFloorRow floor;

	if (ns->row.retired)
	{
		idgen_error_set(error, IDGEN_ERROR_RETIRED, NULL, NULL);
		return;
	}
	if (!ns->has_identity)
	{
		idgen_error_set(error, IDGEN_ERROR_COPIED,
						  "Its identity is missing, as after a restore of its marks.",
						  NULL);
		return;
	}
	if (!can_fence_above(ns, mail->above, error))
		return;
	idgen_fence_raise(ns, tick_above(ns, mail->above));
	(void) idgen_namespace_rows_floor(ns->name, &floor);
	aftermath->floor = floor.floor;
	aftermath->kill_namespace = true;
	aftermath->uuid = ns->authority.uuid;
}

/*
 * Adopt a namespace: this server and database become its authority, on the
 * operator's word that the original never issues again, or keeps to other
 * workers.
 */
static void
adopt(IdgenNamespace *ns, const IdgenMail *mail, IdgenError *error,
	  IdgenAftermath *aftermath)
{
	IdgenFloorRow floor;

	if (ns->row.retired)
	{
		idgen_error_set(error, IDGEN_ERROR_RETIRED, NULL, NULL);
		return;
	}
	if (!can_fence_above(ns, mail->above, error))
		return;
	if (mail->first_worker >= 0)
		idgen_namespace_rows_write_range(ns->name, mail->first_worker, mail->last_worker);
	idgen_fence_raise(ns, tick_above(ns, mail->above));
	idgen_fence_take_over(ns);
	(void) idgen_namespace_rows_floor(ns->name, &floor);
	aftermath->floor = floor.floor;
	aftermath->kill_namespace = ns->has_identity;
	aftermath->uuid = ns->authority.uuid;
}

/* --------------------------------------------------------------------
 * Incarnations
 * -------------------------------------------------------------------- */

static void
reject(IdgenError *error)
{
	idgen_error_set(error, IDGEN_ERROR_REJECTED,
					  "It is unknown, or the token is not its token, or another role activated it.",
					  "Check the incarnation and its token.");
}

/* The holder ends its incarnation; saying so twice is no error. */
static void
deactivate(const IdgenMailTaken *request, IdgenError *error,
		   IdgenAftermath *aftermath)
{
	IdgenIncarnationRow row;

	if (!idgen_round_is_holder(request, &row))
	{
		reject(error);
		return;
	}
	(void) find_namespace(row.namespace_name, error, aftermath);
	if (row.active && error->kind == IDGEN_ERROR_NONE)
		idgen_incarnation_rows_deactivate(request->mail.incarnation);
}

/* The owner of a namespace ends somebody's incarnation. */
static void
end_incarnation(const IdgenMailTaken *request, IdgenError *error,
				IdgenAftermath *aftermath)
{
	IdgenIncarnationRow row;
	IdgenNamespace *ns = NULL;

	if (idgen_incarnation_rows_read(request->mail.incarnation, &row))
	{
		ns = find_namespace(row.namespace_name, error, aftermath);
		if (error->kind != IDGEN_ERROR_NONE)
			return;
	}
	else if (superuser_arg(request->role))
	{
		idgen_error_set(error, IDGEN_ERROR_REJECTED, "It is unknown.",
						  "See table idgen_incarnation.");
		return;
	}
	if (ns == NULL || !idgen_namespace_owned(ns, request->role))
	{
		idgen_error_set(error, IDGEN_ERROR_FORBIDDEN,
						  "Only the owner of its namespace ends an incarnation that exists.",
						  NULL);
		return;
	}
	if (row.active)
		idgen_incarnation_rows_end(request->mail.incarnation);
	aftermath->kill_incarnation = !row.external;
}

/* --------------------------------------------------------------------
 * Serving
 * -------------------------------------------------------------------- */

/* Carry the operation out, in the transaction begun. */
static void
carry_out(const IdgenMailTaken *request, IdgenError *error,
		  IdgenAftermath *aftermath)
{
	const IdgenMail *mail = &request->mail;
	IdgenNamespace *ns;

	if (!idgen_table_lock_all_now(error))
		return;
	switch (mail->kind)
	{
		case IDGEN_REQUEST_DEACTIVATE:
			deactivate(request, error, aftermath);
			return;
		case IDGEN_REQUEST_END:
			end_incarnation(request, error, aftermath);
			return;
		case IDGEN_REQUEST_RETIRE:
			ns = owned_namespace(request, error, aftermath);
			if (ns != NULL)
				retire(ns, aftermath);
			return;
		case IDGEN_REQUEST_FENCE:
			ns = owned_namespace(request, error, aftermath);
			if (ns != NULL)
				fence(ns, mail, error, aftermath);
			return;
		case IDGEN_REQUEST_ADOPT:
			ns = owned_namespace(request, error, aftermath);
			if (ns != NULL)
				adopt(ns, mail, error, aftermath);
			return;
		case IDGEN_REQUEST_SERVE:
		case IDGEN_REQUEST_ACTIVATE:
		case IDGEN_REQUEST_ACQUIRE:
			break;
	}
	elog(ERROR, "unexpected idgen request %d", (int) mail->kind);
}

/* Calls that do not wait are told of a new floor without asking. */
static void
tell_floor(const IdgenNamespace *ns, int64 floor)
{
	IdgenError error;

	idgen_error_set(&error, IDGEN_ERROR_NOT_YET, NULL, NULL);
	(void) idgen_layout_unix_ms(&ns->row.layout, floor, &error.until_ms);
	idgen_stats_set_standing(idgen_stats_get(MyDatabaseId, ns->name), &error);
}

/*
 * After the commit: what has ended issues no more.  That comes first, since it
 * cannot fail; the rest may, if somebody is stopped in the directory.
 */
static void
clean_up(const IdgenMailTaken *request, const IdgenAftermath *aftermath)
{
	if (aftermath->kill_namespace)
		idgen_pool_kill(MyDatabaseId, &aftermath->uuid);
	if (aftermath->kill_incarnation)
	{
		idgen_pool_kill_incarnation(MyDatabaseId, request->mail.incarnation);
		idgen_confirm_forget_incarnation(request->mail.incarnation);
	}
	idgen_marks_forget_all();
	if (aftermath->floor > 0)
		tell_floor(aftermath->ns, aftermath->floor);
}

/*
 * Serve one request.  False if it has to be tried again: while the requester
 * waits, what another session has locked is.
 */
bool
idgen_command_serve(const IdgenMailTaken *request)
{
	MemoryContext context = CurrentMemoryContext;
	IdgenAftermath aftermath;
	IdgenAnswer answer;
	volatile bool done = false;

	memset(&aftermath, 0, sizeof(aftermath));
	memset(&answer, 0, sizeof(answer));
	PG_TRY();
	{
		idgen_round_begin(context);
		carry_out(request, &answer.error, &aftermath);
		idgen_round_commit(context);
		done = true;
	}
	PG_CATCH();
	{
		char		message[IDGEN_ERROR_TEXT_MAX];

		idgen_round_abort(context, message);
		idgen_error_set(&answer.error, IDGEN_ERROR_UNAVAILABLE, message,
						  NULL);
	}
	PG_END_TRY();

	if (done && answer.error.kind == IDGEN_ERROR_NONE)
		clean_up(request, &aftermath);
	if (answer.error.kind == IDGEN_ERROR_UNAVAILABLE)
		idgen_queue_note(request, &answer.error);
	else if (answer.error.kind == IDGEN_ERROR_NONE && aftermath.ns != NULL)
		idgen_confirm_answer(aftermath.ns, request, &answer);
	else
		idgen_queue_answer(request, &answer);
	idgen_policy_let_go();
	return answer.error.kind != IDGEN_ERROR_UNAVAILABLE;
}
