/*
 * client.c
 *		Check, post and wait for requests of sessions to the authority.
 *
 * What is done here is durable when the call returns, and stays so whatever the
 * calling transaction does next.
 *
 * A token never leaves the session that receives or sends it: the authority
 * sees its hash.  A token is 128 random bits, so a plain SHA-256 of it can be
 * neither guessed nor looked up.
 */
#include "compat.h"

#include "session/client.h"

#include "access/xlog.h"
#include "common/cryptohash.h"
#include "common/sha2.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/inval.h"

#include "clock.h"
#include "catalog/namespace_cache.h"
#include "catalog/policy.h"
#include "catalog/scan.h"
#include "settings.h"
#include "shmem/shmem.h"
#include "shmem/counters.h"

#define TOKEN_BYTES 16

/* --------------------------------------------------------------------
 * Common
 * -------------------------------------------------------------------- */

/* An error in single-user mode, where there is no authority worker to ask. */
static void
require_postmaster(const char *name)
{
	IdgenError error;

	if (IsUnderPostmaster)
		return;
	idgen_error_set(&error, IDGEN_ERROR_UNAVAILABLE,
					  "There are no background workers in single-user mode.",
					  "Start the server normally.");
	idgen_error_report(&error, name);
}

/* A request about a namespace that exists and is committed. */
static IdgenNamespace *
begin_request(IdgenMail *mail, IdgenRequestKind kind, const char *name,
			  const char *function)
{
	IdgenNamespace *ns;

	PreventCommandDuringRecovery(function);
	idgen_namespace_require_preloaded(name, (int) strlen(name));
	ns = idgen_namespace_get(name, (int) strlen(name));
	idgen_namespace_require_committed(ns);
	require_postmaster(ns->name);

	memset(mail, 0, sizeof(*mail));
	mail->kind = kind;
	strlcpy(mail->namespace_name, ns->name, NAMEDATALEN);
	mail->namespace_uuid = ns->authority.uuid;
	mail->first_worker = -1;
	mail->last_worker = -1;
	return ns;
}

/* The same for one that only its owner may make. */
static IdgenNamespace *
begin_owner_request(IdgenMail *mail, IdgenRequestKind kind, const char *name,
					const char *function)
{
	IdgenNamespace *ns = begin_request(mail, kind, name, function);

	idgen_namespace_require_owned(ns);
	return ns;
}

/*
 * Wait for the answer; an error if it is a failure.  The first request since a
 * promotion or an adoption may have made the authority take the namespace over:
 * then it is asked again, under the uuid the namespace has now.  But not for
 * ever: a transaction that has restored marks itself sees what the authority
 * does not.
 */
static void
finish_request(IdgenMail *mail, IdgenAnswer *answer)
{
	int64		until_us = idgen_clock_monotonic_us() +
		(int64) Max(idgen_wait_timeout_ms, IDGEN_COMMAND_WITHIN_MIN_MS) * 1000;

	idgen_queue_call(mail, answer);
	while (answer->error.kind == IDGEN_ERROR_AGAIN &&
		   idgen_clock_monotonic_us() < until_us)
	{
		AcceptInvalidationMessages();
		mail->namespace_uuid =
			idgen_namespace_get(mail->namespace_name,
								(int) strlen(mail->namespace_name))->authority.uuid;
		idgen_queue_call(mail, answer);
	}
	if (answer->error.kind == IDGEN_ERROR_NONE)
		return;
	if (answer->error.kind == IDGEN_ERROR_AGAIN)
		idgen_error_set(&answer->error, IDGEN_ERROR_UNAVAILABLE,
						  "The authority process and this transaction do not see the same namespace.",
						  "Commit first, if marks were restored in this transaction, and retry.");
	if (mail->namespace_name[0] != '\0')
		idgen_stats_note_error(idgen_stats_get(MyDatabaseId, mail->namespace_name),
							   &answer->error);
	idgen_error_report(&answer->error, mail->namespace_name);
}

/* --------------------------------------------------------------------
 * Namespaces
 * -------------------------------------------------------------------- */

/*
 * Retire a namespace; no error if it is retired.  With durability "quorum" that
 * may not be confirmed yet, so the authority answers all the same.
 */
