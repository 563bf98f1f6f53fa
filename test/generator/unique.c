/*
 * unique.c
 *		Checks ledgers: is any ID in them twice, does one file's order fall?
 *
 *		unique FILE...
 *
 * A line that begins with a digit begins with an ID; others are ignored.  A last
 * line without its end was being written when its writer was killed: that ID
 * was never handed out.  Prints "ids=... files=... duplicates=... decreases=...
 * torn=..."; the exit code is 1 if there are duplicates or decreases, or no ID
 * at all.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX		10
#define LINE_BYTES		512
#define RADIX_BITS		16
#define RADIX_COUNT		(1 << RADIX_BITS)

static uint64_t *ids = NULL;
static size_t id_count = 0;
static size_t id_max = 0;
static size_t decreases = 0;
static size_t torn = 0;

static void
die(const char *what)
{
	fprintf(stderr, "unique: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void
add(uint64_t id)
{
	if (id_count == id_max)
	{
		id_max = id_max == 0 ? 1 << 20 : id_max * 2;
		ids = realloc(ids, id_max * sizeof(*ids));
		if (ids == NULL)
			die("no memory");
	}
	ids[id_count++] = id;
}

static void
read_file(const char *name)
{
	FILE	   *file = fopen(name, "r");
	char		line[LINE_BYTES];
	uint64_t	last = 0;

	if (file == NULL)
		die(name);
	while (fgets(line, sizeof(line), file) != NULL)
	{
		uint64_t	id = 0;

		if (line[0] < '0' || line[0] > '9')
			continue;
		if (strchr(line, '\n') == NULL)
		{
			torn++;
			continue;
		}
		for (const char *at = line; *at >= '0' && *at <= '9'; at++)
			id = id * 10 + (uint64_t) (*at - '0');
		if (id <= last && decreases++ < SHOWN_MAX)
			fprintf(stderr, "unique: %" PRIu64 " after %" PRIu64 " in %s\n", id,
					last, name);
		last = id;
		add(id);
	}
	if (ferror(file))
		die(name);
	fclose(file);
}

/* Least significant digit first: linear, and indifferent to the order. */
static void
sort(void)
{
	uint64_t   *from = ids;
	uint64_t   *to = malloc((id_count + 1) * sizeof(*to));
	size_t	   *places = malloc(RADIX_COUNT * sizeof(*places));

	if (to == NULL || places == NULL)
		die("no memory");
	for (int shift = 0; shift < 64; shift += RADIX_BITS)
	{
		uint64_t   *swap = from;
		size_t		place = 0;

		memset(places, 0, RADIX_COUNT * sizeof(*places));
		for (size_t i = 0; i < id_count; i++)
			places[(from[i] >> shift) & (RADIX_COUNT - 1)]++;
		for (size_t i = 0; i < RADIX_COUNT; i++)
		{
			size_t		here = places[i];

			places[i] = place;
			place += here;
		}
		for (size_t i = 0; i < id_count; i++)
			to[places[(from[i] >> shift) & (RADIX_COUNT - 1)]++] = from[i];
		from = to;
		to = swap;
	}
	ids = from;
	free(to);
	free(places);
}

int
main(int argc, char **argv)
{
	size_t		duplicates = 0;

	for (int i = 1; i < argc; i++)
		read_file(argv[i]);
	sort();
	for (size_t i = 1; i < id_count; i++)
		if (ids[i] == ids[i - 1] && duplicates++ < SHOWN_MAX)
			fprintf(stderr, "unique: %" PRIu64 " is there twice\n", ids[i]);
	printf("ids=%zu files=%d duplicates=%zu decreases=%zu torn=%zu\n", id_count,
		   argc - 1, duplicates, decreases, torn);
	return id_count == 0 || duplicates > 0 || decreases > 0 ? 1 : 0;
}
