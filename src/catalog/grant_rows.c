/*
 * grant_rows.c
 *		Write, read, merge and delete grants.
 *
 * The authority process calls this in its transactions.
 */
#include "compat.h"

#include "catalog/grant_rows.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "catalog/incarnation_rows.h"
#include "catalog/mark_rows.h"
#include "catalog/query.h"

static Datum
column_starts(IdgenGrantSet *set)
{
	IDGEN_GRANT_SET_FILL(set, row, Int64GetDatum(row->grant.start));
	return idgen_query_int8_array(set->datums, set->count);
}

static Datum
column_grant_ids(IdgenGrantSet *set)
{
	IDGEN_GRANT_SET_FILL(set, row, Int64GetDatum(row->grant_id));
	return idgen_query_int8_array(set->datums, set->count);
}

static Datum
column_requests(IdgenGrantSet *set)
{
	IDGEN_GRANT_SET_FILL(set, row, UUIDPGetDatum(row->request_id));
	for (int i = 0; i < set->count; i++)
		set->nulls[i] = set->rows[i]->request_id == NULL;
	return idgen_query_nullable_array(set->datums, set->nulls, set->count,
									  UUIDOID);
}

/* The length that a request asked for; null where it is the namespace's usual one. */
static Datum
column_asked(IdgenGrantSet *set)
{
	IDGEN_GRANT_SET_FILL(set, row, Int64GetDatum(row->asked_ms));
	for (int i = 0; i < set->count; i++)
		set->nulls[i] = set->rows[i]->asked_ms == 0;
	return idgen_query_nullable_array(set->datums, set->nulls, set->count,
									  INT8OID);
}

/*
 * Write grants, with the marks that they raise and new incarnations.  Writes all or
 * raises an error; after an error the caller forgets the marks in memory.  The rows
 * must be locked, and there is at most one grant for each worker.
 */
void
idgen_grant_rows_write(IdgenGrantRow *rows, int count, const pg_uuid_t *boot)
{
	IdgenGrantSet all;
	IdgenGrantSet fresh;
	Datum		values[8];

	if (count == 0)
		return;
	idgen_grant_set_begin(&all, count);
	idgen_grant_set_begin(&fresh, count);
	for (int i = 0; i < count; i++)
	{
		idgen_grant_set_add(&all, &rows[i]);
		if (rows[i].fresh)
			idgen_grant_set_add(&fresh, &rows[i]);
	}

	idgen_incarnation_rows_end_predecessors(&fresh);
	idgen_mark_rows_write(&all);
	idgen_incarnation_rows_write(&fresh, boot);

	values[0] = idgen_grant_set_names(&all);
	values[1] = idgen_grant_set_workers(&all);
	values[2] = column_starts(&all);
	values[3] = idgen_grant_set_ends(&all);
	values[4] = column_grant_ids(&all);
	values[5] = idgen_grant_set_incarnations(&all);
	values[6] = column_requests(&all);
	values[7] = column_asked(&all);
	idgen_query_expect(idgen_query_run(IDGEN_SQL_INSERT_GRANTS, values, NULL), count);
}

/* Read the last grant of a worker; false if it has none. */
bool
idgen_grant_rows_last(const char *name, int32 worker, IdgenLastGrant *last)
{
	Datum		values[2] = {CStringGetTextDatum(name), Int32GetDatum(worker)};
	bool		isnull;
	Datum		request;

	if (idgen_query_run(IDGEN_SQL_LAST_GRANT, values, NULL) == 0)
		return false;
	last->grant_id = DatumGetInt64(idgen_query_value(0, 1, &isnull));
	last->incarnation = DatumGetInt64(idgen_query_value(0, 2, &isnull));
	request = idgen_query_value(0, 3, &isnull);
	last->has_request = !isnull;
	if (last->has_request)
		last->request_id = *DatumGetUUIDP(request);
	last->grant.start = DatumGetInt64(idgen_query_value(0, 4, &isnull));
	last->grant.end = DatumGetInt64(idgen_query_value(0, 5, &isnull));
	last->asked_ms = DatumGetInt64(idgen_query_value(0, 6, &isnull));
	if (isnull)
		last->asked_ms = 0;
	return true;
}

/*
 * Did an incarnation get a grant for this request?  Only the last grants of its worker
 * are searched.
 */
bool
idgen_grant_rows_request_recorded(const char *name, int32 worker, int64 incarnation,
								  const pg_uuid_t *request_id, int64 last_grants)
{
	Datum		values[5] = {
		CStringGetTextDatum(name), Int32GetDatum(worker),
		Int64GetDatum(incarnation), UUIDPGetDatum(request_id),
		Int64GetDatum(last_grants)
	};
	bool		isnull;

	idgen_query_run(IDGEN_SQL_REQUEST_RECORDED, values, NULL);
	return DatumGetBool(idgen_query_value(0, 1, &isnull));
}

/*
 * Among the oldest 1,000 grants of a worker, delete those past the retention,
 * and merge adjacent grants of one incarnation that are settled: so old that
 * no request for them can be repeated.  "now" is the clock in ticks; grants
 * that have not ended by then stay as they are.  Marks are not touched.
 * Returns how many rows were deleted or merged.
 */
int
idgen_grant_rows_compact(const char *name, int32 worker, int64 now, int64 settled_s,
						 int64 retention_s)
{
	Datum		values[4] = {
		CStringGetTextDatum(name), Int32GetDatum(worker),
		Float8GetDatum((double) retention_s), Int64GetDatum(now)
	};
	uint64		touched = idgen_query_run(IDGEN_SQL_DELETE_GRANTS, values, NULL);

	values[2] = Float8GetDatum((double) Min(settled_s, retention_s));
	return (int) (touched + idgen_query_run(IDGEN_SQL_MERGE_GRANTS, values, NULL));
}
