/*
 * authority.c
 *		The authority process, re-enacted: src/authority/process.c, round*.c, command.c
 *		and fence.c without PostgreSQL.
 *
 * A round has three steps, between which anything may happen to the process and
 * around it: decide (the core does), commit, deliver.  Every number that is
 * granted comes out of src/core.
 */
#include "server.h"

#include <string.h>

#include "quorum.h"

#define WORKERS_MAX		1024

/* What a round is decided from. */
typedef struct Round
{
	World	   *world;
	int			at;
	int			database;
	Server	   *server;
	Authority  *authority;
	const Tables *tables;
	int64_t		now;			/* tick */
	int64_t		eligible;		/* not before, while the clock is behind */
} Round;

static Round
round_of(World *world, int at, int database)
{
	Server	   *server = server_of(world, at);

	return (Round) {
		.world = world,
		.at = at,
		.database = database,
		.server = server,
		.authority = &server->authorities[database],
		.tables = &server->tables[database],
		.now = world_tick(world, server->machine),
		.eligible = INT64_MIN,
	};
}

/* ---- fences and identity: src/authority/fence.c ---- */

static int64_t
fence_floor(const Round *round, int64_t above)
{
	const World *world = round->world;
	IdgenFenceFacts facts = {
		.now = round->now,
		.last_clock = round->tables->last_clock,
		.highest_mark = tables_highest_mark(round->tables),
		.above = above,
		.horizon = world->config.horizon,
		.clock_error = world_ms_to_ticks(world, world->config.clock_error_ms),
	};

	return idgen_fence_floor(&facts,
							 idgen_layout_tick_count(&world->config.layout));
}

static Record
fence_record(const Round *round, int64_t above)
{
	round->world->fence_count++;
	return (Record) {
		.kind = RECORD_FLOOR,
		.database = round->database,
		.mark = fence_floor(round, above),
	};
}

static IdgenIdentity
identity_of(const Round *round)
{
	return (IdgenIdentity) {
		.system_identifier = 1,
		.database = round->tables->oid,
		.timeline = round->server->timeline,
		.control_inode = round->server->control_inode,
		.control_birth = round->server->control_birth,
	};
}

/* The old rule of "split": by the ancestors that the history names. */
static int64_t
count_ancestors(const Round *round)
{
	const HistoryFile *history = server_history(round->server,
												round->server->timeline);

	return history != NULL && history->is_readable ? history->ancestor_count : 0;
}

static int64_t
part_of(const Round *round)
{
	int64_t		modulus = round->tables->ownership.modulus;

	if (world_breaks(round->world, BREAK_COUNT_ANCESTORS))
		return (count_ancestors(round) + 1) % modulus;
	return idgen_split_class(round->server->timeline, (int) modulus);
}

static Record
take_over_record(const Round *round)
{
	Record		record = {.kind = RECORD_IDENTITY, .database = round->database};
	Ownership    *ownership = &record.ownership;
	const Ownership *before = &round->tables->ownership;

	*ownership = *before;
	ownership->is_known = true;
	ownership->identity = identity_of(round);
	ownership->uuid = world_number(round->world);
	ownership->recorded_ms = world_wall_us(round->world, round->server->machine) / MS;
	ownership->remainder = part_of(round);
	return record;
}

/* Commit what makes the authority ours, and end the cursors of before. */
static void
commit_ownership(const Round *round, Record *records, int count)
{
	int64_t		uuid = round->tables->ownership.uuid;

	server_commit(round->world, round->at, records, count);
	round->authority->is_damaged = false;
	/* the process may end here, with the cursors as they are */
	if (!round->world->is_over && world_one_in(round->world, 20))
	{
		authority_crash(round->world, round->at, round->database);
		return;
	}
	server_kill_namespace(round->server, round->database, uuid);
}

static void
fence_and_take_over(const Round *round)
{
	Record		records[] = {fence_record(round, 0), take_over_record(round)};

	commit_ownership(round, records, 2);
}

/* At once; the floor rises to "mark", if it is lower. */
static void
take_over(const Round *round, int64_t mark)
{
	Record		records[] = {
		{.kind = RECORD_END_ALL, .database = round->database},
		take_over_record(round),
		{.kind = RECORD_FLOOR, .database = round->database, .mark = mark},
	};
	int			count = mark > 0 ? 3 : 2;

	if (world_breaks(round->world, BREAK_KEEP_INCARNATIONS))
		commit_ownership(round, records + 1, 1);
	else
		commit_ownership(round, records, count);
}

/* What clocks may differ by, for evidence and the floor that goes with it. */
static int64_t
evidence_error_ms(const Round *round)
{
	return world_breaks(round->world, BREAK_HORIZON_ALONE) ? 0 :
		round->world->config.clock_error_ms;
}

