/*
 * pool.c
 *		Reserve, activate, feed, list and kill cursors in shared memory.
 *
 * A slot goes FREE -> RESERVED (by the authority worker, before it commits an
 * activation) -> ACTIVE (after the commit) -> DEAD -> FREE.  A worker that dies
 * between reserving and activating leaves RESERVED behind; the next worker of
 * that database frees it.  A crash loses all of it, with the incarnations.
 *
 * Killing clears the tenure first: whoever takes the slot's lock afterwards
 * sees it and issues nothing.  A process stopped inside the lock may still
 * finish one issue that it had begun; that one ID was issued before the kill as
 * far as anybody can tell, and lies inside the grant, which is reserved.
 */
#include "compat.h"

#include "pool.h"

#include "miscadmin.h"

#include "clock.h"
#include "identity.h"
#include "settings.h"

/*
 * How long to try for a slot's lock.  It is held for well under a microsecond,
 * so a miss means that its holder is stopped or was just descheduled.
 */
#define SLOT_WITHIN_US		INT64_C(2000)

/* How long a commit tries for the directory to kill what it dropped. */
#define DIRECTORY_WITHIN_US	INT64_C(1000000)

/* A cursor without grants for this long, beyond idleness, is nobody's. */
#define ORPHAN_MS	INT64_C(600000)

static void kill_locked(int slot_index);

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

/*
 * The active cursors of a namespace in ascending order of worker, at most
 * refs_max of them.  Returns their number.
 */
int
idgen_pool_list(Oid database, const pg_uuid_t *namespace_uuid,
				IdgenCursorRef *refs, int refs_max)
{
	int			count = 0;

	idgen_lock_directory(LW_SHARED);
	for (int i = 0; i < idgen_shared->slot_count && count < refs_max; i++)
	{
		IdgenSlotInfo *info = &idgen_shared->infos[i];
		int			at = count;

		if (info->state != IDGEN_SLOT_ACTIVE || info->database != database ||
			!idgen_same_uuid(&info->namespace_uuid, namespace_uuid))
			continue;
		for (; at > 0 && refs[at - 1].worker > info->worker; at--)
			refs[at] = refs[at - 1];
		refs[at].slot = idgen_slot(i);
		refs[at].worker = info->worker;
		refs[at].tenure = info->tenure;
		count++;
	}
	idgen_unlock_directory();
	return count;
}

/* All active cursors of a database, for its authority worker. */
int
idgen_pool_survey(Oid database, IdgenCursorSurvey *surveys, int surveys_max)
{
	int			count = 0;

	idgen_lock_directory(LW_SHARED);
	for (int i = 0; i < idgen_shared->slot_count && count < surveys_max; i++)
	{
		IdgenSlotInfo *info = &idgen_shared->infos[i];
		IdgenSlot  *slot = idgen_slot(i);
		IdgenCursorSurvey *survey = &surveys[count];

		if (info->state != IDGEN_SLOT_ACTIVE || info->database != database)
			continue;
		survey->slot = i;
		survey->worker = info->worker;
		survey->incarnation = info->incarnation;
		survey->tenure = info->tenure;
		survey->namespace_uuid = info->namespace_uuid;
		strlcpy(survey->namespace_name, info->namespace_name, NAMEDATALEN);
		survey->readable = LWLockConditionalAcquire(&slot->lock, LW_SHARED);
		if (survey->readable)
		{
			survey->issued_count = slot->issued_count;
			survey->granted_end = idgen_cursor_granted_end(&slot->cursor);
			LWLockRelease(&slot->lock);
		}
		count++;
	}
	idgen_unlock_directory();
	return count;
}

/*
 * Keep the count of what a dead cursor issued.  Caller holds the directory lock
 * and the slot's.
 */
static void
count_ended(int slot_index)
{
	const IdgenSlotInfo *info = &idgen_shared->infos[slot_index];

	for (int i = 0; i < idgen_shared->stats_count; i++)
	{
		IdgenStats *stats = &idgen_shared->stats[i];

		if (stats->database != info->database ||
			strcmp(stats->namespace_name, info->namespace_name) != 0)
			continue;
		pg_atomic_fetch_add_u64(&stats->counters[IDGEN_COUNTER_IDS_ENDED],
								idgen_slot(slot_index)->issued_count);
		return;
	}
}

/*
 * Was a cursor left behind by a worker that was terminated, in a database that
 * nobody uses any more?  A worker that lives would have granted it more, or
 * ended it.  Caller holds the directory lock exclusively.
 */
static bool
is_orphan(int slot_index, int64 now_ms)
{
	const IdgenSlotInfo *info = &idgen_shared->infos[slot_index];
	int64		granted_until_ms = info->epoch_ms + info->tick_ms *
		idgen_cursor_granted_end(&idgen_slot(slot_index)->cursor);

	return info->state == IDGEN_SLOT_ACTIVE &&
		now_ms - granted_until_ms > (int64) idgen_idle_timeout_ms + ORPHAN_MS;
}

