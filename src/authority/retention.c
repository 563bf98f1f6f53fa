/*
 * retention.c
 *		Compact old grants, and forget namespaces that are gone, in bounded steps of
 *		the authority worker.
 *
 * A step looks at the oldest grants of a few workers, in turn, and is a
 * transaction of its own; it never touches a mark, so that nothing rests on it
 * but what idgen_trace can tell.  A record is merged with its neighbours after
 * an hour, which is the longest horizon: no answer from it can be asked for
 * again by then.
 */
#include "compat.h"

#include "authority/retention.h"

#include "clock.h"
#include "catalog/grant_rows.h"
#include "catalog/incarnation_rows.h"
#include "random.h"
#include "catalog/marks.h"
#include "catalog/namespace_cache.h"
#include "authority/round.h"
#include "settings.h"
#include "catalog/table_lock.h"
#include "catalog/tables.h"

/* A step at most this often, over at most so many workers. */
#define STEP_EVERY_US		INT64_C(1000000)
#define WORKERS_PER_STEP	16

/* Ended incarnations are looked for this often. */
#define INCARNATIONS_EVERY_US	INT64_C(600000000)

#define SETTLED_S			3600

static int64 last_step_us = 0;
static int64 last_incarnations_us = -INCARNATIONS_EVERY_US;

/* Compact the next few workers in turn. */
static void
compact_some(void)
{
	for (int i = 0; i < WORKERS_PER_STEP; i++)
	{
		const char *name;
		int32		worker;
		IdgenNamespace *ns;

		if (!idgen_marks_next(&name, &worker))
			return;
		ns = idgen_namespace_find(name);
		if (ns == NULL)
			continue;
		(void) idgen_grant_rows_compact(name, worker,
									idgen_layout_tick_at(&ns->row.layout,
														 idgen_clock_wall_ms()),
									SETTLED_S, idgen_grant_retention_s);
	}
}

/* Marks of a namespace that was dropped, or taken over under another uuid. */
static bool
is_gone(const IdgenMarks *marks)
{
	const IdgenNamespace *ns = idgen_namespace_find(marks->name);

	return ns == NULL || !idgen_same_uuid(&ns->authority.uuid, &marks->uuid);
}

/* Without the extension all are. */
static bool
is_any(const IdgenMarks *marks)
{
	return true;
}

/* Do a step if it is time; failures are left for another time. */
void
idgen_retention_step(void)
{
	MemoryContext context = CurrentMemoryContext;
	int64		now_us = idgen_clock_monotonic_us();

	if (now_us - last_step_us < STEP_EVERY_US)
		return;
	last_step_us = now_us;
	PG_TRY();
	{
		IdgenError error;

		idgen_round_begin(context);
		if (idgen_table_lock_all_now(&error))
		{
			compact_some();
			if (now_us - last_incarnations_us >= INCARNATIONS_EVERY_US)
			{
				(void) idgen_incarnation_rows_forget(idgen_grant_retention_s);

				/* which of them have not ended is to be read anew */
				idgen_marks_forget_all();
				last_incarnations_us = now_us;
			}
			idgen_marks_free_gone(is_gone);
		}
		else if (error.kind == IDGEN_ERROR_UNDEFINED)
			idgen_marks_free_gone(is_any);
		idgen_round_commit(context);
	}
	PG_CATCH();
	{
		char		message[IDGEN_ERROR_TEXT_MAX];

		idgen_round_abort(context, message);
	}
	PG_END_TRY();
}
