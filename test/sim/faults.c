/*
 * faults.c
 *		One fault after the other, at random; then the operator mends everything,
 *		and everybody must be able to issue again within a bound.
 */
#include "faults.h"

#include <stdio.h>
#include <string.h>

#include "external.h"
#include "server.h"

/* Steps that may stand: what is inherited from them is soon over. */
#define STEP_STANDS_US	(3 * SECOND)

/* ---- things that several faults need ---- */

/* A server that runs as a primary, by preference the present one. */
static int
some_primary(World *world)
{
	int			begin = (int) world_between(world, 0, world->server_count - 1);

	if (world_one_in(world, 2))
		begin = world->primary;
	for (int i = 0; i < world->server_count; i++)
	{
		int			at = (begin + i) % world->server_count;

		if (server_of(world, at)->role == ROLE_PRIMARY &&
			server_of(world, at)->is_running)
			return at;
	}
	return -1;
}

static int
some_external(World *world)
{
	if (world->config.externals == 0)
		return -1;
	return (int) world_between(world, 0, world->config.externals - 1);
}

static int
some_database(World *world)
{
	return (int) world_between(world, 0, DATABASES - 1);
}

static void
set_clock(World *world, int machine, int64_t offset_us)
{
	if (machine < world->server_count &&
		offset_us < world->machines[machine].offset_us)
		server_of(world, machine)->went_back = true;
	world_set_clock(world, machine, offset_us);
}

/* An offset within what clocks may differ by. */
static int64_t
right_offset(World *world)
{
	int64_t		most_us = world_offset_us(world);

	return world_between(world, -most_us, most_us);
}

static void
start_again(World *world, int at, int64_t life)
{
	Server	   *server = server_of(world, at);

	if (!server->is_running && server->role == ROLE_PRIMARY &&
		server->starts == life)
		server_start(world, at);
}

static void
start_external_again(World *world, int at, int64_t life)
{
	if (!world->externals[at].is_alive && world->externals[at].life == life)
		external_start(world, at);
}

/* ---- processes and machines ---- */

static void
crash_server(World *world)
{
	int			at = some_primary(world);

	if (at < 0)
		return;
	server_crash(world, at);
	world_at(world, world->now_us + world_between(world, 10 * MS, 3 * SECOND),
			 start_again, at, server_of(world, at)->starts);
}

/* The machine starts anew: what was known of its clock is gone. */
static void
reboot(World *world)
{
	int			at = some_primary(world);

	if (at < 0 || world->machines[at].is_wrong)
		return;
	server_crash(world, at);
	set_clock(world, at, right_offset(world));
	memset(&server_of(world, at)->saved_clock, 0, sizeof(IdgenClockRecord));
	world_at(world, world->now_us + world_between(world, 100 * MS, 4 * SECOND),
			 start_again, at, server_of(world, at)->starts);
}

static void
crash_authority(World *world)
{
	int			at = some_primary(world);

	if (at >= 0)
		authority_crash(world, at, some_database(world));
}

static void
pause_authority(World *world)
{
	int			at = some_primary(world);

	if (at >= 0)
		server_of(world, at)->authorities[some_database(world)].paused_until_us =
			world->now_us + world_between(world, MS, 4 * SECOND);
}

/*
 * Sessions' commits end the cursors of both namespaces, as ALTER does; best
 * while the authority has committed a grant for one and not yet handed it out.
 * It is slow then, so that others may take the slots.
 */
static void
kill_cursors_of(World *world, int at, int64_t tries)
{
	Server	   *server = server_of(world, at);
	Authority  *authority = &server->authorities[0];

	if (authority->phase != AUTHORITY_COMMITTED && tries > 0 && !world->is_over)
	{
		world_at(world, world->now_us + 500, kill_cursors_of, at, tries - 1);
		return;
	}
	if (!world->is_over)
		authority->paused_until_us = world->now_us +
			world_between(world, MS, 100 * MS);
	for (int i = 0; i < DATABASES; i++)
	{
		world_note(world, "the cursors of % (%) are killed", at, i, 0, 0);
		server_kill_namespace(server, i, server->tables[i].ownership.uuid);
	}
}

static void
kill_cursors(World *world)
{
	int			at = some_primary(world);

	if (at >= 0)
		kill_cursors_of(world, at, world_between(world, 0, 100));
}

