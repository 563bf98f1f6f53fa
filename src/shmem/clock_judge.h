/*
 * clock_judge.h
 *		The server's judgement of its wall clock.
 */
#ifndef IDGEN_CLOCK_JUDGE_H
#define IDGEN_CLOCK_JUDGE_H

#include "postgres.h"

#include "core/clock.h"
#include "error.h"

/* The clock as it was judged; times in Unix milliseconds. */
typedef struct IdgenClockView
{
	IdgenClockVerdict verdict;
	int64		wall_ms;
	int64		latest_ms;		/* nobody begins before this; wall_ms, or later
								 * if BEHIND */
	int64		step_ms;		/* the step in question; 0 if RIGHT */
} IdgenClockView;

extern void idgen_clock_judge(IdgenClockView *view);
extern void idgen_clock_judge_accept(void);
extern void idgen_clock_judge_save(void);
extern void idgen_clock_judge_set_error(const IdgenClockView *view,
								   IdgenError *error);

#endif							/* IDGEN_CLOCK_JUDGE_H */
