/* The CUDA attention kernels on the stand-in for a GPU against the reference in double. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/ops_cuda.h"
#include "tests/cuda_host/cases.h"
#include "tests/cuda_host/host_set.h"
#include "tests/cuda_host/shim.h"
#include "tests/support/op_cases.h"
#include "tests/support/suite.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* f32: what sums in any order are off by. bf16: probabilities and results are rounded to 8 bits each. */
static const double most[] = {[NUM_F32] = 2e-6, [NUM_BF16] = 4e-3};
static const enum num types[] = {NUM_F32, NUM_BF16, NUM_I8, NUM_F8};
static struct kernel_set *sets[2];

static void check(enum num act, struct kv_desc d, int32_t splits, const char *what)
{
	host_set_options(sets[act])->splits = splits;
	d.round = act == NUM_BF16;
	double off = case_attention(sets[act], &d);
	if (off < most[act])
		return;
	printf("  %s, %s activations: %d heads, %d KV heads of %d, %s, blocks of %d, window %d, %d parts: off by %g\n",
	       what, num_names[act], d.n_heads, d.n_kv_heads, d.head_dim, num_names[d.type], d.block_size, d.window,
	       splits, off);
	CU_FAIL("attention is off");
}

static const int32_t edges[] = {1,  2,  3,  5,  7,   15,  16,  17,  31,  32,  33,  47,  48,  49,
				63, 64, 65, 96, 127, 128, 129, 160, 191, 192, 193, 255, 256, 257};

/* Some decodes, then some chunks; contexts at and around the edges of tiles and parts. */
static int32_t random_seqs(struct kv_seq *q, uint64_t *state)
{
	int32_t n = 1 + (int32_t)kv_random(state, 4), decodes = (int32_t)kv_random(state, (uint32_t)n + 1);
	for (int32_t i = 0; i < n; i++) {
		int32_t ctx = edges[kv_random(state, COUNT(edges))], rows = ctx < 40 ? ctx : 40;
		q[i] = (struct kv_seq){i + 1, i < decodes ? 1 : 1 + (int32_t)kv_random(state, (uint32_t)rows), ctx, 0};
		if (kv_random(state, 4) == 0)
			q[i].pad = (int32_t)kv_random(state, (uint32_t)ctx + 1);
	}
	return n;
}

static void agrees_with_the_reference(void)
{
	static const int32_t heads[][2] = {{2, 2}, {4, 2}, {4, 1}, {8, 2}, {8, 1}, {16, 1}, {3, 1}, {6, 2}};
	static const int32_t dims[] = {64, 128, 80, 48, 96, 16, 8, 20, 256};
	static const int32_t blocks[] = {1, 8, 12, 16, 32};
	uint64_t state = 7;
	for (int act = 0; act < 2; act++)
		for (size_t dim = 0; dim < COUNT(dims); dim++)
			for (size_t t = 0; t < COUNT(types); t++) {
				if (test_short() && (dim + t + (size_t)act) % 6)
					continue;
				struct kv_seq q[4];
				const int32_t *h = heads[kv_random(&state, COUNT(heads))];
				struct kv_desc d = {.n_heads = h[0],
						    .n_kv_heads = h[1],
						    .head_dim = dims[dim],
						    .type = types[t],
						    .block_size = blocks[kv_random(&state, COUNT(blocks))],
						    .seqs = q,
						    .seed = dim * 100 + t,
						    .page_seed = state,
						    .check = kv_random(&state, 2) == 0};
				d.n_seqs = random_seqs(q, &state);
				if (kv_random(&state, 3) == 0)
					d.window = 1 + (int32_t)kv_random(&state, 150);
				check((enum num)act, d, (int32_t)kv_random(&state, 5), "random rows");
			}
}

/* Every number of tokens up to a few tiles, in every number of parts. */
static void every_context_length(void)
{
	for (int act = 0; act < 2; act++)
		for (int32_t splits = 1; splits <= 4; splits += test_short() ? 3 : 2) {
			struct kv_seq q[64];
			struct kv_desc d = {.n_heads = 2,
					    .n_kv_heads = 1,
					    .head_dim = 16,
					    .type = NUM_BF16,
					    .block_size = 16,
					    .seqs = q,
					    .seed = 3};
			for (int32_t ctx = splits; ctx < 270 && d.n_seqs < 64; ctx += test_short() ? 17 : 5)
				q[d.n_seqs++] = (struct kv_seq){ctx, 1, ctx, 0};
			check((enum num)act, d, splits, "decodes of every length");
		}
}

