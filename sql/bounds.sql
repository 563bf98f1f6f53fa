--
-- Time ranges: id >= idgen_lower_bound(a) AND id < idgen_lower_bound(b).
--
\pset format unaligned
\pset null NULL
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';

SELECT idgen_create_namespace('bounds ms', timestamp_bits => 41, worker_bits => 10,
    sequence_bits => 12, epoch => '2025-01-01 00:00:00+00');
SELECT idgen_create_namespace('bounds s', timestamp_bits => 32, worker_bits => 3,
    sequence_bits => 4, tick_ms => 1000, epoch => '2025-01-01 00:00:00.250+00');
-- 4,096 ticks of a millisecond
SELECT idgen_create_namespace('bounds short', timestamp_bits => 12, worker_bits => 3,
    sequence_bits => 4, epoch => '2025-01-01 00:00:00+00', grant_interval => '40 ms',
    horizon => '1 s', issuing => false);
SELECT idgen_create_namespace('bounds full', timestamp_bits => 63, worker_bits => 0,
    sequence_bits => 0, epoch => '2025-01-01 00:00:00+00', issuing => false);

-- Around the epoch: 0 before it; the first tick after any time later.
SELECT ts, idgen_lower_bound(ts, 'bounds ms') AS bound, idgen_lower_bound(ts, 'bounds ms') >> 22 AS tick
FROM unnest('{-infinity,4713-01-01 BC,1970-01-01,2024-12-31 23:59:59.999999,2025-01-01 00:00:00,2025-01-01 00:00:00.000001,2025-01-01 00:00:00.000999,2025-01-01 00:00:00.001,2025-01-01 00:00:00.001001,2025-01-01 00:00:00.002}'::timestamptz[]) ts;

-- A tick of a second that begins at .250: rounded up to the next one, also from the middle.
SELECT ts, idgen_lower_bound(ts, 'bounds s') >> 7 AS tick
FROM unnest('{2025-01-01 00:00:00.249999,2025-01-01 00:00:00.250,2025-01-01 00:00:00.250001,2025-01-01 00:00:00.750,2025-01-01 00:00:01.249999,2025-01-01 00:00:01.250,2025-01-01 00:00:01.250001}'::timestamptz[]) ts;

-- The end of the field: past the last tick 2^63-1, and never a wrapped number.
SELECT ts, idgen_lower_bound(ts, 'bounds short') AS bound
FROM unnest('{2025-01-01 00:00:04.094,2025-01-01 00:00:04.095,2025-01-01 00:00:04.095001,2025-01-01 00:00:04.096,2025-01-01 00:00:04.096001,2025-02-20 17:02:47.296,294276-12-31 23:59:59.999999,infinity}'::timestamptz[]) ts;
SELECT ts, idgen_lower_bound(ts) AS bound
FROM unnest('{2094-09-07 15:47:35.550,2094-09-07 15:47:35.551,2094-09-07 15:47:35.551001,2094-09-07 15:47:35.552,9999-12-31,294276-12-31 23:59:59.999999,infinity}'::timestamptz[]) ts;
SELECT ts, idgen_lower_bound(ts, 'bounds full') AS bound
FROM unnest('{-infinity,4713-01-01 BC,2025-01-01 00:00:00.001,294276-12-31 23:59:59.999999,infinity}'::timestamptz[]) ts;

-- The bound is the least number that a tick at or after the time can carry: of all IDs, exactly
-- those are at or above it whose tick begins at or after the time.
SELECT count(*) AS pairs, count(*) FILTER (WHERE (id >= idgen_lower_bound(ts, 'bounds s'))
    IS DISTINCT FROM (idgen_timestamp(id, 'bounds s') >= ts)) AS wrong
FROM generate_series(1, 128 * 6, 5) id,
    generate_series('2024-12-31 23:59:59'::timestamptz, '2025-01-01 00:00:08', '0.125 s') ts;
SELECT count(*) AS pairs, count(*) FILTER (WHERE (id >= idgen_lower_bound(ts, 'bounds short'))
    IS DISTINCT FROM (idgen_timestamp(id, 'bounds short') >= ts)) AS wrong
FROM generate_series(1, 524287, 509) id,
    generate_series('2024-12-31 23:59:59.998'::timestamptz, '2025-01-01 00:00:04.1', '0.0375 s') ts;

-- Neighbouring ranges: every ID in exactly one of them.
SELECT count(*) AS ids, count(DISTINCT id) AS different
FROM generate_series(1, 524287, 61) id
JOIN generate_series('2025-01-01 00:00:00'::timestamptz, '2025-01-01 00:00:04.095', '0.7 s') a
    ON id >= idgen_lower_bound(a, 'bounds short')
    AND id < idgen_lower_bound(a + '0.7 s', 'bounds short');

--
-- An instant is an instant: every time zone gives the same bounds, also across changes of the
-- clock, and the same epoch to a new namespace.
--
CREATE FUNCTION pg_temp.zones() RETURNS TABLE (zones bigint, different bigint, formats bigint)
LANGUAGE plpgsql AS $$
DECLARE
    zone  text;
    found text[] := '{}';
    kinds text[] := '{}';
BEGIN
    zones := 0;
    FOR zone IN SELECT name FROM pg_timezone_names LOOP
        PERFORM set_config('timezone', zone, true);
        zones := zones + 1;
        found := found || concat_ws(',',
            idgen_lower_bound('2025-03-30 00:59:59.999+00'), idgen_lower_bound('2025-03-30 01:00:00+00'),
            idgen_lower_bound('2025-10-26 02:30:00+02'), idgen_lower_bound('2025-10-26 02:30:00+01'),
            idgen_lower_bound('2025-01-01 00:00:00.001Z'), idgen_lower_bound('infinity'));
        kinds := kinds || idgen_format()::text;
    END LOOP;
    SELECT count(DISTINCT f) INTO different FROM unnest(found) f;
    SELECT count(DISTINCT k) INTO formats FROM unnest(kinds) k;
    RETURN NEXT;
