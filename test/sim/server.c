/*
 * server.c
 *		Start, crash, replicate, promote, recover, copy; see server.h.
 *
 * What DESIGN 8 puts outside the contract is not done here, and only that:
 *
 * (a) Under any policy but "split", every other server stops granting before
 *	   one is promoted, recovered or adopted.  It may go on issuing from what it
 *	   granted, and what was decided before may be committed and handed out
 *	   after (not under "trust").
 * (b) Under "split", the servers of the other's half have stopped granting, and
 *	   longer ago than a fence covers unless something shows it.
 * (c) Disks are not rolled back under a server.
 * (d) See external_clone().
 * (e) An adopted copy's original stops granting.
 *
 * A server inherits only if its clock is no more than idgen.max_clock_error
 * behind every reading that a grant was decided by.
 */
#include "server.h"

#include <stdlib.h>
#include <string.h>

#include "external.h"

static void standby_step(World *world, int at, int64_t arg);

/* ---- disk ---- */

void
server_free(Server *server)
{
	for (int i = 0; i < DATABASES; i++)
	{
		tables_free(&server->tables[i]);
		free(server->asked[i]);
		free(server->authorities[i].round);
		free(server->authorities[i].outbox);
	}
	free(server->log.records);
}

/* Marks never decrease, whoever writes (S3). */
static void
apply(World *world, Server *server, const Record *record)
{
	Tables	   *tables = &server->tables[record->database];
	int64_t		mark = tables->marks[record->worker].high_water;
	int64_t		floor = tables->floor;

	tables_apply(tables, record);
	if (record->kind != RECORD_LOWERED &&
		(tables->marks[record->worker].high_water < mark ||
		 tables->floor < floor))
		checker_complain(world->checker, "S3",
						 "the mark of worker %d decreased from %lld",
						 record->worker, (long long) mark);
}

/* Commit: the records are in the log, which is flushed, or not at all. */
void
server_commit(World *world, int at, Record *records, int count)
{
	Server	   *server = server_of(world, at);

	for (int i = 0; i < count; i++)
	{
		Record	   *record = &records[i];

		record->is_last = i == count - 1;
		if (record->kind == RECORD_GRANT)
			record->checked = checker_committed(world->checker, record->database,
												record->worker,
												record->incarnation,
												record->grant.start,
												record->grant.end);
		apply(world, server, record);
		if (world->config.scale)
			server->log.count++;
		else
			log_append(&server->log, record);
	}
	world_note(world, "server % commits % records, up to %", at, count,
			   server->log.count, 0);
}

/* Replay the log of another server up to a position. */
static void
replay(World *world, Server *server, const Server *from, int64_t count)
{
	log_copy(&server->log, &from->log, count);
	for (int i = 0; i < DATABASES; i++)
		tables_create(&server->tables[i],
					  idgen_layout_worker_count(&world->config.layout));
	for (int64_t i = 0; i < count; i++)
		tables_apply(&server->tables[from->log.records[i].database],
					 &from->log.records[i]);
}

static int
new_server(World *world)
{
	int			at = world->server_count;
	Server	   *server = server_of(world, at);

	if (at == SERVERS_MAX)
		return -1;
	world->server_count++;
	memset(server, 0, sizeof(*server));
	server->exists = true;
	server->machine = at;
	server->may_grant = true;
	server->stopped_at_us = NEVER;
	server->parent = -1;
	server->upstream = -1;
	server->control_inode = (uint64_t) world_number(world);
	server->history_readable = true;
	for (int i = 0; i < DATABASES; i++)
	{
		server->asked[i] = calloc(ASKED_MAX, sizeof(Asked));
		server->authorities[i].round = calloc(PENDING_MAX, sizeof(Pending));
		server->authorities[i].outbox = calloc(PENDING_MAX, sizeof(Pending));
	}
	return at;
}

/* The half of a timeline, reckoned without the core. */
static int
class_of(int timeline)
{
	return timeline % 2;
}

/* The first server, with both its namespaces. */
int
server_create(World *world)
{
	int			at = new_server(world);
	Server	   *server = server_of(world, at);

	server->timeline = world->last_timeline = 1;
	server->role = ROLE_PRIMARY;
	for (int i = 0; i < DATABASES; i++)
	{
		Record		record = {.kind = RECORD_IDENTITY, .database = i};
		bool		is_split = world->config.promotion == IDGEN_PROMOTION_SPLIT;

		tables_create(&server->tables[i],
					  idgen_layout_worker_count(&world->config.layout));
		record.custody = (Custody) {
			.is_known = true,
			.identity = {.system_identifier = 1, .database = (uint32_t) i + 1,
				.timeline = 1, .control_inode = server->control_inode},
			.uuid = world_number(world),
			.modulus = is_split ? 2 : 1,
			.remainder = is_split ? class_of(server->timeline) : 0,
			.recorded_ms = world_wall_us(world, at) / MS,
		};
		server_commit(world, at, &record, 1);
	}
	server->branched_at = server->log.count;
	world->primary = at;
	server_start(world, at);
	return at;
}

