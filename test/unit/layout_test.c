/*
 * layout_test.c
 *		Formats, encoding, decoding, and the way between times and ticks.
 */
#include <string.h>

#include "layout.h"
#include "unit.h"

#define UNTOUCHED	INT64_C(-77)

/* 2025-01-01 00:00:00 UTC, the default epoch. */
#define EPOCH_2025_MS	INT64_C(1735689600000)

/* The format of the worked examples: 12 | 3 | 4 bits. */
static const IdgenLayout worked = {
	.timestamp_bits = 12,
	.worker_bits = 3,
	.sequence_bits = 4,
	.epoch_ms = 0,
	.tick_ms = 1,
	.horizon_ms = 1000,
};

/* The format of the namespace "default": 41 | 10 | 12 bits. */
static const IdgenLayout standard = {
	.timestamp_bits = 41,
	.worker_bits = 10,
	.sequence_bits = 12,
	.epoch_ms = EPOCH_2025_MS,
	.tick_ms = 1,
	.horizon_ms = 10000,
};

static IdgenLayout
with_widths(int timestamp_bits, int worker_bits, int sequence_bits)
{
	IdgenLayout layout = standard;

	layout.timestamp_bits = timestamp_bits;
	layout.worker_bits = worker_bits;
	layout.sequence_bits = sequence_bits;
	layout.horizon_ms = 1;
	return layout;
}

static IdgenLayout
with_tick(int64_t tick_ms)
{
	IdgenLayout layout = worked;

	layout.tick_ms = tick_ms;
	layout.horizon_ms = tick_ms;
	return layout;
}

/* The ID, or UNTOUCHED if the parts are refused. */
static int64_t
encoded(const IdgenLayout *layout, int64_t tick, int64_t worker,
		int64_t sequence)
{
	int64_t		id = UNTOUCHED;

	(void) idgen_layout_encode(layout, tick, worker, sequence, &id);
	return id;
}

static IdgenLayoutFit
encode_fit(const IdgenLayout *layout, int64_t tick, int64_t worker,
		   int64_t sequence)
{
	int64_t		id = UNTOUCHED;
	IdgenLayoutFit fit = idgen_layout_encode(layout, tick, worker, sequence, &id);

	CHECK((fit == IDGEN_FIT_OK) == (id != UNTOUCHED));
	return fit;
}

/* A refused ID must also leave the outputs alone. */
static IdgenLayoutFit
decode_fit(const IdgenLayout *layout, int64_t id)
{
	int64_t		tick = UNTOUCHED;
	int64_t		worker = UNTOUCHED;
	int64_t		sequence = UNTOUCHED;
	IdgenLayoutFit fit = idgen_layout_decode(layout, id, &tick, &worker,
											 &sequence);

	CHECK((fit == IDGEN_FIT_OK) == (tick != UNTOUCHED));
	CHECK((fit == IDGEN_FIT_OK) == (worker != UNTOUCHED));
	CHECK((fit == IDGEN_FIT_OK) == (sequence != UNTOUCHED));
	return fit;
}

static void
check_round_trip(const IdgenLayout *layout, int64_t tick, int64_t worker,
				 int64_t sequence)
{
	int64_t		id = encoded(layout, tick, worker, sequence);
	int64_t		out_tick = UNTOUCHED;
	int64_t		out_worker = UNTOUCHED;
	int64_t		out_sequence = UNTOUCHED;

	CHECK(id > 0);
	CHECK_EQ(idgen_layout_decode(layout, id, &out_tick, &out_worker,
								 &out_sequence), IDGEN_FIT_OK);
	CHECK_EQ(out_tick, tick);
	CHECK_EQ(out_worker, worker);
	CHECK_EQ(out_sequence, sequence);
}

static void
test_worked_encode(void)
{
	CHECK_EQ(encoded(&worked, 160, 1, 1), 20497);
	CHECK_EQ(encoded(&worked, 160, 1, 2), 20498);
	CHECK_EQ(encoded(&worked, 161, 1, 0), 20624);
	CHECK_EQ(encoded(&worked, 4095, 7, 15), (1 << 19) - 1);
	CHECK_EQ(encoded(&worked, 0, 0, 1), 1);
	CHECK_EQ(encoded(&worked, 0, 1, 0), 16);
	CHECK_EQ(encoded(&worked, 1, 0, 0), 128);
	CHECK_EQ(idgen_layout_tick_count(&worked), 4096);
	CHECK_EQ(idgen_layout_worker_count(&worked), 8);
	CHECK_EQ(idgen_layout_sequence_count(&worked), 16);
}

