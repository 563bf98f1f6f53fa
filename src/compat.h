/*
 * compat.h
 *		All differences between PostgreSQL 15 and 19 that matter here.
 *
 * No other file tests PG_VERSION_NUM.
 */
#ifndef IDGEN_COMPAT_H
#define IDGEN_COMPAT_H

#include "postgres.h"

#include "fmgr.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/jsonb.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "idgen needs PostgreSQL 15 or later"
#endif

/* Since 18 pg_noreturn stands in front of a function that does not return. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn	pg_attribute_noreturn()
#endif

/* Access to the inside of a varlena has a header of its own since 16. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* The index of this process in per-process shared arrays. */
#if PG_VERSION_NUM >= 170000
#define idgen_my_proc_number()	((int) MyProcNumber)
#else
#define idgen_my_proc_number()	(MyProc->pgprocno)
#endif

/* Since 19 one call creates an LWLock tranche and names it. */
#if PG_VERSION_NUM >= 190000
#define idgen_new_tranche(name)			LWLockNewTrancheId(name)
#define idgen_register_tranche(id, name)	((void) 0)
#else
#define idgen_new_tranche(name)			LWLockNewTrancheId()
#define idgen_register_tranche(id, name)	LWLockRegisterTranche(id, name)
#endif

/* Custom wait events have names since 17. */
#if PG_VERSION_NUM >= 170000
#define idgen_wait_event(name)	WaitEventExtensionNew(name)
#else
#define idgen_wait_event(name)	PG_WAIT_EXTENSION
#endif

/*
 * The status of a process in the local copy, by its place, counted from 1;
 * PostgreSQL renamed the function in 16.
 */
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

/* May this role give something to another?  Since 16 membership alone is not enough. */
#if PG_VERSION_NUM >= 160000
#define idgen_check_may_give_to(giver, role)	check_can_set_role(giver, role)
#else
#define idgen_check_may_give_to(giver, role)	check_is_member_of_role(giver, role)
#endif

/* May a role execute a function?  Since 16 there is one check for all kinds of objects. */
#if PG_VERSION_NUM >= 160000
#include "catalog/pg_proc.h"
#define idgen_may_execute(role, function) \
	(object_aclcheck(ProcedureRelationId, function, role, ACL_EXECUTE) == ACLCHECK_OK)
#else
#define idgen_may_execute(role, function) \
	(pg_proc_aclcheck(function, role, ACL_EXECUTE) == ACLCHECK_OK)
#endif

/* A jsonb that is being built; since 19 PostgreSQL's own state keeps the result as well. */
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

/* Since 18 the caller says whether a deferrable primary key will do. */
#if PG_VERSION_NUM >= 180000
#define idgen_primary_key_index(rel)	RelationGetPrimaryKeyIndex(rel, false)
#else
#define idgen_primary_key_index(rel)	RelationGetPrimaryKeyIndex(rel)
#endif

/* ALTER TABLE ... ENABLE ALWAYS TRIGGER; since 16 the caller says more. */
#if PG_VERSION_NUM >= 160000
#define idgen_enable_trigger_always(rel, name) \
	EnableDisableTrigger(rel, name, InvalidOid, TRIGGER_FIRES_ALWAYS, false, false, \
						 ShareRowExclusiveLock)
#else
#define idgen_enable_trigger_always(rel, name) \
	EnableDisableTrigger(rel, name, TRIGGER_FIRES_ALWAYS, false, ShareRowExclusiveLock)
#endif

/* Since 18 a module names itself and its version. */
#if PG_VERSION_NUM >= 180000
#define IDGEN_MODULE_MAGIC \
	PG_MODULE_MAGIC_EXT(.name = "idgen", .version = "1.0")
#else
#define IDGEN_MODULE_MAGIC	PG_MODULE_MAGIC
#endif

#endif							/* IDGEN_COMPAT_H */
