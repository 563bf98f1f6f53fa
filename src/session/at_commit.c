/*
 * at_commit.c
 *		Notice that a database or the extension is dropped.
 *
 * Cursors of what is dropped, restored or given another policy are killed when
 * that transaction commits, and not if it is rolled back, be it by a savepoint.
 * Until when they may have issued is on disk before that: ended.c.
 * The authority worker of a database about to be dropped leaves at once:
 * PostgreSQL calls the hook after it has checked that the user may drop the
 * database, and before it looks who is still connected.
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

#include "clock.h"
#include "shmem/ended.h"
#include "shmem/authorities.h"
#include "shmem/pool.h"
#include "shmem/shmem.h"
#include "shmem/counters.h"
#include "catalog/dropped.h"
#include "catalog/tables.h"

/* How long DROP DATABASE waits for the worker; it leaves within milliseconds. */
#define STOP_WITHIN_US	INT64_C(4000000)

/* Why the cursors of a database end when the transaction commits. */
typedef enum IdgenCause
{
	IDGEN_CAUSE_CHANGED,		/* marks were restored, or a policy changed */
	IDGEN_CAUSE_EXTENSION_DROPPED,
	IDGEN_CAUSE_DATABASE_DROPPED
} IdgenCause;

typedef struct IdgenPending
{
	IdgenCause	cause;
	char		namespace_name[NAMEDATALEN];	/* empty = all */
	Oid			database;
	int			nest_level;
	IdgenDroppedTables tables;	/* of an extension */
	bool		begun;			/* its end has been written down */
} IdgenPending;

static List *pending = NIL;		/* in TopTransactionContext */
static object_access_hook_type prev_object_access_hook = NULL;

static IdgenPending *
remember(IdgenCause cause, Oid database, const char *namespace_name)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	IdgenPending *entry = palloc0(sizeof(IdgenPending));

	entry->cause = cause;
	strlcpy(entry->namespace_name, namespace_name, NAMEDATALEN);
	entry->database = database;
	entry->nest_level = GetCurrentTransactionNestLevel();
	pending = lappend(pending, entry);
	MemoryContextSwitchTo(old);
	return entry;
}

/*
 * The extension cannot go before the last grant of an external generator has
 * ended: created anew, it would not know what was granted, and perhaps issued
 * ahead of the clock, be it by one that has given its grant back.
 */
static void
refuse_while_granted(int64 external_ms)
{
	int64		left_ms = external_ms - idgen_clock_wall_ms();

	if (left_ms > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot drop extension \"idgen\" while external generators hold grants"),
				 errdetail("The last of their grants ends in " INT64_FORMAT ".%03d seconds.",
						   left_ms / 1000, (int) (left_ms % 1000)),
				 errhint("Retry then. A generator may have issued all of its grant already, so giving it back ends nothing.")));
}

/*
 * Write down until when what is dropped may have issued IDs, durably.  All that
 * can fail does so here, before the commit.
 */
static void
write_down(IdgenPending *entry)
{
	entry->begun = true;
	idgen_pool_bound(entry->database);
	idgen_ended_begin_drop(entry->database,
						   entry->cause == IDGEN_CAUSE_DATABASE_DROPPED,
						   entry->tables.marks, entry->tables.mark_count);
}

/*
 * A standby that has not received the drop of a namespace with durability "quorum"
 * would go on with it when it is promoted, under "trust" at once, while the namespace
 * made anew here may confirm nothing to it.  So this commit waits until the standbys
 * have the drop, before anybody sees it, whatever synchronous_commit says.
 */
static void
wait_for_standbys(const IdgenPending *entry)
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
		if (((IdgenPending *) lfirst(cell))->cause == IDGEN_CAUSE_EXTENSION_DROPPED)
			return true;
	return false;
}

/*
 * The extension is being dropped.  Its tables go before it does, so the first of
 * them is the moment to look into them.
 */
