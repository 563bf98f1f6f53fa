/*
 * namespace_rows.c
 *		Write namespaces, their policy, identity and floor; merge restored rows.
 *
 * Sessions write in their own transaction, and everybody is told at its commit;
 * the authority worker in its own.
 */
#include "compat.h"

#include "catalog/namespace_rows.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "catalog/identity.h"
#include "random.h"
#include "catalog/query.h"

/* --------------------------------------------------------------------
 * In the caller's transaction
 * -------------------------------------------------------------------- */

/* A format as text; there must be room for IDGEN_FORMAT_MAX. */
void
idgen_namespace_rows_format_text(const IdgenLayout *layout, char *format)
{
	snprintf(format, IDGEN_FORMAT_MAX,
			 "time %d/%d/%d epoch " INT64_FORMAT " tick " INT64_FORMAT " horizon " INT64_FORMAT,
			 layout->timestamp_bits, layout->worker_bits, layout->sequence_bits,
			 (int64) layout->epoch_ms, (int64) layout->tick_ms,
			 (int64) layout->horizon_ms);
}

/* The arguments of the statements that write idgen_authority. */
static void
authority_arguments(const char *name, const IdgenAuthorityRow *row, Datum *values)
{
	const IdgenIdentity *identity = &row->identity;

	values[0] = CStringGetTextDatum(name);
	values[1] = UUIDPGetDatum(&row->uuid);
	values[2] = CStringGetTextDatum(row->format);
	values[3] = Int32GetDatum(row->split_modulus);
	values[4] = Int32GetDatum(row->split_remainder);
	values[5] = Int64GetDatum((int64) identity->system_identifier);
	values[6] = ObjectIdGetDatum(identity->database);
	values[7] = Int64GetDatum(identity->timeline);
	values[8] = Int64GetDatum((int64) identity->control_inode);
	values[9] = Int64GetDatum(identity->control_birth);
	values[10] = Int64GetDatum((int64) identity->version_inode);
	values[11] = Int64GetDatum(identity->version_birth);
}

/*
 * What was restored of a namespace before the namespace itself must fit its
 * format.
 */
static void
check_restored_marks(const IdgenNamespaceRow *row)
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
			 errmsg("marks that were restored for namespace \"%s\" do not fit its format",
					row->name),
			 errdetail("The highest mark is " INT64_FORMAT ", and the highest worker " INT64_FORMAT ".",
					   mark, worker),
			 errhint("Use the format that the namespace had.")));
}

/* Was anything ever granted or fenced? */
static bool
ever_granted(const char *name)
{
	bool		isnull;

	idgen_query_run_for(IDGEN_SQL_EVER_GRANTED, name);
	return DatumGetBool(idgen_query_value(0, 1, &isnull));
}

/*
 * A new namespace with its identity and a floor of 0.  False if the name is
 * taken, also by a transaction that committed while this one waited for it.
 *
 * Where a restore has brought a floor or marks of this name, the namespace is what
 * they belong to: a copy, without an identity (*copied).
 */
