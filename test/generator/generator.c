/*
 * generator.c
 *		Activate, prefetch, retry, issue, deactivate; see generator.h.
 *
 * Why an answer may be lost without harm: a grant is durable when the server
 * sends it, and the server gives the same answer to the same request id as long
 * as nothing followed it.  So a request keeps its id, and its predecessor, until
 * it has been answered, over any number of connections.  A lost answer to an
 * activation is different: nobody knows its token, so its incarnation is left
 * to expire, and another is activated.
 *
 * The next grant is asked for when idgen_grant_due_at() says so, one length
 * before the cursor runs dry, as the server does for its own.
 */
#include "generator.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <libpq-fe.h>

#include "core/layout.h"

/* Before what failed is tried again. */
#define RETRY_MS			100

/* A connection that says nothing for so long is given up. */
#define ANSWER_WITHIN_MS	30000

#define UUID_BYTES	16
#define UUID_SIZE	37			/* 32 digits, 4 hyphens, a terminator */
#define TOKEN_SIZE	33
#define ERROR_SIZE	200
#define NUMBER_SIZE 21			/* an int64 in digits */
#define PARAMS_MAX	6

typedef enum Link
{
	LINK_DOWN,					/* until retry_at_ms */
	LINK_CONNECTING,
	LINK_IDLE,
	LINK_ASKING					/* "question" waits for its answer */
} Link;

typedef enum Question
{
	ASK_FORMAT,
	ASK_ACTIVATE,
	ASK_ACQUIRE,
	ASK_DEACTIVATE
} Question;

struct IdgenGenerator
{
	IdgenGeneratorOptions options;
	IdgenGeneratorState state;
	IdgenGeneratorCounts counts;
	char		error[ERROR_SIZE];

	/* --- the connection */
	PGconn	   *connection;
	Link		link;
	Question	question;
	PostgresPollingStatusType polling;	/* while connecting */
	int64_t		retry_at_ms;	/* monotonic: nothing is asked before */
	int64_t		give_up_at_ms;	/* monotonic: of this connection or answer */

	/* --- the incarnation; 0 = none */
	int64_t		incarnation;
	char		token[TOKEN_SIZE];
	int64_t		last_grant;

	/* --- the request not yet answered */
	bool		request_open;
	bool		request_sent;	/* at least once */
	char		request_id[UUID_SIZE];
	int64_t		asked_at_us;	/* for the first time */
	int64_t		acquire_count;	/* requests sent, for lose_every */

	/* --- what it issues from */
	bool		layout_known;
	IdgenLayout layout;
	IdgenCursor cursor;
	int64_t		length_ticks;	/* of the last grant */
	int64_t		last_tick;		/* issued by earlier incarnations; -1 = none */
	int32_t		last_worker;
};

/* --------------------------------------------------------------------
 * Small things
 * -------------------------------------------------------------------- */

static int64_t
read_clock_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t
monotonic_ms(void)
{
	return read_clock_us(CLOCK_MONOTONIC) / 1000;
}

static int64_t
wall_ms(void)
{
	return read_clock_us(CLOCK_REALTIME) / 1000;
}

static int64_t
now_tick(const IdgenGenerator *g)
{
	return idgen_layout_tick_at(&g->layout, wall_ms());
}

/* A random (version 4) uuid; false if there is no randomness to be had. */
static bool
make_uuid(char *text)
{
	unsigned char bytes[UUID_BYTES];
	char	   *at = text;

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t) sizeof(bytes))
		return false;
	bytes[6] = (bytes[6] & 0x0f) | 0x40;
	bytes[8] = (bytes[8] & 0x3f) | 0x80;
	for (int i = 0; i < UUID_BYTES; i++)
	{
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		at += snprintf(at, 3, "%02x", bytes[i]);
	}
	return true;
}

static bool
over(const IdgenGenerator *g)
{
	return g->state == IDGEN_GENERATOR_ENDED ||
		g->state == IDGEN_GENERATOR_FAILED;
}

/* --------------------------------------------------------------------
 * The connection
 * -------------------------------------------------------------------- */

static void
disconnect(IdgenGenerator *g)
{
	PQfinish(g->connection);
	g->connection = NULL;
	g->link = LINK_DOWN;
	g->retry_at_ms = monotonic_ms() + RETRY_MS;
}

