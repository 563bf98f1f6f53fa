/*
 * shmem.c
 *		Reserve shared memory and have each area initialise its part.
 *
 * Locks, outermost first:
 *
 *	1. relation, row and transaction locks of PostgreSQL
 *	2. clock->file_lock		who writes the file of the clock; tried only once
 *	   ended->file_lock		who writes the file of what was dropped
 *	3. directory_lock		requests, databases, the clock
 *	   a slot's lock		one cursor; never two slots at once
 *	   ended->lock			until when dropped namespaces issued IDs
 *	   counters->lock		which namespace gets which counters
 *
 * A process holds at most one lock of line 3 at a time.  While it does, it raises no
 * error, allocates nothing, waits for nothing and writes no file.  Who owns which slot
 * needs no lock (slot.c), and neither does counting or reading what has been counted
 * (counters.c).
 *
 * No lock of line 3 is held for longer than it takes to copy a few entries,
 * or, for ended->lock, to walk over all of them.  The directory lock is only
 * ever taken exclusively: a lock that is taken by trying has no queue, so
 * readers who share it could keep a writer out for ever.
 *
 * A process can be stopped (SIGSTOP) anywhere, also while it holds a lock.  No other
 * process may wait for it beyond its own bound (S10), and LWLockAcquire can be neither
 * bounded nor cancelled; so every lock of lines 2 and 3 is taken by trying (lock.c).
 *
 * The postmaster initialises shared memory when it starts, and again after the crash
 * of a backend.  Every cursor is gone then (S5), and "boot" tells the authority process
 * that the incarnations recorded for those cursors are over.
 */
#include "compat.h"

#include "shmem/shmem.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "random.h"
#include "shmem/authorities.h"
#include "shmem/clock_judge.h"
#include "shmem/counters.h"
#include "shmem/ended.h"
#include "shmem/lock.h"
#include "shmem/pool.h"
#include "shmem/request_queue.h"
#include "shmem/slot.h"

IdgenShared *idgen_shared = NULL;

/* What pg_shmem_allocations calls each area; its size; how it is set up. */
typedef struct IdgenArea
{
	const char *name;
	Size		(*size) (void);
	void		(*init) (void *memory, int tranche);	/* memory is zeroed */
} IdgenArea;

static const IdgenArea areas[] = {
	{"idgen slots", idgen_slots_size, idgen_slots_init},
	{"idgen pool", idgen_pool_size, idgen_pool_init},
	{"idgen requests", idgen_queue_size, idgen_queue_init},
	{"idgen authorities", idgen_authorities_size, idgen_authorities_init},
	{"idgen counters", idgen_counters_size, idgen_counters_init},
	{"idgen clock", idgen_clock_judge_size, idgen_clock_judge_init},
	{"idgen ended", idgen_ended_size, idgen_ended_init},
};

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/* Each allocation begins on a cache line of its own. */
static Size
shmem_size(void)
{
	Size		size = CACHELINEALIGN(sizeof(IdgenShared));

	for (int i = 0; i < (int) lengthof(areas); i++)
		size = add_size(size, CACHELINEALIGN(areas[i].size()));
	return size;
}

static void
shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(shmem_size());
}

/* Caller holds AddinShmemInitLock, and nobody has attached yet. */
static void
initialise(int tranche)
{
	memset(idgen_shared, 0, sizeof(IdgenShared));
	idgen_random_uuid(&idgen_shared->boot);
	LWLockInitialize(&idgen_shared->directory_lock, tranche);
	pg_atomic_init_u64(&idgen_shared->directory_releases, 0);
	for (int i = 0; i < (int) lengthof(areas); i++)
	{
		Size		size = areas[i].size();
		bool		found;
		void	   *memory = ShmemInitStruct(areas[i].name, size, &found);

		memset(memory, 0, size);
		areas[i].init(memory, tranche);
	}
}

static void
shmem_startup(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	idgen_shared = ShmemInitStruct("idgen", sizeof(IdgenShared), &found);
	if (!found)
		initialise(idgen_new_tranche("idgen"));
	idgen_register_tranche(idgen_shared->directory_lock.tranche, "idgen");
	LWLockRelease(AddinShmemInitLock);

	/* nobody else is there yet */
	if (!found)
		idgen_ended_load();

	idgen_lock_prepare();
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

/* Raises an error unless shared memory was set up when the server started. */
void
idgen_require_preloaded(void)
{
	if (idgen_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("idgen is not preloaded"),
				 errhint("Add this line to postgresql.conf and restart: shared_preload_libraries = 'idgen' (with the libraries already listed there).")));
}
