/* shadow_kv.h: a KV memory that holds, instead of keys and values, whose token each slot is. Every step writes its rows and
 * then reads each sequence's whole context through the page tables, as attention would: what is found must be the
 * sequence's own tokens in order (with prefix caching: some request's tokens of the same places; of
 * forks: tokens that both have in common). Pages are copied first, as the batch says.
 *
 * Between tiers it copies as late as it may (or at once): when the engine hears of a copy's end, or a batch or another copy
 * names it as one to wait for. So whoever overwrites what is still to be copied, or reads what is still to come, is found. */
#ifndef TESTS_SUPPORT_SHADOW_KV_H
#define TESTS_SUPPORT_SHADOW_KV_H

#include "core/engine.h"
#include "core/tables.h"

struct shadow_slot {
	int32_t req, token; /* token -1: padding */
	int64_t step; /* that wrote it, from 1 */
};

struct shadow_copy {
	int64_t ticket, after[N_LINKS];
	enum tier from, to;
	int32_t *src, *dst, n;
};

struct shadow_kv {
	struct batch_tables tables;
	struct shadow_slot *slots;
	int64_t n_slots;
	struct shadow_slot *behind[TIER_DISK + 1]; /* [n_behind] of the host and the disk */
	int64_t n_behind;
	struct shadow_copy *copies; /* [n_copies] not done, by ticket */
	int64_t n_copies;
	bool eager; /* copies at once */
	const struct engine_config *cfg;
	struct backend inner;
	int64_t reads; /* slots verified so far */
	int64_t page_copies; /* pages copied so far */
	int32_t *parents; /* [w->n] whose fork each is, NULL = there are none */
	bool asked;
};

/* All zero is a new one. Right after engine_begin gave b; the engine must walk its rows. false: why[256] says what is
 * wrong. */
bool shadow_kv_step(struct shadow_kv *s, const struct engine *g, const struct batch *b, char why[256]);
/* Stands before `inner` for engine_start_transfers and engine_transfers_done; not for batches. */
void shadow_kv_backend(struct shadow_kv *s, const struct backend *inner, const struct engine_config *c,
		       struct backend *out);
void shadow_kv_free(struct shadow_kv *s);

#endif
