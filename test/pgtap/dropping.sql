-- The extension can be dropped whatever was done to its tables: a person who damaged them must be able to get
-- rid of them.
SELECT plan(14);
SET idgen.wait_timeout = '20 s';
SET client_min_messages = error;
CREATE TABLE orders (id bigint DEFAULT idgen_next(), n int);
INSERT INTO orders (n) VALUES (1);
-- The error at the end rolls back the damage and the drop.
CREATE FUNCTION dropped_after(damage text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE damage;
    DROP EXTENSION idgen CASCADE;
    RAISE EXCEPTION 'dropped' USING ERRCODE = 'P9999';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' ' || SQLERRM;
END
$$;
SELECT is(dropped_after('SELECT 1'), 'P9999 dropped', 'the extension can be dropped when its tables are intact');
SELECT is(dropped_after(format('ALTER TABLE %s RENAME TO elsewhere', name)), 'P9999 dropped',
    'the extension can be dropped when ' || name || ' is renamed')
    FROM unnest('{_idgen.idgen_namespace,_idgen.idgen_floor,_idgen.idgen_worker,_idgen.idgen_authority,_idgen.idgen_incarnation,_idgen.idgen_grant,_idgen.idgen_checksum}'::text[]) name;
SELECT is(dropped_after('CREATE SCHEMA other; ALTER TABLE _idgen.idgen_worker SET SCHEMA other'), 'P9999 dropped',
    'the extension can be dropped when a table is in another schema');
SELECT is(dropped_after('ALTER SCHEMA _idgen RENAME TO elsewhere'), 'P9999 dropped',
    'the extension can be dropped when the schema of its tables is renamed');
SELECT is(dropped_after('ALTER EXTENSION idgen DROP SCHEMA _idgen'), 'P9999 dropped',
    'the extension can be dropped when the schema of its tables was taken out of it');
SELECT is(dropped_after('DROP SCHEMA _idgen CASCADE'),
    '2BP01 cannot drop schema _idgen because extension idgen requires it', 'the schema of the tables cannot be dropped alone');
SELECT is(dropped_after($$ALTER TABLE _idgen.idgen_namespace ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
    CREATE POLICY failing ON _idgen.idgen_namespace USING (1 / length('') = 1)$$), 'P9999 dropped',
    'the extension can be dropped when a row policy fails');
SELECT ok(idgen_next() > 0, 'the extension issues after all drops were rolled back');
SELECT * FROM finish();
