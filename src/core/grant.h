/*
 * grant.h
 *		The authority's decisions: which interval, which worker, whose identity.
 *
 * These are the rules on which uniqueness rests (S2, S7, S12).  They are pure:
 * the authority reads marks and clocks, asks here, and stores the answer in a
 * transaction.  All positions are in ticks (for the range kind: in numbers).
 */
#ifndef IDGEN_CORE_GRANT_H
#define IDGEN_CORE_GRANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

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
	IDGEN_GRANT_BEYOND_HORIZON,	/* the worker is reserved up to now + horizon;
								 * ask again at retry_at */
	IDGEN_GRANT_BAD_REQUEST		/* a length below one tick, a negative mark */
} IdgenGrantVerdict;

/* What a grant is decided from. */
typedef struct IdgenGrantFacts
{
	int64_t		now;			/* the authority's clock */
	int64_t		eligible;		/* nor earlier than this */
	int64_t		high_water;		/* the worker's mark: max(its row, floor) */
	int64_t		length;			/* wanted, >= 1 */
	int64_t		horizon;		/* of the namespace, >= 1 */
} IdgenGrantFacts;

/* How a cursor came to a grant; all in ticks. */
typedef struct IdgenGrantTiming
{
	IdgenGrant	grant;
	int64_t		length;			/* that was to be given, had there been room */
	int64_t		wanted_at;		/* when the cursor was due */
	int64_t		dry_at;			/* when it may have used up what it had;
								 * INT64_MAX = it had nothing */
	int64_t		decided_at;
	int64_t		published_at;
} IdgenGrantTiming;

/* What a fence is decided from (DESIGN 8). */
typedef struct IdgenFenceFacts
{
	int64_t		now;			/* the authority's clock */
	int64_t		last_clock;		/* latest clock known from records: of the last
								 * grant, of the newest replayed commit; or 0 */
	int64_t		highest_mark;	/* of all workers and the floor */
	int64_t		above;			/* first tick past what the operator named; 0 */
	int64_t		horizon;
	int64_t		clock_error;	/* most that inherited clocks differ */
} IdgenFenceFacts;

/*
 * Which workers an authority may use: those of [first, last] with
 * worker % modulus == remainder.  modulus is 1 (all), or the number of parts
 * (split).
 */
typedef struct IdgenWorkerRange
{
	int64_t		first;
	int64_t		last;
	int64_t		modulus;
	int64_t		remainder;
} IdgenWorkerRange;

/* Up to where a worker is reserved. */
typedef struct IdgenWorkerMark
{
	int64_t		worker;
	int64_t		high_water;
} IdgenWorkerMark;

/*
 * Where an authority lives.  Birth times are nanoseconds, or 0 where the
 * filesystem has none; then the inode alone is compared.
 */
typedef struct IdgenIdentity
{
	uint64_t	system_identifier;
	uint32_t	database;
	uint32_t	timeline;
	uint64_t	control_inode;	/* global/pg_control */
	int64_t		control_birth;
	uint64_t	version_inode;	/* PG_VERSION of the database */
	int64_t		version_birth;
} IdgenIdentity;

typedef enum IdgenIdentityVerdict
{
	IDGEN_IDENTITY_SAME,
	IDGEN_IDENTITY_OTHER_SYSTEM,	/* dump and restore, pg_upgrade */
	IDGEN_IDENTITY_OTHER_DATABASE,	/* CREATE DATABASE ... TEMPLATE */
	IDGEN_IDENTITY_OTHER_TIMELINE,	/* promotion, point-in-time recovery */
	IDGEN_IDENTITY_OTHER_CONTROL,	/* copied directory, backup without
									 * recovery, moved host */
	IDGEN_IDENTITY_OTHER_FILES	/* only PG_VERSION: same OID re-created, SET
								 * TABLESPACE; no twin can live */
} IdgenIdentityVerdict;

/*
 * How a request for a grant stands to the chain of its incarnation's grants
 * (DESIGN 8).
 */
typedef enum IdgenChainVerdict
{
	IDGEN_CHAIN_NEXT,			/* it follows the last grant: decide a new one */
	IDGEN_CHAIN_REPEATED,		/* it is the request of the last grant: the same
								 * answer again */
	IDGEN_CHAIN_STALE,			/* it was answered, but is not the last: rejected,
								 * ending nothing */
	IDGEN_CHAIN_FORKED,			/* two holders: the incarnation ends */
	IDGEN_CHAIN_TAKEN			/* the worker was given to somebody else */
} IdgenChainVerdict;

typedef struct IdgenChainFacts
{
	bool		holds_worker;	/* the worker's last grant is the incarnation's */
	bool		is_last_request;	/* the request id of that grant */
	bool		is_recorded;	/* of some earlier grant of the incarnation */
	int64_t		after_grant;	/* the grant the request says it follows */
	int64_t		last_grant;		/* the incarnation's last */
} IdgenChainFacts;

