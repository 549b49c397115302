/* engine_state.h: what the engine's own files share; nobody else includes it (tests of invariants apart).
 *
 * A running request lives in a slot. Slots are on the running list (admission order) and on one of the lists
 * prefilling, cohort or held. The cohort is advanced lazily: a member's `computed` and `outputs` are exact at tick
 * `base_tick` and have grown by one with every tick since (cohort.h). In the flat mode (asynchronous scheduling, decision
 * logs, tests) there are no ticks: every step walks its rows and the fields are always exact.
 */
#ifndef CORE_ENGINE_STATE_H
#define CORE_ENGINE_STATE_H

#include "core/cohort.h"
#include "core/content.h"
#include "core/engine.h"
#include "core/err.h"
#include "core/kv_contig.h"
#include "core/kv_pool.h"
#include "core/kv_radix.h"
#include "core/policy.h"
#include "core/queue.h"
#include "core/rng.h"
#include "core/source.h"
#include "core/tiers.h"

enum slot_part { PART_FREE = 0, PART_PREFILL, PART_COHORT, PART_HELD, PART_LOADING /* waits for pages */ };

/* The blocks of one running request, in the order of its tokens. */
struct block_table {
	int32_t *ids; /* [n] KV_NO_BLOCK: dropped */
	int32_t n;
	int64_t cap;
};

struct slot {
	int32_t bucket_prev; /* its next is in engine.bucket_next */
	int32_t bucket; /* -1: never needs a block (contiguous) */
	int32_t computed; /* tokens whose KV is there or being written by steps in flight */
	int32_t outputs; /* tokens produced or being produced by steps in flight */
	int32_t pad; /* padding before its prompt, part of its context */
	uint8_t part; /* enum slot_part */
	int64_t base_tick;
	int64_t order; /* admission number */

	int32_t req; /* index into the workload */
	int32_t prompt; /* tokens */
	int32_t bound; /* outputs at which it ends: the trace's length and every limit */
	int32_t max_out; /* the same without the trace's secret: what policies may know */
	int32_t emitted; /* tokens that have come out; flat mode and prefilling only */
	int32_t peak; /* most tokens computed before a preemption: below it, work is recomputation */
	int32_t run_next, run_prev; /* running list; run_next also chains free slots */
	int32_t part_next, part_prev; /* list of its part */

	int32_t fresh_at; /* place in cohort.fresh: its last token came at last_ns, not with the last tick; -1 = it did not */
	int32_t sched_row; /* its row in */
	int64_t sched_step; /* the step it is scheduled in, -1 */
	int64_t last_ns;
	int32_t dropped; /* tokens whose pages are gone: computed, but no longer attended to */
	int32_t expired; /* pages that --kv-retention has looked at */
	uint32_t epoch; /* grows when the slot is emptied: rows in flight of an earlier tenant are void */

	int64_t load_ns; /* loading: since when */
	int32_t load_pages; /* so many of those it knows are on their way from behind the device; 0 = swapped in */
	bool swap_decodes; /* its prompt was computed when it was swapped out */

	int32_t known_pages; /* prefix caching: identities of its pages, so many of them so far: slot_content() is there */
	int32_t keep_tokens; /* of them may be remembered before it ends */

	/* Forks (fork.c). */
	int32_t inherited; /* tokens at its front whose KV was there when it was admitted: nothing is written before */
	int32_t next_fork; /* tokens at which a live fork of it starts next; INT32_MAX = none */
	int32_t most_bequeathed; /* tokens of it that can be left to forks; INT32_MAX = all */
	bool tail_shared; /* others may hold the block that its next token goes to */
};

/* One scheduled piece of work. */
struct row {
	int32_t slot; /* -1: refunded (preempted in the step that scheduled it) */
	uint32_t epoch;
	int32_t tokens;
	int32_t chunk; /* its index in chunks; -1 = a decode */
	bool completes; /* after it every token of the request is computed */
	bool samples; /* a token comes out */
};

