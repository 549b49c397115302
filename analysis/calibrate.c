/* calibrate.c: which parameters the log can tell, the search for them, and how well they do on what was held out. */
#include "analysis/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/calibrate_internal.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/near.h"
#include "models/device.h"

/* clang-format off */
const struct calibrate_param_info calibrate_params[CALIBRATE_PARAMS] = {
	[CALIBRATE_GEMM] = {"gemm", "", "matrix products, of peak FLOP/s", 0.02, 1, 0.5, 1.5},
	[CALIBRATE_ATTN] = {"attn", "", "prompts' attention, of peak FLOP/s", 0.02, 1, 0.5, 1.5},
	[CALIBRATE_MEMORY] = {"memory", "", "weights and activations, of peak bandwidth", 0.02, 1, 0.7, 1.5},
	[CALIBRATE_KV] = {"kv", "", "attention over the KV cache, of peak bandwidth", 0.02, 1, 0.7, 1.5},
	[CALIBRATE_MIXED] = {"mixed", "", "of that, while prompts are in the step", 0.05, 1, 0.7, 1.5},
	[CALIBRATE_PROMPT] = {"prompt", "us", "a step with prompts costs more", 20, 50000, 2000, 3},
	[CALIBRATE_STEP] = {"step", "us", "host, each step", 5, 50000, 500, 3},
	[CALIBRATE_REQUEST] = {"request", "us", "host, each request in it", 0.05, 500, 5, 3},
};
/* clang-format on */

enum {
	MIN_REQUESTS = 20, /* in the fitted part: fewer are no distribution */
};

/* Moved by its probe, a parameter must change the requests' times by this much on average: less cannot be told from the
 * roughness of schedules. */
#define MIN_SENSITIVITY 0.004
/* Surer than within a factor of e^this, or it is not determined. */
#define MAX_SPREAD 0.5

int calibrate_parse_params(const char *text, uint32_t *mask, struct err *e)
{
	*mask = 0;
	for (const char *p = text;; p++) {
		size_t n = strcspn(p, ",");
		char word[32], near[160];
		struct near_match m;
		snprintf(word, sizeof word, "%.*s", (int)(n < 31 ? n : 31), p);
		near_begin(&m, word);
		uint32_t bit = 0;
		for (int i = 0; i < CALIBRATE_PARAMS; i++) {
			near_offer(&m, calibrate_params[i].name);
			if (strcmp(calibrate_params[i].name, word) == 0)
				bit = 1u << i;
		}
		if (!bit)
			return err_set(e, ERR_INPUT, "--params: there is no parameter \"%s\"%s", word,
				       near_text(&m, near, sizeof near));
		*mask |= bit;
		p += n;
		if (!*p)
			return ERR_NONE;
	}
}

void calibrate_options_default(struct calibrate_options *o)
{
	*o = (struct calibrate_options){.train_fraction = 0.5, .max_evals = 1000};
}

/* One calibration in the making. */
struct fit {
	const struct calibrate_options *o;
	struct calibrate_result *r;
	struct trials trials;
	struct spread spread;
	enum calibrate_param at[CALIBRATE_PARAMS]; /* [n] the parameters being searched */
	int n;
	double values[CALIBRATE_PARAMS]; /* in their units */
};

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void tell(struct fit *f)
{
	if (f->o->progress)
		f->o->progress(f->o->ctx, f->trials.evals < f->o->max_evals ? f->trials.evals : f->o->max_evals,
			       f->o->max_evals);
}

/* --- what the device says --------------------------------------------------------------------------------------------- */

