/*
 * clock_test.c
 *		Steps of the wall clock: stories in readings, and random ones against
 *		what a world that knows its own steps would say.
 *
 * Times in the stories are in milliseconds, for legibility; elapsed time
 * begins at 0 when the wall clock shows 1,000,000.
 */
#include <string.h>

#include "clock.h"
#include "unit.h"

#define MS				INT64_C(1000)
#define START_MS		INT64_C(1000000)
#define NOISE_MS		(IDGEN_CLOCK_STEP_NOISE_US / MS)
#define STANDS_MS		(IDGEN_CLOCK_STEP_STANDS_US / MS)
#define BELIEVED_MS		(IDGEN_CLOCK_STEP_BELIEVED_MAX_US / MS)
#define MAX_STEP_MS		INT64_C(5000)

#define RIGHT	IDGEN_CLOCK_RIGHT
#define BEHIND	IDGEN_CLOCK_BEHIND
#define AHEAD	IDGEN_CLOCK_AHEAD

typedef enum Action
{
	END,						/* of the story */
	READ,
	READ_UNSYNCHRONISED,
	READ_UNSURE,				/* with an error of a minute */
	CONFIRM,
	RESUME
} Action;

/* One line of a story; "set" is how far the clock is from where it began. */
typedef struct Line
{
	Action		action;
	int64_t		elapsed_ms;
	int64_t		set_ms;
	IdgenClockVerdict verdict;	/* now, as answered or remembered */
	int64_t		step_ms;		/* seen for the first time */
	bool		accepted_back;
	int64_t		pending_ms;		/* afterwards */
} Line;

#define LINES_MAX	12

typedef struct Story
{
	const char *name;
	Line		lines[LINES_MAX];
} Story;

