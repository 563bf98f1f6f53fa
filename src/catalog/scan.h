/*
 * scan.h
 *		What sessions read from the authority's tables, without SQL.
 */
#ifndef IDGEN_SCAN_H
#define IDGEN_SCAN_H

#include "postgres.h"

#include "catalog/rows.h"
#include "deadline.h"

extern bool idgen_scan_namespace(const char *name, IdgenNamespaceRow *row,
								 IdgenDeadline deadline);
extern bool idgen_scan_authority(const char *name, IdgenAuthorityRow *row,
								 TransactionId *xmin, bool *inserted,
								 IdgenDeadline deadline);
extern bool idgen_scan_privileged(const char *name, IdgenPrivilege privilege,
								  Oid role, IdgenDeadline deadline);
extern int64 idgen_scan_mark(const char *name, int32 worker, IdgenDeadline deadline);
extern bool idgen_scan_holder(int64 incarnation, IdgenHolderRow *row);

#endif							/* IDGEN_SCAN_H */
