/*
 * namespace_cache.h
 *		Namespaces as a process knows them.
 */
#ifndef IDGEN_NAMESPACE_CACHE_H
#define IDGEN_NAMESPACE_CACHE_H

#include "postgres.h"

#include "catalog/rows.h"
#include "catalog/tables.h"
#include "deadline.h"

/*
 * A namespace as a process knows it.  An entry lives as long as the process;
 * idgen_namespace_is_current() tells whether it still is what the tables say.
 */
typedef struct IdgenNamespace
{
	char		name[NAMEDATALEN];	/* hash key */
	int			name_length;
	uint64		version;		/* idgen_namespace_version when it was read; 0
								 * = it has to be read again */
	IdgenNamespaceRow row;
	bool		has_identity;
	bool		format_changed; /* since its identity was recorded */
	bool		made_here;		/* its identity, by the transaction in
								 * progress */
	bool		created_here;	/* the namespace, by that transaction */
	IdgenAuthorityRow authority;
	bool		quorum;			/* its durability */
	int64		run_ahead;		/* ticks */
} IdgenNamespace;

extern void idgen_namespace_init(void);
extern IdgenNamespace *idgen_namespace_find(const char *name);
extern IdgenNamespace *idgen_namespace_get(const char *name, int name_length);
extern IdgenNamespace *idgen_namespace_get_until(const char *name, int name_length,
												 IdgenDeadline deadline);
extern void idgen_namespace_expire(IdgenNamespace *ns);
extern bool idgen_namespace_refresh(IdgenNamespace *ns);
extern bool idgen_namespace_owned(const IdgenNamespace *ns, Oid role);

extern void idgen_namespace_require_preloaded(const char *name, int name_length);
extern void idgen_namespace_require_committed(const IdgenNamespace *ns);
extern void idgen_namespace_require_owned(const IdgenNamespace *ns);

/* Is an entry still what the tables say? */
static inline bool
idgen_namespace_is_current(const IdgenNamespace *ns)
{
	return ns->version == idgen_namespace_version;
}

#endif							/* IDGEN_NAMESPACE_CACHE_H */
