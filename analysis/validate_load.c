/* validate_load.c: what the simulator says beforehand: how long it will take, and how much is too much. */
#include "analysis/validate.h"
#include "core/err.h"
#include "core/mem.h"

static int simulate(const struct run_settings *simulated, const struct workload *w, int32_t blocks,
		    struct run_result *r, struct err *e)
{
	struct run_settings s = *simulated;
	s.save_detailed = false;
	if (blocks > 0)
		s.num_gpu_blocks_override = blocks;
	return run_execute(&s, w, NULL, r, e);
}

int validate_estimate(const struct validate_setup *s, const struct workload *w, int32_t blocks, double *seconds,
		      int64_t *steps, struct err *e)
{
	struct run_result r;
	int rc = simulate(&s->simulated, w, blocks, &r, e);
	if (rc == ERR_NONE) {
		bool waits = s->executed.backend != BACKEND_SIM && s->executed.exec_time == EXEC_WALL;
		*seconds = (double)(waits ? r.stats.end_ns : r.stats.busy_ns) / 1e9;
		if (steps)
			*steps = r.stats.steps;
	}
	run_result_free(&r);
	return rc;
}

/* The workload with all that wait for nobody there at once. */
static int all_at_once(const struct workload *w, struct workload *out, struct err *e)
{
	*out = *w;
	out->specs = mem_alloc(((size_t)w->n + 1) * sizeof *out->specs);
	if (!out->specs)
		return err_no_memory(e, "a workload");
	for (int64_t i = 0; i < w->n; i++) {
		out->specs[i] = w->specs[i];
		if (!w->n_parents || !w->n_parents[i])
			out->specs[i].arrival_ns = 0;
	}
	return ERR_NONE;
}

int validate_capacity(const struct run_settings *simulated, const struct workload *w, int32_t blocks, double *rate,
		      struct err *e)
{
	struct workload crowd;
	struct run_result r = {0};
	int rc = all_at_once(w, &crowd, e);
	if (rc == ERR_NONE)
		rc = simulate(simulated, &crowd, blocks, &r, e);
	if (rc == ERR_NONE) {
		*rate = r.metrics.request_throughput;
		if (!(*rate > 0))
			rc = err_set(e, ERR_INPUT,
				     "--load: no request can be served, so there is no capacity to share");
	}
	run_result_free(&r);
	mem_free(crowd.specs);
	return rc;
}

int validate_speedup(const struct workload *w, double rate, double *speedup, struct err *e)
{
	int64_t first = INT64_MAX, last = INT64_MIN, n = 0;
	for (int64_t i = 0; i < w->n; i++) {
		if (w->n_parents && w->n_parents[i])
			continue;
		int64_t at_ns = w->specs[i].arrival_ns;
		first = at_ns < first ? at_ns : first;
		last = at_ns > last ? at_ns : last;
		n++;
	}
	if (n < 2 || last <= first)
		return err_set(
			e, ERR_INPUT,
			"--load: all requests arrive at the same time, which cannot be made faster or slower: give "
			"--request-rate 1 as well");
	*speedup = rate * (double)(last - first) / 1e9 / (double)(n - 1);
	return ERR_NONE;
}