/* No retry can help.  Only the first line: details may quote what was sent. */
static void
fail(IdgenGenerator *g, const char *error)
{
	snprintf(g->error, sizeof(g->error), "%.*s", (int) strcspn(error, "\n"), error);
	disconnect(g);
	g->state = IDGEN_GENERATOR_FAILED;
}

static void
connect_start(IdgenGenerator *g)
{
	g->connection = PQconnectStart(g->options.conninfo);
	if (g->connection == NULL || PQstatus(g->connection) == CONNECTION_BAD)
	{
		disconnect(g);
		return;
	}
	g->polling = PGRES_POLLING_WRITING;
	g->link = LINK_CONNECTING;
	g->give_up_at_ms = monotonic_ms() + ANSWER_WITHIN_MS;
}

static short
polling_events(PostgresPollingStatusType polling)
{
	return polling == PGRES_POLLING_READING ? POLLIN : POLLOUT;
}

/* Is the socket ready for what libpq waits for? */
static bool
connect_ready(const IdgenGenerator *g)
{
	struct pollfd wanted = {
		.fd = PQsocket(g->connection),
		.events = polling_events(g->polling)
	};

	return poll(&wanted, 1, 0) > 0;
}

/* Go on connecting; false if there is something to wait for. */
static bool
connect_go_on(IdgenGenerator *g)
{
	if (!connect_ready(g))
	{
		if (monotonic_ms() >= g->give_up_at_ms)
			disconnect(g);
		return false;
	}
	g->polling = PQconnectPoll(g->connection);
	if (g->polling == PGRES_POLLING_FAILED)
		disconnect(g);
	else if (g->polling == PGRES_POLLING_OK)
	{
		PQsetnonblocking(g->connection, 1);
		g->counts.connections++;
		g->link = LINK_IDLE;
	}
	return g->link == LINK_IDLE || g->link == LINK_CONNECTING;
}

static void
send_question(IdgenGenerator *g, Question question, const char *sql, int count,
			  const char *const *params)
{
	g->question = question;
	g->link = LINK_ASKING;
	g->give_up_at_ms = monotonic_ms() + ANSWER_WITHIN_MS;
	if (PQsendQueryParams(g->connection, sql, count, NULL, params, NULL, NULL,
						  0) == 0 ||
		PQflush(g->connection) < 0)
		disconnect(g);
}

/* --------------------------------------------------------------------
 * Asking
 * -------------------------------------------------------------------- */

static void
ask_format(IdgenGenerator *g)
{
	const char *params[] = {g->options.namespace_name};

	send_question(g, ASK_FORMAT,
				  "SELECT f ->> 'kind', f ->> 'timestamp_bits', f ->> 'worker_bits',"
				  " f ->> 'sequence_bits', f ->> 'epoch_ms', f ->> 'tick_ms',"
				  " f ->> 'horizon_ms' FROM idgen_format($1) f",
				  1, params);
}

static void
ask_activate(IdgenGenerator *g)
{
	const char *params[] = {g->options.namespace_name};

	g->asked_at_us = read_clock_us(CLOCK_MONOTONIC);
	send_question(g, ASK_ACTIVATE,
				  "SELECT worker, incarnation, grant_id, start_ms,"
				  " end_ms_exclusive, token FROM idgen_activate($1)",
				  1, params);
}

/* Open a request for the next grant: its id stays until it is answered. */
static bool
open_request(IdgenGenerator *g)
{
	if (!make_uuid(g->request_id))
	{
		fail(g, "could not generate random values");
		return false;
	}
	g->request_open = true;
	g->request_sent = false;
	g->asked_at_us = read_clock_us(CLOCK_MONOTONIC);
	return true;
}

static void
ask_acquire(IdgenGenerator *g)
{
	char		incarnation[NUMBER_SIZE];
	char		after_grant[NUMBER_SIZE];
	char		length_ms[NUMBER_SIZE];
	const char *params[PARAMS_MAX] = {
		g->options.namespace_name, incarnation, g->request_id, g->token,
		after_grant, g->options.length_ms > 0 ? length_ms : NULL
	};

	snprintf(incarnation, sizeof(incarnation), "%lld", (long long) g->incarnation);
	snprintf(after_grant, sizeof(after_grant), "%lld", (long long) g->last_grant);
	snprintf(length_ms, sizeof(length_ms), "%lld", (long long) g->options.length_ms);
	if (g->request_sent)
		g->counts.repeated++;
	g->request_sent = true;
	send_question(g, ASK_ACQUIRE,
				  "SELECT worker, incarnation, grant_id, start_ms, end_ms_exclusive"
				  " FROM idgen_acquire_grant($1, $2, $3, $4, $5,"
				  " $6::float8 * interval '1 ms')",
				  PARAMS_MAX, params);
	g->acquire_count++;
	if (g->options.lose_every > 0 &&
		g->acquire_count % g->options.lose_every == 0)
		disconnect(g);
}

