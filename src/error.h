/*
 * error.h
 *		SQLSTATEs of idgen, and the one place where they become messages.
 *
 * A failure is a value: the authority worker stores it in shared memory for
 * the backend that waits, which reports it.  The kinds ascend in strength, so
 * that of two causes the greater is reported.
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

/* Weakest first. */
typedef enum IdgenErrorKind
{
	IDGEN_ERROR_NONE,
	IDGEN_ERROR_CAPACITY,		/* IG003: every sequence value usable now is
								 * spent */
	IDGEN_ERROR_NO_WORKER,	/* IG003: every worker is reserved past the
								 * horizon; until_ms */
	IDGEN_ERROR_NOT_YET,		/* IG001; until_ms */
	IDGEN_ERROR_GRANT,		/* IG002: no grant came, no cause is known */
	IDGEN_ERROR_UNAVAILABLE,	/* IG005; detail names the cause */
	IDGEN_ERROR_CLOCK,		/* IG004: behind; until_ms */
	IDGEN_ERROR_CLOCK_AHEAD,	/* IG004: set forward, and not believed */
	IDGEN_ERROR_REJECTED,		/* IG008; detail names the cause */
	IDGEN_ERROR_EXHAUSTED,	/* IG006 */
	IDGEN_ERROR_COPIED,		/* IG007; detail names what was found */
	IDGEN_ERROR_RETIRED,		/* IG009 */
	IDGEN_ERROR_TOO_LATE,		/* 22023: an ID to fence above; detail names it */
	IDGEN_ERROR_OTHER_LENGTH,	/* 22023: a request repeated with another length */
	IDGEN_ERROR_UNDEFINED,	/* 42704: the namespace is gone */
	IDGEN_ERROR_NOT_OWNER,	/* 42501: not the namespace's owner */
	IDGEN_ERROR_FORBIDDEN		/* 42501; detail names the privilege */
} IdgenErrorKind;

#define IDGEN_ERROR_TEXT_MAX 256

/* Kept in shared memory: no pointers. */
typedef struct IdgenError
{
	IdgenErrorKind kind;
	int64		until_ms;		/* Unix ms from which a retry can succeed; 0 if
								 * not known */
	char		detail[IDGEN_ERROR_TEXT_MAX]; /* a sentence, or empty */
	char		hint[IDGEN_ERROR_TEXT_MAX];	/* a sentence, or empty for the
												 * kind's own */
} IdgenError;

extern void idgen_error_set(IdgenError *error, IdgenErrorKind kind,
							  const char *detail, const char *hint);
extern void idgen_error_copy(char *to, const char *words);
extern const char *idgen_error_name(IdgenErrorKind kind);
extern void idgen_error_strengthen(IdgenError *error,
									 const IdgenError *other);
/* The name may be empty where the namespace is not known. */
pg_noreturn extern void idgen_error_report(const IdgenError *error,
											 const char *namespace_name);

#endif							/* IDGEN_ERROR_H */
