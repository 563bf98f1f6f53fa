/*
 * external.c
 *		An external generator: test/generator/generator.c without a connection.
 *
 * The network gives every question a number; an answer to another question than
 * the last is that of a connection given up.
 */
#include "external.h"

#include <string.h>

#include "server.h"

#define RETRY_US			(30 * MS)
#define ANSWER_WITHIN_US	(1500 * MS)

static void external_step(World *world, int at, int64_t life);

static External *
external_of(World *world, int at)
{
	return &world->externals[at];
}

/* Most ask in the databases that are always there. */
static int
external_database(const World *world, int at)
{
	return world->config.is_quiet ? 0 : at == 4 ? DATABASES - 1 :
		at % (DATABASES - 1);
}

/* A process starts, with nothing. */
void
external_start(World *world, int at)
{
	External   *external = external_of(world, at);
	int64_t		life = external->life + 1;

	memset(external, 0, sizeof(*external));
	external->is_alive = true;
	external->life = life;
	external->machine = SERVERS_MAX + at;
	external->database = external_database(world, at);
	external->server = world->primary;
	external->last_tick = -1;
	idgen_cursor_init(&external->cursor, 0);
	world_at(world, world->now_us + world_between(world, 1, 50 * MS),
			 external_step, at, life);
}

void
external_crash(World *world, int at)
{
	external_of(world, at)->is_alive = false;
	external_of(world, at)->life++;
}

/* The incarnation is over; what it issued last still counts (order). */
static void
forget_incarnation(External *external)
{
	if (external->cursor.last_tick >= 0)
	{
		external->last_tick = external->cursor.last_tick;
		external->last_worker = external->cursor.worker;
	}
	idgen_cursor_init(&external->cursor, 0);
	external->incarnation = 0;
	external->request = 0;
}

static void
ask(World *world, int at, Question question)
{
	External   *external = external_of(world, at);
	Asked		asked = {
		.external = at,
		.number = external->question = world_number(world),
		.question = question,
		.database = external->database,
		.incarnation = external->incarnation,
		.request = external->request,
		.after_grant = external->last_grant,
	};

	external->give_up_us = world->now_us + ANSWER_WITHIN_US;
	if (external->server >= 0)
		network_ask(world, external->server, &asked);
}

/* Is the next grant to be asked for? */
static bool
is_due(const World *world, const External *external)
{
	return world_tick(world, external->machine) >=
		idgen_grant_due_at(idgen_cursor_granted_end(&external->cursor),
						   external->length, world->config.horizon, 0);
}

static void
ask_what_is_due(World *world, int at)
{
	External   *external = external_of(world, at);

	if (external->question != 0)
	{
		if (world->now_us < external->give_up_us)
			return;
		/* another connection, often to the present primary */
		external->question = 0;
		if (world->is_over || !world_one_in(world, 4))
			external->server = world->primary;
	}
	if (world->now_us < external->retry_us)
		return;
	if (external->incarnation == 0)
		ask(world, at, ASK_ACTIVATE);
	else if (external->request != 0 || is_due(world, external))
	{
		if (external->request == 0)
			external->request = world_number(world);
		ask(world, at, ASK_ACQUIRE);
	}
}

/* Issue what the call wants, as far as it goes. */
static void
issue(World *world, int at)
{
	External   *external = external_of(world, at);
	IdgenCursorDemand demand = {
		.now = world_tick(world, external->machine),
		.count = world->config.scale ? world->config.batch :
		world_between(world, 1, world->config.batch),
	};
	CheckerIds	ids = {external->database, external->incarnation, 0, 0};
	IdgenCursorRun run;

	if (external->last_tick >= 0)
		demand.min_tick = idgen_cursor_spill_tick(external->cursor.worker,
												  external->last_tick,
												  external->last_worker);
	if (external->incarnation == 0 ||
		idgen_cursor_issue(&external->cursor, &world->config.layout, &demand,
						   &run) != IDGEN_CURSOR_ISSUED)
		return;
	ids.first = idgen_layout_assemble(&world->config.layout, run.tick,
									  external->cursor.worker, run.sequence);
	ids.count = run.count;
	checker_issued(world->checker, &ids);
	checker_left(world->checker, &ids, &external->last_id);
	external->issued_at_us = world->now_us;
	if (!world->config.scale)
		world_note(world, "external % issues % (%)", at, ids.first, ids.count, 0);
}

