/*
 * confirm.c
 *		Publish grants and answers, or hold them until they are confirmed.
 *
 * What comes here is committed and flushed on this server.  For a namespace with
 * durability "local" that is all, and it is published.  With "quorum" it is held
 * with the position of the WAL before which it lies, and published when
 * synchronous standbys have flushed that position (S4).  That goes for answers
 * as well, also for those that were read back: what they were read from may not
 * be confirmed.
 *
 * The list is the worker's own memory.  Should the worker end, grants to cursors
 * are found again in the tables (see round.c), and external generators ask again
 * with the same request id.
 */
#include "compat.h"

#include "authority/confirm.h"

#include "miscadmin.h"
#include "nodes/pg_list.h"
#include "utils/memutils.h"

#include "clock.h"
#include "random.h"
#include "catalog/marks.h"
#include "shmem/pool.h"
#include "authority/quorum.h"
#include "shmem/counters.h"

/* How often to look: soon while it may come soon. */
#define POLL_SOON_MS	2
#define POLL_LATER_MS	20
#define SOON_US			INT64_C(1000000)

typedef struct IdgenHeld
{
	XLogRecPtr	position;
	int64		since_us;		/* monotonic */
	char		namespace_name[NAMEDATALEN];
	pg_uuid_t	namespace_uuid;
	IdgenLayout layout;
	bool		is_answer;		/* else a grant */
	IdgenCursorGrant grant;
	IdgenMailTaken taken;
	IdgenAnswer answer;
} IdgenHeld;

static List *held = NIL;		/* in TopMemoryContext */
static bool counts_wrong = false;	/* those that are shown */

/* --------------------------------------------------------------------
 * Publishing
 * -------------------------------------------------------------------- */

/* A grant may have come late: then the next ones are to be longer. */
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
		(void) idgen_pool_publish(grant->slot, grant->generation,
								  &grant->timing.grant, grant->timing.decided_at);
}

static void
publish(const IdgenHeld *entry)
{
	if (entry->is_answer)
		idgen_queue_answer(&entry->taken, &entry->answer);
	else
		publish_grant(&entry->namespace_uuid, &entry->layout, &entry->grant);
}

/* --------------------------------------------------------------------
 * Holding
 * -------------------------------------------------------------------- */

/* Show how many grants and answers of a namespace are held. */
static void
show_count(const char *name)
{
	ListCell   *cell;
	int			count = 0;

	foreach(cell, held)
		if (strcmp(((IdgenHeld *) lfirst(cell))->namespace_name, name) == 0)
			count++;
	idgen_stats_set_unconfirmed(idgen_stats_get(MyDatabaseId, name), count);
}

static IdgenHeld *
hold(const IdgenNamespace *ns)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	IdgenHeld  *entry = palloc0(sizeof(IdgenHeld));

	entry->position = idgen_quorum_here();
	entry->since_us = idgen_clock_monotonic_us();
	strlcpy(entry->namespace_name, ns->name, NAMEDATALEN);
	entry->namespace_uuid = ns->authority.uuid;
	entry->layout = ns->row.layout;
	held = lappend(held, entry);
	MemoryContextSwitchTo(old);
	return entry;
}

/* What to tell those who wait for confirmation: also if nobody is there to confirm. */
void
idgen_confirm_set_unconfirmed(IdgenError *error)
{
	static const char unconfirmed[] = "It was granted or done here, but synchronous standbys have not confirmed it.";
	IdgenError missing;
	bool		may_come;

	if (!idgen_quorum_available(&missing, &may_come))
	{
		char		detail[IDGEN_ERROR_TEXT_MAX];

		snprintf(detail, sizeof(detail), "%s %s", unconfirmed, missing.detail);
		idgen_error_set(error, missing.kind, detail, missing.hint);
		return;
	}
	idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE, unconfirmed,
					  "Look at pg_stat_replication: \"flush_lsn\" of the standbys in \"synchronous_standby_names\" must go on.");
}

/* A grant to a cursor, committed and flushed. */
void
idgen_confirm_grant(const IdgenNamespace *ns, const IdgenCursorGrant *grant)
{
	if (!ns->quorum)
	{
		publish_grant(&ns->authority.uuid, &ns->row.layout, grant);
		return;
	}
	hold(ns)->grant = *grant;
	show_count(ns->name);
}

/* A success to be answered, of what is committed and flushed. */
void
idgen_confirm_answer(const IdgenNamespace *ns, const IdgenMailTaken *taken,
						 const IdgenAnswer *answer)
{
	IdgenError error;
	IdgenHeld  *entry;

	if (!ns->quorum)
	{
		idgen_queue_answer(taken, answer);
		return;
	}
	entry = hold(ns);
	entry->is_answer = true;
	entry->taken = *taken;
	entry->answer = *answer;
	idgen_confirm_set_unconfirmed(&error);
	idgen_queue_note(taken, &error);
	show_count(ns->name);
}

