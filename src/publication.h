/*
 * publication.h
 *		Make durable grants usable: at once, or when standbys have confirmed them.
 */
#ifndef IDGEN_PUBLICATION_H
#define IDGEN_PUBLICATION_H

#include "postgres.h"

#include "core/grant.h"
#include "mailbox.h"
#include "namespace.h"

/* A grant of a cursor of this server. */
typedef struct IdgenCursorGrant
{
	int			slot;
	uint64		tenure;			/* of the cursor, or of its reservation */
	bool		first;			/* it brings the cursor to life */
	int32		worker;
	int64		incarnation;
	IdgenGrantCourse course;
} IdgenCursorGrant;

extern void idgen_publication_grant(const IdgenNamespace *ns,
									const IdgenCursorGrant *grant);
extern void idgen_publication_answer(const IdgenNamespace *ns,
									 const IdgenMailTaken *taken,
									 const IdgenAnswer *answer);
extern void idgen_publication_step(void);
extern bool idgen_publication_has_request(const IdgenMailTaken *taken);
extern bool idgen_publication_has_slot(int slot, uint64 tenure);
extern int	idgen_publication_count(const pg_uuid_t *namespace_uuid,
									bool first_only);
extern void idgen_publication_forget_incarnation(int64 incarnation);
extern void idgen_publication_forget_first(uint64 after);
extern int	idgen_publication_first_incarnations(int64 *incarnations);
extern int64 idgen_publication_poll_ms(void);
extern void idgen_publication_set_unconfirmed(IdgenFailure *failure);

#endif							/* IDGEN_PUBLICATION_H */
