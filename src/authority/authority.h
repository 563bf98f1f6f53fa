/*
 * authority.h
 *		What an authority process remembers between rounds.
 *
 * Made once, when the process starts, and passed down.  It is private memory:
 * what must survive the process is in the tables or in shared memory.
 */
#ifndef IDGEN_AUTHORITY_H
#define IDGEN_AUTHORITY_H

#include "postgres.h"

#include "authority/alert.h"
#include "authority/command.h"
#include "authority/confirm.h"
#include "authority/retention.h"
#include "authority/schedule.h"

typedef struct IdgenAuthority
{
	IdgenSchedule schedule;
	IdgenCommandPauses commands;
	IdgenConfirm confirm;
	IdgenRetention retention;
	IdgenAlerts alerts;
	bool		strangers_ended;	/* incarnations of this server that have
									 * no cursor have been ended, as far as is
									 * known */
	bool		tables_refused; /* they could not be written: perhaps a guard
								 * is to be mended */
} IdgenAuthority;

#endif							/* IDGEN_AUTHORITY_H */