static void
test_worked_decode(void)
{
	check_round_trip(&worked, 160, 1, 1);
	check_round_trip(&worked, 160, 1, 2);
	check_round_trip(&worked, 161, 1, 0);
	CHECK_EQ(decode_fit(&worked, 20497), IDGEN_FIT_OK);
}

/* Every field at its edge beside every neighbour at its edge. */
static void
test_no_spill(void)
{
	const IdgenLayout layouts[] = {worked, standard, with_widths(1, 31, 31),
		with_widths(63, 0, 0), with_widths(32, 31, 0), with_widths(32, 0, 31)};

	for (size_t i = 0; i < UNIT_COUNT(layouts); i++)
	{
		const IdgenLayout *layout = &layouts[i];
		const int64_t tick_max = idgen_layout_tick_count(layout) - 1;
		const int64_t worker_max = idgen_layout_worker_count(layout) - 1;
		const int64_t sequence_max = idgen_layout_sequence_count(layout) - 1;

		for (int edge = 1; edge < 8; edge++)
		{
			int64_t		tick = edge & 4 ? tick_max : 0;
			int64_t		worker = edge & 2 ? worker_max : 0;
			int64_t		sequence = edge & 1 ? sequence_max : 0;

			/* a field without bits has nothing but 0 */
			if (tick > 0 || worker > 0 || sequence > 0)
				check_round_trip(layout, tick, worker, sequence);
		}
		CHECK_EQ(encode_fit(layout, tick_max, worker_max, sequence_max + 1),
				 IDGEN_FIT_SEQUENCE);
		CHECK_EQ(encode_fit(layout, tick_max, worker_max + 1, sequence_max),
				 IDGEN_FIT_WORKER);
		CHECK_EQ(encode_fit(layout, tick_max + 1, worker_max, sequence_max),
				 IDGEN_FIT_TICK);
	}
}

static void
test_encode_refuses(void)
{
	CHECK_EQ(encode_fit(&worked, 160, 8, 0), IDGEN_FIT_WORKER);
	CHECK_EQ(encode_fit(&worked, 160, -1, 0), IDGEN_FIT_WORKER);
	CHECK_EQ(encode_fit(&worked, 160, INT64_MAX, 0), IDGEN_FIT_WORKER);
	CHECK_EQ(encode_fit(&worked, 160, INT64_MIN, 0), IDGEN_FIT_WORKER);
	CHECK_EQ(encode_fit(&worked, 160, 1, 16), IDGEN_FIT_SEQUENCE);
	CHECK_EQ(encode_fit(&worked, 160, 1, -1), IDGEN_FIT_SEQUENCE);
	CHECK_EQ(encode_fit(&worked, 160, 1, INT64_MIN), IDGEN_FIT_SEQUENCE);
	CHECK_EQ(encode_fit(&worked, 4096, 1, 0), IDGEN_FIT_TICK);
	CHECK_EQ(encode_fit(&worked, -1, 1, 0), IDGEN_FIT_TICK);
	CHECK_EQ(encode_fit(&worked, INT64_MAX, 1, 0), IDGEN_FIT_TICK);
	CHECK_EQ(encode_fit(&worked, INT64_MIN, 1, 0), IDGEN_FIT_TICK);
}

/* 2^bits is refused and 2^bits - 1 fits, for every width of each field. */
static void
test_encode_every_width(void)
{
	for (int bits = 0; bits <= 31; bits++)
	{
		const IdgenLayout workers = with_widths(32, bits, 0);
		const IdgenLayout sequences = with_widths(32, 0, bits);

		CHECK_EQ(encode_fit(&workers, 1, (INT64_C(1) << bits) - 1, 0),
				 IDGEN_FIT_OK);
		CHECK_EQ(encode_fit(&workers, 1, INT64_C(1) << bits, 0),
				 IDGEN_FIT_WORKER);
		CHECK_EQ(encode_fit(&sequences, 1, 0, (INT64_C(1) << bits) - 1),
				 IDGEN_FIT_OK);
		CHECK_EQ(encode_fit(&sequences, 1, 0, INT64_C(1) << bits),
				 IDGEN_FIT_SEQUENCE);
	}
	for (int bits = 1; bits < 63; bits++)
	{
		const IdgenLayout layout = with_widths(bits, 0, 0);

		CHECK_EQ(encode_fit(&layout, (INT64_C(1) << bits) - 1, 0, 0),
				 IDGEN_FIT_OK);
		CHECK_EQ(encode_fit(&layout, INT64_C(1) << bits, 0, 0), IDGEN_FIT_TICK);
	}
}

