/* command.h: how a subcommand is declared. cli/main.c has the table; each cmd_*.c parses, calls and prints.
 * One declaration serves parsing, --help, the man page and bash completion. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct run_opts;

enum opt_type {
	OPT_FLAG, /* bool: --check, or --check on; --no-check and --check off clear it */
	OPT_ONOFF, /* bool: --kv-cache on|off (also true|false) */
	OPT_INT32, /* int32_t within [min, max] */
	OPT_INT64, /* int64_t within [min, max] (as doubles: exact to 2^53) */
	OPT_UINT64, /* uint64_t: seeds */
	OPT_DOUBLE, /* double within [min, max]; "inf" allowed when max is INFINITY */
	OPT_STRING, /* const char *: a pointer into argv */
	OPT_CHOICE, /* int32_t: index into choices */
	OPT_WORDS, /* struct words: takes every following word up to the next --flag (--goodput ttft:500 tpot:50) */
	OPT_LIST, /* const char *: one value or several with commas; parsed later, by opt_set */
	OPT_SWITCH, /* const char *: the same of on|off; may stand alone (= on), and --no-x is off: vLLM's way */
	OPT_TITLE, /* no option: `name` is the heading of those that follow, in help and manual */
};

struct words {
	char **at; /* into argv */
	int n;
};

struct opt {
	const char *name; /* without the dashes: "max-num-seqs" */
	enum opt_type type;
	size_t offset; /* of the destination in the command's options struct */
	const char *arg; /* what to call its value in help: "N", "FILE"; NULL for flags */
	const char *help; /* one or two sentences; the unit; the default */
	double min, max; /* numbers; both 0 = no bounds */
	const char *const *choices; /* NULL-terminated: OPT_CHOICE; shown and completed for OPT_STRING and OPT_LIST */
	const char *alias; /* another long name, or NULL */
	char letter; /* short form: 'o' for -o, 0 = none */
};

/* Parses argv[1..argc) against n options into *dest. Words that are not options are moved to the front of argv from
 * index 1 and counted in *n_positional. "--name=value" and "--name value" both work; "--" ends options. Unknown options
 * list near matches. ERR_INPUT with one line. `given` (may be NULL): bool[n], which options were given. */
int opts_parse(const struct opt *opts, int n, void *dest, int argc, char **argv, int *n_positional, bool *given,
	       struct err *e);

/* Parses one value of o into *dest, as "--name text" would. ERR_INPUT. */
int opt_set(const struct opt *o, const char *text, void *dest, struct err *e);

struct command {
	const char *name; /* "replay", "trace info" */
	const char *synopsis; /* "[OPTIONS] FILE" */
	const char *summary; /* one line, for the table of commands */
	const char *about; /* paragraphs for --help and the manual: what it does, what it prints, exit status */
	const char *examples; /* command lines, one a line, each with a # comment line before it */
	const struct opt *opts;
	int n_opts;
	/* argv[0] is the command's name. Returns the exit status: 0, 1, 2 (bad input), 130. Errors are printed by
	 * command_fail(). --help is handled before it is called. */
	int (*run)(const struct command *c, int argc, char **argv);
	/* Of commands that store runs: the runs that a command line describes (cli/run_opts.h), for who runs them again.
	 * *several: lists make several of them. NULL for other commands. */
	int (*describe)(const struct command *c, int argc, char **argv, struct run_opts *o, bool *several,
			struct err *e);
};

/* The table of main.c, in the order help shows it; NULL past the end. */
const struct command *command_at(int i);
/* Finds the command that argv[0], or argv[0] and argv[1], name; *words is how many of them. NULL: none. */
const struct command *command_find(int argc, char **argv, int *words);

/* The command line as it was typed, without the program's own name. Returns how many words. */
int command_line(const char *const **words);

/* cli/help.c */
void help_overview(void);
void help_command(const struct command *c);

/* SIGINT and SIGTERM set the flag (a second one ends the program at once). main installs the handlers. */
const volatile int *stop_flag(void);

/* Prints "lockstep replay: text" to stderr and returns the exit status for the error's kind. */
int command_fail(const struct command *c, const struct err *e);

/* One per cmd_*.c (those of "trace" are several in cmd_trace.c); the table in cli/main.c points at them. */
extern const struct command cmd_generate, cmd_replay, cmd_compare, cmd_slo, cmd_sweep, cmd_policies, cmd_runs,
	cmd_validate, cmd_calibrate, cmd_decisions, cmd_diff, cmd_capacity, cmd_report, cmd_help;
extern const struct command cmd_calibrate_points, cmd_timeline, cmd_show, cmd_explain;
extern const struct command cmd_policy_list, cmd_policy_show, cmd_policy_check, cmd_policy_new, cmd_policy_headers;
extern const struct command cmd_profile, cmd_profile_list, cmd_profile_show, cmd_profile_export, cmd_profile_import,
	cmd_profile_delete;
extern const struct command cmd_trace_info, cmd_trace_convert, cmd_trace_generate, cmd_trace_slice, cmd_trace_fetch;
extern const struct command cmd_trace_generate_agentic;
extern const struct command cmd_lab_list, cmd_lab_start, cmd_lab_grade;

#endif
