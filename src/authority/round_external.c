/*
 * round_external.c
 *		Decide what external generators are granted.
 */
#include "compat.h"

#include "authority/round.h"

#include "miscadmin.h"

#include "catalog/scan.h"
#include "random.h"
#include "settings.h"
#include "shmem/counters.h"

#define ACTIVATE_HINT \
	IDGEN_HINT_ACTIVATE

/*
 * How many of a worker's last grants are searched for a request id: if the
 * request follows the last grant, and if it does not.
 */
#define RECORDED_NEAR	16
#define RECORDED_FAR	1000

/* Does this request ask for a grant of an external generator? */
bool
idgen_round_grants_to(const IdgenTicket *ticket)
{
	return ticket->request.kind == IDGEN_REQUEST_ACTIVATE ||
		ticket->request.kind == IDGEN_REQUEST_ACQUIRE;
}

static void
refuse_answer(IdgenAnswer *answer, IdgenErrorKind kind, const char *detail, const char *hint)
{
	answer->outcome = IDGEN_OUTCOME_REFUSED;
	idgen_error_set(&answer->error, kind, detail, hint);
}

/* Refuse a request because of its incarnation. */
static void
reject(IdgenJob *job, IdgenAnswer *answer, const char *detail, const char *hint)
{
	idgen_counters_add(idgen_job_stats(job), IDGEN_COUNTER_REJECTIONS, 1);
	refuse_answer(answer, IDGEN_ERROR_REJECTED, detail, hint);
}

/* May a role have external incarnations of a namespace? */
static bool
role_may_acquire(const IdgenNamespace *ns, Oid role)
{
	return idgen_namespace_owned(ns, role) ||
		idgen_scan_privileged(ns->name, IDGEN_PRIVILEGE_ACQUIRE, role, IDGEN_DEADLINE_UNSET);
}

/* How many workers external generators hold, and those of one role. */
static void
count_external(const IdgenRound *round, const IdgenJob *job, const char *role,
			   int64 *all, int64 *of_role)
{
	IdgenWorkerRange range = idgen_job_worker_range(job);

	idgen_marks_count_external(job->marks, &range, job->now, role, all, of_role);
	for (int i = 0; i < round->decision_count; i++)
	{
		const IdgenDecision *decision = &round->decisions[i];

		if (decision->job != job || decision->row.holder == NULL)
			continue;
		(*all)++;
		if (strcmp(decision->row.holder->role, role) == 0)
			(*of_role)++;
	}
}

/*
 * Is there a worker left for one more external incarnation of this role?  The
 * server keeps some for itself, and one role has at most half of the others.
 */
static bool
external_worker_left(const IdgenRound *round, const IdgenJob *job,
					 const char *role, IdgenAnswer *answer)
{
	IdgenWorkerRange range = idgen_job_worker_range(job);
	int64		all_max = idgen_external_workers_max(idgen_worker_range_size(&range),
													 idgen_max_workers_per_namespace);
	int64		all;
	int64		of_role;

	count_external(round, job, role, &all, &of_role);
	if (all < all_max && of_role < idgen_external_role_max(all_max))
		return true;
	if (all_max == 0)
		refuse_answer(answer, IDGEN_ERROR_NO_WORKER,
					  "It has a single worker, and only the database itself issues IDs from that worker.",
					  "Use a namespace with more workers.");
	else
		refuse_answer(answer, IDGEN_ERROR_NO_WORKER,
					  all >= all_max ?
					  "All workers for external generators have unexpired grants." :
					  "One role may hold half of the workers for external generators, and this role already does.",
					  "Retry when some of the grants have ended; deactivate incarnations that are no longer used, so that they get no more grants.");
	return false;
}

/* Who holds an incarnation that this request activates. */
static const IdgenHolder *
make_holder(const IdgenTicket *ticket, const char *role)
{
	IdgenHolder *holder = palloc(sizeof(IdgenHolder));

	strlcpy(holder->role, role, NAMEDATALEN);
	holder->request = &ticket->request;
	return holder;
}

