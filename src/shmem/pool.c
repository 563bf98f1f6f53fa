/*
 * pool.c
 *		Reserve, activate, feed, list and kill cursors in shared memory.
 *
 * Everything here is done without waiting for anybody: a slot changes hands by
 * compare-and-swap of its word (generation and phase, see shmem.h), and only that.
 *
 *	claim		FREE -> CLAIMED		by the authority worker that swaps it.  It writes
 *									whose the slot is, and then RESERVED.
 *	reserve		CLAIMED -> RESERVED	before the activation is committed
 *	unreserve	RESERVED -> FREE	by anybody: nothing was issued
 *	activate	RESERVED -> ACTIVE	after the commit, under the slot's lock.  It fails
 *									if the reservation is over.
 *	kill		ACTIVE -> KILLED	by anybody.  Who swaps it notes until when the
 *									cursor issued, and then
 *	mourn		KILLED -> DEAD		says so.
 *	bury		DEAD -> FREE		under the slot's lock, so that nobody is inside
 *
 * No value of the word ever comes back.  So a swap that succeeds proves that
 * nothing happened between the reading of the word and the swap, and that what
 * was read of the owner in between is what it says: the owner is written while
 * the slot is CLAIMED, after the swap that claimed it (a full barrier) and before
 * a write barrier and RESERVED; a reader has a read barrier after the word, and
 * one before it looks at the word again, unless it swaps it, which is a full one.
 *
 * Killing happens at the commit of sessions, so it cannot fail, and whoever is
 * stopped in whatever lock, it is done when it returns:
 *
 *	- A process that issues compares the word under the slot's lock, after it has
 *	  read the clock.  One that takes the lock after the kill issues nothing.  One
 *	  that had compared and was stopped inside the lock finishes the one issue it
 *	  had begun; that lies inside the grant, which is reserved, and at or before
 *	  the tick until which the killer says that the cursor issued.
 *	- A further grant is installed under the slot's lock, if the word is that of the
 *	  cursor it was decided for.  If the cursor is killed meanwhile, it lies in a
 *	  cursor that nobody issues from.
 *	- A reservation is killed as well.  If its activation is under way, one of the
 *	  two swaps fails: either the cursor does not come to life, or the killer looks
 *	  at the slot again and finds it ACTIVE.
 *	- No cursor of what was dropped or changed comes to life after the walk over the
 *	  slots.  A cursor is reserved inside the transaction of a round.  That one holds
 *	  RowExclusiveLock on all tables of ours from its begin to its commit, has read
 *	  there what the namespace is, and so conflicts with
 *		. what drops the tables: DROP EXTENSION, SCHEMA ... CASCADE, OWNED hold
 *		  AccessExclusiveLock on them;
 *		. what changes a namespace, restores marks or takes a privilege away: it holds
 *		  locks on rows that the round locks before it writes;
 *		. DROP DATABASE, which waits until nobody is connected, and whose lock on the
 *		  database keeps others from connecting.
 *	  All of them hold their locks until the callbacks of their commit, and so the
 *	  walk, are over.  So a round either had reserved before they had their locks, and
 *	  the walk finds the slot in some phase; or it begins after the walk, and sees
 *	  what they did.
 *
 * A worker that dies between reserving and activating leaves RESERVED behind; the
 * next worker of that database frees it.  A crash loses all of it, with the
 * incarnations.
 */
#include "compat.h"

#include "shmem/pool.h"

#include "miscadmin.h"

#include "clock.h"
#include "shmem/ended.h"
#include "random.h"
#include "settings.h"
#include "shmem/counters.h"

/*
 * How long to try for a slot's lock.  It is held for well under a microsecond,
 * so a miss means that its holder is stopped or was just descheduled.
 */
#define SLOT_WITHIN_US		INT64_C(2000)

/* How long to try for the lock of what is remembered of ends. */
#define NOTE_WITHIN_US		INT64_C(100000)

/* A cursor without grants for this long, beyond idleness, is nobody's. */
#define ORPHAN_MS	INT64_C(600000)

/* A cursor not used for this long may be given to anybody. */
#define IDLE_MS		INT64_C(1000)