/* A request that goes on in the step that brings its pages back (core/tiers.h: sync). */
struct back {
	int32_t slot;
	uint32_t epoch;
};

struct pending_page { /* hit_visible = commit: remembered at the step's end */
	int32_t block, slot;
	uint32_t epoch;
	int32_t page; /* its place in the table */
	uint64_t key;
};

/* What memory held while a step ran. */
struct snapshot {
	int32_t used, cached; /* blocks */
	int32_t waiting;
	int64_t tokens; /* slots that hold a token's KV, shared ones once */
	int64_t reserved; /* slots reserved for tokens still to come */
	int64_t external; /* free slots in holes too small for the head of the queue */
	int64_t shared; /* blocks that are not taken because others are shared */
};

struct step {
	struct batch batch;
	int64_t now_ns;
	int64_t number;
	struct row *rows;
	int64_t n_rows, cap_rows;
	struct chunk *chunks;
	int64_t cap_chunks;
	struct pending_page *pages;
	int64_t n_pages, cap_pages;
	struct back *back;
	int64_t n_back, cap_back;
	struct page_copy *copies;
	int64_t cap_copies; /* batch.n_copies of them */
	bool uniform; /* the whole cohort ran, as one */
	int32_t cohort_rows; /* cohort members scheduled one by one */
	int32_t acts; /* successful actions other than plan_decodes */
	int32_t preempted;
	int32_t joined; /* requests that joined the cohort with this step */
	bool was_empty; /* the cohort was, before they did */
	bool refunded; /* some rows are void */
	struct snapshot mem;
};

/* Memory, summed over the running requests; updated where it changes, weighted by time at each step's end. */
struct holdings {
	int64_t resident; /* computed + padding, less what was dropped */
	int64_t pad; /* padding alone */
	int64_t final_kv; /* tokens whose KV they will have written in the end */
};

/* Memory in use x nanoseconds, exact. */
struct usage {
	__int128 token, reserved, external; /* slots */
	__int128 used, shared; /* blocks */
};

/* What the waiting wait for: core/waits.c. */
struct waits {
	int64_t sum_ns[WAIT_CAUSES]; /* while somebody waited, so far */
	int64_t at_ns; /* up to then */
	enum wait_cause cause; /* since then */
	enum plan_status refused; /* the last admission that this round's plan tried in vain */
	int64_t first_new; /* admission number of the first that this round lets in */
	uint8_t told; /* by the policy, in this round: the cause + 1 */
};

/* The blocks of a request that has let go of them: what is left of them may serve its forks. */
struct bequest {
	int32_t *ids; /* [n] */
	uint32_t *taken; /* [n] kv_pool.taken of each: another value, and it holds something else */
	int32_t n;
	int32_t tokens;
};

struct forks { /* all NULL where the workload has none */
	int32_t *of; /* [w->n] parent, -1 = no fork */
	int32_t *unborn; /* [w->n] its forks that were neither admitted nor ended */
	struct bequest **left; /* [w->n] NULL = nothing */
	bool share; /* they share blocks: a paged pool, no tree */
	int32_t n_tails; /* slots with tail_shared */
	int32_t *tail_count, *tail_tokens; /* [num_blocks] for adding up shared tails; 0 in between */
	/* The fork that went to the queue's front last, and when. */
	int32_t front;
	int64_t front_ns;
};

struct engine {
	struct engine_config cfg;
	const struct workload *w;
	struct request *requests;
	struct source *src;
	struct policy *policy;
	struct recorder rec;
	struct err fault; /* what a policy did wrong, or memory that ran out within an action */

	bool flat; /* no lazy cohort */
	bool contiguous; /* memory manager */
	bool in_finish; /* on_finish is running: plan_hold allowed */
	bool planning;
	bool drops; /* pages of running requests may be dropped */
	bool may_repeat; /* nothing in how it is set up stands against taking equal steps at once */
	bool reserves_ahead; /* some request holds blocks beyond what it has computed */
	bool contig_misfit; /* the head found only holes too small in this step */
	bool budget_capped; /* max_model_len was lowered to what a step's budget can compute whole */

