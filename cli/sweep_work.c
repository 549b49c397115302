#include "cli/sweep_work.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analysis/jout.h"
#include "cli/command.h"
#include "cli/run_session.h"
#include "core/err.h"
#include "core/mem.h"

/* Flags of replay that say what is done with the results: the sweep's own matter. */
static const char *const not_for_points[] = {"db",          "no-db",         "json",       "quiet",
					     "save-result", "save-detailed", "result-dir", "result-filename",
					     "run",         "record"};

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The point as replay would be typed. Strings in *o point into the plan. */
static int read_point(const struct sweep_point *p, struct run_opts *o, struct arms *arms, struct err *e)
{
	char buf[8];
	bool several;
	for (size_t i = 0; i < sizeof not_for_points / sizeof *not_for_points; i++)
		if (sweep_point_value(p, not_for_points[i], buf, sizeof buf))
			return err_set(e, ERR_INPUT, "--%s is not for points of a sweep", not_for_points[i]);
	char **argv = mem_alloc((size_t)(p->n_words + 2) * sizeof *argv);
	if (!argv)
		return err_no_memory(e, "a point");
	argv[0] = (char *)(uintptr_t) "replay";
	memcpy(argv + 1, p->words, (size_t)p->n_words * sizeof *argv);
	argv[p->n_words + 1] = NULL;
	int rc = cmd_replay.describe(&cmd_replay, p->n_words + 1, argv, o, &several, e);
	o->record = RECORD_NONE;
	if (rc == ERR_NONE)
		rc = arms_make(arms, o, false, e);
	if (rc == ERR_NONE && arms->at[0].s.backend != BACKEND_SIM)
		rc = err_set(e, ERR_INPUT, "--backend %s: points of a sweep are simulated",
			     run_backend_names[arms->at[0].s.backend]);
	if (rc == ERR_NONE && arms->at[0].s.cost && strncmp(arms->at[0].s.cost, "profiled", 8) == 0)
		rc = err_set(e, ERR_INPUT,
			     "--cost-model profiled is not for sweeps: calibrate a roofline (lockstep calibrate)");
	mem_free(argv);
	return rc;
}

int sweep_check(const struct sweep_plan *p, int64_t index, struct err *e)
{
	struct run_opts o;
	struct arms arms = {0};
	struct err own = {0};
	int rc = read_point(&p->points[index], &o, &arms, &own);
	arms_free(&arms);
	return rc ? err_set(e, own.code, "point %lld: %.900s", (long long)index + 1, own.text) : ERR_NONE;
}

static void fill_answer(struct sweep_answer *a, const struct run_settings *s, struct run_result *r)
{
	a->figures = *r;
	snprintf(a->policy_params, sizeof a->policy_params, "%s", r->policy_params ? r->policy_params : "");
	snprintf(a->trace_format, sizeof a->trace_format, "%s", s->trace_format ? s->trace_format : "");
	snprintf(a->trace_hash, sizeof a->trace_hash, "%s", s->trace_hash ? s->trace_hash : "");
	a->workload_hash = s->workload_hash;
}

void sweep_work(const struct sweep_plan *p, int64_t index, const volatile int *stop, struct sweep_answer *out)
{
	struct run_opts o;
	struct arms arms = {0};
	struct loaded loaded;
	struct run_result r = {0};
	struct err e = {0};
	const struct run_io io = {.stop = stop};
	double began = now_s();
	memset(out, 0, sizeof *out);
	out->index = index;
	workload_init(&loaded.workload);
	int rc = read_point(&p->points[index], &o, &arms, &e);
	if (rc == ERR_NONE)
		rc = session_load(&o, &arms, &loaded, &e);
	if (rc == ERR_NONE) {
		arms.at[0].s.started_unix_s = (int64_t)time(NULL);
		rc = run_execute(&arms.at[0].s, &loaded.workload, &io, &r, &e);
		fill_answer(out, &arms.at[0].s, &r);
		out->n = loaded.workload.n;
	}
	out->code = rc;
	snprintf(out->text, sizeof out->text, "%s", e.text);
	run_result_free(&r);
	workload_free(&loaded.workload);
	arms_free(&arms);
	out->wall_s = now_s() - began;
}

/* ["replay", "--policy", ...]: by which the run can be had again. */
static int keep_arguments(struct sweep_settings *s, const struct sweep_point *p, struct err *e)
{
	struct jout j;
	jout_open(&j, NULL);
	jout_begin(&j, NULL, '[');
	jout_text(&j, NULL, "replay");
	for (int32_t i = 0; i < p->n_words; i++)
		jout_text(&j, NULL, p->words[i]);
	jout_end(&j, ']');
	int rc = jout_close(&j, &s->arguments, e);
	s->settings->arguments = s->arguments;
	return rc;
}

int sweep_settings_make(struct sweep_settings *out, const struct sweep_plan *p, struct sweep_answer *a, struct err *e)
{
	struct run_opts o;
	*out = (struct sweep_settings){0};
	int rc = read_point(&p->points[a->index], &o, &out->arms, e);
	if (rc)
		return rc;
	struct run_settings *s = out->settings = &out->arms.at[0].s;
	s->trace_path = trace_opts_name(&o.trace);
	s->trace_format = a->trace_format;
	s->trace_hash = a->trace_hash[0] ? a->trace_hash : NULL;
	s->workload_hash = a->workload_hash;
	s->started_unix_s = (int64_t)time(NULL);
	struct run_result *r = &out->result;
	*r = a->figures;
	r->requests = NULL;
	r->token_at = r->token_ns = r->output_at = NULL;
	r->output_ids = NULL;
	r->policy_params = a->policy_params;
	r->backend = "simulator";
	r->tape = (struct tape){0};
	out->workload.n = a->n;
	return keep_arguments(out, &p->points[a->index], e);
}

void sweep_settings_free(struct sweep_settings *s)
{
	mem_free(s->arguments);
	arms_free(&s->arms);
	*s = (struct sweep_settings){0};
}
