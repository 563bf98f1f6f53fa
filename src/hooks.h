/*
 * hooks.h
 *		What idgen does when a database or the extension is dropped, marks are
 *		restored, or a policy changes.
 */
#ifndef IDGEN_HOOKS_H
#define IDGEN_HOOKS_H

#include "postgres.h"

extern void idgen_hooks_install(void);
extern void idgen_hooks_kill_at_commit(const char *namespace_name);

#endif							/* IDGEN_HOOKS_H */
