/*
 * file_identity.c
 *		What tells a file from a copy of it: its inode and its birth time.
 *
 * A restart changes neither, while a copy of the data directory changes both.  Some
 * filesystems keep no birth time; it is 0 there, and the inode has to do.
 */
#include "compat.h"

#include "file_identity.h"

#include <fcntl.h>
#include <sys/stat.h>

/* Raises an error if the file cannot be looked at. */
void
idgen_file_identity_read(const char *path, uint64 *inode, int64 *birth_ns)
{
#ifdef STATX_BTIME
	struct statx file;

	if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME, &file) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not stat file \"%s\": %m", path)));
	*inode = file.stx_ino;
	*birth_ns = (file.stx_mask & STATX_BTIME) == 0 ? 0 :
		(int64) file.stx_btime.tv_sec * 1000000000 + file.stx_btime.tv_nsec;
#else
	struct stat file;

	if (stat(path, &file) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not stat file \"%s\": %m", path)));
	*inode = file.st_ino;
	*birth_ns = 0;
#endif
}

/* The control file stands for the data directory, in which every process runs. */
void
idgen_file_identity_read_control(uint64 *inode, int64 *birth_ns)
{
	idgen_file_identity_read("global/pg_control", inode, birth_ns);
}
