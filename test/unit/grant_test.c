/*
 * grant_test.c
 *		The interval rule, replenishing, fences, the chain of grants, the choice
 *		of a worker, the identity verdict, the change of timeline.
 */
#include "cursor.h"
#include "grant.h"
#include "takeover.h"
#include "unit.h"

#define UNTOUCHED	INT64_C(-77)

typedef struct GrantCase
{
	const char *name;
	IdgenGrantFacts facts;		/* now, eligible, high_water, length, horizon */
	int64_t		tick_count;
	IdgenGrantVerdict verdict;
	IdgenGrant	grant;			/* if OK */
	int64_t		retry_at;		/* if BEYOND_HORIZON */
} GrantCase;

static const GrantCase grant_cases[] = {
	{"mark before now", {160, 160, 100, 40, 1000}, 4096,
	IDGEN_GRANT_OK, {160, 200}, 0},
	{"mark at now", {160, 160, 160, 40, 1000}, 4096,
	IDGEN_GRANT_OK, {160, 200}, 0},
	{"mark after now", {160, 160, 200, 40, 1000}, 4096,
	IDGEN_GRANT_OK, {200, 240}, 0},
	{"mark untouched", {160, 160, 0, 40, 1000}, 4096,
	IDGEN_GRANT_OK, {160, 200}, 0},
	{"eligible after mark and now", {160, 300, 200, 40, 1000}, 4096,
	IDGEN_GRANT_OK, {300, 340}, 0},
	{"eligible before mark", {160, 180, 200, 40, 1000}, 4096,
	IDGEN_GRANT_OK, {200, 240}, 0},
	{"eligible before now", {160, 100, 0, 40, 1000}, 4096,
	IDGEN_GRANT_OK, {160, 200}, 0},
	{"mark and eligible one tick before now", {160, 159, 159, 40, 1000}, 4096,
	IDGEN_GRANT_OK, {160, 200}, 0},
	{"eligible before tick 0", {160, INT64_MIN, 170, 40, 1000}, 4096,
	IDGEN_GRANT_OK, {170, 210}, 0},
	{"one tick", {160, 160, 0, 1, 1}, 4096,
	IDGEN_GRANT_OK, {160, 161}, 0},

	{"end at the horizon", {160, 160, 200, 60, 100}, 4096,
	IDGEN_GRANT_OK, {200, 260}, 0},
	{"end cut to the horizon", {160, 160, 200, 61, 100}, 4096,
	IDGEN_GRANT_OK, {200, 260}, 0},
	{"last tick below the horizon", {160, 160, 259, 40, 100}, 4096,
	IDGEN_GRANT_OK, {259, 260}, 0},
	{"mark at the horizon", {160, 160, 260, 40, 100}, 4096,
	IDGEN_GRANT_BEYOND_HORIZON, {0, 0}, 161},
	{"mark far beyond the horizon", {160, 160, 1000, 40, 100}, 4096,
	IDGEN_GRANT_BEYOND_HORIZON, {0, 0}, 901},
	{"eligible beyond the horizon", {160, 500, 0, 40, 100}, 4096,
	IDGEN_GRANT_BEYOND_HORIZON, {0, 0}, 401},
	{"longest length", {160, 160, 0, INT64_MAX, 100}, 4096,
	IDGEN_GRANT_OK, {160, 260}, 0},

	{"end at the field's end", {4000, 4000, 4056, 40, 1000}, 4096,
	IDGEN_GRANT_OK, {4056, 4096}, 0},
	{"end cut to the field's end", {4000, 4000, 4057, 40, 1000}, 4096,
	IDGEN_GRANT_OK, {4057, 4096}, 0},
	{"last tick of the field", {4095, 4095, 0, 40, 1000}, 4096,
	IDGEN_GRANT_OK, {4095, 4096}, 0},
	{"mark at the field's end", {4000, 4000, 4096, 40, 1000}, 4096,
	IDGEN_GRANT_FIELD_EXHAUSTED, {0, 0}, 0},
	{"clock at the field's end", {4096, 4096, 0, 40, 1000}, 4096,
	IDGEN_GRANT_FIELD_EXHAUSTED, {0, 0}, 0},
	{"clock past the field's end", {9999, 9999, 4000, 40, 1000}, 4096,
	IDGEN_GRANT_FIELD_EXHAUSTED, {0, 0}, 0},
	{"clock past the field's end, the rest before it", {4096, 0, 0, 40, 1000},
		4096, IDGEN_GRANT_FIELD_EXHAUSTED, {0, 0}, 0},
	{"field's end beats the horizon", {10, 10, 4096, 40, 100}, 4096,
	IDGEN_GRANT_FIELD_EXHAUSTED, {0, 0}, 0},
	{"field of 63 bits, last tick", {INT64_MAX - 101, INT64_MAX - 101,
			INT64_MAX - 2, 40, 100}, INT64_MAX,
	IDGEN_GRANT_OK, {INT64_MAX - 2, INT64_MAX - 1}, 0},
	{"field of 63 bits, mark at its end", {0, 0, INT64_MAX, 40, 100}, INT64_MAX,
	IDGEN_GRANT_FIELD_EXHAUSTED, {0, 0}, 0},
	{"field of 63 bits, mark far beyond", {0, 0, INT64_MAX - 1, 40, 100},
		INT64_MAX, IDGEN_GRANT_BEYOND_HORIZON, {0, 0}, INT64_MAX - 100},

	{"clock just before tick 0", {-5, -5, 0, 40, 100}, 4096,
	IDGEN_GRANT_OK, {0, 40}, 0},
	{"clock before tick 0, cut to the horizon", {-90, -90, 0, 40, 100}, 4096,
	IDGEN_GRANT_OK, {0, 10}, 0},
	{"clock a horizon before tick 0", {-100, -100, 0, 40, 100}, 4096,
	IDGEN_GRANT_BEYOND_HORIZON, {0, 0}, -99},
	{"clock as early as can be", {-2 * IDGEN_UNIX_MS_MAX,
			-2 * IDGEN_UNIX_MS_MAX, 0, 40, 100}, 4096,
	IDGEN_GRANT_BEYOND_HORIZON, {0, 0}, -99},

	{"length zero", {160, 160, 0, 0, 100}, 4096,
	IDGEN_GRANT_BAD_REQUEST, {0, 0}, 0},
	{"length negative", {160, 160, 0, INT64_MIN, 100}, 4096,
	IDGEN_GRANT_BAD_REQUEST, {0, 0}, 0},
	{"horizon zero", {160, 160, 0, 40, 0}, 4096,
	IDGEN_GRANT_BAD_REQUEST, {0, 0}, 0},
	{"mark negative", {160, 160, -1, 40, 100}, 4096,
	IDGEN_GRANT_BAD_REQUEST, {0, 0}, 0},
};

