--
-- Small formats: few values per tick, one worker, long ticks, running ahead.
--
\pset format unaligned
\pset null NULL

-- What a client sees of an error.
CREATE FUNCTION pg_temp.outcome(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    result  text;
    state   text;
    message text;
    detail  text;
    hint    text;
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce(result, 'NULL');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    -- what depends on the time of day
    detail = regexp_replace(detail, '\d+\.\d+ s', 'N s', 'g');
    RETURN concat_ws(' | ', state, message, nullif(detail, ''), nullif(hint, ''));
END
$$;

-- What a list of IDs in the order issued comes to: how many, how many different, how many not
-- above the one before, and the most of one tick and worker.
CREATE FUNCTION pg_temp.judge(ids bigint[], namespace text)
RETURNS TABLE (ids bigint, different bigint, not_rising bigint, most_per_tick_and_worker bigint)
LANGUAGE sql AS $$
    WITH i AS MATERIALIZED (SELECT id, n, lag(id) OVER (ORDER BY n) AS previous, d.tick, d.worker
        FROM unnest($1) WITH ORDINALITY u (id, n), idgen_decode(id, $2) d)
    SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE id <= previous),
        (SELECT max(c) FROM (SELECT count(*) AS c FROM i GROUP BY tick, worker) g)
    FROM i
$$;

SELECT idgen_create_namespace('capacity 2', sequence_bits => 2);
SELECT idgen_create_namespace('capacity 1', sequence_bits => 1);
SELECT idgen_create_namespace('capacity 0', sequence_bits => 0);
SELECT idgen_create_namespace('capacity 0 alone', worker_bits => 0, sequence_bits => 0);
SELECT idgen_create_namespace('capacity 2 alone', sequence_bits => 2, first_worker => 1023);

-- 20,000 IDs with four to a tick and worker, one by one and by batch, from one session.
SELECT j.ids, different, not_rising, most_per_tick_and_worker <= 4 AS at_most_4 FROM pg_temp.judge(
    (SELECT array_agg(id ORDER BY n) FROM (SELECT n, idgen_next('capacity 2') AS id FROM generate_series(1, 20000) n OFFSET 0) q),
    'capacity 2') j;
SELECT j.ids, different, not_rising, most_per_tick_and_worker <= 4 AS at_most_4 FROM pg_temp.judge(
    (SELECT array_agg(id ORDER BY n) FROM idgen_next_batch(20000, 'capacity 2') WITH ORDINALITY b (id, n)),
    'capacity 2') j;
-- Two to a tick, and one.
SELECT j.ids, different, not_rising, most_per_tick_and_worker <= 2 AS at_most_2 FROM pg_temp.judge(
    (SELECT array_agg(id ORDER BY n) FROM (SELECT n, idgen_next('capacity 1') AS id FROM generate_series(1, 5000) n OFFSET 0) q),
    'capacity 1') j;
SELECT * FROM pg_temp.judge(
    (SELECT array_agg(id ORDER BY n) FROM (SELECT n, idgen_next('capacity 0') AS id FROM generate_series(1, 1000) n OFFSET 0) q),
    'capacity 0');
-- One worker and one value: a tick for each ID, so at least 99 ms from the first to the last.
SELECT array_agg(id ORDER BY n) AS ids FROM idgen_next_batch(100, 'capacity 0 alone') WITH ORDINALITY b (id, n) \gset
SELECT * FROM pg_temp.judge(:'ids'::bigint[], 'capacity 0 alone');
SELECT idgen_timestamp((:'ids'::bigint[])[100], 'capacity 0 alone') - idgen_timestamp((:'ids'::bigint[])[1], 'capacity 0 alone')
    >= interval '99 ms' AS a_tick_each;
SELECT * FROM pg_temp.judge(
    (SELECT array_agg(id ORDER BY n) FROM idgen_next_batch(800, 'capacity 2 alone') WITH ORDINALITY b (id, n)),
    'capacity 2 alone');
SELECT count(DISTINCT (idgen_decode(id, 'capacity 2 alone')).worker) AS workers FROM idgen_next_batch(100, 'capacity 2 alone') id;
-- Two namespaces in turn: neither disturbs the order of the other.
SELECT a.not_rising AS a, b.not_rising AS b FROM
    (SELECT array_agg(x ORDER BY n) AS xs, array_agg(y ORDER BY n) AS ys
     FROM (SELECT n, idgen_next('capacity 2') AS x, idgen_next('capacity 1') AS y FROM generate_series(1, 2000) n OFFSET 0) q) r,
    pg_temp.judge(xs, 'capacity 2') a, pg_temp.judge(ys, 'capacity 1') b;

