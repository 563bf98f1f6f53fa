/*
 * round.c
 *		Decide, lock, write, commit, flush, publish, answer.
 *
 * Why an ID is never repeated, as far as the authority goes:
 *
 * 1.  A grant is decided by src/core/grant.c from the mark of its worker.  The
 *	  mark and the authority row of the namespace are locked, and the new mark
 *	  is written with the grant in one transaction, "where the mark is still
 *	  what it was".
 * 2.  That transaction commits with synchronous_commit = local, which is
 *	  pinned, so it is flushed to disk before CommitTransactionCommand returns,
 *	  and never waits for a standby.
 * 3.  Only then is the grant published.  The grant of a cursor goes into its
 *	  slot, where the generation is compared under the slot's lock: no other
 *	  incarnation gets it.  The grant of an external generator becomes the
 *	  answer.  With durability "quorum" both are held back until synchronous
 *	  standbys have flushed the grant, too (confirm.c).
 * 4.  Which durability holds is read under the lock of policy_lock.c.  A round
 *	  takes that lock before its first look at a namespace, and keeps it until
 *	  everything has been published, answered or held back; so does command.c.
 *	  A change of durability or promotion policy waits for that.  So every
 *	  grant that needs no confirmation is committed and published before
 *	  "quorum" is committed.  "trust" may be chosen only after that, so a
 *	  standby that has replayed "trust" has replayed all these grants.  Grants
 *	  decided after "quorum" was committed are published when confirmed.
 *	  Grants that are held back stay so if "quorum" is given up meanwhile:
 *	  they are confirmed, or nobody gets them.
 *
 * A crash before 2 leaves nothing.  A crash between 2 and 3 leaves a gap: the
 * mark says that the interval is gone.  An external generator whose answer was
 * lost asks again with the same request id.  After an error between 2 and 3,
 * the next round publishes the grants of cursors that live (publish_again in
 * round_cursors.c); the others are gaps.
 *
 * A round does not wait for the rows that it decides by: a namespace of which
 * another session has locked such a row, or is changing the policy, is left
 * out and tried again.  It waits for any other row lock no longer than
 * LOCK_TIMEOUT (process.c).  If a round fails, it is repeated namespace by
 * namespace, so that a damaged one delays no other.
 */
#include "compat.h"

#include "authority/round.h"

#include "miscadmin.h"

#include "authority/promise.h"
#include "authority/transaction.h"
#include "catalog/mark_rows.h"
#include "catalog/policy_lock.h"
#include "catalog/table_lock.h"
#include "clock.h"
#include "random.h"
#include "shmem/authorities.h"
#include "shmem/counters.h"

/* The job of a namespace, made if need be; round->jobs has room. */
IdgenJob *
idgen_round_job(IdgenRound *round, const char *name, const pg_uuid_t *uuid)
{
	IdgenJob   *job;

	for (int i = 0; i < round->job_count; i++)
		if (idgen_same_uuid(&round->jobs[i].uuid, uuid))
			return &round->jobs[i];
	job = &round->jobs[round->job_count++];
	memset(job, 0, sizeof(*job));
	strlcpy(job->name, name, NAMEDATALEN);
	job->uuid = *uuid;
	job->cursors_seen = -1;
	return job;
}

/* --------------------------------------------------------------------
 * Deciding
 * -------------------------------------------------------------------- */

/* Note a decision; the caller fills in who gets the grant. */
IdgenDecision *
idgen_round_add(IdgenRound *round, IdgenJob *job, int32 worker, const IdgenMark *mark,
				const IdgenGrant *grant)
{
	IdgenDecision *decision = &round->decisions[round->decision_count++];

	Assert(round->decision_count <= round->decision_max);
	memset(decision, 0, sizeof(*decision));
	decision->job = job;
	decision->row.namespace_name = job->name;
	decision->row.marks = job->marks;
	decision->row.worker = worker;
	decision->row.mark = mark;
	decision->row.grant_id = idgen_random_number();
	decision->row.grant = *grant;
	decision->row.now = job->now;
	return decision;
}

/*
 * Once in the life of this process, and whenever a cursor has gone: end the
 * incarnations of this server that have neither a cursor nor a first grant
 * that waits for standbys.
 */
static void
end_strangers(const IdgenRound *round)
{
	const IdgenConfirm *confirm = &round->authority->confirm;
	int			count = round->survey_count;
	int64	   *living = palloc((count + idgen_confirm_count(confirm, NULL, true) + 1) *
								sizeof(int64));

	for (int i = 0; i < count; i++)
		living[i] = round->surveys[i].incarnation;
	count += idgen_confirm_first_incarnations(confirm, &living[count]);
	idgen_incarnation_rows_end_strangers(&idgen_shared->boot, living, count);
}

