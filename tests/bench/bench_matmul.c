/* bench_matmul: matrix products of TinyLlama's shapes, ours and the library's, beside the rate at which this machine reads
 * memory. Without arguments the rows of `make bench`; `bench_matmul full [THREADS]` prints every shape, row count and type. Medians. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/matmul_impl.h"

enum { MAX_ROWS = 512, MAX_COPIES = 32, MAX_ROUNDS = 31 };
/* Weights are cycled through this much memory, far more than any cache holds. */
static const size_t cycle_bytes = (size_t)96 << 20;

static const struct shape {
	const char *name;
	int32_t n_in, n_out;
} shapes[] = {
	{"q, k and v", 2048, 2560}, {"attention out", 2048, 2048}, {"gate and up", 2048, 11264},
	{"down", 5632, 2048},       {"head", 2048, 32000},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, GATE_UP = 2 };
static const int32_t row_counts[] = {1, 2, 4, 8, 16, 32, 64, 128, 512};
enum { N_ROW_COUNTS = sizeof row_counts / sizeof *row_counts };
static const enum num types[] = {NUM_F32, NUM_BF16, NUM_I8};

struct bench {
	struct pool *pool;
	struct matmul *mm;
	float *x, *y, *weights;
	double read_gb_s;
	struct matrix *m[MAX_COPIES];
	int n_copies;
};

static void *take(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (!p) {
		fprintf(stderr, "bench_matmul: out of memory\n");
		exit(1);
	}
	return p;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double median(double *s, int n)
{
	qsort(s, (size_t)n, sizeof *s, by_value);
	return s[n / 2];
}

/* --- how fast memory is read ---------------------------------------------------------------------------------------- */

enum { READ_TASKS = 64 };
struct reading {
	const char *p;
	size_t each; /* bytes a task reads, a multiple of 256 */
	uint64_t sums[READ_TASKS];
};

static void read_part(void *ctx, int32_t task, int32_t thread)
{
	typedef uint64_t v __attribute__((vector_size(32)));
	(void)thread;
	struct reading *r = ctx;
	const char *p = r->p + (size_t)task * r->each;
	v sum[8];
	memset(sum, 0, sizeof sum);
	for (size_t i = 0; i < r->each; i += sizeof sum) {
		v got[8];
		memcpy(got, p + i, sizeof got);
		for (size_t at = 0; at < sizeof got; at += 64)
			__builtin_prefetch(p + i + 1024 + at);
		for (int j = 0; j < 8; j++)
			sum[j] ^= got[j];
	}
	for (int j = 1; j < 8; j++)
		sum[0] ^= sum[j];
	r->sums[task] = sum[0][0] ^ sum[0][1] ^ sum[0][2] ^ sum[0][3];
}

/* The weights of a matrix that fills the cycle, read and nothing else done with them. */
static double read_gb_s(struct bench *b)
{
	double s[MAX_ROUNDS];
	struct reading r = {.p = b->m[0]->w};
	size_t bytes = (size_t)b->m[0]->n_panels * b->m[0]->panel_bytes;
	r.each = bytes / READ_TASKS / 256 * 256;
	for (int i = 0; i < MAX_ROUNDS; i++) {
		s[i] = matmul_seconds();
		pool_run(b->pool, read_part, &r, READ_TASKS);
		s[i] = matmul_seconds() - s[i];
	}
	return (double)r.each * READ_TASKS / median(s, MAX_ROUNDS) * 1e-9;
}

/* --- products ------------------------------------------------------------------------------------------------------ */

static void fill(struct bench *b, const struct shape *s, enum num as)
{
	char why[128];
	struct matrix_part part = {.data = b->weights, .type = NUM_F32, .n_out = s->n_out};
	b->n_copies = 0;
	do {
		if (matmul_pack(b->mm, &b->m[b->n_copies], &part, 1, s->n_in, as, why, sizeof why)) {
			fprintf(stderr, "bench_matmul: %s\n", why);
			exit(1);
		}
		b->n_copies++;
	} while (b->n_copies < MAX_COPIES && matmul_bytes(b->m[0]) * (size_t)b->n_copies < cycle_bytes);
}

static void empty(struct bench *b)
{
	while (b->n_copies > 0)
		matmul_free(b->m[--b->n_copies]);
}

typedef int (*way)(struct matmul *mm, float *y, const float *x, int32_t rows, const struct matrix *m);

/* Median seconds of one product; about half a second is spent. */
static double time_way(struct bench *b, way run, int32_t rows)
{
	double s[MAX_ROUNDS], spent = 0;
	int n = 0;
	for (; n < MAX_ROUNDS && (n < 3 || spent < 0.5); n++) {
		s[n] = matmul_seconds();
		if (run(b->mm, b->y, b->x, rows, b->m[n % b->n_copies]))
			exit(1);
		s[n] = matmul_seconds() - s[n];
		spent += s[n];
	}
	return median(s, n);
}

static double gflop(const struct shape *s, int32_t rows)
{
	return 2e-9 * rows * s->n_in * s->n_out;
}

static void print_shape(struct bench *b, const struct shape *s, enum num as)
{
	fill(b, s, as);
	for (int i = 0; i < N_ROW_COUNTS; i++) {
		int32_t rows = row_counts[i];
		double ours = time_way(b, matmul_ours, rows), gb = (double)matmul_bytes(b->m[0]) / ours * 1e-9;
		printf("%-13s %5d -> %5d  %-4s %4d rows  %8.3f ms %6.1f GFLOP/s %5.1f GB/s %4.0f %%", s->name, s->n_in,
		       s->n_out, num_names[as], rows, ours * 1e3, gflop(s, rows) / ours, gb, 100 * gb / b->read_gb_s);
		if (b->mm->has_library)
			printf("  %s %6.1f GFLOP/s", b->mm->library.name,
			       gflop(s, rows) / time_way(b, matmul_by_library, rows));
		printf("\n");
		fflush(stdout);
	}
	empty(b);
}

static void print_full(struct bench *b)
{
	printf("reading memory: %.1f GB/s\n", b->read_gb_s);
	for (size_t t = 0; t < sizeof types / sizeof *types; t++)
		for (int i = 0; i < N_SHAPES; i++)
			print_shape(b, &shapes[i], types[t]);
}

/* What `make bench` shows of it: the largest matrix of a layer. */
static void print_rows(struct bench *b)
{
	const struct shape *s = &shapes[GATE_UP];
	printf("reading memory, all threads\t%.1f\tGB/s\n", b->read_gb_s);
	for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
		const char *type = num_names[types[t]];
		fill(b, s, types[t]);
		double one = (double)matmul_bytes(b->m[0]) / time_way(b, matmul_ours, 1) * 1e-9;
		printf("%s product with 1 row, of the rate of reading\t%.0f\t%%\t>=80\n", type,
		       100 * one / b->read_gb_s);
		for (int32_t rows = 8; rows <= 512; rows *= 8)
			printf("%s product with %d rows\t%.1f\tGFLOP/s\n", type, rows,
			       gflop(s, rows) / time_way(b, matmul_ours, rows));
		if (b->mm->has_library)
			printf("%s product with 512 rows, against %s\t%.2f\tx\t>=0.8\n", type, b->mm->library.name,
			       time_way(b, matmul_by_library, 512) / time_way(b, matmul_run, 512));
		empty(b);
	}
}

