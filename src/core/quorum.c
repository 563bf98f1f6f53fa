/*
 * quorum.c
 *		The rule of synchronous_standby_names, for those standbys that count.
 */
#include "quorum.h"

/* Move the entry that comes first by the rule to the front. */
static void
bring_first(IdgenStandby *standbys, int32_t count, bool by_priority)
{
	int32_t		first = 0;
	IdgenStandby entry;

	for (int32_t i = 1; i < count; i++)
	{
		/*
		 * of equal priorities, the one that has flushed less counts: the safe
		 * side
		 */
		bool		before = by_priority ?
			standbys[i].priority < standbys[first].priority ||
			(standbys[i].priority == standbys[first].priority &&
			 standbys[i].flushed < standbys[first].flushed) :
			standbys[i].flushed > standbys[first].flushed;

		if (before)
			first = i;
	}
	entry = standbys[0];
	standbys[0] = standbys[first];
	standbys[first] = entry;
}

/*
 * The position that "needed" of the standbys have flushed: the ones named first
 * (FIRST), or any (ANY).  0 if there are not so many, or none is needed.  The
 * array is reordered.
 */
uint64_t
idgen_quorum_position(IdgenStandby *standbys, int32_t count, int32_t needed,
					  bool by_priority)
{
	uint64_t	position = UINT64_MAX;

	if (needed < 1 || count < needed)
		return 0;
	for (int32_t i = 0; i < needed; i++)
	{
		bring_first(standbys + i, count - i, by_priority);
		if (standbys[i].flushed < position)
			position = standbys[i].flushed;
	}
	return position;
}
