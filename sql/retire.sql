--
-- Retiring a namespace: no more IDs, for ever; decoding stays, the name is taken.
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
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce(result, 'NULL');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', state, message, nullif(detail, ''), nullif(hint, ''));
END
$$;

SELECT idgen_create_namespace('retire');
SELECT idgen_next('retire') AS id \gset

-- A statement prepared before, a table with the default: both notice.
PREPARE retire_next AS SELECT idgen_next('retire') > 0 AS issued;
PREPARE retire_next_of (text) AS SELECT idgen_next($1) > 0 AS issued;
EXECUTE retire_next;
EXECUTE retire_next_of ('retire');
CREATE TABLE retire_orders (id bigint PRIMARY KEY DEFAULT idgen_next('retire'), n int);
INSERT INTO retire_orders (n) VALUES (1);

SELECT idgen_retire_namespace('retire');
EXECUTE retire_next;
\echo :SQLSTATE
EXECUTE retire_next_of ('retire');
\echo :SQLSTATE
EXECUTE retire_next_of ('default');
INSERT INTO retire_orders (n) VALUES (2);
\echo :SQLSTATE
INSERT INTO retire_orders VALUES (:id + 1, 3);
SELECT n FROM retire_orders ORDER BY n;
DROP TABLE retire_orders;
SELECT pg_temp.outcome('SELECT idgen_next(''retire'')');
SELECT pg_temp.outcome('SELECT idgen_next_batch(10, ''retire'')');
SELECT pg_temp.outcome('SELECT idgen_next_batch(0, ''retire'')');
SELECT pg_temp.outcome('SELECT idgen_next_json(''retire'')');
-- and so does a function whose plan is kept
CREATE FUNCTION pg_temp.next_of_retire() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN idgen_next(''retire''); END';
SELECT pg_temp.outcome('SELECT pg_temp.next_of_retire()');

-- Decoding stays.
SELECT format, "timestamp" BETWEEN now() - interval '1 min' AND clock_timestamp() AS recent FROM idgen_decode(:id, 'retire');
SELECT idgen_decode_text(:'id', 'retire') = idgen_decode(:id, 'retire') AS text,
    idgen_timestamp(:id, 'retire') = (idgen_decode(:id, 'retire'))."timestamp" AS "timestamp",
    idgen_encode((d).tick, (d).worker, (d).sequence, 'retire') = :id AS encode,
    idgen_lower_bound((d)."timestamp", 'retire') <= :id AS lower_bound
FROM idgen_decode(:id, 'retire') d;
SELECT idgen_format('retire') - 'lineage' AS idgen_format;

-- Again: nothing new. The name is taken.
SELECT idgen_retire_namespace('retire');
SELECT pg_temp.outcome('SELECT idgen_create_namespace(''retire'')');
SELECT pg_temp.outcome('SELECT idgen_next(''retire'')');

-- It does not depend on the transaction.
SELECT idgen_create_namespace('retire rolled back');
SELECT idgen_next('retire rolled back') > 0 AS issued;
BEGIN;
SELECT idgen_retire_namespace('retire rolled back');
ROLLBACK;
SELECT pg_temp.outcome('SELECT idgen_next(''retire rolled back'')');
-- and is seen in one of any isolation level, from the statement on
SELECT idgen_create_namespace('retire serializable');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT idgen_next('retire serializable') > 0 AS issued;
SELECT idgen_retire_namespace('retire serializable');
SELECT pg_temp.outcome('SELECT idgen_next(''retire serializable'')');
COMMIT;

-- One that was never used, and one for decoding only.
SELECT idgen_create_namespace('retire unused');
SELECT idgen_retire_namespace('retire unused');
SELECT pg_temp.outcome('SELECT idgen_next(''retire unused'')');
SELECT idgen_create_namespace('retire decoding', issuing => false);
SELECT pg_temp.outcome('SELECT idgen_next(''retire decoding'')');
SELECT pg_temp.outcome('SELECT idgen_next_batch(1, ''retire decoding'')');
SELECT pg_temp.outcome('SELECT idgen_next_json(''retire decoding'')');
SELECT pg_temp.outcome('SELECT idgen_activate(''retire decoding'')');
SELECT idgen_retire_namespace('retire decoding');
SELECT pg_temp.outcome('SELECT idgen_next(''retire decoding'')');

-- Errors.
SELECT pg_temp.outcome('SELECT idgen_retire_namespace(NULL)');
SELECT pg_temp.outcome('SELECT idgen_retire_namespace(''nobody'')');
SELECT pg_temp.outcome('SELECT idgen_retire_namespace('''')');
SELECT pg_temp.outcome(format('SELECT idgen_retire_namespace(%L)', repeat('x', 100)));
BEGIN READ ONLY;
SELECT idgen_retire_namespace('default');
\echo :SQLSTATE
ROLLBACK;
SELECT idgen_next() > 0 AS others_go_on;
