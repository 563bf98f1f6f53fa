/*
 * consumer.h
 *		Columns of other tables that take IDs, or are to take them.
 */
#ifndef IDGEN_CONSUMER_H
#define IDGEN_CONSUMER_H

#include "compat.h"

#include "access/attnum.h"
#include "nodes/pg_list.h"

/* What the default of a column does. */
typedef enum IdgenDefaultKind
{
	IDGEN_DEFAULT_NONE,
	IDGEN_DEFAULT_ISSUES,		/* it calls a function of ours */
	IDGEN_DEFAULT_OWN_SEQUENCE, /* nextval() of the sequence that it owns */
	IDGEN_DEFAULT_OTHER
} IdgenDefaultKind;

/* A column, as PostgreSQL's catalogs describe it.  Lives in the memory of the query. */
typedef struct IdgenConsumer
{
	Oid			relid;
	AttrNumber	attnum;
	char	   *schema;
	char	   *table;
	char	   *column;
	char		relkind;
	bool		owned;			/* the table, by the current user */
	bool		partition;
	bool		inherits;		/* the table from another one, or another one
								 * from it */
	Oid			type;			/* under all domains */
	char	   *type_name;
	bool		domain;
	bool		not_null;
	bool		identity;
	bool		generated;
	bool		refers;			/* to a key of another table */
	bool		unique;			/* by itself */
	bool		unique_with_others; /* as a column of a key */
	Oid			sequence;		/* that the column owns; InvalidOid = none */
	char	   *sequence_name;	/* qualified and quoted; NULL = none */
	List	   *narrower;		/* char *: columns that refer to it and are
								 * too small for an ID */
	List	   *writers;		/* Oid: who may insert; InvalidOid = PUBLIC */
	IdgenDefaultKind default_kind;
	Oid			function;		/* that issues */
	char	   *namespace_name; /* of the function; NULL = not a constant */
} IdgenConsumer;

extern List *idgen_consumer_list(void);
extern IdgenConsumer *idgen_consumer_find(Oid relid, const char *column);
extern List *idgen_consumer_barred(const IdgenConsumer *consumer,
								   const char *namespace_name, Oid function);
extern Oid	idgen_consumer_function(const char *name);

#endif							/* IDGEN_CONSUMER_H */
