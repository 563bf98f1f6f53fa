-- Objects of another role with the names of the extension, first in the search path or in the temporary schema, change
-- nothing. Nothing of them runs.
SELECT plan(24);
CREATE ROLE regress_idgen_mallory;
GRANT CREATE ON DATABASE :"DBNAME" TO regress_idgen_mallory;
SELECT idgen_create_namespace('mine', sequence_bits => 8);

-- A hostile schema: tables, functions and operators with names that idgen might use.
CREATE SCHEMA hostile AUTHORIZATION regress_idgen_mallory;
CREATE TABLE hostile.traces (what text);
GRANT INSERT, SELECT ON hostile.traces TO PUBLIC;
GRANT ALL ON SCHEMA hostile TO PUBLIC;
SET ROLE regress_idgen_mallory;
SET search_path = hostile, public;
CREATE FUNCTION hostile.trace(what text) RETURNS void LANGUAGE plpgsql AS
    'BEGIN INSERT INTO hostile.traces VALUES (what || '' as '' || current_user); END';
CREATE TABLE hostile.idgen_namespace (name text, kind text, timestamp_bits int, worker_bits int, sequence_bits int, epoch_ms bigint,
    tick_ms bigint, horizon_ms bigint, grant_interval_ms bigint, run_ahead_ms bigint, first_worker int, last_worker int,
    durability text, promotion text, restricted boolean, issuing boolean, retired boolean, owner text);
INSERT INTO hostile.idgen_namespace VALUES
    ('default', 'time', 20, 1, 1, 0, 1, 10000, 1000, 0, 0, 0, 'local', 'fence', false, true, true, 'regress_idgen_mallory'),
    ('evil', 'time', 41, 10, 12, 0, 1, 10000, 1000, 0, 0, 0, 'local', 'fence', false, true, false, 'regress_idgen_mallory');
CREATE TABLE hostile.idgen_worker (namespace text, worker int, high_water bigint, incarnation bigint);
CREATE TABLE hostile.idgen_authority (namespace text, uuid uuid);
CREATE TABLE hostile.idgen_floor (namespace text, floor bigint);
CREATE TABLE hostile.idgen_grant (grant_id bigint);
CREATE TABLE hostile.idgen_incarnation (incarnation bigint);
CREATE FUNCTION hostile.text_eq(text, text) RETURNS boolean LANGUAGE plpgsql AS
    'BEGIN PERFORM hostile.trace(''='' ); RETURN true; END';
CREATE OPERATOR hostile.= (LEFTARG = text, RIGHTARG = text, FUNCTION = hostile.text_eq);
CREATE FUNCTION hostile.int8_lt(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS
    'BEGIN PERFORM hostile.trace(''<'' ); RETURN false; END';
CREATE OPERATOR hostile.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.int8_lt);
CREATE OPERATOR hostile.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.int8_lt);
CREATE OPERATOR hostile.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.int8_lt);
CREATE OPERATOR hostile.+ (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hostile.int8_lt);
CREATE FUNCTION hostile.now() RETURNS timestamptz LANGUAGE plpgsql AS
    'BEGIN PERFORM hostile.trace(''now'' ); RETURN ''1999-01-01''; END';
CREATE FUNCTION hostile.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS
    'BEGIN PERFORM hostile.trace(''clock_timestamp'' ); RETURN ''1999-01-01''; END';
