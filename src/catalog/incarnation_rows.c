/*
 * incarnation_rows.c
 *		Read, write, end and delete incarnations.
 *
 * The authority process calls this in its transactions.
 */
#include "compat.h"

#include "catalog/incarnation_rows.h"

#include "utils/builtins.h"

#include "catalog/query.h"

/* Read a row of idgen_incarnation; false if there is none. */
bool
idgen_incarnation_rows_read(int64 incarnation, IdgenIncarnationRow *row)
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

/* Write fresh incarnations, of this server or of external generators. */
void
idgen_incarnation_rows_write(IdgenGrantSet *fresh, const pg_uuid_t *boot)
{
	Datum		values[9];

	if (fresh->count == 0)
		return;
	values[0] = idgen_grant_set_incarnations(fresh);
	values[1] = idgen_grant_set_names(fresh);
	values[2] = idgen_grant_set_workers(fresh);
	for (int i = 0; i < fresh->count; i++)
		fresh->nulls[i] = fresh->rows[i]->holder == NULL;
	IDGEN_GRANT_SET_FILL(fresh, row,
						 CStringGetTextDatum(row->holder ? row->holder->role : ""));
	values[3] = idgen_query_nullable_array(fresh->datums, fresh->nulls, fresh->count, TEXTOID);
	IDGEN_GRANT_SET_FILL(fresh, row,
						 CStringGetTextDatum(row->holder ? row->holder->request->address : ""));
	values[4] = idgen_query_nullable_array(fresh->datums, fresh->nulls, fresh->count, TEXTOID);
	IDGEN_GRANT_SET_FILL(fresh, row,
						 CStringGetTextDatum(row->holder ?
											 row->holder->request->application : ""));
	values[5] = idgen_query_nullable_array(fresh->datums, fresh->nulls, fresh->count, TEXTOID);
	IDGEN_GRANT_SET_FILL(fresh, row,
						 row->holder ? idgen_query_bytes(row->holder->request->token_hash,
														 IDGEN_TOKEN_HASH_SIZE) : (Datum) 0);
	values[6] = idgen_query_nullable_array(fresh->datums, fresh->nulls, fresh->count, BYTEAOID);
	values[7] = UUIDPGetDatum(boot);
	for (int i = 0; i < fresh->count; i++)
		fresh->nulls[i] = fresh->rows[i]->holder != NULL;
	IDGEN_GRANT_SET_FILL(fresh, row, Int64GetDatum(row->run_ahead_ms));
	values[8] = idgen_query_nullable_array(fresh->datums, fresh->nulls, fresh->count, INT8OID);
	idgen_query_expect(idgen_query_run(IDGEN_SQL_INSERT_INCARNATIONS, values, NULL), fresh->count);
}

/*
 * End the incarnations that had the workers of fresh incarnations before.  Called
 * before the marks are written, which name the fresh ones then.
 */
void
idgen_incarnation_rows_end_predecessors(IdgenGrantSet *fresh)
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
 * The longest run-ahead of the incarnations of this server that have a grant
 * past "now" (a tick), in milliseconds.  It can be longer than "than", which
 * the policy allows now, because an incarnation keeps the run-ahead of its
 * activation; it is never shorter.
 */
int64
idgen_incarnation_rows_run_ahead(const char *name, int64 now, int64 than)
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

/* End every incarnation of a namespace. */
void
idgen_incarnation_rows_end_all(const char *name)
{
	idgen_query_run_for(IDGEN_SQL_END_ALL, name);
}

/* End an incarnation. */
void
idgen_incarnation_rows_end(int64 incarnation)
{
	Datum		datums[1] = {Int64GetDatum(incarnation)};
	Datum		values[1] = {idgen_query_int8_array(datums, 1)};

	idgen_query_run(IDGEN_SQL_END_INCARNATIONS, values, NULL);
}

/* End an external incarnation whose holder said that it issues no more. */
void
idgen_incarnation_rows_deactivate(int64 incarnation)
{
	Datum		values[1] = {Int64GetDatum(incarnation)};

	idgen_query_run(IDGEN_SQL_DEACTIVATE, values, NULL);
}

/*
 * End the incarnations of this server that have no cursor: shared memory may have been
 * initialised again (S5), or a cursor may have been killed while no authority process
 * was running.
 */
void
idgen_incarnation_rows_end_strangers(const pg_uuid_t *boot, const int64 *living, int count)
{
	Datum	   *datums = palloc((count + 1) * sizeof(Datum));
	Datum		values[2];

	for (int i = 0; i < count; i++)
		datums[i] = Int64GetDatum(living[i]);
	values[0] = UUIDPGetDatum(boot);
	values[1] = idgen_query_int8_array(datums, count);
	idgen_query_run(IDGEN_SQL_END_STRANGERS, values, NULL);
}

/*
 * End external incarnations that have been silent for longer than the retention, and
 * delete those that ended longer ago than that.  Returns how many were deleted.
 */
int
idgen_incarnation_rows_forget(int64 retention_s)
{
	Datum		values[1] = {Float8GetDatum((double) retention_s)};

	idgen_query_run(IDGEN_SQL_END_SILENT, values, NULL);
	return (int) idgen_query_run(IDGEN_SQL_DELETE_INCARNATIONS, values, NULL);
}
