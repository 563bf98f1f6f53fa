/*
 * step.c
 *		The instructions of the core's cursor step, beside a yardstick that is no
 *		part of the core: a hash of eight bytes.  Runs under callgrind with
 *		--instr-atstart=no.
 */
#include <stdint.h>
#include <stdio.h>

#include <valgrind/callgrind.h>

#include "core/cursor.h"

/* As a busy session has it: many IDs a tick, a grant a second. */
#define STEPS			100000
#define STEPS_PER_TICK	50
#define GRANT_TICKS		1000

#define HASH_SEED		UINT64_C(14695981039346656037)
#define HASH_PRIME		UINT64_C(1099511628211)

static const IdgenLayout layout = {
	.timestamp_bits = 41,.worker_bits = 10,.sequence_bits = 12,
	.tick_ms = 1,.horizon_ms = 10000
};

static uint64_t __attribute__((noinline))
hash(uint64_t value)
{
	uint64_t	result = HASH_SEED;

	for (int i = 0; i < 8; i++)
	{
		/* not to be made one instruction of many bytes */
		__asm__ volatile ("" : "+r" (value));
		result = (result ^ (value & 255)) * HASH_PRIME;
		value >>= 8;
	}
	return result;
}

static uint64_t
hash_all(void)
{
	uint64_t	sum = 0;

	for (uint64_t i = 0; i < STEPS; i++)
		sum ^= hash(i);
	return sum;
}

/* One ID as a backend takes it; not inlined, as its caller is not either. */
static IdgenCursorCode __attribute__((noinline))
step(IdgenCursor *cursor, int64_t now, int64_t *id)
{
	IdgenCursorDemand demand = {.now = now,.count = 1};
	IdgenCursorRun run;
	IdgenCursorCode code = idgen_cursor_issue(cursor, &layout, &demand, &run);

	if (code == IDGEN_CURSOR_ISSUED)
		*id = idgen_layout_assemble(&layout, run.tick, cursor->worker, run.sequence);
	return code;
}

/* Returns the number of IDs that were greater than the one before. */
static int
issue_all(IdgenCursor *cursor)
{
	int64_t		last = 0;
	int			rising = 0;

	for (int64_t i = 0; i < STEPS; i++)
	{
		int64_t		now = i / STEPS_PER_TICK;
		int64_t		id = 0;
		const IdgenGrant grant = {now, now + GRANT_TICKS};

		if (now >= idgen_cursor_granted_end(cursor))
			idgen_cursor_install(cursor, &grant, now);
		if (step(cursor, now, &id) == IDGEN_CURSOR_ISSUED && id > last)
			rising++;
		last = id;
	}
	return rising;
}

int
main(void)
{
	IdgenCursor cursor;
	uint64_t	sum;
	int			rising;

	idgen_cursor_init(&cursor, 5);
	CALLGRIND_START_INSTRUMENTATION;
	CALLGRIND_ZERO_STATS;
	sum = hash_all();
	CALLGRIND_DUMP_STATS_AT("hash");
	rising = issue_all(&cursor);
	CALLGRIND_DUMP_STATS_AT("step");
	CALLGRIND_STOP_INSTRUMENTATION;
	printf("%d rising, sum %llx\n", rising, (unsigned long long) sum);
	return rising == STEPS ? 0 : 1;
}
