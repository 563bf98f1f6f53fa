/*
 * integrity.c
 *		Check that the authority's tables are as the install script made them.
 *
 * SQL on these tables runs with the rights of their owner, and IDs are unique only
 * as long as the guards protect the marks (S3).  So nothing is written to a table
 * that has anything attached which could run code of somebody else, or whose guards
 * do not fire always.  Reading runs no such code: it is refused only if a guard is
 * off, or if the table is another one than the script made.
 */
#include "compat.h"

#include "catalog/integrity.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "rewrite/prs2lock.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rls.h"
#include "utils/syscache.h"

#include "catalog/tables.h"

#define GUARDS_PER_TABLE 2

#define UNDO_HINT \
	"Undo the change to the table. If marks were lost, call idgen_fence_namespace() for every namespace."

/* What is wrong with a table, as sentences for an operator. */
typedef struct IdgenFinding
{
	IdgenDamage *damage;
	const char *table_name;
} IdgenFinding;

/*
 * Note what is wrong; "undo" is the one statement that sets it right, or NULL.
 * What was noted first stays if it is as bad.
 */
static void
note(const IdgenFinding *finding, IdgenIntegrity integrity, const char *detail,
	 const char *undo)
{
	IdgenDamage *damage = finding->damage;

	if (integrity <= damage->integrity)
		return;
	damage->integrity = integrity;
	idgen_error_copy(damage->detail, detail);
	idgen_error_copy(damage->hint, undo == NULL ? UNDO_HINT :
					 psprintf("Run this statement: %s.", undo));
}

/* The qualified name of a table, for statements. */
static const char *
qualified(const IdgenFinding *finding)
{
	return quote_qualified_identifier(IDGEN_TABLE_SCHEMA, finding->table_name);
}

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

/* What is needed of a trigger, copied from the relcache entry. */
typedef struct IdgenTriggerCopy
{
	char		name[NAMEDATALEN];
	Oid			function;
	Oid			constraint;
	char		enabled;
	int16		type;
	bool		internal;
	bool		limited;		/* by a condition or to some columns */
} IdgenTriggerCopy;

/*
 * Copy what is needed of the triggers.  That is done before anything is looked
 * up: a look-up may process invalidations, which rebuild the relcache entry and
 * free what it points to, whatever lock is held.
 */
static IdgenTriggerCopy *
copy_triggers(Relation relation, int *count)
{
	const TriggerDesc *triggers = relation->trigdesc;
	IdgenTriggerCopy *copies;

	*count = triggers == NULL ? 0 : triggers->numtriggers;
	copies = palloc0((*count + 1) * sizeof(IdgenTriggerCopy));
	for (int i = 0; i < *count; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		strlcpy(copies[i].name, trigger->tgname, NAMEDATALEN);
		copies[i].function = trigger->tgfoid;
		copies[i].constraint = trigger->tgconstraint;
		copies[i].enabled = trigger->tgenabled;
		copies[i].type = trigger->tgtype;
		copies[i].internal = trigger->tgisinternal;
		copies[i].limited = trigger->tgqual != NULL || trigger->tgnattr != 0;
	}
	return copies;
}

/* The two guards of each table, by name and by what they fire for. */
static const struct
{
	const char *name;
	int16		type;
}			guards[GUARDS_PER_TABLE] = {

	{
		"idgen_guard_row", TRIGGER_TYPE_ROW | TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_INSERT |
		TRIGGER_TYPE_UPDATE | TRIGGER_TYPE_DELETE
	},
	{
		"idgen_guard_truncate", TRIGGER_TYPE_BEFORE | TRIGGER_TYPE_TRUNCATE
	}
};

/* Which guard a trigger is; -1 if it is somebody else's. */
static int
guard_number(const IdgenTriggerCopy *trigger)
{
	for (int i = 0; i < GUARDS_PER_TABLE; i++)
		if (strcmp(trigger->name, guards[i].name) == 0)
			return i;
	return -1;
}

