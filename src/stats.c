/*
 * stats.c
 *		Count, and show what is counted.
 */
#include "compat.h"

#include "stats.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/uuid.h"

#include "arguments.h"
#include "clock.h"
#include "kernel_clock.h"
#include "namespace.h"
#include "pool.h"

/* --------------------------------------------------------------------
 * Counting
 * -------------------------------------------------------------------- */

/* So long a cause that may have passed is told, without another look. */
#define STANDING_US	INT64_C(5000000)

/* Is this slot a cursor of that namespace?  Caller holds the lock. */
static bool
slot_of(const IdgenSlotInfo *info, const IdgenStats *stats)
{
	return (info->state == IDGEN_SLOT_ACTIVE || info->state == IDGEN_SLOT_DEAD) &&
		info->database == stats->database &&
		strcmp(info->namespace_name, stats->namespace_name) == 0;
}

/* Does any cursor belong to these statistics?  Caller holds the lock. */
static bool
in_use(const IdgenStats *stats)
{
	for (int i = 0; i < idgen_shared->slot_count; i++)
		if (slot_of(&idgen_shared->infos[i], stats))
			return true;
	return false;
}

/* Begin to count from zero.  Caller holds the lock exclusively. */
static void
reset_locked(IdgenStats *stats)
{
	for (int i = 0; i < IDGEN_COUNTER_COUNT; i++)
		pg_atomic_write_u64(&stats->counters[i], 0);
	memset(&stats->last_error, 0, sizeof(stats->last_error));
	stats->last_error_ms = 0;
	stats->reset_ms = idgen_clock_wall_ms();
}

/* The statistics of a namespace, or NULL.  Caller holds the lock. */
static IdgenStats *
find_stats(Oid database, const char *namespace_name)
{
	for (int i = 0; i < idgen_shared->stats_count; i++)
		if (idgen_shared->stats[i].database == database &&
			strcmp(idgen_shared->stats[i].namespace_name, namespace_name) == 0)
			return &idgen_shared->stats[i];
	return NULL;
}

/* One not in use, to be given to another namespace, or NULL. */
static IdgenStats *
find_unused(void)
{
	for (int i = 0; i < idgen_shared->stats_count; i++)
		if (!OidIsValid(idgen_shared->stats[i].database))
			return &idgen_shared->stats[i];
	for (int i = 0; i < idgen_shared->stats_count; i++)
		if (!in_use(&idgen_shared->stats[i]))
			return &idgen_shared->stats[i];
	return NULL;
}

/*
 * The statistics of a namespace, made if need be at the cost of one that no
 * cursor uses; NULL if there is no room.  Raises like idgen_lock_directory.
 */
IdgenStats *
idgen_stats_get(Oid database, const char *namespace_name)
{
	IdgenStats *stats;

	idgen_lock_directory(LW_EXCLUSIVE);
	stats = find_stats(database, namespace_name);
	if (stats == NULL)
		stats = find_unused();
	if (stats != NULL && (stats->database != database ||
						  strcmp(stats->namespace_name, namespace_name) != 0))
	{
		stats->database = database;
		strlcpy(stats->namespace_name, namespace_name, NAMEDATALEN);
		memset(stats->alerted, 0, sizeof(stats->alerted));
		stats->copied = false;
		stats->unconfirmed = 0;
		idgen_failure_set(&stats->standing, IDGEN_FAILURE_NONE, NULL, NULL);
		reset_locked(stats);
	}
	idgen_unlock_directory();
	return stats;
}

/* Does the authority refuse to grant, as a copy?  stats may be NULL. */
void
idgen_stats_set_copied(IdgenStats *stats, bool copied)
{
	if (stats == NULL || stats->copied == copied)
		return;
	idgen_lock_directory(LW_EXCLUSIVE);
	stats->copied = copied;
	idgen_unlock_directory();
}

/* How many grants and answers wait for standbys?  stats may be NULL. */
void
idgen_stats_set_unconfirmed(IdgenStats *stats, int count)
{
	if (stats == NULL || stats->unconfirmed == count)
		return;
	idgen_lock_directory(LW_EXCLUSIVE);
	stats->unconfirmed = count;
	idgen_unlock_directory();
}

