/* Vidur measures each operator of one layer by itself, in milliseconds, on a grid: the linear ones by tokens (mlp.csv), attention
 * by batch and context (decodes) or by chunk and context before it (prefills). Times here are of all layers; an
 * operator's place among a profile's operations is in the table below. */
#include "analysis/profile_import.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/profile_json.h"
#include "analysis/profile_points.h"
#include "analysis/profile_roofline.h"
#include "core/err.h"
#include "core/mem.h"
#include "models/device.h"
#include "models/model.h"

enum { COLUMNS_MAX = 256, FILE_MAX = 256 << 20 };

/* --- one CSV ------------------------------------------------------------------------------------------------------ */

struct csv {
	const char *where, *at, *end;
	int64_t line; /* of the row last read */
	char *header; /* cut into names */
	const char *names[COLUMNS_MAX];
	int32_t n_names;
	const char *cells[COLUMNS_MAX]; /* of the row last read, [n_cells] not terminated */
	int32_t lengths[COLUMNS_MAX];
	int32_t n_cells;
};

/* Cuts the next line that is not blank into cells. False: the end. Nothing in these tables is quoted. */
static bool next_row(struct csv *c)
{
	while (c->at < c->end) {
		const char *begin = c->at, *stop = memchr(begin, '\n', (size_t)(c->end - begin));
		c->at = stop ? stop + 1 : c->end;
		c->line++;
		if (!stop)
			stop = c->end;
		if (stop > begin && stop[-1] == '\r')
			stop--;
		if (stop == begin)
			continue;
		c->n_cells = 0;
		for (const char *cell = begin; c->n_cells < COLUMNS_MAX; cell += c->lengths[c->n_cells++] + 1) {
			const char *comma = memchr(cell, ',', (size_t)(stop - cell));
			c->cells[c->n_cells] = cell;
			c->lengths[c->n_cells] = (int32_t)((comma ? comma : stop) - cell);
			if (!comma) {
				c->n_cells++;
				break;
			}
		}
		return true;
	}
	return false;
}

static int open_csv(struct csv *c, const struct profile_text *t, struct err *e)
{
	*c = (struct csv){.where = t->where, .at = t->text, .end = t->text + t->size};
	if (!next_row(c))
		return err_set(e, ERR_INPUT, "%s: is empty", t->where);
	size_t size = 0;
	for (int32_t i = 0; i < c->n_cells; i++)
		size += (size_t)c->lengths[i] + 1;
	c->header = mem_alloc(size + 1);
	if (!c->header)
		return err_no_memory(e, "a table's columns");
	char *to = c->header;
	for (int32_t i = 0; i < c->n_cells; i++) {
		memcpy(to, c->cells[i], (size_t)c->lengths[i]);
		to[c->lengths[i]] = '\0';
		c->names[i] = to;
		to += c->lengths[i] + 1;
	}
	c->n_names = c->n_cells;
	return ERR_NONE;
}

/* -1: there is no such column. */
static int32_t column(const struct csv *c, const char *name)
{
	for (int32_t i = 0; i < c->n_names; i++)
		if (strcmp(c->names[i], name) == 0)
			return i;
	return -1;
}

static int bad_cell(const struct csv *c, const char *name, const char *cell, const char *what, struct err *e)
{
	return err_set(e, ERR_INPUT, "%s:%lld: %s: \"%.40s\" is not %s", c->where, (long long)c->line, name, cell,
		       what);
}

/* A number, or what an empty cell is worth. */
static int read_number(const struct csv *c, const char *name, double empty, double *out, struct err *e)
{
	char cell[64], *end;
	int32_t i = column(c, name);
	if (i < 0)
		return err_set(e, ERR_INPUT, "%s: has no column %s", c->where, name);
	if (i >= c->n_cells)
		return err_set(e, ERR_INPUT, "%s:%lld: has %d columns, the first line names %d", c->where,
			       (long long)c->line, c->n_cells, c->n_names);
	snprintf(cell, sizeof cell, "%.*s", c->lengths[i], c->cells[i]);
	*out = empty;
	if (!cell[0] && !isnan(empty))
		return ERR_NONE;
	*out = strtod(cell, &end);
	if (end == cell || *end || !(*out >= 0 && *out < 1e12))
		return bad_cell(c, name, cell, "a number from 0 on", e);
	return ERR_NONE;
}

