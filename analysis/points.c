/* points.c: reading, and the closed loop.
 *
 * At concurrency c each of c requests is answered by the next at once. While one decodes its osl - 1 further tokens, each of
 * the c - 1 others begins once on average: so many of its steps have a prompt of isl in them, beside c - 1 decodes. Hence
 *   TPOT = decode + (c - 1) / (osl - 1) x (mixed - decode)
 * at the mean context isl + osl / 2. An engine that reserves memory for a whole request before it begins (TensorRT-LLM) runs
 * no more than fit: its c is that. One that admits and preempts (vLLM) counts the time without memory in TPOT, about as if
 * all ran. */
#include "analysis/points.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "sim/capacity.h"
#include "sim/cost_models.h"

/* --- reading ------------------------------------------------------------------------------------------------------ */

enum column {
	COL_MODEL,
	COL_SYSTEM,
	COL_BACKEND,
	COL_QUANT,
	COL_ISL,
	COL_OSL,
	COL_C,
	COL_TP,
	COL_TTFT,
	COL_TPOT,
	COLS
};
static const char *const columns[COLS] = {"model", "system",      "backend", "gemm_quant", "isl",
					  "osl",   "concurrency", "tp",      "ttft_ms",    "tpot_ms"};
enum { FIELDS = 32 };

struct csv {
	const char *path;
	int64_t line;
	int32_t at[COLS]; /* -1: not there */
	char *field[FIELDS];
	int32_t n_fields;
};

static void split(struct csv *c, char *line)
{
	line[strcspn(line, "\r\n")] = '\0';
	for (c->n_fields = 0; line && c->n_fields < FIELDS;)
		c->field[c->n_fields++] = strsep(&line, ",");
}

static int read_header(struct csv *c, char *line, struct err *e)
{
	split(c, line);
	for (int k = 0; k < COLS; k++) {
		c->at[k] = -1;
		for (int32_t i = 0; i < c->n_fields; i++)
			if (strcmp(c->field[i], columns[k]) == 0)
				c->at[k] = i;
		if (c->at[k] < 0 && k != COL_QUANT && k != COL_TTFT)
			return err_set(
				e, ERR_INPUT,
				"%s: there is no column \"%s\" (docs/calibrate.md lists what measured points have)",
				c->path, columns[k]);
	}
	return ERR_NONE;
}

static const char *text_of(const struct csv *c, enum column k)
{
	return c->at[k] >= 0 && c->at[k] < c->n_fields ? c->field[c->at[k]] : "";
}

static double number_of(const struct csv *c, enum column k, double low, double high, struct err *e)
{
	char *end;
	const char *text = text_of(c, k);
	double x = strtod(text, &end);
	if (end == text || *end || !(x >= low && x <= high))
		err_set(e, ERR_INPUT, "%s:%lld: %s: \"%.40s\" is not a number from %g to %g", c->path,
			(long long)c->line, columns[k], text, low, high);
	return x;
}

static int room_for(const struct csv *c, const char *what, int32_t n, struct err *e)
{
	return n < POINTS_KINDS ? ERR_NONE
				: err_set(e, ERR_INPUT, "%s:%lld: more than %d %s in one file", c->path,
					  (long long)c->line, POINTS_KINDS, what);
}

static int read_model(struct points *p, const struct csv *c, int32_t *out, struct err *e)
{
	struct model m;
	int rc = model_load(&m, text_of(c, COL_MODEL), e);
	if (rc)
		return rc;
	for (*out = 0; *out < p->n_models; ++*out)
		if (strcmp(p->models[*out].name, m.name) == 0)
			break;
	if (*out < p->n_models) {
		model_free(&m);
		return ERR_NONE;
	}
	rc = room_for(c, "models", p->n_models, e);
	if (rc)
		model_free(&m);
	else
		p->models[p->n_models++] = m;
	return rc;
}

static int read_device(struct points *p, const struct csv *c, int32_t *out, struct err *e)
{
	struct device d;
	int rc = device_load(&d, text_of(c, COL_SYSTEM), e);
	if (rc)
		return rc;
	for (*out = 0; *out < p->n_devices; ++*out)
		if (strcmp(p->devices[*out].name, d.name) == 0)
			return ERR_NONE;
	rc = room_for(c, "devices", p->n_devices, e);
	if (rc == ERR_NONE)
		p->devices[p->n_devices++] = d;
	return rc;
}