static void
test_zero_tuple(void)
{
	const IdgenLayout layouts[] = {worked, standard, with_widths(63, 0, 0)};

	for (size_t i = 0; i < UNIT_COUNT(layouts); i++)
	{
		CHECK_EQ(encode_fit(&layouts[i], 0, 0, 0), IDGEN_FIT_ZERO);
		CHECK_EQ(decode_fit(&layouts[i], 0), IDGEN_FIT_ZERO);
		CHECK_EQ(encode_fit(&layouts[i], 1, 0, 0), IDGEN_FIT_OK);
	}
}

static void
test_decode_refuses(void)
{
	CHECK_EQ(decode_fit(&worked, -1), IDGEN_FIT_ID);
	CHECK_EQ(decode_fit(&worked, INT64_MIN), IDGEN_FIT_ID);
	CHECK_EQ(decode_fit(&worked, 1), IDGEN_FIT_OK);
	CHECK_EQ(decode_fit(&worked, (1 << 19) - 1), IDGEN_FIT_OK);
	CHECK_EQ(decode_fit(&worked, 1 << 19), IDGEN_FIT_ID);
	CHECK_EQ(decode_fit(&worked, INT64_MAX), IDGEN_FIT_ID);
	CHECK_EQ(decode_fit(&standard, -1), IDGEN_FIT_ID);
}

static void
test_decode_largest(void)
{
	check_round_trip(&standard, (INT64_C(1) << 41) - 1, 1023, 4095);
	CHECK_EQ(encoded(&standard, (INT64_C(1) << 41) - 1, 1023, 4095), INT64_MAX);
	CHECK_EQ(decode_fit(&standard, INT64_MAX), IDGEN_FIT_OK);
}

/* Tick 2^63 - 1 is given up, so that a half-open end always fits. */
static void
test_timestamp_63_bits(void)
{
	const IdgenLayout layout = with_widths(63, 0, 0);

	CHECK_EQ(idgen_layout_tick_count(&layout), INT64_MAX);
	check_round_trip(&layout, INT64_MAX - 1, 0, 0);
	CHECK_EQ(encoded(&layout, INT64_MAX - 1, 0, 0), INT64_MAX - 1);
	CHECK_EQ(encode_fit(&layout, INT64_MAX, 0, 0), IDGEN_FIT_TICK);
	CHECK_EQ(decode_fit(&layout, INT64_MAX), IDGEN_FIT_ID);
	CHECK_EQ(idgen_layout_worker_count(&layout), 1);
	CHECK_EQ(idgen_layout_sequence_count(&layout), 1);
}

static IdgenLayoutCheck
validate_widths(int timestamp_bits, int worker_bits, int sequence_bits)
{
	const IdgenLayout layout = with_widths(timestamp_bits, worker_bits,
										   sequence_bits);

	return idgen_layout_validate(&layout);
}

static void
test_validate_widths(void)
{
	CHECK_EQ(idgen_layout_validate(&worked), IDGEN_LAYOUT_OK);
	CHECK_EQ(idgen_layout_validate(&standard), IDGEN_LAYOUT_OK);

	CHECK_EQ(validate_widths(-1, 0, 0), IDGEN_LAYOUT_BAD_TIMESTAMP_BITS);
	CHECK_EQ(validate_widths(0, 0, 0), IDGEN_LAYOUT_BAD_TIMESTAMP_BITS);
	CHECK_EQ(validate_widths(1, 0, 0), IDGEN_LAYOUT_OK);
	CHECK_EQ(validate_widths(63, 0, 0), IDGEN_LAYOUT_OK);
	CHECK_EQ(validate_widths(64, 0, 0), IDGEN_LAYOUT_BAD_TIMESTAMP_BITS);
	CHECK_EQ(validate_widths(INT32_MAX, 0, 0), IDGEN_LAYOUT_BAD_TIMESTAMP_BITS);

	CHECK_EQ(validate_widths(20, -1, 0), IDGEN_LAYOUT_BAD_WORKER_BITS);
	CHECK_EQ(validate_widths(20, 0, 0), IDGEN_LAYOUT_OK);
	CHECK_EQ(validate_widths(20, 31, 0), IDGEN_LAYOUT_OK);
	CHECK_EQ(validate_widths(20, 32, 0), IDGEN_LAYOUT_BAD_WORKER_BITS);

	CHECK_EQ(validate_widths(20, 0, -1), IDGEN_LAYOUT_BAD_SEQUENCE_BITS);
	CHECK_EQ(validate_widths(20, 0, 31), IDGEN_LAYOUT_OK);
	CHECK_EQ(validate_widths(20, 0, 32), IDGEN_LAYOUT_BAD_SEQUENCE_BITS);
}

