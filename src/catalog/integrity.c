/*
 * integrity.c
 *		Check that the authority's tables are as the install script made them.
 *
 * SQL on these tables runs with the rights of their owner, and IDs are unique only
 * as long as the guards protect the marks (S3).  So a table with anything attached
 * that could run code of somebody else, or without a guard, is not used.
 */
#include "compat.h"

#include "catalog/integrity.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "rewrite/prs2lock.h"
#include "utils/fmgroids.h"
#include "utils/syscache.h"

#include "catalog/tables.h"

#define GUARDS_PER_TABLE 2

/* Is this function our guard, still written in C? */
static bool
is_guard(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		result;

	if (!HeapTupleIsValid(tuple))
		return false;
	result = ((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId &&
		((Form_pg_proc) GETSTRUCT(tuple))->pronamespace == idgen_tables_function_schema() &&
		strcmp(NameStr(((Form_pg_proc) GETSTRUCT(tuple))->proname),
			   "idgen_guard") == 0;
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Are a table's triggers exactly its guards, and do they always fire, without
 * a condition and for all columns?  What is needed of the relcache entry is
 * read before anything is looked up: a look-up may process invalidations,
 * which rebuild the entry and free what it points to, whatever lock is held.
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

	/* "triggers" must not be used from here on */
	for (int i = 0; i < GUARDS_PER_TABLE; i++)
		if (!is_guard(functions[i]))
			return false;
	return true;
}

/* Does a table have the columns that the script gave it, and no others? */
static bool
columns_intact(const IdgenTableColumns *columns, Relation relation)
{
	TupleDesc	desc = RelationGetDescr(relation);

	if (desc->natts < columns->count)
		return false;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		/*
		 * a column that was added and dropped again has left its number
		 * behind
		 */
		if (attribute->attisdropped != (i >= columns->count))
			return false;
		if (!attribute->attisdropped &&
			(attribute->atttypid != columns->types[i] ||
			 attribute->attgenerated != '\0'))
			return false;
	}
	return true;
}

/* Can the columns of a table be read as the script made them, whatever was added? */
bool
idgen_integrity_has_columns(IdgenTable table, Relation relation)
{
	const IdgenTableColumns *columns = &idgen_table_columns[table];
	TupleDesc	desc = RelationGetDescr(relation);

	for (int i = 0; i < columns->count; i++)
		if (i >= desc->natts || TupleDescAttr(desc, i)->attisdropped ||
			TupleDescAttr(desc, i)->atttypid != columns->types[i])
			return false;
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
 * Does a table have its primary key, and no index that could run somebody else's
 * function?  Copies of the primary key are allowed: REINDEX CONCURRENTLY makes them,
 * and leaves them behind when it fails.
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
idgen_integrity_check(IdgenTable table, Relation relation, char *why, Size why_size)
{
	const IdgenTableColumns *columns = &idgen_table_columns[table];
	const char *what = NULL;

	if (relation->rd_rel->relkind != RELKIND_RELATION)
		what = "is not an ordinary table";
	else if (relation->rd_rel->relowner != idgen_tables_owner())
		what = "does not have the same owner as table \"idgen_worker\"";
	else if (relation->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		what = "is not logged";
	else if (!columns_intact(columns, relation))
		what = "does not have exactly the columns that the extension gave it";
	else if (!guards_intact(relation))
		what = "has triggers other than its guards, or a guard that is not ENABLE ALWAYS";
	else if (relation->rd_rules != NULL && relation->rd_rules->numLocks > 0)
		what = "has rules";
	else if (relation->rd_rel->relrowsecurity ||
			 relation->rd_rel->relforcerowsecurity)
		what = "has row security";
	else if (relation->rd_rel->relchecks != 0)
		what = "has check constraints";
	else if (!indexes_intact(relation))
		what = "has indexes other than its primary key";

	if (what != NULL)
		snprintf(why, why_size, "Table \"%s\" %s.", columns->table_name, what);
	return what == NULL;
}

/* Mix a number into a hash. */
static uint64
mix(uint64 hash, uint64 number)
{
	return hash_bytes_extended((const unsigned char *) &number, sizeof(number),
							   hash);
}

/*
 * A number that changes when somebody may have bypassed the guards of the
 * marks: when the file or the catalog row of a table with marks, or one of its
 * guards, differs from before.  VACUUM without FULL does not change it.
 */
uint64
idgen_integrity_fingerprint(void)
{
	static const IdgenTable guarded[] = {
		IDGEN_TABLE_WORKER, IDGEN_TABLE_FLOOR, IDGEN_TABLE_AUTHORITY
	};
	Relation	catalog = table_open(TriggerRelationId, AccessShareLock);
	uint64		hash = 0;

	for (size_t i = 0; i < lengthof(guarded); i++)
	{
		Oid			relid = idgen_tables_relid(guarded[i]);
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
