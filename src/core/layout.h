/*
 * layout.h
 *		The shape of an ID: which bits carry time, worker and sequence.
 *
 * An ID is a positive 64-bit integer, most significant bit first:
 *
 *		0 ... 0 | timestamp | worker | sequence
 *
 * The timestamp field counts ticks from the epoch; a tick is a whole number
 * of milliseconds, and a time belongs to the tick it falls in (floor, also
 * before the epoch).
 *
 * Everything under src/core is plain C11: it allocates nothing, locks nothing,
 * reads no clock and throws nothing.  Facts go in, a code and values come out.
 */
#ifndef IDGEN_CORE_LAYOUT_H
#define IDGEN_CORE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of the fields; a sum above 63 would reach the sign bit. */
#define IDGEN_TIMESTAMP_BITS_MIN	1
#define IDGEN_WORKER_BITS_MAX		31
#define IDGEN_SEQUENCE_BITS_MAX		31
#define IDGEN_ID_BITS_MAX			63

/* A tick may last as long as the longest horizon. */
#define IDGEN_TICK_MS_MAX			INT64_C(3600000)
#define IDGEN_HORIZON_MS_MAX		INT64_C(3600000)

/*
 * Epochs and clock readings are milliseconds since 1970-01-01 00:00:00 UTC.
 * They are accepted within +/- 2^60 ms (some 36 million years), so that sums
 * and differences of two of them cannot overflow.
 */
#define IDGEN_UNIX_MS_MAX			(INT64_C(1) << 60)

/* The immutable format of a namespace. */
typedef struct IdgenLayout
{
	int			timestamp_bits;
	int			worker_bits;
	int			sequence_bits;
	int64_t		epoch_ms;		/* Unix milliseconds of tick 0 */
	int64_t		tick_ms;		/* length of a tick, >= 1 */
	int64_t		horizon_ms;		/* no grant ends later than now + this */
} IdgenLayout;

typedef enum IdgenLayoutCheck
{
	IDGEN_LAYOUT_OK,
	IDGEN_LAYOUT_BAD_TIMESTAMP_BITS,
	IDGEN_LAYOUT_BAD_WORKER_BITS,
	IDGEN_LAYOUT_BAD_SEQUENCE_BITS,
	IDGEN_LAYOUT_BAD_SUM,
	IDGEN_LAYOUT_BAD_EPOCH,
	IDGEN_LAYOUT_BAD_TICK,
	IDGEN_LAYOUT_BAD_HORIZON,	/* shorter than a tick, or over the maximum */
	IDGEN_LAYOUT_SHORT_FIELD	/* the field is shorter than the horizon: good
								 * for decoding only.  The last check made. */
} IdgenLayoutCheck;

/* Which field of an ID does not fit. */
typedef enum IdgenLayoutFit
{
	IDGEN_FIT_OK,
	IDGEN_FIT_TICK,
	IDGEN_FIT_WORKER,
	IDGEN_FIT_SEQUENCE,
	IDGEN_FIT_ZERO,				/* the tuple (0,0,0) is never issued */
	IDGEN_FIT_ID				/* not an ID: negative, or too wide */
} IdgenLayoutFit;

/* What a text is, as an ID. */
typedef enum IdgenLayoutText
{
	IDGEN_TEXT_OK,
	IDGEN_TEXT_NOT_DIGITS,		/* empty, a sign, a blank, a letter, ... */
	IDGEN_TEXT_TOO_WIDE			/* digits, but more than 63 bits */
} IdgenLayoutText;

/* Where "now" stands in the life of a timestamp field. */
typedef enum IdgenLayoutLife
{
	IDGEN_LIFE_NOT_BEGUN,		/* now is before the epoch */
	IDGEN_LIFE_RUNNING,
	IDGEN_LIFE_OVER				/* now is past the last tick */
} IdgenLayoutLife;

/* Number of ticks the timestamp field can hold; valid ticks are below it. */
static inline int64_t
idgen_layout_tick_count(const IdgenLayout *layout)
{
	/*
	 * with 63 bits the count is 2^63, which does not fit; no clock gets so
	 * far
	 */
	return layout->timestamp_bits >= 63 ? INT64_MAX
		: INT64_C(1) << layout->timestamp_bits;
}

static inline int64_t
idgen_layout_worker_count(const IdgenLayout *layout)
{
	return INT64_C(1) << layout->worker_bits;
}

static inline int64_t
idgen_layout_sequence_count(const IdgenLayout *layout)
{
	return INT64_C(1) << layout->sequence_bits;
}

/*
 * Assemble an ID from parts already known to fit; see idgen_layout_encode for
 * parts that are not.
 */
static inline int64_t
idgen_layout_assemble(const IdgenLayout *layout, int64_t tick, int64_t worker,
					  int64_t sequence)
{
	return (tick << (layout->worker_bits + layout->sequence_bits)) |
		(worker << layout->sequence_bits) | sequence;
}

extern IdgenLayoutCheck idgen_layout_validate(const IdgenLayout *layout);
extern bool idgen_layout_same(const IdgenLayout *a, const IdgenLayout *b);
extern IdgenLayoutFit idgen_layout_encode(const IdgenLayout *layout,
										  int64_t tick, int64_t worker,
										  int64_t sequence, int64_t *id);
extern IdgenLayoutFit idgen_layout_decode(const IdgenLayout *layout, int64_t id,
										  int64_t *tick, int64_t *worker,
										  int64_t *sequence);
extern int64_t idgen_layout_tick_since(const IdgenLayout *layout,
									   int64_t since_epoch_ms);
extern IdgenLayoutText idgen_layout_parse(const char *text, size_t length,
										  int64_t *number);
extern bool idgen_layout_unix_ms(const IdgenLayout *layout, int64_t tick,
								 int64_t *unix_ms);
extern int64_t idgen_layout_ticks_ceil(const IdgenLayout *layout,
									   int64_t length_ms);
extern int64_t idgen_layout_lower_bound_ms(const IdgenLayout *layout,
										   int64_t unix_ms);
extern IdgenLayoutLife idgen_layout_life(const IdgenLayout *layout,
										 int64_t now_ms);

/*
 * The tick a time falls in; negative before the epoch.  unix_ms must be within
 * +/- IDGEN_UNIX_MS_MAX.
 */
static inline int64_t
idgen_layout_tick_at(const IdgenLayout *layout, int64_t unix_ms)
{
	int64_t		since_epoch_ms = unix_ms - layout->epoch_ms;

	/* 1 ms is the default: save a call and a division on the hot path */
	return layout->tick_ms == 1 ? since_epoch_ms
		: idgen_layout_tick_since(layout, since_epoch_ms);
}

#endif							/* IDGEN_CORE_LAYOUT_H */
