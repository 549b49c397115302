#include "cli/compare_stored.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/compare.h"
#include "analysis/effects.h"
#include "analysis/store.h"
#include "analysis/store_report.h"
#include "cli/compare_means.h"
#include "core/err.h"
#include "core/mem.h"

struct stored {
	struct effects_run run;
	struct store_report_run row;
	char *json; /* its result */
	json_t *configuration; /* what it is a run of */
	int32_t side;
};

struct job {
	const struct compare_stored *c;
	struct store *store;
	struct stored *at; /* [c->n] */
	struct effects_side *sides; /* [n_sides] whose runs stay those of at[] */
	char (*labels)[200]; /* [n_sides] */
	int32_t n_sides;
	bool one_configuration; /* all are of it: each run is a side of its own */
};

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* The percentiles a run has, seen from the names of its metrics. */
static void see_percentile(void *ctx, const char *name, double value, const char *unit, bool uncertain)
{
	struct percentiles *p = ctx;
	char *end;
	(void)value, (void)unit, (void)uncertain;
	if (name[0] != 'p')
		return;
	double v = strtod(name + 1, &end);
	if (end != name + 1 && strcmp(end, "_ttft_ms") == 0 && p->n < METRICS_MAX_PERCENTILES)
		p->p[p->n++] = v;
}

static void take_metric(void *ctx, const char *name, double value, const char *unit, bool uncertain)
{
	struct effects_run *r = ctx;
	(void)unit;
	for (int32_t i = 0; i < r->n; i++)
		if (strcmp(r->list[i].key, name) == 0) {
			r->list[i].value = value;
			r->list[i].thin = uncertain;
			return;
		}
}

static int read_metrics(struct store *s, int64_t run_id, struct effects_run *r, struct err *e)
{
	static const struct engine_stats no_stats;
	bool prefix_cache = r->prefix_cache;
	struct metrics *none = mem_zalloc(1, sizeof *none);
	if (!none)
		return err_no_memory(e, "a comparison");
	int rc = store_report_metrics(s, run_id, see_percentile, &none->percentiles, e);
	if (rc == ERR_NONE)
		rc = effects_run_metrics(r, none, &no_stats, e);
	for (int32_t i = 0; i < r->n; i++)
		r->list[i].value = NAN;
	r->prefix_cache = prefix_cache;
	mem_free(none);
	return rc ? rc : store_report_metrics(s, run_id, take_metric, r, e);
}

static int read_requests(struct store *s, int64_t run_id, struct effects_run *r, struct err *e)
{
	struct store_request *list = NULL;
	int64_t n = 0;
	int rc = store_report_requests(s, run_id, &list, &n, e);
	if (rc == ERR_NONE && n > 0)
		rc = effects_run_stored(r, list, n, e);
	mem_free(list);
	return rc;
}

/* Everything that decides a run but its seed, and what the seed decides. */
static int read_configuration(struct stored *x, struct err *e)
{
	static const char *const leave[] = {"seed", "workload_hash", "arguments", "arm", "record", "goodput"};
	json_error_t why;
	json_t *root = json_loads(x->json, 0, &why);
	json_t *settings = root ? json_object_get(root, "settings") : NULL;
	if (!settings) {
		json_decref(root);
		return err_set(e, ERR_INPUT, "run %" PRId64 ": its settings cannot be read", x->row.run_id);
	}
	x->configuration = json_incref(settings);
	json_object_set(settings, "policy", json_object_get(root, "policy"));
	json_object_set(settings, "policy_params", json_object_get(root, "policy_params"));
	for (size_t i = 0; i < sizeof leave / sizeof *leave; i++)
		json_object_del(settings, leave[i]);
	x->run.prefix_cache = json_is_string(json_object_get(settings, "prefix_eviction"));
	json_decref(root);
	return ERR_NONE;
}

static int read_run(struct job *j, struct stored *x, const char *text, struct err *e)
{
	int64_t run_id;
	int rc = store_resolve(j->store, text, &run_id, e);
	for (struct stored *y = j->at; rc == ERR_NONE && y < x; y++)
		if (y->row.run_id == run_id)
			return err_set(e, ERR_INPUT, "run %" PRId64 " is named twice", run_id);
	if (rc == ERR_NONE)
		rc = store_report_run(j->store, run_id, &x->row, e);
	if (rc == ERR_NONE)
		rc = store_run_json(j->store, run_id, &x->json, e);
	if (rc == ERR_NONE && strcmp(x->row.status, "complete") != 0)
		return err_set(e, ERR_INPUT, "run %" PRId64 " is %s: only complete runs are compared", run_id,
			       x->row.status);
	if (rc == ERR_NONE)
		rc = read_configuration(x, e);
	if (rc)
		return rc;
	x->run.run_id = run_id;
	x->run.workload_hash = strtoull(x->row.workload_hash, NULL, 16);
	rc = read_metrics(j->store, run_id, &x->run, e);
	return rc ? rc : read_requests(j->store, run_id, &x->run, e);
}

/* --- sides -------------------------------------------------------------------------------------------------------- */

static const struct stored *first_of(const struct job *j, int32_t side)
{
	int i = 0;
	while (i < j->c->n - 1 && j->at[i].side != side)
		i++;
	return &j->at[i];
}

/* Sides are called as their first runs are, and by number too where two have one name. */
static void name_sides(struct job *j)
{
	for (int32_t k = 0; k < j->n_sides; k++) {
		const struct stored *x = first_of(j, k);
		bool taken = false;
		for (int32_t i = 0; i < j->n_sides; i++)
			taken |= i != k && strcmp(first_of(j, i)->row.label, x->row.label) == 0;
		if (taken)
			snprintf(j->labels[k], sizeof j->labels[k], "%.150s (run %" PRId64 ")", x->row.label,
				 x->row.run_id);
		else
			snprintf(j->labels[k], sizeof j->labels[k], "%.150s", x->row.label);
		j->sides[k].label = j->labels[k];
	}
}

