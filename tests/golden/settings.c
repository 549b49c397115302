/* settings.c: like decisions.c, where settings and parameters matter: priorities, prefix caching, asynchronous scheduling,
 * and what each policy alone can do. `make golden-update` writes the logs anew: read the diff before you commit it.
 * One line an event: step, time (ns), what, request, and two numbers that depend on what (core/record.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "policies/registry.h"
#include "tests/support/golden.h"
#include "tests/support/sched.h"

/* What the policy runs under. Not every policy takes all of it; being refused is an answer as well. */
struct scene {
	const char *name;
	int32_t num_blocks;
	bool prefix_caching, priority, async;
	const char *params; /* NULL = defaults */
	const char *only; /* for this policy alone; NULL = for every one */
	int32_t budget; /* 0 = 16 */
	enum queue_order order; /* other than by priority */
	enum victim victim;
	int32_t kv_window, kv_sink; /* tokens; 0 = everything is kept, no sinks */
	enum prefix_cache cache;
	enum prefix_eviction eviction;
	int32_t swap_blocks, host_blocks, disk_blocks; /* behind the device */
	enum kv_transfer transfer;
	bool prefetch;
	bool forks; /* some requests go on where another was */
};

static const struct scene scenes[] = {
	{"priority", 22, .priority = true},
	{"prefix", 30, .prefix_caching = true},
	{"async", 22, .async = true},
	{"reuse", 24, .prefix_caching = true, .params = "pad=off,reserve=off", .only = "static"},
	{"reuse", 24, .prefix_caching = true, .params = "paged=on", .only = "orca"},
	{"paged", 22, .params = "pad=off,hold_finished=off,reserve=off", .only = "static"},
	{"timeout", 200, .params = "batch_timeout=300ns", .only = "static"},
	{"paged", 22, .params = "paged=on", .only = "orca"},
	{"longest", 60, .params = "reserve=max_model_len", .only = "orca"},
	{"capped", 22, .params = "long_prefill_token_threshold=6,reserve_full_prompt=off,watermark=0.1",
	 .only = "vllm_v1"},
	{"small", 22, .params = "chunk_size=7,watermark=0", .only = "sarathi"},
	{"tight", 14, .params = "schedule_conservativeness=0.01", .only = "sglang"},
	{"mixed", 24, .prefix_caching = true, .params = "mixed_chunk=on,schedule_policy=dfs_weight", .only = "sglang"},
	{"tight", 24, .params = "watermark=0", .only = "vllm_v0", .budget = 96},
	{"delayed", 60, .params = "delay_factor=1.5", .only = "vllm_v0", .budget = 96},
	{"utilized", 14, .params = "capacity_scheduler=max_utilization,chunk_unit=3", .only = "trtllm"},
	{"equal", 60, .params = "context_chunking=equal_progress,chunk_unit=2", .only = "trtllm"},
	{"whole", 60, .params = "enable_chunked_context=off", .only = "trtllm", .budget = 96},
	{"whole", 60, .params = "enable_chunked_prefill=off", .only = "vllm_v1"},
	{"sjf", 22, .only = "vllm_v1", .order = QUEUE_SJF},
	{"edf", 22, .only = "vllm_v1", .order = QUEUE_EDF},
	{"fair", 22, .only = "vllm_v1", .order = QUEUE_FAIR},
	{"mlfq", 22, .only = "vllm_v1", .order = QUEUE_MLFQ},
	{"fair", 22, .only = "sarathi", .order = QUEUE_FAIR},
	{"mlfq", 24, .params = "watermark=0", .only = "vllm_v0", .budget = 96, .order = QUEUE_MLFQ},
	{"mlfq", 22, .only = "sglang", .order = QUEUE_MLFQ},
	{"fair", 60, .only = "trtllm", .order = QUEUE_FAIR},
	{"sjf", 22, .params = "pad=off,reserve=off", .only = "static", .order = QUEUE_SJF},
	{"edf", 22, .params = "paged=on", .only = "orca", .order = QUEUE_EDF},
	{"shortest", 22, .only = "vllm_v1", .victim = VICTIM_SHORTEST},
	{"longest-left", 22, .only = "vllm_v1", .victim = VICTIM_LONGEST_LEFT},
	{"lowest-priority", 22, .only = "vllm_v1", .victim = VICTIM_LOWEST_PRIORITY},
	{"least-work-lost", 22, .only = "vllm_v1", .victim = VICTIM_LEAST_WORK_LOST},
	{"shortest", 22, .params = "paged=on", .only = "orca", .victim = VICTIM_SHORTEST},
	{"longest-left", 22, .params = "watermark=0", .only = "sarathi", .victim = VICTIM_LONGEST_LEFT},
	{"window", 22, .only = "vllm_v1", .kv_window = 6},
	{"sinks", 22, .prefix_caching = true, .only = "vllm_v1", .kv_window = 6, .kv_sink = 3},
	{"radix", 22, .only = "vllm_v1", .cache = PREFIX_RADIX},
	{"radix-lru", 22, .only = "vllm_v1", .cache = PREFIX_RADIX, .eviction = PREFIX_EVICT_LRU},
	{"radix-lfu", 22, .only = "vllm_v1", .cache = PREFIX_RADIX, .eviction = PREFIX_EVICT_LFU},
	{"radix-fifo", 22, .only = "vllm_v1", .cache = PREFIX_RADIX, .eviction = PREFIX_EVICT_FIFO},
	{"radix-cost", 22, .only = "vllm_v1", .cache = PREFIX_RADIX, .eviction = PREFIX_EVICT_COST_AWARE},
	{"hash-lfu", 22, .only = "vllm_v1", .cache = PREFIX_HASH, .eviction = PREFIX_EVICT_LFU},
	{"hash-fifo", 22, .only = "vllm_v1", .cache = PREFIX_HASH, .eviction = PREFIX_EVICT_FIFO},
	{"drop", 22, .params = "shortage=drop,drop_keep=8", .only = "vllm_v1"},
	{"swap", 23, .params = "preemption_mode=swap,watermark=0", .only = "vllm_v0", .budget = 96, .swap_blocks = 20},
	{"swap-overlap", 23, .params = "preemption_mode=swap,watermark=0", .only = "vllm_v0", .budget = 96,
	 .swap_blocks = 9, .transfer = KV_TRANSFER_OVERLAP},
	{"host", 22, .only = "vllm_v1", .cache = PREFIX_HASH, .host_blocks = 6},
	{"disk", 22, .only = "vllm_v1", .cache = PREFIX_RADIX, .host_blocks = 3, .disk_blocks = 8,
	 .transfer = KV_TRANSFER_OVERLAP},
	{"disk", 24, .only = "sarathi", .params = "watermark=0", .cache = PREFIX_HASH, .host_blocks = 3,
	 .disk_blocks = 8},
	{"prefetch", 22, .only = "vllm_v1", .cache = PREFIX_HASH, .host_blocks = 4, .disk_blocks = 12,
	 .prefetch = true},
	{"forks", 60, .budget = 96, .forks = true},
	{"forks-cached", 60, .only = "vllm_v1", .budget = 96, .cache = PREFIX_HASH, .forks = true},
};

