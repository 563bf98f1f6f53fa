/*
 * session.c
 *		A backend that issues from the cursors in shared memory: src/session/generator.c
 *		re-enacted.
 *
 * Between any two things that it does inside a cursor's lock it may be stopped
 * for seconds, or end and take shared memory with it.
 */
#include "server.h"

#include <string.h>

/* A busy lock is tried for so long also by a call that must not wait. */
#define LOCKED_AT_LEAST_US	(10 * MS)

/* What a call may be late by: the last pass. */
#define LATE_US				(2 * MS)

/* A session, and where it is. */
typedef struct Caller
{
	World	   *world;
	int			at;
	int			database;
	int			number;
	Server	   *server;
	Session    *session;
} Caller;

static void session_step(World *world, int who, int64_t alarm);

static Caller
caller_of(World *world, int at, int database, int number)
{
	Server	   *server = server_of(world, at);

	return (Caller) {world, at, database, number, server,
	&server->sessions[database][number]};
}

/* Its number in the whole world. */
static int
who_is(const Caller *caller)
{
	return (caller->at * DATABASES + caller->database) * SESSIONS_MAX +
		caller->number;
}

static void
wake_at(const Caller *caller, int64_t at_us)
{
	world_at(caller->world, at_us, session_step, who_is(caller),
			 ++caller->session->alarm);
}

static void
restart_server(World *world, int at, int64_t life)
{
	if (!server_of(world, at)->is_running && server_of(world, at)->starts == life)
		server_start(world, at);
}

/* Something may happen to the process here; true if it goes no further now. */
static bool
meets_fate(const Caller *caller)
{
	World	   *world = caller->world;
	int64_t		pause_us;

	if (world->is_over || world->config.scale)
		return false;
	if (world_one_in(world, 30000))
	{
		/* shared memory may be torn: all of it is made anew */
		server_crash(world, caller->at);
		world_at(world, world->now_us + 50 * MS, restart_server, caller->at,
				 caller->server->starts);
		return true;
	}
	if (!world_one_in(world, 1000))
		return false;
	pause_us = world_one_in(world, 4) ? world_between(world, MS, 3 * SECOND) :
		world_between(world, 1, 20 * MS);
	caller->session->paused_us += pause_us;
	wake_at(caller, world->now_us + pause_us);
	return true;
}

/* ---- the call ---- */

/* Until its next call. */
static int64_t
gap_us(const Caller *caller)
{
	World	   *world = caller->world;

	if (world->config.is_quiet && caller->database > 0)
		return world_between(world, 1, 2 * SECOND);
	return world_between(world, 1, 2 * world->config.call_gap_us);
}

static void
end_call(const Caller *caller, bool has_failed)
{
	World	   *world = caller->world;
	Session    *session = caller->session;

	world->calls++;
	world->failures += has_failed;
	if (world->now_us > session->until_us + LOCKED_AT_LEAST_US + LATE_US +
		session->paused_us)
		checker_complain(world->checker, "S10", "a call ended %lld us late",
						 (long long) (world->now_us - session->until_us));
	session->is_calling = false;
	session->ticket = 0;
	wake_at(caller, world->now_us + gap_us(caller));
}

static void
begin_pass(Session *session)
{
	session->tried = 0;
	session->is_dry = session->ref_count == 0;
	session->is_locked = false;
	session->is_spent = false;
	session->retry_at = NEVER;
}

static void
begin_call(const Caller *caller)
{
	World	   *world = caller->world;
	Session    *session = caller->session;

	session->is_calling = true;
	session->is_first = true;
	session->wanted = world_between(world, 1, world->config.batch);
	session->until_us = world->now_us + world->config.wait_us;
	session->locked_until_us = max_of(session->until_us,
									  world->now_us + LOCKED_AT_LEAST_US);
	session->paused_us = 0;
	session->began_after = caller->server->last_id[caller->database];
	if (world_tick(world, caller->server->machine) > session->last_tick)
		session->at = session->home;
	begin_pass(session);
}

/* List the cursors again if any came or went, by worker. */
static void
refresh(const Caller *caller)
{
	Session    *session = caller->session;
	const Tables *tables = &caller->server->tables[caller->database];

	if (session->pool_version == caller->server->pool_version &&
		session->uuid == tables->ownership.uuid)
		return;
	session->pool_version = caller->server->pool_version;
	session->uuid = tables->ownership.uuid;
	session->ref_count = 0;
	for (int i = 0; i < SLOTS; i++)
	{
		const Slot *slot = &caller->server->slots[i];
		int			at = session->ref_count;

		if (slot->state != SLOT_ACTIVE || slot->database != caller->database ||
			slot->uuid != session->uuid || at == REFS_MAX)
			continue;
		for (; at > 0 && session->refs[at - 1].worker > slot->worker; at--)
			session->refs[at] = session->refs[at - 1];
		session->refs[at].slot = i;
		session->refs[at].worker = slot->worker;
		session->refs[at].generation = slot->given_generation;
		session->refs[at].incarnation = slot->incarnation;
		session->ref_count++;
	}
	session->home = (int) min_of(session->home, max_of(session->ref_count - 1, 0));
	session->at = session->home;
}

