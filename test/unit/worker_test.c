/*
 * worker_test.c
 *		Ranges of workers and their parts, the choice of a worker, and the share of
 *		external generators.
 */
#include "worker.h"
#include "unit.h"

typedef struct ExternalCase
{
	int64_t		range_size;
	int64_t		server_workers;
	int64_t		external_max;
} ExternalCase;

static const ExternalCase external_cases[] = {
	/* an empty range, and those too small to be shared by a quarter */
	{0, 0, 0}, {0, 1, 0}, {0, 16, 0},
	{1, 0, 0}, {1, 1, 0}, {1, 16, 0},
	{2, 0, 1}, {2, 1, 1}, {2, 16, 1},
	{3, 0, 2}, {3, 1, 2}, {3, 16, 2},
	{4, 0, 3}, {4, 1, 3}, {4, 16, 3},
	{7, 16, 6}, {8, 1, 7}, {8, 2, 6}, {8, 16, 6},

	/* the quarter decides, then the setting */
	{16, 0, 15}, {16, 1, 15}, {16, 3, 13}, {16, 4, 12}, {16, 5, 12},
	{16, 16, 12},
	{63, 16, 48}, {64, 16, 48}, {65, 16, 49}, {68, 17, 51},
	{512, 1, 511}, {512, 16, 496}, {512, 128, 384}, {512, 129, 384},
	{512, 1024, 384},
	{1024, 1, 1023}, {1024, 16, 1008}, {1024, 256, 768}, {1024, 257, 768},
	{1024, 1024, 768},
	{INT64_C(1) << 31, 16, (INT64_C(1) << 31) - 16},
};

static void
test_external_workers_max(void)
{
	for (size_t i = 0; i < UNIT_COUNT(external_cases); i++)
	{
		const ExternalCase *c = &external_cases[i];

		if (!CHECK_EQ(idgen_external_workers_max(c->range_size,
												 c->server_workers),
					  c->external_max))
			printf("# in the case: %" PRId64 " workers, %" PRId64
				   " for the server\n", c->range_size, c->server_workers);
	}
}

/* A role may hold half of those, and one where there is one. */
static void
test_external_role_max(void)
{
	CHECK_EQ(idgen_external_role_max(0), 1);
	CHECK_EQ(idgen_external_role_max(1), 1);
	CHECK_EQ(idgen_external_role_max(2), 1);
	CHECK_EQ(idgen_external_role_max(3), 1);
	CHECK_EQ(idgen_external_role_max(4), 2);
	CHECK_EQ(idgen_external_role_max(1008), 504);
	CHECK_EQ(idgen_external_role_max((INT64_C(1) << 31) - 16), (INT64_C(1) << 30) - 8);
}

/*
 * Whatever the setting, one worker of a range that has any stays with the
 * server, and no more than the setting or a quarter beyond that.
 */
static void
test_external_leaves_one(void)
{
	for (int64_t size = 0; size <= 1024; size++)
		for (int64_t wanted = 0; wanted <= 300; wanted++)
		{
			const int64_t external = idgen_external_workers_max(size, wanted);
			const int64_t kept = size - external;

			CHECK(external >= 0);
			CHECK(size == 0 || kept >= 1);
			CHECK(kept <= 1 || (kept <= wanted && 4 * kept <= size));

			/* and no fewer: one more would be too many */
			CHECK(size == 0 || kept + 1 > wanted || 4 * (kept + 1) > size);
		}
}

static int64_t
range_size(int64_t first, int64_t last, int64_t modulus, int64_t remainder)
{
	const IdgenWorkerRange range = {first, last, modulus, remainder};

	return idgen_worker_range_size(&range);
}

