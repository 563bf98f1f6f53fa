/*
 * cursor_test.c
 *		The cursor's states, example by example.
 */
#include <string.h>

#include "cursor.h"
#include "unit.h"

#define UNTOUCHED	INT64_C(-77)

/* The format of the worked examples: 12 | 3 | 4 bits. */
static const IdgenLayout worked = {
	.timestamp_bits = 12,
	.worker_bits = 3,
	.sequence_bits = 4,
	.epoch_ms = 0,
	.tick_ms = 1,
	.horizon_ms = 1000,
};

/* One value per tick, and the widest timestamp. */
static const IdgenLayout bare = {
	.timestamp_bits = 63,
	.worker_bits = 0,
	.sequence_bits = 0,
	.epoch_ms = 0,
	.tick_ms = 1,
	.horizon_ms = 1000,
};

static const IdgenCursorRun untouched_run = {UNTOUCHED, UNTOUCHED, UNTOUCHED,
UNTOUCHED};

/* Outcome of the last call; EXPECT_* compare it. */
static IdgenCursorRun run;

/* A cursor of "worker" with one grant. */
static IdgenCursor
cursor_with(int32_t worker, int64_t start, int64_t end)
{
	const IdgenGrant grant = {start, end};
	IdgenCursor cursor;

	memset(&cursor, 0, sizeof(cursor));
	idgen_cursor_init(&cursor, worker);
	CHECK_EQ(idgen_cursor_install(&cursor, &grant, start),
			 IDGEN_INSTALL_ADDED);
	return cursor;
}

/* Install [start, end); a refusal must change no byte. */
static IdgenInstallCode
install(IdgenCursor *cursor, int64_t start, int64_t end, int64_t now)
{
	const IdgenGrant grant = {start, end};
	const IdgenCursor before = *cursor;
	IdgenInstallCode code = idgen_cursor_install(cursor, &grant, now);

	if (code == IDGEN_INSTALL_BAD || code == IDGEN_INSTALL_FULL)
		CHECK_EQ(memcmp(&before, cursor, sizeof(before)), 0);
	return code;
}

/* Issue; a refusal must change no byte, and a second try must repeat it. */
static IdgenCursorCode
issue(IdgenCursor *cursor, const IdgenLayout *layout, IdgenCursorDemand demand)
{
	const IdgenCursor before = *cursor;
	IdgenCursorRun again = untouched_run;
	IdgenCursorCode code;

	run = untouched_run;
	code = idgen_cursor_issue(cursor, layout, &demand, &run);
	if (code == IDGEN_CURSOR_ISSUED)
		return code;
	CHECK_EQ(memcmp(&before, cursor, sizeof(before)), 0);
	CHECK_EQ(idgen_cursor_issue(cursor, layout, &demand, &again), code);
	CHECK_EQ(again.retry_at, run.retry_at);
	CHECK_EQ(memcmp(&before, cursor, sizeof(before)), 0);
	return code;
}

static IdgenCursorDemand
at(int64_t now)
{
	return (IdgenCursorDemand) {.now = now, .count = 1};
}

static IdgenCursorDemand
ahead(int64_t now, int64_t run_ahead)
{
	return (IdgenCursorDemand) {.now = now, .run_ahead = run_ahead, .count = 1};
}

static IdgenCursorDemand
many(int64_t now, int64_t count)
{
	return (IdgenCursorDemand) {.now = now, .count = count};
}

static IdgenCursorDemand
not_before(int64_t now, int64_t min_tick)
{
	return (IdgenCursorDemand) {.now = now, .min_tick = min_tick, .count = 1};
}

static IdgenCursorDemand
not_before_ahead(int64_t now, int64_t min_tick, int64_t run_ahead)
{
	IdgenCursorDemand demand = not_before(now, min_tick);

	demand.run_ahead = run_ahead;
	return demand;
}

#define EXPECT_ISSUE(cursor, layout, demand, tick_, sequence_, count_) \
	(CHECK_EQ(issue(cursor, layout, demand), IDGEN_CURSOR_ISSUED), \
	 CHECK_EQ(run.tick, tick_), \
	 CHECK_EQ(run.sequence, sequence_), \
	 CHECK_EQ(run.count, count_))

