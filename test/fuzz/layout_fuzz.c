/*
 * layout_fuzz.c
 *		The input is a format, good or bad, and numbers to use it on.
 *
 * The oracle counts in 128 bits, where nothing here can overflow, and multiplies
 * and divides where the code shifts.
 */
#include "fuzz.h"

__extension__ typedef __int128 Wide;

#define UNTOUCHED	INT64_C(-77)

static Wide
power_of_two(int bits)
{
	Wide		power = 1;

	while (bits-- > 0)
		power *= 2;
	return power;
}

static Wide
wide_floor(Wide value, Wide divisor)
{
	return value / divisor - (value % divisor < 0);
}

static Wide
wide_ceil(Wide value, Wide divisor)
{
	return -wide_floor(-value, divisor);
}

static bool
within(Wide value, Wide low, Wide high)
{
	return value >= low && value <= high;
}

/* Any format at all. */
static IdgenLayout
any_layout(FuzzInput *input)
{
	IdgenLayout layout = {0};

	layout.timestamp_bits = (int) fuzz_number(input, INT32_MIN / 4, INT32_MAX / 4);
	layout.worker_bits = (int) fuzz_number(input, INT32_MIN / 4, INT32_MAX / 4);
	layout.sequence_bits = (int) fuzz_number(input, INT32_MIN / 4, INT32_MAX / 4);
	layout.epoch_ms = fuzz_number(input, INT64_MIN, INT64_MAX);
	layout.tick_ms = fuzz_number(input, INT64_MIN, INT64_MAX);
	layout.horizon_ms = fuzz_number(input, INT64_MIN, INT64_MAX);
	return layout;
}

/*
 * A format is good, or good for decoding only, just where the documentation
 * says so; what is wrong with another, it must be true of it.
 */
static void
check_verdict(const IdgenLayout *layout, IdgenLayoutCheck check)
{
	const bool	timestamp = within(layout->timestamp_bits, 1, 63);
	const bool	worker = within(layout->worker_bits, 0, 31);
	const bool	sequence = within(layout->sequence_bits, 0, 31);
	const bool	sum = (Wide) layout->timestamp_bits + layout->worker_bits +
		layout->sequence_bits <= 63;
	const bool	epoch = within(layout->epoch_ms, -power_of_two(60),
							   power_of_two(60));
	const bool	tick = within(layout->tick_ms, 1, 3600000);
	const bool	horizon = within(layout->horizon_ms, layout->tick_ms, 3600000);

	switch (check)
	{
		case IDGEN_LAYOUT_OK:
		case IDGEN_LAYOUT_SHORT_FIELD:
			FUZZ_CHECK(timestamp && worker && sequence && sum && epoch && tick &&
					   horizon);
			FUZZ_CHECK((check == IDGEN_LAYOUT_OK) ==
					   (layout->horizon_ms <= layout->tick_ms *
						power_of_two(layout->timestamp_bits)));
			break;
		case IDGEN_LAYOUT_BAD_TIMESTAMP_BITS:
			FUZZ_CHECK(!timestamp);
			break;
		case IDGEN_LAYOUT_BAD_WORKER_BITS:
			FUZZ_CHECK(!worker);
			break;
		case IDGEN_LAYOUT_BAD_SEQUENCE_BITS:
			FUZZ_CHECK(!sequence);
			break;
		case IDGEN_LAYOUT_BAD_SUM:
			FUZZ_CHECK(!sum);
			break;
		case IDGEN_LAYOUT_BAD_EPOCH:
			FUZZ_CHECK(!epoch);
			break;
		case IDGEN_LAYOUT_BAD_TICK:
			FUZZ_CHECK(!tick);
			break;
		case IDGEN_LAYOUT_BAD_HORIZON:
			FUZZ_CHECK(!horizon);
			break;
	}
}

