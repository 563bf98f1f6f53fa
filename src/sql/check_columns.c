/*
 * check_columns.c
 *		The SQL function that lists the columns that take IDs, and what is wrong with
 *		them.
 */
#include "compat.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "catalog/namespace_cache.h"
#include "catalog/query.h"
#include "catalog/scan.h"
#include "clock.h"
#include "settings.h"
#include "sql/consumer.h"
#include "sql/extent.h"

#define CHECK_COLUMNS 6

/* What does not depend on the namespace. */
static List *
check_definition(const IdgenConsumer *consumer, List *problems)
{
	ListCell   *cell;

	if (consumer->relkind == RELKIND_FOREIGN_TABLE)
		return lappend(problems, pstrdup("it belongs to a foreign table, whose server may have IDs of its own"));
	if (consumer->relkind == RELKIND_VIEW)
		return problems;
	if (consumer->type != INT8OID && consumer->type != JSONBOID)
		problems = lappend(problems, psprintf("its type is %s, not bigint", consumer->type_name));
	if (!consumer->unique_with_others)
		problems = lappend(problems, pstrdup("no unique constraint includes it"));
	if (!consumer->not_null)
		problems = lappend(problems, pstrdup("it accepts null"));
	foreach(cell, consumer->narrower)
	{
		problems = lappend(problems, psprintf("%s refers to it and is too small",
											  (char *) lfirst(cell)));
	}
	if (consumer->sequence_name != NULL)
		problems = lappend(problems, psprintf("it still owns sequence %s",
											  consumer->sequence_name));
	return problems;
}

/*
 * Was this ID never granted, and can it be?  An ID that lies further back than the
 * length of a fence cannot: no grant begins there.  It is a value of a sequence, say,
 * from which the column was moved in.
 */
static bool
may_come_again(const IdgenNamespace *ns, int64 tick, int64 worker)
{
	const IdgenLayout *layout = &ns->row.layout;
	int64		past = idgen_layout_ticks_ceil(layout, layout->horizon_ms + idgen_max_clock_error_ms);

	return ns->row.issuing && !ns->row.retired && !ns->row.handed_over &&
		tick >= idgen_layout_tick_at(layout, idgen_clock_wall_ms()) - past &&
		tick >= idgen_scan_mark(ns->name, (int32) worker, IDGEN_DEADLINE_UNSET);
}

/* What is wrong with an ID; NULL if nothing is. */
static char *
check_id(const IdgenNamespace *ns, int64 id)
{
	int64_t		tick;
	int64_t		worker;
	int64_t		sequence;

	if (id <= 0)
		return NULL;
	if (idgen_layout_decode(&ns->row.layout, id, &tick, &worker, &sequence) != IDGEN_FIT_OK)
		return psprintf(INT64_FORMAT " is not an ID of namespace \"%s\"", id, ns->name);
	if (may_come_again(ns, tick, worker))
		return psprintf("no grant covers ID " INT64_FORMAT ", which namespace \"%s\" will issue again",
						id, ns->name);
	return NULL;
}

/* One ID at each end is enough to say. */
static List *
check_extent(const IdgenNamespace *ns, const IdgenExtent *extent, List *problems)
{
	for (int i = 0; i < extent->count; i++)
	{
		char	   *problem = check_id(ns, extent->last[i]);

		if (problem != NULL)
		{
			problems = lappend(problems, problem);
			break;
		}
	}
	if (extent->count > 0 && extent->least <= 0)
		problems = lappend(problems, psprintf(INT64_FORMAT " lies before the epoch of namespace \"%s\"",
											  extent->least, ns->name));
	return problems;
}

static List *
check_namespace(const IdgenConsumer *consumer, const IdgenExtent *extent, List *problems)
{
	IdgenNamespace *ns = consumer->namespace_name == NULL ? NULL :
		idgen_namespace_find(consumer->namespace_name);

	if (consumer->namespace_name == NULL)
		return problems;
	if (ns == NULL)
		return lappend(problems, psprintf("namespace \"%s\" does not exist",
										  consumer->namespace_name));
	if (ns->row.retired)
		problems = lappend(problems, psprintf("namespace \"%s\" is retired", ns->name));
	else if (ns->row.handed_over)
		problems = lappend(problems, psprintf("namespace \"%s\" was handed over", ns->name));
	else if (!ns->row.issuing)
		problems = lappend(problems, psprintf("namespace \"%s\" is for decoding only", ns->name));
	problems = list_concat(problems,
						   idgen_consumer_barred(consumer, ns->name, consumer->function));
	return check_extent(ns, extent, problems);
}

static Datum
text_array(List *texts)
{
	Datum	   *datums = palloc(Max(list_length(texts), 1) * sizeof(Datum));
	int			count = 0;
	ListCell   *cell;

	foreach(cell, texts)
	{
		datums[count++] = CStringGetTextDatum((char *) lfirst(cell));
	}
	return idgen_query_text_array(datums, count);
}

static void
put_row(ReturnSetInfo *result, const IdgenConsumer *consumer)
{
	Datum		values[CHECK_COLUMNS];
	bool		nulls[CHECK_COLUMNS] = {false};
	IdgenExtent extent;
	List	   *problems;

	idgen_extent_read(consumer, &extent);
	problems = check_definition(consumer, NIL);
	problems = check_namespace(consumer, &extent, problems);
	if (extent.unknown != NULL && consumer->relkind != RELKIND_VIEW)
		problems = lappend(problems, psprintf("its greatest ID is not known: %s", extent.unknown));
	values[0] = CStringGetTextDatum(consumer->schema);
	values[1] = CStringGetTextDatum(consumer->table);
	values[2] = CStringGetTextDatum(consumer->column);
	nulls[3] = consumer->namespace_name == NULL;
	values[3] = nulls[3] ? (Datum) 0 : CStringGetTextDatum(consumer->namespace_name);
	nulls[4] = extent.count == 0;
	values[4] = Int64GetDatum(extent.last[0]);
	values[5] = text_array(problems);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* One row per column whose default issues. */
PG_FUNCTION_INFO_V1(idgen_check_columns);
Datum
idgen_check_columns(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	List	   *consumers;
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	idgen_query_connect();
	consumers = idgen_consumer_list();
	foreach(cell, consumers)
	{
		CHECK_FOR_INTERRUPTS();
		put_row(result, lfirst(cell));
	}
	idgen_query_end();
	return (Datum) 0;
}
