/*
 * hand_over.h
 *		Hand a namespace over, and adopt one by a ticket.
 */
#ifndef IDGEN_AUTHORITY_HAND_OVER_H
#define IDGEN_AUTHORITY_HAND_OVER_H

#include "postgres.h"

#include "authority/fence.h"
#include "catalog/namespace_cache.h"
#include "shmem/request_queue.h"

/* What a ticket means for a namespace that is asked to adopt it. */
typedef enum IdgenTicketUse
{
	IDGEN_TICKET_MOVE,			/* it goes on here, at once */
	IDGEN_TICKET_USED,			/* it was adopted here before */
	IDGEN_TICKET_FENCE,			/* it was given here, or may have been */
	IDGEN_TICKET_REFUSED		/* see the error */
} IdgenTicketUse;

extern IdgenOwnership idgen_hand_over_give(IdgenNamespace *ns, IdgenHandOver *ticket,
										   IdgenError *error);
extern IdgenTicketUse idgen_hand_over_judge(const IdgenNamespace *ns,
											const IdgenRequest *request,
											IdgenError *error);
extern void idgen_hand_over_take(IdgenNamespace *ns, const IdgenRequest *request,
								 int64 above);

#endif							/* IDGEN_AUTHORITY_HAND_OVER_H */
