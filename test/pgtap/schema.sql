-- The extension in a schema whose name needs quoting, in and outside the search path, also after a change of the name.
SELECT plan(17);
DROP EXTENSION idgen;
CREATE SCHEMA "Od d";
CREATE EXTENSION idgen SCHEMA "Od d";
SELECT ok("Od d".idgen_next() > 0, 'idgen_next() issues from a quoted schema');
SELECT is((SELECT count(*) FROM "Od d".idgen_next_batch(1000)), 1000::bigint,
    'idgen_next_batch() issues from a quoted schema');
SELECT is("Od d".idgen_next_json() ->> 'format', 'default', 'idgen_next_json() issues from a quoted schema');
SELECT lives_ok($$SELECT "Od d".idgen_create_namespace('odd')$$, 'idgen_create_namespace() works in a quoted schema');
SELECT ok("Od d".idgen_next('odd') > 0, 'a namespace that was created in a quoted schema issues');
SELECT is(("Od d".idgen_decode(4194304::bigint, 'odd')).tick, 1::bigint, 'idgen_decode() works in a quoted schema');
SELECT throws_ok('SELECT idgen_next()', '42883', NULL, 'idgen_next() is unknown outside the search path');
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT "Od d".idgen_next('odd'), n int);
SELECT is((SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'orders'::regclass),
    '"Od d".idgen_next(''odd''::text)', 'a default is shown with its quoted schema');
SELECT lives_ok('INSERT INTO orders (n) SELECT generate_series(1, 1000)',
    'a default from a quoted schema fills a thousand rows');
SELECT is((SELECT count(DISTINCT id) FROM orders), 1000::bigint,
    'the IDs of a default from a quoted schema are all different');
SELECT throws_ok($$DELETE FROM _idgen.idgen_worker$$, '55000', NULL, 'the tables are guarded while the functions are in a quoted schema');
SET search_path = '';
SELECT "Od d".idgen_next('odd') > 0 AS issued \gset
RESET search_path;
SELECT ok(:'issued', 'idgen_next() issues from a quoted schema with an empty search path');
ALTER SCHEMA "Od d" RENAME TO "e ven";
SELECT ok("e ven".idgen_next('odd') > 0, 'idgen_next() issues from a renamed schema');
INSERT INTO orders (n) VALUES (1001);
SELECT ok((SELECT max(id) = (SELECT id FROM orders WHERE n = 1001) FROM orders),
    'a default follows a renamed schema, and its IDs rise');
SELECT lives_ok($$SELECT "e ven".idgen_create_namespace('even')$$,
    'idgen_create_namespace() works in a renamed schema');
SELECT lives_ok($$SELECT "e ven".idgen_next('even')$$, 'a namespace that was created in a renamed schema issues');
SELECT lives_ok($$SELECT "e ven".idgen_retire_namespace('even')$$,
    'a namespace that was created in a renamed schema can be retired');
SELECT * FROM finish();
