/*
 * ended.c
 *		Until when namespaces that may be gone issued IDs, in memory and in a file.
 *
 * A namespace that was never granted from begins after whatever was issued under
 * its name before.  Its tables do not know that when the extension, or the whole
 * database, was dropped and made again.  So it is remembered here, by names.
 *
 * There are two numbers.  A bound is always at hand: it is raised, and flushed,
 * before what it bounds can happen.  Grants to external generators, and grants
 * that cursors may issue from ahead of the clock, have one that is raised a
 * horizon further each time, so at most once a horizon; the rest is bounded
 * before the commit of a drop, by the marks in the tables, or for DROP DATABASE,
 * which cannot read them, by what the cursors were granted.  What was really
 * issued is known exactly when the cursors have been killed, after the commit, and
 * takes the place of the bound in memory: whoever drops and creates in a loop does
 * not wait.  After a crash the bound stands.  It lies at most a horizon later.
 *
 * All that can fail or wait happens before the commit.  A drop that is rolled back
 * leaves a bound that nobody asks for: the namespace lives, and was granted from.
 *
 * The file is written anew each time, and durably renamed.  A base backup may
 * carry it; there it is old and harmless, since it only makes new namespaces of
 * the same names wait.  One of another cluster is not read.
 */
#include "compat.h"

#include "shmem/ended.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlog.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"

#include "clock.h"
#include "error.h"
#include "shmem/shmem.h"

/*
 * Beside the file of the clock; PostgreSQL leaves it alone, also after a crash.  Its
 * name has a number, which rises each time it is written, and the highest counts:
 * so an old copy of the data directory that is copied over it, into the same files,
 * does not overwrite it.
 */
#define ENDED_DIRECTORY		"pg_stat"
#define ENDED_FILE			ENDED_DIRECTORY "/idgen_ended.%08x.stat"
#define ENDED_FILE_TMP		ENDED_DIRECTORY "/idgen_ended.tmp"
#define ENDED_FILE_MAGIC	0x1d6e0e4d
#define ENDED_FILE_VERSION	1

/* How long to try for the lock; and for the file, which takes a flush. */
#define WITHIN_US		INT64_C(100000)
#define FILE_WITHIN_US	INT64_C(1000000)

/*
 * What ended so long ago is not saved any more.  The clock may go back by less
 * than that, and still nothing is repeated.
 */
#define KEPT_MS			INT64_C(3600000)

typedef struct FileHead
{
	uint32		magic;
	uint32		version;
	uint64		system_identifier;
	uint32		entry_size;
	uint32		count;
} FileHead;

typedef struct FileEntry
{
	uint32		database;
	uint32		gone;
	char		database_name[NAMEDATALEN];
	char		namespace_name[NAMEDATALEN];
	int64		issued_ms;
	int64		bound_ms;
	int64		dropped_ms;
	int64		reached_ms;
	pg_uuid_t	namespace_uuid;
} FileEntry;

static inline IdgenEndedState *
state(void)
{
	return &idgen_shared->ended;
}

/* --------------------------------------------------------------------
 * Entries
 * -------------------------------------------------------------------- */

/* An error if some process is stopped while it has the lock. */
static void
lock_entries(LWLockMode mode)
{
	if (!idgen_lock_within(&state()->lock, mode, WITHIN_US))
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("could not look up until when dropped namespaces issued IDs"),
				 errdetail("A process that changes what is remembered of them seems to be stopped."),
				 errhint("Look for a stopped PostgreSQL process (state \"T\" in ps), and let it continue.")));
}

static void
unlock_entries(void)
{
	LWLockRelease(&state()->lock);
}

static bool
is_used(const IdgenEnded *entry)
{
	return entry->namespace_name[0] != '\0';
}

/* The latest time that an entry says anything about. */
static int64
latest_ms(const IdgenEnded *entry)
{
	return Max(Max(entry->issued_ms, entry->inherited_ms),
			   Max(entry->bound_ms, entry->dropped_ms));
}

/*
 * The entry of a namespace of a database that lives, or is about to be dropped:
 * its cursors may live on until the commit, and what they issued belongs here.
 * NULL if there is none.
 */
static IdgenEnded *
find_entry(Oid database, const char *namespace_name)
{
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &state()->entries[i];

		if (entry->database == database &&
			strcmp(entry->namespace_name, namespace_name) == 0)
			return entry;
	}
	return NULL;
}