static void
ask_deactivate(IdgenGenerator *g)
{
	char		incarnation[NUMBER_SIZE];
	const char *params[] = {incarnation, g->token};

	snprintf(incarnation, sizeof(incarnation), "%lld", (long long) g->incarnation);
	send_question(g, ASK_DEACTIVATE, "SELECT idgen_deactivate($1, $2)", 2, params);
}

/* The wall clock's millisecond at which the next grant is to be asked for. */
static int64_t
due_at_ms(const IdgenGenerator *g)
{
	int64_t		horizon = idgen_layout_ticks_ceil(&g->layout, g->layout.horizon_ms);
	int64_t		due = idgen_grant_due_at(idgen_cursor_granted_end(&g->cursor),
										 g->length_ticks, horizon, 0);

	return g->layout.epoch_ms + due * g->layout.tick_ms;
}

/* Ask what is to be asked now; false if that is nothing. */
static bool
ask(IdgenGenerator *g)
{
	bool		ending = g->state == IDGEN_GENERATOR_ENDING;

	if (ending && g->incarnation == 0)
	{
		disconnect(g);
		g->state = IDGEN_GENERATOR_ENDED;
		return false;
	}
	if (monotonic_ms() < g->retry_at_ms)
		return false;

	if (ending)
		ask_deactivate(g);
	else if (!g->layout_known)
		ask_format(g);
	else if (g->incarnation == 0)
		ask_activate(g);
	else if (!g->request_open && (wall_ms() < due_at_ms(g) || !open_request(g)))
		return false;
	else
		ask_acquire(g);
	return true;
}

/* --------------------------------------------------------------------
 * Answers
 * -------------------------------------------------------------------- */

static int64_t
number_at(const PGresult *result, int column)
{
	return strtoll(PQgetvalue(result, 0, column), NULL, 10);
}

static void
take_format(IdgenGenerator *g, const PGresult *result)
{
	if (strcmp(PQgetvalue(result, 0, 0), "time") != 0)
	{
		fail(g, "the namespace is of a kind unknown here");
		return;
	}
	g->layout.timestamp_bits = (int) number_at(result, 1);
	g->layout.worker_bits = (int) number_at(result, 2);
	g->layout.sequence_bits = (int) number_at(result, 3);
	g->layout.epoch_ms = number_at(result, 4);
	g->layout.tick_ms = number_at(result, 5);
	g->layout.horizon_ms = number_at(result, 6);
	if (idgen_layout_validate(&g->layout) != IDGEN_LAYOUT_OK)
		fail(g, "the namespace has a format that cannot issue");
	else
		g->layout_known = true;
}

/* The incarnation is over; what it issued last still counts (order). */
static void
forget_incarnation(IdgenGenerator *g)
{
	if (g->cursor.last_tick >= 0)
	{
		g->last_tick = g->cursor.last_tick;
		g->last_worker = g->cursor.worker;
	}
	idgen_cursor_init(&g->cursor, 0);
	g->incarnation = 0;
	g->request_open = false;
	memset(g->token, 0, sizeof(g->token));
}

