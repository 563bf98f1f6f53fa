/*
 * grants.pml
 *		The grant protocol: one namespace, the server that is its authority, the
 *		standbys that inherit it, and who issues from its grants.
 *
 * README.md beside this file says which function each step stands for, what is
 * left out and why that is sound.  The words are those of doc/design.md.
 *
 * Every step is atomic, and what a server has in memory may be lost after any.
 * Every step uses up something that is bounded: time, a worker's ticks, a request,
 * a fault.  So every run ends, and what must have happened by then is asserted
 * where nothing can go on.
 */

/* --------------------------------------------------------------------
 * What is checked: one policy, one durability, at most one rule broken
 * -------------------------------------------------------------------- */

#define FENCE	1
#define SPLIT	2
#define TRUST	3

#ifndef POLICY
#define POLICY	FENCE
#endif
#ifndef QUORUM
#define QUORUM	0
#endif
#ifndef EXTERNALS
#define EXTERNALS	1			/* external generators, 1 or 2 */
#endif
#ifndef CURSORS
#define CURSORS		1			/* does a server issue by itself? */
#endif

/* --------------------------------------------------------------------
 * How large
 * -------------------------------------------------------------------- */

#ifndef LAST_NOW
#define LAST_NOW	3			/* the true time ends here */
#endif
#ifndef REQUESTS
#define REQUESTS	2			/* of one external generator */
#endif
#ifndef GRANTS
#define GRANTS		3			/* of all holders together */
#endif
#ifndef FAULTS
#define FAULTS		3			/* lost answers, crashes, failovers, forks together */
#endif

#ifndef HORIZON
#define HORIZON		2
#endif
#ifndef LENGTH
#define LENGTH		2			/* of a grant; the horizon cuts some shorter */
#endif
#ifndef CLOCK_ERROR
#define CLOCK_ERROR	1
#endif
#define DISTANCE	(HORIZON + CLOCK_ERROR)		/* N of doc/design.md */

#define SERVERS		3			/* each the standby of the one before it; its number is that
								 * of its timeline, - 1 */
#define PARTS		2			/* m of doc/design.md */

/* --------------------------------------------------------------------
 * State
 * -------------------------------------------------------------------- */

/* A worker, as flushed on one server: idgen_worker and its last idgen_grant. */
typedef Worker
{
	unsigned mark : 4;			/* high_water: the end of the last grant */
	unsigned start : 4;			/* of the last grant */
	unsigned request : 4;		/* which that answered; 0 = it had no id */
	unsigned holder : 4			/* its incarnation; 0 = none, or ended */
}

/* The grant that is decided and not flushed. */
#define NOBODY		0
#define EXTERNAL	1			/* + the number of the external generator */
typedef Round
{
	unsigned target : 2;
	unsigned worker : 1;
	unsigned start : 4;
	unsigned end : 4;
	unsigned incarnation : 4;
	unsigned request : 4
}

/* The server's own cursor, with a flushed grant that waits to be published. */
typedef Cursor
{
	unsigned incarnation : 4;	/* 0 = there is no cursor */
	unsigned worker : 1;
	unsigned waiting : 1;
	unsigned start : 4;
	unsigned end : 4
}

#define EMPTY	0				/* no base backup yet */
#define STANDBY	1
#define UP		2
#define DEAD	3
typedef Server
{
	unsigned role : 2;
	/* on disk */
	unsigned floor : 4;
	unsigned timeline : 2;		/* of the recorded identity */
	unsigned recorded_at : 4;	/* when it was recorded */
#if POLICY == SPLIT
	unsigned known_at : 3;		/* ctime of a history file, of its own timeline or its
								 * parent's, + 1; 0 = there is none */
	unsigned cut : 1;			/* its history does not lead back to the record */
#ifdef OLD_RULE
	unsigned part : 1;
#endif
#endif
	unsigned behind : 1;		/* its standby lacks something */
	Worker worker[2];
	/* in memory */
	Round round;
	Cursor cursor
}
Server server[SERVERS];

