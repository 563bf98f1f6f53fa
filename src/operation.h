/*
 * operation.h
 *		What the authority does to namespaces and incarnations, other than
 *		granting: retire, fence, adopt, end.
 */
#ifndef IDGEN_OPERATION_H
#define IDGEN_OPERATION_H

#include "postgres.h"

#include "mailbox.h"

extern bool idgen_operation_serve(const IdgenMailTaken *request);

#endif							/* IDGEN_OPERATION_H */
