/*
 * confirm.c
 *		Publish grants and answers, or hold them until they are confirmed.
 *
 * Grants and answers that come here are committed and flushed on this server.
 * For a namespace with durability "local" that is enough, and they are
 * published.  With "quorum" each is held with the position of the WAL before
 * which it lies, and published when synchronous standbys have flushed that
 * position (S4).  That holds for answers as well, even for those read back
 * from the tables: what they were read from may not be confirmed.
 *
 * The list is private memory of the authority process.  Should the process
 * end, grants to cursors are found again in the tables (see round_cursors.c),
 * and external generators ask again with the same request id.
 */
#include "compat.h"

#include "authority/confirm.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "catalog/marks.h"
#include "clock.h"
#include "random.h"
#include "shmem/counters.h"
#include "shmem/pool.h"

/* How often to look, in the first second and afterwards. */
#define POLL_SOON_MS	2
#define POLL_LATER_MS	20
#define SOON_US			INT64_C(1000000)

/* A grant or an answer that is held. */
typedef struct IdgenHeld
{
	XLogRecPtr	position;
	int64		since_us;		/* monotonic */
	char		namespace_name[NAMEDATALEN];
	pg_uuid_t	namespace_uuid;
	IdgenLayout layout;
	bool		is_answer;		/* else a grant */
	IdgenCursorGrant grant;
	IdgenTicket ticket;
	IdgenAnswer answer;
} IdgenHeld;

/* Nothing is held yet; what will be lives in the current memory context. */
void
idgen_confirm_init(IdgenConfirm *confirm)
{
	memset(confirm, 0, sizeof(*confirm));
	confirm->context = CurrentMemoryContext;
	idgen_quorum_init(&confirm->quorum);
}

/* --------------------------------------------------------------------
 * Publishing
 * -------------------------------------------------------------------- */

/* If a grant came late, the next ones are to be longer. */
static void
note_length(const pg_uuid_t *uuid, const IdgenLayout *layout,
			const IdgenCursorGrant *grant)
{
	IdgenMarks *marks = idgen_marks_find_known(uuid);
	IdgenGrantTiming timing = grant->timing;

	if (marks == NULL)
		return;
	timing.published_at = idgen_layout_tick_at(layout, idgen_clock_wall_ms());
	marks->length_needed = idgen_grant_length_needed(marks->length_needed, &timing,
													 idgen_layout_ticks_ceil(layout, layout->horizon_ms));
}

static void
publish_grant(const pg_uuid_t *uuid, const IdgenLayout *layout,
			  const IdgenCursorGrant *grant)
{
	note_length(uuid, layout, grant);
	if (grant->first)
		idgen_pool_activate(grant->slot, grant->generation, &grant->timing.grant);
	else
		(void) idgen_slot_publish(grant->slot, grant->generation,
								  &grant->timing.grant, grant->timing.decided_at);
}

static void
publish_held(const IdgenHeld *entry)
{
	if (entry->is_answer)
		idgen_queue_answer(&entry->ticket, &entry->answer);
	else
		publish_grant(&entry->namespace_uuid, &entry->layout, &entry->grant);
}

/* --------------------------------------------------------------------
 * Holding
 * -------------------------------------------------------------------- */

/* Show how many grants and answers of a namespace are held. */
static void
show_count(const IdgenConfirm *confirm, const char *name)
{
	ListCell   *cell;
	int			count = 0;

	foreach(cell, confirm->held)
	{
		if (strcmp(((IdgenHeld *) lfirst(cell))->namespace_name, name) == 0)
			count++;
	}
	idgen_counters_set_unconfirmed(idgen_counters_get(MyDatabaseId, name), count);
}

/* Hold a grant or an answer of a namespace, which the caller fills in. */
static IdgenHeld *
hold(IdgenConfirm *confirm, const IdgenNamespace *ns)
{
	MemoryContext old = MemoryContextSwitchTo(confirm->context);
	IdgenHeld  *entry = palloc0(sizeof(IdgenHeld));

	entry->position = idgen_quorum_here();
	entry->since_us = idgen_clock_monotonic_us();
	strlcpy(entry->namespace_name, ns->name, NAMEDATALEN);
	entry->namespace_uuid = ns->authority.uuid;
	entry->layout = ns->row.layout;
	confirm->held = lappend(confirm->held, entry);
	MemoryContextSwitchTo(old);
	return entry;
}

