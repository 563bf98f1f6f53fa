/*
 * round.c
 *		Decide, lock, write, commit, flush, publish.
 *
 * Why an ID is never repeated, as far as this file goes:
 *
 * 1. A grant is decided by src/core/grant.c from the worker's mark.  The mark
 *	  and the namespace's authority row are locked, and the new mark is written
 *	  with the grant in one transaction, "where the mark is still what it was".
 * 2. That transaction commits with synchronous_commit = local, pinned, so it
 *	  is flushed to disk before CommitTransactionCommand returns, and never
 *	  waits for a standby.
 * 3. Only then is the grant published: to shared memory, into the slot of the
 *	  incarnation it was decided for, compared by generation under the slot's lock;
 *	  or as the answer to an external generator.  With durability "quorum" it is
 *	  held back until synchronous standbys have flushed it, too: publication.c.
 * 4. By which durability, is read under the lock of policy.c, which is held from
 *	  before the first look at the namespace until everything of the round has
 *	  been published, answered or held back; so it is for operation.c.  A change
 *	  of durability or promotion policy waits for that.  So what was not confirmed
 *	  was published, and its transaction had ended, before "quorum" was committed,
 *	  and therefore before "trust" was, which may be taken only after that: a
 *	  standby that has replayed "trust" has replayed it as well.  What is decided
 *	  after "quorum" was committed is decided by it.  And what is held back stays
 *	  so if "quorum" is given up meanwhile: then it is confirmed, or nobody gets it.
 *
 * A crash before 2 leaves nothing; between 2 and 3 a gap: the mark says that
 * the interval is gone.  An external generator whose answer was lost asks again
 * with the same request id.  An error between 2 and 3 is a gap as well; the next
 * round continues from the mark.
 *
 * A round waits for nothing: rows that another session has locked, and policies
 * that one is changing, are left out and tried again, with their namespace.  If a
 * round fails, it is repeated namespace by namespace, so that one that is damaged
 * delays no other.
 */
#include "compat.h"

#include "authority/round.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "authority/alert.h"
#include "clock.h"
#include "shmem/ended.h"
#include "authority/fence.h"
#include "catalog/grant_rows.h"
#include "catalog/integrity.h"
#include "random.h"
#include "catalog/mark_rows.h"
#include "catalog/marks.h"
#include "catalog/namespace_rows.h"
#include "catalog/policy_lock.h"
#include "authority/confirm.h"
#include "authority/quorum.h"
#include "settings.h"
#include "shmem/shmem.h"
#include "catalog/query.h"
#include "catalog/scan.h"
#include "shmem/counters.h"
#include "catalog/table_lock.h"
#include "catalog/tables.h"

#define DAMAGED_HINT \
	"Find out who changed the tables of idgen; then call idgen_fence_namespace()."
#define LOCKED_HINT \
	"Retry; if it goes on, look in pg_locks for who holds it."

/*
 * How many of a worker's last grants are searched for a request id: of a request
 * that follows the last grant, and of one that does not.
 */
#define RECORDED_NEAR	16
#define RECORDED_FAR	1000

/* A grant on its way from decision to publication. */
typedef struct IdgenItem
{
	int			job;
	int			slot;			/* of a local cursor; -1 for external ones */
	uint64		generation;			/* of its cursor, or of the reservation */
	IdgenGrantTiming timing;	/* of a local one */
	int			request;		/* of an external one; -1 for local ones */
	int64		issues_until;	/* of an external one: what it has lasts until this
								 * tick, or the clock */
	IdgenGrantRow row;
	IdgenHolder holder;
} IdgenItem;

/* Incarnations of this server without a cursor have been ended, as far as known. */
static bool strangers_ended = false;

/* The last generation before the transaction in progress. */
static uint64 generation_before;

/*
 * What failed last, and when, on the monotonic clock: a failure that comes again
 * within COMPLAIN_APART_US is not logged again.  On a full disk, say, one table
 * fails after the other, and some rounds succeed in between.
 */
#define COMPLAIN_APART_US INT64_C(60000000)
static int	last_complaint = 0; /* its SQLSTATE */
static int64 last_complaint_us;

/* --------------------------------------------------------------------
 * Small things
 * -------------------------------------------------------------------- */

/* The usual length of a grant, in ticks. */
static int64
usual_length(const IdgenNamespace *ns)
{
	return idgen_layout_ticks_ceil(&ns->row.layout, ns->row.grant_interval_ms);
}

/* That of a cursor's: as long as it must be to outlast its own commit. */
int64
idgen_round_cursor_length(const IdgenJob *job)
{
	return Max(usual_length(job->ns), job->marks->length_needed);
}

/* The horizon in ticks. */
int64
idgen_round_horizon(const IdgenNamespace *ns)
{
	return idgen_layout_ticks_ceil(&ns->row.layout, ns->row.layout.horizon_ms);
}

/* Does this request ask for a grant of an external generator? */
bool
idgen_round_grants_to(const IdgenMailTaken *request)
{
	return request->mail.kind == IDGEN_REQUEST_ACTIVATE ||
		request->mail.kind == IDGEN_REQUEST_ACQUIRE;
}

