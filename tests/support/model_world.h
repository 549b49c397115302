/* model_world.h: what the parts of a model share. See model.h. */
#ifndef TESTS_SUPPORT_MODEL_WORLD_H
#define TESTS_SUPPORT_MODEL_WORLD_H

#include <stddef.h>

#include "tests/support/model.h"

struct tree_node;

struct mreq { /* one request */
	int64_t arrival_ns;
	int32_t prompt, priority;
	int32_t limit; /* outputs it will have: the trace's secret */
	int32_t most; /* outputs a scheduler has to expect */
	int32_t computed; /* tokens whose KV is written, or will be by the steps under way */
	int32_t outputs; /* tokens it has, and */
	int32_t promised; /* with those of the steps under way */
	bool waiting, running, over, again;
	bool decoding; /* all it had when admitted is computed */
	uint64_t *tokens; /* what they are, beyond its end as well */
	/* memory */
	int32_t *blocks, n_blocks; /* off, hash: its table */
	int32_t keep; /* tokens worth remembering */
	int32_t remembered; /* full pages handed to the cache */
	struct tree_node *node; /* radix: the last of the nodes it has locked, */
	int32_t in_tree, own; /* their pages, and pages of its own */
	/* arrivals */
	int32_t parents_left;
	bool known, with_server, orphan;
	int64_t turn; /* how many came to the server before it */
};

struct mrow { /* its part of a step */
	int32_t req, start, len;
	bool chunk, completes, samples, dropped;
};

struct mstep {
	int64_t number, planned_ns;
	struct mrow *rows;
	int32_t n;
};

struct world {
	const struct model_case *c;
	struct model_log *log;
	struct mreq *q; /* [n] */
	int32_t n;
	int32_t *running, n_running; /* in order of admission */
	int32_t *waiting, n_waiting; /* in the queue's order */
	int64_t now_ns, device_free_ns, begun, turns;
	struct mstep *plan; /* being made */
	bool acted;
	/* memory */
	int32_t total; /* blocks */
	int32_t *refs; /* [total] */
	uint64_t *content; /* [total] 0 = nothing anyone could look for */
	int64_t *since, *freed; /* [total] stamps: remembered; given back */
	int64_t stamps;
	struct tree_node *root;
	void *policy; /* what the scheduler keeps from step to step */
};

void *model_alloc(void *old, size_t bytes); /* realloc that does not fail; new memory is zeroed by its caller */
int64_t model_value(const struct world *w, const char *name); /* a parameter: INT, BOOL, ENUM */
double model_fraction(const struct world *w, const char *name); /* a parameter: FLOAT */

/* Looking. */
int32_t world_tokens(const struct world *w, int32_t req); /* prompt + outputs, promised ones included */
int32_t world_need(const struct world *w, int32_t req); /* of them, not computed */
bool world_scheduled(const struct world *w, int32_t req); /* in the step being planned */
int32_t world_pages(const struct world *w, int64_t tokens);
int32_t world_common(const struct world *w, int32_t a, int32_t b); /* tokens with which both prompts begin */

/* Acting. */
void world_admit(struct world *w, int32_t req, int32_t cached_pages); /* from waiting to running */
void world_compute(struct world *w, int32_t req, int32_t n); /* schedules n tokens whose memory is there */
void world_preempt(struct world *w, int32_t req, bool to_back);

/* Memory (model_memory.c; the second half of each is in model_radix.c). */
void pages_start(struct world *w);
void pages_stop(struct world *w);
int32_t pages_idle(const struct world *w); /* blocks nobody holds */
/* Pages a waiting request would find, and how many of them nobody holds. Never the page of its last token. */
int32_t pages_hit(const struct world *w, int32_t req, int32_t *idle);
void pages_share(struct world *w, int32_t req, int32_t pages);
bool pages_take(struct world *w, int32_t req, int32_t tokens); /* for its first `tokens`; all or nothing */
void pages_drop(struct world *w, int32_t req);
void pages_scheduled(struct world *w, int32_t req, int32_t tokens); /* its first `tokens` will be there */
void pages_unscheduled(struct world *w, int32_t req, int32_t tokens); /* only its first `tokens` will */
void pages_written(struct world *w, int32_t req, int32_t tokens); /* are there now */
void pages_ends(struct world *w, int32_t req, int32_t tokens); /* the request is done */
uint64_t page_key(const struct world *w, int32_t req, int32_t page); /* it, and all before it */

void nodes_start(struct world *w);
void nodes_stop(struct world *w);
int32_t nodes_idle(const struct world *w);
int32_t nodes_hit(const struct world *w, int32_t req, int32_t most, int32_t *idle);
void nodes_share(struct world *w, int32_t req, int32_t pages);
void nodes_make_room(struct world *w, int32_t pages);
void nodes_drop(struct world *w, int32_t req);
void nodes_insert(struct world *w, int32_t req, int32_t pages);

/* The schedulers: make a plan by world_ actions. */
void plan_vllm_v1(struct world *w);
void plan_sglang(struct world *w);
void plan_trtllm(struct world *w);

#endif
