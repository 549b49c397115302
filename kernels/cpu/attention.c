/* attention.c: which thread attends to what, and what becomes of it (kernels/cpu/attention.h). */
#include "kernels/cpu/attention.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/pool.h"

static const struct attention_isa *const attention_isas[N_CPU_ISAS] = CPU_ISA_TABLES(attention_isa);

/* A context is cut into tasks of one split each where one task for it would be more than a thread's share, this often
 * divided. Sequences of more rows have rows enough to share out. */
enum { ROWS_CUT = 64, SHARES = 4 };

/* A task: some rows of a sequence, some query heads of a KV head, one or all splits of the context they see. */
struct attention_item {
	int32_t seq, kv_head;
	int32_t head, n_heads; /* query heads, counted from the KV head's first */
	int32_t row, n_rows; /* counted from the sequence's first */
	int32_t split, n_splits;
	int32_t first, siblings; /* items first .. first + siblings share rows and heads; 1: nothing to share */
	int64_t partials; /* theirs: floats [siblings][lines][HEAD + dim] at this place of attention.partials */
};

struct fault {
	int32_t seq, token;
	uint64_t found, wanted;
};

/* Tags found wrong, by any thread, once per reader. */
struct faults {
	pthread_mutex_t lock;
	struct fault *list;
	size_t n, cap;
	bool lost; /* no memory for one */
};

struct running {
	struct attention *a;
	const struct attention_call *call;
	int32_t dim; /* head_dim in whole vectors */
	int32_t lines; /* most lines of an item */
	size_t scratch_each; /* floats per thread */
	struct faults faults;
};

void attention_open(struct attention *a, enum cpu_isa isa)
{
	*a = (struct attention){.isa = attention_isas[isa]};
}

void attention_close(struct attention *a)
{
	free(a->items);
	free(a->left);
	free(a->scratch);
	free(a->partials);
	*a = (struct attention){0};
}

/* --- faults -------------------------------------------------------------------------------------------------------- */

struct fault_ctx {
	struct faults *faults;
	int32_t seq;
};

static void report(void *ctx, int32_t token, uint64_t found, uint64_t wanted)
{
	const struct fault_ctx *c = ctx;
	struct faults *f = c->faults;
	pthread_mutex_lock(&f->lock);
	if (f->n == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 64;
		struct fault *list = realloc(f->list, cap * sizeof *list);
		if (list) {
			f->list = list;
			f->cap = cap;
		}
	}
	if (f->n < f->cap)
		f->list[f->n++] = (struct fault){c->seq, token, found, wanted};
	else
		f->lost = true;
	pthread_mutex_unlock(&f->lock);
}

static int by_place(const void *a, const void *b)
{
	const struct fault *x = a, *y = b;
	return x->seq != y->seq ? (x->seq > y->seq) - (x->seq < y->seq) : (x->token > y->token) - (x->token < y->token);
}

/* Each token counts once, however many heads and rows have read it. */
static void add_faults(struct tag_fault *bad, struct faults *f)
{
	if (f->n == 0)
		return;
	qsort(f->list, f->n, sizeof *f->list, by_place);
	if (bad->n == 0) {
		const struct fault *x = f->list;
		*bad = (struct tag_fault){0, x->seq, x->token, x->found, x->wanted};
	}
	for (size_t i = 0; i < f->n; i++)
		bad->n += i == 0 || by_place(&f->list[i - 1], &f->list[i]) != 0;
}

/* --- one task ------------------------------------------------------------------------------------------------------ */

static float *take(float **at, size_t n)
{
	float *p = *at;
	*at += (n + 15) / 16 * 16;
	return p;
}

static size_t scratch_floats(size_t lines, size_t dim)
{
	size_t n = 3 * lines * dim + lines * ATTENTION_TILE + 2 * ATTENTION_TILE * dim + 4 * lines;
	return (n + 8 * 16 + 15) / 16 * 16; /* each of the 8 pieces rounded up */
}

static size_t partial_floats(int32_t dim)
{
	return ATTENTION_HEAD + (size_t)dim;
}

/* The query head a line is of, and its row. */
static size_t head_of(const struct running *run, const struct attention_item *it, int32_t line, size_t *row)
{
	const struct attention_shape *a = run->call->shape;
	int32_t n = run->call->rows->q_at[it->seq] + it->row + line / it->n_heads;
	int32_t head = it->kv_head * (a->n_heads / a->n_kv_heads) + it->head + line % it->n_heads;
	*row = (size_t)n;
	return (size_t)head;
}

