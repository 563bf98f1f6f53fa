--
-- Taking IDs apart and putting them together.
--
\pset format unaligned
\pset null NULL
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';

-- What a statement comes to, errors with all that a client can see of them.
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

--
-- The worked example: 12 bits of timestamp, 3 of worker, 4 of sequence.
--
SELECT idgen_create_namespace('example-v1', timestamp_bits => 12, worker_bits => 3,
    sequence_bits => 4, epoch => '1970-01-01 00:00:00+00', grant_interval => '40 ms',
    horizon => '1 s', issuing => false);
SELECT idgen_encode(160, 1, 1, 'example-v1') AS a, idgen_encode(160, 1, 2, 'example-v1') AS b,
    idgen_encode(161, 1, 0, 'example-v1') AS c;
SELECT id, d.* FROM unnest('{20497,20498,20624}'::bigint[]) id, idgen_decode(id, 'example-v1') d;
SELECT * FROM idgen_decode('20497', 'example-v1');
SELECT idgen_timestamp(20624, 'example-v1');
SELECT jsonb_pretty(idgen_format('example-v1') - 'lineage');
-- and the namespace that every database has
SELECT jsonb_pretty(idgen_format() - 'lineage');

-- The columns and their types.
SELECT pg_typeof(format) AS format, pg_typeof("timestamp") AS "timestamp", pg_typeof(tick) AS tick,
    pg_typeof(worker) AS worker, pg_typeof(sequence) AS sequence
FROM idgen_decode(20497, 'example-v1');

--
-- Edges of an ID. 2^19 is the first number too wide for 12 + 3 + 4 bits.
--
SELECT id, pg_temp.outcome(format('SELECT idgen_decode((%s)::bigint, ''example-v1'')', id)) AS decode,
    pg_temp.outcome(format('SELECT idgen_timestamp(%s, ''example-v1'')', id)) AS "timestamp"
FROM unnest('{-9223372036854775808,-1,0,1,524287,524288,9223372036854775807}'::numeric[])
    WITH ORDINALITY u (id, n) ORDER BY n;

-- In a format of 63 bits, 2^63-1 is an ID.
SELECT * FROM idgen_decode(9223372036854775807);
SELECT idgen_encode(2199023255551, 1023, 4095) AS greatest, idgen_encode(0, 0, 1) AS least;

-- 31 bits each of worker and sequence, and one of timestamp.
SELECT idgen_create_namespace('decode wide', timestamp_bits => 1, worker_bits => 31,
    sequence_bits => 31, tick_ms => 3600000, grant_interval => '1 h', horizon => '1 h',
    issuing => false);
SELECT * FROM idgen_decode(9223372036854775807, 'decode wide');
SELECT idgen_encode(1, 2147483647, 2147483647, 'decode wide');

-- Timestamp bits alone. A tick later than a timestamp can be is an error, never another time.
SELECT idgen_create_namespace('decode ticks', timestamp_bits => 63, worker_bits => 0,
    sequence_bits => 0, issuing => false);
SELECT * FROM idgen_decode(1, 'decode ticks');
SELECT idgen_encode(4611686018427387904, 0, 0, 'decode ticks');
SELECT pg_temp.outcome($$SELECT idgen_decode(4611686018427387904, 'decode ticks')$$);
SELECT pg_temp.outcome($$SELECT idgen_timestamp(4611686018427387904, 'decode ticks')$$);

-- A tick of a minute, an epoch before 1970: the beginning of the tick.
SELECT idgen_create_namespace('decode minutes', timestamp_bits => 31, worker_bits => 1,
    sequence_bits => 1, epoch => '1969-12-31 23:59:00+00', tick_ms => 60000,
    grant_interval => '1 min', horizon => '2 min', issuing => false);
SELECT tick, idgen_timestamp(idgen_encode(tick, 1, 1, 'decode minutes'), 'decode minutes')
FROM unnest('{0,1,2}'::bigint[]) tick;

--
-- Encoding refuses what does not fit, each field by itself, and the tuple (0,0,0).
--
SELECT tick, worker, sequence,
    pg_temp.outcome(format('SELECT idgen_encode(%L, %L, %L, ''example-v1'')', tick, worker, sequence)) AS encode
