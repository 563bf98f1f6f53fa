/*
 * server.h
 *		A PostgreSQL server: its disk, its shared memory, its standbys.
 *
 * A server is a primary, a standby of another, or down.  A crash loses what is
 * in shared memory and every process; the disk stays.  Promotion, recovery to a
 * point in time and copying make other servers of the same authority.
 */
#ifndef IDGEN_SIM_SERVER_H
#define IDGEN_SIM_SERVER_H

#include "cursor.h"
#include "network.h"
#include "clock.h"
#include "tables.h"
#include "world.h"

#define SLOTS			12
#define SESSIONS_MAX	8
#define TIMELINES_MAX	16
#define REFS_MAX		8

typedef enum SlotState
{
	SLOT_FREE,
	SLOT_RESERVED,
	SLOT_ACTIVE,
	SLOT_DEAD
} SlotState;

typedef struct Slot
{
	SlotState	state;
	int			database;
	int64_t		uuid;			/* of the namespace */
	int32_t		worker;
	int64_t		incarnation;
	int64_t		given_generation;	/* of the directory */
	int64_t		generation;			/* who may issue; 0 = nobody */
	int			locked_by;		/* a session; -1 = nobody */
	IdgenCursor cursor;
} Slot;

/* One line of a timeline's history. */
typedef struct Ancestor
{
	uint32_t	timeline;
	bool		has_target;
} Ancestor;

/* A history file in pg_wal, as a server can read it. */
typedef struct HistoryFile
{
	uint32_t	timeline;
	bool		is_readable;
	int64_t		changed_ms;		/* ctime, by the clock of that server */
	Ancestor	ancestors[TIMELINES_MAX];
	int			ancestor_count;
} HistoryFile;

typedef enum Role
{
	ROLE_DOWN,
	ROLE_STANDBY,
	ROLE_PRIMARY
} Role;

/* What a primary knows of a standby that streams from it. */
typedef struct Known
{
	bool		is_connected;
	bool		is_physical;
	int64_t		flushed;
} Known;

/* A grant, or an answer, that waits until it is durable. */
typedef struct Pending
{
	int64_t		position;		/* of the log */
	int			slot;			/* of a cursor; -1 = an answer */
	int64_t		generation;			/* of a cursor that lives; 0 = a fresh one */
	int64_t		uuid;			/* of the namespace when it was decided */
	int64_t		expected;		/* the mark then */
	bool		is_quorum;		/* it waits for standbys */
	bool		is_owed;		/* for the checker: whether it must */
	bool		has_grant;		/* "record" is to be committed */
	bool		has_end;		/* "record" ends an incarnation */
	int32_t		checked;		/* grant that an answer hands out; -1 = none */
	Record		record;
	Answer		answer;
} Pending;

#define PENDING_MAX		1200
#define ASKED_MAX		1200

/* What a session asks of the authority. */
typedef struct Wish
{
	int			session;
	int64_t		ticket;			/* 0 = it does not wait for an answer */
	int			cursors_seen;	/* -1 = no further cursor is wanted */
} Wish;

#define WISHES_MAX		64

/* What an operator asks of the authority. */
typedef enum Operation
{
	OPERATION_NONE,
	OPERATION_FENCE,
	OPERATION_ADOPT,
	OPERATION_END
} Operation;

typedef enum AuthorityPhase
{
	AUTHORITY_RESTS,
	AUTHORITY_DECIDED,			/* what it will commit is in "round" */
	AUTHORITY_COMMITTED			/* and now in the log */
} AuthorityPhase;

/* The authority process of a database; all of it is lost with the process. */
typedef struct Authority
{
	bool		is_alive;
	int64_t		life;
	bool		is_verified;
	bool		is_refused;		/* it is a copy: until adopted */
	bool		is_damaged;		/* its marks do not add up: until fenced */
	AuthorityPhase phase;
	int64_t		paused_until_us;
	Pending    *round;
	int			round_count;
	Pending    *outbox;			/* committed, on its way */
	int			outbox_count;
	Wish		wishes[WISHES_MAX];	/* taken into the round */
	int			wish_count;
} Authority;

/* Where a session stands inside a cursor's lock. */
typedef enum Inside
{
	INSIDE_NOTHING,
	INSIDE_LOCK,
	INSIDE_TIMED,				/* it has read the clock */
	INSIDE_CHECKED,				/* the generation is still the one it knows */
	INSIDE_ISSUED				/* the cursor has moved; the ID has not left */
} Inside;

