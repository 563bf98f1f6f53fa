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

#include "utils/relcache.h"
#include "utils/uuid.h"

#include "core/grant.h"
#include "core/layout.h"
#include "failure.h"
#include "marks.h"
#include "shmem.h"

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

/* Privileges on a namespace, held by roles by name. */
typedef enum IdgenPrivilege
{
	IDGEN_PRIVILEGE_ISSUE,
	IDGEN_PRIVILEGE_ACQUIRE
} IdgenPrivilege;

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

/* A format as text, to notice that it was changed. */
#define IDGEN_FORMAT_MAX 128

/* A row of idgen_authority, less its sums. */
typedef struct IdgenAuthorityRow
{
	pg_uuid_t	uuid;
	char		format[IDGEN_FORMAT_MAX];	/* see idgen_tables_format_text */
	int32		split_modulus;
	int32		split_remainder;
	IdgenIdentity identity;
} IdgenAuthorityRow;

/* Who holds an external incarnation. */
typedef struct IdgenHolder
{
	char		role[NAMEDATALEN];
	const IdgenMail *mail;		/* address, application, token hash */
} IdgenHolder;

/* A grant to be written. */
typedef struct IdgenGrantRow
{
	const char *namespace_name;
	IdgenMarks *marks;			/* of its namespace */
	int32		worker;
	const IdgenMark *mark;		/* what it was decided from; NULL: the worker has
								 * no row yet */
	int64		incarnation;
	bool		fresh;			/* the incarnation has no row yet */
	const IdgenHolder *holder;	/* of a fresh external one; else NULL */
	int64		grant_id;
	IdgenGrant	grant;
	int64		now;			/* the clock it was decided at */
	const pg_uuid_t *request_id;	/* or NULL */
} IdgenGrantRow;

/* A row of idgen_incarnation. */
typedef struct IdgenIncarnationRow
{
	char		namespace_name[NAMEDATALEN];
	int32		worker;
	bool		external;
	char		role[NAMEDATALEN];
	uint8		token_hash[IDGEN_TOKEN_HASH_SIZE];
	bool		active;
} IdgenIncarnationRow;

/* A row of idgen_grant: the last one of a worker. */
typedef struct IdgenLastGrant
{
	int64		grant_id;
	int64		incarnation;
	bool		has_request;
	pg_uuid_t	request_id;
	IdgenGrant	grant;
} IdgenLastGrant;

typedef enum IdgenLoadResult
{
	IDGEN_LOAD_OK,
	IDGEN_LOAD_NO_IDENTITY,
	IDGEN_LOAD_DAMAGED			/* the marks do not add up, or the floor is gone */
} IdgenLoadResult;

/* Moves when a table of ours was altered, truncated or dropped, or may have
 * been. */
extern uint64 idgen_tables_version;

/* --- anywhere */
extern bool idgen_tables_find(void);
extern Oid	idgen_tables_relid(IdgenTable table);
extern bool idgen_tables_ours(Oid relid);
extern void idgen_tables_format_text(const IdgenLayout *layout, char *format);
extern void idgen_tables_wait_until(int64 until_us);
extern void idgen_tables_watch(void (*changed) (void));
extern bool idgen_tables_intact(IdgenTable table, Relation relation, char *why,
								Size why_size);
extern bool idgen_tables_read_namespace(const char *name, IdgenNamespaceRow *row);
extern bool idgen_tables_read_authority(const char *name, IdgenAuthorityRow *row,
										TransactionId *xmin);

/* --- in the caller's transaction */
extern bool idgen_tables_writing(void);
extern void idgen_tables_announce(void);
extern int64 idgen_tables_external_until(void);
extern bool idgen_tables_privileged(const char *name, IdgenPrivilege privilege,
									Oid role);
extern void idgen_tables_write_policy(const IdgenNamespaceRow *row,
									  const IdgenPolicyGiven *given);
extern void idgen_tables_write_privilege(const char *name,
										 IdgenPrivilege privilege,
										 const char *role, bool allow);
extern bool idgen_tables_insert_namespace(const IdgenNamespaceRow *row,
										  const IdgenAuthorityRow *authority);
extern bool idgen_tables_merge_namespace(const IdgenNamespaceRow *row);
extern bool idgen_tables_merge_floor(const char *name, int64 floor,
									 bool *copied);
extern bool idgen_tables_merge_worker(const char *name, int32 worker,
									  int64 high_water);

/* --- by the authority worker, in its transaction */
extern bool idgen_tables_open(IdgenFailure *failure);
extern uint64 idgen_tables_fingerprint(void);
extern IdgenLoadResult idgen_tables_load_marks(const char *name,
											   IdgenMarks *marks);
extern bool idgen_tables_ever_granted(const char *name);
extern bool idgen_tables_lock_namespace(const char *name);
extern bool *idgen_tables_lock_authorities(IdgenMarks *const *marks, int count);
extern bool *idgen_tables_lock_marks(const ItemPointerData *tids, int count);
extern void idgen_tables_write_grants(IdgenGrantRow *rows, int count,
									  const pg_uuid_t *boot);
extern bool idgen_tables_read_incarnation(int64 incarnation,
										  IdgenIncarnationRow *row);
extern bool idgen_tables_last_grant(const char *name, int32 worker,
									IdgenLastGrant *last);
extern bool idgen_tables_request_recorded(const char *name, int32 worker,
										  int64 incarnation,
										  const pg_uuid_t *request_id,
										  int64 last_grants);
extern void idgen_tables_live_externals(const char *name, int64 now,
										const char *role, int64 *all,
										int64 *of_role);
extern void idgen_tables_write_authority(const char *name,
										 const IdgenAuthorityRow *row);
extern void idgen_tables_write_range(const char *name, int32 first_worker,
									 int32 last_worker);
extern int64 idgen_tables_last_clock(const char *name);
extern int64 idgen_tables_recorded_ms(const char *name);
extern int64 idgen_tables_highest_mark(const char *name);
extern void idgen_tables_raise_floor(const char *name, int64 floor);
extern void idgen_tables_reset_sums(const char *name);
extern void idgen_tables_end_all(const char *name);
extern void idgen_tables_end_incarnation(int64 incarnation);
extern void idgen_tables_deactivate(int64 incarnation);
extern void idgen_tables_end_strangers(const pg_uuid_t *boot,
									   const int64 *living, int count);
extern void idgen_tables_retire(const char *name);
extern int	idgen_tables_compact(const char *name, int32 worker, int64 now,
								 int64 settled_s, int64 retention_s);
extern int	idgen_tables_forget_incarnations(int64 retention_s);

#endif							/* IDGEN_TABLES_H */