/* The job of a namespace, made if need be; round->jobs has room. */
IdgenJob *
idgen_round_job(IdgenRound *round, const char *name, const pg_uuid_t *uuid)
{
	IdgenJob   *job;

	for (int i = 0; i < round->job_count; i++)
		if (idgen_same_uuid(&round->jobs[i].uuid, uuid))
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
fail(IdgenJob *job, IdgenErrorKind kind, const char *detail, const char *hint,
	 bool retry)
{
	if (kind <= job->error.kind)
		return;
	idgen_error_set(&job->error, kind, detail, hint);
	job->retry = retry;
}

/* A failure that ends at a tick of the clock. */
static void
set_until(IdgenError *error, IdgenErrorKind kind,
		  const IdgenNamespace *ns, int64 retry_at)
{
	idgen_error_set(error, kind, NULL, NULL);
	(void) idgen_layout_unix_ms(&ns->row.layout, Max(retry_at, 0),
								&error->until_ms);
}

/* The statistics of a job's namespace. */
static IdgenStats *
job_stats(IdgenJob *job)
{
	if (job->stats == NULL)
		job->stats = idgen_stats_get(MyDatabaseId, job->name);
	return job->stats;
}

/* --------------------------------------------------------------------
 * Opening a namespace
 * -------------------------------------------------------------------- */

/* Read the marks, or see that those in memory still are the tables'. */
static bool
bring_marks(IdgenJob *job)
{
	IdgenMarks *marks = job->marks;

	if (marks->loaded && marks->tables_version != idgen_tables_version)
	{
		/* the version first: what looking brings of news is for the next time */
		uint64		version = idgen_tables_version;
		uint64		fingerprint = idgen_integrity_fingerprint();

		marks->loaded = fingerprint == marks->fingerprint;
		marks->tables_version = version;
	}
	if (marks->loaded)
		return true;

	marks->tables_version = idgen_tables_version;
	marks->fingerprint = idgen_integrity_fingerprint();
	switch (idgen_mark_rows_load(job->name, marks))
	{
		case IDGEN_LOAD_OK:
			return true;
		case IDGEN_LOAD_NO_IDENTITY:
			fail(job, IDGEN_ERROR_COPIED,
				 "Its identity is missing, as after a restore of its marks.",
				 NULL, false);
			return false;
		case IDGEN_LOAD_DAMAGED:
			fail(job, IDGEN_ERROR_UNAVAILABLE,
				 "Its high-water marks were changed from outside: they do not add up to what was granted.",
				 DAMAGED_HINT, false);
			return false;
	}
	return false;
}

/* The first tick that begins at a Unix ms or later; 0 for 0. */
static int64
tick_from(const IdgenLayout *layout, int64 unix_ms)
{
	if (unix_ms == 0)
		return 0;
	return Min(idgen_layout_tick_at(layout, unix_ms - 1) + 1,
			   idgen_layout_tick_count(layout));
}

/*
 * The tick at which a namespace not granted from yet begins: after what was issued
 * from anything that was dropped.  From one of the same name, however long that
 * takes, a bound a horizon past the longest grant included; from another one, if it
 * takes no longer than max_clock_error, as it does unless that ran far ahead of the
 * clock or this one has long ticks.
 */
static int64
begins_at(const IdgenRound *round, const IdgenLayout *layout, const char *name)
{
	int64		near_ms = round->clock.latest_ms + idgen_max_clock_error_ms;
	char	   *database_name = get_database_name(MyDatabaseId);
	int64		same_ms = idgen_ended_dropped_until(MyDatabaseId,
													database_name ? database_name : "",
													name, near_ms + 2 * IDGEN_HORIZON_MS_MAX);
	int64		any = tick_from(layout, idgen_ended_dropped_anywhere(near_ms));

	if (any > idgen_layout_tick_at(layout, near_ms))
		any = 0;
	return Max(tick_from(layout, same_ms), any);
}

/*
 * Raise the floor of a namespace not granted from yet to where it begins, before
 * the first grant and in the same transaction.  A copy of a database has marks, but
 * none above its floor.
 */
static bool
begin_after_dropped(const IdgenRound *round, IdgenJob *job, const IdgenNamespace *ns)
{
	int64		begin;

	job->marks->begun = job->marks->begun ||
		idgen_marks_highest(job->marks) > job->marks->floor;
	if (job->marks->begun)
		return true;
	begin = begins_at(round, &ns->row.layout, job->name);
	if (begin <= job->marks->floor)
		return true;
	idgen_namespace_rows_raise_floor(job->name, begin);
	idgen_namespace_rows_reset_sums(job->name);
	job->marks->loaded = false;
	return bring_marks(job);
}

/* The Unix ms at which a tick begins. */
static int64
unix_ms(const IdgenLayout *layout, int64 tick)
{
	int64		ms;

	return idgen_layout_unix_ms(layout, Max(tick, 0), &ms) ? ms : IDGEN_UNIX_MS_MAX;
}

/*
 * Say once in the life of this process what was granted before: whoever drops the
 * namespace later knows then what was issued since.
 */
static void
pass_on(IdgenJob *job, const IdgenNamespace *ns)
{
	IdgenMarks *marks = job->marks;

	if (marks->inherited)
		return;
	idgen_ended_inherit(MyDatabaseId, job->name,
						unix_ms(&ns->row.layout,
								Max(Max(idgen_marks_highest(marks), marks->floor),
									marks->external_end)));
	marks->inherited = true;
}

/* Nothing is granted that nobody could confirm. */
static bool
quorum_available(IdgenJob *job)
{
	IdgenError error;
	bool		may_come;

	if (idgen_quorum_available(&error, &may_come))
		return true;
	fail(job, error.kind, error.detail, error.hint, may_come);
	return false;
}

/*
 * See that a namespace may be granted from.  False with the reason in
 * job->failure; NONE if the requester is to look again.
 */
static bool
open_namespace(const IdgenRound *round, IdgenJob *job)
{
	IdgenNamespace *ns;

	if (!idgen_policy_hold(job->name, &job->error))
	{
		job->retry = true;
		return false;
	}
	ns = idgen_namespace_find(job->name);
	if (round->clock.verdict == IDGEN_CLOCK_AHEAD)
		idgen_clock_judge_set_error(&round->clock, &job->error);
	else if (ns == NULL)
		fail(job, IDGEN_ERROR_UNDEFINED, NULL, NULL, false);
	else if (ns->row.retired || !ns->row.issuing)
		fail(job, IDGEN_ERROR_RETIRED,
			 ns->row.retired ? NULL : "It was created for decoding only.", NULL, false);
	else if (ns->format_changed)
		fail(job, IDGEN_ERROR_UNAVAILABLE, "Its format was changed from outside.",
			 "Undo the change: IDs of two formats cannot be told apart.", false);
	else
		/* taken over, or dropped and created again, since it was asked for */
		job->changed = !idgen_same_uuid(&ns->authority.uuid, &job->uuid);
	if (job->error.kind != IDGEN_ERROR_NONE || job->changed)
		return false;

	job->marks = idgen_marks_get(&job->uuid, job->name);
	if (!job->marks->verified)
	{
		IdgenError error;

		switch (idgen_fence_verify(ns, &error))
		{
			case IDGEN_OWNERSHIP_OURS:
				job->marks->verified = true;
				idgen_stats_set_copied(job_stats(job), false);
				break;
			case IDGEN_OWNERSHIP_CHANGED:
				/* whoever asked finds the new uuid */
				job->changed = true;
				return false;
			case IDGEN_OWNERSHIP_REFUSED:
				idgen_stats_set_copied(job_stats(job), true);
				fail(job, error.kind, error.detail, error.hint, false);
				return false;
		}
	}
	if (!bring_marks(job) || !begin_after_dropped(round, job, ns))
		return false;
	pass_on(job, ns);
	if (ns->quorum && !quorum_available(job))
		return false;
	job->ns = ns;
	job->now = idgen_layout_tick_at(&ns->row.layout, round->clock.wall_ms);
	job->not_before = idgen_layout_tick_at(&ns->row.layout, round->clock.latest_ms);
	return true;
}

/* --------------------------------------------------------------------
 * Deciding
 * -------------------------------------------------------------------- */

static IdgenGrantVerdict
decide(const IdgenJob *job, int64 high_water, int64 eligible, int64 length,
	   IdgenGrant *grant, int64 *retry_at)
{
	const IdgenLayout *layout = &job->ns->row.layout;
	IdgenGrantFacts facts = {
		.now = job->now,
		.eligible = eligible,
		.high_water = Max(high_water, job->marks->floor),
		.length = length,
		.horizon = idgen_round_horizon(job->ns)
	};

	return idgen_grant_decide(&facts, idgen_layout_tick_count(layout), grant,
							  retry_at);
}

static IdgenItem *
add_item(IdgenRound *round, IdgenJob *job, int32 worker, const IdgenMark *mark,
		 const IdgenGrant *grant)
{
	IdgenItem  *item = &round->items[round->item_count++];

	Assert(round->item_count <= round->item_max);
	memset(item, 0, sizeof(*item));
	item->job = (int) (job - round->jobs);
	item->slot = -1;
	item->request = -1;
	item->row.namespace_name = job->name;
	item->row.marks = job->marks;
	item->row.worker = worker;
	item->row.mark = mark;
	item->row.grant_id = idgen_random_number();
	item->row.grant = *grant;
	item->row.now = job->now;
	return item;
}

/* Has this round decided a grant for a worker already? */
static bool
decided_for(const IdgenRound *round, const IdgenJob *job, int32 worker)
{
	for (int i = 0; i < round->item_count; i++)
		if (&round->jobs[round->items[i].job] == job &&
			round->items[i].row.worker == worker)
			return true;
	return false;
}

/* --- a worker for a fresh incarnation */

/* Insert a number into an ascending array, unless it is there. */
static size_t
insert_sorted(int64 *numbers, size_t count, int64 number)
{
	size_t		at = count;

	while (at > 0 && numbers[at - 1] > number)
		at--;
	if (at > 0 && numbers[at - 1] == number)
		return count;
	memmove(&numbers[at + 1], &numbers[at], (count - at) * sizeof(int64));
	numbers[at] = number;
	return count + 1;
}

/* Add the workers that cursors of this server hold, or this round gave away. */
static size_t
add_held(const IdgenRound *round, const IdgenJob *job, int64 *workers, size_t count)
{
	for (int i = 0; i < round->survey_count; i++)
		if (idgen_same_uuid(&round->surveys[i].namespace_uuid, &job->uuid))
			count = insert_sorted(workers, count, round->surveys[i].worker);
	for (int i = 0; i < round->item_count; i++)
		if (&round->jobs[round->items[i].job] == job)
			count = insert_sorted(workers, count, round->items[i].row.worker);
	return count;
}

static IdgenWorkerRange
worker_range(const IdgenNamespace *ns)
{
	return (IdgenWorkerRange)
	{
		.first = ns->row.first_worker,
			.last = ns->row.last_worker,
			.modulus = ns->authority.split_modulus,
			.remainder = ns->authority.split_remainder
	};
}

/*
 * Choose a worker for a fresh incarnation: any free one, else the one whose
 * reservation ends first, or ended first, of an incarnation that lapsed without
 * saying so.  False if there is none at all.
 */
static bool
choose_worker(const IdgenRound *round, const IdgenJob *job, int32 *worker)
{
	IdgenWorkerRange range = worker_range(job->ns);
	size_t		room = job->marks->count + round->survey_count +
		round->item_count + 1;
	int64	   *busy = palloc(room * sizeof(int64));
	int64	   *taken;
	size_t		count;
	int64		chosen;

	taken = idgen_marks_taken(job->marks, job->now, &count);
	memcpy(busy, taken, count * sizeof(int64));
	count = add_held(round, job, busy, count);
	chosen = idgen_worker_choose(&range, busy, count,
								 (uint64) idgen_random_number());
	if (chosen < 0)
	{
		count = add_held(round, job, busy, 0);
		chosen = idgen_worker_earliest(&range, idgen_marks_list(job->marks),
									   job->marks->count, busy, count);
	}
	*worker = (int32) chosen;
	return chosen >= 0;
}

/*
 * No worker can be granted before retry_at.  Behind a fence what counts is when
 * the first ID can be issued, which is when the floor is reached; after a step
 * back of the clock, when it has caught up.
 */
static void
set_beyond_horizon(IdgenError *error, const IdgenRound *round,
				   const IdgenJob *job, int64 retry_at)
{
	if (job->not_before > job->now)
		idgen_clock_judge_set_error(&round->clock, error);
	else if (job->marks->floor > job->now)
		set_until(error, IDGEN_ERROR_NOT_YET, job->ns, job->marks->floor);
	else
		set_until(error, IDGEN_ERROR_NO_WORKER, job->ns, retry_at);
}

/* --- cursors of this server */

/* Is this cursor due for more?  An unreadable one is looked at next time. */
static bool
cursor_due(const IdgenJob *job, const IdgenCursorSurvey *survey)
{
	return survey->readable &&
		job->now >= idgen_grant_due_along(survey->granted_end,
										  idgen_round_cursor_length(job),
										  idgen_round_horizon(job->ns),
										  job->ns->run_ahead);
}

/* How a grant comes to a cursor that is told of here; NULL is a fresh one. */
static IdgenGrantTiming
timing_of(const IdgenJob *job, const IdgenGrant *grant,
		  const IdgenCursorSurvey *survey)
{
	int64		length = idgen_round_cursor_length(job);
	IdgenGrantTiming timing = {
		.grant = *grant,
		.length = length,
		.wanted_at = job->now,
		.dry_at = PG_INT64_MAX,
		.decided_at = job->now
	};

	if (survey != NULL)
	{
		timing.wanted_at = idgen_grant_due_at(survey->granted_end, length,
											  idgen_round_horizon(job->ns),
											  job->ns->run_ahead);
		timing.dry_at = survey->granted_end - job->ns->run_ahead;
	}
	return timing;
}

/*
 * The worker's mark may be past what its cursor has: a grant was committed, and
 * whoever was to publish it ended before.  It is that cursor's still.
 */
static bool
publish_again(const IdgenJob *job, const IdgenCursorSurvey *survey,
			  const IdgenMark *mark)
{
	IdgenCursorGrant grant = {
		.slot = survey->slot,
		.generation = survey->generation,
		.worker = survey->worker,
		.incarnation = survey->incarnation
	};
	IdgenLastGrant last;

	if (mark->high_water == survey->granted_end ||
		!idgen_grant_rows_last(job->name, survey->worker, &last) ||
		last.incarnation != survey->incarnation ||
		last.grant.start < survey->granted_end || last.grant.end <= job->now)
		return false;
	grant.timing = timing_of(job, &last.grant, survey);
	idgen_confirm_grant(job->ns, &grant);
	return true;
}

/* Grant more to a cursor that lives. */
static void
extend_cursor(IdgenRound *round, IdgenJob *job, const IdgenCursorSurvey *survey)
{
	const IdgenMark *mark = idgen_marks_find(job->marks, survey->worker);
	IdgenGrant	grant;
	int64		retry_at;
	IdgenItem  *item;

	if (mark == NULL || mark->incarnation != survey->incarnation)
	{
		/* the worker was given to somebody else; that cursor is over */
		idgen_pool_kill_slot(survey->slot, survey->generation);
		return;
	}
	if (publish_again(job, survey, mark))
		return;
	switch (decide(job, mark->high_water, job->now, idgen_round_cursor_length(job),
				   &grant, &retry_at))
	{
		case IDGEN_GRANT_OK:
			break;
		case IDGEN_GRANT_BEYOND_HORIZON:
			return;				/* it has all it can have */
		case IDGEN_GRANT_FIELD_EXHAUSTED:
			if (job->now >= idgen_layout_tick_count(&job->ns->row.layout))
				fail(job, IDGEN_ERROR_EXHAUSTED, NULL, NULL, false);
			return;
		case IDGEN_GRANT_BAD_REQUEST:
			elog(ERROR, "idgen could not decide a grant");
	}
	item = add_item(round, job, survey->worker, mark, &grant);
	item->slot = survey->slot;
	item->generation = survey->generation;
	item->timing = timing_of(job, &grant, survey);
	item->row.incarnation = survey->incarnation;
}

/*
 * The earliest tick of a fresh incarnation.  Where one cursor is all there is,
 * IDs promise to be in real-time order, also after the cursor before it, be it
 * of a server that was restarted within the tick, or of a policy that let it run
 * further ahead of the clock.
 */
static int64
eligible_tick(const IdgenJob *job)
{
	int64		run_ahead_ms;

	if (idgen_max_workers_per_namespace > 1)
		return job->not_before;
	run_ahead_ms = idgen_incarnation_rows_run_ahead(job->name, job->now,
											  job->ns->row.run_ahead_ms);
	return idgen_grant_ordered_start(job->not_before,
									 run_ahead_ms / job->ns->row.layout.tick_ms,
									 idgen_marks_highest(job->marks));
}

/* Whose a slot will be: a fresh incarnation of a worker. */
static void
describe_cursor(IdgenJob *job, int32 worker, IdgenSlotInfo *owner)
{
	const IdgenLayout *layout = &job->ns->row.layout;
	IdgenStats *stats = job_stats(job);

	memset(owner, 0, sizeof(*owner));
	owner->database = MyDatabaseId;
	owner->namespace_uuid = job->uuid;
	strlcpy(owner->namespace_name, job->name, NAMEDATALEN);
	owner->worker = worker;
	owner->incarnation = idgen_random_number();
	owner->epoch_ms = layout->epoch_ms;
	owner->tick_ms = layout->tick_ms;
	owner->stats = stats == NULL ? -1 : (int) (stats - idgen_shared->stats);
	owner->owner = get_role_oid(job->ns->row.owner, true);
	owner->since_ms = idgen_clock_wall_ms();
}

/* Open a cursor: a fresh incarnation with its first grant. */
static void
open_cursor(IdgenRound *round, IdgenJob *job, bool first)
{
	const IdgenMark *mark;
	IdgenGrant	grant;
	int64		retry_at;
	int32		worker;
	IdgenItem  *item;
	IdgenSlotInfo owner;
	int			slot;
	uint64		generation;

	if (!choose_worker(round, job, &worker))
	{
		if (first)
			fail(job, IDGEN_ERROR_NO_WORKER, NULL, NULL, false);
		return;
	}
	mark = idgen_marks_find(job->marks, worker);
	switch (decide(job, mark ? mark->high_water : 0, eligible_tick(job),
				   idgen_round_cursor_length(job), &grant, &retry_at))
	{
		case IDGEN_GRANT_OK:
			break;
		case IDGEN_GRANT_BEYOND_HORIZON:
			if (first && job->error.kind == IDGEN_ERROR_NONE)
				set_beyond_horizon(&job->error, round, job, retry_at);
			return;
		case IDGEN_GRANT_FIELD_EXHAUSTED:
			if (first)
				fail(job, IDGEN_ERROR_EXHAUSTED, NULL, NULL, false);
			return;
		case IDGEN_GRANT_BAD_REQUEST:
			elog(ERROR, "idgen could not decide a grant");
	}
	describe_cursor(job, worker, &owner);
	slot = idgen_pool_reserve(&owner, first, &generation);
	if (slot < 0)
	{
		if (first)
			fail(job, IDGEN_ERROR_UNAVAILABLE,
				 "All idgen cursors of this server are in use, and this database or this owner has its share of them.",
				 "Raise \"idgen.max_cursors\", which needs a restart, or lower \"idgen.max_workers_per_namespace\".",
				 true);
		return;
	}
	item = add_item(round, job, worker, mark, &grant);
	item->slot = slot;
	item->generation = generation;
	item->timing = timing_of(job, &grant, NULL);
	item->row.fresh = true;
	item->row.incarnation = owner.incarnation;
	item->row.run_ahead_ms = job->ns->row.run_ahead_ms;
}

/*
 * Somebody waits, and no cursor was granted more.  If they all have everything
 * up to the horizon, what they have is used up: say until when.
 */
static void
check_used_up(const IdgenRound *round, IdgenJob *job)
{
	int64		earliest = PG_INT64_MAX;

	for (int i = 0; i < round->survey_count; i++)
	{
		const IdgenMark *mark;

		if (!idgen_same_uuid(&round->surveys[i].namespace_uuid, &job->uuid))
			continue;
		mark = idgen_marks_find(job->marks, round->surveys[i].worker);
		if (mark != NULL)
			earliest = Min(earliest, mark->high_water);
	}
	if (earliest != PG_INT64_MAX && job->error.kind == IDGEN_ERROR_NONE &&
		earliest >= job->now + idgen_round_horizon(job->ns))
		set_until(&job->error, IDGEN_ERROR_CAPACITY, job->ns, earliest);
}

/* Decide everything for the cursors of one namespace. */
static void
decide_cursors(IdgenRound *round, IdgenJob *job)
{
	int			cursor_count = idgen_confirm_count(&job->uuid, true);
	int			item_count = round->item_count;

	for (int i = 0; i < round->survey_count; i++)
	{
		IdgenCursorSurvey *survey = &round->surveys[i];

		if (!idgen_same_uuid(&survey->namespace_uuid, &job->uuid))
			continue;
		cursor_count++;
		if (cursor_due(job, survey) &&
			!idgen_confirm_has_slot(survey->slot, survey->generation))
			extend_cursor(round, job, survey);
	}
	if (cursor_count == 0)
	{
		if (job->cursor_wanted)
			open_cursor(round, job, true);
	}
	else if (cursor_count <= job->cursors_seen &&
			 cursor_count < idgen_max_workers_per_namespace)
		open_cursor(round, job, false);
	if (cursor_count > 0 && job->cursor_wanted && round->item_count == item_count)
		check_used_up(round, job);
}

/* --- external generators */

static void
reject(IdgenJob *job, IdgenAnswer *answer, const char *detail, const char *hint)
{
	idgen_stats_add(job_stats(job), IDGEN_COUNTER_REJECTIONS, 1);
	idgen_error_set(&answer->error, IDGEN_ERROR_REJECTED, detail, hint);
}

/* May a role have external incarnations of a namespace? */
static bool
may_acquire(const IdgenNamespace *ns, Oid role)
{
	return idgen_namespace_owned(ns, role) ||
		idgen_scan_privileged(ns->name, IDGEN_PRIVILEGE_ACQUIRE, role, 0);
}

/*
 * Is there a worker left for one more external incarnation of this role?  The
 * server keeps some for itself, and one role has at most half of the rest.
 */
static bool
external_worker_left(const IdgenRound *round, const IdgenJob *job,
					 const char *role, IdgenAnswer *answer)
{
	IdgenWorkerRange range = worker_range(job->ns);
	int64		all_max = idgen_external_workers_max(idgen_worker_range_size(&range),
													 idgen_max_workers_per_namespace);
	int64		role_max = idgen_external_role_max(all_max);
	int64		all;
	int64		of_role;

	idgen_marks_count_external(job->marks, &range, job->now, role, &all, &of_role);
	for (int i = 0; i < round->item_count; i++)
	{
		const IdgenItem *item = &round->items[i];

		if (&round->jobs[item->job] != job || item->row.holder == NULL)
			continue;
		all++;
		if (strcmp(item->row.holder->role, role) == 0)
			of_role++;
	}
	if (all < all_max && of_role < role_max)
		return true;
	if (all_max == 0)
	{
		idgen_error_set(&answer->error, IDGEN_ERROR_NO_WORKER,
						  "It has a single worker, which is for IDs issued in the database.",
						  "Use a namespace with more workers.");
		return false;
	}
	idgen_error_set(&answer->error, IDGEN_ERROR_NO_WORKER,
					  all >= all_max ?
					  "All workers for external generators have unexpired grants." :
					  "One role may hold half of the workers for external generators, and this role does.",
					  "Retry when grants have ended; deactivate incarnations no longer used, so that they get no more.");
	return false;
}

/* Activate an external incarnation. */
static void
decide_activation(IdgenRound *round, IdgenJob *job, int request)
{
	const IdgenMailTaken *taken = &round->requests[request];
	IdgenAnswer *answer = &round->answers[request];
	const char *role = GetUserNameFromId(taken->role, true);
	const IdgenMark *mark;
	IdgenGrant	grant;
	int64		retry_at;
	int32		worker;
	IdgenItem  *item;

	if (role == NULL || !may_acquire(job->ns, taken->role))
	{
		idgen_error_set(&answer->error, IDGEN_ERROR_FORBIDDEN,
						  "Activation needs the privilege \"acquire\".",
						  "Its owner can give it with idgen_allow().");
		return;
	}
	if (!external_worker_left(round, job, role, answer))
		return;
	if (!choose_worker(round, job, &worker))
	{
		idgen_error_set(&answer->error, IDGEN_ERROR_NO_WORKER, NULL, NULL);
		return;
	}
	mark = idgen_marks_find(job->marks, worker);
	switch (decide(job, mark ? mark->high_water : 0, job->not_before,
				   usual_length(job->ns), &grant, &retry_at))
	{
		case IDGEN_GRANT_OK:
			break;
		case IDGEN_GRANT_BEYOND_HORIZON:
			set_beyond_horizon(&answer->error, round, job, retry_at);
			return;
		case IDGEN_GRANT_FIELD_EXHAUSTED:
			idgen_error_set(&answer->error, IDGEN_ERROR_EXHAUSTED, NULL,
							  NULL);
			return;
		case IDGEN_GRANT_BAD_REQUEST:
			elog(ERROR, "idgen could not decide a grant");
	}
	item = add_item(round, job, worker, mark, &grant);
	item->request = request;
	item->row.external = true;
	item->row.fresh = true;
	item->row.incarnation = idgen_random_number();
	strlcpy(item->holder.role, role, NAMEDATALEN);
	item->holder.mail = &taken->mail;
	item->row.holder = &item->holder;
	item->issues_until = job->now;
}

/*
 * Does a request come from the holder of the incarnation it names?  The answer
 * is the same for an unknown incarnation, a wrong token and another role: it
 * tells nothing, nor does the time it takes.  *row is the incarnation's.
 */
bool
idgen_round_is_holder(const IdgenMailTaken *taken, IdgenIncarnationRow *row)
{
	const char *role = GetUserNameFromId(taken->role, true);
	uint8		difference = 0;

	if (!idgen_incarnation_rows_read(taken->mail.incarnation, row))
		return false;
	for (int i = 0; i < IDGEN_TOKEN_HASH_SIZE; i++)
		difference |= row->token_hash[i] ^ taken->mail.token_hash[i];
	return difference == 0 && row->external && role != NULL &&
		strcmp(row->role, role) == 0;
}

/* Fill in a grant as an answer. */
static void
set_granted(IdgenAnswer *answer, const IdgenNamespace *ns, int32 worker,
			int64 incarnation, int64 grant_id, const IdgenGrant *grant)
{
	idgen_error_set(&answer->error, IDGEN_ERROR_NONE, NULL, NULL);
	answer->worker = worker;
	answer->incarnation = incarnation;
	answer->grant_id = grant_id;
	answer->start_ms = grant->start * ns->row.layout.tick_ms;
	answer->end_ms = grant->end * ns->row.layout.tick_ms;
}

/*
 * An incarnation has all it can have.  What ends later than any grant of now
 * was granted before the clock was set back.
 */
static void
set_granted_up(IdgenError *error, const IdgenJob *job, int64 granted_end,
			   int64 retry_at)
{
	if (granted_end > job->now + idgen_round_horizon(job->ns))
	{
		set_until(error, IDGEN_ERROR_CLOCK, job->ns, retry_at);
		idgen_error_copy(error->detail,
						   "The incarnation was granted a time that the clock, set back since, has not reached again.");
		idgen_error_copy(error->hint,
						   "Retry then, or activate a fresh incarnation with idgen_activate().");
		return;
	}
	set_until(error, IDGEN_ERROR_NOT_YET, job->ns, retry_at);
	idgen_error_copy(error->detail, "The incarnation is granted up to the horizon.");
	idgen_error_copy(error->hint, "Issue from what it has been granted, and ask again then.");
}

/* A new grant for an incarnation in good standing. */
static void
decide_next(IdgenRound *round, IdgenJob *job, int request,
			const IdgenIncarnationRow *row)
{
	const IdgenMail *mail = &round->requests[request].mail;
	IdgenAnswer *answer = &round->answers[request];
	const IdgenMark *mark = idgen_marks_find(job->marks, row->worker);
	int64		length = mail->length_ms == 0 ? usual_length(job->ns) :
		idgen_layout_ticks_ceil(&job->ns->row.layout, mail->length_ms);
	IdgenGrant	grant;
	int64		retry_at;
	IdgenItem  *item;

	if (decided_for(round, job, row->worker))
	{
		/* two requests of one incarnation at a time: judge the second after
		 * the first, in the next round */
		idgen_error_set(&answer->error, IDGEN_ERROR_AGAIN, NULL, NULL);
		return;
	}
	switch (decide(job, mark->high_water, job->now, length, &grant, &retry_at))
	{
		case IDGEN_GRANT_OK:
			break;
		case IDGEN_GRANT_BEYOND_HORIZON:
			set_granted_up(&answer->error, job, mark->high_water, retry_at);
			return;
		case IDGEN_GRANT_FIELD_EXHAUSTED:
			idgen_error_set(&answer->error, IDGEN_ERROR_EXHAUSTED, NULL,
							  NULL);
			return;
		case IDGEN_GRANT_BAD_REQUEST:
			elog(ERROR, "idgen could not decide a grant");
	}
	item = add_item(round, job, row->worker, mark, &grant);
	item->request = request;
	item->row.external = true;
	item->row.incarnation = mail->incarnation;
	item->row.request_id = &mail->request_id;
	item->row.asked_ms = mail->length_ms;
	item->issues_until = Max(job->now, mark->high_water);
}

/* The next grant of an external incarnation. */
static void
decide_acquisition(IdgenRound *round, IdgenJob *job, int request)
{
	const IdgenMailTaken *taken = &round->requests[request];
	const IdgenMail *mail = &taken->mail;
	IdgenAnswer *answer = &round->answers[request];
	IdgenIncarnationRow row;
	IdgenLastGrant last;
	IdgenChainFacts facts;
	const IdgenMark *mark;

	if (!idgen_round_is_holder(taken, &row) ||
		strcmp(row.namespace_name, job->name) != 0)
	{
		reject(job, answer, "It is unknown, or the token is not its token, or another role activated it.",
			   "Activate a fresh incarnation with idgen_activate().");
		return;
	}
	if (!row.active)
	{
		reject(job, answer, "It has ended.",
			   "Activate a fresh incarnation with idgen_activate().");
		return;
	}

	memset(&last, 0, sizeof(last));
	mark = idgen_marks_find(job->marks, row.worker);
	facts.holds_worker = mark != NULL && mark->incarnation == mail->incarnation &&
		idgen_grant_rows_last(job->name, row.worker, &last) &&
		last.incarnation == mail->incarnation;
	facts.is_last_request = last.has_request &&
		idgen_same_uuid(&last.request_id, &mail->request_id);
	facts.after_grant = mail->after_grant;
	facts.last_grant = last.grant_id;

	/* far back only where it decides between stale and forked */
	facts.is_recorded = facts.holds_worker && !facts.is_last_request &&
		idgen_grant_rows_request_recorded(job->name, row.worker, mail->incarnation,
									  &mail->request_id,
									  facts.after_grant == facts.last_grant ?
									  RECORDED_NEAR : RECORDED_FAR);

	switch (idgen_chain_judge(&facts))
	{
		case IDGEN_CHAIN_NEXT:
			decide_next(round, job, request, &row);
			break;
		case IDGEN_CHAIN_REPEATED:
			if (mail->length_ms != last.asked_ms)
				idgen_error_set(&answer->error, IDGEN_ERROR_OTHER_LENGTH,
								  NULL, NULL);
			else
				set_granted(answer, job->ns, row.worker, mail->incarnation,
						last.grant_id, &last.grant);
			break;
		case IDGEN_CHAIN_STALE:
			reject(job, answer, "This request was answered before, and a later one since.",
				   "Use a new request id for a new grant.");
			break;
		case IDGEN_CHAIN_FORKED:
			idgen_incarnation_rows_end(mail->incarnation);
			idgen_marks_note_ended(job->marks, mail->incarnation);
			idgen_stats_add(job_stats(job), IDGEN_COUNTER_FORKS, 1);
			reject(job, answer, "The request does not follow its last grant: two processes use the same incarnation. It has been ended.",
				   "Each process activates an incarnation of its own with idgen_activate().");
			break;
		case IDGEN_CHAIN_TAKEN:
			reject(job, answer, "Its grants ended, and its worker was given to another incarnation.",
				   "Activate a fresh incarnation with idgen_activate().");
			break;
	}
}

/* Decide what external generators ask of one namespace. */
static void
decide_externals(IdgenRound *round, IdgenJob *job)
{
	for (int i = 0; i < round->request_count; i++)
	{
		const IdgenMail *mail = &round->requests[i].mail;

		if (!idgen_round_grants_to(&round->requests[i]) ||
			!idgen_same_uuid(&mail->namespace_uuid, &job->uuid))
			continue;
		memset(&round->answers[i], 0, sizeof(IdgenAnswer));
		if (mail->kind == IDGEN_REQUEST_ACTIVATE)
			decide_activation(round, job, i);
		else
			decide_acquisition(round, job, i);
	}
}

/* --------------------------------------------------------------------
 * Locking
 * -------------------------------------------------------------------- */

/*
 * Lock the rows to be written, without waiting.  A namespace of which some
 * cannot be locked drops out of the round; its marks are read anew next time,
 * since the row may have been not locked but changed.
 */
static void
lock_rows(IdgenRound *round)
{
	int			count = 0;
	int			kept = 0;
	IdgenMarks **marks = palloc((round->job_count + 1) * sizeof(IdgenMarks *));
	int		   *jobs = palloc((round->job_count + 1) * sizeof(int));
	ItemPointerData *tids = palloc((round->item_count + 1) *
								   sizeof(ItemPointerData));
	int		   *items = palloc((round->item_count + 1) * sizeof(int));
	bool	   *locked;

	for (int i = 0; i < round->job_count; i++)
		for (int j = 0; j < round->item_count; j++)
			if (round->items[j].job == i)
			{
				marks[count] = round->jobs[i].marks;
				jobs[count++] = i;
				break;
			}
	locked = idgen_mark_rows_lock_authorities(marks, count);
	for (int i = 0; i < count; i++)
		round->jobs[jobs[i]].dropped_out = !locked[i];

	count = 0;
	for (int i = 0; i < round->job_count; i++)
		for (int j = 0; j < round->item_count; j++)
			if (round->items[j].job == i && round->items[j].row.external)
			{
				marks[count] = round->jobs[i].marks;
				jobs[count++] = i;
				break;
			}
	locked = idgen_mark_rows_lock_floors(marks, count);
	for (int i = 0; i < count; i++)
		round->jobs[jobs[i]].dropped_out |= !locked[i];

	count = 0;
	for (int i = 0; i < round->item_count; i++)
		if (round->items[i].row.mark != NULL)
		{
			tids[count] = round->items[i].row.mark->tid;
			items[count++] = i;
		}
	locked = idgen_mark_rows_lock_marks(tids, count);
	for (int i = 0; i < count; i++)
		if (!locked[i])
			round->jobs[round->items[items[i]].job].dropped_out = true;

	for (int i = 0; i < round->item_count; i++)
	{
		IdgenItem  *item = &round->items[i];
		IdgenJob   *job = &round->jobs[item->job];

		if (!job->dropped_out)
		{
			round->items[kept] = *item;
			if (item->row.holder != NULL)
				round->items[kept].row.holder = &round->items[kept].holder;
			kept++;
			continue;
		}
		job->ns = NULL;
		job->marks->loaded = false;
		fail(job, IDGEN_ERROR_UNAVAILABLE,
			 "Another session has locked its high-water marks.", LOCKED_HINT, true);
		if (item->slot >= 0 && item->row.fresh)
			idgen_pool_unreserve(item->slot, item->generation);
	}
	round->item_count = kept;
}

/* --------------------------------------------------------------------
 * Transactions
 * -------------------------------------------------------------------- */

/* Begin a transaction of the worker; memory stays in "context". */
void
idgen_round_begin(MemoryContext context)
{
	generation_before = idgen_pool_last_generation();
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	idgen_query_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(context);
}

/*
 * Commit.  With synchronous_commit = local a transaction that wrote is flushed
 * when CommitTransactionCommand returns; the explicit flush costs nothing then,
 * and holds if somebody ever weakens the former.
 */
void
idgen_round_commit(MemoryContext context)
{
	idgen_query_end();
	PopActiveSnapshot();
	CommitTransactionCommand();
	XLogFlush(XactLastCommitEnd);
	MemoryContextSwitchTo(context);
}

/*
 * Recover from an error, in a PG_CATCH block; its message is copied, and needs room
 * for IDGEN_ERROR_TEXT_MAX.  The marks
 * in memory may be ahead of the tables now, so they are read anew.  Cursors that
 * this transaction reserved come to nothing; those of earlier ones, which wait
 * for standbys, are none of its business.
 */
void
idgen_round_abort(MemoryContext context, char *message)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	AbortCurrentTransaction();
	MemoryContextSwitchTo(context);
	idgen_marks_forget_all();
	idgen_pool_release_reserved(MyDatabaseId, generation_before);
	idgen_confirm_forget_first(generation_before);
	idgen_error_copy(message, error->message);
	FreeErrorData(error);
}

