--
-- Privileges: everybody issues and decodes; changes are for owners.
--
\pset format unaligned
\pset null NULL
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';

CREATE ROLE regress_idgen_user;
CREATE ROLE regress_idgen_owner;
CREATE ROLE regress_idgen_member IN ROLE regress_idgen_owner;
SELECT idgen_create_namespace('privilege');

SET ROLE regress_idgen_user;
SELECT idgen_next() > 0 AS next, idgen_next('privilege') > 0 AS other, (SELECT count(*) FROM idgen_next_batch(3, 'privilege')) AS batch,
    idgen_next_json('privilege') ->> 'format' AS json;
SELECT format, worker, sequence FROM idgen_decode(4194304, 'privilege');
SELECT format FROM idgen_decode_text('4194304', 'privilege');
SELECT idgen_encode(1, 0, 0, 'privilege'), idgen_timestamp(4194304, 'privilege'), idgen_lower_bound('infinity', 'privilege'),
    idgen_format('privilege') ->> 'format' AS format;
SET idgen.wait_timeout = '1 s';
RESET idgen.wait_timeout;

-- Not for everybody.
SELECT idgen_create_namespace('privilege mine');
\echo :SQLSTATE
SELECT idgen_retire_namespace('privilege');
\echo :SQLSTATE
SELECT idgen_retire_namespace('default');
\echo :SQLSTATE
SELECT idgen_guard();
\echo :SQLSTATE
SET idgen.max_batch = 10;
\echo :SQLSTATE
-- The tables.
SELECT count(*) > 0 AS readable FROM _idgen.idgen_namespace;
SELECT count(*) > 0 AS readable FROM _idgen.idgen_floor;
SELECT count(*) > 0 AS readable FROM _idgen.idgen_worker;
SELECT count(*) FROM _idgen.idgen_authority;
SELECT count(*) FROM _idgen.idgen_incarnation;
SELECT count(*) FROM _idgen.idgen_grant;
\echo :SQLSTATE
INSERT INTO _idgen.idgen_worker VALUES ('privilege', 0, 1);
\echo :SQLSTATE
INSERT INTO _idgen.idgen_namespace SELECT 'mine';
UPDATE _idgen.idgen_namespace SET retired = true;
UPDATE _idgen.idgen_worker SET high_water = 0;
DELETE FROM _idgen.idgen_worker;
TRUNCATE _idgen.idgen_worker;
BEGIN;
LOCK TABLE _idgen.idgen_worker IN ACCESS EXCLUSIVE MODE;
\echo :SQLSTATE
ROLLBACK;
ALTER TABLE _idgen.idgen_worker DISABLE TRIGGER ALL;
\echo :SQLSTATE
DROP EXTENSION idgen;
\echo :SQLSTATE
RESET ROLE;
-- a trigger function is of no use on other tables
CREATE TABLE privilege_table (id bigint);
CREATE TRIGGER privilege_guard BEFORE INSERT ON privilege_table FOR EACH ROW EXECUTE FUNCTION idgen_guard();
INSERT INTO privilege_table VALUES (1);
\echo :SQLSTATE
DROP TABLE privilege_table;
-- the namespaces go on
SELECT idgen_next('privilege') > 0 AS privilege, idgen_next() > 0 AS "default";

-- What was revoked from PUBLIC; all else is everybody's to call.
SELECT p.proname AS function
FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid
WHERE d.refclassid = 'pg_extension'::regclass AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
    AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'idgen')
    AND NOT has_function_privilege('regress_idgen_user', p.oid, 'EXECUTE')
ORDER BY p.proname;
SET ROLE regress_idgen_user;
SELECT idgen_confirm_clock();
\echo :SQLSTATE
RESET ROLE;

-- A role that was granted it creates namespaces, and owns them.
GRANT EXECUTE ON FUNCTION idgen_create_namespace TO regress_idgen_owner;
SET ROLE regress_idgen_owner;
SELECT idgen_create_namespace('privilege owned');
SELECT idgen_create_namespace('privilege owned too');
SELECT idgen_next('privilege owned') > 0 AS issued;
SELECT idgen_retire_namespace('privilege');
\echo :SQLSTATE
SET ROLE regress_idgen_user;
SELECT idgen_next('privilege owned') > 0 AS issued;
SELECT idgen_retire_namespace('privilege owned');
\echo :SQLSTATE
SELECT idgen_next('privilege owned') > 0 AS not_retired;
-- What counts is the current user, in a function of its owner too.
RESET ROLE;
CREATE FUNCTION privilege_retire(name text) RETURNS void SECURITY DEFINER
    LANGUAGE sql AS 'SELECT idgen_retire_namespace(name)';
ALTER FUNCTION privilege_retire OWNER TO regress_idgen_user;
SELECT privilege_retire('privilege owned');
\echo :SQLSTATE
ALTER FUNCTION privilege_retire OWNER TO regress_idgen_owner;
SET ROLE regress_idgen_user;
SELECT privilege_retire('privilege owned');
SELECT idgen_next('privilege owned');
\echo :SQLSTATE
-- A member of the owner may as well, and a superuser.
SET ROLE regress_idgen_member;
SELECT idgen_retire_namespace('privilege owned too');
SELECT idgen_next('privilege owned too');
\echo :SQLSTATE
RESET ROLE;
SELECT idgen_retire_namespace('privilege');
SELECT idgen_next('privilege');
\echo :SQLSTATE
-- Retired already: still not for everybody.
SET ROLE regress_idgen_user;
SELECT idgen_retire_namespace('privilege');
\echo :SQLSTATE
RESET ROLE;

-- EXECUTE can be taken away like that of any function.
REVOKE EXECUTE ON FUNCTION idgen_next_batch FROM PUBLIC;
SET ROLE regress_idgen_user;
SELECT idgen_next_batch(1);
\echo :SQLSTATE
SELECT idgen_next() > 0 AS next;
RESET ROLE;
GRANT EXECUTE ON FUNCTION idgen_next_batch TO PUBLIC;

-- A role may insert where the default issues, with no right on idgen's tables.
CREATE TABLE privilege_orders (id bigint PRIMARY KEY DEFAULT idgen_next(), n int);
GRANT INSERT, SELECT ON privilege_orders TO regress_idgen_user;
SET ROLE regress_idgen_user;
INSERT INTO privilege_orders (n) SELECT generate_series(1, 100);
SELECT count(DISTINCT id) FROM privilege_orders;
RESET ROLE;
DROP TABLE privilege_orders;

DROP FUNCTION privilege_retire;
REVOKE EXECUTE ON FUNCTION idgen_create_namespace FROM regress_idgen_owner;
DROP ROLE regress_idgen_user, regress_idgen_member, regress_idgen_owner;
-- Owners are kept by name; one that is gone leaves its namespaces to superusers.
SELECT idgen_next('privilege owned');
\echo :SQLSTATE
SELECT owner FROM _idgen.idgen_namespace WHERE name = 'privilege owned';