/* Sixteen requests in two bursts with a gap, some sharing beginnings, some of 0 or 1 output, one too long for the tight
 * memory, one that waits for another. */
static void add_requests(struct sched *s)
{
	struct rng r;
	int32_t tenants[4] = {0};
	rng_init(&r, 2024, 0);
	for (int32_t t = 1; t < 3; t++)
		if (workload_tenant(&s->w, t == 1 ? "one" : "two", &tenants[t], NULL))
			exit(1);
	for (int32_t i = 0; i < 16; i++) {
		int64_t at_ns = i < 9 ? (int64_t)(rng_below(&r, 3) + (uint64_t)i / 3 * 70) : 2000 + 10 * i;
		int32_t prompt = 3 + (int32_t)rng_below(&r, 22), output = (int32_t)rng_below(&r, 16);
		if (i < 9 && i > 0 && at_ns < s->w.specs[i - 1].arrival_ns)
			at_ns = s->w.specs[i - 1].arrival_ns;
		if (i == 5)
			prompt = 90;
		if (i == 15)
			at_ns = 25; /* after request 9 */
		sched_add(s, at_ns, prompt, i == 3 ? 0 : i == 4 ? 1 : output);
		s->w.specs[i].max_tokens = s->w.specs[i].output_tokens + (int32_t)rng_below(&r, 4) + 1;
		s->w.specs[i].priority = (int32_t)rng_below(&r, 3);
		s->w.specs[i].tenant = tenants[i % 4];
		if (i % 2 == 0)
			sched_share(s, 7, prompt < 10 ? prompt : 10);
	}
	sched_after(s, 8, 15);
}

