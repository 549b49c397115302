/* Experiment files: which points they make, in which order, what two points share, what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/store.h"
#include "analysis/store_sweep.h"
#include "analysis/sweep_plan.h"
#include "core/err.h"
#include "core/mem.h"
#include "tests/support/suite.h"

static void must_parse(struct sweep_plan *p, const char *text)
{
	struct err e = {0};
	int rc = sweep_plan_parse(p, text, "x.json", &e);
	if (rc)
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
}

/* All words of a point with spaces between. */
static const char *line(const struct sweep_point *p)
{
	static char buf[4096];
	int64_t n = 0;
	buf[0] = '\0';
	for (int32_t i = 0; i < p->n_words; i++)
		n += snprintf(buf + n, sizeof buf - (size_t)n, "%s%s", i ? " " : "", p->words[i]);
	return buf;
}

static void a_grid_varies_its_last_flag_fastest(void)
{
	struct sweep_plan p;
	must_parse(&p,
		   "{\"name\": \"g\", \"base\": {\"model\": \"m\", \"goodput\": [\"ttft:500\", \"tpot:50\"]},"
		   " \"grid\": {\"policy\": [\"naive\", \"chunked\"], \"max-num-seqs\": [8, 16, 32]}, \"seeds\": 2}");
	CHECK_INT(p.n, 12);
	CHECK_STR(line(&p.points[0]), "--model m --goodput ttft:500 tpot:50 --policy naive --max-num-seqs 8 --seed 0");
	CHECK_STR(line(&p.points[1]), "--model m --goodput ttft:500 tpot:50 --policy naive --max-num-seqs 8 --seed 1");
	CHECK_STR(line(&p.points[2]), "--model m --goodput ttft:500 tpot:50 --policy naive --max-num-seqs 16 --seed 0");
	CHECK_STR(line(&p.points[11]),
		  "--model m --goodput ttft:500 tpot:50 --policy chunked --max-num-seqs 32 --seed 1");
	CHECK_INT(p.n_varied, 3);
	CHECK_STR(p.varied[0], "policy");
	char buf[100];
	CHECK_STR(sweep_point_value(&p.points[3], "goodput", buf, sizeof buf), "ttft:500 tpot:50");
	CU_ASSERT_PTR_NULL(sweep_point_value(&p.points[3], "good", buf, sizeof buf));
	sweep_plan_free(&p);
}

static void lists_are_sets_of_flags_and_later_values_win(void)
{
	struct sweep_plan p;
	must_parse(&p, "{\"name\": \"l\", \"base\": {\"policy\": \"naive\", \"kv-cache\": true, \"request-rate\": 2.5},"
		       " \"list\": [{\"policy\": \"chunked\", \"max-num-seqs\": 4}, {\"kv-cache\": false}],"
		       " \"seeds\": [7]}");
	CHECK_INT(p.n, 2);
	CHECK_STR(line(&p.points[0]), "--kv-cache on --request-rate 2.5 --policy chunked --max-num-seqs 4 --seed 7");
	CHECK_STR(line(&p.points[1]), "--policy naive --request-rate 2.5 --kv-cache off --seed 7");
	CHECK_INT(p.n_varied, 3);
	sweep_plan_free(&p);
}

