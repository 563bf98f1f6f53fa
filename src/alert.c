/*
 * alert.c
 *		Log conditions of a namespace, once per change of state.
 *
 * What has been logged is kept with the statistics, in shared memory, so that a
 * worker that comes and goes does not repeat it.
 */
#include "compat.h"

#include "alert.h"

#include "access/xlog.h"

#include "clock.h"

/* A field with less than this left is near its end. */
#define LIFETIME_SHORT_MS	(INT64_C(2) * 365 * 24 * 3600 * 1000)

/*
 * Workers are short when fewer than one in this many is free.  A range of a few
 * workers is meant to be used up.
 */
#define WORKERS_FREE_ONE_IN 10
#define WORKERS_FEW			8

/* So many messages in a minute, from one database. */
#define ALERTS_MAX			20
#define ALERTS_WITHIN_US	INT64_C(60000000)

/*
 * Is another message a minute too many?  What was logged is noted in the statistics of a
 * namespace, which are given to others where namespaces are many: then it would be
 * logged again and again, as fast as they are used.
 */
static bool
may_log(void)
{
	static int64 since_us = 0;
	static int	count = 0;
	int64		now_us = idgen_clock_monotonic_us();

	if (since_us == 0 || now_us - since_us >= ALERTS_WITHIN_US)
	{
		since_us = now_us;
		count = 0;
	}
	return count++ < ALERTS_MAX;
}

/*
 * Note a condition; true if it has just begun to hold, and is to be logged.  What is
 * not logged has not begun yet.
 */
static bool
begins(IdgenStats *stats, IdgenAlert alert, bool holds)
{
	bool		begun = holds && !stats->alerted[alert] && may_log();

	stats->alerted[alert] = holds && (stats->alerted[alert] || begun);
	return begun;
}

static void
check_lifetime(const IdgenNamespace *ns, int64 now, IdgenStats *stats)
{
	const IdgenLayout *layout = &ns->row.layout;
	int64		left = idgen_layout_tick_count(layout) - now;
	bool		is_short = left < LIFETIME_SHORT_MS / layout->tick_ms;

	if (begins(stats, IDGEN_ALERT_LIFETIME, is_short))
		ereport(LOG,
				(errmsg("the timestamp field of idgen namespace \"%s\" lasts less than two years",
						ns->name),
				 errdetail("It ends in " INT64_FORMAT " days.",
						   left * layout->tick_ms / (24 * 3600 * 1000)),
				 errhint("Create a namespace with a later epoch or more timestamp bits, and issue from it.")));
}

static void
check_workers(const IdgenNamespace *ns, const IdgenMarks *marks, int64 now,
			  const IdgenWorkerRange *range, IdgenStats *stats)
{
	int64		workers = idgen_worker_range_size(range);
	int64		reserved = 0;

	for (int i = 0; i < marks->count; i++)
		if (marks->marks[i].high_water > now &&
			idgen_worker_in_range(range, marks->marks[i].worker))
			reserved++;
	if (begins(stats, IDGEN_ALERT_WORKERS, workers >= WORKERS_FEW &&
			   workers - reserved < (workers + WORKERS_FREE_ONE_IN - 1) /
			   WORKERS_FREE_ONE_IN))
		ereport(LOG,
				(errmsg("workers of idgen namespace \"%s\" run short", ns->name),
				 errdetail(INT64_FORMAT " of " INT64_FORMAT " are reserved.",
						   reserved, workers),
				 errhint("Deactivate incarnations no longer used, or use a namespace with more worker bits.")));
}

static void
check_fsync(const IdgenNamespace *ns, IdgenStats *stats)
{
	if (begins(stats, IDGEN_ALERT_FSYNC, !enableFsync))
		ereport(LOG,
				(errmsg("idgen namespace \"%s\" is not safe against a crash of the machine",
						ns->name),
				 errdetail("\"fsync\" is off, so grants are not durable."),
				 errhint("Turn \"fsync\" on.")));
}

/*
 * Check a namespace of which a round has just been decided; stats may be NULL,
 * then nothing is said.
 */
void
idgen_alert_check(const IdgenNamespace *ns, const IdgenMarks *marks, int64 now,
				  const IdgenWorkerRange *range, IdgenStats *stats)
{
	if (stats == NULL)
		return;
	check_lifetime(ns, now, stats);
	check_workers(ns, marks, now, range, stats);
	check_fsync(ns, stats);
}
