/*
 * unit.h
 *		A test program is a table of named functions; it prints TAP and fails
 *		if any check in any of them failed.
 *
 * A failed check does not end its function: the checks after it often say why.
 * Loops that would repeat the same failure ask unit_failed().
 */
#ifndef IDGEN_TEST_UNIT_H
#define IDGEN_TEST_UNIT_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define UNIT_COUNT(array)	(sizeof(array) / sizeof((array)[0]))

/* Diagnostics per test; one cause can fail a check thousands of times. */
#define UNIT_DIAGNOSTICS_MAX	10

typedef struct UnitTest
{
	const char *name;
	void		(*run) (void);
} UnitTest;

/* Failed checks of the test that runs. */
static int64_t unit_failure_count;

#define CHECK(condition) \
	unit_check((condition), #condition, __FILE__, __LINE__)
#define CHECK_EQ(actual, expected) \
	unit_check_eq((int64_t) (actual), (int64_t) (expected), #actual, \
				  __FILE__, __LINE__)

/* True if the failure just counted should still be described. */
static inline bool
unit_fail(void)
{
	return unit_failure_count++ < UNIT_DIAGNOSTICS_MAX;
}

static inline bool
unit_failed(void)
{
	return unit_failure_count > 0;
}

static inline bool
unit_check(bool condition, const char *text, const char *file, int line)
{
	if (!condition && unit_fail())
		printf("# %s:%d: not true: %s\n", file, line, text);
	return condition;
}

static inline bool
unit_check_eq(int64_t actual, int64_t expected, const char *text,
			  const char *file, int line)
{
	if (actual != expected && unit_fail())
		printf("# %s:%d: %s is %" PRId64 ", expected %" PRId64 "\n",
			   file, line, text, actual, expected);
	return actual == expected;
}

/* Run all tests; the result is the exit status of the program. */
static inline int
unit_main(const UnitTest *tests, size_t count)
{
	int			failed_count = 0;

	/* a sanitizer's abort must not swallow the lines before it */
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	printf("1..%zu\n", count);
	for (size_t i = 0; i < count; i++)
	{
		unit_failure_count = 0;
		tests[i].run();
		printf("%s %zu - %s\n", unit_failed() ? "not ok" : "ok", i + 1,
			   tests[i].name);
		if (unit_failed())
			failed_count++;
	}
	return failed_count > 0 ? 1 : 0;
}

#endif							/* IDGEN_TEST_UNIT_H */
