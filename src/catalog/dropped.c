/*
 * dropped.c
 *		Read what namespaces that are being dropped have granted, and say where their
 *		successors begin.
 *
 * A namespace of the same name that is created later must begin after all that was
 * granted under it.
 */
#include "compat.h"

#include "catalog/dropped.h"

#include "access/relation.h"
#include "access/tableam.h"
#include "commands/dbcommands.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "catalog/columns.h"
#include "catalog/identity.h"
#include "catalog/integrity.h"
#include "catalog/policy.h"
#include "catalog/rows.h"
#include "catalog/tables.h"
#include "clock.h"
#include "settings.h"

/* A scan of all rows of a table, whatever is attached to it. */
typedef struct IdgenLook
{
	Relation	relation;		/* NULL if there is nothing to be read */
	Snapshot	snapshot;
	TableScanDesc scan;
	TupleTableSlot *slot;		/* the row found last */
} IdgenLook;

/*
 * Open a table of a schema, if it has the columns that the script gave it.
 * Raises no error: a drop must not fail because tables are damaged.  The
 * triggers of the table, and even its primary key, may be gone already.  The
 * snapshot is the latest one, however old the transaction's own is, so that it
 * has the grants that others have committed since then.
 */
static void
look_begin(IdgenLook *look, IdgenTable table, Oid schema)
{
	Oid			relid = get_relname_relid(idgen_table_columns[table].table_name, schema);
	bool		readable;

	memset(look, 0, sizeof(*look));
	look->relation = OidIsValid(relid) ?
		try_relation_open(relid, AccessShareLock) : NULL;
	if (look->relation == NULL)
		return;
	readable = look->relation->rd_rel->relkind == RELKIND_RELATION &&
		idgen_integrity_has_columns(table, look->relation);
	if (!readable)
	{
		relation_close(look->relation, NoLock);
		look->relation = NULL;
		return;
	}
	look->snapshot = RegisterSnapshot(GetLatestSnapshot());
	look->slot = table_slot_create(look->relation, NULL);
	look->scan = table_beginscan(look->relation, look->snapshot, 0, NULL);
}

/* Go to the next row; false if there is none. */
static bool
look_next(IdgenLook *look)
{
	return look->relation != NULL &&
		table_scan_getnextslot(look->scan, ForwardScanDirection, look->slot);
}

static void
look_end(IdgenLook *look)
{
	if (look->relation == NULL)
		return;
	table_endscan(look->scan);
	ExecDropSingleTupleTableSlot(look->slot);
	UnregisterSnapshot(look->snapshot);
	relation_close(look->relation, NoLock);
}

/* A column of the row found last; 0 if it is null. */
static Datum
look_column(const IdgenLook *look, int attribute)
{
	bool		isnull;
	Datum		value = slot_getattr(look->slot, attribute, &isnull);

	return isnull ? (Datum) 0 : value;
}

static void
look_text(const IdgenLook *look, int attribute, char *value)
{
	Datum		datum = look_column(look, attribute);

	strlcpy(value, datum == 0 ? "" : TextDatumGetCString(datum), NAMEDATALEN);
}

/*
 * The Unix ms at which a tick begins, at most IDGEN_UNIX_MS_MAX; 0 for no
 * tick.
 */
static int64
tick_ms(const IdgenLayout *layout, int64 tick)
{
	int64		ms;

	if (tick <= 0)
		return 0;
	return idgen_layout_unix_ms(layout, tick, &ms) ? Min(ms, IDGEN_UNIX_MS_MAX) :
		IDGEN_UNIX_MS_MAX;
}

/* The namespaces that are being dropped, and the formats by which their ticks count. */
typedef struct IdgenDropped
{
	int			count;
	IdgenEndedMarks *marks;
	IdgenLayout *layouts;
	int			last;			/* the one found last, because rows of one
								 * namespace lie together */
	bool		is_quorum;		/* one of them has durability "quorum" */
} IdgenDropped;

static void
list_namespaces(IdgenDropped *dropped, Oid schema)
{
	IdgenLook	look;
	int			room = 0;

	look_begin(&look, IDGEN_TABLE_NAMESPACE, schema);
	while (look_next(&look))
	{
		IdgenEndedMarks *marks;
		IdgenLayout *layout;
		char		word[NAMEDATALEN];
		IdgenDurability durability;

		if (dropped->count == room)
		{
			room = Max(16, room * 2);
			dropped->marks = repalloc(dropped->marks, room * sizeof(IdgenEndedMarks));
			dropped->layouts = repalloc(dropped->layouts, room * sizeof(IdgenLayout));
		}
		marks = &dropped->marks[dropped->count];
		layout = &dropped->layouts[dropped->count];
		memset(marks, 0, sizeof(*marks));
		memset(layout, 0, sizeof(*layout));
		look_text(&look, IDGEN_NAMESPACE_NAME, marks->namespace_name);
		layout->epoch_ms = DatumGetInt64(look_column(&look, IDGEN_NAMESPACE_EPOCH_MS));
		layout->tick_ms = DatumGetInt64(look_column(&look, IDGEN_NAMESPACE_TICK_MS));
		layout->horizon_ms = DatumGetInt64(look_column(&look, IDGEN_NAMESPACE_HORIZON_MS));
		look_text(&look, IDGEN_NAMESPACE_DURABILITY, word);
		if (idgen_durability_parse(word, &durability) &&
			durability == IDGEN_DURABILITY_QUORUM)
			dropped->is_quorum = true;
		if (layout->tick_ms > 0 && marks->namespace_name[0] != '\0')
			dropped->count++;
	}
	look_end(&look);
}

