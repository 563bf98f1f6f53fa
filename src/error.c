/*
 * error.c
 *		Turn errors that are values into error reports.
 */
#include "compat.h"

#include "error.h"

#include "mb/pg_wchar.h"

#include "clock.h"

/* What is said of each kind of error. */
typedef struct IdgenErrorText
{
	int			sqlstate;
	int			strength;		/* of two causes, the stronger one is reported */
	const char *message;		/* %s is the namespace */
	const char *nameless;		/* the message if the namespace is not known;
								 * NULL = it is always known */
	const char *detail;			/* unless the error brings its own; NULL =
								 * none */
	const char *hint;			/* likewise */
} IdgenErrorText;

#define HINT_SEE_LOG \
	"Retry; if the error persists, look for messages of the idgen authority process in the server log."

static const IdgenErrorText texts[IDGEN_ERROR_COUNT] = {
	[IDGEN_ERROR_CAPACITY] = {
		.sqlstate = ERRCODE_IDGEN_CAPACITY_EXHAUSTED,
		.strength = 1,
		.message = "all IDs that namespace \"%s\" can issue now are used up",
		.detail = "Every sequence value of the current tick is used up on every worker in use here.",
		.hint = "Retry, raise \"idgen.wait_timeout\" or \"idgen.max_workers_per_namespace\", or use a format with more sequence bits."
	},
	[IDGEN_ERROR_NO_WORKER] = {
		.sqlstate = ERRCODE_IDGEN_CAPACITY_EXHAUSTED,
		.strength = 2,
		.message = "no worker of namespace \"%s\" is free",
		.detail = "Every worker is reserved up to the horizon.",
		.hint = "Retry later, or use a format with more worker bits."
	},
	[IDGEN_ERROR_NOT_YET] = {
		.sqlstate = ERRCODE_IDGEN_NOT_YET_VALID,
		.strength = 3,
		.message = "namespace \"%s\" cannot issue IDs yet",
		.detail = "The first available grant starts in the future.",
		.hint = "Retry after that time, or raise \"idgen.wait_timeout\"."
	},
	[IDGEN_ERROR_GRANT] = {
		.sqlstate = ERRCODE_IDGEN_GRANT_EXHAUSTED,
		.strength = 4,
		.message = "no grant for namespace \"%s\" came in time",
		.detail = "The authority process did not answer, and no cause is known.",
		.hint = HINT_SEE_LOG
	},
	[IDGEN_ERROR_UNAVAILABLE] = {
		.sqlstate = ERRCODE_IDGEN_UNAVAILABLE,
		.strength = 5,
		.message = "namespace \"%s\" is unavailable",
		.nameless = "the authority of the incarnation is unavailable",
		.hint = HINT_SEE_LOG
	},
	[IDGEN_ERROR_CLOCK] = {
		.sqlstate = ERRCODE_IDGEN_CLOCK_ERROR,
		.strength = 6,
		.message = "the clock is behind the last ID of namespace \"%s\"",
		.detail = "The system clock has gone back; no ID is issued for a time already used.",
		.hint = "Check the time synchronization of the server. IDs are issued again when the clock has caught up; if the clock is already correct, call idgen_confirm_clock()."
	},
	[IDGEN_ERROR_CLOCK_AHEAD] = {
		.sqlstate = ERRCODE_IDGEN_CLOCK_ERROR,
		.strength = 7,
		.message = "the clock of namespace \"%s\" has been set forward too far",
		.hint = "Correct the system clock; if it is already correct, call idgen_confirm_clock()."
	},
	[IDGEN_ERROR_REJECTED] = {
		.sqlstate = ERRCODE_IDGEN_INCARNATION_REJECTED,
		.strength = 8,
		.message = "incarnation of namespace \"%s\" is rejected",
		.nameless = "incarnation is rejected",
		.hint = IDGEN_HINT_ACTIVATE
	},
	[IDGEN_ERROR_EXHAUSTED] = {
		.sqlstate = ERRCODE_IDGEN_NAMESPACE_EXHAUSTED,
		.strength = 9,
		.message = "the timestamp field of namespace \"%s\" is used up",
		.detail = "No later time fits its format.",
		.hint = "Create a namespace with a later epoch or more timestamp bits, and issue from it."
	},
	[IDGEN_ERROR_COPIED] = {
		.sqlstate = ERRCODE_IDGEN_AUTHORITY_UNCONFIRMED,
		.strength = 10,
		.message = "the authority of namespace \"%s\" is a copy that nobody has adopted",
		.hint = "Make sure that the original will never issue IDs again, then call idgen_adopt_namespace() for this namespace."
	},
	[IDGEN_ERROR_HANDED_OVER] = {
		.sqlstate = ERRCODE_IDGEN_AUTHORITY_UNCONFIRMED,
		.strength = 11,
		.message = "namespace \"%s\" was handed over",
		.detail = "It goes on where its ticket is adopted.",
		.hint = "Issue IDs there. To take the namespace back, make sure that no server adopts the ticket, then call idgen_adopt_namespace()."
	},
	[IDGEN_ERROR_RETIRED] = {
		.sqlstate = ERRCODE_IDGEN_NAMESPACE_RETIRED,
		.strength = 12,
		.message = "namespace \"%s\" is retired",
		.detail = "It will never issue IDs again; decoding still works.",
		.hint = "Issue from another namespace."
	},
	[IDGEN_ERROR_TOO_LATE] = {
		.sqlstate = ERRCODE_INVALID_PARAMETER_VALUE,
		.strength = 13,
		.message = "cannot fence namespace \"%s\" so far in the future",
		.hint = "If such IDs exist, retire the namespace and issue from a new one."
	},
	[IDGEN_ERROR_TICKET] = {
		.sqlstate = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
		.strength = 14,
		.message = "cannot adopt this ticket for namespace \"%s\""
	},
	[IDGEN_ERROR_OTHER_LENGTH] = {
		.sqlstate = ERRCODE_INVALID_PARAMETER_VALUE,
		.strength = 15,
		.message = "this request for namespace \"%s\" was already answered with another length",
		.detail = "A request ID stands for one request, including its length.",
		.hint = "Repeat the request with its original length, or use a new request ID for a new grant."
	},
	[IDGEN_ERROR_UNDEFINED] = {
		.sqlstate = ERRCODE_UNDEFINED_OBJECT,
		.strength = 16,
		.message = "namespace \"%s\" does not exist",
		.hint = "Create it with idgen_create_namespace()."
	},
	[IDGEN_ERROR_NOT_OWNER] = {
		.sqlstate = ERRCODE_INSUFFICIENT_PRIVILEGE,
		.strength = 17,
		.message = "must be owner of namespace \"%s\""
	},
	[IDGEN_ERROR_FORBIDDEN] = {
		.sqlstate = ERRCODE_INSUFFICIENT_PRIVILEGE,
		.strength = 18,
		.message = "permission denied for namespace \"%s\"",
		.nameless = "permission denied for incarnation"
	},
};

