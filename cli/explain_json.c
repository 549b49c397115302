#include <math.h>
#include <stdio.h>

#include "analysis/jout.h"
#include "analysis/rerun.h"
#include "cli/explain_view.h"
#include "core/err.h"

static void head(struct jout *j, const struct explain_view *v)
{
	const struct store_recipe *r = &v->run.recipe;
	jout_begin(j, NULL, '{');
	jout_int(j, "run_id", r->run_id);
	jout_text(j, "label", r->label);
	jout_text(j, "policy", r->policy);
	jout_bool(j, "executed", v->executed);
	if (!v->executed)
		return;
	jout_begin(j, "step_model", '{');
	jout_real(j, "step_ns", v->fit.at[0]);
	jout_real(j, "prefill_token_ns", v->fit.at[1]);
	jout_real(j, "decode_ns", v->fit.at[2]);
	jout_real(j, "context_token_ns", v->fit.at[3]);
	jout_real(j, "relative_error", v->fit.error);
	jout_end(j, '}');
}

static int tail(struct jout *j, struct err *e)
{
	char *unused;
	jout_end(j, '}');
	int rc = jout_close(j, &unused, e);
	putchar('\n');
	return rc;
}

static void name_request(struct jout *j, const struct explain_view *v, int32_t req)
{
	char buf[24];
	jout_int(j, "request", req);
	jout_text(j, "name", workload_name(&v->run.loaded.workload, req, buf));
}

static void causes(struct jout *j, const char *key, const int64_t ns[CAUSES])
{
	jout_begin(j, key, '{');
	for (int c = 0; c < CAUSES; c++)
		jout_int(j, cause_names[c], ns[c]);
	jout_end(j, '}');
}

/* --- a request ---------------------------------------------------------------------------------------------------- */

static void who(struct jout *j, const char *key, const char *amount, const struct explain_view *v,
		const struct explain_list *l)
{
	jout_begin(j, key, '[');
	for (int32_t i = 0; i < l->n; i++) {
		jout_begin(j, NULL, '{');
		name_request(j, v, l->at[i].req);
		jout_real(j, amount, l->at[i].amount);
		jout_real(j, "share", l->at[i].amount / l->total);
		jout_end(j, '}');
	}
	jout_end(j, ']');
}

static void phase(struct jout *j, const struct phase *p)
{
	jout_begin(j, NULL, '{');
	jout_text(j, "what", phase_names[p->kind]);
	jout_int(j, "begin_ns", p->begin_ns);
	jout_int(j, "end_ns", p->end_ns);
	jout_int(j, "first_step", p->first_step);
	jout_int(j, "last_step", p->last_step);
	if (p->tokens)
		jout_int(j, "tokens", p->tokens);
	if (p->again)
		jout_int(j, "computed_again", p->again);
	if (p->by >= 0)
		jout_int(j, "for_request", p->by);
	jout_end(j, '}');
}

int explain_json_request(const struct explain_view *v, struct err *e)
{
	struct jout j;
	const struct explain_focus *f = &v->x.focus;
	const struct request *r = &v->result.requests[f->req];
	const struct spec *s = &v->run.loaded.workload.specs[f->req];
	jout_open(&j, stdout);
	head(&j, v);
	name_request(&j, v, f->req);
	jout_text(&j, "state", request_state_name((enum request_state)r->state));
	jout_int(&j, "prompt_tokens", s->prompt_tokens);
	jout_int(&j, "output_tokens", r->outputs);
	jout_int(&j, "cached_tokens", r->cached_tokens);
	jout_int(&j, "recomputed_tokens", r->recomputed_tokens);
	jout_int(&j, "preemptions", r->preemptions);
	jout_int(&j, "arrival_ns", r->arrival_ns);
	if (r->first_token_ns >= 0)
		jout_int(&j, "ttft_ns", request_ttft_ns(r));
	else
		jout_null(&j, "ttft_ns");
	jout_int(&j, "e2e_ns", request_e2e_ns(r));
	causes(&j, "to_first_token_ns", v->x.each[f->req].first);
	causes(&j, "after_it_ns", v->x.each[f->req].after);
	jout_int(&j, "waiting_before_it", f->ahead);
	jout_int(&j, "running_as_it_came", f->running);
	jout_int(&j, "let_in_out_of_turn", f->overtakers);
	who(&j, "memory_holders", "block_ns", v, &f->holders);
	who(&j, "prompts_in_its_way", "ns", v, &f->prefills);
	jout_begin(&j, "phases", '[');
	for (int64_t i = 0; i < f->story.n; i++)
		phase(&j, &f->story.phases[i]);
	jout_end(&j, ']');
	return tail(&j, e);
}

