/*
 * layout.c
 *		Validate a format, encode, decode and read IDs, convert between times
 *		and ticks.
 */
#include "layout.h"

/* Floor division by a positive divisor; C truncates towards zero. */
static int64_t
floor_div(int64_t value, int64_t divisor)
{
	int64_t		quotient = value / divisor;

	return quotient - (value % divisor < 0 ? 1 : 0);
}

/* Ceiling division by a positive divisor. */
static int64_t
ceil_div(int64_t value, int64_t divisor)
{
	int64_t		quotient = value / divisor;

	return quotient + (value % divisor > 0 ? 1 : 0);
}

/*
 * Check a format once, at its creation.  All other functions here rely on a
 * layout that passed.
 */
IdgenLayoutCheck
idgen_layout_validate(const IdgenLayout *layout)
{
	if (layout->timestamp_bits < IDGEN_TIMESTAMP_BITS_MIN ||
		layout->timestamp_bits > IDGEN_ID_BITS_MAX)
		return IDGEN_LAYOUT_BAD_TIMESTAMP_BITS;
	if (layout->worker_bits < 0 || layout->worker_bits > IDGEN_WORKER_BITS_MAX)
		return IDGEN_LAYOUT_BAD_WORKER_BITS;
	if (layout->sequence_bits < 0 ||
		layout->sequence_bits > IDGEN_SEQUENCE_BITS_MAX)
		return IDGEN_LAYOUT_BAD_SEQUENCE_BITS;
	if (layout->timestamp_bits + layout->worker_bits + layout->sequence_bits >
		IDGEN_ID_BITS_MAX)
		return IDGEN_LAYOUT_BAD_SUM;
	if (layout->epoch_ms < -IDGEN_UNIX_MS_MAX ||
		layout->epoch_ms > IDGEN_UNIX_MS_MAX)
		return IDGEN_LAYOUT_BAD_EPOCH;
	if (layout->tick_ms < 1 || layout->tick_ms > IDGEN_TICK_MS_MAX)
		return IDGEN_LAYOUT_BAD_TICK;
	if (layout->horizon_ms < layout->tick_ms ||
		layout->horizon_ms > IDGEN_HORIZON_MS_MAX)
		return IDGEN_LAYOUT_BAD_HORIZON;
	if (idgen_layout_ticks_ceil(layout, layout->horizon_ms) >
		idgen_layout_tick_count(layout))
		return IDGEN_LAYOUT_SHORT_FIELD;
	return IDGEN_LAYOUT_OK;
}

/* Are two formats the same? */
bool
idgen_layout_same(const IdgenLayout *a, const IdgenLayout *b)
{
	return a->timestamp_bits == b->timestamp_bits &&
		a->worker_bits == b->worker_bits &&
		a->sequence_bits == b->sequence_bits &&
		a->epoch_ms == b->epoch_ms && a->tick_ms == b->tick_ms &&
		a->horizon_ms == b->horizon_ms;
}

/* Assemble an ID from untrusted parts; *id is set only on IDGEN_FIT_OK. */
IdgenLayoutFit
idgen_layout_encode(const IdgenLayout *layout, int64_t tick, int64_t worker,
					int64_t sequence, int64_t *id)
{
	if (tick < 0 || tick >= idgen_layout_tick_count(layout))
		return IDGEN_FIT_TICK;
	if (worker < 0 || worker >= idgen_layout_worker_count(layout))
		return IDGEN_FIT_WORKER;
	if (sequence < 0 || sequence >= idgen_layout_sequence_count(layout))
		return IDGEN_FIT_SEQUENCE;
	if (tick == 0 && worker == 0 && sequence == 0)
		return IDGEN_FIT_ZERO;
	*id = idgen_layout_assemble(layout, tick, worker, sequence);
	return IDGEN_FIT_OK;
}