static void
test_validate_sum(void)
{
	CHECK_EQ(validate_widths(41, 10, 12), IDGEN_LAYOUT_OK);
	CHECK_EQ(validate_widths(42, 10, 12), IDGEN_LAYOUT_BAD_SUM);
	CHECK_EQ(validate_widths(41, 11, 12), IDGEN_LAYOUT_BAD_SUM);
	CHECK_EQ(validate_widths(41, 10, 13), IDGEN_LAYOUT_BAD_SUM);
	CHECK_EQ(validate_widths(1, 31, 31), IDGEN_LAYOUT_OK);
	CHECK_EQ(validate_widths(2, 31, 31), IDGEN_LAYOUT_BAD_SUM);
	CHECK_EQ(validate_widths(63, 1, 0), IDGEN_LAYOUT_BAD_SUM);
	CHECK_EQ(validate_widths(63, 0, 1), IDGEN_LAYOUT_BAD_SUM);
}

static IdgenLayoutCheck
validate_times(int64_t epoch_ms, int64_t tick_ms, int64_t horizon_ms)
{
	IdgenLayout layout = standard;

	layout.epoch_ms = epoch_ms;
	layout.tick_ms = tick_ms;
	layout.horizon_ms = horizon_ms;
	return idgen_layout_validate(&layout);
}

static void
test_validate_times(void)
{
	CHECK_EQ(validate_times(IDGEN_UNIX_MS_MAX, 1, 1), IDGEN_LAYOUT_OK);
	CHECK_EQ(validate_times(-IDGEN_UNIX_MS_MAX, 1, 1), IDGEN_LAYOUT_OK);
	CHECK_EQ(validate_times(IDGEN_UNIX_MS_MAX + 1, 1, 1),
			 IDGEN_LAYOUT_BAD_EPOCH);
	CHECK_EQ(validate_times(-IDGEN_UNIX_MS_MAX - 1, 1, 1),
			 IDGEN_LAYOUT_BAD_EPOCH);
	CHECK_EQ(validate_times(INT64_MIN, 1, 1), IDGEN_LAYOUT_BAD_EPOCH);
	CHECK_EQ(validate_times(INT64_MAX, 1, 1), IDGEN_LAYOUT_BAD_EPOCH);

	CHECK_EQ(validate_times(0, 0, 1), IDGEN_LAYOUT_BAD_TICK);
	CHECK_EQ(validate_times(0, -1, 1), IDGEN_LAYOUT_BAD_TICK);
	CHECK_EQ(validate_times(0, 3600000, 3600000), IDGEN_LAYOUT_OK);
	CHECK_EQ(validate_times(0, 3600001, 3600001), IDGEN_LAYOUT_BAD_TICK);
	CHECK_EQ(validate_times(0, INT64_MIN, 1), IDGEN_LAYOUT_BAD_TICK);

	CHECK_EQ(validate_times(0, 1, 0), IDGEN_LAYOUT_BAD_HORIZON);
	CHECK_EQ(validate_times(0, 1, -1), IDGEN_LAYOUT_BAD_HORIZON);
	CHECK_EQ(validate_times(0, 1000, 999), IDGEN_LAYOUT_BAD_HORIZON);
	CHECK_EQ(validate_times(0, 1000, 1000), IDGEN_LAYOUT_OK);
	CHECK_EQ(validate_times(0, 1, 3600000), IDGEN_LAYOUT_OK);
	CHECK_EQ(validate_times(0, 1, 3600001), IDGEN_LAYOUT_BAD_HORIZON);
}

