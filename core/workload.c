#include "core/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"

void workload_init(struct workload *w)
{
	memset(w, 0, sizeof *w);
}

void workload_free(struct workload *w)
{
	mem_free(w->specs);
	mem_free(w->hash_ids);
	mem_free(w->seg_tokens);
	mem_free(w->texts);
	mem_free(w->text_tokens);
	mem_free(w->child_at);
	mem_free(w->child);
	mem_free(w->n_parents);
	mem_free(w->names);
	for (int32_t i = 0; i < w->n_tenants; i++)
		mem_free(w->tenants[i]);
	mem_free(w->tenants);
	workload_init(w);
}

int workload_add(struct workload *w, const struct spec *s, struct err *e)
{
	if (w->n >= INT32_MAX - 1)
		return err_set(e, ERR_INPUT, "more than %d requests in one workload", INT32_MAX - 1);
	if (mem_grow((void **)&w->specs, &w->cap, w->n + 1, sizeof *w->specs))
		return err_no_memory(e, "requests");
	w->specs[w->n++] = *s;
	return ERR_NONE;
}

int workload_add_hash(struct workload *w, uint64_t id, struct err *e)
{
	if (mem_grow((void **)&w->hash_ids, &w->cap_hash_ids, w->n_hash_ids + 1, sizeof *w->hash_ids))
		return err_no_memory(e, "content ids");
	w->hash_ids[w->n_hash_ids++] = id;
	return ERR_NONE;
}

int workload_add_segment(struct workload *w, uint64_t id, int32_t tokens, struct err *e)
{
	if (mem_grow((void **)&w->seg_tokens, &w->cap_seg_tokens, w->n_hash_ids + 1, sizeof *w->seg_tokens))
		return err_no_memory(e, "segment lengths");
	w->seg_tokens[w->n_hash_ids] = tokens;
	return workload_add_hash(w, id, e);
}

int workload_add_text(struct workload *w, uint64_t id, const int32_t *tokens, int64_t n, struct err *e)
{
	if (mem_grow((void **)&w->texts, &w->cap_texts, w->n_texts + 1, sizeof *w->texts) ||
	    mem_grow((void **)&w->text_tokens, &w->cap_text_tokens, w->n_text_tokens + n + 1, sizeof *w->text_tokens))
		return err_no_memory(e, "tokens of text");
	w->texts[w->n_texts++] = (struct content_text){id, w->n_text_tokens, (int32_t)n};
	if (n)
		memcpy(w->text_tokens + w->n_text_tokens, tokens, (size_t)n * sizeof *tokens);
	w->n_text_tokens += n;
	return ERR_NONE;
}

/* Equal ids are equal texts: the order among them does not matter. */
static int by_id(const void *a, const void *b)
{
	const struct content_text *x = a, *y = b;
	return (x->id > y->id) - (x->id < y->id);
}

void workload_sort_texts(struct workload *w)
{
	if (w->n_texts)
		qsort(w->texts, (size_t)w->n_texts, sizeof *w->texts, by_id);
}

const int32_t *workload_text(const struct workload *w, uint64_t id, int32_t *n)
{
	const struct content_text key = {.id = id}, *t = NULL;
	if (w->n_texts)
		t = bsearch(&key, w->texts, (size_t)w->n_texts, sizeof *w->texts, by_id);
	*n = t ? t->n : 0;
	return t ? w->text_tokens + t->at : NULL;
}

int workload_add_name(struct workload *w, const char *s, int64_t len, int64_t *at, struct err *e)
{
	if (mem_grow((void **)&w->names, &w->cap_names, w->names_len + len + 1, 1))
		return err_no_memory(e, "request ids");
	*at = w->names_len;
	memcpy(w->names + w->names_len, s, (size_t)len);
	w->names[w->names_len + len] = '\0';
	w->names_len += len + 1;
	return ERR_NONE;
}

static int add_tenant(struct workload *w, const char *name, struct err *e)
{
	char **grown = mem_realloc(w->tenants, (size_t)(w->n_tenants + 1) * sizeof *grown);
	if (!grown)
		return err_no_memory(e, "tenants");
	w->tenants = grown;
	grown[w->n_tenants] = mem_strdup(name);
	if (!grown[w->n_tenants])
		return err_no_memory(e, "tenants");
	w->n_tenants++;
	return ERR_NONE;
}

int workload_tenant(struct workload *w, const char *name, int32_t *index, struct err *e)
{
	if (!w->n_tenants && add_tenant(w, "", e))
		return ERR_MEMORY;
	for (int32_t i = 0; i < w->n_tenants; i++)
		if (!strcmp(w->tenants[i], name)) {
			*index = i;
			return ERR_NONE;
		}
	*index = w->n_tenants;
	return add_tenant(w, name, e);
}

