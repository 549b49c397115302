/* calibrate_trial.c: one simulation of the measured workload, and what it says of each request beside what the log does.
 *
 * An engine notes a request as queued when its loop takes it in, at the end of a step; a simulated request arrives at
 * that very moment, then waits for the end of its own engine's step. Where the log is such, times count from the moment
 * the simulated engine took the request in: else each would be half a step too long, and the fit would shorten the
 * prefills for it. A client's log counts from sending: there nothing is to be set right. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/calibrate_internal.h"
#include "core/err.h"
#include "core/mem.h"

const char *const calibrate_metric_keys[] = {"queue", "prefill", "ttft", "tpot", "e2e"};
const char *const calibrate_metric_labels[] = {"queue time", "prefill time", "TTFT", "TPOT", "E2E latency"};
const char *const calibrate_stat_keys[] = {"mean", "p50", "p90", "p99"};

static const double percentile_of[CALIBRATE_STATS] = {0, 50, 90, 99};

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- looking at the simulator's clock ------------------------------------------------------------------------------- */

static int watch_init(void *self, const struct engine *g, struct err *e)
{
	struct trials *t = self;
	t->engine_of = g;
	return t->inner.ops->init(t->inner.self, g, e);
}

/* Read once before each round of scheduling: what has arrived by then is taken in. */
static int64_t watch_now(void *self)
{
	struct trials *t = self;
	const struct workload *w = t->o->workload;
	int64_t now = t->inner.ops->now(t->inner.self);
	while (t->taken < w->n && w->specs[t->taken].arrival_ns <= now)
		t->intake_ns[t->taken++] = now;
	while (t->ended < t->n_fit && engine_request(t->engine_of, (int32_t)t->ended)->state >= REQUEST_FINISHED)
		t->ended++;
	if ((t->stop && *t->stop) || (!t->whole && t->ended == t->n_fit))
		t->halt = 1;
	return now;
}

static int watch_wait_until(void *self, int64_t t_ns, struct err *e)
{
	struct trials *t = self;
	return t->inner.ops->wait_until(t->inner.self, t_ns, e);
}

static int watch_submit(void *self, const struct batch *b, struct err *e)
{
	struct trials *t = self;
	return t->inner.ops->submit(t->inner.self, b, e);
}

static int watch_wait(void *self, struct step_result *out, struct err *e)
{
	struct trials *t = self;
	return t->inner.ops->wait(t->inner.self, out, e);
}

static int watch_transfer(void *self, const struct transfer *t, struct err *e)
{
	struct trials *w = self;
	return w->inner.ops->transfer(w->inner.self, t, e);
}

static int watch_transfers_done(void *self, struct transfer_news *out, struct err *e)
{
	struct trials *w = self;
	return w->inner.ops->transfers_done(w->inner.self, out, e);
}

static int64_t watch_transfer_next_ns(void *self)
{
	struct trials *w = self;
	return w->inner.ops->transfer_next_ns(w->inner.self);
}

static void watch_close(void *self)
{
	(void)self;
}

static const struct backend_ops watch_ops = {.name = "watch",
					     .init = watch_init,
					     .now = watch_now,
					     .wait_until = watch_wait_until,
					     .submit = watch_submit,
					     .wait = watch_wait,
					     .transfer = watch_transfer,
					     .transfers_done = watch_transfers_done,
					     .transfer_next_ns = watch_transfer_next_ns,
					     .close = watch_close};

static int stand_before(void *ctx, struct backend *b, struct err *e)
{
	struct trials *t = ctx;
	(void)e;
	t->inner = *b;
	t->taken = t->ended = 0;
	t->halt = 0;
	*b = (struct backend){&watch_ops, t};
	return ERR_NONE;
}

/* --- one simulation ------------------------------------------------------------------------------------------------- */

void trials_cost_text(char *buf, size_t size, const double *values, uint32_t mask)
{
	size_t at = (size_t)snprintf(buf, size, "roofline");
	char sep = ':';
	for (int p = 0; p < CALIBRATE_PARAMS; p++) {
		if (!(mask & 1u << p))
			continue;
		at += (size_t)snprintf(buf + at, size - at, "%c%s=%.5g%s", sep, calibrate_params[p].name, values[p],
				       calibrate_params[p].unit);
		sep = ',';
	}
}

