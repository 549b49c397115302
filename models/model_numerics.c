/* model_numerics.c: RMSNorm's epsilon, rotary embeddings, special tokens, and what the model runner cannot compute. Keys and
 * their defaults are those of the transformers library, whose version 5 moved the rotary ones into rope_parameters. */
#include "models/model_numerics.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "models/json_read.h"
#include "models/model.h"

#define MAX_THETA 1e12
enum { MAX_ORIGINAL = 1 << 30 };

/* The first reason stays. */
__attribute__((format(printf, 2, 3))) static void cannot(struct model_numerics *n, const char *fmt, ...)
{
	va_list args;
	if (n->unsupported[0])
		return;
	va_start(args, fmt);
	vsnprintf(n->unsupported, sizeof n->unsupported, fmt, args);
	va_end(args);
}

/* A number that must be there, above 0. */
static double need_real(const struct json_reader *r, const char *key, double min, double max)
{
	if (!json_read_present(r, key)) {
		err_set(r->e, ERR_INPUT, "%s: rope_scaling needs %s", r->where, key);
		return 1;
	}
	return json_read_real_or(r, key, min, max, 1);
}

static void read_llama3(struct model_numerics *n, const struct json_reader *r)
{
	n->rope_low = need_real(r, "low_freq_factor", 1e-6, 1e6);
	n->rope_high = need_real(r, "high_freq_factor", 1e-6, 1e6);
	n->rope_original_len = json_read_int(r, "original_max_position_embeddings", 1, MAX_ORIGINAL);
	if (!(n->rope_low < n->rope_high))
		err_set(r->e, ERR_INPUT, "%s: rope_scaling's low_freq_factor %g must be below its high_freq_factor %g",
			r->where, n->rope_low, n->rope_high);
}

/* `object`: rope_scaling, or rope_parameters (which also holds theta). */
static void read_scaling(struct model_numerics *n, const struct json_reader *outer, const char *key)
{
	const json_t *object = json_read_present(outer, key);
	if (!object)
		return;
	if (!json_is_object(object)) {
		err_set(outer->e, ERR_INPUT, "%s: %s must be an object", outer->where, key);
		return;
	}
	struct json_reader r = {object, outer->where, outer->e};
	if (json_read_present(&r, "full_attention") || json_read_present(&r, "sliding_attention")) {
		cannot(n, "rotary embeddings that differ by layer");
		return;
	}
	char type[32] = "default";
	json_read_string(&r, "type", type, sizeof type); /* its older name */
	json_read_string(&r, "rope_type", type, sizeof type);
	n->rope_theta = json_read_real_or(&r, "rope_theta", 1e-6, MAX_THETA, n->rope_theta);
	if (!strcmp(type, "default"))
		return;
	if (!strcmp(type, "linear")) {
		n->rope_scaling = ROPE_LINEAR;
		n->rope_factor = need_real(&r, "factor", 1e-6, 1e6);
	} else if (!strcmp(type, "llama3")) {
		n->rope_scaling = ROPE_LLAMA3;
		n->rope_factor = need_real(&r, "factor", 1e-6, 1e6);
		read_llama3(n, &r);
	} else {
		cannot(n, "rope scaling \"%.30s\"", type);
	}
}

/* An id, or a list of them; null or -1 is none. Returns how many. */
static int32_t read_ids(const struct json_reader *r, const char *key, int32_t vocab, int32_t *ids, int32_t max)
{
	const json_t *v = json_read_present(r, key);
	size_t listed = json_is_array(v) ? json_array_size(v) : (v != NULL);
	int32_t n = 0;
	for (size_t i = 0; i < listed; i++) {
		const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
		json_int_t id = json_integer_value(one);
		if (!json_is_integer(one) || id < -1 || id >= vocab)
			err_set(r->e, ERR_INPUT, "%s: %s must be a token id below vocab_size %d, or a list of them",
				r->where, key, vocab);
		else if (id >= 0 && n == max)
			err_set(r->e, ERR_INPUT, "%s: %s lists more than %d ids", r->where, key, max);
		else if (id >= 0)
			ids[n++] = (int32_t)id;
	}
	return n;
}

/* What its shapes say that the runner has no kernels for. */
static void judge_shapes(const struct model *m, struct model_numerics *n)
{
	if (m->n_experts > 0)
		cannot(n, "mixture of experts");
	if (m->kind == ATTENTION_MLA)
		cannot(n, "multi-head latent attention");
	if (m->sinks)
		cannot(n, "attention sinks");
	if (m->head_dim % 2)
		cannot(n, "an odd head_dim (%d): rotary embeddings turn pairs", m->head_dim);
	for (int32_t i = 0; i < m->n_layers; i++)
		if (m->layers[i].kv_from != i)
			cannot(n, "layers that share one KV cache");
}

void model_read_numerics(struct model *m, const struct json_reader *r)
{
	struct model_numerics n = {.rope_factor = 1, .rope_low = 1, .rope_high = 1, .bos = -1};
	char act[40] = "silu";
	judge_shapes(m, &n);
	json_read_string(r, "hidden_act", act, sizeof act);
	if (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
		cannot(&n, "hidden_act \"%s\"", act);
	double rotary = json_read_real_or(r, "partial_rotary_factor", 0, 1, 1);
	if (rotary != 1)
		cannot(&n, "rotary embeddings of a part of each head (partial_rotary_factor %g)", rotary);
	n.norm_eps = json_read_real_or(r, "rms_norm_eps", 0, 1, 1e-6);
	n.rope_theta = json_read_real_or(r, "rope_theta", 1e-6, MAX_THETA, 10000);
	read_scaling(&n, r, "rope_scaling");
	read_scaling(&n, r, "rope_parameters");
	int32_t bos[8];
	if (read_ids(r, "bos_token_id", m->vocab, bos, 8))
		n.bos = bos[0];
	n.n_eos = read_ids(r, "eos_token_id", m->vocab, n.eos, (int32_t)(sizeof n.eos / sizeof n.eos[0]));
	m->numerics = n;
}