#define IDLE		0
#define ASKED		1			/* not answered, and no server is working on it */
#define DECIDED		2
#define FLUSHED		3			/* on record, the answer is still to come */
typedef External
{
	unsigned incarnation : 4;	/* 0 = none */
	unsigned worker : 1;
	unsigned last : 4;			/* end of its last grant, which names that grant */
	unsigned request : 2;		/* number of the latest request */
	unsigned state : 2;			/* of that request */
	/* the answer to come */
	unsigned server : 2;
	unsigned confirmed : 1;
	unsigned fresh : 4;			/* incarnation */
	unsigned on : 1;			/* worker */
	unsigned start : 4;
	unsigned end : 4
}
External external[EXTERNALS];

#define REQUEST_ID(p)	((p) * 4 + external[p].request)

typedef World
{
	unsigned now : 3;			/* the true time, in ticks */
	unsigned grants : 3;		/* decided so far */
	unsigned faults : 3;		/* so far */
	/* what no server knows */
	unsigned forked : 4;		/* an incarnation that two processes hold */
	unsigned heir : 2;			/* which of them got a grant since, + 1 */
	unsigned late_end : 4		/* end of what a server granted after its standby's
								 * promotion */
}
World world;
byte granted[2];				/* ticks of each worker that were handed out, as bits */

/*
 * Not state.  Choices are made in the atomic part of a step, which is undone; the
 * others are set before use within one d_step.
 */
hidden byte clock;
hidden byte choice;
hidden byte w;
hidden byte limit;
hidden byte first;
hidden byte last;
hidden byte who;
hidden byte fresh;
hidden byte begun;
hidden short used;

/* --------------------------------------------------------------------
 * What must hold
 * -------------------------------------------------------------------- */

#define TICKS(start, end)	((1 << (end)) - (1 << (start)))

/* A grant reaches the one who issues from it, process p. */
inline hand_out(s, worker_, start_, end_, incarnation_, p)
{
	printf("@%d server %d hands out worker %d [%d,%d) of incarnation %d to %d\n",
		world.now, s, worker_, start_, end_, incarnation_, p);
#ifndef UNIQUE_ONLY
	/* S1, S4: it is durable */
	assert(server[s].worker[worker_].mark >= end_);
#if QUORUM
	assert(s == SERVERS - 1 || server[s + 1].worker[worker_].mark >= end_);
#endif
#endif
	/* S1, S2: nobody else can issue any of it */
	assert((granted[worker_] & TICKS(start_, end_)) == 0);
	granted[worker_] = granted[worker_] | TICKS(start_, end_);
	/* of two processes with one incarnation, one at most goes on */
	if
	:: world.forked != 0 && incarnation_ == world.forked ->
		assert(world.heir == 0 || world.heir == p + 1);
		world.heir = p + 1
	:: else
	fi
}

/* --------------------------------------------------------------------
 * Small things
 * -------------------------------------------------------------------- */

#define MAX(a, b)	((a) > (b) -> (a) : (b))
#define MIN(a, b)	((a) < (b) -> (a) : (b))

/*
 * A server reads its clock.  Time passes here, since nobody else sees it, and where
 * the world waits for it (Faults).  Readings are ahead by the clock error at most.
 */
inline read_clock()
{
	do
	:: world.now < LAST_NOW -> world.now++
	:: break
	od;
	if
	:: clock = world.now
	:: clock = world.now + CLOCK_ERROR
	fi
}

/* A worker of the server's own part; which one is no matter of safety. */
#if POLICY == SPLIT && defined(OLD_RULE)
#define CHOOSE_WORKER(s)	choice = server[s].part
#elif POLICY == SPLIT && !defined(NO_PARTS)
#define CHOOSE_WORKER(s)	choice = server[s].timeline % PARTS
#else
/* As long as nobody has used either, both are alike. */
#define USED(s)	\
	(server[s].worker[0].mark != 0 || server[s].worker[1].mark != 0 ||	\
	 server[s].round.target != NOBODY)
