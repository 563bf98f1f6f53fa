/*
 * external.c
 *		SQL functions for external generators.
 *
 * When a function that takes a token fails, the statement and its context are kept out
 * of the server log, because they may contain the token.
 */
#include "compat.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "session/client.h"
#include "session/token.h"
#include "sql/arguments.h"

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

/*
 * The row type of a result.  The owner of type "idgen_acquired" can alter it, and a row
 * with other columns than those filled in here would crash the server.
 */
static TupleDesc
grant_row_type(FunctionCallInfo fcinfo, int column_count)
{
	static const Oid types[] = {
		INT4OID, INT8OID, INT8OID, INT8OID, INT8OID, TEXTOID, TEXTOID
	};
	TupleDesc	desc;
	bool		intact;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	intact = desc->natts == column_count;
	for (int i = 0; i < column_count && intact; i++)
		intact = TupleDescAttr(desc, i)->atttypid == types[i];
	if (!intact)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("type \"idgen_acquired\" does not have the columns that the extension gave it"),
				 errhint("Undo the change to the type.")));
	return BlessTupleDesc(desc);
}

/* A grant as a row, with the token if there is one. */
static Datum
grant_row(TupleDesc desc, const IdgenAnswer *answer,
		  const char *namespace_name, const char *token)
{
	Datum		values[7];
	bool		nulls[7] = {false};

	values[0] = Int32GetDatum(answer->worker);
	values[1] = Int64GetDatum(answer->incarnation);
	values[2] = Int64GetDatum(answer->grant_id);
	values[3] = Int64GetDatum(answer->start_ms);
	values[4] = Int64GetDatum(answer->end_ms);
	values[5] = CStringGetTextDatum(namespace_name);
	if (token != NULL)
		values[6] = CStringGetTextDatum(token);
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

PG_FUNCTION_INFO_V1(idgen_activate);
Datum
idgen_activate(PG_FUNCTION_ARGS)
{
	TupleDesc	desc = grant_row_type(fcinfo, 7);
	char		token[IDGEN_TOKEN_SIZE];
	IdgenAnswer answer;
	char	   *name;

	REQUIRE_ARG(0, "namespace");
	name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	idgen_client_activate(name, &answer, token);
	PG_RETURN_DATUM(grant_row(desc, &answer, name, token));
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
	TupleDesc	desc = grant_row_type(fcinfo, 6);
	IdgenRequest request;
	char	   *token;
	IdgenAnswer answer;
	char	   *name;

	WITH_HIDDEN_STATEMENT();

	REQUIRE_ARG(ACQUIRE_NAMESPACE, "namespace");
	REQUIRE_ARG(ACQUIRE_INCARNATION, "incarnation");
	REQUIRE_ARG(ACQUIRE_REQUEST_ID, "request_id");
	REQUIRE_ARG(ACQUIRE_TOKEN, "token");
	REQUIRE_ARG(ACQUIRE_AFTER_GRANT, "after_grant");
	name = text_to_cstring(PG_GETARG_TEXT_PP(ACQUIRE_NAMESPACE));
	memset(&request, 0, sizeof(request));
	request.incarnation = PG_GETARG_INT64(ACQUIRE_INCARNATION);
	request.request_id = *PG_GETARG_UUID_P(ACQUIRE_REQUEST_ID);
	token = text_to_cstring(PG_GETARG_TEXT_PP(ACQUIRE_TOKEN));
	request.after_grant = PG_GETARG_INT64(ACQUIRE_AFTER_GRANT);
	if (!PG_ARGISNULL(ACQUIRE_LENGTH))
	{
		request.length_ms =
			idgen_arguments_interval_ms(PG_GETARG_INTERVAL_P(ACQUIRE_LENGTH),
										"length");
		if (request.length_ms == 0)
			idgen_arguments_invalid("length must be greater than 0", NULL);
	}
	idgen_client_acquire(name, &request, token, &answer);
	END_HIDDEN_STATEMENT();
	PG_RETURN_DATUM(grant_row(desc, &answer, name, NULL));
}

PG_FUNCTION_INFO_V1(idgen_deactivate);
Datum
idgen_deactivate(PG_FUNCTION_ARGS)
{
	WITH_HIDDEN_STATEMENT();

	REQUIRE_ARG(0, "incarnation");
	REQUIRE_ARG(1, "token");
	idgen_client_deactivate(PG_GETARG_INT64(0),
							text_to_cstring(PG_GETARG_TEXT_PP(1)));
	END_HIDDEN_STATEMENT();
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(idgen_end_incarnation);
Datum
idgen_end_incarnation(PG_FUNCTION_ARGS)
{
	REQUIRE_ARG(0, "incarnation");
	idgen_client_end(PG_GETARG_INT64(0));
	PG_RETURN_VOID();
}
