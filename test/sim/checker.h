/*
 * checker.h
 *		What must be true of every grant and every ID.
 *
 * The checker decides nothing and shares no code with src/core: it has its own
 * idea of an ID's fields, keeps what it is told, and compares.  The first thing
 * that is wrong stays, as a text.
 *
 * It keeps a record per grant.  A grant is used by one cursor only, from low to
 * high, so that of the IDs from it the highest is enough to find a repetition;
 * "exact" keeps intervals of sequence values per worker and tick beside that,
 * which finds repetitions by itself; of grants it knows only whose an ID was.
 *
 * What is outside the contract is asked of CheckerExcuse, for each two grants.
 */
#ifndef IDGEN_SIM_CHECKER_H
#define IDGEN_SIM_CHECKER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct CheckerFormat
{
	int			timestamp_bits;
	int			worker_bits;
	int			sequence_bits;
	bool		exact;
} CheckerFormat;

/* A grant as it is committed. */
typedef struct CheckerGrant
{
	int			database;
	int64_t		worker;
	int64_t		incarnation;
	int64_t		start;
	int64_t		end;
	int			copies_needed;	/* on standbys; 0 = flushed is durable */
	int			life;			/* see contract.h */
	int			birth;
	int64_t		decided_us;		/* true time */
	int64_t		ahead_us;		/* the clock was then */
} CheckerGrant;

/* Are two grants that overlap outside the contract? */
typedef bool (*CheckerExcuse) (void *arg, const CheckerGrant *a,
							   const CheckerGrant *b);

/* An ID or a run of them, as it leaves a generator. */
typedef struct CheckerIds
{
	int			database;
	int64_t		incarnation;	/* of the cursor they came from */
	int64_t		first;
	int64_t		count;
} CheckerIds;

typedef struct Checker Checker;

extern Checker *checker_create(const CheckerFormat *format, CheckerExcuse excuse,
							   void *arg);
extern void checker_free(Checker *checker);
extern void checker_complain(Checker *checker, const char *rule,
							 const char *format,...)
			__attribute__((format(printf, 3, 4)));
extern const char *checker_fault(const Checker *checker);

/* A grant: committed and flushed; copied to a standby's disk; handed out. */
extern int32_t checker_committed(Checker *checker, const CheckerGrant *grant);
extern void checker_copied(Checker *checker, int32_t grant);
extern void checker_forgive_copies(Checker *checker, int32_t grant);
extern void checker_handed_out(Checker *checker, int32_t grant);

/*
 * A cursor has issued IDs.  Then they leave, not always in that order; *last is
 * the highest its session had before, and is moved.
 */
extern void checker_issued(Checker *checker, const CheckerIds *ids);
extern void checker_left(Checker *checker, const CheckerIds *ids, int64_t *last);

extern int64_t checker_id_count(const Checker *checker);
extern int64_t checker_grant_count(const Checker *checker);
extern int64_t checker_highest_tick(const Checker *checker);

#endif							/* IDGEN_SIM_CHECKER_H */
