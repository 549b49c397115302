/* Matrix products of the CPU: every type, instruction set and thread count against sums in double precision. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/matmul_impl.h"
#include "tests/support/suite.h"
#include "tests/support/wide_isa.h"

enum { MAX_ROWS = 70, MAX_PARTS = 3, GUARD = 32 };

struct shape {
	int32_t n_in;
	int32_t n_out[MAX_PARTS]; /* of its parts; 0 = no more */
	unsigned biased; /* bit i: part i has a bias */
};
static const struct shape shapes[] = {
	{1, {1}, 1},        {7, {3}, 0},
	{64, {16}, 0},      {129, {33, 5, 5}, 5}, /* several blocks, parts that start amid a vector */
	{300, {96, 31}, 2}, {1100, {40}, 0}, /* several blocks of int8 as well */
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };
static const int32_t row_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 25, 49, MAX_ROWS};
enum { N_ROW_COUNTS = sizeof row_counts / sizeof *row_counts };

/* --- what is multiplied, and what must come out ------------------------------------------------------------------- */

static uint64_t seed = 1;

static float uniform(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (float)(int32_t)(seed >> 32) * 0x1p-31f;
}

struct weights {
	struct matrix_part parts[MAX_PARTS];
	int32_t n_parts, n_in, n_out;
	double *rounded; /* [n_out][n_in] as the packed type holds them */
	double *bias; /* [n_out] */
	float *x; /* [MAX_ROWS][n_in] */
	double *want; /* [MAX_ROWS][n_out] */
};

static void *take(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);
	if (!p)
		abort();
	return p;
}

