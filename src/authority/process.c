/*
 * process.c
 *		The authority worker of a database: the single writer of its grants.
 *
 * The work is done by round.c (grants) and operation.c (everything else); this
 * file is the process: when it wakes, what is due, when it leaves.
 *
 * Between rounds there is no transaction, snapshot or lock.  The worker is in
 * nobody's way: DROP DATABASE asks it to leave (see hooks.c), and for commands
 * that only lock the database it looks at every wake-up, at least once a
 * second, and leaves by itself.
 */
#include "compat.h"

#include "authority/process.h"

#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "authority/alert.h"
#include "clock.h"
#include "catalog/incarnation_rows.h"
#include "random.h"
#include "shmem/request_queue.h"
#include "catalog/namespace_cache.h"
#include "authority/command.h"
#include "catalog/policy_lock.h"
#include "shmem/pool.h"
#include "authority/confirm.h"
#include "authority/retention.h"
#include "authority/round.h"
#include "settings.h"
#include "shmem/shmem.h"
#include "shmem/counters.h"
#include "catalog/table_lock.h"
#include "catalog/tables.h"

/* Longest sleep while any cursor is kept: bounds how long a lock on the
 * database waits for this worker. */
#define SLEEP_MAX_MS		1000

/*
 * Rounds begin at least this far apart.  A request that comes alone is not
 * delayed by it; of many, several share a commit.
 */
#define ROUND_APART_US		INT64_C(5000)

/*
 * Shortest sleep, and the pause before what failed is tried again: while
 * somebody waits for it, and otherwise.
 */
#define SLEEP_MIN_MS		2
#define RETRY_MS			20
#define FAILED_PAUSE_US		INT64_C(200000)

/*
 * The pause before an operation that met a lock is tried again, whoever wakes the
 * worker: it may take LOCK_TIMEOUT each time, during which no grant is made.
 */
#define OPERATION_RETRY_MS	500

/* A row or transaction lock met in a round is waited for this long at most. */
#define LOCK_TIMEOUT		"100ms"

/* --------------------------------------------------------------------
 * What the worker remembers between rounds
 * -------------------------------------------------------------------- */

/* When a slot was last seen in use, and when its cursor is due. */
typedef struct IdgenActivity
{
	uint64		generation;
	uint64		issued_count;
	int64		changed_at_us;	/* monotonic */
	int64		due_at_ms;		/* wall clock; 0 = not known */
	int64		along_at_ms;	/* from when it comes along with others */
	int64		pause_until_us; /* monotonic: not looked at before */
} IdgenActivity;

/* An operation that met a lock. */
typedef struct IdgenPause
{
	uint64		ticket;			/* of its request */
	int64		until_us;		/* monotonic: not tried before */
} IdgenPause;

static IdgenActivity *activities;	/* [slot_count] */
static IdgenPause *pauses;		/* [request_count], by process */
static int64 last_use_us;		/* of any namespace of this database */

/* --------------------------------------------------------------------
 * The loop
 * -------------------------------------------------------------------- */

/*
 * A cursor that went without this worker's doing, as one that was given to another
 * namespace, has left its incarnation behind: the next round ends that.
 */
static void
note_gone(const IdgenRound *round)
{
	uint64	   *generations = palloc0(idgen_shared->slot_count * sizeof(uint64));

	for (int i = 0; i < round->survey_count; i++)
		generations[round->surveys[i].slot] = round->surveys[i].generation;
	for (int i = 0; i < idgen_shared->slot_count; i++)
		if (activities[i].generation != 0 && activities[i].generation != generations[i])
		{
			activities[i].generation = 0;
			idgen_round_end_strangers();
		}
	pfree(generations);
}