/* ---- life ---- */

/* Shared memory is new: no cursor of before lives. */
void
server_start(World *world, int at)
{
	Server	   *server = server_of(world, at);
	IdgenClockReading reading = {world_wall_us(world, at),
	world_elapsed_us(world, at), 0};

	server->is_running = true;
	server->life++;
	if (server->role != ROLE_PRIMARY)
		return;
	world_note(world, "server % starts", at, 0, 0, 0);
	if (!world_breaks(world, BREAK_RESTART_KEEPS_CURSORS))
		for (int i = 0; i < SLOTS; i++)
			server->slots[i] = (Slot) {.locked_by = -1};
	server->pool_version = world_number(world);
	server->clock = server->saved_clock;
	idgen_step_resume(&server->clock, &reading);
	memset(server->known, 0, sizeof(server->known));
	/* order is promised over restarts, unless the clock went back */
	if (server->went_back)
		memset(server->last_id, 0, sizeof(server->last_id));
	server->went_back = false;
	for (int i = 0; i < DATABASES; i++)
	{
		server->wish_count[i] = 0;
		server->asked_count[i] = 0;
		authority_start(world, at, i);
		for (int j = 0; j < world->config.sessions; j++)
			session_start(world, at, i, j);
	}
}

void
server_crash(World *world, int at)
{
	Server	   *server = server_of(world, at);

	if (!server->is_running)
		return;
	world_note(world, "server % crashes", at, 0, 0, 0);
	server->is_running = false;
	server->life++;
	for (int i = 0; i < DATABASES; i++)
	{
		authority_crash(world, at, i);
		for (int j = 0; j < SESSIONS_MAX; j++)
		{
			server->sessions[i][j].is_alive = false;
			server->sessions[i][j].alarm++;
		}
	}
}

/* The operator sees to it that a server grants no more; it may issue on. */
void
server_stop_granting(World *world, int at)
{
	Server	   *server = server_of(world, at);

	if (!server->may_grant)
		return;
	world_note(world, "server % is kept from granting", at, 0, 0, 0);
	server->may_grant = false;
	server->stopped_at_us = world->now_us;
	/* nothing shows what is confirmed after this to who inherits by trust */
	if (world->config.promotion == IDGEN_PROMOTION_TRUST)
		for (int i = 0; i < DATABASES; i++)
			authority_crash(world, at, i);
}

/* The judge of the clock; the verdict, and the earliest tick if behind. */
int64_t
server_clock_is(World *world, int at, int64_t *eligible)
{
	Server	   *server = server_of(world, at);
	Machine    *machine = &world->machines[server->machine];
	IdgenClockReading reading = {world_wall_us(world, at),
	world_elapsed_us(world, at), world_between(world, 0, 50)};
	IdgenClockPolicy policy = {world->config.max_step_us, machine->synchronised};
	IdgenClockFinding finding;
	IdgenClockVerdict before = server->clock.verdict;
	IdgenClockVerdict verdict;

	/* whatever a machine shows when it is asked first is believed */
	if (!server->clock.known)
	{
		machine->honest_us = machine->offset_us;
		machine->doubt_since_us = NEVER;
	}
	verdict = idgen_step_decide(&server->clock, &reading, &policy, &finding);
	*eligible = INT64_MIN;
	if (verdict == IDGEN_CLOCK_BEHIND)
		*eligible = idgen_layout_tick_at(&world->config.layout,
										 server->clock.latest_us / MS);
	if (!server->saved_clock.known || finding.step_us != 0 || verdict != before)
	{
		server->saved_clock = server->clock;
		world_note(world, "server % finds a step of % us, verdict %", at,
				   finding.step_us, (int64_t) verdict, 0);
	}
	return verdict;
}

/* Requests of external generators come in. */
void
server_ask(World *world, int at, const Asked *asked)
{
	Server	   *server = server_of(world, at);
	int			database = asked->database;

	if (!server->is_running || server->role != ROLE_PRIMARY ||
		server->is_closed || server->asked_count[database] == ASKED_MAX)
		return;
	server->asked[database][server->asked_count[database]++] = *asked;
	authority_start(world, at, database);
}

