/* lockstep policy: policies of one's own: write one, build it, check whether it is sound. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/jout.h"
#include "analysis/plugin.h"
#include "analysis/plugin_build.h"
#include "analysis/policy_check.h"
#include "cli/command.h"
#include "core/err.h"
#include "models/specs.h"
#include "policies/registry.h"
#include "policies/schema.h"

/* --- new ---------------------------------------------------------------------------------------------------------- */

#define PLACEHOLDER "my_policy"

extern const struct spec_file policy_files[]; /* cli/new_policy, compiled in by the Makefile */

struct new_opts {
	const char *dir;
};

static const struct opt new_opts[] = {
	{.name = "dir",
	 .type = OPT_STRING,
	 .offset = offsetof(struct new_opts, dir),
	 .arg = "DIR",
	 .help = "The folder to write into. Default: NAME."},
};

/* It becomes a C identifier, a file's name, and what runs are called by. */
static int check_name(const char *name, struct err *e)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	static const char more[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	static const char *const taken[] = {
		"plan",   "run",      "admit",  "create",   "destroy", "params",   "auto",     "break",
		"case",   "char",     "const",  "default",  "do",      "double",   "else",     "enum",
		"extern", "float",    "for",    "goto",     "if",      "inline",   "int",      "long",
		"return", "short",    "signed", "sizeof",   "static",  "struct",   "switch",   "typedef",
		"union",  "unsigned", "void",   "volatile", "while",   "register", "continue", "self"};
	if (!strchr(first, name[0]) || !name[0] || strspn(name, more) != strlen(name) || strlen(name) > POLICY_NAME_MAX)
		return err_set(
			e, ERR_INPUT,
			"\"%.60s\" cannot be a policy's name: take up to %d letters, digits and '_', a letter first",
			name, POLICY_NAME_MAX);
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		if (strcmp(name, taken[i]) == 0)
			return err_set(e, ERR_INPUT, "\"%s\" is a word of C or of the file itself: take another name",
				       name);
	if (policy_find(name))
		return err_set(e, ERR_INPUT, "a policy called \"%s\" is built in: take another name", name);
	return ERR_NONE;
}

/* The text with the placeholder and the program's path filled in. */
static void fill_in(FILE *f, const char *text, const char *name, const char *program)
{
	static const char path_mark[] = "@LOCKSTEP@";
	while (*text) {
		if (strncmp(text, PLACEHOLDER, sizeof PLACEHOLDER - 1) == 0) {
			fputs(name, f);
			text += sizeof PLACEHOLDER - 1;
		} else if (strncmp(text, path_mark, sizeof path_mark - 1) == 0) {
			fputs(program, f);
			text += sizeof path_mark - 1;
		} else {
			fputc(*text++, f);
		}
	}
}

static int write_one(const struct spec_file *file, const char *dir, const char *name, struct err *e)
{
	char path[PATH_MAX], program[PATH_MAX] = "lockstep";
	const char *dot = strrchr(file->path, '.');
	ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
	if (n > 0)
		program[n] = '\0';
	/* A path that make would cut in pieces is left to PATH. */
	if (strpbrk(program, " \t$#:'\"\\"))
		snprintf(program, sizeof program, "lockstep");
	if ((size_t)snprintf(path, sizeof path, "%s/%s%s", dir, dot ? name : file->path, dot ? dot : "") >= sizeof path)
		return err_set(e, ERR_INPUT, "--dir is too long");
	FILE *f = fopen(path, "wx");
	if (!f)
		return err_set(e, errno == EEXIST ? ERR_INPUT : ERR_IO, "%s %s", path,
			       errno == EEXIST ? "is there already: nothing is overwritten" : strerror(errno));
	fill_in(f, file->text, name, program);
	bool bad = ferror(f);
	if (fclose(f) != 0 || bad)
		return err_set(e, ERR_IO, "%s cannot be written", path);
	return ERR_NONE;
}

static int write_policy(const char *name, const char *dir, struct err *e)
{
	if (mkdir(dir, 0777) != 0 && errno != EEXIST)
		return err_set(e, ERR_INPUT, "folder %s cannot be made: %s", dir, strerror(errno));
	int rc = ERR_NONE;
	for (const struct spec_file *f = policy_files; rc == ERR_NONE && f->path; f++)
		rc = write_one(f, dir, name, e);
	return rc;
}

