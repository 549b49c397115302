#include "analysis/report_roofline.h"

#include <math.h>
#include <stdio.h>

#include "analysis/jout.h"
#include "analysis/store_report.h"
#include "core/err.h"
#include "core/mem.h"
#include "sim/work.h"

/* Cells are an eighth of a power of two wide and high: a point on a page. */
enum { PER_OCTAVE = 8, COLUMNS = 24 * PER_OCTAVE, ROWS = 40 * PER_OCTAVE };
#define LEAST_INTENSITY (1.0 / 16) /* FLOP per byte */
#define LEAST_SPEED 1e6 /* FLOP/s */

enum step_kind { STEP_DECODE, STEP_PREFILL, STEP_MIXED, STEP_KINDS };
static const char *const kind_names[STEP_KINDS] = {"decode", "prefill", "mixed"};

struct cell {
	int64_t n;
	double flops, bytes, ns;
};

struct roofline_grid {
	struct work *work; /* NULL: `why` */
	char title[96], why[256];
	struct cell *cells; /* [STEP_KINDS][ROWS][COLUMNS] */
	int64_t steps, every;
};

static int load(struct roofline_grid *g, const struct store_report_run *r, struct err *e)
{
	struct model model;
	struct device device;
	struct cost_setup s;
	int rc = device_load(&device, r->device, e);
	if (rc == ERR_NONE)
		rc = model_load(&model, r->model, e);
	if (rc)
		return rc;
	cost_setup_default(&s, &model, &device);
	s.tensor_parallel = (int32_t)r->tensor_parallel;
	rc = model_formats(&model, *r->weight_dtype ? r->weight_dtype : NULL,
			   *r->kv_cache_dtype ? r->kv_cache_dtype : NULL, &s.weights, &s.kv, e);
	if (rc == ERR_NONE)
		rc = work_create(&g->work, &s, e);
	snprintf(g->title, sizeof g->title, "%s", device.title);
	model_free(&model);
	return rc;
}

int roofline_grid_create(struct roofline_grid **out, const struct store_report_run *r, struct err *e)
{
	struct err own = {0};
	struct roofline_grid *g = *out = mem_zalloc(1, sizeof *g);
	if (!g)
		return err_no_memory(e, "a report");
	if (!*r->device || !*r->model) {
		snprintf(g->why, sizeof g->why, "the run names no %s", *r->model ? "device" : "model");
		return ERR_NONE;
	}
	int rc = load(g, r, &own);
	if (rc == ERR_MEMORY)
		return err_set(e, rc, "%s", own.text);
	if (rc) {
		snprintf(g->why, sizeof g->why, "%.240s", own.text);
		return ERR_NONE;
	}
	g->cells = mem_zalloc((size_t)STEP_KINDS * ROWS * COLUMNS, sizeof *g->cells);
	return g->cells ? ERR_NONE : err_no_memory(e, "a report");
}

static int place(double v, double least, int most)
{
	double at = floor(log2(v / least) * PER_OCTAVE);
	return at < 0 ? 0 : at >= most ? most - 1 : (int)at;
}

void roofline_grid_add(struct roofline_grid *g, const struct store_step *t)
{
	const struct work_totals w = {.decodes = t->decodes,
				      .decode_ctx = t->decode_ctx,
				      .chunks = t->chunks,
				      .prefill_tokens = t->prefill_tokens,
				      .sampled = t->output_tokens};
	double flops, bytes, ns = (double)t->duration_ns;
	if (!g->work || ns <= 0)
		return;
	work_step(g->work, &w, &flops, &bytes);
	if (flops <= 0 || bytes <= 0)
		return;
	enum step_kind kind = t->chunks == 0 ? STEP_DECODE : t->decodes == 0 ? STEP_PREFILL : STEP_MIXED;
	int x = place(flops / bytes, LEAST_INTENSITY, COLUMNS), y = place(flops / ns * 1e9, LEAST_SPEED, ROWS);
	struct cell *c = &g->cells[((size_t)kind * ROWS + (size_t)y) * COLUMNS + (size_t)x];
	c->n++;
	c->flops += flops;
	c->bytes += bytes;
	c->ns += ns;
	g->steps++;
}

void roofline_grid_sampled(struct roofline_grid *g, int64_t every)
{
	g->every = every;
}

static void put_cells(const struct roofline_grid *g, struct jout *j)
{
	jout_begin(j, "cells", '[');
	for (size_t i = 0; i < (size_t)STEP_KINDS * ROWS * COLUMNS; i++) {
		const struct cell *c = &g->cells[i];
		if (!c->n)
			continue;
		jout_begin(j, NULL, '[');
		jout_text(j, NULL, kind_names[i / ((size_t)ROWS * COLUMNS)]);
		jout_int(j, NULL, c->n);
		jout_real(j, NULL, c->flops);
		jout_real(j, NULL, c->bytes);
		jout_real(j, NULL, c->ns);
		jout_end(j, ']');
	}
	jout_end(j, ']');
}

void roofline_grid_put(struct roofline_grid *g, struct jout *j)
{
	jout_begin(j, "roofline", '{');
	if (g->work) {
		double flops_per_s, bytes_per_s;
		enum dtype weights;
		work_roofs(g->work, &flops_per_s, &bytes_per_s, &weights);
		jout_text(j, "device", g->title);
		jout_text(j, "weights", dtype_name(weights));
		jout_real(j, "flops_per_s", flops_per_s);
		jout_real(j, "bytes_per_s", bytes_per_s);
		jout_int(j, "steps", g->steps);
		jout_int(j, "every", g->every ? g->every : 1);
		put_cells(g, j);
	} else {
		jout_text(j, "why", g->why);
	}
	jout_end(j, '}');
}

void roofline_grid_free(struct roofline_grid *g)
{
	if (!g)
		return;
	work_free(g->work);
	mem_free(g->cells);
	mem_free(g);
}
