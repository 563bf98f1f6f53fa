/*
 * module.c
 *		Start the library.
 */
#include "compat.h"

#include "miscadmin.h"

#include "catalog/namespace_cache.h"
#include "log.h"
#include "session/at_commit.h"
#include "settings.h"
#include "shmem/shmem.h"

IDGEN_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

/*
 * If it is preloaded, the library sets up shared memory.  If it is loaded later, by
 * LOAD or by the first call of a function, it can only decode; a call that asks for
 * an ID fails and says what is missing.
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
