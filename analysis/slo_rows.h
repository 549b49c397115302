/* slo_rows.h: several configurations searched for the same objectives: what each costs where it meets them, and which of them
 * no other one beats. */
#ifndef ANALYSIS_SLO_ROWS_H
#define ANALYSIS_SLO_ROWS_H

#include "analysis/price.h"
#include "analysis/slo.h"

/* One configuration and what came of it. */
struct slo_row {
	const struct run_settings *settings;
	struct slo_result result;
	struct price price; /* of one replica where their number is looked for, else of all */
	double input_tokens, output_tokens; /* of a request, mean */
	int32_t max_replicas; /* so many at most were tried */
	bool pruned; /* it was not tried, or not with more: it would cost no less than the cheapest found before it */
	/* No other configuration serves as much for less money; as much with a lower p99 TTFT; costs as little per good request
	 * with a lower p99 TTFT. */
	bool on_cost_front, on_latency_front, on_price_front;
};

/* Where it meets the objectives; NULL: nowhere. */
const struct slo_point *slo_row_point(const struct slo_row *r);

/* Dollars, at slo_row_point; NAN where the price is not known or nothing is served. */
double slo_price_per_hour(const struct slo_row *r);
double slo_dollars_per_good_request(const struct slo_row *r);
double slo_dollars_per_million(const struct slo_row *r, double tokens); /* of which each request has so many */

/* Fills the fronts of all. */
void slo_fronts(struct slo_row *rows, int32_t n);
/* The row that meets the objectives for the least money an hour, the first of equal ones; -1: none with a price does. */
int32_t slo_cheapest(const struct slo_row *rows, int32_t n);

#endif
