/*
 * rows.h
 *		Rows of the authority's tables, as values and as columns.
 *
 * An array of columns holds the values of a row in the order of columns.h: column
 * IDGEN_NAMESPACE_NAME is at index IDGEN_NAMESPACE_NAME - 1.
 */
#ifndef IDGEN_ROWS_H
#define IDGEN_ROWS_H

#include "postgres.h"

#include "utils/uuid.h"

#include "core/layout.h"
#include "core/takeover.h"
#include "hand_over.h"

/* Where a grant must be stored before it is used. */
typedef enum IdgenDurability
{
	IDGEN_DURABILITY_LOCAL,		/* on the disk of this server */
	IDGEN_DURABILITY_QUORUM		/* and on the synchronous standbys */
} IdgenDurability;

/* The kind of every namespace. */
#define IDGEN_KIND "time"

/* A row of idgen_namespace, less its lists of roles. */
typedef struct IdgenNamespaceRow
{
	char		name[NAMEDATALEN];
	IdgenLayout layout;
	int64		grant_interval_ms;
	int64		run_ahead_ms;
	int32		first_worker;
	int32		last_worker;
	IdgenDurability durability;
	IdgenPromotion promotion;
	bool		restricted;
	bool		issuing;
	bool		retired;
	char		owner[NAMEDATALEN];
	int32		split_parts;	/* of the workers; 1 = not split */
	pg_uuid_t	lineage;		/* which ID space it is, on whatever server */
	bool		handed_over;	/* to whoever adopts the ticket: no IDs are
								 * issued here */
	IdgenHandOver ticket;		/* the last one given or adopted */
} IdgenNamespaceRow;

/* Privileges on a namespace, which are given to names of roles. */
typedef enum IdgenPrivilege
{
	IDGEN_PRIVILEGE_ISSUE,
	IDGEN_PRIVILEGE_ACQUIRE
} IdgenPrivilege;

/* The room for a format as text, which is kept to notice that the format changed. */
#define IDGEN_FORMAT_MAX 128

/* A row of idgen_authority, less its sums. */
typedef struct IdgenAuthorityRow
{
	pg_uuid_t	uuid;
	char		format[IDGEN_FORMAT_MAX];	/* see idgen_rows_format_text */
	int32		split_modulus;
	int32		split_remainder;
	IdgenIdentity identity;
} IdgenAuthorityRow;

/* The holder of an incarnation. */
typedef struct IdgenHolderRow
{
	char		namespace_name[NAMEDATALEN];
	bool		external;
	char		role[NAMEDATALEN];	/* of an external one */
} IdgenHolderRow;

extern void idgen_rows_format_text(const IdgenLayout *layout, char *format);
extern bool idgen_rows_read_namespace(const Datum *columns, IdgenNamespaceRow *row);
extern void idgen_rows_write_namespace(const IdgenNamespaceRow *row, Datum *columns);
extern void idgen_rows_read_identity(const Datum *columns, IdgenIdentity *identity);
extern void idgen_rows_read_authority(const Datum *columns, IdgenAuthorityRow *row);
extern void idgen_rows_write_authority(const char *name, const IdgenAuthorityRow *row,
									   Datum *columns);
extern void idgen_rows_read_holder(const Datum *columns, IdgenHolderRow *row);

#endif							/* IDGEN_ROWS_H */