static void
test_decide(void)
{
	for (size_t i = 0; i < UNIT_COUNT(grant_cases); i++)
	{
		const GrantCase *c = &grant_cases[i];
		IdgenGrant	grant = {UNTOUCHED, UNTOUCHED};
		int64_t		retry_at = UNTOUCHED;
		bool		granted = c->verdict == IDGEN_GRANT_OK;
		bool		beyond = c->verdict == IDGEN_GRANT_BEYOND_HORIZON;
		bool		good = true;

		good &= CHECK_EQ(idgen_grant_decide(&c->facts, c->tick_count, &grant,
											&retry_at), c->verdict);
		good &= CHECK_EQ(grant.start, granted ? c->grant.start : UNTOUCHED);
		good &= CHECK_EQ(grant.end, granted ? c->grant.end : UNTOUCHED);
		good &= CHECK_EQ(retry_at, beyond ? c->retry_at : UNTOUCHED);
		if (!good)
			printf("# in the case: %s\n", c->name);
	}
}

/* The tick named for a retry works; the one before it does not. */
static void
test_retry_at(void)
{
	for (size_t i = 0; i < UNIT_COUNT(grant_cases); i++)
	{
		IdgenGrantFacts facts = grant_cases[i].facts;
		IdgenGrant	grant;
		int64_t		retry_at;
		int64_t		ignored;

		if (grant_cases[i].verdict != IDGEN_GRANT_BEYOND_HORIZON)
			continue;
		(void) idgen_grant_decide(&facts, grant_cases[i].tick_count, &grant,
								  &retry_at);
		facts.now = retry_at - 1;
		CHECK_EQ(idgen_grant_decide(&facts, grant_cases[i].tick_count, &grant,
									&ignored), IDGEN_GRANT_BEYOND_HORIZON);
		CHECK_EQ(ignored, retry_at);
		facts.now = retry_at;
		CHECK_EQ(idgen_grant_decide(&facts, grant_cases[i].tick_count, &grant,
									&ignored), IDGEN_GRANT_OK);
		CHECK_EQ(grant.end - grant.start, 1);
	}
}

/* Two grants in a row share their boundary and no tick. */
static void
test_worked_sequence(void)
{
	IdgenGrantFacts facts = {.now = 160, .eligible = 160, .high_water = 160,
	.length = 40, .horizon = 1000};
	IdgenGrant	grant;
	int64_t		retry_at;

	CHECK_EQ(idgen_grant_decide(&facts, 4096, &grant, &retry_at),
			 IDGEN_GRANT_OK);
	CHECK_EQ(grant.start, 160);
	CHECK_EQ(grant.end, 200);
	facts.high_water = grant.end;
	CHECK_EQ(idgen_grant_decide(&facts, 4096, &grant, &retry_at),
			 IDGEN_GRANT_OK);
	CHECK_EQ(grant.start, 200);
	CHECK_EQ(grant.end, 240);
}

typedef struct DueCase
{
	const char *name;
	int64_t		granted_end;
	int64_t		length;
	int64_t		horizon;
	int64_t		run_ahead;
	int64_t		due_at;
} DueCase;

static const DueCase due_cases[] = {
	{"one length before the end", 1000, 40, 200, 0, 960},
	{"a length of one tick", 1000, 1, 200, 0, 999},
	{"a length of half a horizon", 1000, 100, 200, 0, 900},
	{"half a horizon before the end", 1000, 101, 200, 0, 900},
	{"half an odd horizon, rounded down", 1000, 150, 201, 0, 900},
	{"a length of the horizon", 1000, 200, 200, 0, 900},
	{"run-ahead comes on top", 1000, 40, 200, 30, 930},
	{"a grant is worth half a length", 1000, 40, 200, 159, 820},
	{"run-ahead near the horizon", 1000, 40, 200, 190, 809},
	{"the longest run-ahead", 1000, 200, 200, 199, 801},
	{"the longest length", 1000, INT64_MAX, 200, 0, 900},
	{"horizon of one tick", 161, 1, 1, 0, 161},
	{"horizon of two ticks", 162, 1, 2, 0, 161},
	{"horizon of two ticks, granted at once", 162, 2, 2, 0, 161},
	{"horizon of two ticks, run-ahead", 162, 1, 2, 1, 161},
	{"horizon of three ticks, run-ahead", 163, 3, 3, 1, 161},
	{"nothing granted yet", 0, 40, 200, 0, -40},
	{"granted to the end of 63 bits", INT64_MAX, 40, 200, 0, INT64_MAX - 40},
};

static void
test_due_at(void)
{
	for (size_t i = 0; i < UNIT_COUNT(due_cases); i++)
	{
		const DueCase *c = &due_cases[i];

		CHECK_EQ(idgen_grant_due_along(c->granted_end, c->length, c->horizon, c->run_ahead),
				 c->due_at - c->length / 4);
		if (!CHECK_EQ(idgen_grant_due_at(c->granted_end, c->length, c->horizon,
										 c->run_ahead), c->due_at))
			printf("# in the case: %s\n", c->name);
	}
}

