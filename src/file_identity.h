/*
 * file_identity.h
 *		What tells a file from its copies: inode and birth time.
 */
#ifndef IDGEN_FILE_IDENTITY_H
#define IDGEN_FILE_IDENTITY_H

#include "postgres.h"

extern void idgen_file_identity_read(const char *path, uint64 *inode,
									 int64 *birth_ns);
extern void idgen_file_identity_read_control(uint64 *inode, int64 *birth_ns);

#endif							/* IDGEN_FILE_IDENTITY_H */
