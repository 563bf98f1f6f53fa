/*
 * marks.h
 *		High-water marks as the authority process keeps them in memory.
 *
 * Apart from a restore, which makes the namespace a copy, only the authority
 * process writes marks.  So they are what it wrote last; every write is
 * conditional on that (S2).  Keeping them in memory saves look-ups, which
 * would become slower with the dead row versions that a long transaction keeps
 * alive.
 */
#ifndef IDGEN_MARKS_H
#define IDGEN_MARKS_H

#include "postgres.h"

#include "storage/itemptr.h"
#include "utils/uuid.h"

#include "core/worker.h"

/* A row of idgen_worker. */
typedef struct IdgenMark
{
	int32		worker;
	int64		high_water;
	int64		incarnation;	/* granted last; 0 = not known */
	bool		external;		/* an external generator holds the incarnation */
	bool		active;			/* the incarnation is not known to have ended */
	char		role[NAMEDATALEN];	/* of an external one */
	ItemPointerData tid;		/* of the row version written last */
} IdgenMark;

/* The marks of one namespace. */
typedef struct IdgenMarks
{
	MemoryContext context;		/* of this struct and the marks */
	pg_uuid_t	uuid;
	char		name[NAMEDATALEN];
	bool		verified;		/* this process has compared the identity */
	bool		loaded;			/* if not, read the marks before use */
	uint64		tables_version; /* idgen_tables_version when the marks were
								 * last read or checked */
	uint64		fingerprint;	/* of the tables then */
	ItemPointerData authority_tid;
	int64		floor;
	int64		external_end;	/* no external grant ends later */
	ItemPointerData floor_tid;
	bool		inherited;		/* the end of what a dropped namespace of this
								 * name issued was taken over, see ended.c */
	bool		begun;			/* something was granted above the floor */
	uint64		settled;		/* see idgen_ended_settled */
	int64		promised_ms;	/* the bound in the file of ended.c, Unix ms */
	bool		promised_external;	/* that bound covers external grants */
	int64		length_needed;	/* see idgen_grant_length_needed; 0 = any */
	int			count;
	int			max;
	IdgenMark  *marks;			/* ascending by worker */
} IdgenMarks;

extern IdgenMarks *idgen_marks_find_known(const pg_uuid_t *uuid);
extern IdgenMarks *idgen_marks_get(const pg_uuid_t *uuid, const char *name);
extern void idgen_marks_free_gone(bool (*gone) (const IdgenMarks *marks));
extern void idgen_marks_forget_all(void);
extern IdgenMark *idgen_marks_find(IdgenMarks *marks, int32 worker);
extern IdgenMark *idgen_marks_add(IdgenMarks *marks, const IdgenMark *mark);
extern int64 *idgen_marks_taken(const IdgenMarks *marks, int64 now,
								size_t *count);
extern void idgen_marks_note_ended(IdgenMarks *marks, int64 incarnation);
extern IdgenWorkerMark *idgen_marks_list(const IdgenMarks *marks);
extern bool idgen_marks_is_held(const IdgenMark *mark, const IdgenWorkerRange *range,
								int64 now);
extern void idgen_marks_count_external(const IdgenMarks *marks,
									   const IdgenWorkerRange *range,
									   int64 now, const char *role,
									   int64 *all, int64 *of_role);
extern int64 idgen_marks_highest(const IdgenMarks *marks);
extern bool idgen_marks_next(const char **name, int32 *worker);

#endif							/* IDGEN_MARKS_H */
