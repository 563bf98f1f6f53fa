/*
 * quorum.h
 *		What physical synchronous standbys have confirmed.
 */
#ifndef IDGEN_QUORUM_H
#define IDGEN_QUORUM_H

#include "postgres.h"

#include "access/xlogdefs.h"

#include "error.h"

struct IdgenSender;
struct SyncRepConfigData;

/*
 * What a process knows of the WAL senders; it is read again when it gets old.
 */
typedef struct IdgenQuorum
{
	MemoryContext context;		/* of what it points to */
	struct IdgenSender *senders;	/* [max_wal_senders]; NULL = never read */
	int64		read_us;		/* monotonic */
	struct SyncRepConfigData *setting;	/* a copy of the setting they were
										 * read for */
} IdgenQuorum;

extern void idgen_quorum_init(IdgenQuorum *quorum);
extern bool idgen_quorum_named(void);
extern bool idgen_quorum_available(IdgenQuorum *quorum, IdgenError *error,
								   bool *may_come);
extern XLogRecPtr idgen_quorum_here(void);
extern XLogRecPtr idgen_quorum_confirmed(IdgenQuorum *quorum);
extern bool idgen_quorum_wait(XLogRecPtr position, int64 until_us);
extern bool idgen_quorum_wait_for_all(XLogRecPtr position, int64 until_us, char *name);

#endif							/* IDGEN_QUORUM_H */
