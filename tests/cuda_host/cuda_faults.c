/* Faults on purpose: the cases of cases.h find each of them. A wait that is left out, wherever one is; a block that does
 * not run; an operation that is told one row, one token or one value less than there are. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda/ops_cuda.h"
#include "tests/cuda_host/cases.h"
#include "tests/cuda_host/host_set.h"
#include "tests/cuda_host/shim.h"
#include "tests/support/suite.h"

enum { SEEDS = 8 };

static struct kernel_set *sets[2];
static const double most[] = {[NUM_F32] = 2e-6, [NUM_BF16] = 8e-3};

static double attention(int act, enum num type, int32_t dim)
{
	static const struct kv_seq q[] = {{1, 1, 140, 0}, {2, 1, 5, 2}, {3, 40, 100, 0}};
	struct kv_desc d = {.n_heads = 4,
			    .n_kv_heads = 1,
			    .head_dim = dim,
			    .type = type,
			    .block_size = 16,
			    .n_seqs = 3,
			    .seqs = q,
			    .seed = 3,
			    .check = true,
			    .round = true};
	return case_attention(sets[act], &d);
}

/* More chunks than the block that lists them has threads. */
static double many_chunks(void)
{
	static struct kv_seq q[270];
	struct kv_desc d = {.n_heads = 1,
			    .n_kv_heads = 1,
			    .head_dim = 8,
			    .type = NUM_F32,
			    .block_size = 8,
			    .n_seqs = 270,
			    .seqs = q,
			    .seed = 4,
			    .check = true};
	for (int i = 0; i < 270; i++)
		q[i] = (struct kv_seq){i + 1, 2 + i / 269, 2 + i / 269, 0};
	return case_attention(sets[0], &d);
}

/* How many cases are off; with `first`, whether any is: then the rest need not run. */
static int wrong(uint64_t seed, bool first)
{
	static const struct kv_seq q[] = {{1, 1, 20, 0}, {2, 1, 5, 0}, {3, 3, 9, 0}};
	struct kv_desc d = {.n_heads = 2,
			    .n_kv_heads = 1,
			    .head_dim = 16,
			    .type = NUM_I8,
			    .block_size = 8,
			    .n_seqs = 3,
			    .seqs = q,
			    .check = true,
			    .round = true,
			    .empty = true};
	int n = 0;
	shim_random = seed;
	for (int act = 0; act < 2 && !(first && n); act++) {
		n += case_norm(sets[act], 2, 2048, true) > most[act];
		n += case_silu(sets[act], 7, 100) > most[act];
		n += case_gather(sets[act], 3, 64) > most[act];
		n += case_embed(sets[act], NUM_F16, 3, 8) > most[act];
		n += case_rope(sets[act], &d, true) > most[act];
		n += attention(act, NUM_BF16, 64) > most[act];
		n += attention(act, NUM_F8, 128) > most[act];
	}
	if (first && n)
		return n;
	n += case_argmax(sets[0], 3, 3000) > 0;
	n += case_copy(100) > 0;
	n += case_sample(2, 900, 1, 0, 1, 1) > 0;
	n += case_sample(2, 900, 1, 40, 0.9, 1) > 0;
	n += first && n ? 0 : many_chunks() > most[0];
	return n;
}

static int site_is_missed(int site)
{
	int found = 0;
	shim_dropped = site;
	for (uint64_t seed = 1; seed <= SEEDS && !found; seed++)
		found = wrong(seed, true);
	return found;
}

/* In a process of its own: what goes wrong may go wrong badly. Whether it was noticed. */
static bool noticed(int (*fault)(int which), int which)
{
	int status;
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(0);
		_exit(fault(which) > 0);
	}
	return child > 0 && waitpid(child, &status, 0) == child && status != 0;
}

static void without_faults_all_is_well(void)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		CHECK_INT(wrong(seed, false), 0);
	CU_ASSERT(shim_site_name(14) != NULL);
}

