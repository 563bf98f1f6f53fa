/*
 * authorities.c
 *		Find, start, wake and stop the authority process of a database.
 *
 * An authority process reports for duty when it has connected, and signs off
 * before it exits.  One that was killed cannot sign off, so a process counts
 * as alive only if the operating system still knows it.
 */
#include "compat.h"

#include "shmem/authorities.h"

#include <errno.h>
#include <signal.h>

#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/procarray.h"

#include "background.h"
#include "clock.h"
#include "shmem/lock.h"
#include "shmem/shmem.h"

/*
 * An authority process that was asked for and has not reported for duty after
 * this long is asked for again: the session that asked may have died, or no
 * background worker slot was free.
 */
#define START_RETRY_US	INT64_C(100000)

/*
 * Each failed attempt quadruples the pause, at most this many times.
 */
#define START_BACKOFF_MAX	3

/*
 * An authority process serves at least this long before it has to make room
 * for that of another database; a database waits this long for the room it
 * asked for.
 */
#define TERM_US			INT64_C(500000)
#define ROOM_US			INT64_C(1000000)

/*
 * Each database in use needs a background worker.  If there are more databases
 * in use than background workers, they take turns.
 */
#define DATABASES_PER_PROCESS 4

static int
database_count(void)
{
	return DATABASES_PER_PROCESS * Max(max_worker_processes, 1);
}

Size
idgen_authorities_size(void)
{
	return add_size(offsetof(IdgenAuthorities, databases),
					mul_size(database_count(), sizeof(IdgenDatabase)));
}

void
idgen_authorities_init(void *memory, int tranche)
{
	idgen_shared->authorities = memory;
	idgen_shared->authorities->count = database_count();
}

/* Does the database have an authority process?  Caller holds the lock. */
static bool
authority_lives(const IdgenDatabase *entry)
{
	return entry->authority_pid != 0 &&
		(kill(entry->authority_pid, 0) == 0 || errno != ESRCH);
}

/* The entry of a database; NULL if it has none.  Caller holds the lock. */
static IdgenDatabase *
find_database(Oid database)
{
	for (int i = 0; i < idgen_shared->authorities->count; i++)
		if (idgen_shared->authorities->databases[i].database == database)
			return &idgen_shared->authorities->databases[i];
	return NULL;
}

/*
 * Find or make the entry of a database.  NULL if every entry belongs to
 * another database whose process lives, or was asked for just now.  Caller
 * holds the lock.
 */
static IdgenDatabase *
find_or_make_database(Oid database)
{
	IdgenDatabase *entry = find_database(database);
	int64		now_us = idgen_clock_monotonic_us();

	for (int i = 0; entry == NULL && i < idgen_shared->authorities->count; i++)
	{
		IdgenDatabase *candidate = &idgen_shared->authorities->databases[i];

		if (OidIsValid(candidate->database) &&
			(authority_lives(candidate) ||
			 now_us - candidate->started_at_us < 10 * START_RETRY_US))
			continue;
		memset(candidate, 0, sizeof(*candidate));
		candidate->database = database;
		entry = candidate;
	}
	return entry;
}

/*
 * How long a process that was asked for has to report for duty before another
 * is asked for.  The time grows with each attempt, because a process that
 * cannot connect, for example while DROP DATABASE waits for others to leave,
 * takes a background worker slot all the same.
 */
static int64
start_pause_us(const IdgenDatabase *entry)
{
	return START_RETRY_US << (2 * Min(Max(entry->starts - 1, 0), START_BACKOFF_MAX));
}

/*
 * No background worker slot is free: ask the authority process of another
 * database to make room, the one whose database was used longest ago.  Thus
 * every database is served in time, however many there are, and nobody can
 * keep others out by keeping some databases busy.  Caller holds the lock.
 */
static void
ask_for_room(IdgenDatabase *mine, int64 now_us)
{
	IdgenDatabase *idlest = NULL;

	if (now_us - mine->room_asked_at_us < ROOM_US)
		return;
	for (int i = 0; i < idgen_shared->authorities->count; i++)
	{
		IdgenDatabase *entry = &idgen_shared->authorities->databases[i];

		if (!OidIsValid(entry->database) || entry == mine || entry->yield_wanted ||
			!authority_lives(entry) || now_us - entry->entered_at_us < TERM_US)
			continue;
		if (idlest == NULL || entry->used_at_us < idlest->used_at_us)
			idlest = entry;
	}
	if (idlest == NULL)
		return;
	idlest->yield_wanted = true;
	mine->room_asked_at_us = now_us;
	SetLatch(idlest->authority_latch);
}

/*
 * Wake the authority process of this database, or start one if there is none.
 */
void
idgen_authorities_rouse(void)
{
	IdgenDatabase *entry;
	int64		now_us = idgen_clock_monotonic_us();
	bool		start = false;
	bool		started;

	idgen_lock_directory();
	entry = find_or_make_database(MyDatabaseId);
	if (entry != NULL)
		entry->used_at_us = now_us;
	if (entry != NULL && authority_lives(entry))
		SetLatch(entry->authority_latch);
	else if (entry != NULL && now_us - entry->started_at_us >= start_pause_us(entry))
	{
		entry->started_at_us = now_us;
		entry->starts++;
		start = true;
	}
	idgen_unlock_directory();
	if (!start)
		return;

	started = idgen_background_start(MyDatabaseId);
	idgen_lock_directory();
	entry = find_database(MyDatabaseId);
	if (entry != NULL)
	{
		entry->start_failed = !started;
		if (!started)
		{
			entry->starts = 0;	/* it takes no slot */
			ask_for_room(entry, idgen_clock_monotonic_us());
		}
	}
	idgen_unlock_directory();
}

