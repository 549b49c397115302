/* Whole models: what the runner computes, on every set of kernels, is what a reference in double precision computes that
 * shares nothing with it; and what llama2.c computes for its smallest real model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/rng.h"
#include "exec/runner.h"
#include "exec/single.h"
#include "exec/weights.h"
#include "tests/support/checkpoint.h"
#include "tests/support/suite.h"

/* ---- the reference ----------------------------------------------------------------------------------------------- */

static void *need(size_t bytes)
{
	void *p = calloc(bytes ? bytes : 1, 1);
	CU_ASSERT_FATAL(p != NULL);
	return p;
}

/* y[n_out] = W[n_out][n_in] x (+ bias) */
static void product(double *y, const float *w, const float *bias, const double *x, int n_out, int n_in)
{
	for (int o = 0; o < n_out; o++) {
		y[o] = bias ? (double)bias[o] : 0;
		for (int i = 0; i < n_in; i++)
			y[o] += (double)w[(int64_t)o * n_in + i] * x[i];
	}
}

static void norm(double *y, const double *x, const float *w, int n, double eps)
{
	double squares = 0;
	for (int i = 0; i < n; i++)
		squares += x[i] * x[i];
	for (int i = 0; i < n; i++)
		y[i] = x[i] / sqrt(squares / n + eps) * (double)w[i];
}

/* The angle by which pair i turns per position (Llama 3.1's rule: transformers, modeling_rope_utils.py). */
static double turn(const struct model *m, int i)
{
	const struct model_numerics *n = &m->numerics;
	double f = pow(n->rope_theta, -2.0 * i / m->head_dim), wave = 2 * 3.14159265358979323846 / f;
	double length = n->rope_original_len;
	if (n->rope_scaling == ROPE_LINEAR)
		return f / n->rope_factor;
	if (n->rope_scaling == ROPE_PLAIN || wave < length / n->rope_high)
		return f;
	if (wave > length / n->rope_low)
		return f / n->rope_factor;
	double smooth = (length / wave - n->rope_low) / (n->rope_high - n->rope_low);
	return (1 - smooth) * f / n->rope_factor + smooth * f;
}

static void rotate(const struct model *m, double *head, int position)
{
	int half = m->head_dim / 2;
	for (int i = 0; i < half; i++) {
		double a = position * turn(m, i), x = head[i], y = head[i + half];
		head[i] = x * cos(a) - y * sin(a);
		head[i + half] = x * sin(a) + y * cos(a);
	}
}

/* Of all tokens so far, in one layer. */
struct past {
	double *k, *v; /* [token][n_kv_heads * head_dim] */
};

/* What --kv-retention leaves of the context, said apart from core/: a step that begins at token s, a multiple of the page
 * size, first loses the pages that lie wholly behind the window of s, but for those with a sink. Steps begin every `step`
 * tokens. window 0: everything stays. */
static struct kept {
	int window, sink, page, step;
} kept;

static bool is_kept(int at, int token)
{
	int page = token / kept.page * kept.page, begin = at / kept.step * kept.step;
	while (begin % kept.page)
		begin -= kept.step;
	return page < kept.sink || page + kept.page - 1 > begin - kept.window;
}

static void attend(const struct toy *t, int l, const struct past *past, int at, double *q, double *out)
{
	const struct model *m = &t->model;
	int d = m->head_dim, width = m->n_kv_heads * d, window = m->layers[l].window;
	int from = window && at >= window ? at - window + 1 : 0;
	double *score = need((size_t)(at + 1) * sizeof *score);
	for (int h = 0; h < m->n_heads; h++) {
		int kv = h / (m->n_heads / m->n_kv_heads);
		double top = -INFINITY, sum = 0;
		for (int j = from; j <= at; j++) {
			score[j] = kept.window && !is_kept(at, j) ? -INFINITY : 0;
			for (int i = 0; i < d; i++)
				score[j] += q[h * d + i] * past->k[j * width + kv * d + i] / sqrt(d);
			top = fmax(top, score[j]);
		}
		for (int j = from; j <= at; j++)
			sum += score[j] = exp(score[j] - top);
		for (int i = 0; i < d; i++) {
			out[h * d + i] = 0;
			for (int j = from; j <= at; j++)
				out[h * d + i] += score[j] / sum * past->v[j * width + kv * d + i];
		}
	}
	free(score);
}

