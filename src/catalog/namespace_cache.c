/*
 * namespace_cache.c
 *		Look namespaces up by name, and notice when they change.
 *
 * An entry is read from the tables once and kept until an invalidation says that
 * some namespace has changed (idgen_tables_announce).  Like a change of a catalog,
 * that reaches a session at its next statement.
 */
#include "compat.h"

#include "catalog/namespace_cache.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "catalog/scan.h"
#include "catalog/tables.h"
#include "error.h"
#include "random.h"
#include "shmem/shmem.h"

static HTAB *entries = NULL;

/* A role or a membership changed, and with it perhaps who may issue. */
static void
membership_changed(Datum arg, int cache, uint32 hash)
{
	idgen_namespace_version++;
}

/* Called once in each process that preloads or loads the library. */
void
idgen_namespace_init(void)
{
	idgen_tables_init();
	CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, membership_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AUTHOID, membership_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(DATABASEOID, membership_changed, (Datum) 0);
}

static void
undefined_namespace(const char *name)
{
	IdgenError	error;

	idgen_error_set(&error, IDGEN_ERROR_UNDEFINED, NULL, NULL);
	idgen_error_report(&error, name);
}

/*
 * A namespace without a row.  There is none of this name, unless rows were deleted while
 * the guards were off: then its identity is still there or, if tables were emptied,
 * not even the namespace that the install script made.
 */
static void
missing_namespace(const char *name, IdgenDeadline deadline)
{
	IdgenAuthorityRow authority;
	IdgenNamespaceRow row;
	TransactionId xmin;
	bool		inserted;
	IdgenError	error;

	if (!idgen_tables_find())
		undefined_namespace(name);
	if (idgen_scan_authority(name, &authority, &xmin, &inserted, deadline))
		idgen_error_set(&error, IDGEN_ERROR_UNAVAILABLE,
						"Its row in table \"idgen_namespace\" was deleted from outside.",
						IDGEN_HINT_ROW_LOST);
	else if (!idgen_scan_namespace("default", &row, deadline))
		idgen_error_set(&error, IDGEN_ERROR_UNDEFINED,
						"The tables of idgen were emptied from outside.",
						IDGEN_HINT_ROW_LOST);
	else
		undefined_namespace(name);
	idgen_error_report(&error, name);
}

/*
 * Until the authority takes over a namespace without an identity, requests name
 * it by a stand-in, which every process derives from the name in the same way.
 */
static void
stand_in_uuid(const char *name, pg_uuid_t *uuid)
{
	uint64		halves[2];

	for (int i = 0; i < 2; i++)
		halves[i] = hash_bytes_extended((const unsigned char *) name,
										(int) strlen(name), (uint64) i + 1);
	StaticAssertStmt(sizeof(halves) == UUID_LEN, "two halves make a uuid");
	memcpy(uuid->data, halves, UUID_LEN);
}

/*
 * Read an entry anew from the tables.  False if the namespace is gone; then
 * the entry stays out of date.  Here and below, the deadline is for locks on the
 * tables.
 */
static bool
refresh(IdgenNamespace *ns, IdgenDeadline deadline)
{
	uint64		version;
	IdgenAuthorityRow authority;
	TransactionId xmin = InvalidTransactionId;
	bool		inserted = false;
	bool		has_identity;

	/* the version afterwards: finding the tables may process invalidations */
	if (!idgen_tables_find())
		return false;
	version = idgen_namespace_version;
	if (!idgen_scan_namespace(ns->name, &ns->row, deadline))
		return false;
	has_identity = idgen_scan_authority(ns->name, &authority, &xmin, &inserted, deadline);
	ns->has_identity = has_identity;
	ns->format_changed = false;
	if (!has_identity)
	{
		memset(&ns->authority, 0, sizeof(ns->authority));
		stand_in_uuid(ns->name, &ns->authority.uuid);
	}
	else
	{
		char		format[IDGEN_FORMAT_MAX];

		ns->authority = authority;
		idgen_rows_format_text(&ns->row.layout, format);
		ns->format_changed = strcmp(format, authority.format) != 0 ||
			ns->row.split_parts != authority.split_modulus;
	}
	ns->made_here = has_identity && TransactionIdIsCurrentTransactionId(xmin);

	/*
	 * a session inserts the identity of a namespace only if it creates the
	 * namespace
	 */
	ns->created_here = ns->made_here && inserted;
	ns->quorum = ns->row.durability == IDGEN_DURABILITY_QUORUM;
	ns->run_ahead = ns->row.run_ahead_ms / ns->row.layout.tick_ms;
	ns->version = version;
	return true;
}

