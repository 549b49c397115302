/* lockstep validate: the same workload executed and simulated, and how well they agree. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/executor.h"
#include "analysis/jout.h"
#include "analysis/store.h"
#include "analysis/text.h"
#include "analysis/validate.h"
#include "cli/command.h"
#include "cli/run_opts.h"
#include "cli/validate_session.h"
#include "core/err.h"
#include "core/mem.h"

#define RUN_OPTS_STRUCT struct validate_opts
static const struct opt opts[] = {
	{.name = "policies",
	 .type = OPT_STRING,
	 .offset = offsetof(struct validate_opts, run.policies),
	 .arg = "NAME[:PARAM=VALUE,...],...",
	 .alias = "policy",
	 .help = "The policies to validate: see `lockstep policies`, or ./mine.so, a plug-in. Default "
		 "naive,continuous,chunked."},
	{.name = "repeats",
	 .type = OPT_INT32,
	 .offset = offsetof(struct validate_opts, repeats),
	 .arg = "N",
	 .min = 1,
	 .max = VALIDATE_EXECUTIONS,
	 .help = "How often each workload is executed: the first time it decides, then it decides the same, so that "
		 "the "
		 "executor's own spread is known. 1: no spread. Default 2."},
	{.name = "spread-budget",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct validate_opts, spread_budget),
	 .arg = "S",
	 .min = 0,
	 .max = 1e9,
	 .help = "Seconds that each execution after the first may take: it stops before the step that would not fit, "
		 "and the "
		 "steps left are taken to differ as those before did. 0: all of it. Default: a tenth of what the first "
		 "took, 2 to 20."},
	{.name = "load",
	 .type = OPT_STRING,
	 .offset = offsetof(struct validate_opts, loads),
	 .arg = "SHARE[,SHARE...]",
	 .help = "Plays the trace so fast that this share of what can be served arrives: 0.3 is light, 0.7 busy, 1.2 "
		 "overload. What can be served is what each policy serves, as simulated, when all requests are there "
		 "at "
		 "once. Default: the trace's own speed."},
	{.name = "max-error",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct validate_opts, max_error),
	 .arg = "PERCENT",
	 .min = 0,
	 .max = 1e6,
	 .help = "Exit status 1 when step times (MAPE), a request time (mean, p50, p90, p99) or a throughput is "
		 "further off "
		 "than that and than the executor's own spread of the same figure. Default: no limit."},
	{.name = "report",
	 .type = OPT_STRING,
	 .offset = offsetof(struct validate_opts, report),
	 .arg = "FILE.md",
	 .help = "Also writes a Markdown page, with its plots as SVG files beside it."},
	{.name = "profile-budget",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct validate_opts, profile_budget),
	 .arg = "S",
	 .min = 0.01,
	 .max = 1e6,
	 .help = "Seconds to measure this machine for, where --cost-model is profiled (the default here) and the "
		 "database "
		 "has no profile of it that reaches as far as the workload. Default: a twelfth of what executing will "
		 "take by the roofline, 10 to 60."},
	RUN_OPTS,
};

/* --- what is said ------------------------------------------------------------------------------------------------- */

static void put_span(FILE *f, double s)
{
	if (s >= 120)
		fprintf(f, "%.0f min %.0f s", floor(s / 60), fmod(s, 60));
	else
		fprintf(f, "%.3g s", s);
}

static void print_plan(const struct validate_session *s)
{
	const struct validate_opts *o = &s->opts;
	double total = 0;
	char a[TEXT_NUMBER];
	session_print_workload(stdout, &s->base);
	printf("Executor  %s, %s\n", s->executor->what, s->executor->weights_what);
	if (!s->executor->setup.kv_off)
		printf("          %s KV blocks of %d tokens\n", text_count(s->executor->setup.num_blocks, a),
		       (int)s->executor->setup.block_size);
	printf("Simulator %s\n", s->cost_what);
	for (int32_t i = 0; i < s->base.arms.n; i++) {
		double once = s->estimate_s[i], most = o->spread_budget, again = once;
		if (most < 0)
			most = once < 20 ? 2 : once > 200 ? 20 : once / 10;
		if (most > 0 && most < once)
			again = most;
		total += (once + again * (o->repeats - 1)) * s->n_loads;
	}
	fputs("Executing takes about ", stdout);
	put_span(stdout, total);
	printf(" (%d time%s each, %s", (int)o->repeats, o->repeats == 1 ? "" : "s",
	       o->repeats > 1 && o->spread_budget != 0 ? "the first in full" : "in full");
	if (s->n_loads > 1)
		printf(", %d loads", (int)s->n_loads);
	for (int32_t i = 0; i < s->base.arms.n; i++) {
		printf("%s%s ", i ? ", " : ": ", s->base.arms.at[i].s.label);
		put_span(stdout, s->estimate_s[i]);
	}
	puts(").");
	if (o->run.check)
		puts("NOTE: --check takes time: step times will not be those of runs without it.");
	fflush(stdout);
}

