/*
 * namespaces.c
 *		SQL functions that create, change and end namespaces.
 *
 * Creating and changing the policy are ordinary transactional SQL; what touches
 * marks goes through the authority (request.c).
 */
#include "compat.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "sql/arguments.h"
#include "clock.h"
#include "session/at_commit.h"
#include "catalog/identity.h"
#include "random.h"
#include "catalog/namespace_cache.h"
#include "catalog/namespace_rows.h"
#include "catalog/policy_lock.h"
#include "authority/quorum.h"
#include "session/client.h"
#include "catalog/tables.h"

/* Fewer workers than this in a range: the policy "split" is not the default. */
#define SPLIT_WORKERS_MIN 16

/* --------------------------------------------------------------------
 * Creating
 * -------------------------------------------------------------------- */

/* Arguments of idgen_create_namespace, in order. */
enum
{
	CREATE_NAME, CREATE_TIMESTAMP_BITS, CREATE_WORKER_BITS,
	CREATE_SEQUENCE_BITS, CREATE_EPOCH, CREATE_TICK_MS, CREATE_GRANT_INTERVAL,
	CREATE_HORIZON, CREATE_FIRST_WORKER, CREATE_LAST_WORKER, CREATE_DURABILITY,
	CREATE_PROMOTION, CREATE_RUN_AHEAD, CREATE_RESTRICTED, CREATE_ISSUING
};

static void
read_name(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	char	   *name;

	REQUIRE_ARG(CREATE_NAME, "name");
	name = text_to_cstring(PG_GETARG_TEXT_PP(CREATE_NAME));
	if (name[0] == '\0' || strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of a namespace must have 1 to %d bytes",
						NAMEDATALEN - 1)));
	strlcpy(row->name, name, NAMEDATALEN);
}

static void
read_layout(FunctionCallInfo fcinfo, IdgenLayout *layout, bool issuing)
{
	TimestampTz epoch;

	REQUIRE_ARG(CREATE_TIMESTAMP_BITS, "timestamp_bits");
	REQUIRE_ARG(CREATE_WORKER_BITS, "worker_bits");
	REQUIRE_ARG(CREATE_SEQUENCE_BITS, "sequence_bits");
	REQUIRE_ARG(CREATE_EPOCH, "epoch");
	REQUIRE_ARG(CREATE_TICK_MS, "tick_ms");
	REQUIRE_ARG(CREATE_HORIZON, "horizon");

	layout->timestamp_bits = PG_GETARG_INT32(CREATE_TIMESTAMP_BITS);
	layout->worker_bits = PG_GETARG_INT32(CREATE_WORKER_BITS);
	layout->sequence_bits = PG_GETARG_INT32(CREATE_SEQUENCE_BITS);
	layout->tick_ms = PG_GETARG_INT32(CREATE_TICK_MS);
	layout->horizon_ms = idgen_arguments_interval_ms(PG_GETARG_INTERVAL_P(CREATE_HORIZON),
									 "horizon");
	epoch = PG_GETARG_TIMESTAMPTZ(CREATE_EPOCH);
	if (TIMESTAMP_NOT_FINITE(epoch))
		idgen_arguments_invalid("epoch must be finite", NULL);
	if (epoch % 1000 != 0)
		idgen_arguments_invalid("epoch must be a whole number of milliseconds", NULL);
	layout->epoch_ms = epoch / 1000 + POSTGRES_EPOCH_MS;

	switch (idgen_layout_validate(layout))
	{
		case IDGEN_LAYOUT_OK:
			break;
		case IDGEN_LAYOUT_BAD_TIMESTAMP_BITS:
			idgen_arguments_invalid("timestamp_bits must be between 1 and 63", NULL);
			break;
		case IDGEN_LAYOUT_BAD_WORKER_BITS:
			idgen_arguments_invalid("worker_bits must be between 0 and 31", NULL);
			break;
		case IDGEN_LAYOUT_BAD_SEQUENCE_BITS:
			idgen_arguments_invalid("sequence_bits must be between 0 and 31", NULL);
			break;
		case IDGEN_LAYOUT_BAD_SUM:
			idgen_arguments_invalid("timestamp_bits, worker_bits and sequence_bits must not exceed 63 together",
						   "An ID is a positive bigint.");
			break;
		case IDGEN_LAYOUT_BAD_EPOCH:
			idgen_arguments_invalid("epoch is out of range", NULL);
			break;
		case IDGEN_LAYOUT_BAD_TICK:
			idgen_arguments_invalid("tick_ms must be between 1 and 3600000", NULL);
			break;
		case IDGEN_LAYOUT_BAD_HORIZON:
			idgen_arguments_invalid("horizon must be between one tick and 1 hour", NULL);
			break;
		case IDGEN_LAYOUT_SHORT_FIELD:
			if (issuing)
				idgen_arguments_invalid("timestamp_bits hold less time than the horizon",
							   "Use more timestamp bits or a longer tick, or issuing => false to decode only.");
			break;
	}
}

