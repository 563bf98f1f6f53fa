/*
 * text_fuzz.c
 *		The input is a text, read as an ID.
 *
 * The oracle is strtoull, which knows nothing of this code: it takes more
 * (blanks, signs), so the alphabet is looked at apart.
 */
#include <errno.h>

#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const int64_t untouched = -77;
	int64_t		number = untouched;
	bool		digits = size > 0;
	IdgenLayoutText verdict = idgen_layout_parse((const char *) data, size,
												 &number);
	char	   *copy;
	unsigned long long expected;

	for (size_t i = 0; i < size; i++)
		digits = digits && memchr("0123456789", data[i], 10) != NULL;
	FUZZ_CHECK((verdict == IDGEN_TEXT_NOT_DIGITS) == !digits);
	FUZZ_CHECK((verdict == IDGEN_TEXT_OK) == (number != untouched));
	if (!digits)
		return 0;

	copy = malloc(size + 1);
	if (copy == NULL)
		return 0;
	memcpy(copy, data, size);
	copy[size] = '\0';
	errno = 0;
	expected = strtoull(copy, NULL, 10);
	if (errno == ERANGE || expected > INT64_MAX)
		FUZZ_CHECK(verdict == IDGEN_TEXT_TOO_WIDE);
	else
	{
		char		digits_again[32];
		const char *significant = copy;

		FUZZ_CHECK(verdict == IDGEN_TEXT_OK);
		FUZZ_CHECK((unsigned long long) number == expected);
		/* written again, it is the same text but for zeros in front */
		while (significant[0] == '0' && significant[1] != '\0')
			significant++;
		snprintf(digits_again, sizeof(digits_again), "%" PRId64, number);
		FUZZ_CHECK(strcmp(digits_again, significant) == 0);
	}
	free(copy);
	return 0;
}
