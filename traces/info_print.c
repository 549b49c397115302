/* The figures of info.h, for people and for programs. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "traces/info.h"
#include "traces/reader.h"

/* 12031 as "12,031". */
static const char *whole(int64_t n, char buf[32])
{
	char digits[24];
	int len = snprintf(digits, sizeof digits, "%lld", (long long)n), at = 0;
	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0 && digits[i - 1] != '-')
			buf[at++] = ',';
		buf[at++] = digits[i];
	}
	buf[at] = '\0';
	return buf;
}

/* At least four significant digits, no exponent where none is needed. */
static const char *real(double x, char buf[32])
{
	if (isnan(x))
		return "-";
	if (isinf(x))
		return "inf";
	double a = fabs(x);
	if (a >= 1000 && a < 1e15)
		return whole((int64_t)(x + (x < 0 ? -0.5 : 0.5)), buf);
	snprintf(buf, 32,
		 a < 1e15 && a == (double)(int64_t)a ? "%.0f"
		 : a >= 100                          ? "%.1f"
		 : a >= 10                           ? "%.2f"
		 : a >= 1e-3                         ? "%.4g"
						     : "%.3g",
		 x);
	return buf;
}

static void stat_head(FILE *f, const char *title)
{
	fprintf(f, "\n%-14s %10s %10s %10s %10s %10s %10s %10s\n", title, "mean", "std", "min", "p50", "p90", "p99",
		"max");
}

static void stat_row(FILE *f, const char *name, const struct info_stat *s, double scale)
{
	const double v[] = {s->mean, s->std, s->min, s->p50, s->p90, s->p99, s->max};
	char buf[32];
	fprintf(f, "  %-12s", name);
	for (int i = 0; i < 7; i++)
		fprintf(f, " %10s", real(v[i] * scale, buf));
	fprintf(f, "%s\n", s->n > 0 && s->n < 100 ? "  (p99 of fewer than 100)" : "");
}

static void print_source(FILE *f, const char *name, const struct info *in, const struct trace_report *r)
{
	char a[32], b[32];
	fprintf(f, "trace          %s%s%s%s\n", name, r ? " (" : "", r ? r->format_name : "", r ? ")" : "");
	if (!r) {
		fprintf(f, "requests       %s\n", whole(in->n, a));
	} else {
		fprintf(f, "requests       %s kept of %s%s\n", whole(r->kept, a), whole(r->rows, b),
			r->stopped_early ? " read (the file goes on)" : "");
		for (int i = 0; i < r->n_rules; i++)
			if (r->rules[i].rows)
				fprintf(f, "  dropped      %s: %s\n", whole(r->rules[i].rows, a), r->rules[i].name);
	}
	fprintf(f, "workload hash  %016llx\n", (unsigned long long)in->hash);
	if (in->lengths_estimated)
		fputs("lengths        ESTIMATED from text, without a tokenizer\n", f);
}

static void print_rate(FILE *f, const struct info *in)
{
	static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	char a[32], b[32];
	int64_t most = 1;
	for (int i = 0; i < in->n_bins; i++)
		most = in->bin[i] > most ? in->bin[i] : most;
	fputs("  rate         |", f);
	for (int i = 0; i < in->n_bins; i++)
		fputs(blocks[(in->bin[i] * 8 + most - 1) / most], f);
	double bin_s = in->duration_s / in->n_bins;
	fprintf(f, "|  a column is %s s, the highest %s/s\n", real(bin_s, a), real((double)most / bin_s, b));
}

static void print_arrivals(FILE *f, const struct info *in)
{
	char a[32], b[32], c[32];
	if (in->n_bins == 0) {
		fprintf(f, "\narrivals       all at once (no arrival times)\n");
		return;
	}
	fprintf(f, "\narrivals       over %s s, %s requests/s", real(in->duration_s, a), real(in->rate, b));
	if (in->dependents)
		fprintf(f, "; %s more when others have finished", whole(in->dependents, c));
	fputs("\n", f);
	print_rate(f, in);
	stat_head(f, "gaps (ms)");
	stat_row(f, "", &in->gap, 1e3);
	fprintf(f, "  burstiness   %s (gamma shape; coefficient of variation %s), %s gaps of 0\n",
		real(in->burstiness, a), real(in->gap_cv, b), whole(in->ties, c));
}

static void print_sharing(FILE *f, const struct info *in)
{
	char a[32], b[32], c[32];
	if (in->blocks) {
		fprintf(f, "\nsharing        %s of %s blocks distinct: ideal block hit ratio %.3f",
			whole(in->distinct_blocks, a), whole(in->blocks, b), in->ideal_hit_ratio);
		if (in->hash_block)
			fprintf(f, ", %d tokens a block", in->hash_block);
		fprintf(f, "; %s requests with ids\n", whole(in->with_ids, c));
	}
	if (in->sessions)
		fprintf(f, "sessions       %s, the longest of %s requests\n", whole(in->sessions, a),
			whole(in->largest_session, b));
	if (in->links)
		fprintf(f, "dependencies   %s requests wait for others, %s links, chains of up to %s\n",
			whole(in->dependents, a), whole(in->links, b), whole(in->depth, c));
	if (in->tenants)
		fprintf(f, "classes        %s\n", whole(in->tenants, a));
}

