--
-- As the default of a column.
--
\pset format unaligned
\pset null NULL
SELECT idgen_create_namespace('column');

CREATE TABLE column_orders (
    id   bigint PRIMARY KEY DEFAULT idgen_next('column'),
    note text UNIQUE,
    seen int NOT NULL DEFAULT 1
);

-- Omitted, DEFAULT, explicit.
INSERT INTO column_orders (note) VALUES ('omitted');
INSERT INTO column_orders VALUES (DEFAULT, 'default');
INSERT INTO column_orders VALUES (4711, 'explicit');
INSERT INTO column_orders DEFAULT VALUES;
INSERT INTO column_orders VALUES (NULL, 'null');
INSERT INTO column_orders (note) VALUES ('returned') RETURNING id > 0 AS id, note;
SELECT coalesce(note, '-') AS note, id = 4711 AS explicit,
    CASE WHEN id <> 4711 THEN idgen_timestamp(id, 'column') > now() - interval '1 min' END AS recent
FROM column_orders ORDER BY id;

-- Many rows: one value each, whatever the statement.
INSERT INTO column_orders (note) VALUES ('a'), ('b'), ('c'), ('d');
INSERT INTO column_orders (note) SELECT 'row ' || n FROM generate_series(1, 20000) n;
COPY column_orders (note) FROM stdin;
copied 1
copied 2
copied 3
\.
WITH more AS (INSERT INTO column_orders (note) SELECT 'cte ' || n FROM generate_series(1, 10) n RETURNING id)
SELECT count(*), count(DISTINCT id) FROM more;
SELECT count(*) AS orders, count(DISTINCT id) AS ids FROM column_orders;

-- INSERT ... SELECT: IDs rise in row order, also in the order of an ORDER BY.
SELECT count(*) FILTER (WHERE n <> previous + 1) AS out_of_order, count(*) AS "rows"
FROM (SELECT n, lag(n) OVER (ORDER BY id) AS previous
    FROM (SELECT id, substring(note FROM 'row (.*)')::int AS n FROM column_orders WHERE note LIKE 'row %') q) r;
INSERT INTO column_orders (note) SELECT 'down ' || n FROM generate_series(1, 1000) n ORDER BY n DESC;
SELECT count(*) FILTER (WHERE n <> previous - 1) AS out_of_order, count(*) AS "rows"
FROM (SELECT n, lag(n) OVER (ORDER BY id) AS previous
    FROM (SELECT id, substring(note FROM 'down (.*)')::int AS n FROM column_orders WHERE note LIKE 'down %') q) r;
SELECT array_agg(note ORDER BY id) FROM column_orders WHERE note IN ('a', 'b', 'c', 'd');
SELECT array_agg(note ORDER BY id) FROM column_orders WHERE note LIKE 'copied%';

-- ON CONFLICT costs a gap, nothing else.
SELECT max(id) AS before FROM column_orders \gset
INSERT INTO column_orders (note) VALUES ('a') ON CONFLICT (note) DO NOTHING;
INSERT INTO column_orders (note) VALUES ('a'), ('z'), ('b')
    ON CONFLICT (note) DO UPDATE SET seen = column_orders.seen + 1 RETURNING note, seen, id > :before AS new;
INSERT INTO column_orders (id, note) VALUES (4711, 'again') ON CONFLICT DO NOTHING;
INSERT INTO column_orders VALUES (4711, 'again');
\echo :SQLSTATE

-- UPDATE ... SET id = DEFAULT, MERGE, a statement that fails half-way.
UPDATE column_orders SET id = DEFAULT WHERE note LIKE 'down %';
SELECT count(*) AS "rows", count(DISTINCT id) AS ids, min(id) > :before AS new FROM column_orders WHERE note LIKE 'down %';
MERGE INTO column_orders o USING (VALUES ('merged'), ('z')) v (note) ON o.note = v.note
    WHEN MATCHED THEN UPDATE SET seen = 100
    WHEN NOT MATCHED THEN INSERT (note) VALUES (v.note);
SELECT note, seen FROM column_orders WHERE note IN ('merged', 'z') ORDER BY note;
INSERT INTO column_orders (note) SELECT CASE WHEN n = 500 THEN 'a' ELSE 'half ' || n END FROM generate_series(1, 1000) n;
\echo :SQLSTATE
INSERT INTO column_orders (note) VALUES ('after');
SELECT count(*) AS half FROM column_orders WHERE note LIKE 'half %';
SELECT note FROM column_orders ORDER BY id DESC LIMIT 1;

