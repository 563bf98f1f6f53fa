/*
 * cursor_fuzz.c
 *		The input is a script of commands for the cursors of one session: install
 *		a grant, issue, move the clock.
 *
 * The oracle remembers, per cursor, every grant that was taken and the pair
 * issued last, and nothing of how a cursor keeps them.  Each answer is judged by
 * what it promises:
 *
 *	- an issued pair is in a grant, rises, fits its field, and is the earliest;
 *	- a refused call has changed nothing, and says when it can succeed first;
 *	- a grant is refused just where it overlaps what is past or held.
 *
 * What rises within each cursor and differs in the worker between them is
 * unique.  A session that spills from cursor to cursor sees rising IDs.
 */
#include "cursor.h"
#include "fuzz.h"

#define CURSORS_MAX		3
#define COMMANDS_MAX	200
#define GRANTS_MAX		COMMANDS_MAX

typedef struct Held
{
	IdgenGrant	grant;
	bool		given_up;		/* passed by a clock, to make room */
} Held;

typedef struct Oracle
{
	IdgenCursor cursor;
	int			grant_count;
	Held		grants[GRANTS_MAX];
	int64_t		last_tick;
	int64_t		last_sequence;
} Oracle;

typedef struct Script
{
	FuzzInput	input;
	IdgenLayout layout;
	int64_t		base;			/* where on the field all this happens */
	int64_t		now;
	int			cursor_count;
	Oracle		cursors[CURSORS_MAX];
	int			last_cursor;	/* of the session; -1 before its first ID */
	int64_t		last_id;
} Script;

/* The end of the last grant taken; 0 if there is none. */
static int64_t
granted_end(const Oracle *oracle)
{
	return oracle->grant_count > 0 ?
		oracle->grants[oracle->grant_count - 1].grant.end : 0;
}

/* The oldest stretch held was given up: a clock has passed it. */
static void
make_room(Oracle *oracle, const IdgenGrant *oldest, int64_t now)
{
	FUZZ_CHECK(oldest->end <= now);
	for (int i = 0; i < oracle->grant_count; i++)
		if (oracle->grants[i].grant.end <= oldest->end)
			oracle->grants[i].given_up = true;
}

/* How many stretches without a gap have something left to issue. */
static int
stretch_count(const Oracle *oracle)
{
	int			count = 0;
	int64_t		end = -1;

	for (int i = 0; i < oracle->grant_count; i++)
	{
		const IdgenGrant *grant = &oracle->grants[i].grant;

		if (oracle->grants[i].given_up || grant->end <= oracle->last_tick)
			continue;
		count += grant->start != end;
		end = grant->end;
	}
	return count;
}

/* Every tick that may still be issued is held; ends are enough to look at. */
static void
check_held(const Oracle *oracle)
{
	for (int i = 0; i < oracle->grant_count; i++)
	{
		const IdgenGrant *grant = &oracle->grants[i].grant;
		bool		held = false;

		if (oracle->grants[i].given_up || grant->end - 1 <= oracle->last_tick)
			continue;
		for (int32_t j = 0; j < oracle->cursor.grant_count; j++)
			held = held || (grant->start >= oracle->cursor.grants[j].start &&
							grant->end <= oracle->cursor.grants[j].end);
		FUZZ_CHECK(held);
	}
}

