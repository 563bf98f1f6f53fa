/*
 * tables.h
 *		The authority's tables: where they are, whether they are intact, what
 *		is read from and written to them.
 *
 * This is the only file pair that runs SQL.
 */
#ifndef IDGEN_TABLES_H
#define IDGEN_TABLES_H

#include "postgres.h"

#include "utils/uuid.h"

#include "core/grant.h"
#include "core/layout.h"
#include "failure.h"

typedef enum IdgenTable
{
	IDGEN_TABLE_NAMESPACE,
	IDGEN_TABLE_FLOOR,
	IDGEN_TABLE_WORKER,
	IDGEN_TABLE_AUTHORITY,
	IDGEN_TABLE_INCARNATION,
	IDGEN_TABLE_GRANT
} IdgenTable;

#define IDGEN_TABLE_COUNT (IDGEN_TABLE_GRANT + 1)

/* A row of idgen_namespace. */
typedef struct IdgenNamespaceRow
{
	char		name[NAMEDATALEN];
	IdgenLayout layout;
	int64		grant_interval_ms;
	int64		run_ahead_ms;
	int32		first_worker;
	int32		last_worker;
	char		durability[NAMEDATALEN];
	char		promotion[NAMEDATALEN];
	bool		restricted;
	bool		issuing;
	bool		retired;
	char		owner[NAMEDATALEN];
} IdgenNamespaceRow;

/* A row of idgen_authority, less its sums. */
typedef struct IdgenAuthorityRow
{
	pg_uuid_t	uuid;
	int32		split_modulus;
	int32		split_remainder;
	IdgenIdentity identity;
} IdgenAuthorityRow;

/* A worker's row as the authority found it. */
typedef struct IdgenMark
{
	int32		worker;
	int64		high_water;
	int64		incarnation;	/* granted last; 0 = none known */
} IdgenMark;

typedef enum IdgenLockResult
{
	IDGEN_LOCK_OK,
	IDGEN_LOCK_BUSY,			/* another transaction has it */
	IDGEN_LOCK_ABSENT
} IdgenLockResult;

/* A grant to be written, and the mark it was decided from. */
typedef struct IdgenGrantRow
{
	const char *namespace_name;
	int32		worker;
	int64		high_water;		/* before */
	bool		first_row;		/* the worker has no row yet */
	int64		incarnation;
	bool		fresh;			/* the incarnation has no row yet */
	int64		grant_id;
	IdgenGrant	grant;
} IdgenGrantRow;

/* Moves when a table of ours was altered, truncated or dropped, or may have
 * been. */
extern uint64 idgen_tables_version;

/* --- anywhere */
extern bool idgen_tables_find(void);
extern Oid	idgen_tables_relid(IdgenTable table);
extern Oid	idgen_tables_owner(void);
extern void idgen_tables_watch(void (*changed) (void));
extern bool idgen_tables_intact(IdgenTable table, Relation relation, char *why,
								Size why_size);
extern bool idgen_tables_read_namespace(const char *name, IdgenNamespaceRow *row);
extern bool idgen_tables_read_authority(const char *name, IdgenAuthorityRow *row,
										TransactionId *xmin);

/* --- in the caller's transaction */
extern bool idgen_tables_writing(void);
extern void idgen_tables_announce(void);
extern void idgen_tables_insert_namespace(const IdgenNamespaceRow *row,
										  const IdgenAuthorityRow *authority);
extern bool idgen_tables_merge_namespace(const IdgenNamespaceRow *row);
extern bool idgen_tables_merge_floor(const char *name, int64 floor);
extern void idgen_tables_merge_worker(const char *name, int32 worker,
									  int64 high_water);

/* --- by the authority worker, in its transaction */
extern bool idgen_tables_open(IdgenFailure *failure);
extern IdgenLockResult idgen_tables_lock_authority(const char *name,
												   IdgenAuthorityRow *row,
												   int64 *floor);
extern bool idgen_tables_sums_hold(const char *name);
extern bool idgen_tables_ever_granted(const char *name);
extern IdgenLockResult idgen_tables_lock_mark(const char *name, int32 worker,
											  IdgenMark *mark);
extern int64 *idgen_tables_reserved_workers(const char *name, int64 now,
											size_t *count);
extern bool idgen_tables_earliest_worker(const char *name,
										 const IdgenWorkerRange *range,
										 const int64 *excluded,
										 size_t excluded_count, int32 *worker);
extern void idgen_tables_write_grants(const IdgenGrantRow *rows, int count,
									  const pg_uuid_t *boot);
extern void idgen_tables_write_authority(const char *name,
										 const IdgenAuthorityRow *row);
extern int64 idgen_tables_highest_mark(const char *name);
extern void idgen_tables_raise_floor(const char *name, int64 floor);
extern void idgen_tables_end_all(const char *name);
extern void idgen_tables_end_incarnation(int64 incarnation);
extern void idgen_tables_end_strangers(const pg_uuid_t *boot);
extern void idgen_tables_retire(const char *name);

#endif							/* IDGEN_TABLES_H */
