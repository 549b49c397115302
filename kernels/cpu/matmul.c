#include "kernels/cpu/matmul.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/matmul_isa.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/pool.h"

/* A block of the weights, K_BLOCK lines of a panel as f32, stays in the first cache while every row of ROW_BLOCK goes by;
 * the rows' own sums stay in the second. */
enum { K_BLOCK = 128, ROW_BLOCK = 256, MAX_PANEL = 64, TASKS_PER_THREAD = 8 };

const struct matmul_isa *const matmul_isas[N_CPU_ISAS] = CPU_ISA_TABLES(matmul_isa);

struct matmul {
	const struct matmul_isa *isa;
	struct pool *pool;
	struct scratch *scratch; /* [threads] */
};

struct scratch {
	_Alignas(64) float acc[ROW_BLOCK * MAX_PANEL];
	float w[K_BLOCK * MAX_PANEL];
};

/* --- our own kernels --------------------------------------------------------------------------------------------- */

struct product {
	const struct matmul *mm;
	const struct matrix *m;
	float *y;
	const float *x;
	int32_t rows;
	int32_t row_blocks, block_rows; /* rows in blocks of block_rows */
	int32_t groups, group_panels; /* panels in groups of group_panels */
};

/* Up to a tile's height of rows: the weights are read once, widened in registers. */
static void few_rows(const struct product *p, struct scratch *s, int32_t panel)
{
	const struct matrix *m = p->m;
	const char *w = m->w + (size_t)panel * m->panel_bytes;
	p->mm->isa->tile[m->type][p->rows - 1](s->acc, p->x, m->n_in, w, m->n_in, true, w + 1024);
}

/* How many rows the next tile takes of those left: equal halves rather than a full tile and one lonely row. */
static int32_t next_tile(int32_t left, int32_t tile)
{
	if (left <= tile)
		return left;
	return left < 2 * tile ? (left + 1) / 2 : tile;
}

static void many_rows(const struct product *p, struct scratch *s, int32_t panel, const float *x, int32_t rows)
{
	const struct matmul_isa *isa = p->mm->isa;
	const struct matrix *m = p->m;
	int32_t line = matmul_line_bytes(m->panel, m->type);
	const char *w = m->w + (size_t)panel * m->panel_bytes;
	for (int32_t k = 0; k < m->n_in; k += K_BLOCK) {
		int32_t n_k = m->n_in - k < K_BLOCK ? m->n_in - k : K_BLOCK;
		const char *at = w + (size_t)k * (size_t)line, *next = at + (size_t)n_k * (size_t)line;
		const void *block = at;
		if (m->type != NUM_F32) {
			isa->widen[m->type](s->w, at, n_k);
			block = s->w;
		}
		for (int32_t r = 0, n; r < rows; r += n) {
			n = next_tile(rows - r, isa->tile_rows);
			const char *ahead = r == 0 ? next : block;
			isa->tile[NUM_F32][n - 1](s->acc + r * m->panel, x + (size_t)r * (size_t)m->n_in + k, m->n_in,
						  block, n_k, k == 0, ahead);
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
		if (p->rows <= p->mm->isa->tile_rows)
			few_rows(p, s, panel);
		else
			many_rows(p, s, panel, p->x + (size_t)first_row * (size_t)m->n_in, rows);
		p->mm->isa->finish(p->y + (size_t)first_row * (size_t)m->n_out + o, m->n_out, s->acc, rows, n,
				   m->scale ? m->scale + o : NULL, m->bias ? m->bias + o : NULL);
	}
}

static int32_t div_up(int32_t a, int32_t b)
{
	return (a + b - 1) / b;
}

static void run_ours(const struct matmul *mm, float *y, const float *x, int32_t rows, const struct matrix *m)
{
	struct product p = {.mm = mm, .m = m, .y = y, .x = x, .rows = rows};
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
}

/* --- the interface ----------------------------------------------------------------------------------------------- */

int matmul_open(struct matmul **out, struct pool *pool, enum cpu_isa isa, bool library, char *why, size_t size)
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
	mm->isa = matmul_isas[isa];
	mm->pool = pool;
	mm->scratch = scratch;
	*out = mm;
	return 0;
}

void matmul_close(struct matmul *mm)
{
	if (!mm)
		return;
	free(mm->scratch);
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
	if (rows > 0)
		run_ours(mm, y, x, rows, m);
	return 0;
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