static int by_index(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static void sort_row(int32_t *child, int64_t n)
{
	for (int64_t k = 1; k < n; k++)
		if (child[k - 1] > child[k]) {
			qsort(child, (size_t)n, sizeof *child, by_index);
			return;
		}
}

/* Counting sort of the pairs into compressed rows: the children of each parent, ascending, so that the same links are
 * the same bytes (and the same workload_hash) in whatever order they were found. */
static void link_rows(struct workload *w, const int32_t *parent, const int32_t *child, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		w->child_at[parent[i] + 1]++;
		w->n_parents[child[i]]++;
	}
	for (int64_t i = 0; i < w->n; i++)
		w->child_at[i + 1] += w->child_at[i];
	/* Fill from the back, so that each row's end moves down to its start. */
	for (int64_t i = n; i-- > 0;)
		w->child[--w->child_at[parent[i] + 1]] = child[i];
	for (int64_t i = 0; i < w->n; i++)
		w->child_at[i] = w->child_at[i + 1];
	w->child_at[w->n] = n;
	for (int64_t i = 0; i < w->n; i++)
		sort_row(w->child + w->child_at[i], w->child_at[i + 1] - w->child_at[i]);
}

/* Kahn's algorithm: whoever is never reached sits on a cycle or behind one. */
static int link_check_cycles(const struct workload *w, struct err *e)
{
	int32_t *left = mem_alloc((size_t)w->n * sizeof *left);
	int32_t *queue = mem_alloc((size_t)w->n * sizeof *queue);
	int code = ERR_NONE;
	int64_t head = 0, tail = 0;
	if (!left || !queue) {
		code = err_no_memory(e, "dependency check");
		goto out;
	}
	memcpy(left, w->n_parents, (size_t)w->n * sizeof *left);
	for (int64_t i = 0; i < w->n; i++)
		if (!left[i])
			queue[tail++] = (int32_t)i;
	while (head < tail) {
		int32_t i = queue[head++];
		for (int64_t k = w->child_at[i]; k < w->child_at[i + 1]; k++)
			if (!--left[w->child[k]])
				queue[tail++] = w->child[k];
	}
	for (int64_t i = 0; tail < w->n && i < w->n; i++)
		if (left[i]) {
			char buf[24];
			code = err_set(e, ERR_INPUT,
				       "request %s (row %d) can never start: its `after` leads back to itself or to "
				       "requests that wait for each other",
				       workload_name(w, i, buf), w->specs[i].row);
			break;
		}
out:
	mem_free(left);
	mem_free(queue);
	return code;
}

int workload_link(struct workload *w, const int32_t *parent, const int32_t *child, int64_t n, struct err *e)
{
	for (int64_t i = 0; i < n; i++)
		if (parent[i] < 0 || parent[i] >= w->n || child[i] < 0 || child[i] >= w->n || parent[i] == child[i])
			return err_set(e, ERR_INPUT, "a request waits for %s",
				       parent[i] == child[i] ? "itself" : "one that does not exist");
	if (n == 0)
		return ERR_NONE;
	w->child_at = mem_zalloc((size_t)w->n + 2, sizeof *w->child_at);
	w->child = mem_alloc((size_t)n * sizeof *w->child);
	w->n_parents = mem_zalloc((size_t)w->n, sizeof *w->n_parents);
	if (!w->child_at || !w->child || !w->n_parents)
		return err_no_memory(e, "dependencies");
	link_rows(w, parent, child, n);
	return link_check_cycles(w, e);
}

static int by_arrival(const void *a, const void *b)
{
	const struct spec *x = a, *y = b;
	if (x->arrival_ns != y->arrival_ns)
		return x->arrival_ns < y->arrival_ns ? -1 : 1;
	return 0;
}

/* Bottom-up merge sort: stable, and n log n on any input. */
static void merge_pass(const struct spec *from, struct spec *to, int64_t n, int64_t width)
{
	for (int64_t lo = 0; lo < n; lo += 2 * width) {
		int64_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n;
		int64_t i = lo, j = mid;
		for (int64_t k = lo; k < hi; k++)
			to[k] = i < mid && (j >= hi || by_arrival(&from[i], &from[j]) <= 0) ? from[i++] : from[j++];
	}
}

int workload_sort(struct workload *w, bool *moved, struct err *e)
{
	bool sorted = true;
	for (int64_t i = 1; i < w->n && sorted; i++)
		sorted = w->specs[i - 1].arrival_ns <= w->specs[i].arrival_ns;
	if (moved)
		*moved = !sorted;
	if (sorted)
		return ERR_NONE;
	struct spec *other = mem_alloc((size_t)w->n * sizeof *other);
	if (!other)
		return err_no_memory(e, "sorting the trace");
	struct spec *from = w->specs, *to = other;
	for (int64_t width = 1; width < w->n; width *= 2) {
		merge_pass(from, to, w->n, width);
		struct spec *t = from;
		from = to;
		to = t;
	}
	if (from != w->specs)
		memcpy(w->specs, from, (size_t)w->n * sizeof *from);
	mem_free(other);
	return ERR_NONE;
}