#define ANY_USED	(granted[0] != 0 || granted[1] != 0 || USED(0) || USED(1) || USED(2))
#define CHOOSE_WORKER(s)	\
	if	\
	:: choice = 0	\
	:: ANY_USED -> choice = 1	\
	fi
#endif

/* The number of a fresh incarnation: one that nothing in this state names. */
#define USES(incarnation_)	used = used | (1 << (incarnation_))
inline make_number()
{
	used = 1 | (1 << world.forked);
	USES(server[0].worker[0].holder);
	USES(server[0].worker[1].holder);
	USES(server[1].worker[0].holder);
	USES(server[1].worker[1].holder);
	USES(server[2].worker[0].holder);
	USES(server[2].worker[1].holder);
	USES(server[0].round.incarnation);
	USES(server[1].round.incarnation);
	USES(server[2].round.incarnation);
	USES(server[0].cursor.incarnation);
	USES(server[1].cursor.incarnation);
	USES(server[2].cursor.incarnation);
	USES(external[0].incarnation);
	USES(external[0].fresh);
#if EXTERNALS > 1
	USES(external[1].incarnation);
	USES(external[1].fresh);
#endif
	fresh = 1;
	do
	:: used & (1 << fresh) -> fresh++
	:: else -> break
	od
}

/* The interval rule: [first, last) of worker w; nothing if first >= limit. */
inline decide(s)
{
#ifdef LEASE
	/* a worker until an expiry, renewable, and free when that has passed here */
	last = clock + LENGTH;
	first = last - 1;
	limit = (server[s].worker[w].mark <= clock ||
		(external[who].incarnation != 0 && server[s].worker[w].holder == external[who].incarnation) -> last : 0)
#else
	limit = clock + HORIZON;
	first = MAX(MAX(server[s].worker[w].mark, server[s].floor), clock);
	last = MIN(first + LENGTH, limit)
#endif
}

#define GRANTABLE	(first < limit && world.grants < GRANTS)

/* A grant is decided: what no server knows of it. */
inline note_grant(s)
{
	world.grants++;
#if POLICY == SPLIT
	if
	:: s < SERVERS - 1 && server[s + 1].role >= UP -> world.late_end = MAX(world.late_end, last)
	:: else
	fi
#endif
}

inline begin_round(s, target_, incarnation_, request_)
{
	note_grant(s);
	printf("@%d server %d (clock %d) decides worker %d [%d,%d) of incarnation %d for %d\n",
		world.now, s, clock, w, first, last, incarnation_, target_);
	server[s].round.target = target_;
	server[s].round.worker = w;
	server[s].round.start = first;
	server[s].round.end = last;
	server[s].round.incarnation = incarnation_;
	server[s].round.request = request_
}

inline end_round(s)
{
	server[s].round.target = NOBODY;
	server[s].round.worker = 0;
	server[s].round.start = 0;
	server[s].round.end = 0;
	server[s].round.incarnation = 0;
	server[s].round.request = 0
}

inline end_waiting(s)
{
	server[s].cursor.waiting = 0;
	server[s].cursor.start = 0;
	server[s].cursor.end = 0
}

inline kill_cursor(s)
{
	server[s].cursor.incarnation = 0;
	server[s].cursor.worker = 0;
	end_waiting(s)
}

inline close_request(p, state_)
{
	external[p].state = state_;
	external[p].server = 0;
	external[p].confirmed = 0;
	external[p].fresh = 0;
	external[p].on = 0;
	external[p].start = 0;
	external[p].end = 0
}

inline forget_incarnation(p)
{
	external[p].incarnation = 0;
	external[p].worker = 0;
	external[p].last = 0
}