static int read_int(const struct csv *c, const char *name, int32_t *out, struct err *e)
{
	double x;
	char cell[32];
	int rc = read_number(c, name, NAN, &x, e);
	if (rc)
		return rc;
	if (x > INT32_MAX || x != floor(x)) {
		snprintf(cell, sizeof cell, "%g", x);
		return bad_cell(c, name, cell, "a whole number", e);
	}
	*out = (int32_t)x;
	return ERR_NONE;
}

static bool cell_is(const struct csv *c, const char *name, const char *word)
{
	int32_t i = column(c, name);
	return i >= 0 && i < c->n_cells && strlen(word) == (size_t)c->lengths[i] &&
	       memcmp(c->cells[i], word, (size_t)c->lengths[i]) == 0;
}

/* --- operators ---------------------------------------------------------------------------------------------------- */

struct importing {
	const struct profile_import *o;
	const struct model *model;
	struct profile *p;
	struct timings timings;
	int32_t tensor_parallel;
	bool linear, attention; /* seen */
};

/* Times of one row of a table, in milliseconds: its median, and its variance. */
struct time_sum {
	double ms, variance;
};

/* Adds `times` times an operator's median. One that a table lacks or leaves empty counts nothing, unless it is needed. */
static int add_op(const struct csv *c, const char *op, double times, bool needed, struct time_sum *sum, struct err *e)
{
	char name[64];
	double median, std = 0;
	snprintf(name, sizeof name, "time_stats.%s.median", op);
	if (!needed && column(c, name) < 0)
		return ERR_NONE;
	int rc = read_number(c, name, needed ? NAN : 0, &median, e);
	snprintf(name, sizeof name, "time_stats.%s.std", op);
	if (rc == ERR_NONE && column(c, name) >= 0)
		rc = read_number(c, name, 0, &std, e);
	sum->ms += times * median;
	sum->variance += times * times * std * std;
	return rc;
}

/* Quartiles of a normal distribution lie 0.6745 standard deviations from the middle. */
static int put(struct importing *m, enum profile_op op, int32_t x, int64_t y, const struct time_sum *s, struct err *e)
{
	return timings_add(&m->timings, op, x, y, s->ms * 1e6, false, 0.6745 * sqrt(s->variance) * 1e6, e);
}

struct op_use {
	const char *name;
	enum profile_op op;
	bool once; /* in a step, not in a layer */
	int times; /* in a layer */
};
/* Vidur times one addition; a layer has two. */
static const struct op_use linear_ops[] = {
	{"attn_pre_proj", PROFILE_MATMUL, false, 1},
	{"attn_post_proj", PROFILE_MATMUL, false, 1},
	{"mlp_up_proj", PROFILE_MATMUL, false, 1},
	{"mlp_down_proj", PROFILE_MATMUL, false, 1},
	{"input_layernorm", PROFILE_OTHER, false, 1},
	{"post_attention_layernorm", PROFILE_OTHER, false, 1},
	{"attn_rope", PROFILE_OTHER, false, 1},
	{"mlp_act", PROFILE_OTHER, false, 1},
	{"add", PROFILE_OTHER, false, 2},
	{"emb", PROFILE_OTHER, true, 1},
};

static int linear_row(struct importing *m, const struct csv *c, struct err *e)
{
	struct time_sum sums[PROFILE_OPS] = {0};
	int32_t tokens = 0;
	int rc = read_int(c, "num_tokens", &tokens, e);
	for (size_t i = 0; rc == ERR_NONE && i < sizeof linear_ops / sizeof *linear_ops; i++) {
		const struct op_use *u = &linear_ops[i];
		rc = add_op(c, u->name, u->once ? 1 : (double)u->times * m->model->n_layers, u->op == PROFILE_MATMUL,
			    &sums[u->op], e);
	}
	if (rc == ERR_NONE)
		rc = put(m, PROFILE_MATMUL, tokens, 0, &sums[PROFILE_MATMUL], e);
	return rc ? rc : put(m, PROFILE_OTHER, tokens, 0, &sums[PROFILE_OTHER], e);
}

