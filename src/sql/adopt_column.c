/*
 * adopt_column.c
 *		The SQL function that has an existing column take its values from idgen.
 *
 * It runs as the caller, by the commands that the caller could type.  It does the plain
 * case, and leaves every other one to the manual, with nothing changed.
 */
#include "compat.h"

#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "catalog/query.h"
#include "catalog/tables.h"
#include "session/generator.h"
#include "settings.h"
#include "sql/arguments.h"
#include "sql/consumer.h"
#include "sql/extent.h"

/* Sections of doc/migrating.md. */
#define RECIPE_CONVERTING	"Converting a table"
#define RECIPE_WIDENING		"Integer keys"
#define RECIPE_PARTITIONS	"Partitioned tables"
#define RECIPE_INHERITANCE	"Inheritance"
#define RECIPE_BY_NAME		"Other defaults"
#define RECIPE_CUT			"Changing the format"

/* An error about a column that is not the plain case. */
pg_noreturn static void
refuse(const IdgenConsumer *consumer, int sqlstate, const char *why, const char *recipe)
{
	ereport(ERROR,
			(errcode(sqlstate),
			 errmsg("cannot adopt column \"%s\" of \"%s\"", consumer->column,
					consumer->table),
			 errdetail_internal("%s", why),
			 errhint("Nothing was changed. See section \"%s\" of doc/migrating.md.",
					 recipe)));
}

/* An error unless the relation is an ordinary table of the caller. */
static void
check_table(const IdgenConsumer *consumer)
{
	if (!consumer->owned)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of table %s", consumer->table)));
	if (consumer->relid < FirstNormalObjectId || IsCatalogRelationOid(consumer->relid) ||
		idgen_tables_ours(consumer->relid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot adopt a column of system table \"%s\"", consumer->table)));
	if (consumer->relkind == RELKIND_PARTITIONED_TABLE || consumer->partition)
		refuse(consumer, ERRCODE_FEATURE_NOT_SUPPORTED,
			   "The table is partitioned, or a partition.", RECIPE_PARTITIONS);
	if (consumer->relkind != RELKIND_RELATION)
		refuse(consumer, ERRCODE_WRONG_OBJECT_TYPE,
			   "It is a view, a foreign table or another relation that is no ordinary table.",
			   RECIPE_CONVERTING);
	if (consumer->inherits)
		refuse(consumer, ERRCODE_FEATURE_NOT_SUPPORTED,
			   "The table inherits from another one, or another one from it.",
			   RECIPE_INHERITANCE);
}

/* An error unless the column can hold IDs and can be told to. */
static void
check_column(const IdgenConsumer *consumer)
{
	if (consumer->generated)
		refuse(consumer, ERRCODE_FEATURE_NOT_SUPPORTED,
			   "The column is generated from others.", RECIPE_CONVERTING);
	if (consumer->domain)
		refuse(consumer, ERRCODE_FEATURE_NOT_SUPPORTED,
			   psprintf("Its type %s is a domain.", consumer->type_name), RECIPE_BY_NAME);
	if (consumer->type != INT8OID)
		refuse(consumer, ERRCODE_DATATYPE_MISMATCH,
			   psprintf("Its type is %s, not bigint.", consumer->type_name),
			   RECIPE_WIDENING);
	if (consumer->refers)
		refuse(consumer, ERRCODE_FEATURE_NOT_SUPPORTED,
			   "The column refers to a key of another table, so its values come from there.",
			   RECIPE_CONVERTING);
	if (consumer->narrower != NIL)
		refuse(consumer, ERRCODE_DATATYPE_MISMATCH,
			   psprintf("The %s refers to it and is too small for an ID.",
						(char *) linitial(consumer->narrower)), RECIPE_WIDENING);
	if (!consumer->unique)
		refuse(consumer, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
			   "No primary key, unique constraint or unique index is on this column alone.",
			   RECIPE_CONVERTING);
}

