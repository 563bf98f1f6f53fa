/*
 * functions.c
 *		The SQL functions: arguments in, results out.
 */
#include "compat.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "clock.h"
#include "generator.h"
#include "identity.h"
#include "namespace.h"
#include "settings.h"
#include "tables.h"

/* Unix time of PostgreSQL's epoch, 2000-01-01. */
#define POSTGRES_EPOCH_US \
	((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)
#define POSTGRES_EPOCH_MS (POSTGRES_EPOCH_US / 1000)

/* Fewer workers than this in a range: the policy "split" is not the default. */
#define SPLIT_WORKERS_MIN 16

/* --------------------------------------------------------------------
 * Arguments
 * -------------------------------------------------------------------- */

static void
null_argument(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", what)));
}

/* A required argument that must not be null. */
#define REQUIRE_ARG(n, what) \
	do { \
		if (PG_ARGISNULL(n)) \
			null_argument(what); \
	} while (0)

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
 * The namespace named by a text argument, to issue from.
 *
 * The one used last by this process is remembered: nearly all calls name the
 * same one, and then comparing the name is all there is to the look-up, within
 * a statement and from one statement to the next.
 */
static inline IdgenNamespace *
issuing_argument(FunctionCallInfo fcinfo, int n)
{
	static IdgenNamespace *last = NULL;
	struct varlena *name;

	REQUIRE_ARG(n, "namespace");
	name = (struct varlena *) PG_GETARG_POINTER(n);
	if (unlikely(VARATT_IS_COMPRESSED(name) || VARATT_IS_EXTERNAL(name)))
		name = PG_DETOAST_DATUM_PACKED(PointerGetDatum(name));
	if (likely(last != NULL && idgen_namespace_current(last) &&
			   idgen_namespace_is(last, VARDATA_ANY(name),
								  VARSIZE_ANY_EXHDR(name))))
		return last;

	/* what fails to open must not be found here by the next call */
	last = NULL;
	last = idgen_generator_open(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
	return last;
}

/* --------------------------------------------------------------------
 * Issuing
 * -------------------------------------------------------------------- */

PG_FUNCTION_INFO_V1(idgen_next);
Datum
idgen_next(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(idgen_generator_next(issuing_argument(fcinfo, 0)));
}

/* What a running idgen_next_batch() has still to return. */
typedef struct IdgenBatch
{
	IdgenIdRun *run;			/* the current one */
	int32		used;			/* of it */
} IdgenBatch;

PG_FUNCTION_INFO_V1(idgen_next_batch);
Datum
idgen_next_batch(PG_FUNCTION_ARGS)
{
	FuncCallContext *context;
	IdgenBatch *batch;

	if (SRF_IS_FIRSTCALL())
	{
		IdgenNamespace *ns;
		int32		count;
		int			run_count;
		MemoryContext old;

		ns = issuing_argument(fcinfo, 1);
		REQUIRE_ARG(0, "count");
		count = PG_GETARG_INT32(0);
		if (count < 0 || count > idgen_max_batch)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("count must be between 0 and %d", idgen_max_batch),
					 errhint("A superuser can raise \"idgen.max_batch\".")));

		context = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(context->multi_call_memory_ctx);
		batch = palloc0(sizeof(IdgenBatch));
		batch->run = idgen_generator_batch(ns, count, &run_count);
		MemoryContextSwitchTo(old);
		context->user_fctx = batch;
		context->max_calls = count;
	}

	context = SRF_PERCALL_SETUP();
	batch = context->user_fctx;
	if (context->call_cntr >= context->max_calls)
		SRF_RETURN_DONE(context);
	if (batch->used == batch->run->count)
	{
		batch->run++;
		batch->used = 0;
	}
	SRF_RETURN_NEXT(context, Int64GetDatum(batch->run->first + batch->used++));
}

/* --------------------------------------------------------------------
 * JSON
 * -------------------------------------------------------------------- */

static void
push_json_string(JsonbParseState **state, const char *key, const char *string)
{
	JsonbValue	value;

	value.type = jbvString;
	value.val.string.val = unconstify(char *, key);
	value.val.string.len = (int) strlen(key);
	pushJsonbValue(state, WJB_KEY, &value);
	value.val.string.val = pstrdup(string);
	value.val.string.len = (int) strlen(string);
	pushJsonbValue(state, WJB_VALUE, &value);
}

static void
push_json_number(JsonbParseState **state, const char *key, int64 number)
{
	JsonbValue	value;

	value.type = jbvString;
	value.val.string.val = unconstify(char *, key);
	value.val.string.len = (int) strlen(key);
	pushJsonbValue(state, WJB_KEY, &value);
	value.type = jbvNumeric;
	value.val.numeric = int64_to_numeric(number);
	pushJsonbValue(state, WJB_VALUE, &value);
}

