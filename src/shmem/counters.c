/*
 * counters.c
 *		Count, and show what is counted.
 */
#include "compat.h"

#include "shmem/counters.h"

#include "access/xlog.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/uuid.h"

#include "sql/arguments.h"
#include "clock.h"
#include "kernel_clock.h"
#include "catalog/namespace_cache.h"
#include "shmem/authorities.h"
#include "shmem/pool.h"
#include "shmem/request_queue.h"

/* How long to try to give statistics to a namespace. */
#define GIVE_WITHIN_US	INT64_C(1000)

/* --------------------------------------------------------------------
 * Counting
 * -------------------------------------------------------------------- */

/* So long a cause that may have passed is told, without another look. */
#define STANDING_US	INT64_C(5000000)

/*
 * A process that comes so much later than it should was stopped, or was not given a
 * processor: a scheduler alone does not take so long, unless the machine is overloaded.
 */
#define PAUSE_US	INT64_C(1000000)

/*
 * Which statistics belong to a cursor, or to a reservation for one?  By index;
 * the result is palloc'd.
 */
static bool *
find_used(void)
{
	bool	   *used = palloc0(idgen_shared->stats_count * sizeof(bool));

	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		IdgenSlotInfo info;
		IdgenSlotPhase phase;

		if (idgen_pool_read(i, &info, &phase) && info.stats >= 0)
			used[info.stats] = true;
	}
	return used;
}

/* What cursors count themselves. */
typedef struct IdgenIssued
{
	uint64		ids;
	uint64		ticks;
} IdgenIssued;

/*
 * What was issued by the cursors that live, or are dead and not counted yet, by
 * statistics.  The result is palloc'd.
 */
static IdgenIssued *
issued_by_living(void)
{
	IdgenIssued *issued = palloc0(idgen_shared->stats_count * sizeof(IdgenIssued));

	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		IdgenSlotInfo info;
		IdgenSlotPhase phase;

		if (idgen_pool_read(i, &info, &phase) && info.stats >= 0 &&
			phase != IDGEN_SLOT_RESERVED)
		{
			issued[info.stats].ids += idgen_slot(i)->issued_count;
			issued[info.stats].ticks += idgen_slot(i)->tick_count;
		}
	}
	return issued;
}

/*
 * Begin to count from zero.  The count of living cursors is theirs; it is taken off
 * here, modulo 2^64.
 */
static void
reset(IdgenStats *stats, IdgenIssued living)
{
	for (int i = 0; i < IDGEN_COUNTER_COUNT; i++)
		pg_atomic_write_u64(&stats->counters[i], 0);
	pg_atomic_write_u64(&stats->counters[IDGEN_COUNTER_IDS_ENDED], -living.ids);
	pg_atomic_write_u64(&stats->counters[IDGEN_COUNTER_TICKS_ENDED], -living.ticks);
	pg_atomic_write_u64(&stats->last_error, 0);
	pg_atomic_write_u64(&stats->reset_ms, (uint64) idgen_clock_wall_ms());
}

/* The key of a namespace; never 0. */
static uint64
make_key(Oid database, const char *namespace_name)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) namespace_name,
										   (int) strlen(namespace_name), database);

	return hash == 0 ? 1 : hash;
}

/*
 * The statistics of a namespace, or NULL.  Without a lock: should they be given
 * away meanwhile, something is counted in the wrong place.
 */
static IdgenStats *
find_stats(Oid database, const char *namespace_name)
{
	uint64		key = make_key(database, namespace_name);

	for (int i = 0; i < idgen_shared->stats_count; i++)
	{
		IdgenStats *stats = &idgen_shared->stats[i];

		if (pg_atomic_read_u64(&stats->key) != key)
			continue;
		pg_read_barrier();
		if (stats->database == database &&
			strcmp(stats->namespace_name, namespace_name) == 0)
			return stats;
	}
	return NULL;
}

/*
 * One not in use, to be given to another namespace, or NULL: one that nobody has,
 * or else one that no cursor counts in.  Caller holds stats_lock.
 */
static IdgenStats *
find_unused(const bool *used)
{
	for (int has_key = 0; has_key <= 1; has_key++)
		for (int i = 0; i < idgen_shared->stats_count; i++)
		{
			IdgenStats *stats = &idgen_shared->stats[i];

			if (!used[i] && (pg_atomic_read_u64(&stats->key) != 0) == has_key)
				return stats;
		}
	return NULL;
}

