/*
 * confirm.h
 *		Make durable grants usable: at once, or when standbys have confirmed them.
 */
#ifndef IDGEN_CONFIRM_H
#define IDGEN_CONFIRM_H

#include "postgres.h"

#include "core/grant.h"
#include "shmem/request_queue.h"
#include "catalog/namespace_cache.h"

/* A grant of a cursor of this server. */
typedef struct IdgenCursorGrant
{
	int			slot;
	uint64		generation;			/* of the cursor, or of its reservation */
	bool		first;			/* it brings the cursor to life */
	int32		worker;
	int64		incarnation;
	IdgenGrantTiming timing;
} IdgenCursorGrant;

extern void idgen_confirm_grant(const IdgenNamespace *ns,
									const IdgenCursorGrant *grant);
extern void idgen_confirm_answer(const IdgenNamespace *ns,
									 const IdgenMailTaken *taken,
									 const IdgenAnswer *answer);
extern void idgen_confirm_step(void);
extern bool idgen_confirm_has_request(const IdgenMailTaken *taken);
extern bool idgen_confirm_has_slot(int slot, uint64 generation);
extern int	idgen_confirm_count(const pg_uuid_t *namespace_uuid,
									bool first_only);
extern void idgen_confirm_forget_incarnation(int64 incarnation);
extern void idgen_confirm_forget_first(uint64 after);
extern int	idgen_confirm_first_incarnations(int64 *incarnations);
extern int64 idgen_confirm_poll_ms(void);
extern void idgen_confirm_set_unconfirmed(IdgenError *error);

#endif							/* IDGEN_CONFIRM_H */