static const Story stories[] = {
	{"nothing happens", {
			{READ, 0, 0, RIGHT, 0, false, 0},
			{READ, 0, 0, RIGHT, 0, false, 0},
			{READ, 1, 0, RIGHT, 0, false, 0},
			{READ, 86400000, 0, RIGHT, 0, false, 0},
	}},
	{"the first reading is believed, whatever it is", {
			{READ, 5, 1000 * BELIEVED_MS, RIGHT, 0, false, 0},
			{READ, 6, 1000 * BELIEVED_MS, RIGHT, 0, false, 0},
	}},
	{"a small step forward is believed, and counted", {
			{READ, 0, 0, RIGHT, 0, false, 0},
			{READ, 9, MAX_STEP_MS, RIGHT, MAX_STEP_MS, false, 0},
			{READ, 10, MAX_STEP_MS, RIGHT, 0, false, 0},
			{READ, 11, 2 * MAX_STEP_MS, RIGHT, MAX_STEP_MS, false, 0},
	}},
	{"noise is neither a step, nor ahead", {
			{READ, 0, 0, RIGHT, 0, false, 0},
			{READ, 50, NOISE_MS, RIGHT, 0, false, 0},
			{READ, 100, 0, RIGHT, 0, false, 0},
			{READ, 150, MAX_STEP_MS + NOISE_MS, RIGHT, MAX_STEP_MS + NOISE_MS,
			false, 0},
	}},
	{"just past noise is a step", {
			{READ, 0, 0, RIGHT, 0, false, 0},
			{READ, 50, NOISE_MS + 1, RIGHT, NOISE_MS + 1, false, 0},
			{READ, 100, 0, RIGHT, -NOISE_MS - 1, false, 0},
			{READ, 150, MAX_STEP_MS + NOISE_MS + 1, AHEAD,
			MAX_STEP_MS + NOISE_MS + 1, false, MAX_STEP_MS + NOISE_MS + 1},
	}},
	{"a step forward, corrected", {
			{READ, 0, 0, RIGHT, 0, false, 0},
			{READ, 10, 3600000, AHEAD, 3600000, false, 3600000},
			{READ, 20, 3600000, AHEAD, 0, false, 3600000},
			{READ, 30, 0, RIGHT, -3600000, false, 0},
			{READ, 40, 0, RIGHT, 0, false, 0},
	}},
	{"a step forward that stands", {
			{READ, 0, 0, RIGHT, 0, false, 0},
			{READ, 10, 3600000, AHEAD, 3600000, false, 3600000},
			{READ, 9 + STANDS_MS, 3600000, AHEAD, 0, false, 3600000},
			{READ_UNSYNCHRONISED, 10 + STANDS_MS, 3600000, AHEAD, 0, false,
			3600000},
			{READ, 10 + STANDS_MS, 3600000, RIGHT, 0, false, 0},
			{READ, 11 + STANDS_MS, 3600000, RIGHT, 0, false, 0},
	}},
	{"a second step begins its own time", {
			{READ, 0, 0, RIGHT, 0, false, 0},
			{READ, 10, 3600000, AHEAD, 3600000, false, 3600000},
			{READ, 8000, 7200000, AHEAD, 3600000, false, 7200000},
			{READ, 10 + STANDS_MS, 7200000, AHEAD, 0, false, 7200000},
			{READ, 7999 + STANDS_MS, 7200000, AHEAD, 0, false, 7200000},
			{READ, 8000 + STANDS_MS, 7200000, RIGHT, 0, false, 0},
	}},
	{"a great step forward is never believed by itself", {
			{READ, 0, 0, RIGHT, 0, false, 0},
			{READ, 10, BELIEVED_MS, AHEAD, BELIEVED_MS, false, BELIEVED_MS},
			{READ, 10 * STANDS_MS, BELIEVED_MS, AHEAD, 0, false, BELIEVED_MS},
			{CONFIRM, 10 * STANDS_MS, BELIEVED_MS, RIGHT, 0, false, 0},
			{READ, 11 * STANDS_MS, BELIEVED_MS, RIGHT, 0, false, 0},
	}},
	{"the greatest step forward that is", {
			{READ, 0, 0, RIGHT, 0, false, 0},
			{READ, 10, BELIEVED_MS - 1, AHEAD, BELIEVED_MS - 1, false,
			BELIEVED_MS - 1},
			{READ, 10 + STANDS_MS, BELIEVED_MS - 1, RIGHT, 0, false, 0},
	}},
	{"a step back, caught up with", {
			{READ, 10000, 0, RIGHT, 0, false, 0},
			{READ, 10001, -2000, BEHIND, -2000, false, -2000},
			{READ, 11999, -2000, BEHIND, 0, false, -2000},
			{READ, 12000, -2000, RIGHT, 0, false, 0},
			{READ, 12001, -2000, RIGHT, 0, false, 0},
	}},
	{"a step back by less than noise, caught up with", {
			{READ, 10000, 0, RIGHT, 0, false, 0},
			{READ, 10000, -3, BEHIND, 0, false, -3},
			{READ, 10002, -3, BEHIND, 0, false, -3},
			{READ, 10003, -3, RIGHT, 0, false, 0},
	}},
	{"a step back hidden by the time that passed", {
			{READ, 10000, 0, RIGHT, 0, false, 0},
			{READ, 20000, -9000, RIGHT, -9000, false, 0},
	}},
	{"a step back that stands", {
			{READ, 10000, 0, RIGHT, 0, false, 0},
			{READ, 10000, -3600000, BEHIND, -3600000, false, -3600000},
			{READ_UNSYNCHRONISED, 10000 + STANDS_MS, -3600000, BEHIND, 0, false,
			-3600000},
			{READ, 10000 + STANDS_MS, -3600000, RIGHT, 0, true, 0},
			{READ, 10001 + STANDS_MS, -3600000, RIGHT, 0, false, 0},
			{READ, 10001 + STANDS_MS, -3600100, BEHIND, -100, false, -100},
	}},
	{"a great step back waits for a word", {
			{READ, 10000, 0, RIGHT, 0, false, 0},
			{READ, 10000, -BELIEVED_MS, BEHIND, -BELIEVED_MS, false, -BELIEVED_MS},
			{READ, 10000 + 2 * STANDS_MS, -BELIEVED_MS, BEHIND, 0, false,
			-BELIEVED_MS},
			{CONFIRM, 10001 + 2 * STANDS_MS, -BELIEVED_MS, RIGHT, 0, true, 0},
			{READ, 10002 + 2 * STANDS_MS, -BELIEVED_MS, RIGHT, 0, false, 0},
	}},
	{"the greatest step back that is believed", {
			{READ, 10000, 0, RIGHT, 0, false, 0},
			{READ, 10000, 1 - BELIEVED_MS, BEHIND, 1 - BELIEVED_MS, false,
			1 - BELIEVED_MS},
			{READ, 10000 + STANDS_MS, 1 - BELIEVED_MS, RIGHT, 0, true, 0},
	}},
	{"ahead, then behind, then right", {
			{READ, 10000, 0, RIGHT, 0, false, 0},
			{READ, 10001, 3600000, AHEAD, 3600000, false, 3600000},
			{READ, 10002, -100, BEHIND, -3600100, false, -100},
			{READ, 10003, 3600000, AHEAD, 3600100, false, 3600000},
			{READ, 10004, 0, RIGHT, -3600000, false, 0},
	}},
	{"confirmed without need", {
			{CONFIRM, 0, 0, RIGHT, 0, false, 0},
			{CONFIRM, 1, 0, RIGHT, 0, false, 0},
			{CONFIRM, 1, -1, RIGHT, 0, true, 0},
			{READ, 2, -1, RIGHT, 0, false, 0},
			{CONFIRM, 3, 3600000, RIGHT, 0, false, 0},
			{READ, 4, 3600000, RIGHT, 0, false, 0},
	}},
	{"an unsure reading is not remembered", {
			{READ_UNSURE, 0, 50000, RIGHT, 0, false, 0},
			{READ, 1, 0, RIGHT, 0, false, 0},
			{READ_UNSURE, 2, 50000, RIGHT, 0, false, 0},
			{READ, 50003, 0, RIGHT, 0, false, 0},
			{READ_UNSURE, 110000, -50000, RIGHT, 0, false, 0},
			{READ, 110001, 0, RIGHT, 0, false, 0},
	}},
	{"an unsure reading clears no doubt", {
			{READ, 10000, 0, RIGHT, 0, false, 0},
			{READ, 10001, 60000, AHEAD, 60000, false, 60000},
			{READ_UNSURE, 10002, 60000, AHEAD, 0, false, 60000},
			{READ_UNSURE, 10002 + STANDS_MS, 60000, AHEAD, 0, false, 60000},
			{READ_UNSURE, 10003 + STANDS_MS, 3600000, AHEAD, 3540000, false,
			3600000},
			{READ_UNSURE, 10003 + 2 * STANDS_MS, 3600000, AHEAD, 0, false,
			3600000},
			{READ, 10004 + 2 * STANDS_MS, 0, RIGHT, -3600000, false, 0},
	}},
	{"an unsure reading shows a step that is greater than its error", {
			{READ, 10000, 0, RIGHT, 0, false, 0},
			{READ_UNSURE, 10001, MAX_STEP_MS + 60000 + NOISE_MS, RIGHT,
			0, false, 0},
			{READ_UNSURE, 10001, MAX_STEP_MS + 60001 + NOISE_MS, AHEAD,
			MAX_STEP_MS + 60001 + NOISE_MS, false,
			MAX_STEP_MS + 60001 + NOISE_MS},
	}},
	{"resumed with nothing known", {
			{RESUME, 100, 0, RIGHT, 0, false, 0},
			{READ, 101, 3600000, RIGHT, 0, false, 0},
	}},
	{"resumed: a step back meanwhile is noticed", {
			{READ, 0, 0, RIGHT, 0, false, 0},
			{RESUME, 60000, -2000, RIGHT, 0, false, 0},
			{READ, 60001, -2000, BEHIND, -2000, false, -2000},
			{READ, 61999, -2000, BEHIND, 0, false, -2000},
			{READ, 62000, -2000, RIGHT, 0, false, 0},
	}},
	{"resumed: noise is no step back", {
			{READ, 0, 0, RIGHT, 0, false, 0},
			{RESUME, 60000, -NOISE_MS, RIGHT, 0, false, 0},
			{READ, 60000, -NOISE_MS, RIGHT, 0, false, 0},
	}},
	{"resumed: less than noise back at once is still behind", {
			{READ, 60000, 0, RIGHT, 0, false, 0},
			{RESUME, 60000, -5, RIGHT, 0, false, 0},
			{READ, 60000, -5, BEHIND, 0, false, -5},
			{READ, 60005, -5, RIGHT, 0, false, 0},
	}},
	{"resumed: a step forward meanwhile is noticed", {
			{READ, 0, 0, RIGHT, 0, false, 0},
			{RESUME, 60000, 3600000, RIGHT, 0, false, 0},
			{READ, 60000, 3600000, AHEAD, 3600000, false, 3600000},
	}},
	{"resumed ahead: the clock that came back has shown the time between", {
			{READ, 0, 0, RIGHT, 0, false, 0},
			{READ, 10, 3600000, AHEAD, 3600000, false, 3600000},
			{RESUME, 60000, 3600000, AHEAD, 0, false, 3600000},
			{READ, 60001, -2000, BEHIND, -3602000, false, -2000},
			{READ, 62000, -2000, RIGHT, 0, false, 0},
	}},
	{"resumed behind: still behind the same reading", {
			{READ, 60000, 0, RIGHT, 0, false, 0},
			{READ, 60000, -5000, BEHIND, -5000, false, -5000},
			{RESUME, 64999, -5000, BEHIND, 0, false, -5000},
			{READ, 64999, -5000, BEHIND, 0, false, -5000},
			{READ, 65000, -5000, RIGHT, 0, false, 0},
	}},
};

