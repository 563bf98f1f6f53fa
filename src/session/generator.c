/*
 * generator.c
 *		Issue from cursors: the fast path, spilling, waiting, asking for more.
 *
 * A call tries the cursor its session used last: lock, clock, check, advance,
 * unlock.  That is all there is to nearly every call; it reads no table,
 * allocates nothing, writes no WAL and needs no transaction id.
 *
 * Otherwise it goes on to the namespace's other cursors.  Inside one tick a
 * session only goes upward in worker order, so that its IDs rise (S11); with a
 * new tick it begins at its home again, low in that order, to have room to
 * spill.  Sessions that meet contention move their homes apart and ask for more
 * cursors.
 *
 * What cannot be issued now is waited for, without any lock, until it can be or
 * the call's time is up (S10).  The clock is read under the lock: a reading
 * from before a pause would be a stale tick.
 */
#include "compat.h"

#include "session/generator.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/spin.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "clock.h"
#include "shmem/request_queue.h"
#include "shmem/pool.h"
#include "settings.h"
#include "shmem/counters.h"
#include "shmem/lock.h"
#include "shmem/clock_judge.h"

/* Tries of a busy cursor before the next one is tried. */
#define CONTENTION_SPINS	8

/* Contentions of a session after which it asks for another cursor. */
#define CONTENTIONS_WORTH_A_CURSOR	64

/* Waits shorter than this are slept through without a latch. */
#define SHORT_WAIT_US		INT64_C(2000)

/*
 * A busy lock is tried for this long also by a call that must not wait, with
 * this pause in between.
 */
#define LOCKED_AT_LEAST_US	INT64_C(10000)
#define LOCKED_PAUSE_US		INT64_C(50)

/*
 * The first and the longest pause after requests that were served in vain, from
 * the second on.
 */
#define VAIN_PAUSE_MIN_US	INT64_C(500)
#define VAIN_PAUSE_MAX_US	INT64_C(50000)

/* Grants of at most this may be over before a call can use them. */
#define SHORT_HORIZON_MS	INT64_C(100)

/*
 * A cursor in use is granted more at least so often, and the clock judged then;
 * so an ID further ahead of the clock is of before a step back.
 */
#define JUDGED_WITHIN_MS	INT64_C(2000)

/* Without a wait, a request is carried out within this or not at all. */
#define UNATTENDED_US		INT64_C(5000000)

/* --------------------------------------------------------------------
 * One cursor
 * -------------------------------------------------------------------- */

typedef enum IdgenTry
{
	IDGEN_TRY_ISSUED,
	IDGEN_TRY_LOCKED,			/* somebody else is in it */
	IDGEN_TRY_GONE,				/* it belongs to somebody else by now */
	IDGEN_TRY_NEW_TICK,			/* not the cursor to begin a tick with */
	IDGEN_TRY_REFUSED			/* see the code */
} IdgenTry;

/*
 * Try one cursor.  With home_first, it is left alone at a tick later than the
 * session's last one.
 *
 * Always inline, as is issue_fast, and so is the step of the cursor then: that
 * way demand and run stay in registers.
 */
static pg_attribute_always_inline IdgenTry
try_cursor(IdgenNamespace *ns, const IdgenCursorRef *ref, int32 count,
		   bool home_first, IdgenCursorRun *run, IdgenCursorCode *code)
{
	IdgenSlot  *slot = ref->slot;
	IdgenCursorDemand demand;

	if (!LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))
		return IDGEN_TRY_LOCKED;

	demand.now = idgen_layout_tick_at(&ns->row.layout, idgen_clock_wall_ms());

	/*
	 * S5: still the incarnation this session knows?  A cursor is killed without
	 * its lock: so after the clock, or a process that stood still in between
	 * would issue IDs of later than the kill, where order is promised.
	 */
	if (pg_atomic_read_u64(&slot->generation) != ref->generation)
	{
		LWLockRelease(&slot->lock);
		return IDGEN_TRY_GONE;
	}
	if (home_first && demand.now > ns->last_tick)
	{
		LWLockRelease(&slot->lock);
		return IDGEN_TRY_NEW_TICK;
	}
	demand.run_ahead = ns->run_ahead;
	demand.min_tick = ref->generation == ns->last_generation ? 0 :
		idgen_cursor_spill_tick(ref->worker, ns->last_tick, ns->last_worker);
	demand.count = count;
	*code = idgen_cursor_issue(&slot->cursor, &ns->row.layout, &demand, run);
	if (*code == IDGEN_CURSOR_ISSUED)
	{
		slot->issued_count += run->count;
		/* a tick begins with its first value; the very first tick may not */
		slot->tick_count += run->sequence == 0;
	}
	LWLockRelease(&slot->lock);
	return *code == IDGEN_CURSOR_ISSUED ? IDGEN_TRY_ISSUED : IDGEN_TRY_REFUSED;
}

