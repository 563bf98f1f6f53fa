/*
 * grant_fuzz.c
 *		The input is a script for an authority and a copy of it that was lost:
 *		grant, fence, restart, move the clock, choose a worker.
 *
 * What must hold whatever the script is:
 *
 *	- a grant is not empty, is inside what was asked for, the horizon and the
 *	  field, and is as long as these allow; a refusal says when to ask again;
 *	- no two grants of a worker share a tick: not within the authority, and not
 *	  with a copy that granted on while it was away, once there was a fence;
 *	- a choice among free workers is free, and every free one can be chosen.
 */
#include "fuzz.h"
#include "grant.h"
#include "takeover.h"
#include "worker.h"

#define WORKERS_MAX		4
#define GRANTS_MAX		64
#define COMMANDS_MAX	GRANTS_MAX
#define RANGE_MAX		40

typedef struct Given
{
	int			worker;
	IdgenGrant	grant;
} Given;

typedef struct Marks
{
	int64_t		high_water[WORKERS_MAX];
	int64_t		floor;
	int64_t		last_clock;		/* of the last grant */
} Marks;

typedef struct Script
{
	FuzzInput	input;
	int64_t		tick_count;
	int64_t		horizon;
	int64_t		clock_error;
	int64_t		base;
	int64_t		now;
	Marks		marks;
	Marks		saved;			/* a backup of them */
	int64_t		latest_clock;	/* of any grant, lost or not */
	int			given_count;
	Given		given[GRANTS_MAX];	/* to clients, by whatever life */
} Script;

static int64_t
larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t
smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Where marks end that no grant can pass. */
static int64_t
highest_mark(const Marks *marks)
{
	int64_t		highest = marks->floor;

	for (int i = 0; i < WORKERS_MAX; i++)
		highest = larger(highest, marks->high_water[i]);
	return highest;
}

static void
check_grant(const IdgenGrantFacts *facts, int64_t tick_count,
			const IdgenGrant *grant)
{
	const int64_t limit = smaller(facts->now + facts->horizon, tick_count);

	FUZZ_CHECK(grant->start < grant->end);
	FUZZ_CHECK(grant->start >= facts->now && grant->start >= facts->eligible &&
			   grant->start >= facts->high_water);
	FUZZ_CHECK(grant->start == facts->now || grant->start == facts->eligible ||
			   grant->start == facts->high_water);
	FUZZ_CHECK(grant->end <= limit);
	FUZZ_CHECK(grant->end == limit || grant->end - grant->start == facts->length);
	FUZZ_CHECK(grant->end - grant->start <= facts->length);
}

/* Decide, and judge the decision. */
static IdgenGrantVerdict
decide(const IdgenGrantFacts *facts, int64_t tick_count, IdgenGrant *grant)
{
	int64_t		retry_at = -1;
	IdgenGrantFacts later = *facts;
	IdgenGrant	unused;
	int64_t		unused_at;
	IdgenGrantVerdict verdict = idgen_grant_decide(facts, tick_count, grant,
												   &retry_at);
	const int64_t start = larger(larger(facts->now, facts->eligible),
								 facts->high_water);

	switch (verdict)
	{
		case IDGEN_GRANT_OK:
			check_grant(facts, tick_count, grant);
			break;
		case IDGEN_GRANT_FIELD_EXHAUSTED:
			FUZZ_CHECK(start >= tick_count);
			break;
		case IDGEN_GRANT_BEYOND_HORIZON:
			FUZZ_CHECK(start < tick_count);
			FUZZ_CHECK(retry_at > facts->now);
			later.now = retry_at;
			FUZZ_CHECK(idgen_grant_decide(&later, tick_count, &unused,
										  &unused_at) == IDGEN_GRANT_OK);
			later.now = retry_at - 1;
			FUZZ_CHECK(idgen_grant_decide(&later, tick_count, &unused,
										  &unused_at) == IDGEN_GRANT_BEYOND_HORIZON);
			break;
		case IDGEN_GRANT_BAD_REQUEST:
			FUZZ_CHECK(facts->length < 1 || facts->horizon < 1 ||
					   facts->high_water < 0);
			break;
	}
	FUZZ_CHECK(verdict == IDGEN_GRANT_BAD_REQUEST ||
			   (facts->length >= 1 && facts->horizon >= 1 &&
				facts->high_water >= 0));
	return verdict;
}

/* Clients hold it from now on. */
static void
give(Script *script, int worker, const IdgenGrant *grant)
{
	for (int i = 0; i < script->given_count; i++)
	{
		const Given *other = &script->given[i];

		FUZZ_CHECK(other->worker != worker || grant->end <= other->grant.start ||
				   grant->start >= other->grant.end);
	}
	script->given[script->given_count++] = (Given) {worker, *grant};
	script->latest_clock = larger(script->latest_clock, script->now);
}