static void
crash_external(World *world)
{
	int			at = some_external(world);

	if (at < 0)
		return;
	external_crash(world, at);
	world_at(world, world->now_us + world_between(world, MS, SECOND),
			 start_external_again, at, world->externals[at].life);
}

static void
pause_external(World *world)
{
	int			at = some_external(world);

	if (at >= 0)
		world->externals[at].paused_until_us = world->now_us +
			world_between(world, MS, 4 * SECOND);
}

static void
clone_late(World *world, int at, int64_t life)
{
	if (world->externals[at].is_alive && world->externals[at].life == life &&
		!world->is_over)
		(void) external_clone(world, at);
}

/* A process is cloned as it runs, or after it stood still past its grants. */
static void
clone_external(World *world)
{
	int			at = some_external(world);
	int64_t		still_us = 0;

	if (at < 0)
		return;
	if (world_one_in(world, 2))
		still_us = world->config.layout.horizon_ms * MS + 100 * MS;
	world->externals[at].paused_until_us = world->now_us + still_us;
	world_at(world, world->now_us + still_us, clone_late, at,
			 world->externals[at].life);
}

static void
deactivate_external(World *world)
{
	int			at = some_external(world);

	if (at >= 0 && world->externals[at].is_alive)
		external_deactivate(world, at);
}

/* ---- network ---- */

static void
cut_external(World *world)
{
	int			at = some_external(world);

	if (at >= 0)
		world->externals[at].cut_until_us = world->now_us +
			world_between(world, 10 * MS, 3 * SECOND);
}

static void
cut_server(World *world)
{
	int			at = some_primary(world);

	if (at >= 0)
		server_of(world, at)->cut_until_us = world->now_us +
			world_between(world, 10 * MS, 3 * SECOND);
}

static void
cut_standby(World *world)
{
	int			at = (int) world_between(world, 0, world->server_count - 1);

	if (server_of(world, at)->role == ROLE_STANDBY)
		server_of(world, at)->link_down_until_us = world->now_us +
			world_between(world, 10 * MS, 4 * SECOND);
}

/* ---- clocks ---- */

static void
set_right(World *world, int machine, int64_t arg)
{
	(void) arg;
	if (world->is_over)
		return;
	world->machines[machine].is_wrong = false;
	set_clock(world, machine, right_offset(world));
}

/* Has the server recorded in both databases that they are its own? */
static bool
has_taken_over(const Server *server)
{
	/* what it reads first is believed, and is right */
	if (!server->clock.known)
		return false;
	for (int i = 0; i < DATABASES; i++)
		if (!server->tables[i].is_dropped &&
			(server->tables[i].ownership.identity.control_inode !=
			 server->control_inode ||
			 server->tables[i].ownership.identity.control_birth !=
			 server->control_birth ||
			 server->tables[i].ownership.identity.timeline != server->timeline))
			return false;
	return true;
}

/*
 * While a server has yet to take over what it inherited, its clock is no more
 * off than it may be.  A small step stands; a great one is found out before it is
 * believed.
 */
static void
step_server(World *world)
{
	int			at = some_primary(world);
	Machine    *machine;

	if (at < 0 || world->machines[at].is_wrong)
		return;
	machine = &world->machines[at];
	switch (has_taken_over(server_of(world, at)) ? world_between(world, 0, 3) : 0)
	{
		case 0:
			set_clock(world, at, right_offset(world));
			break;
		case 1:
			set_clock(world, at, world_between(world, -STEP_STANDS_US,
											   STEP_STANDS_US));
			break;
		case 2:
			machine->is_wrong = true;
			set_clock(world, at, world_between(world, -3600, 86400) * SECOND);
			world_at(world, world->now_us +
					 world_between(world, 100 * MS, 8 * SECOND), set_right, at, 0);
			break;
		case 3:
			/* a pause of the machine that the other clock does not count */
			machine->elapsed_lost_us += world_between(world, MS, 20 * SECOND);
			break;
	}
}

/* Nothing depends on the clock of an external generator. */
static void
step_external(World *world)
{
	int			at = some_external(world);

	if (at >= 0)
		set_clock(world, world->externals[at].machine, world_one_in(world, 2) ?
				  world_between(world, -3600, 3600) * SECOND :
				  right_offset(world));
}

/* ---- operators ---- */

/* The first tick that nobody has seen an ID of, for what the clock may miss. */
static int64_t
above_all(const World *world)
{
	return checker_highest_tick(world->checker) + 1;
}