static int run_new(const struct command *c, int argc, char **argv)
{
	struct new_opts o = {0};
	struct err e = {0};
	char headers[PATH_MAX];
	int n, rc = opts_parse(new_opts, c->n_opts, &o, argc, argv, &n, NULL, &e);
	if (rc == ERR_NONE && n != 1)
		rc = err_set(&e, ERR_INPUT, n ? "one name: \"%s\" is one too many" : "what is it called? Give a NAME%s",
			     n ? argv[2] : "");
	if (rc == ERR_NONE)
		rc = check_name(argv[1], &e);
	const char *dir = o.dir ? o.dir : argv[1];
	if (rc == ERR_NONE)
		rc = write_policy(argv[1], dir, &e);
	if (rc != ERR_NONE)
		return command_fail(c, &e);
	printf("%s/%s.c and %s/Makefile are written. Now:\n\n"
	       "    make -C %s\n"
	       "    lockstep policy check %s/%s.so\n"
	       "    lockstep compare --policies vllm_v1,%s%s/%s.so --dataset-name sample:azure --model llama-3.1-8b "
	       "\\\n"
	       "        --device h100-sxm\n",
	       dir, argv[1], dir, dir, dir, argv[1], dir[0] == '/' ? "" : "./", dir, argv[1]);
	if (plugin_headers(headers, sizeof headers, &e) != ERR_NONE)
		printf("\nBut first: %s.\n", e.text);
	return 0;
}

const struct command cmd_policy_new = {
	.name = "policy new",
	.synopsis = "[--dir DIR] NAME",
	.summary = "Write a policy to start from: one C file and its Makefile",
	.about =
		"Writes NAME/NAME.c, a small complete policy with comments that say what everything is for, and a "
		"NAME/Makefile that builds NAME.so with the headers of this program, installed or not. Nothing that is "
		"there is overwritten. docs/plugin-policies.md goes on from there.",
	.examples = "lockstep policy new mine && make -C mine && lockstep policy check mine/mine.so\n",
	.opts = new_opts,
	.n_opts = sizeof new_opts / sizeof *new_opts,
	.run = run_new,
};

/* --- headers ----------------------------------------------------------------------------------------------------- */

static int run_headers(const struct command *c, int argc, char **argv)
{
	struct err e = {0};
	char dir[PATH_MAX];
	int n, rc = opts_parse(NULL, 0, NULL, argc, argv, &n, NULL, &e);
	if (rc == ERR_NONE && n)
		rc = err_set(&e, ERR_INPUT, "\"%s\": it takes no words", argv[1]);
	if (rc == ERR_NONE)
		rc = plugin_headers(dir, sizeof dir, &e);
	if (rc != ERR_NONE)
		return command_fail(c, &e);
	printf("-I%s\n", dir);
	return 0;
}

const struct command cmd_policy_headers = {
	.name = "policy headers",
	.synopsis = "",
	.summary = "Print the compiler's flag for the headers that plug-ins are built with",
	.about = "Prints -IDIR, the folder with core/policy.h of this program: for Makefiles. It is $LOCKSTEP_INCLUDE, "
		 "or found from where the program lies: its source tree, or ../include/lockstep, where `make install` "
		 "puts them.",
	.examples = "cc -shared -fPIC $(lockstep policy headers) -o mine.so mine.c\n",
	.run = run_headers,
};

/* --- check -------------------------------------------------------------------------------------------------------- */

struct check_opts {
	struct check_options check;
	int64_t one;
	const char *params;
	bool json, list;
};

