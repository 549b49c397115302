/* The operations on rows of every set against the reference in double, the KV cache they write, and how a set is opened. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/cpu/quota.h"
#include "kernels/half.h"
#include "kernels/ops.h"
#include "tests/support/kernel_sets.h"
#include "tests/support/kv_step.h"
#include "tests/support/op_cases.h"
#include "tests/support/suite.h"

enum { SETS_MAX = 8, GUARD = 16 };
#define GUARD_VALUE (-12345.678f)

static struct kernel_set *reference, *sets[SETS_MAX];
static int n_sets;
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static void open_sets(void)
{
	reference = kernel_set_reference();
	for (const char *name; n_sets < SETS_MAX && (name = kernel_set_name(n_sets)); n_sets++)
		sets[n_sets] = kernel_set_open(name, 1 + n_sets % 3);
}

static void close_sets(void)
{
	reference->ops->close(reference);
	for (int i = 0; i < n_sets; i++)
		sets[i]->ops->close(sets[i]);
}

static float *normals(size_t n, uint64_t seed)
{
	float *x = calloc(n + 1, sizeof *x);
	if (!x)
		exit(1);
	for (size_t i = 0; i < n; i++)
		x[i] = kv_normal(&seed);
	return x;
}

/* Device memory of n floats between guards: a copy of x, or NaN. */
static float *guarded(struct kernel_set *set, const float *x, size_t n)
{
	float *host = malloc((n + 2 * GUARD) * sizeof *host);
	float *device = set->ops->alloc(set, (n + 2 * GUARD) * sizeof *host);
	if (!host || !device)
		exit(1);
	for (size_t i = 0; i < n + 2 * GUARD; i++)
		host[i] = i < GUARD || i >= GUARD + n ? GUARD_VALUE : x ? x[i - GUARD] : NAN;
	set->ops->upload(set, device, host, (n + 2 * GUARD) * sizeof *host);
	free(host);
	return device + GUARD;
}

/* Its contents on the host, the device memory released, the guards looked at. */
static float *taken(struct kernel_set *set, float *device, size_t n)
{
	float *x = kv_host_copy(set, device - GUARD, (n + 2 * GUARD) * sizeof *x);
	for (size_t i = 0; i < GUARD; i++)
		CU_ASSERT(x[i] == GUARD_VALUE && x[GUARD + n + i] == GUARD_VALUE);
	memmove(x, x + GUARD, n * sizeof *x);
	set->ops->release(set, device - GUARD);
	return x;
}

static void *uploaded(struct kernel_set *set, const void *x, size_t bytes)
{
	void *device = set->ops->alloc(set, bytes);
	if (!device)
		exit(1);
	set->ops->upload(set, device, x, bytes);
	return device;
}

/* What an operation makes of seeded inputs: y, and with add_rms_norm x after it. */
struct result {
	float *y, *x;
	size_t n;
};

static void compare(struct result (*fn)(struct kernel_set *set, int32_t rows, int32_t dim), const char *what,
		    double tolerance)
{
	for (size_t r = 0; r < OP_ROW_COUNTS; r++)
		for (size_t d = 0; d < OP_DIMS; d++) {
			struct result wanted = fn(reference, op_row_counts[r], op_dims[d]);
			for (int i = 0; i < n_sets; i++) {
				struct result got = fn(sets[i], op_row_counts[r], op_dims[d]);
				double off = kv_error(got.y, wanted.y, got.n);
				if (got.x)
					off = fmax(off, kv_error(got.x, wanted.x, got.n));
				if (!(off <= tolerance)) {
					printf("  %s, %s: %d x %d: off by %g\n", kernel_set_name(i), what,
					       op_row_counts[r], op_dims[d], off);
					CU_FAIL("an operation is off");
				}
				free(got.y);
				free(got.x);
			}
			free(wanted.y);
			free(wanted.x);
		}
}

/* --- norms, gate ---------------------------------------------------------------------------------------------------- */

static struct result norm(struct kernel_set *set, int32_t rows, int32_t dim)
{
	size_t n = (size_t)rows * (size_t)dim;
	float *x = normals(n, 1), *w = normals((size_t)dim, 2);
	float *dx = guarded(set, x, n), *dw = guarded(set, w, (size_t)dim), *dy = guarded(set, NULL, n);
	CHECK_INT(set->ops->rms_norm(set, dy, dx, dw, rows, dim, 1e-5f), 0);
	free(taken(set, dw, (size_t)dim));
	float *after = taken(set, dx, n);
	CU_ASSERT(n == 0 || memcmp(after, x, n * sizeof *x) == 0);
	free(after);
	free(x);
	free(w);
	return (struct result){taken(set, dy, n), NULL, n};
}

