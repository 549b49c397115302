/* sglang: a step is a batch of prompts when some may go, else one token for everybody. Which prompts go is decided by how
 * much of them a radix cache has, and how many by a guess at what running requests will still need.
 * Follows: SGLang (Zheng et al., NeurIPS'24), its scheduler of 2024 and 2025 (0.4).
 * Differs: pages are --block-size tokens (there 1 by default: give --block-size 1); dfs_weight falls back to fcfs beyond 128
 * waiting requests as lpm does; retraction stops as soon as the rest fits; a request that is alone is let in even where the
 * guess says no.
 * Parameters: schedule_policy, chunked_prefill_size, schedule_conservativeness, mixed_chunk. */
#include "core/err.h"
#include "core/mem.h"
#include "core/policy.h"
#include "policies/registry.h"
#include "policies/walk.h"

enum order { FCFS, LPM, DFS_WEIGHT };

enum {
	SORTED_MOST = 128, /* waiting requests; with more of them sorting costs more than it brings */
	CLIP = 4096, /* tokens: no request is taken to produce more */
	IN_BATCH = 32, /* tokens: a smaller match makes room for whoever brings the prefix first */
	DECAY_STEPS = 600,
	RETRACT_STEPS = 20, /* decode steps the guess looks ahead after a retraction */
};

struct candidate {
	int32_t req, hit; /* tokens */
	bool put_back;
};

struct sglang {
	enum order order;
	bool mixed, caching;
	bool own_victim; /* who is retracted; else whom --victim says */
	int32_t chunk; /* tokens of prompts per step */
	double start, least, decay; /* of */
	double ratio; /* share of its largest output that a running request is taken to still produce */
	bool full; /* someone did not fit: do not look again before somebody leaves */
	int32_t was_running;
	struct candidate at[SORTED_MOST];
	int32_t n;
};

enum { ORDER, CHUNK, CONSERVATIVENESS, MIXED, N_PARAMS };

static const char *const orders[] = {"fcfs", "lpm", "dfs_weight", NULL};

static const struct policy_param params[N_PARAMS] = {
	[ORDER] = {"schedule_policy", PARAM_ENUM, "lpm", 0, 0, orders,
		   "order of the waiting ones: the queue's, longest cached prefix first, or by subtrees of the cache"},
	[CHUNK] = {"chunked_prefill_size", PARAM_INT, "0", 0, 1 << 30, NULL,
		   "tokens of prompts per step; 0: max_num_batched_tokens, which is the most"},
	[CONSERVATIVENESS] = {"schedule_conservativeness", PARAM_FLOAT, "1", 0.01, 10, NULL,
			      "scales the share of their largest outputs that running requests are taken to need"},
	[MIXED] = {"mixed_chunk", PARAM_BOOL, "off", 0, 0, NULL, "decodes run beside prompts as well"},
};

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	struct sglang *s = mem_zalloc(1, sizeof *s);
	if (!s)
		return err_no_memory(e, "policy sglang");
	/* Levels decide alone: who was stopped for the first of the queue would be let in before it again, being cached. */
	bool sorts = setup->prefix_caching && setup->queue_order != QUEUE_MLFQ;
	s->order = sorts ? (enum order)values[ORDER].i : FCFS;
	s->caching = setup->prefix_caching;
	s->mixed = values[MIXED].i;
	s->chunk = setup->max_num_batched_tokens;
	if (values[CHUNK].i && values[CHUNK].i < s->chunk)
		s->chunk = (int32_t)values[CHUNK].i;
	s->start = 0.7 * values[CONSERVATIVENESS].f;
	s->start = s->start < 1 ? s->start : 1;
	s->least = 0.14 * s->start;
	s->decay = (s->start - s->least) / DECAY_STEPS;
	s->ratio = s->start;
	/* Not steady: the ratio moves with every step. */
	traits->victims = traits->yields = true;
	s->own_victim = setup->victim == VICTIM_DEFAULT;
	*self = s;
	return ERR_NONE;
}

static void destroy(void *self)
{
	mem_free(self);
}

