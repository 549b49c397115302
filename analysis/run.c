/* run.c: settings -> parts (run_parts.h) -> the loop -> figures -> database. */
#include "analysis/run.h"

#include <string.h>
#include <time.h>

#include "analysis/guard.h"
#include "analysis/plugin.h"
#include "analysis/price.h"
#include "analysis/run_parts.h"
#include "analysis/run_replicas.h"
#include "analysis/store.h"
#include "core/mem.h"

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

static int loop(struct run_parts *p, struct err *e)
{
	const struct run_io *io = p->io;
	struct run_result *r = p->result;
	struct run_hooks hooks = {.stop = io->stop, .ctx = p};
	if (io->progress || io->look)
		hooks.progress = run_record_progress;
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
			     : engine_run(p->engine, run_parts_backend(p), &hooks, e);
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

static int measure(struct run_parts *p, struct err *e)
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
					 .page_bytes = run_parts_page_bytes(p),
					 .gaps = &p->gaps,
					 .tally = &p->tally,
					 .percentiles = p->settings->percentiles,
					 .slo = p->settings->slo,
					 .price_per_hour = price.per_hour,
					 .power_w = price.power_w};
	return metrics_compute(&r->metrics, &in, e);
}

static void begin_storing(struct run_parts *p)
{
	struct run_result *r = p->result;
	if (!p->io->store)
		return;
	if (store_begin_run(p->io->store, p->settings, p->workload, r, &r->run_id, &r->store_err) == ERR_NONE)
		p->store_steps = p->keep_steps;
	guard_run(store_path(p->io->store), r->run_id);
}

/* The database has what there is, however the run ended. */
static void end_storing(struct run_parts *p)
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

static int run_and_store(struct run_parts *p, struct err *e)
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
	struct run_parts p = {.settings = s, .workload = w, .io = io ? io : &nothing, .result = r};
	*r = (struct run_result){0};
	gaps_init(&p.gaps);
	p.kernels = run_backend_executes(s->backend);
	/* What was measured is worth keeping: an executed run has its steps in the database unless nothing is wanted. */
	p.keep_steps = p.io->store && (s->record == RECORD_STEPS || (p.kernels && s->record == RECORD_REQUESTS));
	int rc = run_parts_make(&p, e);
	if (rc == ERR_NONE) {
		rc = run_and_store(&p, e);
	} else {
		run_result_free(r);
		*r = (struct run_result){0};
	}
	run_parts_free(&p);
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