static void show(const struct validate_session *s, const struct validate_result *r)
{
	(void)s;
	putchar('\n');
	validate_print(stdout, r);
	fflush(stdout);
}

static void print_end(const struct validate_session *s)
{
	int64_t first = 0, last = 0;
	for (int32_t i = 0; i < s->n_results; i++) {
		if (!s->results[i].id)
			continue;
		first = first ? first : s->results[i].id;
		last = s->results[i].id;
	}
	putchar('\n');
	if (*stop_flag())
		puts("Interrupted: the figures are of what was done until then.");
	if (first && first == last)
		printf("Stored as validation %" PRId64 " in %s.\n", first, store_path(s->base.store));
	else if (first)
		printf("Stored as validations %" PRId64 " to %" PRId64 " in %s.\n", first, last,
		       store_path(s->base.store));
	if (s->opts.report && s->n_results)
		printf("Report: %s\n", s->opts.report);
}

static int print_json(const struct validate_session *s, struct err *e)
{
	struct validate_machine m;
	struct jout j;
	char hash[24];
	validate_machine(&m);
	snprintf(hash, sizeof hash, "%016" PRIx64, s->base.arms.at[0].s.workload_hash);
	jout_open(&j, stdout);
	jout_begin(&j, NULL, '{');
	jout_begin(&j, "policies", '[');
	for (int32_t i = 0; i < s->n_results; i++)
		validate_put_json(&j, &s->results[i]);
	jout_end(&j, ']');
	jout_bool(&j, "interrupted", *stop_flag() != 0);
	jout_text(&j, "model", s->base.arms.at[0].s.model);
	jout_text(&j, "cost_model", s->cost_what);
	jout_text(&j, "workload_hash", hash);
	jout_text(&j, "executor", s->executor->what);
	jout_begin(&j, "machine", '{');
	jout_text(&j, "cpu", m.cpu);
	jout_int(&j, "cpus", m.cpus);
	jout_real(&j, "memory_bytes", m.memory_bytes);
	jout_text(&j, "os", m.os);
	jout_end(&j, '}');
	jout_end(&j, '}');
	char *none;
	int rc = jout_close(&j, &none, e);
	putchar('\n');
	return rc;
}

/* Quoted for a shell where it has to be. */
static void append_word(char *line, size_t size, const char *word)
{
	size_t n = strlen(line);
	bool plain =
		*word && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.,:/+@%") ==
				 strlen(word);
	snprintf(line + n, size - n, plain ? " %s" : " '%s'", word);
}

