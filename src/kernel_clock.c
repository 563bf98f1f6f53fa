/*
 * kernel_clock.c
 *		Ask the kernel whether the clock is synchronised (Linux: adjtimex).
 */
#include "compat.h"

#include "kernel_clock.h"

#ifdef __linux__
#include <sys/timex.h>
#endif

void
idgen_kernel_clock_read(IdgenKernelClock *clock)
{
	memset(clock, 0, sizeof(*clock));
#ifdef __linux__
	{
		struct timex state;
		int			code;

		memset(&state, 0, sizeof(state));
		code = adjtimex(&state);
		if (code < 0)
			return;
		clock->known = true;
		clock->synchronised = code != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
		clock->offset_us = (state.status & STA_NANO) ? state.offset / 1000 :
			state.offset;
		clock->max_error_us = state.maxerror;
	}
#endif
}