static uint32_t bits_of(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

/* By arithmetic: the nearest multiple of the last place, ties to even. */
static float to_bf16(float f)
{
	if (f == 0)
		return f;
	int e;
	float m = frexpf(f, &e);
	return ldexpf(rintf(m * 256), e - 8);
}

/* Any f16 of ordinary size; *value is what it stands for. */
static uint16_t random_f16(float *value)
{
	int exponent = (int)(fabsf(uniform()) * 12), fraction = (int)(fabsf(uniform()) * 1024) & 1023;
	int sign = uniform() < 0;
	*value = ldexpf((float)(1024 + fraction), exponent - 25);
	if (exponent == 0) /* subnormal */
		*value = ldexpf((float)fraction, -24);
	*value *= sign ? -1 : 1;
	return (uint16_t)(sign << 15 | exponent << 10 | fraction);
}

/* One part of random weights of type t; what they stand for goes to values. */
static void *random_part(enum num t, float *values, int32_t n)
{
	void *data = take((size_t)n, t == NUM_F32 ? 4 : 2);
	for (int32_t i = 0; i < n; i++) {
		float v = uniform();
		if (t == NUM_F32) {
			((float *)data)[i] = v;
		} else if (t == NUM_BF16) {
			v = to_bf16(v);
			((uint16_t *)data)[i] = (uint16_t)(bits_of(v) >> 16);
		} else {
			((uint16_t *)data)[i] = random_f16(&v);
		}
		values[i] = v;
	}
	return data;
}

static void round_row(double *to, const float *from, int32_t n, enum num as)
{
	float max = 0;
	for (int32_t k = 0; k < n; k++)
		max = fmaxf(max, fabsf(from[k]));
	float scale = max / 127;
	for (int32_t k = 0; k < n; k++)
		to[k] = as == NUM_F32    ? from[k]
			: as == NUM_BF16 ? to_bf16(from[k])
			: scale > 0      ? (double)scale * rint((double)(from[k] / scale))
					 : 0;
}

static void multiply(struct weights *w)
{
	for (int32_t r = 0; r < MAX_ROWS; r++)
		for (int32_t o = 0; o < w->n_out; o++) {
			const float *x = w->x + (size_t)r * (size_t)w->n_in;
			const double *row = w->rounded + (size_t)o * (size_t)w->n_in;
			double sum = w->bias[o];
			for (int32_t k = 0; k < w->n_in; k++)
				sum += x[k] * row[k];
			w->want[(size_t)r * (size_t)w->n_out + (size_t)o] = sum;
		}
}

static struct weights make_weights(const struct shape *s, enum num as, enum num source)
{
	struct weights w = {.n_in = s->n_in};
	for (; w.n_parts < MAX_PARTS && s->n_out[w.n_parts]; w.n_parts++)
		w.n_out += s->n_out[w.n_parts];
	size_t n_in = (size_t)w.n_in, n_out = (size_t)w.n_out;
	w.rounded = take(n_in * n_out, sizeof(double));
	w.bias = take(n_out, sizeof(double));
	w.x = take(MAX_ROWS * n_in, sizeof(float));
	w.want = take(MAX_ROWS * n_out, sizeof(double));
	float *values = take(n_in * n_out, sizeof(float));
	for (int32_t i = 0, at = 0; i < w.n_parts; at += s->n_out[i++]) {
		float *part = values + (size_t)at * n_in;
		float *bias = NULL;
		w.parts[i].n_out = s->n_out[i];
		w.parts[i].type = source;
		w.parts[i].data = random_part(source, part, s->n_out[i] * w.n_in);
		if (s->biased >> i & 1)
			bias = take((size_t)s->n_out[i], sizeof *bias);
		for (int32_t o = 0; o < s->n_out[i]; o++) {
			round_row(w.rounded + (size_t)(at + o) * n_in, part + (size_t)o * n_in, w.n_in, as);
			if (bias)
				w.bias[at + o] = bias[o] = uniform();
		}
		w.parts[i].bias = bias;
	}
	for (size_t i = 0; i < MAX_ROWS * n_in; i++)
		w.x[i] = uniform();
	multiply(&w);
	free(values);
	return w;
}

static void free_weights(struct weights *w)
{
	for (int32_t i = 0; i < w->n_parts; i++) {
		free((void *)w->parts[i].data);
		free((void *)w->parts[i].bias);
	}
	free(w->rounded);
	free(w->bias);
	free(w->x);
	free(w->want);
}

/* --- one product ------------------------------------------------------------------------------------------------- */

/* NaNs of a kind no computation makes, all over the output and around it. */
static const uint32_t poison = 0x7fc0dead;

static float *poisoned(size_t n)
{
	float *y = take(n + 2 * GUARD, sizeof *y);
	for (size_t i = 0; i < n + 2 * GUARD; i++)
		memcpy(&y[i], &poison, sizeof poison);
	return y;
}

static bool guards_whole(const float *y, size_t n)
{
	for (size_t i = 0; i < GUARD; i++)
		if (bits_of(y[i]) != poison || bits_of(y[GUARD + n + i]) != poison)
			return false;
	return true;
}

/* The result with GUARD floats on both sides, checked; NULL when it could not be computed. */
static float *product(struct matmul *mm, const struct matrix *m, const struct weights *w, int32_t rows)
{
	size_t n = (size_t)rows * (size_t)w->n_out;
	float *y = poisoned(n);
	CU_ASSERT_FATAL(matmul_run(mm, y + GUARD, w->x, rows, m) == 0);
	CU_ASSERT(guards_whole(y, n));
	return y;
}

static double error_of(const float *y, const double *want, size_t n)
{
	double off = 0, norm = 0;
	for (size_t i = 0; i < n; i++) {
		off += (y[i] - want[i]) * (y[i] - want[i]);
		norm += want[i] * want[i];
	}
	return norm > 0 ? sqrt(off / norm) : sqrt(off);
}

/* --- the grid ---------------------------------------------------------------------------------------------------- */

enum { WIDE = N_CPU_ISAS, N_VARIANTS };

static const struct matmul_isa *variant(int v)
{
	if (v == WIDE)
		return &matmul_isa_wide;
	return cpu_isa_usable((enum cpu_isa)v) ? matmul_isas[v] : NULL;
}

static const char *variant_name(int v)
{
	return v == WIDE ? "wide" : cpu_isa_names[v];
}

static void check_small(double error, double most, const char *what)
{
	if (error <= most)
		return;
	printf("  %s: error %.3g, at most %.3g\n", what, error, most);
	CU_FAIL("error too large");
}

/* Every count of rows: near enough, and each row the same bits as among all the others. */
static void check_rows(struct matmul *mm, const struct weights *w, const struct matrix *m, float **all, double most,
		       const char *what)
{
	size_t n_out = (size_t)w->n_out;
	for (int i = N_ROW_COUNTS - 1; i >= 0; i--) {
		float *y = product(mm, m, w, row_counts[i]);
		check_small(error_of(y + GUARD, w->want, (size_t)row_counts[i] * n_out), most, what);
		if (!*all) {
			*all = y;
			continue;
		}
		CU_ASSERT(memcmp(y + GUARD, *all + GUARD, (size_t)row_counts[i] * n_out * sizeof *y) == 0);
		free(y);
	}
}

static void check_variant(const struct weights *w, enum num as, int v, bool subnormals, double most)
{
	char what[96], why[128] = "";
	float *all = NULL;
	snprintf(what, sizeof what, "%s %s%s, %d -> %d", variant_name(v), num_names[as], subnormals ? " subnormal" : "",
		 w->n_in, w->n_out);
	for (int32_t threads = 1; threads <= 3; threads++) {
		struct pool *pool;
		struct matmul *mm;
		struct matrix *m;
		CU_ASSERT_FATAL(pool_create(&pool, threads, 0) == 0);
		CU_ASSERT_FATAL(matmul_open_isa(&mm, pool, variant(v), false, why, sizeof why) == 0);
		matmul_use_subnormals(mm, subnormals);
		CU_ASSERT_FATAL(matmul_pack(mm, &m, w->parts, w->n_parts, w->n_in, as, why, sizeof why) == 0);
		check_rows(mm, w, m, &all, most, what);
		matmul_free(m);
		matmul_close(mm);
		pool_destroy(pool);
	}
	free(all);
}

static void check_type(enum num as, double most)
{
	for (int s = 0; s < N_SHAPES; s++) {
		struct weights w = make_weights(&shapes[s], as, (enum num)(s % 3));
		for (int v = 0; v < N_VARIANTS; v++) {
			if (!variant(v))
				continue;
			check_variant(&w, as, v, false, most);
			if (as == NUM_I8)
				check_variant(&w, as, v, true, most);
		}
		free_weights(&w);
	}
}

static void f32_is_near_and_the_same_in_any_company(void)
{
	check_type(NUM_F32, 1e-6);
}

static void bf16_is_near_and_the_same_in_any_company(void)
{
	check_type(NUM_BF16, 1e-6);
}

static void int8_is_near_and_the_same_in_any_company(void)
{
	check_type(NUM_I8, 1e-5);
}

/* --- single properties ------------------------------------------------------------------------------------------- */

struct bench {
	struct pool *pool;
	struct matmul *mm;
	char why[160];
};

static struct bench open_bench(bool library)
{
	struct bench b = {.why = ""};
	CU_ASSERT_FATAL(pool_create(&b.pool, 2, 0) == 0);
	CU_ASSERT_FATAL(matmul_open(&b.mm, b.pool, cpu_isa_best(), library, b.why, sizeof b.why) == 0);
	return b;
}

static void close_bench(struct bench *b)
{
	matmul_close(b->mm);
	pool_destroy(b->pool);
}

/* More rows than one block of them holds. */
static void many_rows_come_in_blocks(void)
{
	enum { ROWS = 600, N_IN = 20, N_OUT = 40 };
	struct bench b = open_bench(false);
	static float w[N_OUT * N_IN], x[ROWS * N_IN];
	for (int i = 0; i < N_OUT * N_IN; i++)
		w[i] = uniform();
	for (int i = 0; i < ROWS * N_IN; i++)
		x[i] = uniform();
	struct matrix_part part = {.data = w, .type = NUM_F32, .n_out = N_OUT};
	struct matrix *m;
	CU_ASSERT_FATAL(matmul_pack(b.mm, &m, &part, 1, N_IN, NUM_F32, b.why, sizeof b.why) == 0);
	float *y = poisoned(ROWS * N_OUT);
	CU_ASSERT(matmul_run(b.mm, y + GUARD, x, ROWS, m) == 0);
	CU_ASSERT(guards_whole(y, ROWS * N_OUT));
	double worst = 0;
	for (int r = 0; r < ROWS; r++)
		for (int o = 0; o < N_OUT; o++) {
			double sum = 0;
			for (int k = 0; k < N_IN; k++)
				sum += (double)x[r * N_IN + k] * w[o * N_IN + k];
			double off = fabs(y[GUARD + r * N_OUT + o] - sum);
			worst = off <= worst ? worst : off; /* a NaN stays */
		}
	CU_ASSERT(worst < 1e-5);
	free(y);
	matmul_free(m);
	close_bench(&b);
}

/* Few outputs for many threads: rows are cut into many blocks, the last one of a single row. */
static void many_threads_share_the_rows_of_few_outputs(void)
{
	enum { ROWS = 433, N_IN = 2000, N_OUT = 20, MOST = 9 };
	static float w[N_OUT * N_IN], x[ROWS * N_IN], y[2][ROWS * N_OUT];
	char why[160];
	for (int i = 0; i < N_OUT * N_IN; i++)
		w[i] = uniform();
	for (int i = 0; i < ROWS * N_IN; i++)
		x[i] = uniform();
	struct matrix_part part = {.data = w, .type = NUM_F32, .n_out = N_OUT};
	for (int t = NUM_F32; t <= NUM_I8 * 2 + 1; t++) { /* each type without subnormals, then with */
		if (t % 4 == NUM_F16)
			continue;
		for (int many = 0; many < 2; many++) {
			struct pool *pool;
			struct matmul *mm;
			struct matrix *m;
			CU_ASSERT_FATAL(pool_create(&pool, many ? MOST : 1, 0) == 0);
			CU_ASSERT_FATAL(matmul_open(&mm, pool, cpu_isa_best(), false, why, sizeof why) == 0);
			matmul_use_subnormals(mm, t > NUM_I8);
			CU_ASSERT_FATAL(matmul_pack(mm, &m, &part, 1, N_IN, (enum num)(t % 4), why, sizeof why) == 0);
			CU_ASSERT(matmul_run(mm, y[many], x, ROWS, m) == 0);
			matmul_free(m);
			matmul_close(mm);
			pool_destroy(pool);
		}
		CU_ASSERT(memcmp(y[0], y[1], sizeof y[0]) == 0);
	}
}

/* bf16 from f32: to the nearest, ties to even; infinities and NaNs stay what they are. */
static void rounding_to_bf16_is_to_nearest_even(void)
{
	static const struct {
		uint32_t from, to;
	} cases[] = {
		{0x3f800000, 0x3f800000}, {0x3f808000, 0x3f800000}, {0x3f818000, 0x3f820000}, {0x3f808001, 0x3f810000},
		{0xbf817fff, 0xbf810000}, {0x7f7fffff, 0x7f800000}, {0x7f800000, 0x7f800000}, {0xff800000, 0xff800000},
		{0x00000001, 0x00000000}, {0x80000000, 0x80000000},
	};
	struct bench b = open_bench(false);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		float w, y, x = 1;
		memcpy(&w, &cases[i].from, sizeof w);
		struct matrix_part part = {.data = &w, .type = NUM_F32, .n_out = 1};
		struct matrix *m;
		CU_ASSERT_FATAL(matmul_pack(b.mm, &m, &part, 1, 1, NUM_BF16, b.why, sizeof b.why) == 0);
		CU_ASSERT(matmul_run(b.mm, &y, &x, 1, m) == 0);
		/* 0 + -0 is 0. */
		CHECK_INT(bits_of(y), cases[i].to == 0x80000000 ? 0 : cases[i].to);
		matmul_free(m);
	}
	float nan = nanf(""), y, x = 1;
	struct matrix_part part = {.data = &nan, .type = NUM_F32, .n_out = 1};
	struct matrix *m;
	CU_ASSERT_FATAL(matmul_pack(b.mm, &m, &part, 1, 1, NUM_BF16, b.why, sizeof b.why) == 0);
	CU_ASSERT(matmul_run(b.mm, &y, &x, 1, m) == 0 && isnan(y));
	matmul_free(m);
	close_bench(&b);
}

