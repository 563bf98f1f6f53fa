/*
 * scan.c
 *		Read rows of the authority's tables by their primary key, without SQL.
 *
 * The scans have a snapshot of their own, so that they work in any transaction:
 * read-only, parallel, at any isolation level, with any search_path.  Deadlines are
 * for locks on the tables.
 */
#include "compat.h"

#include "catalog/scan.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

#include "catalog/columns.h"
#include "catalog/table_lock.h"
#include "catalog/tables.h"
#include "error.h"

/* A table and the row that a key finds in it. */
typedef struct IdgenScan
{
	Relation	relation;
	LOCKMODE	lock;			/* taken for it */
	SysScanDesc scan;
	HeapTuple	tuple;			/* NULL if there is none */
	Datum	   *columns;		/* of the tuple, see rows.h */
	bool	   *nulls;
} IdgenScan;

pg_noreturn static void
row_damaged(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_IDGEN_UNAVAILABLE),
			 errmsg("the tables of idgen are damaged"),
			 errdetail_internal("%s", detail)));
}

/*
 * Open a table and find the row of a primary key; false if the table is gone.  The
 * snapshot is taken now, whatever the transaction's isolation level: what others
 * have committed counts.
 */
static bool
begin_by_keys(IdgenScan *scan, IdgenTable table, ScanKey keys, int key_count,
			  const char *name, IdgenDeadline deadline)
{
	TupleDesc	desc;

	if (!idgen_tables_find())
		return false;
	scan->relation = idgen_table_lock_for_reading(table, name, deadline, &scan->lock);
	if (scan->relation == NULL)
		return false;

	scan->scan = systable_beginscan(scan->relation,
									idgen_primary_key_index(scan->relation),
									true, NULL, key_count, keys);
	scan->tuple = systable_getnext(scan->scan);
	if (scan->tuple == NULL)
		return true;
	desc = RelationGetDescr(scan->relation);
	scan->columns = palloc(desc->natts * sizeof(Datum));
	scan->nulls = palloc(desc->natts * sizeof(bool));
	heap_deform_tuple(scan->tuple, desc, scan->columns, scan->nulls);
	return true;
}

/* The same for the row of a namespace. */
static bool
begin_by_name(IdgenScan *scan, IdgenTable table, const char *name, IdgenDeadline deadline)
{
	ScanKeyData key;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(name));
	return begin_by_keys(scan, table, &key, 1, name, deadline);
}

static void
end_scan(IdgenScan *scan)
{
	if (scan->tuple != NULL)
	{
		pfree(scan->columns);
		pfree(scan->nulls);
	}
	systable_endscan(scan->scan);
	table_close(scan->relation, scan->lock);
}

/* An error if one of some columns is null: the script makes them NOT NULL. */
static void
require_columns(const IdgenScan *scan, int first, int last)
{
	for (int i = first; i <= last; i++)
		if (scan->nulls[i - 1])
			row_damaged(psprintf("Column %d of table \"%s\" is null.", i,
								 RelationGetRelationName(scan->relation)));
}

/* Read a row of idgen_namespace; false if there is none. */
bool
idgen_scan_namespace(const char *name, IdgenNamespaceRow *row, IdgenDeadline deadline)
{
	IdgenScan	scan;
	bool		exists;

	if (!begin_by_name(&scan, IDGEN_TABLE_NAMESPACE, name, deadline))
		return false;
	exists = scan.tuple != NULL;
	if (exists)
	{
		require_columns(&scan, IDGEN_NAMESPACE_BEGIN + 1, IDGEN_NAMESPACE_END - 1);
		if (!idgen_rows_read_namespace(scan.columns, row))
			row_damaged(psprintf("The policy of namespace \"%s\" is unknown.", name));
	}
	end_scan(&scan);
	return exists;
}

/*
 * Read a row of idgen_authority; false if there is none.  *xmin is the
 * transaction that made this row version; *inserted says that it is the first one.
 */
bool
idgen_scan_authority(const char *name, IdgenAuthorityRow *row, TransactionId *xmin,
					 bool *inserted, IdgenDeadline deadline)
{
	IdgenScan	scan;
	bool		exists;

	if (!begin_by_name(&scan, IDGEN_TABLE_AUTHORITY, name, deadline))
		return false;
	exists = scan.tuple != NULL;
	if (exists)
	{
		require_columns(&scan, IDGEN_AUTHORITY_BEGIN + 1, IDGEN_AUTHORITY_END - 1);
		idgen_rows_read_authority(scan.columns, row);
		*xmin = HeapTupleHeaderGetXmin(scan.tuple->t_data);
		*inserted = (scan.tuple->t_data->t_infomask & HEAP_UPDATED) == 0;
	}
	end_scan(&scan);
	return exists;
}