inline end_incarnation(s, worker_)
{
	server[s].worker[worker_].holder = 0;
	server[s].worker[worker_].request = 0;
	server[s].worker[worker_].start = 0
}

/* --------------------------------------------------------------------
 * The authority of one server
 * -------------------------------------------------------------------- */

/* Verified, and no round under way. */
#define READY(s)	\
	(server[s].role == UP && server[s].timeline == s && server[s].round.target == NOBODY)

#ifdef NO_CLOCK_ERROR
#define FENCE_DISTANCE	HORIZON
#else
#define FENCE_DISTANCE	DISTANCE
#endif

#if POLICY == SPLIT
#ifdef H_FOR_N
#define LONG	HORIZON
#else
#define LONG	DISTANCE
#endif
/* The first timeline whose begin tells that nobody uses the part any more. */
#ifdef EARLIER_EVIDENCE
#define TELLS(s, timeline_)	((timeline_) + PARTS >= (s))
#else
#define TELLS(s, timeline_)	((timeline_) + PARTS > (s))
#endif

/* When, + 1, a timeline had begun that tells; 0 = it is not known, or not N ago. */
inline find_begun(s)
{
	begun = 0;
	if
	:: TELLS(s, server[s].timeline) && clock >= server[s].recorded_at + LONG ->
		begun = server[s].recorded_at + 1
	:: else
	fi;
	if
	:: server[s].known_at != 0 && clock + 1 >= server[s].known_at + LONG ->
		begun = MAX(begun, server[s].known_at)
	:: else
	fi
}

inline verify_split(s)
{
	find_begun(s);
	if
#ifdef OLD_RULE
	/* the plain successor of the one on record, which is old; by what is readable */
	:: (server[s].timeline == s - 1 && (s == 1 || server[s].cut || clock >= server[s].recorded_at + DISTANCE))
#elif defined(NO_EVIDENCE)
	:: !server[s].cut
#else
	:: !server[s].cut && (s < PARTS || begun != 0)
#endif
		->
#ifndef NO_FLOOR_AT_ONCE
		/* it has passed, but the next reading may be before it again */
		server[s].floor = MAX(server[s].floor, (s < PARTS || begun == 0 -> 0 : begun - 1 + LONG))
#else
		skip
#endif
	:: else -> server[s].floor = limit
	fi;
#ifdef OLD_RULE
	server[s].part = (server[s].cut -> 1 : s % 2);
#endif
	server[s].cut = 0;
	server[s].known_at = 0
}
#endif

/* The first round of its life on another timeline. */
inline verify(s)
{
	limit = MAX(MAX(server[s].worker[0].mark, server[s].worker[1].mark), server[s].floor);
	limit = (limit > HORIZON -> limit - HORIZON : 0);
	limit = MAX(clock, limit) + FENCE_DISTANCE;
#if defined(NO_FENCE) || POLICY == TRUST
	skip;
#elif POLICY == SPLIT
	verify_split(s);
#else
	server[s].floor = limit;
#endif
	printf("@%d server %d (clock %d) takes over, floor %d\n", world.now, s, clock,
		server[s].floor);
	end_incarnation(s, 0);
	end_incarnation(s, 1);
	server[s].timeline = s;
	server[s].recorded_at = (POLICY == SPLIT && s < SERVERS - 1 -> clock : 0);
	server[s].behind = s < SERVERS - 1
}

/* An external generator asks for a fresh incarnation. */
inline activate(s, p)
{
	w = choice;
	who = p;
	decide(s);
	if
	:: GRANTABLE && !(server[s].cursor.incarnation != 0 && server[s].cursor.worker == w) ->
		make_number();
		begin_round(s, EXTERNAL + p, fresh, 0);
		external[p].state = DECIDED;
		external[p].server = s
#ifdef PUBLISH_EARLY
		;
		hand_out(s, w, first, last, fresh, p)
#endif
	:: else ->
		close_request(p, IDLE)
	fi
}

