/*
 * process.h
 *		The authority worker: the single writer of a database's grants.
 */
#ifndef IDGEN_AUTHORITY_H
#define IDGEN_AUTHORITY_H

#include "postgres.h"

extern void idgen_authority_init(void);
extern PGDLLEXPORT void idgen_authority_main(Datum main_arg);

#endif							/* IDGEN_AUTHORITY_H */