/* The lines' queries, times the scale. */
static void load_queries(const struct running *run, const struct attention_item *it, struct attention_lines *x)
{
	const struct attention_call *c = run->call;
	const struct attention_shape *a = c->shape;
	size_t width = (size_t)(a->n_heads + 2 * a->n_kv_heads) * (size_t)a->head_dim;
	for (int32_t line = 0; line < x->n_lines; line++) {
		size_t row, head = head_of(run, it, line, &row);
		const float *from = c->qkv + row * width + head * (size_t)a->head_dim;
		float *to = x->q + (size_t)line * (size_t)x->dim;
		for (int32_t i = 0; i < a->head_dim; i++)
			to[i] = from[i] * a->scale;
		for (int32_t i = a->head_dim; i < x->dim; i++)
			to[i] = 0;
	}
}

static void write_out(const struct running *run, const struct attention_item *it, const struct attention_lines *x,
		      const struct attention_state *s)
{
	const struct attention_call *c = run->call;
	const struct attention_shape *a = c->shape;
	for (int32_t line = 0; line < x->n_lines; line++) {
		size_t row, head = head_of(run, it, line, &row);
		run->a->isa->end(c->out + (row * (size_t)a->n_heads + head) * (size_t)a->head_dim,
				 s->acc + (size_t)line * (size_t)x->dim, s->sum[line], a->head_dim);
	}
}

static void clear(struct attention_state *s, int32_t lines)
{
	for (int32_t i = 0; i < lines; i++) {
		s->most[i] = -INFINITY;
		s->sum[i] = 0;
	}
}

/* All splits one after the other. */
static void attend_whole(const struct running *run, const struct attention_item *it, struct attention_lines *x,
			 struct attention_state *total)
{
	const struct attention_isa *isa = run->a->isa;
	if (it->n_splits == 1) {
		isa->split(x, it->split);
		write_out(run, it, x, &x->state);
		return;
	}
	clear(total, x->n_lines);
	memset(total->acc, 0, (size_t)x->n_lines * (size_t)x->dim * sizeof(float));
	for (int32_t i = 0; i < it->n_splits; i++) {
		isa->split(x, it->split + i);
		for (int32_t l = 0; l < x->n_lines; l++)
			isa->merge(&total->most[l], &total->sum[l], total->acc + (size_t)l * (size_t)x->dim,
				   x->state.most[l], x->state.sum[l], x->state.acc + (size_t)l * (size_t)x->dim,
				   x->dim);
	}
	write_out(run, it, x, total);
}

/* One split; whoever finishes the last of them merges them all, in ascending order. */
static void attend_part(const struct running *run, const struct attention_item *it, struct attention_lines *x,
			struct attention_state *total)
{
	const struct attention_isa *isa = run->a->isa;
	size_t each = partial_floats(x->dim), lines = (size_t)x->n_lines;
	float *all = run->a->partials + it->partials;
	float *own = all + (size_t)(it - run->a->items - it->first) * lines * each;
	int32_t end = (it->split + 1) * ATTENTION_SPLIT;
	x->until = end < x->until ? end : x->until;
	isa->split(x, it->split);
	for (size_t l = 0; l < lines; l++) {
		own[l * each] = x->state.most[l];
		own[l * each + 1] = x->state.sum[l];
		memcpy(own + l * each + ATTENTION_HEAD, x->state.acc + l * (size_t)x->dim,
		       (size_t)x->dim * sizeof(float));
	}
	if (atomic_fetch_sub(&run->a->left[it->first], 1) != 1)
		return;
	clear(total, x->n_lines);
	memset(total->acc, 0, lines * (size_t)x->dim * sizeof(float));
	for (size_t i = 0; i < (size_t)it->siblings; i++)
		for (size_t l = 0; l < lines; l++) {
			const float *p = all + (i * lines + l) * each;
			isa->merge(&total->most[l], &total->sum[l], total->acc + l * (size_t)x->dim, p[0], p[1],
				   p + ATTENTION_HEAD, x->dim);
		}
	write_out(run, it, x, total);
}