static struct result add_norm(struct kernel_set *set, int32_t rows, int32_t dim)
{
	size_t n = (size_t)rows * (size_t)dim;
	float *x = normals(n, 1), *delta = normals(n, 3), *w = normals((size_t)dim, 2);
	float *dx = guarded(set, x, n), *dd = guarded(set, delta, n), *dw = guarded(set, w, (size_t)dim);
	float *dy = guarded(set, NULL, n);
	CHECK_INT(set->ops->add_rms_norm(set, dy, dx, dd, dw, rows, dim, 1e-5f), 0);
	free(taken(set, dw, (size_t)dim));
	free(taken(set, dd, n));
	free(x);
	free(delta);
	free(w);
	return (struct result){taken(set, dy, n), taken(set, dx, n), n};
}

static void norms(void)
{
	compare(norm, "rms_norm", 1e-6);
	compare(add_norm, "add_rms_norm", 1e-6);
}

/* A row of zeros is divided by sqrt(eps), not by zero. */
static void norm_of_zeros(void)
{
	for (int i = 0; i < n_sets; i++) {
		float zeros[40] = {0}, w[40];
		for (int j = 0; j < 40; j++)
			w[j] = 1;
		float *x = guarded(sets[i], zeros, 40), *dw = guarded(sets[i], w, 40), *dy = guarded(sets[i], NULL, 40);
		sets[i]->ops->rms_norm(sets[i], dy, x, dw, 1, 40, 1e-5f);
		float *y = taken(sets[i], dy, 40);
		CU_ASSERT(memcmp(y, zeros, sizeof zeros) == 0);
		free(y);
		free(taken(sets[i], x, 40));
		free(taken(sets[i], dw, 40));
	}
}

static struct result silu(struct kernel_set *set, int32_t rows, int32_t dim)
{
	size_t n = (size_t)rows * (size_t)dim;
	float *gu = normals(2 * n, 4);
	for (size_t i = 0; i < 2 * n; i++)
		gu[i] *= 4;
	float *dx = guarded(set, gu, 2 * n), *dy = guarded(set, NULL, n);
	CHECK_INT(set->ops->silu_mul(set, dy, dx, rows, dim), 0);
	free(taken(set, dx, 2 * n));
	free(gu);
	return (struct result){taken(set, dy, n), NULL, n};
}

static void gate(void)
{
	compare(silu, "silu_mul", 5e-7);
}

/* Every range of the exponential: each value by itself within a few units in the last place. */
static void gate_of_every_size(void)
{
	enum { N = 4096 };
	static float gu[2 * N];
	for (int i = 0; i < N; i++) {
		gu[i] = (i - N / 2) * (130.0f / N);
		gu[N + i] = 1;
	}
	for (int s = 0; s < n_sets; s++) {
		float *dx = guarded(sets[s], gu, 2 * N), *dy = guarded(sets[s], NULL, N);
		sets[s]->ops->silu_mul(sets[s], dy, dx, 1, N);
		float *y = taken(sets[s], dy, N);
		double worst = 0;
		for (int i = 0; i < N; i++) {
			double g = gu[i], wanted = g / (1 + exp(-g));
			if (wanted != 0)
				worst = fmax(worst, fabs(y[i] / wanted - 1));
		}
		CU_ASSERT(worst < 4e-7);
		free(y);
		free(taken(sets[s], dx, 2 * N));
	}
}

/* --- embedding, gathering, argmax ----------------------------------------------------------------------------------- */

