/*
 * alert.h
 *		Messages to the server log that an operator should see in time.
 */
#ifndef IDGEN_ALERT_H
#define IDGEN_ALERT_H

#include "postgres.h"

#include "catalog/marks.h"
#include "catalog/namespace_cache.h"
#include "shmem/counters.h"

/*
 * What this process has logged lately; times on the monotonic clock, 0 =
 * never.
 */
typedef struct IdgenAlerts
{
	int64		minute_us;		/* when the minute began in which messages are
								 * counted */
	int			count;			/* those about namespaces in that minute */
	int64		pause_us;		/* when a pause of the process was logged */
	int64		failure_us;		/* when a round failed last, ... */
	int			failure;		/* ... and its SQLSTATE */
} IdgenAlerts;

extern void idgen_alert_check(IdgenAlerts *alerts, const IdgenNamespace *ns,
							  const IdgenMarks *marks, int64 now,
							  const IdgenWorkerRange *range, IdgenCounters *stats);
extern void idgen_alert_pause(IdgenAlerts *alerts, int64 late_us);
extern void idgen_alert_mended(IdgenAlerts *alerts, const char *tables);
extern void idgen_alert_failure(IdgenAlerts *alerts, const char *message, int sqlstate);

#endif							/* IDGEN_ALERT_H */
