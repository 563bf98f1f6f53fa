/*
 * worker.h
 *		Which workers an authority may use, and which one a new incarnation gets.
 *
 * A worker is the number in the worker field of an ID.
 */
#ifndef IDGEN_CORE_WORKER_H
#define IDGEN_CORE_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The workers that an authority may use: those of [first, last] with
 * worker % modulus == remainder.  The modulus is 1 if it may use all of them,
 * else the number of parts that promotion policy "split" has made.
 */
typedef struct IdgenWorkerRange
{
	int64_t		first;
	int64_t		last;
	int64_t		modulus;
	int64_t		remainder;
} IdgenWorkerRange;

/* The tick up to which a worker is reserved. */
typedef struct IdgenWorkerMark
{
	int64_t		worker;
	int64_t		high_water;
} IdgenWorkerMark;

/*
 * Into how many parts the workers of a namespace are split: many if the range has
 * at least IDGEN_SPLIT_MANY_WORKERS workers, else few.  Each timeline uses one
 * part, and the next timeline uses the next part.
 */
#define IDGEN_SPLIT_PARTS_FEW		2
#define IDGEN_SPLIT_PARTS_MANY		4
#define IDGEN_SPLIT_PARTS_MAX		IDGEN_SPLIT_PARTS_MANY
#define IDGEN_SPLIT_MANY_WORKERS	64

extern bool idgen_worker_in_range(const IdgenWorkerRange *range,
								  int64_t worker);
extern int64_t idgen_worker_range_size(const IdgenWorkerRange *range);
extern int64_t idgen_worker_choose(const IdgenWorkerRange *range,
								   const int64_t *busy, size_t busy_count,
								   uint64_t random);
extern int64_t idgen_worker_earliest(const IdgenWorkerRange *range,
									 const IdgenWorkerMark *marks,
									 size_t mark_count,
									 const int64_t *held, size_t held_count);

extern int	idgen_split_parts(int64_t worker_count);
extern bool idgen_split_has_workers(int64_t worker_count, int parts);
extern int	idgen_split_class(uint32_t timeline, int parts);

extern int64_t idgen_external_workers_max(int64_t range_size,
										  int64_t server_workers);
extern int64_t idgen_external_role_max(int64_t workers_max);

#endif							/* IDGEN_CORE_WORKER_H */
