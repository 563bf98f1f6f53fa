/*
 * restore.c
 *		Merge restored rows into the authority's tables.
 *
 * A dump may be restored in any order, and into a database in which namespaces
 * of the same names exist.  Marks are merged by maximum, so that none ever
 * decreases (S3).  The session that restores calls this in its transaction.
 *
 * The owner of the database may restore a dump, but may not say what was granted: of
 * such rows nothing is merged.  They are not overlooked either, because the rest of the
 * dump is restored, with the IDs in it.  A row that would make a namespace a copy if it
 * were merged makes it a copy all the same (doc/design.md, "Dumps without the right to
 * restore them").
 */
#include "compat.h"

#include "catalog/restore.h"

#include "access/xlog.h"
#include "utils/builtins.h"

#include "catalog/identity.h"
#include "catalog/namespace_rows.h"
#include "catalog/query.h"
#include "catalog/scan.h"
#include "catalog/tables.h"
#include "random.h"

/*
 * Forget the identity of a namespace: from now on it is a copy (doc/design.md,
 * "Identity of the authority").  False if it was one before.
 */
static bool
forget_identity(const char *name)
{
	bool		had_identity = idgen_query_run_for(IDGEN_SQL_DELETE_AUTHORITY, name) > 0;

	idgen_tables_announce();
	return had_identity;
}

/*
 * Has a namespace granted nothing, here or on the server that this one was
 * copied from?  Its marks tell; its floor does not, because it may have been
 * restored just before.  If the identity is another server's, that server may
 * have granted, and the namespace's own policy must say how to go on.  A
 * namespace without an identity is a copy, which is fenced before it grants.
 */
static bool
granted_nothing(const char *name, bool *has_identity)
{
	IdgenAuthorityRow authority;
	IdgenIdentity here;
	TransactionId xmin;
	bool		inserted;
	bool		isnull;

	*has_identity = idgen_query_run_for(IDGEN_SQL_LOCK_SPLIT, name) > 0;
	if (*has_identity)
	{
		if (!idgen_scan_authority(name, &authority, &xmin, &inserted, IDGEN_DEADLINE_UNSET))
			return false;
		idgen_identity_read(&here);
		if (idgen_identity_compare(&authority.identity, &here) != IDGEN_IDENTITY_SAME)
			return false;
	}
	idgen_query_run_for(IDGEN_SQL_HAS_WORKERS, name);
	return !DatumGetBool(idgen_query_value(0, 1, &isnull));
}

/*
 * If our namespace was created here but never used, such as "default" in a new
 * database, it takes over the restored row's policy for failover, because that
 * cannot be chosen any more once the marks have been restored as well.  If our
 * workers are split, the parts stay.  If a standby may trust itself with all
 * of our workers, our policy stays, for the reasons given in
 * idgen_alter_namespace.
 */
static void
merge_policy(const IdgenNamespaceRow *row)
{
	IdgenNamespaceRow merged;
	IdgenPolicyGiven given = {
		.durability = true,
		.promotion = true
	};
	bool		has_identity;

	/* read the row under the lock, since another session may have changed it */
	(void) idgen_namespace_rows_lock_policy(row->name);
	if (!idgen_scan_namespace(row->name, &merged, IDGEN_DEADLINE_UNSET))
		return;
	if ((merged.split_parts == 1 && merged.durability != IDGEN_DURABILITY_LOCAL) ||
		!idgen_split_has_workers((int64) merged.last_worker - merged.first_worker + 1,
								 merged.split_parts == 1 ? row->split_parts : merged.split_parts))
		return;
	if (merged.split_parts == 1)
		merged.split_parts = row->split_parts;
	merged.durability = row->durability;
	merged.promotion = row->promotion;
	idgen_query_begin(row->name);
	if (granted_nothing(row->name, &has_identity))
	{
		Datum		values[3] = {
			CStringGetTextDatum(row->name), Int32GetDatum(merged.split_parts),
			Int32GetDatum(idgen_split_class(GetWALInsertionTimeLine(), merged.split_parts))
		};

		idgen_namespace_rows_write_policy(&merged, &given);
		if (has_identity)
			idgen_query_run(IDGEN_SQL_UPDATE_SPLIT, values, NULL);
	}
	idgen_query_end();
}

