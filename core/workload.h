/* workload.h: the requests to serve, as read from a trace. Readers and generators (traces/) fill it, the engine
 * reads it; it never changes during a run. Requests are in arrival order, ties in file order. */
#ifndef CORE_WORKLOAD_H
#define CORE_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

struct err;

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

/* One request. 72 bytes: a million of them are 72 MB. */
struct spec {
	int64_t arrival_ns; /* intended arrival since the workload's start; a request with parents: the delay after
	                          the last of them has finished (think or tool time) */
	int64_t hash_at; /* its first entry in workload.hash_ids (and .seg_tokens), if n_hashes > 0 */
	int64_t name_at; /* offset of its id in workload.names, or -1: its id is its row number */
	uint64_t output_id; /* identity of the tokens it generates, for later prompts that hold them; 0 = unique */
	int32_t prompt_tokens; /* >= 1 */
	int32_t output_tokens; /* true length, >= 0. A policy never sees it. */
	int32_t max_tokens; /* the most a policy may assume it produces; 0 = not decided (workload_set_max_tokens) */
	int32_t priority; /* smaller is served first (vLLM's sense); 0 by default */
	int32_t tenant; /* index in workload.tenants; 0 = none given */
	int32_t session; /* requests of one conversation share it; -1 = none */
	int32_t n_hashes; /* content ids known of its prompt, from the start; 0 = unknown, shares nothing */
	int32_t slo_ttft_ms; /* its own objective for the first token; 0 = none but the run's */
	int32_t row; /* line or element of the source file, from 1 */
	/* A fork (workload_fork): so many tokens of its prompt are the first of its one parent's prompt and outputs. Above 0: it
	 * starts as soon as the parent has computed them, arrival_ns after that; below 0 (the number negated): as other children
	 * do, when the parent has finished. 0: not a fork. */
	int32_t fork_at;
};

/* The tokens of a content id, where they are known: text that went through a tokenizer. */
struct content_text {
	uint64_t id;
	int64_t at; /* its first token in workload.text_tokens */
	int32_t n;
};

struct workload {
	struct spec *specs; /* [n], sorted by (arrival_ns, file order); those with parents in file order among them */
	int64_t n, cap;

	/* What prompts share. Content id i of a request covers hash_block tokens (its last one the rest of the
	 * prompt), or seg_tokens[] of them when seg_tokens is not NULL. Two prompts share a prefix exactly as far as
	 * their ids (and lengths) agree from the start. Tokens past the last id belong to this request alone. */
	uint64_t *hash_ids; /* [n_hash_ids] */
	int32_t *seg_tokens; /* [n_hash_ids] or NULL */
	int64_t n_hash_ids, cap_hash_ids, cap_seg_tokens;
	int32_t hash_block; /* tokens per id when seg_tokens is NULL */

	struct content_text
		*texts; /* [n_texts] sorted by id once workload_sort_texts was called; NULL when none is known */
	int64_t n_texts, cap_texts;
	int32_t *text_tokens;
	int64_t n_text_tokens, cap_text_tokens;

	/* Requests that wait for others (agents, sessions): children of i are child[child_at[i] .. child_at[i+1]), ascending.
	 * All three are NULL when no request has a parent. */
	int64_t *child_at; /* [n + 1] */
	int32_t *child;
	int32_t *n_parents; /* [n] */

	char *names; /* NUL-terminated ids, one after the other; NULL when none */
	int64_t names_len, cap_names;
	char **tenants; /* [n_tenants]; tenants[0] is "" */
	int32_t n_tenants;
	bool lengths_estimated; /* text was counted without a tokenizer */
	bool oracle; /* max_tokens is the true length: marked in every output */
};

/* An empty workload; all zero is one as well. */
void workload_init(struct workload *w);
void workload_free(struct workload *w); /* releases what it holds, not *w */

/* Appends; return ERR_NONE or ERR_MEMORY. */
int workload_add(struct workload *w, const struct spec *s, struct err *e);
int workload_add_hash(struct workload *w, uint64_t id, struct err *e);
/* A content id covering `tokens` tokens; not to be mixed with workload_add_hash in one workload. */
int workload_add_segment(struct workload *w, uint64_t id, int32_t tokens, struct err *e);
/* Content `id` is these tokens. */
int workload_add_text(struct workload *w, uint64_t id, const int32_t *tokens, int64_t n, struct err *e);
void workload_sort_texts(struct workload *w);
/* The tokens of content id and how many; NULL where they are not known. A length-scaled workload uses fewer. */
const int32_t *workload_text(const struct workload *w, uint64_t id, int32_t *n);
int workload_add_name(struct workload *w, const char *s, int64_t len, int64_t *at, struct err *e);
/* The index of the tenant of that name, added when new. */
int workload_tenant(struct workload *w, const char *name, int32_t *index, struct err *e);

/* Gives request `child` the parent `parent` for each of n pairs (indices into specs as they are now); call once, after
 * sorting. A cycle, a self-reference or an index out of range is ERR_INPUT and names a request. */
int workload_link(struct workload *w, const int32_t *parent, const int32_t *child, int64_t n, struct err *e);

/* Makes child a fork of parent: the first `tokens` tokens of its prompt (1 .. prompt_tokens, and within the parent's prompt and
 * outputs) are the parent's, which its content ids say from now on; ids that only the parent had are made up where that
 * takes them. `live`: see spec.fork_at. The parent, if a fork itself, has been made one before; the pair is still to be given to
 * workload_link, as the child's only one. */
int workload_fork(struct workload *w, int32_t parent, int32_t child, int32_t tokens, bool live, struct err *e);
static inline int32_t spec_fork_tokens(const struct spec *s)
{
	return s->fork_at < 0 ? -s->fork_at : s->fork_at;
}
/* Whose fork each request is: [w->n] parents, -1 = nobody's; NULL (and ERR_NONE) when there are no forks. To be released with
 * mem_free. */
int workload_fork_parents(const struct workload *w, int32_t **parents, struct err *e);

/* Stable sort by arrival; *moved (may be NULL) says whether anything was out of order. Call before workload_link. */
int workload_sort(struct workload *w, bool *moved, struct err *e);

/* The id of request i as text: its name, or its row number written into buf. */
const char *workload_name(const struct workload *w, int64_t i, char buf[24]);

/* A 64-bit digest of everything above that affects a run (arrivals, lengths, max_tokens, sharing, parents, priorities,
 * tenants, sessions): equal digests mean equal input. */
uint64_t workload_hash(const struct workload *w);

/* FORMATS --max-tokens-mode. Requests whose max_tokens the trace gave keep it. */
enum max_tokens_mode { MAX_TOKENS_MAX, MAX_TOKENS_POW2, MAX_TOKENS_ORACLE };
/* max: `cap` (default 2048) for all, never below the true length's... see docs/metrics.md; pow2: the next power of two of
 * the true length; oracle: the true length. Sets w->oracle. A max_tokens below the true output is raised to it, since
 * the trace shows that the server allowed it. */
void workload_set_max_tokens(struct workload *w, enum max_tokens_mode mode, int32_t cap);

/* Share of content ids that an infinite cache would have seen before, partial last one included:
 * 1 - distinct / total (FORMATS: prefix_ideal_block_hit_ratio). Counts distinct ids; *total and *distinct may be NULL. */
int workload_ideal_hits(const struct workload *w, int64_t *total, int64_t *distinct, struct err *e);

#endif
