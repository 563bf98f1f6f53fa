/*
 * token.h
 *		The secret of an external incarnation.
 */
#ifndef IDGEN_TOKEN_H
#define IDGEN_TOKEN_H

#include "postgres.h"

/* 128 random bits in hexadecimal digits, and a terminator. */
#define IDGEN_TOKEN_SIZE	33

extern void idgen_token_make(char *token);
extern void idgen_token_hash(const char *token, uint8 *hash);

#endif							/* IDGEN_TOKEN_H */
