/*
 * query.c
 *		The SQL that is run on the authority's tables, and nothing else is.
 *
 * Statements run as the owner of the tables, in a security-restricted context,
 * with a pinned search_path, after a check that nothing is attached to the tables
 * that this extension did not attach (idgen_tables_intact).  So neither a trigger,
 * a rule, an index expression nor a row policy ever runs with somebody else's
 * rights.
 */
#include "compat.h"

#include "catalog/query.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/uuid.h"

/* Array types without a symbol in pg_type.h; their OIDs never change. */
#define TIDARRAYOID		1010
#define BYTEAARRAYOID	1001
#define UUIDARRAYOID	2951

/* "{table}" stands for the qualified name of idgen_table. */
static const struct
{
	const char *text;
	int			argument_count;
	Oid			types[IDGEN_ARGUMENTS_MAX];
}			statements[STATEMENT_COUNT] = {
	[IDGEN_SQL_INSERT_NAMESPACE] = {
		"INSERT INTO {namespace} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,"
		" $10, $11, $12, $13, $14, $15, $16, $17, $18, '{}', '{}', $19, $20)"
		" ON CONFLICT DO NOTHING", 20,
		{
			TEXTOID, TEXTOID, INT4OID, INT4OID, INT4OID, INT8OID, INT8OID,
			INT8OID, INT8OID, INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID,
			BOOLOID, BOOLOID, BOOLOID, TEXTOID, INT4OID, UUIDOID
		}
	},
	[IDGEN_SQL_INSERT_FLOOR] = {
		"INSERT INTO {floor} VALUES ($1, $2, 0) ON CONFLICT DO NOTHING", 2,
		{TEXTOID, INT8OID}
	},
	[IDGEN_SQL_INSERT_AUTHORITY] = {
		"INSERT INTO {authority} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,"
		" $10, $11, $12, now(), 0, 0, 0)", 12,
		{
			TEXTOID, UUIDOID, TEXTOID, INT4OID, INT4OID, INT8OID, OIDOID,
			INT8OID, INT8OID, INT8OID, INT8OID, INT8OID
		}
	},
	[IDGEN_SQL_DELETE_AUTHORITY] = {
		"DELETE FROM ONLY {authority} WHERE namespace = $1", 1, {TEXTOID}
	},
	[IDGEN_SQL_READ_FLOOR] = {
		"SELECT floor, external_end, ctid FROM ONLY {floor} WHERE namespace = $1", 1,
		{TEXTOID}
	},
	[IDGEN_SQL_RAISE_FLOOR] = {
		"INSERT INTO {floor} AS f VALUES ($1, $2, 0) ON CONFLICT (namespace)"
		" DO UPDATE SET floor = $2 WHERE f.floor < $2", 2, {TEXTOID, INT8OID}
	},
	[IDGEN_SQL_RAISE_EXTERNAL_END] = {
		"UPDATE ONLY {floor} SET external_end = $2"
		" WHERE namespace = $1 AND external_end < $2", 2, {TEXTOID, INT8OID}
	},
	[IDGEN_SQL_READ_MARK] = {
		"SELECT high_water FROM ONLY {worker} WHERE namespace = $1 AND worker = $2",
		2, {TEXTOID, INT4OID}
	},
	[IDGEN_SQL_RAISE_MARK] = {
		"UPDATE ONLY {worker} SET high_water = $3, incarnation = NULL"
		" WHERE namespace = $1 AND worker = $2 AND high_water < $3", 3,
		{TEXTOID, INT4OID, INT8OID}
	},
	[IDGEN_SQL_INSERT_MARK] = {
		"INSERT INTO {worker} VALUES ($1, $2, $3, NULL)", 3,
		{TEXTOID, INT4OID, INT8OID}
	},
	[IDGEN_SQL_HIGHEST_WORKER] = {
		"SELECT coalesce(max(worker), 0) FROM ONLY {worker} WHERE namespace = $1", 1,
		{TEXTOID}
	},
	[IDGEN_SQL_LOCK_POLICY] = {
		"SELECT xmin FROM ONLY {namespace} WHERE name = $1 FOR UPDATE", 1, {TEXTOID}
	},
	[IDGEN_SQL_UPDATE_POLICY] = {
		"UPDATE ONLY {namespace} SET"
		" grant_interval_ms = coalesce($2, grant_interval_ms),"
		" run_ahead_ms = coalesce($3, run_ahead_ms),"
		" durability = coalesce($4, durability),"
		" promotion = coalesce($5, promotion),"
		" restricted = coalesce($6, restricted), owner = coalesce($7, owner),"
		" split_parts = coalesce($8, split_parts) WHERE name = $1", 8,
		{TEXTOID, INT8OID, INT8OID, TEXTOID, TEXTOID, BOOLOID, TEXTOID, INT4OID}
	},
	[IDGEN_SQL_LOCK_SPLIT] = {
		"SELECT 1 FROM ONLY {authority} WHERE namespace = $1 FOR UPDATE", 1, {TEXTOID}
	},
	[IDGEN_SQL_UPDATE_SPLIT] = {
		"UPDATE ONLY {authority} SET split_modulus = $2, split_remainder = $3"
		" WHERE namespace = $1", 3, {TEXTOID, INT4OID, INT4OID}
	},
	[IDGEN_SQL_UPDATE_ISSUE_ROLES] = {
		"UPDATE ONLY {namespace} SET issue_roles = CASE WHEN $3"
		" THEN array_append(array_remove(issue_roles, $2), $2)"
		" ELSE array_remove(issue_roles, $2) END WHERE name = $1", 3,
		{TEXTOID, TEXTOID, BOOLOID}
	},
	[IDGEN_SQL_UPDATE_ACQUIRE_ROLES] = {
		"UPDATE ONLY {namespace} SET acquire_roles = CASE WHEN $3"
		" THEN array_append(array_remove(acquire_roles, $2), $2)"
		" ELSE array_remove(acquire_roles, $2) END WHERE name = $1", 3,
		{TEXTOID, TEXTOID, BOOLOID}
	},

	[IDGEN_SQL_SUMS_HOLD] = {
		"SELECT a.worker_count = w.count AND a.mark_sum = w.sum + f.floor + f.external_end"
		" FROM ONLY {authority} a, ONLY {floor} f,"
		" (SELECT count(*), coalesce(sum(high_water), 0) AS sum"
		"  FROM ONLY {worker} WHERE namespace = $1) w"
		" WHERE a.namespace = $1 AND f.namespace = $1", 1, {TEXTOID}
	},
	[IDGEN_SQL_EVER_GRANTED] = {
		"SELECT EXISTS (SELECT FROM ONLY {worker} WHERE namespace = $1)"
		" OR EXISTS (SELECT FROM ONLY {floor} WHERE namespace = $1"
		"  AND (floor > 0 OR external_end > 0))",
		1, {TEXTOID}
	},
	[IDGEN_SQL_HAS_WORKERS] = {
		"SELECT EXISTS (SELECT FROM ONLY {worker} WHERE namespace = $1)", 1, {TEXTOID}
	},
	[IDGEN_SQL_GRANTED_HERE] = {
		"SELECT EXISTS (SELECT FROM ONLY {grant} WHERE namespace = $1)", 1, {TEXTOID}
	},
	[IDGEN_SQL_UPDATE_LINEAGE] = {
		"UPDATE ONLY {namespace} SET lineage = $2 WHERE name = $1", 2,
		{TEXTOID, UUIDOID}
	},
	[IDGEN_SQL_READ_MARKS] = {
		"SELECT w.worker, w.high_water, w.incarnation, w.ctid,"
		" i.kind = 'external', i.role, i.state = 'active' FROM ONLY {worker} w"
		" LEFT JOIN ONLY {incarnation} i ON i.incarnation = w.incarnation"
		" WHERE w.namespace = $1 ORDER BY w.worker", 1, {TEXTOID}
	},
	[IDGEN_SQL_FIND_AUTHORITY] = {
		"SELECT ctid FROM ONLY {authority} WHERE namespace = $1", 1, {TEXTOID}
	},
	[IDGEN_SQL_LAST_CLOCK] = {
		"SELECT last_clock FROM ONLY {authority} WHERE namespace = $1", 1, {TEXTOID}
	},
	[IDGEN_SQL_RECORDED_MS] = {
		"SELECT (extract(epoch FROM recorded_at) * 1000)::bigint"
		" FROM ONLY {authority} WHERE namespace = $1", 1, {TEXTOID}
	},
	[IDGEN_SQL_HIGHEST_MARK] = {
		"SELECT greatest((SELECT max(high_water) FROM ONLY {worker} WHERE namespace = $1),"
		" (SELECT greatest(floor, external_end) FROM ONLY {floor} WHERE namespace = $1), 0)", 1,
		{TEXTOID}
	},
	[IDGEN_SQL_READ_INCARNATION] = {
		"SELECT namespace, worker, kind = 'external', role, token_hash,"
		" state = 'active' FROM ONLY {incarnation} WHERE incarnation = $1", 1,
		{INT8OID}
	},
	[IDGEN_SQL_LAST_GRANT] = {
		"SELECT grant_id, incarnation, request_id, start_tick, end_tick, asked_ms"
		" FROM ONLY {grant} WHERE namespace = $1 AND worker = $2"
		" ORDER BY start_tick DESC LIMIT 1", 2, {TEXTOID, INT4OID}
	},
	[IDGEN_SQL_REQUEST_RECORDED] = {
		"SELECT EXISTS (SELECT FROM (SELECT incarnation, request_id"
		"  FROM ONLY {grant} WHERE namespace = $1 AND worker = $2"
		"  ORDER BY start_tick DESC LIMIT $5) g"
		" WHERE g.incarnation = $3 AND g.request_id = $4)", 5,
		{TEXTOID, INT4OID, INT8OID, UUIDOID, INT8OID}
	},

	/* few incarnations ran further ahead than the policy allows now */
	[IDGEN_SQL_LONGEST_RUN_AHEAD] = {
		"SELECT max(i.run_ahead_ms) FROM ONLY {incarnation} i"
		" WHERE i.namespace = $1 AND i.run_ahead_ms > $3"
		" AND (SELECT g.end_tick FROM ONLY {grant} g WHERE g.namespace = i.namespace"
		"  AND g.worker = i.worker AND g.incarnation = i.incarnation"
		"  ORDER BY g.start_tick DESC LIMIT 1) > $2", 3,
		{TEXTOID, INT8OID, INT8OID}
	},
	[IDGEN_SQL_LOCK_NAMESPACE] = {
		"SELECT 1 FROM ONLY {namespace} WHERE name = $1 FOR UPDATE SKIP LOCKED", 1,
		{TEXTOID}
	},
	[IDGEN_SQL_LOCK_IDENTITY] = {
		"SELECT 1 FROM ONLY {authority} WHERE namespace = $1"
		" FOR UPDATE SKIP LOCKED", 1, {TEXTOID}
	},
	[IDGEN_SQL_LOCK_AUTHORITIES] = {
		"SELECT ctid FROM ONLY {authority} WHERE ctid = ANY ($1)"
		" FOR UPDATE SKIP LOCKED", 1, {TIDARRAYOID}
	},
	[IDGEN_SQL_LOCK_MARKS] = {
		"SELECT ctid FROM ONLY {worker} WHERE ctid = ANY ($1)"
		" FOR UPDATE SKIP LOCKED", 1, {TIDARRAYOID}
	},
	[IDGEN_SQL_LOCK_FLOORS] = {
		"SELECT ctid FROM ONLY {floor} WHERE ctid = ANY ($1)"
		" FOR UPDATE SKIP LOCKED", 1, {TIDARRAYOID}
	},

	[IDGEN_SQL_INSERT_MARKS] = {
		"INSERT INTO {worker} SELECT * FROM"
		" unnest($1, $2, $3, $4) AS r (n, w, e, i)"
		" RETURNING namespace, worker, ctid", 4,
		{TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID, INT8ARRAYOID}
	},
	[IDGEN_SQL_ADVANCE_MARKS] = {
		"UPDATE ONLY {worker} w SET high_water = r.e, incarnation = r.i"
		" FROM unnest($1, $2, $3, $4, $5, $6) AS r (t, n, w, m, e, i)"
		" WHERE w.ctid = r.t AND w.namespace = r.n AND w.worker = r.w"
		" AND w.high_water = r.m RETURNING w.namespace, w.worker, w.ctid", 6,
		{
			TIDARRAYOID, TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID,
			INT8ARRAYOID, INT8ARRAYOID
		}
	},
	[IDGEN_SQL_ADD_TO_SUMS] = {
		"UPDATE ONLY {authority} a SET worker_count = worker_count + r.c,"
		" mark_sum = mark_sum + r.s, last_clock = r.l"
		" FROM (SELECT t, sum(c) AS c, sum(s) AS s, max(l) AS l"
		"  FROM unnest($1, $2, $3, $4) AS u (t, c, s, l) GROUP BY t) r"
		" WHERE a.ctid = r.t RETURNING a.namespace, 0, a.ctid", 4,
		{TIDARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID}
	},
	[IDGEN_SQL_RAISE_EXTERNAL_ENDS] = {
		"UPDATE ONLY {floor} f SET external_end = external_end + r.a"
		" FROM (SELECT t, sum(a)::bigint AS a"
		"  FROM unnest($1, $2) AS u (t, a) GROUP BY t) r"
		" WHERE f.ctid = r.t RETURNING f.namespace, 0, f.ctid", 2,
		{TIDARRAYOID, INT8ARRAYOID}
	},
	[IDGEN_SQL_INSERT_INCARNATIONS] = {
		"INSERT INTO {incarnation} SELECT i, n, w,"
		" CASE WHEN h IS NULL THEN 'server' ELSE 'external' END,"
		" CASE WHEN h IS NULL THEN $8 END, coalesce(r, current_user),"
		" nullif(a, '')::inet, nullif(p, ''), clock_timestamp(), h, 'active', NULL, x"
		" FROM unnest($1, $2, $3, $4, $5, $6, $7, $9) AS u (i, n, w, r, a, p, h, x)", 9,
		{
			INT8ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID,
			TEXTARRAYOID, TEXTARRAYOID, BYTEAARRAYOID, UUIDOID, INT8ARRAYOID
		}
	},
	[IDGEN_SQL_INSERT_GRANTS] = {
		"INSERT INTO {grant} SELECT n, w, s, e, g, i, clock_timestamp(), r, q"
		" FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) AS u (n, w, s, e, g, i, r, q)", 8,
		{
			TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID, INT8ARRAYOID,
			INT8ARRAYOID, INT8ARRAYOID, UUIDARRAYOID, INT8ARRAYOID
		}
	},

	[IDGEN_SQL_END_INCARNATIONS] = {
		"UPDATE ONLY {incarnation} SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE incarnation = ANY ($1) AND state = 'active'", 1, {INT8ARRAYOID}
	},
	[IDGEN_SQL_DEACTIVATE] = {
		"UPDATE ONLY {incarnation} SET state = 'deactivated', ended_at = clock_timestamp()"
		" WHERE incarnation = $1 AND state = 'active'", 1, {INT8OID}
	},
	[IDGEN_SQL_END_STRANGERS] = {
		"UPDATE ONLY {incarnation} SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE incarnation = ANY (ARRAY(SELECT incarnation FROM ONLY {incarnation}"
		"  WHERE state = 'active' AND kind = 'server'"
		"  AND (boot IS DISTINCT FROM $1 OR incarnation <> ALL ($2))"
		"  FOR UPDATE SKIP LOCKED))", 2,
		{UUIDOID, INT8ARRAYOID}
	},
	[IDGEN_SQL_END_ALL] = {
		"UPDATE ONLY {incarnation} SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE namespace = $1 AND state = 'active'", 1, {TEXTOID}
	},
	[IDGEN_SQL_RETIRE_NAMESPACE] = {
		"UPDATE ONLY {namespace} SET retired = true WHERE name = $1", 1, {TEXTOID}
	},
	[IDGEN_SQL_UPDATE_AUTHORITY] = {
		"INSERT INTO {authority} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,"
		" $10, $11, $12, now(), 0, 0, 0) ON CONFLICT (namespace) DO UPDATE"
		" SET uuid = $2, format = $3, split_modulus = $4, split_remainder = $5,"
		" system_identifier = $6, database = $7, timeline = $8,"
		" control_inode = $9, control_birth = $10, version_inode = $11,"
		" version_birth = $12, recorded_at = now()", 12,
		{
			TEXTOID, UUIDOID, TEXTOID, INT4OID, INT4OID, INT8OID, OIDOID,
			INT8OID, INT8OID, INT8OID, INT8OID, INT8OID
		}
	},
	[IDGEN_SQL_UPDATE_RANGE] = {
		"UPDATE ONLY {namespace} SET first_worker = $2, last_worker = $3"
		" WHERE name = $1", 3, {TEXTOID, INT4OID, INT4OID}
	},
	[IDGEN_SQL_RESET_SUMS] = {
		"UPDATE ONLY {authority} SET (worker_count, mark_sum) ="
		" (SELECT count(*), coalesce(sum(high_water), 0) + coalesce("
		"  (SELECT floor::numeric + external_end FROM ONLY {floor} WHERE namespace = $1), 0)"
		"  FROM ONLY {worker} WHERE namespace = $1) WHERE namespace = $1", 1,
		{TEXTOID}
	},

	/*
	 * The oldest rows of one worker at a time: bounded, and by key.  Its last
	 * grant stays as it is, since the next request is judged by it.
	 */
	[IDGEN_SQL_DELETE_GRANTS] = {
		"WITH old AS (SELECT start_tick FROM ONLY {grant}"
		"  WHERE namespace = $1 AND worker = $2 ORDER BY start_tick LIMIT 1000)"
		" DELETE FROM ONLY {grant} g USING old o"
		" WHERE g.namespace = $1 AND g.worker = $2 AND g.start_tick = o.start_tick"
		" AND g.granted_at < clock_timestamp() - make_interval(secs => $3)"
		" AND g.end_tick <= $4 AND g.start_tick < (SELECT l.start_tick"
		"  FROM ONLY {grant} l WHERE l.namespace = $1 AND l.worker = $2"
		"  ORDER BY l.start_tick DESC LIMIT 1)", 4,
		{TEXTOID, INT4OID, FLOAT8OID, INT8OID}
	},
	[IDGEN_SQL_MERGE_GRANTS] = {
		"WITH old AS (SELECT start_tick, end_tick, incarnation, granted_at"
		"  FROM ONLY {grant} WHERE namespace = $1 AND worker = $2"
		"  ORDER BY start_tick LIMIT 1000),"
		" settled AS (SELECT *, CASE WHEN incarnation = lag(incarnation) OVER w"
		"   AND start_tick = lag(end_tick) OVER w THEN 0 ELSE 1 END AS begins"
		"  FROM old WHERE granted_at < clock_timestamp() - make_interval(secs => $3)"
		"  AND end_tick <= $4 AND start_tick < (SELECT l.start_tick"
		"   FROM ONLY {grant} l WHERE l.namespace = $1 AND l.worker = $2"
		"   ORDER BY l.start_tick DESC LIMIT 1)"
		"  WINDOW w AS (ORDER BY start_tick)),"
		" numbered AS (SELECT *, sum(begins) OVER (ORDER BY start_tick) AS run FROM settled),"
		" headed AS (SELECT start_tick, end_tick,"
		"  first_value(start_tick) OVER (PARTITION BY run ORDER BY start_tick) AS first"
		"  FROM numbered),"
		" gone AS (DELETE FROM ONLY {grant} g USING headed h"
		"  WHERE g.namespace = $1 AND g.worker = $2 AND g.start_tick = h.start_tick"
		"  AND h.start_tick > h.first)"
		" UPDATE ONLY {grant} g SET end_tick = r.last"
		" FROM (SELECT first, max(end_tick) AS last FROM headed"
		"  GROUP BY first HAVING count(*) > 1) r"
		" WHERE g.namespace = $1 AND g.worker = $2 AND g.start_tick = r.first", 4,
		{TEXTOID, INT4OID, FLOAT8OID, INT8OID}
	},

	/* an external incarnation that has been silent for so long is over */
	[IDGEN_SQL_END_SILENT] = {
		"UPDATE ONLY {incarnation} i SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE i.state = 'active' AND i.kind = 'external'"
		" AND i.activated_at < clock_timestamp() - make_interval(secs => $1)"
		" AND (SELECT g.incarnation = i.incarnation"
		"   AND g.granted_at > clock_timestamp() - make_interval(secs => $1)"
		"  FROM ONLY {grant} g WHERE g.namespace = i.namespace"
		"  AND g.worker = i.worker ORDER BY g.start_tick DESC LIMIT 1) IS NOT TRUE", 1,
		{FLOAT8OID}
	},
	[IDGEN_SQL_DELETE_INCARNATIONS] = {
		"DELETE FROM ONLY {incarnation} WHERE incarnation = ANY (ARRAY("
		" SELECT incarnation FROM ONLY {incarnation} WHERE state <> 'active'"
		" AND ended_at < clock_timestamp() - make_interval(secs => $1)"
		/* longer than any horizon: see LONGEST_RUN_AHEAD */
		" AND (run_ahead_ms > 0 AND ended_at > clock_timestamp() - interval '1 h') IS NOT TRUE"
		" LIMIT 1000))", 1,
		{FLOAT8OID}
	},
};

