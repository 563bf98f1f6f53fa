/*
 * counters.c
 *		Count and note what is shown of each namespace.
 *
 * A namespace has an entry in the table of counters, whose index is also the account to
 * which its cursors add up what they issue (slot.h).
 */
#include "compat.h"

#include "shmem/counters.h"

#include "common/hashfn.h"
#include "miscadmin.h"

#include "clock.h"
#include "settings.h"
#include "shmem/lock.h"

/* How long to try to give counters to a namespace. */
#define GIVE_WITHIN_US	INT64_C(1000)

/* A cause that may have passed is reported for this long without another look. */
#define STANDING_US	INT64_C(5000000)

/*
 * A process that runs so much later than it should was stopped, or was given no
 * processor: scheduling alone does not take so long, unless the machine is overloaded.
 */
#define PAUSE_US	INT64_C(1000000)

static inline IdgenCountersTable *
table(void)
{
	return idgen_shared->counters;
}

Size
idgen_counters_size(void)
{
	return add_size(offsetof(IdgenCountersTable, entries),
					mul_size(idgen_max_cursors, sizeof(IdgenCounters)));
}

void
idgen_counters_init(void *memory, int tranche)
{
	idgen_shared->counters = memory;
	LWLockInitialize(&table()->lock, tranche);
	pg_atomic_init_u64(&table()->authority_pauses, 0);
	pg_atomic_init_u64(&table()->authority_pause_max_us, 0);
	table()->count = idgen_max_cursors;
	for (int i = 0; i < table()->count; i++)
	{
		IdgenCounters *counters = &table()->entries[i];

		pg_atomic_init_u64(&counters->key, 0);
		for (int j = 0; j < IDGEN_COUNTER_COUNT; j++)
			pg_atomic_init_u64(&counters->values[j], 0);
		pg_atomic_init_u64(&counters->last_error, 0);
		pg_atomic_init_u64(&counters->reset_ms, 0);
	}
}

/* --------------------------------------------------------------------
 * Whose counters
 * -------------------------------------------------------------------- */

/* The key of a namespace; never 0. */
static uint64
make_key(Oid database, const char *namespace_name)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) namespace_name,
										   (int) strlen(namespace_name), database);

	return hash == 0 ? 1 : hash;
}

/*
 * The counters of a namespace, or NULL.  Takes no lock: if they are given to
 * another namespace meanwhile, something is counted in the wrong place.
 */
static IdgenCounters *
find_counters(Oid database, const char *namespace_name)
{
	uint64		key = make_key(database, namespace_name);

	for (int i = 0; i < table()->count; i++)
	{
		IdgenCounters *counters = &table()->entries[i];

		if (pg_atomic_read_u64(&counters->key) != key)
			continue;
		pg_read_barrier();
		if (counters->database == database &&
			strcmp(counters->namespace_name, namespace_name) == 0)
			return counters;
	}
	return NULL;
}

/*
 * An entry that can be given to another namespace, or NULL: one that belongs to nobody,
 * else one whose account no cursor uses.  Caller holds the table's lock.
 */
static IdgenCounters *
find_unused(const bool *used)
{
	for (int has_key = 0; has_key <= 1; has_key++)
		for (int i = 0; i < table()->count; i++)
		{
			IdgenCounters *counters = &table()->entries[i];

			if (!used[i] && (pg_atomic_read_u64(&counters->key) != 0) == has_key)
				return counters;
		}
	return NULL;
}

/* Caller holds the table's lock. */
static void
give(IdgenCounters *counters, Oid database, const char *namespace_name, IdgenIssued issued)
{
	pg_atomic_write_u64(&counters->key, 0);
	pg_write_barrier();
	counters->database = database;
	strlcpy(counters->namespace_name, namespace_name, NAMEDATALEN);
	memset(counters->alerted, 0, sizeof(counters->alerted));
	counters->copied = false;
	counters->unconfirmed = 0;
	counters->standing.kind = IDGEN_ERROR_NONE;
	counters->shares_alerted = 0;
	idgen_counters_reset(idgen_counters_account(counters), issued);
	pg_write_barrier();
	pg_atomic_write_u64(&counters->key, make_key(database, namespace_name));
}

