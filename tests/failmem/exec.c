/* Every allocation of loading a model and serving requests with it fails once. Nothing may leak, and the error says that
 * memory ran out. (The kernels' own memory is not core/mem.h's and does not fail here.) */
#include <stdio.h>
#include <string.h>

#include "core/engine.h"
#include "core/err.h"
#include "core/source.h"
#include "exec/backend.h"
#include "policies/registry.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"
#include "tests/support/tiny.h"

enum { REQUESTS = 6 };

struct world {
	const char *policy, *params;
	bool caching, async, kv_off;
	double temperature;
	struct tiny *tiny;
};

/* All that has to be released. */
struct served {
	struct workload w;
	struct request requests[REQUESTS];
	struct weights *weights;
	struct runner *runner;
	struct sequences *sequences;
	struct backend backend;
	struct source *source;
	struct policy policy;
	struct engine *engine;
};

static int make_workload(struct workload *w, struct err *e)
{
	int rc = ERR_NONE;
	workload_init(w);
	for (int i = 0; i < REQUESTS && !rc; i++) {
		struct spec s = {.arrival_ns = i,
				 .name_at = -1,
				 .prompt_tokens = 6 + i,
				 .output_tokens = i == 4 ? 0 : 7,
				 .max_tokens = 8,
				 .session = -1,
				 .row = i + 1,
				 .hash_at = w->n_hash_ids,
				 .n_hashes = 1};
		rc = workload_add_segment(w, 1 + (uint64_t)(i % 2), 6, e);
		if (!rc)
			rc = workload_add(w, &s, e);
	}
	return rc;
}

static int open_engine(struct served *s, const struct world *c, struct err *e)
{
	const struct policy_desc *d = policy_find(c->policy);
	union policy_value values[32];
	struct engine_config cfg;
	engine_config_default(&cfg);
	cfg.block_size = 4;
	cfg.num_blocks = 10;
	cfg.max_num_seqs = 4;
	cfg.max_num_batched_tokens = 12;
	cfg.prefix_caching = c->caching;
	cfg.async_scheduling = c->async;
	cfg.kv_off = c->kv_off;
	cfg.exact_walk = true;
	int rc = engine_config_resolve(&cfg, e);
	struct policy_setup setup;
	engine_policy_setup(&cfg, &setup);
	if (!rc)
		rc = policy_parse_params(d, c->params, values, e);
	if (!rc)
		rc = policy_open(&s->policy, d, values, &setup, e);
	if (!rc)
		rc = source_create(&s->source, &s->w, 0, e);
	if (!rc)
		rc = engine_create(&s->engine, &cfg, &s->w, s->requests, s->source, &s->policy, NULL, e);
	return rc;
}

static int open_executor(struct served *s, const struct world *c, struct err *e)
{
	static const int32_t eos[] = {1};
	const struct engine_config *cfg = engine_config(s->engine);
	struct exec_setup setup = {.check = true, .eos = eos, .n_eos = 1};
	int rc = weights_open(&s->weights, c->tiny->weights, &c->tiny->model, e);
	struct runner_setup r = {.model = &c->tiny->model,
				 .weights = s->weights,
				 .kernels = c->tiny->kernels,
				 .n_pages = cfg->kv_off ? 0 : cfg->num_blocks,
				 .block_size = cfg->block_size,
				 .kv_off = cfg->kv_off,
				 .check = true,
				 .sampling = {.temperature = c->temperature, .top_p = 0.9}};
	if (!rc)
		rc = runner_create(&s->runner, &r, e);
	if (!rc)
		rc = sequences_create(&s->sequences, &s->w, TINY_VOCAB, 1, c->caching, e);
	setup.runner = s->runner;
	setup.sequences = s->sequences;
	return rc ? rc : exec_backend_create(&s->backend, &setup, e);
}

static int once(void *ctx, char text[1024])
{
	struct served s = {0};
	struct err e = {0};
	int rc = make_workload(&s.w, &e);
	if (!rc)
		rc = open_engine(&s, ctx, &e);
	if (!rc)
		rc = open_executor(&s, ctx, &e);
	if (!rc)
		rc = engine_run(s.engine, &s.backend, NULL, &e);
	for (int i = 0; i < REQUESTS && !rc; i++)
		if (s.requests[i].state != REQUEST_FINISHED)
			rc = err_set(&e, ERR_INVARIANT, "request %d is %s", i,
				     request_state_name((enum request_state)s.requests[i].state));
	exec_backend_free(&s.backend);
	sequences_free(s.sequences);
	runner_free(s.runner);
	if (s.weights)
		weights_close(s.weights);
	engine_free(s.engine);
	source_free(s.source);
	policy_close(&s.policy);
	workload_free(&s.w);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void every_allocation(struct world c)
{
	struct tiny tiny;
	tiny_open(&tiny, "\"attention_bias\": true", 1);
	int64_t held = failing_mem_held();
	c.tiny = &tiny;
	int64_t tried = failing_mem_each(once, &c, 0);
	printf("  %s %s: %lld allocations failed\n", c.policy, c.params, (long long)tried);
	CU_ASSERT(tried > 60);
	CHECK_INT(failing_mem_held(), held);
	tiny_close(&tiny);
}

static void pieces_and_a_prefix_cache(void)
{
	every_allocation((struct world){.policy = "chunked", .params = "", .caching = true});
}

static void sampling_and_asynchronous_scheduling(void)
{
	every_allocation((struct world){.policy = "chunked", .params = "", .async = true, .temperature = 1});
}

static void padding_and_held_rows(void)
{
	every_allocation((struct world){.policy = "naive", .params = ""});
}

static void no_kv_cache(void)
{
	every_allocation((struct world){.policy = "naive", .params = "", .kv_off = true});
}

int main(void)
{
	static const struct test tests[] = {
		{"pieces_and_a_prefix_cache", pieces_and_a_prefix_cache},
		{"sampling_and_asynchronous_scheduling", sampling_and_asynchronous_scheduling},
		{"padding_and_held_rows", padding_and_held_rows},
		{"no_kv_cache", no_kv_cache},
	};
	return SUITE_RUN("exec", tests);
}
