#!/usr/bin/env bash
# What idgen does, shown on a throw-away server: IDs by DEFAULT, from several clients at once,
# through a kill -9, with a ledger outside the database that proves no ID came twice.
#
#   KEEP=1   leave the server running and say how to connect
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"
[ -n "${IDGEN_SCRATCH:-}" ] || exec "$top/test/sandbox.sh" test/demo.sh
cd "$top"

clients=4			# that commit what they insert, each its own transaction
before_kill=300		# IDs that each client has seen when the server dies
after_kill=500		# IDs that each client inserts afterwards
dir=$IDGEN_SCRATCH/demo
ledger=$dir/ledger
mkdir -p "$ledger"

# ---------------------------------------------------------------------------------------------
# Talking to a person

bold='' dim='' green='' red='' plain=''
if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then
	bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
fi

section=0
section() { printf '\n%s%d. %s%s\n' "$bold" $((section += 1)) "$1" "$plain"; }
say() { printf '   %s\n' "$*"; }
good() { printf '   %s✓%s %s\n' "$green" "$plain" "$*"; }

finished=
at_exit()
{
	local status=$?
	[ -z "$finished" ] || return 0
	[ "$status" -ne 0 ] || status=1
	printf '\n%sThe demo failed.%s\n' "$red" "$plain" >&2
	grep -E ' (ERROR|FATAL|PANIC|WARNING): ' "$dir/server.log" 2>/dev/null | tail -n 10 >&2 || true
	echo "Logs and data: ${IDGEN_KEPT:-$IDGEN_SCRATCH}" >&2
	exit "$status"
}
trap at_exit EXIT

fail()
{
	printf '   %s✗%s %s\n' "$red" "$plain" "$*" >&2
	exit 1
}

# One value.
ask() { psql -X -q -A -t -v ON_ERROR_STOP=1 -d demo -c "$1"; }

# Statements from the standard input, shown as they are sent, with their results.
show()
{
	psql -X -q -v ON_ERROR_STOP=1 -P footer=off -P border=1 -d demo >"$dir/shown" 2>&1 ||
		{ cat "$dir/shown" >&2; fail 'that statement was refused'; }
	sed 's/^/   /' "$dir/shown"
}

statement() { printf '   %s%s%s\n' "$dim" "$1" "$plain"; }

# ---------------------------------------------------------------------------------------------
# Clients. Each writes every ID it is told to its own file, outside the database; psql writes a
# result out before it sends the next statement.

insert_of() { echo "INSERT INTO orders (client, item) VALUES ($1, 'book') RETURNING id;"; }

# client NAME STATEMENT COUNT: COUNT 0 goes on until the server is gone. The pipe breaks when psql
# leaves before the statements do, which is no failure; what psql says is.
client()
{
	local status
	set +o pipefail
	if [ "$3" -eq 0 ]; then
		yes "$2"
	else
		yes "$2" | head -n "$3"
	fi 2>/dev/null | {
		psql -X -q -A -t -v ON_ERROR_STOP=1 -d demo >>"$ledger/$1" 2>>"$dir/client-$1.err"
	}
	status=$?
	set -o pipefail
	return "$status"
}

start_clients()
{
	local n
	client_pids=()
	for n in $(seq "$clients"); do
		client "$n" "$(insert_of "$n")" "$1" &
		client_pids+=($!)
	done
	# This one takes everything back. Its IDs were seen all the same and must not come again.
	client rollback "BEGIN; $(insert_of 0) ROLLBACK;" "$1" &
	client_pids+=($!)
}

# Waits until every file of the ledger has so many lines; the clients must be alive meanwhile.
wait_for_ledger()
{
	local file pid deadline=$((SECONDS + 60))
	for file in $(seq "$clients") rollback; do
		until [ -f "$ledger/$file" ] && [ "$(wc -l <"$ledger/$file")" -ge "$1" ]; do
			for pid in "${client_pids[@]}"; do
				kill -0 "$pid" 2>/dev/null || { cat "$dir"/client-*.err >&2; fail 'a client gave up'; }
			done
			[ "$SECONDS" -lt "$deadline" ] || fail "client $file got fewer than $1 IDs in a minute"
			sleep 0.05
		done
	done
}

