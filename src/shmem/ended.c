/*
 * ended.c
 *		Until when namespaces that are gone, or may go, issued IDs.
 *
 * A namespace that was never granted from begins after whatever was issued
 * under its name before.  After a drop of the extension or of the whole
 * database, no table tells until when that was.  So it is remembered here, by
 * the names of database and namespace.
 *
 * Two numbers are kept of each namespace.
 *
 * The bound is always at hand: it is raised, and flushed to a file (ended_file.c), before
 * what it bounds can happen.  For grants to external generators, and for grants that
 * cursors may issue from ahead of the clock, the bound is raised a horizon further each
 * time, and so at most once a horizon.  Everything else is bounded before the commit of a
 * drop: by the marks in the tables or, for DROP DATABASE, which cannot read them, by what
 * the cursors were granted.
 *
 * What was really issued is known after the commit, once the cursors have been
 * killed.  It takes the place of the bound in memory, so that whoever drops
 * and creates in a loop does not wait.  After a crash the bound stands; it
 * lies at most a horizon later.
 *
 * A namespace that is used in the transaction that creates it has a bound as well, before
 * its first ID.  Until that transaction ends, the bound counts only in the file: should
 * there be a crash, the namespace is gone, and the bound is what is known of it.
 *
 * Whatever can fail or wait happens before the commit.  A drop that is rolled back leaves
 * a bound that nobody asks for: the namespace lives, and was granted from.
 */
#include "compat.h"

#include "shmem/ended.h"

#include "commands/dbcommands.h"

#include "clock.h"
#include "error.h"
#include "shmem/clock_judge.h"
#include "shmem/ended_file.h"
#include "shmem/lock.h"
#include "shmem/shmem.h"

/* How long to try for the lock; and for the file, which takes a flush. */
#define WITHIN_US		INT64_C(100000)
#define FILE_WITHIN_US	INT64_C(1000000)

/*
 * What ended longer ago than this is not saved any more.  The clock may go back by less
 * than that, and still nothing is repeated.
 */
#define KEPT_MS			INT64_C(3600000)

static inline IdgenEndedState *
state(void)
{
	return idgen_shared->ended;
}

/* --------------------------------------------------------------------
 * Entries
 * -------------------------------------------------------------------- */

/* Raises an error if a stopped process holds the lock. */
static void
lock_entries(LWLockMode mode)
{
	if (!idgen_lock_within(&state()->lock, mode, WITHIN_US))
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("could not look up the last IDs of dropped namespaces"),
				 errdetail("The process that holds the lock seems to be stopped."),
				 errhint(IDGEN_HINT_STOPPED)));
}

static void
unlock_entries(void)
{
	LWLockRelease(&state()->lock);
}

static bool
is_used(const IdgenEnded *entry)
{
	return entry->namespace_name[0] != '\0';
}

/* The latest time that an entry says anything about. */
static int64
latest_ms(const IdgenEnded *entry)
{
	return Max(Max(Max(entry->issued_ms, entry->inherited_ms), entry->uncommitted_ms),
			   Max(entry->bound_ms, entry->dropped_ms));
}

/* Until when an entry is needed: an open transaction will ask until when it issued. */
static int64
needed_until_ms(const IdgenEnded *entry)
{
	if (entry->uncommitted_ms > 0 || entry->begin_ms > 0)
		return PG_INT64_MAX;
	return latest_ms(entry);
}

/*
 * The entry of a namespace of a database that lives or is about to be dropped: its
 * cursors may live on until the commit, and what they issued belongs here.  NULL if there
 * is none.  Caller holds the lock.
 */
