/*
 * main.c
 *		Run seeds, and say what went wrong with which.
 *
 *		sim [N]				N seeds from SEED
 *
 * Environment: SEED, TRACE=1, MUTANT=name (a rule broken), SCALE=1.  The exit
 * status is 1 if a seed failed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "external.h"
#include "faults.h"
#include "server.h"

static const struct
{
	const char *name;
	Break		rule;
}			breaks[] = {
	{"publish_before_commit", BREAK_PUBLISH_BEFORE_COMMIT},
	{"ignore_floor", BREAK_IGNORE_FLOOR},
	{"stale_mark", BREAK_STALE_MARK},
	{"accept_lowered_mark", BREAK_ACCEPT_LOWERED_MARK},
	{"restore_overwrites", BREAK_RESTORE_OVERWRITES},
	{"answer_unconfirmed", BREAK_ANSWER_UNCONFIRMED},
	{"repeat_unconfirmed", BREAK_REPEAT_UNCONFIRMED},
	{"count_logical", BREAK_COUNT_LOGICAL},
	{"publish_any_generation", BREAK_PUBLISH_ANY_TENURE},
	{"issue_any_generation", BREAK_ISSUE_ANY_TENURE},
	{"keep_cursor", BREAK_KEEP_CURSOR},
	{"restart_keeps_cursors", BREAK_RESTART_KEEPS_CURSORS},
	{"field_unchecked", BREAK_FIELD_UNCHECKED},
	{"grant_when_ahead", BREAK_GRANT_WHEN_AHEAD},
	{"adopt_by_itself", BREAK_ADOPT_BY_ITSELF},
	{"skip_verify", BREAK_SKIP_VERIFY},
	{"keep_incarnations", BREAK_KEEP_INCARNATIONS},
	{"wait_for_lock", BREAK_WAIT_FOR_LOCK},
	{"wait_for_grant", BREAK_WAIT_FOR_GRANT},
	{"no_spill_order", BREAK_NO_SPILL_ORDER},
	{"count_ancestors", BREAK_COUNT_ANCESTORS},
	{"horizon_alone", BREAK_HORIZON_ALONE},
	{"database_first", BREAK_DATABASE_FIRST},
	{"promise_of_active", BREAK_PROMISE_OF_ACTIVE},
	{"promise_of_last", BREAK_PROMISE_OF_LAST},
	{"promise_of_retained", BREAK_PROMISE_OF_RETAINED},
	{"promise_of_snapshot", BREAK_PROMISE_OF_SNAPSHOT},
	{"forget_dropped", BREAK_FORGET_DROPPED},
	{"forget_at_crash", BREAK_FORGET_AT_CRASH},
	{"stale_policy", BREAK_STALE_POLICY},
	{"leave_unasked", BREAK_LEAVE_UNASKED},
	{"kill_waits", BREAK_KILL_WAITS},
	{"in_place_anywhere", BREAK_IN_PLACE_ANYWHERE},
};

static Break
find_break(const char *name)
{
	if (name == NULL || *name == '\0')
		return BREAK_NOTHING;
	for (size_t i = 0; i < sizeof(breaks) / sizeof(breaks[0]); i++)
		if (strcmp(breaks[i].name, name) == 0)
			return breaks[i].rule;
	fprintf(stderr, "sim: no rule named %s\n", name);
	exit(2);
}

static int64_t
number_of(const char *name, int64_t otherwise)
{
	const char *text = getenv(name);

	return text == NULL || *text == '\0' ? otherwise : strtoll(text, NULL, 0);
}

/* What a run came to. */
typedef struct Totals
{
	int64_t		ids;
	int64_t		grants;
	int64_t		calls;
	int64_t		failures;
	int64_t		servers;
	int64_t		fences;
	int64_t		excused;
	uint64_t	hash;
	char		fault[400];
} Totals;

static void
run_seed(uint64_t seed, Break broken, bool is_traced, Totals *totals)
{
	Config		config;
	World	   *world;
	int64_t		until_us;
	const char *fault;

	world_config(&config, seed);
	world = world_create(seed, &config, broken, is_traced);
	(void) server_create(world);
	for (int i = 0; i < config.standbys; i++)
		(void) server_add_standby(world, 0);
	for (int i = 0; i < config.externals; i++)
		external_start(world, i);
	faults_begin(world);
	world_run(world, config.faults_until_us);
	faults_end(world);
	until_us = world->now_us + faults_recovery_us(world);
	while (checker_fault(world->checker) == NULL && world->now_us < until_us &&
		   !faults_all_issue(world, false))
		world_run(world, world->now_us + SECOND / 2);
	if (checker_fault(world->checker) == NULL)
		(void) faults_all_issue(world, true);

	fault = checker_fault(world->checker);
	snprintf(totals->fault, sizeof(totals->fault), "%s", fault ? fault : "");
	totals->ids += checker_id_count(world->checker);
	totals->grants += checker_grant_count(world->checker);
	totals->calls += world->calls;
	totals->failures += world->failures;
	totals->servers += world->server_count;
	totals->fences += world->fence_count;
	totals->excused += world->contract.excused;
	totals->hash = world->hash;
	world_free(world);
}

