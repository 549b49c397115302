/* runner_state.h: what the runner's own files share; nobody else includes it. */
#ifndef EXEC_RUNNER_STATE_H
#define EXEC_RUNNER_STATE_H

#include "exec/runner.h"

/* All device memory of the runner is from set->ops->alloc. */
struct layer_weights {
	float *attention_norm, *mlp_norm; /* device [hidden] */
	float *q_norm, *k_norm; /* device [head_dim]; NULL without QK-norm */
	struct matrix *qkv, *o, *gate_up, *down;
};

/* Device memory that grows with the largest step so far; its content is lost then. */
struct buffer {
	void *at;
	size_t cap; /* bytes */
};

/* The tables' arrays, put together on the host so that they go to the device in one copy. */
struct staging {
	uint8_t *host;
	int64_t cap;
	struct buffer device;
};

/* A step that is nothing but decodes may be run as a recorded graph, which is made for so many rows and contexts up to so
 * many tokens. Dummy rows fill it up: they see nothing, write nowhere, and nobody reads what they compute. */
struct graph_shape {
	int32_t rows, ctx; /* 0: none, the step is run as it is */
};

struct runner {
	struct kernel_set *set;
	const struct kernel_ops *ops;
	const struct model *model;
	enum num weight_type;
	bool check;
	int32_t n_layers; /* run */
	struct sampling sampling;
	struct sampler *sampler; /* NULL when the device chooses: the largest, or drawn when draws */
	bool draws;

	void *embed; /* device [vocab][hidden] of embed_type */
	enum num embed_type;
	struct layer_weights *layers; /* [n_layers] */
	float *final_norm; /* device [hidden] */
	struct matrix *head;
	int64_t weight_bytes;

	double *freq; /* [head_dim / 2] */
	struct rope rope;

	struct kv_shape kv_shape;
	struct kv_layer *kv; /* [n_layers] */
	int64_t moving; /* ticket of pages that come in; 0 = none */
	struct page_plane *planes; /* device [n_planes]: all of it, for copies; NULL = not needed yet */
	int32_t n_planes;

	/* One step. Sampled rows are the last rows of the sequences that sample, in order. */
	struct step_rows rows;
	const int32_t *row_tokens; /* device [n_rows] */
	const int32_t *sampled_rows; /* device [n_sampled] */
	struct draw draw; /* when draws: how, with what chooses each sampled row's random number */
	const int32_t *copies; /* device [tables->n_copies] pairs of pages */
	int32_t n_sampled;
	int32_t n_head; /* rows that go through the head: the sampled ones, and those that fill up a graph */
	struct graph_shape graph;
	const struct batch_tables *tables; /* of the step that was begun, as is nth */
	const int32_t *nth;
	struct staging staging;
	int32_t *positions, *sampled; /* host [n_rows], [n_seqs] */
	uint64_t *streams; /* host [n_sampled] */
	int64_t *nths; /* host [n_sampled] */
	int64_t cap_positions, cap_sampled, cap_streams, cap_nths;
	struct buffer x, normed, delta; /* [n_rows][hidden]: residual stream, a norm of it, what is added next */
	struct buffer qkv; /* [n_rows][(n_heads + 2 n_kv_heads) head_dim] */
	struct buffer attended; /* [n_rows][n_heads * head_dim] */
	struct buffer gate_up, gated; /* [at most MLP_ROWS][2 * intermediate], [intermediate] */
	struct buffer last_x, last_delta, last_normed; /* [n_sampled][hidden] */
	struct buffer logits; /* [n_sampled][vocab] floats */
	struct buffer picked; /* [n_sampled] token ids */
	struct buffer draw_room; /* [n_sampled][vocab] when draws */
	struct tag_fault *faults; /* [n_layers] */
	int32_t *tokens, *host_picked; /* host [n_seqs], [n_sampled] */
	int64_t cap_tokens, cap_picked;
	float *host_logits; /* host [n_sampled][vocab] */
	int64_t cap_logits;
	bool logits_here; /* host_logits are the last step's */
};

/* The MLP is as wide as everything else together: a step of more rows takes it in pieces. */
enum { MLP_ROWS = 4096 };

/* runner.c */
void *runner_alloc(struct runner *r, size_t bytes, const char *what, struct err *e);
int runner_fit(struct runner *r, struct buffer *b, size_t bytes, const char *what, struct err *e);
int runner_kernel_failed(const struct runner *r, struct err *e);

/* runner_load.c */
int runner_load(struct runner *r, struct weights *w, struct err *e);
void runner_unload(struct runner *r);

/* runner_rows.c: the tables as kernels want them, on the device */
int runner_rows(struct runner *r, const struct step_input *in, struct err *e);

/* runner_copy.c: pages that are copied before the step's rows run. Enqueued, not waited for. */
int runner_copy(struct runner *r, struct err *e);

/* runner_graph.c */
struct graph_shape runner_graph_shape(const struct runner *r, const struct batch_tables *t);
uint64_t runner_graph_key(const struct runner *r);
/* Records the graphs of decodes with up to so many sequences and contexts; other steps have up to so many rows. */
int runner_graph_ready(struct runner *r, int32_t rows, int32_t seqs, int32_t ctx, struct err *e);
/* How many of them that is. */
int32_t runner_graphs(const struct runner *r, int32_t seqs, int32_t ctx);

/* runner_forward.c: embed .. logits of the sampled rows. Enqueued, not waited for. */
int runner_forward(struct runner *r, struct err *e);
/* Buffers for steps of so many rows and sampled sequences. */
int runner_fit_buffers(struct runner *r, int64_t rows, int64_t sampled, struct err *e);

static inline int32_t runner_q_width(const struct runner *r)
{
	return r->model->n_heads * r->model->head_dim;
}

static inline int32_t runner_qkv_width(const struct runner *r)
{
	return (r->model->n_heads + 2 * r->model->n_kv_heads) * r->model->head_dim;
}

#endif