bool
idgen_namespace_rows_insert(const IdgenNamespaceRow *row,
							  const IdgenAuthorityRow *authority, bool *copied)
{
	Datum		values[IDGEN_ARGUMENTS_MAX];
	bool		inserted;

	*copied = false;

	idgen_query_begin(row->name);
	values[IDGEN_NAMESPACE_NAME - 1] = CStringGetTextDatum(row->name);
	values[IDGEN_NAMESPACE_KIND - 1] = CStringGetTextDatum("time");
	values[IDGEN_NAMESPACE_TIMESTAMP_BITS - 1] = Int32GetDatum(row->layout.timestamp_bits);
	values[IDGEN_NAMESPACE_WORKER_BITS - 1] = Int32GetDatum(row->layout.worker_bits);
	values[IDGEN_NAMESPACE_SEQUENCE_BITS - 1] = Int32GetDatum(row->layout.sequence_bits);
	values[IDGEN_NAMESPACE_EPOCH_MS - 1] = Int64GetDatum(row->layout.epoch_ms);
	values[IDGEN_NAMESPACE_TICK_MS - 1] = Int64GetDatum(row->layout.tick_ms);
	values[IDGEN_NAMESPACE_HORIZON_MS - 1] = Int64GetDatum(row->layout.horizon_ms);
	values[IDGEN_NAMESPACE_GRANT_INTERVAL_MS - 1] = Int64GetDatum(row->grant_interval_ms);
	values[IDGEN_NAMESPACE_RUN_AHEAD_MS - 1] = Int64GetDatum(row->run_ahead_ms);
	values[IDGEN_NAMESPACE_FIRST_WORKER - 1] = Int32GetDatum(row->first_worker);
	values[IDGEN_NAMESPACE_LAST_WORKER - 1] = Int32GetDatum(row->last_worker);
	values[IDGEN_NAMESPACE_DURABILITY - 1] = CStringGetTextDatum(row->durability);
	values[IDGEN_NAMESPACE_PROMOTION - 1] = CStringGetTextDatum(row->promotion);
	values[IDGEN_NAMESPACE_RESTRICTED - 1] = BoolGetDatum(row->restricted);
	values[IDGEN_NAMESPACE_ISSUING - 1] = BoolGetDatum(row->issuing);
	values[IDGEN_NAMESPACE_RETIRED - 1] = BoolGetDatum(row->retired);
	values[IDGEN_NAMESPACE_OWNER - 1] = CStringGetTextDatum(row->owner);
	values[18] = Int32GetDatum(row->split_parts);
	values[19] = UUIDPGetDatum(&row->lineage);
	inserted = idgen_query_run(IDGEN_SQL_INSERT_NAMESPACE, values, NULL) > 0;
	if (inserted)
	{
		values[0] = CStringGetTextDatum(row->name);
		values[1] = Int64GetDatum(0);
		*copied = idgen_query_run(IDGEN_SQL_INSERT_FLOOR, values, NULL) == 0 ||
			ever_granted(row->name);
		if (*copied)
			check_restored_marks(row);
		else
		{
			authority_arguments(row->name, authority, values);
			idgen_query_run(IDGEN_SQL_INSERT_AUTHORITY, values, NULL);
		}
	}
	idgen_query_end();
	idgen_tables_announce();
	return inserted;
}

/*
 * Lock the policy of a namespace against others that change it; what they have
 * committed is to be read after this.  True if this transaction has made or
 * changed it.
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
 * Change those columns of a namespace's policy that are given; what somebody
 * else changes at the same time in others is kept.
 */
void
idgen_namespace_rows_write_policy(const IdgenNamespaceRow *row, const IdgenPolicyGiven *given)
{
	Datum		values[8] = {
		CStringGetTextDatum(row->name),
		Int64GetDatum(row->grant_interval_ms),
		Int64GetDatum(row->run_ahead_ms),
		CStringGetTextDatum(row->durability),
		CStringGetTextDatum(row->promotion),
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
	idgen_query_run(IDGEN_SQL_UPDATE_POLICY, values, nulls);
	idgen_query_end();
	idgen_tables_announce();
}

/*
 * Was nothing ever granted from a namespace, or restored into it?  From then on, until
 * the caller's transaction ends, nothing is: the row of the identity, which every grant
 * moves, is locked, and *split goes into it.  A grant that is being made is waited for.
 * One that was made since an old snapshot of the caller makes the lock fail (40001).
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

	/* two statements, so that the second sees what the lock has waited for */
	unused = idgen_query_run(IDGEN_SQL_LOCK_SPLIT, values, NULL) > 0 &&
		!ever_granted(name);
	if (unused)
		idgen_query_run(IDGEN_SQL_UPDATE_SPLIT, values, NULL);
	idgen_query_end();
	return unused;
}

/* Give a privilege to a role, or take it back. */
void
idgen_namespace_rows_write_privilege(const char *name, IdgenPrivilege privilege,
							 const char *role, bool allow)
{
	Datum		values[3] = {
		CStringGetTextDatum(name), CStringGetTextDatum(role),
		BoolGetDatum(allow)
	};

	idgen_query_begin(name);
	idgen_query_run(privilege == IDGEN_PRIVILEGE_ISSUE ? IDGEN_SQL_UPDATE_ISSUE_ROLES :
		IDGEN_SQL_UPDATE_ACQUIRE_ROLES, values, NULL);
	idgen_query_end();
	idgen_tables_announce();
}

/* Forget who the authority is: from now on this is a copy (DESIGN 8). */
static void
forget_identity(const char *name)
{
	idgen_query_run_for(IDGEN_SQL_DELETE_AUTHORITY, name);
	idgen_tables_announce();
}

/*
 * Has a namespace granted nothing, here or on the server that this one was?  Marks
 * count, the floor does not: it may have been restored just before.  After a change of
 * server the original may have granted, and its policy says how to go on from that; no
 * identity at all is a copy, which is fenced before it grants.
 */
