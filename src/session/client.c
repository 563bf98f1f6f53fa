/*
 * client.c
 *		Ask the authority, as a session, for anything but an ID.
 *
 * What is done here is durable when the call returns, and stays so whatever
 * the calling transaction does next.
 */
#include "compat.h"

#include "session/client.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/inval.h"

#include "catalog/namespace_cache.h"
#include "catalog/policy.h"
#include "catalog/scan.h"
#include "catalog/tables.h"
#include "clock.h"
#include "deadline.h"
#include "session/token.h"
#include "shmem/counters.h"
#include "shmem/shmem.h"

/* --------------------------------------------------------------------
 * Common
 * -------------------------------------------------------------------- */

/*
 * Raise an error in single-user mode, where there is no authority process to
 * ask.
 */
static void
require_postmaster(const char *name)
{
	IdgenError	error;

	if (IsUnderPostmaster)
		return;
	idgen_error_set(&error, IDGEN_ERROR_UNAVAILABLE,
					IDGEN_DETAIL_SINGLE_USER,
					IDGEN_HINT_SINGLE_USER);
	idgen_error_report(&error, name);
}

/* A request about a namespace that exists and is committed. */
static IdgenNamespace *
begin_request(IdgenRequest *request, IdgenRequestKind kind, const char *name,
			  const char *function)
{
	IdgenNamespace *ns;

	PreventCommandDuringRecovery(function);
	idgen_namespace_require_preloaded(name, (int) strlen(name));
	ns = idgen_namespace_get(name, (int) strlen(name));
	idgen_namespace_require_committed(ns);
	require_postmaster(ns->name);

	memset(request, 0, sizeof(*request));
	request->kind = kind;
	strlcpy(request->namespace_name, ns->name, NAMEDATALEN);
	request->namespace_uuid = ns->authority.uuid;
	request->first_worker = -1;
	request->last_worker = -1;
	return ns;
}

/* A request that only the owner of the namespace may make. */
static IdgenNamespace *
begin_owner_request(IdgenRequest *request, IdgenRequestKind kind, const char *name,
					const char *function)
{
	IdgenNamespace *ns = begin_request(request, kind, name, function);

	idgen_namespace_require_owned(ns);
	return ns;
}

/*
 * Wait for the answer; anything but success is raised as an error.  The first
 * request since a promotion or an adoption may have made the authority take
 * the namespace over.  Then the authority is asked again, under the uuid that
 * the namespace has now.  That ends at the deadline: a transaction that has
 * restored marks sees a namespace that the authority does not see yet, and
 * would ask for ever.
 */
static void
finish_request(IdgenRequest *request, IdgenAnswer *answer)
{
	IdgenDeadline deadline = idgen_deadline_of_command_from(idgen_clock_monotonic_us());

	idgen_queue_call(request, answer);
	while (answer->outcome == IDGEN_OUTCOME_CHANGED &&
		   idgen_clock_monotonic_us() < deadline)
	{
		AcceptInvalidationMessages();
		request->namespace_uuid =
			idgen_namespace_get(request->namespace_name,
								(int) strlen(request->namespace_name))->authority.uuid;
		idgen_queue_call(request, answer);
	}
	if (answer->outcome == IDGEN_OUTCOME_SERVED)
		return;
	if (answer->outcome == IDGEN_OUTCOME_CHANGED)
		idgen_error_set(&answer->error, IDGEN_ERROR_UNAVAILABLE,
						"The authority process and this transaction do not see the same namespace.",
						"If marks were restored in this transaction, commit first; then retry.");
	if (request->namespace_name[0] != '\0')
		idgen_counters_note_error(idgen_counters_get(MyDatabaseId, request->namespace_name),
								  &answer->error);
	idgen_error_report(&answer->error, request->namespace_name);
}

/* --------------------------------------------------------------------
 * Namespaces
 * -------------------------------------------------------------------- */

/*
 * Retire a namespace; no error if it is retired already.  With durability
 * "quorum" the retirement may not be confirmed yet, so the authority is asked
 * all the same.
 */
void
idgen_client_retire(const char *name)
{
	IdgenRequest request;
	IdgenAnswer answer;
	const IdgenNamespace *ns = begin_owner_request(&request, IDGEN_REQUEST_RETIRE, name,
												   "idgen_retire_namespace()");

	if (ns->row.retired && !ns->quorum)
		return;
	finish_request(&request, &answer);
}

