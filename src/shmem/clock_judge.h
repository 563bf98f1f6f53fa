/*
 * clock_judge.h
 *		The server's judgement of its wall clock.
 */
#ifndef IDGEN_CLOCK_JUDGE_H
#define IDGEN_CLOCK_JUDGE_H

#include "postgres.h"

#include "storage/lwlock.h"

#include "core/clock.h"
#include "error.h"

/* Steps noticed since shared memory was initialised. */
typedef struct IdgenClockSteps
{
	uint64		back_count;
	uint64		forward_count;
	int64		largest_us;		/* without its sign */
} IdgenClockSteps;

/*
 * What the server knows of its clock.  All fields but the lock: directory
 * lock.  The verdict, the versions and the flags are also read without it,
 * where a stale value only costs a second look.
 */
typedef struct IdgenClockState
{
	LWLock		file_lock;		/* who writes the file; only tried for, never
								 * waited for */
	bool		loaded;			/* the file of an earlier life was looked for */
	IdgenClockRecord record;
	uint64		version;		/* moves with every change worth keeping over
								 * a restart */
	uint64		saved_version;	/* what the file has */
	bool		logged;			/* that the verdict is not RIGHT */
	IdgenClockSteps steps;
} IdgenClockState;

/* The clock as it was judged; times in Unix milliseconds. */
typedef struct IdgenClockView
{
	IdgenClockVerdict verdict;
	int64		wall_ms;
	int64		latest_ms;		/* no grant begins before this; wall_ms, or
								 * later if BEHIND */
	int64		step_ms;		/* the step in question; 0 if RIGHT */
} IdgenClockView;

extern Size idgen_clock_judge_size(void);
extern void idgen_clock_judge_init(void *memory, int tranche);

extern void idgen_clock_judge(IdgenClockView *view);
extern void idgen_clock_judge_accept(void);
extern void idgen_clock_judge_save(void);
extern void idgen_clock_judge_set_error(const IdgenClockView *view,
										IdgenError *error);
extern int64 idgen_clock_judge_earliest_ms(void);
extern void idgen_clock_judge_read(IdgenClockRecord *record, IdgenClockSteps *steps);

#endif							/* IDGEN_CLOCK_JUDGE_H */