static int read_engine(struct points *p, const struct csv *c, int32_t *out, struct err *e)
{
	const char *name = text_of(c, COL_BACKEND);
	for (*out = 0; *out < p->n_engines; ++*out)
		if (strcmp(p->engines[*out], name) == 0)
			return ERR_NONE;
	if (!*name || strlen(name) >= sizeof p->engines[0])
		return err_set(e, ERR_INPUT, "%s:%lld: backend: \"%.40s\" is no engine's name", c->path,
			       (long long)c->line, name);
	int rc = room_for(c, "engines", p->n_engines, e);
	if (rc == ERR_NONE)
		strcpy(p->engines[p->n_engines++], name);
	return rc;
}

static int weights_of(const struct point_group *g, struct weight_format *f, struct err *e)
{
	*f = (struct weight_format){.automatic = true};
	if (!g->fp8)
		return ERR_NONE;
	int rc = weight_format_parse("fp8", f, e);
	f->scope = SCOPE_LINEAR;
	return rc;
}

static bool reserves(const struct points *p, const struct point_group *g)
{
	return strcmp(p->engines[g->engine], "trtllm") == 0;
}

/* TensorRT-LLM's fp8 checkpoints have fp8 caches; others keep the model's own. */
static enum kv_dtype kv_of(const struct points *p, const struct point_group *g)
{
	return g->fp8 && reserves(p, g) ? KV_FP8 : KV_AUTO;
}

static int group_memory(const struct points *p, struct point_group *g, struct err *e)
{
	struct capacity_options o;
	struct capacity c;
	capacity_options_default(&o);
	o.tensor_parallel = g->tp;
	o.kv = kv_of(p, g);
	int rc = weights_of(g, &o.weights, e);
	rc = rc ? rc : capacity_compute(&c, &p->models[g->model], &p->devices[g->device], &o, e);
	g->kv_tokens = rc ? 0 : c.tokens;
	return rc;
}

static int read_group(struct points *p, const struct csv *c, int32_t *out, struct err *e)
{
	struct point_group g = {0};
	const char *quant = text_of(c, COL_QUANT);
	double tp = number_of(c, COL_TP, 1, 1024, e);
	int rc = e->code;
	rc = rc ? rc : read_model(p, c, &g.model, e);
	rc = rc ? rc : read_device(p, c, &g.device, e);
	rc = rc ? rc : read_engine(p, c, &g.engine, e);
	if (rc)
		return rc;
	if (*quant && strcmp(quant, "fp8") != 0)
		return err_set(e, ERR_INPUT, "%s:%lld: gemm_quant: \"%.40s\": only fp8 is known, or nothing", c->path,
			       (long long)c->line, quant);
	g.tp = (int32_t)tp;
	g.fp8 = *quant != '\0';
	for (*out = 0; *out < p->n_groups; ++*out) {
		const struct point_group *k = &p->groups[*out];
		if (k->model == g.model && k->device == g.device && k->engine == g.engine && k->tp == g.tp &&
		    k->fp8 == g.fp8)
			return ERR_NONE;
	}
	if (p->n_groups == POINTS_GROUPS)
		return err_set(e, ERR_INPUT, "%s:%lld: more than %d different servers", c->path, (long long)c->line,
			       POINTS_GROUPS);
	rc = group_memory(p, &g, e);
	if (rc == ERR_NONE)
		p->groups[p->n_groups++] = g;
	return rc;
}

static int read_row(struct points *p, struct csv *c, char *line, struct err *e)
{
	struct point at = {.ttft_ms = NAN};
	split(c, line);
	int rc = read_group(p, c, &at.group, e);
	if (rc)
		return rc;
	at.isl = (int32_t)number_of(c, COL_ISL, 1, 1e7, e);
	at.osl = (int32_t)number_of(c, COL_OSL, 2, 1e7, e);
	at.concurrency = (int32_t)number_of(c, COL_C, 1, 1e5, e);
	at.tpot_ms = number_of(c, COL_TPOT, 1e-6, 1e9, e);
	if (*text_of(c, COL_TTFT))
		at.ttft_ms = number_of(c, COL_TTFT, 1e-6, 1e9, e);
	if (e->code)
		return e->code;
	if (mem_grow((void **)&p->at, &p->cap, p->n + 1, sizeof *p->at))
		return err_no_memory(e, "measured points");
	p->at[p->n++] = at;
	return ERR_NONE;
}

