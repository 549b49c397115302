/* The model runner: its logits against a forward pass in double precision that shares nothing with it but the weights; the
 * same whatever the pages, pieces and padding; reads that find another's KV are caught. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/rng.h"
#include "exec/rope.h"
#include "tests/support/suite.h"
#include "tests/support/tiny.h"

enum { PROMPT = 37, PAGES = 80 };

/* --- a second forward pass ---------------------------------------------------------------------------------------- */

struct plain {
	const struct model *m;
	struct weights *w;
	double *t[N_TENSORS]; /* as doubles: of the layer at hand, or of the model */
	int64_t cols[N_TENSORS];
	int32_t n;
	double *x, *q, *k, *v; /* [n][hidden], [n][heads][head_dim] */
};

static void load(struct plain *p, enum tensor t, int32_t layer)
{
	struct tensor_data d;
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(weights_get(p->w, t, layer, &d, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(d.type, NUM_F32);
	free(p->t[t]);
	p->t[t] = malloc((size_t)(d.rows * d.cols) * sizeof **p->t);
	for (int64_t i = 0; i < d.rows * d.cols; i++)
		p->t[t][i] = ((const float *)d.data)[i];
	p->cols[t] = d.cols;
}

static void load_layer(struct plain *p, int32_t layer)
{
	const struct model *m = p->m;
	for (int t = TENSOR_ATTENTION_NORM; t < N_TENSORS; t++) {
		bool absent = (t >= TENSOR_Q_BIAS && t <= TENSOR_V_BIAS && !m->qkv_bias) ||
			      (t == TENSOR_O_BIAS && !m->o_bias) || (t >= TENSOR_GATE_BIAS && !m->mlp_bias) ||
			      ((t == TENSOR_Q_NORM || t == TENSOR_K_NORM) && !m->qk_norm);
		if (!absent)
			load(p, (enum tensor)t, layer);
	}
}

/* y[n_out] = W x + b */
static void product(const struct plain *p, enum tensor t, enum tensor bias, const double *x, double *y, int64_t n_out)
{
	int64_t cols = p->cols[t];
	for (int64_t o = 0; o < n_out; o++) {
		y[o] = bias == N_TENSORS ? 0 : p->t[bias][o];
		for (int64_t i = 0; i < cols; i++)
			y[o] += p->t[t][o * cols + i] * x[i];
	}
}

static void norm(const struct plain *p, enum tensor t, const double *x, double *y)
{
	int64_t n = p->cols[t];
	double sum = 0;
	for (int64_t i = 0; i < n; i++)
		sum += x[i] * x[i];
	for (int64_t i = 0; i < n; i++)
		y[i] = x[i] / sqrt(sum / (double)n + p->m->numerics.norm_eps) * p->t[t][i];
}

static void turn(const struct model *m, double *head, int32_t position)
{
	int32_t half = m->head_dim / 2;
	for (int32_t i = 0; i < half; i++) {
		double angle = position * pow(m->numerics.rope_theta, -2.0 * i / m->head_dim);
		double a = head[i], b = head[i + half];
		head[i] = a * cos(angle) - b * sin(angle);
		head[i + half] = a * sin(angle) + b * cos(angle);
	}
}

static void plain_qkv(struct plain *p, int32_t t)
{
	const struct model *m = p->m;
	int32_t dim = m->head_dim, kv = m->n_kv_heads * dim;
	double normed[512], *q = p->q + t * m->n_heads * dim, *k = p->k + t * kv;
	norm(p, TENSOR_ATTENTION_NORM, p->x + t * m->hidden, normed);
	product(p, TENSOR_Q, m->qkv_bias ? TENSOR_Q_BIAS : N_TENSORS, normed, q, m->n_heads * dim);
	product(p, TENSOR_K, m->qkv_bias ? TENSOR_K_BIAS : N_TENSORS, normed, k, kv);
	product(p, TENSOR_V, m->qkv_bias ? TENSOR_V_BIAS : N_TENSORS, normed, p->v + t * kv, kv);
	for (int32_t h = 0; h < m->n_heads; h++) {
		if (m->qk_norm)
			norm(p, TENSOR_Q_NORM, q + h * dim, q + h * dim);
		turn(m, q + h * dim, t);
	}
	for (int32_t h = 0; h < m->n_kv_heads; h++) {
		if (m->qk_norm)
			norm(p, TENSOR_K_NORM, k + h * dim, k + h * dim);
		turn(m, k + h * dim, t);
	}
}

static void plain_attend(struct plain *p, int32_t layer, int32_t t, double *out)
{
	const struct model *m = p->m;
	int32_t dim = m->head_dim, window = m->layers[layer].window;
	int32_t first = window && t + 1 > window ? t + 1 - window : 0;
	for (int32_t h = 0; h < m->n_heads; h++) {
		int32_t shared = h / (m->n_heads / m->n_kv_heads);
		double score[256], sum = 0;
		for (int32_t j = first; j <= t; j++) {
			double dot = 0;
			for (int32_t i = 0; i < dim; i++)
				dot += p->q[(t * m->n_heads + h) * dim + i] *
				       p->k[(j * m->n_kv_heads + shared) * dim + i];
			sum += score[j] = exp(dot / sqrt(dim));
		}
		for (int32_t i = 0; i < dim; i++) {
			out[h * dim + i] = 0;
			for (int32_t j = first; j <= t; j++)
				out[h * dim + i] += score[j] / sum * p->v[(j * m->n_kv_heads + shared) * dim + i];
		}
	}
}

static void plain_layer(struct plain *p, int32_t layer)
{
	const struct model *m = p->m;
	load_layer(p, layer);
	for (int32_t t = 0; t < p->n; t++)
		plain_qkv(p, t);
	for (int32_t t = 0; t < p->n; t++) {
		double attended[512], delta[512], normed[512], gate[512], up[512], *x = p->x + t * m->hidden;
		plain_attend(p, layer, t, attended);
		product(p, TENSOR_O, m->o_bias ? TENSOR_O_BIAS : N_TENSORS, attended, delta, m->hidden);
		for (int32_t i = 0; i < m->hidden; i++)
			x[i] += delta[i];
		norm(p, TENSOR_MLP_NORM, x, normed);
		product(p, TENSOR_GATE, m->mlp_bias ? TENSOR_GATE_BIAS : N_TENSORS, normed, gate, m->intermediate);
		product(p, TENSOR_UP, m->mlp_bias ? TENSOR_UP_BIAS : N_TENSORS, normed, up, m->intermediate);
		for (int32_t i = 0; i < m->intermediate; i++)
			gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
		product(p, TENSOR_DOWN, m->mlp_bias ? TENSOR_DOWN_BIAS : N_TENSORS, gate, delta, m->hidden);
		for (int32_t i = 0; i < m->hidden; i++)
			x[i] += delta[i];
	}
}

/* Logits after the last of n tokens. */
static void plain_logits(const struct tiny *tiny, const int32_t *tokens, int32_t n, double *logits)
{
	const struct model *m = &tiny->model;
	struct err e = {0};
	struct plain p = {.m = m, .n = n};
	double normed[512];
	size_t heads = (size_t)(n * m->n_heads * m->head_dim);
	CU_ASSERT_EQUAL_FATAL(weights_open(&p.w, tiny->weights, m, &e), ERR_NONE);
	p.x = calloc((size_t)(n * m->hidden), sizeof *p.x);
	p.q = calloc(heads, sizeof *p.q);
	p.k = calloc(heads, sizeof *p.k);
	p.v = calloc(heads, sizeof *p.v);
	for (int t = TENSOR_EMBED; t <= TENSOR_HEAD; t++)
		load(&p, (enum tensor)t, 0);
	for (int32_t t = 0; t < n; t++)
		memcpy(p.x + t * m->hidden, p.t[TENSOR_EMBED] + tokens[t] * m->hidden, (size_t)m->hidden * sizeof *p.x);
	for (int32_t i = 0; i < m->n_layers; i++)
		plain_layer(&p, i);
	norm(&p, TENSOR_FINAL_NORM, p.x + (n - 1) * m->hidden, normed);
	product(&p, TENSOR_HEAD, N_TENSORS, normed, logits, m->vocab);
	for (int t = 0; t < N_TENSORS; t++)
		free(p.t[t]);
	free(p.x);
	free(p.q);
	free(p.k);
	free(p.v);
	weights_close(p.w);
}

/* --- running one -------------------------------------------------------------------------------------------------- */

static void draw_prompt(int32_t *tokens)
{
	struct rng r;
	rng_init(&r, 3, 3);
	for (int32_t i = 0; i < PROMPT; i++)
		tokens[i] = (int32_t)rng_below(&r, TINY_VOCAB);
}

/* ‖x - r‖ / ‖r‖ of the last step's logits. */
static double error_of(struct runner *r, const double *expected)
{
	const float *logits;
	int32_t rows;
	struct err e = {0};
	double off = 0, all = 0;
	CU_ASSERT_EQUAL_FATAL(runner_logits(r, &logits, &rows, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(rows, 1);
	for (int32_t i = 0; i < TINY_VOCAB; i++) {
		off += (logits[i] - expected[i]) * (logits[i] - expected[i]);
		all += expected[i] * expected[i];
	}
	return sqrt(off / all);
}

static struct by_hand scattered(struct runner *r, int32_t block_size, struct err *e)
{
	static int32_t pages[PAGES];
	for (int32_t i = 0; i < PAGES; i++)
		pages[i] = (i * 37 + 11) % PAGES; /* 37 and 80 have no common divisor: each page once */
	return (struct by_hand){.runner = r, .block_size = block_size, .n_pages = PAGES, .pages = pages, .err = e};
}

/* The prompt in pieces of `piece` tokens; how far its logits are from the plain pass's. */
static double run_in_pieces(const struct tiny *t, struct runner_setup s, int32_t piece, const double *expected)
{
	int32_t prompt[PROMPT];
	struct err e = {0};
	draw_prompt(prompt);
	s.n_pages = PAGES;
	struct runner *r = tiny_runner(t, s);
	struct by_hand h = scattered(r, s.block_size, &e);
	for (int32_t at = 0; at < PROMPT; at += piece)
		if (by_hand_step(&h, prompt + at, PROMPT - at < piece ? PROMPT - at : piece) < 0)
			CU_FAIL_FATAL("a step failed");
	double off = error_of(r, expected);
	runner_free(r);
	return off;
}

static void logits_are_those_of_a_plain_forward_pass_in_double(void)
{
	static const char *const kinds[] = {
		NULL,
		"\"tie_word_embeddings\": true",
		"\"num_key_value_heads\": 1",
		"\"num_key_value_heads\": 4",
		"\"attention_bias\": true, \"mlp_bias\": true",
		"\"architectures\": [\"MistralForCausalLM\"], \"sliding_window\": 9",
		"\"architectures\": [\"Qwen2ForCausalLM\"]",
		"\"architectures\": [\"Qwen3ForCausalLM\"], \"head_dim\": 24",
	};
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
		for (int32_t threads = 0; threads <= 2; threads += 2) {
			struct tiny t;
			double expected[TINY_VOCAB];
			int32_t prompt[PROMPT];
			tiny_open(&t, kinds[k], threads);
			draw_prompt(prompt);
			plain_logits(&t, prompt, PROMPT, expected);
			/* Each shape takes every third combination of pieces and blocks; the slow reference one. */
			static const int32_t pieces[] = {PROMPT, 8, 1}, sizes[] = {1, 8, 16, 32};
			for (int32_t i = (int32_t)k % 3; i < (threads ? 12 : 3); i += 3) {
				struct runner_setup s = {.block_size = sizes[i % 4]};
				double off = run_in_pieces(&t, s, pieces[(i + i / 3) % 3], expected);
				if (off > 2e-6)
					fprintf(stderr,
						"%s, pieces of %d, blocks of %d: ", kinds[k] ? kinds[k] : "llama",
						pieces[(i + i / 3) % 3], sizes[i % 4]);
				CHECK_NEAR(off, 0, 2e-6);
			}
			tiny_close(&t);
		}
}

/* Batch-invariant kernels: the same bits. */
static void pieces_blocks_and_threads_change_no_bit(void)
{
	static const int32_t pieces[] = {PROMPT, 8, 1, 5, 3}, sizes[] = {16, 1, 8, 32, 16};
	static const enum num kinds[] = {NUM_F32, NUM_BF16, NUM_I8};
	float first[TINY_VOCAB] = {0};
	for (int32_t i = 0; i < 15; i++) {
		struct tiny t;
		struct err e = {0};
		int32_t prompt[PROMPT], rows;
		const float *logits;
		tiny_open(&t, NULL, 1 + i % 3);
		draw_prompt(prompt);
		struct runner *r = tiny_runner(
			&t,
			(struct runner_setup){.n_pages = PAGES, .block_size = sizes[i % 5], .kv_type = kinds[i / 5]});
		struct by_hand h = scattered(r, sizes[i % 5], &e);
		for (int32_t at = 0; at < PROMPT; at += pieces[i % 5])
			by_hand_step(&h, prompt + at, PROMPT - at < pieces[i % 5] ? PROMPT - at : pieces[i % 5]);
		CU_ASSERT_EQUAL_FATAL(runner_logits(r, &logits, &rows, &e), ERR_NONE);
		if (i % 5 == 0)
			memcpy(first, logits, sizeof first);
		CHECK_INT(memcmp(first, logits, sizeof first), 0);
		runner_free(r);
		tiny_close(&t);
	}
}

static void narrower_weights_and_kv_cost_little(void)
{
	static const struct {
		enum num weights, kv;
		double at_most;
	} kinds[] = {
		{NUM_BF16, NUM_F32, 0.01}, {NUM_I8, NUM_F32, 0.03}, {NUM_F32, NUM_BF16, 0.01}, {NUM_F32, NUM_I8, 0.03}};
	struct tiny t;
	double expected[TINY_VOCAB];
	int32_t prompt[PROMPT];
	tiny_open(&t, NULL, 1);
	draw_prompt(prompt);
	plain_logits(&t, prompt, PROMPT, expected);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct runner_setup s = {.block_size = 8, .weight_type = kinds[i].weights, .kv_type = kinds[i].kv};
		double off = run_in_pieces(&t, s, 5, expected);
		CU_ASSERT(off > 1e-6);
		CHECK_NEAR(off, 0, kinds[i].at_most);
	}
	tiny_close(&t);
}

/* --- padding, held rows, no KV cache ------------------------------------------------------------------------------ */

/* Two sequences in one step: the prompt with `pad` rows of padding before it, and a held row that computes anything. */
static int32_t step_padded(struct runner *r, const int32_t *prompt, int32_t pad, int32_t scratch, struct err *e)
{
	int32_t n = pad + PROMPT, tokens[PROMPT + 32] = {5}, req[] = {0, 1}, q_at[] = {0, 1, 1 + n}, ctx[] = {3, n};
	int32_t pads[] = {0, pad}, pad_rows[] = {0, pad}, first[] = {2, 0}, indptr[] = {0, 1, 1 + (n + 7) / 8};
	int32_t indices[32];
	int64_t slots[PROMPT + 32] = {-1};
	uint8_t samples[] = {0, 1}, held[] = {1, 0};
	struct step_output out;
	for (int32_t i = 0; i < indptr[2]; i++)
		indices[i] = i;
	for (int32_t i = 0; i < n; i++) {
		slots[1 + i] = 8 + i;
		tokens[1 + i] = i < pad ? 0 : prompt[i - pad];
	}
	struct batch_tables t = {.n_seqs = 2,
				 .n_rows = 1 + n,
				 .n_decodes = 1,
				 .max_ctx = n,
				 .sum_ctx = 3,
				 .req = req,
				 .q_at = q_at,
				 .ctx_len = ctx,
				 .pad = pads,
				 .pad_rows = pad_rows,
				 .first_token = first,
				 .kv_indptr = indptr,
				 .kv_indices = indices,
				 .slots = slots,
				 .samples = samples,
				 .held = held,
				 .scratch_blocks = scratch};
	struct step_input in = {.tables = &t, .row_tokens = tokens};
	if (runner_step(r, &in, &out, e))
		return -2;
	CHECK_INT(out.tokens[0], -1);
	return out.tokens[1];
}

/* One row of request 0 in page 7; before it these copies. */
static int step_copying(struct runner *r, const struct page_copy *copies, int32_t n, struct err *e)
{
	static int32_t req[] = {0}, q_at[] = {0, 1}, ctx[] = {1}, zero[] = {0}, indptr[] = {0, 1}, pages[] = {7},
		       tokens[] = {5};
	static int64_t slots[] = {7 * 4}, want_at[] = {-1};
	static uint8_t no[] = {0};
	static uint64_t tags[] = {1};
	struct batch_tables t = {.n_seqs = 1,
				 .n_rows = 1,
				 .n_decodes = 1,
				 .max_ctx = 1,
				 .sum_ctx = 1,
				 .n_copies = n,
				 .copies = copies,
				 .req = req,
				 .q_at = q_at,
				 .ctx_len = ctx,
				 .pad = zero,
				 .pad_rows = zero,
				 .first_token = zero,
				 .dropped = zero,
				 .kv_indptr = indptr,
				 .kv_indices = pages,
				 .slots = slots,
				 .samples = no,
				 .held = no};
	struct step_input in = {
		.tables = &t, .row_tokens = tokens, .row_tags = tags, .want_tags = tags, .want_at = want_at};
	struct step_output out;
	return runner_step(r, &in, &out, e);
}

/* Keys, values, scales and tags of all layers, byte for byte, with the result of one copy after the other: what was copied to
 * 1 goes on to 2, and 0, which was read, is written. */
static void pages_are_copied_byte_for_byte(void)
{
	static const struct page_copy copies[] = {{0, 1}, {1, 2}, {5, 0}, {3, 4}}, beyond[] = {{0, 9}};
	static const int32_t from[] = {5, 0, 0, 3, 3, 5};
	static const enum num types[] = {NUM_F32, NUM_BF16, NUM_I8};
	for (int k = 0; k < 6; k++) {
		struct tiny t;
		struct err e = {0};
		tiny_open(&t, NULL, k % 2);
		struct runner *r = tiny_runner(
			&t,
			(struct runner_setup){.n_pages = 9, .block_size = 4, .kv_type = types[k / 2], .check = k > 1});
		size_t n = (size_t)runner_page_bytes(r);
		uint8_t *all = malloc(7 * n), *got = all + 6 * n;
		CU_ASSERT_PTR_NOT_NULL_FATAL(all);
		for (size_t i = 0; i < 6 * n; i++)
			all[i] = (uint8_t)(i * 11 + i / n * 3 + 1);
		for (int32_t i = 0; i < 6; i++)
			CHECK_INT(runner_page_in(r, i, all + (size_t)i * n, &e), ERR_NONE);
		CHECK_INT(step_copying(r, copies, 4, &e), ERR_NONE);
		for (int32_t i = 0; i < 6; i++) {
			CHECK_INT(runner_page_out(r, i, got, &e), ERR_NONE);
			CU_ASSERT(memcmp(got, all + (size_t)from[i] * n, n) == 0);
		}
		CHECK_INT(step_copying(r, beyond, 1, &e), ERR_INVARIANT);
		free(all);
		runner_free(r);
		tiny_close(&t);
	}
}

static void padding_and_held_rows_change_nothing(void)
{
	struct tiny t;
	struct err e = {0};
	double expected[TINY_VOCAB];
	int32_t prompt[PROMPT], alone;
	tiny_open(&t, NULL, 2);
	draw_prompt(prompt);
	plain_logits(&t, prompt, PROMPT, expected);
	tiny_alone(&t, NUM_F32, true, 0, prompt, PROMPT, 1, &alone);
	struct runner *r = tiny_runner(&t, (struct runner_setup){.n_pages = 16, .block_size = 8});
	for (int32_t pad = 0; pad < 30; pad += 13) {
		CHECK_INT(step_padded(r, prompt, pad, 0, &e), alone);
		CHECK_NEAR(error_of(r, expected), 0, 2e-6);
	}
	runner_free(r);
	/* Without a KV cache the arena grows to what the step asks for. */
	r = tiny_runner(&t, (struct runner_setup){.block_size = 8, .kv_off = true});
	CHECK_INT(runner_kv_bytes(r), 0);
	CHECK_INT(step_padded(r, prompt, 26, 9, &e), alone);
	CU_ASSERT(runner_kv_bytes(r) >= (int64_t)9 * 8 * 2 * 2 * 2 * 16 * 4);
	runner_free(r);
	tiny_close(&t);
}

/* --- --check ------------------------------------------------------------------------------------------------------ */

struct checked {
	struct tiny tiny;
	struct runner *runner;
	struct by_hand hand;
	uint64_t tags[PAGES * 8];
	int32_t prompt[PROMPT], pages[PAGES];
	struct err err;
};

static void checked_open(struct checked *c, int32_t threads)
{
	memset(c, 0, sizeof *c);
	tiny_open(&c->tiny, NULL, threads);
	draw_prompt(c->prompt);
	c->runner = tiny_runner(&c->tiny, (struct runner_setup){.n_pages = PAGES, .block_size = 8, .check = true});
	c->hand = scattered(c->runner, 8, &c->err);
	memcpy(c->pages, c->hand.pages, sizeof c->pages);
	c->hand.pages = c->pages;
	for (int32_t i = 0; i < PAGES * 8; i++)
		c->tags[i] = (uint64_t)i + 1000;
	c->hand.tags = c->tags;
}

static void checked_close(struct checked *c)
{
	runner_free(c->runner);
	tiny_close(&c->tiny);
}

static void a_read_of_anothers_page_is_caught(void)
{
	for (int32_t threads = 0; threads <= 2; threads++) {
		struct checked c;
		int32_t layer = -1, token = 1;
		checked_open(&c, threads);
		CU_ASSERT(by_hand_step(&c.hand, c.prompt, 20) >= 0);
		CU_ASSERT(by_hand_step(&c.hand, c.prompt + 20, 1) >= 0);
		CU_ASSERT_PTR_NULL(runner_fault(c.runner, &layer));
		c.pages[1] = c.pages[3]; /* tokens 8 .. 15 are read where nobody has written */
		CHECK_INT(by_hand_step(&c.hand, &token, 1), -1);
		CHECK_INT(c.err.code, ERR_INVARIANT);
		const struct tag_fault *f = runner_fault(c.runner, &layer);
		CU_ASSERT_PTR_NOT_NULL_FATAL(f);
		CHECK_INT(layer, 0);
		CHECK_INT(f->token, 8);
		CHECK_INT(f->wanted, 1008);
		CHECK_INT(f->found, 0);
		checked_close(&c);
	}
}

static void a_slot_written_by_mistake_is_caught(void)
{
	struct checked c;
	int32_t layer, token = 1;
	checked_open(&c, 1);
	CU_ASSERT(by_hand_step(&c.hand, c.prompt, 20) >= 0);
	/* Another sequence writes its third token where the first one's page 0 lies. */
	struct by_hand other = c.hand;
	uint64_t tags[16];
	int32_t pages[2] = {c.pages[0], c.pages[9]};
	for (int i = 0; i < 16; i++)
		tags[i] = 7000 + (uint64_t)i;
	other.ctx = 0;
	other.tags = tags;
	other.pages = pages;
	CU_ASSERT(by_hand_step(&other, c.prompt, 3) >= 0);
	CHECK_INT(by_hand_step(&c.hand, &token, 1), -1);
	const struct tag_fault *f = runner_fault(c.runner, &layer);
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CHECK_INT(f->n, 3);
	CHECK_INT(f->token, 0);
	CHECK_INT(f->found, 7000);
	CU_ASSERT_PTR_NOT_NULL(strstr(c.err.text, "3 such reads"));
	checked_close(&c);
}

static void what_an_earlier_run_left_is_not_taken_for_this_ones(void)
{
	struct checked c;
	int32_t layer, token = 1;
	checked_open(&c, 1);
	CU_ASSERT(by_hand_step(&c.hand, c.prompt, 20) >= 0);
	CHECK_INT(runner_forget(c.runner, &c.err), ERR_NONE);
	CHECK_INT(by_hand_step(&c.hand, &token, 1), -1);
	CHECK_INT(runner_fault(c.runner, &layer)->n, 20);
	checked_close(&c);
}

static void tables_that_point_outside_the_arena_are_refused(void)
{
	struct checked c;
	int32_t token = 1;
	checked_open(&c, 1);
	CU_ASSERT(by_hand_step(&c.hand, c.prompt, 15) >= 0);
	c.pages[0] = PAGES;
	CHECK_INT(by_hand_step(&c.hand, &token, 1), -1);
	CHECK_INT(c.err.code, ERR_INVARIANT);
	CU_ASSERT_PTR_NOT_NULL(strstr(c.err.text, "page 80 of the block tables is not one of 80 pages"));
	err_clear(&c.err);
	c.pages[0] = -1;
	CHECK_INT(by_hand_step(&c.hand, &token, 1), -1);
	CHECK_INT(c.err.code, ERR_INVARIANT);
	checked_close(&c);
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

/* The same request always says the same; another one, or another of its outputs, takes another random number. */
static void sampling_is_seeded_by_request_and_output(void)
{
	struct tiny t;
	int32_t prompt[PROMPT], greedy[12], first[12], again[12], other[12];
	struct err e = {0};
	tiny_open(&t, NULL, 1);
	draw_prompt(prompt);
	tiny_alone(&t, NUM_F32, true, 3, prompt, PROMPT, 12, greedy);
	tiny_alone(&t, NUM_F32, false, 3, prompt, PROMPT, 12, first);
	tiny_alone(&t, NUM_F32, false, 3, prompt, PROMPT, 12, again);
	tiny_alone(&t, NUM_F32, false, 4, prompt, PROMPT, 12, other);
	CHECK_INT(memcmp(first, again, sizeof first), 0);
	CU_ASSERT(memcmp(first, greedy, sizeof first) != 0);
	CU_ASSERT(memcmp(first, other, sizeof first) != 0);
	int32_t said = -1, different = 0;
	struct runner *r =
		tiny_runner(&t, (struct runner_setup){.n_pages = PAGES, .block_size = 8, .sampling = TINY_SAMPLING});
	for (int32_t nth = 0; nth < 10; nth++) {
		struct by_hand h = scattered(r, 8, &e);
		h.nth = nth;
		int32_t token = by_hand_step(&h, prompt, PROMPT);
		different += nth && token != said;
		said = token;
	}
	CU_ASSERT(different > 0);
	runner_free(r);
	tiny_close(&t);
}

static void fewer_layers_are_run_when_asked(void)
{
	struct tiny t;
	int32_t prompt[PROMPT];
	double expected[TINY_VOCAB];
	tiny_open(&t, NULL, 1);
	draw_prompt(prompt);
	int32_t all = t.model.n_layers;
	t.model.n_layers = 1;
	plain_logits(&t, prompt, PROMPT, expected);
	t.model.n_layers = all;
	CHECK_NEAR(run_in_pieces(&t, (struct runner_setup){.block_size = 16, .layers = 1}, PROMPT, expected), 0, 2e-6);
	tiny_close(&t);
}

static void what_cannot_be_run_is_refused_with_a_reason(void)
{
	struct tiny t;
	struct runner *r = NULL;
	struct err e = {0};
	tiny_open(&t, NULL, 1);
	struct runner_setup s = {.model = &t.model, .kernels = t.kernels, .n_pages = 4, .block_size = 16};
	strcpy(t.model.numerics.unsupported, "mixture of experts");
	CHECK_INT(runner_create(&r, &s, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "mixture of experts"));
	t.model.numerics.unsupported[0] = '\0';
	err_clear(&e);
	s.kv_type = NUM_F16;
	CHECK_INT(runner_create(&r, &s, &e), ERR_INPUT);
	err_clear(&e);
	s.kv_type = NUM_F8; /* a GPU's: the CPU's kernels would read it as something else */
	CHECK_INT(runner_create(&r, &s, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "it has no fp8 KV pages: f32, bf16 or int8"));
	err_clear(&e);
	s.kv_type = NUM_F32;
	s.layers = 3;
	CHECK_INT(runner_create(&r, &s, &e), ERR_INPUT);
	CHECK_STR(e.text, "model tiny has 2 layers, not 3");
	tiny_close(&t);
}

/* Llama 3.1: theta 500000, factor 8, low 1, high 4, original length 8192, heads of 128. */
static void rotary_frequencies_are_scaled_as_the_model_says(void)
{
	struct model m = {.head_dim = 128};
	double f[64], plain[64], turn_ = 2 * acos(-1.0);
	m.numerics.rope_theta = 500000;
	rope_frequencies(&m, plain);
	CHECK_NEAR(plain[0], 1, 0);
	CHECK_NEAR(plain[32], 1 / sqrt(500000.0), 1e-15);
	m.numerics.rope_scaling = ROPE_LINEAR;
	m.numerics.rope_factor = 8;
	rope_frequencies(&m, f);
	CHECK_NEAR(f[7], plain[7] / 8, 1e-18);
	m.numerics.rope_scaling = ROPE_LLAMA3;
	m.numerics.rope_low = 1;
	m.numerics.rope_high = 4;
	m.numerics.rope_original_len = 8192;
	rope_frequencies(&m, f);
	int32_t kept = 0, ramp = 0, stretched = 0;
	for (int32_t i = 0; i < 64; i++) {
		double turns = 8192 * plain[i] / turn_; /* of the pair within the original length */
		if (turns > 4) {
			kept++;
			CHECK_NEAR(f[i], plain[i], 0);
		} else if (turns < 1) {
			stretched++;
			CHECK_NEAR(f[i], plain[i] / 8, 1e-18);
		} else {
			ramp++;
			double share = (turns - 1) / 3;
			CHECK_NEAR(f[i], plain[i] * (share + (1 - share) / 8), 1e-12);
		}
	}
	CHECK_INT(kept, 29);
	CHECK_INT(ramp, 6);
	CHECK_INT(stretched, 29);
	float c[4 * 64], s[4 * 64];
	rope_fill(plain, 64, 2, 6, c, s);
	CHECK_NEAR(c[64], cos(3), 1e-7);
	CHECK_NEAR(s[3 * 64 + 32], sin(5 / sqrt(500000.0)), 1e-9);
}

int main(void)
{
	static const struct test tests[] = {
		{"rotary_frequencies_are_scaled_as_the_model_says", rotary_frequencies_are_scaled_as_the_model_says},
		{"logits_are_those_of_a_plain_forward_pass_in_double",
		 logits_are_those_of_a_plain_forward_pass_in_double},
		{"pieces_blocks_and_threads_change_no_bit", pieces_blocks_and_threads_change_no_bit},
		{"narrower_weights_and_kv_cost_little", narrower_weights_and_kv_cost_little},
		{"padding_and_held_rows_change_nothing", padding_and_held_rows_change_nothing},
		{"pages_are_copied_byte_for_byte", pages_are_copied_byte_for_byte},
		{"a_read_of_anothers_page_is_caught", a_read_of_anothers_page_is_caught},
		{"a_slot_written_by_mistake_is_caught", a_slot_written_by_mistake_is_caught},
		{"what_an_earlier_run_left_is_not_taken_for_this_ones",
		 what_an_earlier_run_left_is_not_taken_for_this_ones},
		{"tables_that_point_outside_the_arena_are_refused", tables_that_point_outside_the_arena_are_refused},
		{"sampling_is_seeded_by_request_and_output", sampling_is_seeded_by_request_and_output},
		{"fewer_layers_are_run_when_asked", fewer_layers_are_run_when_asked},
		{"what_cannot_be_run_is_refused_with_a_reason", what_cannot_be_run_is_refused_with_a_reason},
	};
	return SUITE_RUN("exec_runner", tests);
}
