/* policy.h: all that a scheduling policy sees and may do. Built-in and dlopen()ed policies use this one interface.
 *
 * A policy is one file exporting one descriptor. Each scheduling round the engine calls plan(); the policy looks at
 * the view (view_...) and acts (plan_...). Every action is checked and applied at once, returns a status, and the view
 * reflects it. What a policy can never see is a request's true output length: only max_tokens.
 *
 * Words: budget = tokens a step may compute; running = requests holding memory; waiting = arrived, holding none;
 * computed = tokens whose KV is written (or will be by the steps in flight); the cohort = running requests whose
 * prompt is computed, each needing exactly one token per step.
 */
#ifndef CORE_POLICY_H
#define CORE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/choices.h"

/* Raised with every change of what is declared here: a plug-in built for another version is refused. */
#define POLICY_ABI 1

struct err;
struct plan; /* the engine, as a policy sees it during a call */

enum param_type { PARAM_INT, PARAM_FLOAT, PARAM_BOOL, PARAM_ENUM, PARAM_DURATION };

/* One parameter. Values are given as name=text and parsed by the registry. */
struct policy_param {
	const char *name;
	enum param_type type;
	const char *fallback; /* the default, as a user would type it */
	double min, max; /* INT, FLOAT; DURATION in seconds */
	const char *const *choices; /* ENUM: NULL-terminated */
	const char *help; /* one line, with the unit */
};

/* A parsed value: INT, BOOL, ENUM (index) and DURATION (ns) in i; FLOAT in f. */
union policy_value {
	int64_t i;
	double f;
};

/* What an instance asks of the engine; filled by create(). */
struct policy_traits {
	bool unbudgeted; /* no token budget: whole prompts, as many as there are */
	bool contiguous; /* memory is one contiguous reservation per request instead of blocks on demand */
	bool steady; /* when a round did nothing but plan_decodes(), the next rounds would do the same until a request
	                    arrives, finishes or finds no block: the engine may take those steps at once */
	bool kv_off_ok; /* can run without a KV cache (whole prompts each step) */
	bool drops; /* plan_drop() is used: a prefix tree, contiguous memory and padding are refused */
	bool pads; /* prompts may be padded */
	bool continues_prompts; /* each round gives every running request whose prompt is not computed its turn, whoever
	                           was let in when: a request may wait for its prefix to come from another tier */
	bool swaps; /* uses plan_swap_out */
	bool whole_prompts; /* never chunks: a prompt beyond the budget can never run and is rejected on arrival */
	bool victims; /* when memory runs out it asks view_victim() who gives way */
	bool yields; /* those running give way to more urgent ones before it plans: view_outranked() */
	const char
		*no_victim; /* when not: why --victim has no meaning for it, "it ..."; NULL = it never takes any back */
	const char *no_order; /* why --scheduling-policy has none, "it ..."; NULL = it takes the queue's order */
};

/* What create() is told of the run. */
struct policy_setup {
	int32_t max_num_seqs, max_num_batched_tokens, max_model_len, block_size, num_blocks;
	int32_t swap_blocks; /* host pages for requests swapped out; 0 = they cannot be */
	bool kv_off, prefix_caching, async_scheduling;
	enum queue_order queue_order;
	enum victim victim;
};

struct policy_desc {
	uint32_t abi; /* POLICY_ABI */
	uint32_t size; /* sizeof(struct policy_desc) */
	const char *name;
	const char *const *aliases; /* further names it is found by, NULL-terminated; NULL = none */
	const char *help; /* one line */
	const char *about; /* a paragraph: what it follows, where it differs */
	const struct policy_param *params;
	int32_t n_params;
	/* values[n_params] are within their ranges. *self is the policy's own memory (mem_alloc). ERR_INPUT for
	 * combinations it cannot do. */
	int (*create)(void **self, const union policy_value *values, const struct policy_setup *setup,
		      struct policy_traits *traits, struct err *e);
	void (*destroy)(void *self);
	void (*on_arrival)(void *self, struct plan *p, int32_t req); /* may be NULL */
	/* A request produced its last token. Here alone plan_hold() is allowed. May be NULL. */
	void (*on_finish)(void *self, struct plan *p, int32_t req);
	void (*plan)(void *self, struct plan *p);
};

/* An instance: made by policies/registry.h, given to engine_create. */
struct policy {
	const struct policy_desc *desc;
	void *self;
	struct policy_traits traits;
};

/* --- the view ------------------------------------------------------------------------------------------------- */

