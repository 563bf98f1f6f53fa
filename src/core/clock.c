/*
 * clock.c
 *		Judge the wall clock; see clock.h for the states.
 */
#include "clock.h"

static int64_t
offset_of(const IdgenClockReading *reading)
{
	return reading->wall_us - reading->elapsed_us;
}

/*
 * The most by which the offset of a reading can differ from that of a sure one
 * without a step.
 */
static int64_t
tolerance_of(const IdgenClockReading *reading)
{
	return IDGEN_CLOCK_STEP_NOISE_US + reading->error_us;
}

/* Does the offset of a reading differ from a recorded one by a step? */
static bool
differ(const IdgenClockReading *reading, int64_t recorded_us)
{
	int64_t		difference = offset_of(reading) - recorded_us;

	return difference > tolerance_of(reading) ||
		difference < -tolerance_of(reading);
}

/*
 * Is a reading sure?  A process that was stopped between the two clocks has
 * read an offset that means little: it is not believed by itself, and clears
 * no doubt.
 */
static bool
is_sure(const IdgenClockReading *reading)
{
	return reading->error_us <= IDGEN_CLOCK_STEP_NOISE_US;
}

/* Believe a reading. */
static IdgenClockVerdict
believe(IdgenClockRecord *record, const IdgenClockReading *reading)
{
	record->known = true;
	record->verdict = IDGEN_CLOCK_RIGHT;
	record->offset_us = offset_of(reading);
	record->latest_us = reading->wall_us;
	return IDGEN_CLOCK_RIGHT;
}

/*
 * May the step in question be believed without being confirmed, because it has
 * stood long enough?
 */
static bool
stands(const IdgenClockRecord *record, const IdgenClockReading *reading,
	   const IdgenClockPolicy *policy)
{
	int64_t		step = offset_of(reading) - record->offset_us;

	return policy->synchronised && is_sure(reading) &&
		reading->elapsed_us - record->pending_since_us >= IDGEN_CLOCK_STEP_STANDS_US &&
		step < IDGEN_CLOCK_STEP_BELIEVED_MAX_US && step > -IDGEN_CLOCK_STEP_BELIEVED_MAX_US;
}

/*
 * Judge a reading, and remember it.  Sets finding->step_us once for each step,
 * also for a step that is believed at once.  A reading that is not sure can
 * raise a doubt but clears none: read again.
 */
IdgenClockVerdict
idgen_clock_decide(IdgenClockRecord *record, const IdgenClockReading *reading,
				   const IdgenClockPolicy *policy, IdgenClockFinding *finding)
{
	int64_t		offset = offset_of(reading);
	int64_t		step = offset - record->offset_us;
	int64_t		seen;
	bool		ahead = step > policy->max_step_us + tolerance_of(reading);

	finding->step_us = 0;
	finding->accepted_back = false;
	if (!record->known)
		return is_sure(reading) ? believe(record, reading) : IDGEN_CLOCK_RIGHT;

	/* the offset to compare this reading with, so that a step is noticed once */
	seen = record->verdict == IDGEN_CLOCK_RIGHT ? record->offset_us :
		record->pending_us;
	if (differ(reading, seen))
		finding->step_us = offset - seen;

	if (!ahead && reading->wall_us >= record->latest_us)
	{
		if (is_sure(reading))
			return believe(record, reading);
		finding->step_us = 0;	/* the next sure reading finds it */
		return record->verdict;
	}

	if (record->verdict == IDGEN_CLOCK_RIGHT || finding->step_us != 0)
	{
		record->pending_us = offset;
		record->pending_since_us = reading->elapsed_us;
	}
	else if (stands(record, reading, policy))
	{
		finding->accepted_back = !ahead;
		return believe(record, reading);
	}
	record->verdict = ahead ? IDGEN_CLOCK_AHEAD : IDGEN_CLOCK_BEHIND;
	return record->verdict;
}

/* Somebody says that the clock is right as it is. */
void
idgen_clock_confirm(IdgenClockRecord *record, const IdgenClockReading *reading,
					IdgenClockFinding *finding)
{
	finding->step_us = 0;
	finding->accepted_back = record->known &&
		reading->wall_us < record->latest_us;
	(void) believe(record, reading);
}

/*
 * Go on with an earlier record of the same boot of the machine.  The record
 * does not have what was read after its last change, but no such reading can
 * be later than the believed offset allows.
 */
void
idgen_clock_resume(IdgenClockRecord *record, const IdgenClockReading *reading)
{
	int64_t		expected = record->offset_us + reading->elapsed_us;

	if (!record->known || record->verdict == IDGEN_CLOCK_BEHIND)
		return;
	if (reading->wall_us < expected && !differ(reading, record->offset_us))
		expected = reading->wall_us;
	if (expected > record->latest_us)
		record->latest_us = expected;
}

/* The step in question; 0 if there is none. */
int64_t
idgen_clock_pending(const IdgenClockRecord *record)
{
	return record->known && record->verdict != IDGEN_CLOCK_RIGHT ?
		record->pending_us - record->offset_us : 0;
}
