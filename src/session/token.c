/*
 * token.c
 *		Make tokens, and hash them.
 *
 * A token never leaves the session that receives or sends it: the authority
 * sees only its hash.  A token is 128 random bits, so a plain SHA-256 of it
 * can be neither guessed nor looked up.
 */
#include "compat.h"

#include "session/token.h"

#include "common/cryptohash.h"
#include "common/sha2.h"

#include "shmem/request_queue.h"

#define TOKEN_BYTES ((IDGEN_TOKEN_SIZE - 1) / 2)

/* "token" needs room for IDGEN_TOKEN_SIZE. */
void
idgen_token_make(char *token)
{
	uint8		bytes[TOKEN_BYTES];

	if (!pg_strong_random(bytes, sizeof(bytes)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	for (int i = 0; i < TOKEN_BYTES; i++)
		snprintf(token + 2 * i, 3, "%02x", bytes[i]);
}

/* "hash" needs room for IDGEN_TOKEN_HASH_SIZE. */
void
idgen_token_hash(const char *token, uint8 *hash)
{
	pg_cryptohash_ctx *context = pg_cryptohash_create(PG_SHA256);

	StaticAssertStmt(IDGEN_TOKEN_HASH_SIZE == PG_SHA256_DIGEST_LENGTH,
					 "size of a token's hash");
	if (context == NULL ||
		pg_cryptohash_init(context) < 0 ||
		pg_cryptohash_update(context, (const uint8 *) token, strlen(token)) < 0 ||
		pg_cryptohash_final(context, hash, PG_SHA256_DIGEST_LENGTH) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not hash a token")));
	pg_cryptohash_free(context);
}
