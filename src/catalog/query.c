/*
 * query.c
 *		Run SQL on the authority's tables, and on columns that take IDs.
 *
 * Queries on the tables run as the owner of the tables, in a security-restricted context and with
 * a pinned search_path, after a check that nothing is attached to the tables but what
 * this extension attached (idgen_integrity_check).  So no trigger, rule, index
 * expression or row security policy ever runs with somebody else's rights.
 */
#include "compat.h"

#include "catalog/query.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/uuid.h"

#include "catalog/table_lock.h"
#include "catalog/tables.h"
#include "error.h"

/*
 * Plans, kept as long as the tables stay where they are.  PostgreSQL itself replans
 * a query when the tables change in another way.
 */
static struct
{
	SPIPlanPtr	plan;
	uint64		location;		/* of the tables when it was made */
}			plans[IDGEN_QUERY_COUNT];

/* True while our own SQL runs in this process: the guards let it pass. */
static bool writing = false;

bool
idgen_query_running(void)
{
	return writing;
}

/* Put the qualified table names in. */
static char *
query_text(IdgenQuery query)
{
	StringInfoData sql;
	const char *at = idgen_query_texts[query].text;

	initStringInfo(&sql);
	while (*at)
	{
		int			table = 0;

		if (*at != '{')
		{
			appendStringInfoChar(&sql, *at++);
			continue;
		}
		for (; table < IDGEN_TABLE_COUNT; table++)
		{
			const char *name = idgen_table_columns[table].table_name + strlen("idgen_");
			size_t		length = strlen(name);

			if (strncmp(at + 1, name, length) == 0 && at[length + 1] == '}')
			{
				appendStringInfoString(&sql, idgen_tables_qualified(table));
				at += length + 2;
				break;
			}
		}
		if (table == IDGEN_TABLE_COUNT)
			elog(ERROR, "unknown table in idgen query %d", (int) query);
	}
	return sql.data;
}

static SPIPlanPtr
get_plan(IdgenQuery query)
{
	if (plans[query].plan != NULL &&
		plans[query].location != idgen_tables_location())
	{
		SPI_freeplan(plans[query].plan);
		plans[query].plan = NULL;
	}
	if (plans[query].plan == NULL)
	{
		const IdgenQueryText *source = &idgen_query_texts[query];
		SPIPlanPtr	plan = SPI_prepare(query_text(query), source->argument_count,
									   (Oid *) source->types);

		if (plan == NULL)
			elog(ERROR, "could not prepare idgen query %d: %s",
				 (int) query, SPI_result_code_string(SPI_result));
		SPI_keepplan(plan);
		plans[query].plan = plan;
		plans[query].location = idgen_tables_location();
	}
	return plans[query].plan;
}

/*
 * Run a query as the owner of the tables.  Returns the number of rows;
 * idgen_query_value returns what was found.  The caller has called
 * idgen_query_begin, or is the authority in its transaction.
 *
 * The search path is pinned, because functions and operators that somebody else has
 * made could be found along the caller's.
 */
uint64
idgen_query_run(IdgenQuery query, Datum *values, const char *nulls)
{
	Oid			save_user;
	int			save_context;
	int			save_nestlevel;
	volatile int code = 0;

	/* the schema may have been renamed: no lock on a table prevents that */
	(void) idgen_tables_find();
	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(idgen_tables_owner(),
						   save_context | SECURITY_RESTRICTED_OPERATION |
						   SECURITY_LOCAL_USERID_CHANGE);
	save_nestlevel = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp",
							 PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	writing = true;
	PG_TRY();
	{
		code = SPI_execute_plan(get_plan(query), values, nulls, false, 0);
	}
	PG_FINALLY();
	{
		writing = false;
		SetUserIdAndSecContext(save_user, save_context);
	}
	PG_END_TRY();
	AtEOXact_GUC(false, save_nestlevel);

	if (code < 0)
		elog(ERROR, "idgen query %d failed: %s", (int) query,
			 SPI_result_code_string(code));
	return SPI_processed;
}

/*
 * A session begins to write.  All tables are locked, intact and of one owner, so
 * that nothing attached to them runs with more rights than it would have anyway.
 */
void
idgen_query_begin(const char *name)
{
	idgen_table_lock_all(name);
	SPI_connect();
}

/* The authority begins a transaction, or a session only looks. */
void
idgen_query_connect(void)
{
	SPI_connect();
}

/* Ends what idgen_query_begin or idgen_query_connect began. */
void
idgen_query_end(void)
{
	SPI_finish();
}

