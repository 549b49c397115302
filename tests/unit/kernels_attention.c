/* Attention of every set against the reference in double, and its promise that a row's result is the same bit for bit in
 * any company. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ops.h"
#include "tests/support/kernel_sets.h"
#include "tests/support/kv_step.h"
#include "tests/support/op_cases.h"
#include "tests/support/suite.h"

/* What sums of f32 in any order can be off by, for contexts like these. */
#define TOLERANCE 2e-6
enum { SETS_MAX = 8 };

static struct kernel_set *reference, *sets[SETS_MAX];
static int n_sets;

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

static float *attend(struct kernel_set *set, const struct kv_desc *d, struct tag_fault *bad)
{
	struct kv_step s;
	kv_step_make(&s, set, d);
	float *out = kv_step_attend(&s);
	if (bad)
		*bad = s.bad;
	kv_step_free(&s);
	return out;
}

static size_t out_floats(const struct kv_desc *d)
{
	size_t rows = 0;
	for (int32_t i = 0; i < d->n_seqs; i++)
		rows += (size_t)d->seqs[i].rows;
	return rows * (size_t)(d->n_heads * d->head_dim);
}

static void check_sets(const struct kv_desc *d, const char *what)
{
	struct tag_fault bad;
	float *wanted = attend(reference, d, NULL);
	for (int i = 0; i < n_sets; i++) {
		float *out = attend(sets[i], d, &bad);
		CU_ASSERT_PTR_NOT_NULL(out);
		CHECK_INT(bad.n, 0);
		double off = out ? kv_error(out, wanted, out_floats(d)) : INFINITY;
		if (!(off < TOLERANCE)) {
			printf("  %s: %s: %d heads, %d KV heads of %d, %s, blocks of %d, window %d: off by %g\n",
			       kernel_set_name(i), what, d->n_heads, d->n_kv_heads, d->head_dim, num_names[d->type],
			       d->block_size, d->window, off);
			CU_FAIL("attention is off");
		}
		free(out);
	}
	free(wanted);
}

/* --- against the reference ------------------------------------------------------------------------------------------ */

static const int32_t edges[] = {1,   2,   3,   4,   5,   7,   8,   15,  16,  31,  33,  63,  64,  65,  127, 128, 129,
				191, 192, 200, 255, 256, 257, 300, 320, 321, 500, 511, 512, 513, 576, 640, 699, 700};

/* Some decodes, then some chunks; contexts at and around tile edges. */
static int32_t random_seqs(struct kv_seq *q, uint64_t *state, int32_t longest)
{
	int32_t n = 1 + (int32_t)kv_random(state, 4), decodes = (int32_t)kv_random(state, (uint32_t)n + 1);
	for (int32_t i = 0; i < n; i++) {
		int32_t ctx;
		do
			ctx = edges[kv_random(state, sizeof edges / sizeof edges[0])];
		while (ctx > longest);
		int32_t most = ctx < 20 ? ctx : 20;
		q[i] = (struct kv_seq){i + 1, i < decodes ? 1 : 1 + (int32_t)kv_random(state, (uint32_t)most), ctx, 0};
		if (kv_random(state, 4) == 0)
			q[i].pad = (int32_t)kv_random(state, (uint32_t)ctx + 1);
	}
	return n;
}

static void agrees_with_the_reference(void)
{
	static const int32_t heads[][2] = {{2, 2}, {4, 2}, {4, 1}, {8, 2}, {8, 1}, {16, 2}, {3, 1}, {6, 2}};
	static const int32_t dims[] = {32, 48, 64, 80, 128, 8, 20};
	static const int32_t blocks[] = {1, 8, 16, 32};
	static const enum num types[] = {NUM_F32, NUM_BF16, NUM_I8};
	uint64_t state = 7;
	int n_heads = (int)(sizeof heads / sizeof heads[0]), rounds = test_short() ? 1 : 2;
	for (size_t dim = 0; dim < sizeof dims / sizeof dims[0]; dim++)
		for (int t = 0; t < 3; t++)
			for (int round = 0; round < rounds; round++) {
				struct kv_seq q[4];
				const int32_t *h = heads[kv_random(&state, (uint32_t)n_heads)];
				struct kv_desc d = {.n_heads = h[0],
						    .n_kv_heads = h[1],
						    .head_dim = dims[dim],
						    .type = types[t],
						    .block_size = blocks[kv_random(&state, 4)],
						    .seqs = q,
						    .seed = dim * 100 + (uint64_t)t,
						    .page_seed = state,
						    .check = round == 0};
				d.n_seqs = random_seqs(q, &state, test_short() ? 200 : 700);
				if (kv_random(&state, 3) == 0)
					d.window = 1 + (int32_t)kv_random(&state, 150);
				check_sets(&d, "random rows");
			}
}