static void layer(const struct toy *t, int l, const struct past *past, int at, double *x)
{
	const struct model *m = &t->model;
	int h = m->hidden, d = m->head_dim, q_width = m->n_heads * d, kv_width = m->n_kv_heads * d,
	    wide = m->intermediate;
	double eps = m->numerics.norm_eps;
	double *y = need((size_t)h * 8), *q = need((size_t)q_width * 8), *a = need((size_t)q_width * 8);
	double *g = need((size_t)wide * 8), *u = need((size_t)wide * 8), *delta = need((size_t)h * 8);
	double *k = past->k + (int64_t)at * kv_width, *v = past->v + (int64_t)at * kv_width;
	norm(y, x, t->at[TENSOR_ATTENTION_NORM][l], h, eps);
	product(q, t->at[TENSOR_Q][l], t->at[TENSOR_Q_BIAS][l], y, q_width, h);
	product(k, t->at[TENSOR_K][l], t->at[TENSOR_K_BIAS][l], y, kv_width, h);
	product(v, t->at[TENSOR_V][l], t->at[TENSOR_V_BIAS][l], y, kv_width, h);
	for (int i = 0; i < m->n_heads; i++) {
		if (m->qk_norm)
			norm(q + i * d, q + i * d, t->at[TENSOR_Q_NORM][l], d, eps);
		rotate(m, q + i * d, at);
	}
	for (int i = 0; i < m->n_kv_heads; i++) {
		if (m->qk_norm)
			norm(k + i * d, k + i * d, t->at[TENSOR_K_NORM][l], d, eps);
		rotate(m, k + i * d, at);
	}
	attend(t, l, past, at, q, a);
	product(delta, t->at[TENSOR_O][l], t->at[TENSOR_O_BIAS][l], a, h, q_width);
	for (int i = 0; i < h; i++)
		x[i] += delta[i];
	norm(y, x, t->at[TENSOR_MLP_NORM][l], h, eps);
	product(g, t->at[TENSOR_GATE][l], t->at[TENSOR_GATE_BIAS][l], y, wide, h);
	product(u, t->at[TENSOR_UP][l], t->at[TENSOR_UP_BIAS][l], y, wide, h);
	for (int i = 0; i < wide; i++)
		g[i] = g[i] / (1 + exp(-g[i])) * u[i];
	product(delta, t->at[TENSOR_DOWN][l], t->at[TENSOR_DOWN_BIAS][l], g, h, wide);
	for (int i = 0; i < h; i++)
		x[i] += delta[i];
	free(y), free(q), free(a), free(g), free(u), free(delta);
}

/* logits[n][vocab] */
static double *reference(const struct toy *t, const int32_t *tokens, int n)
{
	const struct model *m = &t->model;
	size_t kv = (size_t)n * (size_t)m->n_kv_heads * (size_t)m->head_dim * 8;
	double *logits = need((size_t)n * (size_t)m->vocab * 8), *x = need((size_t)m->hidden * 8);
	struct past past[64] = {0};
	for (int l = 0; l < m->n_layers; l++)
		past[l] = (struct past){need(kv), need(kv)};
	for (int at = 0; at < n; at++) {
		for (int i = 0; i < m->hidden; i++)
			x[i] = (double)t->at[TENSOR_EMBED][0][(int64_t)tokens[at] * m->hidden + i];
		for (int l = 0; l < m->n_layers; l++)
			layer(t, l, &past[l], at, x);
		norm(x, x, t->at[TENSOR_FINAL_NORM][0], m->hidden, m->numerics.norm_eps);
		product(logits + (int64_t)at * m->vocab, t->at[m->tied ? TENSOR_EMBED : TENSOR_HEAD][0], NULL, x,
			m->vocab, m->hidden);
	}
	for (int l = 0; l < m->n_layers; l++)
		free(past[l].k), free(past[l].v);
	free(x);
	return logits;
}