/* Every shape and type, few rows and many, on one thread and several. */
static void the_library_is_near(void)
{
	static const double most[] = {[NUM_F32] = 1e-6, [NUM_BF16] = 1e-6, [NUM_I8] = 1e-5};
	struct bench b = open_bench(true);
	if (!matmul_library(b.mm)) {
		close_bench(&b);
		test_skip("oneDNN is not installed");
		return;
	}
	for (int s = 0; s < N_SHAPES * 3; s++) {
		static const enum num types[] = {NUM_F32, NUM_BF16, NUM_I8};
		enum num as = types[s % 3];
		struct weights w = make_weights(&shapes[s / 3], as, NUM_F32);
		struct matrix *m;
		CU_ASSERT_FATAL(matmul_pack(b.mm, &m, w.parts, w.n_parts, w.n_in, as, b.why, sizeof b.why) == 0);
		for (int32_t rows = 1; rows <= MAX_ROWS; rows += 23) {
			size_t n = (size_t)rows * (size_t)w.n_out;
			float *y = poisoned(n);
			CU_ASSERT(matmul_by_library(b.mm, y + GUARD, w.x, rows, m) == 0);
			CU_ASSERT(guards_whole(y, n));
			check_small(error_of(y + GUARD, w.want, n), most[as], num_names[as]);
			free(y);
		}
		matmul_free(m);
		free_weights(&w);
	}
	close_bench(&b);
}

