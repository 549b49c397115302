#include "analysis/effects.h"

#include <math.h>
#include <string.h>

#include "analysis/store_report.h"
#include "core/err.h"
#include "core/mem.h"

const char *const effect_verdict_names[] = {"lowers", "raises", "same", "none", "unknown", NULL};

static const struct {
	enum latency latency;
	bool headline;
} figures[EFFECTS_FIGURES] = {{LATENCY_TTFT, true}, {LATENCY_TPOT, true}, {LATENCY_E2EL, true}, {LATENCY_QUEUE, false}};

enum { SEEDS_FEW = 5 };

/* --- runs --------------------------------------------------------------------------------------------------------- */

int effects_run_metrics(struct effects_run *r, const struct metrics *m, const struct engine_stats *stats, struct err *e)
{
	r->list = mem_alloc(METRICS_MAX_VALUES * sizeof *r->list);
	if (!r->list)
		return err_no_memory(e, "a comparison");
	r->n = metrics_list(m, stats, r->list);
	r->prefix_cache = !isnan(m->prefix_hit_ratio);
	return ERR_NONE;
}

static double of_request(const struct request *q, enum effects_figure f)
{
	if (q->state != REQUEST_FINISHED)
		return NAN;
	switch (f) {
	case EFFECTS_TTFT:
		return (double)request_ttft_ns(q);
	case EFFECTS_TPOT:
		return q->outputs < 2 ? NAN : (double)(q->last_token_ns - q->first_token_ns) / (q->outputs - 1);
	case EFFECTS_E2EL:
		return (double)request_e2e_ns(q);
	case EFFECTS_QUEUE:
		return (double)request_queue_ns(q);
	case EFFECTS_FIGURES:
		break;
	}
	return NAN;
}

static double of_stored(const struct store_request *q, enum effects_figure f)
{
	if (!q->finished)
		return NAN;
	int64_t ttft = store_request_ttft_ns(q), e2e = store_request_e2e_ns(q);
	switch (f) {
	case EFFECTS_TTFT:
		return (double)ttft;
	case EFFECTS_TPOT:
		return q->output_tokens < 2 ? NAN : (double)(e2e - ttft) / (q->output_tokens - 1);
	case EFFECTS_E2EL:
		return (double)e2e;
	case EFFECTS_QUEUE:
		return (double)q->queue_ns;
	case EFFECTS_FIGURES:
		break;
	}
	return NAN;
}

/* From either of the two lists. */
static int make_series(struct effects_run *r, const struct request *live, const struct store_request *stored, int64_t n,
		       struct err *e)
{
	double *v = mem_alloc((size_t)(n + 1) * sizeof *v);
	int rc = v ? ERR_NONE : err_no_memory(e, "a comparison");
	for (int f = 0; rc == ERR_NONE && f < EFFECTS_FIGURES; f++) {
		for (int64_t i = 0; i < n; i++)
			v[i] = (live ? of_request(&live[i], f) : of_stored(&stored[i], f)) / 1e6;
		rc = boot_series_make(&r->series[f], v, n, e);
	}
	mem_free(v);
	return rc;
}

int effects_run_requests(struct effects_run *r, const struct request *requests, int64_t n, struct err *e)
{
	return make_series(r, requests, NULL, n, e);
}

int effects_run_stored(struct effects_run *r, const struct store_request *list, int64_t n, struct err *e)
{
	return make_series(r, NULL, list, n, e);
}

void effects_run_free(struct effects_run *r)
{
	for (int f = 0; f < EFFECTS_FIGURES; f++)
		boot_series_free(&r->series[f]);
	mem_free(r->list);
	*r = (struct effects_run){0};
}

/* --- effects ------------------------------------------------------------------------------------------------------ */

enum effect_verdict effect_verdict(const struct boot_effect *x)
{
	if (isnan(x->effect) || isnan(x->low))
		return EFFECT_UNKNOWN;
	if (x->effect == 0 && x->low == 0 && x->high == 0)
		return EFFECT_SAME;
	if (x->low > 0 || x->high < 0)
		return x->effect < 0 ? EFFECT_LOWERS : EFFECT_RAISES;
	return EFFECT_NONE;
}

