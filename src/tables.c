/*
 * tables.c
 *		Find, check, read and write the authority's tables.
 *
 * Reading for the issuing path goes through table scans, with a snapshot of
 * its own, so that it works in any transaction: read-only, parallel, at any
 * isolation level, with any search_path.
 *
 * Writing goes through SPI as the owner of the tables, in a security-restricted
 * context, after a check that nothing is attached to them that this extension
 * did not attach (idgen_tables_intact).  So neither a trigger, a rule, an index
 * expression nor a row policy ever runs with somebody else's rights.
 *
 * Attribute numbers are those of sql/idgen--1.0.sql; idgen_tables_intact
 * compares number and types of the columns before anybody relies on them.
 */
#include "compat.h"

#include "tables.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "rewrite/prs2lock.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "settings.h"

/* --------------------------------------------------------------------
 * What the script made
 * -------------------------------------------------------------------- */

#define COLUMNS_MAX 18
#define GUARDS_PER_TABLE 2

typedef struct IdgenTableShape
{
	const char *name;
	int			index_count;
	int			column_count;
	Oid			types[COLUMNS_MAX];
} IdgenTableShape;

static const IdgenTableShape shapes[IDGEN_TABLE_COUNT] = {
	[IDGEN_TABLE_NAMESPACE] = {
		"idgen_namespace", 1, 18,
		{
			TEXTOID, TEXTOID, INT4OID, INT4OID, INT4OID, INT8OID, INT8OID,
			INT8OID, INT8OID, INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID,
			BOOLOID, BOOLOID, BOOLOID, TEXTOID
		}
	},
	[IDGEN_TABLE_FLOOR] = {"idgen_floor", 1, 2, {TEXTOID, INT8OID}},
	[IDGEN_TABLE_WORKER] = {
		"idgen_worker", 1, 4, {TEXTOID, INT4OID, INT8OID, INT8OID}
	},
	[IDGEN_TABLE_AUTHORITY] = {
		"idgen_authority", 1, 14,
		{
			TEXTOID, UUIDOID, INT4OID, INT4OID, INT8OID, OIDOID, INT8OID,
			INT8OID, INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID,
			NUMERICOID
		}
	},
	[IDGEN_TABLE_INCARNATION] = {
		"idgen_incarnation", 1, 12,
		{
			INT8OID, TEXTOID, INT4OID, TEXTOID, UUIDOID, TEXTOID, INETOID,
			TEXTOID, TIMESTAMPTZOID, BYTEAOID, TEXTOID, TIMESTAMPTZOID
		}
	},
	[IDGEN_TABLE_GRANT] = {
		"idgen_grant", 1, 8,
		{
			INT8OID, INT8OID, TEXTOID, INT4OID, INT8OID, INT8OID,
			TIMESTAMPTZOID, UUIDOID
		}
	},
};

/* Attribute numbers read by scans. */
enum
{
	NAMESPACE_NAME = 1, NAMESPACE_KIND, NAMESPACE_TIMESTAMP_BITS,
	NAMESPACE_WORKER_BITS, NAMESPACE_SEQUENCE_BITS, NAMESPACE_EPOCH_MS,
	NAMESPACE_TICK_MS, NAMESPACE_HORIZON_MS, NAMESPACE_GRANT_INTERVAL_MS,
	NAMESPACE_RUN_AHEAD_MS, NAMESPACE_FIRST_WORKER, NAMESPACE_LAST_WORKER,
	NAMESPACE_DURABILITY, NAMESPACE_PROMOTION, NAMESPACE_RESTRICTED,
	NAMESPACE_ISSUING, NAMESPACE_RETIRED, NAMESPACE_OWNER
};

enum
{
	AUTHORITY_NAMESPACE = 1, AUTHORITY_UUID, AUTHORITY_SPLIT_MODULUS,
	AUTHORITY_SPLIT_REMAINDER, AUTHORITY_SYSTEM_IDENTIFIER, AUTHORITY_DATABASE,
	AUTHORITY_TIMELINE, AUTHORITY_CONTROL_INODE, AUTHORITY_CONTROL_BIRTH,
	AUTHORITY_VERSION_INODE, AUTHORITY_VERSION_BIRTH
};

/* --------------------------------------------------------------------
 * Where they are
 * -------------------------------------------------------------------- */

static struct
{
	bool		valid;
	Oid			schema;
	Oid			owner;
	Oid			relids[IDGEN_TABLE_COUNT];
	char	   *qualified[IDGEN_TABLE_COUNT];	/* in TopMemoryContext */
}			found;

uint64		idgen_tables_version = 1;

static void (*namespace_changed) (void) = NULL;

/*
 * Relations of ours changed, or some relation unknown.  Rows of the namespace
 * and authority tables are announced the same way, see idgen_tables_announce.
 */
static void
relation_changed(Datum arg, Oid relid)
{
	bool		ours = !OidIsValid(relid) || !found.valid;

	for (int i = 0; i < IDGEN_TABLE_COUNT && !ours; i++)
		ours = found.relids[i] == relid;
	if (!ours)
		return;

	if (!OidIsValid(relid) || !found.valid ||
		relid == found.relids[IDGEN_TABLE_NAMESPACE] ||
		relid == found.relids[IDGEN_TABLE_AUTHORITY])
		namespace_changed();
	found.valid = false;
	idgen_tables_version++;
}

/* Call "changed" whenever a namespace may look different from before. */
void
idgen_tables_watch(void (*changed) (void))
{
	namespace_changed = changed;
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
}

/* The schema of the extension; InvalidOid if it is not installed. */
static Oid
extension_schema(void)
{
	Relation	catalog = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			schema = InvalidOid;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum("idgen"));
	scan = systable_beginscan(catalog, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return schema;
}