static struct matrix *pack_ones(struct bench *b, int32_t n_in, int32_t n_out, float *w)
{
	struct matrix *m;
	for (int32_t i = 0; i < n_in * n_out; i++)
		w[i] = 1;
	struct matrix_part part = {.data = w, .type = NUM_F32, .n_out = n_out};
	CU_ASSERT_FATAL(matmul_pack(b->mm, &m, &part, 1, n_in, NUM_F32, b->why, sizeof b->why) == 0);
	return m;
}

/* A library that counts its calls and works, or does not. */
static atomic_int library_calls;
static int library_status;
static int count_sgemm(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
		       int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
	(void)transa;
	(void)transb;
	library_calls++;
	for (int64_t r = 0; r < m; r++)
		for (int64_t o = 0; o < n; o++) {
			float sum = 0;
			for (int64_t i = 0; i < k; i++)
				sum += a[r * lda + i] * b[i * ldb + o];
			c[r * ldc + o] = alpha * sum + (beta != 0 ? beta * c[r * ldc + o] : 0);
		}
	return library_status;
}

/* Which way is faster is measured once per row count, however often it is asked for, and the way chosen is taken. */
static void a_choice_is_made_once_and_kept(void)
{
	enum { N_IN = 48, N_OUT = 100, ROWS = 40 };
	static float w[N_IN * N_OUT], x[ROWS * N_IN], y[ROWS * N_OUT];
	char text[1024], little[8];
	struct bench b = open_bench(false);
	b.mm->has_library = true;
	b.mm->library = (struct dnnl_api){.name = "a stub", .sgemm = count_sgemm};
	struct matrix *m = pack_ones(&b, N_IN, N_OUT, w);
	CHECK_INT(matmul_choices(b.mm, text, sizeof text), 0);
	CHECK_INT(matmul_tune(b.mm, m, ROWS), 0);
	CHECK_INT(b.mm->n_choices, 2); /* from 16 rows, from 32 */
	library_calls = 0;
	CHECK_INT(matmul_tune(b.mm, m, ROWS), 0);
	CHECK_INT(library_calls, 0);
	for (int i = 0; i < ROWS * N_IN; i++)
		x[i] = (float)(i - i % N_IN) / N_IN;
	for (int library = 0; library < 2; library++) {
		b.mm->choices[1].use_library = library;
		CHECK_INT(matmul_run(b.mm, y, x, ROWS, m), 0);
		CHECK_INT(library_calls > 0, library);
		CHECK_NEAR(y[0], 0, 0);
		CHECK_NEAR(y[ROWS * N_OUT - 1], N_IN * (ROWS - 1), 0);
	}
	library_calls = 0;
	CHECK_INT(matmul_run(b.mm, y, x, 15, m), 0); /* too few for it */
	CHECK_INT(library_calls, 0);
	CHECK_INT(b.mm->n_choices, 2);
	size_t n = matmul_choices(b.mm, text, sizeof text);
	CHECK_INT(n, strlen(text));
	CU_ASSERT(strstr(text, "f32, 32 rows and more, 48 to 100: ours") != NULL);
	/* A short buffer gets what fits, and the length needed. */
	CHECK_INT(matmul_choices(b.mm, little, sizeof little), n);
	CHECK_STR(little, "f32, 16");
	library_status = 1;
	CHECK_INT(matmul_run(b.mm, y, x, ROWS, m), -1);
	library_status = 0;
	matmul_free(m);
	close_bench(&b);
}