/* ---- cursors in shared memory ---- */

/* First the tenure, without the lock: whoever comes later sees it. */
void
server_kill_slot(Server *server, int slot)
{
	server->slots[slot].tenure = 0;
	server->slots[slot].state = SLOT_DEAD;
	server->pool_version++;
}

void
server_kill_namespace(Server *server, int database, int64_t uuid)
{
	for (int i = 0; i < SLOTS; i++)
	{
		Slot	   *slot = &server->slots[i];

		if (slot->database != database || slot->uuid != uuid)
			continue;
		if (slot->state == SLOT_RESERVED)
			slot->state = SLOT_FREE;
		if (slot->state == SLOT_ACTIVE)
			server_kill_slot(server, i);
	}
}

/* ---- standbys ---- */

static void
arrive_status(World *world, int upstream, int64_t arg)
{
	int			at = (int) (arg % SERVERS_MAX);
	Known	   *known = &server_of(world, upstream)->known[at];

	if (!server_of(world, upstream)->is_running ||
		server_of(world, upstream)->role != ROLE_PRIMARY ||
		server_of(world, at)->role != ROLE_STANDBY)
		return;
	*known = (Known) {true, true, max_of(known->flushed, arg / SERVERS_MAX)};
	for (int i = 0; i < DATABASES; i++)
		authority_deliver(world, upstream, i);
}

/* Receive, flush and replay some commits. */
static void
receive(World *world, int at)
{
	Server	   *server = server_of(world, at);
	const Log  *source = &server_of(world, server->upstream)->log;
	int64_t		limit = min_of(source->count, server->log.count +
							   world_between(world, 1, 60));

	while (server->log.count < source->count &&
		   (server->log.count < limit ||
			!source->records[server->log.count - 1].is_last))
	{
		const Record *record = &source->records[server->log.count];

		log_append(&server->log, record);
		apply(world, server, record);
		if (record->kind == RECORD_GRANT)
			checker_copied(world->checker, record->checked);
	}
}

static void
standby_step(World *world, int at, int64_t arg)
{
	Server	   *server = server_of(world, at);
	Server	   *upstream = server_of(world, server->upstream);
	int64_t		pause = world_one_in(world, 30) && !world->is_over ?
		world_between(world, 20 * MS, 900 * MS) :
		world_between(world, MS, 8 * MS);

	if (server->role != ROLE_STANDBY || server->life != arg)
		return;
	world_at(world, world->now_us + pause, standby_step, at, arg);
	if (!upstream->is_running || server->link_down_until_us > world->now_us)
	{
		upstream->known[at].is_connected = false;
		return;
	}
	receive(world, at);
	world_at(world, world->now_us + world_between(world, 100, 3 * MS),
			 arrive_status, server->upstream, server->log.count * SERVERS_MAX + at);
}

/* A base backup of a primary that streams from it from now on. */
int
server_add_standby(World *world, int upstream)
{
	int			at = new_server(world);
	Server	   *server;
	const Server *from = server_of(world, upstream);

	if (at < 0)
		return -1;
	server = server_of(world, at);
	replay(world, server, from, from->log.count);
	for (int64_t i = 0; i < server->log.count; i++)
		if (server->log.records[i].kind == RECORD_GRANT)
			checker_copied(world->checker, server->log.records[i].checked);
	server->role = ROLE_STANDBY;
	server->upstream = upstream;
	server->timeline = from->timeline;
	memcpy(server->ancestors, from->ancestors, sizeof(from->ancestors));
	server->ancestor_count = from->ancestor_count;
	server->is_running = true;
	world_note(world, "server % is a standby of %", at, upstream, 0, 0);
	world_at(world, world->now_us + MS, standby_step, at, server->life);
	return at;
}

/* ---- who may inherit ---- */

/* The number of the timeline that a promotion of a standby of "from" begins. */
static int
next_timeline(const World *world, const Server *from)
{
	return world->config.has_archive ? world->last_timeline + 1 : from->timeline + 1;
}

/* What a fence covers, by true time. */
static int64_t
covered_us(const World *world)
{
	return (world->config.layout.horizon_ms + 2 * world->config.clock_error_ms +
			2 * world->config.layout.tick_ms) * MS;
}

