#!/usr/bin/env bash
# Runs stages of the test suite and adds up what they found.
#
#   test/run.sh STAGE...      unit setup sim model build regress pgtap isolation tap instructions drills
#                             clients servers fresh counterparts bench fuzz coverage
#
# Stops at the first stage that fails. A stage in which nothing ran has failed, but for "servers". The last line is
# "N passed, N failed": test cases of the unit, setup, pgTAP and TAP files, configurations of the model,
# files of the others.
#
#   TESTS="name ..."     only these tests
#   IDGEN_BREAK=name     on a build without that safety rule
#   IDGEN_TREE=directory on a private tree that is built already
#   FUZZ_SECONDS=n       how long each fuzz target runs (default 60)
#   IDGEN_JOBS=n         TAP files at a time (default 3, which wait most of the time; drills 1)
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || die 'usage: test/run.sh STAGE...'
[ -n "${IDGEN_SCRATCH:-}" ] || exec "$top/test/sandbox.sh" test/run.sh "$@"
! awkward_path "$IDGEN_SCRATCH" || die "IDGEN_SCRATCH: make would take this path apart: $IDGEN_SCRATCH"
cd "$top"
export IDGEN_TOP=$top

# Every stage sets these.
passed=0
failed=0
# Set by build: the programs of the private tree.
bin=

# ---------------------------------------------------------------------------------------------
# Which tests

# Prints the test files of a pattern's matches, those asked for if TESTS names some.
select_tests()
{
	local file name
	for file in "$@"; do
		[ -e "$file" ] || continue
		name=${file##*/}
		name=${name%.*}
		if [ -n "${TESTS:-}" ]; then
			case " $TESTS " in
				*" $name "* | *" $file "*) ;;
				*) continue ;;
			esac
		fi
		echo "$file"
	done
}