static void without_the_library_nothing_is_measured(void)
{
	static float w[64 * 64], x[64 * 64], y[64 * 64];
	struct bench b = open_bench(false);
	CU_ASSERT(matmul_library(b.mm) == NULL);
	struct matrix *m = pack_ones(&b, 64, 64, w);
	CHECK_INT(matmul_tune(b.mm, m, 64), 0);
	CHECK_INT(matmul_run(b.mm, y, x, 64, m), 0);
	CHECK_INT(b.mm->n_choices, 0);
	matmul_free(m);
	close_bench(&b);
}

/* A row of zeros has scale 0 and gives its bias, whatever x is. */
static void int8_rows_of_zeros_give_their_bias(void)
{
	struct bench b = open_bench(false);
	float w[2 * 3] = {0, 0, 0, 1, -127, 63.5f}, bias[2] = {5, 0}, x[3] = {1e6f, -3, 0.25f}, y[2];
	struct matrix_part part = {.data = w, .type = NUM_F32, .n_out = 2, .bias = bias};
	struct matrix *m;
	CU_ASSERT_FATAL(matmul_pack(b.mm, &m, &part, 1, 3, NUM_I8, b.why, sizeof b.why) == 0);
	for (int subnormals = 0; subnormals < 2; subnormals++) {
		matmul_use_subnormals(b.mm, subnormals);
		CU_ASSERT(matmul_run(b.mm, y, x, 1, m) == 0);
		CHECK_NEAR(y[0], 5, 0);
		CHECK_NEAR(y[1], 1e6 + 381 + 16, 16); /* 63.5 is held as 64 */
	}
	matmul_free(m);
	close_bench(&b);
}

