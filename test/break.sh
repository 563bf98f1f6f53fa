#!/usr/bin/env bash
# Takes one safety rule out of a copy of the sources, to see the rule's test fail: the table of
# rules, what breaks each, and which test notices. test/counterparts.sh goes through it.
#
#   test/break.sh NAME DIRECTORY
#   test/break.sh --list          NAME TEST CHECK of each, with tabs in between
#
# An unknown name is an error, and so is a rule that is no longer where this file looks for it.
# Arithmetic of src/core is test/unit/mutants.sh's; here is what a running server shows.
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

[ $# -eq 2 ] || [ "$*" = --list ] || die 'usage: test/break.sh NAME DIRECTORY | --list'
wanted=$1
dest=${2:-}
found=

# rule NAME TEST CHECK: true if this one is to be taken out. TEST is a file of test/t or
# test/drills; after a colon, the part of it that shows the rule. CHECK is a regular expression:
# the name of the check that fails.
rule()
{
	[ "$wanted" != --list ] || printf '%s\t%s\t%s\n' "$@"
	[ "$wanted" = "$1" ] || return 1
	found=1
}

# take FILE OLD NEW: OLD, which must stand there once, becomes NEW.
take()
{
	OLD=$2 NEW=$3 perl -0777 -i -pe '$n = s/\Q$ENV{OLD}\E/$ENV{NEW}/g; END { exit($n != 1) }' \
		"$dest/$1" || die "the rule is not to be found once in $1: $2"
}

# --- S1, S4: only from a grant, and not before it is durable

if rule grant-end pauses:worker 'nothing was left'; then
	take src/core/cursor.h 'tick >= cursor->grants[i].end' 'false'
fi
# Held up in between for five calls in a thousand, as by the scheduler: the call looks again at once. Not
# all sessions for as long, or they would go in step.
if rule clock-under-lock pauses:clock 'clock was behind'; then
	take src/session/generator.c '	demand.now = idgen_layout_tick_at(&ns->row.layout, idgen_clock_wall_ms());

' ''
	take src/session/generator.c '	if (!LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))
		return IDGEN_TRY_LOCKED;' '	static int	calls = 0;

	demand.now = idgen_layout_tick_at(&ns->row.layout, idgen_clock_wall_ms());
	if (calls++ % 1000 < 5)
		pg_usleep(1000 + MyProcPid % 7 * 500);
	if (!LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))
		return IDGEN_TRY_LOCKED;'
fi
# With a pause that a kill of the cursor falls into.
if rule generation-after-clock 016_order 'one cursor'; then
	take src/session/generator.c '	demand.now = idgen_layout_tick_at(&ns->row.layout, idgen_clock_wall_ms());

' '	static int	calls = 0;
	bool		alive = pg_atomic_read_u64(&slot->generation) == ref->generation;

	if (calls++ % 40 == 20 && ns->row.layout.tick_ms == 300)
		pg_usleep(400000);
	demand.now = idgen_layout_tick_at(&ns->row.layout, idgen_clock_wall_ms());
'
	take src/session/generator.c 'if (pg_atomic_read_u64(&slot->generation) != ref->generation)' 'if (!alive)'
fi
# As now() does, which stands still in a transaction.
if rule clock-of-each-call pauses:backend 'carries its own time'; then
	take src/session/generator.c 'demand.now = idgen_layout_tick_at(&ns->row.layout, idgen_clock_wall_ms());

' 'demand.now = idgen_layout_tick_at(&ns->row.layout,
		GetCurrentStatementStartTimestamp() / 1000 + INT64_C(946684800000));

'
fi
if rule second-of-the-clock 124_clock_steps 'carries the second'; then
	take src/clock.h 'unlikely(now.tv_sec != begin.tv_sec) ||' ''
fi
# With a pause, so that a standstill meets it.
if rule publish-after-commit pauses:worker 'committed grants'; then
	take src/authority/round.c '	idgen_round_commit(context);
	strangers_ended |= open;
	publish(round);' '	publish(round);
	pg_usleep(20000);
	idgen_round_commit(context);
	strangers_ended |= open;'
fi
if rule flushed restarts 'none twice|inside grants on record'; then
	take src/authority/process.c '{"synchronous_commit", "local"}' '{"synchronous_commit", "off"}'
	take src/authority/round.c '	XLogFlush(XactLastCommitEnd);' ''
fi

# --- S2, S3: marks

if rule mark response_loss:connections 'overlap'; then
	take src/authority/round.c '.high_water = Max(high_water, job->marks->floor)' '.high_water = 0'
fi
# Whatever stands in front of the last look: the tables changed, the rows are elsewhere, a mark is
# lower than before.
if rule mark-as-read boundaries:outside 'is not lowered'; then
	take src/authority/round.c 'marks->loaded = fingerprint == marks->fingerprint;' 'marks->loaded = true;'
	take src/authority/round.c 'if (!locked[i])
			round->jobs' 'if (false)
			round->jobs'
	take src/sql/guard.c '		refuse_decrease(trigger);
' ''
	take src/catalog/query_text.c '" WHERE w.ctid = r.t AND w.namespace = r.n AND w.worker = r.w"
		" AND w.high_water = r.m RETURNING' '" WHERE w.namespace = r.n AND w.worker = r.w RETURNING'
fi
if rule sums boundaries:damage 'which are marks'; then
	take src/catalog/mark_rows.c 'idgen_query_run_for(IDGEN_SQL_SUMS_HOLD, name) == 0 ||
		!DatumGetBool(idgen_query_value(0, 1, &isnull))' \
		'idgen_query_run_for(IDGEN_SQL_SUMS_HOLD, name) == 0'
fi
if rule guards boundaries:damage 'DELETE FROM idgen_.*: 55000'; then
	take src/sql/guard.c '		refuse_change(RelationGetRelationName(trigger->tg_relation));
		keep = false;
	}

	if (!keep)' '		keep = true;
	}

	if (!keep)'
