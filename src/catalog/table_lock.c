/*
 * table_lock.c
 *		Lock the authority's tables, and see that they are intact.
 *
 * Writers take RowExclusiveLock on all tables, in the order of IdgenTable, and
 * keep it until the transaction ends.  Readers take AccessShareLock on one
 * table.  A session waits for a lock until its deadline; the authority process
 * does not wait at all.
 */
#include "compat.h"

#include "catalog/table_lock.h"

#include "access/relation.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/pmsignal.h"

#include "catalog/integrity.h"
#include "catalog/tables.h"
#include "clock.h"
#include "shmem/lock.h"

/* How often a lock held by another session is tried again. */
#define LOCK_RETRY_US 1000

/* What came of locking a table for writing. */
typedef enum IdgenTableLockResult
{
	IDGEN_TABLE_LOCKED,			/* *damage tells how far it is intact */
	IDGEN_TABLE_GONE			/* dropped by whoever held the lock */
} IdgenTableLockResult;

/* For errors; a caller that knows only an incarnation passes NULL as the name. */
static int
errmsg_unavailable(const char *name)
{
	return name == NULL ? errmsg("the authority of the incarnation is unavailable") :
		errmsg("namespace \"%s\" is unavailable", name);
}

pg_noreturn static void
tables_damaged(const char *name, const IdgenDamage *damage)
{
	ereport(ERROR,
			(errcode(ERRCODE_IDGEN_UNAVAILABLE),
			 errmsg_unavailable(name),
			 errdetail_internal("%s", damage->detail),
			 errhint("%s", damage->hint)));
}

pg_noreturn static void
extension_gone(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot change namespace \"%s\": extension \"idgen\" has been dropped",
					name)));
}

/*
 * Lock a table, but wait no longer than until a deadline.  Somebody may be in the
 * middle of a long transaction with DROP EXTENSION.
 */
static void
lock_within_timeout(IdgenTable table, LOCKMODE mode, const char *name,
					IdgenDeadline deadline)
{
	while (!ConditionalLockRelationOid(idgen_tables_relid(table), mode))
	{
		int64		now_us = idgen_clock_monotonic_us();

		if (deadline == IDGEN_DEADLINE_UNSET)
			deadline = idgen_deadline_from(now_us);
		if (now_us >= deadline)
			ereport(ERROR,
					(errcode(ERRCODE_IDGEN_UNAVAILABLE),
					 errmsg_unavailable(name),
					 errdetail("Another session holds a lock on table \"%s\", as DROP EXTENSION does until its transaction ends.",
							   idgen_table_columns[table].table_name),
					 errhint("Retry. If the error persists, look in pg_locks for the session that holds the lock.")));
		CHECK_FOR_INTERRUPTS();

		/*
		 * leave if the postmaster has died: a new one waits for us, and a
		 * prepared transaction may keep its lock
		 */
		if (IsUnderPostmaster && !PostmasterIsAlive())
			proc_exit(1);
		idgen_lock_nap(LOCK_RETRY_US);
	}
}

/* See whether a table which is locked for writing is still there, and intact. */
static IdgenTableLockResult
check_locked(IdgenTable table, IdgenDamage *damage)
{
	Relation	relation = try_relation_open(idgen_tables_relid(table), NoLock);

	if (relation == NULL)
		return IDGEN_TABLE_GONE;
	(void) idgen_integrity_check(table, relation, damage);
	relation_close(relation, NoLock);
	return IDGEN_TABLE_LOCKED;
}

/*
 * By a session that is about to write a namespace: lock all tables, and raise an
 * error unless they are intact.  Guards that the authority process has yet to mend
 * are no obstacle: what this session writes is proved by checksums (namespace_rows.c).
 * The locks conflict with no other writer.  The session may have waited for a DROP
 * EXTENSION, and then the tables are gone.
 */
void
idgen_table_lock_all(const char *name)
{
	IdgenDamage damage;

	if (!idgen_tables_find())
		extension_gone(name);
	for (int i = 0; i < IDGEN_TABLE_COUNT; i++)
	{
		lock_within_timeout(i, RowExclusiveLock, name, IDGEN_DEADLINE_UNSET);
		if (check_locked(i, &damage) == IDGEN_TABLE_GONE)
			extension_gone(name);
		if (damage.integrity > IDGEN_INTEGRITY_MENDABLE)
			tables_damaged(name, &damage);
	}
}

/*
 * By the authority process: lock all tables without waiting, and see that they are
 * intact.  False with the cause in *error; its kind is UNDEFINED if the extension
 * is not there.
 */
