/* What the declarations of commands and options turn into: --help, manual pages, bash completion. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/err.h"
#include "core/near.h"

#define OPTION_COLUMN 30

static const char about_program[] =
	"Lockstep replays LLM-serving traces through one scheduler and one paged KV-memory manager, in a "
	"discrete-event simulator of the model and the device you name, and says what each request waited for.";

/* --- plain text --------------------------------------------------------------------------------------------- */

static int text_width(void)
{
	struct winsize w;
	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col == 0)
		return 80;
	return w.ws_col < 60 ? 60 : w.ws_col > 100 ? 100 : w.ws_col;
}

/* Words of one line of text, filled into lines of `width`, every one but the first indented. The cursor stands at
 * `column`. */
static void fill_line(const char *text, int n, int indent, int column, int width)
{
	int at = column;
	bool line_empty = true;
	for (const char *end = text + n; text < end;) {
		int len = (int)strcspn(text, " \n");
		if (!line_empty && at + 1 + len > width) {
			printf("\n%*s", indent, "");
			at = indent;
			line_empty = true;
		}
		at += printf("%s%.*s", line_empty ? "" : " ", len, text);
		line_empty = false;
		text += len;
		while (text < end && *text == ' ')
			text++;
	}
	putchar('\n');
}

/* Paragraphs; lines that begin with a blank stay as they are. */
static void print_filled(const char *text, int indent, int column, int width)
{
	for (bool first = true; *text; first = false) {
		int n = (int)strcspn(text, "\n");
		if (!first && n)
			printf("%*s", indent, "");
		if (*text == ' ')
			printf("%.*s\n", n, text);
		else
			fill_line(text, n, indent, first ? column : indent, width);
		text += n + (text[n] == '\n');
	}
}

static int print_option_head(const struct opt *o)
{
	int n = o->letter ? printf("  -%c, ", o->letter) : printf("      ");
	n += printf("--%s", o->name);
	if (o->type == OPT_ONOFF)
		n += printf(" on|off");
	else if (o->type == OPT_SWITCH)
		n += printf(" [on|off]");
	else if (o->type == OPT_CHOICE)
		for (int i = 0; o->choices[i]; i++)
			n += printf("%s%s", i ? "|" : " ", o->choices[i]);
	else if (o->type != OPT_FLAG)
		n += printf(" %s", o->arg ? o->arg : "VALUE");
	if (o->type == OPT_WORDS)
		n += printf("...");
	return n;
}

static void print_option(const struct opt *o, int width)
{
	if (o->type == OPT_TITLE) {
		printf("\n%s:\n", o->name);
		return;
	}
	int at = print_option_head(o);
	if (at + 2 > OPTION_COLUMN) {
		putchar('\n');
		at = 0;
	}
	printf("%*s", OPTION_COLUMN - at, "");
	print_filled(o->help, OPTION_COLUMN, OPTION_COLUMN, width);
	if (o->alias)
		printf("%*sAlso --%s.\n", OPTION_COLUMN, "", o->alias);
}

void help_command(const struct command *c)
{
	int width = text_width();
	printf("Usage: lockstep %s %s\n\n%s.\n", c->name, c->synopsis, c->summary);
	if (c->about) {
		putchar('\n');
		print_filled(c->about, 0, 0, width);
	}
	if (c->n_opts && c->opts[0].type != OPT_TITLE)
		printf("\nOptions:\n");
	for (int i = 0; i < c->n_opts; i++)
		print_option(&c->opts[i], width);
	if (c->examples)
		printf("\nExamples:\n%s%s", c->examples, c->examples[strlen(c->examples) - 1] == '\n' ? "" : "\n");
}

void help_overview(void)
{
	printf("Usage: lockstep COMMAND [OPTIONS]\n\n");
	print_filled(about_program, 0, 0, text_width());
	printf("\nCommands:\n");
	for (int i = 0; command_at(i); i++)
		printf("  %-16s %s\n", command_at(i)->name, command_at(i)->summary);
	printf("\n`lockstep COMMAND --help` says more. The first thing to try:\n\n"
	       "  lockstep compare --dataset-path TRACE --model llama-3.1-8b --device h100-sxm"
	       " --policies naive,continuous,chunked\n");
}

/* --- manual pages ------------------------------------------------------------------------------------------- */

/* Text as troff: no line of it is taken for a request, dashes stay dashes. */
static void man_text(const char *s)
{
	bool line_start = true;
	for (; *s; s++) {
		if (line_start && (*s == '.' || *s == '\''))
			fputs("\\&", stdout);
		if (*s == '\\')
			fputs("\\e", stdout);
		else if (*s == '-')
			fputs("\\-", stdout);
		else
			putchar(*s);
		line_start = *s == '\n';
	}
}

/* Paragraphs; runs of indented lines are set as they are. */
static void man_paragraphs(const char *s)
{
	bool verbatim = false;
	while (*s) {
		int n = (int)strcspn(s, "\n");
		char line[1024];
		snprintf(line, sizeof line, "%.*s", n, s);
		bool indented = line[0] == ' ';
		if (indented != verbatim)
			puts(indented ? ".nf" : ".fi");
		verbatim = indented;
		if (n == 0)
			puts(".PP");
		else
			man_text(line), putchar('\n');
		s += n + (s[n] == '\n');
	}
	if (verbatim)
		puts(".fi");
}

