/*
 * generator.h
 *		One external generator: an incarnation that is fed grants over a
 *		connection, and issues from them.
 *
 * Nothing here blocks.  The caller asks with idgen_generator_wish() what to wait
 * for, and calls idgen_generator_step() when it has come; in between it issues.
 *
 *		           step                step: activated          end
 *		  (created) --> connecting ... ---------------> RUNNING ---> ENDING
 *		                    ^                            |   |          |
 *		                    | connection lost: the same  |   | IG008:   | deactivated,
 *		                    | request again              |   | afresh   | or nothing was held
 *		                    +----------------------------+   v          v
 *		                                                (activate)     ENDED
 *
 * An error that no retry mends makes it FAILED.  A generator is of use only in
 * the process that created it: a forked child would continue the same cursor.
 */
#ifndef IDGEN_GENERATOR_H
#define IDGEN_GENERATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/cursor.h"

typedef struct IdgenGenerator IdgenGenerator;

typedef enum IdgenGeneratorState
{
	IDGEN_GENERATOR_RUNNING,	/* also while it connects or activates */
	IDGEN_GENERATOR_ENDING,		/* issues no more, gives its worker back */
	IDGEN_GENERATOR_ENDED,
	IDGEN_GENERATOR_FAILED
} IdgenGeneratorState;

/* A grant as it came. */
typedef struct IdgenGeneratorGrant
{
	int64_t		incarnation;
	int64_t		grant_id;
	int32_t		worker;
	int64_t		start_ms;		/* since the namespace's epoch */
	int64_t		end_ms;
	int64_t		latency_us;		/* from the first time it was asked for */
	bool		activated;		/* the first of its incarnation */
} IdgenGeneratorGrant;

typedef struct IdgenGeneratorOptions
{
	const char *conninfo;
	const char *namespace_name;
	int64_t		length_ms;		/* of a grant; 0 = the namespace's own */
	int64_t		lose_every;		/* for tests: drop the connection instead of
								 * reading every n-th answer; 0 = never */
	void		(*granted) (void *arg, const IdgenGeneratorGrant *grant);
	void	   *arg;
} IdgenGeneratorOptions;

typedef struct IdgenGeneratorCounts
{
	int64_t		grants;
	int64_t		connections;
	int64_t		repeated;		/* requests sent again with the same id */
	int64_t		rejected;		/* incarnations that ended by IG008 */
	int64_t		refused;		/* answers that only said to try again */
} IdgenGeneratorCounts;

/* Consecutive IDs. */
typedef struct IdgenGeneratorRun
{
	int64_t		first;
	int64_t		count;
	int64_t		retry_ms;		/* if refused: wait so long, or until a grant came */
} IdgenGeneratorRun;

/* What to wait for. */
typedef struct IdgenGeneratorWish
{
	int			socket;			/* -1 = none */
	short		events;			/* of poll() */
	int64_t		wait_ms;		/* step then in any case; -1 = no need */
} IdgenGeneratorWish;

extern IdgenGenerator *idgen_generator_create(const IdgenGeneratorOptions *options);
extern void idgen_generator_free(IdgenGenerator *generator);
extern void idgen_generator_step(IdgenGenerator *generator);
extern void idgen_generator_wish(const IdgenGenerator *generator,
								 IdgenGeneratorWish *wish);
extern IdgenCursorCode idgen_generator_issue(IdgenGenerator *generator,
											 int64_t count,
											 IdgenGeneratorRun *run);
extern void idgen_generator_end(IdgenGenerator *generator);
extern IdgenGeneratorState idgen_generator_state(const IdgenGenerator *generator);
extern const char *idgen_generator_error(const IdgenGenerator *generator);
extern const IdgenGeneratorCounts *idgen_generator_counts(const IdgenGenerator *generator);

#endif							/* IDGEN_GENERATOR_H */