/* An unsure reading is a minute late with one of the clocks, or with none. */
static IdgenClockReading
reading_of(const Line *line)
{
	return (IdgenClockReading) {
		.wall_us = (START_MS + line->elapsed_ms + line->set_ms) * MS,
		.elapsed_us = line->elapsed_ms * MS,
		.error_us = line->action == READ_UNSURE ? 60000 * MS : 0,
	};
}

/* Do what a line says; the verdict is the one remembered. */
static void
act(IdgenClockRecord *record, const Line *line, IdgenClockFinding *finding)
{
	const IdgenClockReading reading = reading_of(line);
	const IdgenClockPolicy policy = {
		.max_step_us = MAX_STEP_MS * MS,
		.synchronised = line->action != READ_UNSYNCHRONISED,
	};

	*finding = (IdgenClockFinding) {0};
	if (line->action == CONFIRM)
		idgen_clock_confirm(record, &reading, finding);
	else if (line->action == RESUME)
		idgen_clock_resume(record, &reading);
	else
	{
		IdgenClockVerdict verdict = idgen_clock_decide(record, &reading, &policy,
													  finding);

		CHECK_EQ(verdict, record->verdict);
	}
}

static void
test_stories(void)
{
	for (size_t i = 0; i < UNIT_COUNT(stories); i++)
	{
		IdgenClockRecord record = {0};

		for (const Line *line = stories[i].lines; line->action != END; line++)
		{
			IdgenClockFinding finding;
			bool		good = true;

			act(&record, line, &finding);
			good &= CHECK_EQ(record.verdict, line->verdict);
			good &= CHECK_EQ(finding.step_us, line->step_ms * MS);
			good &= CHECK_EQ(finding.accepted_back, line->accepted_back);
			good &= CHECK_EQ(idgen_clock_pending(&record), line->pending_ms * MS);
			if (!good)
				printf("# in the story: %s, line %d\n", stories[i].name,
					   (int) (line - stories[i].lines) + 1);
		}
	}
}

