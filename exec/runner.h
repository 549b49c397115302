/* runner.h: a decoder-only transformer of the Llama kind over a paged KV cache: runs what a batch's tables say, on whatever
 * set of kernels it is given. Knows no scheduler, no clock and no device. */
#ifndef EXEC_RUNNER_H
#define EXEC_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/tables.h"
#include "exec/sampler.h"
#include "exec/weights.h"
#include "kernels/ops.h"
#include "models/model.h"

struct err;
struct runner;

struct runner_setup {
	const struct model *model; /* outlives the runner, as do weights (until runner_create returns) and kernels */
	struct weights *weights;
	struct kernel_set *kernels;
	enum num weight_type; /* how matrices are held: f32, bf16, int8; fp8 where the set has it */
	enum num kv_type; /* f32, bf16, int8; fp8 likewise */
	int32_t n_pages, block_size; /* the KV arena; grown on demand when kv_off */
	/* n_pages = 0: as many as fit beside everything else into this share of the set's memory, which knows how much that is
	 * (kernels/ops.h); no more than most_pages, where that is not 0. */
	double memory_share;
	int32_t most_pages;
	bool kv_off; /* tables say scratch_blocks: pages are for one step only */
	bool check; /* tag every KV slot, verify every read */
	int32_t layers; /* run only the first so many (profiling); 0 = all */
	/* Steps of up to so many rows, sampling from so many sequences, find everything made and chosen: the first steps
	 * then take no longer than later ones. 0 = nothing is prepared. */
	int32_t ready_rows, ready_seqs;
	int32_t ready_ctx; /* sets with graphs: they are recorded for contexts up to this; 0 = when first needed */
	struct sampling sampling;
};

/* Loads and packs the weights. ERR_INPUT names what the runner cannot run (model.numerics.unsupported). */
int runner_create(struct runner **out, const struct runner_setup *s, struct err *e);
void runner_free(struct runner *r);

struct step_input {
	const struct batch_tables *tables;
	const int32_t *row_tokens; /* [n_rows] token ids; anything for padding */
	/* Only with `check`: tags as kernels/ops.h has them. */
	const uint64_t *row_tags, *want_tags;
	const int64_t *want_at;
	/* Which random number each sequence's sample takes: [n_seqs] output number; NULL = 0. The stream is its request. */
	const int32_t *nth;
};
struct step_output {
	const int32_t *tokens; /* [n_seqs] sampled; -1 where nothing was. Lives until the next step */
	int64_t part_ns[N_PARTS];
};
/* Runs the step to its end. Device memory grows with it and is kept: per row about 5 x hidden + qkv + attention's output
 * activations, the MLP's 3 x intermediate for at most 4096 rows at a time, and 4 x vocab bytes per sampled row. Pages and
 * slots outside the arena are refused before anything runs. ERR_INVARIANT names the first KV slot that held something
 * else than it should. */
int runner_step(struct runner *r, const struct step_input *in, struct step_output *out, struct err *e);
/* The same in two: runner_begin starts it, runner_finish waits for its end. With kernels that are asynchronous the host may
 * do something else between; tables and nth live until then. */
int runner_begin(struct runner *r, const struct step_input *in, struct err *e);
int runner_finish(struct runner *r, struct step_output *out, struct err *e);
/* Checking: no slot holds anything any more. Before another run on the same runner, whose tokens may be the same. */
int runner_forget(struct runner *r, struct err *e);
/* After such an error: which read it was (its sequence and token of the last step's tables) and in which layer; NULL when
 * no read was wrong. */
const struct tag_fault *runner_fault(const struct runner *r, int32_t *layer);
/* Logits of the last step's sampled rows, in their order: [*rows][vocab], on the host, until the next step. */
int runner_logits(struct runner *r, const float **logits, int32_t *rows, struct err *e);

/* runner_pages.c: one KV page of all layers (with its scales and tags) to host[runner_page_bytes] and back, in order with
 * the steps; done when the call returns. ERR_INVARIANT: there is no such page. */
int64_t runner_page_bytes(const struct runner *r);
int runner_page_out(struct runner *r, int32_t page, void *host, struct err *e);
int runner_page_in(struct runner *r, int32_t page, const void *host, struct err *e);
/* n pages at once, host[n] in memory of runner_host_alloc. On sets that copy beside the steps what comes in may still be on its
 * way when the call returns: steps begun afterwards wait for it, as do later copies. What goes out is there. */
int runner_pages_move(struct runner *r, const int32_t *pages, uint8_t *const *host, int32_t n, bool out, struct err *e);
/* Waits until what comes in has been read: before anybody else writes there. */
int runner_pages_settle(struct runner *r, struct err *e);
/* Host memory that such copies are quick with; NULL: there is none. */
void *runner_host_alloc(struct runner *r, size_t bytes);
void runner_host_free(struct runner *r, void *host);

int32_t runner_pages(const struct runner *r); /* of the arena */
bool runner_asynchronous(const struct runner *r); /* does runner_begin return before the step's end? */
int64_t runner_weight_bytes(const struct runner *r); /* as held: what one step with one row reads, embedding apart */
int64_t runner_kv_bytes(const struct runner *r); /* the arena's */

#endif