/* Values all three types hold exactly: the reference is the number itself. */
static void embedding_of_each_type(void)
{
	enum { VOCAB = 50, DIM = 37, ROWS = 70 };
	static float f32[VOCAB * DIM];
	static uint16_t bf16[VOCAB * DIM], f16[VOCAB * DIM];
	int32_t ids[ROWS];
	for (int i = 0; i < VOCAB * DIM; i++) {
		int exponent = i % 9, mantissa = i % 128;
		f32[i] = ldexpf(1 + mantissa / 128.0f, exponent - 4) * (i % 2 ? -1 : 1);
		bf16[i] = float_to_bf16(f32[i]);
		f16[i] = (uint16_t)((i % 2) << 15 | (exponent - 4 + 15) << 10 | mantissa << 3);
	}
	for (int i = 0; i < ROWS; i++)
		ids[i] = i * 29 % VOCAB;
	const void *tables[] = {f32, bf16, f16};
	for (int s = -1; s < n_sets; s++)
		for (int t = 0; t < 3; t++) {
			struct kernel_set *set = s < 0 ? reference : sets[s];
			void *table = uploaded(set, tables[t], (size_t)(VOCAB * DIM * num_bytes((enum num)t)));
			int32_t *d_ids = uploaded(set, ids, sizeof ids);
			float *dy = guarded(set, NULL, ROWS * DIM);
			CHECK_INT(set->ops->embed(set, dy, table, (enum num)t, d_ids, ROWS, DIM), 0);
			float *y = taken(set, dy, ROWS * DIM);
			for (int r = 0; r < ROWS; r++)
				CU_ASSERT(memcmp(y + r * DIM, f32 + ids[r] * DIM, DIM * sizeof *y) == 0);
			free(y);
			set->ops->release(set, table);
			set->ops->release(set, d_ids);
		}
	float y[1];
	int32_t zero = 0;
	CHECK_INT(sets[0]->ops->embed(sets[0], y, f32, NUM_I8, &zero, 1, 1), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(sets[0]->ops->error(sets[0]), "int8"));
}

static void gathered_rows(void)
{
	enum { ROWS = 40, DIM = 33, N = 25 };
	float *x = normals(ROWS * DIM, 5);
	int32_t index[N];
	for (int i = 0; i < N; i++)
		index[i] = i * 7 % ROWS;
	for (int s = -1; s < n_sets; s++) {
		struct kernel_set *set = s < 0 ? reference : sets[s];
		float *dx = guarded(set, x, ROWS * DIM), *dy = guarded(set, NULL, N * DIM);
		int32_t *d_index = uploaded(set, index, sizeof index);
		set->ops->gather(set, dy, dx, d_index, N, DIM);
		float *y = taken(set, dy, N * DIM);
		for (int i = 0; i < N; i++)
			CU_ASSERT(memcmp(y + i * DIM, x + index[i] * DIM, DIM * sizeof *y) == 0);
		free(y);
		free(taken(set, dx, ROWS * DIM));
		set->ops->release(set, d_index);
	}
	free(x);
}

/* Pages within one array and from one to another, of a size that is no multiple of anything; the others stay. */
static void copied_pages(void)
{
	enum { PAGES = 7, BYTES = 37 };
	static const int32_t pairs[] = {1, 0, 3, 4, 1, 6};
	uint8_t a[PAGES * BYTES], b[PAGES * BYTES], want_a[PAGES * BYTES], want_b[PAGES * BYTES], got[PAGES * BYTES];
	for (int i = 0; i < PAGES * BYTES; i++) {
		a[i] = want_a[i] = (uint8_t)(i * 7 + i / BYTES);
		b[i] = want_b[i] = (uint8_t)(i * 5 + 3);
	}
	for (int i = 0; i < 3; i++) {
		memcpy(want_a + pairs[2 * i + 1] * BYTES, a + pairs[2 * i] * BYTES, BYTES);
		memcpy(want_b + pairs[2 * i + 1] * BYTES, a + pairs[2 * i] * BYTES, BYTES);
	}
	for (int s = -1; s < n_sets; s++) {
		struct kernel_set *set = s < 0 ? reference : sets[s];
		uint8_t *da = uploaded(set, a, sizeof a), *db = uploaded(set, b, sizeof b);
		struct page_plane planes[] = {{da, db, BYTES}, {da, da, BYTES}};
		void *d_planes = uploaded(set, planes, sizeof planes);
		int32_t *d_pairs = uploaded(set, pairs, sizeof pairs);
		CHECK_INT(set->ops->copy_pages(set, d_planes, 2, d_pairs, 3), 0);
		set->ops->download(set, got, da, sizeof got);
		CU_ASSERT(memcmp(got, want_a, sizeof got) == 0);
		set->ops->download(set, got, db, sizeof got);
		CU_ASSERT(memcmp(got, want_b, sizeof got) == 0);
		void *all[] = {da, db, d_planes, d_pairs};
		for (int i = 0; i < 4; i++)
			set->ops->release(set, all[i]);
	}
}

