#include "cli/compare_live.h"

#include <math.h>
#include <string.h>

#include "cli/command.h"
#include "core/err.h"
#include "core/mem.h"

/* The seed that is being run. */
struct looker {
	struct compare_live *x;
	int32_t seed;
};

static int32_t arm_of(const struct session *s, const struct run_settings *a)
{
	int32_t i = 0;
	while (&s->arms.at[i].s != a)
		i++;
	return i;
}

static struct effects_run *run_of(const struct compare_live *x, int32_t arm, int32_t seed)
{
	return &x->runs[(size_t)arm * (size_t)x->seeds + (size_t)seed];
}

static int make_room(struct compare_live *x, int32_t n_arms, struct err *e)
{
	if (x->runs)
		return ERR_NONE;
	x->n_arms = n_arms;
	x->effects = mem_zalloc((size_t)n_arms, sizeof *x->effects);
	x->runs = x->effects ? mem_zalloc((size_t)n_arms * (size_t)x->seeds, sizeof *x->runs) : NULL;
	return x->runs ? ERR_NONE : err_no_memory(e, "a comparison");
}

/* While its requests are there: the arm against the first one, whose requests alone are kept. */
static int pair_requests(struct compare_live *x, int32_t arm, const struct run_settings *a, const struct run_result *r,
			 struct err *e)
{
	struct effects_run *first = run_of(x, 0, 0), *own = run_of(x, arm, 0);
	if (x->n_arms < 2 || (arm > 0 && !first->series[0].n))
		return ERR_NONE;
	int rc = effects_run_requests(own, r->requests, r->n, e);
	if (rc || arm == 0)
		return rc;
	const struct effects_side s0 = {x->first.arms.at[0].s.label, first, 1}, s1 = {a->label, own, 1};
	rc = effects_between(&x->effects[arm], &s0, &s1, &a->percentiles, x->all, e);
	for (int f = 0; f < EFFECTS_FIGURES; f++)
		boot_series_free(&own->series[f]);
	return rc;
}

static int look(void *ctx, const struct session *s, const struct run_settings *a, const struct run_result *r,
		struct err *e)
{
	struct looker *l = ctx;
	struct compare_live *x = l->x;
	int32_t arm = arm_of(s, a);
	int rc = make_room(x, s->arms.n, e);
	if (rc || r->status != RUN_COMPLETE)
		return rc;
	struct effects_run *run = run_of(x, arm, l->seed);
	run->run_id = r->run_id;
	run->workload_hash = a->workload_hash;
	rc = effects_run_metrics(run, &r->metrics, &r->stats, e);
	return rc || l->seed > 0 ? rc : pair_requests(x, arm, a, r, e);
}

/* What is left of a session when it goes. */
static int harvest(struct compare_live *x, struct session *s, struct err *e)
{
	if (x->status == 0)
		x->status = s->status;
	for (int32_t i = 0; i < s->n_results; i++) {
		if (!s->results[i].run_id || s->results[i].store_err.code)
			continue;
		x->first_run = x->first_run ? x->first_run : s->results[i].run_id;
		x->last_run = s->results[i].run_id;
	}
	if (!x->opts->json || s->n_results == 0)
		return ERR_NONE;
	if (mem_grow((void **)&x->json, &x->cap_json, x->n_json + s->n_results, sizeof *x->json))
		return err_no_memory(e, "JSON");
	for (int32_t i = 0; i < s->n_results; i++) {
		x->json[x->n_json++] = s->json[i];
		s->json[i] = NULL;
	}
	return ERR_NONE;
}

/* --- several seeds ------------------------------------------------------------------------------------------------ */

static bool alike(const struct effects_run *a, const struct effects_run *b)
{
	if (a->n != b->n || a->workload_hash != b->workload_hash)
		return false;
	for (int32_t i = 0; i < a->n; i++)
		if (a->list[i].value != b->list[i].value && !(isnan(a->list[i].value) && isnan(b->list[i].value)))
			return false;
	return true;
}

/* Every other seed gave what the first did: nothing is drawn at random. */
static bool seeds_change_nothing(const struct compare_live *x)
{
	for (int32_t i = 0; i < x->n_arms; i++)
		for (int32_t k = 1; k < x->seeds; k++)
			if (!alike(run_of(x, i, 0), run_of(x, i, k)))
				return false;
	return true;
}