/* True if the column takes its values from this namespace already. */
static bool
check_default(const IdgenConsumer *consumer, const char *namespace_name)
{
	switch (consumer->default_kind)
	{
		case IDGEN_DEFAULT_NONE:
		case IDGEN_DEFAULT_OWN_SEQUENCE:
			return false;
		case IDGEN_DEFAULT_ISSUES:
			if (consumer->namespace_name != NULL &&
				strcmp(consumer->namespace_name, namespace_name) == 0)
				return true;
			refuse(consumer, ERRCODE_FEATURE_NOT_SUPPORTED,
				   "The column takes its values from another namespace.", RECIPE_CUT);
			break;
		case IDGEN_DEFAULT_OTHER:
			refuse(consumer, ERRCODE_FEATURE_NOT_SUPPORTED,
				   "Its default is neither absent nor nextval() of a sequence that the column owns.",
				   RECIPE_BY_NAME);
	}
	return false;
}

/*
 * Read the column and check it.  NULL if there is nothing to do.  This is done before
 * the table is locked, so that no refusal waits for a lock or holds up others, and
 * again under the lock.
 */
static IdgenConsumer *
find_and_check(Oid relid, const char *column, const char *namespace_name)
{
	IdgenConsumer *consumer = idgen_consumer_find(relid, column);

	if (consumer == NULL)
	{
		char	   *table = get_rel_name(relid);

		if (table == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("relation with OID %u does not exist", relid)));
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", column, table)));
	}
	check_table(consumer);
	check_column(consumer);
	return check_default(consumer, namespace_name) ? NULL : consumer;
}

/*
 * The least ID that the namespace can still issue: the time of one that it issued just
 * now, less the length of a fence.  A grant that can still be used began later, and so
 * does every cursor and external generator, even if its clock is behind or was set back.
 *
 * This issues as the caller, who learns whether the namespace works before the table
 * is locked.
 */
static int64
next_id_at_least(const char *namespace_name)
{
	IdgenDeadline deadline;
	IdgenSession *session = idgen_session_open(namespace_name, strlen(namespace_name),
											   &deadline);
	const IdgenLayout *layout = &session->ns->row.layout;
	int64		id = idgen_generator_next_until(session, deadline);
	int64		tick = id >> (layout->worker_bits + layout->sequence_bits);

	tick -= idgen_layout_ticks_ceil(layout, layout->horizon_ms + idgen_max_clock_error_ms);
	return idgen_layout_assemble(layout, Max(tick, 0), 0, 0);
}

/* An error unless all values of the column lie below the IDs to come. */
static void
check_greatest(const IdgenConsumer *consumer, const char *namespace_name, int64 at_least)
{
	IdgenExtent extent;

	idgen_extent_read(consumer, &extent);
	if (extent.unknown != NULL)
		refuse(consumer, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
			   psprintf("Its greatest value is not known: %s.", extent.unknown),
			   RECIPE_CONVERTING);
	if (extent.count > 0 && extent.last[0] >= at_least)
		refuse(consumer, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
			   psprintf("Its greatest value is " INT64_FORMAT ", and namespace \"%s\" may issue IDs from " INT64_FORMAT " on.",
						extent.last[0], namespace_name, at_least), RECIPE_CUT);
}

/*
 * The default, as SQL.  Without an argument if that can only mean our function; else
 * with its exact type, which no other function of that name can have.
 */
static char *
default_sql(const char *namespace_name)
{
	Oid			schema = idgen_tables_function_schema();
	char	   *function = quote_qualified_identifier(get_namespace_name(schema), "idgen_next");
	Oid			types[1] = {OIDOID};
	Datum		values[1] = {ObjectIdGetDatum(schema)};

	if (strcmp(namespace_name, "default") == 0 &&
		idgen_query_catalogs("SELECT FROM pg_proc WHERE proname = 'idgen_next' AND pronamespace = $1",
							 1, types, values) == 1)
		return psprintf("%s()", function);
	return psprintf("%s(%s::pg_catalog.text)", function,
					quote_literal_cstr(namespace_name));
}

