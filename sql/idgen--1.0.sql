/* sql/idgen--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION idgen" to load this file. \quit

--
-- The authority's tables.  Only idgen writes them: guards refuse everybody
-- else, the owner included, and the authority refuses to grant from tables
-- that are not as they are made here (see src/tables.c, which lists them).
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
    acquire_roles     text[] NOT NULL
);

CREATE TABLE @extschema@.idgen_floor (
    namespace text COLLATE pg_catalog."C" PRIMARY KEY,
    floor     bigint NOT NULL
);

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
    ended_at     timestamp with time zone
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
    PRIMARY KEY (namespace, worker, start_tick)
);

COMMENT ON TABLE @extschema@.idgen_namespace IS
'idgen: ID spaces. The format columns never change; name is the format label. Written only by idgen functions';
COMMENT ON TABLE @extschema@.idgen_floor IS
'idgen: per namespace, a tick below which no worker is granted anything; raised only by fence, adoption or restore';
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

SELECT pg_catalog.pg_extension_config_dump('@extschema@.idgen_namespace', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.idgen_floor', '');
SELECT pg_catalog.pg_extension_config_dump('@extschema@.idgen_worker', '');

CREATE FUNCTION @extschema@.idgen_guard()
RETURNS trigger
AS 'MODULE_PATHNAME', 'idgen_guard'
LANGUAGE C;
COMMENT ON FUNCTION @extschema@.idgen_guard() IS
'idgen: refuses changes to the authority''s tables from outside (55000), merges restored rows by maximum, ignores replicated ones';
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
'idgen: a new unique, positive, time-sorted 64-bit ID. Errors IG001 to IG009; waits at most idgen.wait_timeout';

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
'idgen: format, kind, epoch_ms (Unix), tick_ms, timestamp_bits, worker_bits, sequence_bits, horizon_ms; enough to decode elsewhere';

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
'idgen: changes the policy of a namespace, never its format';

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
'idgen: a fresh incarnation for an external generator, with its first grant';

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
'idgen: the next grant of an incarnation';

CREATE FUNCTION @extschema@.idgen_deactivate(incarnation bigint, token text)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_deactivate'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_deactivate(bigint, text) IS
'idgen: an external generator ends its incarnation';

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
'idgen: an operator''s word that the original of a copied authority never issues again';

CREATE FUNCTION @extschema@.idgen_fence_namespace(name text, above bigint DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_fence_namespace'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_fence_namespace(text, bigint) IS
'idgen: moves every high-water mark past all that a lost copy can have granted';

CREATE FUNCTION @extschema@.idgen_confirm_clock()
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_not_built'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_confirm_clock() IS
'idgen: an operator''s word that the clock is right after a step. Not built yet (0A000)';
REVOKE ALL ON FUNCTION @extschema@.idgen_confirm_clock() FROM PUBLIC;

SELECT @extschema@.idgen_create_namespace('default');
