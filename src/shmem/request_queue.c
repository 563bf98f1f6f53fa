/*
 * request_queue.c
 *		Post a request, wait for its answer; take requests, and answer them.
 *
 * Every process has one place in the queue, by its process number.  It posts a
 * request there, and either waits or goes away: the answer to a request that
 * was given up meets a newer number, or nobody, and does no harm.  An
 * authority process that leaves signs off under the directory lock, and then
 * wakes every process with a pending request.  So either the living authority
 * process sees a request, or the process that posted it starts the next one.
 */
#include "compat.h"

#include "shmem/request_queue.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/wait_event.h"

#include "clock.h"
#include "deadline.h"
#include "shmem/authorities.h"
#include "shmem/counters.h"
#include "shmem/lock.h"
#include "shmem/shmem.h"

/*
 * How often a process that waits makes sure that there is an authority
 * process: the one that it woke or started may have died.
 */
#define ROUSE_EVERY_US	INT64_C(100000)

/* How long a process that must not fail tries for the directory. */
#define LEAVE_WITHIN_US INT64_C(1000000)

Size
idgen_queue_size(void)
{
	return add_size(offsetof(IdgenRequestQueue, entries),
					mul_size(MaxBackends, sizeof(IdgenQueueEntry)));
}

void
idgen_queue_init(void *memory, int tranche)
{
	idgen_shared->queue = memory;
	idgen_shared->queue->count = MaxBackends;
}

/* At most this many requests can be pending. */
int
idgen_queue_count(void)
{
	return idgen_shared->queue->count;
}

/* The place of this process in the queue. */
static IdgenQueueEntry *
my_entry(void)
{
	return &idgen_shared->queue->entries[idgen_my_proc_number()];
}

/*
 * Post a request; it replaces an earlier one of this process.  Returns its
 * number.
 */
uint64
idgen_queue_post(const IdgenRequest *request)
{
	IdgenQueueEntry *entry = my_entry();
	uint64		number;

	idgen_lock_directory();
	number = ++idgen_shared->queue->last_number;
	entry->state = IDGEN_QUEUE_PENDING;
	entry->number = number;
	entry->database = MyDatabaseId;
	entry->role = GetUserId();
	entry->latch = MyLatch;
	entry->request = *request;
	memset(&entry->answer, 0, sizeof(entry->answer));
	entry->answer.outcome = IDGEN_OUTCOME_RETRY;
	idgen_unlock_directory();

	idgen_authorities_rouse();
	return number;
}

/* Copy the answer to a request; false if it is not final. */
static bool
answered(uint64 number, IdgenAnswer *answer)
{
	IdgenQueueEntry *entry = my_entry();
	bool		done;

	idgen_lock_directory();
	done = entry->number == number && entry->state == IDGEN_QUEUE_ANSWERED;
	*answer = entry->answer;
	idgen_unlock_directory();
	return done;
}

/*
 * Give a request up, so that it is not carried out later.  This must not fail:
 * it is called while an error is on its way, or while the process exits.
 */
static void
withdraw(int code, Datum arg)
{
	uint64		number = (uint64) DatumGetInt64(arg);
	IdgenQueueEntry *entry = my_entry();

	if (!idgen_lock_directory_within(LEAVE_WITHIN_US))
		return;					/* the request expires */
	if (entry->number == number)
		entry->state = IDGEN_QUEUE_IDLE;
	idgen_unlock_directory();
}

/*
 * Wait for the answer until a monotonic time; cancellable.  False if there is
 * none by then; answer->error has the strongest reason known.  *late_us is the
 * longest time by which this process woke up late, as it does after it was
 * stopped.
 */