/*
 * What to tell a process that waits for confirmation; it is told as well if
 * nobody is there to confirm.
 */
void
idgen_confirm_set_unconfirmed(IdgenConfirm *confirm, IdgenError *error)
{
	static const char unconfirmed[] = "The request was carried out here, but synchronous standbys have not confirmed it.";
	IdgenError	missing;
	bool		may_come;

	if (!idgen_quorum_available(&confirm->quorum, &missing, &may_come))
	{
		char		detail[IDGEN_ERROR_TEXT_MAX];

		snprintf(detail, sizeof(detail), "%s %s", unconfirmed, missing.detail);
		idgen_error_set(error, missing.kind, detail, missing.hint);
		return;
	}
	idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE, unconfirmed,
					"Check pg_stat_replication: \"flush_lsn\" of the standbys in \"synchronous_standby_names\" must advance.");
}

/* A grant to a cursor, committed and flushed. */
void
idgen_confirm_grant(IdgenConfirm *confirm, const IdgenNamespace *ns,
					const IdgenCursorGrant *grant)
{
	if (!ns->quorum)
	{
		publish_grant(&ns->authority.uuid, &ns->row.layout, grant);
		return;
	}
	hold(confirm, ns)->grant = *grant;
	show_count(confirm, ns->name);
}

/* A successful answer; what it tells is committed and flushed. */
void
idgen_confirm_answer(IdgenConfirm *confirm, const IdgenNamespace *ns,
					 const IdgenTicket *ticket, const IdgenAnswer *answer)
{
	IdgenError	error;
	IdgenHeld  *entry;

	if (!ns->quorum)
	{
		idgen_queue_answer(ticket, answer);
		return;
	}
	entry = hold(confirm, ns);
	entry->is_answer = true;
	entry->ticket = *ticket;
	entry->answer = *answer;
	idgen_confirm_set_unconfirmed(confirm, &error);
	idgen_queue_note(ticket, &error);
	show_count(confirm, ns->name);
}

/* --------------------------------------------------------------------
 * Confirmation
 * -------------------------------------------------------------------- */

/*
 * Does nobody want this entry any more?  Then it becomes a gap, or is asked
 * for again.  A grant whose cursor is gone must not stand in the way of
 * another cursor.
 */
static bool
is_over(const IdgenHeld *entry)
{
	int64		end_ms;

	if (entry->is_answer)
		return entry->ticket.request.expires_at_us < idgen_clock_monotonic_us();
	if (!idgen_slot_awaits(entry->grant.slot, entry->grant.generation))
		return true;
	return idgen_layout_unix_ms(&entry->layout, entry->grant.timing.grant.end, &end_ms) &&
		end_ms <= idgen_clock_wall_ms();
}

static void
let_go(const IdgenHeld *entry)
{
	if (!entry->is_answer)
		note_length(&entry->namespace_uuid, &entry->layout, &entry->grant);
	if (!entry->is_answer && entry->grant.first)
		idgen_slot_unreserve(entry->grant.slot, entry->grant.generation);
}

/* Show all counts anew. */
static void
mend_counts(IdgenConfirm *confirm)
{
	ListCell   *cell;

	idgen_counters_begin_authority();
	foreach(cell, confirm->held)
		show_count(confirm, ((IdgenHeld *) lfirst(cell))->namespace_name);
	confirm->counts_wrong = false;
}

/* Publish what has been confirmed, and drop what is over. */
void
idgen_confirm_run(IdgenConfirm *confirm)
{
	ListCell   *cell;
	XLogRecPtr	confirmed;

	if (confirm->counts_wrong)
		mend_counts(confirm);
	if (confirm->held == NIL)
		return;
	confirmed = idgen_quorum_confirmed(&confirm->quorum);
	foreach(cell, confirm->held)
	{
		IdgenHeld  *entry = lfirst(cell);
		char		name[NAMEDATALEN];

		if (entry->position <= confirmed)
			publish_held(entry);
		else if (is_over(entry))
			let_go(entry);
		else
			continue;
		strlcpy(name, entry->namespace_name, NAMEDATALEN);
		confirm->held = foreach_delete_current(confirm->held, cell);
		pfree(entry);
		show_count(confirm, name);
	}
}