/* How often to look for room, should others take what was made. */
#define ROOM_TRIES	3

/* Whose cursors are meant: those that agree in all that is given. */
typedef struct IdgenTarget
{
	Oid			database;		/* InvalidOid = any */
	const pg_uuid_t *namespace_uuid;	/* NULL = any */
	const char *namespace_name; /* empty = any */
	int64		incarnation;	/* 0 = any */
	uint64		generation;			/* 0 = any */
	uint64		after;			/* only of later generations; 0 = any */
} IdgenTarget;

/* --------------------------------------------------------------------
 * The word
 * -------------------------------------------------------------------- */

static inline IdgenSlotPhase
phase_of(uint64 word)
{
	return (IdgenSlotPhase) (word % IDGEN_GENERATION_STEP);
}

static inline uint64
generation_of(uint64 word)
{
	return word - word % IDGEN_GENERATION_STEP;
}

static inline uint64
in_phase(uint64 generation, IdgenSlotPhase phase)
{
	return generation + phase;
}

static inline uint64
read_word(int slot_index)
{
	return pg_atomic_read_u64(&idgen_slot(slot_index)->generation);
}

/* Change the word if it still is what the caller has seen. */
static bool
swap_word(int slot_index, uint64 seen, IdgenSlotPhase phase)
{
	return pg_atomic_compare_exchange_u64(&idgen_slot(slot_index)->generation, &seen,
										  in_phase(generation_of(seen), phase));
}

/*
 * Read the word and whose slot it was then; info only if it is somebody's.  As
 * often as the slot changes hands meanwhile, which takes a commit each time.
 */
static uint64
read_owner(int slot_index, IdgenSlotInfo *info)
{
	for (;;)
	{
		uint64		word = read_word(slot_index);

		if (phase_of(word) == IDGEN_SLOT_FREE || phase_of(word) == IDGEN_SLOT_CLAIMED)
			return word;
		pg_read_barrier();
		*info = idgen_shared->infos[slot_index];
		pg_read_barrier();
		if (read_word(slot_index) == word)
			return word;
	}
}

static bool
is_meant(const IdgenTarget *target, uint64 word, const IdgenSlotInfo *info)
{
	return (!OidIsValid(target->database) || info->database == target->database) &&
		(target->namespace_uuid == NULL ||
		 idgen_same_uuid(&info->namespace_uuid, target->namespace_uuid)) &&
		(target->namespace_name[0] == '\0' ||
		 strcmp(info->namespace_name, target->namespace_name) == 0) &&
		(target->incarnation == 0 || info->incarnation == target->incarnation) &&
		(target->generation == 0 || generation_of(word) == target->generation) &&
		generation_of(word) > target->after;
}

/* Tell backends to list the cursors of their namespace again. */
static void
directory_changed(void)
{
	pg_atomic_fetch_add_u64(&idgen_shared->directory_version, 1);
}

/* Changes whenever some cursor comes or goes. */
uint64
idgen_pool_version(void)
{
	return pg_atomic_read_u64(&idgen_shared->directory_version);
}

/* --------------------------------------------------------------------
 * Looking
 * -------------------------------------------------------------------- */

/* Whose slot is it, and how far?  False if it is nobody's. */
bool
idgen_pool_read(int slot_index, IdgenSlotInfo *info, IdgenSlotPhase *phase)
{
	*phase = phase_of(read_owner(slot_index, info));
	return *phase != IDGEN_SLOT_FREE && *phase != IDGEN_SLOT_CLAIMED;
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

	for (int i = 0; i < idgen_shared->slot_count && count < refs_max; i++)
	{
		IdgenSlotInfo info;
		uint64		word = read_owner(i, &info);
		int			at = count;

		if (phase_of(word) != IDGEN_SLOT_ACTIVE || info.database != database ||
			!idgen_same_uuid(&info.namespace_uuid, namespace_uuid))
			continue;
		for (; at > 0 && refs[at - 1].worker > info.worker; at--)
			refs[at] = refs[at - 1];
		refs[at].slot = idgen_slot(i);
		refs[at].worker = info.worker;
		refs[at].generation = generation_of(word);
		count++;
	}
	return count;
}

