/*
 * namespace_rows.c
 *		Write namespaces, with their policy, identity and floor.
 *
 * Sessions write in their transactions, and the authority process in its own.
 * Whoever changes what processes remember of a namespace tells them at commit.
 */
#include "compat.h"

#include "catalog/namespace_rows.h"

#include "access/xact.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "catalog/policy.h"
#include "catalog/query.h"
#include "catalog/tables.h"
#include "error.h"

/* --------------------------------------------------------------------
 * The hash of a namespace's row
 *
 * Marks are proved by their count and sum (mark_rows.c), and the row of a namespace by
 * its hash.  So when guards were off, what was changed meanwhile is noticed, as is a
 * row of an older dump, which has no hash in it.  Everybody who writes a row makes a
 * new hash, but only if the row was as the old one says: no later write hides a change.
 * The hash is in a table of its own, because it changes with the policy, in sessions'
 * transactions: they must lock no row that a grant needs.
 * -------------------------------------------------------------------- */

/*
 * Is the row of a namespace as idgen wrote it?  False also if it has no hash.
 */
bool
idgen_namespace_rows_hold(const char *name)
{
	bool		isnull;

	return idgen_query_run_for(IDGEN_SQL_ROW_HOLDS, name) > 0 &&
		DatumGetBool(idgen_query_value(0, 1, &isnull)) && !isnull;
}

/* By a session that is about to change a row: an error if somebody else has changed it. */
static void
require_unchanged(const char *name)
{
	bool		isnull;
	IdgenError	error;

	if (idgen_query_run_for(IDGEN_SQL_ROW_HOLDS, name) == 0 ||
		DatumGetBool(idgen_query_value(0, 1, &isnull)) || isnull)
		return;
	idgen_error_set(&error, IDGEN_ERROR_UNAVAILABLE, IDGEN_DETAIL_ROW_CHANGED,
					IDGEN_HINT_ROW_CHANGED);
	idgen_error_report(&error, name);
}

/* Make the hash of a row that was changed; a row without a hash stays without. */
static void
note_changed_row(const char *name)
{
	(void) idgen_query_run_for(IDGEN_SQL_NOTE_CHANGED_ROW, name);
}

/* Take the row of a namespace for what it is: by its creation, a fence or an adoption. */
void
idgen_namespace_rows_accept(const char *name)
{
	(void) idgen_query_run_for(IDGEN_SQL_NOTE_ROW, name);
}

/* --------------------------------------------------------------------
 * In the caller's transaction
 * -------------------------------------------------------------------- */

/* Was anything ever granted from a namespace, or was it ever fenced? */
bool
idgen_namespace_rows_ever_granted(const char *name)
{
	bool		isnull;

	idgen_query_run_for(IDGEN_SQL_EVER_GRANTED, name);
	return DatumGetBool(idgen_query_value(0, 1, &isnull));
}

/*
 * Marks may have been restored before the row of their namespace: an error
 * (22023) unless they fit its format.
 */
void
idgen_namespace_rows_check_marks(const IdgenNamespaceRow *row)
{
	bool		isnull;
	int64		mark = idgen_namespace_rows_highest_mark(row->name);
	int64		worker;

	idgen_query_run_for(IDGEN_SQL_HIGHEST_WORKER, row->name);
	worker = DatumGetInt32(idgen_query_value(0, 1, &isnull));
	if (mark <= idgen_layout_tick_count(&row->layout) &&
		worker < idgen_layout_worker_count(&row->layout))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("restored marks of namespace \"%s\" do not fit its format",
					row->name),
			 errdetail("The highest mark is " INT64_FORMAT ", and the highest worker " INT64_FORMAT ".",
					   mark, worker),
			 errhint("Use the format that the namespace had.")));
}

/*
 * Insert a namespace with its identity and a floor of 0.  False if the name is taken,
 * perhaps by a transaction that committed while this one waited for it.
 *
 * If a restore has brought a floor or marks of this name, they belong to the new
 * namespace, which is then a copy without an identity (*copied).
 */
bool
idgen_namespace_rows_insert(const IdgenNamespaceRow *row,
							const IdgenAuthorityRow *authority, bool *copied)
{
	Datum		values[IDGEN_ARGUMENTS_MAX];
	bool		inserted;
	bool		has_identity;

	*copied = false;
	idgen_query_begin(row->name);
	idgen_rows_write_namespace(row, values);
	inserted = idgen_query_run(IDGEN_SQL_INSERT_NAMESPACE, values, NULL) > 0;
	if (inserted)
	{
		values[0] = CStringGetTextDatum(row->name);
		values[1] = Int64GetDatum(0);
		/* an identity without a row: the row was deleted from outside */
		has_identity = idgen_query_run_for(IDGEN_SQL_FIND_AUTHORITY, row->name) > 0;
		*copied = (idgen_query_run(IDGEN_SQL_INSERT_FLOOR, values, NULL) == 0 ||
				   idgen_namespace_rows_ever_granted(row->name)) && !has_identity;
		if (*copied || has_identity)
			idgen_namespace_rows_check_marks(row);
		else
		{
			idgen_rows_write_authority(row->name, authority, values);
			idgen_query_run(IDGEN_SQL_INSERT_AUTHORITY, values, NULL);
		}
		if (!has_identity)
			idgen_namespace_rows_accept(row->name);
	}
	idgen_query_end();
	idgen_tables_announce();
	return inserted;
}

