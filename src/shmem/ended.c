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
 * When it ends, what was issued takes the place of the bound, in the file as well if it
 * commits.
 *
 * Whatever can fail or wait happens before the commit.  A drop that is rolled back leaves
 * a bound that nobody asks for: the namespace lives, and was granted from.  But what was
 * issued meanwhile from another one, created under its name, it passes
 * (idgen_ended_first_used_until).
 */
#include "compat.h"

#include "shmem/ended.h"

#include "commands/dbcommands.h"

#include "shmem/ended_entries.h"
#include "shmem/lock.h"

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

	idgen_ended_lock(LW_EXCLUSIVE);
	entry = idgen_ended_make(database, namespace_name);
	if (entry != NULL && !entry->whole)
	{
		entry->inherited_ms = Max(entry->inherited_ms, granted_ms);
		entry->whole = true;
	}
	idgen_ended_unlock();
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

	idgen_ended_lock(LW_EXCLUSIVE);
	entry = idgen_ended_need(database, namespace_name);
	entry->external |= external;
	if (end_ms > entry->bound_ms)
		idgen_ended_raise_bound(entry, database_name, end_ms + ahead_ms);
	entry->namespace_uuid = *namespace_uuid;
	entry->reached_ms = reached_ms;
	*bound_ms = entry->bound_ms;
	unsaved = entry->version > idgen_ended_state()->saved_version;
	idgen_ended_unlock();
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

	idgen_ended_lock(LW_SHARED);
	entry = idgen_ended_find(database, namespace_name);
	overtook = entry != NULL && entry->reached_ms > reached_ms &&
		memcmp(&entry->namespace_uuid, namespace_uuid, sizeof(pg_uuid_t)) == 0;
	*bound_ms = overtook ? entry->bound_ms : 0;
	idgen_ended_unlock();
	return overtook;
}

/* --------------------------------------------------------------------
 * In the transaction that creates a namespace
 * -------------------------------------------------------------------- */

/*
 * Until when IDs were issued under the name of a namespace that is not committed: before
 * its transaction, or in it by cursors that have ended.
 */
static int64
issued_uncommitted(const IdgenEnded *entry)
{
	return Max(Max(entry->dropped_ms, entry->first_used_ms),
			   pg_atomic_read_u32(&idgen_ended_state()->missed) == 0 ?
			   entry->issued_ms : entry->uncommitted_ms);
}

/*
 * A namespace is created in the transaction that has dropped another one of its name,
 * from which IDs up to after_ms were granted.  Until the commit nobody knows whether they
 * are issued.
 */
void
idgen_ended_begin_after(Oid database, const char *namespace_name, int64 after_ms)
{
	IdgenEnded *entry;

	idgen_ended_lock(LW_EXCLUSIVE);
	entry = idgen_ended_need(database, namespace_name);
	entry->begin_ms = Max(entry->begin_ms, after_ms);
	idgen_ended_unlock();
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

	idgen_ended_lock(LW_EXCLUSIVE);
	entry = idgen_ended_need(database, namespace_name);
	if (end_ms > entry->uncommitted_ms)
	{
		entry->uncommitted_ms = end_ms + ahead_ms;
		idgen_ended_raise_bound(entry, database_name, 0);
	}
	wanted = entry->version;
	unsaved = wanted > idgen_ended_state()->saved_version;
	idgen_ended_unlock();
	if (unsaved)
		idgen_ended_save_up_to(wanted);
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
	if (!idgen_lock_within(&idgen_ended_state()->lock, LW_EXCLUSIVE, IDGEN_ENDED_WITHIN_US))
		return false;
	entry = idgen_ended_find(database, namespace_name);
	if (entry != NULL && entry->uncommitted_ms > 0)
	{
		*until_ms = issued_uncommitted(entry);
		entry->first_used_ms = *until_ms;
		entry->uncommitted_ms = 0;
		entry->version = ++idgen_ended_state()->version;
		pg_atomic_fetch_add_u64(&idgen_ended_state()->settled, 1);
	}
	if (entry != NULL)
		entry->begin_ms = 0;
	idgen_ended_unlock();
	return true;
}

/*
 * A namespace that was dropped lives again if the drop is rolled back.  Until when were
 * IDs issued meanwhile, from one that was created under its name?  This need not be asked
 * again before idgen_ended_settled() has moved.
 */
int64
idgen_ended_first_used_until(Oid database, const char *namespace_name)
{
	const IdgenEnded *entry;
	int64		until_ms = 0;

	idgen_ended_lock(LW_SHARED);
	entry = idgen_ended_find(database, namespace_name);
	if (entry != NULL)
		until_ms = Max(entry->first_used_ms, entry->uncommitted_ms);
	idgen_ended_unlock();
	return until_ms;
}

uint64
idgen_ended_settled(void)
{
	return pg_atomic_read_u64(&idgen_ended_state()->settled);
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

	if (!idgen_lock_within(&idgen_ended_state()->lock, LW_SHARED, IDGEN_ENDED_WITHIN_US))
		return false;
	entry = idgen_ended_find(database, namespace_name);
	known = entry != NULL && entry->whole && pg_atomic_read_u32(&idgen_ended_state()->missed) == 0;
	if (known)
		*until_ms = Max(entry->issued_ms, entry->inherited_ms);
	idgen_ended_unlock();
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

	if (!idgen_lock_within(&idgen_ended_state()->lock, LW_EXCLUSIVE, *patience_us))
	{
		*patience_us = 0;
		pg_atomic_write_u32(&idgen_ended_state()->missed, 1);
		return;
	}
	entry = idgen_ended_make(database, namespace_name);
	if (entry != NULL)
		entry->issued_ms = Max(entry->issued_ms, issued_ms);
	idgen_ended_unlock();
}

