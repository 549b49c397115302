#include "cli/profile_view.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analysis/text.h"
#include "core/err.h"

enum { COLUMNS = 7, ROWS_SHORT = 18 };

/* --- what it is --------------------------------------------------------------------------------------------------- */

void profile_print_identity(FILE *f, const struct profile *p)
{
	char hash[24];
	snprintf(hash, sizeof hash, "%016" PRIx64, p->hash);
	fputs("Profile   ", f);
	if (p->id)
		fprintf(f, "%" PRId64 "%s", p->id, p->name[0] ? " " : "");
	if (p->name[0])
		fprintf(f, "\"%s\"", p->name);
	fprintf(f, "%s%s, hash %s\n", p->id || p->name[0] ? ", " : "", p->created[0] ? p->created : "no date", hash);
	fprintf(f, "Model     %s, %d layers, weights %s, KV cache %s%s", p->model, p->layers, p->weight_dtype,
		p->kv_dtype, p->block_size ? ", blocks of " : "");
	if (p->block_size)
		fprintf(f, "%d", p->block_size);
	if (p->tensor_parallel > 1)
		fprintf(f, ", one of %d devices", p->tensor_parallel);
	fprintf(f, "\nMeasured  on %s", p->device);
	if (p->machine[0])
		fprintf(f, ": %s", p->machine);
	if (p->library[0])
		fprintf(f, "; %s", p->library);
	fprintf(f, "\nSource    %s, by Lockstep %s", p->source, p->program);
	if (p->measured_layers && p->measured_layers < p->layers)
		fprintf(f, "; %d of the layers were run, the others taken to be alike", p->measured_layers);
	fputs(p->partial ? "; PARTIAL: it was stopped early\n" : "\n", f);
	if (p->note[0])
		fprintf(f, "          %s\n", p->note);
}

/* --- which points are shown --------------------------------------------------------------------------------------- */

/* Points [from, to) are of op. */
struct range {
	int32_t from, to;
};

static struct range range_of(const struct profile *p, enum profile_op op)
{
	struct range r = {0, 0};
	while (r.from < p->n_points && p->points[r.from].op < op)
		r.from++;
	r.to = r.from;
	while (r.to < p->n_points && p->points[r.to].op == op)
		r.to++;
	return r;
}

static bool power_of_two(int64_t x)
{
	return x > 0 && (x & (x - 1)) == 0;
}

static int32_t count_x(const struct profile *p, struct range r)
{
	int32_t n = 0;
	for (int32_t i = r.from; i < r.to; i++)
		n += i == r.from || p->points[i].x != p->points[i - 1].x;
	return n;
}

/* A long list shows powers of two, the first and the last. */
static bool shows_x(const struct profile *p, struct range r, int32_t x, bool all)
{
	return all || count_x(p, r) <= ROWS_SHORT + 8 || power_of_two(x) || x == p->points[r.from].x ||
	       x == p->points[r.to - 1].x;
}

static const struct profile_point *find(const struct profile *p, struct range r, int32_t x, int64_t y)
{
	for (int32_t i = r.from; i < r.to; i++)
		if (p->points[i].x == x && p->points[i].y == y)
			return &p->points[i];
	return NULL;
}

/* Up to COLUMNS values of y that many points have, in order. */
static int32_t choose_y(const struct profile *p, struct range r, int64_t y[COLUMNS])
{
	static const int64_t wanted[] = {0, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
	int64_t at[sizeof wanted / sizeof *wanted];
	int32_t n = 0, kept = 0;
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		bool there = false;
		for (int32_t k = r.from; k < r.to && !there; k++)
			there = p->points[k].y == wanted[i];
		if (there)
			at[n++] = wanted[i];
	}
	for (int32_t i = 0; i < n; i++)
		if (n <= COLUMNS || i == 0 || i >= n - (COLUMNS - 1))
			y[kept++] = at[i];
	return kept;
}

/* --- times -------------------------------------------------------------------------------------------------------- */

static void print_ms(FILE *f, const struct profile_point *t, int width)
{
	char number[TEXT_NUMBER];
	fprintf(f, "%*s", width, t ? text_value(t->ns / 1e6, "ms", number) : "-");
}

static void print_spread(FILE *f, const struct profile_point *t)
{
	if (t && t->ns > 0 && t->repeats > 0)
		fprintf(f, " %4.1f %%", (t->high_ns - t->low_ns) / t->ns * 100);
	else
		fprintf(f, " %6s", "");
}

