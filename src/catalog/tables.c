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

#include "catalog/tables.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
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
#include "executor/tuptable.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "rewrite/prs2lock.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/pmsignal.h"
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
#include "catalog/identity.h"
#include "settings.h"
#include "shmem/shmem.h"

/* --------------------------------------------------------------------
 * What the script made
 * -------------------------------------------------------------------- */

#define COLUMNS_MAX 22
#define GUARDS_PER_TABLE 2

/* How often the tables are looked up anew because something changed meanwhile. */
#define LOOK_UPS_MAX 3

typedef struct IdgenTableShape
{
	const char *name;
	int			column_count;
	Oid			types[COLUMNS_MAX];
} IdgenTableShape;

static const IdgenTableShape shapes[IDGEN_TABLE_COUNT] = {
	[IDGEN_TABLE_NAMESPACE] = {
		"idgen_namespace", 22,
		{
			TEXTOID, TEXTOID, INT4OID, INT4OID, INT4OID, INT8OID, INT8OID,
			INT8OID, INT8OID, INT8OID, INT4OID, INT4OID, TEXTOID, TEXTOID,
			BOOLOID, BOOLOID, BOOLOID, TEXTOID, TEXTARRAYOID, TEXTARRAYOID,
			INT4OID, UUIDOID
		}
	},
	[IDGEN_TABLE_FLOOR] = {"idgen_floor", 3, {TEXTOID, INT8OID, INT8OID}},
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
		"idgen_incarnation", 13,
		{
			INT8OID, TEXTOID, INT4OID, TEXTOID, UUIDOID, TEXTOID, INETOID,
			TEXTOID, TIMESTAMPTZOID, BYTEAOID, TEXTOID, TIMESTAMPTZOID, INT8OID
		}
	},
	[IDGEN_TABLE_GRANT] = {
		"idgen_grant", 9,
		{
			TEXTOID, INT4OID, INT8OID, INT8OID, INT8OID, INT8OID,
			TIMESTAMPTZOID, UUIDOID, INT8OID
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

/* How many times anything that "found" is made of may have changed. */
static uint64 changes = 0;

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
	changes++;
	idgen_tables_version++;
}

/* A schema was renamed, perhaps ours: its name stands in our statements. */
static void
schema_changed(Datum arg, int cache, uint32 hash)
{
	found.valid = false;
	changes++;
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
	char	   *before = found.qualified[table];

	if (found.relids[table] == relid && before != NULL &&
		strcmp(before, qualified) == 0)
		return;
	found.qualified[table] = MemoryContextStrdup(TopMemoryContext, qualified);
	found.relids[table] = relid;
	found.version++;
	if (before != NULL)
		pfree(before);
}

/* What came of looking the tables up. */
typedef enum IdgenLookUp
{
	IDGEN_LOOK_UP_FOUND,
	IDGEN_LOOK_UP_NO_EXTENSION,
	IDGEN_LOOK_UP_NO_TABLE		/* it is not there by its name */
} IdgenLookUp;

/* Look the tables up once.  *schema_name and *missing say which table is not there. */
static IdgenLookUp
look_up(char **schema_name, IdgenTable *missing)
{
	found.schema = extension_schema();
	if (!OidIsValid(found.schema))
		return IDGEN_LOOK_UP_NO_EXTENSION;
	*schema_name = get_namespace_name(found.schema);
	if (*schema_name == NULL)
		return IDGEN_LOOK_UP_NO_EXTENSION;
	for (int i = 0; i < IDGEN_TABLE_COUNT; i++)
	{
		Oid			relid = get_relname_relid(shapes[i].name, found.schema);

		if (!OidIsValid(relid))
		{
			*missing = i;
			return IDGEN_LOOK_UP_NO_TABLE;
		}
		remember_table(i, relid, quote_qualified_identifier(*schema_name,
															shapes[i].name));
	}
	found.owner = relation_owner(found.relids[IDGEN_TABLE_WORKER]);
	return OidIsValid(found.owner) ? IDGEN_LOOK_UP_FOUND : IDGEN_LOOK_UP_NO_EXTENSION;
}

/*
 * Look the tables up until nothing has changed meanwhile.  A look-up may process
 * invalidations, and what it had read before may be out of date then: only a
 * look-up without any is remembered.  Where there is no end of them, as on a
 * server that discards its caches all the time, the last one serves its caller,
 * and the next caller looks again.
 */
static IdgenLookUp
look_up_settled(char **schema_name, IdgenTable *missing)
{
	IdgenLookUp result = IDGEN_LOOK_UP_FOUND;

	for (int tries = 0; tries < LOOK_UPS_MAX && !found.valid; tries++)
	{
		uint64		changes_before = changes;

		result = look_up(schema_name, missing);
		found.valid = result == IDGEN_LOOK_UP_FOUND && changes == changes_before;
		if (changes == changes_before)
			break;
	}
	return result;
}

/*
 * Look the tables up; false if the extension is not installed.  Cheap when
 * nothing changed.  Raises an error if a table is missing.
 */
bool
idgen_tables_find(void)
{
	char	   *schema_name;
	IdgenTable	missing;

	if (found.valid)
		return true;
	switch (look_up_settled(&schema_name, &missing))
	{
		case IDGEN_LOOK_UP_FOUND:
			return true;
		case IDGEN_LOOK_UP_NO_EXTENSION:
			return false;
		case IDGEN_LOOK_UP_NO_TABLE:
			ereport(ERROR,
					(errcode(ERRCODE_IDGEN_UNAVAILABLE),
					 errmsg("the tables of idgen are damaged"),
					 errdetail("Table \"%s\" is missing in schema \"%s\".",
							   shapes[missing].name, schema_name),
					 errhint("If it was renamed or moved, undo that.")));
	}
	return false;
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

/*
 * Are a table's triggers its guards, without a condition, for all columns,
 * always?  What is wanted of the relcache entry is read before anything is looked
 * up: a look-up may process invalidations, which rebuild the entry and free what
 * hangs from it, whatever lock is held.
 */
static bool
guards_intact(Relation relation)
{
	const TriggerDesc *triggers = relation->trigdesc;
	Oid			functions[GUARDS_PER_TABLE];

	if (triggers == NULL || triggers->numtriggers != GUARDS_PER_TABLE ||
		!triggers->trig_insert_before_row ||
		!triggers->trig_update_before_row ||
		!triggers->trig_delete_before_row ||
		!triggers->trig_truncate_before_statement)
		return false;
	for (int i = 0; i < GUARDS_PER_TABLE; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (trigger->tgenabled != TRIGGER_FIRES_ALWAYS ||
			trigger->tgqual != NULL || trigger->tgnattr != 0)
			return false;
		functions[i] = trigger->tgfoid;
	}

	/* "triggers" is not to be used from here on */
	for (int i = 0; i < GUARDS_PER_TABLE; i++)
		if (!is_guard(functions[i]))
			return false;
	return true;
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

/* For errors; with an incarnation alone, the namespace is not known: NULL. */
static int
errmsg_unavailable(const char *name)
{
	return name == NULL ? errmsg("the authority of the incarnation is unavailable") :
		errmsg("namespace \"%s\" is unavailable", name);
}

static void
unavailable(const char *name, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_IDGEN_UNAVAILABLE),
			 errmsg_unavailable(name),
			 errdetail_internal("%s", why),
			 errhint("Undo what was done to it; if marks were lost, the namespaces need a fence.")));
}

