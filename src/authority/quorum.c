/*
 * quorum.c
 *		Ask the WAL senders what synchronous standbys have flushed.
 *
 * PostgreSQL's own wait for synchronous replication also ends when it is
 * cancelled, when the setting is emptied, or when the standby is the receiver
 * of a logical subscription, which holds none of the authority's tables.  None
 * of these may make a grant usable.  So nobody waits there: the positions are
 * read, and counted by the setting in force, each time anew.  Confirmation is
 * never remembered; only what was published stays so.
 */
#include "compat.h"

#include "authority/quorum.h"

#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/latch.h"
#include "storage/spin.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "clock.h"
#include "core/quorum.h"

/* The names of standbys are read again after this long at the latest. */
#define NAMES_FOR_US	INT64_C(1000000)

/* How often a session that waits looks. */
#define LOOK_EVERY_MS	5

/* What is known of the process in one of the places of WAL senders. */
typedef struct IdgenSender
{
	pid_t		pid;
	int32		priority;		/* by the setting; 0 = it does not count */
} IdgenSender;

/* Nothing is known yet; what will be is kept in the current memory context. */
void
idgen_quorum_init(IdgenQuorum *quorum)
{
	memset(quorum, 0, sizeof(*quorum));
	quorum->context = CurrentMemoryContext;
}

/* Does synchronous_standby_names name anybody? */
bool
idgen_quorum_named(void)
{
	return SyncRepConfig != NULL;
}

/* The place of a name in the setting, from 1; 0 if it is not there. */
static int32
place_in_setting(const char *name)
{
	const char *member = SyncRepConfig->member_names;

	for (int i = 1; i <= SyncRepConfig->nmembers; i++)
	{
		if (strcmp(member, "*") == 0 || pg_strcasecmp(member, name) == 0)
			return i;
		member += strlen(member) + 1;
	}
	return 0;
}

/*
 * Does a process send physical WAL?  Then *name is that of the receiver.  A process that
 * sends decoded changes is connected to a database.
 */
static bool
sends_physical(pid_t pid, char *name)
{
	int			count = pgstat_fetch_stat_numbackends();

	for (int i = 1; i <= count; i++)
	{
		const PgBackendStatus *status = idgen_backend_status(i);

		if (status == NULL || status->st_procpid != pid)
			continue;
		strlcpy(name, status->st_appname, NAMEDATALEN);
		return status->st_backendType == B_WAL_SENDER && !OidIsValid(status->st_databaseid);
	}
	return false;
}

/* The place of a process in the setting, if it sends physical WAL; else 0. */
static int32
priority_of(pid_t pid)
{
	char		name[NAMEDATALEN];

	return sends_physical(pid, name) ? place_in_setting(name) : 0;
}

/*
 * Read the state of a WAL sender, under its lock; false if it is not in use or
 * does not stream.  WAL that a standby has flushed and that was not sent to it
 * from here belongs to another history.
 */
static bool
read_sender(int i, pid_t *pid, XLogRecPtr *flushed)
{
	WalSnd	   *sender = &WalSndCtl->walsnds[i];
	bool		streams;

	SpinLockAcquire(&sender->mutex);
	*pid = sender->pid;
	*flushed = sender->flush;
	streams = (sender->state == WALSNDSTATE_STREAMING ||
			   sender->state == WALSNDSTATE_STOPPING) &&
		sender->flush <= sender->sentPtr;
	SpinLockRelease(&sender->mutex);
	return *pid != 0 && streams && !XLogRecPtrIsInvalid(*flushed);
}

/* Is the setting still the one that the names were read for? */
static bool
same_setting(const IdgenQuorum *quorum)
{
	return quorum->setting != NULL &&
		quorum->setting->config_size == SyncRepConfig->config_size &&
		memcmp(quorum->setting, SyncRepConfig, SyncRepConfig->config_size) == 0;
}

static void
keep_setting(IdgenQuorum *quorum)
{
	if (quorum->setting != NULL)
		pfree(quorum->setting);
	quorum->setting = MemoryContextAlloc(quorum->context, SyncRepConfig->config_size);
	memcpy(quorum->setting, SyncRepConfig, SyncRepConfig->config_size);
}

/*
 * Read the names again: they are old, the setting has changed, or a process
 * has.
 */
static void
read_names(IdgenQuorum *quorum)
{
	pgstat_clear_backend_activity_snapshot();
	for (int i = 0; i < max_wal_senders; i++)
	{
		pid_t		pid;
		XLogRecPtr	flushed;

		if (!read_sender(i, &pid, &flushed))
			pid = 0;
		quorum->senders[i].pid = pid;
		quorum->senders[i].priority = pid == 0 ? 0 : priority_of(pid);
	}
	pgstat_clear_backend_activity_snapshot();
	quorum->read_us = idgen_clock_monotonic_us();
	if (!same_setting(quorum))
		keep_setting(quorum);
}

/* Make sure that the names belong to the processes that are there now. */
static void
bring_names(IdgenQuorum *quorum)
{
	bool		current;

	if (quorum->senders == NULL)
		quorum->senders = MemoryContextAllocZero(quorum->context,
												 (max_wal_senders + 1) * sizeof(IdgenSender));
	current = same_setting(quorum) &&
		idgen_clock_monotonic_us() - quorum->read_us < NAMES_FOR_US;
	for (int i = 0; i < max_wal_senders && current; i++)
	{
		pid_t		pid;
		XLogRecPtr	flushed;

		if (read_sender(i, &pid, &flushed))
			current = pid == quorum->senders[i].pid;
	}
	if (!current)
		read_names(quorum);
}

