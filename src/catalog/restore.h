/*
 * restore.h
 *		Merge restored rows into the authority's tables.
 */
#ifndef IDGEN_RESTORE_H
#define IDGEN_RESTORE_H

#include "postgres.h"

#include "catalog/rows.h"

extern bool idgen_restore_namespace(const IdgenNamespaceRow *row);
extern bool idgen_restore_floor(const char *name, int64 floor, int64 external_end,
								bool *copied);
extern bool idgen_restore_mark(const char *name, int32 worker, int64 high_water);

#endif							/* IDGEN_RESTORE_H */
