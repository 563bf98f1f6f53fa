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

#include "shmem.h"

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

/*
 * crowd_directory(seconds int4, size int8): has the directory nearly all the time,
 * as a crowd of processes would.
 */
PG_FUNCTION_INFO_V1(crowd_directory);
Datum
crowd_directory(PG_FUNCTION_ARGS)
{
	IdgenShared *shared = shared_memory(PG_GETARG_INT64(1));

	for (int i = 0; i < 50 * PG_GETARG_INT32(0); i++)
	{
		LWLockAcquire(&shared->directory_lock, LW_EXCLUSIVE);
		pg_usleep(20000);
		pg_atomic_fetch_add_u64(&shared->directory_releases, 1);
		LWLockRelease(&shared->directory_lock);
		CHECK_FOR_INTERRUPTS();
	}
	PG_RETURN_VOID();
}
