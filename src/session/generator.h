/*
 * generator.h
 *		Issue IDs from the cursors of this server.
 */
#ifndef IDGEN_GENERATOR_H
#define IDGEN_GENERATOR_H

#include "postgres.h"

#include "deadline.h"
#include "session/session.h"

/* Consecutive IDs: first, first + 1, ... */
typedef struct IdgenIdRun
{
	int64		first;
	int32		count;
} IdgenIdRun;

extern int64 idgen_generator_next(IdgenSession *session);
extern int64 idgen_generator_next_until(IdgenSession *session, IdgenDeadline deadline);
extern IdgenIdRun *idgen_generator_batch(IdgenSession *session, int32 count,
										 IdgenDeadline deadline, int *run_count);

#endif							/* IDGEN_GENERATOR_H */
