/*
 * fence.c
 *		Compare an authority with its record, fence it, take it over.
 *
 * Everything here runs in a transaction of the authority process.  A fence
 * moves the floor of a namespace past all that a lost or living copy of its
 * authority can have granted, and ends every incarnation.  What the marks say
 * below the floor does not matter any more.  The caller kills the cursors of
 * the namespace when the transaction has committed.
 */
#include "compat.h"

#include "authority/fence.h"

#include "access/xlogrecovery.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"

#include "catalog/identity.h"
#include "catalog/incarnation_rows.h"
#include "catalog/namespace_rows.h"
#include "catalog/rows.h"
#include "clock.h"
#include "random.h"
#include "settings.h"
#include "shmem/clock_judge.h"
#include "shmem/counters.h"
#include "shmem/ended.h"

/* What was found, as a sentence for the operator. */
static const char *
verdict_detail(IdgenIdentityVerdict verdict)
{
	switch (verdict)
	{
		case IDGEN_IDENTITY_SAME:
		case IDGEN_IDENTITY_OTHER_DATABASE:
			break;				/* never a reason to refuse */
		case IDGEN_IDENTITY_OTHER_SYSTEM:
			return "It was recorded on another database cluster; this looks like a restored dump or pg_upgrade.";
		case IDGEN_IDENTITY_OTHER_TIMELINE:
			return "It was recorded on another timeline; this looks like a promotion or a point-in-time recovery.";
		case IDGEN_IDENTITY_OTHER_CONTROL:
			return "It was recorded with other data files; this looks like a copied data directory or a backup started without recovery.";
		case IDGEN_IDENTITY_OTHER_FILES:
			return "The files of the database were recreated.";
	}
	return "";
}

/*
 * The tick after the newest commit that this server replayed as a standby or
 * from an archive; far in the past if it has replayed none.
 */
static int64
last_replayed_tick(const IdgenLayout *layout)
{
	TimestampTz time = GetLatestXTime();

	return time == 0 ? PG_INT64_MIN / 2 :
		idgen_layout_tick_at(layout, time / 1000 + POSTGRES_EPOCH_MS) + 1;
}

/*
 * Read the clock; an error if it is ahead, since a floor in the far future
 * would end the namespace until then.  Callers of a fence have checked the
 * clock before; this is for a step in between.
 */
static IdgenClockView
believed_clock(void)
{
	IdgenClockView clock;

	idgen_clock_judge(&clock);
	if (clock.verdict == IDGEN_CLOCK_AHEAD)
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_CLOCK_ERROR),
				 errmsg("cannot fence while the system clock is set forward too far")));
	return clock;
}

/*
 * Raise the floor past all that, by the facts, can have been granted.  The
 * facts that are the same for every fence are filled in here.
 */
static void
raise_floor(const IdgenNamespace *ns, IdgenFenceFacts *facts)
{
	const IdgenLayout *layout = &ns->row.layout;

	facts->horizon = idgen_layout_ticks_ceil(layout, layout->horizon_ms);
	facts->clock_error =
		idgen_layout_ticks_ceil(layout, Max(idgen_max_clock_error_ms, 1));
	idgen_namespace_rows_raise_floor(ns->name,
									 idgen_fence_floor(facts,
													   idgen_layout_tick_count(layout)));
}

/* Fence a namespace, also past the tick "above" (0 = none). */
void
idgen_fence_raise(const IdgenNamespace *ns, int64 above)
{
	const IdgenLayout *layout = &ns->row.layout;
	IdgenClockView clock = believed_clock();
	IdgenFenceFacts facts = {
		.now = idgen_layout_tick_at(layout, clock.latest_ms),
		.last_clock = Max(idgen_namespace_rows_last_clock(ns->name),
						  last_replayed_tick(layout)),
		.highest_mark = idgen_namespace_rows_highest_mark(ns->name),
		.above = above
	};

	raise_floor(ns, &facts);
	idgen_incarnation_rows_end_all(ns->name);
	idgen_namespace_rows_reset_sums(ns->name);
	idgen_counters_add(idgen_counters_get(MyDatabaseId, ns->name),
					   IDGEN_COUNTER_FENCES, 1);
}

/*
 * Take a namespace over: it gets a new uuid, and the identity of this server.
 */
void
idgen_fence_take_over(const IdgenNamespace *ns)
{
	IdgenAuthorityRow row = ns->authority;
	IdgenIdentity here;

	idgen_identity_read(&here);
	idgen_random_uuid(&row.uuid);
	if (!ns->has_identity)
		idgen_rows_format_text(&ns->row.layout, row.format);
	row.split_modulus = ns->row.split_parts;
	row.split_remainder = idgen_split_class(here.timeline, ns->row.split_parts);
	row.identity = here;
	idgen_namespace_rows_write_identity(ns->name, &row);
	idgen_namespace_rows_reset_sums(ns->name);

	/* a restored row has no hash; that of a copy came with it */
	if (!ns->has_identity)
		idgen_namespace_rows_accept(ns->name);
	idgen_counters_set_copied(idgen_counters_get(MyDatabaseId, ns->name), false);
}