/* Broken weights are seen, not turned into ordinary numbers. */
static void a_nan_stays(void)
{
	struct bench b = open_bench(false);
	float w[4] = {1, nanf(""), 1, 2}, x[2] = {1, 1}, y[2];
	struct matrix_part part = {.data = w, .type = NUM_F32, .n_out = 2};
	for (int t = NUM_F32; t <= NUM_I8; t++) {
		struct matrix *m;
		if (t == NUM_F16)
			continue;
		CU_ASSERT_FATAL(matmul_pack(b.mm, &m, &part, 1, 2, (enum num)t, b.why, sizeof b.why) == 0);
		CU_ASSERT(matmul_run(b.mm, y, x, 1, m) == 0);
		CU_ASSERT(isnan(y[0]));
		CHECK_NEAR(y[1], 3, 0.02);
		matmul_free(m);
	}
	close_bench(&b);
}

static void what_cannot_be_held_is_refused(void)
{
	struct bench b = open_bench(false);
	float w[4] = {0};
	struct matrix *m = NULL;
	struct matrix_part part = {.data = w, .type = NUM_F32, .n_out = 2};
	CHECK_INT(matmul_pack(b.mm, &m, &part, 1, 2, NUM_F16, b.why, sizeof b.why), -1);
	CHECK_STR(b.why, "weights cannot be held as f16: f32, bf16 or int8");
	part.type = NUM_I8;
	CHECK_INT(matmul_pack(b.mm, &m, &part, 1, 2, NUM_F32, b.why, sizeof b.why), -1);
	CHECK_STR(b.why, "weights cannot be made from int8: f32, bf16 or f16");
	part.type = NUM_F8;
	CHECK_INT(matmul_pack(b.mm, &m, &part, 1, 2, NUM_F32, b.why, sizeof b.why), -1);
	CHECK_STR(b.why, "weights cannot be made from fp8: f32, bf16 or f16");
	part.type = NUM_F32;
	CHECK_INT(matmul_pack(b.mm, &m, &part, 1, 0, NUM_F32, b.why, sizeof b.why), -1);
	CHECK_STR(b.why, "a matrix of 2 by 0 cannot be held");
	part.n_out = INT32_MAX;
	CHECK_INT(matmul_pack(b.mm, &m, &part, 1, 1, NUM_F32, b.why, sizeof b.why), -1);
	CHECK_INT(matmul_run(b.mm, w, w, 0, NULL), 0); /* no rows, no work */
	matmul_free(NULL);
	matmul_close(NULL);
	close_bench(&b);
}