static Oid
relation_owner(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * Look the tables up; false if the extension is not installed (or somebody
 * moved a table away).  Cheap when nothing changed.
 */
bool
idgen_tables_find(void)
{
	Oid			schema;
	char	   *schema_name;

	if (found.valid)
		return true;

	schema = extension_schema();
	if (!OidIsValid(schema))
		return false;
	schema_name = get_namespace_name(schema);
	if (schema_name == NULL)
		return false;
	for (int i = 0; i < IDGEN_TABLE_COUNT; i++)
	{
		const char *qualified = quote_qualified_identifier(schema_name,
														   shapes[i].name);

		found.relids[i] = get_relname_relid(shapes[i].name, schema);
		if (!OidIsValid(found.relids[i]))
			return false;
		if (found.qualified[i])
			pfree(found.qualified[i]);
		found.qualified[i] = MemoryContextStrdup(TopMemoryContext, qualified);
	}
	found.schema = schema;
	found.owner = relation_owner(found.relids[IDGEN_TABLE_WORKER]);
	found.valid = OidIsValid(found.owner);
	return found.valid;
}

/* After idgen_tables_find. */
Oid
idgen_tables_relid(IdgenTable table)
{
	return found.relids[table];
}

/* After idgen_tables_find. */
Oid
idgen_tables_owner(void)
{
	return found.owner;
}

/* --------------------------------------------------------------------
 * Whether they are intact
 * -------------------------------------------------------------------- */

/* Is this function our guard, still written in C? */
static bool
is_guard(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	result = ((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId &&
		((Form_pg_proc) GETSTRUCT(tuple))->pronamespace == found.schema &&
		strcmp(NameStr(((Form_pg_proc) GETSTRUCT(tuple))->proname),
			   "idgen_guard") == 0;
	ReleaseSysCache(tuple);
	return result;
}

static bool
guards_intact(Relation relation)
{
	TriggerDesc *triggers = relation->trigdesc;

	if (triggers == NULL || triggers->numtriggers != GUARDS_PER_TABLE)
		return false;
	for (int i = 0; i < triggers->numtriggers; i++)
		if (triggers->triggers[i].tgenabled != TRIGGER_FIRES_ALWAYS ||
			!is_guard(triggers->triggers[i].tgfoid))
			return false;
	return triggers->trig_insert_before_row &&
		triggers->trig_update_before_row &&
		triggers->trig_delete_before_row &&
		triggers->trig_truncate_before_statement;
}

static bool
columns_intact(const IdgenTableShape *shape, Relation relation)
{
	TupleDesc	desc = RelationGetDescr(relation);

	if (desc->natts != shape->column_count)
		return false;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		if (attribute->attisdropped || attribute->atttypid != shape->types[i] ||
			attribute->attgenerated != '\0')
			return false;
	}
	return true;
}

/* Exactly the indexes of the script; an added one could run a function. */
static bool
indexes_intact(const IdgenTableShape *shape, Relation relation)
{
	List	   *indexes = RelationGetIndexList(relation);
	bool		intact = list_length(indexes) == shape->index_count &&
		OidIsValid(idgen_primary_key_index(relation));

	list_free(indexes);
	return intact;
}

/*
 * Is a table as the install script made it?  If not, *why says what differs.
 * The caller has the relation open.
 */
bool
idgen_tables_intact(IdgenTable table, Relation relation, char *why, Size why_size)
{
	const IdgenTableShape *shape = &shapes[table];
	const char *what = NULL;

	if (relation->rd_rel->relkind != RELKIND_RELATION)
		what = "is not an ordinary table";
	else if (relation->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		what = "is not logged";
	else if (!columns_intact(shape, relation))
		what = "has other columns than it was made with";
	else if (!guards_intact(relation))
		what = "has other triggers than its guards, or a guard is not enabled always";
	else if (relation->rd_rules != NULL && relation->rd_rules->numLocks > 0)
		what = "has rules";
	else if (relation->rd_rel->relrowsecurity ||
			 relation->rd_rel->relforcerowsecurity)
		what = "has row security";
	else if (relation->rd_rel->relchecks != 0)
		what = "has check constraints";
	else if (!indexes_intact(shape, relation))
		what = "has other indexes than its primary key";

	if (what != NULL)
		snprintf(why, why_size, "Table \"%s\" %s.", shape->name, what);
	return what == NULL;
}

/* --------------------------------------------------------------------
 * Reading by scan
 * -------------------------------------------------------------------- */

/* How often a lock held by another session is tried again. */
#define LOCK_RETRY_US 1000

/* A row found by its primary key "namespace name". */
typedef struct IdgenScan
{
	Relation	relation;
	SysScanDesc scan;
	HeapTuple	tuple;			/* NULL if there is none */
} IdgenScan;

/*
 * Lock a table for reading, but wait for no more than idgen.wait_timeout:
 * somebody may be in the middle of a long transaction with DROP EXTENSION.
 */
static void
lock_for_reading(IdgenTable table, const char *name)
{
	int64		give_up_at_us = 0;

	while (!ConditionalLockRelationOid(found.relids[table], AccessShareLock))
	{
		int64		now_us = idgen_clock_monotonic_us();

		if (give_up_at_us == 0)
			give_up_at_us = now_us + (int64) idgen_wait_timeout_ms * 1000;
		if (now_us >= give_up_at_us)
			ereport(ERROR,
					(errcode(ERRCODE_IDGEN_UNAVAILABLE),
					 errmsg("namespace \"%s\" is unavailable", name),
					 errdetail("Another session holds a lock on table \"%s\", as DROP EXTENSION does until its transaction ends.",
							   shapes[table].name),
					 errhint("Retry; if it goes on, look in pg_locks for who holds it.")));
		CHECK_FOR_INTERRUPTS();
		pg_usleep(LOCK_RETRY_US);
	}
}

/*
 * Open a table and find the row of a namespace; false if the table is gone.
 * The snapshot is taken now, whatever the transaction's isolation level: what
 * others committed counts.
 */
static bool
scan_begin(IdgenScan *scan, IdgenTable table, const char *name)
{
	char		why[IDGEN_FAILURE_TEXT_MAX];
	ScanKeyData key;

	lock_for_reading(table, name);
	scan->relation = try_relation_open(found.relids[table], NoLock);
	if (scan->relation == NULL)
		return false;
	if (!idgen_tables_intact(table, scan->relation, why, sizeof(why)))
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("namespace \"%s\" is unavailable", name),
				 errdetail_internal("%s", why),
				 errhint("Undo what was done to it; if marks were lost, the namespaces need a fence.")));

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(name));
	scan->scan = systable_beginscan(scan->relation,
									idgen_primary_key_index(scan->relation),
									true, NULL, 1, &key);
	scan->tuple = systable_getnext(scan->scan);
	return true;
}

