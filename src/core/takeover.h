/*
 * takeover.h
 *		What an authority does before its first grant after it was copied,
 *		restored or promoted (doc/design.md, "Identity of the authority").
 */
#ifndef IDGEN_CORE_TAKEOVER_H
#define IDGEN_CORE_TAKEOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "identity.h"
#include "worker.h"

/*
 * What the verdict on an identity leads to.  A missing identity is treated as that
 * of another system.
 */
typedef enum IdgenTakeover
{
	IDGEN_TAKEOVER_NONE,		/* the namespace is ours as it is */
	IDGEN_TAKEOVER_PROMOTED,	/* see idgen_promotion_judge */
	IDGEN_TAKEOVER_FENCED,		/* ours after a fence */
	IDGEN_TAKEOVER_TEMPLATE,	/* an ID space of its own from now on, above
								 * all that its tables hold */
	IDGEN_TAKEOVER_REFUSED		/* no grants until it is adopted */
} IdgenTakeover;

/* The policy of a namespace for a change of timeline. */
typedef enum IdgenPromotion
{
	IDGEN_PROMOTION_FENCE,
	IDGEN_PROMOTION_SPLIT,
	IDGEN_PROMOTION_TRUST,
	IDGEN_PROMOTION_REFUSE
} IdgenPromotion;

/* A timeline, and a time by which it had begun, perhaps long before. */
typedef struct IdgenTimelineBegun
{
	uint32_t	timeline;
	int64_t		known_ms;		/* Unix, by this server's clock */
} IdgenTimelineBegun;

/* What is known about the way from the recorded timeline to the present one. */
typedef struct IdgenPromotionFacts
{
	IdgenPromotion policy;
	bool		history_complete;	/* the history was read, and names the
									 * recorded timeline among the ancestors */
	bool		has_target;		/* a recovery since the recorded timeline had
								 * a target */
	bool		is_recreated;	/* see idgen_identity_is_recreated */
	uint32_t	recorded;		/* the timeline that the identity names */
	uint32_t	present;
	int64_t		now_ms;			/* the clock, Unix ms */
	int64_t		horizon_ms;
	int64_t		clock_error_ms; /* the most by which the clocks of servers
								 * that inherit an authority differ */
	int64_t		recorded_ms;	/* when the identity was recorded, Unix ms */
	int64_t		restored_ms;	/* when this directory last began to recover
								 * what another server wrote, Unix ms; 0 =
								 * never */

	/* for "split" alone */
	int			parts;
	int			begun_count;	/* of the present timeline and its ancestors */
	IdgenTimelineBegun begun[IDGEN_SPLIT_PARTS_MAX];
} IdgenPromotionFacts;

typedef enum IdgenPromotionVerdict
{
	IDGEN_PROMOTION_AT_ONCE,	/* go on, after ending every incarnation */
	IDGEN_PROMOTION_WAIT,		/* fence first */
	IDGEN_PROMOTION_NEVER		/* no grants until it is adopted */
} IdgenPromotionVerdict;

/* No timeline is known to have begun long enough ago. */
#define IDGEN_BEGUN_NEVER	INT64_MIN

/* What a fence is decided from; all in ticks. */
typedef struct IdgenFenceFacts
{
	int64_t		now;			/* the authority's clock */
	int64_t		last_clock;		/* the latest clock known from records: that
								 * of the last grant, or of the newest
								 * replayed commit; 0 = none */
	int64_t		highest_mark;	/* of all workers and the floor */
	int64_t		above;			/* the first tick past the ID that the
								 * operator named; 0 = none */
	int64_t		horizon;
	int64_t		clock_error;	/* as clock_error_ms above */
} IdgenFenceFacts;

extern IdgenTakeover idgen_takeover_judge(IdgenIdentityVerdict verdict,
										  bool fence_copies);
extern bool idgen_identity_is_in_place(const IdgenIdentity *recorded,
									   const IdgenIdentity *found,
									   const IdgenPromotionFacts *facts);
extern IdgenPromotionVerdict idgen_promotion_judge(const IdgenPromotionFacts *facts,
												   int64_t *begun_ms);
extern int64_t idgen_fence_floor(const IdgenFenceFacts *facts,
								 int64_t tick_count);

#endif							/* IDGEN_CORE_TAKEOVER_H */
