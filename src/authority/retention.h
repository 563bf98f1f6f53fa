/*
 * retention.h
 *		Keep the record of grants and incarnations from growing without bound.
 */
#ifndef IDGEN_RETENTION_H
#define IDGEN_RETENTION_H

#include "postgres.h"

extern void idgen_retention_step(void);

#endif							/* IDGEN_RETENTION_H */
