/* validate_json.c: a validation as JSON, and as the flat list that the database keeps. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/jout.h"
#include "analysis/validate.h"

/* --- the flat list ------------------------------------------------------------------------------------------------ */

static void add(struct validate_row *rows, int32_t *n, struct validate_row row)
{
	rows[(*n)++] = row;
}

static void add_steps(const struct validate_result *r, struct validate_row *rows, int32_t *n)
{
	for (int k = 0; k < VALIDATE_KINDS; k++) {
		const struct validate_steps *s = &r->steps[k];
		const char *const names[] = {"mape", "bias", "total", "p90"};
		const double errors[] = {s->mape, s->bias, s->total, s->p90};
		for (int i = 0; i < 4; i++)
			add(rows, n,
			    (struct validate_row){.what = "step",
						  .of = validate_kind_keys[k],
						  .statistic = names[i],
						  .measured = s->measured_ns,
						  .simulated = s->predicted_ns,
						  .error = errors[i],
						  .spread = i == 0 ? s->spread : NAN,
						  .n = s->n});
	}
}

static void add_parts(const struct validate_result *r, struct validate_row *rows, int32_t *n)
{
	for (int k = 0; r->has_parts && k < VALIDATE_PARTS; k++) {
		const struct validate_part *p = &r->parts[k];
		struct validate_row row = {.what = "part",
					   .of = validate_part_keys[k],
					   .statistic = "sum",
					   .measured = p->measured_ns,
					   .simulated = p->predicted_ns,
					   .error = p->error,
					   .spread = p->spread,
					   .n = r->n_points};
		add(rows, n, row);
		row.statistic = "absolute";
		row.error = p->absolute;
		row.spread = NAN;
		add(rows, n, row);
	}
}

static struct validate_row row_of(const struct validate_figure *f, const char *what, const char *statistic)
{
	return (struct validate_row){.what = what,
				     .of = "",
				     .statistic = statistic,
				     .measured = f->measured,
				     .simulated = f->simulated,
				     .error = f->error,
				     .spread = f->spread,
				     .n = f->n,
				     .uncertain = f->thin};
}

