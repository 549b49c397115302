/* main.c: finds the command in the table and runs it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sqlite3.h>
#include <unistd.h>

#include "analysis/guard.h"
#include "analysis/store.h"
#include "cli/command.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/near.h"
#include "kernels/cuda.h"

/* In the order help shows them. A command of two words stands beside those with the same first one. */
static const struct command *const commands[] = {
	&cmd_replay,
	&cmd_compare,
	&cmd_slo,
	&cmd_sweep,
	&cmd_policies,
	&cmd_policy_list,
	&cmd_policy_show,
	&cmd_policy_new,
	&cmd_policy_check,
	&cmd_policy_headers,
	&cmd_capacity,
	&cmd_runs,
	&cmd_report,
	&cmd_generate,
	&cmd_validate,
	&cmd_calibrate,
	&cmd_calibrate_points,
	&cmd_decisions,
	&cmd_diff,
	&cmd_explain,
	&cmd_timeline,
	&cmd_show,
	&cmd_profile,
	&cmd_profile_list,
	&cmd_profile_show,
	&cmd_profile_export,
	&cmd_profile_import,
	&cmd_profile_delete,
	&cmd_trace_info,
	&cmd_trace_convert,
	&cmd_trace_generate,
	&cmd_trace_generate_agentic,
	&cmd_trace_slice,
	&cmd_trace_fetch,
	&cmd_lab_list,
	&cmd_lab_start,
	&cmd_lab_grade,
	&cmd_help,
};
#define N_COMMANDS ((int)(sizeof commands / sizeof *commands))

const struct command *command_at(int i)
{
	return i >= 0 && i < N_COMMANDS ? commands[i] : NULL;
}

/* How many words name has, if the line begins with them; else 0. */
static int begins_with(const char *name, int argc, char **argv)
{
	for (int n = 0; n < argc; n++) {
		size_t len = strcspn(name, " ");
		if (strlen(argv[n]) != len || strncmp(name, argv[n], len) != 0)
			return 0;
		if (!name[len])
			return n + 1;
		name += len + 1;
	}
	return 0;
}

/* The longest one: "profile list" goes before "profile" with the word "list". */
const struct command *command_find(int argc, char **argv, int *words)
{
	const struct command *found = NULL;
	*words = 0;
	for (int i = 0; command_at(i); i++) {
		int n = begins_with(command_at(i)->name, argc, argv);
		if (n > *words) {
			*words = n;
			found = command_at(i);
		}
	}
	return found;
}

/* A copy, since parsing moves words. */
static struct {
	const char **words;
	int n;
} typed;

static void keep_command_line(int argc, char **argv)
{
	typed.words = mem_alloc(((size_t)argc + 1) * sizeof *typed.words);
	if (!typed.words)
		return;
	for (int i = 1; i < argc; i++)
		typed.words[typed.n++] = argv[i];
}

int command_line(const char *const **words)
{
	*words = typed.words;
	return typed.n;
}

static volatile int stop;

const volatile int *stop_flag(void)
{
	return &stop;
}

static void on_stop(int sig)
{
	stop = sig;
}

static void install_signals(void)
{
	/* The first one asks for an orderly end; the handler is gone then, so a second one ends the program. */
	struct sigaction ask = {.sa_handler = on_stop, .sa_flags = (int)SA_RESETHAND};
	sigemptyset(&ask.sa_mask);
	struct sigaction old;
	/* nohup and shells' background jobs ignore SIGINT: leave that as it is. */
	if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
		sigaction(SIGINT, &ask, NULL);
	sigaction(SIGTERM, &ask, NULL);
	/* A reader that went away (`| head`) is a failed write, which main sees at the end: no run is lost to it. */
	signal(SIGPIPE, SIG_IGN);
}

/* --- a policy that took the program with it ------------------------------------------------------------------------ */

#define LAST_WORDS "--last-words"

/* In a signal handler, with a heap that may be broken: this program starts anew to say what happened. */
static void say_last_words(const struct guard_words *w)
{
	char *const argv[] = {"lockstep",
			      LAST_WORDS,
			      (char *)(uintptr_t)w->db,
			      (char *)(uintptr_t)w->run_id,
			      (char *)(uintptr_t)w->text,
			      NULL};
	execve("/proc/self/exe", argv, environ);
}

