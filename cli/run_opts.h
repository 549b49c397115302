/* run_opts.h: the options of every command that runs a workload (replay, compare), and the arms they describe. An arm
 * is one complete set of settings; compare's lists ("--max-num-seqs 64,256 --kv-cache off,on") make the cross product
 * of them. */
#ifndef CLI_RUN_OPTS_H
#define CLI_RUN_OPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/run.h"
#include "cli/command.h"
#include "cli/trace_opts.h"

struct err;

#define ARMS_MAX 64 /* a longer list is a slip of the keyboard */

extern const char *const onoff_names[], *const hit_visible_names[];

/* What serves the trace: X(field of struct arm, text field, name, type, form, arg, min, max, choices, help). `type` is
 * that of one value, `form` how a command line gives it: OPT_LIST or OPT_SWITCH. */
/* clang-format off */
#define SERVING_DIMENSIONS(X) \
	X(s.model, model, "model", OPT_STRING, OPT_LIST, "MODEL", 0, 0, NULL, \
	  "The model: a name (lockstep capacity --list) or the path of a Hugging Face config.json.") \
	X(s.device, device, "device", OPT_STRING, OPT_LIST, "DEVICE", 0, 0, NULL, \
	  "The device: a name (lockstep capacity --list) or the path of a JSON file.") \
	X(s.cost, cost, "cost-model", OPT_STRING, OPT_LIST, "COST", 0, 0, NULL, \
	  "How long a step takes: roofline (default), profiled[:ID] (lockstep profile), linear:a=5ms,b=20us,c=1ms,d=10ns " \
	  "or constant:10ms.") \
	X(s.engine.max_num_seqs, max_num_seqs, "max-num-seqs", OPT_INT32, OPT_LIST, "N", 1, 1 << 20, NULL, \
	  "Most requests running at once. Default 256.") \
	X(s.engine.max_num_batched_tokens, max_num_batched_tokens, "max-num-batched-tokens", OPT_INT32, OPT_LIST, "N", \
	  1, INT32_MAX, NULL, "Tokens a step may compute, for policies with a budget. Default 2048.") \
	X(s.engine.max_model_len, max_model_len, "max-model-len", OPT_INT32, OPT_LIST, "N", 1, INT32_MAX, NULL, \
	  "Longest prompt + output. Default: what the model allows and the KV memory holds, whichever is less.") \
	X(chunked_prefill, enable_chunked_prefill, "enable-chunked-prefill", OPT_STRING, OPT_SWITCH, NULL, 0, 0, \
	  onoff_names, "May a prompt be computed in pieces? For policies that know it. Default on.") \
	X(long_prefill, long_prefill_token_threshold, "long-prefill-token-threshold", OPT_STRING, OPT_LIST, "N", 0, 0, \
	  NULL, "Most tokens of one prompt per step, 0 = no cap. For policies that know it. Default 0.") \
	X(scheduling_policy, scheduling_policy, "scheduling-policy", OPT_STRING, OPT_LIST, "ORDER", 0, 0, \
	  queue_order_names, "Order of the waiting requests: fcfs (default), priority, sjf (the fewest predicted outputs first), " \
	  "edf (the earliest deadline, by --goodput ttft:MS), fair[:input=1,output=2] (among tenants) or " \
	  "mlfq[:levels=6,quantum=512,promote=30s] (levels that a request sinks through).") \
	X(predictor, predictor, "predictor", OPT_STRING, OPT_LIST, "PREDICTOR", 0, 0, NULL, \
	  "How sjf and longest-left guess output lengths: max (what a request may produce at most), oracle, noisy:SIGMA (the " \
	  "truth with a relative error) or mean (of its tenant's so far).") \
	X(s.engine.victim, victim, "victim", OPT_CHOICE, OPT_LIST, "WHO", 0, 0, victim_names, \
	  "Who gives way when memory runs out: last (admitted), shortest, longest-left, lowest-priority or least-work-lost. " \
	  "Default: the policy's own way, mostly last.") \
	X(s.engine.async_scheduling, async_scheduling, "async-scheduling", OPT_ONOFF, OPT_SWITCH, NULL, 0, 0, \
	  onoff_names, "Plan the next step while one runs. Default off.") \
	X(kv_cache, kv_cache, "kv-cache", OPT_ONOFF, OPT_SWITCH, NULL, 0, 0, onoff_names, \
	  "off computes every token of a request again in every step. Default on.") \
	X(s.engine.prefix_caching, enable_prefix_caching, "enable-prefix-caching", OPT_ONOFF, OPT_SWITCH, NULL, 0, 0, \
	  onoff_names, "Share the KV blocks of equal prompt beginnings, where the trace tells them. Default off.") \
	X(s.engine.prefix_cache, prefix_cache, "prefix-cache", OPT_CHOICE, OPT_LIST, "off|hash|radix", 0, 0, \
	  prefix_cache_names, "Which one: hash, block by block (vLLM), or radix, a tree (SGLang). Default off, or hash with " \
	  "--enable-prefix-caching.") \
	X(s.engine.prefix_eviction, prefix_eviction, "prefix-eviction", OPT_CHOICE, OPT_LIST, \
	  "lru|lfu|fifo|leaf-lru|cost-aware", 0, 0, prefix_eviction_names, \
	  "What goes first from the prefix cache when room is needed: what was used longest ago, least often, came first, a " \
	  "whole leaf of the tree, or what costs least to compute again. Default lru, for radix leaf-lru.") \
	X(s.engine.cache_salt, cache_salt, "cache-salt", OPT_CHOICE, OPT_LIST, "none|tenant|session", 0, 0, \
	  cache_salt_names, "Only requests of one tenant, or session, share what is in the prefix cache. Default none: all do.") \
	X(cache_generated, cache_generated, "cache-generated", OPT_ONOFF, OPT_SWITCH, NULL, 0, 0, onoff_names, \
	  "Are generated tokens kept in the prefix cache, as prompts are? Default on.") \
	X(s.engine.hit_visible, hit_visible, "hit-visible", OPT_CHOICE, OPT_LIST, "alloc|commit", 0, 0, \
	  hit_visible_names, "When others may share a block: once it is allocated (vLLM), or computed (radix: always). Default alloc.") \
	X(s.engine.block_size, block_size, "block-size", OPT_INT32, OPT_LIST, "N", 1, 4096, NULL, \
	  "Tokens per KV block. Default 16.") \
	X(s.num_gpu_blocks_override, num_gpu_blocks_override, "num-gpu-blocks-override", OPT_INT32, OPT_LIST, "N", 1, \
	  INT32_MAX, NULL, "KV blocks of the device, instead of what is computed to fit.") \
	X(s.swap_space, swap_space, "swap-space", OPT_DOUBLE, OPT_LIST, "GiB", 0, 1 << 20, NULL, \
	  "Host memory for requests that are swapped out, for policies that swap (vllm_v0:preemption_mode=swap). Default 0.") \
	X(s.kv_offload_host, kv_offload_host, "kv-offload-host", OPT_DOUBLE, OPT_LIST, "GiB", 0, 1 << 20, NULL, \
	  "Host memory for prefixes that the prefix cache evicts: they are found there again (LMCache, HiCache, vLLM's " \
	  "--kv-offloading-size). Default 0.") \
	X(s.kv_offload_disk, kv_offload_disk, "kv-offload-disk", OPT_DOUBLE, OPT_LIST, "GiB", 0, 1 << 20, NULL, \
	  "Disk for what that host memory has no more room for. Default 0.") \
	X(s.engine.kv_prefetch, kv_prefetch, "kv-prefetch", OPT_ONOFF, OPT_SWITCH, NULL, 0, 0, onoff_names, \
	  "As a request arrives, read what its prompt begins with from disk to host memory, while it waits (HiCache). " \
	  "Default off.") \
	X(s.engine.kv_transfer, kv_transfer, "kv-transfer", OPT_CHOICE, OPT_LIST, "sync|overlap", 0, 0, \
	  kv_transfer_names, "Copies of KV between tiers of memory: each step waits for them (sync, default), or they go on " \
	  "beside it, and a request whose KV is on its way waits alone (overlap).") \
	X(s.kv_host_bandwidth, kv_host_bandwidth, "kv-host-bandwidth", OPT_DOUBLE, OPT_LIST, "GB/s", 0.001, 1e6, NULL, \
	  "sim: speed of the link between device and host memory, each direction. Default: host_gb_s of the device.") \
	X(s.kv_host_latency, kv_host_latency, "kv-host-latency", OPT_DOUBLE, OPT_LIST, "US", 0, 1e6, NULL, \
	  "sim: microseconds a copy over that link takes beside its bytes. Default 10.") \
	X(s.kv_disk_bandwidth, kv_disk_bandwidth, "kv-disk-bandwidth", OPT_DOUBLE, OPT_LIST, "GB/s", 0.001, 1e6, NULL, \
	  "sim: speed between host memory and disk, each direction. Default 5.") \
	X(s.kv_disk_latency, kv_disk_latency, "kv-disk-latency", OPT_DOUBLE, OPT_LIST, "US", 0, 1e7, NULL, \
	  "sim: microseconds a copy to or from disk takes beside its bytes. Default 100.") \
	X(s.gpu_memory_utilization, gpu_memory_utilization, "gpu-memory-utilization", OPT_DOUBLE, OPT_LIST, "F", 0.01, \
	  1, NULL, "Share of the device's memory to use. Default 0.9.") \
	X(s.weight_dtype, weight_dtype, "weight-dtype", OPT_STRING, OPT_LIST, "TYPE", 0, 0, NULL, \
	  "How the weights are held: auto (default), fp32, bf16, fp8, int8, int4, mxfp4 or nf4.") \
	X(s.kv_dtype, kv_cache_dtype, "kv-cache-dtype", OPT_STRING, OPT_LIST, "TYPE", 0, 0, NULL, \
	  "How the KV cache is held: auto (default), bf16, fp32, fp8 or int8.") \
	X(s.engine.kv_retention, kv_retention, "kv-retention", OPT_CHOICE, OPT_LIST, "full|window|sink-window", 0, 0, \
	  kv_retention_names, "Which tokens of a running request stay in memory: all (default), the last ones, or the first " \
	  "and the last ones. docs/kv-compression.md.") \
	X(s.engine.kv_window, kv_window, "kv-window", OPT_INT32, OPT_LIST, "N", 1, INT32_MAX, NULL, \
	  "How many last tokens. Default: the model's sliding window, where all of its layers have one.") \
	X(s.engine.kv_sink, kv_sink, "kv-sink", OPT_INT32, OPT_LIST, "N", 1, INT32_MAX, NULL, \
	  "sink-window: how many first tokens.") \
	X(s.tensor_parallel, tensor_parallel_size, "tensor-parallel-size", OPT_INT32, OPT_LIST, "N", 1, 1024, NULL, \
	  "Devices that hold one model together, each a part of every matrix and of the KV heads, and sum up what they have "  \
	  "over their links (Megatron-style). Default 1.") \
	X(s.replicas, replicas, "replicas", OPT_INT32, OPT_LIST, "N", 1, 1024, NULL, \
	  "Servers that share the traffic, each a whole of what is described here. Default 1.") \
	X(s.fleet, fleet, "fleet", OPT_STRING, OPT_LIST, "GROUPS", 0, 0, NULL, \
	  "Replicas that differ, in place of --replicas and --device: 2xh100-sxm:max-num-seqs=64+1xl40s. docs/replicas.md.") \
	X(s.router, router, "router", OPT_STRING, OPT_LIST, "ROUTER", 0, 0, NULL, \
	  "Which replica gets a request: round_robin (default), random, least_outstanding, least_tokens, power_of_two, " \
	  "prefix_affinity or session_affinity: docs/replicas.md.") \
	X(router_staleness, router_staleness, "router-staleness", OPT_DOUBLE, OPT_LIST, "MS", 0, 1e9, NULL, \
	  "How old the router's view of the replicas' loads may be, in milliseconds. Default 0.") \
	X(s.engine.max_concurrency, max_concurrency, "max-concurrency", OPT_INT32, OPT_LIST, "N", 0, INT32_MAX, NULL, \
	  "The client sends no more requests than that at once; the others wait at the client, and their latency counts " \
	  "from when they were meant to arrive. Default 0: no limit.") \
	X(s.abort_after_s, abort_after, "abort-after", OPT_DOUBLE, OPT_LIST, "SECONDS", 0, 1e9, NULL, \
	  "The client gives up a request that has not ended so long after it was meant to arrive; it counts as aborted. " \
	  "Default 0: never.")