static void
scan_end(IdgenScan *scan)
{
	systable_endscan(scan->scan);
	table_close(scan->relation, AccessShareLock);
}

static Datum
scan_column(IdgenScan *scan, int attribute)
{
	bool		isnull;
	Datum		value = heap_getattr(scan->tuple, attribute,
									 RelationGetDescr(scan->relation), &isnull);

	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("the tables of idgen are damaged"),
				 errdetail("Column %d of table \"%s\" is null.", attribute,
						   RelationGetRelationName(scan->relation))));
	return value;
}

static int64
scan_int64(IdgenScan *scan, int attribute)
{
	return DatumGetInt64(scan_column(scan, attribute));
}

static int32
scan_int32(IdgenScan *scan, int attribute)
{
	return DatumGetInt32(scan_column(scan, attribute));
}

static bool
scan_bool(IdgenScan *scan, int attribute)
{
	return DatumGetBool(scan_column(scan, attribute));
}

static void
scan_text(IdgenScan *scan, int attribute, char *value)
{
	char	   *string = TextDatumGetCString(scan_column(scan, attribute));

	strlcpy(value, string, NAMEDATALEN);
	pfree(string);
}

/* Read a row of idgen_namespace; false if there is none.  After find. */
bool
idgen_tables_read_namespace(const char *name, IdgenNamespaceRow *row)
{
	IdgenScan	scan;
	bool		exists;

	if (!scan_begin(&scan, IDGEN_TABLE_NAMESPACE, name))
		return false;
	exists = scan.tuple != NULL;
	if (exists)
	{
		memset(row, 0, sizeof(*row));
		scan_text(&scan, NAMESPACE_NAME, row->name);
		row->layout.kind = IDGEN_KIND_TIME;
		row->layout.timestamp_bits = scan_int32(&scan, NAMESPACE_TIMESTAMP_BITS);
		row->layout.worker_bits = scan_int32(&scan, NAMESPACE_WORKER_BITS);
		row->layout.sequence_bits = scan_int32(&scan, NAMESPACE_SEQUENCE_BITS);
		row->layout.epoch_ms = scan_int64(&scan, NAMESPACE_EPOCH_MS);
		row->layout.tick_ms = scan_int64(&scan, NAMESPACE_TICK_MS);
		row->layout.horizon_ms = scan_int64(&scan, NAMESPACE_HORIZON_MS);
		row->grant_interval_ms = scan_int64(&scan, NAMESPACE_GRANT_INTERVAL_MS);
		row->run_ahead_ms = scan_int64(&scan, NAMESPACE_RUN_AHEAD_MS);
		row->first_worker = scan_int32(&scan, NAMESPACE_FIRST_WORKER);
		row->last_worker = scan_int32(&scan, NAMESPACE_LAST_WORKER);
		scan_text(&scan, NAMESPACE_DURABILITY, row->durability);
		scan_text(&scan, NAMESPACE_PROMOTION, row->promotion);
		row->restricted = scan_bool(&scan, NAMESPACE_RESTRICTED);
		row->issuing = scan_bool(&scan, NAMESPACE_ISSUING);
		row->retired = scan_bool(&scan, NAMESPACE_RETIRED);
		scan_text(&scan, NAMESPACE_OWNER, row->owner);
	}
	scan_end(&scan);
	return exists;
}

/*
 * Read a row of idgen_authority; false if there is none.  *xmin is the
 * transaction that made this row version.
 */
bool
idgen_tables_read_authority(const char *name, IdgenAuthorityRow *row,
							TransactionId *xmin)
{
	IdgenScan	scan;
	bool		exists;

	if (!scan_begin(&scan, IDGEN_TABLE_AUTHORITY, name))
		return false;
	exists = scan.tuple != NULL;
	if (exists)
	{
		IdgenIdentity *identity = &row->identity;

		row->uuid = *DatumGetUUIDP(scan_column(&scan, AUTHORITY_UUID));
		row->split_modulus = scan_int32(&scan, AUTHORITY_SPLIT_MODULUS);
		row->split_remainder = scan_int32(&scan, AUTHORITY_SPLIT_REMAINDER);
		identity->system_identifier =
			(uint64) scan_int64(&scan, AUTHORITY_SYSTEM_IDENTIFIER);
		identity->database =
			DatumGetObjectId(scan_column(&scan, AUTHORITY_DATABASE));
		identity->timeline = (uint32) scan_int64(&scan, AUTHORITY_TIMELINE);
		identity->control_inode =
			(uint64) scan_int64(&scan, AUTHORITY_CONTROL_INODE);
		identity->control_birth = scan_int64(&scan, AUTHORITY_CONTROL_BIRTH);
		identity->version_inode =
			(uint64) scan_int64(&scan, AUTHORITY_VERSION_INODE);
		identity->version_birth = scan_int64(&scan, AUTHORITY_VERSION_BIRTH);
		*xmin = HeapTupleHeaderGetXmin(scan.tuple->t_data);
	}
	scan_end(&scan);
	return exists;
}

/* --------------------------------------------------------------------
 * Running SQL
 * -------------------------------------------------------------------- */

#define ARGUMENTS_MAX 18