/* Remember what was issued; returns the first ID of the run. */
static inline int64
note_issued(IdgenNamespace *ns, const IdgenCursorRef *ref,
			const IdgenCursorRun *run)
{
	int64		first = idgen_layout_assemble(&ns->row.layout, run->tick,
											  ref->worker, run->sequence);

	Assert(first > ns->last_id);
	ns->last_id = first + run->count - 1;
	ns->last_tick = run->tick;
	ns->last_worker = ref->worker;
	ns->last_generation = ref->generation;
	return first;
}

/* --------------------------------------------------------------------
 * All cursors of a namespace
 * -------------------------------------------------------------------- */

/* What a pass over the cursors came to, when nothing was issued. */
typedef struct IdgenPass
{
	bool		spent;			/* some cursor has a later tick: see retry_at */
	bool		behind;			/* the clock is behind some cursor */
	bool		not_yet;		/* some grant starts later */
	bool		dry;			/* some cursor has no grant left, or is gone */
	bool		locked;			/* some cursor is locked */
	int64		retry_at;		/* the earliest tick at which one can issue */
} IdgenPass;

/*
 * A cursor is gone.  The reason may be one that this session has not been told
 * yet: an invalidation comes after the commit that killed it.  So look the
 * namespace up in its table, too.
 */
static void
look_again(IdgenNamespace *ns)
{
	ns->version = 0;
	ns->open_version = 0;
	ns->pool_version = 0;
}

/* List the cursors again if any came or went. */
static void
refresh_refs(IdgenNamespace *ns)
{
	uint64		version = idgen_pool_version();

	if (ns->pool_version == version)
		return;
	ns->ref_count = idgen_pool_list(MyDatabaseId, &ns->authority.uuid, ns->refs,
									idgen_max_workers_per_namespace);
	ns->pool_version = version;
	ns->home = Min(ns->home, Max(ns->ref_count - 1, 0));
	ns->at = ns->home;

	/* the statistics of a namespace without cursors may have been given away */
	ns->stats = idgen_counters_get(MyDatabaseId, ns->name);
}

static void
note_refusal(IdgenPass *pass, IdgenCursorCode code, int64 retry_at)
{
	switch (code)
	{
		case IDGEN_CURSOR_ISSUED:
			return;
		case IDGEN_CURSOR_GRANT_ENDED:
			pass->dry = true;
			return;
		case IDGEN_CURSOR_NOT_YET_VALID:
			pass->not_yet = true;
			break;
		case IDGEN_CURSOR_SEQUENCE_SPENT:
			pass->spent = true;
			break;
		case IDGEN_CURSOR_CLOCK_BEHIND:
			pass->behind = true;
			break;
	}
	pass->retry_at = Min(pass->retry_at, retry_at);
}

/* Try a cursor, a few times if it is busy. */
static IdgenTry
try_busy_cursor(IdgenNamespace *ns, int index, int32 count, IdgenCursorRun *run,
				IdgenCursorCode *code)
{
	IdgenTry	outcome = IDGEN_TRY_LOCKED;

	for (int i = 0; i < CONTENTION_SPINS && outcome == IDGEN_TRY_LOCKED; i++)
	{
		if (i > 0)
			SPIN_DELAY();
		outcome = try_cursor(ns, &ns->refs[index], count, false, run, code);
	}
	return outcome;
}

/*
 * Go once over all cursors: upward from where the session stands, then from the
 * lowest.  True if one issued; the session stands there then.
 */
static bool
pass_over(IdgenNamespace *ns, int32 count, IdgenCursorRun *run, IdgenPass *pass)
{
	int			start = ns->at;

	memset(pass, 0, sizeof(*pass));
	pass->retry_at = PG_INT64_MAX;
	pass->dry = ns->ref_count == 0;
	for (int i = 0; i < ns->ref_count; i++)
	{
		int			index = (start + i) % ns->ref_count;
		IdgenCursorCode code;

		switch (try_busy_cursor(ns, index, count, run, &code))
		{
			case IDGEN_TRY_ISSUED:
				if (pass->locked)
					ns->home = index;	/* keep away from the crowd */
				if (index != start && run->tick == ns->last_tick)
					idgen_counters_add(ns->stats, IDGEN_COUNTER_SPILLS, 1);
				ns->at = index;
				return true;
			case IDGEN_TRY_LOCKED:
				ns->contentions++;
				pass->locked = true;
				break;
			case IDGEN_TRY_GONE:
				pass->dry = true;
				look_again(ns);
				break;
			case IDGEN_TRY_NEW_TICK:
				break;
			case IDGEN_TRY_REFUSED:
				note_refusal(pass, code, run->retry_at);
				break;
		}
	}
	ns->at = ns->home;

	/* behind what this session issued, if not behind the cursors */
	if (ns->last_tick - idgen_layout_tick_at(&ns->row.layout,
											 idgen_clock_wall_ms()) >
		ns->run_ahead)
		pass->behind = true;
	return false;
}