static void man_option(const struct opt *o)
{
	if (o->type == OPT_TITLE) {
		fputs(".SS \"", stdout);
		man_text(o->name);
		puts("\"");
		return;
	}
	puts(".TP");
	fputs(".B ", stdout);
	char name[160];
	if (o->letter)
		snprintf(name, sizeof name, "-%c, --%s", o->letter, o->name);
	else
		snprintf(name, sizeof name, "--%s", o->name);
	man_text(name);
	fputs("\\fR", stdout);
	if (o->type == OPT_ONOFF) {
		fputs(" on|off", stdout);
	} else if (o->type == OPT_SWITCH) {
		fputs(" [on|off]", stdout);
	} else if (o->type == OPT_CHOICE) {
		for (int i = 0; o->choices[i]; i++) {
			fputs(i ? "|" : " ", stdout);
			man_text(o->choices[i]);
		}
	} else if (o->type != OPT_FLAG) {
		fputs(" \\fI", stdout);
		man_text(o->arg ? o->arg : "VALUE");
		fputs(o->type == OPT_WORDS ? "\\fR..." : "\\fR", stdout);
	}
	putchar('\n');
	man_text(o->help);
	putchar('\n');
	if (o->alias) {
		fputs("Also ", stdout);
		snprintf(name, sizeof name, "--%s.", o->alias);
		man_text(name);
		putchar('\n');
	}
}

static void man_head(const char *title)
{
	printf(".TH %s 1 \"\" \"Lockstep " LOCKSTEP_VERSION "\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\n", title);
}

static void man_page_name(const struct command *c, char *buf, size_t size)
{
	snprintf(buf, size, "lockstep-%s", c->name);
	for (char *s = buf; *s; s++)
		if (*s == ' ')
			*s = '-';
}

static void man_command(const struct command *c)
{
	char name[96], upper[96];
	man_page_name(c, name, sizeof name);
	for (size_t i = 0; i < sizeof upper; i++)
		upper[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A') : name[i];
	man_head(upper);
	man_text(name);
	fputs(" \\- ", stdout);
	man_text(c->summary);
	printf("\n.SH SYNOPSIS\n.B lockstep %s\n", c->name);
	man_text(c->synopsis);
	puts("\n.SH DESCRIPTION");
	man_paragraphs(c->about ? c->about : c->summary);
	if (c->n_opts)
		puts(".SH OPTIONS");
	for (int i = 0; i < c->n_opts; i++)
		man_option(&c->opts[i]);
	if (c->examples) {
		puts(".SH EXAMPLES\n.nf");
		man_text(c->examples);
		puts("\n.fi");
	}
	puts(".SH SEE ALSO\n.BR lockstep (1)");
}

static void man_overview(void)
{
	man_head("LOCKSTEP");
	puts("lockstep \\- replay LLM\\-serving traces through a scheduler, in simulation\n.SH SYNOPSIS\n.B lockstep\n"
	     ".I COMMAND\n[OPTIONS]\n.SH DESCRIPTION");
	man_text(about_program);
	puts("\n.SH COMMANDS");
	for (int i = 0; command_at(i); i++) {
		char name[96];
		man_page_name(command_at(i), name, sizeof name);
		printf(".TP\n.BR ");
		man_text(name);
		puts(" (1)");
		man_text(command_at(i)->summary);
		puts(".");
	}
	puts(".SH EXIT STATUS\n0 when all went well, 1 when something failed, 2 when the input or the command line is "
	     "wrong,"
	     "\n130 when interrupted.\n.SH FILES\n.TP\n.I lockstep.db\nThe database runs are stored in, in the current"
	     " folder unless \\-\\-db says otherwise.");
}

/* --- bash completion ---------------------------------------------------------------------------------------- */

static void completion_words(const struct command *c)
{
	fputs("--help", stdout);
	for (int i = 0; i < c->n_opts; i++)
		if (c->opts[i].type != OPT_TITLE)
			printf(" --%s", c->opts[i].name);
}

/* One case per option whose values are known; others complete files. */
static void completion_values(const struct command *c)
{
	for (int i = 0; i < c->n_opts; i++) {
		const struct opt *o = &c->opts[i];
		bool onoff = o->type == OPT_ONOFF || o->type == OPT_SWITCH;
		if (!onoff && !o->choices)
			continue;
		printf("\t\"%s --%s\") values=\"", c->name, o->name);
		if (onoff)
			fputs("on off", stdout);
		else
			for (int k = 0; o->choices[k]; k++)
				printf("%s%s", k ? " " : "", o->choices[k]);
		puts("\" ;;");
	}
}

static void completion_bash(void)
{
	puts("# bash completion for lockstep; generated by `lockstep help --completion`\n_lockstep() {\n"
	     "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd=${COMP_WORDS[1]} words "
	     "values=\n"
	     "\tCOMPREPLY=()\n\tcase $cmd in");
	/* The two-word commands, by their first word. */
	for (int i = 0; command_at(i); i++) {
		const char *space = strchr(command_at(i)->name, ' ');
		if (!space || (i > 0 && strncmp(command_at(i - 1)->name, command_at(i)->name,
						(size_t)(space - command_at(i)->name + 1)) == 0))
			continue;
		int n = (int)(space - command_at(i)->name);
		printf("\t%.*s)\n\t\tif [ \"$COMP_CWORD\" -eq 2 ] && [[ $cur != -* ]]; then\n\t\t\tmapfile -t "
		       "COMPREPLY < <(compgen -W \"",
		       n, command_at(i)->name);
		for (int k = i; command_at(k); k++)
			if (strncmp(command_at(k)->name, command_at(i)->name, (size_t)n + 1) == 0 &&
			    !strchr(command_at(k)->name + n + 1, ' '))
				printf("%s ", command_at(k)->name + n + 1);
		/* "profile --model": a command by itself, too */
		puts("\" -- \"$cur\")\n\t\t\treturn\n\t\tfi\n\t\t[[ ${COMP_WORDS[2]} == -* ]] || cmd=\"$cmd "
		     "${COMP_WORDS[2]}\" ;;");
	}
	fputs("\tesac\n\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n\t\tmapfile -t COMPREPLY < <(compgen -W \"--help "
	      "--version",
	      stdout);
	for (int i = 0; command_at(i); i++) {
		int n = (int)strcspn(command_at(i)->name, " ");
		if (i == 0 || strncmp(command_at(i - 1)->name, command_at(i)->name, (size_t)n) != 0)
			printf(" %.*s", n, command_at(i)->name);
	}
	puts("\" -- \"$cur\")\n\t\treturn\n\tfi");
	/* Those of three words. */
	for (int i = 0; command_at(i); i++) {
		const char *second = strchr(command_at(i)->name, ' ');
		if (second && strchr(second + 1, ' '))
			printf("\t[[ \"$cmd ${COMP_WORDS[3]}\" != \"%s\" ]] || cmd=\"%s\"\n", command_at(i)->name,
			       command_at(i)->name);
	}
	puts("\tcase \"$cmd $prev\" in");
	for (int i = 0; command_at(i); i++)
		completion_values(command_at(i));
	puts("\tesac\n\tcase $cmd in");
	for (int i = 0; command_at(i); i++) {
		printf("\t\"%s\") words=\"", command_at(i)->name);
		completion_words(command_at(i));
		puts("\" ;;");
	}
	puts("\tesac\n\tif [ -n \"$values\" ]; then\n\t\tmapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$cur\")\n"
	     "\telif [[ $cur == -* ]]; then\n\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	     "\telse\n\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n\tfi\n}\n"
	     "complete -o filenames -F _lockstep lockstep");
}

