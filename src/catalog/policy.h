/*
 * policy.h
 *		The policy of a namespace: its words, and what fits a format.
 */
#ifndef IDGEN_POLICY_H
#define IDGEN_POLICY_H

#include "postgres.h"

#include "catalog/rows.h"

extern bool idgen_durability_parse(const char *word, IdgenDurability *durability);
extern IdgenDurability idgen_durability_require(const char *word);
extern const char *idgen_durability_word(IdgenDurability durability);
extern bool idgen_promotion_parse(const char *word, IdgenPromotion *promotion);
extern IdgenPromotion idgen_promotion_require(const char *word);
extern const char *idgen_promotion_word(IdgenPromotion promotion);
extern void idgen_policy_check(const IdgenNamespaceRow *row);

#endif							/* IDGEN_POLICY_H */
