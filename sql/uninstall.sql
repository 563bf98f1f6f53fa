--
-- The extension: one to a database; dropped and created again it is another one, and not to be
-- used before that is committed.
--
\pset format unaligned
\pset null NULL
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';

CREATE FUNCTION pg_temp.outcome(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    result  text;
    state   text;
    message text;
    detail  text;
    hint    text;
    begun   timestamptz := clock_timestamp();
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce(result, 'NULL');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', state, message, nullif(detail, ''), nullif(hint, ''),
        CASE WHEN clock_timestamp() - begun > interval '2 s' THEN 'after a wait' END);
END
$$;
SET idgen.wait_timeout = '10 s';

-- One extension to a database.
CREATE SCHEMA uninstall_schema;
CREATE EXTENSION idgen;
\echo :SQLSTATE
CREATE EXTENSION idgen SCHEMA uninstall_schema;
\echo :SQLSTATE
CREATE EXTENSION IF NOT EXISTS idgen SCHEMA uninstall_schema;
SELECT nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'idgen';
ALTER EXTENSION idgen SET SCHEMA uninstall_schema;
\echo :SQLSTATE
DROP SCHEMA uninstall_schema;

SELECT idgen_create_namespace('uninstall');
SELECT idgen_next('uninstall') > 0 AS issued;

-- Dropped and created again: rolled back, everything is as before.
SELECT idgen_next() AS id \gset
BEGIN;
DROP EXTENSION idgen;
CREATE EXTENSION idgen;
SELECT idgen_create_namespace('uninstall new');
SELECT pg_temp.outcome('SELECT idgen_next(''uninstall new'') > 0');
SELECT pg_temp.outcome('SELECT count(*) FROM idgen_next_batch(10, ''uninstall new'')');
SELECT pg_temp.outcome('SELECT (idgen_next_json(''uninstall new'') ->> ''id'')::bigint > 0');
SELECT pg_temp.outcome('SELECT idgen_retire_namespace(''default'')');
SELECT pg_temp.outcome('SELECT idgen_next(''uninstall'')');
SELECT idgen_format() ->> 'format' AS format;
CREATE TABLE uninstall_orders (id bigint PRIMARY KEY DEFAULT idgen_next('uninstall new'), n int);
SELECT pg_temp.outcome('INSERT INTO uninstall_orders (n) VALUES (1) RETURNING id > 0');
ROLLBACK;
SELECT idgen_next() > :id AS rises, idgen_next('uninstall') > 0 AS others;

-- Committed, it is a new one, which repeats nothing.
BEGIN;
DROP EXTENSION idgen;
CREATE EXTENSION idgen;
CREATE TABLE uninstall_orders (id bigint PRIMARY KEY DEFAULT idgen_next(), n int);
COMMIT;
INSERT INTO uninstall_orders (n) VALUES (1) RETURNING id <> :id AS another;
SELECT pg_temp.outcome('SELECT idgen_next(''uninstall'')');
DROP EXTENSION idgen;
\echo :SQLSTATE
DROP TABLE uninstall_orders;

-- Without the extension there is no function, and the session does well with the next one.
DROP EXTENSION idgen;
\set VERBOSITY sqlstate
SELECT idgen_next();
\set VERBOSITY default
CREATE EXTENSION idgen;
SELECT idgen_next() <> :id AS another;