/* Note which cursors were used since the last look. */
static void
note_activity(const IdgenRound *round)
{
	int64		now_us = idgen_clock_monotonic_us();

	if (round->request_count > 0)
		last_use_us = now_us;
	for (int i = 0; i < round->survey_count; i++)
	{
		const IdgenCursorSurvey *survey = &round->surveys[i];
		IdgenActivity *activity = &activities[survey->slot];

		if (activity->generation == survey->generation && survey->readable &&
			activity->issued_count == survey->issued_count)
			continue;
		if (activity->generation != survey->generation)
			activity->due_at_ms = activity->along_at_ms = 0;
		activity->generation = survey->generation;
		if (survey->readable)
			activity->issued_count = survey->issued_count;
		activity->changed_at_us = now_us;
		last_use_us = now_us;
	}
}

/* Has this cursor been left alone for idgen.idle_timeout? */
static bool
cursor_idle(const IdgenCursorSurvey *survey)
{
	return idgen_clock_monotonic_us() -
		activities[survey->slot].changed_at_us >=
		(int64) idgen_idle_timeout_ms * 1000;
}

/*
 * Has its namespace more cursors than allowed, since the setting was lowered?
 * The first "kept" surveys are the ones that stay.
 */
static bool
cursor_surplus(const IdgenRound *round, int kept, const IdgenCursorSurvey *survey)
{
	int			count = 0;

	for (int i = 0; i < kept; i++)
		if (idgen_same_uuid(&round->surveys[i].namespace_uuid, &survey->namespace_uuid))
			count++;
	return count >= idgen_max_workers_per_namespace;
}

/*
 * End the cursors that nobody uses or may use, in one transaction.  They are killed first:
 * should the transaction fail, their incarnations are ended by the next life of
 * shared memory, and their workers are free when their grants are over.
 */
static void
end_unused_cursors(IdgenRound *round)
{
	MemoryContext context = CurrentMemoryContext;
	int			kept = 0;
	int			ended_count = 0;
	int64	   *ended = palloc((round->survey_count + 1) * sizeof(int64));

	for (int i = 0; i < round->survey_count; i++)
	{
		IdgenCursorSurvey *survey = &round->surveys[i];

		if (!cursor_idle(survey) && !cursor_surplus(round, kept, survey))
		{
			round->surveys[kept++] = *survey;
			continue;
		}
		idgen_pool_kill_slot(survey->slot, survey->generation);
		activities[survey->slot].generation = 0;
		ended[ended_count++] = survey->incarnation;
	}
	round->survey_count = kept;
	if (ended_count == 0)
		return;

	PG_TRY();
	{
		IdgenError error;

		idgen_round_begin(context);
		if (idgen_table_lock_all_now(&error))
			for (int i = 0; i < ended_count; i++)
				idgen_incarnation_rows_end(ended[i]);
		idgen_round_commit(context);
	}
	PG_CATCH();
	{
		char		message[IDGEN_ERROR_TEXT_MAX];

		idgen_round_abort(context, message);
	}
	PG_END_TRY();
}

/* Is a cursor due, or so soon that it may come along with others? */
static bool
due_by_memory(const IdgenCursorSurvey *survey, bool along)
{
	const IdgenActivity *activity = &activities[survey->slot];

	return idgen_clock_monotonic_us() >= activity->pause_until_us &&
		idgen_clock_wall_ms() >= (along ? activity->along_at_ms : activity->due_at_ms);
}

/* Turn requests and due cursors into jobs; what is not due costs nothing. */
static void
make_jobs(IdgenRound *round)
{
	round->jobs = palloc((round->request_count + round->survey_count + 1) *
						 sizeof(IdgenJob));
	for (int i = 0; i < round->request_count; i++)
	{
		const IdgenMail *mail = &round->requests[i].mail;
		bool		serve = mail->kind == IDGEN_REQUEST_SERVE;
		IdgenJob   *job;

		if (!serve && !idgen_round_grants_to(&round->requests[i]))
			continue;
		job = idgen_round_job(round, mail->namespace_name,
							  &mail->namespace_uuid);
		job->cursor_wanted |= serve;
		if (serve)
			job->cursors_seen = Max(job->cursors_seen, mail->cursors_seen);
	}
	for (int along = 0; along <= (round->job_count > 0); along++)
		for (int i = 0; i < round->survey_count; i++)
			if (due_by_memory(&round->surveys[i], along))
				(void) idgen_round_job(round, round->surveys[i].namespace_name,
									   &round->surveys[i].namespace_uuid);
}