/*
 * The same, made if need be in place of the one longest past; NULL if there is no
 * room.  A database gets no more entries that are not past than it leaves to all
 * others: so none can use them up, for hours, however many namespaces it has.
 * Caller holds the lock exclusively.
 */
static IdgenEnded *
make_entry(Oid database, const char *namespace_name)
{
	IdgenEnded *entry = find_entry(database, namespace_name);
	IdgenEnded *oldest = &state()->entries[0];
	int64		now_ms = idgen_clock_wall_ms();
	int			mine = 0;
	int			past = 0;

	if (entry != NULL)
		return entry;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		entry = &state()->entries[i];
		if (is_used(oldest) &&
			(!is_used(entry) || latest_ms(entry) < latest_ms(oldest)))
			oldest = entry;
		if (latest_ms(entry) <= now_ms)
			past++;
		else if (entry->database == database)
			mine++;
	}
	if (mine >= past)
		return NULL;
	memset(oldest, 0, sizeof(*oldest));
	oldest->database = database;
	strlcpy(oldest->namespace_name, namespace_name, NAMEDATALEN);
	return oldest;
}

/* For who can be refused: if there is no room, the lock is given back for an error. */
static IdgenEnded *
need_entry(Oid database, const char *namespace_name)
{
	IdgenEnded *entry = make_entry(database, namespace_name);

	if (entry == NULL)
	{
		unlock_entries();
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("cannot remember until when namespace \"%s\" issues IDs", namespace_name),
				 errdetail("Of the %d namespaces that this server remembers, this database has half of what others leave; all of those issue, or were granted, past now.",
						   IDGEN_ENDED_MAX),
				 errhint("Retry when grants have ended, or use shorter ones.")));
	}
	return entry;
}

/*
 * Raise the bound of an entry; it is in the file when that version is.  DROP DATABASE
 * may have begun, and a worker that was started since not have left yet: then what it
 * grants goes with the database as well.
 */
static void
raise_bound(IdgenEnded *entry, const char *database_name, int64 bound_ms)
{
	if (database_name != NULL)
		strlcpy(entry->database_name, database_name, NAMEDATALEN);
	entry->bound_ms = Max(entry->bound_ms, bound_ms);
	if (entry->dropping)
		entry->dropped_ms = Max(entry->dropped_ms, entry->bound_ms);
	entry->version = ++state()->version;
}

/* --------------------------------------------------------------------
 * The file
 * -------------------------------------------------------------------- */

/* What is worth saving; palloc'd, head first.  Notes which version that is. */
static char *
compose(Size *size, uint64 *version)
{
	char	   *contents = palloc0(sizeof(FileHead) +
								   IDGEN_ENDED_MAX * sizeof(FileEntry) + sizeof(pg_crc32c));
	FileHead   *head = (FileHead *) contents;
	FileEntry  *saved = (FileEntry *) (contents + sizeof(FileHead));
	int64		since_ms = idgen_clock_wall_ms() - KEPT_MS;
	pg_crc32c	crc;

	head->magic = ENDED_FILE_MAGIC;
	head->version = ENDED_FILE_VERSION;
	head->system_identifier = GetSystemIdentifier();
	head->entry_size = sizeof(FileEntry);
	lock_entries(LW_SHARED);
	*version = state()->version;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		const IdgenEnded *entry = &state()->entries[i];

		if (!is_used(entry) || Max(entry->bound_ms, entry->dropped_ms) <= Max(since_ms, 0))
			continue;
		saved->database = entry->database;
		saved->gone = entry->gone;
		strlcpy(saved->database_name, entry->database_name, NAMEDATALEN);
		strlcpy(saved->namespace_name, entry->namespace_name, NAMEDATALEN);
		saved->issued_ms = entry->issued_ms;
		saved->bound_ms = entry->bound_ms;
		saved->dropped_ms = entry->dropped_ms;
		saved->reached_ms = entry->reached_ms;
		saved->namespace_uuid = entry->namespace_uuid;
		saved++;
		head->count++;
	}
	unlock_entries();

	*size = (char *) saved - contents;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, contents, *size);
	FIN_CRC32C(crc);
	memcpy(contents + *size, &crc, sizeof(crc));
	*size += sizeof(crc);
	return contents;
}

static void
refuse_unsaved(const char *path)
{
	ereport(ERROR,
			(errcode_for_file_access(),
			 errmsg("could not write file \"%s\": %m", path),
			 errdetail("It has to say until when IDs may be issued from namespaces that are granted ahead or dropped, before that happens."),
			 errhint("Make room for it, or mend its permissions, and retry.")));
}