/* The assumption: not further behind what grants were decided by. */
static bool
clock_may_inherit(const World *world, int at)
{
	const Machine *machine = &world->machines[at];

	return !machine->is_wrong && world_wall_us(world, at) / MS >
		world->latest_reading_ms - world->config.clock_error_ms;
}

/* Has every other server of the half stopped granting? */
static bool
half_has_stopped(const World *world, int but, int class)
{
	for (int i = 0; i < world->server_count; i++)
	{
		const Server *other = &world->servers[i];

		if (i != but && other->role == ROLE_PRIMARY && other->may_grant &&
			class_of(other->timeline) == class)
			return false;
	}
	return true;
}

/* Is a server an ancestor that granted nothing after its successor's promotion? */
static bool
stopped_in_order(const World *world, const Server *server, int ancestor)
{
	int64_t		succeeded_at_us = world->now_us;
	int			at = server->upstream;

	while (at >= 0 && at != ancestor)
	{
		succeeded_at_us = world->servers[at].promoted_at_us;
		at = world->servers[at].parent;
	}
	return at >= 0 && world->servers[at].stopped_at_us <= succeeded_at_us;
}

/*
 * May a standby be promoted under "split"?  Those of its half that granted
 * lately must be known to it by its history.
 */
static bool
may_split(const World *world, const Server *server, bool history_readable)
{
	const Server *parent = &world->servers[server->upstream];
	int			class = class_of(next_timeline(world, parent));

	if (!half_has_stopped(world, -1, class))
		return false;
	for (int i = 0; i < world->server_count; i++)
	{
		const Server *other = &world->servers[i];

		if (other->role == ROLE_STANDBY || other->granted_at_us == 0 ||
			class_of(other->timeline) != class ||
			world->now_us - other->granted_at_us > covered_us(world) ||
			!history_readable || stopped_in_order(world, server, i))
			continue;
		return false;
	}
	return true;
}

/* All others stop granting, or those of the half. */
static void
stop_others(World *world, int but, int class)
{
	for (int i = 0; i < world->server_count; i++)
	{
		const Server *other = &world->servers[i];

		if (i == but || other->role != ROLE_PRIMARY)
			continue;
		if (world->config.promotion != IDGEN_PROMOTION_SPLIT ||
			class_of(other->timeline) == class)
			server_stop_granting(world, i);
	}
}

/* ---- promotion, recovery, copies ---- */

/* A new timeline begins. */
static void
branch(World *world, Server *server, int parent, bool has_target)
{
	const Server *from = server_of(world, parent);

	server->timeline = next_timeline(world, from);
	if (server->timeline > world->last_timeline)
		world->last_timeline = server->timeline;
	memcpy(server->ancestors, from->ancestors, sizeof(from->ancestors));
	server->ancestors[from->ancestor_count] = (Ancestor) {from->timeline, has_target};
	server->ancestor_count = from->ancestor_count + 1;
	server->parent = parent;
	server->promoted_at_us = world->now_us;
	server->branched_at = server->log.count;
}

static void
open_to_clients(World *world, int at)
{
	world->primary = at;
	for (int i = 0; i < world->config.standbys; i++)
		(void) server_add_standby(world, at);
}

/*
 * A standby of a copy that does not have the copy's fence is as old as the copy:
 * it does not hold what the original granted, which "trust" states, and nothing
 * shows that.
 */
static bool
hides_a_copy(const World *world, const Server *standby, const Server *parent)
{
	if (!parent->is_copy || world->config.promotion == IDGEN_PROMOTION_FENCE ||
		world->config.promotion == IDGEN_PROMOTION_REFUSE)
		return false;
	for (int i = 0; i < DATABASES; i++)
		if (standby->tables[i].custody.identity.control_inode !=
			parent->control_inode)
			return true;
	return false;
}

/* Promote a standby, if that is inside the contract. */
bool
server_promote(World *world, int at)
{
	Server	   *server = server_of(world, at);
	Server	   *parent = server_of(world, server->upstream);
	bool		history_readable = !world_one_in(world, 10);
	bool		by_marks = world->config.promotion == IDGEN_PROMOTION_TRUST &&
		history_readable;

	if (parent->ancestor_count + 1 == TIMELINES_MAX ||
		hides_a_copy(world, server, parent) ||
		(!by_marks && !clock_may_inherit(world, at)))
		return false;
	if (world->config.promotion == IDGEN_PROMOTION_TRUST &&
		server->log.count < parent->confirmed)
		return false;
	if (world->config.promotion == IDGEN_PROMOTION_SPLIT &&
		!may_split(world, server, history_readable))
		return false;

	stop_others(world, at, class_of(next_timeline(world, parent)));
	if (world_one_in(world, 2))
		server_stop_granting(world, server->upstream);
	if (world_one_in(world, 2))
		server_crash(world, server->upstream);
	parent->known[at].is_connected = false;
	branch(world, server, server->upstream, false);
	server->history_readable = history_readable;
	server->role = ROLE_PRIMARY;
	world_note(world, "server % is promoted at % of %, timeline %", at,
			   server->log.count, server->upstream, server->timeline);
	server_start(world, at);
	open_to_clients(world, at);
	return true;
}