/*
 * Make DEAD slots FREE that nobody is inside of, and orphans DEAD.  Caller holds
 * the directory lock exclusively.
 */
static void
bury_dead(void)
{
	int64		now_ms = idgen_clock_wall_ms();

	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		if (is_orphan(i, now_ms))
			kill_locked(i);
		if (idgen_shared->infos[i].state != IDGEN_SLOT_DEAD)
			continue;
		if (!LWLockConditionalAcquire(&idgen_slot(i)->lock, LW_EXCLUSIVE))
			continue;
		count_ended(i);
		idgen_shared->infos[i].state = IDGEN_SLOT_FREE;
		LWLockRelease(&idgen_slot(i)->lock);
	}
}

/*
 * Reserve a slot for a cursor about to be activated; -1 if the pool is full.
 * *tenure tells this reservation from every other, and becomes the cursor's.
 * Only by the authority worker of the database.
 */
int
idgen_pool_reserve(Oid database, const pg_uuid_t *namespace_uuid,
				   const char *namespace_name, uint64 *tenure)
{
	int			found = -1;

	idgen_lock_directory(LW_EXCLUSIVE);
	bury_dead();
	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		IdgenSlotInfo *info = &idgen_shared->infos[i];

		if (info->state != IDGEN_SLOT_FREE)
			continue;
		info->state = IDGEN_SLOT_RESERVED;
		info->database = database;
		info->namespace_uuid = *namespace_uuid;
		strlcpy(info->namespace_name, namespace_name, NAMEDATALEN);
		info->tenure = pg_atomic_add_fetch_u64(&idgen_shared->last_tenure, 1);
		*tenure = info->tenure;
		found = i;
		break;
	}
	idgen_unlock_directory();
	return found;
}

/* Is there still a cursor, or a reservation for one, that a grant is meant for? */
bool
idgen_pool_awaits(int slot_index, uint64 tenure)
{
	const IdgenSlotInfo *info = &idgen_shared->infos[slot_index];
	bool		awaits;

	idgen_lock_directory(LW_SHARED);
	awaits = info->tenure == tenure &&
		(info->state == IDGEN_SLOT_RESERVED || info->state == IDGEN_SLOT_ACTIVE);
	idgen_unlock_directory();
	return awaits;
}

/* Give back one reserved slot. */
void
idgen_pool_unreserve(int slot_index, uint64 tenure)
{
	IdgenSlotInfo *info = &idgen_shared->infos[slot_index];

	idgen_lock_directory(LW_EXCLUSIVE);
	if (info->state == IDGEN_SLOT_RESERVED && info->tenure == tenure)
		info->state = IDGEN_SLOT_FREE;
	idgen_unlock_directory();
}

/* What is reserved from now on has a greater tenure. */
uint64
idgen_pool_last_tenure(void)
{
	return pg_atomic_read_u64(&idgen_shared->last_tenure);
}

/*
 * Give back what a worker of this database reserved and did not activate, of the
 * tenures after the one given.
 */
void
idgen_pool_release_reserved(Oid database, uint64 after)
{
	idgen_lock_directory(LW_EXCLUSIVE);
	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		IdgenSlotInfo *info = &idgen_shared->infos[i];

		if (info->state == IDGEN_SLOT_RESERVED && info->database == database &&
			info->tenure > after)
			info->state = IDGEN_SLOT_FREE;
	}
	idgen_unlock_directory();
}

/*
 * Bring a reserved slot to life with its first grant, which is durable.  If
 * that reservation is over (the namespace was dropped or changed meanwhile)
 * nothing happens, and the grant is a gap.
 */
void
idgen_pool_activate(int slot_index, uint64 tenure,
					const pg_uuid_t *namespace_uuid, const IdgenLayout *layout,
					int32 worker, int64 incarnation, const IdgenGrant *grant)
{
	IdgenSlotInfo *info = &idgen_shared->infos[slot_index];
	IdgenSlot  *slot = idgen_slot(slot_index);

	bool		mine;

	idgen_lock_directory(LW_EXCLUSIVE);
	mine = info->state == IDGEN_SLOT_RESERVED && info->tenure == tenure &&
		idgen_same_uuid(&info->namespace_uuid, namespace_uuid);

	if (mine && idgen_lock_within(&slot->lock, LW_EXCLUSIVE, SLOT_WITHIN_US))
	{
		info->state = IDGEN_SLOT_ACTIVE;
		info->worker = worker;
		info->incarnation = incarnation;
		info->epoch_ms = layout->epoch_ms;
		info->tick_ms = layout->tick_ms;

		idgen_cursor_init(&slot->cursor, worker);
		(void) idgen_cursor_install(&slot->cursor, grant, 0);
		slot->issued_count = 0;
		pg_atomic_write_u64(&slot->tenure, tenure);
		LWLockRelease(&slot->lock);
	}
	else if (mine)
		info->state = IDGEN_SLOT_FREE;
	idgen_unlock_directory();
	directory_changed();
}

