#!/usr/bin/env bash
# Counts the instructions of issuing, and fails if they have grown. Counts, unlike times, are the
# same on a busy machine.
#
#   test/instructions/run.sh BIN SOURCE DIRECTORY
#
# BIN is that of a private tree, SOURCE the sources it was built from, DIRECTORY for what is made
# here. A server runs under callgrind, which slows it down some fifty times, but only while it
# counts. The last line is "N passed, N failed".
#
# What is counted is code of processes: the kernel's part, and so most of reading the clock and of
# writing WAL, is not. "next", "nextval" and "cached" are the counts of a statement less those of the
# same statement around a function that returns a constant.
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/../lib.sh"
[ $# -eq 3 ] || die 'usage: test/instructions/run.sh BIN SOURCE DIRECTORY'
bin=$1 source=$2 dir=$3
here=$top/test/instructions
find_postgres || die 'no PostgreSQL server development files, see test/setup.sh'
mkdir -p "$dir"

# A multiple of the 32 values for which nextval() writes one WAL record.
rows=3200
batch=100

# Word splitting on purpose: a compiler may come with options.
# shellcheck disable=SC2207
cc=($("$PG_CONFIG" --cc) $("$PG_CONFIG" --cflags))

# ---------------------------------------------------------------------------------------------
# Counts

build_programs()
{
	"${cc[@]}" -I"$source/src" -o "$dir/step" "$here/step.c" "$source"/src/core/cursor.c "$source"/src/core/layout.c
	# shellcheck disable=SC2046
	"${cc[@]}" $("$PG_CONFIG" --cppflags) $("$PG_CONFIG" --cflags_sl) -I"$("$PG_CONFIG" --includedir-server)" \
		-shared -o "$("$bin/pg_config" --pkglibdir)/count.so" "$here/count.c"
}

callgrind=(valgrind -q --tool=callgrind --instr-atstart=no "--callgrind-out-file=$dir/counts.%p")

# Waits for the server; it is slow to start.
wait_for_server()
{
	local tries=600
	until psql -X -q -c 'SELECT 1' >/dev/null 2>&1; do
		kill -0 "$1" 2>/dev/null || return 1
		[ "$((tries -= 1))" -gt 0 ] || return 1
		sleep 0.1
	done
}

statement() { printf "SELECT count_instructions('SELECT count(x) FROM %s', '%s');\n" "${2//\'/\'\'}" "$1"; }

# One column of so many rows, computed for each.
column() { statement "$1" "(SELECT $2 AS x FROM generate_series(1, $rows) OFFSET 0) q"; }

statements()
{
	cat <<'SQL'
CREATE EXTENSION idgen;
CREATE FUNCTION count_instructions(statement text, label text) RETURNS void LANGUAGE c AS '$libdir/count';
CREATE FUNCTION count_constant(namespace text DEFAULT 'default') RETURNS bigint LANGUAGE c VOLATILE AS '$libdir/count';
CREATE SEQUENCE count_sequence;
CREATE SEQUENCE count_cached CACHE 1000;
SQL
	column constant 'count_constant()'
	column next 'idgen_next()'
	column nextval "nextval('count_sequence')"
	column cached "nextval('count_cached')"
	column series-select "generate_series(1, $batch::bigint)"
	column batch-select "idgen_next_batch($batch)"
	statement series "generate_series(1, $((rows * 10))::bigint) x"
	statement batch "idgen_next_batch($((rows * 10))) x"
}

count_in_server()
{
	local server status=0
	unset PGDATABASE PGSERVICE PGPASSFILE PGHOSTADDR
	export PGHOST PGPORT=5432 PGUSER=postgres
	PGHOST=$(mktemp -d "${TMPDIR:-/tmp}/sXXXXXX")
	"$bin/initdb" -D "$dir/data" -U postgres -A trust --no-locale -E UTF8 -N >"$dir/initdb.log" 2>&1 ||
		{ cat "$dir/initdb.log" >&2; return 1; }
	cat "$top/test/regress.conf" - >>"$dir/data/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$PGHOST'
jit = off
autovacuum = off
max_parallel_workers_per_gather = 0
checkpoint_timeout = 1h
idgen.wait_timeout = 1min
CONF
	# Not by pg_ctl, which would move it out of reach of whoever ends this script.
	"${callgrind[@]}" "$bin/postgres" -D "$dir/data" >"$dir/server.log" 2>&1 </dev/null &
	server=$!
	if wait_for_server "$server"; then
		statements | psql -X -q -v ON_ERROR_STOP=1 >/dev/null || status=1
	else
		status=1
	fi
	# At once: nothing of it is wanted any more. A server that does not heed that is killed.
	kill -QUIT "$server" 2>/dev/null || true
	for _ in {1..200}; do
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	kill -KILL "$server" 2>/dev/null || true
	wait "$server" 2>/dev/null || true
	[ "$status" -eq 0 ] || tail -n 30 "$dir/server.log" >&2
	return "$status"
}

# Prints "label count" for everything that was counted.
all_counts()
{
	local file
	for file in "$dir"/counts.*; do
		awk '/^desc: Trigger: Client Request: / { label = $NF } /^(summary|totals):/ { count = $2 }
			END { if (label != "") print label, count }' "$file"
	done
}

# ---------------------------------------------------------------------------------------------
# Ratios

# Prints "name value" lines.
ratios()
{
	awk -v steps=100000 '
		{ n[$1] = $2 }
		END {
			net = n["next"] - n["constant"]
			printf "next/nextval %.4f\n", net / (n["nextval"] - n["constant"])
			printf "next/cached %.4f\n", net / (n["cached"] - n["constant"])
			printf "batch/series %.4f\n", n["batch"] / n["series"]
			printf "batch-select/series-select %.4f\n", n["batch-select"] / n["series-select"]
			printf "step/hash %.4f\n", n["step"] / n["hash"]
		}' "$dir/all"
}

# The first line of the file that is about this ratio on this machine: "value tolerance".
expected()
{
	awk -v name="$1" -v major="$major" -v machine="$machine" \
		'$1 == name && ($2 == major || $2 == "*") && ($3 == machine || $3 == "*") { print $4, $5; exit }' "$here/expected"
}

major=$("$PG_CONFIG" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
machine=$(uname -m)
build_programs
"${callgrind[@]}" "$dir/step" >"$dir/step.out" || { cat "$dir/step.out"; die 'the core did not issue what it should'; }
count_in_server
all_counts >"$dir/all"

awk -v rows="$rows" '
	{ n[$1] = $2 }
	END {
		printf "instructions per call, net: idgen_next() %.1f, nextval() %.1f, with CACHE 1000 %.1f; a cursor step %.1f, the hash %.1f\n",
			(n["next"] - n["constant"]) / rows, (n["nextval"] - n["constant"]) / rows,
			(n["cached"] - n["constant"]) / rows, n["step"] / 100000, n["hash"] / 100000
	}' "$dir/all"

passed=0 failed=0
while read -r name value; do
	read -r want tolerance <<<"$(expected "$name")"
	verdict=$(awk -v value="$value" -v want="${want:-}" -v tolerance="${tolerance:-0}" 'BEGIN {
		if (want == "" || value !~ /^[0-9.]+$/ || value + 0 <= 0) print "FAILED: nothing to compare"
		else if (value > want * (1 + tolerance / 100)) print "FAILED: has grown"
		else if (value < want * (1 - tolerance / 100)) print "ok, has shrunk: lower it in test/instructions/expected"
		else print "ok" }')
	printf '%-28s %8s   expected %8s + %s %%   %s\n' "$name" "$value" "${want:--}" "${tolerance:--}" "$verdict"
	case $verdict in
		ok*) passed=$((passed + 1)) ;;
		*) failed=$((failed + 1)) ;;
	esac
done < <(ratios)
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
