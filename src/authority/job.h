/*
 * job.h
 *		What a round does for one namespace.
 */
#ifndef IDGEN_JOB_H
#define IDGEN_JOB_H

#include "postgres.h"

#include "utils/uuid.h"

#include "catalog/marks.h"
#include "catalog/namespace_cache.h"
#include "core/grant.h"
#include "error.h"
#include "shmem/request_queue.h"
#include "shmem/counters.h"

typedef struct IdgenJob
{
	char		name[NAMEDATALEN];
	pg_uuid_t	uuid;
	bool		cursor_wanted;	/* a session waits for IDs */
	int			cursors_seen;	/* a further cursor is wanted if there are no
								 * more than these; -1 = not wanted */

	/* --- once it is open */
	IdgenNamespace *ns;
	IdgenMarks *marks;
	IdgenCounters *stats;		/* NULL until something is counted */
	int64		now;			/* the clock, in ticks */
	int64		not_before;		/* the first tick of a fresh incarnation: now,
								 * or later if the clock was set back */

	/* --- what came of it */
	IdgenOutcome outcome;		/* for the namespace as a whole; if it is
								 * SERVED, each request of an external
								 * generator has an answer */
	IdgenOutcome cursor_outcome;	/* if that is SERVED, for the cursors of
									 * this server */
	IdgenError	error;			/* why one of the two is RETRY or REFUSED */
} IdgenJob;

extern void idgen_job_fail(IdgenJob *job, IdgenOutcome outcome, const IdgenError *error);
extern void idgen_job_fail_cursors(IdgenJob *job, IdgenOutcome outcome,
								   const IdgenError *error);
extern IdgenCounters *idgen_job_stats(IdgenJob *job);

/* --- once it is open */
extern int64 idgen_job_usual_length(const IdgenJob *job);
extern int64 idgen_job_cursor_length(const IdgenJob *job);
extern int64 idgen_job_horizon(const IdgenJob *job);
extern int64 idgen_job_due_at(const IdgenJob *job, int64 granted_end);
extern int64 idgen_job_due_along(const IdgenJob *job, int64 granted_end);
extern int64 idgen_job_unix_ms(const IdgenJob *job, int64 tick);
extern IdgenWorkerRange idgen_job_worker_range(const IdgenJob *job);
extern void idgen_job_set_until(const IdgenJob *job, IdgenErrorKind kind, int64 retry_at,
								IdgenError *error);
extern bool idgen_job_decide(const IdgenJob *job, int64 high_water, int64 eligible,
							 int64 length, IdgenGrant *grant, int64 *retry_at,
							 IdgenError *error);

#endif							/* IDGEN_JOB_H */
