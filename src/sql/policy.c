/*
 * policy.c
 *		SQL functions that change the policy of a namespace and its privileges.
 *
 * Both are ordinary transactional SQL.
 */
#include "compat.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "authority/quorum.h"
#include "catalog/identity.h"
#include "catalog/namespace_cache.h"
#include "catalog/namespace_rows.h"
#include "catalog/policy.h"
#include "catalog/policy_lock.h"
#include "clock.h"
#include "deadline.h"
#include "session/at_commit.h"
#include "sql/arguments.h"

/* Arguments of idgen_alter_namespace, in order. */
enum
{
	ALTER_NAME, ALTER_GRANT_INTERVAL, ALTER_DURABILITY, ALTER_PROMOTION,
	ALTER_RUN_AHEAD, ALTER_RESTRICTED, ALTER_OWNER
};

/* The namespace of the first argument, which the current user must own. */
static IdgenNamespace *
namespace_to_change(FunctionCallInfo fcinfo, const char *what, const char *function)
{
	text	   *name;
	IdgenNamespace *ns;

	PreventCommandIfReadOnly(function);
	PreventCommandDuringRecovery(function);
	REQUIRE_ARG(0, what);
	name = PG_GETARG_TEXT_PP(0);
	ns = idgen_namespace_get(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
	idgen_namespace_require_owned(ns);
	return ns;
}

/* Are this server and database those that the identity of a namespace names? */
static bool
is_at_home(const IdgenNamespace *ns)
{
	IdgenIdentity here;

	if (!ns->has_identity)
		return false;
	idgen_identity_read(&here);
	return idgen_identity_compare(&ns->authority.identity, &here) == IDGEN_IDENTITY_SAME;
}

/*
 * May a policy be chosen as at creation?  It may as long as nothing was ever granted,
 * neither here nor on the server that this one was copied or promoted from.  That is
 * known only if the recorded identity is that of this server.
 */
static bool
claim_unused(const IdgenNamespace *ns, const IdgenNamespaceRow *row)
{
	IdgenAuthorityRow split = {
		.split_modulus = row->split_parts,
		.split_remainder = idgen_split_class(ns->authority.identity.timeline, row->split_parts)
	};

	return is_at_home(ns) && idgen_namespace_rows_claim_unused(ns->name, &split);
}

/*
 * Change the promotion policy.  The parts of the workers belong to the format and stay
 * when "split" is given up: a standby that has not received the other policy yet uses
 * its own part at once, and must not meet a server that uses all of them.
 */
static void
alter_promotion(IdgenNamespaceRow *row, IdgenPromotion promotion)
{
	row->promotion = promotion;
	if (promotion == IDGEN_PROMOTION_SPLIT && row->split_parts == 1)
		row->split_parts =
			idgen_split_parts((int64) row->last_worker - row->first_worker + 1);
}

/* Change the owner; as with ALTER ... OWNER, the user must be a member of the new one. */
static void
alter_owner(IdgenNamespaceRow *row, Oid owner)
{
	idgen_check_may_give_to(GetUserId(), owner);
	strlcpy(row->owner, GetUserNameFromId(owner, false), NAMEDATALEN);
}

/*
 * An error if this transaction has changed the policy before: one change must be in
 * force before the other one is made.
 */
static void
require_policy_committed(const IdgenNamespace *ns, bool changed_here)
{
	if (changed_here)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("policy of namespace \"%s\" was changed in this transaction",
						ns->name),
				 errhint("Commit first.")));
}

/*
 * The namespace enters "trust": a standby that has received this change believes that
 * it has all grants.  So no grant may be published unconfirmed after it.  "quorum" must
 * have been committed before; that change waited for grants which were published under
 * the policy before it (policy_lock.c).
 */
static void
check_enters_trust(const IdgenNamespace *ns, bool changed_here)
{
	if (ns->row.durability != IDGEN_DURABILITY_QUORUM)
		idgen_arguments_invalid("durability \"quorum\" cannot be chosen together with promotion \"trust\"",
								"Change the durability first, commit, and then the promotion policy.");
	require_policy_committed(ns, changed_here);
}

/*
 * Wait until standbys have confirmed all that was committed.  Raises an error if they
 * do not before a monotonic time, or if the setting names none.
 *
 * A standby that is promoted without having received a change of policy still
 * trusts itself.  Whoever names the standbys decides which are promoted, and
 * must not promote one that lags behind what the named ones have confirmed.
 * If the workers are split, no other server uses those of this one, and no
 * standby needs to know.
 */