# Puts the names of the tests asked for into the array "tests".
name_tests()
{
	local file
	tests=()
	for file in "$@"; do
		file=${file##*/}
		tests+=("${file%.*}")
	done
}

nothing_to_test()
{
	echo "no tests in $1${TESTS:+ named $TESTS}: a stage that tests nothing has failed" >&2
	failed=1
	return 1
}

show_tail()
{
	[ -s "$2" ] || return 0
	echo "---- last $1 lines of $2"
	tail -n "$1" "$2"
}

# ---------------------------------------------------------------------------------------------
# What speaks TAP is run and judged by prove

# run_prove OUTPUT ARGUMENT...: shows what prove says, keeps it in a file, and takes the counts from its summary. A file
# that ended badly after its last test has no failed test; it counts as one.
run_prove()
{
	local out=$1 status=0
	shift
	prove --timer --failures "$@" 2>&1 | tee "$out" || status=$?
	read -r passed failed < <(awk '
		/ \(Wstat: .* Tests: [0-9]+ Failed: [0-9]+\)$/ { n = $NF + 0; not_ok += n; bad += n > 0 ? n : 1 }
		/^Files=/ { sub(/.*Tests=/, ""); tests += $0 + 0 }
		/^Result: PASS$/ { bad = 0 }
		END { print tests - not_ok, bad + 0 }' "$out")
	if [ $((passed + failed)) -eq 0 ]; then
		echo 'all files were skipped: a stage that tests nothing has failed' >&2
		failed=1
	fi
	[ "$failed" -gt 0 ] || [ "$status" -eq 0 ] || failed=1
	[ "$failed" -eq 0 ]
}

# The files that failed, in what run_prove kept.
failed_files() { sed -n 's/ *(Wstat: .* Tests: [0-9]* Failed: [0-9]*)$//p' "$1"; }

# ---------------------------------------------------------------------------------------------
# unit: the core without a server

# The tests, and the corpora of the fuzz targets.
stage_unit()
{
	local files targets tests cc
	mapfile -t files < <(select_tests test/unit/*_test.c)
	mapfile -t targets < <(select_tests test/fuzz/*_fuzz.c)
	[ $((${#files[@]} + ${#targets[@]})) -gt 0 ] || { nothing_to_test test/unit; return; }
	cc=$(sanitizing_cc)
	[ -n "$cc" ] || { echo 'no compiler with sanitizers' >&2; failed=1; return 1; }
	if [ ${#files[@]} -gt 0 ]; then
		name_tests "${files[@]}"
		make -s -C test/unit -j"$(cpu_count)" rules all CC="$cc" BUILD="$IDGEN_SCRATCH/unit" \
			${TESTS:+TESTS="${tests[*]}"} || { failed=1; return 1; }
	fi
	if [ ${#targets[@]} -gt 0 ]; then
		name_tests "${targets[@]}"
		make -s -C test/fuzz -j"$(cpu_count)" all CC="$cc" BUILD="$IDGEN_SCRATCH/fuzz" \
			TARGETS="${tests[*]%_fuzz}" || { failed=1; return 1; }
	fi
	run_prove "$IDGEN_SCRATCH/unit.out" --exec test/core.sh "${files[@]}" "${targets[@]}"
}

# ---------------------------------------------------------------------------------------------
# setup: what is said and installed where packages are missing

stage_setup()
{
	run_prove "$IDGEN_SCRATCH/setup.out" --exec bash test/fresh/states.sh :: "$IDGEN_SCRATCH/setup"
}

# fresh: the same for real, in the root of a fresh system. That needs root, which the sandbox took
# away: test/fresh/drill.sh ran before and says by IDGEN_FRESH what it found.

stage_fresh()
{
	case ${IDGEN_FRESH:-} in
		[0-9]*' '[0-9]*)
			read -r passed failed <<<"$IDGEN_FRESH"
			[ $((passed + failed)) -gt 0 ] || nothing_to_test test/fresh ;;
		skipped:*) skipped=${IDGEN_FRESH#skipped: } ;;
		*) skipped='test/fresh/drill.sh did not run' ;;
	esac
	[ "$failed" -eq 0 ]
}

# ---------------------------------------------------------------------------------------------
# model: every state of a model of the grant protocol

stage_model()
{
	local out=$IDGEN_SCRATCH/model.out status=0
	test/model/run.sh 2>&1 | tee "$out" || status=$?
	# The last line; there is none if the script ended early.
	read -r passed failed < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$out" | tail -n 1) ||
		failed=1
	[ "$failed" -gt 0 ] || [ "$status" -eq 0 ] || failed=1
	[ "$failed" -eq 0 ]
}

# ---------------------------------------------------------------------------------------------
# fuzz: more inputs for the core, as long as FUZZ_SECONDS says for each target

stage_fuzz()
{
	local files tests cc out=$IDGEN_SCRATCH/fuzz.tap status=0
	mapfile -t files < <(select_tests test/fuzz/*_fuzz.c)
	[ ${#files[@]} -gt 0 ] || { nothing_to_test test/fuzz; return; }
	cc=$(fuzzing_cc)
	[ -n "$cc" ] || { echo 'no clang with libFuzzer, see test/setup.sh' >&2; failed=1; return 1; }
	name_tests "${files[@]}"
	make -s -C test/fuzz -j"$(cpu_count)" fuzz FUZZ_CC="$cc" BUILD="$IDGEN_SCRATCH/fuzz" \
		FOUND="$IDGEN_SCRATCH/found" FUZZ_SECONDS="${FUZZ_SECONDS:-60}" TARGETS="${tests[*]%_fuzz}" >"$out" || status=$?
	run_prove "$IDGEN_SCRATCH/fuzz.out" --verbose "$out" || status=1
	[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
	[ -n "${KEEP:-}" ] || [ "$failed" -gt 0 ] || echo '# KEEP=1 keeps them; make -C test/fuzz grow FOUND=... adds them to the corpus'
	[ "$failed" -eq 0 ]
}

# ---------------------------------------------------------------------------------------------
# sim: generators, an authority and faults, from a seed

# About half a minute of one core: many seeds, a few with sanitizers, and some of the broken rules.
# With SEED, TRACE, SCALE or MUTANTS only what they ask for.
stage_sim()
{
	local cc out=$IDGEN_SCRATCH/sim.out status=0 targets=(check) seed
	local make_sim=(make -s -C test/sim BUILD="$IDGEN_SCRATCH/sim")
	cc=$(sanitizing_cc)
	[ -n "$cc" ] || { echo 'no compiler with sanitizers' >&2; failed=1; return 1; }
	seed=${SEED:-$((16#${IDGEN_COMMIT:-1}))}
	[ -z "${MUTANTS:-}" ] || seed=${SEED:-1}
	make_sim+=(CC="$cc" SEED="$seed" ${N:+N="$N"})
	if [ -n "${SCALE:-}" ]; then
		targets=(scale)
	elif [ -n "${MUTANTS:-}" ]; then
		targets=(mutants)
	elif [ -n "${TRACE:-}" ]; then
		targets=(seeds)
	fi
	"${make_sim[@]}" "${targets[@]}" 2>&1 | tee "$out" || status=$?
	if [ "${targets[0]}" = check ] && [ -z "${SEED:-}" ] && [ "$status" -eq 0 ]; then
		SAMPLE=8 SEED=1 "${make_sim[@]}" SEED=1 N=1000 mutants 2>&1 | tee -a "$out" || status=$?
	fi
	passed=$(grep -c '^ok ' "$out" || true)
	failed=$(grep -c '^not ok ' "$out" || true)
	[ "$failed" -gt 0 ] || [ "$status" -eq 0 ] || failed=1
	[ "$passed" -gt 0 ] || [ "$failed" -gt 0 ] || nothing_to_test test/sim
	[ "$failed" -eq 0 ]
}

# ---------------------------------------------------------------------------------------------
# build: warnings are errors, includes point one way, and every header compiles alone

build()
{
	[ -z "$bin" ] || return 0
	if [ -n "${IDGEN_TREE:-}" ]; then
		bin=$IDGEN_TREE/root$pg_bindir
	else
		test/private-tree.sh "$@" "$IDGEN_SCRATCH/pg" >"$IDGEN_SCRATCH/build.out" ||
			{ cat "$IDGEN_SCRATCH/build.out"; return 1; }
		bin=$(tail -n 1 "$IDGEN_SCRATCH/build.out")
	fi
	PATH=$bin:$PATH
	export PATH
}

stage_build()
{
	local header cc
	if build --strict; then
		echo 'extension .. ok'
		passed=1
	else
		failed=1
		return 1
	fi
	if test/includes.sh; then
		echo 'includes .. ok'
		passed=$((passed + 1))
	else
		echo 'includes .. FAILED'
		failed=$((failed + 1))
	fi
	cc=${CC:-$("$PG_CONFIG" --cc)}
	# Those of the core are looked at by its own tests, without PostgreSQL.
	for header in src/*.h src/*/*.h; do
		[ "${header#src/core/}" = "$header" ] || continue
		# As everywhere in PostgreSQL, postgres.h comes first in a source file.
		# shellcheck disable=SC2046
		if $cc -std=gnu11 $("$PG_CONFIG" --cppflags) -isystem "$("$PG_CONFIG" --includedir-server)" -Isrc \
			-include postgres.h -Wall -Werror -Wno-unused-function -fsyntax-only -x c "$header"; then
			passed=$((passed + 1))
		else
			echo "$header .. FAILED: does not compile alone"
			failed=$((failed + 1))
		fi
	done
	[ "$failed" -gt 0 ] || echo "$((passed - 2)) headers alone .. ok"
	[ "$failed" -eq 0 ]
}

# What the stages with a server need. Warnings are errors here too, so that the edit loop shows
# what the whole suite would.
need_build()
{
	build --strict || { echo 'build failed' >&2; failed=1; return 1; }
}

# ---------------------------------------------------------------------------------------------
# regress, isolation: pg_regress with a server of its own

# run_pg_regress NAME PROGRAM INPUT-DIRECTORY OUTPUT-DIRECTORY TEST...
run_pg_regress()
{
	local name=$1 program=$2 input=$3 out=$4 status=0
	shift 4
	mkdir -p "$out"
	# The input directory is the current one, because the options that name the directory of the
	# expected files differ between majors, and their defaults agree on this.
	(
		cd "$input"
		"$program" --inputdir=. --outputdir="$out" --bindir="$bin" \
			--temp-instance="$out/instance" --temp-config="$top/test/regress.conf" \
			--no-locale --encoding=UTF8 --load-extension=idgen --dbname="idgen_$name" "$@"
	) 2>&1 | tee "$out/output" || status=$?
	# "test x ... ok 12 ms" up to 15, "ok 1 - x 12 ms" since.
	passed=$(grep -cE '^(test +|     )[^ ]+ +\.\.\. ok|^ok [0-9]+ ' "$out/output" || true)
	failed=$(($# - passed))
	[ "$failed" -gt 0 ] || [ "$status" -eq 0 ] || failed=1
	if [ "$failed" -gt 0 ]; then
		if [ -s "$out/regression.diffs" ]; then
			echo "---- $out/regression.diffs"
			head -n 300 "$out/regression.diffs"
		fi
		show_tail 30 "$out/log/postmaster.log"
		return 1
	fi
}

stage_regress()
{
	local files tests
	mapfile -t files < <(select_tests sql/*.sql | grep -v '^sql/idgen--' || true)
	[ ${#files[@]} -gt 0 ] || { nothing_to_test sql; return; }
	need_build || return
	name_tests "${files[@]}"
	run_pg_regress regress "$pgxs_dir/src/test/regress/pg_regress" . "$IDGEN_SCRATCH/regress" "${tests[@]}"
}

stage_isolation()
{
	local files tests
	mapfile -t files < <(select_tests test/isolation/specs/*.spec)
	[ ${#files[@]} -gt 0 ] || { nothing_to_test test/isolation/specs; return; }
	need_build || return
	name_tests "${files[@]}"
	run_pg_regress isolation "$pgxs_dir/src/test/isolation/pg_isolation_regress" test/isolation \
		"$IDGEN_SCRATCH/isolation" "${tests[@]}"
}

# ---------------------------------------------------------------------------------------------
# pgtap, tap, drills, clients: files that speak TAP

stage_pgtap()
{
	local files dir=$IDGEN_SCRATCH/pgtap status=0
	mapfile -t files < <(select_tests test/pgtap/*.sql)
	[ ${#files[@]} -gt 0 ] || { nothing_to_test test/pgtap; return; }
	need_build || return
	start_server "$bin" "$dir" || { failed=1; return 1; }
	if createdb pgtap_template && psql -X -q -d pgtap_template -c 'CREATE EXTENSION pgtap'; then
		run_prove "$dir/output" --exec test/pgtap.sh "${files[@]}" || status=1
	else
		failed=1 status=1
	fi
	stop_server "$bin" "$dir" || { echo 'the server did not stop' >&2; failed=$((failed + 1)) status=1; }
	[ "$status" -eq 0 ] || show_tail 40 "$dir/server.log"
	return "$status"
}

# run_tap DIRECTORY JOBS: files that use PostgreSQL::Test::Cluster. The variables are those that
# PostgreSQL's own makefiles set, of all majors.
run_tap()
{
	local files dir=$IDGEN_SCRATCH/${1##*/} log file status=0
	# backwards: most of the long ones have high numbers, and none should run alone at the end
	mapfile -t files < <(select_tests "$1"/*.pl | sort -r)
	[ ${#files[@]} -gt 0 ] || { nothing_to_test "$1"; return; }
	need_build || return
	mkdir -p "$dir/tmp_check/log"
	local -x TESTDIR=$dir TESTDATADIR=$dir/tmp_check TESTLOGDIR=$dir/tmp_check/log
	local -x top_builddir=$dir PG_TEST_PORT_DIR=$dir/portlock PGPORT=65432
	local -x PG_REGRESS=$pgxs_dir/src/test/regress/pg_regress
	local -x PERL5LIB=$pgxs_dir/src/test/perl:$top/test/perl${PERL5LIB:+:$PERL5LIB}
	local PGHOST PGUSER PGDATABASE
	unset PGHOST PGUSER PGDATABASE
	run_prove "$dir/output" --jobs "$2" "${files[@]}" || status=1
	for file in $(failed_files "$dir/output"); do
		file=${file##*/}
		for log in "$dir/tmp_check/log/regress_log_${file%.pl}" "$dir/tmp_check/log/${file%.pl}"_*.log; do
			show_tail 40 "$log"
		done
	done
	return "$status"
}

stage_tap() { run_tap test/t "${IDGEN_JOBS:-3}"; }
stage_drills() { run_tap test/drills "${IDGEN_JOBS:-1}"; }
stage_clients() { run_tap test/clients "${IDGEN_JOBS:-1}"; }

# ---------------------------------------------------------------------------------------------
# coverage: which lines of src the stages with a server reach

# What servers count that are killed is lost. The core is tested without a server as well, see stage_unit.
stage_coverage()
{
	local stage files total=0 not_ok=0 dir=$IDGEN_SCRATCH/coverage deliver=$IDGEN_SCRATCH/deliver/coverage
	command -v lcov >/dev/null || { echo 'lcov is missing, see test/setup.sh' >&2; failed=1; return 1; }
	mkdir -p "$dir" "$deliver"
	build --coverage || { failed=1; return 1; }
	for stage in regress pgtap tap; do
		case $stage in
			regress) files=(sql/*.sql) ;;
			pgtap) files=(test/pgtap/*.sql) ;;
			tap) files=(test/t/*.pl) ;;
		esac
		[ -n "$(select_tests "${files[@]}")" ] || continue
		passed=0 failed=0
		"stage_$stage" || [ "$failed" -gt 0 ] || failed=1
		total=$((total + passed)) not_ok=$((not_ok + failed))
	done
	passed=$total failed=$not_ok
	[ $((passed + failed)) -gt 0 ] || { nothing_to_test 'sql, test/pgtap and test/t'; return; }
	{
		lcov --quiet --capture --no-external --base-directory "$IDGEN_SCRATCH/pg/source" \
			--directory "$IDGEN_SCRATCH/pg/source/src" --output-file "$dir/all.info" &&
			genhtml --quiet --prefix "$IDGEN_SCRATCH/pg/source" --title idgen --output-directory "$deliver" "$dir/all.info"
	} >"$dir/out" 2>&1 || { tail -n 20 "$dir/out"; failed=$((failed + 1)); }
	lcov --list "$dir/all.info" 2>/dev/null || true
	echo 'written: coverage/index.html'
	[ "$failed" -eq 0 ]
}

# ---------------------------------------------------------------------------------------------
# servers: the stages with a server, on others than the installed one (test/servers.sh)

# What runs on which: all that asserts can find in little time, and on the newest version what no
# other stage sees there.
stages_on()
{
	case $1 in
		assert) echo 'regress pgtap isolation' ;;
		newest) echo 'regress isolation' ;;
	esac
}

# Those that cancel, restore, move the schema and roll back; not those that measure or wait.
tap_on()
{
	case $1 in
		assert) echo '003_cancel 015_schema 103_transactions 106_restore' ;;
		newest) ;;
	esac
}

# on_server NAME PG_CONFIG STAGE...: adds up what the stages said. The caller sets which tests, and the
# tree that is built already, if there is one.
on_server()
{
	local name=$1 config=$2 own=$IDGEN_SCRATCH/$1 out p f
	shift 2
	out=$own/$1.out
	mkdir -p "$own"
	env -u IDGEN_TREE PG_CONFIG="$config" IDGEN_SCRATCH="$own" ${tree:+IDGEN_TREE="$tree"} \
		TESTS="$tests" QUICK="$quick" test/run.sh "$@" >"$out" 2>&1 || true
	tree=$own/pg
	read -r p f < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$out" | tail -n 1) || true
	grep -E '^[a-z]+ +(ok|FAILED) +[0-9]+ passed' "$out" | sed 's/^/  /' || true
	if [ "${f:-1}" -ne 0 ]; then
		cat "$out"
	fi
	passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1}))
}

stage_servers()
{
	local name config tree tests stages quick
	while read -r name config; do
		echo "$name: $("$config" --version)"
		tree='' tests='' quick=1
		read -ra stages < <(stages_on "$name")
		on_server "$name" "$config" "${stages[@]}"
		tests=$(tap_on "$name")
		[ -z "$tests" ] || on_server "$name" "$config" tap
		tests=invalidations quick=
		on_server "$name" "$config" drills
	done < <(test/servers.sh --list)
	[ $((passed + failed)) -gt 0 ] || echo 'skipped: there are no other servers, test/servers.sh says why'
	[ "$failed" -eq 0 ]
}

# ---------------------------------------------------------------------------------------------
# counterparts: builds without a safety rule, on which the rule's test has to fail

stage_counterparts()
{
	test/counterparts.sh "$IDGEN_SCRATCH/counterparts" || true
	[ -s "$IDGEN_SCRATCH/counterparts/summary" ] || return 1
	read -r passed failed <"$IDGEN_SCRATCH/counterparts/summary"
	[ "$failed" -eq 0 ]
}

# ---------------------------------------------------------------------------------------------
# instructions: has issuing become slower, by a count that no other work on the machine changes?

stage_instructions()
{
	local dir=$IDGEN_SCRATCH/instructions out=$IDGEN_SCRATCH/instructions.out status=0
	# An ordinary build, as users have it: other flags are other code.
	build || { failed=1; return 1; }
	test/instructions/run.sh "$bin" "$IDGEN_SCRATCH/pg/source" "$dir" >"$out" 2>&1 || status=1
	grep -v '^[0-9]* passed, ' "$out" || true
	read -r passed failed < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$out") || true
	passed=${passed:-0} failed=${failed:-0}
	[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
	[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

# ---------------------------------------------------------------------------------------------
# bench: scripts that measure on a fresh server, with the flags of an ordinary build

# Each test/bench/*.c becomes a module that LOAD and CREATE FUNCTION find as '$libdir/<name>'.
build_bench_modules()
{
	local source
	for source in test/bench/*.c; do
		[ -e "$source" ] || continue
		# shellcheck disable=SC2046
		$("$PG_CONFIG" --cc) $("$PG_CONFIG" --cppflags) $("$PG_CONFIG" --cflags) \
			$("$PG_CONFIG" --cflags_sl) -I"$("$PG_CONFIG" --includedir-server)" -Isrc -shared \
			-o "$("$bin/pg_config" --pkglibdir)/$(basename "$source" .c).so" "$source" || return 1
	done
}

# The parts of a full run in their order. load.sh runs only where it is asked for.
select_bench()
{
	local part files=()
	for part in issue sessions latency soak inserts bulk costs; do
		files+=("test/bench/$part.pl")
	done
	[ -z "${TESTS:-}" ] || files+=(test/bench/load.sh)
	select_tests "${files[@]}"
}

# What the sandbox takes back to the caller's tree: the results of a full run, or of a part, with a chart
# for each question. Fails if a target was missed, but for QUICK, which measures too little to say so.
deliver_bench()
{
	local name=full charts=doc/bench deliver=$IDGEN_SCRATCH/deliver status=0
	[ -z "${TESTS:-}${QUICK:-}" ] || name=partial charts=doc/bench/partial
	mkdir -p "$deliver/$charts"
	# What was measured is kept, also where it cannot be drawn.
	cp "$IDGEN_BENCH_RESULTS" "$deliver/doc/bench/$name.tsv"
	{ cat "$1"; echo; cat "$2"; } >"$deliver/doc/bench/$name.txt"
	perl test/bench/report.pl "$IDGEN_BENCH_RESULTS" "$1" "$deliver/$charts" || status=$?
	[ "$status" -eq 0 ] || [ "$status" -eq 3 ] || return 1
	echo "written: doc/bench/$name.txt, doc/bench/$name.tsv and the charts in $charts"
	[ "$status" -eq 0 ] || [ -n "${QUICK:-}" ]
}

load_average() { [ ! -r /proc/loadavg ] || echo "load average $1: $(cut -d' ' -f1 /proc/loadavg) on $(cpu_count) processors"; }

run_bench()
{
	local file status=0
	load_average before
	for file in "$@"; do
		echo
		echo "-- $file"
		case $file in
			*.sh) bash "$file" ;;
			*.pl) perl "$file" ;;
		esac || { echo "$file FAILED"; status=1; }
	done
	load_average after
	return "$status"
}

stage_bench()
{
	local files dir=$IDGEN_SCRATCH/bench
	mapfile -t files < <(select_bench)
	[ ${#files[@]} -gt 0 ] || { nothing_to_test test/bench; return; }
	build || { failed=1; return 1; }
	build_bench_modules || { failed=1; return 1; }
	# Room for the costs of a thousand generators; and no checkpoint or vacuum of the server's own choice.
	start_server "$bin" "$dir" 'max_connections = 1200' 'idgen.max_cursors = 2048' 'shared_buffers = 512MB' \
		'max_wal_size = 8GB' 'checkpoint_timeout = 1h' 'autovacuum = off' || { failed=1; return 1; }
	export PGDATABASE=bench IDGEN_BENCH_DIR=$dir IDGEN_BENCH_RESULTS=$dir/results
	: >"$IDGEN_BENCH_RESULTS"
	createdb bench
	psql -X -q -v ON_ERROR_STOP=1 -f test/bench/setup.sql || { failed=1; return 1; }
	test/bench/machine.sh | tee "$dir/machine"
	run_bench "${files[@]}" > >(tee "$dir/output") 2>&1 || failed=$(grep -c ' FAILED$' "$dir/output")
	passed=$((${#files[@]} - failed))
	[ "$failed" -eq 0 ] || show_tail 40 "$dir/server.log"
	[ "$failed" -gt 0 ] || [ ! -s "$IDGEN_BENCH_RESULTS" ] || deliver_bench "$dir/machine" "$dir/output" || failed=1
	stop_server "$bin" "$dir" || failed=$((failed + 1))
	[ "$failed" -eq 0 ]
}

# ---------------------------------------------------------------------------------------------

unset MAKEFLAGS MFLAGS MAKELEVEL
find_postgres || die 'no PostgreSQL server development files, see test/setup.sh'

total_passed=0
total_failed=0
report=()
for stage in "$@"; do
	declare -F "stage_$stage" >/dev/null || die "unknown stage $stage"
done
for stage in "$@"; do
	echo
	echo "== $stage"
	passed=0
	failed=0
	skipped=
	started=$SECONDS
	verdict=ok
	"stage_$stage" || verdict=FAILED
	# Neither may be missed: a stage that says it failed, and one that counted failures.
	[ "$verdict" = ok ] || [ "$failed" -gt 0 ] || failed=1
	[ "$failed" -eq 0 ] || verdict=FAILED
	total_passed=$((total_passed + passed))
	total_failed=$((total_failed + failed))
	if [ -n "$skipped" ]; then
		echo "skipped: $skipped"
		report+=("$(printf '%-10s skipped: %s' "$stage" "$skipped")")
		continue
	fi
	report+=("$(printf '%-10s %-7s %6d passed %4d failed %5d s' "$stage" "$verdict" "$passed" "$failed" $((SECONDS - started)))")
	[ "$verdict" = ok ] || break
done

echo
printf '%s\n' "${report[@]}"
[ ${#report[@]} -eq $# ] || echo "not run:  ${*:$((${#report[@]} + 1))}"
[ -z "${IDGEN_BREAK:-}" ] || echo "on a build without the safety rule $IDGEN_BREAK"
[ "$total_failed" -eq 0 ] || echo "logs and data: ${IDGEN_KEPT:-$IDGEN_SCRATCH}"
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" -eq 0 ]
