/*
 * session.h
 *		What a process knows of a namespace from which it issues IDs.
 */
#ifndef IDGEN_SESSION_H
#define IDGEN_SESSION_H

#include "postgres.h"

#include "miscadmin.h"
#include "utils/uuid.h"

#include "catalog/namespace_cache.h"
#include "deadline.h"
#include "settings.h"
#include "shmem/pool.h"
#include "shmem/counters.h"

/*
 * An entry lives as long as the process, so that a pointer to it stays good.
 * idgen_session_is_open() tells whether it may be issued from without looking
 * at the tables again.
 */
typedef struct IdgenSession
{
	char		name[NAMEDATALEN];	/* hash key: that of the namespace */
	int			name_length;
	IdgenNamespace *ns;
	uint64		open_version;	/* the namespace was fit to issue from when
								 * idgen_namespace_version was this; 0 = never */
	Oid			only_user;		/* it is restricted, and this role was found
								 * to hold the privilege; InvalidOid =
								 * everybody may issue */
	IdgenCounters *stats;		/* NULL until something is counted */

	/* --- what this process issued last (S11) */
	pg_uuid_t	uuid;			/* of the ID space */
	int64		last_id;		/* 0 = nothing yet */
	int64		last_tick;
	int32		last_worker;
	uint64		last_generation;

	/* --- the cursors it knows, ascending by worker */
	uint64		pool_version;	/* of the pool when they were listed; 0 =
								 * never */
	int			ref_count;
	IdgenCursorRef *current;	/* the one in use within the current tick */
	IdgenCursorRef *home;		/* the one with which a new tick begins */
	int			contentions;	/* since the last wish for another cursor */
	IdgenCursorRef refs[IDGEN_MAX_WORKERS_LIMIT];
} IdgenSession;

extern IdgenSession *idgen_session_open(const char *name, int name_length,
										IdgenDeadline *deadline);
extern bool idgen_session_reopen(IdgenSession *session, IdgenDeadline deadline);
extern void idgen_session_look_again(IdgenSession *session);
extern void idgen_session_list_cursors(IdgenSession *session);
extern uint64 idgen_session_issued_by_all(const IdgenSession *session);

/* Is it known that the current user may issue here and now? */
static inline bool
idgen_session_is_open(const IdgenSession *session)
{
	return session->open_version == idgen_namespace_version &&
		(likely(session->only_user == InvalidOid) ||
		 session->only_user == GetUserId());
}

/*
 * Is this the session of the namespace with that name?  The length is compared
 * first, because it nearly always decides.
 */
static inline bool
idgen_session_is_named(const IdgenSession *session, const char *name,
					   int name_length)
{
	return session->name_length == name_length &&
		memcmp(session->name, name, name_length) == 0;
}

#endif							/* IDGEN_SESSION_H */
