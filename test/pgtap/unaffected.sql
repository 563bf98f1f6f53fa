-- What happens to one namespace has no effect on another, also with ticks of an hour.
SELECT plan(9);
SET idgen.wait_timeout = '20 s';
SELECT idgen_create_namespace('hours', 27, 5, 20, tick_ms => 3600000, grant_interval => '1 h', horizon => '1 h');
SELECT idgen_create_namespace('hours too', 27, 5, 20, tick_ms => 3600000, grant_interval => '1 h', horizon => '1 h');
SELECT lives_ok($$SELECT idgen_next('hours')$$, 'a namespace issues in the middle of a tick of an hour');
SELECT lives_ok($$DO 'BEGIN ASSERT (idgen_decode(idgen_next(''hours''), ''hours'')).tick
    = floor(extract(epoch FROM now() - ''2025-01-01 00:00:00+00'') / 3600); END'$$,
    'an ID in a tick of an hour carries the current tick');
SELECT lives_ok($$SELECT idgen_retire_namespace('hours')$$, 'a namespace with ticks of an hour can be retired');
SELECT idgen_create_namespace('fresh');
SELECT lives_ok($$SELECT idgen_next('fresh')$$, 'a new namespace issues at once after another was retired');
SELECT lives_ok($$SELECT idgen_next('hours too')$$,
    'another namespace with ticks of an hour issues after one was retired');
SELECT lives_ok('SELECT idgen_next()', 'the default namespace issues after another was retired');
-- a namespace with a single worker and one ID per tick
SELECT idgen_create_namespace('slow', 33, 0, 0, tick_ms => 3600000, grant_interval => '1 h', horizon => '1 h');
SELECT throws_ok($$SELECT idgen_next_batch(3, 'slow')$$, 'IG003', NULL,
    'a namespace with one ID per tick refuses a batch of three with IG003 [S8]');
SELECT lives_ok($$SELECT count(*) FROM idgen_next_batch(10000, 'fresh')$$,
    'a large batch of another namespace comes while one is short of IDs');
SELECT lives_ok($$SELECT count(*) FROM idgen_next_batch(10000)$$,
    'a large batch of the default namespace comes while one is short of IDs');
SELECT * FROM finish();
