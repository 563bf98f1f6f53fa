/*
 * property_test.c
 *		Random operations on tiny formats, against models that share no code
 *		and no representation with src/core.
 *
 * The models are sets: a table of the ticks granted, a table of the tuples
 * issued.  What a call must answer is found by looking through them, never by
 * arithmetic on intervals.
 *
 * The seed is printed first.  SEED=n replays a run; ROUNDS=n multiplies its
 * length.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cursor.h"
#include "takeover.h"
#include "unit.h"

#define TICKS_MAX		64
#define WORKERS_MAX		8
#define SEQUENCES_MAX	8
#define INCARNATIONS	6
#define SESSIONS		4
#define REQUESTS_MAX	400

static uint64_t seed;
static int	round_factor = 1;
static uint64_t random_state;

/* splitmix64 */
static uint64_t
random_next(void)
{
	uint64_t	z = random_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Uniform in [low, high]. */
static int64_t
random_between(int64_t low, int64_t high)
{
	return low + (int64_t) (random_next() % (uint64_t) (high - low + 1));
}

static bool
one_in(int64_t count)
{
	return random_between(1, count) == 1;
}

static int64_t
max_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t
min_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Each test draws from the seed alone, so that one can be replayed without
 * the others. */
static void
random_restart(uint64_t salt)
{
	random_state = seed * 31 + salt;
}

static IdgenLayout
random_layout(void)
{
	return (IdgenLayout) {
		.timestamp_bits = (int) random_between(3, 6),
		.worker_bits = (int) random_between(0, 3),
		.sequence_bits = (int) random_between(0, 3),
		.epoch_ms = random_between(-5000, 5000),
		.tick_ms = one_in(2) ? 1 : random_between(2, 5),
		.horizon_ms = 5,
	};
}

/* Stands, walks, steps back, jumps; rarely goes to the ends of time. */
static int64_t
random_clock(int64_t now, int64_t tick_count)
{
	switch (random_between(0, 11))
	{
		case 0:
		case 1:
		case 2:
		case 3:
			return now;
		case 4:
		case 5:
		case 6:
			return now + 1;
		case 7:
		case 8:
			return max_of(now - random_between(1, 3), -3);
		case 9:
			return min_of(now + random_between(2, 8), tick_count + 3);
		case 10:
			return random_between(-3, tick_count + 3);
		default:
			return one_in(8) ? random_between(-1, 1) * 2 * IDGEN_UNIX_MS_MAX
				: now;
	}
}

/* ---- one cursor against a set of ticks ---- */

typedef struct Model
{
	IdgenLayout layout;
	int64_t		tick_count;
	int64_t		worker_count;
	int64_t		sequence_count;
	int64_t		worker;
	bool		held[TICKS_MAX];	/* granted, and not given up */
	bool		issued[TICKS_MAX][SEQUENCES_MAX];
	int64_t		last_id;		/* 0 before the first */
} Model;

/* How often each answer was seen, over all rounds. */
typedef struct Tally
{
	int64_t		issue[IDGEN_CURSOR_CLOCK_BEHIND + 1];
	int64_t		install[IDGEN_INSTALL_FULL + 1];
} Tally;

static void
model_init(Model *model, const IdgenLayout *layout)
{
	memset(model, 0, sizeof(*model));
	model->layout = *layout;
	model->tick_count = INT64_C(1) << layout->timestamp_bits;
	model->worker_count = INT64_C(1) << layout->worker_bits;
	model->sequence_count = INT64_C(1) << layout->sequence_bits;
	model->worker = one_in(3) ? 0 : random_between(0, model->worker_count - 1);
}

/* The values of a tick that were issued are always a prefix; how long? */
static int64_t
model_used(const Model *model, int64_t tick)
{
	int64_t		used = model->sequence_count;

	while (used > 0 && !model->issued[tick][used - 1])
		used--;
	return used;
}

/* The highest tick issued; -1 if none. */
static int64_t
model_last_tick(const Model *model)
{
	int64_t		tick = model->tick_count - 1;

	while (tick >= 0 && model_used(model, tick) == 0)
		tick--;
	return tick;
}

/* The first value of a tick that may be issued; sequence_count if none. */
static int64_t
model_sequence(const Model *model, int64_t tick)
{
	int64_t		sequence = model_used(model, tick);

	while (sequence < model->sequence_count &&
		   tick + model->worker + sequence == 0)
		sequence++;
	return sequence;
}

/* The first tick of the stretch of ticks held that "tick" is in. */
static int64_t
model_stretch_start(const Model *model, int64_t tick)
{
	while (tick > 0 && model->held[tick - 1])
		tick--;
	return tick;
}

/* What an issue must answer. */
static IdgenCursorCode
model_issue(const Model *model, const IdgenCursorDemand *demand,
			IdgenCursorRun *run)
{
	const int64_t last_tick = model_last_tick(model);
	int64_t		tick = max_of(max_of(demand->now, demand->min_tick), last_tick);

	for (tick = max_of(tick, 0); tick < model->tick_count; tick++)
		if (model->held[tick] &&
			model_sequence(model, tick) < model->sequence_count)
			break;
	if (tick >= model->tick_count)
		return IDGEN_CURSOR_GRANT_ENDED;

	run->tick = tick;
	run->sequence = model_sequence(model, tick);
	run->count = min_of(demand->count, model->sequence_count - run->sequence);
	if (tick <= demand->now + demand->run_ahead)
		return IDGEN_CURSOR_ISSUED;

	/* step to it, though not from the beginning of time */
	run->retry_at = max_of(demand->now, -TICKS_MAX);
	while (tick > run->retry_at + demand->run_ahead)
		run->retry_at++;
	if (last_tick >= 0 && last_tick > demand->now + demand->run_ahead)
		return IDGEN_CURSOR_CLOCK_BEHIND;
	return model_stretch_start(model, tick) > demand->now + demand->run_ahead ?
		IDGEN_CURSOR_NOT_YET_VALID : IDGEN_CURSOR_SEQUENCE_SPENT;
}

/* Record a run, and check every ID of it. */
static void
model_record(Model *model, const IdgenCursorRun *run,
			 const IdgenCursorDemand *demand)
{
	CHECK(run->count >= 1 && run->count <= demand->count);
	CHECK(run->tick >= demand->min_tick);
	CHECK(run->tick <= demand->now + demand->run_ahead);
	if (!CHECK(run->tick >= 0 && run->tick < model->tick_count) ||
		!CHECK(run->sequence >= 0 &&
			   run->sequence + run->count <= model->sequence_count))
		return;
	CHECK(model->held[run->tick]);
	for (int64_t i = 0; i < run->count; i++)
	{
		const int64_t sequence = run->sequence + i;
		const int64_t id = (run->tick * model->worker_count + model->worker) *
			model->sequence_count + sequence;
		int64_t		encoded = 0;

		CHECK(id > model->last_id);
		CHECK(!model->issued[run->tick][sequence]);
		CHECK_EQ(idgen_layout_encode(&model->layout, run->tick, model->worker,
									 sequence, &encoded), IDGEN_FIT_OK);
		CHECK_EQ(encoded, id);
		CHECK_EQ(idgen_layout_assemble(&model->layout, run->tick, model->worker,
									   sequence), id);
		model->issued[run->tick][sequence] = true;
		model->last_id = id;
	}
}

/* The tick named for a retry is the first that works. */
static void
check_retry_at(const IdgenCursor *cursor, const Model *model,
			   const IdgenCursorDemand *refused, int64_t retry_at)
{
	IdgenCursorDemand demand = *refused;
	IdgenCursorRun run = {0};
	IdgenCursor trial = *cursor;

	CHECK(retry_at > refused->now);
	demand.now = retry_at - 1;
	CHECK(idgen_cursor_issue(&trial, &model->layout, &demand, &run) !=
		  IDGEN_CURSOR_ISSUED);
	CHECK_EQ(run.retry_at, retry_at);
	CHECK_EQ(memcmp(&trial, cursor, sizeof(trial)), 0);
	demand.now = retry_at;
	CHECK_EQ(idgen_cursor_issue(&trial, &model->layout, &demand, &run),
			 IDGEN_CURSOR_ISSUED);
}

static void
random_issue(IdgenCursor *cursor, Model *model, Tally *tally, int64_t now,
			 int64_t run_ahead)
{
	const IdgenCursorDemand demand = {
		.now = now,
		.run_ahead = run_ahead,
		.min_tick = one_in(4) ? now + random_between(-3, 3) : 0,
		.count = one_in(2) ? 1 : one_in(20) ? INT64_MAX
		: random_between(1, 2 * model->sequence_count),
	};
	const IdgenCursor before = *cursor;
	IdgenCursorRun run = {-1, -1, -1, -1};
	IdgenCursorRun expected = {-1, -1, -1, -1};
	const IdgenCursorCode expected_code = model_issue(model, &demand, &expected);
	const IdgenCursorCode code = idgen_cursor_issue(cursor, &model->layout,
													&demand, &run);

	CHECK_EQ(code, expected_code);
	tally->issue[code]++;
	if (code == IDGEN_CURSOR_ISSUED)
	{
		CHECK_EQ(run.tick, expected.tick);
		CHECK_EQ(run.sequence, expected.sequence);
		CHECK_EQ(run.count, expected.count);
		model_record(model, &run, &demand);
		return;
	}
	CHECK_EQ(memcmp(&before, cursor, sizeof(before)), 0);
	CHECK_EQ(run.retry_at, expected.retry_at);
	if (code != IDGEN_CURSOR_GRANT_ENDED)
		check_retry_at(cursor, model, &demand, run.retry_at);
}

/* The end of everything held; 0 if nothing is. */
static int64_t
model_held_end(const Model *model)
{
	int64_t		end = model->tick_count;

	while (end > 0 && !model->held[end - 1])
		end--;
	return end;
}

/*
 * Count the stretches of ticks held that end after the last tick issued, those
 * a cursor still has a use for; and find the first of them.
 */
static int
model_stretches(const Model *model, IdgenGrant *first)
{
	const int64_t last_tick = model_last_tick(model);
	int64_t		start = 0;
	int			count = 0;

	for (int64_t tick = 0; tick < model->tick_count; tick++)
	{
		if (!model->held[tick])
			continue;
		if (tick == 0 || !model->held[tick - 1])
			start = tick;
		if ((tick + 1 == model->tick_count || !model->held[tick + 1]) &&
			tick >= last_tick && count++ == 0)
			*first = (IdgenGrant) {start, tick + 1};
	}
	return count;
}

/* What an install must answer, and its effect. */
static IdgenInstallCode
model_install(Model *model, const IdgenGrant *grant, int64_t now)
{
	const bool	merged = grant->start > 0 && grant->start < model->tick_count &&
		model->held[grant->start - 1];
	IdgenGrant	first = {0, 0};

	if (grant->start < 0 || grant->end <= grant->start ||
		grant->start < model_held_end(model) ||
		grant->start <= model_last_tick(model))
		return IDGEN_INSTALL_BAD;
	if (!merged && model_stretches(model, &first) == IDGEN_CURSOR_GRANTS_MAX)
	{
		if (first.end > now)
			return IDGEN_INSTALL_FULL;
		for (int64_t tick = first.start; tick < first.end; tick++)
			model->held[tick] = false;
	}
	for (int64_t tick = grant->start; tick < grant->end; tick++)
		model->held[tick] = true;
	return merged ? IDGEN_INSTALL_MERGED : IDGEN_INSTALL_ADDED;
}

/*
 * Contiguous, gapped, overlapping or garbage.  A grant that begins in order
 * ends within the field: that is the authority's to see to (S7), and the
 * cursor cannot tell.
 */
static IdgenGrant
random_grant(const Model *model, int64_t now)
{
	const int64_t end = model_held_end(model);
	IdgenGrant	grant = {end, 0};

	switch (random_between(0, 7))
	{
		case 0:
		case 1:
			break;
		case 2:
		case 3:
		case 4:
			grant.start = end + random_between(1, 3);
			break;
		case 5:
			grant.start = max_of(end, min_of(now, model->tick_count));
			break;
		case 6:
			grant.start = random_between(0, end);
			break;
		default:
			return (IdgenGrant) {
				.start = one_in(3) ? INT64_MIN : random_between(-4, -1),
				.end = one_in(3) ? INT64_MAX : random_between(-8, 8),
			};
	}
	grant.end = grant.start + (one_in(6) ? random_between(-3, 0)
							   : random_between(1, 6));
	if (grant.end > model->tick_count)
		grant.end = model->tick_count;
	return grant;
}

static void
random_install(IdgenCursor *cursor, Model *model, Tally *tally, int64_t now)
{
	const IdgenGrant grant = random_grant(model, now);
	const IdgenCursor before = *cursor;
	const IdgenInstallCode expected = model_install(model, &grant, now);
	const IdgenInstallCode code = idgen_cursor_install(cursor, &grant, now);

	CHECK_EQ(code, expected);
	if (code == IDGEN_INSTALL_BAD || code == IDGEN_INSTALL_FULL)
		CHECK_EQ(memcmp(&before, cursor, sizeof(before)), 0);
	CHECK_EQ(idgen_cursor_granted_end(cursor), model_held_end(model));
	tally->install[code]++;
}

static void
test_cursor_model(void)
{
	static Model model;
	Tally		tally = {0};

	random_restart(1);
	for (int round = 0; round < 2400 * round_factor && !unit_failed(); round++)
	{
		const IdgenLayout layout = random_layout();
		int64_t		now = random_between(-2, 5);
		int64_t		run_ahead = 0;
		IdgenCursor cursor;

		model_init(&model, &layout);
		memset(&cursor, 0xa5, sizeof(cursor));
		idgen_cursor_init(&cursor, (int32_t) model.worker);
		for (int step = 0; step < 120 && !unit_failed(); step++)
		{
			now = random_clock(now, model.tick_count);
			if (one_in(10))
				run_ahead = one_in(2) ? 0 : random_between(1, 5);
			if (one_in(5))
				random_install(&cursor, &model, &tally, now);
			else
				random_issue(&cursor, &model, &tally, now, run_ahead);
			if (unit_failed())
				printf("# in round %d, step %d\n", round, step);
		}
	}

	/* a run in which something never happens shows nothing about it */
	if (unit_failed())
		return;
	for (size_t i = 0; i < UNIT_COUNT(tally.issue); i++)
		CHECK(tally.issue[i] > 100);
	for (size_t i = 0; i < UNIT_COUNT(tally.install); i++)
		CHECK(tally.install[i] > 20);
}

/* ---- the layout against multiplication ---- */

/* All tuples of a format in order: their IDs count 1, 2, 3, ... */
static void
check_every_tuple(const IdgenLayout *layout)
{
	const int64_t tick_count = INT64_C(1) << layout->timestamp_bits;
	const int64_t worker_count = INT64_C(1) << layout->worker_bits;
	const int64_t sequence_count = INT64_C(1) << layout->sequence_bits;
	int64_t		expected = 0;

	for (int64_t tick = 0; tick < tick_count; tick++)
		for (int64_t worker = 0; worker < worker_count; worker++)
			for (int64_t sequence = 0; sequence < sequence_count; sequence++)
			{
				int64_t		id = 0;
				int64_t		t = 0;
				int64_t		w = 0;
				int64_t		s = 0;

				CHECK_EQ(idgen_layout_encode(layout, tick, worker, sequence,
											 &id),
						 expected == 0 ? IDGEN_FIT_ZERO : IDGEN_FIT_OK);
				CHECK_EQ(id, expected);
				CHECK_EQ(idgen_layout_decode(layout, id, &t, &w, &s),
						 expected == 0 ? IDGEN_FIT_ZERO : IDGEN_FIT_OK);
				CHECK(t == tick && w == worker && s == sequence);
				expected++;
			}
}

/* A time belongs to the tick that has begun and whose next has not. */
static void
check_times(const IdgenLayout *layout)
{
	const int64_t tick_count = INT64_C(1) << layout->timestamp_bits;
	const int64_t ids_per_tick = INT64_C(1) << (layout->worker_bits +
												layout->sequence_bits);
	const int64_t span_ms = tick_count * layout->tick_ms;

	for (int i = 0; i < 40; i++)
	{
		const int64_t unix_ms = layout->epoch_ms + random_between(-20, span_ms);
		const int64_t tick = idgen_layout_tick_at(layout, unix_ms);
		const int64_t bound = idgen_layout_lower_bound_ms(layout, unix_ms);

		CHECK(layout->epoch_ms + tick * layout->tick_ms <= unix_ms);
		CHECK(layout->epoch_ms + (tick + 1) * layout->tick_ms > unix_ms);
		for (int64_t t = 0; t < tick_count; t++)
		{
			int64_t		begin_ms = 0;

			CHECK(idgen_layout_unix_ms(layout, t, &begin_ms));
			CHECK_EQ(idgen_layout_tick_at(layout, begin_ms), t);
			/* both ends of the tick's IDs are on the same side */
			CHECK_EQ(t * ids_per_tick >= bound, begin_ms >= unix_ms);
			CHECK_EQ((t + 1) * ids_per_tick - 1 >= bound, begin_ms >= unix_ms);
		}
	}
}

static void
test_layout_model(void)
{
	random_restart(2);
	for (int round = 0; round < 40 * round_factor && !unit_failed(); round++)
	{
		const IdgenLayout layout = random_layout();

		CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_OK);
		check_every_tuple(&layout);
		check_times(&layout);
	}
}