/* Give statistics to a namespace.  Caller holds stats_lock. */
static void
give(IdgenStats *stats, Oid database, const char *namespace_name)
{
	pg_atomic_write_u64(&stats->key, 0);
	pg_write_barrier();
	stats->database = database;
	strlcpy(stats->namespace_name, namespace_name, NAMEDATALEN);
	memset(stats->alerted, 0, sizeof(stats->alerted));
	stats->copied = false;
	stats->unconfirmed = 0;
	stats->standing.kind = IDGEN_ERROR_NONE;
	stats->shares_alerted = 0;
	reset(stats, (IdgenIssued) {0, 0});
	pg_write_barrier();
	pg_atomic_write_u64(&stats->key, make_key(database, namespace_name));
}

/*
 * The statistics of a namespace, made if need be at the cost of one that no
 * cursor uses.  NULL if there is no room, or somebody is stopped while it makes
 * some: then nothing is counted, and nobody waits for that.
 */
IdgenStats *
idgen_stats_get(Oid database, const char *namespace_name)
{
	IdgenStats *stats = find_stats(database, namespace_name);
	bool	   *used;

	if (stats != NULL)
		return stats;
	used = find_used();
	if (idgen_lock_within(&idgen_shared->stats_lock, LW_EXCLUSIVE, GIVE_WITHIN_US))
	{
		stats = find_stats(database, namespace_name);
		if (stats == NULL && (stats = find_unused(used)) != NULL)
			give(stats, database, namespace_name);
		LWLockRelease(&idgen_shared->stats_lock);
	}
	pfree(used);
	return stats;
}

/*
 * A database, or the extension in it, was dropped: its statistics are those of
 * nothing.  At commit, so without failing or waiting.
 */
void
idgen_stats_forget(Oid database)
{
	for (int i = 0; i < idgen_shared->stats_count; i++)
	{
		IdgenStats *stats = &idgen_shared->stats[i];
		uint64		key = pg_atomic_read_u64(&stats->key);

		pg_read_barrier();
		if (key != 0 && stats->database == database)
			(void) pg_atomic_compare_exchange_u64(&stats->key, &key, 0);
	}
}

/* Does the authority refuse to grant, as a copy?  stats may be NULL. */
void
idgen_stats_set_copied(IdgenStats *stats, bool copied)
{
	if (stats != NULL)
		stats->copied = copied;
}

/* How many grants and answers wait for standbys?  stats may be NULL. */
void
idgen_stats_set_unconfirmed(IdgenStats *stats, int count)
{
	if (stats != NULL)
		stats->unconfirmed = count;
}

/*
 * Why the authority grants nothing, for calls that cannot wait for its answer; kind
 * NONE if it does.  By the authority worker alone; stats may be NULL.
 */
void
idgen_stats_set_standing(IdgenStats *stats, const IdgenError *error)
{
	if (stats == NULL || (stats->standing.kind == IDGEN_ERROR_NONE &&
						  error->kind == IDGEN_ERROR_NONE))
		return;
	idgen_lock_directory();
	stats->standing = *error;
	stats->standing_us = idgen_clock_monotonic_us();
	idgen_unlock_directory();
}

/*
 * Is it known why nothing is granted?  What passes by itself is believed for a
 * while only; stats may be NULL.
 */
bool
idgen_stats_standing(const IdgenStats *stats, IdgenError *error)
{
	bool		old;

	if (stats == NULL)
		return false;
	idgen_lock_directory();
	*error = stats->standing;
	old = idgen_clock_monotonic_us() - stats->standing_us > STANDING_US;
	idgen_unlock_directory();
	if (error->until_ms != 0)
		return error->until_ms > idgen_clock_wall_ms();
	return error->kind == IDGEN_ERROR_COPIED ||
		(error->kind != IDGEN_ERROR_NONE && !old);
}

/* A worker begins: what its predecessor held is nobody's. */
void
idgen_stats_begin_authority(void)
{
	for (int i = 0; i < idgen_shared->stats_count; i++)
		if (idgen_shared->stats[i].database == MyDatabaseId)
			idgen_shared->stats[i].unconfirmed = 0;
}

static void
raise_to(pg_atomic_uint64 *maximum, uint64 value)
{
	uint64		known = pg_atomic_read_u64(maximum);

	while (value > known &&
		   !pg_atomic_compare_exchange_u64(maximum, &known, value))
		;
}

/* Raise a counter that keeps a maximum; stats may be NULL. */
void
idgen_stats_max(IdgenStats *stats, IdgenCounter counter, uint64 value)
{
	if (stats != NULL)
		raise_to(&stats->counters[counter], value);
}

/*
 * A process came so much later than it should.  Less than PAUSE_US is nothing, and so
 * is a time that is not over yet; stats may be NULL.
 */
