/*
 * authority.c
 *		The authority worker of a database: decide, commit, flush, publish.
 *
 * Why an ID is never repeated, as far as this file goes:
 *
 * 1. A grant is decided by src/core/grant.c from the worker's mark, read under
 *	  its row lock, and written with the new mark in one transaction, "where
 *	  the mark is still what it was".
 * 2. That transaction commits with synchronous_commit = local, pinned, so it
 *	  is flushed to disk before CommitTransactionCommand returns, and never
 *	  waits for a standby.
 * 3. Only then is the grant published to shared memory, into the slot of the
 *	  incarnation it was decided for, compared by tenure under the slot's lock.
 *
 * A crash before 2 leaves nothing; between 2 and 3 a gap: the mark says that
 * the interval is gone, and the cursor it was meant for is gone too.  An error
 * between 2 and 3 (out of memory, termination) is a gap as well; the next round
 * continues from the mark.
 *
 * A round serves all requests waiting and all cursors due in one transaction.
 * It waits for nothing: what another session has locked is left out and tried
 * again.  If it fails, it is repeated namespace by namespace, so that one that
 * is damaged delays no other.
 *
 * Between rounds there is no transaction, snapshot or lock.  The worker is in
 * nobody's way: DROP DATABASE asks it to leave (see hooks.c), and for commands
 * that only lock the database it looks at every wake-up, at least once a
 * second, and leaves by itself.
 */
#include "compat.h"

#include "authority.h"

#include <limits.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_database.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "clock.h"
#include "identity.h"
#include "mailbox.h"
#include "namespace.h"
#include "pool.h"
#include "settings.h"
#include "shmem.h"
#include "tables.h"

/* Longest sleep while any cursor is kept: bounds how long a lock on the
 * database waits for this worker. */
#define SLEEP_MAX_MS		1000

/* Shortest sleep, and the pause before what failed is tried again. */
#define SLEEP_MIN_MS		2
#define RETRY_MS			20

/* A row or transaction lock met in a round is waited for this long at most. */
#define LOCK_TIMEOUT		"100ms"

/* --------------------------------------------------------------------
 * What the worker remembers between rounds
 * -------------------------------------------------------------------- */

/* When a slot was last seen in use, and when its cursor is due. */
typedef struct IdgenActivity
{
	uint64		tenure;
	uint64		issued_count;
	int64		changed_at_us;	/* monotonic */
	int64		due_at_ms;		/* wall clock; 0 = not known */
	int64		slack_ms;		/* so much earlier it comes along with others */
} IdgenActivity;

/* A namespace whose identity was compared in this life of the worker. */
typedef struct IdgenVerified
{
	pg_uuid_t	uuid;
	uint64		version;		/* idgen_tables_version at that time */
} IdgenVerified;

static IdgenActivity *activities;	/* [slot_count] */
static IdgenVerified *verified;
static int	verified_count;
static int	verified_max;
static int64 last_use_us;		/* of any namespace of this database */
static bool strangers_ended;	/* incarnations of earlier shared memory */
static char last_complaint[IDGEN_FAILURE_TEXT_MAX];

/* --------------------------------------------------------------------
 * One round
 * -------------------------------------------------------------------- */

/* What a round does for one namespace. */
typedef struct IdgenJob
{
	char		name[NAMEDATALEN];
	pg_uuid_t	uuid;
	bool		requested;		/* somebody waits */
	int			cursors_seen;	/* greatest of the requests; -1 = no wish */
	IdgenNamespace *ns;			/* while deciding */
	int64		now;			/* tick */
	int64		floor;
	bool		fenced;			/* its cursors are to be killed */
	IdgenFailure failure;		/* NONE = served */
	bool		retry;			/* the failure may pass by itself */
} IdgenJob;

/* A grant on its way from decision to publication. */
typedef struct IdgenItem
{
	int			job;
	int			slot;
	uint64		tenure;			/* of a cursor that lives; 0 = a fresh one */
	IdgenGrantRow row;
} IdgenItem;

typedef struct IdgenRound
{
	int			request_count;
	IdgenMailTaken *requests;
	int			survey_count;
	IdgenCursorSurvey *surveys;
	int			job_count;
	IdgenJob   *jobs;
	int			item_count;
	int			item_max;
	IdgenItem  *items;
} IdgenRound;

static bool
same_uuid(const pg_uuid_t *a, const pg_uuid_t *b)
{
	return memcmp(a->data, b->data, UUID_LEN) == 0;
}

static int64
tick_now(const IdgenLayout *layout)
{
	return idgen_layout_tick_at(layout, idgen_clock_wall_ms());
}

static int64
length_ticks(const IdgenNamespace *ns)
{
	return idgen_layout_ticks_ceil(&ns->row.layout, ns->row.grant_interval_ms);
}

static int64
horizon_ticks(const IdgenNamespace *ns)
{
	return idgen_layout_ticks_ceil(&ns->row.layout, ns->row.layout.horizon_ms);
}

