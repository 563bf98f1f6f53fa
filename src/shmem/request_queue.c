/*
 * request_queue.c
 *		Post a request, start the worker if there is none, wait for the answer.
 *
 * A backend owns one request slot, by its process number.  It posts, and
 * either waits or goes away: an answer to a request given up meets a newer
 * ticket, or nobody, and does no harm.  A worker that leaves signs off under the
 * directory lock and then wakes whoever has a request pending, so that a request is
 * either seen by the worker that lives or starts the next one.
 */
#include "compat.h"

#include "shmem/request_queue.h"

#include <errno.h>
#include <signal.h>

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/wait_event.h"

#include "clock.h"
#include "settings.h"
#include "shmem/counters.h"
#include "shmem/database.h"
#include "shmem/lock.h"

/*
 * A worker that was asked for and has not shown up after this long is asked
 * for again: its starter may have died in between, or no background worker
 * slot was free.
 */
#define START_RETRY_US	INT64_C(100000)

/* That becomes four times as long so often, for a worker that does not come. */
#define START_STEPS_MAX	3

/*
 * A worker has at least so long before it has to make room for that of another
 * database; and so long a database waits for the room it has asked for.
 */
#define TERM_US			INT64_C(500000)
#define ROOM_US			INT64_C(1000000)

/* How long a process that must not fail tries for the directory. */
#define LEAVE_WITHIN_US INT64_C(1000000)

bool		(*idgen_queue_start_authority) (void) = NULL;

Size
idgen_queue_size(void)
{
	return add_size(offsetof(IdgenRequestQueue, requests),
					mul_size(MaxBackends, sizeof(IdgenRequest)));
}

void
idgen_queue_init(void *memory, int tranche)
{
	idgen_shared->queue = memory;
	idgen_shared->queue->count = MaxBackends;
}

/* Does the database have a worker?  Caller holds the lock. */
static bool
authority_lives(const IdgenDatabase *entry)
{
	return entry->authority_pid != 0 &&
		(kill(entry->authority_pid, 0) == 0 || errno != ESRCH);
}

/* The entry of a database; NULL if it has none.  Caller holds the lock. */
static IdgenDatabase *
find_database(Oid database)
{
	for (int i = 0; i < idgen_shared->databases->count; i++)
		if (idgen_shared->databases->entries[i].database == database)
			return &idgen_shared->databases->entries[i];
	return NULL;
}

/*
 * The entry of a database, made if need be; NULL if all entries have a living
 * worker, which also means that no background worker slot is left.  Caller
 * holds the lock exclusively.
 */
static IdgenDatabase *
find_or_make_database(Oid database)
{
	IdgenDatabase *entry = find_database(database);
	int64		now_us = idgen_clock_monotonic_us();

	for (int i = 0; entry == NULL && i < idgen_shared->databases->count; i++)
	{
		IdgenDatabase *candidate = &idgen_shared->databases->entries[i];

		if (OidIsValid(candidate->database) &&
			(authority_lives(candidate) ||
			 now_us - candidate->started_at_us < 10 * START_RETRY_US))
			continue;
		memset(candidate, 0, sizeof(*candidate));
		candidate->database = database;
		entry = candidate;
	}
	return entry;
}

static IdgenRequest *
my_request(void)
{
	return &idgen_shared->queue->requests[idgen_my_proc_number()];
}

/*
 * How long a worker that was asked for has to report for duty before another is
 * asked for.  One that cannot connect, as while DROP DATABASE waits for others to
 * leave, takes a background worker slot all the same: so longer each time.
 */
static int64
start_pause_us(const IdgenDatabase *entry)
{
	return START_RETRY_US << (2 * Min(Max(entry->starts - 1, 0), START_STEPS_MAX));
}

/*
 * No background worker slot is free: the worker that has been idle longest, of
 * another database, makes room.  So all databases have their turns, however many
 * there are, and nobody keeps others out by keeping some busy.  Caller holds the lock.
 */
