/* run.h: one run, from settings to figures. Every command that runs anything (replay, compare, later ones) goes through
 * run_execute(), so that the same settings and workload give the same answer through every entry point. */
#ifndef ANALYSIS_RUN_H
#define ANALYSIS_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/metrics.h"
#include "core/engine.h"
#include "core/err.h"
#include "core/request.h"
#include "core/workload.h"
#include "exec/backend.h"
#include "exec/tape.h"

struct executor;
struct profile;
struct store;

enum run_record { RECORD_REQUESTS, RECORD_STEPS, RECORD_NONE }; /* --record */
extern const char *const run_record_names[]; /* "requests", "steps", "none", NULL: for OPT_CHOICE */

enum run_backend {
	BACKEND_SIM, /* virtual clock, predicted step times */
	BACKEND_CPU, /* real kernels on this machine's CPU */
	BACKEND_CUDA, /* on its NVIDIA GPU */
	BACKEND_REPLAY, /* the recorded inputs of an earlier run */
};
extern const char *const run_backend_names[]; /* "sim", "cpu", "cuda", "replay", NULL */
bool run_backend_executes(enum run_backend b); /* does it run kernels? */

/* Everything that makes a run repeatable. Strings belong to the caller; NULL where not given. Start from
 * run_settings_default(). The workload itself is given apart, loaded and shaped. */
struct run_settings {
	/* The workload. */
	const char *trace_path, *trace_format;
	const char *trace_hash; /* digest of the file, as hexadecimal text */
	uint64_t workload_hash; /* workload_hash() of what is really run */
	int64_t num_prompts; /* --num-prompts; 0 = all */
	double request_rate; /* asked: requests/s, INFINITY = all at once; 0 = the trace's own times */
	double burstiness; /* 1 = Poisson, INFINITY = even spacing; only with request_rate */
	double replay_speedup; /* of the trace's times; 1 */
	double length_scale; /* 1 */
	int32_t samples; /* of each prompt; 1 */
	int32_t beam_width, beam_every; /* 1: no beam search */
	const char *max_tokens_mode; /* "max", "pow2", "oracle" or a number */
	uint64_t seed;
	const char *traffic_note; /* what else was done to the workload, or NULL: "turns 0 and 1, prompt <= 1024" */

	/* What serves it. */
	const char *policy, *policy_params; /* policies/registry.h; params "a=1,b=off" or NULL */
	const char *policy_path, *policy_digest; /* of a plug-in (analysis/plugin.h), absolute; NULL: it is built in */
	const char *model, *device; /* name or path of a spec */
	const char *weight_dtype, *kv_dtype; /* NULL: the model's own; "auto" */
	int32_t tensor_parallel; /* 1 */
	int32_t replicas; /* 1 */
	const char *fleet; /* analysis/fleet.h: how they differ; `replicas` are so many. NULL: they do not */
	const char *router; /* sim/router.h; NULL: there is none, with one replica */
	int64_t router_stale_ns; /* how old its view of loads may be; 0 */
	const char *cost; /* "roofline" (NULL too), "linear:...", "constant:..." : sim/cost_models.h */
	const struct profile *profile; /* cost "profiled": the measured tables (sim/profile.h); outlives the run */
	double gpu_memory_utilization; /* 0.9 */
	int32_t num_gpu_blocks_override; /* 0 = what fits */
	double abort_after_s; /* engine.abort_after_ns, in seconds; 0 = never */
	double swap_space; /* GiB of host memory for requests swapped out; 0 = none */
	double kv_offload_host, kv_offload_disk; /* GiB for what the prefix cache evicts; 0 = none is kept */
	const char *kv_offload_dir; /* executor: folder of the file that is the disk; NULL = TMPDIR, else /tmp */
	double kv_host_bandwidth; /* GB/s, each direction, in simulation; 0 = what the device's specification says */
	double kv_host_latency; /* microseconds a copy takes beside its bytes, in simulation; 10 */
	double kv_disk_bandwidth, kv_disk_latency; /* the same between host memory and disk; 0 = 5 GB/s; 100 */
	struct engine_config
		engine; /* num_blocks, swap_blocks, offload_..._blocks and model_max_len are filled by run_execute */

	/* What runs it. */
	enum run_backend backend;
	const char *weights; /* executor: exec/weights.h; NULL = "random:1" */
	const char *tokenizer; /* executor: path or NULL */
	int32_t threads; /* executor: 0 = all */
	const char *isa; /* executor: NULL = the best there is */
	enum exec_time exec_time;
	bool batch_invariant; /* executor */
	bool ignore_eos; /* executor: outputs have the trace's length whatever is sampled; true */
	struct sampling sampling; /* executor; greedy */
	int64_t kv_cache_memory_bytes; /* executor: KV arena; 0 = 4 GiB or what is there; cuda: gpu_memory_utilization says */
	bool enforce_eager; /* cuda: no graphs */
	const struct tape *tape; /* BACKEND_REPLAY: what to play */

