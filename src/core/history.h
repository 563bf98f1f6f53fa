/*
 * history.h
 *		What a timeline's history file says about the way to it.
 *
 * The server reads the file of the present timeline and passes its lines one by one.
 * Whether they lead back to a recorded timeline beyond doubt is decided here.
 */
#ifndef IDGEN_CORE_HISTORY_H
#define IDGEN_CORE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "worker.h"

typedef struct IdgenHistory
{
	uint32_t	recorded;		/* the timeline to which the lines must lead
								 * back */
	uint32_t	present;
	uint32_t	last;			/* the ancestor read last, 0 before the first */
	bool		ends_in_entry;	/* the line read last is that of an ancestor */
	bool		is_damaged;
	bool		has_recorded;
	bool		has_target;		/* a recovery since the recorded timeline had
								 * a target */
	int			near_count;		/* the latest ancestors, whose files are
								 * evidence */
	uint32_t	near[IDGEN_SPLIT_PARTS_MAX - 1];
} IdgenHistory;

extern void idgen_history_begin(IdgenHistory *history, uint32_t recorded,
								uint32_t present);
extern void idgen_history_read_line(IdgenHistory *history, const char *line);
extern bool idgen_history_is_complete(const IdgenHistory *history);

#endif							/* IDGEN_CORE_HISTORY_H */