/* The position of some commit of the present timeline. */
static int64_t
choose_target(World *world, const Server *server)
{
	const Log  *log = &server->log;
	int64_t		target = world_between(world, server->branched_at, log->count);

	while (target > server->branched_at && !log->records[target - 1].is_last)
		target--;
	return target;
}

/* Recover a backup of a server to a point in time; -1 if that is not done. */
int
server_recover(World *world, int from)
{
	const Server *source = server_of(world, from);
	int			class = class_of(next_timeline(world, source));
	int			at;

	if (source->ancestor_count + 1 == TIMELINES_MAX ||
		(world->config.promotion == IDGEN_PROMOTION_SPLIT &&
		 !half_has_stopped(world, -1, class)) ||
		!clock_may_inherit(world, world->server_count % SERVERS_MAX) ||
		(at = new_server(world)) < 0)
		return -1;
	stop_others(world, at, class);
	replay(world, server_of(world, at), source,
		   choose_target(world, source));
	branch(world, server_of(world, at), from, true);
	server_of(world, at)->role = ROLE_PRIMARY;
	world_note(world, "server % is % recovered to %", at, from,
			   server_of(world, at)->log.count, 0);
	server_start(world, at);
	open_to_clients(world, at);
	return at;
}

/*
 * A copy of what a promoted server had before it compared its identity first
 * looks like that server at its promotion, and not like a copy: files are not
 * compared after a change of timeline.  Only "refuse" asks somebody, so that
 * other policies must not meet it.
 */
static bool
looks_promoted(const World *world, const Server *server)
{
	if (world->config.promotion == IDGEN_PROMOTION_REFUSE)
		return false;
	for (int i = 0; i < DATABASES; i++)
		if (server->tables[i].custody.identity.timeline != server->timeline)
			return true;
	return false;
}

/* Start a copy of a data directory, of now or of earlier, without recovery. */
int
server_copy(World *world, int from)
{
	const Server *source = server_of(world, from);
	Server	   *server;
	int			at;

	if (!clock_may_inherit(world, world->server_count % SERVERS_MAX) ||
		(at = new_server(world)) < 0)
		return -1;
	/* the setting says that copies may be fenced without asking */
	if (world->config.copies_fence)
		stop_others(world, at, class_of(source->timeline));
	server = server_of(world, at);
	replay(world, server, source, choose_target(world, source));
	server->timeline = source->timeline;
	memcpy(server->ancestors, source->ancestors, sizeof(source->ancestors));
	server->ancestor_count = source->ancestor_count;
	server->parent = source->parent;
	server->promoted_at_us = source->promoted_at_us;
	server->branched_at = source->branched_at;
	server->is_copy = true;
	server->role = ROLE_PRIMARY;
	if (looks_promoted(world, server))
	{
		server->role = ROLE_DOWN;
		return -1;
	}
	world_note(world, "server % is a copy of % at %", at, from,
			   server->log.count, 0);
	server_start(world, at);
	if (world->config.copies_fence)
		open_to_clients(world, at);
	return at;
}

/*
 * Fail over, mostly from the present primary; false if no standby may be
 * promoted.  Trust is for who holds all that was confirmed: no sibling does.
 */
bool
server_fails_over(World *world)
{
	int			begin = (int) world_between(world, 0, SERVERS_MAX - 1);
	bool		any = world->config.promotion != IDGEN_PROMOTION_TRUST &&
		world_one_in(world, 3);

	for (int i = 0; i < world->server_count; i++)
	{
		int			at = (begin + i) % world->server_count;
		Server	   *server = server_of(world, at);

		if (server->role != ROLE_STANDBY)
			continue;
		/* a sibling of the present primary, which is stopped for it */
		if (any && world->config.has_archive &&
			server_of(world, world->primary)->parent == server->upstream)
			server_stop_granting(world, world->primary);
		if ((any || server->upstream == world->primary) &&
			server_promote(world, at))
			return true;
	}
	return false;
}
