/*
 * round_cursors.c
 *		Decide what the cursors of this server are granted.
 */
#include "compat.h"

#include "authority/round.h"

#include "miscadmin.h"
#include "utils/acl.h"

#include "clock.h"
#include "random.h"
#include "settings.h"
#include "shmem/counters.h"

/*
 * Is this cursor due for more?  One that could not be read is looked at next
 * time.
 */
static bool
is_due(const IdgenJob *job, const IdgenCursorSurvey *survey)
{
	return survey->readable &&
		job->now >= idgen_job_due_along(job, survey->granted_end);
}

/*
 * The timing of a grant, by which later ones are made longer if this one comes
 * too late.  "survey" tells of its cursor; NULL for a fresh one.
 */
static IdgenGrantTiming
timing_of(const IdgenJob *job, const IdgenGrant *grant,
		  const IdgenCursorSurvey *survey)
{
	IdgenGrantTiming timing = {
		.grant = *grant,
		.length = idgen_job_cursor_length(job),
		.wanted_at = job->now,
		.dry_at = PG_INT64_MAX,
		.decided_at = job->now
	};

	if (survey != NULL)
	{
		timing.wanted_at = idgen_job_due_at(job, survey->granted_end);
		timing.dry_at = survey->granted_end - job->ns->run_ahead;
	}
	return timing;
}

/*
 * The worker's mark may be past what its cursor has: a grant was committed,
 * and the process ended before it could publish it.  The grant is still that
 * cursor's.
 */
static bool
publish_again(const IdgenRound *round, const IdgenJob *job,
			  const IdgenCursorSurvey *survey, const IdgenMark *mark)
{
	IdgenCursorGrant grant = {
		.slot = survey->slot,
		.generation = survey->generation,
		.incarnation = survey->incarnation
	};
	IdgenLastGrant last;

	if (mark->high_water == survey->granted_end ||
		!idgen_grant_rows_last(job->name, survey->worker, &last) ||
		last.incarnation != survey->incarnation ||
		last.grant.end != mark->high_water ||
		last.grant.start < survey->granted_end || last.grant.end <= job->now)
		return false;
	grant.timing = timing_of(job, &last.grant, survey);
	idgen_confirm_grant(&round->authority->confirm, job->ns, &grant);
	return true;
}

/* Grant more to a cursor that lives. */
static void
extend_cursor(IdgenRound *round, IdgenJob *job, const IdgenCursorSurvey *survey)
{
	const IdgenMark *mark = idgen_marks_find(job->marks, survey->worker);
	IdgenGrant	grant;
	IdgenError	error;
	int64		retry_at;
	IdgenDecision *decision;

	if (mark == NULL || mark->incarnation != survey->incarnation)
	{
		/* the worker was given to another incarnation; that cursor is over */
		idgen_pool_kill_slot(survey->slot, survey->generation);
		return;
	}
	if (publish_again(round, job, survey, mark))
		return;
	if (!idgen_job_decide(job, mark->high_water, job->now, idgen_job_cursor_length(job),
						  &grant, &retry_at, &error))
	{
		/* otherwise the cursor has all that it can have */
		if (error.kind == IDGEN_ERROR_EXHAUSTED &&
			job->now >= idgen_layout_tick_count(&job->ns->row.layout))
			idgen_job_fail_cursors(job, IDGEN_OUTCOME_REFUSED, &error);
		return;
	}
	decision = idgen_round_add(round, job, survey->worker, mark, &grant);
	decision->row.incarnation = survey->incarnation;
	decision->cursor.slot = survey->slot;
	decision->cursor.generation = survey->generation;
	decision->cursor.incarnation = survey->incarnation;
	decision->cursor.timing = timing_of(job, &grant, survey);
}

/*
 * The earliest tick of a fresh incarnation.  If there is only one cursor at a
 * time, IDs are promised to be in real-time order, also from one cursor to the
 * next.  The last cursor may have issued in this very tick, before a restart
 * of the server, or may have run further ahead of the clock, under an earlier
 * policy.
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
	IdgenCounters *stats = idgen_job_stats(job);

	memset(owner, 0, sizeof(*owner));
	owner->database = MyDatabaseId;
	owner->namespace_uuid = job->uuid;
	strlcpy(owner->namespace_name, job->name, NAMEDATALEN);
	owner->worker = worker;
	owner->incarnation = idgen_random_number();
	owner->epoch_ms = layout->epoch_ms;
	owner->tick_ms = layout->tick_ms;
	owner->account = idgen_counters_account(stats);
	owner->owner = get_role_oid(job->ns->row.owner, true);
	owner->since_ms = idgen_clock_wall_ms();
}

/*
 * Open a cursor: a fresh incarnation with its first grant.  Returns SERVED or,
 * if that cannot be now, another outcome, with the error.  "only_one" says
 * that the namespace has no other cursor.
 */
