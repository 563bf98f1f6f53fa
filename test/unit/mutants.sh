#!/bin/bash
#
# mutants.sh
#		Show that the unit tests can fail: break a copy of src/core in one known
#		way after the other, and expect the tests to notice each.
#
#		mutants.sh [fuzz]
#
# With "fuzz" the corpora of test/fuzz take the place of the tests.
#
# A mutant is a sed expression on one file.  It must change one line of it, and
# still compile: otherwise it would show nothing.  A mutant that survives names
# a rule which no test holds.
#
# CORE names the directory to copy; SEED is fixed, so that the outcome is, too.

set -u
cd "$(dirname "$0")" || exit 1

core=${CORE:-../../src/core}
export SEED=${SEED:-1}
jobs_max=$(nproc 2>/dev/null || echo 2)
case ${1:-unit} in
	unit) suite=. programs='layout_test grant_test worker_test takeover_test history_test cursor_test clock_test quorum_test property_test' ;;
	fuzz)
		suite=../fuzz
		# no sequence of calls leads there: a cursor that has issued holds the grant it issued from
		unreachable='cursor.c: a grant may begin behind the last tick'
		programs='text_replay layout_replay cursor_replay grant_replay verdict_replay'
		;;
	*) echo "usage: $0 [fuzz]" >&2; exit 2 ;;
esac

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

mutant_count=0

build()
{
	make -s -C "$suite" CORE="$1/core" BUILD="$1/build" all >"$1/build.log" 2>&1
}

