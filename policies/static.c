/* static, also called naive: static batching. A batch is formed when nothing is running, padded to its longest prompt, and runs until its last
 * request has finished; only then does the next one start.
 * Follows: FasterTransformer-style serving, the baseline of Orca and of most lectures.
 * Differs: tokens count as delivered when they are produced, not when the batch ends.
 * Parameters: batch_timeout, pad, hold_finished, reserve. */
#include "core/err.h"
#include "core/mem.h"
#include "core/policy.h"
#include "policies/registry.h"

struct static_batching {
	int64_t batch_timeout_ns;
	bool pad, hold_finished, reserve, kv_off;
};

enum { BATCH_TIMEOUT, PAD, HOLD_FINISHED, RESERVE, N_PARAMS };

static const struct policy_param params[N_PARAMS] = {
	[BATCH_TIMEOUT] = {"batch_timeout", PARAM_DURATION, "0", 0, 3600, NULL,
			   "wait so long, from the first request's arrival, for a full batch; 0 = go at once"},
	[PAD] = {"pad", PARAM_BOOL, "on", 0, 0, NULL, "pad every prompt to the longest of its batch"},
	[HOLD_FINISHED] = {"hold_finished", PARAM_BOOL, "on", 0, 0, NULL,
			   "finished rows keep computing and holding memory until the batch ends"},
	[RESERVE] = {"reserve", PARAM_BOOL, "on", 0, 0, NULL,
		     "reserve contiguous memory for prompt and most outputs; off: blocks on demand"},
};

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	if (setup->prefix_caching && values[PAD].i)
		return err_set(
			e, ERR_INPUT,
			"policy static: padding moves every token, so prefixes cannot be shared: use pad=off with "
			"--enable-prefix-caching");
	struct static_batching *n = mem_zalloc(1, sizeof *n);
	if (!n)
		return err_no_memory(e, "policy static");
	n->batch_timeout_ns = values[BATCH_TIMEOUT].i;
	n->pad = values[PAD].i;
	n->hold_finished = values[HOLD_FINISHED].i;
	n->reserve = values[RESERVE].i;
	n->kv_off = setup->kv_off;
	traits->unbudgeted = true;
	traits->contiguous = n->reserve;
	traits->steady = true;
	traits->victims = !n->reserve;
	traits->no_victim = "it reserves memory and never takes any back; static:reserve=off does";
	traits->kv_off_ok = true;
	traits->pads = n->pad;
	*self = n;
	return ERR_NONE;
}

static void destroy(void *self)
{
	mem_free(self);
}

static void on_finish(void *self, struct plan *p, int32_t req)
{
	if (((const struct static_batching *)self)->hold_finished)
		plan_hold(p, req);
}

static void run_batch(struct plan *p)
{
	/* Only without a reservation can memory run out: one of the batch waits for the next one. */
	while (plan_decodes(p) == PLAN_NO_SPACE)
		if (plan_preempt(p, view_victim(p)) != PLAN_OK)
			return;
	for (int32_t r = view_prefilling_first(p); r >= 0; r = view_prefilling_next(p, r))
		if (plan_run(p, r, view_need(p, r)) != PLAN_OK)
			return;
}

static int64_t blocks_of(const struct static_batching *n, const struct plan *p, int32_t req, int32_t longest)
{
	int64_t bs = view_block_size(p), tokens = n->pad ? longest : view_tokens(p, req);
	if (n->reserve)
		tokens += view_prompt(p, req) + view_max_tokens(p, req) - view_tokens(p, req);
	return (tokens + bs - 1) / bs;
}

/* Blocks of the first `count` waiting requests, padded to `longest`. */
static int64_t batch_blocks(const struct static_batching *n, const struct plan *p, int32_t count, int32_t longest)
{
	int64_t blocks = 0;
	for (int32_t r = view_waiting_first(p); count-- > 0; r = view_waiting_next(p, r))
		blocks += blocks_of(n, p, r, longest);
	return blocks;
}

/* How many of the waiting requests fit into memory together, and their longest prompt. */
static int32_t batch_size(const struct static_batching *n, const struct plan *p, int32_t *longest)
{
	int32_t count = 0;
	int64_t blocks = 0;
	*longest = 0;
	for (int32_t r = view_waiting_first(p); r >= 0 && count < view_places_left(p); r = view_waiting_next(p, r)) {
		int32_t longer = view_tokens(p, r) > *longest ? view_tokens(p, r) : *longest;
		/* A longer prompt pads all others anew. */
		blocks = n->pad && longer > *longest ? batch_blocks(n, p, count, longer) : blocks;
		blocks += blocks_of(n, p, r, longer);
		if (!n->kv_off && blocks > view_free_blocks(p))
			break;
		*longest = longer;
		count++;
	}
	return count;
}

static void start_batch(const struct static_batching *n, struct plan *p)
{
	int32_t longest, count = batch_size(n, p, &longest);
	int32_t next;
	/* Fair queues turn as somebody is served: the next may then be none, and the batch is smaller. */
	for (int32_t r = view_waiting_first(p); r >= 0 && count-- > 0; r = next) {
		struct admit_options o = {.tokens = INT32_MAX, .whole = true};
		next = view_waiting_next(p, r);
		if (n->pad)
			o.pad = longest - view_tokens(p, r);
		if (n->reserve)
			o.reserve = view_prompt(p, r) + view_max_tokens(p, r);
		if (plan_admit(p, r, &o) != PLAN_OK)
			return;
	}
}

static void plan(void *self, struct plan *p)
{
	const struct static_batching *n = self;
	if (view_running(p) > view_held(p))
		run_batch(p);
	/* When all that still decoded gave way to rows that are held, the batch is over as well. */
	if (view_running(p) > view_held(p))
		return;
	plan_release_held(p);
	int32_t first = view_waiting_first(p);
	if (first < 0)
		return;
	int64_t go_ns = view_arrival_ns(p, first) + n->batch_timeout_ns;
	if (view_waiting(p) < view_max_num_seqs(p) && view_now_ns(p) < go_ns)
		plan_wake_at(p, go_ns);
	else
		start_batch(n, p);
}

static const char *const aliases[] = {"naive", NULL};

static const struct policy_desc static_batching = {
	.abi = POLICY_ABI,
	.size = sizeof(struct policy_desc),
	.name = "static",
	.aliases = aliases,
	.help = "static batching: a batch runs until its last request has finished (FasterTransformer)",
	.about = "When nothing is running, up to max_num_seqs waiting requests whose prompt and most outputs fit into "
		 "memory "
		 "form a batch. Prompts are padded to the longest; a finished request's row keeps computing until the "
		 "batch "
		 "ends: the bucket effect that continuous batching removes. Also called naive.",
	.params = params,
	.n_params = N_PARAMS,
	.create = create,
	.destroy = destroy,
	.on_finish = on_finish,
	.plan = plan,
};

POLICY_REGISTER(static_batching);