void
idgen_client_retire(const char *name)
{
	IdgenMail	mail;
	IdgenAnswer answer;
	const IdgenNamespace *ns = begin_owner_request(&mail, IDGEN_REQUEST_RETIRE, name,
												   "idgen_retire_namespace()");

	if (ns->row.retired && !ns->quorum)
		return;
	finish_request(&mail, &answer);
}

/* An ID given as "above" must be one.  The authority judges how late it may be. */
static void
check_above(const IdgenNamespace *ns, int64 above)
{
	int64_t		tick;
	int64_t		worker;
	int64_t		sequence;

	if (above != 0 &&
		idgen_layout_decode(&ns->row.layout, above, &tick, &worker,
							&sequence) != IDGEN_FIT_OK)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg(INT64_FORMAT " is not an ID of namespace \"%s\"", above,
						ns->name),
				 errhint("\"above\" is the greatest ID that anybody has seen.")));
}

/* Fence a namespace; above is an ID, or 0. */
void
idgen_client_fence(const char *name, int64 above)
{
	IdgenMail	mail;
	IdgenAnswer answer;

	check_above(begin_owner_request(&mail, IDGEN_REQUEST_FENCE, name,
									"idgen_fence_namespace()"), above);
	mail.above = above;
	finish_request(&mail, &answer);
}

/*
 * Adopt a namespace.  Workers of -1 stay as they are; above is an ID, or 0.
 */
void
idgen_client_adopt(const char *name, int64 above, int32 first_worker,
					int32 last_worker)
{
	IdgenMail	mail;
	IdgenAnswer answer;
	IdgenNamespaceRow row;
	IdgenNamespace *ns = begin_owner_request(&mail, IDGEN_REQUEST_ADOPT, name,
											 "idgen_adopt_namespace()");

	check_above(ns, above);
	mail.above = above;
	if (first_worker >= 0 || last_worker >= 0)
	{
		mail.first_worker = first_worker >= 0 ? first_worker :
			ns->row.first_worker;
		mail.last_worker = last_worker >= 0 ? last_worker : ns->row.last_worker;
		row = ns->row;
		row.first_worker = mail.first_worker;
		row.last_worker = mail.last_worker;
		idgen_policy_check(&row);
	}
	finish_request(&mail, &answer);
}

/* --------------------------------------------------------------------
 * Incarnations
 * -------------------------------------------------------------------- */