#define EXPECT_REFUSAL(cursor, layout, demand, code_, retry_at_) \
	(CHECK_EQ(issue(cursor, layout, demand), code_), \
	 CHECK_EQ(run.retry_at, retry_at_))

#define EXPECT_ENDED(cursor, layout, demand) \
	EXPECT_REFUSAL(cursor, layout, demand, IDGEN_CURSOR_GRANT_ENDED, UNTOUCHED)

static void
test_born_empty(void)
{
	IdgenCursor cursor;

	memset(&cursor, 0xff, sizeof(cursor));
	idgen_cursor_init(&cursor, 5);
	CHECK_EQ(cursor.worker, 5);
	CHECK_EQ(idgen_cursor_granted_end(&cursor), 0);
	EXPECT_ENDED(&cursor, &worked, at(160));
	EXPECT_ENDED(&cursor, &worked, at(0));
	EXPECT_ENDED(&cursor, &worked, at(-1));
	EXPECT_ENDED(&cursor, &worked, ahead(160, 4000));
}

static void
test_worked_ids(void)
{
	IdgenCursor cursor = cursor_with(1, 160, 200);

	EXPECT_ISSUE(&cursor, &worked, at(160), 160, 0, 1);
	EXPECT_ISSUE(&cursor, &worked, at(160), 160, 1, 1);
	CHECK_EQ(idgen_layout_assemble(&worked, run.tick, cursor.worker,
								   run.sequence), 20497);
	EXPECT_ISSUE(&cursor, &worked, at(160), 160, 2, 1);
	CHECK_EQ(idgen_layout_assemble(&worked, run.tick, cursor.worker,
								   run.sequence), 20498);
	EXPECT_ISSUE(&cursor, &worked, at(161), 161, 0, 1);
	CHECK_EQ(idgen_layout_assemble(&worked, run.tick, cursor.worker,
								   run.sequence), 20624);
}

static void
test_end_is_exclusive(void)
{
	IdgenCursor cursor = cursor_with(1, 160, 200);

	EXPECT_ISSUE(&cursor, &worked, at(199), 199, 0, 1);
	EXPECT_ENDED(&cursor, &worked, at(200));
	EXPECT_ENDED(&cursor, &worked, at(4000));
	EXPECT_ISSUE(&cursor, &worked, many(199, 100), 199, 1, 15);
	EXPECT_ENDED(&cursor, &worked, at(199));
	EXPECT_ENDED(&cursor, &worked, ahead(199, 10));

	CHECK_EQ(install(&cursor, 200, 240, 199), IDGEN_INSTALL_MERGED);
	EXPECT_ISSUE(&cursor, &worked, at(200), 200, 0, 1);
	EXPECT_ISSUE(&cursor, &worked, at(239), 239, 0, 1);
	EXPECT_ENDED(&cursor, &worked, at(240));
}

static void
test_sequence_spent(void)
{
	IdgenCursor cursor = cursor_with(1, 160, 162);

	for (int64_t sequence = 0; sequence < 16; sequence++)
		EXPECT_ISSUE(&cursor, &worked, at(160), 160, sequence, 1);
	EXPECT_REFUSAL(&cursor, &worked, at(160), IDGEN_CURSOR_SEQUENCE_SPENT, 161);
	EXPECT_ISSUE(&cursor, &worked, at(161), 161, 0, 1);

	/* a retry after a wait finds the end of the grant like any call */
	EXPECT_ISSUE(&cursor, &worked, many(161, 15), 161, 1, 15);
	EXPECT_ENDED(&cursor, &worked, at(161));
	EXPECT_ENDED(&cursor, &worked, at(162));
}

static void
test_batch(void)
{
	IdgenCursor cursor = cursor_with(1, 160, 200);

	EXPECT_ISSUE(&cursor, &worked, many(160, 10), 160, 0, 10);
	EXPECT_ISSUE(&cursor, &worked, many(160, 10), 160, 10, 6);
	EXPECT_ISSUE(&cursor, &worked, many(161, 16), 161, 0, 16);
	EXPECT_ISSUE(&cursor, &worked, many(162, 17), 162, 0, 16);
	EXPECT_ISSUE(&cursor, &worked, many(163, INT64_MAX), 163, 0, 16);
	EXPECT_REFUSAL(&cursor, &worked, many(163, INT64_MAX),
				   IDGEN_CURSOR_SEQUENCE_SPENT, 164);
}