# Only what a client was told in full: with a reply cut off by the crash, there is no such line.
all_seen() { cat "$ledger"/*; }

# ---------------------------------------------------------------------------------------------

printf '%sidgen: 64-bit IDs that are unique and sorted by time, made inside PostgreSQL%s\n' "$bold" "$plain"

section 'A server of our own'
say 'Building idgen into a private copy of PostgreSQL; the system is not touched.'
find_postgres || die 'no PostgreSQL server development files, see test/setup.sh'
test/private-tree.sh "$IDGEN_SCRATCH/pg" >"$dir/build.out" || { cat "$dir/build.out" >&2; exit 1; }
bin=$(tail -n 1 "$dir/build.out")
export PATH=$bin:$PATH
start_server "$bin" "$dir"
createdb demo
good "$(postgres --version | sed 's/^postgres (PostgreSQL) /PostgreSQL /; s/ (.*//') runs as user $(id -un), with shared_preload_libraries = 'idgen'"

section 'A table whose key makes itself'
setup='CREATE EXTENSION idgen;
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), client int, item text);'
while IFS= read -r line; do statement "$line"; done <<<"$setup"
show <<<"$setup"
good 'No worker number, no node name, no counter table of yours. That was all the setup.'

section "$((clients + 1)) clients insert at once"
say 'Each writes every ID it is given to a ledger, a plain file outside the database.'
say 'One of them rolls back every time: those IDs were seen too, so they count.'
statement "$(insert_of n)"
start_clients 0
wait_for_ledger $((before_kill / 3))
good "$(all_seen | wc -l) IDs in the ledger so far, and the clients go on"

section 'What is in an ID'
statement 'SELECT o.id, o.client, d.format, d.timestamp, d.worker, d.sequence FROM orders o, idgen_decode(o.id) d …'
show <<'SQL'
SELECT o.id, o.client, d.format, d.timestamp, d.worker, d.sequence
  FROM (SELECT id, client FROM orders ORDER BY id DESC LIMIT 5) o, idgen_decode(o.id) d
 ORDER BY o.id;
SQL
[ "$(ask "SELECT bool_and(abs(extract(epoch FROM clock_timestamp() - d.timestamp)) < 300)
            FROM (SELECT id FROM orders ORDER BY id DESC LIMIT 5) o, idgen_decode(o.id) d")" = t ] ||
	fail 'the decoded time is not the present'
good 'The time of creation, the worker (a slot of ID space, chosen by idgen) and a sequence.'

section 'kill -9, in the middle of the inserts'
wait_for_ledger "$before_kill"
postmaster=$(head -n 1 "$dir/data/postmaster.pid")
kill -9 "$postmaster"
say "The server process $postmaster is dead. No shutdown, no last write."
for pid in "${client_pids[@]}"; do
	if wait "$pid"; then
		fail 'a client did not notice that the server died'
	fi
