/*
 * issue.c
 *		SQL functions that issue IDs and read them.
 */
#include "compat.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/primnodes.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/uuid.h"

#include "sql/arguments.h"
#include "clock.h"
#include "session/generator.h"
#include "catalog/namespace_cache.h"
#include "settings.h"

/* --------------------------------------------------------------------
 * Arguments
 * -------------------------------------------------------------------- */

/*
 * The namespace named by a text argument, to read its format.
 */
static IdgenNamespace *
namespace_argument(FunctionCallInfo fcinfo, int n)
{
	text	   *name;

	REQUIRE_ARG(n, "namespace");
	name = PG_GETARG_TEXT_PP(n);
	return idgen_namespace_get(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
}

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

/* --------------------------------------------------------------------
 * JSON
 * -------------------------------------------------------------------- */

static void
push_json_string(IdgenJsonbState *state, const char *key, const char *string)
{
	JsonbValue	value;

	value.type = jbvString;
	value.val.string.val = unconstify(char *, key);
	value.val.string.len = (int) strlen(key);
	idgen_jsonb_push(state, WJB_KEY, &value);
	value.val.string.val = pstrdup(string);
	value.val.string.len = (int) strlen(string);
	idgen_jsonb_push(state, WJB_VALUE, &value);
}

static void
push_json_number(IdgenJsonbState *state, const char *key, int64 number)
{
	JsonbValue	value;

	value.type = jbvString;
	value.val.string.val = unconstify(char *, key);
	value.val.string.len = (int) strlen(key);
	idgen_jsonb_push(state, WJB_KEY, &value);
	value.type = jbvNumeric;
	value.val.numeric = int64_to_numeric(number);
	idgen_jsonb_push(state, WJB_VALUE, &value);
}

PG_FUNCTION_INFO_V1(idgen_next_json);
Datum
idgen_next_json(PG_FUNCTION_ARGS)
{
	char		digits[MAXINT8LEN + 1];
	IdgenJsonbState state = {0};

	pg_lltoa(next_id(fcinfo), digits);
	idgen_jsonb_push(&state, WJB_BEGIN_OBJECT, NULL);
	push_json_string(&state, "id", digits);
	push_json_string(&state, "format",
					 text_to_cstring(PG_GETARG_TEXT_PP(0)));
	idgen_jsonb_push(&state, WJB_END_OBJECT, NULL);
	PG_RETURN_JSONB_P(JsonbValueToJsonb(state.result));
}

PG_FUNCTION_INFO_V1(idgen_format);
Datum
idgen_format(PG_FUNCTION_ARGS)
{
	IdgenNamespace *ns = namespace_argument(fcinfo, 0);
	const IdgenLayout *layout = &ns->row.layout;
	IdgenJsonbState state = {0};

	idgen_jsonb_push(&state, WJB_BEGIN_OBJECT, NULL);
	push_json_string(&state, "format", ns->name);
	push_json_string(&state, "kind", "time");
	push_json_number(&state, "epoch_ms", layout->epoch_ms);
	push_json_number(&state, "tick_ms", layout->tick_ms);
	push_json_number(&state, "timestamp_bits", layout->timestamp_bits);
	push_json_number(&state, "worker_bits", layout->worker_bits);
	push_json_number(&state, "sequence_bits", layout->sequence_bits);
	push_json_number(&state, "horizon_ms", layout->horizon_ms);
	push_json_string(&state, "lineage",
					 DatumGetCString(DirectFunctionCall1(uuid_out,
														 UUIDPGetDatum(&ns->row.lineage))));
	idgen_jsonb_push(&state, WJB_END_OBJECT, NULL);
	PG_RETURN_JSONB_P(JsonbValueToJsonb(state.result));
}

/* --------------------------------------------------------------------
 * Decoding and encoding
 * -------------------------------------------------------------------- */

static void
check_fit(IdgenLayoutFit fit, const IdgenNamespace *ns, int64 value)
{
	const char *what = NULL;

	switch (fit)
	{
		case IDGEN_FIT_OK:
			return;
		case IDGEN_FIT_TICK:
			what = "tick";
			break;
		case IDGEN_FIT_WORKER:
			what = "worker";
			break;
		case IDGEN_FIT_SEQUENCE:
			what = "sequence";
			break;
		case IDGEN_FIT_ZERO:
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("0 is not an ID of namespace \"%s\"", ns->name),
					 errdetail("Tick 0, worker 0, sequence 0 is never issued.")));
			break;
		case IDGEN_FIT_ID:
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg(INT64_FORMAT " is not an ID of namespace \"%s\"",
							value, ns->name),
					 errdetail("IDs of its format are positive and have at most %d bits.",
							   ns->row.layout.timestamp_bits +
							   ns->row.layout.worker_bits +
							   ns->row.layout.sequence_bits)));
			break;
	}
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("%s " INT64_FORMAT " does not fit the format of namespace \"%s\"",
					what, value, ns->name),
			 errhint("See idgen_format().")));
}