static bool
granted_nothing(const char *name, bool *has_identity)
{
	IdgenAuthorityRow authority;
	IdgenIdentity here;
	TransactionId xmin;
	bool		isnull;

	*has_identity = idgen_query_run_for(IDGEN_SQL_LOCK_SPLIT, name) > 0;
	if (*has_identity)
	{
		if (!idgen_tables_read_authority(name, &authority, &xmin, 0))
			return false;
		idgen_identity_read(&here);
		if (idgen_identity_compare(&authority.identity, &here) != IDGEN_IDENTITY_SAME)
			return false;
	}
	idgen_query_run_for(IDGEN_SQL_HAS_WORKERS, name);
	return !DatumGetBool(idgen_query_value(0, 1, &isnull));
}

/*
 * The restored row is of a namespace that was made here, but never used: "default", in
 * a new database.  Its policy for failover becomes that of the row, since it cannot be
 * chosen any more when the marks have been restored, too.  Parts of the workers that
 * ours has stay, and a standby that may trust itself with all of them stays the rule of
 * ours, for the reasons that idgen_alter_namespace has.
 */
static void
merge_policy(const IdgenNamespaceRow *row)
{
	IdgenNamespaceRow merged;
	IdgenPolicyGiven given = {.durability = true, .promotion = true};
	bool		has_identity;

	/* what another session has changed meanwhile counts */
	(void) idgen_namespace_rows_lock_policy(row->name);
	if (!idgen_tables_read_namespace(row->name, &merged, 0))
		return;
	if ((merged.split_parts == 1 && strcmp(merged.durability, "local") != 0) ||
		!idgen_split_has_workers((int64) merged.last_worker - merged.first_worker + 1,
								 merged.split_parts == 1 ? row->split_parts : merged.split_parts))
		return;
	if (merged.split_parts == 1)
		merged.split_parts = row->split_parts;
	strlcpy(merged.durability, row->durability, NAMEDATALEN);
	strlcpy(merged.promotion, row->promotion, NAMEDATALEN);
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
 * The restored row is of another lineage.  If nothing was ever granted from ours, as
 * from "default" in a new database, there is no ID of ours, and the restored ones are
 * all there are: the namespace is the restored one from now on.  Else ours has IDs, and
 * stays what it is; the restored marks make it a copy (DESIGN 8), which an adoption
 * fences, but no ID changes its meaning by that.
 *
 * Grants tell, and not marks, which may have been restored just before: the last grant
 * of a worker is never deleted, and none is dumped.  The row of the identity, which
 * every grant moves, is locked; without an identity nothing is granted.
 */
static void
merge_lineage(const IdgenNamespaceRow *row)
{
	bool		isnull;

	idgen_query_begin(row->name);
	idgen_query_run_for(IDGEN_SQL_LOCK_SPLIT, row->name);
	idgen_query_run_for(IDGEN_SQL_GRANTED_HERE, row->name);
	if (!DatumGetBool(idgen_query_value(0, 1, &isnull)))
		idgen_namespace_rows_write_lineage(row->name, &row->lineage);
	idgen_query_end();
}

/*
 * A restored row of idgen_namespace meets ours.  True if there is none, so
 * that the row is to be inserted.  Another format under the same name is an
 * error; the worker range stays ours, and so do the policy and the lineage, unless
 * ours was never used; retired is for ever.
 */
bool
idgen_namespace_rows_merge(const IdgenNamespaceRow *row)
{
	IdgenNamespaceRow ours;

	if (!idgen_tables_read_namespace(row->name, &ours, 0))
	{
		idgen_query_begin(row->name);
		check_restored_marks(row);
		idgen_query_end();
		idgen_tables_announce();
		return true;
	}
	if (!idgen_layout_same(&ours.layout, &row->layout))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("namespace \"%s\" exists with another format", row->name),
				 errhint("IDs of both formats would be mixed. Restore into a database in which the namespace does not exist.")));
	if (strcmp(row->durability, ours.durability) != 0 ||
		strcmp(row->promotion, ours.promotion) != 0 || row->split_parts != ours.split_parts)
		merge_policy(row);
	if (!idgen_same_uuid(&ours.lineage, &row->lineage))
		merge_lineage(row);
	if (row->retired && !ours.retired)
	{
		idgen_query_begin(row->name);
		idgen_query_run_for(IDGEN_SQL_RETIRE_NAMESPACE, row->name);
		idgen_query_end();
		idgen_tables_announce();
	}
	return false;
}