typedef enum IdgenStatement
{
	SQL_INSERT_NAMESPACE,
	SQL_INSERT_FLOOR,
	SQL_INSERT_AUTHORITY,
	SQL_UPDATE_AUTHORITY,
	SQL_DELETE_AUTHORITY,
	SQL_RETIRE_NAMESPACE,
	SQL_RAISE_FLOOR,
	SQL_READ_FLOOR,
	SQL_READ_MARK,
	SQL_RAISE_MARK,
	SQL_INSERT_MARK,
	SQL_LOCK_AUTHORITY,
	SQL_SUMS_HOLD,
	SQL_EVER_GRANTED,
	SQL_LOCK_MARK,
	SQL_RESERVED_WORKERS,
	SQL_EARLIEST_WORKER,
	SQL_INSERT_MARKS,
	SQL_ADVANCE_MARKS,
	SQL_ADD_TO_SUMS,
	SQL_INSERT_INCARNATIONS,
	SQL_INSERT_GRANTS,
	SQL_END_INCARNATION,
	SQL_END_STRANGERS,
	SQL_END_ALL,
	SQL_HIGHEST_MARK
} IdgenStatement;

#define STATEMENT_COUNT (SQL_HIGHEST_MARK + 1)

/* "{table}" stands for the qualified name of idgen_table. */
static const struct
{
	const char *text;
	int			argument_count;
	Oid			types[ARGUMENTS_MAX];
}			statements[STATEMENT_COUNT] = {
	[SQL_INSERT_NAMESPACE] = {
		"INSERT INTO {namespace} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,"
		" $10, $11, $12, $13, $14, $15, $16, $17, $18)", 18,
		{
			TEXTOID, TEXTOID, INT4OID, INT4OID, INT4OID, INT8OID, INT8OID,
			INT8OID, INT8OID, INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID,
			BOOLOID, BOOLOID, BOOLOID, TEXTOID
		}
	},
	[SQL_INSERT_FLOOR] = {
		"INSERT INTO {floor} VALUES ($1, $2)", 2, {TEXTOID, INT8OID}
	},
	[SQL_INSERT_AUTHORITY] = {
		"INSERT INTO {authority} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,"
		" $10, $11, now(), 0, 0)", 11,
		{
			TEXTOID, UUIDOID, INT4OID, INT4OID, INT8OID, OIDOID, INT8OID,
			INT8OID, INT8OID, INT8OID, INT8OID
		}
	},
	[SQL_UPDATE_AUTHORITY] = {
		"UPDATE ONLY {authority} SET uuid = $2, split_modulus = $3,"
		" split_remainder = $4, system_identifier = $5, database = $6,"
		" timeline = $7, control_inode = $8, control_birth = $9,"
		" version_inode = $10, version_birth = $11, recorded_at = now()"
		" WHERE namespace = $1", 11,
		{
			TEXTOID, UUIDOID, INT4OID, INT4OID, INT8OID, OIDOID, INT8OID,
			INT8OID, INT8OID, INT8OID, INT8OID
		}
	},
	[SQL_DELETE_AUTHORITY] = {
		"DELETE FROM ONLY {authority} WHERE namespace = $1", 1, {TEXTOID}
	},
	[SQL_RETIRE_NAMESPACE] = {
		"UPDATE ONLY {namespace} SET retired = true WHERE name = $1", 1, {TEXTOID}
	},
	[SQL_RAISE_FLOOR] = {
		"UPDATE ONLY {floor} SET floor = $2 WHERE namespace = $1 AND floor < $2",
		2, {TEXTOID, INT8OID}
	},
	[SQL_READ_FLOOR] = {
		"SELECT floor FROM ONLY {floor} WHERE namespace = $1", 1, {TEXTOID}
	},
	[SQL_READ_MARK] = {
		"SELECT high_water FROM ONLY {worker} WHERE namespace = $1 AND worker = $2",
		2, {TEXTOID, INT4OID}
	},
	[SQL_RAISE_MARK] = {
		"UPDATE ONLY {worker} SET high_water = $3, incarnation = NULL"
		" WHERE namespace = $1 AND worker = $2 AND high_water < $3", 3,
		{TEXTOID, INT4OID, INT8OID}
	},
	[SQL_INSERT_MARK] = {
		"INSERT INTO {worker} VALUES ($1, $2, $3, NULL)", 3,
		{TEXTOID, INT4OID, INT8OID}
	},
	[SQL_LOCK_AUTHORITY] = {
		"SELECT 1 FROM ONLY {authority} WHERE namespace = $1"
		" FOR UPDATE SKIP LOCKED", 1, {TEXTOID}
	},
	[SQL_SUMS_HOLD] = {
		"SELECT a.worker_count = w.count AND a.mark_sum = w.sum"
		" FROM ONLY {authority} a,"
		" (SELECT count(*), coalesce(sum(high_water), 0) AS sum"
		"  FROM ONLY {worker} WHERE namespace = $1) w"
		" WHERE a.namespace = $1", 1, {TEXTOID}
	},
	[SQL_EVER_GRANTED] = {
		"SELECT EXISTS (SELECT FROM ONLY {worker} WHERE namespace = $1)"
		" OR EXISTS (SELECT FROM ONLY {floor} WHERE namespace = $1 AND floor > 0)",
		1, {TEXTOID}
	},
	[SQL_LOCK_MARK] = {
		"SELECT high_water, incarnation FROM ONLY {worker}"
		" WHERE namespace = $1 AND worker = $2 FOR UPDATE SKIP LOCKED", 2,
		{TEXTOID, INT4OID}
	},
	[SQL_RESERVED_WORKERS] = {
		"SELECT worker FROM ONLY {worker} WHERE namespace = $1"
		" AND high_water > $2 ORDER BY worker", 2, {TEXTOID, INT8OID}
	},
	[SQL_EARLIEST_WORKER] = {
		"SELECT worker FROM ONLY {worker} WHERE namespace = $1"
		" AND worker BETWEEN $2 AND $3 AND worker % $4 = $5"
		" AND worker <> ALL ($6) ORDER BY high_water LIMIT 1", 6,
		{TEXTOID, INT4OID, INT4OID, INT4OID, INT4OID, INT4ARRAYOID}
	},
	[SQL_INSERT_MARKS] = {
		"INSERT INTO {worker} SELECT * FROM"
		" unnest($1, $2, $3, $4) AS r (n, w, e, i)", 4,
		{TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID, INT8ARRAYOID}
	},
	[SQL_ADVANCE_MARKS] = {
		"UPDATE ONLY {worker} w SET high_water = r.e, incarnation = r.i"
		" FROM unnest($1, $2, $3, $4, $5) AS r (n, w, m, e, i)"
		" WHERE w.namespace = r.n AND w.worker = r.w AND w.high_water = r.m", 5,
		{TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID}
	},
	[SQL_ADD_TO_SUMS] = {
		"UPDATE ONLY {authority} a SET worker_count = worker_count + r.c,"
		" mark_sum = mark_sum + r.s FROM (SELECT n, sum(c) AS c, sum(s) AS s"
		"  FROM unnest($1, $2, $3) AS u (n, c, s) GROUP BY n) r"
		" WHERE a.namespace = r.n", 3,
		{TEXTARRAYOID, INT8ARRAYOID, INT8ARRAYOID}
	},
	[SQL_INSERT_INCARNATIONS] = {
		"INSERT INTO {incarnation} SELECT i, n, w, 'server', $4, current_user,"
		" NULL, NULL, clock_timestamp(), NULL, 'active', NULL"
		" FROM unnest($1, $2, $3) AS r (i, n, w)", 4,
		{INT8ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, UUIDOID}
	},
	[SQL_INSERT_GRANTS] = {
		"INSERT INTO {grant} SELECT g, i, n, w, s, e, clock_timestamp(), NULL"
		" FROM unnest($1, $2, $3, $4, $5, $6) AS r (g, i, n, w, s, e)", 6,
		{
			INT8ARRAYOID, INT8ARRAYOID, TEXTARRAYOID, INT4ARRAYOID,
			INT8ARRAYOID, INT8ARRAYOID
		}
	},
	[SQL_END_INCARNATION] = {
		"UPDATE ONLY {incarnation} SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE incarnation = $1 AND state = 'active'", 1, {INT8OID}
	},
	[SQL_END_STRANGERS] = {
		"UPDATE ONLY {incarnation} SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE state = 'active' AND kind = 'server' AND boot IS DISTINCT FROM $1", 1,
		{UUIDOID}
	},
	[SQL_END_ALL] = {
		"UPDATE ONLY {incarnation} SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE namespace = $1 AND state = 'active'", 1, {TEXTOID}
	},
	[SQL_HIGHEST_MARK] = {
		"SELECT greatest((SELECT max(high_water) FROM ONLY {worker} WHERE namespace = $1),"
		" (SELECT floor FROM ONLY {floor} WHERE namespace = $1), 0)", 1, {TEXTOID}
	},
};

