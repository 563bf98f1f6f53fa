#!/usr/bin/env bash
# 500 external generators, each with a connection and a grant of one second at a time, beside a
# running insert load.
#
#   make bench TESTS=load                       about 5 minutes
#   QUICK=1                                     about 1 minute, with fewer grants before the last phases
#   IDGEN_LOAD_GENERATORS=n, _SECONDS=n         default 500, and 30 seconds for each measured phase
#   IDGEN_LOAD_AGEING_SECONDS=n                 default 75
#
# Phases: alone (no inserts: what a grant costs in WAL), fresh, with a REPEATABLE READ transaction
# open, with the same one open after many grants made in a short time ("ageing": grants of a
# thirtieth of a second, as fast as the authority can), and after it has ended.
#
# Generators begin at moments spread over a second, and are measured when all have had 5 seconds to
# connect and activate. A latency is what a generator sees, from its wish to its answer, on a
# machine whose processors the inserts keep busy. "per commit" counts the
# transactions of the authority that made grants. "CPU" is the authority process's share of one
# processor. "refused" are answers that only said to try again, "rejected" are incarnations that lost
# their worker because a grant came later than the one before had ended; both while generators begin
# as well. "failed" are generators and inserts that gave up.
#
# Expects a server with idgen and room for as many connections (make bench provides it), its programs on PATH,
# PG_CONFIG, and the usual variables of libpq.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

generators=${IDGEN_LOAD_GENERATORS:-500}
seconds=${IDGEN_LOAD_SECONDS:-30}
ageing=${IDGEN_LOAD_AGEING_SECONDS:-75}
inserts=4
if [ -n "${QUICK:-}" ]; then
	seconds=${IDGEN_LOAD_SECONDS:-8}
	ageing=${IDGEN_LOAD_AGEING_SECONDS:-10}
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/load-XXXXXX")
pids=()
transaction=
warmup=5
ask() { psql -X -A -t -q -v ON_ERROR_STOP=1 -c "$1"; }

finish()
{
	local status=$?
	trap - EXIT
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
	[ -z "$transaction" ] || close_transaction || true
	wait
	rm -rf "$dir"
	exit "$status"
}
trap finish EXIT

setup()
{
	[ "$(ask 'SHOW max_connections')" -ge "$((generators + 100))" ] ||
		{ echo "the server has no room for $generators generators: raise max_connections" >&2; return 1; }
	ask "DROP TABLE IF EXISTS load_orders"
	ask "CREATE TABLE load_orders (id bigint PRIMARY KEY DEFAULT idgen_next(), a int)"
	if [ "$(ask "SELECT count(*) FROM _idgen.idgen_namespace WHERE name = 'load'")" = 0 ]; then
		ask "SELECT idgen_create_namespace('load', promotion => 'fence')" >/dev/null
	fi
	echo 'INSERT INTO load_orders (a) VALUES (1);' >"$dir/insert.sql"
	"$here/../generator/build.sh" "$dir"
}

authority_pid() { ask "SELECT pid FROM pg_stat_activity WHERE backend_type = 'idgen authority' AND datname = current_database()"; }

