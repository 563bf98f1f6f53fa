/*
 * round.h
 *		One transaction of grants: for cursors of this server that are due, and
 *		for external generators that ask.
 */
#ifndef IDGEN_ROUND_H
#define IDGEN_ROUND_H

#include "postgres.h"

#include "catalog/grant_rows.h"
#include "catalog/incarnation_rows.h"
#include "shmem/request_queue.h"
#include "catalog/marks.h"
#include "catalog/namespace_cache.h"
#include "shmem/pool.h"
#include "shmem/clock_judge.h"

/* What a round does for one namespace. */
typedef struct IdgenJob
{
	char		name[NAMEDATALEN];
	pg_uuid_t	uuid;
	bool		cursor_wanted;	/* a backend waits for a first cursor */
	int			cursors_seen;	/* a further one is wanted if there are no more
								 * than these; -1 = not wanted */
	IdgenNamespace *ns;			/* while it is open and nothing failed as a
								 * whole; else NULL */
	IdgenMarks *marks;
	IdgenStats *stats;			/* NULL until something is counted */
	int64		now;			/* the clock, in ticks */
	int64		not_before;		/* the first tick of a fresh incarnation: now, or
								 * later if the clock was set back */
	bool		changed;		/* its ownership: kill its cursors, it is to be asked
								 * under another uuid */
	bool		dropped_out;	/* its rows could not be locked */
	IdgenError error;		/* NONE = served */
	bool		retry;			/* the failure may pass by itself */
} IdgenJob;

/* A round; in the memory context it was begun in. */
typedef struct IdgenRound
{
	int			request_count;
	IdgenMailTaken *requests;
	IdgenAnswer *answers;		/* to ACTIVATE and ACQUIRE requests */
	bool		unanswered;		/* some request is to be looked at again */
	int			survey_count;
	IdgenCursorSurvey *surveys;
	int			job_count;
	IdgenJob   *jobs;
	int64		begun_us;		/* monotonic */
	IdgenClockView clock;		/* judged when it began */
	int			item_count;
	int			item_max;
	struct IdgenItem *items;
} IdgenRound;

extern IdgenJob *idgen_round_job(IdgenRound *round, const char *name,
								 const pg_uuid_t *uuid);
extern void idgen_round_serve(IdgenRound *round,
							  void (*answer) (IdgenRound *round, IdgenJob *job));
extern void idgen_round_end_strangers(void);
extern bool idgen_round_grants_to(const IdgenMailTaken *request);
extern bool idgen_round_is_holder(const IdgenMailTaken *taken,
								  IdgenIncarnationRow *row);
extern int64 idgen_round_cursor_length(const IdgenJob *job);
extern int64 idgen_round_horizon(const IdgenNamespace *ns);

/* The worker's transactions, for others that have some of their own. */
extern void idgen_round_begin(MemoryContext context);
extern void idgen_round_commit(MemoryContext context);
extern void idgen_round_abort(MemoryContext context, char *message);

#endif							/* IDGEN_ROUND_H */