/* The number of a file of ours in that directory; 0 if it is another file. */
static uint32
number_of(const char *name)
{
	unsigned int number;
	char		again[MAXPGPATH];

	if (sscanf(name, "idgen_ended.%8x.stat", &number) != 1)
		return 0;
	snprintf(again, sizeof(again), ENDED_FILE, number);
	return strcmp(again + strlen(ENDED_DIRECTORY "/"), name) == 0 ? number : 0;
}

/*
 * The highest number of a file of ours, 0 if there is none; all others but "keep"
 * are removed, unless that is 0.  That the directory cannot be read is logged.
 */
static uint32
look_through(uint32 keep)
{
	DIR		   *directory = AllocateDir(ENDED_DIRECTORY);
	struct dirent *file;
	uint32		highest = 0;

	while ((file = ReadDirExtended(directory, ENDED_DIRECTORY, LOG)) != NULL)
	{
		uint32		number = number_of(file->d_name);
		char		path[MAXPGPATH];

		highest = Max(highest, number);
		if (number == 0 || keep == 0 || number == keep)
			continue;
		snprintf(path, sizeof(path), ENDED_FILE, number);
		(void) unlink(path);
	}
	FreeDir(directory);
	return highest;
}

/* A crash between renaming and removing leaves two, of which the newer counts. */
static void
write_durably(const char *contents, Size size)
{
	int			file = OpenTransientFile(ENDED_FILE_TMP, O_CREAT | O_TRUNC | O_WRONLY | PG_BINARY);
	char		path[MAXPGPATH];

	if (file < 0)
		refuse_unsaved(ENDED_FILE_TMP);
	errno = 0;
	if (write(file, contents, size) != (ssize_t) size)
	{
		/* no errno: no space */
		if (errno == 0)
			errno = ENOSPC;
		refuse_unsaved(ENDED_FILE_TMP);
	}
	if (pg_fsync(file) != 0 || CloseTransientFile(file) != 0)
		refuse_unsaved(ENDED_FILE_TMP);
	snprintf(path, sizeof(path), ENDED_FILE, state()->file_number + 1);
	(void) durable_rename(ENDED_FILE_TMP, path, ERROR);
	state()->file_number++;
	(void) look_through(state()->file_number);
}

/*
 * See that the file has all that was raised until now; an error if it cannot be
 * written.  Whoever writes it writes for all.  Inside a transaction, which gives
 * back the lock and the file after an error.
 */
void
idgen_ended_save(void)
{
	uint64		wanted;
	uint64		version;
	char	   *contents;
	Size		size;

	lock_entries(LW_SHARED);
	wanted = state()->version;
	unlock_entries();
	if (!idgen_lock_within(&state()->file_lock, LW_EXCLUSIVE, FILE_WITHIN_US))
		ereport(ERROR,
				(errcode(ERRCODE_IDGEN_UNAVAILABLE),
				 errmsg("could not write file \"%s\"", ENDED_FILE_TMP),
				 errdetail("Another process has been writing it for a second."),
				 errhint("Retry; if it goes on, look for a stopped PostgreSQL process (state \"T\" in ps), and let it continue.")));
	if (state()->saved_version < wanted)
	{
		contents = compose(&size, &version);
		write_durably(contents, size);
		pfree(contents);
		lock_entries(LW_EXCLUSIVE);
		state()->saved_version = version;
		unlock_entries();
	}
	LWLockRelease(&state()->file_lock);
}

#define UNREAD_DETAIL \
	errdetail("New namespaces may begin before the end of what was issued under their names from databases or extensions that were dropped before this start.")

/* Read the whole file, its checksum and the like compared; NULL if there is none. */
static char *
read_whole(FileHead *head)
{
	char		path[MAXPGPATH];
	FILE	   *file;
	char	   *contents = NULL;
	Size		size = 0;
	pg_crc32c	crc = 0;
	pg_crc32c	saved_crc = 1;

	state()->file_number = look_through(0);
	snprintf(path, sizeof(path), ENDED_FILE, state()->file_number);
	if (state()->file_number == 0)
		return NULL;
	file = AllocateFile(path, PG_BINARY_R);
	if (file == NULL)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path),
				 UNREAD_DETAIL));
		return NULL;
	}
	if (fread(head, sizeof(*head), 1, file) == 1 &&
		head->magic == ENDED_FILE_MAGIC && head->version == ENDED_FILE_VERSION &&
		head->entry_size == sizeof(FileEntry) && head->count <= IDGEN_ENDED_MAX)
	{
		size = head->count * sizeof(FileEntry);
		contents = palloc(size + 1);
		INIT_CRC32C(crc);
		COMP_CRC32C(crc, head, sizeof(*head));
		if (fread(contents, 1, size, file) == size)
			COMP_CRC32C(crc, contents, size);
		FIN_CRC32C(crc);
		if (fread(&saved_crc, sizeof(saved_crc), 1, file) != 1)
			saved_crc = ~crc;
	}
	FreeFile(file);
	if (contents != NULL && EQ_CRC32C(crc, saved_crc))
		return contents;
	ereport(LOG,
			(errmsg("file \"%s\" is damaged and is not used", path),
			 UNREAD_DETAIL));
	if (contents != NULL)
		pfree(contents);
	return NULL;
}

