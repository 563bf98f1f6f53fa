/*
 * json.h
 *		Make a jsonb object, one key at a time.
 */
#ifndef IDGEN_JSON_H
#define IDGEN_JSON_H

#include "compat.h"

extern void idgen_json_begin(IdgenJsonbState *state);
extern void idgen_json_string(IdgenJsonbState *state, const char *key, const char *string);
extern void idgen_json_number(IdgenJsonbState *state, const char *key, int64 number);
extern Datum idgen_json_end(IdgenJsonbState *state);

#endif							/* IDGEN_JSON_H */
