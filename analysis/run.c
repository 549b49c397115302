/* run.c: settings -> parts (cost model, memory, policy, engine) -> the loop -> figures -> database. */
#include "analysis/run.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "analysis/decisions.h"
#include "analysis/fleet.h"
#include "analysis/gaps.h"
#include "analysis/price.h"
#include "analysis/guard.h"
#include "analysis/plugin.h"
#include "analysis/run_exec.h"
#include "analysis/run_policy.h"
#include "analysis/run_replicas.h"
#include "analysis/store.h"
#include "core/mem.h"
#include "core/source.h"
#include "exec/weights.h"
#include "models/shard.h"
#include "policies/registry.h"
#include "sim/backend.h"
#include "sim/capacity.h"
#include "sim/cost_models.h"

const char *const run_record_names[] = {"requests", "steps", "none", NULL};

const char *const run_backend_names[] = {"sim", "cpu", "cuda", "replay", NULL};

bool run_backend_executes(enum run_backend b)
{
	return b == BACKEND_CPU || b == BACKEND_CUDA;
}

static const char *const status_names[] = {"running", "complete", "interrupted", "stalled", "failed"};

const char *run_status_name(enum run_status s)
{
	return status_names[s];
}

void run_settings_default(struct run_settings *s)
{
	*s = (struct run_settings){
		.burstiness = 1,
		.replay_speedup = 1,
		.length_scale = 1,
		.samples = 1,
		.beam_width = 1,
		.beam_every = 8,
		.max_tokens_mode = "max",
		.tensor_parallel = 1,
		.replicas = 1,
		.gpu_memory_utilization = 0.9,
		.kv_host_latency = 10,
		.kv_disk_latency = 100,
		.ignore_eos = true,
		.sampling = SAMPLING_GREEDY,
		.slo = GOODPUT_NONE,
	};
	engine_config_default(&s->engine);
	percentiles_default(&s->percentiles);
}

/* Everything one run is made of. */
struct parts {
	const struct run_settings *settings;
	const struct workload *workload;
	const struct run_io *io;
	struct run_result *result;

	struct model model; /* valid if has_model */
	struct device device;
	bool has_model, has_device;
	struct weight_format weights;
	enum kv_dtype kv;
	struct cost *cost;
	struct engine_config config;
	struct policy policy;
	struct source *source;
	struct backend backend;
	struct link_speeds links; /* valid if has_links: the simulator's, between tiers */
	bool has_links;
	struct backend before; /* what run_io put before it; else zero */
	struct engine *engine; /* NULL where several replicas serve it */
	struct run_replicas *replicas;
	struct fleet_parts *fleet; /* where replicas differ */

	bool kernels; /* an executor serves it */
	struct run_exec exec;
	struct backend recorder; /* stands before the executor */
	bool keep_steps; /* every step goes to the database */

	/* What the recorder fills. */
	struct decision_hash decisions;
	struct gaps gaps;
	struct step_tally tally;
	bool store_steps; /* still wanted, and the database still takes them */
};

/* --- what is recorded while it runs ------------------------------------------------------------------------------- */

static void on_gap(void *ctx, int64_t gap_ns, int64_t count)
{
	gaps_add(&((struct parts *)ctx)->gaps, gap_ns, count);
}

static void look(struct parts *p, int64_t ended)
{
	struct engine_glance now;
	if (p->replicas)
		run_replicas_glance(p->replicas, &now);
	else
		engine_glance(p->engine, &now);
	p->io->look(p->io->ctx, ended, p->workload->n, &now);
}

static void on_progress(void *ctx, int64_t ended, int64_t total)
{
	struct parts *p = ctx;
	if (p->io->progress)
		p->io->progress(p->io->ctx, ended, total);
	if (p->io->look)
		look(p, ended);
}

static void on_step(void *ctx, const struct step_row *row)
{
	struct parts *p = ctx;
	/* Kernels take so long that nobody should have to wait for a request to end. */
	if (p->io->look && p->kernels)
		look(p, engine_count_ended(p->engine));
	step_tally_add(&p->tally, row->end_ns, row->sampled);
	if (p->io->step)
		p->io->step(p->io->ctx, row);
	/* A database that fails does not end the run. */
	if (p->store_steps && store_step(p->io->store, row, &p->result->store_err))
		p->store_steps = false;
}

