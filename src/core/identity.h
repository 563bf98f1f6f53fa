/*
 * identity.h
 *		What tells a server and a database from their copies, and what a
 *		difference means (doc/design.md, "Identity of the authority").
 */
#ifndef IDGEN_CORE_IDENTITY_H
#define IDGEN_CORE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The server and the database in which an authority lives.  Birth times are in
 * nanoseconds.  A birth time is 0 where the filesystem has none; then only the
 * inode is compared.
 */
typedef struct IdgenIdentity
{
	uint64_t	system_identifier;
	uint32_t	database;
	uint32_t	timeline;
	uint64_t	control_inode;	/* global/pg_control */
	int64_t		control_birth;
	uint64_t	version_inode;	/* PG_VERSION of the database */
	int64_t		version_birth;
} IdgenIdentity;

typedef enum IdgenIdentityVerdict
{
	IDGEN_IDENTITY_SAME,
	IDGEN_IDENTITY_OTHER_SYSTEM,	/* dump and restore, pg_upgrade */
	IDGEN_IDENTITY_OTHER_DATABASE,	/* CREATE DATABASE ... TEMPLATE */
	IDGEN_IDENTITY_OTHER_TIMELINE,	/* promotion, point-in-time recovery */
	IDGEN_IDENTITY_OTHER_CONTROL,	/* copied directory, backup without
									 * recovery, moved host */
	IDGEN_IDENTITY_OTHER_FILES	/* only PG_VERSION differs: the OID was
								 * re-created, or SET TABLESPACE moved the
								 * database; no copy can be running */
} IdgenIdentityVerdict;

extern IdgenIdentityVerdict idgen_identity_compare(const IdgenIdentity *recorded,
												   const IdgenIdentity *found);
extern bool idgen_identity_is_recreated(const IdgenIdentity *recorded,
										const IdgenIdentity *found);

#endif							/* IDGEN_CORE_IDENTITY_H */