static void
test_validate_short_field(void)
{
	IdgenLayout layout = with_widths(3, 0, 0);

	layout.horizon_ms = 8;
	CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_OK);
	layout.horizon_ms = 9;
	CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_SHORT_FIELD);

	/* a horizon counts in ticks begun */
	layout.tick_ms = 10;
	layout.horizon_ms = 80;
	CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_OK);
	layout.horizon_ms = 81;
	CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_SHORT_FIELD);
}

/* Every other fault of a format whose field is too short is named instead. */
static void
test_validate_short_field_last(void)
{
	IdgenLayout layout;
	const IdgenLayout layout_short = {.timestamp_bits = 1, .worker_bits = 31, .sequence_bits = 31,
	.epoch_ms = 0, .tick_ms = 1, .horizon_ms = IDGEN_HORIZON_MS_MAX};

	CHECK_EQ(idgen_layout_validate(&layout_short), IDGEN_LAYOUT_SHORT_FIELD);
	layout = layout_short;
	layout.timestamp_bits = 0;
	CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_BAD_TIMESTAMP_BITS);
	layout = layout_short;
	layout.worker_bits = 32;
	CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_BAD_WORKER_BITS);
	layout = layout_short;
	layout.sequence_bits = 32;
	CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_BAD_SEQUENCE_BITS);
	layout = layout_short;
	layout.timestamp_bits = 2;
	CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_BAD_SUM);
	layout = layout_short;
	layout.epoch_ms = IDGEN_UNIX_MS_MAX + 1;
	CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_BAD_EPOCH);
	layout = layout_short;
	layout.tick_ms = -1;
	CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_BAD_TICK);
	layout = layout_short;
	layout.tick_ms = 0;
	CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_BAD_TICK);
	layout = layout_short;
	layout.horizon_ms = IDGEN_HORIZON_MS_MAX + 1;
	CHECK_EQ(idgen_layout_validate(&layout), IDGEN_LAYOUT_BAD_HORIZON);
}

static void
test_tick_at(void)
{
	IdgenLayout layout = with_tick(1000);

	CHECK_EQ(idgen_layout_tick_at(&worked, 160), 160);
	CHECK_EQ(idgen_layout_tick_at(&worked, -1), -1);
	CHECK_EQ(idgen_layout_tick_at(&standard, EPOCH_2025_MS), 0);
	CHECK_EQ(idgen_layout_tick_at(&standard, EPOCH_2025_MS - 1), -1);

	CHECK_EQ(idgen_layout_tick_at(&layout, 0), 0);
	CHECK_EQ(idgen_layout_tick_at(&layout, 999), 0);
	CHECK_EQ(idgen_layout_tick_at(&layout, 1000), 1);

	/* floor, not truncation: nothing before the epoch is in tick 0 */
	CHECK_EQ(idgen_layout_tick_at(&layout, -1), -1);
	CHECK_EQ(idgen_layout_tick_at(&layout, -1000), -1);
	CHECK_EQ(idgen_layout_tick_at(&layout, -1001), -2);
	layout.epoch_ms = 500;
	CHECK_EQ(idgen_layout_tick_at(&layout, 499), -1);
	CHECK_EQ(idgen_layout_tick_at(&layout, 500), 0);
	CHECK_EQ(idgen_layout_tick_at(&layout, 1499), 0);
	CHECK_EQ(idgen_layout_tick_at(&layout, 1500), 1);
}

static void
test_tick_at_limits(void)
{
	IdgenLayout layout = standard;

	layout.epoch_ms = -IDGEN_UNIX_MS_MAX;
	CHECK_EQ(idgen_layout_tick_at(&layout, IDGEN_UNIX_MS_MAX),
			 2 * IDGEN_UNIX_MS_MAX);
	layout.epoch_ms = IDGEN_UNIX_MS_MAX;
	CHECK_EQ(idgen_layout_tick_at(&layout, -IDGEN_UNIX_MS_MAX),
			 -2 * IDGEN_UNIX_MS_MAX);
	layout.tick_ms = 60000;
	CHECK_EQ(idgen_layout_tick_at(&layout, -IDGEN_UNIX_MS_MAX),
			 -(2 * IDGEN_UNIX_MS_MAX / 60000) - 1);
}

