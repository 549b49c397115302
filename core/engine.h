/* engine.h: the one scheduler loop, as a re-entrant state machine that knows neither clock nor device.
 *
 *   engine_run(e, backend)           one replica, the loop to read first (core/run.c)
 *   engine_begin(e, now) ... engine_end(e, result)     the same, taken apart, for an event heap over many engines
 *
 * An engine works on a workload that outlives it and on a struct request array [workload.n] that several engines may
 * share (each request is served by one of them). */
#ifndef CORE_ENGINE_H
#define CORE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/backend.h"
#include "core/batch.h"
#include "core/choices.h"
#include "core/predict.h"
#include "core/prefix.h"
#include "core/record.h"
#include "core/request.h"
#include "core/retention.h"
#include "core/workload.h"

struct err;
struct engine;
struct policy;
struct policy_setup;
struct source;

/* Copies between tiers of memory: every step waits for those begun before it, or they go on beside it (core/tiers.h). */
enum kv_transfer { KV_TRANSFER_SYNC, KV_TRANSFER_OVERLAP };
extern const char *const kv_transfer_names[]; /* "sync", "overlap", NULL */
enum hit_visible { HIT_VISIBLE_ALLOC, HIT_VISIBLE_COMMIT };

struct engine_config {
	int32_t max_num_seqs; /* most requests holding memory at once */
	int32_t max_num_batched_tokens; /* a step's token budget, for policies that have one */
	int32_t max_model_len; /* prompt + output at most; 0 = what the KV memory holds, capped by model_max_len */
	int32_t model_max_len; /* the model's own limit; 0 = none */
	int32_t block_size; /* tokens per KV block */
	int32_t num_blocks; /* KV blocks of the device */
	int32_t swap_blocks; /* host pages for requests swapped out (core/tiers.h); 0 = none are */
	enum kv_transfer kv_transfer;
	/* Pages for what the prefix cache evicts: in host memory, and on disk behind it; 0 = none is kept. */
	int32_t offload_host_blocks, offload_disk_blocks;
	bool kv_prefetch; /* what a request's prompt begins with is read ahead from disk to host memory as the request arrives */
	int32_t window; /* sliding window for batch.decode_ctx_window, tokens; 0 = none */
	bool kv_off; /* no KV cache: every step computes every token again (--kv-cache off) */
	bool prefix_caching; /* some prefix cache; prefix_cache says which, PREFIX_OFF then means hash */
	enum prefix_cache prefix_cache; /* other than off: prefix_caching follows */
	enum prefix_eviction prefix_eviction; /* what goes first from it; resolved to a rule */
	enum cache_salt cache_salt; /* who shares with whom */
	bool cache_prompts_only; /* generated tokens are not remembered */
	enum hit_visible hit_visible; /* a radix tree takes in what is computed: commit, whatever is asked */
	enum kv_retention kv_retention;
	int32_t kv_window; /* tokens kept behind each row, itself counted; 0 with full */
	int32_t kv_sink; /* first tokens kept; 0 unless sink-window */
	enum queue_order queue_order;
	struct order_params order; /* of it */
	struct predict_config predictor; /* of output lengths, for orders and victims that go by them */
	enum victim victim;
	bool async_scheduling; /* plan step t+1 while step t runs */
	bool single_steps; /* never take several uniform steps at once (tests) */
	bool exact_walk; /* never take the uniform fast path at all (tests) */
	bool check; /* verify every invariant after every step */
	int32_t max_concurrency; /* client side: requests in flight at most; 0 = no limit */
	int64_t abort_after_ns; /* client side: a request that has not ended so long after its intended arrival is given
	                           up, at the first clock reading from then on; 0 = never */
	uint64_t seed; /* of the policy's random stream and of the predictor's errors */
	int16_t replica;
};

/* vLLM's defaults where it has one: 256 sequences, 2048 tokens, blocks of 16. num_blocks stays 0. */
void engine_config_default(struct engine_config *c);

/* Fills in what follows from the rest (max_model_len) and checks what does not depend on the policy: ERR_INPUT names the
 * values that do not fit together. engine_create does it as well; call it earlier to tell a policy the result. */
int engine_config_resolve(struct engine_config *c, struct err *e);

