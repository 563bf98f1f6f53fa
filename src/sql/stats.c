/*
 * stats.c
 *		SQL functions that show counters, cursors and the authority process.
 *
 * The columns are those of the functions in the install script, in their
 * order.
 */
#include "compat.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/uuid.h"

#include "clock.h"
#include "kernel_clock.h"
#include "shmem/authorities.h"
#include "shmem/clock_judge.h"
#include "shmem/counters.h"
#include "shmem/lock.h"
#include "shmem/pool.h"
#include "shmem/request_queue.h"

/* How long to try for the lock of a cursor. */
#define CURSOR_WITHIN_US	INT64_C(100)

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

/* Name and IDs before the counters; six columns after them. */
#define COUNTER_COLUMNS (2 + IDGEN_COUNTER_COUNT + 6)

/*
 * One row per namespace of this database that was used since shared memory was
 * initialised: its name, IDs, the counters in their order, the last error and its time,
 * the time when counting began, whether it is refused as a copy, how many grants and
 * answers wait for standbys, and ticks.
 */
PG_FUNCTION_INFO_V1(idgen_stat_counters);
Datum
idgen_stat_counters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	IdgenIssued *issued;

	idgen_require_preloaded();
	InitMaterializedSRF(fcinfo, 0);
	issued = idgen_pool_issued();
	for (int i = 0; i < idgen_counters_count(); i++)
	{
		Datum		values[COUNTER_COLUMNS];
		bool		nulls[COUNTER_COLUMNS] = {false};
		int			n = 0;
		IdgenCounters copy;
		uint64		error;

		if (!idgen_counters_read(i, &copy) || copy.database != MyDatabaseId)
			continue;
		error = pg_atomic_read_u64(&copy.last_error);
		values[n++] = CStringGetTextDatum(copy.namespace_name);
		values[n++] = Int64GetDatum((int64) (issued[i].id_count - copy.issued_before.id_count));
		for (int j = 0; j < IDGEN_COUNTER_COUNT; j++)
			values[n++] = Int64GetDatum((int64) pg_atomic_read_u64(&copy.values[j]));
		nulls[n] = error == 0;
		values[n++] = CStringGetTextDatum(idgen_error_name((IdgenErrorKind) (error & 0xff)));
		values[n] = optional_time((int64) (error >> 8), &nulls[n]);
		n++;
		values[n] = optional_time((int64) pg_atomic_read_u64(&copy.reset_ms), &nulls[n]);
		n++;
		values[n++] = BoolGetDatum(copy.copied);
		values[n++] = Int32GetDatum(copy.unconfirmed);
		values[n] = Int64GetDatum((int64) (issued[i].tick_count - copy.issued_before.tick_count));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * The name of a namespace as text of this database.  The name may be in the encoding of
 * another database; what is not valid text here is shown byte by byte.
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
	infos = palloc(idgen_slot_count() * sizeof(IdgenSlotInfo));
	cursors = palloc(idgen_slot_count() * sizeof(IdgenCursor));
	issued = palloc(idgen_slot_count() * sizeof(uint64));
	for (int i = 0; i < idgen_slot_count(); i++)
	{
		IdgenSlot  *slot = idgen_slot(i);
		bool		locked;

		if (idgen_slot_phase(idgen_slot_read(i, &infos[count])) != IDGEN_SLOT_ACTIVE)
			continue;

		/* a busy cursor is read without its lock: this is for watching */
		locked = idgen_lock_within(&slot->lock, LW_SHARED, CURSOR_WITHIN_US);
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

/* One row: the authority process of this database, and this server. */
PG_FUNCTION_INFO_V1(idgen_stat_authority_process);
Datum
idgen_stat_authority_process(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum		values[AUTHORITY_COLUMNS];
	bool		nulls[AUTHORITY_COLUMNS] = {false};
	IdgenDatabase copy;
	IdgenKernelClock kernel;
	IdgenClockRecord record;
	IdgenClockSteps steps;
	IdgenPauses pauses;
	int			cursor_count;

	idgen_require_preloaded();
	InitMaterializedSRF(fcinfo, 0);
	cursor_count = idgen_pool_count();
	idgen_authorities_read(MyDatabaseId, &copy);
	idgen_clock_judge_read(&record, &steps);
	idgen_kernel_clock_read(&kernel);
	idgen_counters_read_authority_pauses(&pauses);

	nulls[0] = copy.authority_pid == 0;
	values[0] = Int32GetDatum(copy.authority_pid);
	values[1] = optional_time(copy.authority_started_ms, &nulls[1]);
	values[2] = optional_time(copy.last_round_ms, &nulls[2]);
	values[3] = Int64GetDatum((int64) copy.rounds);
	values[4] = Int64GetDatum((int64) copy.grants);
	values[5] = Int32GetDatum(idgen_queue_count_pending());
	values[6] = Int32GetDatum(cursor_count);
	values[7] = Int32GetDatum(idgen_slot_count() - cursor_count);
	values[8] = BoolGetDatum(RecoveryInProgress());
	values[9] = BoolGetDatum(enableFsync);
	nulls[10] = nulls[11] = nulls[12] = !kernel.known;
	values[10] = BoolGetDatum(kernel.synchronised);
	values[11] = Int64GetDatum(kernel.offset_us);
	values[12] = Int64GetDatum(kernel.max_error_us);
	values[13] = CStringGetTextDatum(verdict_name(record.verdict));
	values[14] = Int64GetDatum(idgen_clock_pending(&record) / 1000);
	values[15] = Int64GetDatum((int64) steps.back_count);
	values[16] = Int64GetDatum((int64) steps.forward_count);
	values[17] = Int64GetDatum(steps.largest_us / 1000);
	values[18] = Int64GetDatum((int64) idgen_pool_evicted_count());
	values[19] = Int64GetDatum((int64) pauses.count);
	values[20] = Int64GetDatum((int64) pauses.max_us / 1000);
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
	issued = idgen_pool_issued();
	for (int i = 0; i < idgen_counters_count(); i++)
	{
		IdgenCounters copy;

		if (idgen_counters_read(i, &copy) && copy.database == MyDatabaseId)
			idgen_counters_reset(i, issued[i]);
	}
	PG_RETURN_VOID();
}
