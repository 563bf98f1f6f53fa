/*
 * clock.h
 *		The two clocks of the server: wall time for ticks, monotonic time for
 *		waiting.
 *
 * The wall clock may step in either direction; nothing is ever timed with it.
 */
#ifndef IDGEN_CLOCK_H
#define IDGEN_CLOCK_H

#include "postgres.h"

#include <time.h>

#include "datatype/timestamp.h"

/* Unix time of PostgreSQL's epoch, 2000-01-01. */
#define POSTGRES_EPOCH_MS \
	((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * (USECS_PER_DAY / 1000))

#define NANOSECONDS_PER_MS	1000000

/*
 * Wall clock in milliseconds since 1970-01-01 00:00:00 UTC.
 *
 * A busy session reads the same millisecond many times.  So the reading is
 * only compared with the last one.  The processor predicts that branch, so
 * what depends on the result waits neither for the reading nor for a division.
 */
static inline int64
idgen_clock_wall_ms(void)
{
	static struct timespec begin;	/* start of the millisecond read last */
	static int64 begin_ms;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (unlikely(now.tv_sec != begin.tv_sec) ||
		unlikely((uint64) (now.tv_nsec - begin.tv_nsec) >= NANOSECONDS_PER_MS))
	{
		begin.tv_sec = now.tv_sec;
		begin.tv_nsec = now.tv_nsec - now.tv_nsec % NANOSECONDS_PER_MS;
		begin_ms = (int64) begin.tv_sec * 1000 + begin.tv_nsec / NANOSECONDS_PER_MS;
	}
	return begin_ms;
}

/* Wall clock in microseconds since the same origin. */
static inline int64
idgen_clock_wall_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Monotonic clock in microseconds since an unknown origin. */
static inline int64
idgen_clock_monotonic_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

#endif							/* IDGEN_CLOCK_H */