/* --------------------------------------------------------------------
 * Waiting
 * -------------------------------------------------------------------- */

/* What there is to wait for. */
typedef enum IdgenWait
{
	IDGEN_WAIT_LOCK,
	IDGEN_WAIT_GRANT,
	IDGEN_WAIT_TICK
} IdgenWait;

/* One call: until when it may take, and what it has learnt. */
typedef struct IdgenCall
{
	IdgenNamespace *ns;
	int64		until_us;		/* monotonic */
	int64		locked_until_us;
	bool		may_wait;
	int64		running_since_us;	/* without waiting for anything; 0 = not known */
	int64		waiting_since_us;
	int64		spent_us;		/* in waits that are over: for sequence values, */
	int64		dry_us;			/* for grants, */
	int64		vain_us;		/* and for these since the last ID */
	int			vain_count;		/* requests served since the last ID */
	int			served_count;	/* requests served */
	bool		told_used_up;	/* by the last answer */
	bool		met_lock;		/* some cursor was busy */
	uint64		issued_then;	/* by all cursors, when one was busy first */
	int64		vain_pause_us;
	IdgenError error;		/* strongest cause so far */
} IdgenCall;

/*
 * A call must be over at until_us if it had to open its namespace first, which may
 * have taken time; 0 = it did not.
 */
static void
call_begin(IdgenCall *call, IdgenNamespace *ns, int64 until_us)
{
	int64		now_us = idgen_clock_monotonic_us();

	call->ns = ns;
	call->may_wait = idgen_wait_timeout_ms > 0;
	call->until_us = until_us != 0 ? until_us :
		now_us + (int64) idgen_wait_timeout_ms * 1000;
	call->locked_until_us = Max(call->until_us, now_us + LOCKED_AT_LEAST_US);
	call->running_since_us = now_us;
	call->spent_us = 0;
	call->dry_us = 0;
	call->vain_us = 0;
	call->vain_count = 0;
	call->served_count = 0;
	call->told_used_up = false;
	call->met_lock = false;
	call->vain_pause_us = VAIN_PAUSE_MIN_US;
	idgen_error_set(&call->error, IDGEN_ERROR_NONE, NULL, NULL);
}

static uint64
post_request(IdgenCall *call, bool another)
{
	IdgenRequest request;

	memset(&request, 0, sizeof(request));
	request.kind = IDGEN_REQUEST_SERVE;
	strlcpy(request.namespace_name, call->ns->name, NAMEDATALEN);
	request.namespace_uuid = call->ns->authority.uuid;
	request.cursors_seen = another ? call->ns->ref_count : -1;
	request.expires_at_us = call->may_wait ? call->until_us :
		idgen_clock_monotonic_us() + UNATTENDED_US;
	return idgen_queue_post(&request);
}

/* Ask for one more cursor, without waiting for it. */
static void
wish_for_cursor(IdgenCall *call)
{
	call->ns->contentions = 0;
	if (call->ns->ref_count > 0 &&
		call->ns->ref_count < idgen_max_workers_per_namespace)
		(void) post_request(call, true);
}

/*
 * Sleep until a monotonic time, or until something happens; cancellable.  Whoever
 * wakes up long after that was stopped.
 */
static void
sleep_until(IdgenCall *call, int64 until_us)
{
	static uint32 wait_event = 0;
	int64		left_us = until_us - idgen_clock_monotonic_us();

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
		idgen_counters_note_pause(call->ns->stats, idgen_clock_monotonic_us() - until_us);
		return;
	}
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 (long) (left_us / 1000), wait_event);
	ResetLatch(MyLatch);
	idgen_counters_note_pause(call->ns->stats, idgen_clock_monotonic_us() - until_us);
	CHECK_FOR_INTERRUPTS();
}

/*
 * Is the clock the cause?  Behind what cursors issued, it was set back; behind
 * what this session alone issued, that was accepted, and other sessions begin
 * anew.  A round lies at most so far back that the clock was judged in it.
 */