/* --- decodes ------------------------------------------------------------------------------------------------------ */

/* Fewest outputs, then the longest prompt, then the last admitted. */
static int32_t to_retract(const struct sglang *s, const struct plan *p)
{
	int32_t worst = view_running_last(p);
	if (!s->own_victim)
		return view_victim(p);
	for (int32_t r = view_running_prev(p, worst); r >= 0; r = view_running_prev(p, r)) {
		int32_t a = view_outputs(p, r), b = view_outputs(p, worst);
		if (a < b || (a == b && view_prompt(p, r) > view_prompt(p, worst)))
			worst = r;
	}
	return worst;
}

static bool retract_one(struct sglang *s, struct plan *p, int32_t *retracted)
{
	if (view_running(p) < 2 || plan_retract(p, to_retract(s, p)) != PLAN_OK)
		return false;
	s->full = false;
	++*retracted;
	return true;
}

/* What those who stay have shown of their outputs, looking a little ahead. */
static void guess_again(struct sglang *s, const struct plan *p)
{
	int64_t done = 0, most = 0;
	for (int32_t r = view_running_first(p); r >= 0; r = view_running_next(p, r)) {
		done += view_outputs(p, r);
		most += view_max_tokens(p, r);
	}
	s->ratio = (double)(done + (int64_t)RETRACT_STEPS * view_running(p)) / (double)(most + 1);
	s->ratio = s->ratio < 1 ? s->ratio : 1;
}

static int32_t decode(struct sglang *s, struct plan *p)
{
	int32_t retracted = 0;
	while (plan_decodes(p) == PLAN_NO_SPACE) {
		if (!retract_one(s, p, &retracted))
			break;
		guess_again(s, p);
	}
	return retracted;
}

/* --- the order of the waiting ------------------------------------------------------------------------------------- */

/* Those of whom little is cached, but who begin like an earlier one that is: better once that one has brought it. */
static void put_back(struct sglang *s, const struct plan *p)
{
	for (int32_t i = 0; i < s->n; i++)
		for (int32_t k = 0; k < i && s->at[i].hit <= IN_BATCH && !s->at[i].put_back; k++)
			s->at[i].put_back = s->at[k].hit <= IN_BATCH && !s->at[k].put_back &&
					    view_shared_prefix(p, s->at[i].req, s->at[k].req) >= IN_BATCH;
}

static bool goes_before(const struct candidate *a, const struct candidate *b)
{
	return a->put_back != b->put_back ? b->put_back : !a->put_back && a->hit > b->hit;
}

/* Stable; at most SORTED_MOST of them. */
static void sort_by_match(struct sglang *s)
{
	for (int32_t i = 1; i < s->n; i++) {
		struct candidate c = s->at[i];
		int32_t k = i;
		for (; k > 0 && goes_before(&c, &s->at[k - 1]); k--)
			s->at[k] = s->at[k - 1];
		s->at[k] = c;
	}
}

struct subtree {
	int32_t first; /* a candidate in it */
	int32_t size; /* candidates */
	int32_t depth; /* tokens that all of them share */
};

/* Which child of the node at `depth` tokens each of at[from..to) is below: of[i], -1 = its match ends at the node. */
static int32_t find_subtrees(const struct sglang *s, const struct plan *p, int32_t from, int32_t to, int32_t depth,
			     int32_t *of, struct subtree *trees)
{
	int32_t n = 0;
	for (int32_t i = from; i < to; i++) {
		int32_t hit = s->at[i].hit, k = 0, same = 0;
		of[i] = -1;
		if (hit <= depth)
			continue;
		for (; k < n; k++) {
			same = view_shared_prefix(p, s->at[trees[k].first].req, s->at[i].req);
			if (same > depth)
				break;
		}
		if (k == n)
			trees[n++] = (struct subtree){.first = i, .depth = same = hit};
		same = same < hit ? same : hit;
		trees[k].depth = same < trees[k].depth ? same : trees[k].depth;
		trees[k].size++;
		of[i] = k;
	}
	return n;
}