/* Log what an operator should know of a namespace. */
static void
alert(const IdgenRound *round, IdgenJob *job)
{
	IdgenWorkerRange range = idgen_job_worker_range(job);

	idgen_alert_check(&round->authority->alerts, job->ns, job->marks, job->now, &range,
					  idgen_job_stats(job));
}

/* --------------------------------------------------------------------
 * Locking
 * -------------------------------------------------------------------- */

/*
 * Leave a namespace out of the round, because another session has locked its
 * rows.
 */
static void
leave_out(IdgenJob *job)
{
	IdgenError	error;

	if (job->outcome != IDGEN_OUTCOME_SERVED)
		return;

	/*
	 * the marks are read anew next time: perhaps they were changed, rather
	 * than locked
	 */
	job->marks->loaded = false;
	idgen_error_set(&error, IDGEN_ERROR_UNAVAILABLE,
					"Another session has locked its high-water marks.",
					"Retry. If the error persists, look in pg_locks for the session that holds the lock.");
	job->outcome = job->cursor_outcome;
	idgen_job_fail(job, IDGEN_OUTCOME_RETRY, &error);
}

/* Is anything granted to a namespace, or to external generators of it? */
static bool
is_granted(const IdgenRound *round, const IdgenJob *job, bool external)
{
	for (int i = 0; i < round->decision_count; i++)
		if (round->decisions[i].job == job && (!external || round->decisions[i].row.external))
			return true;
	return false;
}

/*
 * Lock one row of each namespace that is granted anything, or of those with
 * external grants, and leave out those whose row another session has locked.
 */
static void
lock_namespaces(IdgenRound *round, bool external,
				bool *(*lock) (IdgenMarks *const *marks, int count))
{
	int			count = 0;
	IdgenMarks **marks = palloc((round->job_count + 1) * sizeof(IdgenMarks *));
	IdgenJob  **jobs = palloc((round->job_count + 1) * sizeof(IdgenJob *));
	bool	   *locked;

	for (int i = 0; i < round->job_count; i++)
		if (is_granted(round, &round->jobs[i], external))
		{
			marks[count] = round->jobs[i].marks;
			jobs[count++] = &round->jobs[i];
		}
	locked = lock(marks, count);
	for (int i = 0; i < count; i++)
		if (!locked[i])
			leave_out(jobs[i]);
}

/*
 * Lock the marks that are to be raised, and leave out namespaces in the same
 * way.
 */
static void
lock_marks(IdgenRound *round)
{
	int			count = 0;
	ItemPointerData *tids = palloc((round->decision_count + 1) * sizeof(ItemPointerData));
	IdgenJob  **jobs = palloc((round->decision_count + 1) * sizeof(IdgenJob *));
	bool	   *locked;

	for (int i = 0; i < round->decision_count; i++)
		if (round->decisions[i].row.mark != NULL)
		{
			tids[count] = round->decisions[i].row.mark->tid;
			jobs[count++] = round->decisions[i].job;
		}
	locked = idgen_mark_rows_lock_marks(tids, count);
	for (int i = 0; i < count; i++)
		if (!locked[i])
			leave_out(jobs[i]);
}

/* Forget what was decided for namespaces that have been left out. */
static void
forget_left_out(IdgenRound *round)
{
	int			kept = 0;

	for (int i = 0; i < round->decision_count; i++)
	{
		const IdgenDecision *decision = &round->decisions[i];

		if (decision->job->outcome == IDGEN_OUTCOME_SERVED)
			round->decisions[kept++] = *decision;
		else if (decision->cursor.first)
			idgen_slot_unreserve(decision->cursor.slot, decision->cursor.generation);
	}
	round->decision_count = kept;
}

/* Lock the rows that are to be written, without waiting. */
static void
lock_decided(IdgenRound *round)
{
	lock_namespaces(round, false, idgen_mark_rows_lock_authorities);
	lock_namespaces(round, true, idgen_mark_rows_lock_floors);
	lock_marks(round);
	forget_left_out(round);
}

/* --------------------------------------------------------------------
 * Publishing
 * -------------------------------------------------------------------- */

static void
count_grant(IdgenJob *job, int64 latency_us)
{
	IdgenCounters *stats = idgen_job_stats(job);

	idgen_counters_add(stats, IDGEN_COUNTER_GRANTS, 1);
	idgen_counters_add(stats, IDGEN_COUNTER_GRANT_LATENCY_US, (uint64) latency_us);
	idgen_counters_max(stats, IDGEN_COUNTER_GRANT_LATENCY_MAX_US, (uint64) latency_us);
}

