-- Every SQL object has the right signature, volatility, parallel label, strictness, privileges, comment and owner.
BEGIN;
SELECT plan(54);

CREATE TEMP VIEW members AS
SELECT d.classid, d.objid FROM pg_depend d
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
    AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'idgen');
CREATE TEMP VIEW functions AS
SELECT p.*, p.oid::regprocedure::text AS signature FROM members JOIN pg_proc p ON classid = 'pg_proc'::regclass AND objid = p.oid;
CREATE TEMP VIEW tables AS
SELECT c.* FROM members JOIN pg_class c ON classid = 'pg_class'::regclass AND objid = c.oid WHERE c.relkind NOT IN ('i', 'c', 'v');
CREATE TEMP VIEW views AS
SELECT c.* FROM members JOIN pg_class c ON classid = 'pg_class'::regclass AND objid = c.oid WHERE c.relkind = 'v';

SELECT has_extension('idgen');
SELECT is((SELECT extversion FROM pg_extension WHERE extname = 'idgen'), '1.0', 'the version of the extension is 1.0');
SELECT ok(NOT (SELECT extrelocatable FROM pg_extension WHERE extname = 'idgen'), 'the extension is not relocatable');
SELECT ok((SELECT superuser AND NOT trusted FROM pg_available_extension_versions WHERE name = 'idgen' AND version = '1.0'),
    'only a superuser creates the extension');

