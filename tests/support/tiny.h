/* tiny.h: a model small enough to serve whole workloads with inside a test, and a sequence run by hand, without engine or
 * scheduler: what everything else is compared with. */
#ifndef TESTS_SUPPORT_TINY_H
#define TESTS_SUPPORT_TINY_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/runner.h"

struct err;

enum { TINY_VOCAB = 97 };

struct tiny {
	struct model model; /* 2 layers, hidden 64, 4 heads of 16, 2 KV heads */
	struct kernel_set *kernels;
	const char *weights; /* "random:7" */
	struct runner *alone[4][2]; /* by type of KV pages, greedy or not: made when first asked for (tiny_alone) */
};

/* `keys`: further keys of its config.json ("\"sliding_window\": 7"), or NULL. threads = 0: the reference kernels; else the
 * CPU's, batch-invariant. Ends the program when it cannot be made: this is a test. */
void tiny_open(struct tiny *t, const char *keys, int32_t threads);
void tiny_close(struct tiny *t);
/* Fills in model, weights and kernels. */
struct runner *tiny_runner(const struct tiny *t, struct runner_setup s);

/* One sequence by hand. */
struct by_hand {
	struct runner *runner;
	int32_t block_size, n_pages;
	int32_t *pages; /* [n_pages] of its context */
	int32_t ctx; /* tokens computed so far */
	int32_t req, nth; /* which random number its sample takes */
	uint64_t *tags; /* [n_pages * block_size] of its tokens; NULL: the runner does not check */
	struct err *err;
};
/* Computes n more tokens in one step; the token sampled after them, or -1 with h->err. */
int32_t by_hand_step(struct by_hand *h, const int32_t *tokens, int32_t n);

/* How tests sample that do not sample greedily. */
#define TINY_SAMPLING ((struct sampling){.temperature = 1.2, .top_k = 40, .top_p = 0.95, .seed = 17})

/* What request req says when it is served alone: out[outputs]. prompt + outputs are at most TINY_LONGEST tokens. */
enum { TINY_LONGEST = 4096 };
void tiny_alone(struct tiny *t, enum num kv_type, bool greedy, int32_t req, const int32_t *prompt, int32_t n,
		int32_t outputs, int32_t *out);

#endif
