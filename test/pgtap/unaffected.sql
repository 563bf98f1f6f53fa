-- Namespaces stand apart: what becomes of one is no matter to another, also with ticks of an hour.
SELECT plan(9);
SET idgen.wait_timeout = '20 s';
SELECT idgen_create_namespace('hours', 27, 5, 20, tick_ms => 3600000, grant_interval => '1 h', horizon => '1 h');
SELECT idgen_create_namespace('hours too', 27, 5, 20, tick_ms => 3600000, grant_interval => '1 h', horizon => '1 h');
SELECT lives_ok($$SELECT idgen_next('hours')$$, 'a tick of an hour, used from its middle');
SELECT lives_ok($$DO 'BEGIN ASSERT (idgen_decode(idgen_next(''hours''), ''hours'')).tick = floor(extract(epoch FROM now() - ''2025-01-01 00:00:00+00'') / 3600); END'$$, 'the current one');
SELECT lives_ok($$SELECT idgen_retire_namespace('hours')$$, 'it is retired');
SELECT idgen_create_namespace('fresh');
SELECT lives_ok($$SELECT idgen_next('fresh')$$, 'another begins at once');
SELECT lives_ok($$SELECT idgen_next('hours too')$$, 'one with such ticks as well');
SELECT lives_ok('SELECT idgen_next()', 'and the default');
-- one that is short of everything
SELECT idgen_create_namespace('slow', 33, 0, 0, tick_ms => 3600000, grant_interval => '1 h', horizon => '1 h');
SELECT throws_ok($$SELECT idgen_next_batch(3, 'slow')$$, 'IG003', NULL, 'one that is short of values');
SELECT lives_ok($$SELECT count(*) FROM idgen_next_batch(10000, 'fresh')$$, 'takes nothing from others');
SELECT lives_ok($$SELECT count(*) FROM idgen_next_batch(10000)$$, 'nor from the default');
SELECT * FROM finish();