/* How the present timeline came to be, as far as it can be read. */
static IdgenPromotionFacts
promotion_facts(const Round *round)
{
	const Server *server = round->server;
	const Config *config = &round->world->config;
	const Ownership *ownership = &round->tables->ownership;
	const HistoryFile *history = server_history(server, server->timeline);
	IdgenPromotionFacts facts = {
		.policy = round->tables->policy.promotion,
		.recorded = ownership->identity.timeline,
		.present = server->timeline,
		.now_ms = world_wall_us(round->world, server->machine) / MS,
		.horizon_ms = config->layout.horizon_ms,
		.clock_error_ms = evidence_error_ms(round),
		.parts = (int) ownership->modulus,
		.recorded_ms = ownership->recorded_ms,
	};

	if (history == NULL || !history->is_readable)
		return facts;
	for (int i = 0; i < history->ancestor_count; i++)
	{
		const Ancestor *ancestor = &history->ancestors[i];

		facts.history_complete |= ancestor->timeline == facts.recorded;
		facts.has_target |= ancestor->timeline >= facts.recorded &&
			ancestor->has_target;
	}
	for (int i = history->ancestor_count; i >= 0; i--)
	{
		uint32_t	timeline = i == history->ancestor_count ? server->timeline :
			history->ancestors[i].timeline;
		const HistoryFile *file = server_history(server, timeline);

		if (file != NULL && timeline + IDGEN_SPLIT_PARTS_MAX > server->timeline &&
			facts.begun_count < IDGEN_SPLIT_PARTS_MAX)
			facts.begun[facts.begun_count++] = (IdgenTimelineBegun) {
				timeline, file->changed_ms};
	}
	return facts;
}

/* The rule of "split" before this one: the successor of an old parent. */
static IdgenPromotionVerdict
judge_by_ancestors(const Round *round, const IdgenPromotionFacts *facts)
{
	int64_t		count = count_ancestors(round);
	const HistoryFile *history = server_history(round->server, facts->present);

	return count > 0 && !facts->has_target &&
		history->ancestors[count - 1].timeline == facts->recorded &&
		facts->present == facts->recorded + 1 &&
		(count == 1 || facts->now_ms - facts->recorded_ms >=
		 facts->horizon_ms + facts->clock_error_ms) ?
		IDGEN_PROMOTION_AT_ONCE : IDGEN_PROMOTION_WAIT;
}

/* The first tick at least N after a time. */
static int64_t
fence_after(const Round *round, int64_t begun_ms)
{
	const Config *config = &round->world->config;

	return max_of(0, idgen_layout_tick_at(&config->layout, begun_ms +
										  config->layout.horizon_ms +
										  evidence_error_ms(round)) + 1);
}

/* Another timeline: the policy decides.  False if it refuses. */
static bool
change_timeline(const Round *round, const IdgenPromotionFacts *facts)
{
	int64_t		begun_ms;
	IdgenPromotionVerdict verdict = idgen_promotion_judge(facts, &begun_ms);

	if (facts->policy == IDGEN_PROMOTION_SPLIT &&
		world_breaks(round->world, BREAK_COUNT_ANCESTORS))
		verdict = judge_by_ancestors(round, facts);
	world_note(round->world, "server % (%) judges its promotion: %, begun %",
			   round->at, round->database, (int64_t) verdict, begun_ms);
	switch (verdict)
	{
		case IDGEN_PROMOTION_AT_ONCE:
			take_over(round, begun_ms == IDGEN_BEGUN_NEVER ? 0 :
					  fence_after(round, begun_ms));
			return true;
		case IDGEN_PROMOTION_WAIT:
			fence_and_take_over(round);
			return true;
		case IDGEN_PROMOTION_NEVER:
			return false;
	}
	return false;
}

/* A promotion in place is a restart: what is left to compare decides. */
static IdgenIdentityVerdict
compare_identity(const Round *round, const IdgenPromotionFacts *facts,
				 bool *is_in_place)
{
	IdgenIdentity recorded = round->tables->ownership.identity;
	IdgenIdentity here = identity_of(round);

	*is_in_place = idgen_identity_is_in_place(&recorded, &here, facts);
	if (*is_in_place)
		recorded.timeline = here.timeline;
	if (world_breaks(round->world, BREAK_DATABASE_FIRST) &&
		recorded.database != here.database)
		return IDGEN_IDENTITY_OTHER_DATABASE;
	return idgen_identity_compare(&recorded, &here);
}

/* The same server on another timeline: the record follows, its cursors are gone. */
static void
follow_in_place(const Round *round)
{
	Record		record = take_over_record(round);

	record.ownership.uuid = round->tables->ownership.uuid;
	server_commit(round->world, round->at, &record, 1);
}

/*
 * Compare this server with the record, before the first grant of the process's
 * life.  True if it is ours as it is.
 */
static bool
verify(const Round *round)
{
	IdgenPromotionFacts facts = promotion_facts(round);
	bool		is_in_place;
	IdgenIdentityVerdict verdict = compare_identity(round, &facts, &is_in_place);
	IdgenTakeover takeover =
		idgen_takeover_judge(verdict, round->world->config.copies_fence);
	bool		is_done = true;

	if (world_breaks(round->world, BREAK_SKIP_VERIFY))
		return true;
	if (world_breaks(round->world, BREAK_ADOPT_BY_ITSELF) &&
		(verdict == IDGEN_IDENTITY_OTHER_SYSTEM ||
		 verdict == IDGEN_IDENTITY_OTHER_DATABASE ||
		 verdict == IDGEN_IDENTITY_OTHER_CONTROL))
		takeover = IDGEN_TAKEOVER_TEMPLATE;
	switch (takeover)
	{
		case IDGEN_TAKEOVER_NONE:
			if (is_in_place)
				follow_in_place(round);
			return true;
		case IDGEN_TAKEOVER_PROMOTED:
			is_done = change_timeline(round, &facts);
			break;
		case IDGEN_TAKEOVER_FENCED:
			fence_and_take_over(round);
			break;
		case IDGEN_TAKEOVER_TEMPLATE:
			/* above all that it holds, and what another of its name promised */
			take_over(round, max_of(tables_highest_mark(round->tables),
									round->server->promised[round->database]));
			break;
		case IDGEN_TAKEOVER_REFUSED:
			is_done = false;
			break;
	}
	round->authority->is_refused = !is_done;
	return false;
}