/*
 * An ID given as "above" must be an ID of the namespace.  How far in the
 * future it may lie is for the authority to judge.
 */
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
				 errhint("Pass the greatest known ID as \"above\".")));
}

/* Fence a namespace; above is an ID, or 0. */
void
idgen_client_fence(const char *name, int64 above)
{
	IdgenRequest request;
	IdgenAnswer answer;

	check_above(begin_owner_request(&request, IDGEN_REQUEST_FENCE, name,
									"idgen_fence_namespace()"), above);
	request.above = above;
	finish_request(&request, &answer);
}

/* The format in a ticket must be that of the namespace. */
static void
check_ticket(const IdgenNamespace *ns, const IdgenTicketText *ticket)
{
	char		format[IDGEN_FORMAT_MAX];
	int64_t		tick;
	int64_t		worker;
	int64_t		sequence;

	idgen_rows_format_text(&ns->row.layout, format);
	if (strcmp(format, ticket->format) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the ticket has another format than namespace \"%s\"", ns->name),
				 errdetail("The format of the ticket is \"%s\", that of the namespace \"%s\".",
						   ticket->format, format),
				 errhint("Adopt the ticket for a namespace of the same format.")));
	if (ticket->hand_over.greatest_id != 0 &&
		idgen_layout_decode(&ns->row.layout, ticket->hand_over.greatest_id, &tick, &worker,
							&sequence) != IDGEN_FIT_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the ticket has an ID that namespace \"%s\" cannot have", ns->name),
				 errhint("Pass the ticket as idgen_hand_over_namespace() has returned it.")));
}

/*
 * Adopt a namespace.  Workers of -1 stay as they are; above is an ID, or 0; the ticket
 * may be NULL.
 */
void
idgen_client_adopt(const char *name, int64 above, int32 first_worker,
				   int32 last_worker, const IdgenTicketText *ticket)
{
	IdgenRequest request;
	IdgenAnswer answer;
	IdgenNamespaceRow row;
	IdgenNamespace *ns = begin_owner_request(&request, IDGEN_REQUEST_ADOPT, name,
											 "idgen_adopt_namespace()");

	check_above(ns, above);
	request.above = above;
	if (ticket != NULL)
	{
		check_ticket(ns, ticket);
		request.ticket = ticket->hand_over;
		request.lineage = ticket->lineage;
	}
	if (first_worker >= 0 || last_worker >= 0)
	{
		request.first_worker = first_worker >= 0 ? first_worker :
			ns->row.first_worker;
		request.last_worker = last_worker >= 0 ? last_worker : ns->row.last_worker;
		row = ns->row;
		row.first_worker = request.first_worker;
		row.last_worker = request.last_worker;
		idgen_policy_check(&row);
	}
	finish_request(&request, &answer);
}

/*
 * Hand a namespace over, and fill in the ticket.  The caller waits for the standbys
 * before it shows the ticket to anybody.
 */
void
idgen_client_hand_over(const char *name, IdgenTicketText *ticket)
{
	IdgenRequest request;
	IdgenAnswer answer;
	const IdgenNamespace *ns = begin_owner_request(&request, IDGEN_REQUEST_HAND_OVER, name,
												   "idgen_hand_over_namespace()");

	finish_request(&request, &answer);
	ticket->hand_over = answer.ticket;
	ticket->lineage = ns->row.lineage;
	idgen_rows_format_text(&ns->row.layout, ticket->format);
}

/* --------------------------------------------------------------------
 * Incarnations
 * -------------------------------------------------------------------- */

/* Where this session comes from, for the record. */
static void
describe_session(IdgenRequest *request)
{
	LOCAL_FCINFO(fcinfo, 0);
	Datum		address;

	InitFunctionCallInfoData(*fcinfo, NULL, 0, InvalidOid, NULL, NULL);
	address = inet_client_addr(fcinfo);
	if (!fcinfo->isnull)
		strlcpy(request->address,
				DatumGetCString(DirectFunctionCall1(inet_out, address)),
				IDGEN_ADDRESS_MAX);
	strlcpy(request->application, application_name ? application_name : "",
			NAMEDATALEN);
}