#ifdef NO_CHAIN
#define FOLLOWS(p)	true
#else
#define FOLLOWS(p)	(external[p].last == server[s].worker[w].mark)
#endif

/* It asks for its next grant: judged against the chain of those it has. */
inline acquire(s, p)
{
	w = external[p].worker;
	who = p;
	decide(s);
	if
	:: server[s].worker[w].holder != external[p].incarnation ->
		/* ended, unknown, or its worker was given to another */
		forget_incarnation(p);
		close_request(p, IDLE)
	:: else ->
		if
		:: server[s].worker[w].request == REQUEST_ID(p) ->
			/* the same answer again */
			external[p].state = FLUSHED;
			external[p].server = s;
			external[p].on = w;
			external[p].fresh = external[p].incarnation;
			external[p].start = server[s].worker[w].start;
			external[p].end = server[s].worker[w].mark;
#ifdef RETRY_UNCONFIRMED
			external[p].confirmed = 1
#endif
		:: server[s].worker[w].request != REQUEST_ID(p) && !FOLLOWS(p) ->
			/* two holders */
			end_incarnation(s, w);
			forget_incarnation(p);
			close_request(p, IDLE)
		:: server[s].worker[w].request != REQUEST_ID(p) && FOLLOWS(p) && !GRANTABLE ->
			close_request(p, IDLE)
		:: server[s].worker[w].request != REQUEST_ID(p) && FOLLOWS(p) && GRANTABLE ->
			begin_round(s, EXTERNAL + p, external[p].incarnation, REQUEST_ID(p));
			external[p].state = DECIDED;
			external[p].server = s
		fi
	fi
}

/* Something was flushed. */
inline note_flush(s)
{
	server[s].behind = s < SERVERS - 1 && server[s + 1].role <= STANDBY
}

/*
 * The server's own cursor.  Its grant is decided and flushed in one step, and under
 * local durability published in it: nobody sees anything in between.
 */
inline grant_to_cursor(s)
{
	printf("@%d server %d (clock %d) grants its cursor worker %d [%d,%d) of incarnation %d\n",
		world.now, s, clock, w, first, last, server[s].cursor.incarnation);
	note_grant(s);
	server[s].worker[w].mark = last;
	server[s].worker[w].start = 0;
	server[s].worker[w].holder = server[s].cursor.incarnation;
	server[s].worker[w].request = 0;
	note_flush(s);
#if QUORUM
	server[s].cursor.waiting = 1;
	server[s].cursor.start = first;
	server[s].cursor.end = last
#else
	hand_out(s, w, first, last, server[s].cursor.incarnation, EXTERNALS)
#endif
}

inline open_cursor(s)
{
	w = choice;
	decide(s);
	if
	:: GRANTABLE ->
		make_number();
		server[s].cursor.incarnation = fresh;
		server[s].cursor.worker = w;
		grant_to_cursor(s)
	:: else
	fi
}

inline extend_cursor(s)
{
	w = server[s].cursor.worker;
	decide(s);
	if
	:: server[s].worker[w].holder != server[s].cursor.incarnation -> kill_cursor(s)
	:: server[s].worker[w].holder == server[s].cursor.incarnation && GRANTABLE ->
		grant_to_cursor(s)
	:: else
	fi
}

/* The round's transaction is flushed. */
inline flush(s)
{
	w = server[s].round.worker;
	who = server[s].round.target - EXTERNAL;
	server[s].worker[w].mark = server[s].round.end;
	server[s].worker[w].start = server[s].round.start;
	server[s].worker[w].holder = server[s].round.incarnation;
	server[s].worker[w].request = server[s].round.request;
	note_flush(s);
	printf("@%d server %d flushes\n", world.now, s);
	if
	:: external[who].state == DECIDED && external[who].server == s ->
		external[who].state = FLUSHED;
		external[who].fresh = server[s].round.incarnation;
		external[who].on = w;
		external[who].start = server[s].round.start;
		external[who].end = server[s].round.end
	:: else					/* who asked has given up */
	fi;
	end_round(s)
}

