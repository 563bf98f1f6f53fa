/*
 * fence.h
 *		Compare a namespace with its record, fence it, take it over.
 */
#ifndef IDGEN_FENCE_H
#define IDGEN_FENCE_H

#include "postgres.h"

#include "catalog/namespace_cache.h"
#include "error.h"

typedef enum IdgenOwnership
{
	IDGEN_OWNERSHIP_OURS,		/* granting may go on */
	IDGEN_OWNERSHIP_CHANGED,	/* it was taken over, and perhaps fenced */
	IDGEN_OWNERSHIP_REFUSED		/* see the error */
} IdgenOwnership;

extern IdgenOwnership idgen_fence_verify(const IdgenNamespace *ns,
										 IdgenError *error);
extern bool idgen_fence_is_here(const IdgenNamespace *ns);
extern void idgen_fence_raise(const IdgenNamespace *ns, int64 above);
extern void idgen_fence_take_over(const IdgenNamespace *ns);

#endif							/* IDGEN_FENCE_H */