/* What the roofline divides by: panels are filled up, so a little more than n_out n_in weights. */
static void bytes_are_what_one_row_reads(void)
{
	struct bench b = open_bench(false);
	static float w[256 * 10];
	float bias[256] = {0};
	struct matrix_part part = {.data = w, .type = NUM_F32, .n_out = 256, .bias = bias};
	static const size_t want[] = {256 * 10 * 4 + 256 * 4, 256 * 10 * 2 + 256 * 4, 0, 256 * 10 + 256 * 4 + 256 * 4};
	for (int t = NUM_F32; t <= NUM_I8; t++) {
		struct matrix *m;
		if (t == NUM_F16)
			continue;
		CU_ASSERT_FATAL(matmul_pack(b.mm, &m, &part, 1, 10, (enum num)t, b.why, sizeof b.why) == 0);
		CHECK_INT(matmul_bytes(m), want[t]);
		matmul_free(m);
	}
	close_bench(&b);
}

int main(void)
{
	static const struct test tests[] = {
		{"f32_is_near_and_the_same_in_any_company", f32_is_near_and_the_same_in_any_company},
		{"bf16_is_near_and_the_same_in_any_company", bf16_is_near_and_the_same_in_any_company},
		{"int8_is_near_and_the_same_in_any_company", int8_is_near_and_the_same_in_any_company},
		{"many_rows_come_in_blocks", many_rows_come_in_blocks},
		{"many_threads_share_the_rows_of_few_outputs", many_threads_share_the_rows_of_few_outputs},
		{"the_library_is_near", the_library_is_near},
		{"a_choice_is_made_once_and_kept", a_choice_is_made_once_and_kept},
		{"without_the_library_nothing_is_measured", without_the_library_nothing_is_measured},
		{"rounding_to_bf16_is_to_nearest_even", rounding_to_bf16_is_to_nearest_even},
		{"int8_rows_of_zeros_give_their_bias", int8_rows_of_zeros_give_their_bias},
		{"a_nan_stays", a_nan_stays},
		{"what_cannot_be_held_is_refused", what_cannot_be_held_is_refused},
		{"bytes_are_what_one_row_reads", bytes_are_what_one_row_reads},
	};
	return SUITE_RUN("kernels_matmul", tests);
}