/* The job of a namespace, made if need be. */
static IdgenJob *
get_job(IdgenRound *round, const char *name, const pg_uuid_t *uuid)
{
	IdgenJob   *job;

	for (int i = 0; i < round->job_count; i++)
		if (same_uuid(&round->jobs[i].uuid, uuid))
			return &round->jobs[i];
	job = &round->jobs[round->job_count++];
	memset(job, 0, sizeof(*job));
	strlcpy(job->name, name, NAMEDATALEN);
	job->uuid = *uuid;
	job->cursors_seen = -1;
	return job;
}

/*
 * Set a job's failure.  "retry" means that it may pass by itself: waiters are
 * told the reason, but go on waiting.
 */
static void
fail(IdgenJob *job, IdgenFailureKind kind, const char *detail, const char *hint,
	 bool retry)
{
	IdgenFailure failure;

	idgen_failure_set(&failure, kind, detail, hint);
	if (failure.kind > job->failure.kind)
	{
		job->failure = failure;
		job->retry = retry;
	}
}

static void
fail_locked(IdgenJob *job, const char *what)
{
	char		detail[IDGEN_FAILURE_TEXT_MAX];

	snprintf(detail, sizeof(detail), "Another session has locked %s.", what);
	fail(job, IDGEN_FAILURE_UNAVAILABLE, detail,
		 "Retry; if it goes on, look in pg_locks for who holds it.", true);
}

static void
fail_until(IdgenJob *job, IdgenFailureKind kind, int64 retry_at)
{
	const IdgenLayout *layout = &job->ns->row.layout;

	fail(job, kind, NULL, NULL, false);
	if (job->failure.kind == kind)
		(void) idgen_layout_unix_ms(layout, Max(retry_at, 0),
									&job->failure.until_ms);
}

/* The Unix ms up to which dropped databases and extensions issued, as a tick. */
static int64
dropped_until(const IdgenLayout *layout)
{
	int64		until_ms = (int64)
		pg_atomic_read_u64(&idgen_shared->dropped_until_ms);

	return until_ms == 0 ? 0 : idgen_layout_tick_at(layout, until_ms - 1) + 1;
}

/* --- identity */

static IdgenVerified *
find_verified(const pg_uuid_t *uuid)
{
	for (int i = 0; i < verified_count; i++)
		if (same_uuid(&verified[i].uuid, uuid))
			return &verified[i];
	return NULL;
}

static void
remember_verified(const pg_uuid_t *uuid)
{
	IdgenVerified *entry = find_verified(uuid);

	if (entry == NULL)
	{
		if (verified_count == verified_max)
		{
			verified_max = Max(8, verified_max * 2);
			verified = verified == NULL ?
				MemoryContextAlloc(TopMemoryContext,
								   verified_max * sizeof(IdgenVerified)) :
				repalloc(verified, verified_max * sizeof(IdgenVerified));
		}
		entry = &verified[verified_count++];
		entry->uuid = *uuid;
	}
	entry->version = idgen_tables_version;
}

/* What was found, for the operator. */
static const char *
identity_detail(IdgenIdentityVerdict verdict)
{
	switch (verdict)
	{
		case IDGEN_IDENTITY_SAME:
			break;
		case IDGEN_IDENTITY_OTHER_SYSTEM:
			return "It was recorded on another database cluster; this looks like a restored dump or pg_upgrade.";
		case IDGEN_IDENTITY_OTHER_DATABASE:
			return "It was recorded in another database; this looks like CREATE DATABASE ... TEMPLATE.";
		case IDGEN_IDENTITY_OTHER_TIMELINE:
			return "It was recorded on another timeline; this looks like a promotion or a point-in-time recovery.";
		case IDGEN_IDENTITY_OTHER_CONTROL:
			return "It was recorded with other data files; this looks like a copied data directory or a backup started without recovery.";
		case IDGEN_IDENTITY_OTHER_FILES:
			return "The files of the database were recreated.";
	}
	return "";
}

/* Take a namespace over as ours: a new uuid, this server's identity. */
static void
take_over(IdgenJob *job)
{
	IdgenAuthorityRow row = job->ns->authority;

	idgen_identity_make_uuid(&row.uuid);
	idgen_identity_read(&row.identity);
	if (row.split_modulus == 2)
		row.split_remainder = idgen_identity_class();
	idgen_tables_write_authority(job->name, &row);
}

/*
 * Fence a namespace: its floor goes past all that a lost copy of this authority
 * can have granted, and every incarnation is over.
 */
static void
fence(IdgenJob *job)
{
	const IdgenLayout *layout = &job->ns->row.layout;
	IdgenFenceFacts facts = {
		.now = job->now,
		.highest_mark = idgen_tables_highest_mark(job->name),
		.horizon = horizon_ticks(job->ns),
		.clock_error = idgen_layout_ticks_ceil(layout,
											   Max(idgen_max_clock_error_ms, 1))
	};

	idgen_tables_raise_floor(job->name,
							 idgen_fence_floor(&facts,
											   idgen_layout_tick_count(layout)));
	idgen_tables_end_all(job->name);
	job->fenced = true;
}

/*
 * Compare this server and database with what is recorded, before the first
 * grant of this worker's life (S9).  True if granting may go on.
 */