/* All active cursors of a database, for its authority worker. */
int
idgen_pool_survey(Oid database, IdgenCursorSurvey *surveys, int surveys_max)
{
	int			count = 0;

	for (int i = 0; i < idgen_shared->slot_count && count < surveys_max; i++)
	{
		IdgenSlot  *slot = idgen_slot(i);
		IdgenCursorSurvey *survey = &surveys[count];
		IdgenSlotInfo info;
		uint64		word = read_owner(i, &info);

		if (phase_of(word) != IDGEN_SLOT_ACTIVE || info.database != database)
			continue;
		survey->slot = i;
		survey->worker = info.worker;
		survey->incarnation = info.incarnation;
		survey->generation = generation_of(word);
		survey->namespace_uuid = info.namespace_uuid;
		strlcpy(survey->namespace_name, info.namespace_name, NAMEDATALEN);
		survey->readable = LWLockConditionalAcquire(&slot->lock, LW_SHARED);
		if (survey->readable)
		{
			survey->issued_count = slot->issued_count;
			survey->granted_end = idgen_cursor_granted_end(&slot->cursor);
			survey->readable = read_word(i) == word;
			LWLockRelease(&slot->lock);
		}
		count++;
	}
	return count;
}

/* --------------------------------------------------------------------
 * Killing
 * -------------------------------------------------------------------- */

/*
 * The Unix millisecond from which on nothing was granted to the cursor that had
 * this word, as read with its owner.  False if the slot has changed since: it may
 * be another's by now, who counts in other ticks.
 */
static bool
granted_until_ms(int slot_index, uint64 word, const IdgenSlotInfo *info, int64 *until_ms)
{
	int64		granted_end = (int64) pg_atomic_read_u64(&idgen_slot(slot_index)->granted_end);

	pg_read_barrier();
	*until_ms = info->epoch_ms + (granted_end - 1) * info->tick_ms + 1;
	return read_word(slot_index) == word;
}

/*
 * The Unix millisecond after the beginning of the last tick that a killed cursor
 * issued from, or, if its lock cannot be had, was granted: no tick of the same
 * format that begins at or after it was used.  Whoever is stopped inside the lock
 * may still issue from what was granted, and nobody else issues anything.
 */
static int64
issued_until_ms(const IdgenSlotInfo *info, IdgenSlot *slot, IdgenPatience *patience)
{
	int64		last_tick;

	if (idgen_lock_within(&slot->lock, LW_SHARED, patience->slot_us))
	{
		last_tick = slot->cursor.last_tick;
		LWLockRelease(&slot->lock);
	}
	else
	{
		patience->slot_us = 0;
		last_tick = (int64) pg_atomic_read_u64(&slot->granted_end) - 1;
	}
	return info->epoch_ms + last_tick * info->tick_ms + 1;
}

/*
 * End the cursor or reservation in a slot, if it is meant.  Only whoever made it
 * KILLED makes it DEAD, so its slot is nobody else's until that is noted.
 */
static void
kill_slot(int slot_index, const IdgenTarget *target, IdgenPatience *patience)
{
	for (;;)
	{
		IdgenSlotInfo info;
		uint64		word = read_owner(slot_index, &info);
		IdgenSlotPhase phase = phase_of(word);
		int64		until_ms;

		if ((phase != IDGEN_SLOT_RESERVED && phase != IDGEN_SLOT_ACTIVE &&
			 phase != IDGEN_SLOT_KILLED) || !is_meant(target, word, &info))
			return;
		if (phase == IDGEN_SLOT_KILLED)
		{
			/* whoever killed it may be stopped, and not have noted that; DEAD, he has */
			if (granted_until_ms(slot_index, word, &info, &until_ms))
				idgen_ended_note(info.database, info.namespace_name, until_ms, &patience->note_us);
			return;
		}
		if (phase == IDGEN_SLOT_RESERVED && swap_word(slot_index, word, IDGEN_SLOT_FREE))
			return;
		if (phase == IDGEN_SLOT_ACTIVE && swap_word(slot_index, word, IDGEN_SLOT_KILLED))
		{
			idgen_ended_note(info.database, info.namespace_name,
							 issued_until_ms(&info, idgen_slot(slot_index), patience),
							 &patience->note_us);
			pg_atomic_write_u64(&idgen_slot(slot_index)->generation,
								in_phase(generation_of(word), IDGEN_SLOT_DEAD));
			return;
		}
	}
}

