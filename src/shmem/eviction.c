/*
 * eviction.c
 *		Which cursor makes room when every slot is taken.
 *
 * When no slot is free, a namespace that has no cursor gets the slot of another
 * namespace's cursor.  Which one:
 *
 *	1. The cursor that has been idle longest, if that is at least IDLE_MS.  Its
 *	   namespace loses no more than idgen.idle_timeout takes: its next ID waits
 *	   for a round.
 *	2. Where all cursors are in use, a database that has fewer cursors than another gets
 *	   one of the database that has most.  Failing that, an owner of namespaces that has
 *	   fewer cursors than another owner in the same database gets one of the owner that
 *	   has most.  Again it is the one that has been idle longest.  Nothing is taken if
 *	   the two would only change places.
 *
 * So nobody can keep others out by using up the pool, even by using all of it
 * all the time: shares become equal, and only a database or owner that has its
 * share already is refused.  A role that creates other roles gets no more of
 * the shares of other databases.  A further cursor of a namespace that has one
 * takes none from anybody.
 *
 * A cursor of a namespace that is not committed is not taken: the session that
 * created it could get no other from anybody.
 *
 * The authority process of the evicted cursor's database ends the incarnation when it
 * finds the cursor gone.
 */
#include "compat.h"

#include "shmem/eviction.h"

#include "clock.h"
#include "shmem/slot.h"

/* A cursor that has not been used for this long may be given to anybody. */
#define IDLE_MS		INT64_C(1000)

/* A cursor that might make room. */
typedef struct IdgenHolding
{
	int			slot;
	uint64		generation;
	Oid			database;
	Oid			owner;
	int64		used_ms;		/* Unix time */
} IdgenHolding;

/*
 * When was a cursor last used?  Read without the slot's lock, since it only decides which
 * cursor is the best one to take.  A clock that went back makes nothing idle.
 */
static int64
used_ms(int slot_index, const IdgenSlotInfo *info, int64 now_ms)
{
	int64		last_tick = *(volatile int64 *) &idgen_slot(slot_index)->cursor.last_tick;
	int64		used = info->since_ms;

	if (last_tick >= 0)
		used = Max(used, info->epoch_ms + (last_tick + 1) * info->tick_ms);
	return Min(used, now_ms);
}

/* All cursors of all databases.  Returns their number. */
static int
list_holdings(IdgenHolding *holdings, int64 now_ms)
{
	int			count = 0;

	for (int i = 0; i < idgen_slot_count(); i++)
	{
		IdgenSlotInfo info;
		uint64		word = idgen_slot_read(i, &info);
		IdgenHolding *holding = &holdings[count];

		if (idgen_slot_phase(word) != IDGEN_SLOT_ACTIVE || info.uncommitted)
			continue;
		holding->slot = i;
		holding->generation = idgen_slot_generation(word);
		holding->database = info.database;
		holding->owner = info.owner;
		holding->used_ms = used_ms(i, &info, now_ms);
		count++;
	}
	return count;
}

/* By database, by owner, and the longest idle first. */
static int
compare_holdings(const void *a, const void *b)
{
	const IdgenHolding *x = a;
	const IdgenHolding *y = b;

	if (x->database != y->database)
		return x->database < y->database ? -1 : 1;
	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	return x->used_ms < y->used_ms ? -1 : x->used_ms > y->used_ms;
}

static const IdgenHolding *
longest_idle(const IdgenHolding *holdings, int count)
{
	const IdgenHolding *longest = NULL;

	for (int i = 0; i < count; i++)
		if (longest == NULL || holdings[i].used_ms < longest->used_ms)
			longest = &holdings[i];
	return longest;
}

/* The key of a share: of a database, or of an owner in it. */
static Oid
share_key(const IdgenHolding *holding, bool by_owner)
{
	return by_owner ? holding->owner : holding->database;
}

/*
 * Of sorted holdings, the longest idle one of the database or owner that has most, if
 * that is at least two more than "mine" has.  NULL otherwise.
 */
static const IdgenHolding *
longest_idle_of_most(const IdgenHolding *holdings, int count, Oid mine, bool by_owner)
{
	int			most_begin = 0;
	int			most = 0;
	int			my_count = 0;

	for (int begin = 0, end; begin < count; begin = end)
	{
		Oid			key = share_key(&holdings[begin], by_owner);

		for (end = begin; end < count && share_key(&holdings[end], by_owner) == key;)
			end++;
		if (key == mine)
			my_count = end - begin;
		if (end - begin <= most)
			continue;
		most = end - begin;
		most_begin = begin;
	}
	if (most < my_count + 2)
		return NULL;
	return longest_idle(&holdings[most_begin], most);
}

/* Of sorted holdings, those of one database.  Returns their number. */
static int
holdings_of(const IdgenHolding *holdings, int count, Oid database, int *begin)
{
	int			end;

	for (*begin = 0; *begin < count && holdings[*begin].database != database;)
		(*begin)++;
	for (end = *begin; end < count && holdings[end].database == database;)
		end++;
	return end - *begin;
}

/* The cursor that makes room for a namespace that has none; NULL if none has to. */
static const IdgenHolding *
choose_holding(IdgenHolding *holdings, int count, const IdgenSlotInfo *owner, int64 now_ms)
{
	const IdgenHolding *chosen = longest_idle(holdings, count);
	int			begin;
	int			mine;

	if (chosen == NULL || now_ms - chosen->used_ms >= IDLE_MS)
		return chosen;
	qsort(holdings, count, sizeof(IdgenHolding), compare_holdings);
	chosen = longest_idle_of_most(holdings, count, owner->database, false);
	if (chosen != NULL)
		return chosen;
	mine = holdings_of(holdings, count, owner->database, &begin);
	return longest_idle_of_most(&holdings[begin], mine, owner->owner, true);
}

/*
 * Choose the cursor that makes room for a namespace that has none.  False if none has to.
 */
bool
idgen_eviction_choose(const IdgenSlotInfo *owner, int *slot, uint64 *generation)
{
	int64		now_ms = idgen_clock_wall_ms();
	IdgenHolding *holdings = palloc(idgen_slot_count() * sizeof(IdgenHolding));
	int			count = list_holdings(holdings, now_ms);
	const IdgenHolding *chosen = choose_holding(holdings, count, owner, now_ms);
	bool		found = chosen != NULL;

	if (found)
	{
		*slot = chosen->slot;
		*generation = chosen->generation;
	}
	pfree(holdings);
	return found;
}
