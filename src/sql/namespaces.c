/*
 * namespaces.c
 *		SQL functions that create, fence, adopt and end namespaces.
 *
 * Creating a namespace is ordinary transactional SQL.  The other functions
 * change what the authority grants by, and so go through the authority process
 * (session/client.c).
 */
#include "compat.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "authority/quorum.h"
#include "catalog/identity.h"
#include "catalog/namespace_rows.h"
#include "catalog/policy.h"
#include "catalog/policy_lock.h"
#include "catalog/tables.h"
#include "clock.h"
#include "deadline.h"
#include "error.h"
#include "random.h"
#include "session/client.h"
#include "session/first_use.h"
#include "sql/arguments.h"
#include "sql/ticket.h"

/* A range with at least this many workers has promotion policy "split" by default. */
#define SPLIT_WORKERS_MIN 16

/* Arguments of idgen_create_namespace, in order. */
enum
{
	CREATE_NAME, CREATE_TIMESTAMP_BITS, CREATE_WORKER_BITS,
	CREATE_SEQUENCE_BITS, CREATE_EPOCH, CREATE_TICK_MS, CREATE_GRANT_INTERVAL,
	CREATE_HORIZON, CREATE_FIRST_WORKER, CREATE_LAST_WORKER, CREATE_DURABILITY,
	CREATE_PROMOTION, CREATE_RUN_AHEAD, CREATE_RESTRICTED, CREATE_ISSUING
};

static void
read_name(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	char	   *name;

	REQUIRE_ARG(CREATE_NAME, "name");
	name = text_to_cstring(PG_GETARG_TEXT_PP(CREATE_NAME));
	if (name[0] == '\0' || strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("namespace name must have 1 to %d bytes",
						NAMEDATALEN - 1)));
	strlcpy(row->name, name, NAMEDATALEN);
}

static void
read_layout(FunctionCallInfo fcinfo, IdgenLayout *layout, bool issuing)
{
	TimestampTz epoch;

	REQUIRE_ARG(CREATE_TIMESTAMP_BITS, "timestamp_bits");
	REQUIRE_ARG(CREATE_WORKER_BITS, "worker_bits");
	REQUIRE_ARG(CREATE_SEQUENCE_BITS, "sequence_bits");
	REQUIRE_ARG(CREATE_EPOCH, "epoch");
	REQUIRE_ARG(CREATE_TICK_MS, "tick_ms");
	REQUIRE_ARG(CREATE_HORIZON, "horizon");

	layout->timestamp_bits = PG_GETARG_INT32(CREATE_TIMESTAMP_BITS);
	layout->worker_bits = PG_GETARG_INT32(CREATE_WORKER_BITS);
	layout->sequence_bits = PG_GETARG_INT32(CREATE_SEQUENCE_BITS);
	layout->tick_ms = PG_GETARG_INT32(CREATE_TICK_MS);
	layout->horizon_ms = idgen_arguments_interval_ms(PG_GETARG_INTERVAL_P(CREATE_HORIZON),
													 "horizon");
	epoch = PG_GETARG_TIMESTAMPTZ(CREATE_EPOCH);
	if (TIMESTAMP_NOT_FINITE(epoch))
		idgen_arguments_invalid("epoch must be finite", NULL);
	if (epoch % 1000 != 0)
		idgen_arguments_invalid("epoch must be a whole number of milliseconds", NULL);
	layout->epoch_ms = epoch / 1000 + POSTGRES_EPOCH_MS;

	switch (idgen_layout_validate(layout))
	{
		case IDGEN_LAYOUT_OK:
			break;
		case IDGEN_LAYOUT_BAD_TIMESTAMP_BITS:
			idgen_arguments_invalid("timestamp_bits must be between 1 and 63", NULL);
			break;
		case IDGEN_LAYOUT_BAD_WORKER_BITS:
			idgen_arguments_invalid("worker_bits must be between 0 and 31", NULL);
			break;
		case IDGEN_LAYOUT_BAD_SEQUENCE_BITS:
			idgen_arguments_invalid("sequence_bits must be between 0 and 31", NULL);
			break;
		case IDGEN_LAYOUT_BAD_SUM:
			idgen_arguments_invalid("sum of timestamp_bits, worker_bits and sequence_bits must not exceed 63",
									"An ID is a positive bigint.");
			break;
		case IDGEN_LAYOUT_BAD_EPOCH:
			idgen_arguments_invalid("epoch is out of range", NULL);
			break;
		case IDGEN_LAYOUT_BAD_TICK:
			idgen_arguments_invalid("tick_ms must be between 1 and 3600000", NULL);
			break;
		case IDGEN_LAYOUT_BAD_HORIZON:
			idgen_arguments_invalid("horizon must be between one tick and 1 hour", NULL);
			break;
		case IDGEN_LAYOUT_SHORT_FIELD:
			if (issuing)
				idgen_arguments_invalid("the timestamp field is shorter than the horizon",
										"Use more timestamp bits or a longer tick, or pass issuing => false to decode only.");
			break;
	}
}