-- Names, arguments with their defaults, results.
SELECT set_eq(
    $$SELECT format('%s(%s) %s', proname, pg_get_function_arguments(oid), pg_get_function_result(oid)) FROM functions$$,
    ARRAY[
    'idgen_create_namespace(name text, timestamp_bits integer DEFAULT 41, worker_bits integer DEFAULT 10, sequence_bits integer DEFAULT 12, epoch timestamp with time zone DEFAULT '
        || quote_literal('2025-01-01 00:00:00+00'::timestamptz::text) || '::timestamp with time zone, tick_ms integer DEFAULT 1, '
        || 'grant_interval interval DEFAULT ' || quote_literal(interval '1 s') || '::interval, horizon interval DEFAULT ' || quote_literal(interval '10 s')
        || '::interval, first_worker integer DEFAULT 0, last_worker integer DEFAULT NULL::integer, durability text DEFAULT ''local''::text, '
        || 'promotion text DEFAULT NULL::text, run_ahead interval DEFAULT ' || quote_literal(interval '0')
        || '::interval, restricted boolean DEFAULT false, issuing boolean DEFAULT true) void',
    'idgen_acquire_grant(namespace text, incarnation bigint, request_id uuid, token text, after_grant bigint, length interval DEFAULT NULL::interval) idgen_acquired',
    'idgen_activate(namespace text DEFAULT ''default''::text, OUT worker integer, OUT incarnation bigint, OUT grant_id bigint, OUT start_ms bigint, OUT end_ms_exclusive bigint, OUT format text, OUT token text) record',
    'idgen_adopt_column("table" regclass, "column" name, namespace text DEFAULT ''default''::text) void',
    'idgen_check_columns(OUT schema_name text, OUT table_name text, OUT column_name text, OUT namespace text, OUT greatest_id bigint, OUT problems text[]) SETOF record',
    'idgen_adopt_namespace(name text, above bigint DEFAULT NULL::bigint, first_worker integer DEFAULT NULL::integer, last_worker integer DEFAULT NULL::integer, ticket jsonb DEFAULT NULL::jsonb) void',
    'idgen_hand_over_namespace(name text) jsonb',
    'idgen_allow(namespace text, grantee regrole, privilege text) void',
    'idgen_alter_namespace(name text, grant_interval interval DEFAULT NULL::interval, durability text DEFAULT NULL::text, promotion text DEFAULT NULL::text, run_ahead interval DEFAULT NULL::interval, restricted boolean DEFAULT NULL::boolean, owner regrole DEFAULT NULL::regrole) void',
    'idgen_confirm_clock() void',
    'idgen_deactivate(incarnation bigint, token text) void',
    'idgen_disallow(namespace text, grantee regrole, privilege text) void',
    'idgen_end_incarnation(incarnation bigint) void',
    'idgen_fence_namespace(name text, above bigint DEFAULT NULL::bigint) void',
    'idgen_decode(id bigint, namespace text DEFAULT ''default''::text, OUT format text, OUT "timestamp" timestamp with time zone, OUT tick bigint, OUT worker integer, OUT sequence integer) record',
    'idgen_decode_text(id text, namespace text DEFAULT ''default''::text, OUT format text, OUT "timestamp" timestamp with time zone, OUT tick bigint, OUT worker integer, OUT sequence integer) record',
    'idgen_encode(tick bigint, worker integer, sequence integer, namespace text DEFAULT ''default''::text) bigint',
    'idgen_format(namespace text DEFAULT ''default''::text) jsonb',
    'idgen_guard() trigger',
    'idgen_lower_bound(ts timestamp with time zone, namespace text DEFAULT ''default''::text) bigint',
    'idgen_next(namespace text DEFAULT ''default''::text) bigint',
    'idgen_next_batch(count integer, namespace text DEFAULT ''default''::text) SETOF bigint',
    'idgen_next_json(namespace text DEFAULT ''default''::text) jsonb',
    'idgen_retire_namespace(name text) void',
    'idgen_stat_counters(OUT namespace text, OUT ids bigint, OUT batches bigint, OUT tick_waits bigint, OUT tick_wait_us bigint, OUT grant_waits bigint, OUT grant_wait_us bigint, '
        || 'OUT lock_waits bigint, OUT lock_wait_us bigint, OUT exhaustions bigint, OUT spills bigint, OUT clock_behind bigint, OUT clock_behind_max_us bigint, OUT grants_missed bigint, '
        || 'OUT grants bigint, OUT grant_latency_us bigint, OUT grant_latency_max_us bigint, OUT rejections bigint, OUT forks bigint, OUT fences bigint, OUT errors bigint, OUT refusals bigint, '
        || 'OUT pauses bigint, OUT pause_max_us bigint, OUT grants_ahead bigint, OUT holder_waits bigint, OUT holder_wait_us bigint, OUT holder_wait_max_us bigint, OUT last_error text, '
        || 'OUT last_error_at timestamp with time zone, OUT stats_reset timestamp with time zone, OUT copied boolean, OUT unconfirmed integer, OUT ticks bigint) SETOF record',
    'idgen_stat_cursors(OUT database oid, OUT namespace text, OUT uuid uuid, OUT worker integer, OUT incarnation bigint, OUT ids bigint, OUT last_tick timestamp with time zone, '
        || 'OUT sequence_used bigint, OUT granted_until timestamp with time zone, OUT runway_ms bigint) SETOF record',
    'idgen_stat_reset() void',
    'idgen_stat_authority_process(OUT pid integer, OUT started timestamp with time zone, OUT last_round timestamp with time zone, OUT rounds bigint, OUT grants bigint, OUT requests_waiting integer, '
        || 'OUT cursors_in_use integer, OUT cursors_free integer, OUT standby boolean, OUT fsync boolean, OUT clock_synchronised boolean, OUT clock_offset_us bigint, OUT clock_max_error_us bigint, '
        || 'OUT clock text, OUT clock_step_ms bigint, OUT clock_steps_back bigint, OUT clock_steps_forward bigint, OUT clock_largest_step_ms bigint, OUT cursors_taken bigint, OUT pauses bigint, OUT pause_max_ms bigint) SETOF record',
    'idgen_timestamp(id bigint, namespace text DEFAULT ''default''::text) timestamp with time zone',
    'idgen_trace(id bigint, namespace text DEFAULT ''default''::text, OUT grant_id bigint, OUT worker integer, OUT granted_from timestamp with time zone, OUT granted_until timestamp with time zone, '
        || 'OUT granted_at timestamp with time zone, OUT incarnation bigint, OUT kind text, OUT role text, OUT address inet, OUT application text, OUT activated_at timestamp with time zone, OUT state text) SETOF record'],
    'the functions have exactly these arguments and results');

