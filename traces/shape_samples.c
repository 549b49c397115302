/* Several samples of every prompt: each further one is a live fork of the request it is a sample of. */
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "traces/shape.h"

struct links {
	int32_t *parent, *child;
	int64_t n;
};

static int check(const struct workload *w, int32_t samples, struct err *e)
{
	for (int64_t i = 0; i < w->n; i++)
		if (w->specs[i].fork_at)
			return err_set(e, ERR_INPUT,
				       "--n %d: the trace says itself where its requests fork: leave --n out", samples);
	if (w->n > (INT32_MAX - 1) / samples)
		return err_set(e, ERR_INPUT, "--n %d: more than %d requests", samples, INT32_MAX - 1);
	return ERR_NONE;
}

/* Sample k of request i, which is w's already; w's requests are old ones. */
static int make_sample(struct workload *w, int64_t i, int32_t k, struct spec *s, struct err *e)
{
	char buf[24], name[320];
	*s = w->specs[i];
	s->arrival_ns = 0;
	if (s->output_id)
		s->output_id = rng_mix(s->output_id + (uint64_t)k);
	int n = snprintf(name, sizeof name, "%.300s#%d", workload_name(w, i, buf), k);
	return workload_add_name(w, name, n, &s->name_at, e);
}

/* Request i becomes i * samples, its other samples follow it. */
static int make_samples(struct workload *w, int32_t samples, struct spec **out, struct err *e)
{
	struct spec *specs = *out = mem_alloc((size_t)(w->n * samples + 1) * sizeof *specs);
	if (!specs)
		return err_no_memory(e, "samples");
	for (int64_t i = 0; i < w->n; i++) {
		specs[i * samples] = w->specs[i];
		for (int32_t k = 1; k < samples; k++)
			if (make_sample(w, i, k + 1, &specs[i * samples + k], e))
				return ERR_MEMORY;
	}
	return ERR_NONE;
}

/* Whoever waited for a request waits for all its samples; each waits for the first to be computed. */
static int make_links(const struct workload *w, int32_t samples, struct links *l, struct err *e)
{
	int64_t old = w->child_at ? w->child_at[w->n] : 0, most = (old + w->n) * samples;
	l->parent = mem_alloc((size_t)(most + 1) * sizeof *l->parent);
	l->child = mem_alloc((size_t)(most + 1) * sizeof *l->child);
	if (!l->parent || !l->child)
		return err_no_memory(e, "samples");
	for (int64_t i = 0; i < w->n; i++) {
		for (int32_t k = 1; k < samples; k++) {
			l->parent[l->n] = (int32_t)(i * samples);
			l->child[l->n++] = (int32_t)(i * samples + k);
		}
		for (int64_t c = old ? w->child_at[i] : 0; old && c < w->child_at[i + 1]; c++)
			for (int32_t k = 0; k < samples; k++) {
				l->parent[l->n] = (int32_t)(i * samples + k);
				l->child[l->n++] = (int32_t)(w->child[c] * (int64_t)samples);
			}
	}
	return ERR_NONE;
}

static void replace(struct workload *w, struct spec **specs, int64_t n)
{
	mem_free(w->specs);
	mem_free(w->child_at);
	mem_free(w->child);
	mem_free(w->n_parents);
	w->child_at = NULL;
	w->child = w->n_parents = NULL;
	w->specs = *specs;
	w->n = w->cap = n;
	*specs = NULL;
}

int shape_samples(struct workload *w, int32_t samples, struct err *e)
{
	struct spec *specs = NULL;
	struct links l = {0};
	int code = check(w, samples, e);
	if (!code)
		code = make_samples(w, samples, &specs, e);
	if (!code)
		code = make_links(w, samples, &l, e);
	if (!code)
		replace(w, &specs, w->n * samples);
	for (int64_t i = 0; i < w->n && !code; i++)
		if (i % samples)
			code = workload_fork(w, (int32_t)(i / samples * samples), (int32_t)i, w->specs[i].prompt_tokens,
					     true, e);
	if (!code)
		code = workload_link(w, l.parent, l.child, l.n, e);
	mem_free(specs);
	mem_free(l.parent);
	mem_free(l.child);
	return code;
}