/* Every context from 1 on, so that no edge of a tile or split is missed. */
static void every_context_length(void)
{
	int32_t step = test_short() ? 19 : 5;
	for (int32_t from = 1; from <= 700; from += 175) {
		struct kv_seq q[175];
		struct kv_desc d = {.n_heads = 2,
				    .n_kv_heads = 1,
				    .head_dim = 16,
				    .type = NUM_F32,
				    .block_size = 16,
				    .seqs = q,
				    .seed = 3};
		for (int32_t ctx = from; ctx < from + 175; ctx += step)
			q[d.n_seqs++] = (struct kv_seq){ctx, 1, ctx, 0};
		check_sets(&d, "decodes of every length");
	}
}

static void shapes_of_the_benchmark(void)
{
	for (const struct attention_case *c = attention_cases; c->name; c++) {
		struct kv_seq q[ATTENTION_CASE_SEQS];
		struct kv_desc d = attention_case_desc(c, NUM_BF16, test_short() ? 48 : 8, q);
		check_sets(&d, c->name);
	}
}

/* 71 query heads on one KV head: more lines than a task takes. */
static void many_query_heads(void)
{
	static const struct kv_seq q[] = {{1, 1, 130, 0}, {2, 3, 70, 0}};
	struct kv_desc d = {.n_heads = 71,
			    .n_kv_heads = 1,
			    .head_dim = 64,
			    .type = NUM_BF16,
			    .block_size = 8,
			    .n_seqs = 2,
			    .seqs = q,
			    .seed = 5};
	check_sets(&d, "71 heads");
}

/* Scores so far apart that all but a few probabilities vanish, and that the running largest jumps. */
static void scores_far_apart(void)
{
	static const struct kv_seq q[] = {{1, 1, 700, 0}, {2, 20, 300, 0}};
	struct kv_desc d = {.n_heads = 4,
			    .n_kv_heads = 2,
			    .head_dim = 64,
			    .type = NUM_F32,
			    .block_size = 16,
			    .n_seqs = 2,
			    .seqs = q,
			    .seed = 6,
			    .spread = 6};
	for (int i = 0; i < n_sets; i++) {
		float *wanted = attend(reference, &d, NULL), *out = attend(sets[i], &d, NULL);
		/* A score of 1000 is known to 6e-5 in f32, and so is the logarithm of a probability. */
		CU_ASSERT(kv_error(out, wanted, out_floats(&d)) < 2e-4);
		free(wanted);
		free(out);
	}
}

static void padding_gives_zero(void)
{
	static const struct kv_seq q[] = {{1, 1, 70, 70}, {2, 10, 90, 85}, {3, 5, 5, 2}};
	struct kv_desc d = {.n_heads = 4,
			    .n_kv_heads = 2,
			    .head_dim = 32,
			    .type = NUM_F32,
			    .block_size = 8,
			    .n_seqs = 3,
			    .seqs = q,
			    .seed = 8};
	check_sets(&d, "padding");
	for (int i = 0; i < n_sets; i++) {
		float *out = attend(sets[i], &d, NULL), zero = 0;
		size_t row = 4 * 32;
		for (size_t j = 0; j < 6 * row; j++) /* the first sequence's row, and five of the second's */
			zero += fabsf(out[j]);
		CU_ASSERT(zero == 0);
		CU_ASSERT(out[6 * row] != 0);
		free(out);
	}
}

