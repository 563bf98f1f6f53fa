/*
 * mark_rows.c
 *		Read, lock and write marks, with the sums and the ends of external grants
 *		that go with them.
 *
 * The authority process calls this in its transactions; restore.c merges the
 * marks of a restored copy.  Rows are reached by their place (ctid), so that
 * dead versions kept by a long transaction cost nothing.
 */
#include "compat.h"

#include "catalog/mark_rows.h"

#include "utils/builtins.h"

#include "catalog/namespace_rows.h"
#include "catalog/query.h"

/*
 * Read the marks of a namespace, if they and its row are as idgen wrote them (S3).
 * Marks are read anew whenever the guards may have been off.
 */
IdgenLoadResult
idgen_mark_rows_load(const char *name, IdgenMarks *marks)
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
	if (!idgen_namespace_rows_hold(name))
		return IDGEN_LOAD_ROW_CHANGED;
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

/*
 * Lock the row versions at "tids", except those that somebody else has locked and those
 * that are no longer the latest.  Returns which are locked.
 */
static bool *
lock_tids(IdgenQuery statement, const ItemPointerData *tids, int count)
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

/* Lock the authority rows of namespaces; returns which are locked. */
bool *
idgen_mark_rows_lock_authorities(IdgenMarks *const *marks, int count)
{
	ItemPointerData *tids = palloc(Max(count, 1) * sizeof(ItemPointerData));

	for (int i = 0; i < count; i++)
		tids[i] = marks[i]->authority_tid;
	return lock_tids(IDGEN_SQL_LOCK_AUTHORITIES, tids, count);
}

/* Lock the floor rows of namespaces; returns which are locked. */
bool *
idgen_mark_rows_lock_floors(IdgenMarks *const *marks, int count)
{
	ItemPointerData *tids = palloc(Max(count, 1) * sizeof(ItemPointerData));

	for (int i = 0; i < count; i++)
		tids[i] = marks[i]->floor_tid;
	return lock_tids(IDGEN_SQL_LOCK_FLOORS, tids, count);
}

/* Lock rows of idgen_worker; returns which are locked. */
bool *
idgen_mark_rows_lock_marks(const ItemPointerData *tids, int count)
{
	return lock_tids(IDGEN_SQL_LOCK_MARKS, tids, count);
}

/* --------------------------------------------------------------------
 * Writing
 * -------------------------------------------------------------------- */

/* What a grant adds to the mark of its worker. */
static int64
added_mark(const IdgenGrantRow *row)
{
	return row->mark == NULL ? row->grant.end : row->grant.end - row->mark->high_water;
}

/*
 * Raise the end of external grants of each namespace.  It rises with each external grant
 * that ends later than all before it, and never falls.
 */
