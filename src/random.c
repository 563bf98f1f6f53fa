/*
 * random.c
 *		Make random identifiers.
 */
#include "compat.h"

#include "random.h"

/* A double, and so a number in JSON, holds this many bits without loss. */
#define NUMBER_BITS 53

static void
random_bytes(void *bytes, size_t count)
{
	if (!pg_strong_random(bytes, count))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
}

/* A random (version 4) uuid. */
void
idgen_random_uuid(pg_uuid_t *uuid)
{
	random_bytes(uuid->data, UUID_LEN);
	uuid->data[6] = (uuid->data[6] & 0x0f) | 0x40;
	uuid->data[8] = (uuid->data[8] & 0x3f) | 0x80;
}

/*
 * A random positive number, for incarnations and grants.  It is not counted,
 * because a counter would repeat itself after a failover that lost its last values.
 *
 * It is below 2^53, so that it survives being a number in JSON.  Among a
 * million recorded incarnations, a new number is already taken with a
 * probability of 1e-10.  The primary key then refuses it, and the round is
 * repeated with other numbers.  Just as rarely, a new number is that of an
 * incarnation lost in a failover; then the tokens differ.  The number of a
 * grant is only compared with those of other grants of its incarnation.
 */
int64
idgen_random_number(void)
{
	uint64		number;

	do
		random_bytes(&number, sizeof(number));
	while ((number &= (UINT64CONST(1) << NUMBER_BITS) - 1) == 0);
	return (int64) number;
}