static void
await_confirmation(const IdgenNamespace *ns, IdgenDeadline deadline)
{
	if (ns->row.split_parts > 1)
		return;
	if (!idgen_quorum_named())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot change the durability of namespace \"%s\" while \"synchronous_standby_names\" is empty",
						ns->name),
				 errdetail("Standbys must first confirm that promotion policy \"trust\" was given up; one of them may still apply it."),
				 errhint("Name physical standbys in \"synchronous_standby_names\", if only for this change. If there are none, pg_receivewal with --synchronous counts as one. Never promote a standby that lags behind these standbys.")));
	if (!idgen_quorum_wait(idgen_quorum_here(), deadline))
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("could not change the durability of namespace \"%s\"",
						ns->name),
				 errdetail("Synchronous standbys have not confirmed what was committed before."),
				 errhint("Connect the standbys, or name others in \"synchronous_standby_names\". Never promote a standby that lags behind these standbys.")));
}

/*
 * The namespace leaves "quorum": standbys no longer confirm its grants.  No standby may
 * remain that does not know of this and believes that it has all grants ("trust").  So
 * "trust" must be given up first, in a transaction of its own, and standbys must
 * confirm what was committed.
 */
static void
check_leaves_quorum(const IdgenNamespace *ns, bool changed_here, IdgenDeadline deadline)
{
	if (ns->row.promotion == IDGEN_PROMOTION_TRUST)
		idgen_arguments_invalid("durability \"quorum\" cannot be given up while promotion is \"trust\"",
								"Change the promotion policy first, commit, and then the durability.");
	require_policy_committed(ns, changed_here);
	await_confirmation(ns, deadline);
}

/*
 * Wait for the confirmation before the policy is locked, so that standbys
 * which do not confirm hold up no other session that changes it.  Under the
 * lock, only what was committed meanwhile is still to be confirmed.
 */
static void
prepare_to_leave_quorum(const IdgenNamespace *ns, IdgenDurability durability,
						IdgenDeadline deadline)
{
	if (ns->row.durability == IDGEN_DURABILITY_QUORUM &&
		durability == IDGEN_DURABILITY_LOCAL &&
		ns->row.promotion != IDGEN_PROMOTION_TRUST)
		await_confirmation(ns, deadline);
}

/*
 * "split" can be chosen or given up until the first grant.  The parts may only
 * be made while no standby can trust itself with all of the workers: with
 * durability "local", to which a namespace changes only after standbys have
 * confirmed.
 */
static void
check_changes_split(const IdgenNamespace *ns, const IdgenNamespaceRow *row)
{
	if (row->split_parts != ns->row.split_parts &&
		(ns->row.durability == IDGEN_DURABILITY_QUORUM ||
		 row->durability == IDGEN_DURABILITY_QUORUM))
		idgen_arguments_invalid("promotion \"split\" can only be chosen with durability \"local\"",
								"Change the durability in separate calls, before and after this one.");
	if (!claim_unused(ns, row))
		idgen_arguments_invalid("promotion \"split\" cannot be chosen or given up after the first grant",
								"Create another namespace.");
}

/* An error unless a change of policy is safe; may wait for standbys to confirm. */
static void
check_change(const IdgenNamespace *ns, const IdgenNamespaceRow *row, bool changed_here,
			 IdgenDeadline deadline)
{
	bool		splits = row->promotion == IDGEN_PROMOTION_SPLIT;
	bool		has_split = ns->row.promotion == IDGEN_PROMOTION_SPLIT;

	if (splits != has_split)
		check_changes_split(ns, row);
	if (ns->row.durability == IDGEN_DURABILITY_QUORUM &&
		row->durability != IDGEN_DURABILITY_QUORUM)
		check_leaves_quorum(ns, changed_here, deadline);
	if (row->promotion == IDGEN_PROMOTION_TRUST &&
		ns->row.promotion != IDGEN_PROMOTION_TRUST)
		check_enters_trust(ns, changed_here);
}

/*
 * Lock the policy of a namespace and read it again, since another session may have
 * changed it.  True if this transaction has created or changed the namespace.
 */
