-- IDs of two formats in one column, each decoded by its own format: the recipes of the manual.
SELECT plan(12);

CREATE FUNCTION pg_temp.is_now(id bigint, namespace text) RETURNS boolean LANGUAGE sql AS $$
    SELECT idgen_timestamp(id, namespace) BETWEEN clock_timestamp() - interval '1 hour' AND clock_timestamp() + interval '1 minute' $$;

-- The key is the namespace and the ID.
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
SELECT results_eq('SELECT namespace, what, count(*)::int FROM events GROUP BY 1, 2 ORDER BY 2 DESC',
    $$VALUES ('default', 'before', 10), ('second', 'after', 10)$$, 'a row says to which namespace its ID belongs');
SELECT is((SELECT count(*) FROM events WHERE NOT pg_temp.is_now(id, namespace)), 0::bigint,
    'an ID is decoded right by the namespace of its row');
SELECT is((SELECT count(*) FROM events WHERE pg_temp.is_now(id, 'second') = pg_temp.is_now(id, 'default')), 0::bigint,
    'another namespace decodes an ID without an error, but to another time');

-- The cut-over: all IDs of the new namespace are greater, so that the ID itself says to which one it belongs.
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), what text);
INSERT INTO orders (what) SELECT 'before' FROM generate_series(1, 10);
SELECT idgen_create_namespace('third', epoch => '2024-12-31 00:00:00+00');
BEGIN;
ALTER TABLE orders ALTER COLUMN id SET DEFAULT idgen_next('third');
SELECT idgen_lower_bound(clock_timestamp() - interval '1 hour', 'third') AS cut \gset
SELECT max(id) < :cut AS no_id_is_above FROM orders \gset
CREATE FUNCTION order_namespace(id bigint) RETURNS text IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN id < :cut THEN 'default' ELSE 'third' END;
COMMIT;
SELECT ok(:'no_id_is_above', 'no ID is above the cut before the cut-over');
INSERT INTO orders (what) SELECT 'after' FROM generate_series(1, 10);
SELECT results_eq('SELECT order_namespace(id), what, count(*)::int FROM orders GROUP BY 1, 2 ORDER BY 2 DESC',
    $$VALUES ('default', 'before', 10), ('third', 'after', 10)$$,
    'an ID says by the cut to which namespace it belongs');
SELECT is((SELECT count(*) FROM orders WHERE NOT pg_temp.is_now(id, order_namespace(id))), 0::bigint,
    'an ID is decoded right by the namespace that the cut tells');
SELECT is((SELECT count(*) FROM orders WHERE idgen_timestamp(id, 'default') > now() + interval '12 hours'), 10::bigint,
    'the old namespace alone decodes half of the IDs to times in the future');
SELECT is((SELECT array_agg(what ORDER BY id) FROM orders), array_fill('before'::text, ARRAY[10]) || array_fill('after'::text, ARRAY[10]),
    'IDs rise over the cut');
SELECT is((SELECT count(*) FROM orders WHERE id >= idgen_lower_bound(now() - interval '1 hour', 'default') AND id < :cut
    OR id >= greatest(:cut, idgen_lower_bound(now() - interval '1 hour', 'third'))), 20::bigint,
    'a range of time finds the IDs of both namespaces');

-- The lineage tells two namespaces with the same name apart.
SELECT isnt(idgen_format('default') ->> 'lineage', idgen_format('second') ->> 'lineage',
    'two namespaces have two lineages');
SELECT is(idgen_format('second') ->> 'lineage', (SELECT lineage::text FROM _idgen.idgen_namespace WHERE name = 'second'),
    'idgen_format() shows the lineage of the row of the namespace');
SELECT ok((idgen_format() ->> 'lineage')::uuid IS NOT NULL, 'the lineage in idgen_format() is a uuid');
SELECT * FROM finish();