/* The table that the CPU's kernels are checked and measured with. */
static void shapes_of_the_benchmark(void)
{
	for (int act = 0; act < 2; act++)
		for (const struct attention_case *c = attention_cases; c->name; c++) {
			struct kv_seq q[ATTENTION_CASE_SEQS];
			if (test_short() && (c - attention_cases) % 5 != act)
				continue;
			struct kv_desc d = attention_case_desc(c, NUM_BF16, test_short() ? 64 : 32, q);
			check((enum num)act, d, 0, c->name);
		}
}

/* More query heads on a KV head than a block takes, in decodes and in chunks. */
static void many_query_heads(void)
{
	static const struct kv_seq q[] = {{1, 1, 130, 0}, {2, 5, 70, 0}};
	static const int32_t heads[] = {16, 17, 71, 150};
	for (int act = 0; act < 2; act++)
		for (size_t h = 0; h < (test_short() ? 2 : COUNT(heads)); h++) {
			struct kv_desc d = {.n_heads = heads[h],
					    .n_kv_heads = 1,
					    .head_dim = 32,
					    .type = NUM_BF16,
					    .block_size = 8,
					    .n_seqs = 2,
					    .seqs = q,
					    .check = true,
					    .seed = 5};
			check((enum num)act, d, h % 2 ? 1 : 2, "many heads");
		}
}

/* Scores so far apart that all but a few probabilities vanish, and that the running largest jumps. */
static void scores_far_apart(void)
{
	static const struct kv_seq q[] = {{1, 1, 300, 0}, {2, 20, 200, 0}};
	struct kv_desc d = {.n_heads = 4,
			    .n_kv_heads = 2,
			    .head_dim = 64,
			    .type = NUM_BF16,
			    .block_size = 16,
			    .n_seqs = 2,
			    .seqs = q,
			    .seed = 6,
			    .round = true,
			    .spread = 6};
	host_set_options(sets[0])->splits = host_set_options(sets[1])->splits = 3;
	CU_ASSERT(case_attention(sets[NUM_F32], &d) < 2e-4); /* a score of 1000 is known to 6e-5 in f32 */
	CU_ASSERT(case_attention(sets[NUM_BF16], &d) < 6e-3);
}

static void padding_gives_zero(void)
{
	static const struct kv_seq q[] = {{1, 1, 70, 70}, {2, 10, 90, 85}, {3, 5, 5, 2}};
	for (int act = 0; act < 2; act++) {
		struct kv_desc d = {.n_heads = 4,
				    .n_kv_heads = 2,
				    .head_dim = 32,
				    .type = NUM_BF16,
				    .block_size = 8,
				    .n_seqs = 3,
				    .seqs = q,
				    .seed = 8};
		check((enum num)act, d, 2, "padding");
		struct kv_step s;
		kv_step_make(&s, sets[act], &d);
		float *out = kv_step_attend(&s), zero = 0;
		for (size_t j = 0; out && j < 6 * 4 * 32; j++) /* the first sequence's row, and five of the second's */
			zero += fabsf(out[j]);
		CU_ASSERT(out && zero == 0 && out[6 * 4 * 32] != 0);
		free(out);
		kv_step_free(&s);
	}
}

/* Rows that fill up a captured size: no context, output 0, whatever the plan counted on. */
static void rows_of_nobody(void)
{
	static const struct kv_seq q[] = {{1, 1, 100, 0}, {2, 1, 1, 0}, {3, 1, 1, 0}};
	for (int act = 0; act < 2; act++)
		for (int32_t splits = 1; splits < 4; splits += 2) {
			struct kv_desc d = {.n_heads = 4,
					    .n_kv_heads = 2,
					    .head_dim = 64,
					    .type = NUM_I8,
					    .block_size = 16,
					    .n_seqs = 3,
					    .seqs = q,
					    .check = true,
					    .seed = 9};
			struct kv_step s;
			host_set_options(sets[act])->splits = splits;
			host_set_options(sets[act])->max_ctx = 4096;
			kv_step_make(&s, sets[act], &d);
			for (int32_t i = 1; i < 3; i++)
				((int32_t *)s.rows.ctx_len)[i] = ((int32_t *)s.rows.kv_indptr)[i + 1] = 0;
			float *out = kv_step_attend(&s), some = 0, zero = 0;
			for (int j = 0; out && j < 256; j++) {
				some += fabsf(out[j]);
				zero += fabsf(out[256 + j]) + fabsf(out[512 + j]);
			}
			CU_ASSERT(out && some > 1 && zero == 0);
			CHECK_INT(s.bad.n, 0);
			free(out);
			kv_step_free(&s);
			host_set_options(sets[act])->max_ctx = 0;
		}
}