static void
test_unix_ms(void)
{
	const IdgenLayout layout = with_tick(60000);
	const IdgenLayout wide = with_widths(63, 0, 0);
	int64_t		unix_ms = UNTOUCHED;

	CHECK(idgen_layout_unix_ms(&standard, 0, &unix_ms));
	CHECK_EQ(unix_ms, EPOCH_2025_MS);
	CHECK(idgen_layout_unix_ms(&layout, 7, &unix_ms));
	CHECK_EQ(unix_ms, 420000);
	CHECK_EQ(idgen_layout_tick_at(&layout, 420000), 7);
	CHECK(idgen_layout_unix_ms(&wide, IDGEN_UNIX_MS_MAX, &unix_ms));
	CHECK_EQ(unix_ms, EPOCH_2025_MS + IDGEN_UNIX_MS_MAX);

	unix_ms = UNTOUCHED;
	CHECK(!idgen_layout_unix_ms(&wide, IDGEN_UNIX_MS_MAX + 1, &unix_ms));
	CHECK(!idgen_layout_unix_ms(&wide, INT64_MAX - 1, &unix_ms));
	CHECK(!idgen_layout_unix_ms(&layout, IDGEN_UNIX_MS_MAX / 60000 + 1,
								&unix_ms));
	CHECK_EQ(unix_ms, UNTOUCHED);
}

static void
test_ticks_ceil(void)
{
	const IdgenLayout layout = with_tick(1000);

	CHECK_EQ(idgen_layout_ticks_ceil(&worked, 1), 1);
	CHECK_EQ(idgen_layout_ticks_ceil(&worked, 1000), 1000);
	CHECK_EQ(idgen_layout_ticks_ceil(&layout, 1), 1);
	CHECK_EQ(idgen_layout_ticks_ceil(&layout, 1000), 1);
	CHECK_EQ(idgen_layout_ticks_ceil(&layout, 1001), 2);
	CHECK_EQ(idgen_layout_ticks_ceil(&layout, 0), 1);
	CHECK_EQ(idgen_layout_ticks_ceil(&layout, -5000), 1);
	CHECK_EQ(idgen_layout_ticks_ceil(&layout, INT64_MAX),
			 INT64_MAX / 1000 + 1);
}

/* Every part of a format tells two formats apart. */
static void
test_same(void)
{
	IdgenLayout other = standard;

	CHECK(idgen_layout_same(&standard, &other));
	other.timestamp_bits++;
	CHECK(!idgen_layout_same(&standard, &other));
	other = standard;
	other.worker_bits++;
	CHECK(!idgen_layout_same(&standard, &other));
	other = standard;
	other.sequence_bits++;
	CHECK(!idgen_layout_same(&standard, &other));
	other = standard;
	other.epoch_ms++;
	CHECK(!idgen_layout_same(&standard, &other));
	other = standard;
	other.tick_ms++;
	CHECK(!idgen_layout_same(&standard, &other));
	other = standard;
	other.horizon_ms++;
	CHECK(!idgen_layout_same(&standard, &other));
}

static void
test_lower_bound(void)
{
	const IdgenLayout layout = with_tick(1000);

	CHECK_EQ(idgen_layout_lower_bound_ms(&worked, 160), 160 << 7);
	CHECK_EQ(idgen_layout_lower_bound_ms(&worked, 1), 1 << 7);
	CHECK_EQ(idgen_layout_lower_bound_ms(&worked, 0), 0);
	CHECK_EQ(idgen_layout_lower_bound_ms(&worked, -1), 0);
	CHECK_EQ(idgen_layout_lower_bound_ms(&standard, EPOCH_2025_MS - 1), 0);
	CHECK_EQ(idgen_layout_lower_bound_ms(&standard, EPOCH_2025_MS), 0);
	CHECK_EQ(idgen_layout_lower_bound_ms(&standard, EPOCH_2025_MS + 1), 1 << 22);

	/* in the middle of a tick */
	CHECK_EQ(idgen_layout_lower_bound_ms(&layout, 5000), 5 << 7);
	CHECK_EQ(idgen_layout_lower_bound_ms(&layout, 5001), 6 << 7);
	CHECK_EQ(idgen_layout_lower_bound_ms(&layout, 6000), 6 << 7);
	CHECK_EQ(idgen_layout_lower_bound_ms(&layout, -1), 0);
	CHECK_EQ(idgen_layout_lower_bound_ms(&layout, -5001), 0);
}

