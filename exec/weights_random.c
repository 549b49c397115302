/* weights_random.c: seeded weights of any shape. An element depends on (seed, tensor, layer, index) alone and on no library,
 * so that the same name means the same model everywhere.
 *
 * Four elements come from one 64-bit word: splitmix64 of a counter, cut into 16-bit pieces i, each standing for
 * (2 i + 1) / 65536 in (-1, 1): uniform, symmetric, never 0. Matrices are scaled to a variance of 1 / n_in, which keeps
 * activations at their size from layer to layer; norms lie within 0.1 of 1, biases within 0.1 of 0. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "exec/weights_source.h"

enum { BLOCK = 512 }; /* elements made at a time: their words stay in the cache */

struct random_weights {
	struct weights base;
	uint64_t seed;
	enum num type;
};

static int parse_seed(const char *name, uint64_t *seed, struct err *e)
{
	const char *text = strchr(name, ':');
	char *end = NULL;
	errno = 0;
	if (text && text[1] >= '0' && text[1] <= '9')
		*seed = strtoull(text + 1, &end, 10);
	if (!end || *end || errno)
		return err_set(e, ERR_INPUT, "--weights %.100s: write random:SEED with a whole number, as random:1",
			       name);
	return ERR_NONE;
}

static int random_open(struct weights **out, const char *name, const struct model *m, struct err *e)
{
	uint64_t seed = 0;
	int rc = parse_seed(name, &seed, e);
	if (rc)
		return rc;
	struct random_weights *r = (struct random_weights *)weights_new(sizeof *r, &weights_random, m);
	if (!r)
		return err_no_memory(e, "weights");
	r->seed = seed;
	r->type = m->native.dtype == DTYPE_FP32 ? NUM_F32 : NUM_BF16;
	snprintf(r->base.describe, sizeof r->base.describe, "random:%llu (%s)", (unsigned long long)seed,
		 num_names[r->type]);
	*out = &r->base;
	return ERR_NONE;
}

static uint32_t bits_of(float x)
{
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

/* 16-bit pieces of the words from word `at` on. */
static void make_pieces(uint64_t base, int64_t at, int16_t pieces[BLOCK])
{
	uint64_t words[BLOCK / 4];
	for (int i = 0; i < BLOCK / 4; i++)
		words[i] = rng_mix(base + (uint64_t)(at + i) * 0x9e3779b97f4a7c15u);
	memcpy(pieces, words, sizeof words);
}

/* x = middle + step * (2 i + 1); bf16: rounded to nearest, ties to even. */
static void fill_bf16(uint16_t *to, int32_t n, const int16_t *pieces, float middle, float step)
{
	for (int32_t i = 0; i < n; i++) {
		uint32_t u = bits_of(middle + step * (float)(2 * pieces[i] + 1));
		to[i] = (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
	}
}

static void fill_f32(float *to, int32_t n, const int16_t *pieces, float middle, float step)
{
	for (int32_t i = 0; i < n; i++)
		to[i] = middle + step * (float)(2 * pieces[i] + 1);
}

static bool is_norm(enum tensor t)
{
	return t == TENSOR_FINAL_NORM || t == TENSOR_ATTENTION_NORM || t == TENSOR_MLP_NORM || t == TENSOR_Q_NORM ||
	       t == TENSOR_K_NORM;
}

static bool is_bias(enum tensor t)
{
	return (t >= TENSOR_Q_BIAS && t <= TENSOR_O_BIAS) || t >= TENSOR_GATE_BIAS;
}

static int random_get(struct weights *w, enum tensor t, int32_t layer, struct tensor_data *out, struct err *e)
{
	const struct random_weights *r = (const struct random_weights *)w;
	int64_t n = out->rows * out->cols;
	size_t each = r->type == NUM_F32 ? 4 : 2;
	int rc = weights_buffer(w, (size_t)n * each, e);
	if (rc)
		return rc;
	float middle = is_norm(t) ? 1.0f : 0.0f;
	float step = (float)((is_norm(t) || is_bias(t) ? 0.1 : sqrt(3.0 / (double)out->cols)) / 65536);
	uint64_t base = rng_mix(rng_mix(r->seed) ^ (uint64_t)t << 32 ^ (uint64_t)layer);
	for (int64_t at = 0; at < n; at += BLOCK) {
		int16_t pieces[BLOCK];
		int32_t some = n - at < BLOCK ? (int32_t)(n - at) : BLOCK;
		make_pieces(base, at / 4, pieces);
		if (r->type == NUM_F32)
			fill_f32((float *)w->buffer + at, some, pieces, middle, step);
		else
			fill_bf16((uint16_t *)w->buffer + at, some, pieces, middle, step);
	}
	out->data = w->buffer;
	out->type = r->type;
	return ERR_NONE;
}

static void random_close(struct weights *w)
{
	(void)w;
}

const struct weights_source weights_random = {random_open, random_get, random_close};
