/*
 * session.c
 *		Open a namespace for issuing, and keep track of its cursors.
 *
 * A namespace is opened once, with all checks: whether the user may issue from
 * it, and whether it can be issued from here and now.  It stays open until an
 * invalidation says that some namespace has changed.
 */
#include "compat.h"

#include "session/session.h"

#include "access/xlog.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"

#include "catalog/scan.h"
#include "clock.h"
#include "error.h"
#include "random.h"
#include "shmem/counters.h"

static HTAB *sessions = NULL;

/* Forget what was issued and from where: this is another ID space now. */
static void
forget_id_space(IdgenSession *session)
{
	session->last_id = 0;
	session->last_tick = -1;
	session->last_worker = -1;
	session->last_generation = 0;
	session->pool_version = 0;
	session->ref_count = 0;
	session->current = session->refs;
	session->home = session->refs;
	session->contentions = 0;
	session->stats = NULL;
}

static IdgenSession *
find_or_make_session(IdgenNamespace *ns)
{
	bool		exists;
	IdgenSession *session;

	if (sessions == NULL)
	{
		HASHCTL		control = {
			.keysize = NAMEDATALEN,
			.entrysize = sizeof(IdgenSession),
			.hcxt = TopMemoryContext
		};

		sessions = hash_create("idgen sessions", 8, &control,
							   HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	}
	session = hash_search(sessions, ns->name, HASH_ENTER, &exists);
	if (!exists)
	{
		memset((char *) session + NAMEDATALEN, 0, sizeof(*session) - NAMEDATALEN);
		session->name_length = ns->name_length;
		session->ns = ns;
		forget_id_space(session);
	}
	return session;
}

/* Count a failure to open a namespace, and raise it. */
static void
refuse_to_open(const IdgenNamespace *ns, const IdgenError *error)
{
	idgen_counters_note_error(idgen_counters_get(MyDatabaseId, ns->name), error);
	idgen_error_report(error, ns->name);
}

/* An error unless the current user may issue from a restricted namespace. */
static void
check_user(const IdgenNamespace *ns, IdgenDeadline deadline)
{
	Oid			user = GetUserId();
	IdgenError	error;

	if (idgen_namespace_owned(ns, user) ||
		idgen_scan_privileged(ns->name, IDGEN_PRIVILEGE_ISSUE, user, deadline))
		return;
	idgen_error_set(&error, IDGEN_ERROR_FORBIDDEN,
					"It is restricted, and issuing from it needs the privilege \"issue\".",
					IDGEN_HINT_ALLOW);
	refuse_to_open(ns, &error);
}

/* An error unless this namespace can be issued from, here and now. */
static void
check_namespace(const IdgenNamespace *ns)
{
	IdgenError	error;

	idgen_error_clear(&error);
	if (ns->row.retired)
		idgen_error_set(&error, IDGEN_ERROR_RETIRED, NULL, NULL);
	else if (!ns->row.issuing)
		idgen_error_set(&error, IDGEN_ERROR_RETIRED,
						"It was created for decoding only.", NULL);
	else if (ns->row.handed_over)
		idgen_error_set(&error, IDGEN_ERROR_HANDED_OVER, NULL, NULL);
	else if (!ns->has_identity &&
			 idgen_on_copied_authority != IDGEN_ON_COPIED_FENCE)
		idgen_error_set(&error, IDGEN_ERROR_COPIED,
						IDGEN_DETAIL_NO_IDENTITY, NULL);
	else if (ns->format_changed)
		idgen_error_set(&error, IDGEN_ERROR_UNAVAILABLE,
						IDGEN_DETAIL_FORMAT_CHANGED,
						IDGEN_HINT_FORMAT_CHANGED);
	else if (RecoveryInProgress())
		idgen_error_set(&error, IDGEN_ERROR_UNAVAILABLE,
						"This server is a standby; only a primary issues IDs.",
						"Issue on the primary; decoding works here.");
	else if (!IsUnderPostmaster)
		idgen_error_set(&error, IDGEN_ERROR_UNAVAILABLE,
						IDGEN_DETAIL_SINGLE_USER, IDGEN_HINT_SINGLE_USER);
	if (error.kind != IDGEN_ERROR_NONE)
		refuse_to_open(ns, &error);
}

/* Open a session whose namespace is up to date, or raise an error. */
static void
open_session(IdgenSession *session, IdgenDeadline deadline)
{
	IdgenNamespace *ns = session->ns;

	if (idgen_session_is_open(session))
		return;

	/* the user first: those who may not issue learn and cause nothing else */
	session->open_version = 0;
	if (ns->row.restricted)
		check_user(ns, deadline);
	check_namespace(ns);
	if (!ns->created_here)
		idgen_namespace_require_committed(ns);

	if (!ns->has_identity ||
		!idgen_same_uuid(&session->uuid, &ns->authority.uuid))
		forget_id_space(session);
	session->uuid = ns->authority.uuid;
	session->only_user = ns->row.restricted ? GetUserId() : InvalidOid;
	session->open_version = ns->version;
}

/*
 * The session of a namespace to issue from, and the deadline of the call that
 * opens it.  The name is not terminated.  Errors: 55000 if the library was not
 * preloaded, 42704, 42501, and those of check_namespace.
 */
IdgenSession *
idgen_session_open(const char *name, int name_length, IdgenDeadline *deadline)
{
	IdgenSession *session;

	idgen_namespace_require_preloaded(name, name_length);
	*deadline = idgen_deadline_from(idgen_clock_monotonic_us());
	session = find_or_make_session(idgen_namespace_get_until(name, name_length,
															 *deadline));
	open_session(session, *deadline);
	return session;
}

/*
 * Open the namespace again if it may have changed.  True if that was done, which may
 * have waited for locks on tables.  A statement that has to wait comes here again and
 * again, so that invalidations reach it, too.
 */
bool
idgen_session_reopen(IdgenSession *session, IdgenDeadline deadline)
{
	AcceptInvalidationMessages();
	if (session->open_version == idgen_namespace_version)
		return false;
	(void) idgen_namespace_get_until(session->name, session->name_length, deadline);
	open_session(session, deadline);
	return true;
}

/*
 * A cursor is gone.  The reason may be one that this process has not been told
 * yet, because an invalidation comes after the commit that killed the cursor.
 * So the namespace is looked up in its table again, too.
 */
void
idgen_session_look_again(IdgenSession *session)
{
	idgen_namespace_expire(session->ns);
	session->open_version = 0;
	session->pool_version = 0;
}

/* List the cursors again if any came or went. */
void
idgen_session_list_cursors(IdgenSession *session)
{
	uint64		version = idgen_pool_version();

	if (session->pool_version == version)
		return;
	session->ref_count = idgen_pool_list(MyDatabaseId, &session->uuid, session->refs,
										 idgen_max_workers_per_namespace);
	session->pool_version = version;
	if (session->home >= session->refs + session->ref_count)
		session->home = session->refs + Max(session->ref_count - 1, 0);
	session->current = session->home;

	/* the statistics of a namespace without cursors may have been given away */
	session->stats = idgen_counters_get(MyDatabaseId, session->name);
}

/* What all cursors of the session have issued; read without their locks. */
uint64
idgen_session_issued_by_all(const IdgenSession *session)
{
	uint64		count = 0;

	for (int i = 0; i < session->ref_count; i++)
		count += *(volatile uint64 *) &session->refs[i].slot->issued_count;
	return count;
}
