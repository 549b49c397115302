/* attention.cuh: what the attention kernels share: their arguments, how work is cut, the walk through the pages.
 *
 * A *line* is one query head of one row. The lines of a sequence that share a KV head are numbered row by row: line =
 * row * group + head, so that a tile of lines reads K and V once for all query heads of the KV head, in decodes as in
 * chunks. A block takes some lines of a sequence and some tokens of its context (struct work). Scores are kept in units of
 * log2: p = 2^(s - m). */
#ifndef KERNELS_CUDA_ATTENTION_CUH
#define KERNELS_CUDA_ATTENTION_CUH

#include "kernels/cuda/launch.cuh"

enum { ATTEND_THREADS = 128, SPLIT_TOKENS = 64 }; /* parts of a context are multiples of SPLIT_TOKENS */

struct tile {
	int32_t seq, line; /* first line of the tile */
};

/* Zeroed by prepare_kernel; first is seq << 32 | token. */
struct fault_scratch {
	unsigned long long n, first;
};

struct attend_args {
	const void *qkv;
	void *out;
	const int32_t *q_at, *ctx_len, *pad, *kv_indptr, *kv_indices;
	const void *k, *v;
	const float *k_scale, *v_scale;
	const uint64_t *tags, *want_tags; /* NULL: nothing is verified */
	const int64_t *want_at;
	struct fault_scratch *faults;
	int32_t n_heads, n_kv_heads, dim, window;
	int32_t group; /* query heads of a KV head */
	float scale; /* of scores, log2(e) included */
	int32_t block_size, block_shift; /* log2 of the former, or -1 */
	int32_t lines, groups, splits; /* decodes */
	int32_t tile_lines; /* chunks */
	const struct tile *tiles;
	const int32_t *n_tiles;
	/* Of each part [seq][head][split]: sums of p v [dim], then the largest score and the sum of p. An empty part has a sum
	 * of 0, and no p v. */
	float *part_out, *part_sum;
};

struct work {
	int32_t seq, kv_head, ctx, pad;
	int32_t first_row, rows; /* of the sequence */
	int32_t line, n_lines;
	int32_t lo, hi; /* tokens to walk */
	int32_t check_hi; /* tags of lo .. check_hi are verified here and nowhere else */
};