/* --------------------------------------------------------------------
 * Confirmation
 * -------------------------------------------------------------------- */

/*
 * Does nobody want it any more?  Then it is a gap, or asked for again.  A grant
 * whose cursor is gone must not stand in the way of another cursor.
 */
static bool
is_over(const IdgenHeld *entry)
{
	int64		end_ms;

	if (entry->is_answer)
		return entry->taken.mail.expires_at_us < idgen_clock_monotonic_us();
	if (!idgen_pool_awaits(entry->grant.slot, entry->grant.generation))
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
		idgen_pool_unreserve(entry->grant.slot, entry->grant.generation);
}

/* Show all counts anew. */
static void
mend_counts(void)
{
	ListCell   *cell;

	idgen_stats_begin_authority();
	foreach(cell, held)
		show_count(((IdgenHeld *) lfirst(cell))->namespace_name);
	counts_wrong = false;
}

/* Publish what has been confirmed, drop what is over. */
void
idgen_confirm_step(void)
{
	ListCell   *cell;
	XLogRecPtr	confirmed;

	if (counts_wrong)
		mend_counts();
	if (held == NIL)
		return;
	confirmed = idgen_quorum_confirmed();
	foreach(cell, held)
	{
		IdgenHeld  *entry = lfirst(cell);
		char		name[NAMEDATALEN];

		if (entry->position <= confirmed)
			publish(entry);
		else if (is_over(entry))
			let_go(entry);
		else
			continue;
		strlcpy(name, entry->namespace_name, NAMEDATALEN);
		held = foreach_delete_current(held, cell);
		pfree(entry);
		show_count(name);
	}
}

/* An incarnation of this server was ended: its cursor gets nothing more. */
void
idgen_confirm_forget_incarnation(int64 incarnation)
{
	ListCell   *cell;

	foreach(cell, held)
	{
		IdgenHeld  *entry = lfirst(cell);
		char		name[NAMEDATALEN];

		if (entry->is_answer || entry->grant.incarnation != incarnation)
			continue;
		let_go(entry);
		strlcpy(name, entry->namespace_name, NAMEDATALEN);
		held = foreach_delete_current(held, cell);
		pfree(entry);
		show_count(name);
	}
}

/*
 * Reservations after a generation were given back: none of these cursors comes to
 * life.  While an error is handled, so nothing here raises another.
 */
void
idgen_confirm_forget_first(uint64 after)
{
	ListCell   *cell;

	foreach(cell, held)
	{
		IdgenHeld  *entry = lfirst(cell);

		if (entry->is_answer || !entry->grant.first ||
			entry->grant.generation <= after)
			continue;
		held = foreach_delete_current(held, cell);
		pfree(entry);
		counts_wrong = true;
	}
}

/* --------------------------------------------------------------------
 * What is held
 * -------------------------------------------------------------------- */

/* Is a request answered as soon as that is confirmed? */
bool
idgen_confirm_has_request(const IdgenMailTaken *taken)
{
	ListCell   *cell;

	foreach(cell, held)
	{
		const IdgenHeld *entry = lfirst(cell);

		if (entry->is_answer && entry->taken.process == taken->process &&
			entry->taken.ticket == taken->ticket)
			return true;
	}
	return false;
}

/* Is more held for a cursor? */
bool
idgen_confirm_has_slot(int slot, uint64 generation)
{
	ListCell   *cell;

	foreach(cell, held)
	{
		const IdgenHeld *entry = lfirst(cell);

		if (!entry->is_answer && entry->grant.slot == slot &&
			entry->grant.generation == generation)
			return true;
	}
	return false;
}

/*
 * How many grants to cursors are held: of one namespace, or of all with NULL;
 * of them, with first_only, those that bring a cursor to life.
 */
int
idgen_confirm_count(const pg_uuid_t *namespace_uuid, bool first_only)
{
	ListCell   *cell;
	int			count = 0;

	foreach(cell, held)
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
 * The incarnations whose first grants are held.  Returns their number, which is
 * idgen_confirm_count(NULL, true).
 */
int
idgen_confirm_first_incarnations(int64 *incarnations)
{
	ListCell   *cell;
	int			count = 0;

	foreach(cell, held)
	{
		const IdgenHeld *entry = lfirst(cell);

		if (!entry->is_answer && entry->grant.first)
			incarnations[count++] = entry->grant.incarnation;
	}
	return count;
}

/* Milliseconds until idgen_confirm_step is due; far off if nothing is held. */
int64
idgen_confirm_poll_ms(void)
{
	const IdgenHeld *youngest;

	if (held == NIL)
		return PG_INT64_MAX;
	youngest = llast(held);
	return idgen_clock_monotonic_us() - youngest->since_us < SOON_US ?
		POLL_SOON_MS : POLL_LATER_MS;
}
