/*
 * arguments.c
 *		Check arguments of SQL functions.
 */
#include "compat.h"

#include "sql/arguments.h"

#include "common/int.h"
#include "utils/timestamp.h"

/* An error (22004) about an argument that must not be null. */
void
idgen_arguments_null(const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", what)));
}

/* An error (22023) about an argument; the hint may be NULL. */
void
idgen_arguments_invalid(const char *message, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg_internal("%s", message),
			 hint ? errhint("%s", hint) : 0));
}

/*
 * An interval in milliseconds, rounded up, so that no positive length becomes 0.
 * Raises an error (22023) if it is negative or contains months.
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
