/* calibrate_text.c: a calibration as people read it, and as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "analysis/calibrate.h"
#include "analysis/jout.h"
#include "analysis/text.h"

/* --- for people --------------------------------------------------------------------------------------------------------- */

static void print_params(FILE *f, const struct calibrate_result *r)
{
	char a[TEXT_NUMBER], b[TEXT_NUMBER], c[TEXT_NUMBER], d[TEXT_NUMBER];
	fprintf(f, "  %-9s %10s %10s   %-21s %s\n", "parameter", "before", "fitted", "one std. deviation",
		"what it is");
	for (int p = 0; p < CALIBRATE_PARAMS; p++) {
		const struct calibrate_estimate *x = &r->estimates[p];
		const struct calibrate_param_info *info = &calibrate_params[p];
		if (!x->fitted)
			continue;
		fprintf(f, "  %-9s %10s %10s   %9s to %-9s %s%s%s\n", info->name, text_value(x->initial, "ms", a),
			text_value(x->value, "ms", b), text_value(x->low, "ms", c), text_value(x->high, "ms", d),
			info->help, info->unit[0] ? ", " : "", info->unit);
	}
	for (int p = 0; p < CALIBRATE_PARAMS; p++)
		if (r->estimates[p].undetermined)
			fprintf(f, "  %-9s %10s %10s   not told by this log: %s\n", calibrate_params[p].name,
				text_value(r->estimates[p].initial, "ms", a), "as it was", r->estimates[p].why);
}

static void print_percents(FILE *f, const double *percent)
{
	for (int k = 0; k < CALIBRATE_STATS; k++) {
		if (isfinite(percent[k]))
			fprintf(f, " %7.1f", percent[k]);
		else
			fprintf(f, " %7s", "-");
	}
}

static void print_errors(FILE *f, const char *title, const struct calibrate_errors *before,
			 const struct calibrate_errors *after)
{
	char a[TEXT_NUMBER];
	if (after->n == 0)
		return;
	fprintf(f, "\n%s, %" PRId64 " requests: simulated against measured, percent\n", title, after->n);
	fprintf(f, "  %-13s %11s | %7s %7s %7s %7s | %7s %7s %7s %7s\n", "", "measured", "before", "", "", "", "after",
		"", "", "");
	fprintf(f, "  %-13s %11s | %7s %7s %7s %7s | %7s %7s %7s %7s\n", "", "p50, ms", "mean", "p50", "p90", "p99",
		"mean", "p50", "p90", "p99");
	for (int m = 0; m < CALIBRATE_METRICS; m++) {
		fprintf(f, "  %-13s %11s |", calibrate_metric_labels[m],
			text_value(after->measured_ns[m][CALIBRATE_P50] / 1e6, "ms", a));
		print_percents(f, before->percent[m]);
		fputs(" |", f);
		print_percents(f, after->percent[m]);
		fputc('\n', f);
	}
	fprintf(f, "  %-13s %11s | %7.1f %23s | %7.1f\n", "output tok/s", "", before->throughput_percent, "",
		after->throughput_percent);
	fprintf(f, "  mean |ln(simulated/measured)| of a request's times: %.4f before, %.4f after\n", before->loss,
		after->loss);
}

void calibrate_print(FILE *f, const struct calibrate_options *o, const struct calibrate_result *r)
{
	char a[TEXT_NUMBER];
	print_params(f, r);
	print_errors(f, "Fitted part", &r->before[CALIBRATE_FIT], &r->after[CALIBRATE_FIT]);
	print_errors(f, "Held out", &r->before[CALIBRATE_HELD], &r->after[CALIBRATE_HELD]);
	if (r->after[CALIBRATE_HELD].n == 0)
		fprintf(f, "\nNothing was held out: how well it does elsewhere is not known (--train-fraction).\n");
	fprintf(f, "\n%s simulations of %.0f s of serving in %.3g s, %.3g ms each%s\n", text_count(r->evals, a),
		r->simulated_s, r->wall_s, r->each_s * 1e3, r->interrupted ? "; INTERRUPTED: the best so far" : "");
	fprintf(f, "To use it:  --model %s --device %s --cost-model %s\n", o->settings->model, o->settings->device,
		r->cost);
}

