/*
 * process.c
 *		The authority process of a database: the single writer of its grants.
 *
 * round.c grants, and command.c does everything else.  This file is the
 * process: how it starts, what it does in each round, when it leaves.
 *
 * Between rounds there is no transaction, snapshot or lock.  The process is in
 * nobody's way: DROP DATABASE asks it to leave (see at_commit.c).  Other
 * commands that want the database to themselves only lock it.  So the process
 * looks for their lock whenever it wakes up, which is at least once a second,
 * and leaves by itself.
 */
#include "compat.h"

#include "authority/process.h"

#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "authority/authority.h"
#include "authority/round.h"
#include "authority/transaction.h"
#include "background.h"
#include "catalog/incarnation_rows.h"
#include "catalog/policy_lock.h"
#include "catalog/table_lock.h"
#include "clock.h"
#include "random.h"
#include "settings.h"
#include "shmem/authorities.h"
#include "shmem/counters.h"

/*
 * Longest sleep.  It bounds how long a command that locks the database waits
 * for this process.
 */
#define SLEEP_MAX_MS		1000

/* Shortest sleep, and the longest while a request is to be looked at again. */
#define SLEEP_MIN_MS		2
#define RETRY_MS			20

/*
 * Rounds begin at least this far apart.  A request that comes alone is not
 * delayed by it; of many requests, several share a commit.
 */
#define ROUND_APART_US		INT64_C(5000)

/* The longest wait for a row or transaction lock in a round. */
#define LOCK_TIMEOUT		"100ms"

/* --------------------------------------------------------------------
 * A round
 * -------------------------------------------------------------------- */

/* Take the requests, but leave those whose answers wait for confirmation. */
static void
take_requests(IdgenRound *round)
{
	IdgenAuthority *authority = round->authority;
	int			count;

	idgen_authorities_begin_round(authority->schedule.last_use_us);
	round->tickets = palloc(idgen_queue_count() * sizeof(IdgenTicket));
	count = idgen_queue_take(round->tickets, idgen_queue_count());
	for (int i = 0; i < count; i++)
		if (!idgen_confirm_has_request(&authority->confirm, &round->tickets[i]))
			round->tickets[round->ticket_count++] = round->tickets[i];
	if (round->ticket_count > 0)
		idgen_schedule_note_asked(&authority->schedule);
}

/*
 * Look at the cursors of this database.  If one has gone without this
 * process's doing, the next round ends its incarnation.
 */
static void
survey_cursors(IdgenRound *round)
{
	IdgenAuthority *authority = round->authority;

	round->survey_count = idgen_pool_survey(MyDatabaseId, round->surveys,
											idgen_slot_count());
	if (idgen_schedule_find_gone(&authority->schedule, round->surveys, round->survey_count))
		authority->strangers_ended = false;
}

/*
 * Does the namespace of a cursor have more cursors than allowed, since the
 * setting was lowered?  The first "kept" surveys are the cursors that stay.
 */
static bool
is_surplus(const IdgenRound *round, int kept, const IdgenCursorSurvey *survey)
{
	int			count = 0;

	for (int i = 0; i < kept; i++)
		if (idgen_same_uuid(&round->surveys[i].namespace_uuid, &survey->namespace_uuid))
			count++;
	return count >= idgen_max_workers_per_namespace;
}

/* End incarnations in one transaction; their cursors have been killed. */
static void
end_incarnations(IdgenAuthority *authority, const int64 *incarnations, int count)
{
	IdgenTransaction transaction;

	idgen_transaction_init(&transaction, authority);
	PG_TRY();
	{
		IdgenError	error;

		idgen_transaction_begin(&transaction);
		if (idgen_table_lock_all_now(&error))
			for (int i = 0; i < count; i++)
				idgen_incarnation_rows_end(incarnations[i]);
		idgen_transaction_commit(&transaction);
	}
	PG_CATCH();
	{
		char		message[IDGEN_ERROR_TEXT_MAX];

		idgen_transaction_abort(&transaction, message);
	}
	PG_END_TRY();
}