static IdgenEnded *
find_entry(Oid database, const char *namespace_name)
{
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &state()->entries[i];

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
static IdgenEnded *
make_entry(Oid database, const char *namespace_name)
{
	IdgenEnded *entry = find_entry(database, namespace_name);
	IdgenEnded *oldest = &state()->entries[0];
	int64		now_ms = idgen_clock_wall_ms();
	int			mine = 0;
	int			past = 0;

	if (entry != NULL)
		return entry;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		entry = &state()->entries[i];
		if (is_used(oldest) &&
			(!is_used(entry) || needed_until_ms(entry) < needed_until_ms(oldest)))
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
static IdgenEnded *
need_entry(Oid database, const char *namespace_name)
{
	IdgenEnded *entry = make_entry(database, namespace_name);

	if (entry == NULL)
	{
		unlock_entries();
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
static void
raise_bound(IdgenEnded *entry, const char *database_name, int64 bound_ms)
{
	if (database_name != NULL)
		strlcpy(entry->database_name, database_name, NAMEDATALEN);
	entry->bound_ms = Max(entry->bound_ms, bound_ms);
	if (entry->dropping)
		entry->dropped_ms = Max(entry->dropped_ms, entry->bound_ms);
	entry->version = ++state()->version;
}

/*
 * Until when IDs were issued under the name of a namespace that is not committed: before
 * its transaction, or in it by cursors that have ended.
 */
static int64
issued_uncommitted(const IdgenEnded *entry)
{
	return Max(entry->dropped_ms, pg_atomic_read_u32(&state()->missed) == 0 ?
			   entry->issued_ms : entry->uncommitted_ms);
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
	LWLockInitialize(&state()->lock, tranche);
	LWLockInitialize(&state()->file_lock, tranche);
	pg_atomic_init_u32(&state()->missed, 0);
}

/* Once in the life of shared memory, by the process that has initialised it. */
void
idgen_ended_load(void)
{
	(void) idgen_ended_file_read(state()->entries, &state()->file_number);
}

/*
 * What ended before this is not saved any more.  Measured by the clock that is believed:
 * one that was set forward must not make the server forget what has just ended.
 */
static int64
kept_since_ms(void)
{
	int64		earliest_ms = idgen_clock_judge_earliest_ms();

	return Max(earliest_ms - KEPT_MS, 0);
}

static bool
is_worth_saving(const IdgenEnded *entry, int64 since_ms)
{
	return is_used(entry) &&
		Max(Max(entry->bound_ms, entry->dropped_ms), entry->uncommitted_ms) > since_ms;
}

/* Copy the entries that are worth saving, and note which version that is. */
static int
copy_entries(IdgenEnded *copies, uint64 *version)
{
	int64		since_ms = kept_since_ms();
	int			count = 0;

	lock_entries(LW_SHARED);
	*version = state()->version;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		if (!is_worth_saving(&state()->entries[i], since_ms))
			continue;
		copies[count] = state()->entries[i];
		copies[count].dropped_ms = Max(copies[count].dropped_ms,
									   copies[count].uncommitted_ms);
		count++;
	}
	unlock_entries();
	return count;
}

/*
 * See that the file has all that was raised up to a version; raises an error
 * if it cannot be written.  A process that writes the file writes for all.
 * Called inside a transaction, which releases the lock and the file after an
 * error.
 */
static void
save_up_to(uint64 wanted)
{
	uint64		version;
	IdgenEnded *copies;
	int			count;

	if (!idgen_lock_within(&state()->file_lock, LW_EXCLUSIVE, FILE_WITHIN_US))
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("could not write the file of dropped namespaces"),
				 errdetail("Another process has been writing it for one second."),
				 errhint("Retry. If the error persists, look for a stopped PostgreSQL process (state \"T\" in ps) and let it continue.")));
	if (state()->saved_version < wanted)
	{
		copies = palloc(IDGEN_ENDED_MAX * sizeof(IdgenEnded));
		count = copy_entries(copies, &version);
		idgen_ended_file_write(copies, count, state()->file_number + 1);
		state()->file_number++;
		pfree(copies);
		lock_entries(LW_EXCLUSIVE);
		state()->saved_version = version;
		unlock_entries();
	}
	LWLockRelease(&state()->file_lock);
}

/* See that the file has all that was raised until now. */
void
idgen_ended_save(void)
{
	uint64		wanted;

	lock_entries(LW_SHARED);
	wanted = state()->version;
	unlock_entries();
	save_up_to(wanted);
}

/* --------------------------------------------------------------------
 * While a namespace lives
 * -------------------------------------------------------------------- */

/*
 * A namespace is granted from for the first time since shared memory was initialised: all
 * that was granted before ends at granted_ms.  From now on it is known what its cursors
 * issue.
 */
void
idgen_ended_inherit(Oid database, const char *namespace_name, int64 granted_ms)
{
	IdgenEnded *entry;

	lock_entries(LW_EXCLUSIVE);
	entry = make_entry(database, namespace_name);
	if (entry != NULL && !entry->whole)
	{
		entry->inherited_ms = Max(entry->inherited_ms, granted_ms);
		entry->whole = true;
	}
	unlock_entries();
}

/*
 * A grant will let IDs be issued up to end_ms, by an external generator or
 * ahead of the clock, so that only the bound will know of them.  True if the
 * file must be saved before the grant is given to anybody.  Nothing up to
 * *bound_ms needs to be promised again.  The marks that have been committed to
 * the tables have come to reached_ms.
 */
bool
idgen_ended_promise(Oid database, const char *namespace_name,
					const pg_uuid_t *namespace_uuid, int64 reached_ms, int64 end_ms,
					int64 ahead_ms, bool external, int64 *bound_ms)
{
	char	   *database_name = get_database_name(database);
	IdgenEnded *entry;
	bool		unsaved;

	lock_entries(LW_EXCLUSIVE);
	entry = need_entry(database, namespace_name);
	entry->external |= external;
	if (end_ms > entry->bound_ms)
		raise_bound(entry, database_name, end_ms + ahead_ms);
	entry->namespace_uuid = *namespace_uuid;
	entry->reached_ms = reached_ms;
	*bound_ms = entry->bound_ms;
	unsaved = entry->version > state()->saved_version;
	unlock_entries();
	return unsaved;
}

/*
 * The marks of a namespace have come to reached_ms in the tables.  Had they
 * come further before?  Then the tables went back but the file did not: an
 * older copy of the data directory was copied over this one.  Nothing was
 * promised past *bound_ms.
 */
bool
idgen_ended_overtook(Oid database, const char *namespace_name,
					 const pg_uuid_t *namespace_uuid, int64 reached_ms,
					 int64 *bound_ms)
{
	IdgenEnded *entry;
	bool		overtook;

	lock_entries(LW_SHARED);
	entry = find_entry(database, namespace_name);
	overtook = entry != NULL && entry->reached_ms > reached_ms &&
		memcmp(&entry->namespace_uuid, namespace_uuid, sizeof(pg_uuid_t)) == 0;
	*bound_ms = overtook ? entry->bound_ms : 0;
	unlock_entries();
	return overtook;
}

/* --------------------------------------------------------------------
 * In the transaction that creates a namespace
 * -------------------------------------------------------------------- */

/*
 * A namespace is created in the transaction that has dropped another one of its name,
 * from which IDs up to after_ms were granted.  Until the commit nobody knows whether they
 * are issued.
 */
void
idgen_ended_begin_after(Oid database, const char *namespace_name, int64 after_ms)
{
	IdgenEnded *entry;

	lock_entries(LW_EXCLUSIVE);
	entry = need_entry(database, namespace_name);
	entry->begin_ms = Max(entry->begin_ms, after_ms);
	unlock_entries();
}

/*
 * A grant will let IDs be issued up to end_ms from a namespace that is not committed.
 * When this returns, the file says so.  The bound is raised by ahead_ms more, so
 * that it need not be raised for each grant.
 */
void
idgen_ended_promise_uncommitted(Oid database, const char *namespace_name, int64 end_ms,
								int64 ahead_ms)
{
	char	   *database_name = get_database_name(database);
	IdgenEnded *entry;
	uint64		wanted;
	bool		unsaved;

	lock_entries(LW_EXCLUSIVE);
	entry = need_entry(database, namespace_name);
	if (end_ms > entry->uncommitted_ms)
	{
		entry->uncommitted_ms = end_ms + ahead_ms;
		raise_bound(entry, database_name, 0);
	}
	wanted = entry->version;
	unsaved = wanted > state()->saved_version;
	unlock_entries();
	if (unsaved)
		save_up_to(wanted);
}

/*
 * The transaction that created a namespace ends, and the cursors have been killed: what
 * they issued takes the place of the bound, unless the end of one could not be noted.
 * *until_ms is what holds now, 0 if nothing was issued.  False if the lock cannot be had;
 * then the bound stands.
 */
bool
idgen_ended_settle_uncommitted(Oid database, const char *namespace_name, int64 *until_ms)
{
	IdgenEnded *entry;

	*until_ms = 0;
	if (!idgen_lock_within(&state()->lock, LW_EXCLUSIVE, WITHIN_US))
		return false;
	entry = find_entry(database, namespace_name);
	if (entry != NULL && entry->uncommitted_ms > 0)
	{
		*until_ms = issued_uncommitted(entry);
		entry->dropped_ms = *until_ms;
		entry->uncommitted_ms = 0;
		entry->version = ++state()->version;
	}
	if (entry != NULL)
		entry->begin_ms = 0;
	unlock_entries();
	return true;
}

/* --------------------------------------------------------------------
 * Ends
 * -------------------------------------------------------------------- */

/*
 * Until when has a namespace of this database issued IDs, if all its cursors have ended?
 * False if that is not known; grants to external generators are not counted.
 */
bool
idgen_ended_issued_until(Oid database, const char *namespace_name, int64 *until_ms)
{
	const IdgenEnded *entry;
	bool		known;

	if (!idgen_lock_within(&state()->lock, LW_SHARED, WITHIN_US))
		return false;
	entry = find_entry(database, namespace_name);
	known = entry != NULL && entry->whole && pg_atomic_read_u32(&state()->missed) == 0;
	if (known)
		*until_ms = Max(entry->issued_ms, entry->inherited_ms);
	unlock_entries();
	return known;
}

/*
 * A cursor that issued until issued_ms was killed.  This is called at commit,
 * too, so it cannot fail: if a stopped process holds the lock, the bounds
 * stand.  If the lock cannot be had within *patience_us, that is used up, and
 * the next calls try for the lock without sleeping.
 */
void
idgen_ended_note(Oid database, const char *namespace_name, int64 issued_ms,
				 int64 *patience_us)
{
	IdgenEnded *entry;

	if (!idgen_lock_within(&state()->lock, LW_EXCLUSIVE, *patience_us))
	{
		*patience_us = 0;
		pg_atomic_write_u32(&state()->missed, 1);
		return;
	}
	entry = make_entry(database, namespace_name);
	if (entry != NULL)
		entry->issued_ms = Max(entry->issued_ms, issued_ms);
	unlock_entries();
}

/* A living cursor was granted up to granted_ms, and its namespace will be dropped. */
void
idgen_ended_bound_cursor(Oid database, const char *namespace_name, int64 granted_ms)
{
	lock_entries(LW_EXCLUSIVE);
	raise_bound(need_entry(database, namespace_name), NULL, granted_ms);
	unlock_entries();
}

/*
 * The extension, or its whole database, will be dropped if the transaction commits.  When
 * this returns, the bounds of all that is remembered of it are in the file; marks are what
 * the tables say.  What ended too long ago to be saved needs no file, so that a database
 * that has long been idle can be dropped to make room on a full disk.
 */
void
idgen_ended_begin_drop(Oid database, bool whole_database,
					   const IdgenEndedMarks *marks, int count)
{
	char	   *database_name = get_database_name(database);
	int64		since_ms = kept_since_ms();
	uint64		wanted = 0;

	lock_entries(LW_EXCLUSIVE);
	for (int i = 0; i < count; i++)
		if (marks[i].granted_ms > 0)
			raise_bound(need_entry(database, marks[i].namespace_name), NULL,
						marks[i].granted_ms);
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &state()->entries[i];

		if (!is_used(entry) || entry->database != database)
			continue;
		raise_bound(entry, database_name, latest_ms(entry));
		entry->dropping = true;
		entry->undo_ms = entry->dropped_ms;
		entry->dropped_ms = entry->bound_ms;
		entry->gone = whole_database;
		if (is_worth_saving(entry, since_ms))
			wanted = entry->version;
	}
	unlock_entries();
	if (wanted > 0)
		save_up_to(wanted);
}