static bool
judge_clock(IdgenCall *call, const IdgenPass *pass, IdgenError *error)
{
	IdgenNamespace *ns = call->ns;
	IdgenClockView clock;

	if (!pass->behind && !pass->not_yet)
		return false;
	idgen_clock_judge(&clock);
	if (clock.verdict == IDGEN_CLOCK_BEHIND)
		idgen_clock_judge_set_error(&clock, error);
	else if (!pass->behind)
		return false;
	else if (ns->last_tick > idgen_layout_tick_at(&ns->row.layout, clock.wall_ms + JUDGED_WITHIN_MS))
		idgen_error_set(error, IDGEN_ERROR_CLOCK,
						  "This session has issued IDs of a later time, before the clock was set back.",
						  "Reconnect: other sessions issue IDs of the time it is now.");
	else
		idgen_error_set(error, IDGEN_ERROR_CLOCK, NULL, NULL);
	return true;
}

/*
 * No cursor has a grant, and the authority has named no cause.  It may be so for a
 * moment only, after most of the call's time went by with all that could be issued
 * used up, or with grants that were soon over: then that is the cause.
 */
static IdgenErrorKind
judge_dry(const IdgenCall *call, char *words, const char **detail, const char **hint)
{
	int64		horizon_ms = call->ns->row.layout.horizon_ms;
	int64		waiting_us = idgen_clock_monotonic_us() - call->waiting_since_us;

	*detail = words;
	if (call->spent_us > call->dry_us + waiting_us)
	{
		snprintf(words, IDGEN_ERROR_TEXT_MAX,
				 "For " INT64_FORMAT " ms of the time that the call may take every sequence value of the tick was spent.",
				 call->spent_us / 1000);
		return IDGEN_ERROR_CAPACITY;
	}
	if (waiting_us >= call->dry_us)
	{
		snprintf(words, IDGEN_ERROR_TEXT_MAX,
				 "The authority process did not answer within " INT64_FORMAT " ms, and no cause is known.",
				 waiting_us / 1000);
		return IDGEN_ERROR_GRANT;
	}
	if (call->served_count > 1 && horizon_ms <= SHORT_HORIZON_MS)
	{
		snprintf(words, IDGEN_ERROR_TEXT_MAX,
				 "Grants came, and were over before they could be used: they end at most " INT64_FORMAT " ms, its horizon, after they are decided.",
				 horizon_ms);
		*hint = "Use a namespace with a longer horizon.";
		return IDGEN_ERROR_UNAVAILABLE;
	}
	snprintf(words, IDGEN_ERROR_TEXT_MAX,
			 "The authority process answered, but no grant was left to this call within " INT64_FORMAT " ms, and no cause is known.",
			 (call->vain_us + waiting_us) / 1000);
	return IDGEN_ERROR_GRANT;
}

/* What all cursors of a namespace have issued; without their locks. */
static uint64
issued_by_all(const IdgenNamespace *ns)
{
	uint64		count = 0;

	for (int i = 0; i < ns->ref_count; i++)
		count += *(volatile uint64 *) &ns->refs[i].slot->issued_count;
	return count;
}

/* Every cursor is busy: because of a crowd, or is somebody stopped inside? */
static IdgenErrorKind
judge_lock(const IdgenCall *call, const char **detail, const char **hint)
{
	if (call->met_lock && issued_by_all(call->ns) != call->issued_then)
	{
		*detail = "Every cursor was busy whenever this call tried it, while others issued from them.";
		*hint = "Retry; if it goes on, the server has more sessions than processors to run them.";
	}
	else
	{
		*detail = "Every cursor is locked by some process, which seems to be stopped.";
		*hint = "Look for a stopped PostgreSQL process (state \"T\" in ps), and let it continue.";
	}
	return IDGEN_ERROR_UNAVAILABLE;
}

/* The failure that a pass alone amounts to, strongest first. */
static void
judge_pass(IdgenCall *call, const IdgenPass *pass)
{
	IdgenError error;
	IdgenErrorKind kind = IDGEN_ERROR_NONE;
	const char *detail = NULL;
	const char *hint = NULL;
	char		words[IDGEN_ERROR_TEXT_MAX];
	int64		retry_ms;

	if (judge_clock(call, pass, &error))
		kind = error.kind;
	else if (pass->locked && !pass->spent)
		kind = judge_lock(call, &detail, &hint);
	else if (pass->retry_at == PG_INT64_MAX && call->error.kind == IDGEN_ERROR_NONE)
		kind = judge_dry(call, words, &detail, &hint);
	else if (pass->not_yet)
		kind = IDGEN_ERROR_NOT_YET;
	else if (pass->spent)
		kind = IDGEN_ERROR_CAPACITY;

	if (kind != IDGEN_ERROR_CLOCK)
		idgen_error_set(&error, kind, detail, hint);
	if ((kind == IDGEN_ERROR_CLOCK || kind == IDGEN_ERROR_NOT_YET ||
		 kind == IDGEN_ERROR_CAPACITY) &&
		idgen_layout_unix_ms(&call->ns->row.layout, Max(pass->retry_at, 0),
							 &retry_ms))
		error.until_ms = Max(error.until_ms, retry_ms);
	idgen_error_strengthen(&call->error, &error);
}