/* Findings are set by every call, whatever was in them. */
static void
test_findings_are_set(void)
{
	const IdgenClockReading reading = {.wall_us = 5 * MS, .elapsed_us = MS};
	const IdgenClockPolicy policy = {.max_step_us = MS, .synchronised = true};
	IdgenClockRecord record = {0};
	IdgenClockFinding finding;

	memset(&finding, 1, sizeof(finding));
	(void) idgen_clock_decide(&record, &reading, &policy, &finding);
	CHECK_EQ(finding.step_us, 0);
	CHECK(!finding.accepted_back);
	memset(&finding, 1, sizeof(finding));
	idgen_clock_confirm(&record, &reading, &finding);
	CHECK_EQ(finding.step_us, 0);
	CHECK(!finding.accepted_back);
}

/* All zero means that nothing is known, and stays so until a reading. */
static void
test_nothing_known(void)
{
	const IdgenClockReading reading = {.wall_us = 5 * MS, .elapsed_us = MS};
	IdgenClockRecord record = {0};

	idgen_clock_resume(&record, &reading);
	CHECK(!record.known);
	CHECK_EQ(record.latest_us, 0);
	CHECK_EQ(idgen_clock_pending(&record), 0);
}

/* ---- a world that knows its own steps ---- */

#define WORLDS			3000
#define READINGS		60