/* Activate an external incarnation. */
static void
decide_activation(IdgenRound *round, IdgenJob *job, const IdgenTicket *ticket,
				  IdgenAnswer *answer)
{
	const char *role = GetUserNameFromId(ticket->role, true);
	IdgenFirstGrant first;
	IdgenDecision *decision;

	if (role == NULL || !role_may_acquire(job->ns, ticket->role))
	{
		refuse_answer(answer, IDGEN_ERROR_FORBIDDEN,
					  "Activation needs the privilege \"acquire\".",
					  IDGEN_HINT_ALLOW);
		return;
	}
	if (!external_worker_left(round, job, role, answer))
		return;
	if (!idgen_round_decide_fresh(round, job, job->not_before, idgen_job_usual_length(job),
								  &first, &answer->error))
	{
		answer->outcome = IDGEN_OUTCOME_REFUSED;
		return;
	}
	decision = idgen_round_add(round, job, first.worker, first.mark, &first.grant);
	decision->answer = answer;
	decision->issues_until = job->now;
	decision->row.external = true;
	decision->row.fresh = true;
	decision->row.incarnation = idgen_random_number();
	decision->row.holder = make_holder(ticket, role);
}

/*
 * Does a request come from the holder of the incarnation it names?  The answer
 * is the same for an unknown incarnation, a wrong token and another role, and
 * the time it takes does not tell how much of a token is right.  *row is what
 * is recorded of the incarnation.
 */
bool
idgen_round_is_holder(const IdgenTicket *ticket, IdgenIncarnationRow *row)
{
	const char *role = GetUserNameFromId(ticket->role, true);
	uint8		difference = 0;

	if (!idgen_incarnation_rows_read(ticket->request.incarnation, row))
		return false;
	for (int i = 0; i < IDGEN_TOKEN_HASH_SIZE; i++)
		difference |= row->token_hash[i] ^ ticket->request.token_hash[i];
	return difference == 0 && row->external && role != NULL &&
		strcmp(row->role, role) == 0;
}

/* Fill in a grant as an answer. */
void
idgen_round_set_granted(const IdgenJob *job, int32 worker, int64 incarnation,
						int64 grant_id, const IdgenGrant *grant, IdgenAnswer *answer)
{
	const IdgenLayout *layout = &job->ns->row.layout;

	answer->outcome = IDGEN_OUTCOME_SERVED;
	idgen_error_clear(&answer->error);
	answer->worker = worker;
	answer->incarnation = incarnation;
	answer->grant_id = grant_id;
	answer->start_ms = grant->start * layout->tick_ms;
	answer->end_ms = grant->end * layout->tick_ms;
}

/*
 * An incarnation has all that it can have.  A grant that ends later than any
 * grant made now could end was made before the clock was set back.
 */
static void
set_granted_up(const IdgenJob *job, int64 granted_end, int64 retry_at, IdgenError *error)
{
	if (granted_end > job->now + idgen_job_horizon(job))
	{
		idgen_job_set_until(job, IDGEN_ERROR_CLOCK, retry_at, error);
		idgen_error_copy(error->detail,
						 "The grants of the incarnation reach past the horizon, because the clock was set back.");
		idgen_error_copy(error->hint,
						 "Retry after that time, or activate a fresh incarnation with idgen_activate().");
		return;
	}
	idgen_job_set_until(job, IDGEN_ERROR_NOT_YET, retry_at, error);
	idgen_error_copy(error->detail, "The grants of the incarnation already reach the horizon.");
	idgen_error_copy(error->hint, "Issue from these grants, and retry after that time.");
}

/* Has this round decided a grant for a worker already? */
static bool
decided_for(const IdgenRound *round, const IdgenJob *job, int32 worker)
{
	for (int i = 0; i < round->decision_count; i++)
		if (round->decisions[i].job == job && round->decisions[i].row.worker == worker)
			return true;
	return false;
}

/* A new grant for an incarnation in good standing. */
static void
decide_next(IdgenRound *round, IdgenJob *job, const IdgenRequest *request,
			const IdgenIncarnationRow *row, IdgenAnswer *answer)
{
	const IdgenMark *mark = idgen_marks_find(job->marks, row->worker);
	int64		length = request->length_ms == 0 ? idgen_job_usual_length(job) :
		idgen_layout_ticks_ceil(&job->ns->row.layout, request->length_ms);
	IdgenGrant	grant;
	int64		retry_at;
	IdgenDecision *decision;

	if (decided_for(round, job, row->worker))
	{
		/*
		 * two requests of one incarnation at a time: judge the second after
		 * the first, in the next round
		 */
		answer->outcome = IDGEN_OUTCOME_RETRY;
		return;
	}
	if (!idgen_job_decide(job, mark->high_water, job->now, length, &grant, &retry_at,
						  &answer->error))
	{
		answer->outcome = IDGEN_OUTCOME_REFUSED;
		if (answer->error.kind == IDGEN_ERROR_NOT_YET)
			set_granted_up(job, mark->high_water, retry_at, &answer->error);
		return;
	}
	decision = idgen_round_add(round, job, row->worker, mark, &grant);
	decision->answer = answer;
	decision->issues_until = Max(job->now, mark->high_water);
	decision->row.external = true;
	decision->row.incarnation = request->incarnation;
	decision->row.request_id = &request->request_id;
	decision->row.asked_ms = request->length_ms;
}