/*
 * Until when any external holder may issue: a value that falls with nothing.  What
 * is broken looks at rows instead.
 */
int64_t
authority_promised(World *world, int at, int database)
{
	const Server *server = server_of(world, at);
	const Tables *tables = &server->tables[database];
	int64_t		now = world_tick(world, server->machine);
	int64_t		until = 0;

	switch (world->broken)
	{
		case BREAK_PROMISE_OF_ACTIVE:
		case BREAK_PROMISE_OF_LAST:
		case BREAK_PROMISE_OF_RETAINED:
			break;
		case BREAK_PROMISE_OF_SNAPSHOT:
			for (int64_t i = 0; i < server->log.count - 40; i++)
				if (server->log.records[i].kind == RECORD_GRANT &&
					server->log.records[i].database == database &&
					server->log.records[i].is_external)
					until = max_of(until, server->log.records[i].grant.end);
			return until;
		default:
			return tables->promised;
	}
	for (int64_t i = 0; i < tables->worker_count; i++)
	{
		const MarkRow *mark = &tables->marks[i];
		const GrantRow *last = tables_last_grant(tables, (int32_t) i);
		const IncarnationRow *row = last == NULL ? NULL :
			tables_incarnation(tables, last->incarnation);

		if (!mark->is_external || last == NULL ||
			(world->broken == BREAK_PROMISE_OF_ACTIVE &&
			 (row == NULL || !row->is_active)) ||
			(world->broken == BREAK_PROMISE_OF_RETAINED &&
			 last->grant.start < now - world->config.horizon / 4))
			continue;
		until = max_of(until, last->grant.end);
	}
	return until;
}

/*
 * From where on a namespace of the same name may issue: above its marks, and where
 * this server has yet to take over, above what a lost one may have granted.
 */
int64_t
authority_drop_bound(World *world, int at, int database)
{
	Round		round = round_of(world, at, database);
	IdgenIdentity here = identity_of(&round);
	int64_t		bound = tables_highest_mark(round.tables);

	if (idgen_identity_compare(&round.tables->ownership.identity, &here) !=
		IDGEN_IDENTITY_SAME)
		bound = max_of(bound, fence_floor(&round, 0));
	return bound;
}

/* ---- what an operator asks: src/authority/command.c ---- */

static void
end_incarnation(const Round *round, int64_t incarnation)
{
	Record		record = {.kind = RECORD_END, .database = round->database,
		.incarnation = incarnation};

	if (tables_incarnation(round->tables, incarnation) == NULL)
		return;
	server_commit(round->world, round->at, &record, 1);
	for (int i = 0; i < SLOTS; i++)
	{
		const Slot *slot = &round->server->slots[i];

		if (slot->state == SLOT_ACTIVE && slot->database == round->database &&
			slot->incarnation == incarnation)
			server_kill_slot(round->server, i);
	}
}

/* True if there was something to do. */
static bool
operate(const Round *round)
{
	Server	   *server = round->server;
	int			database = round->database;
	int64_t		above = server->operation_above[database];
	Operation	operation = server->operation[database];
	Record		records[2];

	server->operation[database] = OPERATION_NONE;
	if (operation == OPERATION_NONE)
		return false;
	world_note(round->world, "server % carries out operation %, above %",
			   round->at, (int64_t) operation, above, 0);
	switch (operation)
	{
		case OPERATION_NONE:
			break;
		case OPERATION_FENCE:
			records[0] = fence_record(round, above);
			if (round->tables->ownership.is_known && round->authority->is_verified &&
				!round->tables->is_dropped)
				commit_ownership(round, records, 1);
			break;
		case OPERATION_ADOPT:
			if (round->tables->is_dropped)
				break;
			records[0] = fence_record(round, above);
			records[1] = take_over_record(round);
			round->authority->is_refused = false;
			commit_ownership(round, records, 2);
			break;
		case OPERATION_END:
			end_incarnation(round, server->operation_arg[database]);
			break;
	}
	return true;
}

/* ---- deciding: src/authority/round*.c, src/authority/job.c ---- */

static Pending *
add_pending(const Round *round)
{
	Authority  *authority = round->authority;
	Pending    *pending = &authority->round[authority->round_count];

	if (authority->round_count + 1 < PENDING_MAX)
		authority->round_count++;
	*pending = (Pending) {.slot = -1, .checked = -1,
		.uuid = round->tables->ownership.uuid,
		.is_quorum = round->tables->policy.is_quorum};
	return pending;
}