static const struct opt check_opts[] = {
	{.name = "seconds",
	 .type = OPT_DOUBLE,
	 .offset = offsetof(struct check_opts, check.seconds),
	 .arg = "N",
	 .max = 1e6,
	 .help = "How long all checks may take together; each tries some dozens of workloads in any case. Default 10."},
	{.name = "seed",
	 .type = OPT_UINT64,
	 .offset = offsetof(struct check_opts, check.seed),
	 .arg = "N",
	 .help = "Seed of the workloads. Default 1."},
	{.name = "only",
	 .type = OPT_STRING,
	 .offset = offsetof(struct check_opts, check.only),
	 .arg = "CHECK,...",
	 .help = "These checks alone; --list shows them."},
	{.name = "case",
	 .type = OPT_INT64,
	 .offset = offsetof(struct check_opts, one),
	 .arg = "K",
	 .max = 1e15,
	 .help = "Only the K-th workload of each check (from 0), as a failure's second line says."},
	{.name = "policy-params",
	 .type = OPT_STRING,
	 .offset = offsetof(struct check_opts, params),
	 .arg = "A=1,B=off",
	 .help = "Checks the policy with these parameters; those left out have their defaults. The same as behind a "
		 "colon: "
		 "./mine.so:a=1. Default: parameters are drawn as well."},
	{.name = "golden",
	 .type = OPT_STRING,
	 .offset = offsetof(struct check_opts, check.golden),
	 .arg = "HASH",
	 .help = "What check golden has to come to: fails when the policy decides otherwise than the build that said "
		 "so."},
	{.name = "dir",
	 .type = OPT_STRING,
	 .offset = offsetof(struct check_opts, check.dir),
	 .arg = "DIR",
	 .help = "Folder for the workloads of failed checks, POLICY-CHECK.jsonl. Default: the current one."},
	{.name = "list",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct check_opts, list),
	 .help = "Say which checks there are."},
	{.name = "json",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct check_opts, json),
	 .help = "Print one JSON object: {policy, path, digest, seed, passed, failed, warned, skipped, decisions, "
		 "checks: [{name, "
		 "about, verdict, cases, seconds, text, file, replay, again}]}."},
};

static const char *about(const char *name)
{
	for (int32_t i = 0; policy_check_name(i); i++)
		if (strcmp(policy_check_name(i), name) == 0)
			return policy_check_about(i);
	return "";
}

static void print_checks(void)
{
	for (int32_t i = 0; policy_check_name(i); i++)
		printf("%-12s %s\n", policy_check_name(i), policy_check_about(i));
}

static void print_result(void *ctx, const struct check_result *r)
{
	(void)ctx;
	printf("%-12s %-8s %6lld cases %6.1f s", r->name, check_verdict_names[r->verdict], (long long)r->cases,
	       r->seconds);
	if (r->text[0] && r->verdict == CHECK_PASSED)
		printf("  %s", r->text);
	putchar('\n');
	if (r->verdict == CHECK_SKIPPED)
		printf("    %s\n", r->text);
	if (r->verdict == CHECK_FAILED || r->verdict == CHECK_WARNED) {
		printf("    (%s)\n    %s\n", about(r->name), r->text);
		if (r->replay)
			printf("    the smallest such run:  %s\n", r->replay);
		else if (r->file)
			printf("    its workload, made small: %s\n", r->file);
		if (r->again)
			printf("    the check once more:    %s\n", r->again);
	}
	fflush(stdout);
}

static int print_json(const struct policy_desc *d, const struct check_options *o, const struct check_report *r,
		      struct err *e)
{
	const struct plugin *p = plugin_of(d);
	struct jout j;
	char *none;
	jout_open(&j, stdout);
	jout_begin(&j, NULL, '{');
	jout_text(&j, "policy", d->name);
	jout_text(&j, "path", p ? p->path : NULL);
	jout_text(&j, "digest", p ? p->digest : NULL);
	jout_int(&j, "seed", (int64_t)o->seed);
	jout_int(&j, "passed", r->passed);
	jout_int(&j, "failed", r->failed);
	jout_int(&j, "warned", r->warned);
	jout_int(&j, "skipped", r->skipped);
	jout_text(&j, "decisions", r->decisions[0] ? r->decisions : NULL);
	jout_begin(&j, "checks", '[');
	for (int32_t i = 0; i < r->n; i++) {
		const struct check_result *c = &r->results[i];
		jout_begin(&j, NULL, '{');
		jout_text(&j, "name", c->name);
		jout_text(&j, "about", about(c->name));
		jout_text(&j, "verdict", check_verdict_names[c->verdict]);
		jout_int(&j, "cases", c->cases);
		jout_real(&j, "seconds", c->seconds);
		jout_text(&j, "text", c->text[0] ? c->text : NULL);
		jout_text(&j, "file", c->file);
		jout_text(&j, "replay", c->replay);
		jout_text(&j, "again", c->again);
		jout_end(&j, '}');
	}
	jout_end(&j, ']');
	jout_end(&j, '}');
	int rc = jout_close(&j, &none, e);
	putchar('\n');
	return rc;
}

