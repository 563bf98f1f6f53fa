/*
 * query_text.c
 *		The texts of all SQL that runs on the authority's tables.
 */
#include "compat.h"

#include "catalog/query_text.h"

#include "catalog/pg_type.h"

/* Array types without a symbol in pg_type.h; their OIDs never change. */
#define TIDARRAYOID		1010
#define BYTEAARRAYOID	1001
#define UUIDARRAYOID	2951

/* The number of columns that IDGEN_AUTHORITY_IDENTITY_COLUMNS lists. */
#define IDENTITY_COLUMN_COUNT IDGEN_AUTHORITY_VERSION_BIRTH

const IdgenQueryText idgen_query_texts[IDGEN_QUERY_COUNT] = {
	[IDGEN_SQL_INSERT_NAMESPACE] = {
		"INSERT INTO {namespace} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,"
		" $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,"
		" $23, $24, $25)"
		" ON CONFLICT DO NOTHING", IDGEN_NAMESPACE_END - 1,
		{IDGEN_NAMESPACE_COLUMNS(IDGEN_COLUMN_TYPE)}
	},
	[IDGEN_SQL_INSERT_FLOOR] = {
		"INSERT INTO {floor} VALUES ($1, $2, 0) ON CONFLICT DO NOTHING", 2,
		{TEXTOID, INT8OID}
	},
	[IDGEN_SQL_INSERT_AUTHORITY] = {
		"INSERT INTO {authority} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,"
		" $10, $11, $12, now(), 0, 0, 0)", IDENTITY_COLUMN_COUNT,
		{IDGEN_AUTHORITY_IDENTITY_COLUMNS(IDGEN_COLUMN_TYPE)}
	},
	[IDGEN_SQL_DELETE_AUTHORITY] = {
		"DELETE FROM ONLY {authority} WHERE namespace = $1", 1, {TEXTOID}
	},
	[IDGEN_SQL_READ_FLOOR] = {
		"SELECT floor, external_end, ctid FROM ONLY {floor} WHERE namespace = $1", 1,
		{TEXTOID}
	},
	[IDGEN_SQL_RAISE_FLOOR] = {
		"INSERT INTO {floor} AS f VALUES ($1, $2, 0) ON CONFLICT (namespace)"
		" DO UPDATE SET floor = $2 WHERE f.floor < $2", 2, {TEXTOID, INT8OID}
	},
	[IDGEN_SQL_RAISE_EXTERNAL_END] = {
		"UPDATE ONLY {floor} SET external_end = $2"
		" WHERE namespace = $1 AND external_end < $2", 2, {TEXTOID, INT8OID}
	},
	[IDGEN_SQL_READ_MARK] = {
		"SELECT high_water FROM ONLY {worker} WHERE namespace = $1 AND worker = $2",
		2, {TEXTOID, INT4OID}
	},
	[IDGEN_SQL_RAISE_MARK] = {
		"UPDATE ONLY {worker} SET high_water = $3, incarnation = NULL"
		" WHERE namespace = $1 AND worker = $2 AND high_water < $3", 3,
		{TEXTOID, INT4OID, INT8OID}
	},
	[IDGEN_SQL_INSERT_MARK] = {
		"INSERT INTO {worker} VALUES ($1, $2, $3, NULL)", 3,
		{TEXTOID, INT4OID, INT8OID}
	},
	[IDGEN_SQL_HIGHEST_WORKER] = {
		"SELECT coalesce(max(worker), 0) FROM ONLY {worker} WHERE namespace = $1", 1,
		{TEXTOID}
	},
	[IDGEN_SQL_LOCK_POLICY] = {
		"SELECT xmin FROM ONLY {namespace} WHERE name = $1 FOR UPDATE", 1, {TEXTOID}
	},
	[IDGEN_SQL_UPDATE_POLICY] = {
		"UPDATE ONLY {namespace} SET"
		" grant_interval_ms = coalesce($2, grant_interval_ms),"
		" run_ahead_ms = coalesce($3, run_ahead_ms),"
		" durability = coalesce($4, durability),"
		" promotion = coalesce($5, promotion),"
		" restricted = coalesce($6, restricted), owner = coalesce($7, owner),"
		" split_parts = coalesce($8, split_parts) WHERE name = $1", 8,
		{TEXTOID, INT8OID, INT8OID, TEXTOID, TEXTOID, BOOLOID, TEXTOID, INT4OID}
	},
	[IDGEN_SQL_LOCK_SPLIT] = {
		"SELECT 1 FROM ONLY {authority} WHERE namespace = $1 FOR UPDATE", 1, {TEXTOID}
	},
	[IDGEN_SQL_UPDATE_SPLIT] = {
		"UPDATE ONLY {authority} SET split_modulus = $2, split_remainder = $3"
		" WHERE namespace = $1", 3, {TEXTOID, INT4OID, INT4OID}
	},
	[IDGEN_SQL_UPDATE_ISSUE_ROLES] = {
		"UPDATE ONLY {namespace} SET issue_roles = CASE WHEN $3"
		" THEN array_append(array_remove(issue_roles, $2), $2)"
		" ELSE array_remove(issue_roles, $2) END WHERE name = $1", 3,
		{TEXTOID, TEXTOID, BOOLOID}
	},
	[IDGEN_SQL_UPDATE_ACQUIRE_ROLES] = {
		"UPDATE ONLY {namespace} SET acquire_roles = CASE WHEN $3"
		" THEN array_append(array_remove(acquire_roles, $2), $2)"
		" ELSE array_remove(acquire_roles, $2) END WHERE name = $1", 3,
		{TEXTOID, TEXTOID, BOOLOID}
	},

	/* null if the row has no hash, as in a copy that nobody has adopted */
	[IDGEN_SQL_ROW_HOLDS] = {
		"SELECT c.row_hash = hash_record_extended(n, 0) FROM ONLY {namespace} n"
		" LEFT JOIN ONLY {checksum} c ON c.namespace = n.name WHERE n.name = $1", 1,
		{TEXTOID}
	},
	[IDGEN_SQL_NOTE_ROW] = {
		"INSERT INTO {checksum} AS c SELECT n.name, hash_record_extended(n, 0)"
		" FROM ONLY {namespace} n WHERE n.name = $1 ON CONFLICT (namespace)"
		" DO UPDATE SET row_hash = excluded.row_hash", 1, {TEXTOID}
	},
	[IDGEN_SQL_NOTE_CHANGED_ROW] = {
		"UPDATE ONLY {checksum} c SET row_hash = hash_record_extended(n, 0)"
		" FROM ONLY {namespace} n WHERE n.name = $1 AND c.namespace = $1", 1, {TEXTOID}
	},

	/*
	 * A mark counts times a number of its worker that looks random, so that
	 * two changes do not make up for each other.  -1 and -2 are no workers.
	 */
	[IDGEN_SQL_SUMS_HOLD] = {
		"SELECT a.worker_count = w.count AND a.mark_sum = w.sum"
		" + f.floor::numeric * hashint4extended(-1, 0)"
		" + f.external_end::numeric * hashint4extended(-2, 0)"
		" FROM ONLY {authority} a, ONLY {floor} f,"
		" (SELECT count(*), coalesce(sum(high_water::numeric * hashint4extended(worker, 0)), 0) AS sum"
		"  FROM ONLY {worker} WHERE namespace = $1) w"
		" WHERE a.namespace = $1 AND f.namespace = $1", 1, {TEXTOID}
	},
	[IDGEN_SQL_EVER_GRANTED] = {
		"SELECT EXISTS (SELECT FROM ONLY {worker} WHERE namespace = $1)"
		" OR EXISTS (SELECT FROM ONLY {floor} WHERE namespace = $1"
		"  AND (floor > 0 OR external_end > 0))",
		1, {TEXTOID}
	},
	[IDGEN_SQL_HAS_WORKERS] = {
		"SELECT EXISTS (SELECT FROM ONLY {worker} WHERE namespace = $1)", 1, {TEXTOID}
	},
	[IDGEN_SQL_GRANTED_HERE] = {
		"SELECT EXISTS (SELECT FROM ONLY {grant} WHERE namespace = $1)", 1, {TEXTOID}
	},
	[IDGEN_SQL_UPDATE_LINEAGE] = {
		"UPDATE ONLY {namespace} SET lineage = $2 WHERE name = $1", 2,
		{TEXTOID, UUIDOID}
	},
	[IDGEN_SQL_READ_MARKS] = {
		"SELECT w.worker, w.high_water, w.incarnation, w.ctid,"
		" i.kind = 'external', i.role, i.state = 'active' FROM ONLY {worker} w"
		" LEFT JOIN ONLY {incarnation} i ON i.incarnation = w.incarnation"
		" WHERE w.namespace = $1 ORDER BY w.worker", 1, {TEXTOID}
	},
	[IDGEN_SQL_FIND_AUTHORITY] = {
		"SELECT ctid FROM ONLY {authority} WHERE namespace = $1", 1, {TEXTOID}
	},
	[IDGEN_SQL_LAST_CLOCK] = {
		"SELECT last_clock FROM ONLY {authority} WHERE namespace = $1", 1, {TEXTOID}
	},
	[IDGEN_SQL_RECORDED_MS] = {
		"SELECT (extract(epoch FROM recorded_at) * 1000)::bigint"
		" FROM ONLY {authority} WHERE namespace = $1", 1, {TEXTOID}
	},
	[IDGEN_SQL_HIGHEST_MARK] = {
		"SELECT greatest((SELECT max(high_water) FROM ONLY {worker} WHERE namespace = $1),"
		" (SELECT greatest(floor, external_end) FROM ONLY {floor} WHERE namespace = $1), 0)", 1,
		{TEXTOID}
	},
	[IDGEN_SQL_READ_INCARNATION] = {
		"SELECT namespace, worker, kind = 'external', role, token_hash,"
		" state = 'active' FROM ONLY {incarnation} WHERE incarnation = $1", 1,
		{INT8OID}
	},
	[IDGEN_SQL_LAST_GRANT] = {
		"SELECT grant_id, incarnation, request_id, start_tick, end_tick, asked_ms"
		" FROM ONLY {grant} WHERE namespace = $1 AND worker = $2"
		" ORDER BY start_tick DESC LIMIT 1", 2, {TEXTOID, INT4OID}
	},
	[IDGEN_SQL_REQUEST_RECORDED] = {
		"SELECT EXISTS (SELECT FROM (SELECT incarnation, request_id"
		"  FROM ONLY {grant} WHERE namespace = $1 AND worker = $2"
		"  ORDER BY start_tick DESC LIMIT $5) g"
		" WHERE g.incarnation = $3 AND g.request_id = $4)", 5,
		{TEXTOID, INT4OID, INT8OID, UUIDOID, INT8OID}
	},

	/*
	 * only incarnations that could run further ahead than the policy allows
	 * now
	 */
	[IDGEN_SQL_LONGEST_RUN_AHEAD] = {
		"SELECT max(i.run_ahead_ms) FROM ONLY {incarnation} i"
		" WHERE i.namespace = $1 AND i.run_ahead_ms > $3"
		" AND (SELECT g.end_tick FROM ONLY {grant} g WHERE g.namespace = i.namespace"
		"  AND g.worker = i.worker AND g.incarnation = i.incarnation"
		"  ORDER BY g.start_tick DESC LIMIT 1) > $2", 3,
		{TEXTOID, INT8OID, INT8OID}
	},
	[IDGEN_SQL_LOCK_NAMESPACE] = {
		"SELECT 1 FROM ONLY {namespace} WHERE name = $1 FOR UPDATE SKIP LOCKED", 1,
		{TEXTOID}
	},
	[IDGEN_SQL_LOCK_IDENTITY] = {
		"SELECT 1 FROM ONLY {authority} WHERE namespace = $1"
		" FOR UPDATE SKIP LOCKED", 1, {TEXTOID}
	},
	[IDGEN_SQL_LOCK_AUTHORITIES] = {
		"SELECT ctid FROM ONLY {authority} WHERE ctid = ANY ($1)"
		" FOR UPDATE SKIP LOCKED", 1, {TIDARRAYOID}
	},
	[IDGEN_SQL_LOCK_MARKS] = {
		"SELECT ctid FROM ONLY {worker} WHERE ctid = ANY ($1)"
		" FOR UPDATE SKIP LOCKED", 1, {TIDARRAYOID}
	},
	[IDGEN_SQL_LOCK_FLOORS] = {
		"SELECT ctid FROM ONLY {floor} WHERE ctid = ANY ($1)"
		" FOR UPDATE SKIP LOCKED", 1, {TIDARRAYOID}
	},

	[IDGEN_SQL_INSERT_MARKS] = {
		"INSERT INTO {worker} SELECT * FROM"
		" unnest($1, $2, $3, $4) AS r (n, w, e, i)"
		" RETURNING namespace, worker, ctid", 4,
		{TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID, INT8ARRAYOID}
	},
	[IDGEN_SQL_ADVANCE_MARKS] = {
		"UPDATE ONLY {worker} w SET high_water = r.e, incarnation = r.i"
		" FROM unnest($1, $2, $3, $4, $5, $6) AS r (t, n, w, m, e, i)"
		" WHERE w.ctid = r.t AND w.namespace = r.n AND w.worker = r.w"
		" AND w.high_water = r.m RETURNING w.namespace, w.worker, w.ctid", 6,
		{
			TIDARRAYOID, TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID,
			INT8ARRAYOID, INT8ARRAYOID
		}
	},
	[IDGEN_SQL_ADD_TO_SUMS] = {
		"UPDATE ONLY {authority} a SET worker_count = worker_count + r.c,"
		" mark_sum = mark_sum + r.s, last_clock = r.l"
		" FROM (SELECT t, sum(c) AS c, max(l) AS l,"
		"   sum(s::numeric * hashint4extended(w, 0)"
		"    + x::numeric * hashint4extended(-2, 0)) AS s"
		"  FROM unnest($1, $2, $3, $4, $5, $6) AS u (t, c, w, s, x, l) GROUP BY t) r"
		" WHERE a.ctid = r.t RETURNING a.namespace, 0, a.ctid", 6,
		{
			TIDARRAYOID, INT8ARRAYOID, INT4ARRAYOID, INT8ARRAYOID, INT8ARRAYOID,
			INT8ARRAYOID
		}
	},
	[IDGEN_SQL_RAISE_EXTERNAL_ENDS] = {
		"UPDATE ONLY {floor} f SET external_end = external_end + r.a"
		" FROM (SELECT t, sum(a)::bigint AS a"
		"  FROM unnest($1, $2) AS u (t, a) GROUP BY t) r"
		" WHERE f.ctid = r.t RETURNING f.namespace, 0, f.ctid", 2,
		{TIDARRAYOID, INT8ARRAYOID}
	},
	[IDGEN_SQL_INSERT_INCARNATIONS] = {
		"INSERT INTO {incarnation} SELECT i, n, w,"
		" CASE WHEN h IS NULL THEN 'server' ELSE 'external' END,"
		" CASE WHEN h IS NULL THEN $8 END, coalesce(r, current_user),"
		" nullif(a, '')::inet, nullif(p, ''), clock_timestamp(), h, 'active', NULL, x"
		" FROM unnest($1, $2, $3, $4, $5, $6, $7, $9) AS u (i, n, w, r, a, p, h, x)", 9,
		{
			INT8ARRAYOID, TEXTARRAYOID, INT4ARRAYOID, TEXTARRAYOID,
			TEXTARRAYOID, TEXTARRAYOID, BYTEAARRAYOID, UUIDOID, INT8ARRAYOID
		}
	},
	[IDGEN_SQL_INSERT_GRANTS] = {
		"INSERT INTO {grant} SELECT n, w, s, e, g, i, clock_timestamp(), r, q"
		" FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) AS u (n, w, s, e, g, i, r, q)", 8,
		{
			TEXTARRAYOID, INT4ARRAYOID, INT8ARRAYOID, INT8ARRAYOID,
			INT8ARRAYOID, INT8ARRAYOID, UUIDARRAYOID, INT8ARRAYOID
		}
	},

	[IDGEN_SQL_END_INCARNATIONS] = {
		"UPDATE ONLY {incarnation} SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE incarnation = ANY ($1) AND state = 'active'", 1, {INT8ARRAYOID}
	},
	[IDGEN_SQL_DEACTIVATE] = {
		"UPDATE ONLY {incarnation} SET state = 'deactivated', ended_at = clock_timestamp()"
		" WHERE incarnation = $1 AND state = 'active'", 1, {INT8OID}
	},
	[IDGEN_SQL_END_STRANGERS] = {
		"UPDATE ONLY {incarnation} SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE incarnation = ANY (ARRAY(SELECT incarnation FROM ONLY {incarnation}"
		"  WHERE state = 'active' AND kind = 'server'"
		"  AND (boot IS DISTINCT FROM $1 OR incarnation <> ALL ($2))"
		"  FOR UPDATE SKIP LOCKED))", 2,
		{UUIDOID, INT8ARRAYOID}
	},
	[IDGEN_SQL_END_ALL] = {
		"UPDATE ONLY {incarnation} SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE namespace = $1 AND state = 'active'", 1, {TEXTOID}
	},
	[IDGEN_SQL_RETIRE_NAMESPACE] = {
		"UPDATE ONLY {namespace} SET retired = true WHERE name = $1", 1, {TEXTOID}
	},
	[IDGEN_SQL_UPDATE_TICKET] = {
		"UPDATE ONLY {namespace} SET handed_over = $2, ticket = $3, ticket_id = $4"
		" WHERE name = $1", 4, {TEXTOID, BOOLOID, UUIDOID, INT8OID}
	},
	[IDGEN_SQL_DELETE_MARKS] = {
		"DELETE FROM ONLY {worker} WHERE namespace = $1", 1, {TEXTOID}
	},
	[IDGEN_SQL_UPDATE_AUTHORITY] = {
		"INSERT INTO {authority} VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,"
		" $10, $11, $12, now(), 0, 0, 0) ON CONFLICT (namespace) DO UPDATE"
		" SET uuid = $2, format = $3, split_modulus = $4, split_remainder = $5,"
		" system_identifier = $6, database = $7, timeline = $8,"
		" control_inode = $9, control_birth = $10, version_inode = $11,"
		" version_birth = $12, recorded_at = now()", IDENTITY_COLUMN_COUNT,
		{IDGEN_AUTHORITY_IDENTITY_COLUMNS(IDGEN_COLUMN_TYPE)}
	},
	[IDGEN_SQL_UPDATE_RANGE] = {
		"UPDATE ONLY {namespace} SET first_worker = $2, last_worker = $3"
		" WHERE name = $1", 3, {TEXTOID, INT4OID, INT4OID}
	},
	[IDGEN_SQL_RESET_SUMS] = {
		"UPDATE ONLY {authority} SET (worker_count, mark_sum) ="
		" (SELECT count(*),"
		"   coalesce(sum(high_water::numeric * hashint4extended(worker, 0)), 0)"
		"   + coalesce((SELECT floor::numeric * hashint4extended(-1, 0)"
		"     + external_end::numeric * hashint4extended(-2, 0)"
		"    FROM ONLY {floor} WHERE namespace = $1), 0)"
		"  FROM ONLY {worker} WHERE namespace = $1) WHERE namespace = $1", 1,
		{TEXTOID}
	},

	/*
	 * Only the oldest rows of one worker, so that the work is bounded and
	 * uses the primary key.  The last grant of a worker stays as it is,
	 * because the next request is judged by it.
	 */
	[IDGEN_SQL_DELETE_GRANTS] = {
		"WITH old AS (SELECT start_tick FROM ONLY {grant}"
		"  WHERE namespace = $1 AND worker = $2 ORDER BY start_tick LIMIT 1000)"
		" DELETE FROM ONLY {grant} g USING old o"
		" WHERE g.namespace = $1 AND g.worker = $2 AND g.start_tick = o.start_tick"
		" AND g.granted_at < clock_timestamp() - make_interval(secs => $3)"
		" AND g.end_tick <= $4 AND g.start_tick < (SELECT l.start_tick"
		"  FROM ONLY {grant} l WHERE l.namespace = $1 AND l.worker = $2"
		"  ORDER BY l.start_tick DESC LIMIT 1)", 4,
		{TEXTOID, INT4OID, FLOAT8OID, INT8OID}
	},
	[IDGEN_SQL_MERGE_GRANTS] = {
		"WITH old AS (SELECT start_tick, end_tick, incarnation, granted_at"
		"  FROM ONLY {grant} WHERE namespace = $1 AND worker = $2"
		"  ORDER BY start_tick LIMIT 1000),"
		" settled AS (SELECT *, CASE WHEN incarnation = lag(incarnation) OVER w"
		"   AND start_tick = lag(end_tick) OVER w THEN 0 ELSE 1 END AS begins"
		"  FROM old WHERE granted_at < clock_timestamp() - make_interval(secs => $3)"
		"  AND end_tick <= $4 AND start_tick < (SELECT l.start_tick"
		"   FROM ONLY {grant} l WHERE l.namespace = $1 AND l.worker = $2"
		"   ORDER BY l.start_tick DESC LIMIT 1)"
		"  WINDOW w AS (ORDER BY start_tick)),"
		" numbered AS (SELECT *, sum(begins) OVER (ORDER BY start_tick) AS run FROM settled),"
		" headed AS (SELECT start_tick, end_tick,"
		"  first_value(start_tick) OVER (PARTITION BY run ORDER BY start_tick) AS first"
		"  FROM numbered),"
		" gone AS (DELETE FROM ONLY {grant} g USING headed h"
		"  WHERE g.namespace = $1 AND g.worker = $2 AND g.start_tick = h.start_tick"
		"  AND h.start_tick > h.first)"
		" UPDATE ONLY {grant} g SET end_tick = r.last"
		" FROM (SELECT first, max(end_tick) AS last FROM headed"
		"  GROUP BY first HAVING count(*) > 1) r"
		" WHERE g.namespace = $1 AND g.worker = $2 AND g.start_tick = r.first", 4,
		{TEXTOID, INT4OID, FLOAT8OID, INT8OID}
	},

	/* an external incarnation that has been silent for this long is over */
	[IDGEN_SQL_END_SILENT] = {
		"UPDATE ONLY {incarnation} i SET state = 'ended', ended_at = clock_timestamp()"
		" WHERE i.state = 'active' AND i.kind = 'external'"
		" AND i.activated_at < clock_timestamp() - make_interval(secs => $1)"
		" AND (SELECT g.incarnation = i.incarnation"
		"   AND g.granted_at > clock_timestamp() - make_interval(secs => $1)"
		"  FROM ONLY {grant} g WHERE g.namespace = i.namespace"
		"  AND g.worker = i.worker ORDER BY g.start_tick DESC LIMIT 1) IS NOT TRUE", 1,
		{FLOAT8OID}
	},
	[IDGEN_SQL_DELETE_INCARNATIONS] = {
		"DELETE FROM ONLY {incarnation} WHERE incarnation = ANY (ARRAY("
		" SELECT incarnation FROM ONLY {incarnation} WHERE state <> 'active'"
		" AND ended_at < clock_timestamp() - make_interval(secs => $1)"
		/* the longest horizon: see LONGEST_RUN_AHEAD */
		" AND (run_ahead_ms > 0 AND ended_at > clock_timestamp() - interval '1 h') IS NOT TRUE"
		" LIMIT 1000))", 1,
		{FLOAT8OID}
	},
};
