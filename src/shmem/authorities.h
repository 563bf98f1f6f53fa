/*
 * authorities.h
 *		The authority processes of this server: at most one for each database.
 */
#ifndef IDGEN_AUTHORITIES_H
#define IDGEN_AUTHORITIES_H

#include "postgres.h"

#include "storage/latch.h"

#include "error.h"

/*
 * A database in use, and its authority process.  All fields: directory lock.
 * authority_pid is 0 when no authority process lives; the process clears it on
 * its way out.
 */
typedef struct IdgenDatabase
{
	Oid			database;		/* InvalidOid = unused */
	pid_t		authority_pid;
	pid_t		left_pid;		/* a process that has signed off, and may
								 * still be exiting; 0 = none known */
	Latch	   *authority_latch;
	int64		started_at_us;	/* monotonic time of the last attempt to start */
	bool		start_failed;	/* that attempt found no background worker
								 * slot */
	int			starts;			/* attempts since a process last reported for
								 * duty */
	bool		stop_wanted;	/* the database is being dropped */
	bool		yield_wanted;	/* another database needs the process slot */
	int64		entered_at_us;	/* monotonic: the process reported for duty */
	int64		used_at_us;		/* monotonic: the database was last in use */
	int64		room_asked_at_us;	/* monotonic: another process was asked to
									 * leave for this database */
	uint64		rounds_begun;	/* by this process; the first one takes long */
	uint64		rounds;			/* rounds that wrote grants */
	uint64		grants;			/* grants that these rounds wrote */
	int64		last_round_ms;	/* Unix time */
	int64		authority_started_ms;	/* Unix time */
} IdgenDatabase;

typedef struct IdgenAuthorities
{
	int			count;			/* constant */
	IdgenDatabase databases[FLEXIBLE_ARRAY_MEMBER]; /* directory lock */
} IdgenAuthorities;

extern Size idgen_authorities_size(void);
extern void idgen_authorities_init(void *memory, int tranche);
extern void idgen_authorities_read(Oid database, IdgenDatabase *copy);

/* --- by backends */
extern void idgen_authorities_rouse(void);
extern void idgen_authorities_explain(IdgenError *error);
extern void idgen_authorities_stop(Oid database, int64 within_us);

/* --- by the authority process */
extern bool idgen_authorities_enter(void);
extern void idgen_authorities_sign_off(void);
extern bool idgen_authorities_stop_wanted(void);
extern bool idgen_authorities_yield_wanted(void);
extern void idgen_authorities_begin_round(int64 used_at_us);
extern void idgen_authorities_end_round(int grants);

#endif							/* IDGEN_AUTHORITIES_H */