static void
test_clock_back(void)
{
	IdgenCursor cursor = cursor_with(1, 150, 200);

	EXPECT_ISSUE(&cursor, &worked, at(160), 160, 0, 1);
	EXPECT_REFUSAL(&cursor, &worked, at(158), IDGEN_CURSOR_CLOCK_BEHIND, 160);
	EXPECT_REFUSAL(&cursor, &worked, at(159), IDGEN_CURSOR_CLOCK_BEHIND, 160);
	EXPECT_REFUSAL(&cursor, &worked, ahead(158, 1), IDGEN_CURSOR_CLOCK_BEHIND,
				   159);

	/* within the run-ahead it goes on from where it was */
	EXPECT_ISSUE(&cursor, &worked, ahead(158, 2), 160, 1, 1);
	EXPECT_ISSUE(&cursor, &worked, at(160), 160, 2, 1);

	/* the last tick is spent as well: the next is due */
	EXPECT_ISSUE(&cursor, &worked, many(160, 13), 160, 3, 13);
	EXPECT_REFUSAL(&cursor, &worked, at(158), IDGEN_CURSOR_CLOCK_BEHIND, 161);
	EXPECT_REFUSAL(&cursor, &worked, at(160), IDGEN_CURSOR_SEQUENCE_SPENT, 161);
	EXPECT_REFUSAL(&cursor, &worked, at(-1000), IDGEN_CURSOR_CLOCK_BEHIND, 161);
	EXPECT_ISSUE(&cursor, &worked, at(161), 161, 0, 1);
}

static void
test_clock_jump(void)
{
	IdgenCursor cursor = cursor_with(1, 150, 200);

	EXPECT_ISSUE(&cursor, &worked, at(160), 160, 0, 1);
	EXPECT_ISSUE(&cursor, &worked, at(170), 170, 0, 1);
	for (int64_t now = 160; now < 170; now++)
		EXPECT_REFUSAL(&cursor, &worked, at(now), IDGEN_CURSOR_CLOCK_BEHIND,
					   170);
	EXPECT_ISSUE(&cursor, &worked, ahead(160, 10), 170, 1, 1);
}

static void
test_run_ahead(void)
{
	IdgenCursor cursor = cursor_with(1, 160, 164);

	/* a run-ahead is for spent ticks; it does not hurry */
	EXPECT_ISSUE(&cursor, &worked, ahead(160, 2), 160, 0, 1);
	EXPECT_ISSUE(&cursor, &worked, ahead(160, 2), 160, 1, 1);
	for (int64_t tick = 160; tick < 163; tick++)
	{
		IdgenCursorDemand demand = ahead(160, 2);

		demand.count = 16;
		CHECK_EQ(issue(&cursor, &worked, demand), IDGEN_CURSOR_ISSUED);
		CHECK_EQ(run.tick, tick);
	}
	EXPECT_REFUSAL(&cursor, &worked, ahead(160, 2), IDGEN_CURSOR_SEQUENCE_SPENT,
				   161);
	EXPECT_ISSUE(&cursor, &worked, ahead(161, 2), 163, 0, 1);

	/* it does not reach past the grant */
	EXPECT_ISSUE(&cursor, &worked, many(163, 15), 163, 1, 15);
	EXPECT_ENDED(&cursor, &worked, ahead(163, 1000));

	/* withdrawn, the ticks taken ahead must pass first */
	EXPECT_ENDED(&cursor, &worked, at(161));
	CHECK_EQ(install(&cursor, 164, 200, 161), IDGEN_INSTALL_MERGED);
	EXPECT_REFUSAL(&cursor, &worked, at(161), IDGEN_CURSOR_CLOCK_BEHIND, 164);
}