static void
grant(Script *script)
{
	FuzzInput  *input = &script->input;
	const int	worker = fuzz_byte(input) % WORKERS_MAX;
	const int64_t run_ahead = fuzz_between(input, 0, script->horizon - 1);
	IdgenGrant	grant = {0, 0};
	IdgenGrantFacts facts = {
		.now = script->now,
		.eligible = script->now,
		.high_water = larger(script->marks.high_water[worker],
							 script->marks.floor),
		.length = fuzz_between(input, 0, 2 * script->horizon),
		.horizon = script->horizon,
	};

	/* a fresh incarnation of an ordered namespace */
	if (fuzz_flag(input))
	{
		const int64_t mark = highest_mark(&script->marks);

		facts.eligible = idgen_grant_ordered_start(script->now, run_ahead, mark);
		FUZZ_CHECK(facts.eligible >= script->now);
		/* past every tick that may have been used: granted, and not further
		 * ahead than is allowed */
		FUZZ_CHECK(facts.eligible >= mark ||
				   facts.eligible > script->now + run_ahead);
		FUZZ_CHECK(facts.eligible == script->now || facts.eligible <= mark);
		FUZZ_CHECK(facts.eligible <= script->now + run_ahead + 1);
	}
	if (decide(&facts, script->tick_count, &grant) != IDGEN_GRANT_OK)
		return;
	give(script, worker, &grant);
	script->marks.high_water[worker] = grant.end;
	script->marks.last_clock = script->now;
}

/*
 * Raise the floor.  It only rises, stays in the field, and is as high as asked
 * for; the marks never pull it further than a horizon and the error allow.
 */
static void
fence(Script *script)
{
	FuzzInput  *input = &script->input;
	IdgenFenceFacts facts = {
		.now = script->now,
		.last_clock = script->marks.last_clock,
		.highest_mark = highest_mark(&script->marks),
		.horizon = script->horizon,
		.clock_error = script->clock_error,
	};
	const int64_t distance = script->horizon + script->clock_error;
	const int64_t latest = larger(larger(facts.now, facts.last_clock),
								  facts.highest_mark - facts.horizon);
	int64_t		floor;

	if (fuzz_flag(input))
		facts.above = fuzz_number(input, 0, INT64_MAX);
	floor = idgen_fence_floor(&facts, script->tick_count);
	FUZZ_CHECK(floor >= 0 && floor <= script->tick_count);
	FUZZ_CHECK(floor >= smaller(facts.above, script->tick_count));
	FUZZ_CHECK(floor == script->tick_count || floor >= facts.highest_mark);
	/* also a clock before the epoch is one of the epoch at most */
	FUZZ_CHECK(floor >= smaller(distance, script->tick_count));
	FUZZ_CHECK(floor == script->tick_count || floor >= facts.now + distance);
	FUZZ_CHECK(floor == script->tick_count ||
			   floor >= facts.last_clock + distance);
	/* no further than needed */
	FUZZ_CHECK(floor == smaller(facts.above, script->tick_count) ||
			   floor - distance <= larger(latest, 0));
	script->marks.floor = larger(script->marks.floor, floor);
}

/*
 * The marks are those of a backup again.  What was granted since is lost, so
 * there is a fence before the next grant, by a clock that is at most the error
 * behind those of the life that is lost.
 */
static void
restore(Script *script)
{
	script->marks = script->saved;
	script->now = larger(script->now, script->latest_clock - script->clock_error);
	fence(script);
}

static void
move_clock(Script *script)
{
	FuzzInput  *input = &script->input;

	switch (fuzz_byte(input) % 3)
	{
		case 0:
			script->now++;
			break;
		case 1:
			script->now += fuzz_between(input, -20, 40);
			break;
		case 2:
			script->now = script->base + fuzz_between(input, -100, 155);
			break;
	}
	script->now = smaller(script->now, IDGEN_UNIX_MS_MAX);
}

/* Any facts at all, for the decision alone. */
static void
decide_anything(FuzzInput *input)
{
	IdgenGrant	grant;
	IdgenGrantFacts facts;
	int64_t		tick_count;
	int64_t		granted_end;
	int64_t		run_ahead;
	int64_t		due_at;
	int64_t		room;
	int64_t		step;

	facts.now = fuzz_number(input, -2 * IDGEN_UNIX_MS_MAX, 2 * IDGEN_UNIX_MS_MAX);
	facts.eligible = fuzz_number(input, INT64_MIN, INT64_MAX);
	facts.high_water = fuzz_number(input, INT64_MIN, INT64_MAX);
	facts.length = fuzz_number(input, INT64_MIN, INT64_MAX);
	facts.horizon = fuzz_number(input, -1, IDGEN_HORIZON_MS_MAX);
	tick_count = fuzz_number(input, 1, INT64_MAX);
	(void) decide(&facts, tick_count, &grant);

	/* what is due can be granted, and before the cursor runs dry */
	facts.horizon = larger(facts.horizon, 1);
	facts.length = smaller(larger(facts.length, 1), facts.horizon);
	run_ahead = fuzz_between(input, 0, facts.horizon - 1);
	granted_end = fuzz_number(input, 0, IDGEN_UNIX_MS_MAX);
	due_at = idgen_grant_due_at(granted_end, facts.length, facts.horizon,
								run_ahead);
	room = due_at + facts.horizon - granted_end;
	FUZZ_CHECK(room >= 1);
	FUZZ_CHECK(due_at <= granted_end);
	FUZZ_CHECK(granted_end - due_at >= smaller(run_ahead + 1, facts.horizon - 1));
	/* a step ahead of what may be used, unless that leaves no room for half a
	 * step more */
	step = smaller(facts.length, facts.horizon / 2);
	FUZZ_CHECK(granted_end - due_at <=
			   larger(step + run_ahead, smaller(run_ahead + 1, facts.horizon - 1)));
	FUZZ_CHECK(room >= larger(step / 2, 1) || granted_end - due_at <= run_ahead + 1);
	FUZZ_CHECK(granted_end - due_at >=
			   smaller(step + run_ahead, facts.horizon - larger(step / 2, 1)));
}

