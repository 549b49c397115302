#include "kernels/cpu/matmul.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/cpu/matmul_isa.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/pool.h"

/* A block of the weights, half of the first cache, stays there while every row of ROW_BLOCK goes by; the rows' own sums
 * stay in the second. */
enum { MIN_BLOCK = 16 << 10, MAX_BLOCK = 32 << 10, ROW_BLOCK = 256, MAX_PANEL = 64 };
enum { TASKS_PER_THREAD = 8, X_ROWS_PER_TASK = 16 };
/* How far ahead a single tile fetches, and over how many tiles the fetching of the next block is spread. */
enum { AHEAD_BYTES = 1024, AHEAD_TILES = 4 };
/* Up to so many rows tiles widen the weights themselves, each anew; beyond, a block is widened once for all of them. */
static const int32_t direct_rows[N_LINE_KINDS] = {
	[LINE_F32] = INT32_MAX, [LINE_BF16] = 24, [LINE_I8] = 6, [LINE_I8_SUBNORMAL] = 48};

const struct matmul_isa *const matmul_isas[N_CPU_ISAS] = CPU_ISA_TABLES(matmul_isa);

struct matmul {
	const struct matmul_isa *isa;
	struct pool *pool;
	bool subnormal; /* int8 weights are used as LINE_I8_SUBNORMAL */
	int32_t block_bytes; /* of weights, MIN_BLOCK .. MAX_BLOCK */
	struct scratch *scratch; /* [threads] */
	/* For subnormals: what is to be taken off each row's sums, and x times its factor. */
	double *offset;
	float *scaled;
	size_t max_offset, max_scaled;
};

struct scratch {
	_Alignas(64) float acc[ROW_BLOCK * MAX_PANEL];
	float w[MAX_BLOCK / 4];
};

/* --- our own kernels --------------------------------------------------------------------------------------------- */

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
static void run_panel(const struct product *p, struct scratch *s, int32_t panel, const float *x, int32_t rows)
{
	const struct matmul_isa *isa = p->mm->isa;
	const struct matrix *m = p->m;
	int32_t line = matmul_line_bytes(m->panel, m->type);
	int32_t k_block = rows <= isa->tile_rows ? m->n_in : p->mm->block_bytes / (p->direct ? line : 4 * m->panel);
	int32_t tiles = (rows + isa->tile_rows - 1) / isa->tile_rows;
	const char *w = m->w + (size_t)panel * m->panel_bytes;
	for (int32_t k = 0; k < m->n_in; k += k_block) {
		int32_t n_k = m->n_in - k < k_block ? m->n_in - k : k_block;
		const char *at = w + (size_t)k * (size_t)line;
		/* What comes next is fetched along the way: spread over the tiles, so that no tile waits for memory. */
		size_t bytes = (size_t)n_k * (size_t)line;
		const char *next = tiles == 1 ? at + AHEAD_BYTES : at + bytes;
		int32_t spread = tiles < AHEAD_TILES ? tiles : AHEAD_TILES;
		const void *block = at;
		if (!p->direct) {
			isa->widen[p->kind](s->w, at, n_k);
			block = s->w;
		}
		for (int32_t r = 0, t = 0, n; r < rows; r += n, t++) {
			n = next_tile(rows - r, isa->tile_rows);
			const char *ahead =
				t < spread ? next + bytes / (size_t)spread * (size_t)t : (const char *)block;
			isa->tile[p->direct ? p->kind : LINE_F32][n - 1](
				s->acc + r * m->panel, x + (size_t)r * (size_t)m->n_in + k, m->n_in, block, n_k, k == 0,
				ahead, t < spread ? line / spread : 0);
		}
	}
}

