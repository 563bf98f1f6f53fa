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
#include "catalog/pg_index.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "rewrite/prs2lock.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
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

#define COLUMNS_MAX 20
#define GUARDS_PER_TABLE 2

typedef struct IdgenTableShape
{
	const char *name;
	int			column_count;
	Oid			types[COLUMNS_MAX];
} IdgenTableShape;

static const IdgenTableShape shapes[IDGEN_TABLE_COUNT] = {
	[IDGEN_TABLE_NAMESPACE] = {
		"idgen_namespace", 20,
		{
			TEXTOID, TEXTOID, INT4OID, INT4OID, INT4OID, INT8OID, INT8OID,
			INT8OID, INT8OID, INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID,
			BOOLOID, BOOLOID, BOOLOID, TEXTOID, TEXTARRAYOID, TEXTARRAYOID
		}
	},
	[IDGEN_TABLE_FLOOR] = {"idgen_floor", 2, {TEXTOID, INT8OID}},
	[IDGEN_TABLE_WORKER] = {
		"idgen_worker", 4, {TEXTOID, INT4OID, INT8OID, INT8OID}
	},
	[IDGEN_TABLE_AUTHORITY] = {
		"idgen_authority", 16,
		{
			TEXTOID, UUIDOID, TEXTOID, INT4OID, INT4OID, INT8OID, OIDOID, INT8OID,
			INT8OID, INT8OID, INT8OID, INT8OID, TIMESTAMPTZOID, INT8OID,
			INT8OID, NUMERICOID
		}
	},
	[IDGEN_TABLE_INCARNATION] = {
		"idgen_incarnation", 12,
		{
			INT8OID, TEXTOID, INT4OID, TEXTOID, UUIDOID, TEXTOID, INETOID,
			TEXTOID, TIMESTAMPTZOID, BYTEAOID, TEXTOID, TIMESTAMPTZOID
		}
	},
	[IDGEN_TABLE_GRANT] = {
		"idgen_grant", 8,
		{
			TEXTOID, INT4OID, INT8OID, INT8OID, INT8OID, INT8OID,
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
	NAMESPACE_ISSUING, NAMESPACE_RETIRED, NAMESPACE_OWNER,
	NAMESPACE_ISSUE_ROLES, NAMESPACE_ACQUIRE_ROLES
};

enum
{
	AUTHORITY_NAMESPACE = 1, AUTHORITY_UUID, AUTHORITY_FORMAT,
	AUTHORITY_SPLIT_MODULUS,
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
	uint64		version;		/* moves when any of this changes */
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

/* A schema was renamed, perhaps ours: its name stands in our statements. */
static void
schema_changed(Datum arg, int cache, uint32 hash)
{
	found.valid = false;
}

/* Call "changed" whenever a namespace may look different from before. */
void
idgen_tables_watch(void (*changed) (void))
{
	namespace_changed = changed;
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, schema_changed, (Datum) 0);
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

/* Note where a table is; saved plans are of no use if it was elsewhere. */
static void
remember_table(int table, Oid relid, const char *qualified)
{
	if (found.relids[table] == relid && found.qualified[table] != NULL &&
		strcmp(found.qualified[table], qualified) == 0)
		return;
	found.version++;
	found.relids[table] = relid;
	if (found.qualified[table] != NULL)
		pfree(found.qualified[table]);
	found.qualified[table] = MemoryContextStrdup(TopMemoryContext, qualified);
}

/*
 * Look the tables up; false if the extension is not installed.  Cheap when
 * nothing changed.
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
		Oid			relid = get_relname_relid(shapes[i].name, schema);

		if (!OidIsValid(relid))
			ereport(ERROR,
					(errcode(ERRCODE_IDGEN_UNAVAILABLE),
					 errmsg("the tables of idgen are damaged"),
					 errdetail("Table \"%s\" is missing in schema \"%s\".",
							   shapes[i].name, schema_name),
					 errhint("If it was renamed or moved, undo that.")));
		remember_table(i, relid, quote_qualified_identifier(schema_name,
															shapes[i].name));
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

/*
 * Is a relation one of our tables?  Also while they are being dropped: by name
 * first, which costs other relations next to nothing.
 */
bool
idgen_tables_ours(Oid relid)
{
	char	   *name = get_rel_name(relid);

	for (int i = 0; i < IDGEN_TABLE_COUNT && name != NULL; i++)
		if (strcmp(name, shapes[i].name) == 0)
			return get_rel_namespace(relid) == extension_schema();
	return false;
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
	{
		Trigger    *trigger = &triggers->triggers[i];

		/* without a condition, for all columns, always */
		if (trigger->tgenabled != TRIGGER_FIRES_ALWAYS ||
			trigger->tgqual != NULL || trigger->tgnattr != 0 ||
			!is_guard(trigger->tgfoid))
			return false;
	}
	return triggers->trig_insert_before_row &&
		triggers->trig_update_before_row &&
		triggers->trig_delete_before_row &&
		triggers->trig_truncate_before_statement;
}

static bool
columns_intact(const IdgenTableShape *shape, Relation relation)
{
	TupleDesc	desc = RelationGetDescr(relation);

	if (desc->natts < shape->column_count)
		return false;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		/* a column added and dropped again has left its number behind */
		if (attribute->attisdropped != (i >= shape->column_count))
			return false;
		if (!attribute->attisdropped &&
			(attribute->atttypid != shape->types[i] ||
			 attribute->attgenerated != '\0'))
			return false;
	}
	return true;
}

/*
 * Do two indexes have the same columns and operator classes, and neither an
 * expression nor a condition?
 */
static bool
same_plain_index(Oid index, Oid other)
{
	HeapTuple	a = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	HeapTuple	b = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(other));
	bool		same = HeapTupleIsValid(a) && HeapTupleIsValid(b);
	static const int vectors[] = {Anum_pg_index_indkey, Anum_pg_index_indclass};
	bool		isnull;

	for (size_t i = 0; i < lengthof(vectors) && same; i++)
	{
		Datum		x = SysCacheGetAttr(INDEXRELID, a, vectors[i], &isnull);
		Datum		y = SysCacheGetAttr(INDEXRELID, b, vectors[i], &isnull);

		same = VARSIZE_ANY(DatumGetPointer(x)) == VARSIZE_ANY(DatumGetPointer(y)) &&
			memcmp(DatumGetPointer(x), DatumGetPointer(y),
				   VARSIZE_ANY(DatumGetPointer(x))) == 0;
	}
	if (same)
		same = heap_attisnull(a, Anum_pg_index_indexprs, NULL) &&
			heap_attisnull(a, Anum_pg_index_indpred, NULL);
	if (HeapTupleIsValid(a))
		ReleaseSysCache(a);
	if (HeapTupleIsValid(b))
		ReleaseSysCache(b);
	return same;
}

/*
 * The primary key, and no index that could run a function of somebody else's.
 * Copies of the primary key are what REINDEX CONCURRENTLY makes, and leaves
 * behind when it fails.
 */
static bool
indexes_intact(Relation relation)
{
	List	   *indexes = RelationGetIndexList(relation);
	Oid			primary_key = idgen_primary_key_index(relation);
	bool		intact = OidIsValid(primary_key);
	ListCell   *cell;

	foreach(cell, indexes)
		intact = intact && same_plain_index(lfirst_oid(cell), primary_key);
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
	else if (relation->rd_rel->relowner != found.owner)
		what = "belongs to another owner than table \"idgen_worker\"";
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
	else if (!indexes_intact(relation))
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

/* How long, at most, this call may wait for locks; 0 = not limited so far. */
static int64 wait_until_us = 0;

/* Bound the waits for locks on the tables by a monotonic time; 0 = anew each. */
void
idgen_tables_wait_until(int64 until_us)
{
	wait_until_us = until_us;
}

static void
unavailable(const char *name, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_IDGEN_UNAVAILABLE),
			 errmsg("namespace \"%s\" is unavailable", name),
			 errdetail_internal("%s", why),
			 errhint("Undo what was done to it; if marks were lost, the namespaces need a fence.")));
}