static void
ask_operation(World *world, int at, int database, Operation operation,
			  int64_t above)
{
	server_of(world, at)->operation[database] = operation;
	server_of(world, at)->operation_above[database] = above;
	authority_start(world, at, database);
}

static void
fence(World *world)
{
	int			at = some_primary(world);

	if (at >= 0)
		ask_operation(world, at, some_database(world), OPERATION_FENCE,
					  world_one_in(world, 2) ? 0 : above_all(world));
}

static void
end_incarnation(World *world)
{
	int			at = some_primary(world);
	int			database = some_database(world);
	const Tables *tables;

	if (at < 0)
		return;
	tables = &server_of(world, at)->tables[database];
	if (tables->incarnation_count == 0)
		return;
	server_of(world, at)->operation_arg[database] =
		tables->incarnations[tables->incarnation_count - 1].id;
	ask_operation(world, at, database, OPERATION_END, 0);
}

/* Is this the copy that waits for a word, and may it have it? */
static bool
may_adopt(const World *world, int at, int database)
{
	const Server *server = &world->servers[at];

	return server->is_running && server->role == ROLE_PRIMARY &&
		server->may_grant && server->authorities[database].is_refused &&
		!server->tables[database].is_dropped && server_may_inherit(world, at);
}

/* The original never grants again: doc/guarantees.md (e). */
static void
stop_originals(World *world, int but)
{
	Life	   *life = &world->contract.lives[server_of(world, but)->life];

	for (int i = 0; i < world->server_count; i++)
		if (i != but && server_is_of_part(world, i, server_of(world, but)->timeline))
			server_stop_granting(world, i);
	if (life->is_copy && life->promoted_us == NEVER)
	{
		life->promoted_us = world->now_us;
		life->ahead_us = world_ahead_us(world, server_of(world, but)->machine);
	}
}

static void
adopt(World *world)
{
	for (int i = 0; i < world->server_count; i++)
		for (int j = 0; j < DATABASES; j++)
			if (may_adopt(world, i, j))
			{
				stop_originals(world, i);
				world->primary = i;
				ask_operation(world, i, j, OPERATION_ADOPT,
							  world_one_in(world, 2) ? 0 : above_all(world));
				return;
			}
}

/* Damage is mended by a fence. */
static void
mend(World *world)
{
	for (int i = 0; i < world->server_count; i++)
		for (int j = 0; j < DATABASES; j++)
			if (server_of(world, i)->is_running &&
				server_of(world, i)->authorities[j].is_damaged &&
				!server_of(world, i)->authorities[j].is_refused)
				ask_operation(world, i, j, OPERATION_FENCE, 0);
}

static void
confirm_clock(World *world, int at)
{
	Server	   *server = server_of(world, at);
	IdgenClockReading reading = {world_wall_us(world, at),
	world_elapsed_us(world, at), 0};
	IdgenClockFinding finding;

	idgen_clock_confirm(&server->clock, &reading, &finding);
	server->saved_clock = server->clock;
	world->machines[at].honest_us = world->machines[at].offset_us;
	world->machines[at].doubt_since_us = NEVER;
}

/* Only a clock that is right is confirmed: doc/guarantees.md (f). */
static void
confirm_some_clock(World *world)
{
	int			at = some_primary(world);

	if (at >= 0 && !world->machines[at].is_wrong)
		confirm_clock(world, at);
}

/* Somebody who may do anything changes a mark past all guards. */
static void
damage(World *world)
{
	int			at = some_primary(world);
	Record		record = {.kind = RECORD_LOWERED,
		.database = some_database(world),
		.worker = (int32_t) world_between(world, world->config.first_worker,
										  world->config.last_worker),
	};
	const MarkRow *mark;

	if (at < 0)
		return;
	mark = &server_of(world, at)->tables[record.database].marks[record.worker];
	record.mark = max_of(0, mark->high_water -
						 world_between(world, 1, 2 * world->config.horizon));
	if (mark->is_used && server_of(world, at)->may_grant)
		server_commit(world, at, &record, 1);
}

/* The worker that a grant is being committed for; else any. */
static int32_t
some_worker(World *world, const Authority *authority)
{
	if (authority->phase == AUTHORITY_DECIDED)
		for (int i = 0; i < authority->round_count; i++)
			if (authority->round[i].has_grant)
				return authority->round[i].record.worker;
	return (int32_t) world_between(world, world->config.first_worker,
								   world->config.last_worker);
}

