/*
 * shmem.h
 *		The one pointer to the shared memory of idgen, and what belongs to no area
 *		of it.
 */
#ifndef IDGEN_SHMEM_H
#define IDGEN_SHMEM_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "utils/uuid.h"

/*
 * Each area is declared, sized and initialised by the file of its name, which also
 * names the lock of each field.  The pointers are constant once shared memory has
 * been initialised.
 */
typedef struct IdgenShared
{
	pg_uuid_t	boot;			/* random, new with each initialisation;
								 * constant */
	LWLock		directory_lock; /* see lock.h */
	pg_atomic_uint64 directory_releases;	/* atomic: shows that the lock
											 * goes on changing hands */
	struct IdgenSlots *slots;
	struct IdgenPool *pool;
	struct IdgenRequestQueue *queue;
	struct IdgenAuthorities *authorities;
	struct IdgenCountersTable *counters;
	struct IdgenClockState *clock;
	struct IdgenEndedState *ended;
} IdgenShared;

/* NULL when the library was not preloaded. */
extern IdgenShared *idgen_shared;

extern void idgen_shmem_install_hooks(void);
extern void idgen_require_preloaded(void);

#endif							/* IDGEN_SHMEM_H */
