/* slo_json.c: the same for programs. */
#include <math.h>
#include <stdio.h>

#include "analysis/jout.h"
#include "cli/slo_print.h"
#include "core/err.h"

/* Attainment of each class that has objectives of its own; "" are all others. */
static void classes(struct jout *j, const struct slo_point *p, const struct goodput_slo *slo)
{
	jout_begin(j, "classes", '[');
	for (int32_t c = 0; slo->n_classes && c <= slo->n_classes; c++) {
		const struct slo_share *x = &p->shares[c];
		if (!x->n)
			continue;
		jout_begin(j, NULL, '{');
		jout_text(j, "class", c < slo->n_classes ? slo->classes[c].name : "");
		jout_int(j, "requests", x->n);
		jout_int(j, "good", x->good);
		jout_real(j, "attainment", p->cut_short ? NAN : (double)x->good / (double)x->n);
		jout_end(j, '}');
	}
	jout_end(j, ']');
}

static void point(struct jout *j, const struct slo_point *p, const struct goodput_slo *slo)
{
	jout_begin(j, NULL, '{');
	jout_real(j, "request_rate", p->rate);
	jout_int(j, "replicas", p->replicas);
	jout_real(j, "attainment", p->attainment);
	jout_real(j, "attainment_margin", p->margin);
	jout_bool(j, "passes", p->passes);
	jout_bool(j, "cut_short", p->cut_short);
	jout_int(j, "requests", p->n);
	jout_int(j, "good", p->good);
	classes(j, p, slo);
	jout_real(j, "p99_ttft_ms", p->p99_ttft_ms);
	jout_real(j, "p99_tpot_ms", p->p99_tpot_ms);
	jout_real(j, "request_throughput", p->request_throughput);
	jout_real(j, "joules_per_good_request", p->joules_per_good_request);
	jout_text(j, "state", slo_state_names[p->state]);
	jout_text(j, "limit", slo_limit_names[p->limit]);
	jout_end(j, '}');
}

static void count(struct jout *j, const char *key, double n)
{
	if (n > 0 && !isinf(n))
		jout_int(j, key, (int64_t)n);
	else
		jout_null(j, key);
}

static void found(struct jout *j, const struct slo_row *r, bool fewest)
{
	const struct slo_result *x = &r->result;
	if (fewest) {
		count(j, "replicas", x->high);
		count(j, "fails_with", x->low);
		jout_int(j, "sure_low", (int64_t)x->sure_low + 1);
		count(j, "sure_high", x->sure_high);
		count(j, "max_replicas", r->max_replicas);
		jout_bool(j, "pruned", r->pruned);
	} else {
		jout_real(j, "max_request_rate", x->at_pass >= 0 ? x->low : NAN);
		jout_real(j, "fails_at", x->high);
		jout_real(j, "sure_low", x->sure_low > 0 ? x->sure_low : NAN);
		jout_real(j, "sure_high", x->sure_high);
	}
	jout_bool(j, "monotone", x->again == 0);
	jout_text(j, "state", x->at_pass >= 0 ? slo_state_names[x->points[x->at_pass].state] : NULL);
	jout_text(j, "limit", x->at_fail >= 0 ? slo_limit_names[x->points[x->at_fail].limit] : NULL);
}

static void row(struct jout *j, const struct slo_row *r, bool fewest)
{
	const struct slo_result *x = &r->result;
	const struct run_settings *s = r->settings;
	jout_begin(j, NULL, '{');
	jout_text(j, "label", s->label);
	jout_text(j, "policy", s->policy);
	jout_text(j, "model", s->model);
	jout_text(j, "device", s->device);
	jout_int(j, "tensor_parallel_size", s->tensor_parallel);
	jout_text(j, "outcome", slo_outcome_names[x->outcome]);
	jout_text(j, "why", x->outcome == SLO_IMPOSSIBLE ? x->text : NULL);
	found(j, r, fewest);
	jout_real(j, "price_per_hour", slo_price_per_hour(r));
	jout_real(j, "dollars_per_good_request", slo_dollars_per_good_request(r));
	jout_real(j, "dollars_per_million_input_tokens", slo_dollars_per_million(r, r->input_tokens));
	jout_real(j, "dollars_per_million_output_tokens", slo_dollars_per_million(r, r->output_tokens));
	jout_real(j, "joules_per_good_request", slo_row_point(r) ? slo_row_point(r)->joules_per_good_request : NAN);
	jout_bool(j, "on_cost_front", r->on_cost_front);
	jout_bool(j, "on_latency_front", r->on_latency_front);
	jout_bool(j, "on_price_front", r->on_price_front);
	jout_begin(j, "points", '[');
	for (int32_t i = 0; i < x->n_points; i++)
		point(j, &x->points[i], &s->slo);
	jout_end(j, ']');
	jout_end(j, '}');
}

int slo_print_json(FILE *f, const struct slo_row *rows, int32_t n, const struct slo_options *o, double own_rate,
		   struct err *e)
{
	bool fewest = o->find == SLO_FIND_REPLICAS;
	int32_t best = slo_cheapest(rows, n);
	char words[GOODPUT_TEXT];
	struct jout j;
	jout_open(&j, f);
	jout_begin(&j, NULL, '{');
	jout_text(&j, "find", fewest ? "replicas" : "rate");
	jout_text(&j, "goodput", goodput_text(&rows[0].settings->slo, words));
	jout_real(&j, "attainment", o->attainment);
	jout_real(&j, "trace_request_rate", own_rate);
	if (fewest) {
		jout_real(&j, "request_rate", o->rate > 0 ? o->rate : own_rate);
		jout_text(&j, "cheapest", best >= 0 ? rows[best].settings->label : NULL);
	}
	jout_begin(&j, "configurations", '[');
	for (int32_t i = 0; i < n; i++)
		row(&j, &rows[i], fewest);
	jout_end(&j, ']');
	jout_end(&j, '}');
	char *none;
	int rc = jout_close(&j, &none, e);
	if (rc == ERR_NONE)
		putc('\n', f);
	return rc;
}
