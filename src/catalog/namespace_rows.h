/*
 * namespace_rows.h
 *		Rows of namespaces, with their policy, identity and floor.
 */
#ifndef IDGEN_NAMESPACE_ROWS_H
#define IDGEN_NAMESPACE_ROWS_H

#include "postgres.h"

#include "storage/itemptr.h"

#include "catalog/rows.h"

/* A row of idgen_floor. */
typedef struct IdgenFloorRow
{
	int64		floor;
	int64		external_end;	/* no external grant ends later */
	ItemPointerData tid;
} IdgenFloorRow;

/* Which columns of a policy are to be written. */
typedef struct IdgenPolicyGiven
{
	bool		grant_interval;
	bool		run_ahead;
	bool		durability;
	bool		promotion;
	bool		restricted;
	bool		owner;
} IdgenPolicyGiven;

extern void idgen_namespace_rows_check_marks(const IdgenNamespaceRow *row);
extern bool idgen_namespace_rows_insert(const IdgenNamespaceRow *row,
										const IdgenAuthorityRow *authority,
										bool *copied);
extern bool idgen_namespace_rows_lock_policy(const char *name);
extern void idgen_namespace_rows_write_policy(const IdgenNamespaceRow *row,
											  const IdgenPolicyGiven *given);
extern bool idgen_namespace_rows_claim_unused(const char *name,
											  const IdgenAuthorityRow *split);
extern void idgen_namespace_rows_write_privilege(const char *name,
												 IdgenPrivilege privilege,
												 const char *role, bool allow);
extern bool idgen_namespace_rows_lock(const char *name);
extern int64 idgen_namespace_rows_last_clock(const char *name);
extern int64 idgen_namespace_rows_recorded_ms(const char *name);
extern int64 idgen_namespace_rows_highest_mark(const char *name);
extern void idgen_namespace_rows_raise_floor(const char *name, int64 floor);
extern void idgen_namespace_rows_reset_sums(const char *name);
extern void idgen_namespace_rows_write_identity(const char *name,
												const IdgenAuthorityRow *row);
extern void idgen_namespace_rows_write_range(const char *name, int32 first_worker,
											 int32 last_worker);
extern void idgen_namespace_rows_write_lineage(const char *name,
											   const pg_uuid_t *lineage);
extern bool idgen_namespace_rows_hold(const char *name);
extern void idgen_namespace_rows_accept(const char *name);
extern bool idgen_namespace_rows_ever_granted(const char *name);
extern void idgen_namespace_rows_retire(const char *name);
extern void idgen_namespace_rows_write_ticket(const char *name, bool handed_over,
											  const IdgenHandOver *ticket);
extern void idgen_namespace_rows_drop_marks(const char *name);
extern bool idgen_namespace_rows_floor(const char *name, IdgenFloorRow *row);

#endif							/* IDGEN_NAMESPACE_ROWS_H */
