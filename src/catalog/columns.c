/*
 * columns.c
 *		The authority's tables and the types of their columns.
 */
#include "compat.h"

#include "catalog/columns.h"

#define TABLE(name, COLUMNS, end) {name, end - 1, {COLUMNS(IDGEN_COLUMN_TYPE)}}

const IdgenTableColumns idgen_table_columns[IDGEN_TABLE_COUNT] = {
	[IDGEN_TABLE_NAMESPACE] = TABLE("idgen_namespace", IDGEN_NAMESPACE_COLUMNS, IDGEN_NAMESPACE_END),
	[IDGEN_TABLE_FLOOR] = TABLE("idgen_floor", IDGEN_FLOOR_COLUMNS, IDGEN_FLOOR_END),
	[IDGEN_TABLE_WORKER] = TABLE("idgen_worker", IDGEN_WORKER_COLUMNS, IDGEN_WORKER_END),
	[IDGEN_TABLE_AUTHORITY] = TABLE("idgen_authority", IDGEN_AUTHORITY_COLUMNS, IDGEN_AUTHORITY_END),
	[IDGEN_TABLE_INCARNATION] = TABLE("idgen_incarnation", IDGEN_INCARNATION_COLUMNS, IDGEN_INCARNATION_END),
	[IDGEN_TABLE_GRANT] = TABLE("idgen_grant", IDGEN_GRANT_COLUMNS, IDGEN_GRANT_END),
	[IDGEN_TABLE_CHECKSUM] = TABLE("idgen_checksum", IDGEN_CHECKSUM_COLUMNS, IDGEN_CHECKSUM_END),
};
