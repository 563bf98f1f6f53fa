/*
 * stats.h
 *		Counters of namespaces, in shared memory.
 *
 * They count from the start of shared memory or the last reset, and are for
 * watching only: no decision rests on them.
 */
#ifndef IDGEN_STATS_H
#define IDGEN_STATS_H

#include "postgres.h"

#include "failure.h"
#include "shmem.h"

extern IdgenStats *idgen_stats_get(Oid database, const char *namespace_name);
extern void idgen_stats_forget(Oid database);
extern void idgen_stats_set_copied(IdgenStats *stats, bool copied);
extern void idgen_stats_set_unconfirmed(IdgenStats *stats, int count);
extern void idgen_stats_set_standing(IdgenStats *stats,
									 const IdgenFailure *failure);
extern bool idgen_stats_standing(const IdgenStats *stats, IdgenFailure *failure);
extern void idgen_stats_begin_worker(void);
extern void idgen_stats_max(IdgenStats *stats, IdgenCounter counter,
							uint64 value);
extern void idgen_stats_note_pause(IdgenStats *stats, int64 late_us);
extern void idgen_stats_note_pause_in(const char *namespace_name, int64 late_us);
extern bool idgen_stats_note_worker_pause(int64 late_us);
extern void idgen_stats_note_refusal(IdgenStats *stats);
extern void idgen_stats_note_error(IdgenStats *stats,
								   const IdgenFailure *failure);

/* Add to a counter; stats may be NULL, then nothing is counted. */
static inline void
idgen_stats_add(IdgenStats *stats, IdgenCounter counter, uint64 value)
{
	if (stats != NULL)
		pg_atomic_fetch_add_u64(&stats->counters[counter], value);
}

#endif							/* IDGEN_STATS_H */