static bool
verify_identity(IdgenJob *job, const IdgenAuthorityRow *recorded)
{
	IdgenIdentity here;
	IdgenIdentityVerdict verdict;

	idgen_identity_read(&here);
	verdict = idgen_identity_compare(&recorded->identity, &here);
	switch (verdict)
	{
		case IDGEN_IDENTITY_SAME:
			return true;
		case IDGEN_IDENTITY_OTHER_FILES:
			/* no twin can live, but the tables may be those of a template */
			fence(job);
			take_over(job);
			break;
		case IDGEN_IDENTITY_OTHER_SYSTEM:
		case IDGEN_IDENTITY_OTHER_DATABASE:
		case IDGEN_IDENTITY_OTHER_CONTROL:
			if (idgen_tables_ever_granted(job->name))
			{
				fail(job, IDGEN_FAILURE_COPIED, identity_detail(verdict),
					 NULL, false);
				return false;
			}
			take_over(job);
			break;
		case IDGEN_IDENTITY_OTHER_TIMELINE:
			fail(job, IDGEN_FAILURE_COPIED, identity_detail(verdict), NULL,
				 false);
			return false;
	}

	/* whoever asked looks the namespace up again, and finds the new uuid */
	return false;
}

/*
 * Lock the namespace and see that it may be granted from.  False with the
 * reason in job->failure; NONE if the requester is to look again.
 */
static bool
open_namespace(IdgenJob *job)
{
	IdgenAuthorityRow authority;
	IdgenVerified *known;

	job->ns = idgen_namespace_find(job->name);
	if (job->ns == NULL)
	{
		fail(job, IDGEN_FAILURE_UNDEFINED, NULL, NULL, false);
		return false;
	}
	if (job->ns->row.retired || !job->ns->row.issuing)
	{
		fail(job, IDGEN_FAILURE_RETIRED, NULL, NULL, false);
		return false;
	}
	job->now = tick_now(&job->ns->row.layout);

	switch (idgen_tables_lock_authority(job->name, &authority, &job->floor))
	{
		case IDGEN_LOCK_OK:
			break;
		case IDGEN_LOCK_BUSY:
			fail_locked(job, "the namespace");
			return false;
		case IDGEN_LOCK_ABSENT:
			fail(job, IDGEN_FAILURE_COPIED,
				 "Its identity is missing, as after a restore of its marks.",
				 NULL, false);
			return false;
	}
	if (!same_uuid(&authority.uuid, &job->uuid))
	{
		fail(job, IDGEN_FAILURE_UNDEFINED,
			 "It was dropped and created again meanwhile.", "Retry.", false);
		return false;
	}

	known = find_verified(&job->uuid);
	if (known != NULL && known->version == idgen_tables_version)
		return true;
	if (known == NULL && !verify_identity(job, &authority))
		return false;
	if (job->floor < 0 || !idgen_tables_sums_hold(job->name))
	{
		fail(job, IDGEN_FAILURE_UNAVAILABLE,
			 "Its high-water marks were changed from outside: they do not add up to what was granted.",
			 "Find out who changed the tables of idgen; then call idgen_fence_namespace().",
			 false);
		return false;
	}
	remember_verified(&job->uuid);
	return true;
}

/* --- grants */

static IdgenGrantVerdict
decide(IdgenJob *job, int64 high_water, int64 eligible, IdgenGrant *grant,
	   int64 *retry_at)
{
	const IdgenLayout *layout = &job->ns->row.layout;
	IdgenGrantFacts facts = {
		.now = job->now,
		.eligible = Max(eligible, dropped_until(layout)),
		.high_water = Max(high_water, job->floor),
		.length = length_ticks(job->ns),
		.horizon = horizon_ticks(job->ns)
	};

	return idgen_grant_decide(&facts, idgen_layout_tick_count(layout), grant,
							  retry_at);
}

static IdgenItem *
add_item(IdgenRound *round, IdgenJob *job, const IdgenMark *mark,
		 const IdgenGrant *grant)
{
	IdgenItem  *item = &round->items[round->item_count++];

	Assert(round->item_count <= round->item_max);
	memset(item, 0, sizeof(*item));
	item->job = (int) (job - round->jobs);
	item->slot = -1;
	item->row.namespace_name = job->name;
	item->row.worker = mark->worker;
	item->row.high_water = mark->high_water;
	item->row.grant_id = idgen_identity_make_number();
	item->row.grant = *grant;
	return item;
}