/*
 * Mend guards that do not fire always, and log it.  In a transaction of its own, so
 * that no round waits longer for the lock on the tables than that takes.
 */
static void
mend_guards(IdgenAuthority *authority)
{
	IdgenTransaction transaction;
	StringInfoData mended;

	authority->tables_refused = false;
	initStringInfo(&mended);
	idgen_transaction_init(&transaction, authority);
	PG_TRY();
	{
		idgen_transaction_begin(&transaction);
		idgen_table_mend_guards(&mended);
		idgen_transaction_commit(&transaction);
		if (mended.len > 0)
			idgen_alert_mended(&authority->alerts, mended.data);
	}
	PG_CATCH();
	{
		char		message[IDGEN_ERROR_TEXT_MAX];

		idgen_transaction_abort(&transaction, message);
	}
	PG_END_TRY();
}

/*
 * End the cursors that nobody uses, or that are more than allowed.  They are
 * killed first.  Should the transaction fail, a later round ends their
 * incarnations (end_strangers in round.c), and their workers are free when
 * their grants are over.
 */
static void
end_unused_cursors(IdgenRound *round)
{
	IdgenSchedule *schedule = &round->authority->schedule;
	int			kept = 0;
	int			ended_count = 0;
	int64	   *ended = palloc((round->survey_count + 1) * sizeof(int64));

	for (int i = 0; i < round->survey_count; i++)
	{
		IdgenCursorSurvey *survey = &round->surveys[i];

		if (!idgen_schedule_is_idle(schedule, survey) && !is_surplus(round, kept, survey))
		{
			round->surveys[kept++] = *survey;
			continue;
		}
		idgen_pool_kill_slot(survey->slot, survey->generation);
		idgen_schedule_forget(schedule, survey);
		ended[ended_count++] = survey->incarnation;
	}
	round->survey_count = kept;
	if (ended_count > 0)
		end_incarnations(round->authority, ended, ended_count);
}

/* Turn requests for grants into jobs. */
static void
add_requested_jobs(IdgenRound *round)
{
	for (int i = 0; i < round->ticket_count; i++)
	{
		const IdgenRequest *request = &round->tickets[i].request;
		IdgenJob   *job;

		if (idgen_command_is(&round->tickets[i]))
			continue;
		job = idgen_round_job(round, request->namespace_name, &request->namespace_uuid);
		if (request->kind != IDGEN_REQUEST_SERVE)
			continue;
		job->cursor_wanted = true;
		job->cursors_seen = Max(job->cursors_seen, request->cursors_seen);
	}
}

/*
 * Make jobs for cursors that are due or, with "along", for those that are
 * served along with others.
 */
static void
add_due_jobs(IdgenRound *round, bool along)
{
	for (int i = 0; i < round->survey_count; i++)
		if (idgen_schedule_is_due(&round->authority->schedule, &round->surveys[i], along))
			(void) idgen_round_job(round, round->surveys[i].namespace_name,
								   &round->surveys[i].namespace_uuid);
}