/* The largest at every place, alone, and again further on. */
static void lowest_index_of_the_largest(void)
{
	for (size_t d = 0; d < OP_DIMS; d++)
		for (int32_t at = 0; at<op_dims[d]; at += op_dims[d]> 100 ? 37 : 1) {
			enum { ROWS = 2 };
			float *x = normals((size_t)(ROWS * op_dims[d]), 6);
			int32_t tokens[ROWS];
			x[at] = 9;
			x[op_dims[d] + at] = 9;
			for (int32_t again = at + 3; again < op_dims[d]; again += 5)
				x[op_dims[d] + again] = 9;
			for (int s = -1; s < n_sets; s++) {
				struct kernel_set *set = s < 0 ? reference : sets[s];
				float *dx = guarded(set, x, (size_t)(ROWS * op_dims[d]));
				int32_t *device = set->ops->alloc(set, sizeof tokens);
				set->ops->argmax(set, device, dx, ROWS, op_dims[d]);
				set->ops->download(set, tokens, device, sizeof tokens);
				CHECK_INT(tokens[0], at);
				CHECK_INT(tokens[1], at);
				free(taken(set, dx, (size_t)(ROWS * op_dims[d])));
				set->ops->release(set, device);
			}
			free(x);
		}
}

/* --- rotation and the KV cache --------------------------------------------------------------------------------------- */

struct kept {
	float *qkv;
	char *k, *v;
	float *k_scale, *v_scale;
	uint64_t *tags;
	size_t rows, width, slots;
	int64_t *to; /* [rows] slots */
};

enum { ANGLES = 800 };

static float *angles(int32_t half, float (*of)(float))
{
	float *x = malloc((size_t)(ANGLES * half) * sizeof *x);
	for (int32_t p = 0; x && p < ANGLES; p++)
		for (int32_t i = 0; i < half; i++)
			x[p * half + i] = of((float)p * powf(10000, -(float)i / (float)half));
	return x;
}

/* Row 2 is not to be kept. */
static struct kept rope(struct kernel_set *set, const struct kv_desc *d, bool with_norms)
{
	struct kv_step s;
	int32_t half = d->head_dim / 2;
	size_t angle_bytes = (size_t)(ANGLES * half) * 4, norm_bytes = (size_t)d->head_dim * 4;
	float *c = angles(half, cosf), *sn = angles(half, sinf), *w = normals(2 * (size_t)d->head_dim, 7);
	kv_step_make(&s, set, d);
	struct rope r = {uploaded(set, c, angle_bytes), uploaded(set, sn, angle_bytes), ANGLES};
	void *qn = uploaded(set, w, norm_bytes), *kn = uploaded(set, w + d->head_dim, norm_bytes);
	int64_t nowhere = -1;
	struct kept k = {.rows = (size_t)s.rows.n_rows,
			 .width = (size_t)((d->n_heads + 2 * d->n_kv_heads) * d->head_dim)};
	set->ops->upload(set, (int64_t *)s.rows.slots + 2, &nowhere, sizeof nowhere);
	CHECK_INT(set->ops->rope_kv(set, s.qkv, &s.rows, &s.shape, &r, with_norms ? qn : NULL, with_norms ? kn : NULL,
				    1e-6f, &s.kv, &s.layer),
		  0);
	k.slots = (size_t)s.kv.n_pages * (size_t)s.kv.block_size;
	size_t heads = k.slots * (size_t)d->n_kv_heads,
	       bytes = heads * (size_t)d->head_dim * (size_t)num_bytes(d->type);
	k.qkv = kv_host_copy(set, s.qkv, k.rows * k.width * 4);
	k.k = kv_host_copy(set, s.layer.k, bytes);
	k.v = kv_host_copy(set, s.layer.v, bytes);
	if (d->type == NUM_I8) {
		k.k_scale = kv_host_copy(set, s.layer.k_scale, heads * 4);
		k.v_scale = kv_host_copy(set, s.layer.v_scale, heads * 4);
	}
	k.tags = kv_host_copy(set, s.layer.tags, k.slots * 8);
	k.to = kv_host_copy(set, s.rows.slots, k.rows * 8);
	set->ops->release(set, (void *)r.cos);
	set->ops->release(set, (void *)r.sin);
	set->ops->release(set, qn);
	set->ops->release(set, kn);
	free(c);
	free(sn);
	free(w);
	kv_step_free(&s);
	return k;
}