/*
 * The restored row has another lineage.  If nothing was ever granted from our
 * namespace, such as "default" in a new database, the restored IDs are all
 * there are, and the namespace becomes the restored one.  Otherwise it has IDs
 * of its own and keeps its lineage.  The restored marks make it a copy, which
 * an adoption fences; that does not change the meaning of any ID.
 *
 * Grants are evidence: the last grant of a worker is never deleted, and grants
 * are not dumped.  Marks are none, because they may have been restored just
 * before.  The row of the identity, which every grant updates, is locked; a
 * namespace without an identity grants nothing.
 *
 * With the lineage comes the ticket: what was handed over stays so.
 */
static void
merge_lineage(const IdgenNamespaceRow *row)
{
	bool		isnull;

	idgen_query_begin(row->name);
	idgen_query_run_for(IDGEN_SQL_LOCK_SPLIT, row->name);
	idgen_query_run_for(IDGEN_SQL_GRANTED_HERE, row->name);
	if (!DatumGetBool(idgen_query_value(0, 1, &isnull)))
	{
		idgen_namespace_rows_write_lineage(row->name, &row->lineage);
		idgen_namespace_rows_write_ticket(row->name, row->handed_over, &row->ticket);
	}
	idgen_query_end();
}

/*
 * Does a restored row say that the namespace was handed over, and ours knows nothing of
 * that?  Ours may be what has gone on with it.
 */
static bool
is_handed_over_later(const IdgenNamespaceRow *ours, const IdgenNamespaceRow *row)
{
	return row->handed_over && (idgen_hand_over_is_none(&ours->ticket) ||
								row->ticket.greatest_id > ours->ticket.greatest_id);
}

/*
 * Merge a restored row of idgen_namespace into ours.  True if there is none, so that
 * the row is to be inserted.  Another format under the same name is an error.  The
 * worker range stays ours, and so do the policy and the lineage unless ours was never
 * used.  A namespace that is retired in either stays retired.
 */
bool
idgen_restore_namespace(const IdgenNamespaceRow *row)
{
	IdgenNamespaceRow ours;

	if (!idgen_scan_namespace(row->name, &ours, IDGEN_DEADLINE_UNSET))
	{
		idgen_query_begin(row->name);
		idgen_namespace_rows_check_marks(row);
		idgen_query_end();
		idgen_tables_announce();
		return true;
	}
	if (!idgen_layout_same(&ours.layout, &row->layout))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("namespace \"%s\" exists with another format", row->name),
				 errhint("Restore into a database in which the namespace does not exist, so that IDs of two formats are not mixed.")));
	if (row->durability != ours.durability || row->promotion != ours.promotion ||
		row->split_parts != ours.split_parts)
		merge_policy(row);
	if (!idgen_same_uuid(&ours.lineage, &row->lineage))
		merge_lineage(row);
	else if (is_handed_over_later(&ours, row))
	{
		idgen_query_begin(row->name);
		idgen_namespace_rows_write_ticket(row->name, true, &row->ticket);
		idgen_query_end();
	}
	if (row->retired && !ours.retired)
	{
		idgen_query_begin(row->name);
		idgen_namespace_rows_retire(row->name);
		idgen_query_end();
	}
	return false;
}

/*
 * Merge a restored row of idgen_floor into ours.  True if there is none, so that the
 * row is to be inserted.  If its floor is higher than ours, or if more was granted to
 * external generators, grants were made elsewhere: this authority is a copy (*copied).
 */
bool
idgen_restore_floor(const char *name, int64 floor,
					int64 external_end, bool *copied)
{
	Datum		values[2] = {CStringGetTextDatum(name)};
	IdgenFloorRow ours;
	bool		exists;
	bool		higher;

	idgen_query_begin(name);
	exists = idgen_namespace_rows_floor(name, &ours);
	higher = floor > ours.floor || external_end > ours.external_end;
	if (exists && higher)
	{
		values[1] = Int64GetDatum(floor);
		idgen_query_run(IDGEN_SQL_RAISE_FLOOR, values, NULL);
		values[1] = Int64GetDatum(external_end);
		idgen_query_run(IDGEN_SQL_RAISE_EXTERNAL_END, values, NULL);
	}
	if (higher)
		(void) forget_identity(name);
	idgen_query_end();
	*copied = higher;
	return !exists;
}

