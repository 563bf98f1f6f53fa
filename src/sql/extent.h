/*
 * extent.h
 *		The greatest values of a column and the least one.
 */
#ifndef IDGEN_EXTENT_H
#define IDGEN_EXTENT_H

#include "compat.h"

#include "sql/consumer.h"

/* How many of the greatest IDs are looked at. */
#define IDGEN_LAST_IDS 16

/* The ends of a column, by its index. */
typedef struct IdgenExtent
{
	int			count;
	int64		last[IDGEN_LAST_IDS];	/* the greatest ones, descending */
	int64		least;
	const char *unknown;		/* why nothing is known; NULL = it is known */
} IdgenExtent;

extern void idgen_extent_read(const IdgenConsumer *consumer, IdgenExtent *extent);

#endif							/* IDGEN_EXTENT_H */