static void kept_free(struct kept *k)
{
	free(k->qkv);
	free(k->k);
	free(k->v);
	free(k->k_scale);
	free(k->v_scale);
	free(k->tags);
	free(k->to);
}

/* What was stored, as numbers: NaN where nothing was. */
static float *stored(const struct kv_desc *d, const char *cache, const float *scale, size_t slots)
{
	size_t n = slots * (size_t)(d->n_kv_heads * d->head_dim);
	float *x = malloc((n + 1) * sizeof *x);
	for (size_t i = 0; x && i < n; i++)
		x[i] = d->type == NUM_F32    ? ((const float *)(const void *)cache)[i]
		       : d->type == NUM_BF16 ? bf16_to_float(((const uint16_t *)(const void *)cache)[i])
					     : (float)((const int8_t *)cache)[i] * scale[i / (size_t)d->head_dim];
	return x;
}

/* Both hold numbers in the same slots, equal within `tolerance`. */
static void same_stored(const struct kv_desc *d, const float *x, const float *r, size_t slots, double tolerance)
{
	size_t n = slots * (size_t)(d->n_kv_heads * d->head_dim);
	double off = 0, size = 0;
	int64_t differ = 0, numbers = 0;
	for (size_t i = 0; i < n; i++) {
		differ += isnan(x[i]) != isnan(r[i]);
		if (isnan(x[i]) || isnan(r[i]))
			continue;
		numbers++;
		off += ((double)x[i] - r[i]) * ((double)x[i] - r[i]);
		size += (double)r[i] * r[i];
	}
	CHECK_INT(differ, 0);
	CU_ASSERT(numbers > 0);
	CU_ASSERT(sqrt(off / size) <= tolerance);
}

static void check_rope(const struct kv_desc *d, bool with_norms)
{
	/* A value on the edge between two that a type holds may go either way. */
	double tolerance = d->type == NUM_F32 ? 1e-6 : d->type == NUM_BF16 ? 3e-4 : 2e-3;
	struct kept wanted = rope(reference, d, with_norms);
	float *wanted_k = stored(d, wanted.k, wanted.k_scale, wanted.slots);
	float *wanted_v = stored(d, wanted.v, wanted.v_scale, wanted.slots);
	for (int i = 0; i < n_sets; i++) {
		struct kept got = rope(sets[i], d, with_norms);
		float *k = stored(d, got.k, got.k_scale, got.slots), *v = stored(d, got.v, got.v_scale, got.slots);
		CU_ASSERT(kv_error(got.qkv, wanted.qkv, got.rows * got.width) < 1e-6);
		same_stored(d, k, wanted_k, got.slots, tolerance);
		same_stored(d, v, wanted_v, got.slots, tolerance);
		CU_ASSERT(memcmp(got.tags, wanted.tags, got.slots * 8) == 0);
		int64_t tagged = 0;
		for (size_t s = 0; s < got.slots; s++)
			tagged += got.tags[s] != 0;
		CHECK_INT(tagged, got.rows - 1); /* all but the row that goes nowhere */
		free(k);
		free(v);
		kept_free(&got);
	}
	free(wanted_k);
	free(wanted_v);
	kept_free(&wanted);
}

static void rotated_and_kept(void)
{
	static const struct kv_seq q[] = {{1, 1, 300, 0}, {2, 1, 5, 0}, {3, 40, 100, 0}, {4, 9, 9, 3}};
	static const int32_t shapes[][3] = {{4, 2, 64}, {2, 1, 48}, {3, 3, 80}, {8, 1, 128}, {2, 2, 8}, {2, 1, 6}};
	for (size_t s = 0; s < COUNT(shapes); s++)
		for (int type = 0; type <= NUM_I8; type++) {
			struct kv_desc d = {.n_heads = shapes[s][0],
					    .n_kv_heads = shapes[s][1],
					    .head_dim = shapes[s][2],
					    .type = (enum num)type,
					    .block_size = 8,
					    .n_seqs = 4,
					    .seqs = q,
					    .seed = s,
					    .check = true,
					    .empty = true};
			if (type == NUM_F16)
				continue;
			check_rope(&d, s % 2 == 0);
		}
}