inline publish(s)
{
	hand_out(s, server[s].cursor.worker, server[s].cursor.start, server[s].cursor.end,
		server[s].cursor.incarnation, EXTERNALS);
	end_waiting(s)
}

inline answer(s, p)
{
#if !defined(PUBLISH_EARLY) && !defined(LEASE)
	hand_out(s, external[p].on, external[p].start, external[p].end, external[p].fresh, p);
#endif
	external[p].incarnation = external[p].fresh;
	external[p].worker = external[p].on;
	external[p].last = external[p].end;
	close_request(p, IDLE)
}

#define ANSWERS(s, p)		(external[p].state == FLUSHED && external[p].server == s)
#define WAITS(p)			(QUORUM && !external[p].confirmed)
/* The standby of the last server is not followed further. */
#define CONFIRMS(s, worker_, end_)	\
	(s == SERVERS - 1 ||	\
	 (server[s + 1].role == STANDBY && server[s + 1].worker[worker_].mark >= end_))

#define UNCONFIRMABLE(s)	(s < SERVERS - 1 && server[s + 1].role >= UP)

proctype Authority(byte s)
{
end:
	do
	:: atomic { server[s].role == UP && server[s].timeline != s -> read_clock(); d_step { verify(s) } }

	/* decide */
	:: atomic { READY(s) && external[0].state == ASKED && external[0].incarnation == 0 ->
		read_clock(); CHOOSE_WORKER(s); d_step { activate(s, 0) } }
	:: atomic { READY(s) && external[0].state == ASKED && external[0].incarnation != 0 ->
		read_clock(); d_step { acquire(s, 0) } }
#if EXTERNALS > 1
	:: atomic { READY(s) && external[1].state == ASKED && external[1].incarnation == 0 ->
		read_clock(); CHOOSE_WORKER(s); d_step { activate(s, 1) } }
	:: atomic { READY(s) && external[1].state == ASKED && external[1].incarnation != 0 ->
		read_clock(); d_step { acquire(s, 1) } }
#endif
#if CURSORS
	:: atomic { READY(s) && server[s].cursor.incarnation == 0 && world.grants < GRANTS ->
		read_clock(); CHOOSE_WORKER(s); d_step { open_cursor(s) } }
	:: atomic { READY(s) && server[s].cursor.incarnation != 0 && !server[s].cursor.waiting &&
		world.grants < GRANTS ->
		read_clock(); d_step { extend_cursor(s) } }
#endif

	/* flush */
	:: d_step { server[s].role == UP && server[s].round.target != NOBODY -> flush(s) }

#if QUORUM
	/* see the standby's confirmation */
	:: d_step { ANSWERS(s, 0) && !external[0].confirmed &&
		CONFIRMS(s, external[0].on, external[0].end) -> external[0].confirmed = 1 }
#ifndef NO_REFUSAL
	/* refuse where it cannot come */
	:: d_step { ANSWERS(s, 0) && !external[0].confirmed && UNCONFIRMABLE(s) ->
		close_request(0, IDLE) }
#endif
#if EXTERNALS > 1
	:: d_step { ANSWERS(s, 1) && !external[1].confirmed &&
		CONFIRMS(s, external[1].on, external[1].end) -> external[1].confirmed = 1 }
#ifndef NO_REFUSAL
	:: d_step { ANSWERS(s, 1) && !external[1].confirmed && UNCONFIRMABLE(s) ->
		close_request(1, IDLE) }
#endif
#endif
#if CURSORS
	/* publish what is confirmed */
	:: d_step { server[s].cursor.waiting &&
		CONFIRMS(s, server[s].cursor.worker, server[s].cursor.end) -> publish(s) }
#endif
#endif

	/* answer */
	:: d_step { ANSWERS(s, 0) && !WAITS(0) -> answer(s, 0) }
#if EXTERNALS > 1
	:: d_step { ANSWERS(s, 1) && !WAITS(1) -> answer(s, 1) }
#endif
	od
}