END
$$;
SELECT zones > 100 AS many, different, formats FROM pg_temp.zones();
SET timezone = 'Europe/Berlin';
-- the hour that comes twice lasts an hour, each time
SELECT ts, idgen_lower_bound(ts) - lag(idgen_lower_bound(ts)) OVER (ORDER BY ts) = 1800000::bigint << 22 AS half_an_hour
FROM generate_series('2025-10-26 02:00:00+02'::timestamptz, '2025-10-26 03:00:00+01', '30 min') ts ORDER BY ts;
-- and the one that is left out does not exist
SELECT idgen_lower_bound('2025-03-30 03:00:00 Europe/Berlin') - idgen_lower_bound('2025-03-30 01:59:59 Europe/Berlin')
    = 1000::bigint << 22 AS a_second;
SET timezone = 'America/St_Johns';
SELECT idgen_create_namespace('bounds st johns');
SELECT idgen_format('bounds st johns') - '{format,lineage}'::text[] = idgen_format() - '{format,lineage}'::text[] AS same_epoch;
SELECT idgen_decode(1) = idgen_decode(1) AS shown, idgen_timestamp(4194304) FROM idgen_format();
SET timezone = 'UTC';
SELECT idgen_timestamp(4194304);

-- NULL: no time, no bound; no namespace, an error.
SELECT idgen_lower_bound(NULL);
SELECT idgen_lower_bound(now(), NULL);
\echo :SQLSTATE
SELECT idgen_lower_bound(NULL, NULL);
\echo :SQLSTATE
SELECT idgen_lower_bound(now(), 'nobody');
\echo :SQLSTATE

-- An ID issued now lies between bounds around now.
SELECT clock_timestamp() AS before \gset
SELECT idgen_next('bounds s') AS id, idgen_next('bounds ms') AS id_ms \gset
SELECT :id >= idgen_lower_bound(:'before'::timestamptz - interval '1 s', 'bounds s') AS a,
    :id < idgen_lower_bound(clock_timestamp() + interval '1 s', 'bounds s') AS b,
    :id_ms >= idgen_lower_bound(:'before'::timestamptz - interval '1 ms', 'bounds ms') AS c,
    :id_ms < idgen_lower_bound(clock_timestamp() + interval '1 ms', 'bounds ms') AS d;

--
-- A time range on IDs prunes partitions.
--
CREATE TABLE bounds_events (id bigint PRIMARY KEY DEFAULT idgen_next('bounds ms'), note text)
    PARTITION BY RANGE (id);
DO $$
DECLARE
    month timestamptz := '2025-01-01';
BEGIN
    FOR i IN 1 .. 4 LOOP
        EXECUTE format('CREATE TABLE bounds_events_%s PARTITION OF bounds_events FOR VALUES FROM (%s) TO (%s)',
            i, idgen_lower_bound(month, 'bounds ms'), idgen_lower_bound(month + '1 mon', 'bounds ms'));
        month := month + '1 mon';
    END LOOP;
END
$$;
INSERT INTO bounds_events SELECT idgen_encode(tick, 1, 0, 'bounds ms'), 'day ' || tick / 86400000
FROM generate_series(0, 119 * 86400000::bigint, 86400000) tick;
SELECT tableoid::regclass AS partition, count(*), min(idgen_timestamp(id, 'bounds ms')) AS first
FROM bounds_events GROUP BY 1 ORDER BY 1;
-- The partitions that are left in a plan when it is carried out.
CREATE FUNCTION pg_temp.scanned(query text) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        IF line ~ 'Scan .*on bounds_events_\d' THEN
            RETURN NEXT substring(line FROM ' on (bounds_events_\d)');
        END IF;
    END LOOP;
END
$$;
SELECT DISTINCT scanned FROM pg_temp.scanned($$SELECT * FROM bounds_events
    WHERE id >= idgen_lower_bound('2025-02-10', 'bounds ms') AND id < idgen_lower_bound('2025-02-11', 'bounds ms')$$)
    scanned ORDER BY 1;
SELECT DISTINCT scanned FROM pg_temp.scanned($$SELECT * FROM bounds_events
    WHERE id >= idgen_lower_bound('2025-02-28 12:00', 'bounds ms') AND id < idgen_lower_bound('2025-03-02', 'bounds ms')$$)
    scanned ORDER BY 1;
SELECT DISTINCT scanned FROM pg_temp.scanned('SELECT * FROM bounds_events') scanned ORDER BY 1;
SELECT id, note FROM bounds_events WHERE id >= idgen_lower_bound('2025-02-10', 'bounds ms')
    AND id < idgen_lower_bound('2025-02-11', 'bounds ms');
PREPARE bounds_between (timestamptz, timestamptz) AS SELECT count(*) FROM bounds_events
    WHERE id >= idgen_lower_bound($1, 'bounds ms') AND id < idgen_lower_bound($2, 'bounds ms');
EXECUTE bounds_between ('2025-01-31', '2025-02-02');
EXECUTE bounds_between ('-infinity', 'infinity');
EXECUTE bounds_between ('2025-01-31 00:00:00.000001', '2025-02-01');
DEALLOCATE bounds_between;
DROP TABLE bounds_events;