static int make_sides(struct job *j, struct err *e)
{
	int n = j->c->n;
	for (int i = 0; i < n; i++) {
		int k = 0;
		while (k < i && !json_equal(j->at[k].configuration, j->at[i].configuration))
			k++;
		j->at[i].side = k < i ? j->at[k].side : j->n_sides++;
	}
	j->one_configuration = j->n_sides == 1;
	for (int i = 0; j->one_configuration && i < n; i++)
		j->at[i].side = i;
	j->n_sides = j->one_configuration ? n : j->n_sides;
	j->sides = mem_zalloc((size_t)j->n_sides, sizeof *j->sides);
	j->labels = mem_zalloc((size_t)j->n_sides, sizeof *j->labels);
	if (!j->sides || !j->labels)
		return err_no_memory(e, "a comparison");
	for (int32_t k = 0; k < j->n_sides; k++) {
		struct effects_side *side = &j->sides[k];
		side->runs = mem_zalloc((size_t)n, sizeof *side->runs);
		if (!side->runs)
			return err_no_memory(e, "a comparison");
		for (int i = 0; i < n; i++)
			if (j->at[i].side == k)
				side->runs[side->n++] = j->at[i].run;
	}
	name_sides(j);
	return ERR_NONE;
}

/* --- what is said ------------------------------------------------------------------------------------------------- */

static const char *cache_at_start(const struct job *j, int32_t side)
{
	return json_string_value(json_object_get(first_of(j, side)->configuration, "cache_at_start"));
}

static void warn(const struct job *j, int32_t side, struct effects *x)
{
	const char *a = cache_at_start(j, 0), *b = cache_at_start(j, side);
	char text[280];
	if (j->one_configuration)
		effects_warn(x, "both are runs of one configuration: what differs between them is noise");
	if (a && b && strcmp(a, b) != 0) {
		snprintf(text, sizeof text, "the caches of %.80s were %.20s at the start, those of %.80s %.20s",
			 x->against, a, x->label, b);
		effects_warn(x, text);
	}
}

static int all_effects(const struct job *j, struct effects *list, struct err *e)
{
	int rc = ERR_NONE;
	for (int32_t k = 1; rc == ERR_NONE && k < j->n_sides; k++) {
		rc = effects_between(&list[k], &j->sides[0], &j->sides[k], &j->c->percentiles, j->c->all, e);
		if (rc == ERR_NONE)
			warn(j, k, &list[k]);
	}
	return rc;
}

static int print_text(const struct job *j, const struct effects *list, struct err *e)
{
	struct compare_table t;
	for (int32_t k = 0; k < j->n_sides; k++) {
		printf("%s: run", j->sides[k].label);
		for (int32_t i = 0; i < j->sides[k].n; i++)
			printf("%s %" PRId64, i ? "," : "", j->sides[k].runs[i].run_id);
		putchar('\n');
	}
	putchar('\n');
	int rc = compare_means(&t, j->sides, j->n_sides, j->c->all, e);
	if (rc)
		return rc;
	rc = compare_print(&t, stdout, j->c->width, j->c->bold, e);
	compare_free(&t);
	putchar('\n');
	effects_print_all(list, j->n_sides, stdout);
	return rc;
}

static int print(const struct job *j, const struct effects *list, struct err *e)
{
	if (!j->c->json)
		return print_text(j, list, e);
	char **texts = mem_zalloc((size_t)j->c->n, sizeof *texts);
	if (!texts)
		return err_no_memory(e, "JSON");
	for (int i = 0; i < j->c->n; i++)
		texts[i] = j->at[i].json;
	int rc = compare_json(stdout, texts, j->c->n, list, j->n_sides, e);
	mem_free(texts);
	return rc;
}

static int run(struct job *j, struct err *e)
{
	int rc = ERR_NONE;
	for (int i = 0; rc == ERR_NONE && i < j->c->n; i++)
		rc = read_run(j, &j->at[i], j->c->runs[i], e);
	if (rc == ERR_NONE)
		rc = make_sides(j, e);
	if (rc)
		return rc;
	struct effects *list = mem_zalloc((size_t)j->n_sides, sizeof *list);
	rc = list ? all_effects(j, list, e) : err_no_memory(e, "a comparison");
	if (rc == ERR_NONE)
		rc = print(j, list, e);
	for (int32_t k = 0; list && k < j->n_sides; k++)
		effects_free(&list[k]);
	mem_free(list);
	return rc;
}

int compare_stored(const struct compare_stored *c, struct err *e)
{
	struct job j = {.c = c};
	int rc = store_open(&j.store, c->db, true, e);
	j.at = rc ? NULL : mem_zalloc((size_t)c->n, sizeof *j.at);
	if (rc == ERR_NONE)
		rc = j.at ? run(&j, e) : err_no_memory(e, "a comparison");
	for (int i = 0; j.at && i < c->n; i++) {
		effects_run_free(&j.at[i].run);
		store_report_run_free(&j.at[i].row);
		mem_free(j.at[i].json);
		json_decref(j.at[i].configuration);
	}
	for (int32_t k = 0; j.sides && k < j.n_sides; k++)
		mem_free(j.sides[k].runs);
	mem_free(j.sides);
	mem_free(j.labels);
	mem_free(j.at);
	store_close(j.store);
	return rc;
}