/* Puts at[from..to), which share `depth` cached tokens, in the order of a walk through the cache's tree: subtrees that more
 * of them wait for first, and after its subtrees those whose match ends at the node. */
static void sort_by_subtrees(struct sglang *s, const struct plan *p, int32_t from, int32_t to, int32_t depth)
{
	struct candidate was[SORTED_MOST];
	struct subtree trees[SORTED_MOST];
	int32_t of[SORTED_MOST], at = from;
	int32_t n = find_subtrees(s, p, from, to, depth, of, trees);
	for (int32_t i = from; i < to; i++)
		was[i] = s->at[i];
	for (int32_t left = n; left > 0; left--) {
		int32_t best = 0, begin = at;
		for (int32_t k = 1; k < n; k++)
			if (trees[k].size > trees[best].size)
				best = k;
		for (int32_t i = from; i < to; i++)
			if (of[i] == best)
				s->at[at++] = was[i];
		sort_by_subtrees(s, p, begin, at, trees[best].depth);
		trees[best].size = 0;
	}
	for (int32_t i = from; i < to; i++)
		if (of[i] < 0)
			s->at[at++] = was[i];
}

/* The first waiting ones in the order in which they are to be tried; false: the queue's own. */
static bool put_in_order(struct sglang *s, struct plan *p)
{
	s->n = 0;
	if (s->order == FCFS || view_waiting(p) > SORTED_MOST)
		return false;
	for (int32_t r = view_waiting_first(p); r >= 0; r = view_waiting_next(p, r))
		s->at[s->n++] = (struct candidate){.req = r, .hit = view_prefix_hit(p, r)};
	if (s->order == DFS_WEIGHT) {
		sort_by_subtrees(s, p, 0, s->n, 0);
		return true;
	}
	put_back(s, p);
	sort_by_match(s);
	return true;
}

/* --- prompts ------------------------------------------------------------------------------------------------------ */

/* What is left in this step for prompts: tokens to compute, and tokens of memory by the guess. */
struct room {
	int64_t compute, memory;
};

static int64_t clipped_left(const struct plan *p, int32_t req)
{
	int32_t left = view_max_tokens(p, req) - view_outputs(p, req);
	return left < CLIP ? left : CLIP;
}

static int64_t free_by_guess(const struct sglang *s, const struct plan *p)
{
	int64_t left = 0;
	for (int32_t r = view_running_first(p); r >= 0; r = view_running_next(p, r))
		left += view_is_decoding(p, r) ? clipped_left(p, r) : 0;
	return (int64_t)view_free_blocks(p) * view_block_size(p) - (int64_t)((double)left * s->ratio);
}

/* The prompt that was cut goes on. False: no others in this step. */
static bool go_on(struct sglang *s, struct plan *p, struct room *room)
{
	for (int32_t r = view_prefilling_first(p); r >= 0 && room->compute > 0; r = view_prefilling_next(p, r)) {
		int64_t need = view_need(p, r), n = need < room->compute ? need : room->compute;
		int64_t after = n < need ? 0 : clipped_left(p, r);
		if (n == 0)
			continue;
		if (plan_run(p, r, (int32_t)n) != PLAN_OK) {
			/* Only beside decodes can its memory have gone to others. */
			if (plan_retract(p, r) == PLAN_OK)
				s->full = false;
			return false;
		}
		room->compute -= n;
		room->memory -= n + after;
	}
	return true;
}

