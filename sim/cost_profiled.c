/* cost_profiled.c: a step takes what its parts were measured to take (sim/profile.h).
 *
 * What depends on the number of tokens or of sampled rows alone is kept in tables that fill as they are asked. Decode
 * attention at a number of rows is a line of the summed context, piece by piece: the piece last used is kept for each
 * number of rows. */
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "sim/cost_models.h"

enum { TOKENS_KEPT = 1 << 15, ROWS_KEPT = 1 << 12 };

/* A time and how far outside it was asked for. */
struct kept {
	double ns; /* < 0 = not yet */
	double outside;
};

/* The piece of the line that decodes in this number were last on. */
struct piece {
	struct profile_cell cell; /* to = 0: none yet */
	struct profile_reach reach;
	bool edge; /* it or the rows are not all among the points: how far, depends on the context */
};

struct profiled {
	struct cost base;
	struct profile_table *table;
	struct kept *tokens; /* [TOKENS_KEPT] */
	struct kept *rows; /* [ROWS_KEPT] of the head */
	struct piece *decodes; /* [ROWS_KEPT] */
	double step_ns, request_ns; /* host time on top of the measured */
	bool windowed;
};

static struct kept ask_tokens(const struct profiled *p, int64_t tokens)
{
	struct kept k = {0, 0};
	k.ns = profile_tokens_ns(p->table, tokens, &k.outside);
	return k;
}

static inline struct kept tokens_at(const struct profiled *p, int64_t tokens)
{
	if ((uint64_t)tokens >= TOKENS_KEPT)
		return ask_tokens(p, tokens);
	struct kept *k = &p->tokens[tokens];
	if (k->ns < 0)
		*k = ask_tokens(p, tokens);
	return *k;
}

static struct kept ask_rows(const struct profiled *p, int64_t rows)
{
	struct kept k = {0, 0};
	k.ns = profile_op_ns(p->table, PROFILE_HEAD, rows, &k.outside);
	return k;
}

static inline struct kept rows_at(const struct profiled *p, int64_t rows)
{
	if ((uint64_t)rows >= ROWS_KEPT)
		return ask_rows(p, rows);
	struct kept *k = &p->rows[rows];
	if (k->ns < 0)
		*k = ask_rows(p, rows);
	return *k;
}

/* Which piece of the line, and does it matter for `outside` where on it? The ends of a piece tell: within one, what lies
 * inside is on one side. */
__attribute__((noinline)) static void find_piece(const struct profiled *p, int32_t rows, int64_t ctx, struct piece *d)
{
	profile_decode_cell(p->table, rows, ctx, &d->cell);
	profile_decode_reach(p->table, rows, &d->reach);
	d->edge = d->reach.outside > 0 || (double)d->cell.from < d->reach.first * rows ||
		  (double)d->cell.to > d->reach.last * rows;
}

/* In 64ths, upwards, so that neighbouring steps have the same. */
static inline double in_64ths(double outside)
{
	double n = outside < 1e15 ? outside * 64 : 64e15;
	int64_t whole = (int64_t)n;
	return (double)(whole + ((double)whole < n)) / 64;
}

static inline double decode_at(const struct profiled *p, int32_t rows, int64_t ctx, struct piece *d, double *outside)
{
	if (ctx < d->cell.from || ctx >= d->cell.to)
		find_piece(p, rows, ctx, d);
	if (d->edge) {
		double far = in_64ths(profile_reach_outside(&d->reach, (double)ctx / rows));
		*outside = far > *outside ? far : *outside;
	}
	return d->cell.at + d->cell.slope * (double)(ctx - d->cell.from);
}

/* Times beyond 146 years are cut: the clock could overflow. */
static inline int64_t to_ns(double ns)
{
	return ns < 4.6e18 ? (int64_t)(ns + 0.5) : INT64_C(4600000000000000000);
}

static int64_t host_ns(const struct profiled *p, int64_t sequences, int64_t tokens)
{
	double ns = profile_host_ns(p->table, sequences, tokens);
	return to_ns(ns + p->step_ns + p->request_ns * (double)sequences);
}

/* A piece that is kept, or, for more rows than are kept, the caller's. */
static inline struct piece *piece_of(const struct profiled *p, int32_t rows, struct piece *own)
{
	own->cell.from = own->cell.to = 0;
	return rows < ROWS_KEPT ? &p->decodes[rows] : own;
}

static void profiled_step(const struct cost *c, const struct batch *b, struct cost_time *out)
{
	const struct profiled *p = (const struct profiled *)c;
	int64_t tokens = b->decodes + b->prefill_tokens;
	struct kept t = tokens_at(p, tokens), h = rows_at(p, b->sampled);
	double ns = t.ns + h.ns, outside = t.outside > h.outside ? t.outside : h.outside;
	if (b->decodes > 0) {
		struct piece own;
		int64_t ctx = p->windowed ? b->decode_ctx_window : b->decode_ctx;
		ns += decode_at(p, b->decodes, ctx, piece_of(p, b->decodes, &own), &outside);
	}
	for (int32_t i = 0; i < b->n_chunks; i++)
		ns += profile_prefill_ns(p->table, (int64_t)b->chunks[i].len + b->chunks[i].pad, b->chunks[i].start,
					 &outside);
	out->device_ns = to_ns(ns);
	out->host_ns = host_ns(p, (int64_t)b->decodes + b->n_chunks, tokens);
	out->outside = outside;
}