/* ---- sets of kernels --------------------------------------------------------------------------------------------- */

enum { N_SETS = 5 };
static const char *const set_names[N_SETS] = {"base", "avx2", "avx512", "without oneDNN", "reference"};

/* NULL: this machine has it not. */
static struct kernel_set *open_set(int i)
{
	struct kernel_set *k;
	char why[200];
	struct cpu_options o = {.threads = 2, .isa = i < 3 ? set_names[i] : NULL, .no_library = i == 3};
	if (i == 4)
		return reference_kernels_open(&k) ? NULL : k;
	return cpu_kernels_open(&k, &o, why, sizeof why) ? NULL : k;
}

struct how {
	enum num weights, kv;
	int32_t block_size, chunk; /* chunk: tokens per step */
	bool kv_off;
};

/* The largest ‖x - r‖ / ‖r‖ of a row, over the rows that were sampled (the last of each step); tokens[] are given to it
 * whatever it samples. other: rows whose greedy token is another than the reference's. */
static double run_model(const char *source, const struct model *m, struct kernel_set *k, const struct how *how,
			const int32_t *tokens, int n, const double *want, int *other, int *rows)
{
	struct runner *r = NULL;
	struct single s;
	struct weights *w;
	struct err e = {0};
	double worst = 0;
	*other = *rows = 0;
	int rc = weights_open(&w, source, m, &e);
	struct runner_setup setup = {.model = m,
				     .weights = rc ? NULL : w,
				     .kernels = k,
				     .weight_type = how->weights,
				     .kv_type = how->kv,
				     .n_pages = how->kv_off ? 1 : SINGLE_PAGES(n, how->block_size),
				     .block_size = how->block_size,
				     .kv_off = how->kv_off,
				     .sampling = SAMPLING_GREEDY};
	if (!rc)
		rc = runner_create(&r, &setup, &e);
	if (rc)
		fprintf(stderr, "  %s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	weights_close(w);
	CU_ASSERT_EQUAL_FATAL(single_open(&s, r, how->block_size, n, how->kv_off, &e), ERR_NONE);
	s.kv_window = kept.window;
	s.kv_sink = kept.sink;
	for (int at = 0; at < n && !rc;) {
		int some = n - at < how->chunk ? n - at : how->chunk;
		int32_t token = -1, one = 0, best = 0;
		const float *x = NULL;
		rc = single_step(&s, tokens + at, some, &token, &e);
		if (!rc)
			rc = runner_logits(r, &x, &one, &e);
		if (rc)
			fprintf(stderr, "  %s\n", e.text);
		CU_ASSERT_FATAL(rc == ERR_NONE && one == 1);
		at += some;
		const double *y = want + (int64_t)(at - 1) * m->vocab;
		double wrong = 0, size = 0;
		for (int32_t i = 0; i < m->vocab; i++) {
			wrong += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
			size += y[i] * y[i];
			best = y[i] > y[best] ? i : best;
		}
		worst = fmax(worst, isfinite(wrong) ? sqrt(wrong / size) : INFINITY);
		*other += token != best;
		(*rows)++;
	}
	single_close(&s);
	runner_free(r);
	return worst;
}

/* ---- models of our own making ------------------------------------------------------------------------------------- */

#define CONFIG(type, heads, kv_heads, more)                                                                            \
	"{\"model_type\": \"" type "\", \"hidden_size\": 32, \"intermediate_size\": 44, \"num_hidden_layers\": 3, "    \
	"\"num_attention_heads\": " heads ", \"num_key_value_heads\": " kv_heads ", \"vocab_size\": 70, "              \
	"\"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-5" more "}"

static const char *const kinds[] = {
	CONFIG("llama", "4", "4", ""),
	CONFIG("llama", "4", "2", ", \"tie_word_embeddings\": true"),
	CONFIG("llama", "3", "1", ", \"head_dim\": 12"),
	CONFIG("llama", "2", "1",
	       ", \"rope_theta\": 5000, \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
	       "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
	       "\"original_max_position_embeddings\": 32}"),
	CONFIG("llama", "4", "2", ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 3}"),
	CONFIG("llama", "4", "2", ", \"attention_bias\": true, \"mlp_bias\": true"),
	CONFIG("qwen2", "4", "2", ""),
	CONFIG("qwen2", "4", "1", ", \"use_sliding_window\": true, \"sliding_window\": 9, \"max_window_layers\": 1"),
	CONFIG("qwen3", "4", "2", ", \"head_dim\": 16, \"tie_word_embeddings\": true"),
	CONFIG("mistral", "4", "2", ", \"sliding_window\": 7"),
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0], TOKENS = 45 };

