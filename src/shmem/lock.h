/*
 * lock.h
 *		Locks in shared memory that are taken within a bound or not at all.
 */
#ifndef IDGEN_LOCK_H
#define IDGEN_LOCK_H

#include "postgres.h"

#include "storage/lwlock.h"

/* What to do where a lock cannot be taken in time. */
#define IDGEN_HINT_STOPPED \
	"Look for a stopped PostgreSQL process (state \"T\" in ps) and let it continue."
#define IDGEN_HINT_CROWDED \
	"Retry. If the error persists, the server has more active sessions than its processors can run."

extern void idgen_lock_prepare(void);
extern bool idgen_lock_within(LWLock *lock, LWLockMode mode, int64 within_us);
extern void idgen_lock_nap(long us);

/* --- the directory lock: requests, databases, the clock */
extern void idgen_lock_directory(void);
extern bool idgen_lock_directory_within(int64 within_us);
extern void idgen_unlock_directory(void);

#endif							/* IDGEN_LOCK_H */
