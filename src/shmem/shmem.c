/*
 * shmem.c
 *		Allocate and initialise shared memory; bounded lock acquisition.
 *
 * Locks, outermost first:
 *
 *	1. relation, row and transaction locks of PostgreSQL
 *	2. clock_file_lock		who writes the file of the clock; only tried for
 *	   ended.file_lock		who writes the file of what may be gone
 *	3. directory_lock		requests, databases, the clock
 *	   a slot's lock		one cursor; never two slots at once
 *	   ended.lock			until when what may be gone issued
 *	   stats_lock			who gets which statistics
 *
 * Of those of line 3 a process holds one at a time.  Meanwhile nothing is raised,
 * allocated, waited for or written.  Who owns which slot needs no lock (pool.c),
 * nor does counting or reading what is counted (stats.c).
 *
 * None of them is held for longer than it takes to copy a few entries, and the
 * directory by one process at a time: a lock that is tried for has no queue, so that
 * readers who share it could keep a writer out for ever.
 *
 * A process can be stopped (SIGSTOP) anywhere, also while it holds a lock.  No
 * other may wait for it beyond its own bound (S10), and LWLockAcquire cannot
 * be bounded or cancelled; so both kinds of lock are taken by trying.
 *
 * Shared memory is initialised by the postmaster at its start and again after
 * the crash of a backend.  Every cursor is gone then (S5), and "boot" tells the
 * authority that the incarnations it recorded for them are over.
 */
#include "compat.h"

#include "shmem/shmem.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/wait_event.h"

#include "clock.h"
#include "random.h"
#include "settings.h"

/* Tries of a held lock before the first sleep, and the longest sleep. */
#define LOCK_SPINS			64
#define LOCK_SLEEP_MIN_US	20
#define LOCK_SLEEP_MAX_US	1000

/*
 * How long to try for the directory, which is held for microseconds.  A caller
 * that must not wait gets this long all the same.
 */
#define DIRECTORY_WITHIN_MIN_MS 100
#define DIRECTORY_WITHIN_MAX_MS 5000

IdgenShared *idgen_shared = NULL;

/* Shown while a process waits for one of these locks. */
static uint32 lock_wait_event = PG_WAIT_EXTENSION;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/*
 * Each database in use needs a background worker.  There may be more that wait until
 * it is their turn.
 */
static int
database_count(void)
{
	return 4 * Max(max_worker_processes, 1);
}

/*
 * Lay the parts out one after the other; with shared == NULL only the size is
 * computed, so that size and layout cannot disagree.
 */
static Size
lay_out(IdgenShared *shared)
{
	Size		size = CACHELINEALIGN(sizeof(IdgenShared));
	Size		infos = size;
	Size		slots;
	Size		requests;
	Size		databases;
	Size		stats;

	size = add_size(size, mul_size(idgen_max_cursors, sizeof(IdgenSlotInfo)));
	size = slots = TYPEALIGN(IDGEN_SLOT_ALIGN, size);
	size = add_size(size, mul_size(idgen_max_cursors, sizeof(IdgenSlotPadded)));
	requests = size;
	size = add_size(size, mul_size(MaxBackends, sizeof(IdgenRequest)));
	size = databases = MAXALIGN(size);
	size = add_size(size, mul_size(database_count(), sizeof(IdgenDatabase)));
	size = stats = MAXALIGN(size);
	size = add_size(size, mul_size(idgen_max_cursors, sizeof(IdgenStats)));

	if (shared != NULL)
	{
		char	   *base = (char *) shared;

		shared->slot_count = idgen_max_cursors;
		shared->request_count = MaxBackends;
		shared->database_count = database_count();
		shared->stats_count = idgen_max_cursors;
		shared->infos = (IdgenSlotInfo *) (base + infos);
		shared->slots = (IdgenSlotPadded *) (base + slots);
		shared->requests = (IdgenRequest *) (base + requests);
		shared->databases = (IdgenDatabase *) (base + databases);
		shared->stats = (IdgenStats *) (base + stats);
	}
	return size;
}

/* Room to align the whole block to IDGEN_SLOT_ALIGN. */
static Size
shmem_size(void)
{
	return add_size(lay_out(NULL), IDGEN_SLOT_ALIGN);
}

