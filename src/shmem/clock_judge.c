/*
 * clock_judge.c
 *		The server's judgement of its wall clock.
 *
 * There is one record for the server, in shared memory; src/core/clock.c decides what
 * becomes of it, and clock_file.c keeps it over restarts of the server.
 */
#include "compat.h"

#include "shmem/clock_judge.h"

#include <time.h>

#include "clock.h"
#include "kernel_clock.h"
#include "settings.h"
#include "shmem/clock_file.h"
#include "shmem/lock.h"
#include "shmem/pool.h"
#include "shmem/shmem.h"

/* Two readings that are this close together are as good as one. */
#define READ_ERROR_US		INT64_C(100)
#define READ_TRIES			8

/* Shorter steps are not worth a line in the log. */
#define LOGGED_STEP_US		INT64_C(1000000)

/* How long to try for a look at what is believed. */
#define PEEK_WITHIN_US		INT64_C(10000)

/* The clock that never steps, and runs while the machine sleeps. */
#ifdef CLOCK_BOOTTIME
#define ELAPSED_CLOCK CLOCK_BOOTTIME
#else
#define ELAPSED_CLOCK CLOCK_MONOTONIC
#endif

Size
idgen_clock_judge_size(void)
{
	return sizeof(IdgenClockState);
}

void
idgen_clock_judge_init(void *memory, int tranche)
{
	idgen_shared->clock = memory;
	LWLockInitialize(&idgen_shared->clock->file_lock, tranche);
}

/* --------------------------------------------------------------------
 * Reading the clocks
 * -------------------------------------------------------------------- */