SELECT set_eq($$SELECT DISTINCT proname::text FROM functions WHERE provolatile = 'v'$$,
    ARRAY['idgen_next', 'idgen_next_batch', 'idgen_next_json', 'idgen_create_namespace', 'idgen_retire_namespace', 'idgen_guard',
    'idgen_alter_namespace', 'idgen_allow', 'idgen_disallow', 'idgen_activate', 'idgen_acquire_grant', 'idgen_deactivate',
    'idgen_end_incarnation', 'idgen_adopt_namespace', 'idgen_hand_over_namespace', 'idgen_fence_namespace', 'idgen_confirm_clock', 'idgen_adopt_column',
    'idgen_stat_counters', 'idgen_stat_cursors', 'idgen_stat_authority_process', 'idgen_stat_reset'],
    'functions that issue, change or look into shared memory are volatile');
SELECT set_eq($$SELECT DISTINCT proname::text FROM functions WHERE provolatile = 's'$$,
    ARRAY['idgen_decode', 'idgen_decode_text', 'idgen_encode', 'idgen_timestamp', 'idgen_lower_bound', 'idgen_format', 'idgen_trace', 'idgen_check_columns'],
    'functions that only look something up are stable');
SELECT is_empty($$SELECT signature FROM functions WHERE provolatile = 'i'$$, 'no function is immutable');
SELECT set_eq($$SELECT DISTINCT proname::text FROM functions WHERE proparallel <> 's'$$,
    ARRAY['idgen_create_namespace', 'idgen_retire_namespace', 'idgen_guard',
    'idgen_alter_namespace', 'idgen_allow', 'idgen_disallow', 'idgen_activate', 'idgen_acquire_grant', 'idgen_deactivate',
    'idgen_end_incarnation', 'idgen_adopt_namespace', 'idgen_hand_over_namespace', 'idgen_fence_namespace', 'idgen_confirm_clock', 'idgen_stat_reset',
    'idgen_adopt_column', 'idgen_check_columns', 'idgen_stat_counters', 'idgen_stat_cursors', 'idgen_stat_authority_process'],
    'functions that issue or decode are parallel safe, and those that change or watch are not');
SELECT set_eq($$SELECT proname::text FROM functions WHERE proparallel = 'r'$$,
    ARRAY['idgen_stat_counters', 'idgen_stat_cursors', 'idgen_stat_authority_process'],
    'functions of statistics are parallel restricted, so a query reads them once');
SELECT is_empty($$SELECT signature FROM functions WHERE proisstrict AND pronargs > 0$$,
    'no function with arguments is strict, so a NULL namespace is an error');
SELECT set_eq($$SELECT signature FROM functions WHERE prosecdef$$, ARRAY['idgen_trace(bigint,text)'],
    'only idgen_trace() runs with the rights of its owner');
SELECT is((SELECT proconfig FROM functions WHERE proname = 'idgen_trace'), ARRAY['search_path=pg_catalog, pg_temp'],
    'idgen_trace() has its search path pinned');
SELECT ok((SELECT prosqlbody IS NOT NULL AND lanname = 'sql' FROM functions p JOIN pg_language l ON l.oid = prolang WHERE proname = 'idgen_trace'),
    'idgen_trace() has a parsed body, which names nothing by text');
SELECT is_empty($$SELECT signature FROM functions p JOIN pg_language l ON l.oid = prolang WHERE lanname <> 'c' AND proname <> 'idgen_trace'$$,
    'all functions but idgen_trace() are in C');
SELECT set_eq($$SELECT proname::text FROM functions p WHERE NOT has_function_privilege('public', p.oid, 'EXECUTE')$$,
    ARRAY['idgen_create_namespace', 'idgen_guard', 'idgen_confirm_clock', 'idgen_stat_reset', 'idgen_trace',
    'idgen_stat_counters', 'idgen_stat_cursors', 'idgen_stat_authority_process'],
    'exactly these functions are revoked from PUBLIC');
SELECT set_eq($$SELECT format('%s %s %s %s', proname, a.grantee::regrole, a.privilege_type, a.is_grantable)
    FROM functions, aclexplode(proacl) a WHERE a.grantee NOT IN (0, proowner)$$,
    ARRAY['idgen_trace pg_monitor EXECUTE f', 'idgen_stat_counters pg_monitor EXECUTE f', 'idgen_stat_cursors pg_monitor EXECUTE f',
    'idgen_stat_authority_process pg_monitor EXECUTE f'],
    'pg_monitor may execute the functions of monitoring, and no other role was granted a function');