PG_FUNCTION_INFO_V1(idgen_next_json);
Datum
idgen_next_json(PG_FUNCTION_ARGS)
{
	IdgenNamespace *ns = issuing_argument(fcinfo, 0);
	char		digits[MAXINT8LEN + 1];
	JsonbParseState *state = NULL;

	pg_lltoa(idgen_generator_next(ns), digits);
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_json_string(&state, "id", digits);
	push_json_string(&state, "format", ns->name);
	PG_RETURN_JSONB_P(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT,
													   NULL)));
}

PG_FUNCTION_INFO_V1(idgen_format);
Datum
idgen_format(PG_FUNCTION_ARGS)
{
	IdgenNamespace *ns = namespace_argument(fcinfo, 0);
	const IdgenLayout *layout = &ns->row.layout;
	JsonbParseState *state = NULL;

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_json_string(&state, "format", ns->name);
	push_json_string(&state, "kind", "time");
	push_json_number(&state, "epoch_ms", layout->epoch_ms);
	push_json_number(&state, "tick_ms", layout->tick_ms);
	push_json_number(&state, "timestamp_bits", layout->timestamp_bits);
	push_json_number(&state, "worker_bits", layout->worker_bits);
	push_json_number(&state, "sequence_bits", layout->sequence_bits);
	push_json_number(&state, "horizon_ms", layout->horizon_ms);
	PG_RETURN_JSONB_P(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT,
													   NULL)));
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
		pg_mul_s64_overflow(unix_ms, 1000, &us) ||
		pg_sub_s64_overflow(us, POSTGRES_EPOCH_US, &us) ||
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

/* Decimal digits and nothing else; scanint8 would take blanks and signs. */
static int64
parse_digits(const char *string, const IdgenNamespace *ns)
{
	int64		value = 0;

	if (string[0] == '\0' || string[strspn(string, "0123456789")] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid ID of namespace \"%s\": \"%s\"", ns->name, string),
				 errhint("An ID is written in decimal digits only.")));
	for (const char *at = string; *at; at++)
		if (pg_mul_s64_overflow(value, 10, &value) ||
			pg_add_s64_overflow(value, *at - '0', &value))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("ID \"%s\" of namespace \"%s\" is out of range",
							string, ns->name),
					 errdetail("IDs have at most 63 bits.")));
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

/* --------------------------------------------------------------------
 * Namespaces
 * -------------------------------------------------------------------- */

/* Arguments of idgen_create_namespace, in order. */
enum
{
	CREATE_NAME, CREATE_TIMESTAMP_BITS, CREATE_WORKER_BITS,
	CREATE_SEQUENCE_BITS, CREATE_EPOCH, CREATE_TICK_MS, CREATE_GRANT_INTERVAL,
	CREATE_HORIZON, CREATE_FIRST_WORKER, CREATE_LAST_WORKER, CREATE_DURABILITY,
	CREATE_PROMOTION, CREATE_RUN_AHEAD, CREATE_RESTRICTED, CREATE_ISSUING
};

static void
invalid_option(const char *message, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg_internal("%s", message),
			 hint ? errhint("%s", hint) : 0));
}

static void
not_built(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s is not supported yet", what)));
}

PG_FUNCTION_INFO_V1(idgen_not_built);
Datum
idgen_not_built(PG_FUNCTION_ARGS)
{
	char	   *name = get_func_name(fcinfo->flinfo->fn_oid);

	not_built(psprintf("function %s()", name ? name : "of idgen"));
	PG_RETURN_NULL();
}

/* An interval as milliseconds; an error if it has months or is negative. */
static int64
interval_ms(const Interval *interval, const char *what)
{
	int64		us;

	if (interval->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not contain months or years", what),
				 errdetail("Months differ in length.")));
	if (pg_mul_s64_overflow(interval->day, USECS_PER_DAY, &us) ||
		pg_add_s64_overflow(us, interval->time, &us) || us < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between 0 and 1 hour", what)));
	/* up, so that no positive length becomes nothing */
	return us / 1000 + (us % 1000 != 0 ? 1 : 0);
}

static void
read_name(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	char	   *name;

	REQUIRE_ARG(CREATE_NAME, "name");
	name = text_to_cstring(PG_GETARG_TEXT_PP(CREATE_NAME));
	if (name[0] == '\0' || strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of a namespace must have 1 to %d bytes",
						NAMEDATALEN - 1)));
	strlcpy(row->name, name, NAMEDATALEN);
}

