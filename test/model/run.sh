#!/usr/bin/env bash
# Checks the model of the grant protocol (grants.pml) with spin: every state of every good
# configuration, and a counterexample for every known way to break the protocol.
#
#   test/model/run.sh              all, then "N passed, N failed"
#   TESTS="no-fence ..."           only these
#   TRAIL=no-fence test/model/run.sh   the steps of that counterexample
#
# Needs spin and gcc; one core, less than 400 MB.
set -euo pipefail
cd "$(dirname "$0")"
work=${IDGEN_SCRATCH:-$(mktemp -d)}/model
mkdir -p "$work"
[ -n "${IDGEN_SCRATCH:-}" ] || trap 'rm -rf "${work%/model}"' EXIT
# Far more than it takes: a run that reaches it has not ended, and counts as failed.
limit_s=600
memory_mb=1400

# name | what must be found | defines.  "nothing" is an exhaustive search without an error;
# else the property whose violation must be found.
cases=(
	'fence-local     | nothing    | POLICY=FENCE'
	'fence-quorum    | nothing    | POLICY=FENCE QUORUM=1'
	'split-local     | nothing    | POLICY=SPLIT GRANTS=2 REQUESTS=1'
	'split-longer    | nothing    | POLICY=SPLIT FAULTS=1'
	'split-quorum    | nothing    | POLICY=SPLIT QUORUM=1 GRANTS=2 FAULTS=2'
	'trust-quorum    | nothing    | POLICY=TRUST QUORUM=1'
	'fork            | nothing    | POLICY=FENCE EXTERNALS=2 CURSORS=0 FAULTS=2 LAST_NOW=2'
	'fork-quorum     | nothing    | POLICY=TRUST QUORUM=1 EXTERNALS=2 CURSORS=0 FAULTS=2 LAST_NOW=2'
	# Rules taken out.
	'no-fence        | uniqueness | POLICY=FENCE NO_FENCE'
	'fence-too-low   | uniqueness | POLICY=FENCE NO_CLOCK_ERROR'
	'publish-early   | uniqueness | POLICY=FENCE PUBLISH_EARLY UNIQUE_ONLY'
	'publish-early-d | durability | POLICY=FENCE PUBLISH_EARLY'
	'unconfirmed     | uniqueness | POLICY=TRUST QUORUM=1 RETRY_UNCONFIRMED UNIQUE_ONLY'
	'unconfirmed-d   | durability | POLICY=FENCE QUORUM=1 RETRY_UNCONFIRMED'
	'lease           | uniqueness | POLICY=FENCE EXTERNALS=2 CURSORS=0 FAULTS=0 LEASE'
	'no-parts        | uniqueness | POLICY=SPLIT NO_PARTS'
	'ancestors       | uniqueness | POLICY=SPLIT GRANTS=2 FAULTS=2 REQUESTS=0 OLD_RULE'
	'no-evidence     | uniqueness | POLICY=SPLIT GRANTS=2 FAULTS=2 REQUESTS=0 NO_EVIDENCE'
	'same-part       | uniqueness | POLICY=SPLIT GRANTS=2 FAULTS=2 REQUESTS=0 EARLIER_EVIDENCE'
	'horizon-alone   | uniqueness | POLICY=SPLIT GRANTS=2 FAULTS=2 REQUESTS=0 H_FOR_N'
	'at-once-bare    | uniqueness | POLICY=SPLIT GRANTS=2 FAULTS=2 REQUESTS=0 NO_FLOOR_AT_ONCE'
	'no-chain        | one holder | POLICY=FENCE EXTERNALS=2 CURSORS=0 NO_CHAIN'
	'no-refusal      | an answer  | POLICY=SPLIT QUORUM=1 GRANTS=2 FAULTS=2 NO_REFUSAL'
	# Assumptions taken out: what the contract excludes.
	'grandparent     | uniqueness | POLICY=SPLIT GRANTS=2 FAULTS=2 REQUESTS=0 OUTSIDE_GRANDPARENT'
	'living-parent   | uniqueness | POLICY=FENCE OUTSIDE_PARENT'
)

# What pan says of an assertion that is violated, by the property it stands for.
pattern_of()
{
	case $1 in
		uniqueness) echo 'assertion violated.*(granted|issued)\[' ;;
		durability) echo 'assertion violated.*mark>=' ;;
		'one holder') echo 'assertion violated.*world\.heir' ;;
		'an answer') echo 'assertion violated.*external\[.\]\.state==0' ;;
	esac
}

# check NAME EXPECTED DEFINE...: sets "states" and "result"; false if it is not as expected.
check()
{
	local name=$1 expected=$2 dir=$work/$1 optimize=-O2
	shift 2
	states=0
	mkdir -p "$dir"
	# A counterexample comes sooner than an optimised program.
	[ "$expected" = nothing ] || optimize=-O0
	(
		cd "$dir"
		cp "$OLDPWD/grants.pml" .
		spin -a "${@/#/-D}" grants.pml &&
			"${CC:-gcc}" "$optimize" -w -DSAFETY -DNOREDUCE -DMEMLIM="$memory_mb" -o pan pan.c &&
			timeout "$limit_s" ./pan -m10000
	) >"$dir/out" 2>&1 || true
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$dir/out")
	if [ "$expected" = nothing ]; then
		if grep -q 'errors: 0$' "$dir/out" &&
			! grep -qE 'not completed|max search depth too small|out of memory|^spin:.*[Ee]rror' "$dir/out"; then
			result='exhausted without error'
			return 0
		fi
		result="FAILED: $(grep -m 1 -E '^pan:1|rror|not completed|too small' "$dir/out" || echo 'did not end')"
		return 1
	fi
	if grep -qE "^pan:1: $(pattern_of "$expected")" "$dir/out" && [ -s "$dir/grants.pml.trail" ]; then
		result="counterexample found: $expected"
		return 0
	fi
	result="FAILED: no counterexample to $expected ($(grep -m 1 -E '^pan:1|errors:' "$dir/out" || tail -n 1 "$dir/out"))"
	return 1
}

passed=0
failed=0
selected="${TRAIL:-${TESTS:-}}"
printf '%-16s %10s %6s  %s\n' case states time result
for line in "${cases[@]}"; do
	IFS='|' read -r name expected defines <<<"$line"
	name=${name%% *}
	expected=$(sed 's/^ *//; s/ *$//' <<<"$expected")
	case " ${selected:-$name} " in
		*" $name "*) ;;
		*) continue ;;
	esac
	started=$SECONDS
	# Word splitting on purpose: one define a word.
	# shellcheck disable=SC2086
	if check "$name" "$expected" $defines; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
	fi
	printf '%-16s %10s %4d s  %s\n' "$name" "${states:-?}" $((SECONDS - started)) "$result"
	if [ -n "${TRAIL:-}" ] && [ -s "$work/$name/grants.pml.trail" ]; then
		# shellcheck disable=SC2086
		set -- $defines
		(cd "$work/$name" && spin -t -T -B "${@/#/-D}" grants.pml | grep '^ *@')
	fi
done
[ $((passed + failed)) -gt 0 ] || { echo "no case named $selected" >&2; failed=1; }
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
