/*
 * arguments.h
 *		Arguments of SQL functions that are not STRICT.
 */
#ifndef IDGEN_ARGUMENTS_H
#define IDGEN_ARGUMENTS_H

#include "compat.h"

#include "datatype/timestamp.h"
#include "fmgr.h"

/* A required argument that must not be null (22004). */
#define REQUIRE_ARG(n, what) \
	do { \
		if (PG_ARGISNULL(n)) \
			idgen_arguments_null(what); \
	} while (0)

pg_noreturn extern void idgen_arguments_null(const char *what);
extern void idgen_arguments_invalid(const char *message, const char *hint);
extern int64 idgen_arguments_interval_ms(const Interval *interval,
										 const char *what);

#endif							/* IDGEN_ARGUMENTS_H */