/*
 * Rows of a dump come in: older marks, or those of another place; best between
 * a decision and its commit.
 */
static void
restore_rows_of(World *world, int at, int64_t tries)
{
	Server	   *server = server_of(world, at);
	Record		record = {.kind = RECORD_RESTORED,
		.overwrites = world_breaks(world, BREAK_RESTORE_OVERWRITES),
	};
	int64_t		now;

	if (!server->is_running || !server->may_grant || world->is_over ||
		world->machines[at].is_wrong)
		return;
	while (record.database < DATABASES - 1 &&
		   server->authorities[record.database].phase != AUTHORITY_DECIDED)
		record.database++;
	if (server->authorities[record.database].phase != AUTHORITY_DECIDED && tries > 0)
	{
		world_at(world, world->now_us + 50, restore_rows_of, at, tries - 1);
		return;
	}
	now = world_tick(world, at);
	record.worker = some_worker(world, &server->authorities[record.database]);
	record.mark = world_between(world, now - 5 * world->config.horizon,
								now + world->config.horizon);
	record.mark = max_of(0, min_of(record.mark,
								   idgen_layout_tick_count(&world->config.layout)));
	server_commit(world, at, &record, 1);
}

static void
restore_rows(World *world)
{
	int			at = some_primary(world);

	if (at >= 0)
		restore_rows_of(world, at, world_between(world, 0, 200));
}

static void
fail_over(World *world)
{
	(void) server_fails_over(world);
}

static void
fail_over_late(World *world, int who, int64_t arg)
{
	(void) who;
	(void) arg;
	if (!world->is_over)
		fail_over(world);
}

/* Which namespaces go and come, and what is done to them meanwhile. */
static void
create_again(World *world, int at, int64_t what)
{
	server_create_again(world, at, what);
}

static void
drop(World *world)
{
	int			at = some_primary(world);
	int			database = some_database(world);
	bool		is_database = world_one_in(world, 3);
	int64_t		gap_us;

	if (at >= 0 && world_one_in(world, 3))
		server_of(world, at)->directory_until_us = world->now_us + SECOND;
	if (at < 0 || world->machines[at].is_wrong ||
		world->contract.birth_count > BIRTHS_MAX - DATABASES ||
		server_drop(world, at, database, is_database) == 0)
		return;
	if (!is_database && world_one_in(world, 3))
	{
		/* in one transaction */
		create_again(world, at, database);
		return;
	}
	gap_us = world_one_in(world, 2) ? world_between(world, 100, 20 * MS) :
		world_between(world, MS, world->config.layout.horizon_ms * MS);
	if (world_one_in(world, 4))
	{
		server_crash(world, at);
		if (world_breaks(world, BREAK_FORGET_AT_CRASH))
			memset(server_of(world, at)->promised, 0,
				   sizeof(server_of(world, at)->promised));
		server_start(world, at);
	}
	world_at(world, world->now_us + gap_us, create_again, at,
			 database + (is_database ? DATABASES : 0));
}

/* What was dropped, there or on a server before it, is created. */
static void
create_dropped(World *world)
{
	for (int i = 0; i < world->server_count; i++)
		for (int j = 0; j < DATABASES; j++)
			if (server_of(world, i)->tables[j].dropped_life >= 0 &&
				world->contract.birth_count < BIRTHS_MAX - DATABASES)
				create_again(world, i, j + (world_one_in(world, 2) ? DATABASES : 0));
}

static void
copy_template(World *world)
{
	int			at = some_primary(world);

	if (at >= 0 && !world->machines[at].is_wrong &&
		world->contract.birth_count < BIRTHS_MAX - DATABASES)
		(void) server_copy_template(world, at);
}

/* A process is stopped that holds the lock of the directory of cursors. */
static void
stick_directory(World *world)
{
	int			at = some_primary(world);

	if (at >= 0)
		server_of(world, at)->directory_until_us = world->now_us +
			world_between(world, 10 * MS, 4 * SECOND);
}

