#!/usr/bin/env bash
# Shows that the tests can fail: takes each rule of test/counterparts out of a build and runs the test
# that is named for it there, which has to fail, and in the check that is about the rule.
#
#   test/counterparts.sh DIRECTORY
#
#   TESTS="name ..."   only these rules
#   N=n                only so many of them; other ones for another commit
#   IDGEN_JOBS=n       rules at a time (default 2)
#
# That the test passes with the rule is what make test and make drills have seen.
#
# Some faults show only when two processes meet, which no test can force: a rule that is not caught
# is tried again, five times in all.
#
# Prints a table. What is not "caught" in the end is a failure of this stage:
#   NOT CAUGHT      the test passes without the rule
#   OTHER CHECK     it fails, but in no check that is about the rule
#   NO TEST         the build does not compile, or the test ended before its first failed check
# DIRECTORY/summary gets "<caught> <failures>"; what a rule left behind is in DIRECTORY/<rule>.
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"
[ $# -eq 1 ] || die 'usage: test/counterparts.sh DIRECTORY'
cd "$top"
mkdir -p "$1"
dir=$(cd "$1" && pwd -P)
# A test that hangs without its rule has not shown why. Some poll for a minute until they fail.
seconds_max=300
tries_max=5

# Builds without a rule and runs the rule's test there until it is caught; the verdict goes to a file.
try_rule()
{
	local name=$1 test=$2 check=$3 own=$dir/$1 started=$SECONDS file stage tries=0 verdict=
	file=$(ls test/t/"${test%:*}".pl test/drills/"${test%:*}".pl 2>/dev/null || true)
	stage=tap
	[ "${file#test/drills/}" = "$file" ] || stage=drills
	mkdir -p "$own"
	if [ ! -f "$file" ] ||
		! test/private-tree.sh --break "$name" --from "$dir/base" "$own/pg" >"$own/build.out" 2>&1; then
		echo 'NO TEST' >"$own/verdict"
		return
	fi
	until [ "$verdict" = caught ] || [ "$tries" -eq "$tries_max" ]; do
		tries=$((tries + 1))
		mkdir -p "$own/$tries"
		verdict=$(run_test "$stage" "$test" "$check" "$own/pg" "$own/$tries")
		# Room for the others; the logs stay.
		rm -rf "$own/$tries"/*/tmp_check/t_*_data
	done
	rm -rf "$own/pg"
	echo "$verdict" >"$own/verdict"
	printf '%7s %5s' $((SECONDS - started)) "$tries" >"$own/effort"
}

# Runs the test of a rule in a directory of its own and prints the verdict.
run_test()
{
	local stage=$1 test=$2 check=$3 tree=$4 own=$5 status=0
	IDGEN_TREE=$tree IDGEN_SCRATCH=$own IDGEN_PART=$(part_of "$test") IDGEN_EXPECTED=$check \
		QUICK=1 TESTS=${test%:*} timeout -k 15 "$seconds_max" test/run.sh "$stage" >"$own/out" 2>&1 || status=$?
	# The failed checks, as prove shows them.
	if grep '^not ok' "$own/out" | grep -qE -- "$check"; then
		echo caught
	elif grep -q '^not ok' "$own/out"; then
		echo 'OTHER CHECK'
	elif [ "$status" -eq 0 ]; then
		echo 'NOT CAUGHT'
	else
		echo 'NO TEST'
	fi
}

part_of()
{
	case $1 in
		*:*) echo "${1#*:}" ;;
	esac
}

test/private-tree.sh "$dir/base" >"$dir/build.out" 2>&1 || { cat "$dir/build.out"; die 'build failed'; }
# The rules asked for, in the order of the table; of N of them, those that come first by a hash with
# the commit.
select_rules()
{
	test/break.sh --list | while IFS=$'\t' read -r name test check; do
		case " ${TESTS:-$name} " in
			*" $name "*) printf '%s\t%s\t%s\n' "$name" "$test" "$check" ;;
		esac
	done >"$dir/rules"
	[ -n "${N:-}" ] || { cat "$dir/rules"; return; }
	cut -f 1 "$dir/rules" | while read -r name; do
		echo "$(cksum <<<"${IDGEN_COMMIT:-} $name" | cut -d ' ' -f 1) $name"
	done | sort -n | sed -n "1,${N}s/^[0-9]* //p" | grep -Fxf - <(cut -f 1 "$dir/rules") |
		while read -r name; do
			awk -F '\t' -v name="$name" '$1 == name' "$dir/rules"
		done
}

rules=()
while IFS=$'\t' read -r name test check; do
	rules+=("$name"$'\t'"$test")
	while [ "$(jobs -pr | wc -l)" -ge "${IDGEN_JOBS:-2}" ]; do
		wait -n || true
	done
	try_rule "$name" "$test" "$check" &
done < <(select_rules)
wait
[ ${#rules[@]} -gt 0 ] || die "no rules${TESTS:+ named $TESTS}: a stage that tests nothing has failed"

# Why a rule was not caught: the checks that failed, else the end of what was said.
explain()
{
	local own=$dir/$1 out
	echo "---- $1"
	[ -s "$own/1/out" ] || { tail -n 5 "$own/build.out" 2>/dev/null || echo 'there is no such test'; return; }
	for out in "$own"/*/out; do
		grep '^not ok' "$out" || grep -v '^[0-9]\{4\}-' "$out" | head -n 20
	done
}

caught=0
wrong=()
printf '%-24s %-28s %-12s %s\n' rule test verdict 'seconds tries'
for rule in "${rules[@]}"; do
	name=${rule%$'\t'*}
	verdict=$(cat "$dir/$name/verdict" 2>/dev/null || echo 'NO TEST')
	printf '%-24s %-28s %-12s %s\n' "$name" "${rule#*$'\t'}" "$verdict" "$(cat "$dir/$name/effort" 2>/dev/null || true)"
	if [ "$verdict" = caught ]; then
		caught=$((caught + 1))
		rm -rf "${dir:?}/$name"
	else
		wrong+=("$name")
	fi
done
for name in ${wrong[@]+"${wrong[@]}"}; do
	explain "$name"
done
echo "$caught $((${#rules[@]} - caught))" >"$dir/summary"
[ "$caught" -eq ${#rules[@]} ]