/* How cursors come to grants, early and late; the horizon is 1000. */
#define FIRST INT64_MAX
static const struct
{
	const char *name;
	int64_t		needed;
	IdgenGrantTiming timing;	/* grant, length, wanted, dry, decided, published */
	int64_t		length;
}			length_cases[] = {
	{"the first, published at once", 0, {{100, 101}, 1, 100, FIRST, 100, 100}, 0},
	{"more is left than it took", 0, {{100, 111}, 11, 100, FIRST, 100, 105}, 0},
	{"as much is left as it took", 0, {{100, 110}, 10, 100, FIRST, 100, 105}, 20},
	{"one tick that is over", 0, {{100, 101}, 1, 100, FIRST, 100, 104}, 2},
	{"over for long", 0, {{100, 200}, 100, 100, FIRST, 100, 1100}, 200},
	{"twice as long is past the horizon", 0, {{100, 700}, 600, 100, FIRST, 100, 700}, 1000},
	{"longer ones are needed already", 21, {{100, 110}, 10, 100, FIRST, 100, 105}, 21},
	{"as long ones are needed already", 20, {{100, 110}, 10, 100, FIRST, 100, 105}, 20},
	{"cut by the field's end, and late", 0, {{100, 103}, 40, 100, FIRST, 100, 103}, 80},
	{"the clock went back", 0, {{100, 101}, 1, 100, FIRST, 100, 50}, 0},

	{"the next, before the cursor is dry", 0, {{200, 300}, 100, 100, 200, 190, 195}, 0},
	{"when it is", 0, {{200, 300}, 100, 100, 200, 190, 200}, 0},
	{"a tick later", 0, {{200, 300}, 100, 100, 200, 190, 201}, 200},
	{"dry for long", 0, {{900, 1000}, 100, 100, 200, 900, 901}, 200},
	{"before it is dry, but little is left", 0, {{200, 210}, 10, 150, 200, 150, 190}, 20},

	{"half would have been enough", 80, {{200, 280}, 80, 120, 200, 139, 140}, 70},
	{"hardly", 80, {{200, 280}, 80, 120, 200, 139, 141}, 80},
	{"the first, and half would have been enough", 80, {{100, 180}, 80, 100, FIRST, 100, 120}, 70},
	{"hardly, the first", 80, {{100, 180}, 80, 100, FIRST, 100, 121}, 80},
	{"a remainder", 17, {{100, 117}, 17, 100, FIRST, 100, 102}, 15},
	{"by one at least", 7, {{100, 107}, 7, 100, FIRST, 100, 101}, 6},
	{"to the end", 1, {{100, 101}, 1, 100, FIRST, 100, 100}, 0},
	{"another has come late since", 160, {{200, 280}, 80, 120, 200, 139, 140}, 160},
	{"another has become shorter before", 60, {{200, 280}, 80, 120, 200, 139, 140}, 60},
	{"as long as the horizon", 1000, {{600, 1000}, 1000, 100, 600, 340, 350}, 875},
	{"which hardly sufficed", 1000, {{600, 1000}, 1000, 100, 600, 340, 351}, 1000},
};

static void
test_length_needed(void)
{
	for (size_t i = 0; i < UNIT_COUNT(length_cases); i++)
		if (!CHECK_EQ(idgen_grant_length_needed(length_cases[i].needed, &length_cases[i].timing, 1000),
					  length_cases[i].length))
			printf("# in the case: %s\n", length_cases[i].name);
}

/*
 * An authority that looks every "apart" ticks for cursors that are due, and whose
 * commits take "way" ticks: how many of the ticks, in per cent, has the cursor a grant?
 */
static int64_t
served_percent(int64_t usual, int64_t horizon, int64_t apart, int64_t way)
{
	const int64_t begin = 20000,
				stop = 60000;
	int64_t		needed = 0;
	int64_t		granted_end = -1;
	int64_t		served = 0;
	int64_t		now = 0;

	while (now < stop)
	{
		int64_t		length = needed > usual ? needed : usual;
		IdgenGrantTiming timing = {.length = length, .dry_at = INT64_MAX};
		IdgenGrantFacts facts = {.now = now, .eligible = now, .high_water = granted_end < 0 ? 0 : granted_end,
		.length = length, .horizon = horizon};
		int64_t		retry_at;
		int64_t		usable_from;

		timing.wanted_at = granted_end < 0 ? now : idgen_grant_due_at(granted_end, length, horizon, 0);
		if (now < timing.wanted_at ||
			idgen_grant_decide(&facts, INT64_MAX, &timing.grant, &retry_at) != IDGEN_GRANT_OK)
		{
			now++;
			continue;
		}
		if (granted_end >= 0)
			timing.dry_at = granted_end;
		timing.decided_at = now;
		timing.published_at = now + way;
		usable_from = timing.grant.start > timing.published_at ? timing.grant.start : timing.published_at;
		if (usable_from < timing.grant.end && timing.grant.start >= begin)
			served += timing.grant.end - usable_from;
		needed = idgen_grant_length_needed(needed, &timing, horizon);
		granted_end = timing.grant.end;
		now += way > apart ? way : apart;
	}
	return served * 100 / (stop - begin);
}

/* However short grants should be, and however long they take: few gaps, if the horizon has room. */
static void
test_length_suffices(void)
{
	static const int64_t ways[] = {0, 1, 4, 12, 50, 70};

	for (int64_t usual = 1; usual <= 300; usual += usual < 12 ? 1 : 72)
		for (size_t i = 0; i < UNIT_COUNT(ways); i++)
			if (!CHECK(served_percent(usual, 300, 5, ways[i]) >= 90))
				printf("# %lld %% with grants of %lld that take %lld\n",
					   (long long) served_percent(usual, 300, 5, ways[i]), (long long) usual, (long long) ways[i]);
}

/* A fresh incarnation whose IDs must follow all before it. */
static void
test_ordered_start(void)
{
	/* nothing granted before, or nothing that reaches the clock */
	CHECK_EQ(idgen_grant_ordered_start(160, 0, 0), 160);
	CHECK_EQ(idgen_grant_ordered_start(160, 9, 160), 160);
	/* the tick of the clock, and those it ran ahead, may be used */
	CHECK_EQ(idgen_grant_ordered_start(160, 0, 200), 161);
	CHECK_EQ(idgen_grant_ordered_start(160, 9, 200), 170);
	/* but none past the highest mark */
	CHECK_EQ(idgen_grant_ordered_start(160, 9, 165), 165);
	/* also before the epoch */
	CHECK_EQ(idgen_grant_ordered_start(-5, 0, 0), -4);
	/* a mark at the end of 63 bits */
	CHECK_EQ(idgen_grant_ordered_start(160, 9, INT64_MAX), 170);
	CHECK_EQ(idgen_grant_ordered_start(INT64_MAX - 10, 9, INT64_MAX), INT64_MAX);
}

