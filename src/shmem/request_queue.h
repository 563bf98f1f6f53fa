/*
 * request_queue.h
 *		Requests from backends to the authority worker of their database.
 */
#ifndef IDGEN_REQUEST_QUEUE_H
#define IDGEN_REQUEST_QUEUE_H

#include "postgres.h"

#include "storage/latch.h"
#include "utils/uuid.h"

#include "error.h"
#include "shmem/shmem.h"

typedef enum IdgenRequestKind
{
	IDGEN_REQUEST_SERVE,		/* grants for a namespace's cursors; a first or a
								 * further cursor */
	IDGEN_REQUEST_ACTIVATE,		/* an external incarnation with a first grant */
	IDGEN_REQUEST_ACQUIRE,		/* its next grant */
	IDGEN_REQUEST_DEACTIVATE,	/* its end, by its holder */
	IDGEN_REQUEST_END,			/* its end, by the namespace's owner */
	IDGEN_REQUEST_RETIRE,		/* the end of a namespace */
	IDGEN_REQUEST_FENCE,		/* a fence on demand */
	IDGEN_REQUEST_ADOPT			/* a copy becomes an authority of its own */
} IdgenRequestKind;

typedef enum IdgenRequestState
{
	IDGEN_REQUEST_IDLE,
	IDGEN_REQUEST_PENDING,
	IDGEN_REQUEST_DONE
} IdgenRequestState;

#define IDGEN_TOKEN_HASH_SIZE	32	/* SHA-256 */
#define IDGEN_ADDRESS_MAX		64

/*
 * What a process asks for.  Which fields count depends on the kind.  There is
 * no token here, only its hash: shared memory may end up in a core dump.
 */
typedef struct IdgenMail
{
	IdgenRequestKind kind;
	int64		expires_at_us;	/* monotonic; then nobody waits any more */
	char		namespace_name[NAMEDATALEN];
	pg_uuid_t	namespace_uuid;
	int			cursors_seen;	/* SERVE: a further cursor is wanted if there are
								 * no more than these; -1 = not wanted */

	/* --- external generators */
	int64		incarnation;
	int64		after_grant;
	int64		length_ms;		/* 0 = the namespace's grant interval */
	pg_uuid_t	request_id;
	uint8		token_hash[IDGEN_TOKEN_HASH_SIZE];
	char		address[IDGEN_ADDRESS_MAX]; /* of the session; may be empty */
	char		application[NAMEDATALEN];

	/* --- fence and adoption */
	int64		above;			/* an ID, or 0 */
	int32		first_worker;	/* -1 = unchanged */
	int32		last_worker;
} IdgenMail;

/* The answer; the fields after the failure are a grant, if one was asked for. */
typedef struct IdgenAnswer
{
	IdgenError error;		/* DONE: kind NONE is success; PENDING: why the
								 * request has to wait */
	int32		worker;
	int64		incarnation;
	int64		grant_id;
	int64		start_ms;		/* since the namespace's epoch */
	int64		end_ms;
} IdgenAnswer;

/*
 * One request per process, since a process waits for one thing at a time.  All fields:
 * directory lock.  Only whether a request is pending may be read without it, by a reader
 * that looks again under the lock, or that only watches.  The ticket tells the request
 * from an older one of the same process that was given up.
 */
typedef struct IdgenRequest
{
	IdgenRequestState state;
	uint64		ticket;
	Oid			database;
	Oid			role;			/* who asks */
	Latch	   *latch;			/* of the process that waits */
	IdgenMail	mail;
	IdgenAnswer answer;
} IdgenRequest;

typedef struct IdgenRequestQueue
{
	uint64		last_ticket;	/* directory lock */
	int			count;			/* constant */
	IdgenRequest requests[FLEXIBLE_ARRAY_MEMBER];	/* by process number */
} IdgenRequestQueue;

/* A request as the worker takes it, to be answered by process and ticket. */
typedef struct IdgenMailTaken
{
	int			process;
	uint64		ticket;
	Oid			role;
	IdgenMail	mail;
} IdgenMailTaken;

extern Size idgen_queue_size(void);
extern void idgen_queue_init(void *memory, int tranche);
extern int	idgen_queue_count(void);
extern int	idgen_queue_count_pending(void);

/* --- by backends */
extern uint64 idgen_queue_post(const IdgenMail *mail);
extern bool idgen_queue_wait(uint64 ticket, int64 until_us,
							   IdgenAnswer *answer, int64 *late_us);
extern void idgen_queue_call(IdgenMail *mail, IdgenAnswer *answer);
extern void idgen_queue_stop_authority(Oid database, int64 within_us);

/* --- by the authority worker */
extern bool idgen_queue_enter(void);
extern bool idgen_queue_leave_if_empty(void);
extern void idgen_queue_leave(void);
extern bool idgen_queue_stop_wanted(void);
extern void idgen_queue_note_round(int grants);
extern int	idgen_queue_take(IdgenMailTaken *taken, int taken_max, int64 used_at_us);
extern bool idgen_queue_yield_wanted(void);
extern void idgen_queue_answer(const IdgenMailTaken *taken,
								 const IdgenAnswer *answer);
extern void idgen_queue_note(const IdgenMailTaken *taken,
							   const IdgenError *error);

/* Starts a background worker; set by the authority, which alone knows how. */
extern bool (*idgen_queue_start_authority) (void);

#endif							/* IDGEN_REQUEST_QUEUE_H */
