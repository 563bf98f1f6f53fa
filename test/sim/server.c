/*
 * server.c
 *		Start, crash, replicate, promote, recover, copy; see server.h.
 *
 * What doc/guarantees.md puts outside the contract is excused by contract.c where
 * that can be told of two grants, and else not done here, and only that:
 *
 * (a) Under any policy but "split", every other server stops granting before
 *	   one is promoted, recovered or adopted.  It may go on issuing from what it
 *	   granted, and what was decided before may be committed and handed out
 *	   after (not under "trust").
 * (b) Under "split", in worlds that are not wild, those of the part stop as well,
 *	   and nobody is promoted whose part has granted less than N before, but by
 *	   an ancestor up to its own successor.
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

	tables_apply(server->tables, record);
	if (record->kind != RECORD_LOWERED && record->kind != RECORD_CREATED &&
		record->kind != RECORD_TEMPLATE &&
		(tables->marks[record->worker].high_water < mark ||
		 tables->floor < floor))
		checker_complain(world->checker, "S3",
						 "the mark of worker %d decreased from %lld",
						 record->worker, (long long) mark);
}

/* The durability is what the namespace has at the commit. */
static int32_t
to_checker(World *world, const Server *server, const Record *record)
{
	const Tables *tables = &server->tables[record->database];
	CheckerGrant grant = {
		.database = record->database,
		.worker = record->worker,
		.incarnation = record->incarnation,
		.start = record->grant.start,
		.end = record->grant.end,
		.copies_needed = tables->policy.is_quorum ? world->config.quorum : 0,
		.life = server->life,
		.birth = tables->birth,
		.decided_us = record->decided_us,
		.ahead_us = record->ahead_us,
	};

	return checker_committed(world->checker, &grant);
}

/* Commit: the records are in the log, which is flushed, or not at all. */
void
server_commit(World *world, int at, Record *records, int count)
{
	Server	   *server = server_of(world, at);

	for (int i = 0; i < count; i++)
	{
		Record	   *record = &records[i];

		record->number = world_number(world);
		record->is_last = i == count - 1;
		if (record->kind == RECORD_GRANT)
			record->checked = to_checker(world, server, record);
		if (record->kind == RECORD_POLICY)
			record->policy.position = server->log.count + 1;
		apply(world, server, record);
		if (world->config.scale)
			server->log.count++;
		else
			log_append(&server->log, record);
	}
	world_note(world, "server % commits % records, up to %", at, count,
			   server->log.count, 0);
}

static void
create_databases(const World *world, Server *server)
{
	for (int i = 0; i < DATABASES; i++)
	{
		tables_create(&server->tables[i],
					  idgen_layout_worker_count(&world->config.layout));
		server->tables[i].is_dropped = true;
	}
}

/* Replay the log of another server up to a position. */
static void
replay(World *world, Server *server, const Server *from, int64_t count)
{
	log_copy(&server->log, &from->log, count);
	create_databases(world, server);
	for (int64_t i = 0; i < count; i++)
		tables_apply(server->tables, &from->log.records[i]);
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
	server->upstream = -1;
	server->control_inode = (uint64_t) world_number(world);
	server->control_birth = world->config.has_birth_times ? world_number(world) : 0;
	server->has_restore_command = world->config.has_archive && !world_one_in(world, 5);
	for (int i = 0; i < DATABASES; i++)
	{
		server->asked[i] = calloc(ASKED_MAX, sizeof(Asked));
		server->authorities[i].round = calloc(PENDING_MAX, sizeof(Pending));
		server->authorities[i].outbox = calloc(PENDING_MAX, sizeof(Pending));
	}
	return at;
}

/* A life of the contract; -1 if it has no room. */
static int
begin_life(World *world, const Server *server, int parent, uint32_t timeline,
		   bool is_copy)
{
	Contract   *contract = &world->contract;

	if (contract->life_count == LIVES_MAX)
		return -1;
	contract->lives[contract->life_count] = (Life) {
		.parent = parent,
		.timeline = timeline,
		.promoted_us = world->now_us,
		.ahead_us = world_ahead_us(world, server->machine),
		.is_copy = is_copy,
	};
	return contract->life_count++;
}

static int
begin_birth(World *world, const Server *server, int dropped_life, bool was_database)
{
	Contract   *contract = &world->contract;

	if (contract->birth_count == BIRTHS_MAX)
		abort();
	contract->births[contract->birth_count] = (Birth) {
		.life = server->life,
		.created_us = world->now_us,
		.dropped_life = dropped_life,
		.was_database = was_database,
	};
	return contract->birth_count++;
}