	struct slot *slots;
	/* What a decode tick touches lies apart from the slots, dense. */
	struct block_table *tables; /* [n_slots] */
	int32_t *bucket_next; /* [n_slots] the next in a slot's bucket, -1 = none */
	struct content_walk
		*contents; /* [n_slots] prefix caching: identities of a slot's pages, as far as they are known */
	int32_t n_slots, free_slot, n_running;
	int32_t *slot_of; /* [w->n], -1 */
	struct slot_list running, prefilling, held;
	struct cohort cohort;
	int64_t held_ctx; /* sum of the held rows' contexts, which go on growing */
	int64_t held_ticks; /* steps they have gone on for; a held slot's base_tick is on this scale */
	int64_t next_order;

	struct predictor predictor;
	struct wait_queue waiting;
	struct waits waits;
	int64_t *preempted_at; /* [w->n] and */
	int32_t *peak; /* [w->n]: made at the first preemption */

	struct kv_pool pool;
	struct kv_contig contig;
	struct forks forks;
	struct holdings hold;
	struct tiers tiers;

	/* The last prefix lookup, reused while it cannot have changed: a blocked head is asked about at every step. */
	struct {
		int32_t req; /* -1 = none */
		int32_t pages, unreferenced;
		int32_t cold; /* pages after them that are in other tiers */
		int32_t tokens; /* whose KV is in these pages */
		int32_t cached; /* of them the prefix cache has (the rest: another of the family) */
		uint64_t missed; /* the page it stopped at; 0 = all were there */
		uint64_t changes;
		/* The last request turned away for want of memory, and the free blocks it would have taken; no fewer will do
		 * until the pool's growth changes. */
		int32_t blocked_req, blocked_need, blocked_tokens, blocked_reserve;
		bool blocked_whole;
		uint64_t blocked_growth;
	} hit;
	uint64_t *keys; /* of pages on their way into the tree */
	int64_t cap_keys;
	int32_t *hit_blocks;
	int64_t cap_hit_blocks;

	struct step steps[2];
	int64_t begun, ended; /* steps */
	int64_t event_step; /* the step that events belong to now */
	int64_t now_ns;
	int64_t budget;
	int64_t wake_ns;
	struct rng rng;

	int32_t *ended_list; /* requests ended in this call */
	int64_t n_ended, cap_ended;
	int32_t *
		arrived; /* [n_arrived] with abort_after_ns: in order of arrival; those before first_arrived have ended */
	int64_t n_arrived, cap_arrived, first_arrived;
	int32_t *finished; /* slots that end with this step */
	int64_t n_finished, cap_finished;

	struct usage usage;
	struct engine_stats stats;
	/* Preemptions since a token last came out or a request ended (which was progress number `progress`). */
	int64_t barren, progress;
};

/* The step being planned. */
static inline struct step *engine_step(struct engine *g)
{
	return &g->steps[g->begun & 1];
}

static inline bool engine_shares(const struct engine *g)
{
	return g->cfg.prefix_caching || g->forks.share;
}

static inline struct block_table *slot_table(const struct engine *g, const struct slot *s)
{
	return &g->tables[s - g->slots];
}

static inline struct content_walk *slot_content(const struct engine *g, const struct slot *s)
{
	return &g->contents[s - g->slots];
}

static inline int32_t slot_computed(const struct engine *g, const struct slot *s)
{
	return s->part == PART_COHORT && !g->flat ? s->computed + (int32_t)(g->cohort.tick - s->base_tick)
						  : s->computed;
}

/* Tokens of its context that are in memory. */
static inline int32_t slot_resident(const struct engine *g, const struct slot *s)
{
	return slot_computed(g, s) + s->pad - s->dropped;
}

static inline int32_t slot_outputs(const struct engine *g, const struct slot *s)
{
	return s->part == PART_COHORT && !g->flat ? s->outputs + (int32_t)(g->cohort.tick - s->base_tick) : s->outputs;
}

