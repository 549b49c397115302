#include "analysis/random_case.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "policies/registry.h"

static int64_t between(struct rng *r, int64_t low, int64_t high)
{
	return low + (int64_t)rng_below(r, (uint64_t)(high - low + 1));
}

static bool chance(struct rng *r, int32_t in_hundred)
{
	return between(r, 1, 100) <= in_hundred;
}

static int64_t pick(struct rng *r, const int64_t *of, int32_t n)
{
	return of[between(r, 0, n - 1)];
}

/* What a run looks like as a whole; drawn first, so that cases differ in kind and not only in detail. */
struct taste {
	int64_t gap_ns, prompt, output;
	bool bursts, priorities, tenants, sharing, parents, loose_max, forks;
};

static void draw_segments(struct rng *r, struct random_case *c, int32_t i)
{
	struct case_req *q = &c->reqs[i];
	int32_t left = q->prompt;
	/* Often a continuation of an earlier request: its prompt, its output, then something new. */
	if (i > 0 && chance(r, 60)) {
		const struct case_req *p = &c->reqs[between(r, 0, i - 1)];
		for (int32_t k = 0; k < p->n_segments && left > 0 && !chance(r, 10); k++) {
			q->segment[q->n_segments] = p->segment[k];
			q->segment_tokens[q->n_segments++] = p->segment_tokens[k] < left ? p->segment_tokens[k] : left;
			left -= q->segment_tokens[q->n_segments - 1];
		}
		if (p->output_id && p->output && left > 0 && q->n_segments == p->n_segments &&
		    q->n_segments < CASE_SEGMENTS) {
			q->segment[q->n_segments] = p->output_id;
			q->segment_tokens[q->n_segments++] = p->output < left ? p->output : left;
			left -= q->segment_tokens[q->n_segments - 1];
		}
	}
	while (left > 0 && q->n_segments < CASE_SEGMENTS && chance(r, 70)) {
		int32_t n = (int32_t)between(r, 1, left);
		q->segment[q->n_segments] = (uint64_t)between(r, 1, 4);
		q->segment_tokens[q->n_segments++] = n;
		left -= n;
	}
	if (chance(r, 50))
		q->output_id = UINT64_C(1) << 60 | (uint64_t)(i + 1);
}

/* Another sample of an earlier request's prompt, or a branch of what it was or has become. */
static void draw_fork(struct rng *r, struct random_case *c, int32_t i, const struct taste *t)
{
	struct case_req *q = &c->reqs[i];
	q->n_parents = 1;
	q->parent[0] = (int32_t)between(r, i > 4 && chance(r, 70) ? i - 4 : 0, i - 1);
	const struct case_req *p = &c->reqs[q->parent[0]];
	q->n_segments = 0;
	q->arrival_ns = chance(r, 80) ? 0 : between(r, 0, 3 * t->gap_ns);
	if (chance(r, 50)) {
		q->prompt = q->fork_at = p->prompt;
		q->output = chance(r, 50) ? p->output : q->output;
		q->max_tokens = q->output > 0 ? q->output : 1;
		return;
	}
	q->fork_at = (int32_t)between(r, 1, p->prompt + p->output);
	if (q->prompt < q->fork_at || chance(r, 50))
		q->prompt = q->fork_at + (int32_t)between(r, 0, 1 + t->prompt / 4);
	if (chance(r, 30))
		q->fork_at = -q->fork_at;
}

static void draw_request(struct rng *r, struct random_case *c, int32_t i, const struct taste *t, int64_t *clock)
{
	struct case_req *q = &c->reqs[i];
	*q = (struct case_req){0};
	if (!(t->bursts && chance(r, 70)))
		*clock += between(r, 0, 2 * t->gap_ns);
	if (chance(r, 4))
		*clock += 50 * t->gap_ns; /* an idle gap */
	q->arrival_ns = *clock;
	q->prompt = (int32_t)between(r, 1, t->prompt);
	q->output = chance(r, 8) ? (int32_t)between(r, 0, 1) : (int32_t)between(r, 0, t->output);
	q->max_tokens = q->output > 0 ? q->output : 1;
	if (t->loose_max && chance(r, 70))
		q->max_tokens += (int32_t)between(r, 0, t->output);
	if (chance(r, 3) && q->max_tokens > 1)
		q->max_tokens = (int32_t)between(r, 1, q->max_tokens);
	if (t->priorities)
		q->priority = (int32_t)between(r, 0, 2);
	if (chance(r, 20))
		q->slo_ttft_ms = (int32_t)between(r, 1, 2);
	if (t->tenants)
		q->tenant = (int32_t)between(r, 0, CASE_TENANTS - 1);
	if (t->sharing)
		draw_segments(r, c, i);
	if (t->forks && i > 0 && chance(r, 60)) {
		draw_fork(r, c, i, t);
	} else if (t->parents && i > 0 && chance(r, 40)) {
		q->n_parents = (int32_t)between(r, 1, i > 1 ? CASE_PARENTS : 1);
		q->parent[0] = (int32_t)between(r, 0, i - 1);
		q->parent[1] = (int32_t)between(r, 0, i - 1);
		if (q->parent[1] == q->parent[0])
			q->n_parents = 1;
		q->arrival_ns = chance(r, 40) ? 0 : between(r, 0, 3 * t->gap_ns);
	}
}