void
idgen_stats_note_pause(IdgenStats *stats, int64 late_us)
{
	if (late_us < PAUSE_US)
		return;
	idgen_stats_add(stats, IDGEN_COUNTER_PAUSES, 1);
	idgen_stats_max(stats, IDGEN_COUNTER_PAUSE_MAX_US, (uint64) late_us);
}

/* The same, in a namespace of this database, if anything is counted there. */
void
idgen_stats_note_pause_in(const char *namespace_name, int64 late_us)
{
	if (late_us >= PAUSE_US)
		idgen_stats_note_pause(find_stats(MyDatabaseId, namespace_name), late_us);
}

/* The same of an authority worker; true if it was a pause. */
bool
idgen_stats_note_authority_pause(int64 late_us)
{
	if (late_us < PAUSE_US)
		return false;
	pg_atomic_fetch_add_u64(&idgen_shared->authority_pauses, 1);
	raise_to(&idgen_shared->authority_pause_max_us, (uint64) late_us);
	return true;
}

/*
 * Somebody was refused for want of a privilege.  That is counted apart and is not the
 * last error, so that strangers can neither raise an alarm nor hide the cause of one.
 * stats may be NULL.
 */
void
idgen_stats_note_refusal(IdgenStats *stats)
{
	idgen_stats_add(stats, IDGEN_COUNTER_REFUSALS, 1);
}

