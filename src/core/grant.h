/*
 * grant.h
 *		Decide a grant.
 *
 * Uniqueness rests on these rules (S2, S7, S12).  They are pure: the authority
 * reads marks and clocks, asks here, and stores the answer in a transaction.
 * All positions are in ticks.
 */
#ifndef IDGEN_CORE_GRANT_H
#define IDGEN_CORE_GRANT_H

#include <stdbool.h>
#include <stdint.h>

/* A half-open interval of ticks. */
typedef struct IdgenGrant
{
	int64_t		start;
	int64_t		end;
} IdgenGrant;

typedef enum IdgenGrantVerdict
{
	IDGEN_GRANT_OK,
	IDGEN_GRANT_FIELD_EXHAUSTED,	/* nothing is left below the field's end */
	IDGEN_GRANT_BEYOND_HORIZON, /* the worker is reserved up to now + horizon;
								 * ask again at retry_at */
	IDGEN_GRANT_BAD_REQUEST		/* a length below one tick, a negative mark */
} IdgenGrantVerdict;

/* What a grant is decided from. */
typedef struct IdgenGrantFacts
{
	int64_t		now;			/* the authority's clock */
	int64_t		eligible;		/* the grant starts no earlier than this */
	int64_t		high_water;		/* the worker's mark: max(its row, floor) */
	int64_t		length;			/* wanted, >= 1 */
	int64_t		horizon;		/* of the namespace, >= 1 */
} IdgenGrantFacts;

/* When a cursor needed a grant, and when it got it; all in ticks. */
typedef struct IdgenGrantTiming
{
	IdgenGrant	grant;
	int64_t		length;			/* its length if the horizon had left room */
	int64_t		wanted_at;		/* when the cursor was due */
	int64_t		dry_at;			/* when it may have used up what it had;
								 * INT64_MAX = it had nothing */
	int64_t		decided_at;
	int64_t		published_at;
} IdgenGrantTiming;

/*
 * How a request for a grant relates to the chain of its incarnation's grants
 * (doc/design.md, "Identity of the authority").
 */
typedef enum IdgenChainVerdict
{
	IDGEN_CHAIN_NEXT,			/* it follows the last grant: decide a new one */
	IDGEN_CHAIN_REPEATED,		/* it is the request of the last grant: give
								 * the same answer again */
	IDGEN_CHAIN_STALE,			/* it was answered, but is not the last
								 * request: rejected, and nothing ends */
	IDGEN_CHAIN_FORKED,			/* there are two holders: the incarnation ends */
	IDGEN_CHAIN_TAKEN			/* another incarnation has the worker now */
} IdgenChainVerdict;

typedef struct IdgenChainFacts
{
	bool		holds_worker;	/* the worker's last grant is the
								 * incarnation's */
	bool		is_last_request;	/* that grant has the request's id */
	bool		is_recorded;	/* an earlier grant of the incarnation has it */
	int64_t		after_grant;	/* the grant that the request says it follows */
	int64_t		last_grant;		/* the incarnation's last grant */
} IdgenChainFacts;

extern IdgenGrantVerdict idgen_grant_decide(const IdgenGrantFacts *facts,
											int64_t tick_count,
											IdgenGrant *grant,
											int64_t *retry_at);
extern int64_t idgen_grant_ordered_start(int64_t now, int64_t run_ahead,
										 int64_t highest_mark);
extern int64_t idgen_grant_due_at(int64_t granted_end, int64_t length,
								  int64_t horizon, int64_t run_ahead);
extern int64_t idgen_grant_due_along(int64_t granted_end, int64_t length,
									 int64_t horizon, int64_t run_ahead);
extern int64_t idgen_grant_length_needed(int64_t needed,
										 const IdgenGrantTiming *timing,
										 int64_t horizon);
extern IdgenChainVerdict idgen_chain_judge(const IdgenChainFacts *facts);

#endif							/* IDGEN_CORE_GRANT_H */
