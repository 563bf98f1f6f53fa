/*
 * at_commit.h
 *		Kill the cursors that must not issue once a transaction has committed.
 */
#ifndef IDGEN_AT_COMMIT_H
#define IDGEN_AT_COMMIT_H

#include "postgres.h"

extern void idgen_at_commit_install(void);
extern void idgen_at_commit_kill(const char *namespace_name);
extern int64 idgen_at_commit_dropped_until(const char *namespace_name);

#endif							/* IDGEN_AT_COMMIT_H */