fi
if rule replicated-rows 106_restore 'rows of idgen are ignored|without an error|replication goes on'; then
	take src/sql/guard.c 'else if (from_replication())
		keep = false;' 'else if (from_replication())
		keep = true;'
fi
if rule replica-role 110_restored_rows 'replica: a copy'; then
	take src/sql/guard.c 'return IsLogicalWorker();' 'return IsLogicalWorker() || SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;'
fi
if rule restored-by-owner 110_restored_rows 'writer restores no'; then
	take src/sql/guard.c '	require_owner(trigger);
' ''
fi
if rule restored-mark-copies 110_restored_rows 'mark: nor a new one'; then
	take src/catalog/restore.c '		idgen_query_run(exists ? IDGEN_SQL_RAISE_MARK : IDGEN_SQL_INSERT_MARK, values, NULL);
		forget_identity(name);' '		idgen_query_run(exists ? IDGEN_SQL_RAISE_MARK : IDGEN_SQL_INSERT_MARK, values, NULL);
		idgen_query_run_for(IDGEN_SQL_RESET_SUMS, name);'
fi
if rule restored-floor-copies 110_restored_rows 'floor: nor a new one'; then
	take src/catalog/restore.c '	if (higher)
		forget_identity(name);' '	if (higher)
		idgen_query_run_for(IDGEN_SQL_RESET_SUMS, name);'
fi
if rule restored-mark-kills 110_restored_rows 'mark: the running statement'; then
	take src/sql/guard.c '	if (idgen_restore_mark(name, worker, high_water))
		idgen_at_commit_kill(name);' '	(void) idgen_restore_mark(name, worker, high_water);'
fi
if rule restored-floor-kills 110_restored_rows 'floor: the running statement'; then
	take src/sql/guard.c '	if (copied)
		idgen_at_commit_kill(name);' ''
fi
if rule restored-end-kills 110_restored_rows 'retired: the running statement'; then
	take src/sql/guard.c '	if (!keep && row.retired)
		idgen_at_commit_kill(row.name);' ''
fi
if rule restored-format 110_restored_rows 'another format is refused'; then
	take src/catalog/restore.c '!idgen_layout_same(&ours.layout, &row->layout)' 'false'
fi
if rule format-changed 110_restored_rows 'in a format that was changed'; then
	take src/session/generator.c 'else if (ns->format_changed)' 'else if (false)'
	take src/authority/round.c 'else if (ns->format_changed)' 'else if (false)'
fi
if rule early-marks 110_restored_rows 'has a copy'; then
	take src/catalog/namespace_rows.c '		if (*copied)
			idgen_namespace_rows_check_marks(row);' '		*copied = false;
		if (*copied)
			idgen_namespace_rows_check_marks(row);'
fi
if rule guards-enabled boundaries:damage 'no more is granted'; then
	take src/catalog/integrity.c '!guards_intact(relation)' 'false'
fi
# As if read from the catalog entry after each look-up: rebuilt meanwhile, what it was read from is
# overwritten, as a server with assertions does. Others may leave it as it was, by luck.
if rule guards-copied invalidations:altered 'new sessions get an ID'; then
	take src/catalog/integrity.c '		if (!is_guard(functions[i]))
			return false;
	return true;' '	{
		if (relation->trigdesc != triggers)
			memset(functions, 0x7f, sizeof(functions));
		if (!is_guard(functions[i]))
			return false;
	}
	return true;'
fi
# With a pause that a change falls into.
if rule look-up-settled invalidations:moved 'find the tables where they are'; then
	take src/catalog/tables.c '		found.valid = result == IDGEN_LOOK_UP_FOUND && changes == changes_before;' \
		'		pg_usleep(5000);
		AcceptInvalidationMessages();
		found.valid = result == IDGEN_LOOK_UP_FOUND;'
fi
if rule logged boundaries:damage 'no more is granted'; then
	take src/catalog/integrity.c 'relation->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT' 'false'
fi
if rule begin-after-dropped boundaries:dropped 'none twice'; then
	take src/authority/round.c 'if (!bring_marks(job) || !begin_after_dropped(round, job, ns))' 'if (!bring_marks(job))'
fi
if rule begin-after-any-dropped 010_databases 'begins after it'; then
	take src/authority/round.c 'if (any > idgen_layout_tick_at(layout, near_ms))' 'if (true)'
fi
if rule dropped-far-ahead 010_databases 'ran far ahead'; then
	take src/authority/round.c 'if (any > idgen_layout_tick_at(layout, near_ms))' 'if (false)'
	take src/authority/round.c 'idgen_ended_dropped_anywhere(near_ms)' 'idgen_ended_dropped_anywhere(PG_INT64_MAX)'
fi

if rule run-ahead-remembered 016_order 'when run_ahead is lowered'; then
	take src/authority/round.c 'run_ahead_ms / job->ns->row.layout.tick_ms' 'job->ns->run_ahead'
fi

# --- S3: what was promised outside

if rule promise-kept 113_promises 'may have been used|nor does giving it back'; then
	take src/catalog/query_text.c '"UPDATE ONLY {incarnation} SET state = '"'deactivated'"',' \
		'"WITH f AS (UPDATE ONLY {floor} SET external_end = 0) UPDATE ONLY {incarnation} SET state = '"'deactivated'"','
fi
if rule promise-of-each-grant 113_promises 'and so does the next grant'; then
	take src/catalog/grant_rows.c 'row->external_added = row->external ?' 'row->external_added = row->external && row->fresh ?'
fi
if rule promise-latest 113_promises 'older than the grant'; then
	take src/catalog/dropped.c 'RegisterSnapshot(GetLatestSnapshot())' 'RegisterSnapshot(GetTransactionSnapshot())'
fi
if rule promise-summed 113_promises 'decrease from outside'; then
	take src/catalog/query_text.c 'w.sum + f.floor + f.external_end"' 'w.sum + f.floor + 0 * f.external_end"'
	take src/catalog/grant_rows.c 'return row->external_added + (row' 'return (row'
	take src/catalog/query_text.c '(SELECT floor::numeric + external_end FROM' '(SELECT floor::numeric FROM'