/* Grant more to a cursor that lives. */
static void
extend_cursor(IdgenRound *round, IdgenJob *job, const IdgenCursorSurvey *survey)
{
	IdgenMark	mark;
	IdgenGrant	grant;
	int64		retry_at;
	IdgenItem  *item;

	switch (idgen_tables_lock_mark(job->name, survey->worker, &mark))
	{
		case IDGEN_LOCK_OK:
			break;
		case IDGEN_LOCK_BUSY:
			fail_locked(job, "a high-water mark");
			return;
		case IDGEN_LOCK_ABSENT:
			fail(job, IDGEN_FAILURE_UNAVAILABLE,
				 "The high-water mark of a worker in use is missing.",
				 "Find out who changed the tables of idgen; then call idgen_fence_namespace().",
				 false);
			return;
	}
	if (mark.incarnation != survey->incarnation)
	{
		/* the worker was given to somebody else; that cursor is over */
		idgen_pool_kill_slot(survey->slot, survey->tenure);
		return;
	}

	switch (decide(job, mark.high_water, job->now, &grant, &retry_at))
	{
		case IDGEN_GRANT_OK:
			break;
		case IDGEN_GRANT_BEYOND_HORIZON:
			return;				/* it has all it can have */
		case IDGEN_GRANT_FIELD_EXHAUSTED:
			if (job->now >= idgen_layout_tick_count(&job->ns->row.layout))
				fail(job, IDGEN_FAILURE_EXHAUSTED, NULL, NULL, false);
			return;
		case IDGEN_GRANT_BAD_REQUEST:
			elog(ERROR, "idgen could not decide a grant");
	}
	item = add_item(round, job, &mark, &grant);
	item->slot = survey->slot;
	item->tenure = survey->tenure;
	item->row.incarnation = survey->incarnation;
}

/*
 * The busy workers of a namespace, ascending: reserved past now, or held by a
 * cursor of this server.
 */
static int64 *
busy_workers(IdgenRound *round, IdgenJob *job, size_t *count)
{
	size_t		reserved_count;
	int64	   *reserved = idgen_tables_reserved_workers(job->name, job->now,
														 &reserved_count);
	int64	   *busy = palloc((reserved_count + round->survey_count + 1) *
							  sizeof(int64));
	size_t		n = reserved_count;

	memcpy(busy, reserved, reserved_count * sizeof(int64));
	for (int i = 0; i < round->survey_count; i++)
	{
		int64		worker = round->surveys[i].worker;
		size_t		at = n;

		if (!same_uuid(&round->surveys[i].namespace_uuid, &job->uuid))
			continue;
		while (at > 0 && busy[at - 1] > worker)
			at--;
		if (at > 0 && busy[at - 1] == worker)
			continue;
		memmove(&busy[at + 1], &busy[at], (n - at) * sizeof(int64));
		busy[at] = worker;
		n++;
	}
	*count = n;
	return busy;
}

/* The workers of a namespace that a cursor of this server holds. */
static int64 *
held_workers(IdgenRound *round, IdgenJob *job, size_t *count)
{
	int64	   *held = palloc((round->survey_count + 1) * sizeof(int64));

	*count = 0;
	for (int i = 0; i < round->survey_count; i++)
		if (same_uuid(&round->surveys[i].namespace_uuid, &job->uuid))
			held[(*count)++] = round->surveys[i].worker;
	return held;
}

/*
 * Choose a worker for a fresh incarnation: any free one, else the one whose
 * reservation ends first.  False if there is none at all.
 */
static bool
choose_worker(IdgenRound *round, IdgenJob *job, int32 *worker)
{
	IdgenWorkerRange range = {
		.first = job->ns->row.first_worker,
		.last = job->ns->row.last_worker,
		.modulus = job->ns->authority.split_modulus,
		.remainder = job->ns->authority.split_remainder
	};
	size_t		count;
	int64	   *busy = busy_workers(round, job, &count);
	int64		chosen = idgen_worker_choose(&range, busy, count, (uint64)
											 idgen_identity_make_number());

	if (chosen < 0)
	{
		int64	   *held = held_workers(round, job, &count);

		return idgen_tables_earliest_worker(job->name, &range, held, count,
											worker);
	}
	*worker = (int32) chosen;
	return true;
}

/*
 * The earliest tick of a fresh incarnation.  Where one cursor is all there is,
 * IDs promise to be in real-time order, also after the previous cursor, which
 * may have been ahead of the clock by run_ahead.
 */
static int64
eligible_tick(const IdgenJob *job)
{
	return idgen_max_workers_per_namespace > 1 ? job->now :
		job->now + job->ns->run_ahead;
}

/* Open a cursor: a fresh incarnation with its first grant. */
static void
open_cursor(IdgenRound *round, IdgenJob *job, bool first)
{
	IdgenMark	mark;
	IdgenGrant	grant;
	int64		retry_at;
	int32		worker;
	IdgenItem  *item;
	IdgenLockResult locked;
	int			slot;

	if (!choose_worker(round, job, &worker))
	{
		if (first)
			fail(job, IDGEN_FAILURE_NO_WORKER, NULL, NULL, false);
		return;
	}
	locked = idgen_tables_lock_mark(job->name, worker, &mark);
	if (locked == IDGEN_LOCK_BUSY)
	{
		fail_locked(job, "a high-water mark");
		return;
	}
	switch (decide(job, mark.high_water, eligible_tick(job), &grant, &retry_at))
	{
		case IDGEN_GRANT_OK:
			break;
		case IDGEN_GRANT_BEYOND_HORIZON:
			if (first)
				fail_until(job, job->floor > job->now ? IDGEN_FAILURE_NOT_YET :
						   IDGEN_FAILURE_NO_WORKER, retry_at);
			return;
		case IDGEN_GRANT_FIELD_EXHAUSTED:
			if (first)
				fail(job, IDGEN_FAILURE_EXHAUSTED, NULL, NULL, false);
			return;
		case IDGEN_GRANT_BAD_REQUEST:
			elog(ERROR, "idgen could not decide a grant");
	}
	slot = idgen_pool_reserve(MyDatabaseId, &job->uuid, job->name);
	if (slot < 0)
	{
		if (first)
			fail(job, IDGEN_FAILURE_UNAVAILABLE,
				 "All idgen cursors of this server are in use.",
				 "Raise \"idgen.max_cursors\", which needs a restart, or lower \"idgen.max_workers_per_namespace\".",
				 true);
		return;
	}
	item = add_item(round, job, &mark, &grant);
	item->slot = slot;
	item->row.first_row = locked == IDGEN_LOCK_ABSENT;
	item->row.fresh = true;
	item->row.incarnation = idgen_identity_make_number();
}