/*
 * Plans, kept as long as the tables stay where they are.  PostgreSQL replans
 * them by itself when the tables change otherwise.
 */
static struct
{
	SPIPlanPtr	plan;
	uint64		version;		/* of "found" when it was made */
}			plans[STATEMENT_COUNT];

/* True while our own SQL runs in this process: the guards let it pass. */
static bool writing = false;

bool
idgen_query_running(void)
{
	return writing;
}

/* Put the qualified table names in. */
static char *
statement_text(IdgenQuery statement)
{
	StringInfoData sql;
	const char *at = statements[statement].text;

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
			const char *name = idgen_tables_name(table) + strlen("idgen_");
			size_t		length = strlen(name);

			if (strncmp(at + 1, name, length) == 0 && at[length + 1] == '}')
			{
				appendStringInfoString(&sql, idgen_tables_qualified(table));
				at += length + 2;
				break;
			}
		}
		if (table == IDGEN_TABLE_COUNT)
			appendStringInfoChar(&sql, *at++);	/* '{}', an empty array */
	}
	return sql.data;
}

static SPIPlanPtr
get_plan(IdgenQuery statement)
{
	if (plans[statement].plan != NULL &&
		plans[statement].version != idgen_tables_location())
	{
		SPI_freeplan(plans[statement].plan);
		plans[statement].plan = NULL;
	}
	if (plans[statement].plan == NULL)
	{
		SPIPlanPtr	plan = SPI_prepare(statement_text(statement),
									   statements[statement].argument_count,
									   (Oid *) statements[statement].types);

		if (plan == NULL)
			elog(ERROR, "could not prepare idgen statement %d: %s",
				 (int) statement, SPI_result_code_string(SPI_result));
		SPI_keepplan(plan);
		plans[statement].plan = plan;
		plans[statement].version = idgen_tables_location();
	}
	return plans[statement].plan;
}