/* The ends of the times it accepts, beside the ends of the epochs. */
static void
test_lower_bound_limits(void)
{
	IdgenLayout layout = worked;

	/* the end of the field */
	CHECK_EQ(idgen_layout_lower_bound_ms(&worked, 4095), 4095 << 7);
	CHECK_EQ(idgen_layout_lower_bound_ms(&worked, 4096), INT64_MAX);
	CHECK_EQ(idgen_layout_lower_bound_ms(&worked, IDGEN_UNIX_MS_MAX), INT64_MAX);
	CHECK_EQ(idgen_layout_lower_bound_ms(&worked, -IDGEN_UNIX_MS_MAX), 0);

	layout.epoch_ms = IDGEN_UNIX_MS_MAX;
	CHECK_EQ(idgen_layout_lower_bound_ms(&layout, IDGEN_UNIX_MS_MAX), 0);
	CHECK_EQ(idgen_layout_lower_bound_ms(&layout, -IDGEN_UNIX_MS_MAX), 0);
	layout.epoch_ms = -IDGEN_UNIX_MS_MAX;
	CHECK_EQ(idgen_layout_lower_bound_ms(&layout, -IDGEN_UNIX_MS_MAX), 0);
	CHECK_EQ(idgen_layout_lower_bound_ms(&layout, -IDGEN_UNIX_MS_MAX + 1),
			 1 << 7);
	CHECK_EQ(idgen_layout_lower_bound_ms(&layout, IDGEN_UNIX_MS_MAX), INT64_MAX);

	/* the longest way, 2^61 ms: past 61 bits, within 62 and 63 */
	for (int bits = 61; bits <= 63; bits++)
	{
		layout = with_widths(bits, 0, 0);
		layout.epoch_ms = -IDGEN_UNIX_MS_MAX;
		CHECK_EQ(idgen_layout_lower_bound_ms(&layout, IDGEN_UNIX_MS_MAX),
				 bits == 61 ? INT64_MAX : 2 * IDGEN_UNIX_MS_MAX);
		CHECK_EQ(idgen_layout_lower_bound_ms(&layout, IDGEN_UNIX_MS_MAX - 1),
				 2 * IDGEN_UNIX_MS_MAX - 1);
	}
	layout = with_widths(62, 0, 1);
	layout.epoch_ms = -IDGEN_UNIX_MS_MAX;
	CHECK_EQ(idgen_layout_lower_bound_ms(&layout, IDGEN_UNIX_MS_MAX),
			 4 * IDGEN_UNIX_MS_MAX);
	layout.tick_ms = IDGEN_TICK_MS_MAX;
	CHECK_EQ(idgen_layout_lower_bound_ms(&layout, IDGEN_UNIX_MS_MAX),
			 2 * (2 * IDGEN_UNIX_MS_MAX / IDGEN_TICK_MS_MAX + 1));
}

static void
test_life(void)
{
	IdgenLayout layout = with_tick(1000);

	layout.epoch_ms = 5000;
	CHECK_EQ(idgen_layout_life(&layout, 4999), IDGEN_LIFE_NOT_BEGUN);
	CHECK_EQ(idgen_layout_life(&layout, -IDGEN_UNIX_MS_MAX),
			 IDGEN_LIFE_NOT_BEGUN);
	CHECK_EQ(idgen_layout_life(&layout, 5000), IDGEN_LIFE_RUNNING);
	CHECK_EQ(idgen_layout_life(&layout, 5000 + 4096000 - 1),
			 IDGEN_LIFE_RUNNING);
	CHECK_EQ(idgen_layout_life(&layout, 5000 + 4096000), IDGEN_LIFE_OVER);
	CHECK_EQ(idgen_layout_life(&layout, IDGEN_UNIX_MS_MAX), IDGEN_LIFE_OVER);
}

/* The number, or UNTOUCHED if the text is refused. */
static int64_t
parsed(const char *text, size_t length, IdgenLayoutText expected)
{
	int64_t		number = UNTOUCHED;

	CHECK_EQ(idgen_layout_parse(text, length, &number), expected);
	return number;
}