static void nothing_to_do(void)
{
	for (int i = 0; i < n_sets; i++) {
		struct kv_seq none = {1, 0, 0, 0};
		struct kv_desc d = {.n_heads = 2, .n_kv_heads = 1, .head_dim = 16, .block_size = 16, .seqs = &none};
		float *out = attend(sets[i], &d, NULL);
		CU_ASSERT_PTR_NOT_NULL(out);
		free(out);
		d.n_seqs = 1;
		out = attend(sets[i], &d, NULL);
		CU_ASSERT_PTR_NOT_NULL(out);
		free(out);
	}
}

/* --- the same bits ------------------------------------------------------------------------------------------------- */

/* The rows of one sequence, cut into chunks of `chunk` rows (of small ones every 13th, which meets all places of a tile),
 * each beside other sequences; compared with whole[ctx]. */
static int64_t differing_bits(const char *set_name, struct kv_desc d, int32_t ctx, int32_t pad, int32_t chunk,
			      int32_t threads, const float *whole)
{
	struct kernel_set *set = kernel_set_open(set_name, threads);
	size_t row = (size_t)(d.n_heads * d.head_dim);
	int64_t differing = 0;
	for (int32_t from = 0; from < ctx; from += chunk < 8 ? 13 * chunk : chunk) {
		int32_t to = from + chunk < ctx ? from + chunk : ctx;
		struct kv_seq q[3] = {
			{9, 1, 1 + from * 7 % 300, 0}, {1, to - from, to, pad < to ? pad : to}, {8, 2, 40, 0}};
		bool first = chunk > 1;
		d.seqs = first ? q + 1 : q;
		d.n_seqs = first ? 2 : 3;
		d.page_seed = (uint64_t)(from + chunk);
		float *out = attend(set, &d, NULL);
		const float *mine = out + (first ? 0 : row);
		differing += memcmp(mine, whole + (size_t)from * row, (size_t)(to - from) * row * sizeof(float)) != 0;
		free(out);
	}
	set->ops->close(set);
	return differing;
}

static void rows_are_the_same_bits_in_any_company(void)
{
	static const struct kv_desc shapes[] = {
		{.n_heads = 2, .n_kv_heads = 2, .head_dim = 64, .type = NUM_F32},
		{.n_heads = 8, .n_kv_heads = 1, .head_dim = 64, .type = NUM_BF16},
		{.n_heads = 4, .n_kv_heads = 2, .head_dim = 48, .type = NUM_I8},
		{.n_heads = 3, .n_kv_heads = 1, .head_dim = 16, .type = NUM_BF16, .window = 100},
		{.n_heads = 2, .n_kv_heads = 2, .head_dim = 32, .type = NUM_I8, .window = 300},
	};
	static const int32_t chunks[] = {1, 3, 16, 17, 100, 333}, blocks[] = {1, 8, 16, 32}, threads[] = {1, 2, 5};
	int32_t ctx = test_short() ? 290 : 530, at = 0;
	for (int i = 0; kernel_set_name(i); i++)
		for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
			struct kv_desc d = shapes[s];
			int32_t pad = s == 1 ? 5 : 0;
			struct kv_seq all = {1, ctx, ctx, pad};
			d.seqs = &all;
			d.n_seqs = 1;
			d.block_size = 16;
			d.seed = 11;
			float *whole = attend(sets[i], &d, NULL);
			for (size_t c = 0; c < sizeof chunks / sizeof chunks[0]; c++, at++) {
				if (test_short() && chunks[c] < 16 && (int)s % 2 != i % 2)
					continue;
				d.block_size = blocks[at % 4];
				CHECK_INT(differing_bits(kernel_set_name(i), d, ctx, pad, chunks[c], threads[at % 3],
							 whole),
					  0);
			}
			free(whole);
		}
}

/* --- tags ---------------------------------------------------------------------------------------------------------- */