/* A grant has come: the first five columns of the answer. */
static void
take_grant(IdgenGenerator *g, const PGresult *result, bool activated)
{
	IdgenGeneratorGrant granted = {
		.worker = (int32_t) number_at(result, 0),
		.incarnation = number_at(result, 1),
		.grant_id = number_at(result, 2),
		.start_ms = number_at(result, 3),
		.end_ms = number_at(result, 4),
		.latency_us = read_clock_us(CLOCK_MONOTONIC) - g->asked_at_us,
		.activated = activated
	};
	IdgenGrant	grant = {
		.start = granted.start_ms / g->layout.tick_ms,
		.end = granted.end_ms / g->layout.tick_ms
	};

	if (activated)
		idgen_cursor_init(&g->cursor, granted.worker);
	switch (idgen_cursor_install(&g->cursor, &grant, now_tick(g)))
	{
		case IDGEN_INSTALL_ADDED:
		case IDGEN_INSTALL_MERGED:
			break;
		case IDGEN_INSTALL_BAD:
			fail(g, "the authority granted what was granted before");
			return;
		case IDGEN_INSTALL_FULL:
			fail(g, "too many grants with gaps between them");
			return;
	}
	g->incarnation = granted.incarnation;
	g->last_grant = granted.grant_id;
	g->length_ticks = grant.end - grant.start;
	g->request_open = false;
	g->counts.grants++;
	if (g->options.granted != NULL)
		g->options.granted(g->options.arg, &granted);
}

/* What an error means; classes are the first two characters. */
typedef enum Reaction
{
	REACT_FAIL,
	REACT_RETRY,				/* the same request again, a little later */
	REACT_AFRESH				/* the incarnation is over */
} Reaction;

static Reaction
reaction_to(const char *sqlstate)
{
	static const struct
	{
		const char *prefix;
		Reaction	reaction;
	}			reactions[] = {
		{"IG001", REACT_RETRY}, {"IG002", REACT_RETRY}, {"IG003", REACT_RETRY},
		{"IG004", REACT_RETRY}, {"IG005", REACT_RETRY}, {"IG008", REACT_AFRESH},
		{"08", REACT_RETRY}, {"40", REACT_RETRY}, {"53", REACT_RETRY},
		{"57", REACT_RETRY},
	};

	for (size_t i = 0; i < sizeof(reactions) / sizeof(reactions[0]); i++)
		if (strncmp(sqlstate, reactions[i].prefix,
					strlen(reactions[i].prefix)) == 0)
			return reactions[i].reaction;
	return REACT_FAIL;
}

static void
take_error(IdgenGenerator *g, const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	Reaction	reaction = sqlstate ? reaction_to(sqlstate) : REACT_RETRY;

	switch (reaction)
	{
		case REACT_FAIL:
			fail(g, PQresultErrorMessage(result));
			break;
		case REACT_RETRY:
			g->counts.refused++;
			g->retry_at_ms = monotonic_ms() + RETRY_MS;
			break;
		case REACT_AFRESH:
			g->counts.rejected++;
			forget_incarnation(g);
			break;
	}
}

static void
take_answer(IdgenGenerator *g, const PGresult *result)
{
	if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
	{
		take_error(g, result);
		return;
	}
	switch (g->question)
	{
		case ASK_FORMAT:
			take_format(g, result);
			break;
		case ASK_ACTIVATE:
			snprintf(g->token, sizeof(g->token), "%s", PQgetvalue(result, 0, 5));
			take_grant(g, result, true);
			break;
		case ASK_ACQUIRE:
			take_grant(g, result, false);
			break;
		case ASK_DEACTIVATE:
			forget_incarnation(g);
			break;
	}
}

/* Read what has come of an answer; false if there is something to wait for. */
static bool
receive(IdgenGenerator *g)
{
	PGresult   *result;

	if (PQflush(g->connection) < 0 || PQconsumeInput(g->connection) == 0)
	{
		disconnect(g);
		return false;
	}
	if (PQisBusy(g->connection))
	{
		if (monotonic_ms() >= g->give_up_at_ms)
			disconnect(g);
		return false;
	}
	result = PQgetResult(g->connection);
	if (result == NULL)
	{
		g->link = LINK_IDLE;
		return true;
	}
	/* what the connection could not deliver is no answer */
	if (PQstatus(g->connection) == CONNECTION_BAD)
		disconnect(g);
	else
		take_answer(g, result);
	PQclear(result);
	return !over(g) && g->link != LINK_DOWN;
}

/* --------------------------------------------------------------------
 * For the caller
 * -------------------------------------------------------------------- */

/* NULL if there is no memory.  The strings of the options must live on. */
IdgenGenerator *
idgen_generator_create(const IdgenGeneratorOptions *options)
{
	IdgenGenerator *g = calloc(1, sizeof(*g));

	if (g == NULL)
		return NULL;
	g->options = *options;
	g->last_tick = -1;
	idgen_cursor_init(&g->cursor, 0);
	return g;
}

