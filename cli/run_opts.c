#include "cli/run_opts.h"

#include <stdio.h>
#include <string.h>

#include "analysis/fleet.h"
#include "analysis/plugin.h"
#include "core/err.h"
#include "core/mem.h"
#include "policies/orders.h"
#include "policies/registry.h"

const char *const onoff_names[] = {"on", "off", NULL};
const char *const hit_visible_names[] = {"alloc", "commit", NULL};

/* The same rows as on the command line, each for one value. */
/* clang-format off */
#define ARM_ROW(field, text, name_, type_, form, arg_, min_, max_, choices_, help_) \
	{.name = name_, .type = type_, .offset = offsetof(struct arm, field), .arg = arg_, .min = min_, .max = max_, \
	 .choices = choices_},
#define TEXT_ROW(field, text, name, type, form, arg, min, max, choices, help) offsetof(struct run_texts, text),
/* clang-format on */
static const struct opt arm_opts[] = {RUN_DIMENSIONS(ARM_ROW)};
static const size_t text_offsets[] = {RUN_DIMENSIONS(TEXT_ROW)};
#define N_DIMENSIONS ((int32_t)(sizeof arm_opts / sizeof *arm_opts))

void run_opts_default(struct run_opts *o)
{
	*o = (struct run_opts){.db = "lockstep.db", .record = RECORD_REQUESTS};
	trace_opts_default(&o->trace);
}

/* The values of one dimension: texts[first .. first + n). */
struct values {
	int64_t first;
	int32_t n;
};

/* "linear:a=1,b=2,constant:5": a piece with '=' but without ':' before it belongs to the piece before. */
static size_t value_length(const char *text)
{
	size_t n = strcspn(text, ",");
	if (!memchr(text, ':', n))
		return n;
	while (text[n] == ',') {
		const char *next = text + n + 1;
		size_t len = strcspn(next, ","), equals = strcspn(next, "=,"), colon = strcspn(next, ":=,");
		if (next[equals] != '=' || next[colon] == ':')
			break;
		n += 1 + len;
	}
	return n;
}

static int split(struct arms *a, const char *name, const char *text, struct values *v, struct err *e)
{
	v->first = a->n_texts;
	v->n = 0;
	for (bool more = true; more;) {
		size_t n = value_length(text);
		more = text[n] == ',';
		if (n == 0)
			return err_set(e, ERR_INPUT, "--%s: a value is missing", name);
		if (mem_grow((void **)&a->texts, &a->cap_texts, a->n_texts + 1, sizeof *a->texts) != 0)
			return err_no_memory(e, "options");
		char *one = mem_strndup(text, n);
		if (!one)
			return err_no_memory(e, "options");
		a->texts[a->n_texts++] = one;
		for (int64_t i = v->first; i < a->n_texts - 1; i++)
			if (strcmp(a->texts[i], one) == 0)
				return err_set(e, ERR_INPUT, "--%s: %s is listed twice", name, one);
		v->n++;
		text += n + more;
	}
	return ERR_NONE;
}

static bool policy_has(const struct policy_desc *d, const char *param)
{
	for (int32_t i = 0; i < d->n_params; i++)
		if (strcmp(d->params[i].name, param) == 0)
			return true;
	return false;
}

/* A vLLM flag that is a parameter of some policies here: given to those that have it. */
static int append_param(struct arm *arm, const struct policy_desc *d, const char *param, const char *value,
			struct err *e)
{
	if (!value || !policy_has(d, param))
		return ERR_NONE;
	const char *before = arm->params ? arm->params : "";
	size_t size = strlen(before) + strlen(param) + strlen(value) + 3;
	char *text = mem_alloc(size);
	if (!text)
		return err_no_memory(e, "options");
	snprintf(text, size, "%s%s%s=%s", before, *before ? "," : "", param, value);
	mem_free(arm->params);
	arm->params = text;
	return ERR_NONE;
}

/* An arm that is not going to be run: another of a stored command line. */
static int name_policy(struct arm *arm, const char *text, struct err *e)
{
	arm->policy = mem_strndup(text, (size_t)plugin_name_length(text));
	arm->s.policy = arm->policy;
	return arm->policy ? ERR_NONE : err_no_memory(e, "options");
}

