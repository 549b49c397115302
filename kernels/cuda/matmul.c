/* matmul.c: matrices and products with them.
 *
 *   f32, bf16   cuBLASLt, sums in f32; f32 is not rounded to TF32.
 *   int8        as the CPU's: weights q * scale of their output, activations as they are. Few rows: a kernel of our own
 *               that reads the int8 (bound by that). Many: pieces of the matrix as bf16, then cuBLASLt; a piece stays in
 *               the L2 between the two.
 *   fp8         activations are rounded to fp8 too, with a scale for each row, and the tensor cores multiply fp8. Compute
 *               capability 8.9 and later. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/blas.h"
#include "kernels/cuda/matmul_ops.h"
#include "kernels/cuda/set.h"
#include "kernels/half.h"

enum { PIECE_BYTES = 32 << 20, FEW_ROWS = 16, F8_ARCH = 89, F8_UNIT = 16, PIECE_UNIT = 128 };

struct matrix {
	enum num type;
	int32_t n_out, n_in;
	void *w; /* device [n_out][n_in] */
	float *scale; /* device [n_out]; int8 and f8 */
	float *bias; /* device [n_out], or NULL */
	void *bias_act; /* the same in the activations' type */
};

/* --- packing ------------------------------------------------------------------------------------------------------------ */

static int refuse_type(struct cuda_set *s, enum num as, int32_t n_out, int32_t n_in)
{
	if (as == NUM_F16)
		return cuda_refuse(s, "matrices are held in f32, bf16, int8 or fp8, not in f16");
	if ((as == NUM_F32) != (s->base.act == NUM_F32))
		return cuda_refuse(s, "matrices in %s go with activations in %s, not in %s", num_names[as],
				   as == NUM_F32 ? "f32" : "bf16", num_names[s->base.act]);
	if (as == NUM_F8 && s->arch < F8_ARCH)
		return cuda_refuse(
			s,
			"products in fp8 need compute capability 8.9 or later, and this device has %d.%d: hold "
			"the weights in int8 or bf16",
			s->arch / 10, s->arch % 10);
	if (as == NUM_F8 && (n_out % F8_UNIT || n_in % F8_UNIT))
		return cuda_refuse(s,
				   "products in fp8 need multiples of %d, and a matrix is %d x %d: hold the weights in "
				   "int8 or bf16",
				   F8_UNIT, n_out, n_in);
	return 0;
}

/* Rows go through scratch memory piece by piece, and from there into their type. */
static int pack_part(struct cuda_set *s, struct matrix *m, const struct matrix_part *p, int32_t first)
{
	size_t row = (size_t)m->n_in * (size_t)num_bytes(p->type), kept = (size_t)m->n_in * (size_t)num_bytes(m->type);
	int32_t rows = (int32_t)(PIECE_BYTES / row);
	rows = rows < 1 ? 1 : rows > p->n_out ? p->n_out : rows;
	if (p->type == m->type)
		return cuda_upload(&s->base, (char *)m->w + (size_t)first * kept, p->data, (size_t)p->n_out * row);
	if (cuda_fit(s, &s->products, (size_t)rows * row, "weights on their way"))
		return -1;
	for (int32_t at = 0; at < p->n_out; at += rows) {
		int32_t n = p->n_out - at < rows ? p->n_out - at : rows;
		void *to = (char *)m->w + (size_t)(first + at) * kept;
		float *scale = m->scale ? m->scale + first + at : NULL;
		if (cuda_upload(&s->base, s->products.at, (const char *)p->data + (size_t)at * row, (size_t)n * row) ||
		    cuda_check(s, cuda_pack_rows(s->stream, m->type, to, scale, s->products.at, p->type, n, m->n_in),
			       "packing %d x %d weights", n, m->n_in))
			return -1;
	}
	return 0;
}