/*
 * Lock the policy of a namespace against others that change it.  Afterwards
 * the caller reads what they have committed.  True if this transaction has
 * created or changed the namespace.
 */
bool
idgen_namespace_rows_lock_policy(const char *name)
{
	bool		isnull;
	bool		changed_here = false;

	idgen_query_begin(name);
	if (idgen_query_run_for(IDGEN_SQL_LOCK_POLICY, name) > 0)
		changed_here =
			TransactionIdIsCurrentTransactionId(DatumGetTransactionId(idgen_query_value(0, 1, &isnull)));
	idgen_query_end();
	return changed_here;
}

/*
 * Change the given columns of a namespace's policy.  Changes that somebody else makes
 * to other columns at the same time are kept.
 */
void
idgen_namespace_rows_write_policy(const IdgenNamespaceRow *row, const IdgenPolicyGiven *given)
{
	Datum		values[8] = {
		CStringGetTextDatum(row->name),
		Int64GetDatum(row->grant_interval_ms),
		Int64GetDatum(row->run_ahead_ms),
		CStringGetTextDatum(idgen_durability_word(row->durability)),
		CStringGetTextDatum(idgen_promotion_word(row->promotion)),
		BoolGetDatum(row->restricted),
		CStringGetTextDatum(row->owner),
		Int32GetDatum(row->split_parts)
	};
	char		nulls[8] = {
		' ',
		given->grant_interval ? ' ' : 'n',
		given->run_ahead ? ' ' : 'n',
		given->durability ? ' ' : 'n',
		given->promotion ? ' ' : 'n',
		given->restricted ? ' ' : 'n',
		given->owner ? ' ' : 'n',
		given->promotion ? ' ' : 'n'
	};

	idgen_query_begin(row->name);
	require_unchanged(row->name);
	idgen_query_run(IDGEN_SQL_UPDATE_POLICY, values, nulls);
	note_changed_row(row->name);
	idgen_query_end();
	idgen_tables_announce();
}

/*
 * Was nothing ever granted from a namespace, or restored into it?  Then *split
 * is written, and nothing is granted before the caller's transaction ends,
 * because the row of the identity, which every grant updates, is locked.  The
 * lock waits for a grant that is being made.  If a grant was made after the
 * caller took its snapshot, locking fails (40001).
 */
bool
idgen_namespace_rows_claim_unused(const char *name, const IdgenAuthorityRow *split)
{
	Datum		values[3] = {
		CStringGetTextDatum(name), Int32GetDatum(split->split_modulus),
		Int32GetDatum(split->split_remainder)
	};
	bool		unused;

	idgen_query_begin(name);

	/* two queries, so that the second one sees what the lock has waited for */
	unused = idgen_query_run(IDGEN_SQL_LOCK_SPLIT, values, NULL) > 0 &&
		!idgen_namespace_rows_ever_granted(name);
	if (unused)
		idgen_query_run(IDGEN_SQL_UPDATE_SPLIT, values, NULL);
	idgen_query_end();
	return unused;
}

/* Give a privilege to a role, or take it away. */
void
idgen_namespace_rows_write_privilege(const char *name, IdgenPrivilege privilege,
									 const char *role, bool allow)
{
	Datum		values[3] = {
		CStringGetTextDatum(name), CStringGetTextDatum(role),
		BoolGetDatum(allow)
	};

	idgen_query_begin(name);
	require_unchanged(name);
	idgen_query_run(privilege == IDGEN_PRIVILEGE_ISSUE ?
					IDGEN_SQL_UPDATE_ISSUE_ROLES : IDGEN_SQL_UPDATE_ACQUIRE_ROLES,
					values, NULL);
	note_changed_row(name);
	idgen_query_end();
	idgen_tables_announce();
}

/* Read a row of idgen_floor; if there is none, false, and the row is all zeroes. */
bool
idgen_namespace_rows_floor(const char *name, IdgenFloorRow *row)
{
	bool		isnull;

	memset(row, 0, sizeof(*row));
	if (idgen_query_run_for(IDGEN_SQL_READ_FLOOR, name) == 0)
		return false;
	row->floor = DatumGetInt64(idgen_query_value(0, 1, &isnull));
	row->external_end = DatumGetInt64(idgen_query_value(0, 2, &isnull));
	row->tid = *idgen_query_tid(idgen_query_value(0, 3, &isnull));
	return true;
}

/* --------------------------------------------------------------------
 * By the authority process, in its transaction
 * -------------------------------------------------------------------- */

