/*
 * ended.h
 *		Until when namespaces that are gone, or may go, issued IDs.
 */
#ifndef IDGEN_ENDED_H
#define IDGEN_ENDED_H

#include "postgres.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "utils/uuid.h"

/*
 * What is remembered of one namespace, by name.  All fields: the lock of the
 * state.  All times are in Unix ms, just past the last tick; 0 = none.
 */
typedef struct IdgenEnded
{
	Oid			database;
	bool		gone;			/* dropped with its database, or about to be */
	bool		dropping;		/* by a transaction that has not ended */
	bool		whole;			/* "inherited_ms" is the end of all grants
								 * made before shared memory was initialised */
	bool		external;		/* some grants were made to external
								 * generators after that */
	char		database_name[NAMEDATALEN];
	char		namespace_name[NAMEDATALEN];	/* empty = unused entry */
	int64		issued_ms;		/* end of what ended cursors issued */
	int64		inherited_ms;
	int64		bound_ms;		/* nothing was or will be issued past it,
								 * except what the other times say; in the
								 * file */
	int64		dropped_ms;		/* end of all that was issued when the
								 * namespace was last dropped */
	pg_uuid_t	namespace_uuid; /* the namespace for which a promise was last
								 * made */
	int64		reached_ms;		/* how far its marks had come then, in the
								 * tables */
	int64		undo_ms;		/* "dropped_ms" before the drop that has not
								 * ended */
	int64		uncommitted_ms; /* bound of what is issued in the transaction
								 * that has created the namespace; in the
								 * file, as part of first_used_ms */
	int64		first_used_ms;	/* end of what was issued in transactions that
								 * had created the namespace, whether or not
								 * they committed; in the file */
	int64		begin_ms;		/* where the namespace begins that the
								 * transaction in progress has created, after
								 * it had dropped another one of the name */
	uint64		version;		/* the version of the state that has this
								 * bound */
} IdgenEnded;

#define IDGEN_ENDED_MAX 4096

typedef struct IdgenEndedState
{
	LWLock		lock;			/* guards all below but file_number; held for
								 * one walk over the entries at most */
	LWLock		file_lock;		/* who writes the file */
	pg_atomic_uint64 settled;	/* atomic; moves when a transaction ends that
								 * has issued from a namespace it created */
	pg_atomic_uint32 missed;	/* atomic; an end could not be noted: what was
								 * issued is no longer known, only what was
								 * granted */
	uint64		version;		/* moves with all that belongs in the file */
	uint64		saved_version;	/* what the file has */
	uint32		file_number;	/* file_lock; of the file */
	IdgenEnded	entries[IDGEN_ENDED_MAX];
} IdgenEndedState;

/* What the tables say of a namespace that is dropped with the extension. */
typedef struct IdgenEndedMarks
{
	char		namespace_name[NAMEDATALEN];
	int64		granted_ms;		/* the end of everything granted or fenced */
	int64		told_ms;		/* the end of grants to external generators,
								 * or the floor if it is later */
	bool		told;			/* the row that has "told_ms" could be read */
} IdgenEndedMarks;

extern Size idgen_ended_size(void);
extern void idgen_ended_init(void *memory, int tranche);
extern void idgen_ended_load(void);

/* --- while a namespace lives; by the authority process */
extern void idgen_ended_inherit(Oid database, const char *namespace_name,
								int64 granted_ms);
extern bool idgen_ended_promise(Oid database, const char *namespace_name,
								const pg_uuid_t *namespace_uuid, int64 reached_ms,
								int64 end_ms, int64 ahead_ms, bool external,
								int64 *bound_ms);
extern bool idgen_ended_overtook(Oid database, const char *namespace_name,
								 const pg_uuid_t *namespace_uuid,
								 int64 reached_ms, int64 *bound_ms);
extern void idgen_ended_save(void);

/* --- in the transaction that creates a namespace */
extern void idgen_ended_begin_after(Oid database, const char *namespace_name,
									int64 after_ms);
extern void idgen_ended_promise_uncommitted(Oid database, const char *namespace_name,
											int64 end_ms, int64 ahead_ms);
extern uint64 idgen_ended_settled(void);
extern int64 idgen_ended_first_used_until(Oid database, const char *namespace_name);
extern bool idgen_ended_settle_uncommitted(Oid database, const char *namespace_name,
										   int64 *until_ms);

/* --- the end of a cursor; these cannot fail */
extern void idgen_ended_note(Oid database, const char *namespace_name,
							 int64 issued_ms, int64 *patience_us);

extern bool idgen_ended_issued_until(Oid database, const char *namespace_name,
									 int64 *until_ms);

/* --- a drop: before the commit, and after the transaction */
extern void idgen_ended_bound_cursor(Oid database, const char *namespace_name,
									 int64 granted_ms);
extern void idgen_ended_begin_drop(Oid database, bool whole_database,
								   const IdgenEndedMarks *marks, int count);
extern void idgen_ended_committed(Oid database, bool whole_database,
								  const IdgenEndedMarks *marks, int count);
extern void idgen_ended_aborted(Oid database);

/* --- where a new namespace begins */
extern int64 idgen_ended_dropped_until(Oid database, const char *database_name,
									   const char *namespace_name, int64 limit_ms);
extern int64 idgen_ended_dropped_anywhere(int64 limit_ms);

#endif							/* IDGEN_ENDED_H */
