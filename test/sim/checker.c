/*
 * checker.c
 *		Keep what was granted and issued; see checker.h.
 */
#include "checker.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULT_SIZE		300
#define DATABASES_MAX	3

typedef struct Granted
{
	CheckerGrant as;
	int64_t		used;			/* first position not used: tick * sequences +
								 * sequence, in the order of issuing */
	int32_t		copies;
	bool		handed_out;
} Granted;

/*
 * The grants of one worker that one life handed out under one birth of the
 * namespace, ascending and disjoint.
 */
typedef struct Shelf
{
	int			life;
	int			birth;
	int32_t    *grants;
	int32_t		count;
	int32_t		max;
} Shelf;

/* All shelves of a worker. */
typedef struct Worker
{
	Shelf	   *shelves;
	int32_t		count;
	int32_t		max;
} Worker;

/* Sequence values of one worker and tick; a chain of disjoint intervals. */
typedef struct Taken
{
	int64_t		place;			/* worker and tick in one number; -1 = free */
	int64_t		from;
	int64_t		to;
	int32_t		grant;			/* it is from */
	int32_t		next;			/* of the same place; -1 = none */
} Taken;

struct Checker
{
	CheckerFormat format;
	int64_t		sequences;
	Granted    *grants;
	int32_t		grant_count;
	int32_t		grant_max;
	CheckerExcuse excuse;
	void	   *excuse_arg;
	Worker	   *workers[DATABASES_MAX];
	Taken	   *taken[DATABASES_MAX];	/* a hash table, then its overflow */
	int32_t		taken_count[DATABASES_MAX];
	int32_t		taken_max[DATABASES_MAX];
	int64_t		id_count;
	int64_t		highest_tick;
	char		fault[FAULT_SIZE];
};

/* Buckets of the exact record. */
#define BUCKETS		65536

static void *
grow(void *array, int32_t *max, size_t size)
{
	*max = *max == 0 ? 16 : *max * 2;
	array = realloc(array, (size_t) *max * size);
	if (array == NULL)
		abort();
	return array;
}

Checker *
checker_create(const CheckerFormat *format, CheckerExcuse excuse, void *arg)
{
	Checker    *checker = calloc(1, sizeof(*checker));

	checker->format = *format;
	checker->excuse = excuse;
	checker->excuse_arg = arg;
	checker->sequences = INT64_C(1) << format->sequence_bits;
	for (int i = 0; i < DATABASES_MAX; i++)
	{
		checker->workers[i] = calloc((size_t) 1 << format->worker_bits,
									 sizeof(Worker));
		if (!format->exact)
			continue;
		checker->taken_max[i] = 2 * BUCKETS;
		checker->taken_count[i] = BUCKETS;
		checker->taken[i] = malloc(2 * BUCKETS * sizeof(Taken));
		for (int j = 0; j < BUCKETS; j++)
			checker->taken[i][j] = (Taken) {.place = -1, .next = -1};
	}
	return checker;
}

void
checker_free(Checker *checker)
{
	for (int i = 0; i < DATABASES_MAX; i++)
	{
		for (int64_t j = 0; j < INT64_C(1) << checker->format.worker_bits; j++)
		{
			for (int32_t k = 0; k < checker->workers[i][j].count; k++)
				free(checker->workers[i][j].shelves[k].grants);
			free(checker->workers[i][j].shelves);
		}
		free(checker->workers[i]);
		free(checker->taken[i]);
	}
	free(checker->grants);
	free(checker);
}

/* Only the first fault is kept: what follows is often its consequence. */
void
checker_complain(Checker *checker, const char *rule, const char *format,...)
{
	va_list		args;
	int			length;

	if (checker->fault[0] != '\0')
		return;
	length = snprintf(checker->fault, FAULT_SIZE, "%s: ", rule);
	va_start(args, format);
	vsnprintf(checker->fault + length, FAULT_SIZE - (size_t) length, format, args);
	va_end(args);
}

/* NULL as long as nothing is wrong. */
const char *
checker_fault(const Checker *checker)
{
	return checker->fault[0] == '\0' ? NULL : checker->fault;
}

/* ---- grants ---- */

int32_t
checker_committed(Checker *checker, const CheckerGrant *grant)
{
	Granted    *granted;

	if (grant->start < 0 || grant->start >= grant->end ||
		grant->end > INT64_C(1) << checker->format.timestamp_bits)
		checker_complain(checker, "S7", "grant [%" PRId64 ", %" PRId64
						 ") is not inside the field", grant->start, grant->end);
	if (checker->grant_count == checker->grant_max)
		checker->grants = grow(checker->grants, &checker->grant_max,
							   sizeof(Granted));
	granted = &checker->grants[checker->grant_count];
	*granted = (Granted) {.as = *grant, .used = INT64_MIN};
	if (grant->worker < 0 ||
		grant->worker >= INT64_C(1) << checker->format.worker_bits)
	{
		checker_complain(checker, "S6", "worker %" PRId64 " is granted",
						 grant->worker);
		granted->as.worker = 0;
	}
	return checker->grant_count++;
}

