/*
 * decode.c
 *		SQL functions that decode and encode IDs, and describe formats.
 *
 * They work on every server that has the tables, also on a standby and without
 * preloading.
 */
#include "compat.h"

#include "access/htup_details.h"
#include "common/int.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "catalog/namespace_cache.h"
#include "clock.h"
#include "sql/arguments.h"
#include "sql/json.h"

/* The namespace named by a text argument. */
static IdgenNamespace *
namespace_argument(FunctionCallInfo fcinfo, int n)
{
	text	   *name;

	REQUIRE_ARG(n, "namespace");
	name = PG_GETARG_TEXT_PP(n);
	return idgen_namespace_get(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
}

PG_FUNCTION_INFO_V1(idgen_format);
Datum
idgen_format(PG_FUNCTION_ARGS)
{
	IdgenNamespace *ns = namespace_argument(fcinfo, 0);
	const IdgenLayout *layout = &ns->row.layout;
	IdgenJsonbState state = {0};

	idgen_json_begin(&state);
	idgen_json_string(&state, "format", ns->name);
	idgen_json_string(&state, "kind", "time");
	idgen_json_number(&state, "epoch_ms", layout->epoch_ms);
	idgen_json_number(&state, "tick_ms", layout->tick_ms);
	idgen_json_number(&state, "timestamp_bits", layout->timestamp_bits);
	idgen_json_number(&state, "worker_bits", layout->worker_bits);
	idgen_json_number(&state, "sequence_bits", layout->sequence_bits);
	idgen_json_number(&state, "horizon_ms", layout->horizon_ms);
	idgen_json_string(&state, "lineage",
					  DatumGetCString(DirectFunctionCall1(uuid_out,
														  UUIDPGetDatum(&ns->row.lineage))));
	return idgen_json_end(&state);
}

/*
 * An error unless the fields fit; "value" is the field that does not, or the
 * ID.
 */
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

/* The time at which a tick begins. */
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

/* The parts of an ID, as a row. */
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

/* The number that a text stands for; an error if it is none. */
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

	/*
	 * rounded up to a millisecond first: microseconds since 1970 could
	 * overflow
	 */
	unix_ms = time / 1000 + (time % 1000 > 0 ? 1 : 0) + POSTGRES_EPOCH_MS;
	PG_RETURN_INT64(idgen_layout_lower_bound_ms(&ns->row.layout, unix_ms));
}