fi
if rule promise-fenced 113_promises 'that no mark reaches'; then
	take src/catalog/query_text.c 'SELECT greatest(floor, external_end) FROM' 'SELECT floor FROM'
fi
if rule promise-restored 113_promises 'promises more raises it'; then
	take src/catalog/restore.c 'higher = floor > ours.floor || external_end > ours.external_end' 'higher = floor > ours.floor'
fi

if rule restored-policy-locked 110_restored_rows 'is the one that was chosen meanwhile'; then
	take src/catalog/restore.c '	(void) idgen_namespace_rows_lock_policy(row->name);
' ''
fi

# --- S3: what is remembered of what was dropped

if rule drops-read 115_drops 'begins after what was issued'; then
	take src/shmem/shmem.c '		idgen_ended_load();' '		;'
fi
if rule drops-before-commit 115_drops 'cannot be written down is refused'; then
	take src/session/at_commit.c '			write_down_pending();' ''
	take src/session/at_commit.c 'write_down_pending(void)' 'pg_attribute_unused() write_down_pending(void)'
fi
if rule drops-outside 115_drops 'after what was granted outside'; then
	take src/authority/round.c 'return (row->external || issues_ahead(ns)) &&' 'return !row->external && issues_ahead(ns) &&'
fi
if rule drops-ahead 115_drops 'begins after what ran ahead'; then
	take src/authority/round.c 'return ns->run_ahead > 0 ||' 'return'
fi
if rule drops-tick 115_drops 'waits for another tick'; then
	take src/authority/round.c 'ns->run_ahead > 0 || ns->row.layout.tick_ms > 1' 'ns->run_ahead > 0'
fi
if rule drops-untold 115_drops 'what the damaged tables did not tell'; then
	take src/shmem/ended.c '(marks != NULL ? marks->told : !entry->external)' '(!entry->external || marks != NULL)'
fi
if rule drops-renamed 115_drops 'the next one of its old name'; then
	take src/shmem/ended.c 'if (had_our_name(entry, database, database_name))' 'if (false && had_our_name(entry, database, database_name))'
fi
if rule drops-saved 115_drops 'so is a grant outside'; then
	take src/authority/round.c '	if (unsaved)
		idgen_ended_save();' ''
	take src/authority/round.c '	bool		unsaved = false;

	for (int i = 0; i < round->item_count; i++)' '	bool		unsaved pg_attribute_unused() = false;

	for (int i = 0; i < round->item_count; i++)'
fi
if rule drops-overtaken 115_drops 'does not know of is not issued again'; then
	take src/authority/fence.c 'verdict == IDGEN_IDENTITY_SAME && fence_overtaken(ns)' 'false && fence_overtaken(ns)'
fi
if rule drops-unwritten 116_bounds 'and still none goes outside'; then
	take src/authority/round.c '&bounds_ms[i]);' '&bounds_ms[i]), row->marks->promised_ms = bounds_ms[i];'
