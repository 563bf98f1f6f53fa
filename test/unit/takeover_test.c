/*
 * takeover_test.c
 *		The verdict on an identity, the change of timeline, and the floor of a fence.
 */
#include "layout.h"
#include "takeover.h"
#include "unit.h"

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
	{"a fence's floor, case by case", test_fence_floor},
	{"identity: one difference at a time", test_identity_single},
	{"identity: the strongest difference is named", test_identity_strongest},
	{"identity: a missing birth time is not a difference",
	test_identity_births_missing},
	{"identity: a database made anew is told across a promotion",
	test_identity_recreated},
	{"identity: promoted on its own files, condition by condition",
	test_identity_in_place},
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