/*
 * An error unless the timestamp field has begun and is not over; none if the
 * namespace is for decoding only.
 */
static void
check_life(const IdgenNamespaceRow *row)
{
	if (!row->issuing)
		return;
	switch (idgen_layout_life(&row->layout, idgen_clock_wall_ms()))
	{
		case IDGEN_LIFE_RUNNING:
			return;
		case IDGEN_LIFE_NOT_BEGUN:
			idgen_arguments_invalid("epoch is in the future",
									"Use an epoch in the past, or pass issuing => false to decode only.");
			break;
		case IDGEN_LIFE_OVER:
			idgen_arguments_invalid("the timestamp field is already used up",
									"Use a later epoch or more timestamp bits, or pass issuing => false to decode only.");
			break;
	}
}

static void
read_intervals(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	REQUIRE_ARG(CREATE_GRANT_INTERVAL, "grant_interval");
	REQUIRE_ARG(CREATE_RUN_AHEAD, "run_ahead");
	row->grant_interval_ms =
		idgen_arguments_interval_ms(PG_GETARG_INTERVAL_P(CREATE_GRANT_INTERVAL),
									"grant_interval");
	row->run_ahead_ms =
		idgen_arguments_interval_ms(PG_GETARG_INTERVAL_P(CREATE_RUN_AHEAD),
									"run_ahead");
}

static void
read_workers(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	int64		count = idgen_layout_worker_count(&row->layout);

	REQUIRE_ARG(CREATE_FIRST_WORKER, "first_worker");
	row->first_worker = PG_GETARG_INT32(CREATE_FIRST_WORKER);
	row->last_worker = PG_ARGISNULL(CREATE_LAST_WORKER) ? (int32) (count - 1) :
		PG_GETARG_INT32(CREATE_LAST_WORKER);
}

static void
read_durability(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	REQUIRE_ARG(CREATE_DURABILITY, "durability");
	row->durability =
		idgen_durability_require(text_to_cstring(PG_GETARG_TEXT_PP(CREATE_DURABILITY)));
}

static void
read_promotion(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	int64		worker_count = (int64) row->last_worker - row->first_worker + 1;

	if (!PG_ARGISNULL(CREATE_PROMOTION))
		row->promotion =
			idgen_promotion_require(text_to_cstring(PG_GETARG_TEXT_PP(CREATE_PROMOTION)));
	else
		row->promotion = worker_count >= SPLIT_WORKERS_MIN ?
			IDGEN_PROMOTION_SPLIT : IDGEN_PROMOTION_FENCE;
	row->split_parts = row->promotion == IDGEN_PROMOTION_SPLIT ?
		idgen_split_parts(worker_count) : 1;
}

static void
read_flags(FunctionCallInfo fcinfo, IdgenNamespaceRow *row)
{
	REQUIRE_ARG(CREATE_RESTRICTED, "restricted");
	REQUIRE_ARG(CREATE_ISSUING, "issuing");
	row->restricted = PG_GETARG_BOOL(CREATE_RESTRICTED);
	row->issuing = PG_GETARG_BOOL(CREATE_ISSUING);
}

/* The identity of a new namespace is that of this server and database, now. */
static void
make_authority(const IdgenNamespaceRow *row, IdgenAuthorityRow *authority)
{
	idgen_random_uuid(&authority->uuid);
	idgen_rows_format_text(&row->layout, authority->format);
	idgen_identity_read(&authority->identity);
	authority->split_modulus = row->split_parts;
	authority->split_remainder =
		idgen_split_class(authority->identity.timeline, row->split_parts);
}