/* "chunked:watermark=0.01" -> name and parameters, both checked. where: the plug-in is there and not where it says; or NULL. */
static int set_policy(struct arm *arm, const char *text, const char *where, struct err *e)
{
	size_t n = (size_t)plugin_name_length(text);
	arm->policy = mem_strndup(text, n);
	if (!arm->policy || (text[n] && !(arm->params = mem_strdup(text + n + 1))))
		return err_no_memory(e, "options");
	const struct policy_desc *d;
	int rc = policy_or_plugin(&d, where ? where : arm->policy, e);
	if (rc == ERR_NONE)
		rc = append_param(arm, d, "enable_chunked_prefill", arm->chunked_prefill, e);
	if (rc == ERR_NONE)
		rc = append_param(arm, d, "long_prefill_token_threshold", arm->long_prefill, e);
	if (rc != ERR_NONE)
		return rc;
	union policy_value *values = mem_zalloc((size_t)d->n_params + 1, sizeof *values);
	if (!values)
		return err_no_memory(e, "policy parameters");
	rc = policy_parse_params(d, arm->params, values, e);
	mem_free(values);
	const struct plugin *plugin = plugin_of(d);
	arm->s.policy = plugin ? d->name : arm->policy;
	arm->s.policy_path = plugin ? plugin->path : NULL;
	arm->s.policy_digest = plugin ? plugin->digest : NULL;
	arm->s.policy_params = arm->params;
	return rc;
}

/* Which backends know a flag, as bits. */
enum { ON_CPU = 1 << BACKEND_CPU, ON_CUDA = 1 << BACKEND_CUDA, ON_KERNELS = ON_CPU | ON_CUDA };

/* The same of what only real kernels have. */
static int check_kernels_used(const struct arms *a, const struct run_opts *o, struct err *e)
{
	const struct run_texts *t = &o->texts;
	const struct {
		const char *flag, *given;
		int on;
	} flags[] = {{"weights", t->weights, ON_KERNELS},
		     {"threads", t->threads, ON_CPU},
		     {"isa", t->isa, ON_CPU},
		     {"time", t->time, ON_KERNELS},
		     {"kv-cache-memory-bytes", t->kv_cache_memory_bytes, ON_KERNELS},
		     {"kv-offload-dir", t->kv_offload_dir, ON_KERNELS},
		     {"enforce-eager", t->enforce_eager, ON_CUDA},
		     {"batch-invariant", t->batch_invariant, ON_CPU},
		     {"ignore-eos", t->ignore_eos, ON_KERNELS},
		     {"temperature", t->temperature, ON_KERNELS},
		     {"top-k", t->top_k, ON_KERNELS},
		     {"top-p", t->top_p, ON_KERNELS}};
	int used = 0;
	for (int32_t i = 0; i < a->n; i++)
		used |= 1 << a->at[i].s.backend;
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (flags[i].given && !(flags[i].on & used))
			return err_set(e, ERR_INPUT, "--%s goes with --backend %s", flags[i].flag,
				       flags[i].on == ON_CPU    ? "cpu"
				       : flags[i].on == ON_CUDA ? "cuda"
								: "cpu or cuda");
	return ERR_NONE;
}

static const char *arm_policy(const struct arm *a)
{
	return a->s.policy_path ? a->s.policy_path : a->policy;
}

/* A flag that no policy of this command takes would be silently without effect. */
static int check_param_used(const struct arms *a, const char *flag, const char *param, bool given, struct err *e)
{
	const struct policy_desc *d;
	for (int32_t i = 0; given && i < a->n; i++)
		if (policy_or_plugin(&d, arm_policy(&a->at[i]), e) == ERR_NONE && policy_has(d, param))
			given = false;
	if (!given)
		return ERR_NONE;
	return err_set(e, ERR_INPUT, "--%s has no meaning for %s: `lockstep policies` lists what each policy takes",
		       flag, a->n == 1 ? a->at[0].policy : "any of these policies");
}

static void label_add(char *label, size_t size, const char *a, const char *b, const char *c)
{
	size_t used = strlen(label);
	snprintf(label + used, size - used, "%s%s%s%s", used ? " " : "", a, b, c);
}

static size_t file_at(const char *text, size_t len)
{
	while (len > 0 && text[len - 1] != '/')
		len--;
	return len;
}