static int attention_row(struct importing *m, const struct csv *c, struct err *e)
{
	struct time_sum sum = {0};
	int32_t batch = 0, chunk = 0, ctx = 0;
	bool prefill = cell_is(c, "is_prefill", "True");
	double layers = m->model->n_layers;
	if (!prefill && !cell_is(c, "is_prefill", "False"))
		return err_set(e, ERR_INPUT, "%s:%lld: is_prefill must be True or False", c->where, (long long)c->line);
	int rc = read_int(c, "batch_size", &batch, e);
	if (rc == ERR_NONE)
		rc = read_int(c, "prefill_chunk_size", &chunk, e);
	if (rc == ERR_NONE)
		rc = read_int(c, "kv_cache_size", &ctx, e);
	if (rc == ERR_NONE)
		rc = add_op(c, prefill ? "attn_prefill" : "attn_decode", layers, true, &sum, e);
	/* What goes with it: heads taken apart and put together, KV stored. */
	static const char *const around[] = {"attn_input_reshape", "attn_output_reshape", "attn_kv_cache_save"};
	for (size_t i = 0; rc == ERR_NONE && !m->o->bare_attention && i < sizeof around / sizeof *around; i++)
		rc = add_op(c, around[i], layers, false, &sum, e);
	if (rc || (prefill && batch != 1)) /* several chunks at once are no chunk's time */
		return rc;
	return prefill ? put(m, PROFILE_PREFILL, chunk, ctx, &sum, e) : put(m, PROFILE_DECODE, batch, ctx, &sum, e);
}

/* A table of another model is no table of this one. */
static int check_shape(const struct importing *m, const struct csv *c, struct err *e)
{
	const struct model *model = m->model;
	const struct {
		const char *column;
		int32_t is;
	} shapes[] = {{"n_embd", model->hidden},
		      {"n_head", model->n_heads},
		      {"n_q_head", model->n_heads},
		      {"n_kv_head", model->n_kv_heads},
		      {"n_expanded_embd", model->intermediate}};
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		int32_t says = 0;
		if (column(c, shapes[i].column) < 0)
			continue;
		if (read_int(c, shapes[i].column, &says, e))
			return ERR_INPUT;
		if (says != shapes[i].is)
			return err_set(e, ERR_INPUT, "%s:%lld: %s is %d, but %s has %d: it is of another model",
				       c->where, (long long)c->line, shapes[i].column, says, model->name, shapes[i].is);
	}
	return ERR_NONE;
}

/* Which tensor-parallel sizes the table has instead, for who asked for one that is not there. */
static int none_of_size(const struct importing *m, const struct csv *c, const uint64_t seen, struct err *e)
{
	char sizes[128] = "";
	size_t n = 0;
	for (int i = 1; i < 64; i++)
		if (seen >> i & 1 && n < sizeof sizes)
			n += (size_t)snprintf(sizes + n, sizeof sizes - n, "%s%d", n ? ", " : "", i);
	if (!n)
		return err_set(e, ERR_INPUT, "%s: has no rows", c->where);
	return err_set(e, ERR_INPUT,
		       "%s: no rows of tensor-parallel size %d; it has %s: choose with --tensor-parallel-size",
		       c->where, m->tensor_parallel, sizes);
}

static int read_rows(struct importing *m, struct csv *c,
		     int (*row)(struct importing *, const struct csv *, struct err *), struct err *e)
{
	int64_t taken = 0;
	uint64_t seen = 0;
	bool sized = column(c, "num_tensor_parallel_workers") >= 0;
	int rc = ERR_NONE;
	while (rc == ERR_NONE && next_row(c)) {
		int32_t size = 1, block = 0;
		rc = sized ? read_int(c, "num_tensor_parallel_workers", &size, e) : ERR_NONE;
		if (rc == ERR_NONE)
			seen |= UINT64_C(1) << (size & 63);
		if (rc || size != m->tensor_parallel)
			continue;
		rc = check_shape(m, c, e);
		if (rc == ERR_NONE)
			rc = row(m, c, e);
		if (rc == ERR_NONE && column(c, "block_size") >= 0 && read_int(c, "block_size", &block, e) == ERR_NONE)
			m->p->block_size = block;
		taken++;
	}
	return rc ? rc : taken ? ERR_NONE : none_of_size(m, c, seen, e);
}

