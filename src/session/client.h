/*
 * client.h
 *		Client side of the requests to the authority other than issuing.
 */
#ifndef IDGEN_CLIENT_H
#define IDGEN_CLIENT_H

#include "postgres.h"

#include "shmem/request_queue.h"

extern void idgen_client_retire(const char *name);
extern void idgen_client_fence(const char *name, int64 above);
extern void idgen_client_adopt(const char *name, int64 above,
							   int32 first_worker, int32 last_worker);
extern void idgen_client_activate(const char *name, IdgenAnswer *answer,
								  char *token);
extern void idgen_client_acquire(const char *name, const IdgenRequest *asked,
								 const char *token, IdgenAnswer *answer);
extern void idgen_client_deactivate(int64 incarnation, const char *token);
extern void idgen_client_end(int64 incarnation);

#endif							/* IDGEN_CLIENT_H */