fi
if rule drops-killed-last 116_bounds 'begins after what its cursors issued'; then
	take src/shmem/ended.c 'if (entry->database == database &&
			strcmp(' 'if (entry->database == database && !entry->gone &&
			strcmp('
	take src/shmem/ended.c 'entry->dropped_ms = latest_ms(entry);' '(void) entry;'
fi
if rule drops-unknown 134_dropped_unknown 'unknown to the standby'; then
	take src/catalog/dropped.c '		if (known[i])
			continue;' '		continue;'
fi
if rule drops-before-copies 134_dropped_unknown 'granted under its name'; then
	take src/authority/round.c 'idgen_marks_highest(job->marks) > job->marks->floor;' 'job->marks->count > 0;'
fi
if rule drops-exact 115_drops 'issued at once, time 2'; then
	take src/shmem/ended.c 'bool		known = entry->whole &&' 'bool		known = false && entry->whole &&'
fi

# --- S5: whose cursor

if rule generation-under-lock 104_bounds 'another worker'; then
	take src/session/generator.c 'if (pg_atomic_read_u64(&slot->generation) != ref->generation)' 'if (false)'
fi
# With a pause, so that the place is another's by then.
if rule generation-at-publication pauses:reuse 'all inside grants'; then
	take src/shmem/pool.c 'if (pg_atomic_read_u64(&slot->generation) == generation)' 'if (true)'
	take src/shmem/pool.c 'bool		installed = false;

' 'bool		installed = false;

	pg_usleep(300000);
'
fi
if rule born-empty pauses:reuse 'all inside grants'; then
	take src/shmem/pool.c 'idgen_cursor_init(&slot->cursor, idgen_shared->infos[slot_index].worker);' ''
fi
if rule kill-without-directory 019_killed:directory 'has ended with an error'; then
	take src/shmem/pool.c '	kill_all_within(&target, patience);' '	if (!idgen_lock_within(&idgen_shared->directory_lock, LW_EXCLUSIVE, INT64_C(1000000)))
		return;
	kill_all_within(&target, patience);
	idgen_unlock_directory();'
fi
if rule kill-waits-once 026_hostile 'a commit that kills many cursors'; then
	take src/shmem/ended.c '		*patience_us = 0;' ''
fi
if rule kill-stopped-holder 019_killed:cursor 'begins after all that was granted'; then
	take src/shmem/pool.c 'last_tick = (int64) pg_atomic_read_u64(&slot->granted_end) - 1' 'last_tick = slot->cursor.last_tick'
fi
if rule strangers-ended restarts 'only the incarnation of this life'; then
	take src/authority/round.c 'if (!strangers_ended)' 'if (false)'
fi

# --- S6: a tick, and what fits into it

if rule sequence-end boundaries:ticks 'without a gap or a repetition'; then
	take src/core/cursor.h 'if (sequence < sequence_count)' 'if (sequence <= sequence_count)'
	take src/core/cursor.h 'demand->count : sequence_count - sequence;' 'demand->count : sequence_count - sequence + 1;'
fi
if rule sequence-of-a-tick boundaries:ticks 'without a gap or a repetition'; then
	take src/core/cursor.h 'return cursor->next_sequence;' 'return 0;'
fi
# S7
if rule zero-tuple 024_first_and_last 'the first ID of all is 1'; then
	take src/core/cursor.h 'return tick == 0 && cursor->worker == 0 ? 1 : 0;' 'return 0;'
fi
if rule field-end 024_first_and_last 'no grant ends past the field'; then
	take src/core/grant.c '	limit = min_tick(limit, tick_count);
' ''
fi
if rule batch-within-tick boundaries:ticks 'without a gap or a repetition'; then
	take src/core/cursor.h 'demand->count < sequence_count - sequence ?' 'true ?'
fi

# --- S8, S10: clear errors, bounded waits

if rule how-long restarts 'told for how long'; then
	take src/error.c 'if (error->until_ms != 0 && left_ms > 0)' 'if (false)'
fi
if rule told-without-waiting 023_no_wait 'an unadopted copy'; then
	take src/session/generator.c 'else if (idgen_stats_standing(call->ns->stats, &standing))' 'else if (false)'
fi
if rule batch-checked-first 023_no_wait 'uses nothing up'; then
	take src/session/generator.c '	check_batch(&call, count);
' ''
fi
if rule lock-by-trying pauses:lock 'and in time'; then
	take src/session/generator.c 'if (!LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))' \
		'if (!LWLockAcquire(&slot->lock, LW_EXCLUSIVE) && false)'
fi
if rule read-under-lock 018_in_time 'the session it waits for goes on'; then
	take src/catalog/table_lock.c 'if (locked_for_writing(table))' 'if (false)'
fi
if rule longer-grants 018_in_time 'for ticks more than for grants'; then
	take src/authority/confirm.c 'if (marks == NULL)' 'if (true)'
fi
if rule grants-without-gaps 018_in_time 'for ticks more than for grants'; then
	take src/core/grant.c ' ||
		timing->published_at > timing->dry_at' ''
fi
if rule capacity-before-dry 018_in_time 'every ID there was'; then
	take src/session/generator.c 'if (call->spent_us > call->dry_us + waiting_us)' 'if (false)'
fi
if rule used-up-looked-at 018_in_time 'more is used up'; then
	take src/session/generator.c 'if (call->told_used_up)' 'if (false)'
fi
if rule spent-is-spent 018_in_time 'does not count as one of sequence values'; then
	take src/session/generator.c 'way == IDGEN_WAIT_TICK && pass->spent' 'way == IDGEN_WAIT_TICK'
fi
if rule silence-told 018_in_time 'did not any more'; then
	take src/session/generator.c 'if (waiting_us >= call->dry_us)' 'if (false)'
fi
if rule short-horizon-told 018_in_time 'of which little is left'; then
	take src/session/generator.c 'if (call->served_count > 1 &&' 'if (call->vain_count > 1 &&'
fi
if rule strangers-skipped 018_in_time 'a worker begins while'; then
	take src/catalog/query_text.c '"  FOR UPDATE SKIP LOCKED))", 2,' '")) AND state IS NOT NULL", 2,'
fi
if rule grant-besides-tick 018_in_time 'and waited for'; then
	take src/session/generator.c 'return monotonic_at(retry_ms) > call->until_us ? IDGEN_WAIT_GRANT :
		IDGEN_WAIT_TICK;' 'return IDGEN_WAIT_TICK;'
fi
if rule above-judged 124_clock_steps 'none of the future'; then
	take src/authority/command.c 'clock.latest_ms + ABOVE_MAX_MS' 'clock.wall_ms + ABOVE_MAX_MS'
fi
if rule dropped-limit 124_clock_steps 'issues IDs of now'; then
	take src/shmem/ended.c 'if (all && entry->dropped_ms <= limit_ms)' 'if (all)'
	take src/shmem/ended.c 'return issued_ms <= limit_ms ? issued_ms : 0;' 'return issued_ms;'
fi
if rule marks-freed 121_retention 'under one uuid at most'; then
	take src/authority/retention.c 'idgen_marks_free_gone(is_gone);' ''
fi
if rule cursor-idle-longest 021_shares:cursors 'gets the one that has been idle longest'; then
	take src/shmem/pool.c 'if (chosen == NULL || now_ms - chosen->used_ms >= IDLE_MS)' 'return NULL;
	if (chosen == NULL)'
fi
if rule cursor-shares 021_shares:cursors 'gets its share all the same'; then
	take src/shmem/pool.c '	chosen = longest_idle_of_most(holdings, count, owner->database, false);' '	chosen = NULL;'
fi
if rule cursor-shares-of-owners 021_shares:cursors 'that of another role gets one'; then
	take src/shmem/pool.c 'return longest_idle_of_most(&holdings[begin], mine, owner->owner, true);' 'return mine < 0 ? holdings : NULL;'
fi
if rule taken-incarnations-ended 021_shares:cursors 'of those that were taken are ended'; then
	take src/authority/process.c '			activities[i].generation = 0;
			idgen_round_end_strangers();' '			activities[i].generation = 0;'
fi
if rule strangers-start-nothing 021_shares:processes 'has started no process|a stranger is refused'; then
	take src/session/client.c '	if (!is_holder(incarnation))' '	if (false)'
fi
if rule processes-in-turn 021_shares:processes 'a third gets a process'; then
	take src/shmem/request_queue.c '	idlest->yield_wanted = true;' ''
fi
if rule strangers-not-errors 105_privileges 'but not among the errors'; then
	take src/shmem/counters.c 'error->kind == IDGEN_ERROR_FORBIDDEN ||
		error->kind == IDGEN_ERROR_NOT_OWNER' 'false'
fi
if rule names-as-text 020_readers 'names of another encoding'; then
	take src/shmem/counters.c 'pg_verify_mbstr(GetDatabaseEncoding(), name, (int) strlen(name), true)' 'true'
fi
if rule crowd-told 020_readers 'a crowd is called a crowd'; then
	take src/shmem/shmem.c 'now_us - moved_at_us < within_us / 2' 'false'
fi
if rule cursor-crowd-told 020_readers 'a crowd in it is called a crowd'; then
	take src/session/generator.c 'call->met_lock && issued_by_all(call->ns) != call->issued_then' 'false'
fi
if rule lock-wait-shown 020_readers 'shows a wait event'; then
	take src/shmem/shmem.c '	pgstat_report_wait_start(lock_wait_event);' ''
fi
if rule counting-not-waited-for 020_readers 'not counted so far issues'; then
	take src/shmem/counters.c 'if (idgen_lock_within(&idgen_shared->stats_lock, LW_EXCLUSIVE, GIVE_WITHIN_US))' \
		'if (!idgen_lock_within(&idgen_shared->stats_lock, LW_EXCLUSIVE, INT64_C(1000000)))
		elog(ERROR, "stopped");
	else'
fi
# As long as it took to compare the names of a thousand namespaces with each other.
if rule readers-without-lock 020_readers 'served beside thirty readers|read all the time'; then
	take src/shmem/counters.c '	issued = issued_by_living();
	for (int i = 0; i < idgen_shared->stats_count; i++)
	{
		Datum' '	idgen_lock_directory();
	pg_usleep(30000);
	idgen_unlock_directory();
	issued = issued_by_living();
	for (int i = 0; i < idgen_shared->stats_count; i++)
	{
		Datum'
fi
if rule operations-in-turn 018_in_time 'grants come all the same'; then
	take src/authority/process.c 'if (met_lock)' 'if (false)'
fi
if rule start-pause 007_database_commands 'but few'; then
	take src/shmem/request_queue.c 'return START_RETRY_US << (2 * Min(Max(entry->starts - 1, 0), START_STEPS_MAX));' 'return START_RETRY_US;'
fi
if rule setting-exit-on-error 026_hostile 'a setting that ends processes'; then
	take src/authority/process.c '		{"exit_on_error", "off"},' ''
fi
if rule request-of-terminated 026_hostile 'a session that is terminated'; then
	take src/shmem/request_queue.c 'PG_ENSURE_ERROR_CLEANUP(withdraw, ticket);' 'PG_TRY();'
	take src/shmem/request_queue.c 'PG_END_ENSURE_ERROR_CLEANUP(withdraw, ticket);' 'PG_CATCH();
	{
		withdraw(0, ticket);
		PG_RE_THROW();
	}
	PG_END_TRY();'
fi
if rule wait-without-postmaster 026_hostile 'a postmaster that is killed'; then
	take src/catalog/table_lock.c 'if (IsUnderPostmaster && !PostmasterIsAlive())' 'if (IsUnderPostmaster && false)'
fi
if rule one-change 026_hostile 'a transaction of many changes'; then
	take src/session/at_commit.c 'if (idgen_shared != NULL && !is_pending_change(namespace_name))' 'if (idgen_shared != NULL && (true || !is_pending_change(namespace_name)))'
fi
if rule alerts-limited 026_hostile 'many namespaces with something to tell'; then
	take src/authority/alert.c 'return count++ < ALERTS_MAX;' 'return count++ >= 0;'
fi
if rule ended-shares 026_hostile 'a database with very many namespaces'; then
	take src/shmem/ended.c 'if (mine >= past)' 'if (past == 0 && mine >= 0)'
fi
if rule row-type 026_hostile 'a row type that was altered'; then
	take src/sql/external.c 'if (!intact)' 'if (!intact && false)'
fi
if rule operations-by-turns 018_in_time 'a command that waits for no row'; then
	take src/authority/process.c 'round->requests[(first + i) % round->request_count]' 'round->requests[i]'
fi
if rule rows-not-waited-for pauses:row 'and no other'; then
	take src/authority/process.c '#define LOCK_TIMEOUT		"100ms"' '#define LOCK_TIMEOUT		"0"'
	# shellcheck disable=SC2016
	take src/catalog/query_text.c '"SELECT ctid FROM ONLY {worker} WHERE ctid = ANY ($1)"
		" FOR UPDATE SKIP LOCKED"' '"SELECT ctid FROM ONLY {worker} WHERE ctid = ANY ($1)"
		" FOR UPDATE"'
fi

# --- S11: the order of a session

# Every cursor is busy for one call in 16, so that sessions begin their ticks at different ones.
if rule spill-upward boundaries:ticks 'rising in each session'; then
	take src/session/generator.c '	if (!LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))
		return IDGEN_TRY_LOCKED;' '	static int	tries = 0;

	if (tries++ % (16 * CONTENTION_SPINS) < CONTENTION_SPINS ||
		!LWLockConditionalAcquire(&slot->lock, LW_EXCLUSIVE))
		return IDGEN_TRY_LOCKED;'
	take src/session/generator.c 'demand.min_tick = ref->generation == ns->last_generation ? 0 :' 'demand.min_tick = true ? 0 :'
fi

# --- S9, DESIGN 8: whose authority, whose incarnation

if rule identity-verified 130_promotion 'split:'; then
	take src/authority/round.c 'if (!job->marks->verified)' 'if (false)'
fi
if rule timeline response_loss:failover 'the incarnation has ended'; then
	take src/core/identity.c 'if (recorded->timeline != found->timeline)' 'if (false)'
fi
if rule promotion-fence response_loss:failover 'overlap'; then
	take src/authority/fence.c '		case IDGEN_PROMOTION_WAIT:
			return fence_and_take_over(ns);' '		case IDGEN_PROMOTION_WAIT:
			idgen_incarnation_rows_end_all(ns->name);
			idgen_fence_take_over(ns);
			return IDGEN_OWNERSHIP_CHANGED;'
fi
if rule split-half 130_promotion 'another part'; then
	take src/authority/fence.c 'row.split_remainder = idgen_split_class(here.timeline, ns->row.split_parts);' 'row.split_remainder = ns->authority.split_remainder;'
fi
if rule history-complete 133_timelines 'history: a fence'; then
	take src/core/takeover.c 'is_known = facts->history_complete && !facts->has_target &&' 'is_known = !facts->has_target &&'
fi
if rule history-damage 133_timelines 'rubbish history: a fence'; then
	take src/core/history.c 'return !history->is_damaged && history->ends_in_entry &&' 'return'
fi
if rule history-files-tell 133_timelines 'rare goes on at once'; then
	take src/catalog/identity.c '	if (stat(path, &file) != 0)
		return;
	facts' '	if (stat(path, &file) != 0 || true)
		return;
	facts'
fi
if rule template-after-server 133_timelines 'a copied directory is refused'; then
	take src/core/identity.c '	if (recorded->system_identifier != found->system_identifier)
		return IDGEN_IDENTITY_OTHER_SYSTEM;' '	if (recorded->system_identifier != found->system_identifier)
		return IDGEN_IDENTITY_OTHER_SYSTEM;
	if (recorded->database != found->database)
		return IDGEN_IDENTITY_OTHER_DATABASE;'
fi
if rule template-above 133_timelines 'above all that it holds'; then
	take src/authority/fence.c '	idgen_namespace_rows_raise_floor(ns->name, idgen_namespace_rows_highest_mark(ns->name));
	idgen_incarnation_rows_end_all' '	idgen_incarnation_rows_end_all'
fi
if rule template-ends-all 133_timelines 'under no incarnation of its original'; then
	take src/authority/fence.c 'idgen_namespace_rows_highest_mark(ns->name));
	idgen_incarnation_rows_end_all(ns->name);' 'idgen_namespace_rows_highest_mark(ns->name));'
fi
if rule drop-for-standbys 131_quorum 'DROP EXTENSION waits for a standby'; then
	take src/session/at_commit.c '		wait_for_standbys(entry);' ''
fi
if rule in-place 133_timelines 'an incarnation of fence goes on'; then
	take src/authority/fence.c 'moved = idgen_identity_is_in_place(&recorded, &here, &facts);' ''
fi
if rule rewound-as-it-is 133_timelines 'rewound and started as it is: .* is fenced'; then
	take src/core/takeover.c 'facts->restored_ms == 0 ||' 'true ||'
fi
# Either of two conditions tells it.
if rule rewound timelines:zombie 'not the same server for fence_rare'; then
	take src/core/takeover.c 'found->timeline - recorded->timeline == 1 &&' 'true &&'
	take src/core/takeover.c 'facts->restored_ms == 0 ||' 'true ||'
fi
if rule evidence-since timelines:siblings 'two, timeline 3 of 1, .*by the rule'; then
	take src/core/takeover.c 'if ((int64_t) timeline > (int64_t) facts->present' 'if ((int64_t) timeline >= (int64_t) facts->present'
fi
if rule trust-history timelines:trusting 'it is fenced|without a history'; then
	take src/core/takeover.c 'return is_known ? IDGEN_PROMOTION_AT_ONCE : IDGEN_PROMOTION_WAIT;' 'return IDGEN_PROMOTION_AT_ONCE;'
fi
if rule target-between timelines:restores 'not used since, is fenced'; then
	take src/core/history.c 'timeline >= history->recorded && has_target' 'timeline == history->present - 1 && has_target'
fi
if rule recreated 133_timelines 'under its old number is fenced'; then
	take src/core/takeover.c '		!facts->is_recreated;' '		true;'
fi
if rule parts-filled 133_timelines 'a part is empty is refused'; then
	take src/core/worker.c 'return worker_count >= parts;' 'return true;'
fi
if rule promotion-ends-all response_loss:failover 'the incarnation has ended'; then
	take src/authority/fence.c '			idgen_incarnation_rows_end_all(ns->name);
			idgen_fence_take_over(ns);' '			idgen_fence_take_over(ns);'
fi
if rule fence-ends-all response_loss:failover 'the incarnation has ended'; then
	take src/authority/fence.c '	idgen_incarnation_rows_end_all(ns->name);
	idgen_namespace_rows_reset_sums(ns->name);' '	idgen_namespace_rows_reset_sums(ns->name);'
fi
if rule asked-again 130_promotion 'very first request'; then
	take src/authority/process.c 'if (idgen_round_grants_to(taken) && job->changed)' 'if (false)'
fi
if rule fence-last-clock 114_fence_facts 'past the clock of the last grant'; then
	take src/authority/fence.c 'Max(idgen_namespace_rows_last_clock(ns->name),
						  last_replayed_tick(layout))' 'last_replayed_tick(layout)'
fi
if rule fence-replayed 114_fence_facts 'past the newest commit'; then
	take src/authority/fence.c 'Max(idgen_namespace_rows_last_clock(ns->name),
						  last_replayed_tick(layout))' 'idgen_namespace_rows_last_clock(ns->name)'
fi
if rule fence-highest-mark 114_fence_facts 'past the highest mark'; then
	take src/authority/fence.c '.highest_mark = idgen_namespace_rows_highest_mark(ns->name),' '.highest_mark = 0,'
fi
if rule fence-above 114_fence_facts 'past an ID that somebody has seen'; then
	take src/authority/command.c 'idgen_fence_raise(ns, tick_above(ns, mail->above));
	(void)' 'idgen_fence_raise(ns, 0);
	(void)'
fi
if rule fence-distance 107_fence 'not before the fence was over'; then
	take src/core/takeover.c 'distance = facts->horizon + facts->clock_error' 'distance = 1'
fi
if rule fence-kills-cursors 107_fence 'issues nothing yet'; then
	take src/authority/command.c 'if (aftermath->kill_namespace)' 'if (false)'
fi
if rule floor 107_fence 'issues nothing yet'; then
	take src/authority/round.c 'Max(high_water, job->marks->floor)' 'high_water'
fi
if rule repeated-request response_loss:connections 'answered with before'; then
	take src/core/grant.c 'return IDGEN_CHAIN_REPEATED;' 'return IDGEN_CHAIN_NEXT;'
fi
if rule repeated-length 101_retry 'with another length'; then
	take src/authority/round.c 'if (mail->length_ms != last.asked_ms)' 'if (false)'
fi
if rule lapsed-last 101_retry 'no worker of an incarnation that lapsed'; then
	take src/catalog/marks.c 'if (marks->marks[i].high_water > now ||
			(marks->marks[i].external && marks->marks[i].active))' 'if (marks->marks[i].high_water > now)'
fi
if rule numbers-for-json 101_retry 'below 2\^53'; then
	take src/random.c '(UINT64CONST(1) << NUMBER_BITS) - 1' 'PG_INT64_MAX'
fi
if rule stale-request response_loss:connections 'ends nothing'; then
	take src/authority/round.c 'facts.is_recorded = facts.holds_worker &&' 'facts.is_recorded = false && facts.holds_worker &&'
fi
if rule one-holder 101_retry 'second holder'; then
	take src/authority/round.c 'facts.after_grant = mail->after_grant;' 'facts.after_grant = last.grant_id;'
fi
if rule token 101_retry 'a wrong token'; then
	take src/authority/round.c 'return difference == 0 &&' 'return'
fi

# What is secret
if rule token-not-logged 111_tokens 'without the token: an error'; then
	take src/module.c '	idgen_log_install();
' ''
fi
if rule statement-hidden 111_tokens 'an error in a function that another one calls'; then
	take src/sql/external.c 'errhidestmt(true);' ''
fi

# Copies and promotions, by the drills on them.
if rule identity-compared copies 'is refused'; then
	take src/authority/fence.c '	{
		idgen_identity_read(&here);
		verdict = idgen_identity_compare(&recorded, &here);
	}' '	{
		idgen_identity_read(&here);
		verdict = IDGEN_IDENTITY_SAME;
	}'