/* The database that the run was stored in is as whole as after any process that was killed; the run learns its end. */
static int last_words(int argc, char **argv)
{
	struct store *s = NULL;
	struct err e = {0};
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (argc != 5)
		return 2;
	long long run = atoll(argv[3]);
	fprintf(stderr, "lockstep: %s\n", argv[4]);
	if (run == 0)
		return 1;
	int rc = store_open(&s, argv[2], false, &e);
	if (rc == ERR_NONE)
		rc = store_fail_run(s, run, argv[4], &e);
	store_close(s);
	if (rc)
		fprintf(stderr, "lockstep: run %lld stays 'running' in %s: %s\n", run, argv[2], e.text);
	else
		fprintf(stderr, "lockstep: run %lld is marked as failed in %s\n", run, argv[2]);
	return 1;
}

static bool wants_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	return false;
}

/* `lockstep trace` and `lockstep trace --help`: the commands that begin so. Returns how many. */
static int list_group(FILE *f, const char *word)
{
	int n = 0;
	size_t len = strlen(word);
	for (int i = 0; command_at(i); i++) {
		const struct command *c = command_at(i);
		if (strncmp(c->name, word, len) != 0 || c->name[len] != ' ')
			continue;
		if (n++ == 0)
			fprintf(f, "Usage: lockstep %s COMMAND [OPTIONS]\n\nCommands:\n", word);
		fprintf(f, "  %-16s %s\n", c->name, c->summary);
	}
	return n;
}

static int unknown_command(int argc, char **argv)
{
	if (argc == 1 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		bool asked = argc > 1;
		if (list_group(asked ? stdout : stderr, argv[0]))
			return asked ? 0 : 2;
	}
	struct near_match m;
	char near[256], two[128];
	snprintf(two, sizeof two, "%s%s%s", argv[0], argc > 1 && argv[1][0] != '-' ? " " : "",
		 argc > 1 && argv[1][0] != '-' ? argv[1] : "");
	near_begin(&m, two);
	for (int i = 0; command_at(i); i++)
		near_offer(&m, command_at(i)->name);
	if (m.n == 0) {
		near_begin(&m, argv[0]);
		for (int i = 0; command_at(i); i++)
			near_offer(&m, command_at(i)->name);
	}
	fprintf(stderr, "lockstep: there is no command \"%s\"%s; lockstep --help lists them\n", m.n ? m.word : argv[0],
		near_text(&m, near, sizeof near));
	return 2;
}

static void print_version(void)
{
	char why[512] = "";
	const char *cuda = cuda_kernels_built(why, sizeof why);
	printf("lockstep " LOCKSTEP_VERSION " (SQLite %s)\n", sqlite3_libversion());
	printf("backends: sim, cpu, replay%s%s%s\n", cuda ? ", cuda (" : "", cuda ? cuda : "", cuda ? ")" : "");
	if (!cuda)
		printf("no cuda: %s\n", why);
}

static int dispatch(int argc, char **argv)
{
	if (argc < 2) {
		help_overview();
		return 2;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		help_overview();
		return 0;
	}
	if (strcmp(argv[1], LAST_WORDS) == 0)
		return last_words(argc, argv);
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		print_version();
		return 0;
	}
	int words;
	const struct command *c = command_find(argc - 1, argv + 1, &words);
	if (!c)
		return unknown_command(argc - 1, argv + 1);
	if (wants_help(argc - words, argv + words)) {
		help_command(c);
		return 0;
	}
	return c->run(c, argc - words, argv + words);
}

int main(int argc, char **argv)
{
	install_signals();
	guard_on_fatal(say_last_words);
	keep_command_line(argc, argv);
	int status = dispatch(argc, argv);
	mem_free(typed.words);
	errno = 0;
	if ((fflush(stdout) != 0 || ferror(stdout)) && status == 0) {
		if (errno != EPIPE)
			fprintf(stderr, "lockstep: cannot write the output: %s\n", strerror(errno ? errno : EIO));
		status = 1;
	}
	return status;
}
