/*
 * ended_entries.h
 *		The entries of what ended, for ended.c.
 */
#ifndef IDGEN_ENDED_ENTRIES_H
#define IDGEN_ENDED_ENTRIES_H

#include "postgres.h"

#include "shmem/ended.h"
#include "shmem/shmem.h"

/* How long to try for the lock of the entries. */
#define IDGEN_ENDED_WITHIN_US	INT64_C(100000)

static inline IdgenEndedState *
idgen_ended_state(void)
{
	return idgen_shared->ended;
}

extern void idgen_ended_lock(LWLockMode mode);
extern void idgen_ended_unlock(void);
extern bool idgen_ended_is_used(const IdgenEnded *entry);
extern int64 idgen_ended_latest_ms(const IdgenEnded *entry);
extern IdgenEnded *idgen_ended_find(Oid database, const char *namespace_name);
extern IdgenEnded *idgen_ended_make(Oid database, const char *namespace_name);
extern IdgenEnded *idgen_ended_need(Oid database, const char *namespace_name);
extern void idgen_ended_raise_bound(IdgenEnded *entry, const char *database_name, int64 bound_ms);
extern int64 idgen_ended_kept_since_ms(void);
extern bool idgen_ended_is_worth_saving(const IdgenEnded *entry, int64 since_ms);
extern void idgen_ended_save_up_to(uint64 wanted);

#endif							/* IDGEN_ENDED_ENTRIES_H */
