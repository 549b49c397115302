#include "cli/validate_session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/executor.h"
#include "analysis/jout.h"
#include "analysis/profile_measure.h"
#include "analysis/run_exec.h"
#include "analysis/store.h"
#include "analysis/store_profile.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "core/err.h"
#include "core/mem.h"
#include "exec/weights.h"
#include "sim/cost_models.h"

/* --- what was typed ----------------------------------------------------------------------------------------------- */

static int parse_loads(struct validate_session *s, struct err *e)
{
	const char *text = s->opts.loads;
	s->n_loads = text ? 0 : 1;
	while (text) {
		char *end;
		double v = strtod(text, &end);
		if (end == text || (*end && *end != ',') || !(v > 0 && v <= 100))
			return err_set(e, ERR_INPUT,
				       "--load %s: shares of what can be served, as 0.3,0.7,1.2 (1 = all of it)",
				       s->opts.loads);
		if (s->n_loads == VALIDATE_LOADS)
			return err_set(e, ERR_INPUT, "--load %s: at most %d of them", s->opts.loads, VALIDATE_LOADS);
		s->load[s->n_loads++] = v;
		text = *end ? end + 1 : NULL;
	}
	return ERR_NONE;
}

/* Policies may be several; a list of anything else would need another model loaded or measured for each. */
static int check_lists(const struct validate_session *s, struct err *e)
{
	struct run_opts bare = s->opts.run;
	struct arms policies;
	memset(&bare.texts, 0, sizeof bare.texts);
	bare.texts.backend = "cpu";
	bare.texts.model = "llama-110m"; /* any: it is not loaded here */
	struct err own = {0};
	int rc = arms_make(&policies, &bare, true, &own);
	bool several = rc == ERR_NONE && policies.n != s->base.arms.n;
	arms_free(&policies);
	if (rc)
		return err_set(e, own.code, "%s", own.text);
	return several ? err_set(e, ERR_INPUT, "only --policies and --load take several values in a validation")
		       : ERR_NONE;
}

static int check_opts(const struct validate_session *s, struct err *e)
{
	const struct run_opts *o = &s->opts.run;
	const char *backend = o->texts.backend;
	if (o->save_result || o->save_detailed)
		return err_set(e, ERR_INPUT,
			       "a validation writes no result files: --report FILE.md or --json have it all");
	if (strcmp(backend, "sim") == 0 || strcmp(backend, "replay") == 0)
		return err_set(
			e, ERR_INPUT,
			"--backend %s executes nothing that a simulation could be compared with: use cpu or cuda",
			backend);
	if (strcmp(backend, "cuda") == 0 && !o->texts.device)
		return err_set(e, ERR_INPUT,
			       "which GPU is it? The simulated side wants its specification: --device h100-sxm, say "
			       "(`lockstep capacity --list` names them), or a JSON file of it");
	return ERR_NONE;
}

/* --- what predicts ------------------------------------------------------------------------------------------------ */

/* How far the workload reaches. */
struct reach {
	int32_t tokens, context, seqs;
};