static void
install(Script *script, Oracle *oracle)
{
	FuzzInput  *input = &script->input;
	const IdgenCursor before = oracle->cursor;
	const int64_t tick_count = idgen_layout_tick_count(&script->layout);
	/* a grant ends within the field, and a horizon past a clock at most */
	const int64_t limit = tick_count < 2 * IDGEN_UNIX_MS_MAX ?
		tick_count : 2 * IDGEN_UNIX_MS_MAX;
	const int64_t held_end = granted_end(oracle);
	int64_t		start = held_end;
	IdgenGrant	grant;
	IdgenInstallCode code;
	bool		fits;

	/* mostly one that follows, with a gap or without */
	if (oracle->grant_count == 0)
		start = script->base;
	if (fuzz_flag(input))
		start += fuzz_between(input, -4, 12);
	grant.start = start;
	grant.end = start + fuzz_between(input, -1, 20);
	if (fuzz_byte(input) == 255 || grant.end > limit)
		grant.end = limit;

	fits = grant.start < grant.end && grant.start >= 0 &&
		grant.start > oracle->last_tick &&
		(oracle->grant_count == 0 || grant.start >= held_end);
	code = idgen_cursor_install(&oracle->cursor, &grant, script->now);
	FUZZ_CHECK((code == IDGEN_INSTALL_BAD) == !fits);
	switch (code)
	{
		case IDGEN_INSTALL_ADDED:
		case IDGEN_INSTALL_MERGED:
			FUZZ_CHECK((code == IDGEN_INSTALL_MERGED) ==
					   (oracle->grant_count > 0 && grant.start == held_end));
			if (before.grant_count == IDGEN_CURSOR_GRANTS_MAX &&
				code == IDGEN_INSTALL_ADDED)
				make_room(oracle, &before.grants[0], script->now);
			oracle->grants[oracle->grant_count++] = (Held) {.grant = grant};
			break;
		case IDGEN_INSTALL_FULL:
			/* so much is held, and nothing of it is over */
			FUZZ_CHECK(stretch_count(oracle) == IDGEN_CURSOR_GRANTS_MAX);
			FUZZ_CHECK(before.grants[0].end > script->now);
			/* fall through */
		case IDGEN_INSTALL_BAD:
			FUZZ_CHECK(memcmp(&before, &oracle->cursor, sizeof(before)) == 0);
			break;
	}
	FUZZ_CHECK(idgen_cursor_granted_end(&oracle->cursor) == granted_end(oracle));
	FUZZ_CHECK(oracle->cursor.grant_count >= 0 &&
			   oracle->cursor.grant_count <= IDGEN_CURSOR_GRANTS_MAX);
}

/* Has a cursor a grant over a tick? */
static bool
granted(const Oracle *oracle, int64_t tick)
{
	for (int i = 0; i < oracle->grant_count; i++)
		if (tick >= oracle->grants[i].grant.start &&
			tick < oracle->grants[i].grant.end)
			return true;
	return false;
}

/* Where the stretch of ticks without a gap begins that a tick granted is in. */
static int64_t
stretch_start(const Oracle *oracle, int64_t tick)
{
	int64_t		start = tick;

	/* grants ascend, so that one pass from the last to the first is enough */
	for (int i = oracle->grant_count - 1; i >= 0; i--)
	{
		const IdgenGrant *grant = &oracle->grants[i].grant;

		if (start == grant->end || (start >= grant->start && start < grant->end))
			start = grant->start;
	}
	return start;
}

/* Has a tick a pair left? */
static bool
has_room(const Script *script, const Oracle *oracle, int64_t tick)
{
	const int64_t sequence_count = INT64_C(1) << script->layout.sequence_bits;

	if (tick == oracle->last_tick)
		return oracle->last_sequence < sequence_count - 1;
	return tick > 0 || oracle->cursor.worker > 0 || sequence_count > 1;
}

/* The earliest tick to be had, not before "due"; -1 if none. */
static int64_t
earliest(const Script *script, const Oracle *oracle, int64_t due)
{
	int64_t		best = -1;

	for (int i = 0; i < oracle->grant_count; i++)
	{
		const IdgenGrant *grant = &oracle->grants[i].grant;
		int64_t		tick = grant->start > due ? grant->start : due;

		if (oracle->grants[i].given_up)
			continue;
		while (tick < grant->end && !has_room(script, oracle, tick))
			tick++;
		if (tick < grant->end && (best < 0 || tick < best))
			best = tick;
	}
	return best;
}

static int64_t
largest(int64_t a, int64_t b, int64_t c)
{
	const int64_t larger = a > b ? a : b;

	return larger > c ? larger : c;
}