CREATE FUNCTION hostile.unnest(bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS
    'BEGIN PERFORM hostile.trace(''unnest'' ); RETURN NEXT 1; END';
CREATE FUNCTION hostile.greatest_of(bigint, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
CREATE FUNCTION hostile.sum_step(numeric, bigint) RETURNS numeric LANGUAGE plpgsql AS
    'BEGIN PERFORM hostile.trace(''sum'' ); RETURN 0; END';
CREATE AGGREGATE hostile.sum(bigint) (SFUNC = hostile.sum_step, STYPE = numeric, INITCOND = '0');
CREATE DOMAIN hostile.text AS pg_catalog.text;
CREATE DOMAIN hostile.bigint AS pg_catalog.int4;
CREATE FUNCTION hostile.idgen_guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN coalesce(new, old); END';
CREATE FUNCTION hostile.idgen_next() RETURNS bigint LANGUAGE sql AS 'SELECT 42::pg_catalog.int8';
RESET ROLE;

-- A superuser has the hostile schema first in the search path. pgTAP would call the hostile functions, too, so the
-- results are kept here and compared afterwards.
CREATE FUNCTION public.outcome(statement pg_catalog.text) RETURNS pg_catalog.text LANGUAGE plpgsql AS $$
DECLARE
    result pg_catalog.text;
BEGIN
    EXECUTE statement INTO result;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS result = RETURNED_SQLSTATE;
    RETURN result;
END
$$;
SET search_path = hostile, pg_catalog, public;
SELECT public.outcome('SELECT public.idgen_next(''mine'')') AS mine,
    public.outcome('SELECT pg_catalog.count(*) FROM public.idgen_next_batch(5, ''mine'')') AS batch,
    public.outcome('SELECT public.idgen_format()') AS format, public.outcome('SELECT public.idgen_next(''evil'')') AS evil,
    public.outcome('SELECT public.idgen_format(''evil'')') AS evil_format,
    public.outcome('SELECT public.idgen_create_namespace(''created in front of them'')') AS created \gset
SELECT public.outcome('SELECT public.idgen_next(''created in front of them'')') AS next,
    public.outcome('SELECT (public.idgen_decode(4194304, ''mine'')).format') AS decoded,
    public.outcome('SELECT public.idgen_lower_bound(''infinity'')') AS bound,
    public.outcome('SELECT public.idgen_retire_namespace(''created in front of them'')') AS retired \gset
SELECT public.outcome('SELECT public.idgen_next(''created in front of them'')') AS after,
    public.outcome('INSERT INTO _idgen.idgen_worker VALUES (''mine'', 3, 0, NULL)') AS merged_mark,
    public.outcome('INSERT INTO _idgen.idgen_namespace SELECT * FROM _idgen.idgen_namespace') AS merged_names \gset
RESET search_path;
SELECT ok(:'mine'::numeric > 100000, 'idgen_next() issues with hostile objects in the search path');
SELECT is(:'batch'::text, '5', 'idgen_next_batch() issues with hostile objects in the search path');
SELECT is(:'format'::jsonb ->> 'timestamp_bits', '41',
    'idgen_format() shows the extension''s format with hostile objects in the search path');
SELECT is(:'evil'::text, '42704', 'a namespace in a hostile table does not exist for idgen_next()');
SELECT is(:'evil_format'::text, '42704', 'a namespace in a hostile table does not exist for idgen_format()');
SELECT is(:'created'::text, '', 'idgen_create_namespace() works with hostile objects in the search path');
SELECT ok(:'next'::numeric > 100000, 'a namespace that was created with hostile objects in the search path issues');
SELECT is(:'decoded'::text, 'mine', 'idgen_decode() works with hostile objects in the search path');
SELECT is(:'bound'::text, '9223372036854775807', 'idgen_lower_bound() works with hostile objects in the search path');
SELECT is(:'retired'::text, '', 'idgen_retire_namespace() works with hostile objects in the search path');
SELECT is(:'after'::text, 'IG009', 'a namespace is retired for good with hostile objects in the search path');
SELECT is((SELECT count(*) FROM _idgen.idgen_namespace WHERE name = 'created in front of them' AND retired), 1::bigint,
    'a retirement is written to the table of the extension');
SELECT is((SELECT count(*) FROM hostile.idgen_worker), 0::bigint, 'no mark is written to a hostile table');
SELECT ok(NOT EXISTS (SELECT FROM _idgen.idgen_worker WHERE namespace = 'mine' AND high_water = 0),
    'a restored mark of 0 lowers no mark with hostile objects in the search path [S3]');
SELECT is((SELECT count(*) FROM _idgen.idgen_namespace), 3::bigint,
    'restored namespaces are merged with hostile objects in the search path');
SELECT is_empty('SELECT what FROM hostile.traces', 'no hostile function or operator ran');

-- The temporary schema comes first without being named.
CREATE TEMP TABLE idgen_namespace AS SELECT * FROM hostile.idgen_namespace;
CREATE TEMP TABLE idgen_worker (namespace text, worker int, high_water bigint, incarnation bigint);
CREATE TEMP TABLE idgen_authority (namespace text, uuid uuid);
CREATE TEMP TABLE idgen_floor (namespace text, floor bigint);
CREATE TEMP TABLE idgen_grant (grant_id bigint);
CREATE TEMP TABLE idgen_incarnation (incarnation bigint);
SELECT ok(idgen_next() > 0, 'idgen_next() issues beside hostile temporary tables');
SELECT is(idgen_format() ->> 'timestamp_bits', '41',
    'idgen_format() shows the extension''s format beside hostile temporary tables');
SELECT throws_ok($$SELECT idgen_next('evil')$$, '42704', NULL,
    'a namespace in a hostile temporary table does not exist');
SELECT lives_ok($$SELECT idgen_create_namespace('beside temporary tables')$$,
    'idgen_create_namespace() works beside hostile temporary tables');
SELECT ok(idgen_next('beside temporary tables') > 0,
    'a namespace that was created beside hostile temporary tables issues');
SELECT is((SELECT count(*) FROM _idgen.idgen_namespace WHERE name = 'beside temporary tables'), 1::bigint,
    'a new namespace is written to the table of the extension and not to a temporary one');

-- An ordinary role with the hostile schema first in its search path gains nothing.
SET ROLE regress_idgen_mallory;
SET search_path = hostile, pg_catalog, public;
SELECT public.outcome('SELECT public.idgen_retire_namespace(''default'')') AS retired,
    public.outcome('SELECT public.idgen_create_namespace(''theirs'')') AS created \gset
RESET ROLE;
RESET search_path;
SELECT is(:'retired'::text, '42501', 'an ordinary role cannot retire a namespace by means of hostile objects');
SELECT is(:'created'::text, '42501', 'an ordinary role cannot create a namespace by means of hostile objects');
SELECT * FROM finish();
DROP OWNED BY regress_idgen_mallory CASCADE;
DROP ROLE regress_idgen_mallory;
