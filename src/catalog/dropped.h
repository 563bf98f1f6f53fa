/*
 * dropped.h
 *		What namespaces that are being dropped have granted, and where their successors
 *		begin.
 */
#ifndef IDGEN_DROPPED_H
#define IDGEN_DROPPED_H

#include "postgres.h"

#include "core/layout.h"
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
extern int64 idgen_dropped_tick(const IdgenLayout *layout, int64 unix_ms);
extern int64 idgen_dropped_begin(const IdgenLayout *layout, const char *name,
								 int64 latest_ms);

#endif							/* IDGEN_DROPPED_H */