/* The rows of one step attend to what they have just written: the whole way, against the reference's. */
static void written_then_read(void)
{
	static const struct kv_seq q[] = {{1, 70, 70, 0}, {2, 1, 1, 0}};
	struct kv_desc d = {.n_heads = 4,
			    .n_kv_heads = 2,
			    .head_dim = 32,
			    .block_size = 8,
			    .n_seqs = 2,
			    .seqs = q,
			    .check = true,
			    .empty = true};
	float *c = angles(16, cosf), *sn = angles(16, sinf), *wanted = NULL;
	for (int i = -1; i < n_sets; i++) {
		struct kernel_set *set = i < 0 ? reference : sets[i];
		struct kv_step s;
		struct rope r = {uploaded(set, c, ANGLES * 64), uploaded(set, sn, ANGLES * 64), ANGLES};
		kv_step_make(&s, set, &d);
		set->ops->rope_kv(set, s.qkv, &s.rows, &s.shape, &r, NULL, NULL, 0, &s.kv, &s.layer);
		float *out = kv_step_attend(&s);
		CHECK_INT(s.bad.n, 0);
		if (wanted)
			CU_ASSERT(kv_error(out, wanted, 71 * 4 * 32) < 2e-6);
		if (wanted)
			free(out);
		else
			wanted = out;
		set->ops->release(set, (void *)r.cos);
		set->ops->release(set, (void *)r.sin);
		kv_step_free(&s);
	}
	free(wanted);
	free(c);
	free(sn);
}

/* --- numbers ---------------------------------------------------------------------------------------------------------- */

static void halves(void)
{
	static const struct {
		uint16_t bits;
		float value;
	} f16[] = {{0x0000, 0.0f},     {0x3c00, 1.0f},     {0xc000, -2.0f},       {0x7bff, 65504.0f},
		   {0x0400, 0x1p-14f}, {0x0001, 0x1p-24f}, {0x83ff, -0x3ffp-24f}, {0x3555, 0x1.554p-2f},
		   {0x7c00, INFINITY}, {0xfc00, -INFINITY}};
	for (size_t i = 0; i < COUNT(f16); i++)
		CU_ASSERT(f16_to_float(f16[i].bits) == f16[i].value);
	CU_ASSERT(signbit(f16_to_float(0x8000)) && isnan(f16_to_float(0x7e01)));
	for (uint32_t h = 0; h < 0x10000; h++) /* a number bf16 holds stays as it is */
		CU_ASSERT(isnan(bf16_to_float((uint16_t)h)) || float_to_bf16(bf16_to_float((uint16_t)h)) == h);
	CHECK_INT(float_to_bf16(0x1.01p0f), 0x3f80); /* ties go to even */
	CHECK_INT(float_to_bf16(0x1.03p0f), 0x3f82);
	CHECK_INT(float_to_bf16(0x1.0101p0f), 0x3f81);
	CHECK_INT(float_to_bf16(3.4e38f), 0x7f80);
	CU_ASSERT(isnan(bf16_to_float(float_to_bf16(float_of_bits(0x7f800001)))));
	CHECK_INT(num_bytes(NUM_F32) + num_bytes(NUM_BF16) * 10 + num_bytes(NUM_F16) * 100 + num_bytes(NUM_I8) * 1000,
		  1224);
	CHECK_STR(num_names[NUM_I8], "int8");
	CHECK_STR(part_names[PART_OTHER], "other");
}

