/*
 * quorum.h
 *		Up to which position of the WAL enough standbys have flushed.
 */
#ifndef IDGEN_CORE_QUORUM_H
#define IDGEN_CORE_QUORUM_H

#include <stdbool.h>
#include <stdint.h>

/* A standby that counts. */
typedef struct IdgenStandby
{
	int32_t		priority;		/* 1 = first named; lower counts first */
	uint64_t	flushed;		/* its position */
} IdgenStandby;

extern uint64_t idgen_quorum_position(IdgenStandby *standbys, int32_t count,
									  int32_t needed, bool by_priority);

#endif							/* IDGEN_CORE_QUORUM_H */
