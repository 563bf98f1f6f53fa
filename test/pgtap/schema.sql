-- In a schema whose name needs quoting, with and without it in the search path, also renamed.
SELECT plan(17);
DROP EXTENSION idgen;
CREATE SCHEMA "Od d";
CREATE EXTENSION idgen SCHEMA "Od d";
SELECT ok("Od d".idgen_next() > 0, 'issues');
SELECT is((SELECT count(*) FROM "Od d".idgen_next_batch(1000)), 1000::bigint, 'a batch');
SELECT is("Od d".idgen_next_json() ->> 'format', 'default', 'JSON');
SELECT lives_ok($$SELECT "Od d".idgen_create_namespace('odd')$$, 'creates a namespace');
SELECT ok("Od d".idgen_next('odd') > 0, 'and issues from it');
SELECT is(("Od d".idgen_decode(4194304::bigint, 'odd')).tick, 1::bigint, 'decodes');
SELECT throws_ok('SELECT idgen_next()', '42883', NULL, 'not in the search path');
CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT "Od d".idgen_next('odd'), n int);
SELECT is((SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'orders'::regclass), '"Od d".idgen_next(''odd''::text)', 'the default is qualified');
SELECT lives_ok('INSERT INTO orders (n) SELECT generate_series(1, 1000)', 'and works');
SELECT is((SELECT count(DISTINCT id) FROM orders), 1000::bigint, 'with one value each');
SELECT throws_ok($$DELETE FROM "Od d".idgen_worker$$, '55000', NULL, 'guarded there too');
SET search_path = '';
SELECT "Od d".idgen_next('odd') > 0 AS issued \gset
RESET search_path;
SELECT ok(:'issued', 'with an empty search path');
ALTER SCHEMA "Od d" RENAME TO "e ven";
SELECT ok("e ven".idgen_next('odd') > 0, 'renamed: issues');
INSERT INTO orders (n) VALUES (1001);
SELECT ok((SELECT max(id) = (SELECT id FROM orders WHERE n = 1001) FROM orders), 'renamed: the default follows, IDs rise');
SELECT lives_ok($$SELECT "e ven".idgen_create_namespace('even')$$, 'renamed: creates');
SELECT lives_ok($$SELECT "e ven".idgen_next('even')$$, 'renamed: issues from it');
SELECT lives_ok($$SELECT "e ven".idgen_retire_namespace('even')$$, 'renamed: retires it');
SELECT * FROM finish();
