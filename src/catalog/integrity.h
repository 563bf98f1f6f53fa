/*
 * integrity.h
 *		Whether the authority's tables are as the install script made them.
 */
#ifndef IDGEN_INTEGRITY_H
#define IDGEN_INTEGRITY_H

#include "postgres.h"

#include "utils/relcache.h"

#include "catalog/columns.h"

extern bool idgen_integrity_check(IdgenTable table, Relation relation, char *why,
								  Size why_size);
extern bool idgen_integrity_has_columns(IdgenTable table, Relation relation);
extern uint64 idgen_integrity_fingerprint(void);

#endif							/* IDGEN_INTEGRITY_H */