/*
 * Does a guard guard?  If all that is wrong is that it does not fire for sessions whose
 * session_replication_role is replica, as after DISABLE and ENABLE TRIGGER ALL, the
 * authority process mends it.
 */
static void
check_guard(const IdgenTriggerCopy *trigger, int number, const IdgenFinding *finding)
{
	bool		is_intact = trigger->type == guards[number].type && !trigger->limited &&
		is_guard(trigger->function);
	const char *undo;

	if (is_intact && trigger->enabled == TRIGGER_FIRES_ALWAYS)
		return;
	undo = psprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", qualified(finding),
					trigger->name);
	if (!is_intact)
		note(finding, IDGEN_INTEGRITY_DAMAGED,
			 psprintf("Guard \"%s\" of table \"%s\" is not as the extension made it.",
					  trigger->name, finding->table_name), NULL);
	else if (trigger->enabled == TRIGGER_FIRES_ON_ORIGIN)
		note(finding, IDGEN_INTEGRITY_MENDABLE,
			 psprintf("Guard \"%s\" of table \"%s\" is not ENABLE ALWAYS.",
					  trigger->name, finding->table_name), undo);
	else
		note(finding, IDGEN_INTEGRITY_DAMAGED,
			 psprintf("Guard \"%s\" of table \"%s\" is disabled.",
					  trigger->name, finding->table_name), undo);
}

/*
 * The statement that drops a constraint with a trigger of its own: a foreign key of
 * another table that refers to ours, or of ours.  NULL if it is gone.
 */
static const char *
drop_constraint(Oid constraint)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	Form_pg_constraint form;
	char	   *table_name;
	char	   *schema;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	form = (Form_pg_constraint) GETSTRUCT(tuple);
	name = pstrdup(NameStr(form->conname));
	table_name = get_rel_name(form->conrelid);
	schema = get_namespace_name(form->connamespace);
	ReleaseSysCache(tuple);
	if (table_name == NULL || schema == NULL)
		return NULL;
	return psprintf("ALTER TABLE %s DROP CONSTRAINT %s",
					quote_qualified_identifier(schema, table_name), quote_identifier(name));
}

/* A trigger of somebody else runs for our statements, as the owner of the table. */
static void
note_trigger(const IdgenTriggerCopy *trigger, const IdgenFinding *finding)
{
	const char *undo = trigger->internal ? drop_constraint(trigger->constraint) :
		psprintf("DROP TRIGGER %s ON %s", quote_identifier(trigger->name), qualified(finding));

	note(finding, IDGEN_INTEGRITY_ATTACHED,
		 trigger->internal ?
		 psprintf("Table \"%s\" is part of a foreign key, which would run code whenever idgen writes.",
				  finding->table_name) :
		 psprintf("Table \"%s\" has trigger \"%s\", whose code would run whenever idgen writes.",
				  finding->table_name, trigger->name), undo);
}

/* Are a table's triggers exactly its guards, and do they always fire? */
static void
check_triggers(Relation relation, const IdgenFinding *finding)
{
	int			count;
	IdgenTriggerCopy *triggers = copy_triggers(relation, &count);
	bool		found[GUARDS_PER_TABLE] = {false};

	for (int i = 0; i < count; i++)
	{
		int			number = guard_number(&triggers[i]);

		if (number < 0)
			note_trigger(&triggers[i], finding);
		else
		{
			found[number] = true;
			check_guard(&triggers[i], number, finding);
		}
	}
	for (int i = 0; i < GUARDS_PER_TABLE; i++)
		if (!found[i])
			note(finding, IDGEN_INTEGRITY_DAMAGED,
				 psprintf("Guard \"%s\" of table \"%s\" is missing.",
						  guards[i].name, finding->table_name), NULL);
	pfree(triggers);
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
 * Can an index run somebody else's function, or refuse a row?  Expressions, conditions
 * and operator classes can; an ordinary index on columns, with operator classes that
 * PostgreSQL came with, cannot.
 */
static bool
is_harmless_index(Oid index)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index));
	Form_pg_index form;
	oidvector  *classes;
	bool		harmless;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_index) GETSTRUCT(tuple);
	harmless = !form->indisunique && !form->indisexclusion &&
		heap_attisnull(tuple, Anum_pg_index_indexprs, NULL) &&
		heap_attisnull(tuple, Anum_pg_index_indpred, NULL);
	classes = (oidvector *) DatumGetPointer(SysCacheGetAttr(INDEXRELID, tuple,
															Anum_pg_index_indclass,
															&isnull));
	for (int i = 0; i < classes->dim1 && harmless; i++)
		harmless = classes->values[i] < FirstNormalObjectId;
	ReleaseSysCache(tuple);
	return harmless;
}