/*
 * An external generator was granted a time to come.  Usually it has asked
 * before its last grant ends.  Otherwise it waits until the new one starts:
 * for the end of a fence or, where workers are short, of the reservation that
 * its worker had.
 */
static void
count_ahead(const IdgenDecision *decision)
{
	IdgenJob   *job = decision->job;
	IdgenCounters *stats = idgen_job_stats(job);
	int64		start = decision->row.grant.start;
	uint64		wait_us;

	if (start <= job->now)
		return;
	idgen_counters_add(stats, IDGEN_COUNTER_GRANTS_AHEAD, 1);
	if (start <= decision->issues_until)
		return;
	wait_us = (uint64) (start - decision->issues_until) *
		(uint64) job->ns->row.layout.tick_ms * 1000;
	idgen_counters_add(stats, IDGEN_COUNTER_HOLDER_WAITS, 1);
	idgen_counters_add(stats, IDGEN_COUNTER_HOLDER_WAIT_US, wait_us);
	idgen_counters_max(stats, IDGEN_COUNTER_HOLDER_WAIT_MAX_US, wait_us);
}

/*
 * Publish what is durable now; grants to external generators become answers.
 */
static void
publish_round(IdgenRound *round)
{
	for (int i = 0; i < round->job_count; i++)
		if (round->jobs[i].outcome == IDGEN_OUTCOME_CHANGED)
			idgen_pool_kill(MyDatabaseId, &round->jobs[i].uuid);

	for (int i = 0; i < round->decision_count; i++)
	{
		const IdgenDecision *decision = &round->decisions[i];
		const IdgenGrantRow *row = &decision->row;

		count_grant(decision->job, idgen_clock_monotonic_us() - round->begun_us);
		if (decision->answer == NULL)
		{
			idgen_confirm_grant(&round->authority->confirm, decision->job->ns,
								&decision->cursor);
			continue;
		}
		count_ahead(decision);
		idgen_round_set_granted(decision->job, row->worker, row->incarnation,
								row->grant_id, &row->grant, decision->answer);
	}
}

/* --------------------------------------------------------------------
 * Answering
 * -------------------------------------------------------------------- */

/* What a request gets; its job has been carried out. */
static IdgenAnswer
answer_of(const IdgenRound *round, int request, const IdgenJob *job)
{
	IdgenAnswer answer;

	if (job->outcome == IDGEN_OUTCOME_SERVED &&
		idgen_round_grants_to(&round->tickets[request]))
		return round->answers[request];
	memset(&answer, 0, sizeof(answer));
	answer.outcome = job->outcome == IDGEN_OUTCOME_SERVED ?
		job->cursor_outcome : job->outcome;
	answer.error = job->error;
	return answer;
}

/* Answer a request, or say why it has to wait for a later round. */
static void
answer_request(IdgenRound *round, int request, const IdgenJob *job)
{
	const IdgenTicket *ticket = &round->tickets[request];
	IdgenConfirm *confirm = &round->authority->confirm;
	IdgenAnswer answer = answer_of(round, request, job);
	bool		granted = answer.outcome == IDGEN_OUTCOME_SERVED &&
		idgen_round_grants_to(ticket);

	if (granted)
	{
		idgen_confirm_answer(confirm, job->ns, ticket, &answer);
		return;
	}
	if (answer.error.kind == IDGEN_ERROR_NONE && !idgen_round_grants_to(ticket) &&
		idgen_confirm_count(confirm, &job->uuid, false) > 0)
	{
		/*
		 * cursors have been granted more: the request is answered when that
		 * is confirmed
		 */
		answer.outcome = IDGEN_OUTCOME_RETRY;
		idgen_confirm_set_unconfirmed(confirm, &answer.error);
	}
	if (answer.outcome != IDGEN_OUTCOME_RETRY)
	{
		idgen_queue_answer(ticket, &answer);
		return;
	}
	if (answer.error.kind != IDGEN_ERROR_NONE)
		idgen_queue_note(ticket, &answer.error);
	round->unanswered = true;
}

/* Answer the requests of a job. */
static void
answer_requests(IdgenRound *round, const IdgenJob *job)
{
	for (int i = 0; i < round->ticket_count; i++)
	{
		const IdgenTicket *ticket = &round->tickets[i];

		if (!idgen_command_is(ticket) &&
			idgen_same_uuid(&ticket->request.namespace_uuid, &job->uuid))
			answer_request(round, i, job);
	}
}

/* --------------------------------------------------------------------
 * The round
 * -------------------------------------------------------------------- */

