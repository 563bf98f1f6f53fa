/*
 * at_commit.c
 *		Kill the cursors that must not issue once a transaction has committed.
 *
 * Such a transaction drops a database or the extension, restores marks,
 * changes the policy of a namespace, or takes a privilege on it away.  If it
 * is rolled back, even only to a savepoint, the cursors go on.  Before a drop
 * commits, it is on disk until when the dropped cursors may have issued IDs
 * (ended.c).
 *
 * The authority process of a database leaves as soon as the database is about to be
 * dropped.  PostgreSQL calls the hook after it has checked that the user may drop the
 * database, and before it looks for processes that are still connected.
 */
#include "compat.h"

#include "session/at_commit.h"

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "catalog/dropped.h"
#include "catalog/tables.h"
#include "clock.h"
#include "error.h"
#include "session/first_use.h"
#include "shmem/authorities.h"
#include "shmem/counters.h"
#include "shmem/ended.h"
#include "shmem/pool.h"
#include "shmem/shmem.h"

/*
 * How long DROP DATABASE waits for the authority process, which leaves within
 * milliseconds.
 */
#define STOP_WITHIN_US	INT64_C(4000000)

/* Why cursors are killed when the transaction commits. */
typedef enum IdgenKillCause
{
	IDGEN_KILL_CHANGED,			/* marks were restored, or a policy or
								 * privileges changed */
	IDGEN_KILL_EXTENSION_DROPPED,
	IDGEN_KILL_DATABASE_DROPPED
} IdgenKillCause;

/* Cursors to be killed at commit. */
typedef struct IdgenPendingKill
{
	IdgenKillCause cause;
	char		namespace_name[NAMEDATALEN];	/* empty = all of the database */
	Oid			database;
	int			nest_level;
	IdgenDroppedTables tables;	/* of an extension that is dropped */
	bool		recorded;		/* the end of its cursors has been recorded */
} IdgenPendingKill;

/*
 * The kills that are pending in the transaction in progress, a list like
 * PostgreSQL's pendingDeletes.  It is in TopTransactionContext;
 * transaction_ended resets it, however the transaction ends.
 */
static List *pending = NIL;
static object_access_hook_type prev_object_access_hook = NULL;

static IdgenPendingKill *
add_pending(IdgenKillCause cause, Oid database, const char *namespace_name)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	IdgenPendingKill *entry = palloc0(sizeof(IdgenPendingKill));

	entry->cause = cause;
	strlcpy(entry->namespace_name, namespace_name, NAMEDATALEN);
	entry->database = database;
	entry->nest_level = GetCurrentTransactionNestLevel();
	pending = lappend(pending, entry);
	MemoryContextSwitchTo(old);
	return entry;
}

/* --------------------------------------------------------------------
 * DROP EXTENSION and DROP DATABASE
 * -------------------------------------------------------------------- */

/*
 * The extension cannot be dropped before the last grant of an external
 * generator has ended.  If it were created again, it would not know of that
 * grant.  The generator may have issued IDs from it ahead of the clock, even
 * if it has deactivated since.
 */
static void
check_external_grants(int64 external_ms)
{
	int64		left_ms = external_ms - idgen_clock_wall_ms();

	if (left_ms > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot drop extension \"idgen\" while external generators hold grants"),
				 errdetail("The last of their grants ends in " IDGEN_SECONDS_FORMAT " seconds.",
						   IDGEN_SECONDS_ARGS(left_ms)),
				 errhint("Retry after that time. Deactivating the generators does not help, because they may have issued all IDs of their grants already.")));
}

/*
 * Record durably until when the cursors of what is dropped may have issued IDs.
 * Everything that can fail does so here, before the commit.
 */
static void
record_end(IdgenPendingKill *entry)
{
	entry->recorded = true;
	idgen_pool_bound(entry->database);
	idgen_ended_begin_drop(entry->database,
						   entry->cause == IDGEN_KILL_DATABASE_DROPPED,
						   entry->tables.marks, entry->tables.mark_count);
}