/*
 * Lock a table, but wait no longer than until a monotonic time; 0 is
 * idgen.wait_timeout from now on.  Somebody may be in the middle of a long
 * transaction with DROP EXTENSION.
 */
static void
lock_within_timeout(IdgenTable table, LOCKMODE mode, const char *name,
					int64 until_us)
{
	while (!ConditionalLockRelationOid(found.relids[table], mode))
	{
		int64		now_us = idgen_clock_monotonic_us();

		if (until_us == 0)
			until_us = now_us + (int64) idgen_wait_timeout_ms * 1000;
		if (now_us >= until_us)
			ereport(ERROR,
					(errcode(ERRCODE_IDGEN_UNAVAILABLE),
					 errmsg_unavailable(name),
					 errdetail("Another session holds a lock on table \"%s\", as DROP EXTENSION does until its transaction ends.",
							   shapes[table].name),
					 errhint("Retry; if it goes on, look in pg_locks for who holds it.")));
		CHECK_FOR_INTERRUPTS();

		/* a prepared transaction outlives it, and a new one waits for us */
		if (IsUnderPostmaster && !PostmasterIsAlive())
			proc_exit(1);
		idgen_lock_nap(LOCK_RETRY_US);
	}
}

pg_noreturn static void
extension_gone(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot change namespace \"%s\": extension \"idgen\" has been dropped",
					name)));
}

