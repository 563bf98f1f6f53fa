/*
 * fence.c
 *		Compare an authority with its record, fence it, take it over.
 *
 * Everything here runs in a transaction of the authority worker.  A fence moves
 * the floor of a namespace past all that a lost or living copy of its authority
 * can have granted, ends every incarnation, and so makes whatever the marks say
 * below it irrelevant.  Whoever calls it kills the namespace's cursors when the
 * transaction has committed.
 */
#include "compat.h"

#include "fence.h"

#include "clock.h"
#include "identity.h"
#include "settings.h"
#include "tables.h"

/* What was found, for the operator. */
static const char *
verdict_detail(IdgenIdentityVerdict verdict)
{
	switch (verdict)
	{
		case IDGEN_IDENTITY_SAME:
			break;
		case IDGEN_IDENTITY_OTHER_SYSTEM:
			return "It was recorded on another database cluster; this looks like a restored dump or pg_upgrade.";
		case IDGEN_IDENTITY_OTHER_DATABASE:
			return "It was recorded in another database; this looks like CREATE DATABASE ... TEMPLATE.";
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
 * Fence a namespace, also past the tick "above" (0 = none).
 */
void
idgen_fence_raise(const IdgenNamespace *ns, int64 above)
{
	const IdgenLayout *layout = &ns->row.layout;
	IdgenFenceFacts facts = {
		.now = idgen_layout_tick_at(layout, idgen_clock_wall_ms()),
		.last_clock = idgen_tables_last_clock(ns->name),
		.highest_mark = idgen_tables_highest_mark(ns->name),
		.above = above,
		.horizon = idgen_layout_ticks_ceil(layout, layout->horizon_ms),
		.clock_error = idgen_layout_ticks_ceil(layout,
											   Max(idgen_max_clock_error_ms, 1))
	};

	idgen_tables_raise_floor(ns->name,
							 idgen_fence_floor(&facts,
											   idgen_layout_tick_count(layout)));
	idgen_tables_end_all(ns->name);
	idgen_tables_reset_sums(ns->name);
}

/*
 * Take a namespace over as ours: a new uuid, this server's identity.  The split
 * class is never recomputed on the timeline it was recorded on.
 */
void
idgen_fence_take_over(const IdgenNamespace *ns)
{
	IdgenAuthorityRow row = ns->authority;
	bool		split = strcmp(ns->row.promotion, "split") == 0;
	IdgenIdentity here;

	idgen_identity_read(&here);
	idgen_identity_make_uuid(&row.uuid);
	row.split_modulus = split ? 2 : 1;
	if (!split)
		row.split_remainder = 0;
	else if (!ns->has_identity ||
			 row.identity.system_identifier != here.system_identifier ||
			 row.identity.timeline != here.timeline)
		row.split_remainder = idgen_identity_class();
	row.identity = here;
	idgen_tables_write_authority(ns->name, &row);
	idgen_tables_reset_sums(ns->name);
}

/*
 * Compare this server and database with what is recorded, before the first
 * grant of the worker's life (S9, DESIGN 8).
 */
IdgenCustody
idgen_fence_verify(const IdgenNamespace *ns, IdgenFailure *failure)
{
	IdgenIdentity here;
	IdgenIdentityVerdict verdict;

	idgen_identity_read(&here);
	verdict = idgen_identity_compare(&ns->authority.identity, &here);
	switch (verdict)
	{
		case IDGEN_IDENTITY_SAME:
			return IDGEN_CUSTODY_OURS;
		case IDGEN_IDENTITY_OTHER_FILES:
			/* no twin can live, but the tables may be those of a template */
			idgen_fence_raise(ns, 0);
			idgen_fence_take_over(ns);
			return IDGEN_CUSTODY_CHANGED;
		case IDGEN_IDENTITY_OTHER_SYSTEM:
		case IDGEN_IDENTITY_OTHER_DATABASE:
		case IDGEN_IDENTITY_OTHER_CONTROL:
			if (idgen_tables_ever_granted(ns->name))
				break;
			idgen_fence_take_over(ns);
			return IDGEN_CUSTODY_CHANGED;
		case IDGEN_IDENTITY_OTHER_TIMELINE:
			break;
	}
	idgen_failure_set(failure, IDGEN_FAILURE_COPIED, verdict_detail(verdict),
					  NULL);
	return IDGEN_CUSTODY_REFUSED;
}
