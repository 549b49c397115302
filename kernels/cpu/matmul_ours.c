#include "kernels/cpu/matmul_impl.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A block of the weights, half of the first cache, stays there while every row of MATMUL_ROW_BLOCK goes by; the rows' own
 * sums stay in the second. */
enum { MIN_BLOCK = 16 << 10, TASKS_PER_THREAD = 8, X_ROWS_PER_TASK = 16 };
/* How far ahead a single tile fetches, and over how many tiles the fetching of the next block is spread. */
enum { AHEAD_BYTES = 1024, AHEAD_TILES = 4 };
/* Up to so many tiles of rows widen the weights themselves, each anew; beyond, a block is widened once for all of them:
 * bf16 by the first tile on its way, int8 beforehand. Measured with AVX2. */
static const int32_t direct_tiles[N_LINE_KINDS] = {
	[LINE_F32] = INT32_MAX, [LINE_BF16] = 3, [LINE_I8] = 2, [LINE_I8_SUBNORMAL] = 5};

static int32_t div_up(int32_t a, int32_t b)
{
	return (a + b - 1) / b;
}

struct product {
	const struct matmul *mm;
	const struct matrix *m;
	float *y;
	const float *x;
	const double *offset; /* [rows] or NULL */
	int32_t rows;
	enum line_kind kind;
	bool direct; /* tiles read the packed lines themselves, rather than a block widened beforehand */
	int32_t row_blocks, block_rows; /* rows in blocks of block_rows */
	int32_t groups, group_panels; /* panels in groups of group_panels */
};

/* How many rows the next tile takes of those left: equal halves rather than a full tile and one lonely row. */
static int32_t next_tile(int32_t left, int32_t tile)
{
	if (left <= tile)
		return left;
	return left < 2 * tile ? (left + 1) / 2 : tile;
}

/* acc = x W of one panel, a block of lines at a time. */
static void run_panel(const struct product *p, struct matmul_scratch *s, int32_t panel, const float *x, int32_t rows)
{
	const struct matmul_isa *isa = p->mm->isa;
	const struct matrix *m = p->m;
	int32_t line = matmul_line_bytes(m->panel, m->type);
	bool keeps = !p->direct && p->kind == LINE_BF16 && rows >= 2 * isa->tile_rows;
	int32_t k_block =
		p->direct && rows <= isa->tile_rows ? m->n_in : p->mm->block_bytes / (p->direct ? line : 4 * m->panel);
	int32_t tiles = div_up(rows, isa->tile_rows);
	const char *w = m->w + (size_t)panel * m->panel_bytes;
	for (int32_t k = 0; k < m->n_in; k += k_block) {
		int32_t n_k = m->n_in - k < k_block ? m->n_in - k : k_block;
		const char *at = w + (size_t)k * (size_t)line;
		/* What comes next is fetched along the way: spread over the tiles, so that no tile waits for memory. */
		size_t bytes = (size_t)n_k * (size_t)line;
		const char *next = tiles == 1 ? at + AHEAD_BYTES : at + bytes;
		int32_t spread = tiles < AHEAD_TILES ? tiles : AHEAD_TILES;
		const void *block = at;
		if (!p->direct && !keeps)
			isa->widen[p->kind](s->w, m->panel, at, n_k);
		if (!p->direct)
			block = s->w;
		for (int32_t r = 0, t = 0, n; r < rows; r += n, t++) {
			n = next_tile(rows - r, isa->tile_rows);
			const char *ahead =
				t < spread ? next + bytes / (size_t)spread * (size_t)t : (const char *)block;
			int32_t step = t < spread ? line / spread : 0;
			float *acc = s->acc + r * m->panel;
			const float *x_at = x + (size_t)r * (size_t)m->n_in + k;
			if (keeps && t == 0)
				isa->keep_bf16(acc, x_at, m->n_in, at, n_k, k == 0, ahead, step, s->w);
			else
				isa->tile[p->direct ? p->kind : LINE_F32][n - 1](acc, x_at, m->n_in, block, n_k, k == 0,
										 ahead, step);
		}
	}
}

static void run_task(void *ctx, int32_t task, int32_t thread)
{
	const struct product *p = ctx;
	const struct matrix *m = p->m;
	struct matmul_scratch *s = &p->mm->scratch[thread];
	int32_t first_row = task / p->groups * p->block_rows, group = task % p->groups;
	int32_t rows = p->rows - first_row < p->block_rows ? p->rows - first_row : p->block_rows;
	int32_t end = (group + 1) * p->group_panels < m->n_panels ? (group + 1) * p->group_panels : m->n_panels;
	for (int32_t panel = group * p->group_panels; panel < end; panel++) {
		int32_t o = panel * m->panel, n = m->n_out - o < m->panel ? m->n_out - o : m->panel;
		run_panel(p, s, panel, p->x + (size_t)first_row * (size_t)m->n_in, rows);
		p->mm->isa->finish(p->y + (size_t)first_row * (size_t)m->n_out + o, m->n_out, s->acc, m->panel, rows, n,
				   p->offset ? p->offset + first_row : NULL, m->scale ? m->scale + o : NULL,
				   m->bias ? m->bias + o : NULL);
	}
}

/* --- x for int8 weights that are used as subnormals --------------------------------------------------------------- */

struct x_job {
	const float *x;
	float *scaled; /* or NULL */
	double *offset;
	int32_t rows, n_in;
};

