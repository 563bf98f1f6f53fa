/*
 * guard.c
 *		The trigger on the authority's tables.
 *
 * idgen's own statements pass.  Rows from replication are ignored, so that a
 * publication FOR ALL TABLES is harmless.  Inserted rows of the tables that
 * pg_dump dumps are merged: marks only rise.  Everything else is refused, the
 * owner's and the superuser's included (S3).
 */
#include "compat.h"

#include "commands/trigger.h"
#include "replication/logicalworker.h"
#include "utils/builtins.h"

#include "hooks.h"
#include "namespace.h"
#include "namespace_rows.h"
#include "statement.h"
#include "tables.h"

PG_FUNCTION_INFO_V1(idgen_guard);

/* Was this change made on another server, and is only applied here? */
static bool
from_replication(void)
{
	return IsLogicalWorker() ||
		SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
}

static void
refuse(const char *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot change table \"%s\" from outside idgen", table),
			 errdetail("Its rows keep IDs unique."),
			 errhint("Use the functions of idgen.")));
}

/* A column of the new row; an error if it is null. */
static Datum
column(TriggerData *trigger, int attribute)
{
	bool		isnull;
	Datum		value = heap_getattr(trigger->tg_trigtuple, attribute,
									 RelationGetDescr(trigger->tg_relation),
									 &isnull);

	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("null value in a restored row of table \"%s\"",
						RelationGetRelationName(trigger->tg_relation))));
	return value;
}

/* A namespace name out of a restored row. */
static char *
column_name(TriggerData *trigger, int attribute)
{
	char	   *name = TextDatumGetCString(column(trigger, attribute));

	if (name[0] == '\0' || strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid namespace name in a restored row")));
	return name;
}

static bool
merge_namespace(TriggerData *trigger)
{
	IdgenNamespaceRow row;
	IdgenLayoutCheck check;

	memset(&row, 0, sizeof(row));
	strlcpy(row.name, column_name(trigger, 1), NAMEDATALEN);
	row.layout.kind = IDGEN_KIND_TIME;
	row.layout.timestamp_bits = DatumGetInt32(column(trigger, 3));
	row.layout.worker_bits = DatumGetInt32(column(trigger, 4));
	row.layout.sequence_bits = DatumGetInt32(column(trigger, 5));
	row.layout.epoch_ms = DatumGetInt64(column(trigger, 6));
	row.layout.tick_ms = DatumGetInt64(column(trigger, 7));
	row.layout.horizon_ms = DatumGetInt64(column(trigger, 8));
	row.grant_interval_ms = DatumGetInt64(column(trigger, 9));
	row.run_ahead_ms = DatumGetInt64(column(trigger, 10));
	row.first_worker = DatumGetInt32(column(trigger, 11));
	row.last_worker = DatumGetInt32(column(trigger, 12));
	strlcpy(row.durability, TextDatumGetCString(column(trigger, 13)), NAMEDATALEN);
	strlcpy(row.promotion, TextDatumGetCString(column(trigger, 14)), NAMEDATALEN);
	row.retired = DatumGetBool(column(trigger, 17));
	row.split_parts = DatumGetInt32(column(trigger, IDGEN_NAMESPACE_SPLIT_PARTS));
	check = idgen_layout_validate(&row.layout);
	if (check != IDGEN_LAYOUT_OK && check != IDGEN_LAYOUT_SHORT_FIELD)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid format of namespace \"%s\" in a restored row",
						row.name)));
	idgen_namespace_check_row(&row);
	return idgen_namespace_rows_merge(&row);
}

static bool
merge_floor(TriggerData *trigger)
{
	bool		copied;
	bool		keep = idgen_namespace_rows_merge_floor(column_name(trigger, 1),
												DatumGetInt64(column(trigger, 2)),
												&copied);

	if (copied)
		idgen_hooks_kill_at_commit(column_name(trigger, 1));
	return keep;
}

static bool
merge_worker(TriggerData *trigger)
{
	int32		worker = DatumGetInt32(column(trigger, 2));
	int64		high_water = DatumGetInt64(column(trigger, 3));

	if (worker < 0 || high_water < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid mark in a restored row")));
	if (idgen_namespace_rows_merge_mark(column_name(trigger, 1), worker, high_water))
		idgen_hooks_kill_at_commit(column_name(trigger, 1));
	return false;
}

/*
 * A row inserted from outside: true if it is to be inserted as it is, false if
 * it was merged into ours.
 */
static bool
merge(TriggerData *trigger)
{
	Oid			relid = RelationGetRelid(trigger->tg_relation);

	if (!idgen_tables_find())
		refuse(RelationGetRelationName(trigger->tg_relation));
	if (relid == idgen_tables_relid(IDGEN_TABLE_NAMESPACE))
		return merge_namespace(trigger);
	if (relid == idgen_tables_relid(IDGEN_TABLE_FLOOR))
		return merge_floor(trigger);
	if (relid == idgen_tables_relid(IDGEN_TABLE_WORKER))
		return merge_worker(trigger);
	refuse(RelationGetRelationName(trigger->tg_relation));
	return false;
}

/* A mark never decreases (S3), not even by a mistake of our own. */
static void
refuse_decrease(TriggerData *trigger)
{
	TupleDesc	desc = RelationGetDescr(trigger->tg_relation);
	bool		isnull;

	if (!TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ||
		RelationGetRelid(trigger->tg_relation) !=
		idgen_tables_relid(IDGEN_TABLE_WORKER))
		return;
	if (DatumGetInt64(heap_getattr(trigger->tg_newtuple, 3, desc, &isnull)) <
		DatumGetInt64(heap_getattr(trigger->tg_trigtuple, 3, desc, &isnull)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("idgen tried to lower a high-water mark")));
}

Datum
idgen_guard(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	bool		keep;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("idgen_guard() must be called as a trigger")));

	if (idgen_statement_running())
	{
		refuse_decrease(trigger);
		keep = true;
	}
	else if (TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event))
	{
		refuse(RelationGetRelationName(trigger->tg_relation));
		keep = false;
	}
	else if (from_replication())
		keep = false;
	else if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		keep = merge(trigger);
	else
	{
		refuse(RelationGetRelationName(trigger->tg_relation));
		keep = false;
	}

	if (!keep)
		return PointerGetDatum(NULL);
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ?
						   trigger->tg_newtuple : trigger->tg_trigtuple);
}
