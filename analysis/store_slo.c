#include "analysis/store_slo.h"

#include <math.h>
#include <stdio.h>

#include "analysis/store_bind.h"
#include "analysis/store_internal.h"

#define WHAT "storing the search"

static int add_search(struct store *s, const struct store_slo *x, int64_t started_unix_s, struct err *e)
{
	const struct run_settings *a = x->rows[0].settings;
	const bool fewest = x->options->find == SLO_FIND_REPLICAS;
	char goodput[GOODPUT_TEXT], seed[24];
	struct binder b = {0};
	int rc = store_prepare(
		s, &b.q,
		"INSERT INTO slo_searches (searched, program_version, find, goodput, attainment, request_rate,"
		" trace_request_rate, trace, trace_hash, workload_hash, requests, seed, arguments, interrupted)"
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		WHAT, e);
	if (rc)
		return rc;
	snprintf(seed, sizeof seed, "%llu", (unsigned long long)a->seed);
	bind_date(&b, started_unix_s);
	bind_text(&b, LOCKSTEP_VERSION);
	bind_text(&b, fewest ? "replicas" : "rate");
	bind_text(&b, goodput_text(&a->slo, goodput));
	bind_real(&b, x->options->attainment);
	bind_real(&b, !fewest ? NAN : x->options->rate > 0 ? x->options->rate : x->own_rate);
	bind_real(&b, x->own_rate);
	bind_text(&b, a->trace_path);
	bind_text(&b, a->trace_hash);
	bind_hex(&b, a->workload_hash);
	bind_int(&b, x->requests);
	bind_text(&b, seed);
	bind_text(&b, a->arguments);
	bind_int(&b, x->interrupted);
	rc = store_run_once(s, &b, WHAT, e);
	sqlite3_finalize(b.q);
	return rc;
}

/* 0 and INFINITY say that there is none. */
static void bind_bound(struct binder *b, double v)
{
	bind_real(b, v > 0 && !isinf(v) ? v : NAN);
}

static void bind_row(struct binder *b, const struct slo_row *r, bool fewest)
{
	const struct slo_result *x = &r->result;
	const struct run_settings *a = r->settings;
	const struct slo_point *p = slo_row_point(r);
	bind_text(b, a->label);
	bind_text(b, a->policy);
	bind_text(b, a->policy_params);
	bind_text(b, a->model);
	bind_text(b, a->device);
	bind_int(b, a->tensor_parallel);
	bind_int_if(b, !fewest || p, fewest && p ? p->replicas : a->replicas);
	bind_text(b, a->router);
	bind_text(b, slo_outcome_names[x->outcome]);
	bind_text(b, x->outcome == SLO_IMPOSSIBLE ? x->text : r->pruned ? "more would not be cheaper" : NULL);
	bind_real(b, p ? p->rate : NAN);
	bind_bound(b, fewest ? x->low : x->high);
	bind_bound(b, fewest && !isinf(x->sure_high) ? x->sure_low + 1 : x->sure_low);
	bind_bound(b, x->sure_high);
	bind_int(b, x->again == 0);
	bind_real(b, p ? p->attainment : NAN);
	bind_real(b, p ? p->p99_ttft_ms : NAN);
	bind_real(b, p ? p->p99_tpot_ms : NAN);
	bind_text(b, p ? slo_state_names[p->state] : NULL);
	bind_text(b, x->at_fail >= 0 ? slo_limit_names[x->points[x->at_fail].limit] : NULL);
	bind_real(b, slo_price_per_hour(r));
	bind_real(b, slo_dollars_per_good_request(r));
	bind_real(b, slo_dollars_per_million(r, r->input_tokens));
	bind_real(b, slo_dollars_per_million(r, r->output_tokens));
	bind_real(b, p ? p->joules_per_good_request : NAN);
	bind_int(b, r->on_cost_front);
	bind_int(b, r->on_latency_front);
	bind_int(b, r->on_price_front);
	bind_real(b, x->wall_s);
}

static int add_rows(struct store *s, const struct store_slo *x, int64_t id, struct err *e)
{
	struct binder b = {0};
	int rc = store_prepare(s, &b.q,
			       "INSERT INTO slo_configurations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
			       " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			       WHAT, e);
	for (int32_t i = 0; rc == ERR_NONE && i < x->n; i++) {
		bind_int(&b, id);
		bind_int(&b, i + 1);
		bind_row(&b, &x->rows[i], x->options->find == SLO_FIND_REPLICAS);
		rc = store_run_once(s, &b, WHAT, e);
	}
	sqlite3_finalize(b.q);
	return rc;
}

static void bind_point(struct binder *b, const struct slo_point *p)
{
	bind_real(b, p->rate);
	bind_int(b, p->replicas);
	bind_real(b, p->attainment);
	bind_real(b, p->margin);
	bind_int(b, p->passes);
	bind_int(b, p->cut_short);
	bind_int(b, p->good);
	bind_real(b, p->p99_ttft_ms);
	bind_real(b, p->p99_tpot_ms);
	bind_real(b, p->request_throughput);
	bind_real(b, p->joules_per_good_request);
	bind_text(b, slo_state_names[p->state]);
	bind_text(b, slo_limit_names[p->limit]);
}

static int add_points(struct store *s, const struct store_slo *x, int64_t id, struct err *e)
{
	struct binder b = {0};
	int rc = store_prepare(
		s, &b.q, "INSERT INTO slo_points VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", WHAT, e);
	for (int32_t i = 0; i < x->n; i++)
		for (int32_t k = 0; rc == ERR_NONE && k < x->rows[i].result.n_points; k++) {
			bind_int(&b, id);
			bind_int(&b, i + 1);
			bind_int(&b, k + 1);
			bind_point(&b, &x->rows[i].result.points[k]);
			rc = store_run_once(s, &b, WHAT, e);
		}
	sqlite3_finalize(b.q);
	return rc;
}

int store_slo(struct store *s, const struct store_slo *x, int64_t started_unix_s, int64_t *search_id, struct err *e)
{
	*search_id = 0;
	int rc = store_exec(s, "BEGIN IMMEDIATE", WHAT, e);
	if (rc)
		return rc;
	rc = add_search(s, x, started_unix_s, e);
	int64_t added = sqlite3_last_insert_rowid(s->db);
	if (rc == ERR_NONE)
		rc = add_rows(s, x, added, e);
	if (rc == ERR_NONE)
		rc = add_points(s, x, added, e);
	if (rc == ERR_NONE)
		rc = store_exec(s, "COMMIT", WHAT, e);
	if (rc)
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	else
		*search_id = added;
	return rc;
}
