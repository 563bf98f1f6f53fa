/*
 * arguments.c
 *		Check arguments of SQL functions.
 */
#include "compat.h"

#include "sql/arguments.h"

#include "common/int.h"
#include "utils/timestamp.h"

/* An argument is null that must not be. */
void
idgen_arguments_null(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", what)));
}

/* An argument is invalid; the hint may be NULL. */
void
idgen_arguments_invalid(const char *message, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg_internal("%s", message),
			 hint ? errhint("%s", hint) : 0));
}

/*
 * An interval as milliseconds, rounded up, so that no positive length becomes
 * nothing; an error if it has months or is negative.
 */
int64
idgen_arguments_interval_ms(const Interval *interval, const char *what)
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
	return us / 1000 + (us % 1000 != 0 ? 1 : 0);
}
