/*
 * settings.c
 *		Define the configuration parameters.
 */
#include "compat.h"

#include "settings.h"

#include <limits.h>

#include "utils/guc.h"

int			idgen_max_cursors = 1024;
int			idgen_max_workers_per_namespace = 16;
int			idgen_wait_timeout_ms = 5000;
int			idgen_max_batch = 1000000;
int			idgen_idle_timeout_ms = 60000;
int			idgen_max_clock_step_ms = 5000;
int			idgen_max_clock_error_ms = 5000;
int			idgen_grant_retention_s = 7 * 24 * 3600;
int			idgen_on_copied_authority = IDGEN_ON_COPIED_REFUSE;

static const struct config_enum_entry on_copied_options[] = {
	{"refuse", IDGEN_ON_COPIED_REFUSE, false},
	{"fence", IDGEN_ON_COPIED_FENCE, false},
	{NULL, 0, false}
};

/*
 * Called when the library is loaded.  A parameter of level "postmaster" can
 * only be defined while the postmaster preloads libraries; without preloading
 * there is no shared memory for it to size.
 */
void
idgen_settings_define(bool preloaded)
{
	if (preloaded)
		DefineCustomIntVariable("idgen.max_cursors",
								"Number of cursors in shared memory, for all databases.",
								"A namespace in use holds 1 to idgen.max_workers_per_namespace of them.",
								&idgen_max_cursors,
								1024, 1, IDGEN_MAX_CURSORS_LIMIT,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.max_workers_per_namespace",
							"Most worker numbers one namespace uses at a time on this server.",
							"1 gives IDs in real-time order.",
							&idgen_max_workers_per_namespace,
							16, 1, IDGEN_MAX_WORKERS_LIMIT,
							PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.wait_timeout",
							"Longest time one call waits before it reports an error.",
							"0 never waits.",
							&idgen_wait_timeout_ms,
							5000, 0, 3600 * 1000,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.max_batch",
							"Most IDs one call of idgen_next_batch() returns.",
							NULL,
							&idgen_max_batch,
							1000000, 1, IDGEN_MAX_BATCH_LIMIT,
							PGC_SUSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.idle_timeout",
							"Time without use after which a namespace is no longer granted ahead.",
							"A database in which no namespace is used has no idgen process.",
							&idgen_idle_timeout_ms,
							60000, 1000, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.max_clock_step",
							"Forward step of the system clock up to which it is believed.",
							"After a longer one nothing is granted until the clock comes back, or the step is confirmed.",
							&idgen_max_clock_step_ms,
							5000, 100, 24 * 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.max_clock_error",
							"Most that the clocks of servers inheriting an authority may differ.",
							"A fence lasts the namespace's horizon plus this.",
							&idgen_max_clock_error_ms,
							5000, 0, 24 * 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.grant_retention",
							"Time for which idgen_trace() knows grants and incarnations.",
							"Older ones are deleted; marks never are.",
							&idgen_grant_retention_s,
							7 * 24 * 3600, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);

	DefineCustomEnumVariable("idgen.on_copied_authority",
							 "What to do when the authority is found to be a copy whose original may live.",
							 "\"refuse\" waits for idgen_adopt_namespace(); \"fence\" grants again after a fence, and is right only where the original never issues again.",
							 &idgen_on_copied_authority,
							 IDGEN_ON_COPIED_REFUSE, on_copied_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);

	MarkGUCPrefixReserved("idgen");
}
