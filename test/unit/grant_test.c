/*
 * grant_test.c
 *		The interval rule, replenishing, and the chain of grants.
 */
#include "cursor.h"
#include "grant.h"
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

static const UnitTest tests[] = {
	{"the interval rule, case by case", test_decide},
	{"beyond the horizon names the first tick that works", test_retry_at},
	{"[160,200) is followed by [200,240)", test_worked_sequence},
	{"ticks of 1 s and 60 s are never in two grants", test_long_ticks},
	{"due: when a cursor is granted more, case by case", test_due_at},
	{"length: how long a grant has to be, case by case", test_length_needed},
	{"length: grants become long enough to follow each other", test_length_suffices},
	{"ordered: a single cursor begins after all before it", test_ordered_start},
	{"ordered: the first tick past all in use, against stepping",
	test_ordered_start_stepping},
	{"due: not at once, never too early to grant, in time",
	test_due_not_at_once},
	{"a request against the chain, every combination", test_chain_judge},
};

int
main(void)
{
	return unit_main(tests, UNIT_COUNT(tests));
}
