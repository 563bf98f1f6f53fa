/* sql/idgen--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION idgen" to load this file. \quit

-- CREATE EXTENSION puts the extension's schema into the search path, where another role may have
-- made an operator or a function that matches better than PostgreSQL's own.  From here on only
-- PostgreSQL's are found.  In addition, views and function bodies qualify every name, and pass
-- arguments of exactly the declared types to functions of this script, so that no other function
-- matches better.  The search path is restored when CREATE EXTENSION ends.
SET LOCAL search_path TO pg_catalog, pg_temp;

--
-- The schema of the tables.  It is made here, never found: code that somebody has planted under this
-- name makes CREATE EXTENSION fail.  Being out of the application's schemas, the tables meet no
-- tool that works on all tables it finds there.
--

CREATE SCHEMA _idgen;
COMMENT ON SCHEMA _idgen IS
'idgen: tables of the extension, which only its functions change';
GRANT USAGE ON SCHEMA _idgen TO PUBLIC;

--
-- The authority's tables.  Only idgen writes them: guards refuse changes by everybody else,
-- including the owner, and the authority refuses to grant from tables that are not as this script
-- makes them.  src/catalog/columns.h lists the columns and has to be changed with them.
--

CREATE TABLE _idgen.idgen_namespace (
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
    lineage           uuid NOT NULL,
    handed_over       boolean NOT NULL DEFAULT false,
    ticket            uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    ticket_id         bigint NOT NULL DEFAULT 0
);

CREATE TABLE _idgen.idgen_floor (
    namespace    text COLLATE pg_catalog."C" PRIMARY KEY,
    floor        bigint NOT NULL,
    external_end bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE _idgen.idgen_worker (
    namespace   text COLLATE pg_catalog."C",
    worker      integer,
    high_water  bigint NOT NULL,
    incarnation bigint,
    PRIMARY KEY (namespace, worker)
) WITH (fillfactor = 50);

CREATE TABLE _idgen.idgen_authority (
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

CREATE TABLE _idgen.idgen_incarnation (
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

CREATE TABLE _idgen.idgen_grant (
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

CREATE TABLE _idgen.idgen_checksum (
    namespace text COLLATE pg_catalog."C" PRIMARY KEY,
    row_hash  bigint NOT NULL
);

COMMENT ON TABLE _idgen.idgen_namespace IS
'idgen: ID spaces, one row each. The format columns never change, name is the format label, and lineage tells two namespaces of the same name apart. ticket and ticket_id are the number and the greatest ID of the last ticket that was given or adopted, and zeros if there was none. Times are in milliseconds, epoch_ms since 1970-01-01 UTC. Written only by functions of idgen';
COMMENT ON TABLE _idgen.idgen_floor IS
'idgen: two ticks per namespace, neither of which ever falls. floor: no worker is granted anything below it; a fence, an adoption, a promotion or a restore raises it, and so does the creation of a namespace under the name of a dropped one. external_end: every grant of an external generator ends at or before it';
COMMENT ON TABLE _idgen.idgen_worker IS
'idgen: one row per worker ever used: high_water is the tick at which everything ever granted to the worker ends, and incarnation got its last grant';
COMMENT ON TABLE _idgen.idgen_authority IS
'idgen: per namespace, the server and database that grant from it, and the count and sum of its marks, each mark times a number of its worker. Never dumped, so that idgen notices a copy';
COMMENT ON TABLE _idgen.idgen_incarnation IS
'idgen: every activation of a generator, and who asked for it. token_hash is the hash of the token that the holder was given';
COMMENT ON TABLE _idgen.idgen_grant IS
'idgen: every grant: the ticks from start_tick to end_tick, excluding end_tick, reserved for one worker and one incarnation';
COMMENT ON TABLE _idgen.idgen_checksum IS
'idgen: per namespace, a hash of its row in idgen_namespace as idgen wrote it. Never dumped, so that idgen notices a row that was changed or restored while the guards were off';

REVOKE ALL ON _idgen.idgen_namespace, _idgen.idgen_floor,
    _idgen.idgen_worker, _idgen.idgen_authority,
    _idgen.idgen_incarnation, _idgen.idgen_grant,
    _idgen.idgen_checksum FROM PUBLIC;

-- What is dumped can be read by everybody, and so be dumped by everybody who can dump the rest of
-- the database.  The owner of the database may also insert it, so that a restore gets as far as the
-- guards, which do not merge it but stop the namespaces (src/sql/guard.c).
GRANT SELECT ON _idgen.idgen_namespace, _idgen.idgen_floor, _idgen.idgen_worker TO PUBLIC;
GRANT INSERT ON _idgen.idgen_namespace, _idgen.idgen_floor, _idgen.idgen_worker TO pg_database_owner;

SELECT pg_catalog.pg_extension_config_dump('_idgen.idgen_namespace'::pg_catalog.regclass, ''::pg_catalog.text);
SELECT pg_catalog.pg_extension_config_dump('_idgen.idgen_floor'::pg_catalog.regclass, ''::pg_catalog.text);
SELECT pg_catalog.pg_extension_config_dump('_idgen.idgen_worker'::pg_catalog.regclass, ''::pg_catalog.text);

CREATE FUNCTION @extschema@.idgen_guard()
RETURNS trigger
AS 'MODULE_PATHNAME', 'idgen_guard'
LANGUAGE C;
COMMENT ON FUNCTION @extschema@.idgen_guard() IS
'idgen: trigger that protects the authority''s tables. It refuses changes from outside (55000), ignores rows that a subscription applies, and merges rows that the owner of the table or a superuser restores: the higher mark wins. Rows that the owner of the database restores change no mark, but can make a namespace a copy; other roles get 42501';
REVOKE ALL ON FUNCTION @extschema@.idgen_guard() FROM PUBLIC;

CREATE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE
    ON _idgen.idgen_namespace
    FOR EACH ROW EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE
    ON _idgen.idgen_namespace
    FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE
    ON _idgen.idgen_floor
    FOR EACH ROW EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE
    ON _idgen.idgen_floor
    FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE
    ON _idgen.idgen_worker
    FOR EACH ROW EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE
    ON _idgen.idgen_worker
    FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE
    ON _idgen.idgen_authority
    FOR EACH ROW EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE
    ON _idgen.idgen_authority
    FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE
    ON _idgen.idgen_incarnation
    FOR EACH ROW EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE
    ON _idgen.idgen_incarnation
    FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE
    ON _idgen.idgen_grant
    FOR EACH ROW EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE
    ON _idgen.idgen_grant
    FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.idgen_guard();

CREATE TRIGGER idgen_guard_row BEFORE INSERT OR UPDATE OR DELETE
    ON _idgen.idgen_checksum
    FOR EACH ROW EXECUTE FUNCTION @extschema@.idgen_guard();
CREATE TRIGGER idgen_guard_truncate BEFORE TRUNCATE
    ON _idgen.idgen_checksum
    FOR EACH STATEMENT EXECUTE FUNCTION @extschema@.idgen_guard();

ALTER TABLE _idgen.idgen_namespace ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE _idgen.idgen_namespace ENABLE ALWAYS TRIGGER idgen_guard_truncate;
ALTER TABLE _idgen.idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE _idgen.idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_truncate;
ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_truncate;
ALTER TABLE _idgen.idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE _idgen.idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_truncate;
ALTER TABLE _idgen.idgen_incarnation ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE _idgen.idgen_incarnation ENABLE ALWAYS TRIGGER idgen_guard_truncate;
ALTER TABLE _idgen.idgen_grant ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE _idgen.idgen_grant ENABLE ALWAYS TRIGGER idgen_guard_truncate;
ALTER TABLE _idgen.idgen_checksum ENABLE ALWAYS TRIGGER idgen_guard_row;
ALTER TABLE _idgen.idgen_checksum ENABLE ALWAYS TRIGGER idgen_guard_truncate;

--
-- Issuing.  Not STRICT: a NULL namespace is an error, never a NULL id.
--

CREATE FUNCTION @extschema@.idgen_next(namespace text DEFAULT 'default')
RETURNS bigint
AS 'MODULE_PATHNAME', 'idgen_next'
LANGUAGE C VOLATILE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION @extschema@.idgen_next(text) IS
'idgen: returns a new ID: unique, positive, 64 bits, sorted by time. Waits at most idgen.wait_timeout. Errors: IG001 not_yet_valid, IG002 grant_exhausted, IG003 capacity_exhausted, IG004 clock_error, IG005 unavailable, IG006 namespace_exhausted, IG007 authority_unconfirmed, IG008 incarnation_rejected, IG009 namespace_retired';

CREATE FUNCTION @extschema@.idgen_next_batch(count integer, namespace text DEFAULT 'default')
RETURNS SETOF bigint
AS 'MODULE_PATHNAME', 'idgen_next_batch'
LANGUAGE C VOLATILE PARALLEL SAFE COST 1 ROWS 1000;
COMMENT ON FUNCTION @extschema@.idgen_next_batch(integer, text) IS
'idgen: returns exactly count new IDs in ascending order, or raises an error of idgen_next. count is 0 to idgen.max_batch (22023)';

CREATE FUNCTION @extschema@.idgen_next_json(namespace text DEFAULT 'default')
RETURNS jsonb
AS 'MODULE_PATHNAME', 'idgen_next_json'
LANGUAGE C VOLATILE PARALLEL SAFE COST 1;
COMMENT ON FUNCTION @extschema@.idgen_next_json(text) IS
'idgen: returns a new ID as {"id": "<digits>", "format": "<namespace>"}. The ID is a string, because JavaScript rounds numbers above 2^53. Errors as for idgen_next';

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
'idgen: takes an ID apart. timestamp is the time at which its tick begins. 22003 if the number is not an ID of the format, 22008 if its time is out of range; NULL for NULL';

-- A name of its own: beside an overload for text, an argument of unknown type
-- would be a text, and drivers that ask the server for the type of "$1" would
-- refuse a number.
CREATE FUNCTION @extschema@.idgen_decode_text(id text, namespace text DEFAULT 'default',
    OUT format text, OUT "timestamp" timestamp with time zone, OUT tick bigint,
    OUT worker integer, OUT sequence integer)
RETURNS record
AS 'MODULE_PATHNAME', 'idgen_decode_text'
LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION @extschema@.idgen_decode_text(text, text) IS
'idgen: takes apart an ID that is written in decimal digits. 22P02 if the text has anything but digits; other errors as for a number';

CREATE FUNCTION @extschema@.idgen_encode(tick bigint, worker integer, sequence integer,
    namespace text DEFAULT 'default')
RETURNS bigint
AS 'MODULE_PATHNAME', 'idgen_encode'
LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION @extschema@.idgen_encode(bigint, integer, integer, text) IS
'idgen: puts an ID together from its parts, for diagnostics; it does not issue the ID. 22003 if a part does not fit, and for (0, 0, 0), which is never issued; NULL for NULL';

CREATE FUNCTION @extschema@.idgen_timestamp(id bigint, namespace text DEFAULT 'default')
RETURNS timestamp with time zone
AS 'MODULE_PATHNAME', 'idgen_timestamp'
LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION @extschema@.idgen_timestamp(bigint, text) IS
'idgen: returns the time at which the tick of an ID begins. 22003 if the number is not an ID of the format, 22008 if its time is out of range; NULL for NULL';

CREATE FUNCTION @extschema@.idgen_lower_bound(ts timestamp with time zone,
    namespace text DEFAULT 'default')
RETURNS bigint
AS 'MODULE_PATHNAME', 'idgen_lower_bound'
LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION @extschema@.idgen_lower_bound(timestamp with time zone, text) IS
'idgen: returns the smallest ID that a tick beginning at or after ts can carry. id >= idgen_lower_bound(a) AND id < idgen_lower_bound(b) selects the IDs of the ticks that begin from a up to b. 0 before the epoch, 2^63 - 1 past the timestamp field; NULL for NULL';

CREATE FUNCTION @extschema@.idgen_format(namespace text DEFAULT 'default')
RETURNS jsonb
AS 'MODULE_PATHNAME', 'idgen_format'
LANGUAGE C STABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION @extschema@.idgen_format(text) IS
'idgen: returns what is needed to decode IDs elsewhere: format, kind, epoch_ms (Unix), tick_ms, timestamp_bits, worker_bits, sequence_bits, horizon_ms. lineage tells two namespaces of the same name apart';

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
'idgen: creates an ID space, whose format never changes. The widths sum to at most 63, and tick_ms <= grant_interval <= horizon <= 1 hour. Takes part in the calling transaction. 22023 if an argument does not fit, 42710 if the name is taken';
REVOKE ALL ON FUNCTION @extschema@.idgen_create_namespace(text, integer, integer, integer,
    timestamp with time zone, integer, interval, interval, integer, integer, text, text,
    interval, boolean, boolean) FROM PUBLIC;

CREATE FUNCTION @extschema@.idgen_retire_namespace(name text)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_retire_namespace'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_retire_namespace(text) IS
'idgen: retires a namespace for good, even if the calling transaction rolls back. It issues no more IDs (IG009), its IDs can still be decoded, and its name stays taken. Only its owner may do this (42501)';

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
'idgen: changes the policy of a namespace, never its format; NULL leaves a setting as it is. promotion split can be chosen or given up only before the first grant and with durability local (22023). promotion trust needs durability quorum, which must have been committed before (22023, 55000). Only its owner may do this (42501)';

CREATE FUNCTION @extschema@.idgen_allow(namespace text, grantee regrole, privilege text)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_allow'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_allow(text, regrole, text) IS
'idgen: gives a role the privilege "issue" or "acquire" on a namespace. Only its owner may do this (42501)';

CREATE FUNCTION @extschema@.idgen_disallow(namespace text, grantee regrole, privilege text)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_disallow'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_disallow(text, regrole, text) IS
'idgen: takes the privilege "issue" or "acquire" on a namespace away from a role. Only its owner may do this (42501)';

CREATE FUNCTION @extschema@.idgen_activate(namespace text DEFAULT 'default',
    OUT worker integer, OUT incarnation bigint, OUT grant_id bigint, OUT start_ms bigint,
    OUT end_ms_exclusive bigint, OUT format text, OUT token text)
RETURNS record
AS 'MODULE_PATHNAME', 'idgen_activate'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_activate(text) IS
'idgen: activates an external generator: returns a fresh incarnation with its token and its first grant. Milliseconds count from the epoch of the namespace. Needs the privilege "acquire" (42501); other errors as for idgen_next';

CREATE TYPE @extschema@.idgen_acquired AS (worker integer, incarnation bigint,
    grant_id bigint, start_ms bigint, end_ms_exclusive bigint, format text);
COMMENT ON TYPE @extschema@.idgen_acquired IS
'idgen: a grant of an external generator: it may issue from start_ms up to, but not including, end_ms_exclusive. Milliseconds count from the epoch of the namespace';

CREATE FUNCTION @extschema@.idgen_acquire_grant(namespace text, incarnation bigint,
    request_id uuid, token text, after_grant bigint, length interval DEFAULT NULL)
RETURNS @extschema@.idgen_acquired
AS 'MODULE_PATHNAME', 'idgen_acquire_grant'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_acquire_grant(text, bigint, uuid, text, bigint, interval) IS
'idgen: returns the next grant of an incarnation. after_grant is the grant that it follows. Repeating the last answered request_id returns the same grant, or 22023 if the length differs. IG008 if the incarnation has ended or two processes use it';

CREATE FUNCTION @extschema@.idgen_deactivate(incarnation bigint, token text)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_deactivate'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_deactivate(bigint, text) IS
'idgen: ends the incarnation of an external generator, at its own request. Its worker is free again when its last grant ends. IG008 if the token is wrong';

CREATE FUNCTION @extschema@.idgen_end_incarnation(incarnation bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_end_incarnation'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_end_incarnation(bigint) IS
'idgen: ends an incarnation, at the request of the owner of its namespace (42501 for other roles). Its worker is free again when its last grant ends';

CREATE FUNCTION @extschema@.idgen_adopt_namespace(name text, above bigint DEFAULT NULL,
    first_worker integer DEFAULT NULL, last_worker integer DEFAULT NULL,
    ticket jsonb DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_adopt_namespace'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_adopt_namespace(text, bigint, integer, integer, jsonb) IS
'idgen: confirms that the original of a copied namespace will never issue IDs again, or that it uses workers other than first_worker to last_worker. Also fences the namespace, past the ID that the argument above names, even if the calling transaction rolls back. With a ticket of idgen_hand_over_namespace, the namespace goes on at once, past the greatest ID in the ticket, and takes its lineage; the format must agree (22023). The same ticket again changes nothing. 55000 if the ticket cannot be adopted here. Only its owner may do this (42501)';

CREATE FUNCTION @extschema@.idgen_hand_over_namespace(name text)
RETURNS jsonb
AS 'MODULE_PATHNAME', 'idgen_hand_over_namespace'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_hand_over_namespace(text) IS
'idgen: ends a namespace here, even if the calling transaction rolls back, so that another server or database can go on with it at once. Returns the ticket for idgen_adopt_namespace: ticket (a random uuid), lineage, format, and greatest_id, the greatest ID that can ever have been issued here. From then on calls get IG007, here, in copies, and in what is restored from dumps made later. Waits until all physical standbys that are connected have received it (IG005); called again, it returns the same ticket. Only its owner may do this (42501)';

CREATE FUNCTION @extschema@.idgen_fence_namespace(name text, above bigint DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_fence_namespace'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_fence_namespace(text, bigint) IS
'idgen: moves all future IDs past everything that a lost copy of the authority can have granted, and past the ID that the argument above names, even if the calling transaction rolls back. Ends every incarnation. Only the owner may do this (42501)';

CREATE FUNCTION @extschema@.idgen_confirm_clock()
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_confirm_clock'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_confirm_clock() IS
'idgen: confirms that the clock of this server is right as it is now, after it was set. Takes effect at once for all databases, even if the calling transaction rolls back';
REVOKE ALL ON FUNCTION @extschema@.idgen_confirm_clock() FROM PUBLIC;

--
-- Columns that take IDs.  Both functions run as the caller, and lend no privilege.
--

CREATE FUNCTION @extschema@.idgen_adopt_column("table" regclass, "column" name,
    namespace text DEFAULT 'default')
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_adopt_column'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_adopt_column(regclass, name, text) IS
'idgen: has a bigint column take new values from a namespace instead of its sequence, identity or no default. Changes the default under ACCESS EXCLUSIVE, without a rewrite, and drops the sequence. Takes part in the calling transaction. 55000 if a value is not below the next IDs, or no unique constraint is on the column alone; 42501 if the caller does not own the table; 0A000, 42804 or 42809 if it is not the plain case, with the section of the manual that is about it';

CREATE FUNCTION @extschema@.idgen_check_columns(OUT schema_name text, OUT table_name text,
    OUT column_name text, OUT namespace text, OUT greatest_id bigint, OUT problems text[])
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'idgen_check_columns'
LANGUAGE C STABLE PARALLEL UNSAFE ROWS 100;
COMMENT ON FUNCTION @extschema@.idgen_check_columns() IS
'idgen: one row per column whose default, or whose domain''s default, issues IDs. namespace is NULL if the default does not name it as a constant. greatest_id is the greatest value, found by index; NULL if there is none, or if problems tells why it is not known. problems is empty if nothing is wrong';

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
    JOIN _idgen.idgen_namespace n ON n.name OPERATOR(pg_catalog.=) $2
    JOIN _idgen.idgen_grant g ON g.namespace OPERATOR(pg_catalog.=) $2 AND g.worker OPERATOR(pg_catalog.=) d.worker
        AND g.start_tick OPERATOR(pg_catalog.<=) d.tick AND g.end_tick OPERATOR(pg_catalog.>) d.tick
    LEFT JOIN _idgen.idgen_incarnation i ON i.incarnation OPERATOR(pg_catalog.=) g.incarnation;
END;
COMMENT ON FUNCTION @extschema@.idgen_trace(bigint, text) IS
'idgen: returns the grant and the incarnation under which an ID was reserved, and who activated the incarnation. Returns no row if the grant is no longer recorded, or if the ID was not granted here';
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
'idgen: counters of the namespaces of this database that were used since the server started; see view idgen_stat_namespace';

CREATE FUNCTION @extschema@.idgen_stat_cursors(OUT database oid, OUT namespace text,
    OUT uuid uuid, OUT worker integer, OUT incarnation bigint, OUT ids bigint,
    OUT last_tick timestamp with time zone, OUT sequence_used bigint,
    OUT granted_until timestamp with time zone, OUT runway_ms bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'idgen_stat_cursors'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.idgen_stat_cursors() IS
'idgen: the cursors of this server, in all databases; see view idgen_stat_cursor';

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
'idgen: the authority process of this database, and the state of this server; see view idgen_stat_authority';

REVOKE ALL ON FUNCTION @extschema@.idgen_stat_counters(), @extschema@.idgen_stat_cursors(),
    @extschema@.idgen_stat_authority_process() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION @extschema@.idgen_stat_counters(), @extschema@.idgen_stat_cursors(),
    @extschema@.idgen_stat_authority_process() TO pg_monitor;

CREATE VIEW @extschema@.idgen_stat_namespace AS
SELECT n.name AS namespace,
    CASE WHEN n.retired THEN 'retired' WHEN NOT n.issuing THEN 'decoding'
        WHEN n.handed_over THEN 'handed over'
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
FROM _idgen.idgen_namespace n
LEFT JOIN _idgen.idgen_floor f ON f.namespace OPERATOR(pg_catalog.=) n.name
LEFT JOIN _idgen.idgen_authority a ON a.namespace OPERATOR(pg_catalog.=) n.name
LEFT JOIN @extschema@.idgen_stat_counters() c ON c.namespace OPERATOR(pg_catalog.=) n.name
CROSS JOIN LATERAL (SELECT pg_catalog.floor(((extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000)
        OPERATOR(pg_catalog.-) n.epoch_ms) OPERATOR(pg_catalog./) n.tick_ms)::bigint AS now_tick) t
CROSS JOIN LATERAL (SELECT
    (((n.last_worker::bigint OPERATOR(pg_catalog.-) a.split_remainder) OPERATOR(pg_catalog.+) a.split_modulus) OPERATOR(pg_catalog./) a.split_modulus)
        OPERATOR(pg_catalog.-) ((((n.first_worker::bigint OPERATOR(pg_catalog.-) a.split_remainder) OPERATOR(pg_catalog.+) a.split_modulus) OPERATOR(pg_catalog.-) 1)
            OPERATOR(pg_catalog./) a.split_modulus) AS total,
    (SELECT pg_catalog.count(*) FROM _idgen.idgen_worker w
        WHERE w.namespace OPERATOR(pg_catalog.=) n.name AND w.high_water OPERATOR(pg_catalog.>) t.now_tick
        AND w.worker OPERATOR(pg_catalog.>=) n.first_worker AND w.worker OPERATOR(pg_catalog.<=) n.last_worker
        AND (w.worker OPERATOR(pg_catalog.%) a.split_modulus) OPERATOR(pg_catalog.=) a.split_remainder) AS reserved) w;
COMMENT ON VIEW @extschema@.idgen_stat_namespace IS
'idgen: one row per namespace of this database: its state, what it issued and waited for since stats_reset, its workers, and when its timestamp field ends. last_error is an SQLSTATE';

CREATE VIEW @extschema@.idgen_stat_cursor AS
SELECT d.datname AS database, c.namespace, c.worker, c.incarnation, c.ids, c.last_tick,
    c.sequence_used, c.granted_until, c.runway_ms
FROM @extschema@.idgen_stat_cursors() c
LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) c.database;
COMMENT ON VIEW @extschema@.idgen_stat_cursor IS
'idgen: one row per cursor of this server. runway_ms is how long its grants last from now; it is negative if they have ended';

CREATE VIEW @extschema@.idgen_stat_authority AS
SELECT w.*, pg_catalog.pg_total_relation_size('_idgen.idgen_grant'::pg_catalog.regclass) AS grant_bytes,
    (SELECT pg_catalog.count(*) FROM _idgen.idgen_incarnation i
        WHERE i.state OPERATOR(pg_catalog.=) 'active') AS incarnations_active
FROM @extschema@.idgen_stat_authority_process() w;
COMMENT ON VIEW @extschema@.idgen_stat_authority IS
'idgen: one row: the authority process of this database (pid is null while none is needed), free cursors, the kernel clock, and fsync';

-- idgen_external_workers_max() and idgen_external_role_max() of src/core/worker.c, in SQL.  A worker
-- is held until its grant ends, even if its incarnation has ended before.
CREATE VIEW @extschema@.idgen_stat_role AS
SELECT h.namespace, h.role, h.workers, greatest(m.all_max OPERATOR(pg_catalog./) 2, 1::bigint) AS workers_max,
    pg_catalog.sum(h.workers) OVER (PARTITION BY h.namespace)::bigint AS all_workers, m.all_max AS all_workers_max
FROM (SELECT n.name AS namespace, n.first_worker, n.last_worker, a.split_modulus, a.split_remainder, i.role,
        pg_catalog.count(*) AS workers
    FROM _idgen.idgen_namespace n
    JOIN _idgen.idgen_authority a ON a.namespace OPERATOR(pg_catalog.=) n.name
    JOIN _idgen.idgen_worker w ON w.namespace OPERATOR(pg_catalog.=) n.name
        AND w.worker OPERATOR(pg_catalog.>=) n.first_worker AND w.worker OPERATOR(pg_catalog.<=) n.last_worker
        AND (w.worker OPERATOR(pg_catalog.%) a.split_modulus) OPERATOR(pg_catalog.=) a.split_remainder
        AND w.high_water OPERATOR(pg_catalog.>) pg_catalog.floor(((extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000)
            OPERATOR(pg_catalog.-) n.epoch_ms) OPERATOR(pg_catalog./) n.tick_ms)::bigint
    JOIN _idgen.idgen_incarnation i ON i.incarnation OPERATOR(pg_catalog.=) w.incarnation
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
'idgen: one row per namespace and role that has external generators: the workers that they hold, the most that one role may hold, and both for all roles together';

GRANT SELECT ON @extschema@.idgen_stat_namespace, @extschema@.idgen_stat_cursor,
    @extschema@.idgen_stat_authority, @extschema@.idgen_stat_role TO pg_monitor;

CREATE FUNCTION @extschema@.idgen_stat_reset()
RETURNS void
AS 'MODULE_PATHNAME', 'idgen_stat_reset'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.idgen_stat_reset() IS
'idgen: sets the counters of all namespaces of this database to zero';
REVOKE ALL ON FUNCTION @extschema@.idgen_stat_reset() FROM PUBLIC;

SELECT @extschema@.idgen_create_namespace('default'::pg_catalog.text, 41, 10, 12,
    '2025-01-01 00:00:00+00'::pg_catalog.timestamptz, 1, '1 s'::pg_catalog.interval,
    '10 s'::pg_catalog.interval, 0, NULL::integer, 'local'::pg_catalog.text, NULL::pg_catalog.text,
    '0'::pg_catalog.interval, false, true);
