--
-- The authority's tables against their owner: what idgen did not write is refused, ignored,
-- merged or noticed.
--
\pset format unaligned
\pset null NULL
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';

CREATE FUNCTION pg_temp.outcome(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    affected bigint;
    state    text;
    message  text;
    detail   text;
    hint     text;
BEGIN
    EXECUTE statement;
    GET DIAGNOSTICS affected = ROW_COUNT;
    RETURN 'done, rows: ' || affected;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', state, message, nullif(detail, ''), nullif(hint, ''));
END
$$;
CREATE VIEW pg_temp.tables AS SELECT t FROM unnest('{_idgen.idgen_namespace,_idgen.idgen_floor,_idgen.idgen_worker,_idgen.idgen_authority,_idgen.idgen_incarnation,_idgen.idgen_grant,_idgen.idgen_checksum}'::text[])
    WITH ORDINALITY u (t, n) ORDER BY n;

SELECT idgen_create_namespace('guards');
SELECT idgen_next('guards') > 0 AS issued;
-- what there is to be kept: rows in every table
SELECT (SELECT count(*) > 0 FROM _idgen.idgen_namespace) AS namespace, (SELECT count(*) > 0 FROM _idgen.idgen_floor) AS floor,
    (SELECT count(*) > 0 FROM _idgen.idgen_worker) AS worker, (SELECT count(*) > 0 FROM _idgen.idgen_authority) AS authority,
    (SELECT count(*) > 0 FROM _idgen.idgen_incarnation) AS incarnation, (SELECT count(*) > 0 FROM _idgen.idgen_grant) AS "grant";

--
-- The superuser who owns them may not change a row.
--
SELECT t, pg_temp.outcome('DELETE FROM ' || t) AS delete FROM pg_temp.tables;
SELECT t, pg_temp.outcome('TRUNCATE ' || t) AS truncate FROM pg_temp.tables;
SELECT pg_temp.outcome('TRUNCATE _idgen.idgen_namespace, _idgen.idgen_floor, _idgen.idgen_worker, _idgen.idgen_authority, _idgen.idgen_incarnation, _idgen.idgen_grant, _idgen.idgen_checksum');
SELECT t, pg_temp.outcome(format('UPDATE %s SET %I = %2$I', t, (SELECT attname FROM pg_attribute WHERE attrelid = t::regclass AND attnum = 2))) AS update
FROM pg_temp.tables;
SELECT pg_temp.outcome('UPDATE _idgen.idgen_worker SET high_water = 0 WHERE namespace = ''guards''');
SELECT pg_temp.outcome('UPDATE _idgen.idgen_namespace SET epoch_ms = 0, retired = false WHERE name = ''guards''');
SELECT pg_temp.outcome('UPDATE _idgen.idgen_authority SET worker_count = 0, mark_sum = 0 WHERE namespace = ''guards''');
SELECT pg_temp.outcome('MERGE INTO _idgen.idgen_worker w USING (VALUES (''guards'')) v (n) ON w.namespace = v.n WHEN MATCHED THEN DELETE');
-- nor add one where nothing is ever restored
SELECT t, pg_temp.outcome(format('INSERT INTO %s SELECT * FROM %1$s LIMIT 1', t)) AS insert FROM pg_temp.tables
WHERE t IN ('_idgen.idgen_authority', '_idgen.idgen_incarnation', '_idgen.idgen_grant', '_idgen.idgen_checksum');
COPY _idgen.idgen_grant (grant_id, incarnation, namespace, worker, start_tick, end_tick, granted_at) FROM stdin;
1	1	guards	0	0	1	2025-01-01
\.
-- Statements that meet no row change nothing.
SELECT pg_temp.outcome('DELETE FROM _idgen.idgen_worker WHERE namespace = ''nobody''');

--
-- Rows that are restored merge: the same format, marks by maximum.
--
CREATE TEMP TABLE guards_before AS SELECT * FROM _idgen.idgen_worker WHERE namespace = 'guards';
SELECT pg_temp.outcome('INSERT INTO _idgen.idgen_namespace SELECT * FROM _idgen.idgen_namespace WHERE name = ''guards''');
SELECT pg_temp.outcome('INSERT INTO _idgen.idgen_floor SELECT * FROM _idgen.idgen_floor WHERE namespace = ''guards''');
SELECT pg_temp.outcome('INSERT INTO _idgen.idgen_worker SELECT * FROM _idgen.idgen_worker WHERE namespace = ''guards''');
SELECT pg_temp.outcome('INSERT INTO _idgen.idgen_worker SELECT namespace, worker, 1, NULL FROM _idgen.idgen_worker WHERE namespace = ''guards''');
COPY _idgen.idgen_worker FROM stdin;
guards	0	0	\N
\.
SELECT count(*) AS lower FROM _idgen.idgen_worker w JOIN guards_before b USING (namespace, worker) WHERE w.high_water < b.high_water;
SELECT idgen_next('guards') > 0 AS issued;
-- another format under the same name
SELECT pg_temp.outcome('INSERT INTO _idgen.idgen_namespace SELECT name, kind, timestamp_bits - 1, worker_bits, sequence_bits, epoch_ms, tick_ms,
    horizon_ms, grant_interval_ms, run_ahead_ms, first_worker, last_worker, durability, promotion, restricted, issuing, retired, owner, issue_roles, acquire_roles, split_parts, lineage
    FROM _idgen.idgen_namespace WHERE name = ''guards''');
SELECT pg_temp.outcome('INSERT INTO _idgen.idgen_namespace SELECT name, kind, timestamp_bits, worker_bits, sequence_bits, epoch_ms + 1, tick_ms,
    horizon_ms, grant_interval_ms, run_ahead_ms, first_worker, last_worker, durability, promotion, restricted, issuing, retired, owner, issue_roles, acquire_roles, split_parts, lineage
    FROM _idgen.idgen_namespace WHERE name = ''guards''');
-- a worker range and a policy stay ours
SELECT pg_temp.outcome('INSERT INTO _idgen.idgen_namespace SELECT name, kind, timestamp_bits, worker_bits, sequence_bits, epoch_ms, tick_ms,
    horizon_ms, 77, 7, 5, 6, durability, ''refuse'', restricted, issuing, retired, ''somebody'', issue_roles, acquire_roles, 1, lineage
    FROM _idgen.idgen_namespace WHERE name = ''guards''');
SELECT grant_interval_ms, run_ahead_ms, first_worker, last_worker, promotion FROM _idgen.idgen_namespace WHERE name = 'guards';
SELECT idgen_next('guards') > 0 AS issued;

-- A mark above ours came from elsewhere: a copy, which nobody has adopted. Every call says so.
BEGIN;
INSERT INTO _idgen.idgen_worker SELECT namespace, worker, high_water + 3600000, NULL FROM guards_before;
SELECT pg_temp.outcome('SELECT idgen_next(''guards'')');
SELECT pg_temp.outcome('SELECT idgen_next(''guards'')');
SELECT pg_temp.outcome('SELECT idgen_next_batch(3, ''guards'')');
SELECT pg_temp.outcome('SELECT idgen_next_json(''guards'')');
SELECT pg_temp.outcome('SELECT idgen_decode(4194304, ''guards'')');
ROLLBACK;
SELECT idgen_next('guards') > 0 AS issued;
BEGIN;
INSERT INTO _idgen.idgen_floor VALUES ('guards', 1000000000000);
SELECT pg_temp.outcome('SELECT idgen_next(''guards'')');
SELECT pg_temp.outcome('SELECT idgen_next(''guards'')');
ROLLBACK;
SELECT idgen_next('guards') > 0 AS issued;
-- committed, it stays so: in this session and whatever cursor it had
SELECT idgen_create_namespace('guards copied');
SELECT idgen_next('guards copied') > 0 AS issued;
INSERT INTO _idgen.idgen_worker VALUES ('guards copied', 7, 1000000000000, NULL);
SELECT pg_temp.outcome('SELECT idgen_next(''guards copied'')');
SELECT pg_temp.outcome('SELECT idgen_next(''guards copied'')');
SELECT idgen_next('guards') > 0 AS others;
SELECT pg_temp.outcome('SELECT idgen_next(''guards copied'')');

--
-- Each value of a restored row is one that a namespace can have, and the row is named.
--
CREATE FUNCTION pg_temp.restored(changes jsonb, base text DEFAULT 'guards') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    state   text;
    message text;
    detail  text;
    context text;
BEGIN
    INSERT INTO _idgen.idgen_namespace SELECT (jsonb_populate_record(n, changes)).* FROM _idgen.idgen_namespace n WHERE name = base;
    RETURN 'done';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, context = PG_EXCEPTION_CONTEXT;
    RETURN concat_ws(' | ', state, message, nullif(detail, ''), split_part(context, E'\n', 1));
END
$$;
SELECT c AS change, pg_temp.restored('{"name": "guards restored"}' || c) AS outcome FROM unnest(ARRAY[
    '{"kind": "range"}', '{"timestamp_bits": 0}', '{"timestamp_bits": 64}', '{"worker_bits": 32}', '{"sequence_bits": -1}', '{"timestamp_bits": 42}',
    '{"timestamp_bits": 5}', '{"epoch_ms": 9223372036854775807}', '{"tick_ms": 0}', '{"tick_ms": 3600001}', '{"horizon_ms": 0}', '{"horizon_ms": 3600001}',
    '{"grant_interval_ms": 0}', '{"grant_interval_ms": 10001}', '{"run_ahead_ms": -1}', '{"run_ahead_ms": 10000}',
    '{"first_worker": -1}', '{"last_worker": 1024}', '{"first_worker": 6, "last_worker": 5}', '{"durability": "none"}', '{"durability": ""}',
    '{"promotion": "Fence"}', '{"promotion": "trust"}', '{"owner": ""}', '{"owner": null}', '{"retired": null}', '{"restricted": null}',
    '{"issue_roles": [null]}', '{"issue_roles": [["a"], ["b"]]}', '{"acquire_roles": [""]}', '{"acquire_roles": null}']::jsonb[]) WITH ORDINALITY u (c, n) ORDER BY n;
SELECT key, pg_temp.restored('{"name": "guards restored"}' || jsonb_build_object(key, repeat('x', 64))) AS outcome FROM unnest('{name,durability,promotion,owner}'::text[]) u (key);
SELECT pg_temp.restored(jsonb_build_object('name', 'guards restored', 'issue_roles', ARRAY[repeat('x', 64)]));
SELECT pg_temp.restored('{"name": ""}');
SELECT count(*) AS restored FROM _idgen.idgen_namespace WHERE name LIKE 'guards restored%';
\set VERBOSITY default
INSERT INTO _idgen.idgen_worker VALUES ('guards', 1024, 1, NULL);
INSERT INTO _idgen.idgen_worker VALUES ('guards', 1, 2199023255553, NULL);
INSERT INTO _idgen.idgen_worker VALUES ('guards', 1, -1, NULL);
INSERT INTO _idgen.idgen_worker VALUES ('guards', -1, 1, NULL);
INSERT INTO _idgen.idgen_worker VALUES ('guards', 1, NULL, NULL);
INSERT INTO _idgen.idgen_worker VALUES (repeat('x', 64), 1, 1, NULL);
INSERT INTO _idgen.idgen_worker VALUES (NULL, 1, 1, NULL);
INSERT INTO _idgen.idgen_floor VALUES ('guards', 2199023255553);
INSERT INTO _idgen.idgen_floor VALUES ('guards', -1);
INSERT INTO _idgen.idgen_floor VALUES ('', 1);

--
-- Marks that come before their namespace: whoever creates it then has a copy, in the format that
-- it had. So it is without any mark, if only the floor of a namespace never used has come.
--
INSERT INTO _idgen.idgen_worker VALUES ('guards early', 9, 1099511627776, NULL);
INSERT INTO _idgen.idgen_floor VALUES ('guards early', 5), ('guards unused', 0);
SELECT idgen_create_namespace('guards early', worker_bits => 3);
SELECT idgen_create_namespace('guards early', timestamp_bits => 40, issuing => false);
SELECT pg_temp.restored('{"name": "guards early", "worker_bits": 3, "last_worker": 7}');
SELECT idgen_create_namespace('guards early');
SELECT idgen_create_namespace('guards unused');
SELECT pg_temp.outcome('SELECT idgen_next(''guards early'')');
SELECT pg_temp.outcome('SELECT idgen_next(''guards unused'')');
SELECT w.worker, w.high_water, f.floor FROM _idgen.idgen_worker w JOIN _idgen.idgen_floor f USING (namespace) WHERE namespace = 'guards early';

--
-- Only the owner of the tables restores, or a superuser: whoever may insert may not say what was
-- granted.
--
CREATE ROLE regress_idgen_writer;
CREATE ROLE regress_idgen_heir;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON _idgen.idgen_namespace, _idgen.idgen_floor, _idgen.idgen_worker, _idgen.idgen_authority, _idgen.idgen_incarnation, _idgen.idgen_grant, _idgen.idgen_checksum TO regress_idgen_writer;
GRANT pg_write_all_data, pg_read_all_data TO regress_idgen_heir;
CREATE VIEW guards_view AS TABLE _idgen.idgen_worker;
GRANT INSERT ON guards_view TO regress_idgen_writer;
SET ROLE regress_idgen_writer;
INSERT INTO _idgen.idgen_worker VALUES ('guards', 1, 1000000000000, NULL);
INSERT INTO _idgen.idgen_worker VALUES ('guards', 1, 0, NULL);
\echo :SQLSTATE
INSERT INTO guards_view VALUES ('guards', 1, 1000000000000, NULL);
INSERT INTO _idgen.idgen_worker VALUES ('guards', 1, 1000000000000, NULL) ON CONFLICT DO NOTHING;
INSERT INTO _idgen.idgen_floor VALUES ('guards', 1000000000000) ON CONFLICT (namespace) DO UPDATE SET floor = 1000000000000;
MERGE INTO _idgen.idgen_floor USING (VALUES ('guards mine')) v (name) ON namespace = name WHEN NOT MATCHED THEN INSERT VALUES (name, 5);
COPY _idgen.idgen_floor FROM stdin;
guards	1000000000000	0
\.
INSERT INTO _idgen.idgen_namespace TABLE _idgen.idgen_namespace;
INSERT INTO _idgen.idgen_namespace SELECT (jsonb_populate_record(n, '{"name": "guards mine", "owner": "regress_idgen_writer"}')).* FROM _idgen.idgen_namespace n WHERE name = 'guards';
UPDATE _idgen.idgen_worker SET high_water = 1000000000000;
DELETE FROM _idgen.idgen_worker;
TRUNCATE _idgen.idgen_worker;
MERGE INTO _idgen.idgen_floor USING (VALUES ('guards')) v (name) ON namespace = name WHEN MATCHED THEN UPDATE SET floor = 5;
SET ROLE regress_idgen_heir;
INSERT INTO _idgen.idgen_worker VALUES ('guards', 1, 1000000000000, NULL);
UPDATE _idgen.idgen_worker SET high_water = 1000000000000;
RESET ROLE;
SELECT idgen_next('guards') > 0 AS issued;
SELECT count(*) AS intruded FROM _idgen.idgen_namespace WHERE name LIKE 'guards mine%';
-- who has the owner's rights restores; who only may call a function of the owner's does what it does
SELECT quote_ident(current_user) AS owner \gset
GRANT :owner TO regress_idgen_heir;
SET ROLE regress_idgen_heir;
INSERT INTO _idgen.idgen_floor VALUES ('guards heir', 0);
RESET ROLE;
REVOKE :owner FROM regress_idgen_heir;
CREATE FUNCTION guards_restore() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'INSERT INTO _idgen.idgen_floor VALUES (''guards defined'', 0)';
SET ROLE regress_idgen_writer;
SELECT guards_restore();
RESET ROLE;
SELECT namespace FROM _idgen.idgen_floor WHERE namespace IN ('guards heir', 'guards defined') ORDER BY 1;
DROP VIEW guards_view;
DROP FUNCTION guards_restore();
DROP OWNED BY regress_idgen_writer, regress_idgen_heir;
DROP ROLE regress_idgen_writer, regress_idgen_heir;

--
-- session_replication_role makes no difference: rows that a session restores merge, and the rest is
-- refused. (What a subscription applies is ignored: test/t/106_restore.pl.)
--
CREATE TEMP TABLE guards_rows AS SELECT * FROM _idgen.idgen_namespace WHERE name LIKE 'guards%';
SET session_replication_role = replica;
SELECT t, pg_temp.outcome('DELETE FROM ' || t) AS delete FROM pg_temp.tables;
SELECT pg_temp.outcome('UPDATE _idgen.idgen_worker SET high_water = 0');
SELECT pg_temp.outcome('UPDATE _idgen.idgen_namespace SET retired = true');
SELECT pg_temp.outcome('TRUNCATE _idgen.idgen_worker');
SELECT idgen_create_namespace('guards created by a replica role');
SELECT idgen_next('guards') > 0 AS issued, idgen_next('guards created by a replica role') > 0 AS created;
INSERT INTO _idgen.idgen_worker VALUES ('guards created by a replica role', 1, 1000000000000, NULL);
SELECT pg_temp.restored('{"name": "guards new"}');
RESET session_replication_role;
SELECT count(*) AS changed FROM (SELECT * FROM guards_rows EXCEPT SELECT * FROM _idgen.idgen_namespace) q;
SELECT pg_temp.outcome('SELECT idgen_next(''guards new'')');
SELECT pg_temp.outcome('SELECT idgen_next(''guards created by a replica role'')');
SELECT idgen_next('guards') > 0 AS issued;

--
-- What is done to a table itself is noticed before anything is granted, and named. Undone, it goes
-- on. Each in a namespace that has no grant yet.
--
CREATE FUNCTION pg_temp.evil() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN RAISE WARNING ''a trigger of somebody else ran''; RETURN new; END';
CREATE FUNCTION pg_temp.toggle() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    t   text;
BEGIN
    FOR t IN SELECT * FROM pg_temp.tables LOOP
        EXECUTE format('ALTER TABLE %s DISABLE TRIGGER ALL', t);
        EXECUTE format('ALTER TABLE %s ENABLE TRIGGER ALL', t);
    END LOOP;
END
$$;
-- Issue, damage, issue, repair, issue; each step commits before the next.
CREATE PROCEDURE pg_temp.suffer(damage text, repair text, brief boolean DEFAULT false) LANGUAGE plpgsql AS $$
DECLARE
    name    text := 'guards ' || md5(damage);
    refused text;
    after   text;
BEGIN
    PERFORM idgen_create_namespace(name);
    COMMIT;
    EXECUTE damage;
    COMMIT;
    -- The cause is told when the call's time is over. If nobody has got to it by then, it asks again.
    PERFORM set_config('idgen.wait_timeout', '200 ms', false);
    FOR try IN 1 .. 100 LOOP
        refused := pg_temp.outcome(format('SELECT idgen_next(%L)', name));
        COMMIT;
        EXIT WHEN refused NOT LIKE 'IG002%';
    END LOOP;
    PERFORM set_config('idgen.wait_timeout', '20 s', false);
    EXECUTE repair;
    COMMIT;
    after := pg_temp.outcome(format('SELECT idgen_next(%L)', name));
    RAISE NOTICE E'%\n  damaged:  %\n  repaired: %', damage, CASE WHEN brief THEN format('%s, names the table: %s', left(refused, 5), refused LIKE '%"idgen_worker"%') ELSE replace(refused, name, '<name>') END, replace(after, name, '<name>');
END
$$;
SET client_min_messages = notice;
SELECT idgen_next('guards') > 0 AS worker_is_awake;

-- a guard that does not fire always
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_namespace DISABLE TRIGGER idgen_guard_row', 'ALTER TABLE _idgen.idgen_namespace ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_floor DISABLE TRIGGER idgen_guard_row', 'ALTER TABLE _idgen.idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_worker DISABLE TRIGGER idgen_guard_row', 'ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_authority DISABLE TRIGGER idgen_guard_row', 'ALTER TABLE _idgen.idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_incarnation DISABLE TRIGGER idgen_guard_row', 'ALTER TABLE _idgen.idgen_incarnation ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_grant DISABLE TRIGGER idgen_guard_row', 'ALTER TABLE _idgen.idgen_grant ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_worker DISABLE TRIGGER idgen_guard_truncate', 'ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_truncate');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_worker ENABLE REPLICA TRIGGER idgen_guard_row', 'ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row');
-- no guard, a guard with a condition, a guard for some columns, another function in its place
CALL pg_temp.suffer('DROP TRIGGER idgen_guard_truncate ON _idgen.idgen_worker',
    'CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE ON _idgen.idgen_worker FOR EACH STATEMENT EXECUTE FUNCTION idgen_guard();
     ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_truncate');
CALL pg_temp.suffer('CREATE OR REPLACE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE ON _idgen.idgen_worker
     FOR EACH ROW WHEN (current_user IS NULL) EXECUTE FUNCTION idgen_guard();
     ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row',
    'CREATE OR REPLACE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE ON _idgen.idgen_worker
     FOR EACH ROW EXECUTE FUNCTION idgen_guard();
     ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('CREATE OR REPLACE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OF incarnation OR DELETE ON _idgen.idgen_worker
     FOR EACH ROW EXECUTE FUNCTION idgen_guard();
     ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row',
    'CREATE OR REPLACE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE ON _idgen.idgen_worker
     FOR EACH ROW EXECUTE FUNCTION idgen_guard();
     ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('CREATE OR REPLACE FUNCTION idgen_guard() RETURNS trigger LANGUAGE plpgsql AS ''BEGIN RETURN coalesce(new, old); END''',
    'CREATE OR REPLACE FUNCTION idgen_guard() RETURNS trigger LANGUAGE c AS ''$libdir/idgen'', ''idgen_guard''');
-- triggers, rules, row security, constraints, indexes, columns of somebody else
CALL pg_temp.suffer('CREATE TRIGGER guards_evil BEFORE INSERT OR UPDATE ON _idgen.idgen_worker FOR EACH ROW EXECUTE FUNCTION pg_temp.evil()', 'DROP TRIGGER guards_evil ON _idgen.idgen_worker');
CALL pg_temp.suffer('CREATE TRIGGER guards_evil AFTER INSERT ON _idgen.idgen_grant FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.evil()', 'DROP TRIGGER guards_evil ON _idgen.idgen_grant');
CALL pg_temp.suffer('CREATE CONSTRAINT TRIGGER guards_evil AFTER INSERT ON _idgen.idgen_incarnation DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pg_temp.evil()', 'DROP TRIGGER guards_evil ON _idgen.idgen_incarnation');
CALL pg_temp.suffer('CREATE RULE guards_evil AS ON UPDATE TO _idgen.idgen_worker DO ALSO NOTHING', 'DROP RULE guards_evil ON _idgen.idgen_worker');
CALL pg_temp.suffer('CREATE RULE guards_evil AS ON INSERT TO _idgen.idgen_grant DO INSTEAD NOTHING', 'DROP RULE guards_evil ON _idgen.idgen_grant');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_worker ADD CONSTRAINT guards_evil CHECK (high_water >= 0)', 'ALTER TABLE _idgen.idgen_worker DROP CONSTRAINT guards_evil');
CALL pg_temp.suffer('CREATE INDEX guards_evil ON _idgen.idgen_worker ((high_water + 1))', 'DROP INDEX _idgen.guards_evil');
CALL pg_temp.suffer('CREATE INDEX guards_evil ON _idgen.idgen_worker (high_water) WHERE worker > 0', 'DROP INDEX _idgen.guards_evil');
CALL pg_temp.suffer('CREATE UNIQUE INDEX guards_evil ON _idgen.idgen_floor (floor, namespace)', 'DROP INDEX _idgen.guards_evil');
CALL pg_temp.suffer('CREATE OPERATOR CLASS pg_temp.guards_ops FOR TYPE bigint USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint8cmp(bigint, bigint);
     CREATE INDEX guards_evil ON _idgen.idgen_worker (high_water pg_temp.guards_ops)', 'DROP INDEX _idgen.guards_evil; DROP OPERATOR CLASS pg_temp.guards_ops USING btree');
CALL pg_temp.suffer('CREATE TABLE guards_evil (name text REFERENCES _idgen.idgen_namespace)', 'DROP TABLE guards_evil');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_grant DROP CONSTRAINT idgen_grant_pkey', 'ALTER TABLE _idgen.idgen_grant ADD PRIMARY KEY (namespace, worker, start_tick)');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_incarnation ALTER COLUMN ended_at TYPE timestamp', 'ALTER TABLE _idgen.idgen_incarnation ALTER COLUMN ended_at TYPE timestamptz');
-- what a crash would empty
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_namespace SET UNLOGGED', 'ALTER TABLE _idgen.idgen_namespace SET LOGGED');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_floor SET UNLOGGED', 'ALTER TABLE _idgen.idgen_floor SET LOGGED');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_worker SET UNLOGGED', 'ALTER TABLE _idgen.idgen_worker SET LOGGED');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_authority SET UNLOGGED', 'ALTER TABLE _idgen.idgen_authority SET LOGGED');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_incarnation SET UNLOGGED', 'ALTER TABLE _idgen.idgen_incarnation SET LOGGED');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_grant SET UNLOGGED', 'ALTER TABLE _idgen.idgen_grant SET LOGGED');
-- a table that is not where it was
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_worker RENAME TO guards_renamed', 'ALTER TABLE _idgen.guards_renamed RENAME TO idgen_worker', brief => true);