static int read_table(struct importing *m, const struct profile_text *t, struct err *e)
{
	struct csv c;
	int rc = open_csv(&c, t, e);
	if (rc == ERR_NONE && column(&c, "num_tokens") >= 0 && column(&c, "time_stats.mlp_up_proj.median") >= 0) {
		m->linear = true;
		rc = read_rows(m, &c, linear_row, e);
	} else if (rc == ERR_NONE && column(&c, "is_prefill") >= 0 && column(&c, "kv_cache_size") >= 0) {
		m->attention = true;
		rc = read_rows(m, &c, attention_row, e);
	} else if (rc == ERR_NONE && column(&c, "prompt_time") >= 0) {
		rc = err_set(
			e, ERR_INPUT,
			"%s: times of whole prompts and tokens (Splitwise's) do not say what the parts of a step take: "
			"import operator tables (Vidur's mlp and attention CSV)",
			t->where);
	} else if (rc == ERR_NONE && column(&c, "collective") >= 0) {
		rc = err_set(e, ERR_INPUT, "%s: times of collectives: models split over devices are not simulated yet",
			     t->where);
	} else if (rc == ERR_NONE) {
		rc = err_set(e, ERR_INPUT,
			     "%s: neither an export of `lockstep profile` nor one of Vidur's tables (num_tokens and "
			     "time_stats.mlp_up_proj.median, or is_prefill and kv_cache_size, in the first line)",
			     t->where);
	}
	mem_free(c.header);
	return rc;
}

/* --- the profile -------------------------------------------------------------------------------------------------- */

static const char *file_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static int identify(struct importing *m, const struct profile_text *texts, int32_t n, struct err *e)
{
	struct profile *p = m->p;
	const struct profile_import *o = m->o;
	struct weight_format f;
	enum kv_dtype kv;
	struct device d;
	time_t now = time(NULL);
	struct tm tm;
	int rc = model_formats(m->model, o->weight_dtype ? o->weight_dtype : "bf16", o->kv_dtype, &f, &kv, e);
	if (rc)
		return rc;
	struct err unknown = {0};
	bool known = device_load(&d, o->device, &unknown) == ERR_NONE;
	snprintf(p->device, sizeof p->device, "%s", known ? d.name : o->device);
	snprintf(p->name, sizeof p->name, "%s", o->name ? o->name : "");
	snprintf(p->model, sizeof p->model, "%s", m->model->name);
	snprintf(p->weight_dtype, sizeof p->weight_dtype, "%s", profile_weight_name(&f));
	snprintf(p->kv_dtype, sizeof p->kv_dtype, "%s", profile_kv_name(kv, &f));
	snprintf(p->program, sizeof p->program, "%s", LOCKSTEP_VERSION);
	if (gmtime_r(&now, &tm))
		strftime(p->created, sizeof p->created, "%Y-%m-%d %H:%M:%S", &tm);
	size_t used = (size_t)snprintf(p->source, sizeof p->source, "imported:");
	for (int32_t i = 0; i < n && used < sizeof p->source; i++)
		used += (size_t)snprintf(p->source + used, sizeof p->source - used, "%s %s", i ? "," : "",
					 file_part(texts[i].where));
	p->shape = profile_shape(m->model);
	p->layers = m->model->n_layers;
	p->tensor_parallel = m->tensor_parallel;
	return ERR_NONE;
}

/* What is still to be known of a step. */
static void note_missing(struct profile *p, const struct importing *m)
{
	snprintf(p->note, sizeof p->note, "%s%s%shead (final norm, logits, sampling) and host time not measured%s",
		 m->linear ? "" : "no linear operators; ", m->attention ? "" : "no attention; ",
		 m->attention && m->o->bare_attention ? "attention without storing KV; " : "",
		 m->tensor_parallel > 1 ? "; no all-reduce" : "");
}

static int fill(struct profile *p, const struct profile_import *o, struct err *e)
{
	struct profile_roofline r;
	int rc = profile_roofline_open(&r, p, o->model, o->device, NULL, e);
	if (rc)
		return rc;
	rc = profile_fill(p, &r, e);
	profile_roofline_close(&r);
	return rc;
}