static void
test_not_yet_valid(void)
{
	IdgenCursor cursor = cursor_with(1, 160, 200);

	EXPECT_REFUSAL(&cursor, &worked, at(150), IDGEN_CURSOR_NOT_YET_VALID, 160);
	EXPECT_REFUSAL(&cursor, &worked, at(-5), IDGEN_CURSOR_NOT_YET_VALID, 160);
	EXPECT_REFUSAL(&cursor, &worked, ahead(150, 9), IDGEN_CURSOR_NOT_YET_VALID,
				   151);
	EXPECT_ISSUE(&cursor, &worked, ahead(150, 10), 160, 0, 1);

	/* between two grants */
	CHECK_EQ(install(&cursor, 300, 310, 160), IDGEN_INSTALL_ADDED);
	EXPECT_REFUSAL(&cursor, &worked, at(200), IDGEN_CURSOR_NOT_YET_VALID, 300);
	EXPECT_REFUSAL(&cursor, &worked, at(299), IDGEN_CURSOR_NOT_YET_VALID, 300);
	EXPECT_ISSUE(&cursor, &worked, many(199, 16), 199, 0, 16);
	EXPECT_REFUSAL(&cursor, &worked, at(199), IDGEN_CURSOR_NOT_YET_VALID, 300);
	EXPECT_ISSUE(&cursor, &worked, at(300), 300, 0, 1);
}

/*
 * What counts is where the grant of the tick due begins, not how the tick was
 * come by.
 */
static void
test_not_yet_valid_start(void)
{
	IdgenCursor cursor = cursor_with(1, 160, 200);

	CHECK_EQ(install(&cursor, 300, 310, 160), IDGEN_INSTALL_ADDED);

	/* min_tick is past the start of the next grant, the clock before it */
	EXPECT_REFUSAL(&cursor, &worked, not_before(170, 305),
				   IDGEN_CURSOR_NOT_YET_VALID, 305);
	EXPECT_REFUSAL(&cursor, &worked, not_before(299, 305),
				   IDGEN_CURSOR_NOT_YET_VALID, 305);
	EXPECT_REFUSAL(&cursor, &worked, not_before(300, 305),
				   IDGEN_CURSOR_SEQUENCE_SPENT, 305);

	/* run_ahead reaches the start, but not the tick */
	CHECK_EQ(issue(&cursor, &worked, not_before_ahead(297, 305, 2)),
			 IDGEN_CURSOR_NOT_YET_VALID);
	CHECK_EQ(run.retry_at, 303);
	CHECK_EQ(issue(&cursor, &worked, not_before_ahead(298, 305, 2)),
			 IDGEN_CURSOR_SEQUENCE_SPENT);
	CHECK_EQ(run.retry_at, 303);

	/* a merged grant begins where its first part does */
	cursor = cursor_with(1, 160, 161);
	CHECK_EQ(install(&cursor, 161, 200, 160), IDGEN_INSTALL_MERGED);
	EXPECT_ISSUE(&cursor, &worked, many(160, 16), 160, 0, 16);
	EXPECT_REFUSAL(&cursor, &worked, at(160), IDGEN_CURSOR_SEQUENCE_SPENT, 161);
}

/* Only a cursor that has issued can have a clock behind it. */
static void
test_clock_before_epoch(void)
{
	IdgenCursor cursor = cursor_with(1, 0, 10);

	EXPECT_REFUSAL(&cursor, &worked, at(-5), IDGEN_CURSOR_NOT_YET_VALID, 0);
	EXPECT_REFUSAL(&cursor, &worked, ahead(-5, 2), IDGEN_CURSOR_NOT_YET_VALID,
				   -2);
	EXPECT_ISSUE(&cursor, &worked, ahead(-5, 5), 0, 0, 1);
	EXPECT_REFUSAL(&cursor, &worked, at(-5), IDGEN_CURSOR_CLOCK_BEHIND, 0);
	EXPECT_REFUSAL(&cursor, &worked, at(-1), IDGEN_CURSOR_CLOCK_BEHIND, 0);
	EXPECT_ISSUE(&cursor, &worked, at(0), 0, 1, 1);
}