static int set_initial(struct fit *f, struct err *e)
{
	struct device d;
	int rc = device_load(&d, f->o->settings->device, e);
	if (rc)
		return rc;
	const double of_device[CALIBRATE_PARAMS] = {
		[CALIBRATE_GEMM] = d.gemm_efficiency,
		[CALIBRATE_ATTN] = d.attention_efficiency,
		[CALIBRATE_MEMORY] = d.memory_efficiency,
		[CALIBRATE_KV] = d.kv_efficiency > 0 ? d.kv_efficiency : d.memory_efficiency,
		[CALIBRATE_MIXED] = d.mixed_efficiency,
		[CALIBRATE_PROMPT] = d.prompt_ns / 1e3,
		[CALIBRATE_STEP] = d.step_ns / 1e3,
		[CALIBRATE_REQUEST] = d.request_ns / 1e3,
	};
	for (int p = 0; p < CALIBRATE_PARAMS; p++) {
		double x = f->values[p] = of_device[p];
		f->r->estimates[p] =
			(struct calibrate_estimate){.initial = x, .value = x, .low = x, .high = x, .sensitivity = NAN};
	}
	return ERR_NONE;
}

/* Where a parameter is first tried: the device's value, or, where that is none, what is usual. */
static double first_value(const struct fit *f, enum calibrate_param p)
{
	const struct calibrate_param_info *info = &calibrate_params[p];
	double x = f->r->estimates[p].initial;
	return x >= info->low && x <= info->high ? x : info->start;
}

/* --- is there anything to be told? -------------------------------------------------------------------------------------- */

/* Mean change of the fitted requests' times, relatively, from `before` to the last simulation. */
static double change(const struct trials *t, const struct seen *before)
{
	double sum = 0;
	int64_t n = 0;
	for (int64_t i = 0; i < t->n_fit; i++)
		for (int m = 0; m < CALIBRATE_METRICS; m++) {
			double a = t->simulated[i].ns[m], b = before[i].ns[m];
			if (!t->counts[m] || !(a > 0) || !(b > 0))
				continue;
			sum += fabs(log(a / b));
			n++;
		}
	return n ? sum / (double)n : 0;
}

static int probe(struct fit *f, enum calibrate_param p, const struct seen *before, double *sensitivity, struct err *e)
{
	const struct calibrate_param_info *info = &calibrate_params[p];
	double values[CALIBRATE_PARAMS], x = first_value(f, p);
	bool time = info->unit[0] != '\0';
	memcpy(values, f->values, sizeof values);
	if (f->r->estimates[p].initial > 0)
		x = time ? x * info->probe : x / info->probe;
	values[p] = x;
	trials_cost_text(f->trials.cost, sizeof f->trials.cost, values, 1u << p);
	int rc = trials_run(&f->trials, e);
	*sensitivity = rc == ERR_NONE ? change(&f->trials, before) : NAN;
	tell(f);
	return rc;
}

static void leave_out(struct fit *f, enum calibrate_param p, const char *why)
{
	struct calibrate_estimate *x = &f->r->estimates[p];
	x->fitted = false;
	x->undetermined = true;
	x->value = x->low = x->high = f->values[p] = x->initial;
	snprintf(x->why, sizeof x->why, "%s", why);
}

/* A parameter that was asked for by name, but cannot be had. */
static int refuse(const struct fit *f, struct err *e)
{
	for (int p = 0; p < CALIBRATE_PARAMS && f->o->params_given && !f->o->force; p++)
		if (f->r->estimates[p].undetermined)
			return err_set(
				e, ERR_STALL,
				"this log cannot determine %s: %s; leave it out of --params, or fit it all the same "
				"with --force",
				calibrate_params[p].name, f->r->estimates[p].why);
	return ERR_NONE;
}

