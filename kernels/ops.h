/* ops.h: what a step of a transformer is made of, as operations on one device's memory. The model runner, the samplers
 * and the checks know these and no device; a set of kernels (the CPU's in kernels/cpu/) implements them.
 *
 * Pointers called "device" below point into memory of the set (alloc, pack); on the CPU that is ordinary memory. Work is
 * done in the order of the calls, and may still be going on when a call returns: `finish` waits for it. Functions that
 * can fail return 0 or -1; error() then says why in one line. Shapes are row-major, the last index fastest.
 *
 * Activations are of type set->act (CPU: f32); everything named float is f32 on every device. */
#ifndef KERNELS_OPS_H
#define KERNELS_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NUM_F8 is e4m3, for KV pages of sets that have it (the CPU's does not). */
enum num { NUM_F32, NUM_BF16, NUM_F16, NUM_I8, NUM_F8 };
extern const char *const num_names[]; /* "f32", "bf16", "f16", "int8", "fp8", NULL */
int32_t num_bytes(enum num t);

/* A matrix of weights [n_out][n_in] in the set's own layout, with its bias: made by pack(). */
struct matrix;

/* What one is made from: parts stacked along n_out (q, k and v make one product). Read during pack() only. */
struct matrix_part {
	const void *data; /* host memory [n_out][n_in] */
	enum num type; /* f32, bf16 or f16 */
	int32_t n_out;
	const float *bias; /* [n_out] or NULL */
};

/* One layer's KV cache. K and V are each [n_pages][block_size][n_kv_heads][head_dim] (NHD). int8: value = q * scale, the
 * scale [n_pages][block_size][n_kv_heads], = max |x| / 127 of that token and head; fp8: the same with 448. */
struct kv_shape {
	enum num type; /* f32, bf16, int8 or fp8 */
	int32_t n_pages, block_size, n_kv_heads, head_dim;
};
struct kv_layer {
	void *k, *v; /* device */
	float *k_scale, *v_scale; /* device; int8 and fp8 only, else NULL */
	uint64_t *tags; /* device [n_pages * block_size]: what each slot holds, when checking; else NULL */
};

/* A piece of a KV page: one array of one layer. */
struct page_part {
	void *device, *host;
	size_t bytes;
};

/* Something that is kept by page: K, V, scales or tags of one layer. from and to may be the same arena. */
struct page_plane {
	const void *from;
	void *to;
	int64_t page_bytes;
};

/* The rows of one step, as the scheduler's batch tells them (core/tables.h). All arrays are device memory.
 * Sequence s has rows q_at[s] .. q_at[s + 1); its last row is the last of ctx_len[s] tokens of context, the row before it
 * sees one token less, and so on (causal). Token j of the context lies in page kv_indices[kv_indptr[s] + j / block_size],
 * slot j % block_size of it. The first pad[s] tokens of the context are padding: computed with, then masked. */
struct step_rows {
	int32_t n_seqs, n_rows;
	int32_t n_decodes; /* the first n_decodes sequences have one row each */
	int32_t max_ctx; /* largest ctx_len */
	int64_t sum_ctx;
	const int32_t *q_at; /* [n_seqs + 1] */
	const int32_t *ctx_len, *pad; /* [n_seqs] */
	const int32_t *kv_indptr; /* [n_seqs + 1] */
	const int32_t *kv_indices; /* [kv_indptr[n_seqs]] */
	const int64_t *slots; /* [n_rows] page * block_size + place where the row's K and V go; -1: nowhere */
	const int32_t *positions; /* [n_rows] for RoPE, padding not counted, 0 for padding */
	/* When checking, else NULL: the tag each row writes, and the tag that each token of each context must be found with:
	 * sequence s wants want_tags[want_at[s] + j] at token j. */
	const uint64_t *row_tags; /* [n_rows] */
	const uint64_t *want_tags;
	const int64_t *want_at; /* [n_seqs]; -1: this one is not verified (rows whose results nobody reads) */
};

/* cos and sin of every position: device [max_len][head_dim / 2] each. Pairs are (i, i + head_dim / 2). */
struct rope {
	const float *cos, *sin;
	int32_t max_len;
};

struct attention_shape {
	int32_t n_heads, n_kv_heads, head_dim; /* n_heads a multiple of n_kv_heads */
	float scale; /* of the scores: 1 / sqrt(head_dim) */
	int32_t window; /* a row sees its last `window` tokens, itself included; 0 = all */
};

/* How tokens are drawn from logits: temperature first, then the top_k most likely, then of those the fewest that reach top_p,
 * as exec/sampler.h has it. stream and nth choose each row's random number (core/rng.h). */
