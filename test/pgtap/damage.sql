-- Marks that were changed while the guards were off: the next grant notices it, and calls fail with IG005 until a
-- fence.
SELECT plan(28);
SET idgen.wait_timeout = '20 s';
-- The code that a statement ends with. A call learns the cause when its time is over. If the authority process has
-- not got to its request by then, another call is made.
CREATE FUNCTION code_of(statement text) RETURNS text LANGUAGE plpgsql SET idgen.wait_timeout = '300 ms' AS $$
DECLARE
    state text;
BEGIN
    FOR try IN 1 .. 100 LOOP
        state := '00000';
        BEGIN
            EXECUTE statement;
        EXCEPTION WHEN OTHERS THEN
            state := SQLSTATE;
        END;
        EXIT WHEN state <> 'IG002';
    END LOOP;
    RETURN state;
END
$$;
-- A namespace of which nothing is granted ahead for longer than a tenth of a second.
CREATE FUNCTION fresh(name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM idgen_create_namespace(name, horizon => '100 ms', grant_interval => '50 ms');
    RETURN true;
END
$$;
DO $$
BEGIN
    PERFORM fresh(n) FROM unnest('{lost,lowered,rewritten,summed,unlogged,counted,columns,floorless,published}'::text[]) n;
END
$$;
SELECT is((SELECT count(*) FROM unnest('{lost,lowered,rewritten,summed,unlogged,counted,columns,floorless}'::text[]) n
    WHERE idgen_next(n) > 0), 8::bigint, 'all namespaces issue before the damage');

-- A row is deleted and a mark lowered, and then the guards are enabled again.
ALTER TABLE _idgen.idgen_worker DISABLE TRIGGER ALL;
DELETE FROM _idgen.idgen_worker WHERE namespace = 'lost';
UPDATE _idgen.idgen_worker SET high_water = high_water - 1 WHERE namespace = 'lowered';
ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_truncate;
SELECT pg_sleep(0.2);
SELECT is(code_of($$SELECT idgen_next('lost')$$), 'IG005', 'a namespace with a deleted row fails with IG005 [S2, S3]');
SELECT is(code_of($$SELECT idgen_next('lowered')$$), 'IG005', 'a namespace with a lowered mark fails with IG005 [S3]');
SELECT is(code_of($$SELECT idgen_next('lost')$$), 'IG005',
    'a namespace with a deleted row fails with IG005 again and again [S2, S3]');
SELECT is(code_of($$SELECT idgen_next('lowered')$$), 'IG005',
    'a namespace with a lowered mark fails with IG005 again and again [S3]');
SELECT ok(idgen_next('counted') > 0, 'another namespace issues beside deleted rows and lowered marks');
SELECT ok(idgen_next() > 0, 'the default namespace issues beside deleted rows and lowered marks');
-- The mark gets its old value back, so the sum is right again.
ALTER TABLE _idgen.idgen_worker DISABLE TRIGGER ALL;
UPDATE _idgen.idgen_worker SET high_water = high_water + 1 WHERE namespace = 'lowered';
ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_truncate;
SELECT lives_ok($$SELECT idgen_next('lowered')$$, 'a namespace issues again when its mark has its old value back');

-- ALTER TABLE rewrites rows without firing a trigger. First it rewrites the sums of the marks, and then, when the views
-- that depend on the marks are out of the way, the marks themselves.
CREATE FUNCTION less(namespace text, name text, number numeric) RETURNS numeric IMMUTABLE LANGUAGE sql AS
    $$SELECT CASE namespace WHEN name THEN 0 ELSE number END$$;
ALTER TABLE _idgen.idgen_authority ALTER COLUMN mark_sum TYPE numeric USING less(namespace, 'summed', mark_sum);
SELECT pg_sleep(0.2);
SELECT is(code_of($$SELECT idgen_next('summed')$$), 'IG005',
    'a namespace with a rewritten sum of marks fails with IG005 [S3]');
SELECT ok(idgen_next('counted') > 0, 'another namespace issues beside rewritten sums');
SELECT throws_ok($$ALTER TABLE _idgen.idgen_worker ALTER COLUMN high_water TYPE bigint USING less(namespace, 'rewritten', high_water)::bigint$$,
    '0A000', NULL, 'marks cannot be rewritten while the views exist [S3]');
ALTER EXTENSION idgen DROP VIEW idgen_stat_namespace;
ALTER EXTENSION idgen DROP VIEW idgen_stat_role;
DROP VIEW idgen_stat_namespace, idgen_stat_role;
ALTER TABLE _idgen.idgen_worker ALTER COLUMN high_water TYPE bigint USING less(namespace, 'rewritten', high_water)::bigint;
SELECT pg_sleep(0.2);
SELECT is(code_of($$SELECT idgen_next('rewritten')$$), 'IG005',
    'a namespace with rewritten marks fails with IG005 [S3]');
SELECT ok(idgen_next('counted') > 0, 'another namespace issues beside rewritten marks');

-- A floor is deleted.
ALTER TABLE _idgen.idgen_floor DISABLE TRIGGER ALL;
DELETE FROM _idgen.idgen_floor WHERE namespace = 'floorless';
ALTER TABLE _idgen.idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE _idgen.idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_truncate;
SELECT pg_sleep(0.2);
SELECT is(code_of($$SELECT idgen_next('floorless')$$), 'IG005', 'a namespace without its floor fails with IG005 [S3]');
SELECT ok(idgen_next('counted') > 0, 'another namespace issues beside a lost floor');

-- A namespace without an identity is a copy.
ALTER TABLE _idgen.idgen_authority DISABLE TRIGGER ALL;
DELETE FROM _idgen.idgen_authority WHERE namespace = 'unlogged';
ALTER TABLE _idgen.idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE _idgen.idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_truncate;
SELECT is(code_of($$SELECT idgen_next('unlogged')$$), 'IG007',
    'a namespace without its identity fails with IG007 [S9]');
SELECT is(code_of($$SELECT idgen_next('unlogged')$$), 'IG007',
    'a namespace without its identity fails with IG007 again and again [S9]');

-- A guard with a condition may let everything pass, so nothing is granted meanwhile.
CREATE OR REPLACE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE ON _idgen.idgen_worker
    FOR EACH ROW WHEN (current_user IS NULL) EXECUTE FUNCTION idgen_guard();
ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row;
SELECT pg_sleep(0.2);
SELECT is(code_of($$SELECT idgen_next('counted')$$), 'IG005',
    'a namespace fails with IG005 while a guard has a condition [S3]');
UPDATE _idgen.idgen_worker SET high_water = 0 WHERE namespace = 'counted';
CREATE OR REPLACE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE ON _idgen.idgen_worker
    FOR EACH ROW EXECUTE FUNCTION idgen_guard();
ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row;
SELECT is(code_of($$SELECT idgen_next('counted')$$), 'IG005',
    'a namespace whose mark was lowered past a guard with a condition fails with IG005 [S3]');

-- A publication of all tables is harmless, whatever the replica identity is.
SET client_min_messages = error;
CREATE PUBLICATION everything FOR ALL TABLES;
SELECT lives_ok($$SELECT idgen_next('published')$$, 'a namespace in a publication of all tables issues');
SELECT pg_sleep(0.2);
SELECT lives_ok($$SELECT idgen_next('published')$$, 'a namespace in a publication of all tables gets new grants');
DROP PUBLICATION everything;
SELECT throws_ok('DROP TABLE _idgen.idgen_worker', '2BP01', NULL, 'a table of the extension cannot be dropped alone');
-- Another column changes the table. When it is dropped, the table is what it was.
ALTER TABLE _idgen.idgen_worker ADD COLUMN extra int DEFAULT 1;
SELECT pg_sleep(0.2);
SELECT is(code_of($$SELECT idgen_next('columns')$$), 'IG005',
    'a namespace fails with IG005 while its table has another column');
ALTER TABLE _idgen.idgen_worker DROP COLUMN extra;
SELECT lives_ok($$SELECT idgen_next('columns')$$, 'a namespace issues again when the other column is dropped');
SELECT lives_ok($$SELECT idgen_next('published')$$, 'another namespace issues when the other column is dropped');

-- DISABLE and ENABLE TRIGGER ALL leave the guards at ENABLE: they are mended, but what was changed meanwhile is noticed.
ALTER TABLE _idgen.idgen_namespace DISABLE TRIGGER ALL;
UPDATE _idgen.idgen_namespace SET restricted = true WHERE name = 'columns';
ALTER TABLE _idgen.idgen_namespace ENABLE TRIGGER ALL;
SELECT pg_sleep(0.2);
SELECT lives_ok($$SELECT idgen_next('published')$$, 'a namespace issues after DISABLE and ENABLE TRIGGER ALL');
SELECT is((SELECT count(*) FROM pg_trigger WHERE tgrelid = '_idgen.idgen_namespace'::regclass AND tgenabled = 'A'), 2::bigint,
    'guards that were left at ENABLE fire always again [S3]');
SELECT is(code_of($$SELECT idgen_next('columns')$$), 'IG005',
    'a namespace whose row was changed while the guards were off fails with IG005 [S3]');
SELECT * FROM finish();
