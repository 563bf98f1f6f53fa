--
-- Issuing: one ID, a batch, JSON; transactions of all kinds.
--
\pset format unaligned
\pset null NULL
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
SET idgen.max_batch = 1000000;
SELECT idgen_create_namespace('issue');
SELECT idgen_create_namespace('issue other', timestamp_bits => 40, worker_bits => 5, sequence_bits => 8,
    epoch => '2024-06-01 00:00:00+00');

-- A positive bigint, of this format, of this moment, from the range of workers.
SELECT pg_typeof(idgen_next()), idgen_next() > 0 AS positive;
SELECT clock_timestamp() AS before, idgen_next('issue') AS id, clock_timestamp() AS after \gset
SELECT format, worker BETWEEN 0 AND 1023 AS worker, sequence BETWEEN 0 AND 4095 AS sequence,
    "timestamp" > :'before'::timestamptz - interval '1 ms' AS not_before,
    "timestamp" <= :'after'::timestamptz AS not_after,
    tick = extract(epoch FROM "timestamp" - '2025-01-01 00:00:00+00') * 1000 AS tick
FROM idgen_decode(:id, 'issue');

-- Each call gives another ID, also within one statement, and greater than those before.
SELECT count(DISTINCT id) AS different, bool_and(id > 0) AS positive
FROM (SELECT idgen_next('issue') AS id FROM generate_series(1, 10000)) q;
SELECT count(*) AS ids, count(*) FILTER (WHERE id <= previous) AS not_rising
FROM (SELECT id, lag(id) OVER (ORDER BY n) AS previous
    FROM (SELECT n, idgen_next('issue') AS id FROM generate_series(1, 10000) n OFFSET 0) q) r;
SELECT a <> b AND b <> c AND a <> c AS different FROM (SELECT idgen_next() a, idgen_next() b, idgen_next('default') c OFFSET 0) q;
-- and from one statement to the next, one by one and by batch
SELECT idgen_next('issue') AS a \gset
SELECT max(id) AS b, min(id) AS least FROM idgen_next_batch(100, 'issue') id \gset
SELECT (idgen_next_json('issue') ->> 'id')::bigint AS c \gset
SELECT :a < :least AS a, :least < :b AS b, :b < :c AS c, :c < idgen_next('issue') AS d;

-- The real clock, not the transaction's.
BEGIN;
SELECT idgen_timestamp(idgen_next()) AS first \gset
SELECT pg_sleep(0.02);
SELECT idgen_timestamp(idgen_next()) >= :'first'::timestamptz + interval '19 ms' AS later;
COMMIT;

--
-- Errors in the argument.
--
SELECT idgen_next(NULL);
\echo :SQLSTATE
SELECT idgen_next('nobody');
\echo :SQLSTATE
SELECT idgen_next('');
\echo :SQLSTATE
SELECT idgen_next(repeat('x', 64));
\echo :SQLSTATE
SELECT idgen_next_json(NULL);
\echo :SQLSTATE
SELECT idgen_next_json('nobody');
\echo :SQLSTATE
-- An error is no end of it: the session goes on.
SELECT idgen_next('issue') > :c AS goes_on;

--
-- Batches: exactly as many, ascending.
--
SELECT n, (SELECT count(*) FROM idgen_next_batch(n, 'issue')) AS ids FROM unnest('{0,1,2,4096,4097,100000}'::int[]) n;
SELECT count(*) AS ids, count(*) FILTER (WHERE id <= previous) AS not_rising
FROM (SELECT id, lag(id) OVER (ORDER BY n) AS previous
    FROM idgen_next_batch(100000, 'issue') WITH ORDINALITY b (id, n)) q;
SELECT count(*), count(DISTINCT id) FROM generate_series(1, 3), idgen_next_batch(1000) id;
SELECT count(*), count(DISTINCT id) FROM generate_series(1, 3) n, idgen_next_batch(n * 100, 'issue') id;
SELECT count(*), count(DISTINCT a), count(DISTINCT b), count(*) FILTER (WHERE a = b) AS same
FROM (SELECT idgen_next_batch(500, 'issue') AS a, idgen_next_batch(500, 'issue') AS b) q;
SELECT count(*) FROM (SELECT * FROM idgen_next_batch(1000, 'issue') LIMIT 10) q;
SELECT pg_typeof(id) FROM idgen_next_batch(1) id;
SELECT idgen_next_batch(-1);
\echo :SQLSTATE
SELECT idgen_next_batch(-2147483648, 'issue');
\echo :SQLSTATE
SELECT idgen_next_batch(1000001);
\echo :SQLSTATE
SELECT idgen_next_batch(2147483647, 'issue');
\echo :SQLSTATE
SELECT idgen_next_batch(NULL);
\echo :SQLSTATE
SELECT idgen_next_batch(NULL, NULL);
\echo :SQLSTATE
SELECT idgen_next_batch(1, NULL);
\echo :SQLSTATE
SELECT idgen_next_batch(0, 'nobody');
\echo :SQLSTATE
SET idgen.max_batch = 10;
SELECT count(*) FROM idgen_next_batch(10);
SELECT idgen_next_batch(11);
\echo :SQLSTATE
\set VERBOSITY sqlstate
SET idgen.max_batch = 0;
\set VERBOSITY default
SET idgen.max_batch = 1000000;
-- Without waiting for anything.
SELECT count(*) FROM idgen_next_batch(0, 'issue other');

