/*
 * issue.c
 *		SQL functions that issue IDs.
 */
#include "compat.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "catalog/namespace_cache.h"
#include "session/generator.h"
#include "settings.h"
#include "sql/arguments.h"
#include "sql/json.h"

/* --------------------------------------------------------------------
 * Arguments
 * -------------------------------------------------------------------- */

/*
 * The namespace named by a text argument, to issue from; *until_us is when a call
 * that had to open it must be over, or 0.
 *
 * The one used last by this process is remembered: nearly all calls name the
 * same one, and then comparing the name is all there is to the look-up, within
 * a statement and from one statement to the next.
 */
static inline IdgenNamespace *
issuing_argument(FunctionCallInfo fcinfo, int n, int64 *until_us)
{
	static IdgenNamespace *last = NULL;
	struct varlena *name;

	*until_us = 0;
	REQUIRE_ARG(n, "namespace");
	name = (struct varlena *) PG_GETARG_POINTER(n);
	if (unlikely(VARATT_IS_COMPRESSED(name) || VARATT_IS_EXTERNAL(name)))
		name = PG_DETOAST_DATUM_PACKED(PointerGetDatum(name));
	if (likely(last != NULL && idgen_namespace_open(last) &&
			   idgen_namespace_is(last, VARDATA_ANY(name),
								  VARSIZE_ANY_EXHDR(name))))
		return last;

	/* what fails to open must not be found here by the next call */
	last = NULL;
	last = idgen_generator_open(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name),
								until_us);
	return last;
}

/* Is the first argument a constant of the expression, as a default is? */
static bool
first_is_constant(FunctionCallInfo fcinfo)
{
	Node	   *expr = fcinfo->flinfo->fn_expr;

	return expr != NULL && IsA(expr, FuncExpr) &&
		IsA(linitial(castNode(FuncExpr, expr)->args), Const);
}

/* The next ID of the namespace named by the only argument, which is looked for. */
static pg_noinline int64
next_of_argument(FunctionCallInfo fcinfo)
{
	int64		until_us;
	IdgenNamespace *ns = issuing_argument(fcinfo, 0, &until_us);

	if (first_is_constant(fcinfo))
		fcinfo->flinfo->fn_extra = ns;
	return until_us == 0 ? idgen_generator_next(ns) :
		idgen_generator_first(ns, until_us);
}

/*
 * The next ID of the namespace named by the only argument.
 *
 * A constant is not looked at again as long as the namespace is fit to issue
 * from: entries live as long as the process.  A parameter is, since an
 * expression of PL/pgSQL is evaluated again and again with other values.
 */
static inline int64
next_id(FunctionCallInfo fcinfo)
{
	IdgenNamespace *ns = fcinfo->flinfo->fn_extra;

	if (likely(ns != NULL && idgen_namespace_open(ns)))
		return idgen_generator_next(ns);
	return next_of_argument(fcinfo);
}

/* --------------------------------------------------------------------
 * Issuing
 * -------------------------------------------------------------------- */

PG_FUNCTION_INFO_V1(idgen_next);
Datum
idgen_next(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(next_id(fcinfo));
}

PG_FUNCTION_INFO_V1(idgen_next_json);
Datum
idgen_next_json(PG_FUNCTION_ARGS)
{
	char		digits[MAXINT8LEN + 1];
	IdgenJsonbState state = {0};

	pg_lltoa(next_id(fcinfo), digits);
	idgen_json_begin(&state);
	idgen_json_string(&state, "id", digits);
	idgen_json_string(&state, "format", text_to_cstring(PG_GETARG_TEXT_PP(0)));
	return idgen_json_end(&state);
}

/* The runs of a batch; the count is checked. */
static IdgenIdRun *
issue_batch(FunctionCallInfo fcinfo, int *run_count)
{
	int64		until_us;
	IdgenNamespace *ns = issuing_argument(fcinfo, 1, &until_us);
	int32		count;

	REQUIRE_ARG(0, "count");
	count = PG_GETARG_INT32(0);
	if (count < 0 || count > idgen_max_batch)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("count must be between 0 and %d", idgen_max_batch),
				 errhint("A superuser can raise \"idgen.max_batch\".")));
	return idgen_generator_batch(ns, count, until_us, run_count);
}

/*
 * The whole batch as a tuplestore, which the executor would make of it in FROM
 * anyway, with a call for each row.
 */
static Datum
materialize_batch(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext old = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);
	bool		random = (result->allowedModes & SFRM_Materialize_Random) != 0;
	Tuplestorestate *store = tuplestore_begin_heap(random, false, work_mem);
	TupleDesc	desc = CreateTemplateTupleDesc(1);
	bool		isnull = false;
	int			run_count;
	IdgenIdRun *runs;

	TupleDescInitEntry(desc, 1, "idgen_next_batch", INT8OID, -1, 0);
	MemoryContextSwitchTo(old);

	runs = issue_batch(fcinfo, &run_count);
	for (int i = 0; i < run_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		for (int32 used = 0; used < runs[i].count; used++)
		{
			Datum		id = Int64GetDatum(runs[i].first + used);

			tuplestore_putvalues(store, desc, &id, &isnull);
		}
	}
	pfree(runs);
	result->returnMode = SFRM_Materialize;
	result->setResult = store;
	result->setDesc = desc;
	return (Datum) 0;
}

/* What a running idgen_next_batch() has still to return. */
typedef struct IdgenBatch
{
	IdgenIdRun *run;			/* the current one */
	int			runs_left;		/* with it */
	int32		used;			/* of it */
} IdgenBatch;

/* The batch row by row, as a list of columns wants it. */
static Datum
return_batch(FunctionCallInfo fcinfo)
{
	FuncCallContext *context;
	IdgenBatch *batch;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		context = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(context->multi_call_memory_ctx);
		batch = palloc0(sizeof(IdgenBatch));
		batch->run = issue_batch(fcinfo, &batch->runs_left);
		MemoryContextSwitchTo(old);
		context->user_fctx = batch;
	}

	context = SRF_PERCALL_SETUP();
	batch = context->user_fctx;
	if (batch->runs_left > 0 && batch->used == batch->run->count)
	{
		batch->run++;
		batch->runs_left--;
		batch->used = 0;
	}
	if (batch->runs_left == 0)
		SRF_RETURN_DONE(context);
	SRF_RETURN_NEXT(context, Int64GetDatum(batch->run->first + batch->used++));
}

PG_FUNCTION_INFO_V1(idgen_next_batch);
Datum
idgen_next_batch(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	/* only a first call has nothing left over from another one */
	if (SRF_IS_FIRSTCALL() && result != NULL && IsA(result, ReturnSetInfo) &&
		(result->allowedModes & SFRM_Materialize_Preferred) != 0)
		return materialize_batch(fcinfo);
	return return_batch(fcinfo);
}