/* --------------------------------------------------------------------
 * The round
 * -------------------------------------------------------------------- */

static void
count_grant(IdgenJob *job, int64 latency_us)
{
	IdgenStats *stats = job_stats(job);

	idgen_stats_add(stats, IDGEN_COUNTER_GRANTS, 1);
	idgen_stats_add(stats, IDGEN_COUNTER_GRANT_LATENCY_US, (uint64) latency_us);
	idgen_stats_max(stats, IDGEN_COUNTER_GRANT_LATENCY_MAX_US, (uint64) latency_us);
}

/*
 * An external generator is granted a time to come.  Usually it has asked before its
 * grant ends; else it waits until then: behind its worker's last holder where workers
 * are short, or behind a fence.
 */
static void
count_ahead(IdgenJob *job, const IdgenItem *item)
{
	IdgenStats *stats = job_stats(job);
	int64		start = item->row.grant.start;
	uint64		wait_us;

	if (start <= job->now)
		return;
	idgen_stats_add(stats, IDGEN_COUNTER_GRANTS_AHEAD, 1);
	if (start <= item->issues_until)
		return;
	wait_us = (uint64) (start - item->issues_until) *
		(uint64) job->ns->row.layout.tick_ms * 1000;
	idgen_stats_add(stats, IDGEN_COUNTER_HOLDER_WAITS, 1);
	idgen_stats_add(stats, IDGEN_COUNTER_HOLDER_WAIT_US, wait_us);
	idgen_stats_max(stats, IDGEN_COUNTER_HOLDER_WAIT_MAX_US, wait_us);
}