static inline void engine_event(struct engine *g, enum event_kind kind, int64_t at_ns, int32_t req, int64_t a,
				int64_t b)
{
	if (!g->rec.event)
		return;
	struct event ev = {.kind = kind,
			   .step = g->event_step,
			   .at_ns = at_ns,
			   .req = req,
			   .replica = g->cfg.replica,
			   .a = a,
			   .b = b};
	g->rec.event(g->rec.ctx, &ev);
}

static inline struct engine *plan_engine(const struct plan *p)
{
	return (struct engine *)(uintptr_t)p;
}

static inline struct plan *engine_plan(struct engine *g)
{
	return (struct plan *)g;
}

/* slots.c: lists and places of running requests */
int slots_init(struct engine *g, struct err *e);
void slots_free(struct engine *g);
int32_t slot_take(struct engine *g, int32_t req); /* -1: out of memory, in g->fault */
void slot_give(struct engine *g, int32_t slot); /* off every list; its memory is released before */
void slot_list_add(struct engine *g, struct slot_list *l, int32_t slot); /* by admission order */
void slot_list_drop(struct engine *g, struct slot_list *l, int32_t slot);

/* fork.c: requests that begin with what another has computed share its blocks; who first writes into a shared block copies
 * it. */
int fork_init(struct engine *g, struct err *e);
void fork_free(struct engine *g);
/* Looks for a longer beginning of a waiting request than g->hit has, in the blocks of its family. */
int fork_look_up(struct engine *g, int32_t req);
/* It was admitted and holds the blocks of g->hit, tokens of them are written. */
void fork_born(struct engine *g, struct slot *s);
/* It will never be admitted, or was for the first time. */
void fork_not_unborn(struct engine *g, int32_t req);
/* The next `tokens` tokens of s go to a block that others hold: it has to be copied. */
bool fork_must_copy(const struct engine *g, const struct slot *s, int32_t tokens);
/* Copies that one after another will take: 1 for each that must copy, but for the last holder, who then has the block for
 * itself. fork_counted ends the counting. */
int32_t fork_copies(struct engine *g, const struct slot *s);
void fork_counted(struct engine *g);
int fork_write(struct engine *g, struct slot *s, int32_t tokens); /* before they are scheduled: copies where it must */
/* s was not to run in this step after all. */
void fork_refund(struct engine *g, struct slot *s);
void fork_drop(struct engine *g, struct slot *s); /* before its blocks are released */
/* The tokens at which the first live fork of req beyond `computed` starts. */
int32_t fork_next(const struct engine *g, int32_t req, int32_t computed);
/* So many tokens of s are computed: forks that wait for no more become ready. */
int fork_reached(struct engine *g, struct slot *s, int32_t computed, int64_t end_ns, struct err *e);
/* Slots of shared tails that are counted more than once, less those that whole shared blocks account for. */
int64_t fork_tail_slots(const struct engine *g);
/* The intended arrival of a request that became ready at arrival_ns. */
int64_t fork_arrival(const struct engine *g, int32_t req, int64_t arrival_ns);

/* memory.c: a slot's KV memory, whichever manager holds it */
int memory_init(struct engine *g, struct err *e);
void memory_free(struct engine *g);
int memory_table_room(struct engine *g, struct slot *s, int32_t n); /* for n more blocks */
int memory_append(struct engine *g, struct slot *s, int32_t n); /* n more blocks; the caller checked they are free */
/* For `tokens` more: what memory_lacks says it lacks. */
int memory_extend(struct engine *g, struct slot *s, int32_t tokens);
/* Another block takes the place of one that others hold, too. */
int32_t memory_replace(struct engine *g, struct slot *s, int32_t page); /* gives back that one */
int memory_share(struct engine *g, struct slot *s, const int32_t *blocks, int32_t n);
void memory_release(struct engine *g, struct slot *s);
/* Pages first ... end - 1 of its table are given back, but for those that have gone before; every sum follows. How many. */
int32_t memory_drop(struct engine *g, struct slot *s, int32_t first, int32_t end);
int32_t memory_used(const struct engine *g);
int32_t memory_free_blocks(const struct engine *g);
/* Blocks it lacks to hold `tokens` more: memory_blocks new ones, and one for a copy of its last. */
int32_t memory_blocks(const struct engine *g, const struct slot *s, int32_t tokens);
int32_t memory_lacks(const struct engine *g, const struct slot *s, int32_t tokens);
/* Remembers the content of its pages that are full once `computed` tokens are there; at the step's end if only
 * committed content is visible. A tree takes in generated tokens when the request ends. */