static void draw_params(struct rng *r, struct random_case *c)
{
	const struct policy_desc *d = c->policy;
	policy_parse_params(d, "", c->values, NULL);
	for (int32_t i = 0; i < d->n_params; i++) {
		const struct policy_param *p = &d->params[i];
		union policy_value *v = &c->values[i];
		int32_t choices = 0;
		if (chance(r, 40))
			continue;
		switch (p->type) {
		case PARAM_BOOL:
			v->i = between(r, 0, 1);
			break;
		case PARAM_ENUM:
			while (p->choices[choices])
				choices++;
			v->i = between(r, 0, choices - 1);
			break;
		case PARAM_INT:
			v->i = (int64_t)p->min + between(r, 0, p->max - p->min < 24 ? (int64_t)(p->max - p->min) : 24);
			break;
		case PARAM_FLOAT:
			v->f = p->min + (p->max - p->min) * rng_unit(r) * (chance(r, 70) ? 0.2 : 1);
			break;
		case PARAM_DURATION:
			v->i = (int64_t)(p->min * 1e9) + (chance(r, 80) ? between(r, 0, 60) : between(r, 0, 5000));
			break;
		}
	}
}

/* In which order they are served and who gives way. */
static void draw_choices(struct rng *r, struct engine_config *g, bool priorities)
{
	static const double sigmas[] = {0, 0.1, 0.5, 2};
	g->queue_order = QUEUE_FCFS;
	if (priorities ? chance(r, 75) : chance(r, 5))
		g->queue_order = QUEUE_PRIORITY;
	else if (chance(r, 40))
		g->queue_order = (enum queue_order)between(r, QUEUE_SJF, QUEUE_ORDERS - 1);
	g->order = (struct order_params){
		.slo_ttft_ns = between(r, 1, 500),
		.slo_tpot_ns = between(r, 0, 20),
		.input_weight = (int32_t)between(r, 0, 2),
		.output_weight = (int32_t)between(r, 1, 3),
		.levels = (int32_t)between(r, 1, 5),
		.quantum = between(r, 1, 40),
		/* Sooner than what was lost can be computed again, and requests take each other's memory for ever. */
		.promote_ns = chance(r, 50) ? 0 : between(r, 20000, 40000)};
	if (chance(r, 50) && g->queue_order != QUEUE_MLFQ)
		g->victim = (enum victim)between(r, VICTIM_LAST, VICTIM_LEAST_WORK_LOST);
	g->predictor.kind = (enum predict_kind)between(r, PREDICT_MAX, PREDICT_MEAN);
	g->predictor.sigma = sigmas[between(r, 0, 3)];
}