/* Run a query whose only argument is the name of a namespace. */
uint64
idgen_query_run_for(IdgenQuery query, const char *name)
{
	Datum		values[1] = {CStringGetTextDatum(name)};

	return idgen_query_run(query, values, NULL);
}

/*
 * A column of a row that the last query found; rows count from 0, columns from 1.
 */
Datum
idgen_query_value(uint64 row, int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column,
						 isnull);
}

/* How many rows the last query found or returned. */
uint64
idgen_query_rows(void)
{
	return SPI_tuptable == NULL ? 0 : SPI_tuptable->numvals;
}

/*
 * An error unless every row was written: if not, somebody has changed a mark
 * meanwhile.
 */
void
idgen_query_expect(uint64 written, int expected)
{
	if (written != (uint64) expected)
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("a high-water mark of idgen changed during a grant"),
				 errdetail("Only " UINT64_FORMAT " of %d rows were written.",
						   written, expected)));
}

/* --- what belongs to others */

/*
 * Read PostgreSQL's catalogs, as the current user: no privilege of ours is lent.
 * Returns the number of rows.  The search path is pinned, and the snapshot is taken
 * now, at every isolation level: what is locked is as it is, not as it was.
 */
uint64
idgen_query_catalogs(const char *sql, int argument_count, Oid *types, Datum *values)
{
	int			save_nestlevel = NewGUCNestLevel();
	SPIPlanPtr	plan;
	int			code;

	(void) set_config_option("search_path", "pg_catalog, pg_temp",
							 PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	plan = SPI_prepare(sql, argument_count, types);
	if (plan == NULL)
		elog(ERROR, "could not prepare an idgen query: %s",
			 SPI_result_code_string(SPI_result));
	code = SPI_execute_snapshot(plan, values, NULL, GetLatestSnapshot(),
								InvalidSnapshot, true, false, 0);
	AtEOXact_GUC(false, save_nestlevel);
	if (code < 0)
		elog(ERROR, "an idgen query failed: %s", SPI_result_code_string(code));
	return SPI_processed;
}

/*
 * Run a command as the current user could, whose names must all be qualified.  The
 * search path stays as it is, because event triggers run as if the user had typed it.
 */
void
idgen_query_command(const char *sql)
{
	int			code = SPI_execute(sql, false, 0);

	if (code < 0)
		elog(ERROR, "\"%s\" failed: %s", sql, SPI_result_code_string(code));
}

/* --- arguments */

/* PostgreSQL 15 has macros for this, but not in a header. */
ItemPointer
idgen_query_tid(Datum datum)
{
	return (ItemPointer) DatumGetPointer(datum);
}

Datum
idgen_query_int4_array(Datum *datums, int count)
{
	return PointerGetDatum(construct_array(datums, count, INT4OID,
										   sizeof(int32), true, TYPALIGN_INT));
}

Datum
idgen_query_int8_array(Datum *datums, int count)
{
	return PointerGetDatum(construct_array(datums, count, INT8OID,
										   sizeof(int64), FLOAT8PASSBYVAL,
										   TYPALIGN_DOUBLE));
}

Datum
idgen_query_tid_array(Datum *datums, int count)
{
	return PointerGetDatum(construct_array(datums, count, TIDOID,
										   sizeof(ItemPointerData), false,
										   TYPALIGN_SHORT));
}

/* An array of a varlena type, uuid or int8, with nulls. */
Datum
idgen_query_nullable_array(Datum *datums, bool *nulls, int count, Oid type)
{
	int			bounds[1] = {1};
	int			counts[1] = {count};
	int			length = -1;
	bool		by_value = false;
	char		alignment = TYPALIGN_INT;

	if (type == UUIDOID)
	{
		length = UUID_LEN;
		alignment = TYPALIGN_CHAR;
	}
	else if (type == INT8OID)
	{
		length = sizeof(int64);
		by_value = FLOAT8PASSBYVAL;
		alignment = TYPALIGN_DOUBLE;
	}
	return PointerGetDatum(construct_md_array(datums, nulls, 1, counts, bounds,
											  type, length, by_value, alignment));
}

Datum
idgen_query_text_array(Datum *datums, int count)
{
	return idgen_query_nullable_array(datums, NULL, count, TEXTOID);
}

/* Bytes as a bytea. */
Datum
idgen_query_bytes(const uint8 *bytes, int count)
{
	bytea	   *result = palloc(VARHDRSZ + count);

	SET_VARSIZE(result, VARHDRSZ + count);
	memcpy(VARDATA(result), bytes, count);
	return PointerGetDatum(result);
}
