-- The extension can be dropped whatever was done to its tables: a person who damaged them must be able to get
-- rid of them.
SELECT plan(10);
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
SELECT is(dropped_after(format('ALTER TABLE %I RENAME TO elsewhere', name)), 'P9999 dropped',
    'the extension can be dropped when ' || name || ' is renamed')
    FROM unnest('{idgen_namespace,idgen_floor,idgen_worker,idgen_authority,idgen_incarnation,idgen_grant}'::text[]) name;
SELECT is(dropped_after('CREATE SCHEMA other; ALTER TABLE idgen_worker SET SCHEMA other'), 'P9999 dropped',
    'the extension can be dropped when a table is in another schema');
SELECT is(dropped_after($$ALTER TABLE idgen_namespace ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
    CREATE POLICY failing ON idgen_namespace USING (1 / length('') = 1)$$), 'P9999 dropped',
    'the extension can be dropped when a row policy fails');
SELECT ok(idgen_next() > 0, 'the extension issues after all drops were rolled back');
SELECT * FROM finish();
