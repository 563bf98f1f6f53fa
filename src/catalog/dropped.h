/*
 * dropped.h
 *		What namespaces whose tables are being dropped have granted.
 */
#ifndef IDGEN_DROPPED_H
#define IDGEN_DROPPED_H

#include "postgres.h"

#include "shmem/ended.h"

typedef struct IdgenDroppedTables
{
	IdgenEndedMarks *marks;		/* of each namespace; palloc'd */
	int			mark_count;
	int64		external_ms;	/* the Unix ms by which every grant of an
								 * external generator has ended; 0 = there was
								 * none */
	bool		is_quorum;		/* a namespace has durability "quorum" */
} IdgenDroppedTables;

extern void idgen_dropped_read(Oid table, IdgenDroppedTables *tables);

#endif							/* IDGEN_DROPPED_H */
