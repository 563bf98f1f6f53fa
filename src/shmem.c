/*
 * shmem.c
 *		Allocate and initialise shared memory; bounded lock acquisition.
 *
 * Locks, outermost first:
 *
 *	1. relation, row and transaction locks of PostgreSQL
 *	2. directory_lock		requests, databases, statistics, the clock
 *	3. a slot's lock		one cursor; never two slots at once
 *	4. ended.lock			until when what may be gone issued
 *
 * and apart from these clock_file_lock, which is tried for with none of them
 * held, and under which the directory lock is taken for a moment; and
 * ended.file_lock, the same with ended.lock.
 *
 * While a slot's lock is held nothing is raised, allocated, waited for or
 * written, and no other lock is taken.  While the directory lock is held
 * nothing is raised or written.  Who owns which slot needs no lock: pool.c.
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

#include "shmem.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/wait_event.h"

#include "clock.h"
#include "settings.h"

/* Tries of a held lock before the first sleep, and the longest sleep. */
#define LOCK_SPINS			64
#define LOCK_SLEEP_MIN_US	20
#define LOCK_SLEEP_MAX_US	1000

/*
 * The directory is held for microseconds; longer means a stopped process.  A
 * caller that must not wait gets this long all the same.
 */
#define DIRECTORY_WITHIN_MIN_MS 100
#define DIRECTORY_WITHIN_MAX_MS 5000

IdgenShared *idgen_shared = NULL;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/* Each database in use needs a background worker, so there cannot be more. */
static int
database_count(void)
{
	return max_worker_processes;
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

/* A random (version 4) uuid for this initialisation of shared memory. */
static void
make_boot_uuid(pg_uuid_t *uuid)
{
	if (!pg_strong_random(uuid->data, UUID_LEN))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	uuid->data[6] = (uuid->data[6] & 0x0f) | 0x40;
	uuid->data[8] = (uuid->data[8] & 0x3f) | 0x80;
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
		make_boot_uuid(&idgen_shared->boot);
		pg_atomic_init_u64(&idgen_shared->last_tenure, 0);
		pg_atomic_init_u64(&idgen_shared->directory_version, 1);
		tranche = idgen_new_tranche("idgen");
		LWLockInitialize(&idgen_shared->directory_lock, tranche);
		LWLockInitialize(&idgen_shared->clock_file_lock, tranche);
		idgen_ended_init(tranche);
		for (int i = 0; i < idgen_shared->slot_count; i++)
		{
			IdgenSlot  *slot = idgen_slot(i);

			LWLockInitialize(&slot->lock, tranche);
			pg_atomic_init_u64(&slot->tenure, IDGEN_SLOT_FREE);
			pg_atomic_init_u64(&slot->granted_end, 0);
		}
		for (int i = 0; i < idgen_shared->stats_count; i++)
			for (int j = 0; j < IDGEN_COUNTER_COUNT; j++)
				pg_atomic_init_u64(&idgen_shared->stats[i].counters[j], 0);
	}
	idgen_register_tranche(idgen_shared->directory_lock.tranche, "idgen");
	LWLockRelease(AddinShmemInitLock);

	/* nobody else is there yet */
	if (!found)
		idgen_ended_load();
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
		pg_usleep(sleep_us);
		sleep_us = Min(sleep_us * 2, LOCK_SLEEP_MAX_US);
		if (LWLockConditionalAcquire(lock, mode))
			return true;
	}
	return false;
}

/*
 * Take the directory lock, or raise an error if its holder seems stopped.
 * Cancellable; bounded by idgen.wait_timeout.
 */
void
idgen_lock_directory(LWLockMode mode)
{
	int64		within_ms = Min(Max(idgen_wait_timeout_ms, DIRECTORY_WITHIN_MIN_MS),
								DIRECTORY_WITHIN_MAX_MS);
	int64		give_up_at_us = idgen_clock_monotonic_us() + within_ms * 1000;

	while (!idgen_lock_within(&idgen_shared->directory_lock, mode,
							  10 * LOCK_SLEEP_MAX_US))
	{
		CHECK_FOR_INTERRUPTS();
		if (idgen_clock_monotonic_us() >= give_up_at_us)
			ereport(ERROR,
					(errcode(ERRCODE_IDGEN_UNAVAILABLE),
					 errmsg("could not lock the directory of idgen cursors"),
					 errdetail("A process that holds it seems to be stopped."),
					 errhint("Look for a stopped PostgreSQL process (state \"T\" in ps), and let it continue.")));
	}
}

void
idgen_unlock_directory(void)
{
	LWLockRelease(&idgen_shared->directory_lock);
}
