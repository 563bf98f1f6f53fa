/*
 * mark_rows.c
 *		Read the marks of a namespace, and lock the rows that a grant will change.
 *
 * The authority process calls this in its transactions.  Marks are written
 * together with grants (grant_rows.c) or by a restore (restore.c).  Rows are
 * locked by their place (ctid), so that dead versions kept by a long
 * transaction cost nothing.
 */
#include "compat.h"

#include "catalog/mark_rows.h"

#include "utils/builtins.h"

#include "catalog/namespace_rows.h"
#include "catalog/query.h"

/* Read the marks of a namespace, if they add up to what the authority wrote (S3). */
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
