/*
 * policy_lock.c
 *		Lock the durability and the promotion policy of a namespace.
 *
 * The authority process holds the lock of a namespace in share mode from before it
 * reads the policy until it has given its answers, or holds them back for
 * confirmation.  A session that changes the durability or the promotion policy takes
 * the lock exclusively, and keeps it until its transaction ends.  So no answer is
 * judged by a policy that is no longer in force, however long the authority process is
 * held up in between (S4).
 *
 * The lock is a heavyweight lock whose tag is made up of the OID of the table
 * of namespaces and a hash of the name; no such object exists.  Namespaces
 * whose names have the same hash wait for each other, which does no harm.  No
 * command of PostgreSQL takes this lock.  Unlike a lock on the row it writes
 * no WAL, so that a round which grants nothing commits nothing.
 *
 * Other changes (run_ahead, grant_interval, privileges, the owner) do not take the
 * lock: an answer decided before such a change is as good as one given before it, and a
 * transaction that has made such a change may go on to issue IDs.
 *
 * PostgreSQL releases session locks when a transaction is rolled back.  So where one
 * namespace after the other is served, each is answered before the next one may fail
 * (round.c).
 *
 * Order: a session locks the row of the namespace before it takes this lock.  The
 * authority process waits for neither.
 */
#include "compat.h"

#include "catalog/policy_lock.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/guc.h"
#include "utils/inval.h"

#include "catalog/namespace_rows.h"
#include "catalog/tables.h"
#include "clock.h"

/* The lock of a namespace.  After idgen_tables_find. */
static LOCKTAG
tag_of(const char *name)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId,
					   idgen_tables_relid(IDGEN_TABLE_NAMESPACE),
					   hash_bytes((const unsigned char *) name, (int) strlen(name)),
					   0);
	return tag;
}

/*
 * Lock a name, which is no namespace yet, until the transaction ends.  When a transaction
 * is rolled back, others could create a namespace of the name before the cursors of its own
 * one have been killed; the lock is released after that.
 */
void
idgen_policy_lock_name(const char *name)
{
	LOCKTAG		tag;

	/* no class: the tables may have just been created, too */
	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, InvalidOid,
					   hash_bytes((const unsigned char *) name, (int) strlen(name)), 0);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

/*
 * By the authority process: keep the policy of a namespace as it is until
 * idgen_policy_let_go, beyond the end of the transaction.  Does not wait:
 * false with the error if a session is changing the policy.  If it is true,
 * the caller reads the policy afterwards, as it was last committed.
 */
bool
idgen_policy_hold(const char *name, IdgenError *error)
{
	LOCKTAG		tag = tag_of(name);

	if (LockAcquire(&tag, ShareLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
	{
		idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE,
						"A transaction that changes its durability or its promotion policy is still in progress.",
						"Retry when that transaction has ended; pg_locks shows it with locktype \"object\".");
		return false;
	}
	AcceptInvalidationMessages();
	return true;
}

/*
 * Let go of all policies, when all answers are given.  The authority process holds no
 * other lock between transactions.
 */
void
idgen_policy_let_go(void)
{
	LockReleaseSession(DEFAULT_LOCKMETHOD);
}

/*
 * Take one of the two locks that a session waits for.  What lock_row returns
 * is explained at idgen_policy_lock_row; lock_policy always returns true.
 */
static bool
lock_row(const char *name)
{
	return idgen_namespace_rows_lock_policy(name);
}

static bool
lock_policy(const char *name)
{
	LOCKTAG		tag = tag_of(name);

	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	return true;
}

/* Take a lock, but wait no longer than within_ms. */
static bool
take_within(bool (*take) (const char *name), const char *name, int64 within_ms)
{
	int			save_nestlevel = NewGUCNestLevel();
	char		timeout[32];
	bool		result;

	if (LockTimeout > 0)
		within_ms = Min(within_ms, LockTimeout);
	snprintf(timeout, sizeof(timeout), INT64_FORMAT, Max(within_ms, 1));
	(void) set_config_option("lock_timeout", timeout, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	result = take(name);
	AtEOXact_GUC(false, save_nestlevel);
	return result;
}

/*
 * Take a lock, or raise an error when a monotonic time is reached.  The error
 * says what may hold the lock: the authority process may be stopped, or
 * another session may be at work.
 */
static bool
take_or_fail(bool (*take) (const char *name), const char *name, IdgenDeadline deadline)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool result = false;

	PG_TRY();
	{
		result = take_within(take, name,
							 (deadline - idgen_clock_monotonic_us()) / 1000);
	}
	PG_CATCH();
	{
		ErrorData  *error;
		int			code;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		code = error->sqlerrcode;
		FreeErrorData(error);
		if (code != ERRCODE_LOCK_NOT_AVAILABLE)
			PG_RE_THROW();
		FlushErrorState();
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("could not change the policy of namespace \"%s\"", name),
				 errdetail("Another session is changing it, or the authority process is giving an answer that depends on it."),
				 errhint("Retry. If the error persists, look in pg_locks for the process that holds the lock, and check whether it is stopped.")));
	}
	PG_END_TRY();
	return result;
}

/*
 * By a session that is about to change the policy of a namespace: lock its row against
 * other sessions that change it.  True if this transaction has created or changed the
 * namespace.
 */
bool
idgen_policy_lock_row(const char *name, IdgenDeadline deadline)
{
	return take_or_fail(lock_row, name, deadline);
}

/*
 * By a session that is about to change the durability or the promotion policy: from
 * here to the end of its transaction the authority judges no answer by either.
 */
void
idgen_policy_begin_change(const char *name, IdgenDeadline deadline)
{
	(void) take_or_fail(lock_policy, name, deadline);
}
