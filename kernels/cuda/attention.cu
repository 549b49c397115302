/* attention.cu: how attention is cut into work, and what surrounds the kernels that do it: the list of a step's tiles, the
 * merge of a context's parts, what the tags told. */
#include "kernels/cuda/attention.cuh"

enum { PREPARE_THREADS = 256, MERGE_THREADS = 128, MOST_SPLITS = 128 };

/* --- the plan --------------------------------------------------------------------------------------------------------- */

static bool by_tiles(enum num act, const struct attention_shape *a, const struct kv_shape *s)
{
	int32_t per_word = s->type == NUM_BF16 ? 8 : 16;
	return act == NUM_BF16 && s->type != NUM_F32 && a->head_dim <= MMA_MOST_DIM && a->head_dim % per_word == 0;
}

const char *cuda_attention_refuses(enum num act, const struct attention_shape *a, const struct kv_shape *s)
{
	if (act != NUM_F32 && act != NUM_BF16)
		return "activations are f32 or bf16";
	if (s->type == NUM_F16 || s->type > NUM_F8)
		return "KV pages are f32, bf16, int8 or fp8";
	if (a->head_dim < 2 || a->head_dim > WIDE_MOST_DIM || a->head_dim % 2)
		return "a head's size is an even number up to 256";
	if (a->n_kv_heads < 1 || a->n_heads % a->n_kv_heads)
		return "the number of heads is a multiple of that of KV heads";
	return NULL;
}

/* In how many parts to cut contexts so that the last blocks end together. The unit is the time a token takes; a block costs
 * some more to begin, a part to be written and read again, and a merge is a launch. Two blocks a multiprocessor are counted
 * on: enough to keep memory busy. */
static int32_t choose_splits(const struct cuda_attention_plan *p, int32_t sms, int32_t n_kv_heads, int32_t window)
{
	int64_t blocks = (int64_t)p->n_decodes * n_kv_heads * p->groups, slots = 2 * (int64_t)(sms > 0 ? sms : 1);
	int64_t ctx = window > 0 && window < p->max_ctx ? window : p->max_ctx, best_cost = INT64_MAX;
	int32_t best = 1;
	for (int32_t s = 1; s <= MOST_SPLITS && (s == 1 || (int64_t)(s - 1) * SPLIT_TOKENS < ctx); s++) {
		int64_t each = ceil_div(ceil_div(ctx, s), SPLIT_TOKENS) * SPLIT_TOKENS + 32 + (s > 1 ? 2 * p->lines : 0);
		int64_t cost = ceil_div(blocks * s, slots) * each + (s > 1 ? 64 : 0);
		if (cost < best_cost) {
			best_cost = cost;
			best = s;
		}
	}
	return best;
}

/* Parts of the workspace; each begins at a multiple of 256 bytes. */
struct places {
	size_t faults, n_tiles, tiles, part_sum, part_out, end;
};

static size_t room(size_t at, int64_t n, size_t each)
{
	return (at + (size_t)n * each + 255) / 256 * 256;
}

static struct places places_of(const struct cuda_attention_plan *p, int32_t n_heads, int32_t dim)
{
	int64_t parts = p->splits > 1 ? (int64_t)p->n_decodes * n_heads * p->splits : 0;
	struct places at;
	at.faults = 0;
	at.n_tiles = room(at.faults, 1, sizeof(struct fault_scratch));
	at.tiles = room(at.n_tiles, 1, sizeof(int32_t));
	at.part_sum = room(at.tiles, p->max_tiles, sizeof(struct tile));
	at.part_out = room(at.part_sum, parts, 2 * sizeof(float));
	at.end = room(at.part_out, parts * dim, sizeof(float));
	return at;
}

void cuda_plan_attention(struct cuda_attention_plan *p, int32_t sms, enum num act, const struct attention_shape *a,
			 const struct kv_shape *s, int32_t n_seqs, int32_t n_rows, int32_t n_decodes, int32_t max_ctx,
			 int32_t splits)
{
	int32_t group = a->n_heads / a->n_kv_heads;
	memset(p, 0, sizeof *p);
	p->n_seqs = n_seqs;
	p->n_rows = n_rows;
	p->n_decodes = n_decodes;
	p->max_ctx = max_ctx;
	p->tensor_cores = by_tiles(act, a, s);
	int32_t most_lines = p->tensor_cores ? (int32_t)MMA_DECODE_LINES : (int32_t)WIDE_LINES;
	p->groups = (int32_t)ceil_div(group, most_lines);
	p->lines = (int32_t)ceil_div(group, p->groups);
	p->tile_lines = p->tensor_cores ? (int32_t)MMA_CHUNK_LINES : (int32_t)WIDE_LINES;
	/* Each sequence's last tile may be nearly empty. */
	int64_t chunk_rows = n_rows - n_decodes, chunks = n_seqs - n_decodes;
	p->max_tiles = chunks > 0 ? (int32_t)(chunk_rows * group / p->tile_lines + chunks) : 0;
	p->splits = splits > 0 ? splits : choose_splits(p, sms, a->n_kv_heads, a->window);
	p->workspace = places_of(p, a->n_heads, a->head_dim).end;
}