/* Make the jobs of a round; what is not due costs nothing. */
static void
make_jobs(IdgenRound *round)
{
	round->jobs = palloc((round->ticket_count + round->survey_count + 1) *
						 sizeof(IdgenJob));
	add_requested_jobs(round);
	add_due_jobs(round, false);
	if (round->job_count > 0)
		add_due_jobs(round, true);
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

/* Remember when the cursors of this round's namespaces are due again. */
static void
note_due(const IdgenRound *round)
{
	IdgenAuthority *authority = round->authority;

	for (int i = 0; i < round->survey_count; i++)
	{
		const IdgenCursorSurvey *survey = &round->surveys[i];
		const IdgenJob *job = job_of(round, survey);

		if (job == NULL)
			continue;
		if (job->outcome == IDGEN_OUTCOME_SERVED &&
			!idgen_confirm_has_slot(&authority->confirm, survey->slot, survey->generation))
			idgen_schedule_note_due(&authority->schedule, job, survey);
		else
			idgen_schedule_put_off(&authority->schedule, survey);
	}
}

/*
 * Milliseconds until the next round: until the first cursor is due, or less if
 * something has to be tried again.
 */
static int64
next_round_ms(const IdgenRound *round)
{
	int64		sleep_ms = Min(SLEEP_MAX_MS,
							   idgen_confirm_poll_ms(&round->authority->confirm));

	if (round->unanswered)
		return Min(RETRY_MS, sleep_ms);
	for (int i = 0; i < round->survey_count; i++)
		sleep_ms = Min(sleep_ms, idgen_schedule_due_in_ms(&round->authority->schedule,
														  &round->surveys[i]));
	return Max(sleep_ms, SLEEP_MIN_MS);
}

/*
 * Serve everything that is asked for or due; returns how long to sleep, in ms.
 */
static int64
run_round(IdgenAuthority *authority)
{
	IdgenRound	round;
	int64		commands_ms;

	idgen_confirm_run(&authority->confirm);
	if (authority->tables_refused)
		mend_guards(authority);
	memset(&round, 0, sizeof(round));
	round.authority = authority;
	take_requests(&round);
	round.surveys = palloc(idgen_slot_count() * sizeof(IdgenCursorSurvey));
	survey_cursors(&round);
	for (int i = 0; i < round.survey_count; i++)
		idgen_schedule_note_use(&authority->schedule, &round.surveys[i]);
	end_unused_cursors(&round);

	commands_ms = idgen_command_serve(authority, round.tickets, round.ticket_count);
	make_jobs(&round);
	if (round.job_count > 0)
	{
		idgen_round_serve(&round);
		survey_cursors(&round);
		note_due(&round);

		/* last, because it frees marks that the jobs of the round point to */
		if (round.clock.verdict == IDGEN_CLOCK_RIGHT)
			idgen_retention_run(authority);
	}
	return Min(Max(commands_ms, SLEEP_MIN_MS), next_round_ms(&round));
}

/* --------------------------------------------------------------------
 * The process
 * -------------------------------------------------------------------- */

/*
 * Let a moment pass since the last round began, in which further requests
 * gather.  Returns when this one begins.
 */
static int64
gather(int64 last_round_us, uint32 wait_event)
{
	int64		left_us = last_round_us + ROUND_APART_US - idgen_clock_monotonic_us();

	if (left_us > 0)
	{
		pgstat_report_wait_start(wait_event);
		pg_usleep((long) left_us);
		pgstat_report_wait_end();
	}
	return idgen_clock_monotonic_us();
}

/* Has there been nothing to do for long enough? */
static bool
may_leave(const IdgenAuthority *authority)
{
	IdgenCursorSurvey any;

	return idgen_schedule_is_database_idle(&authority->schedule) &&
		idgen_confirm_count(&authority->confirm, NULL, false) == 0 &&
		idgen_pool_survey(MyDatabaseId, &any, 1) == 0;
}

/*
 * Does another session hold this database against being used?  DROP, ALTER ...
 * RENAME or SET TABLESPACE, and CREATE DATABASE ... TEMPLATE do, and wait a
 * few seconds for others to leave.
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
 * transaction, but locks of policies only if it is in a transaction.  After an
 * error outside of one, nobody else would give them back, and the policies
 * could not be changed until a restart.
 */
static void
leave_at_exit(int code, Datum arg)
{
	idgen_policy_let_go();
	idgen_queue_leave();
}

/*
 * Pin every setting that a database or role can set and that could change what
 * this process does.
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

		/*
		 * reach rows by key or by their place, however many dead versions
		 * pile up under a long transaction
		 */
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
 * Keep what this process does for itself out of the records of other
 * extensions, if they are there.  What users do is recorded where they do it.
 * A setting of theirs that takes no such value is left alone: it must not end
 * this process.
 */
static void
pin_recorders(void)
{
	static const char *const pinned[][2] = {
		{"pg_stat_statements.track", "none"},
		{"pgaudit.log", "none"},
	};

	for (size_t i = 0; i < lengthof(pinned); i++)
		if (GetConfigOption(pinned[i][0], true, false) != NULL)
			(void) set_config_option(pinned[i][0], pinned[i][1], PGC_SUSET,
									 PGC_S_OVERRIDE, GUC_ACTION_SET, true,
									 DEBUG1, false);
}

/*
 * Connect to the database, and report for duty; exits if there is another
 * process.
 */
static void
start(Oid database)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	idgen_background_connect(database);
	pin_settings();
	pin_recorders();

	/*
	 * Connecting may mean waiting for a lock, which only "die" ends.  From
	 * here on nothing is waited for without a bound, and a process that is
	 * asked to end does so between rounds: no error, and nothing half done.
	 */
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);

	before_shmem_exit(leave_at_exit, (Datum) 0);
	if (!idgen_authorities_enter())
		proc_exit(0);

	/* a predecessor may have died between reserving and activating */
	idgen_pool_release_reserved(MyDatabaseId, 0);
	idgen_counters_begin_authority();
	pgstat_report_appname("idgen authority");
}

