/*
 * table_lock.h
 *		Lock the authority's tables, and see that they are intact.
 */
#ifndef IDGEN_TABLE_LOCK_H
#define IDGEN_TABLE_LOCK_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"

#include "catalog/columns.h"
#include "deadline.h"
#include "error.h"

extern void idgen_table_lock_all(const char *name);
extern bool idgen_table_lock_all_now(IdgenError *error);
extern void idgen_table_mend_guards(StringInfo mended);
extern Relation idgen_table_lock_for_reading(IdgenTable table, const char *name,
											 IdgenDeadline deadline, LOCKMODE *taken);

#endif							/* IDGEN_TABLE_LOCK_H */
