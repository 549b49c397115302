/* run_session.h: loads a workload once, runs every arm over it, stores and saves what came out. replay is one arm,
 * compare several; what they print is theirs. */
#ifndef CLI_RUN_SESSION_H
#define CLI_RUN_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/run.h"
#include "cli/run_opts.h"
#include "core/workload.h"
#include "traces/reader.h"

struct command;
struct recalled;
struct store;

/* A workload as it is run: read and shaped. Release the workload with workload_free. */
struct loaded {
	struct workload workload;
	struct trace_report report;
	char trace_hash[17];
	double load_s; /* wall clock */
};
/* Loads what o asks for and tells the arms what it is. *l lives as long as they do. */
int session_load(const struct run_opts *o, struct arms *arms, struct loaded *l, struct err *e);

/* The command line as typed, a JSON array for the database; *json to be released with mem_free. */
int command_line_json(char **json, struct err *e);

struct session;
/* Called after each arm, while its requests are still there. An error is reported; the other arms go on. */
struct session_look {
	int (*look)(void *ctx, const struct session *s, const struct run_settings *a, const struct run_result *r,
		    struct err *e);
	void *ctx;
};

struct session {
	const struct command *command;
	const struct run_opts *opts;
	const struct session_look *look; /* NULL: nobody looks */
	struct arms arms;
	struct loaded loaded;
	char *arguments; /* the command line, as JSON */
	struct store *store; /* NULL with --no-db */
	struct run_kept kept; /* the model that was loaded last */
	struct profile *profiles; /* [arms.n] cost model profiled; all zero where an arm has none */
	struct run_result *results; /* [n_results], per-request arrays dropped */
	const struct run_settings **settings; /* [n_results] of which arm each is */
	char **json; /* [n_results] with --json */
	int32_t n_results;
	struct recalled *replayed; /* the run whose recorded times are replayed; else NULL */
	int status; /* exit status so far */
};

/* Everything up to the results; problems are printed as they come. Returns false when there is nothing to show: the
 * exit status is s->status either way. Release with session_free. */
bool session_run(struct session *s, const struct command *c, const struct run_opts *o, bool several);
bool session_run_looking(struct session *s, const struct command *c, const struct run_opts *o,
			 const struct session_look *look);
/* The same of one run in the database (its number, or "latest") that was executed on real kernels: its settings and its
 * workload, its recorded times, o's reports. It must decide as it did. */
bool session_replay(struct session *s, const struct command *c, const struct run_opts *o, const char *run);
void session_free(struct session *s);

/* What was read, in a few lines. */
void session_print_workload(FILE *f, const struct session *s);
/* Model, device, memory and limits, where they are the same for all runs. */
void session_print_serving(FILE *f, const struct session *s);
/* What it took; where the runs are stored; what an interruption means. */
void session_print_end(FILE *f, const struct session *s);

/* Handles positional words: the trace's path may stand without --dataset-path. */
int session_positional(struct run_opts *o, int n, char **argv, struct err *e);

#endif
