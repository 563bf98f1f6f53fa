/*
 * round_open.c
 *		See that a namespace may be granted from, before a round decides.
 */
#include "compat.h"

#include "authority/round.h"

#include "miscadmin.h"

#include "authority/fence.h"
#include "catalog/dropped.h"
#include "catalog/integrity.h"
#include "catalog/mark_rows.h"
#include "catalog/namespace_rows.h"
#include "catalog/policy_lock.h"
#include "catalog/tables.h"
#include "random.h"
#include "settings.h"
#include "shmem/counters.h"
#include "shmem/ended.h"

#define DAMAGED_HINT \
	"Find out who changed the tables of idgen; then call idgen_fence_namespace()."

static void
refuse_job(IdgenJob *job, IdgenErrorKind kind, const char *detail, const char *hint)
{
	IdgenError	error;

	idgen_error_set(&error, kind, detail, hint);
	idgen_job_fail(job, IDGEN_OUTCOME_REFUSED, &error);
}

/*
 * Is it still the namespace that was asked for, and may the authority grant
 * from it at all?
 */
static bool
find_namespace(const IdgenRound *round, IdgenJob *job)
{
	IdgenNamespace *ns = idgen_namespace_find(job->name);
	IdgenError	error;

	if (round->clock.verdict == IDGEN_CLOCK_AHEAD)
	{
		idgen_clock_judge_set_error(&round->clock, &error);
		idgen_job_fail(job, IDGEN_OUTCOME_REFUSED, &error);
	}
	else if (ns == NULL)
		refuse_job(job, IDGEN_ERROR_UNDEFINED, NULL, NULL);
	else if (ns->row.retired || !ns->row.issuing)
		refuse_job(job, IDGEN_ERROR_RETIRED,
				   ns->row.retired ? NULL : "It was created for decoding only.", NULL);
	else if (ns->row.handed_over)
		refuse_job(job, IDGEN_ERROR_HANDED_OVER, NULL, NULL);
	else if (ns->format_changed)
		refuse_job(job, IDGEN_ERROR_UNAVAILABLE, IDGEN_DETAIL_FORMAT_CHANGED,
				   IDGEN_HINT_FORMAT_CHANGED);
	else if (!idgen_same_uuid(&ns->authority.uuid, &job->uuid))
		/* taken over, or dropped and created again, since it was asked for */
		job->outcome = IDGEN_OUTCOME_CHANGED;
	job->ns = ns;
	return job->outcome == IDGEN_OUTCOME_SERVED;
}

/* Compare the authority with its record, once in the life of this process. */
static bool
verify(IdgenJob *job)
{
	IdgenError	error;

	if (job->marks->verified)
		return true;
	switch (idgen_fence_verify(job->ns, &error))
	{
		case IDGEN_OWNERSHIP_OURS:
			job->marks->verified = true;
			idgen_counters_set_copied(idgen_job_stats(job), false);
			return true;
		case IDGEN_OWNERSHIP_CHANGED:
			/* a session that asks again finds the new uuid */
			job->outcome = IDGEN_OUTCOME_CHANGED;
			return false;
		case IDGEN_OWNERSHIP_REFUSED:
			idgen_counters_set_copied(idgen_job_stats(job), true);
			idgen_job_fail(job, IDGEN_OUTCOME_REFUSED, &error);
			return false;
	}
	return false;
}

/*
 * Read the marks, or see that the tables still are what the marks were read
 * from.
 */
static bool
bring_marks(IdgenJob *job)
{
	IdgenMarks *marks = job->marks;

	if (marks->loaded && marks->tables_version != idgen_tables_version)
	{
		/*
		 * the version first: a change that is noticed while looking counts
		 * the next time
		 */
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
			refuse_job(job, IDGEN_ERROR_COPIED,
					   IDGEN_DETAIL_NO_IDENTITY, NULL);
			return false;
		case IDGEN_LOAD_DAMAGED:
			refuse_job(job, IDGEN_ERROR_UNAVAILABLE,
					   IDGEN_DETAIL_MARKS_DAMAGED,
					   DAMAGED_HINT);
			return false;
		case IDGEN_LOAD_ROW_CHANGED:
			refuse_job(job, IDGEN_ERROR_UNAVAILABLE, IDGEN_DETAIL_ROW_CHANGED,
					   IDGEN_HINT_ROW_CHANGED);
			return false;
	}
	return false;
}

