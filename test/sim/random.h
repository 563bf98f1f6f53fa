/*
 * random.h
 *		The only source of chance: a seed replays a run.
 */
#ifndef IDGEN_SIM_RANDOM_H
#define IDGEN_SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Random
{
	uint64_t	state;
} Random;

/* splitmix64 */
static inline uint64_t
random_next(Random *random)
{
	uint64_t	z = random->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Uniform in [low, high]. */
static inline int64_t
random_between(Random *random, int64_t low, int64_t high)
{
	return low + (int64_t) (random_next(random) % (uint64_t) (high - low + 1));
}

static inline bool
random_one_in(Random *random, int64_t count)
{
	return random_next(random) % (uint64_t) count == 0;
}

#endif							/* IDGEN_SIM_RANDOM_H */