/* Answer a request by the outcome of its job. */
static void
answer_request(IdgenRound *round, int request, IdgenJob *job)
{
	const IdgenMailTaken *taken = &round->requests[request];
	IdgenAnswer answer;

	memset(&answer, 0, sizeof(answer));
	answer.error = job->error;
	if (idgen_round_grants_to(taken) && job->changed)
	{
		/* nothing was decided: it is to be asked for under the new uuid */
		idgen_error_set(&answer.error, IDGEN_ERROR_AGAIN, NULL, NULL);
		idgen_queue_answer(taken, &answer);
	}
	else if (idgen_round_grants_to(taken) && job->ns != NULL)
	{
		/* one that is judged after another waits; nobody else does for it */
		answer = round->answers[request];
		if (answer.error.kind == IDGEN_ERROR_AGAIN)
			round->unanswered = true;
		else if (answer.error.kind == IDGEN_ERROR_NONE)
			idgen_confirm_answer(job->ns, taken, &answer);
		else
			idgen_queue_answer(taken, &answer);
	}
	else if (job->retry)
	{
		idgen_queue_note(taken, &answer.error);
		round->unanswered = true;
	}
	else if (answer.error.kind == IDGEN_ERROR_NONE &&
			 idgen_confirm_count(&job->uuid, false) > 0)
	{
		/* it is looked at again when that has been confirmed */
		idgen_confirm_set_unconfirmed(&answer.error);
		idgen_queue_note(taken, &answer.error);
		round->unanswered = true;
	}
	else
		idgen_queue_answer(taken, &answer);
}

/* Is a request an operation, and not for grants? */
static bool
is_command(const IdgenMailTaken *request)
{
	return request->mail.kind != IDGEN_REQUEST_SERVE &&
		!idgen_round_grants_to(request);
}

/* Answer the requests of a job. */
static void
answer(IdgenRound *round, IdgenJob *job)
{
	for (int i = 0; i < round->request_count; i++)
		if (!is_command(&round->requests[i]) &&
			idgen_same_uuid(&round->requests[i].mail.namespace_uuid, &job->uuid))
			answer_request(round, i, job);
}

/* The job of a cursor's namespace, if this round had one. */
static const IdgenJob *
job_of(const IdgenRound *round, const IdgenCursorSurvey *survey)
{
	for (int i = 0; i < round->job_count; i++)
		if (idgen_same_uuid(&round->jobs[i].uuid, &survey->namespace_uuid))
			return &round->jobs[i];
	return NULL;
}

/* Remember when a cursor is due again, after a round that dealt with it. */
static void
note_cursor_due(const IdgenJob *job, const IdgenCursorSurvey *survey)
{
	IdgenActivity *activity = &activities[survey->slot];
	const IdgenNamespace *ns = job->ns;
	int64		length;
	int64		horizon;
	int64		due_at;
	int64		along_at;

	/* what fails for all, or waits for standbys, is not asked for all the time */
	if (ns == NULL || idgen_confirm_has_slot(survey->slot, survey->generation))
	{
		activity->pause_until_us = idgen_clock_monotonic_us() + FAILED_PAUSE_US;
		return;
	}
	if (!survey->readable)
		return;
	if (activity->generation != survey->generation)
	{
		activity->generation = survey->generation;
		activity->issued_count = survey->issued_count;
		activity->changed_at_us = idgen_clock_monotonic_us();
	}
	length = idgen_round_cursor_length(job);
	horizon = idgen_round_horizon(ns);
	due_at = idgen_grant_due_at(survey->granted_end, length, horizon, ns->run_ahead);
	along_at = idgen_grant_due_along(survey->granted_end, length, horizon, ns->run_ahead);
	(void) idgen_layout_unix_ms(&ns->row.layout, Max(due_at, 0),
								&activity->due_at_ms);
	(void) idgen_layout_unix_ms(&ns->row.layout, Max(along_at, 0),
								&activity->along_at_ms);
	activity->pause_until_us = 0;
}

