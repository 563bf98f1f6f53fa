/*
 * fence.h
 *		Who the authority of a namespace is: verify, fence, take over.
 */
#ifndef IDGEN_FENCE_H
#define IDGEN_FENCE_H

#include "postgres.h"

#include "error.h"
#include "catalog/namespace_cache.h"

typedef enum IdgenOwnership
{
	IDGEN_OWNERSHIP_OURS,			/* granting may go on */
	IDGEN_OWNERSHIP_CHANGED,		/* taken over, perhaps fenced: under a new uuid */
	IDGEN_OWNERSHIP_REFUSED		/* see the failure */
} IdgenOwnership;

extern IdgenOwnership idgen_fence_verify(const IdgenNamespace *ns,
									   IdgenError *error);
extern void idgen_fence_raise(const IdgenNamespace *ns, int64 above);
extern void idgen_fence_take_over(const IdgenNamespace *ns);

#endif							/* IDGEN_FENCE_H */
