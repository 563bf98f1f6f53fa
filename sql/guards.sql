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
CREATE VIEW pg_temp.tables AS SELECT t FROM unnest('{idgen_namespace,idgen_floor,idgen_worker,idgen_authority,idgen_incarnation,idgen_grant}'::text[])
    WITH ORDINALITY u (t, n) ORDER BY n;

SELECT idgen_create_namespace('guards');
SELECT idgen_next('guards') > 0 AS issued;
-- what there is to be kept: rows in every table
SELECT (SELECT count(*) > 0 FROM idgen_namespace) AS namespace, (SELECT count(*) > 0 FROM idgen_floor) AS floor,
    (SELECT count(*) > 0 FROM idgen_worker) AS worker, (SELECT count(*) > 0 FROM idgen_authority) AS authority,
    (SELECT count(*) > 0 FROM idgen_incarnation) AS incarnation, (SELECT count(*) > 0 FROM idgen_grant) AS "grant";

--
-- The superuser who owns them may not change a row.
--
SELECT t, pg_temp.outcome('DELETE FROM ' || t) AS delete FROM pg_temp.tables;
SELECT t, pg_temp.outcome('TRUNCATE ' || t) AS truncate FROM pg_temp.tables;
SELECT pg_temp.outcome('TRUNCATE idgen_namespace, idgen_floor, idgen_worker, idgen_authority, idgen_incarnation, idgen_grant');
SELECT t, pg_temp.outcome(format('UPDATE %s SET %I = %2$I', t, (SELECT attname FROM pg_attribute WHERE attrelid = t::regclass AND attnum = 2))) AS update
FROM pg_temp.tables;
SELECT pg_temp.outcome('UPDATE idgen_worker SET high_water = 0 WHERE namespace = ''guards''');
SELECT pg_temp.outcome('UPDATE idgen_namespace SET epoch_ms = 0, retired = false WHERE name = ''guards''');
SELECT pg_temp.outcome('UPDATE idgen_authority SET worker_count = 0, mark_sum = 0 WHERE namespace = ''guards''');
SELECT pg_temp.outcome('MERGE INTO idgen_worker w USING (VALUES (''guards'')) v (n) ON w.namespace = v.n WHEN MATCHED THEN DELETE');
-- nor add one where nothing is ever restored
SELECT t, pg_temp.outcome(format('INSERT INTO %s SELECT * FROM %1$s LIMIT 1', t)) AS insert FROM pg_temp.tables
WHERE t IN ('idgen_authority', 'idgen_incarnation', 'idgen_grant');
COPY idgen_grant (grant_id, incarnation, namespace, worker, start_tick, end_tick, granted_at) FROM stdin;
1	1	guards	0	0	1	2025-01-01
\.
-- Statements that meet no row change nothing.
SELECT pg_temp.outcome('DELETE FROM idgen_worker WHERE namespace = ''nobody''');

--
-- Rows that are restored merge: the same format, marks by maximum.
--
CREATE TEMP TABLE guards_before AS SELECT * FROM idgen_worker WHERE namespace = 'guards';
SELECT pg_temp.outcome('INSERT INTO idgen_namespace SELECT * FROM idgen_namespace WHERE name = ''guards''');
SELECT pg_temp.outcome('INSERT INTO idgen_floor SELECT * FROM idgen_floor WHERE namespace = ''guards''');
SELECT pg_temp.outcome('INSERT INTO idgen_worker SELECT * FROM idgen_worker WHERE namespace = ''guards''');
SELECT pg_temp.outcome('INSERT INTO idgen_worker SELECT namespace, worker, 1, NULL FROM idgen_worker WHERE namespace = ''guards''');
COPY idgen_worker FROM stdin;
guards	0	0	\N
\.
SELECT count(*) AS lower FROM idgen_worker w JOIN guards_before b USING (namespace, worker) WHERE w.high_water < b.high_water;
SELECT idgen_next('guards') > 0 AS issued;
-- another format under the same name
SELECT pg_temp.outcome('INSERT INTO idgen_namespace SELECT name, kind, timestamp_bits - 1, worker_bits, sequence_bits, epoch_ms, tick_ms,
    horizon_ms, grant_interval_ms, run_ahead_ms, first_worker, last_worker, durability, promotion, restricted, issuing, retired, owner, issue_roles, acquire_roles, split_parts
    FROM idgen_namespace WHERE name = ''guards''');
SELECT pg_temp.outcome('INSERT INTO idgen_namespace SELECT name, kind, timestamp_bits, worker_bits, sequence_bits, epoch_ms + 1, tick_ms,
    horizon_ms, grant_interval_ms, run_ahead_ms, first_worker, last_worker, durability, promotion, restricted, issuing, retired, owner, issue_roles, acquire_roles, split_parts
    FROM idgen_namespace WHERE name = ''guards''');