static int import_tables(struct profile *out, const struct profile_text *texts, int32_t n,
			 const struct profile_import *o, struct err *e)
{
	struct model model = {0};
	if (!o->model || !o->device)
		return err_set(
			e, ERR_INPUT,
			"%s: a CSV does not say which model it is of and on which device: give --model and --device",
			texts[0].where);
	struct importing m = {
		.o = o, .model = &model, .p = out, .tensor_parallel = o->tensor_parallel ? o->tensor_parallel : 1};
	int rc = model_load(&model, o->model, e);
	if (rc == ERR_NONE)
		rc = identify(&m, texts, n, e);
	for (int32_t i = 0; rc == ERR_NONE && i < n; i++)
		rc = read_table(&m, &texts[i], e);
	if (rc == ERR_NONE)
		rc = timings_reduce(out, &m.timings, e);
	if (rc == ERR_NONE)
		note_missing(out, &m);
	if (rc == ERR_NONE && o->fill)
		rc = fill(out, o, e);
	timings_free(&m.timings);
	model_free(&model);
	out->hash = profile_hash(out);
	return rc;
}

static bool is_json(const struct profile_text *t)
{
	size_t i = 0;
	while (i < t->size && strchr(" \t\r\n", t->text[i]) && t->text[i])
		i++;
	return i < t->size && t->text[i] == '{';
}

int profile_import_texts(struct profile *out, const struct profile_text *texts, int32_t n,
			 const struct profile_import *o, struct err *e)
{
	*out = (struct profile){0};
	int rc = ERR_NONE;
	for (int32_t i = 0; rc == ERR_NONE && n > 1 && i < n; i++)
		if (is_json(&texts[i]))
			rc = err_set(e, ERR_INPUT, "%s: an export is a whole profile: import it alone", texts[i].where);
	if (rc == ERR_NONE && is_json(&texts[0])) {
		rc = profile_read_json(out, texts[0].text, texts[0].where, e);
		if (rc == ERR_NONE && o->name)
			snprintf(out->name, sizeof out->name, "%s", o->name);
	} else if (rc == ERR_NONE) {
		rc = import_tables(out, texts, n, o, e);
	}
	if (rc)
		profile_free(out);
	return rc;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static int read_file(const char *path, struct profile_text *out, struct err *e)
{
	int64_t cap = 0, n = 0;
	char *text = NULL;
	size_t got = 1;
	FILE *f = fopen(path, "rb");
	*out = (struct profile_text){.where = path};
	if (!f)
		return err_set(e, ERR_INPUT, "%s: %s", path, strerror(errno));
	int rc = ERR_NONE;
	errno = 0;
	while (rc == ERR_NONE && got > 0 && !ferror(f)) {
		if (mem_grow((void **)&text, &cap, n + (64 << 10) + 1, 1)) {
			rc = err_no_memory(e, "a profile's file");
			break;
		}
		got = fread(text + n, 1, 64 << 10, f);
		n += (int64_t)got;
		if (n > FILE_MAX)
			rc = err_set(e, ERR_INPUT, "%s: larger than %d MB: no profile is", path, FILE_MAX >> 20);
	}
	if (rc == ERR_NONE && ferror(f))
		rc = err_set(e, ERR_IO, "%s: %s", path, errno ? strerror(errno) : "cannot be read");
	fclose(f);
	if (text)
		text[n] = '\0';
	out->text = text;
	out->size = (size_t)n;
	return rc;
}

int profile_import_files(struct profile *out, char *const *paths, int32_t n, const struct profile_import *o,
			 struct err *e)
{
	struct profile_text *texts = mem_zalloc((size_t)n, sizeof *texts);
	*out = (struct profile){0};
	if (!texts)
		return err_no_memory(e, "files");
	int rc = ERR_NONE;
	for (int32_t i = 0; rc == ERR_NONE && i < n; i++)
		rc = read_file(paths[i], &texts[i], e);
	if (rc == ERR_NONE)
		rc = profile_import_texts(out, texts, n, o, e);
	for (int32_t i = 0; i < n; i++)
		mem_free((char *)texts[i].text);
	mem_free(texts);
	return rc;
}
