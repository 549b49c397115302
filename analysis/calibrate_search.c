/* calibrate_search.c: the optimiser. A schedule is chaotic in its details: a request preempted a step sooner moves others.
 * So the function is rough at small scale, and a method that ranks whole populations of points goes on where one that
 * compares neighbours is caught. */
#include <math.h>
#include <string.h>

#include "analysis/calibrate_internal.h"
#include "core/rng.h"

enum { POPULATION_MAX = 16, SWEEPS = 30 };

/* --- small linear algebra ------------------------------------------------------------------------------------------- */

/* One rotation that makes a[p][q] zero. */
static void rotate(int n, double a[][SEARCH_MAX], double v[][SEARCH_MAX], int p, int q)
{
	double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
	double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
	double c = 1 / sqrt(t * t + 1), s = t * c;
	for (int k = 0; k < n; k++) {
		double x = a[k][p], y = a[k][q];
		a[k][p] = c * x - s * y;
		a[k][q] = s * x + c * y;
	}
	for (int k = 0; k < n; k++) {
		double x = a[p][k], y = a[q][k];
		a[p][k] = c * x - s * y;
		a[q][k] = s * x + c * y;
	}
	for (int k = 0; k < n; k++) {
		double x = v[k][p], y = v[k][q];
		v[k][p] = c * x - s * y;
		v[k][q] = s * x + c * y;
	}
}

void search_eigen(int n, double a[][SEARCH_MAX], double *d, double v[][SEARCH_MAX])
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			v[i][j] = i == j;
	for (int sweep = 0; sweep < SWEEPS; sweep++) {
		double off = 0, on = 0;
		for (int p = 0; p < n; p++)
			for (int q = 0; q < n; q++)
				*(p == q ? &on : &off) += a[p][q] * a[p][q];
		if (off <= 1e-24 * on)
			break;
		for (int p = 0; p < n; p++)
			for (int q = p + 1; q < n; q++)
				if (a[p][q] != 0)
					rotate(n, a, v, p, q);
	}
	for (int i = 0; i < n; i++)
		d[i] = a[i][i];
}

/* --- the strategy --------------------------------------------------------------------------------------------------- */

struct point {
	double y[SEARCH_MAX]; /* step from the mean, in units of sigma */
	double x[SEARCH_MAX]; /* where it lies, within the bounds */
	double f;
};

/* Names as in the tutorial. Variables are scaled by their spread, so that all begin alike. */
struct strategy {
	const struct search *s;
	struct rng rng;
	int n, lambda, mu;
	double weights[POPULATION_MAX], mu_eff, c_sigma, d_sigma, c_c, c_1, c_mu, chi;
	double mean[SEARCH_MAX], sigma;
	double c[SEARCH_MAX][SEARCH_MAX], b[SEARCH_MAX][SEARCH_MAX], d[SEARCH_MAX]; /* C = B diag(d^2) B' */
	double p_sigma[SEARCH_MAX], p_c[SEARCH_MAX];
	struct point points[POPULATION_MAX];
	int generation;
};

static double gaussian(struct rng *r)
{
	double u = 1 - rng_unit(r), v = rng_unit(r);
	return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v);
}

static void set_weights(struct strategy *t)
{
	double n = t->n, sum = 0, squares = 0;
	t->lambda = 4 + (int)(3 * log(n));
	t->mu = t->lambda / 2;
	for (int i = 0; i < t->mu; i++)
		sum += t->weights[i] = log((t->lambda + 1) / 2.0) - log(i + 1.0);
	for (int i = 0; i < t->mu; i++) {
		t->weights[i] /= sum;
		squares += t->weights[i] * t->weights[i];
	}
	double m = t->mu_eff = 1 / squares;
	t->c_sigma = (m + 2) / (n + m + 5);
	double root = sqrt((m - 1) / (n + 1)) - 1;
	t->d_sigma = 1 + 2 * (root > 0 ? root : 0) + t->c_sigma;
	t->c_c = (4 + m / n) / (n + 4 + 2 * m / n);
	t->c_1 = 2 / ((n + 1.3) * (n + 1.3) + m);
	double most = 2 * (m - 2 + 1 / m) / ((n + 2) * (n + 2) + m);
	t->c_mu = most < 1 - t->c_1 ? most : 1 - t->c_1;
	t->chi = sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
}

static void begin(struct strategy *t, const double *start, double sigma)
{
	t->sigma = sigma;
	t->generation = 0;
	memset(t->c, 0, sizeof t->c);
	memset(t->b, 0, sizeof t->b);
	memset(t->p_sigma, 0, sizeof t->p_sigma);
	memset(t->p_c, 0, sizeof t->p_c);
	for (int i = 0; i < t->n; i++) {
		t->mean[i] = start[i] / t->s->spread[i];
		t->c[i][i] = t->b[i][i] = t->d[i] = 1;
	}
}

