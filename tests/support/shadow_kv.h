/* shadow_kv.h: a KV memory that holds, instead of keys and values, whose token each slot is. Every step writes its rows and
 * then reads each sequence's whole context through the page tables, as attention would: what is found must be the
 * sequence's own tokens in order (with prefix caching: some request's tokens of the same places). */
#ifndef TESTS_SUPPORT_SHADOW_KV_H
#define TESTS_SUPPORT_SHADOW_KV_H

#include "core/engine.h"
#include "core/tables.h"

struct shadow_slot {
	int32_t req, token; /* token -1: padding */
	int64_t step; /* that wrote it, from 1 */
};

struct shadow_kv {
	struct batch_tables tables;
	struct shadow_slot *slots;
	int64_t n_slots;
	int64_t reads; /* slots verified so far */
};

/* All zero is a new one. Right after engine_begin gave b; the engine must walk its rows. false: why[256] says what is
 * wrong. */
bool shadow_kv_step(struct shadow_kv *s, const struct engine *g, const struct batch *b, char why[256]);
void shadow_kv_free(struct shadow_kv *s);

#endif
