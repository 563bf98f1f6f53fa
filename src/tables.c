/*
 * tables.c
 *		Find and check the authority's tables, and read them by scan.
 *
 * Reading for the issuing path goes through table scans, with a snapshot of
 * its own, so that it works in any transaction: read-only, parallel, at any
 * isolation level, with any search_path.  Everything else is SQL, in
 * statement.c.
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
#include "miscadmin.h"
#include "rewrite/prs2lock.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
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

#define COLUMNS_MAX 21
#define GUARDS_PER_TABLE 2

typedef struct IdgenTableShape
{
	const char *name;
	int			column_count;
	Oid			types[COLUMNS_MAX];
} IdgenTableShape;

static const IdgenTableShape shapes[IDGEN_TABLE_COUNT] = {
	[IDGEN_TABLE_NAMESPACE] = {
		"idgen_namespace", 21,
		{
			TEXTOID, TEXTOID, INT4OID, INT4OID, INT4OID, INT8OID, INT8OID,
			INT8OID, INT8OID, INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID,
			BOOLOID, BOOLOID, BOOLOID, TEXTOID, TEXTARRAYOID, TEXTARRAYOID,
			INT4OID
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

/* Attribute numbers of idgen_authority. */
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

/* The name of a table, without its schema. */
const char *
idgen_tables_name(IdgenTable table)
{
	return shapes[table].name;
}

/* The qualified and quoted name of a table.  After idgen_tables_find. */
const char *
idgen_tables_qualified(IdgenTable table)
{
	return found.qualified[table];
}

/* Moves when the tables are found elsewhere than before. */
uint64
idgen_tables_location(void)
{
	return found.version;
}

/* The owner of the tables.  After idgen_tables_find. */
Oid
idgen_tables_owner(void)
{
	return found.owner;
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
	LOCKMODE	lock;			/* taken for it */
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
 * Lock all tables for writing, and see that they are intact.  The locks stay
 * until the transaction ends; they conflict with no other writer.  What was
 * waited for may have been a DROP EXTENSION, and then the tables are gone.
 */
void
idgen_tables_lock_intact(const char *name)
{
	char		why[IDGEN_FAILURE_TEXT_MAX];

	for (int i = 0; i < IDGEN_TABLE_COUNT; i++)
	{
		Relation	relation;
		bool		intact;

		lock_within_timeout(i, RowExclusiveLock, name);
		relation = try_relation_open(found.relids[i], NoLock);
		if (relation == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("cannot change namespace \"%s\": extension \"idgen\" has been dropped",
							name)));
		intact = idgen_tables_intact(i, relation, why, sizeof(why));
		relation_close(relation, NoLock);
		if (!intact)
			unavailable(name, why);
	}
}

/* Has this transaction locked a table for writing, or more strongly? */
static bool
locked_for_writing(IdgenTable table)
{
	Relation	relation = RelationIdGetRelation(found.relids[table]);
	bool		locked;

	if (relation == NULL)
		return false;
	locked = CheckRelationLockedByMe(relation, RowExclusiveLock, true);
	RelationClose(relation);
	return locked;
}

/*
 * Lock a table for reading, unless it is locked for writing: who waits for that
 * lock to go, as DROP EXTENSION does, would be waited for here.  Returns the lock
 * taken.
 */
static LOCKMODE
lock_for_reading(IdgenTable table, const char *name)
{
	if (ConditionalLockRelationOid(found.relids[table], AccessShareLock))
		return AccessShareLock;
	if (locked_for_writing(table))
		return NoLock;
	lock_within_timeout(table, AccessShareLock, name);
	return AccessShareLock;
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

	scan->lock = lock_for_reading(table, name);
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
	table_close(scan->relation, scan->lock);
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
		scan_text(&scan, IDGEN_NAMESPACE_NAME, row->name);
		row->layout.kind = IDGEN_KIND_TIME;
		row->layout.timestamp_bits = scan_int32(&scan, IDGEN_NAMESPACE_TIMESTAMP_BITS);
		row->layout.worker_bits = scan_int32(&scan, IDGEN_NAMESPACE_WORKER_BITS);
		row->layout.sequence_bits = scan_int32(&scan, IDGEN_NAMESPACE_SEQUENCE_BITS);
		row->layout.epoch_ms = scan_int64(&scan, IDGEN_NAMESPACE_EPOCH_MS);
		row->layout.tick_ms = scan_int64(&scan, IDGEN_NAMESPACE_TICK_MS);
		row->layout.horizon_ms = scan_int64(&scan, IDGEN_NAMESPACE_HORIZON_MS);
		row->grant_interval_ms = scan_int64(&scan, IDGEN_NAMESPACE_GRANT_INTERVAL_MS);
		row->run_ahead_ms = scan_int64(&scan, IDGEN_NAMESPACE_RUN_AHEAD_MS);
		row->first_worker = scan_int32(&scan, IDGEN_NAMESPACE_FIRST_WORKER);
		row->last_worker = scan_int32(&scan, IDGEN_NAMESPACE_LAST_WORKER);
		scan_text(&scan, IDGEN_NAMESPACE_DURABILITY, row->durability);
		scan_text(&scan, IDGEN_NAMESPACE_PROMOTION, row->promotion);
		row->restricted = scan_bool(&scan, IDGEN_NAMESPACE_RESTRICTED);
		row->issuing = scan_bool(&scan, IDGEN_NAMESPACE_ISSUING);
		row->retired = scan_bool(&scan, IDGEN_NAMESPACE_RETIRED);
		scan_text(&scan, IDGEN_NAMESPACE_OWNER, row->owner);
		row->split_parts = scan_int32(&scan, IDGEN_NAMESPACE_SPLIT_PARTS);
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
														   IDGEN_NAMESPACE_ISSUE_ROLES :
														   IDGEN_NAMESPACE_ACQUIRE_ROLES)));
	scan_end(&scan);
	return privileged;
}

/* --------------------------------------------------------------------
 * For the authority worker
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

/* --------------------------------------------------------------------
 * Telling sessions
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
