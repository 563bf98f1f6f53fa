/*
 * ended_entries.c
 *		The entries of what ended, and when they are saved.
 *
 * ended.c says what the times in them mean.
 */
#include "compat.h"

#include "shmem/ended_entries.h"

#include "clock.h"
#include "error.h"
#include "shmem/clock_judge.h"
#include "shmem/ended_file.h"
#include "shmem/lock.h"

/* How long to try for the file, which takes a flush. */
#define FILE_WITHIN_US	INT64_C(1000000)

/*
 * What ended longer ago than this is not saved any more.  The clock may go back by less
 * than that, and still nothing is repeated.
 */
#define KEPT_MS			INT64_C(3600000)

/* --------------------------------------------------------------------
 * Entries
 * -------------------------------------------------------------------- */

/* Raises an error if a stopped process holds the lock. */
void
idgen_ended_lock(LWLockMode mode)
{
	if (!idgen_lock_within(&idgen_ended_state()->lock, mode, IDGEN_ENDED_WITHIN_US))
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("could not look up the last IDs of dropped namespaces"),
				 errdetail("The process that holds the lock seems to be stopped."),
				 errhint(IDGEN_HINT_STOPPED)));
}

void
idgen_ended_unlock(void)
{
	LWLockRelease(&idgen_ended_state()->lock);
}

bool
idgen_ended_is_used(const IdgenEnded *entry)
{
	return entry->namespace_name[0] != '\0';
}

/* The latest time that an entry says anything about. */
int64
idgen_ended_latest_ms(const IdgenEnded *entry)
{
	return Max(Max(Max(entry->issued_ms, entry->inherited_ms),
				   Max(entry->uncommitted_ms, entry->first_used_ms)),
			   Max(entry->bound_ms, entry->dropped_ms));
}

/* Until when an entry is needed: an open transaction will ask until when it issued. */
static int64
needed_until_ms(const IdgenEnded *entry)
{
	if (entry->uncommitted_ms > 0 || entry->begin_ms > 0)
		return PG_INT64_MAX;
	return idgen_ended_latest_ms(entry);
}

/*
 * The entry of a namespace of a database that lives or is about to be dropped: its
 * cursors may live on until the commit, and what they issued belongs here.  NULL if there
 * is none.  Caller holds the lock.
 */
IdgenEnded *
idgen_ended_find(Oid database, const char *namespace_name)
{
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &idgen_ended_state()->entries[i];

		if (entry->database == database &&
			strcmp(entry->namespace_name, namespace_name) == 0)
			return entry;
	}
	return NULL;
}

/*
 * The same, made if need be in place of the entry that is longest past; NULL
 * if there is no room.  Entries that are unused or past can be reused.  A
 * database gets one of them only while there are more of them than it has
 * other entries, so that none can use them all up for hours, however many
 * namespaces it has.  Caller holds the lock exclusively.
 */
IdgenEnded *
idgen_ended_make(Oid database, const char *namespace_name)
{
	IdgenEnded *entry = idgen_ended_find(database, namespace_name);
	IdgenEnded *oldest = &idgen_ended_state()->entries[0];
	int64		now_ms = idgen_clock_wall_ms();
	int			mine = 0;
	int			past = 0;

	if (entry != NULL)
		return entry;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		entry = &idgen_ended_state()->entries[i];
		if (idgen_ended_is_used(oldest) &&
			(!idgen_ended_is_used(entry) || needed_until_ms(entry) < needed_until_ms(oldest)))
			oldest = entry;
		if (needed_until_ms(entry) <= now_ms)
			past++;
		else if (entry->database == database)
			mine++;
	}
	if (mine >= past)
		return NULL;
	memset(oldest, 0, sizeof(*oldest));
	oldest->database = database;
	strlcpy(oldest->namespace_name, namespace_name, NAMEDATALEN);
	return oldest;
}

/*
 * The same for a caller that may fail: if there is no room, the lock is released and an
 * error raised.
 */
IdgenEnded *
idgen_ended_need(Oid database, const char *namespace_name)
{
	IdgenEnded *entry = idgen_ended_make(database, namespace_name);

	if (entry == NULL)
	{
		idgen_ended_unlock();
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not record how long namespace \"%s\" issues IDs", namespace_name),
				 errdetail("The server has room for %d namespaces, and all those in the share of this database have grants that have not ended.",
						   IDGEN_ENDED_MAX),
				 errhint("Retry after some of these grants have ended, or use shorter grants.")));
	}
	return entry;
}