-- a worker range and a policy stay ours
SELECT pg_temp.outcome('INSERT INTO idgen_namespace SELECT name, kind, timestamp_bits, worker_bits, sequence_bits, epoch_ms, tick_ms,
    horizon_ms, 77, 7, 5, 6, durability, ''refuse'', restricted, issuing, retired, ''somebody'', issue_roles, acquire_roles, 1
    FROM idgen_namespace WHERE name = ''guards''');
SELECT grant_interval_ms, run_ahead_ms, first_worker, last_worker, promotion FROM idgen_namespace WHERE name = 'guards';
SELECT idgen_next('guards') > 0 AS issued;

-- A mark above ours came from elsewhere: a copy, which nobody has adopted. Every call says so.
BEGIN;
INSERT INTO idgen_worker SELECT namespace, worker, high_water + 3600000, NULL FROM guards_before;
SELECT pg_temp.outcome('SELECT idgen_next(''guards'')');
SELECT pg_temp.outcome('SELECT idgen_next(''guards'')');
SELECT pg_temp.outcome('SELECT idgen_next_batch(3, ''guards'')');
SELECT pg_temp.outcome('SELECT idgen_next_json(''guards'')');
SELECT pg_temp.outcome('SELECT idgen_decode(4194304, ''guards'')');
ROLLBACK;
SELECT idgen_next('guards') > 0 AS issued;
BEGIN;
INSERT INTO idgen_floor VALUES ('guards', 1000000000000);
SELECT pg_temp.outcome('SELECT idgen_next(''guards'')');
SELECT pg_temp.outcome('SELECT idgen_next(''guards'')');
ROLLBACK;
SELECT idgen_next('guards') > 0 AS issued;
-- committed, it stays so: in this session and whatever cursor it had
SELECT idgen_create_namespace('guards copied');
SELECT idgen_next('guards copied') > 0 AS issued;
INSERT INTO idgen_worker VALUES ('guards copied', 7, 1000000000000, NULL);
SELECT pg_temp.outcome('SELECT idgen_next(''guards copied'')');
SELECT pg_temp.outcome('SELECT idgen_next(''guards copied'')');
SELECT idgen_next('guards') > 0 AS others;
SELECT pg_temp.outcome('SELECT idgen_next(''guards copied'')');

--
-- Replicated changes are ignored: nothing happens, and replication goes on.
--
CREATE TEMP TABLE guards_rows AS SELECT * FROM idgen_namespace WHERE name LIKE 'guards%';
SET session_replication_role = replica;
SELECT t, pg_temp.outcome('DELETE FROM ' || t) AS delete FROM pg_temp.tables;
SELECT pg_temp.outcome('UPDATE idgen_worker SET high_water = 0');
SELECT pg_temp.outcome('UPDATE idgen_namespace SET retired = true');
SELECT pg_temp.outcome('INSERT INTO idgen_worker VALUES (''guards'', 1, 1000000000000, NULL)');
SELECT pg_temp.outcome('INSERT INTO idgen_namespace SELECT ''guards new'', kind, timestamp_bits, worker_bits, sequence_bits, epoch_ms, tick_ms,
    horizon_ms, grant_interval_ms, run_ahead_ms, first_worker, last_worker, durability, promotion, restricted, issuing, retired, owner, issue_roles, acquire_roles, split_parts
    FROM idgen_namespace WHERE name = ''guards''');