/*
 * Lock the row of a namespace, and that of its identity if it has one; false if
 * either is locked already.
 */
bool
idgen_namespace_rows_lock(const char *name)
{
	return idgen_query_run_for(IDGEN_SQL_LOCK_NAMESPACE, name) > 0 &&
		(idgen_query_run_for(IDGEN_SQL_LOCK_IDENTITY, name) > 0 ||
		 idgen_query_run_for(IDGEN_SQL_FIND_AUTHORITY, name) == 0);
}

/* The clock at the last grant, in ticks; 0 if it is not known. */
int64
idgen_namespace_rows_last_clock(const char *name)
{
	bool		isnull;

	return idgen_query_run_for(IDGEN_SQL_LAST_CLOCK, name) == 0 ? 0 :
		DatumGetInt64(idgen_query_value(0, 1, &isnull));
}

/* When the identity was recorded, in Unix ms; 0 if there is none. */
int64
idgen_namespace_rows_recorded_ms(const char *name)
{
	bool		isnull;

	return idgen_query_run_for(IDGEN_SQL_RECORDED_MS, name) == 0 ? 0 :
		DatumGetInt64(idgen_query_value(0, 1, &isnull));
}

/* The highest mark of a namespace, its floor and external grants included. */
int64
idgen_namespace_rows_highest_mark(const char *name)
{
	bool		isnull;

	idgen_query_run_for(IDGEN_SQL_HIGHEST_MARK, name);
	return DatumGetInt64(idgen_query_value(0, 1, &isnull));
}

/* Move the floor of a namespace up, or insert it if it is missing; it never moves down. */
void
idgen_namespace_rows_raise_floor(const char *name, int64 floor)
{
	Datum		values[2] = {CStringGetTextDatum(name), Int64GetDatum(floor)};

	idgen_query_run(IDGEN_SQL_RAISE_FLOOR, values, NULL);
}

/* After a fence all marks are below the floor: compute the sums again. */
void
idgen_namespace_rows_reset_sums(const char *name)
{
	idgen_query_run_for(IDGEN_SQL_RESET_SUMS, name);
}

/* Record the identity of a namespace, in place of the one it has. */
void
idgen_namespace_rows_write_identity(const char *name, const IdgenAuthorityRow *row)
{
	Datum		values[IDGEN_ARGUMENTS_MAX];

	idgen_rows_write_authority(name, row, values);
	idgen_query_expect(idgen_query_run(IDGEN_SQL_UPDATE_AUTHORITY, values, NULL), 1);
	idgen_tables_announce();
}

/* Change the workers that the authority uses. */
void
idgen_namespace_rows_write_range(const char *name, int32 first_worker, int32 last_worker)
{
	Datum		values[3] = {
		CStringGetTextDatum(name), Int32GetDatum(first_worker),
		Int32GetDatum(last_worker)
	};
	bool		held = idgen_namespace_rows_hold(name);

	idgen_query_run(IDGEN_SQL_UPDATE_RANGE, values, NULL);
	if (held)
		note_changed_row(name);
	idgen_tables_announce();
}

/* Write which ID space a namespace is.  A session that restores calls this, too. */
void
idgen_namespace_rows_write_lineage(const char *name, const pg_uuid_t *lineage)
{
	Datum		values[2] = {CStringGetTextDatum(name), UUIDPGetDatum(lineage)};
	bool		held = idgen_namespace_rows_hold(name);

	idgen_query_run(IDGEN_SQL_UPDATE_LINEAGE, values, NULL);
	if (held)
		note_changed_row(name);
	idgen_tables_announce();
}

/* Retire a namespace.  A session that restores calls this, too. */
void
idgen_namespace_rows_retire(const char *name)
{
	bool		held = idgen_namespace_rows_hold(name);

	idgen_query_run_for(IDGEN_SQL_RETIRE_NAMESPACE, name);
	if (held)
		note_changed_row(name);
	idgen_tables_announce();
}

/*
 * Write the ticket that a namespace has given or adopted last, and whether it is handed
 * over.  A session that restores calls this, too.
 */
void
idgen_namespace_rows_write_ticket(const char *name, bool handed_over,
								  const IdgenHandOver *ticket)
{
	Datum		values[4] = {
		CStringGetTextDatum(name), BoolGetDatum(handed_over),
		UUIDPGetDatum(&ticket->number), Int64GetDatum(ticket->greatest_id)
	};
	bool		held = idgen_namespace_rows_hold(name);

	idgen_query_run(IDGEN_SQL_UPDATE_TICKET, values, NULL);
	if (held)
		note_changed_row(name);
	idgen_tables_announce();
}

/*
 * Drop the marks of all workers: a ticket has told until when IDs were issued, and the
 * floor is past that.  The caller computes the sums again.
 */
void
idgen_namespace_rows_drop_marks(const char *name)
{
	(void) idgen_query_run_for(IDGEN_SQL_DELETE_MARKS, name);
}
