/*
 * confirm.h
 *		Make durable grants usable: at once, or when standbys confirm them.
 */
#ifndef IDGEN_CONFIRM_H
#define IDGEN_CONFIRM_H

#include "postgres.h"

#include "nodes/pg_list.h"

#include "authority/quorum.h"
#include "catalog/namespace_cache.h"
#include "core/grant.h"
#include "shmem/request_queue.h"

/* A grant of a cursor of this server. */
typedef struct IdgenCursorGrant
{
	int			slot;
	uint64		generation;		/* of the cursor, or of its reservation */
	bool		first;			/* it brings the cursor to life */
	int64		incarnation;
	IdgenGrantTiming timing;
} IdgenCursorGrant;

/* What is held until it is confirmed. */
typedef struct IdgenConfirm
{
	MemoryContext context;		/* of the list */
	List	   *held;			/* IdgenHeld, oldest first */
	bool		counts_wrong;	/* the counts shown in the statistics */
	IdgenQuorum quorum;
} IdgenConfirm;

extern void idgen_confirm_init(IdgenConfirm *confirm);
extern void idgen_confirm_grant(IdgenConfirm *confirm, const IdgenNamespace *ns,
								const IdgenCursorGrant *grant);
extern void idgen_confirm_answer(IdgenConfirm *confirm, const IdgenNamespace *ns,
								 const IdgenTicket *ticket, const IdgenAnswer *answer);
extern void idgen_confirm_run(IdgenConfirm *confirm);
extern bool idgen_confirm_has_request(const IdgenConfirm *confirm,
									  const IdgenTicket *ticket);
extern bool idgen_confirm_has_slot(const IdgenConfirm *confirm, int slot,
								   uint64 generation);
extern int	idgen_confirm_count(const IdgenConfirm *confirm,
								const pg_uuid_t *namespace_uuid, bool first_only);
extern void idgen_confirm_forget_incarnation(IdgenConfirm *confirm, int64 incarnation);
extern void idgen_confirm_forget_first(IdgenConfirm *confirm, uint64 after);
extern int	idgen_confirm_first_incarnations(const IdgenConfirm *confirm,
											 int64 *incarnations);
extern int64 idgen_confirm_poll_ms(const IdgenConfirm *confirm);
extern void idgen_confirm_set_unconfirmed(IdgenConfirm *confirm, IdgenError *error);

#endif							/* IDGEN_CONFIRM_H */
