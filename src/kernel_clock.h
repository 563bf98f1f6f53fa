/*
 * kernel_clock.h
 *		What the kernel says about the quality of the clock.
 */
#ifndef IDGEN_KERNEL_CLOCK_H
#define IDGEN_KERNEL_CLOCK_H

#include "postgres.h"

typedef struct IdgenKernelClock
{
	bool		known;			/* the kernel said something; if not, nothing
								 * below counts */
	bool		synchronised;
	int64		offset_us;		/* that is still being corrected */
	int64		max_error_us;
} IdgenKernelClock;

extern void idgen_kernel_clock_read(IdgenKernelClock *clock);

#endif							/* IDGEN_KERNEL_CLOCK_H */
