/*
 * client.h
 *		Client side of the requests to the authority other than issuing.
 */
#ifndef IDGEN_CLIENT_H
#define IDGEN_CLIENT_H

#include "postgres.h"

#include "catalog/rows.h"
#include "shmem/request_queue.h"

/* All that a ticket says. */
typedef struct IdgenTicketText
{
	IdgenHandOver hand_over;
	pg_uuid_t	lineage;
	char		format[IDGEN_FORMAT_MAX];
} IdgenTicketText;

extern void idgen_client_retire(const char *name);
extern void idgen_client_fence(const char *name, int64 above);
extern void idgen_client_adopt(const char *name, int64 above,
							   int32 first_worker, int32 last_worker,
							   const IdgenTicketText *ticket);
extern void idgen_client_hand_over(const char *name, IdgenTicketText *ticket);
extern void idgen_client_activate(const char *name, IdgenAnswer *answer,
								  char *token);
extern void idgen_client_acquire(const char *name, const IdgenRequest *asked,
								 const char *token, IdgenAnswer *answer);
extern void idgen_client_deactivate(int64 incarnation, const char *token);
extern void idgen_client_end(int64 incarnation);

#endif							/* IDGEN_CLIENT_H */