/* What the cache makes of special values: the same as one number at a time would. */
static void special_values_are_kept(void)
{
	enum { DIM = 16 };
	static const float values[DIM] = {0.0f,           -0.0f,  1,        -1,        0x1.01p0f,        0x1.03p0f,
					  3.4e38f,        1e-40f, INFINITY, -INFINITY, 0x1.fffffep-127f, 65504,
					  -0x1.7f8001p5f, 7,      1e-30f,   NAN};
	int32_t q_at[] = {0, 1}, zero = 0;
	int64_t slot = 0;
	float one = 1, none = 0, c[DIM / 2], s0[DIM / 2];
	for (int i = 0; i < DIM / 2; i++) {
		c[i] = one;
		s0[i] = none;
	}
	for (int s = 0; s < n_sets; s++) {
		float qkv[3 * DIM];
		uint16_t k[DIM], v[DIM];
		struct step_rows r = {.n_seqs = 1, .n_rows = 1, .q_at = q_at, .slots = &slot, .positions = &zero};
		struct attention_shape a = {1, 1, DIM, 1, 0};
		struct rope angle = {c, s0, 1};
		struct kv_shape shape = {NUM_BF16, 1, 1, 1, DIM};
		struct kv_layer layer = {.k = k, .v = v};
		for (int i = 0; i < DIM; i++)
			qkv[i] = qkv[DIM + i] = qkv[2 * DIM + i] = values[i];
		sets[s]->ops->rope_kv(sets[s], qkv, &r, &a, &angle, NULL, NULL, 0, &shape, &layer);
		for (int i = 0; i < DIM - 1; i++)
			CHECK_INT(v[i], float_to_bf16(values[i]));
		CU_ASSERT(isnan(bf16_to_float(v[DIM - 1])));
	}
}

/* --- the set ---------------------------------------------------------------------------------------------------------- */

static void opening(void)
{
	struct kernel_set *k;
	char why[256] = "";
	struct cpu_options o = {.isa = "sse9"};
	CHECK_INT(cpu_kernels_open(&k, &o, why, sizeof why), -1);
	CU_ASSERT_PTR_NULL(k);
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "\"sse9\""));
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "base"));
	o = (struct cpu_options){.threads = -2};
	CHECK_INT(cpu_kernels_open(&k, &o, why, sizeof why), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "-2 threads"));
	o = (struct cpu_options){.threads = 3, .isa = "base", .no_library = true};
	CHECK_INT(cpu_kernels_open(&k, &o, why, sizeof why), 0);
	CHECK_INT(k->threads, 3);
	CHECK_INT(k->act, NUM_F32);
	CU_ASSERT_PTR_NOT_NULL(strstr(k->what, "cpu base"));
	CU_ASSERT_PTR_NOT_NULL(strstr(k->what, "3 threads"));
	k->ops->close(k);
	o = (struct cpu_options){.threads = 0};
	CHECK_INT(cpu_kernels_open(&k, &o, why, sizeof why), 0);
	CU_ASSERT(k->threads >= 1);
	k->ops->close(k);
}

static void folder(const char *name)
{
	CHECK_INT(mkdir(temp_path(name), 0700), 0);
}

