/* Tokens and tags: whatever the memory manager takes for the same page is the same tokens with the same tags. */
#include <stdlib.h>
#include <string.h>

#include "core/content.h"
#include "core/err.h"
#include "exec/prompts.h"
#include "exec/sequences.h"
#include "policies/registry.h"
#include "tests/support/random_case.h"
#include "tests/support/suite.h"

enum { VOCAB = 53 };

static struct sequences *open_sequences(const struct workload *w, bool shared)
{
	struct sequences *s = NULL;
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(sequences_create(&s, w, VOCAB, 11, shared, &e), ERR_NONE);
	return s;
}

/* One page of some request: what the memory manager calls it, and what it is. */
struct page {
	uint64_t identity, tag; /* of its last token, so of all before as well */
	int32_t req, index, last_token;
};

static int by_identity(const void *a, const void *b)
{
	const struct page *x = a, *y = b;
	return (x->identity > y->identity) - (x->identity < y->identity);
}

/* Appends outputs that depend on the request, as a model's would. */
static void speak(struct sequences *s, const struct workload *w, int32_t req)
{
	struct err e = {0};
	const int32_t *tokens;
	int32_t n;
	CU_ASSERT_EQUAL_FATAL(sequences_get(s, req, &tokens, NULL, &n, &e), ERR_NONE);
	for (int32_t k = 0; k < w->specs[req].output_tokens; k++)
		CU_ASSERT_EQUAL_FATAL(sequences_append(s, req, (req * 7 + k * 3) % VOCAB, &e), ERR_NONE);
}

static int64_t note_pages(struct sequences *s, const struct workload *w, int32_t req, int32_t block, struct page *pages)
{
	struct err e = {0};
	const int32_t *tokens;
	const uint64_t *tags;
	int32_t n;
	struct content_walk walk;
	CU_ASSERT_EQUAL_FATAL(sequences_get(s, req, &tokens, &tags, &n, &e), ERR_NONE);
	content_begin(&walk, w, req, block);
	for (int32_t i = 0; i < n / block; i++)
		pages[i] = (struct page){content_next(&walk), tags[(i + 1) * block - 1], req, i,
					 tokens[(i + 1) * block - 1]};
	return n / block;
}

static int64_t compare_pages(const struct workload *w, int32_t block)
{
	struct sequences *s = open_sequences(w, true);
	int64_t n = 0, room = 0, equal = 0;
	for (int32_t i = 0; i < w->n; i++)
		room += (w->specs[i].prompt_tokens + w->specs[i].output_tokens) / block;
	struct page *pages = calloc((size_t)room + 1, sizeof *pages);
	for (int32_t i = 0; i < w->n; i++) {
		speak(s, w, i);
		n += note_pages(s, w, i, block, pages + n);
	}
	qsort(pages, (size_t)n, sizeof *pages, by_identity);
	for (int64_t i = 1; i < n; i++) {
		const struct page *a = &pages[i - 1], *b = &pages[i];
		if (a->identity != b->identity)
			continue;
		equal++;
		CHECK_INT(a->tag, b->tag);
		CHECK_INT(a->last_token, b->last_token);
		CHECK_INT(a->index, b->index);
	}
	free(pages);
	sequences_free(s);
	return equal;
}

static void equal_pages_are_equal_tokens_and_tags(void)
{
	static const int32_t blocks[] = {1, 3, 4, 8, 16};
	int64_t equal = 0;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct random_case c;
		struct workload w;
		random_case_make(&c, seed, policy_at(0), 24);
		CU_ASSERT_FATAL(random_case_workload(&c, &w));
		equal += compare_pages(&w, blocks[seed % 5]);
		workload_free(&w);
		random_case_free(&c);
	}
	CU_ASSERT(equal > 1000); /* the comparison was of something */
}

/* Requests of a trace with blocks of equal size, the last one partial. */
static void hash_blocks_share_as_far_as_they_agree(void)
{
	static const uint64_t ids[3][3] = {{5, 6, 7}, {5, 6, 8}, {9, 6, 7}};
	static const int32_t lengths[3] = {23, 24, 27};
	struct workload w;
	struct err e = {0};
	workload_init(&w);
	w.hash_block = 10;
	for (int i = 0; i < 3; i++) {
		struct spec s = {.hash_at = w.n_hash_ids,
				 .name_at = -1,
				 .prompt_tokens = lengths[i],
				 .output_tokens = 1,
				 .session = -1,
				 .n_hashes = i == 2 ? 2 : 3};
		for (int k = 0; k < s.n_hashes; k++)
			workload_add_hash(&w, ids[i][k], &e);
		workload_add(&w, &s, &e);
	}
	struct sequences *s = open_sequences(&w, true);
	const int32_t *a, *b, *c;
	const uint64_t *ta, *tb, *tc;
	int32_t n;
	sequences_get(s, 0, &a, &ta, &n, &e);
	CHECK_INT(n, 23);
	sequences_get(s, 1, &b, &tb, &n, &e);
	sequences_get(s, 2, &c, &tc, &n, &e);
	CHECK_INT(n, 27);
	CHECK_INT(memcmp(a, b, 20 * sizeof *a), 0);
	CHECK_INT(memcmp(ta, tb, 20 * sizeof *ta), 0);
	CU_ASSERT(memcmp(a + 20, b + 20, 3 * sizeof *a) != 0);
	/* The same content in second place has the same tokens, and other tags: another prefix leads to it. */
	CHECK_INT(memcmp(a + 10, c + 10, 10 * sizeof *a), 0);
	CU_ASSERT(ta[19] != tc[19]);
	for (int i = 0; i < 27; i++)
		CU_ASSERT(c[i] >= 0 && c[i] < VOCAB);
	sequences_free(s);
	workload_free(&w);
}

