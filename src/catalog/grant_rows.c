/*
 * grant_rows.c
 *		Write grants and the marks that they raise; read, merge and delete
 *		grants.
 *
 * The authority process calls this in its transactions.  Marks are reached by
 * their place (ctid), so that dead versions kept by a long transaction cost
 * nothing.
 */
#include "compat.h"

#include "catalog/grant_rows.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "catalog/query.h"

/* Some of the grants to be written, from which arrays of columns are made. */
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

/* FILL_COLUMN(columns, row, value): set each datum to "value" of its "row". */
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
	return idgen_query_text_array(columns->datums, columns->count);
}

static Datum
column_workers(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, Int32GetDatum(row->worker));
	return idgen_query_int4_array(columns->datums, columns->count);
}

static Datum
column_starts(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, Int64GetDatum(row->grant.start));
	return idgen_query_int8_array(columns->datums, columns->count);
}

static Datum
column_ends(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, Int64GetDatum(row->grant.end));
	return idgen_query_int8_array(columns->datums, columns->count);
}

static Datum
column_incarnations(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, Int64GetDatum(row->incarnation));
	return idgen_query_int8_array(columns->datums, columns->count);
}

static Datum
column_grant_ids(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, Int64GetDatum(row->grant_id));
	return idgen_query_int8_array(columns->datums, columns->count);
}

static Datum
column_requests(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, UUIDPGetDatum(row->request_id));
	for (int i = 0; i < columns->count; i++)
		columns->nulls[i] = columns->rows[i]->request_id == NULL;
	return idgen_query_nullable_array(columns->datums, columns->nulls, columns->count,
									  UUIDOID);
}

/* The length that a request asked for; null where it is the namespace's usual one. */
static Datum
column_asked(IdgenColumns *columns)
{
	FILL_COLUMN(columns, row, Int64GetDatum(row->asked_ms));
	for (int i = 0; i < columns->count; i++)
		columns->nulls[i] = columns->rows[i]->asked_ms == 0;
	return idgen_query_nullable_array(columns->datums, columns->nulls, columns->count,
									  INT8OID);
}

/* What a grant adds to the sum of its namespace's marks. */
static int64
added_mark(const IdgenGrantRow *row)
{
	return row->external_added + (row->mark == NULL ? row->grant.end :
								  row->grant.end - row->mark->high_water);
}

/*
 * Raise the end of external grants of each namespace.  It rises with each external grant
 * that ends later than all before it, and never falls.
 */
static void
note_external_ends(IdgenColumns *all)
{
	for (int i = 0; i < all->count; i++)
	{
		IdgenGrantRow *row = all->rows[i];

		row->external_added = row->external ?
			Max(row->grant.end - row->marks->external_end, 0) : 0;
		row->marks->external_end += row->external_added;
	}
}

/*
 * Note the place of the marks just written.  The query returned namespace, worker and
 * ctid of each.
 */