/*
 * Is a restored mark higher than ours, which is the maximum of the row and the floor?
 * *exists tells whether there is a row.
 */
static bool
mark_is_higher(const char *name, int32 worker, int64 high_water, bool *exists)
{
	Datum		values[2] = {CStringGetTextDatum(name), Int32GetDatum(worker)};
	IdgenFloorRow floor;
	int64		mark;
	bool		isnull;

	(void) idgen_namespace_rows_floor(name, &floor);
	mark = floor.floor;
	*exists = idgen_query_run(IDGEN_SQL_READ_MARK, values, NULL) > 0;
	if (*exists)
		mark = Max(mark, DatumGetInt64(idgen_query_value(0, 1, &isnull)));
	return high_water > mark;
}

/*
 * Merge a restored row of idgen_worker into our mark, which is the maximum of
 * the row and the floor.  The incarnation in the row is dropped, because it
 * was another authority's.  True if the restored mark was higher, so that this
 * authority is a copy.
 */
bool
idgen_restore_mark(const char *name, int32 worker, int64 high_water)
{
	Datum		values[3] = {
		CStringGetTextDatum(name), Int32GetDatum(worker),
		Int64GetDatum(high_water)
	};
	bool		exists;
	bool		higher;

	idgen_query_begin(name);
	higher = mark_is_higher(name, worker, high_water, &exists);
	if (higher)
	{
		idgen_query_run(exists ? IDGEN_SQL_RAISE_MARK : IDGEN_SQL_INSERT_MARK, values, NULL);
		(void) forget_identity(name);
	}
	idgen_query_end();
	return higher;
}

/* Notice a row of idgen_namespace that may not be merged. */
IdgenNotice
idgen_restore_notice_namespace(const IdgenNamespaceRow *row)
{
	IdgenNamespaceRow ours;
	bool		copied;

	if (!idgen_scan_namespace(row->name, &ours, IDGEN_DEADLINE_UNSET))
		return IDGEN_NOTICE_UNKNOWN;
	if (idgen_layout_same(&ours.layout, &row->layout) && (ours.retired || !row->retired) &&
		!is_handed_over_later(&ours, row))
		return IDGEN_NOTICE_NOTHING;
	idgen_query_begin(row->name);
	copied = forget_identity(row->name);
	idgen_query_end();
	return copied ? IDGEN_NOTICE_COPIED : IDGEN_NOTICE_NOTHING;
}

/* Notice a row of idgen_floor that may not be merged. */
IdgenNotice
idgen_restore_notice_floor(const char *name, int64 floor, int64 external_end)
{
	IdgenNamespaceRow row;
	IdgenFloorRow ours;
	bool		copied;

	if (!idgen_scan_namespace(name, &row, IDGEN_DEADLINE_UNSET))
		return IDGEN_NOTICE_UNKNOWN;
	idgen_query_begin(name);
	(void) idgen_namespace_rows_floor(name, &ours);
	copied = (floor > ours.floor || external_end > ours.external_end) &&
		forget_identity(name);
	idgen_query_end();
	return copied ? IDGEN_NOTICE_COPIED : IDGEN_NOTICE_NOTHING;
}

/* Notice a row of idgen_worker that may not be merged. */
IdgenNotice
idgen_restore_notice_mark(const char *name, int32 worker, int64 high_water)
{
	IdgenNamespaceRow row;
	bool		exists;
	bool		copied;

	if (!idgen_scan_namespace(name, &row, IDGEN_DEADLINE_UNSET))
		return IDGEN_NOTICE_UNKNOWN;
	idgen_query_begin(name);
	copied = mark_is_higher(name, worker, high_water, &exists) && forget_identity(name);
	idgen_query_end();
	return copied ? IDGEN_NOTICE_COPIED : IDGEN_NOTICE_NOTHING;
}
