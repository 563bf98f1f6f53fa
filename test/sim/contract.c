/*
 * contract.c
 *		Is a repetition outside the contract?  See contract.h.
 *
 * Of "Outside the contract" in doc/guarantees.md only what is below is generated and excused:
 *
 * (b) Under "split", of two servers whose timelines are equal modulo m: one that
 *	   is no ancestor of the other, of which the one that was promoted first
 *	   grants less than N before the other's promotion or later; an ancestor that
 *	   grants after its own successor's promotion and less than N before the
 *	   other's promotion or later.
 * (e) What an original grants after its copy was adopted, or fenced by setting.
 * (g) What was granted before a database was dropped, if it is created again less
 *	   than N after a promotion; likewise the extension, if one server dropped it
 *	   and its heir creates it.
 *
 * The rest of it is never generated; see server.c.
 */
#include "contract.h"

bool
contract_is_ancestor(const Contract *contract, int ancestor, int life)
{
	for (int at = life; at >= 0; at = contract->lives[at].parent)
		if (at == ancestor)
			return true;
	return false;
}

/*
 * When the successor of an ancestor began that leads to a life.  A copy that nobody
 * adopted is none.
 */
int64_t
contract_successor_us(const Contract *contract, int ancestor, int life)
{
	int64_t		promoted_us = INT64_MAX;

	for (int at = life; at != ancestor; at = contract->lives[at].parent)
		if (contract->lives[at].promoted_us < promoted_us)
			promoted_us = contract->lives[at].promoted_us;
	return promoted_us;
}

/*
 * (e) Has "grant" been given after a copy took over, which the other life is, or
 * descends from, and its own is not?
 */
static bool
is_of_original(const Contract *contract, const CheckerGrant *grant, int other)
{
	for (int at = other; at >= 0; at = contract->lives[at].parent)
		if (contract->lives[at].is_copy &&
			!contract_is_ancestor(contract, at, grant->life) &&
			grant->decided_us >= contract->lives[at].promoted_us)
			return true;
	return false;
}

/*
 * The true time of a grant, as clocks that differ no more than assumed would have
 * it: one that is further ahead of the other's grants as late as that.
 */
int64_t
contract_as_if_us(const Contract *contract, int64_t decided_us, int64_t ahead_us,
				  int64_t other_ahead_us)
{
	int64_t		excess_us = ahead_us - other_ahead_us - contract->error_us;

	return excess_us > 0 ? decided_us + excess_us : decided_us;
}

/* (b) A grant of a life beside that of another, promoted after it. */
static bool
is_beside(const Contract *contract, const CheckerGrant *grant, int other)
{
	const Life *life = &contract->lives[other];
	int64_t		since_us = life->promoted_us - contract->fence_us;
	int64_t		as_if_us = contract_as_if_us(contract, grant->decided_us,
											 grant->ahead_us, life->ahead_us);

	if (contract->lives[grant->life].timeline % contract->modulus !=
		life->timeline % contract->modulus)
		return false;
	if (!contract_is_ancestor(contract, grant->life, other))
		return as_if_us > since_us;
	return grant->decided_us > since_us &&
		grant->decided_us >= contract_successor_us(contract, grant->life, other);
}

/* (g) Was the later of two namespaces of a name created soon after a promotion? */
static bool
is_born_soon(const Contract *contract, int a, int b)
{
	const Birth *birth = &contract->births[a > b ? a : b];

	return birth->dropped_life >= 0 &&
		(birth->was_database || birth->dropped_life != birth->life) &&
		birth->created_us - contract->lives[birth->life].promoted_us <
		contract->fence_us;
}

/* May both be handed out, although they overlap? */
bool
contract_excuses(void *arg, const CheckerGrant *a, const CheckerGrant *b)
{
	Contract   *contract = arg;
	const CheckerGrant *first = a;
	const CheckerGrant *second = b;
	bool		is_excused;

	is_excused = a->birth != b->birth && is_born_soon(contract, a->birth, b->birth);
	if (!is_excused && a->life != b->life)
	{
		/* the one that was promoted first; an ancestor always was */
		if (contract->lives[a->life].promoted_us > contract->lives[b->life].promoted_us ||
			contract_is_ancestor(contract, b->life, a->life))
		{
			first = b;
			second = a;
		}
		is_excused = is_of_original(contract, first, second->life) ||
			is_of_original(contract, second, first->life) ||
			(contract->is_split && is_beside(contract, first, second->life));
	}
	contract->excused += is_excused;
	return is_excused;
}
