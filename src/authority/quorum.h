/*
 * quorum.h
 *		What physical synchronous standbys have confirmed.
 */
#ifndef IDGEN_QUORUM_H
#define IDGEN_QUORUM_H

#include "postgres.h"

#include "access/xlogdefs.h"

#include "error.h"

extern bool idgen_quorum_named(void);
extern bool idgen_quorum_available(IdgenError *error, bool *may_come);
extern XLogRecPtr idgen_quorum_here(void);
extern XLogRecPtr idgen_quorum_confirmed(void);
extern bool idgen_quorum_wait(XLogRecPtr position, int64 until_us);

#endif							/* IDGEN_QUORUM_H */
