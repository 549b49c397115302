/* op_cases.h: the shapes that every set is checked with against the reference; those of attention are measured, too. */
#ifndef TESTS_SUPPORT_OP_CASES_H
#define TESTS_SUPPORT_OP_CASES_H

#include "tests/support/kv_step.h"

/* Of operations on rows: every number of rows with every width. */
enum { OP_ROW_COUNTS = 6, OP_DIMS = 12 };
extern const int32_t op_row_counts[OP_ROW_COUNTS], op_dims[OP_DIMS];

enum { ATTENTION_CASE_SEQS = 32 };

/* n_seqs sequences, each with `rows` rows after `before` tokens that are in the cache already. */
struct attention_case {
	const char *name;
	int32_t n_heads, n_kv_heads, head_dim, window;
	int32_t n_seqs, rows, before;
};
extern const struct attention_case attention_cases[]; /* ends with a NULL name */

/* All rows and contexts divided by `shrink` (at least 1); seqs[ATTENTION_CASE_SEQS] is filled and referred to. */
struct kv_desc attention_case_desc(const struct attention_case *c, enum num type, int32_t shrink, struct kv_seq *seqs);

#endif
