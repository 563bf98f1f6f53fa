/*
 * external.h
 *		An external generator: a process that asks for grants over the network,
 *		ahead of need, and issues from them.
 */
#ifndef IDGEN_SIM_EXTERNAL_H
#define IDGEN_SIM_EXTERNAL_H

#include "cursor.h"
#include "network.h"
#include "world.h"

typedef struct External
{
	bool		is_alive;
	int64_t		life;			/* of the process; events of earlier ones are void */
	int			machine;
	int			database;
	int			server;			/* it is connected to */
	int64_t		cut_until_us;	/* its network is down */
	int64_t		paused_until_us;

	/* --- the incarnation; 0 = none */
	int64_t		incarnation;
	int64_t		last_grant;
	IdgenCursor cursor;
	int64_t		length;			/* of the last grant */
	int64_t		last_tick;		/* issued by earlier incarnations; -1 = none */
	int32_t		last_worker;

	/* --- the request */
	int64_t		question;		/* number of the one asked last; 0 = answered */
	int64_t		request;		/* not yet answered; 0 = none */
	int64_t		give_up_us;
	int64_t		retry_us;

	int64_t		last_id;		/* the checker's */
	int64_t		issued_at_us;	/* last; true time */
} External;

extern void external_start(World *world, int at);
extern void external_crash(World *world, int at);
extern bool external_clone(World *world, int at);
extern void external_deactivate(World *world, int at);
extern void external_answer(World *world, const Answer *answer);

#endif							/* IDGEN_SIM_EXTERNAL_H */