/* A walk over the slots, or all walks of one commit, may try for locks so long. */
void
idgen_pool_be_patient(IdgenPatience *patience)
{
	patience->slot_us = SLOT_WITHIN_US;
	patience->note_us = NOTE_WITHIN_US;
}

/* End all cursors and reservations that are meant.  Cannot fail. */
static void
kill_all_within(const IdgenTarget *target, IdgenPatience *patience)
{
	for (int i = 0; i < idgen_shared->slot_count; i++)
		kill_slot(i, target, patience);
	directory_changed();
}

static void
kill_all(const IdgenTarget *target)
{
	IdgenPatience patience;

	idgen_pool_be_patient(&patience);
	kill_all_within(target, &patience);
}

/* Kill one cursor, if it is still the one meant. */
void
idgen_pool_kill_slot(int slot_index, uint64 generation)
{
	IdgenTarget target = {.namespace_name = "", .generation = generation};
	IdgenPatience patience;

	idgen_pool_be_patient(&patience);
	kill_slot(slot_index, &target, &patience);
	directory_changed();
}

/* Kill the cursor of an incarnation of this server. */
void
idgen_pool_kill_incarnation(Oid database, int64 incarnation)
{
	IdgenTarget target = {
		.database = database, .namespace_name = "", .incarnation = incarnation
	};

	kill_all(&target);
}

/* A namespace is retired, fenced or taken over: its cursors end. */
void
idgen_pool_kill(Oid database, const pg_uuid_t *namespace_uuid)
{
	IdgenTarget target = {
		.database = database, .namespace_uuid = namespace_uuid, .namespace_name = ""
	};

	kill_all(&target);
}

/*
 * A step back of the clock was accepted: no cursor of this server goes on, so
 * that those after it begin with the new time.
 */
void
idgen_pool_kill_everywhere(void)
{
	IdgenTarget target = {.namespace_name = ""};

	kill_all(&target);
}

/*
 * The cursors of a database, or of the namespace named unless that is empty, end
 * at the commit of a session.
 */
void
idgen_pool_kill_at_commit(Oid database, const char *namespace_name,
						  IdgenPatience *patience)
{
	IdgenTarget target = {.database = database, .namespace_name = namespace_name};

	kill_all_within(&target, patience);
}

/* Before a drop: what the cursors of a database were granted they may issue. */
void
idgen_pool_bound(Oid database)
{
	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		IdgenSlotInfo info;
		IdgenSlotPhase phase;
		uint64		word;
		int64		until_ms;

		do
		{
			word = read_owner(i, &info);
			phase = phase_of(word);
		} while ((phase == IDGEN_SLOT_ACTIVE || phase == IDGEN_SLOT_KILLED) &&
				 !granted_until_ms(i, word, &info, &until_ms));
		if ((phase == IDGEN_SLOT_ACTIVE || phase == IDGEN_SLOT_KILLED) &&
			info.database == database)
			idgen_ended_bound_cursor(database, info.namespace_name, until_ms);
	}
}

/* --------------------------------------------------------------------
 * Making room
 * -------------------------------------------------------------------- */

/*
 * Was a cursor left behind by a worker that was terminated, in a database that
 * nobody uses any more?  A worker that lives would have granted it more, or
 * ended it.
 */
static bool
is_orphan(int slot_index, int64 now_ms, uint64 *generation)
{
	IdgenSlotInfo info;
	uint64		word = read_owner(slot_index, &info);
	int64		granted_until_ms;

	if (phase_of(word) != IDGEN_SLOT_ACTIVE)
		return false;
	*generation = generation_of(word);
	granted_until_ms = info.epoch_ms + info.tick_ms *
		(int64) pg_atomic_read_u64(&idgen_slot(slot_index)->granted_end);
	return now_ms - granted_until_ms > (int64) idgen_idle_timeout_ms + ORPHAN_MS;
}

/*
 * Make a DEAD slot FREE, unless somebody is inside its lock, and count what its
 * cursor issued.  Only here a word changes that is DEAD, under the slot's lock.
 */
