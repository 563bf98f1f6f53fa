/*
 * worker.c
 *		Choose a worker, split the workers of a range among timelines, and share
 *		them among external generators.
 */
#include "worker.h"
#include "tick.h"

/* The first worker of the range's class that is not below "from". */
static int64_t
first_of_class(const IdgenWorkerRange *range, int64_t from)
{
	int64_t		gap = (range->remainder - from % range->modulus +
					   range->modulus) % range->modulus;

	return from + gap;
}

/* May an authority of this range use a worker? */
bool
idgen_worker_in_range(const IdgenWorkerRange *range, int64_t worker)
{
	return worker >= range->first && worker <= range->last &&
		worker % range->modulus == range->remainder;
}

/* How many workers the range offers; 0 if the part in it is empty. */
int64_t
idgen_worker_range_size(const IdgenWorkerRange *range)
{
	int64_t		first = first_of_class(range, range->first);

	if (first > range->last)
		return 0;
	return (range->last - first) / range->modulus + 1;
}

/*
 * Choose uniformly among the workers of a range that are not busy; -1 if all are
 * busy.  "busy" holds distinct workers in ascending order; those outside the
 * range or its class are ignored.
 */
int64_t
idgen_worker_choose(const IdgenWorkerRange *range, const int64_t *busy,
					size_t busy_count, uint64_t random)
{
	int64_t		size = idgen_worker_range_size(range);
	int64_t		first = first_of_class(range, range->first);
	int64_t		free_count = size;
	int64_t		rank;

	for (size_t i = 0; i < busy_count; i++)
		if (idgen_worker_in_range(range, busy[i]))
			free_count--;
	if (free_count <= 0)
		return -1;

	/* the rank-th free worker: every busy one at or below it pushes it up */
	rank = (int64_t) (random % (uint64_t) free_count);
	for (size_t i = 0; i < busy_count; i++)
	{
		if (!idgen_worker_in_range(range, busy[i]))
			continue;
		if ((busy[i] - first) / range->modulus > rank)
			break;
		rank++;
	}
	return first + rank * range->modulus;
}

/* Is a number among ascending ones? */
static bool
contains(const int64_t *numbers, size_t count, int64_t number)
{
	size_t		first = 0;

	while (count > 0)
	{
		size_t		half = count / 2;

		if (numbers[first + half] == number)
			return true;
		if (numbers[first + half] < number)
		{
			first += half + 1;
			count -= half + 1;
		}
		else
			count = half;
	}
	return false;
}

/*
 * If no worker is free: choose among the workers of a range that were used
 * before and are not held.  Take the one whose reservation ends first, and the
 * lowest of several such; -1 if there is none.  "held" is ascending.
 */
int64_t
idgen_worker_earliest(const IdgenWorkerRange *range,
					  const IdgenWorkerMark *marks, size_t mark_count,
					  const int64_t *held, size_t held_count)
{
	const IdgenWorkerMark *earliest = NULL;

	for (size_t i = 0; i < mark_count; i++)
	{
		const IdgenWorkerMark *mark = &marks[i];

		if (!idgen_worker_in_range(range, mark->worker) ||
			contains(held, held_count, mark->worker))
			continue;
		if (earliest == NULL || mark->high_water < earliest->high_water ||
			(mark->high_water == earliest->high_water && mark->worker < earliest->worker))
			earliest = mark;
	}
	return earliest == NULL ? -1 : earliest->worker;
}

/* Into how many parts a new namespace with so many workers is split. */
int
idgen_split_parts(int64_t worker_count)
{
	return worker_count >= IDGEN_SPLIT_MANY_WORKERS ?
		IDGEN_SPLIT_PARTS_MANY : IDGEN_SPLIT_PARTS_FEW;
}

/* Does every part of a range of so many consecutive workers have a worker? */
bool
idgen_split_has_workers(int64_t worker_count, int parts)
{
	return worker_count >= parts;
}

/*
 * The part that a timeline uses: workers with worker % parts == this.  It follows
 * from the number of the timeline alone, so that a server knows its part whatever
 * has become of its history.
 */
int
idgen_split_class(uint32_t timeline, int parts)
{
	return (int) (timeline % (uint32_t) parts);
}

/*
 * How many workers external incarnations may hold at a time: all but those that the
 * server keeps for its own cursors, which are at most a quarter and at least one.
 */
int64_t
idgen_external_workers_max(int64_t range_size, int64_t server_workers)
{
	int64_t		kept = min_tick(server_workers, range_size / 4);

	return max_tick(range_size - max_tick(kept, 1), 0);
}

/* How many of these one role may hold at a time: half of them, at least one. */
int64_t
idgen_external_role_max(int64_t workers_max)
{
	return max_tick(workers_max / 2, 1);
}
