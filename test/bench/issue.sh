#!/usr/bin/env bash
# What one ID costs in a bulk statement, beside nextval() on a plain sequence.
#
# All candidates run in one session of one server, in rounds: each round runs each once, and
# starts with another one. A first round is not counted. Of the others the medians are shown.
# "net" is the median less that of the same statement around a C function that returns a
# constant, by call; for the set-returning call, less that of generate_series(), by row.
#
#   QUICK=1   fewer rows and rounds
#
# Expects a server with idgen and the module "constant" (make bench provides both) and the
# usual variables of libpq.
set -euo pipefail

rows=3000000
rounds=11
if [ -n "${QUICK:-}" ]; then
	rows=300000
	rounds=5
fi
batch=1000

# The candidates, in the order in which a round that starts with the first runs them.
names=(constant clock idgen_next nextval series batch)
expressions=(
	'bench_constant()'
	'bench_clock()'
	'idgen_next()'
	"nextval('bench_sequence')"
	"generate_series(1, $batch)"
	"idgen_next_batch($batch)"
)

setup()
{
	cat <<SQL
SET client_min_messages = warning;
DROP TABLE IF EXISTS bench_times;
DROP SEQUENCE IF EXISTS bench_sequence;
CREATE SEQUENCE bench_sequence;
CREATE TABLE bench_times (name text, round int, ms float8);
CREATE OR REPLACE FUNCTION bench_constant(namespace text DEFAULT 'default') RETURNS bigint
	AS '\$libdir/constant', 'bench_constant' LANGUAGE C VOLATILE PARALLEL SAFE COST 1;
CREATE OR REPLACE FUNCTION bench_clock(namespace text DEFAULT 'default') RETURNS bigint
	AS '\$libdir/constant', 'bench_clock' LANGUAGE C VOLATILE PARALLEL SAFE COST 1;
CREATE OR REPLACE FUNCTION bench_ms(statement text, expected bigint) RETURNS float8
LANGUAGE plpgsql AS \$\$
DECLARE
	started timestamptz := clock_timestamp();
	found bigint;
BEGIN
	EXECUTE statement INTO found;
	IF found IS DISTINCT FROM expected THEN
		RAISE EXCEPTION 'counted %, not %', found, expected;
	END IF;
	RETURN extract(epoch FROM clock_timestamp() - started) * 1000;
END
\$\$;
CHECKPOINT;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
SET synchronous_commit = on;
SQL
}

# The statement that is timed. The set-returning ones make the same number of rows in fewer calls.
statement()
{
	local calls=$rows
	case ${names[$1]} in
		series | batch) calls=$((rows / batch)) ;;
	esac
	printf 'SELECT count(x) FROM (SELECT %s AS x FROM generate_series(1, %d) OFFSET 0) q' \
		"${expressions[$1]}" "$calls"
}

# Round 0 warms up. The time is taken before anything is stored, in a transaction of its own.
rounds()
{
	local round i index
	for ((round = 0; round <= rounds; round++)); do
		for ((i = 0; i < ${#names[@]}; i++)); do
			index=$(((i + round) % ${#names[@]}))
			echo "SELECT bench_ms(\$q\$$(statement "$index")\$q\$, $rows) AS ms \\gset"
			echo "INSERT INTO bench_times VALUES ('${names[$index]}', $round, :ms);"
		done
	done
}

report()
{
	cat <<SQL
\\pset footer off
\\echo $rows rows, $rounds rounds, one session
CREATE TEMP VIEW medians AS
	SELECT name, percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS ms, min(ms), max(ms)
	  FROM bench_times WHERE round > 0 GROUP BY name;
SELECT w.what, round(m.ms::numeric, 1) AS "median ms", round(m.min::numeric, 1) AS "least",
       round(m.max::numeric, 1) AS "most", round(((m.ms - b.ms) * 1e6 / $rows)::numeric, 1) AS "net ns"
  FROM (VALUES (1, 'constant', 'constant', 'a constant'),
               (2, 'clock', 'constant', 'a clock reading'),
               (3, 'idgen_next', 'constant', 'idgen_next()'),
               (4, 'nextval', 'constant', 'nextval()'),
               (5, 'series', 'series', 'generate_series(1, $batch), a row'),
               (6, 'batch', 'series', 'idgen_next_batch($batch), an ID')) w (place, name, base, what)
  JOIN medians m USING (name) JOIN medians b ON b.name = w.base
 ORDER BY w.place;
SELECT round(((i.ms - c.ms) / (n.ms - c.ms))::numeric, 3) AS "idgen_next() / nextval(), both net"
  FROM medians i, medians n, medians c
 WHERE i.name = 'idgen_next' AND n.name = 'nextval' AND c.name = 'constant';
SQL
}

# Other work on the machine shows in the medians: say how much there was.
load() { [ ! -r /proc/loadavg ] || echo "load average $1: $(cut -d' ' -f1 /proc/loadavg) on $(getconf _NPROCESSORS_ONLN) processors"; }

load before
{ setup; rounds; report; } | psql -X -q -v ON_ERROR_STOP=1
load after
