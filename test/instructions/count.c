/*
 * count.c
 *		Counts the instructions of one statement, in a server that runs under
 *		callgrind with --instr-atstart=no.
 *
 * The statement runs twice: what is done once per session, the caches and the
 * first grant, is not counted.  The count comes out as a file of callgrind's
 * that names the label.
 */
#include "postgres.h"

#include <valgrind/callgrind.h>

#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

static void
run(const char *statement)
{
	if (SPI_execute(statement, false, 0) < 0)
		elog(ERROR, "could not run: %s", statement);
}

/* count_instructions(statement text, label text) */
PG_FUNCTION_INFO_V1(count_instructions);
Datum
count_instructions(PG_FUNCTION_ARGS)
{
	const char *statement = text_to_cstring(PG_GETARG_TEXT_PP(0));
	const char *label = text_to_cstring(PG_GETARG_TEXT_PP(1));

	if (!RUNNING_ON_VALGRIND)
		elog(ERROR, "this server does not run under valgrind");
	SPI_connect();
	run(statement);
	CALLGRIND_START_INSTRUMENTATION;
	CALLGRIND_ZERO_STATS;
	run(statement);
	CALLGRIND_DUMP_STATS_AT(label);
	CALLGRIND_STOP_INSTRUMENTATION;
	SPI_finish();
	PG_RETURN_VOID();
}

/* Nothing is issued here: what the statement itself costs. */
PG_FUNCTION_INFO_V1(count_constant);
Datum
count_constant(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(INT64_C(1));
}