/* Is this cursor due for more?  An unreadable one is looked at next time. */
static bool
cursor_due(const IdgenJob *job, const IdgenCursorSurvey *survey)
{
	int64		length = length_ticks(job->ns);

	/* those due within the next quarter of an interval come along */
	return survey->readable &&
		job->now + length / 4 >= idgen_grant_due_at(survey->granted_end, length,
													horizon_ticks(job->ns),
													job->ns->run_ahead);
}

/* Decide everything for one namespace. */
static void
decide_job(IdgenRound *round, IdgenJob *job)
{
	int			cursor_count = 0;

	if (!open_namespace(job))
		return;
	for (int i = 0; i < round->survey_count; i++)
	{
		IdgenCursorSurvey *survey = &round->surveys[i];

		if (!same_uuid(&survey->namespace_uuid, &job->uuid))
			continue;
		cursor_count++;
		if (cursor_due(job, survey))
			extend_cursor(round, job, survey);
	}
	if (cursor_count == 0)
	{
		if (job->requested)
			open_cursor(round, job, true);
	}
	else if (cursor_count <= job->cursors_seen &&
			 cursor_count < idgen_max_workers_per_namespace)
		open_cursor(round, job, false);
}

/* Publish what is durable now. */
static void
publish(IdgenRound *round)
{
	for (int i = 0; i < round->job_count; i++)
		if (round->jobs[i].fenced)
			idgen_pool_kill(MyDatabaseId, &round->jobs[i].uuid);

	for (int i = 0; i < round->item_count; i++)
	{
		IdgenItem  *item = &round->items[i];
		IdgenJob   *job = &round->jobs[item->job];

		if (item->row.fresh)
			idgen_pool_activate(item->slot, MyDatabaseId, &job->uuid,
								&job->ns->row.layout, item->row.worker,
								item->row.incarnation, &item->row.grant);
		else
			(void) idgen_pool_publish(item->slot, item->tenure,
									  &item->row.grant, job->now);
	}
}

static void
begin_transaction(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
}

/*
 * Commit.  With synchronous_commit = local a transaction that wrote is flushed
 * when CommitTransactionCommand returns; the explicit flush costs nothing then,
 * and holds if somebody ever weakens the former.
 */
static void
commit_transaction(void)
{
	SPI_finish();
	PopActiveSnapshot();
	CommitTransactionCommand();
	XLogFlush(XactLastCommitEnd);
}

/* Carry a round out; raises if it could not. */
static void
carry_out(IdgenRound *round, MemoryContext context)
{
	IdgenGrantRow *rows = palloc(Max(round->item_max, 1) * sizeof(IdgenGrantRow));
	IdgenFailure failure;
	bool		open;

	begin_transaction();
	MemoryContextSwitchTo(context);
	open = idgen_tables_open(&failure);
	if (open)
	{
		if (!strangers_ended)
			idgen_tables_end_strangers(&idgen_shared->boot);
		for (int i = 0; i < round->job_count; i++)
			decide_job(round, &round->jobs[i]);
		for (int i = 0; i < round->item_count; i++)
			rows[i] = round->items[i].row;
		idgen_tables_write_grants(rows, round->item_count, &idgen_shared->boot);
	}
	else
		for (int i = 0; i < round->job_count; i++)
			fail(&round->jobs[i], failure.kind, failure.detail, failure.hint,
				 failure.kind == IDGEN_FAILURE_UNAVAILABLE);
	commit_transaction();
	MemoryContextSwitchTo(context);
	strangers_ended |= open;
	publish(round);
}

/* Log a complaint, but not the same one for ever. */
static void
complain(const char *message)
{
	if (strncmp(last_complaint, message, sizeof(last_complaint) - 1) == 0)
		return;
	strlcpy(last_complaint, message, sizeof(last_complaint));
	ereport(LOG,
			(errmsg("idgen authority could not grant: %s", message),
			 errdetail("It goes on trying; this is logged once until it succeeds.")));
}

/*
 * Carry out a round for some of its jobs.  False if it failed; then *message
 * says why, and nothing of it is in the tables or in shared memory.
 */
static bool
try_round(IdgenRound *round, char *message, Size message_size)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool done = false;

	PG_TRY();
	{
		carry_out(round, context);
		done = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		MemoryContextSwitchTo(context);
		idgen_pool_release_reserved(MyDatabaseId);
		strlcpy(message, error->message, message_size);
		FreeErrorData(error);
	}
	PG_END_TRY();
	return done;
}

