/* slo_print.h: what `lockstep slo` shows: a table for people, JSON for programs. */
#ifndef CLI_SLO_PRINT_H
#define CLI_SLO_PRINT_H

#include "analysis/slo.h"

/* One configuration and what came of it. */
struct slo_row {
	const struct run_settings *settings;
	struct slo_result result;
	double price_per_hour; /* of all its devices, US dollars; 0 = unknown */
	double input_tokens, output_tokens; /* of a request, mean */
	/* No other configuration serves as much for less money, or as much with a lower p99 TTFT. */
	bool on_cost_front, on_latency_front;
};

/* Dollars; NAN where the price is not known or nothing is served. */
double slo_dollars_per_request(const struct slo_row *r); /* that meets its objectives, at result.low */
double slo_dollars_per_million_output(const struct slo_row *r);

/* Fills the fronts of all. */
void slo_fronts(struct slo_row *rows, int32_t n);

void slo_print_table(FILE *f, const struct slo_row *rows, int32_t n, const struct slo_options *o);
int slo_print_json(FILE *f, const struct slo_row *rows, int32_t n, const struct slo_options *o, double own_rate,
		   struct err *e);

#endif