/*
 * A standby may be promoted without having received the drop of a namespace
 * with durability "quorum".  It would go on with that namespace, under "trust"
 * at once.  Meanwhile a namespace created here under the same name may issue
 * without confirmation by that standby.  So, whatever synchronous_commit says,
 * this commit waits until the standbys have received it, before anybody sees
 * the drop.
 */
static void
wait_for_standbys(const IdgenPendingKill *entry)
{
	if (entry->tables.is_quorum && synchronous_commit < SYNCHRONOUS_COMMIT_REMOTE_FLUSH)
		(void) set_config_option("synchronous_commit", "on", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
}

/* Has this transaction begun to drop the extension? */
static bool
drop_begun(void)
{
	ListCell   *cell;

	foreach(cell, pending)
	{
		if (((IdgenPendingKill *) lfirst(cell))->cause == IDGEN_KILL_EXTENSION_DROPPED)
			return true;
	}
	return false;
}

/*
 * The extension is being dropped.  Its tables are dropped before the extension
 * itself, so they are read when the first of them, "table", goes.
 */
static void
extension_dropped(Oid table)
{
	IdgenDroppedTables tables = {0};

	idgen_first_use_drop();
	if (drop_begun())
		return;
	if (OidIsValid(table))
	{
		MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

		idgen_dropped_read(table, &tables);
		MemoryContextSwitchTo(old);
		check_external_grants(tables.external_ms);
	}
	add_pending(IDGEN_KILL_EXTENSION_DROPPED, MyDatabaseId, "")->tables = tables;
}

/*
 * A database is being dropped.  Its files go before the transaction commits, so the
 * end of its cursors is recorded now.
 */
static void
database_dropped(Oid database)
{
	IdgenPendingKill *entry = add_pending(IDGEN_KILL_DATABASE_DROPPED, database, "");

	idgen_authorities_stop(database, STOP_WITHIN_US);
	record_end(entry);
}

static void
object_accessed(ObjectAccessType access, Oid class, Oid object, int sub_object,
				void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, class, object, sub_object, arg);

	if (access != OAT_DROP || idgen_shared == NULL || sub_object != 0)
		return;
	if (class == DatabaseRelationId)
		database_dropped(object);
	else if (class == RelationRelationId && idgen_tables_ours(object))
		extension_dropped(object);
	else if (class == ExtensionRelationId &&
			 object == get_extension_oid("idgen", true))
		extension_dropped(InvalidOid);
}

/* --------------------------------------------------------------------
 * Restored marks and changed policies
 * -------------------------------------------------------------------- */

/*
 * Is a kill for a change of the namespace pending already, at this savepoint or one
 * around it?  A transaction that restores a million marks needs only one.
 */
static bool
is_pending_change(const char *namespace_name)
{
	/* from the end: the rows of a namespace mostly come one after the other */
	for (int i = list_length(pending) - 1; i >= 0; i--)
	{
		const IdgenPendingKill *entry = list_nth(pending, i);

		if (entry->cause == IDGEN_KILL_CHANGED &&
			entry->nest_level <= GetCurrentTransactionNestLevel() &&
			strcmp(entry->namespace_name, namespace_name) == 0)
			return true;
	}
	return false;
}

/*
 * Marks, policy or privileges of a namespace were changed: kill its cursors at
 * commit.  Sessions then find the cursors gone and look the namespace up
 * again, even in the middle of a transaction that processes no invalidations.
 */
void
idgen_at_commit_kill(const char *namespace_name)
{
	if (idgen_shared != NULL && !is_pending_change(namespace_name))
		(void) add_pending(IDGEN_KILL_CHANGED, MyDatabaseId, namespace_name);
}

/*
 * The Unix ms until which a namespace was granted that this transaction has dropped with
 * the extension; 0 if it has dropped none of that name.  The authority process grants
 * nothing more of it.
 */
