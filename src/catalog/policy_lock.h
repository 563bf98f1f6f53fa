/*
 * policy_lock.h
 *		The lock on the durability and the promotion policy of a namespace.
 */
#ifndef IDGEN_POLICY_LOCK_H
#define IDGEN_POLICY_LOCK_H

#include "postgres.h"

#include "deadline.h"
#include "error.h"

extern void idgen_policy_lock_name(const char *name);
extern bool idgen_policy_hold(const char *name, IdgenError *error);
extern void idgen_policy_let_go(void);
extern bool idgen_policy_lock_row(const char *name, IdgenDeadline deadline);
extern void idgen_policy_begin_change(const char *name, IdgenDeadline deadline);

#endif							/* IDGEN_POLICY_LOCK_H */