/* The field must have begun and not be over, unless it is for decoding only. */
static void
check_life(const IdgenNamespaceRow *row)
{
	if (!row->issuing)
		return;
	switch (idgen_layout_life(&row->layout, idgen_clock_wall_ms()))
	{
		case IDGEN_LIFE_RUNNING:
			return;
		case IDGEN_LIFE_NOT_BEGUN:
			idgen_arguments_invalid("epoch is in the future",
						   "Use an epoch in the past, or issuing => false to decode only.");
			break;
		case IDGEN_LIFE_OVER:
			idgen_arguments_invalid("the timestamp field is already over",
						   "Use a later epoch or more timestamp bits, or issuing => false to decode only.");
			break;
	}
}

static void
read_intervals(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	REQUIRE_ARG(CREATE_GRANT_INTERVAL, "grant_interval");
	REQUIRE_ARG(CREATE_RUN_AHEAD, "run_ahead");
	row->grant_interval_ms =
		idgen_arguments_interval_ms(PG_GETARG_INTERVAL_P(CREATE_GRANT_INTERVAL),
									"grant_interval");
	row->run_ahead_ms =
		idgen_arguments_interval_ms(PG_GETARG_INTERVAL_P(CREATE_RUN_AHEAD),
									"run_ahead");
}

static void
read_workers(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	int64		count = idgen_layout_worker_count(&row->layout);

	REQUIRE_ARG(CREATE_FIRST_WORKER, "first_worker");
	row->first_worker = PG_GETARG_INT32(CREATE_FIRST_WORKER);
	row->last_worker = PG_ARGISNULL(CREATE_LAST_WORKER) ? (int32) (count - 1) :
		PG_GETARG_INT32(CREATE_LAST_WORKER);
}

static void
read_durability(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	REQUIRE_ARG(CREATE_DURABILITY, "durability");
	strlcpy(row->durability, text_to_cstring(PG_GETARG_TEXT_PP(CREATE_DURABILITY)),
			NAMEDATALEN);
}

/*
 * The policy for a change of timeline.  The parts of the workers belong to the format:
 * a standby that has not heard of another policy yet uses its own part at once, and so
 * must not meet a server that uses all of them.
 */
static void
choose_promotion(IdgenNamespaceRow *row, const char *promotion)
{
	strlcpy(row->promotion, promotion, NAMEDATALEN);
	if (strcmp(promotion, "split") == 0 && row->split_parts == 1)
		row->split_parts =
			idgen_split_parts((int64) row->last_worker - row->first_worker + 1);
}

static void
read_promotion(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	char	   *promotion;

	if (PG_ARGISNULL(CREATE_PROMOTION))
		promotion = (int64) row->last_worker - row->first_worker + 1 >=
			SPLIT_WORKERS_MIN ? "split" : "fence";
	else
		promotion = text_to_cstring(PG_GETARG_TEXT_PP(CREATE_PROMOTION));

	row->split_parts = 1;
	choose_promotion(row, promotion);
}

static void
read_flags(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	REQUIRE_ARG(CREATE_RESTRICTED, "restricted");
	REQUIRE_ARG(CREATE_ISSUING, "issuing");
	row->restricted = PG_GETARG_BOOL(CREATE_RESTRICTED);
	row->issuing = PG_GETARG_BOOL(CREATE_ISSUING);
}