/* Decide a grant for a worker into the round; the verdict is the core's. */
static Pending *
decide(const Round *round, int32_t worker, int64_t eligible,
	   IdgenGrantVerdict *verdict)
{
	World	   *world = round->world;
	const Config *config = &world->config;
	const MarkRow *mark = &round->tables->marks[worker];
	int64_t		tick_count = idgen_layout_tick_count(&config->layout);
	IdgenGrantFacts facts = {
		.now = round->now,
		.eligible = max_of(eligible, round->eligible),
		.high_water = world_breaks(world, BREAK_IGNORE_FLOOR) ? mark->high_water :
		max_of(mark->high_water, round->tables->floor),
		.length = config->length,
		.horizon = config->horizon,
	};
	IdgenGrant	grant;
	int64_t		retry_at;
	Pending    *pending;

	*verdict = idgen_grant_decide(&facts,
								  world_breaks(world, BREAK_FIELD_UNCHECKED) ?
								  tick_count * 2 : tick_count, &grant, &retry_at);
	if (*verdict == IDGEN_GRANT_FIELD_EXHAUSTED)
		world->is_exhausted = true;
	if (*verdict != IDGEN_GRANT_OK)
		return NULL;
	if (grant.end > world_honest_tick(world, round->server->machine) +
		config->horizon + 1)
		checker_complain(world->checker, "S8", "a grant up to %lld relies on a "
						 "clock that was set", (long long) grant.end);
	round->server->granted_at_us = world->now_us;
	round->server->granted_ahead_us = world_ahead_us(world, round->server->machine);
	world->latest_reading_ms = max_of(world->latest_reading_ms,
									  world_wall_us(world, round->server->machine) / MS);
	world_note(world, "server % decides: worker % [%, %)", round->at, worker,
			   grant.start, grant.end);
	pending = add_pending(round);
	pending->has_grant = true;
	pending->expected = mark->high_water;
	pending->record = (Record) {
		.kind = RECORD_GRANT,
		.database = round->database,
		.decided_us = world->now_us,
		.ahead_us = world_ahead_us(world, round->server->machine),
		.worker = worker,
		.mark = grant.end,
		.grant_id = world_number(world),
		.grant = grant,
		.clock = round->now,
	};
	return pending;
}

static size_t
insert_sorted(int64_t *numbers, size_t count, int64_t number)
{
	size_t		at = count;

	while (at > 0 && numbers[at - 1] > number)
		at--;
	if (at > 0 && numbers[at - 1] == number)
		return count;
	memmove(&numbers[at + 1], &numbers[at], (count - at) * sizeof(int64_t));
	numbers[at] = number;
	return count + 1;
}

/* Workers that cursors here hold, or that are being given away. */
static size_t
add_held(const Round *round, int64_t *workers, size_t count)
{
	const Authority *authority = round->authority;

	for (int i = 0; i < SLOTS; i++)
		if (round->server->slots[i].state == SLOT_ACTIVE &&
			round->server->slots[i].database == round->database)
			count = insert_sorted(workers, count, round->server->slots[i].worker);
	for (int i = 0; i < authority->round_count; i++)
		if (authority->round[i].has_grant)
			count = insert_sorted(workers, count, authority->round[i].record.worker);
	for (int i = 0; i < authority->outbox_count; i++)
		if (authority->outbox[i].has_grant)
			count = insert_sorted(workers, count, authority->outbox[i].record.worker);
	return count;
}

static IdgenWorkerRange
worker_range(const Round *round)
{
	const Ownership *ownership = &round->tables->ownership;

	return (IdgenWorkerRange) {
		.first = round->world->config.first_worker,
		.last = round->world->config.last_worker,
		.modulus = ownership->modulus,
		.remainder = ownership->remainder,
	};
}

/* The free one whose reservation ends first; -1 if none was ever used. */
static int32_t
earliest_worker(const Round *round, const IdgenWorkerRange *range)
{
	int64_t		held[2 * WORKERS_MAX];
	size_t		held_count = add_held(round, held, 0);
	IdgenWorkerMark marks[WORKERS_MAX];
	size_t		count = 0;

	for (int64_t worker = 0; worker < round->tables->worker_count; worker++)
		if (round->tables->marks[worker].is_used)
			marks[count++] = (IdgenWorkerMark) {
				.worker = worker,
				.high_water = round->tables->marks[worker].high_water
			};
	return (int32_t) idgen_worker_earliest(range, marks, count, held, held_count);
}

static int32_t
choose_worker(const Round *round)
{
	IdgenWorkerRange range = worker_range(round);
	int64_t		busy[2 * WORKERS_MAX];
	size_t		count = 0;
	int64_t		chosen;

	for (int64_t i = 0; i < round->tables->worker_count; i++)
		if (round->tables->marks[i].is_used &&
			round->tables->marks[i].high_water > round->now)
			busy[count++] = i;
	count = add_held(round, busy, count);
	chosen = idgen_worker_choose(&range, busy, count,
								 random_next(&round->world->random));
	return chosen >= 0 ? (int32_t) chosen : earliest_worker(round, &range);
}

/* Is a grant for this cursor on its way? */
static bool
is_pending(const Round *round, int slot, int64_t generation)
{
	const Authority *authority = round->authority;

	for (int i = 0; i < authority->outbox_count; i++)
		if (authority->outbox[i].slot == slot &&
			authority->outbox[i].generation == generation)
			return true;
	return false;
}

static bool
is_due(const Round *round, const Slot *slot)
{
	const Config *config = &round->world->config;

	return slot->locked_by < 0 &&
		round->now >=
		idgen_grant_due_along(idgen_cursor_granted_end(&slot->cursor), config->length,
							  config->horizon, config->run_ahead);
}

