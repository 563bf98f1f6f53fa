/*
 * settings.h
 *		The configuration parameters idgen.*
 *
 * A time is in the unit with which its name ends; the limits are part of the
 * contract of each parameter.
 */
#ifndef IDGEN_SETTINGS_H
#define IDGEN_SETTINGS_H

#include "postgres.h"

#define IDGEN_MAX_CURSORS_LIMIT			65536
#define IDGEN_MAX_WORKERS_LIMIT			256
#define IDGEN_MAX_BATCH_LIMIT			10000000

/* What to do with an authority that is a copy, whose original may still grant. */
typedef enum IdgenOnCopied
{
	IDGEN_ON_COPIED_REFUSE,
	IDGEN_ON_COPIED_FENCE
} IdgenOnCopied;

extern int	idgen_max_cursors;	/* postmaster */
extern int	idgen_max_workers_per_namespace;	/* sighup */
extern int	idgen_wait_timeout_ms;	/* user; 0 = never wait */
extern int	idgen_max_batch;	/* superuser */
extern int	idgen_idle_timeout_ms;	/* sighup */
extern int	idgen_max_clock_step_ms;	/* sighup */
extern int	idgen_max_clock_error_ms;	/* sighup */
extern int	idgen_grant_retention_s;	/* sighup */
extern int	idgen_on_copied_authority;	/* sighup; an IdgenOnCopied */

extern void idgen_settings_define(bool preloaded);

#endif							/* IDGEN_SETTINGS_H */
