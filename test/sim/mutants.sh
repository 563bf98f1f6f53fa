#!/bin/bash
#
# mutants.sh
#		Break one safety rule after the other and see that the simulation notices.
#
# "glue NAME" breaks what the simulator does in the server's place (MUTANT=NAME);
# "core FILE EXPRESSION" is a sed expression on a copy of src/core.  Every mutant
# runs the same seeds, SEED and up; the table says how many it took.  SAMPLE=n
# takes each n-th mutant only, ONLY=text those with a text in their description.

set -u
cd "$(dirname "$0")" || exit 1

core=${CORE:-../../src/core}
build=${BUILD:-build}
seeds_max=${N:-1000}
only=${ONLY:-}
limit_s=${LIMIT:-300}
sample=${SAMPLE:-1}
export SEED=${SEED:-1}
jobs_max=${JOBS:-$(nproc 2>/dev/null || echo 2)}

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
count=0
number=0

# attempt DIRECTORY glue NAME | core FILE EXPRESSION; a run that does not end is
# noticed, too.
attempt()
{
	local dir=$1 program=$build/sim status
	mkdir "$dir"
	if [ "$2" = core ]; then
		cp -a "$core" "$dir/core"
		sed -i -e "$4" "$dir/core/$3"
		if cmp -s "$dir/core/$3" "$core/$3"; then
			echo 'the expression changes nothing' >"$dir/invalid"
			return
		fi
		if ! ${CC:-cc} -std=c11 -O1 -I"$dir/core" -I. -o "$dir/sim" \
			./*.c "$dir"/core/*.c 2>"$dir/invalid"; then
			return
		fi
		rm -f "$dir/invalid"
		program=$dir/sim
	fi
	status=0
	MUTANT=$([ "$2" = glue ] && echo "$3") timeout "$limit_s" "$program" "$seeds_max" \
		>"$dir/out" 2>&1 || status=$?
	[ "$status" -ne 124 ] || echo 'not ok - seed ?, number ?: does not end' >"$dir/out"
	rm -rf "$dir/core" "$dir/sim"
}

# mutant RULE HOW glue NAME | core FILE EXPRESSION
mutant()
{
	number=$((number + 1))
	[ $((number % sample)) -eq 0 ] || return
	case $2 in *"$only"*) ;; *) return ;; esac
	count=$((count + 1))
	rules[count]=$1
	hows[count]=$2
	shift 2
	while [ "$(jobs -pr | wc -l)" -ge "$jobs_max" ]; do
		wait -n
	done
	attempt "$scratch/$count" "$@" &
}

report()
{
	local survivors=0 i dir line
	echo "1..$count"
	for i in $(seq $count); do
		dir=$scratch/$i
		line=$(grep -m 1 '^not ok' "$dir/out" 2>/dev/null)
		if [ -e "$dir/invalid" ]; then
			echo "not ok $i - ${rules[i]}: ${hows[i]}: invalid"
			sed 's/^/# /' "$dir/invalid"
		elif [ -z "$line" ]; then
			echo "not ok $i - ${rules[i]}: ${hows[i]}: survived $seeds_max seeds"
		else
			line=${line#*number }
			printf 'ok %d - %-3s | %-55s | %4s seeds | %s\n' "$i" "${rules[i]}" "${hows[i]}" "${line%%:*}" "${line#*: }"
			continue
		fi
		survivors=$((survivors + 1))
	done
	[ $survivors -eq 0 ]
}

mutant S1 'a grant is used before its commit' glue publish_before_commit
mutant S1 'the end of a grant is inclusive' core cursor.h \
	's/tick >= cursor->grants\[i\]\.end/tick > cursor->grants[i].end/'
mutant S1 'a grant is used before its start' core cursor.h \
	's/^\t\t\ttick = cursor->grants\[i\]\.start;/\t\t\t(void) cursor->grants;/'
mutant S2 'a grant does not begin at the mark' core grant.c \
	's/start = max_tick(max_tick(facts->high_water, facts->eligible), facts->now)/start = max_tick(facts->eligible, facts->now)/'
mutant S2 'the floor is no mark' glue ignore_floor
mutant S2 'a mark is written that was changed meanwhile' glue stale_mark
mutant S2 'workers held are chosen' core worker.c \
	's/^\t\tif ((busy\[i\] - first) \/ range->modulus > rank)/\t\tif (rank >= 0)/'
mutant S3 'lowered marks are not noticed' glue accept_lowered_mark
mutant S3 'restored marks overwrite' glue restore_overwrites
mutant S4 'what standbys lack is handed out' glue answer_unconfirmed
mutant S4 'a repeated answer does not wait' glue repeat_unconfirmed
mutant S4 'a logical receiver counts' glue count_logical
mutant S4 'one standby less is enough' core quorum.c \
	's/for (int32_t i = 0; i < needed; i++)/for (int32_t i = 0; i < needed - 1; i++)/'
mutant S5 'a grant goes to whoever has the slot' glue publish_any_generation
mutant S5 'an ID is issued by whoever had the slot' glue issue_any_generation
mutant S5 'a cursor is not born empty' glue keep_cursor
mutant S6 'a spent tick is issued from' core cursor.h \
	's/if (sequence < sequence_count)/if (sequence <= sequence_count)/'
mutant S6 'a batch runs past the sequence' core cursor.h \
	's/demand->count < sequence_count - sequence ?/demand->count < sequence_count ?/'
mutant S6 'the clock may go back behind the last tick' core cursor.h \
	's/^\t\ttick = cursor->last_tick;/\t\t(void) cursor->last_tick;/'
mutant S6 'a refusal moves the cursor' core cursor.h \
	's/^\t\trun->retry_at = .*/&\n\t\tcursor->last_tick = tick; cursor->next_sequence = -1;/'
mutant S7 '(0,0,0) is issued' core cursor.h \
	's/return tick == 0 && cursor->worker == 0 ? 1 : 0;/return 0;/'
mutant S7 'a grant ends past the field' glue field_unchecked
mutant S8 'a clock far ahead is believed' glue grant_when_ahead
mutant S8 'no step is too great' core clock.c \
	's/= step > policy->max_step_us + tolerance_of(reading);/= step == INT64_MAX;/'
mutant S9 'a copy takes itself over' glue adopt_by_itself
mutant S9 'the identity is not compared' glue skip_verify
mutant S9 'incarnations outlive a promotion' glue keep_incarnations
mutant S9 'a fence forgets the horizon' core takeover.c \
	's/distance = facts->horizon + facts->clock_error;/distance = facts->clock_error;/'
mutant S9 'a fence forgets the error of clocks' core takeover.c \
	's/distance = facts->horizon + facts->clock_error;/distance = facts->horizon;/'
mutant S9 'all timelines have one part of the workers' core worker.c \
	's/return (int) (timeline % (uint32_t) parts);/return (int) (timeline * 0 + parts * 0);/'
mutant S9 'the part goes by the ancestors that are known' glue count_ancestors
mutant S9 'a part is free without evidence' core takeover.c \
	's/return \*begun_ms != IDGEN_BEGUN_NEVER;/return true;/'
mutant S9 'a timeline of the same part is evidence' core takeover.c \
	's/(int64_t) timeline > (int64_t) facts->present - facts->parts/(int64_t) timeline >= (int64_t) facts->present - facts->parts/'
mutant S9 'evidence is as old as the horizon' glue horizon_alone
mutant S9 'the first timelines are one too many' core takeover.c \
	's/(int64_t) facts->present <= facts->parts)/(int64_t) facts->present <= facts->parts + 1)/'
mutant S9 'a recovery to a point in time is trusted' core takeover.c \
	's/facts->history_complete && !facts->has_target &&$/facts->history_complete \&\&/'
mutant S9 'a history that is cut is trusted' core takeover.c \
	's/facts->history_complete && !facts->has_target &&$/!facts->has_target \&\&/'
mutant S9 'a control file without its birth is the same' core takeover.c \
	's/recorded->control_birth == found->control_birth &&/true \&\&/'
mutant S9 'any later timeline is the same server' core takeover.c \
	's/found->timeline - recorded->timeline == 1 &&/true \&\&/'
mutant S9 'the database is compared first' glue database_first
mutant S3 'a promise ends with its incarnation' glue promise_of_active
mutant S3 'a promise ends when a cursor takes the worker' glue promise_of_last
mutant S3 'a promise is as old as the retention' glue promise_of_retained
mutant S3 'a promise is read in an old snapshot' glue promise_of_snapshot
mutant S3 'what was dropped is forgotten' glue forget_dropped
mutant S3 'a crash forgets what was dropped' glue forget_at_crash
mutant S4 'the policy is read before the lock' glue stale_policy
mutant S4 'nobody is asked when quorum is left' glue leave_unasked
mutant S5 'killing at commit waits for a lock, and gives up' glue kill_waits
mutant S9 'two holders are not noticed' core grant.c \
	's/IDGEN_CHAIN_NEXT : IDGEN_CHAIN_FORKED;/IDGEN_CHAIN_NEXT : IDGEN_CHAIN_REPEATED;/'
mutant S10 'a call waits for a lock without end' glue wait_for_lock
mutant S10 'a call waits for a grant without end' glue wait_for_grant
mutant S11 'a session goes to any cursor of a tick' glue no_spill_order
mutant S11 'a session spills downward' core cursor.c \
	's/return worker > last_worker ? last_tick : last_tick + 1;/return last_tick + 0 * (worker + last_worker);/'

wait
report