/* Have an entry read again when it is looked up next. */
void
idgen_namespace_expire(IdgenNamespace *ns)
{
	ns->version = 0;
}

/*
 * Read an entry again, even if no change is known.  What was derived from it,
 * such as an open session, is out of date then.
 */
bool
idgen_namespace_refresh(IdgenNamespace *ns)
{
	idgen_namespace_version++;
	return refresh(ns, IDGEN_DEADLINE_UNSET);
}

static IdgenNamespace *
find_or_make_entry(const char *key)
{
	bool		exists;
	IdgenNamespace *ns;

	if (entries == NULL)
	{
		HASHCTL		control = {
			.keysize = NAMEDATALEN,
			.entrysize = sizeof(IdgenNamespace),
			.hcxt = TopMemoryContext
		};

		entries = hash_create("idgen namespaces", 8, &control,
							  HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	}
	ns = hash_search(entries, key, HASH_ENTER, &exists);
	if (!exists)
	{
		memset((char *) ns + NAMEDATALEN, 0, sizeof(*ns) - NAMEDATALEN);
		ns->name_length = (int) strlen(key);
	}
	return ns;
}

/*
 * The entry of a namespace, up to date; NULL if there is no such namespace.
 * Names that do not exist are not remembered: there is no limit to them.
 */
static IdgenNamespace *
find(const char *name, IdgenDeadline deadline)
{
	IdgenNamespace *ns = NULL;

	if (entries != NULL)
		ns = hash_search(entries, name, HASH_FIND, NULL);
	if (ns == NULL)
	{
		IdgenNamespaceRow row;

		if (!idgen_tables_find() || !idgen_scan_namespace(name, &row, deadline))
			return NULL;
		ns = find_or_make_entry(name);
	}
	if (!idgen_namespace_is_current(ns) && !refresh(ns, deadline))
		return NULL;
	return ns;
}

/* The same, with the time that idgen.wait_timeout gives. */
IdgenNamespace *
idgen_namespace_find(const char *name)
{
	return find(name, IDGEN_DEADLINE_UNSET);
}

/* The same, but an error (42704) if there is none; the name is not terminated. */
IdgenNamespace *
idgen_namespace_get_until(const char *name, int name_length, IdgenDeadline deadline)
{
	char		key[NAMEDATALEN];
	IdgenNamespace *ns;

	if (name_length >= NAMEDATALEN)
		undefined_namespace(pnstrdup(name, pg_mbcliplen(name, name_length,
														NAMEDATALEN - 1)));
	memcpy(key, name, name_length);
	key[name_length] = '\0';

	ns = find(key, deadline);
	if (ns == NULL)
		missing_namespace(key, deadline);
	return ns;
}

/* The same, with the time that idgen.wait_timeout gives. */
IdgenNamespace *
idgen_namespace_get(const char *name, int name_length)
{
	return idgen_namespace_get_until(name, name_length, IDGEN_DEADLINE_UNSET);
}

/* Does a role own a namespace, by itself or as a member of its owner? */
bool
idgen_namespace_owned(const IdgenNamespace *ns, Oid role)
{
	Oid			owner = get_role_oid(ns->row.owner, true);

	return superuser_arg(role) ||
		(OidIsValid(owner) && has_privs_of_role(role, owner));
}

/* An error, without waiting, if the authority cannot see the namespace yet. */
void
idgen_namespace_require_committed(const IdgenNamespace *ns)
{
	if (ns->made_here)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("namespace \"%s\" was created in this transaction",
						ns->name),
				 errdetail("The authority process cannot see it before the transaction commits."),
				 errhint("Commit first.")));
}

/* An error unless shared memory was set up when the server started. */
void
idgen_namespace_require_preloaded(const char *name, int name_length)
{
	if (idgen_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("namespace \"%.*s\" cannot issue IDs: idgen is not preloaded",
						name_length, name),
				 errdetail("IDs come from shared memory, which is set up when the server starts."),
				 errhint("Add this line to postgresql.conf and restart: shared_preload_libraries = 'idgen' (with the libraries already listed there).")));
}

/* An error unless the current user owns the namespace. */
void
idgen_namespace_require_owned(const IdgenNamespace *ns)
{
	IdgenError	error;

	if (idgen_namespace_owned(ns, GetUserId()))
		return;
	idgen_error_set(&error, IDGEN_ERROR_NOT_OWNER, NULL, NULL);
	idgen_error_report(&error, ns->name);
}