--
-- Nothing left: an error within the bound, and nothing is disturbed by it. Ticks of ten minutes
-- with two values each: five need three ticks, which no test waits for.
--
SELECT idgen_create_namespace('capacity slow', worker_bits => 0, sequence_bits => 1,
    timestamp_bits => 40, tick_ms => 600000, grant_interval => '10 min', horizon => '1 h');
SET idgen.wait_timeout = '20 s';
SELECT clock_timestamp() AS begun \gset
SELECT pg_temp.outcome($$SELECT count(*) FROM idgen_next_batch(5, 'capacity slow')$$);
SELECT clock_timestamp() - :'begun'::timestamptz < interval '20 s' AS within_bound;
SELECT pg_temp.outcome($$SELECT idgen_next('capacity slow') FROM generate_series(1, 5)$$);
SET idgen.wait_timeout = 0;
SELECT pg_temp.outcome($$SELECT idgen_next_batch(5, 'capacity slow')$$);
SELECT pg_temp.outcome($$SELECT count(idgen_next_json('capacity slow')) FROM generate_series(1, 5)$$);
RESET idgen.wait_timeout;
SELECT count(*) FROM idgen_next_batch(100, 'capacity 2');

-- run_ahead: so far may the tick be ahead of the clock. Half an hour is three ticks more: the
-- current one and those make eight values, or ten if a tick begins meanwhile.
SELECT idgen_create_namespace('capacity ahead', worker_bits => 0, sequence_bits => 1,
    timestamp_bits => 40, tick_ms => 600000, grant_interval => '50 min', horizon => '1 h', run_ahead => '30 min');
SELECT array_agg(id ORDER BY n) AS ids FROM idgen_next_batch(8, 'capacity ahead') WITH ORDINALITY b (id, n) \gset
SELECT * FROM pg_temp.judge(:'ids'::bigint[], 'capacity ahead');
SELECT count(DISTINCT (idgen_decode(id, 'capacity ahead')).tick) BETWEEN 4 AND 5 AS ticks,
    bool_and(idgen_timestamp(id, 'capacity ahead') <= clock_timestamp() + interval '30 min') AS not_further
FROM unnest(:'ids'::bigint[]) id;
SET idgen.wait_timeout = 0;
SELECT pg_temp.outcome($$SELECT count(*) FROM idgen_next_batch(3, 'capacity ahead')$$);
RESET idgen.wait_timeout;
-- With a tick of a millisecond, a burst that would have to wait does not.
SELECT idgen_create_namespace('capacity burst', worker_bits => 0, sequence_bits => 1,
    horizon => '20 s', grant_interval => '15 s', run_ahead => '12 s');
SET idgen.wait_timeout = '20 s';
SELECT idgen_next('capacity burst') > 0 AS warm;
SELECT clock_timestamp() AS begun \gset
SELECT * FROM pg_temp.judge(
    (SELECT array_agg(id ORDER BY n) FROM idgen_next_batch(20000, 'capacity burst') WITH ORDINALITY b (id, n)), 'capacity burst');
SELECT clock_timestamp() - :'begun'::timestamptz < interval '8 s' AS at_once;
RESET idgen.wait_timeout;

--
-- The end of the field: used up is an error of its own, and no ID is wider than its format. Two
-- seconds of ticks of a millisecond, begun just now.
--
SELECT idgen_create_namespace('capacity end', timestamp_bits => 11, worker_bits => 2, sequence_bits => 2,
    epoch => date_trunc('milliseconds', clock_timestamp()) - interval '900 ms', grant_interval => '100 ms', horizon => '1 s');
SET idgen.wait_timeout = '20 s';
DO $$
DECLARE
    id    bigint;
    last  bigint := 0;
    called timestamptz;
    before timestamptz := (SELECT to_timestamp(epoch_ms / 1000.0) + interval '900 ms' FROM _idgen.idgen_namespace WHERE name = 'capacity end');
    state text;
    text  text;
    hint  text;
BEGIN
    FOR i IN 1 .. 3000 LOOP
        called := clock_timestamp();
        id := idgen_next('capacity end');
        before := called;
        IF id <= last OR id >= 32768 THEN
            RAISE WARNING 'ID % after %', id, last;
        END IF;
        last := id;
        PERFORM pg_sleep(0.001);
    END LOOP;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, text = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
    RAISE NOTICE '% | % | %', state, text, hint;
    -- unless the machine held it up just then
    RAISE NOTICE 'it was used to the end: %', last >> 4 >= 1800 OR called - before > interval '200 ms';
END
$$;
SELECT pg_temp.outcome($$SELECT idgen_next('capacity end')$$);
SELECT pg_temp.outcome($$SELECT idgen_next_batch(10, 'capacity end')$$);
SELECT (idgen_decode(32767, 'capacity end')).tick, idgen_lower_bound('infinity', 'capacity end');
RESET idgen.wait_timeout;
