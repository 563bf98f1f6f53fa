/*
 * incarnation_rows.h
 *		Rows of incarnations.
 */
#ifndef IDGEN_INCARNATION_ROWS_H
#define IDGEN_INCARNATION_ROWS_H

#include "postgres.h"

#include "utils/uuid.h"

#include "catalog/grant_set.h"
#include "shmem/request_queue.h"

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

extern bool idgen_incarnation_rows_read(int64 incarnation, IdgenIncarnationRow *row);
extern void idgen_incarnation_rows_write(IdgenGrantSet *fresh, const pg_uuid_t *boot);
extern void idgen_incarnation_rows_end_predecessors(IdgenGrantSet *fresh);
extern int64 idgen_incarnation_rows_run_ahead(const char *name, int64 now, int64 than);
extern void idgen_incarnation_rows_end_all(const char *name);
extern void idgen_incarnation_rows_end(int64 incarnation);
extern void idgen_incarnation_rows_deactivate(int64 incarnation);
extern void idgen_incarnation_rows_end_strangers(const pg_uuid_t *boot,
												 const int64 *living, int count);
extern int	idgen_incarnation_rows_forget(int64 retention_s);

#endif							/* IDGEN_INCARNATION_ROWS_H */
