/*
 * guard.c
 *		The trigger on the authority's tables.
 *
 * idgen's own queries pass.  Rows from replication are ignored, so that a publication
 * FOR ALL TABLES is harmless.  Rows that the owner or a superuser inserts into a table
 * that pg_dump dumps are merged: marks only rise.  Rows that the owner of the database
 * inserts there are noticed, but not merged.  Every other change is refused, even to the
 * owner and to superusers (S3).
 */
#include "compat.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "replication/logicalworker.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "catalog/columns.h"
#include "catalog/policy.h"
#include "catalog/query.h"
#include "catalog/restore.h"
#include "catalog/scan.h"
#include "catalog/tables.h"
#include "error.h"
#include "session/at_commit.h"

PG_FUNCTION_INFO_V1(idgen_guard);

/*
 * Is this a change from another server that a process of a subscription applies or
 * copies here?  session_replication_role does not count: a session that restores a dump
 * may have set it, and marks that were ignored then would be missing.
 */
static bool
from_replication(void)
{
	return IsLogicalWorker();
}

static void
refuse_change(const char *table)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot change table \"%s\" from outside idgen", table),
			 errdetail("Its rows keep IDs unique."),
			 errhint("Use the functions of idgen.")));
}

/* --------------------------------------------------------------------
 * What stands in a restored row
 * -------------------------------------------------------------------- */

/* An error about a value that no row of idgen has; the context names the row. */
static void
invalid(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value in a restored row of idgen"),
			 errdetail_internal("%s", what),
			 errhint("Restore what pg_dump has written, unchanged.")));
}

static Datum
nullable_column(TriggerData *trigger, int attribute, bool *isnull)
{
	return heap_getattr(trigger->tg_trigtuple, attribute,
						RelationGetDescr(trigger->tg_relation), isnull);
}

static const char *
attribute_name(TriggerData *trigger, int attribute)
{
	return NameStr(TupleDescAttr(RelationGetDescr(trigger->tg_relation),
								 attribute - 1)->attname);
}

/* A column of the new row; an error if it is null. */
static Datum
column(TriggerData *trigger, int attribute)
{
	bool		isnull;
	Datum		value = nullable_column(trigger, attribute, &isnull);

	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("null value in a restored row of idgen"),
				 errdetail("Column \"%s\" is null.",
						   attribute_name(trigger, attribute))));
	return value;
}

/* The first columns of the new row, see rows.h; an error if one is null. */
static Datum *
row_columns(TriggerData *trigger, int count)
{
	Datum	   *columns = palloc(count * sizeof(Datum));

	for (int i = 0; i < count; i++)
		columns[i] = column(trigger, i + 1);
	return columns;
}

/* Check the length of a name of a namespace or role, or of a word of a policy. */
static char *
check_name(TriggerData *trigger, int attribute)
{
	char	   *value = TextDatumGetCString(column(trigger, attribute));

	if (value[0] == '\0' || strlen(value) >= NAMEDATALEN)
		invalid(psprintf("Column \"%s\" has %d bytes, and may have 1 to %d.",
						 attribute_name(trigger, attribute),
						 (int) strlen(value), NAMEDATALEN - 1));
	return value;
}

/* Check that a column is a list of names of roles, as idgen_allow writes it. */
static void
check_roles(TriggerData *trigger, int attribute)
{
	ArrayType  *names = DatumGetArrayTypeP(column(trigger, attribute));
	Datum	   *datums;
	int			count;

	if (ARR_NDIM(names) > 1 || array_contains_nulls(names))
		invalid(psprintf("Column \"%s\" is not a list of roles.",
						 attribute_name(trigger, attribute)));
	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &datums, NULL, &count);
	for (int i = 0; i < count; i++)
	{
		int			length = (int) strlen(TextDatumGetCString(datums[i]));

		if (length == 0 || length >= NAMEDATALEN)
			invalid(psprintf("A role in column \"%s\" has %d bytes, and may have 1 to %d.",
							 attribute_name(trigger, attribute),
							 length, NAMEDATALEN - 1));
	}
}

