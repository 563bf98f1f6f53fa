/*
 * alert.h
 *		Tell the server log what an operator should know in time.
 */
#ifndef IDGEN_ALERT_H
#define IDGEN_ALERT_H

#include "postgres.h"

#include "catalog/marks.h"
#include "catalog/namespace_cache.h"
#include "shmem/counters.h"

extern void idgen_alert_check(const IdgenNamespace *ns, const IdgenMarks *marks,
							  int64 now, const IdgenWorkerRange *range,
							  IdgenCounters *stats);
extern void idgen_alert_pause(int64 late_us);

#endif							/* IDGEN_ALERT_H */