/*
 * Does a table have its primary key, and no index that could run somebody else's
 * function?  Copies of the primary key are allowed: REINDEX CONCURRENTLY makes them,
 * and leaves them behind when it fails.
 */
static void
check_indexes(Relation relation, const IdgenFinding *finding)
{
	List	   *indexes = RelationGetIndexList(relation);
	Oid			primary_key = idgen_primary_key_index(relation);
	ListCell   *cell;

	if (!OidIsValid(primary_key))
		note(finding, IDGEN_INTEGRITY_DAMAGED,
			 psprintf("Table \"%s\" does not have its primary key.", finding->table_name), NULL);
	foreach(cell, indexes)
	{
		Oid			index = lfirst_oid(cell);
		char	   *name;

		if ((OidIsValid(primary_key) && same_plain_index(index, primary_key)) ||
			is_harmless_index(index))
			continue;
		name = get_rel_name(index);
		if (name != NULL)
			note(finding, IDGEN_INTEGRITY_ATTACHED,
				 psprintf("Table \"%s\" has index \"%s\", which could run code or refuse rows whenever idgen writes.",
						  finding->table_name, name),
				 psprintf("DROP INDEX %s",
						  quote_qualified_identifier(IDGEN_TABLE_SCHEMA, name)));
	}
	list_free(indexes);
}

