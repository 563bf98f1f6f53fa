/*
 * policy.c
 *		Read and write the words of a policy, and check that a policy fits its
 *		format.
 */
#include "compat.h"

#include "catalog/policy.h"

static const char *const durability_words[] = {
	[IDGEN_DURABILITY_LOCAL] = "local",
	[IDGEN_DURABILITY_QUORUM] = "quorum"
};

static const char *const promotion_words[] = {
	[IDGEN_PROMOTION_FENCE] = "fence",
	[IDGEN_PROMOTION_SPLIT] = "split",
	[IDGEN_PROMOTION_TRUST] = "trust",
	[IDGEN_PROMOTION_REFUSE] = "refuse"
};

/* The index of a word in a list; -1 if it is not there. */
static int
find_word(const char *word, const char *const *words, int count)
{
	for (int i = 0; i < count; i++)
		if (strcmp(word, words[i]) == 0)
			return i;
	return -1;
}

/* An error (22023) about a policy; the hint may be NULL. */
static void
invalid_policy(const char *message, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg_internal("%s", message),
			 hint ? errhint("%s", hint) : 0));
}

/* Read a durability; false if there is none of this name. */
bool
idgen_durability_parse(const char *word, IdgenDurability *durability)
{
	int			found = find_word(word, durability_words, lengthof(durability_words));

	if (found >= 0)
		*durability = (IdgenDurability) found;
	return found >= 0;
}

/* Read a durability that somebody has given; an error (22023) if there is none. */
IdgenDurability
idgen_durability_require(const char *word)
{
	IdgenDurability durability = IDGEN_DURABILITY_LOCAL;

	if (!idgen_durability_parse(word, &durability))
		invalid_policy("durability must be \"local\" or \"quorum\"", NULL);
	return durability;
}

const char *
idgen_durability_word(IdgenDurability durability)
{
	return durability_words[durability];
}

/* Read a promotion policy; false if there is none of this name. */
bool
idgen_promotion_parse(const char *word, IdgenPromotion *promotion)
{
	int			found = find_word(word, promotion_words, lengthof(promotion_words));

	if (found >= 0)
		*promotion = (IdgenPromotion) found;
	return found >= 0;
}

/* Read a promotion policy that somebody has given; an error (22023) if there is none. */
IdgenPromotion
idgen_promotion_require(const char *word)
{
	IdgenPromotion promotion = IDGEN_PROMOTION_REFUSE;

	if (!idgen_promotion_parse(word, &promotion))
		invalid_policy("promotion must be \"fence\", \"split\", \"trust\" or \"refuse\"", NULL);
	return promotion;
}

const char *
idgen_promotion_word(IdgenPromotion promotion)
{
	return promotion_words[promotion];
}

/*
 * An error unless the workers can be split as the row says.  A namespace that was
 * split at creation keeps its parts under every policy.
 */
static void
check_parts(const IdgenNamespaceRow *row)
{
	if (row->split_parts == 1 && row->promotion != IDGEN_PROMOTION_SPLIT)
		return;
	if (row->split_parts != IDGEN_SPLIT_PARTS_FEW &&
		row->split_parts != IDGEN_SPLIT_PARTS_MANY)
		invalid_policy(psprintf("promotion \"%s\" does not split workers into %d parts",
								idgen_promotion_word(row->promotion), row->split_parts),
					   NULL);
	if (!idgen_split_has_workers((int64) row->last_worker - row->first_worker + 1,
								 row->split_parts))
		invalid_policy(psprintf("promotion \"split\" needs at least %d workers in a range",
								row->split_parts),
					   "Each timeline uses one part of the workers. Use a wider range, or choose another promotion policy when you create the namespace.");
}

/*
 * An error (22023) unless the range and the policy of a namespace fit its format and
 * each other.  Rows that are created, altered or restored are checked alike; the
 * layout itself has been validated.
 */
void
idgen_policy_check(const IdgenNamespaceRow *row)
{
	int64		worker_count = idgen_layout_worker_count(&row->layout);

	if (row->grant_interval_ms < row->layout.tick_ms ||
		row->grant_interval_ms > row->layout.horizon_ms)
		invalid_policy("grant_interval must be between one tick and the horizon", NULL);
	if (row->run_ahead_ms < 0 || row->run_ahead_ms >= row->layout.horizon_ms)
		invalid_policy("run_ahead must be shorter than the horizon", NULL);
	if (row->first_worker < 0 || row->last_worker >= worker_count ||
		row->first_worker > row->last_worker)
		invalid_policy(psprintf("first_worker and last_worker must be a range within 0 to " INT64_FORMAT,
								worker_count - 1), NULL);
	check_parts(row);
	if (row->promotion == IDGEN_PROMOTION_TRUST &&
		row->durability != IDGEN_DURABILITY_QUORUM)
		invalid_policy("promotion \"trust\" needs durability \"quorum\"", NULL);
}
