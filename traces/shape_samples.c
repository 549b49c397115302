/* Several samples of every prompt, or the beams of a beam search: each further one is a live fork, of the request that it is
 * another sample of or of the beam that it goes on from. A beam that is dropped is a request that ends there. */
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "traces/shape.h"

#define STREAM_BEAMS 0x6265616d73656172

/* What becomes of a workload: its requests, each followed by its forks. */
struct making {
	struct workload *w; /* as it was */
	const struct shape *shape;
	struct rng rng;
	struct spec *specs; /* [n] */
	int32_t *fork_of; /* [n] -1: the request itself */
	int64_t n, cap_specs, cap_forks;
	int64_t *first; /* [w->n + 1] where each request's begin */
	struct beam *beams, *next; /* [shape->samples] */
	int32_t *parent, *child; /* links */
	int64_t n_links, cap_parents, cap_children;
};

struct beam {
	int32_t req; /* in specs */
	int32_t since; /* outputs of the beam when it began */
};

static int32_t beams_of(const struct shape *s)
{
	return s->beam_width > 1 ? s->beam_width : s->samples;
}

static int check(const struct workload *w, const struct shape *s, struct err *e)
{
	const char *flag = s->beam_width > 1 ? "--beam-width" : "--n";
	for (int64_t i = 0; i < w->n; i++)
		if (w->specs[i].fork_at)
			return err_set(e, ERR_INPUT,
				       "%s %d: the trace says itself where its requests fork: leave %s out", flag,
				       beams_of(s), flag);
	return ERR_NONE;
}

/* One more request: a fork of `of` (-1: none), which has `out` outputs of request i before it. */
static int add(struct making *m, int64_t i, int32_t of, int32_t out, struct err *e)
{
	char buf[24], name[320];
	const struct spec *s = &m->w->specs[i];
	if (m->n >= INT32_MAX - 1)
		return err_set(e, ERR_INPUT, "more than %d requests with all samples and beams", INT32_MAX - 1);
	if (mem_grow((void **)&m->specs, &m->cap_specs, m->n + 1, sizeof *m->specs) ||
	    mem_grow((void **)&m->fork_of, &m->cap_forks, m->n + 1, sizeof *m->fork_of))
		return err_no_memory(e, "samples");
	struct spec *made = &m->specs[m->n];
	*made = *s;
	m->fork_of[m->n++] = of;
	if (of < 0)
		return ERR_NONE;
	int64_t k = m->n - m->first[i];
	made->arrival_ns = 0;
	made->prompt_tokens += out;
	made->output_tokens -= out;
	made->max_tokens -= out < made->max_tokens ? out : made->max_tokens;
	if (made->max_tokens < made->output_tokens)
		made->max_tokens = made->output_tokens;
	if (made->max_tokens < 1)
		made->max_tokens = 1;
	if (s->output_id)
		made->output_id = rng_mix(s->output_id + (uint64_t)k);
	int n = snprintf(name, sizeof name, "%.300s#%lld", workload_name(m->w, i, buf), (long long)k);
	return workload_add_name(m->w, name, n, &made->name_at, e);
}

/* After `out` outputs each of the next beams goes on from one drawn of the present ones, all alike: those that nobody drew end
 * there, those drawn once go on as they are, and for every further time a fork starts. */
static int reorder(struct making *m, int64_t i, int32_t width, int32_t out, struct err *e)
{
	for (int32_t k = 0; k < width; k++)
		m->next[k].req = m->next[k].since = 0;
	for (int32_t k = 0; k < width; k++)
		m->next[rng_below(&m->rng, (uint64_t)width)].since++; /* times drawn */
	int32_t free = 0;
	for (int32_t k = 0; k < width; k++)
		if (!m->next[k].since)
			m->specs[m->beams[k].req].output_tokens = out - m->beams[k].since;
	for (int32_t k = 0; k < width; k++)
		for (int32_t more = m->next[k].since; more > 1; more--) {
			while (m->next[free].since || m->next[free].req)
				free++;
			m->next[free].req = 1; /* taken */
			if (add(m, i, m->beams[k].req, out, e))
				return e ? (int)e->code : ERR_MEMORY;
			m->beams[free] = (struct beam){(int32_t)m->n - 1, out};
		}
	return ERR_NONE;
}