static bool
lock_and_refresh(IdgenNamespace *ns, IdgenDeadline deadline)
{
	bool		changed_here = idgen_policy_lock_row(ns->name, deadline);

	if (!idgen_namespace_refresh(ns))
		(void) idgen_namespace_get(ns->name, ns->name_length);
	idgen_namespace_require_owned(ns);
	return changed_here;
}

PG_FUNCTION_INFO_V1(idgen_alter_namespace);
Datum
idgen_alter_namespace(PG_FUNCTION_ARGS)
{
	IdgenNamespace *ns = namespace_to_change(fcinfo, "name", "idgen_alter_namespace()");
	IdgenDeadline deadline = idgen_deadline_of_command_from(idgen_clock_monotonic_us());
	bool		changed_here;
	IdgenNamespaceRow row;
	IdgenDurability durability = ns->row.durability;
	IdgenPolicyGiven given = {
		.grant_interval = !PG_ARGISNULL(ALTER_GRANT_INTERVAL),
		.run_ahead = !PG_ARGISNULL(ALTER_RUN_AHEAD),
		.durability = !PG_ARGISNULL(ALTER_DURABILITY),
		.promotion = !PG_ARGISNULL(ALTER_PROMOTION),
		.restricted = !PG_ARGISNULL(ALTER_RESTRICTED),
		.owner = !PG_ARGISNULL(ALTER_OWNER)
	};

	if (given.durability)
	{
		durability = idgen_durability_require(text_to_cstring(PG_GETARG_TEXT_PP(ALTER_DURABILITY)));
		prepare_to_leave_quorum(ns, durability, deadline);
	}
	changed_here = lock_and_refresh(ns, deadline);
	row = ns->row;
	if (given.grant_interval)
		row.grant_interval_ms =
			idgen_arguments_interval_ms(PG_GETARG_INTERVAL_P(ALTER_GRANT_INTERVAL),
										"grant_interval");
	if (given.run_ahead)
		row.run_ahead_ms =
			idgen_arguments_interval_ms(PG_GETARG_INTERVAL_P(ALTER_RUN_AHEAD),
										"run_ahead");
	if (given.durability)
		row.durability = durability;
	if (given.promotion)
		alter_promotion(&row, idgen_promotion_require(text_to_cstring(PG_GETARG_TEXT_PP(ALTER_PROMOTION))));
	if (given.restricted)
		row.restricted = PG_GETARG_BOOL(ALTER_RESTRICTED);
	if (given.owner)
		alter_owner(&row, PG_GETARG_OID(ALTER_OWNER));
	idgen_policy_check(&row);
	check_change(ns, &row, changed_here, deadline);
	if (row.durability != ns->row.durability || row.promotion != ns->row.promotion)
		idgen_policy_begin_change(ns->name, deadline);
	idgen_namespace_rows_write_policy(&row, &given);

	/* the next change may rely on this one, which a crash must not undo */
	ForceSyncCommit();
	idgen_at_commit_kill(ns->name);
	PG_RETURN_VOID();
}

/* Give a privilege or take it away; both are idempotent. */
static void
change_privilege(FunctionCallInfo fcinfo, bool allow, const char *function)
{
	IdgenNamespace *ns = namespace_to_change(fcinfo, "namespace", function);
	char	   *privilege;
	char	   *role;

	REQUIRE_ARG(1, "grantee");
	REQUIRE_ARG(2, "privilege");
	role = GetUserNameFromId(PG_GETARG_OID(1), false);
	privilege = text_to_cstring(PG_GETARG_TEXT_PP(2));
	if (strcmp(privilege, "issue") == 0)
		idgen_namespace_rows_write_privilege(ns->name, IDGEN_PRIVILEGE_ISSUE, role, allow);
	else if (strcmp(privilege, "acquire") == 0)
		idgen_namespace_rows_write_privilege(ns->name, IDGEN_PRIVILEGE_ACQUIRE, role, allow);
	else
		idgen_arguments_invalid("privilege must be \"issue\" or \"acquire\"", NULL);
	if (!allow)
		idgen_at_commit_kill(ns->name);
}

PG_FUNCTION_INFO_V1(idgen_allow);
Datum
idgen_allow(PG_FUNCTION_ARGS)
{
	change_privilege(fcinfo, true, "idgen_allow()");
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(idgen_disallow);
Datum
idgen_disallow(PG_FUNCTION_ARGS)
{
	change_privilege(fcinfo, false, "idgen_disallow()");
	PG_RETURN_VOID();
}