/*
 * Plans, kept as long as the tables stay where they are.  PostgreSQL replans
 * them by itself when the tables change otherwise.
 */
static struct
{
	SPIPlanPtr	plan;
	Oid			relid;			/* idgen_worker's, to notice other tables */
}			plans[STATEMENT_COUNT];

/* True while our own SQL runs in this process: the guards let it pass. */
static bool writing = false;

bool
idgen_tables_writing(void)
{
	return writing;
}

/* Put the qualified table names in. */
static char *
statement_text(IdgenStatement statement)
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
			const char *name = shapes[table].name + strlen("idgen_");
			size_t		length = strlen(name);

			if (strncmp(at + 1, name, length) == 0 && at[length + 1] == '}')
			{
				appendStringInfoString(&sql, found.qualified[table]);
				at += length + 2;
				break;
			}
		}
		Assert(table < IDGEN_TABLE_COUNT);
	}
	return sql.data;
}

static SPIPlanPtr
get_plan(IdgenStatement statement)
{
	Oid			relid = found.relids[IDGEN_TABLE_WORKER];

	if (plans[statement].plan != NULL && plans[statement].relid != relid)
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
		plans[statement].relid = relid;
	}
	return plans[statement].plan;
}

/*
 * Run a statement as the owner of the tables.  Returns the number of rows;
 * SPI_tuptable holds what a SELECT found.  The caller has called SPI_connect
 * and idgen_tables_find.
 *
 * The search path is pinned: the caller's could otherwise lend the statement
 * functions and operators of somebody else's making.
 */