/* The beginning of a tick. */
static TimestampTz
tick_timestamp(const IdgenNamespace *ns, int64 tick)
{
	int64		unix_ms;
	int64		us;

	if (!idgen_layout_unix_ms(&ns->row.layout, tick, &unix_ms) ||
		pg_mul_s64_overflow(unix_ms - POSTGRES_EPOCH_MS, 1000, &us) ||
		!IS_VALID_TIMESTAMP(us))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp of tick " INT64_FORMAT " of namespace \"%s\" is out of range",
						tick, ns->name)));
	return us;
}

static Datum
decode(FunctionCallInfo fcinfo, const IdgenNamespace *ns, int64 id)
{
	int64_t		tick = 0;
	int64_t		worker = 0;
	int64_t		sequence = 0;
	TupleDesc	desc;
	Datum		values[5];
	bool		nulls[5] = {false};

	check_fit(idgen_layout_decode(&ns->row.layout, id, &tick, &worker, &sequence),
			  ns, id);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = CStringGetTextDatum(ns->name);
	values[1] = TimestampTzGetDatum(tick_timestamp(ns, tick));
	values[2] = Int64GetDatum(tick);
	values[3] = Int32GetDatum((int32) worker);
	values[4] = Int32GetDatum((int32) sequence);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

PG_FUNCTION_INFO_V1(idgen_decode);
Datum
idgen_decode(PG_FUNCTION_ARGS)
{
	IdgenNamespace *ns = namespace_argument(fcinfo, 1);

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	return decode(fcinfo, ns, PG_GETARG_INT64(0));
}

/* The number that a text stands for, or an error. */
static int64
parse_digits(const char *string, const IdgenNamespace *ns)
{
	int64_t		value = 0;

	switch (idgen_layout_parse(string, strlen(string), &value))
	{
		case IDGEN_TEXT_OK:
			break;
		case IDGEN_TEXT_NOT_DIGITS:
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
					 errmsg("invalid ID of namespace \"%s\": \"%s\"", ns->name, string),
					 errhint("An ID is written in decimal digits only.")));
			break;
		case IDGEN_TEXT_TOO_WIDE:
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("ID \"%s\" of namespace \"%s\" is out of range",
							string, ns->name),
					 errdetail("IDs have at most 63 bits.")));
			break;
	}
	return value;
}

PG_FUNCTION_INFO_V1(idgen_decode_text);
Datum
idgen_decode_text(PG_FUNCTION_ARGS)
{
	IdgenNamespace *ns = namespace_argument(fcinfo, 1);

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	return decode(fcinfo, ns,
				  parse_digits(text_to_cstring(PG_GETARG_TEXT_PP(0)), ns));
}

PG_FUNCTION_INFO_V1(idgen_encode);
Datum
idgen_encode(PG_FUNCTION_ARGS)
{
	IdgenNamespace *ns = namespace_argument(fcinfo, 3);
	int64		tick;
	int64		worker;
	int64		sequence;
	int64_t		id = 0;
	IdgenLayoutFit fit;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	tick = PG_GETARG_INT64(0);
	worker = PG_GETARG_INT32(1);
	sequence = PG_GETARG_INT32(2);
	fit = idgen_layout_encode(&ns->row.layout, tick, worker, sequence, &id);
	check_fit(fit, ns, fit == IDGEN_FIT_TICK ? tick :
			  fit == IDGEN_FIT_WORKER ? worker : sequence);
	PG_RETURN_INT64(id);
}

PG_FUNCTION_INFO_V1(idgen_timestamp);
Datum
idgen_timestamp(PG_FUNCTION_ARGS)
{
	IdgenNamespace *ns = namespace_argument(fcinfo, 1);
	int64_t		tick = 0;
	int64_t		worker = 0;
	int64_t		sequence = 0;
	int64		id;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	id = PG_GETARG_INT64(0);
	check_fit(idgen_layout_decode(&ns->row.layout, id, &tick, &worker, &sequence),
			  ns, id);
	PG_RETURN_TIMESTAMPTZ(tick_timestamp(ns, tick));
}

PG_FUNCTION_INFO_V1(idgen_lower_bound);
Datum
idgen_lower_bound(PG_FUNCTION_ARGS)
{
	IdgenNamespace *ns = namespace_argument(fcinfo, 1);
	TimestampTz time;
	int64		unix_ms;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	time = PG_GETARG_TIMESTAMPTZ(0);
	if (TIMESTAMP_IS_NOBEGIN(time))
		PG_RETURN_INT64(0);
	if (TIMESTAMP_IS_NOEND(time))
		PG_RETURN_INT64(PG_INT64_MAX);
	/* up to a whole millisecond; in microseconds the other epoch could overflow */
	unix_ms = time / 1000 + (time % 1000 > 0 ? 1 : 0) + POSTGRES_EPOCH_MS;
	PG_RETURN_INT64(idgen_layout_lower_bound_ms(&ns->row.layout, unix_ms));
}