static void
bury(int slot_index)
{
	IdgenSlot  *slot = idgen_slot(slot_index);
	IdgenSlotInfo info;
	uint64		word;

	if (phase_of(read_word(slot_index)) != IDGEN_SLOT_DEAD ||
		!LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))
		return;
	word = read_owner(slot_index, &info);
	if (phase_of(word) == IDGEN_SLOT_DEAD)
	{
		if (info.stats >= 0)
		{
			IdgenStats *stats = &idgen_shared->stats[info.stats];

			idgen_stats_add(stats, IDGEN_COUNTER_IDS_ENDED, slot->issued_count);
			idgen_stats_add(stats, IDGEN_COUNTER_TICKS_ENDED, slot->tick_count);
		}
		(void) swap_word(slot_index, word, IDGEN_SLOT_FREE);
	}
	LWLockRelease(&slot->lock);
}

/* Free the slots of the dead and of orphans. */
static void
clear_away(void)
{
	int64		now_ms = idgen_clock_wall_ms();
	uint64		generation;

	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		if (is_orphan(i, now_ms, &generation))
			idgen_pool_kill_slot(i, generation);
		bury(i);
	}
}

/* --------------------------------------------------------------------
 * Fair shares
 *
 * When no slot is free, a namespace that has no cursor gets one of another
 * namespace.  Which one:
 *
 *	1. that which has been idle longest, if for IDLE_MS.  What its namespace loses is
 *	   what idgen.idle_timeout takes as well: its next ID waits for a round.
 *	2. Where all are in use, a database that has fewer cursors than another gets one of
 *	   the database that has most; else an owner of namespaces that has fewer than
 *	   another owner in the same database gets one of the one that has most: again
 *	   that which has been idle longest.  Not if the two would only change places.
 *
 * So nobody can keep others out by using up the pool, not even by using all of it all
 * the time: shares become equal, and only who has more than that is refused.  A role
 * that makes other roles gets no more of what belongs to other databases.  A further
 * cursor of a namespace that has one takes none from anybody.
 *
 * The incarnation of a cursor that was taken away is ended by its own authority
 * worker, when it finds it gone.
 * -------------------------------------------------------------------- */

/* A cursor that might be taken. */
typedef struct IdgenHolding
{
	int			slot;
	uint64		generation;
	Oid			database;
	Oid			owner;
	int64		used_ms;		/* Unix time */
} IdgenHolding;

/* When was a cursor last used?  A clock that went back makes nothing idle. */
static int64
used_ms(int slot_index, const IdgenSlotInfo *info, int64 now_ms)
{
	int64		last_tick = *(volatile int64 *) &idgen_slot(slot_index)->cursor.last_tick;
	int64		used = info->since_ms;

	if (last_tick >= 0)
		used = Max(used, info->epoch_ms + (last_tick + 1) * info->tick_ms);
	return Min(used, now_ms);
}

/* All cursors of all databases.  Returns their number. */
static int
list_holdings(IdgenHolding *holdings, int64 now_ms)
{
	int			count = 0;

	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		IdgenSlotInfo info;
		uint64		word = read_owner(i, &info);
		IdgenHolding *holding = &holdings[count];

		if (phase_of(word) != IDGEN_SLOT_ACTIVE)
			continue;
		holding->slot = i;
		holding->generation = generation_of(word);
		holding->database = info.database;
		holding->owner = info.owner;
		holding->used_ms = used_ms(i, &info, now_ms);
		count++;
	}
	return count;
}

/* By database, by owner, and the longest idle first. */
static int
compare_holdings(const void *a, const void *b)
{
	const IdgenHolding *x = a;
	const IdgenHolding *y = b;

	if (x->database != y->database)
		return x->database < y->database ? -1 : 1;
	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	return x->used_ms < y->used_ms ? -1 : x->used_ms > y->used_ms;
}

static const IdgenHolding *
longest_idle(const IdgenHolding *holdings, int count)
{
	const IdgenHolding *longest = NULL;

	for (int i = 0; i < count; i++)
		if (longest == NULL || holdings[i].used_ms < longest->used_ms)
			longest = &holdings[i];
	return longest;
}