/* Once in the life of shared memory, by the process that made it. */
void
idgen_ended_load(void)
{
	FileHead	head;
	char	   *contents = read_whole(&head);

	if (contents == NULL)
		return;
	for (uint32 i = 0; i < head.count && head.system_identifier == GetSystemIdentifier(); i++)
	{
		FileEntry	saved;
		IdgenEnded *entry = &state()->entries[i];

		memcpy(&saved, contents + i * sizeof(FileEntry), sizeof(saved));
		entry->gone = saved.gone != 0;
		entry->database = entry->gone ? InvalidOid : saved.database;
		strlcpy(entry->database_name, saved.database_name, NAMEDATALEN);
		strlcpy(entry->namespace_name, saved.namespace_name, NAMEDATALEN);
		entry->issued_ms = saved.issued_ms;
		entry->bound_ms = saved.bound_ms;
		entry->dropped_ms = saved.dropped_ms;
		entry->reached_ms = saved.reached_ms;
		entry->namespace_uuid = saved.namespace_uuid;
	}
	pfree(contents);
}

/* When shared memory is initialised. */
void
idgen_ended_init(int tranche)
{
	LWLockInitialize(&state()->lock, tranche);
	LWLockInitialize(&state()->file_lock, tranche);
	pg_atomic_init_u32(&state()->missed, 0);
}

/* --------------------------------------------------------------------
 * While a namespace lives
 * -------------------------------------------------------------------- */

/*
 * In this life of shared memory a namespace is granted from for the first time:
 * all that was granted before ends at granted_ms.  From now on what its cursors
 * issue is known.
 */
void
idgen_ended_inherit(Oid database, const char *namespace_name, int64 granted_ms)
{
	IdgenEnded *entry;

	lock_entries(LW_EXCLUSIVE);
	entry = make_entry(database, namespace_name);
	if (entry != NULL && !entry->whole)
	{
		entry->inherited_ms = Max(entry->inherited_ms, granted_ms);
		entry->whole = true;
	}
	unlock_entries();
}

/*
 * A grant will let IDs be issued, up to end_ms, of which only the bound will
 * know: outside, or ahead of the clock.  True if the file is to be saved before it
 * is given to anybody.  Up to *bound_ms nothing needs to be promised again.
 * Marks that are in the tables, committed, have come to reached_ms.
 */
bool
idgen_ended_promise(Oid database, const char *namespace_name,
					const pg_uuid_t *namespace_uuid, int64 reached_ms, int64 end_ms,
					int64 ahead_ms, bool external, int64 *bound_ms)
{
	char	   *database_name = get_database_name(database);
	IdgenEnded *entry;
	bool		unsaved;

	lock_entries(LW_EXCLUSIVE);
	entry = need_entry(database, namespace_name);
	entry->external |= external;
	if (end_ms > entry->bound_ms)
		raise_bound(entry, database_name, end_ms + ahead_ms);
	entry->namespace_uuid = *namespace_uuid;
	entry->reached_ms = reached_ms;
	*bound_ms = entry->bound_ms;
	unsaved = entry->version > state()->saved_version;
	unlock_entries();
	return unsaved;
}

/*
 * Have the marks of a namespace, that have come to reached_ms in the tables, come
 * further before?  Then the tables went back under the file: a copy of the data
 * directory was copied over it.  Nothing was promised past *bound_ms.
 */
