/*
 * identity.c
 *		Read the marks of this server and database; make random identifiers.
 */
#include "compat.h"

#include "catalog/identity.h"

#include <sys/stat.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "miscadmin.h"
#include "storage/fd.h"

#include "core/history.h"
#include "file_identity.h"

/* What a double, and so a number in JSON, holds without loss. */
#define NUMBER_BITS 53

/* The identity of this server and database, now.  Not during recovery. */
void
idgen_identity_read(IdgenIdentity *identity)
{
	char		version_path[MAXPGPATH];

	memset(identity, 0, sizeof(*identity));
	identity->system_identifier = GetSystemIdentifier();
	identity->database = MyDatabaseId;
	identity->timeline = GetWALInsertionTimeLine();

	idgen_file_identity_read_control(&identity->control_inode,
									 &identity->control_birth);
	snprintf(version_path, sizeof(version_path), "%s/PG_VERSION", DatabasePath);
	idgen_file_identity_read(version_path, &identity->version_inode,
							 &identity->version_birth);
}

/*
 * Add that a timeline had begun when its history file in pg_wal was last changed: it
 * is written when the timeline begins, and a copy of it is made later, never earlier.
 * Where there is none, it tells nothing.
 */
static void
add_begun(IdgenPromotionFacts *facts, TimeLineID timeline)
{
	char		path[MAXPGPATH];
	struct stat file;

	TLHistoryFilePath(path, timeline);
	if (stat(path, &file) != 0)
		return;
	facts->begun[facts->begun_count++] = (IdgenTimelineBegun) {
		.timeline = timeline,
		.known_ms = (int64) file.st_ctime * 1000 + 999
	};
}

/*
 * When this directory last began to recover what another server wrote: a base backup,
 * or the rest of a server's files after pg_rewind.  Either has a backup label, which
 * is renamed then, and that changes its ctime.  Where nobody can tell, it is never
 * long ago.
 */
static int64
read_restored_ms(void)
{
	struct stat file;

	if (stat(BACKUP_LABEL_OLD, &file) == 0)
		return (int64) file.st_ctime * 1000 + 999;
	return errno == ENOENT ? 0 : PG_INT64_MAX;
}

/*
 * Read how the present timeline came to be from its history file, and when it and its
 * latest ancestors had begun.  A file that is missing, or cannot be read, is a history
 * that says nothing: never an error, which would leave the namespace without IDs for
 * as long as the file is as it is.
 */
void
idgen_identity_read_history(IdgenPromotionFacts *facts)
{
	char		path[MAXPGPATH];
	char		line[MAXPGPATH];
	IdgenHistory history;
	FILE	   *file;

	facts->history_complete = false;
	facts->has_target = false;
	facts->begun_count = 0;
	facts->restored_ms = read_restored_ms();
	TLHistoryFilePath(path, facts->present);
	file = AllocateFile(path, "r");
	if (file == NULL)
		return;
	idgen_history_begin(&history, facts->recorded, facts->present);
	while (fgets(line, sizeof(line), file) != NULL)
		idgen_history_read_line(&history, line);
	facts->history_complete = !ferror(file) && idgen_history_is_complete(&history);
	facts->has_target = history.has_target;
	FreeFile(file);

	add_begun(facts, facts->present);
	for (int i = 0; i < history.near_count; i++)
		add_begun(facts, history.near[i]);
}

static void
random_bytes(void *bytes, size_t count)
{
	if (!pg_strong_random(bytes, count))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
}

/* A random (version 4) uuid. */
void
idgen_identity_make_uuid(pg_uuid_t *uuid)
{
	random_bytes(uuid->data, UUID_LEN);
	uuid->data[6] = (uuid->data[6] & 0x0f) | 0x40;
	uuid->data[8] = (uuid->data[8] & 0x3f) | 0x80;
}

/*
 * A random positive number, for incarnations and grants.  Random, not counted:
 * a counter would repeat after a failover that lost its last values.
 *
 * Below 2^53, so that it survives being a number in JSON.  Of a million
 * incarnations that are on record, a new one meets none with a probability of
 * 1 - 1e-10; should it, the primary key refuses it, and the round is repeated
 * with other numbers.  One that was lost in a failover is met as seldom, and its
 * token is another.  A grant's number is only compared with others of its
 * incarnation.
 */
int64
idgen_identity_make_number(void)
{
	uint64		number;

	do
		random_bytes(&number, sizeof(number));
	while ((number &= (UINT64CONST(1) << NUMBER_BITS) - 1) == 0);
	return (int64) number;
}
