/*
 * shmem.h
 *		The shared memory of idgen, its locks and their order.
 */
#ifndef IDGEN_SHMEM_H
#define IDGEN_SHMEM_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/uuid.h"

#include "core/cursor.h"
#include "core/clock.h"
#include "shmem/ended.h"
#include "error.h"

/*
 * A slot belongs to one activation after another.  Each has a generation, a number
 * that no other activation of any slot has had since shared memory was
 * initialised; it stands for the slot, database, namespace and incarnation at
 * once.  Generation and phase are one atomic word, and no value of it ever comes
 * back:
 *
 *	FREE(t) -> CLAIMED(u) -> RESERVED(u) -> ACTIVE(u) -> KILLED(u) -> DEAD(u) -> FREE(u)
 *							 RESERVED(u) -----------------------------------> FREE(u)
 *
 * Generations are multiples of IDGEN_GENERATION_STEP, and ACTIVE is 0: the word of a
 * cursor that may issue is its generation, and the path of an issue compares one
 * word with one word.
 */
typedef enum IdgenSlotPhase
{
	IDGEN_SLOT_ACTIVE,
	IDGEN_SLOT_CLAIMED,			/* a worker is writing whose it is */
	IDGEN_SLOT_RESERVED,		/* that worker is committing its activation */
	IDGEN_SLOT_KILLED,			/* issues no more; its killer notes until when it did */
	IDGEN_SLOT_DEAD,			/* free once nobody is inside its lock */
	IDGEN_SLOT_FREE
} IdgenSlotPhase;

#define IDGEN_GENERATION_STEP	UINT64CONST(8)

/*
 * A cursor as issuing backends see it: one lock, and behind it everything an
 * issue touches.  Aligned to 128 bytes, so that two cursors never share a
 * cache line (nor the pair of lines some processors fetch together).
 *
 * The word is what S5 compares under the lock.  It becomes ACTIVE under the
 * lock; every other change is a compare-and-swap without it, so that a stopped
 * process cannot delay a DROP.  Who may change what: pool.c.
 */
typedef struct IdgenSlot
{
	LWLock		lock;
	pg_atomic_uint64 generation;	/* with the phase */
	uint64		issued_count;	/* lock */
	uint64		tick_count;		/* lock; ticks it has issued from */
	IdgenCursor cursor;			/* lock */
	pg_atomic_uint64 granted_end;	/* no tick from here on was granted to this
									 * generation; raised, under the lock, before the
									 * grant is installed */
} IdgenSlot;

#define IDGEN_SLOT_ALIGN 128

typedef union IdgenSlotPadded
{
	IdgenSlot	slot;
	char		pad[(sizeof(IdgenSlot) + IDGEN_SLOT_ALIGN - 1) /
					IDGEN_SLOT_ALIGN * IDGEN_SLOT_ALIGN];
} IdgenSlotPadded;

/*
 * Whose slot is it?  Written by the worker that has CLAIMED it, constant from
 * then on until it is FREE.  Read without a lock: what was read is true of the
 * word that was there before and after.
 */
typedef struct IdgenSlotInfo
{
	Oid			database;
	pg_uuid_t	namespace_uuid;
	char		namespace_name[NAMEDATALEN];
	int32		worker;
	int64		incarnation;
	int64		epoch_ms;		/* to say in Unix time what it issued */
	int64		tick_ms;
	int			stats;			/* index of its statistics; -1 = none */
	Oid			owner;			/* role that owns the namespace */
	int64		since_ms;		/* Unix time of the reservation */
} IdgenSlotInfo;

/* What is counted per namespace; times in microseconds. */
typedef enum IdgenCounter
{
	IDGEN_COUNTER_IDS_ENDED,	/* IDs of cursors that are gone */
	IDGEN_COUNTER_TICKS_ENDED,	/* ticks of theirs */
	IDGEN_COUNTER_BATCHES,
	IDGEN_COUNTER_TICK_WAITS,	/* for the next tick */
	IDGEN_COUNTER_TICK_WAIT_US,
	IDGEN_COUNTER_GRANT_WAITS,	/* for the authority */
	IDGEN_COUNTER_GRANT_WAIT_US,
	IDGEN_COUNTER_LOCK_WAITS,	/* for a busy cursor */
	IDGEN_COUNTER_LOCK_WAIT_US,
	IDGEN_COUNTER_EXHAUSTIONS,	/* passes that found every sequence value spent */
	IDGEN_COUNTER_SPILLS,		/* moves to a higher worker inside a tick */
	IDGEN_COUNTER_CLOCK_BEHIND, /* passes that found the clock behind */
	IDGEN_COUNTER_CLOCK_BEHIND_MAX_US,
	IDGEN_COUNTER_GRANTS_MISSED,	/* passes that found a grant ended and no other */
	IDGEN_COUNTER_GRANTS,
	IDGEN_COUNTER_GRANT_LATENCY_US, /* from decision to publication */
	IDGEN_COUNTER_GRANT_LATENCY_MAX_US,
	IDGEN_COUNTER_REJECTIONS,	/* IG008 */
	IDGEN_COUNTER_FORKS,		/* of these, two holders of one incarnation */
	IDGEN_COUNTER_FENCES,
	IDGEN_COUNTER_ERRORS,		/* failures reported to callers that may call */
	IDGEN_COUNTER_REFUSALS,		/* calls of those that may not */
	IDGEN_COUNTER_PAUSES,		/* times that a process did not run in a call */
	IDGEN_COUNTER_PAUSE_MAX_US,
	IDGEN_COUNTER_GRANTS_AHEAD, /* to external generators, of a time to come */
	IDGEN_COUNTER_HOLDER_WAITS, /* of these, to those that had nothing till then */
	IDGEN_COUNTER_HOLDER_WAIT_US,
	IDGEN_COUNTER_HOLDER_WAIT_MAX_US
} IdgenCounter;