/* --- lockstep help ------------------------------------------------------------------------------------------ */

struct help_opts {
	bool man, completion, list;
};

static const struct opt help_opts[] = {
	{.name = "man",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct help_opts, man),
	 .help = "Print the manual page of the command (of lockstep without one) as troff source."},
	{.name = "completion",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct help_opts, completion),
	 .help = "Print the bash completion script."},
	{.name = "list",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct help_opts, list),
	 .help = "Print the commands' names, one a line."},
};

static int run_help(const struct command *c, int argc, char **argv)
{
	struct help_opts o = {0};
	struct err e = {0};
	int n, words;
	if (opts_parse(help_opts, c->n_opts, &o, argc, argv, &n, NULL, &e) != ERR_NONE)
		return command_fail(c, &e);
	if (o.completion) {
		completion_bash();
		return 0;
	}
	for (int i = 0; o.list && command_at(i); i++)
		puts(command_at(i)->name);
	if (o.list)
		return 0;
	if (n == 0) {
		o.man ? man_overview() : help_overview();
		return 0;
	}
	const struct command *of = command_find(n, argv + 1, &words);
	if (!of || words != n) {
		struct near_match m;
		char near[256];
		near_begin(&m, argv[1]);
		for (int i = 0; command_at(i); i++)
			near_offer(&m, command_at(i)->name);
		err_set(&e, ERR_INPUT, "there is no command \"%s%s%s\"%s", argv[1], n > 1 ? " " : "",
			n > 1 ? argv[2] : "", near_text(&m, near, sizeof near));
		return command_fail(c, &e);
	}
	o.man ? man_command(of) : help_command(of);
	return 0;
}

const struct command cmd_help = {
	.name = "help",
	.synopsis = "[--man] [COMMAND]",
	.summary = "Show what a command does; print manual pages and bash completion",
	.examples = "# the manual page of replay, without installing it\n"
		    "lockstep help --man replay | man -l -\n"
		    "# completion in this shell\n"
		    "source <(lockstep help --completion)\n",
	.opts = help_opts,
	.n_opts = sizeof help_opts / sizeof *help_opts,
	.run = run_help,
};