/* False: no more in this step. */
static bool let_in(struct sglang *s, struct plan *p, int32_t req, struct room *room)
{
	int32_t bs = view_block_size(p), hit = s->caching ? view_prefix_hit(p, req) : 0;
	/* What of its hit nobody holds yet cannot be evicted any more. */
	int64_t extend = view_tokens(p, req) - hit, tokens = extend,
		held = hit ? (int64_t)view_prefix_idle(p, req) * bs : 0;
	bool alone = view_running(p) == 0;
	if (room->compute <= 0)
		return false;
	if (tokens > room->compute)
		tokens = room->compute >= bs ? room->compute / bs * bs : room->compute;
	s->full = view_places_left(p) == 0 || (!alone && extend + clipped_left(p, req) >= room->memory - held);
	if (s->full && view_places_left(p) > 0)
		plan_blocked(p, WAIT_MEMORY); /* by the guess */
	if (s->full)
		return false;
	int64_t memory = held + (extend + bs - 1) / bs * bs + (tokens < extend ? 0 : clipped_left(p, req));
	struct admit_options o = {.tokens = (int32_t)tokens, .whole_must_fit = true};
	enum plan_status status = plan_admit(p, req, &o);
	s->full = status == PLAN_NO_SPACE;
	room->compute = tokens < extend ? 0 : room->compute - tokens;
	room->memory -= memory;
	return status == PLAN_OK;
}

static void let_some_in(struct sglang *s, struct plan *p, struct room *room)
{
	if (put_in_order(s, p)) {
		for (int32_t i = 0; i < s->n && let_in(s, p, s->at[i].req, room); i++)
			;
		return;
	}
	int32_t next;
	for (int32_t r = view_waiting_first(p); r >= 0; r = next) {
		next = view_waiting_next(p, r);
		if (!let_in(s, p, r, room))
			return;
	}
}

static void prompts(struct sglang *s, struct plan *p)
{
	int32_t retracted = 0;
	/* Before anybody is scheduled: what each has left is the same then, however the engine keeps its books. */
	struct room room = {.compute = s->chunk, .memory = s->full ? 0 : free_by_guess(s, p)};
	if (s->mixed && view_decoding(p) > 0) {
		int64_t budget = view_budget_left(p);
		retracted = decode(s, p);
		room.compute -= budget - view_budget_left(p); /* a token each, */
		room.memory -= budget - view_budget_left(p); /* which has its place */
	}
	if (room.compute > view_budget_left(p))
		room.compute = view_budget_left(p);
	if (!go_on(s, p, &room) || retracted || s->full || view_waiting_first(p) < 0)
		return;
	let_some_in(s, p, &room);
}

static void plan(void *self, struct plan *p)
{
	struct sglang *s = self;
	walk_yield(p);
	if (view_running(p) < s->was_running || view_running(p) == 0)
		s->full = false;
	if (view_running(p) == 0 && view_waiting(p) == 0)
		s->ratio = s->start;
	bool may_prefill = view_prefilling_first(p) >= 0 || (!s->full && view_waiting_first(p) >= 0);
	if (may_prefill)
		prompts(s, p);
	if (!view_planned_any(p) && decode(s, p) == 0 && view_planned_any(p)) {
		s->ratio -= s->decay;
		s->ratio = s->ratio > s->least ? s->ratio : s->least;
	}
	s->was_running = view_running(p);
}

static const struct policy_desc sglang = {
	.abi = POLICY_ABI,
	.size = sizeof(struct policy_desc),
	.name = "sglang",
	.help = "prompts first, those of whom most is cached before others, as many as a guess at outputs allows "
		"(SGLang)",
	.about = "A step computes prompts when some may go, else one token for each running request. Waiting requests "
		 "are "
		 "tried by longest cached prefix (lpm), by subtrees of the cache (dfs_weight) or in order (fcfs, and "
		 "whenever "
		 "more than 128 wait); without prefix caching always in order. They are let in while their tokens and "
		 "largest "
		 "outputs (4096 at most) fit beside a share of what running requests may still produce: 0.7 of it at "
		 "first, "
		 "less with every decode step, down to a seventh of that. When memory runs out the requests with the "
		 "fewest "
		 "outputs are "
		 "retracted to the back of the queue, and the share follows from what the others have produced. "
		 "Follows SGLang "
		 "0.4. Differs: pages are of --block-size tokens (there 1), with --hit-visible commit as there; "
		 "dfs_weight "
		 "beyond 128 waiting, retraction until the rest fits, and a request that is alone is always let in.",
	.params = params,
	.n_params = N_PARAMS,
	.create = create,
	.destroy = destroy,
	.plan = plan,
};

POLICY_REGISTER(sglang);