/* An error context that names the row. */
static void
name_row(void *arg)
{
	errcontext("restored row of table %s", (const char *) arg);
}

/* The name of a row in errors: "idgen_worker", namespace "orders", worker 7 */
static char *
row_name(TriggerData *trigger, Oid relid)
{
	const char *table = RelationGetRelationName(trigger->tg_relation);
	bool		isnull;
	Datum		value = nullable_column(trigger, 1, &isnull);
	char	   *name;

	if (isnull)
		return psprintf("\"%s\", without a namespace", table);
	name = TextDatumGetCString(value);
	name[pg_mbcliplen(name, (int) strlen(name), NAMEDATALEN - 1)] = '\0';
	value = relid == idgen_tables_relid(IDGEN_TABLE_WORKER) ?
		nullable_column(trigger, IDGEN_WORKER_WORKER, &isnull) : (Datum) 0;
	if (relid == idgen_tables_relid(IDGEN_TABLE_WORKER) && !isnull)
		return psprintf("\"%s\", namespace \"%s\", worker %d", table, name,
						DatumGetInt32(value));
	return psprintf("\"%s\", namespace \"%s\"", table, name);
}

/* --------------------------------------------------------------------
 * Merging restored rows
 * -------------------------------------------------------------------- */

/* Can a row have its ticket? */
static bool
ticket_fits(const IdgenNamespaceRow *row)
{
	int64_t		tick;
	int64_t		worker;
	int64_t		sequence;

	if (idgen_hand_over_is_none(&row->ticket))
		return !row->handed_over && row->ticket.greatest_id == 0;
	return row->ticket.greatest_id == 0 ||
		idgen_layout_decode(&row->layout, row->ticket.greatest_id, &tick, &worker,
							&sequence) == IDGEN_FIT_OK;
}

/* Read a restored row of idgen_namespace; an error if no namespace can have it. */
static void
read_namespace(TriggerData *trigger, IdgenNamespaceRow *row)
{
	Datum	   *columns = row_columns(trigger, IDGEN_NAMESPACE_END - 1);
	IdgenLayoutCheck check;

	check_name(trigger, IDGEN_NAMESPACE_NAME);
	if (strcmp(TextDatumGetCString(columns[IDGEN_NAMESPACE_KIND - 1]), IDGEN_KIND) != 0)
		invalid("The kind of a namespace must be \"" IDGEN_KIND "\".");
	check_name(trigger, IDGEN_NAMESPACE_DURABILITY);
	check_name(trigger, IDGEN_NAMESPACE_PROMOTION);
	check_name(trigger, IDGEN_NAMESPACE_OWNER);
	check_roles(trigger, IDGEN_NAMESPACE_ISSUE_ROLES);
	check_roles(trigger, IDGEN_NAMESPACE_ACQUIRE_ROLES);
	if (!idgen_rows_read_namespace(columns, row))
	{
		/* one of them raises the error */
		(void) idgen_durability_require(TextDatumGetCString(columns[IDGEN_NAMESPACE_DURABILITY - 1]));
		(void) idgen_promotion_require(TextDatumGetCString(columns[IDGEN_NAMESPACE_PROMOTION - 1]));
	}
	check = idgen_layout_validate(&row->layout);
	if (check != IDGEN_LAYOUT_OK &&
		(check != IDGEN_LAYOUT_SHORT_FIELD || row->issuing))
		invalid("No namespace can have this format.");
	idgen_policy_check(row);
	if (!ticket_fits(row))
		invalid("No hand-over of this namespace can have written this ticket.");
}

static bool
merge_namespace(TriggerData *trigger)
{
	IdgenNamespaceRow row;
	bool		keep;

	read_namespace(trigger, &row);
	keep = idgen_restore_namespace(&row);
	if (!keep && (row.retired || row.handed_over))
		idgen_at_commit_kill(row.name);
	return keep;
}

