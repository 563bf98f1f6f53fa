/*
 * query.h
 *		Run SQL on the authority's tables, and on columns that take IDs.
 *
 * query.c is the only file that uses SPI.
 */
#ifndef IDGEN_QUERY_H
#define IDGEN_QUERY_H

#include "postgres.h"

#include "storage/itemptr.h"

#include "catalog/query_text.h"

extern void idgen_query_begin(const char *name);
extern void idgen_query_connect(void);
extern void idgen_query_end(void);
extern bool idgen_query_running(void);
extern uint64 idgen_query_run(IdgenQuery query, Datum *values, const char *nulls);
extern uint64 idgen_query_run_for(IdgenQuery query, const char *name);
extern uint64 idgen_query_rows(void);
extern Datum idgen_query_value(uint64 row, int column, bool *isnull);
extern void idgen_query_expect(uint64 written, int expected);

/* SQL on what belongs to others, as the current user. */
extern uint64 idgen_query_catalogs(const char *sql, int argument_count,
								   Oid *types, Datum *values);
extern void idgen_query_command(const char *sql);

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