struct draw {
	double temperature; /* above 0 */
	int32_t top_k; /* 0 = all */
	double top_p; /* 1 = all */
	uint64_t seed;
	const uint64_t *stream; /* device [rows] */
	const int64_t *nth; /* device [rows] */
	void *room; /* device [rows][vocab] of DRAW_BYTES each, to work in */
};
enum { DRAW_BYTES = 8 };

/* What a part of a step was spent on: mark() says that the work from here on is of that part. Time between finish() and
 * the next mark() belongs to none. */
enum part { PART_MATMUL, PART_ATTENTION, PART_HEAD, PART_OTHER, N_PARTS };
extern const char *const part_names[]; /* "matmul", "attention", "head", "other" */

/* What becomes of the work between graph_begin and graph_end. */
enum graph {
	GRAPH_NONE, /* it is done as it is called */
	GRAPH_RECORD, /* it is recorded as it is called, and done at graph_end */
	GRAPH_REPLAY, /* what was recorded before is done: nothing need be called */
};

/* A read that found a tag other than it wanted (checking). */
struct tag_fault {
	int64_t n; /* how many; 0 = none */
	int32_t seq, token; /* the first of them */
	uint64_t found, wanted;
};

struct kernel_set {
	const struct kernel_ops *ops;
	enum num act;
	int32_t threads; /* CPU threads used */
	/* Calls only start work, which goes on while the host does something else. Else it is done when they return. */
	bool asynchronous;
	char what[192]; /* "cpu avx2, oneDNN 2.6.3, 2 threads" */
};

struct kernel_ops {
	const char *name; /* "cpu" */
	const char *(*error)(struct kernel_set *k);
	void (*close)(struct kernel_set *k);

	/* Memory: zeroed, aligned to 64 bytes. NULL when there is none. Copies are in order with the kernels. */
	void *(*alloc)(struct kernel_set *k, size_t bytes);
	void (*release)(struct kernel_set *k, void *device);
	int (*upload)(struct kernel_set *k, void *device, const void *host, size_t bytes);
	int (*download)(struct kernel_set *k, void *host, const void *device, size_t bytes); /* waits for it */
	/* Only starts it: host is filled when finish returns. */
	int (*download_later)(struct kernel_set *k, void *host, const void *device, size_t bytes);
	/* Bytes of the set's memory that are free, and all there are. NULL: it is the machine's. */
	int (*memory)(struct kernel_set *k, int64_t *free_bytes, int64_t *total_bytes);
	/* KV pages to the host's memory and back, beside the steps; all NULL where a set has no such thing (upload and download
	 * do it then). host_alloc: memory of the host that such copies need. pages_copy starts copying n parts, to the host
	 * or from it, after the work called so far, and gives the copy a ticket (1, 2, ...); copies are done one after the
	 * other. pages_done: whether it is there (always, when it is waited for), told once. pages_before: the work called
	 * from now on comes after it. */
	void *(*host_alloc)(struct kernel_set *k, size_t bytes);
	void (*host_release)(struct kernel_set *k, void *host);
	int (*pages_copy)(struct kernel_set *k, const struct page_part *parts, int32_t n, bool to_host,
			  int64_t *ticket);
	int (*pages_done)(struct kernel_set *k, int64_t ticket, bool wait, bool *done);
	int (*pages_before)(struct kernel_set *k, int64_t ticket);
	/* Why it cannot run such attention over such pages, in one line; NULL when it can. NULL: it runs all. */
	const char *(*refuses)(struct kernel_set *k, const struct attention_shape *a, const struct kv_shape *s);

	/* Holds the parts as one matrix in type `as` (f32, bf16, int8: per output channel, scale = max |w| / 127). */
	int (*pack)(struct kernel_set *k, struct matrix **out, const struct matrix_part *parts, int32_t n_parts,
		    int32_t n_in, enum num as);
	void (*unpack_free)(struct kernel_set *k, struct matrix *m);
	size_t (*matrix_bytes)(const struct matrix *m); /* what a product with one row has to read */

	/* y[rows][n_out] = x[rows][n_in] W^T + bias. matmul_f32: the same with y of floats (logits). */
	int (*matmul)(struct kernel_set *k, void *y, const void *x, int32_t rows, const struct matrix *w);
	int (*matmul_f32)(struct kernel_set *k, float *y, const void *x, int32_t rows, const struct matrix *w);

	/* Decides how products with up to max_rows rows are made, where there is a choice to measure, so that no step has to.
	 * NULL: there is none. */
	int (*tune)(struct kernel_set *k, const struct matrix *w, int32_t max_rows);

