/* run_parts.c: the parts of a run, in the order in which they need each other, and their end. */
#include "analysis/run_parts.h"

#include <string.h>

#include "analysis/run_policy.h"
#include "analysis/run_replicas.h"
#include "core/mem.h"
#include "policies/registry.h"
#include "sim/backend.h"
#include "sim/cost_models.h"

static int open_policy(struct run_parts *p, struct err *e)
{
	return run_policy_open(&p->policy, p->settings, &p->config, &p->result->policy_params, e);
}

/* Room for every token's time: request i has outputs[i] of them at most. */
static int make_token_times(struct run_parts *p, struct err *e)
{
	struct run_result *r = p->result;
	r->token_at = mem_alloc((size_t)(r->n + 1) * sizeof *r->token_at);
	if (!r->token_at)
		return err_no_memory(e, "token times");
	r->token_at[0] = 0;
	for (int64_t i = 0; i < r->n; i++)
		r->token_at[i + 1] = r->token_at[i] + p->workload->specs[i].output_tokens;
	r->token_ns = mem_zalloc((size_t)r->token_at[r->n] + 1, sizeof *r->token_ns);
	return r->token_ns ? ERR_NONE : err_no_memory(e, "token times");
}

/* A copy within the device reads and writes each byte once. Cost models that are numbers alone leave it out. */
static void set_copies(struct run_parts *p)
{
	bool numbers = p->settings->cost &&
		       (!strncmp(p->settings->cost, "linear", 6) || !strncmp(p->settings->cost, "constant", 8));
	if (!p->has_model || !p->has_device || numbers)
		return;
	double bytes_per_ns = p->device.bandwidth * p->device.memory_efficiency / 1e9;
	sim_backend_copies(&p->backend, 2 * (double)run_parts_page_bytes(p) / bytes_per_ns);
}

static int set_links(struct run_parts *p, struct err *e)
{
	int rc = run_parts_links(p, e);
	if (rc == ERR_NONE && p->has_links)
		sim_backend_links(&p->backend, &p->links);
	return rc;
}

/* Which backend serves the run: this is the place for others. */
static int open_backend(struct run_parts *p, struct err *e)
{
	struct run_result *r = p->result;
	r->backend = run_backend_names[p->settings->backend];
	switch (p->settings->backend) {
	case BACKEND_SIM:;
		r->backend = "simulator";
		int rc = sim_backend_create(&p->backend, p->cost, e);
		if (!rc)
			set_copies(p);
		return rc ? rc : set_links(p, e);
	case BACKEND_REPLAY:
		if (!p->settings->tape)
			return err_set(e, ERR_INPUT, "there is nothing to replay: no recorded run was given");
		return tape_player_create(&p->backend, p->settings->tape, e);
	case BACKEND_CPU:
	case BACKEND_CUDA:
		break;
	}
	return run_exec_open(&p->exec, p->settings, &p->model, &p->weights, p->kv, &p->config, p->workload, p->io, r,
			     &p->backend, e);
}

static int open_before(struct run_parts *p, struct err *e)
{
	if (!p->io->stand_before || p->settings->router) /* each replica has its own */
		return ERR_NONE;
	struct backend b = p->backend;
	int rc = p->io->stand_before(p->io->ctx, &b, e);
	if (rc == ERR_NONE)
		p->before = b;
	return rc;
}

/* Everything the engine takes from kernels is kept, from whatever stands nearest to it. */
static int open_recorder(struct run_parts *p, struct err *e)
{
	if (!p->kernels)
		return ERR_NONE;
	return tape_recorder_create(&p->recorder, p->before.ops ? &p->before : &p->backend, &p->result->tape, e);
}

static void close_backend(struct run_parts *p)
{
	if (p->recorder.ops)
		tape_backend_free(&p->recorder);
	if (p->before.ops)
		p->before.ops->close(p->before.self);
	if (!p->backend.ops)
		return;
	if (p->settings->backend == BACKEND_SIM)
		sim_backend_free(&p->backend);
	else if (p->settings->backend == BACKEND_REPLAY)
		tape_backend_free(&p->backend);
	else
		exec_backend_free(&p->backend);
}

struct backend *run_parts_backend(struct run_parts *p)
{
	if (p->recorder.ops)
		return &p->recorder;
	return p->before.ops ? &p->before : &p->backend;
}