/* What runs it. */
#define BACKEND_DIMENSIONS(X) \
	X(s.backend, backend, "backend", OPT_CHOICE, OPT_LIST, "sim|cpu|cuda|replay", 0, 0, \
	  run_backend_names, \
	  "sim (default): a virtual clock and a cost model. cpu: real kernels on this machine. cuda: on its NVIDIA GPU, " \
	  "docs/gpu.md. replay: the recorded times " \
	  "of an executed run, --run.") \
	X(s.weights, weights, "weights", OPT_STRING, OPT_LIST, "WEIGHTS", 0, 0, NULL, \
	  "cpu, cuda: random:SEED (default random:1), a folder or file of safetensors, or a .bin of llama2.c.") \
	X(s.threads, threads, "threads", OPT_INT32, OPT_LIST, "N", 0, 1024, NULL, "cpu: threads. Default 0: all there are.") \
	X(s.isa, isa, "isa", OPT_STRING, OPT_LIST, "base|avx2|avx512", 0, 0, NULL, \
	  "cpu: instruction set of our kernels. Default: the best this machine has.") \
	X(s.exec_time, time, "time", OPT_CHOICE, OPT_LIST, "warp|wall", 0, 0, exec_time_names, \
	  "cpu, cuda: warp (default) skips times when there is nothing to run, wall waits for arrivals.") \
	X(s.kv_cache_memory_bytes, kv_cache_memory_bytes, "kv-cache-memory-bytes", OPT_INT64, OPT_LIST, "N", 1, 1e15, NULL, \
	  "cpu, cuda: memory of the KV cache. Default: 4 GiB, or a quarter of what is free where that is less; cuda: what " \
	  "--gpu-memory-utilization leaves.") \
	X(s.kv_offload_dir, kv_offload_dir, "kv-offload-dir", OPT_STRING, OPT_LIST, "DIR", 0, 0, NULL, \
	  "cpu, cuda: folder for the file that --kv-offload-disk writes; it has no name and is gone with the run. Default: " \
	  "TMPDIR, else /tmp.") \
	X(s.enforce_eager, enforce_eager, "enforce-eager", OPT_ONOFF, OPT_SWITCH, NULL, 0, 0, onoff_names, \
	  "cuda: start each kernel of a decode step by itself, instead of replaying recorded graphs. Default off.") \
	X(s.batch_invariant, batch_invariant, "batch-invariant", OPT_ONOFF, OPT_SWITCH, NULL, 0, 0, onoff_names, \
	  "cpu: what a request's tokens are does not depend on the requests beside it, to the last bit. Default off.") \
	X(s.ignore_eos, ignore_eos, "ignore-eos", OPT_ONOFF, OPT_SWITCH, NULL, 0, 0, onoff_names, \
	  "cpu, cuda: outputs are as long as the trace says, whatever is sampled. off: an end-of-sequence token ends them sooner. " \
	  "Default on.") \
	X(s.sampling.temperature, temperature, "temperature", OPT_DOUBLE, OPT_LIST, "T", 0, 100, NULL, \
	  "cpu, cuda: 0 (default) samples greedily.") \
	X(s.sampling.top_k, top_k, "top-k", OPT_INT32, OPT_LIST, "N", 0, INT32_MAX, NULL, \
	  "cpu, cuda: sample among the N most likely tokens. Default 0: all.") \
	X(s.sampling.top_p, top_p, "top-p", OPT_DOUBLE, OPT_LIST, "P", 0, 1, NULL, \
	  "cpu, cuda: sample among the most likely tokens that together reach P. Default 1: all.")

