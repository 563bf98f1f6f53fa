/*
 * cause.h
 *		Why a call could not issue, as the error that it ends with.
 */
#ifndef IDGEN_CAUSE_H
#define IDGEN_CAUSE_H

#include "postgres.h"

#include "session/wait.h"

extern void idgen_cause_find_unasked(IdgenCall *call);
pg_noreturn extern void idgen_cause_report(IdgenCall *call, const IdgenPass *pass);
pg_noreturn extern void idgen_cause_raise(IdgenCall *call);

#endif							/* IDGEN_CAUSE_H */