int64_t view_now_ns(const struct plan *p);
int64_t view_step(const struct plan *p);
int64_t view_budget_left(const struct plan *p); /* tokens; INT64_MAX when unbudgeted */
int32_t view_places_left(const struct plan *p); /* max_num_seqs - running */
int32_t
view_free_blocks(const struct plan *p); /* unreferenced ones, cached or not; contiguous: free slots / block_size */
int32_t view_copies_due(
	const struct plan *p); /* blocks that copies of shared pages will take, if nobody lets go of one before */
int32_t view_total_blocks(const struct plan *p);
int32_t view_block_size(const struct plan *p);
int32_t view_max_model_len(const struct plan *p); /* resolved: prompt + output at most */
int32_t view_max_num_seqs(const struct plan *p);
int32_t view_running(const struct plan *p); /* requests holding memory, held and loading ones included */
int32_t view_decoding(const struct plan *p); /* of them, in the cohort */
int32_t view_waiting(const struct plan *p);
int32_t view_swapped(const struct plan *p); /* requests swapped out */
int32_t view_swapped_blocks(const struct plan *p,
			    int32_t req); /* blocks its KV takes in host memory; 0 = it is not there */
int32_t view_swap_free(const struct plan *p); /* host blocks for requests to swap out */
int32_t view_loading(const struct plan *p); /* running requests that wait for their KV to come back */
int64_t view_decode_ctx(const struct plan *p); /* sum of the cohort's contexts, without what was dropped */
bool view_planned_any(const struct plan *p); /* something is scheduled in this step */
uint64_t view_random(struct plan *p); /* the policy's seeded stream */

/* Ordered iterators over running requests: admission order, held rows (their request has ended) and loading ones left out; and over
 * waiting ones: the queue's order. -1 ends.
 * The next of a request stays right after any action on that request itself was planned AFTER asking for it. */
int32_t view_running_first(const struct plan *p);
int32_t view_running_next(const struct plan *p, int32_t req);
int32_t view_running_last(const struct plan *p);
int32_t view_running_prev(const struct plan *p, int32_t req);
/* The running request that is to give way when memory runs out, as --victim has it: the last admitted by default. */
int32_t view_victim(const struct plan *p);
/* A running request that is to give way to the first of the queue, which has no place or no memory; -1: none. Only
 * --scheduling-policy mlfq has such (core/order_mlfq.h). Ask before anything is scheduled, until it is -1. */
int32_t view_outranked(struct plan *p);
int32_t view_waiting_first(const struct plan *p);
int32_t view_waiting_next(const struct plan *p, int32_t req);
/* Requests swapped out, by arrival (with a priority queue: by priority, arrival). */
int32_t view_swapped_first(const struct plan *p);
int32_t view_swapped_next(const struct plan *p, int32_t req);
/* Running requests whose prompt is not yet computed, in admission order. */
int32_t view_prefilling_first(const struct plan *p);
int32_t view_prefilling_next(const struct plan *p, int32_t req);
/* True when every cohort member was admitted before every prefilling request: then planning the cohort first is the
 * same as walking in admission order. */
bool view_decodes_lead(const struct plan *p);

/* One request. */
int64_t view_arrival_ns(const struct plan *p, int32_t req);
int32_t view_prompt(const struct plan *p, int32_t req); /* tokens of its prompt */
int32_t view_max_tokens(const struct plan *p, int32_t req); /* outputs at most, max_model_len respected */
int32_t view_outputs(const struct plan *p, int32_t req); /* produced so far (in flight ones included) */
int32_t view_tokens(const struct plan *p, int32_t req); /* prompt + outputs: what has to be computed */
int32_t view_computed(const struct plan *p, int32_t req);
int32_t view_need(const struct plan *p, int32_t req); /* tokens - computed; 0: nothing to schedule now */
int32_t view_priority(const struct plan *p, int32_t req);
int32_t view_tenant(const struct plan *p, int32_t req);
bool view_is_scheduled(const struct plan *p, int32_t req); /* in this step already */
bool view_is_decoding(const struct plan *p, int32_t req); /* in the cohort */
/* Whole pages it has computed, dropped ones counted: those that plan_drop may name. */
int32_t view_pages(const struct plan *p, int32_t req);
bool view_is_dropped(const struct plan *p, int32_t req, int32_t page);
/* Tokens its next row finds in memory: computed, less those of dropped pages (and padding). */
int32_t view_resident(const struct plan *p, int32_t req);
bool view_was_preempted(const struct plan *p, int32_t req);
/* Tokens with which both prompts begin, in whole blocks, as far as the trace tells. */
int32_t view_shared_prefix(const struct plan *p, int32_t a, int32_t b);
/* Blocks with which both begin, generated tokens included, where a prefix cache gives them to both; at most `most`. */
int32_t view_shared_blocks(const struct plan *p, int32_t a, int32_t b, int32_t most);
/* Tokens of a waiting request that a prefix cache or the family of a fork would give it now (0 without either, or when computed >
 * 0). */
