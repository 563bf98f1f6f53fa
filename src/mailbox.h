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
extern bool idgen_mailbox_wait(uint64 ticket, int64 until_us,
							   IdgenAnswer *answer, int64 *late_us);
extern void idgen_mailbox_call(IdgenMail *mail, IdgenAnswer *answer);
extern void idgen_mailbox_stop_worker(Oid database, int64 within_us);

/* --- by the authority worker */
extern bool idgen_mailbox_enter(void);
extern bool idgen_mailbox_leave_if_empty(void);
extern void idgen_mailbox_leave(void);
extern bool idgen_mailbox_stop_wanted(void);
extern void idgen_mailbox_note_round(int grants);
extern int	idgen_mailbox_take(IdgenMailTaken *taken, int taken_max, int64 used_at_us);
extern bool idgen_mailbox_yield_wanted(void);
extern void idgen_mailbox_answer(const IdgenMailTaken *taken,
								 const IdgenAnswer *answer);
extern void idgen_mailbox_note(const IdgenMailTaken *taken,
							   const IdgenFailure *failure);

/* Starts a background worker; set by the authority, which alone knows how. */
extern bool (*idgen_mailbox_start_worker) (void);

#endif							/* IDGEN_MAILBOX_H */
