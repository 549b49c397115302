#include "tests/cuda_host/host_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/ops_cuda.h"
#include "kernels/half.h"
#include "tests/cuda_host/shim.h"

enum { ENDS = 16, ENDS_BYTE = 0x5a }; /* numbers on either side of a copy */

struct host_set {
	struct kernel_set base;
	struct host_options how;
	char error[160];
};

static struct host_set *set_of(struct kernel_set *k)
{
	return (struct host_set *)k;
}

struct host_options *host_set_options(struct kernel_set *k)
{
	return &set_of(k)->how;
}

static void *checked(void *p)
{
	if (!p) {
		fprintf(stderr, "host_set: out of memory\n");
		exit(1);
	}
	return p;
}

static int fail(struct kernel_set *k, const char *line)
{
	snprintf(set_of(k)->error, sizeof set_of(k)->error, "%s", line);
	return -1;
}

static int done(struct kernel_set *k, int rc)
{
	const char *complaint = shim_complaint;
	shim_complaint = NULL;
	return rc || complaint ? fail(k, complaint ? complaint : "a kernel was not started") : 0;
}

/* --- activations ------------------------------------------------------------------------------------------------------ */

/* n floats as the kernels want them: `x` is what they read (rounded), or NULL. */
struct twin {
	float *floats;
	uint16_t *halves; /* ENDS before and after; NULL with f32 activations */
	size_t n;
};

static struct twin twin(struct kernel_set *k, const float *x, size_t n, bool reads)
{
	struct twin t = {(float *)x, NULL, n};
	if (k->act == NUM_F32)
		return t;
	t.halves = checked(aligned_alloc(32, (2 * (n + 2 * ENDS) + 31) / 32 * 32));
	memset(t.halves, ENDS_BYTE, 2 * (n + 2 * ENDS));
	memset(t.halves + ENDS, 0xff, 2 * n);
	for (size_t i = 0; i < n && reads; i++)
		t.halves[ENDS + i] = float_to_bf16(x[i]);
	return t;
}

static void *at(const struct twin *t)
{
	return t->halves ? (void *)(t->halves + ENDS) : t->floats;
}

/* Ends its use; written: the floats become what it holds. false: something was written beyond it. */
static bool untwin(struct twin *t, bool written)
{
	bool fine = true;
	if (!t->halves)
		return true;
	for (size_t i = 0; i < t->n && written; i++)
		t->floats[i] = bf16_to_float(t->halves[ENDS + i]);
	for (size_t i = 0; i < ENDS; i++)
		fine = fine && t->halves[i] == ENDS_BYTE * 257 && t->halves[ENDS + t->n + i] == ENDS_BYTE * 257;
	free(t->halves);
	return fine;
}

static int ended(struct kernel_set *k, int rc, bool fine)
{
	return fine ? done(k, rc) : fail(k, "a kernel wrote beyond its output");
}

/* --- the operations --------------------------------------------------------------------------------------------------- */

static int embed(struct kernel_set *k, void *y, const void *table, enum num t, const int32_t *ids, int32_t rows,
		 int32_t dim)
{
	struct twin ty = twin(k, y, (size_t)rows * (size_t)dim, false);
	int rc = cuda_embed(NULL, k->act, at(&ty), table, t, ids, rows, dim);
	return ended(k, rc, untwin(&ty, rc == 0));
}

static int add_rms_norm(struct kernel_set *k, void *y, void *x, const void *delta, const float *w, int32_t rows,
			int32_t dim, float eps)
{
	size_t n = (size_t)rows * (size_t)dim;
	struct twin ty = twin(k, y, n, false), tx = twin(k, x, n, true), td = {0};
	if (delta)
		td = twin(k, delta, n, true);
	int rc = delta ? cuda_add_rms_norm(NULL, k->act, at(&ty), at(&tx), at(&td), w, rows, dim, eps)
		       : cuda_rms_norm(NULL, k->act, at(&ty), at(&tx), w, rows, dim, eps);
	bool fine = untwin(&ty, true);
	fine = untwin(&tx, delta != NULL) && fine;
	return ended(k, rc, untwin(&td, false) && fine);
}

static int rms_norm(struct kernel_set *k, void *y, const void *x, const float *w, int32_t rows, int32_t dim, float eps)
{
	return add_rms_norm(k, y, (void *)x, NULL, w, rows, dim, eps);
}

static int rope_kv(struct kernel_set *k, void *qkv, const struct step_rows *r, const struct attention_shape *a,
		   const struct rope *rope, const float *q_norm, const float *k_norm, float eps,
		   const struct kv_shape *s, const struct kv_layer *kv)
{
	struct twin t =
		twin(k, qkv, (size_t)r->n_rows * (size_t)((a->n_heads + 2 * a->n_kv_heads) * a->head_dim), true);
	int rc = cuda_rope_kv(NULL, k->act, at(&t), r, a, rope, q_norm, k_norm, eps, s, kv);
	return ended(k, rc, untwin(&t, true));
}

