/* single.h: one sequence alone on a runner, without engine or scheduler: its pages are the arena's first ones, in order. */
#ifndef EXEC_SINGLE_H
#define EXEC_SINGLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/tables.h"

struct err;
struct runner;

struct single {
	struct runner *runner; /* the caller's */
	int32_t block_size, max_tokens;
	bool kv_off; /* every step computes the whole sequence again */
	int32_t *tokens; /* [max_tokens] */
	int32_t n; /* of them computed */
	/* Which tokens stay (core/retention.h): the last kv_window, and the first kv_sink; kv_window 0 = all. Set after opening. */
	int32_t kv_window, kv_sink;
	int32_t gone; /* pages before this one are gone, but for those of sinks */
	int32_t outputs; /* sampled so far: the number of the next random draw */
	struct batch_tables tables;
};

/* block_size and kv_off are the runner's; its arena has at least SINGLE_PAGES(max_tokens, block_size) pages. */
#define SINGLE_PAGES(tokens, block_size) (((tokens) + (block_size)-1) / (block_size))
int single_open(struct single *s, struct runner *r, int32_t block_size, int32_t max_tokens, bool kv_off, struct err *e);
void single_close(struct single *s); /* a zeroed one is fine */
/* Forgets its tokens. */
void single_reset(struct single *s);
/* Computes n more tokens in one step. With `sampled`, a token is sampled from the last one's logits (runner_logits has
 * them). */
int single_step(struct single *s, const int32_t *tokens, int32_t n, int32_t *sampled, struct err *e);

#endif
