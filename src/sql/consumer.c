/*
 * consumer.c
 *		Columns of other tables that take IDs, or are to take them.
 *
 * PostgreSQL's catalogs tell what a column is, as the current user.
 */
#include "compat.h"

#include "sql/consumer.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_func.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "catalog/namespace_cache.h"
#include "catalog/query.h"
#include "catalog/scan.h"
#include "catalog/tables.h"

/* --- the catalogs */

/* Columns of the query, in order, from 1. */
enum
{
	RELID = 1, ATTNUM, SCHEMA, TABLE, COLUMN, RELKIND, OWNED, PARTITION, INHERITS, TYPE,
	TYPE_NAME, DOMAIN, NOT_NULL, IDENTITY, GENERATED, REFERS, UNIQUE, UNIQUE_WITH_OTHERS,
	SEQUENCE, SEQUENCE_NAME, NARROWER, WRITERS, EXPRESSION
};

/*
 * One column if $2 is a table and $3 a name; else every column whose default, or whose
 * domain's default, depends on one of the functions of $1.
 */
static const char *const consumers_sql =
"WITH issuing AS ("
" SELECT d.adrelid AS relid, d.adnum AS attnum FROM pg_depend p"
"  JOIN pg_attrdef d ON d.oid = p.objid"
"  WHERE p.refclassid = 'pg_proc'::regclass AND p.refobjid = ANY ($1)"
"  AND p.classid = 'pg_attrdef'::regclass"
" UNION SELECT c.objid, c.objsubid::int2 FROM pg_depend p"
"  JOIN pg_depend c ON c.refclassid = 'pg_type'::regclass AND c.refobjid = p.objid"
"   AND c.classid = 'pg_class'::regclass AND c.objsubid > 0"
"  JOIN pg_attribute a ON a.attrelid = c.objid AND a.attnum = c.objsubid AND NOT a.atthasdef"
"  WHERE p.refclassid = 'pg_proc'::regclass AND p.refobjid = ANY ($1)"
"  AND p.classid = 'pg_type'::regclass)"
" SELECT c.oid, a.attnum, n.nspname::text, c.relname::text, a.attname::text, c.relkind,"
"  pg_has_role(c.relowner, 'USAGE'), c.relispartition,"
"  EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = c.oid OR h.inhparent = c.oid),"
"  a.atttypid, format_type(a.atttypid, a.atttypmod), t.typtype = 'd', a.attnotnull,"
"  a.attidentity <> '', a.attgenerated <> '',"
"  EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'f'"
"   AND a.attnum = ANY (k.conkey)),"
"  EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid"
"   AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum),"
"  EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid"
"   AND i.indpred IS NULL AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])),"
"  s.oid, s.oid::regclass::text,"
"  ARRAY(SELECT format('column %s.%I of type %s', k.conrelid::regclass, r.attname,"
"    format_type(r.atttypid, r.atttypmod))"
"   FROM pg_constraint k, unnest(k.conkey, k.confkey) AS u (here, there)"
"   JOIN pg_attribute r ON r.attnum = u.here JOIN pg_type y ON y.oid = r.atttypid"
"   WHERE k.confrelid = c.oid AND k.contype = 'f' AND k.conparentid = 0"
"   AND u.there = a.attnum AND r.attrelid = k.conrelid"
"   AND (CASE WHEN y.typtype = 'd' THEN y.typbasetype ELSE y.oid END)"
"    IN ('int2'::regtype, 'int4'::regtype) ORDER BY 1),"
"  ARRAY(SELECT DISTINCT x.grantee FROM ("
"    SELECT (aclexplode(coalesce(c.relacl, acldefault('r', c.relowner)))).*"
"    UNION ALL SELECT (aclexplode(o.attacl)).* FROM pg_attribute o WHERE o.attrelid = c.oid"
"     AND o.attacl IS NOT NULL AND NOT o.attisdropped) x"
"   WHERE x.privilege_type = 'INSERT' ORDER BY 1),"
"  coalesce(d.adbin, t.typdefaultbin)::text"
" FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
"  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
"  JOIN pg_type t ON t.oid = a.atttypid"
"  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum"
"  LEFT JOIN LATERAL (SELECT q.oid FROM pg_depend e JOIN pg_class q ON q.oid = e.objid"
"    AND q.relkind = 'S' WHERE e.classid = 'pg_class'::regclass"
"    AND e.refclassid = 'pg_class'::regclass AND e.refobjid = c.oid"
"    AND e.refobjsubid = a.attnum AND e.deptype IN ('a', 'i')"
"    ORDER BY q.oid LIMIT 1) s ON true"
" WHERE CASE WHEN $2 <> 0 THEN c.oid = $2 AND a.attname = $3"
"  ELSE c.relkind IN ('r', 'p', 'f', 'v') AND (c.oid, a.attnum) IN (TABLE issuing) END"
" ORDER BY n.nspname, c.relname, a.attnum";

