/*
 * hand_over.h
 *		What the ticket of a hand-over says, besides format and lineage.
 */
#ifndef IDGEN_HAND_OVER_H
#define IDGEN_HAND_OVER_H

#include "postgres.h"

#include "utils/uuid.h"

typedef struct IdgenHandOver
{
	pg_uuid_t	number;			/* random; the nil uuid = no ticket */
	int64		greatest_id;	/* that can have been issued on the side that
								 * handed over; 0 = none */
} IdgenHandOver;

static inline bool
idgen_hand_over_is_none(const IdgenHandOver *ticket)
{
	const pg_uuid_t nil = {{0}};

	return memcmp(&ticket->number, &nil, sizeof(nil)) == 0;
}

#endif							/* IDGEN_HAND_OVER_H */