/* Another policy, as ALTER allows it; its commit kills the cursors. */
static bool
choose_policy(World *world, int at, Policy *policy)
{
	int64_t		confirmed = authority_confirmed(world, at);
	bool		may_change = world->config.promotion != IDGEN_PROMOTION_SPLIT &&
		world_one_in(world, 2);

	if (may_change)
	{
		static const IdgenPromotion choices[] = {IDGEN_PROMOTION_FENCE,
		IDGEN_PROMOTION_TRUST, IDGEN_PROMOTION_REFUSE};

		policy->promotion = choices[world_between(world, 0, 2)];
		return policy->promotion != IDGEN_PROMOTION_TRUST || policy->is_quorum;
	}
	policy->is_quorum = !policy->is_quorum;
	if (policy->is_quorum)
		return true;
	/* who inherits must know that nothing more is confirmed to it */
	server_of(world, at)->confirmed = max_of(server_of(world, at)->confirmed, confirmed);
	return policy->promotion != IDGEN_PROMOTION_TRUST &&
		(confirmed >= policy->position || world_breaks(world, BREAK_LEAVE_UNASKED));
}

static void
alter_some(World *world, int at, int64_t database)
{
	Server	   *server = server_of(world, at);
	Record		record = {.kind = RECORD_POLICY, .database = (int) database,
		.policy = server->tables[database].policy};

	if (!server->is_running || !server->may_grant || world->is_over ||
		server->role != ROLE_PRIMARY || server->tables[database].is_dropped ||
		!choose_policy(world, at, &record.policy))
		return;
	server_commit(world, at, &record, 1);
	world_note(world, "server % (%) has promotion %, quorum %", at, database,
			   (int64_t) record.policy.promotion, record.policy.is_quorum);
	server_kill_namespace(server, (int) database, server->tables[database].ownership.uuid);
}

/* While a round is stopped before its commit, if one comes in time. */
static void
alter_round(World *world, int at, int64_t tries)
{
	Server	   *server = server_of(world, at);
	int			database = 0;

	while (database < DATABASES - 1 &&
		   server->authorities[database].phase != AUTHORITY_DECIDED)
		database++;
	if (server->authorities[database].phase != AUTHORITY_DECIDED)
	{
		if (tries > 0 && !world->is_over)
			world_at(world, world->now_us + 50, alter_round, at, tries - 1);
		return;
	}
	server->authorities[database].paused_until_us = world->now_us +
		world_between(world, 100, 500 * MS);
	for (int64_t i = world_between(world, 0, 2); i >= 0; i--)
		alter_some(world, at, database);
}

/*
 * Standbys are cut off; then trust is left, and quorum, which must not succeed; and
 * one of them is promoted.
 */
static void
leave_trust(World *world, int at)
{
	int			database = some_database(world);

	for (int i = 0; i < world->server_count; i++)
		if (server_of(world, i)->role == ROLE_STANDBY &&
			server_of(world, i)->upstream == at)
			server_of(world, i)->link_down_until_us = world->now_us + 2 * SECOND;
	for (int i = 0; i < 12; i++)
		world_at(world, world->now_us + world_between(world, 1, 100 * MS), alter_some,
				 at, database);
	world_at(world, world->now_us + world_between(world, 200 * MS, SECOND),
			 fail_over_late, 0, 0);
}

static void
alter(World *world)
{
	int			at = some_primary(world);

	if (at < 0 || !world->config.is_altered)
		return;
	switch (world_between(world, 0, 3))
	{
		case 0:
			world_at(world, world->now_us, alter_some, at, some_database(world));
			break;
		case 1:
			leave_trust(world, at);
			break;
		default:
			alter_round(world, at, world_between(world, 0, 200));
			break;
	}
}

/* ---- successors ---- */

static void
promote_in_place(World *world)
{
	int			at = some_primary(world);

	if (at >= 0)
		(void) server_promote_in_place(world, at);
}

static void
rejoin(World *world)
{
	int			at = (int) world_between(world, 0, world->server_count - 1);

	(void) server_rejoin(world, at);
}

/* An old primary comes back: nobody has told it that it is one. */
static void
come_back(World *world)
{
	int			at = (int) world_between(world, 0, world->server_count - 1);
	Server	   *server = server_of(world, at);

	if (!world->config.is_wild || server->role != ROLE_PRIMARY)
		return;
	server->may_grant = true;
	if (!server->is_running)
		server_start(world, at);
}