static void run_item(void *ctx, int32_t task, int32_t thread)
{
	struct running *run = ctx;
	const struct attention_call *c = run->call;
	const struct attention_item *it = &run->a->items[task];
	const struct step_rows *r = c->rows;
	struct fault_ctx faults = {&run->faults, it->seq};
	size_t lines = (size_t)run->lines, dim = (size_t)run->dim;
	float *at = run->a->scratch + (size_t)thread * run->scratch_each;
	int32_t first_row = r->ctx_len[it->seq] - (r->q_at[it->seq + 1] - r->q_at[it->seq]);
	struct attention_lines x = {
		.n_lines = it->n_rows * it->n_heads,
		.group = it->n_heads,
		.dim = run->dim,
		.last = first_row + it->row,
		.n_rows = it->n_rows,
		.until = first_row + it->row + it->n_rows,
		.pad = r->pad[it->seq],
		.window = c->shape->window,
		.kv_head = it->kv_head,
		.shape = c->kv_shape,
		.kv = c->kv,
		.pages = r->kv_indices + r->kv_indptr[it->seq],
		.report = report,
		.report_ctx = &faults,
		.q = take(&at, lines * dim),
		.p = take(&at, lines * ATTENTION_TILE),
		.keys = take(&at, ATTENTION_TILE * dim),
		.values = take(&at, ATTENTION_TILE * dim),
		.state = {take(&at, lines), take(&at, lines), take(&at, lines * dim)},
	};
	struct attention_state total = {at, at + lines, at + (2 * lines + 15) / 16 * 16};
	if (c->kv->tags && r->want_tags && c->bad && r->want_at[it->seq] >= 0)
		x.want = r->want_tags + r->want_at[it->seq];
	load_queries(run, it, &x);
	if (it->siblings == 1)
		attend_whole(run, it, &x, &total);
	else
		attend_part(run, it, &x, &total);
}

/* --- planning ------------------------------------------------------------------------------------------------------ */

/* How rows and heads are put together into lines. */
struct blocks {
	int32_t heads, n_head_blocks; /* query heads a block takes, blocks per KV head */
	int32_t rows;
};

static struct blocks blocks_of(const struct attention_shape *a)
{
	int32_t shared = a->n_heads / a->n_kv_heads;
	struct blocks b = {.heads = shared < ATTENTION_LINES ? shared : ATTENTION_LINES};
	b.n_head_blocks = (shared + b.heads - 1) / b.heads;
	b.rows = ATTENTION_LINES / b.heads;
	return b;
}

static int64_t row_blocks(const struct step_rows *r, int32_t seq, const struct blocks *b)
{
	return (r->q_at[seq + 1] - r->q_at[seq] + b->rows - 1) / b->rows;
}

/* The splits of the context that rows row .. row + n of a sequence see. */
static void splits_of(const struct attention_call *c, int32_t seq, int32_t row, int32_t n, int32_t *first,
		      int32_t *count)
{
	const struct step_rows *r = c->rows;
	int32_t last = r->ctx_len[seq] - (r->q_at[seq + 1] - r->q_at[seq]) + row, lowest = 0;
	if (c->shape->window > 0 && last - c->shape->window + 1 > 0)
		lowest = last - c->shape->window + 1;
	*first = lowest / ATTENTION_SPLIT;
	*count = (last + n - 1) / ATTENTION_SPLIT - *first + 1;
}

/* Items and partials of one block of rows, for all heads; only counted where a->items is NULL. */
static void plan_block(struct attention *a, const struct attention_call *c, const struct blocks *b, int32_t dim,
		       const struct attention_item *block, bool cut, int64_t *n, int64_t *partials)
{
	int32_t shared = c->shape->n_heads / c->shape->n_kv_heads, parts = cut ? block->n_splits : 1;
	for (int32_t i = 0; i < c->shape->n_kv_heads * b->n_head_blocks; i++) {
		struct attention_item it = *block;
		it.kv_head = i / b->n_head_blocks;
		it.head = i % b->n_head_blocks * b->heads;
		it.n_heads = shared - it.head < b->heads ? shared - it.head : b->heads;
		it.first = (int32_t)*n;
		it.siblings = parts;
		it.partials = *partials;
		for (int32_t p = 0; p < parts; p++, ++*n) {
			if (!a->items)
				continue;
			a->left[*n] = parts;
			a->items[*n] = it;
			if (cut)
				a->items[*n].split += p;
		}
		if (parts > 1)
			*partials += (int64_t)parts * it.n_rows * it.n_heads * (int64_t)partial_floats(dim);
	}
}

