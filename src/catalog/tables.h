/*
 * tables.h
 *		The authority's tables: where they are, whether they are intact, and
 *		what sessions read from them.
 */
#ifndef IDGEN_TABLES_H
#define IDGEN_TABLES_H

#include "postgres.h"

#include "utils/relcache.h"
#include "utils/uuid.h"

#include "core/takeover.h"
#include "core/layout.h"
#include "shmem/ended.h"
#include "error.h"

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

/* Attribute numbers of idgen_namespace. */
enum
{
	IDGEN_NAMESPACE_NAME = 1, IDGEN_NAMESPACE_KIND, IDGEN_NAMESPACE_TIMESTAMP_BITS,
	IDGEN_NAMESPACE_WORKER_BITS, IDGEN_NAMESPACE_SEQUENCE_BITS, IDGEN_NAMESPACE_EPOCH_MS,
	IDGEN_NAMESPACE_TICK_MS, IDGEN_NAMESPACE_HORIZON_MS, IDGEN_NAMESPACE_GRANT_INTERVAL_MS,
	IDGEN_NAMESPACE_RUN_AHEAD_MS, IDGEN_NAMESPACE_FIRST_WORKER, IDGEN_NAMESPACE_LAST_WORKER,
	IDGEN_NAMESPACE_DURABILITY, IDGEN_NAMESPACE_PROMOTION, IDGEN_NAMESPACE_RESTRICTED,
	IDGEN_NAMESPACE_ISSUING, IDGEN_NAMESPACE_RETIRED, IDGEN_NAMESPACE_OWNER,
	IDGEN_NAMESPACE_ISSUE_ROLES, IDGEN_NAMESPACE_ACQUIRE_ROLES,
	IDGEN_NAMESPACE_SPLIT_PARTS, IDGEN_NAMESPACE_LINEAGE
};

/* Of idgen_floor, and of idgen_worker. */
enum
{
	IDGEN_FLOOR_NAMESPACE = 1, IDGEN_FLOOR_FLOOR, IDGEN_FLOOR_EXTERNAL_END
};
enum
{
	IDGEN_WORKER_NAMESPACE = 1, IDGEN_WORKER_WORKER, IDGEN_WORKER_HIGH_WATER
};

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
	int32		split_parts;	/* of the workers; 1 = not split */
	pg_uuid_t	lineage;		/* the ID space, wherever it is */
} IdgenNamespaceRow;

/* Privileges on a namespace, held by roles by name. */
typedef enum IdgenPrivilege
{
	IDGEN_PRIVILEGE_ISSUE,
	IDGEN_PRIVILEGE_ACQUIRE
} IdgenPrivilege;

/* A format as text, to notice that it was changed. */
#define IDGEN_FORMAT_MAX 128

/* A row of idgen_authority, less its sums. */
typedef struct IdgenAuthorityRow
{
	pg_uuid_t	uuid;
	char		format[IDGEN_FORMAT_MAX];	/* see idgen_namespace_rows_format_text */
	int32		split_modulus;
	int32		split_remainder;
	IdgenIdentity identity;
} IdgenAuthorityRow;

/* Whose an incarnation is. */
typedef struct IdgenHolderRow
{
	char		namespace_name[NAMEDATALEN];
	bool		external;
	char		role[NAMEDATALEN];	/* of an external one */
} IdgenHolderRow;

/* What was found in the tables when they were dropped. */
typedef struct IdgenDroppedTables
{
	IdgenEndedMarks *marks;		/* of each namespace; palloc'd */
	int			mark_count;
	int64		external_ms;	/* Unix ms before which every grant of an external
								 * generator ends; 0 = there was none */
	bool		is_quorum;		/* a namespace has durability "quorum" */
} IdgenDroppedTables;

/* Moves when a table of ours was altered, truncated or dropped, or may have
 * been. */
extern uint64 idgen_tables_version;

/* --- anywhere */
extern bool idgen_tables_find(void);
extern Oid	idgen_tables_relid(IdgenTable table);
extern bool idgen_tables_ours(Oid relid);
extern void idgen_tables_dropped(IdgenDroppedTables *tables);
extern void idgen_tables_watch(void (*changed) (void));
extern bool idgen_tables_intact(IdgenTable table, Relation relation, char *why,
								Size why_size);
extern bool idgen_tables_read_namespace(const char *name, IdgenNamespaceRow *row,
										int64 until_us);
extern bool idgen_tables_privileged(const char *name, IdgenPrivilege privilege,
									Oid role, int64 until_us);
extern bool idgen_tables_read_holder(int64 incarnation, IdgenHolderRow *row);
extern bool idgen_tables_read_authority(const char *name, IdgenAuthorityRow *row,
										TransactionId *xmin, int64 until_us);

/* --- telling sessions, at commit */
extern void idgen_tables_announce(void);

/* --- by writers */
extern const char *idgen_tables_name(IdgenTable table);
extern const char *idgen_tables_qualified(IdgenTable table);
extern uint64 idgen_tables_location(void);
extern Oid	idgen_tables_owner(void);
extern void idgen_tables_lock_intact(const char *name);
extern bool idgen_tables_open(IdgenError *error);
extern uint64 idgen_tables_fingerprint(void);

#endif							/* IDGEN_TABLES_H */
