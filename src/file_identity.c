/*
 * file_identity.c
 *		Read the inode and the birth time of a file.
 */
#include "compat.h"

#include "file_identity.h"

#include <fcntl.h>
#include <sys/stat.h>

/*
 * Read the inode and the birth time of a file.  The birth time is 0 where the
 * operating system or the filesystem does not tell it.
 */
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

/* The control file, which tells this data directory from its copies. */
void
idgen_file_identity_read_control(uint64 *inode, int64 *birth_ns)
{
	/* relative to the data directory, where every process runs */
	idgen_file_identity_read("global/pg_control", inode, birth_ns);
}
