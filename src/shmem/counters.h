/*
 * counters.h
 *		What is counted and noted of each namespace.
 *
 * Counting begins when shared memory is initialised, or with the last reset, and is for
 * watching only: no decision about a grant rests on it.
 */
#ifndef IDGEN_COUNTERS_H
#define IDGEN_COUNTERS_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/lwlock.h"

#include "error.h"
#include "shmem/pool.h"

/* What is counted per namespace; times in microseconds. */
typedef enum IdgenCounter
{
	IDGEN_COUNTER_BATCHES,
	IDGEN_COUNTER_TICK_WAITS,	/* for the next tick */
	IDGEN_COUNTER_TICK_WAIT_US,
	IDGEN_COUNTER_GRANT_WAITS,	/* for the authority process */
	IDGEN_COUNTER_GRANT_WAIT_US,
	IDGEN_COUNTER_LOCK_WAITS,	/* for a busy cursor */
	IDGEN_COUNTER_LOCK_WAIT_US,
	IDGEN_COUNTER_EXHAUSTIONS,	/* passes that found every sequence value used
								 * up */
	IDGEN_COUNTER_SPILLS,		/* moves to a higher worker within a tick */
	IDGEN_COUNTER_CLOCK_BEHIND, /* passes that found the clock behind */
	IDGEN_COUNTER_CLOCK_BEHIND_MAX_US,
	IDGEN_COUNTER_GRANTS_MISSED,	/* passes that found a grant ended and no
									 * other */
	IDGEN_COUNTER_GRANTS,
	IDGEN_COUNTER_GRANT_LATENCY_US, /* from the decision until it can be used */
	IDGEN_COUNTER_GRANT_LATENCY_MAX_US,
	IDGEN_COUNTER_REJECTIONS,	/* IG008 */
	IDGEN_COUNTER_FORKS,		/* of these, two holders of one incarnation */
	IDGEN_COUNTER_FENCES,
	IDGEN_COUNTER_ERRORS,		/* reported to callers that have the privilege */
	IDGEN_COUNTER_REFUSALS,		/* of callers that do not have it */
	IDGEN_COUNTER_PAUSES,		/* times that a process did not run in a call */
	IDGEN_COUNTER_PAUSE_MAX_US,
	IDGEN_COUNTER_GRANTS_AHEAD, /* to external generators, of a time to come */
	IDGEN_COUNTER_HOLDER_WAITS, /* of these, to generators that had no grant
								 * until it began */
	IDGEN_COUNTER_HOLDER_WAIT_US,
	IDGEN_COUNTER_HOLDER_WAIT_MAX_US
} IdgenCounter;

#define IDGEN_COUNTER_COUNT (IDGEN_COUNTER_HOLDER_WAIT_MAX_US + 1)

/* Conditions that are logged once, when they begin. */
typedef enum IdgenAlert
{
	IDGEN_ALERT_LIFETIME,
	IDGEN_ALERT_WORKERS,
	IDGEN_ALERT_FSYNC
} IdgenAlert;

#define IDGEN_ALERT_COUNT (IDGEN_ALERT_FSYNC + 1)

/*
 * The counters of one namespace, by name.  They are given to a namespace under the lock
 * of the table, and found without it: "key" is 0 while they belong to nobody, or while
 * their owner is being changed.
 */
typedef struct IdgenCounters
{
	pg_atomic_uint64 key;		/* atomic; a hash of database and name */
	Oid			database;		/* table's lock; constant while key is not 0 */
	char		namespace_name[NAMEDATALEN];	/* the same */
	IdgenIssued issued_before;	/* what the account had issued when counting
								 * began; table's lock, but none at a reset */
	pg_atomic_uint64 values[IDGEN_COUNTER_COUNT];	/* atomic */
	pg_atomic_uint64 last_error;	/* atomic; Unix ms << 8 | IdgenErrorKind;
									 * 0 = none */
	pg_atomic_uint64 reset_ms;	/* atomic; Unix time counting began */

	/* --- written by the authority process alone, once the counters are given; no lock */
	bool		alerted[IDGEN_ALERT_COUNT];
	uint64		shares_alerted; /* roles with their share of workers: a bit by
								 * a hash of the name */
	bool		copied;			/* the authority refuses to grant: a copy */
	int			unconfirmed;	/* grants and answers that wait for standbys */

	/* --- written by the authority process alone; directory lock */
	IdgenError	standing;		/* why the authority grants nothing; kind NONE
								 * if it does, or is not known to have been
								 * asked */
	int64		standing_us;	/* monotonic; when it was found */
} IdgenCounters;

typedef struct IdgenCountersTable
{
	LWLock		lock;			/* who is giving counters to a namespace */
	pg_atomic_uint64 authority_pauses;	/* atomic; of all authority processes */
	pg_atomic_uint64 authority_pause_max_us;	/* atomic */
	int			count;			/* constant; as many as there are slots */
	IdgenCounters entries[FLEXIBLE_ARRAY_MEMBER];
} IdgenCountersTable;

/* Pauses of authority processes since shared memory was initialised. */
typedef struct IdgenPauses
{
	uint64		count;
	uint64		max_us;
} IdgenPauses;

extern Size idgen_counters_size(void);
extern void idgen_counters_init(void *memory, int tranche);

/* --- whose they are */
extern IdgenCounters *idgen_counters_get(Oid database, const char *namespace_name);
extern void idgen_counters_forget(Oid database);
extern int	idgen_counters_account(const IdgenCounters *counters);

/* --- counting; counters may be NULL, then nothing is counted */
extern void idgen_counters_max(IdgenCounters *counters, IdgenCounter counter,
							   uint64 value);
extern void idgen_counters_note_pause(IdgenCounters *counters, int64 late_us);
extern void idgen_counters_note_pause_in(const char *namespace_name, int64 late_us);
extern bool idgen_counters_note_authority_pause(int64 late_us);
extern void idgen_counters_note_refusal(IdgenCounters *counters);
extern void idgen_counters_note_error(IdgenCounters *counters,
									  const IdgenError *error);

/* --- what the authority process notes; counters may be NULL */
extern void idgen_counters_begin_authority(void);
extern void idgen_counters_set_copied(IdgenCounters *counters, bool copied);
extern void idgen_counters_set_unconfirmed(IdgenCounters *counters, int count);
extern void idgen_counters_set_standing(IdgenCounters *counters,
										const IdgenError *error);
extern bool idgen_counters_standing(const IdgenCounters *counters,
									IdgenError *error);

/* --- reading */
extern int	idgen_counters_count(void);
extern bool idgen_counters_read(int account, IdgenCounters *copy);
extern void idgen_counters_reset(int account, IdgenIssued issued);
extern void idgen_counters_read_authority_pauses(IdgenPauses *pauses);

static inline void
idgen_counters_add(IdgenCounters *counters, IdgenCounter counter, uint64 value)
{
	if (counters != NULL)
		pg_atomic_fetch_add_u64(&counters->values[counter], value);
}

#endif							/* IDGEN_COUNTERS_H */
