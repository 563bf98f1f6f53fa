/*
 * tables.c
 *		Apply records, look things up; see tables.h.
 */
#include "tables.h"

#include <stdlib.h>
#include <string.h>

void
tables_create(Tables *tables, int64_t worker_count)
{
	memset(tables, 0, sizeof(*tables));
	tables->worker_count = worker_count;
	tables->dropped_life = -1;
	tables->marks = calloc((size_t) worker_count, sizeof(MarkRow));
}

void
tables_free(Tables *tables)
{
	free(tables->marks);
	free(tables->incarnations);
}

/* "tables" must be freed or never created. */
void
tables_copy(Tables *tables, const Tables *from)
{
	size_t		marks_size = (size_t) from->worker_count * sizeof(MarkRow);
	size_t		rows_size = (size_t) from->incarnation_max * sizeof(IncarnationRow);

	*tables = *from;
	tables->marks = malloc(marks_size);
	memcpy(tables->marks, from->marks, marks_size);
	tables->incarnations = NULL;
	if (rows_size == 0)
		return;
	tables->incarnations = malloc(rows_size);
	memcpy(tables->incarnations, from->incarnations, rows_size);
}

static void
add_incarnation(Tables *tables, const Record *record)
{
	if (tables->incarnation_count == tables->incarnation_max)
	{
		tables->incarnation_max = tables->incarnation_max * 2 + 16;
		tables->incarnations = realloc(tables->incarnations,
									   (size_t) tables->incarnation_max *
									   sizeof(IncarnationRow));
	}
	tables->incarnations[tables->incarnation_count++] = (IncarnationRow) {
		.id = record->incarnation,
		.worker = record->worker,
		.is_active = true,
		.is_external = record->is_external,
	};
}

static void
set_mark(Tables *tables, MarkRow *mark, int64_t high_water)
{
	if (!mark->is_used)
		tables->mark_count++;
	mark->is_used = true;
	tables->mark_sum += high_water - mark->high_water;
	mark->high_water = high_water;
}

static void
apply_grant(Tables *tables, const Record *record)
{
	MarkRow    *mark = &tables->marks[record->worker];

	set_mark(tables, mark, record->mark);
	mark->incarnation = record->incarnation;
	mark->is_external = record->is_external;
	mark->history[mark->history_count++ % HISTORY] = (GrantRow) {
		.id = record->grant_id,
		.incarnation = record->incarnation,
		.request = record->request,
		.grant = record->grant,
		.checked = record->checked,
	};
	if (record->is_external && record->grant.end > tables->promised)
		tables->promised = record->grant.end;
	tables->last_clock = record->clock;
	tables->ever_granted = true;
	if (record->is_fresh)
		add_incarnation(tables, record);
}

static void
end_all(Tables *tables)
{
	for (int i = 0; i < tables->incarnation_count; i++)
		tables->incarnations[i].is_active = false;
}

static void
count_marks(const Tables *tables, int64_t *count, int64_t *sum)
{
	*count = 0;
	*sum = 0;
	for (int64_t i = 0; i < tables->worker_count; i++)
	{
		*count += tables->marks[i].is_used;
		*sum += tables->marks[i].high_water;
	}
}

/* Rows from elsewhere: marks merge by maximum, and make us a copy. */
static void
apply_restored(Tables *tables, const Record *record)
{
	MarkRow    *mark = &tables->marks[record->worker];

	if (record->overwrites)
		set_mark(tables, mark, record->mark);
	else if (record->mark > mark->high_water)
	{
		set_mark(tables, mark, record->mark);
		mark->incarnation = 0;
		tables->ownership.is_known = false;
	}
}

/* A namespace as CREATE EXTENSION makes it, above what is known of another one. */
static void
apply_created(Tables *tables, const Record *record)
{
	int64_t		worker_count = tables->worker_count;

	tables_free(tables);
	tables_create(tables, worker_count);
	tables->birth = record->birth;
	tables->ownership = record->ownership;
	tables->oid = record->ownership.identity.database;
	tables->policy = record->policy;
	tables->floor = record->mark;
}

