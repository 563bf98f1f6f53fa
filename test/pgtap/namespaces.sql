-- Namespaces behave in the same way whatever their format is: the same checks for each of several namespaces.
SELECT plan(12 * 11 + 6);

CREATE TABLE formats (name text, timestamp_bits int, worker_bits int, sequence_bits int, tick_ms int, count int);
INSERT INTO formats VALUES
    ('default', 41, 10, 12, 1, 5000),
    ('two bits', 41, 10, 2, 1, 20000),
    ('one bit', 41, 10, 1, 1, 4000),
    ('no sequence', 41, 10, 0, 1, 500),
    ('no worker', 41, 0, 12, 1, 5000),
    ('nothing but time', 63, 0, 0, 1, 200),
    ('javascript', 41, 6, 6, 1, 5000),
    ('seconds', 33, 10, 20, 1000, 5000),
    ('minutes', 27, 5, 31, 60000, 5000),
    ('wide worker', 31, 31, 1, 100, 20),
    ('tenths', 35, 4, 16, 100, 5000);
INSERT INTO formats VALUES ('Ünïcødé "1"', 40, 8, 8, 5, 2000);
SELECT idgen_create_namespace(name, timestamp_bits, worker_bits, sequence_bits, tick_ms => tick_ms,
    grant_interval => greatest(tick_ms, 1000) * interval '1 ms', horizon => greatest(tick_ms * 2, 10000) * interval '1 ms')
FROM formats WHERE name <> 'default';

CREATE TABLE ids (name text, n int, id bigint);
INSERT INTO ids SELECT f.name, n, idgen_next(f.name) FROM formats f, LATERAL generate_series(1, f.count) n;
INSERT INTO ids SELECT f.name, f.count + n, id FROM formats f, LATERAL idgen_next_batch(f.count, f.name) WITH ORDINALITY b (id, n);
ANALYZE ids;
CREATE TABLE parts AS SELECT ids.name, n, id, d.format, d."timestamp", d.tick, d.worker, d.sequence
FROM ids, LATERAL idgen_decode(id, ids.name) d;

SELECT is((SELECT count(DISTINCT id) FROM ids i WHERE i.name = f.name), f.count * 2::bigint,
    f.name || ': all requested IDs come, and all are different') FROM formats f;
SELECT is((SELECT count(*) FROM (SELECT id, lag(id) OVER (ORDER BY n) AS previous FROM ids i WHERE i.name = f.name) q
    WHERE id <= previous), 0::bigint, f.name || ': IDs rise, one by one and by batch [S11]') FROM formats f;
SELECT ok((SELECT bool_and(id > 0 AND id::numeric < 2::numeric ^ (timestamp_bits + worker_bits + sequence_bits))
    FROM ids i WHERE i.name = f.name), f.name || ': IDs are positive and no wider than the format [S7]') FROM formats f;
SELECT ok((SELECT bool_and(format = f.name AND worker >= 0 AND worker < 2::numeric ^ worker_bits
        AND sequence >= 0 AND sequence < 2::numeric ^ sequence_bits)
    FROM parts p WHERE p.name = f.name), f.name || ': decoded fields are within their widths [S6]') FROM formats f;
SELECT ok((SELECT bool_and(idgen_encode(tick, worker, sequence, f.name) = id) FROM parts p WHERE p.name = f.name),
    f.name || ': decoded IDs are the same when encoded again') FROM formats f;
SELECT ok((SELECT bool_and("timestamp" = timestamptz '2025-01-01 00:00:00+00' + tick * tick_ms * interval '1 ms'
        AND idgen_timestamp(id, f.name) = "timestamp")
    FROM parts p WHERE p.name = f.name), f.name || ': the timestamp is the beginning of the tick') FROM formats f;
SELECT ok((SELECT min("timestamp") > now() - interval '1 min' - tick_ms * interval '1 ms' AND max("timestamp") <= clock_timestamp()
    FROM parts p WHERE p.name = f.name),
    f.name || ': timestamps are of the last minute and not of the future') FROM formats f;
SELECT cmp_ok((SELECT max(c) FROM (SELECT count(*) AS c FROM parts p WHERE p.name = f.name GROUP BY tick, worker) q)::numeric,
    '<=', round(2::numeric ^ sequence_bits),
    f.name || ': a worker issues at most as many IDs per tick as there are sequence values [S6]') FROM formats f;
SELECT ok((SELECT bool_and((idgen_decode_text(id::text, f.name)).tick = tick) FROM parts p WHERE p.name = f.name AND n <= 100),
    f.name || ': IDs as text are decoded to the same tick') FROM formats f;
SELECT is(idgen_next_json(f.name) - 'id', jsonb_build_object('format', f.name),
    f.name || ': idgen_next_json() names the format') FROM formats f;
SELECT ok((SELECT bool_and(id >= idgen_lower_bound("timestamp", f.name)
        AND id < idgen_lower_bound("timestamp" + tick_ms * interval '1 ms', f.name))
    FROM parts p WHERE p.name = f.name), f.name || ': IDs lie between the bounds of their tick') FROM formats f;

-- What happens to one namespace has no effect on another.
SELECT is((SELECT id::float8::bigint = id FROM ids WHERE name = 'javascript' ORDER BY id DESC LIMIT 1), true,
    'an ID of 53 bits survives a conversion to float8');
SELECT lives_ok($$SELECT idgen_retire_namespace('two bits')$$, 'a namespace can be retired');
SELECT throws_ok($$SELECT idgen_next('two bits')$$, 'IG009', NULL, 'a retired namespace fails with IG009');
SELECT is((SELECT count(*) FROM formats WHERE name <> 'two bits' AND idgen_next(name) > 0), 11::bigint,
    'all other namespaces issue after one was retired');
SELECT lives_ok($$SELECT idgen_retire_namespace('default')$$, 'the default namespace can be retired');
SELECT throws_ok('SELECT idgen_next()', 'IG009', NULL, 'the retired default namespace fails with IG009');
SELECT * FROM finish();