static void draw(struct strategy *t, struct point *p)
{
	double z[SEARCH_MAX];
	for (int i = 0; i < t->n; i++)
		z[i] = t->d[i] * gaussian(&t->rng);
	for (int i = 0; i < t->n; i++) {
		double y = 0, scale = t->s->spread[i];
		for (int j = 0; j < t->n; j++)
			y += t->b[i][j] * z[j];
		double x = (t->mean[i] + t->sigma * y) * scale;
		x = x < t->s->low[i] ? t->s->low[i] : x > t->s->high[i] ? t->s->high[i] : x;
		p->x[i] = x;
		p->y[i] = (x / scale - t->mean[i]) / t->sigma; /* as repaired */
	}
}

static void sort_points(struct strategy *t)
{
	for (int i = 1; i < t->lambda; i++) {
		struct point p = t->points[i];
		int k = i;
		for (; k > 0 && t->points[k - 1].f > p.f; k--)
			t->points[k] = t->points[k - 1];
		t->points[k] = p;
	}
}

/* Moves the mean, the two paths, the covariance and the step size by what the better half did. */
static void adapt(struct strategy *t)
{
	int n = t->n;
	double step[SEARCH_MAX] = {0}, white[SEARCH_MAX] = {0}, length = 0;
	for (int k = 0; k < t->mu; k++)
		for (int i = 0; i < n; i++)
			step[i] += t->weights[k] * t->points[k].y[i];
	for (int j = 0; j < n; j++) {
		double along = 0;
		for (int i = 0; i < n; i++)
			along += t->b[i][j] * step[i];
		for (int i = 0; i < n; i++)
			white[i] += t->b[i][j] * along / t->d[j];
	}
	for (int i = 0; i < n; i++) {
		t->mean[i] += t->sigma * step[i];
		t->p_sigma[i] =
			(1 - t->c_sigma) * t->p_sigma[i] + sqrt(t->c_sigma * (2 - t->c_sigma) * t->mu_eff) * white[i];
		length += t->p_sigma[i] * t->p_sigma[i];
	}
	length = sqrt(length);
	double settled = sqrt(1 - pow(1 - t->c_sigma, 2.0 * (t->generation + 1)));
	bool moving = length / settled < (1.4 + 2.0 / (n + 1)) * t->chi;
	for (int i = 0; i < n; i++)
		t->p_c[i] = (1 - t->c_c) * t->p_c[i] + (moving ? sqrt(t->c_c * (2 - t->c_c) * t->mu_eff) * step[i] : 0);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			double spread = 0;
			for (int k = 0; k < t->mu; k++)
				spread += t->weights[k] * t->points[k].y[i] * t->points[k].y[j];
			t->c[i][j] =
				(1 - t->c_1 - t->c_mu) * t->c[i][j] +
				t->c_1 * (t->p_c[i] * t->p_c[j] + (moving ? 0 : t->c_c * (2 - t->c_c) * t->c[i][j])) +
				t->c_mu * spread;
		}
	double grow = t->c_sigma / t->d_sigma * (length / t->chi - 1);
	t->sigma *= exp(grow < 1 ? grow : 1);
	t->generation++;
	double work[SEARCH_MAX][SEARCH_MAX];
	memcpy(work, t->c, sizeof work);
	search_eigen(n, work, t->d, t->b);
	for (int i = 0; i < n; i++)
		t->d[i] = sqrt(t->d[i] > 1e-12 ? t->d[i] : 1e-12);
}

static int ask(struct search *s, int32_t *left, const double *x, double *f, struct err *e)
{
	int rc = s->ask(s->ctx, x, f, e);
	--*left;
	if (rc == 0 && *f < s->best_f) {
		s->best_f = *f;
		memcpy(s->best, x, (size_t)s->n * sizeof *x);
	}
	return rc;
}

/* Until the points lie within a thousandth of each other, or nothing is left. */
static int converge(struct search *s, struct strategy *t, int32_t *left, struct err *e)
{
	int rc = 0;
	while (rc == 0 && *left >= t->lambda) {
		for (int k = 0; k < t->lambda && rc == 0; k++) {
			draw(t, &t->points[k]);
			rc = ask(s, left, t->points[k].x, &t->points[k].f, e);
		}
		if (rc)
			break;
		sort_points(t);
		adapt(t);
		double widest = 0;
		for (int i = 0; i < t->n; i++) {
			double sd = t->sigma * sqrt(t->c[i][i]) * s->spread[i];
			widest = sd > widest ? sd : widest;
		}
		if (widest < 1e-3)
			break;
	}
	return rc;
}

int search_run(struct search *s, struct err *e)
{
	struct strategy t = {.s = s, .n = s->n};
	int32_t left = s->evals;
	double f;
	rng_init(&t.rng, s->seed, 0x63616c69u);
	set_weights(&t);
	s->best_f = INFINITY;
	memcpy(s->best, s->start, sizeof s->best);
	int rc = ask(s, &left, s->start, &f, e);
	for (double sigma = 1; rc == 0 && left >= t.lambda; sigma = sigma > 0.3 ? sigma * 0.7 : 1) {
		begin(&t, s->best, sigma);
		rc = converge(s, &t, &left, e);
	}
	return rc;
}
