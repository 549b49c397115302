/* What a descriptor that somebody else compiled must have, one fault at a time. */
#include <math.h>
#include <string.h>

#include "core/err.h"
#include "policies/registry.h"
#include "policies/schema.h"
#include "tests/support/suite.h"

static int create(void **self, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	(void)values, (void)setup, (void)traits, (void)e;
	*self = NULL;
	return 0;
}

static void destroy(void *self)
{
	(void)self;
}

static void plan(void *self, struct plan *p)
{
	(void)self, (void)p;
}

static const char *const choices[] = {"low", "high", NULL};

static struct policy_param params[] = {
	{"depth", PARAM_INT, "2", 0, 10, NULL, "levels"},
	{"share", PARAM_FLOAT, "0.5", 0, 1, NULL, "of the blocks"},
	{"fast", PARAM_BOOL, "on", 0, 0, NULL, "or not"},
	{"how", PARAM_ENUM, "low", 0, 0, choices, "which way"},
	{"wait", PARAM_DURATION, "20ms", 0, 10, NULL, "at most"},
};
enum { N_PARAMS = sizeof params / sizeof *params };

static struct policy_desc good(void)
{
	return (struct policy_desc){.abi = POLICY_ABI,
				    .size = sizeof(struct policy_desc),
				    .name = "mine",
				    .help = "one line",
				    .params = params,
				    .n_params = N_PARAMS,
				    .create = create,
				    .destroy = destroy,
				    .plan = plan};
}

static void refused(const struct policy_desc *d, const char *text)
{
	struct err e = {0};
	CHECK_INT(policy_check_desc(d, "mine.so", &e), ERR_INPUT);
	if (!strstr(e.text, text) || strncmp(e.text, "mine.so: ", 9) != 0 || strchr(e.text, '\n'))
		CHECK_STR(e.text, text);
}

static void every_built_in_policy_passes(void)
{
	const struct policy_desc d = good();
	struct err e = {0};
	CHECK_INT(policy_check_desc(&d, "mine.so", &e), ERR_NONE);
	for (int32_t i = 0; i < policy_count(); i++) {
		CHECK_INT(policy_check_desc(policy_at(i), policy_at(i)->name, &e), ERR_NONE);
		CHECK_STR(e.text, "");
	}
}

static void another_interface_is_refused_before_anything_is_looked_at(void)
{
	struct policy_desc d = {.abi = POLICY_ABI + 1, .size = 8, .name = (const char *)16, .n_params = -7};
	refused(&d, "version 2 of the policy interface");
	d.abi = POLICY_ABI;
	refused(&d, "has 8 bytes");
}

static void names_and_functions_are_needed(void)
{
	struct policy_desc d = good();
	d.name = NULL;
	refused(&d, ".name must be");
	d.name = "";
	refused(&d, ".name must be");
	d.name = "a/b";
	refused(&d, "it is \"a/b\"");
	d.name = "much_too_long_a_name_much_too_long_a_name_much_too_long";
	refused(&d, ".name must be");
	d = good();
	d.aliases = (const char *const[]){"fine", "not fine", NULL};
	refused(&d, ".aliases[1]");
	d = good();
	d.help = NULL;
	refused(&d, ".help is missing");
	d = good();
	d.create = NULL;
	refused(&d, ".create is NULL");
	d = good();
	d.destroy = NULL;
	refused(&d, ".destroy is NULL");
	d = good();
	d.plan = NULL;
	refused(&d, ".plan is NULL");
	d = good();
	d.n_params = -1;
	refused(&d, ".n_params is -1");
	d.n_params = POLICY_PARAMS_MAX + 1;
	refused(&d, ".n_params is 33");
	d = good();
	d.params = NULL;
	refused(&d, "without .params");
}

/* One parameter is changed; it is the last of the five. */
static void refused_param(struct policy_param p, const char *text)
{
	struct policy_param changed[N_PARAMS];
	struct policy_desc d = good();
	memcpy(changed, params, sizeof changed);
	changed[N_PARAMS - 1] = p;
	d.params = changed;
	refused(&d, text);
}