/*
 * Publish what is durable now.  What external generators get is answered by
 * the caller.
 */
static void
publish(IdgenRound *round)
{
	for (int i = 0; i < round->job_count; i++)
		if (round->jobs[i].changed)
			idgen_pool_kill(MyDatabaseId, &round->jobs[i].uuid);

	for (int i = 0; i < round->item_count; i++)
	{
		IdgenItem  *item = &round->items[i];
		IdgenGrantRow *row = &item->row;
		IdgenJob   *job = &round->jobs[item->job];

		count_grant(job, idgen_clock_monotonic_us() - round->begun_us);
		if (item->request >= 0)
		{
			count_ahead(job, item);
			set_granted(&round->answers[item->request], job->ns, row->worker,
						row->incarnation, row->grant_id, &row->grant);
		}
		else
		{
			IdgenCursorGrant grant = {
				.slot = item->slot,
				.generation = item->generation,
				.first = row->fresh,
				.worker = row->worker,
				.incarnation = row->incarnation,
				.timing = item->timing
			};

			idgen_confirm_grant(job->ns, &grant);
		}
	}
}

/*
 * Once in the worker's life, and when a cursor has gone: only incarnations with a
 * cursor live, and those whose first grant waits for standbys.
 */
static void
end_strangers(const IdgenRound *round)
{
	int			count = round->survey_count;
	int64	   *living = palloc((count + idgen_confirm_count(NULL, true) + 1) *
								sizeof(int64));

	for (int i = 0; i < count; i++)
		living[i] = round->surveys[i].incarnation;
	count += idgen_confirm_first_incarnations(&living[count]);
	idgen_incarnation_rows_end_strangers(&idgen_shared->boot, living, count);
}

