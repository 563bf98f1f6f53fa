/*
 * mailbox.h
 *		Requests from backends to the authority worker of their database.
 */
#ifndef IDGEN_MAILBOX_H
#define IDGEN_MAILBOX_H

#include "postgres.h"

#include "utils/uuid.h"

#include "failure.h"
#include "shmem.h"

/* What a backend asks for. */
typedef struct IdgenMail
{
	IdgenRequestKind kind;
	char		namespace_name[NAMEDATALEN];
	pg_uuid_t	namespace_uuid;
	int			cursors_seen;	/* see IdgenRequest */
	int64		expires_at_us;	/* monotonic; not carried out later */
} IdgenMail;

/* A request as the worker takes it, to be answered by process and ticket. */
typedef struct IdgenMailTaken
{
	int			process;
	uint64		ticket;
	Oid			role;
	IdgenMail	mail;
} IdgenMailTaken;

/* --- by backends */
extern uint64 idgen_mailbox_post(const IdgenMail *mail);
extern bool idgen_mailbox_check(uint64 ticket, IdgenFailure *failure);
extern void idgen_mailbox_withdraw(uint64 ticket);
extern bool idgen_mailbox_wait(uint64 ticket, int64 until_us,
							   IdgenFailure *failure);
extern void idgen_mailbox_stop_worker(Oid database, int64 within_us);

/* --- by the authority worker */
extern bool idgen_mailbox_enter(void);
extern bool idgen_mailbox_leave_if_empty(void);
extern void idgen_mailbox_leave(void);
extern bool idgen_mailbox_stop_wanted(void);
extern int	idgen_mailbox_take(IdgenMailTaken *taken, int taken_max);
extern void idgen_mailbox_answer(const IdgenMailTaken *taken,
								 const IdgenFailure *failure);
extern void idgen_mailbox_note(const IdgenMailTaken *taken,
							   const IdgenFailure *failure);

/* Starts a background worker; set by the authority, which alone knows how. */
extern bool (*idgen_mailbox_start_worker) (void);

#endif							/* IDGEN_MAILBOX_H */
