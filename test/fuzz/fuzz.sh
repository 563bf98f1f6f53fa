#!/usr/bin/env bash
# Runs libFuzzer on targets, as many at a time as there are processors; prints TAP. The corpus is
# only read. What is new goes to FOUND/<target>, what fails to FOUND/<target>.failed.
#
#   fuzz.sh BUILD FOUND SECONDS TARGET... -- FLAG...
#
# SEED=n repeats a run as far as its length is the same.
set -u
cd "$(dirname "$0")" || exit 1

build=$1 found=$2 seconds=$3
shift 3
targets=()
while [ "$1" != -- ]; do targets+=("$1"); shift; done
shift
jobs_max=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)

run()
{
	local target=$1 number=$2 out=$found/$1.out status=0 inputs
	shift 2
	mkdir -p "$found/$target" "$found/$target.failed"
	"$build/${target}_fuzz" -max_total_time="$seconds" ${SEED:+-seed="$SEED"} "$@" \
		-print_final_stats=1 -artifact_prefix="$found/$target.failed/" \
		"$found/$target" "corpus/$target" >"$out" 2>&1 || status=$?
	inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out")
	{
		if [ "$status" -eq 0 ]; then
			echo "ok $number - fuzz $target: $inputs inputs in $seconds s, $(find "$found/$target" -type f | wc -l) of them new"
		else
			echo "not ok $number - fuzz $target"
			grep -E 'not true|runtime error|ERROR: |Test unit written' "$out" | sed 's/^/# /'
			grep -E '^#[0-9]+ |^    #[0-9]+ ' "$out" | grep -E 'src/core|_fuzz\.c' | sed 's/^ */# /' | head -n 8
		fi
	} >"$found/$target.tap"
	return "$status"
}

mkdir -p "$found" || exit 1
echo "1..${#targets[@]}"
number=0
for target in "${targets[@]}"; do
	number=$((number + 1))
	while [ "$(jobs -pr | wc -l)" -ge "$jobs_max" ]; do wait -n; done
	run "$target" "$number" "$@" &
done
wait
failed=0
for target in "${targets[@]}"; do
	cat "$found/$target.tap"
	! grep -q '^not ok' "$found/$target.tap" || failed=1
done
echo "# new inputs, and those that fail: $found"
exit "$failed"
