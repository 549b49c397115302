#include "analysis/explain_fit.h"

#include <math.h>
#include <string.h>

#include "core/err.h"
#include "sim/cost_models.h"

void explain_fit_add(struct explain_fit *f, const struct step_row *row)
{
	const double x[FIT_TERMS] = {1, (double)row->prefill_tokens, (double)row->decodes, (double)row->decode_ctx};
	double y = (double)(row->end_ns - row->start_ns - row->transfer_ns);
	for (int i = 0; i < FIT_TERMS; i++) {
		for (int k = 0; k < FIT_TERMS; k++)
			f->xx[i][k] += x[i] * x[k];
		f->xy[i] += x[i] * y;
	}
	f->yy += y * y;
	f->y += y;
	f->steps++;
}

/* Gaussian elimination over the terms in `set`; false where they do not tell each other apart. */
static bool solve(const struct explain_fit *f, unsigned set, double at[FIT_TERMS])
{
	double m[FIT_TERMS][FIT_TERMS + 1];
	int term[FIT_TERMS] = {0}, n = 0;
	for (int i = 0; i < FIT_TERMS; i++)
		if (set >> i & 1)
			term[n++] = i;
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < n; k++)
			m[i][k] = f->xx[term[i]][term[k]];
		m[i][n] = f->xy[term[i]];
	}
	for (int i = 0; i < n; i++) {
		/* A matrix of inner products: pivots are what is left of each term's square. */
		if (!(m[i][i] > 1e-9 * f->xx[term[i]][term[i]]))
			return false;
		for (int r = i + 1; r < n; r++) {
			double by = m[r][i] / m[i][i];
			for (int k = i; k <= n; k++)
				m[r][k] -= by * m[i][k];
		}
	}
	memset(at, 0, FIT_TERMS * sizeof *at);
	for (int i = n - 1; i >= 0; i--) {
		double sum = m[i][n];
		for (int k = i + 1; k < n; k++)
			sum -= m[i][k] * at[term[k]];
		at[term[i]] = sum / m[i][i];
		if (!(at[term[i]] >= 0))
			return false;
	}
	return true;
}

/* Sum of squared residuals. */
static double residual(const struct explain_fit *f, const double at[FIT_TERMS])
{
	double sum = f->yy;
	for (int i = 0; i < FIT_TERMS; i++) {
		sum -= 2 * at[i] * f->xy[i];
		for (int k = 0; k < FIT_TERMS; k++)
			sum += at[i] * at[k] * f->xx[i][k];
	}
	return sum > 0 ? sum : 0;
}

int explain_fit_solve(struct explain_fit *f, struct cost **out, struct err *e)
{
	double least = INFINITY;
	*out = NULL;
	if (!f->steps)
		return err_set(e, ERR_INPUT, "it ran no step");
	/* The best of all sets of terms whose coefficients are none below 0: that is the constrained optimum. */
	for (unsigned set = 1; set < 1u << FIT_TERMS; set++) {
		double at[FIT_TERMS];
		if (!solve(f, set, at))
			continue;
		double sum = residual(f, at);
		if (sum >= least)
			continue;
		least = sum;
		memcpy(f->at, at, sizeof at);
	}
	double n = (double)f->steps;
	f->error = f->y > 0 ? sqrt(residual(f, f->at) / n) / (f->y / n) : 0;
	return cost_linear_create(out, f->at[0], f->at[1], f->at[2], f->at[3], e);
}