/* Fill in an error; a detail or hint that is NULL or "" is that of the kind. */
void
idgen_error_set(IdgenError *error, IdgenErrorKind kind,
				const char *detail, const char *hint)
{
	error->kind = kind;
	error->until_ms = 0;
	idgen_error_copy(error->detail, detail ? detail : "");
	idgen_error_copy(error->hint, hint ? hint : "");
}

/*
 * Copy a sentence to a place with room for IDGEN_ERROR_TEXT_MAX.  A sentence that is
 * too long is cut after a whole character: a client would refuse half of one.
 */
void
idgen_error_copy(char *to, const char *sentence)
{
	size_t		length = strlen(sentence);

	if (length >= IDGEN_ERROR_TEXT_MAX)
		length = pg_mbcliplen(sentence, (int) length, IDGEN_ERROR_TEXT_MAX - 1);
	memcpy(to, sentence, length);
	to[length] = '\0';
}

/* The SQLSTATE of a kind, as text; empty if the kind is no error. */
const char *
idgen_error_name(IdgenErrorKind kind)
{
	return texts[kind].message == NULL ? "" : unpack_sql_state(texts[kind].sqlstate);
}

/* Replace an error by another one if that is a stronger cause; true if it is. */
bool
idgen_error_strengthen(IdgenError *error, const IdgenError *other)
{
	if (texts[other->kind].strength <= texts[error->kind].strength)
		return false;
	*error = *other;
	return true;
}

/* The text that an error brings, or else that of its kind; empty if neither has one. */
static const char *
own_or_default(const char *own, const char *of_kind)
{
	return own[0] != '\0' ? own : of_kind != NULL ? of_kind : "";
}

/*
 * Raise an error.  The name of the namespace is empty if it is not known,
 * because the incarnation is not known.
 */
void
idgen_error_report(const IdgenError *error, const char *namespace_name)
{
	const IdgenErrorText *words = &texts[error->kind];
	const char *detail = own_or_default(error->detail, words->detail);
	const char *hint = own_or_default(error->hint, words->hint);
	bool		nameless = namespace_name[0] == '\0' && words->nameless != NULL;
	int64		left_ms = error->until_ms - idgen_clock_wall_ms();

	if (words->message == NULL)
		elog(ERROR, "unexpected idgen error kind %d", (int) error->kind);

	/* say when a retry can succeed, if that is known */
	if (error->until_ms != 0 && left_ms > 0)
		detail = psprintf("%s%sA retry can succeed in " IDGEN_SECONDS_FORMAT " seconds.",
						  detail, detail[0] ? " " : "", IDGEN_SECONDS_ARGS(left_ms));

	ereport(ERROR,
			(errcode(words->sqlstate),
			 nameless ? errmsg_internal("%s", words->nameless) :
			 errmsg(words->message, namespace_name),
			 detail[0] ? errdetail_internal("%s", detail) : 0,
			 hint[0] ? errhint("%s", hint) : 0));
}