static void print_curves(FILE *f, const struct profile *p, bool all)
{
	const enum profile_op ops[] = {PROFILE_MATMUL, PROFILE_OTHER, PROFILE_HEAD};
	struct range ranges[3];
	int32_t last = 0;
	for (int i = 0; i < 3; i++)
		ranges[i] = range_of(p, ops[i]);
	fprintf(f, "\nBy rows of the step, in ms, with the spread of the repeats (quartiles apart, share of the "
		   "median)\n");
	fprintf(f, "%8s %18s %18s %18s\n", "rows", "matrix products", "other kernels", "head (sampled)");
	for (;;) {
		int32_t next = INT32_MAX;
		for (int i = 0; i < 3; i++)
			for (int32_t k = ranges[i].from; k < ranges[i].to; k++)
				if (p->points[k].x > last && p->points[k].x < next &&
				    shows_x(p, ranges[i], p->points[k].x, all))
					next = p->points[k].x;
		if (next == INT32_MAX)
			break;
		fprintf(f, "%8d", next);
		for (int i = 0; i < 3; i++) {
			const struct profile_point *t = find(p, ranges[i], next, 0);
			print_ms(f, t, 12);
			print_spread(f, t);
		}
		fputc('\n', f);
		last = next;
	}
}

static void print_surface(FILE *f, const struct profile *p, enum profile_op op, bool all)
{
	struct range r = range_of(p, op);
	int64_t y[COLUMNS];
	int32_t n = choose_y(p, r, y), last = 0;
	if (r.from == r.to)
		return;
	fprintf(f, "\n%s, in ms\n%8s",
		op == PROFILE_DECODE ? "Attention of decodes by rows and mean context of a row"
				     : "Attention of a chunk by its tokens and the context before it",
		op == PROFILE_DECODE ? "rows" : "tokens");
	for (int32_t k = 0; k < n; k++)
		fprintf(f, " %11" PRId64, y[k]);
	fputc('\n', f);
	for (int32_t i = r.from; i < r.to; i++) {
		int32_t x = p->points[i].x;
		bool any = false;
		for (int32_t k = 0; k < n; k++)
			any = any || find(p, r, x, y[k]);
		if (x == last || !any || !shows_x(p, r, x, all))
			continue;
		fprintf(f, "%8d", last = x);
		for (int32_t k = 0; k < n; k++)
			print_ms(f, find(p, r, x, y[k]), 12);
		fputc('\n', f);
	}
}

static void print_every_point(FILE *f, const struct profile *p)
{
	fprintf(f, "\n%-8s %8s %8s %14s %14s %14s %8s\n", "op", "x", "y", "median ns", "low ns", "high ns", "repeats");
	for (int32_t i = 0; i < p->n_points; i++) {
		const struct profile_point *t = &p->points[i];
		fprintf(f, "%-8s %8d %8" PRId64 " %14.0f %14.0f %14.0f %8d\n", profile_op_names[t->op], t->x, t->y,
			t->ns, t->low_ns, t->high_ns, t->repeats);
	}
}

void profile_print_points(FILE *f, const struct profile *p, bool all)
{
	struct err e = {0};
	struct profile_table *t;
	if (all) {
		print_every_point(f, p);
		return;
	}
	print_curves(f, p, all);
	print_surface(f, p, PROFILE_DECODE, all);
	print_surface(f, p, PROFILE_PREFILL, all);
	if (profile_table_create(&t, p, &e) == ERR_NONE &&
	    range_of(p, PROFILE_HOST).to > range_of(p, PROFILE_HOST).from)
		fprintf(f,
			"\nOutside the kernels: %.3g us a step, %.3g us a sequence, %.3g us a row (fitted to %d "
			"points)\n",
			profile_host_ns(t, 0, 0) / 1e3, (profile_host_ns(t, 1000, 0) - profile_host_ns(t, 0, 0)) / 1e6,
			(profile_host_ns(t, 0, 1000) - profile_host_ns(t, 0, 0)) / 1e6,
			range_of(p, PROFILE_HOST).to - range_of(p, PROFILE_HOST).from);
	profile_table_free(t);
}

/* --- whole steps -------------------------------------------------------------------------------------------------- */

