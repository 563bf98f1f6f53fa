/*
 * first_use.c
 *		Issue IDs in the transaction that has created the namespace.
 *
 * Until that transaction commits, the authority process cannot see the namespace, and
 * nobody else can.  So its own processes, parallel workers included, grant to themselves:
 * they decide as the authority process does (core/grant.c), and publish in cursors of the
 * shared pool, by which they find each other.  Nothing is written to the tables meanwhile.
 * That no ID is repeated rests on this:
 *
 *	- A worker has one cursor at a time.  A process that opens a cursor gives it up if it
 *	  finds another one of the same worker; see idgen_pool_may_keep.
 *	- A cursor begins after all that was issued under the name before: by a namespace that
 *	  was dropped, in this transaction or earlier, by one whose creation was rolled back, or
 *	  by a cursor of this namespace that has ended (idgen_dropped_begin).
 *	- Before the first ID, a bound of what will be issued is on disk (ended.c).  After a
 *	  crash, or if a prepared transaction is rolled back, a namespace created under the
 *	  same name begins after it.
 *	- Before the commit the cursors are killed, and the floor of the namespace is moved past
 *	  what they issued, in the same transaction.  That commit is flushed.  The authority
 *	  process sees the namespace and this floor together.  If it waits for standbys before
 *	  its first grant can be used, they have this commit as well.
 *
 * There is no grant in the tables for these IDs, so idgen_trace() finds none.
 */
#include "compat.h"

#include "session/first_use.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "catalog/dropped.h"
#include "catalog/namespace_rows.h"
#include "catalog/query.h"
#include "catalog/scan.h"
#include "clock.h"
#include "random.h"
#include "session/at_commit.h"
#include "settings.h"
#include "shmem/clock_judge.h"
#include "shmem/counters.h"
#include "shmem/ended.h"
#include "shmem/lock.h"
#include "shmem/pool.h"
#include "shmem/shmem.h"

/* How often to choose a worker, should others choose at the same time. */
#define WORKER_TRIES	16

/* A namespace that the transaction in progress has created. */
typedef struct IdgenFirstUse
{
	char		namespace_name[NAMEDATALEN];
	pg_uuid_t	uuid;
	int			nest_level;
	bool		finished;		/* the transaction is about to commit */
} IdgenFirstUse;

/*
 * The namespaces created by the transaction in progress.  The list is in
 * TopTransactionContext, and is reset when the transaction ends, like that of at_commit.c.
 * Parallel workers have none.
 */
static List *created = NIL;

/* --------------------------------------------------------------------
 * Granting
 * -------------------------------------------------------------------- */

/* A namespace has been created.  It begins after one that was dropped just before. */
void
idgen_first_use_begin(const char *namespace_name, const pg_uuid_t *uuid)
{
	int64		after_ms = idgen_at_commit_dropped_until(namespace_name);
	MemoryContext old;
	IdgenFirstUse *use;

	/* without shared memory no IDs are issued */
	if (idgen_shared == NULL)
		return;
	if (after_ms > 0)
		idgen_ended_begin_after(MyDatabaseId, namespace_name, after_ms);
	old = MemoryContextSwitchTo(TopTransactionContext);
	use = palloc0(sizeof(IdgenFirstUse));
	strlcpy(use->namespace_name, namespace_name, NAMEDATALEN);
	use->uuid = *uuid;
	use->nest_level = GetCurrentTransactionNestLevel();
	created = lappend(created, use);
	MemoryContextSwitchTo(old);
}

/* May this process still grant?  Only if the cursors will be killed at the end. */
static bool
may_grant(const IdgenSession *session)
{
	ListCell   *cell;

	if (IsParallelWorker())
		return true;
	foreach(cell, created)
	{
		const IdgenFirstUse *use = lfirst(cell);

		if (idgen_same_uuid(&use->uuid, &session->uuid))
			return !use->finished;
	}
	return false;
}

/*
 * Decide a grant that follows high_water.  False, with the error, if there can be none
 * now.
 */