static double between(int64_t from, int64_t to)
{
	return from >= 0 && to >= 0 ? (double)(to - from) : NAN;
}

static void see(struct seen *s, int64_t arrival, int64_t scheduled, int64_t first, int64_t last, int32_t outputs)
{
	s->ns[CALIBRATE_QUEUE] = between(arrival, scheduled);
	s->ns[CALIBRATE_PREFILL] = between(scheduled, first);
	s->ns[CALIBRATE_TTFT] = between(arrival, first);
	s->ns[CALIBRATE_TPOT] = outputs > 1 ? between(first, last) / (outputs - 1) : NAN;
	s->ns[CALIBRATE_E2E] = between(arrival, last);
}

/* Output tokens per second, from the part's first arrival to its last token. */
static double throughput(int64_t tokens, int64_t first, int64_t last)
{
	return last > first ? (double)tokens * 1e9 / (double)(last - first) : NAN;
}

static void take_throughputs(struct trials *t, const struct request *requests)
{
	const struct measured_request *m = t->o->measured->at;
	for (int part = 0; part < CALIBRATE_PARTS; part++) {
		int64_t from = part == CALIBRATE_FIT ? 0 : t->n_fit, to = part == CALIBRATE_FIT ? t->n_fit : t->n;
		int64_t tokens = 0, last = 0, measured_last = 0;
		for (int64_t i = from; i < to; i++) {
			tokens += m[i].output_tokens;
			last = requests[i].last_token_ns > last ? requests[i].last_token_ns : last;
			measured_last = m[i].last_token_ns > measured_last ? m[i].last_token_ns : measured_last;
		}
		t->throughput[part] = from < to ? throughput(tokens, m[from].arrival_ns, last) : NAN;
		t->measured_throughput[part] = from < to ? throughput(tokens, m[from].arrival_ns, measured_last) : NAN;
	}
}

static int take_result(struct trials *t, const struct run_result *r, struct err *e)
{
	bool intake = t->o->measured->format == MEASURED_TIMESTAMPS;
	int64_t n = t->whole ? t->n : t->n_fit;
	for (int64_t i = 0; i < n; i++) {
		const struct request *q = &r->requests[i];
		if (q->state != REQUEST_FINISHED)
			return err_set(
				e, ERR_INPUT,
				"request %lld (%d prompt and %d output tokens) was served in the log, but under these "
				"settings it is %s%s%s: give those of the server (--num-gpu-blocks-override, "
				"--max-model-len, --max-num-batched-tokens)",
				(long long)i + 1, t->o->measured->at[i].prompt_tokens,
				t->o->measured->at[i].output_tokens, request_state_name((enum request_state)q->state),
				q->why ? ": " : "", q->why ? request_why_name((enum request_why)q->why) : "");
		see(&t->simulated[i], intake ? t->intake_ns[i] : q->arrival_ns, q->first_sched_ns, q->first_token_ns,
		    q->last_token_ns, q->outputs);
	}
	if (t->whole)
		take_throughputs(t, r->requests);
	t->steps = r->stats.steps;
	t->preemptions = r->stats.preemptions;
	t->engine = r->engine;
	if (t->whole)
		t->simulated_s = (double)(r->stats.end_ns - r->stats.first_ns) / 1e9;
	return ERR_NONE;
}

int trials_run(struct trials *t, struct err *e)
{
	const struct run_io io = {.stop = &t->halt, .ctx = t, .stand_before = stand_before};
	struct run_result r;
	double began = seconds();
	t->settings.cost = t->cost;
	int rc = run_execute(&t->settings, t->o->workload, &io, &r, e);
	if (rc == ERR_NONE && t->stop && *t->stop)
		rc = err_set(e, ERR_INTERRUPTED, "interrupted");
	if (rc == ERR_NONE)
		rc = take_result(t, &r, e);
	run_result_free(&r);
	t->evals++;
	t->busy_s += seconds() - began;
	return rc;
}