/* Is there a prefix cache? Of a configuration that is not resolved yet as well. */
bool engine_config_caches(const struct engine_config *c);
/* Does anything go by the predictor? */
bool engine_config_predicts(const struct engine_config *c);

/* What a policy's create() is told of a resolved configuration. */
void engine_policy_setup(const struct engine_config *c, struct policy_setup *out);

/* Totals of a run so far. */
struct engine_stats {
	int64_t steps; /* executed */
	int64_t first_ns, end_ns; /* start of the first step, end of the last */
	int64_t busy_ns; /* sum of step durations */
	int64_t host_ns;
	int64_t outside_steps; /* steps the cost model had to extrapolate, and how far at most */
	double outside_max;
	int64_t finished, rejected, aborted;
	int64_t preemptions, recomputed_tokens; /* swaps are preemptions, too */
	int64_t swaps; /* requests swapped out */
	int64_t swap_refused; /* for want of host pages: computed again instead */
	int64_t swap_out_blocks, swap_in_blocks;
	/* Contents that the prefix cache evicted: pages saved in host memory, moved on to disk, dropped from the last tier, and
	 * those for which there was no place; pages brought back from each tier. */
	int64_t saved_blocks, demoted_blocks, cold_dropped_blocks, unsaved_blocks;
	int64_t host_hit_blocks, disk_hit_blocks;
	int64_t prefetched_blocks; /* read from disk ahead of their request: found in host memory then, unless they left again */
	int64_t cold_hit_tokens; /* of prefix_hit_tokens, those found behind the device */
	int64_t transfer_ns; /* steps only waited for copies between tiers */
	int64_t prompt_tokens_computed; /* prefill tokens, padding not counted; recomputation included */
	int64_t pad_tokens; /* padding and held rows: work whose result nobody reads */
	int64_t output_tokens;
	int64_t wasted_tokens; /* asynchronous scheduling: computed past an end nobody knew of */
	/* Prefix cache, first admissions only. */
	int64_t prefix_lookups, prefix_hits; /* requests; those of them that found something */
	int64_t prefix_lookups_tokens, prefix_hit_tokens;
	int64_t prefix_lookups_blocks; /* prompts in blocks, partial last ones included */
	/* Forks: admissions that took over more from their family than a prefix cache had; tokens beyond that, on first admissions; pages
	 * copied because several held them. */
	int64_t forks, forked_tokens, copied_blocks;
	int64_t evicted_blocks; /* cached blocks whose content was dropped for new use */
	int64_t dropped_blocks,
		dropped_tokens; /* taken out of running requests' tables by --kv-retention or a policy */
	int64_t duplicate_blocks; /* filled with content that another block had: a tree gives them back, copies in a hash cache
	                             stay. Of generated tokens one that comes in the step in which the earlier one goes
	                             may count or not */
	int32_t max_running, max_waiting, max_blocks_used, max_swap_used;
	/* Waste, time-weighted over the run, in slot x nanoseconds (divide by kv_slot_ns for the share). */
	double kv_slot_ns; /* all slots x busy time */
	double kv_token_ns; /* slots that hold a token's KV */
	double kv_internal_ns; /* allocated, but never to be used (tail of a last block; reserved past the true end) */
	double kv_reserved_ns; /* reserved for tokens that are still to come */
	double kv_shared_ns; /* slots that are not taken because blocks are shared: (tables that hold one - 1) x block size */
	double kv_external_ns; /* contiguous manager: free, but in holes too small for the head of the queue */
};

/* How it stands, for who looks on while it runs. */
struct engine_glance {
	int64_t now_ns; /* the last clock reading */
	int32_t running, waiting; /* requests that hold memory; that arrived and hold none */
	int32_t blocks_used, blocks_cached, num_blocks;
	int64_t finished, steps, output_tokens, prompt_tokens, preemptions; /* so far; prompt tokens as computed */
};
void engine_glance(const struct engine *g, struct engine_glance *out);
/* Of several replicas: sums, and the latest reading. */
void engine_glance_add(struct engine_glance *to, const struct engine_glance *one);

/* Of several replicas: counts are added, "most" figures are those of the one that had most. */
void engine_stats_add(struct engine_stats *to, const struct engine_stats *one);