static int choose(struct fit *f, struct err *e)
{
	const struct calibrate_options *o = f->o;
	uint32_t mask = o->params ? o->params : (1u << CALIBRATE_PARAMS) - 1;
	size_t bytes = (size_t)f->trials.n * sizeof(struct seen);
	struct seen *before = mem_alloc(bytes);
	if (!before)
		return err_no_memory(e, "the requests of the log");
	memcpy(before, f->trials.simulated, bytes);
	int rc = ERR_NONE;
	for (int p = 0; p < CALIBRATE_PARAMS && rc == ERR_NONE; p++) {
		struct calibrate_estimate *x = &f->r->estimates[p];
		if (!(mask & 1u << p))
			continue;
		rc = probe(f, (enum calibrate_param)p, before, &x->sensitivity, e);
		if (rc == ERR_NONE && x->sensitivity < MIN_SENSITIVITY && !o->force) {
			char why[160];
			snprintf(why, sizeof why,
				 "changed by a factor of %g, it moves the requests' times by %.2g %% only",
				 calibrate_params[p].probe, x->sensitivity * 100);
			leave_out(f, (enum calibrate_param)p, why);
		} else if (rc == ERR_NONE) {
			f->at[f->n++] = (enum calibrate_param)p;
		}
	}
	mem_free(before);
	if (rc == ERR_NONE)
		rc = refuse(f, e);
	if (rc == ERR_NONE && f->n == 0)
		rc = err_set(e, ERR_STALL, "this log determines none of the parameters: %s",
			     f->r->estimates[CALIBRATE_MEMORY].why);
	return rc;
}

/* --- the search ------------------------------------------------------------------------------------------------------- */

static uint32_t fitted_mask(const struct fit *f)
{
	uint32_t mask = 0;
	for (int i = 0; i < f->n; i++)
		mask |= 1u << f->at[i];
	return mask;
}

/* One candidate: x holds logarithms. */
static int ask(void *ctx, const double *x, double *loss, struct err *e)
{
	struct fit *f = ctx;
	double values[CALIBRATE_PARAMS];
	memcpy(values, f->values, sizeof values);
	for (int i = 0; i < f->n; i++)
		values[f->at[i]] = exp(x[i]);
	trials_cost_text(f->trials.cost, sizeof f->trials.cost, values, fitted_mask(f));
	int rc = trials_run(&f->trials, e);
	if (rc)
		return rc;
	*loss = trials_loss(&f->trials);
	tell(f);
	return spread_add(&f->spread, x, &f->trials, e);
}

/* The best values of the parameters in f->at, and how sure they are. */
static int search(struct fit *f, int32_t evals, double *sd, struct err *e)
{
	struct search s = {.n = f->n, .evals = evals, .seed = f->o->seed, .ask = ask, .ctx = f};
	for (int i = 0; i < f->n; i++) {
		const struct calibrate_param_info *info = &calibrate_params[f->at[i]];
		s.low[i] = log(info->low);
		s.high[i] = log(info->high);
		s.start[i] = log(f->values[f->at[i]] > 0 ? f->values[f->at[i]] : first_value(f, f->at[i]));
		s.spread[i] = info->unit[0] ? 0.7 : 0.2;
	}
	spread_free(&f->spread);
	int rc = spread_open(&f->spread, f->n, f->trials.n_fit, e);
	if (rc == ERR_NONE)
		rc = search_run(&s, e);
	if (rc == ERR_INTERRUPTED)
		f->r->interrupted = true;
	if ((rc && rc != ERR_INTERRUPTED) || !f->spread.n_rows)
		return rc;
	spread_measure(&f->spread, s.best, f->o->seed, sd);
	for (int i = 0; i < f->n; i++) {
		struct calibrate_estimate *x = &f->r->estimates[f->at[i]];
		x->fitted = true;
		x->value = f->values[f->at[i]] = exp(s.best[i]);
		x->low = exp(fmax(s.best[i] - sd[i], s.low[i]));
		x->high = exp(fmin(s.best[i] + sd[i], s.high[i]));
	}
	return rc;
}

/* Those that the search could not tell go back to what they were; returns how many. */
static int drop_unsure(struct fit *f, const double *sd)
{
	int kept = 0, n = f->n;
	for (int i = 0; i < n; i++) {
		char why[160];
		snprintf(why, sizeof why, "anything from %.3g to %.3g %s does about as well",
			 f->r->estimates[f->at[i]].low, f->r->estimates[f->at[i]].high,
			 calibrate_params[f->at[i]].unit);
		if (sd[i] > MAX_SPREAD && !f->o->force)
			leave_out(f, f->at[i], why);
		else
			f->at[kept++] = f->at[i];
	}
	f->n = kept;
	return n - kept;
}