/* The standbys that count now, in a palloc'd array. */
static IdgenStandby *
list_standbys(IdgenQuorum *quorum, int *count)
{
	IdgenStandby *standbys = palloc((max_wal_senders + 1) * sizeof(IdgenStandby));

	*count = 0;
	bring_names(quorum);
	for (int i = 0; i < max_wal_senders; i++)
	{
		pid_t		pid;
		XLogRecPtr	flushed;

		if (!read_sender(i, &pid, &flushed) || pid != quorum->senders[i].pid ||
			quorum->senders[i].priority == 0)
			continue;
		standbys[*count].priority = quorum->senders[i].priority;
		standbys[*count].flushed = flushed;
		(*count)++;
	}
	return standbys;
}

/*
 * Are there enough standbys to confirm anything?  If not, the error says what
 * is missing, and *may_come whether it can come without a change of settings.
 */
bool
idgen_quorum_available(IdgenQuorum *quorum, IdgenError *error, bool *may_come)
{
	int			count;
	char		detail[IDGEN_ERROR_TEXT_MAX];

	*may_come = idgen_quorum_named();
	if (!idgen_quorum_named())
	{
		idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE,
						"Its durability is \"quorum\", and \"synchronous_standby_names\" is empty.",
						"Name physical standbys in \"synchronous_standby_names\". They must confirm each grant, and also a change to another durability.");
		return false;
	}
	pfree(list_standbys(quorum, &count));
	if (count >= SyncRepConfig->num_sync)
		return true;
	snprintf(detail, sizeof(detail),
			 "Its durability is \"quorum\": of the physical standbys in \"synchronous_standby_names\", %d must be streaming, but only %d are.",
			 SyncRepConfig->num_sync, count);
	idgen_error_set(error, IDGEN_ERROR_UNAVAILABLE, detail,
					"Connect the standbys, or correct \"synchronous_standby_names\". Receivers of logical replication do not count.");
	return false;
}

/*
 * All that this process has committed, or can have read, lies before this
 * position.
 */
XLogRecPtr
idgen_quorum_here(void)
{
	return GetFlushRecPtr(NULL);
}

/*
 * The position up to which as many standbys have flushed as the setting asks
 * for.  If there are not enough standbys, it is invalid, which is before all
 * others.
 */
XLogRecPtr
idgen_quorum_confirmed(IdgenQuorum *quorum)
{
	IdgenStandby *standbys;
	int			count;
	uint64		confirmed;

	if (!idgen_quorum_named())
		return InvalidXLogRecPtr;
	standbys = list_standbys(quorum, &count);
	confirmed = idgen_quorum_position(standbys, count, SyncRepConfig->num_sync,
									  SyncRepConfig->syncrep_method ==
									  SYNC_REP_PRIORITY);
	pfree(standbys);
	return confirmed;
}

/* By a session; cancellable. */
static void
wait_before_looking(uint32 wait_event)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 LOOK_EVERY_MS, wait_event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * By a session: wait until a position is confirmed.  False if it is not
 * confirmed by a monotonic time; cancellable.
 */
bool
idgen_quorum_wait(XLogRecPtr position, int64 until_us)
{
	static uint32 wait_event = 0;
	IdgenQuorum quorum;

	if (wait_event == 0)
		wait_event = idgen_wait_event("IdgenQuorum");
	idgen_quorum_init(&quorum);
	while (idgen_quorum_confirmed(&quorum) < position)
	{
		if (idgen_clock_monotonic_us() >= until_us)
			return false;
		wait_before_looking(wait_event);
	}
	return true;
}

/*
 * Has the receiver of a WAL sender not flushed a position?  Neither has one that has not
 * said anything yet.  One that says what it has written, but never what it has flushed, is
 * no standby.  WAL that it has flushed and that was not sent to it from here belongs to
 * another history.
 */
static bool
lags(int i, XLogRecPtr position, pid_t *pid)
{
	WalSnd	   *sender = &WalSndCtl->walsnds[i];
	bool		streams;
	XLogRecPtr	sent;
	XLogRecPtr	written;
	XLogRecPtr	flushed;

	SpinLockAcquire(&sender->mutex);
	*pid = sender->pid;
	streams = sender->state >= WALSNDSTATE_CATCHUP;
	sent = sender->sentPtr;
	written = sender->write;
	flushed = sender->flush;
	SpinLockRelease(&sender->mutex);
	if (*pid == 0 || !streams)
		return false;
	return XLogRecPtrIsInvalid(flushed) ? XLogRecPtrIsInvalid(written) :
		flushed < position || flushed > sent;
}

/* Is a physical standby connected that has not flushed a position?  *name tells which. */
static bool
any_lags(XLogRecPtr position, char *name)
{
	pid_t		pid;

	pgstat_clear_backend_activity_snapshot();
	for (int i = 0; i < max_wal_senders; i++)
		if (lags(i, position, &pid) && sends_physical(pid, name))
			return true;
	return false;
}

/*
 * By a session: wait until every physical standby that is connected has flushed a position.
 * False if one has not by a monotonic time; *name is then that of the standby.  All are
 * looked at each time, because one that connects anew may get any place.
 */
bool
idgen_quorum_wait_for_all(XLogRecPtr position, int64 until_us, char *name)
{
	static uint32 wait_event = 0;

	if (wait_event == 0)
		wait_event = idgen_wait_event("IdgenStandbys");
	while (any_lags(position, name))
	{
		if (idgen_clock_monotonic_us() >= until_us)
			return false;
		wait_before_looking(wait_event);
	}
	return true;
}