static void
read_layout(FunctionCallInfo fcinfo, IdgenLayout *layout, bool issuing)
{
	TimestampTz epoch;

	REQUIRE_ARG(CREATE_TIMESTAMP_BITS, "timestamp_bits");
	REQUIRE_ARG(CREATE_WORKER_BITS, "worker_bits");
	REQUIRE_ARG(CREATE_SEQUENCE_BITS, "sequence_bits");
	REQUIRE_ARG(CREATE_EPOCH, "epoch");
	REQUIRE_ARG(CREATE_TICK_MS, "tick_ms");
	REQUIRE_ARG(CREATE_HORIZON, "horizon");

	layout->kind = IDGEN_KIND_TIME;
	layout->timestamp_bits = PG_GETARG_INT32(CREATE_TIMESTAMP_BITS);
	layout->worker_bits = PG_GETARG_INT32(CREATE_WORKER_BITS);
	layout->sequence_bits = PG_GETARG_INT32(CREATE_SEQUENCE_BITS);
	layout->tick_ms = PG_GETARG_INT32(CREATE_TICK_MS);
	layout->horizon_ms = interval_ms(PG_GETARG_INTERVAL_P(CREATE_HORIZON),
									 "horizon");
	epoch = PG_GETARG_TIMESTAMPTZ(CREATE_EPOCH);
	if (TIMESTAMP_NOT_FINITE(epoch))
		invalid_option("epoch must be finite", NULL);
	if (epoch % 1000 != 0)
		invalid_option("epoch must be a whole number of milliseconds", NULL);
	layout->epoch_ms = epoch / 1000 + POSTGRES_EPOCH_MS;

	switch (idgen_layout_validate(layout))
	{
		case IDGEN_LAYOUT_OK:
			break;
		case IDGEN_LAYOUT_BAD_TIMESTAMP_BITS:
			invalid_option("timestamp_bits must be between 1 and 63", NULL);
			break;
		case IDGEN_LAYOUT_BAD_WORKER_BITS:
			invalid_option("worker_bits must be between 0 and 31", NULL);
			break;
		case IDGEN_LAYOUT_BAD_SEQUENCE_BITS:
			invalid_option("sequence_bits must be between 0 and 31", NULL);
			break;
		case IDGEN_LAYOUT_BAD_SUM:
			invalid_option("timestamp_bits, worker_bits and sequence_bits must not exceed 63 together",
						   "An ID is a positive bigint.");
			break;
		case IDGEN_LAYOUT_BAD_EPOCH:
			invalid_option("epoch is out of range", NULL);
			break;
		case IDGEN_LAYOUT_BAD_TICK:
			invalid_option("tick_ms must be between 1 and 3600000", NULL);
			break;
		case IDGEN_LAYOUT_BAD_HORIZON:
			invalid_option("horizon must be between one tick and 1 hour", NULL);
			break;
		case IDGEN_LAYOUT_SHORT_FIELD:
			if (issuing)
				invalid_option("timestamp_bits hold less time than the horizon",
							   "Use more timestamp bits or a longer tick, or issuing => false to decode only.");
			break;
	}
}

/* The field must have begun and not be over, unless it is for decoding only. */
static void
check_life(const IdgenNamespaceRow *row)
{
	if (!row->issuing)
		return;
	switch (idgen_layout_life(&row->layout, idgen_clock_wall_ms()))
	{
		case IDGEN_LIFE_RUNNING:
			return;
		case IDGEN_LIFE_NOT_BEGUN:
			invalid_option("epoch is in the future",
						   "Use an epoch in the past, or issuing => false to decode only.");
			break;
		case IDGEN_LIFE_OVER:
			invalid_option("the timestamp field is already over",
						   "Use a later epoch or more timestamp bits, or issuing => false to decode only.");
			break;
	}
}

static void
read_intervals(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	REQUIRE_ARG(CREATE_GRANT_INTERVAL, "grant_interval");
	REQUIRE_ARG(CREATE_RUN_AHEAD, "run_ahead");
	row->grant_interval_ms =
		interval_ms(PG_GETARG_INTERVAL_P(CREATE_GRANT_INTERVAL),
					"grant_interval");
	row->run_ahead_ms = interval_ms(PG_GETARG_INTERVAL_P(CREATE_RUN_AHEAD),
									"run_ahead");
	if (row->grant_interval_ms < row->layout.tick_ms ||
		row->grant_interval_ms > row->layout.horizon_ms)
		invalid_option("grant_interval must be between one tick and the horizon",
					   NULL);
	if (row->run_ahead_ms >= row->layout.horizon_ms)
		invalid_option("run_ahead must be shorter than the horizon", NULL);
}