/* Any format of up to 63 bits whose fields all fit into random_between. */
static IdgenLayout
random_wide_layout(void)
{
	IdgenLayout layout = random_layout();
	int64_t		left = 63;

	layout.timestamp_bits = (int) random_between(1, 62);
	left -= layout.timestamp_bits;
	layout.worker_bits = (int) random_between(0, min_of(31, left));
	left -= layout.worker_bits;
	layout.sequence_bits = (int) random_between(0, min_of(31, left));
	return layout;
}

typedef struct Tuple
{
	int64_t		tick;
	int64_t		worker;
	int64_t		sequence;
} Tuple;

static Tuple
random_tuple(const IdgenLayout *layout)
{
	return (Tuple) {
		.tick = random_between(0, (INT64_C(1) << layout->timestamp_bits) - 1),
		.worker = random_between(0, (INT64_C(1) << layout->worker_bits) - 1),
		.sequence = random_between(0, (INT64_C(1) << layout->sequence_bits) - 1),
	};
}

static int
compare(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int
compare_tuples(const Tuple *a, const Tuple *b)
{
	if (a->tick != b->tick)
		return compare(a->tick, b->tick);
	if (a->worker != b->worker)
		return compare(a->worker, b->worker);
	return compare(a->sequence, b->sequence);
}

/* The ID of a tuple, checked by taking it apart; 0 for (0,0,0). */
static int64_t
checked_id(const IdgenLayout *layout, const Tuple *tuple)
{
	int64_t		id = 0;
	Tuple		out = {0, 0, 0};

	(void) idgen_layout_encode(layout, tuple->tick, tuple->worker,
							   tuple->sequence, &id);
	CHECK(id >= 0);
	(void) idgen_layout_decode(layout, id, &out.tick, &out.worker,
							   &out.sequence);
	CHECK_EQ(compare_tuples(&out, tuple), 0);
	return id;
}

static void
test_layout_order(void)
{
	random_restart(3);
	for (int round = 0; round < 5000 * round_factor && !unit_failed(); round++)
	{
		const IdgenLayout layout = random_wide_layout();
		const Tuple a = random_tuple(&layout);
		Tuple		b = random_tuple(&layout);

		/* otherwise the lower fields would never decide */
		if (one_in(2))
			b.tick = a.tick;
		if (one_in(2))
			b.worker = a.worker;
		CHECK_EQ(compare(checked_id(&layout, &a), checked_id(&layout, &b)),
				 compare_tuples(&a, &b));
	}
}

/* ---- the interval rule against stepping ---- */

static void
check_decision(const IdgenGrantFacts *facts, int64_t tick_count)
{
	IdgenGrant	grant = {-1, -1};
	int64_t		retry_at = INT64_MIN;
	IdgenGrantFacts later = *facts;
	IdgenGrant	ignored;
	int64_t		ignored_at;
	int64_t		start = 0;
	int64_t		end;

	while (start < facts->high_water || start < facts->eligible ||
		   start < facts->now)
		start++;
	end = start;
	while (end < tick_count && end < facts->now + facts->horizon &&
		   end - start < facts->length)
		end++;

	switch (idgen_grant_decide(facts, tick_count, &grant, &retry_at))
	{
		case IDGEN_GRANT_OK:
			CHECK_EQ(grant.start, start);
			CHECK_EQ(grant.end, end);
			CHECK(grant.start < grant.end);
			CHECK(grant.end <= tick_count);
			CHECK(grant.end <= facts->now + facts->horizon);
			break;
		case IDGEN_GRANT_FIELD_EXHAUSTED:
			CHECK(start >= tick_count);
			break;
		case IDGEN_GRANT_BEYOND_HORIZON:
			CHECK(start < tick_count);
			CHECK_EQ(end, start);
			while (idgen_grant_decide(&later, tick_count, &ignored,
									  &ignored_at) == IDGEN_GRANT_BEYOND_HORIZON)
				later.now++;
			CHECK_EQ(retry_at, later.now);
			break;
		case IDGEN_GRANT_BAD_REQUEST:
			CHECK(facts->length < 1 || facts->horizon < 1 ||
				  facts->high_water < 0);
			return;
	}
	CHECK(facts->length >= 1 && facts->horizon >= 1 && facts->high_water >= 0);
}

static void
test_grant_model(void)
{
	random_restart(4);
	for (int round = 0; round < 20000 * round_factor && !unit_failed(); round++)
	{
		const int64_t tick_count = INT64_C(1) << random_between(1, 6);
		IdgenGrantFacts facts = {
			.now = random_between(-10, tick_count + 4),
			.high_water = random_between(one_in(10) ? -2 : 0, tick_count + 2),
			.length = one_in(20) ? INT64_MAX
			: random_between(one_in(10) ? -1 : 1, 12),
			.horizon = random_between(one_in(10) ? -1 : 1, 12),
		};

		facts.eligible = facts.now + (one_in(3) ? random_between(-6, 12) : 0);
		check_decision(&facts, tick_count);
	}
}

/* ---- replenishing against stepping ---- */

/*
 * A grant is due when it is possible and the cursor holds no more than it may
 * run ahead; or earlier, when it holds one length (at most half a horizon) more
 * than that and the horizon leaves room for half as much.
 */
static bool
stepped_due(int64_t tick, int64_t granted_end, const IdgenGrantFacts *facts,
			int64_t run_ahead)
{
	const int64_t half_horizon = facts->horizon / 2;
	const int64_t step = facts->length < half_horizon ? facts->length :
		half_horizon;
	const int64_t held = granted_end - tick;
	const int64_t room = facts->horizon - held;

	if (room < 1)
		return false;
	if (held <= run_ahead + 1)
		return true;
	return held <= run_ahead + step && room >= (step > 3 ? step / 2 : 1);
}

static int64_t
stepped_due_at(int64_t granted_end, const IdgenGrantFacts *facts,
			   int64_t run_ahead)
{
	int64_t		tick = granted_end - 3 * facts->horizon;

	while (!stepped_due(tick, granted_end, facts, run_ahead))
		tick++;
	return tick;
}

/* Grant whatever is due now.  It is never too early for that, and it ends. */
static void
replenish(IdgenGrantFacts *facts, int64_t run_ahead, bool *held)
{
	int			turns = 0;

	while (idgen_grant_due_at(facts->high_water, facts->length, facts->horizon,
							  run_ahead) <= facts->now)
	{
		IdgenGrant	grant = {0, 0};
		int64_t		retry_at;

		if (!CHECK(turns++ < TICKS_MAX) ||
			!CHECK_EQ(idgen_grant_decide(facts, INT64_MAX, &grant, &retry_at),
					  IDGEN_GRANT_OK))
			return;
		for (int64_t tick = grant.start; tick < grant.end; tick++)
			held[tick] = true;
		facts->high_water = grant.end;
	}
}

/* A cursor that is replenished when due never runs dry, run-ahead included. */
static void
test_due_model(void)
{
	random_restart(6);
	for (int round = 0; round < 4000 * round_factor && !unit_failed(); round++)
	{
		bool		held[2 * TICKS_MAX] = {false};
		const int64_t horizon = random_between(1, 12);
		const int64_t run_ahead = one_in(3) ? 0 : random_between(0, horizon - 1);
		IdgenGrantFacts facts = {
			.eligible = 0,
			.high_water = random_between(0, 8),
			.length = random_between(1, horizon),
			.horizon = horizon,
		};

		for (int64_t end = 0; end < TICKS_MAX; end++)
			CHECK_EQ(idgen_grant_due_at(end, facts.length, horizon, run_ahead),
					 stepped_due_at(end, &facts, run_ahead));
		for (facts.now = facts.high_water;
			 facts.now < TICKS_MAX && !unit_failed(); facts.now++)
		{
			replenish(&facts, run_ahead, held);
			for (int64_t tick = facts.now; tick <= facts.now + run_ahead; tick++)
				CHECK(held[tick]);
		}
	}
}

/* ---- a fence against a lost copy ---- */

typedef struct Copy
{
	int64_t		tick_count;
	int64_t		horizon;
	int64_t		high_water[WORKERS_MAX];
	bool		granted[WORKERS_MAX][TICKS_MAX];
	int64_t		end;			/* of all it granted since it was lost */
} Copy;

static void
copy_grant(Copy *copy, int worker, int64_t now, int64_t length)
{
	const IdgenGrantFacts facts = {
		.now = now,
		.eligible = now,
		.high_water = copy->high_water[worker],
		.length = length,
		.horizon = copy->horizon,
	};
	IdgenGrant	grant;
	int64_t		retry_at;

	if (idgen_grant_decide(&facts, copy->tick_count, &grant, &retry_at) !=
		IDGEN_GRANT_OK)
		return;
	for (int64_t tick = grant.start; tick < grant.end; tick++)
		copy->granted[worker][tick] = true;
	copy->high_water[worker] = grant.end;
	copy->end = max_of(copy->end, grant.end);
}

/*
 * Marks as they may stand when the copy is lost; one may be far ahead, from an
 * earlier fence.  Worker 0 was never used.  Returns the highest.
 */
static int64_t
random_marks(Copy *copy, int64_t last_clock)
{
	int64_t		highest = 0;

	for (int worker = 1; worker < WORKERS_MAX; worker++)
	{
		int64_t		mark = one_in(3) ? 0 :
			last_clock + random_between(0, copy->horizon);

		if (one_in(20))
			mark = random_between(0, copy->tick_count);
		copy->high_water[worker] = min_of(max_of(mark, 0), copy->tick_count);
		highest = max_of(highest, copy->high_water[worker]);
	}
	return highest;
}

/* The latest the clock is known to have been.  Who granted the highest mark
 * had a clock that allowed it: step to it. */
static int64_t
latest_clock(const IdgenFenceFacts *facts)
{
	int64_t		clock = max_of(facts->now, facts->last_clock);

	while (clock + facts->horizon < facts->highest_mark)
		clock++;
	return clock;
}

/* Behind the fence, the worker's grants are none of the copy's ticks. */
static void
check_behind_fence(const Copy *copy, int64_t now, int64_t floor)
{
	for (int worker = 0; worker < WORKERS_MAX; worker++)
	{
		Copy		ours = *copy;

		memset(ours.granted, 0, sizeof(ours.granted));
		ours.high_water[worker] = floor;
		for (int64_t clock = now; clock < copy->tick_count; clock++)
			copy_grant(&ours, worker, clock, random_between(1, 6));
		for (int64_t tick = 0; tick < copy->tick_count; tick++)
			CHECK(!(ours.granted[worker][tick] && copy->granted[worker][tick]));
	}
}

static void
test_fence_model(void)
{
	static Copy copy;
	int64_t		reached_count = 0;
	int64_t		cut_count = 0;

	random_restart(7);
	for (int round = 0; round < 4000 * round_factor && !unit_failed(); round++)
	{
		const int64_t tick_count = INT64_C(1) << random_between(3, 6);
		IdgenFenceFacts facts = {
			.now = random_between(-12, tick_count + 2),
			.last_clock = random_between(-12, tick_count),
			.above = one_in(3) ? random_between(0, tick_count + 4) : 0,
			.horizon = random_between(1, 10),
			.clock_error = one_in(4) ? 0 : random_between(1, 6),
		};
		int64_t		latest;
		int64_t		floor;

		memset(&copy, 0, sizeof(copy));
		copy.tick_count = tick_count;
		copy.horizon = facts.horizon;
		facts.highest_mark = random_marks(&copy, facts.last_clock);
		latest = latest_clock(&facts);
		floor = idgen_fence_floor(&facts, copy.tick_count);

		CHECK(floor >= facts.highest_mark);
		CHECK(floor >= facts.now || floor == tick_count);
		CHECK(floor >= facts.above || floor == tick_count);
		CHECK(floor <= tick_count);

		/* the copy lives on, its clock wherever it can be */
		for (int step = 0; step < 40; step++)
			copy_grant(&copy, (int) random_between(1, WORKERS_MAX - 1),
					   latest + facts.clock_error - random_between(0, 12),
					   random_between(1, 6));
		CHECK(copy.end <= floor);

		/* and grants all it can: exactly up to the fence, if that was not
		 * raised by anything else and the field not over */
		for (int worker = 0; worker < WORKERS_MAX; worker++)
			copy_grant(&copy, worker, latest + facts.clock_error, INT64_MAX);
		CHECK(copy.end <= floor);
		check_behind_fence(&copy, facts.now, floor);
		if (latest < 0 || latest + facts.clock_error >= tick_count ||
			facts.above > copy.end)
			continue;
		CHECK_EQ(copy.end, floor);
		reached_count++;
		if (floor == tick_count)
			cut_count++;
	}

	/* both must have been seen often, or this showed nothing about them */
	if (unit_failed())
		return;
	CHECK(cut_count > 100);
	CHECK(reached_count > cut_count + 100);
}

/* ---- several incarnations, one authority ---- */

typedef struct Incarnation
{
	int64_t		number;			/* never reused; 0 if none lives here */
	IdgenCursor cursor;
	int64_t		clock_error;	/* its clock minus the authority's */
} Incarnation;

typedef struct Session
{
	int64_t		last_id;		/* 0 before the first */
	int64_t		last_tick;
	int64_t		last_worker;
	int64_t		last_incarnation;
} Session;

typedef struct World
{
	IdgenLayout layout;
	int64_t		tick_count;
	int64_t		worker_count;
	int64_t		horizon;
	int64_t		now;			/* the authority's clock */
	int64_t		incarnations_ever;
	int64_t		high_water[WORKERS_MAX];
	int64_t		owner[WORKERS_MAX][TICKS_MAX];	/* incarnation granted */
	bool		issued[WORKERS_MAX][TICKS_MAX][SEQUENCES_MAX];
	Incarnation incarnations[INCARNATIONS];
	Session		sessions[SESSIONS];
	int64_t		issued_count;
	int64_t		spilled_count;	/* same tick, higher worker */
} World;

static void
world_init(World *world)
{
	memset(world, 0, sizeof(*world));
	world->layout = random_layout();
	world->tick_count = INT64_C(1) << world->layout.timestamp_bits;
	world->worker_count = INT64_C(1) << world->layout.worker_bits;
	world->horizon = random_between(1, 10);
	world->now = random_between(-2, 2);
}

/*
 * A fresh incarnation.  Usually its worker is free; sometimes it is any, even
 * that of a living incarnation: uniqueness rests on the marks, not on the
 * choice.
 */
static void
world_activate(World *world, Incarnation *incarnation)
{
	const IdgenWorkerRange range = {0, world->worker_count - 1, 1, 0};
	int64_t		busy[WORKERS_MAX];
	size_t		busy_count = 0;
	int64_t		worker;

	for (int64_t w = 0; w < world->worker_count; w++)
		if (world->high_water[w] > world->now)
			busy[busy_count++] = w;
	worker = idgen_worker_choose(&range, busy, busy_count, random_next());
	if (worker >= 0)
		CHECK(world->high_water[worker] <= world->now);
	else
		CHECK_EQ(busy_count, world->worker_count);
	if (worker < 0 || one_in(3))
		worker = random_between(0, world->worker_count - 1);
	incarnation->number = ++world->incarnations_ever;
	incarnation->clock_error = one_in(2) ? 0 : random_between(-3, 3);
	idgen_cursor_init(&incarnation->cursor, (int32_t) worker);
}

/* Grant to an incarnation; sometimes the answer is lost on its way. */
static void
world_grant(World *world, Incarnation *incarnation)
{
	const int32_t worker = incarnation->cursor.worker;
	const IdgenGrantFacts facts = {
		.now = world->now,
		.eligible = world->now + (one_in(6) ? random_between(-4, 4) : 0),
		.high_water = world->high_water[worker],
		.length = random_between(1, 6),
		.horizon = world->horizon,
	};
	IdgenGrant	grant;
	int64_t		retry_at;

	if (idgen_grant_decide(&facts, world->tick_count, &grant, &retry_at) !=
		IDGEN_GRANT_OK)
		return;
	CHECK(grant.end > world->high_water[worker]);
	if (!CHECK(grant.start >= 0 && grant.end <= world->tick_count))
		return;
	for (int64_t tick = grant.start; tick < grant.end; tick++)
	{
		CHECK_EQ(world->owner[worker][tick], 0);
		world->owner[worker][tick] = incarnation->number;
	}
	world->high_water[worker] = grant.end;
	if (!one_in(10))
		(void) idgen_cursor_install(&incarnation->cursor, &grant,
									world->now + incarnation->clock_error);
}

/* Check one ID, and that it rises for its session. */
static void
world_record(World *world, Session *session, const Incarnation *incarnation,
			 int64_t tick, int64_t sequence)
{
	const int32_t worker = incarnation->cursor.worker;
	const int64_t id = idgen_layout_assemble(&world->layout, tick, worker,
											 sequence);

	if (!CHECK(tick >= 0 && tick < world->tick_count) ||
		!CHECK(sequence >= 0 &&
			   sequence < idgen_layout_sequence_count(&world->layout)))
		return;
	CHECK(id > 0);
	CHECK_EQ(world->owner[worker][tick], incarnation->number);
	CHECK(!world->issued[worker][tick][sequence]);
	CHECK(id > session->last_id);
	world->issued[worker][tick][sequence] = true;
	world->issued_count++;
	if (session->last_tick == tick && session->last_worker < worker)
		world->spilled_count++;
	session->last_id = id;
	session->last_tick = tick;
	session->last_worker = worker;
	session->last_incarnation = incarnation->number;
}

static void
world_issue(World *world, Session *session, Incarnation *incarnation)
{
	const bool	continues = session->last_id == 0 ||
		session->last_incarnation == incarnation->number;
	const IdgenCursorDemand demand = {
		.now = world->now + incarnation->clock_error,
		.run_ahead = one_in(4) ? random_between(1, 4) : 0,
		.min_tick = continues ? 0 :
		idgen_cursor_spill_tick(incarnation->cursor.worker, session->last_tick,
								session->last_worker),
		.count = random_between(1, 9),
	};
	IdgenCursorRun run;

	if (idgen_cursor_issue(&incarnation->cursor, &world->layout, &demand,
						   &run) != IDGEN_CURSOR_ISSUED)
		return;
	CHECK(run.count <= demand.count);
	for (int64_t i = 0; i < run.count; i++)
		world_record(world, session, incarnation, run.tick, run.sequence + i);
}

static void
world_step(World *world)
{
	Incarnation *incarnation = world->incarnations +
		random_between(0, INCARNATIONS - 1);
	Session    *session = world->sessions + random_between(0, SESSIONS - 1);

	if (one_in(4))
		world->now = random_clock(world->now, world->tick_count);
	if (incarnation->number == 0 || one_in(40))
		world_activate(world, incarnation);
	else if (one_in(4))
		world_grant(world, incarnation);
	else
		world_issue(world, session, incarnation);
}

static void
test_many_workers(void)
{
	static World world;
	int64_t		issued_count = 0;
	int64_t		spilled_count = 0;

	random_restart(5);
	for (int round = 0; round < 1000 * round_factor && !unit_failed(); round++)
	{
		world_init(&world);
		for (int step = 0; step < 400 && !unit_failed(); step++)
		{
			world_step(&world);
			if (unit_failed())
				printf("# in round %d, step %d\n", round, step);
		}
		issued_count += world.issued_count;
		spilled_count += world.spilled_count;
	}
	CHECK(issued_count > 1000);
	CHECK(spilled_count > 100);
}

/* ---- one incarnation, two holders, lost answers ---- */

/* A row of the authority's records; the grant's id is its place, from 1. */
typedef struct Record
{
	int64_t		incarnation;	/* that of the holders is 1 */
	int64_t		request;		/* 0: of a taker, nobody repeats it */
	IdgenGrant	grant;
} Record;

/* What everybody but the authority knows of a request. */
typedef struct Request
{
	int64_t		after_grant;
	int			maker;
	bool		is_own;			/* made when there were two holders already */
	IdgenGrant	first_answer;	/* decided for it, even if that was lost */
} Request;

typedef struct Holder
{
	bool		is_alive;		/* exists, and was not rejected */
	int64_t		after_grant;
	int64_t		request;		/* sent and not answered; 0 if none */
} Holder;

typedef struct Chain
{
	int64_t		tick_count;
	int64_t		horizon;
	int64_t		now;
	int64_t		high_water;
	int64_t		record_count;
	Record		records[TICKS_MAX]; /* a grant has a tick at least */
	int64_t		owner[TICKS_MAX];	/* the grant that has it */
	int64_t		request_count;
	Request		requests[REQUESTS_MAX + 1];
	Holder		holders[2];
	bool		is_cloned;
	bool		is_taken;
	bool		is_ended;		/* forked */
	int64_t		continued[2];	/* grants for a holder's own requests */
} Chain;

typedef struct ChainTally
{
	int64_t		asked[IDGEN_CHAIN_TAKEN + 1];	/* by a holder */
	int64_t		late[IDGEN_CHAIN_TAKEN + 1];	/* by a copy of a message */
	int64_t		shared_count;	/* clones of a holder that waits */
	int64_t		continued_count;	/* rounds in which one of two goes on */
} ChainTally;

/* Decide and record a grant; false if none is possible now. */
static bool
chain_record(Chain *chain, int64_t incarnation, int64_t request)
{
	const IdgenGrantFacts facts = {
		.now = chain->now,
		.eligible = chain->now,
		.high_water = chain->high_water,
		.length = random_between(1, 3),
		.horizon = chain->horizon,
	};
	IdgenGrant	grant;
	int64_t		retry_at;

	if (idgen_grant_decide(&facts, chain->tick_count, &grant, &retry_at) !=
		IDGEN_GRANT_OK)
		return false;
	if (!CHECK(grant.start >= 0 && grant.start < grant.end &&
			   grant.end <= chain->tick_count))
		return false;
	chain->records[chain->record_count++] = (Record) {
		.incarnation = incarnation, .request = request, .grant = grant,
	};
	for (int64_t tick = grant.start; tick < grant.end; tick++)
	{
		CHECK_EQ(chain->owner[tick], 0);
		chain->owner[tick] = chain->record_count;
	}
	chain->high_water = grant.end;
	return true;
}

/* The holders' last grant: its id. */
static int64_t
chain_last(const Chain *chain)
{
	int64_t		id = chain->record_count;

	while (chain->records[id - 1].incarnation != 1)
		id--;
	return id;
}

/* What the authority finds in its records about a request. */
static IdgenChainFacts
chain_facts(const Chain *chain, int64_t request)
{
	const int64_t last = chain_last(chain);
	IdgenChainFacts facts = {
		.holds_worker = last == chain->record_count,
		.is_last_request = chain->records[last - 1].request == request,
		.after_grant = chain->requests[request].after_grant,
		.last_grant = last,
	};

	for (int64_t id = 1; id < last; id++)
		if (chain->records[id - 1].incarnation == 1 &&
			chain->records[id - 1].request == request)
			facts.is_recorded = true;
	/* to look for it among all grants is as good */
	if (facts.is_last_request && one_in(2))
		facts.is_recorded = true;
	return facts;
}

/* The authority's turn.  True if it answers with the last grant. */
static bool
chain_receive(Chain *chain, int64_t number, IdgenChainVerdict verdict)
{
	Request    *request = &chain->requests[number];
	const Record *last = &chain->records[chain_last(chain) - 1];

	CHECK_EQ(verdict == IDGEN_CHAIN_TAKEN, chain->is_taken);
	switch (verdict)
	{
		case IDGEN_CHAIN_NEXT:
			/* a request is decided once */
			CHECK_EQ(request->first_answer.end, 0);
			if (!chain_record(chain, 1, number))
				return false;
			request->first_answer =
				chain->records[chain->record_count - 1].grant;
			if (request->is_own)
				chain->continued[request->maker]++;
			CHECK(chain->continued[0] == 0 || chain->continued[1] == 0);
			return true;
		case IDGEN_CHAIN_REPEATED:
			CHECK_EQ(last->grant.start, request->first_answer.start);
			CHECK_EQ(last->grant.end, request->first_answer.end);
			return true;
		case IDGEN_CHAIN_STALE:
			/* it had its answer, and another grant followed */
			CHECK(request->first_answer.end > 0);
			CHECK(request->first_answer.end <= last->grant.start);
			return false;
		case IDGEN_CHAIN_FORKED:
			/* there are two, and the other one went on */
			CHECK(chain->is_cloned && request->is_own);
			CHECK(chain->requests[last->request].is_own);
			CHECK(chain->requests[last->request].maker != request->maker);
			chain->is_ended = true;
			return false;
		case IDGEN_CHAIN_TAKEN:
			return false;
	}
	return false;
}

/*
 * A holder asks, again if it is still waiting.  Messages get lost both ways.
 * A holder alone is only ever rejected because its worker was taken.
 */
static void
chain_ask(Chain *chain, int who, ChainTally *tally)
{
	Holder	   *holder = &chain->holders[who];
	IdgenChainFacts facts;
	IdgenChainVerdict verdict;
	bool		answered;

	if (holder->request == 0)
	{
		if (chain->request_count == REQUESTS_MAX)
			return;
		holder->request = ++chain->request_count;
		chain->requests[holder->request] = (Request) {
			.after_grant = holder->after_grant, .maker = who,
			.is_own = chain->is_cloned,
		};
	}
	if (one_in(4))
		return;
	facts = chain_facts(chain, holder->request);
	verdict = idgen_chain_judge(&facts);
	tally->asked[verdict]++;
	if (!chain->is_cloned)
		CHECK(verdict != IDGEN_CHAIN_STALE && verdict != IDGEN_CHAIN_FORKED);
	answered = chain_receive(chain, holder->request, verdict);
	if (one_in(3))
		return;
	if (answered)
	{
		holder->after_grant = chain_last(chain);
		holder->request = 0;
	}
	else if (verdict != IDGEN_CHAIN_NEXT)
		holder->is_alive = false;
}

/* A copy of any message arrives late; nobody waits for the answer. */
static void
chain_late(Chain *chain, ChainTally *tally)
{
	const int64_t request = random_between(1, chain->request_count);
	const IdgenChainFacts facts = chain_facts(chain, request);
	const IdgenChainVerdict verdict = idgen_chain_judge(&facts);

	tally->late[verdict]++;
	(void) chain_receive(chain, request, verdict);
}

static void
chain_step(Chain *chain, ChainTally *tally)
{
	const int	who = chain->is_cloned ? (int) random_between(0, 1) : 0;

	if (one_in(3))
		chain->now = min_of(chain->now + random_between(-1, 3),
							chain->tick_count);
	if (!chain->is_cloned && one_in(12))
	{
		chain->holders[1] = chain->holders[0];
		chain->is_cloned = true;
		if (chain->holders[0].request != 0)
			tally->shared_count++;
	}
	else if (chain->high_water <= chain->now && one_in(12))
		chain->is_taken |= chain_record(chain,
										2 + chain->record_count, 0);
	else if (one_in(6))
		chain_late(chain, tally);
	else if (chain->holders[who].is_alive)
		chain_ask(chain, who, tally);
}

static void
chain_init(Chain *chain)
{
	memset(chain, 0, sizeof(*chain));
	chain->tick_count = TICKS_MAX;
	chain->horizon = random_between(2, 10);
	chain->request_count = 1;
	(void) chain_record(chain, 1, 1);
	chain->requests[1] = (Request) {.first_answer = chain->records[0].grant};
	chain->holders[0] = (Holder) {.is_alive = true, .after_grant = 1};
}

static void
test_chain_model(void)
{
	static Chain chain;
	ChainTally	tally = {0};

	random_restart(8);
	for (int round = 0; round < 4000 * round_factor && !unit_failed(); round++)
	{
		chain_init(&chain);
		for (int step = 0; step < 120 && !chain.is_ended && !unit_failed();
			 step++)
		{
			chain_step(&chain, &tally);
			if (unit_failed())
				printf("# in round %d, step %d\n", round, step);
		}
		if (chain.continued[0] + chain.continued[1] > 1)
			tally.continued_count++;
	}

	/* every verdict on a holder and on a late copy, or this showed nothing */
	if (unit_failed())
		return;
	for (size_t i = 0; i < UNIT_COUNT(tally.asked); i++)
	{
		CHECK(tally.asked[i] > 100);
		CHECK(tally.late[i] > 10);
	}
	CHECK(tally.shared_count > 100);
	CHECK(tally.continued_count > 100);
}

static const UnitTest tests[] = {
	{"one cursor, any operations, against a set of ticks", test_cursor_model},
	{"every tuple of tiny formats, and every time", test_layout_model},
	{"any format: round trip, and order of IDs is order of tuples",
	test_layout_order},
	{"the interval rule against stepping", test_grant_model},
	{"replenished when due, a cursor never runs dry", test_due_model},
	{"a lost copy never grants past the fence, and can grant up to it",
	test_fence_model},
	{"many incarnations: grants disjoint, IDs unique, sessions rise",
	test_many_workers},
	{"two holders of one incarnation: a retry gets its grant, one goes on",
	test_chain_model},
};

int
main(void)
{
	const char *seed_text = getenv("SEED");
	const char *rounds_text = getenv("ROUNDS");

	seed = seed_text != NULL ? strtoull(seed_text, NULL, 0)
		: (uint64_t) time(NULL);
	if (rounds_text != NULL && atoi(rounds_text) > 1)
		round_factor = atoi(rounds_text);
	printf("# SEED=%" PRIu64 "\n", seed);
	return unit_main(tests, UNIT_COUNT(tests));
}
