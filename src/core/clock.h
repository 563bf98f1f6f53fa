/*
 * clock.h
 *		Steps of the wall clock: what they are, and whether to believe them.
 *
 * The wall clock is compared with one that never steps (CLOCK_BOOTTIME, which
 * also counts while the machine sleeps).  As long as their difference stays
 * the same, both advance alike; when it changes, the wall clock was set.
 * Slewing changes the speed of both.
 *
 *		                wall clock set forward by more than max_step
 *		  RIGHT ------------------------------------------------> AHEAD
 *		   ^  |                                                     |
 *		   |  | wall clock before the latest reading                |
 *		   |  v                                                     |
 *		  BEHIND --------------------------------------------------+
 *		   back to RIGHT: the clock comes back, or catches up with the
 *		   latest reading; the step is confirmed; or it has stood for
 *		   IDGEN_CLOCK_STEP_STANDS_US, the kernel says that the clock is
 *		   synchronised, and it is below IDGEN_CLOCK_STEP_BELIEVED_MAX_US
 *
 * AHEAD: nothing may be granted or stored, because that time may never come.
 * BEHIND: grants must not start before "latest", except for incarnations already
 * granted past it.  Uniqueness rests on marks, not on this: the verdict protects the
 * order of IDs in time and the lifetime of the field.
 *
 * All times are in microseconds.
 */
#ifndef IDGEN_CORE_CLOCK_H
#define IDGEN_CORE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A difference up to this, plus the error of the reading, comes from the
 * reading and not from the clock.  A reading with a greater error is not sure.
 */
#define IDGEN_CLOCK_STEP_NOISE_US			INT64_C(10000)

/* A step that has stood this long is believed, if the kernel agrees ... */
#define IDGEN_CLOCK_STEP_STANDS_US		INT64_C(10000000)

/* ... and if it is smaller than this. */
#define IDGEN_CLOCK_STEP_BELIEVED_MAX_US	INT64_C(86400000000)

/* Both clocks, read together. */
typedef struct IdgenClockReading
{
	int64_t		wall_us;		/* since 1970 */
	int64_t		elapsed_us;		/* of the clock that never steps */
	int64_t		error_us;		/* the most time between the two readings, >=
								 * 0 */
} IdgenClockReading;

typedef enum IdgenClockVerdict
{
	IDGEN_CLOCK_RIGHT,
	IDGEN_CLOCK_BEHIND,
	IDGEN_CLOCK_AHEAD
} IdgenClockVerdict;

/* What is remembered of the clock; all zero before the first reading. */
typedef struct IdgenClockRecord
{
	bool		known;			/* else everything below means nothing */
	IdgenClockVerdict verdict;
	int64_t		offset_us;		/* wall - elapsed, as believed last */
	int64_t		latest_us;		/* wall clock, as believed last */
	int64_t		pending_us;		/* verdict not RIGHT: the offset in question */
	int64_t		pending_since_us;	/* elapsed, when it was first seen */
} IdgenClockRecord;

typedef struct IdgenClockPolicy
{
	int64_t		max_step_us;	/* forward steps up to this are believed */
	bool		synchronised;	/* the kernel says so */
} IdgenClockPolicy;

/* What a judgement found out, beside the verdict. */
typedef struct IdgenClockFinding
{
	int64_t		step_us;		/* a step seen for the first time; 0 = none */
	bool		accepted_back;	/* a step back is believed from now on, and
								 * the clock may be before "latest" */
} IdgenClockFinding;

extern IdgenClockVerdict idgen_clock_decide(IdgenClockRecord *record,
											const IdgenClockReading *reading,
											const IdgenClockPolicy *policy,
											IdgenClockFinding *finding);
extern void idgen_clock_confirm(IdgenClockRecord *record,
								const IdgenClockReading *reading,
								IdgenClockFinding *finding);
extern void idgen_clock_resume(IdgenClockRecord *record,
							   const IdgenClockReading *reading);
extern int64_t idgen_clock_pending(const IdgenClockRecord *record);

#endif							/* IDGEN_CORE_CLOCK_H */