/* A worker is in a range and its half. */
static bool
offered(const IdgenWorkerRange *range, int64_t worker)
{
	return worker >= range->first && worker <= range->last &&
		worker % range->modulus == range->remainder;
}

static void
choose_worker(FuzzInput *input)
{
	IdgenWorkerRange range;
	bool		is_busy[RANGE_MAX + 2] = {false};
	bool		chosen[RANGE_MAX + 2] = {false};
	int64_t		busy[RANGE_MAX + 2];
	const int64_t base = fuzz_number(input, 0, INT32_MAX - RANGE_MAX - 2);
	size_t		busy_count = 0;
	int64_t		offered_count = 0;
	int64_t		free_count = 0;

	/* busy ones may also lie just outside of it */
	range.first = base + 1 + fuzz_between(input, 0, 3);
	range.last = range.first + fuzz_between(input, -1, RANGE_MAX - 5);
	range.modulus = fuzz_between(input, 1, IDGEN_SPLIT_PARTS_MAX);
	range.remainder = fuzz_between(input, 0, (int) range.modulus - 1);
	for (int i = 0; i < RANGE_MAX + 2; i++)
	{
		if (fuzz_byte(input) % 4 == 3)
			continue;
		is_busy[i] = input->left > 0;
		if (is_busy[i])
			busy[busy_count++] = base + i;
	}
	for (int i = 0; i < RANGE_MAX + 2; i++)
		if (offered(&range, base + i))
		{
			offered_count++;
			free_count += !is_busy[i];
		}
	FUZZ_CHECK(idgen_worker_range_size(&range) == offered_count);

	if (free_count == 0)
		FUZZ_CHECK(idgen_worker_choose(&range, busy, busy_count,
									   fuzz_uint64(input)) == -1);
	/* one number after the other: each of the free ones once */
	for (int64_t random = 0; random < free_count; random++)
	{
		const int64_t worker = idgen_worker_choose(&range, busy, busy_count,
												   (uint64_t) random);

		FUZZ_CHECK(offered(&range, worker));
		FUZZ_CHECK(!is_busy[worker - base]);
		FUZZ_CHECK(!chosen[worker - base]);
		chosen[worker - base] = true;
	}
}

static void
share_workers(FuzzInput *input)
{
	const int64_t size = fuzz_number(input, 0, INT64_C(1) << 31);
	const int64_t server = fuzz_number(input, 1, 256);
	const int64_t external = idgen_external_workers_max(size, server);

	FUZZ_CHECK(external >= 0 && external <= size);
	/* the server keeps one where there is one, and never more than a quarter */
	FUZZ_CHECK(size == 0 || size - external >= 1);
	FUZZ_CHECK(size - external <= larger(size / 4, 1));
	FUZZ_CHECK(size - external <= server);
	FUZZ_CHECK(size - external >= smaller(server, size / 4));
}

static void
run_authority(Script *script)
{
	FuzzInput  *input = &script->input;

	script->tick_count = INT64_C(1) << fuzz_between(input, 0, 62);
	/* of 63 bits the last tick is given up */
	if (script->tick_count == 1)
		script->tick_count = INT64_MAX;
	script->horizon = fuzz_between(input, 1, 60);
	script->clock_error = fuzz_between(input, 0, 30);
	script->base = smaller(fuzz_number(input, 0, script->tick_count),
						   IDGEN_UNIX_MS_MAX / 2);
	script->now = script->base;
	script->latest_clock = -IDGEN_UNIX_MS_MAX;
	for (int i = 0; i < COMMANDS_MAX && input->left > 0; i++)
		switch (fuzz_byte(input) % 8)
		{
			case 0:
			case 1:
				move_clock(script);
				break;
			case 2:
				fence(script);
				break;
			case 3:
				script->saved = script->marks;
				break;
			case 4:
				restore(script);
				break;
			default:
				grant(script);
				break;
		}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Script		script;

	memset(&script, 0, sizeof(script));
	script.input = (FuzzInput) {data, size};
	switch (fuzz_byte(&script.input) % 8)
	{
		case 0:
			decide_anything(&script.input);
			break;
		case 1:
			choose_worker(&script.input);
			break;
		case 2:
			share_workers(&script.input);
			break;
		default:
			run_authority(&script);
			break;
	}
	return 0;
}
