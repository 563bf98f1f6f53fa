/*
 * pool.h
 *		The fixed pool of cursors: who owns which slot.
 */
#ifndef IDGEN_POOL_H
#define IDGEN_POOL_H

#include "postgres.h"

#include "utils/uuid.h"

#include "core/cursor.h"
#include "core/layout.h"
#include "shmem/shmem.h"

/*
 * What a backend remembers of a cursor; valid while the generation is.  The slot by
 * its address: the lock would have to wait for the way there from the index.
 */
typedef struct IdgenCursorRef
{
	IdgenSlot  *slot;
	int32		worker;
	uint64		generation;
} IdgenCursorRef;

/* What the authority worker sees of a cursor of its database. */
typedef struct IdgenCursorSurvey
{
	int			slot;
	int32		worker;
	int64		incarnation;
	uint64		generation;
	pg_uuid_t	namespace_uuid;
	char		namespace_name[NAMEDATALEN];
	bool		readable;		/* false: its lock was busy, no figures */
	uint64		issued_count;
	int64		granted_end;	/* tick */
} IdgenCursorSurvey;

/*
 * How long a process that kills cursors may still try for locks; the first that it does
 * not get uses that up.  A commit, which nobody can cancel, so waits for a stopped
 * process once, and not for each cursor.
 */
typedef struct IdgenPatience
{
	int64		slot_us;		/* for those of slots */
	int64		note_us;		/* for what is remembered of ends */
} IdgenPatience;

extern uint64 idgen_pool_version(void);
extern int	idgen_pool_list(Oid database, const pg_uuid_t *namespace_uuid,
							IdgenCursorRef *refs, int refs_max);
extern int	idgen_pool_survey(Oid database, IdgenCursorSurvey *surveys,
							  int surveys_max);
extern bool idgen_pool_read(int slot, IdgenSlotInfo *info, IdgenSlotPhase *phase);
extern int	idgen_pool_reserve(const IdgenSlotInfo *owner, bool only_one, uint64 *generation);
extern void idgen_pool_activate(int slot, uint64 generation, const IdgenGrant *grant);
extern bool idgen_pool_publish(int slot, uint64 generation,
							   const IdgenGrant *grant, int64 now);
extern bool idgen_pool_awaits(int slot, uint64 generation);
extern void idgen_pool_unreserve(int slot, uint64 generation);
extern uint64 idgen_pool_last_generation(void);
extern void idgen_pool_release_reserved(Oid database, uint64 after);
extern void idgen_pool_kill_slot(int slot, uint64 generation);
extern void idgen_pool_kill_incarnation(Oid database, int64 incarnation);
extern void idgen_pool_kill_everywhere(void);
extern void idgen_pool_kill(Oid database, const pg_uuid_t *namespace_uuid);
extern void idgen_pool_be_patient(IdgenPatience *patience);
extern void idgen_pool_kill_at_commit(Oid database, const char *namespace_name,
									  IdgenPatience *patience);
extern void idgen_pool_bound(Oid database);

#endif							/* IDGEN_POOL_H */