/* Engine over w with `policy` (policies/registry.h makes one; it stays the caller's). `requests` is [w->n], zeroed.
 * Configuration errors (a budget below max_num_seqs, ...) are ERR_INPUT and name both values. */
int engine_create(struct engine **out, const struct engine_config *c, const struct workload *w,
		  struct request *requests, struct source *src, struct policy *policy, const struct recorder *rec,
		  struct err *e);
void engine_free(struct engine *e);

enum engine_next { ENGINE_BATCH, ENGINE_IDLE, ENGINE_DONE };

/* Takes in what has arrived by now_ns. engine_begin does it as well; who drives several engines calls it before, since a
 * rejection may let others arrive at the same moment. */
int engine_ingest(struct engine *g, int64_t now_ns, struct err *e);
/* Gives up those who have been with their client for abort_after_ns, when nobody more arrives at now_ns; *any: they may have
 * let others in. Called and repeated as engine_ingest is. */
int engine_give_up(struct engine *g, int64_t now_ns, bool *any, struct err *e);

/* One scheduling round at clock reading now_ns: takes in arrivals, lets the policy plan.
 * ENGINE_BATCH: *batch is to be run (valid until the matching engine_end).
 * ENGINE_IDLE: nothing to run before *until_ns (INT64_MAX: until a request is pushed into the source).
 * ENGINE_DONE: every request of the source has ended.
 * A stall is ERR_STALL: the text names who holds what. */
int engine_begin(struct engine *g, int64_t now_ns, enum engine_next *next, const struct batch **batch,
		 int64_t *until_ns, struct err *e);

/* Commits the oldest batch begun and not yet ended. */
int engine_end(struct engine *g, const struct step_result *res, struct err *e);

/* Copies between tiers (core/tiers.h). Whoever drives the engine asks, at the clock reading that engine_begin gets next and
 * before it, what has become of those under way, and starts those that were planned right after it, before the batch is
 * submitted. Both cost nothing when there are none. */
int engine_transfers_done(struct engine *g, struct backend *b, int64_t now_ns, struct err *e);
int engine_start_transfers(struct engine *g, struct backend *b, struct err *e);
bool engine_transfers_open(const struct engine *g);

/* Ends a request from outside at now_ns, whatever it is doing; ERR_INPUT when it has ended already. */
int engine_abort(struct engine *g, int32_t req, int64_t now_ns, enum request_why why, struct err *e);

/* The loop of one replica. `stop` (may be NULL) is polled between steps: non-zero ends the run with
 * ERR_INTERRUPTED; `progress` (may be NULL) is called now and then with the number of requests ended. */
struct run_hooks {
	const volatile int *stop;
	void (*progress)(void *ctx, int64_t ended, int64_t total);
	void *ctx;
	int64_t every; /* ended requests between two calls of progress; 0 = 1024 */
};
int engine_run(struct engine *g, struct backend *b, const struct run_hooks *hooks, struct err *e);

const struct workload *engine_workload(const struct engine *g);
const struct request *engine_request(const struct engine *g, int32_t req);
void engine_stats(const struct engine *g, struct engine_stats *out);
const struct engine_config *engine_config(const struct engine *g); /* with defaults resolved */

int64_t engine_count_ended(const struct engine *g); /* finished, rejected or aborted so far */
/* Requests ended in the last engine_end or engine_begin (rejections), for whoever drives the engine. */
const int32_t *engine_ended(const struct engine *g, int32_t *n);

/* The block table of a running request: ids[0 .. *n); KV_NO_BLOCK where a page was dropped. */
const int32_t *engine_block_table(const struct engine *g, int32_t req, int32_t *n);
/* Is its content known, so that a prefix may be found in it? Of a paged pool with a cache. */
bool engine_block_known(const struct engine *g, int32_t block);

/* Time in which somebody waited, so far, by what the first of the queue waited for; and what it has waited for since the last
 * scheduling round. */
void engine_waited(const struct engine *g, int64_t sum_ns[WAIT_CAUSES]);
enum wait_cause engine_waits_for(const struct engine *g);

/* Who holds what, one line each, into buf (always terminated). For stall reports and debuggers. */
void engine_describe(const struct engine *g, char *buf, int64_t size);

#endif
