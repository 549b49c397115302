/* report.h: runs of a database as one HTML page (docs/report.md). The page holds data (JSON, made here) and what draws it
 * (report_page.h); everything in it is what the database says, or is worked out from that in the files report_*.c. */
#ifndef ANALYSIS_REPORT_H
#define ANALYSIS_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct err;
struct history_sink;
struct jout;
struct store;
struct store_request;
struct store_report_run;

/* As many runs have charts as can be told apart; of more, the figures are in tables. */
#define REPORT_CHARTED 12

struct report_options {
	const int64_t *run_ids; /* [n_runs], in the order they are shown in; each once */
	int64_t n_runs;
	bool all; /* they are all runs: validations and experiments of whatever run are shown as well */
	const char *vega_folder; /* report_page.h */
	/* May be NULL. Makes the run again and tells `sink` of it (analysis/history.h); or says in `why` why that cannot be done. */
	int (*make_again)(void *ctx, int64_t run_id, const struct history_sink *sink, char why[256], struct err *e);
	void *ctx;
};
int report_write(struct store *s, const struct report_options *o, FILE *f, struct err *e);

/* --- its parts: each puts one member of a run's object ------------------------------------------------------------- */

/* How much of one run is drawn: less of each where there are many. */
struct report_room {
	int32_t curve_points; /* of a distribution */
	int32_t time_cells; /* of the steps over time */
	int32_t gantt_rows; /* of each group of requests */
	int32_t map_columns, map_rows; /* of the KV blocks over time */
};

/* report_requests.c: "curves", "arrivals", "rates" */
int report_put_requests(struct jout *j, const struct store_request *list, int64_t n, const struct report_room *room,
			struct err *e);
/* What requests are measured by, in milliseconds or tokens; NAN: this one has none. The first three are TTFT, TPOT and E2E. */
struct report_figure {
	const char *key;
	double (*of)(const struct store_request *r);
};
extern const struct report_figure report_figures[];

/* report_steps.c: "steps", "roofline"; neither where no steps are stored */
int report_put_steps(struct jout *j, struct store *s, const struct store_report_run *r, const struct report_room *room,
		     struct err *e);

/* report_gantt.c: "gantt", "blocks" */
int report_put_gantt(struct jout *j, struct store *s, const struct store_report_run *r,
		     const struct store_request *list, int64_t n, const struct report_room *room,
		     const struct report_options *o, struct err *e);

/* report_more.c: "validations", "searches", "sweeps": those that these runs have to do with, or all */
int report_put_more(struct jout *j, struct store *s, const struct report_options *o, struct err *e);

#endif
