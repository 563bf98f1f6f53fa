/*
 * replay.c
 *		Runs a fuzz target on files, without libFuzzer; prints TAP.
 *
 *		<target>_replay NAME FILE...
 *
 * One test: none of the files fails.  A failed check or a report of a sanitizer
 * ends the program; then the file is named.
 */
#include <signal.h>
#include <unistd.h>

#include <sanitizer/common_interface_defs.h>

#include "fuzz.h"

/* Longer inputs are not in a corpus, see FUZZ_LENGTH in the Makefile. */
#define INPUT_MAX	4096

static const char *target;
static const char *current = "";

/* The program ends: say where.  Also in a signal handler, so plain writes. */
static void
name_input(void)
{
	char		line[512];
	int			length = snprintf(line, sizeof(line), "not ok 1 - %s: %s\n",
								  target, current);

	if (write(STDOUT_FILENO, line, (size_t) length) < 0)
		_exit(2);
}

static void
aborted(int signal_number)
{
	name_input();
	_exit(128 + signal_number);
}

/* False if the file cannot be read. */
static bool
replay(const char *path)
{
	static uint8_t buffer[INPUT_MAX];
	FILE	   *file = fopen(path, "rb");
	size_t		size;
	uint8_t    *input;

	current = path;
	if (file == NULL)
		return false;
	size = fread(buffer, 1, sizeof(buffer), file);
	fclose(file);

	/* of exactly its size, so that a read past its end is noticed */
	input = malloc(size > 0 ? size : 1);
	if (input == NULL)
		return false;
	memcpy(input, buffer, size);
	(void) LLVMFuzzerTestOneInput(input, size);
	free(input);
	return true;
}

int
main(int argc, char **argv)
{
	if (argc < 3)
	{
		fprintf(stderr, "usage: %s NAME FILE...\n", argv[0]);
		return 2;
	}
	target = argv[1];
	signal(SIGABRT, aborted);
	__sanitizer_set_death_callback(name_input);
	printf("1..1\n");
	fflush(stdout);
	for (int i = 2; i < argc; i++)
		if (!replay(argv[i]))
		{
			name_input();
			return 1;
		}
	printf("ok 1 - %s: %d inputs\n", target, argc - 2);
	return 0;
}
