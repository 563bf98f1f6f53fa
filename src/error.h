/*
 * error.h
 *		Errors as values, and their SQLSTATEs.
 *
 * The authority process stores an error in shared memory for the backend that
 * waits; the backend reports it.
 */
#ifndef IDGEN_ERROR_H
#define IDGEN_ERROR_H

#include "compat.h"

#define ERRCODE_IDGEN_NOT_YET_VALID			MAKE_SQLSTATE('I','G','0','0','1')
#define ERRCODE_IDGEN_GRANT_EXHAUSTED		MAKE_SQLSTATE('I','G','0','0','2')
#define ERRCODE_IDGEN_CAPACITY_EXHAUSTED	MAKE_SQLSTATE('I','G','0','0','3')
#define ERRCODE_IDGEN_CLOCK_ERROR			MAKE_SQLSTATE('I','G','0','0','4')
#define ERRCODE_IDGEN_UNAVAILABLE			MAKE_SQLSTATE('I','G','0','0','5')
#define ERRCODE_IDGEN_NAMESPACE_EXHAUSTED	MAKE_SQLSTATE('I','G','0','0','6')
#define ERRCODE_IDGEN_AUTHORITY_UNCONFIRMED MAKE_SQLSTATE('I','G','0','0','7')
#define ERRCODE_IDGEN_INCARNATION_REJECTED	MAKE_SQLSTATE('I','G','0','0','8')
#define ERRCODE_IDGEN_NAMESPACE_RETIRED		MAKE_SQLSTATE('I','G','0','0','9')

/*
 * What went wrong, from the weakest cause to the strongest.  Texts, SQLSTATEs
 * and strengths are in a table in error.c.
 */
typedef enum IdgenErrorKind
{
	IDGEN_ERROR_NONE,
	IDGEN_ERROR_CAPACITY,		/* every sequence value usable now is spent */
	IDGEN_ERROR_NO_WORKER,		/* every worker is reserved up to the horizon;
								 * until_ms */
	IDGEN_ERROR_NOT_YET,		/* a grant starts later; until_ms */
	IDGEN_ERROR_GRANT,			/* no grant came, and no cause is known */
	IDGEN_ERROR_UNAVAILABLE,	/* the detail names the cause */
	IDGEN_ERROR_CLOCK,			/* the clock is behind; until_ms */
	IDGEN_ERROR_CLOCK_AHEAD,	/* the clock was set forward, and is not
								 * believed */
	IDGEN_ERROR_REJECTED,		/* an incarnation; the detail names the cause */
	IDGEN_ERROR_EXHAUSTED,		/* the timestamp field */
	IDGEN_ERROR_COPIED,			/* the detail names what was found */
	IDGEN_ERROR_HANDED_OVER,	/* the namespace */
	IDGEN_ERROR_RETIRED,		/* the namespace */
	IDGEN_ERROR_TOO_LATE,		/* the ID to fence above is too far in the
								 * future; the detail names it */
	IDGEN_ERROR_TICKET,			/* it cannot be adopted here; the detail names
								 * the cause */
	IDGEN_ERROR_OTHER_LENGTH,	/* a request was repeated with another length */
	IDGEN_ERROR_UNDEFINED,		/* the namespace is gone */
	IDGEN_ERROR_NOT_OWNER,		/* of the namespace */
	IDGEN_ERROR_FORBIDDEN		/* the detail names the privilege */
} IdgenErrorKind;

#define IDGEN_ERROR_COUNT (IDGEN_ERROR_FORBIDDEN + 1)

#define IDGEN_ERROR_TEXT_MAX 256

/* Kept in shared memory: no pointers.  Details and hints are sentences. */
typedef struct IdgenError
{
	IdgenErrorKind kind;
	int64		until_ms;		/* Unix ms from which a retry can succeed; 0
								 * if not known */
	char		detail[IDGEN_ERROR_TEXT_MAX];	/* empty = that of the kind */
	char		hint[IDGEN_ERROR_TEXT_MAX]; /* empty = that of the kind */
} IdgenError;

/* Details and hints that are given in several places. */
#define IDGEN_DETAIL_NO_IDENTITY \
	"Its identity is missing, as after a restore of its marks."
#define IDGEN_DETAIL_MARKS_DAMAGED \
	"Its high-water marks were changed from outside: they do not add up to what was granted."
#define IDGEN_DETAIL_POOL_FULL \
	"All idgen cursors of this server are in use, and this database or the owner of the namespace already has its share."
#define IDGEN_HINT_POOL_FULL \
	"Raise \"idgen.max_cursors\", which needs a restart, or lower \"idgen.max_workers_per_namespace\"."
#define IDGEN_DETAIL_FORMAT_CHANGED \
	"Its format was changed from outside."
#define IDGEN_HINT_FORMAT_CHANGED \
	"Undo the change: IDs of two formats cannot be told apart."
#define IDGEN_DETAIL_ROW_CHANGED \
	"Its row in table \"idgen_namespace\" was changed from outside."
#define IDGEN_HINT_ROW_CHANGED \
	"Undo the change. If the row is right as it is, or nobody knows what it was, call idgen_fence_namespace(), which accepts it."
#define IDGEN_HINT_ROW_LOST \
	"Create it with idgen_create_namespace() in the format that it had, then call idgen_fence_namespace() with the greatest ID known as \"above\"."
#define IDGEN_DETAIL_NOT_HOLDER \
	"The incarnation is unknown, the token does not belong to it, or another role activated it."
#define IDGEN_HINT_ACTIVATE \
	"Activate a fresh incarnation with idgen_activate()."
#define IDGEN_DETAIL_SINGLE_USER \
	"There are no background workers in single-user mode."
#define IDGEN_HINT_SINGLE_USER \
	"Start the server normally."
#define IDGEN_HINT_ALLOW \
	"The owner of the namespace can grant the privilege with idgen_allow()."

/* Milliseconds as seconds with three decimals, for printf. */
#define IDGEN_SECONDS_FORMAT	INT64_FORMAT ".%03d"
#define IDGEN_SECONDS_ARGS(ms)	(ms) / 1000, (int) ((ms) % 1000)

/* No error, until one is set. */
static inline void
idgen_error_clear(IdgenError *error)
{
	error->kind = IDGEN_ERROR_NONE;
	error->until_ms = 0;
	error->detail[0] = '\0';
	error->hint[0] = '\0';
}

extern void idgen_error_set(IdgenError *error, IdgenErrorKind kind,
							const char *detail, const char *hint);
extern void idgen_error_copy(char *to, const char *sentence);
extern const char *idgen_error_name(IdgenErrorKind kind);
extern bool idgen_error_strengthen(IdgenError *error, const IdgenError *other);
pg_noreturn extern void idgen_error_report(const IdgenError *error,
										   const char *namespace_name);

#endif							/* IDGEN_ERROR_H */