/* Where a request stands in the chain of grants of its incarnation. */
static IdgenChainFacts
chain_facts(const IdgenJob *job, const IdgenRequest *request, int32 worker,
			IdgenLastGrant *last)
{
	const IdgenMark *mark = idgen_marks_find(job->marks, worker);
	IdgenChainFacts facts;

	memset(last, 0, sizeof(*last));
	facts.holds_worker = mark != NULL && mark->incarnation == request->incarnation &&
		idgen_grant_rows_last(job->name, worker, last) &&
		last->incarnation == request->incarnation;
	facts.is_last_request = last->has_request &&
		idgen_same_uuid(&last->request_id, &request->request_id);
	facts.after_grant = request->after_grant;
	facts.last_grant = last->grant_id;

	/* search far back only where that decides between stale and forked */
	facts.is_recorded = facts.holds_worker && !facts.is_last_request &&
		idgen_grant_rows_request_recorded(job->name, worker, request->incarnation,
										  &request->request_id,
										  facts.after_grant == facts.last_grant ?
										  RECORDED_NEAR : RECORDED_FAR);
	return facts;
}

/* Two processes use one incarnation: it is ended. */
static void
end_forked(IdgenJob *job, int64 incarnation, IdgenAnswer *answer)
{
	idgen_incarnation_rows_end(incarnation);
	idgen_marks_note_ended(job->marks, incarnation);
	idgen_counters_add(idgen_job_stats(job), IDGEN_COUNTER_FORKS, 1);
	reject(job, answer,
		   "The request does not follow the last grant of the incarnation, so two processes use it. The incarnation has been ended.",
		   "Activate a separate incarnation in each process with idgen_activate().");
}

/* The next grant of an external incarnation. */
static void
decide_acquisition(IdgenRound *round, IdgenJob *job, const IdgenTicket *ticket,
				   IdgenAnswer *answer)
{
	const IdgenRequest *request = &ticket->request;
	IdgenIncarnationRow row;
	IdgenLastGrant last;
	IdgenChainFacts facts;

	if (!idgen_round_is_holder(ticket, &row) ||
		strcmp(row.namespace_name, job->name) != 0)
	{
		reject(job, answer, IDGEN_DETAIL_NOT_HOLDER,
			   ACTIVATE_HINT);
		return;
	}
	if (!row.active)
	{
		reject(job, answer, "The incarnation has ended.", ACTIVATE_HINT);
		return;
	}
	facts = chain_facts(job, request, row.worker, &last);
	switch (idgen_chain_judge(&facts))
	{
		case IDGEN_CHAIN_NEXT:
			decide_next(round, job, request, &row, answer);
			break;
		case IDGEN_CHAIN_REPEATED:
			if (request->length_ms != last.asked_ms)
				refuse_answer(answer, IDGEN_ERROR_OTHER_LENGTH, NULL, NULL);
			else
				idgen_round_set_granted(job, row.worker, request->incarnation,
										last.grant_id, &last.grant, answer);
			break;
		case IDGEN_CHAIN_STALE:
			reject(job, answer, "This request was already answered, and so was a later one.",
				   "Use a new request ID for a new grant.");
			break;
		case IDGEN_CHAIN_FORKED:
			end_forked(job, request->incarnation, answer);
			break;
		case IDGEN_CHAIN_TAKEN:
			reject(job, answer, "The grants of the incarnation have ended, and its worker was given to another incarnation.",
				   ACTIVATE_HINT);
			break;
	}
}

/* Decide what external generators ask of one namespace. */
void
idgen_round_decide_external(IdgenRound *round, IdgenJob *job)
{
	for (int i = 0; i < round->ticket_count; i++)
	{
		const IdgenTicket *ticket = &round->tickets[i];
		IdgenAnswer *answer = &round->answers[i];

		if (!idgen_round_grants_to(ticket) ||
			!idgen_same_uuid(&ticket->request.namespace_uuid, &job->uuid))
			continue;
		memset(answer, 0, sizeof(*answer));
		if (ticket->request.kind == IDGEN_REQUEST_ACTIVATE)
			decide_activation(round, job, ticket, answer);
		else
			decide_acquisition(round, job, ticket, answer);
	}
}