/*
 * Why the authority grants nothing, for calls that cannot wait for its answer; kind
 * NONE if it does.  By the authority worker alone; stats may be NULL.
 */
void
idgen_stats_set_standing(IdgenStats *stats, const IdgenFailure *failure)
{
	if (stats == NULL || (stats->standing.kind == IDGEN_FAILURE_NONE &&
						  failure->kind == IDGEN_FAILURE_NONE))
		return;
	idgen_lock_directory(LW_EXCLUSIVE);
	stats->standing = *failure;
	stats->standing_us = idgen_clock_monotonic_us();
	idgen_unlock_directory();
}

/*
 * Is it known why nothing is granted?  What passes by itself is believed for a
 * while only; stats may be NULL.
 */
bool
idgen_stats_standing(const IdgenStats *stats, IdgenFailure *failure)
{
	bool		old;

	if (stats == NULL)
		return false;
	idgen_lock_directory(LW_SHARED);
	*failure = stats->standing;
	old = idgen_clock_monotonic_us() - stats->standing_us > STANDING_US;
	idgen_unlock_directory();
	if (failure->until_ms != 0)
		return failure->until_ms > idgen_clock_wall_ms();
	return failure->kind == IDGEN_FAILURE_COPIED ||
		(failure->kind != IDGEN_FAILURE_NONE && !old);
}

/* A worker begins: what its predecessor held is nobody's. */
void
idgen_stats_begin_worker(void)
{
	idgen_lock_directory(LW_EXCLUSIVE);
	for (int i = 0; i < idgen_shared->stats_count; i++)
		if (idgen_shared->stats[i].database == MyDatabaseId)
			idgen_shared->stats[i].unconfirmed = 0;
	idgen_unlock_directory();
}

/* Raise a counter that keeps a maximum; stats may be NULL. */
void
idgen_stats_max(IdgenStats *stats, IdgenCounter counter, uint64 value)
{
	uint64		known;

	if (stats == NULL)
		return;
	known = pg_atomic_read_u64(&stats->counters[counter]);
	while (value > known &&
		   !pg_atomic_compare_exchange_u64(&stats->counters[counter], &known,
										   value))
		;
}

/* Remember the last failure reported to a caller; stats may be NULL. */
void
idgen_stats_note_error(IdgenStats *stats, const IdgenFailure *failure)
{
	if (stats == NULL)
		return;
	idgen_stats_add(stats, IDGEN_COUNTER_ERRORS, 1);
	if (!LWLockConditionalAcquire(&idgen_shared->directory_lock, LW_EXCLUSIVE))
		return;
	stats->last_error = *failure;
	stats->last_error_ms = idgen_clock_wall_ms();
	idgen_unlock_directory();
}

/* --------------------------------------------------------------------
 * Showing
 * -------------------------------------------------------------------- */

static TimestampTz
timestamp_of_ms(int64 unix_ms)
{
	return (unix_ms - POSTGRES_EPOCH_MS) * 1000;
}

/* A time that may not be known. */
static Datum
optional_time(int64 unix_ms, bool *isnull)
{
	*isnull = unix_ms == 0;
	return TimestampTzGetDatum(timestamp_of_ms(unix_ms));
}

/*
 * IDs issued by the cursors of a namespace that live, or are dead and not
 * counted yet.  Caller holds the lock.
 */
static uint64
living_ids(const IdgenStats *stats)
{
	uint64		count = 0;

	for (int i = 0; i < idgen_shared->slot_count; i++)
		if (slot_of(&idgen_shared->infos[i], stats))
			count += idgen_slot(i)->issued_count;
	return count;
}

#define NAMESPACE_COUNTER_COLUMNS (1 + 1 + IDGEN_COUNTER_COUNT - 1 + 5)

/*
 * One row per namespace of this database that was used since shared memory
 * began: name, IDs, the counters in their order, last error, its time, since
 * when is counted, whether it is refused as a copy, and what waits for standbys.
 */
