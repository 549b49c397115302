/* explain_whatif.h: which setting might help against a cause, and what it really does: the run is simulated again with it. */
#ifndef ANALYSIS_EXPLAIN_WHATIF_H
#define ANALYSIS_EXPLAIN_WHATIF_H

#include <stdbool.h>

#include "analysis/explain_rank.h"
#include "analysis/run.h"

struct err;

enum { WHATIF_MAX = 16, WHATIF_TEXT = 96 };

/* The figures that are compared. */
struct whatif_figures {
	double p[EXPLAIN_METRICS]; /* the percentile, ns; NAN = none */
	double throughput; /* requests/s */
	int64_t completed, preemptions;
};

struct whatif {
	char change[WHATIF_TEXT]; /* as one would type it: "--max-num-batched-tokens 4096" */
	enum cause against; /* the cause it was tried for */
	bool hardware; /* takes more machines: told, but not compared with settings */
	bool ran;
	char why_not[256]; /* it was refused, or came to no end */
	struct whatif_figures figures;
	/* The settings. */
	struct run_settings s;
	char params[256];
};

struct whatifs {
	struct whatif at[WHATIF_MAX]; /* [n] in the order they were tried */
	int32_t n;
	struct whatif_figures base; /* of the run itself, or, where it was not simulated, of its simulation */
};

/* The setting that is tried first against a cause, as text; NULL: there is none. `s`: what the run has. */
const char *whatif_hint(const struct run_settings *s, const struct workload *load, enum cause c, char buf[WHATIF_TEXT]);

/* Candidates for base (which is simulated) against the causes of the rank, `most` at most. */
void whatif_plan(struct whatifs *w, const struct run_settings *base, const struct workload *load,
		 const struct explain_rank *rank, int32_t most);
void whatif_figures(struct whatif_figures *f, const struct run_result *r, double percentile);
/* Runs one; what is refused or stalls is said in it. ERR_INTERRUPTED, ERR_MEMORY. */
int whatif_run(struct whatif *w, const struct workload *load, double percentile, const struct run_io *io,
	       struct err *e);

/* Figure after/before - 1; NAN where it has no meaning. */
double whatif_change(const struct whatifs *w, int32_t i, enum explain_metric m);
/* The setting that lowers m most among those that serve as many requests: -1 = none does. worst: raises it most. `kind`: none of the
 * other metrics may grow by more than a tenth. */
int32_t whatif_best(const struct whatifs *w, enum explain_metric m, bool kind);
int32_t whatif_worst(const struct whatifs *w, enum explain_metric m);

#endif