	/* y[rows][dim] = table[ids[row]][dim]; table of type t. */
	int (*embed)(struct kernel_set *k, void *y, const void *table, enum num t, const int32_t *ids, int32_t rows,
		     int32_t dim);
	/* y = x / sqrt(mean(x^2) + eps) * w, each [rows][dim]; w float [dim]. */
	int (*rms_norm)(struct kernel_set *k, void *y, const void *x, const float *w, int32_t rows, int32_t dim,
			float eps);
	/* x += delta, then y = rms_norm(x). */
	int (*add_rms_norm)(struct kernel_set *k, void *y, void *x, const void *delta, const float *w, int32_t rows,
			    int32_t dim, float eps);
	/* qkv [rows][(n_heads + 2 n_kv_heads) * head_dim]: q heads, then k heads, then v heads. Norms each q and k head when
	 * q_norm, k_norm (float [head_dim]) are given, turns q and k by their position, stores K and V of rows with a slot;
	 * q stays in qkv. Writes tags when checking. */
	int (*rope_kv)(struct kernel_set *k, void *qkv, const struct step_rows *r, const struct attention_shape *a,
		       const struct rope *rope, const float *q_norm, const float *k_norm, float eps,
		       const struct kv_shape *s, const struct kv_layer *kv);
	/* out [rows][n_heads * head_dim] = softmax(q K^T * scale) V over each row's context; a row that sees nothing but
	 * padding gives 0. Reads tags when checking; what is wrong is added to `bad` (host memory, zeroed by the caller before
	 * the step, valid after finish): n counts each token of a sequence once per call, the first is that of the first call
	 * that found any. */
	int (*attention)(struct kernel_set *k, void *out, const void *qkv, const struct step_rows *r,
			 const struct attention_shape *a, const struct kv_shape *s, const struct kv_layer *kv,
			 struct tag_fault *bad);
	/* y[rows][width] = silu(g) * u where gu [rows][2 * width] holds g, then u. */
	int (*silu_mul)(struct kernel_set *k, void *y, const void *gu, int32_t rows, int32_t width);
	/* y[n][dim] = x[index[i]][dim]; index device. */
	int (*gather)(struct kernel_set *k, void *y, const void *x, const int32_t *index, int32_t n, int32_t dim);
	/* tokens[row] (device) = the lowest index of the largest of logits[row][vocab]. */
	int (*argmax)(struct kernel_set *k, int32_t *tokens, const float *logits, int32_t rows, int32_t vocab);
	/* tokens[row] (device): one drawn from logits[row][vocab], the one that the host's sampler draws from them. NULL: the
	 * host does it. */
	int (*draw)(struct kernel_set *k, int32_t *tokens, const float *logits, int32_t rows, int32_t vocab,
		    const struct draw *how);

	/* For every plane and every i < n: page pairs[2 i] of `from` to page pairs[2 i + 1] of `to`. planes[n_planes] and
	 * pairs[2 n] are device memory. No page may be both read and written in one call, or written twice. */
	int (*copy_pages)(struct kernel_set *k, const struct page_plane *planes, int32_t n_planes, const int32_t *pairs,
			  int32_t n);

	/* Work that is done again and again with the same arguments, while the contents of the memory change, may be recorded
	 * and then replayed: both NULL where a set has no such thing. `key` stands for all arguments of the work between the
	 * two calls: memory by its address, shapes, the counts in step_rows. Between them only operations and marks are
	 * called. Memory that is released takes what was recorded with it. */
	int (*graph_begin)(struct kernel_set *k, uint64_t key, enum graph *how);
	int (*graph_end)(struct kernel_set *k);

	int (*mark)(struct kernel_set *k, enum part p);
	/* Waits for everything; part_ns (may be NULL) gets the time spent on each part since the last finish. */
	int (*finish)(struct kernel_set *k, int64_t part_ns[N_PARTS]);
};

/* --- the sets ----------------------------------------------------------------------------------------------------- */

struct cpu_options {
	int32_t threads; /* 0 = as many as the process may use (affinity, the quota of its control group) */
	const char *isa; /* "base", "avx2", "avx512"; NULL = the best this machine has */
	bool batch_invariant; /* a row's result does not depend on the rows beside it: our own kernels throughout */
	bool no_library; /* matrix products without oneDNN (tests) */
};
/* -1 with a line in why[size] when it cannot be opened. */
int cpu_kernels_open(struct kernel_set **out, const struct cpu_options *o, char *why, size_t size);

/* Plain loops in double precision, one thread, no tuning: what every other set is tested against. Also a set, so that
 * whole models can be run on it. */
int reference_kernels_open(struct kernel_set **out);

#endif