FROM (VALUES (0::bigint, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (4095, 7, 15),
    (-1, 0, 0), (4096, 0, 0), (9223372036854775807, 0, 0), (-9223372036854775808, 0, 0),
    (1, -1, 0), (1, 8, 0), (1, 2147483647, 0), (1, -2147483648, 0),
    (1, 0, -1), (1, 0, 16), (1, 0, 2147483647), (1, 0, -2147483648)) v (tick, worker, sequence);

-- Every ID of a small format, there and back.
SELECT count(*) AS ids, bool_and(id = idgen_encode(tick, worker, sequence, 'example-v1')) AS same,
    bool_and(tick * 128 + worker * 16 + sequence = id) AS apart
FROM generate_series(1, 524287, 127) id, idgen_decode(id, 'example-v1');

--
-- Text: decimal digits and nothing else.
--
SELECT id AS "text", pg_temp.outcome(format('SELECT idgen_decode_text(%L, ''example-v1'')', id)) AS decode
FROM unnest(ARRAY['20497', '00020497', '0', '', ' ', ' 20497', '20497 ', E'20497\n', E'\t20497',
    '+20497', '-20497', '-0', '0x5011', '0b1', '2e4', '20497.0', '20_497', '20,497', 'abc', 'NaN',
    '20497;', '524288', '9223372036854775807', '9223372036854775808',
    '18446744073709572113', '99999999999999999999999999999999999999']) WITH ORDINALITY u (id, n) ORDER BY n;
-- The same number, whether it comes as text or as bigint.
SELECT idgen_decode_text(20497::text, 'example-v1') = idgen_decode(20497, 'example-v1') AS same;

--
-- An argument without a type is a bigint: drivers that ask the server for the types of parameters send a number.
--
PREPARE decode_untyped AS SELECT * FROM idgen_decode($1);
PREPARE decode_in_namespace AS SELECT * FROM idgen_decode($1, $2);
PREPARE timestamp_untyped AS SELECT idgen_timestamp($1);
PREPARE text_untyped AS SELECT * FROM idgen_decode_text($1, $2);
SELECT name, parameter_types FROM pg_prepared_statements ORDER BY name;
EXECUTE decode_in_namespace (20497, 'example-v1');

--
-- JavaScript holds integers up to 2^53: a format of 53 bits survives it, one of 63 does not.
--
SELECT idgen_create_namespace('decode js', timestamp_bits => 41, worker_bits => 6,
    sequence_bits => 6);
SELECT id, id::float8::bigint = id AS survives
FROM (VALUES (idgen_encode(2199023255551, 63, 63, 'decode js')),
    (idgen_encode(1099511627777, 0, 1))) v (id);
SELECT bool_and(id::float8::bigint = id) AS survive FROM idgen_next_batch(1000, 'decode js') id;

--
-- NULL: an unknown ID gives an unknown answer, an unknown namespace is an error.
--
SELECT call, pg_temp.outcome('SELECT ' || call) AS outcome
FROM unnest(ARRAY['idgen_decode(NULL::bigint)', 'idgen_decode_text(NULL)',
    'idgen_timestamp(NULL)', 'idgen_encode(NULL, 1, 1)', 'idgen_encode(1, NULL, 1)',
    'idgen_encode(1, 1, NULL)',
    'idgen_decode(1::bigint, NULL)', 'idgen_decode_text(''1'', NULL)', 'idgen_timestamp(1, NULL)',
    'idgen_encode(1, 1, 1, NULL)', 'idgen_format(NULL)',
    'idgen_decode(NULL::bigint, NULL)', 'idgen_decode_text(NULL, NULL)',
    'idgen_timestamp(NULL, NULL)', 'idgen_encode(NULL, NULL, NULL, NULL)']) WITH ORDINALITY u (call, n)
ORDER BY n;

-- No such namespace. Names are compared as they are.
SELECT call, pg_temp.outcome('SELECT ' || call) AS outcome
FROM unnest(ARRAY['idgen_decode(1::bigint, ''nobody'')', 'idgen_decode_text(''1'', ''nobody'')',
    'idgen_timestamp(1, ''nobody'')', 'idgen_encode(1, 1, 1, ''nobody'')', 'idgen_format(''nobody'')',
    'idgen_format('''')', 'idgen_format(''Default'')', 'idgen_format(''default '')',
    'idgen_format(repeat(''n'', 63))', 'idgen_format(repeat(''n'', 64))',
    'idgen_decode(NULL::bigint, ''nobody'')'])
    WITH ORDINALITY u (call, n)
ORDER BY n;