SELECT pg_temp.outcome('TRUNCATE idgen_worker');
SELECT idgen_next('guards') > 0 AS issued;
SELECT idgen_create_namespace('guards created by a replica role');
RESET session_replication_role;
SELECT count(*) AS changed FROM (SELECT * FROM guards_rows EXCEPT SELECT * FROM idgen_namespace) q;
SELECT pg_temp.outcome('SELECT idgen_format(''guards new'')');
SELECT idgen_next('guards') > 0 AS issued, idgen_next('guards created by a replica role') > 0 AS created;

--
-- What is done to a table itself is noticed before anything is granted, and named. Undone, it goes
-- on. Each in a namespace that has no grant yet.
--
CREATE FUNCTION pg_temp.evil() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN RAISE WARNING ''a trigger of somebody else ran''; RETURN new; END';
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
CALL pg_temp.suffer('ALTER TABLE idgen_namespace DISABLE TRIGGER idgen_guard_row', 'ALTER TABLE idgen_namespace ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('ALTER TABLE idgen_floor DISABLE TRIGGER idgen_guard_row', 'ALTER TABLE idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('ALTER TABLE idgen_worker DISABLE TRIGGER idgen_guard_row', 'ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('ALTER TABLE idgen_authority DISABLE TRIGGER idgen_guard_row', 'ALTER TABLE idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('ALTER TABLE idgen_incarnation DISABLE TRIGGER idgen_guard_row', 'ALTER TABLE idgen_incarnation ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('ALTER TABLE idgen_grant DISABLE TRIGGER idgen_guard_row', 'ALTER TABLE idgen_grant ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('ALTER TABLE idgen_worker DISABLE TRIGGER idgen_guard_truncate', 'ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_truncate');
CALL pg_temp.suffer('ALTER TABLE idgen_worker ENABLE TRIGGER idgen_guard_row', 'ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('ALTER TABLE idgen_worker ENABLE REPLICA TRIGGER idgen_guard_row', 'ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row');
-- no guard, a guard with a condition, a guard for some columns, another function in its place
CALL pg_temp.suffer('DROP TRIGGER idgen_guard_truncate ON idgen_worker',
    'CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE ON idgen_worker FOR EACH STATEMENT EXECUTE FUNCTION idgen_guard();
     ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_truncate');
CALL pg_temp.suffer('CREATE OR REPLACE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE ON idgen_worker
     FOR EACH ROW WHEN (current_user IS NULL) EXECUTE FUNCTION idgen_guard();
     ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row',
    'CREATE OR REPLACE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE ON idgen_worker
     FOR EACH ROW EXECUTE FUNCTION idgen_guard();
     ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('CREATE OR REPLACE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OF incarnation OR DELETE ON idgen_worker
     FOR EACH ROW EXECUTE FUNCTION idgen_guard();
     ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row',
    'CREATE OR REPLACE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE ON idgen_worker
     FOR EACH ROW EXECUTE FUNCTION idgen_guard();
     ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row');
CALL pg_temp.suffer('CREATE OR REPLACE FUNCTION idgen_guard() RETURNS trigger LANGUAGE plpgsql AS ''BEGIN RETURN coalesce(new, old); END''',
    'CREATE OR REPLACE FUNCTION idgen_guard() RETURNS trigger LANGUAGE c AS ''$libdir/idgen'', ''idgen_guard''');
-- triggers, rules, row security, constraints, indexes, columns of somebody else
CALL pg_temp.suffer('CREATE TRIGGER guards_evil BEFORE INSERT OR UPDATE ON idgen_worker FOR EACH ROW EXECUTE FUNCTION pg_temp.evil()', 'DROP TRIGGER guards_evil ON idgen_worker');
CALL pg_temp.suffer('CREATE TRIGGER guards_evil AFTER INSERT ON idgen_grant FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.evil()', 'DROP TRIGGER guards_evil ON idgen_grant');
CALL pg_temp.suffer('CREATE CONSTRAINT TRIGGER guards_evil AFTER INSERT ON idgen_incarnation DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pg_temp.evil()', 'DROP TRIGGER guards_evil ON idgen_incarnation');
CALL pg_temp.suffer('CREATE RULE guards_evil AS ON UPDATE TO idgen_worker DO ALSO NOTHING', 'DROP RULE guards_evil ON idgen_worker');
CALL pg_temp.suffer('CREATE RULE guards_evil AS ON INSERT TO idgen_grant DO INSTEAD NOTHING', 'DROP RULE guards_evil ON idgen_grant');
CALL pg_temp.suffer('ALTER TABLE idgen_worker ENABLE ROW LEVEL SECURITY', 'ALTER TABLE idgen_worker DISABLE ROW LEVEL SECURITY');
CALL pg_temp.suffer('ALTER TABLE idgen_authority FORCE ROW LEVEL SECURITY', 'ALTER TABLE idgen_authority NO FORCE ROW LEVEL SECURITY');
CALL pg_temp.suffer('ALTER TABLE idgen_worker ADD CONSTRAINT guards_evil CHECK (high_water >= 0)', 'ALTER TABLE idgen_worker DROP CONSTRAINT guards_evil');
CALL pg_temp.suffer('CREATE INDEX guards_evil ON idgen_worker (high_water)', 'DROP INDEX guards_evil');
CALL pg_temp.suffer('ALTER TABLE idgen_grant DROP CONSTRAINT idgen_grant_pkey', 'ALTER TABLE idgen_grant ADD PRIMARY KEY (namespace, worker, start_tick)');
CALL pg_temp.suffer('ALTER TABLE idgen_incarnation ALTER COLUMN ended_at TYPE timestamp', 'ALTER TABLE idgen_incarnation ALTER COLUMN ended_at TYPE timestamptz');
-- what a crash would empty
CALL pg_temp.suffer('ALTER TABLE idgen_namespace SET UNLOGGED', 'ALTER TABLE idgen_namespace SET LOGGED');
CALL pg_temp.suffer('ALTER TABLE idgen_floor SET UNLOGGED', 'ALTER TABLE idgen_floor SET LOGGED');
CALL pg_temp.suffer('ALTER TABLE idgen_worker SET UNLOGGED', 'ALTER TABLE idgen_worker SET LOGGED');
CALL pg_temp.suffer('ALTER TABLE idgen_authority SET UNLOGGED', 'ALTER TABLE idgen_authority SET LOGGED');
CALL pg_temp.suffer('ALTER TABLE idgen_incarnation SET UNLOGGED', 'ALTER TABLE idgen_incarnation SET LOGGED');
CALL pg_temp.suffer('ALTER TABLE idgen_grant SET UNLOGGED', 'ALTER TABLE idgen_grant SET LOGGED');
-- a table that is not where it was
CALL pg_temp.suffer('ALTER TABLE idgen_worker RENAME TO guards_renamed', 'ALTER TABLE guards_renamed RENAME TO idgen_worker', brief => true);

-- What changes nothing that counts is no damage.
CALL pg_temp.suffer('ANALYZE idgen_worker; REINDEX TABLE idgen_worker; CLUSTER idgen_worker USING idgen_worker_pkey', 'ALTER TABLE idgen_worker SET WITHOUT CLUSTER');
VACUUM FULL idgen_worker, idgen_grant, idgen_namespace;
SELECT idgen_next('guards') > 0 AS issued;
RESET idgen.wait_timeout;

-- Undisturbed by it all.
SELECT idgen_next() > 0 AS "default", idgen_next('guards') > 0 AS guards;
SELECT count(*) AS triggers FROM pg_trigger WHERE tgrelid IN (SELECT t::regclass FROM pg_temp.tables) AND tgenabled = 'A';
