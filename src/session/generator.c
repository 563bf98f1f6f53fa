/*
 * generator.c
 *		Issue IDs from the cursors of this server.
 *
 * A call tries the cursor that its session used last: lock, read the clock,
 * check, advance, unlock.  Nearly every call ends there.  It reads no table,
 * allocates nothing, writes no WAL and needs no transaction ID.
 *
 * Otherwise the call goes on to the namespace's other cursors.  Within one
 * tick a session only moves upward in worker order, so that its IDs rise
 * (S11).  At a new tick it starts again from its home cursor.  That one is low
 * in the order, which leaves room to move upward.  Sessions that meet
 * contention move their homes apart and ask for more cursors.
 *
 * If no cursor can issue, the call waits without holding any lock, see wait.c.
 *
 * The clock is read under the cursor's lock.  A reading taken earlier could be
 * stale, if the process was paused in between.
 */
#include "compat.h"

#include "session/generator.h"

#include "storage/spin.h"

#include "clock.h"
#include "session/capacity.h"
#include "session/wait.h"
#include "shmem/counters.h"

/* Tries of a busy cursor before the next one is tried. */
#define CONTENTION_SPINS	8

/*
 * Room for this many runs of a batch at first; each tick of a cursor makes
 * one.
 */
#define FIRST_RUNS	16

/* --------------------------------------------------------------------
 * One cursor
 * -------------------------------------------------------------------- */

typedef enum IdgenTry
{
	IDGEN_TRY_ISSUED,
	IDGEN_TRY_LOCKED,			/* another process is in it */
	IDGEN_TRY_GONE,				/* the slot belongs to another generation now */
	IDGEN_TRY_NEW_TICK,			/* not the cursor to begin a tick with */
	IDGEN_TRY_REFUSED			/* *code says why */
} IdgenTry;

/*
 * Try one cursor.  With home_first, leave it alone if the tick is later than
 * the session's last one.
 *
 * This and issue_fast are always inlined, and idgen_cursor_issue with them, so
 * that demand and run stay in registers.
 */
static pg_attribute_always_inline IdgenTry
try_cursor(IdgenSession *session, const IdgenCursorRef *ref, int32 count,
		   bool home_first, IdgenCursorRun *run, IdgenCursorCode *code)
{
	const IdgenNamespace *ns = session->ns;
	IdgenSlot  *slot = ref->slot;
	IdgenCursorDemand demand;

	if (!LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))
		return IDGEN_TRY_LOCKED;

	demand.now = idgen_layout_tick_at(&ns->row.layout, idgen_clock_wall_ms());

	/*
	 * S5: is the cursor still of the generation that this session knows?  A
	 * cursor is killed without its lock.  So this comes after the clock was
	 * read.  Otherwise a process that was stopped in between could issue IDs
	 * for a time after the kill, and break the order that is promised with a
	 * single cursor.
	 */
	if (pg_atomic_read_u64(&slot->generation) != ref->generation)
	{
		LWLockRelease(&slot->lock);
		return IDGEN_TRY_GONE;
	}
	if (home_first && demand.now > session->last_tick)
	{
		LWLockRelease(&slot->lock);
		return IDGEN_TRY_NEW_TICK;
	}
	demand.run_ahead = ns->run_ahead;
	demand.min_tick = ref->generation == session->last_generation ? 0 :
		idgen_cursor_spill_tick(ref->worker, session->last_tick,
								session->last_worker);
	demand.count = count;
	*code = idgen_cursor_issue(&slot->cursor, &ns->row.layout, &demand, run);
	if (*code == IDGEN_CURSOR_ISSUED)
	{
		slot->issued_count += run->count;
		/* a tick begins with sequence value 0, except tick 0 of worker 0 */
		slot->tick_count += run->sequence == 0;
	}
	LWLockRelease(&slot->lock);
	return *code == IDGEN_CURSOR_ISSUED ? IDGEN_TRY_ISSUED : IDGEN_TRY_REFUSED;
}

/* Remember what the session's current cursor issued; returns the first ID. */
static inline int64
note_issued(IdgenSession *session, const IdgenCursorRun *run)
{
	const IdgenCursorRef *ref = session->current;
	int64		first = idgen_layout_assemble(&session->ns->row.layout, run->tick,
											  ref->worker, run->sequence);

	Assert(first > session->last_id);
	session->last_id = first + run->count - 1;
	session->last_tick = run->tick;
	session->last_worker = ref->worker;
	session->last_generation = ref->generation;
	return first;
}