static void
tell_of_drop(const IdgenConsumer *consumer)
{
	Oid			types[1] = {OIDOID};
	Datum		values[1] = {ObjectIdGetDatum(consumer->sequence)};
	bool		isnull;
	Datum		last;

	(void) idgen_query_catalogs("SELECT pg_sequence_last_value($1)", 1, types, values);
	last = idgen_query_value(0, 1, &isnull);
	ereport(NOTICE,
			(errmsg("sequence %s is dropped", consumer->sequence_name),
			 isnull ? errdetail("It was never used.") :
			 errdetail("Its last value was " INT64_FORMAT ".", DatumGetInt64(last))));
}

/*
 * The sequence that the column owned is dropped, as that of an identity column is, so
 * that nobody goes on to take values from it; unless something else depends on it.
 */
static void
drop_sequence(const IdgenConsumer *consumer)
{
	Oid			types[1] = {OIDOID};
	Datum		values[1] = {ObjectIdGetDatum(consumer->sequence)};

	if (idgen_query_catalogs("SELECT FROM pg_depend WHERE refclassid = 'pg_class'::regclass"
							 " AND refobjid = $1 AND deptype <> 'i'", 1, types, values) > 0)
	{
		idgen_query_command(psprintf("ALTER SEQUENCE %s OWNED BY NONE",
									 consumer->sequence_name));
		ereport(NOTICE,
				(errmsg("sequence %s is kept, because other objects depend on it",
						consumer->sequence_name)));
		return;
	}
	tell_of_drop(consumer);
	idgen_query_command(psprintf("DROP SEQUENCE %s", consumer->sequence_name));
}

/* Let the column take its values from the namespace. */
static void
adopt(const IdgenConsumer *consumer, const char *namespace_name)
{
	char	   *column = psprintf("ALTER TABLE %s ALTER COLUMN %s",
								  quote_qualified_identifier(consumer->schema, consumer->table),
								  quote_identifier(consumer->column));

	if (consumer->identity)
	{
		tell_of_drop(consumer);
		idgen_query_command(psprintf("%s DROP IDENTITY", column));
	}
	idgen_query_command(psprintf("%s SET DEFAULT %s", column, default_sql(namespace_name)));
	if (OidIsValid(consumer->sequence) && !consumer->identity)
		drop_sequence(consumer);
}

static void
warn_of_writers(const IdgenConsumer *consumer, const char *namespace_name)
{
	List	   *barred = idgen_consumer_barred(consumer, namespace_name,
											   idgen_consumer_function("idgen_next"));
	ListCell   *cell;

	foreach(cell, barred)
	{
		ereport(WARNING,
				(errmsg("%s", (char *) lfirst(cell)),
				 errhint("Their inserts into \"%s\" will fail. See idgen_allow() and GRANT EXECUTE.",
						 consumer->table)));
	}
}

PG_FUNCTION_INFO_V1(idgen_adopt_column);
Datum
idgen_adopt_column(PG_FUNCTION_ARGS)
{
	Oid			relid;
	char	   *column;
	char	   *namespace_name;
	int64		at_least;
	IdgenConsumer *consumer;

	REQUIRE_ARG(0, "table");
	REQUIRE_ARG(1, "column");
	REQUIRE_ARG(2, "namespace");
	PreventCommandIfReadOnly("idgen_adopt_column()");
	PreventCommandDuringRecovery("idgen_adopt_column()");
	relid = PG_GETARG_OID(0);
	column = NameStr(*PG_GETARG_NAME(1));
	namespace_name = text_to_cstring(PG_GETARG_TEXT_PP(2));

	idgen_query_connect();
	consumer = find_and_check(relid, column, namespace_name);
	if (consumer != NULL)
	{
		at_least = next_id_at_least(namespace_name);
		LockRelationOid(relid, AccessExclusiveLock);
		consumer = find_and_check(relid, column, namespace_name);
	}
	if (consumer == NULL)
		ereport(NOTICE,
				(errmsg("column \"%s\" already takes its values from namespace \"%s\"",
						column, namespace_name)));
	else
	{
		check_greatest(consumer, namespace_name, at_least);
		adopt(consumer, namespace_name);
		warn_of_writers(consumer, namespace_name);
	}
	idgen_query_end();
	PG_RETURN_VOID();
}
