-- Every error has its code, names the namespace, says what happened and hints at the one thing to do.
SELECT plan(61);
SET idgen.wait_timeout = '20 s';
SELECT idgen_create_namespace('retired');
SELECT idgen_retire_namespace('retired');
SELECT idgen_create_namespace('decoding', issuing => false);
SELECT idgen_create_namespace('short', 12, 3, 4, epoch => '1970-01-01 00:00:00+00', horizon => '1 s', issuing => false);
SELECT idgen_create_namespace('slow', 33, 0, 0, tick_ms => 600000, grant_interval => '10 min', horizon => '1 h');
SELECT idgen_create_namespace('over', 11, 2, 2,
    epoch => date_trunc('milliseconds', clock_timestamp()) - interval '1900 ms', grant_interval => '100 ms', horizon => '1 s');
SELECT idgen_create_namespace('copied');
INSERT INTO _idgen.idgen_worker VALUES ('copied', 1, 1000000000000, NULL);
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
    -- another try if the authority process has not got to the request in time or is only being started
    FOR try IN 1 .. 100 LOOP
        BEGIN
            EXECUTE statement;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
                hint = PG_EXCEPTION_HINT;
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
        ('SELECT idgen_decode_text(''0'', ''short'')', '22003', 'short'),
        ('SELECT idgen_timestamp(0, ''short'')', '22003', 'short'),
        ('SELECT idgen_decode(-1::bigint, ''short'')', '22003', 'short'),
        ('SELECT idgen_decode(524288::bigint, ''short'')', '22003', 'short'),
        ('SELECT idgen_decode_text(''9223372036854775808'', ''short'')', '22003', 'short'),
        ('SELECT idgen_encode(0, 0, 0, ''short'')', '22003', 'short'),
        ('SELECT idgen_encode(4096, 0, 0, ''short'')', '22003', 'short'),
        ('SELECT idgen_encode(0, 8, 0, ''short'')', '22003', 'short'),
        ('SELECT idgen_encode(0, 0, 16, ''short'')', '22003', 'short')) v (s, w, n);
END
$$;
-- the owner has disabled a guard
ALTER TABLE _idgen.idgen_namespace DISABLE TRIGGER idgen_guard_row;
SELECT see('SELECT idgen_next(''default'')', 'IG005', 'default');
ALTER TABLE _idgen.idgen_namespace ENABLE ALWAYS TRIGGER idgen_guard_row;

SELECT is(state, wanted, statement || ' fails with ' || wanted || ' [S8]') FROM seen;
SELECT matches(message || detail, '"' || namespace || '"', statement || ' fails and names the namespace') FROM seen;
SELECT isnt(hint, '', statement || ' fails with a hint') FROM seen WHERE wanted LIKE 'IG%';
-- how long the trouble may last, where that is known
SELECT matches(detail, '\d+\.\d{3} s|\d+ s', statement || ' fails and says how long it may last [S8]')
    FROM seen WHERE wanted = 'IG003';
-- in the style of PostgreSQL: the message is short, lower case and without a period; the detail and hint are sentences
SELECT is_empty($$SELECT statement, message FROM seen WHERE message ~ '^[A-Z][a-z]|\.$' OR length(message) > 100$$,
    'every message is short, begins in lower case and has no period');
SELECT is_empty($$SELECT statement, detail FROM seen WHERE detail <> '' AND detail !~ '^[A-Z0-9].*\.$'$$,
    'every detail is a sentence');
SELECT is_empty($$SELECT statement, hint FROM seen WHERE hint <> '' AND hint !~ '^[A-Z].*\.$'$$,
    'every hint is a sentence');
-- what a client may rely on
SELECT throws_ok('SELECT idgen_next(NULL)', '22004', NULL, 'a NULL namespace is refused with 22004');
SELECT throws_ok('SELECT idgen_next_batch(NULL)', '22004', NULL, 'a NULL count is refused with 22004');
SELECT throws_ok('SELECT idgen_next_batch(-1)', '22023', NULL, 'a negative count is refused with 22023');
SELECT throws_ok($$SELECT idgen_decode_text('1x')$$, '22P02', NULL,
    'a text that is not a number is refused with 22P02');
SELECT throws_ok($$SELECT idgen_decode_text('٢')$$, '22P02', NULL, 'digits of another script are refused with 22P02');
SELECT throws_ok($$SELECT idgen_next(repeat('é', 1000))$$, '42704', 'namespace "' || repeat('é', 31) || '" does not exist',
    'an error cuts a long name at the end of a character');
SELECT throws_ok($$SELECT idgen_create_namespace(repeat('é', 32))$$, '22023', NULL,
    'a name of 64 bytes is refused with 22023');
SELECT lives_ok($$SELECT idgen_create_namespace(repeat('é', 31))$$, 'a name of 62 bytes is accepted');
SELECT * FROM finish();