/* The key of a share: of a database, or of an owner in it. */
static Oid
share_key(const IdgenHolding *holding, bool by_owner)
{
	return by_owner ? holding->owner : holding->database;
}

/*
 * Of sorted holdings, the longest idle of whoever has most, if that is at least two
 * more than what "mine" has.  NULL otherwise.
 */
static const IdgenHolding *
longest_idle_of_most(const IdgenHolding *holdings, int count, Oid mine, bool by_owner)
{
	int			most_begin = 0;
	int			most = 0;
	int			my_count = 0;

	for (int begin = 0, end; begin < count; begin = end)
	{
		Oid			key = share_key(&holdings[begin], by_owner);

		for (end = begin; end < count && share_key(&holdings[end], by_owner) == key;)
			end++;
		if (key == mine)
			my_count = end - begin;
		if (end - begin <= most)
			continue;
		most = end - begin;
		most_begin = begin;
	}
	if (most < my_count + 2)
		return NULL;
	return longest_idle(&holdings[most_begin], most);
}

/* Of sorted holdings, those of one database.  Returns their number. */
static int
holdings_of(const IdgenHolding *holdings, int count, Oid database, int *begin)
{
	int			end;

	for (*begin = 0; *begin < count && holdings[*begin].database != database;)
		(*begin)++;
	for (end = *begin; end < count && holdings[end].database == database;)
		end++;
	return end - *begin;
}

/* The cursor to be taken for a namespace that has none; NULL if there is none. */
static const IdgenHolding *
choose_holding(IdgenHolding *holdings, int count, const IdgenSlotInfo *owner, int64 now_ms)
{
	const IdgenHolding *chosen = longest_idle(holdings, count);
	int			begin;
	int			mine;

	if (chosen == NULL || now_ms - chosen->used_ms >= IDLE_MS)
		return chosen;
	qsort(holdings, count, sizeof(IdgenHolding), compare_holdings);
	chosen = longest_idle_of_most(holdings, count, owner->database, false);
	if (chosen != NULL)
		return chosen;
	mine = holdings_of(holdings, count, owner->database, &begin);
	return longest_idle_of_most(&holdings[begin], mine, owner->owner, true);
}

/* Take a cursor away from another namespace.  False if there is none to be taken. */
static bool
take_cursor(const IdgenSlotInfo *owner)
{
	int64		now_ms = idgen_clock_wall_ms();
	IdgenHolding *holdings = palloc(idgen_shared->slot_count * sizeof(IdgenHolding));
	int			count = list_holdings(holdings, now_ms);
	const IdgenHolding *chosen = choose_holding(holdings, count, owner, now_ms);

	if (chosen != NULL)
	{
		idgen_pool_kill_slot(chosen->slot, chosen->generation);
		bury(chosen->slot);
		pg_atomic_fetch_add_u64(&idgen_shared->cursors_taken, 1);
	}
	pfree(holdings);
	return chosen != NULL;
}

/* --------------------------------------------------------------------
 * From reservation to grant
 * -------------------------------------------------------------------- */

/* Claim a slot under a generation; false if it is not free. */
static bool
claim(int slot_index, uint64 generation)
{
	uint64		word = read_word(slot_index);

	return phase_of(word) == IDGEN_SLOT_FREE &&
		pg_atomic_compare_exchange_u64(&idgen_slot(slot_index)->generation, &word,
									   in_phase(generation, IDGEN_SLOT_CLAIMED));
}

/* Claim some slot that is free; -1 if none is. */
static int
claim_any(uint64 generation)
{
	for (int i = 0; i < idgen_shared->slot_count; i++)
		if (claim(i, generation))
			return i;
	return -1;
}

/*
 * Reserve a slot for a cursor about to be activated; -1 if there is none.  "only_one"
 * says that its namespace has no other.  *generation tells this reservation from every
 * other, and becomes the cursor's.  Only by the authority worker of the database,
 * inside the transaction that activates the cursor.
 */