static void run_task(void *ctx, int32_t task, int32_t thread)
{
	const struct product *p = ctx;
	const struct matrix *m = p->m;
	struct scratch *s = &p->mm->scratch[thread];
	int32_t first_row = task / p->groups * p->block_rows, group = task % p->groups;
	int32_t rows = p->rows - first_row < p->block_rows ? p->rows - first_row : p->block_rows;
	int32_t end = (group + 1) * p->group_panels < m->n_panels ? (group + 1) * p->group_panels : m->n_panels;
	for (int32_t panel = group * p->group_panels; panel < end; panel++) {
		int32_t o = panel * m->panel, n = m->n_out - o < m->panel ? m->n_out - o : m->panel;
		run_panel(p, s, panel, p->x + (size_t)first_row * (size_t)m->n_in, rows);
		p->mm->isa->finish(p->y + (size_t)first_row * (size_t)m->n_out + o, m->n_out, s->acc, rows, n,
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

/* At least `n` elements; what they held is lost. */
static bool grow(void *array, size_t *max, size_t n, size_t element)
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
	if (!grow(&mm->offset, &mm->max_offset, rows, sizeof *mm->offset) ||
	    (p->direct && !grow(&mm->scaled, &mm->max_scaled, rows * n_in, sizeof *mm->scaled)))
		return -1;
	struct x_job j = {p->x, p->direct ? mm->scaled : NULL, mm->offset, p->rows, p->m->n_in};
	pool_run(mm->pool, prepare_rows, &j, (p->rows + X_ROWS_PER_TASK - 1) / X_ROWS_PER_TASK);
	p->offset = mm->offset;
	if (p->direct)
		p->x = mm->scaled;
	return 0;
}

static int32_t div_up(int32_t a, int32_t b)
{
	return (a + b - 1) / b;
}

/* Someone may have told this thread to take subnormals for zero (what -ffast-math links in does). */
static bool subnormals_count(void)
{
	volatile float tiny = 0x1p-140f;
	return tiny * MATMUL_SUBNORMAL_SCALE > 0;
}

static enum line_kind line_kind(const struct matmul *mm, enum num type)
{
	if (type != NUM_I8)
		return type == NUM_F32 ? LINE_F32 : LINE_BF16;
	return mm->subnormal && subnormals_count() ? LINE_I8_SUBNORMAL : LINE_I8;
}

static int run_ours(struct matmul *mm, float *y, const float *x, int32_t rows, const struct matrix *m)
{
	struct product p = {.mm = mm, .m = m, .y = y, .x = x, .rows = rows};
	p.kind = line_kind(mm, m->type);
	p.direct = rows <= direct_rows[p.kind];
	if (p.kind == LINE_I8_SUBNORMAL && prepare_x(mm, &p))
		return -1;
	p.row_blocks = div_up(rows, ROW_BLOCK);
	p.block_rows = div_up(div_up(rows, p.row_blocks), mm->isa->tile_rows) * mm->isa->tile_rows;
	if (p.block_rows > ROW_BLOCK)
		p.block_rows = ROW_BLOCK;
	p.row_blocks = div_up(rows, p.block_rows);
	p.group_panels = m->n_panels * p.row_blocks / (TASKS_PER_THREAD * pool_threads(mm->pool));
	if (p.group_panels < 1)
		p.group_panels = 1;
	p.groups = div_up(m->n_panels, p.group_panels);
	pool_run(mm->pool, run_task, &p, p.row_blocks * p.groups);
	return 0;
}

/* Seconds one tile with one row takes, the best of several. */
static double time_tile(const struct matmul *mm, enum line_kind kind, const float *x, const void *w, int32_t n_k)
{
	double best = 1;
	for (int i = 0; i < 8; i++) {
		struct timespec from, to;
		clock_gettime(CLOCK_MONOTONIC, &from);
		mm->isa->tile[kind][0](mm->scratch->acc, x, 0, w, n_k, true, w, 0);
		clock_gettime(CLOCK_MONOTONIC, &to);
		double s = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
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

static int32_t block_bytes(void)
{
	long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE); /* 0 or -1 where it is not known */
	return l1 / 2 < MIN_BLOCK ? MIN_BLOCK : l1 / 2 > MAX_BLOCK ? MAX_BLOCK : (int32_t)(l1 / 2);
}

/* --- the interface ----------------------------------------------------------------------------------------------- */

int matmul_open(struct matmul **out, struct pool *pool, enum cpu_isa isa, bool library, char *why, size_t size)
{
	return matmul_open_isa(out, pool, matmul_isas[isa], library, why, size);
}

void matmul_use_subnormals(struct matmul *mm, bool use)
{
	mm->subnormal = use;
}

int matmul_open_isa(struct matmul **out, struct pool *pool, const struct matmul_isa *isa, bool library, char *why,
		    size_t size)
{
	(void)library;
	struct matmul *mm = calloc(1, sizeof *mm);
	struct scratch *scratch = aligned_alloc(64, (size_t)pool_threads(pool) * sizeof *scratch);
	if (!mm || !scratch) {
		free(mm);
		free(scratch);
		snprintf(why, size, "out of memory");
		return -1;
	}
	mm->isa = isa;
	mm->pool = pool;
	mm->scratch = scratch;
	mm->block_bytes = block_bytes();
	mm->subnormal = subnormals_are_fast(mm);
	*out = mm;
	return 0;
}

void matmul_close(struct matmul *mm)
{
	if (!mm)
		return;
	free(mm->scratch);
	free(mm->offset);
	free(mm->scaled);
	free(mm);
}

const char *matmul_library(const struct matmul *mm)
{
	(void)mm;
	return NULL;
}

static int check_shape(const struct matrix_part *parts, int32_t n_parts, int32_t n_in, enum num as, char *why,
		       size_t size)
{
	int64_t n_out = 0;
	if (as != NUM_F32 && as != NUM_BF16 && as != NUM_I8) {
		snprintf(why, size, "weights cannot be held as %s: f32, bf16 or int8", num_names[as]);
		return -1;
	}
	for (int32_t i = 0; i < n_parts; i++) {
		if (parts[i].type == NUM_I8) {
			snprintf(why, size, "weights cannot be made from int8: f32, bf16 or f16");
			return -1;
		}
		if (parts[i].n_out <= 0)
			n_out = INT32_MIN;
		n_out += parts[i].n_out;
	}
	if (n_out > INT32_MAX - MAX_PANEL || n_out <= 0 || n_in <= 0) {
		snprintf(why, size, "a matrix of %lld by %d cannot be held", (long long)n_out, n_in);
		return -1;
	}
	return 0;
}

int matmul_pack(struct matmul *mm, struct matrix **out, const struct matrix_part *parts, int32_t n_parts, int32_t n_in,
		enum num as, char *why, size_t size)
{
	if (check_shape(parts, n_parts, n_in, as, why, size))
		return -1;
	if (pack_matrix(out, parts, n_parts, n_in, as, mm->isa->panel, mm->pool)) {
		snprintf(why, size, "out of memory for weights");
		return -1;
	}
	return 0;
}

void matmul_free(struct matrix *m)
{
	pack_free(m);
}

size_t matmul_bytes(const struct matrix *m)
{
	size_t padded = (size_t)m->n_panels * (size_t)m->panel;
	return (size_t)m->n_panels * m->panel_bytes + (m->scale ? padded * sizeof *m->scale : 0) +
	       (m->bias ? padded * sizeof *m->bias : 0);
}

int matmul_run(struct matmul *mm, float *y, const float *x, int32_t rows, const struct matrix *m)
{
	return rows > 0 ? run_ours(mm, y, x, rows, m) : 0;
}

int matmul_tune(struct matmul *mm, const struct matrix *m, int32_t max_rows)
{
	(void)mm;
	(void)m;
	(void)max_rows;
	return 0;
}

size_t matmul_choices(const struct matmul *mm, char *text, size_t size)
{
	(void)mm;
	if (size)
		*text = '\0';
	return 0;
}
