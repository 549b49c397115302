#include "tests/support/op_cases.h"

const int32_t op_row_counts[OP_ROW_COUNTS] = {0, 1, 2, 7, 33, 300};
const int32_t op_dims[OP_DIMS] = {1, 3, 4, 8, 15, 16, 17, 31, 64, 100, 288, 2048};

/* TinyLlama: 32 heads on 4 KV heads of 64. Llama 110M: 12 heads, no sharing. Llama 3 8B: 32 on 8 of 128. */
const struct attention_case attention_cases[] = {
	{"decode 1 x 128, 32/4 heads of 64", 32, 4, 64, 0, 1, 1, 127},
	{"decode 1 x 1024, 32/4 heads of 64", 32, 4, 64, 0, 1, 1, 1023},
	{"decode 8 x 128, 32/4 heads of 64", 32, 4, 64, 0, 8, 1, 127},
	{"decode 8 x 1024, 32/4 heads of 64", 32, 4, 64, 0, 8, 1, 1023},
	{"decode 32 x 128, 32/4 heads of 64", 32, 4, 64, 0, 32, 1, 127},
	{"decode 32 x 1024, 32/4 heads of 64", 32, 4, 64, 0, 32, 1, 1023},
	{"decode 8 x 1024, 12/12 heads of 64", 12, 12, 64, 0, 8, 1, 1023},
	{"decode 8 x 1024, 32/8 heads of 128", 32, 8, 128, 0, 8, 1, 1023},
	{"prefill 512 at 0, 32/4 heads of 64", 32, 4, 64, 0, 1, 512, 0},
	{"prefill 512 at 1024, 32/4 heads of 64", 32, 4, 64, 0, 1, 512, 1024},
	{"prefill 512 at 1024, 12/12 heads of 64", 12, 12, 64, 0, 1, 512, 1024},
	{"prefill 512 at 1024, 32/8 heads of 128", 32, 8, 128, 0, 1, 512, 1024},
	{"prefill 512 at 1024, window 256, 32/8 heads of 128", 32, 8, 128, 256, 1, 512, 1024},
	{0},
};

struct kv_desc attention_case_desc(const struct attention_case *c, enum num type, int32_t shrink, struct kv_seq *seqs)
{
	int32_t rows = c->rows / shrink > 0 ? c->rows / shrink : 1;
	for (int32_t i = 0; i < c->n_seqs; i++)
		seqs[i] = (struct kv_seq){i + 1, rows, c->before / shrink + rows, 0};
	return (struct kv_desc){.n_heads = c->n_heads,
				.n_kv_heads = c->n_kv_heads,
				.head_dim = c->head_dim,
				.window = c->window / shrink,
				.type = type,
				.block_size = 16,
				.n_seqs = c->n_seqs,
				.seqs = seqs,
				.seed = 1,
				.page_seed = 2};
}
