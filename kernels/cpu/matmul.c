#include "kernels/cpu/matmul.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/matmul_impl.h"

const struct matmul_isa *const matmul_isas[N_CPU_ISAS] = CPU_ISA_TABLES(matmul_isa);

/* --- ours or the library's ---------------------------------------------------------------------------------------- */

/* The library is asked from so many rows on: with fewer, memory is what counts, and ours reads it as fast as it goes. It
 * has to gain this much, since ours gives a row the same bits in any company. */
enum { LIBRARY_ROWS = 16, MAX_MEASURED_ROWS = 512, MEASURED_N_IN = 1024, MEASURED_N_OUT = 256, REPEATS = 3 };
static const double worth = 1.15;

static int32_t div_up(int32_t a, int32_t b)
{
	return (a + b - 1) / b;
}

static int32_t power_of_two_below(int32_t rows)
{
	int32_t p = LIBRARY_ROWS;
	while (p <= rows / 2 && p < MAX_MEASURED_ROWS)
		p *= 2;
	return p;
}

/* What stands for products like that of m: no more of it than a few milliseconds take. Its weights are m's first ones,
 * cut anew where n_in is cut, which is all the same for time. */
static struct matrix part_of(const struct matmul *mm, const struct matrix *m)
{
	struct matrix part = *m;
	int32_t panels = div_up(MEASURED_N_OUT * pool_threads(mm->pool), m->panel);
	if (part.n_in > MEASURED_N_IN) {
		part.n_in = MEASURED_N_IN;
		part.panel_bytes = (size_t)part.n_in * (size_t)matmul_line_bytes(m->panel, m->type);
	}
	if (part.n_panels > panels) {
		part.n_panels = panels;
		part.n_out = panels * m->panel;
	}
	return part;
}

static const struct matmul_choice *find_choice(const struct matmul *mm, const struct matrix *part, int32_t rows)
{
	for (int32_t i = 0; i < mm->n_choices; i++) {
		const struct matmul_choice *c = &mm->choices[i];
		if (c->rows == rows && c->type == part->type && c->n_in == part->n_in && c->n_out == part->n_out)
			return c;
	}
	return NULL;
}

/* By turns, the best of each; the first time also makes the library compile its kernels. */
static int time_both(struct matmul *mm, const struct matrix *part, struct matmul_choice *c)
{
	size_t n_x = (size_t)c->rows * (size_t)part->n_in, n_y = (size_t)c->rows * (size_t)part->n_out;
	float *x = malloc(n_x * sizeof *x), *y = malloc(n_y * sizeof *y);
	int rc = x && y ? 0 : -1;
	for (size_t i = 0; rc == 0 && i < n_x; i++)
		x[i] = 1;
	c->ours_s = c->library_s = 1e9;
	for (int i = 0; i < REPEATS && rc == 0; i++) {
		double from = matmul_seconds();
		rc = matmul_ours(mm, y, x, c->rows, part);
		double between = matmul_seconds();
		if (rc == 0)
			rc = matmul_by_library(mm, y, x, c->rows, part);
		double to = matmul_seconds();
		c->ours_s = between - from < c->ours_s ? between - from : c->ours_s;
		c->library_s = to - between < c->library_s ? to - between : c->library_s;
	}
	c->use_library = c->library_s * worth < c->ours_s;
	free(x);
	free(y);
	return rc;
}

/* NULL: out of memory. */
static const struct matmul_choice *choose(struct matmul *mm, const struct matrix *m, int32_t rows)
{
	struct matrix part = part_of(mm, m);
	struct matmul_choice c = {.type = m->type, .n_in = part.n_in, .n_out = part.n_out};
	c.rows = power_of_two_below(rows);
	const struct matmul_choice *known = find_choice(mm, &part, c.rows);
	if (known)
		return known;
	if (mm->n_choices == mm->max_choices) {
		int32_t max = mm->max_choices ? 2 * mm->max_choices : 16;
		struct matmul_choice *more = realloc(mm->choices, (size_t)max * sizeof *more);
		if (!more)
			return NULL;
		mm->choices = more;
		mm->max_choices = max;
	}
	if (time_both(mm, &part, &c))
		return NULL;
	mm->choices[mm->n_choices] = c;
	return &mm->choices[mm->n_choices++];
}

int matmul_run(struct matmul *mm, float *y, const float *x, int32_t rows, const struct matrix *m)
{
	if (rows <= 0)
		return 0;
	if (!mm->has_library || rows < LIBRARY_ROWS)
		return matmul_ours(mm, y, x, rows, m);
	const struct matmul_choice *c = choose(mm, m, rows);
	if (!c)
		return -1;
	return c->use_library ? matmul_by_library(mm, y, x, rows, m) : matmul_ours(mm, y, x, rows, m);
}

int matmul_tune(struct matmul *mm, const struct matrix *m, int32_t max_rows)
{
	if (!mm->has_library)
		return 0;
	for (int32_t rows = LIBRARY_ROWS; rows <= max_rows && rows <= MAX_MEASURED_ROWS; rows *= 2)
		if (!choose(mm, m, rows))
			return -1;
	return 0;
}

size_t matmul_choices(const struct matmul *mm, char *text, size_t size)
{
	size_t n = 0;
	if (size)
		*text = '\0';
	for (int32_t i = 0; i < mm->n_choices; i++) {
		const struct matmul_choice *c = &mm->choices[i];
		double gflop = 2e-9 * c->rows * c->n_in * c->n_out;
		int more = snprintf(n < size ? text + n : NULL, n < size ? size - n : 0,
				    "%s, %d rows and more, %d to %d: ours %.1f, %s %.1f GFLOP/s: %s\n",
				    num_names[c->type], c->rows, c->n_in, c->n_out, gflop / c->ours_s, mm->library.name,
				    gflop / c->library_s, c->use_library ? mm->library.name : "ours");
		n += more > 0 ? (size_t)more : 0;
	}
	return n;
}

/* --- the interface ------------------------------------------------------------------------------------------------ */

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
	struct matmul *mm = calloc(1, sizeof *mm);
	struct matmul_scratch *scratch = aligned_alloc(64, (size_t)pool_threads(pool) * sizeof *scratch);
	if (!mm || !scratch) {
		free(mm);
		free(scratch);
		snprintf(why, size, "out of memory");
		return -1;
	}
	mm->isa = isa;
	mm->pool = pool;
	mm->scratch = scratch;
	matmul_fit_machine(mm);
	mm->has_library = library && dnnl_api_open(&mm->library) == 0;
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
	free(mm->strips);
	free(mm->choices);
	free(mm);
}

const char *matmul_library(const struct matmul *mm)
{
	return mm->has_library ? mm->library.name : NULL;
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
		if (parts[i].type == NUM_I8 || parts[i].type == NUM_F8) {
			snprintf(why, size, "weights cannot be made from %s: f32, bf16 or f16",
				 num_names[parts[i].type]);
			return -1;
		}
		if (parts[i].n_out <= 0)
			n_out = INT32_MIN;
		n_out += parts[i].n_out;
	}
	if (n_out > INT32_MAX - MATMUL_MAX_PANEL || n_out <= 0 || n_in <= 0) {
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