/* --- around the kernels ----------------------------------------------------------------------------------------------- */

/* One block. The tiles of every sequence that is not a decode, each sequence's last first: it has the most to read. */
__global__ void prepare_kernel(struct tile *tiles, int32_t *n_tiles, struct fault_scratch *faults, const int32_t *q_at,
			       int32_t first, int32_t n_seqs, int32_t group, int32_t tile_lines)
{
	SHARED_ARRAY(int32_t, ends, PREPARE_THREADS / WARP);
	int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
	int32_t at = 0;
	for (int32_t base = first; base < n_seqs; base += PREPARE_THREADS) {
		int32_t seq = base + threadIdx.x;
		int32_t lines = seq < n_seqs ? (q_at[seq + 1] - q_at[seq]) * group : 0;
		int32_t mine = (lines + tile_lines - 1) / tile_lines, end = mine;
		for (int by = 1; by < WARP; by *= 2) {
			int32_t before = __shfl_up_sync(ALL_LANES, end, by);
			end += lane >= by ? before : 0;
		}
		if (lane == WARP - 1)
			ends[warp] = end;
		__syncthreads();
		for (int i = 0; i < PREPARE_THREADS / WARP; i++) {
			end += i < warp ? ends[i] : 0;
		}
		end += at;
		for (int i = 0; i < PREPARE_THREADS / WARP; i++)
			at += ends[i];
		__syncthreads();
		for (int32_t i = 0; i < mine; i++) {
			struct tile t = {seq, (mine - 1 - i) * tile_lines};
			tiles[end - mine + i] = t;
		}
	}
	if (threadIdx.x == 0) {
		*n_tiles = at;
		faults->n = 0;
		faults->first = ~0ull;
	}
}

/* A warp for each head of each decode: out = sum of parts, each in proportion to 2^(its largest score). */
template <class T>
__global__ void merge_kernel(T *out, const float *part_out, const float *part_sum, const int32_t *q_at, int64_t items,
			     int32_t n_heads, int32_t dim, int32_t splits)
{
	int lane = threadIdx.x % WARP;
	int64_t item = (int64_t)blockIdx.x * (MERGE_THREADS / WARP) + threadIdx.x / WARP;
	if (item >= items)
		return;
	const float *sums = part_sum + item * splits * 2, *outs = part_out + item * splits * dim;
	float largest = -INFINITY, sum = 0;
	for (int32_t i = lane; i < splits; i += WARP)
		largest = fmaxf(largest, sums[2 * i]);
	largest = warp_max(largest);
	for (int32_t i = lane; i < splits; i += WARP)
		if (sums[2 * i + 1] > 0)
			sum += sums[2 * i + 1] * exp2f(sums[2 * i] - largest);
	sum = warp_sum(sum);
	int64_t seq = item / n_heads, to = ((int64_t)q_at[seq] * n_heads + (item - seq * n_heads)) * dim;
	for (int32_t d = lane; d < dim; d += WARP) {
		float x = 0;
		for (int32_t i = 0; i < splits; i++)
			if (sums[2 * i + 1] > 0)
				x += outs[(int64_t)i * dim + d] * exp2f(sums[2 * i] - largest);
		from_float(&out[to + d], sum > 0 ? x / sum : 0);
	}
}

/* Adds what the walk found to what was found before, looks the first up again, and forgets it. */
__global__ void collect_kernel(const struct attend_args a, struct tag_fault *bad)
{
	struct fault_scratch f = *a.faults;
	if (f.n == 0)
		return;
	if (bad->n == 0) {
		int32_t seq = (int32_t)(f.first >> 32), token = (int32_t)(uint32_t)f.first;
		int64_t slot = slot_of(&a, a.kv_indices[a.kv_indptr[seq] + token / a.block_size], token);
		bad->seq = seq;
		bad->token = token;
		bad->found = a.tags[slot];
		bad->wanted = a.want_tags[a.want_at[seq] + token];
	}
	bad->n += (int64_t)f.n;
	a.faults->n = 0;
	a.faults->first = ~0ull;
}

