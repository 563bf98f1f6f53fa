/*
 * random.h
 *		Random identifiers: uuids and numbers.
 */
#ifndef IDGEN_RANDOM_H
#define IDGEN_RANDOM_H

#include "postgres.h"

#include "utils/uuid.h"

static inline bool
idgen_same_uuid(const pg_uuid_t *a, const pg_uuid_t *b)
{
	return memcmp(a->data, b->data, UUID_LEN) == 0;
}

extern void idgen_random_uuid(pg_uuid_t *uuid);
extern int64 idgen_random_number(void);

#endif							/* IDGEN_RANDOM_H */