/* The first tick from now on that has none at or after it in use. */
static int64_t
stepped_ordered_start(int64_t now, int64_t run_ahead, int64_t highest_mark)
{
	int64_t		start = now;

	for (int64_t tick = now; tick <= now + run_ahead; tick++)
		if (tick < highest_mark)
			start = tick + 1;
	return start;
}

static void
test_ordered_start_stepping(void)
{
	for (int64_t now = -8; now <= 16; now++)
		for (int64_t run_ahead = 0; run_ahead <= 8; run_ahead++)
			for (int64_t mark = 0; mark <= 32; mark++)
				CHECK_EQ(idgen_grant_ordered_start(now, run_ahead, mark),
						 stepped_ordered_start(now, run_ahead, mark));
}

/*
 * Right after a grant to the horizon nothing is due, or the authority would
 * turn in a circle; when it is due, it is possible; and it is due before a
 * cursor with its run-ahead can be past the end.
 */
static void
due_after_full_horizon(int64_t length, int64_t horizon, int64_t run_ahead)
{
	IdgenGrantFacts facts = {.now = 160, .eligible = 160, .high_water = 160,
	.length = horizon, .horizon = horizon};
	IdgenGrant	grant = {0, 0};
	int64_t		due_at;
	int64_t		retry_at;

	CHECK_EQ(idgen_grant_decide(&facts, 4096, &grant, &retry_at),
			 IDGEN_GRANT_OK);
	CHECK_EQ(grant.end, 160 + horizon);
	due_at = idgen_grant_due_at(grant.end, length, horizon, run_ahead);
	CHECK(due_at > 160);
	CHECK(due_at <= grant.end - run_ahead);

	/* before it can run dry, wherever the horizon leaves room for that */
	if (run_ahead + 1 < horizon)
		CHECK(due_at < grant.end - run_ahead);
	facts.high_water = grant.end;
	facts.now = facts.eligible = due_at;
	facts.length = length;
	CHECK_EQ(idgen_grant_decide(&facts, 4096, &grant, &retry_at),
			 IDGEN_GRANT_OK);
}

static void
test_due_not_at_once(void)
{
	for (int64_t horizon = 1; horizon <= 24; horizon++)
		for (int64_t length = 1; length <= horizon; length++)
			for (int64_t run_ahead = 0; run_ahead < horizon; run_ahead++)
				due_after_full_horizon(length, horizon, run_ahead);
	due_after_full_horizon(1000, 3600, 3599);
}

typedef struct FenceCase
{
	const char *name;
	IdgenFenceFacts facts;		/* now, last_clock, highest_mark, above,
								 * horizon, clock_error */
	int64_t		tick_count;
	int64_t		floor;
} FenceCase;

static const FenceCase fence_cases[] = {
	{"the clock now", {500, 400, 450, 0, 100, 7}, 4096, 607},
	{"the clock of the last grant", {400, 500, 450, 0, 100, 7}, 4096, 607},
	{"the highest mark less the horizon", {400, 410, 620, 0, 100, 7}, 4096, 627},
	{"mark that the clock now explains", {500, 0, 600, 0, 100, 7}, 4096, 607},
	{"mark one tick past that", {500, 0, 601, 0, 100, 7}, 4096, 608},
	{"mark that the last grant explains", {0, 500, 600, 0, 100, 7}, 4096, 607},
	{"mark one tick past that one", {0, 500, 601, 0, 100, 7}, 4096, 608},
	{"nothing granted ever", {500, 0, 0, 0, 100, 7}, 4096, 607},
	{"clocks agree", {500, 500, 550, 0, 100, 0}, 4096, 600},
	{"clocks agree, mark at the horizon", {500, 500, 600, 0, 100, 0}, 4096, 600},
	{"clocks agree, mark past the horizon", {500, 500, 601, 0, 100, 0},
		4096, 601},
	{"horizon of one tick", {500, 500, 501, 0, 1, 0}, 4096, 501},
	{"clock error above the horizon", {500, 500, 550, 0, 100, 900}, 4096, 1500},

	{"above what the clocks give", {500, 400, 450, 3000, 100, 7}, 4096, 3000},
	{"above by one tick", {500, 400, 450, 608, 100, 7}, 4096, 608},
	{"above at it", {500, 400, 450, 607, 100, 7}, 4096, 607},
	{"above below it", {500, 400, 450, 606, 100, 7}, 4096, 607},
	{"above below the mark", {400, 400, 620, 619, 100, 7}, 4096, 627},

	{"clocks before tick 0", {-500, -400, 0, 0, 100, 7}, 4096, 107},
	{"clock before tick 0, no grant", {-500, 0, 0, 0, 100, 7}, 4096, 107},
	{"clocks one tick before tick 0", {-1, -1, 0, 0, 100, 7}, 4096, 107},
	{"clock at tick 1", {1, -1, 0, 0, 100, 7}, 4096, 108},
	{"clocks before tick 0, mark at the horizon", {-50, -50, 100, 0, 100, 7},
		4096, 107},
	{"clocks before tick 0, mark past it", {-50, -50, 101, 0, 100, 7},
		4096, 108},
	{"clocks before tick 0, above", {-500, -400, 0, 200, 100, 7}, 4096, 200},
	{"clocks as early as can be", {-2 * IDGEN_UNIX_MS_MAX,
			-2 * IDGEN_UNIX_MS_MAX, 0, 0, 100, 7}, 4096, 107},

	{"up to the field's end", {500, 400, 450, 0, 100, 7}, 607, 607},
	{"cut by one tick", {500, 400, 450, 0, 100, 7}, 606, 606},
	{"cut at the field's end", {4000, 4000, 4050, 0, 100, 7}, 4096, 4096},
	{"clock past the field", {9999, 4000, 4050, 0, 100, 7}, 4096, 4096},
	{"mark at the field's end", {0, 0, 4096, 0, 100, 7}, 4096, 4096},
	{"above the last ID of the field", {0, 0, 0, 4096, 100, 7}, 4096, 4096},
	{"above any ID of the field", {0, 0, 0, INT64_MAX, 100, 7}, 4096, 4096},
	{"above the last ID of 63 bits", {0, 0, 0, INT64_MAX, 100, 7}, INT64_MAX,
		INT64_MAX},
	{"clock as late as can be", {2 * IDGEN_UNIX_MS_MAX, 0, 0, 0, 100, 7},
		INT64_MAX, 2 * IDGEN_UNIX_MS_MAX + 107},

	{"mark at the end of 63 bits", {0, 0, INT64_MAX, 0, 100, 7}, INT64_MAX,
		INT64_MAX},
	{"mark one tick before the end of 63 bits", {0, 0, INT64_MAX - 1, 0, 100, 7},
		INT64_MAX, INT64_MAX},
	{"the last mark whose fence is cut", {0, 0, INT64_MAX - 6, 0, 100, 7},
		INT64_MAX, INT64_MAX},
	{"up to the end of 63 bits", {0, 0, INT64_MAX - 7, 0, 100, 7}, INT64_MAX,
		INT64_MAX},
	{"up to one tick before it", {0, 0, INT64_MAX - 8, 0, 100, 7}, INT64_MAX,
		INT64_MAX - 1},
	{"field shorter than the fence", {3, 3, 4, 0, 100, 7}, 8, 8},
	{"field shorter than the fence, clocks before tick 0",
	{-500, -400, 0, 0, 100, 7}, 8, 8},
	{"field as long as the fence", {0, 0, 0, 0, 100, 7}, 107, 107},
	{"field one tick longer than the fence", {0, 0, 0, 0, 100, 7}, 108, 107},
};