	/* What is reported. */
	struct goodput_slo slo;
	struct percentiles percentiles;
	enum run_record record;
	bool save_detailed; /* keep every token's time (8 bytes each) */
	const char *label; /* how compare calls the run; NULL: the policy's name */
	const char *arguments; /* the command line as typed, a JSON array of strings; NULL: not stored */
	int32_t arm; /* which of that command line's runs this is */
	int64_t started_unix_s; /* date of the run, from the caller; 0 = none */
};

void run_settings_default(struct run_settings *s);

enum run_status {
	RUN_RUNNING, /* in the database only: never came to an end (killed) or is still going */
	RUN_COMPLETE,
	RUN_INTERRUPTED, /* by SIGINT or SIGTERM: figures are of what was done until then */
	RUN_STALLED, /* could not go on; status_text names who holds what */
	RUN_FAILED, /* status_text says why */
};
const char *run_status_name(enum run_status s);

struct run_result {
	int64_t run_id; /* in the database; 0 = not stored */
	enum run_status status;
	char status_text[1024];
	double sim_wall_s; /* the step loop alone, wall clock */

	int64_t n;
	struct request *requests; /* [n]; NULL after run_result_drop_requests */
	int64_t *token_at; /* save_detailed: [n + 1], request i's tokens are token_ns[token_at[i] ..] */
	int64_t *token_ns;

	struct engine_stats stats;
	struct engine_config engine; /* as resolved: max_model_len, num_blocks */
	struct metrics metrics;
	char *policy_params; /* all of them with their values */
	const char *backend; /* "simulator", "cpu", "cuda", "replay" */
	char backend_what[192]; /* executor: kernels, libraries, threads; "" otherwise */
	char weights_what[160];
	uint64_t decision_hash; /* of the decision log, where it was walked (executor, replay, io->event); else 0 */
	uint64_t memory_hash; /* of all block tables' changes alone (block events), likewise */
	struct tape tape; /* executor: everything the engine took from outside */
	int32_t *output_ids; /* executor: token ids of request i at output_ids[output_at[i] .. output_at[i + 1]) */
	int64_t *output_at; /* [n + 1] */
	int64_t weight_bytes,
		kv_bytes_per_token; /* of one device; 0 where the model has no say (num_gpu_blocks given, cost linear) */
	bool lengths_estimated, oracle;

	struct err store_err; /* the run is fine, but could not be stored */
};

/* What runs one after another share. All zero at first; run_kept_close at the end. */
struct run_kept {
	struct executor
		*executor; /* the model that was loaded last: used again where it fits, else closed before another is */
	int64_t memory_bytes; /* what was free before the first was loaded, by which all count their KV blocks; 0 = not asked */
};
void run_kept_close(struct run_kept *k);

struct run_io {
	const volatile int *stop; /* polled; non-zero: status interrupted. May be NULL */
	void (*progress)(void *ctx, int64_t ended, int64_t total);
	/* How it stands, all replicas together: in simulation as often as some more requests have ended, on real kernels after
	 * every step. May be NULL, and costs nothing then. */
	void (*look)(void *ctx, int64_t ended, int64_t total, const struct engine_glance *now);
	void *ctx;
	struct store *store; /* NULL: not stored */
	struct executor *executor; /* a loaded model to use when it fits (analysis/executor.h); NULL: one is opened */
	struct run_kept *kept; /* where one that was opened stays for the next run; NULL: it is closed */
	/* Before the first step: the engine, to be looked at in the calls below; of several replicas each, in their order. May be
	 * NULL. */
	void (*engine)(void *ctx, const struct engine *g);
	/* Every line of the decision log, every step: for who wants to look on. Each may be NULL. */
	void (*event)(void *ctx, const struct event *ev);
	void (*step)(void *ctx, const struct step_row *row);
	/* Puts a backend before the one that serves the run (*b, which stays run_execute's and outlives it), to look at every
	 * batch or to let the engine see other times; *b becomes the outer one, which run_execute closes. What is recorded is
	 * what the engine took from the outer one. Called for each replica, in their order. May be NULL. */
	int (*stand_before)(void *ctx, struct backend *b, struct err *e);
};

/* Runs w as s says. ERR_NONE: *r is filled, to be released with run_result_free; its status is complete or interrupted
 * (a stop is not an error here). Otherwise *e says what is wrong; when the run had begun, *r is filled as far as it got
 * (status stalled or failed), else zero: run_result_free is right in either case.
 * A database that fails does not stop the run: see store_err. */
int run_execute(const struct run_settings *s, const struct workload *w, const struct run_io *io, struct run_result *r,
		struct err *e);
void run_result_free(struct run_result *r);
/* Bytes of KV written into blocks although another block held the same: copies in a hash cache, given back by a tree. 0
 * where the model's bytes are not known. */
static inline int64_t run_prefix_wasted_bytes(const struct run_result *r)
{
	return r->stats.duplicate_blocks * r->engine.block_size * r->kv_bytes_per_token;
}
/* Keeps the figures, releases the per-request arrays: compare does this after each run. */
void run_result_drop_requests(struct run_result *r);

#endif