bool
idgen_table_lock_all_now(IdgenError *error)
{
	char		why[IDGEN_ERROR_TEXT_MAX];
	IdgenDamage damage;

	if (!idgen_tables_find())
	{
		idgen_error_set(error, IDGEN_ERROR_UNDEFINED,
						"Extension \"idgen\" is not installed in this database.", NULL);
		return false;
	}
	for (int i = 0; i < IDGEN_TABLE_COUNT; i++)
	{
		if (!ConditionalLockRelationOid(idgen_tables_relid(i), RowExclusiveLock))
		{
			snprintf(why, sizeof(why), "Table \"%s\" is locked by another session.",
					 idgen_table_columns[i].table_name);
			idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE, why,
							"Retry. If the error persists, look in pg_locks for the session that holds a lock on the table.");
			return false;
		}
		if (check_locked(i, &damage) == IDGEN_TABLE_GONE)
		{
			idgen_error_set(error, IDGEN_ERROR_UNDEFINED,
							"Extension \"idgen\" was dropped.", NULL);
			return false;
		}
		if (damage.integrity != IDGEN_INTEGRITY_INTACT)
		{
			idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE, damage.detail, damage.hint);
			return false;
		}
	}
	return true;
}

/*
 * Open a table whose guards are to be mended, locked as ALTER TABLE locks it; NULL if
 * there is nothing to mend, or if the lock cannot be had at once.
 */
static Relation
open_mendable(IdgenTable table)
{
	Oid			relid = idgen_tables_relid(table);
	Relation	relation;
	bool		mendable;

	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return NULL;
	relation = try_relation_open(relid, NoLock);
	if (relation == NULL)
		return NULL;
	mendable = idgen_integrity_is_mendable(relation) &&
		ConditionalLockRelationOid(relid, ShareRowExclusiveLock);
	if (mendable && idgen_integrity_is_mendable(relation))
		return relation;
	relation_close(relation, NoLock);
	return NULL;
}

/*
 * By the authority process, in a transaction of its own: have guards fire always again
 * that DISABLE and ENABLE TRIGGER ALL have left firing for most sessions only, as
 * "pg_dump --data-only --disable-triggers" and fixtures do.  Waits for nothing.  Adds
 * the names of the tables to "mended".
 *
 * That only protects more.  What was done while the guards were off is another
 * question, which each namespace answers for itself when its marks are read
 * (idgen_mark_rows_load): the catalog rows of the guards have changed, so they are.
 */
void
idgen_table_mend_guards(StringInfo mended)
{
	if (!idgen_tables_find())
		return;
	for (int i = 0; i < IDGEN_TABLE_COUNT; i++)
	{
		Relation	relation = open_mendable(i);

		if (relation == NULL)
			continue;
		idgen_integrity_mend(relation);
		relation_close(relation, NoLock);
		appendStringInfo(mended, "%s\"%s\"", mended->len > 0 ? ", " : "",
						 idgen_table_columns[i].table_name);
	}
}

/* Has this transaction locked a table for writing, or more strongly? */
static bool
locked_for_writing(IdgenTable table)
{
	Relation	relation = RelationIdGetRelation(idgen_tables_relid(table));
	bool		locked;

	if (relation == NULL)
		return false;
	locked = CheckRelationLockedByMe(relation, RowExclusiveLock, true);
	RelationClose(relation);
	return locked;
}

/*
 * Take AccessShareLock on a table.  If it is refused, and this transaction has
 * locked the table for writing, that lock is enough: waiting for another would
 * queue behind a DROP EXTENSION that waits for our own lock, a deadlock.
 * Returns the lock taken.
 */
static LOCKMODE
lock_for_reading(IdgenTable table, const char *name, IdgenDeadline deadline)
{
	if (ConditionalLockRelationOid(idgen_tables_relid(table), AccessShareLock))
		return AccessShareLock;
	if (locked_for_writing(table))
		return NoLock;
	lock_within_timeout(table, AccessShareLock, name, deadline);
	return AccessShareLock;
}

/*
 * Lock and open a table for reading; NULL if it is gone.  After
 * idgen_tables_find.  Raises an error if a guard is off or the table is another one
 * than the script made, or if the lock cannot be had by the deadline.  *taken is the
 * lock to give back.
 */
Relation
idgen_table_lock_for_reading(IdgenTable table, const char *name, IdgenDeadline deadline,
							 LOCKMODE *taken)
{
	IdgenDamage damage;
	Relation	relation;

	*taken = lock_for_reading(table, name, deadline);
	relation = try_relation_open(idgen_tables_relid(table), NoLock);
	if (relation != NULL &&
		idgen_integrity_check(table, relation, &damage) == IDGEN_INTEGRITY_DAMAGED)
		tables_damaged(name, &damage);
	return relation;
}
