/*
 * grant_rows.h
 *		Rows of grants, which are written together with the marks that they
 *		raise.
 */
#ifndef IDGEN_GRANT_ROWS_H
#define IDGEN_GRANT_ROWS_H

#include "postgres.h"

#include "storage/itemptr.h"
#include "utils/uuid.h"

#include "catalog/marks.h"
#include "core/grant.h"
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
	const IdgenMark *mark;		/* the mark it was decided from; NULL = the
								 * worker has no row yet */
	int64		incarnation;
	bool		fresh;			/* the incarnation has no row yet */
	const IdgenHolder *holder;	/* of a fresh external incarnation; else NULL */
	int64		grant_id;
	IdgenGrant	grant;
	int64		now;			/* the clock it was decided at */
	const pg_uuid_t *request_id;	/* or NULL */
	bool		external;		/* granted to an external generator */
	int64		external_added; /* by how much it raises the end of external
								 * grants */
	int64		asked_ms;		/* the length asked for; 0 = the usual one */
	int64		run_ahead_ms;	/* of a fresh incarnation of this server */
} IdgenGrantRow;

/* The last grant of a worker. */
typedef struct IdgenLastGrant
{
	int64		grant_id;
	int64		incarnation;
	bool		has_request;
	pg_uuid_t	request_id;
	int64		asked_ms;		/* the length it asked for; 0 = the usual one */
	IdgenGrant	grant;
} IdgenLastGrant;

extern void idgen_grant_rows_write(IdgenGrantRow *rows, int count,
								   const pg_uuid_t *boot);
extern bool idgen_grant_rows_last(const char *name, int32 worker,
								  IdgenLastGrant *last);
extern bool idgen_grant_rows_request_recorded(const char *name, int32 worker,
											  int64 incarnation,
											  const pg_uuid_t *request_id,
											  int64 last_grants);
extern int	idgen_grant_rows_compact(const char *name, int32 worker, int64 now,
									 int64 settled_s, int64 retention_s);

#endif							/* IDGEN_GRANT_ROWS_H */
