--
-- Creating namespaces: every option, what each refuses, and names.
--
\pset format unaligned
\pset tuples_only on
\pset null NULL
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';

-- What a statement comes to, errors with all that a client can see of them.
CREATE FUNCTION pg_temp.outcome(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    state   text;
    message text;
    detail  text;
    hint    text;
BEGIN
    EXECUTE statement;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', state, message, nullif(detail, ''), nullif(hint, ''));
END
$$;
-- Each of a list of options, tried in a namespace of its own.
CREATE FUNCTION pg_temp.try(VARIADIC options text[]) RETURNS TABLE (options text, outcome text)
LANGUAGE sql AS $$
    SELECT o, pg_temp.outcome(format('SELECT idgen_create_namespace(%L, %s)', 'ns ' || md5(o), o))
    FROM unnest(options) WITH ORDINALITY u (o, n) ORDER BY n
$$;

-- What the tables say of one; the superuser who owns them may read them.
CREATE FUNCTION pg_temp.stored(name text) RETURNS text
LANGUAGE sql AS $$
    SELECT concat_ws(' ', kind, timestamp_bits || '/' || worker_bits || '/' || sequence_bits,
        'epoch', epoch_ms, 'tick', tick_ms, 'horizon', horizon_ms, 'grant', grant_interval_ms,
        'ahead', run_ahead_ms, 'workers', first_worker || '-' || last_worker, durability, promotion,
        CASE WHEN restricted THEN 'restricted' END, CASE WHEN NOT issuing THEN 'decoding' END,
        CASE WHEN retired THEN 'retired' END)
    FROM _idgen.idgen_namespace n WHERE n.name = stored.name
$$;

-- The defaults.
SELECT pg_temp.stored('default');
SELECT idgen_create_namespace('ns plain');
SELECT pg_temp.stored('ns plain') = pg_temp.stored('default');
SELECT idgen_format('ns plain') - 'lineage' = jsonb_set(idgen_format(), '{format}', '"ns plain"') - 'lineage';
SELECT owner = current_user FROM _idgen.idgen_namespace WHERE name = 'ns plain';

-- Every option at once, by position and by name.
SELECT idgen_create_namespace('ns all', 40, 5, 6, '2024-02-29 12:00:00.125+00', 10, '250 ms', '2 s',
    3, 17, 'local', 'fence', '500 ms', false, true);
SELECT pg_temp.stored('ns all');
SELECT idgen_format('ns all') - 'lineage';
SELECT idgen_create_namespace(name => 'ns named', epoch => '2024-02-29 12:00:00.125+00',
    promotion => 'refuse', last_worker => 17, tick_ms => 10, run_ahead => '500 ms', horizon => '2 s',
    sequence_bits => 6, worker_bits => 5, timestamp_bits => 40, durability => 'local',
    first_worker => 3, issuing => true, restricted => false, grant_interval => '250 ms');
SELECT pg_temp.stored('ns named');
SELECT worker BETWEEN 3 AND 17 AS in_range, format FROM idgen_decode(idgen_next('ns named'), 'ns named');

--
-- Widths: timestamp at least 1, worker and sequence 0 to 31, together at most 63.
--
SELECT * FROM pg_temp.try('timestamp_bits => 0', 'timestamp_bits => -1', 'timestamp_bits => 64',
    'timestamp_bits => 2147483647', 'timestamp_bits => -2147483648',
    'worker_bits => -1', 'worker_bits => 32', 'worker_bits => 2147483647',
    'sequence_bits => -1', 'sequence_bits => 32', 'sequence_bits => 2147483647',
    'timestamp_bits => 42', 'worker_bits => 11', 'sequence_bits => 13',
    'timestamp_bits => 63, worker_bits => 1, sequence_bits => 0',
    'timestamp_bits => 63, worker_bits => 31, sequence_bits => 31',
    'timestamp_bits => 63, worker_bits => 0, sequence_bits => 0',
    'timestamp_bits => 41, worker_bits => 0, sequence_bits => 22',
    'timestamp_bits => 41, worker_bits => 22, sequence_bits => 0',
    'timestamp_bits => 32, worker_bits => 31, sequence_bits => 0, tick_ms => 1000',
    'timestamp_bits => 32, worker_bits => 0, sequence_bits => 31, tick_ms => 1000',
    'timestamp_bits => 41, worker_bits => 0, sequence_bits => 0');

--
-- tick <= grant_interval <= horizon <= 1 h, run_ahead < horizon.
--
SELECT * FROM pg_temp.try('tick_ms => 0', 'tick_ms => -1', 'tick_ms => -2147483648',
    'tick_ms => 1000', 'tick_ms => 1001', 'tick_ms => 10001',
    'tick_ms => 2147483647', 'tick_ms => 3600001, grant_interval => ''1 h'', horizon => ''1 h''',
    'tick_ms => 3600000, grant_interval => ''1 h'', horizon => ''1 h''',
    'grant_interval => ''0''', 'grant_interval => ''-1 s''', 'grant_interval => ''1 ms''',
    'grant_interval => ''10 s''', 'grant_interval => ''10.001 s''', 'grant_interval => ''1000000 h''',
    'horizon => ''0''', 'horizon => ''-10 s''', 'horizon => ''999 ms''', 'horizon => ''1 s''',
    'horizon => ''1 h''', 'horizon => ''1 h 0.001 s''', 'horizon => ''1 day''',
    'horizon => ''100000000 days''', 'horizon => ''1 day -24 h''',
    'run_ahead => ''-1 ms''', 'run_ahead => ''9.999 s''', 'run_ahead => ''10 s''', 'run_ahead => ''1 day''');

-- A part of a millisecond is not lost: rounded up, never to nothing.
SELECT idgen_create_namespace('ns micro', grant_interval => '999.5 ms', run_ahead => '1 us', horizon => '0.02 min 0.1 ms');
SELECT pg_temp.stored('ns micro');
-- Days and minutes are lengths; months are not.
SELECT idgen_create_namespace('ns days', horizon => '1 day -23 h -30 min', grant_interval => '1 min', run_ahead => '2 min');
SELECT pg_temp.stored('ns days');
SELECT * FROM pg_temp.try('grant_interval => ''1 mon''', 'horizon => ''1 mon''', 'run_ahead => ''1 mon''',
    'horizon => ''1 year''', 'grant_interval => ''1 mon -30 days 1 s''', 'run_ahead => ''-1 mon''');

--
-- The epoch: finite, begun, and its field not over, unless the namespace is for decoding only.
--
SELECT * FROM pg_temp.try('epoch => ''infinity''', 'epoch => ''-infinity''',
    'epoch => ''infinity'', issuing => false', 'epoch => ''2025-01-01 00:00:00.0005+00''',
    'epoch => ''2250-01-01 00:00:00+00''', 'epoch => ''2250-01-01 00:00:00+00'', issuing => false',
    'epoch => date_trunc(''second'', now()) + ''1 day''', 'epoch => date_trunc(''second'', now())',
    'epoch => ''1900-01-01 00:00:00+00''', 'epoch => ''1900-01-01 00:00:00+00'', issuing => false',
    'epoch => ''4713-01-01 00:00:00+00 BC'', timestamp_bits => 48, worker_bits => 3',
    'epoch => ''294276-12-31 23:59:59+00'', timestamp_bits => 53, worker_bits => 0, sequence_bits => 0',
    'timestamp_bits => 30', 'timestamp_bits => 30, issuing => false',
    'timestamp_bits => 1, worker_bits => 0, sequence_bits => 0, tick_ms => 3600000, grant_interval => ''1 h'', horizon => ''1 h'', epoch => date_trunc(''second'', now())');
-- A date far in the future is kept as it is.
SELECT idgen_create_namespace('ns far', epoch => '294276-12-31 23:59:59+00', issuing => false);
SELECT idgen_timestamp(1, 'ns far'), idgen_lower_bound('2025-01-01', 'ns far');

-- A field that is shorter than the horizon: for decoding only.
SELECT * FROM pg_temp.try(
    'timestamp_bits => 12, worker_bits => 3, sequence_bits => 4, epoch => date_trunc(''second'', now())',
    'timestamp_bits => 12, worker_bits => 3, sequence_bits => 4, issuing => false',
    'timestamp_bits => 1, worker_bits => 0, sequence_bits => 0, issuing => false');

--
-- The range of workers.
--
SELECT * FROM pg_temp.try('first_worker => -1', 'first_worker => 1024', 'first_worker => 1023',
    'first_worker => 2147483647', 'last_worker => -1', 'last_worker => 1023', 'last_worker => 1024',
    'last_worker => 2147483647', 'last_worker => 0', 'first_worker => 5, last_worker => 4',
    'first_worker => 5, last_worker => 5', 'worker_bits => 0, last_worker => 0',
    'worker_bits => 0, last_worker => 1', 'worker_bits => 0, first_worker => 1',
    'timestamp_bits => 32, tick_ms => 1000, worker_bits => 31, sequence_bits => 0, first_worker => 2147483647');
SELECT idgen_create_namespace('ns one worker', first_worker => 7, last_worker => 7);
SELECT DISTINCT worker FROM idgen_next_batch(5000, 'ns one worker') id, idgen_decode(id, 'ns one worker');

--
-- Policy.
--
SELECT * FROM pg_temp.try('durability => ''local''', 'durability => ''quorum''', 'durability => ''Local''',
    'durability => ''''', 'durability => ''async''',
    'promotion => ''fence''', 'promotion => ''refuse''', 'promotion => ''split''', 'promotion => ''trust''',
    'promotion => ''Fence''', 'promotion => ''''', 'promotion => ''always''',
    'durability => ''quorum'', promotion => ''trust''',
    'restricted => true', 'restricted => false');
-- Split needs a worker in each part. It is the default from 16 workers on.
SELECT * FROM pg_temp.try('promotion => ''split'', worker_bits => 0',
    'promotion => ''split'', first_worker => 3, last_worker => 3',
    'promotion => ''split'', first_worker => 3, last_worker => 4',
    'promotion => ''split'', worker_bits => 1');
SELECT idgen_create_namespace('ns 15', first_worker => 4, last_worker => 18);
SELECT idgen_create_namespace('ns 16', first_worker => 4, last_worker => 19);
SELECT idgen_create_namespace('ns fence 16', first_worker => 4, last_worker => 19, promotion => 'fence');
SELECT name, promotion FROM _idgen.idgen_namespace WHERE name IN ('default', 'ns 15', 'ns 16', 'ns fence 16', 'ns one worker')
ORDER BY name;
-- Under split, a server uses one part of the workers.
SELECT bool_and(worker BETWEEN 4 AND 19 AND worker % 2 = (SELECT split_remainder FROM _idgen.idgen_authority WHERE namespace = 'ns 16'))
FROM idgen_next_batch(20000, 'ns 16') id, idgen_decode(id, 'ns 16');
SELECT namespace, split_modulus FROM _idgen.idgen_authority
WHERE namespace IN ('default', 'ns 15', 'ns 16', 'ns fence 16', 'ns one worker') ORDER BY 1;

--
-- NULL is an error, but for the options whose default it is.
--
SELECT pg_temp.outcome('SELECT idgen_create_namespace(NULL)');
SELECT * FROM pg_temp.try('timestamp_bits => NULL', 'worker_bits => NULL', 'sequence_bits => NULL',
    'epoch => NULL', 'tick_ms => NULL', 'grant_interval => NULL', 'horizon => NULL',
    'first_worker => NULL', 'last_worker => NULL', 'durability => NULL', 'promotion => NULL',
    'run_ahead => NULL', 'restricted => NULL', 'issuing => NULL');

--
-- Names: 1 to 63 bytes of anything, compared as they are.
--
SELECT pg_temp.outcome('SELECT idgen_create_namespace('''')');
SELECT pg_temp.outcome(format('SELECT idgen_create_namespace(%L)', repeat('n', 64)));
SELECT pg_temp.outcome(format('SELECT idgen_create_namespace(%L)', repeat('n', 63)));
SELECT pg_temp.outcome(format('SELECT idgen_create_namespace(%L)', n))
FROM unnest(ARRAY['Default', ' default', 'a"b', $$a'b$$, 'a\b', E'a\nb', '%s %d', '{}', 'pg_catalog', '$1', '0']) n;
SELECT idgen_format(n) ->> 'format' = n, idgen_next(n) > 0, idgen_next_json(n) ->> 'format' = n
FROM unnest(ARRAY[repeat('n', 63), 'Default', ' default', 'a"b', $$a'b$$, 'a\b', E'a\nb', '%s %d', '{}', 'pg_catalog', '$1', '0']) n;

--
-- A name is taken once. What was rolled back was never there.
--
SELECT pg_temp.outcome('SELECT idgen_create_namespace(''default'')');
SELECT pg_temp.outcome('SELECT idgen_create_namespace(''ns plain'', timestamp_bits => 40)');
SELECT idgen_format('ns plain') ->> 'timestamp_bits';
BEGIN;
SELECT idgen_create_namespace('ns again', timestamp_bits => 39);
SELECT idgen_format('ns again') ->> 'timestamp_bits';
ROLLBACK;
SELECT pg_temp.outcome('SELECT idgen_format(''ns again'')');
SELECT pg_temp.outcome('SELECT idgen_next(''ns again'')');
BEGIN;
SAVEPOINT s;
SELECT idgen_create_namespace('ns again', timestamp_bits => 38);
ROLLBACK TO s;
SELECT idgen_create_namespace('ns again', timestamp_bits => 40);
SELECT pg_temp.outcome('SELECT idgen_create_namespace(''ns again'')');
COMMIT;
SELECT idgen_format('ns again') ->> 'timestamp_bits', idgen_next('ns again') > 0;

-- Not in a transaction that may not write, and not to be called by a parallel worker.
BEGIN READ ONLY;
SELECT idgen_create_namespace('ns read only');
\echo :SQLSTATE
ROLLBACK;

-- A refused creation leaves nothing.
SELECT o FROM unnest(ARRAY['durability => ''async''', 'tick_ms => 0', 'promotion => ''trust''', 'tick_ms => 1000']) o,
    _idgen.idgen_namespace WHERE name IN ('ns ' || md5(o), 'ns read only') ORDER BY 1;
