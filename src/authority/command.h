/*
 * command.h
 *		What the authority does to namespaces and incarnations, other than
 *		granting: retire, fence, adopt, hand over, end.
 */
#ifndef IDGEN_COMMAND_H
#define IDGEN_COMMAND_H

#include "postgres.h"

#include "shmem/request_queue.h"

struct IdgenAuthority;
struct IdgenCommandPause;

/* Commands that have met a lock. */
typedef struct IdgenCommandPauses
{
	struct IdgenCommandPause *pauses;	/* [request_count], by process */
	int			last_met;		/* the process whose command met a lock last;
								 * -1 = none */
} IdgenCommandPauses;

extern void idgen_command_init(IdgenCommandPauses *commands);
extern bool idgen_command_is(const IdgenTicket *ticket);
extern int64 idgen_command_serve(struct IdgenAuthority *authority,
								 const IdgenTicket *tickets, int count);

#endif							/* IDGEN_COMMAND_H */