/* --------------------------------------------------------------------
 * External generators
 * -------------------------------------------------------------------- */

/* Ask anew; what was asked and not answered is asked again by itself. */
#define ASK(p)	\
	d_step { external[p].state == IDLE && external[p].request < REQUESTS && world.grants < GRANTS ->	\
		external[p].request++;	\
		external[p].state = ASKED }
/* The answer is lost, or given up. */
#define LOSE(p)	\
	d_step { external[p].state >= DECIDED && world.faults < FAULTS ->	\
		world.faults++;	\
		printf("@%d generator %d loses its answer\n", world.now, p);	\
		close_request(p, ASKED) }

#ifdef LEASE
typedef Issued
{
	byte worker[2]				/* ticks, as bits */
}
Issued issued[2];

/* Issue while the lease has not expired by one's own clock, which may be late. */
#define ISSUE(p, late)	\
	d_step { external[p].incarnation != 0 && world.now >= late &&	\
		world.now - late < external[p].last ->	\
		printf("@%d generator %d issues (worker %d, tick %d), its lease ends at %d\n",	\
			world.now, p, external[p].worker, world.now - late, external[p].last);	\
		assert((issued[1 - p].worker[external[p].worker] & (1 << (world.now - late))) == 0);	\
		issued[p].worker[external[p].worker] =	\
			issued[p].worker[external[p].worker] | (1 << (world.now - late)) }
#endif

proctype Generators()
{
end:
	do
	:: ASK(0)
	:: LOSE(0)
#if EXTERNALS > 1
	:: ASK(1)
	:: LOSE(1)
#ifdef LEASE
	:: ISSUE(0, 0)
	:: ISSUE(0, CLOCK_ERROR)
	:: ISSUE(1, 0)
	:: ISSUE(1, CLOCK_ERROR)
#endif
	/* the first forks; not while it has a request open */
	:: d_step { world.forked == 0 && world.faults < FAULTS &&
		external[0].incarnation != 0 && external[0].state == IDLE &&
		external[1].incarnation == 0 && external[1].state == IDLE ->
		printf("@%d fork\n", world.now);
		world.faults++;
		world.forked = external[0].incarnation;
		external[1].incarnation = external[0].incarnation;
		external[1].worker = external[0].worker;
		external[1].last = external[0].last }
#endif
	od
}

/* --------------------------------------------------------------------
 * Standbys, faults, time
 * -------------------------------------------------------------------- */

/* The standby receives and flushes all there is. */
inline replicate(s)
{
	server[s + 1].role = STANDBY;
	server[s + 1].worker[0].mark = server[s].worker[0].mark;
	server[s + 1].worker[1].mark = server[s].worker[1].mark;
	server[s + 1].floor = server[s].floor;
	server[s + 1].timeline = server[s].timeline;
	server[s + 1].recorded_at = server[s].recorded_at;
	server[s].behind = 0;
	printf("@%d server %d has all\n", world.now, s + 1)
}

inline lose_requests(s)
{
	if
	:: external[0].state >= DECIDED && external[0].server == s -> close_request(0, ASKED)
	:: else
	fi;
#if EXTERNALS > 1
	if
	:: external[1].state >= DECIDED && external[1].server == s -> close_request(1, ASKED)
	:: else
	fi
#endif
}

/* Crash, and start again. */
inline crash(s)
{
	printf("@%d server %d crashes\n", world.now, s);
	end_round(s);
	kill_cursor(s);
	lose_requests(s)
}