void profile_print_steps(FILE *f, const struct profile *p)
{
	struct err e = {0};
	struct profile_table *t;
	if (p->n_steps == 0 || profile_table_create(&t, p, &e) != ERR_NONE)
		return;
	fprintf(f, "\nSteps with decodes and a chunk, measured whole, and what their parts add up to\n");
	fprintf(f, "%8s %8s %8s %8s %12s %9s %12s %9s\n", "decodes", "context", "chunk", "after", "measured ms",
		"spread", "parts ms", "off by");
	for (int32_t i = 0; i < p->n_steps; i++) {
		const struct profile_step *s = &p->steps[i];
		const struct chunk c = {.start = s->chunk_start, .len = s->chunk};
		const struct batch b = {.decodes = s->decodes,
					.decode_ctx = (int64_t)s->decodes * s->decode_mean,
					.decode_ctx_window = (int64_t)s->decodes * s->decode_mean,
					.n_chunks = s->chunk > 0,
					.chunks = &c,
					.prefill_tokens = s->chunk,
					.sampled = s->sampled};
		double op_ns[PROFILE_OPS], outside = 0, sum = 0;
		char a[TEXT_NUMBER], d[TEXT_NUMBER];
		profile_batch(t, &b, op_ns, &outside);
		for (int op = 0; op < PROFILE_HOST; op++)
			sum += op_ns[op];
		fprintf(f, "%8d %8d %8d %8d %12s %7.1f %% %12s %+7.1f %%\n", s->decodes, s->decode_mean, s->chunk,
			s->chunk_start, text_value(s->ns / 1e6, "ms", a), (s->high_ns - s->low_ns) / s->ns * 100,
			text_value(sum / 1e6, "ms", d), (sum / s->ns - 1) * 100);
	}
	profile_table_free(t);
}

/* --- against the roofline ----------------------------------------------------------------------------------------- */

static void print_against_op(FILE *f, const struct profile *p, const struct profile_roofline *r, enum profile_op op,
			     bool all)
{
	static const char *const titles[] = {"Matrix products", "Other kernels", "Head",
					     "Attention of decodes (rows, mean context)",
					     "Attention of a chunk (tokens, context before it)"};
	struct range at = range_of(p, op);
	double peak = profile_roofline_peak(r, op), bandwidth = r->device.bandwidth;
	int64_t y[COLUMNS];
	int32_t n = choose_y(p, at, y), shown = 0;
	double sum = 0, worst = 0, bias = 0;
	if (at.from == at.to)
		return;
	fprintf(f, "\n%s\n%8s %8s %12s %10s %8s %12s %8s %12s %9s\n", titles[op], "x", "y", "measured ms", "TFLOP/s",
		"of peak", "GB/s", "of peak", "roofline ms", "it is off");
	for (int32_t i = at.from; i < at.to; i++) {
		const struct profile_point *t = &p->points[i];
		bool column = false;
		for (int32_t k = 0; k < n; k++)
			column = column || y[k] == t->y;
		if (!all && (!column || !shows_x(p, at, t->x, false)))
			continue;
		struct cost_op w;
		char a[TEXT_NUMBER], b[TEXT_NUMBER], c[TEXT_NUMBER], d[TEXT_NUMBER];
		profile_roofline_op(r, op, t->x, t->y, &w);
		fprintf(f, "%8d %8" PRId64 " %12s %10s %6.1f %% %12s %6.1f %% %12s %+7.1f %%\n", t->x, t->y,
			text_value(t->ns / 1e6, "ms", a), text_value(w.flops / t->ns / 1e3, "rate", b),
			w.flops / t->ns / (peak / 1e9) * 100, text_value(w.bytes / t->ns, "rate", c),
			w.bytes / t->ns / (bandwidth / 1e9) * 100, text_value(w.ns / 1e6, "ms", d),
			(w.ns / t->ns - 1) * 100);
		double off = (w.ns / t->ns - 1) * 100;
		shown++;
		bias += off;
		sum += fabs(off);
		worst = fabs(off) > fabs(worst) ? off : worst;
	}
	if (shown)
		fprintf(f, "%8s off by %.1f %% in the mean of these %d, bias %+.1f %%, worst %+.1f %%\n", "",
			sum / shown, shown, bias / shown, worst);
}

void profile_print_against(FILE *f, const struct profile *p, const struct profile_roofline *r, const char *cost,
			   bool all)
{
	fprintf(f,
		"\nAgainst %s: peaks %.4g TFLOP/s and %.4g GB/s; its spec reaches %.3g of the first in products, %.3g "
		"in "
		"attention,\n%.3g of the second; cost model %s. FLOPs and bytes are counted (docs/cost-model.md), "
		"times "
		"measured.\n",
		r->device.title[0] ? r->device.title : r->device.name, profile_roofline_peak(r, PROFILE_MATMUL) / 1e12,
		r->device.bandwidth / 1e9, r->device.gemm_efficiency, r->device.attention_efficiency,
		r->device.memory_efficiency, cost);
	for (int op = 0; op < PROFILE_HOST; op++)
		print_against_op(f, p, r, (enum profile_op)op, all);
}
