/*
 * grant_rows.h
 *		Rows of grants.
 */
#ifndef IDGEN_GRANT_ROWS_H
#define IDGEN_GRANT_ROWS_H

#include "postgres.h"

#include "utils/uuid.h"

#include "catalog/grant_set.h"
#include "core/grant.h"

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