/*
 * Give a durable grant to the cursor it was meant for and to no other (S5).
 * False if that cursor is gone, or its lock could not be had in time: then the
 * grant is a gap.
 */
bool
idgen_pool_publish(int slot_index, uint64 tenure, const IdgenGrant *grant,
				   int64 now)
{
	IdgenSlot  *slot = idgen_slot(slot_index);
	bool		installed = false;

	if (!idgen_lock_within(&slot->lock, LW_EXCLUSIVE, SLOT_WITHIN_US))
		return false;
	if (pg_atomic_read_u64(&slot->tenure) == tenure)
	{
		IdgenInstallCode code = idgen_cursor_install(&slot->cursor, grant, now);

		installed = code == IDGEN_INSTALL_ADDED || code == IDGEN_INSTALL_MERGED;
	}
	LWLockRelease(&slot->lock);
	return installed;
}

/*
 * The Unix millisecond after the beginning of the last tick a killed cursor
 * issued from, or, if somebody is stopped inside its lock, was granted: no tick
 * of the same format that begins at or after it was used.
 */
static int64
issued_until_ms(const IdgenSlotInfo *info, IdgenSlot *slot)
{
	int64		last_tick;

	if (idgen_lock_within(&slot->lock, LW_SHARED, SLOT_WITHIN_US))
	{
		last_tick = slot->cursor.last_tick;
		LWLockRelease(&slot->lock);
	}
	else
		last_tick = idgen_cursor_granted_end(&slot->cursor) - 1;
	return info->epoch_ms + last_tick * info->tick_ms + 1;
}

/*
 * The entry of a namespace, made if need be in place of the one longest past.
 * Caller holds the directory lock exclusively.
 */
static IdgenEnded *
ended_entry(Oid database, const char *namespace_name)
{
	IdgenEnded *oldest = &idgen_shared->ended[0];

	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &idgen_shared->ended[i];

		if (entry->database == database &&
			strcmp(entry->namespace_name, namespace_name) == 0)
			return entry;
		if (entry->ended_until_ms < oldest->ended_until_ms)
			oldest = entry;
	}
	memset(oldest, 0, sizeof(*oldest));
	oldest->database = database;
	strlcpy(oldest->namespace_name, namespace_name, NAMEDATALEN);
	return oldest;
}

/*
 * Kill a cursor, and remember what it issued.  Caller holds the directory lock
 * exclusively.
 */
static void
kill_locked(int slot_index)
{
	IdgenSlotInfo *info = &idgen_shared->infos[slot_index];
	IdgenEnded *entry;

	pg_atomic_write_u64(&idgen_slot(slot_index)->tenure, 0);
	info->state = IDGEN_SLOT_DEAD;
	entry = ended_entry(info->database, info->namespace_name);
	entry->ended_until_ms = Max(entry->ended_until_ms,
								issued_until_ms(info, idgen_slot(slot_index)));
}

/* Kill one cursor, if it is still the one meant. */
void
idgen_pool_kill_slot(int slot_index, uint64 tenure)
{
	IdgenSlotInfo *info = &idgen_shared->infos[slot_index];

	idgen_lock_directory(LW_EXCLUSIVE);
	if (info->state == IDGEN_SLOT_ACTIVE && info->tenure == tenure)
		kill_locked(slot_index);
	idgen_unlock_directory();
	directory_changed();
}

/* Kill the cursor of an incarnation of this server. */
void
idgen_pool_kill_incarnation(Oid database, int64 incarnation)
{
	idgen_lock_directory(LW_EXCLUSIVE);
	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		IdgenSlotInfo *info = &idgen_shared->infos[i];

		if (info->state == IDGEN_SLOT_ACTIVE && info->database == database &&
			info->incarnation == incarnation)
			kill_locked(i);
	}
	idgen_unlock_directory();
	directory_changed();
}

/*
 * The extension was dropped, or the whole database: what was issued until now
 * must not be repeated, and the statistics are those of nothing.  Caller holds
 * the directory lock exclusively.
 */
static void
forget_dropped(Oid database, bool whole_database)
{
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &idgen_shared->ended[i];

		if (entry->database != database || entry->namespace_name[0] == '\0')
			continue;
		entry->dropped_until_ms = entry->ended_until_ms;
		if (whole_database)
		{
			IdgenEnded	ended = *entry;
			IdgenEnded *anywhere;

			/* first, so that there is room */
			memset(entry, 0, sizeof(*entry));
			anywhere = ended_entry(InvalidOid, ended.namespace_name);
			anywhere->ended_until_ms = Max(anywhere->ended_until_ms,
										   ended.ended_until_ms);
			anywhere->dropped_until_ms = anywhere->ended_until_ms;
		}
	}
	for (int i = 0; i < idgen_shared->stats_count; i++)
		if (idgen_shared->stats[i].database == database)
			idgen_shared->stats[i].database = InvalidOid;
}