int
idgen_pool_reserve(const IdgenSlotInfo *owner, bool only_one, uint64 *generation)
{
	int			slot;

	clear_away();
	*generation = pg_atomic_add_fetch_u64(&idgen_shared->last_generation, IDGEN_GENERATION_STEP);
	slot = claim_any(*generation);
	for (int i = 0; i < ROOM_TRIES && slot < 0 && only_one && take_cursor(owner); i++)
		slot = claim_any(*generation);
	if (slot < 0)
		return -1;
	idgen_shared->infos[slot] = *owner;
	pg_write_barrier();
	pg_atomic_write_u64(&idgen_slot(slot)->generation, in_phase(*generation, IDGEN_SLOT_RESERVED));
	return slot;
}

/* Is there still a cursor, or a reservation for one, that a grant is meant for? */
bool
idgen_pool_awaits(int slot_index, uint64 generation)
{
	uint64		word = read_word(slot_index);

	return word == in_phase(generation, IDGEN_SLOT_RESERVED) ||
		word == in_phase(generation, IDGEN_SLOT_ACTIVE);
}

/* Give back one reserved slot. */
void
idgen_pool_unreserve(int slot_index, uint64 generation)
{
	(void) swap_word(slot_index, in_phase(generation, IDGEN_SLOT_RESERVED), IDGEN_SLOT_FREE);
}

/* What is reserved from now on has a greater generation. */
uint64
idgen_pool_last_generation(void)
{
	return pg_atomic_read_u64(&idgen_shared->last_generation);
}

/*
 * Give back what a worker of this database reserved and did not activate, of the
 * generations after the one given.
 */
void
idgen_pool_release_reserved(Oid database, uint64 after)
{
	IdgenTarget target = {.database = database, .namespace_name = "", .after = after};

	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		IdgenSlotInfo info;
		uint64		word = read_owner(i, &info);

		if (phase_of(word) == IDGEN_SLOT_RESERVED && is_meant(&target, word, &info))
			(void) swap_word(i, word, IDGEN_SLOT_FREE);
	}
}

/*
 * Bring a reserved slot to life with its first grant, which is durable.  If
 * that reservation is over (the namespace was dropped or changed meanwhile)
 * nothing happens, and the grant is a gap.
 */
void
idgen_pool_activate(int slot_index, uint64 generation, const IdgenGrant *grant)
{
	uint64		reserved = in_phase(generation, IDGEN_SLOT_RESERVED);
	IdgenSlot  *slot = idgen_slot(slot_index);

	if (!idgen_lock_within(&slot->lock, LW_EXCLUSIVE, SLOT_WITHIN_US))
	{
		idgen_pool_unreserve(slot_index, generation);
		return;
	}
	if (read_word(slot_index) == reserved)
	{
		idgen_cursor_init(&slot->cursor, idgen_shared->infos[slot_index].worker);
		(void) idgen_cursor_install(&slot->cursor, grant, 0);
		slot->issued_count = 0;
		slot->tick_count = 0;
		pg_atomic_write_u64(&slot->granted_end, (uint64) grant->end);

		/* a full barrier: whoever finds it active finds this as well */
		(void) swap_word(slot_index, reserved, IDGEN_SLOT_ACTIVE);
	}
	LWLockRelease(&slot->lock);
	directory_changed();
}

/*
 * Give a durable grant to the cursor it was meant for and to no other (S5).
 * False if that cursor is gone, or its lock could not be had in time: then the
 * grant is a gap.
 */
bool
idgen_pool_publish(int slot_index, uint64 generation, const IdgenGrant *grant,
				   int64 now)
{
	IdgenSlot  *slot = idgen_slot(slot_index);
	bool		installed = false;

	if (!idgen_lock_within(&slot->lock, LW_EXCLUSIVE, SLOT_WITHIN_US))
		return false;
	if (pg_atomic_read_u64(&slot->generation) == generation)
	{
		IdgenInstallCode code;

		pg_atomic_write_u64(&slot->granted_end,
							Max(pg_atomic_read_u64(&slot->granted_end),
								(uint64) grant->end));
		code = idgen_cursor_install(&slot->cursor, grant, now);
		installed = code == IDGEN_INSTALL_ADDED || code == IDGEN_INSTALL_MERGED;
	}
	LWLockRelease(&slot->lock);
	return installed;
}
