/*
 * background.h
 *		The background worker that an authority process runs in.
 */
#ifndef IDGEN_BACKGROUND_H
#define IDGEN_BACKGROUND_H

#include "postgres.h"

extern bool idgen_background_start(Oid database);
extern void idgen_background_connect(Oid database);

#endif							/* IDGEN_BACKGROUND_H */
