/*
 * fence.h
 *		Who the authority of a namespace is: verify, fence, take over.
 */
#ifndef IDGEN_FENCE_H
#define IDGEN_FENCE_H

#include "postgres.h"

#include "failure.h"
#include "namespace.h"

typedef enum IdgenCustody
{
	IDGEN_CUSTODY_OURS,			/* granting may go on */
	IDGEN_CUSTODY_CHANGED,		/* taken over, perhaps fenced: under a new uuid */
	IDGEN_CUSTODY_REFUSED		/* see the failure */
} IdgenCustody;

extern IdgenCustody idgen_fence_verify(const IdgenNamespace *ns,
									   IdgenFailure *failure);
extern void idgen_fence_raise(const IdgenNamespace *ns, int64 above);
extern void idgen_fence_take_over(const IdgenNamespace *ns);

#endif							/* IDGEN_FENCE_H */