static IdgenOutcome
open_cursor(IdgenRound *round, IdgenJob *job, bool only_one, IdgenError *error)
{
	IdgenFirstGrant first;
	IdgenSlotInfo owner;
	IdgenDecision *decision;
	int			slot;
	uint64		generation;

	if (!idgen_round_decide_fresh(round, job, eligible_tick(job),
								  idgen_job_cursor_length(job), &first, error))
		return IDGEN_OUTCOME_REFUSED;
	describe_cursor(job, first.worker, &owner);
	slot = idgen_pool_reserve(&owner, only_one, &generation);
	if (slot < 0)
	{
		idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE,
						IDGEN_DETAIL_POOL_FULL, IDGEN_HINT_POOL_FULL);
		return IDGEN_OUTCOME_RETRY;
	}
	decision = idgen_round_add(round, job, first.worker, first.mark, &first.grant);
	decision->row.fresh = true;
	decision->row.incarnation = owner.incarnation;
	decision->row.run_ahead_ms = job->ns->row.run_ahead_ms;
	decision->cursor.slot = slot;
	decision->cursor.generation = generation;
	decision->cursor.first = true;
	decision->cursor.incarnation = owner.incarnation;
	decision->cursor.timing = timing_of(job, &first.grant, NULL);
	return IDGEN_OUTCOME_SERVED;
}

/*
 * A session waits, and no cursor was granted more.  If all cursors have
 * everything up to the horizon, what they have is used up: say until when.
 */
static void
check_used_up(const IdgenRound *round, IdgenJob *job)
{
	int64		earliest = PG_INT64_MAX;
	IdgenError	error;

	for (int i = 0; i < round->survey_count; i++)
	{
		const IdgenMark *mark;

		if (!idgen_same_uuid(&round->surveys[i].namespace_uuid, &job->uuid))
			continue;
		mark = idgen_marks_find(job->marks, round->surveys[i].worker);
		if (mark != NULL)
			earliest = Min(earliest, mark->high_water);
	}
	if (earliest == PG_INT64_MAX || earliest < job->now + idgen_job_horizon(job))
		return;
	idgen_job_set_until(job, IDGEN_ERROR_CAPACITY, earliest, &error);
	idgen_job_fail_cursors(job, IDGEN_OUTCOME_REFUSED, &error);
}

/*
 * Grant more to the cursors that are due; returns how many cursors there are.
 */
static int
extend_cursors(IdgenRound *round, IdgenJob *job)
{
	const IdgenConfirm *confirm = &round->authority->confirm;
	int			count = idgen_confirm_count(confirm, &job->uuid, true);

	for (int i = 0; i < round->survey_count; i++)
	{
		IdgenCursorSurvey *survey = &round->surveys[i];

		if (!idgen_same_uuid(&survey->namespace_uuid, &job->uuid))
			continue;
		count++;
		if (is_due(job, survey) &&
			!idgen_confirm_has_slot(confirm, survey->slot, survey->generation))
			extend_cursor(round, job, survey);
	}
	return count;
}

/* Decide everything for the cursors of one namespace. */
void
idgen_round_decide_cursors(IdgenRound *round, IdgenJob *job)
{
	int			decision_count = round->decision_count;
	int			cursor_count = extend_cursors(round, job);
	IdgenOutcome outcome;
	IdgenError	error;

	if (cursor_count == 0 && job->cursor_wanted)
	{
		outcome = open_cursor(round, job, true, &error);
		if (outcome != IDGEN_OUTCOME_SERVED)
			idgen_job_fail_cursors(job, outcome, &error);
	}
	if (cursor_count == 0)
		return;

	/* a further cursor is a wish, and those that live serve without it */
	if (cursor_count <= job->cursors_seen &&
		cursor_count < idgen_max_workers_per_namespace)
		(void) open_cursor(round, job, false, &error);
	if (job->cursor_wanted && round->decision_count == decision_count)
		check_used_up(round, job);
}
