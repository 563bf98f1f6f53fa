/*
 * rows.c
 *		Turn columns of the authority's tables into rows, and rows into columns.
 *
 * Callers see to it that no text and no uuid that is read here is null.
 */
#include "compat.h"

#include "catalog/rows.h"

#include "utils/array.h"
#include "utils/builtins.h"

#include "catalog/columns.h"
#include "catalog/policy.h"

static void
read_text(Datum column, char *value, size_t size)
{
	char	   *string = TextDatumGetCString(column);

	strlcpy(value, string, size);
	pfree(string);
}

/* A format as text; there must be room for IDGEN_FORMAT_MAX. */
void
idgen_rows_format_text(const IdgenLayout *layout, char *format)
{
	snprintf(format, IDGEN_FORMAT_MAX,
			 IDGEN_KIND " %d/%d/%d epoch " INT64_FORMAT " tick " INT64_FORMAT " horizon " INT64_FORMAT,
			 layout->timestamp_bits, layout->worker_bits, layout->sequence_bits,
			 (int64) layout->epoch_ms, (int64) layout->tick_ms,
			 (int64) layout->horizon_ms);
}

/* Read a row of idgen_namespace; false if its policy has unknown words. */
bool
idgen_rows_read_namespace(const Datum *columns, IdgenNamespaceRow *row)
{
	char		durability[NAMEDATALEN];
	char		promotion[NAMEDATALEN];

	memset(row, 0, sizeof(*row));
	read_text(columns[IDGEN_NAMESPACE_NAME - 1], row->name, NAMEDATALEN);
	row->layout.timestamp_bits = DatumGetInt32(columns[IDGEN_NAMESPACE_TIMESTAMP_BITS - 1]);
	row->layout.worker_bits = DatumGetInt32(columns[IDGEN_NAMESPACE_WORKER_BITS - 1]);
	row->layout.sequence_bits = DatumGetInt32(columns[IDGEN_NAMESPACE_SEQUENCE_BITS - 1]);
	row->layout.epoch_ms = DatumGetInt64(columns[IDGEN_NAMESPACE_EPOCH_MS - 1]);
	row->layout.tick_ms = DatumGetInt64(columns[IDGEN_NAMESPACE_TICK_MS - 1]);
	row->layout.horizon_ms = DatumGetInt64(columns[IDGEN_NAMESPACE_HORIZON_MS - 1]);
	row->grant_interval_ms = DatumGetInt64(columns[IDGEN_NAMESPACE_GRANT_INTERVAL_MS - 1]);
	row->run_ahead_ms = DatumGetInt64(columns[IDGEN_NAMESPACE_RUN_AHEAD_MS - 1]);
	row->first_worker = DatumGetInt32(columns[IDGEN_NAMESPACE_FIRST_WORKER - 1]);
	row->last_worker = DatumGetInt32(columns[IDGEN_NAMESPACE_LAST_WORKER - 1]);
	read_text(columns[IDGEN_NAMESPACE_DURABILITY - 1], durability, NAMEDATALEN);
	read_text(columns[IDGEN_NAMESPACE_PROMOTION - 1], promotion, NAMEDATALEN);
	row->restricted = DatumGetBool(columns[IDGEN_NAMESPACE_RESTRICTED - 1]);
	row->issuing = DatumGetBool(columns[IDGEN_NAMESPACE_ISSUING - 1]);
	row->retired = DatumGetBool(columns[IDGEN_NAMESPACE_RETIRED - 1]);
	read_text(columns[IDGEN_NAMESPACE_OWNER - 1], row->owner, NAMEDATALEN);
	row->split_parts = DatumGetInt32(columns[IDGEN_NAMESPACE_SPLIT_PARTS - 1]);
	row->lineage = *DatumGetUUIDP(columns[IDGEN_NAMESPACE_LINEAGE - 1]);
	row->handed_over = DatumGetBool(columns[IDGEN_NAMESPACE_HANDED_OVER - 1]);
	row->ticket.number = *DatumGetUUIDP(columns[IDGEN_NAMESPACE_TICKET - 1]);
	row->ticket.greatest_id = DatumGetInt64(columns[IDGEN_NAMESPACE_TICKET_ID - 1]);
	return idgen_durability_parse(durability, &row->durability) &&
		idgen_promotion_parse(promotion, &row->promotion);
}