/* One job of a round as a round of its own. */
static void
retry_alone(const IdgenRound *whole, IdgenJob *job)
{
	IdgenRound	round = *whole;
	IdgenJob	fresh = *job;
	char		message[IDGEN_FAILURE_TEXT_MAX];

	fresh.failure.kind = IDGEN_FAILURE_NONE;
	fresh.retry = false;
	fresh.fenced = false;
	round.jobs = &fresh;
	round.job_count = 1;
	round.item_count = 0;
	if (!try_round(&round, message, sizeof(message)))
	{
		complain(message);
		fail(&fresh, IDGEN_FAILURE_UNAVAILABLE, message, NULL, true);
	}
	*job = fresh;
}

/* Serve a round; every job has its outcome afterwards. */
static void
serve(IdgenRound *round)
{
	char		message[IDGEN_FAILURE_TEXT_MAX];

	round->item_max = round->survey_count + round->job_count;
	round->item_count = 0;
	round->items = palloc(Max(round->item_max, 1) * sizeof(IdgenItem));
	if (try_round(round, message, sizeof(message)))
	{
		last_complaint[0] = '\0';
		return;
	}
	for (int i = 0; i < round->job_count; i++)
		retry_alone(round, &round->jobs[i]);
}

/* --------------------------------------------------------------------
 * Retirement
 * -------------------------------------------------------------------- */

/* Decide and write the retirement of a namespace. */
static void
retire(const IdgenMailTaken *request, IdgenFailure *failure)
{
	IdgenNamespace *ns;

	if (!idgen_tables_open(failure))
		return;
	ns = idgen_namespace_find(request->mail.namespace_name);
	if (ns == NULL)
	{
		idgen_failure_set(failure, IDGEN_FAILURE_UNDEFINED, NULL, NULL);
		return;
	}
	if (!idgen_namespace_owned(ns, request->role))
	{
		idgen_failure_set(failure, IDGEN_FAILURE_FORBIDDEN, NULL, NULL);
		return;
	}
	if (!ns->row.retired)
		idgen_tables_retire(ns->name);
	idgen_failure_set(failure, IDGEN_FAILURE_NONE, NULL, NULL);
}

/* Serve a request for retirement, in a transaction of its own. */
static void
serve_retirement(const IdgenMailTaken *request)
{
	MemoryContext context = CurrentMemoryContext;
	IdgenFailure failure;
	volatile bool done = false;

	PG_TRY();
	{
		begin_transaction();
		MemoryContextSwitchTo(context);
		retire(request, &failure);
		commit_transaction();
		done = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		MemoryContextSwitchTo(context);
		idgen_failure_set(&failure, IDGEN_FAILURE_UNAVAILABLE, error->message,
						  NULL);
		FreeErrorData(error);
	}
	PG_END_TRY();

	if (done && failure.kind == IDGEN_FAILURE_NONE)
		idgen_pool_kill(MyDatabaseId, &request->mail.namespace_uuid);
	if (failure.kind == IDGEN_FAILURE_UNAVAILABLE)
		idgen_mailbox_note(request, &failure);
	else
		idgen_mailbox_answer(request, &failure);
}

/* --------------------------------------------------------------------
 * The loop
 * -------------------------------------------------------------------- */

/* Note which cursors were used since the last look. */
static void
note_activity(const IdgenRound *round)
{
	int64		now_us = idgen_clock_monotonic_us();

	if (round->request_count > 0)
		last_use_us = now_us;
	for (int i = 0; i < round->survey_count; i++)
	{
		const IdgenCursorSurvey *survey = &round->surveys[i];
		IdgenActivity *activity = &activities[survey->slot];

		if (activity->tenure == survey->tenure && survey->readable &&
			activity->issued_count == survey->issued_count)
			continue;
		if (activity->tenure != survey->tenure)
			activity->due_at_ms = 0;
		activity->tenure = survey->tenure;
		if (survey->readable)
			activity->issued_count = survey->issued_count;
		activity->changed_at_us = now_us;
		last_use_us = now_us;
	}
}

/* Has this cursor been left alone for idgen.idle_timeout? */
static bool
cursor_idle(const IdgenCursorSurvey *survey)
{
	return idgen_clock_monotonic_us() -
		activities[survey->slot].changed_at_us >=
		(int64) idgen_idle_timeout_ms * 1000;
}

/*
 * Has its namespace more cursors than allowed, since the setting was lowered?
 * The first "kept" surveys are the ones that stay.
 */
static bool
cursor_surplus(const IdgenRound *round, int kept, const IdgenCursorSurvey *survey)
{
	int			count = 0;

	for (int i = 0; i < kept; i++)
		if (same_uuid(&round->surveys[i].namespace_uuid, &survey->namespace_uuid))
			count++;
	return count >= idgen_max_workers_per_namespace;
}

/*
 * End the cursors that nobody uses or may use, in one transaction.  They are killed first:
 * should the transaction fail, their incarnations are ended by the next life of
 * shared memory, and their workers are free when their grants are over.
 */
