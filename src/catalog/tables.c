/*
 * tables.c
 *		Find the authority's tables, and notice when they change.
 *
 * The tables lie in a schema of their own, the functions in the schema of the
 * extension.  Where they are is looked up once and kept until an invalidation arrives.
 */
#include "compat.h"

#include "catalog/tables.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "commands/extension.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "error.h"

/*
 * How often at most the tables are looked up, if something changes each time.
 */
#define LOOK_UPS_MAX 3

static struct
{
	bool		valid;
	Oid			function_schema;
	Oid			owner;
	Oid			relids[IDGEN_TABLE_COUNT];
	char	   *qualified[IDGEN_TABLE_COUNT];	/* in TopMemoryContext */
	uint64		version;		/* moves when a table is found elsewhere */
}			found;

uint64		idgen_tables_version = 1;
uint64		idgen_namespace_version = 1;

/* Counts changes to the catalogs that "found" was read from. */
static uint64 changes = 0;

/*
 * One of our relations has changed or, if "relid" is invalid, perhaps all of
 * them.  Changes to rows of the tables of namespaces and identities are
 * announced in the same way, see idgen_tables_announce.
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
		idgen_namespace_version++;
	found.valid = false;
	changes++;
	idgen_tables_version++;
}

/*
 * A schema has changed.  Perhaps ours was renamed, and its name is part of our
 * queries.
 */
static void
schema_changed(Datum arg, int cache, uint32 hash)
{
	found.valid = false;
	changes++;
}

/*
 * Watch the catalogs.  Called once in each process that preloads or loads the
 * library.
 */
void
idgen_tables_init(void)
{
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, schema_changed, (Datum) 0);
}

/* Look up the schema of the functions; InvalidOid if the extension is not installed. */
static Oid
find_function_schema(void)
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

/* Note where a table is.  Saved plans are of no use if it was elsewhere before. */
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

/*
 * Look up the schema of the tables; InvalidOid if there is none.  It has to belong to
 * the extension: if ours was renamed, somebody else can have made another one, with
 * tables on which code of theirs runs.
 */
Oid
idgen_tables_find_schema(void)
{
	Oid			schema = get_namespace_oid(IDGEN_TABLE_SCHEMA, true);
	Oid			extension = get_extension_oid("idgen", true);

	if (!OidIsValid(schema) || !OidIsValid(extension) ||
		getExtensionOfObject(NamespaceRelationId, schema) != extension)
		return InvalidOid;
	return schema;
}

/* What came of looking the tables up. */
typedef enum IdgenLookUp
{
	IDGEN_LOOK_UP_FOUND,
	IDGEN_LOOK_UP_NO_EXTENSION,
	IDGEN_LOOK_UP_NO_SCHEMA,	/* none that belongs to the extension */
	IDGEN_LOOK_UP_NO_TABLE		/* the schema has no table of this name */
} IdgenLookUp;

/* Look the tables up once.  *missing tells which table is missing. */
static IdgenLookUp
look_up(IdgenTable *missing)
{
	Oid			schema;

	found.function_schema = find_function_schema();
	if (!OidIsValid(found.function_schema))
		return IDGEN_LOOK_UP_NO_EXTENSION;
	schema = idgen_tables_find_schema();
	if (!OidIsValid(schema))
		return IDGEN_LOOK_UP_NO_SCHEMA;
	for (int i = 0; i < IDGEN_TABLE_COUNT; i++)
	{
		Oid			relid = get_relname_relid(idgen_table_columns[i].table_name, schema);

		if (!OidIsValid(relid))
		{
			*missing = i;
			return IDGEN_LOOK_UP_NO_TABLE;
		}
		remember_table(i, relid,
					   quote_qualified_identifier(IDGEN_TABLE_SCHEMA,
												  idgen_table_columns[i].table_name));
	}
	found.owner = relation_owner(found.relids[IDGEN_TABLE_WORKER]);
	return OidIsValid(found.owner) ? IDGEN_LOOK_UP_FOUND : IDGEN_LOOK_UP_NO_EXTENSION;
}

