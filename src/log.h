/*
 * log.h
 *		Keep tokens out of the server log.
 */
#ifndef IDGEN_LOG_H
#define IDGEN_LOG_H

extern void idgen_log_install(void);

#endif							/* IDGEN_LOG_H */
