/*
 * grant_rows.c
 *		Read and write marks, grants and incarnations.
 *
 * All of it in transactions of the authority worker.  Marks are reached by their
 * place (ctid), so that dead versions kept by a long transaction cost nothing.
 */
#include "compat.h"

#include "catalog/grant_rows.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "catalog/namespace_rows.h"
#include "catalog/query.h"

/*
 * Read the marks of a namespace, after seeing that they add up to what the
 * authority has written (S3).
 */
IdgenLoadResult
idgen_grant_rows_load_marks(const char *name, IdgenMarks *marks)
{
	IdgenFloorRow floor;
	bool		isnull;

	marks->loaded = false;
	if (idgen_query_run_for(IDGEN_SQL_FIND_AUTHORITY, name) == 0)
		return IDGEN_LOAD_NO_IDENTITY;
	marks->authority_tid = *idgen_query_tid(idgen_query_value(0, 1, &isnull));
	if (idgen_query_run_for(IDGEN_SQL_SUMS_HOLD, name) == 0 ||
		!DatumGetBool(idgen_query_value(0, 1, &isnull)))
		return IDGEN_LOAD_DAMAGED;
	(void) idgen_namespace_rows_floor(name, &floor);
	marks->floor = floor.floor;
	marks->external_end = floor.external_end;
	marks->floor_tid = floor.tid;

	marks->count = 0;
	for (uint64 i = 0, n = idgen_query_run_for(IDGEN_SQL_READ_MARKS, name); i < n; i++)
	{
		IdgenMark	mark;

		mark.worker = DatumGetInt32(idgen_query_value(i, 1, &isnull));
		mark.high_water = DatumGetInt64(idgen_query_value(i, 2, &isnull));
		mark.incarnation = DatumGetInt64(idgen_query_value(i, 3, &isnull));
		if (isnull)
			mark.incarnation = 0;
		mark.tid = *idgen_query_tid(idgen_query_value(i, 4, &isnull));
		mark.external = DatumGetBool(idgen_query_value(i, 5, &isnull)) && !isnull;
		mark.active = DatumGetBool(idgen_query_value(i, 7, &isnull)) && !isnull;
		mark.role[0] = '\0';
		if (mark.external)
			strlcpy(mark.role,
					TextDatumGetCString(idgen_query_value(i, 6, &isnull)),
					NAMEDATALEN);
		idgen_marks_add(marks, &mark);
	}
	marks->loaded = true;
	return IDGEN_LOAD_OK;
}

/* --- locking rows */

/*
 * Lock the row versions at "tids", as far as nobody else has locked them and
 * they are still the latest.  Returns which are locked.
 */
static bool *
lock_rows(IdgenQuery statement, const ItemPointerData *tids, int count)
{
	Datum	   *datums = palloc(Max(count, 1) * sizeof(Datum));
	bool	   *locked = palloc0(Max(count, 1) * sizeof(bool));
	Datum		values[1];
	uint64		found_count;

	for (int i = 0; i < count; i++)
		datums[i] = PointerGetDatum(&tids[i]);
	values[0] = idgen_query_tid_array(datums, count);
	found_count = count == 0 ? 0 : idgen_query_run(statement, values, NULL);
	for (uint64 i = 0; i < found_count; i++)
	{
		bool		isnull;
		ItemPointer tid =
			idgen_query_tid(idgen_query_value(i, 1, &isnull));

		for (int j = 0; j < count; j++)
			if (ItemPointerEquals(tid, unconstify(ItemPointerData *, &tids[j])))
				locked[j] = true;
	}
	return locked;
}

/* Lock the authority rows of namespaces; returns which could be. */
bool *
idgen_grant_rows_lock_authorities(IdgenMarks *const *marks, int count)
{
	ItemPointerData *tids = palloc(Max(count, 1) * sizeof(ItemPointerData));

	for (int i = 0; i < count; i++)
		tids[i] = marks[i]->authority_tid;
	return lock_rows(IDGEN_SQL_LOCK_AUTHORITIES, tids, count);
}

/* Lock the floor rows of namespaces; returns which could be. */
bool *
idgen_grant_rows_lock_floors(IdgenMarks *const *marks, int count)
{
	ItemPointerData *tids = palloc(Max(count, 1) * sizeof(ItemPointerData));

	for (int i = 0; i < count; i++)
		tids[i] = marks[i]->floor_tid;
	return lock_rows(IDGEN_SQL_LOCK_FLOORS, tids, count);
}

/* Lock rows of idgen_worker; returns which could be. */
bool *
idgen_grant_rows_lock_marks(const ItemPointerData *tids, int count)
{
	return lock_rows(IDGEN_SQL_LOCK_MARKS, tids, count);
}

/* --- writing grants */

/* A selection of grant rows, by column. */
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

/* FILL_COLUMN(columns, row, value): the i-th datum is value, with row the i-th. */
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

/* The length asked for in a request; null where it is the namespace's usual one. */
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
 * What external generators are promised of a namespace rises with each grant that
 * ends later than all before it, and never falls.
 */
static void
note_promises(IdgenColumns *all)
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
 * Note where the marks just written are now.  The statement returned
 * namespace, worker and ctid of each.
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