/*
 * Look the tables up until nothing has changed meanwhile.  A look-up may process
 * invalidations, and then what it had read before may be out of date: only a look-up
 * without invalidations is remembered.  If they never end, as on a server that
 * discards its caches all the time, the last look-up serves its caller, and the next
 * caller looks again.
 */
static IdgenLookUp
look_up_settled(IdgenTable *missing)
{
	IdgenLookUp result = IDGEN_LOOK_UP_FOUND;

	for (int tries = 0; tries < LOOK_UPS_MAX && !found.valid; tries++)
	{
		uint64		changes_before = changes;

		result = look_up(missing);
		found.valid = result == IDGEN_LOOK_UP_FOUND && changes == changes_before;
		if (changes == changes_before)
			break;
	}
	return result;
}

/*
 * Look the tables up; false if the extension is not installed.  Cheap when
 * nothing changed.  Raises an error if a table or their schema is missing.
 */
bool
idgen_tables_find(void)
{
	IdgenTable	missing;

	if (found.valid)
		return true;
	switch (look_up_settled(&missing))
	{
		case IDGEN_LOOK_UP_FOUND:
			return true;
		case IDGEN_LOOK_UP_NO_EXTENSION:
			return false;
		case IDGEN_LOOK_UP_NO_SCHEMA:
			ereport(ERROR,
					(errcode(ERRCODE_IDGEN_UNAVAILABLE),
					 errmsg("the tables of idgen are damaged"),
					 errdetail("Schema \"%s\" is missing or does not belong to extension \"idgen\".",
							   IDGEN_TABLE_SCHEMA),
					 errhint("If the schema was renamed or taken out of the extension, undo that.")));
			break;
		case IDGEN_LOOK_UP_NO_TABLE:
			ereport(ERROR,
					(errcode(ERRCODE_IDGEN_UNAVAILABLE),
					 errmsg("the tables of idgen are damaged"),
					 errdetail("Table \"%s\" is missing in schema \"%s\".",
							   idgen_table_columns[missing].table_name, IDGEN_TABLE_SCHEMA),
					 errhint("If the table was renamed or moved, undo that.")));
	}
	return false;
}

/* The qualified and quoted name of a table.  After idgen_tables_find. */
const char *
idgen_tables_qualified(IdgenTable table)
{
	return found.qualified[table];
}

/* A number that changes when the tables are found elsewhere than before. */
uint64
idgen_tables_location(void)
{
	return found.version;
}

/* The schema of the functions.  After idgen_tables_find. */
Oid
idgen_tables_function_schema(void)
{
	return found.function_schema;
}

/* The owner of the tables.  After idgen_tables_find. */
Oid
idgen_tables_owner(void)
{
	return found.owner;
}

/* The OID of a table.  After idgen_tables_find. */
Oid
idgen_tables_relid(IdgenTable table)
{
	return found.relids[table];
}

/*
 * Is a relation one of our tables?  Also answers while the tables are being dropped,
 * and if their schema was renamed or a table was taken out of the extension.  The name
 * is compared first, which costs other relations next to nothing.
 */
bool
idgen_tables_ours(Oid relid)
{
	char	   *name = get_rel_name(relid);

	for (int i = 0; i < IDGEN_TABLE_COUNT && name != NULL; i++)
		if (strcmp(name, idgen_table_columns[i].table_name) == 0)
		{
			Oid			extension = get_extension_oid("idgen", true);

			return OidIsValid(extension) &&
				(getExtensionOfObject(RelationRelationId, relid) == extension ||
				 get_rel_namespace(relid) == idgen_tables_find_schema());
		}
	return false;
}

/*
 * Tell every session, at commit, that a namespace changed.  This is sent as a relcache
 * invalidation of the two tables that sessions read, so it is transactional, and it
 * costs nothing while nothing changes.
 */
void
idgen_tables_announce(void)
{
	CacheInvalidateRelcacheByRelid(found.relids[IDGEN_TABLE_NAMESPACE]);
	CacheInvalidateRelcacheByRelid(found.relids[IDGEN_TABLE_AUTHORITY]);
}