/* Report the strongest cause known. */
static void
call_failed(IdgenCall *call, const IdgenPass *pass)
{
	judge_pass(call, pass);
	idgen_counters_note_error(call->ns->stats, &call->error);
	idgen_error_report(&call->error, call->ns->name);
}

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
 * Wait for a tick.  If it comes after the end of the call's time, fail now: it
 * is known when.
 */
static void
wait_for_tick(IdgenCall *call, const IdgenPass *pass)
{
	int64		retry_ms;
	int64		retry_us;

	if (!idgen_layout_unix_ms(&call->ns->row.layout, Max(pass->retry_at, 0),
							  &retry_ms))
		call_failed(call, pass);
	retry_us = monotonic_at(retry_ms);
	if (retry_us > call->until_us)
		call_failed(call, pass);
	sleep_until(call, retry_us);
}

/* Is this a failure that ends by itself before the call's time is up? */
static bool
passes_in_time(const IdgenCall *call, const IdgenError *error)
{
	return error->until_ms != 0 &&
		monotonic_at(error->until_ms) <= call->until_us;
}

/* Some cursor is busy: give its holder a moment. */
static void
wait_for_lock(IdgenCall *call, const IdgenPass *pass)
{
	int64		now_us = idgen_clock_monotonic_us();

	if (!call->met_lock)
		call->issued_then = issued_by_all(call->ns);
	call->met_lock = true;
	if (now_us >= call->locked_until_us)
		call_failed(call, pass);
	if (call->ns->contentions >= CONTENTIONS_WORTH_A_CURSOR)
	{
		/* another cursor, or grants for those that are not locked */
		call->ns->contentions = 0;
		(void) post_request(call, call->ns->ref_count <
							idgen_max_workers_per_namespace);
	}
	CHECK_FOR_INTERRUPTS();
	now_us = idgen_clock_monotonic_us();
	idgen_lock_nap(LOCKED_PAUSE_US);
	idgen_counters_note_pause(call->ns->stats, idgen_clock_monotonic_us() - now_us);
}

/*
 * A call may not wait.  What is known without asking is its failure: of the clock, of
 * the end of the field, or what the authority has found last.
 */
static void
judge_unasked(IdgenCall *call)
{
	const IdgenLayout *layout = &call->ns->row.layout;
	IdgenClockView clock;
	IdgenError standing;

	idgen_clock_judge(&clock);
	if (clock.verdict == IDGEN_CLOCK_AHEAD)
		idgen_clock_judge_set_error(&clock, &call->error);
	else if (idgen_layout_tick_at(layout, clock.wall_ms) >= idgen_layout_tick_count(layout))
		idgen_error_set(&call->error, IDGEN_ERROR_EXHAUSTED, NULL, NULL);
	else if (idgen_counters_standing(call->ns->stats, &standing))
		call->error = standing;
	else
		idgen_error_set(&call->error, IDGEN_ERROR_GRANT,
						  "No grant is available and \"idgen.wait_timeout\" is 0; one has been requested.",
						  "Retry, or set \"idgen.wait_timeout\" higher.");
}

/* Ask the authority for grants and wait for its answer. */
static void
wait_for_grant(IdgenCall *call, const IdgenPass *pass)
{
	IdgenAnswer answer;
	IdgenError *error = &answer.error;
	uint64		ticket;
	bool		answered;
	int64		late_us;

	/* served in vain?  Then do not hurry, but use the next grant at once */
	if (call->vain_count > 1)
	{
		sleep_until(call, Min(idgen_clock_monotonic_us() + call->vain_pause_us,
							  call->until_us));
		call->vain_pause_us = Min(call->vain_pause_us * 2, VAIN_PAUSE_MAX_US);
	}
	ticket = post_request(call, false);
	if (!call->may_wait)
	{
		judge_unasked(call);
		call_failed(call, pass);
	}

	answered = idgen_queue_wait(ticket, call->until_us, &answer, &late_us);
	idgen_counters_note_pause(call->ns->stats, late_us);

	/* the authority knows what was granted, not what was used: see whether it was */
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
		call_failed(call, pass);
	}
	call->vain_count++;
	call->served_count++;
}

/* --------------------------------------------------------------------
 * The call
 * -------------------------------------------------------------------- */