/*
 * Run a statement as the owner of the tables.  Returns the number of rows;
 * idgen_query_value has what was found.  The caller has called
 * idgen_query_begin, or is the authority in its transaction.
 *
 * The search path is pinned: the caller's could otherwise lend the statement
 * functions and operators of somebody else's making.
 */
uint64
idgen_query_run(IdgenQuery statement, Datum *values, const char *nulls)
{
	Oid			save_user;
	int			save_context;
	int			save_nestlevel;
	volatile int code = 0;

	/* by the name their schema has now: no lock on a table keeps that */
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
		code = SPI_execute_plan(get_plan(statement), values, nulls, false, 0);
	}
	PG_FINALLY();
	{
		writing = false;
		SetUserIdAndSecContext(save_user, save_context);
	}
	PG_END_TRY();
	AtEOXact_GUC(false, save_nestlevel);

	if (code < 0)
		elog(ERROR, "idgen statement %d failed: %s", (int) statement,
			 SPI_result_code_string(code));
	return SPI_processed;
}

/*
 * A session begins to write: all tables are locked, intact and of one owner, so
 * that nothing attached to them runs with more rights than it would have anyway.
 */
void
idgen_query_begin(const char *name)
{
	idgen_tables_lock_intact(name);
	SPI_connect();
}

/* The authority begins a transaction, or a session only looks. */
void
idgen_query_connect(void)
{
	SPI_connect();
}

/* After either: no more statements. */
void
idgen_query_end(void)
{
	SPI_finish();
}

/* Run a statement whose first argument is a namespace, and no other is. */
uint64
idgen_query_run_for(IdgenQuery statement, const char *name)
{
	Datum		values[1] = {CStringGetTextDatum(name)};

	return idgen_query_run(statement, values, NULL);
}

/*
 * A column of a row found by the last statement; rows count from 0, columns
 * from 1.
 */
Datum
idgen_query_value(uint64 row, int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column,
						 isnull);
}

/* How many rows the last statement found or returned. */
uint64
idgen_query_rows(void)
{
	return SPI_tuptable == NULL ? 0 : SPI_tuptable->numvals;
}

/* Complain unless every row was written: somebody changed a mark under us. */
void
idgen_query_expect(uint64 written, int expected)
{
	if (written != (uint64) expected)
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("a high-water mark of idgen changed during a grant"),
				 errdetail("%d rows were to be written, and " UINT64_FORMAT " were.",
						   expected, written)));
}

/* --- arguments */

/* PostgreSQL 15 keeps its own macros for this to itself. */
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
