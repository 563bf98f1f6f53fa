/*
 * wait.h
 *		Wait until a call can issue.
 */
#ifndef IDGEN_WAIT_H
#define IDGEN_WAIT_H

#include "postgres.h"

#include "deadline.h"
#include "error.h"
#include "session/session.h"

/* No tick will do: a cursor can issue only after another grant. */
#define IDGEN_RETRY_NEVER	PG_INT64_MAX

/* What a pass over all cursors met, if none of them issued. */
typedef struct IdgenPass
{
	bool		spent;			/* a cursor has used up its sequence values */
	bool		behind;			/* the clock is behind what was issued */
	bool		not_yet;		/* a grant starts later */
	bool		dry;			/* a cursor has no grant left or is gone, or
								 * there is no cursor */
	bool		locked;			/* a cursor was busy at each try */
	int64		retry_at;		/* the earliest tick at which a cursor can
								 * issue, or IDGEN_RETRY_NEVER */
} IdgenPass;

/* A call that could not issue at once. */
typedef struct IdgenCall
{
	IdgenSession *session;
	IdgenDeadline deadline;
	int64		lock_deadline;	/* the same for busy cursors, which even a
								 * call that must not wait tries for a moment */
	bool		may_wait;		/* idgen.wait_timeout is not 0 */
	IdgenError	error;			/* the strongest cause found so far */

	/* --- where its time went, in microseconds, in waits that are over */
	int64		spent_us;		/* for a tick, as sequence values were used up */
	int64		dry_us;			/* for a grant */
	int64		vain_us;		/* the part of dry_us since the last ID */
	int64		waiting_since_us;	/* monotonic; start of the wait in
									 * progress */
	int64		running_since_us;	/* monotonic; end of the last wait, to
									 * notice a process that was stopped; 0 =
									 * unknown */

	/* --- what the authority answered */
	int			served_count;	/* requests that it served */
	int			vain_count;		/* of these, since the last ID: in vain so far */
	bool		told_used_up;	/* its last answer: all IDs are used up */

	/* --- busy cursors */
	bool		met_lock;
	uint64		issued_then;	/* what all cursors had issued when one was
								 * busy for the first time */
} IdgenCall;

extern void idgen_wait_begin(IdgenCall *call, IdgenSession *session,
							 IdgenDeadline deadline);
extern void idgen_wait_after(IdgenCall *call, const IdgenPass *pass);
extern void idgen_wait_over(IdgenCall *call);
extern bool idgen_wait_wish_for_cursor(IdgenCall *call);

#endif							/* IDGEN_WAIT_H */
