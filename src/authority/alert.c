/*
 * alert.c
 *		Log conditions of namespaces when they begin, and failures now and then.
 *
 * Which conditions have been logged is kept with the statistics, in shared
 * memory, so that an authority process that comes and goes does not repeat
 * them.
 */
#include "compat.h"

#include "authority/alert.h"

#include "access/xlog.h"
#include "common/hashfn.h"

#include "clock.h"
#include "settings.h"
#include "shmem/counters.h"

/* A timestamp field with less than this left is near its end. */
#define LIFETIME_SHORT_MS	(INT64_C(2) * 365 * 24 * 3600 * 1000)

/*
 * Workers run short when fewer than one in this many are free.  A range of
 * fewer than WORKERS_FEW is meant to be used up.
 */
#define WORKERS_FREE_ONE_IN 10
#define WORKERS_FEW			8

/* Pauses of the authority process are logged at least this far apart. */
#define PAUSES_APART_US		INT64_C(60000000)

/*
 * A failure that comes again within this time is not logged again.  On a full
 * disk, say, one table fails after the other, and some rounds succeed in
 * between.
 */
#define FAILURES_APART_US	INT64_C(60000000)

/* At most this many messages a minute from one database. */
#define ALERTS_MAX			20
#define MINUTE_US			INT64_C(60000000)

/*
 * May another message be logged in this minute?  What was logged is noted in
 * the statistics of a namespace, and where namespaces are many, statistics are
 * taken from one and given to another.  Without a limit the same condition
 * would be logged as often as that happens.
 */
static bool
may_log(IdgenAlerts *alerts)
{
	int64		now_us = idgen_clock_monotonic_us();

	if (alerts->minute_us == 0 || now_us - alerts->minute_us >= MINUTE_US)
	{
		alerts->minute_us = now_us;
		alerts->count = 0;
	}
	return alerts->count++ < ALERTS_MAX;
}

/*
 * Note a condition; true if it has just begun to hold, and is to be logged.  A
 * condition that may not be logged yet does not count as begun.
 */
static bool
begins(IdgenAlerts *alerts, IdgenCounters *stats, IdgenAlert alert, bool holds)
{
	bool		begun = holds && !stats->alerted[alert] && may_log(alerts);

	stats->alerted[alert] = holds && (stats->alerted[alert] || begun);
	return begun;
}

static void
check_lifetime(IdgenAlerts *alerts, const IdgenNamespace *ns, int64 now,
			   IdgenCounters *stats)
{
	const IdgenLayout *layout = &ns->row.layout;
	int64		left = idgen_layout_tick_count(layout) - now;
	bool		is_short = left < LIFETIME_SHORT_MS / layout->tick_ms;

	if (begins(alerts, stats, IDGEN_ALERT_LIFETIME, is_short))
		ereport(LOG,
				(errmsg("the timestamp field of idgen namespace \"%s\" lasts less than two years",
						ns->name),
				 errdetail("It ends in " INT64_FORMAT " days.",
						   left * layout->tick_ms / (24 * 3600 * 1000)),
				 errhint("Create a namespace with a later epoch or more timestamp bits, and issue from it.")));
}

static void
check_workers(IdgenAlerts *alerts, const IdgenNamespace *ns, const IdgenMarks *marks,
			  int64 now, const IdgenWorkerRange *range, IdgenCounters *stats)
{
	int64		workers = idgen_worker_range_size(range);
	int64		reserved = 0;

	for (int i = 0; i < marks->count; i++)
		if (marks->marks[i].high_water > now &&
			idgen_worker_in_range(range, marks->marks[i].worker))
			reserved++;
	if (begins(alerts, stats, IDGEN_ALERT_WORKERS, workers >= WORKERS_FEW &&
			   workers - reserved < (workers + WORKERS_FREE_ONE_IN - 1) /
			   WORKERS_FREE_ONE_IN))
		ereport(LOG,
				(errmsg("idgen namespace \"%s\" is running out of workers", ns->name),
				 errdetail(INT64_FORMAT " of " INT64_FORMAT " workers are reserved.",
						   reserved, workers),
				 errhint("Deactivate incarnations that are no longer used, or use a namespace with more worker bits.")));
}