/*
 * Kill the cursors of a database, or of one namespace of it: by uuid if that is
 * not NULL, by name if that is not empty.  Caller holds the directory lock
 * exclusively.
 */
static void
kill_matching(Oid database, const pg_uuid_t *namespace_uuid,
			  const char *namespace_name)
{
	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		IdgenSlotInfo *info = &idgen_shared->infos[i];

		if (info->database != database ||
			(namespace_uuid != NULL &&
			 !idgen_same_uuid(&info->namespace_uuid, namespace_uuid)) ||
			(namespace_name[0] != '\0' &&
			 strcmp(info->namespace_name, namespace_name) != 0))
			continue;
		if (info->state == IDGEN_SLOT_RESERVED)
			info->state = IDGEN_SLOT_FREE;
		if (info->state == IDGEN_SLOT_ACTIVE)
			kill_locked(i);
	}
}

/*
 * A namespace is retired, fenced or taken over: its cursors end before this
 * returns.  By the authority worker, which can do nothing without the directory
 * anyway, and so waits for it as long as it takes.
 */
void
idgen_pool_kill(Oid database, const pg_uuid_t *namespace_uuid)
{
	while (!idgen_lock_within(&idgen_shared->directory_lock, LW_EXCLUSIVE,
							  DIRECTORY_WITHIN_US))
		CHECK_FOR_INTERRUPTS();
	kill_matching(database, namespace_uuid, "");
	idgen_unlock_directory();
	directory_changed();
}

/*
 * A step back of the clock was accepted: no cursor of this server goes on, so
 * that those after it begin with the new time.  Caller holds the directory lock
 * exclusively.
 */
void
idgen_pool_kill_everywhere(void)
{
	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		if (idgen_shared->infos[i].state == IDGEN_SLOT_RESERVED)
			idgen_shared->infos[i].state = IDGEN_SLOT_FREE;
		if (idgen_shared->infos[i].state == IDGEN_SLOT_ACTIVE)
			kill_locked(i);
	}
	directory_changed();
}

/*
 * The cursors of a database, or of the namespace named unless that is empty, end
 * at the commit of a session.  This must not
 * fail: should the directory lock be held by a stopped process, they stay.
 * After a drop they are unreachable all the same, since no session can look the
 * namespace up any more, and run dry with their grants.
 */
void
idgen_pool_kill_at_commit(Oid database, const char *namespace_name,
						  IdgenKill why)
{
	if (!idgen_lock_within(&idgen_shared->directory_lock, LW_EXCLUSIVE,
						   DIRECTORY_WITHIN_US))
		return;
	kill_matching(database, NULL, namespace_name);
	switch (why)
	{
		case IDGEN_KILL_CHANGED:
			break;
		case IDGEN_KILL_EXTENSION_DROPPED:
			forget_dropped(database, false);
			break;
		case IDGEN_KILL_DATABASE_DROPPED:
			forget_dropped(database, true);
			break;
	}
	idgen_unlock_directory();
	directory_changed();
}

/*
 * The Unix ms until which a namespace of this name was issued from before its
 * extension was dropped; 0 if never.  What went with its database, and all its
 * IDs, does not count if it is of later than limit_ms: no clock that is believed
 * now can have been at it, so it would stand for years in everybody's way.
 */
int64
idgen_pool_dropped_until(Oid database, const char *namespace_name,
						 int64 limit_ms)
{
	int64		until_ms = 0;

	idgen_lock_directory(LW_SHARED);
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		const IdgenEnded *entry = &idgen_shared->ended[i];

		if (strcmp(entry->namespace_name, namespace_name) == 0 &&
			(entry->database == database ||
			 (entry->database == InvalidOid && entry->dropped_until_ms <= limit_ms)))
			until_ms = Max(until_ms, entry->dropped_until_ms);
	}
	idgen_unlock_directory();
	return until_ms;
}

/*
 * The latest Unix ms, limit_ms at most, until which anything was issued that has
 * been dropped, of whatever database and name; 0 if there is none.
 */
int64
idgen_pool_dropped_anywhere(int64 limit_ms)
{
	int64		until_ms = 0;

	idgen_lock_directory(LW_SHARED);
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
		if (idgen_shared->ended[i].dropped_until_ms <= limit_ms)
			until_ms = Max(until_ms, idgen_shared->ended[i].dropped_until_ms);
	idgen_unlock_directory();
	return until_ms;
}