/* --------------------------------------------------------------------
 * All cursors of a namespace
 * -------------------------------------------------------------------- */

static void
note_refusal(IdgenPass *pass, IdgenCursorCode code, int64 retry_at)
{
	switch (code)
	{
		case IDGEN_CURSOR_ISSUED:
			return;
		case IDGEN_CURSOR_GRANT_ENDED:
			pass->dry = true;
			return;
		case IDGEN_CURSOR_NOT_YET_VALID:
			pass->not_yet = true;
			break;
		case IDGEN_CURSOR_SEQUENCE_SPENT:
			pass->spent = true;
			break;
		case IDGEN_CURSOR_CLOCK_BEHIND:
			pass->behind = true;
			break;
	}
	pass->retry_at = Min(pass->retry_at, retry_at);
}

/* Try a cursor, a few times if it is busy. */
static IdgenTry
try_busy_cursor(IdgenSession *session, const IdgenCursorRef *ref, int32 count,
				IdgenCursorRun *run, IdgenCursorCode *code)
{
	IdgenTry	outcome = IDGEN_TRY_LOCKED;

	for (int i = 0; i < CONTENTION_SPINS && outcome == IDGEN_TRY_LOCKED; i++)
	{
		if (i > 0)
			SPIN_DELAY();
		outcome = try_cursor(session, ref, count, false, run, code);
	}
	return outcome;
}

/* A cursor has issued; from now on it is the current one. */
static void
move_to(IdgenSession *session, IdgenCursorRef *ref, bool met_lock,
		const IdgenCursorRun *run)
{
	if (met_lock)
		session->home = ref;	/* keep away from the crowd */
	if (ref != session->current && run->tick == session->last_tick)
		idgen_counters_add(session->stats, IDGEN_COUNTER_SPILLS, 1);
	session->current = ref;
}

/* Is the clock behind what this session has issued, by more than it may run ahead? */
static bool
is_behind_session(const IdgenSession *session)
{
	return session->last_tick -
		idgen_layout_tick_at(&session->ns->row.layout, idgen_clock_wall_ms()) >
		session->ns->run_ahead;
}

/*
 * Try all cursors once: upward from the current one, then from the lowest.  True
 * if one issued; it is the current one then.
 */
static bool
pass_over(IdgenSession *session, int32 count, IdgenCursorRun *run, IdgenPass *pass)
{
	int			start = (int) (session->current - session->refs);

	memset(pass, 0, sizeof(*pass));
	pass->retry_at = IDGEN_RETRY_NEVER;
	pass->dry = session->ref_count == 0;
	for (int i = 0; i < session->ref_count; i++)
	{
		IdgenCursorRef *ref = &session->refs[(start + i) % session->ref_count];
		IdgenCursorCode code;

		switch (try_busy_cursor(session, ref, count, run, &code))
		{
			case IDGEN_TRY_ISSUED:
				move_to(session, ref, pass->locked, run);
				return true;
			case IDGEN_TRY_LOCKED:
				session->contentions++;
				pass->locked = true;
				break;
			case IDGEN_TRY_GONE:
				pass->dry = true;
				idgen_session_look_again(session);
				break;
			case IDGEN_TRY_NEW_TICK:
				break;
			case IDGEN_TRY_REFUSED:
				note_refusal(pass, code, run->retry_at);
				break;
		}
	}
	session->current = session->home;
	if (is_behind_session(session))
		pass->behind = true;
	return false;
}

/* Count what was met by a pass that issued nothing. */
static void
count_pass(const IdgenSession *session, const IdgenPass *pass)
{
	int64		last_ms;

	if (pass->spent)
		idgen_counters_add(session->stats, IDGEN_COUNTER_EXHAUSTIONS, 1);
	if (pass->dry && session->last_generation != 0)
		idgen_counters_add(session->stats, IDGEN_COUNTER_GRANTS_MISSED, 1);
	if (!pass->behind)
		return;
	idgen_counters_add(session->stats, IDGEN_COUNTER_CLOCK_BEHIND, 1);
	if (idgen_layout_unix_ms(&session->ns->row.layout, Max(session->last_tick, 0),
							 &last_ms))
		idgen_counters_max(session->stats, IDGEN_COUNTER_CLOCK_BEHIND_MAX_US,
						   (uint64) Max(last_ms * 1000 - idgen_clock_wall_us(), 0));
}