fi
if rule split-parity promotion 'to the even ones'; then
	take src/core/worker.c 'return (int) (timeline % (uint32_t) parts);' 'return (int) (timeline * 0 + 1) % parts;'
fi
# The floor that a grandchild begins with stands behind it.
if rule parent-is-old 130_promotion 'right after a promotion waits'; then
	take src/core/takeover.c 'return *begun_ms != IDGEN_BEGUN_NEVER;' 'return true;'
fi
if rule grandparent-floor 130_promotion 'a floor past what the grandparent'; then
	take src/authority/fence.c 'if (begun_ms != IDGEN_BEGUN_NEVER)' 'if (false)'
fi
if rule history-target copies 'point in time, recovery_target_name: split is fenced'; then
	take src/core/takeover.c 'facts->history_complete && !facts->has_target &&
		!facts' 'facts->history_complete &&
		!facts'
fi
if rule adoption-above copies 'above'; then
	take src/authority/command.c 'idgen_fence_raise(ns, tick_above(ns, mail->above));
	idgen_fence_take_over(ns);' 'idgen_fence_raise(ns, 0);
	idgen_fence_take_over(ns);'
fi
if rule copied-refused copies 'is refused'; then
	take src/core/takeover.c 'return fence_copies ?' 'return true ?'
fi
if rule same-oid-fenced copies 'OID'; then
	take src/core/takeover.c '/* no twin can live, but the tables may be those of a template */
			return IDGEN_TAKEOVER_FENCED;' 'return IDGEN_TAKEOVER_NONE;'
