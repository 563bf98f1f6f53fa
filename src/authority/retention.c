/*
 * retention.c
 *		Compact old grants; forget incarnations and namespaces that are gone.
 *
 * The authority process does a small part of it at a time: it looks at the
 * oldest grants of a few workers, in turn, in a transaction of its own.  That
 * never touches a mark, so that nothing rests on it but what idgen_trace can
 * tell.  Records are merged with their neighbours after an hour, which is the
 * longest horizon: by then nobody can ask for an answer from them again.
 */
#include "compat.h"

#include "authority/retention.h"

#include "authority/authority.h"
#include "authority/transaction.h"
#include "catalog/grant_rows.h"
#include "catalog/incarnation_rows.h"
#include "catalog/marks.h"
#include "catalog/namespace_cache.h"
#include "catalog/table_lock.h"
#include "clock.h"
#include "random.h"
#include "settings.h"

/* How often grants are compacted, and of how many workers at a time. */
#define RUN_EVERY_US		INT64_C(1000000)
#define WORKERS_PER_RUN		16

/* How often ended incarnations are looked for. */
#define INCARNATIONS_EVERY_US	INT64_C(600000000)

#define SETTLED_S			3600

/* Compact the grants of the next few workers. */
static void
compact_some(void)
{
	for (int i = 0; i < WORKERS_PER_RUN; i++)
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

/*
 * Do these marks belong to a namespace that was dropped, or has another uuid
 * now?
 */
static bool
is_gone(const IdgenMarks *marks)
{
	const IdgenNamespace *ns = idgen_namespace_find(marks->name);

	return ns == NULL || !idgen_same_uuid(&ns->authority.uuid, &marks->uuid);
}

/* Without the extension, all namespaces are gone. */
static bool
is_any(const IdgenMarks *marks)
{
	return true;
}

/* Forget incarnations that ended long ago. */
static void
forget_incarnations(void)
{
	(void) idgen_incarnation_rows_forget(idgen_grant_retention_s);

	/* read anew which incarnations have not ended */
	idgen_marks_forget_all();
}

/* What is due, in the transaction begun. */
static void
tidy_up(IdgenRetention *retention, int64 now_us)
{
	IdgenError	error;

	if (idgen_table_lock_all_now(&error))
	{
		compact_some();
		if (now_us >= retention->incarnations_due_us)
		{
			forget_incarnations();
			retention->incarnations_due_us = now_us + INCARNATIONS_EVERY_US;
		}
		idgen_marks_free_gone(is_gone);
	}
	else if (error.kind == IDGEN_ERROR_UNDEFINED)
		idgen_marks_free_gone(is_any);
}

/* Do the next part if it is due; what fails is left for another time. */
void
idgen_retention_run(IdgenAuthority *authority)
{
	IdgenRetention *retention = &authority->retention;
	int64		now_us = idgen_clock_monotonic_us();
	IdgenTransaction transaction;

	if (now_us < retention->due_us)
		return;
	retention->due_us = now_us + RUN_EVERY_US;
	idgen_transaction_init(&transaction, authority);
	PG_TRY();
	{
		idgen_transaction_begin(&transaction);
		tidy_up(retention, now_us);
		idgen_transaction_commit(&transaction);
	}
	PG_CATCH();
	{
		char		message[IDGEN_ERROR_TEXT_MAX];

		idgen_transaction_abort(&transaction, message);
	}
	PG_END_TRY();
}