static void
shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(shmem_size());
}

static void
init_stats(IdgenStats *stats)
{
	pg_atomic_init_u64(&stats->key, 0);
	for (int i = 0; i < IDGEN_COUNTER_COUNT; i++)
		pg_atomic_init_u64(&stats->counters[i], 0);
	pg_atomic_init_u64(&stats->last_error, 0);
	pg_atomic_init_u64(&stats->reset_ms, 0);
}

static void
shmem_startup(void)
{
	bool		found;
	void	   *block;
	int			tranche;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	block = ShmemInitStruct("idgen", shmem_size(), &found);
	idgen_shared = (IdgenShared *) TYPEALIGN(IDGEN_SLOT_ALIGN, (uintptr_t) block);
	if (!found)
	{
		memset(idgen_shared, 0, lay_out(NULL));
		lay_out(idgen_shared);
		idgen_random_uuid(&idgen_shared->boot);
		pg_atomic_init_u64(&idgen_shared->last_generation, 0);
		pg_atomic_init_u64(&idgen_shared->directory_version, 1);
		pg_atomic_init_u64(&idgen_shared->cursors_taken, 0);
		pg_atomic_init_u64(&idgen_shared->authority_pauses, 0);
		pg_atomic_init_u64(&idgen_shared->authority_pause_max_us, 0);
		tranche = idgen_new_tranche("idgen");
		LWLockInitialize(&idgen_shared->directory_lock, tranche);
		LWLockInitialize(&idgen_shared->clock_file_lock, tranche);
		LWLockInitialize(&idgen_shared->stats_lock, tranche);
		pg_atomic_init_u64(&idgen_shared->directory_releases, 0);
		idgen_ended_init(tranche);
		for (int i = 0; i < idgen_shared->slot_count; i++)
		{
			IdgenSlot  *slot = idgen_slot(i);

			LWLockInitialize(&slot->lock, tranche);
			pg_atomic_init_u64(&slot->generation, IDGEN_SLOT_FREE);
			pg_atomic_init_u64(&slot->granted_end, 0);
		}
		for (int i = 0; i < idgen_shared->stats_count; i++)
			init_stats(&idgen_shared->stats[i]);
	}
	idgen_register_tranche(idgen_shared->directory_lock.tranche, "idgen");
	LWLockRelease(AddinShmemInitLock);

	/* nobody else is there yet */
	if (!found)
		idgen_ended_load();

	/* now, since it may fail, and a process that waits may not */
	lock_wait_event = idgen_wait_event("IdgenLock");
}

/* Called once, while the postmaster preloads the library. */
void
idgen_shmem_install_hooks(void)
{
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;
}

/* An error unless shared memory was set up when the server started. */
void
idgen_require_preloaded(void)
{
	if (idgen_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("idgen is not preloaded"),
				 errhint("Add this line to postgresql.conf and restart: shared_preload_libraries = 'idgen' (with the libraries already listed there).")));
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
 * Take a lock, or give up after within_us.  Never raises, so that it can be
 * used at commit; interrupts stay pending meanwhile, so keep the bound short
 * where a user waits.
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

/* The same for the directory. */
bool
idgen_lock_directory_within(int64 within_us)
{
	return idgen_lock_within(&idgen_shared->directory_lock, LW_EXCLUSIVE, within_us);
}

/* The directory could not be had: is that because its holder is stopped? */
static void
report_directory(int64 waited_ms, uint64 releases, bool moves)
{
	ereport(ERROR,
			(errcode(ERRCODE_IDGEN_UNAVAILABLE),
			 errmsg("could not lock the directory of idgen"),
			 moves ?
			 errdetail("It is busy: others had it " UINT64_FORMAT " times in " INT64_FORMAT " ms.",
					   releases, waited_ms) :
			 errdetail("A process that holds it seems to be stopped."),
			 moves ?
			 errhint("Retry; if it goes on, the server has more sessions than processors to run them.") :
			 errhint("Look for a stopped PostgreSQL process (state \"T\" in ps), and let it continue.")));
}

/*
 * Take the directory lock, or raise an error.  Cancellable; bounded by
 * idgen.wait_timeout.
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
