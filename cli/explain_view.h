/* explain_view.h: what `lockstep explain` found, for those who print it. */
#ifndef CLI_EXPLAIN_VIEW_H
#define CLI_EXPLAIN_VIEW_H

#include <stdbool.h>

#include "analysis/explain.h"
#include "analysis/explain_fit.h"
#include "analysis/explain_rank.h"
#include "analysis/explain_whatif.h"
#include "cli/recall.h"

struct explain_view {
	struct recalled run;
	struct explain x;
	struct run_result result; /* of the run made again */
	double percentile;
	enum explain_metric metric; /* what the what-ifs are about */
	bool executed; /* on real kernels: step times are divided by `fit` */
	struct explain_fit fit;
	struct whatif_figures own; /* of the run itself */
	/* A whole run. */
	struct explain_rank rank[EXPLAIN_METRICS];
	struct whatifs whatifs;
	char no_whatifs[512]; /* why there are none; "" = there are, or nobody asked */
	char whatif_model[160]; /* executed: what the what-ifs take their times from */
};

void explain_print_run(const struct explain_view *v);
void explain_print_request(const struct explain_view *v);
int explain_json_run(const struct explain_view *v, struct err *e);
int explain_json_request(const struct explain_view *v, struct err *e);

#endif