static int write_report(const struct validate_session *s, struct err *e)
{
	const struct workload *w = &s->base.loaded.workload;
	const char *const *words;
	char command[2048] = "lockstep", workload[512], a[TEXT_NUMBER], b[TEXT_NUMBER], c[TEXT_NUMBER];
	int64_t in = 0, out = 0;
	for (int i = 0, n = command_line(&words); i < n; i++)
		append_word(command, sizeof command, words[i]);
	for (int64_t i = 0; i < w->n; i++) {
		in += w->specs[i].prompt_tokens;
		out += w->specs[i].output_tokens;
	}
	const char *name = trace_opts_name(&s->opts.run.trace), *slash = strrchr(name, '/');
	snprintf(workload, sizeof workload, "%.200s: %s requests, %s prompt and %s output tokens",
		 slash ? slash + 1 : name, text_count(w->n, a), text_count(in, b), text_count(out, c));
	const struct validate_report report = {.path = s->opts.report,
					       .command = command,
					       .workload = workload,
					       .cost = s->cost_what,
					       .results = s->results,
					       .n = s->n_results};
	return validate_write_report(&report, e);
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static int parse(const struct command *c, int argc, char **argv, struct validate_opts *o, struct err *e)
{
	int n;
	*o = (struct validate_opts){.repeats = 2, .max_error = -1, .spread_budget = -1};
	run_opts_default(&o->run);
	o->run.policies = "naive,continuous,chunked";
	o->run.texts.backend = "cpu";
	int rc = opts_parse(opts, c->n_opts, o, argc, argv, &n, NULL, e);
	return rc ? rc : session_positional(&o->run, n, argv, e);
}

static int describe(const struct command *c, int argc, char **argv, struct run_opts *out, bool *several, struct err *e)
{
	struct validate_opts o;
	int rc = parse(c, argc, argv, &o, e);
	/* The simulated side: nothing is left of what only real kernels have. */
	if (rc == ERR_NONE && strcmp(o.run.texts.backend, "sim") == 0) {
		struct run_texts *t = &o.run.texts;
		t->weights = t->threads = t->isa = t->time = t->kv_cache_memory_bytes = t->enforce_eager = NULL;
		t->batch_invariant = t->ignore_eos = t->temperature = t->top_k = t->top_p = NULL;
	}
	*out = o.run;
	*several = true;
	return rc;
}

static int finish(struct validate_session *s)
{
	struct err e = {0};
	const struct run_opts *o = &s->opts.run;
	int rc = s->opts.report && s->n_results ? write_report(s, &e) : ERR_NONE;
	if (rc == ERR_NONE && o->json)
		rc = print_json(s, &e);
	else if (!o->json && !o->quiet)
		print_end(s);
	return rc ? command_fail(s->base.command, &e) : s->base.status;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct validate_opts o;
	struct validate_session s;
	struct err e = {0};
	if (parse(c, argc, argv, &o, &e) != ERR_NONE)
		return command_fail(c, &e);
	bool text = !o.run.quiet && !o.run.json;
	if (validate_session_begin(&s, c, &o)) {
		if (text)
			print_plan(&s);
		validate_session_run(&s, text ? show : NULL);
		s.base.status = finish(&s);
	}
	int status = s.base.status;
	validate_session_free(&s);
	return status;
}

const struct command cmd_validate = {
	.name = "validate",
	.synopsis = "[OPTIONS] --model MODEL [--dataset-path] FILE",
	.summary = "Execute a trace on real kernels, simulate it, and say how well they agree",
	.about = "For each policy the workload is executed on this machine's kernels and everything the scheduler took "
		 "from them is recorded. Then: does the recording give the same decisions and block tables again? What "
		 "would the cost model have said each executed step takes? How far is the executor from itself when it "
		 "executes the same decisions once more? And what does the simulator say of the same workload, with "
		 "the same memory, deciding by its own clock?\n\n"
		 "Errors are (simulated / measured - 1) in percent, beside each the executor's own spread. Step times "
		 "are split by what steps do and by what they spend their time on, because errors cancel in sums. "
		 "docs/validation.md says what each figure means.\n\n"
		 "Unless --cost-model says otherwise, predictions come from a profile of this machine; it is measured "
		 "first where the database has none that fits. Other load on the machine spoils all of it: a note says "
		 "when there was any.\n\n"
		 "Exit status: 0 when decisions and memory are identical and nothing is beyond --max-error, 1 when not "
		 "or when a run failed, 2 when the input is wrong, 130 when interrupted (what was done until then is "
		 "printed and stored).",
	.examples = "# three policies, random weights, ten minutes at most\n"
		    "lockstep validate --backend cpu --model tinyllama-1.1b --weights random:1 --num-prompts 20 \\\n"
		    "    --length-scale 0.25 AzureLLMInferenceTrace_conv.csv\n"
		    "# light, busy and overloaded, with a page to keep\n"
		    "lockstep validate --model llama-110m --num-prompts 100 --load 0.3,0.7,1.5 --report loads.md "
		    "trace.csv\n"
		    "# for a script: within 5 % or the executor's own spread\n"
		    "lockstep validate --model llama-110m --num-prompts 40 --max-error 5 --json trace.csv\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
	.describe = describe,
};