--
-- JSON: the ID as a string of digits, and the format.
--
SELECT pg_typeof(j), jsonb_typeof(j -> 'id') AS id, j ->> 'id' ~ '^[1-9][0-9]{0,18}$' AS digits, j - 'id' AS rest,
    d.format, d."timestamp" > now() - interval '1 min' AS recent
FROM (SELECT idgen_next_json('issue other') AS j OFFSET 0) q, idgen_decode_text(j ->> 'id', j ->> 'format') d;
SELECT idgen_next_json() - 'id' AS rest;
SELECT count(DISTINCT idgen_next_json('issue') ->> 'id') AS different FROM generate_series(1, 1000);

--
-- Transactions. An ID is neither given back nor waited for.
--
BEGIN READ ONLY;
SELECT idgen_next('issue') > 0 AS one, (SELECT count(*) FROM idgen_next_batch(10, 'issue')) AS batch,
    idgen_next_json('issue') ->> 'format' AS json;
SELECT pg_current_xact_id_if_assigned() IS NULL AS without_xid;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE;
SELECT idgen_next('issue') > 0 AS one;
COMMIT;
SET default_transaction_read_only = on;
SELECT idgen_next('issue') > 0 AS one;
RESET default_transaction_read_only;
-- no transaction id, no WAL, in an ordinary transaction either
BEGIN;
SELECT count(idgen_next('issue')) FROM generate_series(1, 10000);
SELECT pg_current_xact_id_if_assigned() IS NULL AS without_xid;
COMMIT;

-- ROLLBACK, savepoints
BEGIN;
SELECT idgen_next('issue') AS a \gset
SAVEPOINT s;
SELECT idgen_next('issue') AS b \gset
ROLLBACK TO s;
SELECT idgen_next('issue') AS c \gset
ROLLBACK;
SELECT idgen_next('issue') AS d \gset
SELECT :a < :b AS b, :b < :c AS c, :c < :d AS d;
-- an error in the middle of a transaction
BEGIN;
SELECT idgen_next('issue') AS a \gset
SELECT 1 / 0;
ROLLBACK;
SELECT idgen_next('issue') > :a AS rises;
-- subtransactions of PL/pgSQL
DO $$
DECLARE
    before bigint := 0;
    id     bigint;
BEGIN
    FOR i IN 1 .. 100 LOOP
        BEGIN
            id := idgen_next('issue');
            IF id <= before THEN
                RAISE WARNING 'ID % after %', id, before;
            END IF;
            before := id;
            RAISE division_by_zero;
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
    END LOOP;
END
$$;

-- Isolation levels
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(DISTINCT idgen_next('issue')) FROM generate_series(1, 100);
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(DISTINCT idgen_next('issue')) FROM generate_series(1, 100);
COMMIT;

-- Two-phase commit, where the server allows it. Expected is the same where it does not.
\set prepared t
\set rises t
CREATE TABLE issue_prepared (id bigint PRIMARY KEY DEFAULT idgen_next('issue'));
SELECT current_setting('max_prepared_transactions')::int > 0 AS can_prepare \gset
\if :can_prepare
BEGIN;
INSERT INTO issue_prepared DEFAULT VALUES RETURNING id AS a \gset
PREPARE TRANSACTION 'regress_idgen_issue';
SELECT idgen_next('issue') > :a AS rises \gset
ROLLBACK PREPARED 'regress_idgen_issue';
BEGIN;
INSERT INTO issue_prepared DEFAULT VALUES RETURNING id AS b \gset
PREPARE TRANSACTION 'regress_idgen_issue';
INSERT INTO issue_prepared DEFAULT VALUES;
COMMIT PREPARED 'regress_idgen_issue';
SELECT count(*) = 2 AND min(id) = :b AND :b > :a AS prepared FROM issue_prepared \gset
\endif
\echo :prepared :rises
DROP TABLE issue_prepared;

