/*
 * ended_file.c
 *		The file that keeps over a restart until when namespaces issued IDs.
 *
 * The file is written anew each time, flushed and durably renamed.  A base backup may
 * carry it; there it is old and harmless, since it only makes new namespaces of the same
 * names wait.  The file of another cluster is not used.
 */
#include "compat.h"

#include "shmem/ended_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlog.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"

/*
 * Beside the file of the clock; PostgreSQL leaves it alone, also after a crash.  Its name
 * has a number that rises each time it is written, and the highest one counts: so an old
 * copy of the data directory that is copied over this one, into the same files, does not
 * overwrite it.
 */
#define ENDED_DIRECTORY		"pg_stat"
#define ENDED_FILE			ENDED_DIRECTORY "/idgen_ended.%08x.stat"
#define ENDED_FILE_TMP		ENDED_DIRECTORY "/idgen_ended.tmp"
#define ENDED_FILE_MAGIC	0x1d6e0e4d
#define ENDED_FILE_VERSION	1

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
	int64		first_used_ms;
	pg_uuid_t	namespace_uuid;
} FileEntry;

/* --------------------------------------------------------------------
 * Writing
 * -------------------------------------------------------------------- */

/* Raise an error: the file could not be written, and errno says why. */
static void
refuse_unsaved(const char *path)
{
	ereport(ERROR,
			(errcode_for_file_access(),
			 errmsg("could not write file \"%s\": %m", path),
			 errdetail("The file must record how long a namespace can issue IDs before it is dropped, or gets a grant ahead of the clock or outside the server."),
			 errhint("Free disk space or correct the permissions of the directory, and retry.")));
}

/* The number in the name of one of these files; 0 if it is another file. */
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
 * The highest number of these files, 0 if there is none.  Unless "keep" is 0, all of them
 * but the one with that number are removed.  If the directory cannot be read, that is
 * logged.
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

/* A crash between renaming and removing leaves two files, of which the newer counts. */
static void
write_durably(const char *contents, Size size, uint32 number)
{
	int			file = OpenTransientFile(ENDED_FILE_TMP, O_CREAT | O_TRUNC | O_WRONLY | PG_BINARY);
	char		path[MAXPGPATH];

	if (file < 0)
		refuse_unsaved(ENDED_FILE_TMP);
	errno = 0;
	if (write(file, contents, size) != (ssize_t) size)
	{
		/* a short write sets no errno */
		if (errno == 0)
			errno = ENOSPC;
		refuse_unsaved(ENDED_FILE_TMP);
	}
	if (pg_fsync(file) != 0 || CloseTransientFile(file) != 0)
		refuse_unsaved(ENDED_FILE_TMP);
	snprintf(path, sizeof(path), ENDED_FILE, number);
	(void) durable_rename(ENDED_FILE_TMP, path, ERROR);
	(void) look_through(number);
}

/*
 * Write the entries into the file with that number, and remove the older ones.
 * When this returns they are flushed; raises an error if they cannot be
 * written.  Caller holds the lock of the file and is inside a transaction,
 * which releases the lock and the file after an error.
 */
void
idgen_ended_file_write(const IdgenEnded *entries, int count, uint32 number)
{
	Size		size = sizeof(FileHead) + count * sizeof(FileEntry);
	char	   *contents = palloc0(size + sizeof(pg_crc32c));
	FileHead   *head = (FileHead *) contents;
	FileEntry  *saved = (FileEntry *) (contents + sizeof(FileHead));
	pg_crc32c	crc;

	head->magic = ENDED_FILE_MAGIC;
	head->version = ENDED_FILE_VERSION;
	head->system_identifier = GetSystemIdentifier();
	head->entry_size = sizeof(FileEntry);
	head->count = count;
	for (int i = 0; i < count; i++)
	{
		saved[i].database = entries[i].database;
		saved[i].gone = entries[i].gone;
		strlcpy(saved[i].database_name, entries[i].database_name, NAMEDATALEN);
		strlcpy(saved[i].namespace_name, entries[i].namespace_name, NAMEDATALEN);
		saved[i].issued_ms = entries[i].issued_ms;
		saved[i].bound_ms = entries[i].bound_ms;
		saved[i].dropped_ms = entries[i].dropped_ms;
		saved[i].reached_ms = entries[i].reached_ms;
		saved[i].first_used_ms = entries[i].first_used_ms;
		saved[i].namespace_uuid = entries[i].namespace_uuid;
	}
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, contents, size);
	FIN_CRC32C(crc);
	memcpy(contents + size, &crc, sizeof(crc));
	write_durably(contents, size + sizeof(crc), number);
	pfree(contents);
}

/* --------------------------------------------------------------------
 * Reading
 * -------------------------------------------------------------------- */

#define UNREAD_DETAIL \
	errdetail("New namespaces may issue IDs that were issued under the same names before an extension or database was dropped.")

/*
 * The entries of the file, palloc'd, if it is whole; NULL if there is none to be used.
 * *number is that of the file, 0 if there is none.
 */
static char *
read_whole(FileHead *head, uint32 *number)
{
	char		path[MAXPGPATH];
	FILE	   *file;
	char	   *contents = NULL;
	Size		size = 0;
	pg_crc32c	crc = 0;
	pg_crc32c	saved_crc = 1;

	*number = look_through(0);
	snprintf(path, sizeof(path), ENDED_FILE, *number);
	if (*number == 0)
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

/*
 * Read the file that counts into "entries", a zeroed array of IDGEN_ENDED_MAX.
 * Returns how many were read.  A file that cannot be used is logged, and one
 * of another cluster is as good as none.
 */
int
idgen_ended_file_read(IdgenEnded *entries, uint32 *number)
{
	FileHead	head;
	char	   *contents = read_whole(&head, number);
	int			count = 0;

	if (contents == NULL)
		return 0;
	if (head.system_identifier == GetSystemIdentifier())
		count = (int) head.count;
	for (int i = 0; i < count; i++)
	{
		FileEntry	saved;
		IdgenEnded *entry = &entries[i];

		memcpy(&saved, contents + i * sizeof(FileEntry), sizeof(saved));
		entry->gone = saved.gone != 0;
		entry->database = entry->gone ? InvalidOid : saved.database;
		strlcpy(entry->database_name, saved.database_name, NAMEDATALEN);
		strlcpy(entry->namespace_name, saved.namespace_name, NAMEDATALEN);
		entry->issued_ms = saved.issued_ms;
		entry->bound_ms = saved.bound_ms;
		entry->dropped_ms = saved.dropped_ms;
		entry->reached_ms = saved.reached_ms;
		entry->first_used_ms = saved.first_used_ms;
		entry->namespace_uuid = saved.namespace_uuid;
	}
	pfree(contents);
	return count;
}
