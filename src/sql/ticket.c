/*
 * ticket.c
 *		The ticket of a hand-over as a jsonb object.
 */
#include "compat.h"

#include "sql/ticket.h"

#include <errno.h>

#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"

#include "sql/json.h"

/* The keys of a ticket. */
#define KEY_NUMBER	"ticket"
#define KEY_LINEAGE	"lineage"
#define KEY_FORMAT	"format"
#define KEY_ID		"greatest_id"
#define KEY_COUNT	4

/* Of a uuid as PostgreSQL writes it. */
#define UUID_LENGTH	36

static void
malformed(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("this is not a ticket of idgen_hand_over_namespace()"),
			 errdetail_internal("%s", what),
			 errhint("Pass the ticket as that function has returned it.")));
}

/* The value of a key, which must be a string; palloc'd. */
static char *
string_of(Jsonb *ticket, const char *key)
{
	JsonbValue	found;

	if (getKeyJsonValueFromContainer(&ticket->root, key, (int) strlen(key), &found) == NULL)
		malformed(psprintf("The key \"%s\" is missing.", key));
	if (found.type != jbvString)
		malformed(psprintf("The value of \"%s\" is not a string.", key));
	return pnstrdup(found.val.string.val, found.val.string.len);
}

static pg_uuid_t
uuid_of(Jsonb *ticket, const char *key)
{
	char	   *value = string_of(ticket, key);

	if (strlen(value) != UUID_LENGTH || strspn(value, "0123456789abcdef-") != UUID_LENGTH)
		malformed(psprintf("The value of \"%s\" is not a uuid.", key));
	for (int i = 0; i < UUID_LENGTH; i++)
		if ((value[i] == '-') != (i == 8 || i == 13 || i == 18 || i == 23))
			malformed(psprintf("The value of \"%s\" is not a uuid.", key));
	return *DatumGetUUIDP(DirectFunctionCall1(uuid_in, CStringGetDatum(value)));
}

static int64
id_of(Jsonb *ticket, const char *key)
{
	char	   *value = string_of(ticket, key);
	char	   *end;
	int64		id;

	errno = 0;
	id = strtoi64(value, &end, 10);
	if (errno != 0 || value[0] < '0' || value[0] > '9' || *end != '\0')
		malformed(psprintf("The value of \"%s\" is not an ID.", key));
	return id;
}

/* Read a ticket; an error (22023) if it is none. */
void
idgen_ticket_read(Jsonb *jsonb, IdgenTicketText *ticket)
{
	if (!JB_ROOT_IS_OBJECT(jsonb) || JB_ROOT_COUNT(jsonb) != KEY_COUNT)
		malformed("A ticket is an object with 4 keys.");
	ticket->hand_over.number = uuid_of(jsonb, KEY_NUMBER);
	if (idgen_hand_over_is_none(&ticket->hand_over))
		malformed("Its number is not random.");
	ticket->hand_over.greatest_id = id_of(jsonb, KEY_ID);
	ticket->lineage = uuid_of(jsonb, KEY_LINEAGE);
	strlcpy(ticket->format, string_of(jsonb, KEY_FORMAT), IDGEN_FORMAT_MAX);
}

static char *
uuid_text(const pg_uuid_t *uuid)
{
	return DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(uuid)));
}

/* The jsonb of a ticket. */
Datum
idgen_ticket_write(const IdgenTicketText *ticket)
{
	IdgenJsonbState state = {0};

	idgen_json_begin(&state);
	idgen_json_string(&state, KEY_NUMBER, uuid_text(&ticket->hand_over.number));
	idgen_json_string(&state, KEY_LINEAGE, uuid_text(&ticket->lineage));
	idgen_json_string(&state, KEY_FORMAT, ticket->format);
	idgen_json_string(&state, KEY_ID, psprintf(INT64_FORMAT, ticket->hand_over.greatest_id));
	return idgen_json_end(&state);
}
