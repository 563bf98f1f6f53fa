-- IDs of two formats in one column, decoded by the right one: the recipes of the manual.
SELECT plan(12);

CREATE FUNCTION pg_temp.is_now(id bigint, namespace text) RETURNS boolean LANGUAGE sql AS $$
    SELECT idgen_timestamp(id, namespace) BETWEEN clock_timestamp() - interval '1 hour' AND clock_timestamp() + interval '1 minute' $$;

-- A key of namespace and ID.
CREATE TABLE events (
    namespace text NOT NULL DEFAULT 'default',
    id        bigint NOT NULL DEFAULT idgen_next('default'),
    what      text,
    PRIMARY KEY (namespace, id)
);
INSERT INTO events (what) SELECT 'before' FROM generate_series(1, 10);
SELECT idgen_create_namespace('second', timestamp_bits => 42, worker_bits => 6, sequence_bits => 12, epoch => '2026-01-01 00:00:00+00');
ALTER TABLE events ALTER COLUMN namespace SET DEFAULT 'second', ALTER COLUMN id SET DEFAULT idgen_next('second');
INSERT INTO events (what) SELECT 'after' FROM generate_series(1, 10);
SELECT results_eq('SELECT namespace, what, count(*)::int FROM events GROUP BY 1, 2 ORDER BY 2 DESC', $$VALUES ('default', 'before', 10), ('second', 'after', 10)$$, 'a row says of which namespace its ID is');
SELECT is((SELECT count(*) FROM events WHERE NOT pg_temp.is_now(id, namespace)), 0::bigint, 'and is decoded by it');
SELECT is((SELECT count(*) FROM events WHERE pg_temp.is_now(id, 'second') = pg_temp.is_now(id, 'default')), 0::bigint, 'the other one gives another time, without an error');

-- The cut-over: all IDs of the second are greater, so that the ID itself says which it is.
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), what text);
INSERT INTO orders (what) SELECT 'before' FROM generate_series(1, 10);
SELECT idgen_create_namespace('third', epoch => '2024-12-31 00:00:00+00');
BEGIN;
ALTER TABLE orders ALTER COLUMN id SET DEFAULT idgen_next('third');
SELECT idgen_lower_bound(clock_timestamp(), 'third') AS cut \gset
SELECT max(id) < :cut AS no_id_is_above FROM orders \gset
CREATE FUNCTION order_namespace(id bigint) RETURNS text IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN id < :cut THEN 'default' ELSE 'third' END;
COMMIT;
SELECT ok(:'no_id_is_above', 'no ID is above the cut yet');
INSERT INTO orders (what) SELECT 'after' FROM generate_series(1, 10);
SELECT results_eq('SELECT order_namespace(id), what, count(*)::int FROM orders GROUP BY 1, 2 ORDER BY 2 DESC', $$VALUES ('default', 'before', 10), ('third', 'after', 10)$$, 'the ID says which it is');
SELECT is((SELECT count(*) FROM orders WHERE NOT pg_temp.is_now(id, order_namespace(id))), 0::bigint, 'and is decoded by it');
SELECT is((SELECT count(*) FROM orders WHERE idgen_timestamp(id, 'default') > now() + interval '12 hours'), 10::bigint, 'by the first alone, half of them are of tomorrow');
SELECT is((SELECT array_agg(what ORDER BY id) FROM orders), array_fill('before'::text, ARRAY[10]) || array_fill('after'::text, ARRAY[10]), 'IDs rise over the cut');
SELECT is((SELECT count(*) FROM orders WHERE id >= idgen_lower_bound(now() - interval '1 hour', 'default') AND id < :cut
    OR id >= greatest(:cut, idgen_lower_bound(now() - interval '1 hour', 'third'))), 20::bigint, 'a range of time has both');

-- The lineage tells two namespaces of one name apart.
SELECT isnt(idgen_format('default') ->> 'lineage', idgen_format('second') ->> 'lineage', 'a lineage is one namespace''s');
SELECT is(idgen_format('second') ->> 'lineage', (SELECT lineage::text FROM idgen_namespace WHERE name = 'second'), 'that of its row');
SELECT ok((idgen_format() ->> 'lineage')::uuid IS NOT NULL, 'a uuid');
SELECT * FROM finish();