static int64
elapsed_us(void)
{
	struct timespec now;

	clock_gettime(ELAPSED_CLOCK, &now);
	return (int64) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/*
 * Read both clocks, as close together as can be.  Caller holds the directory
 * lock, so that a reading from before a pause is not judged after a later one,
 * beside which it would look like a step.
 */
static void
read_clocks(IdgenClockReading *reading)
{
	reading->error_us = PG_INT64_MAX;
	for (int i = 0; i < READ_TRIES && reading->error_us > READ_ERROR_US; i++)
	{
		int64		before_us = elapsed_us();
		int64		wall_us = idgen_clock_wall_us();
		int64		error_us = elapsed_us() - before_us;

		if (error_us >= reading->error_us)
			continue;
		reading->elapsed_us = before_us;
		reading->wall_us = wall_us;
		reading->error_us = error_us;
	}
}

/* --------------------------------------------------------------------
 * Remembering
 * -------------------------------------------------------------------- */

/* Write the file if something has changed, unless another process is writing it. */
void
idgen_clock_judge_save(void)
{
	IdgenClockState *clock = idgen_shared->clock;
	IdgenClockRecord record;
	uint64		version;

	if (clock->version == clock->saved_version ||
		!LWLockConditionalAcquire(&clock->file_lock, LW_EXCLUSIVE))
		return;
	idgen_lock_directory();
	record = clock->record;
	version = clock->version;
	idgen_unlock_directory();

	idgen_clock_file_write(&record);

	idgen_lock_directory();
	clock->saved_version = version;
	idgen_unlock_directory();
	LWLockRelease(&clock->file_lock);
}

/* Once in the life of shared memory: go on from what the file says. */
static void
load_record(void)
{
	IdgenClockState *clock = idgen_shared->clock;
	IdgenClockRecord record;
	bool		found = idgen_clock_file_read(&record);

	idgen_lock_directory();
	if (!clock->loaded && found)
	{
		IdgenClockReading reading;

		read_clocks(&reading);
		idgen_clock_resume(&record, &reading);
		clock->record = record;
	}
	clock->loaded = true;
	idgen_unlock_directory();
}

/* --------------------------------------------------------------------
 * Judging
 * -------------------------------------------------------------------- */

/* Count a step.  Caller holds the directory lock. */
static void
count_step(IdgenClockState *clock, int64 step_us)
{
	if (step_us == 0)
		return;
	if (step_us < 0)
		clock->steps.back_count++;
	else
		clock->steps.forward_count++;
	clock->steps.largest_us = Max(clock->steps.largest_us,
								  step_us < 0 ? -step_us : step_us);
}

/* Is a change of the record worth remembering over a restart? */
static bool
worth_saving(const IdgenClockRecord *before, const IdgenClockRecord *after,
			 const IdgenClockFinding *finding)
{
	return finding->step_us != 0 || finding->accepted_back ||
		before->known != after->known || before->verdict != after->verdict;
}

/* Seconds of a step, for people. */
static char *
step_text(int64 step_us)
{
	int64		step_ms = Max(step_us < 0 ? -step_us : step_us, 0) / 1000;

	return psprintf(IDGEN_SECONDS_FORMAT " seconds %s", IDGEN_SECONDS_ARGS(step_ms),
					step_us < 0 ? "back" : "forward");
}

/* Log once that the clock is not believed, and once that it is again. */
static void
log_verdict(const IdgenClockRecord *record)
{
	IdgenClockState *clock = idgen_shared->clock;
	bool		wrong = record->verdict != IDGEN_CLOCK_RIGHT;
	int64		step_us = idgen_clock_pending(record);
	bool		say;

	if (clock->logged == wrong ||
		(wrong && step_us < LOGGED_STEP_US && step_us > -LOGGED_STEP_US))
		return;
	idgen_lock_directory();
	say = clock->logged != wrong;
	clock->logged = wrong;
	idgen_unlock_directory();
	if (say && wrong)
		ereport(LOG,
				(errmsg("the system clock was set %s; idgen does not believe it",
						step_text(step_us)),
				 errhint("Correct the clock. If it is already correct, call idgen_confirm_clock().")));
	else if (say)
		ereport(LOG,
				(errmsg("idgen believes the system clock again")));
}

/*
 * Read the clock and judge it.  Raises an error (IG005) if the directory lock
 * cannot be had in time.
 */
void
idgen_clock_judge(IdgenClockView *view)
{
	IdgenClockState *clock = idgen_shared->clock;
	IdgenClockPolicy policy = {.max_step_us = (int64) idgen_max_clock_step_ms * 1000};
	IdgenKernelClock kernel;
	IdgenClockReading reading;
	IdgenClockRecord before;
	IdgenClockRecord after;
	IdgenClockFinding finding;

	if (!clock->loaded)
		load_record();

	/*
	 * this takes a system call, so ask the kernel only where it decides
	 * something
	 */
	if (clock->record.verdict != IDGEN_CLOCK_RIGHT)
	{
		idgen_kernel_clock_read(&kernel);
		policy.synchronised = kernel.known && kernel.synchronised;
	}

	idgen_lock_directory();
	before = clock->record;
	read_clocks(&reading);
	view->verdict = idgen_clock_decide(&clock->record, &reading, &policy, &finding);
	count_step(clock, finding.step_us);
	after = clock->record;
	if (worth_saving(&before, &after, &finding))
		clock->version++;
	idgen_unlock_directory();
	if (finding.accepted_back)
		idgen_pool_kill_everywhere();

	view->wall_ms = reading.wall_us / 1000;
	view->latest_ms = view->verdict == IDGEN_CLOCK_BEHIND ?
		after.latest_us / 1000 : view->wall_ms;
	view->step_ms = idgen_clock_pending(&after) / 1000;
	log_verdict(&after);
}

/* An operator says that the clock is right as it is. */
void
idgen_clock_judge_accept(void)
{
	IdgenClockState *clock = idgen_shared->clock;
	IdgenClockReading reading;
	IdgenClockRecord after;
	IdgenClockFinding finding;

	if (!clock->loaded)
		load_record();
	idgen_lock_directory();
	read_clocks(&reading);
	idgen_clock_confirm(&clock->record, &reading, &finding);
	clock->version++;
	after = clock->record;
	idgen_unlock_directory();
	if (finding.accepted_back)
		idgen_pool_kill_everywhere();
	log_verdict(&after);
	idgen_clock_judge_save();
}

/* What to report to a caller if the clock is not right; kind NONE if it is. */
void
idgen_clock_judge_set_error(const IdgenClockView *view, IdgenError *error)
{
	char		detail[IDGEN_ERROR_TEXT_MAX];

	if (view->verdict == IDGEN_CLOCK_RIGHT)
	{
		idgen_error_clear(error);
		return;
	}
	snprintf(detail, sizeof(detail), "The system clock was set %s.",
			 step_text(view->step_ms * 1000));
	if (view->verdict == IDGEN_CLOCK_AHEAD)
	{
		strlcat(detail, " No grants are made until it is corrected or confirmed.", sizeof(detail));
		idgen_error_set(error, IDGEN_ERROR_CLOCK_AHEAD, detail, NULL);
		return;
	}
	strlcat(detail, " No ID is issued for a time that was already used.", sizeof(detail));
	idgen_error_set(error, IDGEN_ERROR_CLOCK, detail, NULL);
	error->until_ms = view->latest_ms;
}

/*
 * The earliest Unix ms that it may be now, by all that is believed; 0 if that cannot be
 * told at once.  Changes nothing, and does not fail.
 */
int64
idgen_clock_judge_earliest_ms(void)
{
	IdgenClockState *clock = idgen_shared->clock;
	IdgenClockPolicy policy = {.max_step_us = (int64) idgen_max_clock_step_ms * 1000};
	IdgenClockReading reading;
	IdgenClockRecord copy;
	IdgenClockFinding finding;
	bool		loaded;

	if (!idgen_lock_directory_within(PEEK_WITHIN_US))
		return 0;
	copy = clock->record;
	loaded = clock->loaded;
	read_clocks(&reading);
	idgen_unlock_directory();
	if (!loaded)
		return 0;
	(void) idgen_clock_decide(&copy, &reading, &policy, &finding);
	return (reading.wall_us - Max(idgen_clock_pending(&copy), 0)) / 1000;
}

/* What is known of the clock, for watching. */
void
idgen_clock_judge_read(IdgenClockRecord *record, IdgenClockSteps *steps)
{
	idgen_lock_directory();
	*record = idgen_shared->clock->record;
	*steps = idgen_shared->clock->steps;
	idgen_unlock_directory();
}
