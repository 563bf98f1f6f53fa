/*
 * clock.c
 *		SQL function by which an operator confirms the system clock.
 */
#include "compat.h"

#include "fmgr.h"

#include "shmem/clock_judge.h"
#include "shmem/shmem.h"

/* Takes effect at once, whatever becomes of the caller's transaction. */
PG_FUNCTION_INFO_V1(idgen_confirm_clock);
Datum
idgen_confirm_clock(PG_FUNCTION_ARGS)
{
	idgen_require_preloaded();
	idgen_clock_judge_accept();
	ereport(LOG,
			(errmsg("the system clock was confirmed with idgen_confirm_clock()")));
	PG_RETURN_VOID();
}
