-- What every role may do, what owners may do, and what nobody may do.
SELECT plan(40);
CREATE ROLE regress_idgen_app;
CREATE ROLE regress_idgen_boss;
CREATE ROLE regress_idgen_deputy IN ROLE regress_idgen_boss;
CREATE ROLE regress_idgen_outsider NOINHERIT IN ROLE regress_idgen_boss;
GRANT EXECUTE ON FUNCTION idgen_create_namespace TO regress_idgen_boss;

SET ROLE regress_idgen_boss;
SELECT lives_ok($$SELECT idgen_create_namespace('of the boss')$$,
    'a role with EXECUTE on idgen_create_namespace() creates a namespace');
SELECT lives_ok($$SELECT idgen_create_namespace('of the boss 2')$$, 'a role with EXECUTE creates a second namespace');
SELECT lives_ok($$SELECT idgen_create_namespace('of the boss 3')$$, 'a role with EXECUTE creates a third namespace');
SELECT throws_ok($$SELECT idgen_create_namespace('of the boss')$$, '42710', NULL,
    'a second namespace of the same name is refused with 42710');
SELECT throws_ok($$SELECT * FROM _idgen.idgen_authority$$, '42501', NULL,
    'a role that creates namespaces cannot read their identities');
SELECT throws_ok($$SELECT idgen_retire_namespace('default')$$, '42501', NULL,
    'a role that creates namespaces cannot retire those of others');
RESET ROLE;
SELECT is((SELECT owner FROM _idgen.idgen_namespace WHERE name = 'of the boss'), 'regress_idgen_boss',
    'a role owns the namespace that it created');

SET ROLE regress_idgen_app;
SELECT ok(idgen_next() > 0, 'every role issues from the default namespace');
SELECT ok(idgen_next('of the boss') > 0, 'every role issues from the namespace of another role');
SELECT is((SELECT count(*) FROM idgen_next_batch(10, 'of the boss')), 10::bigint, 'every role gets batches');
SELECT is(idgen_next_json('of the boss') ->> 'format', 'of the boss', 'every role gets IDs as JSON');
SELECT is((idgen_decode(4194304::bigint, 'of the boss')).tick, 1::bigint, 'every role decodes');
SELECT is((idgen_decode_text('4194304', 'of the boss')).tick, 1::bigint, 'every role decodes IDs as text');
SELECT is(idgen_encode(1, 0, 0, 'of the boss'), 4194304::bigint, 'every role encodes');
SELECT ok(idgen_timestamp(4194304, 'of the boss') IS NOT NULL, 'every role gets the timestamp of an ID');
SELECT is(idgen_lower_bound('-infinity', 'of the boss'), 0::bigint, 'every role gets lower bounds');
SELECT is(idgen_format('of the boss') ->> 'format', 'of the boss', 'every role reads the format');
SELECT throws_ok($$SELECT idgen_create_namespace('of the app')$$, '42501', NULL,
    'an ordinary role cannot create a namespace');
SELECT throws_ok($$SELECT idgen_retire_namespace('of the boss')$$, '42501', NULL,
    'an ordinary role cannot retire the namespace of another role');
SELECT throws_ok($$SELECT idgen_retire_namespace('default')$$, '42501', NULL,
    'an ordinary role cannot retire the default namespace');
SELECT throws_ok($$SELECT idgen_retire_namespace('nobody')$$, '42704', NULL,
    'an ordinary role gets 42704 for a namespace that does not exist');
SELECT throws_ok('SET idgen.max_batch = 1', '42501', NULL, 'an ordinary role cannot set idgen.max_batch');
SELECT lives_ok('SET idgen.wait_timeout = ''3 s''', 'every role can set idgen.wait_timeout');
SELECT throws_ok(format('SELECT * FROM %s', t), '42501', NULL, 'an ordinary role cannot read ' || t)
FROM unnest('{_idgen.idgen_authority,_idgen.idgen_incarnation,_idgen.idgen_grant}'::text[]) t;
SELECT lives_ok(format('SELECT * FROM %s', t), 'an ordinary role can read ' || t || ', which is dumped')
FROM unnest('{_idgen.idgen_namespace,_idgen.idgen_floor,_idgen.idgen_worker}'::text[]) t;
SELECT throws_ok(format('INSERT INTO %s TABLE %1$s', t), '42501', NULL, 'an ordinary role cannot write ' || t)
FROM unnest('{_idgen.idgen_namespace,_idgen.idgen_floor,_idgen.idgen_worker}'::text[]) t;
SELECT throws_ok('CREATE TABLE _idgen.mine (id bigint)', '42501', NULL,
    'an ordinary role can create nothing in the schema of the tables');
RESET ROLE;

SET ROLE regress_idgen_outsider;
SELECT throws_ok($$SELECT idgen_retire_namespace('of the boss')$$, '42501', NULL,
    'a member of the owner that does not inherit cannot retire its namespace');
SET ROLE regress_idgen_deputy;
SELECT lives_ok($$SELECT idgen_retire_namespace('of the boss')$$,
    'a member of the owner that inherits retires its namespace');
SET ROLE regress_idgen_app;
SELECT throws_ok($$SELECT idgen_next('of the boss')$$, 'IG009', NULL,
    'a namespace that a member of its owner retired fails with IG009 for every role');
SELECT throws_ok($$SELECT idgen_retire_namespace('of the boss')$$, '42501', NULL,
    'an ordinary role cannot retire a namespace that is retired already');
SET ROLE regress_idgen_boss;
SELECT lives_ok($$SELECT idgen_retire_namespace('of the boss 2')$$, 'the owner retires a namespace');
RESET ROLE;
SELECT lives_ok($$SELECT idgen_retire_namespace('of the boss 3')$$,
    'a superuser retires the namespace of another role');

-- Settings of a role or database do not reach the authority process.
ALTER ROLE regress_idgen_app SET default_transaction_read_only = on;
ALTER DATABASE :"DBNAME" SET default_transaction_read_only = on;
ALTER DATABASE :"DBNAME" SET statement_timeout = '1ms';
ALTER DATABASE :"DBNAME" SET default_transaction_isolation = 'serializable';
ALTER DATABASE :"DBNAME" SET search_path = 'nowhere';
ALTER DATABASE :"DBNAME" SET row_security = off;
SELECT idgen_create_namespace('settings');
-- a new authority process begins with these settings
SELECT pid AS authority FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'idgen authority' \gset
SELECT pg_terminate_backend(:authority);
SELECT ok(idgen_next('settings') > 0,
    'idgen_next() issues in a read-only, serializable database with a timeout and no search path');
ALTER DATABASE :"DBNAME" RESET ALL;
SELECT * FROM finish();
DROP OWNED BY regress_idgen_boss, regress_idgen_app;
DROP ROLE regress_idgen_app, regress_idgen_deputy, regress_idgen_outsider, regress_idgen_boss;
