/*
 * pool.c
 *		The fixed pool of cursors: find them, take slots, give them back.
 *
 * slot.c says how one slot changes hands; here are the walks over all slots.
 *
 * After the walk that kills the cursors of what was dropped or changed, no
 * cursor of it comes to life.  Every cursor but those of uncommitted namespaces, which
 * first_use.c kills itself, is reserved inside the transaction of a round.  That
 * transaction holds RowExclusiveLock on all of idgen's
 * tables from its begin to its commit and has read from them what the
 * namespace is, so it conflicts with
 *
 *	- whatever drops the tables: DROP EXTENSION, SCHEMA ... CASCADE and OWNED hold
 *	  AccessExclusiveLock on them;
 *	- whatever changes a namespace, restores marks or takes a privilege away: it holds
 *	  locks on rows that the round locks before it writes;
 *	- DROP DATABASE, which waits until nobody is connected, and whose lock on the
 *	  database keeps others from connecting.
 *
 * All of them hold their locks until the callbacks of their commit, and so the walk,
 * are over.  So either a round had reserved its slots before they had their locks, and
 * the walk finds each of these slots in some phase; or the round begins after the walk,
 * and sees what they did.
 *
 * An authority process that dies between reserving and activating a slot leaves it
 * RESERVED; the next authority process of that database frees it.
 */
#include "compat.h"

#include "shmem/pool.h"

#include "clock.h"
#include "random.h"
#include "settings.h"
#include "shmem/ended.h"
#include "shmem/eviction.h"

/*
 * A cursor is nobody's if its last grant ended longer ago than
 * idgen.idle_timeout and this together.
 */
#define ORPHAN_MS	INT64_C(600000)

/* How often to make room, should another process take the slot that was freed. */
#define ROOM_TRIES	3

Size
idgen_pool_size(void)
{
	return sizeof(IdgenPool);
}

void
idgen_pool_init(void *memory, int tranche)
{
	IdgenPool  *pool = idgen_shared->pool = memory;

	pg_atomic_init_u64(&pool->version, 1);
	pg_atomic_init_u64(&pool->last_generation, 0);
	pg_atomic_init_u64(&pool->evicted_count, 0);
}

/* --------------------------------------------------------------------
 * Finding cursors
 * -------------------------------------------------------------------- */

/* Tell backends to list the cursors of their namespaces again. */
static void
cursors_changed(void)
{
	pg_atomic_fetch_add_u64(&idgen_shared->pool->version, 1);
}

/* A number that changes whenever some cursor comes or goes. */
uint64
idgen_pool_version(void)
{
	return pg_atomic_read_u64(&idgen_shared->pool->version);
}

/*
 * The active cursors of a namespace in ascending order of worker, at most
 * refs_max of them.  Returns their number.
 */
int
idgen_pool_list(Oid database, const pg_uuid_t *namespace_uuid,
				IdgenCursorRef *refs, int refs_max)
{
	int			count = 0;

	for (int i = 0; i < idgen_slot_count() && count < refs_max; i++)
	{
		IdgenSlotInfo info;
		uint64		word = idgen_slot_read(i, &info);
		int			at = count;

		if (idgen_slot_phase(word) != IDGEN_SLOT_ACTIVE || info.database != database ||
			!idgen_same_uuid(&info.namespace_uuid, namespace_uuid))
			continue;
		for (; at > 0 && refs[at - 1].worker > info.worker; at--)
			refs[at] = refs[at - 1];
		refs[at].slot = idgen_slot(i);
		refs[at].worker = info.worker;
		refs[at].generation = idgen_slot_generation(word);
		count++;
	}
	return count;
}

/*
 * All active cursors of a database, for its authority process.  It knows nothing of
 * namespaces that are not committed.
 */