/* The namespace that the first column of a row names; -1 if it is unknown. */
static int
dropped_namespace(IdgenDropped *dropped, const IdgenLook *look)
{
	char		name[NAMEDATALEN];

	look_text(look, 1, name);
	for (int i = 0; i < dropped->count; i++)
	{
		int			at = (dropped->last + i) % dropped->count;

		if (strcmp(dropped->marks[at].namespace_name, name) == 0)
			return dropped->last = at;
	}
	return -1;
}

/*
 * A namespace that was promoted, restored or copied here, and not used since, may have
 * granted more than its tables know: as much as a fence allows for.  If it is dropped
 * before it is fenced, its successor must begin after that.  A copy of a database is
 * an ID space of its own.
 */
static void
allow_for_unknown(IdgenDropped *dropped, Oid schema)
{
	bool	   *known = palloc0((dropped->count + 1) * sizeof(bool));
	int64		now_ms = idgen_clock_wall_ms();
	IdgenIdentity here;
	IdgenLook	look;

	idgen_identity_read(&here);
	look_begin(&look, IDGEN_TABLE_AUTHORITY, schema);
	while (look_next(&look))
	{
		int			at = dropped_namespace(dropped, &look);
		IdgenIdentity recorded;
		IdgenIdentityVerdict verdict;

		if (at < 0)
			continue;
		slot_getallattrs(look.slot);
		idgen_rows_read_identity(look.slot->tts_values, &recorded);
		verdict = idgen_identity_compare(&recorded, &here);
		known[at] = verdict == IDGEN_IDENTITY_SAME ||
			verdict == IDGEN_IDENTITY_OTHER_DATABASE;
	}
	look_end(&look);

	for (int i = 0; i < dropped->count; i++)
	{
		IdgenEndedMarks *marks = &dropped->marks[i];
		int64		horizon_ms = dropped->layouts[i].horizon_ms;

		if (known[i])
			continue;
		marks->granted_ms = Max(marks->granted_ms, now_ms + horizon_ms) +
			idgen_max_clock_error_ms;
		marks->told_ms = marks->granted_ms;
	}
	pfree(known);
}

/*
 * Read what the namespaces of this database granted, as far as the tables can be
 * read.  Called by the session that is dropping the tables, which has locked them.
 * "table" is one of them, by which they are found if their schema was renamed.
 */
void
idgen_dropped_read(Oid table, IdgenDroppedTables *tables)
{
	Oid			schema = idgen_tables_find_schema();
	IdgenDropped dropped = {
		.marks = palloc(sizeof(IdgenEndedMarks)),
		.layouts = palloc(sizeof(IdgenLayout))
	};
	IdgenLook	look;

	memset(tables, 0, sizeof(*tables));
	tables->marks = dropped.marks;
	if (!OidIsValid(schema))
		schema = get_rel_namespace(table);
	list_namespaces(&dropped, schema);

	look_begin(&look, IDGEN_TABLE_FLOOR, schema);
	while (look_next(&look))
	{
		int			at = dropped_namespace(&dropped, &look);
		int64		end_ms;

		if (at < 0)
			continue;
		end_ms = tick_ms(&dropped.layouts[at],
						 DatumGetInt64(look_column(&look, IDGEN_FLOOR_EXTERNAL_END)));
		tables->external_ms = Max(tables->external_ms, end_ms);
		end_ms = Max(end_ms, tick_ms(&dropped.layouts[at],
									 DatumGetInt64(look_column(&look, IDGEN_FLOOR_FLOOR))));
		dropped.marks[at].told_ms = Max(dropped.marks[at].told_ms, end_ms);
		dropped.marks[at].told = true;
		dropped.marks[at].granted_ms = Max(dropped.marks[at].granted_ms, end_ms);
	}
	look_end(&look);

	look_begin(&look, IDGEN_TABLE_WORKER, schema);
	while (look_next(&look))
	{
		int			at = dropped_namespace(&dropped, &look);

		if (at >= 0)
			dropped.marks[at].granted_ms =
				Max(dropped.marks[at].granted_ms,
					tick_ms(&dropped.layouts[at],
							DatumGetInt64(look_column(&look, IDGEN_WORKER_HIGH_WATER))));
	}
	look_end(&look);
	allow_for_unknown(&dropped, schema);
	tables->marks = dropped.marks;
	tables->mark_count = dropped.count;
	tables->is_quorum = dropped.is_quorum;
}

/* The first tick that begins at a Unix ms or later; 0 for 0. */
int64
idgen_dropped_tick(const IdgenLayout *layout, int64 unix_ms)
{
	if (unix_ms == 0)
		return 0;
	return Min(idgen_layout_tick_at(layout, unix_ms - 1) + 1,
			   idgen_layout_tick_count(layout));
}

/*
 * The tick at which a namespace that was never granted from begins: after what
 * was issued from namespaces that were dropped, or whose creation was rolled back.
 * For one of the same name it waits however long that takes, even if all that is
 * known is a bound, a horizon past the longest grant.  For one of another name it
 * waits only if that takes no longer than max_clock_error, as is the case unless the
 * dropped one ran far ahead of the clock, or this one has long ticks.  No grant
 * begins before latest_ms anyway.
 */
int64
idgen_dropped_begin(const IdgenLayout *layout, const char *name, int64 latest_ms)
{
	int64		near_ms = latest_ms + idgen_max_clock_error_ms;
	char	   *database_name = get_database_name(MyDatabaseId);
	int64		same_ms = idgen_ended_dropped_until(MyDatabaseId,
													database_name ? database_name : "",
													name, near_ms + 2 * IDGEN_HORIZON_MS_MAX);
	int64		any = idgen_dropped_tick(layout, idgen_ended_dropped_anywhere(near_ms));

	if (any > idgen_layout_tick_at(layout, near_ms))
		any = 0;
	return Max(idgen_dropped_tick(layout, same_ms), any);
}