void info_print(FILE *f, const char *name, const struct info *in, const struct trace_report *report)
{
	char a[32], b[32];
	print_source(f, name, in, report);
	stat_head(f, "tokens");
	stat_row(f, "input", &in->input, 1);
	stat_row(f, "output", &in->output, 1);
	fprintf(f, "  total        %s input, %s output\n", whole(in->input_total, a), whole(in->output_total, b));
	if (in->zero_output)
		fprintf(f, "  empty        %s requests generate nothing (kept; left out of TPOT)\n",
			whole(in->zero_output, a));
	print_arrivals(f, in);
	print_sharing(f, in);
	if (report && report->n_notes)
		fputs("\n", f);
	for (int i = 0; report && i < report->n_notes; i++)
		fprintf(f, "note: %s\n", report->notes[i]);
	if (report && report->first_bad[0])
		fprintf(f, "first bad row: %s\n", report->first_bad);
}

/* JSON has neither nan nor inf. */
static json_t *number(double x)
{
	return isnan(x) ? json_null() : isinf(x) ? json_string("inf") : json_real(x);
}

static json_t *stat_json(const struct info_stat *s)
{
	json_t *o = json_object();
	json_object_set_new(o, "n", json_integer(s->n));
	const struct {
		const char *key;
		double v;
	} parts[] = {{"mean", s->mean}, {"std", s->std}, {"min", s->min}, {"p50", s->p50},
		     {"p90", s->p90},   {"p99", s->p99}, {"max", s->max}};
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		json_object_set_new(o, parts[i].key, number(parts[i].v));
	return o;
}

static void report_json(json_t *o, const struct trace_report *r)
{
	json_t *rules = json_array(), *notes = json_array();
	for (int i = 0; i < r->n_rules; i++) {
		json_t *rule = json_object();
		json_object_set_new(rule, "rule", json_string(r->rules[i].name));
		json_object_set_new(rule, "rows", json_integer(r->rules[i].rows));
		json_array_append_new(rules, rule);
	}
	for (int i = 0; i < r->n_notes; i++)
		json_array_append_new(notes, json_string(r->notes[i]));
	json_object_set_new(o, "format", json_string(r->format_name));
	json_object_set_new(o, "rows", json_integer(r->rows));
	json_object_set_new(o, "kept", json_integer(r->kept));
	json_object_set_new(o, "dropped", json_integer(r->dropped));
	json_object_set_new(o, "dropped_by_rule", rules);
	json_object_set_new(o, "unsorted", json_boolean(r->unsorted));
	json_object_set_new(o, "bytes", json_integer(r->bytes));
	json_object_set_new(o, "notes", notes);
	json_object_set_new(o, "first_bad_row", r->first_bad[0] ? json_string(r->first_bad) : json_null());
}

static void arrivals_json(json_t *o, const struct info *in)
{
	json_t *bins = json_array(), *over = json_object(), *gap = stat_json(&in->gap);
	for (int i = 0; i < in->n_bins; i++)
		json_array_append_new(bins, json_integer(in->bin[i]));
	json_object_set_new(over, "bin_s", in->n_bins ? json_real(in->duration_s / in->n_bins) : json_null());
	json_object_set_new(over, "requests", bins);
	json_object_set_new(gap, "cv", number(in->gap_cv));
	json_object_set_new(gap, "zero", json_integer(in->ties));
	json_object_set_new(o, "duration_s", json_real(in->duration_s));
	json_object_set_new(o, "request_rate", number(in->rate));
	json_object_set_new(o, "burstiness", number(in->burstiness));
	json_object_set_new(o, "inter_arrival_s", gap);
	json_object_set_new(o, "rate_over_time", over);
}

static void sharing_json(json_t *o, const struct info *in)
{
	json_object_set_new(o, "prefix_ideal_block_hit_ratio", number(in->ideal_hit_ratio));
	json_object_set_new(o, "blocks", json_integer(in->blocks));
	json_object_set_new(o, "distinct_blocks", json_integer(in->distinct_blocks));
	json_object_set_new(o, "hash_block_size", in->hash_block ? json_integer(in->hash_block) : json_null());
	json_object_set_new(o, "requests_with_ids", json_integer(in->with_ids));
	json_object_set_new(o, "sessions", json_integer(in->sessions));
	json_object_set_new(o, "largest_session", json_integer(in->largest_session));
	json_object_set_new(o, "dependents", json_integer(in->dependents));
	json_object_set_new(o, "links", json_integer(in->links));
	json_object_set_new(o, "longest_chain", json_integer(in->depth));
	json_object_set_new(o, "classes", json_integer(in->tenants));
}

int info_print_json(FILE *f, const char *name, const struct info *in, const struct trace_report *report, struct err *e)
{
	char hash[20];
	json_t *o = json_object();
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)in->hash);
	/* a name that is not UTF-8 is null */
	json_t *trace = json_string(name);
	json_object_set_new(o, "trace", trace ? trace : json_null());
	if (report)
		report_json(o, report);
	json_object_set_new(o, "requests", json_integer(in->n));
	json_object_set_new(o, "workload_hash", json_string(hash));
	json_object_set_new(o, "lengths_estimated", json_boolean(in->lengths_estimated));
	json_object_set_new(o, "total_input_tokens", json_integer(in->input_total));
	json_object_set_new(o, "total_output_tokens", json_integer(in->output_total));
	json_object_set_new(o, "zero_output_requests", json_integer(in->zero_output));
	json_object_set_new(o, "requests_with_max_tokens", json_integer(in->with_max_tokens));
	json_object_set_new(o, "input_tokens", stat_json(&in->input));
	json_object_set_new(o, "output_tokens", stat_json(&in->output));
	arrivals_json(o, in);
	sharing_json(o, in);
	int bad = !o || json_dumpf(o, f, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) || putc('\n', f) == EOF || fflush(f);
	json_decref(o);
	return bad ? err_set(e, ERR_IO, "the figures cannot be written") : ERR_NONE;
}