static void
say_config(uint64_t seed)
{
	static const char *const policies[] = {"fence", "split", "trust", "refuse"};
	Config		config;

	world_config(&config, seed);
	printf("# %d|%d|%d bits, ticks of %" PRId64 " ms, epoch %+" PRId64
		   " ms, grants of %" PRId64 " of %" PRId64 " ticks, run_ahead %" PRId64
		   "\n", config.layout.timestamp_bits, config.layout.worker_bits,
		   config.layout.sequence_bits, config.layout.tick_ms,
		   config.layout.epoch_ms - WORLD_BEGINS_MS, config.length,
		   config.horizon, config.run_ahead);
	printf("# %d parts, archive %d, wild %d, quiet %d, altered %d, births %d\n",
		   (int) config.modulus, config.has_archive, config.is_wild,
		   config.is_quiet, config.is_altered, config.has_birth_times);
	printf("# promotion %s, quorum %d of %d, %d cursors, %d sessions, "
		   "%d external generators, clock error %" PRId64 " ms\n",
		   policies[config.promotion], config.quorum, config.standbys,
		   config.max_workers, config.sessions, config.externals,
		   config.clock_error_ms);
}

/* N seeds; stops at the first that fails.  True if none did. */
static bool
run_seeds(uint64_t seed, int64_t count, Break broken, bool is_traced)
{
	Totals		totals = {0};
	clock_t		begun = clock();

	for (int64_t i = 0; i < count; i++)
	{
		uint64_t	present = seed + (uint64_t) i;

		run_seed(present, broken, is_traced, &totals);
		if (totals.fault[0] == '\0')
			continue;
		printf("not ok - seed %" PRIu64 ", number %" PRId64 ": %s\n", present,
			   i + 1, totals.fault);
		say_config(present);
		printf("# replay: make sim SEED=%" PRIu64 " N=1 TRACE=1\n", present);
		return false;
	}
	printf("ok - %" PRId64 " seeds from %" PRIu64 ": %" PRId64 " IDs, %" PRId64
		   " grants, %" PRId64 " calls (%" PRId64 " failed), %" PRId64
		   " servers, %" PRId64 " fences, %" PRId64 " excused, %.1f s\n", count, seed, totals.ids,
		   totals.grants, totals.calls, totals.failures, totals.servers,
		   totals.fences, totals.excused, (double) (clock() - begun) / CLOCKS_PER_SEC);
	printf("# trace hash of the last: %016" PRIx64 "\n", totals.hash);
	return true;
}

/* ---- the scale run ---- */

#define SCALE_GENERATORS	500
#define SCALE_IDS			INT64_C(1000000000)

/* The usual format; 500 generators with 20,000 IDs a second each. */
static void
scale_config(Config *config)
{
	*config = (Config) {
		.layout = {41, 10, 12, WORLD_BEGINS_MS - 5000, 1, 10000},
		.length = 1000,
		.horizon = 10000,
		.last_worker = 1023,
		.modulus = 1,
		.clock_error_ms = 100,
		.max_step_us = SECOND,
		.max_workers = 16,
		.externals = SCALE_GENERATORS,
		.wait_us = SECOND,
		.call_gap_us = 2 * MS,
		.batch = 40,
		.scale = true,
	};
}

static bool
run_scale(uint64_t seed)
{
	Config		config;
	World	   *world;
	clock_t		begun = clock();
	struct rusage usage;
	double		simulated_s;
	const char *fault;

	scale_config(&config);
	world = world_create(seed, &config, BREAK_NOTHING, false);
	(void) server_create(world);
	for (int i = 0; i < config.externals; i++)
		external_start(world, i);
	faults_begin(world);
	while (checker_fault(world->checker) == NULL &&
		   checker_id_count(world->checker) < SCALE_IDS &&
		   world->now_us < 1000 * SECOND)
		world_run(world, world->now_us + SECOND);

	fault = checker_fault(world->checker);
	simulated_s = (double) world->now_us / SECOND;
	getrusage(RUSAGE_SELF, &usage);
	if (fault == NULL && checker_id_count(world->checker) < SCALE_IDS)
		fault = "too few IDs";
	printf("%sok - %d generators, %" PRId64 " IDs, %" PRId64 " grants%s%s\n",
		   fault == NULL ? "" : "not ", SCALE_GENERATORS,
		   checker_id_count(world->checker), checker_grant_count(world->checker),
		   fault == NULL ? "" : ": ", fault == NULL ? "" : fault);
	printf("# %.0f simulated seconds, %.1f million IDs in each; %.1f s of one "
		   "core, %ld MB at most\n", simulated_s,
		   (double) checker_id_count(world->checker) / simulated_s / 1e6,
		   (double) (clock() - begun) / CLOCKS_PER_SEC, usage.ru_maxrss / 1024);
	world_free(world);
	return fault == NULL;
}

int
main(int argc, char **argv)
{
	uint64_t	seed = (uint64_t) number_of("SEED", 1);
	Break		broken = find_break(getenv("MUTANT"));

	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	if (number_of("SCALE", 0) != 0)
		return run_scale(seed) ? 0 : 1;
	return run_seeds(seed, argc > 1 ? strtoll(argv[1], NULL, 0) : 100, broken,
					 number_of("TRACE", 0) != 0) ? 0 : 1;
}
