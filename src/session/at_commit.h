/*
 * at_commit.h
 *		What idgen does when a database or the extension is dropped, marks are
 *		restored, or a policy changes.
 */
#ifndef IDGEN_AT_COMMIT_H
#define IDGEN_AT_COMMIT_H

#include "postgres.h"

extern void idgen_at_commit_install(void);
extern void idgen_at_commit_kill(const char *namespace_name);

#endif							/* IDGEN_AT_COMMIT_H */
