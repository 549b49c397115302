#include "analysis/slo_rows.h"

#include <math.h>

const struct slo_point *slo_row_point(const struct slo_row *r)
{
	return r->result.at_pass >= 0 ? &r->result.points[r->result.at_pass] : NULL;
}

double slo_price_per_hour(const struct slo_row *r)
{
	const struct slo_point *p = slo_row_point(r);
	if (!p || r->price.per_hour <= 0)
		return NAN;
	return r->price.per_hour * (r->max_replicas ? p->replicas : 1);
}

double slo_dollars_per_good_request(const struct slo_row *r)
{
	const struct slo_point *p = slo_row_point(r);
	return p ? slo_price_per_hour(r) / 3600 / (p->rate * (double)p->good / (double)p->n) : NAN;
}

double slo_dollars_per_million(const struct slo_row *r, double tokens)
{
	const struct slo_point *p = slo_row_point(r);
	return p && tokens > 0 ? slo_price_per_hour(r) / 3600 / (p->rate * tokens) * 1e6 : NAN;
}

/* Is b better than a in one of the two and not worse in the other? More of x is better, less of y. NAN is worst. */
static bool beats(double bx, double by, double ax, double ay)
{
	if (isnan(bx) || isnan(by))
		return false;
	return bx >= ax && by <= ay && (bx > ax || by < ay);
}

void slo_fronts(struct slo_row *rows, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		struct slo_row *a = &rows[i];
		const struct slo_point *p = slo_row_point(a);
		double price = slo_price_per_hour(a), each = slo_dollars_per_good_request(a);
		a->on_latency_front = p != NULL;
		a->on_cost_front = a->on_price_front = p && !isnan(price);
		for (int32_t k = 0; p && k < n; k++) {
			const struct slo_point *q = slo_row_point(&rows[k]);
			if (k == i || !q)
				continue;
			if (beats(q->rate, slo_price_per_hour(&rows[k]), p->rate, price))
				a->on_cost_front = false;
			if (beats(q->rate, q->p99_ttft_ms, p->rate, p->p99_ttft_ms))
				a->on_latency_front = false;
			if (beats(-slo_dollars_per_good_request(&rows[k]), q->p99_ttft_ms, -each, p->p99_ttft_ms))
				a->on_price_front = false;
		}
	}
}

int32_t slo_cheapest(const struct slo_row *rows, int32_t n)
{
	int32_t best = -1;
	for (int32_t i = 0; i < n; i++) {
		double price = slo_price_per_hour(&rows[i]);
		if (!isnan(price) && (best < 0 || price < slo_price_per_hour(&rows[best])))
			best = i;
	}
	return best;
}
