/*
 * round_worker.c
 *		Choose a worker for a fresh incarnation, and decide its first grant.
 */
#include "compat.h"

#include "authority/round.h"

#include "random.h"

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

/*
 * Add the workers that cursors of this server hold, or that this round gave
 * away.
 */
static size_t
add_held(const IdgenRound *round, const IdgenJob *job, int64 *workers, size_t count)
{
	for (int i = 0; i < round->survey_count; i++)
		if (idgen_same_uuid(&round->surveys[i].namespace_uuid, &job->uuid))
			count = insert_sorted(workers, count, round->surveys[i].worker);
	for (int i = 0; i < round->decision_count; i++)
		if (round->decisions[i].job == job)
			count = insert_sorted(workers, count, round->decisions[i].row.worker);
	return count;
}

/*
 * Choose a worker: any free one.  If none is free, take the one whose
 * reservation ends first.  That of an external incarnation which lapsed
 * without being deactivated has ended already.  False if there is no worker at
 * all.
 */
static bool
choose_worker(const IdgenRound *round, const IdgenJob *job, int32 *worker)
{
	IdgenWorkerRange range = idgen_job_worker_range(job);
	size_t		room = job->marks->count + round->survey_count +
		round->decision_count + 1;
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
 * No worker can be granted before retry_at.  Behind a fence, a caller is told
 * when the first ID can be issued, which is when the floor is reached; after a
 * step back of the clock, when the clock has caught up.
 */
static void
set_beyond_horizon(const IdgenRound *round, const IdgenJob *job, int64 retry_at,
				   IdgenError *error)
{
	if (job->not_before > job->now)
		idgen_clock_judge_set_error(&round->clock, error);
	else if (job->marks->floor > job->now)
		idgen_job_set_until(job, IDGEN_ERROR_NOT_YET, job->marks->floor, error);
	else
		idgen_job_set_until(job, IDGEN_ERROR_NO_WORKER, retry_at, error);
}

/*
 * Choose a worker and decide its first grant, which starts at the tick
 * "eligible" or later.  False, with the error, if that cannot be now.
 */
bool
idgen_round_decide_fresh(const IdgenRound *round, const IdgenJob *job, int64 eligible,
						 int64 length, IdgenFirstGrant *first, IdgenError *error)
{
	int64		retry_at;

	if (!choose_worker(round, job, &first->worker))
	{
		idgen_error_set(error, IDGEN_ERROR_NO_WORKER, NULL, NULL);
		return false;
	}
	first->mark = idgen_marks_find(job->marks, first->worker);
	if (idgen_job_decide(job, first->mark ? first->mark->high_water : 0, eligible, length,
						 &first->grant, &retry_at, error))
		return true;
	if (error->kind == IDGEN_ERROR_NOT_YET)
		set_beyond_horizon(round, job, retry_at, error);
	return false;
}
