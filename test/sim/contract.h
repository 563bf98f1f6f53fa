/*
 * contract.h
 *		What doc/guarantees.md puts outside the contract, by true time.
 *
 * A life is what one server granted on one timeline, or as one copy of a data
 * directory; lives are a tree.  A birth is one creation of a namespace.  Nothing
 * here is read by a server, and no code is shared with src/core.
 */
#ifndef IDGEN_SIM_CONTRACT_H
#define IDGEN_SIM_CONTRACT_H

#include "checker.h"

#define LIVES_MAX		96
#define BIRTHS_MAX		200

typedef struct Life
{
	int			parent;			/* -1 = none */
	uint32_t	timeline;
	int64_t		promoted_us;	/* true time of the promotion; of a copy: since when
								 * its original must not grant */
	int64_t		ahead_us;		/* its clock was at its promotion */
	bool		is_copy;		/* on the timeline of its parent */
} Life;

typedef struct Birth
{
	int			life;			/* that created it */
	int64_t		created_us;
	int			dropped_life;	/* that dropped the one before; -1 = nobody */
	bool		was_database;	/* and not the extension alone */
} Birth;

typedef struct Contract
{
	bool		is_split;
	int64_t		modulus;
	int64_t		fence_us;		/* N */
	int64_t		error_us;		/* most that clocks differ */
	Life		lives[LIVES_MAX];
	int			life_count;
	Birth		births[BIRTHS_MAX];
	int			birth_count;
	int64_t		excused;		/* pairs of grants */
} Contract;

extern bool contract_is_ancestor(const Contract *contract, int ancestor, int life);
extern int64_t contract_successor_us(const Contract *contract, int ancestor,
									 int life);
extern int64_t contract_as_if_us(const Contract *contract, int64_t decided_us,
								 int64_t ahead_us, int64_t other_ahead_us);
extern bool contract_excuses(void *contract, const CheckerGrant *a,
							 const CheckerGrant *b);

#endif							/* IDGEN_SIM_CONTRACT_H */
