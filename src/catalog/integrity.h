/*
 * integrity.h
 *		Whether the authority's tables are as the install script made them.
 */
#ifndef IDGEN_INTEGRITY_H
#define IDGEN_INTEGRITY_H

#include "postgres.h"

#include "utils/relcache.h"

#include "catalog/columns.h"
#include "error.h"

/* How far a table is from what the script made, from not at all to worst. */
typedef enum IdgenIntegrity
{
	IDGEN_INTEGRITY_INTACT,
	IDGEN_INTEGRITY_MENDABLE,	/* a guard does not fire always: the authority
								 * process sets it right */
	IDGEN_INTEGRITY_ATTACHED,	/* it can be read, but writing could run
								 * somebody else's code */
	IDGEN_INTEGRITY_DAMAGED
} IdgenIntegrity;

/* What is wrong with a table, and what to do. */
typedef struct IdgenDamage
{
	IdgenIntegrity integrity;
	char		detail[IDGEN_ERROR_TEXT_MAX];
	char		hint[IDGEN_ERROR_TEXT_MAX];
} IdgenDamage;

extern IdgenIntegrity idgen_integrity_check(IdgenTable table, Relation relation,
											IdgenDamage *damage);
extern bool idgen_integrity_is_mendable(Relation relation);
extern void idgen_integrity_mend(Relation relation);
extern bool idgen_integrity_has_columns(IdgenTable table, Relation relation);
extern uint64 idgen_integrity_fingerprint(void);

#endif							/* IDGEN_INTEGRITY_H */