bool
idgen_queue_wait(uint64 number, int64 until_us, IdgenAnswer *answer, int64 *late_us)
{
	static uint32 wait_event = 0;
	int64		rouse_at_us = idgen_clock_monotonic_us() + ROUSE_EVERY_US;

	*late_us = 0;
	if (wait_event == 0)
		wait_event = idgen_wait_event("IdgenAuthority");

	while (!answered(number, answer))
	{
		int64		now_us = idgen_clock_monotonic_us();
		int64		wake_us;

		if (now_us >= until_us)
		{
			if (answer->error.kind == IDGEN_ERROR_NONE)
				idgen_authorities_explain(&answer->error);
			return false;
		}
		if (now_us >= rouse_at_us)
		{
			idgen_authorities_rouse();
			rouse_at_us = now_us + ROUSE_EVERY_US;
		}
		wake_us = Min(until_us, rouse_at_us);

		/* woken without an answer: the authority process may have left */
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
 * Post a request other than SERVE, and wait for its answer until the deadline of
 * a command.  A request that is given up is not carried out later, unless the
 * authority process has begun with it.
 */
void
idgen_queue_call(IdgenRequest *request, IdgenAnswer *answer)
{
	volatile bool done = false;
	Datum		number;
	int64		late_us;

	request->expires_at_us = idgen_deadline_of_command_from(idgen_clock_monotonic_us());
	number = Int64GetDatum((int64) idgen_queue_post(request));

	/* even if the session is terminated: the request may live for an hour */
	PG_ENSURE_ERROR_CLEANUP(withdraw, number);
	{
		done = idgen_queue_wait((uint64) DatumGetInt64(number),
								request->expires_at_us, answer, &late_us);
		idgen_counters_note_pause_in(request->namespace_name, late_us);
	}
	PG_END_ENSURE_ERROR_CLEANUP(withdraw, number);
	if (done)
		return;
	withdraw(0, number);
	if (answer->error.kind == IDGEN_ERROR_NONE)
		idgen_error_set(&answer->error, IDGEN_ERROR_UNAVAILABLE,
						"The authority process did not answer in time. It may still carry out the request.",
						NULL);
}

/*
 * Does a process ask for something in this database?  This is read without the
 * lock.  The caller takes the lock, and looks again, if the answer is yes.
 * Nothing is missed if it is no: a process that posts a request sets the latch
 * of the authority process afterwards, or finds that there is none.
 */
static bool
is_pending(int process)
{
	const volatile IdgenQueueEntry *entry = &idgen_shared->queue->entries[process];

	return entry->state == IDGEN_QUEUE_PENDING && entry->database == MyDatabaseId;
}

/*
 * After the authority process has signed off: processes that wait for an
 * answer start the next one.
 */
static void
wake_waiters(void)
{
	for (int i = 0; i < idgen_queue_count(); i++)
	{
		if (!is_pending(i))
			continue;
		if (!idgen_lock_directory_within(LEAVE_WITHIN_US))
			return;				/* they look by themselves, a little later */
		if (is_pending(i))
			SetLatch(idgen_shared->queue->entries[i].latch);
		idgen_unlock_directory();
	}
}

/*
 * The authority process leaves, at any kind of exit.  This must neither fail
 * nor delay a shutdown.  If a stopped process holds the lock, this process
 * stays registered, and others find out that it is dead.
 */
void
idgen_queue_leave(void)
{
	if (!idgen_lock_directory_within(LEAVE_WITHIN_US))
		return;
	idgen_authorities_sign_off();
	idgen_unlock_directory();
	wake_waiters();
}

/*
 * The authority process leaves if nothing is asked of it; false if something
 * is.  A process that posts a request meanwhile is woken.
 */
bool
idgen_queue_leave_if_empty(void)
{
	for (int i = 0; i < idgen_queue_count(); i++)
		if (is_pending(i))
			return false;
	idgen_lock_directory();
	idgen_authorities_sign_off();
	idgen_unlock_directory();
	wake_waiters();
	return true;
}

/*
 * Copy a request, if it is pending for this database.  A request that nobody
 * waits for any more is dropped.
 */
static bool
take(int process, int64 now_us, IdgenTicket *ticket)
{
	IdgenQueueEntry *entry = &idgen_shared->queue->entries[process];
	bool		wanted = false;

	idgen_lock_directory();
	if (is_pending(process))
	{
		wanted = entry->request.expires_at_us >= now_us;
		if (!wanted)
			entry->state = IDGEN_QUEUE_IDLE;
		ticket->process = process;
		ticket->number = entry->number;
		ticket->role = entry->role;
		ticket->request = entry->request;
	}
	idgen_unlock_directory();
	return wanted;
}

/*
 * Copy the requests that are pending for this database.  The lock is taken for
 * each of them, so that nobody waits for more than one copy.  Returns their
 * number.
 */
int
idgen_queue_take(IdgenTicket *tickets, int tickets_max)
{
	int			count = 0;
	int64		now_us = idgen_clock_monotonic_us();

	for (int i = 0; i < idgen_queue_count() && count < tickets_max; i++)
		if (is_pending(i) && take(i, now_us, &tickets[count]))
			count++;
	return count;
}

/*
 * The entry of a request, if its process still waits.  Caller holds the lock.
 */
static IdgenQueueEntry *
find_pending(const IdgenTicket *ticket)
{
	IdgenQueueEntry *entry = &idgen_shared->queue->entries[ticket->process];

	return entry->state == IDGEN_QUEUE_PENDING &&
		entry->number == ticket->number ? entry : NULL;
}

/* Answer a request. */
void
idgen_queue_answer(const IdgenTicket *ticket, const IdgenAnswer *answer)
{
	IdgenQueueEntry *entry;

	idgen_lock_directory();
	entry = find_pending(ticket);
	if (entry != NULL)
	{
		entry->answer = *answer;
		entry->state = IDGEN_QUEUE_ANSWERED;
		SetLatch(entry->latch);
	}
	idgen_unlock_directory();
}

/*
 * Say why a request has to wait.  The authority will try again; the process
 * that waits reports this reason if its time runs out.
 */
void
idgen_queue_note(const IdgenTicket *ticket, const IdgenError *error)
{
	IdgenQueueEntry *entry;

	idgen_lock_directory();
	entry = find_pending(ticket);
	if (entry != NULL)
		entry->answer.error = *error;
	idgen_unlock_directory();
}

/* How many requests of this database wait for an answer? */
int
idgen_queue_count_pending(void)
{
	int			count = 0;

	for (int i = 0; i < idgen_queue_count(); i++)
		if (is_pending(i))
			count++;
	return count;
}