/* Remember the last failure reported to a caller; stats may be NULL. */
void
idgen_stats_note_error(IdgenStats *stats, const IdgenError *error)
{
	if (stats == NULL)
		return;
	if (error->kind == IDGEN_ERROR_FORBIDDEN ||
		error->kind == IDGEN_ERROR_NOT_OWNER)
	{
		idgen_stats_note_refusal(stats);
		return;
	}
	idgen_stats_add(stats, IDGEN_COUNTER_ERRORS, 1);
	pg_atomic_write_u64(&stats->last_error,
						(uint64) idgen_clock_wall_ms() << 8 | (uint64) error->kind);
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

/* Copy statistics; false if they are nobody's. */
static bool
read_stats(int index, IdgenStats *copy)
{
	const IdgenStats *stats = &idgen_shared->stats[index];
	uint64		key;

	do
	{
		key = pg_atomic_read_u64(unconstify(pg_atomic_uint64 *, &stats->key));
		pg_read_barrier();
		*copy = *stats;
		pg_read_barrier();
	} while (key != pg_atomic_read_u64(unconstify(pg_atomic_uint64 *, &stats->key)));
	return key != 0;
}

#define NAMESPACE_COUNTER_COLUMNS (1 + 1 + IDGEN_COUNTER_COUNT - 2 + 6)

/*
 * One row per namespace of this database that was used since shared memory
 * began: name, IDs, the counters in their order, last error, its time, since
 * when is counted, whether it is refused as a copy, what waits for standbys, and ticks.
 */
PG_FUNCTION_INFO_V1(idgen_stat_counters);
Datum
idgen_stat_counters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	IdgenIssued *issued;

	idgen_require_preloaded();
	InitMaterializedSRF(fcinfo, 0);
	issued = issued_by_living();
	for (int i = 0; i < idgen_shared->stats_count; i++)
	{
		Datum		values[NAMESPACE_COUNTER_COLUMNS];
		bool		nulls[NAMESPACE_COUNTER_COLUMNS] = {false};
		int			n = 0;
		IdgenStats	copy;
		uint64		error;

		if (!read_stats(i, &copy) || copy.database != MyDatabaseId)
			continue;
		error = pg_atomic_read_u64(&copy.last_error);
		values[n++] = CStringGetTextDatum(copy.namespace_name);
		values[n++] = Int64GetDatum((int64)
									(issued[i].ids + pg_atomic_read_u64(&copy.counters[IDGEN_COUNTER_IDS_ENDED])));
		for (int j = IDGEN_COUNTER_TICKS_ENDED + 1; j < IDGEN_COUNTER_COUNT; j++)
			values[n++] = Int64GetDatum((int64) pg_atomic_read_u64(&copy.counters[j]));
		nulls[n] = error == 0;
		values[n++] = CStringGetTextDatum(idgen_error_name((IdgenErrorKind) (error & 0xff)));
		values[n] = optional_time((int64) (error >> 8), &nulls[n]);
		n++;
		values[n] = optional_time((int64) pg_atomic_read_u64(&copy.reset_ms), &nulls[n]);
		n++;
		values[n++] = BoolGetDatum(copy.copied);
		values[n++] = Int32GetDatum(copy.unconfirmed);
		values[n] = Int64GetDatum((int64)
								  (issued[i].ticks + pg_atomic_read_u64(&copy.counters[IDGEN_COUNTER_TICKS_ENDED])));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * The name of a namespace, as text of this database: that of another database may be
 * in another encoding.  What is no text here is shown byte by byte.
 */
static Datum
name_as_text(const IdgenSlotInfo *info)
{
	const char *name = info->namespace_name;
	StringInfoData escaped;

	if (info->database == MyDatabaseId ||
		pg_verify_mbstr(GetDatabaseEncoding(), name, (int) strlen(name), true))
		return CStringGetTextDatum(name);
	initStringInfo(&escaped);
	for (; *name != '\0'; name++)
		if (IS_HIGHBIT_SET(*name))
			appendStringInfo(&escaped, "\\x%02x", (unsigned char) *name);
		else
			appendStringInfoChar(&escaped, *name);
	return CStringGetTextDatum(escaped.data);
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
	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		IdgenSlot  *slot = idgen_slot(i);
		IdgenSlotPhase phase;
		bool		locked;

		if (!idgen_pool_read(i, &infos[count], &phase) || phase != IDGEN_SLOT_ACTIVE)
			continue;

		/* a busy cursor is read all the same: this is for watching */
		locked = idgen_lock_within(&slot->lock, LW_SHARED, 100);
		cursors[count] = slot->cursor;
		issued[count] = slot->issued_count;
		if (locked)
			LWLockRelease(&slot->lock);
		count++;
	}

	for (int i = 0; i < count; i++)
	{
		Datum		values[CURSOR_COLUMNS];
		bool		nulls[CURSOR_COLUMNS] = {false};
		int64		until_ms = infos[i].epoch_ms +
			idgen_cursor_granted_end(&cursors[i]) * infos[i].tick_ms;

		values[0] = ObjectIdGetDatum(infos[i].database);
		values[1] = name_as_text(&infos[i]);
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

#define AUTHORITY_COLUMNS 21

/* One row: the authority worker of this database, and this server. */
PG_FUNCTION_INFO_V1(idgen_stat_authority_process);
Datum
idgen_stat_authority_process(PG_FUNCTION_ARGS)
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
	for (int i = 0; i < idgen_shared->slot_count; i++)
	{
		IdgenSlotInfo info;
		IdgenSlotPhase phase;

		if (idgen_pool_read(i, &info, &phase) &&
			(phase == IDGEN_SLOT_RESERVED || phase == IDGEN_SLOT_ACTIVE))
			cursors_in_use++;
	}
	for (int i = 0; i < idgen_shared->request_count; i++)
		if (idgen_shared->requests[i].state == IDGEN_QUEUE_PENDING &&
			idgen_shared->requests[i].database == MyDatabaseId)
			waiting++;
	idgen_lock_directory();
	judged = idgen_shared->clock;
	for (int i = 0; i < idgen_shared->database_count; i++)
		if (idgen_shared->databases[i].database == MyDatabaseId)
			copy = idgen_shared->databases[i];
	idgen_unlock_directory();
	idgen_kernel_clock_read(&clock);

	nulls[0] = copy.authority_pid == 0;
	values[0] = Int32GetDatum(copy.authority_pid);
	values[1] = optional_time(copy.authority_started_ms, &nulls[1]);
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
	values[14] = Int64GetDatum(idgen_clock_pending(&judged.record) / 1000);
	values[15] = Int64GetDatum((int64) judged.steps_back);
	values[16] = Int64GetDatum((int64) judged.steps_forward);
	values[17] = Int64GetDatum(judged.largest_step_us / 1000);
	values[18] = Int64GetDatum((int64) pg_atomic_read_u64(&idgen_shared->cursors_taken));
	values[19] = Int64GetDatum((int64) pg_atomic_read_u64(&idgen_shared->authority_pauses));
	values[20] = Int64GetDatum((int64) pg_atomic_read_u64(&idgen_shared->authority_pause_max_us) / 1000);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	return (Datum) 0;
}

/* Count from zero again, for all namespaces of this database. */
PG_FUNCTION_INFO_V1(idgen_stat_reset);
Datum
idgen_stat_reset(PG_FUNCTION_ARGS)
{
	IdgenIssued *issued;

	idgen_require_preloaded();
	issued = issued_by_living();
	for (int i = 0; i < idgen_shared->stats_count; i++)
	{
		IdgenStats	copy;

		if (read_stats(i, &copy) && copy.database == MyDatabaseId)
			reset(&idgen_shared->stats[i], issued[i]);
	}
	PG_RETURN_VOID();
}
