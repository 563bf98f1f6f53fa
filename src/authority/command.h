/*
 * command.h
 *		What the authority does to namespaces and incarnations, other than
 *		granting: retire, fence, adopt, end.
 */
#ifndef IDGEN_COMMAND_H
#define IDGEN_COMMAND_H

#include "postgres.h"

#include "shmem/request_queue.h"

extern bool idgen_command_serve(const IdgenMailTaken *request);

#endif							/* IDGEN_COMMAND_H */
