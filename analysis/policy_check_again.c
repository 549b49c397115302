/* How a failed check is had again: its workload as a file, and command lines. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/policy_check_internal.h"
#include "core/mem.h"
#include "policies/orders.h"
#include "policies/registry.h"

struct line {
	char text[3000];
	size_t n;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *l, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(l->text + l->n, sizeof l->text - l->n, fmt, ap);
	va_end(ap);
	l->n += n > 0 ? (size_t)n : 0;
	l->n = l->n < sizeof l->text ? l->n : sizeof l->text - 1;
}

/* As a shell reads it back. */
static void add_word(struct line *l, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
	if (*word && strspn(word, plain) == strlen(word)) {
		add(l, " %s", word);
		return;
	}
	add(l, " '");
	for (; *word; word++) {
		if (*word == '\'')
			add(l, "'\\''");
		else
			add(l, "%c", *word);
	}
	add(l, "'");
}

static void add_policy(struct line *l, const struct check_options *o, const struct random_case *c)
{
	char word[1500];
	char *params = policy_format_params(c->policy, c->values);
	snprintf(word, sizeof word, "%s%s%s", o->shown ? o->shown : c->policy->name, params && *params ? ":" : "",
		 params ? params : "");
	mem_free(params);
	add(l, " --policy");
	add_word(l, word);
}

static void add_memory(struct line *l, const struct engine_config *g)
{
	add(l, " --block-size %d --num-gpu-blocks-override %d", g->block_size, g->num_blocks);
	if (g->kv_off)
		add(l, " --kv-cache off");
	if (g->kv_retention != RETAIN_FULL)
		add(l, " --kv-retention %s --kv-window %d", kv_retention_names[g->kv_retention], g->kv_window);
	if (g->kv_retention == RETAIN_SINK_WINDOW)
		add(l, " --kv-sink %d", g->kv_sink);
	if (!g->prefix_caching)
		return;
	add(l, " --prefix-cache %s", prefix_cache_names[g->prefix_cache == PREFIX_OFF ? PREFIX_HASH : g->prefix_cache]);
	if (g->prefix_eviction != PREFIX_EVICT_DEFAULT)
		add(l, " --prefix-eviction %s", prefix_eviction_names[g->prefix_eviction]);
	if (g->cache_salt != CACHE_SALT_NONE)
		add(l, " --cache-salt %s", cache_salt_names[g->cache_salt]);
	if (g->cache_prompts_only)
		add(l, " --cache-generated off");
	add(l, " --hit-visible %s", g->hit_visible == HIT_VISIBLE_COMMIT ? "commit" : "alloc");
}

static void add_order(struct line *l, const struct engine_config *g)
{
	char predictor[40];
	if (g->queue_order != QUEUE_FCFS) {
		char *params = order_format(g->queue_order, &g->order);
		add(l, " --scheduling-policy %s%s%s", queue_order_names[g->queue_order], params && *params ? ":" : "",
		    params ? params : "");
		mem_free(params);
	}
	if (g->queue_order == QUEUE_EDF)
		add(l, " --goodput ttft:%.9g", (double)g->order.slo_ttft_ns / 1e6);
	if (g->queue_order == QUEUE_EDF && g->order.slo_tpot_ns)
		add(l, " tpot:%.9g", (double)g->order.slo_tpot_ns / 1e6);
	if (engine_config_predicts(g))
		add(l, " --predictor %s", predict_text(&g->predictor, predictor));
	if (g->victim != VICTIM_DEFAULT)
		add(l, " --victim %s", victim_names[g->victim]);
}

static char *replay_line(const struct check_options *o, const struct random_case *c, const char *file)
{
	struct line l = {.n = 0};
	const struct engine_config *g = &c->cfg;
	if (g->swap_blocks || g->offload_host_blocks)
		return NULL;
	add(&l, "lockstep replay");
	add_policy(&l, o, c);
	add(&l, " --cost-model linear:a=%lldns,b=%lldns,c=%lldns,d=%lldns", (long long)c->cost_a, (long long)c->cost_b,
	    (long long)c->cost_c, (long long)c->cost_d);
	add(&l, " --max-num-seqs %d --max-num-batched-tokens %d", g->max_num_seqs, g->max_num_batched_tokens);
	if (g->max_model_len)
		add(&l, " --max-model-len %d", g->max_model_len);
	add_memory(&l, g);
	add_order(&l, g);
	if (g->async_scheduling)
		add(&l, " --async-scheduling");
	if (g->max_concurrency)
		add(&l, " --max-concurrency %d", g->max_concurrency);
	if (g->abort_after_ns)
		add(&l, " --abort-after %.9f", (double)g->abort_after_ns / 1e9);
	add(&l, " --seed %llu --check --no-db --dataset-path", (unsigned long long)g->seed);
	add_word(&l, file);
	return mem_strdup(l.text);
}

static char *again_line(const struct check *check, const struct check_options *o, const struct policy_desc *d,
			int64_t k)
{
	struct line l = {.n = 0};
	add(&l, "lockstep policy check");
	add_word(&l, o->shown ? o->shown : d->name);
	add(&l, " --only %s --seed %llu --case %lld", check->name, (unsigned long long)o->seed, (long long)k);
	if (o->params) {
		add(&l, " --policy-params");
		add_word(&l, o->params);
	}
	return mem_strdup(l.text);
}

static int write_trace(const struct random_case *c, const char *path, struct err *e)
{
	FILE *f = fopen(path, "w");
	if (!f)
		return err_set(e, ERR_IO, "%s cannot be written: %s", path, strerror(errno));
	random_case_print_trace(c, f);
	bool bad = ferror(f);
	if (fclose(f) != 0 || bad)
		return err_set(e, ERR_IO, "%s cannot be written: %s", path, strerror(errno));
	return ERR_NONE;
}

int check_keep_case(struct check_result *r, const struct check *check, const struct check_options *o,
		    const struct policy_desc *d, const struct random_case *c, int64_t k, struct err *e)
{
	char path[1200];
	r->again = again_line(check, o, d, k);
	if (!r->again)
		return err_no_memory(e, "a command line");
	if (!c || !o->dir)
		return ERR_NONE;
	snprintf(path, sizeof path, "%s/%s-%s.jsonl", o->dir, d->name, check->name);
	int rc = write_trace(c, path, e);
	if (rc)
		return rc;
	r->file = mem_strdup(path);
	r->replay = check->replays ? replay_line(o, c, path) : NULL;
	return r->file ? ERR_NONE : err_no_memory(e, "a file's name");
}