/* The network goes first, then the primary, then the one that took over. */
static void
fail_over_twice(World *world)
{
	int64_t		gap_us = world_between(world, MS, max_of(20,
									   world->config.layout.horizon_ms) * MS);
	int64_t		second_us = world_one_in(world, 2) ? gap_us :
		world_between(world, world->config.layout.horizon_ms * MS,
					  world->contract.fence_us);

	for (int i = 0; i < world->server_count; i++)
		if (server_of(world, i)->role == ROLE_STANDBY)
			server_of(world, i)->link_down_until_us = world->now_us + gap_us;
	world_at(world, world->now_us + gap_us, fail_over_late, 0, 0);
	world_at(world, world->now_us + gap_us + second_us, fail_over_late, 0, 0);
}

static void
recover(World *world)
{
	int			at = some_primary(world);

	if (at >= 0)
		(void) server_recover(world, at);
}

static void
copy(World *world)
{
	int			at = some_primary(world);

	if (at >= 0)
		(void) server_copy(world, at);
}

/* What is no longer the primary is taken out of service. */
static void
retire(World *world)
{
	int			at = some_primary(world);

	if (at < 0 || at == world->primary)
		return;
	server_stop_granting(world, at);
	if (world_one_in(world, 2))
		server_crash(world, at);
}

/* ---- at random ---- */

static void
next_fault(World *world, int who, int64_t arg)
{
	static const struct
	{
		void		(*cause) (World *world);
		int			weight;
	}			faults[] = {
		{crash_server, 4}, {reboot, 2}, {crash_authority, 6},
		{pause_authority, 4}, {kill_cursors, 6}, {crash_external, 6},
		{pause_external, 6}, {clone_external, 8}, {deactivate_external, 4},
		{cut_external, 4}, {cut_server, 2}, {cut_standby, 6}, {step_server, 6},
		{step_external, 6}, {fence, 2}, {end_incarnation, 3}, {adopt, 6},
		{mend, 5}, {confirm_some_clock, 2}, {damage, 1}, {restore_rows, 2},
		{fail_over, 3}, {fail_over_twice, 6}, {recover, 1}, {copy, 1}, {retire, 2},
		{promote_in_place, 1}, {rejoin, 2}, {come_back, 2}, {drop, 3},
		{create_dropped, 2}, {copy_template, 3}, {stick_directory, 2}, {alter, 10},
	};
	int64_t		total = 0;
	int64_t		chosen;
	size_t		at = 0;

	(void) who;
	(void) arg;
	if (world->is_over)
		return;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		total += faults[i].weight;
	chosen = world_between(world, 0, total - 1);
	while (chosen >= faults[at].weight)
		chosen -= faults[at++].weight;
	faults[at].cause(world);
	if (world->now_us < world->config.faults_until_us)
		world_at(world, world->now_us +
				 world_between(world, 1, 2 * world->config.fault_gap_us),
				 next_fault, 0, 0);
}

/* While much is issued: processes end, and now and then the server. */
static void
next_small_fault(World *world, int who, int64_t arg)
{
	(void) who;
	(void) arg;
	if (world_one_in(world, 60))
		crash_server(world);
	else
		crash_external(world);
	world_at(world, world->now_us + world_between(world, 1, 400 * MS),
			 next_small_fault, 0, 0);
}

void
faults_begin(World *world)
{
	if (world->config.scale)
	{
		world_at(world, SECOND, next_small_fault, 0, 0);
		return;
	}
	world_at(world, world_between(world, 50 * MS, SECOND), next_fault, 0, 0);
}

/* ---- the end ---- */

static void
heal_clocks(World *world)
{
	for (int i = 0; i < world->server_count; i++)
	{
		world->machines[i].is_wrong = false;
		set_clock(world, i, right_offset(world));
	}
	/* a generator can use what is granted if its clock is not a horizon off */
	for (int i = 0; i < EXTERNALS_MAX; i++)
		if (world->externals[i].is_alive || i < world->config.externals)
			set_clock(world, SERVERS_MAX + i,
					  world->machines[world->primary].offset_us);
}

/* The present primary runs, alone, with its standbys. */
static void
heal_servers(World *world)
{
	int			at = world->primary;
	int			standbys = 0;

	for (int i = 0; i < world->server_count; i++)
	{
		Server	   *server = server_of(world, i);

		server->cut_until_us = 0;
		server->link_down_until_us = 0;
		server->directory_until_us = 0;
		if (i != at && server->role == ROLE_PRIMARY)
		{
			server_stop_granting(world, i);
			server_crash(world, i);
		}
		standbys += server->role == ROLE_STANDBY && server->upstream == at;
	}
	while (standbys++ < world->config.quorum)
		(void) server_add_standby(world, at);
	if (!server_of(world, at)->is_running)
		server_start(world, at);
	confirm_clock(world, at);
	create_dropped(world);
	for (int i = 0; i < DATABASES; i++)
		authority_start(world, at, i);
}

