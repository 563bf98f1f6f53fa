/*
 * clock_file.c
 *		The file in which the server remembers its clock.
 *
 * A clock that was set while the server was down is as wrong as one that was
 * set while it ran, so what is known of the clock outlives the server.  The
 * file counts for one boot of the machine, because the clock that never steps
 * does, and for one data directory, since a copy may be run with another
 * clock.  Therefore it is written without being flushed: a crash of the
 * machine ends its boot.  Without the file the clock is believed as it is
 * found, which can cost order in time but not uniqueness.
 */
#include "compat.h"

#include "shmem/clock_file.h"

#include <unistd.h>

#include "port/pg_crc32c.h"
#include "storage/fd.h"

#include "file_identity.h"

/* Beside the files of pg_stat_statements and the like. */
#define CLOCK_FILE			"pg_stat/idgen_clock.stat"
#define CLOCK_FILE_MAGIC	0x1d6e0c10

#define BOOT_ID_FILE		"/proc/sys/kernel/random/boot_id"
#define BOOT_ID_SIZE		40

typedef struct ClockFile
{
	uint32		magic;
	uint32		size;
	char		boot[BOOT_ID_SIZE];
	uint64		control_inode;
	int64		control_birth;
	IdgenClockRecord record;
	pg_crc32c	crc;			/* of all before it */
} ClockFile;

/*
 * Fill in what a file of this boot and data directory begins with; false if
 * the boot is not known.
 */
static bool
begin_file(ClockFile *contents)
{
	FILE	   *file = AllocateFile(BOOT_ID_FILE, "r");
	bool		known;

	memset(contents, 0, sizeof(*contents));
	if (file == NULL)
		return false;
	known = fgets(contents->boot, BOOT_ID_SIZE, file) != NULL;
	FreeFile(file);
	contents->magic = CLOCK_FILE_MAGIC;
	contents->size = sizeof(*contents);
	idgen_file_identity_read_control(&contents->control_inode,
									 &contents->control_birth);
	return known;
}

static pg_crc32c
clock_file_checksum(const ClockFile *contents)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, contents, offsetof(ClockFile, crc));
	FIN_CRC32C(crc);
	return crc;
}

/* The record of an earlier life of the server in this boot; false if there is none. */
bool
idgen_clock_file_read(IdgenClockRecord *record)
{
	ClockFile	here;
	ClockFile	saved;
	FILE	   *file;
	bool		complete;

	if (!begin_file(&here))
		return false;
	file = AllocateFile(CLOCK_FILE, PG_BINARY_R);
	if (file == NULL)
		return false;
	complete = fread(&saved, sizeof(saved), 1, file) == 1;
	FreeFile(file);
	if (!complete ||
		memcmp(&saved, &here, offsetof(ClockFile, record)) != 0 ||
		saved.crc != clock_file_checksum(&saved))
		return false;
	*record = saved.record;
	return true;
}

/* False if the file could not be written; then errno says why. */
static bool
write_contents(const char *path, const ClockFile *contents)
{
	FILE	   *file = AllocateFile(path, PG_BINARY_W);
	bool		written;

	if (file == NULL)
		return false;
	written = fwrite(contents, sizeof(*contents), 1, file) == 1;
	return FreeFile(file) == 0 && written;
}

/*
 * Write what is to be remembered.  A process that cannot write it logs that once.  Caller
 * holds the lock of the file.
 */
void
idgen_clock_file_write(const IdgenClockRecord *record)
{
	static bool complained = false;
	ClockFile	contents;

	if (!begin_file(&contents))
		return;
	contents.record = *record;
	contents.crc = clock_file_checksum(&contents);
	if (write_contents(CLOCK_FILE ".tmp", &contents) &&
		rename(CLOCK_FILE ".tmp", CLOCK_FILE) == 0)
		return;
	if (complained)
		return;
	complained = true;
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("could not write file \"%s\": %m", CLOCK_FILE),
			 errdetail("idgen will not notice if the clock is set while the server is down.")));
}