/* Ask the authority; wait for its answer if "is_waiting". */
static void
post_wish(const Caller *caller, bool another, bool is_waiting)
{
	Server	   *server = caller->server;
	Session    *session = caller->session;
	int			database = caller->database;

	session->ticket = is_waiting ? world_number(caller->world) : 0;
	if (server->wish_count[database] < WISHES_MAX)
		server->wishes[database][server->wish_count[database]++] = (Wish) {
			.session = caller->number,
			.ticket = session->ticket,
			.cursors_seen = another ? session->ref_count : -1,
		};
	authority_start(caller->world, caller->at, database);
}

static void
wait_for_lock(const Caller *caller)
{
	World	   *world = caller->world;

	if (world->now_us >= caller->session->locked_until_us &&
		!world_breaks(world, BREAK_WAIT_FOR_LOCK))
		end_call(caller, true);
	else
		wake_at(caller, world->now_us + 500);
}

static void
wait_for_grant(const Caller *caller)
{
	const World *world = caller->world;

	post_wish(caller, false, world->config.wait_us > 0);
	if (world->config.wait_us == 0 || world->now_us >= caller->session->until_us)
		end_call(caller, true);
	else if (world_breaks(world, BREAK_WAIT_FOR_GRANT))
		caller->session->alarm++;
	else
		wake_at(caller, caller->session->until_us);
}

/* The true time at which the clock will show a tick. */
static int64_t
shown_at(const Caller *caller, int64_t tick)
{
	World	   *world = caller->world;
	int64_t		unix_ms;

	if (!idgen_layout_unix_ms(&world->config.layout, max_of(tick, 0), &unix_ms))
		return NEVER;
	return world->now_us + max_of(1, unix_ms * MS -
								  world_wall_us(world, caller->server->machine));
}

static void
wait_for_tick(const Caller *caller)
{
	const Session *session = caller->session;
	int64_t		at_us = shown_at(caller, session->retry_at);

	if (session->is_dry)
		post_wish(caller, false, false);
	else if (session->is_spent &&
			 session->ref_count < caller->world->config.max_workers)
		post_wish(caller, true, false);
	if (at_us > session->until_us)
		end_call(caller, true);
	else
		wake_at(caller, at_us);
}

/* Nothing was issued by any cursor: wait for something, or fail. */
static void
wait_after(const Caller *caller)
{
	Session    *session = caller->session;

	session->at = session->home;
	if (session->is_locked)
		wait_for_lock(caller);
	else if (session->retry_at == NEVER)
		wait_for_grant(caller);
	else
		wait_for_tick(caller);
}

/* ---- inside a cursor ---- */

static void
leave(Session *session, Slot *slot)
{
	slot->locked_by = -1;
	session->inside = INSIDE_NOTHING;
}

/* What the cursor has issued, for the checker. */
static CheckerIds
ids_of(const Caller *caller)
{
	const Session *session = caller->session;

	return (CheckerIds) {
		.database = caller->database,
		.incarnation = session->refs[session->index].incarnation,
		.first = idgen_layout_assemble(&caller->world->config.layout,
									   session->run.tick,
									   session->refs[session->index].worker,
									   session->run.sequence),
		.count = session->run.count,
	};
}

static void
issue(const Caller *caller, Slot *slot)
{
	const World *world = caller->world;
	Session    *session = caller->session;
	int32_t		worker = session->refs[session->index].worker;
	bool		is_same = session->refs[session->index].generation ==
		session->last_generation;
	IdgenCursorDemand demand = {
		.now = session->now,
		.run_ahead = world->config.run_ahead,
		.min_tick = is_same || world_breaks(world, BREAK_NO_SPILL_ORDER) ? 0 :
		idgen_cursor_spill_tick(worker, session->last_tick, session->last_worker),
		.count = session->wanted,
	};
	CheckerIds	ids;

	switch (idgen_cursor_issue(&slot->cursor, &world->config.layout, &demand,
							   &session->run))
	{
		case IDGEN_CURSOR_ISSUED:
			ids = ids_of(caller);
			checker_issued(world->checker, &ids);
			leave(session, slot);
			session->inside = INSIDE_ISSUED;
			return;
		case IDGEN_CURSOR_GRANT_ENDED:
			session->is_dry = true;
			break;
		case IDGEN_CURSOR_SEQUENCE_SPENT:
			session->is_spent = true;
			session->retry_at = min_of(session->retry_at, session->run.retry_at);
			break;
		case IDGEN_CURSOR_NOT_YET_VALID:
		case IDGEN_CURSOR_CLOCK_BEHIND:
			session->retry_at = min_of(session->retry_at, session->run.retry_at);
			break;
	}
	leave(session, slot);
}

