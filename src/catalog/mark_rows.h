/*
 * mark_rows.h
 *		Rows of marks, with the sums and the ends of external grants.
 */
#ifndef IDGEN_MARK_ROWS_H
#define IDGEN_MARK_ROWS_H

#include "postgres.h"

#include "storage/itemptr.h"

#include "catalog/grant_set.h"
#include "catalog/marks.h"

typedef enum IdgenLoadResult
{
	IDGEN_LOAD_OK,
	IDGEN_LOAD_NO_IDENTITY,
	IDGEN_LOAD_DAMAGED,			/* the marks do not add up, or the floor is
								 * gone */
	IDGEN_LOAD_ROW_CHANGED		/* the row of the namespace is not as idgen
								 * wrote it */
} IdgenLoadResult;

extern IdgenLoadResult idgen_mark_rows_load(const char *name, IdgenMarks *marks);
extern bool *idgen_mark_rows_lock_authorities(IdgenMarks *const *marks, int count);
extern bool *idgen_mark_rows_lock_floors(IdgenMarks *const *marks, int count);
extern bool *idgen_mark_rows_lock_marks(const ItemPointerData *tids, int count);
extern void idgen_mark_rows_write(IdgenGrantSet *grants);

#endif							/* IDGEN_MARK_ROWS_H */