static void
extension_dropped(bool by_table)
{
	IdgenDroppedTables tables = {0};

	if (drop_begun())
		return;
	if (by_table)
	{
		MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

		idgen_dropped_read(&tables);
		MemoryContextSwitchTo(old);
		refuse_while_granted(tables.external_ms);
	}
	remember(IDGEN_CAUSE_EXTENSION_DROPPED, MyDatabaseId, "")->tables = tables;
}

/*
 * A database is being dropped.  Its files go before the transaction commits, so
 * what its cursors may have issued is written down now.
 */
static void
database_dropped(Oid database)
{
	IdgenPending *entry = remember(IDGEN_CAUSE_DATABASE_DROPPED, database, "");

	idgen_authorities_stop(database, STOP_WITHIN_US);
	write_down(entry);
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
		extension_dropped(true);
	else if (class == ExtensionRelationId &&
			 object == get_extension_oid("idgen", true))
		extension_dropped(false);
}

/*
 * Is a change of a namespace remembered, so that no savepoint which is rolled back
 * before this one takes it away?  One that restores a million marks in a transaction
 * is one change.
 */
static bool
is_pending_change(const char *namespace_name)
{
	/* rows of one namespace mostly come one after the other */
	for (int i = list_length(pending) - 1; i >= 0; i--)
	{
		const IdgenPending *entry = list_nth(pending, i);

		if (entry->cause == IDGEN_CAUSE_CHANGED &&
			entry->nest_level <= GetCurrentTransactionNestLevel() &&
			strcmp(entry->namespace_name, namespace_name) == 0)
			return true;
	}
	return false;
}

/*
 * Marks or the policy of a namespace were changed: none of its cursors goes on.
 * Sessions find them gone and look their namespace up again, also in the middle
 * of a transaction that processes no invalidations.
 */
void
idgen_at_commit_kill(const char *namespace_name)
{
	if (idgen_shared != NULL && !is_pending_change(namespace_name))
		(void) remember(IDGEN_CAUSE_CHANGED, MyDatabaseId, namespace_name);
}

/* PREPARE TRANSACTION cannot carry the duty to kill cursors. */
static void
refuse_prepare(void)
{
	ListCell   *cell;

	foreach(cell, pending)
		if (((IdgenPending *) lfirst(cell))->cause != IDGEN_CAUSE_DATABASE_DROPPED)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that has dropped extension \"idgen\" or changed its tables")));
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
		IdgenPending *entry = lfirst(cell);

		idgen_pool_kill_at_commit(entry->database, entry->namespace_name, &patience);
		if (entry->cause == IDGEN_CAUSE_CHANGED)
			continue;
		idgen_ended_committed(entry->database,
							  entry->cause == IDGEN_CAUSE_DATABASE_DROPPED,
							  entry->tables.marks, entry->tables.mark_count);
		idgen_counters_forget(entry->database);
	}
}

/* The transaction is about to commit. */
static void
write_down_pending(void)
{
	ListCell   *cell;

	foreach(cell, pending)
	{
		IdgenPending *entry = lfirst(cell);

		if (entry->cause != IDGEN_CAUSE_EXTENSION_DROPPED)
			continue;
		write_down(entry);
		wait_for_standbys(entry);
	}
}

/* It was rolled back. */
static void
forget_pending(void)
{
	ListCell   *cell;

	foreach(cell, pending)
	{
		IdgenPending *entry = lfirst(cell);

		if (entry->begun)
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
			pending = NIL;
			break;
		case XACT_EVENT_ABORT:
			forget_pending();
			pending = NIL;
			break;
		case XACT_EVENT_PREPARE:
			pending = NIL;
			break;
		case XACT_EVENT_PRE_PREPARE:
			refuse_prepare();
			break;
		case XACT_EVENT_PRE_COMMIT:
			write_down_pending();
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
			foreach(cell, pending)
				if (((IdgenPending *) lfirst(cell))->nest_level >= level)
					pending = foreach_delete_current(pending, cell);
			break;
		case SUBXACT_EVENT_COMMIT_SUB:
			foreach(cell, pending)
			{
				IdgenPending *entry = lfirst(cell);

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