static bool
decide(const IdgenSession *session, const IdgenClockView *clock, int64 high_water,
	   IdgenGrant *grant, IdgenError *error)
{
	const IdgenNamespaceRow *row = &session->ns->row;
	const IdgenLayout *layout = &row->layout;
	int64		retry_at;
	IdgenGrantFacts facts = {
		.now = idgen_layout_tick_at(layout, clock->wall_ms),
		.eligible = idgen_layout_tick_at(layout, clock->latest_ms),
		.high_water = high_water,
		.length = idgen_layout_ticks_ceil(layout, row->grant_interval_ms),
		.horizon = idgen_layout_ticks_ceil(layout, layout->horizon_ms)
	};

	switch (idgen_grant_decide(&facts, idgen_layout_tick_count(layout), grant, &retry_at))
	{
		case IDGEN_GRANT_OK:
			return true;
		case IDGEN_GRANT_BEYOND_HORIZON:
			idgen_error_set(error, IDGEN_ERROR_NOT_YET, NULL, NULL);
			(void) idgen_layout_unix_ms(layout, Max(retry_at, 0), &error->until_ms);
			return false;
		case IDGEN_GRANT_FIELD_EXHAUSTED:
			idgen_error_set(error, IDGEN_ERROR_EXHAUSTED, NULL, NULL);
			return false;
		case IDGEN_GRANT_BAD_REQUEST:
			break;
	}
	elog(ERROR, "idgen could not decide a grant");
}

/* Have the file bound what a grant lets be issued, before anybody can use the grant. */
static void
promise(const IdgenSession *session, const IdgenGrant *grant)
{
	const IdgenLayout *layout = &session->ns->row.layout;
	int64		end_ms;

	if (!idgen_layout_unix_ms(layout, grant->end, &end_ms))
		end_ms = IDGEN_UNIX_MS_MAX;
	idgen_ended_promise_uncommitted(MyDatabaseId, session->name, end_ms, layout->horizon_ms);
}

/*
 * Grant more to the cursors that the session knows and that have nothing left for now.
 * True if some got more.
 */
static bool
extend_cursors(const IdgenSession *session, const IdgenClockView *clock, IdgenError *error)
{
	int64		now = idgen_layout_tick_at(&session->ns->row.layout, clock->wall_ms);
	bool		granted = false;

	for (int i = 0; i < session->ref_count; i++)
	{
		const IdgenCursorRef *ref = &session->refs[i];
		int64		granted_end = (int64) pg_atomic_read_u64(&ref->slot->granted_end);
		IdgenGrant	grant;

		if (!decide(session, clock, granted_end, &grant, error))
			continue;
		promise(session, &grant);
		granted |= idgen_pool_publish(ref, &grant, now);
	}
	return granted;
}

static void
describe_cursor(const IdgenSession *session, int32 worker, IdgenSlotInfo *owner)
{
	const IdgenLayout *layout = &session->ns->row.layout;

	memset(owner, 0, sizeof(*owner));
	owner->database = MyDatabaseId;
	owner->namespace_uuid = session->uuid;
	strlcpy(owner->namespace_name, session->name, NAMEDATALEN);
	owner->worker = worker;
	owner->incarnation = idgen_random_number();
	owner->epoch_ms = layout->epoch_ms;
	owner->tick_ms = layout->tick_ms;
	owner->account = idgen_counters_account(session->stats);
	owner->owner = get_role_oid(session->ns->row.owner, true);
	owner->since_ms = idgen_clock_wall_ms();
	owner->uncommitted = true;
}

/* The workers that this authority may use. */
static IdgenWorkerRange
worker_range(const IdgenNamespace *ns)
{
	IdgenWorkerRange range = {
		.first = ns->row.first_worker,
		.last = ns->row.last_worker,
		.modulus = ns->authority.split_modulus,
		.remainder = ns->authority.split_remainder
	};

	return range;
}

/*
 * Others are opening cursors of this namespace just now, or have opened all that there may
 * be; soon they can be seen.
 */
static void
look_again_soon(const IdgenClockView *clock, IdgenError *error)
{
	idgen_error_set(error, IDGEN_ERROR_NO_WORKER, NULL, NULL);
	error->until_ms = clock->wall_ms + 1;
}

