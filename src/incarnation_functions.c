/*
 * incarnation_functions.c
 *		SQL functions of external generators.
 *
 * Whatever goes wrong in a function that takes a token, the statement and its
 * context are kept out of the server log: the token may stand in them.
 */
#include "compat.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "arguments.h"
#include "request.h"

/* An error context that adds no context, but hides the statement. */
static void
hide_statement(void *arg)
{
	errhidestmt(true);
	errhidecontext(true);
}

/* Run the rest of a function with its statement hidden in errors. */
#define WITH_HIDDEN_STATEMENT() \
	ErrorContextCallback hidden = { \
		.previous = error_context_stack, .callback = hide_statement \
	}; \
	error_context_stack = &hidden

#define END_HIDDEN_STATEMENT() \
	error_context_stack = hidden.previous

/* A grant as a row; with the token if there is one. */
static Datum
grant_row(FunctionCallInfo fcinfo, const IdgenAnswer *answer,
		  const char *namespace_name, const char *token)
{
	TupleDesc	desc;
	Datum		values[7];
	bool		nulls[7] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int32GetDatum(answer->worker);
	values[1] = Int64GetDatum(answer->incarnation);
	values[2] = Int64GetDatum(answer->grant_id);
	values[3] = Int64GetDatum(answer->start_ms);
	values[4] = Int64GetDatum(answer->end_ms);
	values[5] = CStringGetTextDatum(namespace_name);
	if (token != NULL)
		values[6] = CStringGetTextDatum(token);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

PG_FUNCTION_INFO_V1(idgen_activate);
Datum
idgen_activate(PG_FUNCTION_ARGS)
{
	char		token[IDGEN_TOKEN_SIZE];
	IdgenAnswer answer;
	char	   *name;

	REQUIRE_ARG(0, "namespace");
	name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	idgen_request_activate(name, &answer, token);
	PG_RETURN_DATUM(grant_row(fcinfo, &answer, name, token));
}

/* Arguments of idgen_acquire_grant, in order. */
enum
{
	ACQUIRE_NAMESPACE, ACQUIRE_INCARNATION, ACQUIRE_REQUEST_ID, ACQUIRE_TOKEN,
	ACQUIRE_AFTER_GRANT, ACQUIRE_LENGTH
};

PG_FUNCTION_INFO_V1(idgen_acquire_grant);
Datum
idgen_acquire_grant(PG_FUNCTION_ARGS)
{
	IdgenClaim	claim;
	IdgenAnswer answer;
	char	   *name;
	WITH_HIDDEN_STATEMENT();

	REQUIRE_ARG(ACQUIRE_NAMESPACE, "namespace");
	REQUIRE_ARG(ACQUIRE_INCARNATION, "incarnation");
	REQUIRE_ARG(ACQUIRE_REQUEST_ID, "request_id");
	REQUIRE_ARG(ACQUIRE_TOKEN, "token");
	REQUIRE_ARG(ACQUIRE_AFTER_GRANT, "after_grant");
	name = text_to_cstring(PG_GETARG_TEXT_PP(ACQUIRE_NAMESPACE));
	claim.incarnation = PG_GETARG_INT64(ACQUIRE_INCARNATION);
	claim.request_id = *PG_GETARG_UUID_P(ACQUIRE_REQUEST_ID);
	claim.token = text_to_cstring(PG_GETARG_TEXT_PP(ACQUIRE_TOKEN));
	claim.after_grant = PG_GETARG_INT64(ACQUIRE_AFTER_GRANT);
	claim.length_ms = 0;
	if (!PG_ARGISNULL(ACQUIRE_LENGTH))
	{
		claim.length_ms =
			idgen_arguments_interval_ms(PG_GETARG_INTERVAL_P(ACQUIRE_LENGTH),
										"length");
		if (claim.length_ms == 0)
			idgen_arguments_invalid("length must be greater than 0", NULL);
	}
	idgen_request_acquire(name, &claim, &answer);
	END_HIDDEN_STATEMENT();
	PG_RETURN_DATUM(grant_row(fcinfo, &answer, name, NULL));
}

PG_FUNCTION_INFO_V1(idgen_deactivate);
Datum
idgen_deactivate(PG_FUNCTION_ARGS)
{
	WITH_HIDDEN_STATEMENT();

	REQUIRE_ARG(0, "incarnation");
	REQUIRE_ARG(1, "token");
	idgen_request_deactivate(PG_GETARG_INT64(0),
							 text_to_cstring(PG_GETARG_TEXT_PP(1)));
	END_HIDDEN_STATEMENT();
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(idgen_end_incarnation);
Datum
idgen_end_incarnation(PG_FUNCTION_ARGS)
{
	REQUIRE_ARG(0, "incarnation");
	idgen_request_end(PG_GETARG_INT64(0));
	PG_RETURN_VOID();
}