int memory_remember(struct engine *g, struct slot *s, int32_t computed, struct step *st);
int memory_commit(struct engine *g, struct step *st);
/* A request ends with so many tokens computed. */
int memory_ends(struct engine *g, struct slot *s, int32_t computed);
/* Pages of a waiting request that are cached now or that its family holds, into g->hit and g->hit_blocks. */
int memory_look_up(struct engine *g, int32_t req);

/* The pages its `computed` tokens fill came back from another tier: they are known at once. */
int memory_restore(struct engine *g, struct slot *s);
/* The last load_pages of the pages it knows have come from behind the device. */
int memory_loaded(struct engine *g, struct slot *s);

/* plan_close.c: turns what was planned into a batch */
int plan_close(struct engine *g, struct step *st, struct err *e);

/* emit.c: what a finished step means for each request */
int emit_step(struct engine *g, struct step *st, const struct step_result *res, struct err *e);
/* When the next request is to be given up, and when the next thing happens that no step brings about: INT64_MAX = never. */
int64_t engine_next_abort_ns(struct engine *g);
int64_t engine_next_event_ns(struct engine *g);
int engine_note_ended(struct engine *g, int32_t req, int64_t now_ns, struct err *e);

/* actions.c */
enum plan_status action_bad(struct engine *g, int32_t req, const char *what);
struct slot *action_slot(struct engine *g, int32_t req); /* NULL = it does not run */
int32_t slot_emitted(const struct engine *g, const struct slot *s); /* tokens that have come out */
int32_t slot_final_kv(const struct slot *s);
/* One token of a cohort member, a piece of a prompt of another; memory and budget are there. */
enum plan_status slot_schedule(struct engine *g, struct slot *s, int32_t tokens);
/* A piece of a prompt; `pad` is computed beside it in this step. */
enum plan_status slot_schedule_piece(struct engine *g, struct slot *s, int32_t tokens, int32_t pad);

/* admit.c */
/* Its place and limits as a running request; its state, outputs and times are the caller's. */
void slot_begin(struct engine *g, struct slot *s);
void slot_resume_times(struct engine *g, struct slot *s); /* it was preempted until now */

/* preempt.c */
void slot_leave(struct engine *g, struct slot *s); /* off its part's list and sums; fields made exact */
void slot_drop(struct engine *g, struct slot *s); /* the same, its memory released and its place given back */
/* What it will have computed once this step's piece of it has been taken back. */
int32_t slot_computed_before(const struct engine *g, const struct slot *s);
/* It is about to lose its place: this step's piece is taken back, the request's books are closed, told as `kind`. */
int slot_interrupt(struct engine *g, struct slot *s, enum event_kind kind, int64_t a);

/* swap.c */
int slot_go_on(struct engine *g, struct slot *s); /* it waited for its pages; ERR_MEMORY in g->fault */
void slot_wait_for_pages(struct engine *g, struct slot *s);
int slot_back(struct engine *g,
	      const struct slot *s); /* its pages come back in this step, which it does not wait for */

/* waits.c */
void waits_clock(struct engine *g, int64_t now_ns); /* it is now_ns, and nothing has changed until then */
void waits_begin(struct engine *g, int32_t req); /* it waits from here on, or */
void waits_end(struct engine *g, int32_t req); /* no more */
void waits_blame(struct engine *g, const struct step *st); /* the plan is made: what do those wait for who still do? */

/* invariants.c: every book against every other; ERR_INVARIANT says which disagree */
int engine_check(struct engine *g, struct err *e);

#endif
