/*
 * database.c
 *		The databases in use and their authority processes.
 */
#include "compat.h"

#include "shmem/database.h"

#include "miscadmin.h"

#include "shmem/lock.h"
#include "shmem/shmem.h"

/*
 * Each database in use needs a background worker.  There may be more of them, which wait
 * until it is their turn.
 */
#define DATABASES_PER_PROCESS 4

static int
database_count(void)
{
	return DATABASES_PER_PROCESS * Max(max_worker_processes, 1);
}

Size
idgen_databases_size(void)
{
	return add_size(offsetof(IdgenDatabases, entries),
					mul_size(database_count(), sizeof(IdgenDatabase)));
}

void
idgen_databases_init(void *memory, int tranche)
{
	idgen_shared->databases = memory;
	idgen_shared->databases->count = database_count();
}

/* Copy what is known of a database; all zero if nothing is. */
void
idgen_database_read(Oid database, IdgenDatabase *copy)
{
	memset(copy, 0, sizeof(*copy));
	idgen_lock_directory();
	for (int i = 0; i < idgen_shared->databases->count; i++)
		if (idgen_shared->databases->entries[i].database == database)
			*copy = idgen_shared->databases->entries[i];
	idgen_unlock_directory();
}
