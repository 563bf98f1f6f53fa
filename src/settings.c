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
 * there is no shared memory whose size it could set.
 */
void
idgen_settings_define(bool preloaded)
{
	if (preloaded)
		DefineCustomIntVariable("idgen.max_cursors",
								"Sets the number of cursors in shared memory, for all databases.",
								"A namespace in use takes between 1 and idgen.max_workers_per_namespace of them.",
								&idgen_max_cursors,
								1024, 1, IDGEN_MAX_CURSORS_LIMIT,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.max_workers_per_namespace",
							"Sets the maximum number of workers that a namespace uses at the same time on this server.",
							"With 1, IDs are issued in real-time order.",
							&idgen_max_workers_per_namespace,
							16, 1, IDGEN_MAX_WORKERS_LIMIT,
							PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.wait_timeout",
							"Sets the maximum time that a call waits before it reports an error.",
							"A value of 0 means that calls never wait.",
							&idgen_wait_timeout_ms,
							5000, 0, 3600 * 1000,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.max_batch",
							"Sets the maximum number of IDs returned by one call of idgen_next_batch().",
							NULL,
							&idgen_max_batch,
							1000000, 1, IDGEN_MAX_BATCH_LIMIT,
							PGC_SUSET, 0, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.idle_timeout",
							"Sets the idle time after which a namespace gets no more grants.",
							"A database in which no namespace is in use has no authority process.",
							&idgen_idle_timeout_ms,
							60000, 1000, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.max_clock_step",
							"Sets the largest forward step of the system clock that is accepted.",
							"After a larger step, no grants are made until the clock is corrected or idgen_confirm_clock() is called.",
							&idgen_max_clock_step_ms,
							5000, 100, 24 * 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.max_clock_error",
							"Sets the assumed maximum difference between the clocks of servers that take over an authority from each other.",
							"A fence lasts for the horizon of the namespace plus this time.",
							&idgen_max_clock_error_ms,
							5000, 0, 24 * 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);

	DefineCustomIntVariable("idgen.grant_retention",
							"Sets how long grants and incarnations are kept for idgen_trace().",
							"Older ones are deleted; high-water marks never are.",
							&idgen_grant_retention_s,
							7 * 24 * 3600, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);

	DefineCustomEnumVariable("idgen.on_copied_authority",
							 "Sets what happens if the authority turns out to be a copy whose original may still issue IDs.",
							 "With \"refuse\", nothing is granted until idgen_adopt_namespace() is called. With \"fence\", grants are made again after a fence, which is only safe if the original never issues IDs again.",
							 &idgen_on_copied_authority,
							 IDGEN_ON_COPIED_REFUSE, on_copied_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);

	MarkGUCPrefixReserved("idgen");
}