/* The next round is to end incarnations whose cursors are gone. */
void
idgen_round_end_strangers(void)
{
	strangers_ended = false;
}

/* Log what an operator should know of a namespace. */
static void
alert(IdgenJob *job)
{
	IdgenWorkerRange range = worker_range(job->ns);

	idgen_alert_check(job->ns, job->marks, job->now, &range, job_stats(job));
}

/*
 * May IDs of this namespace be of later than the clock?  Also without running ahead:
 * the rest of the tick is.  After a crash nobody knows what was issued of it, and a
 * tick of a millisecond is over by then.
 */
static bool
issues_ahead(const IdgenNamespace *ns)
{
	return ns->run_ahead > 0 || ns->row.layout.tick_ms > 1;
}

/* Will a grant be issued from outside, or ahead of the clock, past what is promised? */
static bool
needs_promise(const IdgenGrantRow *row, const IdgenNamespace *ns, int64 end_ms)
{
	const IdgenMarks *marks = row->marks;

	return (row->external || issues_ahead(ns)) &&
		(end_ms > marks->promised_ms ||
		 (row->external && !marks->promised_external));
}

/*
 * What will be issued outside, or ahead of the clock, has a bound on disk before it
 * is granted, at most once a horizon.  A bound counts as promised when the file has
 * it: if that fails, this raises, and the next grant asks for it again.
 */