/* What a container grants, of both kinds of control groups. */
static void processors_granted(void)
{
	folder("two");
	folder("two/pod");
	folder("two/pod/box");
	folder("one");
	folder("one/cpu,cpuacct");
	temp_file("groups2", "0::/pod/box\n");
	CHECK_INT(cpu_quota(temp_path("groups2"), temp_path("two")), 0);
	temp_file("two/pod/box/cpu.max", "max 100000\n");
	CHECK_INT(cpu_quota(temp_path("groups2"), temp_path("two")), 0);
	temp_file("two/pod/box/cpu.max", "350000 100000\n");
	CHECK_INT(cpu_quota(temp_path("groups2"), temp_path("two")), 4);
	temp_file("two/pod/cpu.max", "150000 100000\n"); /* the group above grants less */
	CHECK_INT(cpu_quota(temp_path("groups2"), temp_path("two")), 2);
	temp_file("two/cpu.max", "20000 100000\n"); /* a fifth of one */
	CHECK_INT(cpu_quota(temp_path("groups2"), temp_path("two")), 1);

	temp_file("groups1", "7:memory:/box\n4:cpu,cpuacct:/box\nnonsense\n");
	CHECK_INT(cpu_quota(temp_path("groups1"), temp_path("one")), 0);
	temp_file("one/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
	temp_file("one/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
	CHECK_INT(cpu_quota(temp_path("groups1"), temp_path("one")), 0);
	temp_file("one/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
	CHECK_INT(cpu_quota(temp_path("groups1"), temp_path("one")), 3);
	CHECK_INT(cpu_quota(temp_file("groups3", "5:cpuset:/box\n"), temp_path("one")), 0);
	CHECK_INT(cpu_quota("/nowhere", "/nowhere"), 0);
}

static void memory_is_zeroed_and_aligned(void)
{
	static const size_t sizes[] = {0, 1, 63, 64, 65, 5000, (2 << 20) - 1, 2 << 20, (5 << 20) + 3};
	for (int s = -1; s < n_sets; s++)
		for (size_t i = 0; i < COUNT(sizes); i++) {
			struct kernel_set *set = s < 0 ? reference : sets[s];
			char *p = set->ops->alloc(set, sizes[i]), any = 0;
			CU_ASSERT_FATAL(p != NULL);
			CHECK_INT((uintptr_t)p % 64, 0);
			for (size_t j = 0; j < sizes[i]; j++)
				any = (char)(any | p[j]);
			CHECK_INT(any, 0);
			memset(p, 1, sizes[i]); /* so that the next one is not zero by chance */
			set->ops->release(set, p);
		}
	CU_ASSERT_PTR_NULL(sets[0]->ops->alloc(sets[0], SIZE_MAX - 5));
	CU_ASSERT_PTR_NOT_NULL(strstr(sets[0]->ops->error(sets[0]), "out of memory"));
}

/* Time goes to the part it was marked as, and to none after finish. */
static void time_by_parts(void)
{
	enum { N = 200000 };
	for (int s = -1; s < n_sets; s++) {
		struct kernel_set *set = s < 0 ? reference : sets[s];
		float *x = guarded(set, NULL, N);
		int64_t ns[N_PARTS];
		set->ops->finish(set, NULL);
		free(normals(N, 1)); /* passes in no part */
		set->ops->mark(set, PART_HEAD);
		set->ops->silu_mul(set, x, x, 1, N / 2);
		set->ops->mark(set, PART_OTHER);
		CHECK_INT(set->ops->finish(set, ns), 0);
		CU_ASSERT(ns[PART_HEAD] > 0 && ns[PART_MATMUL] == 0 && ns[PART_ATTENTION] == 0);
		CU_ASSERT(ns[PART_HEAD] > ns[PART_OTHER]);
		free(normals(N, 1));
		set->ops->finish(set, ns);
		CHECK_INT(ns[PART_HEAD] + ns[PART_MATMUL] + ns[PART_ATTENTION] + ns[PART_OTHER], 0);
		free(taken(set, x, N));
	}
}

/* The reference's products, by hand. */
static void reference_products(void)
{
	static const float w[] = {1, 2, -3, 0.5f, 0, 4}, bias[] = {10, 20}, x[] = {1, 1, 2, -1, 0, 3};
	static const float wanted[] = {1 + 2 - 6 + 10, 0.5f + 8 + 20, -1 - 9 + 10, -0.5f + 12 + 20};
	static const enum num types[] = {NUM_F32, NUM_BF16, NUM_I8};
	struct matrix_part part = {w, NUM_F32, 2, bias};
	for (int t = 0; t < 3; t++) {
		struct matrix *m;
		float y[4];
		CHECK_INT(reference->ops->pack(reference, &m, &part, 1, 3, types[t]), 0);
		CHECK_INT(reference->ops->matmul_f32(reference, y, x, 2, m), 0);
		for (int i = 0; i < 4; i++)
			CHECK_NEAR(y[i], wanted[i], types[t] == NUM_I8 ? 0.1 : 0);
		CHECK_INT(reference->ops->matrix_bytes(m), types[t] == NUM_I8 ? 14 : 6 * num_bytes(types[t]));
		reference->ops->unpack_free(reference, m);
	}
	struct matrix *none;
	CHECK_INT(reference->ops->pack(reference, &none, &part, 1, 3, NUM_F16), -1);
	CU_ASSERT_PTR_NULL(none);
}

int main(void)
{
	static const struct test tests[] = {
		{"norms", norms},
		{"norm_of_zeros", norm_of_zeros},
		{"gate", gate},
		{"gate_of_every_size", gate_of_every_size},
		{"embedding_of_each_type", embedding_of_each_type},
		{"gathered_rows", gathered_rows},
		{"copied_pages", copied_pages},
		{"lowest_index_of_the_largest", lowest_index_of_the_largest},
		{"rotated_and_kept", rotated_and_kept},
		{"written_then_read", written_then_read},
		{"halves", halves},
		{"special_values_are_kept", special_values_are_kept},
		{"opening", opening},
		{"processors_granted", processors_granted},
		{"memory_is_zeroed_and_aligned", memory_is_zeroed_and_aligned},
		{"time_by_parts", time_by_parts},
		{"reference_products", reference_products},
	};
	open_sets();
	int rc = SUITE_RUN("kernels_ops", tests);
	close_sets();
	return rc;
}