/* Only what somebody must say is still missing: look now and then. */
static void
watch(World *world, int who, int64_t arg)
{
	(void) who;
	(void) arg;
	adopt(world);
	mend(world);
	create_dropped(world);
	for (int i = 0; i < DATABASES; i++)
		authority_start(world, world->primary, i);
	world_at(world, world->now_us + 200 * MS, watch, 0, 0);
}

/* Faults stop, and what is down is started. */
void
faults_end(World *world)
{
	world_note(world, "faults stop", 0, 0, 0, 0);
	world->is_over = true;
	heal_clocks(world);
	heal_servers(world);
	for (int i = 0; i < world->config.externals; i++)
	{
		world->externals[i].cut_until_us = 0;
		if (!world->externals[i].is_alive)
			external_start(world, i);
	}
	watch(world, 0, 0);
}

/*
 * By when everybody must have issued: the clock has reached the highest mark, a
 * fence more has passed, and a step back has stood.
 */
int64_t
faults_recovery_us(const World *world)
{
	const Config *config = &world->config;
	int64_t		highest = 0;
	int64_t		highest_ms = 0;

	for (int i = 0; i < DATABASES; i++)
		highest = max_of(highest, tables_highest_mark(
						 &world->servers[world->primary].tables[i]));
	(void) idgen_layout_unix_ms(&config->layout, highest, &highest_ms);
	return max_of(0, (highest_ms - WORLD_BEGINS_MS) * MS - world->now_us) +
		(2 * config->layout.horizon_ms + 3 * config->clock_error_ms +
		 3 * config->layout.tick_ms) * MS + 10 * SECOND;
}

/* A field that is over, or that a bound would reach, promises nothing. */
static bool
is_promised(const World *world)
{
	const Config *config = &world->config;
	int64_t		standbys = 0;

	for (int i = 0; i < world->server_count; i++)
		standbys += world->servers[i].role == ROLE_STANDBY &&
			world->servers[i].upstream == world->primary;
	/* a grant must arrive before it is over */
	if (config->layout.horizon_ms < 100)
		return false;
	return !world->is_exhausted && standbys >= config->quorum &&
		world->servers[world->primary].may_grant &&
		world_tick(world, world->primary) + 2 * config->horizon +
		world_ms_to_ticks(world, 3 * config->clock_error_ms) <
		idgen_layout_tick_count(&config->layout);
}

/*
 * Can an external generator count on a worker?  Not where the server's own
 * cursors may take them all.
 */
static bool
is_promised_outside(const World *world)
{
	const Config *config = &world->config;
	int64_t		count = config->last_worker - config->first_worker + 1;

	if (config->promotion == IDGEN_PROMOTION_SPLIT)
		count = count / config->modulus;
	return count > config->max_workers;
}

/*
 * Has everybody issued since faults stopped?  Of the external generators of a
 * database at least one: there may be more of them than workers.
 */
bool
faults_all_issue(World *world, bool complains)
{
	const Server *server = server_of(world, world->primary);
	int64_t		since_us = world->config.faults_until_us;
	char		who[60] = "";

	if (!is_promised(world))
		return true;
	for (int i = 0; i < DATABASES; i++)
	{
		bool		has_one = i == DATABASES - 1 || world->config.externals <= i ||
			(i > 0 && world->config.is_quiet) || !is_promised_outside(world);

		if (server->tables[i].is_dropped)
			continue;

		for (int j = 0; j < world->config.sessions; j++)
			if (server->sessions[i][j].issued_at_us <= since_us)
				snprintf(who, sizeof(who), "session %d of database %d", j, i);
		for (int j = 0; j < EXTERNALS_MAX; j++)
			has_one |= world->externals[j].database == i &&
				world->externals[j].issued_at_us > since_us;
		if (!has_one)
			snprintf(who, sizeof(who), "no external generator of database %d", i);
	}
	if (who[0] != '\0' && complains)
		checker_complain(world->checker, "LIVE", "still cannot issue: %s", who);
	return who[0] == '\0';
}