static void draw_config(struct rng *r, struct random_case *c)
{
	static const int64_t sizes[] = {1, 2, 3, 4, 4, 5, 8, 8, 16, 16};
	struct engine_config *g = &c->cfg;
	int64_t longest = 1;
	bool priorities = false, sharing = false;
	for (int32_t i = 0; i < c->n; i++) {
		const struct case_req *q = &c->reqs[i];
		longest = q->prompt + q->output > longest ? q->prompt + q->output : longest;
		priorities |= q->priority != 0;
		sharing |= q->n_segments > 0 || (q->fork_at && c->seed % 2);
	}
	engine_config_default(g);
	g->block_size = (int32_t)pick(r, sizes, sizeof sizes / sizeof sizes[0]);
	int64_t least = (longest + g->block_size - 1) / g->block_size;
	g->num_blocks =
		(int32_t)(chance(r, 60) ? between(r, least, least + least / 2 + 2) : between(r, least, 6 * least + 4));
	if (chance(r, 10))
		g->num_blocks = (int32_t)between(r, (least + 1) / 2, least); /* some can never fit */
	g->max_num_seqs = (int32_t)(chance(r, 20) ? between(r, 1, 2) : between(r, 2, 12));
	g->max_num_batched_tokens = g->max_num_seqs + (int32_t)between(r, 0, chance(r, 50) ? 8 : 2 * longest);
	if (chance(r, 20))
		g->max_num_batched_tokens += g->num_blocks * g->block_size;
	if (chance(r, 15))
		g->max_model_len = (int32_t)between(r, 1, (int64_t)g->num_blocks * g->block_size);
	if (chance(r, 15))
		g->window = (int32_t)between(r, 1, longest + 2);
	draw_choices(r, g, priorities);
	g->prefix_caching = sharing;
	g->hit_visible = chance(r, 50) ? HIT_VISIBLE_ALLOC : HIT_VISIBLE_COMMIT;
	g->async_scheduling = chance(r, 25);
	g->kv_off = !g->prefix_caching && !g->async_scheduling && chance(r, 12);
	/* From a block or less, so that almost everything goes, to more than there is. */
	g->kv_retention =
		(enum kv_retention)(chance(r, 30) ? between(r, RETAIN_WINDOW, RETAIN_SINK_WINDOW) : RETAIN_FULL);
	if (g->kv_retention != RETAIN_FULL)
		g->kv_window = (int32_t)between(r, 1, chance(r, 60) ? 1 + longest / 2 : longest + 2);
	if (g->kv_retention == RETAIN_SINK_WINDOW)
		g->kv_sink = (int32_t)between(r, 1, 1 + longest / 3);
	if (g->window && g->kv_retention && chance(r, 60))
		g->kv_window = g->window + (int32_t)between(r, 0, 3);
	if (chance(r, 20))
		g->max_concurrency = (int32_t)between(r, 1, 6);
	g->seed = rng_next(r);
	if (!sharing)
		return;
	/* A tree keeps whole prefixes, without gaps. */
	g->prefix_cache = chance(r, 50) || g->kv_retention != RETAIN_FULL ? PREFIX_HASH : PREFIX_RADIX;
	g->prefix_eviction = (enum prefix_eviction)between(
		r, PREFIX_EVICT_DEFAULT, g->prefix_cache == PREFIX_HASH ? PREFIX_EVICT_FIFO : PREFIX_EVICT_COST_AWARE);
	g->cache_prompts_only = chance(r, 20);
	g->cache_salt = chance(r, 30) ? CACHE_SALT_TENANT : CACHE_SALT_NONE;
}

void random_case_no_cache(struct random_case *c)
{
	c->cfg.prefix_caching = c->cfg.cache_prompts_only = false;
	c->cfg.prefix_cache = PREFIX_OFF;
	c->cfg.prefix_eviction = PREFIX_EVICT_DEFAULT;
	c->cfg.cache_salt = CACHE_SALT_NONE;
}

static void draw_patience(struct random_case *c, int32_t attempt)
{
	static const int64_t most_ns[] = {40, 400, 4000};
	struct rng r;
	rng_init(&r, c->seed, 3000 + (uint64_t)attempt);
	if (chance(&r, 15))
		c->cfg.abort_after_ns = between(&r, 1, pick(&r, most_ns, 3));
}

/* Whether the policy was drawn to swap. */
static bool swaps(const struct random_case *c)
{
	for (int32_t i = 0; i < c->policy->n_params; i++)
		if (strcmp(c->policy->params[i].name, "preemption_mode") == 0)
			return strcmp(c->policy->params[i].choices[c->values[i].i], "swap") == 0;
	return false;
}