static void
test_min_tick(void)
{
	IdgenCursor cursor = cursor_with(1, 160, 200);

	EXPECT_ISSUE(&cursor, &worked, not_before(160, 160), 160, 0, 1);
	EXPECT_ISSUE(&cursor, &worked, not_before(165, 160), 165, 0, 1);
	EXPECT_REFUSAL(&cursor, &worked, not_before(165, 166),
				   IDGEN_CURSOR_SEQUENCE_SPENT, 166);
	EXPECT_REFUSAL(&cursor, &worked, not_before(165, 180),
				   IDGEN_CURSOR_SEQUENCE_SPENT, 180);
	EXPECT_ISSUE(&cursor, &worked, not_before(166, 166), 166, 0, 1);
	EXPECT_ENDED(&cursor, &worked, not_before(166, 200));
	EXPECT_ENDED(&cursor, &worked, not_before(166, INT64_MAX));

	/* ahead of the clock if that is allowed */
	CHECK_EQ(issue(&cursor, &worked, not_before_ahead(166, 170, 4)),
			 IDGEN_CURSOR_ISSUED);
	CHECK_EQ(run.tick, 170);
}

static void
test_spill_tick(void)
{
	/* same tick only upward in worker order */
	CHECK_EQ(idgen_cursor_spill_tick(3, 160, 2), 160);
	CHECK_EQ(idgen_cursor_spill_tick(3, 160, 4), 161);
	CHECK_EQ(idgen_cursor_spill_tick(3, 160, 3), 161);
	CHECK_EQ(idgen_cursor_spill_tick(0, 0, 7), 1);
	CHECK_EQ(idgen_cursor_spill_tick(1, 0, 0), 0);
	CHECK_EQ(idgen_cursor_spill_tick(0, INT64_MAX - 2, 1), INT64_MAX - 1);
}

/* A session that goes up through workers, then must wait to come down. */
static void
test_spill_order(void)
{
	IdgenCursor low = cursor_with(1, 160, 200);
	IdgenCursor high = cursor_with(2, 160, 200);

	EXPECT_ISSUE(&low, &worked, many(160, 16), 160, 0, 16);
	EXPECT_ISSUE(&high, &worked,
				 not_before(160, idgen_cursor_spill_tick(2, 160, 1)),
				 160, 0, 1);
	EXPECT_REFUSAL(&low, &worked,
				   not_before(160, idgen_cursor_spill_tick(1, 160, 2)),
				   IDGEN_CURSOR_SEQUENCE_SPENT, 161);
	EXPECT_ISSUE(&low, &worked,
				 not_before(161, idgen_cursor_spill_tick(1, 160, 2)),
				 161, 0, 1);
}

static void
test_zero_tuple(void)
{
	IdgenCursor zero = cursor_with(0, 0, 10);
	IdgenCursor one = cursor_with(1, 0, 10);

	EXPECT_ISSUE(&zero, &worked, at(0), 0, 1, 1);
	EXPECT_ISSUE(&zero, &worked, many(0, 16), 0, 2, 14);
	EXPECT_ISSUE(&zero, &worked, at(1), 1, 0, 1);
	EXPECT_ISSUE(&one, &worked, at(0), 0, 0, 1);
}

/* Worker 0 without sequence bits has nothing at all at tick 0. */
static void
test_zero_tuple_bare(void)
{
	IdgenCursor cursor = cursor_with(0, 0, 10);

	EXPECT_REFUSAL(&cursor, &bare, at(0), IDGEN_CURSOR_SEQUENCE_SPENT, 1);
	EXPECT_ISSUE(&cursor, &bare, at(1), 1, 0, 1);
	EXPECT_REFUSAL(&cursor, &bare, at(1), IDGEN_CURSOR_SEQUENCE_SPENT, 2);
	EXPECT_ISSUE(&cursor, &bare, many(2, 5), 2, 0, 1);

	cursor = cursor_with(0, 0, 10);
	EXPECT_ISSUE(&cursor, &bare, ahead(0, 1), 1, 0, 1);

	cursor = cursor_with(0, 0, 10);
	EXPECT_REFUSAL(&cursor, &bare, not_before(-5, -5),
				   IDGEN_CURSOR_NOT_YET_VALID, 1);

	cursor = cursor_with(0, 0, 1);
	EXPECT_ENDED(&cursor, &bare, at(0));
	CHECK_EQ(install(&cursor, 4, 5, 0), IDGEN_INSTALL_ADDED);
	EXPECT_REFUSAL(&cursor, &bare, at(0), IDGEN_CURSOR_NOT_YET_VALID, 4);
	EXPECT_ISSUE(&cursor, &bare, at(4), 4, 0, 1);
}