static void any_wait_left_out_is_noticed(void)
{
#if defined(__SANITIZE_ADDRESS__)
	int step = test_short() ? 8 : 1;
#else
	int step = 1;
#endif
	for (int site = 0; shim_site_name(site); site += step)
		if (!noticed(site_is_missed, site)) {
			printf("  nobody misses the %s\n", shim_site_name(site));
			CU_FAIL("a wait left out was not noticed");
		}
	CU_ASSERT(!noticed(site_is_missed, -1));
}

/* Of every kernel. Without its last block, what it would have written is still NaN, or as it was. */
static void a_block_left_out_is_noticed_by_every_operation(void)
{
	shim_drop_last = 1;
	CHECK_INT(wrong(1, false), 19);
	shim_drop_last = 0;
}

/* --- off by one ------------------------------------------------------------------------------------------------------- */

static const struct kernel_ops *right;

static int one_row_less(struct kernel_set *k, void *y, const void *gu, int32_t rows, int32_t width)
{
	return right->silu_mul(k, y, gu, rows - 1, width);
}

static int one_value_less(struct kernel_set *k, void *y, const void *x, const float *w, int32_t rows, int32_t dim,
			  float eps)
{
	return right->rms_norm(k, y, x, w, rows, dim - 1, eps);
}

static int one_token_off(struct kernel_set *k, void *out, const void *qkv, const struct step_rows *r,
			 const struct attention_shape *a, const struct kv_shape *s, const struct kv_layer *kv,
			 struct tag_fault *bad, int32_t by)
{
	int32_t ctx[8];
	struct step_rows other = *r;
	memcpy(ctx, r->ctx_len, (size_t)r->n_seqs * sizeof *ctx);
	ctx[r->n_seqs - 1] += by;
	other.ctx_len = ctx;
	return right->attention(k, out, qkv, &other, a, s, kv, bad);
}

static int one_token_less(struct kernel_set *k, void *out, const void *qkv, const struct step_rows *r,
			  const struct attention_shape *a, const struct kv_shape *s, const struct kv_layer *kv,
			  struct tag_fault *bad)
{
	return one_token_off(k, out, qkv, r, a, s, kv, bad, -1);
}

static int one_token_more(struct kernel_set *k, void *out, const void *qkv, const struct step_rows *r,
			  const struct attention_shape *a, const struct kv_shape *s, const struct kv_layer *kv,
			  struct tag_fault *bad)
{
	return one_token_off(k, out, qkv, r, a, s, kv, bad, 1);
}

static int attention_is_off(int act)
{
	return attention(act, NUM_BF16, 64) > most[act];
}

static void off_by_one_is_noticed(void)
{
	struct kernel_ops wrong_ops = *sets[0]->ops;
	right = sets[0]->ops;
	wrong_ops.silu_mul = one_row_less;
	wrong_ops.rms_norm = one_value_less;
	for (int act = 0; act < 2; act++)
		for (int more = 0; more < 2; more++) {
			wrong_ops.attention = more ? one_token_more : one_token_less;
			sets[act]->ops = &wrong_ops;
			CU_ASSERT(case_silu(sets[act], 7, 100) > most[act]);
			CU_ASSERT(case_norm(sets[act], 3, 64, false) > most[act]);
			CU_ASSERT(noticed(attention_is_off, act));
			sets[act]->ops = right;
		}
}

int main(void)
{
	static const struct test tests[] = {
		{"without_faults_all_is_well", without_faults_all_is_well},
		{"any_wait_left_out_is_noticed", any_wait_left_out_is_noticed},
		{"a_block_left_out_is_noticed_by_every_operation", a_block_left_out_is_noticed_by_every_operation},
		{"off_by_one_is_noticed", off_by_one_is_noticed},
	};
	for (int act = 0; act < 2; act++)
		sets[act] = host_set_open(&(struct host_options){.act = (enum num)act, .sms = 4, .splits = 2});
	int rc = SUITE_RUN("cuda_faults", tests);
	for (int act = 0; act < 2; act++)
		sets[act]->ops->close(sets[act]);
	return rc;
}