static void random_points_keep_to_their_space_and_come_again(void)
{
	static const char text[] =
		"{\"name\": \"r\", \"random\": {\"points\": 500, \"seed\": 3, \"space\": {"
		"\"max-num-seqs\": {\"min\": 1, \"max\": 1024, \"scale\": \"log\"}, \"request-rate\": {\"min\": 0.5, "
		"\"max\": 8}, \"policy\": [\"naive\", \"chunked\"]}}}";
	struct sweep_plan p, again;
	char buf[64];
	int small = 0, naive = 0;
	double sum = 0;
	must_parse(&p, text);
	must_parse(&again, text);
	CHECK_INT(p.n, 500);
	for (int64_t i = 0; i < p.n; i++) {
		CHECK_STR(line(&p.points[i]), strcpy((char[4096]){0}, line(&again.points[i])));
		long seqs = strtol(sweep_point_value(&p.points[i], "max-num-seqs", buf, sizeof buf), NULL, 10);
		CU_ASSERT(seqs >= 1 && seqs <= 1024);
		small += seqs < 32;
		double rate = atof(sweep_point_value(&p.points[i], "request-rate", buf, sizeof buf));
		CU_ASSERT(rate >= 0.5 && rate <= 8);
		sum += rate;
		naive += !strcmp(sweep_point_value(&p.points[i], "policy", buf, sizeof buf), "naive");
	}
	/* 32 is the middle of a logarithmic scale; standard deviations are 11 points, 0.1 and 11. */
	CU_ASSERT(small > 200 && small < 300);
	CU_ASSERT(naive > 200 && naive < 300);
	CHECK_NEAR(sum / 500, 4.25, 0.4);
	sweep_plan_free(&p);
	sweep_plan_free(&again);
}

static void a_point_is_known_by_what_it_is(void)
{
	struct sweep_plan a, b;
	struct err e = {0};
	char text[1000];
	const char *trace = temp_file("t.csv", "1,2,3\n");
	snprintf(text, sizeof text,
		 "{\"name\": \"a\", \"base\": {\"dataset-path\": \"%s\", \"model\": \"m\"}, \"grid\": "
		 "{\"policy\": [\"naive\", \"chunked\"]}}",
		 trace);
	must_parse(&a, text);
	snprintf(text, sizeof text,
		 "{\"name\": \"b\", \"base\": {\"policy\": \"chunked\"}, \"list\": [{\"model\": \"m\"}, "
		 "{\"model\": \"n\"}], \"grid\": {\"dataset-path\": [\"%s\"]}}",
		 trace);
	must_parse(&b, text);
	CHECK_INT(sweep_plan_keys(&a, &e), ERR_NONE);
	CHECK_INT(sweep_plan_keys(&b, &e), ERR_NONE);
	CU_ASSERT(a.points[1].key == b.points[0].key);
	CU_ASSERT(a.points[0].key != a.points[1].key && b.points[0].key != b.points[1].key);
	uint64_t before = a.points[1].key;
	temp_file("t.csv", "1,2,4\n");
	CHECK_INT(sweep_plan_keys(&a, &e), ERR_NONE);
	CU_ASSERT(a.points[1].key != before);
	sweep_plan_free(&a);
	sweep_plan_free(&b);
	must_parse(&a, "{\"name\": \"c\", \"base\": {\"dataset-path\": \"/nowhere\"}}");
	CHECK_INT(sweep_plan_keys(&a, &e), ERR_INPUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "/nowhere"));
	sweep_plan_free(&a);
}