-- Tables.
SELECT set_eq($$SELECT relname::text FROM tables$$,
    ARRAY['idgen_namespace', 'idgen_floor', 'idgen_worker', 'idgen_authority', 'idgen_incarnation', 'idgen_grant', 'idgen_checksum'],
    'the extension has exactly these tables');
SELECT is_empty($$SELECT relname FROM tables WHERE relpersistence <> 'p' OR relkind <> 'r'$$,
    'all tables are ordinary logged tables');
SELECT set_eq($$SELECT format('%s %s %s %s', relname, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, a.privilege_type, a.is_grantable)
    FROM tables, aclexplode(relacl) a WHERE a.grantee <> relowner$$,
    ARRAY['idgen_namespace PUBLIC SELECT f', 'idgen_floor PUBLIC SELECT f', 'idgen_worker PUBLIC SELECT f',
    'idgen_namespace pg_database_owner INSERT f', 'idgen_floor pg_database_owner INSERT f', 'idgen_worker pg_database_owner INSERT f'],
    'everybody reads what is dumped, the owner of the database inserts it, and no other role but the owner has a privilege on a table');
SELECT is_empty($$SELECT relname FROM tables WHERE relnamespace <> '_idgen'::regnamespace$$,
    'all tables are in schema _idgen');
SELECT set_eq($$SELECT pg_describe_object(classid, objid, 0) FROM members JOIN pg_namespace n ON classid = 'pg_namespace'::regclass AND objid = n.oid$$,
    ARRAY['schema _idgen'], 'the extension has exactly this schema');
SELECT set_eq($$SELECT format('%s %s %s', CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, a.privilege_type, a.is_grantable)
    FROM pg_namespace, aclexplode(nspacl) a WHERE nspname = '_idgen' AND a.grantee <> nspowner$$,
    ARRAY['PUBLIC USAGE f'], 'everybody may use the schema of the tables, and only its owner may create there');
SELECT set_eq($$SELECT relname::text FROM tables WHERE oid = ANY ((SELECT extconfig FROM pg_extension WHERE extname = 'idgen')::oid[])$$,
    ARRAY['idgen_namespace', 'idgen_floor', 'idgen_worker'],
    'namespaces, floors and marks are dumped, and identities, grants, incarnations and checksums are not');
SELECT is((SELECT array_agg(DISTINCT x) FROM pg_extension, unnest(extcondition) x WHERE extname = 'idgen'), ARRAY[''],
    'all rows of dumped tables are dumped');

-- Views.
SELECT set_eq($$SELECT relname::text FROM views$$, ARRAY['idgen_stat_namespace', 'idgen_stat_cursor', 'idgen_stat_authority', 'idgen_stat_role'],
    'the extension has exactly these views');
SELECT set_eq($$SELECT format('%s %s %s %s', relname, a.grantee::regrole, a.privilege_type, a.is_grantable) FROM views, aclexplode(relacl) a WHERE a.grantee <> relowner$$,
    ARRAY['idgen_stat_namespace pg_monitor SELECT f', 'idgen_stat_cursor pg_monitor SELECT f', 'idgen_stat_authority pg_monitor SELECT f', 'idgen_stat_role pg_monitor SELECT f'],
    'pg_monitor reads the views, and no other role but the owner does');
SELECT is_empty($$SELECT relname, column_name FROM views JOIN information_schema.columns ON table_schema = relnamespace::regnamespace::text AND table_name = relname
    WHERE column_name ~ '(token|hash|conn|address|boot|uuid)'$$, 'no view has a column that may hold a secret');

CREATE FUNCTION pg_temp.columns(t regclass) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN '!' ELSE '' END, ', ' ORDER BY attnum)
    FROM pg_attribute WHERE attrelid = t AND attnum > 0 AND NOT attisdropped $$;
SELECT is(pg_temp.columns('_idgen.idgen_namespace'), 'name text!, kind text!, timestamp_bits integer!, worker_bits integer!, sequence_bits integer!, '
    'epoch_ms bigint!, tick_ms bigint!, horizon_ms bigint!, grant_interval_ms bigint!, run_ahead_ms bigint!, first_worker integer!, '
    'last_worker integer!, durability text!, promotion text!, restricted boolean!, issuing boolean!, retired boolean!, owner text!, issue_roles text[]!, acquire_roles text[]!, split_parts integer!, lineage uuid!, handed_over boolean!, ticket uuid!, ticket_id bigint!',
    '_idgen.idgen_namespace has exactly these columns');
