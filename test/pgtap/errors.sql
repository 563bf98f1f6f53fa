-- Every error names the namespace, says what happened and hints at the one thing to do; each has its code.
SELECT plan(61);
SET idgen.wait_timeout = '20 s';
SELECT idgen_create_namespace('retired');
SELECT idgen_retire_namespace('retired');
SELECT idgen_create_namespace('decoding', issuing => false);
SELECT idgen_create_namespace('short', 12, 3, 4, epoch => '1970-01-01 00:00:00+00', horizon => '1 s', issuing => false);
SELECT idgen_create_namespace('slow', 33, 0, 0, tick_ms => 600000, grant_interval => '10 min', horizon => '1 h');
SELECT idgen_create_namespace('over', 11, 2, 2, epoch => date_trunc('milliseconds', clock_timestamp()) - interval '1900 ms', grant_interval => '100 ms', horizon => '1 s');
SELECT idgen_create_namespace('copied');
INSERT INTO idgen_worker VALUES ('copied', 1, 1000000000000, NULL);
SELECT pg_sleep(0.2);
SET idgen.wait_timeout = '200 ms';

CREATE TABLE seen (statement text, wanted text, namespace text, state text, message text, detail text, hint text);
CREATE FUNCTION see(statement text, wanted text, namespace text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    state text := '00000';
    message text := '';
    detail text := '';
    hint text := '';
BEGIN
    -- if nobody has got to it in its time, or the worker is only being started, it asks again
    FOR try IN 1 .. 100 LOOP
        BEGIN
            EXECUTE statement;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
        END;
        EXIT WHEN state <> 'IG002' AND detail NOT LIKE '%being started%';
    END LOOP;
    INSERT INTO seen VALUES (statement, wanted, namespace, state, message, detail, hint);
END
$$;
DO $$
BEGIN
    PERFORM see(s, w, n) FROM (VALUES
        ('SELECT idgen_next(''retired'')', 'IG009', 'retired'),
        ('SELECT idgen_next(''decoding'')', 'IG009', 'decoding'),
        ('SELECT idgen_next(''copied'')', 'IG007', 'copied'),
        ('SELECT idgen_next_batch(10, ''copied'')', 'IG007', 'copied'),
        ('SELECT idgen_next(''over'')', 'IG006', 'over'),
        ('SELECT idgen_next_batch(5, ''slow'')', 'IG003', 'slow'),
        ('SELECT idgen_next(''nobody'')', '42704', 'nobody'),
        ('SELECT idgen_decode(1, ''nobody'')', '42704', 'nobody'),
        ('SELECT idgen_retire_namespace(''nobody'')', '42704', 'nobody'),
        ('SELECT idgen_create_namespace(''short'')', '42710', 'short'),
        ('SELECT idgen_decode(0::bigint, ''short'')', '22003', 'short'),
        ('SELECT idgen_decode(''0''::text, ''short'')', '22003', 'short'),
        ('SELECT idgen_timestamp(0, ''short'')', '22003', 'short'),
        ('SELECT idgen_decode(-1::bigint, ''short'')', '22003', 'short'),
        ('SELECT idgen_decode(524288::bigint, ''short'')', '22003', 'short'),
        ('SELECT idgen_decode(''9223372036854775808''::text, ''short'')', '22003', 'short'),
        ('SELECT idgen_encode(0, 0, 0, ''short'')', '22003', 'short'),
        ('SELECT idgen_encode(4096, 0, 0, ''short'')', '22003', 'short'),
        ('SELECT idgen_encode(0, 8, 0, ''short'')', '22003', 'short'),
        ('SELECT idgen_encode(0, 0, 16, ''short'')', '22003', 'short')) v (s, w, n);
END
$$;
-- what the owner did to a table
ALTER TABLE idgen_namespace DISABLE TRIGGER idgen_guard_row;
SELECT see('SELECT idgen_next(''default'')', 'IG005', 'default');
ALTER TABLE idgen_namespace ENABLE ALWAYS TRIGGER idgen_guard_row;

SELECT is(state, wanted, statement || ': the code') FROM seen;
SELECT matches(message || detail, '"' || namespace || '"', statement || ': names the namespace') FROM seen;
SELECT isnt(hint, '', statement || ': hints') FROM seen WHERE wanted LIKE 'IG%';
-- how long it may last, where that is known
SELECT matches(detail, '\d+\.\d{3} s|\d+ s', statement || ': says how long') FROM seen WHERE wanted = 'IG003';
-- in the style of PostgreSQL: the message short, lower case, without a period; the others sentences
SELECT is_empty($$SELECT statement, message FROM seen WHERE message ~ '^[A-Z][a-z]|\.$' OR length(message) > 100$$, 'messages');
SELECT is_empty($$SELECT statement, detail FROM seen WHERE detail <> '' AND detail !~ '^[A-Z0-9].*\.$'$$, 'details');
SELECT is_empty($$SELECT statement, hint FROM seen WHERE hint <> '' AND hint !~ '^[A-Z].*\.$'$$, 'hints');
-- what a client may rely on
SELECT throws_ok('SELECT idgen_next(NULL)', '22004', NULL, 'NULL namespace');
SELECT throws_ok('SELECT idgen_next_batch(NULL)', '22004', NULL, 'NULL count');
SELECT throws_ok('SELECT idgen_next_batch(-1)', '22023', NULL, 'negative count');
SELECT throws_ok($$SELECT idgen_decode('1x'::text)$$, '22P02', NULL, 'text that is no number');
SELECT throws_ok($$SELECT idgen_decode('٢'::text)$$, '22P02', NULL, 'digits of another script');
SELECT throws_ok($$SELECT idgen_next(repeat('é', 1000))$$, '42704', 'namespace "' || repeat('é', 31) || '" does not exist', 'a name cut at a character');
SELECT throws_ok($$SELECT idgen_create_namespace(repeat('é', 32))$$, '22023', NULL, 'a name of 64 bytes');
SELECT lives_ok($$SELECT idgen_create_namespace(repeat('é', 31))$$, 'and of 62');
SELECT * FROM finish();