/*
 * The counters of a namespace, if need be taken from one whose account no
 * cursor uses.  NULL if there is none to be taken, or if the lock cannot be
 * had at once: then nothing is counted, because no caller is to wait for that.
 */
IdgenCounters *
idgen_counters_get(Oid database, const char *namespace_name)
{
	IdgenCounters *counters = find_counters(database, namespace_name);
	bool	   *used;
	IdgenIssued *issued;

	if (counters != NULL)
		return counters;
	used = idgen_pool_accounts_in_use();
	issued = idgen_pool_issued();
	if (idgen_lock_within(&table()->lock, LW_EXCLUSIVE, GIVE_WITHIN_US))
	{
		counters = find_counters(database, namespace_name);
		if (counters == NULL && (counters = find_unused(used)) != NULL)
			give(counters, database, namespace_name,
				 issued[idgen_counters_account(counters)]);
		LWLockRelease(&table()->lock);
	}
	pfree(used);
	pfree(issued);
	return counters;
}

/*
 * A database, or the extension in it, was dropped: its counters belong to nobody any
 * more.  Called at commit, so it neither fails nor waits.
 */
void
idgen_counters_forget(Oid database)
{
	for (int i = 0; i < table()->count; i++)
	{
		IdgenCounters *counters = &table()->entries[i];
		uint64		key = pg_atomic_read_u64(&counters->key);

		pg_read_barrier();
		if (key != 0 && counters->database == database)
			(void) pg_atomic_compare_exchange_u64(&counters->key, &key, 0);
	}
}

/* The account to which the cursors of a namespace add up what they issue; -1 = none. */
int
idgen_counters_account(const IdgenCounters *counters)
{
	return counters == NULL ? -1 : (int) (counters - table()->entries);
}

/* --------------------------------------------------------------------
 * Counting
 * -------------------------------------------------------------------- */

static void
raise_to(pg_atomic_uint64 *maximum, uint64 value)
{
	uint64		known = pg_atomic_read_u64(maximum);

	while (value > known &&
		   !pg_atomic_compare_exchange_u64(maximum, &known, value))
		;
}

/* Raise a counter that keeps a maximum. */
void
idgen_counters_max(IdgenCounters *counters, IdgenCounter counter, uint64 value)
{
	if (counters != NULL)
		raise_to(&counters->values[counter], value);
}

/*
 * A process ran late_us later than it should have; negative if it was early.
 * Less than PAUSE_US is not counted.
 */
void
idgen_counters_note_pause(IdgenCounters *counters, int64 late_us)
{
	if (late_us < PAUSE_US)
		return;
	idgen_counters_add(counters, IDGEN_COUNTER_PAUSES, 1);
	idgen_counters_max(counters, IDGEN_COUNTER_PAUSE_MAX_US, (uint64) late_us);
}

/* The same for a namespace of this database, if it has counters. */
void
idgen_counters_note_pause_in(const char *namespace_name, int64 late_us)
{
	if (late_us >= PAUSE_US)
		idgen_counters_note_pause(find_counters(MyDatabaseId, namespace_name), late_us);
}

/* The same for an authority process; true if it was a pause. */
bool
idgen_counters_note_authority_pause(int64 late_us)
{
	if (late_us < PAUSE_US)
		return false;
	pg_atomic_fetch_add_u64(&table()->authority_pauses, 1);
	raise_to(&table()->authority_pause_max_us, (uint64) late_us);
	return true;
}

/*
 * A caller was refused for want of a privilege.  Refusals are counted apart and are not
 * the last error, so that strangers can neither raise an alarm nor hide its cause.
 */
void
idgen_counters_note_refusal(IdgenCounters *counters)
{
	idgen_counters_add(counters, IDGEN_COUNTER_REFUSALS, 1);
}