PG_FUNCTION_INFO_V1(idgen_create_namespace);
Datum
idgen_create_namespace(PG_FUNCTION_ARGS)
{
	IdgenNamespaceRow row;
	IdgenAuthorityRow authority;
	bool		copied;

	PreventCommandIfReadOnly("idgen_create_namespace()");
	PreventCommandDuringRecovery("idgen_create_namespace()");

	memset(&row, 0, sizeof(row));
	read_name(fcinfo, &row);
	read_flags(fcinfo, &row);
	read_layout(fcinfo, &row.layout, row.issuing);
	read_intervals(fcinfo, &row);
	read_workers(fcinfo, &row);
	read_durability(fcinfo, &row);
	read_promotion(fcinfo, &row);
	idgen_policy_check(&row);
	check_life(&row);
	strlcpy(row.owner, GetUserNameFromId(GetUserId(), false), NAMEDATALEN);
	idgen_random_uuid(&row.lineage);

	if (!idgen_tables_find())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"idgen\" is not installed in this database")));
	make_authority(&row, &authority);
	idgen_policy_lock_name(row.name);
	if (!idgen_namespace_rows_insert(&row, &authority, &copied))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("namespace \"%s\" already exists", row.name)));
	if (!copied)
		idgen_first_use_begin(row.name, &authority.uuid);
	else
		ereport(WARNING,
				(errmsg("namespace \"%s\" begins as a copy", row.name),
				 errdetail("Marks of this name were restored earlier, and the database that they come from may still issue IDs."),
				 errhint("Make sure that the original will never issue IDs again, then call idgen_adopt_namespace() for this namespace.")));
	PG_RETURN_VOID();
}

/* --- carried out by the authority */

static char *
name_argument(FunctionCallInfo fcinfo, const char *function)
{
	REQUIRE_ARG(0, "name");
	PreventCommandIfReadOnly(function);
	return text_to_cstring(PG_GETARG_TEXT_PP(0));
}

PG_FUNCTION_INFO_V1(idgen_retire_namespace);
Datum
idgen_retire_namespace(PG_FUNCTION_ARGS)
{
	idgen_client_retire(name_argument(fcinfo, "idgen_retire_namespace()"));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(idgen_fence_namespace);
Datum
idgen_fence_namespace(PG_FUNCTION_ARGS)
{
	idgen_client_fence(name_argument(fcinfo, "idgen_fence_namespace()"),
					   PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1));
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(idgen_adopt_namespace);
Datum
idgen_adopt_namespace(PG_FUNCTION_ARGS)
{
	char	   *name = name_argument(fcinfo, "idgen_adopt_namespace()");
	IdgenTicketText ticket;

	if ((!PG_ARGISNULL(2) && PG_GETARG_INT32(2) < 0) ||
		(!PG_ARGISNULL(3) && PG_GETARG_INT32(3) < 0))
		idgen_arguments_invalid("first_worker and last_worker must not be negative",
								NULL);
	if (!PG_ARGISNULL(4))
		idgen_ticket_read(PG_GETARG_JSONB_P(4), &ticket);
	idgen_client_adopt(name, PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1),
					   PG_ARGISNULL(2) ? -1 : PG_GETARG_INT32(2),
					   PG_ARGISNULL(3) ? -1 : PG_GETARG_INT32(3),
					   PG_ARGISNULL(4) ? NULL : &ticket);
	PG_RETURN_VOID();
}

/*
 * A standby that has not received the hand-over would go on with the namespace if it were
 * promoted.  So the ticket is shown when all that are connected have received it.
 */
PG_FUNCTION_INFO_V1(idgen_hand_over_namespace);
Datum
idgen_hand_over_namespace(PG_FUNCTION_ARGS)
{
	char	   *name = name_argument(fcinfo, "idgen_hand_over_namespace()");
	int64		until_us = idgen_deadline_of_command_from(idgen_clock_monotonic_us());
	char		standby[NAMEDATALEN];
	IdgenTicketText ticket;

	idgen_client_hand_over(name, &ticket);
	if (!idgen_quorum_wait_for_all(idgen_quorum_here(), until_us, standby))
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("namespace \"%s\" is handed over, but not all standbys know it", name),
				 errdetail("Standby \"%s\" has not confirmed it.", standby),
				 errhint("Call idgen_hand_over_namespace() again for the ticket, or disconnect the standby. Do not promote a standby that has not received the hand-over.")));
	PG_RETURN_DATUM(idgen_ticket_write(&ticket));
}