static void
promise(IdgenRound *round)
{
	int64	   *bounds_ms = palloc0((round->item_count + 1) * sizeof(int64));
	bool		unsaved = false;

	for (int i = 0; i < round->item_count; i++)
	{
		const IdgenGrantRow *row = &round->items[i].row;
		const IdgenNamespace *ns = round->jobs[round->items[i].job].ns;
		const IdgenLayout *layout = &ns->row.layout;
		int64		end_ms = unix_ms(layout, row->grant.end);

		if (needs_promise(row, ns, end_ms))
			unsaved |= idgen_ended_promise(MyDatabaseId, ns->name, &ns->authority.uuid,
										   unix_ms(layout, idgen_marks_highest(row->marks)),
										   end_ms, layout->horizon_ms, row->external,
										   &bounds_ms[i]);
	}
	if (unsaved)
		idgen_ended_save();
	for (int i = 0; i < round->item_count; i++)
	{
		const IdgenGrantRow *row = &round->items[i].row;

		if (bounds_ms[i] == 0)
			continue;
		row->marks->promised_ms = bounds_ms[i];
		row->marks->promised_external |= row->external;
	}
}

/* Decide and write a round, in a transaction. */
static void
decide_and_write(IdgenRound *round)
{
	IdgenGrantRow *rows;

	if (!strangers_ended)
		end_strangers(round);
	for (int i = 0; i < round->job_count; i++)
	{
		if (!open_namespace(round, &round->jobs[i]))
			continue;
		decide_cursors(round, &round->jobs[i]);
		decide_externals(round, &round->jobs[i]);
		alert(&round->jobs[i]);
	}
	lock_rows(round);
	promise(round);
	rows = palloc((round->item_count + 1) * sizeof(IdgenGrantRow));
	for (int i = 0; i < round->item_count; i++)
		rows[i] = round->items[i].row;
	idgen_grant_rows_write(rows, round->item_count, &idgen_shared->boot);
}