void effects_warn(struct effects *x, const char *text)
{
	for (int32_t i = 0; i < x->n_warnings; i++)
		if (strcmp(x->warnings[i], text) == 0)
			return;
	if (x->n_warnings < EFFECTS_WARNINGS)
		snprintf(x->warnings[x->n_warnings++], sizeof x->warnings[0], "%s", text);
}

/* Requests as samples: one run of either side. */
static int by_request(struct effects *out, const struct effects_run *a, const struct effects_run *b,
		      const struct percentiles *p, bool all, struct err *e)
{
	double stats[BOOT_STATS_MAX] = {0};
	struct boot_effect x[BOOT_STATS_MAX];
	int32_t n = 0;
	stats[n++] = 0;
	if (all)
		stats[n++] = 50;
	for (int32_t i = 0; i < p->n; i++)
		if (p->p[i] != 50 || !all)
			stats[n++] = p->p[i];
	for (int f = 0; f < EFFECTS_FIGURES; f++) {
		if (!all && !figures[f].headline)
			continue;
		int rc = boot_effects(&a->series[f], &b->series[f], out->paired, stats, n, 1, x, e);
		if (rc)
			return rc;
		for (int32_t i = 0; i < n && out->n < EFFECTS_MOST; i++) {
			char name[24] = "mean";
			struct effect *to = &out->list[out->n];
			if (isnan(x[i].a) && isnan(x[i].b))
				continue;
			*to = (struct effect){.unit = "ms", .better = METRIC_LOWER, .x = x[i]};
			if (stats[i] > 0)
				percentile_name(stats[i], name);
			snprintf(to->key, sizeof to->key, "%s_%s_ms", strcmp(name, "p50") == 0 ? "median" : name,
				 latency_key(figures[f].latency));
			snprintf(to->label, sizeof to->label, "%s %s", name, latency_label(figures[f].latency));
			out->blocks = x[i].blocks;
			out->n++;
		}
	}
	out->requests = a->series[0].n < b->series[0].n ? a->series[0].n : b->series[0].n;
	return ERR_NONE;
}

static double value_of(const struct effects_run *r, const char *key)
{
	for (int32_t i = 0; i < r->n; i++)
		if (strcmp(r->list[i].key, key) == 0)
			return r->list[i].value;
	return NAN;
}

/* "TTFT mean" -> "mean TTFT" */
static void label_of(const struct metric_value *v, char *out, size_t size)
{
	const char *last = strrchr(v->label, ' ');
	if (last && strcmp(v->unit, "ms") == 0 && strchr("mp", last[1]))
		snprintf(out, size, "%s %.*s", last + 1, (int)(last - v->label), v->label);
	else
		snprintf(out, size, "%s", v->label);
}

/* Runs as samples. pairs: [n][2] places of runs. */
static int by_run(struct effects *out, const struct effects_side *a, const struct effects_side *b,
		  const int32_t (*pairs)[2], bool all, struct err *e)
{
	double *va = mem_alloc((size_t)out->runs * 2 * sizeof *va), *vb = va + out->runs;
	int rc = va ? ERR_NONE : err_no_memory(e, "a comparison");
	const struct effects_run *first = &a->runs[pairs[0][0]];
	for (int32_t i = 0; rc == ERR_NONE && i < first->n && out->n < EFFECTS_MOST; i++) {
		const struct metric_value *m = &first->list[i];
		struct effect *to = &out->list[out->n];
		int32_t n = 0;
		if (!all && (!m->headline || m->better == METRIC_NEUTRAL))
			continue;
		for (int32_t k = 0; k < out->runs; k++) {
			va[n] = value_of(&a->runs[pairs[k][0]], m->key);
			vb[n] = value_of(&b->runs[pairs[k][1]], m->key);
			n += !isnan(va[n]) && !isnan(vb[n]);
		}
		if (n == 0)
			continue;
		*to = (struct effect){.unit = m->unit, .better = m->better};
		snprintf(to->key, sizeof to->key, "%s", m->key);
		label_of(m, to->label, sizeof to->label);
		rc = boot_runs(va, vb, n, out->paired, 1, &to->x, e);
		out->n++;
	}
	mem_free(va);
	return rc;
}

