/*
 * generator.h
 *		Issue IDs from the cursors of this server.
 */
#ifndef IDGEN_GENERATOR_H
#define IDGEN_GENERATOR_H

#include "postgres.h"

#include "catalog/namespace_cache.h"

/* Consecutive IDs: first, first + 1, ... */
typedef struct IdgenIdRun
{
	int64		first;
	int32		count;
} IdgenIdRun;

extern IdgenNamespace *idgen_generator_open(const char *name, int name_length,
											int64 *until_us);
extern int64 idgen_generator_next(IdgenNamespace *ns);
extern int64 idgen_generator_first(IdgenNamespace *ns, int64 until_us);
extern IdgenIdRun *idgen_generator_batch(IdgenNamespace *ns, int32 count,
										 int64 until_us, int *run_count);

#endif							/* IDGEN_GENERATOR_H */
