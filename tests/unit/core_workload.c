/* Requests as data: adding, sorting, linking, hashing, and the identity of their pages. */
#include <string.h>

#include "core/content.h"
#include "core/err.h"
#include "core/workload.h"
#include "tests/support/suite.h"

static struct workload w;
static struct err err;

static struct spec *add(int64_t arrival_ns, int32_t prompt, int32_t output)
{
	struct spec s = {.arrival_ns = arrival_ns, .hash_at = w.n_hash_ids, .name_at = -1, .session = -1};
	s.prompt_tokens = prompt;
	s.output_tokens = output;
	s.row = (int32_t)w.n + 1;
	CU_ASSERT_FATAL(workload_add(&w, &s, &err) == ERR_NONE);
	return &w.specs[w.n - 1];
}

static void share(uint64_t id, int32_t tokens)
{
	CU_ASSERT_FATAL(workload_add_segment(&w, id, tokens, &err) == ERR_NONE);
	w.specs[w.n - 1].n_hashes++;
}

static void begin(void)
{
	workload_init(&w);
	err = (struct err){0};
}

static void sorting_keeps_file_order_among_equals(void)
{
	bool moved;
	begin();
	const int64_t times[] = {30, 10, 20, 10, 30};
	for (int i = 0; i < 5; i++)
		add(times[i], 1, 1);
	CHECK_INT(workload_sort(&w, &moved, &err), ERR_NONE);
	CU_ASSERT(moved);
	const int32_t rows[] = {2, 4, 3, 1, 5};
	for (int i = 0; i < 5; i++)
		CHECK_INT(w.specs[i].row, rows[i]);
	CHECK_INT(workload_sort(&w, &moved, &err), ERR_NONE);
	CU_ASSERT(!moved);
	workload_free(&w);
}

static void links_become_children_in_order(void)
{
	const int32_t parent[] = {1, 0, 0}, child[] = {2, 3, 2};
	begin();
	for (int i = 0; i < 4; i++)
		add(0, 1, 1);
	CHECK_INT(workload_link(&w, parent, child, 3, &err), ERR_NONE);
	CHECK_INT(w.child_at[1] - w.child_at[0], 2);
	CHECK_INT(w.child[w.child_at[0]], 2);
	CHECK_INT(w.child[w.child_at[0] + 1], 3);
	CHECK_INT(w.child_at[2] - w.child_at[1], 1);
	CHECK_INT(w.n_parents[2], 2);
	CHECK_INT(w.n_parents[3], 1);
	CHECK_INT(w.n_parents[0], 0);
	workload_free(&w);
}

static void cycles_and_strangers_are_refused(void)
{
	static const struct {
		int32_t parent[3], child[3], n;
	} bad[] = {
		{{0, 1, 2}, {1, 2, 0}, 3},
		{{1}, {1}, 1},
		{{0}, {9}, 1},
		{{-1}, {0}, 1},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		begin();
		for (int k = 0; k < 3; k++)
			add(0, 1, 1);
		CHECK_INT(workload_link(&w, bad[i].parent, bad[i].child, bad[i].n, &err), ERR_INPUT);
		CU_ASSERT(err.text[0] != '\0');
		workload_free(&w);
	}
}

static void names_and_row_numbers(void)
{
	char buf[24];
	int64_t at;
	begin();
	add(0, 1, 1)->row = 17;
	struct spec *s = add(0, 1, 1);
	CHECK_INT(workload_add_name(&w, "conversation-4xyz", 14, &at, &err), ERR_NONE);
	s->name_at = at;
	CHECK_STR(workload_name(&w, 0, buf), "17");
	CHECK_STR(workload_name(&w, 1, buf), "conversation-4");
	workload_free(&w);
}

static void tenants_are_numbered_once(void)
{
	int32_t a, b, c;
	begin();
	CHECK_INT(workload_tenant(&w, "acme", &a, &err), ERR_NONE);
	CHECK_INT(workload_tenant(&w, "zoo", &b, &err), ERR_NONE);
	CHECK_INT(workload_tenant(&w, "acme", &c, &err), ERR_NONE);
	CHECK_INT(a, c);
	CU_ASSERT(a != b && a > 0 && b > 0);
	CHECK_STR(w.tenants[b], "zoo");
	CHECK_STR(w.tenants[0], "");
	workload_free(&w);
}

/* What each mode lets a policy assume for true lengths 0, 5, 16 and 3000; a value of the trace's own stays. */
static void max_tokens_by_mode(void)
{
	static const int32_t want[3][5] = {
		{2048, 2048, 2048, 3000, 77}, /* max, capped at 2048 but never below what happened */
		{1, 8, 16, 4096, 77}, /* pow2 */
		{1, 5, 16, 3000, 77}, /* oracle */
	};
	for (int mode = 0; mode < 3; mode++) {
		begin();
		const int32_t outputs[] = {0, 5, 16, 3000, 7};
		for (int i = 0; i < 5; i++)
			add(0, 1, outputs[i]);
		w.specs[4].max_tokens = 77;
		workload_set_max_tokens(&w, (enum max_tokens_mode)mode, 2048);
		for (int i = 0; i < 5; i++)
			CHECK_INT(w.specs[i].max_tokens, want[mode][i]);
		CHECK_INT(w.oracle, mode == MAX_TOKENS_ORACLE);
		workload_free(&w);
	}
}

static uint64_t hash_with(int what)
{
	const int32_t parent[] = {0}, child[] = {1};
	begin();
	struct spec *s = add(what == 1, 4 + (what == 2), 5 + (what == 3));
	s->priority = what == 4;
	s->max_tokens = what == 5;
	s->output_id = what == 6;
	s->session = what == 7 ? 3 : -1;
	share(what == 8 ? 2 : 1, what == 9 ? 3 : 2);
	add(9, 1, 1);
	if (what == 10)
		workload_link(&w, parent, child, 1, &err);
	uint64_t h = workload_hash(&w);
	workload_free(&w);
	return h;
}