/* A policy's place in a label: its name (of a plug-in mine.so that calls itself mine just that, if there is no other mine.so in
 * the list), or all that was typed where one name comes with different parameters. */
static void label_policy(char *label, size_t size, const struct arms *a, const struct values *v, const char *text,
			 const struct arm *arm)
{
	size_t len = (size_t)plugin_name_length(text), from = file_at(text, len);
	int32_t same = 0, files = 0;
	for (int32_t i = 0; i < v->n; i++) {
		const char *other = a->texts[v->first + i];
		size_t other_len = (size_t)plugin_name_length(other), other_from = file_at(other, other_len);
		same += other_len == len && strncmp(other, text, len) == 0;
		files += other_len - other_from == len - from &&
			 strncmp(other + other_from, text + from, len - from) == 0;
	}
	char name[256];
	snprintf(name, sizeof name, "%.*s", (int)len, text);
	size_t named = strlen(arm->s.policy);
	if (same == 1 && files == 1 && arm->s.policy_path && strncmp(text + from, arm->s.policy, named) == 0 &&
	    (from + named == len || text[from + named] == '.'))
		snprintf(name, sizeof name, "%s", arm->s.policy);
	label_add(label, size, same > 1 ? text : name, "", "");
}

static int check_hardware(const struct run_settings *s, struct err *e)
{
	if (s->tensor_parallel != 1 && s->backend != BACKEND_SIM)
		return err_set(e, ERR_INPUT, "--tensor-parallel-size %d: real kernels run on one device",
			       s->tensor_parallel);
	if ((s->replicas > 1 || s->router) && s->backend != BACKEND_SIM)
		return err_set(e, ERR_INPUT,
			       "--replicas and --router: real kernels serve as one; several replicas are simulated");
	if (run_backend_executes(s->backend)) {
		if (s->model || s->weights)
			return ERR_NONE;
		return err_set(
			e, ERR_INPUT,
			"what is to be run? Give --model (`lockstep capacity --list` names them; its weights are "
			"then random), or --weights that say what they are of");
	}
	bool modelled = !s->cost || strncmp(s->cost, "roofline", 8) == 0;
	if (!modelled || (s->model && s->device))
		return ERR_NONE;
	return err_set(e, ERR_INPUT,
		       "what serves the trace? Give --model and --device (`lockstep capacity --list` names them), for "
		       "instance --model llama-3.1-8b --device h100-sxm");
}

/* Of several retentions compared, each takes what is its own of the window and the sinks. */
static void trim_retention(struct engine_config *c)
{
	if (c->kv_retention == RETAIN_FULL)
		c->kv_window = 0;
	if (c->kv_retention != RETAIN_SINK_WINDOW)
		c->kv_sink = 0;
}

/* What goes by predicted lengths is told how they are guessed: by default all requests would look alike. */
static int set_predictor(struct arm *arm, struct err *e)
{
	const struct engine_config *c = &arm->s.engine;
	if (arm->predictor)
		return predict_parse(&arm->s.engine.predictor, arm->predictor, e);
	if (!engine_config_predicts(c))
		return ERR_NONE;
	return err_set(e, ERR_INPUT,
		       "--%s %s goes by predicted output lengths: say how they are guessed, --predictor "
		       "oracle, noisy:SIGMA, mean or max",
		       c->queue_order == QUEUE_SJF ? "scheduling-policy" : "victim",
		       c->queue_order == QUEUE_SJF ? "sjf" : "longest-left");
}

static int check_predictor_used(const struct arms *a, struct err *e)
{
	bool used = !a->at[0].predictor;
	for (int32_t i = 0; i < a->n; i++)
		used |= engine_config_predicts(&a->at[i].s.engine);
	if (used)
		return ERR_NONE;
	return err_set(e, ERR_INPUT,
		       "--predictor goes with --scheduling-policy sjf or --victim longest-left: nothing "
		       "else goes by predicted lengths");
}

/* How many replicas there are, and the first one's device, which stands for the run where one has to. */
static int set_fleet(struct arm *arm, struct err *e)
{
	struct run_settings *s = &arm->s;
	if (s->replicas > 1 || s->device)
		return err_set(e, ERR_INPUT, "--fleet says how many replicas there are and of what: without --%s",
			       s->device ? "device" : "replicas");
	struct fleet *f = mem_zalloc(1, sizeof *f);
	if (!f)
		return err_no_memory(e, "options");
	int rc = fleet_parse(f, s->fleet, s, e);
	if (rc == ERR_NONE) {
		s->replicas = f->replicas;
		s->device = arm->device = mem_strdup(f->groups[0].settings.device);
		rc = s->device ? ERR_NONE : err_no_memory(e, "options");
	}
	if (!s->router)
		s->router = "round_robin";
	mem_free(f);
	return rc;
}

