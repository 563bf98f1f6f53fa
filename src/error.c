/*
 * error.c
 *		Turn failures into error reports.
 */
#include "compat.h"

#include "error.h"

#include "mb/pg_wchar.h"

#include "clock.h"
#include "settings.h"

/* Hint of a kind when the failure brings none of its own. */
typedef struct IdgenErrorText
{
	int			sqlstate;
	const char *message;		/* %s is the namespace */
	const char *detail;
	const char *hint;
} IdgenErrorText;

static IdgenErrorText
error_text(IdgenErrorKind kind)
{
	switch (kind)
	{
		case IDGEN_ERROR_NONE:
			break;
		case IDGEN_ERROR_CAPACITY:
			return (IdgenErrorText)
			{
				ERRCODE_IDGEN_CAPACITY_EXHAUSTED,
					"all IDs that namespace \"%s\" can issue now are used up",
					"Every sequence value of the current tick is spent on every worker in use here.",
					"Retry, raise \"idgen.wait_timeout\" or \"idgen.max_workers_per_namespace\", or use a format with more sequence bits."
			};
		case IDGEN_ERROR_NO_WORKER:
			return (IdgenErrorText)
			{
				ERRCODE_IDGEN_CAPACITY_EXHAUSTED,
					"no worker of namespace \"%s\" is free",
					"Every worker number is reserved up to the horizon.",
					"Retry later, or use a format with more worker bits."
			};
		case IDGEN_ERROR_NOT_YET:
			return (IdgenErrorText)
			{
				ERRCODE_IDGEN_NOT_YET_VALID,
					"namespace \"%s\" cannot issue IDs yet",
					"The first grant available starts later than the clock.",
					"Retry then, or raise \"idgen.wait_timeout\"."
			};
		case IDGEN_ERROR_GRANT:
			return (IdgenErrorText)
			{
				ERRCODE_IDGEN_GRANT_EXHAUSTED,
					"no grant for namespace \"%s\" came in time",
					"The authority process did not answer, and no cause is known.",
					"Retry; if it goes on, look for messages of the idgen authority in the server log."
			};
		case IDGEN_ERROR_UNAVAILABLE:
			return (IdgenErrorText)
			{
				ERRCODE_IDGEN_UNAVAILABLE,
					"namespace \"%s\" is unavailable",
					"",
					"Retry; if it goes on, look for messages of the idgen authority in the server log."
			};
		case IDGEN_ERROR_CLOCK:
			return (IdgenErrorText)
			{
				ERRCODE_IDGEN_CLOCK_ERROR,
					"the clock is behind the last ID of namespace \"%s\"",
					"The system clock has gone back; no ID is issued for a time already used.",
					"Check the time synchronization of the server. Service returns when the clock has caught up; if it is right now, call idgen_confirm_clock()."
			};
		case IDGEN_ERROR_CLOCK_AHEAD:
			return (IdgenErrorText)
			{
				ERRCODE_IDGEN_CLOCK_ERROR,
					"the clock of namespace \"%s\" has been set forward too far",
					"",
					"Correct the system clock: service returns with it. If it is right now, call idgen_confirm_clock()."
			};
		case IDGEN_ERROR_REJECTED:
			return (IdgenErrorText)
			{
				ERRCODE_IDGEN_INCARNATION_REJECTED,
					"incarnation of namespace \"%s\" is rejected",
					"",
					"Activate a fresh incarnation with idgen_activate()."
			};
		case IDGEN_ERROR_EXHAUSTED:
			return (IdgenErrorText)
			{
				ERRCODE_IDGEN_NAMESPACE_EXHAUSTED,
					"the timestamp field of namespace \"%s\" is used up",
					"No later time fits its format.",
					"Create a namespace with a later epoch or more timestamp bits, and issue from it."
			};
		case IDGEN_ERROR_COPIED:
			return (IdgenErrorText)
			{
				ERRCODE_IDGEN_AUTHORITY_UNCONFIRMED,
					"the authority of namespace \"%s\" is a copy that nobody has adopted",
					"",
					"Make sure that the original will never issue IDs again, then call idgen_adopt_namespace() with its name."
			};
		case IDGEN_ERROR_RETIRED:
			return (IdgenErrorText)
			{
				ERRCODE_IDGEN_NAMESPACE_RETIRED,
					"namespace \"%s\" is retired",
					"It issues no more IDs, for ever; decoding goes on.",
					"Issue from another namespace."
			};
		case IDGEN_ERROR_TOO_LATE:
			return (IdgenErrorText)
			{
				ERRCODE_INVALID_PARAMETER_VALUE,
					"cannot fence namespace \"%s\" so far in the future",
					"",
					"If there are such IDs, retire the namespace and issue from a fresh one."
			};
		case IDGEN_ERROR_OTHER_LENGTH:
			return (IdgenErrorText)
			{
				ERRCODE_INVALID_PARAMETER_VALUE,
					"this request for namespace \"%s\" was answered for another length",
					"A request id stands for one request with all that it asks for.",
					"Repeat the request with the length it had, or use a new request id for a new grant."
			};
		case IDGEN_ERROR_UNDEFINED:
			return (IdgenErrorText)
			{
				ERRCODE_UNDEFINED_OBJECT,
					"namespace \"%s\" does not exist",
					"",
					"Create it with idgen_create_namespace()."
			};
		case IDGEN_ERROR_NOT_OWNER:
			return (IdgenErrorText)
			{
				ERRCODE_INSUFFICIENT_PRIVILEGE,
					"must be owner of namespace \"%s\"",
					"",
					""
			};
		case IDGEN_ERROR_FORBIDDEN:
			return (IdgenErrorText)
			{
				ERRCODE_INSUFFICIENT_PRIVILEGE,
					"permission denied for namespace \"%s\"",
					"",
					""
			};
	}
	elog(ERROR, "unexpected idgen failure kind %d", (int) kind);
}

