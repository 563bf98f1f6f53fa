/*
 * identity.h
 *		Where this authority lives: what tells a server and a database from
 *		their copies (DESIGN 8).
 */
#ifndef IDGEN_IDENTITY_H
#define IDGEN_IDENTITY_H

#include "postgres.h"

#include "utils/uuid.h"

#include "core/takeover.h"

static inline bool
idgen_same_uuid(const pg_uuid_t *a, const pg_uuid_t *b)
{
	return memcmp(a->data, b->data, UUID_LEN) == 0;
}

extern void idgen_identity_read_control(uint64 *inode, int64 *birth_ns);
extern void idgen_identity_read(IdgenIdentity *identity);
extern void idgen_identity_read_history(IdgenPromotionFacts *facts);
extern void idgen_identity_make_uuid(pg_uuid_t *uuid);
extern int64 idgen_identity_make_number(void);

#endif							/* IDGEN_IDENTITY_H */
