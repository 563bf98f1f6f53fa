/*
 * world.c
 *		Events, clocks, and what a seed configures; see world.h.
 */
#include "world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "external.h"
#include "server.h"
#include "clock.h"

/* ---- events ---- */

static bool
before(const Event *a, const Event *b)
{
	return a->at_us != b->at_us ? a->at_us < b->at_us : a->number < b->number;
}

void
world_at(World *world, int64_t at_us, Action action, int who, int64_t arg)
{
	Event		event = {at_us, world->event_number++, action, who, arg};
	int			at = world->event_count++;

	if (world->event_count > world->event_max)
	{
		world->event_max = world->event_max == 0 ? 256 : world->event_max * 2;
		world->events = realloc(world->events,
								(size_t) world->event_max * sizeof(Event));
	}
	if (event.at_us < world->now_us)
		event.at_us = world->now_us;
	while (at > 0 && before(&event, &world->events[(at - 1) / 2]))
	{
		world->events[at] = world->events[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	world->events[at] = event;
}

static Event
next_event(World *world)
{
	Event		first = world->events[0];
	Event		last = world->events[--world->event_count];
	int			at = 0;

	for (;;)
	{
		int			child = 2 * at + 1;

		if (child >= world->event_count)
			break;
		if (child + 1 < world->event_count &&
			before(&world->events[child + 1], &world->events[child]))
			child++;
		if (!before(&world->events[child], &last))
			break;
		world->events[at] = world->events[child];
		at = child;
	}
	world->events[at] = last;
	return first;
}

/* Let things happen until a time, or until something is wrong. */
void
world_run(World *world, int64_t until_us)
{
	while (world->event_count > 0 && world->events[0].at_us <= until_us &&
		   checker_fault(world->checker) == NULL)
	{
		Event		event = next_event(world);

		world->now_us = event.at_us;
		event.action(world, event.who, event.arg);
	}
	if (checker_fault(world->checker) == NULL)
		world->now_us = until_us;
}

static void
hash_number(World *world, int64_t number)
{
	uint64_t	z = world->hash ^ (uint64_t) number;

	z = (z ^ (z >> 32)) * UINT64_C(0x9fb21c651e98df25);
	world->hash = z ^ (z >> 29);
}

/* What is noted is hashed; TRACE shows it.  The numbers mean what "what" says. */
void
world_note(World *world, const char *what, int64_t a, int64_t b, int64_t c,
		   int64_t d)
{
	const int64_t numbers[] = {a, b, c, d};
	const int64_t *number = numbers;

	hash_number(world, world->now_us);
	for (const char *letter = what; *letter != '\0'; letter++)
		hash_number(world, *letter);
	hash_number(world, a);
	hash_number(world, b);
	hash_number(world, c);
	hash_number(world, d);
	if (!world->is_traced)
		return;
	printf("%12.6f  ", (double) world->now_us / 1e6);
	for (; *what != '\0'; what++)
		if (*what == '%')
			printf("%" PRId64, *number++);
		else
			putchar(*what);
	putchar('\n');
}

/* ---- clocks ---- */

int64_t
world_wall_us(const World *world, int machine)
{
	const Machine *m = &world->machines[machine];

	return WORLD_BEGINS_MS * MS + world->now_us + m->offset_us +
		world->now_us / MS * m->drift_ppm / MS;
}

/* How far a clock is ahead of the true time. */
int64_t
world_ahead_us(const World *world, int machine)
{
	return world_wall_us(world, machine) - WORLD_BEGINS_MS * MS - world->now_us;
}

int64_t
world_elapsed_us(const World *world, int machine)
{
	const Machine *m = &world->machines[machine];

	return SECOND + world->now_us - m->elapsed_lost_us +
		world->now_us / MS * m->drift_ppm / MS;
}

int64_t
world_tick(const World *world, int machine)
{
	return idgen_layout_tick_at(&world->config.layout,
								world_wall_us(world, machine) / MS);
}

int64_t
world_ms_to_ticks(const World *world, int64_t ms)
{
	return idgen_layout_ticks_ceil(&world->config.layout, ms);
}

/*
 * Set a clock.  What it may be relied on for rises at once if the step is
 * small, else after as long as the judge of steps waits.  It does not sink: the
 * step back may never have been believed.
 */
void
world_set_clock(World *world, int machine, int64_t offset_us)
{
	Machine    *m = &world->machines[machine];

	world_note(world, "machine % sets its clock by % us", machine,
			   offset_us - m->offset_us, 0, 0);
	m->offset_us = offset_us;
	(void) world_honest_tick(world, machine);
	if (offset_us - m->honest_us <= world->config.max_step_us +
		4 * IDGEN_CLOCK_STEP_NOISE_US)
	{
		m->honest_us = max_of(m->honest_us, offset_us);
		m->doubt_since_us = NEVER;
	}
	else
		m->doubt_since_us = world->now_us;
}

/* The latest tick that a grant may be decided from now, by what is honest. */
int64_t
world_honest_tick(World *world, int machine)
{
	Machine    *m = &world->machines[machine];

	if (m->doubt_since_us != NEVER &&
		world->now_us - m->doubt_since_us >= IDGEN_CLOCK_STEP_STANDS_US * 99 / 100)
	{
		m->honest_us = m->offset_us;
		m->doubt_since_us = NEVER;
	}
	return idgen_layout_tick_at(&world->config.layout,
								(world_wall_us(world, machine) - m->offset_us +
								 m->honest_us + world->config.max_step_us +
								 4 * IDGEN_CLOCK_STEP_NOISE_US) / MS);
}

/* ---- what a seed configures ---- */

/* Formats: usual, tiny, ticks of a second, one value per tick, soon over. */
static void
choose_format(Config *config, Random *random)
{
	IdgenLayout *layout = &config->layout;

	*layout = (IdgenLayout) {41, 10, 12,
		WORLD_BEGINS_MS - 5000, 1, 1000};
	switch (random_between(random, 0, 6))
	{
		case 0:
		case 1:
			break;
		case 2:
		case 3:
			layout->timestamp_bits = 20;
			layout->worker_bits = (int) random_between(random, 3, 4);
			layout->sequence_bits = (int) random_between(random, 1, 2);
			break;
		case 4:
			layout->timestamp_bits = 11;
			layout->worker_bits = 4;
			layout->sequence_bits = 8;
			layout->tick_ms = 1000;
			break;
		case 5:
			layout->timestamp_bits = 20;
			layout->worker_bits = (int) random_between(random, 2, 4);
			layout->sequence_bits = 0;
			break;
		case 6:
			layout->timestamp_bits = 15;
			layout->worker_bits = 4;
			layout->sequence_bits = 4;
			break;
	}
	/* the first ticks, and the time before them */
	if (random_one_in(random, 3))
		layout->epoch_ms = WORLD_BEGINS_MS + random_between(random, -500, 500);
}

static void
choose_lengths(Config *config, Random *random)
{
	int64_t		tick_ms = config->layout.tick_ms;
	int64_t		length_ms = tick_ms * random_between(random, 1, 4);

	if (tick_ms == 1)
		length_ms = random_one_in(random, 4) ? random_between(random, 1, 20) :
			random_between(random, 50, 500);
	config->layout.horizon_ms = max_of(length_ms * random_between(random, 1, 8),
									   tick_ms == 1 ? 20 : 1);
	config->length = idgen_layout_ticks_ceil(&config->layout, length_ms);
	config->horizon = idgen_layout_ticks_ceil(&config->layout,
											  config->layout.horizon_ms);
	config->run_ahead = random_one_in(random, 3) ?
		random_between(random, 0, config->horizon - 1) : 0;
	config->clock_error_ms = random_between(random, 10, 1500);
	config->max_step_us = random_between(random, 100, 2000) * MS;
}

static void
choose_workers(Config *config, Random *random)
{
	int64_t		worker_count = idgen_layout_worker_count(&config->layout);

	config->last_worker = min_of(worker_count - 1, 31);
	if (worker_count >= 8 && random_one_in(random, 3))
		config->first_worker = random_between(random, 0, 3);
	config->max_workers = (int) random_between(random, 1, 4);
	config->promotion = (IdgenPromotion) random_between(random, 0, 3);
	if (config->promotion == IDGEN_PROMOTION_TRUST || random_one_in(random, 4))
	{
		config->standbys = (int) random_between(random, 1, 3);
		config->quorum = (int) random_between(random, 1, config->standbys);
	}
	else
		config->standbys = (int) random_between(random, 0, 3);
	/* as at creation: in fours where there are so many workers */
	config->modulus = config->promotion != IDGEN_PROMOTION_SPLIT ? 1 :
		worker_count >= 8 && random_one_in(random, 2) ? 4 : 2;
	config->is_altered = config->standbys > 0 && config->quorum > 0 &&
		random_one_in(random, 2);
	config->has_birth_times = !random_one_in(random, 5);
	config->is_wild = config->promotion == IDGEN_PROMOTION_SPLIT &&
		random_one_in(random, 2);
	config->is_quiet = random_one_in(random, 3);
	config->by_priority = random_one_in(random, 2);
	config->copies_fence = random_one_in(random, 2);
	config->has_archive = random_one_in(random, 2);
}

void
world_config(Config *config, uint64_t seed)
{
	Random		random = {seed * 7919 + 1};

	memset(config, 0, sizeof(*config));
	choose_format(config, &random);
	choose_lengths(config, &random);
	choose_workers(config, &random);
	config->sessions = (int) random_between(&random, 1, 4);
	config->externals = (int) random_between(&random, 0, 5);
	config->wait_us = random_one_in(&random, 5) ? 0 :
		random_between(&random, 50, 1500) * MS;
	config->call_gap_us = random_one_in(&random, 3) ?
		random_between(&random, 100, 1000) : random_between(&random, 2, 50) * MS;
	config->batch = random_one_in(&random, 3) ? 40 : 3;
	config->faults_until_us = random_between(&random, 4, 30) * SECOND;
	config->fault_gap_us = random_between(&random, 30, 600) * MS;
}

/* Two clocks differ by less than the clock error, drift included. */
int64_t
world_offset_us(const World *world)
{
	int64_t		error_us = world->config.clock_error_ms * MS;

	return max_of(error_us / 3, error_us / 2 - 8 * MS);
}

static void
start_machine(World *world, int machine)
{
	int64_t		most_us = world_offset_us(world);
	Machine    *m = &world->machines[machine];

	m->offset_us = world_between(world, -most_us, most_us);
	m->drift_ppm = world_between(world, -100, 100);
	m->synchronised = !world_one_in(world, 4);
	m->honest_us = m->offset_us;
	m->doubt_since_us = NEVER;
}

World *
world_create(uint64_t seed, const Config *config, Break broken, bool is_traced)
{
	World	   *world = calloc(1, sizeof(*world));
	CheckerFormat format = {
		.timestamp_bits = config->layout.timestamp_bits,
		.worker_bits = config->layout.worker_bits,
		.sequence_bits = config->layout.sequence_bits,
		.exact = !config->scale,
	};

	world->seed = seed;
	world->config = *config;
	world->broken = broken;
	world->is_traced = is_traced;
	world->random.state = seed;
	world->contract.is_split = config->promotion == IDGEN_PROMOTION_SPLIT;
	world->contract.modulus = config->modulus;
	world->contract.fence_us = (config->layout.horizon_ms +
								config->clock_error_ms) * MS;
	world->contract.error_us = config->clock_error_ms * MS;
	world->checker = checker_create(&format, contract_excuses, &world->contract);
	world->servers = calloc(SERVERS_MAX, sizeof(Server));
	world->archive = calloc(ARCHIVE_MAX, sizeof(HistoryFile));
	world->externals = calloc(EXTERNALS_MAX, sizeof(External));
	for (int i = 0; i < MACHINES_MAX; i++)
		start_machine(world, i);
	return world;
}

void
world_free(World *world)
{
	for (int i = 0; i < world->server_count; i++)
		server_free(&world->servers[i]);
	free(world->servers);
	free(world->archive);
	free(world->externals);
	free(world->events);
	checker_free(world->checker);
	free(world);
}
