/*
 * hooks.c
 *		Notice that a database or the extension is dropped.
 *
 * Cursors of what is dropped are killed when the drop commits, and not if it is
 * rolled back, be it by a savepoint.  The authority worker of a database about
 * to be dropped leaves at once: PostgreSQL calls the hook after it has checked
 * that the user may drop the database, and before it looks who is still
 * connected.
 */
#include "compat.h"

#include "hooks.h"

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "utils/memutils.h"

#include "mailbox.h"
#include "pool.h"
#include "shmem.h"

/* How long DROP DATABASE waits for the worker; it leaves within milliseconds. */
#define STOP_WITHIN_US	INT64_C(4000000)

/* A drop that has not committed yet. */
typedef struct IdgenPendingDrop
{
	Oid			database;
	bool		is_extension;
	int			nest_level;
} IdgenPendingDrop;

static List *pending_drops = NIL;	/* in TopTransactionContext */
static object_access_hook_type prev_object_access_hook = NULL;

static void
remember_drop(Oid database, bool is_extension)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	IdgenPendingDrop *drop = palloc(sizeof(IdgenPendingDrop));

	drop->database = database;
	drop->is_extension = is_extension;
	drop->nest_level = GetCurrentTransactionNestLevel();
	pending_drops = lappend(pending_drops, drop);
	MemoryContextSwitchTo(old);
}

static void
object_accessed(ObjectAccessType access, Oid class, Oid object, int sub_object,
				void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, class, object, sub_object, arg);

	if (access != OAT_DROP || idgen_shared == NULL)
		return;
	if (class == DatabaseRelationId)
	{
		remember_drop(object, false);
		idgen_mailbox_stop_worker(object, STOP_WITHIN_US);
	}
	else if (class == ExtensionRelationId &&
			 object == get_extension_oid("idgen", true))
		remember_drop(MyDatabaseId, true);
}

/* PREPARE TRANSACTION cannot carry the duty to kill cursors. */
static void
refuse_prepare(void)
{
	ListCell   *cell;

	foreach(cell, pending_drops)
		if (((IdgenPendingDrop *) lfirst(cell))->is_extension)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot PREPARE a transaction that has dropped extension \"idgen\"")));
}

static void
transaction_ended(XactEvent event, void *arg)
{
	ListCell   *cell;

	switch (event)
	{
		case XACT_EVENT_COMMIT:
			foreach(cell, pending_drops)
				idgen_pool_kill(((IdgenPendingDrop *) lfirst(cell))->database,
								NULL);
			pending_drops = NIL;
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			pending_drops = NIL;
			break;
		case XACT_EVENT_PRE_PREPARE:
			refuse_prepare();
			break;
		case XACT_EVENT_PRE_COMMIT:
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
			foreach(cell, pending_drops)
				if (((IdgenPendingDrop *) lfirst(cell))->nest_level >= level)
					pending_drops = foreach_delete_current(pending_drops, cell);
			break;
		case SUBXACT_EVENT_COMMIT_SUB:
			foreach(cell, pending_drops)
			{
				IdgenPendingDrop *drop = lfirst(cell);

				drop->nest_level = Min(drop->nest_level, level - 1);
			}
			break;
		case SUBXACT_EVENT_START_SUB:
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			break;
	}
}

/* Once, while the postmaster preloads the library. */
void
idgen_hooks_install(void)
{
	prev_object_access_hook = object_access_hook;
	object_access_hook = object_accessed;
	RegisterXactCallback(transaction_ended, NULL);
	RegisterSubXactCallback(subtransaction_ended, NULL);
}