/* Memory behind the device's: mostly too little, on links from faster than a step to far slower. */
static void draw_tiers(struct rng *r, struct random_case *c)
{
	struct engine_config *g = &c->cfg;
	static const int64_t speeds[] = {20, 250, 1000, 4000}; /* MB/s: 50, 4, 1 ns a byte, 4 bytes a ns */
	c->links = (struct link_speeds){.page_bytes = 10};
	for (int i = 0; i < N_LINKS; i++) {
		c->links.of[i].bytes_per_s = pick(r, speeds, 4) * 1000000;
		c->links.of[i].latency_ns = chance(r, 50) ? between(r, 0, 30) : 0;
	}
	g->kv_transfer = chance(r, 50) ? KV_TRANSFER_OVERLAP : KV_TRANSFER_SYNC;
	if (g->prefix_caching && g->kv_retention == RETAIN_FULL && chance(r, 60)) {
		g->offload_host_blocks = (int32_t)between(r, 1, chance(r, 50) ? 6 : 2 * (int64_t)g->num_blocks);
		g->offload_disk_blocks = chance(r, 60) ? (int32_t)between(r, 1, 2 * (int64_t)g->num_blocks) : 0;
		g->kv_prefetch = g->offload_disk_blocks && chance(r, 50);
		g->async_scheduling = false;
		if (strcmp(c->policy->name, "vllm_v1") != 0 && strcmp(c->policy->name, "sarathi") != 0)
			g->kv_transfer = KV_TRANSFER_SYNC;
	}
	if (!swaps(c))
		return;
	g->swap_blocks = (int32_t)between(r, 1, 2 * (int64_t)g->num_blocks);
	g->async_scheduling = g->kv_off = false;
	g->kv_retention = RETAIN_FULL;
	g->kv_window = g->kv_sink = 0;
}

void random_case_settings(struct random_case *c, int32_t attempt)
{
	struct rng r;
	rng_init(&r, c->seed, 1000 + (uint64_t)attempt);
	draw_config(&r, c);
	draw_params(&r, c);
	draw_patience(c, attempt);
	draw_tiers(&r, c);
	/* What rarely goes together with the rest makes way in the end. */
	if (attempt > 8) {
		c->cfg.kv_off = false;
		random_case_no_cache(c);
		c->cfg.kv_retention = RETAIN_FULL;
		c->cfg.kv_window = c->cfg.kv_sink = 0;
		c->cfg.offload_host_blocks = c->cfg.offload_disk_blocks = c->cfg.kv_prefetch = 0;
	}
	if (attempt > 4)
		c->cfg.victim = VICTIM_DEFAULT;
	if (attempt > 6)
		c->cfg.queue_order = QUEUE_FCFS;
}

int random_case_draw(struct random_case *c, uint64_t seed, const struct policy_desc *policy, int32_t largest,
		     struct err *e)
{
	static const int64_t gaps[] = {1, 5, 20, 100, 1000}, prompts[] = {3, 10, 40, 100}, outputs[] = {2, 6, 20, 60};
	struct rng r;
	rng_init(&r, seed, 77);
	*c = (struct random_case){.seed = seed, .policy = policy};
	c->n = (int32_t)(chance(&r, 30) ? between(&r, 1, 4) : between(&r, 2, largest));
	c->reqs = mem_zalloc((size_t)c->n, sizeof *c->reqs);
	if (!c->reqs || policy->n_params > CASE_PARAMS) {
		c->n = 0;
		return err_no_memory(e, "a random workload");
	}
	struct taste t = {.gap_ns = pick(&r, gaps, 5), .prompt = pick(&r, prompts, 4), .output = pick(&r, outputs, 4)};
	t.bursts = chance(&r, 50);
	t.priorities = chance(&r, 40);
	t.tenants = chance(&r, 40);
	t.sharing = chance(&r, 40);
	t.parents = chance(&r, 25);
	t.loose_max = chance(&r, 50);
	t.forks = chance(&r, 30);
	int64_t clock = chance(&r, 50) ? 0 : between(&r, 0, 100);
	for (int32_t i = 0; i < c->n; i++)
		draw_request(&r, c, i, &t, &clock);
	random_case_settings(c, 0);
	c->cost_a = between(&r, 1, 20);
	if (chance(&r, 60)) {
		c->cost_b = between(&r, 0, 3);
		c->cost_c = between(&r, 0, 3);
		c->cost_d = chance(&r, 50) ? between(&r, 0, 2) : 0;
	}
	return ERR_NONE;
}

int random_case_copy(struct random_case *to, const struct random_case *from)
{
	*to = *from;
	to->reqs = mem_alloc(sizeof *to->reqs * (size_t)(from->n > 0 ? from->n : 1));
	if (!to->reqs) {
		to->n = 0;
		return ERR_MEMORY;
	}
	memcpy(to->reqs, from->reqs, sizeof *to->reqs * (size_t)from->n);
	return ERR_NONE;
}

void random_case_free(struct random_case *c)
{
	mem_free(c->reqs);
	c->reqs = NULL;
}