static void on_run(void *ctx, int64_t start_ns, const int64_t *end_ns, int64_t steps, int64_t count)
{
	struct parts *p = ctx;
	gaps_add_run(&p->gaps, start_ns, end_ns, steps, count);
	step_tally_add_run(&p->tally, end_ns, steps, count);
}

static void on_event(void *ctx, const struct event *ev)
{
	struct parts *p = ctx;
	decision_hash_add(&p->decisions, ev);
	if (p->io->event)
		p->io->event(p->io->ctx, ev);
}

static void on_token(void *ctx, int32_t req, int32_t n, int64_t t_ns)
{
	struct run_result *r = ((struct parts *)ctx)->result;
	if (r->token_at[req] + n < r->token_at[req + 1])
		r->token_ns[r->token_at[req] + n] = t_ns;
}

/* --- the parts, in the order in which they need each other -------------------------------------------------------- */

/* Weights that say themselves what model they are of. */
static int model_of_weights(struct parts *p, struct err *e)
{
	if (!p->settings->weights)
		return err_set(e, ERR_INPUT, "what is to be run? Give --model, or --weights that say what they are of");
	return weights_model(p->settings->weights, &p->model, e);
}

static int load_hardware(struct parts *p, struct err *e)
{
	const struct run_settings *s = p->settings;
	/* Before anything is read from a file. */
	int rc = model_formats(NULL, s->weight_dtype, s->kv_dtype, &p->weights, &p->kv, e);
	/* A replay needs what the model says of lengths. */
	if (rc == ERR_NONE && (s->model || p->kernels || (s->backend == BACKEND_REPLAY && s->weights))) {
		rc = s->model ? model_load(&p->model, s->model, e) : model_of_weights(p, e);
		p->has_model = rc == ERR_NONE;
	}
	if (rc == ERR_NONE && s->device) {
		rc = device_load(&p->device, s->device, e);
		p->has_device = rc == ERR_NONE;
	}
	if (rc || !p->has_model)
		return rc;
	struct model part;
	rc = model_formats(&p->model, s->weight_dtype, s->kv_dtype, &p->weights, &p->kv, e);
	if (rc == ERR_NONE)
		rc = model_shard(&part, &p->model, s->tensor_parallel, e);
	if (rc == ERR_NONE) {
		p->result->weight_bytes = model_weight_bytes(&part, &p->weights);
		p->result->kv_bytes_per_token = model_kv_bytes_per_token(&part, p->kv, &p->weights);
	}
	return rc;
}

static int open_cost(struct parts *p, struct err *e)
{
	struct cost_setup setup;
	const struct run_settings *s = p->settings;
	if (s->backend != BACKEND_SIM)
		return ERR_NONE;
	cost_setup_default(&setup, p->has_model ? &p->model : NULL, p->has_device ? &p->device : NULL);
	setup.weights = p->weights;
	setup.kv = p->kv;
	setup.tensor_parallel = s->tensor_parallel;
	setup.profile = s->profile;
	setup.threads = s->threads;
	setup.block_size = s->engine.block_size;
	return cost_open(&p->cost, s->cost ? s->cost : "roofline", &setup, e);
}

/* How many KV blocks there are: as told, or what fits. */
static int count_blocks(struct parts *p, struct err *e)
{
	const struct run_settings *s = p->settings;
	struct engine_config *c = &p->config;
	if (s->num_gpu_blocks_override > 0) {
		c->num_blocks = s->num_gpu_blocks_override;
		return ERR_NONE;
	}
	if (p->kernels)
		return c->kv_off ? ERR_NONE : run_exec_count(&p->exec, s, &p->model, &p->weights, p->kv, p->io, c, e);
	if (!p->has_model || !p->has_device) {
		if (c->kv_off)
			return ERR_NONE;
		return err_set(
			e, ERR_INPUT,
			"how much KV memory is there? Give --num-gpu-blocks-override N, or --model and --device");
	}
	struct capacity_options o;
	capacity_options_default(&o);
	o.utilization = s->gpu_memory_utilization;
	o.block_size = c->block_size;
	o.max_num_seqs = c->max_num_seqs;
	o.max_num_batched_tokens = c->max_num_batched_tokens;
	o.max_model_len = c->max_model_len;
	o.weights = p->weights;
	o.kv = p->kv;
	o.tensor_parallel = s->tensor_parallel;
	return capacity_blocks(&p->model, &p->device, &o, &c->num_blocks, e);
}

