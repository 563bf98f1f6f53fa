/*
 * marks.c
 *		Keep in memory the marks of the namespaces in use.
 *
 * Marks kept here are exactly those that were last read from or written to the tables.
 * On any doubt (a failed round, a row that is not where it was left, changed tables)
 * they are forgotten, and read again before the next use.
 */
#include "compat.h"

#include "catalog/marks.h"

#include "utils/memutils.h"

#include "random.h"

static IdgenMarks **known = NULL;
static int	known_count = 0;
static int	known_max = 0;

/* The marks of a namespace; NULL if none are kept. */
IdgenMarks *
idgen_marks_find_known(const pg_uuid_t *uuid)
{
	for (int i = 0; i < known_count; i++)
		if (idgen_same_uuid(&known[i]->uuid, uuid))
			return known[i];
	return NULL;
}

/* The marks of a namespace; if none are kept, new ones, empty and not loaded. */
IdgenMarks *
idgen_marks_get(const pg_uuid_t *uuid, const char *name)
{
	MemoryContext context;
	IdgenMarks *marks = idgen_marks_find_known(uuid);

	if (marks != NULL)
		return marks;
	if (known_count == known_max)
	{
		int			max = Max(8, known_max * 2);

		known = known == NULL ?
			MemoryContextAlloc(TopMemoryContext, max * sizeof(IdgenMarks *)) :
			repalloc(known, max * sizeof(IdgenMarks *));
		known_max = max;
	}
	context = AllocSetContextCreate(TopMemoryContext, "idgen marks",
									ALLOCSET_SMALL_SIZES);
	marks = MemoryContextAllocZero(context, sizeof(IdgenMarks));
	marks->context = context;
	marks->uuid = *uuid;
	strlcpy(marks->name, name, NAMEDATALEN);
	known[known_count++] = marks;
	return marks;
}

/*
 * Free the marks of the namespaces for which "gone" returns true.  Must not be
 * called during a round, which has pointers to marks.
 */
void
idgen_marks_free_gone(bool (*gone) (const IdgenMarks *marks))
{
	for (int i = known_count - 1; i >= 0; i--)
	{
		IdgenMarks *marks = known[i];

		if (!gone(marks))
			continue;
		known[i] = known[--known_count];
		MemoryContextDelete(marks->context);
	}
}

/* Forget all marks, so that they are read again before the next use. */
void
idgen_marks_forget_all(void)
{
	for (int i = 0; i < known_count; i++)
		known[i]->loaded = false;
}

/* The index of a worker's mark, or of the place where it belongs. */
static int
place_of(const IdgenMarks *marks, int32 worker)
{
	int			low = 0;
	int			high = marks->count;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (marks->marks[middle].worker < worker)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The mark of a worker; NULL if it was never used. */
IdgenMark *
idgen_marks_find(IdgenMarks *marks, int32 worker)
{
	int			place = place_of(marks, worker);

	if (place < marks->count && marks->marks[place].worker == worker)
		return &marks->marks[place];
	return NULL;
}

/* Add the mark of a worker that has none, or replace the one it has. */
IdgenMark *
idgen_marks_add(IdgenMarks *marks, const IdgenMark *mark)
{
	IdgenMark  *existing = idgen_marks_find(marks, mark->worker);
	int			place;

	if (existing != NULL)
	{
		*existing = *mark;
		return existing;
	}
	if (marks->count == marks->max)
	{
		int			max = Max(16, marks->max * 2);

		marks->marks = marks->marks == NULL ?
			MemoryContextAlloc(marks->context, max * sizeof(IdgenMark)) :
			repalloc(marks->marks, max * sizeof(IdgenMark));
		marks->max = max;
	}
	place = place_of(marks, mark->worker);
	memmove(&marks->marks[place + 1], &marks->marks[place],
			(marks->count - place) * sizeof(IdgenMark));
	marks->marks[place] = *mark;
	marks->count++;
	return &marks->marks[place];
}

/*
 * The workers that are not free, ascending; palloc'd.  A worker is not free if
 * something is reserved past "now", or if it belongs to an external
 * incarnation that may come back for more.  Whether an incarnation of this
 * server is alive is known from its cursor, not here.
 */
int64 *
idgen_marks_taken(const IdgenMarks *marks, int64 now, size_t *count)
{
	int64	   *workers = palloc((marks->count + 1) * sizeof(int64));

	*count = 0;
	for (int i = 0; i < marks->count; i++)
		if (marks->marks[i].high_water > now ||
			(marks->marks[i].external && marks->marks[i].active))
			workers[(*count)++] = marks->marks[i].worker;
	return workers;
}

/* Note that an incarnation has ended. */
void
idgen_marks_note_ended(IdgenMarks *marks, int64 incarnation)
{
	for (int i = 0; i < marks->count; i++)
		if (marks->marks[i].incarnation == incarnation)
			marks->marks[i].active = false;
}

/* Up to where each worker is reserved; palloc'd, as many as there are marks. */
IdgenWorkerMark *
idgen_marks_list(const IdgenMarks *marks)
{
	IdgenWorkerMark *list = palloc((marks->count + 1) * sizeof(IdgenWorkerMark));

	for (int i = 0; i < marks->count; i++)
	{
		list[i].worker = marks->marks[i].worker;
		list[i].high_water = marks->marks[i].high_water;
	}
	return list;
}

/*
 * Is a worker of a range reserved past "now" for an external incarnation?  It is until
 * the grant ends, even if the incarnation has ended.  Workers in the parts of other
 * timelines do not count.
 */
bool
idgen_marks_is_held(const IdgenMark *mark, const IdgenWorkerRange *range, int64 now)
{
	return mark->external && mark->high_water > now &&
		idgen_worker_in_range(range, mark->worker);
}

/*
 * Count the workers of a range that external incarnations hold: those of all roles, and
 * those of one role.
 */
void
idgen_marks_count_external(const IdgenMarks *marks, const IdgenWorkerRange *range,
						   int64 now, const char *role,
						   int64 *all, int64 *of_role)
{
	*all = 0;
	*of_role = 0;
	for (int i = 0; i < marks->count; i++)
	{
		const IdgenMark *mark = &marks->marks[i];

		if (!idgen_marks_is_held(mark, range, now))
			continue;
		(*all)++;
		if (strcmp(mark->role, role) == 0)
			(*of_role)++;
	}
}

/* The highest mark of any worker; 0 if nothing was granted. */
int64
idgen_marks_highest(const IdgenMarks *marks)
{
	int64		highest = 0;

	for (int i = 0; i < marks->count; i++)
		highest = Max(highest, marks->marks[i].high_water);
	return highest;
}

/*
 * The next worker in turn, over all namespaces in use.  False at the end of each pass
 * over them.
 */
bool
idgen_marks_next(const char **name, int32 *worker)
{
	static int	at = 0;
	static int	at_mark = 0;

	while (at < known_count)
	{
		const IdgenMarks *marks = known[at];

		if (marks->loaded && at_mark < marks->count)
		{
			*name = marks->name;
			*worker = marks->marks[at_mark++].worker;
			return true;
		}
		at++;
		at_mark = 0;
	}
	at = 0;
	return false;
}