typedef struct Session
{
	bool		is_alive;
	int64_t		alarm;			/* number of the event it waits for */
	int64_t		paused_until_us;
	int64_t		paused_us;		/* in this call */

	/* --- what it knows of the namespace */
	int64_t		uuid;
	int64_t		pool_version;
	struct
	{
		int			slot;
		int32_t		worker;
		int64_t		generation;
		int64_t		incarnation;	/* for the checker alone */
	}			refs[REFS_MAX];
	int			ref_count;
	int			at;
	int			home;

	/* --- what it issued last */
	int64_t		last_tick;
	int64_t		last_worker;
	int64_t		last_generation;
	int64_t		last_id;		/* the checker's */

	/* --- the call */
	bool		is_calling;
	bool		is_first;		/* pass of the call */
	int64_t		wanted;
	int64_t		until_us;
	int64_t		locked_until_us;
	int64_t		began_after;	/* the server's last ID when it began */
	int64_t		ticket;			/* waits for the authority; 0 = does not */
	int64_t		issued_at_us;	/* last; true time */

	/* --- the pass over the cursors */
	int			tried;
	bool		is_dry;
	bool		is_locked;
	bool		is_spent;
	int64_t		retry_at;

	/* --- the cursor it is in */
	Inside		inside;
	int			index;
	int64_t		now;
	IdgenCursorRun run;
} Session;

typedef struct Server
{
	bool		exists;
	int			machine;
	Role		role;
	bool		is_running;
	bool		may_grant;		/* the operator lets it; else it only issues */
	bool		is_closed;		/* to clients, until the operator has fenced it */
	int64_t		cut_until_us;
	int64_t		starts;			/* ever; shared memory is new at each */
	int64_t		granted_at_us;	/* true time of its last decision */
	int64_t		granted_ahead_us;	/* its clock was then */
	int			life;			/* its number in the contract; of a standby: its
								 * upstream's */
	bool		is_copy;		/* of a data directory */
	bool		has_restore_command;	/* it sees the archive */

	/* --- disk */
	uint64_t	control_inode;
	int64_t		control_birth;
	uint32_t	timeline;
	HistoryFile files[TIMELINES_MAX];	/* pg_wal */
	int			file_count;
	int64_t		promised[DATABASES];	/* in a file, by name; not replicated: until
										 * when what was dropped may be issued */
	Log			log;
	int64_t		branched_at;	/* position of the log where its timeline began */
	Tables		tables[DATABASES];
	IdgenClockRecord saved_clock;

	/* --- replication */
	int			upstream;		/* of a standby */
	int64_t		link_down_until_us;
	Known		known[SERVERS_MAX];	/* of a primary */
	int64_t		confirmed;		/* the furthest position ever confirmed */

	/* --- shared memory */
	Slot		slots[SLOTS];
	int64_t		last_generation;
	int64_t		pool_version;
	int64_t		dropped_uuid[DATABASES];	/* whose cursors are dead since the commit */
	int64_t		directory_until_us;	/* a stopped process holds the directory's lock */
	IdgenClockRecord clock;
	Authority	authorities[DATABASES];
	Session		sessions[DATABASES][SESSIONS_MAX];
	Wish		wishes[DATABASES][WISHES_MAX];
	int			wish_count[DATABASES];
	Asked	   *asked[DATABASES];
	int			asked_count[DATABASES];
	Operation	operation[DATABASES];
	int64_t		operation_arg[DATABASES];
	int64_t		operation_above[DATABASES];
	int64_t		last_id[DATABASES];	/* for the checker: real-time order */
	bool		went_back;		/* its clock did, since it started */
} Server;

extern void server_free(Server *server);
extern int	server_create(World *world);
extern void server_start(World *world, int at);
extern void server_crash(World *world, int at);
extern void server_commit(World *world, int at, Record *records, int count);
extern void server_ask(World *world, int at, const Asked *asked);

extern int64_t server_drop(World *world, int at, int database, bool is_database);
extern void server_create_again(World *world, int at, int64_t database);
extern bool server_copy_template(World *world, int at);
extern const HistoryFile *server_history(const Server *server, uint32_t timeline);

extern int	server_add_standby(World *world, int upstream);
extern bool server_promote(World *world, int at);
extern int	server_recover(World *world, int from);
extern int	server_copy(World *world, int from);
extern bool server_promote_in_place(World *world, int at);
extern bool server_rejoin(World *world, int at);
extern void server_stop_granting(World *world, int at);
extern bool server_may_inherit(const World *world, int at);
extern bool server_is_of_part(const World *world, int at, uint32_t timeline);
extern bool server_fails_over(World *world);

extern void server_kill_slot(Server *server, int slot);
extern void server_kill_namespace(Server *server, int database, int64_t uuid);
extern int64_t server_clock_is(World *world, int at, int64_t *eligible);

static inline Server *
server_of(World *world, int at)
{
	return &world->servers[at];
}

extern void authority_start(World *world, int at, int database);
extern void authority_crash(World *world, int at, int database);
extern int64_t authority_drop_bound(World *world, int at, int database);
extern int64_t authority_promised(World *world, int at, int database);
extern int64_t authority_confirmed(World *world, int at);
extern void authority_deliver(World *world, int at, int database);

extern void session_start(World *world, int at, int database, int session);
extern void session_answer(World *world, int at, int database, int session,
						   int64_t ticket);

#endif							/* IDGEN_SIM_SERVER_H */
