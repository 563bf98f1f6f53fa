/*
 * identity.c
 *		Read the identity of this server and database, and the history of its
 *		timeline.
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

/* When the status of a file last changed, in Unix ms, rounded up. */
static int64
changed_ms(const struct stat *file)
{
	return (int64) file->st_ctime * 1000 + 999;
}

/*
 * Note a time by which a timeline had begun: when the status of its history
 * file in pg_wal last changed.  The file is written when the timeline begins;
 * a copy of it is made later, never earlier.  A missing file proves nothing.
 */
static void
note_begun_file(IdgenPromotionFacts *facts, TimeLineID timeline)
{
	char		path[MAXPGPATH];
	struct stat file;
	IdgenTimelineBegun *begun;

	TLHistoryFilePath(path, timeline);
	if (stat(path, &file) != 0)
		return;
	begun = &facts->begun[facts->begun_count++];
	begun->timeline = timeline;
	begun->known_ms = changed_ms(&file);
}

/*
 * When this directory last began to recover what another server wrote: a base
 * backup, or the rest of a server's files after pg_rewind.  Both come with a backup
 * label, which is renamed at that time, and renaming changes its ctime.  If the time
 * cannot be read, it is taken for the latest possible.
 */
static int64
read_restored_ms(void)
{
	struct stat file;

	if (stat(BACKUP_LABEL_OLD, &file) == 0)
		return changed_ms(&file);
	return errno == ENOENT ? 0 : PG_INT64_MAX;
}

/*
 * Read how the present timeline came to be from its history file, and when it and
 * its latest ancestors had begun.  A file that is missing or cannot be read is a
 * history that proves nothing.  It is never an error, which would leave the
 * namespace without IDs for as long as the file stays as it is.
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

	note_begun_file(facts, facts->present);
	for (int i = 0; i < history.near_count; i++)
		note_begun_file(facts, history.near[i]);
}
