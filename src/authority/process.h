/*
 * process.h
 *		The authority process: the single writer of a database's grants.
 */
#ifndef IDGEN_PROCESS_H
#define IDGEN_PROCESS_H

#include "postgres.h"

extern PGDLLEXPORT void idgen_authority_main(Datum main_arg);

#endif							/* IDGEN_PROCESS_H */