#define RUN_DIMENSIONS(X) SERVING_DIMENSIONS(X) BACKEND_DIMENSIONS(X)

#define RUN_TEXT_FIELD(field, text, name, type, form, arg, min, max, choices, help) const char *text;
struct run_texts {
	RUN_DIMENSIONS(RUN_TEXT_FIELD)
};

/* Of a command line that is read again: which of its arms is wanted, and where the plug-in lies that is its policy. */
struct stored_plugin {
	int32_t arm;
	const char *path; /* NULL: none */
};

struct run_opts {
	struct trace_opts trace;
	struct stored_plugin stored;
	const char *policies;
	struct run_texts texts;
	bool check;
	struct words goodput;
	const char *metric_percentiles;
	int32_t record; /* enum run_record */
	const char *db;
	bool no_db, save_result, save_detailed, json, quiet;
	bool watch; /* of replay alone */
	bool one_of_seeds; /* of several that a command tries: its run is stored as if asked for alone */
	const char *result_dir, *result_filename;
};

#define RUN_TEXT_OPT(T, m, text_, name_, form_, arg_, choices_, help_) \
	{.name = name_, .type = form_, .offset = offsetof(T, m.texts.text_), .arg = arg_, .choices = choices_, \
	 .help = help_},
/* clang-format on */