/*
 * Lock all tables for writing, and see that they are intact.  The locks stay
 * until the transaction ends; they conflict with no other writer.  What was
 * waited for may have been a DROP EXTENSION, and then the tables are gone.
 */
void
idgen_tables_lock_intact(const char *name)
{
	char		why[IDGEN_ERROR_TEXT_MAX];

	if (!idgen_tables_find())
		extension_gone(name);
	for (int i = 0; i < IDGEN_TABLE_COUNT; i++)
	{
		Relation	relation;
		bool		intact;

		lock_within_timeout(i, RowExclusiveLock, name, 0);
		relation = try_relation_open(found.relids[i], NoLock);
		if (relation == NULL)
			extension_gone(name);
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
lock_for_reading(IdgenTable table, const char *name, int64 until_us)
{
	if (ConditionalLockRelationOid(found.relids[table], AccessShareLock))
		return AccessShareLock;
	if (locked_for_writing(table))
		return NoLock;
	lock_within_timeout(table, AccessShareLock, name, until_us);
	return AccessShareLock;
}

/*
 * Open a table and find the row of a key; false if the table is gone.  The
 * snapshot is taken now, whatever the transaction's isolation level: what others
 * committed counts.
 */
static bool
scan_begin_key(IdgenScan *scan, IdgenTable table, ScanKey key, const char *name,
			   int64 until_us)
{
	char		why[IDGEN_ERROR_TEXT_MAX];

	if (!idgen_tables_find())
		return false;
	scan->lock = lock_for_reading(table, name, until_us);
	scan->relation = try_relation_open(found.relids[table], NoLock);
	if (scan->relation == NULL)
		return false;
	if (!idgen_tables_intact(table, scan->relation, why, sizeof(why)))
		unavailable(name, why);

	scan->scan = systable_beginscan(scan->relation,
									idgen_primary_key_index(scan->relation),
									true, NULL, 1, key);
	scan->tuple = systable_getnext(scan->scan);
	return true;
}

/* The same for the row of a namespace. */
static bool
scan_begin(IdgenScan *scan, IdgenTable table, const char *name, int64 until_us)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(name));
	return scan_begin_key(scan, table, &key, name, until_us);
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

/*
 * Read a row of idgen_namespace; false if there is none.  After find.  Here and
 * below, until_us bounds the wait for a lock, see lock_within_timeout.
 */
bool
idgen_tables_read_namespace(const char *name, IdgenNamespaceRow *row, int64 until_us)
{
	IdgenScan	scan;
	bool		exists;

	if (!scan_begin(&scan, IDGEN_TABLE_NAMESPACE, name, until_us))
		return false;
	exists = scan.tuple != NULL;
	if (exists)
	{
		memset(row, 0, sizeof(*row));
		scan_text(&scan, IDGEN_NAMESPACE_NAME, row->name);
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
		row->lineage = *DatumGetUUIDP(scan_column(&scan, IDGEN_NAMESPACE_LINEAGE));
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
							TransactionId *xmin, int64 until_us)
{
	IdgenScan	scan;
	bool		exists;

	if (!scan_begin(&scan, IDGEN_TABLE_AUTHORITY, name, until_us))
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
idgen_tables_privileged(const char *name, IdgenPrivilege privilege, Oid role,
						int64 until_us)
{
	IdgenScan	scan;
	bool		privileged;

	if (!scan_begin(&scan, IDGEN_TABLE_NAMESPACE, name, until_us))
		return false;
	privileged = scan.tuple != NULL &&
		member_of_any(role, DatumGetArrayTypeP(scan_column(&scan,
														   privilege == IDGEN_PRIVILEGE_ISSUE ?
														   IDGEN_NAMESPACE_ISSUE_ROLES :
														   IDGEN_NAMESPACE_ACQUIRE_ROLES)));
	scan_end(&scan);
	return privileged;
}

/* Attribute numbers of idgen_incarnation. */
enum
{
	INCARNATION_NAMESPACE = 2, INCARNATION_KIND = 4, INCARNATION_ROLE = 6
};

/* Whose is an incarnation?  False if there is none.  After find. */
bool
idgen_tables_read_holder(int64 incarnation, IdgenHolderRow *row)
{
	IdgenScan	scan;
	ScanKeyData key;
	bool		exists;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(incarnation));
	if (!scan_begin_key(&scan, IDGEN_TABLE_INCARNATION, &key, NULL, 0))
		return false;
	exists = scan.tuple != NULL;
	if (exists)
	{
		char		kind[NAMEDATALEN];

		scan_text(&scan, INCARNATION_NAMESPACE, row->namespace_name);
		scan_text(&scan, INCARNATION_KIND, kind);
		row->external = strcmp(kind, "external") == 0;
		row->role[0] = '\0';
		if (row->external)
			scan_text(&scan, INCARNATION_ROLE, row->role);
	}
	scan_end(&scan);
	return exists;
}

/* --------------------------------------------------------------------
 * While they are being dropped
 * -------------------------------------------------------------------- */

/* A look at all rows of a table, whatever is attached to it. */
typedef struct IdgenLook
{
	Relation	relation;		/* NULL if there is nothing to be read */
	Snapshot	snapshot;
	TableScanDesc scan;
	TupleTableSlot *slot;		/* the row found last */
} IdgenLook;

/* Are the columns that are read where they should be, whatever came after? */
static bool
columns_readable(const IdgenTableShape *shape, Relation relation)
{
	TupleDesc	desc = RelationGetDescr(relation);

	for (int i = 0; i < shape->column_count; i++)
		if (i >= desc->natts || TupleDescAttr(desc, i)->attisdropped ||
			TupleDescAttr(desc, i)->atttypid != shape->types[i])
			return false;
	return true;
}

/*
 * Open a table of a schema for a look, if it has the columns that the script gave
 * it.  Raises nothing: a drop must not fail because tables are damaged.  Its
 * triggers, and even its primary key, may be gone already.  The snapshot is the
 * latest, however old the transaction's own: what others committed since was
 * promised all the same.
 */
static void
look_begin(IdgenLook *look, IdgenTable table, Oid schema)
{
	const IdgenTableShape *shape = &shapes[table];
	Oid			relid = get_relname_relid(shape->name, schema);
	bool		readable;

	memset(look, 0, sizeof(*look));
	look->relation = OidIsValid(relid) ?
		try_relation_open(relid, AccessShareLock) : NULL;
	if (look->relation == NULL)
		return;
	readable = look->relation->rd_rel->relkind == RELKIND_RELATION &&
		columns_readable(shape, look->relation);
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

/* A column of a row that a look found; 0 if it is null. */
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

/* The Unix ms at which a tick begins; 0 for none, and never past all time. */
static int64
tick_ms(const IdgenLayout *layout, int64 tick)
{
	int64		ms;

	if (tick <= 0)
		return 0;
	return idgen_layout_unix_ms(layout, tick, &ms) ? Min(ms, IDGEN_UNIX_MS_MAX) :
		IDGEN_UNIX_MS_MAX;
}

/* The namespaces that are dropped, and the clocks they count by. */
typedef struct IdgenDropped
{
	int			count;
	IdgenEndedMarks *marks;
	IdgenLayout *layouts;
	int			last;			/* found last: rows of one namespace lie together */
	bool		is_quorum;		/* of one of them at least */
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
		char		durability[NAMEDATALEN];

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
		look_text(&look, IDGEN_NAMESPACE_DURABILITY, durability);
		if (strcmp(durability, "quorum") == 0)
			dropped->is_quorum = true;
		if (layout->tick_ms > 0 && marks->namespace_name[0] != '\0')
			dropped->count++;
	}
	look_end(&look);
}

/* The namespace of a row that was found, in its first column; -1 if unknown. */
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
 * granted more than its tables know: as much as a fence allows for.  One that is dropped
 * before it is fenced leaves that behind.  A copy of a database is an ID space of its
 * own.
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
		IdgenIdentity recorded = {
			.system_identifier = (uint64) DatumGetInt64(look_column(&look, AUTHORITY_SYSTEM_IDENTIFIER)),
			.database = DatumGetObjectId(look_column(&look, AUTHORITY_DATABASE)),
			.timeline = (uint32) DatumGetInt64(look_column(&look, AUTHORITY_TIMELINE)),
			.control_inode = (uint64) DatumGetInt64(look_column(&look, AUTHORITY_CONTROL_INODE)),
			.control_birth = DatumGetInt64(look_column(&look, AUTHORITY_CONTROL_BIRTH)),
			.version_inode = (uint64) DatumGetInt64(look_column(&look, AUTHORITY_VERSION_INODE)),
			.version_birth = DatumGetInt64(look_column(&look, AUTHORITY_VERSION_BIRTH))
		};
		IdgenIdentityVerdict verdict = idgen_identity_compare(&recorded, &here);

		if (at >= 0)
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
 * What the namespaces of this database that are being dropped granted, as far as
 * the tables can be read.  For whoever drops the tables: they are locked already.
 */
void
idgen_tables_dropped(IdgenDroppedTables *tables)
{
	Oid			schema = extension_schema();
	IdgenDropped dropped = {
		.marks = palloc(sizeof(IdgenEndedMarks)),
		.layouts = palloc(sizeof(IdgenLayout))
	};
	IdgenLook	look;

	*tables = (IdgenDroppedTables) {.marks = dropped.marks};
	if (!OidIsValid(schema))
		return;
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

/* --------------------------------------------------------------------
 * For the authority worker
 * -------------------------------------------------------------------- */

/*
 * Begin a round: lock the tables without waiting and see that they are intact.
 * False with the cause in *failure; kind UNDEFINED if there is no extension.
 * Ends with the transaction.
 */
bool
idgen_tables_open(IdgenError *error)
{
	char		why[IDGEN_ERROR_TEXT_MAX];

	if (!idgen_tables_find())
	{
		idgen_error_set(error, IDGEN_ERROR_UNDEFINED,
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
			idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE, why,
							  "Retry; if it goes on, look in pg_locks for who holds a lock on it.");
			return false;
		}
		relation = try_relation_open(found.relids[i], NoLock);
		if (relation == NULL)
		{
			idgen_error_set(error, IDGEN_ERROR_UNDEFINED,
							  "The extension idgen was dropped.", NULL);
			return false;
		}
		intact = idgen_tables_intact(i, relation, why, sizeof(why));
		relation_close(relation, NoLock);
		if (!intact)
		{
			idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE, why,
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