static void hash_changes_with_whatever_affects_a_run(void)
{
	uint64_t h[11];
	for (int i = 0; i < 11; i++) {
		h[i] = hash_with(i);
		CU_ASSERT(h[i] == hash_with(i));
		for (int k = 0; k < i; k++)
			CU_ASSERT(h[i] != h[k]);
	}
}

/* Ids 1 2 3 and 1 2 4: six, four of them distinct. */
static void ideal_hits_count_distinct_ids(void)
{
	int64_t total, distinct;
	begin();
	const uint64_t ids[] = {1, 2, 3, 1, 2, 4};
	w.hash_block = 16;
	for (int i = 0; i < 2; i++) {
		add(0, 40, 1)->n_hashes = 3;
		for (int k = 0; k < 3; k++)
			CU_ASSERT_FATAL(workload_add_hash(&w, ids[3 * i + k], &err) == ERR_NONE);
	}
	CHECK_INT(workload_ideal_hits(&w, &total, &distinct, &err), ERR_NONE);
	CHECK_INT(total, 6);
	CHECK_INT(distinct, 4);
	workload_free(&w);
}

/* How many leading pages two requests have in common, of n looked at. */
static int32_t common_pages(int32_t a, int32_t b, int32_t page, int32_t n)
{
	struct content_walk x, y;
	content_begin(&x, &w, a, page);
	content_begin(&y, &w, b, page);
	for (int32_t i = 0; i < n; i++) {
		uint64_t p = content_next(&x), q = content_next(&y);
		CU_ASSERT(p != 0 && q != 0);
		if (p != q)
			return i;
	}
	return n;
}

/* Pages of 4. Both begin with 10 tokens of content 7: two pages; the third mixes in their own. */
static void pages_are_equal_as_far_as_contents_agree(void)
{
	begin();
	add(0, 20, 4);
	share(7, 10);
	add(0, 20, 4);
	share(7, 10);
	CHECK_INT(common_pages(0, 1, 4, 5), 2);
	CHECK_INT(common_pages(0, 1, 5, 4), 2);
	CHECK_INT(common_pages(0, 1, 16, 1), 0);
	CHECK_INT(common_pages(0, 0, 4, 6), 6); /* its own outputs too */
	workload_free(&w);
}

/* The same ids in another order are other contents; a longer prompt with the same beginning shares all of it. */
static void equal_ids_at_other_places_are_other_pages(void)
{
	begin();
	add(0, 12, 1);
	share(1, 4);
	share(2, 4);
	add(0, 12, 1);
	share(2, 4);
	share(1, 4);
	add(0, 12, 1);
	share(1, 4);
	share(2, 4);
	share(3, 4);
	CHECK_INT(common_pages(0, 1, 4, 2), 0);
	CHECK_INT(common_pages(0, 2, 4, 3), 2);
	workload_free(&w);
}

/* A second turn whose prompt is the first one's prompt and output: every page of the first is found, generated ones too. */
static void generated_tokens_are_found_by_the_next_turn(void)
{
	begin();
	struct spec *s = add(0, 6, 10);
	s->output_id = 99;
	share(7, 6);
	add(0, 20, 1);
	share(7, 6);
	share(99, 10);
	add(0, 20, 1); /* the same, but nobody knows what was generated */
	share(7, 6);
	share(98, 10);
	CHECK_INT(common_pages(0, 1, 4, 4), 4);
	CHECK_INT(common_pages(0, 2, 4, 4), 1);
	workload_free(&w);
}

/* hash_block says how many tokens an id covers; the last one covers what is left of it. */
static void fixed_size_ids_cover_hash_block_tokens(void)
{
	begin();
	w.hash_block = 8;
	const uint64_t ids[] = {1, 2, 1, 2, 1, 3};
	for (int i = 0; i < 3; i++) {
		add(0, i == 1 ? 14 : 16, 1)->n_hashes = 2;
		workload_add_hash(&w, ids[2 * i], &err);
		workload_add_hash(&w, ids[2 * i + 1], &err);
	}
	CHECK_INT(common_pages(0, 1, 4, 4), 3); /* 14 tokens: three full pages of 4 */
	CHECK_INT(common_pages(0, 2, 4, 4), 2);
	workload_free(&w);
}

int main(void)
{
	static const struct test tests[] = {
		{"sorting_keeps_file_order_among_equals", sorting_keeps_file_order_among_equals},
		{"links_become_children_in_order", links_become_children_in_order},
		{"cycles_and_strangers_are_refused", cycles_and_strangers_are_refused},
		{"names_and_row_numbers", names_and_row_numbers},
		{"tenants_are_numbered_once", tenants_are_numbered_once},
		{"max_tokens_by_mode", max_tokens_by_mode},
		{"hash_changes_with_whatever_affects_a_run", hash_changes_with_whatever_affects_a_run},
		{"ideal_hits_count_distinct_ids", ideal_hits_count_distinct_ids},
		{"pages_are_equal_as_far_as_contents_agree", pages_are_equal_as_far_as_contents_agree},
		{"equal_ids_at_other_places_are_other_pages", equal_ids_at_other_places_are_other_pages},
		{"generated_tokens_are_found_by_the_next_turn", generated_tokens_are_found_by_the_next_turn},
		{"fixed_size_ids_cover_hash_block_tokens", fixed_size_ids_cover_hash_block_tokens},
	};
	return SUITE_RUN("core_workload", tests);
}
