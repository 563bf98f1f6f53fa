/*
 * wait.c
 *		Wait until a call can issue: for a tick, a grant or a busy cursor.
 *
 * No lock is held while a call waits; every wait can be cancelled and ends at the
 * call's deadline (S10).  After a wait the caller tries all cursors again: other
 * sessions may have been faster.
 */
#include "compat.h"

#include "session/wait.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/wait_event.h"

#include "clock.h"
#include "session/cause.h"
#include "session/first_use.h"
#include "settings.h"
#include "shmem/counters.h"
#include "shmem/lock.h"
#include "shmem/request_queue.h"

/* Contentions of a session after which it asks for another cursor. */
#define CONTENTIONS_WORTH_A_CURSOR	64

/* Waits shorter than this are slept through without a latch. */
#define SHORT_WAIT_US		INT64_C(2000)

/*
 * Even a call that must not wait tries a busy cursor for this long, with this
 * pause between two tries.
 */
#define LOCKED_AT_LEAST_US	INT64_C(10000)
#define LOCKED_PAUSE_US		INT64_C(50)

/*
 * Once two requests have been served in vain, the call pauses before it posts
 * another one: first for the minimum, then twice as long each time, up to the
 * maximum.
 */
#define VAIN_PAUSE_MIN_US	INT64_C(500)
#define VAIN_PAUSE_MAX_US	INT64_C(50000)
#define VAIN_DOUBLINGS_MAX	7

/* A request for which nobody waits is carried out within this time or not at all. */
#define UNATTENDED_US		INT64_C(5000000)

/* What to wait for. */
typedef enum IdgenWait
{
	IDGEN_WAIT_LOCK,
	IDGEN_WAIT_GRANT,
	IDGEN_WAIT_TICK
} IdgenWait;

/* Begin a call.  If it had to open its namespace, it has had a deadline since then. */
void
idgen_wait_begin(IdgenCall *call, IdgenSession *session, IdgenDeadline deadline)
{
	int64		now_us = idgen_clock_monotonic_us();

	call->session = session;
	call->deadline = deadline != IDGEN_DEADLINE_UNSET ? deadline :
		idgen_deadline_from(now_us);
	call->lock_deadline = Max(call->deadline, now_us + LOCKED_AT_LEAST_US);
	call->may_wait = idgen_wait_timeout_ms > 0;
	idgen_error_clear(&call->error);
	call->spent_us = 0;
	call->dry_us = 0;
	call->vain_us = 0;
	call->running_since_us = now_us;
	call->served_count = 0;
	call->vain_count = 0;
	call->told_used_up = false;
	call->met_lock = false;
}

/* Has the session met so much contention that another cursor would help? */
static bool
is_contended(const IdgenSession *session)
{
	return session->contentions >= CONTENTIONS_WORTH_A_CURSOR;
}

/* --------------------------------------------------------------------
 * Asking
 * -------------------------------------------------------------------- */

static uint64
post_request(IdgenCall *call, bool another_cursor)
{
	IdgenSession *session = call->session;
	IdgenRequest request;

	memset(&request, 0, sizeof(request));
	request.kind = IDGEN_REQUEST_SERVE;
	strlcpy(request.namespace_name, session->name, NAMEDATALEN);
	request.namespace_uuid = session->uuid;
	request.cursors_seen = another_cursor ? session->ref_count : -1;
	request.expires_at_us = call->may_wait ? call->deadline :
		idgen_clock_monotonic_us() + UNATTENDED_US;
	return idgen_queue_post(&request);
}

/*
 * Ask for grants, and with another_cursor for one more cursor, without waiting for
 * them.  True if they are there already, because the namespace is this transaction's
 * own.
 */
static bool
ask(IdgenCall *call, bool another_cursor)
{
	IdgenError	error;

	if (call->session->ns->created_here)
		return idgen_first_use_grant(call->session, another_cursor, &error);
	(void) post_request(call, another_cursor);
	return false;
}

/* Ask for one more cursor, without waiting for it; true if it is there already. */
bool
idgen_wait_wish_for_cursor(IdgenCall *call)
{
	IdgenSession *session = call->session;

	session->contentions = 0;
	return session->ref_count > 0 &&
		session->ref_count < idgen_max_workers_per_namespace && ask(call, true);
}

/* --------------------------------------------------------------------
 * Sleeping
 * -------------------------------------------------------------------- */

/* The monotonic time at which the wall clock will show a Unix millisecond. */
static int64
monotonic_at(int64 unix_ms)
{
	int64		wait_us;

	if (unix_ms > PG_INT64_MAX / 1000)
		return PG_INT64_MAX;
	wait_us = unix_ms * 1000 - idgen_clock_wall_us();
	return idgen_clock_monotonic_us() + Max(wait_us, 1);
}