done
server_only()
{
	local pid
	for pid in $(processes_under "$bin"); do
		[ ! -e /proc/self/exe ] || [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$(cd "$bin" && pwd -P)/postgres" ] || continue
		echo "$pid"
	done
}
deadline=$((SECONDS + 30))
while [ -n "$(server_only)" ]; do
	[ "$SECONDS" -lt "$deadline" ] || fail "processes of the dead server are still there: $(server_only | tr '\n' ' ')"
	sleep 0.05
done
seen_before=$(all_seen | wc -l)
good "All clients lost their connection, with $seen_before IDs in the ledger"

section 'Up again, and on'
restart_server "$bin" "$dir"
say "Recovery took place; the table has $(ask 'SELECT count(*) FROM orders') rows."
start_clients "$after_kill"
for pid in "${client_pids[@]}"; do
	wait "$pid" || { cat "$dir"/client-*.err >&2; fail 'a client failed after the restart'; }
done
seen=$(all_seen | wc -l)
[ $((seen - seen_before)) -eq $(((clients + 1) * after_kill)) ] ||
	fail "the clients got $((seen - seen_before)) IDs after the restart, not $(((clients + 1) * after_kill))"
good "$((seen - seen_before)) more IDs. Nothing had to be repaired or configured."

section 'A time range is a range of IDs'
say 'A table partitioned by ID, a partition for each day:'
show <<'SQL'
CREATE TABLE events (id bigint PRIMARY KEY DEFAULT idgen_next(), what text) PARTITION BY RANGE (id);
SET timezone = 'UTC';
SELECT format('CREATE TABLE events_%s PARTITION OF events FOR VALUES FROM (%s) TO (%s)',
              to_char(day, 'YYYYMMDD'),
              idgen_lower_bound(day), idgen_lower_bound(day + interval '1 day'))
  FROM generate_series(date_trunc('day', now()) - interval '3 days',
                       date_trunc('day', now()) + interval '2 days', interval '1 day') day
\gexec
INSERT INTO events (what) SELECT 'visit ' || n FROM generate_series(1, 1000) n;
SELECT c.relname AS partition, regexp_replace(pg_get_expr(c.relpartbound, c.oid), 'FOR VALUES ', '') AS ids
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'events'::regclass ORDER BY 1;
SQL
range="id >= idgen_lower_bound(now() - interval '1 hour') AND id < idgen_lower_bound(now() + interval '1 hour')"
statement "SELECT count(*) FROM events WHERE id >= idgen_lower_bound(now() - interval '1 hour')"
statement "                              AND id <  idgen_lower_bound(now() + interval '1 hour');"
psql -X -q -A -t -d demo -v ON_ERROR_STOP=1 -c "EXPLAIN (COSTS OFF) SELECT count(*) FROM events WHERE $range" >"$dir/plan"
sed 's/^/   /' "$dir/plan"
partitions=$(ask "SELECT count(*) FROM pg_inherits WHERE inhparent = 'events'::regclass")
scanned=$(grep -oE 'events_[0-9]{8}' "$dir/plan" | sort -u | wc -l)
found=$(ask "SELECT count(*) FROM events WHERE $range")
[ "$found" -eq 1000 ] || fail "the time range finds $found of 1000 events"
if [ "$scanned" -lt 1 ] || [ "$scanned" -ge "$partitions" ]; then
	fail "the plan reads $scanned of $partitions partitions"
fi
good "$found events found; the plan reads $scanned of $partitions partitions, by the primary key alone"

section 'The proof'
say 'The ledger knows every ID that any client saw, committed or not.'
all_seen >"$dir/all"
! grep -qvE '^[1-9][0-9]*$' "$dir/all" || fail "a line of the ledger is not a positive number: $(grep -vE '^[1-9][0-9]*$' "$dir/all" | head -n 1)"
distinct=$(sort -u "$dir/all" | wc -l)
twice=$(sort "$dir/all" | uniq -d | wc -l)
ask 'SELECT id, client FROM orders' | tr '|' ' ' >"$dir/rows"
# A row whose ID is in the ledger must belong to the client that was told so; and what was rolled
# back must not be there. A row that no client saw was committed as the server died.
for n in $(seq "$clients") rollback; do
	sed "s/\$/ $n/" "$ledger/$n"
done >"$dir/owners"
read -r wrong unseen < <(awk '
	NR == FNR { owner[$1] = $2; next }
	!($1 in owner) { unseen++; next }
	owner[$1] != $2 { wrong++ }
	END { print wrong + 0, unseen + 0 }' "$dir/owners" "$dir/rows")
# Every ID of a committed row that a client saw survived the crash: RETURNING answers at commit.
lost=$(awk 'NR == FNR { row[$1] = 1; next } $2 != "rollback" && !($1 in row)' "$dir/rows" "$dir/owners" | wc -l)
printf '   %-44s %8d\n' \
	'IDs in the ledger' "$seen" \
	'  seen before the kill' "$seen_before" \
	'  rolled back' "$(wc -l <"$ledger/rollback")" \
	'different IDs' "$distinct" \
	'rows in the table' "$(wc -l <"$dir/rows")" \
	'  committed while the server died, unseen' "$unseen" \
	'IDs that came twice' "$twice"
if [ "$twice" -ne 0 ] || [ "$distinct" -ne "$seen" ]; then
	fail "an ID came twice: $(sort "$dir/all" | uniq -d | head -n 3 | tr '\n' ' ')"
fi
[ "$wrong" -eq 0 ] || fail "$wrong rows carry an ID that another client was given"
[ "$unseen" -le "$clients" ] || fail "$unseen rows that no client saw: more than were under way"
[ "$lost" -eq 0 ] || fail "$lost committed rows are lost"
good 'No ID came twice.'

if [ -n "${KEEP:-}" ]; then
	touch "$IDGEN_SCRATCH/keep-running"
	section 'Yours now'
	say 'Connect:'
	say "  $bin/psql -h $PGHOST -U postgres demo"
	say 'To follow the README there, in an empty database: CREATE DATABASE shop; then \c shop'
	say 'Stop and remove:'
	if [ -n "${IDGEN_KEPT:-}" ] && [ "$IDGEN_KEPT" != "$IDGEN_SCRATCH" ]; then
		# started by root, for whom the server runs as another user
		say "  su $(id -un) -s /bin/sh -c '$bin/pg_ctl -D $dir/data -m fast stop'"
	else
		say "  $bin/pg_ctl -D $dir/data -m fast stop"
	fi
	say "  rm -rf ${IDGEN_KEPT:-$IDGEN_SCRATCH} $TMPDIR"
else
	stop_server "$bin" "$dir"
	printf '\n   The server is stopped and its files are removed. KEEP=1 make demo leaves it running.\n'
fi
finished=yes