/* Those that wait for nobody any more arrive in order, too. */
void random_case_tidy(struct random_case *c)
{
	int64_t last_ns = 0;
	for (int32_t i = 0; i < c->n; i++) {
		if (c->reqs[i].n_parents)
			continue;
		if (c->reqs[i].arrival_ns < last_ns)
			c->reqs[i].arrival_ns = last_ns;
		last_ns = c->reqs[i].arrival_ns;
	}
}

void random_case_drop(struct random_case *c, int32_t i)
{
	memmove(c->reqs + i, c->reqs + i + 1, sizeof *c->reqs * (size_t)(c->n - i - 1));
	c->n--;
	for (int32_t k = i; k < c->n; k++) {
		struct case_req *q = &c->reqs[k];
		int32_t kept = 0;
		for (int32_t p = 0; p < q->n_parents; p++)
			if (q->parent[p] != i)
				q->parent[kept++] = q->parent[p] - (q->parent[p] > i);
		q->n_parents = kept;
		if (kept != 1)
			q->fork_at = 0;
	}
	random_case_tidy(c);
}

static int add_request(const struct case_req *q, struct workload *w, struct err *e)
{
	struct spec s = {.arrival_ns = q->arrival_ns,
			 .name_at = -1,
			 .output_id = q->output_id,
			 .hash_at = w->n_hash_ids,
			 .prompt_tokens = q->prompt,
			 .output_tokens = q->output,
			 .max_tokens = q->max_tokens,
			 .priority = q->priority,
			 .tenant = q->tenant,
			 .slo_ttft_ms = q->slo_ttft_ms,
			 .session = -1,
			 .n_hashes = q->n_segments,
			 .row = (int32_t)w->n + 1};
	int rc = ERR_NONE;
	for (int32_t k = 0; k < q->n_segments && !rc; k++)
		rc = workload_add_segment(w, q->segment[k], q->segment_tokens[k], e);
	return rc ? rc : workload_add(w, &s, e);
}

static int32_t fork_tokens(const struct case_req *q, int32_t parent_prompt, int32_t parent_output)
{
	int32_t at = q->fork_at < 0 ? -q->fork_at : q->fork_at, most = parent_prompt + parent_output;
	at = at > most ? most : at;
	return at > q->prompt ? q->prompt : at;
}

/* As far as it goes: requests are made smaller, parents are left out. */
static int add_fork(const struct random_case *c, int32_t i, struct workload *w, struct err *e)
{
	const struct case_req *q = &c->reqs[i];
	if (!q->fork_at || q->n_parents != 1)
		return ERR_NONE;
	const struct spec *p = &w->specs[q->parent[0]];
	int32_t at = fork_tokens(q, p->prompt_tokens, p->output_tokens);
	return workload_fork(w, q->parent[0], i, at, q->fork_at > 0, e);
}

int random_case_build(const struct random_case *c, struct workload *w, struct err *e)
{
	int64_t pairs = 0;
	int32_t *parent = mem_alloc(sizeof *parent * (size_t)(c->n * CASE_PARENTS + 1));
	int32_t *child = mem_alloc(sizeof *child * (size_t)(c->n * CASE_PARENTS + 1));
	int rc = parent && child ? ERR_NONE : err_no_memory(e, "a random workload");
	workload_init(w);
	for (int32_t i = 0; i < CASE_TENANTS && !rc; i++) {
		const char name[] = {(char)('a' + i), '\0'};
		int32_t index;
		if (i > 0)
			rc = workload_tenant(w, name, &index, e);
	}
	for (int32_t i = 0; i < c->n && !rc; i++) {
		rc = add_request(&c->reqs[i], w, e);
		if (!rc)
			rc = add_fork(c, i, w, e);
		for (int32_t p = 0; p < c->reqs[i].n_parents && !rc; p++) {
			parent[pairs] = c->reqs[i].parent[p];
			child[pairs++] = i;
		}
	}
	if (!rc && pairs)
		rc = workload_link(w, parent, child, pairs, e);
	mem_free(parent);
	mem_free(child);
	return rc;
}

