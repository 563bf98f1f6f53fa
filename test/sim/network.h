/*
 * network.h
 *		Requests of external generators and their answers on the way.
 *
 * A message is delayed, lost, or delivered twice.  A request may be carried out
 * long after its sender gave up; an answer that is not to the question asked
 * last is that of a connection that was closed, and is dropped by its reader.
 */
#ifndef IDGEN_SIM_NETWORK_H
#define IDGEN_SIM_NETWORK_H

#include "world.h"

typedef enum Question
{
	ASK_ACTIVATE,
	ASK_ACQUIRE,
	ASK_DEACTIVATE
} Question;

typedef enum Outcome
{
	OUTCOME_GRANTED,
	OUTCOME_DONE,
	OUTCOME_RETRY,				/* IG001 ... IG005 */
	OUTCOME_AFRESH,				/* IG008 */
	OUTCOME_REFUSED				/* IG006, IG007, IG009 */
} Outcome;

typedef struct Asked
{
	int			external;		/* who asks */
	int64_t		number;			/* of the question, to match the answer */
	Question	question;
	int			database;
	int64_t		incarnation;
	int64_t		request;
	int64_t		after_grant;
} Asked;

typedef struct Answer
{
	Asked		asked;
	Outcome		outcome;
	int32_t		worker;
	int64_t		incarnation;
	int64_t		grant_id;
	IdgenGrant	grant;
} Answer;

extern void network_ask(World *world, int server, const Asked *asked);
extern void network_answer(World *world, int server, const Answer *answer);

#endif							/* IDGEN_SIM_NETWORK_H */