/*
 * Sleep until a monotonic time, or until something happens; cancellable.  A
 * process that wakes up much later than that was stopped, which is counted.
 */
static void
sleep_until(IdgenCall *call, int64 wake_us)
{
	static uint32 wait_event = 0;
	int64		left_us = wake_us - idgen_clock_monotonic_us();

	CHECK_FOR_INTERRUPTS();
	if (left_us <= 0)
		return;
	if (wait_event == 0)
		wait_event = idgen_wait_event("IdgenTick");
	if (left_us <= SHORT_WAIT_US)
	{
		pgstat_report_wait_start(wait_event);
		pg_usleep((long) left_us);
		pgstat_report_wait_end();
	}
	else
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 (long) (left_us / 1000), wait_event);
		ResetLatch(MyLatch);
	}
	idgen_counters_note_pause(call->session->stats,
							  idgen_clock_monotonic_us() - wake_us);
	CHECK_FOR_INTERRUPTS();
}

/* --------------------------------------------------------------------
 * The three waits
 * -------------------------------------------------------------------- */

/* A cursor is busy: give its holder a moment. */
static void
wait_for_lock(IdgenCall *call, const IdgenPass *pass)
{
	IdgenSession *session = call->session;
	int64		nap_from_us;

	if (!call->met_lock)
		call->issued_then = idgen_session_issued_by_all(session);
	call->met_lock = true;
	if (idgen_clock_monotonic_us() >= call->lock_deadline)
		idgen_cause_report(call, pass);
	if (is_contended(session))
	{
		/* ask for another cursor, or for grants to those that are not locked */
		session->contentions = 0;
		(void) ask(call, session->ref_count < idgen_max_workers_per_namespace);
	}
	CHECK_FOR_INTERRUPTS();
	nap_from_us = idgen_clock_monotonic_us();
	idgen_lock_nap(LOCKED_PAUSE_US);
	idgen_counters_note_pause(session->stats,
							  idgen_clock_monotonic_us() - nap_from_us);
}

/* Does an error end by itself before the call's time is up? */
static bool
passes_in_time(const IdgenCall *call, const IdgenError *error)
{
	return error->until_ms != 0 &&
		monotonic_at(error->until_ms) <= call->deadline;
}

/* Requests were served in vain: do not hurry, but be there for the next grant. */
static void
pause_after_vain(IdgenCall *call)
{
	int64		pause_us = VAIN_PAUSE_MIN_US << Min(call->vain_count - 2,
													VAIN_DOUBLINGS_MAX);

	sleep_until(call, Min(idgen_clock_monotonic_us() + Min(pause_us, VAIN_PAUSE_MAX_US),
						  call->deadline));
}

/*
 * In the transaction that created the namespace nobody else is asked.  What stands in
 * the way may pass in time.
 */
static void
grant_here(IdgenCall *call, const IdgenPass *pass)
{
	IdgenError	error;

	if (idgen_first_use_grant(call->session, false, &error))
	{
		/* a grant can be over before it is used */
		if (++call->vain_count > 1 && idgen_clock_monotonic_us() > call->deadline)
			idgen_cause_report(call, pass);
		CHECK_FOR_INTERRUPTS();
		return;
	}
	if (passes_in_time(call, &error))
	{
		sleep_until(call, monotonic_at(error.until_ms));
		return;
	}
	idgen_error_strengthen(&call->error, &error);
	idgen_cause_report(call, pass);
}

/*
 * Ask the authority for grants and wait for its answer.  A grant is never in the
 * answer: it is published in a cursor, where the next pass finds it, unless other
 * sessions have used it up before.
 */
static void
wait_for_grant(IdgenCall *call, const IdgenPass *pass)
{
	IdgenAnswer answer;
	IdgenError *error = &answer.error;
	uint64		ticket;
	bool		answered;
	int64		late_us;

	if (call->session->ns->created_here)
	{
		grant_here(call, pass);
		return;
	}
	if (call->vain_count > 1)
		pause_after_vain(call);
	ticket = post_request(call, false);
	if (!call->may_wait)
	{
		idgen_cause_find_unasked(call);
		idgen_cause_report(call, pass);
	}

	answered = idgen_queue_wait(ticket, call->deadline, &answer, &late_us);
	idgen_counters_note_pause(call->session->stats, late_us);

	/* the authority knows what was granted, not what was used: look once more */
	call->told_used_up = answered && error->kind == IDGEN_ERROR_CAPACITY &&
		!call->told_used_up;
	if (call->told_used_up)
		return;
	if (answered && passes_in_time(call, error))
	{
		sleep_until(call, monotonic_at(error->until_ms));
		return;
	}
	if (!answered || error->kind != IDGEN_ERROR_NONE)
	{
		idgen_error_strengthen(&call->error, error);
		idgen_cause_report(call, pass);
	}
	call->vain_count++;
	call->served_count++;
}