/* What this process remembers between rounds: nothing yet. */
static IdgenAuthority *
make_memory(void)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	IdgenAuthority *authority = palloc0(sizeof(IdgenAuthority));

	idgen_schedule_init(&authority->schedule);
	idgen_command_init(&authority->commands);
	idgen_confirm_init(&authority->confirm);
	MemoryContextSwitchTo(old);
	return authority;
}

/* Between rounds: exit if somebody asks for it, read changed settings. */
static void
check_orders(void)
{
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
	if (idgen_authorities_stop_wanted() || database_wanted())
	{
		/* nobody may come back to this database: leave no cursor behind */
		idgen_pool_kill(MyDatabaseId, NULL);
		proc_exit(0);
	}
	if (idgen_authorities_yield_wanted())
		proc_exit(0);			/* its cursors go on with what they were
								 * granted */
}

/*
 * Entry point of the background worker; main_arg is the OID of the database.
 */
void
idgen_authority_main(Datum main_arg)
{
	IdgenAuthority *authority;
	MemoryContext round_context;
	uint32		wait_event;
	int64		round_us = 0;	/* monotonic; when the last round began */
	int64		due_us = 0;		/* monotonic; when the next is to begin; 0 =
								 * at once */

	start(DatumGetObjectId(main_arg));
	authority = make_memory();
	wait_event = idgen_wait_event("IdgenAuthorityMain");
	round_context = AllocSetContextCreate(TopMemoryContext,
										  "idgen authority round",
										  ALLOCSET_DEFAULT_SIZES);

	for (;;)
	{
		int64		sleep_ms;

		ResetLatch(MyLatch);
		check_orders();
		round_us = gather(round_us, wait_event);
		if (due_us != 0)
			idgen_alert_pause(&authority->alerts, idgen_clock_monotonic_us() - due_us);
		MemoryContextSwitchTo(round_context);
		pgstat_report_activity(STATE_RUNNING, "granting");
		sleep_ms = run_round(authority);
		pgstat_report_activity(STATE_IDLE, NULL);
		pgstat_report_stat(false);
		MemoryContextReset(round_context);

		if (may_leave(authority) && idgen_queue_leave_if_empty())
			proc_exit(0);

		/*
		 * If the next round begins late, the process was paused: nothing else
		 * between the rounds takes long.  The only lock taken there is that
		 * of the directory, which is held for moments unless its holder was
		 * stopped, too.
		 */
		due_us = idgen_clock_monotonic_us() + sleep_ms * 1000;

		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 (long) sleep_ms, wait_event);
	}
}