/* Arm number k of the cross product. */
static int make_arm(struct arms *a, int32_t k, const struct run_opts *o, const struct values *policies,
		    const struct values *dims, struct err *e)
{
	struct arm *arm = &a->at[k];
	const struct stored_plugin *stored = o->stored.path && k == o->stored.arm ? &o->stored : NULL;
	bool other = o->stored.path && k != o->stored.arm;
	char label[256] = "", whole[512] = "";
	int32_t pick[N_DIMENSIONS + 1];
	bool retentions = false;
	for (int32_t i = N_DIMENSIONS - 1; i >= 0; i--) {
		pick[i] = dims[i].n ? k % dims[i].n : 0;
		k /= dims[i].n ? dims[i].n : 1;
	}
	const char *policy = a->texts[policies->first + k];
	run_settings_default(&arm->s);
	arm->kv_cache = !arm->s.engine.kv_off;
	arm->cache_generated = !arm->s.engine.cache_prompts_only;
	for (int32_t i = 0; i < N_DIMENSIONS; i++) {
		if (dims[i].n == 0)
			continue;
		const char *text = a->texts[dims[i].first + pick[i]];
		if (opt_set(&arm_opts[i], text, arm, e) != ERR_NONE)
			return ERR_INPUT;
		if (dims[i].n > 1)
			label_add(label, sizeof label, arm_opts[i].name, "=", text);
		retentions |= dims[i].n > 1 && strcmp(arm_opts[i].name, "kv-retention") == 0;
	}
	arm->s.engine.kv_off = !arm->kv_cache;
	arm->s.engine.cache_prompts_only = !arm->cache_generated;
	arm->s.router_stale_ns = (int64_t)(arm->router_staleness * 1e6);
	if (arm->s.replicas > 1 && !arm->s.router)
		arm->s.router = "round_robin";
	if (arm->router_staleness > 0 && !arm->s.router && !arm->s.fleet)
		return err_set(e, ERR_INPUT, "--router-staleness %g: there is no router without --replicas",
			       arm->router_staleness);
	if (retentions)
		trim_retention(&arm->s.engine);
	int rc = other ? name_policy(arm, policy, e) : set_policy(arm, policy, stored ? stored->path : NULL, e);
	if (rc == ERR_NONE && arm->scheduling_policy)
		rc = order_parse(&arm->s.engine.queue_order, &arm->s.engine.order, arm->scheduling_policy, e);
	if (rc == ERR_NONE)
		rc = set_predictor(arm, e);
	if (rc == ERR_NONE && arm->s.fleet)
		rc = set_fleet(arm, e);
	if (rc == ERR_NONE)
		rc = check_hardware(&arm->s, e);
	if (rc != ERR_NONE)
		return rc;
	if (policies->n > 1)
		label_policy(whole, sizeof whole, a, policies, policy, arm);
	snprintf(whole + strlen(whole), sizeof whole - strlen(whole), "%s%s", whole[0] && label[0] ? " " : "", label);
	arm->label = mem_strdup(whole[0] ? whole : arm->s.policy_path ? arm->s.policy : arm->policy);
	if (!arm->label)
		return err_no_memory(e, "options");
	arm->s.label = arm->label;
	return ERR_NONE;
}

int run_opts_reports(struct run_settings *s, const struct run_opts *o, struct err *e)
{
	s->engine.check = o->check;
	s->record = (enum run_record)o->record;
	s->save_detailed = o->save_detailed;
	for (int i = 0; i < o->goodput.n; i++)
		if (goodput_parse(&s->slo, o->goodput.at[i], e) != ERR_NONE)
			return e->code;
	if (o->metric_percentiles && percentiles_parse(&s->percentiles, o->metric_percentiles, e) != ERR_NONE)
		return e->code;
	return ERR_NONE;
}

