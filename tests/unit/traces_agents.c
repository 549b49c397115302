/* Workflows made up for agents: their shape, what they share, and that a seed makes them. */
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/workload.h"
#include "tests/support/suite.h"
#include "traces/generate_agents.h"
#include "traces/reader.h"
#include "traces/writer.h"

static struct workload w;
static struct generate_agents g;
static struct err e;

static void make(void)
{
	workload_free(&w);
	err_clear(&e);
	CHECK_INT(generate_agents(&w, &g, &e), ERR_NONE);
	CHECK_STR(e.text, "");
	CU_ASSERT_FATAL(w.n == g.workflows * g.branches * g.rounds * g.depth);
}

static void small(void)
{
	generate_agents_default(&g);
	g.workflows = 3;
	g.branches = 4;
	g.rounds = 2;
	g.depth = 3;
	g.tool = (struct dist){.kind = DIST_FIXED, .a = 1.5, .hi = 10};
}

static int64_t find(const char *name)
{
	char buf[24];
	for (int64_t i = 0; i < w.n; i++)
		if (!strcmp(workload_name(&w, i, buf), name))
			return i;
	CU_FAIL_FATAL("no request of that name");
	return 0;
}

static bool waits(int64_t child, int64_t parent)
{
	for (int64_t k = w.child_at[parent]; k < w.child_at[parent + 1]; k++)
		if (w.child[k] == child)
			return true;
	return false;
}

/* Whether b's prompt begins with all of a's prompt and then a's answer. */
static bool goes_on_from(int64_t b, int64_t a)
{
	const struct spec *x = &w.specs[a], *y = &w.specs[b];
	if (y->n_hashes != x->n_hashes + 2 || w.hash_ids[y->hash_at + x->n_hashes] != x->output_id || !x->output_id)
		return false;
	return !memcmp(&w.hash_ids[x->hash_at], &w.hash_ids[y->hash_at], (size_t)x->n_hashes * sizeof *w.hash_ids) &&
	       w.seg_tokens[y->hash_at + x->n_hashes] == x->output_tokens;
}

static void proposals_share_one_prompt(void)
{
	small();
	make();
	const struct spec *a = &w.specs[find("2/1.1.1")], *b = &w.specs[find("2/1.1.4")],
			  *c = &w.specs[find("3/1.1.1")];
	CHECK_INT(a->prompt_tokens, b->prompt_tokens);
	CHECK_INT(a->n_hashes, 2);
	CU_ASSERT(!memcmp(&w.hash_ids[a->hash_at], &w.hash_ids[b->hash_at], 2 * sizeof *w.hash_ids));
	CHECK_INT(w.hash_ids[a->hash_at], (long long)w.hash_ids[c->hash_at]);
	CHECK_INT(w.seg_tokens[a->hash_at], g.system_tokens);
	CU_ASSERT(w.hash_ids[a->hash_at + 1] != w.hash_ids[c->hash_at + 1]);
	CHECK_INT(w.n_parents[find("2/1.1.1")], 0);
	CHECK_INT(a->arrival_ns, b->arrival_ns);
}

static void reviews_follow_their_own_proposal(void)
{
	small();
	make();
	for (int i = 1; i <= 4; i++) {
		char from[24], to[24];
		snprintf(from, sizeof from, "1/1.1.%d", i);
		snprintf(to, sizeof to, "1/1.2.%d", i);
		int64_t p = find(from), r = find(to);
		CHECK_INT(w.n_parents[r], 1);
		CU_ASSERT_TRUE(waits(r, p) && goes_on_from(r, p));
		CHECK_INT(w.specs[r].prompt_tokens, w.specs[p].prompt_tokens + w.specs[p].output_tokens + 16);
		CHECK_INT(w.specs[r].arrival_ns, 1500 * NS_PER_MS);
	}
}

static void levels_join_all_branches_and_go_on_from_one(void)
{
	small();
	make();
	int64_t next = find("1/2.1.3");
	int from = 0;
	CHECK_INT(w.n_parents[next], 4);
	for (int i = 1; i <= 4; i++) {
		char name[24];
		snprintf(name, sizeof name, "1/1.2.%d", i);
		CU_ASSERT_TRUE(waits(next, find(name)));
		from += goes_on_from(next, find(name));
	}
	CHECK_INT(from, 1);
	CHECK_INT(w.child_at[w.n], 3 * (3 * 4 + 2 * 16));
}

static void a_seed_makes_the_same_and_reads_back(void)
{
	struct workload again = {0};
	struct writer_loss loss;
	small();
	g.start.seed = 5;
	make();
	uint64_t hash = workload_hash(&w);
	const char *path = temp_path("agents.jsonl");
	CHECK_INT(writer_file(path, WRITER_LOCKSTEP, &w, &loss, &e), ERR_NONE);
	CHECK_INT(trace_load(path, NULL, &again, NULL, &e), ERR_NONE);
	CHECK_STR(e.text, "");
	CHECK_INT(workload_hash(&again), (long long)hash);
	workload_free(&again);
	make();
	CHECK_INT(workload_hash(&w), (long long)hash);
	g.start.seed = 6;
	make();
	CU_ASSERT(workload_hash(&w) != hash);
}

static void changing_reviews_leaves_proposals(void)
{
	small();
	make();
	int64_t i = find("3/1.1.2");
	struct spec before = w.specs[i];
	g.review = (struct dist){.kind = DIST_FIXED, .a = 7, .hi = 10};
	make();
	CHECK_INT(w.specs[find("3/1.1.2")].output_tokens, before.output_tokens);
	CHECK_INT(w.specs[find("3/1.1.2")].prompt_tokens, before.prompt_tokens);
	CHECK_INT(w.specs[find("3/1.1.2")].arrival_ns, before.arrival_ns);
	CHECK_INT(w.specs[find("3/1.2.2")].output_tokens, 7);
}

static void defaults_fit_1024_tokens(void)
{
	generate_agents_default(&g);
	make();
	for (int64_t i = 0; i < w.n; i++)
		CU_ASSERT(w.specs[i].prompt_tokens + w.specs[i].output_tokens <= 1024);
}

static void too_many_are_refused(void)
{
	generate_agents_default(&g);
	g.workflows = 1 << 30;
	workload_free(&w);
	CHECK_INT(generate_agents(&w, &g, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "are too many"));
	generate_agents_default(&g);
	g.branches = 1 << 20; /* the joins alone are 2^40 links */
	g.depth = 2;
	err_clear(&e);
	CHECK_INT(generate_agents(&w, &g, &e), ERR_INPUT);
	generate_agents_default(&g);
	g.depth = 0;
	err_clear(&e);
	CHECK_INT(generate_agents(&w, &g, &e), ERR_INPUT);
	CHECK_INT(w.n, 0);
}

static const struct test tests[] = {
	{"proposals_share_one_prompt", proposals_share_one_prompt},
	{"reviews_follow_their_own_proposal", reviews_follow_their_own_proposal},
	{"levels_join_all_branches_and_go_on_from_one", levels_join_all_branches_and_go_on_from_one},
	{"a_seed_makes_the_same_and_reads_back", a_seed_makes_the_same_and_reads_back},
	{"changing_reviews_leaves_proposals", changing_reviews_leaves_proposals},
	{"defaults_fit_1024_tokens", defaults_fit_1024_tokens},
	{"too_many_are_refused", too_many_are_refused},
};

int main(void)
{
	int failed = SUITE_RUN("traces_agents", tests);
	workload_free(&w);
	return failed;
}