static void
test_last_ticks_of_63_bits(void)
{
	IdgenCursor cursor = cursor_with(0, INT64_MAX - 3, INT64_MAX);

	EXPECT_ISSUE(&cursor, &bare, at(INT64_MAX - 3), INT64_MAX - 3, 0, 1);
	EXPECT_REFUSAL(&cursor, &bare, at(INT64_MAX - 3),
				   IDGEN_CURSOR_SEQUENCE_SPENT, INT64_MAX - 2);
	EXPECT_ISSUE(&cursor, &bare, ahead(INT64_MAX - 3, 2), INT64_MAX - 2, 0, 1);
	EXPECT_ISSUE(&cursor, &bare, ahead(INT64_MAX - 3, 2), INT64_MAX - 1, 0, 1);
	EXPECT_ENDED(&cursor, &bare, at(INT64_MAX - 1));
	EXPECT_ENDED(&cursor, &bare, at(INT64_MAX));
	CHECK_EQ(idgen_cursor_spill_tick(0, INT64_MAX - 1, 0), INT64_MAX);
	EXPECT_ENDED(&cursor, &bare, not_before(0, INT64_MAX));
}

/* The last value of the last tick of a field; there is no tick after it. */
static void
test_field_end(void)
{
	IdgenCursor cursor = cursor_with(7, 4095, 4096);

	EXPECT_ISSUE(&cursor, &worked, many(4095, 15), 4095, 0, 15);
	EXPECT_ISSUE(&cursor, &worked, at(4095), 4095, 15, 1);
	CHECK_EQ(idgen_layout_assemble(&worked, run.tick, cursor.worker,
								   run.sequence), (1 << 19) - 1);
	EXPECT_ENDED(&cursor, &worked, ahead(4095, 100));
	EXPECT_ENDED(&cursor, &worked, at(4096));
}

static void
test_install_merge(void)
{
	IdgenCursor cursor = cursor_with(1, 160, 200);

	CHECK_EQ(install(&cursor, 200, 240, 160), IDGEN_INSTALL_MERGED);
	CHECK_EQ(cursor.grant_count, 1);
	CHECK_EQ(idgen_cursor_granted_end(&cursor), 240);

	/* merging needs no room, however many grants are held */
	CHECK_EQ(install(&cursor, 250, 260, 160), IDGEN_INSTALL_ADDED);
	CHECK_EQ(install(&cursor, 270, 280, 160), IDGEN_INSTALL_ADDED);
	CHECK_EQ(install(&cursor, 290, 300, 160), IDGEN_INSTALL_ADDED);
	CHECK_EQ(install(&cursor, 300, 310, 160), IDGEN_INSTALL_MERGED);
	CHECK_EQ(cursor.grant_count, 4);
	CHECK_EQ(idgen_cursor_granted_end(&cursor), 310);

	/* a grant used up is continued all the same */
	cursor = cursor_with(1, 160, 161);
	EXPECT_ISSUE(&cursor, &worked, many(160, 16), 160, 0, 16);
	CHECK_EQ(install(&cursor, 161, 162, 500), IDGEN_INSTALL_MERGED);
	EXPECT_ISSUE(&cursor, &worked, at(161), 161, 0, 1);
}

static void
test_install_gap(void)
{
	IdgenCursor cursor = cursor_with(1, 160, 200);

	CHECK_EQ(install(&cursor, 201, 240, 160), IDGEN_INSTALL_ADDED);
	CHECK_EQ(cursor.grant_count, 2);
	CHECK_EQ(idgen_cursor_granted_end(&cursor), 240);
	EXPECT_REFUSAL(&cursor, &worked, at(200), IDGEN_CURSOR_NOT_YET_VALID, 201);
	EXPECT_ISSUE(&cursor, &worked, at(201), 201, 0, 1);
	CHECK_EQ(cursor.grant_count, 1);
}

