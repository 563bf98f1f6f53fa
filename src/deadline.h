/*
 * deadline.h
 *		When a call must be over.
 *
 * A deadline is set once, when a call begins, and handed down to whatever that
 * call may wait for.  It is never kept in a static variable: there an error
 * would leave it behind for the next call.
 */
#ifndef IDGEN_DEADLINE_H
#define IDGEN_DEADLINE_H

#include "postgres.h"

#include "settings.h"

/* Monotonic microseconds, or IDGEN_DEADLINE_UNSET. */
typedef int64 IdgenDeadline;

/* idgen.wait_timeout, counted from the moment at which a wait begins. */
#define IDGEN_DEADLINE_UNSET	INT64_C(0)

/* The deadline of a call that begins at a monotonic time, in microseconds. */
static inline IdgenDeadline
idgen_deadline_from(int64 begin_us)
{
	return begin_us + (int64) idgen_wait_timeout_ms * 1000;
}

/* A command has at least this long: one that never waited could never succeed. */
#define IDGEN_COMMAND_WITHIN_MIN_MS		1000

/* The same for a command, which is any request other than one for an ID. */
static inline IdgenDeadline
idgen_deadline_of_command_from(int64 begin_us)
{
	return begin_us + (int64) Max(idgen_wait_timeout_ms, IDGEN_COMMAND_WITHIN_MIN_MS) * 1000;
}

#endif							/* IDGEN_DEADLINE_H */