static void
extend_cursor(const Round *round, int at)
{
	const Slot *slot = &round->server->slots[at];
	IdgenGrantVerdict verdict;
	Pending    *pending;

	if (round->tables->marks[slot->worker].incarnation != slot->incarnation)
	{
		server_kill_slot(round->server, at);
		return;
	}
	pending = decide(round, slot->worker, round->now, &verdict);
	if (pending == NULL)
		return;
	pending->slot = at;
	pending->generation = slot->generation;
	pending->record.incarnation = slot->incarnation;
}

/* Free what is dead, take what is free; -1 if the pool is full. */
static int
reserve_slot(const Round *round)
{
	for (int i = 0; i < SLOTS; i++)
	{
		Slot	   *slot = &round->server->slots[i];

		if (slot->state == SLOT_DEAD && slot->locked_by < 0)
			slot->state = SLOT_FREE;
		if (slot->state != SLOT_FREE)
			continue;
		slot->state = SLOT_RESERVED;
		slot->database = round->database;
		slot->uuid = round->tables->ownership.uuid;
		slot->given_generation = 0;
		return i;
	}
	return -1;
}

static void
open_cursor(const Round *round)
{
	const Config *config = &round->world->config;
	int64_t		eligible = round->now;
	int32_t		worker = choose_worker(round);
	IdgenGrantVerdict verdict;
	Pending    *pending;
	int			slot;

	if (config->max_workers == 1)
		eligible = idgen_grant_ordered_start(round->now, config->run_ahead,
											 tables_highest_mark(round->tables));
	if (worker < 0)
		return;
	pending = decide(round, worker, eligible, &verdict);
	if (pending == NULL)
		return;
	slot = reserve_slot(round);
	if (slot < 0)
	{
		round->authority->round_count--;
		return;
	}
	pending->slot = slot;
	pending->record.is_fresh = true;
	pending->record.incarnation = world_number(round->world);
}

static void
decide_cursors(const Round *round)
{
	int			cursor_count = 0;
	int			seen = -1;
	bool		is_wanted = false;
	bool		is_opening = false;

	for (int i = 0; i < SLOTS; i++)
	{
		const Slot *slot = &round->server->slots[i];

		if (slot->database != round->database ||
			slot->uuid != round->tables->ownership.uuid)
			continue;
		is_opening |= slot->state == SLOT_RESERVED;
		if (slot->state != SLOT_ACTIVE)
			continue;
		cursor_count++;
		if (is_due(round, slot) && !is_pending(round, i, slot->given_generation))
			extend_cursor(round, i);
	}
	for (int i = 0; i < round->authority->wish_count; i++)
	{
		is_wanted = true;
		seen = (int) max_of(seen, round->authority->wishes[i].cursors_seen);
	}
	if (is_opening)
		return;
	if (cursor_count == 0 ? is_wanted :
		cursor_count <= seen && cursor_count < round->world->config.max_workers)
		open_cursor(round);
}

/* ---- external generators ---- */

static void
answer(const Round *round, const Asked *asked, Outcome outcome)
{
	Pending    *pending = add_pending(round);

	pending->answer = (Answer) {.asked = *asked, .outcome = outcome};
}

/* Make a grant decided for an external generator its answer. */
static void
answer_granted(Pending *pending, const Asked *asked)
{
	pending->record.is_external = true;
	pending->answer = (Answer) {
		.asked = *asked,
		.outcome = OUTCOME_GRANTED,
		.worker = pending->record.worker,
		.incarnation = pending->record.incarnation,
		.grant_id = pending->record.grant_id,
		.grant = pending->record.grant,
	};
}

static bool
external_worker_left(const Round *round)
{
	IdgenWorkerRange range = worker_range(round);
	int64_t		all = 0;

	for (int64_t i = 0; i < round->tables->worker_count; i++)
		all += round->tables->marks[i].is_external &&
			round->tables->marks[i].high_water > round->now;
	for (int i = 0; i < round->authority->round_count; i++)
		all += round->authority->round[i].record.is_fresh &&
			round->authority->round[i].record.is_external;
	return all < idgen_external_workers_max(idgen_worker_range_size(&range),
											round->world->config.max_workers);
}

static void
decide_activation(const Round *round, const Asked *asked)
{
	IdgenGrantVerdict verdict;
	Pending    *pending = NULL;
	int32_t		worker = -1;

	if (external_worker_left(round))
		worker = choose_worker(round);
	if (worker >= 0)
		pending = decide(round, worker, round->now, &verdict);
	if (pending == NULL)
	{
		answer(round, asked, OUTCOME_RETRY);
		return;
	}
	pending->record.is_fresh = true;
	pending->record.incarnation = world_number(round->world);
	answer_granted(pending, asked);
}

static bool
is_decided(const Round *round, int32_t worker)
{
	for (int i = 0; i < round->authority->round_count; i++)
		if (round->authority->round[i].has_grant &&
			round->authority->round[i].record.worker == worker)
			return true;
	return false;
}

static void
decide_next(const Round *round, const Asked *asked, int32_t worker)
{
	IdgenGrantVerdict verdict;
	Pending    *pending = NULL;

	if (!is_decided(round, worker))
		pending = decide(round, worker, round->now, &verdict);
	if (pending == NULL)
	{
		answer(round, asked, OUTCOME_RETRY);
		return;
	}
	pending->record.incarnation = asked->incarnation;
	pending->record.request = asked->request;
	answer_granted(pending, asked);
}

