/*
 * uuid.h
 *		Comparison of uuids.
 */
#ifndef IDGEN_UUID_H
#define IDGEN_UUID_H

#include "postgres.h"

#include "utils/uuid.h"

static inline bool
idgen_same_uuid(const pg_uuid_t *a, const pg_uuid_t *b)
{
	return memcmp(a->data, b->data, UUID_LEN) == 0;
}

#endif							/* IDGEN_UUID_H */
