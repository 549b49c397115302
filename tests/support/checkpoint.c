#include "tests/support/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/rng.h"

static void *need(void *p)
{
	if (!p) {
		perror("tests");
		exit(1);
	}
	return p;
}

void checkpoint_write_raw(const char *path, const char *header, int64_t header_bytes, const void *data, int64_t bytes)
{
	FILE *f = need(fopen(path, "wb"));
	uint64_t n = (uint64_t)header_bytes;
	if (fwrite(&n, 8, 1, f) != 1 || fwrite(header, 1, (size_t)header_bytes, f) != (size_t)header_bytes ||
	    fwrite(data, 1, (size_t)bytes, f) != (size_t)bytes || fclose(f) != 0)
		need(NULL);
}

void checkpoint_write(const char *path, const struct file_tensor *t, int n, int align)
{
	size_t room = 64 + (size_t)n * 300, at = 0;
	char *header = need(malloc(room));
	int64_t bytes = 0;
	at += (size_t)snprintf(header, room, "{\"__metadata__\":{\"format\":\"pt\"}");
	for (int i = 0; i < n; i++) {
		char shape[60];
		snprintf(shape, sizeof shape, t[i].n_dims == 2 ? "%lld,%lld" : "%lld", (long long)t[i].dims[0],
			 (long long)t[i].dims[1]);
		at += (size_t)snprintf(header + at, room - at,
				       ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%lld,%lld]}",
				       t[i].name, t[i].dtype, shape, (long long)bytes, (long long)(bytes + t[i].bytes));
		bytes += t[i].bytes;
	}
	header[at++] = '}';
	while (at % (size_t)align)
		header[at++] = ' ';
	unsigned char *data = need(malloc((size_t)bytes + 1));
	bytes = 0;
	for (int i = 0; i < n; bytes += t[i++].bytes)
		memcpy(data + bytes, t[i].data, (size_t)t[i].bytes);
	checkpoint_write_raw(path, header, (int64_t)at, data, bytes);
	free(data);
	free(header);
}

/* Elements of a tensor, 0 where the model has none. */
static int64_t elements(const struct model *m, enum tensor t)
{
	int64_t q = (int64_t)m->n_heads * m->head_dim, kv = (int64_t)m->n_kv_heads * m->head_dim, h = m->hidden;
	switch (t) {
	case TENSOR_EMBED:
		return m->vocab * h;
	case TENSOR_HEAD:
		return m->tied ? 0 : m->vocab * h;
	case TENSOR_FINAL_NORM:
	case TENSOR_ATTENTION_NORM:
	case TENSOR_MLP_NORM:
		return h;
	case TENSOR_Q:
	case TENSOR_O:
		return q * h;
	case TENSOR_K:
	case TENSOR_V:
		return kv * h;
	case TENSOR_Q_BIAS:
		return m->qkv_bias ? q : 0;
	case TENSOR_K_BIAS:
	case TENSOR_V_BIAS:
		return m->qkv_bias ? kv : 0;
	case TENSOR_O_BIAS:
		return m->o_bias ? h : 0;
	case TENSOR_Q_NORM:
	case TENSOR_K_NORM:
		return m->qk_norm ? m->head_dim : 0;
	case TENSOR_GATE:
	case TENSOR_UP:
	case TENSOR_DOWN:
		return m->intermediate * h;
	case TENSOR_GATE_BIAS:
	case TENSOR_UP_BIAS:
		return m->mlp_bias ? m->intermediate : 0;
	case TENSOR_DOWN_BIAS:
		return m->mlp_bias ? h : 0;
	default:
		return 0;
	}
}

static bool is_norm(enum tensor t)
{
	return t == TENSOR_FINAL_NORM || t == TENSOR_ATTENTION_NORM || t == TENSOR_MLP_NORM || t == TENSOR_Q_NORM ||
	       t == TENSOR_K_NORM;
}

void toy_create(struct toy *t, const char *config, uint64_t seed)
{
	struct err e = {0};
	struct rng r;
	memset(t, 0, sizeof *t);
	if (model_parse(&t->model, config, "toy", &e)) {
		fprintf(stderr, "%s\n", e.text);
		exit(1);
	}
	rng_init(&r, seed, 99);
	for (int k = 0; k < N_TENSORS; k++) {
		t->n[k] = elements(&t->model, (enum tensor)k);
		for (int l = 0; l < (k < TENSOR_ATTENTION_NORM ? 1 : t->model.n_layers) && t->n[k]; l++) {
			float *x = t->at[k][l] = need(malloc((size_t)t->n[k] * sizeof *x));
			double scale = 1.5 / sqrt(t->model.hidden);
			for (int64_t i = 0; i < t->n[k]; i++)
				x[i] = (float)(is_norm((enum tensor)k) ? 0.7 + 0.6 * rng_unit(&r)
								       : scale * (2 * rng_unit(&r) - 1));
		}
	}
}