SELECT is(pg_temp.columns('_idgen.idgen_floor'), 'namespace text!, floor bigint!, external_end bigint!',
    '_idgen.idgen_floor has exactly these columns');
SELECT is(pg_temp.columns('_idgen.idgen_worker'), 'namespace text!, worker integer!, high_water bigint!, incarnation bigint',
    '_idgen.idgen_worker has exactly these columns');
SELECT is(pg_temp.columns('_idgen.idgen_authority'), 'namespace text!, uuid uuid!, format text!, split_modulus integer!, split_remainder integer!, '
    'system_identifier bigint!, database oid!, timeline bigint!, control_inode bigint!, control_birth bigint!, version_inode bigint!, '
    'version_birth bigint!, recorded_at timestamp with time zone!, last_clock bigint!, worker_count bigint!, mark_sum numeric!',
    '_idgen.idgen_authority has exactly these columns');
SELECT is(pg_temp.columns('_idgen.idgen_incarnation'), 'incarnation bigint!, namespace text!, worker integer!, kind text!, boot uuid, role text!, '
    'address inet, application text, activated_at timestamp with time zone!, token_hash bytea, state text!, ended_at timestamp with time zone, run_ahead_ms bigint',
    '_idgen.idgen_incarnation has exactly these columns');
SELECT is(pg_temp.columns('_idgen.idgen_grant'), 'namespace text!, worker integer!, start_tick bigint!, end_tick bigint!, grant_id bigint!, '
    'incarnation bigint!, granted_at timestamp with time zone!, request_id uuid, asked_ms bigint',
    '_idgen.idgen_grant has exactly these columns');
SELECT is(pg_temp.columns('_idgen.idgen_checksum'), 'namespace text!, row_hash bigint!',
    '_idgen.idgen_checksum has exactly these columns');
SELECT col_is_pk('_idgen', 'idgen_namespace', 'name', 'the primary key of _idgen.idgen_namespace is (name)');
SELECT col_is_pk('_idgen', 'idgen_floor', 'namespace', 'the primary key of _idgen.idgen_floor is (namespace)');
SELECT col_is_pk('_idgen', 'idgen_worker', ARRAY['namespace', 'worker'],
    'the primary key of _idgen.idgen_worker is (namespace, worker)');
SELECT col_is_pk('_idgen', 'idgen_authority', 'namespace', 'the primary key of _idgen.idgen_authority is (namespace)');
SELECT col_is_pk('_idgen', 'idgen_incarnation', 'incarnation', 'the primary key of _idgen.idgen_incarnation is (incarnation)');
SELECT col_is_pk('_idgen', 'idgen_grant', ARRAY['namespace', 'worker', 'start_tick'],
    'the primary key of _idgen.idgen_grant is (namespace, worker, start_tick)');
SELECT col_is_pk('_idgen', 'idgen_checksum', 'namespace', 'the primary key of _idgen.idgen_checksum is (namespace)');

SELECT is(pg_temp.columns('idgen_acquired'), 'worker integer, incarnation bigint, grant_id bigint, start_ms bigint, end_ms_exclusive bigint, format text',
    'idgen_acquired has exactly these columns');

SELECT is(replace(pg_temp.columns('idgen_stat_namespace'), 'workers integer', 'workers bigint'), 'namespace text, state text, durability text, promotion text, restricted boolean, owner text, ids bigint, batches bigint, '
    'tick_waits bigint, tick_wait_ms numeric, grant_waits bigint, grant_wait_ms numeric, lock_waits bigint, lock_wait_ms numeric, exhaustions bigint, spills bigint, '
    'clock_behind bigint, clock_behind_max_ms numeric, grants_missed bigint, grants bigint, grant_latency_avg_ms numeric, grant_latency_max_ms numeric, '
    'unconfirmed integer, rejections bigint, forks bigint, fences bigint, fenced_until timestamp with time zone, errors bigint, last_error text, last_error_at timestamp with time zone, '
    'workers bigint, workers_reserved bigint, workers_free bigint, field_ends timestamp with time zone, stats_reset timestamp with time zone, refusals bigint, '
    'pauses bigint, pause_max_ms numeric, ticks bigint, tick_ids bigint, grants_ahead bigint, holder_waits bigint, holder_wait_ms numeric, holder_wait_max_ms numeric',
    'idgen_stat_namespace has exactly these columns');