int trials_open(struct trials *t, const struct calibrate_options *o, struct err *e)
{
	const struct measured *m = o->measured;
	*t = (struct trials){.o = o, .stop = o->stop, .settings = *o->settings, .n = m->n};
	t->settings.backend = BACKEND_SIM;
	t->settings.record = RECORD_NONE;
	t->settings.save_detailed = false;
	t->n_fit = (int64_t)llround((double)m->n * o->train_fraction);
	t->measured = mem_zalloc((size_t)m->n + 1, sizeof *t->measured);
	t->simulated = mem_zalloc((size_t)m->n + 1, sizeof *t->simulated);
	t->intake_ns = mem_zalloc((size_t)m->n + 1, sizeof *t->intake_ns);
	if (!t->measured || !t->simulated || !t->intake_ns)
		return err_no_memory(e, "the requests of the log");
	for (int64_t i = 0; i < m->n; i++) {
		const struct measured_request *r = &m->at[i];
		see(&t->measured[i], r->arrival_ns, m->has_scheduled ? r->scheduled_ns : -1, r->first_token_ns,
		    r->last_token_ns, r->output_tokens);
	}
	/* Queue and prefill make up TTFT: its two ends count, the wait between only through them. */
	t->counts[CALIBRATE_PREFILL] = m->has_scheduled;
	t->counts[CALIBRATE_TTFT] = t->counts[CALIBRATE_TPOT] = t->counts[CALIBRATE_E2E] = true;
	return ERR_NONE;
}

void trials_free(struct trials *t)
{
	mem_free(t->measured);
	mem_free(t->simulated);
	mem_free(t->intake_ns);
}

/* --- how far apart --------------------------------------------------------------------------------------------------- */

double trials_request_loss(const struct trials *t, int64_t i)
{
	double sum = 0;
	int n = 0;
	for (int m = 0; m < CALIBRATE_METRICS; m++) {
		double a = t->simulated[i].ns[m], b = t->measured[i].ns[m];
		if (!t->counts[m] || !(a > 0) || !(b > 0))
			continue;
		sum += fabs(log(a / b));
		n++;
	}
	return n ? sum / n : 0;
}

static double mean_loss(const struct trials *t, int64_t from, int64_t to)
{
	double sum = 0;
	for (int64_t i = from; i < to; i++)
		sum += trials_request_loss(t, i);
	return to > from ? sum / (double)(to - from) : NAN;
}

double trials_loss(const struct trials *t)
{
	return mean_loss(t, 0, t->n_fit);
}

/* Mean and percentiles of metric m, numpy's; scratch[to - from]. */
static void summarise(const struct seen *s, int64_t from, int64_t to, int m, double *scratch, double *out)
{
	struct percentiles p = {.n = CALIBRATE_STATS - 1};
	struct dist d;
	int64_t n = 0;
	for (int k = 1; k < CALIBRATE_STATS; k++)
		p.p[k - 1] = percentile_of[k];
	for (int64_t i = from; i < to; i++)
		if (isfinite(s[i].ns[m]))
			scratch[n++] = s[i].ns[m];
	dist_compute(&d, scratch, n, &p);
	out[CALIBRATE_MEAN] = d.mean;
	for (int k = 1; k < CALIBRATE_STATS; k++)
		out[k] = d.p[k - 1];
}

int trials_errors(const struct trials *t, enum calibrate_part part, struct calibrate_errors *out, struct err *e)
{
	int64_t from = part == CALIBRATE_FIT ? 0 : t->n_fit, to = part == CALIBRATE_FIT ? t->n_fit : t->n;
	double *scratch = mem_alloc((size_t)(to - from + 1) * sizeof *scratch);
	if (!scratch)
		return err_no_memory(e, "the requests of the log");
	out->n = to - from;
	out->loss = mean_loss(t, from, to);
	out->throughput_percent = (t->throughput[part] / t->measured_throughput[part] - 1) * 100;
	for (int m = 0; m < CALIBRATE_METRICS; m++) {
		summarise(t->measured, from, to, m, scratch, out->measured_ns[m]);
		summarise(t->simulated, from, to, m, scratch, out->simulated_ns[m]);
		for (int k = 0; k < CALIBRATE_STATS; k++)
			out->percent[m][k] = out->measured_ns[m][k] >= 1e6
						     ? (out->simulated_ns[m][k] / out->measured_ns[m][k] - 1) * 100
						     : NAN;
	}
	mem_free(scratch);
	return ERR_NONE;
}
