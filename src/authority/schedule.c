/*
 * schedule.c
 *		Remember when cursors were used, and when they are due.
 *
 * With this a round costs nothing for cursors that are not due: their
 * namespaces are not even looked up.
 */
#include "compat.h"

#include "authority/schedule.h"

#include "clock.h"
#include "settings.h"

/* The pause before a cursor that got nothing is tried again. */
#define PUT_OFF_US		INT64_C(200000)

/* When a slot was last seen in use, and when its cursor is due. */
typedef struct IdgenActivity
{
	uint64		generation;		/* of the cursor that the rest is about; 0 =
								 * none */
	uint64		issued_count;
	int64		changed_at_us;	/* monotonic */
	int64		due_at_ms;		/* wall clock; 0 = not known */
	int64		along_at_ms;	/* from when it is served along with others */
	int64		put_off_until_us;	/* monotonic */
} IdgenActivity;

/* Nothing has been seen yet; the memory is of the current context. */
void
idgen_schedule_init(IdgenSchedule *schedule)
{
	schedule->activities = palloc0(idgen_slot_count() * sizeof(IdgenActivity));
	schedule->last_use_us = idgen_clock_monotonic_us();
}

/*
 * Has a cursor gone without this process's doing?  One that was given to
 * another namespace has left its incarnation behind.
 */
bool
idgen_schedule_find_gone(IdgenSchedule *schedule, const IdgenCursorSurvey *surveys,
						 int count)
{
	uint64	   *generations = palloc0(idgen_slot_count() * sizeof(uint64));
	bool		gone = false;

	for (int i = 0; i < count; i++)
		generations[surveys[i].slot] = surveys[i].generation;
	for (int i = 0; i < idgen_slot_count(); i++)
	{
		IdgenActivity *activity = &schedule->activities[i];

		if (activity->generation == 0 || activity->generation == generations[i])
			continue;
		activity->generation = 0;
		gone = true;
	}
	pfree(generations);
	return gone;
}

/* A session has asked for something in this database. */
void
idgen_schedule_note_asked(IdgenSchedule *schedule)
{
	schedule->last_use_us = idgen_clock_monotonic_us();
}

/* Note whether a cursor was used since the last look. */
void
idgen_schedule_note_use(IdgenSchedule *schedule, const IdgenCursorSurvey *survey)
{
	IdgenActivity *activity = &schedule->activities[survey->slot];

	if (activity->generation == survey->generation && survey->readable &&
		activity->issued_count == survey->issued_count)
		return;
	if (activity->generation != survey->generation)
		activity->due_at_ms = activity->along_at_ms = 0;
	activity->generation = survey->generation;
	if (survey->readable)
		activity->issued_count = survey->issued_count;
	activity->changed_at_us = idgen_clock_monotonic_us();
	schedule->last_use_us = activity->changed_at_us;
}

/* This process has ended a cursor. */
void
idgen_schedule_forget(IdgenSchedule *schedule, const IdgenCursorSurvey *survey)
{
	schedule->activities[survey->slot].generation = 0;
}

static bool
idle_since(int64 used_at_us)
{
	return idgen_clock_monotonic_us() - used_at_us >= (int64) idgen_idle_timeout_ms * 1000;
}

/* Has this cursor been left alone for idgen.idle_timeout? */
bool
idgen_schedule_is_idle(const IdgenSchedule *schedule, const IdgenCursorSurvey *survey)
{
	return idle_since(schedule->activities[survey->slot].changed_at_us);
}

/* Has the whole database? */
bool
idgen_schedule_is_database_idle(const IdgenSchedule *schedule)
{
	return idle_since(schedule->last_use_us);
}

/*
 * Is a cursor due or, with "along", so nearly due that it may be served along
 * with others?
 */
bool
idgen_schedule_is_due(const IdgenSchedule *schedule, const IdgenCursorSurvey *survey,
					  bool along)
{
	const IdgenActivity *activity = &schedule->activities[survey->slot];

	return idgen_clock_monotonic_us() >= activity->put_off_until_us &&
		idgen_clock_wall_ms() >= (along ? activity->along_at_ms : activity->due_at_ms);
}

/*
 * Remember when a cursor is due again, after a round that served its
 * namespace.
 */
void
idgen_schedule_note_due(IdgenSchedule *schedule, const IdgenJob *job,
						const IdgenCursorSurvey *survey)
{
	IdgenActivity *activity = &schedule->activities[survey->slot];
	const IdgenLayout *layout = &job->ns->row.layout;

	if (!survey->readable)
		return;
	if (activity->generation != survey->generation)
	{
		activity->generation = survey->generation;
		activity->issued_count = survey->issued_count;
		activity->changed_at_us = idgen_clock_monotonic_us();
	}
	(void) idgen_layout_unix_ms(layout, Max(idgen_job_due_at(job, survey->granted_end), 0),
								&activity->due_at_ms);
	(void) idgen_layout_unix_ms(layout, Max(idgen_job_due_along(job, survey->granted_end), 0),
								&activity->along_at_ms);
	activity->put_off_until_us = 0;
}

/*
 * A cursor got nothing, because its namespace could not be served, or because
 * its grant waits for standbys.  Do not try it again all the time.
 */
void
idgen_schedule_put_off(IdgenSchedule *schedule, const IdgenCursorSurvey *survey)
{
	schedule->activities[survey->slot].put_off_until_us =
		idgen_clock_monotonic_us() + PUT_OFF_US;
}

/* Milliseconds until a cursor is due. */
int64
idgen_schedule_due_in_ms(const IdgenSchedule *schedule, const IdgenCursorSurvey *survey)
{
	const IdgenActivity *activity = &schedule->activities[survey->slot];

	return Max(activity->due_at_ms - idgen_clock_wall_ms(),
			   (activity->put_off_until_us - idgen_clock_monotonic_us()) / 1000);
}
