/*
 * extent.c
 *		The greatest values of a column and the least one, read from its index.
 *
 * The index is read without a plan: planning a query on a table of somebody else would
 * run code of theirs, such as a function in the predicate of an index.
 */
#include "compat.h"

#include "sql/extent.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

/* Note an ID, so that the greatest ones are kept in descending order. */
static void
note_last(IdgenExtent *extent, int64 id)
{
	int			at = extent->count;

	if (at == IDGEN_LAST_IDS)
	{
		if (id <= extent->last[at - 1])
			return;
		at--;
	}
	else
		extent->count++;
	for (; at > 0 && extent->last[at - 1] < id; at--)
		extent->last[at] = extent->last[at - 1];
	extent->last[at] = id;
}

/* Is an index complete, in the order of a column's values? */
static bool
is_ordered_by(Relation index, AttrNumber attnum)
{
	return index->rd_rel->relam == BTREE_AM_OID && index->rd_index->indisvalid &&
		index->rd_index->indkey.values[0] == attnum &&
		index->rd_opfamily[0] == INTEGER_BTREE_FAM_OID &&
		heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL);
}

/*
 * Open an index that is in the order of a column's values; NULL if there is none, or
 * others have locked it.
 */
static Relation
open_index(Relation table, AttrNumber attnum)
{
	Relation	found = NULL;
	List	   *indexes = RelationGetIndexList(table);
	ListCell   *cell;

	foreach(cell, indexes)
	{
		Relation	index;

		if (!ConditionalLockRelationOid(lfirst_oid(cell), AccessShareLock))
			continue;
		index = index_open(lfirst_oid(cell), NoLock);
		if (is_ordered_by(index, attnum))
		{
			found = index;
			break;
		}
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return found;
}

static int64
integer_at(HeapTuple tuple, AttrNumber attnum, TupleDesc desc)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, attnum, desc, &isnull);

	switch (getBaseType(TupleDescAttr(desc, attnum - 1)->atttypid))
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

/* Read the first values of an index in one direction, nulls excepted. */
static int
read_end(Relation table, Relation index, AttrNumber attnum, bool from_greatest, int64 *ids,
		 int most)
{
	bool		descending = (index->rd_indoption[0] & INDOPTION_DESC) != 0;
	ScanDirection direction = from_greatest == descending ? ForwardScanDirection :
		BackwardScanDirection;
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	int			count = 0;

	ScanKeyEntryInitialize(&key, SK_ISNULL | SK_SEARCHNOTNULL, attnum, InvalidStrategy,
						   InvalidOid, InvalidOid, InvalidOid, (Datum) 0);
	scan = systable_beginscan_ordered(table, index, snapshot, 1, &key);
	while (count < most && (tuple = systable_getnext_ordered(scan, direction)) != NULL)
		ids[count++] = integer_at(tuple, attnum, RelationGetDescr(table));
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	return count;
}

/* Read the ends of the index of one table, without waiting for a lock. */
static void
read_table(Oid relid, AttrNumber attnum, IdgenExtent *extent)
{
	int64		ids[IDGEN_LAST_IDS];
	Relation	table;
	Relation	index;
	int			count;

	if (!ConditionalLockRelationOid(relid, AccessShareLock))
	{
		extent->unknown = "another session has locked the table";
		return;
	}
	table = try_table_open(relid, NoLock);
	if (table == NULL)
		return;
	index = open_index(table, attnum);
	if (index == NULL)
		extent->unknown = "no complete index begins with the column";
	else
	{
		count = read_end(table, index, attnum, true, ids, IDGEN_LAST_IDS);
		for (int i = 0; i < count; i++)
			note_last(extent, ids[i]);
		if (read_end(table, index, attnum, false, ids, 1) == 1)
			extent->least = Min(extent->least, ids[0]);
		index_close(index, AccessShareLock);
	}
	table_close(table, AccessShareLock);
}

/* Rows are in the partitions, which may have the column at another place. */
static void
read_partitions(const IdgenConsumer *consumer, IdgenExtent *extent)
{
	ListCell   *cell;
	List	   *relids = find_all_inheritors(consumer->relid, NoLock, NULL);

	foreach(cell, relids)
	{
		Oid			relid = lfirst_oid(cell);
		AttrNumber	attnum = get_attnum(relid, consumer->column);

		switch (get_rel_relkind(relid))
		{
			case RELKIND_RELATION:
				if (attnum != InvalidAttrNumber)
					read_table(relid, attnum, extent);
				break;
			case RELKIND_FOREIGN_TABLE:
				extent->unknown = "a partition is a foreign table";
				break;
			default:
				break;
		}
	}
}

/* Why the values of a column cannot be read, or not all of them; NULL if they can. */
static const char *
unreadable(const IdgenConsumer *consumer)
{
	if (consumer->relkind != RELKIND_RELATION &&
		consumer->relkind != RELKIND_PARTITIONED_TABLE)
		return "its rows are elsewhere";
	if (consumer->type != INT8OID && consumer->type != INT4OID &&
		consumer->type != INT2OID)
		return "it is not an integer";
	if (pg_class_aclcheck(consumer->relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK &&
		pg_attribute_aclcheck(consumer->relid, consumer->attnum, GetUserId(),
							  ACL_SELECT) != ACLCHECK_OK)
		return "the current user may not read the column";
	if (check_enable_rls(consumer->relid, InvalidOid, true) == RLS_ENABLED)
		return "row security hides rows from the current user";
	return NULL;
}

/*
 * Read the greatest IDs and the least one by index, as far as the current user may
 * read them.  A part of them would be a wrong answer: then nothing is known.
 */
void
idgen_extent_read(const IdgenConsumer *consumer, IdgenExtent *extent)
{
	extent->count = 0;
	extent->least = PG_INT64_MAX;
	extent->unknown = unreadable(consumer);
	if (extent->unknown == NULL)
	{
		if (consumer->relkind == RELKIND_PARTITIONED_TABLE)
			read_partitions(consumer, extent);
		else
			read_table(consumer->relid, consumer->attnum, extent);
	}
	if (extent->unknown != NULL)
		extent->count = 0;
}