static void prepare_rows(void *ctx, int32_t task, int32_t thread)
{
	(void)thread;
	const struct x_job *j = ctx;
	int32_t first = task * X_ROWS_PER_TASK, left = j->rows - first;
	for (int32_t r = first; r < first + (left < X_ROWS_PER_TASK ? left : X_ROWS_PER_TASK); r++) {
		const float *x = j->x + (size_t)r * (size_t)j->n_in;
		double sum[8] = {0};
		for (int32_t k = 0; k < j->n_in; k++)
			sum[k % 8] += x[k];
		j->offset[r] =
			128 * (((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7])));
		if (!j->scaled)
			continue;
		float *to = j->scaled + (size_t)r * (size_t)j->n_in;
		for (int32_t k = 0; k < j->n_in; k++)
			to[k] = x[k] * MATMUL_SUBNORMAL_SCALE;
	}
}

bool matmul_grow(void *array, size_t *max, size_t n, size_t element)
{
	void **a = array;
	if (n <= *max)
		return true;
	free(*a);
	*a = aligned_alloc(64, (n * element + 63) / 64 * 64);
	*max = *a ? n : 0;
	return *a != NULL;
}

static int prepare_x(struct matmul *mm, struct product *p)
{
	size_t rows = (size_t)p->rows, n_in = (size_t)p->m->n_in;
	if (!matmul_grow(&mm->offset, &mm->max_offset, rows, sizeof *mm->offset) ||
	    (p->direct && !matmul_grow(&mm->scaled, &mm->max_scaled, rows * n_in, sizeof *mm->scaled)))
		return -1;
	struct x_job j = {p->x, p->direct ? mm->scaled : NULL, mm->offset, p->rows, p->m->n_in};
	pool_run(mm->pool, prepare_rows, &j, (p->rows + X_ROWS_PER_TASK - 1) / X_ROWS_PER_TASK);
	p->offset = mm->offset;
	if (p->direct)
		p->x = mm->scaled;
	return 0;
}

/* Rows into blocks that the caches hold, or smaller ones where a matrix of few outputs has to serve many threads; panels
 * into groups that leave every thread several tasks. */
static void split(struct product *p)
{
	int32_t tile = p->mm->isa->tile_rows, threads = pool_threads(p->mm->pool), n_panels = p->m->n_panels;
	int32_t blocks = div_up(p->rows, MATMUL_ROW_BLOCK), wanted = div_up(4 * threads, n_panels);
	int32_t most = div_up(p->rows, 8 * tile);
	if (threads > 1 && blocks < wanted)
		blocks = wanted < most ? wanted : most;
	p->block_rows = div_up(div_up(p->rows, blocks), tile) * tile;
	if (p->block_rows > MATMUL_ROW_BLOCK)
		p->block_rows = MATMUL_ROW_BLOCK;
	p->row_blocks = div_up(p->rows, p->block_rows);
	p->group_panels = n_panels * p->row_blocks / (TASKS_PER_THREAD * threads);
	if (p->group_panels < 1)
		p->group_panels = 1;
	p->groups = div_up(n_panels, p->group_panels);
}

/* Someone may have told this thread to take subnormals for zero (what -ffast-math links in does). */
static bool subnormals_count(void)
{
	volatile float tiny = 0x1p-140f;
	return tiny * MATMUL_SUBNORMAL_SCALE > 0;
}

enum line_kind matmul_line_kind(const struct matmul *mm, enum num type)
{
	if (type != NUM_I8)
		return type == NUM_F32 ? LINE_F32 : LINE_BF16;
	return mm->subnormal && subnormals_count() ? LINE_I8_SUBNORMAL : LINE_I8;
}

int matmul_ours(struct matmul *mm, float *y, const float *x, int32_t rows, const struct matrix *m)
{
	struct product p = {.mm = mm, .m = m, .x = x, .rows = rows};
	p.y = y;
	p.kind = matmul_line_kind(mm, m->type);
	p.direct = div_up(rows, mm->isa->tile_rows) <= direct_tiles[p.kind];
	if (p.kind == LINE_I8_SUBNORMAL && prepare_x(mm, &p))
		return -1;
	split(&p);
	pool_run(mm->pool, run_task, &p, p.row_blocks * p.groups);
	return 0;
}

/* --- what suits this machine -------------------------------------------------------------------------------------- */

double matmul_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds one tile with one row takes, the best of several. */
static double time_tile(const struct matmul *mm, enum line_kind kind, const float *x, const void *w, int32_t n_k)
{
	double best = 1;
	for (int i = 0; i < 8; i++) {
		double s = matmul_seconds();
		mm->isa->tile[kind][0](mm->scratch->acc, x, 0, w, n_k, true, w, 0);
		s = matmul_seconds() - s;
		best = s < best ? s : best;
	}
	return best;
}

/* Processors that multiply subnormals at full speed gain much, others lose a hundredfold: there is no close call. */
static bool subnormals_are_fast(const struct matmul *mm)
{
	enum { LINES = 256 };
	float x[LINES];
	unsigned char *w = (unsigned char *)mm->scratch->w;
	for (int i = 0; i < LINES; i++)
		x[i] = MATMUL_SUBNORMAL_SCALE;
	for (int i = 0; i < LINES * mm->isa->panel; i++)
		w[i] = (unsigned char)i;
	return subnormals_count() &&
	       time_tile(mm, LINE_I8_SUBNORMAL, x, w, LINES) < 0.8 * time_tile(mm, LINE_I8, x, w, LINES);
}

static int32_t choose_block(void)
{
	long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE); /* 0 or -1 where it is not known */
	return l1 / 2 < MIN_BLOCK ? MIN_BLOCK : l1 / 2 > MATMUL_MAX_BLOCK ? MATMUL_MAX_BLOCK : (int32_t)(l1 / 2);
}

void matmul_fit_machine(struct matmul *mm)
{
	mm->block_bytes = choose_block();
	mm->subnormal = subnormals_are_fast(mm);
}