/* Fill in a failure; NULL or "" texts stand for the kind's own. */
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
 * Copy a sentence to a place with room for IDGEN_ERROR_TEXT_MAX.  What is too long is
 * cut after a whole character: a client would refuse half of one.
 */
void
idgen_error_copy(char *to, const char *words)
{
	size_t		length = strlen(words);

	if (length >= IDGEN_ERROR_TEXT_MAX)
		length = pg_mbcliplen(words, (int) length, IDGEN_ERROR_TEXT_MAX - 1);
	memcpy(to, words, length);
	to[length] = '\0';
}

/* The SQLSTATE of a kind, as text. */
const char *
idgen_error_name(IdgenErrorKind kind)
{
	if (kind == IDGEN_ERROR_NONE)
		return "";
	return unpack_sql_state(error_text(kind).sqlstate);
}

/* Replace a failure by another if that one is a stronger cause. */
void
idgen_error_strengthen(IdgenError *error, const IdgenError *other)
{
	if (other->kind > error->kind)
		*error = *other;
}

/* Raise a failure as an error. */
void
idgen_error_report(const IdgenError *error, const char *namespace_name)
{
	IdgenErrorText words = error_text(error->kind);
	const char *detail = error->detail[0] ? error->detail : words.detail;
	const char *hint = error->hint[0] ? error->hint : words.hint;
	int64		left_ms = error->until_ms - idgen_clock_wall_ms();

	/* with an incarnation alone, the namespace may be unknown */
	if (namespace_name[0] == '\0' && error->kind == IDGEN_ERROR_REJECTED)
		words.message = "incarnation is rejected";
	else if (namespace_name[0] == '\0' && error->kind == IDGEN_ERROR_FORBIDDEN)
		words.message = "permission denied for incarnation";
	else if (namespace_name[0] == '\0' && error->kind == IDGEN_ERROR_UNAVAILABLE)
		words.message = "the authority of the incarnation is unavailable";

	/* a formatted wait only where somebody knows it */
	if (error->until_ms != 0 && left_ms > 0)
		detail = psprintf("%s%sIt can succeed in " INT64_FORMAT ".%03d seconds.",
						  detail, detail[0] ? " " : "",
						  left_ms / 1000, (int) (left_ms % 1000));

	ereport(ERROR,
			(errcode(words.sqlstate),
			 errmsg(words.message, namespace_name),
			 detail[0] ? errdetail_internal("%s", detail) : 0,
			 hint[0] ? errhint("%s", hint) : 0));
}
