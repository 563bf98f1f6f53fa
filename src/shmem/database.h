/*
 * database.h
 *		The databases in use and their authority processes.
 */
#ifndef IDGEN_DATABASE_H
#define IDGEN_DATABASE_H

#include "postgres.h"

#include "storage/latch.h"

/*
 * A database in use, and its authority process.  All fields: directory lock.
 * authority_pid is 0 when no authority process lives; one that leaves clears it.
 */
typedef struct IdgenDatabase
{
	Oid			database;		/* InvalidOid = unused */
	pid_t		authority_pid;
	pid_t		left_pid;		/* an authority process that has signed off
								 * and may still be on its way out; 0 = none
								 * known */
	Latch	   *authority_latch;
	int64		started_at_us;	/* monotonic time of the last attempt to start
								 * one */
	bool		start_failed;	/* that found no background worker slot free */
	int			starts;			/* attempts since one reported for duty */
	bool		stop_wanted;	/* the database is being dropped */
	bool		yield_wanted;	/* another database needs the process */
	int64		entered_at_us;	/* monotonic: the process reported for duty */
	int64		used_at_us;		/* monotonic: the database was last in use */
	int64		room_asked_at_us;	/* monotonic: it had another process leave */
	uint64		turns;			/* begun by this process; the first takes long */
	uint64		rounds;			/* of those, that wrote grants */
	uint64		grants;			/* in those */
	int64		last_round_ms;	/* Unix time */
	int64		authority_started_ms;	/* Unix time */
} IdgenDatabase;

typedef struct IdgenDatabases
{
	int			count;			/* constant */
	IdgenDatabase entries[FLEXIBLE_ARRAY_MEMBER];	/* directory lock */
} IdgenDatabases;

extern Size idgen_databases_size(void);
extern void idgen_databases_init(void *memory, int tranche);
extern void idgen_database_read(Oid database, IdgenDatabase *copy);

#endif							/* IDGEN_DATABASE_H */
