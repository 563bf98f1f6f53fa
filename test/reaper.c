/*
 * reaper.c
 *		Runs a command and inherits the orphans of its descendants.
 *
 * A server that is killed with kill -9 becomes a child of process 1.  In a
 * container that is often a program that never collects the dead, and as long
 * as the dead postmaster is in the process table, the next one believes that
 * it still runs and refuses to start.  So the sandbox collects them itself.
 *
 * Where the kernel has no such thing, the command is just run.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

int
main(int argc, char **argv)
{
	pid_t		command;

	if (argc < 2)
	{
		fprintf(stderr, "usage: reaper COMMAND [ARGUMENT...]\n");
		return 2;
	}

#ifdef PR_SET_CHILD_SUBREAPER
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
		fprintf(stderr, "reaper: could not become the reaper of orphans: %s\n",
				strerror(errno));
#endif

	command = fork();
	if (command < 0)
	{
		fprintf(stderr, "reaper: could not fork: %s\n", strerror(errno));
		return 126;
	}
	if (command == 0)
	{
		execvp(argv[1], argv + 1);
		fprintf(stderr, "reaper: could not run \"%s\": %s\n", argv[1],
				strerror(errno));
		_exit(127);
	}

	/* The command is in our process group and gets these by itself. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);

	for (;;)
	{
		int			status;
		pid_t		pid = wait(&status);

		if (pid == command && WIFEXITED(status))
			return WEXITSTATUS(status);
		if (pid == command && WIFSIGNALED(status))
			return 128 + WTERMSIG(status);
		if (pid < 0 && errno != EINTR)
			return 126;
	}
}