static void draw_tokens(int32_t *tokens, int n, int32_t vocab, uint64_t seed)
{
	struct rng r;
	rng_init(&r, seed, 17);
	for (int i = 0; i < n; i++)
		tokens[i] = (int32_t)rng_below(&r, (uint64_t)vocab);
}

/* Writes the toy's checkpoint (values rounded to dtype, in memory as well) and returns its path. */
static const char *write_toy(struct toy *t, const char *dtype)
{
	struct file_tensor *list;
	int n = toy_tensors(t, "model.", dtype, &list);
	const char *path = temp_path("toy.safetensors");
	checkpoint_write(path, list, n, 8);
	toy_tensors_free(list, n);
	return path;
}

static void every_kind_of_model_is_computed_as_in_double(void)
{
	static const struct how ways[] = {
		{NUM_F32, NUM_F32, 16, 1, false},     {NUM_F32, NUM_F32, 1, 13, false},
		{NUM_F32, NUM_F32, 8, TOKENS, false}, {NUM_F32, NUM_F32, 32, 7, false},
		{NUM_F32, NUM_F32, 16, 5, true},
	};
	static const char *const dtypes[] = {"F32", "BF16", "F16"};
	double worst = 0;
	int ran = 0;
	for (int i = 0; i < N_KINDS; i++) {
		struct toy t;
		int32_t tokens[TOKENS];
		toy_create(&t, kinds[i], 100 + (uint64_t)i);
		char path[512];
		snprintf(path, sizeof path, "%s", write_toy(&t, dtypes[i % 3]));
		draw_tokens(tokens, TOKENS, t.model.vocab, (uint64_t)i);
		double *want = reference(&t, tokens, TOKENS);
		for (int set = 0; set < N_SETS; set++) {
			struct kernel_set *k = open_set(set);
			for (size_t w = (size_t)test_short(); k && w < sizeof ways / sizeof ways[0]; w++, ran++) {
				int other, rows;
				double error =
					run_model(path, &t.model, k, &ways[w], tokens, TOKENS, want, &other, &rows);
				worst = fmax(worst, error);
				if (error > 1e-4 || other)
					fprintf(stderr,
						"  kind %d, %s, way %d: error %g, %d of %d greedy tokens differ\n", i,
						set_names[set], (int)w, error, other, rows);
				CU_ASSERT(error <= 1e-4);
				CHECK_INT(other, 0);
			}
			if (k)
				k->ops->close(k);
		}
		free(want);
		toy_free(&t);
	}
	printf("  %d runs, worst relative error %.2g\n", ran, worst);
	CU_ASSERT(ran >= 3 * N_KINDS * 4);
}

static double distance(const double *x, const double *y, int n)
{
	double wrong = 0, size = 0;
	for (int i = 0; i < n; i++) {
		wrong += (x[i] - y[i]) * (x[i] - y[i]);
		size += y[i] * y[i];
	}
	return sqrt(wrong / size);
}

/* Page tables that leave dropped pages out give what masking their tokens gives; where every layer has a window and no less
 * is kept (the last kind's 7), that is what keeping everything gives. */