/* What is the same for all arms. */
static int set_reports(struct arm *arm, const struct run_opts *o, struct err *e)
{
	struct run_settings *s = &arm->s;
	if (run_opts_reports(s, o, e) != ERR_NONE)
		return e->code;
	if (s->engine.queue_order == QUEUE_EDF && s->slo.ttft_ns <= 0)
		return err_set(e, ERR_INPUT,
			       "--scheduling-policy edf goes by when first tokens are due: give --goodput "
			       "ttft:MILLISECONDS");
	if (s->replicas > 1 && s->record == RECORD_STEPS)
		return err_set(e, ERR_INPUT, "--record steps: steps are kept of one replica alone, not of %d",
			       s->replicas);
	s->tokenizer = o->trace.tokenizer;
	s->num_prompts = o->trace.num_prompts;
	s->request_rate = o->trace.request_rate;
	s->burstiness = o->trace.burstiness;
	s->replay_speedup = o->trace.replay_speedup;
	s->length_scale = o->trace.length_scale;
	s->samples = o->trace.samples;
	s->beam_width = o->trace.beam_width;
	s->beam_every = o->trace.beam_every;
	s->max_tokens_mode = o->trace.max_tokens_mode;
	s->seed = o->trace.seed;
	s->engine.seed = o->trace.seed;
	s->sampling.seed = o->trace.seed;
	return ERR_NONE;
}

static int check_given(const struct run_opts *o, bool several, const struct values *dims, const struct values *policies,
		       struct err *e)
{
	if (!several && policies->n > 1)
		return err_set(e, ERR_INPUT, "--policy: one at a time; `lockstep compare --policies %s` runs several",
			       o->policies);
	for (int32_t i = 0; !several && i < N_DIMENSIONS; i++)
		if (dims[i].n > 1)
			return err_set(e, ERR_INPUT, "--%s: one value at a time; `lockstep compare` takes several",
				       arm_opts[i].name);
	return ERR_NONE;
}

int arms_make(struct arms *a, const struct run_opts *o, bool several, struct err *e)
{
	*a = (struct arms){0};
	struct values policies, dims[N_DIMENSIONS];
	int rc = split(a, several ? "policies" : "policy", o->policies, &policies, e);
	int64_t n = policies.n;
	for (int32_t i = 0; rc == ERR_NONE && i < N_DIMENSIONS; i++) {
		const char *text = *(const char *const *)((const char *)&o->texts + text_offsets[i]);
		dims[i] = (struct values){0};
		if (text)
			rc = split(a, arm_opts[i].name, text, &dims[i], e);
		n *= dims[i].n ? dims[i].n : 1;
		if (rc == ERR_NONE && n > ARMS_MAX)
			rc = err_set(e, ERR_INPUT, "these lists make more than %d runs: compare fewer at a time",
				     ARMS_MAX);
	}
	if (rc == ERR_NONE)
		rc = check_given(o, several, dims, &policies, e);
	if (rc != ERR_NONE)
		return rc;
	a->at = mem_zalloc((size_t)n, sizeof *a->at);
	if (!a->at)
		return err_no_memory(e, "runs");
	a->n = (int32_t)n;
	for (int32_t k = 0; rc == ERR_NONE && k < a->n; k++) {
		rc = make_arm(a, k, o, &policies, dims, e);
		if (rc == ERR_NONE)
			rc = set_reports(&a->at[k], o, e);
	}
	if (rc == ERR_NONE)
		rc = check_param_used(a, "enable-chunked-prefill", "enable_chunked_prefill",
				      o->texts.enable_chunked_prefill, e);
	if (rc == ERR_NONE)
		rc = check_param_used(a, "long-prefill-token-threshold", "long_prefill_token_threshold",
				      o->texts.long_prefill_token_threshold, e);
	if (rc == ERR_NONE)
		rc = check_predictor_used(a, e);
	if (rc == ERR_NONE)
		rc = check_kernels_used(a, o, e);
	return rc;
}

void arms_free(struct arms *a)
{
	for (int32_t i = 0; i < a->n; i++) {
		mem_free(a->at[i].policy);
		mem_free(a->at[i].params);
		mem_free(a->at[i].device);
		mem_free(a->at[i].label);
	}
	for (int64_t i = 0; i < a->n_texts; i++)
		mem_free(a->texts[i]);
	mem_free(a->texts);
	mem_free(a->at);
	*a = (struct arms){0};
}
