/*
 * slot.c
 *		How a slot changes hands: the phases of one cursor, and who may change them.
 *
 * A slot changes hands by compare-and-swap of its word (generation and phase,
 * see slot.h), so that nobody waits for a stopped process.  Only the process
 * that has CLAIMED or KILLED a slot writes its next phase plainly, because
 * nobody else may change the word then.
 *
 *	claim		FREE -> CLAIMED		by the authority process whose swap succeeds, or by
 *									a session that issues from the namespace that its
 *									transaction has created.  It writes whose the slot is.
 *	reserve		CLAIMED -> RESERVED	by that process, before the first grant is durable
 *	unreserve	RESERVED -> FREE	by anybody: nothing was issued
 *	activate	RESERVED -> ACTIVE	when it is durable, under the slot's lock.  It fails
 *									if the reservation is over.
 *	kill		ACTIVE -> KILLED	by anybody.  The process whose swap succeeds notes
 *									until when the cursor issued,
 *				KILLED -> DEAD		and then says that it has.
 *	free		DEAD -> FREE		under the slot's lock, so that nobody is inside
 *
 * No value of the word ever comes back.  So a swap that succeeds proves that
 * nothing happened to the slot between the reading of the word and the swap,
 * and that the owner that was read in between is the owner under that word.
 * The owner is written while the slot is CLAIMED: after the swap that claimed
 * it (a full barrier), and before a write barrier and RESERVED.  A reader
 * issues a read barrier after it has read the word, and another one before it
 * reads the word again.  If it swaps the word instead, the swap is a full
 * barrier.
 *
 * Sessions kill cursors at commit, so killing cannot fail.  When it returns,
 * the cursor is dead, whichever process is stopped inside whichever lock:
 *
 *	- A process that issues compares the word under the slot's lock, after it has read
 *	  the clock.  If it takes the lock after the kill, it issues nothing.  If it had
 *	  compared the word and was then stopped inside the lock, it finishes the one issue
 *	  that it had begun; that issue lies inside the grant, which is reserved, and at or
 *	  before the tick until which the killer says that the cursor issued.
 *	- A further grant is installed under the slot's lock if the word is that of the
 *	  cursor for which the grant was decided.  If the cursor is killed meanwhile, the
 *	  grant lies in a cursor that nobody issues from.
 *	- A reservation is killed as well.  If its activation is under way, one of the two
 *	  swaps fails: either the cursor does not come to life, or the killer looks at the
 *	  slot again and finds it ACTIVE.
 *
 * A crash of the server, or of any backend, loses all slots, and the incarnations of
 * their cursors are over.
 */
#include "compat.h"

#include "shmem/slot.h"

#include "random.h"
#include "settings.h"
#include "shmem/ended.h"
#include "shmem/lock.h"

/*
 * How long to try for a slot's lock.  It is held for well under a microsecond, so a
 * holder that keeps it for longer is stopped or was just descheduled.
 */
#define SLOT_WITHIN_US		INT64_C(2000)

/* How long to try for the lock of ended.c. */
#define NOTE_WITHIN_US		INT64_C(100000)

/* --------------------------------------------------------------------
 * The area
 * -------------------------------------------------------------------- */

/*
 * Lay the arrays out one after the other.  With slots == NULL only the size is
 * computed, so that size and layout cannot disagree.
 */
static Size
lay_out(IdgenSlots *slots)
{
	Size		size = MAXALIGN(sizeof(IdgenSlots));
	Size		infos = size;
	Size		accounts;
	Size		cursors;

	size = add_size(size, mul_size(idgen_max_cursors, sizeof(IdgenSlotInfo)));
	size = accounts = MAXALIGN(size);
	size = add_size(size, mul_size(idgen_max_cursors, sizeof(IdgenAccount)));
	cursors = size;
	/* with room to align them */
	size = add_size(size, IDGEN_SLOT_ALIGN);
	size = add_size(size, mul_size(idgen_max_cursors, sizeof(IdgenSlotPadded)));

	if (slots != NULL)
	{
		char	   *base = (char *) slots;

		slots->count = idgen_max_cursors;
		slots->infos = (IdgenSlotInfo *) (base + infos);
		slots->accounts = (IdgenAccount *) (base + accounts);
		slots->slots = (IdgenSlotPadded *) TYPEALIGN(IDGEN_SLOT_ALIGN,
													 (uintptr_t) (base + cursors));
	}
	return size;
}

Size
idgen_slots_size(void)
{
	return lay_out(NULL);
}