bool
idgen_ended_overtook(Oid database, const char *namespace_name,
					 const pg_uuid_t *namespace_uuid, int64 reached_ms,
					 int64 *bound_ms)
{
	IdgenEnded *entry;
	bool		overtook;

	lock_entries(LW_SHARED);
	entry = find_entry(database, namespace_name);
	overtook = entry != NULL && entry->reached_ms > reached_ms &&
		memcmp(&entry->namespace_uuid, namespace_uuid, sizeof(pg_uuid_t)) == 0;
	*bound_ms = overtook ? entry->bound_ms : 0;
	unlock_entries();
	return overtook;
}

/* --------------------------------------------------------------------
 * Ends
 * -------------------------------------------------------------------- */

/*
 * A cursor was killed that issued until issued_ms.  Also at commit, so without
 * failing: if some process is stopped while it holds the lock, the bounds stand.
 * The lock is tried for until *patience_us is used up, and after that only tried.
 */
void
idgen_ended_note(Oid database, const char *namespace_name, int64 issued_ms,
				 int64 *patience_us)
{
	IdgenEnded *entry;

	if (!idgen_lock_within(&state()->lock, LW_EXCLUSIVE, *patience_us))
	{
		*patience_us = 0;
		pg_atomic_write_u32(&state()->missed, 1);
		return;
	}
	entry = make_entry(database, namespace_name);
	if (entry != NULL)
		entry->issued_ms = Max(entry->issued_ms, issued_ms);
	unlock_entries();
}

/*
 * A cursor that lives was granted up to granted_ms; its namespace will be dropped.
 */
void
idgen_ended_bound_cursor(Oid database, const char *namespace_name, int64 granted_ms)
{
	lock_entries(LW_EXCLUSIVE);
	raise_bound(need_entry(database, namespace_name), NULL, granted_ms);
	unlock_entries();
}

/*
 * The extension, or its whole database, will be dropped if the transaction
 * commits.  The bounds of all that is remembered of it are in the file when this
 * returns; marks are what the tables say.
 */
void
idgen_ended_begin_drop(Oid database, bool whole_database,
					   const IdgenEndedMarks *marks, int count)
{
	char	   *database_name = get_database_name(database);

	lock_entries(LW_EXCLUSIVE);
	for (int i = 0; i < count; i++)
		if (marks[i].granted_ms > 0)
			raise_bound(need_entry(database, marks[i].namespace_name), NULL,
						marks[i].granted_ms);
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &state()->entries[i];

		if (!is_used(entry) || entry->database != database)
			continue;
		raise_bound(entry, database_name, latest_ms(entry));
		entry->dropping = true;
		entry->undo_ms = entry->dropped_ms;
		entry->dropped_ms = entry->bound_ms;
		entry->gone = whole_database;
	}
	unlock_entries();
	idgen_ended_save();
}

/* What the tables said of a namespace; NULL if nothing. */
static const IdgenEndedMarks *
find_marks(const IdgenEndedMarks *marks, int count, const char *namespace_name)
{
	for (int i = 0; i < count; i++)
		if (strcmp(marks[i].namespace_name, namespace_name) == 0)
			return &marks[i];
	return NULL;
}

/*
 * The namespace is gone, and its cursors have been killed.  What they issued is
 * known, unless it was granted before this life of shared memory, or outside
 * where no table says until when.
 */
static void
settle(IdgenEnded *entry, const IdgenEndedMarks *marks)
{
	bool		known = entry->whole && pg_atomic_read_u32(&state()->missed) == 0 &&
		(marks != NULL ? marks->told : !entry->external);

	if (known)
	{
		int64		issued_ms = Max(entry->issued_ms, entry->inherited_ms);

		if (marks != NULL)
			issued_ms = Max(issued_ms, marks->told_ms);
		entry->dropped_ms = Max(issued_ms, entry->undo_ms);
		entry->bound_ms = entry->dropped_ms;
		entry->inherited_ms = issued_ms;
		entry->external = false;
	}
	entry->dropped_ms = Max(entry->dropped_ms, entry->issued_ms);
	entry->dropping = false;
	state()->version++;
}

/* One entry for all databases of a name that are gone. */
static void
merge_gone(IdgenEnded *entry)
{
	entry->database = InvalidOid;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *other = &state()->entries[i];

		if (other == entry || !is_used(other) || !other->gone ||
			OidIsValid(other->database) ||
			strcmp(other->database_name, entry->database_name) != 0 ||
			strcmp(other->namespace_name, entry->namespace_name) != 0)
			continue;
		other->issued_ms = Max(other->issued_ms, entry->issued_ms);
		other->bound_ms = Max(other->bound_ms, entry->bound_ms);
		other->dropped_ms = Max(other->dropped_ms, entry->dropped_ms);
		memset(entry, 0, sizeof(*entry));
		return;
	}
}