/* The identity of a new namespace: here and now. */
static void
make_authority(const IdgenNamespaceRow *row, IdgenAuthorityRow *authority)
{
	idgen_random_uuid(&authority->uuid);
	idgen_namespace_rows_format_text(&row->layout, authority->format);
	idgen_identity_read(&authority->identity);
	authority->split_modulus = row->split_parts;
	authority->split_remainder =
		idgen_split_class(authority->identity.timeline, row->split_parts);
}

PG_FUNCTION_INFO_V1(idgen_create_namespace);
Datum
idgen_create_namespace(PG_FUNCTION_ARGS)
{
	IdgenNamespaceRow row;
	IdgenAuthorityRow authority;
	bool		copied;

	PreventCommandIfReadOnly("idgen_create_namespace()");
	PreventCommandDuringRecovery("idgen_create_namespace()");

	memset(&row, 0, sizeof(row));
	read_name(fcinfo, &row);
	read_flags(fcinfo, &row);
	read_layout(fcinfo, &row.layout, row.issuing);
	read_intervals(fcinfo, &row);
	read_workers(fcinfo, &row);
	read_durability(fcinfo, &row);
	read_promotion(fcinfo, &row);
	idgen_namespace_check_row(&row);
	check_life(&row);
	strlcpy(row.owner, GetUserNameFromId(GetUserId(), false), NAMEDATALEN);
	idgen_random_uuid(&row.lineage);

	if (!idgen_tables_find())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"idgen\" is not installed in this database")));
	make_authority(&row, &authority);
	if (!idgen_namespace_rows_insert(&row, &authority, &copied))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("namespace \"%s\" already exists", row.name)));
	if (copied)
		ereport(WARNING,
				(errmsg("namespace \"%s\" begins as a copy", row.name),
				 errdetail("Marks of this name were restored before, from a database that may still issue IDs."),
				 errhint("Make sure that the original will never issue IDs again, then call idgen_adopt_namespace() with its name.")));
	PG_RETURN_VOID();
}

/* --------------------------------------------------------------------
 * Changing the policy
 * -------------------------------------------------------------------- */

/* Arguments of idgen_alter_namespace, in order. */
enum
{
	ALTER_NAME, ALTER_GRANT_INTERVAL, ALTER_DURABILITY, ALTER_PROMOTION,
	ALTER_RUN_AHEAD, ALTER_RESTRICTED, ALTER_OWNER
};

/* A namespace whose policy the current user may change. */
static IdgenNamespace *
owned_namespace(FunctionCallInfo fcinfo, const char *what, const char *function)
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

/* Is this server and database the one that the record of a namespace names? */
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
 * May a policy be chosen as at creation?  As long as nothing was ever granted, here or
 * on the server that this one was before it was copied or promoted: that is known only
 * where the record is of here and now.
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

/* Give a namespace away: only to a role one is a member of, as in ALTER ... OWNER. */
static void
alter_owner(IdgenNamespaceRow *row, Oid owner)
{
	idgen_check_may_give_to(GetUserId(), owner);
	strlcpy(row->owner, GetUserNameFromId(owner, false), NAMEDATALEN);
}

/*
 * Where one change of the policy is to be in force before another is made, a
 * transaction must not make both.
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
 * From now on a standby that knows of this believes that it has all grants.  So
 * no grant may follow that is published unconfirmed: "quorum" has to be committed
 * before, which waits for what is published by the policy before it (policy.c).
 */
static void
check_enters_trust(const IdgenNamespace *ns, bool changed_here)
{
	if (!ns->quorum)
		idgen_arguments_invalid("durability \"quorum\" cannot be taken together with promotion \"trust\"",
								"Change the durability first, commit, and then the promotion policy.");
	require_policy_committed(ns, changed_here);
}

/*
 * Wait until standbys have confirmed all that was committed; an error if they do
 * not until a monotonic time, or if the setting names none.  One that is promoted
 * without it still trusts itself, and whoever names standbys says which are
 * promoted: those that lag behind what these have confirmed are not.  Where the
 * workers are split no other server uses those of this one; nobody need know.
 */