/* A pair was issued to the session. */
static void
check_issued(Script *script, Oracle *oracle, const IdgenCursorDemand *demand,
			 const IdgenCursorRun *run)
{
	const int64_t sequence_count = INT64_C(1) << script->layout.sequence_bits;
	const int64_t due = largest(demand->now, demand->min_tick, oracle->last_tick);
	const int64_t best = earliest(script, oracle, due);
	int64_t		id = -1;

	FUZZ_CHECK(granted(oracle, run->tick));
	FUZZ_CHECK(run->tick >= due);
	FUZZ_CHECK(run->tick == best);
	FUZZ_CHECK(run->tick - demand->now <= demand->run_ahead);
	FUZZ_CHECK(run->count >= 1 && run->count <= demand->count);
	FUZZ_CHECK(run->sequence >= 0 && run->sequence + run->count <= sequence_count);
	/* no value is left out, and not fewer given than there are */
	FUZZ_CHECK(run->sequence == (run->tick == oracle->last_tick ?
								 oracle->last_sequence + 1 :
								 run->tick == 0 && oracle->cursor.worker == 0));
	FUZZ_CHECK(run->count == demand->count ||
			   run->sequence + run->count == sequence_count);

	FUZZ_CHECK(idgen_layout_encode(&script->layout, run->tick,
								   oracle->cursor.worker, run->sequence,
								   &id) == IDGEN_FIT_OK);
	FUZZ_CHECK(id > script->last_id);
	FUZZ_CHECK(idgen_layout_encode(&script->layout, run->tick,
								   oracle->cursor.worker,
								   run->sequence + run->count - 1,
								   &script->last_id) == IDGEN_FIT_OK);
	oracle->last_tick = run->tick;
	oracle->last_sequence = run->sequence + run->count - 1;
	script->last_cursor = (int) (oracle - script->cursors);
}

/* The same call succeeds when the clock is at retry_at, and not before. */
static void
check_retry(const Script *script, const Oracle *oracle,
			const IdgenCursorDemand *demand, const IdgenCursorRun *refused)
{
	IdgenCursor cursor = oracle->cursor;
	IdgenCursorDemand later = *demand;
	IdgenCursorRun run;

	FUZZ_CHECK(refused->retry_at > demand->now);
	later.now = refused->retry_at - 1;
	FUZZ_CHECK(idgen_cursor_issue(&cursor, &script->layout, &later, &run) !=
			   IDGEN_CURSOR_ISSUED);
	later.now = refused->retry_at;
	FUZZ_CHECK(idgen_cursor_issue(&cursor, &script->layout, &later, &run) ==
			   IDGEN_CURSOR_ISSUED);
}

static void
issue(Script *script, Oracle *oracle)
{
	FuzzInput  *input = &script->input;
	const IdgenCursor before = oracle->cursor;
	IdgenCursorDemand demand = {.now = script->now};
	IdgenCursorRun run = {.retry_at = 0};
	IdgenCursorCode code;
	int64_t		due;
	bool		behind;

	demand.run_ahead = fuzz_between(input, 0, 15);
	if (demand.run_ahead > 7)
		demand.run_ahead = 0;
	demand.count = fuzz_number(input, 1, INT64_MAX / 4);
	/* a session goes from cursor to cursor upward, or to the next tick */
	if (script->last_cursor >= 0 &&
		oracle != &script->cursors[script->last_cursor])
	{
		const Oracle *last = &script->cursors[script->last_cursor];

		demand.min_tick = idgen_cursor_spill_tick(oracle->cursor.worker,
												  last->last_tick,
												  last->cursor.worker);
		FUZZ_CHECK(demand.min_tick == last->last_tick +
				   (oracle->cursor.worker < last->cursor.worker));
	}

	FUZZ_CHECK(idgen_cursor_spill_tick(oracle->cursor.worker, 7,
									   oracle->cursor.worker) == 8);

	due = largest(demand.now, demand.min_tick, oracle->last_tick);
	behind = oracle->last_tick >= 0 &&
		oracle->last_tick > demand.now + demand.run_ahead;
	code = idgen_cursor_issue(&oracle->cursor, &script->layout, &demand, &run);
	switch (code)
	{
		case IDGEN_CURSOR_ISSUED:
			check_issued(script, oracle, &demand, &run);
			return;
		case IDGEN_CURSOR_GRANT_ENDED:
			FUZZ_CHECK(earliest(script, oracle, due) < 0);
			break;
		case IDGEN_CURSOR_CLOCK_BEHIND:
			FUZZ_CHECK(behind);
			check_retry(script, oracle, &demand, &run);
			break;
		case IDGEN_CURSOR_NOT_YET_VALID:
		case IDGEN_CURSOR_SEQUENCE_SPENT:
			FUZZ_CHECK(!behind);
			check_retry(script, oracle, &demand, &run);
			FUZZ_CHECK((code == IDGEN_CURSOR_NOT_YET_VALID) ==
					   (stretch_start(oracle, run.retry_at + demand.run_ahead) >
						demand.now + demand.run_ahead));
			break;
	}
	FUZZ_CHECK(memcmp(&before, &oracle->cursor, sizeof(before)) == 0);
}