/* Fence a namespace, and take it over. */
static IdgenOwnership
fence_and_take_over(const IdgenNamespace *ns)
{
	idgen_fence_raise(ns, 0);
	idgen_fence_take_over(ns);
	return IDGEN_OWNERSHIP_CHANGED;
}

/*
 * A copy of a database of this server is an ID space of its own, with a
 * lineage of its own.  It goes on above all that it holds.  No incarnation of
 * its original goes on in it.
 */
static void
begin_anew(const IdgenNamespace *ns)
{
	pg_uuid_t	lineage;

	idgen_random_uuid(&lineage);
	idgen_namespace_rows_write_lineage(ns->name, &lineage);
	idgen_namespace_rows_raise_floor(ns->name, idgen_namespace_rows_highest_mark(ns->name));
	idgen_incarnation_rows_end_all(ns->name);
	idgen_fence_take_over(ns);
}

/*
 * This server begins at once on a part of the workers that an ancestor used.
 * By begun_ms a later timeline had begun, which ended the role of the
 * ancestor.  Move the floor past all that the ancestor can have granted by
 * then.  When the promotion was judged, the clock was past that floor, so this
 * delays nothing.  It matters if the clock reads earlier the next time.
 */
static void
pass_ancestors(const IdgenNamespace *ns, int64 begun_ms)
{
	IdgenFenceFacts facts = {
		.now = idgen_layout_tick_at(&ns->row.layout, begun_ms)
	};

	raise_floor(ns, &facts);
}

/*
 * This database may have taken the place of a dropped one of the same name,
 * and have been made from a template that was last used on an earlier
 * timeline.  Its marks are those of the template.  So where there is no fence,
 * raise the floor past what was issued under its name.
 */
static void
pass_dropped(const IdgenNamespace *ns)
{
	const IdgenLayout *layout = &ns->row.layout;
	char	   *database_name = get_database_name(MyDatabaseId);
	int64		limit_ms = believed_clock().latest_ms + idgen_max_clock_error_ms +
		2 * IDGEN_HORIZON_MS_MAX;
	int64		until_ms = idgen_ended_dropped_until(MyDatabaseId,
													 database_name ? database_name : "",
													 ns->name, limit_ms);

	if (until_ms > 0)
		idgen_namespace_rows_raise_floor(ns->name,
										 Min(idgen_layout_tick_at(layout, until_ms - 1) + 1,
											 idgen_layout_tick_count(layout)));
}

/*
 * What is known of the timelines between the recorded one and the present one.
 */
static IdgenPromotionFacts
promotion_facts(const IdgenNamespace *ns, const IdgenIdentity *here)
{
	IdgenPromotionFacts facts = {
		.policy = ns->row.promotion,
		.is_recreated = idgen_identity_is_recreated(&ns->authority.identity, here),
		.recorded = ns->authority.identity.timeline,
		.present = here->timeline,
		.now_ms = idgen_clock_wall_ms(),
		.horizon_ms = ns->row.layout.horizon_ms,
		.clock_error_ms = idgen_max_clock_error_ms,
		.parts = ns->row.split_parts,
		.recorded_ms = idgen_namespace_rows_recorded_ms(ns->name)
	};

	idgen_identity_read_history(&facts);
	return facts;
}

/*
 * This server was promoted on its own files: the record moves on to the new
 * timeline, and the incarnations go on as after a restart.
 */
static void
move_record(const IdgenNamespace *ns, const IdgenIdentity *here)
{
	IdgenAuthorityRow row = ns->authority;

	row.identity = *here;
	idgen_namespace_rows_write_identity(ns->name, &row);
}

/* The timeline has changed: a promotion or a point-in-time recovery. */
static IdgenOwnership
change_timeline(const IdgenNamespace *ns, const IdgenPromotionFacts *facts,
				IdgenError *error)
{
	int64		begun_ms;

	switch (idgen_promotion_judge(facts, &begun_ms))
	{
		case IDGEN_PROMOTION_AT_ONCE:
			if (begun_ms != IDGEN_BEGUN_NEVER)
				pass_ancestors(ns, begun_ms);
			pass_dropped(ns);
			idgen_incarnation_rows_end_all(ns->name);
			idgen_fence_take_over(ns);
			return IDGEN_OWNERSHIP_CHANGED;
		case IDGEN_PROMOTION_WAIT:
			return fence_and_take_over(ns);
		case IDGEN_PROMOTION_NEVER:
			break;
	}
	idgen_error_set(error, IDGEN_ERROR_COPIED,
					verdict_detail(IDGEN_IDENTITY_OTHER_TIMELINE),
					"Its promotion policy is \"refuse\". Make sure that the original will never issue IDs again, then call idgen_adopt_namespace() for this namespace.");
	return IDGEN_OWNERSHIP_REFUSED;
}