/* Remember the last error reported to a caller. */
void
idgen_counters_note_error(IdgenCounters *counters, const IdgenError *error)
{
	if (counters == NULL)
		return;
	if (error->kind == IDGEN_ERROR_FORBIDDEN ||
		error->kind == IDGEN_ERROR_NOT_OWNER)
	{
		idgen_counters_note_refusal(counters);
		return;
	}
	idgen_counters_add(counters, IDGEN_COUNTER_ERRORS, 1);
	pg_atomic_write_u64(&counters->last_error,
						(uint64) idgen_clock_wall_ms() << 8 | (uint64) error->kind);
}

/* --------------------------------------------------------------------
 * What the authority process notes
 * -------------------------------------------------------------------- */

/*
 * An authority process begins: nobody holds any more what its predecessor
 * held.
 */
void
idgen_counters_begin_authority(void)
{
	for (int i = 0; i < table()->count; i++)
		if (table()->entries[i].database == MyDatabaseId)
			table()->entries[i].unconfirmed = 0;
}

/* Note whether the authority refuses to grant because it is a copy. */
void
idgen_counters_set_copied(IdgenCounters *counters, bool copied)
{
	if (counters != NULL)
		counters->copied = copied;
}

/* Note how many grants and answers wait for standbys. */
void
idgen_counters_set_unconfirmed(IdgenCounters *counters, int count)
{
	if (counters != NULL)
		counters->unconfirmed = count;
}

/*
 * Note why the authority grants nothing, for calls that cannot wait for its
 * answer; kind NONE if it does grant.
 */
void
idgen_counters_set_standing(IdgenCounters *counters, const IdgenError *error)
{
	if (counters == NULL || (counters->standing.kind == IDGEN_ERROR_NONE &&
							 error->kind == IDGEN_ERROR_NONE))
		return;
	idgen_lock_directory();
	counters->standing = *error;
	counters->standing_us = idgen_clock_monotonic_us();
	idgen_unlock_directory();
}

/*
 * Is it known why nothing is granted?  A cause that may pass by itself is
 * believed only for a while.
 */
bool
idgen_counters_standing(const IdgenCounters *counters, IdgenError *error)
{
	bool		old;

	if (counters == NULL)
		return false;
	idgen_lock_directory();
	*error = counters->standing;
	old = idgen_clock_monotonic_us() - counters->standing_us > STANDING_US;
	idgen_unlock_directory();
	if (error->until_ms != 0)
		return error->until_ms > idgen_clock_wall_ms();
	return error->kind == IDGEN_ERROR_COPIED ||
		(error->kind != IDGEN_ERROR_NONE && !old);
}

/* --------------------------------------------------------------------
 * Reading
 * -------------------------------------------------------------------- */

/* Accounts are numbered from 0 up to this. */
int
idgen_counters_count(void)
{
	return table()->count;
}

/* Copy the counters that belong to an account; false if they are nobody's. */
bool
idgen_counters_read(int account, IdgenCounters *copy)
{
	IdgenCounters *counters = &table()->entries[account];
	uint64		key;

	do
	{
		key = pg_atomic_read_u64(&counters->key);
		pg_read_barrier();
		*copy = *counters;
		pg_read_barrier();
	} while (key != pg_atomic_read_u64(&counters->key));
	return key != 0;
}

/* Count from zero again; "issued" is what the account has issued until now. */
void
idgen_counters_reset(int account, IdgenIssued issued)
{
	IdgenCounters *counters = &table()->entries[account];

	counters->issued_before = issued;
	for (int i = 0; i < IDGEN_COUNTER_COUNT; i++)
		pg_atomic_write_u64(&counters->values[i], 0);
	pg_atomic_write_u64(&counters->last_error, 0);
	pg_atomic_write_u64(&counters->reset_ms, (uint64) idgen_clock_wall_ms());
}

void
idgen_counters_read_authority_pauses(IdgenPauses *pauses)
{
	pauses->count = pg_atomic_read_u64(&table()->authority_pauses);
	pauses->max_us = pg_atomic_read_u64(&table()->authority_pause_max_us);
}