/* A sample that goes on with a live request, a branch with words of its own, both amid a block, and a turn that takes over all
 * that a request has computed once it has ended. */
static void add_forks(struct sched *s)
{
	static const struct {
		int32_t parent, at, own; /* tokens taken over, and of its own after them */
		bool live;
	} forks[] = {{0, 2, 0, true}, {2, 3, 3, true}, {6, 1, 4, false}};
	for (size_t i = 0; i < sizeof forks / sizeof *forks; i++) {
		int32_t parent = forks[i].parent, at = s->w.specs[parent].prompt_tokens + forks[i].at;
		int32_t child = sched_add(s, 0, at + forks[i].own, 6);
		if (workload_fork(&s->w, parent, child, at, forks[i].live, &s->err)) {
			fprintf(stderr, "forks: %s\n", s->err.text);
			exit(1);
		}
		sched_after(s, parent, child);
	}
}

static char *log_of(const struct policy_desc *d, const struct scene *c)
{
	struct sched s;
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	if (!f)
		exit(1);
	sched_init(&s, d->name, c->params);
	s.cfg.num_blocks = c->num_blocks;
	s.cfg.max_num_seqs = c->forks ? 10 : 5;
	s.cfg.max_num_batched_tokens = c->budget ? c->budget : 16;
	s.cfg.prefix_caching = c->prefix_caching;
	s.cfg.queue_order = c->priority ? QUEUE_PRIORITY : c->order;
	s.cfg.victim = c->victim;
	s.cfg.predictor = (struct predict_config){.kind = PREDICT_NOISY, .sigma = 0.5};
	s.cfg.order.slo_ttft_ns = 100;
	s.cfg.order.quantum = 16;
	s.cfg.order.promote_ns = 500;
	s.cfg.prefix_cache = c->cache;
	s.cfg.prefix_eviction = c->eviction;
	s.cfg.async_scheduling = c->async;
	s.cfg.kv_window = c->kv_window;
	s.cfg.kv_sink = c->kv_sink;
	s.cfg.kv_retention = c->kv_sink ? RETAIN_SINK_WINDOW : c->kv_window ? RETAIN_WINDOW : RETAIN_FULL;
	s.a = 10;
	s.b = 2;
	s.c = 1;
	s.cfg.swap_blocks = c->swap_blocks;
	s.cfg.offload_host_blocks = c->host_blocks;
	s.cfg.offload_disk_blocks = c->disk_blocks;
	s.cfg.kv_transfer = c->transfer;
	s.cfg.kv_prefetch = c->prefetch;
	s.links.page_bytes = 8;
	for (int i = 0; i < N_LINKS; i++)
		s.links.of[i].bytes_per_s = 1000000000;
	add_requests(&s);
	if (c->forks)
		add_forks(&s);
	if (sched_run(&s))
		fprintf(f, "refused: %s\n", s.err.text);
	sched_write(&s, f);
	sched_free(&s);
	fclose(f);
	return text;
}

int main(int argc, char **argv)
{
	bool update = argc > 1 && strcmp(argv[1], "--update") == 0;
	int passed = 0, failed = 0;
	for (int32_t i = 0; i < policy_count(); i++)
		for (size_t k = 0; k < sizeof scenes / sizeof scenes[0]; k++) {
			const struct policy_desc *d = policy_at(i);
			char path[256];
			if (scenes[k].only && strcmp(scenes[k].only, d->name) != 0)
				continue;
			snprintf(path, sizeof path, "tests/golden/%s-%s.log", d->name, scenes[k].name);
			char *got = log_of(d, &scenes[k]);
			if (golden_holds(path, got, update))
				passed++;
			else
				failed++;
			free(got);
		}
	printf("settings: %d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
