/* slices.c: every registered policy on the beginnings of two real traces, compared with tests/golden/POLICY-TRACE.log: the
 * first lines of its decision log, then a hash over all of it so far every thousand lines, so that a difference is found near
 * where it is and the files stay small. Skipped where the traces are not there; `make golden-update` writes the logs anew:
 * read the diff before you commit it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/decisions.h"
#include "analysis/run.h"
#include "core/err.h"
#include "policies/registry.h"
#include "tests/support/golden.h"
#include "tests/support/suite.h"
#include "traces/reader.h"
#include "traces/shape.h"

enum { FIRST_LINES = 120, EVERY = 1000 };

struct slice {
	const char *name, *path;
	int64_t requests;
	int32_t num_blocks; /* so few that requests wait and some are preempted */
};

static const struct slice slices[] = {
	{"azure", "traces/AzureLLMInferenceTrace_conv.csv", 400, 1500},
	{"mooncake", "traces/mooncake_conversation.jsonl", 120, 12000},
};

/* Not every policy goes with prefix caching, or with a budget below the longest prompt: the first that is taken. */
static const struct settings {
	const char *params;
	bool prefix_caching;
	int32_t budget;
} settings[] = {{NULL, true, 4096},   {"paged=on", true, 4096}, {"pad=off,reserve=off", true, 4096},
		{NULL, true, 200000}, {NULL, false, 4096},      {NULL, false, 200000}};

struct log {
	FILE *f;
	struct decision_hash hash;
};

static void on_event(void *ctx, const struct event *ev)
{
	struct log *l = ctx;
	char line[DECISION_LINE];
	decision_hash_add(&l->hash, ev);
	if (l->hash.n <= FIRST_LINES)
		fputs(decision_line(ev, line), l->f);
	else if (l->hash.n % EVERY == 0)
		fprintf(l->f, "line %lld, step %lld: %016llx\n", (long long)l->hash.n, (long long)ev->step,
			(unsigned long long)decision_hash_value(&l->hash));
}

static bool load(const char *path, const struct slice *s, struct workload *w)
{
	struct trace_options o;
	struct shape shape;
	struct err e = {0};
	workload_init(w);
	trace_options_init(&o);
	shape_default(&shape);
	shape.num_prompts = s->requests;
	shape.replay_speedup = 4;
	if (trace_load(path, &o, w, NULL, &e) == ERR_NONE && shape_apply(w, &shape, &e) == ERR_NONE) {
		workload_set_max_tokens(w, MAX_TOKENS_MAX, 1024);
		return true;
	}
	printf("FAILED %s: %s\n", path, e.text);
	return false;
}

/* The log as text, the caller's to free. */
static char *log_of(const struct policy_desc *d, const struct slice *sl, const struct workload *w)
{
	char *text = NULL;
	size_t size = 0;
	int rc = ERR_INPUT;
	for (size_t i = 0; rc == ERR_INPUT && i < sizeof settings / sizeof settings[0]; i++) {
		struct run_settings s;
		struct run_result r = {0};
		struct err e = {0};
		free(text);
		struct log l = {.f = open_memstream(&text, &size)};
		if (!l.f)
			exit(1);
		run_settings_default(&s);
		s.policy = d->name;
		s.policy_params = settings[i].params;
		s.cost = "linear:a=5ms,b=30us,c=100us,d=10ns";
		s.num_gpu_blocks_override = sl->num_blocks;
		s.engine.max_num_seqs = 32;
		s.engine.max_num_batched_tokens = settings[i].budget;
		s.engine.prefix_caching = settings[i].prefix_caching;
		const struct run_io io = {.ctx = &l, .event = on_event};
		fprintf(l.f, "policy %s, %lld requests of %s, params %s, prefix caching %s, budget %d, %d blocks\n",
			d->name, (long long)w->n, sl->name, s.policy_params ? s.policy_params : "default",
			s.engine.prefix_caching ? "on" : "off", s.engine.max_num_batched_tokens, sl->num_blocks);
		rc = run_execute(&s, w, &io, &r, &e);
		if (!rc && r.stats.rejected * 4 > w->n) /* a budget for few of these prompts: another shows more */
			rc = ERR_INPUT;
		fprintf(l.f,
			"%lld lines, %lld steps: %016llx; %lld finished, %lld rejected, %lld preemptions, %lld tokens "
			"from the cache\n",
			(long long)l.hash.n, (long long)r.stats.steps, (unsigned long long)decision_hash_value(&l.hash),
			(long long)r.stats.finished, (long long)r.stats.rejected, (long long)r.stats.preemptions,
			(long long)r.stats.prefix_hit_tokens);
		if (rc)
			fprintf(l.f, "ended with: %s\n", e.text);
		fclose(l.f);
		run_result_free(&r);
	}
	return text;
}

int main(int argc, char **argv)
{
	bool update = argc > 1 && strcmp(argv[1], "--update") == 0;
	int passed = 0, failed = 0, skipped = 0;
	for (size_t k = 0; k < sizeof slices / sizeof slices[0]; k++) {
		const char *path = shared_data(slices[k].path);
		struct workload w;
		if (!path) {
			skipped++;
			continue;
		}
		if (!load(path, &slices[k], &w)) {
			failed++;
			continue;
		}
		for (int32_t i = 0; i < policy_count(); i++) {
			if (test_short() && !update && (size_t)i % 2 != k % 2)
				continue; /* each policy sees one of them */
			char log[256], *text = log_of(policy_at(i), &slices[k], &w);
			snprintf(log, sizeof log, "tests/golden/%s-%s.log", policy_at(i)->name, slices[k].name);
			*(golden_holds(log, text, update) ? &passed : &failed) += 1;
			free(text);
		}
		workload_free(&w);
	}
	printf("slices: %d passed, %d failed, %d skipped\n", passed, failed, skipped);
	return failed != 0;
}