int points_read(struct points *p, const char *path, struct err *e)
{
	char line[1024];
	struct csv c = {.path = path, .line = 1};
	memset(p, 0, sizeof *p);
	FILE *f = fopen(path, "r");
	if (!f)
		return err_set(e, ERR_INPUT, "%s cannot be read: %s", path, strerror(errno));
	int rc = fgets(line, sizeof line, f) ? read_header(&c, line, e) : err_set(e, ERR_INPUT, "%s is empty", path);
	while (rc == ERR_NONE && fgets(line, sizeof line, f)) {
		c.line++;
		if (line[strspn(line, " \r\n")])
			rc = read_row(p, &c, line, e);
	}
	if (rc == ERR_NONE && p->n == 0)
		rc = err_set(e, ERR_INPUT, "%s has no points", path);
	fclose(f);
	return rc;
}

void points_free(struct points *p)
{
	for (int32_t i = 0; i < p->n_models; i++)
		model_free(&p->models[i]);
	mem_free(p->at);
	memset(p, 0, sizeof *p);
}

int points_devices(const struct points *p, struct device devices[POINTS_KINDS * POINTS_KINDS], struct err *e)
{
	for (int32_t k = 0; k < p->n_engines; k++)
		for (int32_t d = 0; d < p->n_devices; d++) {
			struct device *to = &devices[k * POINTS_KINDS + d];
			char name[128];
			struct err none = {0};
			snprintf(name, sizeof name, "%s@%s", p->devices[d].name, p->engines[k]);
			if (device_load(to, name, &none) == ERR_NONE)
				continue;
			int rc = device_load(to, p->devices[d].name, e);
			if (rc)
				return rc;
		}
	return ERR_NONE;
}

/* --- the closed loop ---------------------------------------------------------------------------------------------- */

static double step_ms(const struct cost *c, const struct batch *b)
{
	struct cost_time t;
	cost_step(c, b, &t);
	return (double)(t.device_ns + t.host_ns) / 1e6;
}

static struct batch decodes(int32_t rows, int64_t ctx)
{
	return (struct batch){.decodes = rows,
			      .decode_ctx = rows * ctx,
			      .decode_ctx_window = rows * ctx,
			      .sampled = rows,
			      .running = rows};
}

static struct point_times closed_loop(const struct cost *c, const struct point *at, bool reserves_memory,
				      int64_t kv_tokens)
{
	int64_t rows = at->concurrency, ctx = at->isl + at->osl / 2;
	int64_t fit = kv_tokens / (at->isl + at->osl);
	if (reserves_memory && fit < rows)
		rows = fit > 0 ? fit : 1;
	struct chunk prompt = {.len = at->isl, .samples = true};
	struct batch all = decodes((int32_t)rows, ctx), mixed = decodes((int32_t)rows - 1, ctx), alone = decodes(0, 0);
	mixed.n_chunks = alone.n_chunks = 1;
	mixed.chunks = alone.chunks = &prompt;
	mixed.prefill_tokens = alone.prefill_tokens = at->isl;
	mixed.sampled = mixed.running = (int32_t)rows;
	alone.sampled = alone.running = 1;
	double decode = step_ms(c, &all), both = step_ms(c, &mixed);
	return (struct point_times){
		.tpot = decode + (double)(rows - 1) / (at->osl - 1) * (both - decode),
		.prefill = both,
		.burst = step_ms(c, &alone) * ((double)rows + 1) / 2,
	};
}

static int open_cost(struct cost **out, const struct points *p, const struct point_group *g,
		     const struct device *devices, struct err *e)
{
	struct cost_setup s;
	cost_setup_default(&s, &p->models[g->model], &devices[g->engine * POINTS_KINDS + g->device]);
	s.tensor_parallel = g->tp;
	s.kv = kv_of(p, g);
	int rc = weights_of(g, &s.weights, e);
	return rc ? rc : cost_roofline_create(out, &s, e);
}

int points_predict(const struct points *p, const struct device *devices, struct point_times *out, struct err *e)
{
	for (int32_t g = 0; g < p->n_groups; g++) {
		struct cost *c;
		int rc = open_cost(&c, p, &p->groups[g], devices, e);
		if (rc)
			return rc;
		for (int64_t i = 0; i < p->n; i++)
			if (p->at[i].group == g)
				out[i] = closed_loop(c, &p->at[i], reserves(p, &p->groups[g]), p->groups[g].kv_tokens);
		cost_free(c);
	}
	return ERR_NONE;
}

double points_mape(const struct points *p, const struct point_times *t, int32_t group)
{
	double sum = 0;
	int64_t n = 0;
	for (int64_t i = 0; i < p->n; i++) {
		if (group >= 0 && p->at[i].group != group)
			continue;
		sum += fabs(t[i].tpot / p->at[i].tpot_ms - 1);
		n++;
	}
	return n ? sum / (double)n : NAN;
}
