/*
 * eviction.h
 *		Which cursor makes room when every slot is taken.
 */
#ifndef IDGEN_EVICTION_H
#define IDGEN_EVICTION_H

#include "postgres.h"

#include "shmem/slot.h"

extern bool idgen_eviction_choose(const IdgenSlotInfo *owner, int *slot, uint64 *generation);

#endif							/* IDGEN_EVICTION_H */