static void
await_confirmation(const IdgenNamespace *ns, int64 until_us)
{
	if (ns->row.split_parts > 1)
		return;
	if (!idgen_quorum_named())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot change the durability of namespace \"%s\" while \"synchronous_standby_names\" is empty",
						ns->name),
				 errdetail("A standby may know it with promotion policy \"trust\", and nobody can confirm that it does not."),
				 errhint("Name physical standbys in \"synchronous_standby_names\", if only for this change; where there is none, pg_receivewal with --synchronous counts as one. Promote none that was behind them.")));
	if (!idgen_quorum_wait(idgen_quorum_here(), until_us))
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("durability of namespace \"%s\" could not be changed",
						ns->name),
				 errdetail("Synchronous standbys have not confirmed what was committed before."),
				 errhint("Connect the standbys, or name others in \"synchronous_standby_names\", and never promote one that was behind them.")));
}

/*
 * From now on grants are not confirmed by standbys.  A standby that does not
 * know of that, and believes that it has them all ("trust"), must not be left
 * behind: so "trust" is given up first, in a transaction of its own, and what
 * was committed is confirmed.
 */
static void
check_leaves_quorum(const IdgenNamespace *ns, bool changed_here, int64 until_us)
{
	if (strcmp(ns->row.promotion, "trust") == 0)
		idgen_arguments_invalid("durability \"quorum\" cannot be given up together with promotion \"trust\"",
								"Change the promotion policy first, commit, and then the durability.");
	require_policy_committed(ns, changed_here);
	await_confirmation(ns, until_us);
}

/*
 * Before the policy is locked, so that standbys which do not confirm hold up
 * nobody else who changes it: what is waited for behind the lock is then what was
 * committed meanwhile.
 */
static void
prepare_to_leave_quorum(const IdgenNamespace *ns, const char *durability, int64 until_us)
{
	if (ns->quorum && strcmp(durability, "local") == 0 &&
		strcmp(ns->row.promotion, "trust") != 0)
		await_confirmation(ns, until_us);
}

/*
 * "split" is chosen at creation, or until the first grant.  Its parts may only be made
 * where no standby can trust itself with all of the workers: with durability "local",
 * which is taken with the confirmation of standbys.
 */
static void
check_changes_split(const IdgenNamespace *ns, const IdgenNamespaceRow *row)
{
	if (row->split_parts != ns->row.split_parts &&
		(ns->quorum || strcmp(row->durability, "quorum") == 0))
		idgen_arguments_invalid("promotion \"split\" can only be chosen with durability \"local\"",
								"Change the durability in calls of its own, before and after.");
	if (!claim_unused(ns, row))
		idgen_arguments_invalid("promotion \"split\" cannot be chosen or given up once something was granted",
								"Create another namespace.");
}

/* What a change of policy rests on. */
static void
check_change(const IdgenNamespace *ns, const IdgenNamespaceRow *row, bool changed_here,
			 int64 until_us)
{
	bool		splits = strcmp(row->promotion, "split") == 0;
	bool		has_split = strcmp(ns->row.promotion, "split") == 0;

	if (splits != has_split)
		check_changes_split(ns, row);
	if (ns->quorum && strcmp(row->durability, "quorum") != 0)
		check_leaves_quorum(ns, changed_here, until_us);
	if (strcmp(row->promotion, "trust") == 0 && strcmp(ns->row.promotion, "trust") != 0)
		check_enters_trust(ns, changed_here);
}

/*
 * Lock the policy of a namespace and read it again: what another session
 * changes at the same time counts.
 */
static bool
lock_policy(IdgenNamespace *ns, int64 until_us)
{
	bool		changed_here = idgen_policy_lock_row(ns->name, until_us);

	if (!idgen_namespace_refresh(ns))
		(void) idgen_namespace_get(ns->name, ns->name_length);
	idgen_namespace_require_owned(ns);
	return changed_here;
}