extern IdgenChainVerdict idgen_chain_judge(const IdgenChainFacts *facts);
extern int64_t idgen_external_workers_max(int64_t range_size,
										  int64_t server_workers);

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
extern int64_t idgen_fence_floor(const IdgenFenceFacts *facts,
								 int64_t tick_count);

extern bool idgen_worker_in_range(const IdgenWorkerRange *range,
								  int64_t worker);
extern int64_t idgen_worker_range_size(const IdgenWorkerRange *range);
extern int64_t idgen_worker_earliest(const IdgenWorkerRange *range,
									 const IdgenWorkerMark *marks,
									 size_t mark_count,
									 const int64_t *held, size_t held_count);
extern int64_t idgen_worker_choose(const IdgenWorkerRange *range,
								   const int64_t *busy, size_t busy_count,
								   uint64_t random);

/* The policy of a namespace for a change of timeline. */
typedef enum IdgenPromotion
{
	IDGEN_PROMOTION_FENCE,
	IDGEN_PROMOTION_SPLIT,
	IDGEN_PROMOTION_TRUST,
	IDGEN_PROMOTION_REFUSE
} IdgenPromotion;

/*
 * Into how many parts the workers of a namespace are split: few, or many where the
 * range has so many workers.  Each timeline uses one part, the next one the next.
 */
#define IDGEN_SPLIT_PARTS_FEW		2
#define IDGEN_SPLIT_PARTS_MANY		4
#define IDGEN_SPLIT_PARTS_MAX		IDGEN_SPLIT_PARTS_MANY
#define IDGEN_SPLIT_MANY_WORKERS	64

/* By this time of this server's clock a timeline had begun, perhaps long before. */
typedef struct IdgenTimelineBegun
{
	uint32_t	timeline;
	int64_t		known_ms;		/* Unix */
} IdgenTimelineBegun;

/* What is known of the way from the recorded timeline to the present one. */
typedef struct IdgenPromotionFacts
{
	IdgenPromotion policy;
	bool		history_complete;	/* the history was read, and names the recorded
									 * timeline among the ancestors */
	bool		has_target;		/* since the recorded timeline, a recovery was to
								 * stop at a target */
	bool		is_recreated;	/* see idgen_identity_is_recreated */
	uint32_t	recorded;		/* the timeline that the identity names */
	uint32_t	present;
	int64_t		now_ms;			/* the clock, Unix ms */
	int64_t		horizon_ms;
	int64_t		clock_error_ms; /* most that inherited clocks differ */
	int64_t		recorded_ms;	/* when the identity was recorded, Unix ms */
	int64_t		restored_ms;	/* when this directory last began to recover what
								 * another server wrote, Unix ms; 0 = never */

	/* for "split" alone */
	int			parts;
	int			begun_count;	/* of the present timeline and its ancestors */
	IdgenTimelineBegun begun[IDGEN_SPLIT_PARTS_MAX];
} IdgenPromotionFacts;

typedef enum IdgenPromotionVerdict
{
	IDGEN_PROMOTION_AT_ONCE,	/* go on, after ending every incarnation */
	IDGEN_PROMOTION_WAIT,		/* fence first */
	IDGEN_PROMOTION_NEVER		/* until adopted */
} IdgenPromotionVerdict;

/*
 * What the verdict on an identity comes to (DESIGN 8); a missing identity is
 * that of another system.
 */
typedef enum IdgenTakeover
{
	IDGEN_TAKEOVER_NONE,		/* it is ours as it is */
	IDGEN_TAKEOVER_PROMOTED,	/* see idgen_promotion_judge */
	IDGEN_TAKEOVER_FENCED,		/* fence, then it is ours */
	IDGEN_TAKEOVER_TEMPLATE,	/* an ID space of its own from now on, above all
								 * that it holds */
	IDGEN_TAKEOVER_REFUSED		/* until adopted */
} IdgenTakeover;

/* There is no such time. */
#define IDGEN_BEGUN_NEVER	INT64_MIN

extern IdgenTakeover idgen_takeover_judge(IdgenIdentityVerdict verdict,
										  bool fence_copies);
extern IdgenPromotionVerdict idgen_promotion_judge(const IdgenPromotionFacts *facts,
												   int64_t *begun_ms);
extern IdgenIdentityVerdict idgen_identity_compare(const IdgenIdentity *recorded,
												   const IdgenIdentity *found);
extern bool idgen_identity_is_recreated(const IdgenIdentity *recorded,
										const IdgenIdentity *found);
extern bool idgen_identity_is_in_place(const IdgenIdentity *recorded,
									   const IdgenIdentity *found,
									   const IdgenPromotionFacts *facts);
extern int64_t idgen_external_role_max(int64_t workers_max);
extern int	idgen_split_parts(int64_t worker_count);
extern bool idgen_split_has_workers(int64_t worker_count, int parts);
extern int	idgen_split_class(uint32_t timeline, int parts);

#endif							/* IDGEN_CORE_GRANT_H */