/* "./mine.so:a=1" -> the policy, and its parameters. */
static int find_policy(const char *text, struct check_opts *o, const struct policy_desc **d, char *shown, size_t size,
		       struct err *e)
{
	int n = plugin_name_length(text);
	snprintf(shown, size, "%.*s", n, text);
	o->check.shown = shown;
	o->check.params = text[n] ? text + n + 1 : o->params;
	if (text[n] && o->params) {
		err_set(e, ERR_INPUT, "parameters are given twice: behind %s and as --policy-params", shown);
		return ERR_INPUT;
	}
	return policy_or_plugin(d, shown, e);
}

static int run_check(const struct command *c, int argc, char **argv)
{
	struct check_opts o = {.one = -1};
	struct check_report report = {0};
	struct err e = {0};
	const struct policy_desc *d = NULL;
	char shown[1024];
	int n;
	check_options_default(&o.check);
	o.check.dir = ".";
	int rc = opts_parse(check_opts, c->n_opts, &o, argc, argv, &n, NULL, &e);
	if (rc == ERR_NONE && o.list && n == 0) {
		print_checks();
		return 0;
	}
	if (rc == ERR_NONE && n != 1)
		rc = err_set(&e, ERR_INPUT,
			     n ? "one policy at a time: \"%s\" is one too many"
			       : "which policy? Give a plug-in's file, ./mine.so%s, or a name",
			     n ? argv[2] : "");
	if (rc == ERR_NONE)
		rc = find_policy(argv[1], &o, &d, shown, sizeof shown, &e);
	if (rc != ERR_NONE)
		return command_fail(c, &e);
	o.check.first = o.one > 0 ? o.one : 0;
	o.check.cases = o.one >= 0;
	o.check.stop = stop_flag();
	o.check.done = o.json ? NULL : print_result;
	rc = policy_check(d, &o.check, &report, &e);
	if (rc == ERR_NONE && o.json)
		rc = print_json(d, &o.check, &report, &e);
	if (rc == ERR_NONE && !o.json)
		printf("policy %s: %d passed, %d failed, %d warned, %d skipped\n", d->name, report.passed,
		       report.failed, report.warned, report.skipped);
	int status = rc ? command_fail(c, &e) : report.failed > 0;
	check_report_free(&report);
	return status;
}

const struct command cmd_policy_check = {
	.name = "policy check",
	.synopsis = "[OPTIONS] ./MINE.so",
	.summary = "Check whether a policy is sound, on thousands of random workloads",
	.about = "Serves thousands of small random workloads with a policy (a plug-in's file, or the name of a "
		 "built-in one) on the simulator and looks at what must hold whatever a policy decides: budgets and "
		 "places, the memory's books after every step, that every request ends and nothing stalls, that the "
		 "same input gives the same decisions, that no decision depends on how long an answer will become. "
		 "--list says what each check looks at.\n\n"
		 "A failure is made as small as it can be and told as \"step 17: request 3 ...\", with the small "
		 "workload in a file and the command line that replays it. The policy runs in processes of its own: "
		 "one that crashes or never comes back is a failed check.\n\n"
		 "Exit status: 0 when no check failed (warnings are none), 1 when one did, 2 when the policy cannot be "
		 "loaded or the input is wrong.",
	.examples = "lockstep policy check ./mine.so\n"
		    "# one check for a minute\n"
		    "lockstep policy check ./mine.so --only memory --seconds 60\n"
		    "# a built-in one\n"
		    "lockstep policy check vllm_v1 --json\n",
	.opts = check_opts,
	.n_opts = sizeof check_opts / sizeof *check_opts,
	.run = run_check,
};
