/*
 * background.c
 *		Start an authority process, and connect it to its database.
 *
 * The only file that knows the interface of PostgreSQL for background workers.
 */
#include "compat.h"

#include "background.h"

#include "postmaster/bgworker.h"

/*
 * Ask the postmaster for an authority process for a database.  False if no
 * background worker slot is free.
 */
bool
idgen_background_start(Oid database)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "idgen", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "idgen_authority_main",
			sizeof(worker.bgw_function_name));
	snprintf(worker.bgw_name, sizeof(worker.bgw_name),
			 "idgen authority for database %u", database);
	strlcpy(worker.bgw_type, "idgen authority", sizeof(worker.bgw_type));
	worker.bgw_main_arg = ObjectIdGetDatum(database);
	return RegisterDynamicBackgroundWorker(&worker, NULL);
}

/* Connect this process, an authority process, to its database. */
void
idgen_background_connect(Oid database)
{
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);
}