/* Take an untrusted ID apart; the outputs are set only on IDGEN_FIT_OK. */
IdgenLayoutFit
idgen_layout_decode(const IdgenLayout *layout, int64_t id, int64_t *tick,
					int64_t *worker, int64_t *sequence)
{
	int			shift = layout->worker_bits + layout->sequence_bits;

	if (id < 0)
		return IDGEN_FIT_ID;
	if (id == 0)
		return IDGEN_FIT_ZERO;
	if ((id >> shift) >= idgen_layout_tick_count(layout))
		return IDGEN_FIT_ID;
	*tick = id >> shift;
	*worker = (id >> layout->sequence_bits) &
		(idgen_layout_worker_count(layout) - 1);
	*sequence = id & (idgen_layout_sequence_count(layout) - 1);
	return IDGEN_FIT_OK;
}

/*
 * Read decimal digits, and nothing else: no sign, no blank.  The number is set
 * only on IDGEN_TEXT_OK; idgen_layout_decode tells whether it is an ID of a
 * format.  The text need not be terminated.
 */
IdgenLayoutText
idgen_layout_parse(const char *text, size_t length, int64_t *number)
{
	int64_t		value = 0;
	bool		too_wide = false;

	if (length == 0)
		return IDGEN_TEXT_NOT_DIGITS;
	for (size_t i = 0; i < length; i++)
	{
		int			digit = text[i] - '0';

		/* a wrong character is reported even if the number is too wide */
		if (digit < 0 || digit > 9)
			return IDGEN_TEXT_NOT_DIGITS;
		if (value > (INT64_MAX - digit) / 10)
			too_wide = true;
		else
			value = value * 10 + digit;
	}
	if (too_wide)
		return IDGEN_TEXT_TOO_WIDE;
	*number = value;
	return IDGEN_TEXT_OK;
}

/* See idgen_layout_tick_at(). */
int64_t
idgen_layout_tick_since(const IdgenLayout *layout, int64_t since_epoch_ms)
{
	return floor_div(since_epoch_ms, layout->tick_ms);
}

/*
 * The Unix millisecond at which a tick >= 0 begins.  False if that is too far
 * away to be represented.
 */
bool
idgen_layout_unix_ms(const IdgenLayout *layout, int64_t tick, int64_t *unix_ms)
{
	if (tick > IDGEN_UNIX_MS_MAX / layout->tick_ms)
		return false;
	*unix_ms = layout->epoch_ms + tick * layout->tick_ms;
	return true;
}

/* A length in ticks, rounded up, never below one. */
int64_t
idgen_layout_ticks_ceil(const IdgenLayout *layout, int64_t length_ms)
{
	int64_t		ticks = ceil_div(length_ms, layout->tick_ms);

	return ticks < 1 ? 1 : ticks;
}

/*
 * The smallest ID that a tick beginning at or after a time can carry, so that
 * [lower_bound(a), lower_bound(b)) selects exactly the ticks that begin within
 * [a, b).  0 at or before the epoch, INT64_MAX past the field; never wraps.
 * The time is in Unix milliseconds, within +/- IDGEN_UNIX_MS_MAX.
 */
int64_t
idgen_layout_lower_bound_ms(const IdgenLayout *layout, int64_t unix_ms)
{
	int64_t		tick;

	if (unix_ms <= layout->epoch_ms)
		return 0;
	tick = ceil_div(unix_ms - layout->epoch_ms, layout->tick_ms);
	if (tick >= idgen_layout_tick_count(layout))
		return INT64_MAX;
	return idgen_layout_assemble(layout, tick, 0, 0);
}

/* Has the timestamp field begun, and is it over? */
IdgenLayoutLife
idgen_layout_life(const IdgenLayout *layout, int64_t now_ms)
{
	int64_t		tick = idgen_layout_tick_at(layout, now_ms);

	if (tick < 0)
		return IDGEN_LIFE_NOT_BEGUN;
	if (tick >= idgen_layout_tick_count(layout))
		return IDGEN_LIFE_OVER;
	return IDGEN_LIFE_RUNNING;
}