/*
 * Is the record that of this very server and database, so that no copy is looked at?  The
 * server may have been promoted on its own files, or the database have been moved.
 */
bool
idgen_fence_is_here(const IdgenNamespace *ns)
{
	const IdgenIdentity *recorded = &ns->authority.identity;
	IdgenIdentity here;
	IdgenIdentityVerdict verdict;

	if (!ns->has_identity)
		return false;
	idgen_identity_read(&here);
	verdict = idgen_identity_compare(recorded, &here);
	if (verdict == IDGEN_IDENTITY_OTHER_TIMELINE)
	{
		IdgenPromotionFacts facts = promotion_facts(ns, &here);
		IdgenIdentity moved = *recorded;

		if (!idgen_identity_is_in_place(recorded, &here, &facts))
			return false;
		moved.timeline = here.timeline;
		verdict = idgen_identity_compare(&moved, &here);
	}
	return verdict == IDGEN_IDENTITY_SAME || verdict == IDGEN_IDENTITY_OTHER_FILES;
}

/*
 * Are the files the recorded ones, but older than what was granted from them?
 * Then an old copy of the data directory was copied over the present one.
 * That did not overwrite the newest file of bounds, whose name has a higher
 * number than those in the copy (ended_file.c).  No twin can live, so no
 * operator is asked: the namespace is fenced, past that bound.
 */
static bool
fence_overtaken(const IdgenNamespace *ns)
{
	const IdgenLayout *layout = &ns->row.layout;
	int64		reached_ms;
	int64		bound_ms;

	if (!idgen_layout_unix_ms(layout, idgen_namespace_rows_highest_mark(ns->name), &reached_ms) ||
		!idgen_ended_overtook(MyDatabaseId, ns->name, &ns->authority.uuid, reached_ms,
							  &bound_ms))
		return false;
	ereport(LOG,
			(errmsg("the tables of idgen namespace \"%s\" are older than its last grants",
					ns->name),
			 errdetail("This looks like a backup that was copied over the data directory. The namespace is being fenced.")));
	idgen_fence_raise(ns, idgen_layout_tick_at(layout, bound_ms) + 1);
	idgen_fence_take_over(ns);
	return true;
}

/*
 * Compare this server and database with what is recorded, before the first
 * grant in the life of the process (S9; "Identity of the authority" in
 * doc/design.md).
 */
IdgenOwnership
idgen_fence_verify(const IdgenNamespace *ns, IdgenError *error)
{
	IdgenIdentity recorded = ns->authority.identity;
	IdgenIdentity here;
	IdgenIdentityVerdict verdict = IDGEN_IDENTITY_OTHER_SYSTEM;
	IdgenPromotionFacts facts;
	bool		moved = false;

	if (ns->has_identity)
	{
		idgen_identity_read(&here);
		verdict = idgen_identity_compare(&recorded, &here);
	}

	/*
	 * on a server that was promoted on its own files, the database may still
	 * be another one, or may have been made anew
	 */
	if (verdict == IDGEN_IDENTITY_OTHER_TIMELINE)
	{
		facts = promotion_facts(ns, &here);
		moved = idgen_identity_is_in_place(&recorded, &here, &facts);
		if (moved)
		{
			recorded.timeline = here.timeline;
			verdict = idgen_identity_compare(&recorded, &here);
		}
	}
	if (verdict == IDGEN_IDENTITY_SAME && fence_overtaken(ns))
		return IDGEN_OWNERSHIP_CHANGED;
	switch (idgen_takeover_judge(verdict,
								 idgen_on_copied_authority == IDGEN_ON_COPIED_FENCE))
	{
		case IDGEN_TAKEOVER_NONE:
			if (!moved)
				return IDGEN_OWNERSHIP_OURS;
			move_record(ns, &here);
			return IDGEN_OWNERSHIP_CHANGED;
		case IDGEN_TAKEOVER_PROMOTED:
			return change_timeline(ns, &facts, error);
		case IDGEN_TAKEOVER_FENCED:
			return fence_and_take_over(ns);
		case IDGEN_TAKEOVER_TEMPLATE:
			begin_anew(ns);
			return IDGEN_OWNERSHIP_CHANGED;
		case IDGEN_TAKEOVER_REFUSED:
			break;
	}
	idgen_error_set(error, IDGEN_ERROR_COPIED,
					ns->has_identity ? verdict_detail(verdict) :
					IDGEN_DETAIL_NO_IDENTITY,
					NULL);
	return IDGEN_OWNERSHIP_REFUSED;
}