/* The columns of a new namespace, on which no role has privileges yet. */
void
idgen_rows_write_namespace(const IdgenNamespaceRow *row, Datum *columns)
{
	Datum		no_roles = PointerGetDatum(construct_empty_array(TEXTOID));

	columns[IDGEN_NAMESPACE_NAME - 1] = CStringGetTextDatum(row->name);
	columns[IDGEN_NAMESPACE_KIND - 1] = CStringGetTextDatum(IDGEN_KIND);
	columns[IDGEN_NAMESPACE_TIMESTAMP_BITS - 1] = Int32GetDatum(row->layout.timestamp_bits);
	columns[IDGEN_NAMESPACE_WORKER_BITS - 1] = Int32GetDatum(row->layout.worker_bits);
	columns[IDGEN_NAMESPACE_SEQUENCE_BITS - 1] = Int32GetDatum(row->layout.sequence_bits);
	columns[IDGEN_NAMESPACE_EPOCH_MS - 1] = Int64GetDatum(row->layout.epoch_ms);
	columns[IDGEN_NAMESPACE_TICK_MS - 1] = Int64GetDatum(row->layout.tick_ms);
	columns[IDGEN_NAMESPACE_HORIZON_MS - 1] = Int64GetDatum(row->layout.horizon_ms);
	columns[IDGEN_NAMESPACE_GRANT_INTERVAL_MS - 1] = Int64GetDatum(row->grant_interval_ms);
	columns[IDGEN_NAMESPACE_RUN_AHEAD_MS - 1] = Int64GetDatum(row->run_ahead_ms);
	columns[IDGEN_NAMESPACE_FIRST_WORKER - 1] = Int32GetDatum(row->first_worker);
	columns[IDGEN_NAMESPACE_LAST_WORKER - 1] = Int32GetDatum(row->last_worker);
	columns[IDGEN_NAMESPACE_DURABILITY - 1] =
		CStringGetTextDatum(idgen_durability_word(row->durability));
	columns[IDGEN_NAMESPACE_PROMOTION - 1] =
		CStringGetTextDatum(idgen_promotion_word(row->promotion));
	columns[IDGEN_NAMESPACE_RESTRICTED - 1] = BoolGetDatum(row->restricted);
	columns[IDGEN_NAMESPACE_ISSUING - 1] = BoolGetDatum(row->issuing);
	columns[IDGEN_NAMESPACE_RETIRED - 1] = BoolGetDatum(row->retired);
	columns[IDGEN_NAMESPACE_OWNER - 1] = CStringGetTextDatum(row->owner);
	columns[IDGEN_NAMESPACE_ISSUE_ROLES - 1] = no_roles;
	columns[IDGEN_NAMESPACE_ACQUIRE_ROLES - 1] = no_roles;
	columns[IDGEN_NAMESPACE_SPLIT_PARTS - 1] = Int32GetDatum(row->split_parts);
	columns[IDGEN_NAMESPACE_LINEAGE - 1] = UUIDPGetDatum(&row->lineage);
	columns[IDGEN_NAMESPACE_HANDED_OVER - 1] = BoolGetDatum(row->handed_over);
	columns[IDGEN_NAMESPACE_TICKET - 1] = UUIDPGetDatum(&row->ticket.number);
	columns[IDGEN_NAMESPACE_TICKET_ID - 1] = Int64GetDatum(row->ticket.greatest_id);
}

