/*
 * alert.c
 *		Log conditions of a namespace, once per change of state.
 *
 * What has been logged is kept with the statistics, in shared memory, so that a
 * worker that comes and goes does not repeat it.
 */
#include "compat.h"

#include "authority/alert.h"

#include "access/xlog.h"
#include "common/hashfn.h"

#include "clock.h"
#include "settings.h"
#include "shmem/counters.h"

/* A field with less than this left is near its end. */
#define LIFETIME_SHORT_MS	(INT64_C(2) * 365 * 24 * 3600 * 1000)

/*
 * Workers are short when fewer than one in this many is free.  A range of a few
 * workers is meant to be used up.
 */
#define WORKERS_FREE_ONE_IN 10
#define WORKERS_FEW			8

/* Pauses of the authority process are logged no more often. */
#define PAUSES_APART_US		INT64_C(60000000)

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
begins(IdgenCounters *stats, IdgenAlert alert, bool holds)
{
	bool		begun = holds && !stats->alerted[alert] && may_log();

	stats->alerted[alert] = holds && (stats->alerted[alert] || begun);
	return begun;
}

static void
check_lifetime(const IdgenNamespace *ns, int64 now, IdgenCounters *stats)
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
			  const IdgenWorkerRange *range, IdgenCounters *stats)
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

static int
compare_roles(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* A role has its share of the workers, if that has not been said before. */
static void
say_share(const IdgenNamespace *ns, const char *role, int64 role_max, uint64 bit,
		  IdgenCounters *stats)
{
	if ((stats->shares_alerted & bit) == 0)
		ereport(LOG,
				(errmsg("role \"%s\" has all workers of idgen namespace \"%s\" that one role may have",
						role, ns->name),
				 errdetail("External generators of it have " INT64_FORMAT ".", role_max),
				 errhint("Deactivate incarnations no longer used, or let some generators activate as another role.")));
}

/*
 * Roles that can have no further external generator.  The workers as a whole may be
 * far from short then.
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
check_fsync(const IdgenNamespace *ns, IdgenCounters *stats)
{
	if (begins(stats, IDGEN_ALERT_FSYNC, !enableFsync))
		ereport(LOG,
				(errmsg("idgen namespace \"%s\" is not safe against a crash of the machine",
						ns->name),
				 errdetail("\"fsync\" is off, so grants are not durable."),
				 errhint("Turn \"fsync\" on.")));
}

/*
 * The authority worker begins a turn so much later than it should; of a pause it is
 * said once a minute at most.
 */
void
idgen_alert_pause(int64 late_us)
{
	static int64 said_at_us = 0;	/* monotonic */
	int64		now_us = idgen_clock_monotonic_us();

	if (!idgen_counters_note_authority_pause(late_us) ||
		(said_at_us != 0 && now_us - said_at_us < PAUSES_APART_US))
		return;
	said_at_us = now_us;
	ereport(LOG,
			(errmsg("the idgen authority process did not run for " INT64_FORMAT " ms",
					late_us / 1000),
			 errdetail("No grant was made in that time."),
			 errhint("Look whether the process or its machine was stopped, or has too few processors.")));
}

/*
 * Check a namespace of which a round has just been decided; stats may be NULL,
 * then nothing is said.
 */
void
idgen_alert_check(const IdgenNamespace *ns, const IdgenMarks *marks, int64 now,
				  const IdgenWorkerRange *range, IdgenCounters *stats)
{
	if (stats == NULL)
		return;
	check_lifetime(ns, now, stats);
	check_workers(ns, marks, now, range, stats);
	check_shares(ns, marks, now, range, stats);
	check_fsync(ns, stats);
}