/* 0 = the model has no limit. */
static int longest_of_model(const struct run_settings *a, int32_t *longest, struct err *e)
{
	struct model m;
	int rc = a->model ? model_load(&m, a->model, e) : weights_model(a->weights, &m, e);
	if (rc)
		return rc;
	*longest = m.max_len;
	model_free(&m);
	return ERR_NONE;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int reach_of(const struct validate_session *s, struct reach *out, struct err *e)
{
	const struct workload *w = &s->base.loaded.workload;
	const struct engine_config *c = &s->base.arms.at[0].s.engine;
	int64_t prompts = 0, longest_prompt = 1, longest_output = 1, seqs = smaller(w->n, c->max_num_seqs);
	int32_t longest = 0;
	int rc = longest_of_model(&s->base.arms.at[0].s, &longest, e);
	if (rc)
		return rc;
	for (int64_t i = 0; i < w->n; i++) {
		prompts += w->specs[i].prompt_tokens;
		longest_prompt = larger(longest_prompt, w->specs[i].prompt_tokens);
		longest_output = larger(longest_output, w->specs[i].output_tokens);
	}
	/* Several prompts in one step are measured as one as long; with padding, each may be as long as the longest. */
	int64_t tokens = larger(larger(longest_prompt, seqs), smaller(prompts, c->max_num_batched_tokens));
	int64_t context = smaller(larger(longest_prompt + longest_output, tokens), longest ? longest : INT32_MAX);
	*out = (struct reach){(int32_t)smaller(tokens, context), (int32_t)context, (int32_t)seqs};
	return ERR_NONE;
}

static bool covers(const struct profile *p, const struct reach *r)
{
	int64_t tokens = 0, context = 0, seqs = 0;
	for (int32_t i = 0; i < p->n_points; i++) {
		const struct profile_point *t = &p->points[i];
		if (t->op == PROFILE_MATMUL && t->x > tokens)
			tokens = t->x;
		if (t->op == PROFILE_DECODE) {
			seqs = t->x > seqs ? t->x : seqs;
			context = t->y > context ? t->y : context;
		}
	}
	return tokens >= r->tokens && context >= r->context && seqs >= r->seqs;
}

/* As the run's kernels call themselves. */
static int describe_kernels(const struct run_settings *a, char *what, size_t size, int32_t *threads, struct err *e)
{
	const struct executor_setup o = {.backend = run_backend_names[a->backend],
					 .threads = a->threads,
					 .isa = a->isa,
					 .batch_invariant = a->batch_invariant,
					 .eager = a->enforce_eager};
	struct kernel_set *k;
	int rc = executor_kernels(&k, &o, e);
	if (rc)
		return rc;
	snprintf(what, size, "%s", k->what);
	*threads = k->threads;
	k->ops->close(k);
	return ERR_NONE;
}

/* A profile in the database that was measured on this machine, with these kernels, as far as the workload reaches. */
static bool find_profile(struct validate_session *s, const struct reach *reach, struct err *e)
{
	struct run_settings a = s->base.arms.at[0].s;
	struct validate_machine m;
	struct err none = {0};
	char what[192], machine[128];
	a.cost = "profiled";
	if (describe_kernels(&a, what, sizeof what, &a.threads, e) || !s->base.store ||
	    profile_for_run(s->base.store, &a, &s->profile, &none))
		return false;
	validate_machine(&m);
	snprintf(machine, sizeof machine, "%.100s, %d CPUs", m.cpu, (int)m.cpus);
	if (!s->profile.partial && strcmp(s->profile.machine, machine) == 0 && strcmp(s->profile.library, what) == 0 &&
	    covers(&s->profile, reach))
		return true;
	profile_free(&s->profile);
	return false;
}

/* Measuring should not take long beside executing, of which the roofline of the device "cpu" gives an idea: it has 32 cores,
 * this machine fewer. */
static double default_budget_s(const struct validate_session *s)
{
	struct validate_machine m;
	double all = 0;
	validate_machine(&m);
	for (int32_t i = 0; i < s->base.arms.n; i++) {
		struct validate_setup v = {.executed = s->base.arms.at[i].s, .simulated = s->base.arms.at[i].s};
		double once = 0;
		v.simulated.backend = BACKEND_SIM;
		v.simulated.cost = "roofline";
		v.simulated.device = "cpu";
		if (validate_estimate(&v, &s->base.loaded.workload, 0, &once, NULL, NULL))
			return 30;
		all += once * 32 / (v.executed.threads ? v.executed.threads : m.cpus);
	}
	return all < 120 ? 10 : all > 720 ? 60 : all / 12;
}

static int measure_profile(struct validate_session *s, const struct reach *reach, struct err *e)
{
	const struct run_settings *a = &s->base.arms.at[0].s;
	struct profile_measure o;
	struct profile_measured did;
	struct progress bar;
	profile_measure_default(&o);
	o.model = a->model;
	o.weights = a->weights;
	o.weight_dtype = a->weight_dtype;
	o.kv_dtype = a->kv_dtype;
	o.backend = run_backend_names[a->backend];
	o.eager = a->enforce_eager;
	o.device = a->device;
	o.threads = a->threads;
	o.isa = a->isa;
	o.batch_invariant = a->batch_invariant;
	o.block_size = a->engine.block_size;
	o.max_tokens = reach->tokens;
	o.max_context = reach->context;
	o.max_seqs = reach->seqs;
	if (a->kv_cache_memory_bytes)
		o.kv_memory_bytes = a->kv_cache_memory_bytes;
	o.budget_s = s->opts.profile_budget > 0 ? s->opts.profile_budget : default_budget_s(s);
	o.stop = stop_flag();
	progress_begin(&bar, "measuring this machine", !s->quiet);
	o.progress = progress_update;
	o.ctx = &bar;
	int rc = profile_measure(&s->profile, &did, &o, e);
	progress_end(&bar);
	if (rc == ERR_NONE && did.interrupted) {
		profile_free(&s->profile);
		rc = err_set(e, ERR_INTERRUPTED, "interrupted while the machine was measured");
	}
	s->measured_now = rc == ERR_NONE;
	return rc == ERR_NONE && s->base.store ? store_save_profile(s->base.store, &s->profile, e) : rc;
}

static void describe_profile(struct validate_session *s)
{
	const struct profile *p = &s->profile;
	if (p->id)
		snprintf(s->cost_what, sizeof s->cost_what, "profiled: profile %lld (%s)", (long long)p->id,
			 s->measured_now ? "measured just now" : p->created);
	else
		snprintf(s->cost_what, sizeof s->cost_what, "profiled: measured just now");
}

static int open_cost(struct validate_session *s, struct err *e)
{
	const char *cost = s->base.arms.at[0].s.cost ? s->base.arms.at[0].s.cost : "profiled";
	char which[64];
	struct reach reach;
	snprintf(s->cost, sizeof s->cost, "%s", cost);
	snprintf(s->cost_what, sizeof s->cost_what, "%s", cost);
	if (!cost_profile_which(cost, which, sizeof which))
		return ERR_NONE;
	int rc = reach_of(s, &reach, e);
	if (rc)
		return rc;
	if (*which) {
		struct store *own = NULL;
		struct run_settings a = s->base.arms.at[0].s;
		rc = s->base.store ? ERR_NONE : store_open(&own, s->opts.run.db, true, e);
		if (rc == ERR_NONE)
			rc = profile_for_run(own ? own : s->base.store, &a, &s->profile, e);
		store_close(own);
	} else if (!find_profile(s, &reach, e)) {
		rc = e->code ? (int)e->code : measure_profile(s, &reach, e);
	}
	if (rc == ERR_NONE)
		describe_profile(s);
	return rc;
}

/* --- beginning ---------------------------------------------------------------------------------------------------- */

/* The other side of an arm: the same, but foretold. */
static struct run_settings simulated_side(const struct validate_session *s, const struct run_settings *a)
{
	struct run_settings out = *a;
	out.backend = BACKEND_SIM;
	out.cost = s->cost;
	out.profile = s->profile.n_points ? &s->profile : NULL;
	out.device = a->device ? a->device : run_backend_names[a->backend];
	out.arguments = NULL;
	return out;
}

static int label_simulated(struct validate_session *s, const char *label, const char **out, struct err *e)
{
	size_t size = strlen(label) + 16;
	char *text = mem_alloc(size);
	if (!text)
		return err_no_memory(e, "a label");
	snprintf(text, size, "%s simulated", label);
	s->labels[s->n_labels++] = text;
	*out = text;
	return ERR_NONE;
}

static struct validate_setup setup_of(const struct validate_session *s, int32_t arm)
{
	const struct run_settings *a = &s->base.arms.at[arm].s;
	return (struct validate_setup){.executed = *a,
				       .simulated = simulated_side(s, a),
				       .executions = s->opts.repeats,
				       .spread_s = s->opts.spread_budget,
				       .max_error = s->opts.max_error >= 0 ? s->opts.max_error : NAN};
}

/* How long it takes and how much is too much, before anything is executed. */
static int look_ahead(struct validate_session *s, struct err *e)
{
	for (int32_t i = 0; i < s->base.arms.n; i++) {
		const struct validate_setup v = setup_of(s, i);
		const struct workload *w = &s->base.loaded.workload;
		int rc = validate_estimate(&v, w, s->executor->setup.num_blocks, &s->estimate_s[i], NULL, e);
		if (rc == ERR_NONE && s->opts.loads)
			rc = validate_capacity(&v.simulated, w, s->executor->setup.num_blocks, &s->capacity[i], e);
		if (rc)
			return rc;
	}
	return ERR_NONE;
}

static int open_executor(struct validate_session *s, struct err *e)
{
	int rc = run_exec_load(&s->executor, &s->base.arms.at[0].s, e);
	for (int32_t i = 0; rc == ERR_NONE && i < s->base.arms.n; i++)
		if (!s->executor->setup.kv_off)
			s->base.arms.at[i].s.num_gpu_blocks_override = s->executor->setup.num_blocks;
	return rc;
}

static int make_room(struct validate_session *s, struct err *e)
{
	size_t n = (size_t)s->base.arms.n, all = n * (size_t)s->n_loads;
	s->capacity = mem_zalloc(n, sizeof *s->capacity);
	s->estimate_s = mem_zalloc(n, sizeof *s->estimate_s);
	s->labels = mem_zalloc(all, sizeof *s->labels);
	s->arguments = mem_zalloc(2 * all, sizeof *s->arguments);
	s->results = mem_zalloc(all, sizeof *s->results);
	bool there = s->capacity && s->estimate_s && s->labels && s->arguments && s->results;
	return there ? ERR_NONE : err_no_memory(e, "results");
}

static int begin(struct validate_session *s, struct err *e)
{
	int rc = check_opts(s, e);
	if (rc == ERR_NONE)
		rc = arms_make(&s->base.arms, &s->opts.run, true, e);
	if (rc == ERR_NONE)
		rc = check_lists(s, e);
	if (rc == ERR_NONE)
		rc = parse_loads(s, e);
	if (rc == ERR_NONE)
		rc = make_room(s, e);
	if (rc == ERR_NONE)
		rc = session_load(&s->opts.run, &s->base.arms, &s->base.loaded, e);
	if (rc == ERR_NONE && s->base.loaded.workload.n == 0)
		rc = err_set(e, ERR_INPUT,
			     "there are no requests to run: the trace is empty or every row was left out");
	if (rc == ERR_NONE && !s->opts.run.no_db)
		rc = store_open(&s->base.store, s->opts.run.db, false, e);
	if (rc == ERR_NONE)
		rc = open_cost(s, e);
	if (rc == ERR_NONE)
		rc = open_executor(s, e);
	return rc ? rc : look_ahead(s, e);
}

bool validate_session_begin(struct validate_session *s, const struct command *c, const struct validate_opts *o)
{
	struct err e = {0};
	*s = (struct validate_session){.opts = *o, .quiet = o->run.quiet || o->run.json};
	s->base = (struct session){.command = c, .opts = &s->opts.run};
	s->base_speedup = o->run.trace.replay_speedup;
	workload_init(&s->base.loaded.workload);
	if (begin(s, &e) == ERR_NONE)
		return true;
	s->base.status = command_fail(c, &e);
	return false;
}

void validate_session_free(struct validate_session *s)
{
	for (int32_t i = 0; i < s->n_results; i++)
		validate_free(&s->results[i]);
	for (int32_t i = 0; i < s->n_labels; i++)
		mem_free(s->labels[i]);
	for (int32_t i = 0; i < s->n_arguments; i++)
		mem_free(s->arguments[i]);
	mem_free(s->results);
	mem_free(s->labels);
	mem_free(s->arguments);
	mem_free(s->capacity);
	mem_free(s->estimate_s);
	executor_close(s->executor);
	profile_free(&s->profile);
	session_free(&s->base);
}

/* --- one load, one policy ----------------------------------------------------------------------------------------- */

/* The workload as it comes at that load: read once more, so that it is what --replay-speedup (or --request-rate) gives. */
static int set_load(struct validate_session *s, int32_t arm, double load, struct err *e)
{
	struct trace_opts *t = &s->opts.run.trace;
	struct run_settings *a = &s->base.arms.at[arm].s;
	double rate = load * s->capacity[arm], speedup = 1;
	int rc = validate_speedup(&s->base.loaded.workload, rate, &speedup, e);
	if (rc)
		return rc;
	/* From what is loaded now to what is wanted: speeds multiply. */
	if (t->request_rate > 0)
		t->request_rate = rate;
	else
		t->replay_speedup *= speedup;
	workload_free(&s->base.loaded.workload);
	rc = session_load(&s->opts.run, &s->base.arms, &s->base.loaded, e);
	a->replay_speedup = t->replay_speedup;
	a->request_rate = t->request_rate;
	return rc;
}

static void put_typed(struct jout *j)
{
	const char *const *words;
	int n = command_line(&words);
	for (int i = 0; i < n; i++) {
		if (strcmp(words[i], "--load") == 0)
			i++;
		else if (strncmp(words[i], "--load=", 7) != 0)
			jout_text(j, NULL, words[i]);
	}
}

static void put_option(struct jout *j, const char *name, const char *value)
{
	jout_text(j, NULL, name);
	jout_text(j, NULL, value);
}

/* What makes the simulated side of the executed one. */
static void put_simulation(struct jout *j, const struct validate_session *s, const struct run_settings *a)
{
	char value[128];
	put_option(j, "--backend", "sim");
	if (s->profile.id)
		snprintf(value, sizeof value, "profiled:%lld", (long long)s->profile.id);
	put_option(j, "--cost-model", s->profile.id ? value : s->cost);
	put_option(j, "--device", a->device ? a->device : run_backend_names[a->backend]);
	if (a->num_gpu_blocks_override) {
		snprintf(value, sizeof value, "%d", (int)a->num_gpu_blocks_override);
		put_option(j, "--num-gpu-blocks-override", value);
	}
}

/* The command line of one run, by which it can be had again: as typed, without --load but with the speed that came of it. */
static int keep_arguments(struct validate_session *s, int32_t arm, bool loaded, bool simulated, const char **out,
			  struct err *e)
{
	const struct trace_opts *t = &s->opts.run.trace;
	const struct run_settings *a = &s->base.arms.at[arm].s;
	bool rate = t->request_rate > 0;
	char value[40], *text = NULL;
	struct jout j;
	jout_open(&j, NULL);
	jout_begin(&j, NULL, '[');
	put_typed(&j);
	snprintf(value, sizeof value, "%.17g", rate ? t->request_rate : t->replay_speedup);
	if (loaded)
		put_option(&j, rate ? "--request-rate" : "--replay-speedup", value);
	if (simulated)
		put_simulation(&j, s, a);
	jout_end(&j, ']');
	int rc = jout_close(&j, &text, e);
	if (rc)
		return rc;
	*out = s->arguments[s->n_arguments++] = text;
	return ERR_NONE;
}

struct told {
	struct progress bar;
	const char *label;
	char text[160];
	char what[64];
	bool on;
};

static void tell(void *ctx, const char *what, double share)
{
	struct told *t = ctx;
	if (strcmp(t->what, what) != 0) {
		progress_end(&t->bar);
		snprintf(t->what, sizeof t->what, "%s", what);
		snprintf(t->text, sizeof t->text, "%.90s: %.60s", t->label, what);
		progress_begin(&t->bar, t->text, t->on);
	}
	progress_update(&t->bar, (int64_t)(share * 100), 100);
}

static void complain(struct validate_session *s, const char *label, const struct err *e)
{
	struct err named = {.code = e->code};
	if (e->code == ERR_NONE)
		return;
	snprintf(named.text, sizeof named.text, "%s: %.900s", label, e->text);
	int status = command_fail(s->base.command, &named);
	if (s->base.status == 0)
		s->base.status = status;
}

static int validate_one(struct validate_session *s, int32_t arm, double load, struct err *e)
{
	struct run_settings *a = &s->base.arms.at[arm].s;
	int rc = load > 0 ? set_load(s, arm, load, e) : ERR_NONE;
	if (rc == ERR_NONE)
		rc = keep_arguments(s, arm, load > 0, false, &a->arguments, e);
	if (rc)
		return rc;
	a->arm = arm;
	a->started_unix_s = (int64_t)time(NULL);
	struct validate_setup setup = setup_of(s, arm);
	if (a->model) /* else it is the weights that say what is simulated, and only an executor reads them */
		rc = keep_arguments(s, arm, load > 0, true, &setup.simulated.arguments, e);
	if (rc == ERR_NONE)
		rc = label_simulated(s, a->label, &setup.simulated.label, e);
	if (rc)
		return rc;
	setup.load = load;
	setup.capacity = s->capacity[arm];
	struct told told = {.label = a->label, .on = !s->quiet};
	const struct validate_io io = {
		.stop = stop_flag(), .progress = tell, .ctx = &told, .store = s->base.store, .executor = s->executor};
	struct validate_result *r = &s->results[s->n_results];
	rc = validate_policy(&setup, &s->base.loaded.workload, &io, r, e);
	progress_end(&told.bar);
	if (rc)
		return rc;
	s->n_results++;
	complain(s, a->label, &r->executed.store_err);
	complain(s, a->label, &r->simulated.store_err);
	complain(s, a->label, &r->store_err);
	if (!validate_passed(r) && s->base.status == 0)
		s->base.status = 1;
	return ERR_NONE;
}

void validate_session_run(struct validate_session *s,
			  void (*show)(const struct validate_session *s, const struct validate_result *r))
{
	for (int32_t l = 0; l < s->n_loads; l++) {
		for (int32_t i = 0; i < s->base.arms.n && !*stop_flag(); i++) {
			struct err e = {0};
			int32_t before = s->n_results;
			int rc = validate_one(s, i, s->load[l], &e);
			if (rc)
				complain(s, s->base.arms.at[i].s.label, &e);
			if (s->n_results > before && show)
				show(s, &s->results[before]);
			if (rc == ERR_MEMORY)
				return;
		}
	}
	if (*stop_flag())
		s->base.status = 130;
}