static void
ask_for_room(IdgenDatabase *mine, int64 now_us)
{
	IdgenDatabase *idlest = NULL;

	if (now_us - mine->room_asked_at_us < ROOM_US)
		return;
	for (int i = 0; i < idgen_shared->databases->count; i++)
	{
		IdgenDatabase *entry = &idgen_shared->databases->entries[i];

		if (!OidIsValid(entry->database) || entry == mine || entry->yield_wanted ||
			!authority_lives(entry) || now_us - entry->entered_at_us < TERM_US)
			continue;
		if (idlest == NULL || entry->used_at_us < idlest->used_at_us)
			idlest = entry;
	}
	if (idlest == NULL)
		return;
	idlest->yield_wanted = true;
	mine->room_asked_at_us = now_us;
	SetLatch(idlest->authority_latch);
}

/* Wake the worker of this database, or ask for one if there is none. */
static void
rouse_authority(void)
{
	IdgenDatabase *entry;
	int64		now_us = idgen_clock_monotonic_us();
	bool		start = false;
	bool		started;

	idgen_lock_directory();
	entry = find_or_make_database(MyDatabaseId);
	if (entry != NULL)
		entry->used_at_us = now_us;
	if (entry != NULL && authority_lives(entry))
		SetLatch(entry->authority_latch);
	else if (entry != NULL && now_us - entry->started_at_us >= start_pause_us(entry))
	{
		entry->started_at_us = now_us;
		entry->starts++;
		start = true;
	}
	idgen_unlock_directory();
	if (!start)
		return;

	started = idgen_queue_start_authority();
	idgen_lock_directory();
	entry = find_database(MyDatabaseId);
	if (entry != NULL)
	{
		entry->start_failed = !started;
		if (!started)
		{
			entry->starts = 0;	/* it takes no slot */
			ask_for_room(entry, idgen_clock_monotonic_us());
		}
	}
	idgen_unlock_directory();
}

/* Why a request was not answered, if there is no worker yet that could have. */
static void
judge_worker(IdgenError *error)
{
	IdgenDatabase *entry;
	bool		missing;
	bool		starting;

	idgen_lock_directory();
	entry = find_database(MyDatabaseId);
	missing = entry == NULL || (!authority_lives(entry) && entry->start_failed);
	starting = entry != NULL && (!authority_lives(entry) || entry->turns < 2);
	idgen_unlock_directory();
	if (missing)
		idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE,
						  "No background worker slot is free for the authority process, and none was given up by another database in time.",
						  "Retry, or raise \"max_worker_processes\".");
	else if (starting)
		idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE,
						  "The authority process is being started, by this call or another; that takes some ten milliseconds on a machine that is not busy.",
						  "Retry; if it goes on, look in the server log for why it ends.");
}

/*
 * Post a request; it replaces an earlier one of this process.  Returns its
 * ticket.
 */
uint64
idgen_queue_post(const IdgenMail *mail)
{
	IdgenRequest *request = my_request();
	uint64		ticket;

	idgen_lock_directory();
	ticket = ++idgen_shared->queue->last_ticket;
	request->state = IDGEN_REQUEST_PENDING;
	request->ticket = ticket;
	request->database = MyDatabaseId;
	request->role = GetUserId();
	request->latch = MyLatch;
	request->mail = *mail;
	memset(&request->answer, 0, sizeof(request->answer));
	idgen_unlock_directory();

	rouse_authority();
	return ticket;
}

/*
 * Has the request been answered?  If not, the failure says why not yet, as far
 * as the worker has said; kind NONE if it has not.
 */
static bool
answered(uint64 ticket, IdgenAnswer *answer)
{
	IdgenRequest *request = my_request();
	bool		done;

	idgen_lock_directory();
	done = request->ticket == ticket && request->state == IDGEN_REQUEST_DONE;
	*answer = request->answer;
	idgen_unlock_directory();
	return done;
}

/*
 * Give a request up, so that it is not carried out later.  Must not fail: it is
 * called while an error is on its way, or the process exits.
 */