SELECT is(pg_temp.columns('idgen_stat_cursor'), 'database name, namespace text, worker integer, incarnation bigint, ids bigint, last_tick timestamp with time zone, '
    'sequence_used bigint, granted_until timestamp with time zone, runway_ms bigint',
    'idgen_stat_cursor has exactly these columns');
SELECT is(pg_temp.columns('idgen_stat_authority'), 'pid integer, started timestamp with time zone, last_round timestamp with time zone, rounds bigint, grants bigint, '
    'requests_waiting integer, cursors_in_use integer, cursors_free integer, standby boolean, fsync boolean, clock_synchronised boolean, clock_offset_us bigint, '
    'clock_max_error_us bigint, clock text, clock_step_ms bigint, clock_steps_back bigint, clock_steps_forward bigint, clock_largest_step_ms bigint, cursors_taken bigint, pauses bigint, pause_max_ms bigint, grant_bytes bigint, incarnations_active bigint',
    'idgen_stat_authority has exactly these columns');

SELECT is(pg_temp.columns('idgen_stat_role'), 'namespace text, role text, workers bigint, workers_max bigint, all_workers bigint, all_workers_max bigint',
    'idgen_stat_role has exactly these columns');

-- Every table has its guards, which fire always.
SELECT is((SELECT count(*) FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid JOIN functions f ON f.oid = g.tgfoid
    WHERE f.proname = 'idgen_guard' AND g.tgenabled = 'A'), 14::bigint, 'two guards on each table fire always [S3]');

-- Everything has a comment and one owner. Types that come with a table or a type are members, too, since PostgreSQL 17.
SELECT is_empty($$SELECT pg_describe_object(classid, objid, 0) FROM members LEFT JOIN pg_type t ON classid = 'pg_type'::regclass AND t.oid = objid
    WHERE (classid IN ('pg_proc'::regclass, 'pg_class'::regclass) OR typrelid = 0 AND typcategory <> 'A' OR typrelid IN (SELECT oid FROM pg_class WHERE relkind = 'c'))
        AND obj_description(objid, classid::regclass::name) IS NULL$$, 'every object has a comment');
SELECT is_empty($$SELECT signature FROM functions WHERE obj_description(oid, 'pg_proc') !~ '^idgen: '
    UNION SELECT relname FROM views WHERE obj_description(oid, 'pg_class') !~ '^idgen: '$$,
    'the comment of every function and view begins with "idgen: "');
SELECT ok(obj_description((SELECT oid FROM pg_extension WHERE extname = 'idgen'), 'pg_extension') IS NOT NULL,
    'the extension has a comment');
SELECT is_empty($$SELECT signature FROM functions WHERE proowner <> (SELECT extowner FROM pg_extension WHERE extname = 'idgen')
    UNION SELECT relname FROM tables WHERE relowner <> (SELECT extowner FROM pg_extension WHERE extname = 'idgen')
    UNION SELECT relname FROM views WHERE relowner <> (SELECT extowner FROM pg_extension WHERE extname = 'idgen')$$,
    'the owner of the extension owns all its functions, tables and views');

-- Settings.
SELECT set_eq($$SELECT format('%s %s%s %s', name, boot_val, unit, context) FROM pg_settings WHERE name LIKE 'idgen.%'$$,
    ARRAY['idgen.grant_retention 604800s sighup', 'idgen.idle_timeout 60000ms sighup', 'idgen.max_batch 1000000 superuser', 'idgen.max_clock_error 5000ms sighup',
    'idgen.max_clock_step 5000ms sighup', 'idgen.max_cursors 1024 postmaster', 'idgen.max_workers_per_namespace 16 sighup', 'idgen.on_copied_authority refuse sighup', 'idgen.wait_timeout 5000ms user'],
    'the settings have exactly these defaults and contexts');
SELECT is_empty($$SELECT name FROM pg_settings WHERE name LIKE 'idgen.%' AND coalesce(short_desc, '') = ''$$,
    'every setting has a description');
SELECT * FROM finish();
ROLLBACK;
