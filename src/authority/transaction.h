/*
 * transaction.h
 *		The transactions of the authority process.
 */
#ifndef IDGEN_TRANSACTION_H
#define IDGEN_TRANSACTION_H

#include "postgres.h"

struct IdgenAuthority;

typedef struct IdgenTransaction
{
	struct IdgenAuthority *authority;
	MemoryContext context;		/* the current one throughout, so that what is
								 * allocated outlives the transaction */
	uint64		generation_before;	/* the last generation given out before */
} IdgenTransaction;

extern void idgen_transaction_init(IdgenTransaction *transaction,
								   struct IdgenAuthority *authority);
extern void idgen_transaction_begin(const IdgenTransaction *transaction);
extern void idgen_transaction_commit(const IdgenTransaction *transaction);
extern void idgen_transaction_abort(const IdgenTransaction *transaction, char *message);

#endif							/* IDGEN_TRANSACTION_H */
