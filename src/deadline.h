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

#endif							/* IDGEN_DEADLINE_H */