/* An error unless a mark fits the namespace, if that is there already. */
static void
check_mark(const char *name, int32 worker, int64 mark)
{
	IdgenNamespaceRow row;

	if (worker < 0)
		invalid("The worker is negative.");
	if (mark < 0)
		invalid("The mark is negative.");
	if (!idgen_scan_namespace(name, &row, IDGEN_DEADLINE_UNSET))
		return;
	if (worker >= idgen_layout_worker_count(&row.layout))
		invalid("The namespace has no such worker.");
	if (mark > idgen_layout_tick_count(&row.layout))
		invalid("The mark is past the end of the timestamp field.");
}

static bool
merge_floor(TriggerData *trigger)
{
	char	   *name = check_name(trigger, IDGEN_FLOOR_NAMESPACE);
	int64		floor = DatumGetInt64(column(trigger, IDGEN_FLOOR_FLOOR));
	int64		external_end = DatumGetInt64(column(trigger, IDGEN_FLOOR_EXTERNAL_END));
	bool		copied;
	bool		keep;

	check_mark(name, 0, floor);
	check_mark(name, 0, external_end);
	keep = idgen_restore_floor(name, floor, external_end, &copied);
	if (copied)
		idgen_at_commit_kill(name);
	return keep;
}

static bool
merge_worker(TriggerData *trigger)
{
	char	   *name = check_name(trigger, IDGEN_WORKER_NAMESPACE);
	int32		worker = DatumGetInt32(column(trigger, IDGEN_WORKER_WORKER));
	int64		high_water = DatumGetInt64(column(trigger, IDGEN_WORKER_HIGH_WATER));

	check_mark(name, worker, high_water);
	if (idgen_restore_mark(name, worker, high_water))
		idgen_at_commit_kill(name);
	return false;
}

/* Merge a row into ours.  True if there is none, so that it is to be inserted as it is. */
static bool
merge(TriggerData *trigger, Oid relid)
{
	if (relid == idgen_tables_relid(IDGEN_TABLE_NAMESPACE))
		return merge_namespace(trigger);
	if (relid == idgen_tables_relid(IDGEN_TABLE_FLOOR))
		return merge_floor(trigger);
	return merge_worker(trigger);
}

/* --------------------------------------------------------------------
 * Noticing rows that may not be merged
 * -------------------------------------------------------------------- */

static IdgenNotice
notice_namespace(TriggerData *trigger)
{
	IdgenNamespaceRow row;

	read_namespace(trigger, &row);
	return idgen_restore_notice_namespace(&row);
}

static IdgenNotice
notice_floor(TriggerData *trigger, const char *name)
{
	return idgen_restore_notice_floor(name,
									  DatumGetInt64(column(trigger, IDGEN_FLOOR_FLOOR)),
									  DatumGetInt64(column(trigger, IDGEN_FLOOR_EXTERNAL_END)));
}

static IdgenNotice
notice_worker(TriggerData *trigger, const char *name)
{
	return idgen_restore_notice_mark(name,
									 DatumGetInt32(column(trigger, IDGEN_WORKER_WORKER)),
									 DatumGetInt64(column(trigger, IDGEN_WORKER_HIGH_WATER)));
}

/*
 * Notice a row that the owner of the database restores.  A row that does not fit is no
 * error here, because an error would end the COPY before the rows of other namespaces.
 * One warning for each namespace is enough.
 */