static uint64
run(IdgenStatement statement, Datum *values, const char *nulls)
{
	Oid			save_user;
	int			save_context;
	int			save_nestlevel;
	volatile int code = 0;

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(found.owner,
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

/* Run a statement whose first argument is a namespace, and no other is. */
static uint64
run_for_namespace(IdgenStatement statement, const char *name)
{
	Datum		values[1] = {CStringGetTextDatum(name)};

	return run(statement, values, NULL);
}

/* A column of the first row found. */
static Datum
first_row(int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, column,
						 isnull);
}

/* --------------------------------------------------------------------
 * In the caller's transaction
 * -------------------------------------------------------------------- */

/*
 * Tell every session, at commit, that a namespace changed.  Sent as a relcache
 * invalidation of both tables backends read, so that it is transactional and
 * costs nothing while nothing changes.
 */
void
idgen_tables_announce(void)
{
	CacheInvalidateRelcacheByRelid(found.relids[IDGEN_TABLE_NAMESPACE]);
	CacheInvalidateRelcacheByRelid(found.relids[IDGEN_TABLE_AUTHORITY]);
}

/* Arguments 1 to 11 of the statements that write idgen_authority. */
static void
authority_arguments(const char *name, const IdgenAuthorityRow *row, Datum *values)
{
	const IdgenIdentity *identity = &row->identity;

	values[0] = CStringGetTextDatum(name);
	values[1] = UUIDPGetDatum(&row->uuid);
	values[2] = Int32GetDatum(row->split_modulus);
	values[3] = Int32GetDatum(row->split_remainder);
	values[4] = Int64GetDatum((int64) identity->system_identifier);
	values[5] = ObjectIdGetDatum(identity->database);
	values[6] = Int64GetDatum(identity->timeline);
	values[7] = Int64GetDatum((int64) identity->control_inode);
	values[8] = Int64GetDatum(identity->control_birth);
	values[9] = Int64GetDatum((int64) identity->version_inode);
	values[10] = Int64GetDatum(identity->version_birth);
}

/* A new namespace with its identity and a floor of 0. */
void
idgen_tables_insert_namespace(const IdgenNamespaceRow *row,
							  const IdgenAuthorityRow *authority)
{
	Datum		values[ARGUMENTS_MAX];

	SPI_connect();
	values[NAMESPACE_NAME - 1] = CStringGetTextDatum(row->name);
	values[NAMESPACE_KIND - 1] = CStringGetTextDatum("time");
	values[NAMESPACE_TIMESTAMP_BITS - 1] = Int32GetDatum(row->layout.timestamp_bits);
	values[NAMESPACE_WORKER_BITS - 1] = Int32GetDatum(row->layout.worker_bits);
	values[NAMESPACE_SEQUENCE_BITS - 1] = Int32GetDatum(row->layout.sequence_bits);
	values[NAMESPACE_EPOCH_MS - 1] = Int64GetDatum(row->layout.epoch_ms);
	values[NAMESPACE_TICK_MS - 1] = Int64GetDatum(row->layout.tick_ms);
	values[NAMESPACE_HORIZON_MS - 1] = Int64GetDatum(row->layout.horizon_ms);
	values[NAMESPACE_GRANT_INTERVAL_MS - 1] = Int64GetDatum(row->grant_interval_ms);
	values[NAMESPACE_RUN_AHEAD_MS - 1] = Int64GetDatum(row->run_ahead_ms);
	values[NAMESPACE_FIRST_WORKER - 1] = Int32GetDatum(row->first_worker);
	values[NAMESPACE_LAST_WORKER - 1] = Int32GetDatum(row->last_worker);
	values[NAMESPACE_DURABILITY - 1] = CStringGetTextDatum(row->durability);
	values[NAMESPACE_PROMOTION - 1] = CStringGetTextDatum(row->promotion);
	values[NAMESPACE_RESTRICTED - 1] = BoolGetDatum(row->restricted);
	values[NAMESPACE_ISSUING - 1] = BoolGetDatum(row->issuing);
	values[NAMESPACE_RETIRED - 1] = BoolGetDatum(row->retired);
	values[NAMESPACE_OWNER - 1] = CStringGetTextDatum(row->owner);
	run(SQL_INSERT_NAMESPACE, values, NULL);

	values[0] = CStringGetTextDatum(row->name);
	values[1] = Int64GetDatum(0);
	run(SQL_INSERT_FLOOR, values, NULL);

	authority_arguments(row->name, authority, values);
	run(SQL_INSERT_AUTHORITY, values, NULL);
	SPI_finish();
	idgen_tables_announce();
}

/* Forget who the authority is: from now on this is a copy (DESIGN 8). */
static void
forget_identity(const char *name)
{
	run_for_namespace(SQL_DELETE_AUTHORITY, name);
	idgen_tables_announce();
}

/*
 * A restored row of idgen_namespace meets ours.  True if there is none, so
 * that the row is to be inserted.  Another format under the same name is an
 * error; the worker range and the policy stay ours; retired is for ever.
 */
bool
idgen_tables_merge_namespace(const IdgenNamespaceRow *row)
{
	IdgenNamespaceRow ours;

	if (!idgen_tables_read_namespace(row->name, &ours))
	{
		idgen_tables_announce();
		return true;
	}
	if (memcmp(&ours.layout, &row->layout, sizeof(IdgenLayout)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("namespace \"%s\" exists with another format", row->name),
				 errhint("IDs of both formats would be mixed. Restore into a database in which the namespace does not exist.")));
	if (row->retired && !ours.retired)
	{
		SPI_connect();
		run_for_namespace(SQL_RETIRE_NAMESPACE, row->name);
		SPI_finish();
		idgen_tables_announce();
	}
	return false;
}

/* The floor of a namespace; 0 if it has no row. */
static int64
read_floor(const char *name, bool *exists)
{
	bool		isnull;

	*exists = run_for_namespace(SQL_READ_FLOOR, name) > 0;
	return *exists ? DatumGetInt64(first_row(1, &isnull)) : 0;
}

/*
 * A restored row of idgen_floor meets ours.  True if there is none.  A higher
 * floor brings marks from elsewhere, so this authority is a copy.
 */
bool
idgen_tables_merge_floor(const char *name, int64 floor)
{
	Datum		values[2] = {CStringGetTextDatum(name), Int64GetDatum(floor)};
	bool		exists;
	bool		higher;

	SPI_connect();
	higher = floor > read_floor(name, &exists);
	if (exists && higher)
		run(SQL_RAISE_FLOOR, values, NULL);
	if (higher)
		forget_identity(name);
	SPI_finish();
	return !exists;
}

/*
 * A restored row of idgen_worker meets our mark, max(its row, the floor), and
 * is merged.  Its incarnation was another authority's.
 */
void
idgen_tables_merge_worker(const char *name, int32 worker, int64 high_water)
{
	Datum		values[3] = {
		CStringGetTextDatum(name), Int32GetDatum(worker),
		Int64GetDatum(high_water)
	};
	bool		exists;
	bool		isnull;
	int64		mark;

	SPI_connect();
	mark = read_floor(name, &exists);
	exists = run(SQL_READ_MARK, values, NULL) > 0;
	if (exists)
		mark = Max(mark, DatumGetInt64(first_row(1, &isnull)));
	if (high_water > mark)
	{
		run(exists ? SQL_RAISE_MARK : SQL_INSERT_MARK, values, NULL);
		forget_identity(name);
	}
	SPI_finish();
}

/* --------------------------------------------------------------------
 * By the authority worker, in its transaction
 * -------------------------------------------------------------------- */

/*
 * Begin a round: lock the tables without waiting and see that they are intact.
 * False with the cause in *failure; kind UNDEFINED if there is no extension.
 * Ends with the transaction.
 */
bool
idgen_tables_open(IdgenFailure *failure)
{
	char		why[IDGEN_FAILURE_TEXT_MAX];

	if (!idgen_tables_find())
	{
		idgen_failure_set(failure, IDGEN_FAILURE_UNDEFINED,
						  "The extension idgen is not installed in this database.",
						  NULL);
		return false;
	}
	for (int i = 0; i < IDGEN_TABLE_COUNT; i++)
	{
		Relation	relation;
		bool		intact;

		if (!ConditionalLockRelationOid(found.relids[i], RowExclusiveLock))
		{
			snprintf(why, sizeof(why),
					 "Table \"%s\" is locked by another session.",
					 shapes[i].name);
			idgen_failure_set(failure, IDGEN_FAILURE_UNAVAILABLE, why,
							  "Retry; if it goes on, look in pg_locks for who holds a lock on it.");
			return false;
		}
		relation = try_relation_open(found.relids[i], NoLock);
		if (relation == NULL)
		{
			idgen_failure_set(failure, IDGEN_FAILURE_UNDEFINED,
							  "The extension idgen was dropped.", NULL);
			return false;
		}
		intact = idgen_tables_intact(i, relation, why, sizeof(why));
		relation_close(relation, NoLock);
		if (!intact)
		{
			idgen_failure_set(failure, IDGEN_FAILURE_UNAVAILABLE, why,
							  "Undo what was done to it; if marks were lost, the namespaces need a fence.");
			return false;
		}
	}
	return true;
}

/*
 * Lock and read the authority row and the floor of a namespace.  A namespace
 * without a floor has lost it: then *floor is -1.
 */
IdgenLockResult
idgen_tables_lock_authority(const char *name, IdgenAuthorityRow *row, int64 *floor)
{
	TransactionId xmin;
	bool		exists;

	if (run_for_namespace(SQL_LOCK_AUTHORITY, name) == 0)
		return idgen_tables_read_authority(name, row, &xmin) ?
			IDGEN_LOCK_BUSY : IDGEN_LOCK_ABSENT;
	if (!idgen_tables_read_authority(name, row, &xmin))
		return IDGEN_LOCK_ABSENT;
	*floor = read_floor(name, &exists);
	if (!exists)
		*floor = -1;
	return IDGEN_LOCK_OK;
}

/* Do the marks add up to what the authority has written (S3)? */
bool
idgen_tables_sums_hold(const char *name)
{
	bool		isnull;

	return run_for_namespace(SQL_SUMS_HOLD, name) > 0 &&
		DatumGetBool(first_row(1, &isnull)) && !isnull;
}

/* Was anything ever granted or fenced? */
bool
idgen_tables_ever_granted(const char *name)
{
	bool		isnull;

	run_for_namespace(SQL_EVER_GRANTED, name);
	return DatumGetBool(first_row(1, &isnull));
}

/* Lock and read the mark of a worker. */
IdgenLockResult
idgen_tables_lock_mark(const char *name, int32 worker, IdgenMark *mark)
{
	Datum		values[2] = {CStringGetTextDatum(name), Int32GetDatum(worker)};
	bool		isnull;

	mark->worker = worker;
	mark->high_water = 0;
	mark->incarnation = 0;
	if (run(SQL_LOCK_MARK, values, NULL) == 0)
		return run(SQL_READ_MARK, values, NULL) > 0 ?
			IDGEN_LOCK_BUSY : IDGEN_LOCK_ABSENT;
	mark->high_water = DatumGetInt64(first_row(1, &isnull));
	mark->incarnation = DatumGetInt64(first_row(2, &isnull));
	if (isnull)
		mark->incarnation = 0;
	return IDGEN_LOCK_OK;
}

/* The workers with something reserved past "now", ascending; palloc'd. */
int64 *
idgen_tables_reserved_workers(const char *name, int64 now, size_t *count)
{
	Datum		values[2] = {CStringGetTextDatum(name), Int64GetDatum(now)};
	int64	   *workers;

	*count = run(SQL_RESERVED_WORKERS, values, NULL);
	workers = palloc(Max(*count, 1) * sizeof(int64));
	for (size_t i = 0; i < *count; i++)
	{
		bool		isnull;

		workers[i] = DatumGetInt32(SPI_getbinval(SPI_tuptable->vals[i],
												 SPI_tuptable->tupdesc, 1,
												 &isnull));
	}
	return workers;
}

static Datum
int4_array(const int64 *numbers, size_t count)
{
	Datum	   *datums = palloc(Max(count, 1) * sizeof(Datum));

	for (size_t i = 0; i < count; i++)
		datums[i] = Int32GetDatum((int32) numbers[i]);
	return PointerGetDatum(construct_array(datums, (int) count, INT4OID,
										   sizeof(int32), true, TYPALIGN_INT));
}

static Datum
int8_array(Datum *datums, int count)
{
	return PointerGetDatum(construct_array(datums, count, INT8OID,
										   sizeof(int64), FLOAT8PASSBYVAL,
										   TYPALIGN_DOUBLE));
}

static Datum
text_array(Datum *datums, int count)
{
	return PointerGetDatum(construct_array(datums, count, TEXTOID, -1, false,
										   TYPALIGN_INT));
}

/*
 * Of the workers of a range that were used before and are not excluded, the
 * one whose reservation ends first.  False if there is none.
 */
bool
idgen_tables_earliest_worker(const char *name, const IdgenWorkerRange *range,
							 const int64 *excluded, size_t excluded_count,
							 int32 *worker)
{
	Datum		values[6] = {
		CStringGetTextDatum(name),
		Int32GetDatum((int32) range->first), Int32GetDatum((int32) range->last),
		Int32GetDatum((int32) range->modulus),
		Int32GetDatum((int32) range->remainder),
		int4_array(excluded, excluded_count)
	};
	bool		isnull;

	if (run(SQL_EARLIEST_WORKER, values, NULL) == 0)
		return false;
	*worker = DatumGetInt32(first_row(1, &isnull));
	return true;
}

/* One column of the rows that "take" selects, as an array. */
typedef struct IdgenColumns
{
	int			count;
	Datum	   *names;
	Datum	   *workers;
	Datum	   *marks;
	Datum	   *ends;
	Datum	   *starts;
	Datum	   *incarnations;
	Datum	   *grant_ids;
	Datum	   *added_rows;		/* 1 where the worker has no row yet, else 0 */
	Datum	   *added_marks;
} IdgenColumns;

static void
columns_begin(IdgenColumns *columns, int count_max)
{
	Datum	  **arrays[] = {
		&columns->names, &columns->workers, &columns->marks, &columns->ends,
		&columns->starts, &columns->incarnations, &columns->grant_ids,
		&columns->added_rows, &columns->added_marks
	};

	columns->count = 0;
	for (size_t i = 0; i < lengthof(arrays); i++)
		*arrays[i] = palloc(Max(count_max, 1) * sizeof(Datum));
}

static void
columns_add(IdgenColumns *columns, const IdgenGrantRow *row)
{
	int			i = columns->count++;

	columns->names[i] = CStringGetTextDatum(row->namespace_name);
	columns->workers[i] = Int32GetDatum(row->worker);
	columns->marks[i] = Int64GetDatum(row->high_water);
	columns->ends[i] = Int64GetDatum(row->grant.end);
	columns->starts[i] = Int64GetDatum(row->grant.start);
	columns->incarnations[i] = Int64GetDatum(row->incarnation);
	columns->grant_ids[i] = Int64GetDatum(row->grant_id);
	columns->added_rows[i] = Int64GetDatum(row->first_row ? 1 : 0);
	columns->added_marks[i] = Int64GetDatum(row->first_row ? row->grant.end :
											row->grant.end - row->high_water);
}

static Datum
column_workers(const IdgenColumns *columns)
{
	return PointerGetDatum(construct_array(columns->workers, columns->count,
										   INT4OID, sizeof(int32), true,
										   TYPALIGN_INT));
}

/* Complain unless every row was written: somebody changed a mark under us. */
static void
expect_rows(uint64 written, int expected)
{
	if (written != (uint64) expected)
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("a high-water mark of idgen changed during a grant"),
				 errdetail("%d rows were to be written, and " UINT64_FORMAT " were.",
						   expected, written)));
}

