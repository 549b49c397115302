/* What attention and the operations on rows take, on the best kernels of this machine and all its threads: medians of
 * repeats, as "figure<TAB>value<TAB>unit" lines. `bench_ops ISA THREADS` chooses; a third argument picks figures that
 * hold it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/ops.h"
#include "tests/support/kv_step.h"
#include "tests/support/op_cases.h"

enum { REPEATS_MAX = 1000 };
static const double seconds_each = 0.3;

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

struct timing {
	double median, least;
};

static struct timing measure(void (*fn)(void *ctx), void *ctx)
{
	static double t[REPEATS_MAX];
	int n = 0;
	fn(ctx);
	for (double begin = now_s(); n < REPEATS_MAX && (n < 5 || now_s() - begin < seconds_each); n++) {
		double from = now_s();
		fn(ctx);
		t[n] = now_s() - from;
	}
	qsort(t, (size_t)n, sizeof *t, by_value);
	return (struct timing){t[n / 2], t[0]};
}

static void attend(void *ctx)
{
	struct kv_step *s = ctx;
	s->set->ops->attention(s->set, s->out, s->qkv, &s->rows, &s->shape, &s->kv, &s->layer, NULL);
}

/* Tokens seen, added up over rows; and distinct tokens that have to be read. */
static void count_tokens(const struct kv_desc *d, double *seen, double *read)
{
	*seen = *read = 0;
	for (int32_t i = 0; i < d->n_seqs; i++) {
		int32_t first = d->seqs[i].ctx - d->seqs[i].rows;
		*read += d->seqs[i].ctx;
		for (int32_t row = first; row < d->seqs[i].ctx; row++)
			*seen += d->window > 0 && row + 1 > d->window ? d->window : row + 1;
	}
}

static void bench_attention(struct kernel_set *set, const struct attention_case *c, enum num type)
{
	struct kv_seq seqs[ATTENTION_CASE_SEQS];
	struct kv_desc d = attention_case_desc(c, type, 1, seqs);
	struct kv_step s;
	double seen, read;
	kv_step_make(&s, set, &d);
	struct timing t = measure(attend, &s);
	count_tokens(&d, &seen, &read);
	double flops = seen * 4 * c->n_heads * c->head_dim,
	       bytes = read * 2 * c->n_kv_heads * c->head_dim * num_bytes(type);
	const char *type_name = num_names[type];
	printf("attention %s, %s\t%.1f\tus\n", type_name, c->name, t.median * 1e6);
	printf("attention %s, %s, rate of the fastest\t%.1f\tGFLOP/s\n", type_name, c->name, flops / t.least * 1e-9);
	if (c->rows == 1)
		printf("attention %s, %s, KV read by the fastest\t%.1f\tGB/s\n", type_name, c->name,
		       bytes / t.least * 1e-9);
	kv_step_free(&s);
}

/* --- operations on rows, of TinyLlama's sizes ---------------------------------------------------------------------- */

enum { HIDDEN = 2048, WIDTH = 5632, VOCAB = 32000 };

struct row_bench {
	struct kernel_set *set;
	int32_t rows;
	float *x, *y, *w;
	int32_t *ids;
	struct kv_step step;
	struct rope rope;
};

static void do_norm(void *ctx)
{
	struct row_bench *b = ctx;
	b->set->ops->add_rms_norm(b->set, b->y, b->x, b->y, b->w, b->rows, HIDDEN, 1e-5f);
}

static void do_silu(void *ctx)
{
	struct row_bench *b = ctx;
	b->set->ops->silu_mul(b->set, b->y, b->x, b->rows, WIDTH);
}

static void do_argmax(void *ctx)
{
	struct row_bench *b = ctx;
	b->set->ops->argmax(b->set, b->ids, b->x, b->rows, VOCAB);
}

static void do_rope(void *ctx)
{
	struct row_bench *b = ctx;
	struct kv_step *s = &b->step;
	b->set->ops->rope_kv(b->set, s->qkv, &s->rows, &s->shape, &b->rope, NULL, NULL, 0, &s->kv, &s->layer);
}

static void bench_rows(struct kernel_set *set, int32_t rows, const char *only)
{
	static const struct {
		const char *name;
		void (*fn)(void *ctx);
	} ops[] = {{"add and norm", do_norm},
		   {"silu and multiply", do_silu},
		   {"argmax", do_argmax},
		   {"rope and KV write", do_rope}};
	size_t n = (size_t)rows * VOCAB;
	struct kv_seq q = {1, rows, rows, 0};
	struct kv_desc d = {.n_heads = 32,
			    .n_kv_heads = 4,
			    .head_dim = 64,
			    .type = NUM_BF16,
			    .block_size = 16,
			    .n_seqs = 1,
			    .seqs = &q};
	struct row_bench b = {.set = set, .rows = rows};
	uint64_t state = 1;
	b.x = set->ops->alloc(set, n * 4);
	b.y = set->ops->alloc(set, n * 4);
	b.w = set->ops->alloc(set, (size_t)rows * 32 * 4 + HIDDEN * 4);
	b.ids = set->ops->alloc(set, (size_t)rows * 4);
	if (!b.x || !b.y || !b.w || !b.ids)
		exit(1);
	for (size_t i = 0; i < n; i++)
		b.x[i] = kv_normal(&state);
	b.rope = (struct rope){b.w, b.w, rows};
	kv_step_make(&b.step, set, &d);
	for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
		if (only && !strstr(ops[i].name, only))
			continue;
		struct timing t = measure(ops[i].fn, &b);
		printf("%s, %d rows\t%.1f\tus\n", ops[i].name, (int)rows, t.median * 1e6);
	}
	kv_step_free(&b.step);
	set->ops->release(set, b.x);
	set->ops->release(set, b.y);
	set->ops->release(set, b.w);
	set->ops->release(set, b.ids);
}

int main(int argc, char **argv)
{
	struct kernel_set *set;
	char why[256];
	const char *only = argc > 3 ? argv[3] : NULL;
	struct cpu_options o = {.no_library = true};
	if (argc > 1 && strcmp(argv[1], "best") != 0)
		o.isa = argv[1];
	if (argc > 2)
		o.threads = atoi(argv[2]);
	if (cpu_kernels_open(&set, &o, why, sizeof why)) {
		fprintf(stderr, "bench_ops: %s\n", why);
		return 1;
	}
	for (const struct attention_case *c = attention_cases; c->name; c++)
		for (int type = 0; type <= NUM_I8; type++)
			if (type != NUM_F16 && (!only || strstr(c->name, only)))
				bench_attention(set, c, (enum num)type);
	bench_rows(set, 1, only);
	bench_rows(set, 32, only);
	bench_rows(set, 512, only);
	set->ops->close(set);
	return 0;
}