int32_t validate_rows(const struct validate_result *r, struct validate_row rows[VALIDATE_ROWS])
{
	int32_t n = 0;
	add_steps(r, rows, &n);
	add_parts(r, rows, &n);
	for (int t = 0; t < VALIDATE_TIMES; t++) {
		for (int k = 0; k < VALIDATE_STATS; k++)
			add(rows, &n, row_of(&r->times[t][k], validate_time_keys[t], validate_stat_keys[k]));
		add(rows, &n,
		    (struct validate_row){.what = validate_time_keys[t],
					  .of = "",
					  .statistic = "request",
					  .measured = NAN,
					  .simulated = NAN,
					  .error = r->request_mape[t],
					  .spread = NAN,
					  .n = r->n_samples[t][0]});
	}
	for (int k = 0; k < VALIDATE_RATES; k++)
		add(rows, &n, row_of(&r->rates[k], validate_rate_keys[k], "value"));
	return n;
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void put_identical(struct jout *j, const char *key, const struct validate_result *r, bool identical)
{
	if (r->replayed)
		jout_bool(j, key, identical);
	else
		jout_null(j, key);
}

static void put_parting(struct jout *j, const char *key, const struct validate_parting *p)
{
	if (p->step < 0) {
		jout_null(j, key);
		return;
	}
	jout_begin(j, key, '{');
	jout_int(j, "step", p->step);
	jout_int(j, "line", p->line);
	jout_text(j, "executed", p->executed);
	jout_text(j, "replayed", p->replayed);
	jout_end(j, '}');
}

static void put_steps(struct jout *j, const struct validate_result *r)
{
	jout_begin(j, "step_errors", '{');
	for (int k = 0; k < VALIDATE_KINDS; k++) {
		const struct validate_steps *s = &r->steps[k];
		jout_begin(j, validate_kind_keys[k], '{');
		jout_int(j, "n", s->n);
		jout_real(j, "mape", s->mape);
		jout_real(j, "bias", s->bias);
		jout_real(j, "total", s->total);
		jout_real(j, "p90", s->p90);
		jout_real(j, "executor_spread", s->spread);
		jout_real(j, "measured_s", s->measured_ns / 1e9);
		jout_real(j, "predicted_s", s->predicted_ns / 1e9);
		jout_end(j, '}');
	}
	jout_end(j, '}');
	if (!r->has_parts) {
		jout_null(j, "part_errors");
		return;
	}
	jout_begin(j, "part_errors", '{');
	for (int k = 0; k < VALIDATE_PARTS; k++) {
		const struct validate_part *p = &r->parts[k];
		jout_begin(j, validate_part_keys[k], '{');
		jout_real(j, "share", p->share);
		jout_real(j, "error", p->error);
		jout_real(j, "absolute", p->absolute);
		jout_real(j, "executor_spread", p->spread);
		jout_end(j, '}');
	}
	jout_end(j, '}');
}

/* "ttft_p50_err", "ttft_p50_spread" and the two values behind them. `scale` makes them what the key's end says. */
static void put_figure(struct jout *j, const char *name, const struct validate_figure *f, double scale,
		       const char *unit)
{
	char key[64];
	snprintf(key, sizeof key, "%s_err", name);
	jout_real(j, key, f->error);
	snprintf(key, sizeof key, "%s_spread", name);
	jout_real(j, key, f->spread);
	snprintf(key, sizeof key, "measured_%s%s", name, unit);
	jout_real(j, key, f->measured / scale);
	snprintf(key, sizeof key, "simulated_%s%s", name, unit);
	jout_real(j, key, f->simulated / scale);
	if (!f->thin && !f->below_step)
		return;
	snprintf(key, sizeof key, "%s_mark", name);
	jout_text(j, key, f->below_step ? "below a step" : "few samples");
}

static void put_requests(struct jout *j, const struct validate_result *r)
{
	char name[32];
	for (int t = 0; t < VALIDATE_TIMES; t++) {
		for (int k = 0; k < VALIDATE_STATS; k++) {
			snprintf(name, sizeof name, "%s_%s", validate_time_keys[t], validate_stat_keys[k]);
			put_figure(j, name, &r->times[t][k], 1e6, "_ms");
		}
		snprintf(name, sizeof name, "%s_request_mape", validate_time_keys[t]);
		jout_real(j, name, r->request_mape[t]);
	}
	for (int k = 0; k < VALIDATE_RATES; k++)
		put_figure(j, validate_rate_keys[k], &r->rates[k], 1, "");
}

static void put_contention(struct jout *j, const struct validate_contention *c)
{
	jout_begin(j, "contention", '{');
	jout_real(j, "load_average", c->load);
	jout_real(j, "others_percent", c->others);
	jout_real(j, "steal_percent", c->steal);
	jout_bool(j, "busy", c->busy);
	jout_end(j, '}');
}

static void put_id(struct jout *j, const char *key, int64_t id)
{
	if (id > 0)
		jout_int(j, key, id);
	else
		jout_null(j, key);
}

static void put_head(struct jout *j, const struct validate_result *r)
{
	jout_text(j, "policy", r->settings.policy);
	jout_text(j, "label", r->label);
	jout_text(j, "status", run_status_name(r->status));
	jout_text(j, "status_text", r->status_text[0] ? r->status_text : NULL);
	jout_bool(j, "passed", validate_passed(r));
	jout_real(j, "load", r->load > 0 ? r->load : NAN);
	jout_real(j, "capacity", r->load > 0 ? r->capacity : NAN);
	jout_real(j, "offered_rate", r->offered_rate);
	put_id(j, "executed_run_id", r->executed.run_id);
	put_id(j, "simulated_run_id", r->simulated.run_id);
	jout_int(j, "requests", r->executed.n);
	jout_int(j, "completed", r->executed.metrics.completed);
	jout_int(j, "completed_simulated", r->simulated.metrics.completed);
	put_identical(j, "decisions_identical", r, r->decisions_identical);
	put_identical(j, "memory_identical", r, r->memory_identical);
	put_parting(j, "decisions_part", &r->decisions);
	put_parting(j, "memory_part", &r->memory);
	jout_text(j, "replay_text", r->replay_text[0] ? r->replay_text : NULL);
	jout_int(j, "decisions", r->log_lines);
	jout_int(j, "steps", r->n_points);
}

void validate_put_json(struct jout *j, const struct validate_result *r)
{
	const struct validate_steps *all = &r->steps[VALIDATE_ALL];
	jout_begin(j, NULL, '{');
	put_head(j, r);
	jout_real(j, "step_mape", all->mape);
	jout_int(j, "executions", r->executions);
	jout_int(j, "spread_steps", r->executions > 1 ? r->again_steps : 0);
	jout_real(j, "executor_spread", all->spread);
	put_requests(j, r);
	put_steps(j, r);
	jout_text(j, "cost", r->cost);
	jout_int(j, "outside_steps", r->outside_steps);
	jout_real(j, "outside_max", r->outside_max);
	jout_real(j, "max_error", r->allowed);
	jout_int(j, "beyond", r->beyond);
	jout_text(j, "worst", r->worst[0] ? r->worst : NULL);
	jout_text(j, "executor", r->executed.backend_what);
	jout_text(j, "weights", r->executed.weights_what);
	jout_int(j, "num_gpu_blocks", r->executed.engine.num_blocks);
	put_contention(j, &r->contention);
	jout_real(j, "executed_s", r->executed_s);
	jout_end(j, '}');
}