-- A column added later: every row its own value.
CREATE TABLE column_added AS SELECT n FROM generate_series(1, 5000) n;
ALTER TABLE column_added ADD COLUMN id bigint NOT NULL DEFAULT idgen_next('column');
ALTER TABLE column_added ADD PRIMARY KEY (id);
SELECT count(DISTINCT id) FROM column_added;
ALTER TABLE column_added ALTER COLUMN id DROP DEFAULT;
ALTER TABLE column_added ALTER COLUMN id SET DEFAULT idgen_next();
INSERT INTO column_added (n) VALUES (0) RETURNING id > 0 AS id;
-- A value made anew for every row is no expression for a stored one.
ALTER TABLE column_added ADD COLUMN other bigint GENERATED ALWAYS AS (idgen_next()) STORED;
\echo :SQLSTATE
-- Since 19 the error has a position.
\set VERBOSITY sqlstate
CREATE INDEX ON column_added (idgen_timestamp(id));
\set VERBOSITY default
DROP TABLE column_added;

-- Partitions: through the parent, and each by itself.
CREATE TABLE column_parts (id bigint DEFAULT idgen_next('column'), region text, PRIMARY KEY (id, region))
    PARTITION BY LIST (region);
CREATE TABLE column_part_a PARTITION OF column_parts FOR VALUES IN ('a');
CREATE TABLE column_part_b PARTITION OF column_parts FOR VALUES IN ('b');
CREATE TABLE column_part_d PARTITION OF column_parts (id DEFAULT idgen_next()) DEFAULT;
INSERT INTO column_parts (region) SELECT substr('abcd', 1 + n % 4, 1) FROM generate_series(0, 3999) n;
INSERT INTO column_part_a (region) VALUES ('a');
INSERT INTO column_part_d (region) VALUES ('x');
SELECT tableoid::regclass AS partition, count(*), count(DISTINCT id) AS ids FROM column_parts GROUP BY 1 ORDER BY 1;
SELECT count(DISTINCT id) FROM column_parts;
DROP TABLE column_parts;

-- A foreign key, a view with a default, a trigger, an identity-like RETURNING into another table.
CREATE TABLE column_lines (order_id bigint REFERENCES column_orders, line int);
WITH o AS (INSERT INTO column_orders (note) VALUES ('with lines') RETURNING id)
INSERT INTO column_lines SELECT id, n FROM o, generate_series(1, 3) n;
SELECT count(*), count(DISTINCT order_id) AS orders FROM column_lines;
CREATE VIEW column_view AS SELECT id, note FROM column_orders;
INSERT INTO column_view (note) VALUES ('through a view') RETURNING id > 0 AS id;
DROP VIEW column_view;
DROP TABLE column_lines;

--
-- The text of the default stays the same however often it is dumped and applied again.
--
CREATE TABLE column_defaults (a bigint DEFAULT idgen_next(), b bigint DEFAULT idgen_next('column'),
    c bigint DEFAULT idgen_next(namespace => 'column'), d jsonb DEFAULT idgen_next_json(),
    e text DEFAULT idgen_next('column')::text, f bigint DEFAULT public.idgen_next());
CREATE FUNCTION pg_temp.default_of(relation regclass) RETURNS TABLE (name name, text text)
LANGUAGE sql AS $$
    SELECT a.attname, pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d
    JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
    WHERE d.adrelid = relation ORDER BY d.adnum
$$;
SELECT * FROM pg_temp.default_of('column_defaults');
DO $$
DECLARE
    item record;
BEGIN
    CREATE TABLE column_again (LIKE column_defaults);
    FOR item IN SELECT * FROM pg_temp.default_of('column_defaults') LOOP
        EXECUTE format('ALTER TABLE column_again ALTER COLUMN %I SET DEFAULT %s', item.name, item.text);
    END LOOP;
END
$$;
SELECT * FROM pg_temp.default_of('column_defaults') EXCEPT SELECT * FROM pg_temp.default_of('column_again');
-- as pg_dump reads it, with nothing in the search path
SET search_path = '';
SELECT name, text FROM pg_temp.default_of('public.column_again');
RESET search_path;
INSERT INTO column_again DEFAULT VALUES;
SELECT count(*) FROM column_again WHERE a > 0 AND b > 0 AND c > 0 AND d ->> 'format' = 'default' AND e ~ '^\d+$' AND f > 0;
DROP TABLE column_defaults, column_again, column_orders;

-- The text of a default that is written with its cast comes back as it was written, so that tools see no difference.
CREATE TABLE column_texts (a bigint DEFAULT idgen_next(), b bigint DEFAULT idgen_next('column'::text), c bigint DEFAULT idgen_next('column'));
SELECT * FROM pg_temp.default_of('column_texts');
DROP TABLE column_texts;

-- A subquery that depends on no row is run once for the statement, as with nextval; without it there is a value for each row.
CREATE SEQUENCE column_sequence;
SELECT count(DISTINCT id) AS ids, count(DISTINCT number) AS numbers
FROM (SELECT (SELECT idgen_next('column')) AS id, (SELECT nextval('column_sequence')) AS number FROM generate_series(1, 3)) q;
SELECT count(DISTINCT id) AS ids, count(DISTINCT number) AS numbers
FROM (SELECT idgen_next('column') AS id, nextval('column_sequence') AS number FROM generate_series(1, 3)) q;
DROP SEQUENCE column_sequence;