static int pack_bias(struct cuda_set *s, struct matrix *m, const struct matrix_part *parts, int32_t n_parts)
{
	size_t n = (size_t)m->n_out, at = 0;
	bool any = false;
	for (int32_t i = 0; i < n_parts; i++)
		any |= parts[i].bias != NULL;
	if (!any)
		return 0;
	float *wide = calloc(n, sizeof *wide);
	uint16_t *narrow = calloc(n, sizeof *narrow);
	m->bias = cuda_alloc(&s->base, n * sizeof *wide);
	m->bias_act = m->bias ? cuda_alloc(&s->base, n * (size_t)num_bytes(s->base.act)) : NULL;
	int rc = -1;
	if (!wide || !narrow)
		cuda_refuse(s, "out of memory for a bias");
	else if (m->bias_act)
		rc = 0;
	for (int32_t i = 0; i < n_parts && !rc; at += (size_t)parts[i++].n_out)
		if (parts[i].bias)
			memcpy(wide + at, parts[i].bias, (size_t)parts[i].n_out * sizeof *wide);
	for (size_t i = 0; i < n && !rc; i++)
		narrow[i] = float_to_bf16(wide[i]);
	const void *act = s->base.act == NUM_F32 ? (const void *)wide : narrow;
	if (!rc)
		rc = cuda_upload(&s->base, m->bias, wide, n * sizeof *wide) ||
		     cuda_upload(&s->base, m->bias_act, act, n * (size_t)num_bytes(s->base.act));
	free(wide);
	free(narrow);
	return rc ? -1 : 0;
}

static int pack_all(struct cuda_set *s, struct matrix *m, const struct matrix_part *parts, int32_t n_parts)
{
	int32_t first = 0;
	m->w = cuda_alloc(&s->base, (size_t)m->n_out * (size_t)m->n_in * (size_t)num_bytes(m->type));
	if (!m->w)
		return -1;
	if (m->type == NUM_I8 || m->type == NUM_F8) {
		m->scale = cuda_alloc(&s->base, (size_t)m->n_out * sizeof *m->scale);
		if (!m->scale)
			return -1;
	}
	for (int32_t i = 0; i < n_parts; first += parts[i++].n_out)
		if (pack_part(s, m, &parts[i], first))
			return -1;
	return pack_bias(s, m, parts, n_parts);
}

int cuda_pack(struct kernel_set *k, struct matrix **out, const struct matrix_part *parts, int32_t n_parts, int32_t n_in,
	      enum num as)
{
	struct cuda_set *s = cuda_set_of(k);
	int64_t n_out = 0;
	*out = NULL;
	for (int32_t i = 0; i < n_parts; i++) {
		if (parts[i].type == NUM_I8 || parts[i].type == NUM_F8)
			return cuda_refuse(s, "a matrix is made from f32, bf16 or f16, not from %s",
					   num_names[parts[i].type]);
		n_out += parts[i].n_out;
	}
	if (n_out < 1 || n_out > INT32_MAX || n_in < 1)
		return cuda_refuse(s, "a matrix of %lld x %d cannot be held", (long long)n_out, n_in);
	if (refuse_type(s, as, (int32_t)n_out, n_in))
		return -1;
	struct matrix *m = calloc(1, sizeof *m);
	if (!m)
		return cuda_refuse(s, "out of memory for a matrix");
	*m = (struct matrix){.type = as, .n_out = (int32_t)n_out, .n_in = n_in};
	if (pack_all(s, m, parts, n_parts)) {
		cuda_unpack_free(k, m);
		return -1;
	}
	*out = m;
	return 0;
}

void cuda_unpack_free(struct kernel_set *k, struct matrix *m)
{
	if (!m)
		return;
	cuda_release(k, m->w);
	cuda_release(k, m->scale);
	cuda_release(k, m->bias);
	cuda_release(k, m->bias_act);
	free(m);
}

size_t cuda_matrix_bytes(const struct matrix *m)
{
	size_t out = (size_t)m->n_out;
	return out * (size_t)m->n_in * (size_t)num_bytes(m->type) + (m->scale ? out * sizeof *m->scale : 0) +
	       (m->bias ? out * sizeof *m->bias : 0);
}

/* --- products ------------------------------------------------------------------------------------------------------------ */