/*
 * Lock a table, but wait for no more than idgen.wait_timeout: somebody may be in
 * the middle of a long transaction with DROP EXTENSION.
 */
static void
lock_within_timeout(IdgenTable table, LOCKMODE mode, const char *name)
{
	int64		give_up_at_us = 0;

	while (!ConditionalLockRelationOid(found.relids[table], mode))
	{
		int64		now_us = idgen_clock_monotonic_us();

		/* a bound in the past was left behind by a call that failed */
		if (give_up_at_us == 0)
			give_up_at_us = wait_until_us > now_us ? wait_until_us :
				now_us + (int64) idgen_wait_timeout_ms * 1000;
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

	lock_within_timeout(table, AccessShareLock, name);
	scan->relation = try_relation_open(found.relids[table], NoLock);
	if (scan->relation == NULL)
		return false;
	if (!idgen_tables_intact(table, scan->relation, why, sizeof(why)))
		unavailable(name, why);

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
		char	   *format = TextDatumGetCString(scan_column(&scan, AUTHORITY_FORMAT));

		strlcpy(row->format, format, IDGEN_FORMAT_MAX);
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

/* Does a role have the rights of one of the roles named in an array? */
static bool
member_of_any(Oid role, ArrayType *names)
{
	Datum	   *datums;
	bool	   *nulls;
	int			count;

	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &datums, &nulls,
					  &count);
	for (int i = 0; i < count; i++)
	{
		Oid			granted = nulls[i] ? InvalidOid :
			get_role_oid(TextDatumGetCString(datums[i]), true);

		if (OidIsValid(granted) && has_privs_of_role(role, granted))
			return true;
	}
	return false;
}

/*
 * Was a privilege on a namespace given to a role, or to one it is a member of?
 * Owners are not asked here.
 */
bool
idgen_tables_privileged(const char *name, IdgenPrivilege privilege, Oid role)
{
	IdgenScan	scan;
	bool		privileged;

	if (!scan_begin(&scan, IDGEN_TABLE_NAMESPACE, name))
		return false;
	privileged = scan.tuple != NULL &&
		member_of_any(role, DatumGetArrayTypeP(scan_column(&scan,
														   privilege == IDGEN_PRIVILEGE_ISSUE ?
														   NAMESPACE_ISSUE_ROLES :
														   NAMESPACE_ACQUIRE_ROLES)));
	scan_end(&scan);
	return privileged;
}

/* --------------------------------------------------------------------
 * Running SQL
 * -------------------------------------------------------------------- */

#define ARGUMENTS_MAX 20

/* Array types without a symbol in pg_type.h; their OIDs never change. */
#define TIDARRAYOID		1010
#define BYTEAARRAYOID	1001
#define UUIDARRAYOID	2951

typedef enum IdgenStatement
{
	/* in the caller's transaction */
	SQL_INSERT_NAMESPACE,
	SQL_INSERT_FLOOR,
	SQL_INSERT_AUTHORITY,
	SQL_DELETE_AUTHORITY,
	SQL_READ_FLOOR,
	SQL_RAISE_FLOOR,
	SQL_READ_MARK,
	SQL_RAISE_MARK,
	SQL_INSERT_MARK,
	SQL_EXTERNAL_UNTIL,
	SQL_UPDATE_POLICY,
	SQL_UPDATE_ISSUE_ROLES,
	SQL_UPDATE_ACQUIRE_ROLES,

	/* by the authority: looking */
	SQL_SUMS_HOLD,
	SQL_EVER_GRANTED,
	SQL_READ_MARKS,
	SQL_FIND_AUTHORITY,
	SQL_LAST_CLOCK,
	SQL_RECORDED_MS,
	SQL_HIGHEST_MARK,
	SQL_READ_INCARNATION,
	SQL_LAST_GRANT,
	SQL_REQUEST_RECORDED,
	SQL_LIVE_EXTERNALS,
	SQL_LOCK_NAMESPACE,
	SQL_LOCK_IDENTITY,
	SQL_LOCK_AUTHORITIES,
	SQL_LOCK_MARKS,

	/* by the authority: granting */
	SQL_INSERT_MARKS,
	SQL_ADVANCE_MARKS,
	SQL_ADD_TO_SUMS,
	SQL_INSERT_INCARNATIONS,
	SQL_INSERT_GRANTS,

	/* by the authority: ending and fencing */
	SQL_END_INCARNATIONS,
	SQL_DEACTIVATE,
	SQL_END_STRANGERS,
	SQL_END_ALL,
	SQL_RETIRE_NAMESPACE,
	SQL_UPDATE_AUTHORITY,
	SQL_UPDATE_RANGE,
	SQL_RESET_SUMS,

	/* by the authority: retention */
	SQL_DELETE_GRANTS,
	SQL_MERGE_GRANTS,
	SQL_END_SILENT,
	SQL_DELETE_INCARNATIONS
} IdgenStatement;

#define STATEMENT_COUNT (SQL_DELETE_INCARNATIONS + 1)

/* "{table}" stands for the qualified name of idgen_table. */
static const struct
{
	const char *text;
	int			argument_count;
	Oid			types[ARGUMENTS_MAX];
}			statements[STATEMENT_COUNT] = {
	[SQL_INSERT_NAMESPACE] = {
		"INSERT INTO {namespace} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,"
		" $10, $11, $12, $13, $14, $15, $16, $17, $18, '{}', '{}')"
		" ON CONFLICT DO NOTHING", 18,
		{
			TEXTOID, TEXTOID, INT4OID, INT4OID, INT4OID, INT8OID, INT8OID,
			INT8OID, INT8OID, INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID,
			BOOLOID, BOOLOID, BOOLOID, TEXTOID
		}
	},
	[SQL_INSERT_FLOOR] = {
		"INSERT INTO {floor} VALUES ($1, $2) ON CONFLICT DO NOTHING", 2,
		{TEXTOID, INT8OID}
	},
	[SQL_INSERT_AUTHORITY] = {
		"INSERT INTO {authority} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,"
		" $10, $11, $12, now(), 0, 0, 0)", 12,
		{
			TEXTOID, UUIDOID, TEXTOID, INT4OID, INT4OID, INT8OID, OIDOID,
			INT8OID, INT8OID, INT8OID, INT8OID, INT8OID
		}
	},
	[SQL_DELETE_AUTHORITY] = {
		"DELETE FROM ONLY {authority} WHERE namespace = $1", 1, {TEXTOID}
	},
	[SQL_READ_FLOOR] = {
		"SELECT floor FROM ONLY {floor} WHERE namespace = $1", 1, {TEXTOID}
	},
	[SQL_RAISE_FLOOR] = {
		"INSERT INTO {floor} AS f VALUES ($1, $2) ON CONFLICT (namespace)"
		" DO UPDATE SET floor = $2 WHERE f.floor < $2", 2, {TEXTOID, INT8OID}
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
	[SQL_EXTERNAL_UNTIL] = {
		"SELECT max(n.epoch_ms + w.high_water::numeric * n.tick_ms)::float8"
		" FROM ONLY {worker} w JOIN ONLY {namespace} n ON n.name = w.namespace"
		" JOIN ONLY {incarnation} i ON i.incarnation = w.incarnation"
		" WHERE i.kind = 'external' AND i.state <> 'deactivated'", 0, {InvalidOid}
	},
	[SQL_UPDATE_POLICY] = {
		"UPDATE ONLY {namespace} SET"
		" grant_interval_ms = coalesce($2, grant_interval_ms),"
		" run_ahead_ms = coalesce($3, run_ahead_ms),"
		" durability = coalesce($4, durability),"
		" promotion = coalesce($5, promotion),"
		" restricted = coalesce($6, restricted), owner = coalesce($7, owner)"
		" WHERE name = $1", 7,
		{TEXTOID, INT8OID, INT8OID, TEXTOID, TEXTOID, BOOLOID, TEXTOID}
	},
	[SQL_UPDATE_ISSUE_ROLES] = {
		"UPDATE ONLY {namespace} SET issue_roles = CASE WHEN $3"
		" THEN array_append(array_remove(issue_roles, $2), $2)"
		" ELSE array_remove(issue_roles, $2) END WHERE name = $1", 3,
		{TEXTOID, TEXTOID, BOOLOID}
	},
	[SQL_UPDATE_ACQUIRE_ROLES] = {
		"UPDATE ONLY {namespace} SET acquire_roles = CASE WHEN $3"
		" THEN array_append(array_remove(acquire_roles, $2), $2)"
		" ELSE array_remove(acquire_roles, $2) END WHERE name = $1", 3,
		{TEXTOID, TEXTOID, BOOLOID}
	},

	[SQL_SUMS_HOLD] = {
		"SELECT a.worker_count = w.count AND a.mark_sum = w.sum + f.floor"
		" FROM ONLY {authority} a, ONLY {floor} f,"
		" (SELECT count(*), coalesce(sum(high_water), 0) AS sum"
		"  FROM ONLY {worker} WHERE namespace = $1) w"
		" WHERE a.namespace = $1 AND f.namespace = $1", 1, {TEXTOID}
	},
	[SQL_EVER_GRANTED] = {
		"SELECT EXISTS (SELECT FROM ONLY {worker} WHERE namespace = $1)"
		" OR EXISTS (SELECT FROM ONLY {floor} WHERE namespace = $1 AND floor > 0)",
		1, {TEXTOID}
	},
	[SQL_READ_MARKS] = {
		"SELECT worker, high_water, incarnation, ctid FROM ONLY {worker}"
		" WHERE namespace = $1 ORDER BY worker", 1, {TEXTOID}
	},
	[SQL_FIND_AUTHORITY] = {
		"SELECT ctid FROM ONLY {authority} WHERE namespace = $1", 1, {TEXTOID}
	},
	[SQL_LAST_CLOCK] = {
		"SELECT last_clock FROM ONLY {authority} WHERE namespace = $1", 1, {TEXTOID}
	},
	[SQL_RECORDED_MS] = {
		"SELECT (extract(epoch FROM recorded_at) * 1000)::bigint"
		" FROM ONLY {authority} WHERE namespace = $1", 1, {TEXTOID}
	},
	[SQL_HIGHEST_MARK] = {
		"SELECT greatest((SELECT max(high_water) FROM ONLY {worker} WHERE namespace = $1),"
		" (SELECT floor FROM ONLY {floor} WHERE namespace = $1), 0)", 1, {TEXTOID}
	},
	[SQL_READ_INCARNATION] = {
		"SELECT namespace, worker, kind = 'external', role, token_hash,"
		" state = 'active' FROM ONLY {incarnation} WHERE incarnation = $1", 1,
		{INT8OID}
	},
	[SQL_LAST_GRANT] = {
		"SELECT grant_id, incarnation, request_id, start_tick, end_tick"
		" FROM ONLY {grant} WHERE namespace = $1 AND worker = $2"
		" ORDER BY start_tick DESC LIMIT 1", 2, {TEXTOID, INT4OID}
	},
	[SQL_REQUEST_RECORDED] = {
		"SELECT EXISTS (SELECT FROM (SELECT incarnation, request_id"
		"  FROM ONLY {grant} WHERE namespace = $1 AND worker = $2"
		"  ORDER BY start_tick DESC LIMIT $5) g"
		" WHERE g.incarnation = $3 AND g.request_id = $4)", 5,
		{TEXTOID, INT4OID, INT8OID, UUIDOID, INT8OID}
	},
	[SQL_LIVE_EXTERNALS] = {
		"SELECT count(*), count(*) FILTER (WHERE i.role = $3)"
		" FROM ONLY {worker} w JOIN ONLY {incarnation} i"
		" ON i.incarnation = w.incarnation"
		" WHERE w.namespace = $1 AND w.high_water > $2 AND i.kind = 'external'", 3,
		{TEXTOID, INT8OID, TEXTOID}
	},
	[SQL_LOCK_NAMESPACE] = {
		"SELECT 1 FROM ONLY {namespace} WHERE name = $1 FOR UPDATE SKIP LOCKED", 1,
		{TEXTOID}
	},
	[SQL_LOCK_IDENTITY] = {
		"SELECT 1 FROM ONLY {authority} WHERE namespace = $1"
		" FOR UPDATE SKIP LOCKED", 1, {TEXTOID}
	},
	[SQL_LOCK_AUTHORITIES] = {
		"SELECT ctid FROM ONLY {authority} WHERE ctid = ANY ($1)"
		" FOR UPDATE SKIP LOCKED", 1, {TIDARRAYOID}
	},
	[SQL_LOCK_MARKS] = {
		"SELECT ctid FROM ONLY {worker} WHERE ctid = ANY ($1)"
		" FOR UPDATE SKIP LOCKED", 1, {TIDARRAYOID}
	},

	[SQL_INSERT_MARKS] = {
		"INSERT INTO {worker} SELECT * FROM"
		" unnest($1, $2, $3, $4) AS r (n, w, e, i)"
		" RETURNING namespace, worker, ctid", 4,
		{TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID, INT8ARRAYOID}
	},
	[SQL_ADVANCE_MARKS] = {
		"UPDATE ONLY {worker} w SET high_water = r.e, incarnation = r.i"
		" FROM unnest($1, $2, $3, $4, $5, $6) AS r (t, n, w, m, e, i)"
		" WHERE w.ctid = r.t AND w.namespace = r.n AND w.worker = r.w"
		" AND w.high_water = r.m RETURNING w.namespace, w.worker, w.ctid", 6,
		{
			TIDARRAYOID, TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID,
			INT8ARRAYOID, INT8ARRAYOID
		}
	},
	[SQL_ADD_TO_SUMS] = {
		"UPDATE ONLY {authority} a SET worker_count = worker_count + r.c,"
		" mark_sum = mark_sum + r.s, last_clock = r.l"
		" FROM (SELECT t, sum(c) AS c, sum(s) AS s, max(l) AS l"
		"  FROM unnest($1, $2, $3, $4) AS u (t, c, s, l) GROUP BY t) r"
		" WHERE a.ctid = r.t RETURNING a.namespace, 0, a.ctid", 4,
		{TIDARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID}
	},
	[SQL_INSERT_INCARNATIONS] = {
		"INSERT INTO {incarnation} SELECT i, n, w,"
		" CASE WHEN h IS NULL THEN 'server' ELSE 'external' END,"
		" CASE WHEN h IS NULL THEN $8 END, coalesce(r, current_user),"
		" nullif(a, '')::inet, nullif(p, ''), clock_timestamp(), h, 'active', NULL"
		" FROM unnest($1, $2, $3, $4, $5, $6, $7) AS u (i, n, w, r, a, p, h)", 8,
		{
			INT8ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID,
			TEXTARRAYOID, TEXTARRAYOID, BYTEAARRAYOID, UUIDOID
		}
	},
	[SQL_INSERT_GRANTS] = {
		"INSERT INTO {grant} SELECT n, w, s, e, g, i, clock_timestamp(), r"
		" FROM unnest($1, $2, $3, $4, $5, $6, $7) AS u (n, w, s, e, g, i, r)", 7,
		{
			TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID, INT8ARRAYOID,
			INT8ARRAYOID, INT8ARRAYOID, UUIDARRAYOID
		}
	},

	[SQL_END_INCARNATIONS] = {
		"UPDATE ONLY {incarnation} SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE incarnation = ANY ($1) AND state = 'active'", 1, {INT8ARRAYOID}
	},
	[SQL_DEACTIVATE] = {
		"UPDATE ONLY {incarnation} SET state = 'deactivated', ended_at = clock_timestamp()"
		" WHERE incarnation = $1 AND state = 'active'", 1, {INT8OID}
	},
	[SQL_END_STRANGERS] = {
		"UPDATE ONLY {incarnation} SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE state = 'active' AND kind = 'server'"
		" AND (boot IS DISTINCT FROM $1 OR incarnation <> ALL ($2))", 2,
		{UUIDOID, INT8ARRAYOID}
	},
	[SQL_END_ALL] = {
		"UPDATE ONLY {incarnation} SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE namespace = $1 AND state = 'active'", 1, {TEXTOID}
	},
	[SQL_RETIRE_NAMESPACE] = {
		"UPDATE ONLY {namespace} SET retired = true WHERE name = $1", 1, {TEXTOID}
	},
	[SQL_UPDATE_AUTHORITY] = {
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
	[SQL_UPDATE_RANGE] = {
		"UPDATE ONLY {namespace} SET first_worker = $2, last_worker = $3"
		" WHERE name = $1", 3, {TEXTOID, INT4OID, INT4OID}
	},
	[SQL_RESET_SUMS] = {
		"UPDATE ONLY {authority} SET (worker_count, mark_sum) ="
		" (SELECT count(*), coalesce(sum(high_water), 0) + coalesce("
		"  (SELECT floor FROM ONLY {floor} WHERE namespace = $1), 0)"
		"  FROM ONLY {worker} WHERE namespace = $1) WHERE namespace = $1", 1,
		{TEXTOID}
	},

	/*
	 * The oldest rows of one worker at a time: bounded, and by key.  Its last
	 * grant stays as it is, since the next request is judged by it.
	 */
	[SQL_DELETE_GRANTS] = {
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
	[SQL_MERGE_GRANTS] = {
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
	[SQL_END_SILENT] = {
		"UPDATE ONLY {incarnation} i SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE i.state = 'active' AND i.kind = 'external'"
		" AND i.activated_at < clock_timestamp() - make_interval(secs => $1)"
		" AND (SELECT g.incarnation = i.incarnation"
		"   AND g.granted_at > clock_timestamp() - make_interval(secs => $1)"
		"  FROM ONLY {grant} g WHERE g.namespace = i.namespace"
		"  AND g.worker = i.worker ORDER BY g.start_tick DESC LIMIT 1) IS NOT TRUE", 1,
		{FLOAT8OID}
	},
	[SQL_DELETE_INCARNATIONS] = {
		"DELETE FROM ONLY {incarnation} WHERE incarnation = ANY (ARRAY("
		" SELECT incarnation FROM ONLY {incarnation} WHERE state <> 'active'"
		" AND ended_at < clock_timestamp() - make_interval(secs => $1) LIMIT 1000))", 1,
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
		if (table == IDGEN_TABLE_COUNT)
			appendStringInfoChar(&sql, *at++);	/* '{}', an empty array */
	}
	return sql.data;
}

static SPIPlanPtr
get_plan(IdgenStatement statement)
{
	if (plans[statement].plan != NULL &&
		plans[statement].version != found.version)
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
		plans[statement].version = found.version;
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

/*
 * Before a session writes: lock all tables and see that they are intact and
 * belong to one owner, so that nothing attached to them runs with more rights
 * than it would have anyway.  The locks stay until the transaction ends; they
 * conflict with no other writer.
 */
static void
begin_writing(const char *name)
{
	char		why[IDGEN_FAILURE_TEXT_MAX];

	for (int i = 0; i < IDGEN_TABLE_COUNT; i++)
	{
		Relation	relation;
		bool		intact;

		lock_within_timeout(i, RowExclusiveLock, name);
		relation = relation_open(found.relids[i], NoLock);
		intact = idgen_tables_intact(i, relation, why, sizeof(why));
		relation_close(relation, NoLock);
		if (!intact)
			unavailable(name, why);
	}
	SPI_connect();
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
 * The Unix ms until which external generators may hold grants, of any namespace
 * of this database; 0 if none does.  Those they have given back do not count.
 */
int64
idgen_tables_external_until(void)
{
	bool		isnull;
	double		until_ms;

	SPI_connect();
	run(SQL_EXTERNAL_UNTIL, NULL, NULL);
	until_ms = DatumGetFloat8(first_row(1, &isnull));
	SPI_finish();
	return isnull ? 0 : (int64) Min(until_ms, (double) IDGEN_UNIX_MS_MAX);
}

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

/* A format as text; there must be room for IDGEN_FORMAT_MAX. */
void
idgen_tables_format_text(const IdgenLayout *layout, char *format)
{
	snprintf(format, IDGEN_FORMAT_MAX,
			 "time %d/%d/%d epoch " INT64_FORMAT " tick " INT64_FORMAT " horizon " INT64_FORMAT,
			 layout->timestamp_bits, layout->worker_bits, layout->sequence_bits,
			 (int64) layout->epoch_ms, (int64) layout->tick_ms,
			 (int64) layout->horizon_ms);
}

/* The arguments of the statements that write idgen_authority. */
static void
authority_arguments(const char *name, const IdgenAuthorityRow *row, Datum *values)
{
	const IdgenIdentity *identity = &row->identity;

	values[0] = CStringGetTextDatum(name);
	values[1] = UUIDPGetDatum(&row->uuid);
	values[2] = CStringGetTextDatum(row->format);
	values[3] = Int32GetDatum(row->split_modulus);
	values[4] = Int32GetDatum(row->split_remainder);
	values[5] = Int64GetDatum((int64) identity->system_identifier);
	values[6] = ObjectIdGetDatum(identity->database);
	values[7] = Int64GetDatum(identity->timeline);
	values[8] = Int64GetDatum((int64) identity->control_inode);
	values[9] = Int64GetDatum(identity->control_birth);
	values[10] = Int64GetDatum((int64) identity->version_inode);
	values[11] = Int64GetDatum(identity->version_birth);
}

/*
 * A new namespace with its identity and a floor of 0.  False if the name is
 * taken, also by a transaction that committed while this one waited for it.
 */
bool
idgen_tables_insert_namespace(const IdgenNamespaceRow *row,
							  const IdgenAuthorityRow *authority)
{
	Datum		values[ARGUMENTS_MAX];
	bool		inserted;

	begin_writing(row->name);
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
	inserted = run(SQL_INSERT_NAMESPACE, values, NULL) > 0;
	if (inserted)
	{
		values[0] = CStringGetTextDatum(row->name);
		values[1] = Int64GetDatum(0);
		run(SQL_INSERT_FLOOR, values, NULL);

		authority_arguments(row->name, authority, values);
		run(SQL_INSERT_AUTHORITY, values, NULL);

		/* a restore may have left marks of this name: they count */
		run_for_namespace(SQL_RESET_SUMS, row->name);
	}
	SPI_finish();
	idgen_tables_announce();
	return inserted;
}

/*
 * Change those columns of a namespace's policy that are given; what somebody
 * else changes at the same time in others is kept.
 */
void
idgen_tables_write_policy(const IdgenNamespaceRow *row, const IdgenPolicyGiven *given)
{
	Datum		values[7] = {
		CStringGetTextDatum(row->name),
		Int64GetDatum(row->grant_interval_ms),
		Int64GetDatum(row->run_ahead_ms),
		CStringGetTextDatum(row->durability),
		CStringGetTextDatum(row->promotion),
		BoolGetDatum(row->restricted),
		CStringGetTextDatum(row->owner)
	};
	char		nulls[7] = {
		' ',
		given->grant_interval ? ' ' : 'n',
		given->run_ahead ? ' ' : 'n',
		given->durability ? ' ' : 'n',
		given->promotion ? ' ' : 'n',
		given->restricted ? ' ' : 'n',
		given->owner ? ' ' : 'n'
	};

	begin_writing(row->name);
	run(SQL_UPDATE_POLICY, values, nulls);
	SPI_finish();
	idgen_tables_announce();
}

/* Give a privilege to a role, or take it back. */
void
idgen_tables_write_privilege(const char *name, IdgenPrivilege privilege,
							 const char *role, bool allow)
{
	Datum		values[3] = {
		CStringGetTextDatum(name), CStringGetTextDatum(role),
		BoolGetDatum(allow)
	};

	begin_writing(name);
	run(privilege == IDGEN_PRIVILEGE_ISSUE ? SQL_UPDATE_ISSUE_ROLES :
		SQL_UPDATE_ACQUIRE_ROLES, values, NULL);
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
		begin_writing(row->name);
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
 * floor brings marks from elsewhere, so this authority is a copy: *copied.
 */
bool
idgen_tables_merge_floor(const char *name, int64 floor, bool *copied)
{
	Datum		values[2] = {CStringGetTextDatum(name), Int64GetDatum(floor)};
	bool		exists;
	bool		higher;

	begin_writing(name);
	higher = floor > read_floor(name, &exists);
	if (exists && higher)
		run(SQL_RAISE_FLOOR, values, NULL);
	if (higher)
		forget_identity(name);
	SPI_finish();
	*copied = higher;
	return !exists;
}

/*
 * A restored row of idgen_worker meets our mark, max(its row, the floor), and
 * is merged.  Its incarnation was another authority's.  True if it was higher,
 * so that this authority is a copy.
 */
bool
idgen_tables_merge_worker(const char *name, int32 worker, int64 high_water)
{
	Datum		values[3] = {
		CStringGetTextDatum(name), Int32GetDatum(worker),
		Int64GetDatum(high_water)
	};
	bool		exists;
	bool		isnull;
	int64		mark;

	begin_writing(name);
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
	return high_water > mark;
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

/* Mix a number into a hash. */
static uint64
mix(uint64 hash, uint64 number)
{
	return hash_bytes_extended((const unsigned char *) &number, sizeof(number),
							   hash);
}

/* PostgreSQL 15 keeps its own macros for this to itself. */
static ItemPointer
datum_tid(Datum datum)
{
	return (ItemPointer) DatumGetPointer(datum);
}

/*
 * A number that changes when somebody may have got at the marks past the
 * guards: when the file or the catalog row of a table with marks, or one of its
 * guards, is another than before.  Not when it is only vacuumed.
 */
uint64
idgen_tables_fingerprint(void)
{
	static const IdgenTable guarded[] = {
		IDGEN_TABLE_WORKER, IDGEN_TABLE_FLOOR, IDGEN_TABLE_AUTHORITY
	};
	Relation	catalog = table_open(TriggerRelationId, AccessShareLock);
	uint64		hash = 0;

	for (size_t i = 0; i < lengthof(guarded); i++)
	{
		Oid			relid = found.relids[guarded[i]];
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
		ScanKeyData key;
		SysScanDesc scan;

		if (HeapTupleIsValid(tuple))
		{
			hash = mix(hash, ((Form_pg_class) GETSTRUCT(tuple))->relfilenode);
			hash = mix(hash, HeapTupleHeaderGetRawXmin(tuple->t_data));
			ReleaseSysCache(tuple);
		}
		ScanKeyInit(&key, Anum_pg_trigger_tgrelid, BTEqualStrategyNumber,
					F_OIDEQ, ObjectIdGetDatum(relid));
		scan = systable_beginscan(catalog, TriggerRelidNameIndexId, true, NULL,
								  1, &key);
		while ((tuple = systable_getnext(scan)) != NULL)
			hash = mix(hash, HeapTupleHeaderGetRawXmin(tuple->t_data));
		systable_endscan(scan);
	}
	table_close(catalog, AccessShareLock);
	return hash;
}

/*
 * Read the marks of a namespace, after seeing that they add up to what the
 * authority has written (S3).
 */
IdgenLoadResult
idgen_tables_load_marks(const char *name, IdgenMarks *marks)
{
	bool		isnull;
	bool		exists;

	marks->loaded = false;
	if (run_for_namespace(SQL_FIND_AUTHORITY, name) == 0)
		return IDGEN_LOAD_NO_IDENTITY;
	marks->authority_tid = *datum_tid(first_row(1, &isnull));
	if (run_for_namespace(SQL_SUMS_HOLD, name) == 0 ||
		!DatumGetBool(first_row(1, &isnull)))
		return IDGEN_LOAD_DAMAGED;
	marks->floor = read_floor(name, &exists);

	marks->count = 0;
	for (uint64 i = 0, n = run_for_namespace(SQL_READ_MARKS, name); i < n; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		IdgenMark	mark;

		mark.worker = DatumGetInt32(SPI_getbinval(row, desc, 1, &isnull));
		mark.high_water = DatumGetInt64(SPI_getbinval(row, desc, 2, &isnull));
		mark.incarnation = DatumGetInt64(SPI_getbinval(row, desc, 3, &isnull));
		if (isnull)
			mark.incarnation = 0;
		mark.tid = *datum_tid(SPI_getbinval(row, desc, 4, &isnull));
		idgen_marks_add(marks, &mark);
	}
	marks->loaded = true;
	return IDGEN_LOAD_OK;
}

/* Was anything ever granted or fenced? */
bool
idgen_tables_ever_granted(const char *name)
{
	bool		isnull;

	run_for_namespace(SQL_EVER_GRANTED, name);
	return DatumGetBool(first_row(1, &isnull));
}

/* --- arrays as arguments */

static Datum
int4_array(Datum *datums, int count)
{
	return PointerGetDatum(construct_array(datums, count, INT4OID,
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
tid_array(Datum *datums, int count)
{
	return PointerGetDatum(construct_array(datums, count, TIDOID,
										   sizeof(ItemPointerData), false,
										   TYPALIGN_SHORT));
}

/* An array of a varlena or uuid type, with nulls. */
static Datum
nullable_array(Datum *datums, bool *nulls, int count, Oid type)
{
	int			bounds[1] = {1};
	int			counts[1] = {count};

	return PointerGetDatum(construct_md_array(datums, nulls, 1, counts, bounds,
											  type,
											  type == UUIDOID ? UUID_LEN : -1,
											  false,
											  type == UUIDOID ? TYPALIGN_CHAR :
											  TYPALIGN_INT));
}

static Datum
text_array(Datum *datums, int count)
{
	return nullable_array(datums, NULL, count, TEXTOID);
}

/* --- locking rows */

/*
 * Lock the row versions at "tids", as far as nobody else has locked them and
 * they are still the latest.  Returns which are locked.
 */
static bool *
lock_rows(IdgenStatement statement, const ItemPointerData *tids, int count)
{
	Datum	   *datums = palloc(Max(count, 1) * sizeof(Datum));
	bool	   *locked = palloc0(Max(count, 1) * sizeof(bool));
	Datum		values[1];
	uint64		found_count;

	for (int i = 0; i < count; i++)
		datums[i] = PointerGetDatum(&tids[i]);
	values[0] = tid_array(datums, count);
	found_count = count == 0 ? 0 : run(statement, values, NULL);
	for (uint64 i = 0; i < found_count; i++)
	{
		bool		isnull;
		ItemPointer tid =
			datum_tid(SPI_getbinval(SPI_tuptable->vals[i],
											  SPI_tuptable->tupdesc, 1,
											  &isnull));

		for (int j = 0; j < count; j++)
			if (ItemPointerEquals(tid, unconstify(ItemPointerData *, &tids[j])))
				locked[j] = true;
	}
	return locked;
}

/* Lock the rows of a namespace, and its identity if it has one; false if not. */
bool
idgen_tables_lock_namespace(const char *name)
{
	return run_for_namespace(SQL_LOCK_NAMESPACE, name) > 0 &&
		(run_for_namespace(SQL_LOCK_IDENTITY, name) > 0 ||
		 run_for_namespace(SQL_FIND_AUTHORITY, name) == 0);
}

/* Lock the authority rows of namespaces; returns which could be. */
bool *
idgen_tables_lock_authorities(IdgenMarks *const *marks, int count)
{
	ItemPointerData *tids = palloc(Max(count, 1) * sizeof(ItemPointerData));

	for (int i = 0; i < count; i++)
		tids[i] = marks[i]->authority_tid;
	return lock_rows(SQL_LOCK_AUTHORITIES, tids, count);
}

/* Lock rows of idgen_worker; returns which could be. */
bool *
idgen_tables_lock_marks(const ItemPointerData *tids, int count)
{
	return lock_rows(SQL_LOCK_MARKS, tids, count);
}

/* --- writing grants */

/* A selection of grant rows, by column. */
typedef struct IdgenColumns
{
	int			count;
	IdgenGrantRow **rows;
	Datum	   *datums;			/* room for one column */
	bool	   *nulls;
} IdgenColumns;

static void
columns_begin(IdgenColumns *columns, int count_max)
{
	columns->count = 0;
	columns->rows = palloc(Max(count_max, 1) * sizeof(IdgenGrantRow *));
	columns->datums = palloc(Max(count_max, 1) * sizeof(Datum));
	columns->nulls = palloc0(Max(count_max, 1) * sizeof(bool));
}

/* EACH(columns, i, row, value): the column whose i-th datum is value. */
#define FILL_COLUMN(columns, row, value) \
	do { \
		for (int i_ = 0; i_ < (columns)->count; i_++) \
		{ \
			IdgenGrantRow *row = (columns)->rows[i_]; \
			(columns)->datums[i_] = (value); \
		} \
	} while (0)

static Datum
column_names(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, CStringGetTextDatum(row->namespace_name));
	return text_array(columns->datums, columns->count);
}

static Datum
column_workers(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, Int32GetDatum(row->worker));
	return int4_array(columns->datums, columns->count);
}

static Datum
column_starts(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, Int64GetDatum(row->grant.start));
	return int8_array(columns->datums, columns->count);
}

static Datum
column_ends(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, Int64GetDatum(row->grant.end));
	return int8_array(columns->datums, columns->count);
}

static Datum
column_incarnations(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, Int64GetDatum(row->incarnation));
	return int8_array(columns->datums, columns->count);
}

static Datum
column_grant_ids(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, Int64GetDatum(row->grant_id));
	return int8_array(columns->datums, columns->count);
}

static Datum
column_requests(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, UUIDPGetDatum(row->request_id));
	for (int i = 0; i < columns->count; i++)
		columns->nulls[i] = columns->rows[i]->request_id == NULL;
	return nullable_array(columns->datums, columns->nulls, columns->count,
						  UUIDOID);
}

/* What a grant adds to the sum of its namespace's marks. */
static int64
added_mark(const IdgenGrantRow *row)
{
	return row->mark == NULL ? row->grant.end :
		row->grant.end - row->mark->high_water;
}

static Datum
bytes_datum(const uint8 *bytes, int count)
{
	bytea	   *result = palloc(VARHDRSZ + count);

	SET_VARSIZE(result, VARHDRSZ + count);
	memcpy(VARDATA(result), bytes, count);
	return PointerGetDatum(result);
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
 * Note where the marks just written are now.  SPI_tuptable holds namespace,
 * worker and ctid of each.
 */
static void
note_marks(IdgenColumns *columns)
{
	for (uint64 i = 0; i < SPI_tuptable->numvals; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;
		char	   *name = TextDatumGetCString(SPI_getbinval(tuple, desc, 1,
															 &isnull));
		int32		worker = DatumGetInt32(SPI_getbinval(tuple, desc, 2,
														 &isnull));
		ItemPointer tid = datum_tid(SPI_getbinval(tuple, desc, 3,
															&isnull));

		for (int j = 0; j < columns->count; j++)
		{
			IdgenGrantRow *row = columns->rows[j];
			IdgenMark	mark;

			if (row->worker != worker || strcmp(row->namespace_name, name) != 0)
				continue;
			mark.worker = worker;
			mark.high_water = row->grant.end;
			mark.incarnation = row->incarnation;
			mark.tid = *tid;
			row->mark = idgen_marks_add(row->marks, &mark);
			break;
		}
	}
}

static void
write_first_marks(IdgenColumns *first)
{
	Datum		values[4];

	if (first->count == 0)
		return;
	values[0] = column_names(first);
	values[1] = column_workers(first);
	values[2] = column_ends(first);
	values[3] = column_incarnations(first);
	expect_rows(run(SQL_INSERT_MARKS, values, NULL), first->count);
	note_marks(first);
}

static void
write_later_marks(IdgenColumns *later)
{
	Datum		values[6];

	if (later->count == 0)
		return;
	FILL_COLUMN(later, row, PointerGetDatum(&row->mark->tid));
	values[0] = tid_array(later->datums, later->count);
	values[1] = column_names(later);
	values[2] = column_workers(later);
	FILL_COLUMN(later, row, Int64GetDatum(row->mark->high_water));
	values[3] = int8_array(later->datums, later->count);
	values[4] = column_ends(later);
	values[5] = column_incarnations(later);
	expect_rows(run(SQL_ADVANCE_MARKS, values, NULL), later->count);
	note_marks(later);
}

/* Note where the authority rows just written are now. */
static void
note_authorities(IdgenColumns *all)
{
	for (uint64 i = 0; i < SPI_tuptable->numvals; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;
		char	   *name = TextDatumGetCString(SPI_getbinval(tuple, desc, 1,
															 &isnull));
		ItemPointer tid = datum_tid(SPI_getbinval(tuple, desc, 3,
															&isnull));

		for (int j = 0; j < all->count; j++)
			if (strcmp(all->rows[j]->namespace_name, name) == 0)
				all->rows[j]->marks->authority_tid = *tid;
	}
}

/* Add to the sums that guard the marks; before the marks in memory move. */
static void
write_sums(IdgenColumns *all)
{
	Datum		values[4];

	FILL_COLUMN(all, row, PointerGetDatum(&row->marks->authority_tid));
	values[0] = tid_array(all->datums, all->count);
	FILL_COLUMN(all, row, Int64GetDatum(row->mark == NULL ? 1 : 0));
	values[1] = int8_array(all->datums, all->count);
	FILL_COLUMN(all, row, Int64GetDatum(added_mark(row)));
	values[2] = int8_array(all->datums, all->count);
	FILL_COLUMN(all, row, Int64GetDatum(Max(row->now, 0)));
	values[3] = int8_array(all->datums, all->count);
	if (run(SQL_ADD_TO_SUMS, values, NULL) == 0)
		expect_rows(0, 1);
	note_authorities(all);
}

static void
write_incarnations(IdgenColumns *fresh, const pg_uuid_t *boot)
{
	Datum		values[8];

	if (fresh->count == 0)
		return;
	values[0] = column_incarnations(fresh);
	values[1] = column_names(fresh);
	values[2] = column_workers(fresh);
	for (int i = 0; i < fresh->count; i++)
		fresh->nulls[i] = fresh->rows[i]->holder == NULL;
	FILL_COLUMN(fresh, row,
				CStringGetTextDatum(row->holder ? row->holder->role : ""));
	values[3] = nullable_array(fresh->datums, fresh->nulls, fresh->count, TEXTOID);
	FILL_COLUMN(fresh, row,
				CStringGetTextDatum(row->holder ? row->holder->mail->address : ""));
	values[4] = nullable_array(fresh->datums, fresh->nulls, fresh->count, TEXTOID);
	FILL_COLUMN(fresh, row,
				CStringGetTextDatum(row->holder ?
									row->holder->mail->application : ""));
	values[5] = nullable_array(fresh->datums, fresh->nulls, fresh->count, TEXTOID);
	FILL_COLUMN(fresh, row,
				row->holder ? bytes_datum(row->holder->mail->token_hash,
										  IDGEN_TOKEN_HASH_SIZE) : (Datum) 0);
	values[6] = nullable_array(fresh->datums, fresh->nulls, fresh->count, BYTEAOID);
	values[7] = UUIDPGetDatum(boot);
	expect_rows(run(SQL_INSERT_INCARNATIONS, values, NULL), fresh->count);
}

/* Whoever held the workers of fresh incarnations before holds them no more. */
static void
end_predecessors(IdgenColumns *fresh)
{
	Datum		values[1];
	int			count = 0;

	for (int i = 0; i < fresh->count; i++)
		if (fresh->rows[i]->mark != NULL && fresh->rows[i]->mark->incarnation != 0)
			fresh->datums[count++] =
				Int64GetDatum(fresh->rows[i]->mark->incarnation);
	if (count == 0)
		return;
	values[0] = int8_array(fresh->datums, count);
	run(SQL_END_INCARNATIONS, values, NULL);
}

/*
 * Write grants: the sums that guard the marks (S3), the marks, conditional on
 * what they were (S2), new incarnations, and the grants.  All or, by error,
 * none; after an error the caller forgets the marks in memory.  The rows must
 * be locked, and at most one per worker.
 */
void
idgen_tables_write_grants(IdgenGrantRow *rows, int count, const pg_uuid_t *boot)
{
	IdgenColumns all;
	IdgenColumns first;
	IdgenColumns later;
	IdgenColumns fresh;
	Datum		grants[7];

	if (count == 0)
		return;
	columns_begin(&all, count);
	columns_begin(&first, count);
	columns_begin(&later, count);
	columns_begin(&fresh, count);
	for (int i = 0; i < count; i++)
	{
		IdgenColumns *marks = rows[i].mark == NULL ? &first : &later;

		all.rows[all.count++] = &rows[i];
		marks->rows[marks->count++] = &rows[i];
		if (rows[i].fresh)
			fresh.rows[fresh.count++] = &rows[i];
	}

	write_sums(&all);
	end_predecessors(&fresh);
	write_later_marks(&later);
	write_first_marks(&first);
	write_incarnations(&fresh, boot);

	grants[0] = column_names(&all);
	grants[1] = column_workers(&all);
	grants[2] = column_starts(&all);
	grants[3] = column_ends(&all);
	grants[4] = column_grant_ids(&all);
	grants[5] = column_incarnations(&all);
	grants[6] = column_requests(&all);
	expect_rows(run(SQL_INSERT_GRANTS, grants, NULL), count);
}

/* --- incarnations and their chains */

/* Read a row of idgen_incarnation; false if there is none. */
bool
idgen_tables_read_incarnation(int64 incarnation, IdgenIncarnationRow *row)
{
	Datum		values[1] = {Int64GetDatum(incarnation)};
	bool		isnull;
	Datum		hash;

	memset(row, 0, sizeof(*row));
	if (run(SQL_READ_INCARNATION, values, NULL) == 0)
		return false;
	strlcpy(row->namespace_name, TextDatumGetCString(first_row(1, &isnull)),
			NAMEDATALEN);
	row->worker = DatumGetInt32(first_row(2, &isnull));
	row->external = DatumGetBool(first_row(3, &isnull));
	strlcpy(row->role, TextDatumGetCString(first_row(4, &isnull)), NAMEDATALEN);
	hash = first_row(5, &isnull);
	if (!isnull && VARSIZE_ANY_EXHDR(DatumGetPointer(hash)) == IDGEN_TOKEN_HASH_SIZE)
		memcpy(row->token_hash, VARDATA_ANY(DatumGetPointer(hash)),
			   IDGEN_TOKEN_HASH_SIZE);
	row->active = DatumGetBool(first_row(6, &isnull));
	return true;
}

/* Read the last grant of a worker; false if it has none. */
bool
idgen_tables_last_grant(const char *name, int32 worker, IdgenLastGrant *last)
{
	Datum		values[2] = {CStringGetTextDatum(name), Int32GetDatum(worker)};
	bool		isnull;
	Datum		request;

	if (run(SQL_LAST_GRANT, values, NULL) == 0)
		return false;
	last->grant_id = DatumGetInt64(first_row(1, &isnull));
	last->incarnation = DatumGetInt64(first_row(2, &isnull));
	request = first_row(3, &isnull);
	last->has_request = !isnull;
	if (last->has_request)
		last->request_id = *DatumGetUUIDP(request);
	last->grant.start = DatumGetInt64(first_row(4, &isnull));
	last->grant.end = DatumGetInt64(first_row(5, &isnull));
	return true;
}

/*
 * Did an incarnation get a grant for this request, among the last grants of its
 * worker?
 */
bool
idgen_tables_request_recorded(const char *name, int32 worker, int64 incarnation,
							  const pg_uuid_t *request_id, int64 last_grants)
{
	Datum		values[5] = {
		CStringGetTextDatum(name), Int32GetDatum(worker),
		Int64GetDatum(incarnation), UUIDPGetDatum(request_id),
		Int64GetDatum(last_grants)
	};
	bool		isnull;

	run(SQL_REQUEST_RECORDED, values, NULL);
	return DatumGetBool(first_row(1, &isnull));
}

/*
 * Count the workers reserved for external incarnations, all and a role's; also
 * for those that have ended, until their grants end.
 */
void
idgen_tables_live_externals(const char *name, int64 now, const char *role,
							int64 *all, int64 *of_role)
{
	Datum		values[3] = {
		CStringGetTextDatum(name), Int64GetDatum(now), CStringGetTextDatum(role)
	};
	bool		isnull;

	run(SQL_LIVE_EXTERNALS, values, NULL);
	*all = DatumGetInt64(first_row(1, &isnull));
	*of_role = DatumGetInt64(first_row(2, &isnull));
}

/* --- ending and fencing */

/* The clock at the last grant, in ticks; 0 if nothing is known. */
int64
idgen_tables_last_clock(const char *name)
{
	bool		isnull;

	return run_for_namespace(SQL_LAST_CLOCK, name) == 0 ? 0 :
		DatumGetInt64(first_row(1, &isnull));
}

/* When the identity was recorded, in Unix ms; 0 if there is none. */
int64
idgen_tables_recorded_ms(const char *name)
{
	bool		isnull;

	return run_for_namespace(SQL_RECORDED_MS, name) == 0 ? 0 :
		DatumGetInt64(first_row(1, &isnull));
}

/* The highest mark of a namespace, its floor included. */
int64
idgen_tables_highest_mark(const char *name)
{
	bool		isnull;

	run_for_namespace(SQL_HIGHEST_MARK, name);
	return DatumGetInt64(first_row(1, &isnull));
}

/* Move the floor of a namespace up, or make it anew; it never moves down. */
void
idgen_tables_raise_floor(const char *name, int64 floor)
{
	Datum		values[2] = {CStringGetTextDatum(name), Int64GetDatum(floor)};

	run(SQL_RAISE_FLOOR, values, NULL);
}

/* After a fence, whatever the marks are is below the floor: count anew. */
void
idgen_tables_reset_sums(const char *name)
{
	run_for_namespace(SQL_RESET_SUMS, name);
}

/* Every incarnation of a namespace is over. */
void
idgen_tables_end_all(const char *name)
{
	run_for_namespace(SQL_END_ALL, name);
}

/* Record the identity of a namespace, or another one. */
void
idgen_tables_write_authority(const char *name, const IdgenAuthorityRow *row)
{
	Datum		values[ARGUMENTS_MAX];

	authority_arguments(name, row, values);
	expect_rows(run(SQL_UPDATE_AUTHORITY, values, NULL), 1);
	idgen_tables_announce();
}

/* Change the workers an authority uses. */
void
idgen_tables_write_range(const char *name, int32 first_worker, int32 last_worker)
{
	Datum		values[3] = {
		CStringGetTextDatum(name), Int32GetDatum(first_worker),
		Int32GetDatum(last_worker)
	};

	run(SQL_UPDATE_RANGE, values, NULL);
	idgen_tables_announce();
}

/* An incarnation issues no more. */
void
idgen_tables_end_incarnation(int64 incarnation)
{
	Datum		datums[1] = {Int64GetDatum(incarnation)};
	Datum		values[1] = {int8_array(datums, 1)};

	run(SQL_END_INCARNATIONS, values, NULL);
}

/* The holder of an external incarnation says that it issues no more. */
void
idgen_tables_deactivate(int64 incarnation)
{
	Datum		values[1] = {Int64GetDatum(incarnation)};

	run(SQL_DEACTIVATE, values, NULL);
}

/*
 * Incarnations of this server are over but for those that have a cursor: shared
 * memory may have begun anew (S5), or a cursor may have ended without a worker.
 */
void
idgen_tables_end_strangers(const pg_uuid_t *boot, const int64 *living, int count)
{
	Datum	   *datums = palloc((count + 1) * sizeof(Datum));
	Datum		values[2];

	for (int i = 0; i < count; i++)
		datums[i] = Int64GetDatum(living[i]);
	values[0] = UUIDPGetDatum(boot);
	values[1] = int8_array(datums, count);
	run(SQL_END_STRANGERS, values, NULL);
}

/* Retire a namespace. */
void
idgen_tables_retire(const char *name)
{
	run_for_namespace(SQL_RETIRE_NAMESPACE, name);
	idgen_tables_announce();
}

/* --- retention */

/*
 * Among the oldest 1,000 grants of a worker, delete those past the retention and
 * merge adjacent ones of one incarnation that are settled, that is so old that
 * no request for them can be repeated.  "now" is the clock in ticks: what can
 * still be issued from stays as it is.  Returns how many rows were touched;
 * marks are not.
 */
int
idgen_tables_compact(const char *name, int32 worker, int64 now, int64 settled_s,
					 int64 retention_s)
{
	Datum		values[4] = {
		CStringGetTextDatum(name), Int32GetDatum(worker),
		Float8GetDatum((double) retention_s), Int64GetDatum(now)
	};
	uint64		touched = run(SQL_DELETE_GRANTS, values, NULL);

	values[2] = Float8GetDatum((double) Min(settled_s, retention_s));
	return (int) (touched + run(SQL_MERGE_GRANTS, values, NULL));
}

/*
 * End external incarnations silent for longer than the retention, and delete
 * those that ended before it; returns how many were deleted.
 */
int
idgen_tables_forget_incarnations(int64 retention_s)
{
	Datum		values[1] = {Float8GetDatum((double) retention_s)};

	run(SQL_END_SILENT, values, NULL);
	return (int) run(SQL_DELETE_INCARNATIONS, values, NULL);
}