PG_FUNCTION_INFO_V1(idgen_stat_counters);
Datum
idgen_stat_counters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	IdgenStats *copies;
	uint64	   *ids;
	int			count = 0;

	idgen_require_preloaded();
	InitMaterializedSRF(fcinfo, 0);
	copies = palloc(idgen_shared->stats_count * sizeof(IdgenStats));
	ids = palloc(idgen_shared->stats_count * sizeof(uint64));
	idgen_lock_directory(LW_SHARED);
	for (int i = 0; i < idgen_shared->stats_count; i++)
		if (idgen_shared->stats[i].database == MyDatabaseId)
		{
			copies[count] = idgen_shared->stats[i];
			ids[count++] = living_ids(&idgen_shared->stats[i]);
		}
	idgen_unlock_directory();

	for (int i = 0; i < count; i++)
	{
		Datum		values[NAMESPACE_COUNTER_COLUMNS];
		bool		nulls[NAMESPACE_COUNTER_COLUMNS] = {false};
		int			n = 0;

		values[n++] = CStringGetTextDatum(copies[i].namespace_name);
		values[n++] = Int64GetDatum((int64)
									(ids[i] + pg_atomic_read_u64(&copies[i].counters[IDGEN_COUNTER_IDS_ENDED])));
		for (int j = IDGEN_COUNTER_IDS_ENDED + 1; j < IDGEN_COUNTER_COUNT; j++)
			values[n++] = Int64GetDatum((int64)
										pg_atomic_read_u64(&copies[i].counters[j]));
		nulls[n] = copies[i].last_error_ms == 0;
		values[n++] = CStringGetTextDatum(idgen_failure_name(copies[i].last_error.kind));
		values[n] = optional_time(copies[i].last_error_ms, &nulls[n]);
		n++;
		values[n] = optional_time(copies[i].reset_ms, &nulls[n]);
		n++;
		values[n++] = BoolGetDatum(copies[i].copied);
		values[n] = Int32GetDatum(copies[i].unconfirmed);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

#define CURSOR_COLUMNS 10

/* One row per cursor of this server, of all databases. */
PG_FUNCTION_INFO_V1(idgen_stat_cursors);
Datum
idgen_stat_cursors(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	IdgenSlotInfo *infos;
	IdgenCursor *cursors;
	uint64	   *issued;
	int			count = 0;
	int64		now_ms = idgen_clock_wall_ms();

	idgen_require_preloaded();
	InitMaterializedSRF(fcinfo, 0);
	infos = palloc(idgen_shared->slot_count * sizeof(IdgenSlotInfo));
	cursors = palloc(idgen_shared->slot_count * sizeof(IdgenCursor));
	issued = palloc(idgen_shared->slot_count * sizeof(uint64));
	idgen_lock_directory(LW_SHARED);
	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		IdgenSlot  *slot = idgen_slot(i);

		if (idgen_shared->infos[i].state != IDGEN_SLOT_ACTIVE)
			continue;
		infos[count] = idgen_shared->infos[i];

		/* a busy cursor is read all the same: this is for watching */
		if (idgen_lock_within(&slot->lock, LW_SHARED, 100))
		{
			cursors[count] = slot->cursor;
			issued[count] = slot->issued_count;
			LWLockRelease(&slot->lock);
		}
		else
		{
			cursors[count] = slot->cursor;
			issued[count] = slot->issued_count;
		}
		count++;
	}
	idgen_unlock_directory();

	for (int i = 0; i < count; i++)
	{
		Datum		values[CURSOR_COLUMNS];
		bool		nulls[CURSOR_COLUMNS] = {false};
		int64		until_ms = infos[i].epoch_ms +
			idgen_cursor_granted_end(&cursors[i]) * infos[i].tick_ms;

		values[0] = ObjectIdGetDatum(infos[i].database);
		values[1] = CStringGetTextDatum(infos[i].namespace_name);
		values[2] = UUIDPGetDatum(&infos[i].namespace_uuid);
		values[3] = Int32GetDatum(infos[i].worker);
		values[4] = Int64GetDatum(infos[i].incarnation);
		values[5] = Int64GetDatum((int64) issued[i]);
		nulls[6] = cursors[i].last_tick < 0;
		values[6] = TimestampTzGetDatum(timestamp_of_ms(infos[i].epoch_ms +
														cursors[i].last_tick *
														infos[i].tick_ms));
		values[7] = Int64GetDatum(cursors[i].next_sequence);
		values[8] = TimestampTzGetDatum(timestamp_of_ms(until_ms));
		values[9] = Int64GetDatum(until_ms - now_ms);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

static const char *
verdict_name(IdgenClockVerdict verdict)
{
	switch (verdict)
	{
		case IDGEN_CLOCK_RIGHT:
			return "right";
		case IDGEN_CLOCK_BEHIND:
			return "behind";
		case IDGEN_CLOCK_AHEAD:
			return "ahead";
	}
	return "";
}

#define AUTHORITY_COLUMNS 18

/* One row: the authority worker of this database, and this server. */
PG_FUNCTION_INFO_V1(idgen_stat_worker);
Datum
idgen_stat_worker(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum		values[AUTHORITY_COLUMNS];
	bool		nulls[AUTHORITY_COLUMNS] = {false};
	IdgenDatabase copy;
	IdgenKernelClock clock;
	IdgenClockState judged;
	int			cursors_in_use = 0;
	int			waiting = 0;

	idgen_require_preloaded();
	InitMaterializedSRF(fcinfo, 0);
	memset(&copy, 0, sizeof(copy));
	idgen_lock_directory(LW_SHARED);
	judged = idgen_shared->clock;
	for (int i = 0; i < idgen_shared->database_count; i++)
		if (idgen_shared->databases[i].database == MyDatabaseId)
			copy = idgen_shared->databases[i];
	for (int i = 0; i < idgen_shared->slot_count; i++)
		if (idgen_shared->infos[i].state == IDGEN_SLOT_RESERVED ||
			idgen_shared->infos[i].state == IDGEN_SLOT_ACTIVE)
			cursors_in_use++;
	for (int i = 0; i < idgen_shared->request_count; i++)
		if (idgen_shared->requests[i].state == IDGEN_REQUEST_PENDING &&
			idgen_shared->requests[i].database == MyDatabaseId)
			waiting++;
	idgen_unlock_directory();
	idgen_kernel_clock_read(&clock);

	nulls[0] = copy.worker_pid == 0;
	values[0] = Int32GetDatum(copy.worker_pid);
	values[1] = optional_time(copy.worker_started_ms, &nulls[1]);
	values[2] = optional_time(copy.last_round_ms, &nulls[2]);
	values[3] = Int64GetDatum((int64) copy.rounds);
	values[4] = Int64GetDatum((int64) copy.grants);
	values[5] = Int32GetDatum(waiting);
	values[6] = Int32GetDatum(cursors_in_use);
	values[7] = Int32GetDatum(idgen_shared->slot_count - cursors_in_use);
	values[8] = BoolGetDatum(RecoveryInProgress());
	values[9] = BoolGetDatum(enableFsync);
	nulls[10] = nulls[11] = nulls[12] = !clock.known;
	values[10] = BoolGetDatum(clock.synchronised);
	values[11] = Int64GetDatum(clock.offset_us);
	values[12] = Int64GetDatum(clock.max_error_us);
	values[13] = CStringGetTextDatum(verdict_name(judged.record.verdict));
	values[14] = Int64GetDatum(idgen_step_pending(&judged.record) / 1000);
	values[15] = Int64GetDatum((int64) judged.steps_back);
	values[16] = Int64GetDatum((int64) judged.steps_forward);
	values[17] = Int64GetDatum(judged.largest_step_us / 1000);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	return (Datum) 0;
}

/* Count from zero again, for all namespaces of this database. */
PG_FUNCTION_INFO_V1(idgen_stat_reset);
Datum
idgen_stat_reset(PG_FUNCTION_ARGS)
{
	idgen_require_preloaded();
	idgen_lock_directory(LW_EXCLUSIVE);
	for (int i = 0; i < idgen_shared->stats_count; i++)
	{
		IdgenStats *stats = &idgen_shared->stats[i];

		if (stats->database != MyDatabaseId)
			continue;
		reset_locked(stats);

		/* the count of living cursors is theirs; take it off here, modulo 2^64 */
		pg_atomic_write_u64(&stats->counters[IDGEN_COUNTER_IDS_ENDED],
							-living_ids(stats));
	}
	idgen_unlock_directory();
	PG_RETURN_VOID();
}