static void dropped_pages_are_as_if_masked(void)
{
	static const struct kept ways[] = {{9, 0, 4, 1}, {9, 3, 8, 1}, {11, 2, 1, 1}, {9, 5, 4, 8}};
	for (int i = 0; i < N_KINDS; i++) {
		struct toy t;
		int32_t tokens[TOKENS];
		toy_create(&t, kinds[i], 200 + (uint64_t)i);
		char path[512];
		snprintf(path, sizeof path, "%s", write_toy(&t, "F32"));
		draw_tokens(tokens, TOKENS, t.model.vocab, (uint64_t)i);
		kept = (struct kept){0};
		double *all = reference(&t, tokens, TOKENS);
		for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
			struct how how = {NUM_F32, NUM_F32, ways[w].page, ways[w].step, false};
			int other, rows, last = (TOKENS - 1) * t.model.vocab;
			kept = ways[w];
			double *want = reference(&t, tokens, TOKENS);
			double changed = distance(want + last, all + last, t.model.vocab);
			CU_ASSERT(model_common_window(&t.model) ? changed == 0 : changed > 1e-3);
			for (int set = 0; set < N_SETS; set++) {
				struct kernel_set *k = test_short() && set != 1 ? NULL : open_set(set);
				if (!k)
					continue;
				double error = run_model(path, &t.model, k, &how, tokens, TOKENS, want, &other, &rows);
				if (error > 1e-4 || other)
					fprintf(stderr, "  kind %d, %s, way %d: error %g, %d tokens differ\n", i,
						set_names[set], (int)w, error, other);
				CU_ASSERT(error <= 1e-4);
				CHECK_INT(other, 0);
				k->ops->close(k);
			}
			free(want);
		}
		kept = (struct kept){0};
		free(all);
		toy_free(&t);
	}
}

/* The test could not see a rule it does not reach: each of these must change the logits by far more than the tolerance. */
static void the_reference_feels_each_rule(void)
{
	static const char *const pairs[][2] = {
		{CONFIG("llama", "2", "1", ""), CONFIG("llama", "2", "1", ", \"rope_theta\": 5000")},
		{CONFIG("llama", "2", "1", ""), CONFIG("llama", "2", "1",
						       ", \"rope_scaling\": {\"type\": \"linear\", "
						       "\"factor\": 3}")},
		{CONFIG("llama", "2", "1", ""), CONFIG("llama", "2", "1",
						       ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, "
						       "\"low_freq_factor\": 1, \"high_freq_factor\": 4, "
						       "\"original_max_position_embeddings\": 32}")},
		{CONFIG("mistral", "2", "1", ""), CONFIG("mistral", "2", "1", ", \"sliding_window\": 40")},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		struct toy a, b;
		int32_t tokens[TOKENS];
		draw_tokens(tokens, TOKENS, 70, 5);
		toy_create(&a, pairs[i][0], 9);
		toy_create(&b, pairs[i][1], 9);
		double *x = reference(&a, tokens, TOKENS), *y = reference(&b, tokens, TOKENS);
		CU_ASSERT(distance(x + (TOKENS - 1) * 70, y + (TOKENS - 1) * 70, 70) > 1e-3);
		free(x), free(y);
		toy_free(&a);
		toy_free(&b);
	}
}

/* Held in fewer bits, they are near: figures that tests of the kernels alone cannot give. */
static void fewer_bits_cost_little(void)
{
	static const struct {
		struct how how;
		double limit;
	} ways[] = {
		{{NUM_BF16, NUM_F32, 16, 1, false}, 0.02}, {{NUM_I8, NUM_F32, 16, 1, false}, 0.05},
		{{NUM_F32, NUM_BF16, 16, 1, false}, 0.02}, {{NUM_F32, NUM_I8, 16, 1, false}, 0.05},
		{{NUM_I8, NUM_I8, 8, 9, false}, 0.08},
	};
	struct toy t;
	int32_t tokens[TOKENS];
	toy_create(&t, kinds[1], 3);
	char path[512];
	snprintf(path, sizeof path, "%s", write_toy(&t, "F32"));
	draw_tokens(tokens, TOKENS, t.model.vocab, 3);
	double *want = reference(&t, tokens, TOKENS);
	for (int set = 0; set < N_SETS; set++) {
		struct kernel_set *k = open_set(set);
		for (size_t w = 0; k && w < sizeof ways / sizeof ways[0]; w++) {
			int other, rows;
			double error = run_model(path, &t.model, k, &ways[w].how, tokens, TOKENS, want, &other, &rows);
			if (set == N_SETS - 1)
				printf("  weights %s, KV %s: error %.2g, %d of %d tokens differ\n",
				       num_names[ways[w].how.weights], num_names[ways[w].how.kv], error, other, rows);
			CU_ASSERT(error <= ways[w].limit && error > 1e-5);
		}
		if (k)
			k->ops->close(k);
	}
	free(want);
	toy_free(&t);
}