fi
if rule half-of-externals promotion 'external generators issue'; then
	take src/catalog/marks.c 'mark->high_water > now &&
		idgen_worker_in_range(range, mark->worker);' 'mark->high_water > now;'
fi

# --- DESIGN 8: the clock

if rule clock-ahead 125_clock_verdicts 'forward: a call is refused'; then
	take src/authority/round.c 'if (round->clock.verdict == IDGEN_CLOCK_AHEAD)' 'if (false)'
fi
if rule clock-ahead-fence 125_clock_verdicts 'nor is a fence set'; then
	take src/authority/command.c 'if (clock.verdict == IDGEN_CLOCK_AHEAD)' 'if (false)'
	take src/authority/fence.c 'if (clock.verdict == IDGEN_CLOCK_AHEAD)' 'if (false)'
fi
if rule clock-behind 125_clock_verdicts 'and for external generators'; then
	take src/authority/round.c 'job->not_before = idgen_layout_tick_at(&ns->row.layout, round->clock.latest_ms);' \
		'job->not_before = job->now;'
fi
if rule clock-remembered 125_clock_verdicts 'while the server was down: refused'; then
	take src/authority/round.c '	idgen_clock_judge_save();
' ''
fi
if rule clock-file-intact 125_clock_verdicts 'damaged.: what the clock shows is no step'; then
	take src/shmem/clock_judge.c '		saved.crc != checksum(&saved))' '		false)'