/* Parts that fit make an ID and come back from it; others make none. */
static void
check_encode(const IdgenLayout *layout, FuzzInput *input)
{
	const int64_t tick_count = idgen_layout_tick_count(layout);
	const int64_t tick = fuzz_flag(input) ? fuzz_number(input, 0, tick_count)
		: fuzz_number(input, INT64_MIN, INT64_MAX);
	const int64_t worker = fuzz_flag(input) ?
		fuzz_number(input, 0, idgen_layout_worker_count(layout))
		: fuzz_number(input, INT64_MIN, INT64_MAX);
	const int64_t sequence = fuzz_flag(input) ?
		fuzz_number(input, 0, idgen_layout_sequence_count(layout))
		: fuzz_number(input, INT64_MIN, INT64_MAX);
	const Wide	workers = power_of_two(layout->worker_bits);
	const Wide	sequences = power_of_two(layout->sequence_bits);
	/* the last tick of 63 bits is given up */
	const bool	tick_fits = within(tick, 0, layout->timestamp_bits == 63 ?
								   (Wide) INT64_MAX - 1 :
								   power_of_two(layout->timestamp_bits) - 1);
	const bool	worker_fits = within(worker, 0, workers - 1);
	const bool	sequence_fits = within(sequence, 0, sequences - 1);
	int64_t		id = UNTOUCHED;
	int64_t		parts[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED};
	IdgenLayoutFit fit = idgen_layout_encode(layout, tick, worker, sequence, &id);

	FUZZ_CHECK((fit == IDGEN_FIT_OK) == (id != UNTOUCHED));
	switch (fit)
	{
		case IDGEN_FIT_OK:
			FUZZ_CHECK(tick_fits && worker_fits && sequence_fits);
			FUZZ_CHECK(id > 0);
			FUZZ_CHECK(id == (tick * workers + worker) * sequences + sequence);
			FUZZ_CHECK(id == idgen_layout_assemble(layout, tick, worker, sequence));
			FUZZ_CHECK(idgen_layout_decode(layout, id, &parts[0], &parts[1],
										   &parts[2]) == IDGEN_FIT_OK);
			FUZZ_CHECK(parts[0] == tick && parts[1] == worker &&
					   parts[2] == sequence);
			break;
		case IDGEN_FIT_TICK:
			FUZZ_CHECK(!tick_fits);
			break;
		case IDGEN_FIT_WORKER:
			FUZZ_CHECK(!worker_fits);
			break;
		case IDGEN_FIT_SEQUENCE:
			FUZZ_CHECK(!sequence_fits);
			break;
		case IDGEN_FIT_ZERO:
			FUZZ_CHECK(tick == 0 && worker == 0 && sequence == 0);
			break;
		case IDGEN_FIT_ID:
			FUZZ_CHECK(fit != IDGEN_FIT_ID);
			break;
	}
}

/* An ID that is taken apart is put together again. */
static void
check_decode(const IdgenLayout *layout, int64_t id)
{
	const Wide	end = layout->timestamp_bits == 63 ? (Wide) INT64_MAX :
		power_of_two(layout->timestamp_bits + layout->worker_bits +
					 layout->sequence_bits);
	int64_t		again = UNTOUCHED;
	int64_t		parts[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED};
	IdgenLayoutFit fit = idgen_layout_decode(layout, id, &parts[0], &parts[1],
											 &parts[2]);

	FUZZ_CHECK((fit == IDGEN_FIT_OK) == within(id, 1, end - 1));
	FUZZ_CHECK((fit == IDGEN_FIT_ZERO) == (id == 0));
	if (fit == IDGEN_FIT_OK)
	{
		FUZZ_CHECK(idgen_layout_encode(layout, parts[0], parts[1], parts[2],
									   &again) == IDGEN_FIT_OK);
		FUZZ_CHECK(again == id);
	}
	else
		FUZZ_CHECK(parts[0] == UNTOUCHED && parts[1] == UNTOUCHED &&
				   parts[2] == UNTOUCHED);
}