/* A function of ours whose only argument is a namespace; InvalidOid if there is none. */
Oid
idgen_consumer_function(const char *name)
{
	Oid			types[1] = {TEXTOID};
	char	   *schema;

	if (!idgen_tables_find())
		return InvalidOid;
	schema = get_namespace_name(idgen_tables_function_schema());
	if (schema == NULL)
		return InvalidOid;
	return LookupFuncName(list_make2(makeString(schema), makeString(pstrdup(name))),
						  1, types, true);
}

static char *
text_at(uint64 row, int column)
{
	bool		isnull;
	Datum		value = idgen_query_value(row, column, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

static bool
bool_at(uint64 row, int column)
{
	bool		isnull;
	Datum		value = idgen_query_value(row, column, &isnull);

	return !isnull && DatumGetBool(value);
}

static Oid
oid_at(uint64 row, int column)
{
	bool		isnull;
	Datum		value = idgen_query_value(row, column, &isnull);

	return isnull ? InvalidOid : DatumGetObjectId(value);
}

/* The elements of an array of texts or OIDs; returns their number. */
static int
elements_at(uint64 row, int column, Oid type, Datum **elements)
{
	bool		isnull;
	int			count;

	deconstruct_array(DatumGetArrayTypeP(idgen_query_value(row, column, &isnull)),
					  type, type == TEXTOID ? -1 : (int) sizeof(Oid), type != TEXTOID,
					  TYPALIGN_INT, elements, NULL, &count);
	return count;
}

static List *
texts_at(uint64 row, int column)
{
	Datum	   *datums;
	int			count = elements_at(row, column, TEXTOID, &datums);
	List	   *texts = NIL;

	for (int i = 0; i < count; i++)
		texts = lappend(texts, TextDatumGetCString(datums[i]));
	return texts;
}

static List *
oids_at(uint64 row, int column)
{
	Datum	   *datums;
	int			count = elements_at(row, column, OIDOID, &datums);
	List	   *oids = NIL;

	for (int i = 0; i < count; i++)
		oids = lappend_oid(oids, DatumGetObjectId(datums[i]));
	return oids;
}

/* --- defaults */

/* A call of one of our functions in an expression. */
typedef struct IdgenCall
{
	Oid			functions[2];
	FuncExpr   *found;
} IdgenCall;

static bool
find_call(Node *node, void *context)
{
	IdgenCall  *call = context;

	if (node == NULL)
		return false;
	if (IsA(node, FuncExpr) && OidIsValid(castNode(FuncExpr, node)->funcid) &&
		(castNode(FuncExpr, node)->funcid == call->functions[0] ||
		 castNode(FuncExpr, node)->funcid == call->functions[1]))
	{
		call->found = castNode(FuncExpr, node);
		return true;
	}
	return expression_tree_walker(node, find_call, context);
}

/* Without an argument it is "default". */
static char *
namespace_of_call(FuncExpr *call)
{
	Const	   *name;

	if (call->args == NIL)
		return pstrdup("default");
	if (!IsA(linitial(call->args), Const))
		return NULL;
	name = castNode(Const, linitial(call->args));
	return name->constisnull ? NULL : TextDatumGetCString(name->constvalue);
}

/* Is an expression nextval() of a sequence, given by its OID? */
static bool
is_nextval(Node *expression, Oid sequence)
{
	FuncExpr   *call;

	if (!OidIsValid(sequence) || !IsA(expression, FuncExpr))
		return false;
	call = castNode(FuncExpr, expression);
	return call->funcid == F_NEXTVAL && IsA(linitial(call->args), Const) &&
		DatumGetObjectId(castNode(Const, linitial(call->args))->constvalue) == sequence;
}

static void
read_default(IdgenConsumer *consumer, const char *source, IdgenCall *call)
{
	Node	   *expression;

	consumer->default_kind = IDGEN_DEFAULT_NONE;
	if (source == NULL)
		return;
	expression = stringToNode(source);
	call->found = NULL;
	(void) find_call(expression, call);
	if (call->found != NULL)
	{
		consumer->default_kind = IDGEN_DEFAULT_ISSUES;
		consumer->function = call->found->funcid;
		consumer->namespace_name = namespace_of_call(call->found);
	}
	else
		consumer->default_kind = is_nextval(expression, consumer->sequence) ?
			IDGEN_DEFAULT_OWN_SEQUENCE : IDGEN_DEFAULT_OTHER;
}

static IdgenConsumer *
read_consumer(uint64 row, IdgenCall *call)
{
	IdgenConsumer *consumer = palloc0(sizeof(IdgenConsumer));
	bool		isnull;

	consumer->relid = oid_at(row, RELID);
	consumer->attnum = DatumGetInt16(idgen_query_value(row, ATTNUM, &isnull));
	consumer->schema = text_at(row, SCHEMA);
	consumer->table = text_at(row, TABLE);
	consumer->column = text_at(row, COLUMN);
	consumer->relkind = DatumGetChar(idgen_query_value(row, RELKIND, &isnull));
	consumer->owned = bool_at(row, OWNED);
	consumer->partition = bool_at(row, PARTITION);
	consumer->inherits = bool_at(row, INHERITS);
	consumer->type = getBaseType(oid_at(row, TYPE));
	consumer->type_name = text_at(row, TYPE_NAME);
	consumer->domain = bool_at(row, DOMAIN);
	consumer->not_null = bool_at(row, NOT_NULL);
	consumer->identity = bool_at(row, IDENTITY);
	consumer->generated = bool_at(row, GENERATED);
	consumer->refers = bool_at(row, REFERS);
	consumer->unique = bool_at(row, UNIQUE);
	consumer->unique_with_others = bool_at(row, UNIQUE_WITH_OTHERS);
	consumer->sequence = oid_at(row, SEQUENCE);
	consumer->sequence_name = text_at(row, SEQUENCE_NAME);
	consumer->narrower = texts_at(row, NARROWER);
	consumer->writers = oids_at(row, WRITERS);
	read_default(consumer, text_at(row, EXPRESSION), call);
	return consumer;
}

/* Read one column, or all that issue.  Needs idgen_query_connect(). */
static List *
read_consumers(Oid relid, const char *column)
{
	IdgenCall	call = {
		.functions = {idgen_consumer_function("idgen_next"), idgen_consumer_function("idgen_next_json")}
	};
	Datum		functions[2] = {
		ObjectIdGetDatum(call.functions[0]), ObjectIdGetDatum(call.functions[1])
	};
	Oid			types[3] = {OIDARRAYOID, OIDOID, NAMEOID};
	Datum		values[3];
	NameData	name;
	uint64		count;
	List	   *consumers = NIL;

	namestrcpy(&name, column);
	values[0] = PointerGetDatum(construct_array(functions, 2, OIDOID, sizeof(Oid),
												true, TYPALIGN_INT));
	values[1] = ObjectIdGetDatum(relid);
	values[2] = NameGetDatum(&name);
	count = idgen_query_catalogs(consumers_sql, 3, types, values);
	for (uint64 row = 0; row < count; row++)
		consumers = lappend(consumers, read_consumer(row, &call));
	return consumers;
}

/* Every column whose default issues, by table; a list of IdgenConsumer. */
List *
idgen_consumer_list(void)
{
	return read_consumers(InvalidOid, "");
}

/* One column, whatever its default does; NULL if there is none. */
IdgenConsumer *
idgen_consumer_find(Oid relid, const char *column)
{
	List	   *consumers = read_consumers(relid, column);

	return consumers == NIL ? NULL : linitial(consumers);
}

/* --- writers */

static bool
may_issue(const IdgenNamespace *ns, Oid role)
{
	return !ns->row.restricted || (OidIsValid(role) && idgen_namespace_owned(ns, role)) ||
		idgen_scan_privileged(ns->name, IDGEN_PRIVILEGE_ISSUE, role, IDGEN_DEADLINE_UNSET);
}

/*
 * Who may insert into the table of a column, but cannot issue for it: a list of
 * sentences.
 */
List *
idgen_consumer_barred(const IdgenConsumer *consumer, const char *namespace_name,
					  Oid function)
{
	IdgenNamespace *ns = idgen_namespace_find(namespace_name);
	List	   *barred = NIL;
	ListCell   *cell;

	foreach(cell, consumer->writers)
	{
		Oid			role = lfirst_oid(cell);
		char	   *name = OidIsValid(role) ? GetUserNameFromId(role, true) : NULL;
		char	   *who = OidIsValid(role) ? psprintf("role \"%s\"", name ? name : "") :
			pstrdup("PUBLIC");

		if (ns != NULL && !may_issue(ns, role))
			barred = lappend(barred, psprintf("%s may insert, but not issue from namespace \"%s\"",
											  who, namespace_name));
		else if (!idgen_may_execute(role, function))
			barred = lappend(barred, psprintf("%s may insert, but not execute %s()", who,
											  get_func_name(function)));
	}
	return barred;
}
