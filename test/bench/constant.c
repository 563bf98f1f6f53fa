/*
 * constant.c
 *		What a call costs in which nothing is issued: the baselines of issue.sh.
 *
 * Declared like idgen_next(), so that the executor does the same for them.
 */
#include "postgres.h"

#include <time.h>

#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(bench_constant);
Datum
bench_constant(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(INT64_C(1));
}

/* One reading of the wall clock, as every ID needs. */
PG_FUNCTION_INFO_V1(bench_clock);
Datum
bench_clock(PG_FUNCTION_ARGS)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	PG_RETURN_INT64((int64) now.tv_sec * 1000 + now.tv_nsec / 1000000);
}
