/* lockstep calibrate points: published or own measurements of servers at a fixed concurrency. */
#include <stdio.h>
#include <string.h>

#include "analysis/points.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "core/err.h"
#include "core/mem.h"

struct points_opts {
	const char *report;
	int32_t max_evals;
	uint64_t seed;
	bool fit, leave_out, json;
};

#define OPT(f) offsetof(struct points_opts, f)
static const struct opt opts[] = {
	{.name = "fit",
	 .type = OPT_FLAG,
	 .offset = OPT(fit),
	 .help = "Fit the parameters that the points tell, with their uncertainty. Without it the devices are judged "
		 "as "
		 "their descriptions have them."},
	{.name = "leave-out",
	 .type = OPT_FLAG,
	 .offset = OPT(leave_out),
	 .help = "Fit again without each degree of tensor parallelism, and without each model, and judge each fit by "
		 "the "
		 "points that it did not see. Implies --fit."},
	{.name = "max-evals",
	 .type = OPT_INT32,
	 .offset = OPT(max_evals),
	 .arg = "N",
	 .min = 20,
	 .max = 10000000,
	 .help = "Candidates tried in each fit. Default 4000."},
	{.name = "seed", .type = OPT_UINT64, .offset = OPT(seed), .arg = "N", .help = "Of the search. Default 0."},
	{.name = "report",
	 .type = OPT_STRING,
	 .offset = OPT(report),
	 .arg = "FILE.md",
	 .help = "Also write the tables there."},
	{.name = "json", .type = OPT_FLAG, .offset = OPT(json), .help = "Print one JSON object instead of tables."},
};

struct job {
	struct points_opts o;
	const char *path;
	struct points points;
	struct point_times *as_is; /* [n] */
	struct points_fit fit;
};

static int parse(const struct command *c, int argc, char **argv, struct job *j, struct err *e)
{
	int n;
	j->o = (struct points_opts){.max_evals = 4000};
	int rc = opts_parse(opts, c->n_opts, &j->o, argc, argv, &n, NULL, e);
	if (rc == ERR_NONE && n != 1)
		rc = err_set(e, ERR_INPUT,
			     n ? "one file at a time" : "which points? docs/calibrate.md describes the file");
	j->path = n == 1 ? argv[1] : NULL;
	j->o.fit |= j->o.leave_out;
	return rc;
}

static int judge(struct job *j, struct err *e)
{
	struct device *devices = mem_zalloc((size_t)POINTS_KINDS * POINTS_KINDS, sizeof *devices);
	j->as_is = mem_zalloc((size_t)j->points.n, sizeof *j->as_is);
	int rc = devices && j->as_is ? ERR_NONE : err_no_memory(e, "measured points");
	rc = rc ? rc : points_devices(&j->points, devices, e);
	rc = rc ? rc : points_predict(&j->points, devices, j->as_is, e);
	mem_free(devices);
	return rc;
}

static int fit(struct job *j, struct err *e)
{
	struct progress bar;
	const struct points_options o = {.max_evals = j->o.max_evals,
					 .leave_out = j->o.leave_out,
					 .seed = j->o.seed,
					 .stop = stop_flag(),
					 .progress = progress_update,
					 .ctx = &bar};
	progress_begin(&bar, "candidates", !j->o.json);
	int rc = points_fit(&j->fit, &j->points, &o, e);
	progress_end(&bar);
	return rc;
}

static int write_report(struct job *j, struct err *e)
{
	const char *const *words;
	int n = command_line(&words);
	FILE *f = fopen(j->o.report, "w");
	if (!f)
		return err_set(e, ERR_IO, "%s cannot be written", j->o.report);
	fprintf(f, "# Servers that were measured at a fixed concurrency\n\nMade by\n\n    lockstep");
	for (int i = 0; i < n; i++)
		fprintf(f, " %s", words[i]);
	fprintf(f, "\n\n[calibrate.md](../calibrate.md) tells the method.\n\n");
	int rc = points_print(f, &j->points, j->as_is, j->o.fit ? &j->fit : NULL, e);
	if (fclose(f) && rc == ERR_NONE)
		rc = err_set(e, ERR_IO, "%s cannot be written", j->o.report);
	return rc;
}

static int print(struct job *j, struct err *e)
{
	char *json;
	const struct points_fit *f = j->o.fit ? &j->fit : NULL;
	if (!j->o.json)
		return points_print(stdout, &j->points, j->as_is, f, e);
	int rc = points_json(&j->points, j->as_is, f, &json, e);
	if (rc)
		return rc;
	printf("%s\n", json);
	mem_free(json);
	return ERR_NONE;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct job *j = mem_zalloc(1, sizeof *j);
	struct err e = {0};
	int rc = j ? ERR_NONE : err_no_memory(&e, "measured points");
	rc = rc ? rc : parse(c, argc, argv, j, &e);
	rc = rc ? rc : points_read(&j->points, j->path, &e);
	rc = rc ? rc : judge(j, &e);
	if (rc == ERR_NONE && j->o.fit)
		rc = fit(j, &e);
	rc = rc ? rc : print(j, &e);
	if (rc == ERR_NONE && j->o.report)
		rc = write_report(j, &e);
	int status = rc ? command_fail(c, &e) : 0;
	if (j) {
		points_free(&j->points);
		points_fit_free(&j->fit);
		mem_free(j->as_is);
	}
	mem_free(j);
	return status;
}

const struct command cmd_calibrate_points = {
	.name = "calibrate points",
	.synopsis = "[OPTIONS] POINTS.csv",
	.summary = "Judge devices by measured serving points, or fit their parameters to them",
	.about =
		"POINTS.csv has a line for each measurement of a server in a closed loop: model, system (a device), "
		"backend (an engine), isl, osl, concurrency, tp, tpot_ms, and perhaps gemm_quant and ttft_ms. What the "
		"roofline says of each is compared with what was measured, with the devices as their descriptions have "
		"them (DEVICE@ENGINE where the engine has figures of its own).\n\n"
		"With --fit the parameters are fitted: those of silicon and links for all engines together, memory for "
		"each device, the host's and the collectives' for each engine. docs/calibrate.md tells the details.\n\n"
		"Exit status: 0; 2 when the file is wrong; 130 when interrupted.",
	.examples = "# how good are the devices' own figures?\n"
		    "lockstep calibrate points silicon_h100_h200.csv\n"
		    "# fit, and see how well a fit says what it has not seen\n"
		    "lockstep calibrate points silicon_h100_h200.csv --leave-out --report points.md\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
