/*
 * front.c
 *		Preloaded into test servers in front of libfaketime, for two calls.
 *
 * adjtimex(): what the kernel says of its clock is what a file says,
 * "synchronised" or anything else.
 *
 * select(): libfaketime notes in a variable that it is inside the real one.  The
 * postmaster of PostgreSQL 15 starts background workers in a signal handler,
 * usually inside select(), so they would inherit that note and see the true time
 * for ever.  The call goes past libfaketime.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/timex.h>

int
adjtimex(struct timex *state)
{
	const char *path = getenv("IDGEN_TEST_KERNEL_CLOCK");
	FILE	   *file = path ? fopen(path, "r") : NULL;
	char		word[32] = "";

	if (file != NULL)
	{
		if (fgets(word, sizeof(word), file) == NULL)
			word[0] = '\0';
		fclose(file);
	}
	memset(state, 0, sizeof(*state));
	if (strncmp(word, "synchronised", 12) == 0)
		return TIME_OK;
	state->status = STA_UNSYNC;
	return TIME_ERROR;
}

typedef int (*SelectFunction) (int, fd_set *, fd_set *, fd_set *, struct timeval *);

static SelectFunction real_select;

/* Before main: nothing is looked up in a signal handler. */
__attribute__((constructor)) static void
find_select(void)
{
	void	   *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	real_select = (SelectFunction) dlsym(library, "select");
}

int
select(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
	   struct timeval *timeout)
{
	return real_select(count, readable, writable, exceptional, timeout);
}