SELECT count(*) FROM _idgen.idgen_namespace n FULL JOIN _idgen.idgen_floor f ON f.namespace = n.name
    FULL JOIN _idgen.idgen_authority a ON a.namespace = n.name WHERE coalesce(n.name, f.namespace, a.namespace) LIKE 'ns %'
    AND (n.name IS NULL OR f.namespace IS NULL OR a.namespace IS NULL);
-- No two namespaces are the same one.
SELECT count(*) = count(DISTINCT uuid) FROM _idgen.idgen_authority;

-- The policy for failover is chosen until the first grant.
SELECT idgen_create_namespace('undecided', worker_bits => 6);
SELECT idgen_alter_namespace('undecided', promotion => 'fence');
SELECT durability, promotion, split_parts, split_modulus, split_remainder FROM _idgen.idgen_namespace n JOIN _idgen.idgen_authority a ON namespace = name WHERE name = 'undecided';
SELECT idgen_alter_namespace('undecided', promotion => 'trust', durability => 'quorum');
SELECT idgen_alter_namespace('undecided', promotion => 'split');
SELECT durability, promotion, split_parts, split_modulus, split_remainder FROM _idgen.idgen_namespace n JOIN _idgen.idgen_authority a ON namespace = name WHERE name = 'undecided';
SELECT idgen_next('undecided') > 0 AS issued;
SELECT idgen_alter_namespace('undecided', promotion => 'split');
SELECT idgen_alter_namespace('undecided', promotion => 'fence');
SELECT idgen_create_namespace('whole', worker_bits => 6, promotion => 'fence');
SELECT idgen_alter_namespace('whole', promotion => 'split', durability => 'quorum');
SELECT idgen_alter_namespace('whole', promotion => 'split');
SELECT durability, promotion, split_parts, split_modulus, split_remainder FROM _idgen.idgen_namespace n JOIN _idgen.idgen_authority a ON namespace = name WHERE name = 'whole';
SELECT idgen_create_namespace('decided', worker_bits => 6, promotion => 'fence');
SELECT idgen_next('decided') > 0 AS issued;
SELECT idgen_alter_namespace('decided', promotion => 'split');
-- A restored policy is that of a namespace which was never used here, and only of such a one.
SELECT idgen_create_namespace('fresh', worker_bits => 6);
INSERT INTO _idgen.idgen_namespace SELECT CASE name WHEN 'decided' THEN 'fresh' ELSE 'decided' END, kind, timestamp_bits, worker_bits, sequence_bits, epoch_ms, tick_ms,
    horizon_ms, grant_interval_ms, run_ahead_ms, first_worker, last_worker, durability, promotion, restricted, issuing, retired, owner, issue_roles, acquire_roles, split_parts, lineage
    FROM _idgen.idgen_namespace WHERE name IN ('decided', 'undecided');
SELECT name, promotion, split_parts, split_modulus, split_remainder FROM _idgen.idgen_namespace n JOIN _idgen.idgen_authority a ON namespace = name WHERE name IN ('decided', 'fresh') ORDER BY 1;
SELECT idgen_next('fresh') > 0 AS issued;
