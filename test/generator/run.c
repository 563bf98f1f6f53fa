/*
 * run.c
 *		External generators as a program: any number in one process, each with a
 *		connection and a ledger of its own.
 *
 *		run [OPTION...] CONNINFO
 *
 *		--namespace NAME	default "default"
 *		--generators N		default 1
 *		--count N			IDs of each generator; 0 (default) = no bound
 *		--seconds S			issue for so long; 0 (default) = no bound
 *		--rate N			IDs per second and generator; 0 (default) = all it can
 *		--length MS			of a grant; 0 (default) = the namespace's
 *		--ledger PREFIX		write PREFIX.<generator>
 *		--lose N			lose every n-th answer (see generator.h)
 *		--stagger MS		begin at moments spread over so long
 *		--warmup S			count latencies from then on
 *
 * A ledger has a line "<id>" for each ID and a line
 * "grant <incarnation> <worker> <grant> <start_ms> <end_ms> <latency_us>" for
 * each grant, in the order in which they came.  An ID is issued when its line
 * has been written: the process may be killed at any time.  SIGTERM ends it in
 * order: incarnations are deactivated.
 *
 * The last line of the output says what was done:
 * "ids=... grants=... p50_us=..." (latencies are of grants, not of activations).
 * The exit code is 0 if every generator ended as it should.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "generator.h"

#define BUFFER_SIZE		65536
#define LINE_MAX_BYTES	160
#define PATH_BYTES		1024

/* IDs of one generator before the others have their turn. */
#define BURST_MAX		2048

/* The loop looks at the clock and at signals at least so often. */
#define WAIT_MAX_MS		100

/* After the end was asked for, the server is waited for so long. */
#define END_WITHIN_MS	10000

typedef struct Settings
{
	IdgenGeneratorOptions generator;
	int			generators;
	int64_t		count;
	int64_t		seconds;
	int64_t		rate;
	int64_t		stagger_ms;
	int64_t		warmup_seconds;
	const char *ledger;			/* NULL = none is written */
} Settings;

/* A generator and its ledger. */
typedef struct Source
{
	IdgenGenerator *generator;
	int64_t		begin_ms;		/* monotonic */
	int64_t		issued;
	int			file;			/* -1 = none */
	size_t		buffered;
	char		buffer[BUFFER_SIZE];
} Source;

/* Latencies of all grants but the activations'. */
static int64_t *latencies = NULL;
static size_t latency_count = 0;
static size_t latency_max = 0;
static int64_t measured_from_ms = 0;	/* monotonic */

static volatile sig_atomic_t stopping = 0;