/* --kv-window left out: what the model itself looks back. */
static int find_kv_window(const struct parts *p, struct engine_config *c, struct err *e)
{
	if (c->kv_retention == RETAIN_FULL || c->kv_window)
		return ERR_NONE;
	if (p->has_model)
		c->kv_window = model_common_window(&p->model);
	if (c->kv_window)
		return ERR_NONE;
	return err_set(e, ERR_INPUT, "--kv-retention %s: %s, so tell with --kv-window how many tokens to keep",
		       kv_retention_names[c->kv_retention],
		       !p->has_model     ? "no model was named"
		       : p->model.window ? "some layers of the model see the whole context"
					 : "the model has no sliding window");
}

static int64_t page_bytes(const struct parts *p)
{
	return p->result->kv_bytes_per_token * p->config.block_size;
}

/* KV blocks that go into so many GiB, which --`flag` gives. */
static int blocks_in(const struct parts *p, const char *flag, double gib, int32_t *blocks, struct err *e)
{
	*blocks = 0;
	if (gib <= 0)
		return ERR_NONE;
	if (!page_bytes(p))
		return err_set(e, ERR_INPUT, "--%s needs to know how large a KV block is: give --model", flag);
	double n = gib * 1024 * 1024 * 1024 / (double)page_bytes(p);
	if (n < 1)
		return err_set(e, ERR_INPUT, "--%s %g GiB is less than one KV block of %lld bytes", flag, gib,
			       (long long)page_bytes(p));
	*blocks = n < INT32_MAX / 4 ? (int32_t)n : INT32_MAX / 4;
	return ERR_NONE;
}

/* Memory behind the device's. */
static int count_tier_blocks(struct parts *p, struct err *e)
{
	const struct run_settings *s = p->settings;
	struct engine_config *c = &p->config;
	int rc = blocks_in(p, "swap-space", s->swap_space, &c->swap_blocks, e);
	if (rc == ERR_NONE)
		rc = blocks_in(p, "kv-offload-host", s->kv_offload_host, &c->offload_host_blocks, e);
	return rc ? rc : blocks_in(p, "kv-offload-disk", s->kv_offload_disk, &c->offload_disk_blocks, e);
}

/* A copy within the device reads and writes each byte once. Cost models that are numbers alone leave it out. */
static void set_copies(struct parts *p)
{
	bool numbers = p->settings->cost &&
		       (!strncmp(p->settings->cost, "linear", 6) || !strncmp(p->settings->cost, "constant", 8));
	if (!p->has_model || !p->has_device || numbers)
		return;
	double bytes_per_ns = p->device.bandwidth * p->device.memory_efficiency / 1e9;
	sim_backend_copies(&p->backend, 2 * (double)page_bytes(p) / bytes_per_ns);
}