/* Pairs of runs that served the same; if there is none, of any. Returns how many, *paired says which. */
static int32_t find_pairs(const struct effects_side *a, const struct effects_side *b, int32_t (*pairs)[2], bool *used,
			  bool *paired)
{
	int32_t n = 0, least = a->n < b->n ? a->n : b->n;
	for (int32_t i = 0; i < a->n; i++)
		for (int32_t k = 0; k < b->n; k++) {
			if (used[k] || a->runs[i].workload_hash != b->runs[k].workload_hash)
				continue;
			used[k] = true;
			pairs[n][0] = i;
			pairs[n++][1] = k;
			break;
		}
	*paired = n > 0;
	for (int32_t i = 0; !*paired && i < least; i++)
		pairs[i][0] = pairs[i][1] = i;
	return *paired ? n : least;
}

static void warn(struct effects *out, const struct effects_side *a, const struct effects_side *b)
{
	char text[240];
	bool thin = false, none = false, cache = a->runs[0].prefix_cache || b->runs[0].prefix_cache;
	for (int32_t i = 0; i < out->n; i++) {
		thin |= out->list[i].x.thin;
		none |= isnan(out->list[i].x.low) && !isnan(out->list[i].x.effect);
	}
	if (!out->paired)
		effects_warn(
			out,
			"their workloads differ, so nothing could be paired: what differs may be the requests' doing");
	else if (out->runs < a->n || out->runs < b->n) {
		snprintf(text, sizeof text,
			 "%d of %d and %d runs served the same and were paired; the others were left out", out->runs,
			 a->n, b->n);
		effects_warn(out, text);
	}
	if (!out->by_request && out->runs < SEEDS_FEW) {
		snprintf(text, sizeof text,
			 "%d run%s of each %s few: intervals are wide, and hold only if runs vary normally", out->runs,
			 out->runs > 1 ? "s" : "", out->runs > 1 ? "are" : "is");
		effects_warn(out, text);
	}
	if (out->by_request && none)
		effects_warn(out, "too few requests for intervals");
	if (thin)
		effects_warn(out, "percentiles of too few requests to be relied on");
	if (a->runs[0].prefix_cache != b->runs[0].prefix_cache)
		effects_warn(
			out,
			"one has a prefix cache, the other none; it is cold at the start, so that filling it counts");
	else if (cache)
		effects_warn(out,
			     "prefix caches are cold at the start of every run: what is said includes filling them");
}

int effects_between(struct effects *out, const struct effects_side *a, const struct effects_side *b,
		    const struct percentiles *p, bool all, struct err *e)
{
	*out = (struct effects){0};
	snprintf(out->against, sizeof out->against, "%s", a->label);
	snprintf(out->label, sizeof out->label, "%s", b->label);
	int32_t(*pairs)[2] = mem_zalloc((size_t)a->n + (size_t)b->n, sizeof *pairs);
	bool *used = mem_zalloc((size_t)b->n, sizeof *used);
	out->list = mem_zalloc(EFFECTS_MOST, sizeof *out->list);
	int rc = pairs && used && out->list ? ERR_NONE : err_no_memory(e, "a comparison");
	if (rc == ERR_NONE) {
		out->runs = find_pairs(a, b, pairs, used, &out->paired);
		const struct effects_run *x = &a->runs[pairs[0][0]], *y = &b->runs[pairs[0][1]];
		out->by_request = out->runs == 1 && x->series[0].n > 0 && y->series[0].n > 0;
		rc = out->by_request ? by_request(out, x, y, p, all, e)
				     : by_run(out, a, b, (const int32_t(*)[2])pairs, all, e);
	}
	if (rc == ERR_NONE)
		warn(out, a, b);
	else
		effects_free(out);
	mem_free(pairs);
	mem_free(used);
	return rc;
}

void effects_free(struct effects *x)
{
	mem_free(x->list);
	x->list = NULL;
	x->n = 0;
}
