/*
 * world.h
 *		Time, machines and their clocks, what is configured, what is broken on
 *		purpose, and the record of a run.
 *
 * Everything that happens is an event at a microsecond of true time; nothing
 * else passes time.  Two runs of one seed do the same things in the same order:
 * the trace hash, which every noted event goes into, says so.
 */
#ifndef IDGEN_SIM_WORLD_H
#define IDGEN_SIM_WORLD_H

#include "contract.h"
#include "grant.h"
#include "takeover.h"
#include "layout.h"
#include "random.h"

#define MS				INT64_C(1000)
#define SECOND			(1000 * MS)
#define NEVER			INT64_MAX

#define DATABASES		3		/* the last is born of a template, if at all */
#define MACHINES_MAX	640
#define SERVERS_MAX		24
#define EXTERNALS_MAX	600
#define ARCHIVE_MAX		64

/* Unix time, in ms, at which the world begins. */
#define WORLD_BEGINS_MS	INT64_C(1750000000000)

/* Safety rules that the simulator's own code can be told to break. */
typedef enum Break
{
	BREAK_NOTHING,
	BREAK_PUBLISH_BEFORE_COMMIT,
	BREAK_IGNORE_FLOOR,
	BREAK_STALE_MARK,
	BREAK_ACCEPT_LOWERED_MARK,
	BREAK_RESTORE_OVERWRITES,
	BREAK_ANSWER_UNCONFIRMED,
	BREAK_REPEAT_UNCONFIRMED,
	BREAK_COUNT_LOGICAL,
	BREAK_PUBLISH_ANY_TENURE,
	BREAK_ISSUE_ANY_TENURE,
	BREAK_KEEP_CURSOR,
	BREAK_RESTART_KEEPS_CURSORS,
	BREAK_FIELD_UNCHECKED,
	BREAK_GRANT_WHEN_AHEAD,
	BREAK_ADOPT_BY_ITSELF,
	BREAK_SKIP_VERIFY,
	BREAK_KEEP_INCARNATIONS,
	BREAK_WAIT_FOR_LOCK,
	BREAK_WAIT_FOR_GRANT,
	BREAK_NO_SPILL_ORDER,
	BREAK_COUNT_ANCESTORS,
	BREAK_HORIZON_ALONE,
	BREAK_DATABASE_FIRST,
	BREAK_PROMISE_OF_ACTIVE,
	BREAK_PROMISE_OF_LAST,
	BREAK_PROMISE_OF_RETAINED,
	BREAK_PROMISE_OF_SNAPSHOT,
	BREAK_FORGET_DROPPED,
	BREAK_FORGET_AT_CRASH,
	BREAK_STALE_POLICY,
	BREAK_LEAVE_UNASKED,
	BREAK_KILL_WAITS,
	BREAK_IN_PLACE_ANYWHERE
} Break;

typedef struct Config
{
	IdgenLayout layout;
	int64_t		length;			/* of a grant, in ticks */
	int64_t		horizon;
	int64_t		run_ahead;
	int64_t		first_worker;
	int64_t		last_worker;
	int64_t		clock_error_ms;
	int64_t		max_step_us;
	int			max_workers;	/* cursors of a server and namespace */
	IdgenPromotion promotion;
	bool		copies_fence;	/* idgen.on_copied_authority */
	int64_t		modulus;		/* of "split"; else 1 */
	bool		has_archive;	/* of timelines, common to most servers */
	bool		has_birth_times;	/* files have */
	bool		is_wild;		/* nobody stops old primaries of a part */
	bool		is_quiet;		/* databases but the first are used rarely */
	bool		is_altered;		/* promotion and durability change */
	int			quorum;			/* standbys needed; 0 = durability local */
	bool		by_priority;
	int			standbys;
	int			sessions;		/* per server and database */
	int			externals;
	int64_t		wait_us;		/* idgen.wait_timeout */
	int64_t		call_gap_us;	/* between calls of a generator */
	int64_t		batch;
	int64_t		faults_until_us;
	int64_t		fault_gap_us;
	bool		scale;			/* the scale run: one server, much work */
} Config;

typedef struct Machine
{
	int64_t		offset_us;		/* wall clock - true time */
	int64_t		drift_ppm;
	int64_t		elapsed_lost_us;	/* of the clock that never steps */
	bool		synchronised;

	/* what a grant may rely on, whatever the judge of steps says */
	int64_t		honest_us;		/* offset */
	int64_t		doubt_since_us; /* true time; NEVER = none */
	bool		is_wrong;		/* set far off, to be set right again */
} Machine;

typedef struct World World;
typedef void (*Action) (World *world, int who, int64_t arg);

typedef struct Event
{
	int64_t		at_us;
	uint64_t	number;			/* ties happen in the order they were made */
	Action		action;
	int			who;
	int64_t		arg;
} Event;

struct World
{
	uint64_t	seed;
	Config		config;
	Break		broken;
	Random		random;
	bool		is_traced;
	uint64_t	hash;
	int64_t		now_us;

	Event	   *events;			/* a heap */
	int			event_count;
	int			event_max;
	uint64_t	event_number;

	Machine		machines[MACHINES_MAX];
	Checker    *checker;
	int64_t		last_number;	/* of incarnations, grants, requests, uuids */
	int64_t		calls;			/* ended, one way or the other */
	int64_t		failures;
	bool		is_over;		/* faults have stopped */

	struct Server *servers;		/* SERVERS_MAX */
	int			server_count;
	int			primary;		/* where new connections go; -1 = nowhere */
	Contract	contract;
	struct HistoryFile *archive;	/* ARCHIVE_MAX */
	int			archived_count;
	int64_t		latest_reading_ms;	/* of any clock a grant was decided by */
	struct External *externals; /* EXTERNALS_MAX */
	int64_t		fence_count;
	bool		is_exhausted;	/* the field has ended */
};

extern World *world_create(uint64_t seed, const Config *config, Break broken,
						   bool is_traced);
extern void world_free(World *world);
extern void world_config(Config *config, uint64_t seed);
extern void world_run(World *world, int64_t until_us);
extern void world_at(World *world, int64_t at_us, Action action, int who,
					 int64_t arg);
extern void world_note(World *world, const char *what, int64_t a, int64_t b,
					   int64_t c, int64_t d);

extern int64_t world_wall_us(const World *world, int machine);
extern int64_t world_ahead_us(const World *world, int machine);
extern int64_t world_offset_us(const World *world);
extern int64_t world_elapsed_us(const World *world, int machine);
extern int64_t world_tick(const World *world, int machine);
extern int64_t world_ms_to_ticks(const World *world, int64_t ms);
extern void world_set_clock(World *world, int machine, int64_t offset_us);
extern int64_t world_honest_tick(World *world, int machine);

static inline int64_t
world_number(World *world)
{
	return ++world->last_number;
}

static inline int64_t
world_between(World *world, int64_t low, int64_t high)
{
	return random_between(&world->random, low, high);
}

static inline bool
world_one_in(World *world, int64_t count)
{
	return random_one_in(&world->random, count);
}

static inline bool
world_breaks(const World *world, Break rule)
{
	return world->broken == rule;
}

static inline int64_t
max_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline int64_t
min_of(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

#endif							/* IDGEN_SIM_WORLD_H */
