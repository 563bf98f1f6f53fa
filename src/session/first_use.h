/*
 * first_use.h
 *		Issue IDs in the transaction that has created the namespace.
 */
#ifndef IDGEN_FIRST_USE_H
#define IDGEN_FIRST_USE_H

#include "postgres.h"

#include "error.h"
#include "session/session.h"

extern void idgen_first_use_begin(const char *namespace_name, const pg_uuid_t *uuid);
extern bool idgen_first_use_grant(IdgenSession *session, bool another_cursor,
								  IdgenError *error);

/* --- by at_commit.c: a drop of the extension, and the end of the transaction */
extern void idgen_first_use_drop(void);
extern void idgen_first_use_finish(void);
extern void idgen_first_use_roll_back(int nest_level);
extern void idgen_first_use_hand_up(int nest_level);
extern void idgen_first_use_forget(void);

#endif							/* IDGEN_FIRST_USE_H */
