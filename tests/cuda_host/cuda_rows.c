/* The CUDA kernels that treat rows one by one, on the stand-in for a GPU, against the reference. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/half.h"
#include "tests/cuda_host/cases.h"
#include "tests/cuda_host/host_set.h"
#include "tests/support/op_cases.h"
#include "tests/support/suite.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* What f32 sums are off by, and what a result that is rounded to bf16 (once, or its parts as well) is. */
static const double exact[] = {[NUM_F32] = 1e-6, [NUM_BF16] = 5e-3};
static struct kernel_set *sets[2];

static void fine(double off, double most, const char *what, enum num act, int32_t rows, int32_t dim)
{
	if (off <= most)
		return;
	printf("  %s, %s activations: %d x %d: off by %g\n", what, num_names[act], rows, dim, off);
	CU_FAIL("an operation is off");
}

static void every_shape(double (*of)(struct kernel_set *set, int32_t rows, int32_t dim), const char *what)
{
	int last = test_short() ? OP_ROW_COUNTS - 1 : OP_ROW_COUNTS;
	for (int act = 0; act < 2; act++)
		for (int r = 0; r < last; r++)
			for (int d = 0; d < OP_DIMS; d++)
				fine(of(sets[act], op_row_counts[r], op_dims[d]), exact[act], what, (enum num)act,
				     op_row_counts[r], op_dims[d]);
}

static double norm(struct kernel_set *set, int32_t rows, int32_t dim)
{
	return case_norm(set, rows, dim, false);
}

static double add_norm(struct kernel_set *set, int32_t rows, int32_t dim)
{
	return case_norm(set, rows, dim, true);
}

static void norms(void)
{
	every_shape(norm, "rms_norm");
	every_shape(add_norm, "add_rms_norm");
}

static void gate(void)
{
	every_shape(case_silu, "silu_mul");
}

static void gathered_rows(void)
{
	every_shape(case_gather, "gather");
}

static void embedding_of_each_type(void)
{
	static const int32_t wide[] = {1, 7, 8, 37, 288};
	for (int act = 0; act < 2; act++)
		for (int t = 0; t <= NUM_F16; t++)
			for (size_t d = 0; d < COUNT(wide); d++)
				CU_ASSERT(case_embed(sets[act], (enum num)t, 70, wide[d]) == 0);
	float y[4];
	int32_t zero = 0;
	CHECK_INT(sets[0]->ops->embed(sets[0], y, y, NUM_I8, &zero, 1, 1), -1);
}

static void lowest_index_of_the_largest(void)
{
	for (int d = 0; d < OP_DIMS; d++)
		CU_ASSERT(case_argmax(sets[0], 9, op_dims[d]) == 0);
	float none[] = {-INFINITY, -INFINITY, -INFINITY};
	int32_t token = 7;
	sets[0]->ops->argmax(sets[0], &token, none, 1, 3);
	CHECK_INT(token, 0);
}

static void rotated_and_kept(void)
{
	/* A value on the edge between two that a type holds may go either way. */
	static const double most[] = {[NUM_F32] = 1e-6, [NUM_BF16] = 3e-4, [NUM_I8] = 2e-3, [NUM_F8] = 6e-3};
	static const struct kv_seq q[] = {{1, 1, 300, 0}, {2, 1, 5, 0}, {3, 40, 100, 0}, {4, 9, 9, 3}};
	static const int32_t shapes[][3] = {{4, 2, 64}, {2, 1, 48}, {3, 3, 80}, {8, 1, 128},
					    {2, 2, 8},  {2, 1, 6},  {1, 1, 256}};
	for (int act = 0; act < 2; act++)
		for (size_t s = 0; s < COUNT(shapes); s++)
			for (int type = 0; type <= NUM_F8; type++) {
				struct kv_desc d = {.n_heads = shapes[s][0],
						    .n_kv_heads = shapes[s][1],
						    .head_dim = shapes[s][2],
						    .type = (enum num)type,
						    .block_size = 8,
						    .n_seqs = 4,
						    .seqs = q,
						    .seed = s,
						    .check = true,
						    .round = true,
						    .empty = true};
				if (type == NUM_F16)
					continue;
				fine(case_rope(sets[act], &d, s % 2 == 0), fmax(most[type], exact[act]), "rope_kv",
				     (enum num)act, d.n_heads, d.head_dim);
			}
	struct kv_desc d = {
		.n_heads = 1, .n_kv_heads = 1, .head_dim = 258, .block_size = 8, .n_seqs = 4, .seqs = q, .check = true};
	CU_ASSERT(isinf(case_rope(sets[0], &d, false)));
}

static void pages_copied(void)
{
	static const int32_t bytes[] = {1, 15, 16, 64, 100, 4096, 4099, 70000};
	for (size_t i = 0; i < COUNT(bytes); i++)
		CU_ASSERT(case_copy(bytes[i]) == 0);
}

/* The host's e4m3 numbers, which everything else is held against. */
static void fp8_numbers(void)
{
	CU_ASSERT(f8_to_float(0x38) == 1 && f8_to_float(0x7e) == 448 && f8_to_float(0x01) == 0x1p-9f);
	CU_ASSERT(f8_to_float(0xc4) == -3 && isnan(f8_to_float(0xff)));
	for (int x = 0; x < 256; x++)
		CU_ASSERT(isnan(f8_to_float((uint8_t)x)) || float_to_f8(f8_to_float((uint8_t)x)) == x);
	CHECK_INT(float_to_f8(1.0625f), 0x38); /* ties go to even */
	CHECK_INT(float_to_f8(1.1875f), 0x3a);
	CHECK_INT(float_to_f8(1e9f), 0x7e);
	CHECK_INT(float_to_f8(-INFINITY), 0xfe);
	CHECK_INT(float_to_f8(0x1p-10f), 0);
	CHECK_INT(float_to_f8(0x1.8p-10f), 1);
	CHECK_INT(num_bytes(NUM_F8), 1);
	CHECK_STR(num_names[NUM_F8], "fp8");
}

int main(void)
{
	static const struct test tests[] = {
		{"norms", norms},
		{"gate", gate},
		{"gathered_rows", gathered_rows},
		{"embedding_of_each_type", embedding_of_each_type},
		{"lowest_index_of_the_largest", lowest_index_of_the_largest},
		{"rotated_and_kept", rotated_and_kept},
		{"pages_copied", pages_copied},
		{"fp8_numbers", fp8_numbers},
	};
	for (int act = 0; act < 2; act++)
		sets[act] = host_set_open(&(struct host_options){.act = (enum num)act, .sms = 4});
	int rc = SUITE_RUN("cuda_rows", tests);
	for (int act = 0; act < 2; act++)
		sets[act]->ops->close(sets[act]);
	return rc;
}
