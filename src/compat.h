/*
 * compat.h
 *		Differences between PostgreSQL 15 and 19, all of them.
 *
 * No other file tests PG_VERSION_NUM.
 */
#ifndef IDGEN_COMPAT_H
#define IDGEN_COMPAT_H

#include "postgres.h"

#include "fmgr.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#if PG_VERSION_NUM < 150000
#error "idgen needs PostgreSQL 15 or later"
#endif

/* Functions that do not return are marked in front since 18. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn	pg_attribute_noreturn()
#endif

/* What is inside a varlena: not part of postgres.h since 16. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* The index of this process in per-process shared arrays. */
#if PG_VERSION_NUM >= 170000
#define idgen_my_proc_number()	((int) MyProcNumber)
#else
#define idgen_my_proc_number()	(MyProc->pgprocno)
#endif

/* LWLock tranches: 19 creates and names them in one call. */
#if PG_VERSION_NUM >= 190000
#define idgen_new_tranche(name)			LWLockNewTrancheId(name)
#define idgen_register_tranche(id, name)	((void) 0)
#else
#define idgen_new_tranche(name)			LWLockNewTrancheId()
#define idgen_register_tranche(id, name)	LWLockRegisterTranche(id, name)
#endif

/* Custom wait events have names since 17. */
#if PG_VERSION_NUM >= 170000
#include "utils/wait_event.h"
#define idgen_wait_event(name)	WaitEventExtensionNew(name)
#else
#include "utils/wait_event.h"
#define idgen_wait_event(name)	PG_WAIT_EXTENSION
#endif

/* The status of a process in the local copy, by place from 1; the name changed in 16. */
#include "utils/backend_status.h"
static inline const PgBackendStatus *
idgen_backend_status(int place)
{
#if PG_VERSION_NUM >= 160000
	LocalPgBackendStatus *local = pgstat_get_local_beentry_by_index(place);
#else
	LocalPgBackendStatus *local = pgstat_fetch_stat_local_beentry(place);
#endif
	return local == NULL ? NULL : &local->backendStatus;
}

/* Who may give something to a role; since 16 membership alone is not enough. */
#include "utils/acl.h"
#if PG_VERSION_NUM >= 160000
#define idgen_check_may_give_to(giver, role)	check_can_set_role(giver, role)
#else
#define idgen_check_may_give_to(giver, role)	check_is_member_of_role(giver, role)
#endif

/* A jsonb in the making; since 19 PostgreSQL's own state keeps the result as well. */
#include "utils/jsonb.h"
#if PG_VERSION_NUM >= 190000
typedef JsonbInState IdgenJsonbState;
#define idgen_jsonb_push(state, token, value) \
	pushJsonbValue(state, token, value)
#else
typedef struct IdgenJsonbState
{
	JsonbParseState *parsed;
	JsonbValue *result;
} IdgenJsonbState;
#define idgen_jsonb_push(state, token, value) \
	((state)->result = pushJsonbValue(&(state)->parsed, token, value))
#endif

/* Since 18 the primary key may be deferrable. */
#if PG_VERSION_NUM >= 180000
#define idgen_primary_key_index(rel)	RelationGetPrimaryKeyIndex(rel, false)
#else
#define idgen_primary_key_index(rel)	RelationGetPrimaryKeyIndex(rel)
#endif

/* Since 18 a module names itself and its version. */
#if PG_VERSION_NUM >= 180000
#define IDGEN_MODULE_MAGIC \
	PG_MODULE_MAGIC_EXT(.name = "idgen", .version = "1.0")
#else
#define IDGEN_MODULE_MAGIC	PG_MODULE_MAGIC
#endif

#endif							/* IDGEN_COMPAT_H */