/* An incarnation of this server was ended: its cursor gets nothing more. */
void
idgen_confirm_forget_incarnation(IdgenConfirm *confirm, int64 incarnation)
{
	ListCell   *cell;

	foreach(cell, confirm->held)
	{
		IdgenHeld  *entry = lfirst(cell);
		char		name[NAMEDATALEN];

		if (entry->is_answer || entry->grant.incarnation != incarnation)
			continue;
		let_go(entry);
		strlcpy(name, entry->namespace_name, NAMEDATALEN);
		confirm->held = foreach_delete_current(confirm->held, cell);
		pfree(entry);
		show_count(confirm, name);
	}
}

/*
 * Reservations made after a generation were given back: none of these cursors
 * comes to life.  This is called while an error is handled, so it must not
 * raise another.
 */
void
idgen_confirm_forget_first(IdgenConfirm *confirm, uint64 after)
{
	ListCell   *cell;

	foreach(cell, confirm->held)
	{
		IdgenHeld  *entry = lfirst(cell);

		if (entry->is_answer || !entry->grant.first ||
			entry->grant.generation <= after)
			continue;
		confirm->held = foreach_delete_current(confirm->held, cell);
		pfree(entry);
		confirm->counts_wrong = true;
	}
}

/* --------------------------------------------------------------------
 * What is held
 * -------------------------------------------------------------------- */

/* Is the answer to a request held? */
bool
idgen_confirm_has_request(const IdgenConfirm *confirm, const IdgenTicket *ticket)
{
	ListCell   *cell;

	foreach(cell, confirm->held)
	{
		const IdgenHeld *entry = lfirst(cell);

		if (entry->is_answer && entry->ticket.process == ticket->process &&
			entry->ticket.number == ticket->number)
			return true;
	}
	return false;
}

/* Is a grant to this cursor held? */
bool
idgen_confirm_has_slot(const IdgenConfirm *confirm, int slot, uint64 generation)
{
	ListCell   *cell;

	foreach(cell, confirm->held)
	{
		const IdgenHeld *entry = lfirst(cell);

		if (!entry->is_answer && entry->grant.slot == slot &&
			entry->grant.generation == generation)
			return true;
	}
	return false;
}

/*
 * How many grants to cursors are held, of one namespace or, with NULL, of all;
 * with first_only, how many of them bring a cursor to life.
 */
int
idgen_confirm_count(const IdgenConfirm *confirm, const pg_uuid_t *namespace_uuid,
					bool first_only)
{
	ListCell   *cell;
	int			count = 0;

	foreach(cell, confirm->held)
	{
		const IdgenHeld *entry = lfirst(cell);

		if (!entry->is_answer && (!first_only || entry->grant.first) &&
			(namespace_uuid == NULL ||
			 idgen_same_uuid(&entry->namespace_uuid, namespace_uuid)))
			count++;
	}
	return count;
}

/*
 * The incarnations whose first grants are held.  Returns their number, which
 * is that of idgen_confirm_count with NULL and first_only.
 */
int
idgen_confirm_first_incarnations(const IdgenConfirm *confirm, int64 *incarnations)
{
	ListCell   *cell;
	int			count = 0;

	foreach(cell, confirm->held)
	{
		const IdgenHeld *entry = lfirst(cell);

		if (!entry->is_answer && entry->grant.first)
			incarnations[count++] = entry->grant.incarnation;
	}
	return count;
}

/* Milliseconds until idgen_confirm_run is due; far off if nothing is held. */
int64
idgen_confirm_poll_ms(const IdgenConfirm *confirm)
{
	const IdgenHeld *youngest;

	if (confirm->held == NIL)
		return PG_INT64_MAX;
	youngest = llast(confirm->held);
	return idgen_clock_monotonic_us() - youngest->since_us < SOON_US ?
		POLL_SOON_MS : POLL_LATER_MS;
}