static void
external_step(World *world, int at, int64_t life)
{
	External   *external = external_of(world, at);

	if (!external->is_alive || external->life != life)
		return;
	if (external->paused_until_us > world->now_us)
	{
		world_at(world, external->paused_until_us, external_step, at, life);
		return;
	}
	ask_what_is_due(world, at);
	issue(world, at);
	world_at(world, world->now_us +
			 world_between(world, 1, 2 * world->config.call_gap_us), external_step,
			 at, life);
}

/* ---- answers ---- */

static void
take_grant(World *world, External *external, const Answer *answer)
{
	int64_t		now = world_tick(world, external->machine);

	if (answer->asked.question == ASK_ACTIVATE)
		idgen_cursor_init(&external->cursor, answer->worker);
	switch (idgen_cursor_install(&external->cursor, &answer->grant, now))
	{
		case IDGEN_INSTALL_ADDED:
		case IDGEN_INSTALL_MERGED:
			break;
		case IDGEN_INSTALL_BAD:
			checker_complain(world->checker, "S2", "a holder gets [%lld, %lld) "
							 "after what it had", (long long) answer->grant.start,
							 (long long) answer->grant.end);
			return;
		case IDGEN_INSTALL_FULL:
			forget_incarnation(external);
			return;
	}
	external->incarnation = answer->incarnation;
	external->last_grant = answer->grant_id;
	external->length = answer->grant.end - answer->grant.start;
	external->request = 0;
}

void
external_answer(World *world, const Answer *answer)
{
	External   *external = external_of(world, answer->asked.external);

	if (!external->is_alive || external->question != answer->asked.number)
		return;
	external->question = 0;
	switch (answer->outcome)
	{
		case OUTCOME_GRANTED:
			take_grant(world, external, answer);
			break;
		case OUTCOME_DONE:
			break;
		case OUTCOME_AFRESH:
			forget_incarnation(external);
			break;
		case OUTCOME_RETRY:
		case OUTCOME_REFUSED:
			external->retry_us = world->now_us + RETRY_US;
			break;
	}
}

/* ---- what else a process does ---- */

/* Give the worker back; the next activation is a fresh incarnation. */
void
external_deactivate(World *world, int at)
{
	External   *external = external_of(world, at);

	if (external->incarnation == 0)
		return;
	ask(world, at, ASK_DEACTIVATE);
	forget_incarnation(external);
}

/*
 * Clone the process (doc/guarantees.md (d)): outside the contract inside a grant, and as
 * long as a request is not answered, whose answer both would take.  What both
 * may have is an incarnation whose grants are over.  A fork is noticed by the
 * client library, and the child begins afresh.
 */
bool
external_clone(World *world, int at)
{
	External   *external = external_of(world, at);
	int			to = 0;
	bool		is_noticed = world_one_in(world, 2);
	int64_t		life;

	while (to < EXTERNALS_MAX && (world->externals[to].is_alive ||
								  external_database(world, to) != external->database))
		to++;
	if (to == EXTERNALS_MAX || external->incarnation == 0)
		return false;
	if (!is_noticed && (external->request != 0 || external->question != 0 ||
						idgen_cursor_granted_end(&external->cursor) >
						world_tick(world, external->machine)))
		return false;
	if (!is_noticed)
		external->cursor.grant_count = 0;
	life = world->externals[to].life + 1;
	world->externals[to] = *external;
	world->externals[to].life = life;
	world->externals[to].machine = SERVERS_MAX + to;
	world->externals[to].question = 0;
	if (is_noticed)
		forget_incarnation(&world->externals[to]);
	world_note(world, "external % is cloned to %, noticed %", at, to, is_noticed,
			   0);
	world_at(world, world->now_us + MS, external_step, to, life);
	return true;
}
