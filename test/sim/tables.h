/*
 * tables.h
 *		What an authority has on disk: its tables, and the records by which a
 *		standby comes to have the same.
 *
 * Stands for the tables of the extension and the WAL.  A commit is a few
 * records of which the last is marked; a record that is in a log is flushed.
 * Tables change by records alone.
 */
#ifndef IDGEN_SIM_TABLES_H
#define IDGEN_SIM_TABLES_H

#include "grant.h"
#include "takeover.h"

typedef enum RecordKind
{
	RECORD_GRANT,
	RECORD_FLOOR,				/* a fence: ends all incarnations, new sums */
	RECORD_END_ALL,
	RECORD_END,					/* of one incarnation */
	RECORD_IDENTITY,
	RECORD_RESTORED,			/* rows brought a mark from elsewhere */
	RECORD_LOWERED,				/* somebody made a mark smaller, past all guards */
	RECORD_POLICY,				/* promotion and durability */
	RECORD_DROPPED,				/* the namespace, with its extension or database */
	RECORD_CREATED,				/* anew */
	RECORD_TEMPLATE				/* a copy of the database "source" */
} RecordKind;

/* What ALTER may change. */
typedef struct Policy
{
	IdgenPromotion promotion;
	bool		is_quorum;
	int64_t		position;		/* of the log, where it became so */
} Policy;

/* Who an authority is, on record. */
typedef struct Ownership
{
	bool		is_known;
	IdgenIdentity identity;
	int64_t		uuid;
	int64_t		modulus;		/* of "split" */
	int64_t		remainder;
	int64_t		recorded_ms;
} Ownership;

typedef struct Record
{
	RecordKind	kind;
	int64_t		number;			/* of the record, for who compares logs */
	int			database;
	bool		is_last;		/* of its commit */
	int32_t		worker;
	int64_t		incarnation;
	int64_t		mark;			/* floor, or the worker's */
	bool		overwrites;		/* RESTORED by a broken rule */
	Ownership		ownership;
	Policy		policy;
	int			source;			/* TEMPLATE: a database */
	int			birth;			/* CREATED, TEMPLATE: for the checker */
	int			life;			/* DROPPED: likewise */

	/* RECORD_GRANT */
	int64_t		grant_id;
	IdgenGrant	grant;
	int64_t		request;
	int64_t		clock;
	int64_t		decided_us;		/* true time, for the checker */
	int64_t		ahead_us;		/* likewise, of the clock */
	int32_t		checked;		/* its number at the checker */
	bool		is_fresh;
	bool		is_external;
} Record;

/* One of the last grants of a worker. */
typedef struct GrantRow
{
	int64_t		id;
	int64_t		incarnation;
	int64_t		request;
	IdgenGrant	grant;
	int32_t		checked;
} GrantRow;

/* Grants of a worker looked through for a request. */
#define HISTORY 16

typedef struct MarkRow
{
	bool		is_used;
	int64_t		high_water;
	int64_t		incarnation;
	bool		is_external;
	int			history_count;	/* ever */
	GrantRow	history[HISTORY];
} MarkRow;

typedef struct IncarnationRow
{
	int64_t		id;
	int32_t		worker;
	bool		is_active;
	bool		is_external;
} IncarnationRow;

typedef struct Tables
{
	bool		is_dropped;		/* or was never created */
	int			dropped_life;	/* for the checker: whose drop; -1 = none */
	uint32_t	oid;			/* of the database */
	int			birth;
	Policy		policy;
	Ownership		ownership;
	int64_t		floor;
	int64_t		promised;		/* until when any external holder may issue */
	int64_t		last_clock;
	bool		ever_granted;
	int64_t		mark_count;		/* what the marks should add up to */
	int64_t		mark_sum;
	MarkRow    *marks;
	int64_t		worker_count;
	IncarnationRow *incarnations;	/* ascending by id */
	int			incarnation_count;
	int			incarnation_max;
} Tables;

typedef struct Log
{
	Record	   *records;
	int64_t		count;
	int64_t		max;
} Log;

extern void tables_create(Tables *tables, int64_t worker_count);
extern void tables_free(Tables *tables);
extern void tables_copy(Tables *tables, const Tables *from);
extern void tables_apply(Tables *databases, const Record *record);
extern bool tables_sums_hold(const Tables *tables);
extern int64_t tables_highest_mark(const Tables *tables);
extern IncarnationRow *tables_incarnation(const Tables *tables, int64_t id);
extern const GrantRow *tables_last_grant(const Tables *tables, int32_t worker);
extern bool tables_recorded(const Tables *tables, int32_t worker,
							int64_t incarnation, int64_t request);

extern void log_append(Log *log, const Record *record);
extern void log_copy(Log *log, const Log *from, int64_t count);

#endif							/* IDGEN_SIM_TABLES_H */
