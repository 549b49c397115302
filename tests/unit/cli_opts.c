#include <math.h>
#include <string.h>

#include "cli/command.h"
#include "core/err.h"
#include "tests/support/suite.h"

struct sample {
	bool check, kv;
	int32_t seqs, order;
	int64_t prompts;
	uint64_t seed;
	double rate;
	const char *path, *list, *sw;
	struct words goodput;
};

static const char *const orders[] = {"fcfs", "priority", NULL};
#define AT(f) offsetof(struct sample, f)
static const struct opt opts[] = {
	{.name = "A heading", .type = OPT_TITLE},
	{.name = "check", .type = OPT_FLAG, .offset = AT(check)},
	{.name = "kv-cache", .type = OPT_ONOFF, .offset = AT(kv)},
	{.name = "max-num-seqs", .type = OPT_INT32, .offset = AT(seqs), .arg = "N", .min = 1, .max = 1024},
	{.name = "num-prompts", .type = OPT_INT64, .offset = AT(prompts), .arg = "N"},
	{.name = "seed", .type = OPT_UINT64, .offset = AT(seed), .arg = "N"},
	{.name = "request-rate", .type = OPT_DOUBLE, .offset = AT(rate), .arg = "R", .min = 0, .max = INFINITY},
	{.name = "output", .type = OPT_STRING, .offset = AT(path), .arg = "FILE", .letter = 'o', .alias = "out"},
	{.name = "scheduling-policy", .type = OPT_CHOICE, .offset = AT(order), .choices = orders},
	{.name = "blocks", .type = OPT_LIST, .offset = AT(list), .arg = "N"},
	{.name = "prefix-caching", .type = OPT_SWITCH, .offset = AT(sw)},
	{.name = "goodput", .type = OPT_WORDS, .offset = AT(goodput), .arg = "METRIC:MS"},
};
#define N_OPTS ((int)(sizeof opts / sizeof *opts))

static struct sample got;
static struct err err;
static char *argv[32];
static int n_words;
static bool given[N_OPTS];

/* Parses words separated by blanks. */
static int parse(const char *line)
{
	static char text[512];
	int argc = 1;
	got = (struct sample){.kv = true, .seqs = 256};
	err = (struct err){0};
	snprintf(text, sizeof text, "%s", line);
	memset(argv, 0, sizeof argv);
	argv[0] = (char *)"test";
	for (char *w = strtok(text, " "); w; w = strtok(NULL, " "))
		argv[argc++] = w;
	return opts_parse(opts, N_OPTS, &got, argc, argv, &n_words, given, &err);
}

static void a_flag_may_be_said_in_a_word_as_experiments_do(void)
{
	CHECK_INT(parse("--check on trace.csv"), ERR_NONE);
	CU_ASSERT_TRUE(got.check);
	CHECK_INT(n_words, 1);
	CHECK_INT(parse("--check --check off"), ERR_NONE);
	CU_ASSERT_FALSE(got.check);
	CHECK_INT(parse("--check one"), ERR_NONE);
	CU_ASSERT_TRUE(got.check);
	CHECK_INT(n_words, 1);
	CHECK_STR(argv[1], "one");
}

static void every_type_is_parsed(void)
{
	CHECK_INT(parse("--check --kv-cache off --max-num-seqs=64 --num-prompts 5000000000 --seed 18446744073709551615 "
			"--request-rate 1.5 --out x.json --scheduling-policy priority --blocks 1,2"),
		  ERR_NONE);
	CU_ASSERT(got.check && !got.kv);
	CHECK_INT(got.seqs, 64);
	CHECK_INT(got.prompts, 5000000000);
	CU_ASSERT(got.seed == UINT64_MAX);
	CHECK_NEAR(got.rate, 1.5, 0);
	CHECK_STR(got.path, "x.json");
	CHECK_INT(got.order, 1);
	CHECK_STR(got.list, "1,2");
	CU_ASSERT(given[1] && given[2] && !given[0] && !given[11]);
}

static void words_and_options_may_mix(void)
{
	CHECK_INT(parse("a --goodput ttft:500 tpot:50 --check b -o - c -- --max-num-seqs"), ERR_NONE);
	CHECK_INT(n_words, 4);
	CHECK_STR(argv[1], "a");
	CHECK_STR(argv[2], "b");
	CHECK_STR(argv[3], "c");
	CHECK_STR(argv[4], "--max-num-seqs");
	CHECK_STR(got.path, "-");
	CHECK_INT(got.goodput.n, 2);
	CHECK_STR(got.goodput.at[0], "ttft:500");
	CHECK_STR(got.goodput.at[1], "tpot:50");
	CHECK_INT(parse("--goodput=ttft:1 e2el:2 --check x"), ERR_NONE);
	CHECK_INT(got.goodput.n, 2);
	CHECK_STR(got.goodput.at[0], "ttft:1");
	CHECK_STR(got.goodput.at[1], "e2el:2");
	CHECK_STR(argv[1], "x");
}