static int by_blas(struct cuda_set *s, const struct product *p, void *y, const void *x, const void *w, const void *bias)
{
	const char *why;
	if (blas_run(s->blas, s->stream, p, y, x, w, bias, &why) == 0)
		return 0;
	return cuda_refuse(s, "the product of %d rows with a matrix of %d x %d in %s: cuBLAS: %s", p->rows, p->n_out,
			   p->n_in, num_names[p->in], why);
}

static int product_i8(struct cuda_set *s, enum num out, void *y, const void *x, int32_t rows, const struct matrix *w)
{
	if (rows <= FEW_ROWS)
		return cuda_check(
			s, cuda_matvec_i8(s->stream, out, y, x, rows, w->w, w->scale, w->bias, w->n_out, w->n_in),
			"the product of %d rows with a matrix of %d x %d in int8", rows, w->n_out, w->n_in);
	/* y is [rows][n_out] and a piece is some of the columns: each has a product of its own, into its place. */
	size_t row = (size_t)w->n_in * 2;
	int32_t piece = (int32_t)(PIECE_BYTES / row);
	/* Each piece of y begins where cuBLAS can use it (blas.c). */
	piece = piece >= w->n_out ? w->n_out : piece < PIECE_UNIT ? PIECE_UNIT : piece / PIECE_UNIT * PIECE_UNIT;
	if (cuda_fit(s, &s->products, (size_t)piece * row, "int8 weights in bf16"))
		return -1;
	for (int32_t at = 0; at < w->n_out; at += piece) {
		struct product p = {
			NUM_BF16,        out,     rows, w->n_out - at < piece ? w->n_out - at : piece, w->n_in,
			w->bias != NULL, w->n_out};
		const int8_t *q = (const int8_t *)w->w + (size_t)at * (size_t)w->n_in;
		const void *bias = out == NUM_F32 ? (const void *)w->bias : w->bias_act;
		size_t skip = (size_t)at * (size_t)num_bytes(out);
		if (cuda_check(s, cuda_widen_i8(s->stream, s->products.at, q, w->scale + at, p.n_out, w->n_in),
			       "making bf16 of %d x %d weights in int8", p.n_out, w->n_in) ||
		    by_blas(s, &p, (char *)y + skip, x, s->products.at, bias ? (const char *)bias + skip : NULL))
			return -1;
	}
	return 0;
}

static int product_f8(struct cuda_set *s, enum num out, void *y, const void *x, int32_t rows, const struct matrix *w)
{
	const struct product p = {NUM_F8, out, rows, w->n_out, w->n_in, false, w->n_out};
	size_t values = ((size_t)rows * (size_t)w->n_in + 255) / 256 * 256;
	if (cuda_fit(s, &s->products, values + (size_t)rows * sizeof(float), "activations in fp8"))
		return -1;
	float *scale = (float *)((char *)s->products.at + values);
	if (cuda_check(s, cuda_rows_to_f8(s->stream, s->products.at, scale, x, rows, w->n_in),
		       "rounding %d x %d activations to fp8", rows, w->n_in) ||
	    by_blas(s, &p, y, s->products.at, w->w, NULL))
		return -1;
	return cuda_check(s, cuda_scale_product(s->stream, out, y, scale, w->scale, w->bias, rows, w->n_out),
			  "scaling a product of %d x %d in fp8", rows, w->n_out);
}

static int product(struct kernel_set *k, enum num out, void *y, const void *x, int32_t rows, const struct matrix *w)
{
	struct cuda_set *s = cuda_set_of(k);
	if (rows < 1)
		return 0;
	if (w->type == NUM_I8)
		return product_i8(s, out, y, x, rows, w);
	if (w->type == NUM_F8)
		return product_f8(s, out, y, x, rows, w);
	const struct product p = {w->type, out, rows, w->n_out, w->n_in, w->bias != NULL, w->n_out};
	return by_blas(s, &p, y, x, w->w, out == NUM_F32 ? (const void *)w->bias : w->bias_act);
}

int cuda_matmul(struct kernel_set *k, void *y, const void *x, int32_t rows, const struct matrix *w)
{
	return product(k, k->act, y, x, rows, w);
}

int cuda_matmul_f32(struct kernel_set *k, float *y, const void *x, int32_t rows, const struct matrix *w)
{
	return product(k, NUM_F32, y, x, rows, w);
}
