-- Marks that were changed behind the guards' back: noticed at the next grant, IG005 until a fence.
SELECT plan(25);
SET idgen.wait_timeout = '20 s';
-- The code a call ends with. The cause is told when its time is over; if nobody has got to it by then, it asks again.
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
-- nothing granted ahead for longer than a tenth of a second
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
SELECT is((SELECT count(*) FROM unnest('{lost,lowered,rewritten,summed,unlogged,counted,columns,floorless}'::text[]) n WHERE idgen_next(n) > 0), 8::bigint, 'they issue');

-- A row lost, and the guards as they were.
ALTER TABLE idgen_worker DISABLE TRIGGER ALL;
DELETE FROM idgen_worker WHERE namespace = 'lost';
UPDATE idgen_worker SET high_water = high_water - 1 WHERE namespace = 'lowered';
ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_truncate;
SELECT pg_sleep(0.2);
SELECT is(code_of($$SELECT idgen_next('lost')$$), 'IG005', 'a row deleted: noticed');
SELECT is(code_of($$SELECT idgen_next('lowered')$$), 'IG005', 'a mark lowered: noticed');
SELECT is(code_of($$SELECT idgen_next('lost')$$), 'IG005', 'for good');
SELECT is(code_of($$SELECT idgen_next('lowered')$$), 'IG005', 'for good, too');
SELECT ok(idgen_next('counted') > 0, 'others go on');
SELECT ok(idgen_next() > 0, 'the default too');
-- put back, it adds up again
ALTER TABLE idgen_worker DISABLE TRIGGER ALL;
UPDATE idgen_worker SET high_water = high_water + 1 WHERE namespace = 'lowered';
ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_truncate;
SELECT lives_ok($$SELECT idgen_next('lowered')$$, 'what was put back issues');

-- Rewritten by ALTER TABLE, which fires no trigger: first what the marks add up to, then, when the views that depend on
-- them are out of the way, the marks.
CREATE FUNCTION less(namespace text, name text, number numeric) RETURNS numeric IMMUTABLE LANGUAGE sql AS
    $$SELECT CASE namespace WHEN name THEN 0 ELSE number END$$;
ALTER TABLE idgen_authority ALTER COLUMN mark_sum TYPE numeric USING less(namespace, 'summed', mark_sum);
SELECT pg_sleep(0.2);
SELECT is(code_of($$SELECT idgen_next('summed')$$), 'IG005', 'sums rewritten: noticed');
SELECT ok(idgen_next('counted') > 0, 'others go on');
SELECT throws_ok($$ALTER TABLE idgen_worker ALTER COLUMN high_water TYPE bigint USING less(namespace, 'rewritten', high_water)::bigint$$,
    '0A000', NULL, 'marks are not rewritten under the views');
ALTER EXTENSION idgen DROP VIEW idgen_stat_namespace;
ALTER EXTENSION idgen DROP VIEW idgen_stat_role;
DROP VIEW idgen_stat_namespace, idgen_stat_role;
ALTER TABLE idgen_worker ALTER COLUMN high_water TYPE bigint USING less(namespace, 'rewritten', high_water)::bigint;
SELECT pg_sleep(0.2);
SELECT is(code_of($$SELECT idgen_next('rewritten')$$), 'IG005', 'marks rewritten: noticed');
SELECT ok(idgen_next('counted') > 0, 'others go on');

-- The floor gone.
ALTER TABLE idgen_floor DISABLE TRIGGER ALL;
DELETE FROM idgen_floor WHERE namespace = 'floorless';
ALTER TABLE idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_truncate;
SELECT pg_sleep(0.2);
SELECT is(code_of($$SELECT idgen_next('floorless')$$), 'IG005', 'a floor lost: noticed');
SELECT ok(idgen_next('counted') > 0, 'others go on');

-- The identity gone is a copy.
ALTER TABLE idgen_authority DISABLE TRIGGER ALL;
DELETE FROM idgen_authority WHERE namespace = 'unlogged';
ALTER TABLE idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_truncate;
SELECT is(code_of($$SELECT idgen_next('unlogged')$$), 'IG007', 'an identity lost: a copy');
SELECT is(code_of($$SELECT idgen_next('unlogged')$$), 'IG007', 'for good');

-- A guard with a condition lets everything pass: nothing is granted meanwhile.
CREATE OR REPLACE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE ON idgen_worker
    FOR EACH ROW WHEN (current_user IS NULL) EXECUTE FUNCTION idgen_guard();
ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row;
SELECT pg_sleep(0.2);
SELECT is(code_of($$SELECT idgen_next('counted')$$), 'IG005', 'a guard with a condition: noticed');
UPDATE idgen_worker SET high_water = 0 WHERE namespace = 'counted';
CREATE OR REPLACE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE ON idgen_worker
    FOR EACH ROW EXECUTE FUNCTION idgen_guard();
ALTER TABLE idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row;
SELECT is(code_of($$SELECT idgen_next('counted')$$), 'IG005', 'and what was done meanwhile as well');

-- A publication of all tables is harmless, with whatever replica identity.
SET client_min_messages = error;
CREATE PUBLICATION everything FOR ALL TABLES;
SELECT lives_ok($$SELECT idgen_next('published')$$, 'published: issues');
SELECT pg_sleep(0.2);
SELECT lives_ok($$SELECT idgen_next('published')$$, 'published: is granted more');
DROP PUBLICATION everything;
SELECT throws_ok('DROP TABLE idgen_worker', '2BP01', NULL, 'the tables cannot be dropped alone');
-- A column more: noticed. Taken away again, it is the table it was.
ALTER TABLE idgen_worker ADD COLUMN extra int DEFAULT 1;
SELECT pg_sleep(0.2);
SELECT is(code_of($$SELECT idgen_next('columns')$$), 'IG005', 'a column added: noticed');
ALTER TABLE idgen_worker DROP COLUMN extra;
SELECT lives_ok($$SELECT idgen_next('columns')$$, 'taken away again: issues');
SELECT lives_ok($$SELECT idgen_next('published')$$, 'so do others');
SELECT * FROM finish();