static void
test_fence_floor(void)
{
	for (size_t i = 0; i < UNIT_COUNT(fence_cases); i++)
	{
		const FenceCase *c = &fence_cases[i];

		if (!CHECK_EQ(idgen_fence_floor(&c->facts, c->tick_count), c->floor))
			printf("# in the case: %s\n", c->name);
		CHECK(c->floor >= c->facts.highest_mark);
		CHECK(c->floor >= c->facts.above || c->floor == c->tick_count);
	}
}

typedef struct ChainCase
{
	bool		holds_worker;
	bool		is_last_request;
	bool		is_recorded;
	bool		follows_last;	/* after_grant equals last_grant */
	IdgenChainVerdict verdict;
} ChainCase;

/* Every combination: TAKEN, then REPEATED, then STALE, then NEXT or FORKED. */
static const ChainCase chain_cases[] = {
	{false, false, false, false, IDGEN_CHAIN_TAKEN},
	{false, false, false, true, IDGEN_CHAIN_TAKEN},
	{false, false, true, false, IDGEN_CHAIN_TAKEN},
	{false, false, true, true, IDGEN_CHAIN_TAKEN},
	{false, true, false, false, IDGEN_CHAIN_TAKEN},
	{false, true, false, true, IDGEN_CHAIN_TAKEN},
	{false, true, true, false, IDGEN_CHAIN_TAKEN},
	{false, true, true, true, IDGEN_CHAIN_TAKEN},
	{true, false, false, false, IDGEN_CHAIN_FORKED},
	{true, false, false, true, IDGEN_CHAIN_NEXT},
	{true, false, true, false, IDGEN_CHAIN_STALE},
	{true, false, true, true, IDGEN_CHAIN_STALE},
	{true, true, false, false, IDGEN_CHAIN_REPEATED},
	{true, true, false, true, IDGEN_CHAIN_REPEATED},
	{true, true, true, false, IDGEN_CHAIN_REPEATED},
	{true, true, true, true, IDGEN_CHAIN_REPEATED},
};

static void
test_chain_judge(void)
{
	/* the first two agree in their low 32 bits */
	const int64_t grants[] = {1, INT64_C(0x100000001), 2, 0, -1, INT64_MAX,
	INT64_MIN};

	for (size_t i = 0; i < UNIT_COUNT(chain_cases); i++)
	{
		const ChainCase *c = &chain_cases[i];

		for (size_t a = 0; a < UNIT_COUNT(grants); a++)
			for (size_t l = 0; l < UNIT_COUNT(grants); l++)
			{
				const IdgenChainFacts facts = {
					.holds_worker = c->holds_worker,
					.is_last_request = c->is_last_request,
					.is_recorded = c->is_recorded,
					.after_grant = grants[a],
					.last_grant = grants[l],
				};

				if ((a == l) == c->follows_last &&
					!CHECK_EQ(idgen_chain_judge(&facts), c->verdict))
					printf("# in case %zu, %" PRId64 " after %" PRId64 "\n", i,
						   grants[a], grants[l]);
			}
	}
}

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

/* Issue one ID for incarnation "who"; the ticks it may use are its own. */
static void
issue_owned(IdgenCursor *cursor, const IdgenLayout *layout, int64_t now,
			const int *owner, int who, int64_t *last_id)
{
	const IdgenCursorDemand demand = {.now = now, .count = 1};
	IdgenCursorRun run;
	int64_t		id;

	if (idgen_cursor_issue(cursor, layout, &demand, &run) !=
		IDGEN_CURSOR_ISSUED)
		return;
	CHECK_EQ(owner[run.tick], who);
	id = idgen_layout_assemble(layout, run.tick, cursor->worker, run.sequence);
	CHECK(id > *last_id);
	*last_id = id;
}

/*
 * With long ticks, lengths given in milliseconds are fractions of a tick.  Two
 * incarnations that take turns on one worker, many times within one tick, must
 * never be granted the same one.
 */