/* The option tables; T is the command's options struct, which holds a struct run_opts called run. */
#define RUN_DIMENSION_ROW(field, text, name, type, form, arg, min, max, choices, help)                                 \
	RUN_TEXT_OPT(RUN_OPTS_STRUCT, run, text, name, form, arg, choices, help)
/* clang-format off */
#define RUN_REPORT_OPTS(T, m) \
	{.name = "goodput", .type = OPT_WORDS, .offset = offsetof(T, m.goodput), .arg = "METRIC:MS", \
	 .help = "Service level objectives: ttft:500 tpot:50 e2el:20000 (any of them, milliseconds). Requests that meet " \
		 "all of them count as goodput. Of a class alone: chat/ttft:200, priority=1/e2el:60000."}, \
	{.name = "metric-percentiles", .type = OPT_STRING, .offset = offsetof(T, m.metric_percentiles), .arg = "P,P", \
	 .help = "Percentiles to report. Default 99."}, \
	{.name = "check", .type = OPT_FLAG, .offset = offsetof(T, m.check), \
	 .help = "Verify every invariant of the scheduler and the memory after every step. Slow."}, \
	{.name = "record", .type = OPT_CHOICE, .offset = offsetof(T, m.record), .choices = run_record_names, \
	 .help = "What the database keeps beside the run's figures: every request (default), every step too, or nothing."}, \
	{.name = "db", .type = OPT_STRING, .offset = offsetof(T, m.db), .arg = "FILE", \
	 .help = "The SQLite database that runs are stored in. Default lockstep.db."}, \
	{.name = "no-db", .type = OPT_FLAG, .offset = offsetof(T, m.no_db), .help = "Store nothing."}, \
	{.name = "save-result", .type = OPT_FLAG, .offset = offsetof(T, m.save_result), \
	 .help = "Write a JSON file with the keys of `vllm bench serve`."}, \
	{.name = "save-detailed", .type = OPT_FLAG, .offset = offsetof(T, m.save_detailed), \
	 .help = "The same with every request's lengths, TTFT and inter-token gaps."}, \
	{.name = "result-dir", .type = OPT_STRING, .offset = offsetof(T, m.result_dir), .arg = "DIR", \
	 .help = "Folder of that file. Default: the current one."}, \
	{.name = "result-filename", .type = OPT_STRING, .offset = offsetof(T, m.result_filename), .arg = "NAME", \
	 .help = "Its name. Default: made of policy, rate, model and date. Several runs: the run's label is put into it."}, \
	{.name = "json", .type = OPT_FLAG, .offset = offsetof(T, m.json), \
	 .help = "Print one JSON object instead of text."}, \
	{.name = "quiet", .type = OPT_FLAG, .offset = offsetof(T, m.quiet), .letter = 'q', \
	 .help = "Print nothing but errors."}