static void another_seed_draws_other_tokens(void)
{
	const struct workload w = {0};
	int same = 0;
	for (int k = 0; k < 1000; k++)
		same += prompt_token(&w, 1, 42, k, VOCAB) == prompt_token(&w, 2, 42, k, VOCAB);
	CU_ASSERT(same < 3 * 1000 / VOCAB);
}

static struct workload two_requests(uint64_t output_id)
{
	struct workload w;
	struct err e = {0};
	workload_init(&w);
	for (int i = 0; i < 2; i++) {
		struct spec s = {.name_at = -1,
				 .prompt_tokens = 6,
				 .output_tokens = 5,
				 .session = -1,
				 .row = i + 1,
				 .output_id = output_id};
		workload_add(&w, &s, &e);
	}
	return w;
}

static void each_request_has_tags_of_its_own_unless_they_are_shared(void)
{
	struct workload w = two_requests(0);
	const int32_t ids[6] = {1, 2, 3, 4, 5, 6}, *t;
	const uint64_t *tags[2];
	struct err e = {0};
	int32_t n;
	for (int shared = 0; shared < 2; shared++) {
		struct sequences *s = open_sequences(&w, shared);
		for (int32_t i = 0; i < 2; i++) {
			CHECK_INT(sequences_set_prompt(s, i, ids, 6, &e), ERR_NONE);
			CHECK_INT(sequences_get(s, i, &t, &tags[i], &n, &e), ERR_NONE);
			CHECK_INT(memcmp(t, ids, sizeof ids), 0);
		}
		for (int k = 0; k < 6; k++)
			CHECK_INT(tags[0][k] == tags[1][k], shared);
		sequences_free(s);
	}
	workload_free(&w);
}

static void the_trace_tells_outputs_that_have_an_identity(void)
{
	struct workload w = two_requests(77);
	struct sequences *s = open_sequences(&w, true);
	struct err e = {0};
	int32_t n;
	const int32_t *t;
	CHECK_INT(sequences_get(s, 0, &t, NULL, &n, &e), ERR_NONE);
	for (int k = 0; k < 5; k++)
		CHECK_INT(sequences_append(s, 0, VOCAB - 1, &e), ERR_NONE);
	const int32_t *out = sequences_outputs(s, 0, &n);
	CHECK_INT(n, 5);
	for (int k = 0; k < 5; k++)
		CHECK_INT(out[k], prompt_token(&w, 11, 77, k, VOCAB));
	sequences_free(s);
	workload_free(&w);
}

static void what_has_ended_keeps_its_outputs_alone(void)
{
	struct workload w = two_requests(0);
	struct sequences *s = open_sequences(&w, false);
	struct err e = {0};
	const int32_t *t;
	int32_t n;
	CU_ASSERT_PTR_NULL(sequences_outputs(s, 0, &n));
	CHECK_INT(n, 0);
	speak(s, &w, 0);
	sequences_ended(s, 0);
	sequences_ended(s, 0); /* twice is once */
	sequences_ended(s, 1); /* never ran */
	const int32_t *out = sequences_outputs(s, 0, &n);
	CHECK_INT(n, 5);
	for (int k = 0; k < 5; k++)
		CHECK_INT(out[k], k * 3 % VOCAB);
	CHECK_INT(sequences_get(s, 0, &t, NULL, &n, &e), ERR_INVARIANT);
	CHECK_STR(e.text, "request 1 runs though it has ended");
	sequences_free(s);
	workload_free(&w);
}

static void wrong_prompts_are_refused_by_name(void)
{
	struct workload w = two_requests(0);
	struct sequences *s = open_sequences(&w, false);
	struct err e = {0};
	const int32_t ids[6] = {1, 2, 3, VOCAB, 5, 6}, good[6] = {0}, *t;
	int32_t n;
	CHECK_INT(sequences_set_prompt(s, 0, ids, 5, &e), ERR_INPUT);
	CHECK_STR(e.text, "request 1: its prompt is 5 tokens of this tokenizer, the trace says 6");
	err_clear(&e);
	CHECK_INT(sequences_set_prompt(s, 0, ids, 6, &e), ERR_INPUT);
	CHECK_STR(e.text,
		  "request 1: token 3 of its prompt is 53, the model knows 0 to 52: use the model's own tokenizer");
	err_clear(&e);
	CHECK_INT(sequences_get(s, 1, &t, NULL, &n, &e), ERR_NONE);
	CHECK_INT(sequences_set_prompt(s, 1, good, 6, &e), ERR_INVARIANT);
	sequences_free(s);
	workload_free(&w);
}

int main(void)
{
	static const struct test tests[] = {
		{"equal_pages_are_equal_tokens_and_tags", equal_pages_are_equal_tokens_and_tags},
		{"hash_blocks_share_as_far_as_they_agree", hash_blocks_share_as_far_as_they_agree},
		{"another_seed_draws_other_tokens", another_seed_draws_other_tokens},
		{"each_request_has_tags_of_its_own_unless_they_are_shared",
		 each_request_has_tags_of_its_own_unless_they_are_shared},
		{"the_trace_tells_outputs_that_have_an_identity", the_trace_tells_outputs_that_have_an_identity},
		{"what_has_ended_keeps_its_outputs_alone", what_has_ended_keeps_its_outputs_alone},
		{"wrong_prompts_are_refused_by_name", wrong_prompts_are_refused_by_name},
	};
	return SUITE_RUN("exec_sequences", tests);
}