static void
read_workers(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	int64		count = idgen_layout_worker_count(&row->layout);

	REQUIRE_ARG(CREATE_FIRST_WORKER, "first_worker");
	row->first_worker = PG_GETARG_INT32(CREATE_FIRST_WORKER);
	row->last_worker = PG_ARGISNULL(CREATE_LAST_WORKER) ? (int32) (count - 1) :
		PG_GETARG_INT32(CREATE_LAST_WORKER);
	if (row->first_worker < 0 || row->last_worker >= count ||
		row->first_worker > row->last_worker)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("first_worker and last_worker must be a range within 0 to " INT64_FORMAT,
						count - 1)));
}

static void
read_durability(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	char	   *durability;

	REQUIRE_ARG(CREATE_DURABILITY, "durability");
	durability = text_to_cstring(PG_GETARG_TEXT_PP(CREATE_DURABILITY));
	if (strcmp(durability, "quorum") == 0)
		not_built("durability \"quorum\"");
	if (strcmp(durability, "local") != 0)
		invalid_option("durability must be \"local\" or \"quorum\"", NULL);
	strlcpy(row->durability, durability, NAMEDATALEN);
}

/* Each half of a split range must have a worker. */
static void
check_split(const IdgenNamespaceRow *row)
{
	if (row->first_worker == row->last_worker)
		invalid_option("promotion \"split\" needs at least two workers",
					   "Use a wider range, or promotion => 'fence'.");
}

static void
read_promotion(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	char	   *promotion;

	if (PG_ARGISNULL(CREATE_PROMOTION))
		promotion = (int64) row->last_worker - row->first_worker + 1 >=
			SPLIT_WORKERS_MIN ? "split" : "fence";
	else
		promotion = text_to_cstring(PG_GETARG_TEXT_PP(CREATE_PROMOTION));

	if (strcmp(promotion, "split") == 0)
		check_split(row);
	else if (strcmp(promotion, "trust") == 0)
		invalid_option("promotion \"trust\" needs durability \"quorum\"", NULL);
	else if (strcmp(promotion, "fence") != 0 && strcmp(promotion, "refuse") != 0)
		invalid_option("promotion must be \"fence\", \"split\", \"trust\" or \"refuse\"",
					   NULL);
	strlcpy(row->promotion, promotion, NAMEDATALEN);
}

static void
read_flags(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	REQUIRE_ARG(CREATE_RESTRICTED, "restricted");
	REQUIRE_ARG(CREATE_ISSUING, "issuing");
	row->restricted = PG_GETARG_BOOL(CREATE_RESTRICTED);
	row->issuing = PG_GETARG_BOOL(CREATE_ISSUING);
	if (row->restricted)
		not_built("option \"restricted\"");
}

/* The identity of a new namespace: here and now. */
static void
make_authority(const IdgenNamespaceRow *row, IdgenAuthorityRow *authority)
{
	bool		split = strcmp(row->promotion, "split") == 0;

	idgen_identity_make_uuid(&authority->uuid);
	idgen_identity_read(&authority->identity);
	authority->split_modulus = split ? 2 : 1;
	authority->split_remainder = split ? idgen_identity_class() : 0;
}

PG_FUNCTION_INFO_V1(idgen_create_namespace);
Datum
idgen_create_namespace(PG_FUNCTION_ARGS)
{
	IdgenNamespaceRow row;
	IdgenNamespaceRow existing;
	IdgenAuthorityRow authority;

	PreventCommandIfReadOnly("idgen_create_namespace()");
	PreventCommandDuringRecovery("idgen_create_namespace()");

	memset(&row, 0, sizeof(row));
	read_name(fcinfo, &row);
	read_flags(fcinfo, &row);
	read_layout(fcinfo, &row.layout, row.issuing);
	read_intervals(fcinfo, &row);
	read_workers(fcinfo, &row);
	read_durability(fcinfo, &row);
	read_promotion(fcinfo, &row);
	check_life(&row);
	strlcpy(row.owner, GetUserNameFromId(GetUserId(), false), NAMEDATALEN);

	if (!idgen_tables_find())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"idgen\" is not installed in this database")));
	if (idgen_tables_read_namespace(row.name, &existing))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("namespace \"%s\" already exists", row.name)));
	make_authority(&row, &authority);
	idgen_tables_insert_namespace(&row, &authority);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(idgen_retire_namespace);
Datum
idgen_retire_namespace(PG_FUNCTION_ARGS)
{
	REQUIRE_ARG(0, "name");
	PreventCommandIfReadOnly("idgen_retire_namespace()");
	idgen_generator_retire(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_VOID();
}