/*
 * Reserve a slot for a worker that has no cursor; -1, with the error, if there is none.
 */
static int
reserve(const IdgenSession *session, const IdgenClockView *clock, uint64 *generation,
		IdgenError *error)
{
	IdgenWorkerRange range = worker_range(session->ns);
	int64		busy[IDGEN_MAX_WORKERS_LIMIT];

	if (!idgen_pool_has_room_uncommitted())
	{
		idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE,
						"Half of all idgen cursors of this server are in use in transactions that have created namespaces and have not ended.",
						"Commit after fewer calls of idgen_create_namespace(), or raise \"idgen.max_cursors\", which needs a restart.");
		return -1;
	}
	for (int i = 0; i < WORKER_TRIES; i++)
	{
		int			count = idgen_pool_workers(MyDatabaseId, &session->uuid, busy,
											   lengthof(busy));
		int64		worker = idgen_worker_choose(&range, busy, count,
												 (uint64) idgen_random_number());
		IdgenSlotInfo owner;
		int			slot;

		if (worker < 0 || count >= idgen_max_workers_per_namespace)
			break;
		describe_cursor(session, (int32) worker, &owner);
		slot = idgen_pool_reserve(&owner, count == 0, generation);
		if (slot < 0)
		{
			idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE, IDGEN_DETAIL_POOL_FULL,
							IDGEN_HINT_POOL_FULL);
			return -1;
		}
		if (idgen_pool_may_keep(slot, &owner, idgen_max_workers_per_namespace))
			return slot;
		idgen_slot_unreserve(slot, *generation);
	}
	look_again_soon(clock, error);
	return -1;
}

/* Open a cursor with its first grant.  False, with the error, if that cannot be now. */
static bool
open_cursor(const IdgenSession *session, const IdgenClockView *clock, IdgenError *error)
{
	uint64		generation;
	int			slot = reserve(session, clock, &generation, error);
	volatile bool opened = false;
	IdgenGrant	grant;

	if (slot < 0)
		return false;
	PG_TRY();
	{
		/*
		 * after the reservation: the last cursor of this worker has ended
		 * before
		 */
		int64		begin = idgen_dropped_begin(&session->ns->row.layout, session->name,
												clock->latest_ms);

		if (decide(session, clock, begin, &grant, error))
		{
			promise(session, &grant);
			idgen_pool_activate(slot, generation, &grant);
			opened = true;
		}
	}
	PG_FINALLY();
	{
		if (!opened)
			idgen_slot_unreserve(slot, generation);
	}
	PG_END_TRY();
	return opened;
}

/*
 * Grant more to the cursors of a namespace that this transaction has created, or open one
 * if there is none or, with another_cursor, one more.  False if there is nothing new,
 * with the error that says why.
 */
bool
idgen_first_use_grant(IdgenSession *session, bool another_cursor, IdgenError *error)
{
	IdgenClockView clock;

	if (!may_grant(session))
		idgen_namespace_require_committed(session->ns);
	idgen_error_clear(error);
	idgen_clock_judge(&clock);
	if (clock.verdict == IDGEN_CLOCK_AHEAD)
	{
		idgen_clock_judge_set_error(&clock, error);
		return false;
	}
	session->pool_version = 0;
	idgen_session_list_cursors(session);
	if (session->ref_count > 0 && !another_cursor)
		return extend_cursors(session, &clock, error);
	return open_cursor(session, &clock, error);
}

/* --------------------------------------------------------------------
 * The end of the transaction
 * -------------------------------------------------------------------- */

/*
 * Kill the cursors of the namespaces created at this level or below.  This comes before
 * any of them is settled, because two may have had one name.
 */
static void
kill_cursors(int nest_level)
{
	ListCell   *cell;

	foreach(cell, created)
	{
		const IdgenFirstUse *use = lfirst(cell);

		if (use->nest_level >= nest_level)
			idgen_pool_kill(MyDatabaseId, &use->uuid);
	}
}