/*
 * A cursor can issue at a later tick: ask for what is missing meanwhile, and wait
 * for the tick.  If that is after the deadline, fail now: nothing will change.
 */
static void
wait_for_tick(IdgenCall *call, const IdgenPass *pass)
{
	int64		retry_ms;
	int64		retry_us;
	bool		granted = false;

	if (pass->dry)
		granted = ask(call, false);
	else if (pass->spent)
		granted = idgen_wait_wish_for_cursor(call);
	if (granted)
		return;
	if (!call->may_wait ||
		!idgen_layout_unix_ms(&call->session->ns->row.layout,
							  Max(pass->retry_at, 0), &retry_ms))
		idgen_cause_report(call, pass);
	retry_us = monotonic_at(retry_ms);
	if (retry_us > call->deadline)
		idgen_cause_report(call, pass);
	sleep_until(call, retry_us);
}

/*
 * What to wait for.  If some cursors are dry and the others can only issue after the
 * deadline, what can still help is a grant.
 */
static IdgenWait
choose_wait(const IdgenCall *call, const IdgenPass *pass)
{
	int64		retry_ms;

	if (pass->locked)
		return IDGEN_WAIT_LOCK;
	if (pass->retry_at == IDGEN_RETRY_NEVER)
		return IDGEN_WAIT_GRANT;
	if (!pass->dry || !call->may_wait ||
		!idgen_layout_unix_ms(&call->session->ns->row.layout,
							  Max(pass->retry_at, 0), &retry_ms))
		return IDGEN_WAIT_TICK;
	return monotonic_at(retry_ms) > call->deadline ? IDGEN_WAIT_GRANT :
		IDGEN_WAIT_TICK;
}

/* A wait is over, or ends in an error: account for its time. */
static void
account_for(IdgenCall *call, IdgenWait wait, bool spent, IdgenCounter waits,
			IdgenCounter wait_us)
{
	int64		now_us = idgen_clock_monotonic_us();
	int64		waited_us = now_us - call->waiting_since_us;

	if (wait == IDGEN_WAIT_GRANT)
	{
		call->dry_us += waited_us;
		call->vain_us += waited_us;
	}
	else if (wait == IDGEN_WAIT_TICK && spent)
		call->spent_us += waited_us;
	idgen_counters_add(call->session->stats, waits, 1);
	idgen_counters_add(call->session->stats, wait_us, (uint64) waited_us);
	call->running_since_us = now_us;
}

/* Wait for what a pass found missing, or raise the error that the call ends with. */
void
idgen_wait_after(IdgenCall *call, const IdgenPass *pass)
{
	static const struct
	{
		void		(*wait) (IdgenCall *call, const IdgenPass *pass);
		IdgenCounter waits;
		IdgenCounter wait_us;
	}			waits[] = {
		[IDGEN_WAIT_LOCK] = {wait_for_lock, IDGEN_COUNTER_LOCK_WAITS, IDGEN_COUNTER_LOCK_WAIT_US},
		[IDGEN_WAIT_GRANT] = {wait_for_grant, IDGEN_COUNTER_GRANT_WAITS, IDGEN_COUNTER_GRANT_WAIT_US},
		[IDGEN_WAIT_TICK] = {wait_for_tick, IDGEN_COUNTER_TICK_WAITS, IDGEN_COUNTER_TICK_WAIT_US},
	};
	IdgenWait	wait = choose_wait(call, pass);

	call->waiting_since_us = idgen_clock_monotonic_us();
	if (call->running_since_us != 0)
		idgen_counters_note_pause(call->session->stats,
								  call->waiting_since_us - call->running_since_us);

	PG_TRY();
	{
		waits[wait].wait(call, pass);
	}
	PG_FINALLY();
	{
		account_for(call, wait, pass->spent, waits[wait].waits, waits[wait].wait_us);
	}
	PG_END_TRY();
}

/*
 * The call has issued, so that no request was in vain.  It may go on with the rest
 * of a batch, and the time which that takes is no pause.
 */
void
idgen_wait_over(IdgenCall *call)
{
	if (is_contended(call->session))
		(void) idgen_wait_wish_for_cursor(call);
	call->running_since_us = 0;
	call->vain_us = 0;
	call->vain_count = 0;
}
