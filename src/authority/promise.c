/*
 * promise.c
 *		Bound on disk what is issued outside the server or ahead of the clock.
 *
 * After a crash, or when a database or namespace has been dropped, the clock
 * alone does not tell what was issued of them.  So a bound is in a file of the
 * server (ended_file.c) before such a grant is given out.  It is raised at
 * most once a horizon.
 */
#include "compat.h"

#include "authority/promise.h"

#include "miscadmin.h"

#include "shmem/ended.h"

/*
 * May IDs of this namespace lie in the future?  Even without running ahead
 * they may: an ID stands for its whole tick, and the current one has not
 * ended.  A tick of a millisecond is over before anybody can ask after a
 * crash.
 */
static bool
issues_ahead(const IdgenNamespace *ns)
{
	return ns->run_ahead > 0 || ns->row.layout.tick_ms > 1;
}

/*
 * Will this grant be used outside the server or ahead of the clock, past what
 * has been promised?
 */
static bool
needs_promise(const IdgenGrantRow *row, const IdgenNamespace *ns, int64 end_ms)
{
	const IdgenMarks *marks = row->marks;

	return (row->external || issues_ahead(ns)) &&
		(end_ms > marks->promised_ms ||
		 (row->external && !marks->promised_external));
}

/*
 * Promise what the grants of a round need, before they are written.  A bound
 * counts as promised when the file has it: if writing the file raises an
 * error, the next grant asks for the bound again.
 */
void
idgen_promise_make(const IdgenRound *round)
{
	int64	   *bounds_ms = palloc0((round->decision_count + 1) * sizeof(int64));
	bool		unsaved = false;

	for (int i = 0; i < round->decision_count; i++)
	{
		const IdgenJob *job = round->decisions[i].job;
		const IdgenGrantRow *row = &round->decisions[i].row;
		int64		end_ms = idgen_job_unix_ms(job, row->grant.end);

		if (needs_promise(row, job->ns, end_ms))
			unsaved |= idgen_ended_promise(MyDatabaseId, job->name, &job->ns->authority.uuid,
										   idgen_job_unix_ms(job, idgen_marks_highest(row->marks)),
										   end_ms, job->ns->row.layout.horizon_ms,
										   row->external, &bounds_ms[i]);
	}
	if (unsaved)
		idgen_ended_save();
	for (int i = 0; i < round->decision_count; i++)
	{
		const IdgenGrantRow *row = &round->decisions[i].row;

		if (bounds_ms[i] == 0)
			continue;
		row->marks->promised_ms = bounds_ms[i];
		row->marks->promised_external |= row->external;
	}
}
