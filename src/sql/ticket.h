/*
 * ticket.h
 *		The ticket of a hand-over as a jsonb object.
 */
#ifndef IDGEN_TICKET_H
#define IDGEN_TICKET_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "session/client.h"

extern void idgen_ticket_read(Jsonb *jsonb, IdgenTicketText *ticket);
extern Datum idgen_ticket_write(const IdgenTicketText *ticket);

#endif							/* IDGEN_TICKET_H */