/* Count a failure of a namespace that has no call yet, and raise it. */
static void
refuse(const IdgenNamespace *ns, const IdgenError *error)
{
	idgen_counters_note_error(idgen_counters_get(MyDatabaseId, ns->name), error);
	idgen_error_report(error, ns->name);
}

/* An error unless this namespace can be issued from, here and now. */
static void
check_may_issue(IdgenNamespace *ns, int64 until_us)
{
	IdgenError error;

	/* first, so that strangers learn and cause nothing else */
	if (!idgen_namespace_check_issue(ns, until_us, &error))
		refuse(ns, &error);

	idgen_error_set(&error, IDGEN_ERROR_NONE, NULL, NULL);
	if (ns->row.retired)
		idgen_error_set(&error, IDGEN_ERROR_RETIRED, NULL, NULL);
	else if (!ns->row.issuing)
		idgen_error_set(&error, IDGEN_ERROR_RETIRED,
						  "It was created for decoding only.", NULL);
	else if (!ns->has_identity &&
			 idgen_on_copied_authority != IDGEN_ON_COPIED_FENCE)
		idgen_error_set(&error, IDGEN_ERROR_COPIED,
						  "Its identity is missing, as after a restore of its marks.",
						  NULL);
	else if (ns->format_changed)
		idgen_error_set(&error, IDGEN_ERROR_UNAVAILABLE,
						  "Its format was changed from outside.",
						  "Undo the change: IDs of two formats cannot be told apart.");
	else if (RecoveryInProgress())
		idgen_error_set(&error, IDGEN_ERROR_UNAVAILABLE,
						  "This server is a standby; only a primary issues IDs.",
						  "Issue on the primary; decoding works here.");
	else if (!IsUnderPostmaster)
		idgen_error_set(&error, IDGEN_ERROR_UNAVAILABLE,
						  "There are no background workers in single-user mode.",
						  "Start the server normally.");
	if (error.kind != IDGEN_ERROR_NONE)
		refuse(ns, &error);

	idgen_namespace_require_committed(ns);
	ns->open_version = ns->version;
}

/*
 * The namespace to issue from, and the monotonic time at which the call that
 * opens it must be over.  Errors: 55000 without preloading or inside the
 * transaction that created the namespace, 42704, 42501, and those of
 * check_may_issue.
 */
IdgenNamespace *
idgen_generator_open(const char *name, int name_length, int64 *until_us)
{
	IdgenNamespace *ns;

	idgen_namespace_require_preloaded(name, name_length);
	*until_us = idgen_clock_monotonic_us() + (int64) idgen_wait_timeout_ms * 1000;
	ns = idgen_namespace_get_until(name, name_length, *until_us);
	check_may_issue(ns, *until_us);
	return ns;
}

/*
 * Look the namespace up again if it may have changed: invalidations that have
 * arrived are heeded also in the middle of a statement that has to wait.
 */
static void
heed_changes(IdgenCall *call)
{
	IdgenNamespace *ns = call->ns;

	AcceptInvalidationMessages();
	if (idgen_namespace_current(ns))
		return;
	check_may_issue(idgen_namespace_get_until(ns->name, ns->name_length, call->until_us),
					call->until_us);

	/* which may have waited for locks on tables */
	call->running_since_us = idgen_clock_monotonic_us();
}

/* Count what a pass without success met. */
static void
count_pass(const IdgenCall *call, const IdgenPass *pass)
{
	IdgenNamespace *ns = call->ns;

	if (pass->spent)
		idgen_counters_add(ns->stats, IDGEN_COUNTER_EXHAUSTIONS, 1);
	if (pass->dry && ns->last_generation != 0)
		idgen_counters_add(ns->stats, IDGEN_COUNTER_GRANTS_MISSED, 1);
	if (pass->behind)
	{
		int64		last_ms;

		idgen_counters_add(ns->stats, IDGEN_COUNTER_CLOCK_BEHIND, 1);
		if (idgen_layout_unix_ms(&ns->row.layout, Max(ns->last_tick, 0), &last_ms))
			idgen_counters_max(ns->stats, IDGEN_COUNTER_CLOCK_BEHIND_MAX_US,
							(uint64) Max(last_ms * 1000 - idgen_clock_wall_us(), 0));
	}
}

/* Some cursor can issue at a later tick: see to grants meanwhile, and wait. */
static void
wait_for_later(IdgenCall *call, const IdgenPass *pass)
{
	if (pass->dry)
		(void) post_request(call, false);
	else if (pass->spent)
		wish_for_cursor(call);
	if (!call->may_wait)
		call_failed(call, pass);
	wait_for_tick(call, pass);
}

/*
 * What to wait for: for a grant also if it is too long until some cursor can issue
 * without one.
 */