/* Remember when the cursors of this round's namespaces are due again. */
static void
note_due(const IdgenRound *round)
{
	for (int i = 0; i < round->survey_count; i++)
	{
		const IdgenJob *job = job_of(round, &round->surveys[i]);

		if (job != NULL)
			note_cursor_due(job, &round->surveys[i]);
	}
}

/* Milliseconds until a cursor is due. */
static int64
due_in_ms(const IdgenActivity *activity)
{
	return Max(activity->due_at_ms - idgen_clock_wall_ms(),
			   (activity->pause_until_us - idgen_clock_monotonic_us()) / 1000);
}

/*
 * Milliseconds until the next round: when the first cursor is due, or soon if
 * something has to be tried again.
 */
static int64
next_round_ms(const IdgenRound *round)
{
	int64		sleep_ms = Min(SLEEP_MAX_MS, idgen_confirm_poll_ms());

	if (round->unanswered)
		return Min(RETRY_MS, sleep_ms);
	for (int i = 0; i < round->survey_count; i++)
		sleep_ms = Min(sleep_ms, due_in_ms(&activities[round->surveys[i].slot]));
	return Max(sleep_ms, SLEEP_MIN_MS);
}

/* Requests that are decided, and wait for confirmation, are not taken again. */
static void
leave_out_held(IdgenRound *round)
{
	int			kept = 0;

	for (int i = 0; i < round->request_count; i++)
		if (!idgen_confirm_has_request(&round->requests[i]))
			round->requests[kept++] = round->requests[i];
	round->request_count = kept;
}

/* The first request of a process after this one; 0 if there is none. */
static int
first_after(const IdgenRound *round, int process)
{
	for (int i = 0; i < round->request_count; i++)
		if (round->requests[i].process > process)
			return i;
	return 0;
}

/*
 * Serve operations, until one has met a lock: the others come after the grants
 * that are due, and the next turn begins behind it, so that each has its turn.
 * Returns how long to sleep at most.
 */
static int64
serve_commands(const IdgenRound *round)
{
	static int	last_met = -1;	/* the process whose operation met a lock last */
	int			first = first_after(round, last_met);
	int64		sleep_ms = SLEEP_MAX_MS;
	bool		met_lock = false;

	for (int i = 0; i < round->request_count; i++)
	{
		const IdgenMailTaken *request = &round->requests[(first + i) % round->request_count];
		IdgenPause *pause = &pauses[request->process];
		int64		now_us = idgen_clock_monotonic_us();

		if (!is_command(request))
			continue;
		if (pause->ticket == request->ticket && now_us < pause->until_us)
		{
			sleep_ms = Min(sleep_ms, (pause->until_us - now_us) / 1000 + 1);
			continue;
		}
		if (met_lock)
			break;
		if (idgen_command_serve(request))
			continue;
		met_lock = true;
		last_met = request->process;
		pause->ticket = request->ticket;
		pause->until_us = idgen_clock_monotonic_us() + OPERATION_RETRY_MS * INT64_C(1000);
		/* to wait for a lock takes wake-ups for its own: look again at once */
		sleep_ms = SLEEP_MIN_MS;
	}
	return sleep_ms;
}