#define IDGEN_COUNTER_COUNT (IDGEN_COUNTER_HOLDER_WAIT_MAX_US + 1)

/* Conditions that are logged once when they begin. */
typedef enum IdgenAlert
{
	IDGEN_ALERT_LIFETIME,
	IDGEN_ALERT_WORKERS,
	IDGEN_ALERT_FSYNC
} IdgenAlert;

#define IDGEN_ALERT_COUNT (IDGEN_ALERT_FSYNC + 1)

/*
 * Statistics of one namespace, by name.  An entry is given to a namespace under
 * stats_lock, and read without: "key" is 0 while nobody has it, or somebody is
 * changing whose it is.  What is written about a namespace is atomic, or written by
 * its authority worker alone.
 */
typedef struct IdgenStats
{
	pg_atomic_uint64 key;		/* a hash of database and name */
	Oid			database;
	char		namespace_name[NAMEDATALEN];
	pg_atomic_uint64 counters[IDGEN_COUNTER_COUNT];
	pg_atomic_uint64 last_error;	/* Unix ms << 8 | IdgenErrorKind; 0 = none */
	pg_atomic_uint64 reset_ms;	/* Unix time counting began */

	/* --- of the authority worker */
	bool		alerted[IDGEN_ALERT_COUNT];
	uint64		shares_alerted; /* roles with their share of workers: a bit by
								 * a hash of the name */
	bool		copied;			/* the authority refuses to grant: a copy */
	int			unconfirmed;	/* grants and answers that wait for standbys */

	/* --- the same, under the directory lock */
	IdgenError standing;		/* why the authority grants nothing; kind NONE if
								 * it does, or is not known to have been asked */
	int64		standing_us;	/* monotonic; when it was found */
} IdgenStats;

/*
 * What the server knows of its clock.  All fields: directory lock.  "version"
 * moves with every change worth remembering over a restart; "saved_version" is
 * what the file has.
 */
typedef struct IdgenClockState
{
	bool		loaded;			/* the file of an earlier life was looked for */
	IdgenClockRecord record;
	uint64		version;
	uint64		saved_version;
	bool		logged;			/* that the verdict is not RIGHT */
	uint64		steps_back;		/* noticed since shared memory began */
	uint64		steps_forward;
	int64		largest_step_us;	/* without its sign */
} IdgenClockState;

typedef struct IdgenShared
{
	LWLock		directory_lock;
	pg_atomic_uint64 directory_releases;	/* to see that its holders go on */
	LWLock		stats_lock;		/* who is giving statistics to a namespace */
	LWLock		clock_file_lock;	/* who writes the file of the clock; only
									 * tried for, never waited for */
	IdgenClockState clock;
	pg_uuid_t	boot;			/* random, new with each initialisation */
	pg_atomic_uint64 last_generation;
	pg_atomic_uint64 directory_version; /* moves when a cursor comes or goes */
	pg_atomic_uint64 cursors_taken; /* from one namespace for another */
	pg_atomic_uint64 authority_pauses; /* of authority workers */
	pg_atomic_uint64 authority_pause_max_us;

	IdgenEndedState ended;		/* locks of its own */

	uint64		last_ticket;	/* directory lock */
	int			slot_count;
	int			request_count;
	int			database_count;
	int			stats_count;
	IdgenSlotInfo *infos;		/* [slot_count] */
	IdgenSlotPadded *slots;		/* [slot_count] */
	struct IdgenQueueEntry *requests;	/* [request_count], by process number */
	struct IdgenDatabase *databases;	/* [database_count] */
	IdgenStats *stats;			/* [stats_count] */
} IdgenShared;

/* NULL when the library was not preloaded. */
extern IdgenShared *idgen_shared;

extern void idgen_shmem_install_hooks(void);
extern void idgen_require_preloaded(void);
extern bool idgen_lock_within(LWLock *lock, LWLockMode mode, int64 within_us);
extern void idgen_lock_nap(long us);
extern void idgen_lock_directory(void);
extern bool idgen_lock_directory_within(int64 within_us);
extern void idgen_unlock_directory(void);

static inline IdgenSlot *
idgen_slot(int index)
{
	return &idgen_shared->slots[index].slot;
}

#endif							/* IDGEN_SHMEM_H */