# Run all programs; leave one "program: test" per failure in a file.  A mutant
# may also loop, or be stopped by a sanitizer: both count.
run()
{
	local status arguments

	: >"$1/caught"
	for program in $programs; do
		arguments=()
		[ "$suite" = . ] || arguments=("$program" "$suite/corpus/${program%_replay}"/*)
		timeout 30 "$1/build/$program" ${arguments[@]+"${arguments[@]}"} >"$1/$program.tap" 2>&1
		status=$?
		[ $status -eq 0 ] && continue
		if grep -q '^not ok' "$1/$program.tap"; then
			sed -n "s/^not ok [0-9]* - /$program: /p" "$1/$program.tap"
		elif [ $status -eq 124 ]; then
			echo "$program: does not end"
		else
			echo "$program: stopped: $(grep -m 1 -oE \
				'runtime error: .*|AddressSanitizer: [a-z-]+' "$1/$program.tap")"
		fi >>"$1/caught"
	done
}

attempt()
{
	local dir=$1 file=$2 expression=$3

	cp -a "$scratch/base" "$dir"
	sed -i -e "$expression" "$dir/core/$file"
	if cmp -s "$dir/core/$file" "$scratch/base/core/$file"; then
		echo 'the expression changes nothing' >"$dir/invalid"
	elif [ "$(diff "$dir/core/$file" "$scratch/base/core/$file" |
		grep -c '^>')" -gt 1 ]; then
		echo 'the expression changes more than one line' >"$dir/invalid"
	elif ! build "$dir"; then
		{ echo 'it does not compile'; cat "$dir/build.log"; } >"$dir/invalid"
	else
		run "$dir"
	fi
	rm -rf "$dir/build"
}

# mutant NAME FILE EXPRESSION
mutant()
{
	mutant_count=$((mutant_count + 1))
	names[mutant_count]="$2: $1"
	while [ "$(jobs -pr | wc -l)" -ge "$jobs_max" ]; do
		wait -n
	done
	attempt "$scratch/$mutant_count" "$2" "$3" &
}

report()
{
	local survivors=0 number dir

	echo "1..$mutant_count"
	for number in $(seq $mutant_count); do
		dir=$scratch/$number
		if [ -s "$dir/invalid" ]; then
			echo "not ok $number - ${names[number]}: invalid"
			sed 's/^/# /' "$dir/invalid"
		elif [ ! -s "$dir/caught" ] && [ "${names[number]}" = "${unreachable:-}" ]; then
			echo "ok $number - ${names[number]} # SKIP no call leads there"
			continue
		elif [ ! -s "$dir/caught" ]; then
			echo "not ok $number - ${names[number]}: survived"
		else
			echo "ok $number - ${names[number]}"
			sed 's/^/#   caught by /' "$dir/caught"
			continue
		fi
		survivors=$((survivors + 1))
	done
	[ $survivors -eq 0 ]
}

mkdir "$scratch/base" && cp -a "$core" "$scratch/base/core" || exit 1
build "$scratch/base" || { cat "$scratch/base/build.log"; exit 1; }
run "$scratch/base"
if [ -s "$scratch/base/caught" ]; then
	echo 'Bail out! the tests fail without any mutant'
	cat "$scratch/base/caught"
	exit 1
fi

# ---- cursor: issue ----

mutant 'the end of a grant is inclusive' cursor.h \
	's/tick >= cursor->grants\[i\]\.end/tick > cursor->grants[i].end/'
mutant 'a grant is used before its start' cursor.h \
	's/^\t\t\ttick = cursor->grants\[i\]\.start;/\t\t\t(void) cursor->grants;/'
mutant 'the tuple (0,0,0) is issued' cursor.h \
	's/return tick == 0 && cursor->worker == 0 ? 1 : 0;/return 0;/'
mutant 'every worker skips the first value of tick 0' cursor.h \
	's/tick == 0 && cursor->worker == 0/tick == 0/'
mutant 'the clock may go back behind the last tick' cursor.h \
	's/^\t\ttick = cursor->last_tick;/\t\t(void) cursor->last_tick;/'
mutant 'min_tick is ignored' cursor.h \
	's/^\t\ttick = demand->min_tick;/\t\t(void) demand->min_tick;/'
mutant 'run_ahead is ignored' cursor.h \
	's/if (tick - demand->now > demand->run_ahead)/if (tick > demand->now)/'
mutant 'run_ahead is one tick too long' cursor.h \
	's/if (tick - demand->now > demand->run_ahead)/if (tick - demand->now > demand->run_ahead + 1)/'
mutant 'run_ahead is one tick too short' cursor.h \
	's/if (tick - demand->now > demand->run_ahead)/if (tick - demand->now > 0 \&\& tick - demand->now >= demand->run_ahead)/'
mutant 'retry_at forgets run_ahead' cursor.h \
	's/retry_at = tick - demand->run_ahead/retry_at = tick/'
mutant 'retry_at is one tick early' cursor.h \
	's/retry_at = tick - demand->run_ahead/retry_at = tick - demand->run_ahead - 1/'
mutant 'retry_at is one tick late' cursor.h \
	's/retry_at = tick - demand->run_ahead/retry_at = tick - demand->run_ahead + 1/'
mutant 'a spent tick is called a clock behind' cursor.h \
	's/cursor->last_tick - demand->now > demand->run_ahead/cursor->last_tick - demand->now >= demand->run_ahead/'
mutant 'a cursor that never issued has a clock behind it' cursor.h \
	's/if (cursor->last_tick >= 0 &&/if (/'
mutant 'tick 0 issued is forgotten when the clock goes back' cursor.h \
	's/if (cursor->last_tick >= 0 &&/if (cursor->last_tick > 0 \&\&/'
mutant 'a clock behind is called something else' cursor.h \
	's/return IDGEN_CURSOR_CLOCK_BEHIND;/return IDGEN_CURSOR_SEQUENCE_SPENT;/'
mutant 'a clock behind forgets run_ahead' cursor.h \
	's/cursor->last_tick - demand->now > demand->run_ahead/cursor->last_tick > demand->now/'
mutant 'a gap is called a spent sequence' cursor.h \
	's/return IDGEN_CURSOR_NOT_YET_VALID;/return IDGEN_CURSOR_SEQUENCE_SPENT;/'
mutant 'a spent sequence is called a gap' cursor.h \
	's/return IDGEN_CURSOR_SEQUENCE_SPENT;/return IDGEN_CURSOR_NOT_YET_VALID;/'
mutant 'a grant that begins within run_ahead is not yet valid' cursor.h \
	's/cursor->grants\[i\]\.start - demand->now > demand->run_ahead/cursor->grants[i].start > demand->now/'
mutant 'a grant that begins at run_ahead is not yet valid' cursor.h \
	's/cursor->grants\[i\]\.start - demand->now > demand->run_ahead/cursor->grants[i].start - demand->now >= demand->run_ahead/'
mutant 'a grant that begins one tick past run_ahead is valid' cursor.h \
	's/cursor->grants\[i\]\.start - demand->now > demand->run_ahead/cursor->grants[i].start - demand->now > demand->run_ahead + 1/'
mutant 'a grant is not yet valid by its tick' cursor.h \
	's/cursor->grants\[i\]\.start - demand->now > demand->run_ahead/tick - demand->now > demand->run_ahead/'
mutant 'a grant is not yet valid by the first one held' cursor.h \
	's/cursor->grants\[i\]\.start - demand->now > demand->run_ahead/cursor->grants[0].start - demand->now > demand->run_ahead/'
mutant 'a spent tick is issued from' cursor.h \
	's/if (sequence < sequence_count)/if (sequence <= sequence_count)/'
mutant 'the last value of a tick is never used' cursor.h \
	's/if (sequence < sequence_count)/if (sequence < sequence_count - 1)/'
mutant 'a batch runs past the sequence' cursor.h \
	's/demand->count < sequence_count - sequence ?/demand->count < sequence_count ?/'
mutant 'a batch is recorded as one' cursor.h \
	's/next_sequence = sequence + run->count/next_sequence = sequence + 1/'
mutant 'a new tick starts at the old sequence' cursor.h \
	's/if (tick == cursor->last_tick)/if (tick >= cursor->last_tick)/'
mutant 'a spent tick is used again from its beginning' cursor.h \
	's/return cursor->next_sequence;/return cursor->next_sequence % 16;/'
mutant 'a refusal moves the cursor' cursor.h \
	's/^\t\trun->retry_at = .*/&\n\t\tcursor->last_tick = tick;/'
mutant 'a refusal drops the ended grants' cursor.h \
	's/^\t\t\treturn IDGEN_CURSOR_GRANT_ENDED;/\t\t\treturn idgen_cursor_drop_grants(cursor, i), IDGEN_CURSOR_GRANT_ENDED;/'
mutant 'ended grants keep their room' cursor.h \
	's/if (i > 0)/if (i > 1)/'
mutant 'dropping grants keeps the wrong ones' cursor.c \
	's/= cursor->grants\[i\];/= cursor->grants[i - count];/'
mutant 'the cursor is born with tick 0 issued' cursor.c \
	's/cursor->last_tick = -1;/cursor->last_tick = 0;/'

# ---- cursor: install, spill ----

mutant 'an overlapping grant is accepted' cursor.c \
	's/grant->start < newest->end)/grant->start < newest->start)/'
mutant 'a later grant is merged over the gap' cursor.c \
	's/grant->start == newest->end/grant->start >= newest->end/'
mutant 'a grant one tick after the last is merged' cursor.c \
	's/grant->start == newest->end/grant->start - newest->end <= 1/'
mutant 'nothing is ever merged' cursor.c \
	's/grant->start == newest->end/grant->start == newest->end - 1/'
mutant 'a grant may begin behind the last tick' cursor.c \
	's/ || grant->start <= cursor->last_tick ||$/ || grant->start < 0 ||/'
mutant 'a grant before tick 0 is accepted' cursor.c \
	's/grant->start <= cursor->last_tick/(cursor->last_tick >= 0 \&\& grant->start <= cursor->last_tick)/'
mutant 'a grant may not begin right after the last tick' cursor.c \
	's/grant->start <= cursor->last_tick/grant->start <= cursor->last_tick + 1/'
mutant 'a grant may begin at the last tick' cursor.c \
	's/grant->start <= cursor->last_tick/grant->start < cursor->last_tick/'
mutant 'an empty grant is accepted' cursor.c \
	's/grant->start >= grant->end/grant->start > grant->end/'
mutant 'a full cursor overwrites its newest grant' cursor.c \
	's/return IDGEN_INSTALL_FULL;/cursor->grant_count--;/'
mutant 'room is made one tick early' cursor.c \
	's/cursor->grants\[0\]\.end <= now/cursor->grants[0].end - 1 <= now/'
mutant 'room is made one tick late' cursor.c \
	's/cursor->grants\[0\]\.end <= now/cursor->grants[0].end < now/'
mutant 'passed grants are dropped though there is room' cursor.c \
	's/if (cursor->grant_count == IDGEN_CURSOR_GRANTS_MAX &&/if (cursor->grant_count > 0 \&\&/'
mutant 'the granted end is that of the first grant' cursor.c \
	's/cursor->grants\[cursor->grant_count - 1\]\.end : 0/cursor->grants[0].end : 0/'
mutant 'the room of a cursor has a tick too many' cursor.c \
	's/demand->run_ahead + 1;/demand->run_ahead + 2;/'
mutant 'the room of a cursor begins before the clock' cursor.c \
	's/start < demand->now ? demand->now : start/start/'
mutant 'the room of a cursor begins before its last ID' cursor.c \
	's/start < cursor->last_tick ? cursor->last_tick : start/start/'
mutant 'the room of a cursor begins before the tick that is asked for' cursor.c \
	's/start < demand->min_tick ? demand->min_tick : start/start/'
mutant 'the room of a cursor does not end with its grant' cursor.c \
	's/end = end > limit ? limit : end;/end = limit;/'
mutant 'what was used is room' cursor.c \
	's/idgen_cursor_first_free(cursor, start);/0;/'
mutant 'a session spills downward within a tick' cursor.c \
	's/last_tick : last_tick + 1/last_tick : last_tick/'
mutant 'a session spills to the same worker within a tick' cursor.c \
	's/return worker > last_worker/return worker >= last_worker/'
mutant 'a session never spills within a tick' cursor.c \
	's/? last_tick : last_tick + 1/? last_tick + 1 : last_tick + 1/'

# ---- grant: the interval rule ----

mutant 'a grant is not cut to the horizon' grant.c \
	's/limit = min_tick(limit, tick_count);/limit = min_tick(INT64_MAX, tick_count);/'
mutant 'a grant is not cut to the field' grant.c \
	's/limit = min_tick(limit, tick_count);/(void) min_tick(limit, tick_count);/'
mutant 'the tick at the horizon is granted' grant.c \
	's/limit = facts->now + facts->horizon;/limit = facts->now + facts->horizon + 1;/'
mutant 'an empty grant at the horizon' grant.c \
	's/if (start >= limit)/if (start > limit)/'
mutant 'a grant retry is one tick early' grant.c \
	's/start - facts->horizon + 1/start - facts->horizon/'
mutant 'a grant retry is one tick late' grant.c \
	's/start - facts->horizon + 1/start - facts->horizon + 2/'
mutant 'the tick after the field is granted' grant.c \
	's/if (start >= tick_count)/if (start > tick_count)/'
mutant 'the mark is ignored' grant.c \
	's/max_tick(facts->high_water, facts->eligible)/facts->eligible/'
mutant 'grants share one tick' grant.c \
	's/max_tick(facts->high_water, facts->eligible)/max_tick(facts->high_water - 1, facts->eligible)/'
mutant 'eligible is ignored' grant.c \
	's/max_tick(facts->high_water, facts->eligible)/max_tick(facts->high_water, facts->now)/'
mutant 'a grant may start in the past' grant.c \
	's/facts->eligible), facts->now);/facts->eligible), 0);/'
mutant 'a grant may start one tick in the past' grant.c \
	's/facts->eligible), facts->now);/facts->eligible), facts->now - 1);/'
mutant 'a grant never starts now' grant.c \
	's/facts->eligible), facts->now);/facts->eligible), facts->now + 1);/'
mutant 'a grant starts at the earlier of the mark and now' grant.c \
	's/start = max_tick(max_tick(/start = min_tick(max_tick(/'
mutant 'a grant is one tick longer than asked' grant.c \
	's/? start + facts->length : limit/? start + facts->length + 1 : limit/'
mutant 'a length of zero is granted' grant.c \
	's/facts->length < 1/facts->length < 0/'
mutant 'a horizon of zero is accepted' grant.c \
	's/facts->horizon < 1/facts->horizon < 0/'
mutant 'a negative mark is accepted' grant.c \
	's/ || facts->high_water < 0)/)/'

# ---- grant: replenishing ----

mutant 'due by half a horizon alone' grant.c \
	's/min_tick(length, horizon \/ 2)/(horizon \/ 2 + 0 * length)/'
mutant 'a grant that is late by its last tick is of use' grant.c \
	's/if (left <= timing->published_at - timing->decided_at ||/if (left < timing->published_at - timing->decided_at ||/'
mutant 'a grant is of use until it is over' grant.c \
	's/if (left <= timing->published_at - timing->decided_at ||/if (left <= 0 ||/'
mutant 'a grant may come a tick late' grant.c \
	's/timing->published_at > timing->dry_at)/timing->published_at > timing->dry_at + (timing->dry_at < INT64_MAX))/'
mutant 'a cursor that is just dry had to wait' grant.c \
	's/timing->published_at > timing->dry_at)/timing->published_at >= timing->dry_at)/'
mutant 'a gap needs no longer grants' grant.c \
	's/timing->published_at > timing->dry_at)/timing->published_at < 0 * timing->dry_at)/'
mutant 'a late grant forgets what was needed before' grant.c \
	's/return max_tick(needed, min_tick(2 \* timing->length, horizon));/return min_tick(2 * timing->length, horizon);/'
mutant 'a late grant is followed by one as long' grant.c \
	's/return max_tick(needed, min_tick(2 \* timing->length, horizon));/return max_tick(needed, min_tick(timing->length, horizon));/'
mutant 'grants are needed longer than the horizon' grant.c \
	's/return max_tick(needed, min_tick(2 \* timing->length, horizon));/return max_tick(needed, min_tick(2 * timing->length, 2 * horizon));/'
mutant 'one in time undoes what a late one needed' grant.c \
	's/if (needed > timing->length)/if (needed > 2 * timing->length)/'
mutant 'longer grants are needed for ever' grant.c \
	's/if (timing->published_at - timing->wanted_at <= enough)/if (timing->published_at - timing->wanted_at < 0 * enough)/'
mutant 'grants become shorter whatever they take' grant.c \
	's/if (timing->published_at - timing->wanted_at <= enough)/if (timing->published_at - timing->wanted_at <= 0 * enough + INT64_MAX)/'
mutant 'just enough is not' grant.c \
	's/if (timing->published_at - timing->wanted_at <= enough)/if (timing->published_at - timing->wanted_at < enough)/'
mutant 'time counts from the decision' grant.c \
	's/if (timing->published_at - timing->wanted_at <= enough)/if (timing->published_at - timing->decided_at <= enough)/'
mutant 'half a length is time to wait in' grant.c \
	's/enough = timing->length \/ 4;/enough = timing->length \/ 2;/'
mutant 'of several cursors the slowest decides' grant.c \
	's/return min_tick(needed, timing->length - max_tick(timing->length \/ 8, 1));/return timing->length - max_tick(timing->length \/ 8, 1);/'
mutant 'short grants stay a little longer' grant.c \
	's/return min_tick(needed, timing->length - max_tick(timing->length \/ 8, 1));/return min_tick(needed, timing->length - timing->length \/ 8);/'
mutant 'due by the length alone' grant.c \
	's/min_tick(length, horizon \/ 2)/length/'
mutant 'due by the later of length and half a horizon' grant.c \
	's/min_tick(length, horizon \/ 2)/max_tick(length, horizon \/ 2)/'
mutant 'half a horizon is rounded up' grant.c \
	's/min_tick(length, horizon \/ 2)/min_tick(length, (horizon + 1) \/ 2)/'
mutant 'along by half a length' grant.c \
	's/run_ahead) - length \/ 4;/run_ahead) - length \/ 2;/'
mutant 'along when it is due' grant.c \
	's/run_ahead) - length \/ 4;/run_ahead) - 0 * length;/'
mutant 'the worker reserved last is taken' worker.c \
	's/earliest == NULL || mark->high_water < earliest->high_water ||/earliest == NULL || mark->high_water > earliest->high_water ||/'
mutant 'of two the first in the list is taken' worker.c \
	's/(mark->high_water == earliest->high_water \&\& mark->worker < earliest->worker))/(mark->high_water == earliest->high_water \&\& mark->worker < 0))/'
mutant 'a worker that is held is taken' worker.c \
	's/contains(held, held_count, mark->worker))/contains(held, 0 * held_count, mark->worker))/'
mutant 'the last one held is not found' worker.c \
	's/contains(held, held_count, mark->worker))/contains(held, held_count - (held_count > 0), mark->worker))/'
mutant 'a worker of another range is taken' worker.c \
	's/if (!idgen_worker_in_range(range, mark->worker) ||/if (!idgen_worker_in_range(range, range->first) ||/'
mutant 'due without the run-ahead' grant.c \
	's/min_tick(margin + run_ahead,$/min_tick(margin + 0 * run_ahead,/'
mutant 'due by the run-ahead alone' grant.c \
	's/min_tick(margin + run_ahead,$/min_tick(0 * margin + run_ahead,/'
mutant 'due one tick early' grant.c \
	's/min_tick(margin + run_ahead,$/min_tick(margin + run_ahead + 1,/'
mutant 'due one tick late' grant.c \
	's/min_tick(margin + run_ahead,$/min_tick(margin + run_ahead - 1,/'
mutant 'due as early as the horizon leaves room' grant.c \
	's/lead = min_tick(margin/lead = max_tick(margin/'
mutant 'due however little a grant is worth' grant.c \
	's/horizon - max_tick(margin \/ 2, 1));/horizon - 1);/'
mutant 'due at once after a grant to the horizon' grant.c \
	's/horizon - max_tick(margin \/ 2, 1));/horizon);/'
mutant 'due at once with a margin of one tick' grant.c \
	's/horizon - max_tick(margin \/ 2, 1));/horizon - margin \/ 2);/'
mutant 'a grant is worth two ticks' grant.c \
	's/horizon - max_tick(margin \/ 2, 1));/horizon - max_tick(margin \/ 2, 2));/'
mutant 'a grant is worth one tick at most' grant.c \
	's/horizon - max_tick(margin \/ 2, 1));/horizon - min_tick(margin \/ 2, 1));/'
mutant 'a grant is worth a whole margin' grant.c \
	's/horizon - max_tick(margin \/ 2, 1));/horizon - max_tick(margin, 1));/'
mutant 'a grant is worth a third of the margin' grant.c \
	's/horizon - max_tick(margin \/ 2, 1));/horizon - max_tick(margin \/ 3, 1));/'
mutant 'half a margin is rounded up' grant.c \
	's/horizon - max_tick(margin \/ 2, 1));/horizon - max_tick((margin + 1) \/ 2, 1));/'
mutant 'a grant is worth half the length asked for' grant.c \
	's/horizon - max_tick(margin \/ 2, 1));/horizon - max_tick(length \/ 2, 1));/'
mutant 'due when the run-ahead is not held' grant.c \
	's/max_tick(lead, min_tick(run_ahead + 1, horizon - 1))/lead/'
mutant 'due by the later of margin and run-ahead' grant.c \
	's/max_tick(lead, min_tick(run_ahead/min_tick(lead, min_tick(run_ahead/'
mutant 'due only when no more than the run-ahead is held' grant.c \
	's/max_tick(lead, min_tick(run_ahead + 1, horizon - 1))/(min_tick(run_ahead + 1, horizon - 1) + 0 * lead)/'
mutant 'the tick of the clock itself need not be held' grant.c \
	's/min_tick(run_ahead + 1, horizon - 1)/min_tick(run_ahead, horizon - 1)/'
mutant 'one tick more than the run-ahead must be held' grant.c \
	's/min_tick(run_ahead + 1, horizon - 1)/min_tick(run_ahead + 2, horizon - 1)/'
mutant 'the longest run-ahead is due at once' grant.c \
	's/min_tick(run_ahead + 1, horizon - 1)/min_tick(run_ahead + 1, horizon)/'
mutant 'due at once, whatever was granted' grant.c \
	's/min_tick(run_ahead + 1, horizon - 1)/max_tick(run_ahead + 1, horizon)/'
mutant 'due one tick late under a long run-ahead' grant.c \
	's/min_tick(run_ahead + 1, horizon - 1)/min_tick(run_ahead + 1, horizon - 2)/'
mutant 'due a tick after a full grant, whatever the run-ahead' grant.c \
	's/min_tick(run_ahead + 1, horizon - 1)/max_tick(run_ahead + 1, horizon - 1)/'
mutant 'due only when it has run dry' grant.c \
	's/return granted_end - max_tick(/return granted_end - 0 * max_tick(/'

# ---- grant: ordered start ----

mutant 'an ordered start ignores all before it' grant.c \
	's/max_tick(now, min_tick(now + run_ahead + 1, highest_mark))/now + 0 * (run_ahead + (highest_mark > 0))/'
mutant 'an ordered start is past all marks' grant.c \
	's/min_tick(now + run_ahead + 1, highest_mark)/highest_mark + 0 * run_ahead/'
mutant 'an ordered start ignores the marks' grant.c \
	's/min_tick(now + run_ahead + 1, highest_mark)/now + run_ahead + 1 + 0 * (highest_mark > 0)/'
mutant 'an ordered start is the later of run-ahead and mark' grant.c \
	's/min_tick(now + run_ahead + 1/max_tick(now + run_ahead + 1/'
mutant 'an ordered start may be in the past' grant.c \
	's/max_tick(now, min_tick(now + run_ahead + 1/min_tick(now, min_tick(now + run_ahead + 1/'
mutant 'an ordered start is at most the highest mark' grant.c \
	's/max_tick(now, min_tick(now + run_ahead + 1, highest_mark))/min_tick(now + run_ahead + 1, highest_mark)/'
mutant 'an ordered start ignores the run-ahead' grant.c \
	's/now + run_ahead + 1, highest_mark/now + 0 * run_ahead + 1, highest_mark/'
mutant 'an ordered start shares the last tick ahead' grant.c \
	's/now + run_ahead + 1, highest_mark/now + run_ahead, highest_mark/'
mutant 'an ordered start leaves a tick free' grant.c \
	's/now + run_ahead + 1, highest_mark/now + run_ahead + 2, highest_mark/'
mutant 'an ordered start shares the last tick of the mark' grant.c \
	's/now + run_ahead + 1, highest_mark/now + run_ahead + 1, highest_mark - 1/'
mutant 'an ordered start is one past the mark' grant.c \
	's/now + run_ahead + 1, highest_mark/now + run_ahead + 1, highest_mark + (highest_mark < INT64_MAX)/'

# ---- grant: fence ----

mutant 'a fence ignores the clock' takeover.c \
	's/max_tick(facts->now, facts->last_clock)/facts->last_clock/'
mutant 'a fence ignores the clock of the last grant' takeover.c \
	's/max_tick(facts->now, facts->last_clock)/facts->now/'
mutant 'a fence believes the slower clock' takeover.c \
	's/max_tick(facts->now, facts->last_clock)/min_tick(facts->now, facts->last_clock)/'
mutant 'a fence ignores what the marks say of the clock' takeover.c \
	's/facts->highest_mark - facts->horizon);/INT64_MIN);/'
mutant 'a fence takes the highest mark for a clock' takeover.c \
	's/facts->highest_mark - facts->horizon);/facts->highest_mark);/'
mutant 'a fence takes the earlier of the clocks and the marks' takeover.c \
	's/latest = max_tick(max_tick(/latest = min_tick(max_tick(/'
mutant 'a fence starts from before tick 0' takeover.c \
	's/floor = min_tick(max_tick(latest, 0), /floor = min_tick(latest, /'
mutant 'a fence starts from tick 1' takeover.c \
	's/floor = min_tick(max_tick(latest, 0), /floor = min_tick(max_tick(latest, 1), /'
mutant 'a fence ignores the horizon' takeover.c \
	's/distance = facts->horizon + facts->clock_error;/distance = facts->clock_error;/'
mutant 'a fence ignores the clock error' takeover.c \
	's/distance = facts->horizon + facts->clock_error;/distance = facts->horizon;/'
mutant 'a fence is one tick short' takeover.c \
	's/distance = facts->horizon + facts->clock_error;/distance = facts->horizon + facts->clock_error - 1;/'
mutant 'a fence is one tick long' takeover.c \
	's/distance = facts->horizon + facts->clock_error;/distance = facts->horizon + facts->clock_error + 1;/'
mutant 'a fence adds before it is cut, and overflows' takeover.c \
	's/floor = min_tick(.*) + distance;/floor = max_tick(latest, 0) + distance;/'
mutant 'a fence is cut, but no distance before the end' takeover.c \
	's/tick_count - distance) + distance;/tick_count) + distance;/'
mutant 'a fence is cut one tick early' takeover.c \
	's/tick_count - distance) + distance;/tick_count - distance - 1) + distance;/'
mutant 'a fence is cut one tick late, and overflows' takeover.c \
	's/tick_count - distance) + distance;/tick_count - distance + 1) + distance;/'
mutant 'a fence is not moved by its distance' takeover.c \
	's/tick_count - distance) + distance;/tick_count - distance);/'
mutant 'a fence is no less than its distance from the end' takeover.c \
	's/floor = min_tick(max_tick(latest, 0), /floor = max_tick(max_tick(latest, 0), /'
mutant 'a short field begins at tick 0 behind a fence' takeover.c \
	's/tick_count - distance) + distance;/max_tick(tick_count - distance, 0)) + 0 * distance;/'
mutant 'a fence ignores what the operator named' takeover.c \
	's/max_tick(floor, facts->above)/floor/'
mutant 'a fence lowers to what the operator named' takeover.c \
	's/max_tick(floor, facts->above)/min_tick(floor, facts->above)/'
mutant 'a fence is one tick past what the operator named' takeover.c \
	's/max_tick(floor, facts->above)/max_tick(floor, facts->above + (facts->above < INT64_MAX))/'
mutant 'a fence is one tick before what the operator named' takeover.c \
	's/max_tick(floor, facts->above)/max_tick(floor, facts->above - 1)/'
mutant 'a fence reaches past the field' takeover.c \
	's/return min_tick(max_tick(floor, facts->above), tick_count);/return max_tick(floor, facts->above);/'
mutant 'a fence leaves the last tick of the field' takeover.c \
	's/facts->above), tick_count);/facts->above), tick_count - 1);/'
mutant 'a fence uses up the field' takeover.c \
	's/return min_tick(max_tick(floor, facts->above), tick_count);/return max_tick(max_tick(floor, facts->above), tick_count);/'

# ---- grant: the chain, external incarnations ----

mutant 'a worker that was taken is granted on' grant.c \
	's/if (!facts->holds_worker)/if (facts->holds_worker \&\& false)/'
mutant 'every worker was taken' grant.c \
	's/if (!facts->holds_worker)/if (facts->holds_worker || true)/'
mutant 'a taken worker is the one that is held' grant.c \
	's/if (!facts->holds_worker)/if (facts->holds_worker)/'
mutant 'a retry beats a taken worker' grant.c \
	's/if (!facts->holds_worker)/if (!facts->holds_worker \&\& !facts->is_last_request)/'
mutant 'a stale request beats a taken worker' grant.c \
	's/if (!facts->holds_worker)/if (!facts->holds_worker \&\& !facts->is_recorded)/'
mutant 'a fork beats a taken worker' grant.c \
	's/if (!facts->holds_worker)/if (!facts->holds_worker \&\& facts->after_grant == facts->last_grant)/'
mutant 'a taken worker is a fork' grant.c \
	's/return IDGEN_CHAIN_TAKEN;/return IDGEN_CHAIN_FORKED;/'
mutant 'a taken worker is a stale request' grant.c \
	's/return IDGEN_CHAIN_TAKEN;/return IDGEN_CHAIN_STALE;/'
mutant 'a retry is not recognised' grant.c \
	's/if (facts->is_last_request)/if (facts->is_last_request \&\& false)/'
mutant 'every request is a retry' grant.c \
	's/if (facts->is_last_request)/if (facts->is_last_request || true)/'
mutant 'a retry is stale when it is recorded' grant.c \
	's/if (facts->is_last_request)/if (facts->is_last_request \&\& !facts->is_recorded)/'
mutant 'a retry must be recorded' grant.c \
	's/if (facts->is_last_request)/if (facts->is_last_request \&\& facts->is_recorded)/'
mutant 'a retry must follow the last grant' grant.c \
	's/if (facts->is_last_request)/if (facts->is_last_request \&\& facts->after_grant == facts->last_grant)/'
mutant 'a retry must not follow the last grant' grant.c \
	's/if (facts->is_last_request)/if (facts->is_last_request \&\& facts->after_grant != facts->last_grant)/'
mutant 'a retry gets a new grant' grant.c \
	's/return IDGEN_CHAIN_REPEATED;/return IDGEN_CHAIN_NEXT;/'
mutant 'a retry is stale' grant.c \
	's/return IDGEN_CHAIN_REPEATED;/return IDGEN_CHAIN_STALE;/'
mutant 'a stale request is not recognised' grant.c \
	's/if (facts->is_recorded)/if (facts->is_recorded \&\& false)/'
mutant 'every request is stale' grant.c \
	's/if (facts->is_recorded)/if (facts->is_recorded || true)/'
mutant 'a stale request that follows the last grant goes on' grant.c \
	's/if (facts->is_recorded)/if (facts->is_recorded \&\& facts->after_grant != facts->last_grant)/'
mutant 'a stale request that follows another grant is a fork' grant.c \
	's/if (facts->is_recorded)/if (facts->is_recorded \&\& facts->after_grant == facts->last_grant)/'
mutant 'a stale request gets the last grant' grant.c \
	's/return IDGEN_CHAIN_STALE;/return IDGEN_CHAIN_REPEATED;/'
mutant 'a stale request ends the incarnation' grant.c \
	's/return IDGEN_CHAIN_STALE;/return IDGEN_CHAIN_FORKED;/'
mutant 'a request that follows the last grant is a fork' grant.c \
	's/return facts->after_grant == facts->last_grant ?/return facts->after_grant != facts->last_grant ?/'
mutant 'a request that follows a later grant goes on' grant.c \
	's/return facts->after_grant == facts->last_grant ?/return facts->after_grant >= facts->last_grant ?/'
mutant 'a request that follows an earlier grant goes on' grant.c \
	's/return facts->after_grant == facts->last_grant ?/return facts->after_grant <= facts->last_grant ?/'
mutant 'grants are compared by their low half' grant.c \
	's/return facts->after_grant == facts->last_grant ?/return (uint32_t) facts->after_grant == (uint32_t) facts->last_grant ?/'
mutant 'two holders both go on' grant.c \
	's/IDGEN_CHAIN_NEXT : IDGEN_CHAIN_FORKED;/IDGEN_CHAIN_NEXT : IDGEN_CHAIN_NEXT;/'
mutant 'two holders are told to try again' grant.c \
	's/IDGEN_CHAIN_NEXT : IDGEN_CHAIN_FORKED;/IDGEN_CHAIN_NEXT : IDGEN_CHAIN_STALE;/'
mutant 'the server keeps all it may use' worker.c \
	's/min_tick(server_workers, range_size \/ 4)/(server_workers + 0 * range_size)/'
mutant 'the server always keeps a quarter' worker.c \
	's/min_tick(server_workers, range_size \/ 4)/(range_size \/ 4 + 0 * server_workers)/'
mutant 'the server keeps the larger share' worker.c \
	's/min_tick(server_workers, range_size \/ 4)/max_tick(server_workers, range_size \/ 4)/'
mutant 'the server keeps a third' worker.c \
	's/range_size \/ 4);/range_size \/ 3);/'
mutant 'the server keeps a fifth' worker.c \
	's/range_size \/ 4);/range_size \/ 5);/'
mutant 'a quarter is rounded up' worker.c \
	's/range_size \/ 4);/(range_size + 3) \/ 4);/'
mutant 'the server may keep no worker' worker.c \
	's/range_size - max_tick(kept, 1)/range_size - kept/'
mutant 'the server keeps two at least' worker.c \
	's/range_size - max_tick(kept, 1)/range_size - max_tick(kept, 2)/'
mutant 'the server keeps one at most' worker.c \
	's/range_size - max_tick(kept, 1)/range_size - min_tick(kept, 1)/'
mutant 'an empty range has less than no worker' worker.c \
	's/return max_tick(range_size - max_tick(kept, 1), 0);/return range_size - max_tick(kept, 1);/'
mutant 'externals always get a worker' worker.c \
	's/max_tick(kept, 1), 0);/max_tick(kept, 1), 1);/'

# ---- grant: workers, identity ----

mutant 'a busy worker is chosen' worker.c \
	's/range->modulus > rank)/range->modulus >= rank)/'
mutant 'all free workers after a busy one shift too little' worker.c \
	's/^\t\trank++;/\t\tbreak;/'
mutant 'busy workers of the other half count' worker.c \
	's/worker % range->modulus == range->remainder;/worker >= 0;/'
mutant 'busy workers above the range count' worker.c \
	's/return worker >= range->first && worker <= range->last &&/return worker >= range->first \&\&/'
mutant 'busy workers below the range count' worker.c \
	's/return worker >= range->first && worker <= range->last &&/return worker <= range->last \&\&/'
mutant 'all busy is not noticed' worker.c \
	's/if (free_count <= 0)/if (free_count < 0)/'
mutant 'the first free worker is never chosen' worker.c \
	's/rank = (int64_t) (random % (uint64_t) free_count);/rank = (int64_t) (random % (uint64_t) free_count) | (free_count > 1);/'
mutant 'an empty half has one worker' worker.c \
	's/if (first > range->last)/if (first > range->last + 1)/'
mutant 'a range is one worker short' worker.c \
	's/range->modulus + 1;/range->modulus;/'
mutant 'a copied database is fenced' takeover.c \
	's/return IDGEN_TAKEOVER_TEMPLATE;/return IDGEN_TAKEOVER_FENCED;/'
mutant 'a copied database is ours as it is' takeover.c \
	's/return IDGEN_TAKEOVER_TEMPLATE;/return IDGEN_TAKEOVER_NONE;/'
mutant 'copies are fenced without the setting' takeover.c \
	's/return fence_copies ?/return fence_copies || true ?/'
mutant 'copies are refused in spite of the setting' takeover.c \
	's/return fence_copies ?/return fence_copies \&\& false ?/'
mutant 'files that were made anew need no fence' takeover.c \
	's/^\t\t\treturn IDGEN_TAKEOVER_FENCED;/\t\t\treturn IDGEN_TAKEOVER_NONE;/'
mutant 'a step back of the timeline is not noticed' identity.c \
	's/if (recorded->timeline != found->timeline)/if (recorded->timeline < found->timeline)/'
mutant 'another database hides another timeline' identity.c \
	's/if (recorded->timeline != found->timeline)/if (recorded->database == found->database \&\& recorded->timeline != found->timeline)/'
mutant 'another database hides another server' identity.c \
	's/^\tif (!same_file(recorded->control_inode, recorded->control_birth,/\tif (recorded->database == found->database \&\& !same_file(recorded->control_inode, recorded->control_birth,/'
mutant 'a copied control file is not noticed' identity.c \
	's/return IDGEN_IDENTITY_OTHER_CONTROL;/return IDGEN_IDENTITY_SAME;/'
mutant 'a missing birth time is a difference' identity.c \
	's/return birth_a == 0 || birth_b == 0 || /return /'
mutant 'birth times are not compared' identity.c \
	's/ || birth_a == birth_b;/ || birth_a != 0;/'
mutant 'the database beats the system identifier' identity.c \
	's/if (recorded->system_identifier != found->system_identifier)/if (recorded->database == found->database \&\& recorded->system_identifier != found->system_identifier)/'
mutant 'the split class never changes' worker.c \
	's/return (int) (timeline % (uint32_t) parts);/return (int) (timeline % 1 + (uint32_t) parts % 2);/'
mutant 'the split class follows halves of four parts' worker.c \
	's/return (int) (timeline % (uint32_t) parts);/return (int) (timeline % 2 + (uint32_t) parts % 2);/'
mutant 'no range is split into four' worker.c \
	's/return worker_count >= IDGEN_SPLIT_MANY_WORKERS ?/return worker_count > INT64_MAX - 1 ?/'
mutant 'sixty-four workers are split into two' worker.c \
	's/return worker_count >= IDGEN_SPLIT_MANY_WORKERS ?/return worker_count > IDGEN_SPLIT_MANY_WORKERS ?/'
mutant 'a part may be empty' worker.c \
	's/return worker_count >= parts;/return worker_count >= parts - 1;/'
mutant 'a database made anew is not noticed after a promotion' identity.c \
	's/^\tsame_timeline.timeline = found->timeline;/\t(void) same_timeline;/'

# ---- grant: promoted on its own files ----

mutant '"split" goes on as it was on its own files' takeover.c \
	's/return facts->policy != IDGEN_PROMOTION_SPLIT &&$/return facts->policy <= IDGEN_PROMOTION_REFUSE \&\&/'
mutant 'on its own files without a history' takeover.c \
	's/^\t\tfacts->history_complete && !facts->has_target &&$/\t\t!facts->has_target \&\&/'
mutant 'on its own files, to a target' takeover.c \
	's/^\t\tfacts->history_complete && !facts->has_target &&$/\t\tfacts->history_complete \&\&/'
mutant 'on its own files, rewound since' takeover.c \
	's/^\t\t(facts->restored_ms == 0 ||$/\t\t(true ||/'
mutant 'on its own files, never rewound' takeover.c \
	's/^\t\t(facts->restored_ms == 0 ||$/\t\t(/'
mutant 'on its own files, rewound by a clock that went back' takeover.c \
	's/facts->restored_ms < facts->recorded_ms - facts->clock_error_ms) &&$/facts->restored_ms < facts->recorded_ms) \&\&/'
mutant 'on its own files, rewound just before' takeover.c \
	's/facts->restored_ms < facts->recorded_ms - facts->clock_error_ms) &&$/facts->restored_ms <= facts->recorded_ms - facts->clock_error_ms) \&\&/'
mutant 'on the files of another cluster' takeover.c \
	's/^\t\trecorded->system_identifier == found->system_identifier &&$/\t\ttrue \&\&/'
mutant 'on its own files, two timelines later' takeover.c \
	's/^\t\tfound->timeline - recorded->timeline == 1 &&$/\t\ttrue \&\&/'
mutant 'on its own files, before the record' takeover.c \
	's/^\t\tfound->timeline > recorded->timeline &&$/\t\ttrue \&\&/'
mutant 'without birth times a control file is our own' takeover.c \
	's/^\t\trecorded->control_birth != 0 &&$/\t\ttrue \&\&/'
mutant 'a control file made later is our own' takeover.c \
	's/^\t\trecorded->control_birth == found->control_birth &&$/\t\tfound->control_birth != 0 \&\&/'
mutant 'a control file of another number is our own' takeover.c \
	's/^\t\trecorded->control_inode == found->control_inode;/\t\ttrue;/'

# ---- history: a timeline's history file ----

mutant 'a damaged history is complete' history.c \
	's/return !history->is_damaged && history->ends_in_entry && history->has_recorded;/return history->ends_in_entry \&\& history->has_recorded;/'
mutant 'a history that was cut between two ancestors is complete' history.c \
	's/return !history->is_damaged && history->ends_in_entry && history->has_recorded;/return !history->is_damaged \&\& history->has_recorded;/'
mutant 'a history with a gap where the record should be is complete' history.c \
	's/return !history->is_damaged && history->ends_in_entry && history->has_recorded;/return !history->is_damaged \&\& history->ends_in_entry;/'
mutant 'a line that was cut is whole' history.c \
	"s/length == 0 || line\[length - 1\] != '.n')/length == 0)/"
mutant 'what ended in an ancestor once ends in one' history.c \
	's/^\thistory->ends_in_entry = false;/\t(void) history->ends_in_entry;/'
mutant 'a history never ends in an ancestor' history.c \
	's/^\thistory->ends_in_entry = true;/\thistory->ends_in_entry = false;/'
mutant 'a line that is no ancestor is skipped' history.c \
	's/^\tif (timeline == 0 || !skip_hex/\tif (timeline == 0)\n\t\treturn;\n\tif (!skip_hex/'
mutant 'a position without its first half' history.c \
	"s/!skip_hex(&at, '\/') || !skip_hex(&at, '.t') ||/!skip_hex(\&at, '\\\\t') ||/"
mutant 'an ancestor may come twice' history.c \
	's/if (timeline <= history->last || timeline >= history->present)/if (timeline < history->last || timeline >= history->present)/'
mutant 'ancestors in any order' history.c \
	's/if (timeline <= history->last || timeline >= history->present)/if (timeline >= history->present)/'
mutant 'a timeline is its own ancestor' history.c \
	's/if (timeline <= history->last || timeline >= history->present)/if (timeline <= history->last || timeline > history->present)/'
mutant 'a later timeline is an ancestor' history.c \
	's/if (timeline <= history->last || timeline >= history->present)/if (timeline <= history->last || timeline == history->present)/'
mutant 'the order is that of the first ancestor' history.c \
	's/^\thistory->last = timeline;/\thistory->last = history->last == 0 ? timeline : history->last;/'
mutant 'any ancestor is the recorded one' history.c \
	's/if (timeline == history->recorded)/if (timeline > 0)/'
mutant 'a target on the recorded timeline is none' history.c \
	's/if (timeline >= history->recorded && has_target)/if (timeline > history->recorded \&\& has_target)/'
mutant 'a target behind the recorded timeline is none' history.c \
	's/if (timeline >= history->recorded && has_target)/if (timeline == history->recorded \&\& has_target)/'
mutant 'a target before the recorded timeline counts' history.c \
	's/if (timeline >= history->recorded && has_target)/if (has_target)/'
mutant 'no target counts' history.c \
	's/^\t\thistory->has_target = true;/\t\thistory->has_target = false;/'
mutant 'more near ancestors than fit' history.c \
	's/if (history->present - timeline < IDGEN_SPLIT_PARTS_MAX)/if (history->present - timeline <= IDGEN_SPLIT_PARTS_MAX)/'
mutant 'the farthest of the near ancestors is left out' history.c \
	's/if (history->present - timeline < IDGEN_SPLIT_PARTS_MAX)/if (history->present - timeline < IDGEN_SPLIT_PARTS_MAX - 1)/'
mutant 'the reason may begin like "no target"' history.c \
	's/length - (size_t) (at - line) != sizeof(no_target) ||/false ||/'
mutant 'a reason of that length is "no target"' history.c \
	's/memcmp(at, no_target, sizeof(no_target) - 1) != 0);/memcmp(at, no_target, 0) != 0);/'
mutant 'the reason "no target" is compared in part' history.c \
	's/memcmp(at, no_target, sizeof(no_target) - 1) != 0);/memcmp(at, no_target, sizeof(no_target) - 2) != 0);/'
mutant 'a comment is damage' history.c \
	"s/if (line\[0\] == '#' || /if (/"
mutant 'an empty line is damage' history.c \
	"s/if (line\[0\] == '#' || .*/if (line[0] == '#')/"
mutant 'a number wraps' history.c \
	's/ && number <= UINT32_MAX)/)/'
mutant 'a number of 33 bits loses one' history.c \
	"s/if (number > UINT32_MAX || \*(\*at)++ != end)/if (*(*at)++ != end)/"
mutant 'whatever follows a number ends it' history.c \
	"s/if (number > UINT32_MAX || \*(\*at)++ != end)/if (number > UINT32_MAX || (*(*at)++ != end \&\& false))/"
mutant 'a position has nine digits' history.c \
	's/while (count < 8 && /while (count < 9 \&\& /'
mutant 'a position has seven digits' history.c \
	's/while (count < 8 && /while (count < 7 \&\& /'
mutant 'a position has no digits' history.c \
	's/if (count == 0 || \*\*at != end)/if (**at != end)/'
mutant 'a position has decimal digits' history.c \
	"s/ || (\*\*at >= 'A' && \*\*at <= 'F')))/))/"
mutant 'a position has letters past F' history.c \
	"s/\*\*at <= 'F')))/**at <= 'Z')))/"
mutant 'whatever follows a position ends it' history.c \
	's/if (count == 0 || \*\*at != end)/if (count == 0 || (**at != end \&\& false))/'

# ---- grant: a change of timeline ----

mutant 'any history is known' takeover.c \
	's/is_known = facts->history_complete && !facts->has_target &&$/is_known = !facts->has_target \&\&/'
mutant 'a history with a target is known' takeover.c \
	's/is_known = facts->history_complete && !facts->has_target &&$/is_known = facts->history_complete \&\&/'
mutant 'no target, or a complete history, is known' takeover.c \
	's/is_known = facts->history_complete && !facts->has_target &&$/is_known = (facts->history_complete || !facts->has_target) \&\&/'
mutant 'a database made anew goes on' takeover.c \
	's/^\t\t!facts->is_recreated;/\t\ttrue;/'
mutant 'evidence ignored: never at once' takeover.c \
	's/return \*begun_ms != IDGEN_BEGUN_NEVER;/return false;/'
mutant 'evidence ignored: always at once' takeover.c \
	's/return \*begun_ms != IDGEN_BEGUN_NEVER;/return true;/'
mutant 'the record is no evidence' takeover.c \
	's/^\t\tnote_begun(facts, facts->recorded, facts->recorded_ms, begun_ms);/\t\t(void) facts->recorded_ms;/'
mutant 'the record of the present timeline is evidence' takeover.c \
	's/if (facts->recorded != facts->present)/if (facts->recorded != 0)/'
mutant 'history files are no evidence' takeover.c \
	's/i < facts->begun_count; i++)/i < 0 * facts->begun_count; i++)/'
mutant 'only one history file is evidence' takeover.c \
	's/i < facts->begun_count; i++)/i < facts->begun_count \&\& i < 1; i++)/'
mutant 'evidence of T - m or later' takeover.c \
	's/if ((int64_t) timeline > (int64_t) facts->present - facts->parts &&$/if ((int64_t) timeline >= (int64_t) facts->present - facts->parts \&\&/'
mutant 'evidence later than T - m + 1' takeover.c \
	's/if ((int64_t) timeline > (int64_t) facts->present - facts->parts &&$/if ((int64_t) timeline > (int64_t) facts->present - facts->parts + 1 \&\&/'
mutant 'evidence of T - m in unsigned numbers' takeover.c \
	's/if ((int64_t) timeline > (int64_t) facts->present - facts->parts &&$/if (timeline > facts->present - (uint32_t) facts->parts - 4 \&\&/'
mutant 'evidence of later timelines' takeover.c \
	's/^\t\ttimeline <= facts->present &&$/\t\ttimeline >= 0 * facts->present \&\&/'
mutant 'the present timeline is no evidence' takeover.c \
	's/^\t\ttimeline <= facts->present &&$/\t\ttimeline < facts->present \&\&/'
mutant 'H instead of N' takeover.c \
	's/known_ms <= facts->now_ms - facts->horizon_ms - facts->clock_error_ms)/known_ms <= facts->now_ms - facts->horizon_ms)/'
mutant 'the clock error instead of N' takeover.c \
	's/known_ms <= facts->now_ms - facts->horizon_ms - facts->clock_error_ms)/known_ms <= facts->now_ms - facts->clock_error_ms)/'
mutant 'evidence counts a millisecond late' takeover.c \
	's/known_ms <= facts->now_ms - facts->horizon_ms - facts->clock_error_ms)/known_ms < facts->now_ms - facts->horizon_ms - facts->clock_error_ms)/'
mutant 'the first evidence is told, not the latest' takeover.c \
	's/^\t\t\*begun_ms = max_tick(\*begun_ms, known_ms);/\t\t*begun_ms = *begun_ms != IDGEN_BEGUN_NEVER ? *begun_ms : known_ms;/'
mutant 'a first use of a part needs evidence' takeover.c \
	's/if ((int64_t) facts->present <= facts->parts)/if ((int64_t) facts->present < facts->parts)/'
mutant 'a second use of a part needs none' takeover.c \
	's/if ((int64_t) facts->present <= facts->parts)/if ((int64_t) facts->present <= facts->parts + 1)/'
mutant 'what was before is told' takeover.c \
	's/^\t\*begun_ms = IDGEN_BEGUN_NEVER;/\t*begun_ms = *begun_ms < 0 ? *begun_ms : IDGEN_BEGUN_NEVER;/'
mutant '"fence" goes on at once' takeover.c \
	's/return IDGEN_PROMOTION_WAIT;/return IDGEN_PROMOTION_AT_ONCE;/'
mutant '"fence" never goes on' takeover.c \
	's/return IDGEN_PROMOTION_WAIT;/return IDGEN_PROMOTION_NEVER;/'
mutant '"split" goes on where its part is free, whatever the history' takeover.c \
	's/return is_known && part_is_free(facts, begun_ms) ?/return part_is_free(facts, begun_ms) ?/'
mutant '"split" goes on, its part free or not' takeover.c \
	's/return is_known && part_is_free(facts, begun_ms) ?/return is_known \&\& (part_is_free(facts, begun_ms) || true) ?/'
mutant '"split" never goes on unless at once' takeover.c \
	's/^\t*IDGEN_PROMOTION_WAIT;/IDGEN_PROMOTION_NEVER;/'
mutant '"split" always goes on at once' takeover.c \
	's/^\t*IDGEN_PROMOTION_WAIT;/IDGEN_PROMOTION_AT_ONCE;/'
mutant '"trust" never goes on unless at once' takeover.c \
	's/return is_known ? IDGEN_PROMOTION_AT_ONCE : IDGEN_PROMOTION_WAIT;/return is_known ? IDGEN_PROMOTION_AT_ONCE : IDGEN_PROMOTION_NEVER;/'
mutant '"trust" always goes on at once' takeover.c \
	's/return is_known ? IDGEN_PROMOTION_AT_ONCE : IDGEN_PROMOTION_WAIT;/return IDGEN_PROMOTION_AT_ONCE;/'
mutant '"trust" always waits' takeover.c \
	's/return is_known ? IDGEN_PROMOTION_AT_ONCE : IDGEN_PROMOTION_WAIT;/return IDGEN_PROMOTION_WAIT;/'
mutant '"refuse" waits' takeover.c \
	's/^\t\t\treturn IDGEN_PROMOTION_NEVER;/\t\t\treturn IDGEN_PROMOTION_WAIT;/'
mutant '"refuse" goes on at once' takeover.c \
	's/^\t\t\treturn IDGEN_PROMOTION_NEVER;/\t\t\treturn IDGEN_PROMOTION_AT_ONCE;/'
mutant 'an unknown policy waits' takeover.c \
	's/^\treturn IDGEN_PROMOTION_NEVER;/\treturn IDGEN_PROMOTION_WAIT;/'
mutant 'an unknown policy goes on at once' takeover.c \
	's/^\treturn IDGEN_PROMOTION_NEVER;/\treturn IDGEN_PROMOTION_AT_ONCE;/'

# ---- layout ----

mutant 'worker and sequence change places' layout.h \
	's/(worker << layout->sequence_bits) | sequence/(sequence << layout->worker_bits) | worker/'
mutant 'the tick spills into the worker' layout.h \
	's/tick << (layout->worker_bits + layout->sequence_bits)/tick << (layout->worker_bits + layout->sequence_bits - (layout->worker_bits > 0))/'
mutant '2^63 ticks are counted' layout.h \
	's/timestamp_bits >= 63/timestamp_bits > 63/'
mutant 'widths may sum to 64' layout.c \
	's/^\t\tIDGEN_ID_BITS_MAX)$/\t\tIDGEN_ID_BITS_MAX + 1)/'
mutant 'widths may sum to 62 only' layout.c \
	's/^\t\tIDGEN_ID_BITS_MAX)$/\t\tIDGEN_ID_BITS_MAX - 1)/'
mutant '32 worker bits are accepted' layout.c \
	's/worker_bits > IDGEN_WORKER_BITS_MAX/worker_bits > IDGEN_WORKER_BITS_MAX + 1/'
mutant 'a horizon shorter than a tick is accepted' layout.c \
	's/if (layout->horizon_ms < layout->tick_ms ||/if (layout->horizon_ms < 1 ||/'
mutant 'a field as long as the horizon is refused' layout.c \
	'/ticks_ceil(layout, layout->horizon_ms) >/s/>$/>=/'
mutant 'formats of other timestamp widths are the same' layout.c \
	's/a->timestamp_bits == b->timestamp_bits/true/'
mutant 'formats of other worker widths are the same' layout.c \
	's/a->worker_bits == b->worker_bits/true/'
mutant 'formats of other sequence widths are the same' layout.c \
	's/a->sequence_bits == b->sequence_bits/true/'
mutant 'formats of other epochs are the same' layout.c \
	's/a->epoch_ms == b->epoch_ms/true/'
mutant 'formats of other ticks are the same' layout.c \
	's/a->tick_ms == b->tick_ms/true/'
mutant 'formats of other horizons are the same' layout.c \
	's/a->horizon_ms == b->horizon_ms/true/'
mutant 'worker 2^n is encoded' layout.c \
	's/worker >= idgen_layout_worker_count/worker > idgen_layout_worker_count/'
mutant 'worker -1 is encoded' layout.c \
	's/if (worker < 0 || worker/if (worker/'
mutant 'sequence 2^n is encoded' layout.c \
	's/sequence >= idgen_layout_sequence_count/sequence > idgen_layout_sequence_count/'
mutant '(0,0,0) is encoded' layout.c \
	's/if (tick == 0 && worker == 0 && sequence == 0)/if (tick + worker + sequence < 0)/'
mutant 'a negative ID is decoded' layout.c \
	's/if (id < 0)/if (id < -1)/'
mutant 'an ID too wide is decoded' layout.c \
	's/if ((id >> shift) >= idgen_layout_tick_count(layout))/if ((id >> shift) > idgen_layout_tick_count(layout))/'
mutant 'a text with a sign is read' layout.c \
	"s/if (digit < 0 || digit > 9)/if (text[i] != '-' \&\& (digit < 0 || digit > 9))/"
mutant 'a text may end in ":"' layout.c \
	's/if (digit < 0 || digit > 9)/if (digit < 0 || digit > 10)/'
mutant 'a text may have "/"' layout.c \
	's/if (digit < 0 || digit > 9)/if (digit < -1 || digit > 9)/'
mutant 'an empty text is 0' layout.c \
	's/^\tif (length == 0)/\tif (length > 1 \&\& text == NULL)/'
mutant '2^63 is read' layout.c \
	's/if (value > (INT64_MAX - digit) \/ 10)/if (value > INT64_MAX \/ 10)/'
mutant '2^63 - 1 is not read' layout.c \
	's/if (value > (INT64_MAX - digit) \/ 10)/if (value >= (INT64_MAX - digit) \/ 10)/'
mutant 'a text that is too wide loses its last digits' layout.c \
	's/^\t\t\ttoo_wide = true;/\t\t\tbreak;/'
mutant 'floor truncates before the epoch' layout.c \
	's/(value % divisor < 0 ? 1 : 0)/(value % divisor < 0 ? 0 : 0)/'
mutant 'floor is off by one at the start of a tick' layout.c \
	's/(value % divisor < 0 ? 1 : 0)/(value < 0 ? 1 : 0)/'
mutant 'ceiling truncates' layout.c \
	's/(value % divisor > 0 ? 1 : 0)/(value % divisor > 0 ? 0 : 0)/'
mutant 'a lower bound past the field wraps' layout.c \
	's/^\t\treturn INT64_MAX;/\t\treturn 0;/'
mutant 'a lower bound at the end of the field wraps' layout.c \
	'/^idgen_layout_lower_bound_ms(/,/^}/s/if (tick >= idgen/if (tick > idgen/'
mutant 'a lower bound before the epoch wraps' layout.c \
	's/if (unix_ms <= layout->epoch_ms)/if (unix_ms == layout->epoch_ms)/'
mutant 'a lower bound right after the epoch is 0' layout.c \
	's/if (unix_ms <= layout->epoch_ms)/if (unix_ms <= layout->epoch_ms + 1)/'
mutant 'a lower bound ignores the epoch' layout.c \
	's/ceil_div(unix_ms - layout->epoch_ms, layout->tick_ms)/ceil_div(unix_ms, layout->tick_ms)/'
mutant 'a lower bound includes the tick before' layout.c \
	's/ceil_div(unix_ms - layout->epoch_ms, layout->tick_ms)/floor_div(unix_ms - layout->epoch_ms, layout->tick_ms)/'
mutant 'a lower bound has ticks of 1 ms' layout.c \
	's/ceil_div(unix_ms - layout->epoch_ms, layout->tick_ms)/ceil_div(unix_ms - layout->epoch_ms, 1)/'
mutant 'a lower bound is the first ID of worker 1' layout.c \
	's/return idgen_layout_assemble(layout, tick, 0, 0);/return idgen_layout_assemble(layout, tick, layout->worker_bits > 0, 0);/'
mutant 'a lower bound is the second ID of its tick' layout.c \
	's/return idgen_layout_assemble(layout, tick, 0, 0);/return idgen_layout_assemble(layout, tick, 0, layout->sequence_bits > 0);/'
mutant 'a short field is not noticed' layout.c \
	's/return IDGEN_LAYOUT_SHORT_FIELD;/return IDGEN_LAYOUT_OK;/'
mutant 'a short field is a bad horizon' layout.c \
	's/return IDGEN_LAYOUT_SHORT_FIELD;/return IDGEN_LAYOUT_BAD_HORIZON;/'
mutant 'a short field hides a bad horizon' layout.c \
	's/^\tif (layout->horizon_ms < layout->tick_ms ||/\tif (layout->horizon_ms > layout->tick_ms * idgen_layout_tick_count(layout))\n\t\treturn IDGEN_LAYOUT_SHORT_FIELD;\n&/'
mutant 'a short field hides a bad tick' layout.c \
	's/^\tif (layout->tick_ms < 1 ||/\tif (layout->horizon_ms > layout->tick_ms * idgen_layout_tick_count(layout))\n\t\treturn IDGEN_LAYOUT_SHORT_FIELD;\n&/'
mutant 'a short field hides a bad epoch' layout.c \
	's/^\tif (layout->epoch_ms < -IDGEN_UNIX_MS_MAX ||/\tif (layout->horizon_ms > layout->tick_ms * idgen_layout_tick_count(layout))\n\t\treturn IDGEN_LAYOUT_SHORT_FIELD;\n&/'
mutant 'a length below one tick is none' layout.c \
	's/return ticks < 1 ? 1 : ticks;/return ticks < 0 ? 1 : ticks;/'
mutant 'a tick too far away overflows' layout.c \
	's/if (tick > IDGEN_UNIX_MS_MAX \/ layout->tick_ms)/if (tick == INT64_MAX)/'
mutant 'the epoch belongs to the time before it' layout.c \
	's/^\tif (tick < 0)$/\tif (tick <= 0)/'

# ---- step ----

mutant 'the offset is the wall clock' clock.c \
	's/return reading->wall_us - reading->elapsed_us;/return reading->wall_us;/'
mutant 'noise is a step' clock.c \
	's/return IDGEN_CLOCK_STEP_NOISE_US + reading->error_us;/return reading->error_us;/'
mutant 'the error of a reading is a step' clock.c \
	's/return IDGEN_CLOCK_STEP_NOISE_US + reading->error_us;/return IDGEN_CLOCK_STEP_NOISE_US + 0 * reading->error_us;/'
mutant 'the greatest noise is a step' clock.c \
	's/return difference > tolerance_of/return difference >= tolerance_of/'
mutant 'the greatest noise back is a step' clock.c \
	's/difference < -tolerance_of/difference <= -tolerance_of/'
mutant 'a step back does not differ' clock.c \
	's/difference < -tolerance_of(reading);/false;/'
mutant 'a step forward does not differ' clock.c \
	's/return difference > tolerance_of(reading) ||/return/'
mutant 'every reading is sure' clock.c \
	's/return reading->error_us <= IDGEN_CLOCK_STEP_NOISE_US;/return reading->error_us >= 0;/'
mutant 'no reading is sure' clock.c \
	's/return reading->error_us <= IDGEN_CLOCK_STEP_NOISE_US;/return reading->error_us < 0;/'
mutant 'a belief is forgotten' clock.c \
	's/record->known = true;/record->known = false;/'
mutant 'believing keeps the doubt' clock.c \
	's/^\trecord->verdict = IDGEN_CLOCK_RIGHT;/\t(void) record->verdict;/'
mutant 'believing keeps the offset' clock.c \
	's/^\trecord->offset_us = offset_of(reading);/\t(void) record->offset_us;/'
mutant 'believing keeps the latest reading' clock.c \
	's/^\trecord->latest_us = reading->wall_us;/\t(void) record->latest_us;/'
mutant 'a step stands without the kernel' clock.c \
	's/return policy->synchronised && is_sure(reading) &&/return (policy->synchronised || true) \&\& is_sure(reading) \&\&/'
mutant 'a step stands by an unsure reading' clock.c \
	's/return policy->synchronised && is_sure(reading) &&/return policy->synchronised \&\&/'
mutant 'a step stands at once' clock.c \
	's/reading->elapsed_us - record->pending_since_us >= IDGEN_CLOCK_STEP_STANDS_US &&/true \&\&/'
mutant 'a step stands a moment late' clock.c \
	's/pending_since_us >= IDGEN_CLOCK_STEP_STANDS_US/pending_since_us > IDGEN_CLOCK_STEP_STANDS_US/'
mutant 'a step of any size ahead is believed' clock.c \
	's/step < IDGEN_CLOCK_STEP_BELIEVED_MAX_US && step/step/'
mutant 'a step of a day ahead is believed' clock.c \
	's/step < IDGEN_CLOCK_STEP_BELIEVED_MAX_US && step/step <= IDGEN_CLOCK_STEP_BELIEVED_MAX_US \&\& step/'
mutant 'a step of any size back is believed' clock.c \
	's/ && step > -IDGEN_CLOCK_STEP_BELIEVED_MAX_US;/;/'
mutant 'a step of a day back is believed' clock.c \
	's/step > -IDGEN_CLOCK_STEP_BELIEVED_MAX_US;/step >= -IDGEN_CLOCK_STEP_BELIEVED_MAX_US;/'
mutant 'a step in question is measured from the wrong side' clock.c \
	's/int64_t\t\tstep = offset_of(reading) - record->offset_us;/int64_t\t\tstep = record->offset_us - offset_of(reading) - 1;/'
mutant 'no step is too great' clock.c \
	's/= step > policy->max_step_us + tolerance_of(reading);/= step == INT64_MAX;/'
mutant 'every step forward is too great' clock.c \
	's/= step > policy->max_step_us + tolerance_of(reading);/= step > tolerance_of(reading);/'
mutant 'the greatest step allowed is too great' clock.c \
	's/= step > policy->max_step_us + /= step >= policy->max_step_us + /'
mutant 'noise counts as ahead' clock.c \
	's/= step > policy->max_step_us + tolerance_of(reading);/= step > policy->max_step_us;/'
mutant 'the last finding stays' clock.c \
	'/^idgen_clock_decide(/,/^}/s/^\tfinding->step_us = 0;/\t(void) finding;/'
mutant 'the last acceptance stays' clock.c \
	's/^\tfinding->accepted_back = false;/\t(void) finding;/'
mutant 'the first reading is judged' clock.c \
	's/if (!record->known)$/if (record->known \&\& record->latest_us < 0)/'
mutant 'an unsure first reading is believed' clock.c \
	's/return is_sure(reading) ? believe(record, reading) : IDGEN_CLOCK_RIGHT;/return believe(record, reading);/'
mutant 'an unsure reading is believed' clock.c \
	's/^\t\tif (is_sure(reading))$/\t\tif (record->known)/'
mutant 'an unsure reading clears a doubt' clock.c \
	's/^\t\treturn record->verdict;/\t\treturn record->verdict = IDGEN_CLOCK_RIGHT;/'
mutant 'a step is found by an unsure reading, and again' clock.c \
	's/^\t\tfinding->step_us = 0;\t.*/\t\t(void) finding;/'
mutant 'a step is found again and again' clock.c \
	's/seen = record->verdict == IDGEN_CLOCK_RIGHT ? record->offset_us :/seen = record->known ? record->offset_us :/'
mutant 'a step is found of the wrong size' clock.c \
	's/finding->step_us = offset - seen;/finding->step_us = step;/'
mutant 'a step is never found' clock.c \
	's/^\t\tfinding->step_us = offset - seen;/\t\tfinding->step_us = 0;/'
mutant 'a step back is believed' clock.c \
	's/if (!ahead && reading->wall_us >= record->latest_us)/if (!ahead)/'
mutant 'a step ahead is believed' clock.c \
	's/if (!ahead && reading->wall_us >= record->latest_us)/if (reading->wall_us >= record->latest_us)/'
mutant 'the same reading again is behind' clock.c \
	's/reading->wall_us >= record->latest_us)/reading->wall_us > record->latest_us)/'
mutant 'a second step goes on with the time of the first' clock.c \
	's/if (record->verdict == IDGEN_CLOCK_RIGHT || finding->step_us != 0)/if (record->verdict == IDGEN_CLOCK_RIGHT)/'
mutant 'a first step below noise has no time of its own' clock.c \
	's/if (record->verdict == IDGEN_CLOCK_RIGHT || finding->step_us != 0)/if (finding->step_us != 0)/'
mutant 'the time of a step begins anew' clock.c \
	's/if (record->verdict == IDGEN_CLOCK_RIGHT || finding->step_us != 0)/if (record->known)/'
mutant 'a pending offset is not remembered' clock.c \
	's/^\t\trecord->pending_us = offset;/\t\t(void) record->pending_us;/'
mutant 'a pending time is not remembered' clock.c \
	's/^\t\trecord->pending_since_us = reading->elapsed_us;/\t\t(void) record->pending_since_us;/'
mutant 'a step back is accepted silently' clock.c \
	's/finding->accepted_back = !ahead;/finding->accepted_back = false;/'
mutant 'a step forward is accepted as one back' clock.c \
	's/finding->accepted_back = !ahead;/finding->accepted_back = true;/'
mutant 'ahead is called behind' clock.c \
	's/record->verdict = ahead ? IDGEN_CLOCK_AHEAD : IDGEN_CLOCK_BEHIND;/record->verdict = IDGEN_CLOCK_BEHIND;/'
mutant 'a confirmation leaves the last finding' clock.c \
	'/^idgen_clock_confirm(/,/^}/s/^\tfinding->step_us = 0;/\t(void) finding;/'
mutant 'a confirmation hides a step back' clock.c \
	's/^\t\treading->wall_us < record->latest_us;/\t\tfalse;/'
mutant 'a confirmation of the same reading is a step back' clock.c \
	's/^\t\treading->wall_us < record->latest_us;/\t\treading->wall_us <= record->latest_us;/'
mutant 'a confirmation of nothing is a step back' clock.c \
	's/finding->accepted_back = record->known &&/finding->accepted_back = !record->known ||/'
mutant 'a confirmation changes nothing' clock.c \
	's/(void) believe(record, reading);/(void) believe;/'
mutant 'a record behind is resumed as if right' clock.c \
	's/if (!record->known || record->verdict == IDGEN_CLOCK_BEHIND)/if (!record->known)/'
mutant 'a record unknown is resumed' clock.c \
	's/if (!record->known || record->verdict == IDGEN_CLOCK_BEHIND)/if (record->verdict == IDGEN_CLOCK_BEHIND)/'
mutant 'resuming forgets the time between' clock.c \
	's/^\t\trecord->latest_us = expected;/\t\t(void) expected;/'
mutant 'resuming takes noise for a step back' clock.c \
	's/reading->wall_us < expected && !differ(/reading->wall_us > expected \&\& !differ(/'
mutant 'resuming believes a step back' clock.c \
	's/reading->wall_us < expected && !differ(reading, record->offset_us))/reading->wall_us < expected)/'
mutant 'resuming moves the latest reading back' clock.c \
	's/if (expected > record->latest_us)/if (expected != 0)/'
mutant 'a pending step is the offset' clock.c \
	's/record->pending_us - record->offset_us : 0;/record->pending_us : 0;/'
mutant 'a step is pending for ever' clock.c \
	's/return record->known && record->verdict != IDGEN_CLOCK_RIGHT ?/return record->known ?/'

# ---- quorum ----

mutant 'FIRST takes the last named' quorum.c \
	's/standbys\[i\]\.priority < standbys\[first\]\.priority ||/standbys[i].priority > standbys[first].priority ||/'
mutant 'of equals the first listed counts' quorum.c \
	's/standbys\[i\]\.flushed < standbys\[first\]\.flushed) :/false) :/'
mutant 'of equals the one ahead counts' quorum.c \
	's/standbys\[i\]\.flushed < standbys\[first\]\.flushed) :/standbys[i].flushed > standbys[first].flushed) :/'
mutant 'the one behind counts, whatever its priority' quorum.c \
	's/(standbys\[i\]\.priority == standbys\[first\]\.priority &&/(standbys[i].priority > 0 \&\&/'
mutant 'ANY takes the slowest' quorum.c \
	's/standbys\[i\]\.flushed > standbys\[first\]\.flushed;/standbys[i].flushed < standbys[first].flushed;/'
mutant 'FIRST is ANY' quorum.c \
	's/bool\t\tbefore = by_priority ?/bool\t\tbefore = by_priority \&\& false ?/'
mutant 'ANY is FIRST' quorum.c \
	's/bool\t\tbefore = by_priority ?/bool\t\tbefore = by_priority || true ?/'
mutant 'the one in front is lost' quorum.c \
	's/^\tstandbys\[first\] = entry;/\t(void) entry;/'
mutant 'the one that comes first is not brought' quorum.c \
	's/^\tstandbys\[0\] = standbys\[first\];/\t(void) first;/'
mutant 'the last listed is overlooked' quorum.c \
	's/for (int32_t i = 1; i < count; i++)/for (int32_t i = 1; i < count - 1; i++)/'
mutant 'none needed is all flushed' quorum.c \
	's/if (needed < 1 || count < needed)/if (count < needed)/'
mutant 'fewer than needed are enough' quorum.c \
	's/if (needed < 1 || count < needed)/if (needed < 1 || count < 1)/'
mutant 'exactly those needed are not enough' quorum.c \
	's/if (needed < 1 || count < needed)/if (needed < 1 || count <= needed)/'
mutant 'one less than needed is enough' quorum.c \
	's/for (int32_t i = 0; i < needed; i++)/for (int32_t i = 0; i < needed - 1; i++)/'
mutant 'the fastest of those needed decides' quorum.c \
	's/if (standbys\[i\]\.flushed < position)/if (standbys[i].flushed > position || position == UINT64_MAX)/'
mutant 'the same one is counted again' quorum.c \
	's/bring_first(standbys + i, count - i, by_priority);/bring_first(standbys, count, by_priority);/'

wait
report