static int attention(struct kernel_set *k, void *out, const void *qkv, const struct step_rows *r,
		     const struct attention_shape *a, const struct kv_shape *s, const struct kv_layer *kv,
		     struct tag_fault *bad)
{
	const struct host_options *how = &set_of(k)->how;
	struct cuda_attention_plan p;
	const char *why = cuda_attention_refuses(k->act, a, s);
	if (why)
		return fail(k, why);
	int32_t max_ctx = r->max_ctx > how->max_ctx ? r->max_ctx : how->max_ctx;
	cuda_plan_attention(&p, how->sms, k->act, a, s, r->n_seqs, r->n_rows, r->n_decodes, max_ctx, how->splits);
	void *workspace = checked(aligned_alloc(256, p.workspace + 256));
	memset(workspace, 0xff, p.workspace + 256); /* NaN, and more parts than there are */
	size_t rows = (size_t)r->n_rows;
	struct twin to = twin(k, out, rows * (size_t)(a->n_heads * a->head_dim), false);
	struct twin tq = twin(k, qkv, rows * (size_t)((a->n_heads + 2 * a->n_kv_heads) * a->head_dim), true);
	struct tag_fault again = {0};
	int rc = cuda_attention(NULL, k->act, at(&to), at(&tq), r, a, s, kv, bad, &p, workspace, false);
	if (!rc && how->twice)
		rc = cuda_attention(NULL, k->act, at(&to), at(&tq), r, a, s, kv, &again, &p, workspace, true);
	bool fine = untwin(&to, true);
	fine = untwin(&tq, false) && fine;
	for (size_t i = 0; i < 256; i++)
		fine = fine && ((unsigned char *)workspace)[p.workspace + i] == 0xff;
	free(workspace);
	return ended(k, rc, fine);
}

static int silu_mul(struct kernel_set *k, void *y, const void *gu, int32_t rows, int32_t width)
{
	size_t n = (size_t)rows * (size_t)width;
	struct twin ty = twin(k, y, n, false), tg = twin(k, gu, 2 * n, true);
	int rc = cuda_silu_mul(NULL, k->act, at(&ty), at(&tg), rows, width);
	bool fine = untwin(&ty, true);
	return ended(k, rc, untwin(&tg, false) && fine);
}

static int gather(struct kernel_set *k, void *y, const void *x, const int32_t *index, int32_t n, int32_t dim)
{
	int32_t rows = 0;
	for (int32_t i = 0; i < n; i++)
		rows = index[i] >= rows ? index[i] + 1 : rows;
	struct twin ty = twin(k, y, (size_t)n * (size_t)dim, false), tx = twin(k, x, (size_t)rows * (size_t)dim, true);
	int rc = cuda_gather(NULL, k->act, at(&ty), at(&tx), index, n, dim);
	bool fine = untwin(&ty, true);
	return ended(k, rc, untwin(&tx, false) && fine);
}

static int copy_pages(struct kernel_set *k, const struct page_plane *planes, int32_t n_planes, const int32_t *pairs,
		      int32_t n)
{
	return done(k, cuda_copy_pages(NULL, planes, n_planes, pairs, n));
}

static int argmax(struct kernel_set *k, int32_t *tokens, const float *logits, int32_t rows, int32_t vocab)
{
	return done(k, cuda_argmax(NULL, tokens, logits, rows, vocab));
}

/* --- the set ---------------------------------------------------------------------------------------------------------- */

static const char *error(struct kernel_set *k)
{
	return set_of(k)->error;
}

static void *alloc(struct kernel_set *k, size_t bytes)
{
	void *p = NULL;
	(void)k;
	if (posix_memalign(&p, 64, bytes ? bytes : 1))
		return NULL;
	return memset(p, 0, bytes);
}

static void release(struct kernel_set *k, void *device)
{
	(void)k;
	free(device);
}

static int copy(struct kernel_set *k, void *to, const void *from, size_t bytes)
{
	(void)k;
	if (bytes)
		memcpy(to, from, bytes);
	return 0;
}

static int finish(struct kernel_set *k, int64_t part_ns[N_PARTS])
{
	(void)k;
	(void)part_ns;
	return 0;
}

static void close_set(struct kernel_set *k)
{
	free(k);
}

static const struct kernel_ops host_ops = {
	.name = "cuda kernels on the host",
	.error = error,
	.close = close_set,
	.alloc = alloc,
	.release = release,
	.upload = copy,
	.download = copy,
	.embed = embed,
	.rms_norm = rms_norm,
	.add_rms_norm = add_rms_norm,
	.rope_kv = rope_kv,
	.attention = attention,
	.silu_mul = silu_mul,
	.gather = gather,
	.argmax = argmax,
	.copy_pages = copy_pages,
	.finish = finish,
};

struct kernel_set *host_set_open(const struct host_options *o)
{
	struct host_set *s = checked(calloc(1, sizeof *s));
	s->base =
		(struct kernel_set){.ops = &host_ops, .act = o->act, .threads = 1, .what = "cuda kernels on the host"};
	s->how = *o;
	return &s->base;
}