/* One turn of the loop; returns how long to sleep. */
static int64
turn(void)
{
	IdgenRound	round;
	int64		sleep_ms;

	idgen_confirm_step();
	memset(&round, 0, sizeof(round));
	round.requests = palloc(idgen_shared->request_count * sizeof(IdgenMailTaken));
	round.request_count = idgen_queue_take(round.requests,
											 idgen_shared->request_count, last_use_us);
	leave_out_held(&round);
	round.surveys = palloc(idgen_shared->slot_count * sizeof(IdgenCursorSurvey));
	round.survey_count = idgen_pool_survey(MyDatabaseId, round.surveys,
										   idgen_shared->slot_count);
	note_gone(&round);
	note_activity(&round);
	end_unused_cursors(&round);

	sleep_ms = serve_commands(&round);
	make_jobs(&round);
	if (round.job_count > 0)
	{
		idgen_round_serve(&round, answer);
		round.survey_count = idgen_pool_survey(MyDatabaseId, round.surveys,
											   idgen_shared->slot_count);
		note_gone(&round);
		note_due(&round);

		/* frees marks that the round's jobs point to */
		if (round.clock.verdict == IDGEN_CLOCK_RIGHT)
			idgen_retention_step();
	}
	return Min(sleep_ms, next_round_ms(&round));
}

/* Let a moment pass since the last turn, in which further requests gather. */
static void
gather(uint32 wait_event)
{
	static int64 last_turn_us = 0;
	int64		left_us = last_turn_us + ROUND_APART_US -
		idgen_clock_monotonic_us();

	if (left_us > 0)
	{
		pgstat_report_wait_start(wait_event);
		pg_usleep((long) left_us);
		pgstat_report_wait_end();
	}
	last_turn_us = idgen_clock_monotonic_us();
}

/* Is there nothing to do, and has there not been for long enough? */
static bool
may_leave(void)
{
	IdgenCursorSurvey any;

	return idgen_clock_monotonic_us() - last_use_us >=
		(int64) idgen_idle_timeout_ms * 1000 &&
		idgen_confirm_count(NULL, false) == 0 &&
		idgen_pool_survey(MyDatabaseId, &any, 1) == 0;
}

/*
 * Does another session hold this database against being used: DROP, ALTER ...
 * RENAME or SET TABLESPACE, CREATE DATABASE ... TEMPLATE?  They wait a few
 * seconds for others to leave, so leave.
 */