/* Three fifths of the simulations find out what can be told; the rest go on from there with that alone. */
static int fit_all(struct fit *f, struct err *e)
{
	double sd[SEARCH_MAX];
	int32_t evals = f->o->max_evals - (int32_t)f->trials.evals;
	evals = evals > 2 ? evals : 2;
	int32_t first = evals * 3 / 5;
	int rc = search(f, first, sd, e);
	if (rc)
		return rc;
	drop_unsure(f, sd);
	rc = refuse(f, e);
	if (rc == ERR_NONE && f->n == 0)
		return err_set(e, ERR_STALL, "this log determines none of the parameters closely: of %s, %s",
			       calibrate_params[CALIBRATE_MEMORY].name, f->r->estimates[CALIBRATE_MEMORY].why);
	return rc ? rc : search(f, evals - first, sd, e);
}

/* --- all of it -------------------------------------------------------------------------------------------------------- */

static int check(const struct calibrate_options *o, const struct trials *t, struct err *e)
{
	if (t->n_fit < MIN_REQUESTS)
		return err_set(e, ERR_STALL,
			       "%lld requests to fit to are too few: at least %d are needed (--train-fraction says how "
			       "much of the "
			       "log is fitted to)",
			       (long long)t->n_fit, MIN_REQUESTS);
	if (!o->settings->model || !o->settings->device)
		return err_set(e, ERR_INPUT, "calibrate needs --model and --device");
	return ERR_NONE;
}

static int score(struct fit *f, struct calibrate_errors *errors, struct err *e)
{
	f->trials.whole = true;
	int rc = trials_run(&f->trials, e);
	f->trials.whole = false;
	for (int part = 0; part < CALIBRATE_PARTS && rc == ERR_NONE; part++)
		rc = trials_errors(&f->trials, (enum calibrate_part)part, &errors[part], e);
	return rc;
}

/* An interrupted search leaves its best: the last simulation is not to be interrupted too. */
static int finish(struct fit *f, struct err *e)
{
	struct calibrate_result *r = f->r;
	uint32_t mask = 0;
	for (int p = 0; p < CALIBRATE_PARAMS; p++)
		mask |= r->estimates[p].fitted ? 1u << p : 0;
	f->trials.stop = NULL; /* it was answered */
	trials_cost_text(r->cost, sizeof r->cost, f->values, mask);
	memcpy(f->trials.cost, r->cost, sizeof r->cost);
	int rc = score(f, r->after, e);
	r->evals = f->trials.evals;
	r->each_s = f->trials.busy_s / (double)f->trials.evals;
	r->simulated_s = f->trials.simulated_s;
	r->steps = f->trials.steps;
	r->preemptions = f->trials.preemptions;
	r->engine = f->trials.engine;
	return rc;
}

static int run(struct fit *f, struct err *e)
{
	struct err stopped = {0};
	int rc = trials_open(&f->trials, f->o, e);
	if (rc == ERR_NONE)
		rc = check(f->o, &f->trials, e);
	if (rc == ERR_NONE)
		rc = set_initial(f, e);
	if (rc)
		return rc;
	trials_cost_text(f->trials.cost, sizeof f->trials.cost, f->values, 0);
	rc = score(f, f->r->before, &stopped);
	if (rc == ERR_NONE)
		rc = choose(f, &stopped);
	if (rc == ERR_NONE)
		rc = fit_all(f, &stopped);
	if (rc && !(rc == ERR_INTERRUPTED && f->r->interrupted))
		return err_set(e, (enum err_code)rc, "%s", stopped.text);
	return finish(f, e);
}

int calibrate(const struct calibrate_options *o, struct calibrate_result *r, struct err *e)
{
	struct fit f = {.o = o, .r = r};
	double began = seconds();
	*r = (struct calibrate_result){0};
	int rc = run(&f, e);
	r->wall_s = seconds() - began;
	trials_free(&f.trials);
	spread_free(&f.spread);
	return rc;
}