static uint64_t random_state;

/* splitmix64; always the same, so that a failure is there again */
static int64_t
random_between(int64_t low, int64_t high)
{
	uint64_t	z = random_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return low + (int64_t) ((z ^ (z >> 31)) % (uint64_t) (high - low + 1));
}

typedef struct World
{
	int64_t		elapsed_us;
	int64_t		offset_us;		/* true */
	int64_t		greatest_us;	/* wall clock, of all readings called right */
	int64_t		right_offset_us;	/* true offset at the last of them */
} World;

/* Far enough from noise to be called a step, or 0. */
static int64_t
random_step(void)
{
	int64_t		step_ms = 0;

	switch (random_between(0, 3))
	{
		case 0:
			step_ms = random_between(-100, 100);
			break;
		case 1:
			step_ms = random_between(-10000, 10000);
			break;
		case 2:
			step_ms = random_between(-2, 2) * 1800000;
			break;
		case 3:
			return 0;
	}
	return step_ms < 30 && step_ms > -30 ? 0 : step_ms * MS;
}

/* Let time pass between the two clocks, in either order. */
static IdgenClockReading
read_world(World *world, int64_t error_us)
{
	int64_t		early_us = world->elapsed_us;
	bool		wall_first = random_between(0, 1) == 1;

	world->elapsed_us += random_between(0, error_us);
	return (IdgenClockReading) {
		.wall_us = world->offset_us +
		(wall_first ? early_us : world->elapsed_us),
		.elapsed_us = wall_first ? world->elapsed_us : early_us,
		.error_us = error_us,
	};
}

/* As long as nobody sets the clock it is right, however badly it is read. */
static void
test_no_step(void)
{
	const IdgenClockPolicy policy = {.max_step_us = 0, .synchronised = false};

	random_state = 1;
	for (int i = 0; i < WORLDS && !unit_failed(); i++)
	{
		World		world = {.offset_us = random_between(-MS, MS) * 1000000};
		IdgenClockRecord record = {0};

		for (int j = 0; j < READINGS; j++)
		{
			IdgenClockFinding finding;
			IdgenClockReading reading;

			world.elapsed_us += random_between(0, 1) * random_between(0, 100 * MS);
			reading = read_world(&world, random_between(0, 3) > 0 ?
								 random_between(0, IDGEN_CLOCK_STEP_NOISE_US) :
								 random_between(0, 3600000 * MS));
			/* two processes: the later judgement can be of the earlier wall */
			if (record.known && reading.wall_us < record.latest_us)
				continue;
			CHECK_EQ(idgen_clock_decide(&record, &reading, &policy, &finding),
					 IDGEN_CLOCK_RIGHT);
			CHECK_EQ(finding.step_us, 0);
			CHECK(!finding.accepted_back);
		}
	}
}

/*
 * Whatever is done to the clock: what is called right is not before what was
 * called right earlier, unless that is said; and not further ahead than the
 * policy allows, unless the step has stood.
 */