/*
 * Say why no authority process has answered a request yet, if none could be
 * started or it is still starting.
 */
void
idgen_authorities_explain(IdgenError *error)
{
	IdgenDatabase *entry;
	bool		missing;
	bool		starting;

	idgen_lock_directory();
	entry = find_database(MyDatabaseId);
	missing = entry == NULL || (!authority_lives(entry) && entry->start_failed);
	starting = entry != NULL && (!authority_lives(entry) || entry->rounds_begun < 2);
	idgen_unlock_directory();
	if (missing)
		idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE,
						"No background worker slot is free for the authority process, and no other database gave one up in time.",
						"Raise \"max_worker_processes\" and restart the server. If only a few databases are in use at a time, a lower \"idgen.idle_timeout\" frees the slots of the others sooner.");
	else if (starting)
		idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE,
						"The authority process is being started, by this call or another one. That takes about ten milliseconds on a machine that is not busy.",
						"Retry. If the error persists, look in the server log for the reason why the process ends.");
}

/* Is a process still connected to a database, as PostgreSQL counts? */
static bool
connected(pid_t pid, Oid database)
{
	PGPROC	   *proc = pid == 0 ? NULL : BackendPidGetProc(pid);

	return proc != NULL && proc->databaseId == database;
}

/*
 * Ask the authority process of a database that is about to be dropped to
 * leave, and wait until it has left.  Signing off is not enough: DROP DATABASE
 * ... WITH (FORCE) by an ordinary owner fails if the process is still found
 * connected.  A process that was started just now is waited for as well, since
 * it connects before it reports for duty.  PostgreSQL has checked that the
 * user may drop the database.
 */
void
idgen_authorities_stop(Oid database, int64 within_us)
{
	int64		now_us = idgen_clock_monotonic_us();
	int64		until_us = now_us + within_us;

	for (; now_us < until_us; now_us = idgen_clock_monotonic_us())
	{
		IdgenDatabase *entry;
		pid_t		left_pid = 0;
		bool		expected = false;

		idgen_lock_directory();
		entry = find_database(database);
		if (entry != NULL && authority_lives(entry))
		{
			expected = true;
			entry->stop_wanted = true;
			SetLatch(entry->authority_latch);
		}
		else if (entry != NULL)
		{
			expected = now_us - entry->started_at_us < START_RETRY_US &&
				!entry->start_failed;
			left_pid = entry->left_pid;
		}
		idgen_unlock_directory();
		if (!expected && !connected(left_pid, database))
			break;
		idgen_lock_nap(1000);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * This process reports for duty.  False if the database has an authority
 * process already, or no entry can be had: then it must exit at once, without
 * signing off.
 */
bool
idgen_authorities_enter(void)
{
	IdgenDatabase *entry;
	bool		entered = false;

	idgen_lock_directory();
	entry = find_or_make_database(MyDatabaseId);
	if (entry != NULL && !authority_lives(entry))
	{
		entry->authority_pid = MyProcPid;
		entry->authority_latch = MyLatch;
		entry->stop_wanted = false;
		entry->yield_wanted = false;
		entry->entered_at_us = idgen_clock_monotonic_us();
		entry->start_failed = false;
		entry->starts = 0;
		entry->rounds_begun = 0;
		entry->rounds = 0;
		entry->grants = 0;
		entry->last_round_ms = 0;
		entry->authority_started_ms = idgen_clock_wall_ms();
		entered = true;
	}
	idgen_unlock_directory();
	return entered;
}

/* This process is no longer the authority process.  Caller holds the lock. */
void
idgen_authorities_sign_off(void)
{
	IdgenDatabase *entry = find_database(MyDatabaseId);

	if (entry == NULL || entry->authority_pid != MyProcPid)
		return;
	memset(entry, 0, sizeof(*entry));
	entry->database = MyDatabaseId;
	entry->left_pid = MyProcPid;
}

/* Is this process in the way of DROP DATABASE? */
bool
idgen_authorities_stop_wanted(void)
{
	IdgenDatabase *entry;
	bool		wanted;

	idgen_lock_directory();
	entry = find_database(MyDatabaseId);
	wanted = entry != NULL && entry->stop_wanted;
	idgen_unlock_directory();
	return wanted;
}

/* Does another database need the slot of this process? */
bool
idgen_authorities_yield_wanted(void)
{
	IdgenDatabase *entry;
	bool		wanted;

	idgen_lock_directory();
	entry = find_database(MyDatabaseId);
	wanted = entry != NULL && entry->yield_wanted;
	idgen_unlock_directory();
	return wanted;
}

/*
 * A round begins.  The database was in use at this monotonic time, and perhaps
 * later.
 */
void
idgen_authorities_begin_round(int64 used_at_us)
{
	IdgenDatabase *entry;

	idgen_lock_directory();
	entry = find_database(MyDatabaseId);
	if (entry != NULL)
	{
		entry->rounds_begun++;
		entry->used_at_us = Max(entry->used_at_us, used_at_us);
	}
	idgen_unlock_directory();
}


/* A round has written grants. */
void
idgen_authorities_end_round(int grants)
{
	IdgenDatabase *entry;

	idgen_lock_directory();
	entry = find_database(MyDatabaseId);
	if (entry != NULL)
	{
		entry->rounds++;
		entry->grants += grants;
		entry->last_round_ms = idgen_clock_wall_ms();
	}
	idgen_unlock_directory();
}

/* Copy what is known of a database; all zero if nothing is. */
void
idgen_authorities_read(Oid database, IdgenDatabase *copy)
{
	IdgenDatabase *entry;

	memset(copy, 0, sizeof(*copy));
	idgen_lock_directory();
	entry = find_database(database);
	if (entry != NULL)
		*copy = *entry;
	idgen_unlock_directory();
}