static void
apply_template(Tables *tables, const Tables *source, const Record *record)
{
	tables_free(tables);
	tables_copy(tables, source);
	tables->oid = record->ownership.identity.database;
	tables->birth = record->birth;
}

/* "databases" are all of the server. */
void
tables_apply(Tables *databases, const Record *record)
{
	Tables	   *tables = &databases[record->database];
	IncarnationRow *row;

	switch (record->kind)
	{
		case RECORD_GRANT:
			apply_grant(tables, record);
			break;
		case RECORD_FLOOR:
			if (record->mark > tables->floor)
				tables->floor = record->mark;
			end_all(tables);
			count_marks(tables, &tables->mark_count, &tables->mark_sum);
			break;
		case RECORD_END_ALL:
			end_all(tables);
			break;
		case RECORD_END:
			row = tables_incarnation(tables, record->incarnation);
			if (row != NULL)
				row->is_active = false;
			break;
		case RECORD_IDENTITY:
			tables->ownership = record->ownership;
			break;
		case RECORD_RESTORED:
			apply_restored(tables, record);
			break;
		case RECORD_LOWERED:
			tables->marks[record->worker].high_water = record->mark;
			break;
		case RECORD_POLICY:
			tables->policy = record->policy;
			break;
		case RECORD_DROPPED:
			tables->is_dropped = true;
			tables->dropped_life = record->life;
			tables->ownership.uuid = 0;
			break;
		case RECORD_CREATED:
			apply_created(tables, record);
			break;
		case RECORD_TEMPLATE:
			apply_template(tables, &databases[record->source], record);
			break;
	}
}

/* Do the marks add up to what was granted? */
bool
tables_sums_hold(const Tables *tables)
{
	int64_t		count;
	int64_t		sum;

	count_marks(tables, &count, &sum);
	return count == tables->mark_count && sum == tables->mark_sum;
}

/* Of the workers and the floor. */
int64_t
tables_highest_mark(const Tables *tables)
{
	int64_t		highest = tables->floor;

	for (int64_t i = 0; i < tables->worker_count; i++)
		if (tables->marks[i].high_water > highest)
			highest = tables->marks[i].high_water;
	return highest;
}

/* NULL if there is none of that number. */
IncarnationRow *
tables_incarnation(const Tables *tables, int64_t id)
{
	int			low = 0;
	int			high = tables->incarnation_count;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (tables->incarnations[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < tables->incarnation_count && tables->incarnations[low].id == id ?
		&tables->incarnations[low] : NULL;
}

/* The last grant of a worker; NULL before the first. */
const GrantRow *
tables_last_grant(const Tables *tables, int32_t worker)
{
	const MarkRow *mark = &tables->marks[worker];

	return mark->history_count == 0 ? NULL :
		&mark->history[(mark->history_count - 1) % HISTORY];
}

bool
tables_recorded(const Tables *tables, int32_t worker, int64_t incarnation,
				int64_t request)
{
	const MarkRow *mark = &tables->marks[worker];

	for (int i = 0; i < HISTORY && i < mark->history_count; i++)
		if (mark->history[i].incarnation == incarnation &&
			mark->history[i].request == request)
			return true;
	return false;
}

void
log_append(Log *log, const Record *record)
{
	if (log->count == log->max)
	{
		log->max = log->max * 2 + 64;
		log->records = realloc(log->records, (size_t) log->max * sizeof(Record));
	}
	log->records[log->count++] = *record;
}

/* The first "count" records of another log. */
void
log_copy(Log *log, const Log *from, int64_t count)
{
	log->records = malloc(((size_t) count + 1) * sizeof(Record));
	if (count > 0)
		memcpy(log->records, from->records, (size_t) count * sizeof(Record));
	log->count = count;
	log->max = count + 1;
}