/* What the tables said of a namespace; NULL if nothing. */
static const IdgenEndedMarks *
find_marks(const IdgenEndedMarks *marks, int count, const char *namespace_name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(marks[i].namespace_name, namespace_name) == 0)
			return &marks[i];
	return NULL;
}

/*
 * The namespace is gone, and its cursors have been killed.  Now it is known
 * until when IDs were issued, and that replaces the bound.  The bound stands
 * if the namespace was not granted from since shared memory was initialised,
 * if the end of some cursor could not be noted, or if external generators have
 * grants and no table says until when.
 */
static void
settle(IdgenEnded *entry, const IdgenEndedMarks *marks)
{
	bool		known = entry->whole && pg_atomic_read_u32(&state()->missed) == 0 &&
		(marks != NULL ? marks->told : !entry->external);

	if (known)
	{
		int64		issued_ms = Max(entry->issued_ms, entry->inherited_ms);

		if (marks != NULL)
			issued_ms = Max(issued_ms, marks->told_ms);
		entry->dropped_ms = Max(issued_ms, entry->undo_ms);
		entry->bound_ms = entry->dropped_ms;
		entry->inherited_ms = issued_ms;
		entry->external = false;
	}
	entry->dropped_ms = Max(entry->dropped_ms, entry->issued_ms);
	entry->dropping = false;
	state()->version++;
}