/* clang-format on */

/* Everything but the policies; a command defines RUN_OPTS_STRUCT before it lists them. */
#define RUN_OPTS                                                                                                       \
	{.name = "What serves it", .type = OPT_TITLE},                                                                 \
		SERVING_DIMENSIONS(RUN_DIMENSION_ROW){.name = "What runs it", .type = OPT_TITLE},                      \
		BACKEND_DIMENSIONS(RUN_DIMENSION_ROW){.name = "The trace", .type = OPT_TITLE},                         \
		TRACE_READ_OPTS(RUN_OPTS_STRUCT, run.trace), TRACE_RANDOM_OPTS(RUN_OPTS_STRUCT, run.trace),            \
		{.name = "What is made of it", .type = OPT_TITLE}, TRACE_SHAPE_OPTS(RUN_OPTS_STRUCT, run.trace),       \
		{.name = "What is reported", .type = OPT_TITLE}, RUN_REPORT_OPTS(RUN_OPTS_STRUCT, run)

void run_opts_default(struct run_opts *o);

/* What o says of reporting alone, into s. ERR_INPUT. */
int run_opts_reports(struct run_settings *s, const struct run_opts *o, struct err *e);

/* One complete set of settings. */
struct arm {
	struct run_settings s;
	bool kv_cache, cache_generated;
	double router_staleness;
	const char *scheduling_policy, *predictor, *chunked_prefill, *long_prefill; /* as typed, or NULL */
	char *policy, *params, *label, *device; /* what s points at */
};

struct arms {
	struct arm *at; /* [n] */
	int32_t n;
	char **texts; /* single values cut out of the lists: settings point at them */
	int64_t n_texts, cap_texts;
};

/* The arms that o describes, in the order of the lists, the policies' slowest. `several` = lists are allowed. Everything
 * that can be checked without the trace is. ERR_INPUT. Release with arms_free, also after an error. */
int arms_make(struct arms *a, const struct run_opts *o, bool several, struct err *e);
void arms_free(struct arms *a);

#endif