static IdgenWait
way_to_wait(const IdgenCall *call, const IdgenPass *pass)
{
	int64		retry_ms;

	if (pass->locked)
		return IDGEN_WAIT_LOCK;
	if (pass->retry_at == PG_INT64_MAX)
		return IDGEN_WAIT_GRANT;
	if (!pass->dry || !call->may_wait ||
		!idgen_layout_unix_ms(&call->ns->row.layout, Max(pass->retry_at, 0), &retry_ms))
		return IDGEN_WAIT_TICK;
	return monotonic_at(retry_ms) > call->until_us ? IDGEN_WAIT_GRANT :
		IDGEN_WAIT_TICK;
}

/* Do something about a pass without success, or raise an error. */
static void
wait_after(IdgenCall *call, const IdgenPass *pass)
{
	static const struct
	{
		void		(*wait) (IdgenCall *call, const IdgenPass *pass);
		IdgenCounter waits;
		IdgenCounter wait_us;
	}			ways[] = {
		[IDGEN_WAIT_LOCK] = {wait_for_lock, IDGEN_COUNTER_LOCK_WAITS, IDGEN_COUNTER_LOCK_WAIT_US},
		[IDGEN_WAIT_GRANT] = {wait_for_grant, IDGEN_COUNTER_GRANT_WAITS, IDGEN_COUNTER_GRANT_WAIT_US},
		[IDGEN_WAIT_TICK] = {wait_for_later, IDGEN_COUNTER_TICK_WAITS, IDGEN_COUNTER_TICK_WAIT_US},
	};
	IdgenWait	way = way_to_wait(call, pass);

	call->waiting_since_us = idgen_clock_monotonic_us();
	if (call->running_since_us != 0)
		idgen_counters_note_pause(call->ns->stats,
							   call->waiting_since_us - call->running_since_us);

	PG_TRY();
	{
		ways[way].wait(call, pass);
	}
	PG_FINALLY();
	{
		int64		waited_us = idgen_clock_monotonic_us() - call->waiting_since_us;

		if (way == IDGEN_WAIT_GRANT)
		{
			call->dry_us += waited_us;
			call->vain_us += waited_us;
		}
		else if (way == IDGEN_WAIT_TICK && pass->spent)
			call->spent_us += waited_us;
		idgen_counters_add(call->ns->stats, ways[way].waits, 1);
		idgen_counters_add(call->ns->stats, ways[way].wait_us, (uint64) waited_us);
		call->running_since_us = call->waiting_since_us + waited_us;
	}
	PG_END_TRY();
}

/* Issue up to count IDs of one tick, by all means. */
static int64
issue_slowly(IdgenCall *call, int32 count, IdgenCursorRun *run)
{
	IdgenNamespace *ns = call->ns;
	IdgenPass	pass;

	for (;;)
	{
		heed_changes(call);
		refresh_refs(ns);
		if (pass_over(ns, count, run, &pass))
		{
			if (ns->contentions >= CONTENTIONS_WORTH_A_CURSOR)
				wish_for_cursor(call);
			call->running_since_us = 0;	/* a batch goes on */
			call->vain_us = 0;
			call->vain_count = 0;
			call->vain_pause_us = VAIN_PAUSE_MIN_US;
			return note_issued(ns, &ns->refs[ns->at], run);
		}

		if (pass.dry)
			ns->pool_version = 0;
		count_pass(call, &pass);
		wait_after(call, &pass);
	}
}

/*
 * Try the cursor the session stands at; the common case.  At a new tick it
 * must be the home, from where the slow way begins then.
 */
static pg_attribute_always_inline bool
issue_fast(IdgenNamespace *ns, int32 count, IdgenCursorRun *run)
{
	IdgenCursorCode code;
	IdgenTry	outcome;

	if (unlikely(ns->ref_count == 0))
		return false;
	outcome = try_cursor(ns, &ns->refs[ns->at], count, ns->at != ns->home, run,
						 &code);
	if (unlikely(outcome == IDGEN_TRY_NEW_TICK))
		ns->at = ns->home;
	if (unlikely(outcome == IDGEN_TRY_GONE))
		look_again(ns);
	return outcome == IDGEN_TRY_ISSUED;
}

/* The next ID, by all means; apart, so that the common case needs no room for it. */
static pg_noinline int64
next_slowly(IdgenNamespace *ns, int64 until_us)
{
	IdgenCursorRun run;
	IdgenCall	call;

	call_begin(&call, ns, until_us);
	return issue_slowly(&call, 1, &run);
}

/* The next ID for a call that opened the namespace, with its time. */
int64
idgen_generator_first(IdgenNamespace *ns, int64 until_us)
{
	return next_slowly(ns, until_us);
}