/* The same grant again; it waits like the first time. */
static void
answer_repeated(const Round *round, const Asked *asked, int32_t worker,
				const GrantRow *last)
{
	Pending    *pending = add_pending(round);

	pending->checked = last->checked;
	pending->answer = (Answer) {
		.asked = *asked,
		.outcome = OUTCOME_GRANTED,
		.worker = worker,
		.incarnation = last->incarnation,
		.grant_id = last->id,
		.grant = last->grant,
	};
}

/* Two holders: the incarnation ends. */
static void
answer_forked(const Round *round, const Asked *asked)
{
	Pending    *pending = add_pending(round);

	world_note(round->world, "incarnation % has two holders", asked->incarnation,
			   0, 0, 0);
	pending->has_end = true;
	pending->record = (Record) {.kind = RECORD_END, .database = round->database,
		.incarnation = asked->incarnation};
	pending->answer = (Answer) {.asked = *asked, .outcome = OUTCOME_AFRESH};
}

static void
decide_acquisition(const Round *round, const Asked *asked)
{
	const IncarnationRow *row = tables_incarnation(round->tables,
												   asked->incarnation);
	const GrantRow *last;
	IdgenChainFacts facts = {.after_grant = asked->after_grant};

	if (row == NULL || !row->is_active || !row->is_external)
	{
		answer(round, asked, OUTCOME_AFRESH);
		return;
	}
	last = tables_last_grant(round->tables, row->worker);
	facts.holds_worker = last != NULL && last->incarnation == row->id &&
		round->tables->marks[row->worker].incarnation == row->id;
	if (facts.holds_worker)
	{
		facts.is_last_request = last->request == asked->request;
		facts.last_grant = last->id;
		facts.is_recorded = tables_recorded(round->tables, row->worker, row->id,
											asked->request);
	}
	switch (idgen_chain_judge(&facts))
	{
		case IDGEN_CHAIN_NEXT:
			decide_next(round, asked, row->worker);
			break;
		case IDGEN_CHAIN_REPEATED:
			answer_repeated(round, asked, row->worker, last);
			break;
		case IDGEN_CHAIN_FORKED:
			answer_forked(round, asked);
			break;
		case IDGEN_CHAIN_STALE:
		case IDGEN_CHAIN_TAKEN:
			answer(round, asked, OUTCOME_AFRESH);
			break;
	}
}

/* The holder gives its worker back. */
static void
deactivate(const Round *round, const Asked *asked)
{
	Pending    *pending = add_pending(round);

	pending->has_end = true;
	pending->record = (Record) {.kind = RECORD_END, .database = round->database,
		.incarnation = asked->incarnation};
	pending->answer = (Answer) {.asked = *asked, .outcome = OUTCOME_DONE};
}

/* Answer every external generator that asks; all the same if "refused". */
static void
decide_externals(const Round *round, bool is_served, Outcome refused)
{
	Server	   *server = round->server;

	for (int i = 0; i < server->asked_count[round->database]; i++)
	{
		const Asked *asked = &server->asked[round->database][i];

		if (!is_served)
			answer(round, asked, refused);
		else if (asked->question == ASK_ACTIVATE)
			decide_activation(round, asked);
		else if (asked->question == ASK_ACQUIRE)
			decide_acquisition(round, asked);
		else
			deactivate(round, asked);
	}
	server->asked_count[round->database] = 0;
}

/* ---- a round ---- */

static void
decide_round(const Round *given)
{
	Round		round = *given;
	Authority  *authority = round.authority;
	Server	   *server = round.server;

	authority->round_count = 0;
	authority->wish_count = server->wish_count[round.database];
	memcpy(authority->wishes, server->wishes[round.database],
		   sizeof(authority->wishes));
	server->wish_count[round.database] = 0;

	/* nothing is stored in a future that may not come, fences least of all */
	if (server_clock_is(round.world, round.at, &round.eligible) ==
		IDGEN_CLOCK_AHEAD && !world_breaks(round.world, BREAK_GRANT_WHEN_AHEAD))
	{
		decide_externals(&round, false, OUTCOME_RETRY);
		return;
	}
	if (operate(&round))
		return;
	if (round.tables->is_dropped)
	{
		authority->is_verified = false;
		decide_externals(&round, false, OUTCOME_RETRY);
		return;
	}
	if (!round.tables->ownership.is_known)
		authority->is_refused = true;
	else if (!authority->is_verified)
		authority->is_verified = verify(&round);
	/* one that changed hands or ended meanwhile looks again, with who asks */
	if (!authority->is_alive)
		return;
	authority->is_damaged = !tables_sums_hold(round.tables) &&
		!world_breaks(round.world, BREAK_ACCEPT_LOWERED_MARK);
	if (authority->is_refused || authority->is_damaged || !authority->is_verified)
	{
		decide_externals(&round, false, authority->is_refused ?
						 OUTCOME_REFUSED : OUTCOME_RETRY);
		return;
	}
	decide_cursors(&round);
	decide_externals(&round, true, OUTCOME_RETRY);
}

/* May what was decided still be written?  The rows are locked and looked at. */
static bool
still_holds(const Round *round, const Pending *pending)
{
	const Ownership *ownership = &round->tables->ownership;

	if (world_breaks(round->world, BREAK_STALE_MARK))
		return true;
	return !round->tables->is_dropped && ownership->is_known &&
		ownership->uuid == pending->uuid && round->tables->marks[pending->record.worker].high_water ==
		pending->expected;
}