/* Raise the floor, in this transaction, before anything is granted. */
static bool
begin_at(IdgenJob *job, int64 floor)
{
	idgen_namespace_rows_raise_floor(job->name, floor);
	idgen_namespace_rows_reset_sums(job->name);
	job->marks->loaded = false;
	return bring_marks(job);
}

/*
 * Raise the floor of a namespace that was never granted from to where it
 * begins, before the first grant and in the same transaction.  In a copy of a
 * database it has marks, but none above its floor.
 */
static bool
begin_after_dropped(const IdgenRound *round, IdgenJob *job)
{
	int64		begin;

	job->marks->begun = job->marks->begun ||
		idgen_marks_highest(job->marks) > job->marks->floor;
	if (job->marks->begun)
		return true;
	begin = idgen_dropped_begin(&job->ns->row.layout, job->name, round->clock.latest_ms);
	return begin <= job->marks->floor || begin_at(job, begin);
}

/*
 * A transaction may have dropped this namespace and have issued from another one that it
 * created under its name, before it was rolled back or the server crashed.  Go on after
 * that.
 */
static bool
go_on_after_rolled_back(IdgenJob *job)
{
	uint64		settled = idgen_ended_settled();
	int64		begin;

	if (job->marks->settled == settled)
		return true;
	begin = idgen_dropped_tick(&job->ns->row.layout,
							   idgen_ended_first_used_until(MyDatabaseId, job->name));
	if (begin > job->marks->floor)
		return begin_at(job, begin);
	job->marks->settled = settled;
	return true;
}

/*
 * Note in shared memory, once in the life of this process, what was granted
 * before it: a session that drops the namespace later then knows what was
 * issued.
 */
static void
pass_on(const IdgenJob *job)
{
	IdgenMarks *marks = job->marks;

	if (marks->inherited)
		return;
	idgen_ended_inherit(MyDatabaseId, job->name,
						idgen_job_unix_ms(job, Max(Max(idgen_marks_highest(marks), marks->floor),
												   marks->external_end)));
	marks->inherited = true;
}

/* Nothing is granted that nobody could confirm. */
static bool
quorum_available(const IdgenRound *round, IdgenJob *job)
{
	IdgenError	error;
	bool		may_come;

	if (idgen_quorum_available(&round->authority->confirm.quorum, &error, &may_come))
		return true;
	idgen_job_fail(job, may_come ? IDGEN_OUTCOME_RETRY : IDGEN_OUTCOME_REFUSED, &error);
	return false;
}

/*
 * See that a namespace may be granted from; else false, with the outcome in
 * the job.  Its policy is held from the first look at the namespace on.
 */
bool
idgen_round_open(const IdgenRound *round, IdgenJob *job)
{
	IdgenError	error;

	if (!idgen_policy_hold(job->name, &error))
	{
		idgen_job_fail(job, IDGEN_OUTCOME_RETRY, &error);
		return false;
	}
	if (!find_namespace(round, job))
		return false;
	job->marks = idgen_marks_get(&job->uuid, job->name);
	if (!verify(job) || !bring_marks(job) || !begin_after_dropped(round, job) ||
		!go_on_after_rolled_back(job))
		return false;
	pass_on(job);
	if (job->ns->quorum && !quorum_available(round, job))
		return false;
	job->now = idgen_layout_tick_at(&job->ns->row.layout, round->clock.wall_ms);
	job->not_before = idgen_layout_tick_at(&job->ns->row.layout, round->clock.latest_ms);
	return true;
}
