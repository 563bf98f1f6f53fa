-- Parallel queries: the functions are labelled safe, and IDs of parallel queries are as unique as others.
SELECT plan(13);
SELECT set_config(name, 'on', false) AS forced FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query') \gset
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 4;
SELECT idgen_create_namespace('narrow', sequence_bits => 2);
CREATE TABLE source AS SELECT n FROM generate_series(1, 20000) n;
ALTER TABLE source SET (parallel_workers = 4);
ANALYZE source;

CREATE FUNCTION plan_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    line text;
    lines text := '';
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) ' || query LOOP
        lines := lines || line || E'\n';
    END LOOP;
    RETURN lines;
END
$$;
SELECT matches(plan_of('SELECT n, idgen_next() FROM source'), 'Gather.*Workers Launched: [1-4]',
    'a query with idgen_next() runs in parallel');

SELECT is(count(*), 1::bigint, 'a parallel query can issue a single ID')
    FROM (SELECT idgen_next() AS id) q WHERE id > 0;
SELECT lives_ok('CREATE TABLE copied AS SELECT n, idgen_next() AS id FROM source',
    'CREATE TABLE AS issues in parallel');
SELECT is((SELECT count(DISTINCT id) FROM copied), 20000::bigint,
    'the IDs of a parallel CREATE TABLE AS are all different');
SELECT lives_ok($$CREATE TABLE copied_narrow AS SELECT n, idgen_next('narrow') AS id FROM source$$,
    'CREATE TABLE AS issues in parallel from a format with few sequence values');
SELECT is((SELECT count(DISTINCT id) FROM copied_narrow), 20000::bigint,
    'the parallel IDs of a format with few sequence values are all different');
SELECT cmp_ok((SELECT max(c) FROM (SELECT count(*) AS c FROM copied_narrow, idgen_decode(id, 'narrow') GROUP BY tick, worker) q), '<=', 4::bigint,
    'a worker has at most four IDs of a tick when two bits of sequence are used in parallel [S6]');
SELECT is((SELECT count(DISTINCT idgen_next()) FROM source), 20000::bigint,
    'an aggregate over parallel IDs counts all of them as different');
SELECT is((SELECT count(*) FROM source, LATERAL idgen_next_batch(2)), 40000::bigint, 'a parallel query issues batches');
SELECT is((SELECT count(DISTINCT idgen_next_json() ->> 'id') FROM source), 20000::bigint,
    'the IDs of idgen_next_json() in a parallel query are all different');
SELECT is((SELECT count(*) FROM copied WHERE idgen_timestamp(id) > now() - interval '1 min' AND idgen_lower_bound(now() - interval '1 min') < id
    AND (idgen_decode(id)).worker >= 0), 20000::bigint, 'a parallel query decodes IDs');
-- errors in a parallel query keep their codes
SELECT throws_ok($$SELECT idgen_next('nobody') FROM source$$, '42704', NULL,
    'an unknown namespace fails with 42704 in a parallel query');
SELECT idgen_retire_namespace('narrow');
SELECT throws_ok($$SELECT idgen_next('narrow') FROM source$$, 'IG009', NULL,
    'a retired namespace fails with IG009 in a parallel query');
SELECT * FROM finish();
