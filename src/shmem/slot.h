/*
 * slot.h
 *		A slot holds one cursor after another; who may issue from it.
 */
#ifndef IDGEN_SLOT_H
#define IDGEN_SLOT_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "utils/uuid.h"

#include "core/cursor.h"
#include "shmem/shmem.h"

/*
 * A slot belongs to one activation after another.  Each activation has a generation,
 * a number that no other activation of any slot has had since shared memory was
 * initialised; it stands for the slot, database, namespace and incarnation at once.
 * Generation and phase together are the slot's word, which is atomic, and no value of
 * it ever comes back:
 *
 *	FREE(t) -> CLAIMED(u) -> RESERVED(u) -> ACTIVE(u) -> KILLED(u) -> DEAD(u) -> FREE(u)
 *							 RESERVED(u) -----------------------------------> FREE(u)
 *
 * Generations are multiples of IDGEN_GENERATION_STEP, and ACTIVE is 0: the word of a
 * cursor that may issue is its generation, so that issuing an ID compares one word
 * with one word.
 */
typedef enum IdgenSlotPhase
{
	IDGEN_SLOT_ACTIVE,
	IDGEN_SLOT_CLAIMED,			/* a process is writing whose it is */
	IDGEN_SLOT_RESERVED,		/* that process is making its first grant
								 * durable */
	IDGEN_SLOT_KILLED,			/* issues no more; its killer notes until when
								 * it did */
	IDGEN_SLOT_DEAD,			/* that is noted; free once nobody is inside
								 * its lock */
	IDGEN_SLOT_FREE
} IdgenSlotPhase;

#define IDGEN_GENERATION_STEP	UINT64CONST(8)

/*
 * A cursor as issuing backends see it: one lock, and behind it everything that issuing
 * an ID touches.  Aligned to 128 bytes, so that two cursors never share a cache line
 * (nor the pair of lines that some processors fetch together).
 *
 * The word is what S5 compares under the lock.  It becomes ACTIVE, and FREE
 * after DEAD, under the lock; all other changes are made without it, so that a
 * stopped process cannot delay a DROP.  Who may change what: slot.c.
 */
typedef struct IdgenSlot
{
	LWLock		lock;
	pg_atomic_uint64 generation;	/* the word: generation and phase; see
									 * above */
	uint64		issued_count;	/* lock */
	uint64		tick_count;		/* lock; ticks from which the cursor has
								 * issued */
	IdgenCursor cursor;			/* lock */
	pg_atomic_uint64 granted_end;	/* no tick from here on was granted to
									 * this generation; raised, under the
									 * lock, before a grant can be used; read
									 * without it */
} IdgenSlot;

#define IDGEN_SLOT_ALIGN 128

typedef union IdgenSlotPadded
{
	IdgenSlot	slot;
	char		pad[(sizeof(IdgenSlot) + IDGEN_SLOT_ALIGN - 1) /
					IDGEN_SLOT_ALIGN * IDGEN_SLOT_ALIGN];
} IdgenSlotPadded;

/*
 * Whose slot is it?  Written by the process that has CLAIMED the slot, and
 * constant from then on until the slot is FREE.  Read without a lock: what was read is
 * true if the word was the same before and after.
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
	int			account;		/* the account to which its IDs are added up;
								 * -1 = none */
	Oid			owner;			/* role that owns the namespace */
	int64		since_ms;		/* Unix time of the reservation */
	bool		uncommitted;	/* of the transaction that created the
								 * namespace, whose sessions grant to it */
} IdgenSlotInfo;

/* What was issued on one account by cursors that are gone.  Atomic. */
typedef struct IdgenAccount
{
	pg_atomic_uint64 id_count;
	pg_atomic_uint64 tick_count;
} IdgenAccount;

typedef struct IdgenSlots
{
	int			count;			/* constant, as are the pointers */
	IdgenSlotInfo *infos;		/* [count]; no lock, see IdgenSlotInfo */
	IdgenSlotPadded *slots;		/* [count]; each has its own lock */
	IdgenAccount *accounts;		/* [count]; atomic */
} IdgenSlots;

/* Whose cursors are meant: those that agree in all that is given. */
typedef struct IdgenTarget
{
	Oid			database;		/* InvalidOid = any */
	const pg_uuid_t *namespace_uuid;	/* NULL = any */
	const char *namespace_name; /* NULL = any */
	int64		incarnation;	/* 0 = any */
	uint64		generation;		/* 0 = any */
	uint64		after;			/* only later generations than this; 0 = any */
} IdgenTarget;

/*
 * How long a process that kills cursors may still try for locks; the first lock that it
 * does not get uses that up.  So a commit, which nobody can cancel, waits for a stopped
 * process once, and not again for each cursor.
 */
typedef struct IdgenPatience
{
	int64		slot_us;		/* for the locks of slots */
	int64		note_us;		/* for the lock of ended.c */
} IdgenPatience;

extern Size idgen_slots_size(void);
extern void idgen_slots_init(void *memory, int tranche);

extern uint64 idgen_slot_read(int index, IdgenSlotInfo *info);
extern bool idgen_slot_is_meant(const IdgenTarget *target, uint64 word,
								const IdgenSlotInfo *info);

/* --- from claim to grant; by the authority process, or see IdgenSlotInfo.uncommitted */
extern bool idgen_slot_claim(int index, uint64 generation);
extern void idgen_slot_reserve(int index, uint64 generation, const IdgenSlotInfo *owner);
extern bool idgen_slot_activate(int index, uint64 generation, const IdgenGrant *grant);
extern bool idgen_slot_awaits(int index, uint64 generation);
extern bool idgen_slot_publish(int index, uint64 generation, const IdgenGrant *grant,
							   int64 now);

/* --- the end; by anybody */
extern void idgen_slot_unreserve(int index, uint64 generation);
extern void idgen_patience_begin(IdgenPatience *patience);
extern void idgen_slot_kill(int index, const IdgenTarget *target, IdgenPatience *patience);
extern bool idgen_slot_granted_until_ms(int index, uint64 word, const IdgenSlotInfo *info,
										int64 *until_ms);
extern void idgen_slot_free_dead(int index);

static inline int
idgen_slot_count(void)
{
	return idgen_shared->slots->count;
}

static inline IdgenSlot *
idgen_slot(int index)
{
	return &idgen_shared->slots->slots[index].slot;
}

/* --- the word */

static inline IdgenSlotPhase
idgen_slot_phase(uint64 word)
{
	return (IdgenSlotPhase) (word % IDGEN_GENERATION_STEP);
}

static inline uint64
idgen_slot_generation(uint64 word)
{
	return word - word % IDGEN_GENERATION_STEP;
}

/* Is it somebody's?  Only then is anything known about its owner. */
static inline bool
idgen_slot_has_owner(uint64 word)
{
	return idgen_slot_phase(word) != IDGEN_SLOT_FREE &&
		idgen_slot_phase(word) != IDGEN_SLOT_CLAIMED;
}

#endif							/* IDGEN_SLOT_H */