/*
 * The extension is being dropped, perhaps to be created again, with a namespace of the
 * same name that begins after this one.  Should that be rolled back, this one opens other
 * cursors.
 */
void
idgen_first_use_drop(void)
{
	kill_cursors(0);
}

/*
 * Move the floor past what was issued.  The namespace may be gone, with the extension.
 * Whatever the transaction was set to meanwhile, it has written before.
 */
static void
write_floor(const IdgenFirstUse *use, int64 until_ms)
{
	bool		read_only = XactReadOnly;
	IdgenNamespaceRow row;

	if (!idgen_tables_find() ||
		!idgen_scan_namespace(use->namespace_name, &row, IDGEN_DEADLINE_UNSET))
		return;
	XactReadOnly = false;
	PushActiveSnapshot(GetTransactionSnapshot());
	PG_TRY();
	{
		idgen_query_begin(use->namespace_name);
		idgen_namespace_rows_raise_floor(use->namespace_name,
										 idgen_dropped_tick(&row.layout, until_ms));
		idgen_namespace_rows_reset_sums(use->namespace_name);
		idgen_query_end();
	}
	PG_FINALLY();
	{
		XactReadOnly = read_only;
	}
	PG_END_TRY();
	PopActiveSnapshot();
}

/*
 * The transaction is about to commit, or to be prepared: no more IDs are issued in it.
 * Whatever can fail does so here.
 */
void
idgen_first_use_finish(void)
{
	ListCell   *cell;
	bool		issued = false;

	foreach(cell, created)
	{
		IdgenFirstUse *use = lfirst(cell);

		use->finished = true;
	}
	kill_cursors(0);
	foreach(cell, created)
	{
		const IdgenFirstUse *use = lfirst(cell);
		int64		until_ms;

		if (!idgen_ended_settle_uncommitted(MyDatabaseId, use->namespace_name, &until_ms))
			ereport(ERROR,
					(errcode(ERRCODE_IDGEN_UNAVAILABLE),
					 errmsg("could not find out until when namespace \"%s\" has issued IDs",
							use->namespace_name),
					 errdetail("The process that holds the lock seems to be stopped."),
					 errhint(IDGEN_HINT_STOPPED)));
		if (until_ms == 0)
			continue;
		write_floor(use, until_ms);
		issued = true;
	}
	if (!issued)
		return;

	/*
	 * otherwise the bound would stand after a restart, and hold up a
	 * namespace that lives
	 */
	idgen_ended_save();
	ForceSyncCommit();
}

/* Does another namespace of this name outlive the savepoint that is rolled back? */
static bool
name_lives(const char *namespace_name, int nest_level)
{
	ListCell   *cell;

	foreach(cell, created)
	{
		const IdgenFirstUse *use = lfirst(cell);

		if (use->nest_level < nest_level &&
			strcmp(use->namespace_name, namespace_name) == 0)
			return true;
	}
	return false;
}

/*
 * A savepoint or, at level 1, the transaction is rolled back, and with it the namespaces
 * created since.  This cannot fail: where the lock cannot be had, the bound in the file
 * stands.  So it does for a name under which an outer level may go on.
 */
void
idgen_first_use_roll_back(int nest_level)
{
	ListCell   *cell;

	kill_cursors(nest_level);
	foreach(cell, created)
	{
		const IdgenFirstUse *use = lfirst(cell);
		int64		until_ms;

		if (use->nest_level < nest_level)
			continue;
		if (!name_lives(use->namespace_name, nest_level))
			(void) idgen_ended_settle_uncommitted(MyDatabaseId, use->namespace_name, &until_ms);
		created = foreach_delete_current(created, cell);
	}
	if (nest_level == 1)
		created = NIL;
}

/* A savepoint is released: its namespaces are those of the transaction around it. */
void
idgen_first_use_hand_up(int nest_level)
{
	ListCell   *cell;

	foreach(cell, created)
	{
		IdgenFirstUse *use = lfirst(cell);

		use->nest_level = Min(use->nest_level, nest_level - 1);
	}
}

/* The transaction has ended. */
void
idgen_first_use_forget(void)
{
	created = NIL;
}
