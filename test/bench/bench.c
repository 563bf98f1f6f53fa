/*
 * bench.c
 *		What a call costs in which nothing is issued, the baselines; and the time
 *		of every single call.
 *
 * The baselines are declared like what they are compared with, so that the
 * executor does the same for them.
 */
#include "postgres.h"

#include <time.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_MODULE_MAGIC;

#define NS_PER_SECOND	INT64_C(1000000000)

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

/* So many rows, one by one. */
PG_FUNCTION_INFO_V1(bench_series);
Datum
bench_series(PG_FUNCTION_ARGS)
{
	FuncCallContext *context;

	if (SRF_IS_FIRSTCALL())
	{
		context = SRF_FIRSTCALL_INIT();
		context->max_calls = PG_GETARG_INT32(0);
	}
	context = SRF_PERCALL_SETUP();
	if (context->call_cntr >= context->max_calls)
		SRF_RETURN_DONE(context);
	SRF_RETURN_NEXT(context, Int64GetDatum((int64) context->call_cntr));
}

/* --------------------------------------------------------------------
 * Latency
 * -------------------------------------------------------------------- */

/*
 * A histogram of nanoseconds: 16 buckets for each power of two, so that a value
 * is known within 6 %.  Values below 16 have a bucket each.
 */
#define SUB_BITS	4
#define SUB_COUNT	(1 << SUB_BITS)
#define BUCKETS		((63 - SUB_BITS + 1) * SUB_COUNT)

static int
bucket_of(uint64 ns)
{
	int			shift = 0;

	while (ns >> (shift + SUB_BITS + 1) != 0)
		shift++;
	return shift * SUB_COUNT + (int) (ns >> shift);
}

static int64
monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64) now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

/*
 * bench_latency(function regprocedure, argument text, calls bigint, pause_us int)
 * returns bigint[]
 *
 * Calls a function of one argument so many times, as the executor does, with a
 * reading of the clock before and after each, and returns the histogram.  The
 * readings are part of what is measured.  The pause comes between calls.
 */
PG_FUNCTION_INFO_V1(bench_latency);
Datum
bench_latency(PG_FUNCTION_ARGS)
{
	Oid			function = PG_GETARG_OID(0);
	char	   *argument = text_to_cstring(PG_GETARG_TEXT_PP(1));
	int64		calls = PG_GETARG_INT64(2);
	int64		pause_ns = (int64) PG_GETARG_INT32(3) * 1000;
	LOCAL_FCINFO(call, 1);
	FmgrInfo	info;
	Oid		   *types;
	int			type_count;
	Oid			input;
	Oid			io_param;
	Datum	   *counts = palloc0(BUCKETS * sizeof(Datum));

	(void) get_func_signature(function, &types, &type_count);
	if (type_count != 1)
		elog(ERROR, "only functions of one argument can be measured");
	getTypeInputInfo(types[0], &input, &io_param);
	fmgr_info(function, &info);
	InitFunctionCallInfoData(*call, &info, 1, InvalidOid, NULL, NULL);
	call->args[0].value = OidInputFunctionCall(input, argument, io_param, -1);
	call->args[0].isnull = false;

	for (int64 i = 0; i < calls; i++)
	{
		int64		begun = monotonic_ns();
		int64		ended;

		(void) FunctionCallInvoke(call);
		ended = monotonic_ns();
		counts[bucket_of((uint64) (ended - begun))]++;
		CHECK_FOR_INTERRUPTS();
		while (pause_ns > 0 && monotonic_ns() - ended < pause_ns)
			;
	}
	PG_RETURN_ARRAYTYPE_P(construct_array(counts, BUCKETS, INT8OID, sizeof(int64),
										  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* The least nanoseconds of each bucket, in the same order. */
PG_FUNCTION_INFO_V1(bench_latency_buckets);
Datum
bench_latency_buckets(PG_FUNCTION_ARGS)
{
	Datum	   *least = palloc0(BUCKETS * sizeof(Datum));

	for (int i = 0; i < BUCKETS; i++)
	{
		int			shift = i < 2 * SUB_COUNT ? 0 : i / SUB_COUNT - 1;

		least[i] = Int64GetDatum((int64) (i - shift * SUB_COUNT) << shift);
	}
	PG_RETURN_ARRAYTYPE_P(construct_array(least, BUCKETS, INT8OID, sizeof(int64),
										  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}