static void underscores_are_dashes(void)
{
	CHECK_INT(parse("--max_num_seqs 8 --no-kv_cache"), ERR_NONE);
	CHECK_INT(got.seqs, 8);
	CU_ASSERT(!got.kv);
}

static void a_switch_stands_alone_or_takes_on_and_off_only(void)
{
	CHECK_INT(parse("--prefix-caching trace.csv"), ERR_NONE);
	CHECK_STR(got.sw, "on");
	CHECK_INT(n_words, 1);
	CHECK_INT(parse("--prefix-caching off,on trace.csv"), ERR_NONE);
	CHECK_STR(got.sw, "off,on");
	CHECK_INT(parse("--no-prefix-caching"), ERR_NONE);
	CHECK_STR(got.sw, "off");
	CHECK_INT(parse("--prefix-caching=off"), ERR_NONE);
	CHECK_STR(got.sw, "off");
}

static void infinity_only_where_there_is_no_upper_bound(void)
{
	CHECK_INT(parse("--request-rate inf"), ERR_NONE);
	CU_ASSERT(isinf(got.rate));
	CHECK_INT(parse("--request-rate nan"), ERR_INPUT);
	CHECK_STR(err.text, "--request-rate: \"nan\" is not a number");
	CHECK_INT(parse("--request-rate -1"), ERR_INPUT);
	CHECK_STR(err.text, "--request-rate: -1 is too small: it must be at least 0");
}

static void errors_name_option_value_and_reason(void)
{
	static const struct {
		const char *line, *text;
	} cases[] = {
		{"--max-num-seq 1",
		 "unknown option --max-num-seq (did you mean --max-num-seqs?); --help lists the options"},
		{"-x", "unknown option -x; --help lists the options"},
		{"--max-num-seqs", "--max-num-seqs needs a value: --max-num-seqs N"},
		{"--max-num-seqs --check", "--max-num-seqs needs a value: --max-num-seqs N"},
		{"--max-num-seqs 12x", "--max-num-seqs: \"12x\" is not a whole number"},
		{"--max-num-seqs 0", "--max-num-seqs: 0 is not between 1 and 1024"},
		{"--max-num-seqs 99999999999", "--max-num-seqs: 99999999999 is too large a number"},
		{"--num-prompts 99999999999999999999", "--num-prompts: 99999999999999999999 is too large a number"},
		{"--seed -1", "--seed: \"-1\" is not a whole number of at least 0"},
		{"--kv-cache maybe", "--kv-cache: \"maybe\" is neither on nor off"},
		{"--scheduling-policy lifo", "--scheduling-policy: \"lifo\" is not one of fcfs, priority"},
		{"--goodput", "--goodput needs at least one METRIC:MS after it"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		CHECK_INT(parse(cases[i].line), ERR_INPUT);
		CHECK_STR(err.text, cases[i].text);
	}
}

static void the_last_of_two_counts(void)
{
	CHECK_INT(parse("--max-num-seqs 1 --max-num-seqs 2"), ERR_NONE);
	CHECK_INT(got.seqs, 2);
}

static void one_value_can_be_set_alone(void)
{
	err = (struct err){0};
	CHECK_INT(opt_set(&opts[3], "77", &got, &err), ERR_NONE);
	CHECK_INT(got.seqs, 77);
	CHECK_INT(opt_set(&opts[3], "7.7", &got, &err), ERR_INPUT);
}

int main(void)
{
	static const struct test tests[] = {
		{"a_flag_may_be_said_in_a_word_as_experiments_do", a_flag_may_be_said_in_a_word_as_experiments_do},
		{"every_type_is_parsed", every_type_is_parsed},
		{"words_and_options_may_mix", words_and_options_may_mix},
		{"underscores_are_dashes", underscores_are_dashes},
		{"a_switch_stands_alone_or_takes_on_and_off_only", a_switch_stands_alone_or_takes_on_and_off_only},
		{"infinity_only_where_there_is_no_upper_bound", infinity_only_where_there_is_no_upper_bound},
		{"errors_name_option_value_and_reason", errors_name_option_value_and_reason},
		{"the_last_of_two_counts", the_last_of_two_counts},
		{"one_value_can_be_set_alone", one_value_can_be_set_alone},
	};
	return SUITE_RUN("cli_opts", tests);
}