/* How fast the simulator copies between tiers. */
static int find_links(struct parts *p, struct err *e)
{
	enum { DISK_BYTES_PER_S = 5000000 }; /* x 1000: a PCIe 4 NVMe drive reads 5 to 7 GB/s */
	const struct run_settings *s = p->settings;
	if (!p->config.swap_blocks && !p->config.offload_host_blocks)
		return ERR_NONE;
	double host = s->kv_host_bandwidth > 0 ? s->kv_host_bandwidth * 1e9
		      : p->has_device          ? p->device.host_bandwidth
					       : 0;
	double disk = s->kv_disk_bandwidth > 0 ? s->kv_disk_bandwidth * 1e9 : DISK_BYTES_PER_S * 1e3;
	if (host <= 0)
		return err_set(
			e, ERR_INPUT,
			"how fast is the link to host memory? Give --kv-host-bandwidth GB/s, or a --device whose "
			"specification says (host_gb_s)");
	const struct link_speed to_host = {(int64_t)host, (int64_t)(s->kv_host_latency * 1e3)};
	const struct link_speed to_disk = {(int64_t)disk, (int64_t)(s->kv_disk_latency * 1e3)};
	struct link_speeds *speeds = &p->links;
	*speeds = (struct link_speeds){.page_bytes = page_bytes(p)};
	speeds->of[LINK_DEVICE_HOST] = speeds->of[LINK_HOST_DEVICE] = to_host;
	speeds->of[LINK_HOST_DISK] = speeds->of[LINK_DISK_HOST] = to_disk;
	p->has_links = true;
	return ERR_NONE;
}

static int set_links(struct parts *p, struct err *e)
{
	int rc = find_links(p, e);
	if (rc == ERR_NONE && p->has_links)
		sim_backend_links(&p->backend, &p->links);
	return rc;
}

static int configure(struct parts *p, struct err *e)
{
	struct engine_config *c = &p->config;
	*c = p->settings->engine;
	c->seed = p->settings->seed;
	c->order.slo_ttft_ns = p->settings->slo.ttft_ns > 0 ? p->settings->slo.ttft_ns : 0;
	c->order.slo_tpot_ns = p->settings->slo.tpot_ns > 0 ? p->settings->slo.tpot_ns : 0;
	c->abort_after_ns = (int64_t)(p->settings->abort_after_s * 1e9);
	if (p->settings->abort_after_s > 0 && !c->abort_after_ns)
		c->abort_after_ns = 1;
	if (p->has_model && !c->model_max_len)
		c->model_max_len = p->model.max_len;
	if (p->has_model && !c->window)
		c->window = p->model.window;
	int rc = find_kv_window(p, c, e);
	if (rc == ERR_NONE)
		rc = count_blocks(p, e);
	return rc ? rc : count_tier_blocks(p, e);
}

static int open_policy(struct parts *p, struct err *e)
{
	return run_policy_open(&p->policy, p->settings, &p->config, &p->result->policy_params, e);
}

/* Room for every token's time: request i has outputs[i] of them at most. */
static int make_token_times(struct parts *p, struct err *e)
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

/* Which backend serves the run: this is the place for others. */
static int open_backend(struct parts *p, struct err *e)
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

static int open_before(struct parts *p, struct err *e)
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
static int open_recorder(struct parts *p, struct err *e)
{
	if (!p->kernels)
		return ERR_NONE;
	return tape_recorder_create(&p->recorder, p->before.ops ? &p->before : &p->backend, &p->result->tape, e);
}

static void close_backend(struct parts *p)
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

/* What the engine sees. */
static struct backend *outermost(struct parts *p)
{
	if (p->recorder.ops)
		return &p->recorder;
	return p->before.ops ? &p->before : &p->backend;
}

/* What differs from group to group of replicas: hardware, cost model, memory. */
struct fleet_parts {
	struct fleet fleet;
	struct parts of[FLEET_GROUPS];
	struct run_result results[FLEET_GROUPS]; /* bytes of weights and KV blocks alone */
};

