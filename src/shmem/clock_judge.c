/*
 * clock_judge.c
 *		Judge the wall clock, and remember it over restarts of the server.
 *
 * There is one record for the server, in shared memory; src/core/clock.c decides
 * what becomes of it.  It is also in a file, since a clock that was set while
 * the server was down is as wrong as one that was set under it.  The file counts
 * for one boot of the machine, because the clock that never steps does, and for
 * one data directory: a copy may have another clock.  So it is written without
 * being flushed; a crash of the machine ends its boot.  Without it the clock is
 * believed as it is found, which costs the order of time but no uniqueness.
 */
#include "compat.h"

#include "shmem/clock_judge.h"

#include <unistd.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"

#include "clock.h"
#include "file_identity.h"
#include "kernel_clock.h"
#include "shmem/pool.h"
#include "settings.h"
#include "shmem/shmem.h"

/* Beside the files of pg_stat_statements and the like. */
#define CLOCK_FILE			"pg_stat/idgen_clock.stat"
#define CLOCK_FILE_MAGIC	0x1d6e0c10

#define BOOT_ID_FILE		"/proc/sys/kernel/random/boot_id"
#define BOOT_ID_SIZE		40

/* Two readings so close together are as good as one. */
#define READ_ERROR_US		INT64_C(100)
#define READ_TRIES			8

/* Shorter steps are not worth a line in the log. */
#define LOGGED_STEP_US		INT64_C(1000000)

/* The clock that never steps, and runs while the machine sleeps. */
#ifdef CLOCK_BOOTTIME
#define ELAPSED_CLOCK CLOCK_BOOTTIME
#else
#define ELAPSED_CLOCK CLOCK_MONOTONIC
#endif

typedef struct ClockFile
{
	uint32		magic;
	uint32		size;
	char		boot[BOOT_ID_SIZE];
	uint64		control_inode;
	int64		control_birth;
	IdgenClockRecord record;
	pg_crc32c	crc;			/* of all before it */
} ClockFile;

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
 * Read both clocks, as close together as can be.  Under the directory lock: a
 * reading from before a pause would look like a step against a later one.
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
 * The file
 * -------------------------------------------------------------------- */

/* What a file of this boot and data directory begins with; false if unknown. */
static bool
begin_file(ClockFile *contents)
{
	FILE	   *file = AllocateFile(BOOT_ID_FILE, "r");
	bool		known;

	memset(contents, 0, sizeof(*contents));
	if (file == NULL)
		return false;
	known = fgets(contents->boot, BOOT_ID_SIZE, file) != NULL;
	FreeFile(file);
	contents->magic = CLOCK_FILE_MAGIC;
	contents->size = sizeof(*contents);
	idgen_file_identity_read_control(&contents->control_inode,
								&contents->control_birth);
	return known;
}

static pg_crc32c
checksum(const ClockFile *contents)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, contents, offsetof(ClockFile, crc));
	FIN_CRC32C(crc);
	return crc;
}

/* The record of an earlier life of the server in this boot; false if none. */
static bool
read_file(IdgenClockRecord *record)
{
	ClockFile	here;
	ClockFile	saved;
	FILE	   *file;
	bool		complete;

	if (!begin_file(&here))
		return false;
	file = AllocateFile(CLOCK_FILE, PG_BINARY_R);
	if (file == NULL)
		return false;
	complete = fread(&saved, sizeof(saved), 1, file) == 1;
	FreeFile(file);
	if (!complete ||
		memcmp(&saved, &here, offsetof(ClockFile, record)) != 0 ||
		saved.crc != checksum(&saved))
		return false;
	*record = saved.record;
	return true;
}

/* False if it could not be written; then errno says why. */
static bool
write_file(const char *path, const ClockFile *contents)
{
	FILE	   *file = AllocateFile(path, PG_BINARY_W);
	bool		written;

	if (file == NULL)
		return false;
	written = fwrite(contents, sizeof(*contents), 1, file) == 1;
	return FreeFile(file) == 0 && written;
}

