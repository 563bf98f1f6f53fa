/*
 * step.h
 *		The server's judgement of its wall clock.
 */
#ifndef IDGEN_STEP_H
#define IDGEN_STEP_H

#include "postgres.h"

#include "core/step.h"
#include "failure.h"

/* The clock as it was judged; times in Unix milliseconds. */
typedef struct IdgenClockView
{
	IdgenClockVerdict verdict;
	int64		wall_ms;
	int64		latest_ms;		/* nobody begins before this; wall_ms, or later
								 * if BEHIND */
	int64		step_ms;		/* the step in question; 0 if RIGHT */
} IdgenClockView;

extern void idgen_step_judge(IdgenClockView *view);
extern void idgen_step_accept(void);
extern void idgen_step_save(void);
extern void idgen_step_set_failure(const IdgenClockView *view,
								   IdgenFailure *failure);

#endif							/* IDGEN_STEP_H */
