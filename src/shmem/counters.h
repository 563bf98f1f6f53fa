/*
 * counters.h
 *		Counters of namespaces, in shared memory.
 *
 * They count from the start of shared memory or the last reset, and are for
 * watching only: no decision rests on them.
 */
#ifndef IDGEN_COUNTERS_H
#define IDGEN_COUNTERS_H

#include "postgres.h"

#include "error.h"
#include "shmem/shmem.h"

extern IdgenStats *idgen_stats_get(Oid database, const char *namespace_name);
extern void idgen_stats_forget(Oid database);
extern void idgen_stats_set_copied(IdgenStats *stats, bool copied);
extern void idgen_stats_set_unconfirmed(IdgenStats *stats, int count);
extern void idgen_stats_set_standing(IdgenStats *stats,
									 const IdgenError *error);
extern bool idgen_stats_standing(const IdgenStats *stats, IdgenError *error);
extern void idgen_stats_begin_authority(void);
extern void idgen_stats_max(IdgenStats *stats, IdgenCounter counter,
							uint64 value);
extern void idgen_stats_note_pause(IdgenStats *stats, int64 late_us);
extern void idgen_stats_note_pause_in(const char *namespace_name, int64 late_us);
extern bool idgen_stats_note_authority_pause(int64 late_us);
extern void idgen_stats_note_refusal(IdgenStats *stats);
extern void idgen_stats_note_error(IdgenStats *stats,
								   const IdgenError *error);

/* Add to a counter; stats may be NULL, then nothing is counted. */
static inline void
idgen_stats_add(IdgenStats *stats, IdgenCounter counter, uint64 value)
{
	if (stats != NULL)
		pg_atomic_fetch_add_u64(&stats->counters[counter], value);
}

#endif							/* IDGEN_COUNTERS_H */