int main(int argc, char **argv)
{
	struct bench b = {.n_copies = 0};
	char why[128] = "threads cannot be started";
	if (pool_create(&b.pool, argc > 2 ? atoi(argv[2]) : 0, -1) ||
	    matmul_open(&b.mm, b.pool, cpu_isa_best(), true, why, sizeof why)) {
		fprintf(stderr, "bench_matmul: %s\n", why);
		return 1;
	}
	size_t n_x = (size_t)MAX_ROWS * 5632, n_y = (size_t)MAX_ROWS * 32000, n_w = (size_t)2048 * 32000;
	b.x = take(n_x * sizeof *b.x);
	b.y = take(n_y * sizeof *b.y);
	b.weights = take(n_w * sizeof *b.weights);
	for (size_t i = 0; i < n_w; i++)
		b.weights[i] = (float)(i * 2654435761u % 1000) * 1e-3f - 0.5f;
	for (size_t i = 0; i < n_x; i++)
		b.x[i] = (float)(i * 40503u % 1000) * 1e-3f - 0.5f;
	memset(b.y, 0, n_y * sizeof *b.y);
	fill(&b, &shapes[N_SHAPES - 1], NUM_F32);
	b.read_gb_s = read_gb_s(&b);
	empty(&b);
	if (argc > 1 && strcmp(argv[1], "full") == 0)
		print_full(&b);
	else
		print_rows(&b);
	free(b.x);
	free(b.y);
	free(b.weights);
	matmul_close(b.mm);
	pool_destroy(b.pool);
	return 0;
}