static void
test_range_size(void)
{
	CHECK_EQ(range_size(0, 1023, 1, 0), 1024);
	CHECK_EQ(range_size(5, 5, 1, 0), 1);
	CHECK_EQ(range_size(0, 1023, 2, 0), 512);
	CHECK_EQ(range_size(0, 1023, 2, 1), 512);
	CHECK_EQ(range_size(0, 2, 2, 0), 2);
	CHECK_EQ(range_size(0, 2, 2, 1), 1);
	CHECK_EQ(range_size(3, 7, 2, 0), 2);
	CHECK_EQ(range_size(3, 7, 2, 1), 3);
	CHECK_EQ(range_size(0, INT32_MAX, 1, 0), INT64_C(1) << 31);
	CHECK_EQ(range_size(0, 1023, 4, 3), 256);
	CHECK_EQ(range_size(3, 7, 4, 3), 2);
	CHECK_EQ(range_size(3, 7, 4, 2), 1);

	/* an empty part */
	CHECK_EQ(range_size(4, 4, 2, 0), 1);
	CHECK_EQ(range_size(4, 4, 2, 1), 0);
	CHECK_EQ(range_size(5, 5, 2, 0), 0);
	CHECK_EQ(range_size(5, 5, 2, 1), 1);
}

/*
 * Over "turns" times as many consecutive random numbers as there are free
 * workers, each free worker is chosen exactly "turns" times, and no other.
 */
static void
check_uniform(const IdgenWorkerRange *range, unsigned busy_mask)
{
	enum
	{
		universe = 10,			/* reaches past the range on both sides */
		turns = 2
	};
	int64_t		busy[universe];
	size_t		busy_count = 0;
	int			chosen[universe] = {0};
	uint64_t	free_count = 0;

	for (int64_t worker = 0; worker < universe; worker++)
	{
		if (busy_mask >> worker & 1)
			busy[busy_count++] = worker;
		else if (worker >= range->first && worker <= range->last &&
				 worker % range->modulus == range->remainder)
			free_count++;
	}
	if (free_count == 0)
	{
		CHECK_EQ(idgen_worker_choose(range, busy, busy_count, busy_mask), -1);
		return;
	}
	for (uint64_t random = 0; random < turns * free_count; random++)
	{
		int64_t		worker = idgen_worker_choose(range, busy, busy_count, random);

		if (!CHECK(worker >= 0 && worker < universe))
			return;
		chosen[worker]++;
	}
	for (int64_t worker = 0; worker < universe; worker++)
	{
		bool		usable = worker >= range->first && worker <= range->last &&
			worker % range->modulus == range->remainder &&
			!(busy_mask >> worker & 1);

		CHECK_EQ(chosen[worker], usable ? turns : 0);
	}
}

static void
test_choose_uniform(void)
{
	const IdgenWorkerRange ranges[] = {{2, 7, 1, 0}, {0, 9, 1, 0}, {3, 3, 1, 0},
	{2, 7, 2, 0}, {2, 7, 2, 1}, {3, 8, 2, 0}, {3, 7, 2, 1}, {0, 9, 2, 1}};

	for (size_t i = 0; i < UNIT_COUNT(ranges); i++)
		for (unsigned busy_mask = 0; busy_mask < 1024 && !unit_failed();
			 busy_mask++)
			check_uniform(&ranges[i], busy_mask);
}

static void
test_choose_edges(void)
{
	const IdgenWorkerRange all = {0, 3, 1, 0};
	const IdgenWorkerRange huge = {0, INT32_MAX, 1, 0};
	const IdgenWorkerRange empty_half = {4, 4, 2, 1};
	const int64_t busy[] = {0, 1, 2, 3};
	const int64_t outside[] = {4, 5, 100, INT32_MAX};

	CHECK_EQ(idgen_worker_choose(&all, busy, 4, 0), -1);
	CHECK_EQ(idgen_worker_choose(&all, busy, 3, UINT64_MAX), 3);
	CHECK_EQ(idgen_worker_choose(&all, NULL, 0, UINT64_MAX), 3);
	CHECK_EQ(idgen_worker_choose(&all, outside, 4, 0), 0);
	CHECK_EQ(idgen_worker_choose(&all, outside, 4, 3), 3);
	CHECK_EQ(idgen_worker_choose(&huge, busy, 4, 0), 4);
	CHECK_EQ(idgen_worker_choose(&huge, NULL, 0, INT32_MAX), INT32_MAX);
	CHECK_EQ(idgen_worker_choose(&empty_half, NULL, 0, 5), -1);
}

