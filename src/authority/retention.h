/*
 * retention.h
 *		Keep the record of grants and incarnations from growing without bound.
 */
#ifndef IDGEN_RETENTION_H
#define IDGEN_RETENTION_H

#include "postgres.h"

struct IdgenAuthority;

/* When each part is due, on the monotonic clock; 0 = at once. */
typedef struct IdgenRetention
{
	int64		due_us;
	int64		incarnations_due_us;
} IdgenRetention;

extern void idgen_retention_run(struct IdgenAuthority *authority);

#endif							/* IDGEN_RETENTION_H */