/*
 * Write grants: the marks, conditional on what they were (S2), the sums that
 * guard them (S3), new incarnations, and the grants.  All or, by error, none.
 */
void
idgen_tables_write_grants(const IdgenGrantRow *rows, int count,
						  const pg_uuid_t *boot)
{
	IdgenColumns all;
	IdgenColumns first;
	IdgenColumns later;
	IdgenColumns fresh;

	columns_begin(&all, count);
	columns_begin(&first, count);
	columns_begin(&later, count);
	columns_begin(&fresh, count);
	for (int i = 0; i < count; i++)
	{
		columns_add(&all, &rows[i]);
		columns_add(rows[i].first_row ? &first : &later, &rows[i]);
		if (rows[i].fresh)
			columns_add(&fresh, &rows[i]);
	}

	if (first.count > 0)
	{
		Datum		values[4] = {
			text_array(first.names, first.count), column_workers(&first),
			int8_array(first.ends, first.count),
			int8_array(first.incarnations, first.count)
		};

		expect_rows(run(SQL_INSERT_MARKS, values, NULL), first.count);
	}
	if (later.count > 0)
	{
		Datum		values[5] = {
			text_array(later.names, later.count), column_workers(&later),
			int8_array(later.marks, later.count),
			int8_array(later.ends, later.count),
			int8_array(later.incarnations, later.count)
		};

		expect_rows(run(SQL_ADVANCE_MARKS, values, NULL), later.count);
	}
	if (fresh.count > 0)
	{
		Datum		values[4] = {
			int8_array(fresh.incarnations, fresh.count),
			text_array(fresh.names, fresh.count), column_workers(&fresh),
			UUIDPGetDatum(boot)
		};

		expect_rows(run(SQL_INSERT_INCARNATIONS, values, NULL), fresh.count);
	}
	if (all.count > 0)
	{
		Datum		sums[3] = {
			text_array(all.names, all.count),
			int8_array(all.added_rows, all.count),
			int8_array(all.added_marks, all.count)
		};
		Datum		grants[6] = {
			int8_array(all.grant_ids, all.count),
			int8_array(all.incarnations, all.count),
			text_array(all.names, all.count), column_workers(&all),
			int8_array(all.starts, all.count), int8_array(all.ends, all.count)
		};

		run(SQL_ADD_TO_SUMS, sums, NULL);
		expect_rows(run(SQL_INSERT_GRANTS, grants, NULL), all.count);
	}
}