int
idgen_pool_survey(Oid database, IdgenCursorSurvey *surveys, int surveys_max)
{
	int			count = 0;

	for (int i = 0; i < idgen_slot_count() && count < surveys_max; i++)
	{
		IdgenSlot  *slot = idgen_slot(i);
		IdgenCursorSurvey *survey = &surveys[count];
		IdgenSlotInfo info;
		uint64		word = idgen_slot_read(i, &info);

		if (idgen_slot_phase(word) != IDGEN_SLOT_ACTIVE || info.database != database ||
			info.uncommitted)
			continue;
		survey->slot = i;
		survey->worker = info.worker;
		survey->incarnation = info.incarnation;
		survey->generation = idgen_slot_generation(word);
		survey->namespace_uuid = info.namespace_uuid;
		strlcpy(survey->namespace_name, info.namespace_name, NAMEDATALEN);
		survey->readable = LWLockConditionalAcquire(&slot->lock, LW_SHARED);
		if (survey->readable)
		{
			survey->issued_count = slot->issued_count;
			survey->granted_end = idgen_cursor_granted_end(&slot->cursor);
			survey->readable = pg_atomic_read_u64(&slot->generation) == word;
			LWLockRelease(&slot->lock);
		}
		count++;
	}
	return count;
}

/*
 * Does a slot hold a worker of a namespace?  A dead cursor does not: what it issued has
 * been noted.
 */
static bool
holds_worker(int index, Oid database, const pg_uuid_t *namespace_uuid, int32 *worker)
{
	IdgenSlotInfo info;
	uint64		word = idgen_slot_read(index, &info);

	if (!idgen_slot_has_owner(word) || idgen_slot_phase(word) == IDGEN_SLOT_DEAD ||
		info.database != database || !idgen_same_uuid(&info.namespace_uuid, namespace_uuid))
		return false;
	*worker = info.worker;
	return true;
}

/*
 * The workers that cursors and reservations of a namespace hold, ascending, at most
 * workers_max of them.  Returns their number.
 */
int
idgen_pool_workers(Oid database, const pg_uuid_t *namespace_uuid, int64 *workers,
				   int workers_max)
{
	int			count = 0;

	for (int i = 0; i < idgen_slot_count() && count < workers_max; i++)
	{
		int32		worker;
		int			at = count;

		if (!holds_worker(i, database, namespace_uuid, &worker))
			continue;
		while (at > 0 && workers[at - 1] > worker)
			at--;
		if (at > 0 && workers[at - 1] == worker)
			continue;
		memmove(&workers[at + 1], &workers[at], (count - at) * sizeof(int64));
		workers[at] = worker;
		count++;
	}
	return count;
}

/*
 * May a process keep the slot that it has just reserved?  Not if another slot holds the
 * same worker, or if the namespace has more than workers_max.  Of two processes of which
 * one must give up, at least one finds the other.
 */
bool
idgen_pool_may_keep(int slot, const IdgenSlotInfo *owner, int workers_max)
{
	int			count = 1;

	pg_memory_barrier();
	for (int i = 0; i < idgen_slot_count(); i++)
	{
		int32		worker;

		if (i == slot ||
			!holds_worker(i, owner->database, &owner->namespace_uuid, &worker))
			continue;
		if (worker == owner->worker || ++count > workers_max)
			return false;
	}
	return true;
}

/* How many slots have a cursor, or are reserved for one? */
int
idgen_pool_count(void)
{
	int			count = 0;

	for (int i = 0; i < idgen_slot_count(); i++)
	{
		IdgenSlotInfo info;
		IdgenSlotPhase phase = idgen_slot_phase(idgen_slot_read(i, &info));

		if (phase == IDGEN_SLOT_RESERVED || phase == IDGEN_SLOT_ACTIVE)
			count++;
	}
	return count;
}

/*
 * May there be one more cursor of a namespace that is not committed?  Nobody can take
 * such cursors away, so half of the slots are kept for those of others.  Several processes
 * that ask at once may exceed that by a few.
 */
bool
idgen_pool_has_room_uncommitted(void)
{
	int			count = 0;

	for (int i = 0; i < idgen_slot_count(); i++)
	{
		IdgenSlotInfo info;
		uint64		word = idgen_slot_read(i, &info);

		if (idgen_slot_has_owner(word) && idgen_slot_phase(word) != IDGEN_SLOT_DEAD &&
			info.uncommitted)
			count++;
	}
	return count < Max(idgen_slot_count() / 2, 1);
}

/* How many cursors were taken from one namespace for another? */
uint64
idgen_pool_evicted_count(void)
{
	return pg_atomic_read_u64(&idgen_shared->pool->evicted_count);
}

/*
 * Which accounts belong to a cursor that lives or has not been added up yet, or to a
 * reservation?  By account; the result is palloc'd.
 */