/* How many namespaces some rows are of. */
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

/* Note where the authority rows just written are now. */
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

/* Add to the sums that guard the marks; before the marks in memory move. */
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

/* Raise what external generators are promised; most rounds raise nothing. */
static void
write_promises(IdgenColumns *all)
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

/* Whoever held the workers of fresh incarnations before holds them no more. */
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
 * Write grants: the sums that guard the marks (S3), what external generators are
 * promised, the marks, conditional on what they were (S2), new incarnations, and
 * the grants.  All or, by error,
 * none; after an error the caller forgets the marks in memory.  The rows must
 * be locked, and at most one per worker.
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

	note_promises(&all);
	write_sums(&all);
	write_promises(&all);
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

/* --- incarnations and their chains */

/* Read a row of idgen_incarnation; false if there is none. */
bool
idgen_grant_rows_read_incarnation(int64 incarnation, IdgenIncarnationRow *row)
{
	Datum		values[1] = {Int64GetDatum(incarnation)};
	bool		isnull;
	Datum		hash;

	memset(row, 0, sizeof(*row));
	if (idgen_query_run(IDGEN_SQL_READ_INCARNATION, values, NULL) == 0)
		return false;
	strlcpy(row->namespace_name, TextDatumGetCString(idgen_query_value(0, 1, &isnull)),
			NAMEDATALEN);
	row->worker = DatumGetInt32(idgen_query_value(0, 2, &isnull));
	row->external = DatumGetBool(idgen_query_value(0, 3, &isnull));
	strlcpy(row->role, TextDatumGetCString(idgen_query_value(0, 4, &isnull)), NAMEDATALEN);
	hash = idgen_query_value(0, 5, &isnull);
	if (!isnull && VARSIZE_ANY_EXHDR(DatumGetPointer(hash)) == IDGEN_TOKEN_HASH_SIZE)
		memcpy(row->token_hash, VARDATA_ANY(DatumGetPointer(hash)),
			   IDGEN_TOKEN_HASH_SIZE);
	row->active = DatumGetBool(idgen_query_value(0, 6, &isnull));
	return true;
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
 * How far ahead of the clock incarnations of this server could run that have
 * something granted past "now": the longest such time, if it is longer than
 * "than", which is that of the policy now; else "than".  All in milliseconds but
 * "now", which is a tick.
 */
int64
idgen_grant_rows_run_ahead(const char *name, int64 now, int64 than)
{
	Datum		values[3] = {
		CStringGetTextDatum(name), Int64GetDatum(now), Int64GetDatum(than)
	};
	bool		isnull;
	Datum		longest;

	idgen_query_run(IDGEN_SQL_LONGEST_RUN_AHEAD, values, NULL);
	longest = idgen_query_value(0, 1, &isnull);
	return isnull ? than : DatumGetInt64(longest);
}

/*
 * Did an incarnation get a grant for this request, among the last grants of its
 * worker?
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

/* Every incarnation of a namespace is over. */
void
idgen_grant_rows_end_all(const char *name)
{
	idgen_query_run_for(IDGEN_SQL_END_ALL, name);
}

/* An incarnation issues no more. */
void
idgen_grant_rows_end_incarnation(int64 incarnation)
{
	Datum		datums[1] = {Int64GetDatum(incarnation)};
	Datum		values[1] = {idgen_query_int8_array(datums, 1)};

	idgen_query_run(IDGEN_SQL_END_INCARNATIONS, values, NULL);
}

/* The holder of an external incarnation says that it issues no more. */
void
idgen_grant_rows_deactivate(int64 incarnation)
{
	Datum		values[1] = {Int64GetDatum(incarnation)};

	idgen_query_run(IDGEN_SQL_DEACTIVATE, values, NULL);
}

/*
 * Incarnations of this server are over but for those that have a cursor: shared
 * memory may have begun anew (S5), or a cursor may have ended without a worker.
 */
void
idgen_grant_rows_end_strangers(const pg_uuid_t *boot, const int64 *living, int count)
{
	Datum	   *datums = palloc((count + 1) * sizeof(Datum));
	Datum		values[2];

	for (int i = 0; i < count; i++)
		datums[i] = Int64GetDatum(living[i]);
	values[0] = UUIDPGetDatum(boot);
	values[1] = idgen_query_int8_array(datums, count);
	idgen_query_run(IDGEN_SQL_END_STRANGERS, values, NULL);
}

/* --- retention */

/*
 * Among the oldest 1,000 grants of a worker, delete those past the retention and
 * merge adjacent ones of one incarnation that are settled, that is so old that
 * no request for them can be repeated.  "now" is the clock in ticks: what can
 * still be issued from stays as it is.  Returns how many rows were touched;
 * marks are not.
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

/*
 * End external incarnations silent for longer than the retention, and delete
 * those that ended before it; returns how many were deleted.
 */
int
idgen_grant_rows_forget_incarnations(int64 retention_s)
{
	Datum		values[1] = {Float8GetDatum((double) retention_s)};

	idgen_query_run(IDGEN_SQL_END_SILENT, values, NULL);
	return (int) idgen_query_run(IDGEN_SQL_DELETE_INCARNATIONS, values, NULL);
}