/* Read the identity in a row of idgen_authority. */
void
idgen_rows_read_identity(const Datum *columns, IdgenIdentity *identity)
{
	identity->system_identifier =
		(uint64) DatumGetInt64(columns[IDGEN_AUTHORITY_SYSTEM_IDENTIFIER - 1]);
	identity->database = DatumGetObjectId(columns[IDGEN_AUTHORITY_DATABASE - 1]);
	identity->timeline = (uint32) DatumGetInt64(columns[IDGEN_AUTHORITY_TIMELINE - 1]);
	identity->control_inode =
		(uint64) DatumGetInt64(columns[IDGEN_AUTHORITY_CONTROL_INODE - 1]);
	identity->control_birth = DatumGetInt64(columns[IDGEN_AUTHORITY_CONTROL_BIRTH - 1]);
	identity->version_inode =
		(uint64) DatumGetInt64(columns[IDGEN_AUTHORITY_VERSION_INODE - 1]);
	identity->version_birth = DatumGetInt64(columns[IDGEN_AUTHORITY_VERSION_BIRTH - 1]);
}

/* Read a row of idgen_authority. */
void
idgen_rows_read_authority(const Datum *columns, IdgenAuthorityRow *row)
{
	row->uuid = *DatumGetUUIDP(columns[IDGEN_AUTHORITY_UUID - 1]);
	read_text(columns[IDGEN_AUTHORITY_FORMAT - 1], row->format, IDGEN_FORMAT_MAX);
	row->split_modulus = DatumGetInt32(columns[IDGEN_AUTHORITY_SPLIT_MODULUS - 1]);
	row->split_remainder = DatumGetInt32(columns[IDGEN_AUTHORITY_SPLIT_REMAINDER - 1]);
	idgen_rows_read_identity(columns, &row->identity);
}

/* The columns of the identity of a namespace: IDGEN_AUTHORITY_IDENTITY_COLUMNS. */
void
idgen_rows_write_authority(const char *name, const IdgenAuthorityRow *row,
						   Datum *columns)
{
	const IdgenIdentity *identity = &row->identity;

	columns[IDGEN_AUTHORITY_NAMESPACE - 1] = CStringGetTextDatum(name);
	columns[IDGEN_AUTHORITY_UUID - 1] = UUIDPGetDatum(&row->uuid);
	columns[IDGEN_AUTHORITY_FORMAT - 1] = CStringGetTextDatum(row->format);
	columns[IDGEN_AUTHORITY_SPLIT_MODULUS - 1] = Int32GetDatum(row->split_modulus);
	columns[IDGEN_AUTHORITY_SPLIT_REMAINDER - 1] = Int32GetDatum(row->split_remainder);
	columns[IDGEN_AUTHORITY_SYSTEM_IDENTIFIER - 1] =
		Int64GetDatum((int64) identity->system_identifier);
	columns[IDGEN_AUTHORITY_DATABASE - 1] = ObjectIdGetDatum(identity->database);
	columns[IDGEN_AUTHORITY_TIMELINE - 1] = Int64GetDatum(identity->timeline);
	columns[IDGEN_AUTHORITY_CONTROL_INODE - 1] =
		Int64GetDatum((int64) identity->control_inode);
	columns[IDGEN_AUTHORITY_CONTROL_BIRTH - 1] = Int64GetDatum(identity->control_birth);
	columns[IDGEN_AUTHORITY_VERSION_INODE - 1] =
		Int64GetDatum((int64) identity->version_inode);
	columns[IDGEN_AUTHORITY_VERSION_BIRTH - 1] = Int64GetDatum(identity->version_birth);
}

/* Read the holder in a row of idgen_incarnation. */
void
idgen_rows_read_holder(const Datum *columns, IdgenHolderRow *row)
{
	char		kind[NAMEDATALEN];

	read_text(columns[IDGEN_INCARNATION_NAMESPACE - 1], row->namespace_name, NAMEDATALEN);
	read_text(columns[IDGEN_INCARNATION_KIND - 1], kind, NAMEDATALEN);
	row->external = strcmp(kind, "external") == 0;
	row->role[0] = '\0';
	if (row->external)
		read_text(columns[IDGEN_INCARNATION_ROLE - 1], row->role, NAMEDATALEN);
}
