/*
 * ended_file.h
 *		The file that keeps over a restart until when namespaces issued IDs.
 */
#ifndef IDGEN_ENDED_FILE_H
#define IDGEN_ENDED_FILE_H

#include "postgres.h"

#include "shmem/ended.h"

extern int	idgen_ended_file_read(IdgenEnded *entries, uint32 *number);
extern void idgen_ended_file_write(const IdgenEnded *entries, int count, uint32 number);

#endif							/* IDGEN_ENDED_FILE_H */
