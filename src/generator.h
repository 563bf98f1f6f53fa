/*
 * generator.h
 *		Issue IDs from the cursors of this server.
 */
#ifndef IDGEN_GENERATOR_H
#define IDGEN_GENERATOR_H

#include "postgres.h"

#include "namespace.h"

/* Consecutive IDs: first, first + 1, ... */
typedef struct IdgenIdRun
{
	int64		first;
	int32		count;
} IdgenIdRun;

extern IdgenNamespace *idgen_generator_open(const char *name, int name_length);
extern int64 idgen_generator_next(IdgenNamespace *ns);
extern IdgenIdRun *idgen_generator_batch(IdgenNamespace *ns, int32 count,
										 int *run_count);

#endif							/* IDGEN_GENERATOR_H */