void
checker_copied(Checker *checker, int32_t grant)
{
	checker->grants[grant].copies++;
}

/* It is handed out while the namespace has durability local. */
void
checker_forgive_copies(Checker *checker, int32_t grant)
{
	checker->grants[grant].as.copies_needed = 0;
}

/* The place on a shelf of the first grant that ends after a tick. */
static int32_t
place_on(const Checker *checker, const Shelf *shelf, int64_t tick)
{
	int32_t		low = 0;
	int32_t		high = shelf->count;

	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;

		if (checker->grants[shelf->grants[middle]].as.end <= tick)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Complain if a grant overlaps one on a shelf, inside the contract. */
static void
compare(Checker *checker, const Shelf *shelf, const CheckerGrant *grant)
{
	for (int32_t i = place_on(checker, shelf, grant->start); i < shelf->count; i++)
	{
		const CheckerGrant *other = &checker->grants[shelf->grants[i]].as;

		if (other->start >= grant->end)
			return;
		if (!checker->excuse(checker->excuse_arg, other, grant))
			checker_complain(checker, "S2", "grants of worker %" PRId64
							 " overlap: [%" PRId64 ", %" PRId64 ") of life %d and [%"
							 PRId64 ", %" PRId64 ") of life %d", grant->worker,
							 grant->start, grant->end, grant->life, other->start,
							 other->end, other->life);
	}
}

static Shelf *
shelf_of(Worker *worker, int life, int birth)
{
	for (int32_t i = 0; i < worker->count; i++)
		if (worker->shelves[i].life == life && worker->shelves[i].birth == birth)
			return &worker->shelves[i];
	if (worker->count == worker->max)
		worker->shelves = grow(worker->shelves, &worker->max, sizeof(Shelf));
	worker->shelves[worker->count] = (Shelf) {.life = life, .birth = birth};
	return &worker->shelves[worker->count++];
}

/*
 * A grant leaves the authority.  What was decided and lost may be decided
 * again; what was handed out may not.
 */
void
checker_handed_out(Checker *checker, int32_t number)
{
	Granted    *granted = &checker->grants[number];
	const CheckerGrant *grant = &granted->as;
	Worker	   *worker = &checker->workers[grant->database][grant->worker];
	Shelf	   *shelf;
	int32_t		place;

	if (granted->copies < grant->copies_needed)
		checker_complain(checker, "S4", "a grant of worker %" PRId64
						 " from %" PRId64 " is handed out with %d copies",
						 grant->worker, grant->start, granted->copies);
	if (granted->handed_out)
		return;
	granted->handed_out = true;
	for (int32_t i = 0; i < worker->count; i++)
		compare(checker, &worker->shelves[i], grant);
	shelf = shelf_of(worker, grant->life, grant->birth);
	place = place_on(checker, shelf, grant->start);
	if (shelf->count == shelf->max)
		shelf->grants = grow(shelf->grants, &shelf->max, sizeof(int32_t));
	memmove(&shelf->grants[place + 1], &shelf->grants[place],
			(size_t) (shelf->count - place) * sizeof(int32_t));
	shelf->grants[place] = number;
	shelf->count++;
}

/* ---- IDs ---- */

/* Take [from, to) of a worker's tick in the exact record, from a grant. */
static void
take(Checker *checker, int32_t grant, int64_t place, int64_t from, int64_t to)
{
	int			database = checker->grants[grant].as.database;
	Taken	   *taken = checker->taken[database];
	int32_t		at = (int32_t) ((uint64_t) place * UINT64_C(0x9e3779b97f4a7c15) >>
								48);
	int32_t		bucket = at;

	for (; at >= 0 && taken[at].place >= 0; at = taken[at].next)
	{
		if (taken[at].place != place)
			continue;
		if (from < taken[at].to && taken[at].from < to &&
			(taken[at].grant == grant ||
			 !checker->excuse(checker->excuse_arg,
							  &checker->grants[taken[at].grant].as,
							  &checker->grants[grant].as)))
			checker_complain(checker, "UNIQUE", "sequence values [%" PRId64
							 ", %" PRId64 ") of place %" PRId64
							 " were issued before", from, to, place);
		if (taken[at].to == from && taken[at].grant == grant)
		{
			taken[at].to = to;
			return;
		}
	}
	if (taken[bucket].place >= 0)
	{
		/* the bucket's own entry moves behind the new one */
		if (checker->taken_count[database] == checker->taken_max[database])
			taken = checker->taken[database] =
				grow(taken, &checker->taken_max[database], sizeof(Taken));
		taken[checker->taken_count[database]] = taken[bucket];
		taken[bucket].next = checker->taken_count[database]++;
	}
	taken[bucket].place = place;
	taken[bucket].from = from;
	taken[bucket].to = to;
	taken[bucket].grant = grant;
}

typedef struct Fields
{
	int64_t		tick;
	int64_t		worker;
	int64_t		sequence;
} Fields;

static Fields
fields_of(const Checker *checker, int64_t id)
{
	int64_t		worker_count = INT64_C(1) << checker->format.worker_bits;

	return (Fields) {id / checker->sequences / worker_count,
	id / checker->sequences % worker_count, id % checker->sequences};
}

/* Do they fit their fields, and are they positive? */
static bool
check_fields(Checker *checker, const CheckerIds *ids)
{
	Fields		fields = fields_of(checker, ids->first);

	if (ids->first <= 0 || ids->count < 1)
	{
		checker_complain(checker, "S7", "ID %" PRId64 " is not positive",
						 ids->first);
		return false;
	}
	if (fields.tick >= INT64_C(1) << checker->format.timestamp_bits ||
		fields.sequence + ids->count > checker->sequences)
		checker_complain(checker, "S6", "%" PRId64 " IDs from %" PRId64
						 " do not fit their fields", ids->count, ids->first);
	return true;
}

/* The grant that an ID is from: of its own incarnation, or it complains. */
static Granted *
find_granted(Checker *checker, const CheckerIds *ids)
{
	Fields		fields = fields_of(checker, ids->first);
	const Worker *worker = &checker->workers[ids->database][fields.worker];
	const Granted *other = NULL;

	for (int32_t i = 0; i < worker->count; i++)
	{
		const Shelf *shelf = &worker->shelves[i];
		int32_t		place = place_on(checker, shelf, fields.tick);
		Granted    *granted;

		if (place == shelf->count)
			continue;
		granted = &checker->grants[shelf->grants[place]];
		if (granted->as.start > fields.tick)
			continue;
		if (granted->as.incarnation == ids->incarnation)
			return granted;
		other = granted;
	}
	if (other == NULL)
		checker_complain(checker, "S1", "tick %" PRId64 " of worker %" PRId64
						 " was handed out to nobody", fields.tick, fields.worker);
	else
		checker_complain(checker, "S1", "tick %" PRId64 " of worker %" PRId64
						 " was granted to incarnation %" PRId64 ", not to %"
						 PRId64, fields.tick, fields.worker,
						 other->as.incarnation, ids->incarnation);
	return NULL;
}

/* The IDs of a grant rise in the order in which its cursor issues them. */
void
checker_issued(Checker *checker, const CheckerIds *ids)
{
	Fields		fields = fields_of(checker, ids->first);
	int64_t		position = fields.tick * checker->sequences + fields.sequence;
	Granted    *granted = check_fields(checker, ids) ?
		find_granted(checker, ids) : NULL;

	if (granted == NULL)
		return;
	if (position < granted->used)
		checker_complain(checker, "S6", "tick %" PRId64 " of worker %" PRId64
						 ": sequence value %" PRId64 " comes after a greater one",
						 fields.tick, fields.worker, fields.sequence);
	granted->used = position + ids->count;
}

void
checker_left(Checker *checker, const CheckerIds *ids, int64_t *last)
{
	Fields		fields = fields_of(checker, ids->first);
	const Granted *granted = check_fields(checker, ids) ?
		find_granted(checker, ids) : NULL;

	if (granted == NULL)
		return;
	if (granted->copies < granted->as.copies_needed)
		checker_complain(checker, "S4",
						 "an ID left from a grant that is not durable");
	if (ids->first <= *last)
		checker_complain(checker, "S11", "ID %" PRId64 " comes after %" PRId64,
						 ids->first, *last);
	*last = ids->first + ids->count - 1;
	if (checker->format.exact)
		take(checker, (int32_t) (granted - checker->grants),
			 (fields.tick << checker->format.worker_bits) + fields.worker,
			 fields.sequence, fields.sequence + ids->count);
	checker->id_count += ids->count;
	if (fields.tick > checker->highest_tick)
		checker->highest_tick = fields.tick;
}

int64_t
checker_id_count(const Checker *checker)
{
	return checker->id_count;
}

int64_t
checker_grant_count(const Checker *checker)
{
	return checker->grant_count;
}

int64_t
checker_highest_tick(const Checker *checker)
{
	return checker->highest_tick;
}