/* ---- the real one ------------------------------------------------------------------------------------------------- */

enum { REAL_VOCAB = 512, MOST_ROWS = 256 };

struct recording {
	int32_t tokens[MOST_ROWS], next[MOST_ROWS];
	double *logits; /* [n][REAL_VOCAB] */
	int n;
};

/* Lines "position token next logit"; rows of float32 logits. */
static bool read_recording(struct recording *r, const char *tokens, const char *logits)
{
	char path[200];
	snprintf(path, sizeof path, "models/stories260K/%s", tokens);
	FILE *f = shared_data(path) ? fopen(shared_data(path), "r") : NULL;
	snprintf(path, sizeof path, "models/stories260K/%s", logits);
	FILE *g = shared_data(path) ? fopen(shared_data(path), "rb") : NULL;
	static float row[REAL_VOCAB];
	int position;
	float logit;
	r->n = 0;
	r->logits = need((size_t)MOST_ROWS * REAL_VOCAB * sizeof *r->logits);
	while (f && g && r->n < MOST_ROWS &&
	       fscanf(f, "%d %d %d %f", &position, &r->tokens[r->n], &r->next[r->n], &logit) == 4 &&
	       fread(row, sizeof row, 1, g) == 1) {
		CU_ASSERT_EQUAL(position, r->n);
		for (int i = 0; i < REAL_VOCAB; i++)
			r->logits[r->n * REAL_VOCAB + i] = (double)row[i];
		r->n++;
	}
	if (f)
		fclose(f);
	if (g)
		fclose(g);
	return r->n > 0;
}

static void replay(const char *tokens, const char *logits, int least)
{
	static struct recording rec;
	static const struct how ways[] = {
		{NUM_F32, NUM_F32, 16, 1, false}, {NUM_F32, NUM_F32, 8, 17, false}, {NUM_F32, NUM_F32, 1, 1000, false}};
	struct model m;
	struct err e = {0};
	if (!read_recording(&rec, tokens, logits)) {
		test_skip("stories260K is not here");
		free(rec.logits);
		return;
	}
	CU_ASSERT(rec.n >= least);
	const char *path = shared_data("models/stories260K/stories260K.bin");
	CU_ASSERT_EQUAL_FATAL(weights_model(path, &m, &e), ERR_NONE);
	for (int set = 0; set < N_SETS; set++) {
		struct kernel_set *k = open_set(set);
		double worst = 0;
		for (int w = test_short(); k && w < 3; w++) {
			int other, rows;
			double error = run_model(path, &m, k, &ways[w], rec.tokens, rec.n, rec.logits, &other, &rows);
			worst = fmax(worst, error);
			CU_ASSERT(error <= 1e-4);
			CHECK_INT(other, 0);
		}
		if (k) {
			printf("  %s: worst relative error %.2g\n", set_names[set], worst);
			k->ops->close(k);
		}
	}
	free(rec.logits);
	model_free(&m);
}

static void logits_are_llama2cs(void)
{
	replay("greedy_tokens_empty_prompt.txt", "logits_empty_prompt_f32_200x512.bin", 200);
}

static void logits_after_a_prompt_are_llama2cs(void)
{
	replay("greedy_tokens_prompt_max.txt", "logits_prompt_max_f32.bin", 100);
}