/* Decide and write a round, in a transaction. */
static void
decide_and_write(IdgenRound *round)
{
	IdgenGrantRow *rows;

	if (!round->authority->strangers_ended)
		end_strangers(round);
	for (int i = 0; i < round->job_count; i++)
	{
		if (!idgen_round_open(round, &round->jobs[i]))
			continue;
		idgen_round_decide_cursors(round, &round->jobs[i]);
		idgen_round_decide_external(round, &round->jobs[i]);
		alert(round, &round->jobs[i]);
	}
	lock_decided(round);
	idgen_promise_make(round);
	rows = palloc((round->decision_count + 1) * sizeof(IdgenGrantRow));
	for (int i = 0; i < round->decision_count; i++)
		rows[i] = round->decisions[i].row;
	idgen_grant_rows_write(rows, round->decision_count, &idgen_shared->boot);
}

/* The tables cannot be used: every job fails. */
static void
fail_all(IdgenRound *round, const IdgenError *error)
{
	for (int i = 0; i < round->job_count; i++)
		idgen_job_fail(&round->jobs[i], error->kind == IDGEN_ERROR_UNAVAILABLE ?
					   IDGEN_OUTCOME_RETRY : IDGEN_OUTCOME_REFUSED, error);
}

/* Carry a round out; raises an error if that is impossible. */
static void
carry_out_round(IdgenRound *round, const IdgenTransaction *transaction)
{
	IdgenError	error;
	bool		open;

	round->begun_us = idgen_clock_monotonic_us();
	idgen_transaction_begin(transaction);

	/*
	 * in the transaction: should either fail, its end gives back locks and
	 * files
	 */
	idgen_clock_judge(&round->clock);
	idgen_clock_judge_save();
	open = idgen_table_lock_all_now(&error);
	if (open)
		decide_and_write(round);
	else
	{
		fail_all(round, &error);
		round->authority->tables_refused = true;
	}
	idgen_transaction_commit(transaction);
	round->authority->strangers_ended |= open;
	publish_round(round);
	if (round->decision_count > 0)
		idgen_authorities_end_round(round->decision_count);
}

/*
 * Carry out a round.  False if it failed; then *message and *sqlstate say why.
 * If it failed before its commit, nothing of it is in the tables or in shared
 * memory; what was committed and not published is found by a later round, or
 * is a gap.
 */
static bool
try_round(IdgenRound *round, char *message, int *sqlstate)
{
	IdgenTransaction transaction;
	volatile bool done = false;

	idgen_transaction_init(&transaction, round->authority);
	PG_TRY();
	{
		carry_out_round(round, &transaction);
		done = true;
	}
	PG_CATCH();
	{
		*sqlstate = geterrcode();
		idgen_transaction_abort(&transaction, message);
	}
	PG_END_TRY();
	return done;
}

/* One job of a round as a round of its own. */
static void
serve_alone(const IdgenRound *whole, IdgenJob *job)
{
	IdgenRound	round = *whole;
	char		message[IDGEN_ERROR_TEXT_MAX];
	int			sqlstate = 0;
	IdgenError	error;

	job->outcome = job->cursor_outcome = IDGEN_OUTCOME_SERVED;
	idgen_error_clear(&job->error);
	round.jobs = job;
	round.job_count = 1;
	round.decision_count = 0;
	if (try_round(&round, message, &sqlstate))
		return;
	idgen_alert_failure(&round.authority->alerts, message, sqlstate);
	idgen_error_set(&error, IDGEN_ERROR_UNAVAILABLE, message, NULL);
	idgen_error_strengthen(&job->error, &error);
	job->outcome = IDGEN_OUTCOME_RETRY;
}

/*
 * Serve a round: every job has its outcome afterwards, and every request for a
 * grant has been answered, or is to be looked at again.
 *
 * Requests are answered while the policies by which they were decided are
 * held.  A transaction that fails lets go of all policies.  So when jobs are
 * served one by one, each is answered before the next one begins.
 */
void
idgen_round_serve(IdgenRound *round)
{
	char		message[IDGEN_ERROR_TEXT_MAX];
	int			sqlstate = 0;
	bool		alone;

	round->decision_max = round->survey_count + round->job_count + round->ticket_count;
	round->decision_count = 0;
	round->decisions = palloc((round->decision_max + 1) * sizeof(IdgenDecision));
	round->answers = palloc0((round->ticket_count + 1) * sizeof(IdgenAnswer));
	alone = !try_round(round, message, &sqlstate);
	for (int i = 0; i < round->job_count; i++)
	{
		if (alone)
			serve_alone(round, &round->jobs[i]);
		answer_requests(round, &round->jobs[i]);
	}
	idgen_policy_let_go();
	for (int i = 0; i < round->job_count; i++)
		if (round->jobs[i].outcome != IDGEN_OUTCOME_CHANGED)
			idgen_counters_set_standing(idgen_job_stats(&round->jobs[i]),
										&round->jobs[i].error);
}