static void
notice(TriggerData *trigger, Oid relid)
{
	char	   *name = check_name(trigger, 1);
	IdgenNotice noticed;

	if (relid == idgen_tables_relid(IDGEN_TABLE_NAMESPACE))
		noticed = notice_namespace(trigger);
	else if (relid == idgen_tables_relid(IDGEN_TABLE_FLOOR))
		noticed = notice_floor(trigger, name);
	else
		noticed = notice_worker(trigger, name);

	switch (noticed)
	{
		case IDGEN_NOTICE_NOTHING:
			break;
		case IDGEN_NOTICE_COPIED:
			idgen_at_commit_kill(name);
			ereport(WARNING,
					(errcode(ERRCODE_IDGEN_AUTHORITY_UNCONFIRMED),
					 errmsg("namespace \"%s\" is now a copy that nobody has adopted", name),
					 errdetail("A restored row tells of IDs that this database does not know of. Only the owner of table \"%s\" or a superuser could merge it.",
							   RelationGetRelationName(trigger->tg_relation)),
					 errhint("Have a superuser restore the tables of schema \"%s\", or adopt the namespace with the greatest restored ID as \"above\".",
							 IDGEN_TABLE_SCHEMA)));
			break;
		case IDGEN_NOTICE_UNKNOWN:
			if (relid == idgen_tables_relid(IDGEN_TABLE_NAMESPACE))
				ereport(WARNING,
						(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						 errmsg("namespace \"%s\" is not restored", name),
						 errdetail("Only the owner of table \"%s\" or a superuser can restore it.",
								   RelationGetRelationName(trigger->tg_relation)),
						 errhint("Have a superuser restore the tables of schema \"%s\".",
								 IDGEN_TABLE_SCHEMA)));
			break;
	}
}

/* --------------------------------------------------------------------
 * The trigger
 * -------------------------------------------------------------------- */

/*
 * May the current role say what was granted?  The privilege to insert is not enough,
 * because a blanket GRANT or pg_write_all_data gives it.  As ALTER TABLE does, ask for
 * the owner.  False for the owner of the database, whose rows are only noticed: they
 * stop a namespace, but who can drop the database may do that.  An error for everybody
 * else.
 */
static bool
may_merge(TriggerData *trigger)
{
	if (has_privs_of_role(GetUserId(), trigger->tg_relation->rd_rel->relowner))
		return true;
	if (has_privs_of_role(GetUserId(), ROLE_PG_DATABASE_OWNER))
		return false;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("must be owner of table \"%s\" to restore rows into it",
					RelationGetRelationName(trigger->tg_relation)),
			 errdetail("Its rows keep IDs unique."),
			 errhint("Restore the dump as the owner of the extension or as a superuser.")));
}

/* A row is inserted from outside.  True if it is to be inserted as it is. */
static bool
restore(TriggerData *trigger)
{
	Oid			relid = RelationGetRelid(trigger->tg_relation);
	ErrorContextCallback context = {
		.previous = error_context_stack,
		.callback = name_row
	};
	bool		mergeable;
	bool		keep = false;

	if (!idgen_tables_find() ||
		(relid != idgen_tables_relid(IDGEN_TABLE_NAMESPACE) &&
		 relid != idgen_tables_relid(IDGEN_TABLE_FLOOR) &&
		 relid != idgen_tables_relid(IDGEN_TABLE_WORKER)))
		refuse_change(RelationGetRelationName(trigger->tg_relation));
	mergeable = may_merge(trigger);
	context.arg = row_name(trigger, relid);
	error_context_stack = &context;
	if (mergeable)
		keep = merge(trigger, relid);
	else
		notice(trigger, relid);
	error_context_stack = context.previous;
	return keep;
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
	if (DatumGetInt64(heap_getattr(trigger->tg_newtuple, IDGEN_WORKER_HIGH_WATER, desc, &isnull)) <
		DatumGetInt64(heap_getattr(trigger->tg_trigtuple, IDGEN_WORKER_HIGH_WATER, desc, &isnull)))
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

	if (idgen_query_running())
	{
		refuse_decrease(trigger);
		keep = true;
	}
	else if (TRIGGER_FIRED_FOR_STATEMENT(trigger->tg_event))
	{
		refuse_change(RelationGetRelationName(trigger->tg_relation));
		keep = false;
	}
	else if (from_replication())
		keep = false;
	else if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		keep = restore(trigger);
	else
	{
		refuse_change(RelationGetRelationName(trigger->tg_relation));
		keep = false;
	}

	if (!keep)
		return PointerGetDatum(NULL);
	return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ?
						   trigger->tg_newtuple : trigger->tg_trigtuple);
}