/* The name of any rule or check constraint of a table; NULL if there is none. */
static char *
name_of_any(Oid catalog_relid, Oid index, AttrNumber key_column, Oid relid,
			char *(*name_of) (HeapTuple tuple))
{
	Relation	catalog = table_open(catalog_relid, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	char	   *name = NULL;

	ScanKeyInit(&key, key_column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(catalog, index, true, NULL, 1, &key);
	while (name == NULL && (tuple = systable_getnext(scan)) != NULL)
		name = name_of(tuple);
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return name;
}

static char *
name_of_rule(HeapTuple tuple)
{
	return pstrdup(NameStr(((Form_pg_rewrite) GETSTRUCT(tuple))->rulename));
}

static char *
name_of_check(HeapTuple tuple)
{
	Form_pg_constraint form = (Form_pg_constraint) GETSTRUCT(tuple);

	return form->contype == CONSTRAINT_CHECK ? pstrdup(NameStr(form->conname)) : NULL;
}

/* Rules, row security and check constraints: they run code for our statements. */
static void
check_attached(Relation relation, const IdgenFinding *finding)
{
	Oid			relid = RelationGetRelid(relation);
	bool		has_rules = relation->rd_rules != NULL && relation->rd_rules->numLocks > 0;
	bool		has_checks = relation->rd_rel->relchecks != 0;
	char	   *name;

	if (has_rules &&
		(name = name_of_any(RewriteRelationId, RewriteRelRulenameIndexId,
							Anum_pg_rewrite_ev_class, relid, name_of_rule)) != NULL)
		note(finding, IDGEN_INTEGRITY_ATTACHED,
			 psprintf("Table \"%s\" has rule \"%s\".", finding->table_name, name),
			 psprintf("DROP RULE %s ON %s", quote_identifier(name), qualified(finding)));
	if (check_enable_rls(relid, idgen_tables_owner(), true) == RLS_ENABLED)
		note(finding, IDGEN_INTEGRITY_ATTACHED,
			 psprintf("Table \"%s\" has row security that applies to its owner, too.",
					  finding->table_name),
			 psprintf("ALTER TABLE %s NO FORCE ROW LEVEL SECURITY", qualified(finding)));
	if (has_checks &&
		(name = name_of_any(ConstraintRelationId, ConstraintRelidTypidNameIndexId,
							Anum_pg_constraint_conrelid, relid, name_of_check)) != NULL)
		note(finding, IDGEN_INTEGRITY_ATTACHED,
			 psprintf("Table \"%s\" has check constraint \"%s\".", finding->table_name, name),
			 psprintf("ALTER TABLE %s DROP CONSTRAINT %s", qualified(finding),
					  quote_identifier(name)));
}

/*
 * Is a table as the install script made it?  If not, *damage says what differs most,
 * and what sets it right.  The caller has the relation open.
 */
IdgenIntegrity
idgen_integrity_check(IdgenTable table, Relation relation, IdgenDamage *damage)
{
	const IdgenTableColumns *columns = &idgen_table_columns[table];
	IdgenFinding finding = {
		.damage = damage,
		.table_name = columns->table_name
	};
	MemoryContext context;
	MemoryContext old;

	damage->integrity = IDGEN_INTEGRITY_INTACT;
	context = AllocSetContextCreate(CurrentMemoryContext, "idgen integrity",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	if (relation->rd_rel->relkind != RELKIND_RELATION)
		note(&finding, IDGEN_INTEGRITY_DAMAGED,
			 psprintf("Table \"%s\" is not an ordinary table.", columns->table_name), NULL);
	else if (relation->rd_rel->relowner != idgen_tables_owner())
		note(&finding, IDGEN_INTEGRITY_DAMAGED,
			 psprintf("Table \"%s\" does not have the same owner as table \"idgen_worker\".",
					  columns->table_name), NULL);
	else if (relation->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		note(&finding, IDGEN_INTEGRITY_DAMAGED,
			 psprintf("Table \"%s\" is not logged.", columns->table_name),
			 psprintf("ALTER TABLE %s SET LOGGED", qualified(&finding)));
	else if (!columns_intact(columns, relation))
		note(&finding, IDGEN_INTEGRITY_DAMAGED,
			 psprintf("Table \"%s\" does not have exactly the columns that the extension gave it.",
					  columns->table_name), NULL);
	else
	{
		check_triggers(relation, &finding);
		check_attached(relation, &finding);
		check_indexes(relation, &finding);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return damage->integrity;
}

/* Does a guard of a table not fire for every session, but for most? */
bool
idgen_integrity_is_mendable(Relation relation)
{
	int			count;
	IdgenTriggerCopy *triggers = copy_triggers(relation, &count);
	bool		mendable = false;

	for (int i = 0; i < count; i++)
		mendable = mendable || (guard_number(&triggers[i]) >= 0 &&
								triggers[i].enabled == TRIGGER_FIRES_ON_ORIGIN);
	pfree(triggers);
	return mendable;
}

/*
 * Set the guards of a table right which do not fire for every session: ENABLE ALWAYS.
 * By the authority process, in a transaction that has locked the table as ALTER TABLE
 * does.
 */
void
idgen_integrity_mend(Relation relation)
{
	int			count;
	IdgenTriggerCopy *triggers = copy_triggers(relation, &count);

	for (int i = 0; i < count; i++)
		if (guard_number(&triggers[i]) >= 0 &&
			triggers[i].enabled == TRIGGER_FIRES_ON_ORIGIN)
			idgen_enable_trigger_always(relation, triggers[i].name);
	pfree(triggers);
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
		IDGEN_TABLE_NAMESPACE, IDGEN_TABLE_WORKER, IDGEN_TABLE_FLOOR,
		IDGEN_TABLE_AUTHORITY, IDGEN_TABLE_CHECKSUM
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