static void
long_ticks(int64_t tick_ms)
{
	const IdgenLayout layout = {.timestamp_bits = 9,
		.worker_bits = 2, .sequence_bits = 4, .epoch_ms = 1000003,
	.tick_ms = tick_ms, .horizon_ms = 10 * tick_ms};
	int			owner[512] = {0};
	int64_t		last_id[2] = {0, 0};
	IdgenCursor cursors[2];
	int64_t		high_water = 0;
	int64_t		granted_count = 0;

	CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_OK);
	idgen_cursor_init(&cursors[0], 1);
	idgen_cursor_init(&cursors[1], 1);
	for (int step = 0; step < 2000; step++)
	{
		/* eight steps in a tick, each short of a whole number of parts */
		const int64_t now_ms = layout.epoch_ms + step * (tick_ms / 8) + step % 7;
		const int64_t now = idgen_layout_tick_at(&layout, now_ms);
		const int	who = step % 2;
		const IdgenGrantFacts facts = {.now = now, .eligible = now,
			.high_water = high_water,
			.length = idgen_layout_ticks_ceil(&layout, 1 + step % 500),
		.horizon = idgen_layout_ticks_ceil(&layout, layout.horizon_ms)};
		IdgenGrant	grant;
		int64_t		retry_at;

		if (idgen_grant_decide(&facts, idgen_layout_tick_count(&layout), &grant,
							   &retry_at) == IDGEN_GRANT_OK)
		{
			for (int64_t tick = grant.start; tick < grant.end; tick++)
			{
				CHECK_EQ(owner[tick], 0);
				owner[tick] = who + 1;
			}
			high_water = grant.end;
			granted_count++;
			(void) idgen_cursor_install(&cursors[who], &grant, now);
		}
		issue_owned(&cursors[who], &layout, now, owner, who + 1, &last_id[who]);
	}
	CHECK(granted_count > 100);
	CHECK(last_id[0] > 0 && last_id[1] > 0);
}

static void
test_long_ticks(void)
{
	long_ticks(1000);
	long_ticks(60000);
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

static const IdgenIdentity recorded = {
	.system_identifier = UINT64_C(0xf123456789abcdef),
	.database = 16384,
	.timeline = 1,
	.control_inode = UINT64_MAX,
	.control_birth = 1000,
	.version_inode = 43,
	.version_birth = 2000,
};

/* Both ways round: neither side is special. */
static IdgenIdentityVerdict
compare_with(const IdgenIdentity *found)
{
	IdgenIdentityVerdict verdict = idgen_identity_compare(&recorded, found);

	CHECK_EQ(idgen_identity_compare(found, &recorded), verdict);
	return verdict;
}

static void
test_identity_single(void)
{
	IdgenIdentity found = recorded;

	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_SAME);
	found.system_identifier++;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_SYSTEM);
	found = recorded;
	found.database++;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_DATABASE);
	found = recorded;
	found.timeline++;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_TIMELINE);
	found = recorded;
	found.control_inode--;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_CONTROL);
	found = recorded;
	found.control_birth++;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_CONTROL);
	found = recorded;
	found.version_inode++;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_FILES);
	found = recorded;
	found.version_birth++;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_FILES);
}

/* Differences added from the weakest on: the strongest is named. */
static void
test_identity_strongest(void)
{
	IdgenIdentity found = recorded;

	found.version_inode++;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_FILES);
	found.database++;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_DATABASE);
	found.control_inode--;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_CONTROL);
	found.timeline++;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_TIMELINE);
	found.system_identifier++;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_SYSTEM);
}

/* A filesystem without birth times: the inode alone decides. */
static void
test_identity_births_missing(void)
{
	IdgenIdentity found = recorded;

	found.control_birth = 0;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_SAME);
	found.version_birth = 0;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_SAME);
	found.version_inode++;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_FILES);
	found.control_inode--;
	CHECK_EQ(compare_with(&found), IDGEN_IDENTITY_OTHER_CONTROL);
}

/* A database made anew under its old number, also seen across a promotion. */
static void
test_identity_recreated(void)
{
	for (int later = 0; later < 3; later++)
	{
		IdgenIdentity found = recorded;

		found.timeline += (uint32_t) later;
		CHECK(!idgen_identity_is_recreated(&recorded, &found));
		found.version_birth++;
		CHECK(idgen_identity_is_recreated(&recorded, &found));
		found.version_birth--;
		found.version_inode++;
		CHECK(idgen_identity_is_recreated(&recorded, &found));
		found.database++;
		CHECK(!idgen_identity_is_recreated(&recorded, &found));
		found.database--;
		found.control_birth++;
		CHECK(!idgen_identity_is_recreated(&recorded, &found));
		found.control_birth--;
		found.control_inode--;
		CHECK(!idgen_identity_is_recreated(&recorded, &found));
		found.control_inode++;
		found.system_identifier++;
		CHECK(!idgen_identity_is_recreated(&recorded, &found));
	}
}