static void
note_external_ends(IdgenGrantSet *all)
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
note_marks(IdgenGrantSet *set)
{
	for (uint64 i = 0; i < idgen_query_rows(); i++)
	{
		bool		isnull;
		char	   *name = TextDatumGetCString(idgen_query_value(i, 1, &isnull));
		int32		worker = DatumGetInt32(idgen_query_value(i, 2, &isnull));
		ItemPointer tid = idgen_query_tid(idgen_query_value(i, 3, &isnull));

		for (int j = 0; j < set->count; j++)
		{
			IdgenGrantRow *row = set->rows[j];
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
write_first_marks(IdgenGrantSet *first)
{
	Datum		values[4];

	if (first->count == 0)
		return;
	values[0] = idgen_grant_set_names(first);
	values[1] = idgen_grant_set_workers(first);
	values[2] = idgen_grant_set_ends(first);
	values[3] = idgen_grant_set_incarnations(first);
	idgen_query_expect(idgen_query_run(IDGEN_SQL_INSERT_MARKS, values, NULL), first->count);
	note_marks(first);
}

static void
write_later_marks(IdgenGrantSet *later)
{
	Datum		values[6];

	if (later->count == 0)
		return;
	IDGEN_GRANT_SET_FILL(later, row, PointerGetDatum(&row->mark->tid));
	values[0] = idgen_query_tid_array(later->datums, later->count);
	values[1] = idgen_grant_set_names(later);
	values[2] = idgen_grant_set_workers(later);
	IDGEN_GRANT_SET_FILL(later, row, Int64GetDatum(row->mark->high_water));
	values[3] = idgen_query_int8_array(later->datums, later->count);
	values[4] = idgen_grant_set_ends(later);
	values[5] = idgen_grant_set_incarnations(later);
	idgen_query_expect(idgen_query_run(IDGEN_SQL_ADVANCE_MARKS, values, NULL), later->count);
	note_marks(later);
}

/* How many namespaces the rows belong to. */
static int
count_namespaces(const IdgenGrantSet *set)
{
	int			count = 0;

	for (int i = 0; i < set->count; i++)
	{
		bool		first = true;

		for (int j = 0; j < i && first; j++)
			first = set->rows[j]->marks != set->rows[i]->marks;
		count += first;
	}
	return count;
}

/* Note the place of the authority rows just written. */
static void
note_authorities(IdgenGrantSet *all)
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
write_sums(IdgenGrantSet *all)
{
	Datum		values[6];

	IDGEN_GRANT_SET_FILL(all, row, PointerGetDatum(&row->marks->authority_tid));
	values[0] = idgen_query_tid_array(all->datums, all->count);
	IDGEN_GRANT_SET_FILL(all, row, Int64GetDatum(row->mark == NULL ? 1 : 0));
	values[1] = idgen_query_int8_array(all->datums, all->count);
	values[2] = idgen_grant_set_workers(all);
	IDGEN_GRANT_SET_FILL(all, row, Int64GetDatum(added_mark(row)));
	values[3] = idgen_query_int8_array(all->datums, all->count);
	IDGEN_GRANT_SET_FILL(all, row, Int64GetDatum(row->external_added));
	values[4] = idgen_query_int8_array(all->datums, all->count);
	IDGEN_GRANT_SET_FILL(all, row, Int64GetDatum(Max(row->now, 0)));
	values[5] = idgen_query_int8_array(all->datums, all->count);
	if (idgen_query_run(IDGEN_SQL_ADD_TO_SUMS, values, NULL) == 0)
		idgen_query_expect(0, 1);
	note_authorities(all);
}

/* Write the ends of external grants; most rounds raise none. */
static void
write_external_ends(IdgenGrantSet *all)
{
	IdgenGrantSet raising;
	Datum		values[2];

	idgen_grant_set_begin(&raising, all->count);
	for (int i = 0; i < all->count; i++)
		if (all->rows[i]->external_added > 0)
			idgen_grant_set_add(&raising, all->rows[i]);
	if (raising.count == 0)
		return;
	IDGEN_GRANT_SET_FILL(&raising, row, PointerGetDatum(&row->marks->floor_tid));
	values[0] = idgen_query_tid_array(raising.datums, raising.count);
	IDGEN_GRANT_SET_FILL(&raising, row, Int64GetDatum(row->external_added));
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

/*
 * Raise the marks of grants that are about to be written, on the condition that they
 * are what they were (S2), the sums that guard them (S3), and the ends of external
 * grants.  Writes all or raises an error; after an error the caller forgets the marks
 * in memory.  The rows must be locked, and there is at most one grant for each worker.
 */
void
idgen_mark_rows_write(IdgenGrantSet *grants)
{
	IdgenGrantSet first;
	IdgenGrantSet later;

	idgen_grant_set_begin(&first, grants->count);
	idgen_grant_set_begin(&later, grants->count);
	for (int i = 0; i < grants->count; i++)
		idgen_grant_set_add(grants->rows[i]->mark == NULL ? &first : &later,
							grants->rows[i]);
	note_external_ends(grants);
	write_sums(grants);
	write_external_ends(grants);
	write_later_marks(&later);
	write_first_marks(&first);
}