/* The sides' runs are those of x->runs, without their requests: it is the seeds that are the samples. */
static int gather(struct compare_live *x, struct err *e)
{
	x->sides = mem_zalloc((size_t)x->n_arms, sizeof *x->sides);
	if (!x->sides)
		return err_no_memory(e, "a comparison");
	for (int32_t i = 0; i < x->n_arms; i++) {
		struct effects_side *side = &x->sides[x->n_sides];
		if (!side->runs)
			side->runs = mem_zalloc((size_t)x->seeds, sizeof *side->runs);
		if (!side->runs)
			return err_no_memory(e, "a comparison");
		side->label = x->first.arms.at[i].s.label;
		side->n = 0;
		for (int32_t k = 0; k < x->seeds; k++) {
			if (!run_of(x, i, k)->list)
				continue;
			side->runs[side->n] = *run_of(x, i, k);
			memset(side->runs[side->n].series, 0, sizeof side->runs[side->n].series);
			side->n++;
		}
		x->n_sides += side->n > 0;
	}
	return ERR_NONE;
}

static int compare_seeds(struct compare_live *x, struct err *e)
{
	const struct percentiles *p = &x->first.arms.at[0].s.percentiles;
	int rc = gather(x, e);
	x->one_seed = rc == ERR_NONE && seeds_change_nothing(x);
	for (int32_t i = 1; x->one_seed && i < x->n_arms; i++)
		if (x->effects[i].list)
			effects_warn(&x->effects[i],
				     "seeds change nothing here: arrivals and lengths are the trace's own "
				     "(--request-rate draws arrivals), and nothing else is random");
	if (rc || x->one_seed)
		return rc;
	for (int32_t i = 0; i < x->n_arms; i++)
		effects_free(&x->effects[i]);
	for (int32_t i = 1; rc == ERR_NONE && i < x->n_sides; i++)
		rc = effects_between(&x->effects[i], &x->sides[0], &x->sides[i], p, x->all, e);
	return rc;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static bool fail(struct compare_live *x, const struct err *e)
{
	x->status = command_fail(x->command, e);
	return false;
}

/* Seed number k; sessions after the first are done with when their figures are taken. */
static bool run_seed(struct compare_live *x, int32_t k)
{
	struct run_opts o = *x->opts;
	struct looker l = {x, k};
	const struct session_look looking = {look, &l};
	struct session other = {0}, *s = k == 0 ? &x->first : &other;
	struct err e = {0};
	o.trace.seed += (uint64_t)k;
	o.one_of_seeds = x->seeds > 1;
	bool any = session_run_looking(s, x->command, &o, &looking);
	s->opts = x->opts;
	if (harvest(x, s, &e) != ERR_NONE)
		any = fail(x, &e);
	if (k > 0)
		session_free(&other);
	return any && !*stop_flag();
}

bool compare_live_run(struct compare_live *x, const struct command *c, const struct run_opts *o, int32_t seeds,
		      bool all)
{
	struct err e = {0};
	*x = (struct compare_live){.command = c, .opts = o, .seeds = seeds, .all = all};
	bool going = true;
	for (int32_t k = 0; going && k < seeds; k++)
		going = run_seed(x, k);
	if (!x->runs)
		return false;
	return seeds == 1 || compare_seeds(x, &e) == ERR_NONE || fail(x, &e);
}

void compare_live_free(struct compare_live *x)
{
	for (int32_t i = 0; x->runs && i < x->n_arms; i++)
		for (int32_t k = 0; k < x->seeds; k++)
			effects_run_free(run_of(x, i, k));
	for (int32_t i = 0; x->effects && i < x->n_arms; i++)
		effects_free(&x->effects[i]);
	for (int32_t i = 0; x->sides && i < x->n_arms; i++)
		mem_free(x->sides[i].runs);
	for (int64_t i = 0; i < x->n_json; i++)
		mem_free(x->json[i]);
	mem_free(x->json);
	mem_free(x->runs);
	mem_free(x->effects);
	mem_free(x->sides);
	session_free(&x->first);
}
