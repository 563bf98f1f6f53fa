/*
 * cause.c
 *		Find out why a call could not issue, and report it.
 *
 * There are three sources: what the authority answered (call->error), what the
 * last pass over the cursors met, and where the time of the call went.  The
 * strongest cause among them is reported.
 */
#include "compat.h"

#include "session/cause.h"

#include "clock.h"
#include "shmem/clock_judge.h"
#include "shmem/counters.h"
#include "shmem/lock.h"

/* Grants of at most this length may be over before a call can use them. */
#define SHORT_HORIZON_MS	INT64_C(100)

/*
 * The clock is judged before each grant, and a cursor in use is granted more at
 * least this often.  So an ID further ahead of the clock than this is from before a
 * step back.
 */
#define JUDGED_WITHIN_MS	INT64_C(2000)

/* Raise the error of a call, and count it. */
void
idgen_cause_raise(IdgenCall *call)
{
	idgen_counters_note_error(call->session->stats, &call->error);
	idgen_error_report(&call->error, call->session->name);
}

/*
 * Is the clock the cause?  If it is behind what cursors issued, it was set back.
 * If it is behind what this session alone issued, the step back was accepted, and
 * other sessions begin anew.
 */
static bool
find_in_clock(IdgenCall *call, const IdgenPass *pass, IdgenError *error)
{
	IdgenSession *session = call->session;
	IdgenClockView clock;

	if (!pass->behind && !pass->not_yet)
		return false;
	idgen_clock_judge(&clock);
	if (clock.verdict == IDGEN_CLOCK_BEHIND)
		idgen_clock_judge_set_error(&clock, error);
	else if (!pass->behind)
		return false;
	else if (session->last_tick > idgen_layout_tick_at(&session->ns->row.layout,
													   clock.wall_ms + JUDGED_WITHIN_MS))
		idgen_error_set(error, IDGEN_ERROR_CLOCK,
						"This session issued IDs for a later time before the clock was set back.",
						"Reconnect; a new session issues IDs for the current time.");
	else
		idgen_error_set(error, IDGEN_ERROR_CLOCK, NULL, NULL);
	return true;
}

/*
 * No cursor has a grant, and the authority has named no cause.  If the call spent
 * most of its time waiting for sequence values, or on grants that expired at once,
 * report that.
 */
static void
find_in_waits(const IdgenCall *call, IdgenError *error)
{
	int64		horizon_ms = call->session->ns->row.layout.horizon_ms;
	int64		waiting_us = idgen_clock_monotonic_us() - call->waiting_since_us;
	IdgenErrorKind kind = IDGEN_ERROR_GRANT;
	const char *hint = NULL;
	char		detail[IDGEN_ERROR_TEXT_MAX];

	if (call->spent_us > call->dry_us + waiting_us)
	{
		kind = IDGEN_ERROR_CAPACITY;
		snprintf(detail, sizeof(detail),
				 "The call waited for " INT64_FORMAT " ms while every sequence value of the current tick was used up.",
				 call->spent_us / 1000);
	}
	else if (waiting_us >= call->dry_us)
		snprintf(detail, sizeof(detail),
				 "The authority process did not answer within " INT64_FORMAT " ms, and no cause is known.",
				 waiting_us / 1000);
	else if (call->served_count > 1 && horizon_ms <= SHORT_HORIZON_MS)
	{
		kind = IDGEN_ERROR_UNAVAILABLE;
		snprintf(detail, sizeof(detail),
				 "Grants expired before they could be used: the horizon of the namespace lets them end at most " INT64_FORMAT " ms after they are decided.",
				 horizon_ms);
		hint = "Use a namespace with a longer horizon.";
	}
	else
		snprintf(detail, sizeof(detail),
				 "The authority process answered, but this call found no unused grant within " INT64_FORMAT " ms, and no cause is known.",
				 (call->vain_us + waiting_us) / 1000);
	idgen_error_set(error, kind, detail, hint);
}

/* Every cursor is busy: is there a crowd, or is a process stopped inside? */
static void
find_in_locks(const IdgenCall *call, IdgenError *error)
{
	if (call->met_lock && idgen_session_issued_by_all(call->session) != call->issued_then)
		idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE,
						"Every cursor was busy each time this call tried it, while other sessions issued from it.",
						IDGEN_HINT_CROWDED);
	else
		idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE,
						"Every cursor is locked by a process that seems to be stopped.",
						IDGEN_HINT_STOPPED);
}

/* The cause that a pass alone shows; kind NONE if it shows none. */
static void
find_in_pass(IdgenCall *call, const IdgenPass *pass, IdgenError *error)
{
	bool		found = find_in_clock(call, pass, error);
	int64		retry_ms;

	if (!found && pass->locked && !pass->spent)
		find_in_locks(call, error);
	else if (!found && pass->retry_at == IDGEN_RETRY_NEVER &&
			 call->error.kind == IDGEN_ERROR_NONE)
		find_in_waits(call, error);
	else if (!found)
		idgen_error_set(error, pass->not_yet ? IDGEN_ERROR_NOT_YET :
						pass->spent ? IDGEN_ERROR_CAPACITY : IDGEN_ERROR_NONE,
						NULL, NULL);

	if ((error->kind == IDGEN_ERROR_CLOCK ||
		 error->kind == IDGEN_ERROR_NOT_YET ||
		 error->kind == IDGEN_ERROR_CAPACITY) &&
		idgen_layout_unix_ms(&call->session->ns->row.layout,
							 Max(pass->retry_at, 0), &retry_ms))
		error->until_ms = Max(error->until_ms, retry_ms);
}

/*
 * A call may not wait.  Its cause is what is known without asking: a wrong clock,
 * the end of the timestamp field, or why the authority grants nothing.
 */
void
idgen_cause_find_unasked(IdgenCall *call)
{
	const IdgenLayout *layout = &call->session->ns->row.layout;
	IdgenClockView clock;
	IdgenError	standing;

	idgen_clock_judge(&clock);
	if (clock.verdict == IDGEN_CLOCK_AHEAD)
		idgen_clock_judge_set_error(&clock, &call->error);
	else if (idgen_layout_tick_at(layout, clock.wall_ms) >= idgen_layout_tick_count(layout))
		idgen_error_set(&call->error, IDGEN_ERROR_EXHAUSTED, NULL, NULL);
	else if (idgen_counters_standing(call->session->stats, &standing))
		call->error = standing;
	else
		idgen_error_set(&call->error, IDGEN_ERROR_GRANT,
						"No grant is available and \"idgen.wait_timeout\" is 0; one has been requested.",
						"Retry, or raise \"idgen.wait_timeout\".");
}

/* Report the strongest cause known: of this pass, or found before. */
void
idgen_cause_report(IdgenCall *call, const IdgenPass *pass)
{
	IdgenError	error;

	find_in_pass(call, pass, &error);
	idgen_error_strengthen(&call->error, &error);
	idgen_cause_raise(call);
}
