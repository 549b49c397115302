/* effects.h: what differs between two configurations, in words and with an interval: from one run of each, request by request,
 * or from several, pairs of which served the same workload (seeds). docs/compare.md. */
#ifndef ANALYSIS_EFFECTS_H
#define ANALYSIS_EFFECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/bootstrap.h"
#include "analysis/metrics.h"
#include "core/request.h"

struct err;
struct jout;
struct store_request;

/* Latencies compared request by request. */
enum effects_figure { EFFECTS_TTFT, EFFECTS_TPOT, EFFECTS_E2EL, EFFECTS_QUEUE, EFFECTS_FIGURES };

/* One run of a side. */
struct effects_run {
	int64_t run_id; /* 0 = not stored */
	uint64_t workload_hash;
	struct metric_value *list; /* [n] metrics_list; NULL: none */
	int32_t n;
	struct boot_series series[EFFECTS_FIGURES]; /* its requests, in order; empty where they are not at hand */
	bool prefix_cache; /* it had one, which was empty at the start */
};
/* Release with effects_run_free, also after an error. */
int effects_run_metrics(struct effects_run *r, const struct metrics *m, const struct engine_stats *stats,
			struct err *e);
int effects_run_requests(struct effects_run *r, const struct request *requests, int64_t n, struct err *e);
int effects_run_stored(struct effects_run *r, const struct store_request *list, int64_t n, struct err *e);
void effects_run_free(struct effects_run *r);

struct effects_side {
	const char *label;
	struct effects_run *runs; /* [n] */
	int32_t n;
};

enum effect_verdict { EFFECT_LOWERS, EFFECT_RAISES, EFFECT_SAME, EFFECT_NONE, EFFECT_UNKNOWN };
extern const char *const effect_verdict_names[]; /* "lowers", "raises", "same", "none", "unknown", NULL */

struct effect {
	char key[40], label[48]; /* "p99_ttft_ms", "p99 TTFT" */
	const char *unit;
	enum metric_better better;
	struct boot_effect x;
};
enum effect_verdict effect_verdict(const struct boot_effect *x);

enum { EFFECTS_MOST = 128, EFFECTS_WARNINGS = 6 };
struct effects {
	char against[200], label[200];
	bool by_request; /* else each run is one sample */
	bool paired;
	int32_t runs; /* of either side, pairs if paired */
	int64_t requests, blocks; /* by_request */
	struct effect *list; /* [n] */
	int32_t n;
	char warnings[EFFECTS_WARNINGS][240];
	int32_t n_warnings;
};
/* What b does to a. Runs of one workload are paired; with one pair its requests are the samples, with more each run is one.
 * all: every metric and percentile of p, else those of the short list. Release with effects_free. */
int effects_between(struct effects *out, const struct effects_side *a, const struct effects_side *b,
		    const struct percentiles *p, bool all, struct err *e);
void effects_free(struct effects *x);
void effects_warn(struct effects *x, const char *text); /* one more warning, unless it is there already */

void effects_print(const struct effects *x, FILE *f);
/* list[1 .. n - 1], those that were made, and what their columns mean. */
void effects_print_all(const struct effects *list, int32_t n, FILE *f);
void effects_json(const struct effects *x, struct jout *j);

#endif