static void
test_install_bad(void)
{
	IdgenCursor cursor = cursor_with(1, 160, 200);

	/* overlaps */
	CHECK_EQ(install(&cursor, 199, 240, 160), IDGEN_INSTALL_BAD);
	CHECK_EQ(install(&cursor, 160, 200, 160), IDGEN_INSTALL_BAD);
	CHECK_EQ(install(&cursor, 170, 180, 160), IDGEN_INSTALL_BAD);
	CHECK_EQ(install(&cursor, 100, 300, 160), IDGEN_INSTALL_BAD);

	/* before what is held */
	CHECK_EQ(install(&cursor, 100, 120, 160), IDGEN_INSTALL_BAD);
	CHECK_EQ(install(&cursor, 150, 160, 160), IDGEN_INSTALL_BAD);

	/* empty, reversed, negative */
	CHECK_EQ(install(&cursor, 200, 200, 160), IDGEN_INSTALL_BAD);
	CHECK_EQ(install(&cursor, 300, 300, 160), IDGEN_INSTALL_BAD);
	CHECK_EQ(install(&cursor, 300, 299, 160), IDGEN_INSTALL_BAD);
	CHECK_EQ(install(&cursor, 200, INT64_MIN, 160), IDGEN_INSTALL_BAD);
	idgen_cursor_init(&cursor, 1);
	CHECK_EQ(install(&cursor, -1, 40, 0), IDGEN_INSTALL_BAD);
	CHECK_EQ(install(&cursor, INT64_MIN, INT64_MAX, 0), IDGEN_INSTALL_BAD);
	CHECK_EQ(install(&cursor, 0, 0, 0), IDGEN_INSTALL_BAD);
	CHECK_EQ(install(&cursor, 0, 1, 0), IDGEN_INSTALL_ADDED);
}

/*
 * A cursor whose grants are all forgotten still remembers what it issued.  No
 * sequence of calls leads there today; the check must not depend on that.
 */
static void
test_install_behind_last(void)
{
	IdgenCursor cursor = cursor_with(1, 160, 200);

	EXPECT_ISSUE(&cursor, &worked, at(180), 180, 0, 1);
	cursor.grant_count = 0;
	CHECK_EQ(install(&cursor, 160, 200, 180), IDGEN_INSTALL_BAD);
	CHECK_EQ(install(&cursor, 180, 200, 180), IDGEN_INSTALL_BAD);
	CHECK_EQ(install(&cursor, 181, 200, 180), IDGEN_INSTALL_ADDED);
}

static void
test_install_full(void)
{
	IdgenCursor cursor = cursor_with(1, 0, 10);

	for (int64_t start = 20; start < 20 * IDGEN_CURSOR_GRANTS_MAX; start += 20)
		CHECK_EQ(install(&cursor, start, start + 10, 5), IDGEN_INSTALL_ADDED);
	CHECK_EQ(cursor.grant_count, IDGEN_CURSOR_GRANTS_MAX);
	CHECK_EQ(install(&cursor, 100, 110, 5), IDGEN_INSTALL_FULL);
	CHECK_EQ(install(&cursor, 100, 110, 9), IDGEN_INSTALL_FULL);

	/* the clock has passed the first one: it makes room, and is a gap */
	CHECK_EQ(install(&cursor, 100, 110, 10), IDGEN_INSTALL_ADDED);
	CHECK_EQ(cursor.grant_count, IDGEN_CURSOR_GRANTS_MAX);
	CHECK_EQ(idgen_cursor_granted_end(&cursor), 110);
	EXPECT_REFUSAL(&cursor, &worked, at(5), IDGEN_CURSOR_NOT_YET_VALID, 20);
	EXPECT_ISSUE(&cursor, &worked, at(20), 20, 0, 1);

	/* the grants between are all there, in order */
	EXPECT_ISSUE(&cursor, &worked, at(45), 45, 0, 1);
	CHECK_EQ(cursor.grant_count, 3);
	EXPECT_ISSUE(&cursor, &worked, at(60), 60, 0, 1);
	EXPECT_REFUSAL(&cursor, &worked, at(70), IDGEN_CURSOR_NOT_YET_VALID, 100);
	EXPECT_ISSUE(&cursor, &worked, at(109), 109, 0, 1);
	EXPECT_ENDED(&cursor, &worked, at(110));
}

/* Passed grants stay while there is room: the clock may be corrected. */
static void
test_install_keeps_passed(void)
{
	IdgenCursor cursor = cursor_with(1, 0, 10);

	CHECK_EQ(install(&cursor, 20, 30, 15), IDGEN_INSTALL_ADDED);
	CHECK_EQ(cursor.grant_count, 2);
	EXPECT_ISSUE(&cursor, &worked, at(5), 5, 0, 1);
}