/* Ticks of times, times of ticks, and the life of the field. */
static void
check_times(const IdgenLayout *layout, FuzzInput *input)
{
	const int64_t now = fuzz_number(input, -IDGEN_UNIX_MS_MAX, IDGEN_UNIX_MS_MAX);
	const int64_t tick = idgen_layout_tick_at(layout, now);
	const int64_t tick_count = idgen_layout_tick_count(layout);
	const int64_t any_tick = fuzz_number(input, 0, INT64_MAX);
	const int64_t length = fuzz_number(input, 0, IDGEN_UNIX_MS_MAX);
	const IdgenLayoutLife life = idgen_layout_life(layout, now);
	int64_t		begin = UNTOUCHED;

	FUZZ_CHECK(tick == wide_floor((Wide) now - layout->epoch_ms, layout->tick_ms));
	FUZZ_CHECK((life == IDGEN_LIFE_NOT_BEGUN) == (now < layout->epoch_ms));
	FUZZ_CHECK((life == IDGEN_LIFE_OVER) == (tick >= tick_count));
	if (tick >= 0)
	{
		FUZZ_CHECK(idgen_layout_unix_ms(layout, tick, &begin) ||
				   tick > IDGEN_UNIX_MS_MAX / layout->tick_ms);
		FUZZ_CHECK(begin == UNTOUCHED ||
				   (begin <= now && now - begin < layout->tick_ms));
	}
	begin = UNTOUCHED;
	if (idgen_layout_unix_ms(layout, any_tick, &begin))
		FUZZ_CHECK(begin == layout->epoch_ms + (Wide) any_tick * layout->tick_ms);
	else
		FUZZ_CHECK(begin == UNTOUCHED &&
				   (Wide) any_tick * layout->tick_ms > IDGEN_UNIX_MS_MAX);
	FUZZ_CHECK(idgen_layout_ticks_ceil(layout, length) ==
			   (length == 0 ? 1 : wide_ceil(length, layout->tick_ms)));
}

/* The bound is the ID where the first tick at or after the time begins. */
static void
check_bound(const IdgenLayout *layout, FuzzInput *input)
{
	const int64_t unix_us = fuzz_number(input, INT64_MIN, INT64_MAX);
	const int64_t later_us = fuzz_number(input, unix_us, INT64_MAX);
	const int64_t unix_ms = (int64_t) wide_ceil(unix_us, 1000);
	const int64_t later_ms = (int64_t) wide_ceil(later_us, 1000);
	const int64_t bound = idgen_layout_lower_bound_ms(layout, unix_ms);
	const Wide	tick = wide_ceil((Wide) unix_ms - layout->epoch_ms, layout->tick_ms);

	if (tick <= 0)
		FUZZ_CHECK(bound == 0);
	else if (tick >= idgen_layout_tick_count(layout))
		FUZZ_CHECK(bound == INT64_MAX);
	else
		FUZZ_CHECK(bound == tick * power_of_two(layout->worker_bits +
												layout->sequence_bits));
	FUZZ_CHECK(bound <= idgen_layout_lower_bound_ms(layout, later_ms));
}

/* A format is the same as its copy, and no other if one part differs. */
static void
check_same(const IdgenLayout *layout)
{
	IdgenLayout others[7];

	for (int i = 0; i < 7; i++)
		others[i] = *layout;
	others[1].timestamp_bits++;
	others[2].worker_bits++;
	others[3].sequence_bits++;
	others[4].epoch_ms--;
	others[5].tick_ms--;
	others[6].horizon_ms--;
	for (int i = 0; i < 7; i++)
		FUZZ_CHECK(idgen_layout_same(layout, &others[i]) == (i == 0));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	FuzzInput	input = {data, size};
	IdgenLayout layout = fuzz_flag(&input) ? any_layout(&input) :
		fuzz_valid_layout(&input);
	IdgenLayoutCheck check = idgen_layout_validate(&layout);

	check_verdict(&layout, check);
	if (check != IDGEN_LAYOUT_OK && check != IDGEN_LAYOUT_SHORT_FIELD)
		return 0;
	check_same(&layout);
	while (input.left > 0)
	{
		check_encode(&layout, &input);
		check_decode(&layout, fuzz_number(&input, INT64_MIN, INT64_MAX));
		check_times(&layout, &input);
		check_bound(&layout, &input);
	}
	return 0;
}
