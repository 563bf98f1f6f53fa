/*
 * schedule.h
 *		When each cursor was last used, and when it is due for more.
 */
#ifndef IDGEN_SCHEDULE_H
#define IDGEN_SCHEDULE_H

#include "postgres.h"

#include "authority/job.h"
#include "shmem/pool.h"

struct IdgenActivity;

typedef struct IdgenSchedule
{
	struct IdgenActivity *activities;	/* [slot_count] */
	int64		last_use_us;	/* monotonic: of any namespace of this
								 * database */
} IdgenSchedule;

extern void idgen_schedule_init(IdgenSchedule *schedule);
extern bool idgen_schedule_find_gone(IdgenSchedule *schedule,
									 const IdgenCursorSurvey *surveys, int count);
extern void idgen_schedule_note_asked(IdgenSchedule *schedule);
extern void idgen_schedule_note_use(IdgenSchedule *schedule,
									const IdgenCursorSurvey *survey);
extern void idgen_schedule_forget(IdgenSchedule *schedule,
								  const IdgenCursorSurvey *survey);
extern bool idgen_schedule_is_idle(const IdgenSchedule *schedule,
								   const IdgenCursorSurvey *survey);
extern bool idgen_schedule_is_database_idle(const IdgenSchedule *schedule);
extern bool idgen_schedule_is_due(const IdgenSchedule *schedule,
								  const IdgenCursorSurvey *survey, bool along);
extern void idgen_schedule_note_due(IdgenSchedule *schedule, const IdgenJob *job,
									const IdgenCursorSurvey *survey);
extern void idgen_schedule_put_off(IdgenSchedule *schedule,
								   const IdgenCursorSurvey *survey);
extern int64 idgen_schedule_due_in_ms(const IdgenSchedule *schedule,
									  const IdgenCursorSurvey *survey);

#endif							/* IDGEN_SCHEDULE_H */