# Clock ticks that a process has used.
cpu_ticks() { awk '{ sub(/^.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"; }

# The value of a key in "key=value ..." in a file.
value_of() { sed -n "s/.*\\b$1=\\([0-9]*\\).*/\\1/p" "$2" | tail -n 1; }

# generate NAME SECONDS OPTION...: the generators, in the background
generate()
{
	local name=$1 for=$2
	shift 2
	"$dir/run" --namespace load --generators "$generators" --seconds "$for" --rate 20 --stagger 1000 \
		--warmup "$warmup" "$@" \
		'application_name=generator' >"$dir/$name.out" 2>"$dir/$name.err" &
	pids=("$!")
}

# Ended incarnations count until their grants are over.
wait_for_workers()
{
	local tries=100
	while [ "$(ask "SELECT count(*) FROM (SELECT DISTINCT ON (worker) end_tick FROM _idgen.idgen_grant WHERE namespace = 'load'
			AND granted_at > now() - interval '30 s' ORDER BY worker, start_tick DESC) g
			WHERE end_tick > extract(epoch FROM now() - '2025-01-01 00:00:00+00') * 1000")" -gt 0 ]; do
		[ "$((tries -= 1))" -gt 0 ] || return 1
		sleep 0.2
	done
}

# phase NAME [inserts]
phase()
{
	local name=$1 with=${2:-} authority ticks lsn wal since grants count per_commit rate wal_per_grant
	local p50 p99 most bad='' inserted=- failed
	wait_for_workers
	generate "$name" "$((seconds + warmup + 1))"
	if [ -n "$with" ]; then
		pgbench -n -c "$inserts" -j 1 -T "$((seconds + warmup))" -f "$dir/insert.sql" >"$dir/$name.inserts" 2>&1 &
		pids+=("$!")
	fi
	sleep "$warmup"
	authority=$(authority_pid)
	ticks=$(cpu_ticks "$authority")
	since=$(ask 'SELECT clock_timestamp()')
	lsn=$(ask 'SELECT pg_current_wal_insert_lsn()')
	sleep "$((seconds - 1))"
	ticks=$(($(cpu_ticks "$authority") - ticks))
	wal=$(ask "SELECT pg_current_wal_insert_lsn() - '$lsn'")
	grants=$(ask "SELECT count(*) || ' ' || round(count(*)::numeric / greatest(count(DISTINCT xmin::text), 1), 2)
		|| ' ' || round(count(*) / extract(epoch FROM clock_timestamp() - '$since'))
		|| ' ' || round($wal::numeric / greatest(count(*), 1))
		FROM _idgen.idgen_grant WHERE granted_at > '$since' AND namespace = 'load'")
	for pid in "${pids[@]}"; do
		wait "$pid" || bad=' (a load ended badly)'
	done
	pids=()
	read -r count per_commit rate wal_per_grant <<<"$grants"
	p50=$(value_of p50_us "$dir/$name.out")
	p99=$(value_of p99_us "$dir/$name.out")
	most=$(value_of max_us "$dir/$name.out")
	failed=$(value_of failed "$dir/$name.out")
	if [ -n "$with" ]; then
		inserted=$(sed -n 's/^tps = \([0-9]*\).*/\1/p' "$dir/$name.inserts")
		failed=$((failed + $(sed -n 's/^number of failed transactions: \([0-9]*\).*/\1/p' "$dir/$name.inserts")))
		wal_per_grant=-
	fi
	printf '%-22s %7s %6s %7s %8s %6d %9s %8s %8s %8s %9s %5s%% %9s\n' "$name" "$count" "$rate" \
		"$(value_of refused "$dir/$name.out")" "$(value_of rejected "$dir/$name.out")" "$failed" "$per_commit" \
		"$(in_ms "$p50")" "$(in_ms "$p99")" "$(in_ms "$most")" "$wal_per_grant" \
		"$((ticks * 100 / $(getconf CLK_TCK) / (seconds - 1)))" "$inserted$bad"
	head -n 3 "$dir/$name.err"
}

in_ms() { awk -v us="$1" 'BEGIN { printf "%.1f", us / 1000 }'; }

# Grants as fast as they can be had.
age()
{
	local before after
	wait_for_workers
	before=$(ask 'SELECT count(*) FROM _idgen.idgen_grant')
	generate ageing "$ageing" --length 33
	wait "${pids[@]}" || tail -n 5 "$dir/ageing.err"
	pids=()
	after=$(ask 'SELECT count(*) FROM _idgen.idgen_grant')
	echo "  ageing: $((after - before)) grants in $ageing s ($(((after - before) / ageing)) per second), p99 $(in_ms "$(value_of p99_us "$dir/ageing.out")") ms, rejected $(value_of rejected "$dir/ageing.out"), refused $(value_of refused "$dir/ageing.out")"
}

# A transaction that sees all row versions from now on, in a session of its own.
open_transaction()
{
	mkfifo "$dir/transaction"
	psql -X -q -f "$dir/transaction" >/dev/null &
	transaction=$!
	exec 9>"$dir/transaction"
	echo 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM _idgen.idgen_worker;' >&9
}

close_transaction()
{
	echo 'COMMIT;' >&9
	exec 9>&-
	wait "$transaction"
	transaction=
}

sizes()
{
	psql -X -q -P footer=off -c "
		SELECT relname AS \"table\", n_live_tup AS rows, n_dead_tup AS dead,
		       pg_size_pretty(pg_table_size(relid)) AS \"table size\", pg_size_pretty(pg_indexes_size(relid)) AS \"index size\"
		  FROM pg_stat_user_tables WHERE relname LIKE 'idgen%' ORDER BY pg_total_relation_size(relid) DESC LIMIT 4"
}

load_average() { [ ! -r /proc/loadavg ] || echo "load average $1: $(cut -d' ' -f1 /proc/loadavg) on $(getconf _NPROCESSORS_ONLN) processors"; }

load_average before
setup
echo "$generators external generators, $seconds s a phase, inserts by $inserts clients"
printf '%-22s %7s %6s %7s %8s %6s %9s %8s %8s %8s %9s %6s %9s\n' phase grants 'per s' refused rejected failed 'per commit' 'p50 ms' 'p99 ms' 'max ms' 'WAL/grant' CPU 'inserts/s'
phase alone
phase fresh inserts
open_transaction
phase 'transaction open' inserts
age
phase 'open, after ageing' inserts
sizes
close_transaction
phase 'after the transaction' inserts
sizes
load_average after