bool *
idgen_pool_accounts_in_use(void)
{
	bool	   *used = palloc0(idgen_slot_count() * sizeof(bool));

	for (int i = 0; i < idgen_slot_count(); i++)
	{
		IdgenSlotInfo info;

		if (idgen_slot_has_owner(idgen_slot_read(i, &info)) && info.account >= 0)
			used[info.account] = true;
	}
	return used;
}

/*
 * What was issued since shared memory was initialised, by account; the result is
 * palloc'd.  Living cursors are read without their locks, and one that is added up
 * meanwhile may not count at all: this is for watching only.
 */
IdgenIssued *
idgen_pool_issued(void)
{
	IdgenIssued *issued = palloc0(idgen_slot_count() * sizeof(IdgenIssued));

	for (int i = 0; i < idgen_slot_count(); i++)
	{
		IdgenAccount *account = &idgen_shared->slots->accounts[i];

		issued[i].id_count = pg_atomic_read_u64(&account->id_count);
		issued[i].tick_count = pg_atomic_read_u64(&account->tick_count);
	}
	for (int i = 0; i < idgen_slot_count(); i++)
	{
		IdgenSlotInfo info;
		uint64		word = idgen_slot_read(i, &info);

		if (!idgen_slot_has_owner(word) || info.account < 0 ||
			idgen_slot_phase(word) == IDGEN_SLOT_RESERVED)
			continue;
		issued[info.account].id_count += idgen_slot(i)->issued_count;
		issued[info.account].tick_count += idgen_slot(i)->tick_count;
	}
	return issued;
}

/* --------------------------------------------------------------------
 * Killing cursors
 * -------------------------------------------------------------------- */

/* End all cursors and reservations that are meant.  Cannot fail. */
static void
kill_all_within(const IdgenTarget *target, IdgenPatience *patience)
{
	for (int i = 0; i < idgen_slot_count(); i++)
		idgen_slot_kill(i, target, patience);
	cursors_changed();
}

static void
kill_all(const IdgenTarget *target)
{
	IdgenPatience patience;

	idgen_patience_begin(&patience);
	kill_all_within(target, &patience);
}

/* Kill one cursor, if it is still the one meant. */
void
idgen_pool_kill_slot(int slot, uint64 generation)
{
	IdgenTarget target = {.generation = generation};
	IdgenPatience patience;

	idgen_patience_begin(&patience);
	idgen_slot_kill(slot, &target, &patience);
	cursors_changed();
}

/* Kill the cursor of an incarnation of this server. */
void
idgen_pool_kill_incarnation(Oid database, int64 incarnation)
{
	IdgenTarget target = {
		.database = database,
		.incarnation = incarnation
	};

	kill_all(&target);
}

/* A namespace is retired, fenced or taken over: its cursors end. */
void
idgen_pool_kill(Oid database, const pg_uuid_t *namespace_uuid)
{
	IdgenTarget target = {
		.database = database,
		.namespace_uuid = namespace_uuid
	};

	kill_all(&target);
}

/*
 * A step back of the clock was accepted: no cursor of this server goes on, so that
 * those that come after begin with the new time.
 */
void
idgen_pool_kill_everywhere(void)
{
	IdgenTarget target = {0};

	kill_all(&target);
}

/*
 * The cursors of a database end at the commit of a session; if the name of a namespace
 * is not empty, only its cursors do.
 */
void
idgen_pool_kill_at_commit(Oid database, const char *namespace_name,
						  IdgenPatience *patience)
{
	IdgenTarget target = {
		.database = database,
		.namespace_name = namespace_name[0] == '\0' ? NULL : namespace_name
	};

	kill_all_within(&target, patience);
}

/*
 * Before a drop: note that the cursors of a database may issue all that they
 * were granted.
 */
void
idgen_pool_bound(Oid database)
{
	for (int i = 0; i < idgen_slot_count(); i++)
	{
		IdgenSlotInfo info;
		IdgenSlotPhase phase;
		uint64		word;
		int64		until_ms;

		do
		{
			word = idgen_slot_read(i, &info);
			phase = idgen_slot_phase(word);
		} while ((phase == IDGEN_SLOT_ACTIVE || phase == IDGEN_SLOT_KILLED) &&
				 !idgen_slot_granted_until_ms(i, word, &info, &until_ms));
		if ((phase == IDGEN_SLOT_ACTIVE || phase == IDGEN_SLOT_KILLED) &&
			info.database == database)
			idgen_ended_bound_cursor(database, info.namespace_name, until_ms);
	}
}