void
idgen_slots_init(void *memory, int tranche)
{
	idgen_shared->slots = memory;
	(void) lay_out(idgen_shared->slots);
	for (int i = 0; i < idgen_slot_count(); i++)
	{
		IdgenSlot  *slot = idgen_slot(i);
		IdgenAccount *account = &idgen_shared->slots->accounts[i];

		LWLockInitialize(&slot->lock, tranche);
		pg_atomic_init_u64(&slot->generation, IDGEN_SLOT_FREE);
		pg_atomic_init_u64(&slot->granted_end, 0);
		pg_atomic_init_u64(&account->id_count, 0);
		pg_atomic_init_u64(&account->tick_count, 0);
	}
}

/* --------------------------------------------------------------------
 * The word
 * -------------------------------------------------------------------- */

static inline uint64
in_phase(uint64 generation, IdgenSlotPhase phase)
{
	return generation + phase;
}

static inline uint64
read_word(int index)
{
	return pg_atomic_read_u64(&idgen_slot(index)->generation);
}

/* Change the word if it still is what the caller has seen. */
static bool
swap_word(int index, uint64 seen, uint64 word)
{
	return pg_atomic_compare_exchange_u64(&idgen_slot(index)->generation, &seen, word);
}

/*
 * Read the word, and whose slot it was then, if it was anybody's.  Reads again as often
 * as the slot changes hands meanwhile, which takes a commit each time.
 */
uint64
idgen_slot_read(int index, IdgenSlotInfo *info)
{
	for (;;)
	{
		uint64		word = read_word(index);

		if (!idgen_slot_has_owner(word))
			return word;
		pg_read_barrier();
		*info = idgen_shared->slots->infos[index];
		pg_read_barrier();
		if (read_word(index) == word)
			return word;
	}
}

bool
idgen_slot_is_meant(const IdgenTarget *target, uint64 word, const IdgenSlotInfo *info)
{
	return (!OidIsValid(target->database) || info->database == target->database) &&
		(target->namespace_uuid == NULL ||
		 idgen_same_uuid(&info->namespace_uuid, target->namespace_uuid)) &&
		(target->namespace_name == NULL ||
		 strcmp(info->namespace_name, target->namespace_name) == 0) &&
		(target->incarnation == 0 || info->incarnation == target->incarnation) &&
		(target->generation == 0 || idgen_slot_generation(word) == target->generation) &&
		idgen_slot_generation(word) > target->after;
}

/* --------------------------------------------------------------------
 * From claim to grant
 * -------------------------------------------------------------------- */

/* Claim a slot under a generation; false if it is not free. */
bool
idgen_slot_claim(int index, uint64 generation)
{
	uint64		word = read_word(index);

	return idgen_slot_phase(word) == IDGEN_SLOT_FREE &&
		swap_word(index, word, in_phase(generation, IDGEN_SLOT_CLAIMED));
}

/* Only by the process that has claimed the slot. */
void
idgen_slot_reserve(int index, uint64 generation, const IdgenSlotInfo *owner)
{
	idgen_shared->slots->infos[index] = *owner;
	pg_write_barrier();
	pg_atomic_write_u64(&idgen_slot(index)->generation,
						in_phase(generation, IDGEN_SLOT_RESERVED));
}

/*
 * Does the cursor for which a grant is meant, or its reservation, still exist?
 */
bool
idgen_slot_awaits(int index, uint64 generation)
{
	uint64		word = read_word(index);

	return word == in_phase(generation, IDGEN_SLOT_RESERVED) ||
		word == in_phase(generation, IDGEN_SLOT_ACTIVE);
}

/* Give back a reserved slot; nothing happens if that reservation is over. */
void
idgen_slot_unreserve(int index, uint64 generation)
{
	(void) swap_word(index, in_phase(generation, IDGEN_SLOT_RESERVED),
					 in_phase(generation, IDGEN_SLOT_FREE));
}

/*
 * Bring a reserved slot to life with its first grant, which is durable.  If that
 * reservation is over (the namespace was dropped or changed meanwhile), or the slot's
 * lock cannot be had in time, the grant is a gap.  False if nothing has changed.
 */
bool
idgen_slot_activate(int index, uint64 generation, const IdgenGrant *grant)
{
	uint64		reserved = in_phase(generation, IDGEN_SLOT_RESERVED);
	IdgenSlot  *slot = idgen_slot(index);
	bool		active = false;

	if (!idgen_lock_within(&slot->lock, LW_EXCLUSIVE, SLOT_WITHIN_US))
	{
		idgen_slot_unreserve(index, generation);
		return false;
	}
	if (read_word(index) == reserved)
	{
		idgen_cursor_init(&slot->cursor, idgen_shared->slots->infos[index].worker);
		(void) idgen_cursor_install(&slot->cursor, grant, 0);
		slot->issued_count = 0;
		slot->tick_count = 0;
		pg_atomic_write_u64(&slot->granted_end, (uint64) grant->end);

		/* a full barrier: whoever finds the slot active finds this as well */
		active = swap_word(index, reserved, in_phase(generation, IDGEN_SLOT_ACTIVE));
	}
	LWLockRelease(&slot->lock);
	return active;
}

