/*
 * client.h
 *		Ask the authority for what is not an ID.
 */
#ifndef IDGEN_CLIENT_H
#define IDGEN_CLIENT_H

#include "postgres.h"

#include "utils/uuid.h"

#include "shmem/request_queue.h"

/* 128 random bits in hexadecimal digits, and a terminator. */
#define IDGEN_TOKEN_SIZE	33

/* What an external generator says of itself with every request. */
typedef struct IdgenClaim
{
	int64		incarnation;
	pg_uuid_t	request_id;
	const char *token;
	int64		after_grant;
	int64		length_ms;		/* 0 = the namespace's grant interval */
} IdgenClaim;

extern void idgen_client_retire(const char *name);
extern void idgen_client_fence(const char *name, int64 above);
extern void idgen_client_adopt(const char *name, int64 above,
								int32 first_worker, int32 last_worker);
extern void idgen_client_activate(const char *name, IdgenAnswer *answer,
								   char *token);
extern void idgen_client_acquire(const char *name, const IdgenClaim *claim,
								  IdgenAnswer *answer);
extern void idgen_client_deactivate(int64 incarnation, const char *token);
extern void idgen_client_end(int64 incarnation);

#endif							/* IDGEN_CLIENT_H */