/* Write what is to be remembered; complains once. */
static void
save_record(const IdgenClockRecord *record)
{
	static bool complained = false;
	ClockFile	contents;

	if (!begin_file(&contents))
		return;
	contents.record = *record;
	contents.crc = checksum(&contents);
	if (write_file(CLOCK_FILE ".tmp", &contents) &&
		rename(CLOCK_FILE ".tmp", CLOCK_FILE) == 0)
		return;
	if (complained)
		return;
	complained = true;
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("could not write file \"%s\": %m", CLOCK_FILE),
			 errdetail("Steps of the clock while the server is down will not be noticed.")));
}

/* Write the file if something changed.  Whoever finds it busy leaves it. */
void
idgen_clock_judge_save(void)
{
	IdgenClockState *clock = &idgen_shared->clock;
	IdgenClockRecord record;
	uint64		version;

	if (clock->version == clock->saved_version ||
		!LWLockConditionalAcquire(&idgen_shared->clock_file_lock, LW_EXCLUSIVE))
		return;
	idgen_lock_directory();
	record = clock->record;
	version = clock->version;
	idgen_unlock_directory();

	save_record(&record);

	idgen_lock_directory();
	clock->saved_version = version;
	idgen_unlock_directory();
	LWLockRelease(&idgen_shared->clock_file_lock);
}

/* Once in the life of shared memory: go on from the file. */
static void
load_record(void)
{
	IdgenClockState *clock = &idgen_shared->clock;
	IdgenClockRecord record;
	bool		found = read_file(&record);

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
		clock->steps_back++;
	else
		clock->steps_forward++;
	clock->largest_step_us = Max(clock->largest_step_us,
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

	return psprintf(INT64_FORMAT ".%03d seconds %s", step_ms / 1000,
					(int) (step_ms % 1000), step_us < 0 ? "back" : "forward");
}

/* Say once that the clock is not believed, and once that it is again. */
static void
log_verdict(const IdgenClockRecord *record)
{
	IdgenClockState *clock = &idgen_shared->clock;
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
				 errhint("Correct the clock, or call idgen_confirm_clock() if it is right now.")));
	else if (say)
		ereport(LOG,
				(errmsg("idgen believes the system clock again")));
}

/*
 * Read the clock and judge it.  An error (IG005) if the directory is locked by
 * a stopped process.
 */
void
idgen_clock_judge(IdgenClockView *view)
{
	IdgenClockState *clock = &idgen_shared->clock;
	IdgenClockPolicy policy = {.max_step_us = (int64) idgen_max_clock_step_ms * 1000};
	IdgenKernelClock kernel;
	IdgenClockReading reading;
	IdgenClockRecord before;
	IdgenClockRecord after;
	IdgenClockFinding finding;

	if (!clock->loaded)
		load_record();

	/* a system call, and only asked for where it decides something */
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

/* Somebody says that the clock is right as it is. */
void
idgen_clock_judge_accept(void)
{
	IdgenClockState *clock = &idgen_shared->clock;
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

/* What to tell a caller of a clock that is not right. */
void
idgen_clock_judge_set_error(const IdgenClockView *view, IdgenError *error)
{
	char		detail[IDGEN_ERROR_TEXT_MAX];

	if (view->verdict == IDGEN_CLOCK_RIGHT)
	{
		idgen_error_set(error, IDGEN_ERROR_NONE, NULL, NULL);
		return;
	}
	snprintf(detail, sizeof(detail), "The system clock was set %s.",
			 step_text(view->step_ms * 1000));
	if (view->verdict == IDGEN_CLOCK_AHEAD)
	{
		strlcat(detail, " Nothing is granted for a time that may not be.", sizeof(detail));
		idgen_error_set(error, IDGEN_ERROR_CLOCK_AHEAD, detail, NULL);
		return;
	}
	strlcat(detail, " No ID is issued for an earlier time than before.", sizeof(detail));
	idgen_error_set(error, IDGEN_ERROR_CLOCK, detail, NULL);
	error->until_ms = view->latest_ms;
}

/* --------------------------------------------------------------------
 * SQL
 * -------------------------------------------------------------------- */

PG_FUNCTION_INFO_V1(idgen_confirm_clock);
Datum
idgen_confirm_clock(PG_FUNCTION_ARGS)
{
	idgen_require_preloaded();
	idgen_clock_judge_accept();
	ereport(LOG,
			(errmsg("the system clock was confirmed with idgen_confirm_clock()")));
	PG_RETURN_VOID();
}
