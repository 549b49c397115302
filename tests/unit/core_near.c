#include "core/near.h"

#include <string.h>

#include "tests/support/suite.h"

static const char *suggest(const char *word)
{
	static const char *const names[] = {"naive",        "continuous",    "chunked",
					    "max-num-seqs", "max-model-len", "block-size",
					    "h100-sxm",     "h200-sxm",      "enable-prefix-caching"};
	static char text[256];
	struct near_match m;
	near_begin(&m, word);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		near_offer(&m, names[i]);
	return near_text(&m, text, sizeof text);
}

static void finds_a_slip_of_the_finger(void)
{
	CHECK_STR(suggest("naiv"), " (did you mean naive?)");
	CHECK_STR(suggest("chunkde"), " (did you mean chunked?)");
	CHECK_STR(suggest("max-nun-seq"), " (did you mean max-num-seqs?)");
}

static void underscores_and_capitals_cost_nothing(void)
{
	CHECK_STR(suggest("MAX_NUM_SEQS"), " (did you mean max-num-seqs?)");
}

static void nearest_comes_first_and_ties_keep_their_order(void)
{
	CHECK_STR(suggest("h200-sxn"), " (did you mean h200-sxm or h100-sxm?)");
	CHECK_STR(suggest("h300-sxm"), " (did you mean h100-sxm or h200-sxm?)");
}

static void half_a_name_is_enough(void)
{
	CHECK_STR(suggest("prefix-caching"), " (did you mean enable-prefix-caching?)");
}

static void nothing_near_suggests_nothing(void)
{
	CHECK_STR(suggest("zzzzz"), "");
	CHECK_STR(suggest(""), "");
}

static void names_of_any_length_stay_within_bounds(void)
{
	char longer[400];
	memset(longer, 'a', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	struct near_match m;
	char small[24];
	near_begin(&m, longer);
	near_offer(&m, longer);
	near_text(&m, small, sizeof small);
	CU_ASSERT(strlen(small) < sizeof small);
	CHECK_INT(m.n, 1);
}

int main(void)
{
	static const struct test tests[] = {
		{"finds_a_slip_of_the_finger", finds_a_slip_of_the_finger},
		{"underscores_and_capitals_cost_nothing", underscores_and_capitals_cost_nothing},
		{"nearest_comes_first_and_ties_keep_their_order", nearest_comes_first_and_ties_keep_their_order},
		{"half_a_name_is_enough", half_a_name_is_enough},
		{"nothing_near_suggests_nothing", nothing_near_suggests_nothing},
		{"names_of_any_length_stay_within_bounds", names_of_any_length_stay_within_bounds},
	};
	return SUITE_RUN("core_near", tests);
}