static void
end_unused_cursors(IdgenRound *round)
{
	MemoryContext context = CurrentMemoryContext;
	int			kept = 0;
	int			ended_count = 0;
	int64	   *ended = palloc((round->survey_count + 1) * sizeof(int64));

	for (int i = 0; i < round->survey_count; i++)
	{
		IdgenCursorSurvey *survey = &round->surveys[i];

		if (!cursor_idle(survey) && !cursor_surplus(round, kept, survey))
		{
			round->surveys[kept++] = *survey;
			continue;
		}
		idgen_pool_kill_slot(survey->slot, survey->tenure);
		ended[ended_count++] = survey->incarnation;
	}
	round->survey_count = kept;
	if (ended_count == 0)
		return;

	PG_TRY();
	{
		IdgenFailure failure;

		begin_transaction();
		MemoryContextSwitchTo(context);
		if (idgen_tables_open(&failure))
			for (int i = 0; i < ended_count; i++)
				idgen_tables_end_incarnation(ended[i]);
		commit_transaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
		AbortCurrentTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
}

/* Is a cursor due, or so soon that it may come along with others? */
static bool
due_by_memory(const IdgenCursorSurvey *survey, bool along)
{
	const IdgenActivity *activity = &activities[survey->slot];

	return idgen_clock_wall_ms() >=
		activity->due_at_ms - (along ? activity->slack_ms : 0);
}

/* Turn requests and due cursors into jobs; what is not due costs nothing. */
static void
make_jobs(IdgenRound *round)
{
	round->jobs = palloc((round->request_count + round->survey_count + 1) *
						 sizeof(IdgenJob));
	for (int i = 0; i < round->request_count; i++)
	{
		const IdgenMail *mail = &round->requests[i].mail;
		IdgenJob   *job;

		if (mail->kind != IDGEN_REQUEST_SERVE)
			continue;
		job = get_job(round, mail->namespace_name, &mail->namespace_uuid);
		job->requested = true;
		job->cursors_seen = Max(job->cursors_seen, mail->cursors_seen);
	}
	for (int along = 0; along <= (round->job_count > 0); along++)
		for (int i = 0; i < round->survey_count; i++)
			if (due_by_memory(&round->surveys[i], along))
				(void) get_job(round, round->surveys[i].namespace_name,
							   &round->surveys[i].namespace_uuid);
}

/* Answer the requests of the jobs that have an outcome. */
static void
answer(const IdgenRound *round)
{
	for (int i = 0; i < round->request_count; i++)
	{
		const IdgenMailTaken *request = &round->requests[i];

		if (request->mail.kind != IDGEN_REQUEST_SERVE)
			continue;
		for (int j = 0; j < round->job_count; j++)
		{
			const IdgenJob *job = &round->jobs[j];

			if (!same_uuid(&job->uuid, &request->mail.namespace_uuid))
				continue;
			if (job->retry)
				idgen_mailbox_note(request, &job->failure);
			else
				idgen_mailbox_answer(request, &job->failure);
		}
	}
}

/* The namespace of a cursor, if this round dealt with it. */
static IdgenNamespace *
namespace_of(const IdgenRound *round, const IdgenCursorSurvey *survey)
{
	for (int i = 0; i < round->job_count; i++)
		if (same_uuid(&round->jobs[i].uuid, &survey->namespace_uuid))
			return round->jobs[i].ns;
	return NULL;
}

/* Remember when the cursors of this round's namespaces are due again. */
static void
note_due(const IdgenRound *round)
{
	for (int i = 0; i < round->survey_count; i++)
	{
		const IdgenCursorSurvey *survey = &round->surveys[i];
		IdgenActivity *activity = &activities[survey->slot];
		IdgenNamespace *ns = namespace_of(round, survey);
		int64		due_at;

		if (ns == NULL || !survey->readable)
			continue;
		if (activity->tenure != survey->tenure)
		{
			activity->tenure = survey->tenure;
			activity->issued_count = survey->issued_count;
			activity->changed_at_us = idgen_clock_monotonic_us();
		}
		due_at = idgen_grant_due_at(survey->granted_end, length_ticks(ns),
									horizon_ticks(ns), ns->run_ahead);
		(void) idgen_layout_unix_ms(&ns->row.layout, Max(due_at, 0),
									&activity->due_at_ms);
		activity->slack_ms = ns->row.grant_interval_ms / 4;
	}
}

/*
 * Milliseconds until the next round: when the first cursor is due, or soon if
 * something has to be tried again.
 */
static int64
next_round_ms(const IdgenRound *round)
{
	int64		sleep_ms = SLEEP_MAX_MS;
	int64		now_ms = idgen_clock_wall_ms();

	for (int i = 0; i < round->job_count; i++)
		if (round->jobs[i].retry)
			return RETRY_MS;
	for (int i = 0; i < round->survey_count; i++)
		sleep_ms = Min(sleep_ms,
					   activities[round->surveys[i].slot].due_at_ms - now_ms);
	return Max(sleep_ms, SLEEP_MIN_MS);
}

/* One turn of the loop; returns how long to sleep. */
static int64
turn(void)
{
	IdgenRound	round;

	memset(&round, 0, sizeof(round));
	round.requests = palloc(idgen_shared->request_count * sizeof(IdgenMailTaken));
	round.request_count = idgen_mailbox_take(round.requests,
											 idgen_shared->request_count);
	round.surveys = palloc(idgen_shared->slot_count * sizeof(IdgenCursorSurvey));
	round.survey_count = idgen_pool_survey(MyDatabaseId, round.surveys,
										   idgen_shared->slot_count);
	note_activity(&round);
	end_unused_cursors(&round);

	for (int i = 0; i < round.request_count; i++)
		if (round.requests[i].mail.kind == IDGEN_REQUEST_RETIRE)
			serve_retirement(&round.requests[i]);

	make_jobs(&round);
	if (round.job_count > 0)
	{
		serve(&round);
		answer(&round);
		round.survey_count = idgen_pool_survey(MyDatabaseId, round.surveys,
											   idgen_shared->slot_count);
		note_due(&round);
	}
	return next_round_ms(&round);
}

/* Is there nothing to do, and has there not been for long enough? */
static bool
may_leave(void)
{
	IdgenCursorSurvey any;

	return idgen_clock_monotonic_us() - last_use_us >=
		(int64) idgen_idle_timeout_ms * 1000 &&
		idgen_pool_survey(MyDatabaseId, &any, 1) == 0;
}

/*
 * Does another session hold this database against being used: DROP, ALTER ...
 * RENAME or SET TABLESPACE, CREATE DATABASE ... TEMPLATE?  They wait a few
 * seconds for others to leave, so leave.
 */
static bool
database_wanted(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	if (LockAcquire(&tag, RowExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	LockRelease(&tag, RowExclusiveLock, true);
	return false;
}

static void
leave_at_exit(int code, Datum arg)
{
	idgen_mailbox_leave();
}

/*
 * Pin every setting that a database or role can set and that could change what
 * the worker does.
 */
static void
pin_settings(void)
{
	static const char *const pinned[][2] = {
		{"synchronous_commit", "local"},
		{"search_path", "pg_catalog, pg_temp"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"statement_timeout", "0"},
		{"lock_timeout", LOCK_TIMEOUT},
		{"idle_in_transaction_session_timeout", "0"},
		{"idle_session_timeout", "0"},
		{"transaction_timeout", "0"},
		{"row_security", "off"},
		{"session_replication_role", "origin"},
		{"plan_cache_mode", "auto"},
		{"enable_indexscan", "on"},
		{"enable_seqscan", "on"},
		{"max_parallel_workers_per_gather", "0"},
		{"jit", "off"},
		{"commit_siblings", "5"},
		{"work_mem", "4MB"},
		{"log_min_error_statement", "panic"},
	};

	for (size_t i = 0; i < lengthof(pinned); i++)
		if (GetConfigOption(pinned[i][0], true, false) != NULL)
			SetConfigOption(pinned[i][0], pinned[i][1], PGC_SUSET,
							PGC_S_OVERRIDE);
}

/*
 * Entry point of the background worker; main_arg is the database's OID.
 */
void
idgen_authority_main(Datum main_arg)
{
	Oid			database = DatumGetObjectId(main_arg);
	MemoryContext round_context;
	uint32		wait_event;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	pqsignal(SIGINT, SIG_IGN);	/* nothing here lasts long enough to cancel */
	BackgroundWorkerUnblockSignals();

	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);
	pin_settings();

	before_shmem_exit(leave_at_exit, (Datum) 0);
	if (!idgen_mailbox_enter())
		proc_exit(0);

	/* a predecessor may have died between reserving and activating */
	idgen_pool_release_reserved(MyDatabaseId);

	activities = MemoryContextAllocZero(TopMemoryContext,
										idgen_shared->slot_count *
										sizeof(IdgenActivity));
	last_use_us = idgen_clock_monotonic_us();
	wait_event = idgen_wait_event("IdgenAuthorityMain");
	round_context = AllocSetContextCreate(TopMemoryContext,
										  "idgen authority round",
										  ALLOCSET_DEFAULT_SIZES);
	pgstat_report_appname("idgen authority");

	for (;;)
	{
		int64		sleep_ms;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (idgen_mailbox_stop_wanted() || database_wanted())
			proc_exit(0);

		MemoryContextSwitchTo(round_context);
		pgstat_report_activity(STATE_RUNNING, "granting");
		sleep_ms = turn();
		pgstat_report_activity(STATE_IDLE, NULL);
		pgstat_report_stat(false);
		MemoryContextReset(round_context);

		if (may_leave() && idgen_mailbox_leave_if_empty())
			proc_exit(0);

		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 (long) sleep_ms, wait_event);
	}
}

/*
 * Ask the postmaster for a worker for this database.  False if no background
 * worker slot is free.
 */
static bool
start_worker(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "idgen", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "idgen_authority_main",
			sizeof(worker.bgw_function_name));
	snprintf(worker.bgw_name, sizeof(worker.bgw_name),
			 "idgen authority for database %u", MyDatabaseId);
	strlcpy(worker.bgw_type, "idgen authority", sizeof(worker.bgw_type));
	worker.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId);
	return RegisterDynamicBackgroundWorker(&worker, NULL);
}

/* Once, when the library is loaded. */
void
idgen_authority_init(void)
{
	idgen_mailbox_start_worker = start_worker;
}