/* The next ID. */
int64
idgen_generator_next(IdgenNamespace *ns)
{
	IdgenCursorRun run = {0};	/* for compilers that see less */

	if (unlikely(!issue_fast(ns, 1, &run)))
		return next_slowly(ns, 0);
	return note_issued(ns, &ns->refs[ns->at], &run);
}

/*
 * How many IDs the cursors could issue to this session if the clock stood still; not
 * less than that, since what others take meanwhile is not taken off.  False if it is
 * not known: some cursor is busy or gone.
 */
static bool
room_now(IdgenNamespace *ns, int64 *room)
{
	*room = 0;
	for (int i = 0; i < ns->ref_count; i++)
	{
		const IdgenCursorRef *ref = &ns->refs[i];
		IdgenCursorDemand demand = {
			.run_ahead = ns->run_ahead,
			.min_tick = ref->generation == ns->last_generation ? 0 :
			idgen_cursor_spill_tick(ref->worker, ns->last_tick, ns->last_worker)
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
 * The most IDs that a call can be issued: what is there now, if neither another tick
 * nor another cursor can come in its time; else that of all cursors there can be, for
 * every tick.  False if it is not known, or there is nothing to use up.
 */
static bool
most_in_time(const IdgenCall *call, int64 *most)
{
	IdgenNamespace *ns = call->ns;
	const IdgenLayout *layout = &ns->row.layout;
	int64		left_ms = (call->until_us - idgen_clock_monotonic_us()) / 1000 + 1;
	int64		cursors = Max(Min(idgen_max_workers_per_namespace,
								  (int64) ns->row.last_worker - ns->row.first_worker + 1),
							  ns->ref_count);
	int64		now_ms = idgen_clock_wall_ms();
	int64		ticks = idgen_layout_tick_at(layout, now_ms + left_ms) -
		idgen_layout_tick_at(layout, now_ms);

	if (ns->ref_count == 0)
		return false;
	if (!call->may_wait || (ticks == 0 && ns->ref_count == cursors))
		return room_now(ns, most);
	*most = (ticks + ns->run_ahead + 1) > IDGEN_MAX_BATCH_LIMIT ? IDGEN_MAX_BATCH_LIMIT :
		Min(cursors * (ticks + ns->run_ahead + 1) * idgen_layout_sequence_count(layout),
			IDGEN_MAX_BATCH_LIMIT);
	return true;
}

/* A batch that cannot be issued as a whole uses nothing up. */
static void
check_batch(IdgenCall *call, int32 count)
{
	char		words[IDGEN_ERROR_TEXT_MAX];
	int64		most;

	if (count < 2)
		return;
	refresh_refs(call->ns);
	/* where nothing can be issued at all, that has its cause */
	if (!most_in_time(call, &most) || most == 0 || count <= most)
		return;
	wish_for_cursor(call);
	snprintf(words, sizeof(words),
			 "%d IDs are asked for, and " INT64_FORMAT " can be issued in the time that the call may take; none was.",
			 count, most);
	idgen_error_set(&call->error, IDGEN_ERROR_CAPACITY, words,
					  "Ask for fewer, raise \"idgen.wait_timeout\" or \"idgen.max_workers_per_namespace\", or use a format with more sequence bits.");
	idgen_counters_note_error(call->ns->stats, &call->error);
	idgen_error_report(&call->error, call->ns->name);
}

/*
 * Exactly count IDs, as runs of consecutive ones in ascending order; palloc'd.
 * All are taken, or an error is raised and those taken so far are a gap.
 * until_us is that of idgen_generator_open; 0 if it was open.
 */
IdgenIdRun *
idgen_generator_batch(IdgenNamespace *ns, int32 count, int64 until_us,
					  int *run_count)
{
	IdgenCall	call;
	int			runs_max = 16;
	IdgenIdRun *runs = palloc(runs_max * sizeof(IdgenIdRun));
	int32		left = count;

	*run_count = 0;
	call_begin(&call, ns, until_us);
	check_batch(&call, count);
	call.running_since_us = 0;	/* the fast path may take long in all */
	while (left > 0)
	{
		IdgenCursorRun run;
		int64		first;

		if (issue_fast(ns, left, &run))
			first = note_issued(ns, &ns->refs[ns->at], &run);
		else
			first = issue_slowly(&call, left, &run);
		if (*run_count == runs_max)
		{
			runs_max *= 2;
			runs = repalloc_huge(runs, runs_max * sizeof(IdgenIdRun));
		}
		runs[*run_count].first = first;
		runs[*run_count].count = (int32) run.count;
		(*run_count)++;
		left -= (int32) run.count;
	}
	idgen_counters_add(ns->stats, IDGEN_COUNTER_BATCHES, 1);
	return runs;
}
