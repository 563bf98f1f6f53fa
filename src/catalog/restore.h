/*
 * restore.h
 *		Merge restored rows into the authority's tables.
 */
#ifndef IDGEN_RESTORE_H
#define IDGEN_RESTORE_H

#include "postgres.h"

#include "catalog/rows.h"

/* What a restored row that may not be merged says of a namespace. */
typedef enum IdgenNotice
{
	IDGEN_NOTICE_NOTHING,		/* no more than is known */
	IDGEN_NOTICE_COPIED,		/* it is a copy, from now on */
	IDGEN_NOTICE_UNKNOWN		/* there is no such namespace here */
} IdgenNotice;

extern bool idgen_restore_namespace(const IdgenNamespaceRow *row);
extern bool idgen_restore_floor(const char *name, int64 floor, int64 external_end,
								bool *copied);
extern bool idgen_restore_mark(const char *name, int32 worker, int64 high_water);
extern IdgenNotice idgen_restore_notice_namespace(const IdgenNamespaceRow *row);
extern IdgenNotice idgen_restore_notice_floor(const char *name, int64 floor,
											  int64 external_end);
extern IdgenNotice idgen_restore_notice_mark(const char *name, int32 worker,
											 int64 high_water);

#endif							/* IDGEN_RESTORE_H */