static bool
database_wanted(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	if (LockAcquire(&tag, RowExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	LockRelease(&tag, RowExclusiveLock, true);
	return false;
}

/*
 * At any kind of exit.  The end of a process gives back the locks of its
 * transaction, and of policies only if it is in one: after an error between two
 * rounds nobody else would, and nobody could change them until a restart.
 */
static void
leave_at_exit(int code, Datum arg)
{
	idgen_policy_let_go();
	idgen_queue_leave();
}

/*
 * Pin every setting that a database or role can set and that could change what
 * the worker does.
 */
static void
pin_settings(void)
{
	static const char *const pinned[][2] = {
		{"synchronous_commit", "local"},
		{"search_path", "pg_catalog, pg_temp"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
		{"statement_timeout", "0"},
		{"lock_timeout", LOCK_TIMEOUT},
		{"idle_in_transaction_session_timeout", "0"},
		{"idle_session_timeout", "0"},
		{"transaction_timeout", "0"},
		{"row_security", "off"},
		{"session_replication_role", "origin"},
		{"exit_on_error", "off"},
		{"plan_cache_mode", "auto"},

		/* rows are reached by key or by their place, however dead versions
		 * pile up under a long transaction */
		{"enable_indexscan", "on"},
		{"enable_tidscan", "on"},
		{"enable_nestloop", "on"},
		{"enable_hashjoin", "off"},
		{"enable_mergejoin", "off"},
		{"enable_seqscan", "off"},
		{"enable_bitmapscan", "off"},
		{"max_parallel_workers_per_gather", "0"},
		{"jit", "off"},
		{"commit_siblings", "5"},
		{"work_mem", "4MB"},
		{"log_min_error_statement", "panic"},
	};

	for (size_t i = 0; i < lengthof(pinned); i++)
		if (GetConfigOption(pinned[i][0], true, false) != NULL)
			SetConfigOption(pinned[i][0], pinned[i][1], PGC_SUSET,
							PGC_S_OVERRIDE);
}

/*
 * Entry point of the background worker; main_arg is the database's OID.
 */
void
idgen_authority_main(Datum main_arg)
{
	Oid			database = DatumGetObjectId(main_arg);
	MemoryContext round_context;
	uint32		wait_event;
	int64		due_us = 0;		/* monotonic; when the next turn is to begin; 0 = at
								 * once */

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);
	pin_settings();

	/*
	 * To connect may mean to wait for a lock, which only "die" ends.  From here
	 * on nothing is waited for without a bound, and a worker that is asked to end
	 * does so between rounds: no error, and nothing half done.
	 */
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);

	before_shmem_exit(leave_at_exit, (Datum) 0);
	if (!idgen_queue_enter())
		proc_exit(0);

	/* a predecessor may have died between reserving and activating */
	idgen_pool_release_reserved(MyDatabaseId, 0);
	idgen_stats_begin_authority();

	activities = MemoryContextAllocZero(TopMemoryContext,
										idgen_shared->slot_count *
										sizeof(IdgenActivity));
	pauses = MemoryContextAllocZero(TopMemoryContext,
									idgen_shared->request_count *
									sizeof(IdgenPause));
	last_use_us = idgen_clock_monotonic_us();
	wait_event = idgen_wait_event("IdgenAuthorityMain");
	round_context = AllocSetContextCreate(TopMemoryContext,
										  "idgen authority round",
										  ALLOCSET_DEFAULT_SIZES);
	pgstat_report_appname("idgen authority");

	for (;;)
	{
		int64		sleep_ms;

		ResetLatch(MyLatch);

		/* a cancel between rounds meets nothing to be cancelled */
		QueryCancelPending = false;
		CHECK_FOR_INTERRUPTS();
		if (ShutdownRequestPending)
			proc_exit(0);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (idgen_queue_stop_wanted() || database_wanted())
		{
			/* nobody may come back to this database: leave no cursor behind */
			idgen_pool_kill(MyDatabaseId, NULL);
			proc_exit(0);
		}

		if (idgen_queue_yield_wanted())
			proc_exit(0);		/* its cursors go on with what they were granted */

		gather(wait_event);
		if (due_us != 0)
			idgen_alert_pause(idgen_clock_monotonic_us() - due_us);
		MemoryContextSwitchTo(round_context);
		pgstat_report_activity(STATE_RUNNING, "granting");
		sleep_ms = turn();
		pgstat_report_activity(STATE_IDLE, NULL);
		pgstat_report_stat(false);
		MemoryContextReset(round_context);

		if (may_leave() && idgen_queue_leave_if_empty())
			proc_exit(0);

		/*
		 * Nothing else between the turns takes long: of locks there is only that of
		 * the directory, which is held for moments unless its holder was stopped, too.
		 */
		due_us = idgen_clock_monotonic_us() + sleep_ms * 1000;

		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 (long) sleep_ms, wait_event);
	}
}

/*
 * Ask the postmaster for a worker for this database.  False if no background
 * worker slot is free.
 */
static bool
start_worker(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "idgen", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "idgen_authority_main",
			sizeof(worker.bgw_function_name));
	snprintf(worker.bgw_name, sizeof(worker.bgw_name),
			 "idgen authority for database %u", MyDatabaseId);
	strlcpy(worker.bgw_type, "idgen authority", sizeof(worker.bgw_type));
	worker.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId);
	return RegisterDynamicBackgroundWorker(&worker, NULL);
}

/* Once, when the library is loaded. */
void
idgen_authority_init(void)
{
	idgen_queue_start_authority = start_worker;
}