/* Wrong tags in known slots, seen by several heads, rows and threads. */
static void wrong_tags_are_found_exactly(void)
{
	static const struct kv_seq q[] = {{1, 1, 300, 0}, {2, 1, 10, 0}, {3, 40, 400, 3}};
	static const int32_t wrong[][2] = {{0, 0}, {0, 299}, {1, 4}, {2, 0}, {2, 255}, {2, 256}, {2, 399}};
	struct kv_desc d = {.n_heads = 8,
			    .n_kv_heads = 4,
			    .head_dim = 32,
			    .type = NUM_BF16,
			    .block_size = 8,
			    .n_seqs = 3,
			    .seqs = q,
			    .seed = 12,
			    .check = true};
	for (int i = -1; i < n_sets; i++)
		for (size_t first = 0; first < sizeof wrong / sizeof wrong[0]; first++) {
			struct kv_step s;
			struct kernel_set *set = i < 0 ? reference : sets[i];
			kv_step_make(&s, set, &d);
			int32_t *indptr = kv_host_copy(set, s.rows.kv_indptr, 16);
			for (size_t w = first; w < sizeof wrong / sizeof wrong[0]; w++) {
				int32_t seq = wrong[w][0], token = wrong[w][1];
				uint64_t tag = 1000 + w;
				int64_t slot = (int64_t)s.pages[indptr[seq] + token / 8] * 8 + token % 8;
				set->ops->upload(set, s.layer.tags + slot, &tag, sizeof tag);
			}
			free(kv_step_attend(&s));
			CHECK_INT(s.bad.n, sizeof wrong / sizeof wrong[0] - first);
			CHECK_INT(s.bad.seq, wrong[first][0]);
			CHECK_INT(s.bad.token, wrong[first][1]);
			CHECK_INT(s.bad.found, 1000 + first);
			CU_ASSERT(s.bad.wanted == kv_tag(q[wrong[first][0]].id, wrong[first][1]));
			free(indptr);
			kv_step_free(&s);
		}
}

/* What a window hides is not read, and what nobody reads is not verified. */
static void tags_out_of_sight_do_not_matter(void)
{
	static const struct kv_seq q[] = {{1, 1, 300, 0}, {2, 10, 200, 0}};
	struct kv_desc d = {.n_heads = 2,
			    .n_kv_heads = 1,
			    .head_dim = 32,
			    .type = NUM_F32,
			    .block_size = 8,
			    .n_seqs = 2,
			    .seqs = q,
			    .seed = 13,
			    .check = true,
			    .window = 50};
	for (int i = -1; i < n_sets; i++)
		for (int seen = 0; seen < 3; seen++) {
			struct kv_step s;
			struct kernel_set *set = i < 0 ? reference : sets[i];
			int64_t nowhere[] = {0, -1}; /* the second sequence's result is not read */
			uint64_t tag = 5;
			int32_t token = seen ? 250 : 249; /* the row of the first is token 299 */
			kv_step_make(&s, set, &d);
			set->ops->upload(set, s.layer.tags + (int64_t)s.pages[token / 8] * 8 + token % 8, &tag, 8);
			set->ops->upload(set, s.layer.tags + (int64_t)s.pages[38 + 195 / 8] * 8 + 195 % 8, &tag, 8);
			if (seen < 2)
				set->ops->upload(set, (void *)s.rows.want_at, nowhere, sizeof nowhere);
			free(kv_step_attend(&s));
			CHECK_INT(s.bad.n, seen);
			kv_step_free(&s);
		}
}

int main(void)
{
	static const struct test tests[] = {
		{"agrees_with_the_reference", agrees_with_the_reference},
		{"every_context_length", every_context_length},
		{"shapes_of_the_benchmark", shapes_of_the_benchmark},
		{"many_query_heads", many_query_heads},
		{"scores_far_apart", scores_far_apart},
		{"padding_gives_zero", padding_gives_zero},
		{"nothing_to_do", nothing_to_do},
		{"rows_are_the_same_bits_in_any_company", rows_are_the_same_bits_in_any_company},
		{"wrong_tags_are_found_exactly", wrong_tags_are_found_exactly},
		{"tags_out_of_sight_do_not_matter", tags_out_of_sight_do_not_matter},
	};
	open_sets();
	int rc = SUITE_RUN("kernels_attention", tests);
	close_sets();
	return rc;
}