static int
compare_roles(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/*
 * Say that a role has its share of the workers, if that has not been said
 * before.
 */
static void
say_share(const IdgenNamespace *ns, const char *role, int64 role_max, uint64 bit,
		  IdgenCounters *stats)
{
	if ((stats->shares_alerted & bit) == 0)
		ereport(LOG,
				(errmsg("role \"%s\" has reached its limit of workers in idgen namespace \"%s\"",
						role, ns->name),
				 errdetail("Its external generators hold " INT64_FORMAT " workers.", role_max),
				 errhint("Deactivate incarnations that are no longer used, or let some generators activate as another role.")));
}

/*
 * Find roles that can have no further external generator.  The namespace as a
 * whole may have plenty of workers then.
 */
static void
check_shares(const IdgenNamespace *ns, const IdgenMarks *marks, int64 now,
			 const IdgenWorkerRange *range, IdgenCounters *stats)
{
	int64		workers = idgen_worker_range_size(range);
	int64		role_max = idgen_external_role_max(idgen_external_workers_max(workers,
																			  idgen_max_workers_per_namespace));
	const char **roles = palloc((marks->count + 1) * sizeof(char *));
	int			count = 0;
	uint64		alerted = 0;

	for (int i = 0; i < marks->count; i++)
		if (idgen_marks_is_held(&marks->marks[i], range, now))
			roles[count++] = marks->marks[i].role;
	if (workers >= WORKERS_FEW && count >= role_max)
		qsort(roles, count, sizeof(char *), compare_roles);
	else
		count = 0;
	for (int begin = 0, end; begin < count; begin = end)
	{
		uint64		bit = UINT64CONST(1) <<
			hash_bytes((const unsigned char *) roles[begin], (int) strlen(roles[begin])) % 64;

		for (end = begin; end < count && strcmp(roles[end], roles[begin]) == 0;)
			end++;
		if (end - begin < role_max)
			continue;
		say_share(ns, roles[begin], end - begin, bit, stats);
		alerted |= bit;
	}
	stats->shares_alerted = alerted;
	pfree(roles);
}

static void
check_fsync(IdgenAlerts *alerts, const IdgenNamespace *ns, IdgenCounters *stats)
{
	if (begins(alerts, stats, IDGEN_ALERT_FSYNC, !enableFsync))
		ereport(LOG,
				(errmsg("idgen namespace \"%s\" is not safe against a crash of the machine",
						ns->name),
				 errdetail("\"fsync\" is off, so grants are not durable."),
				 errhint("Turn \"fsync\" on.")));
}

/*
 * The authority process begins a round this much later than it should.  A
 * pause is logged once a minute at most.
 */
void
idgen_alert_pause(IdgenAlerts *alerts, int64 late_us)
{
	int64		now_us = idgen_clock_monotonic_us();

	if (!idgen_counters_note_authority_pause(late_us) ||
		(alerts->pause_us != 0 && now_us - alerts->pause_us < PAUSES_APART_US))
		return;
	alerts->pause_us = now_us;
	ereport(LOG,
			(errmsg("the idgen authority process did not run for " INT64_FORMAT " ms",
					late_us / 1000),
			 errdetail("No grant was made in that time."),
			 errhint("Check whether the process or the machine was stopped, or the machine has too few processors.")));
}

/* Guards of tables were set right; "tables" names them. */
void
idgen_alert_mended(IdgenAlerts *alerts, const char *tables)
{
	if (may_log(alerts))
		ereport(LOG,
				(errmsg("the idgen authority process has set guards of its tables to ENABLE ALWAYS again"),
				 errdetail("DISABLE and ENABLE TRIGGER ALL were run on %s. Each namespace is checked before its next grant.",
						   tables),
				 errhint("Exclude schema \"_idgen\" from tools that disable the triggers of all tables.")));
}

/*
 * A round has failed.  A failure of the same kind is not logged again and
 * again.
 */
void
idgen_alert_failure(IdgenAlerts *alerts, const char *message, int sqlstate)
{
	int64		now_us = idgen_clock_monotonic_us();
	bool		again = sqlstate == alerts->failure &&
		now_us - alerts->failure_us < FAILURES_APART_US;

	alerts->failure = sqlstate;
	alerts->failure_us = now_us;
	if (!again)
		ereport(LOG,
				(errmsg("idgen authority process could not write grants: %s", message),
				 errdetail("It keeps trying. A failure of this kind is logged again only after a minute without one.")));
}

/*
 * Check a namespace for which a round has just decided.  Without statistics,
 * which may be NULL, nothing is logged.
 */
void
idgen_alert_check(IdgenAlerts *alerts, const IdgenNamespace *ns,
				  const IdgenMarks *marks, int64 now, const IdgenWorkerRange *range,
				  IdgenCounters *stats)
{
	if (stats == NULL)
		return;
	check_lifetime(alerts, ns, now, stats);
	check_workers(alerts, ns, marks, now, range, stats);
	check_shares(ns, marks, now, range, stats);
	check_fsync(alerts, ns, stats);
}