/*
 * A request for which a privilege is missing is refused here: it starts no
 * authority process, and is not counted among the errors of the namespace.
 * The authority checks again whatever passes.
 */
static void
refuse_request(const char *name, IdgenErrorKind kind, const char *detail, const char *hint)
{
	IdgenError	error;

	idgen_error_set(&error, kind, detail, hint);
	if (name[0] != '\0')
		idgen_counters_note_refusal(idgen_counters_get(MyDatabaseId, name));
	idgen_error_report(&error, name);
}

/* May the current user have external incarnations of a namespace? */
static bool
may_acquire(const IdgenNamespace *ns)
{
	return idgen_namespace_owned(ns, GetUserId()) ||
		idgen_scan_privileged(ns->name, IDGEN_PRIVILEGE_ACQUIRE, GetUserId(), IDGEN_DEADLINE_UNSET);
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
 * Activate an external incarnation of a namespace.  "token" needs room for
 * IDGEN_TOKEN_SIZE.
 */
void
idgen_client_activate(const char *name, IdgenAnswer *answer, char *token)
{
	IdgenRequest request;
	const IdgenNamespace *ns = begin_request(&request, IDGEN_REQUEST_ACTIVATE, name,
											 "idgen_activate()");

	if (!may_acquire(ns))
		refuse_request(ns->name, IDGEN_ERROR_FORBIDDEN,
					   "Activation needs the privilege \"acquire\".",
					   IDGEN_HINT_ALLOW);
	idgen_token_make(token);
	idgen_token_hash(token, request.token_hash);
	describe_session(&request);
	finish_request(&request, answer);
}

/*
 * Acquire the next grant of an external incarnation.  "asked" has the
 * incarnation, the request id, the grant that this one follows, and the
 * length.
 */
void
idgen_client_acquire(const char *name, const IdgenRequest *asked, const char *token,
					 IdgenAnswer *answer)
{
	IdgenRequest request;
	IdgenNamespace *ns = begin_request(&request, IDGEN_REQUEST_ACQUIRE, name,
									   "idgen_acquire_grant()");

	if (asked->length_ms > ns->row.layout.horizon_ms)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("length must not exceed the horizon of namespace \"%s\"",
						ns->name)));
	if (!may_acquire(ns) && !is_holder(asked->incarnation))
		refuse_request(ns->name, IDGEN_ERROR_REJECTED,
					   IDGEN_DETAIL_NOT_HOLDER,
					   IDGEN_HINT_ACTIVATE);
	request.incarnation = asked->incarnation;
	request.request_id = asked->request_id;
	request.after_grant = asked->after_grant;
	request.length_ms = asked->length_ms;
	idgen_token_hash(token, request.token_hash);
	finish_request(&request, answer);
}

/* A request about an incarnation; the authority finds its namespace. */
static void
begin_incarnation_request(IdgenRequest *request, IdgenRequestKind kind,
						  int64 incarnation, const char *function)
{
	PreventCommandDuringRecovery(function);
	idgen_require_preloaded();
	require_postmaster("");
	memset(request, 0, sizeof(*request));
	request->kind = kind;
	request->incarnation = incarnation;
}

/* The holder ends its incarnation. */
void
idgen_client_deactivate(int64 incarnation, const char *token)
{
	IdgenRequest request;
	IdgenAnswer answer;

	begin_incarnation_request(&request, IDGEN_REQUEST_DEACTIVATE, incarnation,
							  "idgen_deactivate()");
	if (!is_holder(incarnation))
		refuse_request("", IDGEN_ERROR_REJECTED,
					   IDGEN_DETAIL_NOT_HOLDER,
					   "Check the incarnation and its token.");
	idgen_token_hash(token, request.token_hash);
	finish_request(&request, &answer);
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
	IdgenRequest request;
	IdgenAnswer answer;

	begin_incarnation_request(&request, IDGEN_REQUEST_END, incarnation,
							  "idgen_end_incarnation()");
	if (!superuser() && !owns_incarnation(incarnation))
		refuse_request("", IDGEN_ERROR_FORBIDDEN,
					   "Only the owner of the namespace can end its incarnations.", NULL);
	finish_request(&request, &answer);
}
