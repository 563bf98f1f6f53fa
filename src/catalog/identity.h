/*
 * identity.h
 *		Where this authority lives: the identity of this server and database, and
 *		the history of its timeline (doc/design.md, "Identity of the authority").
 */
#ifndef IDGEN_IDENTITY_H
#define IDGEN_IDENTITY_H

#include "postgres.h"

#include "core/takeover.h"

extern void idgen_identity_read(IdgenIdentity *identity);
extern void idgen_identity_read_history(IdgenPromotionFacts *facts);

#endif							/* IDGEN_IDENTITY_H */