static void
hash_token(const char *token, uint8 *hash)
{
	pg_cryptohash_ctx *context = pg_cryptohash_create(PG_SHA256);

	StaticAssertStmt(IDGEN_TOKEN_HASH_SIZE == PG_SHA256_DIGEST_LENGTH,
					 "size of a token's hash");
	if (context == NULL ||
		pg_cryptohash_init(context) < 0 ||
		pg_cryptohash_update(context, (const uint8 *) token, strlen(token)) < 0 ||
		pg_cryptohash_final(context, hash, PG_SHA256_DIGEST_LENGTH) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not hash a token")));
	pg_cryptohash_free(context);
}

static void
make_token(char *token)
{
	uint8		bytes[TOKEN_BYTES];

	if (!pg_strong_random(bytes, sizeof(bytes)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	for (int i = 0; i < TOKEN_BYTES; i++)
		snprintf(token + 2 * i, 3, "%02x", bytes[i]);
}

/* Where this session comes from, for the record. */
static void
describe_session(IdgenMail *mail)
{
	LOCAL_FCINFO(fcinfo, 0);
	Datum		address;

	InitFunctionCallInfoData(*fcinfo, NULL, 0, InvalidOid, NULL, NULL);
	address = inet_client_addr(fcinfo);
	if (!fcinfo->isnull)
		strlcpy(mail->address,
				DatumGetCString(DirectFunctionCall1(inet_out, address)),
				IDGEN_ADDRESS_MAX);
	strlcpy(mail->application, application_name ? application_name : "",
			NAMEDATALEN);
}

/*
 * A request that is refused for want of a privilege is refused here: it starts no
 * authority worker, and is not counted among the errors of the namespace.  All that
 * passes is judged again by the authority.
 */
static void
refuse(const char *name, IdgenErrorKind kind, const char *detail, const char *hint)
{
	IdgenError error;

	idgen_error_set(&error, kind, detail, hint);
	if (name[0] != '\0')
		idgen_stats_note_refusal(idgen_stats_get(MyDatabaseId, name));
	idgen_error_report(&error, name);
}

/* May the current user have external incarnations of a namespace? */
static bool
may_acquire(const IdgenNamespace *ns)
{
	return idgen_namespace_owned(ns, GetUserId()) ||
		idgen_scan_privileged(ns->name, IDGEN_PRIVILEGE_ACQUIRE, GetUserId(), 0);
}

/* Did the current user activate an incarnation? */
static bool
is_holder(int64 incarnation)
{
	IdgenHolderRow row;
	const char *role = GetUserNameFromId(GetUserId(), true);

	return idgen_tables_find() && idgen_scan_holder(incarnation, &row) &&
		row.external && role != NULL && strcmp(row.role, role) == 0;
}

/*
 * Activate an external incarnation of a namespace.  token has room for
 * IDGEN_TOKEN_SIZE.
 */
void
idgen_client_activate(const char *name, IdgenAnswer *answer, char *token)
{
	IdgenMail	mail;
	const IdgenNamespace *ns = begin_request(&mail, IDGEN_REQUEST_ACTIVATE, name,
											 "idgen_activate()");

	if (!may_acquire(ns))
		refuse(ns->name, IDGEN_ERROR_FORBIDDEN,
			   "Activation needs the privilege \"acquire\".",
			   "Its owner can give it with idgen_allow().");
	make_token(token);
	hash_token(token, mail.token_hash);
	describe_session(&mail);
	finish_request(&mail, answer);
}

/* The next grant of an external incarnation. */
void
idgen_client_acquire(const char *name, const IdgenClaim *claim,
					  IdgenAnswer *answer)
{
	IdgenMail	mail;
	IdgenNamespace *ns = begin_request(&mail, IDGEN_REQUEST_ACQUIRE, name,
									   "idgen_acquire_grant()");

	if (claim->length_ms > ns->row.layout.horizon_ms)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("length must not exceed the horizon of namespace \"%s\"",
						ns->name)));
	if (!may_acquire(ns) && !is_holder(claim->incarnation))
		refuse(ns->name, IDGEN_ERROR_REJECTED,
			   "It is unknown, or the token is not its token, or another role activated it.",
			   "Activate a fresh incarnation with idgen_activate().");
	mail.incarnation = claim->incarnation;
	mail.request_id = claim->request_id;
	mail.after_grant = claim->after_grant;
	mail.length_ms = claim->length_ms;
	hash_token(claim->token, mail.token_hash);
	finish_request(&mail, answer);
}

/* A request about an incarnation, whose namespace the authority finds out. */
static void
begin_incarnation_request(IdgenMail *mail, IdgenRequestKind kind,
						  int64 incarnation, const char *function)
{
	PreventCommandDuringRecovery(function);
	idgen_require_preloaded();
	require_postmaster("");
	memset(mail, 0, sizeof(*mail));
	mail->kind = kind;
	mail->incarnation = incarnation;
}

/* The holder ends its incarnation. */
void
idgen_client_deactivate(int64 incarnation, const char *token)
{
	IdgenMail	mail;
	IdgenAnswer answer;

	begin_incarnation_request(&mail, IDGEN_REQUEST_DEACTIVATE, incarnation,
							  "idgen_deactivate()");
	if (!is_holder(incarnation))
		refuse("", IDGEN_ERROR_REJECTED,
			   "It is unknown, or the token is not its token, or another role activated it.",
			   "Check the incarnation and its token.");
	hash_token(token, mail.token_hash);
	finish_request(&mail, &answer);
}

/* Does the current user own the namespace of an incarnation? */
static bool
owns_incarnation(int64 incarnation)
{
	IdgenHolderRow row;

	return idgen_tables_find() && idgen_scan_holder(incarnation, &row) &&
		idgen_namespace_owned(idgen_namespace_get(row.namespace_name,
												  (int) strlen(row.namespace_name)),
							  GetUserId());
}

/* The owner of a namespace ends an incarnation. */
void
idgen_client_end(int64 incarnation)
{
	IdgenMail	mail;
	IdgenAnswer answer;

	begin_incarnation_request(&mail, IDGEN_REQUEST_END, incarnation,
							  "idgen_end_incarnation()");
	if (!superuser() && !owns_incarnation(incarnation))
		refuse("", IDGEN_ERROR_FORBIDDEN,
			   "Only the owner of its namespace ends an incarnation that exists.", NULL);
	finish_request(&mail, &answer);
}