/* Left to itself it says what llama2.c's does. */
static void greedy_tokens_are_llama2cs(void)
{
	static struct recording rec;
	struct model m;
	struct err e = {0};
	if (!read_recording(&rec, "greedy_tokens_empty_prompt.txt", "logits_empty_prompt_f32_200x512.bin")) {
		test_skip("stories260K is not here");
		free(rec.logits);
		return;
	}
	const char *path = shared_data("models/stories260K/stories260K.bin");
	CU_ASSERT_EQUAL_FATAL(weights_model(path, &m, &e), ERR_NONE);
	for (int set = 0; set < N_SETS; set++)
		for (int kv_off = 0; kv_off < 2 - test_short(); kv_off++) {
			struct kernel_set *k = open_set(set);
			struct weights *w;
			struct runner *r;
			struct single s;
			if (!k)
				continue;
			CU_ASSERT_EQUAL_FATAL(weights_open(&w, path, &m, &e), ERR_NONE);
			struct runner_setup setup = {.model = &m,
						     .weights = w,
						     .kernels = k,
						     .weight_type = NUM_F32,
						     .kv_type = NUM_F32,
						     .n_pages = kv_off ? 1 : 13,
						     .block_size = 16,
						     .kv_off = kv_off,
						     .sampling = SAMPLING_GREEDY};
			CU_ASSERT_EQUAL_FATAL(runner_create(&r, &setup, &e), ERR_NONE);
			CU_ASSERT_EQUAL_FATAL(single_open(&s, r, 16, 201, kv_off, &e), ERR_NONE);
			int32_t token = 1, n = kv_off ? 60 : rec.n;
			for (int32_t i = 0; i < n; i++) {
				CU_ASSERT_EQUAL_FATAL(single_step(&s, &token, 1, &token, &e), ERR_NONE);
				CHECK_INT(token, rec.next[i]);
			}
			single_close(&s);
			runner_free(r);
			weights_close(w);
			k->ops->close(k);
		}
	free(rec.logits);
	model_free(&m);
}

static void the_real_model_in_fewer_bits(void)
{
	static struct recording rec;
	static const struct {
		struct how how;
		double limit;
		int others;
	} ways[] = {
		{{NUM_F32, NUM_BF16, 16, 1, false}, 0.05, 10},
		{{NUM_F32, NUM_I8, 16, 1, false}, 0.15, 10}, /* heads of 8: one scale for 8 numbers */
		{{NUM_BF16, NUM_F32, 16, 1, false}, 0.05, 10},
		{{NUM_I8, NUM_F32, 16, 1, false}, 0.2, 20},
	};
	struct model m;
	struct err e = {0};
	if (!read_recording(&rec, "greedy_tokens_empty_prompt.txt", "logits_empty_prompt_f32_200x512.bin")) {
		test_skip("stories260K is not here");
		free(rec.logits);
		return;
	}
	const char *path = shared_data("models/stories260K/stories260K.bin");
	struct kernel_set *k = open_set(3), *reference_set = open_set(4);
	CU_ASSERT_EQUAL_FATAL(weights_model(path, &m, &e), ERR_NONE);
	for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++)
		for (int i = 0; i < 2 - test_short(); i++) {
			int other, rows;
			double error = run_model(path, &m, i ? reference_set : k, &ways[w].how, rec.tokens, rec.n,
						 rec.logits, &other, &rows);
			printf("  %s: weights %s, KV %s: worst relative error %.2g, %d of %d tokens differ\n",
			       i ? "reference" : "cpu", num_names[ways[w].how.weights], num_names[ways[w].how.kv],
			       error, other, rows);
			CU_ASSERT(error <= ways[w].limit && other <= ways[w].others);
		}
	k->ops->close(k);
	reference_set->ops->close(reference_set);
	free(rec.logits);
	model_free(&m);
}

int main(void)
{
	static const struct test tests[] = {
		{"every_kind_of_model_is_computed_as_in_double", every_kind_of_model_is_computed_as_in_double},
		{"dropped_pages_are_as_if_masked", dropped_pages_are_as_if_masked},
		{"the_reference_feels_each_rule", the_reference_feels_each_rule},
		{"fewer_bits_cost_little", fewer_bits_cost_little},
		{"logits_are_llama2cs", logits_are_llama2cs},
		{"logits_after_a_prompt_are_llama2cs", logits_after_a_prompt_are_llama2cs},
		{"greedy_tokens_are_llama2cs", greedy_tokens_are_llama2cs},
		{"the_real_model_in_fewer_bits", the_real_model_in_fewer_bits},
	};
	return SUITE_RUN("exec_model", tests);
}