/* The same sums in the same order as a single step's, to the bit. */
static int64_t profiled_run(const struct cost *c, const struct batch *b, int64_t start_ns, int64_t *end_ns,
			    int64_t most, struct cost_time *all)
{
	const struct profiled *p = (const struct profiled *)c;
	const struct kept t = tokens_at(p, b->decodes), h = rows_at(p, b->sampled);
	const double base = t.ns + h.ns, base_outside = t.outside > h.outside ? t.outside : h.outside;
	const int64_t host = host_ns(p, b->decodes, b->decodes), until_ns = b->until_ns;
	struct piece own, *piece = piece_of(p, b->decodes, &own);
	int64_t n = 0, at_ns = start_ns, ctx = p->windowed ? b->decode_ctx_window : b->decode_ctx;
	const int32_t growing = p->windowed ? b->window_growing : b->decodes;
	*all = (struct cost_time){.host_ns = host};
	do {
		double outside = base_outside, ns = base;
		if (b->decodes > 0)
			ns += decode_at(p, b->decodes, ctx, piece, &outside);
		if (n > 0 && outside != all->outside)
			break;
		all->outside = outside;
		all->device_ns = to_ns(ns);
		at_ns += host + all->device_ns;
		end_ns[n++] = at_ns;
		ctx += growing;
	} while (n < most && at_ns < until_ns);
	return n;
}

static void profiled_destroy(struct cost *c)
{
	struct profiled *p = (struct profiled *)c;
	profile_table_free(p->table);
	mem_free(p->tokens);
	mem_free(p->rows);
	mem_free(p->decodes);
	mem_free(p);
}

static void profiled_parts(const struct cost *c, const struct batch *b, double part_ns[STEP_PARTS])
{
	double op_ns[PROFILE_OPS], outside = 0;
	profile_batch(((const struct profiled *)c)->table, b, op_ns, &outside);
	part_ns[0] = op_ns[PROFILE_MATMUL];
	part_ns[1] = op_ns[PROFILE_DECODE] + op_ns[PROFILE_PREFILL];
	part_ns[2] = op_ns[PROFILE_HEAD];
	part_ns[3] = op_ns[PROFILE_OTHER];
}

static const struct cost_ops profiled_ops = {
	.name = "profiled",
	.step = profiled_step,
	.destroy = profiled_destroy,
	.run = profiled_run,
	.parts = profiled_parts,
};

static int check_setup(const struct cost_setup *s, const struct profiled_options *o, struct err *e)
{
	struct weight_format f;
	struct profile_use use = {.model = s->model,
				  .device = s->device ? s->device->name : NULL,
				  .threads = s->threads,
				  .block_size = s->block_size,
				  .tensor_parallel = s->tensor_parallel};
	if (o->any)
		return profile_check_content(s->profile, e);
	if (s->model) {
		int rc = model_weight_format(s->model, &s->weights, &f, e);
		if (rc)
			return rc;
		use.weight_dtype = profile_weight_name(&f);
		use.kv_dtype = profile_kv_name(s->kv, &f);
	}
	return profile_check_use(s->profile, &use, e);
}

static int make_tables(struct profiled *p, const struct profile *profile, struct err *e)
{
	int rc = profile_table_create(&p->table, profile, e);
	if (rc)
		return rc;
	p->tokens = mem_alloc(TOKENS_KEPT * sizeof *p->tokens);
	p->rows = mem_alloc(ROWS_KEPT * sizeof *p->rows);
	p->decodes = mem_zalloc(ROWS_KEPT, sizeof *p->decodes);
	if (!p->tokens || !p->rows || !p->decodes)
		return err_no_memory(e, "the profiled model's tables");
	for (int i = 0; i < TOKENS_KEPT; i++)
		p->tokens[i].ns = -1;
	for (int i = 0; i < ROWS_KEPT; i++)
		p->rows[i].ns = -1;
	return ERR_NONE;
}

int cost_profiled_create(struct cost **out, const struct cost_setup *s, const struct profiled_options *o, struct err *e)
{
	*out = NULL;
	if (!s || !s->profile)
		return err_set(
			e, ERR_INPUT,
			"cost model \"profiled\" needs a profile: `lockstep profile` measures one, `lockstep profile "
			"import` reads one");
	int rc = check_setup(s, o, e);
	if (rc)
		return rc;
	struct profiled *p = mem_zalloc(1, sizeof *p);
	if (!p)
		return err_no_memory(e, "the profiled model");
	p->base.ops = &profiled_ops;
	p->step_ns = o->step_ns;
	p->request_ns = o->request_ns;
	p->windowed = s->profile->window > 0;
	rc = make_tables(p, s->profile, e);
	if (rc) {
		profiled_destroy(&p->base);
		return rc;
	}
	*out = &p->base;
	return ERR_NONE;
}
