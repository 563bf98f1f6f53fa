/*
 * cursor.h
 *		The state machine that turns grants into (tick, sequence) pairs.
 *
 * A cursor belongs to one incarnation of one worker.  It is born empty, is fed
 * grants, and dies with its incarnation; nothing else refills it (S5).
 *
 *		          install                    issue
 *		  EMPTY ----------> GRANTED(last) ----------> GRANTED(last' > last)
 *		                      |      ^
 *		      time passes the |      | install: a later grant, merged with the
 *		      last grant's end|      | last one if it continues it
 *		                      v      |
 *		                    SPENT ---+
 *
 * "last" is the pair issued last.  Each issue moves it strictly upward (S6),
 * whatever the clock does, and only to a tick inside a grant (S1).  A refused
 * call returns a code and changes nothing; the caller may retry it as it is,
 * and all checks run again.
 */
#ifndef IDGEN_CORE_CURSOR_H
#define IDGEN_CORE_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "grant.h"
#include "layout.h"

/*
 * Grants held at once.  Contiguous ones merge, so that a second entry is only
 * needed after a gap.
 */
#define IDGEN_CURSOR_GRANTS_MAX 4

typedef struct IdgenCursor
{
	int64_t		last_tick;		/* tick issued last; -1 before the first */
	int64_t		next_sequence;	/* first unused sequence of last_tick */
	int32_t		worker;
	int32_t		grant_count;
	IdgenGrant	grants[IDGEN_CURSOR_GRANTS_MAX];	/* ascending, disjoint */
} IdgenCursor;

/* Why a call was refused, or IDGEN_CURSOR_ISSUED. */
typedef enum IdgenCursorCode
{
	IDGEN_CURSOR_ISSUED,
	IDGEN_CURSOR_GRANT_ENDED,	/* no grant covers the tick due or a later one */
	IDGEN_CURSOR_NOT_YET_VALID, /* the next grant starts at retry_at */
	IDGEN_CURSOR_SEQUENCE_SPENT,	/* no value is left in the ticks that are
									 * usable now; see retry_at */
	IDGEN_CURSOR_CLOCK_BEHIND	/* the clock is before the tick issued last */
} IdgenCursorCode;

typedef enum IdgenInstallCode
{
	IDGEN_INSTALL_ADDED,
	IDGEN_INSTALL_MERGED,
	IDGEN_INSTALL_BAD,			/* empty, negative, or before what is held */
	IDGEN_INSTALL_FULL			/* too many grants with gaps between them */
} IdgenInstallCode;

/*
 * What a call asks for.  Differences of ticks must not overflow: now is within
 * +/- IDGEN_UNIX_MS_MAX, and grants never end later than a clock + horizon.
 */
typedef struct IdgenCursorDemand
{
	int64_t		now;			/* the clock, in ticks */
	int64_t		run_ahead;		/* ticks that the cursor may be ahead of the
								 * clock, >= 0 */
	int64_t		min_tick;		/* no tick before this one (spill order) */
	int64_t		count;			/* IDs wanted, >= 1 */
} IdgenCursorDemand;

/* What it gets: consecutive sequence values of one tick. */
typedef struct IdgenCursorRun
{
	int64_t		tick;
	int64_t		sequence;		/* the first */
	int64_t		count;			/* 1 ... demand.count */
	int64_t		retry_at;		/* if refused: the clock's tick from which the
								 * call can succeed; unset on GRANT_ENDED */
} IdgenCursorRun;

extern void idgen_cursor_init(IdgenCursor *cursor, int32_t worker);
extern IdgenInstallCode idgen_cursor_install(IdgenCursor *cursor,
											 const IdgenGrant *grant,
											 int64_t now);
extern void idgen_cursor_drop_grants(IdgenCursor *cursor, int32_t count);
extern int64_t idgen_cursor_granted_end(const IdgenCursor *cursor);
extern int64_t idgen_cursor_room(const IdgenCursor *cursor,
								 const IdgenLayout *layout,
								 const IdgenCursorDemand *demand);
extern int64_t idgen_cursor_spill_tick(int32_t worker, int64_t last_tick,
									   int64_t last_worker);

/* The first sequence value of a tick that this cursor has not used. */
static inline int64_t
idgen_cursor_first_free(const IdgenCursor *cursor, int64_t tick)
{
	if (tick == cursor->last_tick)
		return cursor->next_sequence;
	/* the tuple (0,0,0) is never issued (S7) */
	return tick == 0 && cursor->worker == 0 ? 1 : 0;
}

/*
 * Take up to demand->count sequence values of one tick: the earliest tick that
 * is inside a grant, not before the clock, the last issue or min_tick, and not
 * spent.  It may be ahead of the clock by demand->run_ahead.
 *
 * Nothing before the last refusal changes the cursor.
 *
 * It is in the header because every ID comes through here: where it is
 * inlined, demand and run need not pass through memory.
 */
static inline IdgenCursorCode
idgen_cursor_issue(IdgenCursor *cursor, const IdgenLayout *layout,
				   const IdgenCursorDemand *demand, IdgenCursorRun *run)
{
	const int64_t sequence_count = idgen_layout_sequence_count(layout);
	int64_t		tick = demand->now;
	int64_t		sequence;
	int32_t		i = 0;

	if (tick < cursor->last_tick)
		tick = cursor->last_tick;
	if (tick < demand->min_tick)
		tick = demand->min_tick;

	/*
	 * Find the grant and a tick in it with something left.  At most two ticks
	 * are skipped: the one issued last, and tick 0 of worker 0 if its only
	 * value is (0,0,0).
	 */
	for (;;)
	{
		while (i < cursor->grant_count && tick >= cursor->grants[i].end)
			i++;
		if (i == cursor->grant_count)
			return IDGEN_CURSOR_GRANT_ENDED;
		if (tick < cursor->grants[i].start)
			tick = cursor->grants[i].start;
		sequence = idgen_cursor_first_free(cursor, tick);
		if (sequence < sequence_count)
			break;
		tick++;
	}

	if (tick - demand->now > demand->run_ahead)
	{
		run->retry_at = tick - demand->run_ahead;
		if (cursor->last_tick >= 0 &&
			cursor->last_tick - demand->now > demand->run_ahead)
			return IDGEN_CURSOR_CLOCK_BEHIND;
		if (cursor->grants[i].start - demand->now > demand->run_ahead)
			return IDGEN_CURSOR_NOT_YET_VALID;
		return IDGEN_CURSOR_SEQUENCE_SPENT;
	}

	run->tick = tick;
	run->sequence = sequence;
	run->count = demand->count < sequence_count - sequence ?
		demand->count : sequence_count - sequence;

	if (i > 0)
		idgen_cursor_drop_grants(cursor, i);
	cursor->last_tick = tick;
	cursor->next_sequence = sequence + run->count;
	return IDGEN_CURSOR_ISSUED;
}

#endif							/* IDGEN_CORE_CURSOR_H */
