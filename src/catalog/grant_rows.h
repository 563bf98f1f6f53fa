/*
 * grant_rows.h
 *		Rows of marks, grants and incarnations.
 */
#ifndef IDGEN_GRANT_ROWS_H
#define IDGEN_GRANT_ROWS_H

#include "postgres.h"

#include "storage/itemptr.h"
#include "utils/uuid.h"

#include "core/grant.h"
#include "catalog/marks.h"
#include "shmem/request_queue.h"

/* Who holds an external incarnation. */
typedef struct IdgenHolder
{
	char		role[NAMEDATALEN];
	const IdgenRequest *request;	/* address, application, token hash */
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
	bool		external;		/* granted to an external generator */
	int64		external_added; /* by how much it raises what these were promised */
	int64		asked_ms;		/* the length it asks for; 0 = the usual one */
	int64		run_ahead_ms;	/* of a fresh one of this server */
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
	int64		asked_ms;		/* by that request; 0 = the usual length */
	IdgenGrant	grant;
} IdgenLastGrant;

typedef enum IdgenLoadResult
{
	IDGEN_LOAD_OK,
	IDGEN_LOAD_NO_IDENTITY,
	IDGEN_LOAD_DAMAGED			/* the marks do not add up, or the floor is gone */
} IdgenLoadResult;

extern IdgenLoadResult idgen_grant_rows_load_marks(const char *name,
											   IdgenMarks *marks);
extern bool *idgen_grant_rows_lock_authorities(IdgenMarks *const *marks, int count);
extern bool *idgen_grant_rows_lock_floors(IdgenMarks *const *marks, int count);
extern bool *idgen_grant_rows_lock_marks(const ItemPointerData *tids, int count);
extern void idgen_grant_rows_write(IdgenGrantRow *rows, int count,
									  const pg_uuid_t *boot);
extern bool idgen_grant_rows_read_incarnation(int64 incarnation,
										  IdgenIncarnationRow *row);
extern bool idgen_grant_rows_last(const char *name, int32 worker,
									IdgenLastGrant *last);
extern bool idgen_grant_rows_request_recorded(const char *name, int32 worker,
										  int64 incarnation,
										  const pg_uuid_t *request_id,
										  int64 last_grants);
extern int64 idgen_grant_rows_run_ahead(const char *name, int64 now, int64 than);
extern void idgen_grant_rows_end_all(const char *name);
extern void idgen_grant_rows_end_incarnation(int64 incarnation);
extern void idgen_grant_rows_deactivate(int64 incarnation);
extern void idgen_grant_rows_end_strangers(const pg_uuid_t *boot,
									   const int64 *living, int count);
extern int	idgen_grant_rows_compact(const char *name, int32 worker, int64 now,
								 int64 settled_s, int64 retention_s);
extern int	idgen_grant_rows_forget_incarnations(int64 retention_s);

#endif							/* IDGEN_GRANT_ROWS_H */