/* The i-th block of rows of a sequence. */
static struct attention_item block_at(const struct attention_call *c, const struct blocks *b, int32_t seq, int64_t i)
{
	int32_t rows = c->rows->q_at[seq + 1] - c->rows->q_at[seq];
	struct attention_item block = {.seq = seq, .row = (int32_t)i * b->rows};
	block.n_rows = rows - block.row < b->rows ? rows - block.row : b->rows;
	splits_of(c, seq, block.row, block.n_rows, &block.split, &block.n_splits);
	return block;
}

/* Long rows first, so that no thread is left with a long one: chunks come last in a step, and their last rows see most. */
static void plan(struct attention *a, const struct attention_call *c, int32_t dim, int32_t threads, int64_t *n,
		 int64_t *partials)
{
	const struct step_rows *r = c->rows;
	struct blocks b = blocks_of(c->shape);
	int64_t work = 0; /* rows times splits, over all heads */
	*n = *partials = 0;
	for (int32_t seq = 0; seq < r->n_seqs; seq++)
		for (int64_t i = row_blocks(r, seq, &b) - 1; i >= 0; i--) {
			struct attention_item block = block_at(c, &b, seq, i);
			work += (int64_t)block.n_rows * block.n_splits * c->shape->n_kv_heads * b.n_head_blocks;
		}
	for (int32_t seq = r->n_seqs - 1; seq >= 0; seq--)
		for (int64_t i = row_blocks(r, seq, &b) - 1; i >= 0; i--) {
			struct attention_item block = block_at(c, &b, seq, i);
			int64_t own = (int64_t)block.n_rows * block.n_splits;
			bool few = r->q_at[seq + 1] - r->q_at[seq] <= ROWS_CUT;
			plan_block(a, c, &b, dim, &block, threads > 1 && few && own * SHARES * threads > work, n,
				   partials);
		}
}

/* --- memory -------------------------------------------------------------------------------------------------------- */

static int want_floats(float **p, size_t *cap, size_t n)
{
	if (n <= *cap)
		return 0;
	free(*p);
	*p = aligned_alloc(64, (n * sizeof **p + 63) / 64 * 64);
	*cap = *p ? n : 0;
	return *p ? 0 : -1;
}

static int want_items(struct attention *a, int64_t n)
{
	if (n <= a->cap_items)
		return 0;
	free(a->items);
	free(a->left);
	int64_t cap = n + n / 4 + 1;
	a->items = malloc((size_t)cap * sizeof *a->items);
	a->left = malloc((size_t)cap * sizeof *a->left);
	a->cap_items = a->items && a->left ? cap : 0;
	return a->cap_items ? 0 : -1;
}

static int prepare(struct attention *a, const struct attention_call *c, struct running *run, int32_t threads,
		   int64_t *n)
{
	int64_t partials;
	struct attention counting = {.isa = a->isa};
	plan(&counting, c, run->dim, threads, n, &partials);
	if (*n > INT32_MAX || want_items(a, *n) ||
	    want_floats(&a->scratch, &a->cap_scratch, run->scratch_each * (size_t)threads) ||
	    want_floats(&a->partials, &a->cap_partials, (size_t)partials))
		return -1;
	if (*n > 0)
		plan(a, c, run->dim, threads, n, &partials);
	return 0;
}

int attention_run(struct attention *a, struct pool *pool, const struct attention_call *c)
{
	int32_t lanes = a->isa->lanes, threads = pool_threads(pool);
	int64_t n;
	struct running run = {
		.a = a, .call = c, .dim = (c->shape->head_dim + lanes - 1) / lanes * lanes, .lines = ATTENTION_LINES};
	run.scratch_each = scratch_floats((size_t)run.lines, (size_t)run.dim);
	if (prepare(a, c, &run, threads, &n))
		return -1;
	pthread_mutex_init(&run.faults.lock, NULL);
	pool_run(pool, run_item, &run, (int32_t)n);
	pthread_mutex_destroy(&run.faults.lock);
	if (c->bad)
		add_faults(c->bad, &run.faults);
	free(run.faults.list);
	return run.faults.lost ? -1 : 0;
}