/* Without ending it: use idgen_generator_end() for that. */
void
idgen_generator_free(IdgenGenerator *g)
{
	PQfinish(g->connection);
	free(g);
}

/* Do whatever can be done without waiting. */
void
idgen_generator_step(IdgenGenerator *g)
{
	bool		more = true;

	while (more && !over(g))
	{
		switch (g->link)
		{
			case LINK_DOWN:
				more = monotonic_ms() >= g->retry_at_ms;
				if (more)
					connect_start(g);
				break;
			case LINK_CONNECTING:
				more = connect_go_on(g);
				break;
			case LINK_IDLE:
				more = ask(g);
				break;
			case LINK_ASKING:
				more = receive(g);
				break;
		}
	}
}

static int64_t
until(int64_t at, int64_t now)
{
	return at > now ? at - now : 0;
}

/* What to wait for before the next step. */
void
idgen_generator_wish(const IdgenGenerator *g, IdgenGeneratorWish *wish)
{
	int64_t		now = monotonic_ms();

	wish->socket = -1;
	wish->events = 0;
	wish->wait_ms = -1;
	if (over(g))
		return;
	switch (g->link)
	{
		case LINK_DOWN:
			wish->wait_ms = until(g->retry_at_ms, now);
			break;
		case LINK_CONNECTING:
			wish->socket = PQsocket(g->connection);
			wish->events = polling_events(g->polling);
			wish->wait_ms = until(g->give_up_at_ms, now);
			break;
		case LINK_IDLE:
			wish->wait_ms = until(g->retry_at_ms, now);
			if (g->state == IDGEN_GENERATOR_RUNNING && g->incarnation != 0 &&
				!g->request_open && until(due_at_ms(g), wall_ms()) > wish->wait_ms)
				wish->wait_ms = until(due_at_ms(g), wall_ms());
			break;
		case LINK_ASKING:
			wish->socket = PQsocket(g->connection);
			wish->events = POLLIN;
			wish->wait_ms = until(g->give_up_at_ms, now);
			break;
	}
}

/*
 * Issue up to "count" consecutive IDs, or say why not.  They rise over the life
 * of the generator, over incarnations too.
 */
IdgenCursorCode
idgen_generator_issue(IdgenGenerator *g, int64_t count, IdgenGeneratorRun *run)
{
	IdgenCursorDemand demand = {.count = count};
	IdgenCursorRun ticks;
	IdgenCursorCode code;

	run->count = 0;
	run->retry_ms = RETRY_MS;
	if (g->state != IDGEN_GENERATOR_RUNNING || g->incarnation == 0)
		return IDGEN_CURSOR_GRANT_ENDED;

	demand.now = now_tick(g);
	if (g->last_tick >= 0)
		demand.min_tick = idgen_cursor_spill_tick(g->cursor.worker, g->last_tick,
												  g->last_worker);
	code = idgen_cursor_issue(&g->cursor, &g->layout, &demand, &ticks);
	if (code == IDGEN_CURSOR_ISSUED)
	{
		run->first = idgen_layout_assemble(&g->layout, ticks.tick,
										   g->cursor.worker, ticks.sequence);
		run->count = ticks.count;
	}
	else if (code != IDGEN_CURSOR_GRANT_ENDED)
		run->retry_ms = until(g->layout.epoch_ms +
							  ticks.retry_at * g->layout.tick_ms, wall_ms());
	return code;
}

/* Issue no more, and give the worker back; step on until it has ended. */
void
idgen_generator_end(IdgenGenerator *g)
{
	if (g->state != IDGEN_GENERATOR_RUNNING)
		return;
	g->state = IDGEN_GENERATOR_ENDING;
	g->request_open = false;
	/* nothing to give back, and nobody to wait for */
	if (g->incarnation == 0 && g->link != LINK_ASKING)
	{
		disconnect(g);
		g->state = IDGEN_GENERATOR_ENDED;
	}
}

IdgenGeneratorState
idgen_generator_state(const IdgenGenerator *g)
{
	return g->state;
}

/* Of a failed one; never with a token or connection string. */
const char *
idgen_generator_error(const IdgenGenerator *g)
{
	return g->error;
}

const IdgenGeneratorCounts *
idgen_generator_counts(const IdgenGenerator *g)
{
	return &g->counts;
}