int32_t view_prefix_hit(struct plan *p, int32_t req);
/* Blocks of that hit that nobody holds: free ones as long as they are not hit upon. */
int32_t view_prefix_idle(struct plan *p, int32_t req);

/* --- actions -------------------------------------------------------------------------------------------------- */

enum plan_status {
	PLAN_OK = 0,
	PLAN_NO_SPACE, /* not enough free memory: preempt someone and try again, or stop */
	PLAN_NO_PLACE, /* max_num_seqs are running */
	PLAN_NO_BUDGET, /* the step's tokens are spent */
	PLAN_BAD, /* not allowed: the run ends and says "step 17: policy X scheduled request 3 beyond ..." */
};

struct admit_options {
	int32_t tokens; /* compute at most so many in this step, >= 1; the engine takes what a prefix hit leaves of them */
	bool whole; /* all that is left after the hit, or PLAN_NO_BUDGET */
	int32_t pad; /* padding computed beside them (static batching) and kept in its context */
	int32_t reserve; /* reserve memory for so many tokens now (padding not counted); 0 = for what is computed */
	int32_t keep_free; /* blocks that must stay free afterwards (watermark) */
	bool whole_must_fit; /* memory for the whole prompt must be free now, though only this piece's is taken */
};

/* Takes a waiting request into the running ones and schedules its first piece. */
enum plan_status plan_admit(struct plan *p, int32_t req, const struct admit_options *o);
/* Schedules `tokens` of a running request: a piece of its prompt, or 1 for one that decodes. */
enum plan_status plan_run(struct plan *p, int32_t req, int32_t tokens);
/* Schedules one token for every cohort member not yet scheduled, in admission order, all or nothing, at the cost
 * of what changed. PLAN_NO_SPACE or PLAN_NO_BUDGET: nothing was done; walk and decide one by one. */
enum plan_status plan_decodes(struct plan *p);
/* Releases a running request's memory; it waits again with its outputs kept, at the front (fcfs) or by its key. If it
 * was scheduled in this step, its tokens are refunded. */
enum plan_status plan_preempt(struct plan *p, int32_t req);
/* The same, to the back of the queue (fcfs). */
enum plan_status plan_retract(struct plan *p, int32_t req);
/* Drops pages first ... first + n - 1 of a running request that is not yet scheduled in this step: it no longer attends to
 * their tokens, and blocks nobody else holds are free. Those dropped before are passed over. What is computed stays
 * counted as computed; after a preemption all of it is computed again. Only where the traits say `drops`. */
enum plan_status plan_drop(struct plan *p, int32_t req, int32_t first, int32_t n);
/* Like plan_preempt, but its KV goes to host memory: it is neither waiting nor running until plan_swap_in. Its blocks are
 * free at once. PLAN_NO_SPACE: host memory has too few (counted), or nothing of it is computed. */
enum plan_status plan_swap_out(struct plan *p, int32_t req);
/* Takes a request that is swapped out back among the running ones, admitted last, and schedules its next piece (o->tokens
 * at most, whole, keep_free as for plan_admit). With --kv-transfer overlap nothing is scheduled: until its KV is there
 * it holds its memory and its place but is left out of every iterator. */
enum plan_status plan_swap_in(struct plan *p, int32_t req, const struct admit_options *o);
/* Ends a waiting request for good. */
enum plan_status plan_reject(struct plan *p, int32_t req);
/* In on_finish only: the request's row keeps its memory and keeps computing until plan_release_held. */
enum plan_status plan_hold(struct plan *p, int32_t req);
enum plan_status plan_release_held(struct plan *p);
int32_t view_held(const struct plan *p);
/* Says what those who wait now wait for, where that is not plain: not a refused admission, and there are places and
 * tokens left. */
enum plan_status plan_blocked(struct plan *p, enum wait_cause cause);
/* Asks for another round at t_ns even if nothing happens until then. */
enum plan_status plan_wake_at(struct plan *p, int64_t t_ns);
/* The policy itself cannot go on (it finds no memory, its own books are wrong): the run ends and says "step 17: policy X
 * WHAT". Returns PLAN_BAD. */
enum plan_status plan_fail(struct plan *p, const char *what);

/* --- plug-ins --------------------------------------------------------------------------------------------------- */

/* The one symbol that a plug-in exports: a file ends with POLICY_PLUGIN(its descriptor). docs/plugin-policies.md. */
extern const struct policy_desc lockstep_policy;
#define POLICY_PLUGIN(desc)                                                                                            \
	extern const struct policy_desc lockstep_policy __attribute__((alias(#desc), visibility("default")))

#endif