static int open_fleet(struct parts *p, struct run_replica_kind *kinds, int32_t *n_kinds, struct err *e)
{
	struct fleet_parts *f = p->fleet = mem_zalloc(1, sizeof *f);
	if (!f)
		return err_no_memory(e, "replicas");
	int rc = fleet_parse(&f->fleet, p->settings->fleet, p->settings, e);
	for (int32_t i = 0; rc == ERR_NONE && i < f->fleet.n; i++) {
		struct parts *one = &f->of[i];
		*one = (struct parts){.settings = &f->fleet.groups[i].settings,
				      .workload = p->workload,
				      .io = p->io,
				      .result = &f->results[i]};
		int (*const makers[])(struct parts *, struct err *) = {load_hardware, open_cost, configure, find_links};
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

static int open_replicas(struct parts *p, const struct recorder *rec, struct err *e)
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

static int open_engine(struct parts *p, struct err *e)
{
	const struct run_settings *s = p->settings;
	const struct recorder rec = {.ctx = p,
				     .step = on_step,
				     .gap = on_gap,
				     .run = p->keep_steps || p->io->step ? NULL : on_run,
				     .event = s->backend != BACKEND_SIM || p->io->event ? on_event : NULL,
				     .token = s->save_detailed ? on_token : NULL};
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

static int make_arrays(struct parts *p, struct err *e)
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

static int make_parts(struct parts *p, struct err *e)
{
	int (*const makers[])(struct parts *, struct err *) = {load_hardware, open_cost,     configure,
							       open_policy,   make_arrays,   open_backend,
							       open_before,   open_recorder, open_engine};
	int rc = ERR_NONE;
	for (size_t i = 0; rc == ERR_NONE && i < sizeof makers / sizeof *makers; i++)
		rc = makers[i](p, e);
	return rc;
}

static void free_parts(struct parts *p)
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

/* --- the run ------------------------------------------------------------------------------------------------------ */

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void set_status(struct run_result *r, int rc, const struct err *e)
{
	switch (rc) {
	case ERR_NONE:
		r->status = RUN_COMPLETE;
		return;
	case ERR_INTERRUPTED:
		r->status = RUN_INTERRUPTED;
		break;
	case ERR_STALL:
		r->status = RUN_STALLED;
		break;
	default:
		r->status = RUN_FAILED;
	}
	memcpy(r->status_text, e->text, sizeof r->status_text);
}

static int loop(struct parts *p, struct err *e)
{
	const struct run_io *io = p->io;
	struct run_result *r = p->result;
	struct run_hooks hooks = {.stop = io->stop, .ctx = p};
	if (io->progress || io->look)
		hooks.progress = on_progress;
	if (io->look)
		hooks.every = 64;
	bool replay = p->settings->backend == BACKEND_REPLAY;
	if (p->kernels)
		hooks.every = 1; /* each takes a while */
	if (replay)
		hooks.stop = tape_player_stop(&p->backend, io->stop);
	for (int32_t m = 0; io->engine && m < (p->replicas ? p->settings->replicas : 1); m++)
		io->engine(io->ctx, p->replicas ? run_replicas_engine(p->replicas, m) : p->engine);
	double began = seconds();
	int rc = p->replicas ? run_replicas_loop(p->replicas, &hooks, e)
			     : engine_run(p->engine, outermost(p), &hooks, e);
	r->sim_wall_s = seconds() - began;
	if (rc == ERR_NONE)
		rc = p->replicas ? run_replicas_end(p->replicas, e) : plugin_policy_end(&p->policy, e);
	if (p->replicas)
		run_replicas_stats(p->replicas, &r->stats);
	else
		engine_stats(p->engine, &r->stats);
	r->decision_hash = p->decisions.n ? decision_hash_value(&p->decisions) : 0;
	r->memory_hash = p->decisions.n ? decision_hash_memory(&p->decisions) : 0;
	r->tape.interrupted = p->kernels && rc == ERR_INTERRUPTED;
	if (rc == ERR_NONE && replay)
		rc = tape_player_finish(&p->backend, e);
	if (p->kernels) {
		struct err again = {0};
		int kept = run_exec_outputs(&p->exec, r, &again);
		if (rc == ERR_NONE && kept)
			rc = err_set(e, (enum err_code)kept, "%s", again.text);
	}
	return rc;
}

/* What they cost together. Energy follows from how busy all were together, so it is told of equal devices alone. */
static struct price price_of_fleet(const struct fleet_parts *f)
{
	struct price all = {0};
	bool equal = true, known = true;
	for (int32_t i = 0; i < f->fleet.n; i++) {
		const struct fleet_group *g = &f->fleet.groups[i];
		struct price one = price_of(&f->of[i].device, g->settings.tensor_parallel * g->count);
		known &= one.per_hour > 0;
		all.per_hour += one.per_hour;
		all.power_w += one.power_w;
		equal &=
			one.power_w / g->count == f->of[0].device.power_w * f->fleet.groups[0].settings.tensor_parallel;
	}
	return (struct price){known ? all.per_hour : 0, equal ? all.power_w : 0};
}

static int measure(struct parts *p, struct err *e)
{
	struct run_result *r = p->result;
	int rc = gaps_finish(&p->gaps, e);
	if (rc)
		return rc;
	struct price price = {0};
	if (p->fleet)
		price = price_of_fleet(p->fleet);
	else if (p->has_device)
		price = price_of(&p->device, p->settings->tensor_parallel * p->settings->replicas);
	const struct metrics_input in = {.workload = p->workload,
					 .requests = r->requests,
					 .stats = &r->stats,
					 .replicas = p->settings->replicas,
					 .config = &r->engine,
					 .page_bytes = page_bytes(p),
					 .gaps = &p->gaps,
					 .tally = &p->tally,
					 .percentiles = p->settings->percentiles,
					 .slo = p->settings->slo,
					 .price_per_hour = price.per_hour,
					 .power_w = price.power_w};
	return metrics_compute(&r->metrics, &in, e);
}

static void begin_storing(struct parts *p)
{
	struct run_result *r = p->result;
	if (!p->io->store)
		return;
	if (store_begin_run(p->io->store, p->settings, p->workload, r, &r->run_id, &r->store_err) == ERR_NONE)
		p->store_steps = p->keep_steps;
	guard_run(store_path(p->io->store), r->run_id);
}

/* The database has what there is, however the run ended. */
static void end_storing(struct parts *p)
{
	struct run_result *r = p->result;
	if (!r->run_id)
		return;
	struct err again = {0};
	int rc = store_end_run(p->io->store, p->settings, p->workload, r, &again);
	if (rc)
		err_set(&r->store_err, again.code, "%s", again.text);
	guard_run(NULL, 0);
}

static int run_parts(struct parts *p, struct err *e)
{
	struct err run_err = {0};
	begin_storing(p);
	int rc = loop(p, &run_err);
	set_status(p->result, rc, &run_err);
	/* What it was made of is not needed any more; a million requests need the room. */
	engine_free(p->engine);
	p->engine = NULL;
	int measured = measure(p, rc ? NULL : &run_err);
	if (rc == ERR_NONE && measured) {
		rc = measured;
		set_status(p->result, rc, &run_err);
	}
	end_storing(p);
	if (rc == ERR_NONE || rc == ERR_INTERRUPTED)
		return ERR_NONE;
	return err_set(e, (enum err_code)rc, "%s", run_err.text);
}

int run_execute(const struct run_settings *s, const struct workload *w, const struct run_io *io, struct run_result *r,
		struct err *e)
{
	static const struct run_io nothing;
	struct parts p = {.settings = s, .workload = w, .io = io ? io : &nothing, .result = r};
	*r = (struct run_result){0};
	gaps_init(&p.gaps);
	p.kernels = run_backend_executes(s->backend);
	/* What was measured is worth keeping: an executed run has its steps in the database unless nothing is wanted. */
	p.keep_steps = p.io->store && (s->record == RECORD_STEPS || (p.kernels && s->record == RECORD_REQUESTS));
	int rc = make_parts(&p, e);
	if (rc == ERR_NONE) {
		rc = run_parts(&p, e);
	} else {
		run_result_free(r);
		*r = (struct run_result){0};
	}
	free_parts(&p);
	return rc;
}

void run_result_drop_requests(struct run_result *r)
{
	mem_free(r->requests);
	mem_free(r->token_at);
	mem_free(r->token_ns);
	r->requests = NULL;
	r->token_at = r->token_ns = NULL;
}

void run_result_free(struct run_result *r)
{
	run_result_drop_requests(r);
	mem_free(r->policy_params);
	mem_free(r->output_ids);
	mem_free(r->output_at);
	tape_free(&r->tape);
	r->policy_params = NULL;
	r->output_ids = NULL;
	r->output_at = NULL;
}