/* The IDs leave. */
static void
give(const Caller *caller)
{
	World	   *world = caller->world;
	Session    *session = caller->session;
	int64_t	   *last_id = &caller->server->last_id[caller->database];
	CheckerIds	ids = ids_of(caller);

	checker_left(world->checker, &ids, &session->last_id);
	if (world->config.max_workers == 1 && !caller->server->went_back &&
		ids.first <= session->began_after)
		checker_complain(world->checker, "ORDER", "ID %lld was asked for after "
						 "%lld was there", (long long) ids.first,
						 (long long) session->began_after);
	*last_id = max_of(*last_id, ids.first + ids.count - 1);
	if (!world->config.scale)
		world_note(world, "session % of % (%) issues %", caller->number,
				   caller->at, caller->database, ids.first);
	session->last_tick = session->run.tick;
	session->last_worker = session->refs[session->index].worker;
	session->last_generation = session->refs[session->index].generation;
	session->at = session->index;
	session->issued_at_us = world->now_us;
	session->wanted -= ids.count;
	session->inside = INSIDE_NOTHING;
}

/* One step inside a cursor. */
static void
step_inside(const Caller *caller)
{
	Session    *session = caller->session;
	Slot	   *slot = &caller->server->slots[session->refs[session->index].slot];

	switch (session->inside)
	{
		case INSIDE_NOTHING:
			break;
		case INSIDE_LOCK:
			session->now = world_tick(caller->world, caller->server->machine);
			session->inside = INSIDE_TIMED;
			break;
		case INSIDE_TIMED:
			session->inside = INSIDE_CHECKED;
			if (slot->generation == session->refs[session->index].generation &&
				slot->uuid == caller->server->dropped_uuid[caller->database])
				checker_complain(caller->world->checker, "S5", "a cursor of a "
								 "dropped namespace issues");
			if (slot->generation == session->refs[session->index].generation ||
				world_breaks(caller->world, BREAK_ISSUE_ANY_TENURE))
				break;
			session->is_dry = true;
			session->pool_version = 0;
			leave(session, slot);
			break;
		case INSIDE_CHECKED:
			issue(caller, slot);
			break;
		case INSIDE_ISSUED:
			give(caller);
			begin_pass(session);
			break;
	}
}

/* Try the next cursor of the pass; false if there is none left. */
static bool
enter_next(const Caller *caller)
{
	Session    *session = caller->session;
	Slot	   *slot;

	if (session->tried >= session->ref_count)
		return false;
	session->index = (session->at + session->tried++) % session->ref_count;
	slot = &caller->server->slots[session->refs[session->index].slot];
	if (slot->locked_by >= 0)
		session->is_locked = true;
	else
	{
		slot->locked_by = who_is(caller);
		session->inside = INSIDE_LOCK;
	}
	return true;
}

static void
session_step(World *world, int who, int64_t alarm)
{
	Caller		caller = caller_of(world, who / SESSIONS_MAX / DATABASES,
								   who / SESSIONS_MAX % DATABASES,
								   who % SESSIONS_MAX);
	Session    *session = caller.session;

	if (!session->is_alive || session->alarm != alarm)
		return;
	if (!session->is_calling)
		begin_call(&caller);
	else if (session->inside == INSIDE_NOTHING)
	{
		session->ticket = 0;
		refresh(&caller);
		begin_pass(session);
	}
	for (;;)
	{
		if (session->inside != INSIDE_NOTHING)
		{
			step_inside(&caller);
			if (session->wanted == 0)
			{
				end_call(&caller, false);
				return;
			}
			if (meets_fate(&caller))
				return;
		}
		else if (!enter_next(&caller))
		{
			/* the fast path goes by the list it has; then look again */
			if (!session->is_first)
			{
				wait_after(&caller);
				return;
			}
			session->is_first = false;
			refresh(&caller);
			begin_pass(session);
		}
	}
}

/* The authority has served what this session waited for. */
void
session_answer(World *world, int at, int database, int number, int64_t ticket)
{
	Caller		caller = caller_of(world, at, database, number);

	if (caller.session->is_alive && ticket != 0 && caller.session->ticket == ticket)
		wake_at(&caller, min_of(world->now_us + world_between(world, 100, 10 * MS),
								max_of(caller.session->until_us, world->now_us)));
}

/* A client connects. */
void
session_start(World *world, int at, int database, int number)
{
	Caller		caller = caller_of(world, at, database, number);
	int64_t		alarm = caller.session->alarm;

	memset(caller.session, 0, sizeof(*caller.session));
	caller.session->is_alive = true;
	caller.session->alarm = alarm;
	caller.session->last_tick = -1;
	caller.session->last_worker = -1;
	caller.session->pool_version = -1;
	wake_at(&caller, world->now_us + world_between(world, 1, 20 * MS) +
			(world->config.is_quiet && database > 0 ? gap_us(&caller) : 0));
}