PG_FUNCTION_INFO_V1(idgen_alter_namespace);
Datum
idgen_alter_namespace(PG_FUNCTION_ARGS)
{
	IdgenNamespace *ns = owned_namespace(fcinfo, "name", "idgen_alter_namespace()");
	int64		until_us = idgen_clock_monotonic_us() +
		(int64) Max(idgen_wait_timeout_ms, IDGEN_COMMAND_WITHIN_MIN_MS) * 1000;
	bool		changed_here;
	IdgenNamespaceRow row;
	IdgenPolicyGiven given = {
		.grant_interval = !PG_ARGISNULL(ALTER_GRANT_INTERVAL),
		.run_ahead = !PG_ARGISNULL(ALTER_RUN_AHEAD),
		.durability = !PG_ARGISNULL(ALTER_DURABILITY),
		.promotion = !PG_ARGISNULL(ALTER_PROMOTION),
		.restricted = !PG_ARGISNULL(ALTER_RESTRICTED),
		.owner = !PG_ARGISNULL(ALTER_OWNER)
	};

	if (given.durability)
		prepare_to_leave_quorum(ns, text_to_cstring(PG_GETARG_TEXT_PP(ALTER_DURABILITY)), until_us);
	changed_here = lock_policy(ns, until_us);
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
		strlcpy(row.durability, text_to_cstring(PG_GETARG_TEXT_PP(ALTER_DURABILITY)),
				NAMEDATALEN);
	if (given.promotion)
		choose_promotion(&row, text_to_cstring(PG_GETARG_TEXT_PP(ALTER_PROMOTION)));
	if (given.restricted)
		row.restricted = PG_GETARG_BOOL(ALTER_RESTRICTED);
	if (given.owner)
		alter_owner(&row, PG_GETARG_OID(ALTER_OWNER));
	idgen_namespace_check_row(&row);
	check_change(ns, &row, changed_here, until_us);
	if (strcmp(row.durability, ns->row.durability) != 0 ||
		strcmp(row.promotion, ns->row.promotion) != 0)
		idgen_policy_begin_change(ns->name, until_us);
	idgen_namespace_rows_write_policy(&row, &given);

	/* the next change may rest on this one, which a crash must not take back */
	ForceSyncCommit();
	idgen_at_commit_kill(ns->name);
	PG_RETURN_VOID();
}

/* Give or take back a privilege; both are idempotent. */
static void
change_privilege(FunctionCallInfo fcinfo, bool allow, const char *function)
{
	IdgenNamespace *ns = owned_namespace(fcinfo, "namespace", function);
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

/* --------------------------------------------------------------------
 * Ending, fencing, adopting: carried out by the authority
 * -------------------------------------------------------------------- */

static char *
name_argument(FunctionCallInfo fcinfo, const char *function)
{
	REQUIRE_ARG(0, "name");
	PreventCommandIfReadOnly(function);
	return text_to_cstring(PG_GETARG_TEXT_PP(0));
}

PG_FUNCTION_INFO_V1(idgen_retire_namespace);
Datum
idgen_retire_namespace(PG_FUNCTION_ARGS)
{
	idgen_client_retire(name_argument(fcinfo, "idgen_retire_namespace()"));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(idgen_fence_namespace);
Datum
idgen_fence_namespace(PG_FUNCTION_ARGS)
{
	idgen_client_fence(name_argument(fcinfo, "idgen_fence_namespace()"),
						PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(idgen_adopt_namespace);
Datum
idgen_adopt_namespace(PG_FUNCTION_ARGS)
{
	char	   *name = name_argument(fcinfo, "idgen_adopt_namespace()");

	if ((!PG_ARGISNULL(2) && PG_GETARG_INT32(2) < 0) ||
		(!PG_ARGISNULL(3) && PG_GETARG_INT32(3) < 0))
		idgen_arguments_invalid("first_worker and last_worker must not be negative",
								NULL);
	idgen_client_adopt(name, PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1),
						PG_ARGISNULL(2) ? -1 : PG_GETARG_INT32(2),
						PG_ARGISNULL(3) ? -1 : PG_GETARG_INT32(3));
	PG_RETURN_VOID();
}
