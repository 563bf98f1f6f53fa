/*
 * namespace_cache.h
 *		Namespaces as a session knows them.
 */
#ifndef IDGEN_NAMESPACE_CACHE_H
#define IDGEN_NAMESPACE_CACHE_H

#include "postgres.h"

#include "miscadmin.h"
#include "utils/uuid.h"

#include "catalog/rows.h"
#include "catalog/tables.h"
#include "core/layout.h"
#include "settings.h"
#include "shmem/counters.h"
#include "shmem/pool.h"

/*
 * What a session remembers of a namespace.  An entry lives as long as the
 * process; "version" says whether it is still what the tables say.
 */
typedef struct IdgenNamespace
{
	char		name[NAMEDATALEN];	/* hash key */
	int			name_length;
	uint64		version;		/* current if == idgen_namespace_version */
	uint64		open_version;	/* found fit to issue from if this is, too; whom
								 * it may issue for is asked each time */
	IdgenNamespaceRow row;
	bool		has_identity;
	bool		format_changed; /* since its identity was recorded */
	bool		made_here;		/* by the transaction in progress */
	IdgenAuthorityRow authority;
	bool		quorum;			/* its durability */
	int64		run_ahead;		/* ticks */
	IdgenCounters *stats;		/* NULL until something is counted */
	Oid			allowed_user;	/* found to hold the privilege to issue */

	/* --- what this process issued last (S11) */
	int64		last_id;		/* 0 = nothing yet */
	int64		last_tick;
	int32		last_worker;
	uint64		last_generation;

	/* --- the cursors it knows, ascending by worker */
	uint64		pool_version;	/* of the list below; 0 = none */
	int			ref_count;
	int			at;				/* in use within the current tick */
	int			home;			/* begun with at a new tick */
	int			contentions;	/* since the last wish for a cursor */
	IdgenCursorRef refs[IDGEN_MAX_WORKERS_LIMIT];
} IdgenNamespace;

extern void idgen_namespace_init(void);
extern IdgenNamespace *idgen_namespace_find(const char *name);
extern IdgenNamespace *idgen_namespace_get(const char *name, int name_length);
extern IdgenNamespace *idgen_namespace_get_until(const char *name, int name_length,
												 int64 until_us);
extern bool idgen_namespace_refresh(IdgenNamespace *ns);
extern bool idgen_namespace_owned(const IdgenNamespace *ns, Oid role);

extern void idgen_namespace_require_preloaded(const char *name, int name_length);
extern void idgen_namespace_require_committed(const IdgenNamespace *ns);
extern void idgen_namespace_require_owned(const IdgenNamespace *ns);
extern bool idgen_namespace_check_issue(IdgenNamespace *ns, int64 until_us,
										IdgenError *error);

/* Is it known that the current user may issue? */
static inline bool
idgen_namespace_may_issue(const IdgenNamespace *ns)
{
	return likely(!ns->row.restricted) || ns->allowed_user == GetUserId();
}

/* Is an entry still what the tables say? */
static inline bool
idgen_namespace_current(const IdgenNamespace *ns)
{
	return ns->version == idgen_namespace_version;
}

/* Is it known that the current user may issue here and now? */
static inline bool
idgen_namespace_open(const IdgenNamespace *ns)
{
	return ns->open_version == idgen_namespace_version &&
		idgen_namespace_may_issue(ns);
}

/* Is this the name of an entry?  The length first: it nearly always decides. */
static inline bool
idgen_namespace_is(const IdgenNamespace *ns, const char *name, int name_length)
{
	return ns->name_length == name_length &&
		memcmp(ns->name, name, name_length) == 0;
}

#endif							/* IDGEN_NAMESPACE_CACHE_H */
