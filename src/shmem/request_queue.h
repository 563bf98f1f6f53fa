/*
 * request_queue.h
 *		Requests of sessions to the authority process of their database.
 */
#ifndef IDGEN_REQUEST_QUEUE_H
#define IDGEN_REQUEST_QUEUE_H

#include "postgres.h"

#include "storage/latch.h"
#include "utils/uuid.h"

#include "error.h"
#include "hand_over.h"

typedef enum IdgenRequestKind
{
	IDGEN_REQUEST_SERVE,		/* grants for the cursors of a namespace; a
								 * first or a further cursor */
	IDGEN_REQUEST_ACTIVATE,		/* an external incarnation with a first grant */
	IDGEN_REQUEST_ACQUIRE,		/* the next grant of an external incarnation */
	IDGEN_REQUEST_DEACTIVATE,	/* the end of an incarnation, by its holder */
	IDGEN_REQUEST_END,			/* the same, by the owner of the namespace */
	IDGEN_REQUEST_RETIRE,		/* the end of a namespace */
	IDGEN_REQUEST_FENCE,		/* a fence on demand */
	IDGEN_REQUEST_ADOPT,		/* a copy becomes an authority of its own */
	IDGEN_REQUEST_HAND_OVER		/* another server is to go on */
} IdgenRequestKind;

#define IDGEN_TOKEN_HASH_SIZE	32	/* SHA-256 */
#define IDGEN_ADDRESS_MAX		64

/*
 * What a session asks for.  The kind decides which fields count.  The hash of
 * a token is here, never the token: shared memory may end up in a core dump.
 */
typedef struct IdgenRequest
{
	IdgenRequestKind kind;
	int64		expires_at_us;	/* monotonic; afterwards nobody waits for it */
	char		namespace_name[NAMEDATALEN];
	pg_uuid_t	namespace_uuid;
	int			cursors_seen;	/* SERVE: a further cursor is wanted if there
								 * are no more than these; -1 = not wanted */

	/* --- external generators */
	int64		incarnation;
	int64		after_grant;
	int64		length_ms;		/* 0 = the grant interval of the namespace */
	pg_uuid_t	request_id;
	uint8		token_hash[IDGEN_TOKEN_HASH_SIZE];
	char		address[IDGEN_ADDRESS_MAX]; /* of the session; may be empty */
	char		application[NAMEDATALEN];

	/* --- fence and adoption */
	int64		above;			/* an ID, or 0 */
	int32		first_worker;	/* -1 = unchanged */
	int32		last_worker;
	IdgenHandOver ticket;		/* adoption; the nil uuid = none */
	pg_uuid_t	lineage;		/* of the ticket */
} IdgenRequest;

/* How a request, or what a round does for a namespace, came out. */
typedef enum IdgenOutcome
{
	IDGEN_OUTCOME_SERVED,
	IDGEN_OUTCOME_RETRY,		/* not yet, and the authority will try again */
	IDGEN_OUTCOME_CHANGED,		/* not decided: the namespace has been taken
								 * over, and is to be asked for under the uuid
								 * it has now */
	IDGEN_OUTCOME_REFUSED
} IdgenOutcome;

/*
 * The answer.  From the worker to the end it is a grant, if one was asked for; the ticket
 * is that of a hand-over.
 */
typedef struct IdgenAnswer
{
	IdgenOutcome outcome;
	IdgenError	error;			/* RETRY, REFUSED: the reason; kind NONE: not
								 * known */
	int32		worker;
	int64		incarnation;
	int64		grant_id;
	int64		start_ms;		/* since the epoch of the namespace */
	int64		end_ms;
	IdgenHandOver ticket;
} IdgenAnswer;

typedef enum IdgenQueueState
{
	IDGEN_QUEUE_IDLE,
	IDGEN_QUEUE_PENDING,
	IDGEN_QUEUE_ANSWERED
} IdgenQueueState;

/*
 * The place of a process in the queue; a process waits for one thing at a
 * time.  All fields: directory lock.  Whether a request is pending, and of
 * which database, may also be read without the lock, by a reader that looks
 * again under it or that only watches.  The number tells the request that a
 * process waits for from an older one that it gave up.
 */
typedef struct IdgenQueueEntry
{
	IdgenQueueState state;
	uint64		number;
	Oid			database;
	Oid			role;			/* of the process that asks */
	Latch	   *latch;			/* of the process that waits */
	IdgenRequest request;
	IdgenAnswer answer;			/* PENDING: why the request has to wait, if
								 * known */
} IdgenQueueEntry;

typedef struct IdgenRequestQueue
{
	uint64		last_number;	/* directory lock */
	int			count;			/* constant */
	IdgenQueueEntry entries[FLEXIBLE_ARRAY_MEMBER]; /* by process number */
} IdgenRequestQueue;

/* A request as the authority process takes it; process and number stand for it. */
typedef struct IdgenTicket
{
	int			process;
	uint64		number;
	Oid			role;
	IdgenRequest request;
} IdgenTicket;

extern Size idgen_queue_size(void);
extern void idgen_queue_init(void *memory, int tranche);
extern int	idgen_queue_count(void);
extern int	idgen_queue_count_pending(void);

/* --- by sessions */
extern uint64 idgen_queue_post(const IdgenRequest *request);
extern bool idgen_queue_wait(uint64 number, int64 until_us,
							 IdgenAnswer *answer, int64 *late_us);
extern void idgen_queue_call(IdgenRequest *request, IdgenAnswer *answer);

/* --- by the authority process */
extern int	idgen_queue_take(IdgenTicket *tickets, int tickets_max);
extern void idgen_queue_answer(const IdgenTicket *ticket, const IdgenAnswer *answer);
extern void idgen_queue_note(const IdgenTicket *ticket, const IdgenError *error);
extern bool idgen_queue_leave_if_empty(void);
extern void idgen_queue_leave(void);

#endif							/* IDGEN_REQUEST_QUEUE_H */