/* Keep one entry for all databases of one name that are gone. */
static void
merge_gone(IdgenEnded *entry)
{
	entry->database = InvalidOid;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *other = &state()->entries[i];

		if (other == entry || !is_used(other) || !other->gone ||
			OidIsValid(other->database) ||
			strcmp(other->database_name, entry->database_name) != 0 ||
			strcmp(other->namespace_name, entry->namespace_name) != 0)
			continue;
		other->issued_ms = Max(other->issued_ms, entry->issued_ms);
		other->bound_ms = Max(other->bound_ms, entry->bound_ms);
		other->dropped_ms = Max(other->dropped_ms, entry->dropped_ms);
		memset(entry, 0, sizeof(*entry));
		return;
	}
}

/*
 * The drop has committed, and the cursors have been killed.  This cannot fail: where the
 * lock cannot be had, the bounds stand.  The file keeps them until it is written the next
 * time.
 *
 * While DROP DATABASE waited for others to leave, one of them may have dropped the
 * extension and settled what this drop had begun, or an authority process may have
 * promised more: all that is known of the database goes with it.
 */
void
idgen_ended_committed(Oid database, bool whole_database,
					  const IdgenEndedMarks *marks, int count)
{
	if (!idgen_lock_within(&state()->lock, LW_EXCLUSIVE, WITHIN_US))
		return;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &state()->entries[i];

		if (!is_used(entry) || entry->database != database)
			continue;
		if (entry->dropping)
			settle(entry, find_marks(marks, count, entry->namespace_name));
		else if (whole_database)
			entry->dropped_ms = latest_ms(entry);
		entry->gone = whole_database;
		if (whole_database)
			merge_gone(entry);
	}
	unlock_entries();
}

