/*
 * capacity.h
 *		Whether a batch can be issued as a whole.
 */
#ifndef IDGEN_CAPACITY_H
#define IDGEN_CAPACITY_H

#include "postgres.h"

#include "session/wait.h"

extern void idgen_capacity_check_batch(IdgenCall *call, int32 count);

#endif							/* IDGEN_CAPACITY_H */