static int open_fleet(struct run_parts *p, struct run_replica_kind *kinds, int32_t *n_kinds, struct err *e)
{
	struct fleet_parts *f = p->fleet = mem_zalloc(1, sizeof *f);
	if (!f)
		return err_no_memory(e, "replicas");
	int rc = fleet_parse(&f->fleet, p->settings->fleet, p->settings, e);
	for (int32_t i = 0; rc == ERR_NONE && i < f->fleet.n; i++) {
		struct run_parts *one = &f->of[i];
		*one = (struct run_parts){.settings = &f->fleet.groups[i].settings,
					  .workload = p->workload,
					  .io = p->io,
					  .result = &f->results[i]};
		int (*const makers[])(struct run_parts *, struct err *) = {run_parts_hardware, run_parts_cost,
									   run_parts_configure, run_parts_links};
		for (size_t k = 0; rc == ERR_NONE && k < sizeof makers / sizeof *makers; k++)
			rc = makers[k](one, e);
		kinds[i] = (struct run_replica_kind){f->fleet.groups[i].count, one->settings, &one->config, one->cost,
						     one->has_links ? &one->links : NULL};
	}
	*n_kinds = f->fleet.n;
	return rc;
}

static void close_fleet(struct fleet_parts *f)
{
	for (int32_t i = 0; f && i < f->fleet.n; i++) {
		cost_free(f->of[i].cost);
		if (f->of[i].has_model)
			model_free(&f->of[i].model);
	}
	mem_free(f);
}

static int open_replicas(struct run_parts *p, const struct recorder *rec, struct err *e)
{
	struct run_replica_kind kinds[FLEET_GROUPS] = {
		{p->settings->replicas, p->settings, &p->config, p->cost, p->has_links ? &p->links : NULL}};
	struct run_replicas_setup setup = {.settings = p->settings,
					   .kinds = kinds,
					   .n_kinds = 1,
					   .workload = p->workload,
					   .requests = p->result->requests,
					   .source = p->source,
					   .io = p->io,
					   .recorder = *rec};
	int rc = p->settings->fleet ? open_fleet(p, kinds, &setup.n_kinds, e) : ERR_NONE;
	p->tally.any_order = p->settings->replicas > 1;
	rc = rc ? rc : run_replicas_open(&p->replicas, &setup, e);
	if (rc == ERR_NONE)
		p->result->engine = *engine_config(run_replicas_engine(p->replicas, 0));
	return rc;
}

static int open_engine(struct run_parts *p, struct err *e)
{
	const struct run_settings *s = p->settings;
	const struct recorder rec = run_record(p);
	struct run_result *r = p->result;
	int rc = source_create(&p->source, p->workload, p->config.max_concurrency, e);
	if (rc == ERR_NONE && s->router)
		return open_replicas(p, &rec, e);
	if (rc == ERR_NONE)
		rc = engine_create(&p->engine, &p->config, p->workload, r->requests, p->source, &p->policy, &rec, e);
	if (rc == ERR_NONE)
		r->engine = *engine_config(p->engine);
	return rc;
}

static int64_t first_arrival(const struct workload *w)
{
	int64_t first = INT64_MAX;
	for (int64_t i = 0; i < w->n; i++)
		if ((!w->n_parents || !w->n_parents[i]) && w->specs[i].arrival_ns < first)
			first = w->specs[i].arrival_ns;
	return first;
}

static int make_arrays(struct run_parts *p, struct err *e)
{
	struct run_result *r = p->result;
	if (p->workload->n == 0)
		return err_set(e, ERR_INPUT,
			       "there are no requests to run: the trace is empty or every row was left out");
	r->n = p->workload->n;
	r->lengths_estimated = p->workload->lengths_estimated;
	r->oracle =
		p->workload->oracle || (engine_config_predicts(&p->config) && predict_is_oracle(&p->config.predictor));
	r->requests = mem_zalloc((size_t)r->n, sizeof *r->requests);
	if (!r->requests)
		return err_no_memory(e, "requests");
	step_tally_init(&p->tally, first_arrival(p->workload));
	return p->settings->save_detailed ? make_token_times(p, e) : ERR_NONE;
}

int run_parts_make(struct run_parts *p, struct err *e)
{
	int (*const makers[])(struct run_parts *, struct err *) = {
		run_parts_hardware, run_parts_cost, run_parts_configure, open_policy, make_arrays,
		open_backend,       open_before,    open_recorder,       open_engine};
	int rc = ERR_NONE;
	for (size_t i = 0; rc == ERR_NONE && i < sizeof makers / sizeof *makers; i++)
		rc = makers[i](p, e);
	return rc;
}

void run_parts_free(struct run_parts *p)
{
	engine_free(p->engine);
	run_replicas_close(p->replicas);
	close_fleet(p->fleet);
	step_tally_free(&p->tally);
	source_free(p->source);
	close_backend(p);
	run_exec_close(&p->exec);
	policy_close(&p->policy);
	cost_free(p->cost);
	if (p->has_model)
		model_free(&p->model);
	gaps_free(&p->gaps);
}