-- With nothing in the search path, and with another schema in front.
SET search_path = '';
SELECT public.idgen_next('issue') > 0 AS one, (SELECT count(*) FROM public.idgen_next_batch(3)) AS batch,
    public.idgen_next_json() ->> 'format' AS json,
    (public.idgen_decode(public.idgen_next('issue other'), 'issue other')).format,
    public.idgen_lower_bound('infinity') AS bound, public.idgen_format() ->> 'kind' AS kind,
    public.idgen_encode(1, 1, 1) AS encoded, public.idgen_timestamp(4194304) AS "timestamp";
SELECT public.idgen_create_namespace('issue no path');
SELECT public.idgen_next('issue no path') > 0 AS one;
RESET search_path;

--
-- Prepared statements: the namespace may differ from one execution to the next.
--
PREPARE next_of (text) AS SELECT (idgen_decode(idgen_next($1), $1)).format, (idgen_format($1) ->> 'worker_bits')::int AS bits;
EXECUTE next_of ('issue');
EXECUTE next_of ('issue other');
EXECUTE next_of ('issue');
EXECUTE next_of ('default');
EXECUTE next_of (NULL);
EXECUTE next_of ('nobody');
EXECUTE next_of ('issue other');
SET plan_cache_mode = force_generic_plan;
EXECUTE next_of ('issue');
EXECUTE next_of ('issue other');
RESET plan_cache_mode;
DEALLOCATE next_of;
-- by row, and the IDs of each namespace are its own
SELECT n.name, count(*) AS ids, count(DISTINCT id) AS different,
    bool_and(idgen_timestamp(id, n.name) BETWEEN now() - interval '1 min' AND clock_timestamp()) AS of_now
FROM (SELECT name, idgen_next(name) AS id
    FROM generate_series(1, 300) i, (VALUES ('issue'), ('issue other'), ('default')) v (name) OFFSET 0) n
GROUP BY n.name ORDER BY n.name;
-- a value that is stored compressed, or with a short header, or not stored at all
CREATE TABLE issue_names (name text);
INSERT INTO issue_names VALUES ('issue'), ('issue other'), (repeat('x', 100000)), ('issue');
SELECT left(name, 11) AS name, CASE WHEN length(name) < 64 THEN idgen_next(name) > 0 END AS issued FROM issue_names;
SELECT idgen_next(name) > 0 FROM issue_names WHERE length(name) > 64;
\echo :SQLSTATE
DROP TABLE issue_names;

-- DISCARD ALL, as connection poolers say it, loses nothing that is needed.
SELECT idgen_next('issue') AS a \gset
DISCARD ALL;
SELECT idgen_next('issue') > :a AS rises;

-- Settings: anybody may set how long to wait; 0 is "never", and enough where there is a grant.
\set VERBOSITY sqlstate
SET idgen.wait_timeout = -1;
SET idgen.wait_timeout = '2 h';
SET idgen.no_such_setting = 1;
SET idgen.max_cursors = 10;
SET idgen.max_workers_per_namespace = 1;
SET idgen.idle_timeout = '1 s';
\set VERBOSITY default
SET idgen.wait_timeout = 0;
SELECT idgen_next('issue') > 0 AS one;
SELECT count(*) FROM idgen_next_batch(100, 'issue');
RESET idgen.wait_timeout;

-- An expression that is evaluated again with another name uses the other namespace.
DO $$
DECLARE
    name text;
    id bigint;
BEGIN
    FOR i IN 1..4 LOOP
        name := CASE i % 2 WHEN 0 THEN 'default' ELSE 'issue other' END;
        id := idgen_next(name);
        IF abs(extract(epoch FROM clock_timestamp() - idgen_timestamp(id, name))) > 600 THEN
            RAISE EXCEPTION '% is not an ID of %', id, name;
        END IF;
    END LOOP;
END
$$;

-- A batch in FROM and one in the list of columns are the same.
SELECT count(*), count(DISTINCT id), bool_and(id > before) AS rises FROM
  (SELECT id, coalesce(lag(id) OVER (ORDER BY n, place), 0) AS before
     FROM generate_series(1, 3) n, LATERAL idgen_next_batch(n * 3000, 'issue') WITH ORDINALITY b (id, place)) q;
SELECT count(*), count(DISTINCT id) FROM
  (SELECT idgen_next_batch(n * 3000, 'issue') AS id FROM generate_series(0, 3) n) q;
SELECT (SELECT count(*) FROM idgen_next_batch(0, 'issue')) AS none, count(*), count(a), count(b), bool_and(a <> b) AS differ
  FROM ROWS FROM (idgen_next_batch(5, 'issue'), idgen_next_batch(3, 'issue')) AS r (a, b);
BEGIN;
DECLARE issue_batch SCROLL CURSOR FOR SELECT id FROM idgen_next_batch(3, 'issue') id;
FETCH ALL FROM issue_batch \g /dev/null
MOVE BACKWARD 2 FROM issue_batch;
COMMIT;