/* A living cursor was granted up to granted_ms, and its namespace will be dropped. */
void
idgen_ended_bound_cursor(Oid database, const char *namespace_name, int64 granted_ms)
{
	idgen_ended_lock(LW_EXCLUSIVE);
	idgen_ended_raise_bound(idgen_ended_need(database, namespace_name), NULL, granted_ms);
	idgen_ended_unlock();
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
	int64		since_ms = idgen_ended_kept_since_ms();
	uint64		wanted = 0;

	idgen_ended_lock(LW_EXCLUSIVE);
	for (int i = 0; i < count; i++)
		if (marks[i].granted_ms > 0)
			idgen_ended_raise_bound(idgen_ended_need(database, marks[i].namespace_name), NULL,
									marks[i].granted_ms);
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &idgen_ended_state()->entries[i];

		if (!idgen_ended_is_used(entry) || entry->database != database)
			continue;
		idgen_ended_raise_bound(entry, database_name, idgen_ended_latest_ms(entry));
		entry->dropping = true;
		entry->undo_ms = entry->dropped_ms;
		entry->dropped_ms = entry->bound_ms;
		entry->gone = whole_database;
		if (idgen_ended_is_worth_saving(entry, since_ms))
			wanted = entry->version;
	}
	idgen_ended_unlock();
	if (wanted > 0)
		idgen_ended_save_up_to(wanted);
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
	bool		known = entry->whole && pg_atomic_read_u32(&idgen_ended_state()->missed) == 0 &&
		(marks != NULL ? marks->told : !entry->external);

	if (known)
	{
		int64		issued_ms = Max(Max(entry->issued_ms, entry->inherited_ms),
									entry->first_used_ms);

		if (marks != NULL)
			issued_ms = Max(issued_ms, marks->told_ms);
		entry->dropped_ms = Max(issued_ms, entry->undo_ms);
		entry->bound_ms = entry->dropped_ms;
		entry->inherited_ms = issued_ms;
		entry->external = false;
	}
	entry->dropped_ms = Max(entry->dropped_ms, entry->issued_ms);
	entry->dropping = false;
	idgen_ended_state()->version++;
}

/* Keep one entry for all databases of one name that are gone. */
static void
merge_gone(IdgenEnded *entry)
{
	entry->database = InvalidOid;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *other = &idgen_ended_state()->entries[i];

		if (other == entry || !idgen_ended_is_used(other) || !other->gone ||
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
	if (!idgen_lock_within(&idgen_ended_state()->lock, LW_EXCLUSIVE, IDGEN_ENDED_WITHIN_US))
		return;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &idgen_ended_state()->entries[i];

		if (!idgen_ended_is_used(entry) || entry->database != database)
			continue;
		if (entry->dropping)
			settle(entry, find_marks(marks, count, entry->namespace_name));
		else if (whole_database)
			entry->dropped_ms = idgen_ended_latest_ms(entry);
		entry->gone = whole_database;
		if (whole_database)
			merge_gone(entry);
	}
	idgen_ended_unlock();
}

/*
 * The drop was rolled back.  Bounds that were raised for it stay; nobody asks for them
 * while the namespace lives.
 */
void
idgen_ended_aborted(Oid database)
{
	if (!idgen_lock_within(&idgen_ended_state()->lock, LW_EXCLUSIVE, IDGEN_ENDED_WITHIN_US))
		return;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &idgen_ended_state()->entries[i];

		if (!idgen_ended_is_used(entry) || entry->database != database || !entry->dropping)
			continue;
		entry->dropped_ms = entry->undo_ms;
		entry->gone = false;
		entry->dropping = false;
	}
	idgen_ended_unlock();
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

	idgen_ended_lock(LW_SHARED);
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		const IdgenEnded *entry = &idgen_ended_state()->entries[i];

		if (strcmp(entry->namespace_name, namespace_name) != 0)
			continue;
		if (had_our_name(entry, database, database_name))
		{
			if (idgen_ended_latest_ms(entry) <= limit_ms)
				until_ms = Max(until_ms, idgen_ended_latest_ms(entry));
		}
		else if (entry->gone)
			until_ms = Max(until_ms,
						   within(entry, limit_ms,
								  strcmp(entry->database_name, database_name) == 0));
		else if (entry->database == database)
			until_ms = Max(Max(until_ms, entry->begin_ms), entry->uncommitted_ms > 0 ?
						   issued_uncommitted(entry) :
						   Max(entry->dropped_ms, entry->first_used_ms));
	}
	idgen_ended_unlock();
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

	idgen_ended_lock(LW_SHARED);
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		const IdgenEnded *entry = &idgen_ended_state()->entries[i];

		if (idgen_ended_is_used(entry) && entry->dropped_ms > 0)
			until_ms = Max(until_ms, within(entry, limit_ms, true));
	}
	idgen_ended_unlock();
	return until_ms;
}
