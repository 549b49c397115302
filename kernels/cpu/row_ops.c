/* row_ops.c: everything that treats rows one by one, spread over the threads. */
#include <string.h>

#include "kernels/cpu/set.h"

/* Handing work to other threads takes a few microseconds: below so many values it is not worth it. A row's result is the
 * same whoever computes it. */
enum { VALUES_PER_TASK = 8192, TASKS_PER_THREAD = 4 };

/* One operation's arguments; each uses what it needs. */
struct row_job {
	const struct row_isa *isa;
	void (*row)(const struct row_job *j, int32_t row);
	int32_t rows, rows_per_task;

	void *y;
	void *x; /* written by add_rms_norm and rope_kv only */
	const void *delta, *table;
	const float *w;
	const int32_t *index;
	int32_t *tokens;
	enum num type;
	int32_t dim;
	float eps;

	const struct step_rows *r;
	const struct attention_shape *a;
	const struct rope *rope;
	const float *q_norm, *k_norm;
	const struct kv_shape *s;
	const struct kv_layer *kv;
};

static void run_task(void *ctx, int32_t task, int32_t thread)
{
	(void)thread;
	const struct row_job *j = ctx;
	int32_t from = task * j->rows_per_task, to = from + j->rows_per_task;
	for (int32_t row = from; row < to && row < j->rows; row++)
		j->row(j, row);
}

static int run(struct kernel_set *k, struct row_job *j, int64_t values_per_row)
{
	struct cpu_set *s = cpu_set_of(k);
	int64_t tasks = (int64_t)j->rows * values_per_row / VALUES_PER_TASK, most = k->threads * TASKS_PER_THREAD;
	tasks = tasks > most ? most : tasks;
	tasks = tasks > j->rows ? j->rows : tasks;
	j->isa = s->row;
	if (tasks < 2 || k->threads == 1) {
		j->rows_per_task = j->rows;
		run_task(j, 0, 0);
		return 0;
	}
	j->rows_per_task = (int32_t)((j->rows + tasks - 1) / tasks);
	pool_run(s->pool, run_task, j, (j->rows + j->rows_per_task - 1) / j->rows_per_task);
	return 0;
}

static float *floats_at(const void *base, int64_t row, int32_t dim)
{
	return (float *)base + row * dim;
}

static void embed_row(const struct row_job *j, int32_t row)
{
	size_t at = (size_t)j->index[row] * (size_t)j->dim * (size_t)num_bytes(j->type);
	j->isa->widen(floats_at(j->y, row, j->dim), (const char *)j->table + at, j->type, j->dim);
}

int cpu_embed(struct kernel_set *k, void *y, const void *table, enum num t, const int32_t *ids, int32_t rows,
	      int32_t dim)
{
	if (t == NUM_I8) {
		strcpy(cpu_set_of(k)->error, "an embedding table is f32, bf16 or f16, not int8");
		return -1;
	}
	struct row_job j = {
		.row = embed_row, .rows = rows, .y = y, .table = table, .type = t, .index = ids, .dim = dim};
	return run(k, &j, dim);
}

static void norm_row(const struct row_job *j, int32_t row)
{
	j->isa->norm(floats_at(j->y, row, j->dim), floats_at(j->x, row, j->dim), j->w, j->dim, j->eps);
}

int cpu_rms_norm(struct kernel_set *k, void *y, const void *x, const float *w, int32_t rows, int32_t dim, float eps)
{
	struct row_job j = {.row = norm_row, .rows = rows, .y = y, .x = (void *)x, .w = w, .dim = dim, .eps = eps};
	return run(k, &j, dim);
}

static void add_norm_row(const struct row_job *j, int32_t row)
{
	j->isa->add_norm(floats_at(j->y, row, j->dim), floats_at(j->x, row, j->dim), floats_at(j->delta, row, j->dim),
			 j->w, j->dim, j->eps);
}

int cpu_add_rms_norm(struct kernel_set *k, void *y, void *x, const void *delta, const float *w, int32_t rows,
		     int32_t dim, float eps)
{
	struct row_job j = {
		.row = add_norm_row, .rows = rows, .y = y, .x = x, .delta = delta, .w = w, .dim = dim, .eps = eps};
	return run(k, &j, dim);
}

