/*
 * module.c
 *		Start of the library.
 */
#include "compat.h"

#include "miscadmin.h"

#include "session/at_commit.h"
#include "log.h"
#include "catalog/namespace_cache.h"
#include "settings.h"
#include "shmem/shmem.h"

IDGEN_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

/*
 * Preloaded, idgen sets up its shared memory.  Loaded later, by LOAD or by the
 * first call of a function, it can decode, and says what is missing when asked
 * for an ID.
 */
void
_PG_init(void)
{
	bool		preloaded = process_shared_preload_libraries_in_progress;

	idgen_settings_define(preloaded);
	idgen_namespace_init();
	idgen_log_install();
	if (preloaded)
	{
		idgen_shmem_install_hooks();
		idgen_at_commit_install();
	}
}