static void parameters_make_sense(void)
{
	static const char *const twice[] = {"a", "b", "a", NULL}, *const none[] = {NULL}, *const odd[] = {"a,b", NULL};
	refused_param((struct policy_param){NULL, PARAM_INT, "1", 0, 1, NULL, "x"}, ".params[4].name");
	refused_param((struct policy_param){"a=b", PARAM_INT, "1", 0, 1, NULL, "x"}, "it is a=b");
	refused_param((struct policy_param){"depth", PARAM_INT, "1", 0, 1, NULL, "x"}, "two parameters called depth");
	refused_param((struct policy_param){"p", (enum param_type)17, "1", 0, 1, NULL, "x"}, "no known .type: 17");
	refused_param((struct policy_param){"p", PARAM_INT, "1", 0, 1, NULL, NULL}, "has no .help");
	refused_param((struct policy_param){"p", PARAM_INT, "1", 2, 1, NULL, "x"}, ".min 2 is not at most .max 1");
	refused_param((struct policy_param){"p", PARAM_FLOAT, "1", NAN, 1, NULL, "x"}, "is not at most");
	refused_param((struct policy_param){"p", PARAM_INT, "1", 0, 1e300, NULL, "x"}, "goes beyond");
	refused_param((struct policy_param){"p", PARAM_DURATION, "1s", -1, 1, NULL, "x"}, "cannot be -1");
	refused_param((struct policy_param){"p", PARAM_INT, NULL, 0, 1, NULL, "x"}, "has no default");
	refused_param((struct policy_param){"p", PARAM_INT, "2", 0, 1, NULL, "x"}, "the default is not a value itself");
	refused_param((struct policy_param){"p", PARAM_INT, "0.5", 0, 1, NULL, "x"}, "whole number from 0 to 1");
	refused_param((struct policy_param){"p", PARAM_BOOL, "maybe", 0, 0, NULL, "x"}, "on or off");
	refused_param((struct policy_param){"p", PARAM_DURATION, "5", 0, 9, NULL, "x"}, "a time such as");
	refused_param((struct policy_param){"p", PARAM_ENUM, "a", 0, 0, NULL, "x"}, "without .choices");
	refused_param((struct policy_param){"p", PARAM_ENUM, "a", 0, 0, none, "x"}, "without .choices");
	refused_param((struct policy_param){"p", PARAM_ENUM, "a", 0, 0, twice, "x"}, "has the choice \"a\" twice");
	refused_param((struct policy_param){"p", PARAM_ENUM, "a,b", 0, 0, odd, "x"}, "is no name");
	refused_param((struct policy_param){"p", PARAM_ENUM, "c", 0, 0, choices, "x"}, "one of low high");
}

/* A plug-in sees these structs. Whoever changes one raises POLICY_ABI, and then the figures here. */
static void the_interface_has_not_changed_under_its_number(void)
{
	CHECK_INT(POLICY_ABI, 1);
	CHECK_INT(sizeof(struct policy_desc), 96);
	CHECK_INT(sizeof(struct policy_param), 56);
	CHECK_INT(sizeof(struct policy_setup), 36);
	CHECK_INT(sizeof(struct policy_traits), 32);
	CHECK_INT(sizeof(struct admit_options), 24);
	CHECK_INT(PLAN_BAD, 4);
	CHECK_INT(PARAM_DURATION, 4);
	CHECK_INT(QUEUE_ORDERS, 6);
	CHECK_INT(WAIT_CAUSES, 6);
}

int main(void)
{
	static const struct test tests[] = {
		{"every_built_in_policy_passes", every_built_in_policy_passes},
		{"another_interface_is_refused_before_anything_is_looked_at",
		 another_interface_is_refused_before_anything_is_looked_at},
		{"names_and_functions_are_needed", names_and_functions_are_needed},
		{"parameters_make_sense", parameters_make_sense},
		{"the_interface_has_not_changed_under_its_number", the_interface_has_not_changed_under_its_number},
	};
	return SUITE_RUN("policies_schema", tests);
}