/* --------------------------------------------------------------------
 * Taking slots and giving them back
 * -------------------------------------------------------------------- */

/*
 * Was a cursor left behind by an authority process that was terminated, in a database
 * that nobody uses any more?  An authority process that lives would have granted it
 * more, or ended it.
 */
static bool
is_orphan(int slot, int64 now_ms, uint64 *generation)
{
	IdgenSlotInfo info;
	uint64		word = idgen_slot_read(slot, &info);
	int64		granted_until_ms;

	if (idgen_slot_phase(word) != IDGEN_SLOT_ACTIVE || info.uncommitted)
		return false;
	*generation = idgen_slot_generation(word);
	granted_until_ms = info.epoch_ms + info.tick_ms *
		(int64) pg_atomic_read_u64(&idgen_slot(slot)->granted_end);
	return now_ms - granted_until_ms > (int64) idgen_idle_timeout_ms + ORPHAN_MS;
}

/* Free the slots of dead cursors and of orphans. */
static void
clear_away(void)
{
	int64		now_ms = idgen_clock_wall_ms();
	uint64		generation;

	for (int i = 0; i < idgen_slot_count(); i++)
	{
		if (is_orphan(i, now_ms, &generation))
			idgen_pool_kill_slot(i, generation);
		idgen_slot_free_dead(i);
	}
}

/* Take a cursor away from another namespace.  False if there is none to be taken. */
static bool
evict(const IdgenSlotInfo *owner)
{
	int			slot;
	uint64		generation;

	if (!idgen_eviction_choose(owner, &slot, &generation))
		return false;
	idgen_pool_kill_slot(slot, generation);
	idgen_slot_free_dead(slot);
	pg_atomic_fetch_add_u64(&idgen_shared->pool->evicted_count, 1);
	return true;
}

/* Claim some slot that is free; -1 if none is. */
static int
claim_any(uint64 generation)
{
	for (int i = 0; i < idgen_slot_count(); i++)
		if (idgen_slot_claim(i, generation))
			return i;
	return -1;
}

/*
 * Reserve a slot for a cursor about to be activated; -1 if there is none.  "only_one"
 * says that its namespace has no other.  *generation tells this reservation from every
 * other one, and becomes the cursor's.  By the authority process of the database,
 * inside the transaction that activates the cursor, or inside the transaction that has
 * created the namespace.
 */
int
idgen_pool_reserve(const IdgenSlotInfo *owner, bool only_one, uint64 *generation)
{
	int			slot;

	clear_away();
	*generation = pg_atomic_add_fetch_u64(&idgen_shared->pool->last_generation,
										  IDGEN_GENERATION_STEP);
	slot = claim_any(*generation);
	for (int i = 0; i < ROOM_TRIES && slot < 0 && only_one && evict(owner); i++)
		slot = claim_any(*generation);
	if (slot >= 0)
		idgen_slot_reserve(slot, *generation, owner);
	return slot;
}

/* Bring a reserved slot to life with its first grant, which is durable. */
void
idgen_pool_activate(int slot, uint64 generation, const IdgenGrant *grant)
{
	if (idgen_slot_activate(slot, generation, grant))
		cursors_changed();
}

/* Give a cursor a further grant, which is durable; false if it does not get it. */
bool
idgen_pool_publish(const IdgenCursorRef *ref, const IdgenGrant *grant, int64 now)
{
	int			slot = (int) ((IdgenSlotPadded *) ref->slot - idgen_shared->slots->slots);

	return idgen_slot_publish(slot, ref->generation, grant, now);
}

/*
 * The last generation so far: what is reserved from now on has a greater one.
 */
uint64
idgen_pool_last_generation(void)
{
	return pg_atomic_read_u64(&idgen_shared->pool->last_generation);
}

/*
 * Give back the slots of generations after the given one that an authority
 * process of this database reserved and did not activate.
 */
void
idgen_pool_release_reserved(Oid database, uint64 after)
{
	IdgenTarget target = {
		.database = database,
		.after = after
	};

	for (int i = 0; i < idgen_slot_count(); i++)
	{
		IdgenSlotInfo info;
		uint64		word = idgen_slot_read(i, &info);

		if (idgen_slot_phase(word) == IDGEN_SLOT_RESERVED && !info.uncommitted &&
			idgen_slot_is_meant(&target, word, &info))
			idgen_slot_unreserve(i, idgen_slot_generation(word));
	}
}