/* More chunks than the block that lists their tiles has threads; then again on the same list. */
static void many_chunks(void)
{
	enum { SEQS = 300 };
	static struct kv_seq q[SEQS];
	for (int i = 0; i < SEQS; i++)
		q[i] = (struct kv_seq){i + 1, i % 7 ? 2 : 0, i % 7 ? 2 + i % 5 : 0, 0};
	q[150].rows = q[150].ctx = 35; /* three tiles */
	for (int act = 0; act < 2; act++) {
		struct kv_desc d = {.n_heads = 1 + 3 * act,
				    .n_kv_heads = 1,
				    .head_dim = 16,
				    .type = NUM_BF16,
				    .block_size = 4,
				    .n_seqs = SEQS,
				    .seqs = q,
				    .check = true,
				    .seed = 10};
		host_set_options(sets[act])->twice = true;
		check((enum num)act, d, 1, "many chunks");
		host_set_options(sets[act])->twice = false;
	}
}

static void nothing_to_do(void)
{
	for (int act = 0; act < 2; act++) {
		struct kv_seq none = {1, 0, 0, 0};
		struct kv_desc d = {.n_heads = 2, .n_kv_heads = 1, .head_dim = 16, .block_size = 16, .seqs = &none};
		struct kv_step s;
		for (d.n_seqs = 0; d.n_seqs < 2; d.n_seqs++) {
			kv_step_make(&s, sets[act], &d);
			float *out = kv_step_attend(&s);
			CU_ASSERT_PTR_NOT_NULL(out);
			free(out);
			kv_step_free(&s);
		}
	}
}

/* --- tags ------------------------------------------------------------------------------------------------------------- */

/* Wrong tags in known slots, seen by several heads, rows, tiles and parts. */
static void wrong_tags_are_found_exactly(void)
{
	static const struct kv_seq q[] = {{1, 1, 200, 0}, {2, 1, 10, 0}, {3, 90, 300, 3}};
	static const int32_t wrong[][2] = {{0, 0}, {0, 199}, {1, 4}, {2, 0}, {2, 210}, {2, 250}, {2, 299}};
	for (int32_t window = 0; window < 2; window++)
		for (int act = 0; act < 2; act++)
			for (size_t first = 0; first < COUNT(wrong); first += 2) {
				struct kv_desc d = {.n_heads = 8,
						    .n_kv_heads = 4,
						    .head_dim = 32,
						    .type = NUM_BF16,
						    .block_size = 8,
						    .n_seqs = 3,
						    .seqs = q,
						    .seed = 12,
						    .window = window ? 1000 : 0,
						    .check = true};
				struct kv_step s;
				host_set_options(sets[act])->splits = 1 + (int32_t)first;
				kv_step_make(&s, sets[act], &d);
				for (size_t w = first; w < COUNT(wrong); w++) {
					int32_t seq = wrong[w][0], token = wrong[w][1];
					int64_t page = s.pages[s.rows.kv_indptr[seq] + token / 8];
					s.layer.tags[page * 8 + token % 8] = 1000 + w;
				}
				free(kv_step_attend(&s));
				CHECK_INT(s.bad.n, COUNT(wrong) - first);
				CHECK_INT(s.bad.seq, wrong[first][0]);
				CHECK_INT(s.bad.token, wrong[first][1]);
				CHECK_INT(s.bad.found, 1000 + first);
				CU_ASSERT(s.bad.wanted == kv_tag(q[wrong[first][0]].id, wrong[first][1]));
				/* A second layer: what is found is added, the first stays the first. */
				free(kv_step_attend(&s));
				CHECK_INT(s.bad.n, 2 * (COUNT(wrong) - first));
				CHECK_INT(s.bad.found, 1000 + first);
				kv_step_free(&s);
			}
}

