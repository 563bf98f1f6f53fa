/*
 * json.c
 *		Make a jsonb object, one key at a time.
 */
#include "compat.h"

#include "sql/json.h"

#include "utils/numeric.h"

/* Begin an object; the state is all zeroes. */
void
idgen_json_begin(IdgenJsonbState *state)
{
	idgen_jsonb_push(state, WJB_BEGIN_OBJECT, NULL);
}

static void
push_string(IdgenJsonbState *state, JsonbIteratorToken token, const char *string)
{
	JsonbValue	value;

	value.type = jbvString;
	value.val.string.val = pstrdup(string);
	value.val.string.len = (int) strlen(string);
	idgen_jsonb_push(state, token, &value);
}

/* Add a key with a string. */
void
idgen_json_string(IdgenJsonbState *state, const char *key, const char *string)
{
	push_string(state, WJB_KEY, key);
	push_string(state, WJB_VALUE, string);
}

/* Add a key with a number. */
void
idgen_json_number(IdgenJsonbState *state, const char *key, int64 number)
{
	JsonbValue	value;

	push_string(state, WJB_KEY, key);
	value.type = jbvNumeric;
	value.val.numeric = int64_to_numeric(number);
	idgen_jsonb_push(state, WJB_VALUE, &value);
}

/* End the object; returns the jsonb as a Datum. */
Datum
idgen_json_end(IdgenJsonbState *state)
{
	idgen_jsonb_push(state, WJB_END_OBJECT, NULL);
	return JsonbPGetDatum(JsonbValueToJsonb(state->result));
}
