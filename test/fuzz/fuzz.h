/*
 * fuzz.h
 *		What a fuzz target is made of: bytes to draw choices from, and checks.
 *
 * A target is one file with LLVMFuzzerTestOneInput, which libFuzzer calls with
 * inputs of its own making ("make fuzz"), and replay.c with the files of the
 * corpus (in the unit stage, with any compiler).  An input is a script: each
 * choice takes the next bytes, and after the last one all choices are 0.  A
 * failed check aborts, like a report of a sanitizer.
 */
#ifndef IDGEN_TEST_FUZZ_H
#define IDGEN_TEST_FUZZ_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct FuzzInput
{
	const uint8_t *data;
	size_t		left;
} FuzzInput;

#define FUZZ_CHECK(condition) \
	((condition) ? (void) 0 : fuzz_fail(#condition, __FILE__, __LINE__))

static inline void
fuzz_fail(const char *condition, const char *file, int line)
{
	fprintf(stderr, "%s:%d: not true: %s\n", file, line, condition);
	abort();
}

static inline uint8_t
fuzz_byte(FuzzInput *input)
{
	if (input->left == 0)
		return 0;
	input->left--;
	return *input->data++;
}

static inline bool
fuzz_flag(FuzzInput *input)
{
	return fuzz_byte(input) % 2 == 1;
}

/* Little-endian, so that the small numbers of a script read as such. */
static inline uint64_t
fuzz_uint64(FuzzInput *input)
{
	uint64_t	value = 0;

	for (int i = 0; i < 8; i++)
		value |= (uint64_t) fuzz_byte(input) << (8 * i);
	return value;
}

/* In [low, high]; a range of up to 256 values takes one byte. */
static inline int64_t
fuzz_between(FuzzInput *input, int64_t low, int64_t high)
{
	uint64_t	width = (uint64_t) high - (uint64_t) low;
	uint64_t	value = width < 256 ? fuzz_byte(input) : fuzz_uint64(input);

	/* all of int64 has no width + 1 */
	if (width != UINT64_MAX)
		value %= width + 1;
	return (int64_t) ((uint64_t) low + value);
}

/*
 * A number in [low, high] that is often one of the places where mistakes are
 * made: near 0, near a power of two, near the ends.
 */
static inline int64_t
fuzz_number(FuzzInput *input, int64_t low, int64_t high)
{
	int64_t		value;

	switch (fuzz_byte(input) % 6)
	{
		case 0:
			value = fuzz_byte(input);
			break;
		case 1:
			value = -(int64_t) fuzz_byte(input);
			break;
		case 2:
			value = INT64_C(1) << (fuzz_byte(input) % 63);
			value += fuzz_byte(input) % 3 - 1;
			break;
		case 3:
			return high > low && fuzz_flag(input) ? low + 1 : low;
		case 4:
			return high > low && fuzz_flag(input) ? high - 1 : high;
		default:
			return fuzz_between(input, low, high);
	}
	return value < low ? low : value > high ? high : value;
}

/* A format that validates. */
static inline IdgenLayout
fuzz_valid_layout(FuzzInput *input)
{
	IdgenLayout layout = {0};
	int64_t		field_ms;

	layout.worker_bits = (int) fuzz_between(input, 0, IDGEN_WORKER_BITS_MAX);
	layout.sequence_bits = (int) fuzz_between(input, 0, IDGEN_SEQUENCE_BITS_MAX);
	layout.timestamp_bits = (int) fuzz_between(input, 1, IDGEN_ID_BITS_MAX -
											   layout.worker_bits -
											   layout.sequence_bits);
	layout.epoch_ms = fuzz_number(input, -IDGEN_UNIX_MS_MAX, IDGEN_UNIX_MS_MAX);
	layout.tick_ms = fuzz_number(input, 1, IDGEN_TICK_MS_MAX);
	field_ms = IDGEN_HORIZON_MS_MAX;
	if (layout.timestamp_bits < 22 &&
		field_ms > layout.tick_ms << layout.timestamp_bits)
		field_ms = layout.tick_ms << layout.timestamp_bits;
	layout.horizon_ms = fuzz_number(input, layout.tick_ms, field_ms);
	return layout;
}

#endif							/* IDGEN_TEST_FUZZ_H */