/* Stores one head's K or V; `at` counts [page][slot][head]. */
static void keep(const struct row_job *j, void *cache, float *scales, int64_t at, const float *x)
{
	int32_t dim = j->a->head_dim;
	char *to = (char *)cache + at * dim * num_bytes(j->s->type);
	float scale = j->isa->narrow(to, x, j->s->type, dim);
	if (j->s->type == NUM_I8)
		scales[at] = scale;
}

static void rope_row(const struct row_job *j, int32_t row)
{
	const struct attention_shape *a = j->a;
	int32_t dim = a->head_dim, half = dim / 2, turned = a->n_heads + a->n_kv_heads;
	float *x = floats_at(j->x, row, (turned + a->n_kv_heads) * dim);
	int64_t angle = (int64_t)j->r->positions[row] * half, slot = j->r->slots[row];
	for (int32_t h = 0; h < turned; h++) {
		const float *norm = h < a->n_heads ? j->q_norm : j->k_norm;
		float *head = x + (size_t)h * (size_t)dim;
		if (norm)
			j->isa->norm(head, head, norm, dim, j->eps);
		j->isa->rotate(head, j->rope->cos + angle, j->rope->sin + angle, half);
	}
	if (slot < 0)
		return;
	for (int32_t h = 0; h < a->n_kv_heads; h++) {
		int64_t at = slot * a->n_kv_heads + h;
		keep(j, j->kv->k, j->kv->k_scale, at, x + (size_t)(a->n_heads + h) * (size_t)dim);
		keep(j, j->kv->v, j->kv->v_scale, at, x + (size_t)(turned + h) * (size_t)dim);
	}
	if (j->kv->tags && j->r->row_tags)
		j->kv->tags[slot] = j->r->row_tags[row];
}

int cpu_rope_kv(struct kernel_set *k, void *qkv, const struct step_rows *r, const struct attention_shape *a,
		const struct rope *rope, const float *q_norm, const float *k_norm, float eps, const struct kv_shape *s,
		const struct kv_layer *kv)
{
	struct row_job j = {.row = rope_row,
			    .rows = r->n_rows,
			    .x = qkv,
			    .r = r,
			    .a = a,
			    .rope = rope,
			    .q_norm = q_norm,
			    .k_norm = k_norm,
			    .eps = eps,
			    .s = s,
			    .kv = kv};
	return run(k, &j, (int64_t)(a->n_heads + 2 * a->n_kv_heads) * a->head_dim);
}

static void silu_row(const struct row_job *j, int32_t row)
{
	const float *g = floats_at(j->x, row, 2 * j->dim);
	j->isa->silu_mul(floats_at(j->y, row, j->dim), g, g + j->dim, j->dim);
}

int cpu_silu_mul(struct kernel_set *k, void *y, const void *gu, int32_t rows, int32_t width)
{
	struct row_job j = {.row = silu_row, .rows = rows, .y = y, .x = (void *)gu, .dim = width};
	return run(k, &j, 4 * (int64_t)width);
}

static void gather_row(const struct row_job *j, int32_t row)
{
	memcpy(floats_at(j->y, row, j->dim), floats_at(j->x, j->index[row], j->dim), (size_t)j->dim * sizeof(float));
}

int cpu_gather(struct kernel_set *k, void *y, const void *x, const int32_t *index, int32_t n, int32_t dim)
{
	struct row_job j = {.row = gather_row, .rows = n, .y = y, .x = (void *)x, .index = index, .dim = dim};
	return run(k, &j, dim);
}

/* A memory's work, not a core's: one thread does it. */
int cpu_copy_pages(struct kernel_set *k, const struct page_plane *planes, int32_t n_planes, const int32_t *pairs,
		   int32_t n)
{
	(void)k;
	for (int32_t p = 0; p < n_planes; p++)
		for (int32_t i = 0; i < n; i++)
			memcpy((char *)planes[p].to + pairs[2 * i + 1] * planes[p].page_bytes,
			       (const char *)planes[p].from + pairs[2 * i] * planes[p].page_bytes,
			       (size_t)planes[p].page_bytes);
	return 0;
}

static void argmax_row(const struct row_job *j, int32_t row)
{
	j->tokens[row] = j->isa->argmax(floats_at(j->x, row, j->dim), j->dim);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the rows write it */
int cpu_argmax(struct kernel_set *k, int32_t *tokens, const float *logits, int32_t rows, int32_t vocab)
{
	struct row_job j = {.row = argmax_row, .rows = rows, .tokens = tokens, .x = (void *)logits, .dim = vocab};
	return run(k, &j, vocab);
}