static void
move_clock(Script *script)
{
	FuzzInput  *input = &script->input;

	switch (fuzz_byte(input) % 4)
	{
		case 0:
			script->now++;
			break;
		case 1:
			script->now += fuzz_between(input, -8, 8);
			break;
		case 2:
			script->now = script->base + fuzz_between(input, -20, 200);
			break;
		case 3:
			script->now = fuzz_number(input, -IDGEN_UNIX_MS_MAX, IDGEN_UNIX_MS_MAX);
			break;
	}
	if (script->now > IDGEN_UNIX_MS_MAX)
		script->now = IDGEN_UNIX_MS_MAX;
	if (script->now < -IDGEN_UNIX_MS_MAX)
		script->now = -IDGEN_UNIX_MS_MAX;
}

static void
begin(Script *script)
{
	FuzzInput  *input = &script->input;
	int64_t		worker_count;
	int64_t		latest;

	script->layout = fuzz_valid_layout(input);
	/* mostly small fields, whose ends are near */
	if (fuzz_byte(input) % 4 > 0)
	{
		script->layout.timestamp_bits = script->layout.timestamp_bits % 8 + 1;
		script->layout.worker_bits %= 3;
		script->layout.sequence_bits %= 4;
	}
	worker_count = idgen_layout_worker_count(&script->layout);
	/* grants lie where a clock can be */
	latest = idgen_layout_tick_count(&script->layout) - 1;
	if (latest > IDGEN_UNIX_MS_MAX / 2)
		latest = IDGEN_UNIX_MS_MAX / 2;
	script->base = fuzz_number(input, 0, latest);
	script->now = script->base;
	script->cursor_count = (int) fuzz_between(input, 1, CURSORS_MAX);
	if (script->cursor_count > worker_count)
		script->cursor_count = (int) worker_count;
	script->last_cursor = -1;
	for (int i = 0; i < script->cursor_count; i++)
	{
		Oracle	   *oracle = &script->cursors[i];

		/* the first workers, or the last */
		idgen_cursor_init(&oracle->cursor,
						  (int32_t) (i % 2 == 0 ? i / 2 : worker_count - 1 - i / 2));
		oracle->last_tick = -1;
		oracle->last_sequence = -1;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Script		script;

	memset(&script, 0, sizeof(script));
	script.input = (FuzzInput) {data, size};
	begin(&script);
	for (int i = 0; i < COMMANDS_MAX && script.input.left > 0; i++)
	{
		const uint8_t command = fuzz_byte(&script.input);
		Oracle	   *oracle = &script.cursors[command / 8 % script.cursor_count];

		switch (command % 8)
		{
			case 0:
			case 1:
				install(&script, oracle);
				break;
			case 2:
				move_clock(&script);
				break;
			default:
				issue(&script, oracle);
				break;
		}
		check_held(oracle);
	}
	return 0;
}