/* --- the operation ---------------------------------------------------------------------------------------------------- */

static int32_t shift_of(int32_t block_size)
{
	int32_t shift = 0;
	while (1 << shift < block_size)
		shift++;
	return 1 << shift == block_size ? shift : -1;
}

static int merge(cuda_stream st, enum num act, const struct attend_args *a, int32_t n_decodes)
{
	int64_t items = (int64_t)n_decodes * a->n_heads;
	unsigned blocks = (unsigned)ceil_div(items, MERGE_THREADS / WARP);
	if (act == NUM_BF16)
		return LAUNCH(merge_kernel<bf16>, blocks, MERGE_THREADS, 0, st, (bf16 *)a->out, a->part_out, a->part_sum,
			      a->q_at, items, a->n_heads, a->dim, a->splits);
	return LAUNCH(merge_kernel<float>, blocks, MERGE_THREADS, 0, st, (float *)a->out, a->part_out, a->part_sum, a->q_at,
		      items, a->n_heads, a->dim, a->splits);
}

static struct attend_args args_of(void *out, const void *qkv, const struct step_rows *r, const struct attention_shape *a,
				  const struct kv_shape *s, const struct kv_layer *kv, const struct tag_fault *bad,
				  const struct cuda_attention_plan *p, void *workspace)
{
	struct places at = places_of(p, a->n_heads, a->head_dim);
	char *w = (char *)workspace;
	bool check = bad && kv->tags && r->want_tags && r->want_at;
	struct attend_args x;
	memset(&x, 0, sizeof x);
	x.qkv = qkv;
	x.out = out;
	x.q_at = r->q_at;
	x.ctx_len = r->ctx_len;
	x.pad = r->pad;
	x.kv_indptr = r->kv_indptr;
	x.kv_indices = r->kv_indices;
	x.k = kv->k;
	x.v = kv->v;
	x.k_scale = kv->k_scale;
	x.v_scale = kv->v_scale;
	x.tags = check ? kv->tags : NULL;
	x.want_tags = r->want_tags;
	x.want_at = r->want_at;
	x.faults = (struct fault_scratch *)(w + at.faults);
	x.n_heads = a->n_heads;
	x.n_kv_heads = a->n_kv_heads;
	x.dim = a->head_dim;
	x.window = a->window;
	x.group = a->n_heads / a->n_kv_heads;
	x.scale = a->scale * 1.4426950408889634f;
	x.block_size = s->block_size;
	x.block_shift = shift_of(s->block_size);
	x.lines = p->lines;
	x.groups = p->groups;
	x.splits = p->splits;
	x.tile_lines = p->tile_lines;
	x.tiles = (const struct tile *)(w + at.tiles);
	x.n_tiles = (const int32_t *)(w + at.n_tiles);
	x.part_sum = (float *)(w + at.part_sum);
	x.part_out = (float *)(w + at.part_out);
	return x;
}

int cuda_attention(cuda_stream st, enum num act, void *out, const void *qkv, const struct step_rows *r,
		   const struct attention_shape *a, const struct kv_shape *s, const struct kv_layer *kv,
		   struct tag_fault *bad, const struct cuda_attention_plan *p, void *workspace, bool prepared)
{
	if (cuda_attention_refuses(act, a, s))
		return CUDA_REFUSED;
	struct attend_args x = args_of(out, qkv, r, a, s, kv, bad, p, workspace);
	int rc = 0;
	if (!prepared && (p->max_tiles > 0 || x.tags))
		rc = LAUNCH(prepare_kernel, 1, PREPARE_THREADS, 0, st, (struct tile *)x.tiles, (int32_t *)x.n_tiles,
			    x.faults, x.q_at, p->n_decodes, p->n_seqs, x.group, x.tile_lines);
	if (!rc && !p->tensor_cores)
		rc = attend_wide(st, act, &x, s->type, p->n_decodes, p->max_tiles);
	if (!rc && p->tensor_cores && p->n_decodes > 0)
		rc = attend_decodes(st, &x, s->type, p->n_decodes);
	if (!rc && p->tensor_cores && p->max_tiles > 0)
		rc = attend_chunks(st, &x, s->type, p->max_tiles);
	if (!rc && p->n_decodes > 0 && p->splits > 1)
		rc = merge(st, act, &x, p->n_decodes);
	if (!rc && x.tags)
		rc = LAUNCH(collect_kernel, 1, 1, 0, st, x, bad);
	return rc;
}