/* Each token of a window's chunk is verified once, by whichever tile: count with all of them wrong. */
static void every_token_in_sight_is_verified_once(void)
{
	static const struct kv_seq q[] = {{1, 1, 130, 0}, {2, 100, 260, 7}};
	for (int act = 0; act < 2; act++)
		for (int32_t window = 0; window <= 70; window += 35) {
			struct kv_desc d = {.n_heads = 4,
					    .n_kv_heads = 2,
					    .head_dim = 16,
					    .type = NUM_BF16,
					    .block_size = 8,
					    .n_seqs = 2,
					    .seqs = q,
					    .seed = 13,
					    .window = window,
					    .check = true};
			struct kv_step s;
			host_set_options(sets[act])->splits = 2;
			kv_step_make(&s, sets[act], &d);
			memset(s.layer.tags, 0, (size_t)(s.kv.n_pages * 8) * sizeof(uint64_t));
			free(kv_step_attend(&s));
			int32_t decode = window ? window : 130, chunk = window ? 100 + window - 1 : 260;
			CHECK_INT(s.bad.n, decode + chunk);
			CHECK_INT(s.bad.seq, 0);
			CHECK_INT(s.bad.token, 130 - decode);
			((int64_t *)s.rows.want_at)[0] = -1; /* nobody reads it */
			s.bad = (struct tag_fault){0};
			free(kv_step_attend(&s));
			CHECK_INT(s.bad.n, chunk);
			CHECK_INT(s.bad.seq, 1);
			kv_step_free(&s);
		}
}

/* --- the plan --------------------------------------------------------------------------------------------------------- */

static int32_t splits_for(int32_t sms, int32_t decodes, int32_t max_ctx, int32_t window)
{
	struct attention_shape a = {32, 8, 128, 0.1f, window};
	struct kv_shape s = {NUM_BF16, 1, 16, 8, 128};
	struct cuda_attention_plan p;
	cuda_plan_attention(&p, sms, NUM_BF16, &a, &s, decodes, decodes, decodes, max_ctx, 0);
	CU_ASSERT(p.tensor_cores && p.groups == 1 && p.lines == 4 && p.max_tiles == 0);
	return p.splits;
}

static void plans_fill_the_chip(void)
{
	CHECK_INT(splits_for(132, 64, 4096, 0), 1); /* 512 blocks on 264 places: two full turns */
	int32_t alone = splits_for(132, 1, 4096, 0);
	CU_ASSERT(alone >= 16 && alone <= 33); /* 8 blocks alone would leave 124 of 132 idle */
	CHECK_INT(splits_for(132, 1, 64, 0), 1);
	CU_ASSERT(splits_for(132, 1, 4096, 128) <= 2);
	CU_ASSERT(splits_for(132, 1, 131072, 0) > 16);
	CHECK_INT(splits_for(1, 500, 100000, 0), 1);
}

static void what_is_refused(void)
{
	struct attention_shape a = {6, 2, 64, 0.1f, 0};
	struct kv_shape s = {NUM_BF16, 1, 16, 2, 64};
	CU_ASSERT_PTR_NULL(cuda_attention_refuses(NUM_BF16, &a, &s));
	CU_ASSERT_PTR_NOT_NULL(cuda_attention_refuses(NUM_F16, &a, &s));
	a.head_dim = 258;
	CU_ASSERT_PTR_NOT_NULL(cuda_attention_refuses(NUM_BF16, &a, &s));
	a.head_dim = 64;
	a.n_heads = 5;
	CU_ASSERT_PTR_NOT_NULL(cuda_attention_refuses(NUM_BF16, &a, &s));
	a.n_heads = 6;
	s.type = NUM_F16;
	CU_ASSERT_PTR_NOT_NULL(cuda_attention_refuses(NUM_BF16, &a, &s));
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
		{"rows_of_nobody", rows_of_nobody},
		{"many_chunks", many_chunks},
		{"nothing_to_do", nothing_to_do},
		{"wrong_tags_are_found_exactly", wrong_tags_are_found_exactly},
		{"every_token_in_sight_is_verified_once", every_token_in_sight_is_verified_once},
		{"plans_fill_the_chip", plans_fill_the_chip},
		{"what_is_refused", what_is_refused},
	};
	for (int act = 0; act < 2; act++)
		sets[act] = host_set_open(&(struct host_options){.act = (enum num)act, .sms = 4});
	int rc = SUITE_RUN("cuda_attention", tests);
	for (int act = 0; act < 2; act++)
		sets[act]->ops->close(sets[act]);
	return rc;
}
