/*
 * promise.h
 *		Bound on disk what is issued outside the server or ahead of the clock.
 */
#ifndef IDGEN_PROMISE_H
#define IDGEN_PROMISE_H

#include "postgres.h"

#include "authority/round.h"

extern void idgen_promise_make(const IdgenRound *round);

#endif							/* IDGEN_PROMISE_H */
