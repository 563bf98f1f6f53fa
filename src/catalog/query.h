/*
 * query.h
 *		Run SQL on the authority's tables.
 *
 * query.c is the only file that knows SPI.
 */
#ifndef IDGEN_QUERY_H
#define IDGEN_QUERY_H

#include "postgres.h"

#include "storage/itemptr.h"

#include "catalog/tables.h"

/* Most arguments of a statement. */
#define IDGEN_ARGUMENTS_MAX 20

typedef enum IdgenQuery
{
	/* in the caller's transaction */
	IDGEN_SQL_INSERT_NAMESPACE,
	IDGEN_SQL_INSERT_FLOOR,
	IDGEN_SQL_INSERT_AUTHORITY,
	IDGEN_SQL_DELETE_AUTHORITY,
	IDGEN_SQL_READ_FLOOR,
	IDGEN_SQL_RAISE_FLOOR,
	IDGEN_SQL_RAISE_EXTERNAL_END,
	IDGEN_SQL_READ_MARK,
	IDGEN_SQL_RAISE_MARK,
	IDGEN_SQL_INSERT_MARK,
	IDGEN_SQL_HIGHEST_WORKER,
	IDGEN_SQL_LOCK_POLICY,
	IDGEN_SQL_UPDATE_POLICY,
	IDGEN_SQL_LOCK_SPLIT,
	IDGEN_SQL_UPDATE_SPLIT,
	IDGEN_SQL_UPDATE_ISSUE_ROLES,
	IDGEN_SQL_UPDATE_ACQUIRE_ROLES,

	/* by the authority: looking */
	IDGEN_SQL_SUMS_HOLD,
	IDGEN_SQL_EVER_GRANTED,
	IDGEN_SQL_HAS_WORKERS,
	IDGEN_SQL_GRANTED_HERE,
	IDGEN_SQL_UPDATE_LINEAGE,
	IDGEN_SQL_READ_MARKS,
	IDGEN_SQL_FIND_AUTHORITY,
	IDGEN_SQL_LAST_CLOCK,
	IDGEN_SQL_RECORDED_MS,
	IDGEN_SQL_HIGHEST_MARK,
	IDGEN_SQL_READ_INCARNATION,
	IDGEN_SQL_LAST_GRANT,
	IDGEN_SQL_REQUEST_RECORDED,
	IDGEN_SQL_LONGEST_RUN_AHEAD,
	IDGEN_SQL_LOCK_NAMESPACE,
	IDGEN_SQL_LOCK_IDENTITY,
	IDGEN_SQL_LOCK_AUTHORITIES,
	IDGEN_SQL_LOCK_MARKS,
	IDGEN_SQL_LOCK_FLOORS,

	/* by the authority: granting */
	IDGEN_SQL_INSERT_MARKS,
	IDGEN_SQL_ADVANCE_MARKS,
	IDGEN_SQL_ADD_TO_SUMS,
	IDGEN_SQL_RAISE_EXTERNAL_ENDS,
	IDGEN_SQL_INSERT_INCARNATIONS,
	IDGEN_SQL_INSERT_GRANTS,

	/* by the authority: ending and fencing */
	IDGEN_SQL_END_INCARNATIONS,
	IDGEN_SQL_DEACTIVATE,
	IDGEN_SQL_END_STRANGERS,
	IDGEN_SQL_END_ALL,
	IDGEN_SQL_RETIRE_NAMESPACE,
	IDGEN_SQL_UPDATE_AUTHORITY,
	IDGEN_SQL_UPDATE_RANGE,
	IDGEN_SQL_RESET_SUMS,

	/* by the authority: retention */
	IDGEN_SQL_DELETE_GRANTS,
	IDGEN_SQL_MERGE_GRANTS,
	IDGEN_SQL_END_SILENT,
	IDGEN_SQL_DELETE_INCARNATIONS
} IdgenQuery;

#define STATEMENT_COUNT (IDGEN_SQL_DELETE_INCARNATIONS + 1)

extern void idgen_query_begin(const char *name);
extern void idgen_query_connect(void);
extern void idgen_query_end(void);
extern bool idgen_query_running(void);
extern uint64 idgen_query_run(IdgenQuery statement, Datum *values,
								  const char *nulls);
extern uint64 idgen_query_run_for(IdgenQuery statement,
									  const char *name);
extern uint64 idgen_query_rows(void);
extern Datum idgen_query_value(uint64 row, int column, bool *isnull);
extern void idgen_query_expect(uint64 written, int expected);

/* Arguments. */
extern ItemPointer idgen_query_tid(Datum datum);
extern Datum idgen_query_int4_array(Datum *datums, int count);
extern Datum idgen_query_int8_array(Datum *datums, int count);
extern Datum idgen_query_tid_array(Datum *datums, int count);
extern Datum idgen_query_nullable_array(Datum *datums, bool *nulls, int count,
											Oid type);
extern Datum idgen_query_text_array(Datum *datums, int count);
extern Datum idgen_query_bytes(const uint8 *bytes, int count);

#endif							/* IDGEN_QUERY_H */
