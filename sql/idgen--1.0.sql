/* sql/idgen--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION idgen" to load this file. \quit

-- CREATE EXTENSION puts the extension's schema into the search path, and another role may have made
-- an operator or a function there that fits better than PostgreSQL's own.  From here on only
-- PostgreSQL's are found.  Views and function bodies name theirs in full besides, and call
-- functions of this script with arguments of exactly their types, which no other function fits
-- better.  The path is set back when CREATE EXTENSION ends.
SET LOCAL search_path TO pg_catalog, pg_temp;

--
-- The authority's tables.  Only idgen writes them: guards refuse everybody
-- else, the owner included, and the authority refuses to grant from tables
-- that are not as they are made here (see src/catalog/tables.c, which lists them).
--

CREATE TABLE @extschema@.idgen_namespace (
    name              text COLLATE pg_catalog."C" PRIMARY KEY,
    kind              text NOT NULL,
    timestamp_bits    integer NOT NULL,
    worker_bits       integer NOT NULL,
    sequence_bits     integer NOT NULL,
    epoch_ms          bigint NOT NULL,
    tick_ms           bigint NOT NULL,
    horizon_ms        bigint NOT NULL,
    grant_interval_ms bigint NOT NULL,
    run_ahead_ms      bigint NOT NULL,
    first_worker      integer NOT NULL,
    last_worker       integer NOT NULL,
    durability        text NOT NULL,
    promotion         text NOT NULL,
    restricted        boolean NOT NULL,
    issuing           boolean NOT NULL,
    retired           boolean NOT NULL,
    owner             text NOT NULL,
    issue_roles       text[] NOT NULL,
    acquire_roles     text[] NOT NULL,
    split_parts       integer NOT NULL,
    lineage           uuid NOT NULL
);

CREATE TABLE @extschema@.idgen_floor (
    namespace    text COLLATE pg_catalog."C" PRIMARY KEY,
    floor        bigint NOT NULL,
    external_end bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE @extschema@.idgen_worker (
    namespace   text COLLATE pg_catalog."C",
    worker      integer,
    high_water  bigint NOT NULL,
    incarnation bigint,
    PRIMARY KEY (namespace, worker)
) WITH (fillfactor = 50);

CREATE TABLE @extschema@.idgen_authority (
    namespace         text COLLATE pg_catalog."C" PRIMARY KEY,
    uuid              uuid NOT NULL,
    format            text NOT NULL,
    split_modulus     integer NOT NULL,
    split_remainder   integer NOT NULL,
    system_identifier bigint NOT NULL,
    database          oid NOT NULL,
    timeline          bigint NOT NULL,
    control_inode     bigint NOT NULL,
    control_birth     bigint NOT NULL,
    version_inode     bigint NOT NULL,
    version_birth     bigint NOT NULL,
    recorded_at       timestamp with time zone NOT NULL,
    last_clock        bigint NOT NULL,
    worker_count      bigint NOT NULL,
    mark_sum          numeric NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE @extschema@.idgen_incarnation (
    incarnation  bigint PRIMARY KEY,
    namespace    text COLLATE pg_catalog."C" NOT NULL,
    worker       integer NOT NULL,
    kind         text NOT NULL,
    boot         uuid,
    role         text NOT NULL,
    address      inet,
    application  text,
    activated_at timestamp with time zone NOT NULL,
    token_hash   bytea,
    state        text NOT NULL,
    ended_at     timestamp with time zone,
    run_ahead_ms bigint
);

CREATE TABLE @extschema@.idgen_grant (
    namespace   text COLLATE pg_catalog."C",
    worker      integer,
    start_tick  bigint,
    end_tick    bigint NOT NULL,
    grant_id    bigint NOT NULL,
    incarnation bigint NOT NULL,
    granted_at  timestamp with time zone NOT NULL,
    request_id  uuid,
    asked_ms    bigint,
    PRIMARY KEY (namespace, worker, start_tick)
);

COMMENT ON TABLE @extschema@.idgen_namespace IS
'idgen: ID spaces. The format columns never change; name is the format label, lineage tells two of one name apart. Written only by idgen functions';
COMMENT ON TABLE @extschema@.idgen_floor IS
'idgen: per namespace, a tick below which no worker is granted anything; raised only by fence, adoption, promotion, restore, or where a new namespace begins after a dropped one; external_end: the tick before which every grant of an external generator ends, which only rises';
COMMENT ON TABLE @extschema@.idgen_worker IS
'idgen: per worker number ever used, the end of everything ever granted (in ticks) and the incarnation granted last';
COMMENT ON TABLE @extschema@.idgen_authority IS
'idgen: which server and database grants from here, per namespace, and what its marks add up to; never dumped, so that a copy is noticed';
COMMENT ON TABLE @extschema@.idgen_incarnation IS
'idgen: every activation of a generator, and who asked for it';
COMMENT ON TABLE @extschema@.idgen_grant IS
'idgen: every grant, the half-open interval [start_tick, end_tick) of one worker and one incarnation';

REVOKE ALL ON @extschema@.idgen_namespace, @extschema@.idgen_floor,
    @extschema@.idgen_worker, @extschema@.idgen_authority,
    @extschema@.idgen_incarnation, @extschema@.idgen_grant FROM PUBLIC;

SELECT pg_catalog.pg_extension_config_dump('@extschema@.idgen_namespace'::pg_catalog.regclass, ''::pg_catalog.text);
SELECT pg_catalog.pg_extension_config_dump('@extschema@.idgen_floor'::pg_catalog.regclass, ''::pg_catalog.text);
SELECT pg_catalog.pg_extension_config_dump('@extschema@.idgen_worker'::pg_catalog.regclass, ''::pg_catalog.text);

CREATE FUNCTION @extschema@.idgen_guard()
RETURNS trigger
AS 'MODULE_PATHNAME', 'idgen_guard'
LANGUAGE C;
COMMENT ON FUNCTION @extschema@.idgen_guard() IS
'idgen: refuses changes to the authority''s tables from outside (55000), merges the rows that their owner or a superuser restores by maximum (42501 for others), ignores what a subscription applies';
REVOKE ALL ON FUNCTION @extschema@.idgen_guard() FROM PUBLIC;

CREATE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE
    ON @extschema@.idgen_namespace
    FOR EACH ROW EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE
    ON @extschema@.idgen_namespace
    FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE
    ON @extschema@.idgen_floor
    FOR EACH ROW EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE
    ON @extschema@.idgen_floor
    FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE
    ON @extschema@.idgen_worker
    FOR EACH ROW EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE
    ON @extschema@.idgen_worker
    FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE
    ON @extschema@.idgen_authority
    FOR EACH ROW EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE
    ON @extschema@.idgen_authority
    FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE
    ON @extschema@.idgen_incarnation
    FOR EACH ROW EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE
    ON @extschema@.idgen_incarnation
    FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE
    ON @extschema@.idgen_grant
    FOR EACH ROW EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE
    ON @extschema@.idgen_grant
    FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.idgen_guard();

ALTER TABLE @extschema@.idgen_namespace ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE @extschema@.idgen_namespace ENABLE ALWAYS TRIGGER idgen_guard_truncate;
ALTER TABLE @extschema@.idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE @extschema@.idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_truncate;
ALTER TABLE @extschema@.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE @extschema@.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_truncate;
ALTER TABLE @extschema@.idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE @extschema@.idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_truncate;
ALTER TABLE @extschema@.idgen_incarnation ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE @extschema@.idgen_incarnation ENABLE ALWAYS TRIGGER idgen_guard_truncate;
ALTER TABLE @extschema@.idgen_grant ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE @extschema@.idgen_grant ENABLE ALWAYS TRIGGER idgen_guard_truncate;

--
-- Issuing.  Not STRICT: a NULL namespace is an error, never a NULL id.
--

CREATE FUNCTION @extschema@.idgen_next(namespace text DEFAULT 'default')
RETURNS bigint
AS 'MODULE_PATHNAME', 'idgen_next'
LANGUAGE C VOLATILE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION @extschema@.idgen_next(text) IS
'idgen: a new unique, positive, time-sorted 64-bit ID; waits at most idgen.wait_timeout. Errors: IG001 not_yet_valid, IG002 grant_exhausted, IG003 capacity_exhausted, IG004 clock_error, IG005 unavailable, IG006 namespace_exhausted, IG007 authority_unconfirmed, IG008 incarnation_rejected, IG009 namespace_retired';

CREATE FUNCTION @extschema@.idgen_next_batch(count integer, namespace text DEFAULT 'default')
RETURNS SETOF bigint
AS 'MODULE_PATHNAME', 'idgen_next_batch'
LANGUAGE C VOLATILE PARALLEL SAFE COST 1 ROWS 1000;
COMMENT ON FUNCTION @extschema@.idgen_next_batch(integer, text) IS
'idgen: exactly count new IDs, ascending, or an error; at most idgen.max_batch, 0 gives none';

CREATE FUNCTION @extschema@.idgen_next_json(namespace text DEFAULT 'default')
RETURNS jsonb
AS 'MODULE_PATHNAME', 'idgen_next_json'
LANGUAGE C VOLATILE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION @extschema@.idgen_next_json(text) IS
'idgen: a new ID as {"id": "<digits>", "format": "<namespace>"}; a string, because JavaScript rounds numbers above 2^53';

--
-- Reading IDs.  STABLE: the format is looked up by name.
--

CREATE FUNCTION @extschema@.idgen_decode(id bigint, namespace text DEFAULT 'default',
    OUT format text, OUT "timestamp" timestamp with time zone, OUT tick bigint,
    OUT worker integer, OUT sequence integer)
RETURNS record
AS 'MODULE_PATHNAME', 'idgen_decode'
LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION @extschema@.idgen_decode(bigint, text) IS
'idgen: takes an ID apart; timestamp is the beginning of its tick. 22003 if the number is not an ID of the format, NULL for NULL';

CREATE FUNCTION @extschema@.idgen_decode(id text, namespace text DEFAULT 'default',
    OUT format text, OUT "timestamp" timestamp with time zone, OUT tick bigint,
    OUT worker integer, OUT sequence integer)
RETURNS record
AS 'MODULE_PATHNAME', 'idgen_decode_text'
LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION @extschema@.idgen_decode(text, text) IS
'idgen: takes an ID written in decimal digits apart; 22P02 for anything but digits';

CREATE FUNCTION @extschema@.idgen_encode(tick bigint, worker integer, sequence integer,
    namespace text DEFAULT 'default')
RETURNS bigint
AS 'MODULE_PATHNAME', 'idgen_encode'
LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION @extschema@.idgen_encode(bigint, integer, integer, text) IS
'idgen: puts an ID together, for diagnostics; 22003 for a part that does not fit, and for (0,0,0)';

CREATE FUNCTION @extschema@.idgen_timestamp(id bigint, namespace text DEFAULT 'default')
RETURNS timestamp with time zone
AS 'MODULE_PATHNAME', 'idgen_timestamp'
LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION @extschema@.idgen_timestamp(bigint, text) IS
'idgen: the beginning of the tick of an ID';

CREATE FUNCTION @extschema@.idgen_lower_bound(ts timestamp with time zone,
    namespace text DEFAULT 'default')
RETURNS bigint
AS 'MODULE_PATHNAME', 'idgen_lower_bound'
LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION @extschema@.idgen_lower_bound(timestamp with time zone, text) IS
'idgen: the smallest ID a tick at or after ts can carry, for id >= lower_bound(a) AND id < lower_bound(b); 0 before the epoch, 2^63-1 past the field';

CREATE FUNCTION @extschema@.idgen_format(namespace text DEFAULT 'default')
RETURNS jsonb
AS 'MODULE_PATHNAME', 'idgen_format'
LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION @extschema@.idgen_format(text) IS
'idgen: format, kind, epoch_ms (Unix), tick_ms, timestamp_bits, worker_bits, sequence_bits, horizon_ms; enough to decode elsewhere. lineage: which ID space of that name it is';

--
-- Namespaces.
--

CREATE FUNCTION @extschema@.idgen_create_namespace(name text,
    timestamp_bits integer DEFAULT 41, worker_bits integer DEFAULT 10,
    sequence_bits integer DEFAULT 12,
    epoch timestamp with time zone DEFAULT '2025-01-01 00:00:00+00',
    tick_ms integer DEFAULT 1, grant_interval interval DEFAULT '1 s',
    horizon interval DEFAULT '10 s', first_worker integer DEFAULT 0,
    last_worker integer DEFAULT NULL, durability text DEFAULT 'local',
    promotion text DEFAULT NULL, run_ahead interval DEFAULT '0',
    restricted boolean DEFAULT false, issuing boolean DEFAULT true)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_create_namespace'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_create_namespace(text, integer, integer, integer,
    timestamp with time zone, integer, interval, interval, integer, integer, text, text,
    interval, boolean, boolean) IS
'idgen: creates an ID space; its format never changes. Widths sum to at most 63; tick <= grant_interval <= horizon <= 1 h. 22023 for what does not fit, 42710 if the name is taken';
REVOKE ALL ON FUNCTION @extschema@.idgen_create_namespace(text, integer, integer, integer,
    timestamp with time zone, integer, interval, interval, integer, integer, text, text,
    interval, boolean, boolean) FROM PUBLIC;

CREATE FUNCTION @extschema@.idgen_retire_namespace(name text)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_retire_namespace'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_retire_namespace(text) IS
'idgen: ends a namespace for ever, at once and whatever the calling transaction does: no more IDs, decoding stays, the name is taken. Only its owner (42501)';

--
-- Policy, privileges and external generators.
--

CREATE FUNCTION @extschema@.idgen_alter_namespace(name text,
    grant_interval interval DEFAULT NULL, durability text DEFAULT NULL,
    promotion text DEFAULT NULL, run_ahead interval DEFAULT NULL,
    restricted boolean DEFAULT NULL, owner regrole DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_alter_namespace'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_alter_namespace(text, interval, text, text, interval,
    boolean, regrole) IS
'idgen: changes the policy of a namespace, never its format. split is chosen or given up until the first grant, with durability local (22023); trust needs quorum, committed before (22023, 55000)';

CREATE FUNCTION @extschema@.idgen_allow(namespace text, grantee regrole, privilege text)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_allow'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_allow(text, regrole, text) IS
'idgen: gives a role the privilege issue or acquire on a namespace';

CREATE FUNCTION @extschema@.idgen_disallow(namespace text, grantee regrole, privilege text)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_disallow'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_disallow(text, regrole, text) IS
'idgen: takes the privilege issue or acquire back';

CREATE FUNCTION @extschema@.idgen_activate(namespace text DEFAULT 'default',
    OUT worker integer, OUT incarnation bigint, OUT grant_id bigint, OUT start_ms bigint,
    OUT end_ms_exclusive bigint, OUT format text, OUT token text)
RETURNS record
AS 'MODULE_PATHNAME', 'idgen_activate'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_activate(text) IS
'idgen: a fresh incarnation for an external generator, with its first grant. Errors as of idgen_next; needs the privilege acquire (42501)';

CREATE TYPE @extschema@.idgen_acquired AS (worker integer, incarnation bigint,
    grant_id bigint, start_ms bigint, end_ms_exclusive bigint, format text);
COMMENT ON TYPE @extschema@.idgen_acquired IS
'idgen: a grant of an external generator; milliseconds count from the epoch of the namespace';

CREATE FUNCTION @extschema@.idgen_acquire_grant(namespace text, incarnation bigint,
    request_id uuid, token text, after_grant bigint, length interval DEFAULT NULL)
RETURNS @extschema@.idgen_acquired
AS 'MODULE_PATHNAME', 'idgen_acquire_grant'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_acquire_grant(text, bigint, uuid, text, bigint, interval) IS
'idgen: the next grant of an incarnation; a request id that was answered gets the same grant again, or 22023 with another length';

CREATE FUNCTION @extschema@.idgen_deactivate(incarnation bigint, token text)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_deactivate'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_deactivate(bigint, text) IS
'idgen: an external generator ends its incarnation; its worker is free again when its last grant ends';

CREATE FUNCTION @extschema@.idgen_end_incarnation(incarnation bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_end_incarnation'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_end_incarnation(bigint) IS
'idgen: the owner of a namespace ends somebody else''s incarnation';

CREATE FUNCTION @extschema@.idgen_adopt_namespace(name text, above bigint DEFAULT NULL,
    first_worker integer DEFAULT NULL, last_worker integer DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_adopt_namespace'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_adopt_namespace(text, bigint, integer, integer) IS
'idgen: an operator''s word that the original of a copied authority never issues again, or keeps to other workers. Fences, at once, whatever the calling transaction does';

CREATE FUNCTION @extschema@.idgen_fence_namespace(name text, above bigint DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_fence_namespace'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_fence_namespace(text, bigint) IS
'idgen: moves all that will be issued past what a lost copy of the authority can have granted, and past the ID above; at once, whatever the calling transaction does. Ends every incarnation';

CREATE FUNCTION @extschema@.idgen_confirm_clock()
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_confirm_clock'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_confirm_clock() IS
'idgen: an operator''s word that the clock of this server is right as it is now, after a step. At once, for all databases, whatever the calling transaction does';
REVOKE ALL ON FUNCTION @extschema@.idgen_confirm_clock() FROM PUBLIC;

--
-- Audit and watching.  Readable by pg_monitor.
--

CREATE FUNCTION @extschema@.idgen_trace(id bigint, namespace text DEFAULT 'default',
    OUT grant_id bigint, OUT worker integer, OUT granted_from timestamp with time zone,
    OUT granted_until timestamp with time zone, OUT granted_at timestamp with time zone,
    OUT incarnation bigint, OUT kind text, OUT role text, OUT address inet,
    OUT application text, OUT activated_at timestamp with time zone, OUT state text)
RETURNS SETOF record
LANGUAGE sql STABLE PARALLEL SAFE ROWS 1
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT g.grant_id, g.worker,
        pg_catalog.to_timestamp((n.epoch_ms::pg_catalog.numeric
            OPERATOR(pg_catalog.+) (g.start_tick::pg_catalog.numeric OPERATOR(pg_catalog.*) n.tick_ms)) OPERATOR(pg_catalog./) 1000.0),
        pg_catalog.to_timestamp((n.epoch_ms::pg_catalog.numeric
            OPERATOR(pg_catalog.+) (g.end_tick::pg_catalog.numeric OPERATOR(pg_catalog.*) n.tick_ms)) OPERATOR(pg_catalog./) 1000.0),
        g.granted_at, g.incarnation, i.kind, i.role, i.address, i.application,
        i.activated_at, i.state
    FROM @extschema@.idgen_decode($1, $2) d
    JOIN @extschema@.idgen_namespace n ON n.name OPERATOR(pg_catalog.=) $2
    JOIN @extschema@.idgen_grant g ON g.namespace OPERATOR(pg_catalog.=) $2 AND g.worker OPERATOR(pg_catalog.=) d.worker
        AND g.start_tick OPERATOR(pg_catalog.<=) d.tick AND g.end_tick OPERATOR(pg_catalog.>) d.tick
    LEFT JOIN @extschema@.idgen_incarnation i ON i.incarnation OPERATOR(pg_catalog.=) g.incarnation;
END;
COMMENT ON FUNCTION @extschema@.idgen_trace(bigint, text) IS
'idgen: the grant and incarnation an ID was reserved under, and who activated it; no row if that is no longer recorded, or was never granted here';
REVOKE ALL ON FUNCTION @extschema@.idgen_trace(bigint, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.idgen_trace(bigint, text) TO pg_monitor;

CREATE FUNCTION @extschema@.idgen_stat_counters(OUT namespace text, OUT ids bigint,
    OUT batches bigint, OUT tick_waits bigint, OUT tick_wait_us bigint,
    OUT grant_waits bigint, OUT grant_wait_us bigint, OUT lock_waits bigint,
    OUT lock_wait_us bigint, OUT exhaustions bigint, OUT spills bigint,
    OUT clock_behind bigint, OUT clock_behind_max_us bigint, OUT grants_missed bigint,
    OUT grants bigint, OUT grant_latency_us bigint, OUT grant_latency_max_us bigint,
    OUT rejections bigint, OUT forks bigint, OUT fences bigint, OUT errors bigint,
    OUT refusals bigint,
    OUT pauses bigint, OUT pause_max_us bigint, OUT grants_ahead bigint, OUT holder_waits bigint,
    OUT holder_wait_us bigint, OUT holder_wait_max_us bigint, OUT last_error text, OUT last_error_at timestamp with time zone,
    OUT stats_reset timestamp with time zone, OUT copied boolean, OUT unconfirmed integer,
    OUT ticks bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'idgen_stat_counters'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.idgen_stat_counters() IS
'idgen: counters of the namespaces of this database used since the server started; see view idgen_stat_namespace';

CREATE FUNCTION @extschema@.idgen_stat_cursors(OUT database oid, OUT namespace text,
    OUT uuid uuid, OUT worker integer, OUT incarnation bigint, OUT ids bigint,
    OUT last_tick timestamp with time zone, OUT sequence_used bigint,
    OUT granted_until timestamp with time zone, OUT runway_ms bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'idgen_stat_cursors'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.idgen_stat_cursors() IS
'idgen: the cursors of this server, of all databases; see view idgen_stat_cursor';

CREATE FUNCTION @extschema@.idgen_stat_authority_process(OUT pid integer,
    OUT started timestamp with time zone, OUT last_round timestamp with time zone,
    OUT rounds bigint, OUT grants bigint, OUT requests_waiting integer,
    OUT cursors_in_use integer, OUT cursors_free integer, OUT standby boolean,
    OUT fsync boolean, OUT clock_synchronised boolean, OUT clock_offset_us bigint,
    OUT clock_max_error_us bigint, OUT clock text, OUT clock_step_ms bigint,
    OUT clock_steps_back bigint, OUT clock_steps_forward bigint,
    OUT clock_largest_step_ms bigint, OUT cursors_taken bigint, OUT pauses bigint,
    OUT pause_max_ms bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'idgen_stat_authority_process'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.idgen_stat_authority_process() IS
'idgen: the authority process of this database, and this server; see view idgen_stat_authority';

REVOKE ALL ON FUNCTION @extschema@.idgen_stat_counters(), @extschema@.idgen_stat_cursors(),
    @extschema@.idgen_stat_authority_process() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.idgen_stat_counters(), @extschema@.idgen_stat_cursors(),
    @extschema@.idgen_stat_authority_process() TO pg_monitor;

CREATE VIEW @extschema@.idgen_stat_namespace AS
SELECT n.name AS namespace,
    CASE WHEN n.retired THEN 'retired' WHEN NOT n.issuing THEN 'decoding'
        WHEN a.namespace IS NULL OR c.copied THEN 'copied'
        WHEN (t.now_tick OPERATOR(pg_catalog.>>) n.timestamp_bits) OPERATOR(pg_catalog.>) 0 THEN 'exhausted'
        WHEN f.floor OPERATOR(pg_catalog.>) t.now_tick THEN 'fenced' ELSE 'issuing' END AS state,
    n.durability, n.promotion, n.restricted, n.owner,
    coalesce(c.ids, 0) AS ids, coalesce(c.batches, 0) AS batches,
    coalesce(c.tick_waits, 0) AS tick_waits, pg_catalog.round(coalesce(c.tick_wait_us, 0) OPERATOR(pg_catalog./) 1000.0, 3) AS tick_wait_ms,
    coalesce(c.grant_waits, 0) AS grant_waits, pg_catalog.round(coalesce(c.grant_wait_us, 0) OPERATOR(pg_catalog./) 1000.0, 3) AS grant_wait_ms,
    coalesce(c.lock_waits, 0) AS lock_waits, pg_catalog.round(coalesce(c.lock_wait_us, 0) OPERATOR(pg_catalog./) 1000.0, 3) AS lock_wait_ms,
    coalesce(c.exhaustions, 0) AS exhaustions, coalesce(c.spills, 0) AS spills,
    coalesce(c.clock_behind, 0) AS clock_behind,
    pg_catalog.round(coalesce(c.clock_behind_max_us, 0) OPERATOR(pg_catalog./) 1000.0, 3) AS clock_behind_max_ms,
    coalesce(c.grants_missed, 0) AS grants_missed, coalesce(c.grants, 0) AS grants,
    CASE WHEN c.grants OPERATOR(pg_catalog.>) 0 THEN
        pg_catalog.round((c.grant_latency_us OPERATOR(pg_catalog./) 1000.0) OPERATOR(pg_catalog./) c.grants, 3) END AS grant_latency_avg_ms,
    pg_catalog.round(coalesce(c.grant_latency_max_us, 0) OPERATOR(pg_catalog./) 1000.0, 3) AS grant_latency_max_ms,
    coalesce(c.unconfirmed, 0) AS unconfirmed,
    coalesce(c.rejections, 0) AS rejections, coalesce(c.forks, 0) AS forks,
    coalesce(c.fences, 0) AS fences,
    CASE WHEN f.floor OPERATOR(pg_catalog.>) t.now_tick THEN
        pg_catalog.to_timestamp(least((n.epoch_ms::pg_catalog.float8
            OPERATOR(pg_catalog.+) (f.floor::pg_catalog.float8 OPERATOR(pg_catalog.*) n.tick_ms::pg_catalog.float8))
            OPERATOR(pg_catalog./) 1000.0::pg_catalog.float8, 9e12::pg_catalog.float8)) END AS fenced_until,
    coalesce(c.errors, 0) AS errors, CASE WHEN c.last_error OPERATOR(pg_catalog.<>) '' THEN c.last_error END AS last_error, c.last_error_at,
    w.total AS workers, w.reserved AS workers_reserved, w.total OPERATOR(pg_catalog.-) w.reserved AS workers_free,
    CASE WHEN n.timestamp_bits OPERATOR(pg_catalog.<) 53 THEN pg_catalog.to_timestamp(least((n.epoch_ms::pg_catalog.float8
        OPERATOR(pg_catalog.+) (pg_catalog.power(2::pg_catalog.float8, n.timestamp_bits::pg_catalog.float8)
            OPERATOR(pg_catalog.*) n.tick_ms::pg_catalog.float8))
        OPERATOR(pg_catalog./) 1000.0::pg_catalog.float8, 9e12::pg_catalog.float8)) END AS field_ends,
    c.stats_reset, coalesce(c.refusals, 0) AS refusals,
    coalesce(c.pauses, 0) AS pauses, pg_catalog.round(coalesce(c.pause_max_us, 0) OPERATOR(pg_catalog./) 1000.0, 3) AS pause_max_ms,
    coalesce(c.ticks, 0) AS ticks, 1::bigint OPERATOR(pg_catalog.<<) n.sequence_bits AS tick_ids,
    coalesce(c.grants_ahead, 0) AS grants_ahead, coalesce(c.holder_waits, 0) AS holder_waits,
    pg_catalog.round(coalesce(c.holder_wait_us, 0) OPERATOR(pg_catalog./) 1000.0, 3) AS holder_wait_ms,
    pg_catalog.round(coalesce(c.holder_wait_max_us, 0) OPERATOR(pg_catalog./) 1000.0, 3) AS holder_wait_max_ms
FROM @extschema@.idgen_namespace n
LEFT JOIN @extschema@.idgen_floor f ON f.namespace OPERATOR(pg_catalog.=) n.name
LEFT JOIN @extschema@.idgen_authority a ON a.namespace OPERATOR(pg_catalog.=) n.name
LEFT JOIN @extschema@.idgen_stat_counters() c ON c.namespace OPERATOR(pg_catalog.=) n.name
CROSS JOIN LATERAL (SELECT pg_catalog.floor(((extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000)
        OPERATOR(pg_catalog.-) n.epoch_ms) OPERATOR(pg_catalog./) n.tick_ms)::bigint AS now_tick) t
CROSS JOIN LATERAL (SELECT
    (((n.last_worker::bigint OPERATOR(pg_catalog.-) a.split_remainder) OPERATOR(pg_catalog.+) a.split_modulus) OPERATOR(pg_catalog./) a.split_modulus)
        OPERATOR(pg_catalog.-) ((((n.first_worker::bigint OPERATOR(pg_catalog.-) a.split_remainder) OPERATOR(pg_catalog.+) a.split_modulus) OPERATOR(pg_catalog.-) 1)
            OPERATOR(pg_catalog./) a.split_modulus) AS total,
    (SELECT pg_catalog.count(*) FROM @extschema@.idgen_worker w
        WHERE w.namespace OPERATOR(pg_catalog.=) n.name AND w.high_water OPERATOR(pg_catalog.>) t.now_tick
        AND w.worker OPERATOR(pg_catalog.>=) n.first_worker AND w.worker OPERATOR(pg_catalog.<=) n.last_worker
        AND (w.worker OPERATOR(pg_catalog.%) a.split_modulus) OPERATOR(pg_catalog.=) a.split_remainder) AS reserved) w;
COMMENT ON VIEW @extschema@.idgen_stat_namespace IS
'idgen: one row per namespace of this database: state, what was issued and waited for since stats_reset, workers, how long the timestamp field lasts. last_error is an SQLSTATE';

CREATE VIEW @extschema@.idgen_stat_cursor AS
SELECT d.datname AS database, c.namespace, c.worker, c.incarnation, c.ids, c.last_tick,
    c.sequence_used, c.granted_until, c.runway_ms
FROM @extschema@.idgen_stat_cursors() c
LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) c.database;
COMMENT ON VIEW @extschema@.idgen_stat_cursor IS
'idgen: one row per cursor of this server; runway_ms is how long its grants last from now (negative: they are over)';

CREATE VIEW @extschema@.idgen_stat_authority AS
SELECT w.*, pg_catalog.pg_total_relation_size('@extschema@.idgen_grant'::pg_catalog.regclass) AS grant_bytes,
    (SELECT pg_catalog.count(*) FROM @extschema@.idgen_incarnation i
        WHERE i.state OPERATOR(pg_catalog.=) 'active') AS incarnations_active
FROM @extschema@.idgen_stat_authority_process() w;
COMMENT ON VIEW @extschema@.idgen_stat_authority IS
'idgen: one row: the authority process of this database (pid is null while none is needed), free cursors, kernel clock, fsync';

-- What idgen_external_workers_max() and idgen_external_role_max() say, in SQL: a worker is held until
-- its grant ends, also if its incarnation ended before.
CREATE VIEW @extschema@.idgen_stat_role AS
SELECT h.namespace, h.role, h.workers, greatest(m.all_max OPERATOR(pg_catalog./) 2, 1::bigint) AS workers_max,
    pg_catalog.sum(h.workers) OVER (PARTITION BY h.namespace)::bigint AS all_workers, m.all_max AS all_workers_max
FROM (SELECT n.name AS namespace, n.first_worker, n.last_worker, a.split_modulus, a.split_remainder, i.role,
        pg_catalog.count(*) AS workers
    FROM @extschema@.idgen_namespace n
    JOIN @extschema@.idgen_authority a ON a.namespace OPERATOR(pg_catalog.=) n.name
    JOIN @extschema@.idgen_worker w ON w.namespace OPERATOR(pg_catalog.=) n.name
        AND w.worker OPERATOR(pg_catalog.>=) n.first_worker AND w.worker OPERATOR(pg_catalog.<=) n.last_worker
        AND (w.worker OPERATOR(pg_catalog.%) a.split_modulus) OPERATOR(pg_catalog.=) a.split_remainder
        AND w.high_water OPERATOR(pg_catalog.>) pg_catalog.floor(((extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000)
            OPERATOR(pg_catalog.-) n.epoch_ms) OPERATOR(pg_catalog./) n.tick_ms)::bigint
    JOIN @extschema@.idgen_incarnation i ON i.incarnation OPERATOR(pg_catalog.=) w.incarnation
        AND i.kind OPERATOR(pg_catalog.=) 'external'
    GROUP BY n.name, n.first_worker, n.last_worker, a.split_modulus, a.split_remainder, i.role) h
CROSS JOIN LATERAL (SELECT
    (((h.last_worker::bigint OPERATOR(pg_catalog.-) h.split_remainder) OPERATOR(pg_catalog.+) h.split_modulus) OPERATOR(pg_catalog./) h.split_modulus)
        OPERATOR(pg_catalog.-) ((((h.first_worker::bigint OPERATOR(pg_catalog.-) h.split_remainder) OPERATOR(pg_catalog.+) h.split_modulus) OPERATOR(pg_catalog.-) 1)
            OPERATOR(pg_catalog./) h.split_modulus) AS total) t
CROSS JOIN LATERAL (SELECT greatest(t.total OPERATOR(pg_catalog.-) greatest(least(
    pg_catalog.current_setting('idgen.max_workers_per_namespace')::bigint, t.total OPERATOR(pg_catalog./) 4), 1::bigint),
    0::bigint) AS all_max) m;
COMMENT ON VIEW @extschema@.idgen_stat_role IS
'idgen: one row per namespace and role that has external generators: workers that they hold, the most that one role may hold, and both for all roles together';

GRANT SELECT ON @extschema@.idgen_stat_namespace, @extschema@.idgen_stat_cursor,
    @extschema@.idgen_stat_authority, @extschema@.idgen_stat_role TO pg_monitor;

CREATE FUNCTION @extschema@.idgen_stat_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_stat_reset'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_stat_reset() IS
'idgen: counts from zero again, for all namespaces of this database';
REVOKE ALL ON FUNCTION @extschema@.idgen_stat_reset() FROM PUBLIC;

SELECT @extschema@.idgen_create_namespace('default'::pg_catalog.text, 41, 10, 12,
    '2025-01-01 00:00:00+00'::pg_catalog.timestamptz, 1, '1 s'::pg_catalog.interval,
    '10 s'::pg_catalog.interval, 0, NULL::integer, 'local'::pg_catalog.text, NULL::pg_catalog.text,
    '0'::pg_catalog.interval, false, true);