static __device__ inline int32_t least(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

static __device__ inline int32_t most(int32_t a, int32_t b)
{
	return a > b ? a : b;
}

/* The first token that the row of token t sees, padding aside. */
static __device__ inline int32_t window_from(const struct attend_args *a, int32_t t)
{
	return a->window > 0 ? most(t - a->window + 1, 0) : 0;
}

/* Block (split, KV head and group of lines, sequence). Each sequence's context is cut evenly, whatever its length. */
static __device__ inline struct work decode_work(const struct attend_args *a)
{
	struct work w;
	int32_t group = blockIdx.y % a->groups;
	w.seq = blockIdx.z;
	w.kv_head = blockIdx.y / a->groups;
	w.ctx = a->ctx_len[w.seq];
	w.pad = a->pad[w.seq];
	w.first_row = a->q_at[w.seq];
	w.rows = 1;
	w.line = group * a->lines;
	w.n_lines = least(a->lines, a->group - w.line);
	int32_t from = window_from(a, w.ctx - 1), each = (w.ctx - from + a->splits - 1) / a->splits;
	each = (each + SPLIT_TOKENS - 1) / SPLIT_TOKENS * SPLIT_TOKENS;
	int64_t lo = from + (int64_t)each * blockIdx.x;
	w.lo = lo < w.ctx ? (int32_t)lo : w.ctx;
	w.hi = least(w.lo + each, w.ctx);
	w.check_hi = w.kv_head == 0 && group == 0 ? w.hi : w.lo;
	return w;
}

/* Block (tile, KV head). false: there are fewer tiles. */
static __device__ inline bool chunk_work(const struct attend_args *a, struct work *w)
{
	if ((int32_t)blockIdx.x >= *a->n_tiles)
		return false;
	struct tile t = a->tiles[blockIdx.x];
	w->seq = t.seq;
	w->kv_head = blockIdx.y;
	w->ctx = a->ctx_len[t.seq];
	w->pad = a->pad[t.seq];
	w->first_row = a->q_at[t.seq];
	w->rows = a->q_at[t.seq + 1] - w->first_row;
	int32_t lines = w->rows * a->group, next = t.line + a->tile_lines, before = w->ctx - w->rows;
	w->line = t.line;
	w->n_lines = least(a->tile_lines, lines - t.line);
	w->lo = window_from(a, before + t.line / a->group);
	w->hi = before + (t.line + w->n_lines - 1) / a->group + 1;
	/* What the next tile walks it verifies itself. */
	w->check_hi = next < lines ? least(window_from(a, before + next / a->group), w->hi) : w->hi;
	if (w->kv_head)
		w->check_hi = w->lo;
	return true;
}

/* The token of a line's row, and where its query and its output are. */
static __device__ inline int32_t line_token(const struct attend_args *a, const struct work *w, int32_t line)
{
	return w->ctx - w->rows + (w->line + line) / a->group;
}

static __device__ inline int64_t line_head(const struct attend_args *a, const struct work *w, int32_t line, int32_t heads)
{
	int32_t at = w->line + line, row = at / a->group;
	return (int64_t)(w->first_row + row) * heads + w->kv_head * a->group + (at - row * a->group);
}

static __device__ inline int64_t query_at(const struct attend_args *a, const struct work *w, int32_t line)
{
	return line_head(a, w, line, a->n_heads + 2 * a->n_kv_heads) * a->dim;
}

static __device__ inline int64_t out_at(const struct attend_args *a, const struct work *w, int32_t line)
{
	return line_head(a, w, line, a->n_heads) * a->dim;
}

/* Of decodes: the line's part. */
static __device__ inline int64_t part_at(const struct attend_args *a, const struct work *w, int32_t line)
{
	int64_t head = (int64_t)w->seq * a->n_heads + w->kv_head * a->group + w->line + line;
	return head * a->splits + blockIdx.x;
}

/* The page of token j (-1 past the end), then its slot. */
static __device__ inline int32_t page_of(const struct attend_args *a, const struct work *w, int32_t j)
{
	if (j >= w->hi)
		return -1;
	int32_t nth = a->block_shift >= 0 ? j >> a->block_shift : j / a->block_size;
	return a->kv_indices[a->kv_indptr[w->seq] + nth];
}

static __device__ inline int64_t slot_of(const struct attend_args *a, int32_t page, int32_t j)
{
	int32_t place = a->block_shift >= 0 ? j & (a->block_size - 1) : j % a->block_size;
	return page < 0 ? -1 : (int64_t)page * a->block_size + place;
}

/* The tag of a slot that is about to be read. */
static __device__ inline void verify(const struct attend_args *a, const struct work *w, int32_t j, int64_t slot)
{
	if (!a->tags || j >= w->check_hi || slot < 0 || a->want_at[w->seq] < 0)
		return;
	if (a->tags[slot] == a->want_tags[a->want_at[w->seq] + j])
		return;
	atomicAdd(&a->faults->n, 1ull);
	atomicMin(&a->faults->first, (unsigned long long)w->seq << 32 | (uint32_t)j);
}

/* The kernels: out for each line of every decode (parts when splits > 1) or chunk. */
int attend_wide(cuda_stream st, enum num act, const struct attend_args *a, enum num kv, int32_t n_decodes,
		int32_t max_tiles);
int attend_decodes(cuda_stream st, const struct attend_args *a, enum num kv, int32_t n_decodes);
int attend_chunks(cuda_stream st, const struct attend_args *a, enum num kv, int32_t max_tiles);

enum {
	WIDE_LINES = 16,
	WIDE_MOST_DIM = 256,
	MMA_DECODE_LINES = 16,
	MMA_CHUNK_LINES = 128,
	MMA_MOST_DIM = 128,
};

#endif