const char *workload_name(const struct workload *w, int64_t i, char buf[24])
{
	if (w->specs[i].name_at >= 0 && w->names)
		return w->names + w->specs[i].name_at;
	/* No printf family beyond vsnprintf in core: write the digits by hand. */
	uint64_t v = (uint64_t)(w->specs[i].row > 0 ? w->specs[i].row : i);
	int at = 23;
	buf[at] = '\0';
	do
		buf[--at] = (char)('0' + v % 10);
	while ((v /= 10) > 0);
	return buf + at;
}

static uint64_t fold(uint64_t h, uint64_t x)
{
	return rng_mix(h ^ x) + (h << 1);
}

uint64_t workload_hash(const struct workload *w)
{
	uint64_t h = fold(0x776f726b6c6f6164u, (uint64_t)w->n);
	for (int64_t i = 0; i < w->n; i++) {
		const struct spec *s = &w->specs[i];
		h = fold(h, (uint64_t)s->arrival_ns);
		h = fold(h, (uint64_t)(uint32_t)s->prompt_tokens << 32 | (uint32_t)s->output_tokens);
		h = fold(h, (uint64_t)(uint32_t)s->max_tokens << 32 | (uint32_t)s->priority);
		h = fold(h, (uint64_t)(uint32_t)s->tenant << 32 | (uint32_t)s->session);
		h = fold(h, s->output_id);
		if (s->slo_ttft_ms)
			h = fold(h, (uint64_t)(uint32_t)s->slo_ttft_ms);
		if (s->fork_at)
			h = fold(h, UINT64_C(1) << 40 ^ (uint64_t)(uint32_t)s->fork_at);
		h = fold(h, (uint64_t)s->n_hashes);
		for (int64_t k = s->hash_at; k < s->hash_at + s->n_hashes; k++) {
			h = fold(h, w->hash_ids[k]);
			h = fold(h, (uint64_t)(w->seg_tokens ? w->seg_tokens[k] : w->hash_block));
		}
		if (w->child_at)
			for (int64_t k = w->child_at[i]; k < w->child_at[i + 1]; k++)
				h = fold(h, (uint64_t)(uint32_t)w->child[k]);
	}
	for (int32_t t = 1; t < w->n_tenants; t++)
		for (const char *c = w->tenants[t]; *c; c++)
			h = fold(h, (uint64_t)(unsigned char)*c);
	return h;
}

static int32_t next_pow2(int32_t x)
{
	int32_t p = 1;
	while (p < x && p < (1 << 30))
		p *= 2;
	return p < x ? x : p;
}

void workload_set_max_tokens(struct workload *w, enum max_tokens_mode mode, int32_t cap)
{
	w->oracle = mode == MAX_TOKENS_ORACLE;
	for (int64_t i = 0; i < w->n; i++) {
		struct spec *s = &w->specs[i];
		if (s->max_tokens <= 0)
			s->max_tokens = mode == MAX_TOKENS_MAX    ? cap
					: mode == MAX_TOKENS_POW2 ? next_pow2(s->output_tokens)
								  : s->output_tokens;
		if (s->max_tokens < s->output_tokens)
			s->max_tokens = s->output_tokens;
		if (s->max_tokens < 1)
			s->max_tokens = 1;
	}
}

int workload_ideal_hits(const struct workload *w, int64_t *total, int64_t *distinct, struct err *e)
{
	int64_t size = 16;
	while (size < w->n_hash_ids * 2)
		size *= 2;
	uint64_t *slot = mem_zalloc((size_t)size, sizeof *slot); /* id + 1; the id ~0 is kept apart */
	if (!slot)
		return err_no_memory(e, "counting distinct blocks");
	int64_t all = 0, fresh = 0;
	bool top_seen = false;
	for (int64_t i = 0; i < w->n; i++)
		for (int64_t k = w->specs[i].hash_at; k < w->specs[i].hash_at + w->specs[i].n_hashes; k++) {
			uint64_t key = w->hash_ids[k] + 1;
			all++;
			if (!key) {
				fresh += !top_seen;
				top_seen = true;
				continue;
			}
			int64_t at = (int64_t)(rng_mix(key) & (uint64_t)(size - 1));
			while (slot[at] && slot[at] != key)
				at = (at + 1) & (size - 1);
			fresh += !slot[at];
			slot[at] = key;
		}
	mem_free(slot);
	if (total)
		*total = all;
	if (distinct)
		*distinct = fresh;
	return ERR_NONE;
}