/* Carry a round out; raises if it could not. */
static void
carry_out(IdgenRound *round)
{
	MemoryContext context = CurrentMemoryContext;
	IdgenError error;
	bool		open;

	round->begun_us = idgen_clock_monotonic_us();
	idgen_round_begin(context);

	/* inside: should either fail, the transaction gives back locks and files */
	idgen_clock_judge(&round->clock);
	idgen_clock_judge_save();
	open = idgen_table_lock_all_now(&error);
	if (open)
		decide_and_write(round);
	else
		for (int i = 0; i < round->job_count; i++)
			fail(&round->jobs[i], error.kind, error.detail, error.hint,
				 error.kind == IDGEN_ERROR_UNAVAILABLE);
	idgen_round_commit(context);
	strangers_ended |= open;
	publish(round);
	if (round->item_count > 0)
		idgen_queue_note_round(round->item_count);
}

/*
 * Carry out a round.  False if it failed; then *message and *sqlstate say why, and
 * nothing of it is in the tables or in shared memory.
 */
static bool
try_round(IdgenRound *round, char *message, int *sqlstate)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool done = false;

	PG_TRY();
	{
		carry_out(round);
		done = true;
	}
	PG_CATCH();
	{
		*sqlstate = geterrcode();
		idgen_round_abort(context, message);
	}
	PG_END_TRY();
	return done;
}