int64
idgen_at_commit_dropped_until(const char *namespace_name)
{
	int64		until_ms = 0;
	ListCell   *cell;

	foreach(cell, pending)
	{
		const IdgenDroppedTables *tables = &((IdgenPendingKill *) lfirst(cell))->tables;

		for (int i = 0; i < tables->mark_count; i++)
			if (strcmp(tables->marks[i].namespace_name, namespace_name) == 0)
				until_ms = Max(until_ms, tables->marks[i].granted_ms);
	}
	return until_ms;
}

/* --------------------------------------------------------------------
 * The end of the transaction
 * -------------------------------------------------------------------- */

/* A prepared transaction cannot kill cursors when it is committed. */
static void
refuse_prepare(void)
{
	ListCell   *cell;

	foreach(cell, pending)
	{
		if (((IdgenPendingKill *) lfirst(cell))->cause != IDGEN_KILL_DATABASE_DROPPED)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that has dropped extension \"idgen\" or changed its tables")));
	}
}

/* The transaction has committed. */
static void
kill_pending(void)
{
	IdgenPatience patience;
	ListCell   *cell;

	idgen_patience_begin(&patience);
	foreach(cell, pending)
	{
		IdgenPendingKill *entry = lfirst(cell);

		idgen_pool_kill_at_commit(entry->database, entry->namespace_name, &patience);
		if (entry->cause == IDGEN_KILL_CHANGED)
			continue;
		idgen_ended_committed(entry->database,
							  entry->cause == IDGEN_KILL_DATABASE_DROPPED,
							  entry->tables.marks, entry->tables.mark_count);
		idgen_counters_forget(entry->database);
	}
}

/* The transaction is about to commit. */
static void
record_pending_ends(void)
{
	ListCell   *cell;

	foreach(cell, pending)
	{
		IdgenPendingKill *entry = lfirst(cell);

		if (entry->cause != IDGEN_KILL_EXTENSION_DROPPED)
			continue;
		record_end(entry);
		wait_for_standbys(entry);
	}
}

/* The transaction was rolled back: withdraw the ends that it recorded. */
static void
withdraw_pending_ends(void)
{
	ListCell   *cell;

	foreach(cell, pending)
	{
		IdgenPendingKill *entry = lfirst(cell);

		if (entry->recorded)
			idgen_ended_aborted(entry->database);
	}
}

static void
transaction_ended(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			kill_pending();
			idgen_first_use_forget();
			pending = NIL;
			break;
		case XACT_EVENT_ABORT:
			idgen_first_use_roll_back(1);
			withdraw_pending_ends();
			pending = NIL;
			break;
		case XACT_EVENT_PREPARE:
			idgen_first_use_forget();
			pending = NIL;
			break;
		case XACT_EVENT_PRE_PREPARE:
			refuse_prepare();
			idgen_first_use_finish();
			break;
		case XACT_EVENT_PRE_COMMIT:
			idgen_first_use_finish();
			record_pending_ends();
			break;
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			break;
	}
}

static void
subtransaction_ended(SubXactEvent event, SubTransactionId mine,
					 SubTransactionId parent, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	ListCell   *cell;

	switch (event)
	{
		case SUBXACT_EVENT_ABORT_SUB:
			idgen_first_use_roll_back(level);
			foreach(cell, pending)
			{
				if (((IdgenPendingKill *) lfirst(cell))->nest_level >= level)
					pending = foreach_delete_current(pending, cell);
			}
			break;
		case SUBXACT_EVENT_COMMIT_SUB:
			idgen_first_use_hand_up(level);
			foreach(cell, pending)
			{
				IdgenPendingKill *entry = lfirst(cell);

				entry->nest_level = Min(entry->nest_level, level - 1);
			}
			break;
		case SUBXACT_EVENT_START_SUB:
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			break;
	}
}

/* Once, while the postmaster preloads the library. */
void
idgen_at_commit_install(void)
{
	prev_object_access_hook = object_access_hook;
	object_access_hook = object_accessed;
	RegisterXactCallback(transaction_ended, NULL);
	RegisterSubXactCallback(subtransaction_ended, NULL);
}