static void
test_parse(void)
{
	static const struct
	{
		const char *text;
		IdgenLayoutText verdict;
		int64_t		number;
	}			cases[] = {
		{"0", IDGEN_TEXT_OK, 0},
		{"20497", IDGEN_TEXT_OK, 20497},
		{"9876543210", IDGEN_TEXT_OK, INT64_C(9876543210)},
		{"9223372036854775807", IDGEN_TEXT_OK, INT64_MAX},
		{"000000000000000000000000000000009223372036854775807", IDGEN_TEXT_OK, INT64_MAX},
		{"9223372036854775808", IDGEN_TEXT_TOO_WIDE, UNTOUCHED},
		{"9223372036854775810", IDGEN_TEXT_TOO_WIDE, UNTOUCHED},
		{"92233720368547758070", IDGEN_TEXT_TOO_WIDE, UNTOUCHED},
		{"18446744073709551617", IDGEN_TEXT_TOO_WIDE, UNTOUCHED},
		{"99999999999999999999999999999999999999999", IDGEN_TEXT_TOO_WIDE, UNTOUCHED},
		{"", IDGEN_TEXT_NOT_DIGITS, UNTOUCHED},
		{"-1", IDGEN_TEXT_NOT_DIGITS, UNTOUCHED},
		{"+1", IDGEN_TEXT_NOT_DIGITS, UNTOUCHED},
		{" 1", IDGEN_TEXT_NOT_DIGITS, UNTOUCHED},
		{"1 ", IDGEN_TEXT_NOT_DIGITS, UNTOUCHED},
		{"1/", IDGEN_TEXT_NOT_DIGITS, UNTOUCHED},
		{"1:", IDGEN_TEXT_NOT_DIGITS, UNTOUCHED},
		{"0x1F", IDGEN_TEXT_NOT_DIGITS, UNTOUCHED},
		{"1e3", IDGEN_TEXT_NOT_DIGITS, UNTOUCHED},
		{"\xc2\xb2", IDGEN_TEXT_NOT_DIGITS, UNTOUCHED},
		{"99999999999999999999x", IDGEN_TEXT_NOT_DIGITS, UNTOUCHED},
	};

	for (size_t i = 0; i < UNIT_COUNT(cases); i++)
		CHECK_EQ(parsed(cases[i].text, strlen(cases[i].text), cases[i].verdict),
				 cases[i].number);
	/* only so much of it is read */
	CHECK_EQ(parsed("12x", 2, IDGEN_TEXT_OK), 12);
	CHECK_EQ(parsed("1\0" "2", 3, IDGEN_TEXT_NOT_DIGITS), UNTOUCHED);
}

static const UnitTest tests[] = {
	{"the worked format encodes as written", test_worked_encode},
	{"the worked format decodes as written", test_worked_decode},
	{"a field at its edge does not spill into its neighbour", test_no_spill},
	{"encode refuses -1, 2^n and the far ends", test_encode_refuses},
	{"encode fits 2^n - 1 and refuses 2^n at every width",
	test_encode_every_width},
	{"the tuple (0,0,0) is neither encoded nor decoded", test_zero_tuple},
	{"decode refuses negative, zero and too wide", test_decode_refuses},
	{"decode takes 2^63 - 1 in a format of 63 bits", test_decode_largest},
	{"a timestamp of 63 bits gives up its last tick", test_timestamp_63_bits},
	{"a text is digits and nothing else, of 63 bits at most", test_parse},
	{"validate: each width at its limits", test_validate_widths},
	{"validate: widths sum to 63, not to 64", test_validate_sum},
	{"validate: epoch, tick and horizon at their limits", test_validate_times},
	{"validate: a field shorter than the horizon", test_validate_short_field},
	{"validate: a short field is named last", test_validate_short_field_last},
	{"tick of a time is a floor, also before the epoch", test_tick_at},
	{"tick of a time at the ends of time", test_tick_at_limits},
	{"time of a tick, and too far to tell", test_unix_ms},
	{"a length rounds up to at least one tick", test_ticks_ceil},
	{"two formats are the same only if every part is", test_same},
	{"lower bound at the epoch, before and after it, and within a tick",
	test_lower_bound},
	{"lower bound never wraps at the ends of time", test_lower_bound_limits},
	{"a field has not begun, runs, is over", test_life},
};

int
main(void)
{
	return unit_main(tests, UNIT_COUNT(tests));
}
