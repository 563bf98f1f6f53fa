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

#include "session/generator.h"
#include "settings.h"
#include "sql/arguments.h"
#include "sql/json.h"

/* --------------------------------------------------------------------
 * Arguments
 * -------------------------------------------------------------------- */

/*
 * The session of the namespace named by a text argument.  If it had to be opened,
 * *deadline is when the call must be over; otherwise it is unset.
 *
 * The session that this process used last is remembered.  Nearly all calls
 * name the same namespace.  Then the look-up only compares the name, within a
 * statement and from one statement to the next.
 */
static inline IdgenSession *
session_argument(FunctionCallInfo fcinfo, int n, IdgenDeadline *deadline)
{
	static IdgenSession *last = NULL;
	struct varlena *name;

	*deadline = IDGEN_DEADLINE_UNSET;
	REQUIRE_ARG(n, "namespace");
	name = (struct varlena *) PG_GETARG_POINTER(n);
	if (unlikely(VARATT_IS_COMPRESSED(name) || VARATT_IS_EXTERNAL(name)))
		name = PG_DETOAST_DATUM_PACKED(PointerGetDatum(name));
	if (likely(last != NULL && idgen_session_is_open(last) &&
			   idgen_session_is_named(last, VARDATA_ANY(name),
									  VARSIZE_ANY_EXHDR(name))))
		return last;

	/* a session that fails to open must not be found here by the next call */
	last = NULL;
	last = idgen_session_open(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name), deadline);
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

/* The next ID, after finding the session by the name in the only argument. */
static pg_noinline int64
next_of_argument(FunctionCallInfo fcinfo)
{
	IdgenDeadline deadline;
	IdgenSession *session = session_argument(fcinfo, 0, &deadline);

	if (first_is_constant(fcinfo))
		fcinfo->flinfo->fn_extra = session;
	return deadline == IDGEN_DEADLINE_UNSET ? idgen_generator_next(session) :
		idgen_generator_next_until(session, deadline);
}

/*
 * The next ID of the namespace named by the only argument.
 *
 * A constant is not looked at again while the session stays open; sessions
 * live as long as the process.  A parameter is looked at each time, since
 * PL/pgSQL evaluates an expression again and again with other values.
 */
static inline int64
next_id(FunctionCallInfo fcinfo)
{
	IdgenSession *session = fcinfo->flinfo->fn_extra;

	if (likely(session != NULL && idgen_session_is_open(session)))
		return idgen_generator_next(session);
	return next_of_argument(fcinfo);
}

/* --------------------------------------------------------------------
 * One ID
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

/* --------------------------------------------------------------------
 * A batch
 * -------------------------------------------------------------------- */

/* Check the count and issue a batch; returns its runs. */
static IdgenIdRun *
issue_batch(FunctionCallInfo fcinfo, int *run_count)
{
	IdgenDeadline deadline;
	IdgenSession *session = session_argument(fcinfo, 1, &deadline);
	int32		count;

	REQUIRE_ARG(0, "count");
	count = PG_GETARG_INT32(0);
	if (count < 0 || count > idgen_max_batch)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("count must be between 0 and %d", idgen_max_batch),
				 errhint("A superuser can raise \"idgen.max_batch\".")));
	return idgen_generator_batch(session, count, deadline, run_count);
}

/*
 * The whole batch as a tuplestore.  In FROM the executor would make one anyway, by a
 * call for each row.
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

/* What an idgen_next_batch() in progress still has to return. */
typedef struct IdgenBatch
{
	IdgenIdRun *run;			/* the current one */
	int			runs_left;		/* including the current one */
	int32		used;			/* IDs of the current run that were returned */
} IdgenBatch;

/* The batch row by row, as a select list needs it. */
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

	/* the first call decides in which of the two ways the batch is returned */
	if (SRF_IS_FIRSTCALL() && result != NULL && IsA(result, ReturnSetInfo) &&
		(result->allowedModes & SFRM_Materialize_Preferred) != 0)
		return materialize_batch(fcinfo);
	return return_batch(fcinfo);
}