static void
note_marks(IdgenColumns *columns)
{
	for (uint64 i = 0; i < idgen_query_rows(); i++)
	{
		bool		isnull;
		char	   *name = TextDatumGetCString(idgen_query_value(i, 1, &isnull));
		int32		worker = DatumGetInt32(idgen_query_value(i, 2, &isnull));
		ItemPointer tid = idgen_query_tid(idgen_query_value(i, 3, &isnull));

		for (int j = 0; j < columns->count; j++)
		{
			IdgenGrantRow *row = columns->rows[j];
			IdgenMark	mark;

			if (row->worker != worker || strcmp(row->namespace_name, name) != 0)
				continue;
			if (!row->fresh)
				mark = *row->mark;
			else
			{
				mark.external = row->holder != NULL;
				mark.active = true;
				strlcpy(mark.role, row->holder ? row->holder->role : "",
						NAMEDATALEN);
			}
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
	idgen_query_expect(idgen_query_run(IDGEN_SQL_INSERT_MARKS, values, NULL), first->count);
	note_marks(first);
}

static void
write_later_marks(IdgenColumns *later)
{
	Datum		values[6];

	if (later->count == 0)
		return;
	FILL_COLUMN(later, row, PointerGetDatum(&row->mark->tid));
	values[0] = idgen_query_tid_array(later->datums, later->count);
	values[1] = column_names(later);
	values[2] = column_workers(later);
	FILL_COLUMN(later, row, Int64GetDatum(row->mark->high_water));
	values[3] = idgen_query_int8_array(later->datums, later->count);
	values[4] = column_ends(later);
	values[5] = column_incarnations(later);
	idgen_query_expect(idgen_query_run(IDGEN_SQL_ADVANCE_MARKS, values, NULL), later->count);
	note_marks(later);
}

/* How many namespaces the rows belong to. */
static int
count_namespaces(const IdgenColumns *columns)
{
	int			count = 0;

	for (int i = 0; i < columns->count; i++)
	{
		bool		first = true;

		for (int j = 0; j < i && first; j++)
			first = columns->rows[j]->marks != columns->rows[i]->marks;
		count += first;
	}
	return count;
}

/* Note the place of the authority rows just written. */
static void
note_authorities(IdgenColumns *all)
{
	for (uint64 i = 0; i < idgen_query_rows(); i++)
	{
		bool		isnull;
		char	   *name = TextDatumGetCString(idgen_query_value(i, 1, &isnull));
		ItemPointer tid = idgen_query_tid(idgen_query_value(i, 3, &isnull));

		for (int j = 0; j < all->count; j++)
			if (strcmp(all->rows[j]->namespace_name, name) == 0)
				all->rows[j]->marks->authority_tid = *tid;
	}
}

/* Add to the sums that guard the marks, before the marks in memory change. */
static void
write_sums(IdgenColumns *all)
{
	Datum		values[4];

	FILL_COLUMN(all, row, PointerGetDatum(&row->marks->authority_tid));
	values[0] = idgen_query_tid_array(all->datums, all->count);
	FILL_COLUMN(all, row, Int64GetDatum(row->mark == NULL ? 1 : 0));
	values[1] = idgen_query_int8_array(all->datums, all->count);
	FILL_COLUMN(all, row, Int64GetDatum(added_mark(row)));
	values[2] = idgen_query_int8_array(all->datums, all->count);
	FILL_COLUMN(all, row, Int64GetDatum(Max(row->now, 0)));
	values[3] = idgen_query_int8_array(all->datums, all->count);
	if (idgen_query_run(IDGEN_SQL_ADD_TO_SUMS, values, NULL) == 0)
		idgen_query_expect(0, 1);
	note_authorities(all);
}

/* Write the ends of external grants; most rounds raise none. */
static void
write_external_ends(IdgenColumns *all)
{
	IdgenColumns raising;
	Datum		values[2];

	columns_begin(&raising, all->count);
	for (int i = 0; i < all->count; i++)
		if (all->rows[i]->external_added > 0)
			raising.rows[raising.count++] = all->rows[i];
	if (raising.count == 0)
		return;
	FILL_COLUMN(&raising, row, PointerGetDatum(&row->marks->floor_tid));
	values[0] = idgen_query_tid_array(raising.datums, raising.count);
	FILL_COLUMN(&raising, row, Int64GetDatum(row->external_added));
	values[1] = idgen_query_int8_array(raising.datums, raising.count);
	idgen_query_expect(idgen_query_run(IDGEN_SQL_RAISE_EXTERNAL_ENDS, values, NULL),
					   count_namespaces(&raising));
	for (uint64 i = 0; i < idgen_query_rows(); i++)
	{
		bool		isnull;
		char	   *name = TextDatumGetCString(idgen_query_value(i, 1, &isnull));
		ItemPointer tid = idgen_query_tid(idgen_query_value(i, 3, &isnull));

		for (int j = 0; j < raising.count; j++)
			if (strcmp(raising.rows[j]->namespace_name, name) == 0)
				raising.rows[j]->marks->floor_tid = *tid;
	}
}

static void
write_incarnations(IdgenColumns *fresh, const pg_uuid_t *boot)
{
	Datum		values[9];

	if (fresh->count == 0)
		return;
	values[0] = column_incarnations(fresh);
	values[1] = column_names(fresh);
	values[2] = column_workers(fresh);
	for (int i = 0; i < fresh->count; i++)
		fresh->nulls[i] = fresh->rows[i]->holder == NULL;
	FILL_COLUMN(fresh, row,
				CStringGetTextDatum(row->holder ? row->holder->role : ""));
	values[3] = idgen_query_nullable_array(fresh->datums, fresh->nulls, fresh->count, TEXTOID);
	FILL_COLUMN(fresh, row,
				CStringGetTextDatum(row->holder ? row->holder->request->address : ""));
	values[4] = idgen_query_nullable_array(fresh->datums, fresh->nulls, fresh->count, TEXTOID);
	FILL_COLUMN(fresh, row,
				CStringGetTextDatum(row->holder ?
									row->holder->request->application : ""));
	values[5] = idgen_query_nullable_array(fresh->datums, fresh->nulls, fresh->count, TEXTOID);
	FILL_COLUMN(fresh, row,
				row->holder ? idgen_query_bytes(row->holder->request->token_hash,
												IDGEN_TOKEN_HASH_SIZE) : (Datum) 0);
	values[6] = idgen_query_nullable_array(fresh->datums, fresh->nulls, fresh->count, BYTEAOID);
	values[7] = UUIDPGetDatum(boot);
	for (int i = 0; i < fresh->count; i++)
		fresh->nulls[i] = fresh->rows[i]->holder != NULL;
	FILL_COLUMN(fresh, row, Int64GetDatum(row->run_ahead_ms));
	values[8] = idgen_query_nullable_array(fresh->datums, fresh->nulls, fresh->count, INT8OID);
	idgen_query_expect(idgen_query_run(IDGEN_SQL_INSERT_INCARNATIONS, values, NULL), fresh->count);
}

/* End the incarnations that had the workers of fresh incarnations before. */
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
	values[0] = idgen_query_int8_array(fresh->datums, count);
	idgen_query_run(IDGEN_SQL_END_INCARNATIONS, values, NULL);
}

/*
 * Write grants: the sums that guard the marks (S3), the ends of external grants, the
 * marks, on the condition that they are what they were (S2), new incarnations, and the
 * grants themselves.  Writes all or raises an error; after an error the caller forgets
 * the marks in memory.  The rows must be locked, and there is at most one grant for
 * each worker.
 */
void
idgen_grant_rows_write(IdgenGrantRow *rows, int count, const pg_uuid_t *boot)
{
	IdgenColumns all;
	IdgenColumns first;
	IdgenColumns later;
	IdgenColumns fresh;
	Datum		grants[8];

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

	note_external_ends(&all);
	write_sums(&all);
	write_external_ends(&all);
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
	grants[7] = column_asked(&all);
	idgen_query_expect(idgen_query_run(IDGEN_SQL_INSERT_GRANTS, grants, NULL), count);
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