static int make(struct making *m, int64_t i, struct err *e)
{
	int32_t width = beams_of(m->shape), outputs = m->w->specs[i].output_tokens, every = m->shape->beam_every;
	m->first[i] = m->n;
	int code = add(m, i, -1, 0, e);
	m->beams[0] = (struct beam){(int32_t)m->first[i], 0};
	for (int32_t k = 1; k < width && !code; k++) {
		code = add(m, i, (int32_t)m->first[i], 0, e);
		m->beams[k] = (struct beam){(int32_t)m->n - 1, 0};
	}
	for (int32_t out = every; m->shape->beam_width > 1 && out < outputs && !code; out += every)
		code = reorder(m, i, width, out, e);
	return code;
}

static int link(struct making *m, int64_t parent, int64_t child, struct err *e)
{
	if (mem_grow((void **)&m->parent, &m->cap_parents, m->n_links + 1, sizeof *m->parent) ||
	    mem_grow((void **)&m->child, &m->cap_children, m->n_links + 1, sizeof *m->child))
		return err_no_memory(e, "samples");
	m->parent[m->n_links] = (int32_t)parent;
	m->child[m->n_links++] = (int32_t)child;
	return ERR_NONE;
}

/* Whoever waited for a request waits for all that became of it. */
static int make_links(struct making *m, struct err *e)
{
	const struct workload *w = m->w;
	int code = ERR_NONE;
	for (int64_t k = 0; k < m->n && !code; k++)
		if (m->fork_of[k] >= 0)
			code = link(m, m->fork_of[k], k, e);
	for (int64_t i = 0; i < w->n && w->child_at; i++)
		for (int64_t c = w->child_at[i]; c < w->child_at[i + 1]; c++)
			for (int64_t k = m->first[i]; k < m->first[i + 1] && !code; k++)
				code = link(m, k, m->first[w->child[c]], e);
	return code;
}

static int replace(struct making *m, struct err *e)
{
	struct workload *w = m->w;
	mem_free(w->specs);
	mem_free(w->child_at);
	mem_free(w->child);
	mem_free(w->n_parents);
	w->child_at = NULL;
	w->child = w->n_parents = NULL;
	w->specs = m->specs;
	w->n = m->n;
	w->cap = m->cap_specs;
	m->specs = NULL;
	int code = ERR_NONE;
	for (int64_t k = 0; k < w->n && !code; k++)
		if (m->fork_of[k] >= 0)
			code = workload_fork(w, m->fork_of[k], (int32_t)k, w->specs[k].prompt_tokens, true, e);
	return code ? code : workload_link(w, m->parent, m->child, m->n_links, e);
}

static int make_all(struct making *m, struct err *e)
{
	size_t width = (size_t)beams_of(m->shape);
	m->first = mem_alloc((size_t)(m->w->n + 1) * sizeof *m->first);
	m->beams = mem_alloc(width * sizeof *m->beams);
	m->next = mem_alloc(width * sizeof *m->next);
	if (!m->first || !m->beams || !m->next)
		return err_no_memory(e, "samples");
	int code = ERR_NONE;
	for (int64_t i = 0; i < m->w->n && !code; i++)
		code = make(m, i, e);
	m->first[m->w->n] = m->n;
	if (!code)
		code = make_links(m, e);
	return code ? code : replace(m, e);
}

int shape_samples(struct workload *w, const struct shape *s, struct err *e)
{
	if (beams_of(s) <= 1)
		return ERR_NONE;
	struct making m = {.w = w, .shape = s};
	rng_init(&m.rng, s->seed, STREAM_BEAMS);
	int code = check(w, s, e);
	if (!code)
		code = make_all(&m, e);
	mem_free(m.specs);
	mem_free(m.fork_of);
	mem_free(m.first);
	mem_free(m.beams);
	mem_free(m.next);
	mem_free(m.parent);
	mem_free(m.child);
	return code;
}