/* Does a role have the rights of one of the roles named in an array? */
static bool
member_of_any(Oid role, ArrayType *names)
{
	Datum	   *datums;
	bool	   *nulls;
	int			count;

	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &datums, &nulls,
					  &count);
	for (int i = 0; i < count; i++)
	{
		Oid			granted = nulls[i] ? InvalidOid :
			get_role_oid(TextDatumGetCString(datums[i]), true);

		if (OidIsValid(granted) && has_privs_of_role(role, granted))
			return true;
	}
	return false;
}

/*
 * Was a privilege on a namespace given to a role, or to a role of which it is a
 * member?  That its owner has all privileges is not considered here.
 */
bool
idgen_scan_privileged(const char *name, IdgenPrivilege privilege, Oid role,
					  IdgenDeadline deadline)
{
	int			column = privilege == IDGEN_PRIVILEGE_ISSUE ?
		IDGEN_NAMESPACE_ISSUE_ROLES : IDGEN_NAMESPACE_ACQUIRE_ROLES;
	IdgenScan	scan;
	bool		privileged = false;

	if (!begin_by_name(&scan, IDGEN_TABLE_NAMESPACE, name, deadline))
		return false;
	if (scan.tuple != NULL)
	{
		require_columns(&scan, column, column);
		privileged = member_of_any(role, DatumGetArrayTypeP(scan.columns[column - 1]));
	}
	end_scan(&scan);
	return privileged;
}

/* The floor of a namespace; 0 if it has none. */
static int64
scan_floor(const char *name, IdgenDeadline deadline)
{
	IdgenScan	scan;
	int64		floor = 0;

	if (!begin_by_name(&scan, IDGEN_TABLE_FLOOR, name, deadline))
		return 0;
	if (scan.tuple != NULL)
	{
		require_columns(&scan, IDGEN_FLOOR_FLOOR, IDGEN_FLOOR_FLOOR);
		floor = DatumGetInt64(scan.columns[IDGEN_FLOOR_FLOOR - 1]);
	}
	end_scan(&scan);
	return floor;
}

/*
 * The high-water mark of a worker: that of its row or the floor, whichever is higher.
 * 0 if nothing was ever granted to it.
 */
int64
idgen_scan_mark(const char *name, int32 worker, IdgenDeadline deadline)
{
	IdgenScan	scan;
	ScanKeyData keys[2];
	int64		mark = scan_floor(name, deadline);

	ScanKeyInit(&keys[0], IDGEN_WORKER_NAMESPACE, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(name));
	ScanKeyInit(&keys[1], IDGEN_WORKER_WORKER, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(worker));
	if (!begin_by_keys(&scan, IDGEN_TABLE_WORKER, keys, 2, name, deadline))
		return mark;
	if (scan.tuple != NULL)
	{
		require_columns(&scan, IDGEN_WORKER_HIGH_WATER, IDGEN_WORKER_HIGH_WATER);
		mark = Max(mark, DatumGetInt64(scan.columns[IDGEN_WORKER_HIGH_WATER - 1]));
	}
	end_scan(&scan);
	return mark;
}

/* Read who holds an incarnation; false if there is none of this number. */
bool
idgen_scan_holder(int64 incarnation, IdgenHolderRow *row)
{
	IdgenScan	scan;
	ScanKeyData key;
	bool		exists;

	ScanKeyInit(&key, IDGEN_INCARNATION_INCARNATION, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(incarnation));
	if (!begin_by_keys(&scan, IDGEN_TABLE_INCARNATION, &key, 1, NULL,
					   IDGEN_DEADLINE_UNSET))
		return false;
	exists = scan.tuple != NULL;
	if (exists)
	{
		require_columns(&scan, IDGEN_INCARNATION_NAMESPACE, IDGEN_INCARNATION_NAMESPACE);
		require_columns(&scan, IDGEN_INCARNATION_KIND, IDGEN_INCARNATION_KIND);
		require_columns(&scan, IDGEN_INCARNATION_ROLE, IDGEN_INCARNATION_ROLE);
		idgen_rows_read_holder(scan.columns, row);
	}
	end_scan(&scan);
	return exists;
}
