/*
 * quorum_test.c
 *		The position that enough standbys have flushed: by example, and against
 *		counting on all small sets.
 */
#include <string.h>

#include "quorum.h"
#include "unit.h"

#define STANDBYS_MAX	4
#define FLUSHED_MAX		4

typedef struct QuorumCase
{
	const char *name;
	int32_t		count;
	IdgenStandby standbys[STANDBYS_MAX];	/* priority, flushed */
	int32_t		needed;
	bool		by_priority;
	uint64_t	position;
} QuorumCase;

static const QuorumCase quorum_cases[] = {
	{"none needed", 2, {{1, 50}, {2, 60}}, 0, true, 0},
	{"less than none needed", 2, {{1, 50}, {2, 60}}, -1, false, 0},
	{"nobody there", 0, {{0, 0}}, 1, true, 0},
	{"nobody there, any", 0, {{0, 0}}, 1, false, 0},
	{"one too few", 2, {{1, 50}, {2, 60}}, 3, true, 0},
	{"one too few, any", 2, {{1, 50}, {2, 60}}, 3, false, 0},

	{"FIRST 1: the first named, though behind", 3,
	{{2, 90}, {1, 50}, {3, 70}}, 1, true, 50},
	{"FIRST 1: the first named, though ahead", 3,
	{{2, 60}, {3, 70}, {1, 90}}, 1, true, 90},
	{"FIRST 2: the slower of the first two", 3,
	{{3, 10}, {2, 60}, {1, 90}}, 2, true, 60},
	{"FIRST 2: the third does not help", 3,
	{{1, 10}, {2, 60}, {3, 90}}, 2, true, 10},
	{"FIRST 3: the slowest", 3, {{1, 30}, {2, 10}, {3, 20}}, 3, true, 10},
	{"FIRST: of equals the one behind", 3,
	{{1, 90}, {1, 50}, {2, 10}}, 1, true, 50},
	{"FIRST: of equals the one behind, in the other order", 3,
	{{1, 50}, {1, 90}, {2, 10}}, 1, true, 50},
	{"FIRST: one that has flushed nothing", 2, {{1, 0}, {2, 90}}, 1, true, 0},

	{"ANY 1: the fastest", 3, {{1, 10}, {1, 60}, {1, 90}}, 1, false, 90},
	{"ANY 2: the second fastest", 3, {{1, 10}, {1, 90}, {1, 60}}, 2, false, 60},
	{"ANY 3: the slowest", 3, {{1, 60}, {1, 10}, {1, 90}}, 3, false, 10},
	{"ANY: priorities mean nothing", 3,
	{{3, 90}, {1, 10}, {2, 20}}, 1, false, 90},
	{"the last position there is", 2,
	{{1, UINT64_MAX}, {2, UINT64_MAX}}, 2, true, UINT64_MAX},
};

static void
test_cases(void)
{
	for (size_t i = 0; i < UNIT_COUNT(quorum_cases); i++)
	{
		QuorumCase	c = quorum_cases[i];

		if (!CHECK_EQ(idgen_quorum_position(c.standbys, c.count, c.needed,
											c.by_priority), c.position))
			printf("# in the case: %s\n", c.name);
	}
}

/* How many of the standbys have flushed up to a position? */
static int32_t
count_flushed(const IdgenStandby *standbys, int32_t count, uint64_t position)
{
	int32_t		flushed_count = 0;

	for (int32_t i = 0; i < count; i++)
		if (standbys[i].flushed >= position)
			flushed_count++;
	return flushed_count;
}

/*
 * Is the position safe by priority: has every standby flushed it that some
 * choice of "needed" in the order of priorities contains?
 */
static bool
flushed_by_first(const IdgenStandby *standbys, int32_t count, int32_t needed,
				 uint64_t position)
{
	for (int32_t i = 0; i < count; i++)
	{
		int32_t		before_count = 0;

		for (int32_t j = 0; j < count; j++)
			if (standbys[j].priority < standbys[i].priority)
				before_count++;
		if (before_count < needed && standbys[i].flushed < position)
			return false;
	}
	return true;
}

/* The greatest position that is safe, found by trying all. */
static uint64_t
find_position(const IdgenStandby *standbys, int32_t count, int32_t needed,
			  bool by_priority)
{
	uint64_t	found = 0;

	if (needed < 1 || count < needed)
		return 0;
	for (uint64_t position = 1; position <= FLUSHED_MAX; position++)
		if (by_priority ?
			flushed_by_first(standbys, count, needed, position) :
			count_flushed(standbys, count, position) >= needed)
			found = position;
	return found;
}

/* Are the same standbys still there, in whatever order? */
static bool
same_standbys(const IdgenStandby *before, const IdgenStandby *after,
			  int32_t count)
{
	bool		is_found[STANDBYS_MAX] = {false};

	for (int32_t i = 0; i < count; i++)
	{
		int32_t		j = 0;

		while (j < count && (is_found[j] ||
							 before[i].priority != after[j].priority ||
							 before[i].flushed != after[j].flushed))
			j++;
		if (j == count)
			return false;
		is_found[j] = true;
	}
	return true;
}

static void
check_all_questions(const IdgenStandby *standbys, int32_t count)
{
	for (int32_t needed = -1; needed <= count + 1; needed++)
		for (int by_priority = 0; by_priority <= 1; by_priority++)
		{
			IdgenStandby given[STANDBYS_MAX];

			memcpy(given, standbys, sizeof(given));
			CHECK_EQ(idgen_quorum_position(given, count, needed,
										   by_priority != 0),
					 find_position(standbys, count, needed, by_priority != 0));
			CHECK(same_standbys(standbys, given, count));
		}
}

/* All sets of up to four standbys, with priorities 1 to 3 and positions 0 to 4. */
static void
test_all_small(void)
{
	const int	kinds = 3 * (FLUSHED_MAX + 1);
	int			sets = 1;

	for (int32_t count = 0; count <= STANDBYS_MAX; count++)
	{
		for (int set = 0; set < sets && !unit_failed(); set++)
		{
			IdgenStandby standbys[STANDBYS_MAX] = {{0, 0}};

			for (int rest = set, i = 0; i < count; i++, rest /= kinds)
			{
				standbys[i].priority = rest % kinds % 3 + 1;
				standbys[i].flushed = (uint64_t) (rest % kinds / 3);
			}
			check_all_questions(standbys, count);
		}
		sets *= kinds;
	}
}

static const UnitTest tests[] = {
	{"FIRST and ANY, by example", test_cases},
	{"all small sets, against counting", test_all_small},
};

int
main(void)
{
	return unit_main(tests, UNIT_COUNT(tests));
}