/* --------------------------------------------------------------------
 * The call
 * -------------------------------------------------------------------- */

/*
 * Try the current cursor; the common case.  At a new tick, only the home
 * cursor is tried here; from another one, the slow way begins at home.
 */
static pg_attribute_always_inline bool
issue_fast(IdgenSession *session, int32 count, IdgenCursorRun *run)
{
	IdgenCursorCode code;
	IdgenTry	outcome;

	if (unlikely(session->ref_count == 0))
		return false;
	outcome = try_cursor(session, session->current, count,
						 session->current != session->home, run, &code);
	if (unlikely(outcome == IDGEN_TRY_NEW_TICK))
		session->current = session->home;
	if (unlikely(outcome == IDGEN_TRY_GONE))
		idgen_session_look_again(session);
	return outcome == IDGEN_TRY_ISSUED;
}

/*
 * Issue up to count IDs of one tick: try all cursors and wait, until one
 * issues.
 */
static int64
issue_slowly(IdgenCall *call, int32 count, IdgenCursorRun *run)
{
	IdgenSession *session = call->session;
	IdgenPass	pass;

	for (;;)
	{
		/* opening may wait for locks, which is no pause of the process */
		if (idgen_session_reopen(session, call->deadline))
			call->running_since_us = idgen_clock_monotonic_us();
		idgen_session_list_cursors(session);
		if (pass_over(session, count, run, &pass))
		{
			idgen_wait_over(call);
			return note_issued(session, run);
		}

		/* grants are published in cursors, which may be new ones */
		if (pass.dry)
			session->pool_version = 0;
		count_pass(session, &pass);
		idgen_wait_after(call, &pass);
	}
}

/*
 * The next ID for a call whose deadline was set when it opened the session, or
 * is still unset.  This is a function of its own so that the common case,
 * idgen_generator_next, needs no room on the stack for an IdgenCall.
 */
pg_noinline int64
idgen_generator_next_until(IdgenSession *session, IdgenDeadline deadline)
{
	IdgenCursorRun run;
	IdgenCall	call;

	idgen_wait_begin(&call, session, deadline);
	return issue_slowly(&call, 1, &run);
}

/* The next ID of a session that was open already. */
int64
idgen_generator_next(IdgenSession *session)
{
	IdgenCursorRun run = {0};	/* for compilers that do not see that it is
								 * set */

	if (unlikely(!issue_fast(session, 1, &run)))
		return idgen_generator_next_until(session, IDGEN_DEADLINE_UNSET);
	return note_issued(session, &run);
}

/*
 * Exactly count IDs, as runs of consecutive IDs in ascending order; palloc'd.
 * If not all can be issued, an error is raised, and those issued so far are a gap.
 * The deadline is that of idgen_session_open, or unset if the session was open
 * already.
 */
IdgenIdRun *
idgen_generator_batch(IdgenSession *session, int32 count, IdgenDeadline deadline,
					  int *run_count)
{
	IdgenCall	call;
	int			runs_max = FIRST_RUNS;
	IdgenIdRun *runs = palloc(runs_max * sizeof(IdgenIdRun));
	int32		left = count;

	*run_count = 0;
	idgen_wait_begin(&call, session, deadline);
	idgen_capacity_check_batch(&call, count);
	call.running_since_us = 0;	/* many runs on the fast path take long, which
								 * is no pause */
	while (left > 0)
	{
		IdgenCursorRun run;
		int64		first;

		if (issue_fast(session, left, &run))
			first = note_issued(session, &run);
		else
			first = issue_slowly(&call, left, &run);
		if (*run_count == runs_max)
		{
			runs_max *= 2;
			runs = repalloc_huge(runs, runs_max * sizeof(IdgenIdRun));
		}
		runs[*run_count].first = first;
		runs[*run_count].count = (int32) run.count;
		(*run_count)++;
		left -= (int32) run.count;
	}
	idgen_counters_add(session->stats, IDGEN_COUNTER_BATCHES, 1);
	return runs;
}
