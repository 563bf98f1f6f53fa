/*
 * network.c
 *		Deliver, delay, lose, repeat; see network.h.
 */
#include "network.h"

#include <stdlib.h>
#include <string.h>

#include "external.h"
#include "server.h"

/* Most messages arrive soon; some take long, some never arrive. */
static int64_t
delay(World *world)
{
	if (world->is_over || world->config.scale)
		return world_between(world, 100, 2 * MS);
	switch (world_between(world, 0, 19))
	{
		case 0:
			return world_between(world, 10 * MS, 4 * SECOND);
		case 1:
		case 2:
			return world_between(world, MS, 100 * MS);
		default:
			return world_between(world, 100, 5 * MS);
	}
}

static bool
is_cut(const World *world, int server, int external)
{
	return world->externals[external].cut_until_us > world->now_us ||
		world->servers[server].cut_until_us > world->now_us;
}

static void
arrive_asked(World *world, int server, int64_t arg)
{
	Asked	   *asked = (Asked *) (intptr_t) arg;

	if (!is_cut(world, server, asked->external))
		server_ask(world, server, asked);
	free(asked);
}

static void
arrive_answer(World *world, int server, int64_t arg)
{
	Answer	   *answer = (Answer *) (intptr_t) arg;
	const External *external = &world->externals[answer->asked.external];

	/* a stopped process reads it later */
	if (external->is_alive && external->paused_until_us > world->now_us)
	{
		world_at(world, external->paused_until_us, arrive_answer, server, arg);
		return;
	}
	if (!is_cut(world, server, answer->asked.external))
		external_answer(world, answer);
	free(answer);
}

static void
send(World *world, int server, Action arrive, const void *message, size_t size)
{
	bool		is_troubled = !world->is_over && !world->config.scale;
	int			copies = !is_troubled ? 1 : world_one_in(world, 20) ? 0 :
		world_one_in(world, 20) ? 2 : 1;

	for (int i = 0; i < copies; i++)
	{
		void	   *copy = malloc(size);

		memcpy(copy, message, size);
		world_at(world, world->now_us + delay(world), arrive, server,
				 (int64_t) (intptr_t) copy);
	}
}

void
network_ask(World *world, int server, const Asked *asked)
{
	send(world, server, arrive_asked, asked, sizeof(*asked));
}

void
network_answer(World *world, int server, const Answer *answer)
{
	send(world, server, arrive_answer, answer, sizeof(*answer));
}
