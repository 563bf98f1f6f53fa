/*
 * history_test.c
 *		History files: what PostgreSQL writes, and what may become of it.
 */
#include <string.h>

#include "history.h"
#include "unit.h"

#define ENTRY(timeline) timeline "\t0/30001F8\tno recovery target specified\n"

/* Read a text as the server does, line by line. */
static IdgenHistory
read_text(const char *text, uint32_t recorded, uint32_t present)
{
	IdgenHistory history;
	char		line[1024];

	idgen_history_begin(&history, recorded, present);
	while (*text != '\0')
	{
		const char *end = strchr(text, '\n');
		size_t		length = end == NULL ? strlen(text) : (size_t) (end - text) + 1;

		memcpy(line, text, length);
		line[length] = '\0';
		idgen_history_read_line(&history, line);
		text += length;
	}
	return history;
}

static bool
is_complete(const char *text, uint32_t recorded, uint32_t present)
{
	IdgenHistory history = read_text(text, recorded, present);

	return idgen_history_is_complete(&history);
}

static void
test_written_by_postgres(void)
{
	const char *text = ENTRY("1") "\n" ENTRY("2") "\n" ENTRY("4");
	IdgenHistory history;

	CHECK(is_complete(ENTRY("1"), 1, 2));
	for (uint32_t recorded = 0; recorded < 8; recorded++)
		CHECK_EQ(is_complete(text, recorded, 7), recorded == 1 || recorded == 2 || recorded == 4);
	CHECK(is_complete("4294967294\tFFFFFFFF/FFFFFFFF\tno recovery target specified\n", UINT32_MAX - 1, UINT32_MAX));
	CHECK(is_complete("# a comment\n" ENTRY("1"), 1, 2));

	history = read_text(text, 1, 5);
	CHECK_EQ(history.near_count, 2);
	CHECK_EQ(history.near[0], 2);
	CHECK_EQ(history.near[1], 4);
	history = read_text(ENTRY("1") ENTRY("2") ENTRY("3") ENTRY("4") ENTRY("5"), 1, 6);
	CHECK_EQ(history.near_count, 3);
	CHECK_EQ(history.near[0], 3);
	CHECK_EQ(history.near[2], 5);
}

static void
test_target(void)
{
	static const char *const texts[] = {
		ENTRY("1") "\n" "2\t0/30001F8\tbefore 2026-01-01 00:00:00+00\n" "\n" ENTRY("3"),
		ENTRY("1") "\n" "2\t0/30001F8\tat restore point \"no recovery target specified\"\n" "\n" ENTRY("3"),
		ENTRY("1") "\n" "2\t0/30001F8\tno recovery target specified, but\n" "\n" ENTRY("3"),
		ENTRY("1") "\n" "2\t0/30001F8\tno recovery target\n" "\n" ENTRY("3"),
		ENTRY("1") "\n" "2\t0/30001F8\tno recovery target specifiec\n" "\n" ENTRY("3"),
		ENTRY("1") "\n" "2\t0/30001F8\t\n" "\n" ENTRY("3"),
	};

	for (size_t i = 0; i < UNIT_COUNT(texts); i++)
		for (uint32_t recorded = 1; recorded < 4; recorded++)
		{
			IdgenHistory history = read_text(texts[i], recorded, 4);

			CHECK(idgen_history_is_complete(&history));
			CHECK_EQ(history.has_target, recorded <= 2);
		}
}

/* Wherever a file is cut, it is complete only if it ends behind an entry. */
static void
test_cut(void)
{
	const char *text = ENTRY("1") "\n" ENTRY("2") "\n" ENTRY("3");
	char		cut[256];

	for (size_t length = 0; length <= strlen(text); length++)
	{
		memcpy(cut, text, length);
		cut[length] = '\0';
		CHECK_EQ(is_complete(cut, 1, 4), length > 1 && cut[length - 1] == '\n' && cut[length - 2] != '\n');
	}
	CHECK(!is_complete(text + 1, 2, 4));
}

static void
test_damaged(void)
{
	static const char *const texts[] = {
		"",
		"\n",
		"# " ENTRY("1"),
		ENTRY("0"),
		ENTRY("-1"),
		ENTRY(" 1"),
		ENTRY("x1"),
		ENTRY("1x"),
		ENTRY("4294967297"),
		ENTRY("18446744073709551617"),
		ENTRY("1") ENTRY("1"),
		ENTRY("1") ENTRY("3") ENTRY("2"),
		ENTRY("1") ENTRY("9"),
		ENTRY("1") ENTRY("10"),
		ENTRY("1") "rubbish\n" ENTRY("3"),
		ENTRY("1") "\n\n",
		"1\n",
		"1\t0/30001F8\n",
		"1\t\tno recovery target specified\n",
		"1 0/30001F8\tno recovery target specified\n",
		"1\t0/\tno recovery target specified\n",
		"1\t/1\tno recovery target specified\n",
		"1\t0 30001F8\tno recovery target specified\n",
		"1\t0/30001F8 no recovery target specified\n",
		"1\t0/30001G8\tno recovery target specified\n",
		"1\t0/1230001F8\tno recovery target specified\n",
	};

	for (size_t i = 0; i < UNIT_COUNT(texts); i++)
		if (!CHECK(!is_complete(texts[i], 1, 9)))
			printf("# in text %zu\n", i);
}

static const UnitTest tests[] = {
	{"history: what PostgreSQL writes leads to every ancestor", test_written_by_postgres},
	{"history: a target counts since the recorded timeline", test_target},
	{"history: a file that was cut is noticed", test_cut},
	{"history: a line that is not exactly right is damage", test_damaged},
};

int
main(void)
{
	return unit_main(tests, UNIT_COUNT(tests));
}