static void print_request(const struct random_case *c, int32_t i, FILE *f)
{
	const struct case_req *q = &c->reqs[i];
	fprintf(f, "{\"id\": \"%d\", \"%s\": %.9f, \"input_tokens\": %d, \"output_tokens\": %d, \"max_tokens\": %d",
		i + 1, q->n_parents ? "delay_s" : "arrival_s", (double)q->arrival_ns / 1e9, q->prompt, q->output,
		q->max_tokens);
	if (q->priority)
		fprintf(f, ", \"priority\": %d", q->priority);
	if (q->slo_ttft_ms)
		fprintf(f, ", \"slo_ttft_ms\": %d", q->slo_ttft_ms);
	if (q->tenant)
		fprintf(f, ", \"class\": \"%c\"", 'a' + q->tenant);
	/* A live fork waits for its parent by itself: "after" would make it wait for the end. */
	bool fork = q->fork_at && q->n_parents == 1, live = fork && q->fork_at > 0;
	for (int32_t k = 0; k < q->n_parents && !live; k++)
		fprintf(f, "%s\"%d\"%s", k ? ", " : ", \"after\": [", q->parent[k] + 1,
			k + 1 == q->n_parents ? "]" : "");
	if (fork)
		fprintf(f, ", \"fork_of\": \"%d\", \"fork_at\": %d", q->parent[0] + 1,
			fork_tokens(q, c->reqs[q->parent[0]].prompt, c->reqs[q->parent[0]].output));
	for (int32_t k = 0; k < q->n_segments; k++)
		fprintf(f, "%s{\"id\": %llu, \"tokens\": %d}%s", k ? ", " : ", \"prefix\": [",
			(unsigned long long)q->segment[k], q->segment_tokens[k], k + 1 == q->n_segments ? "]" : "");
	if (q->output_id)
		fprintf(f, ", \"output_id\": %llu", (unsigned long long)q->output_id);
	fprintf(f, "}\n");
}

void random_case_print_trace(const struct random_case *c, FILE *f)
{
	for (int32_t i = 0; i < c->n; i++)
		print_request(c, i, f);
}

void random_case_print(const struct random_case *c, FILE *f)
{
	const struct engine_config *g = &c->cfg;
	char *params = policy_format_params(c->policy, c->values);
	fprintf(f, "# seed %llu: %s %s\n", (unsigned long long)c->seed, c->policy->name, params ? params : "");
	mem_free(params);
	fprintf(f,
		"# block_size %d, num_blocks %d, max_num_seqs %d, max_num_batched_tokens %d, max_model_len %d, window "
		"%d\n",
		g->block_size, g->num_blocks, g->max_num_seqs, g->max_num_batched_tokens, g->max_model_len, g->window);
	fprintf(f, "# retention %s, window %d, sink %d\n", kv_retention_names[g->kv_retention], g->kv_window,
		g->kv_sink);
	fprintf(f,
		"# kv_off %d, prefix_caching %d, hit_visible %s, queue %s, async %d, max_concurrency %d, abort after "
		"%lld ns\n",
		g->kv_off, g->prefix_caching, g->hit_visible == HIT_VISIBLE_ALLOC ? "alloc" : "commit",
		queue_order_names[g->queue_order], g->async_scheduling, g->max_concurrency,
		(long long)g->abort_after_ns);
	fprintf(f, "# prefix_cache %s, prefix_eviction %s, cache_prompts_only %d, cache_salt %s\n",
		prefix_cache_names[g->prefix_cache], prefix_eviction_names[g->prefix_eviction], g->cache_prompts_only,
		cache_salt_names[g->cache_salt]);
	const struct order_params *o = &g->order;
	fprintf(f, "# order: ttft %lld tpot %lld ns, weights %d:%d, %d levels, quantum %lld, promote %lld ns\n",
		(long long)o->slo_ttft_ns, (long long)o->slo_tpot_ns, o->input_weight, o->output_weight, o->levels,
		(long long)o->quantum, (long long)o->promote_ns);
	char predictor[40];
	fprintf(f, "# victim %s, predictor %s\n", victim_names[g->victim], predict_text(&g->predictor, predictor));
	if (g->swap_blocks || g->offload_host_blocks) {
		fprintf(f, "# swap_blocks %d, offload to %d and %d, overlap %d, prefetch %d", g->swap_blocks,
			g->offload_host_blocks, g->offload_disk_blocks, g->kv_transfer, g->kv_prefetch);
		for (int i = 0; i < N_LINKS; i++)
			fprintf(f, ", %s %lld + n x %lld ns", link_names[i], (long long)c->links.of[i].latency_ns,
				(long long)link_copy_ns(&c->links, (enum link)i, 1) -
					(long long)c->links.of[i].latency_ns);
		fprintf(f, "\n");
	}
	fprintf(f, "# cost %lld + %lld x prefill + %lld x decodes + %lld x context ns\n", (long long)c->cost_a,
		(long long)c->cost_b, (long long)c->cost_c, (long long)c->cost_d);
	random_case_print_trace(c, f);
}
