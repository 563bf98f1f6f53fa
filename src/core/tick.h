/*
 * tick.h
 *		The earlier and the later of two ticks, for the files of src/core.
 */
#ifndef IDGEN_CORE_TICK_H
#define IDGEN_CORE_TICK_H

#include <stdint.h>

static inline int64_t
max_tick(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t
min_tick(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

#endif							/* IDGEN_CORE_TICK_H */
