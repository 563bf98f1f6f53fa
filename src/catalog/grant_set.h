/*
 * grant_set.h
 *		Grants that are written together, as arrays of columns.
 */
#ifndef IDGEN_GRANT_SET_H
#define IDGEN_GRANT_SET_H

#include "postgres.h"

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

/* Some of the grants of a round, in the order in which columns are made of them. */
typedef struct IdgenGrantSet
{
	int			count;
	IdgenGrantRow **rows;
	Datum	   *datums;			/* room for one column */
	bool	   *nulls;
} IdgenGrantSet;

/*
 * IDGEN_GRANT_SET_FILL(set, row, value): set each datum to "value" of its "row".
 */
#define IDGEN_GRANT_SET_FILL(set, row, value) \
	do { \
		for (int i_ = 0; i_ < (set)->count; i_++) \
		{ \
			IdgenGrantRow *row = (set)->rows[i_]; \
			(set)->datums[i_] = (value); \
		} \
	} while (0)

extern void idgen_grant_set_begin(IdgenGrantSet *set, int count_max);
extern void idgen_grant_set_add(IdgenGrantSet *set, IdgenGrantRow *row);
extern Datum idgen_grant_set_names(IdgenGrantSet *set);
extern Datum idgen_grant_set_workers(IdgenGrantSet *set);
extern Datum idgen_grant_set_ends(IdgenGrantSet *set);
extern Datum idgen_grant_set_incarnations(IdgenGrantSet *set);

#endif							/* IDGEN_GRANT_SET_H */