/*
 * Give a durable grant to the cursor it was meant for and to no other (S5).
 * False if that cursor is gone, or its lock could not be had in time: then the
 * grant is a gap.
 */
bool
idgen_slot_publish(int index, uint64 generation, const IdgenGrant *grant, int64 now)
{
	IdgenSlot  *slot = idgen_slot(index);
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

/* --------------------------------------------------------------------
 * The end
 * -------------------------------------------------------------------- */

/*
 * Begin the patience for one walk over the slots, or for all walks of one
 * commit.
 */
void
idgen_patience_begin(IdgenPatience *patience)
{
	patience->slot_us = SLOT_WITHIN_US;
	patience->note_us = NOTE_WITHIN_US;
}

/*
 * The Unix millisecond after the beginning of the last tick that was granted
 * to the cursor that had this word, which was read with its owner.  False if
 * the slot has changed since: it may belong to another cursor by now, which
 * counts in other ticks.
 */
bool
idgen_slot_granted_until_ms(int index, uint64 word, const IdgenSlotInfo *info,
							int64 *until_ms)
{
	int64		granted_end = (int64) pg_atomic_read_u64(&idgen_slot(index)->granted_end);

	pg_read_barrier();
	*until_ms = info->epoch_ms + (granted_end - 1) * info->tick_ms + 1;
	return read_word(index) == word;
}

/*
 * The Unix millisecond after the beginning of the last tick that a killed cursor issued
 * from: no tick of the same format that begins at or after it was used.  If the slot's
 * lock cannot be had, the last tick that was granted counts, because a process that is
 * stopped inside the lock may still issue from the grant; nobody else issues anything.
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
 * End the cursor or reservation in a slot, if it is meant.  Only the process that made
 * the slot KILLED makes it DEAD, so the slot is nobody else's until the end is noted.
 */
void
idgen_slot_kill(int index, const IdgenTarget *target, IdgenPatience *patience)
{
	for (;;)
	{
		IdgenSlotInfo info;
		uint64		word = idgen_slot_read(index, &info);
		IdgenSlotPhase phase = idgen_slot_phase(word);
		uint64		generation = idgen_slot_generation(word);
		int64		until_ms;

		if ((phase != IDGEN_SLOT_RESERVED && phase != IDGEN_SLOT_ACTIVE &&
			 phase != IDGEN_SLOT_KILLED) || !idgen_slot_is_meant(target, word, &info))
			return;
		if (phase == IDGEN_SLOT_KILLED)
		{
			/* its killer may be stopped before it has noted the end */
			if (idgen_slot_granted_until_ms(index, word, &info, &until_ms))
				idgen_ended_note(info.database, info.namespace_name, until_ms, &patience->note_us);
			return;
		}
		if (phase == IDGEN_SLOT_RESERVED &&
			swap_word(index, word, in_phase(generation, IDGEN_SLOT_FREE)))
			return;
		if (phase == IDGEN_SLOT_ACTIVE &&
			swap_word(index, word, in_phase(generation, IDGEN_SLOT_KILLED)))
		{
			idgen_ended_note(info.database, info.namespace_name,
							 issued_until_ms(&info, idgen_slot(index), patience),
							 &patience->note_us);
			pg_atomic_write_u64(&idgen_slot(index)->generation,
								in_phase(generation, IDGEN_SLOT_DEAD));
			return;
		}
	}
}

/*
 * Free a slot that is DEAD, unless somebody is inside its lock, and add up what its
 * cursor issued.  Nowhere else does the word of a dead slot change.
 */
void
idgen_slot_free_dead(int index)
{
	IdgenSlot  *slot = idgen_slot(index);
	IdgenSlotInfo info;
	uint64		word;

	if (idgen_slot_phase(read_word(index)) != IDGEN_SLOT_DEAD ||
		!LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))
		return;
	word = idgen_slot_read(index, &info);
	if (idgen_slot_phase(word) == IDGEN_SLOT_DEAD)
	{
		if (info.account >= 0)
		{
			IdgenAccount *account = &idgen_shared->slots->accounts[info.account];

			pg_atomic_fetch_add_u64(&account->id_count, slot->issued_count);
			pg_atomic_fetch_add_u64(&account->tick_count, slot->tick_count);
		}
		(void) swap_word(index, word, in_phase(idgen_slot_generation(word), IDGEN_SLOT_FREE));
	}
	LWLockRelease(&slot->lock);
}
