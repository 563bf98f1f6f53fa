/*
 * round.h
 *		A round: one transaction of grants, for cursors of this server that
 *		are due, and for external generators that ask.
 */
#ifndef IDGEN_ROUND_H
#define IDGEN_ROUND_H

#include "postgres.h"

#include "authority/authority.h"
#include "authority/confirm.h"
#include "authority/job.h"
#include "catalog/grant_rows.h"
#include "catalog/incarnation_rows.h"
#include "shmem/clock_judge.h"
#include "shmem/pool.h"
#include "shmem/request_queue.h"

/*
 * A grant that was decided, on its way into the tables and to the one that
 * gets it.
 */
typedef struct IdgenDecision
{
	IdgenJob   *job;
	IdgenGrantRow row;
	IdgenCursorGrant cursor;	/* what a cursor of this server gets, ... */
	IdgenAnswer *answer;		/* ... or the answer to an external generator;
								 * NULL = the grant is for a cursor */
	int64		issues_until;	/* until which tick an external generator can
								 * issue from what it had before; the clock if
								 * it had nothing */
} IdgenDecision;

/* A worker for a fresh incarnation, and its first grant. */
typedef struct IdgenFirstGrant
{
	int32		worker;
	const IdgenMark *mark;		/* of the worker; NULL if it has none yet */
	IdgenGrant	grant;
} IdgenFirstGrant;

/* A round; it lives in the memory context in which it was begun. */
typedef struct IdgenRound
{
	IdgenAuthority *authority;
	int			ticket_count;
	IdgenTicket *tickets;
	IdgenAnswer *answers;		/* [ticket_count], to requests of external
								 * generators for a grant */
	bool		unanswered;		/* some request is to be looked at again soon */
	int			survey_count;
	IdgenCursorSurvey *surveys;
	int			job_count;
	IdgenJob   *jobs;
	int64		begun_us;		/* monotonic */
	IdgenClockView clock;		/* judged when it began */
	int			decision_count;
	int			decision_max;
	IdgenDecision *decisions;
} IdgenRound;

extern IdgenJob *idgen_round_job(IdgenRound *round, const char *name,
								 const pg_uuid_t *uuid);
extern void idgen_round_serve(IdgenRound *round);

/* --- round_open.c: before anything is decided */
extern bool idgen_round_open(const IdgenRound *round, IdgenJob *job);

/* --- round_worker.c: a worker for a fresh incarnation */
extern bool idgen_round_decide_fresh(const IdgenRound *round, const IdgenJob *job,
									 int64 eligible, int64 length,
									 IdgenFirstGrant *first, IdgenError *error);

/* --- round_cursors.c: cursors of this server */
extern void idgen_round_decide_cursors(IdgenRound *round, IdgenJob *job);

/* --- round_external.c: external generators */
extern bool idgen_round_grants_to(const IdgenTicket *ticket);
extern bool idgen_round_is_holder(const IdgenTicket *ticket, IdgenIncarnationRow *row);
extern void idgen_round_decide_external(IdgenRound *round, IdgenJob *job);
extern void idgen_round_set_granted(const IdgenJob *job, int32 worker, int64 incarnation,
									int64 grant_id, const IdgenGrant *grant,
									IdgenAnswer *answer);

/* --- for these: note a decision */
extern IdgenDecision *idgen_round_add(IdgenRound *round, IdgenJob *job,
									  int32 worker, const IdgenMark *mark,
									  const IdgenGrant *grant);

#endif							/* IDGEN_ROUND_H */
