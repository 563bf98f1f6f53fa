-- By role: what everybody may, what owners may, what nobody may.
SELECT plan(36);
CREATE ROLE regress_idgen_app;
CREATE ROLE regress_idgen_boss;
CREATE ROLE regress_idgen_deputy IN ROLE regress_idgen_boss;
CREATE ROLE regress_idgen_outsider NOINHERIT IN ROLE regress_idgen_boss;
GRANT EXECUTE ON FUNCTION idgen_create_namespace TO regress_idgen_boss;

SET ROLE regress_idgen_boss;
SELECT lives_ok($$SELECT idgen_create_namespace('of the boss')$$, 'who was granted it creates');
SELECT lives_ok($$SELECT idgen_create_namespace('of the boss 2')$$, 'and again');
SELECT lives_ok($$SELECT idgen_create_namespace('of the boss 3')$$, 'and again');
SELECT throws_ok($$SELECT idgen_create_namespace('of the boss')$$, '42710', NULL, 'but not the same');
SELECT throws_ok($$SELECT * FROM idgen_namespace$$, '42501', NULL, 'and reads no table for it');
SELECT throws_ok($$SELECT idgen_retire_namespace('default')$$, '42501', NULL, 'nor owns others');
RESET ROLE;
SELECT is((SELECT owner FROM idgen_namespace WHERE name = 'of the boss'), 'regress_idgen_boss', 'owns what it created');

SET ROLE regress_idgen_app;
SELECT ok(idgen_next() > 0, 'everybody issues');
SELECT ok(idgen_next('of the boss') > 0, 'from any namespace');
SELECT is((SELECT count(*) FROM idgen_next_batch(10, 'of the boss')), 10::bigint, 'batches');
SELECT is(idgen_next_json('of the boss') ->> 'format', 'of the boss', 'JSON');
SELECT is((idgen_decode(4194304::bigint, 'of the boss')).tick, 1::bigint, 'decodes');
SELECT is((idgen_decode('4194304'::text, 'of the boss')).tick, 1::bigint, 'decodes text');
SELECT is(idgen_encode(1, 0, 0, 'of the boss'), 4194304::bigint, 'encodes');
SELECT ok(idgen_timestamp(4194304, 'of the boss') IS NOT NULL, 'timestamps');
SELECT is(idgen_lower_bound('-infinity', 'of the boss'), 0::bigint, 'bounds');
SELECT is(idgen_format('of the boss') ->> 'format', 'of the boss', 'formats');
SELECT throws_ok($$SELECT idgen_create_namespace('of the app')$$, '42501', NULL, 'creates none');
SELECT throws_ok($$SELECT idgen_retire_namespace('of the boss')$$, '42501', NULL, 'retires none');
SELECT throws_ok($$SELECT idgen_retire_namespace('default')$$, '42501', NULL, 'the default neither');
SELECT throws_ok($$SELECT idgen_retire_namespace('nobody')$$, '42704', NULL, 'one that is not there');
SELECT throws_ok('SET idgen.max_batch = 1', '42501', NULL, 'the longest batch is the superuser''s');
SELECT lives_ok('SET idgen.wait_timeout = ''3 s''', 'how long to wait is everybody''s');
SELECT throws_ok(format('SELECT * FROM %I', t), '42501', NULL, 'does not read ' || t)
FROM unnest('{idgen_namespace,idgen_floor,idgen_worker,idgen_authority,idgen_incarnation,idgen_grant}'::text[]) t;
RESET ROLE;

SET ROLE regress_idgen_outsider;
SELECT throws_ok($$SELECT idgen_retire_namespace('of the boss')$$, '42501', NULL, 'a member that does not inherit retires none');
SET ROLE regress_idgen_deputy;
SELECT lives_ok($$SELECT idgen_retire_namespace('of the boss')$$, 'a member that inherits does');
SET ROLE regress_idgen_app;
SELECT throws_ok($$SELECT idgen_next('of the boss')$$, 'IG009', NULL, 'for everybody');
SELECT throws_ok($$SELECT idgen_retire_namespace('of the boss')$$, '42501', NULL, 'still nobody else''s');
SET ROLE regress_idgen_boss;
SELECT lives_ok($$SELECT idgen_retire_namespace('of the boss 2')$$, 'the owner does');
RESET ROLE;
SELECT lives_ok($$SELECT idgen_retire_namespace('of the boss 3')$$, 'a superuser does');

-- Settings of a role or database do not reach the authority.
ALTER ROLE regress_idgen_app SET default_transaction_read_only = on;
ALTER DATABASE :"DBNAME" SET default_transaction_read_only = on;
ALTER DATABASE :"DBNAME" SET statement_timeout = '1ms';
ALTER DATABASE :"DBNAME" SET default_transaction_isolation = 'serializable';
ALTER DATABASE :"DBNAME" SET search_path = 'nowhere';
ALTER DATABASE :"DBNAME" SET row_security = off;
SELECT idgen_create_namespace('settings');
-- a worker that begins with them
SELECT pid AS worker FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'idgen authority' \gset
SELECT pg_terminate_backend(:worker);
SELECT ok(idgen_next('settings') > 0, 'issues with read-only, serializable, a timeout and no search path set for the database');
ALTER DATABASE :"DBNAME" RESET ALL;
SELECT * FROM finish();
DROP OWNED BY regress_idgen_boss, regress_idgen_app;
DROP ROLE regress_idgen_app, regress_idgen_deputy, regress_idgen_outsider, regress_idgen_boss;