/*
 * The drop has committed, and the cursors were killed.  This cannot fail: where the
 * lock cannot be had, the bounds stand.  The file keeps them until it is written
 * the next time.
 *
 * While DROP DATABASE waited for others to leave, one of them may have dropped the
 * extension, and settled what this drop had begun, or a worker may have promised
 * more: all that is known of the database goes with it.
 */
void
idgen_ended_committed(Oid database, bool whole_database,
					  const IdgenEndedMarks *marks, int count)
{
	if (!idgen_lock_within(&state()->lock, LW_EXCLUSIVE, WITHIN_US))
		return;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &state()->entries[i];

		if (!is_used(entry) || entry->database != database)
			continue;
		if (entry->dropping)
			settle(entry, find_marks(marks, count, entry->namespace_name));
		else if (whole_database)
			entry->dropped_ms = latest_ms(entry);
		entry->gone = whole_database;
		if (whole_database)
			merge_gone(entry);
	}
	unlock_entries();
}

/*
 * The drop was rolled back.  Bounds that were raised for it stay: nobody asks for
 * them while the namespace lives.
 */
void
idgen_ended_aborted(Oid database)
{
	if (!idgen_lock_within(&state()->lock, LW_EXCLUSIVE, WITHIN_US))
		return;
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		IdgenEnded *entry = &state()->entries[i];

		if (!is_used(entry) || entry->database != database || !entry->dropping)
			continue;
		entry->dropped_ms = entry->undo_ms;
		entry->gone = false;
		entry->dropping = false;
	}
	unlock_entries();
}

/* --------------------------------------------------------------------
 * Where a new namespace begins
 * -------------------------------------------------------------------- */

/*
 * Until when a namespace that was dropped issued: with "all" by anybody, else by
 * its cursors; the later of them that lies within the limit, 0 if none does.
 */
static int64
within(const IdgenEnded *entry, int64 limit_ms, bool all)
{
	int64		issued_ms = Min(entry->issued_ms, entry->dropped_ms);

	if (all && entry->dropped_ms <= limit_ms)
		return entry->dropped_ms;
	return issued_ms <= limit_ms ? issued_ms : 0;
}

/*
 * Was this noted of another database, under the name that ours has now?  No two have
 * one name at a time, so that one is gone, or was renamed.  Also if its drop did not
 * take this entry along: a grant may be promised while the worker is asked to leave,
 * and a crash may come between the commit and what is noted of it.
 */
static bool
had_our_name(const IdgenEnded *entry, Oid database, const char *database_name)
{
	return !entry->gone && entry->database != database &&
		strcmp(entry->database_name, database_name) == 0;
}

/*
 * The Unix ms until which a namespace of this name was issued from before it was
 * dropped; 0 if never.  What went with its database counts for a database of the
 * same name, and what its cursors issued for every database: unless it is of later
 * than limit_ms, since no clock that is believed now can have been at it, so that
 * it would stand for years in everybody's way.
 */
int64
idgen_ended_dropped_until(Oid database, const char *database_name,
						  const char *namespace_name, int64 limit_ms)
{
	int64		until_ms = 0;

	lock_entries(LW_SHARED);
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		const IdgenEnded *entry = &state()->entries[i];

		if (strcmp(entry->namespace_name, namespace_name) != 0)
			continue;
		if (had_our_name(entry, database, database_name))
		{
			if (latest_ms(entry) <= limit_ms)
				until_ms = Max(until_ms, latest_ms(entry));
		}
		else if (entry->gone)
			until_ms = Max(until_ms,
						   within(entry, limit_ms,
								  strcmp(entry->database_name, database_name) == 0));
		else if (entry->database == database)
			until_ms = Max(until_ms, entry->dropped_ms);
	}
	unlock_entries();
	return until_ms;
}

/*
 * The latest Unix ms, limit_ms at most, until which anything was issued that has
 * been dropped, of whatever database and name; 0 if there is none.
 */
int64
idgen_ended_dropped_anywhere(int64 limit_ms)
{
	int64		until_ms = 0;

	lock_entries(LW_SHARED);
	for (int i = 0; i < IDGEN_ENDED_MAX; i++)
	{
		const IdgenEnded *entry = &state()->entries[i];

		if (is_used(entry) && entry->dropped_ms > 0)
			until_ms = Max(until_ms, within(entry, limit_ms, true));
	}
	unlock_entries();
	return until_ms;
}
