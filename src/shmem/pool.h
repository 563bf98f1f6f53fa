/*
 * pool.h
 *		The fixed pool of cursors: find them, take slots, give them back.
 */
#ifndef IDGEN_POOL_H
#define IDGEN_POOL_H

#include "postgres.h"

#include "port/atomics.h"
#include "utils/uuid.h"

#include "core/cursor.h"
#include "shmem/slot.h"

typedef struct IdgenPool
{
	pg_atomic_uint64 version;	/* atomic; moves when a cursor comes or goes */
	pg_atomic_uint64 last_generation;	/* atomic */
	pg_atomic_uint64 evicted_count; /* atomic; cursors taken from one
									 * namespace for another */
} IdgenPool;

/*
 * What a backend remembers of a cursor; valid while the generation is.  It has
 * the address of the slot, and not its index, so that taking the lock need not
 * wait until an address is computed.
 */
typedef struct IdgenCursorRef
{
	IdgenSlot  *slot;
	int32		worker;
	uint64		generation;
} IdgenCursorRef;

/* What the authority process sees of a cursor of its database. */
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

/* How much was issued on an account. */
typedef struct IdgenIssued
{
	uint64		id_count;
	uint64		tick_count;
} IdgenIssued;

extern Size idgen_pool_size(void);
extern void idgen_pool_init(void *memory, int tranche);

/* --- find cursors; by anybody */
extern uint64 idgen_pool_version(void);
extern int	idgen_pool_list(Oid database, const pg_uuid_t *namespace_uuid,
							IdgenCursorRef *refs, int refs_max);
extern int	idgen_pool_workers(Oid database, const pg_uuid_t *namespace_uuid,
							   int64 *workers, int workers_max);
extern bool idgen_pool_has_room_uncommitted(void);
extern bool idgen_pool_may_keep(int slot, const IdgenSlotInfo *owner, int workers_max);
extern int	idgen_pool_count(void);
extern uint64 idgen_pool_evicted_count(void);
extern bool *idgen_pool_accounts_in_use(void);
extern IdgenIssued *idgen_pool_issued(void);

/* --- take slots and give them back; by the authority process or session/first_use.c */
extern int	idgen_pool_survey(Oid database, IdgenCursorSurvey *surveys,
							  int surveys_max);
extern int	idgen_pool_reserve(const IdgenSlotInfo *owner, bool only_one,
							   uint64 *generation);
extern void idgen_pool_activate(int slot, uint64 generation, const IdgenGrant *grant);
extern bool idgen_pool_publish(const IdgenCursorRef *ref, const IdgenGrant *grant,
							   int64 now);
extern uint64 idgen_pool_last_generation(void);
extern void idgen_pool_release_reserved(Oid database, uint64 after);
extern void idgen_pool_kill_slot(int slot, uint64 generation);
extern void idgen_pool_kill_incarnation(Oid database, int64 incarnation);
extern void idgen_pool_kill(Oid database, const pg_uuid_t *namespace_uuid);

/* --- kill cursors; by anybody */
extern void idgen_pool_kill_everywhere(void);
extern void idgen_pool_kill_at_commit(Oid database, const char *namespace_name,
									  IdgenPatience *patience);
extern void idgen_pool_bound(Oid database);

#endif							/* IDGEN_POOL_H */
