-- What all benchmarks use.
CREATE EXTENSION idgen;
CREATE FUNCTION bench_constant(namespace text DEFAULT 'default') RETURNS bigint
    AS '$libdir/bench' LANGUAGE C VOLATILE PARALLEL SAFE COST 1;
CREATE FUNCTION bench_clock(namespace text DEFAULT 'default') RETURNS bigint
    AS '$libdir/bench' LANGUAGE C VOLATILE PARALLEL SAFE COST 1;
CREATE FUNCTION bench_series(count int, namespace text DEFAULT 'default') RETURNS SETOF bigint
    AS '$libdir/bench' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION bench_latency(function regprocedure, argument text, calls bigint, pause_us int DEFAULT 0) RETURNS bigint[]
    AS '$libdir/bench' LANGUAGE C VOLATILE STRICT;
CREATE FUNCTION bench_latency_buckets() RETURNS bigint[]
    AS '$libdir/bench' LANGUAGE C IMMUTABLE;

-- How long a statement takes that must count so many.
CREATE FUNCTION bench_ms(statement text, expected bigint) RETURNS float8
LANGUAGE plpgsql AS $$
DECLARE
    started timestamptz := clock_timestamp();
    found   bigint;
BEGIN
    EXECUTE statement INTO found;
    IF found IS DISTINCT FROM expected THEN
        RAISE EXCEPTION 'counted %, not %', found, expected;
    END IF;
    RETURN extract(epoch FROM clock_timestamp() - started) * 1000;
END
$$;

-- From a histogram: the nanoseconds below which a share of the calls took, and the most.
CREATE FUNCTION bench_percentile(counts bigint[], share float8) RETURNS float8
LANGUAGE sql AS $$
    SELECT max(least) FROM (
        SELECT b.least, n, sum(n) OVER (ORDER BY place) - n AS before, sum(n) OVER () AS total
          FROM unnest(counts, bench_latency_buckets()) WITH ORDINALITY b (n, least, place)) q
     WHERE n > 0 AND before < share * total
$$;
