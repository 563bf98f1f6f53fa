--
-- First use in the transaction that creates the namespace. What only the authority process
-- can do is refused at once.
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

-- A namespace of this transaction.
BEGIN;
SELECT idgen_create_namespace('first use');
CREATE TABLE first_use_orders (id bigint PRIMARY KEY DEFAULT idgen_next('first use'), n int);
SELECT pg_temp.outcome('SELECT idgen_next(''first use'') > 0');
SELECT pg_temp.outcome('SELECT count(*) FROM idgen_next_batch(10, ''first use'')');
SELECT pg_temp.outcome('SELECT (idgen_next_json(''first use'') ->> ''id'')::bigint > 0');
SELECT pg_temp.outcome('SELECT idgen_retire_namespace(''first use'')');
SELECT pg_temp.outcome('INSERT INTO first_use_orders (n) VALUES (1) RETURNING id > 0');
-- what needs no grant works, and so do others
SELECT idgen_format('first use') - 'lineage' AS idgen_format, idgen_decode(4194304, 'first use'), idgen_encode(1, 0, 0, 'first use'),
    idgen_timestamp(4194304, 'first use'), idgen_lower_bound('infinity', 'first use');
SELECT idgen_next() > 0 AS other;
INSERT INTO first_use_orders VALUES (1, 1);
SAVEPOINT s;
SELECT idgen_retire_namespace('first use');
\echo :SQLSTATE
ROLLBACK TO s;
COMMIT;
INSERT INTO first_use_orders (n) VALUES (2);
SELECT idgen_next('first use') > max(id) AS after FROM first_use_orders;
DROP TABLE first_use_orders;

-- Subtransactions: one that is released belongs to the transaction, one rolled back to nobody.
BEGIN;
SAVEPOINT a;
SELECT idgen_create_namespace('first use released');
SELECT pg_temp.outcome('SELECT idgen_next(''first use released'') > 0');
SAVEPOINT b;
SELECT pg_temp.outcome('SELECT idgen_next(''first use released'') > 0');
RELEASE b;
RELEASE a;
SELECT pg_temp.outcome('SELECT idgen_next(''first use released'') > 0');
SAVEPOINT c;
SELECT idgen_create_namespace('first use rolled back');
SELECT pg_temp.outcome('SELECT idgen_next(''first use rolled back'') > 0');
ROLLBACK TO c;
SELECT pg_temp.outcome('SELECT idgen_next(''first use rolled back'') > 0');
COMMIT;
SELECT idgen_next('first use released') > 0 AS issued;
SELECT pg_temp.outcome('SELECT idgen_next(''first use rolled back'') > 0');
-- created and used in one statement, and in one DO block
SELECT pg_temp.outcome($$SELECT idgen_next('first use one') > 0 FROM (SELECT idgen_create_namespace('first use one') OFFSET 0) q$$);
DO 'BEGIN PERFORM idgen_create_namespace(''first use do''); PERFORM idgen_next(''first use do''); END';
SELECT idgen_next('first use do') > 0 AS issued;

-- A namespace that was rolled back and created again is another one.
BEGIN;
SELECT idgen_create_namespace('first use twice', timestamp_bits => 40);
SELECT pg_temp.outcome('SELECT idgen_next(''first use twice'') > 0');
ROLLBACK;
SELECT pg_temp.outcome('SELECT idgen_next(''first use twice'') > 0');
SELECT idgen_create_namespace('first use twice', timestamp_bits => 39);
SELECT idgen_next('first use twice') > 0 AS issued, idgen_format('first use twice') ->> 'timestamp_bits' AS bits;

-- Prepared: nobody's before it commits. Expected is the same where no transaction can be prepared.
\set before '42704 | namespace "first use prepared" does not exist | Create it with idgen_create_namespace().'
\set after t
SELECT current_setting('max_prepared_transactions')::int > 0 AS can_prepare \gset
\if :can_prepare
BEGIN;
SELECT idgen_create_namespace('first use prepared') \g /dev/null
PREPARE TRANSACTION 'regress_idgen_first_use';
SELECT pg_temp.outcome('SELECT idgen_next(''first use prepared'')') AS before \gset
COMMIT PREPARED 'regress_idgen_first_use';
SELECT idgen_next('first use prepared') > 0 AS after \gset
\endif
\echo :before
\echo :after

-- An extension created again: what the session knew of the old one is no longer fit to issue from,
-- also after the new one was looked at.
SELECT pg_temp.outcome('SELECT idgen_next() > 0');
BEGIN;
SET LOCAL client_min_messages = warning;
DROP EXTENSION idgen;
CREATE EXTENSION idgen;
SELECT count(*) FROM idgen_decode(1);
SELECT pg_temp.outcome('SELECT idgen_retire_namespace(''default'')');
ROLLBACK;
SELECT pg_temp.outcome('SELECT idgen_next() > 0');