/* --- a run -------------------------------------------------------------------------------------------------------- */

static void real_causes(struct jout *j, const char *key, const double ns[CAUSES])
{
	jout_begin(j, key, '{');
	for (int c = 0; c < CAUSES; c++)
		jout_real(j, cause_names[c], ns[c]);
	jout_end(j, '}');
}

static void rank(struct jout *j, const struct explain_view *v, enum explain_metric m)
{
	const struct explain_rank *k = &v->rank[m];
	jout_begin(j, explain_metric_names[m], '{');
	jout_int(j, "requests", k->n);
	if (k->n) {
		jout_real(j, "percentile_ns", k->at_ns);
		jout_int(j, "slow_requests", k->slow);
		jout_real(j, "mean_ns", k->all_ns);
		jout_real(j, "slow_mean_ns", k->slow_ns);
		real_causes(j, "mean_by_cause_ns", k->all_by);
		real_causes(j, "slow_mean_by_cause_ns", k->slow_by);
		jout_begin(j, "ranked", '[');
		for (int c = 0; c < CAUSES && k->slow_by[k->order[c]] > 0; c++)
			jout_text(j, NULL, cause_names[k->order[c]]);
		jout_end(j, ']');
		jout_begin(j, "slowest", '[');
		for (int32_t i = 0; i < k->n_slowest; i++) {
			jout_begin(j, NULL, '{');
			name_request(j, v, k->slowest[i]);
			jout_end(j, '}');
		}
		jout_end(j, ']');
	}
	jout_end(j, '}');
}

static void figures(struct jout *j, const struct whatif_figures *f)
{
	static const char *const keys[EXPLAIN_METRICS] = {"ttft_ns", "tpot_ns", "e2el_ns"};
	for (int m = 0; m < EXPLAIN_METRICS; m++)
		jout_real(j, keys[m], f->p[m]);
	jout_real(j, "request_throughput", f->throughput);
	jout_int(j, "completed", f->completed);
	jout_int(j, "preemptions", f->preemptions);
}

static void whatifs(struct jout *j, const struct explain_view *v)
{
	const struct whatifs *w = &v->whatifs;
	if (*v->whatif_model)
		jout_text(j, "what_if_times", v->whatif_model);
	if (*v->no_whatifs)
		jout_text(j, "no_what_ifs", v->no_whatifs);
	jout_begin(j, "base", '{');
	figures(j, &w->base);
	jout_end(j, '}');
	jout_begin(j, "what_ifs", '[');
	for (int32_t i = 0; i < w->n; i++) {
		const struct whatif *x = &w->at[i];
		jout_begin(j, NULL, '{');
		jout_text(j, "change", x->change);
		jout_text(j, "against", x->against < CAUSES ? cause_names[x->against] : NULL);
		jout_bool(j, "ran", x->ran);
		if (x->ran)
			figures(j, &x->figures);
		else
			jout_text(j, "why_not", x->why_not);
		jout_end(j, '}');
	}
	jout_end(j, ']');
	int32_t best = whatif_best(w, v->metric, false), kind = whatif_best(w, v->metric, true),
		worst = whatif_worst(w, v->metric);
	jout_text(j, "best", best < 0 ? NULL : w->at[best].change);
	jout_text(j, "best_at_no_cost", kind < 0 ? NULL : w->at[kind].change);
	jout_text(j, "worst", worst < 0 ? NULL : w->at[worst].change);
}

int explain_json_run(const struct explain_view *v, struct err *e)
{
	struct jout j;
	jout_open(&j, stdout);
	head(&j, v);
	jout_real(&j, "percentile", v->percentile);
	for (int m = 0; m < EXPLAIN_METRICS; m++)
		rank(&j, v, (enum explain_metric)m);
	jout_text(&j, "metric", explain_metric_names[v->metric]);
	whatifs(&j, v);
	return tail(&j, e);
}
