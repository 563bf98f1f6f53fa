/*
 * clock_file.h
 *		The file in which the server remembers its clock.
 */
#ifndef IDGEN_CLOCK_FILE_H
#define IDGEN_CLOCK_FILE_H

#include "postgres.h"

#include "core/clock.h"

extern bool idgen_clock_file_read(IdgenClockRecord *record);
extern void idgen_clock_file_write(const IdgenClockRecord *record);

#endif							/* IDGEN_CLOCK_FILE_H */
