/*
 * tables.h
 *		Where the authority's tables are.
 */
#ifndef IDGEN_TABLES_H
#define IDGEN_TABLES_H

#include "postgres.h"

#include "catalog/columns.h"

/* Changes when one of our tables was altered, truncated or dropped, or may have been. */
extern uint64 idgen_tables_version;

/* Changes when any namespace may have changed. */
extern uint64 idgen_namespace_version;

extern void idgen_tables_init(void);
extern Oid	idgen_tables_find_schema(void);
extern bool idgen_tables_find(void);
extern Oid	idgen_tables_relid(IdgenTable table);
extern const char *idgen_tables_qualified(IdgenTable table);
extern uint64 idgen_tables_location(void);
extern Oid	idgen_tables_function_schema(void);
extern Oid	idgen_tables_owner(void);
extern bool idgen_tables_ours(Oid relid);
extern void idgen_tables_announce(void);

#endif							/* IDGEN_TABLES_H */