/* Read a row of idgen_floor; false, and all of it 0, if there is none. */
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

/*
 * A restored row of idgen_floor meets ours.  True if there is none.  A higher
 * floor brings marks from elsewhere, and so does a promise to external generators
 * that goes further than ours: this authority is a copy, *copied.
 */
bool
idgen_namespace_rows_merge_floor(const char *name, int64 floor,
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
		forget_identity(name);
	idgen_query_end();
	*copied = higher;
	return !exists;
}

/*
 * A restored row of idgen_worker meets our mark, max(its row, the floor), and
 * is merged.  Its incarnation was another authority's.  True if it was higher,
 * so that this authority is a copy.
 */
bool
idgen_namespace_rows_merge_mark(const char *name, int32 worker, int64 high_water)
{
	Datum		values[3] = {
		CStringGetTextDatum(name), Int32GetDatum(worker),
		Int64GetDatum(high_water)
	};
	IdgenFloorRow floor;
	bool		exists;
	bool		isnull;
	int64		mark;

	idgen_query_begin(name);
	(void) idgen_namespace_rows_floor(name, &floor);
	mark = floor.floor;
	exists = idgen_query_run(IDGEN_SQL_READ_MARK, values, NULL) > 0;
	if (exists)
		mark = Max(mark, DatumGetInt64(idgen_query_value(0, 1, &isnull)));
	if (high_water > mark)
	{
		idgen_query_run(exists ? IDGEN_SQL_RAISE_MARK : IDGEN_SQL_INSERT_MARK, values, NULL);
		forget_identity(name);
	}
	idgen_query_end();
	return high_water > mark;
}

/* --------------------------------------------------------------------
 * By the authority worker, in its transaction
 * -------------------------------------------------------------------- */

/* Lock the rows of a namespace, and its identity if it has one; false if not. */
bool
idgen_namespace_rows_lock(const char *name)
{
	return idgen_query_run_for(IDGEN_SQL_LOCK_NAMESPACE, name) > 0 &&
		(idgen_query_run_for(IDGEN_SQL_LOCK_IDENTITY, name) > 0 ||
		 idgen_query_run_for(IDGEN_SQL_FIND_AUTHORITY, name) == 0);
}

/* The clock at the last grant, in ticks; 0 if nothing is known. */
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

/* Move the floor of a namespace up, or make it anew; it never moves down. */
void
idgen_namespace_rows_raise_floor(const char *name, int64 floor)
{
	Datum		values[2] = {CStringGetTextDatum(name), Int64GetDatum(floor)};

	idgen_query_run(IDGEN_SQL_RAISE_FLOOR, values, NULL);
}

/* After a fence, whatever the marks are is below the floor: count anew. */
void
idgen_namespace_rows_reset_sums(const char *name)
{
	idgen_query_run_for(IDGEN_SQL_RESET_SUMS, name);
}

/* Record the identity of a namespace, or another one. */
void
idgen_namespace_rows_write_identity(const char *name, const IdgenAuthorityRow *row)
{
	Datum		values[IDGEN_ARGUMENTS_MAX];

	authority_arguments(name, row, values);
	idgen_query_expect(idgen_query_run(IDGEN_SQL_UPDATE_AUTHORITY, values, NULL), 1);
	idgen_tables_announce();
}

/* Change the workers an authority uses. */
void
idgen_namespace_rows_write_range(const char *name, int32 first_worker, int32 last_worker)
{
	Datum		values[3] = {
		CStringGetTextDatum(name), Int32GetDatum(first_worker),
		Int32GetDatum(last_worker)
	};

	idgen_query_run(IDGEN_SQL_UPDATE_RANGE, values, NULL);
	idgen_tables_announce();
}

/* Write which ID space a namespace is; also by a session that restores. */
void
idgen_namespace_rows_write_lineage(const char *name, const pg_uuid_t *lineage)
{
	Datum		values[2] = {CStringGetTextDatum(name), UUIDPGetDatum(lineage)};

	idgen_query_run(IDGEN_SQL_UPDATE_LINEAGE, values, NULL);
	idgen_tables_announce();
}

/* Retire a namespace. */
void
idgen_namespace_rows_retire(const char *name)
{
	idgen_query_run_for(IDGEN_SQL_RETIRE_NAMESPACE, name);
	idgen_tables_announce();
}