/* --- JSON --------------------------------------------------------------------------------------------------------------- */

static void put_params(struct jout *j, const struct calibrate_result *r)
{
	jout_begin(j, "params", '{');
	for (int p = 0; p < CALIBRATE_PARAMS; p++) {
		const struct calibrate_estimate *x = &r->estimates[p];
		jout_begin(j, calibrate_params[p].name, '{');
		jout_text(j, "unit", calibrate_params[p].unit);
		jout_bool(j, "fitted", x->fitted);
		jout_real(j, "initial", x->initial);
		jout_real(j, "value", x->value);
		jout_real(j, "low", x->low);
		jout_real(j, "high", x->high);
		jout_real(j, "sensitivity", x->sensitivity);
		jout_text(j, "undetermined", x->undetermined ? x->why : NULL);
		jout_end(j, '}');
	}
	jout_end(j, '}');
}

static void put_errors(struct jout *j, const char *key, const struct calibrate_errors *x)
{
	jout_begin(j, key, '{');
	for (int m = 0; m < CALIBRATE_METRICS; m++)
		for (int k = 0; k < CALIBRATE_STATS; k++) {
			char name[40];
			snprintf(name, sizeof name, "%s_%s_err", calibrate_metric_keys[m], calibrate_stat_keys[k]);
			jout_real(j, name, x->percent[m][k]);
		}
	jout_real(j, "throughput_err", x->throughput_percent);
	jout_real(j, "loss", x->loss);
	jout_end(j, '}');
}

static void put_part(struct jout *j, const char *key, const struct calibrate_errors *before,
		     const struct calibrate_errors *after)
{
	jout_begin(j, key, '{');
	jout_int(j, "requests", after->n);
	put_errors(j, "before", before);
	put_errors(j, "after", after);
	jout_end(j, '}');
}

int calibrate_json(const struct calibrate_options *o, const char *measured_path, const struct calibrate_result *r,
		   char **json, struct err *e)
{
	struct jout j;
	jout_open(&j, NULL);
	jout_begin(&j, NULL, '{');
	jout_text(&j, "measured", measured_path);
	jout_text(&j, "measured_format", measured_format_names[o->measured->format]);
	jout_text(&j, "model", o->settings->model);
	jout_text(&j, "device", o->settings->device);
	jout_text(&j, "policy", o->settings->policy);
	jout_int(&j, "num_gpu_blocks", r->engine.num_blocks);
	jout_int(&j, "max_num_seqs", r->engine.max_num_seqs);
	jout_int(&j, "max_num_batched_tokens", r->engine.max_num_batched_tokens);
	jout_bool(&j, "enable_prefix_caching", r->engine.prefix_caching);
	jout_bool(&j, "async_scheduling", r->engine.async_scheduling);
	jout_real(&j, "train_fraction", o->train_fraction);
	jout_int(&j, "seed", (int64_t)o->seed);
	jout_text(&j, "cost_model", r->cost);
	put_params(&j, r);
	put_part(&j, "fitted", &r->before[CALIBRATE_FIT], &r->after[CALIBRATE_FIT]);
	put_part(&j, "held_out", &r->before[CALIBRATE_HELD], &r->after[CALIBRATE_HELD]);
	jout_int(&j, "simulations", r->evals);
	jout_real(&j, "wall_s", r->wall_s);
	jout_real(&j, "simulation_ms", r->each_s * 1e3);
	jout_bool(&j, "interrupted", r->interrupted);
	if (r->calibration_id)
		jout_int(&j, "calibration_id", r->calibration_id);
	jout_end(&j, '}');
	return jout_close(&j, json, e);
}