/*
 * What an external generator is granted is in the file before it is answered; a
 * bound, so that it is not written for each.
 */
static void
promise(const Round *round, const Record *record)
{
	int64_t	   *promised = &round->server->promised[round->database];

	if (record->kind == RECORD_GRANT && record->is_external &&
		record->grant.end > *promised)
		*promised = record->grant.end + round->world->config.horizon;
}

/* One transaction for the round; what no longer holds drops out. */
static void
commit_round(const Round *round)
{
	static Record records[PENDING_MAX];
	Authority  *authority = round->authority;
	int			kept = 0;
	int			count = 0;

	for (int i = 0; i < authority->round_count; i++)
	{
		Pending    *pending = &authority->round[i];

		if (pending->has_grant && !still_holds(round, pending))
		{
			Slot	   *slot = pending->slot < 0 ? NULL :
				&round->server->slots[pending->slot];

			if (slot != NULL && pending->generation == 0 &&
				slot->state == SLOT_RESERVED && slot->database == round->database)
				slot->state = SLOT_FREE;
			continue;
		}
		if (pending->has_grant || pending->has_end)
			records[count++] = pending->record;
		/* read under the lock that ALTER waits for */
		if (!world_breaks(round->world, BREAK_STALE_POLICY))
			pending->is_quorum = round->tables->policy.is_quorum;
		pending->is_owed = round->tables->policy.is_quorum;
		promise(round, &pending->record);
		authority->round[kept++] = *pending;
	}
	authority->round_count = kept;
	if (count > 0)
		server_commit(round->world, round->at, records, count);
	count = 0;
	for (int i = 0; i < kept; i++)
	{
		Pending    *pending = &authority->round[i];

		if (pending->has_grant || pending->has_end)
			pending->record.checked = records[count++].checked;
		if (pending->has_grant)
			pending->checked = pending->record.checked;
	}
}

/* ---- publication: src/shmem/slot.c ---- */

static void
activate(const Round *round, Slot *slot, const Pending *pending)
{
	const Record *record = &pending->record;

	if (slot->state != SLOT_RESERVED ||
		((slot->database != round->database || slot->uuid != pending->uuid) &&
		 !world_breaks(round->world, BREAK_PUBLISH_ANY_TENURE)))
		return;
	if (slot->locked_by >= 0)
	{
		slot->state = SLOT_FREE;
		return;
	}
	slot->state = SLOT_ACTIVE;
	slot->worker = record->worker;
	slot->incarnation = record->incarnation;
	slot->given_generation = ++round->server->last_generation;
	if (world_breaks(round->world, BREAK_KEEP_CURSOR) && slot->cursor.grant_count > 0)
		slot->cursor.worker = record->worker;
	else
		idgen_cursor_init(&slot->cursor, record->worker);
	(void) idgen_cursor_install(&slot->cursor, &record->grant, 0);
	slot->generation = slot->given_generation;
	round->server->pool_version++;
	checker_handed_out(round->world->checker, record->checked);
}

static void
publish(const Round *round, const Pending *pending)
{
	Slot	   *slot = &round->server->slots[pending->slot];
	IdgenInstallCode code;

	if (pending->generation == 0)
	{
		activate(round, slot, pending);
		return;
	}
	if (slot->locked_by >= 0 ||
		(slot->generation != pending->generation &&
		 !world_breaks(round->world, BREAK_PUBLISH_ANY_TENURE)))
		return;
	code = idgen_cursor_install(&slot->cursor, &pending->record.grant, round->now);
	if (code == IDGEN_INSTALL_ADDED || code == IDGEN_INSTALL_MERGED)
		checker_handed_out(round->world->checker, pending->record.checked);
}

/* Up to where enough standbys have flushed; logical receivers do not count. */
static int64_t
confirmed_position(World *world, const Server *server)
{
	IdgenStandby standbys[SERVERS_MAX + 1];
	int32_t		count = 0;

	for (int i = 0; i < world->server_count; i++)
		if (server->known[i].is_connected && server->known[i].is_physical)
			standbys[count++] = (IdgenStandby) {i + 2,
			(uint64_t) server->known[i].flushed};
	if (world_breaks(world, BREAK_COUNT_LOGICAL))
		standbys[count++] = (IdgenStandby) {1, (uint64_t) server->log.count};
	return (int64_t) idgen_quorum_position(standbys, count, world->config.quorum,
										   world->config.by_priority);
}

static bool
is_durable(World *world, const Pending *pending, int64_t confirmed)
{
	if (!pending->is_quorum || pending->position <= confirmed ||
		world_breaks(world, BREAK_ANSWER_UNCONFIRMED))
		return true;
	return world_breaks(world, BREAK_REPEAT_UNCONFIRMED) && !pending->has_grant &&
		pending->slot < 0;
}

int64_t
authority_confirmed(World *world, int at)
{
	return world->config.quorum == 0 ? 0 : confirmed_position(world, server_of(world, at));
}