/*
 * The drop was rolled back.  Bounds that were raised for it stay; nobody asks for them
 * while the namespace lives.
 */
void
idgen_ended_aborted(Oid database)
{
	if (!idgen_lock_within(&state()->lock, LW_EXCLUSIVE, WITHIN_US))
		return;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &state()->entries[i];

		if (!is_used(entry) || entry->database != database || !entry->dropping)
			continue;
		entry->dropped_ms = entry->undo_ms;
		entry->gone = false;
		entry->dropping = false;
	}
	unlock_entries();
}

/* --------------------------------------------------------------------
 * Where a new namespace begins
 * -------------------------------------------------------------------- */

/*
 * Until when a dropped namespace issued IDs: by anybody, if "all" is set and
 * that time lies within the limit; otherwise by its cursors, if that time
 * does; otherwise 0.
 */
static int64
within(const IdgenEnded *entry, int64 limit_ms, bool all)
{
	int64		issued_ms = Min(entry->issued_ms, entry->dropped_ms);

	if (all && entry->dropped_ms <= limit_ms)
		return entry->dropped_ms;
	return issued_ms <= limit_ms ? issued_ms : 0;
}

/*
 * Was this noted of another database, which had the name that ours has now?
 * No two databases have one name at a time, so the other one is gone, or was
 * renamed.  This holds even if its drop did not take the entry along: a grant
 * may be promised while the authority process is asked to leave, and a crash
 * may come between the commit and what is noted of it.
 */
static bool
had_our_name(const IdgenEnded *entry, Oid database, const char *database_name)
{
	return !entry->gone && entry->database != database &&
		strcmp(entry->database_name, database_name) == 0;
}

/*
 * The Unix ms until which a namespace of this name issued IDs before it was
 * dropped; 0 if there was none.  What went with its database counts for a
 * database of the same name, and what its cursors issued counts for every
 * database.  What was noted of another database is ignored if it is later than
 * limit_ms: it came from a wrong clock, and would block new namespaces for
 * years.
 */
int64
idgen_ended_dropped_until(Oid database, const char *database_name,
						  const char *namespace_name, int64 limit_ms)
{
	int64		until_ms = 0;

	lock_entries(LW_SHARED);
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		const IdgenEnded *entry = &state()->entries[i];

		if (strcmp(entry->namespace_name, namespace_name) != 0)
			continue;
		if (had_our_name(entry, database, database_name))
		{
			if (latest_ms(entry) <= limit_ms)
				until_ms = Max(until_ms, latest_ms(entry));
		}
		else if (entry->gone)
			until_ms = Max(until_ms,
						   within(entry, limit_ms,
								  strcmp(entry->database_name, database_name) == 0));
		else if (entry->database == database)
			until_ms = Max(Max(until_ms, entry->begin_ms), entry->uncommitted_ms > 0 ?
						   issued_uncommitted(entry) : entry->dropped_ms);
	}
	unlock_entries();
	return until_ms;
}

/*
 * The latest Unix ms, limit_ms at most, until which any namespace that has been dropped
 * issued IDs, whatever its database and name; 0 if there is none.
 */
int64
idgen_ended_dropped_anywhere(int64 limit_ms)
{
	int64		until_ms = 0;

	lock_entries(LW_SHARED);
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		const IdgenEnded *entry = &state()->entries[i];

		if (is_used(entry) && entry->dropped_ms > 0)
			until_ms = Max(until_ms, within(entry, limit_ms, true));
	}
	unlock_entries();
	return until_ms;
}