static void
die(const char *what)
{
	fprintf(stderr, "run: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void
stop(int signal_number)
{
	(void) signal_number;
	stopping = 1;
}

static int64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --------------------------------------------------------------------
 * The ledger
 * -------------------------------------------------------------------- */

static void
ledger_flush(Source *source)
{
	size_t		done = 0;

	while (done < source->buffered)
	{
		ssize_t		written = write(source->file, source->buffer + done,
									source->buffered - done);

		if (written < 0 && errno != EINTR)
			die("could not write the ledger");
		if (written > 0)
			done += (size_t) written;
	}
	source->buffered = 0;
}

/* Room for one more line. */
static char *
ledger_line(Source *source)
{
	if (source->buffered + LINE_MAX_BYTES > BUFFER_SIZE)
		ledger_flush(source);
	return source->buffer + source->buffered;
}

static void
ledger_add_id(Source *source, int64_t id)
{
	char		digits[24];
	int			count = 0;
	char	   *at;

	if (source->file < 0)
		return;
	at = ledger_line(source);
	do
		digits[count++] = (char) ('0' + id % 10);
	while ((id /= 10) > 0);
	source->buffered += (size_t) count + 1;
	while (count > 0)
		*at++ = digits[--count];
	*at = '\n';
}

/* A grant came: note it, before anything is issued from it. */
static void
note_grant(void *arg, const IdgenGeneratorGrant *grant)
{
	Source	   *source = arg;

	if (!grant->activated && now_ms() >= measured_from_ms)
	{
		if (latency_count == latency_max)
		{
			latency_max = latency_max == 0 ? 1024 : latency_max * 2;
			latencies = realloc(latencies, latency_max * sizeof(*latencies));
			if (latencies == NULL)
				die("no memory");
		}
		latencies[latency_count++] = grant->latency_us;
	}
	if (source->file >= 0)
		source->buffered += (size_t)
			snprintf(ledger_line(source), LINE_MAX_BYTES,
					 "grant %lld %d %lld %lld %lld %lld\n",
					 (long long) grant->incarnation, grant->worker,
					 (long long) grant->grant_id, (long long) grant->start_ms,
					 (long long) grant->end_ms, (long long) grant->latency_us);
}

/* --------------------------------------------------------------------
 * The generators
 * -------------------------------------------------------------------- */

static void
open_source(Source *source, const Settings *settings, int number)
{
	IdgenGeneratorOptions options = settings->generator;
	char		path[PATH_BYTES];

	options.granted = note_grant;
	options.arg = source;
	source->generator = idgen_generator_create(&options);
	if (source->generator == NULL)
		die("no memory");
	source->begin_ms = now_ms() +
		settings->stagger_ms * number / settings->generators;
	source->file = -1;
	if (settings->ledger == NULL)
		return;
	snprintf(path, sizeof(path), "%s.%d", settings->ledger, number);
	source->file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
	if (source->file < 0)
		die(path);
}

/* How many IDs this generator may issue now. */
static int64_t
allowance(const Source *source, const Settings *settings, int64_t now)
{
	int64_t		allowed = BURST_MAX;

	if (settings->count > 0 && settings->count - source->issued < allowed)
		allowed = settings->count - source->issued;
	if (settings->rate > 0 &&
		(now - source->begin_ms) * settings->rate / 1000 - source->issued < allowed)
		allowed = (now - source->begin_ms) * settings->rate / 1000 - source->issued;
	return allowed;
}

/*
 * Issue a burst.  Returns the milliseconds after which there may be more; a
 * grant that comes is noticed by its socket.
 */
static int64_t
issue(Source *source, const Settings *settings)
{
	int64_t		wanted = allowance(source, settings, now_ms());

	while (wanted > 0)
	{
		IdgenGeneratorRun run;

		if (idgen_generator_issue(source->generator, wanted, &run) !=
			IDGEN_CURSOR_ISSUED)
			return run.retry_ms;
		for (int64_t i = 0; i < run.count; i++)
			ledger_add_id(source, run.first + i);
		source->issued += run.count;
		wanted -= run.count;
	}
	return settings->rate > 0 ? 1 + 1000 / settings->rate : 0;
}

static bool
over(const Source *source)
{
	IdgenGeneratorState state = idgen_generator_state(source->generator);

	return state == IDGEN_GENERATOR_ENDED || state == IDGEN_GENERATOR_FAILED;
}

static int64_t
lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* One turn of one generator; returns how long it can wait. */
static int64_t
turn(Source *source, const Settings *settings, bool ready,
	 IdgenGeneratorWish *wish)
{
	int64_t		now = now_ms();
	int64_t		wait_ms = WAIT_MAX_MS;

	if (now < source->begin_ms && !stopping)
	{
		wish->socket = -1;
		return source->begin_ms - now;
	}
	if (stopping || (settings->count > 0 && source->issued >= settings->count))
		idgen_generator_end(source->generator);
	idgen_generator_wish(source->generator, wish);
	if (ready || wish->wait_ms == 0)
		idgen_generator_step(source->generator);
	if (idgen_generator_state(source->generator) == IDGEN_GENERATOR_RUNNING)
		wait_ms = lesser(wait_ms, issue(source, settings));
	if (source->file >= 0)
		ledger_flush(source);
	idgen_generator_wish(source->generator, wish);
	return wish->wait_ms < 0 ? wait_ms : lesser(wait_ms, wish->wait_ms);
}

static void
run(Source *sources, const Settings *settings)
{
	int			count = settings->generators;
	int64_t		stop_at = settings->seconds > 0 ?
		now_ms() + settings->seconds * 1000 : INT64_MAX;
	int64_t		give_up_at = INT64_MAX;
	struct pollfd *sockets = calloc((size_t) count, sizeof(*sockets));
	bool		running = true;

	if (sockets == NULL)
		die("no memory");
	while (running && now_ms() < give_up_at)
	{
		int64_t		wait_ms = WAIT_MAX_MS;

		if (now_ms() >= stop_at)
			stopping = 1;
		if (stopping && give_up_at == INT64_MAX)
			give_up_at = now_ms() + END_WITHIN_MS;
		running = false;
		for (int i = 0; i < count; i++)
		{
			IdgenGeneratorWish wish;

			if (over(&sources[i]))
			{
				sockets[i].fd = -1;
				continue;
			}
			running = true;
			wait_ms = lesser(wait_ms, turn(&sources[i], settings,
										   sockets[i].revents != 0, &wish));
			sockets[i].fd = wish.socket;
			sockets[i].events = wish.events;
			sockets[i].revents = 0;
		}
		if (running && poll(sockets, (nfds_t) count, (int) wait_ms) < 0 &&
			errno != EINTR)
			die("could not poll");
	}
	free(sockets);
}

/* --------------------------------------------------------------------
 * The program
 * -------------------------------------------------------------------- */

static int64_t
read_number(const char *text)
{
	char	   *end;
	long long	number;

	errno = 0;
	number = strtoll(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || number < 0)
	{
		fprintf(stderr, "run: not a number: %s\n", text);
		exit(2);
	}
	return number;
}

static void
read_options(int argc, char **argv, Settings *settings)
{
	static const struct option options[] = {
		{"namespace", required_argument, NULL, 'n'},
		{"generators", required_argument, NULL, 'g'},
		{"count", required_argument, NULL, 'c'},
		{"seconds", required_argument, NULL, 's'},
		{"rate", required_argument, NULL, 'r'},
		{"length", required_argument, NULL, 'l'},
		{"ledger", required_argument, NULL, 'd'},
		{"lose", required_argument, NULL, 'o'},
		{"stagger", required_argument, NULL, 't'},
		{"warmup", required_argument, NULL, 'w'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	*settings = (Settings)
	{
		.generator = {.namespace_name = "default", .conninfo = ""}, .generators = 1
	};
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
	{
		switch (option)
		{
			case 'n':
				settings->generator.namespace_name = optarg;
				break;
			case 'g':
				settings->generators = (int) read_number(optarg);
				break;
			case 'c':
				settings->count = read_number(optarg);
				break;
			case 's':
				settings->seconds = read_number(optarg);
				break;
			case 'r':
				settings->rate = read_number(optarg);
				break;
			case 'l':
				settings->generator.length_ms = read_number(optarg);
				break;
			case 'd':
				settings->ledger = optarg;
				break;
			case 'o':
				settings->generator.lose_every = read_number(optarg);
				break;
			case 't':
				settings->stagger_ms = read_number(optarg);
				break;
			case 'w':
				settings->warmup_seconds = read_number(optarg);
				break;
			default:
				exit(2);
		}
	}
	if (optind < argc)
		settings->generator.conninfo = argv[optind];
}

static int
compare_numbers(const void *a, const void *b)
{
	int64_t		x = *(const int64_t *) a;
	int64_t		y = *(const int64_t *) b;

	return (x > y) - (x < y);
}

static long long
percentile(int percent)
{
	return latency_count == 0 ? 0 :
		(long long) latencies[(latency_count - 1) * (size_t) percent / 100];
}

/* Say what was done; the number of generators that did not end as they should. */
static int
report(const Source *sources, int count)
{
	IdgenGeneratorCounts sum = {0};
	long long	ids = 0;
	int			failed = 0;

	for (int i = 0; i < count; i++)
	{
		const IdgenGeneratorCounts *counts =
			idgen_generator_counts(sources[i].generator);

		ids += sources[i].issued;
		sum.grants += counts->grants;
		sum.connections += counts->connections;
		sum.repeated += counts->repeated;
		sum.rejected += counts->rejected;
		sum.refused += counts->refused;
		if (idgen_generator_state(sources[i].generator) == IDGEN_GENERATOR_ENDED)
			continue;
		failed++;
		fprintf(stderr, "run: generator %d did not end: %s\n", i,
				idgen_generator_error(sources[i].generator));
	}
	if (latency_count > 0)
		qsort(latencies, latency_count, sizeof(*latencies), compare_numbers);
	printf("ids=%lld grants=%lld connections=%lld repeated=%lld rejected=%lld"
		   " refused=%lld failed=%d p50_us=%lld p99_us=%lld max_us=%lld\n",
		   ids, (long long) sum.grants, (long long) sum.connections,
		   (long long) sum.repeated, (long long) sum.rejected,
		   (long long) sum.refused, failed, percentile(50), percentile(99),
		   percentile(100));
	return failed;
}

int
main(int argc, char **argv)
{
	Settings	settings;
	Source	   *sources;
	struct sigaction action = {.sa_handler = stop};

	read_options(argc, argv, &settings);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	signal(SIGPIPE, SIG_IGN);

	measured_from_ms = now_ms() + settings.warmup_seconds * 1000;
	sources = calloc((size_t) settings.generators, sizeof(*sources));
	if (sources == NULL)
		die("no memory");
	for (int i = 0; i < settings.generators; i++)
		open_source(&sources[i], &settings, i);
	run(sources, &settings);
	return report(sources, settings.generators) == 0 ? 0 : 1;
}