/* Hand out what is durable. */
static void
deliver(const Round *round)
{
	Authority  *authority = round->authority;
	int64_t		confirmed = round->world->config.quorum == 0 ? 0 :
		confirmed_position(round->world, round->server);
	int			kept = 0;

	round->server->confirmed = max_of(round->server->confirmed, confirmed);
	for (int i = 0; i < authority->outbox_count; i++)
	{
		Pending    *pending = &authority->outbox[i];

		if (!is_durable(round->world, pending, confirmed))
		{
			authority->outbox[kept++] = *pending;
			continue;
		}
		if (pending->slot >= 0)
		{
			publish(round, pending);
			continue;
		}
		/* the answer again, when the namespace has left quorum */
		if (pending->checked >= 0 && !pending->is_owed)
			checker_forgive_copies(round->world->checker, pending->checked);
		if (pending->checked >= 0)
			checker_handed_out(round->world->checker, pending->checked);
		network_answer(round->world, round->at, &pending->answer);
	}
	authority->outbox_count = kept;
}

/* Confirmations have come. */
void
authority_deliver(World *world, int at, int database)
{
	Round		round = round_of(world, at, database);

	if (round.authority->is_alive &&
		round.authority->paused_until_us <= world->now_us)
		deliver(&round);
}

/* What was committed waits in the outbox for its position. */
static void
send_round(const Round *round)
{
	Authority  *authority = round->authority;

	for (int i = 0; i < authority->round_count; i++)
	{
		Pending    *pending = &authority->round[i];

		/* what only says no need not wait */
		pending->position = pending->has_grant || pending->has_end ||
			pending->checked >= 0 ? round->server->log.count : 0;
		if (authority->outbox_count < PENDING_MAX)
			authority->outbox[authority->outbox_count++] = *pending;
	}
	authority->round_count = 0;
	deliver(round);
	for (int i = 0; i < authority->wish_count; i++)
		session_answer(round->world, round->at, round->database,
					   authority->wishes[i].session, authority->wishes[i].ticket);
	authority->wish_count = 0;
}

/* ---- the process ---- */

static void authority_step(World *world, int who, int64_t life);

static void
step_after(const Round *round, int64_t pause_us)
{
	world_at(round->world, round->world->now_us + pause_us, authority_step,
			 round->at * DATABASES + round->database, round->authority->life);
}

/* A step takes a moment; now and then a disk or a lock makes it long. */
static int64_t
moment(World *world, int64_t least_us, int64_t most_us)
{
	if (!world->is_over && !world->config.scale && world_one_in(world, 25))
		return world_between(world, MS, 200 * MS);
	return world_between(world, least_us, most_us);
}

/* Something may happen to the process between two steps. */
static bool
meets_fate(const Round *round)
{
	World	   *world = round->world;

	if (world->is_over || world->config.scale)
		return false;
	if (world_one_in(world, 1500))
	{
		authority_crash(world, round->at, round->database);
		return true;
	}
	if (world_one_in(world, 300))
		round->authority->paused_until_us = world->now_us +
			world_between(world, MS, 2 * SECOND);
	return false;
}

static void
authority_step(World *world, int who, int64_t life)
{
	Round		round = round_of(world, who / DATABASES, who % DATABASES);
	Authority  *authority = round.authority;

	if (!authority->is_alive || authority->life != life || meets_fate(&round))
		return;
	if (authority->paused_until_us > world->now_us)
	{
		step_after(&round, authority->paused_until_us - world->now_us);
		return;
	}
	switch (authority->phase)
	{
		case AUTHORITY_RESTS:
			if (!round.server->may_grant)
			{
				step_after(&round, 100 * MS);
				return;
			}
			decide_round(&round);
			authority->phase = AUTHORITY_DECIDED;
			if (world_breaks(world, BREAK_PUBLISH_BEFORE_COMMIT))
				for (int i = 0; i < authority->round_count; i++)
					if (authority->round[i].slot >= 0 &&
						authority->round[i].generation != 0)
						(void) idgen_cursor_install(&round.server->slots[authority->round[i].slot].cursor,
													&authority->round[i].record.grant,
													round.now);
			step_after(&round, moment(world, 20, 300));
			break;
		case AUTHORITY_DECIDED:
			commit_round(&round);
			authority->phase = AUTHORITY_COMMITTED;
			step_after(&round, moment(world, 100, 2 * MS));
			break;
		case AUTHORITY_COMMITTED:
			send_round(&round);
			authority->phase = AUTHORITY_RESTS;
			step_after(&round, world_between(world, 3 * MS, 12 * MS));
			break;
	}
}

/* Start the authority process of a database, unless there is one. */
void
authority_start(World *world, int at, int database)
{
	Round		round = round_of(world, at, database);
	Authority  *authority = round.authority;
	Pending    *memory[] = {authority->round, authority->outbox};
	int64_t		life = authority->life + 1;

	if (authority->is_alive || !round.server->is_running)
		return;
	memset(authority, 0, sizeof(*authority));
	authority->round = memory[0];
	authority->outbox = memory[1];
	authority->life = life;
	authority->is_alive = true;
	for (int i = 0; i < SLOTS; i++)
		if (round.server->slots[i].state == SLOT_RESERVED &&
			round.server->slots[i].database == database)
			round.server->slots[i].state = SLOT_FREE;
	step_after(&round, world_between(world, MS, 30 * MS));
}

void
authority_crash(World *world, int at, int database)
{
	Round		round = round_of(world, at, database);

	if (!round.authority->is_alive)
		return;
	world_note(world, "the authority of % (%) ends", at, database, 0, 0);
	round.authority->is_alive = false;
	round.authority->outbox_count = 0;
	round.authority->round_count = 0;
}
