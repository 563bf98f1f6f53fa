/*
 * grant_set.c
 *		Make columns, as arrays for queries, of grants that are written together.
 */
#include "compat.h"

#include "catalog/grant_set.h"

#include "utils/builtins.h"

#include "catalog/query.h"

/* An empty set, with room for so many grants. */
void
idgen_grant_set_begin(IdgenGrantSet *set, int count_max)
{
	set->count = 0;
	set->rows = palloc(Max(count_max, 1) * sizeof(IdgenGrantRow *));
	set->datums = palloc(Max(count_max, 1) * sizeof(Datum));
	set->nulls = palloc0(Max(count_max, 1) * sizeof(bool));
}

void
idgen_grant_set_add(IdgenGrantSet *set, IdgenGrantRow *row)
{
	set->rows[set->count++] = row;
}

/* The namespaces of the grants. */
Datum
idgen_grant_set_names(IdgenGrantSet *set)
{
	IDGEN_GRANT_SET_FILL(set, row, CStringGetTextDatum(row->namespace_name));
	return idgen_query_text_array(set->datums, set->count);
}

/* Their workers. */
Datum
idgen_grant_set_workers(IdgenGrantSet *set)
{
	IDGEN_GRANT_SET_FILL(set, row, Int32GetDatum(row->worker));
	return idgen_query_int4_array(set->datums, set->count);
}

/* Their ends, which become the marks. */
Datum
idgen_grant_set_ends(IdgenGrantSet *set)
{
	IDGEN_GRANT_SET_FILL(set, row, Int64GetDatum(row->grant.end));
	return idgen_query_int8_array(set->datums, set->count);
}

/* Their incarnations. */
Datum
idgen_grant_set_incarnations(IdgenGrantSet *set)
{
	IDGEN_GRANT_SET_FILL(set, row, Int64GetDatum(row->incarnation));
	return idgen_query_int8_array(set->datums, set->count);
}