/* All sets of held workers, against looking at one after the other. */
static void
test_earliest(void)
{
	static const IdgenWorkerMark marks[] = {{7, 40}, {4, 30}, {0, 20}, {1, 30}, {5, 25}, {2, 90}, {9, 1}};
	static const IdgenWorkerRange ranges[] = {{0, 7, 1, 0}, {1, 5, 1, 0}, {0, 7, 2, 0}, {0, 7, 2, 1}, {3, 3, 1, 0}};

	for (size_t r = 0; r < UNIT_COUNT(ranges); r++)
		for (unsigned mask = 0; mask < 1024 && !unit_failed(); mask++)
		{
			int64_t		held[10];
			size_t		held_count = 0;
			int64_t		best = -1,
						best_end = INT64_MAX;

			for (int64_t worker = 0; worker < 10; worker++)
			{
				bool		is_held = mask >> worker & 1;

				if (is_held)
					held[held_count++] = worker;
				for (size_t i = 0; i < UNIT_COUNT(marks); i++)
					if (marks[i].worker == worker && !is_held && marks[i].high_water < best_end &&
						idgen_worker_in_range(&ranges[r], worker))
					{
						best = worker;
						best_end = marks[i].high_water;
					}
			}
			CHECK_EQ(idgen_worker_earliest(&ranges[r], marks, UNIT_COUNT(marks), held, held_count), best);
		}
	CHECK_EQ(idgen_worker_earliest(&ranges[0], NULL, 0, NULL, 0), -1);
}

static void
test_split_parts(void)
{
	CHECK_EQ(idgen_split_parts(1), 2);
	CHECK_EQ(idgen_split_parts(16), 2);
	CHECK_EQ(idgen_split_parts(63), 2);
	CHECK_EQ(idgen_split_parts(64), 4);
	CHECK_EQ(idgen_split_parts(INT64_C(1) << 31), 4);

	/* consecutive workers: every part of the range, wherever it begins */
	for (int parts = 2; parts <= 4; parts += 2)
		for (int64_t first = 0; first < 5; first++)
			for (int64_t count = 1; count < 7; count++)
			{
				bool		is_empty = false;

				for (int class = 0; class < parts; class++)
					is_empty |= range_size(first, first + count - 1, parts, class) == 0;
				CHECK_EQ(idgen_split_has_workers(count, parts), !is_empty);
			}

	CHECK_EQ(idgen_split_class(1, 2), 1);
	CHECK_EQ(idgen_split_class(2, 2), 0);
	CHECK_EQ(idgen_split_class(1, 4), 1);
	CHECK_EQ(idgen_split_class(3, 4), 3);
	CHECK_EQ(idgen_split_class(4, 4), 0);
	CHECK_EQ(idgen_split_class(5, 4), 1);
	CHECK_EQ(idgen_split_class(UINT32_MAX, 4), 3);
	CHECK_EQ(idgen_split_class(UINT32_C(0x80000000), 2), 0);
}

static const UnitTest tests[] = {
	{"workers: the one that is free first", test_earliest},
	{"workers for external incarnations, case by case",
	test_external_workers_max},
	{"how many of these one role may have", test_external_role_max},
	{"external incarnations leave the server its share",
	test_external_leaves_one},
	{"the size of a worker range and of its parts", test_range_size},
	{"every free worker is chosen equally often, a busy one never",
	test_choose_uniform},
	{"choice with all busy, none busy, busy outside", test_choose_edges},
	{"split: how many parts, none of them empty, one after the other",
	test_split_parts},
};

int
main(void)
{
	return unit_main(tests, UNIT_COUNT(tests));
}
