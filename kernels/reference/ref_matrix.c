/* ref_matrix.c: matrices of the reference set: the values a type can hold, kept as floats. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "kernels/half.h"
#include "kernels/reference/ref.h"

struct matrix {
	int32_t n_out, n_in;
	enum num as;
	double *scale; /* [n_out]; 1 unless int8 */
	double *bias; /* [n_out] */
	float *w; /* [n_out][n_in] */
};

static float value_at(const struct matrix_part *p, size_t i)
{
	switch (p->type) {
	case NUM_BF16:
		return bf16_to_float(((const uint16_t *)p->data)[i]);
	case NUM_F16:
		return f16_to_float(((const uint16_t *)p->data)[i]);
	default:
		return ((const float *)p->data)[i];
	}
}

/* One output channel's weights, rounded to what type `as` holds. */
static void pack_row(struct matrix *m, int32_t to, const struct matrix_part *p, int32_t from)
{
	float *w = m->w + (size_t)to * (size_t)m->n_in, most = 0;
	for (int32_t i = 0; i < m->n_in; i++) {
		w[i] = value_at(p, (size_t)from * (size_t)m->n_in + (size_t)i);
		most = fmaxf(most, fabsf(w[i]));
	}
	m->scale[to] = 1;
	m->bias[to] = p->bias ? p->bias[from] : 0;
	if (m->as == NUM_BF16)
		for (int32_t i = 0; i < m->n_in; i++)
			w[i] = bf16_to_float(float_to_bf16(w[i]));
	if (m->as != NUM_I8)
		return;
	float scale = most / 127;
	m->scale[to] = scale;
	for (int32_t i = 0; i < m->n_in; i++)
		w[i] = scale > 0 ? rintf(w[i] / scale) : 0;
}

int ref_pack(struct kernel_set *k, struct matrix **out, const struct matrix_part *parts, int32_t n_parts, int32_t n_in,
	     enum num as)
{
	*out = NULL;
	if (as == NUM_F16 || as == NUM_F8)
		return ref_fail(k, as == NUM_F16 ? "matrices are held in f32, bf16 or int8, not in f16"
						 : "matrices are held in f32, bf16 or int8, not in fp8");
	int64_t n_out = 0;
	for (int32_t i = 0; i < n_parts; i++) {
		if (parts[i].type == NUM_I8 || parts[i].type == NUM_F8)
			return ref_fail(k, "a matrix is made from f32, bf16 or f16, not from int8 or fp8");
		n_out += parts[i].n_out;
	}
	struct matrix *m = calloc(1, sizeof *m);
	if (!m || n_out < 1 || n_in < 1 || n_out > INT32_MAX) {
		free(m);
		return ref_fail(k, m ? "a matrix has at least one row and one column" : "out of memory for a matrix");
	}
	*m = (struct matrix){.n_out = (int32_t)n_out, .n_in = n_in, .as = as};
	m->w = malloc((size_t)n_out * (size_t)n_in * sizeof *m->w);
	m->scale = malloc((size_t)n_out * sizeof *m->scale);
	m->bias = malloc((size_t)n_out * sizeof *m->bias);
	if (!m->w || !m->scale || !m->bias) {
		ref_unpack_free(k, m);
		return ref_fail(k, "out of memory for a matrix");
	}
	int32_t row = 0;
	for (int32_t i = 0; i < n_parts; i++)
		for (int32_t j = 0; j < parts[i].n_out; j++)
			pack_row(m, row++, &parts[i], j);
	*out = m;
	return 0;
}

void ref_unpack_free(struct kernel_set *k, struct matrix *m)
{
	(void)k;
	if (!m)
		return;
	free(m->w);
	free(m->scale);
	free(m->bias);
	free(m);
}

size_t ref_matrix_bytes(const struct matrix *m)
{
	size_t values = (size_t)m->n_out * (size_t)m->n_in * (size_t)num_bytes(m->as);
	return values + (m->as == NUM_I8 ? (size_t)m->n_out * 4 : 0);
}

int ref_matmul(struct kernel_set *k, float *y, const float *x, int32_t rows, const struct matrix *w)
{
	(void)k;
	for (int32_t r = 0; r < rows; r++) {
		const float *xr = x + (size_t)r * (size_t)w->n_in;
		for (int32_t o = 0; o < w->n_out; o++) {
			const float *wo = w->w + (size_t)o * (size_t)w->n_in;
			double sum = 0;
			for (int32_t i = 0; i < w->n_in; i++)
				sum += (double)xr[i] * wo[i];
			y[(size_t)r * (size_t)w->n_out + (size_t)o] = (float)(sum * w->scale[o] + w->bias[o]);
		}
	}
	return 0;
}