/* Log a complaint, but not the same kind for ever. */
static void
complain(const char *message, int sqlstate)
{
	int64		now_us = idgen_clock_monotonic_us();
	bool		again = sqlstate == last_complaint &&
		now_us - last_complaint_us < COMPLAIN_APART_US;

	last_complaint = sqlstate;
	last_complaint_us = now_us;
	if (!again)
		ereport(LOG,
				(errmsg("idgen authority could not grant: %s", message),
				 errdetail("It goes on trying; failures of this kind are not logged again before a minute has passed without one.")));
}

/* One job of a round as a round of its own. */
static void
serve_alone(const IdgenRound *whole, IdgenJob *job)
{
	IdgenRound	round = *whole;
	IdgenJob	fresh = *job;
	char		message[IDGEN_ERROR_TEXT_MAX];
	int			sqlstate = 0;

	idgen_error_set(&fresh.error, IDGEN_ERROR_NONE, NULL, NULL);
	fresh.retry = false;
	fresh.changed = false;
	fresh.dropped_out = false;
	round.jobs = &fresh;
	round.job_count = 1;
	round.item_count = 0;
	if (!try_round(&round, message, &sqlstate))
	{
		complain(message, sqlstate);
		fresh.ns = NULL;
		fail(&fresh, IDGEN_ERROR_UNAVAILABLE, message, NULL, true);
	}
	*job = fresh;
}

/*
 * Serve a round; every job has its outcome afterwards, and every request of an
 * external generator whose job did not fail has its answer, which "answer" gives.
 *
 * That happens as long as the policies are held by which it was decided.  A
 * transaction that fails lets go of them all, so a job that is served by itself is
 * answered before the next one is begun.
 */
void
idgen_round_serve(IdgenRound *round, void (*answer) (IdgenRound *round, IdgenJob *job))
{
	char		message[IDGEN_ERROR_TEXT_MAX];
	int			sqlstate = 0;
	bool		alone;

	round->item_max = round->survey_count + round->job_count +
		round->request_count;
	round->item_count = 0;
	round->items = palloc((round->item_max + 1) * sizeof(IdgenItem));
	round->answers = palloc0((round->request_count + 1) * sizeof(IdgenAnswer));
	alone = !try_round(round, message, &sqlstate);
	for (int i = 0; i < round->job_count; i++)
	{
		if (alone)
			serve_alone(round, &round->jobs[i]);
		answer(round, &round->jobs[i]);
	}
	idgen_policy_let_go();
	for (int i = 0; i < round->job_count; i++)
		if (!round->jobs[i].changed)
			idgen_stats_set_standing(job_stats(&round->jobs[i]),
									 &round->jobs[i].error);
}