/* The highest mark of a namespace, its floor included. */
int64
idgen_tables_highest_mark(const char *name)
{
	bool		isnull;

	run_for_namespace(SQL_HIGHEST_MARK, name);
	return DatumGetInt64(first_row(1, &isnull));
}

/* Move the floor of a namespace up; it never moves down. */
void
idgen_tables_raise_floor(const char *name, int64 floor)
{
	Datum		values[2] = {CStringGetTextDatum(name), Int64GetDatum(floor)};

	run(SQL_RAISE_FLOOR, values, NULL);
}

/* Every incarnation of a namespace is over: a fence. */
void
idgen_tables_end_all(const char *name)
{
	run_for_namespace(SQL_END_ALL, name);
}

/* Record another identity for a namespace. */
void
idgen_tables_write_authority(const char *name, const IdgenAuthorityRow *row)
{
	Datum		values[ARGUMENTS_MAX];

	authority_arguments(name, row, values);
	expect_rows(run(SQL_UPDATE_AUTHORITY, values, NULL), 1);
	idgen_tables_announce();
}

/* An incarnation of this server issues no more. */
void
idgen_tables_end_incarnation(int64 incarnation)
{
	Datum		values[1] = {Int64GetDatum(incarnation)};

	run(SQL_END_INCARNATION, values, NULL);
}

/* Incarnations of earlier lives of shared memory are over (S5). */
void
idgen_tables_end_strangers(const pg_uuid_t *boot)
{
	Datum		values[1] = {UUIDPGetDatum(boot)};

	run(SQL_END_STRANGERS, values, NULL);
}

/* Retire a namespace. */
void
idgen_tables_retire(const char *name)
{
	run_for_namespace(SQL_RETIRE_NAMESPACE, name);
	idgen_tables_announce();
}