/*
 * Raise the bound of an entry.  The bound is in the file once the file has the
 * version of the entry.  While DROP DATABASE waits, an authority process that
 * was started after it began may still grant: what that process grants goes
 * with the database as well.
 */
void
idgen_ended_raise_bound(IdgenEnded *entry, const char *database_name, int64 bound_ms)
{
	if (database_name != NULL)
		strlcpy(entry->database_name, database_name, NAMEDATALEN);
	entry->bound_ms = Max(entry->bound_ms, bound_ms);
	if (entry->dropping)
		entry->dropped_ms = Max(entry->dropped_ms, entry->bound_ms);
	entry->version = ++idgen_ended_state()->version;
}

/* --------------------------------------------------------------------
 * The area, and its file
 * -------------------------------------------------------------------- */

Size
idgen_ended_size(void)
{
	return sizeof(IdgenEndedState);
}

void
idgen_ended_init(void *memory, int tranche)
{
	idgen_shared->ended = memory;
	LWLockInitialize(&idgen_ended_state()->lock, tranche);
	LWLockInitialize(&idgen_ended_state()->file_lock, tranche);
	pg_atomic_init_u64(&idgen_ended_state()->settled, 1);
	pg_atomic_init_u32(&idgen_ended_state()->missed, 0);
}

/* Once in the life of shared memory, by the process that has initialised it. */
void
idgen_ended_load(void)
{
	(void) idgen_ended_file_read(idgen_ended_state()->entries, &idgen_ended_state()->file_number);
}

/*
 * What ended before this is not saved any more.  Measured by the clock that is believed:
 * one that was set forward must not make the server forget what has just ended.
 */
int64
idgen_ended_kept_since_ms(void)
{
	int64		earliest_ms = idgen_clock_judge_earliest_ms();

	return Max(earliest_ms - KEPT_MS, 0);
}

bool
idgen_ended_is_worth_saving(const IdgenEnded *entry, int64 since_ms)
{
	return idgen_ended_is_used(entry) &&
		Max(Max(entry->bound_ms, entry->dropped_ms),
			Max(entry->uncommitted_ms, entry->first_used_ms)) > since_ms;
}

/* Copy the entries that are worth saving, and note which version that is. */
static int
copy_entries(IdgenEnded *copies, uint64 *version)
{
	int64		since_ms = idgen_ended_kept_since_ms();
	int			count = 0;

	idgen_ended_lock(LW_SHARED);
	*version = idgen_ended_state()->version;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		if (!idgen_ended_is_worth_saving(&idgen_ended_state()->entries[i], since_ms))
			continue;
		copies[count] = idgen_ended_state()->entries[i];
		copies[count].first_used_ms = Max(copies[count].first_used_ms,
										  copies[count].uncommitted_ms);
		count++;
	}
	idgen_ended_unlock();
	return count;
}

/*
 * See that the file has all that was raised up to a version; raises an error
 * if it cannot be written.  A process that writes the file writes for all.
 * Called inside a transaction, which releases the lock and the file after an
 * error.
 */
void
idgen_ended_save_up_to(uint64 wanted)
{
	uint64		version;
	IdgenEnded *copies;
	int			count;

	if (!idgen_lock_within(&idgen_ended_state()->file_lock, LW_EXCLUSIVE, FILE_WITHIN_US))
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("could not write the file of dropped namespaces"),
				 errdetail("Another process has been writing it for one second."),
				 errhint("Retry. If the error persists, look for a stopped PostgreSQL process (state \"T\" in ps) and let it continue.")));
	if (idgen_ended_state()->saved_version < wanted)
	{
		copies = palloc(IDGEN_ENDED_MAX * sizeof(IdgenEnded));
		count = copy_entries(copies, &version);
		idgen_ended_file_write(copies, count, idgen_ended_state()->file_number + 1);
		idgen_ended_state()->file_number++;
		pfree(copies);
		idgen_ended_lock(LW_EXCLUSIVE);
		idgen_ended_state()->saved_version = version;
		idgen_ended_unlock();
	}
	LWLockRelease(&idgen_ended_state()->file_lock);
}

/* See that the file has all that was raised until now. */
void
idgen_ended_save(void)
{
	uint64		wanted;

	idgen_ended_lock(LW_SHARED);
	wanted = idgen_ended_state()->version;
	idgen_ended_unlock();
	idgen_ended_save_up_to(wanted);
}
