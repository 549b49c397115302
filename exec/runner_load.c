/* Weights, one tensor at a time, into the kernels' own layout: q, k and v become one product, gate and up another. */
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/runner_state.h"

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static float from_bits(uint32_t bits)
{
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static float from_f16(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
	if (exponent == 31)
		return from_bits(sign | 0x7f800000u | fraction << 13);
	if (exponent)
		return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
	float tiny = (float)fraction * 0x1p-24F; /* subnormal */
	return sign ? -tiny : tiny;
}

static void to_f32(float *out, const void *in, enum num type, int64_t n)
{
	const uint8_t *bytes = in;
	for (int64_t i = 0; i < n; i++) {
		uint16_t half;
		if (type == NUM_F32) {
			memcpy(&out[i], bytes + 4 * i, 4);
			continue;
		}
		memcpy(&half, bytes + 2 * i, 2);
		out[i] = type == NUM_F16 ? from_f16(half) : from_bits((uint32_t)half << 16);
	}
}

/* --- vectors ------------------------------------------------------------------------------------------------------ */

/* On the host; the caller's. */
static int get_vector(struct weights *w, enum tensor t, int32_t layer, float **out, int64_t *n, struct err *e)
{
	struct tensor_data d;
	int rc = weights_get(w, t, layer, &d, e);
	if (rc)
		return rc;
	*n = d.rows * d.cols;
	*out = mem_alloc((size_t)*n * sizeof **out);
	if (!*out)
		return err_no_memory(e, "a vector of weights");
	to_f32(*out, d.data, d.type, *n);
	return ERR_NONE;
}

/* On the device. */
static int load_vector(struct runner *r, struct weights *w, enum tensor t, int32_t layer, float **out, struct err *e)
{
	float *host;
	int64_t n;
	int rc = get_vector(w, t, layer, &host, &n, e);
	if (rc)
		return rc;
	size_t bytes = (size_t)n * sizeof *host;
	*out = runner_alloc(r, bytes, "weights", e);
	if (!*out)
		rc = ERR_MEMORY;
	else if (r->ops->upload(r->set, *out, host, bytes))
		rc = runner_kernel_failed(r, e);
	r->weight_bytes += (int64_t)bytes;
	mem_free(host);
	return rc;
}

/* --- matrices ----------------------------------------------------------------------------------------------------- */

enum { MOST_PARTS = 3 };

struct stack {
	struct matrix_part parts[MOST_PARTS];
	void *copies[MOST_PARTS]; /* a tensor lives only until the next is asked for */
	float *biases[MOST_PARTS];
	int32_t n, n_in;
};

static void stack_free(struct stack *s)
{
	for (int32_t i = 0; i < MOST_PARTS; i++) {
		mem_free(s->copies[i]);
		mem_free(s->biases[i]);
	}
}

/* One more part; `bias` = N_TENSORS: it has none. */
static int stack_add(struct stack *s, struct weights *w, enum tensor t, enum tensor bias, int32_t layer, bool last,
		     struct err *e)
{
	struct tensor_data d;
	struct matrix_part *p = &s->parts[s->n];
	int64_t n;
	int rc = bias == N_TENSORS ? ERR_NONE : get_vector(w, bias, layer, &s->biases[s->n], &n, e);
	if (!rc)
		rc = weights_get(w, t, layer, &d, e);
	if (rc)
		return rc;
	*p = (struct matrix_part){.data = d.data, .type = d.type, .n_out = (int32_t)d.rows, .bias = s->biases[s->n]};
	if (!last) {
		size_t bytes = (size_t)d.rows * (size_t)d.cols * (size_t)num_bytes(d.type);
		p->data = s->copies[s->n] = mem_alloc(bytes);
		if (!p->data)
			return err_no_memory(e, "a matrix of weights");
		memcpy(s->copies[s->n], d.data, bytes);
	}
	s->n_in = (int32_t)d.cols;
	s->n++;
	return ERR_NONE;
}

static int pack(struct runner *r, struct weights *w, struct matrix **out, const enum tensor *tensors,
		const enum tensor *biases, int32_t n, int32_t layer, struct err *e)
{
	struct stack s = {0};
	int rc = ERR_NONE;
	for (int32_t i = 0; i < n && !rc; i++)
		rc = stack_add(&s, w, tensors[i], biases ? biases[i] : N_TENSORS, layer, i == n - 1, e);
	if (!rc && r->ops->pack(r->set, out, s.parts, s.n, s.n_in, r->weight_type))
		rc = runner_kernel_failed(r, e);
	if (!rc)
		r->weight_bytes += (int64_t)r->ops->matrix_bytes(*out);
	stack_free(&s);
	return rc;
}

static int load_layer(struct runner *r, struct weights *w, int32_t i, struct err *e)
{
	static const enum tensor qkv[] = {TENSOR_Q, TENSOR_K, TENSOR_V},
				 qkv_bias[] = {TENSOR_Q_BIAS, TENSOR_K_BIAS, TENSOR_V_BIAS}, o[] = {TENSOR_O},
				 o_bias[] = {TENSOR_O_BIAS}, gate_up[] = {TENSOR_GATE, TENSOR_UP},
				 gate_up_bias[] = {TENSOR_GATE_BIAS, TENSOR_UP_BIAS}, down[] = {TENSOR_DOWN},
				 down_bias[] = {TENSOR_DOWN_BIAS};
	const struct model *m = r->model;
	struct layer_weights *l = &r->layers[i];
	int rc = load_vector(r, w, TENSOR_ATTENTION_NORM, i, &l->attention_norm, e);
	if (!rc)
		rc = load_vector(r, w, TENSOR_MLP_NORM, i, &l->mlp_norm, e);
	if (!rc && m->qk_norm)
		rc = load_vector(r, w, TENSOR_Q_NORM, i, &l->q_norm, e);
	if (!rc && m->qk_norm)
		rc = load_vector(r, w, TENSOR_K_NORM, i, &l->k_norm, e);
	if (!rc)
		rc = pack(r, w, &l->qkv, qkv, m->qkv_bias ? qkv_bias : NULL, 3, i, e);
	if (!rc)
		rc = pack(r, w, &l->o, o, m->o_bias ? o_bias : NULL, 1, i, e);
	if (!rc)
		rc = pack(r, w, &l->gate_up, gate_up, m->mlp_bias ? gate_up_bias : NULL, 2, i, e);
	if (!rc)
		rc = pack(r, w, &l->down, down, m->mlp_bias ? down_bias : NULL, 1, i, e);
	return rc;
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

/* As it is in its file, so that nothing is rounded; f16 as f32. */
static int load_embedding(struct runner *r, struct weights *w, struct err *e)
{
	struct tensor_data d;
	float *wide = NULL;
	int rc = weights_get(w, TENSOR_EMBED, 0, &d, e);
	if (rc)
		return rc;
	int64_t n = d.rows * d.cols;
	r->embed_type = d.type == NUM_F16 ? NUM_F32 : d.type;
	size_t bytes = (size_t)n * (size_t)num_bytes(r->embed_type);
	if (d.type == NUM_F16) {
		wide = mem_alloc(bytes);
		if (!wide)
			return err_no_memory(e, "the embedding table");
		to_f32(wide, d.data, d.type, n);
	}
	r->embed = runner_alloc(r, bytes, "the embedding table", e);
	if (!r->embed)
		rc = ERR_MEMORY;
	else if (r->ops->upload(r->set, r->embed, wide ? wide : d.data, bytes))
		rc = runner_kernel_failed(r, e);
	mem_free(wide);
	return rc;
}

int runner_load(struct runner *r, struct weights *w, struct err *e)
{
	static const enum tensor head[] = {TENSOR_HEAD};
	r->layers = mem_zalloc((size_t)r->n_layers, sizeof *r->layers);
	if (!r->layers)
		return err_no_memory(e, "a model's layers");
	int rc = load_embedding(r, w, e);
	for (int32_t i = 0; i < r->n_layers && !rc; i++)
		rc = load_layer(r, w, i, e);
	if (!rc)
		rc = load_vector(r, w, TENSOR_FINAL_NORM, 0, &r->final_norm, e);
	if (!rc)
		rc = pack(r, w, &r->head, head, NULL, 1, 0, e);
	return rc;
}

void runner_unload(struct runner *r)
{
	for (int32_t i = 0; r->layers && i < r->n_layers; i++) {
		struct layer_weights *l = &r->layers[i];
		struct matrix *const matrices[] = {l->qkv, l->o, l->gate_up, l->down};
		float *const vectors[] = {l->attention_norm, l->mlp_norm, l->q_norm, l->k_norm};
		for (int k = 0; k < 4; k++) {
			if (matrices[k])
				r->ops->unpack_free(r->set, matrices[k]);
			if (vectors[k])
				r->ops->release(r->set, vectors[k]);
		}
	}
	if (r->head)
		r->ops->unpack_free(r->set, r->head);
	if (r->final_norm)
		r->ops->release(r->set, r->final_norm);
	if (r->embed)
		r->ops->release(r->set, r->embed);
	mem_free(r->layers);
}
