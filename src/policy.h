/*
 * policy.h
 *		The lock under which an answer is judged by a namespace's policy.
 */
#ifndef IDGEN_POLICY_H
#define IDGEN_POLICY_H

#include "postgres.h"

#include "failure.h"

extern bool idgen_policy_hold(const char *name, IdgenFailure *failure);
extern void idgen_policy_let_go(void);
extern bool idgen_policy_lock_row(const char *name, int64 until_us);
extern void idgen_policy_begin_change(const char *name, int64 until_us);

#endif							/* IDGEN_POLICY_H */
