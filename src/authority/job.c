/*
 * job.c
 *		The numbers of a namespace in a round, and what came of it.
 */
#include "compat.h"

#include "authority/job.h"

#include "miscadmin.h"

#include "shmem/counters.h"

/* The namespace as a whole has failed, unless a stronger cause is known. */
void
idgen_job_fail(IdgenJob *job, IdgenOutcome outcome, const IdgenError *error)
{
	if (idgen_error_strengthen(&job->error, error))
		job->outcome = outcome;
}

/* Its cursors got nothing, unless a stronger cause is known. */
void
idgen_job_fail_cursors(IdgenJob *job, IdgenOutcome outcome, const IdgenError *error)
{
	if (idgen_error_strengthen(&job->error, error))
		job->cursor_outcome = outcome;
}

/* The statistics of the namespace. */
IdgenCounters *
idgen_job_stats(IdgenJob *job)
{
	if (job->stats == NULL)
		job->stats = idgen_counters_get(MyDatabaseId, job->name);
	return job->stats;
}

/* The usual length of a grant, in ticks. */
int64
idgen_job_usual_length(const IdgenJob *job)
{
	return idgen_layout_ticks_ceil(&job->ns->row.layout, job->ns->row.grant_interval_ms);
}

/* The length of a grant to a cursor: it must outlast its own commit. */
int64
idgen_job_cursor_length(const IdgenJob *job)
{
	return Max(idgen_job_usual_length(job), job->marks->length_needed);
}

/* The horizon in ticks. */
int64
idgen_job_horizon(const IdgenJob *job)
{
	const IdgenLayout *layout = &job->ns->row.layout;

	return idgen_layout_ticks_ceil(layout, layout->horizon_ms);
}

/*
 * The tick from which a cursor that is granted up to granted_end is due for
 * more.
 */
int64
idgen_job_due_at(const IdgenJob *job, int64 granted_end)
{
	return idgen_grant_due_at(granted_end, idgen_job_cursor_length(job),
							  idgen_job_horizon(job), job->ns->run_ahead);
}

/*
 * The earlier tick from which it is given more along with others that are due.
 */
int64
idgen_job_due_along(const IdgenJob *job, int64 granted_end)
{
	return idgen_grant_due_along(granted_end, idgen_job_cursor_length(job),
								 idgen_job_horizon(job), job->ns->run_ahead);
}

/* The Unix ms at which a tick begins. */
int64
idgen_job_unix_ms(const IdgenJob *job, int64 tick)
{
	int64		ms;

	return idgen_layout_unix_ms(&job->ns->row.layout, Max(tick, 0), &ms) ?
		ms : IDGEN_UNIX_MS_MAX;
}

/* The workers that this authority may grant. */
IdgenWorkerRange
idgen_job_worker_range(const IdgenJob *job)
{
	IdgenWorkerRange range = {
		.first = job->ns->row.first_worker,
		.last = job->ns->row.last_worker,
		.modulus = job->ns->authority.split_modulus,
		.remainder = job->ns->authority.split_remainder
	};

	return range;
}

/* An error that passes at a tick. */
void
idgen_job_set_until(const IdgenJob *job, IdgenErrorKind kind, int64 retry_at,
					IdgenError *error)
{
	idgen_error_set(error, kind, NULL, NULL);
	(void) idgen_layout_unix_ms(&job->ns->row.layout, Max(retry_at, 0),
								&error->until_ms);
}

/*
 * Decide a grant.  If there can be none now, false: then the error is
 * EXHAUSTED, or it is NOT_YET and *retry_at is the tick from which a retry can
 * succeed.
 */
bool
idgen_job_decide(const IdgenJob *job, int64 high_water, int64 eligible, int64 length,
				 IdgenGrant *grant, int64 *retry_at, IdgenError *error)
{
	const IdgenLayout *layout = &job->ns->row.layout;
	IdgenGrantFacts facts = {
		.now = job->now,
		.eligible = eligible,
		.high_water = Max(high_water, job->marks->floor),
		.length = length,
		.horizon = idgen_job_horizon(job)
	};

	switch (idgen_grant_decide(&facts, idgen_layout_tick_count(layout), grant, retry_at))
	{
		case IDGEN_GRANT_OK:
			return true;
		case IDGEN_GRANT_BEYOND_HORIZON:
			idgen_job_set_until(job, IDGEN_ERROR_NOT_YET, *retry_at, error);
			return false;
		case IDGEN_GRANT_FIELD_EXHAUSTED:
			idgen_error_set(error, IDGEN_ERROR_EXHAUSTED, NULL, NULL);
			return false;
		case IDGEN_GRANT_BAD_REQUEST:
			break;
	}
	elog(ERROR, "idgen could not decide a grant");
}