/* What is left while the clock stands still. */
static void
test_room(void)
{
	IdgenCursor cursor = cursor_with(1, 160, 200);
	IdgenCursorDemand demand = {.now = 160, .count = 1};

	CHECK_EQ(idgen_cursor_room(&cursor, &worked, &demand), 16);
	EXPECT_ISSUE(&cursor, &worked, at(160), 160, 0, 1);
	CHECK_EQ(idgen_cursor_room(&cursor, &worked, &demand), 15);
	demand.run_ahead = 2;
	CHECK_EQ(idgen_cursor_room(&cursor, &worked, &demand), 47);
	demand.min_tick = 162;
	CHECK_EQ(idgen_cursor_room(&cursor, &worked, &demand), 16);
	demand.min_tick = 163;
	CHECK_EQ(idgen_cursor_room(&cursor, &worked, &demand), 0);
	demand.min_tick = 0;

	/* up to the end of the grant, and on in the next one */
	demand.now = 199;
	CHECK_EQ(idgen_cursor_room(&cursor, &worked, &demand), 16);
	CHECK_EQ(install(&cursor, 201, 240, 199), IDGEN_INSTALL_ADDED);
	CHECK_EQ(idgen_cursor_room(&cursor, &worked, &demand), 32);
	demand.now = 240;
	CHECK_EQ(idgen_cursor_room(&cursor, &worked, &demand), 0);

	/* the clock behind the last ID, by more and by less than it may run ahead */
	demand.now = 157;
	CHECK_EQ(idgen_cursor_room(&cursor, &worked, &demand), 0);
	demand.now = 158;
	CHECK_EQ(idgen_cursor_room(&cursor, &worked, &demand), 15);

	/* the same, within a grant that began before the last ID */
	cursor = cursor_with(1, 160, 200);
	EXPECT_ISSUE(&cursor, &worked, at(165), 165, 0, 1);
	demand.now = 163;
	demand.run_ahead = 4;
	CHECK_EQ(idgen_cursor_room(&cursor, &worked, &demand), 47);

	/* (0,0,0) is not there */
	cursor = cursor_with(0, 0, 10);
	demand.now = 0;
	demand.run_ahead = 0;
	CHECK_EQ(idgen_cursor_room(&cursor, &worked, &demand), 15);
}

static const UnitTest tests[] = {
	{"a cursor is born empty", test_born_empty},
	{"the worked IDs 20497, 20498, 20624", test_worked_ids},
	{"[160,200) never issues 200", test_end_is_exclusive},
	{"sixteen values per tick, then a refusal that can be retried",
	test_sequence_spent},
	{"a batch takes what the tick has left", test_batch},
	{"the clock goes back from 160 to 158: nothing repeats", test_clock_back},
	{"the clock jumps from 160 to 170: what it skips is burnt",
	test_clock_jump},
	{"run_ahead 0 and above", test_run_ahead},
	{"before a grant and between two", test_not_yet_valid},
	{"a grant is not yet valid by its own start", test_not_yet_valid_start},
	{"a clock before the epoch is behind only what was issued",
	test_clock_before_epoch},
	{"min_tick raises the tick", test_min_tick},
	{"the spill tick is the same only upward", test_spill_tick},
	{"a session spills upward within a tick, downward after it",
	test_spill_order},
	{"the tuple (0,0,0) is skipped", test_zero_tuple},
	{"worker 0 without sequence bits skips tick 0", test_zero_tuple_bare},
	{"the last ticks of 63 bits", test_last_ticks_of_63_bits},
	{"the last value of a field", test_field_end},
	{"install: contiguous grants merge", test_install_merge},
	{"install: a gap is kept", test_install_gap},
	{"install: overlapping, earlier, empty, negative are refused",
	test_install_bad},
	{"install: nothing at or before the last tick issued",
	test_install_behind_last},
	{"install: full, and room made by the clock", test_install_full},
	{"install: passed grants stay while there is room",
	test_install_keeps_passed},
	{"how many IDs are left while the clock stands still", test_room},
};

int
main(void)
{
	return unit_main(tests, UNIT_COUNT(tests));
}