/* Promoted on its own files: each condition by itself. */
static void
test_identity_in_place(void)
{
	IdgenIdentity before = recorded;
	IdgenIdentity found = recorded;
	IdgenPromotionFacts facts = {.history_complete = true};

	found.timeline++;
	for (IdgenPromotion policy = IDGEN_PROMOTION_FENCE; policy <= IDGEN_PROMOTION_REFUSE; policy++)
	{
		facts.policy = policy;
		CHECK_EQ(idgen_identity_is_in_place(&recorded, &found, &facts),
				 policy != IDGEN_PROMOTION_SPLIT);
	}
	facts.policy = IDGEN_PROMOTION_FENCE;

	/* the database may be another, or made anew: that is compared then */
	found.database++;
	found.version_inode++;
	CHECK(idgen_identity_is_in_place(&recorded, &found, &facts));

	facts.history_complete = false;
	CHECK(!idgen_identity_is_in_place(&recorded, &found, &facts));
	facts.history_complete = true;
	facts.has_target = true;
	CHECK(!idgen_identity_is_in_place(&recorded, &found, &facts));
	facts.has_target = false;

	/* recovered from elsewhere: long before the record, or not */
	facts.recorded_ms = 100000;
	facts.clock_error_ms = 5000;
	facts.restored_ms = 94999;
	CHECK(idgen_identity_is_in_place(&recorded, &found, &facts));
	facts.restored_ms = 95000;
	CHECK(!idgen_identity_is_in_place(&recorded, &found, &facts));
	facts.restored_ms = INT64_MAX;
	CHECK(!idgen_identity_is_in_place(&recorded, &found, &facts));
	facts.recorded_ms = 0;
	facts.restored_ms = 0;
	CHECK(idgen_identity_is_in_place(&recorded, &found, &facts));

	found.timeline = recorded.timeline;
	CHECK(!idgen_identity_is_in_place(&recorded, &found, &facts));
	found.timeline = recorded.timeline + 2;
	CHECK(!idgen_identity_is_in_place(&recorded, &found, &facts));
	before.timeline = UINT32_MAX;
	found.timeline = 0;
	CHECK(!idgen_identity_is_in_place(&before, &found, &facts));
	before = recorded;
	before.timeline = 5;
	found.timeline = 4;
	CHECK(!idgen_identity_is_in_place(&before, &found, &facts));
	found.timeline = recorded.timeline + 1;

	found.system_identifier++;
	CHECK(!idgen_identity_is_in_place(&recorded, &found, &facts));
	found.system_identifier--;
	found.control_inode--;
	CHECK(!idgen_identity_is_in_place(&recorded, &found, &facts));
	found.control_inode++;
	found.control_birth++;
	CHECK(!idgen_identity_is_in_place(&recorded, &found, &facts));

	/* without birth times another file may have the number */
	before = recorded;
	found.control_birth = 0;
	CHECK(!idgen_identity_is_in_place(&before, &found, &facts));
	before.control_birth = 0;
	CHECK(!idgen_identity_is_in_place(&before, &found, &facts));
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

/* The clock in the tests of promotions, and what is far enough before it. */
#define PROMOTED_NOW	INT64_C(1700000000000)
#define PROMOTED_N		INT64_C(15000)

static IdgenPromotionFacts
promotion_facts(int parts, uint32_t present, uint32_t recorded_timeline, int64_t age_ms)
{
	return (IdgenPromotionFacts) {
		.policy = IDGEN_PROMOTION_SPLIT,
		.history_complete = true,
		.recorded = recorded_timeline,
		.present = present,
		.now_ms = PROMOTED_NOW,
		.horizon_ms = 10000,
		.clock_error_ms = 5000,
		.parts = parts,
		.recorded_ms = PROMOTED_NOW - age_ms,
	};
}

/* What "split" says; how long ago the time was that it goes on by, -1 for none. */
static IdgenPromotionVerdict
judge_split(const IdgenPromotionFacts *facts, int64_t *age_ms)
{
	int64_t		begun_ms = -1;	/* of whatever was judged before */
	IdgenPromotionVerdict verdict = idgen_promotion_judge(facts, &begun_ms);

	*age_ms = begun_ms == IDGEN_BEGUN_NEVER ? -1 : facts->now_ms - begun_ms;
	return verdict;
}

/* One piece of evidence at a time: which timeline it is about, and how old it is. */
static void
test_promotion_evidence(void)
{
	static const int64_t ages[] = {-PROMOTED_N, 0, 10000, PROMOTED_N - 1, PROMOTED_N, PROMOTED_N + 1, 1000000};
	static const uint32_t bases[] = {0, 250, 65530, UINT32_MAX - 20};

	for (int parts = 2; parts <= 4; parts += 2)
		for (size_t base = 0; base < UNIT_COUNT(bases); base++)
			for (uint32_t step = 2; step < 16; step++)
				for (uint32_t back = 0; back < step; back++)
					for (size_t a = 0; a < UNIT_COUNT(ages); a++)
					{
						const uint32_t present = bases[base] + step;
						const uint32_t told = present - back;
						const bool	first_use = (int64_t) present <= parts;
						const bool	counts = back < (uint32_t) parts && ages[a] >= PROMOTED_N;
						int64_t		age_ms;
						IdgenPromotionFacts facts;

						/* a history file, while the record is of a timeline too far back */
						facts = promotion_facts(parts, present, present - (uint32_t) parts, 1000000);
						facts.begun[0] = (IdgenTimelineBegun) {told, PROMOTED_NOW - ages[a]};
						facts.begun_count = 1;
						CHECK_EQ(judge_split(&facts, &age_ms) == IDGEN_PROMOTION_AT_ONCE,
								 first_use || counts);
						CHECK_EQ(age_ms, !first_use && counts ? ages[a] : -1);

						/* the record; of the present timeline there is none */
						facts = promotion_facts(parts, present, told, ages[a]);
						CHECK_EQ(judge_split(&facts, &age_ms) == IDGEN_PROMOTION_AT_ONCE,
								 first_use || (counts && back > 0));
						CHECK_EQ(age_ms, !first_use && counts && back > 0 ? ages[a] : -1);
					}
}

/* Of several pieces, one is enough, and the latest that is old enough is told. */
static void
test_promotion_latest(void)
{
	IdgenPromotionFacts facts = promotion_facts(4, 9, 7, 20000);
	int64_t		age_ms;

	facts.begun[0] = (IdgenTimelineBegun) {6, PROMOTED_NOW - 90000};
	facts.begun[1] = (IdgenTimelineBegun) {7, PROMOTED_NOW - 30000};
	facts.begun[2] = (IdgenTimelineBegun) {8, PROMOTED_NOW - 16000};
	facts.begun[3] = (IdgenTimelineBegun) {9, PROMOTED_NOW - 14999};
	facts.begun_count = 4;
	CHECK_EQ(judge_split(&facts, &age_ms), IDGEN_PROMOTION_AT_ONCE);
	CHECK_EQ(age_ms, 16000);
	facts.begun_count = 2;
	CHECK_EQ(judge_split(&facts, &age_ms), IDGEN_PROMOTION_AT_ONCE);
	CHECK_EQ(age_ms, 20000);
	facts.recorded = 4;
	CHECK_EQ(judge_split(&facts, &age_ms), IDGEN_PROMOTION_AT_ONCE);
	CHECK_EQ(age_ms, 30000);
	facts.begun_count = 0;
	CHECK_EQ(judge_split(&facts, &age_ms), IDGEN_PROMOTION_WAIT);
	CHECK_EQ(age_ms, -1);

	/* what is told of a later timeline is another server's */
	facts.begun[0].timeline = 10;
	facts.begun_count = 1;
	CHECK_EQ(judge_split(&facts, &age_ms), IDGEN_PROMOTION_WAIT);
	CHECK_EQ(age_ms, -1);
}

/*
 * Every policy, with every doubt: nothing goes on at once from a history that does
 * not lead back to the record or names a target, nor in a database made anew.
 */
static void
test_promotion_judge(void)
{
	for (int mask = 0; mask < 8; mask++)
		for (int young = 0; young < 2; young++)
		{
			IdgenPromotionFacts facts =
				promotion_facts(4, 7, 6, young ? PROMOTED_N - 1 : PROMOTED_N);
			IdgenPromotionVerdict trust;
			int64_t		begun_ms;

			facts.history_complete = !(mask & 1);
			facts.has_target = mask & 2;
			facts.is_recreated = mask & 4;
			trust = mask == 0 ? IDGEN_PROMOTION_AT_ONCE : IDGEN_PROMOTION_WAIT;
			CHECK_EQ(idgen_promotion_judge(&facts, &begun_ms), young ? IDGEN_PROMOTION_WAIT : trust);
			CHECK_EQ(begun_ms, young || mask ? IDGEN_BEGUN_NEVER : facts.recorded_ms);

			/* also where nobody can have used its part */
			facts.present = 3;
			facts.recorded = 2;
			CHECK_EQ(idgen_promotion_judge(&facts, &begun_ms), trust);
			CHECK_EQ(begun_ms, IDGEN_BEGUN_NEVER);

			facts.policy = IDGEN_PROMOTION_TRUST;
			CHECK_EQ(idgen_promotion_judge(&facts, &begun_ms), trust);
			facts.policy = IDGEN_PROMOTION_FENCE;
			CHECK_EQ(idgen_promotion_judge(&facts, &begun_ms), IDGEN_PROMOTION_WAIT);
			facts.policy = IDGEN_PROMOTION_REFUSE;
			CHECK_EQ(idgen_promotion_judge(&facts, &begun_ms), IDGEN_PROMOTION_NEVER);

			/* what is no policy at all must not issue */
			facts.policy = (IdgenPromotion) (IDGEN_PROMOTION_REFUSE + 1);
			CHECK_EQ(idgen_promotion_judge(&facts, &begun_ms), IDGEN_PROMOTION_NEVER);
			CHECK_EQ(begun_ms, IDGEN_BEGUN_NEVER);
		}
}

/* Every verdict, refused or fenced by setting. */
static void
test_takeover_judge(void)
{
	static const struct
	{
		IdgenIdentityVerdict verdict;
		IdgenTakeover refusing,
					fencing;
	}			cases[] = {
		{IDGEN_IDENTITY_SAME, IDGEN_TAKEOVER_NONE, IDGEN_TAKEOVER_NONE},
		{IDGEN_IDENTITY_OTHER_TIMELINE, IDGEN_TAKEOVER_PROMOTED, IDGEN_TAKEOVER_PROMOTED},
		{IDGEN_IDENTITY_OTHER_FILES, IDGEN_TAKEOVER_FENCED, IDGEN_TAKEOVER_FENCED},
		{IDGEN_IDENTITY_OTHER_DATABASE, IDGEN_TAKEOVER_TEMPLATE, IDGEN_TAKEOVER_TEMPLATE},
		{IDGEN_IDENTITY_OTHER_SYSTEM, IDGEN_TAKEOVER_REFUSED, IDGEN_TAKEOVER_FENCED},
		{IDGEN_IDENTITY_OTHER_CONTROL, IDGEN_TAKEOVER_REFUSED, IDGEN_TAKEOVER_FENCED},
	};

	for (size_t i = 0; i < UNIT_COUNT(cases); i++)
	{
		CHECK_EQ(idgen_takeover_judge(cases[i].verdict, false), cases[i].refusing);
		CHECK_EQ(idgen_takeover_judge(cases[i].verdict, true), cases[i].fencing);
	}
}

static const UnitTest tests[] = {
	{"the interval rule, case by case", test_decide},
	{"beyond the horizon names the first tick that works", test_retry_at},
	{"[160,200) is followed by [200,240)", test_worked_sequence},
	{"ticks of 1 s and 60 s are never in two grants", test_long_ticks},
	{"due: when a cursor is granted more, case by case", test_due_at},
	{"workers: the one that is free first", test_earliest},
	{"length: how long a grant has to be, case by case", test_length_needed},
	{"length: grants become long enough to follow each other", test_length_suffices},
	{"ordered: a single cursor begins after all before it", test_ordered_start},
	{"ordered: the first tick past all in use, against stepping",
	test_ordered_start_stepping},
	{"due: not at once, never too early to grant, in time",
	test_due_not_at_once},
	{"a fence's floor, case by case", test_fence_floor},
	{"a request against the chain, every combination", test_chain_judge},
	{"workers for external incarnations, case by case",
	test_external_workers_max},
	{"how many of these one role may have", test_external_role_max},
	{"external incarnations leave the server its share",
	test_external_leaves_one},
	{"the size of a worker range and of its parts", test_range_size},
	{"every free worker is chosen equally often, a busy one never",
	test_choose_uniform},
	{"choice with all busy, none busy, busy outside", test_choose_edges},
	{"identity: one difference at a time", test_identity_single},
	{"identity: the strongest difference is named", test_identity_strongest},
	{"identity: a missing birth time is not a difference",
	test_identity_births_missing},
	{"identity: a database made anew is told across a promotion",
	test_identity_recreated},
	{"identity: promoted on its own files, condition by condition",
	test_identity_in_place},
	{"split: how many parts, none of them empty, one after the other",
	test_split_parts},
	{"split: what a record or a history file proves, by timeline and age",
	test_promotion_evidence},
	{"split: the latest time that is old enough", test_promotion_latest},
	{"a change of timeline, every policy and every doubt",
	test_promotion_judge},
	{"what a verdict comes to, every combination", test_takeover_judge},
};

int
main(void)
{
	return unit_main(tests, UNIT_COUNT(tests));
}