-- What changes nothing that counts is no damage.
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_worker ENABLE ROW LEVEL SECURITY', 'ALTER TABLE _idgen.idgen_worker DISABLE ROW LEVEL SECURITY');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_authority FORCE ROW LEVEL SECURITY', 'ALTER TABLE _idgen.idgen_authority NO FORCE ROW LEVEL SECURITY');
CALL pg_temp.suffer('ALTER TABLE _idgen.idgen_worker ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', 'ALTER TABLE _idgen.idgen_worker DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY');
CALL pg_temp.suffer('CREATE INDEX guards_harmless ON _idgen.idgen_worker (high_water)', 'DROP INDEX _idgen.guards_harmless');
CALL pg_temp.suffer('CREATE INDEX guards_harmless ON _idgen.idgen_grant USING hash (incarnation)', 'DROP INDEX _idgen.guards_harmless');
CALL pg_temp.suffer('CREATE STATISTICS _idgen.guards_harmless ON namespace, worker FROM _idgen.idgen_worker; ALTER TABLE _idgen.idgen_worker SET (fillfactor = 70, autovacuum_enabled = false)',
    'DROP STATISTICS _idgen.guards_harmless; ALTER TABLE _idgen.idgen_worker SET (fillfactor = 50); ALTER TABLE _idgen.idgen_worker RESET (autovacuum_enabled)');
CALL pg_temp.suffer('ANALYZE _idgen.idgen_worker; REINDEX TABLE _idgen.idgen_worker; CLUSTER _idgen.idgen_worker USING idgen_worker_pkey', 'ALTER TABLE _idgen.idgen_worker SET WITHOUT CLUSTER');
VACUUM FULL _idgen.idgen_worker, _idgen.idgen_grant, _idgen.idgen_namespace;
SELECT idgen_next('guards') > 0 AS issued;
RESET idgen.wait_timeout;

-- Guards that DISABLE and ENABLE TRIGGER ALL have left firing for most sessions only are mended.
CALL pg_temp.suffer('SELECT pg_temp.toggle()', 'SELECT 1');

-- Undisturbed by it all.
SELECT idgen_next() > 0 AS "default", idgen_next('guards') > 0 AS guards;
SELECT count(*) AS triggers FROM pg_trigger WHERE tgrelid IN (SELECT t::regclass FROM pg_temp.tables) AND tgenabled = 'A';
