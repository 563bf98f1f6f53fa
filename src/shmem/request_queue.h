/*
 * request_queue.h
 *		Requests from backends to the authority worker of their database.
 */
#ifndef IDGEN_REQUEST_QUEUE_H
#define IDGEN_REQUEST_QUEUE_H

#include "postgres.h"

#include "utils/uuid.h"

#include "error.h"
#include "shmem/shmem.h"

/* A request as the worker takes it, to be answered by process and ticket. */
typedef struct IdgenMailTaken
{
	int			process;
	uint64		ticket;
	Oid			role;
	IdgenMail	mail;
} IdgenMailTaken;

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