static void
withdraw(int code, Datum arg)
{
	uint64		ticket = (uint64) DatumGetInt64(arg);
	IdgenRequest *request = my_request();

	if (!idgen_lock_directory_within(LEAVE_WITHIN_US))
		return;					/* it expires */
	if (request->ticket == ticket)
		request->state = IDGEN_REQUEST_IDLE;
	idgen_unlock_directory();
}

/*
 * Wait for the answer until a monotonic time; cancellable.  False at the
 * deadline, with the strongest reason known in answer->failure.  *late_us is by how
 * much this process woke up too late at most, as one that was stopped does.
 */
bool
idgen_queue_wait(uint64 ticket, int64 until_us, IdgenAnswer *answer, int64 *late_us)
{
	static uint32 wait_event = 0;
	int64		rouse_at_us = idgen_clock_monotonic_us() + START_RETRY_US;

	*late_us = 0;
	if (wait_event == 0)
		wait_event = idgen_wait_event("IdgenAuthority");

	while (!answered(ticket, answer))
	{
		int64		now_us = idgen_clock_monotonic_us();
		int64		wake_us;

		if (now_us >= until_us)
		{
			if (answer->error.kind == IDGEN_ERROR_NONE)
				judge_worker(&answer->error);
			return false;
		}
		if (now_us >= rouse_at_us)
		{
			rouse_authority();
			rouse_at_us = now_us + START_RETRY_US;
		}
		wake_us = Min(until_us, rouse_at_us);

		/* woken without an answer: the worker may have gone */
		if (WaitLatch(MyLatch,
					  WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					  (long) ((wake_us - now_us) / 1000 + 1),
					  wait_event) & WL_LATCH_SET)
			rouse_at_us = 0;
		*late_us = Max(*late_us, idgen_clock_monotonic_us() - wake_us);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/*
 * Post a request other than SERVE and wait for its answer, for as long as a
 * call may wait, but at least IDGEN_COMMAND_WITHIN_MIN_MS: a command that never
 * waited could never succeed.  A request given up is not carried out later,
 * unless the worker has begun with it.
 */
void
idgen_queue_call(IdgenMail *mail, IdgenAnswer *answer)
{
	int64		within_ms = Max(idgen_wait_timeout_ms, IDGEN_COMMAND_WITHIN_MIN_MS);
	volatile bool done = false;
	Datum		ticket;
	int64		late_us;

	mail->expires_at_us = idgen_clock_monotonic_us() + within_ms * 1000;
	ticket = Int64GetDatum((int64) idgen_queue_post(mail));

	/* also if the session is terminated: it may have been going to wait for an hour */
	PG_ENSURE_ERROR_CLEANUP(withdraw, ticket);
	{
		done = idgen_queue_wait((uint64) DatumGetInt64(ticket),
								  mail->expires_at_us, answer, &late_us);
		idgen_counters_note_pause_in(mail->namespace_name, late_us);
	}
	PG_END_ENSURE_ERROR_CLEANUP(withdraw, ticket);
	if (done)
		return;
	withdraw(0, ticket);
	if (answer->error.kind == IDGEN_ERROR_NONE)
		idgen_error_set(&answer->error, IDGEN_ERROR_UNAVAILABLE,
						  "The authority process did not answer in time; it may still carry the request out.",
						  NULL);
}

/* Is a process still connected to a database, as PostgreSQL counts? */
static bool
connected(pid_t pid, Oid database)
{
	PGPROC	   *proc = pid == 0 ? NULL : BackendPidGetProc(pid);

	return proc != NULL && proc->databaseId == database;
}

/*
 * Ask the worker of a database that is about to be dropped to leave, and wait
 * until it has left, which is later than it signs off: DROP DATABASE ... WITH
 * (FORCE) by an ordinary owner fails if it is still found connected.  One that was
 * asked for just now is connected before it enters.  The caller has been found
 * entitled to drop the database.
 */
void
idgen_queue_stop_authority(Oid database, int64 within_us)
{
	int64		now_us = idgen_clock_monotonic_us();
	int64		until_us = now_us + within_us;

	for (; now_us < until_us; now_us = idgen_clock_monotonic_us())
	{
		IdgenDatabase *entry;
		pid_t		left_pid = 0;
		bool		expected = false;

		idgen_lock_directory();
		entry = find_database(database);
		if (entry != NULL && authority_lives(entry))
		{
			expected = true;
			entry->stop_wanted = true;
			SetLatch(entry->authority_latch);
		}
		else if (entry != NULL)
		{
			expected = now_us - entry->started_at_us < START_RETRY_US &&
				!entry->start_failed;
			left_pid = entry->left_pid;
		}
		idgen_unlock_directory();
		if (!expected && !connected(left_pid, database))
			break;
		idgen_lock_nap(1000);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * The worker reports for duty.  False if the database has a worker already, or
 * no entry can be had: then it must leave at once, without idgen_queue_leave.
 */
bool
idgen_queue_enter(void)
{
	IdgenDatabase *entry;
	bool		entered = false;

	idgen_lock_directory();
	entry = find_or_make_database(MyDatabaseId);
	if (entry != NULL && !authority_lives(entry))
	{
		entry->authority_pid = MyProcPid;
		entry->authority_latch = MyLatch;
		entry->stop_wanted = false;
		entry->yield_wanted = false;
		entry->entered_at_us = idgen_clock_monotonic_us();
		entry->start_failed = false;
		entry->starts = 0;
		entry->turns = 0;
		entry->rounds = 0;
		entry->grants = 0;
		entry->last_round_ms = 0;
		entry->authority_started_ms = idgen_clock_wall_ms();
		entered = true;
	}
	idgen_unlock_directory();
	return entered;
}

/*
 * Does a process ask for something in this database?  Without the lock: who finds
 * out that it does takes the lock and looks again; and who posts sets the worker's
 * latch afterwards, or finds none, so that nothing is missed.
 */
static bool
is_pending(int process)
{
	const volatile IdgenRequest *request = &idgen_shared->queue->requests[process];

	return request->state == IDGEN_REQUEST_PENDING &&
		request->database == MyDatabaseId;
}

/* At most so many requests can be pending. */
int
idgen_queue_count(void)
{
	return idgen_shared->queue->count;
}

/* How many requests of this database wait for an answer? */
int
idgen_queue_count_pending(void)
{
	int			count = 0;

	for (int i = 0; i < idgen_shared->queue->count; i++)
		if (is_pending(i))
			count++;
	return count;
}

/* The worker is none any more.  Caller holds the lock. */
static void
sign_off(void)
{
	IdgenDatabase *entry = find_database(MyDatabaseId);

	if (entry == NULL || entry->authority_pid != MyProcPid)
		return;
	memset(entry, 0, sizeof(*entry));
	entry->database = MyDatabaseId;
	entry->left_pid = MyProcPid;
}

/*
 * After the worker has signed off: whoever waits for an answer starts the next
 * one.
 */
static void
wake_waiters(void)
{
	for (int i = 0; i < idgen_shared->queue->count; i++)
	{
		if (!is_pending(i))
			continue;
		if (!idgen_lock_directory_within(LEAVE_WITHIN_US))
			return;				/* they look by themselves, a little later */
		if (is_pending(i))
			SetLatch(idgen_shared->queue->requests[i].latch);
		idgen_unlock_directory();
	}
}

/*
 * The worker leaves, at any kind of exit.  Must neither fail nor delay a
 * shutdown: should a stopped process hold the lock, the entry stays, and
 * authority_lives finds out.
 */
void
idgen_queue_leave(void)
{
	if (!idgen_lock_directory_within(LEAVE_WITHIN_US))
		return;
	sign_off();
	idgen_unlock_directory();
	wake_waiters();
}

/*
 * The worker leaves because it has nothing to do; false if it has.  What is posted
 * while it leaves wakes the one that posted it.
 */
bool
idgen_queue_leave_if_empty(void)
{
	for (int i = 0; i < idgen_shared->queue->count; i++)
		if (is_pending(i))
			return false;
	idgen_lock_directory();
	sign_off();
	idgen_unlock_directory();
	wake_waiters();
	return true;
}

/* Is this worker in the way of DROP DATABASE? */
bool
idgen_queue_stop_wanted(void)
{
	IdgenDatabase *entry;
	bool		wanted;

	idgen_lock_directory();
	entry = find_database(MyDatabaseId);
	wanted = entry != NULL && entry->stop_wanted;
	idgen_unlock_directory();
	return wanted;
}

/* Does another database need this worker's process? */
bool
idgen_queue_yield_wanted(void)
{
	IdgenDatabase *entry;
	bool		wanted;

	idgen_lock_directory();
	entry = find_database(MyDatabaseId);
	wanted = entry != NULL && entry->yield_wanted;
	idgen_unlock_directory();
	return wanted;
}

/* Count a round that wrote grants. */
void
idgen_queue_note_round(int grants)
{
	IdgenDatabase *entry;

	idgen_lock_directory();
	entry = find_database(MyDatabaseId);
	if (entry != NULL)
	{
		entry->rounds++;
		entry->grants += grants;
		entry->last_round_ms = idgen_clock_wall_ms();
	}
	idgen_unlock_directory();
}

/* A turn of the worker begins; the database was in use then, if not later. */
static void
count_turn(int64 used_at_us)
{
	IdgenDatabase *entry;

	idgen_lock_directory();
	entry = find_database(MyDatabaseId);
	if (entry != NULL)
	{
		entry->turns++;
		entry->used_at_us = Max(entry->used_at_us, used_at_us);
	}
	idgen_unlock_directory();
}

/*
 * Copy a request, if it is pending for this database; one that nobody waits for any
 * more is dropped.
 */
static bool
take(int process, int64 now_us, IdgenMailTaken *taken)
{
	IdgenRequest *request = &idgen_shared->queue->requests[process];
	bool		wanted = false;

	idgen_lock_directory();
	if (is_pending(process))
	{
		wanted = request->mail.expires_at_us >= now_us;
		if (!wanted)
			request->state = IDGEN_REQUEST_IDLE;
		taken->process = process;
		taken->ticket = request->ticket;
		taken->role = request->role;
		taken->mail = request->mail;
	}
	idgen_unlock_directory();
	return wanted;
}

/*
 * Copy the requests pending for this database, one by one, so that nobody waits for
 * more than a copy; returns their number.
 */
int
idgen_queue_take(IdgenMailTaken *taken, int taken_max, int64 used_at_us)
{
	int			count = 0;
	int64		now_us = idgen_clock_monotonic_us();

	count_turn(used_at_us);
	for (int i = 0; i < idgen_shared->queue->count && count < taken_max; i++)
		if (is_pending(i) && take(i, now_us, &taken[count]))
			count++;
	return count;
}

/* The request, if its process still waits.  Caller holds the lock. */
static IdgenRequest *
find_pending(const IdgenMailTaken *taken)
{
	IdgenRequest *request = &idgen_shared->queue->requests[taken->process];

	return request->state == IDGEN_REQUEST_PENDING &&
		request->ticket == taken->ticket ? request : NULL;
}

/* Answer a request. */
void
idgen_queue_answer(const IdgenMailTaken *taken, const IdgenAnswer *answer)
{
	IdgenRequest *request;

	idgen_lock_directory();
	request = find_pending(taken);
	if (request != NULL)
	{
		request->answer = *answer;
		request->state = IDGEN_REQUEST_DONE;
		SetLatch(request->latch);
	}
	idgen_unlock_directory();
}

/*
 * Say why a request has to wait; the worker will try again, and the waiter
 * reports this if its time runs out.
 */
void
idgen_queue_note(const IdgenMailTaken *taken, const IdgenError *error)
{
	IdgenRequest *request;

	idgen_lock_directory();
	request = find_pending(taken);
	if (request != NULL)
		request->answer.error = *error;
	idgen_unlock_directory();
}
