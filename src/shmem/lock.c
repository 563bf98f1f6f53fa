/*
 * lock.c
 *		Take a lock in shared memory within a bound or not at all.
 *
 * Which locks there are, and their order: shmem.c.
 */
#include "compat.h"

#include "shmem/lock.h"

#include "miscadmin.h"
#include "storage/spin.h"
#include "utils/wait_event.h"

#include "clock.h"
#include "error.h"
#include "settings.h"
#include "shmem/shmem.h"

/*
 * Attempts to take a busy lock before the first sleep; the first and the
 * longest sleep.
 */
#define LOCK_SPINS			64
#define LOCK_SLEEP_MIN_US	20
#define LOCK_SLEEP_MAX_US	1000

/*
 * How long to try for the directory lock, which is held for microseconds.  A caller
 * that must not wait tries for the minimum all the same.
 */
#define DIRECTORY_WITHIN_MIN_MS 100
#define DIRECTORY_WITHIN_MAX_MS 5000

/* Shown while a process waits for one of these locks. */
static uint32 lock_wait_event = PG_WAIT_EXTENSION;

/*
 * Name the wait event, when the server starts: this may fail, and a process that is
 * waiting for a lock must not.
 */
void
idgen_lock_prepare(void)
{
	lock_wait_event = idgen_wait_event("IdgenLock");
}

/* Sleep for a moment because of a lock; pg_stat_activity shows it. */
void
idgen_lock_nap(long us)
{
	pgstat_report_wait_start(lock_wait_event);
	pg_usleep(us);
	pgstat_report_wait_end();
}

/*
 * Take a lock, or give up after within_us.  Never raises an error, so that it can be
 * used at commit.  Interrupts stay pending meanwhile, so the bound must be short where
 * a user waits.
 */
bool
idgen_lock_within(LWLock *lock, LWLockMode mode, int64 within_us)
{
	int64		give_up_at_us;
	long		sleep_us = LOCK_SLEEP_MIN_US;

	for (int i = 0; i < LOCK_SPINS; i++)
	{
		if (LWLockConditionalAcquire(lock, mode))
			return true;
		SPIN_DELAY();
	}
	give_up_at_us = idgen_clock_monotonic_us() + within_us;
	while (idgen_clock_monotonic_us() < give_up_at_us)
	{
		idgen_lock_nap(sleep_us);
		sleep_us = Min(sleep_us * 2, LOCK_SLEEP_MAX_US);
		if (LWLockConditionalAcquire(lock, mode))
			return true;
	}
	return false;
}

/* The same for the directory lock. */
bool
idgen_lock_directory_within(int64 within_us)
{
	return idgen_lock_within(&idgen_shared->directory_lock, LW_EXCLUSIVE, within_us);
}

/*
 * Raise an error: the directory lock could not be taken.  If it changes hands, the
 * server is busy; if not, its holder seems to be stopped.
 */
static void
report_directory(int64 waited_ms, uint64 releases, bool moves)
{
	ereport(ERROR,
			(errcode(ERRCODE_IDGEN_UNAVAILABLE),
			 errmsg("could not lock the shared memory of idgen"),
			 moves ?
			 errdetail("It is busy: other processes locked it " UINT64_FORMAT " times within " INT64_FORMAT " ms.",
					   releases, waited_ms) :
			 errdetail("The process that holds the lock seems to be stopped."),
			 moves ?
			 errhint(IDGEN_HINT_CROWDED) :
			 errhint(IDGEN_HINT_STOPPED)));
}

/*
 * Take the directory lock, or raise an error (IG005).  Cancellable, and
 * bounded by idgen.wait_timeout within the limits above.
 */
void
idgen_lock_directory(void)
{
	int64		within_us = Min(Max(idgen_wait_timeout_ms, DIRECTORY_WITHIN_MIN_MS),
								DIRECTORY_WITHIN_MAX_MS) * INT64_C(1000);
	int64		begun_us = idgen_clock_monotonic_us();
	uint64		first = pg_atomic_read_u64(&idgen_shared->directory_releases);
	uint64		last = first;
	int64		moved_at_us = begun_us;

	while (!idgen_lock_directory_within(10 * LOCK_SLEEP_MAX_US))
	{
		int64		now_us = idgen_clock_monotonic_us();
		uint64		releases = pg_atomic_read_u64(&idgen_shared->directory_releases);

		CHECK_FOR_INTERRUPTS();
		if (releases != last)
			moved_at_us = now_us;
		last = releases;
		if (now_us - begun_us >= within_us)
			report_directory((now_us - begun_us) / 1000, last - first,
							 now_us - moved_at_us < within_us / 2);
	}
}

void
idgen_unlock_directory(void)
{
	pg_atomic_fetch_add_u64(&idgen_shared->directory_releases, 1);
	LWLockRelease(&idgen_shared->directory_lock);
}
