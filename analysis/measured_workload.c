/* measured_workload.c: the requests of a log as a workload, alone or joined with the trace that the client had sent; and
 * what a server's own description of its settings says. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/measured.h"
#include "core/err.h"
#include "core/mem.h"
#include "models/json_read.h"

static int by_arrival(const void *a, const void *b)
{
	const struct measured_request *x = a, *y = b;
	if (x->arrival_ns != y->arrival_ns)
		return x->arrival_ns < y->arrival_ns ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

int measured_make_workload(struct measured *m, struct workload *w, struct err *e)
{
	qsort(m->at, (size_t)m->n, sizeof *m->at, by_arrival);
	for (int64_t i = 0; i < m->n; i++) {
		const struct measured_request *r = &m->at[i];
		const struct spec s = {.arrival_ns = r->arrival_ns,
				       .name_at = -1,
				       .prompt_tokens = r->prompt_tokens,
				       .output_tokens = r->output_tokens,
				       .max_tokens = r->output_tokens,
				       .session = -1,
				       .row = r->row};
		int rc = workload_add(w, &s, e);
		if (rc)
			return rc;
	}
	return ERR_NONE;
}

int measured_apply(struct measured *m, struct workload *w, const char *trace, struct err *e)
{
	if (w->n != m->n)
		return err_set(e, ERR_INPUT,
			       "%s holds %lld requests, the measured log %lld%s: they must be the same ones, in the "
			       "same order "
			       "(--num-prompts N takes the trace's first N)",
			       trace, (long long)w->n, (long long)m->n, m->failed ? " that did not fail" : "");
	if (w->child)
		return err_set(e, ERR_INPUT, "%s: requests that wait for others cannot be given measured arrivals",
			       trace);
	for (int64_t i = 0; i < w->n; i++) {
		struct spec *s = &w->specs[i];
		const struct measured_request *r = &m->at[i];
		if (s->prompt_tokens != r->prompt_tokens || s->output_tokens != r->output_tokens)
			return err_set(
				e, ERR_INPUT,
				"request %lld is %d prompt and %d output tokens in %s (row %d), but %d and %d in the "
				"measured log (row %d): the log must be of this trace, in the same order",
				(long long)i + 1, s->prompt_tokens, s->output_tokens, trace, s->row, r->prompt_tokens,
				r->output_tokens, r->row);
		s->arrival_ns = r->arrival_ns;
		s->max_tokens = s->output_tokens;
	}
	/* Both by arrival, ties in the log's order: a stable sort of rows that were in that order. */
	qsort(m->at, (size_t)m->n, sizeof *m->at, by_arrival);
	return workload_sort(w, NULL, e);
}

/* --- meta.json ------------------------------------------------------------------------------------------------------ */

static struct json_reader inside(const json_t *root, const char *key, const char *where, struct err *e)
{
	const json_t *v = json_object_get(root, key);
	return (struct json_reader){json_is_object(v) ? v : NULL, where, e};
}

/* A flag that may stand in either of two places; the later one is what the server resolved. */
static void take_flag(const struct json_reader *r, const char *key, bool *has, bool *value)
{
	if (!json_read_present(r, key))
		return;
	*value = json_read_bool_or(r, key, false);
	*has = true;
}

/* What vLLM does where it is not told otherwise: the prefix cache is on since 0.8 (its v1 engine), asynchronous scheduling
 * since 0.14. */
static void take_version(const struct json_reader *top, struct measured_hints *h)
{
	int major, minor;
	json_read_string(top, "vllm_version", h->version, sizeof h->version);
	if (sscanf(h->version, "%d.%d", &major, &minor) != 2)
		return;
	h->has_prefix_caching = h->prefix_caching = major > 0 || minor >= 8;
	h->has_async_scheduling = h->async_scheduling = major > 0 || minor >= 14;
}

int measured_parse_hints(struct measured_hints *h, const char *name, const char *text, struct err *e)
{
	json_t *root = json_read_object(text, name, e);
	if (!root)
		return (int)e->code;
	const struct json_reader top = {root, name, e};
	struct json_reader args = inside(root, "engine_kwargs", name, e), kv = inside(root, "kv_cache", name, e);
	struct json_reader hardware = inside(root, "hardware", name, e);
	struct json_reader resolved = inside(root, "resolved_config", name, e);
	struct json_reader sched = inside(resolved.object, "scheduler_config", name, e);
	json_read_string(&top, "model", h->model, sizeof h->model);
	take_version(&top, h);
	json_read_string(&hardware, "device_name", h->device, sizeof h->device);
	const struct json_reader *const from[] = {&args, &sched};
	for (int i = 0; i < 2; i++) {
		h->max_num_seqs = json_read_int_or(from[i], "max_num_seqs", 1, INT32_MAX, h->max_num_seqs);
		h->max_num_batched_tokens =
			json_read_int_or(from[i], "max_num_batched_tokens", 1, INT32_MAX, h->max_num_batched_tokens);
		take_flag(from[i], "async_scheduling", &h->has_async_scheduling, &h->async_scheduling);
	}
	h->max_model_len = json_read_int_or(&args, "max_model_len", 1, INT32_MAX, 0);
	h->num_gpu_blocks = json_read_int_or(&kv, "num_gpu_blocks", 1, INT32_MAX, 0);
	h->block_size = json_read_int_or(&kv, "block_size", 1, 4096, 0);
	h->gpu_memory_utilization = json_read_real_or(&kv, "gpu_memory_utilization", 0.01, 1, 0);
	take_flag(&args, "enable_prefix_caching", &h->has_prefix_caching, &h->prefix_caching);
	take_flag(&kv, "enable_prefix_caching", &h->has_prefix_caching, &h->prefix_caching);
	json_decref(root);
	return (int)e->code;
}
