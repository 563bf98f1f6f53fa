/*
 * hold.c
 *		Stops the process that calls it while it holds a lock of idgen's, so that a
 *		test need not hope to stop it there.  SIGCONT lets it go on.
 *
 * Locks are found by their place in shared memory, as idgen lays it out.
 */
#include "postgres.h"

#include <signal.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/builtins.h"

#include "shmem/shmem.h"

PG_MODULE_MAGIC;

static IdgenShared *
shared_memory(int64 size)
{
	bool		found;
	void	   *block;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	block = ShmemInitStruct("idgen", size, &found);
	LWLockRelease(AddinShmemInitLock);
	return (IdgenShared *) TYPEALIGN(IDGEN_SLOT_ALIGN, (uintptr_t) block);
}

/* The lock of that name; of cursors, that of the only one. */
static LWLock *
find_lock(IdgenShared *shared, const char *name)
{
	if (strcmp(name, "directory") == 0)
		return &shared->directory_lock;
	if (strcmp(name, "statistics") == 0)
		return &shared->stats_lock;
	if (strcmp(name, "ended") == 0)
		return &shared->ended.lock;
	for (int i = 0; strcmp(name, "cursor") == 0 && i < shared->slot_count; i++)
		if (shared->slots[i].slot.issued_count > 0)
			return &shared->slots[i].slot.lock;
	elog(ERROR, "no such lock: %s", name);
	return NULL;
}

/* hold_lock(name text, size int8): the size of idgen in pg_shmem_allocations */
PG_FUNCTION_INFO_V1(hold_lock);
Datum
hold_lock(PG_FUNCTION_ARGS)
{
	LWLock	   *lock = find_lock(shared_memory(PG_GETARG_INT64(1)),
								  text_to_cstring(PG_GETARG_TEXT_PP(0)));

	LWLockAcquire(lock, LW_EXCLUSIVE);
	(void) raise(SIGSTOP);
	LWLockRelease(lock);
	PG_RETURN_VOID();
}

/* What those who had the lock leave behind. */
static void
count_use(IdgenShared *shared, LWLock *lock)
{
	if (lock == &shared->directory_lock)
		pg_atomic_fetch_add_u64(&shared->directory_releases, 1);
	else
		((IdgenSlot *) ((char *) lock - offsetof(IdgenSlot, lock)))->issued_count++;
}

/*
 * crowd_lock(name text, size int8): has the directory or the cursor nearly all the
 * time, for a minute or until it is cancelled, as a crowd of processes would.
 */
PG_FUNCTION_INFO_V1(crowd_lock);
Datum
crowd_lock(PG_FUNCTION_ARGS)
{
	IdgenShared *shared = shared_memory(PG_GETARG_INT64(1));
	LWLock	   *lock = find_lock(shared, text_to_cstring(PG_GETARG_TEXT_PP(0)));

	for (int i = 0; i < 3000; i++)
	{
		LWLockAcquire(lock, LW_EXCLUSIVE);
		pg_usleep(20000);
		count_use(shared, lock);
		LWLockRelease(lock);
		CHECK_FOR_INTERRUPTS();
	}
	PG_RETURN_VOID();
}