static void
test_what_right_means(void)
{
	const IdgenClockPolicy policy = {.max_step_us = MAX_STEP_MS * MS,
		.synchronised = true};
	int64_t		tally[IDGEN_CLOCK_AHEAD + 1] = {0};
	int64_t		back_count = 0;
	int64_t		forward_count = 0;

	random_state = 2;
	for (int i = 0; i < WORLDS && !unit_failed(); i++)
	{
		World		world = {.offset_us = random_between(-MS, MS) * 1000000};
		IdgenClockRecord record = {0};
		int64_t		stepped_at_us = 0;

		for (int j = 0; j < READINGS && !unit_failed(); j++)
		{
			IdgenClockFinding finding;
			IdgenClockReading reading;
			IdgenClockVerdict verdict;
			int64_t		error_us = random_between(0, 100) * MS;
			bool		was_known = record.known;

			world.elapsed_us += random_between(0, 4000 * MS);
			/* only a sure reading can see that a step was taken back again */
			if (error_us <= IDGEN_CLOCK_STEP_NOISE_US && random_between(0, 1) == 0)
			{
				int64_t		step_us = random_step();

				world.offset_us += step_us;
				if (step_us != 0)
					stepped_at_us = world.elapsed_us;
			}
			if (random_between(0, 9) == 0)
			{
				reading = read_world(&world, 0);
				idgen_clock_resume(&record, &reading);
			}
			reading = read_world(&world, error_us);
			verdict = idgen_clock_decide(&record, &reading, &policy, &finding);
			tally[verdict]++;
			back_count += finding.accepted_back;
			/* an unsure reading may be called right, but is not believed */
			if (verdict != IDGEN_CLOCK_RIGHT ||
				reading.error_us > IDGEN_CLOCK_STEP_NOISE_US)
				continue;
			if (!finding.accepted_back)
				CHECK(!was_known || reading.wall_us >= world.greatest_us);
			if (was_known && world.offset_us - world.right_offset_us >
				(MAX_STEP_MS + 4 * NOISE_MS) * MS)
			{
				CHECK(world.elapsed_us - stepped_at_us >= IDGEN_CLOCK_STEP_STANDS_US);
				forward_count++;
			}
			world.greatest_us = reading.wall_us;
			world.right_offset_us = world.offset_us;
		}
	}
	if (unit_failed())
		return;
	for (size_t i = 0; i < UNIT_COUNT(tally); i++)
		CHECK(tally[i] > 1000);
	CHECK(back_count > 100);
	CHECK(forward_count > 100);
}

/* Each step is found once, by the first sure reading after it. */
static void
test_found_once(void)
{
	const IdgenClockPolicy policy = {.max_step_us = MAX_STEP_MS * MS,
		.synchronised = true};

	random_state = 3;
	for (int i = 0; i < WORLDS && !unit_failed(); i++)
	{
		World		world = {.offset_us = random_between(-MS, MS) * 1000000};
		IdgenClockRecord record = {0};

		for (int j = 0; j < READINGS && !unit_failed(); j++)
		{
			int64_t		step_us = random_between(0, 3) > 0 ? 0 : random_step();
			IdgenClockFinding finding;
			IdgenClockReading reading;

			world.elapsed_us += random_between(0, 4000 * MS);
			world.offset_us += step_us;
			reading = read_world(&world, 2 * MS);
			(void) idgen_clock_decide(&record, &reading, &policy, &finding);
			if (j == 0 || step_us == 0)
				CHECK_EQ(finding.step_us, 0);
			else
				CHECK(finding.step_us >= step_us - 4 * MS &&
					  finding.step_us <= step_us + 4 * MS);
		}
	}
}

static const UnitTest tests[] = {
	{"stories of a clock", test_stories},
	{"findings are set by every call", test_findings_are_set},
	{"nothing known stays nothing known", test_nothing_known},
	{"a clock that nobody sets is right, however badly it is read",
	test_no_step},
	{"what is called right is in order, and not too far ahead",
	test_what_right_means},
	{"each step is found once", test_found_once},
};

int
main(void)
{
	return unit_main(tests, UNIT_COUNT(tests));
}