static void bad_experiments_say_what_is_wrong(void)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"", "not JSON"},
		{"{\n\n\"name\": }", "line 3: not JSON"},
		{"[]", "not a JSON object"},
		{"{}", "\"name\" is missing"},
		{"{\"name\": \"\"}", "\"name\" is missing"},
		{"{\"name\": \"x\", \"gird\": {}}", "unknown key \"gird\""},
		{"{\"name\": \"x\", \"name\": \"y\"}", "duplicate"},
		{"{\"name\": \"x\", \"base\": []}", "\"base\" must be an object"},
		{"{\"name\": \"x\", \"base\": {\"model\": {}}}", "\"model\" must be a text"},
		{"{\"name\": \"x\", \"grid\": {\"model\": \"a\"}}", "\"model\" must be a list of values"},
		{"{\"name\": \"x\", \"grid\": {\"model\": []}}", "\"model\" must be a list of values"},
		{"{\"name\": \"x\", \"list\": {}}", "\"list\" must be a list"},
		{"{\"name\": \"x\", \"list\": [{}, 3]}", "entry 2 of \"list\""},
		{"{\"name\": \"x\", \"seeds\": 0}", "\"seeds\" must be"},
		{"{\"name\": \"x\", \"random\": {\"points\": 3}}", "random needs"},
		{"{\"name\": \"x\", \"random\": {\"points\": 3, \"space\": {\"a\": {\"min\": 3}}}}",
		 "random: \"a\" must be"},
		{"{\"name\": \"x\", \"random\": {\"points\": 3, \"space\": {\"a\": {\"min\": 0, \"max\": 2, \"scale\": "
		 "\"log\"}}}}",
		 "random: \"a\" must be"},
		{"{\"name\": \"x\", \"seeds\": 1000000, \"grid\": {\"a\": [1, 2]}}", "more than 1000000 points"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct sweep_plan p;
		struct err e = {0};
		CHECK_INT(sweep_plan_parse(&p, bad[i].text, "x.json", &e), ERR_INPUT);
		if (!strstr(e.text, bad[i].says))
			fprintf(stderr, "wanted \"%s\" in \"%s\"\n", bad[i].says, e.text);
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, bad[i].says));
		CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "x.json"));
		sweep_plan_free(&p);
	}
}

static void what_is_done_is_found_again(void)
{
	struct sweep_plan p;
	struct store *s;
	struct err e = {0};
	struct sweep_known *known;
	int64_t id, again, n, complete, failed;
	char lines[2][300];
	int32_t n_lines;
	must_parse(&p, "{\"name\": \"s\", \"grid\": {\"policy\": [\"naive\", \"chunked\"]}}");
	CHECK_INT(sweep_plan_keys(&p, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(store_open(&s, temp_path("s.db"), false, &e), ERR_NONE);
	CHECK_INT(store_sweep_begin(s, &p, 0, &id, &e), ERR_NONE);
	CHECK_INT(store_sweep_begin(s, &p, 0, &again, &e), ERR_NONE);
	CHECK_INT(again, id);
	const struct sweep_outcome bad = {.status = "failed", .text = "because", .wall_s = 1};
	CHECK_INT(store_sweep_point(s, id, 2, &p.points[1], &bad, &e), ERR_NONE);
	CHECK_INT(store_sweep_count(s, id, &complete, &failed, &e), ERR_NONE);
	CHECK_INT(complete, 0);
	CHECK_INT(failed, 1);
	CHECK_INT(store_sweep_failures(s, id, lines, 2, &n_lines, &e), ERR_NONE);
	CHECK_INT(n_lines, 1);
	CHECK_STR(lines[0], "point 2 failed: because");
	/* A point without a complete run is not done. */
	CHECK_INT(store_sweep_known(s, &known, &n, &e), ERR_NONE);
	CHECK_INT(n, 0);
	mem_free(known);
	store_close(s);
	sweep_plan_free(&p);
	struct sweep_known list[100];
	for (int i = 0; i < 100; i++)
		list[i] = (struct sweep_known){(uint64_t)i * 3, i, 0};
	for (uint64_t k = 0; k < 303; k++) {
		const struct sweep_known *found = sweep_known_find(list, 100, k);
		CU_ASSERT(k % 3 || k > 297 ? found == NULL : found == &list[k / 3]);
	}
}

int main(void)
{
	static const struct test tests[] = {
		{"a_grid_varies_its_last_flag_fastest", a_grid_varies_its_last_flag_fastest},
		{"lists_are_sets_of_flags_and_later_values_win", lists_are_sets_of_flags_and_later_values_win},
		{"random_points_keep_to_their_space_and_come_again", random_points_keep_to_their_space_and_come_again},
		{"a_point_is_known_by_what_it_is", a_point_is_known_by_what_it_is},
		{"bad_experiments_say_what_is_wrong", bad_experiments_say_what_is_wrong},
		{"what_is_done_is_found_again", what_is_done_is_found_again},
	};
	return SUITE_RUN("analysis_sweep", tests);
}