void toy_free(struct toy *t)
{
	for (int k = 0; k < N_TENSORS; k++)
		for (int l = 0; l < 64; l++)
			free(t->at[k][l]);
	model_free(&t->model);
}

/* Rounds x to the type in place and writes its bits: 7 or 10 bits of mantissa. Values here are normal in both types, or
 * so small that they become 0. */
static uint16_t to_half(float *x, bool bf16)
{
	uint32_t u;
	memcpy(&u, x, 4);
	int drop = bf16 ? 16 : 13;
	u = (u + (1u << (drop - 1))) & ~((1u << drop) - 1);
	int exponent = (int)(u >> 23 & 255) - 127;
	if (!bf16 && exponent < -14)
		u &= 0x80000000u;
	memcpy(x, &u, 4);
	if (bf16)
		return (uint16_t)(u >> 16);
	return (uint16_t)((u >> 16 & 0x8000) |
			  (exponent < -14 ? 0 : (uint32_t)(exponent + 15) << 10 | (u >> 13 & 0x3ff)));
}

static void set_data(struct file_tensor *f, float *x, int64_t n, const char *dtype)
{
	f->dtype = dtype;
	f->bytes = n * (dtype[0] == 'F' && dtype[1] == '3' ? 4 : 2);
	void *copy = need(malloc((size_t)f->bytes));
	if (f->bytes == 4 * n)
		memcpy(copy, x, (size_t)f->bytes);
	else
		for (int64_t i = 0; i < n; i++)
			((uint16_t *)copy)[i] = to_half(&x[i], dtype[0] == 'B');
	f->data = copy;
}

int toy_tensors(struct toy *t, const char *prefix, const char *dtype, struct file_tensor **out)
{
	static const char *const names[N_TENSORS] = {"embed_tokens.weight",
						     "norm.weight",
						     "lm_head.weight",
						     "input_layernorm.weight",
						     "self_attn.q_proj.weight",
						     "self_attn.k_proj.weight",
						     "self_attn.v_proj.weight",
						     "self_attn.o_proj.weight",
						     "self_attn.q_proj.bias",
						     "self_attn.k_proj.bias",
						     "self_attn.v_proj.bias",
						     "self_attn.o_proj.bias",
						     "self_attn.q_norm.weight",
						     "self_attn.k_norm.weight",
						     "post_attention_layernorm.weight",
						     "mlp.gate_proj.weight",
						     "mlp.up_proj.weight",
						     "mlp.down_proj.weight",
						     "mlp.gate_proj.bias",
						     "mlp.up_proj.bias",
						     "mlp.down_proj.bias"};
	struct file_tensor *list = need(calloc(N_TENSORS * 64, sizeof *list));
	int n = 0;
	for (int k = 0; k < N_TENSORS; k++)
		for (int l = 0; l < 64 && t->at[k][l]; l++) {
			struct file_tensor *f = &list[n++];
			bool matrix = !is_norm((enum tensor)k) && !strstr(names[k], "bias");
			int64_t cols = k == TENSOR_DOWN ? t->model.intermediate
				       : k == TENSOR_O  ? (int64_t)t->model.n_heads * t->model.head_dim
							: t->model.hidden;
			f->n_dims = matrix ? 2 : 1;
			f->dims[0] = matrix ? t->n[k] / cols : t->n[k];
			f->dims[1] = cols;
			set_data(f, t->at[k][l], t->n[k], dtype);
			if (k >= TENSOR_ATTENTION_NORM)
				snprintf(f->name, sizeof f->name, "%slayers.%d.%s", prefix, l, names[k]);
			else
				snprintf(f->name, sizeof f->name, "%s%s", k == TENSOR_HEAD ? "" : prefix, names[k]);
		}
	*out = list;
	return n;
}

void toy_tensors_free(struct file_tensor *t, int n)
{
	for (int i = 0; i < n; i++)
		free((void *)(uintptr_t)t[i].data);
	free(t);
}
