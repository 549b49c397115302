/* lockstep policies: what there is to choose from, with every parameter. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/plugin.h"
#include "cli/command.h"
#include "core/err.h"
#include "policies/registry.h"

struct policies_opts {
	bool json;
};

static const struct opt opts[] = {
	{.name = "json",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct policies_opts, json),
	 .help = "Print one JSON object: {\"policies\": [{name, aliases, help, about, parameters: [...]}]}."},
};

static const char *const type_names[] = {
	[PARAM_INT] = "integer", [PARAM_FLOAT] = "number",      [PARAM_BOOL] = "on|off",
	[PARAM_ENUM] = "choice", [PARAM_DURATION] = "duration",
};

static void print_range(const struct policy_param *p)
{
	if (p->type == PARAM_BOOL)
		fputs("on|off", stdout);
	else if (p->type == PARAM_ENUM)
		for (int i = 0; p->choices[i]; i++)
			printf("%s%s", i ? "|" : "", p->choices[i]);
	else if (p->min == 0 && p->max == 0)
		fputs(type_names[p->type], stdout);
	else
		printf("%s, %.10g to %.10g%s", type_names[p->type], p->min, p->max,
		       p->type == PARAM_DURATION ? " s" : "");
}

static void print_policy(const struct policy_desc *d, bool about)
{
	fputs(d->name, stdout);
	for (int32_t i = 0; d->aliases && d->aliases[i]; i++)
		printf("%s%s", i ? ", " : ", also called ", d->aliases[i]);
	printf("\n    %s\n", d->help);
	if (about && d->about)
		printf("\n    %s\n", d->about);
	const struct plugin *plugin = plugin_of(d);
	if (plugin)
		printf("\n    a plug-in: %s, digest %s\n", plugin->path, plugin->digest);
	for (int32_t i = 0; i < d->n_params; i++) {
		const struct policy_param *p = &d->params[i];
		printf("\n    %s=%s  (", p->name, p->fallback);
		print_range(p);
		printf(")\n        %s\n", p->help);
	}
	putchar('\n');
}

/* --- JSON ----------------------------------------------------------------------------------------------------- */

static json_t *param_json(const struct policy_param *p)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "name", p->name, "type", type_names[p->type], "default",
			      p->fallback, "help", p->help);
	bool number = p->type == PARAM_INT || p->type == PARAM_FLOAT || p->type == PARAM_DURATION;
	if (o && number && (p->min != 0 || p->max != 0) && isfinite(p->min) && isfinite(p->max)) {
		json_object_set_new(o, "min", json_real(p->min));
		json_object_set_new(o, "max", json_real(p->max));
	}
	if (o && p->type == PARAM_ENUM) {
		json_t *choices = json_array();
		for (int i = 0; p->choices[i]; i++)
			json_array_append_new(choices, json_string(p->choices[i]));
		json_object_set_new(o, "choices", choices);
	}
	return o;
}

static json_t *policy_json(const struct policy_desc *d)
{
	json_t *params = json_array(), *aliases = json_array();
	for (int32_t i = 0; d->aliases && d->aliases[i]; i++)
		json_array_append_new(aliases, json_string(d->aliases[i]));
	for (int32_t i = 0; i < d->n_params; i++)
		json_array_append_new(params, param_json(&d->params[i]));
	json_t *o = json_pack("{s:s, s:o, s:s, s:s, s:o}", "name", d->name, "aliases", aliases, "help", d->help,
			      "about", d->about ? d->about : "", "parameters", params);
	const struct plugin *plugin = plugin_of(d);
	if (o && plugin) {
		json_object_set_new(o, "path", json_string(plugin->path));
		json_object_set_new(o, "digest", json_string(plugin->digest));
	}
	return o;
}

static int print_json(const struct policy_desc *only, struct err *e)
{
	json_t *list = json_array();
	for (int32_t i = 0; !only && i < policy_count(); i++)
		json_array_append_new(list, policy_json(policy_at(i)));
	if (only)
		json_array_append_new(list, policy_json(only));
	json_t *all = json_pack("{s:o}", "policies", list);
	char *text = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
	json_decref(all);
	if (!text)
		return err_no_memory(e, "JSON");
	puts(text);
	free(text); /* jansson's own allocation */
	return ERR_NONE;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct policies_opts o = {0};
	struct err e = {0};
	const struct policy_desc *only = NULL;
	int n;
	int rc = opts_parse(opts, c->n_opts, &o, argc, argv, &n, NULL, &e);
	if (rc == ERR_NONE && n > 1)
		rc = err_set(&e, ERR_INPUT, "one name at a time: \"%s\" is one too many", argv[2]);
	if (rc == ERR_NONE && n == 1)
		rc = policy_or_plugin(&only, argv[1], &e);
	if (rc == ERR_NONE && n == 0 && c == &cmd_policy_show)
		rc = err_set(&e, ERR_INPUT, "which one? `lockstep policy list` names them");
	if (rc == ERR_NONE && n && c == &cmd_policy_list)
		rc = err_set(&e, ERR_INPUT, "\"%s\": it takes no words; `lockstep policy show %s` tells about one",
			     argv[1], argv[1]);
	if (rc == ERR_NONE && o.json)
		rc = print_json(only, &e);
	if (rc != ERR_NONE)
		return command_fail(c, &e);
	for (int32_t i = 0; !o.json && !only && i < policy_count(); i++)
		print_policy(policy_at(i), false);
	if (!o.json && only)
		print_policy(only, true);
	if (!o.json && !only)
		printf("`lockstep policy show NAME` tells what a policy follows. Parameters are given as\n"
		       "--policy NAME:PARAM=VALUE,PARAM=VALUE. `lockstep policy new NAME` writes one of your own.\n");
	return 0;
}

const struct command cmd_policies = {
	.name = "policies",
	.synopsis = "[--json] [NAME | ./MINE.so]",
	.summary = "List the scheduling policies and their parameters",
	.about = "Lists every scheduling policy with its parameters, their defaults and ranges; with a NAME, or the "
		 "file of a plug-in, that policy and what it follows. The same as `lockstep policy list` and "
		 "`lockstep policy show`.",
	.examples = "lockstep policies vllm_v1\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};

const struct command cmd_policy_list = {
	.name = "policy list",
	.synopsis = "[--json]",
	.summary = "List the scheduling policies and their parameters",
	.about = "Lists every built-in scheduling policy with its parameters, their defaults and ranges.",
	.examples = "lockstep policy list\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};

const struct command cmd_policy_show = {
	.name = "policy show",
	.synopsis = "[--json] NAME | ./MINE.so",
	.summary = "Tell about one policy: its parameters and what it follows",
	.about = "Tells about one policy, by its name or, for a plug-in, by its file: its parameters, their defaults "
		 "and ranges, what it follows and where it differs.",
	.examples = "lockstep policy show vllm_v1\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