fi
if rule clock-of-this-boot 125_clock_verdicts 'another boot.: what the clock shows is no step'; then
	take src/shmem/clock_judge.c 'memcmp(&saved, &here, offsetof(ClockFile, record)) != 0 ||' ''
	take src/shmem/clock_judge.c '		saved.crc != checksum(&saved))' '		false)'
fi
if rule clock-synchronised 125_clock_verdicts 'while the kernel does not say'; then
	take src/shmem/clock_judge.c 'policy.synchronised = kernel.known && kernel.synchronised;' 'policy.synchronised = true;'
fi
if rule clock-accepted-back 125_clock_verdicts 'a new session is served at once'; then
	take src/shmem/clock_judge.c '	clock->version++;
	after = clock->record;
	idgen_unlock_directory();
	if (finding.accepted_back)
		idgen_pool_kill_everywhere();' '	clock->version++;
	after = clock->record;
	idgen_unlock_directory();'
fi

# --- S4 with durability "quorum"

if rule quorum-grants 131_quorum 'IDs end with the confirmed grants'; then
	take src/authority/confirm.c '	if (!ns->quorum)
	{
		publish_grant(' '	if (true)
	{
		publish_grant('
fi
if rule quorum-answers 131_quorum 'a grant that is not confirmed is no answer'; then
	take src/authority/confirm.c '	if (!ns->quorum)
	{
		idgen_queue_answer(' '	if (true)
	{
		idgen_queue_answer('
fi
if rule quorum-physical 131_quorum 'a logical receiver does not count'; then
	take src/authority/quorum.c 'OidIsValid(status->st_databaseid))' 'false)'
fi
if rule quorum-named 131_quorum 'a standby that is not named'; then
	take src/authority/quorum.c 'return place_in_setting(status->st_appname);' 'return 1;'
fi
if rule quorum-needed 131_quorum 'nothing was granted'; then
	take src/authority/round.c 'if (ns->quorum && !quorum_available(job))' 'if (false)'
fi
if rule quorum-left 131_quorum 'cannot be given up while nothing is confirmed'; then
	take src/sql/policy.c 'if (!idgen_quorum_wait(' 'if (false && !idgen_quorum_wait('
fi
if rule quorum-left-named 132_policy 'with no standby named'; then
	take src/sql/policy.c 'if (!idgen_quorum_named())' 'if (!idgen_quorum_named())
		return;
	if (false)'
fi
if rule policy-held 132_policy 'by a policy that is being changed'; then
	take src/catalog/policy_lock.c 'if (LockAcquire(&tag, ShareLock, true, true) == LOCKACQUIRE_NOT_AVAIL)' 'if (false)'
fi
if rule policy-change-waits 132_policy 'the policy is not changed under it'; then
	take src/sql/policy.c '		idgen_policy_begin_change(ns->name, until_us);' '		;'
fi
if rule policy-answered-each 132_policy 'the answer was given before that'; then
	take src/authority/round.c '		answer(round, &round->jobs[i]);
	}' '	}
	for (int i = 0; i < round->job_count; i++)
		answer(round, &round->jobs[i]);'
fi
if rule policy-committed 131_quorum 'nor given up in one'; then
	take src/sql/policy.c 'if (changed_here)' 'if (false)'
fi
if rule policy-flushed 131_quorum 'a change is flushed'; then
	take src/sql/policy.c '	ForceSyncCommit();' ''
fi
if rule others-reservations 131_quorum 'and is the only one'; then
	take src/authority/round.c 'generation_before = idgen_pool_last_generation();' 'generation_before = 0;'
fi
if rule published-again 131_quorum 'without a hole'; then
	take src/authority/round.c 'if (publish_again(job, survey, mark))' 'if (false)'
fi

# --- which ID space a namespace is

if rule lineage-of-copy 128_lineage 'as an ID space of its own'; then
	take src/authority/fence.c '	idgen_namespace_rows_write_lineage(ns->name, &lineage);' ''
fi
if rule lineage-restored 128_lineage 'both are the ones of the dump'; then
	take src/catalog/restore.c '	if (!idgen_same_uuid(&ours.lineage, &row->lineage))
		merge_lineage(row);' ''
fi
# Also where the marks come first, and were not granted here.
if rule lineage-by-grants 128_lineage 'one that has not is the restored one'; then
	take src/catalog/query_text.c '"SELECT EXISTS (SELECT FROM ONLY {grant} WHERE namespace = $1)", 1, {TEXTOID}' '"SELECT EXISTS (SELECT FROM ONLY {worker} WHERE namespace = $1)", 1, {TEXTOID}'
fi
if rule lineage-of-issued 128_lineage 'a namespace that has issued stays what it is'; then
	take src/catalog/restore.c '	if (!DatumGetBool(idgen_query_value(0, 1, &isnull)))
		idgen_namespace_rows_write_lineage' '	(void) isnull;
		idgen_namespace_rows_write_lineage'
fi

# --- what is watched

if rule pause-in-wait 127_over_time 'and has counted its pause'; then
	take src/shmem/request_queue.c '		*late_us = Max(*late_us, idgen_clock_monotonic_us() - wake_us);' ''
fi
if rule share-is-told 122_alerts 'which is in the log, though half'; then
	take src/authority/alert.c '	check_shares(ns, marks, now, range, stats);' '	(void) check_shares;'
fi

# --- nothing that another role has planted is called

if rule planted-overloads 109_planted 'the extension is made beside all of that'; then
	take sql/idgen--1.0.sql "idgen_create_namespace('default'::pg_catalog.text, 41, 10, 12," "idgen_create_namespace('default'); --"
	take sql/idgen--1.0.sql "    '2025-01-01 00:00:00+00'::pg_catalog.timestamptz, 1, '1 s'::pg_catalog.interval,
    '10 s'::pg_catalog.interval, 0, NULL::integer, 'local'::pg_catalog.text, NULL::pg_catalog.text,
    '0'::pg_catalog.interval, false, true);" ''
fi
if rule planted-operators 109_planted 'no view and no function body'; then
	take sql/idgen--1.0.sql '(g.start_tick::pg_catalog.numeric OPERATOR(pg_catalog.*) n.tick_ms)' '(g.start_tick::pg_catalog.numeric * n.tick_ms)'
fi
if rule planted-path 109_planted 'nothing that was planted ran'; then
	take sql/idgen--1.0.sql 'SET LOCAL search_path TO pg_catalog, pg_temp;' ''
	take sql/idgen--1.0.sql '(g.start_tick::pg_catalog.numeric OPERATOR(pg_catalog.*) n.tick_ms)' '(g.start_tick::pg_catalog.numeric * n.tick_ms)'
fi

# No safety rule, and so not in the list: what the stage "instructions" watches.
if [ "$wanted" = fast-path ]; then
	found=1
	take src/session/generator.c 'if (unlikely(ns->ref_count == 0))' 'if (true)'
fi

[ "$wanted" = --list ] || [ -n "$found" ] || die "no safety rule named $wanted, see test/break.sh"