/* Crash for ever. */
inline bury(s)
{
	crash(s);
	server[s].role = DEAD;
	server[s].floor = 0;
	server[s].timeline = 0;
	server[s].recorded_at = 0;
#if POLICY == SPLIT
	server[s].known_at = 0;
	server[s].cut = 0;
#ifdef OLD_RULE
	server[s].part = 0;
#endif
#endif
	server[s].behind = 0;
	end_incarnation(s, 0);
	end_incarnation(s, 1);
	server[s].worker[0].mark = 0;
	server[s].worker[1].mark = 0
}

inline promote(s)
{
	printf("@%d server %d is promoted\n", world.now, s);
	world.faults++;
	server[s].role = UP;
	server[s].behind = s < SERVERS - 1
}

#if POLICY == SPLIT
/* A history file is written, copied, or lost, whose ctime is this server's reading. */
#define WRITE_HISTORY(s)	\
	if	\
	:: choice = 0	\
	:: choice = server[s].known_at	\
	:: choice = world.now + 1	\
	:: choice = world.now + 1 + CLOCK_ERROR	\
	fi
/* The files come with the base backup of a promoted server. */
#define REPLICATE_FIRST(s)	\
	atomic { server[s].role == UP && server[s].behind && server[s + 1].role == EMPTY ->	\
		WRITE_HISTORY(s + 1); d_step { replicate(s);	\
			server[s + 1].known_at = (world.faults < FAULTS -> choice : 0) } }
/* What it can read of its history, then; the file of its own timeline is new. */
#define PROMOTE(s)	\
	WRITE_HISTORY(s);	\
	if	\
	:: server[s].cut = 0	\
	:: server[s].cut = 1	\
	fi;	\
	d_step { promote(s); server[s].known_at = (s < PARTS -> 0 : choice) }
#endif

#define REPLICATE(s)	\
	d_step { server[s].role == UP && server[s].behind && server[s + 1].role <= STANDBY -> replicate(s) }
#define CRASH(s)	\
	d_step { server[s].role == UP && world.faults < FAULTS -> world.faults++; crash(s) }
#define PROMOTABLE(s)	(server[s].role == STANDBY && world.faults < FAULTS)

#ifdef OUTSIDE_GRANDPARENT
#define GRANDPARENT_OVER	true
#else
#define GRANDPARENT_OVER	(world.now >= world.late_end)
#endif

proctype Faults()
{
end:
	do
	:: REPLICATE(0)
#if POLICY == SPLIT
	:: REPLICATE_FIRST(1)
	:: d_step { server[1].role == UP && server[1].behind && server[2].role == STANDBY -> replicate(1) }
#else
	:: REPLICATE(1)
#endif
	:: CRASH(0)
	:: CRASH(1)
	:: CRASH(2)

#if POLICY == SPLIT
	/* the parent may live on, but nothing of it beside its grandchild: that waits */
	:: d_step { world.now < world.late_end && world.now < LAST_NOW -> world.now++ }
	:: atomic { PROMOTABLE(1) -> PROMOTE(1); server[0].behind = 0 }
	:: d_step { server[0].role == UP && server[1].role == UP && server[2].role <= STANDBY -> bury(0) }
	:: atomic { PROMOTABLE(2) && server[0].role == DEAD && GRANDPARENT_OVER ->
		PROMOTE(2); server[1].behind = 0; world.late_end = 0 }
#else
	/* the parent is dead */
#ifdef OUTSIDE_PARENT
	:: d_step { PROMOTABLE(1) -> promote(1); server[0].behind = 0 }
#else
	:: d_step { PROMOTABLE(1) -> bury(0); promote(1) }
#endif
	:: d_step { PROMOTABLE(2) -> bury(1); promote(2) }
#endif

	/* nothing can go on: whatever was asked has been answered or refused */
	:: timeout ->
		assert(external[0].state == IDLE);
#if EXTERNALS > 1
		assert(external[1].state == IDLE);
#endif
		break
	od
}

init
{
	atomic {
		server[0].role = UP;
		server[0].behind = 1;
		run Authority(0);
		run Authority(1);
		run Authority(2);
		run Generators();
		run Faults()
	}
}