/* What CREATE EXTENSION writes. */
static Record
created_record(World *world, int at, int database)
{
	const Server *server = server_of(world, at);
	const Config *config = &world->config;

	return (Record) {
		.kind = RECORD_CREATED,
		.database = database,
		.policy = {.promotion = config->promotion, .is_quorum = config->quorum > 0},
		.ownership = {
			.is_known = true,
			.identity = {
				.system_identifier = 1,
				.database = (uint32_t) world_number(world),
				.timeline = server->timeline,
				.control_inode = server->control_inode,
				.control_birth = server->control_birth,
			},
			.uuid = world_number(world),
			.modulus = config->modulus,
			.remainder = idgen_split_class(server->timeline, (int) config->modulus),
			.recorded_ms = world_wall_us(world, server->machine) / MS,
		},
	};
}

/* The first server, with the namespaces of all but the last database. */
int
server_create(World *world)
{
	int			at = new_server(world);
	Server	   *server = server_of(world, at);

	server->timeline = 1;
	server->role = ROLE_PRIMARY;
	server->life = begin_life(world, server, -1, 1, false);
	/* long ago */
	world->contract.lives[server->life].promoted_us = -3600 * SECOND;
	create_databases(world, server);
	for (int i = 0; i < DATABASES - 1; i++)
	{
		Record		record = created_record(world, at, i);

		record.birth = begin_birth(world, server, -1, false);
		server_commit(world, at, &record, 1);
	}
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
	server->starts++;
	if (server->role != ROLE_PRIMARY)
		return;
	world_note(world, "server % starts", at, 0, 0, 0);
	if (!world_breaks(world, BREAK_RESTART_KEEPS_CURSORS))
		for (int i = 0; i < SLOTS; i++)
			server->slots[i] = (Slot) {.locked_by = -1};
	server->pool_version = world_number(world);
	server->clock = server->saved_clock;
	idgen_clock_resume(&server->clock, &reading);
	memset(server->known, 0, sizeof(server->known));
	/* order is promised over restarts, unless the clock went back */
	if (server->went_back)
		memset(server->last_id, 0, sizeof(server->last_id));
	server->went_back = false;
	server->directory_until_us = 0;
	for (int i = 0; i < DATABASES; i++)
	{
		server->wish_count[i] = 0;
		server->asked_count[i] = 0;
		if (!world->config.is_quiet || i == 0)
			authority_start(world, at, i);
		if (!server->tables[i].is_dropped)
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
	server->starts++;
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

/* May a namespace have the policy "trust"? */
static bool
has_trust(const World *world)
{
	return world->config.promotion == IDGEN_PROMOTION_TRUST ||
		(world->config.is_altered &&
		 world->config.promotion != IDGEN_PROMOTION_SPLIT);
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
	/* nothing shows what is confirmed after this to who inherits by trust */
	if (has_trust(world))
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
	verdict = idgen_clock_decide(&server->clock, &reading, &policy, &finding);
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

/* First the generation, without the lock: whoever comes later sees it. */
void
server_kill_slot(Server *server, int slot)
{
	server->slots[slot].generation = 0;
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

/* ---- namespaces go and come ---- */

/* To create anew on a copy is to adopt it, which nobody has done here. */
static bool
is_unadopted(const World *world, const Server *server)
{
	const Life *life = &world->contract.lives[server->life];

	return life->is_copy && life->promoted_us == NEVER;
}

/*
 * Until when its external generators may issue, by what this server committed; it
 * is what authority_promised() must not be behind.
 */
static int64_t
granted_outside(const Server *server, int database)
{
	int64_t		until = 0;

	for (int64_t i = server->log.count - 1; i >= 0; i--)
	{
		const Record *record = &server->log.records[i];

		if (record->database != database)
			continue;
		if (record->kind == RECORD_CREATED || record->kind == RECORD_TEMPLATE)
			break;
		if (record->kind == RECORD_GRANT && record->is_external)
			until = max_of(until, record->grant.end);
	}
	return until;
}

/*
 * DROP EXTENSION, or DROP DATABASE; 0 if that is refused, else the birth that is
 * over, + 1.  What may still be issued is in the file before the commit; then the
 * cursors are killed, whatever process is stopped in whatever lock.
 */
int64_t
server_drop(World *world, int at, int database, bool is_database)
{
	Server	   *server = server_of(world, at);
	Tables	   *tables = &server->tables[database];
	Record		record = {.kind = RECORD_DROPPED, .database = database,
		.life = server->life};
	int64_t		uuid = tables->ownership.uuid;

	if (tables->is_dropped || !server->may_grant || is_unadopted(world, server) ||
		(!is_database && authority_promised(world, at, database) >
		 world_tick(world, server->machine)))
		return 0;
	if (!is_database && granted_outside(server, database) >
		world_tick(world, server->machine))
		checker_complain(world->checker, "S3", "the extension of database %d is "
						 "dropped while an external generator may issue", database);
	server->promised[database] = max_of(server->promised[database],
										authority_drop_bound(world, at, database));
	server_commit(world, at, &record, 1);
	world_note(world, "server % drops %, bound %", at, database,
			   server->promised[database], 0);
	if (is_database)
	{
		authority_crash(world, at, database);
		for (int i = 0; i < SESSIONS_MAX; i++)
			server->sessions[database][i].is_alive = false;
	}
	server->dropped_uuid[database] = uuid;
	if (!world_breaks(world, BREAK_KILL_WAITS) ||
		server->directory_until_us <= world->now_us)
		server_kill_namespace(server, database, uuid);
	return tables->birth + 1;
}

static void
start_sessions(World *world, int at, int database)
{
	Server	   *server = server_of(world, at);

	for (int i = 0; i < world->config.sessions; i++)
		if (!server->sessions[database][i].is_alive)
			session_start(world, at, database, i);
}

/* CREATE EXTENSION after that, in the same database or another of its name. */
void
server_create_again(World *world, int at, int64_t was_database_and_database)
{
	Server	   *server = server_of(world, at);
	int			database = (int) (was_database_and_database % DATABASES);
	Tables	   *tables = &server->tables[database];
	Record		record = created_record(world, at, database);

	if (!tables->is_dropped || !server->is_running || !server->may_grant ||
		server->role != ROLE_PRIMARY || world->machines[at].is_wrong ||
		is_unadopted(world, server))
		return;
	record.mark = world_breaks(world, BREAK_FORGET_DROPPED) ? 0 :
		max_of(0, min_of(server->promised[database],
						 idgen_layout_tick_count(&world->config.layout)));
	record.birth = begin_birth(world, server, tables->dropped_life,
							   was_database_and_database >= DATABASES);
	if (was_database_and_database < DATABASES)
		record.ownership.identity.database = tables->oid;
	server_commit(world, at, &record, 1);
	world_note(world, "server % creates % again, floor %", at, database,
			   record.mark, 0);
	start_sessions(world, at, database);
}

/* CREATE DATABASE ... TEMPLATE: nobody is connected to the original. */
bool
server_copy_template(World *world, int at)
{
	Server	   *server = server_of(world, at);
	int			source = (int) world_between(world, 0, DATABASES - 2);
	Record		record = {.kind = RECORD_TEMPLATE, .database = DATABASES - 1,
		.source = source};

	if (!server->tables[DATABASES - 1].is_dropped ||
		server->tables[source].is_dropped || !server->may_grant)
		return false;
	authority_crash(world, at, source);
	record.birth = begin_birth(world, server,
							   server->tables[DATABASES - 1].dropped_life, true);
	record.ownership.identity.database = (uint32_t) world_number(world);
	server_commit(world, at, &record, 1);
	world_note(world, "server % makes a database of %", at, source, 0, 0);
	start_sessions(world, at, DATABASES - 1);
	return true;
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

/* ---- history files ---- */

const HistoryFile *
server_history(const Server *server, uint32_t timeline)
{
	for (int i = 0; i < server->file_count; i++)
		if (server->files[i].timeline == timeline)
			return &server->files[i];
	return NULL;
}

/* A file is written anew, and changed now. */
static void
put_file(World *world, Server *server, const HistoryFile *file)
{
	HistoryFile *place = &server->files[server->file_count];

	for (int i = 0; i < server->file_count; i++)
		if (server->files[i].timeline == file->timeline)
			place = &server->files[i];
	if (place == &server->files[server->file_count])
	{
		if (server->file_count == TIMELINES_MAX)
			return;
		server->file_count++;
	}
	*place = *file;
	place->changed_ms = world_wall_us(world, server->machine) / MS;
}

static const HistoryFile *
archived(const World *world, uint32_t timeline)
{
	for (int i = 0; i < world->archived_count; i++)
		if (world->archive[i].timeline == timeline)
			return &world->archive[i];
	return NULL;
}

/* A base backup has the files, or some, or none (without pg_wal). */
static void
copy_files(World *world, Server *server, const Server *from)
{
	bool		has_none = world_one_in(world, 6);

	/* by a clock that does not know of what was granted they were too old */
	if (has_none || !server_may_inherit(world, server->machine))
		return;
	for (int i = 0; i < from->file_count; i++)
		if (!world_one_in(world, 8))
			put_file(world, server, &from->files[i]);
}

/* The history of the timeline that a server leaves, as PostgreSQL finds it. */
static const HistoryFile *
find_history(World *world, Server *server, uint32_t timeline)
{
	const HistoryFile *file = server->has_restore_command ?
		archived(world, timeline) : NULL;

	if (file != NULL)
		put_file(world, server, file);
	return server_history(server, timeline);
}

static bool
knows_timeline(const World *world, const Server *server, uint32_t timeline)
{
	return server_history(server, timeline) != NULL ||
		(server->has_restore_command && archived(world, timeline) != NULL);
}

/* The upstream has begun another timeline in place. */
static void
follow_timeline(World *world, Server *server, const Server *upstream)
{
	const HistoryFile *file = server_history(upstream, upstream->timeline);

	if (server->timeline == upstream->timeline)
		return;
	server->timeline = upstream->timeline;
	server->life = upstream->life;
	if (file != NULL && server_may_inherit(world, server->machine))
		put_file(world, server, file);
}

/* Receive, flush and replay some commits. */
static void
receive(World *world, int at)
{
	Server	   *server = server_of(world, at);
	const Log  *source = &server_of(world, server->upstream)->log;
	int64_t		limit = min_of(source->count, server->log.count +
							   world_between(world, 1, 60));

	follow_timeline(world, server, server_of(world, server->upstream));

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

	if (server->role != ROLE_STANDBY || server->starts != arg)
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

static void
follow(World *world, int at, int upstream)
{
	Server	   *server = server_of(world, at);
	const Server *from = server_of(world, upstream);

	server->role = ROLE_STANDBY;
	server->upstream = upstream;
	server->timeline = from->timeline;
	server->life = from->life;
	server->is_copy = false;
	server->file_count = 0;
	copy_files(world, server, from);
	server->is_running = true;
	world_note(world, "server % is a standby of %", at, upstream, 0, 0);
	world_at(world, world->now_us + MS, standby_step, at, server->starts);
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
	follow(world, at, upstream);
	return at;
}

/* ---- who may inherit ---- */

/* The assumption: not further behind what grants were decided by. */
bool
server_may_inherit(const World *world, int at)
{
	const Machine *machine = &world->machines[at];

	return !machine->is_wrong && world_wall_us(world, at) / MS >
		world->latest_reading_ms - world->config.clock_error_ms;
}

/* Does a primary use the part of a timeline?  All do, but under "split". */
bool
server_is_of_part(const World *world, int at, uint32_t timeline)
{
	const Server *server = &world->servers[at];

	return server->role == ROLE_PRIMARY &&
		(server->timeline - timeline) % world->config.modulus == 0;
}

/*
 * Does nothing outside the contract follow if the heir begins "timeline" now, and all
 * others of its part stop?
 */
static bool
may_split(const World *world, const Server *heir, uint32_t timeline)
{
	const Contract *contract = &world->contract;
	int64_t		long_ago_us = world->now_us - contract->fence_us;

	for (int i = 0; i < world->server_count; i++)
	{
		const Server *other = &world->servers[i];
		int64_t		at_us = other->granted_at_us;

		if (!server_is_of_part(world, i, timeline) || at_us == 0 ||
			other->life == heir->life)
			continue;
		if (!contract_is_ancestor(contract, other->life, heir->life))
		{
			if (contract_as_if_us(contract, at_us, other->granted_ahead_us,
								  world_ahead_us(world, heir->machine)) > long_ago_us)
				return false;
		}
		else if (at_us > long_ago_us &&
				 at_us >= contract_successor_us(contract, other->life, heir->life))
			return false;
	}
	return true;
}

/* All others of the part stop granting. */
static void
stop_others(World *world, int but, uint32_t timeline)
{
	for (int i = 0; i < world->server_count; i++)
		if (i != but && server_is_of_part(world, i, timeline))
			server_stop_granting(world, i);
}

/* ---- promotion, recovery, copies ---- */

static uint32_t
next_timeline(const World *world, const Server *server, uint32_t timeline)
{
	do
		timeline++;
	while (knows_timeline(world, server, timeline));
	return timeline;
}

/* A new timeline begins; false if there is no room for it. */
static bool
branch(World *world, Server *server, uint32_t timeline, bool has_target)
{
	const HistoryFile *file = find_history(world, server, server->timeline);
	HistoryFile history = {.timeline = timeline, .is_readable = true};
	int			life;

	if (file != NULL && file->is_readable)
	{
		memcpy(history.ancestors, file->ancestors, sizeof(file->ancestors));
		history.ancestor_count = file->ancestor_count;
	}
	if (history.ancestor_count == TIMELINES_MAX ||
		(life = begin_life(world, server, server->life, timeline, false)) < 0)
		return false;
	history.ancestors[history.ancestor_count++] =
		(Ancestor) {server->timeline, has_target};
	if (server->has_restore_command && archived(world, timeline) == NULL &&
		world->archived_count < ARCHIVE_MAX)
		world->archive[world->archived_count++] = history;
	/* somebody removes it, or its disk does */
	if (!world_one_in(world, 20))
	{
		history.is_readable = !world_one_in(world, 20);
		put_file(world, server, &history);
	}
	server->timeline = timeline;
	server->life = life;
	server->granted_at_us = 0;
	return true;
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
	if (!parent->is_copy || (!has_trust(world) &&
							 world->config.promotion != IDGEN_PROMOTION_SPLIT))
		return false;
	for (int i = 0; i < DATABASES; i++)
		if (!standby->tables[i].is_dropped &&
			standby->tables[i].ownership.identity.control_inode !=
			parent->control_inode)
			return true;
	return false;
}

/*
 * Promote a standby, if that is inside the contract, or the world is wild.
 */
bool
server_promote(World *world, int at)
{
	Server	   *server = server_of(world, at);
	Server	   *parent = server_of(world, server->upstream);
	uint32_t	timeline = next_timeline(world, server, server->timeline);
	bool		is_split = world->config.promotion == IDGEN_PROMOTION_SPLIT;

	if (hides_a_copy(world, server, parent) || !server_may_inherit(world, at) ||
		(has_trust(world) && server->log.count < parent->confirmed) ||
		(is_split && !world->config.is_wild && !may_split(world, server, timeline)) ||
		!branch(world, server, timeline, false))
		return false;

	if (!world->config.is_wild)
		stop_others(world, at, timeline);
	if (!world_one_in(world, 4))
		server_stop_granting(world, server->upstream);
	if (world_one_in(world, 2))
		server_crash(world, server->upstream);
	parent->known[at].is_connected = false;
	server->role = ROLE_PRIMARY;
	server->may_grant = true;
	world_note(world, "server % is promoted at % of %, timeline %", at,
			   server->log.count, server->upstream, server->timeline);
	server_start(world, at);
	open_to_clients(world, at);
	return true;
}

/*
 * A primary crashes, is started again and promoted on its own files.
 *
 * Not under "trust" after another was promoted, whose grants it lacks; nor, where no
 * archive shows the other, to the next timeline: the other is no parent, so this is
 * not outside the contract by its words, but nothing tells it from a restart.
 */
bool
server_promote_in_place(World *world, int at)
{
	Server	   *server = server_of(world, at);
	uint32_t	timeline = next_timeline(world, server, server->timeline);
	bool		is_split = world->config.promotion == IDGEN_PROMOTION_SPLIT;

	if (!server_may_inherit(world, at) || server->is_copy ||
		(is_split && !world->config.is_wild && !may_split(world, server, timeline)))
		return false;
	if (!is_split && !server->may_grant &&
		!world_breaks(world, BREAK_IN_PLACE_ANYWHERE) &&
		(has_trust(world) || timeline == server->timeline + 1))
		return false;
	server_crash(world, at);
	if (!branch(world, server, timeline, false))
	{
		server_start(world, at);
		return false;
	}
	if (!world->config.is_wild)
		stop_others(world, at, timeline);
	server->may_grant = true;
	world_note(world, "server % is promoted in place, timeline %", at,
			   server->timeline, 0, 0);
	server_start(world, at);
	world->primary = at;
	return true;
}

/* pg_rewind: an old primary becomes a standby of the present one. */
bool
server_rejoin(World *world, int at)
{
	Server	   *server = server_of(world, at);
	const Server *from = server_of(world, world->primary);
	int64_t		common = 0;

	if (at == world->primary || server->role != ROLE_PRIMARY ||
		!from->is_running || !server_may_inherit(world, at))
		return false;
	server_crash(world, at);
	for (int i = 0; i < world->server_count; i++)
		if (server_of(world, i)->role == ROLE_STANDBY &&
			server_of(world, i)->upstream == at)
			server_of(world, i)->role = ROLE_DOWN;
	while (common < min_of(server->log.count, from->log.count) &&
		   server->log.records[common].number == from->log.records[common].number)
		common++;
	free(server->log.records);
	for (int i = 0; i < DATABASES; i++)
		tables_free(&server->tables[i]);
	replay(world, server, from, from->log.count);
	for (int64_t i = common; i < server->log.count; i++)
		if (server->log.records[i].kind == RECORD_GRANT)
			checker_copied(world->checker, server->log.records[i].checked);
	server->granted_at_us = 0;
	server->confirmed = 0;
	follow(world, at, world->primary);
	return true;
}

/* The position of some commit. */
static int64_t
choose_target(World *world, const Server *server)
{
	const Log  *log = &server->log;
	int64_t		target = world_one_in(world, 3) ? log->count :
		world_between(world, log->count * 3 / 4, log->count);

	while (target > 0 && !log->records[target - 1].is_last)
		target--;
	return max_of(target, DATABASES - 1);
}

/*
 * Recover a backup of a server to a point in time, or as far as its log goes where
 * that is, which may be far from the end; -1 if it is not done.  The old data
 * directory may be what it is restored over: its inodes stay, their birth times do
 * not.
 */
int
server_recover(World *world, int from)
{
	const Server *source = server_of(world, from);
	bool		is_split = world->config.promotion == IDGEN_PROMOTION_SPLIT;
	bool		is_over = world->config.has_birth_times && world_one_in(world, 3);
	bool		has_target = has_trust(world) || world_one_in(world, 2);
	int64_t		target = choose_target(world, source);
	Server	   *server;
	uint32_t	timeline;
	int			at;

	if (!server_may_inherit(world, world->server_count % SERVERS_MAX) ||
		(at = new_server(world)) < 0)
		return -1;
	server = server_of(world, at);
	server->timeline = source->timeline;
	server->life = source->life;
	copy_files(world, server, source);
	timeline = next_timeline(world, server, server->timeline);
	replay(world, server, source, target);
	if ((is_split && !world->config.is_wild && !may_split(world, server, timeline)) ||
		!branch(world, server, timeline, has_target))
		return -1;
	if (is_over)
	{
		server->control_inode = source->control_inode;
		server_stop_granting(world, from);
		server_crash(world, from);
	}
	if (!world->config.is_wild)
		stop_others(world, at, timeline);
	server->role = ROLE_PRIMARY;
	world_note(world, "server % is % recovered to %, target %", at, from,
			   server->log.count, has_target);
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
	if (world->config.promotion == IDGEN_PROMOTION_REFUSE &&
		!world->config.is_altered)
		return false;
	for (int i = 0; i < DATABASES; i++)
		if (!server->tables[i].is_dropped &&
			server->tables[i].ownership.identity.timeline != server->timeline)
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

	if (!server_may_inherit(world, world->server_count % SERVERS_MAX) ||
		(at = new_server(world)) < 0)
		return -1;
	/* the setting says that copies may be fenced without asking */
	if (world->config.copies_fence)
		stop_others(world, at, source->timeline);
	server = server_of(world, at);
	replay(world, server, source, choose_target(world, source));
	server->timeline = source->timeline;
	memcpy(server->files, source->files, sizeof(source->files));
	server->file_count = source->file_count;
	for (int i = 0; i < server->file_count; i++)
		put_file(world, server, &server->files[i]);
	memcpy(server->promised, source->promised, sizeof(source->promised));
	server->life = begin_life(world, server, source->life, source->timeline,
							  true);
	if (server->life >= 0 && !world->config.copies_fence)
		world->contract.lives[server->life].promoted_us = NEVER;
	server->is_copy = true;
	server->role = ROLE_PRIMARY;
	if (server->life < 0 || looks_promoted(world, server))
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
	bool		any = !has_trust(world) && world_one_in(world, 3);

	for (int i = 0; i < world->server_count; i++)
	{
		int			at = (begin + i) % world->server_count;
		Server	   *server = server_of(world, at);

		if (server->role != ROLE_STANDBY)
			continue;
		if ((any || server->upstream == world->primary) &&
			server_promote(world, at))
			return true;
	}
	return false;
}
