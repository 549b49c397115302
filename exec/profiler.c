/* profiler.c: runs the grid's shots on a runner of a few layers.
 *
 * First each shot once, level by level, so that a short budget still spans the whole range. Then rounds over all of them in
 * random order (what the machine does meanwhile spreads over all alike) until each is known well enough: three repeats,
 * more where they disagree. Each time the sequences lie in other pages, scattered as an old pool's would be. */
#include "exec/profiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "exec/profiler_grid.h"
#include "exec/runner.h"

enum { WARM_UP = 1, ENOUGH = 3 };
#define SPREAD_FINE 0.02 /* quartiles so close together, as a share of the median, need no more repeats */

struct profiler {
	const struct profiler_setup *setup;
	struct profiler_result *out;
	struct runner *runner;
	struct rng rng;
	int32_t *pages; /* [n_pages] a permutation */
	int32_t n_pages;
	struct batch_tables tables;
	int32_t *row_tokens;
	int64_t cap_row_tokens;
	double began_s;
	double ns_per_token; /* the last large shot's: what another one would take */
};

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- a shot's tables ---------------------------------------------------------------------------------------------- */

static int64_t shot_rows(const struct profiler_shot *shot)
{
	return (int64_t)shot->decodes + shot->chunk;
}

static int room_for(struct profiler *p, const struct profiler_shot *shot, struct err *e)
{
	struct batch_tables *t = &p->tables;
	int64_t seqs = (int64_t)shot->decodes + 1, rows = shot_rows(shot);
	int64_t pages = profiler_pages(shot, p->setup->block_size);
	int32_t **const per_seq[] = {&t->req,      &t->q_at,        &t->ctx_len,  &t->pad,
				     &t->pad_rows, &t->first_token, &t->kv_indptr};
	bool ok = true;
	if (t->cap_seqs <= seqs) {
		int64_t cap = 2 * seqs + 1;
		for (size_t i = 0; ok && i < sizeof per_seq / sizeof *per_seq; i++) {
			int64_t have = 0;
			mem_free(*per_seq[i]);
			*per_seq[i] = NULL;
			ok = mem_grow((void **)per_seq[i], &have, cap, sizeof **per_seq[i]) == 0;
		}
		mem_free(t->samples);
		mem_free(t->held);
		t->samples = mem_zalloc((size_t)cap, 1);
		t->held = mem_zalloc((size_t)cap, 1);
		ok = ok && t->samples && t->held;
		t->cap_seqs = ok ? cap : 0;
	}
	ok = ok && mem_grow((void **)&t->slots, &t->cap_rows, rows, sizeof *t->slots) == 0;
	ok = ok && mem_grow((void **)&t->kv_indices, &t->cap_indices, pages, sizeof *t->kv_indices) == 0;
	ok = ok && mem_grow((void **)&p->row_tokens, &p->cap_row_tokens, rows, sizeof *p->row_tokens) == 0;
	return ok ? ERR_NONE : err_no_memory(e, "the profiler's tables");
}

/* A sequence whose last `rows` tokens of ctx are computed; its pages are the next ones of the permutation. */
static void add_sequence(struct profiler *p, int32_t rows, int32_t ctx, bool samples, int32_t *page)
{
	struct batch_tables *t = &p->tables;
	int32_t s = t->n_seqs++, size = p->setup->block_size, first = t->kv_indptr[s], n = (ctx + size - 1) / size;
	t->req[s] = s;
	t->ctx_len[s] = ctx;
	t->pad[s] = t->pad_rows[s] = 0;
	t->first_token[s] = ctx - rows;
	t->samples[s] = samples;
	t->held[s] = 0;
	for (int32_t i = 0; i < n; i++) {
		t->kv_indices[first + i] = p->pages[*page];
		*page = *page + 1 < p->n_pages ? *page + 1 : 0;
	}
	t->kv_indptr[s + 1] = first + n;
	for (int32_t i = ctx - rows; i < ctx; i++)
		t->slots[t->n_rows++] = (int64_t)t->kv_indices[first + i / size] * size + i % size;
	t->q_at[s + 1] = t->n_rows;
	if (ctx > t->max_ctx)
		t->max_ctx = ctx;
}

static int lay_out(struct profiler *p, const struct profiler_shot *shot, struct err *e)
{
	struct batch_tables *t = &p->tables;
	int rc = room_for(p, shot, e);
	if (rc)
		return rc;
	int32_t page = (int32_t)rng_below(&p->rng, (uint64_t)p->n_pages);
	t->n_seqs = t->n_rows = t->max_ctx = 0;
	t->q_at[0] = t->kv_indptr[0] = 0;
	t->n_decodes = shot->decodes;
	t->sum_ctx = (int64_t)shot->decodes * shot->decode_ctx;
	for (int32_t i = 0; i < shot->decodes; i++)
		add_sequence(p, 1, shot->decode_ctx, shot->head, &page);
	if (shot->chunk)
		add_sequence(p, shot->chunk, shot->start + shot->chunk, shot->head, &page);
	for (int32_t i = 0; i < t->n_rows; i++)
		p->row_tokens[i] = (int32_t)rng_below(&p->rng, (uint64_t)p->setup->model->vocab);
	t->step++;
	return ERR_NONE;
}

/* --- measuring ---------------------------------------------------------------------------------------------------- */

static int measure(struct profiler *p, struct profiler_shot *shot, struct err *e)
{
	struct step_output out;
	int rc = lay_out(p, shot, e);
	if (rc)
		return rc;
	const struct step_input in = {.tables = &p->tables, .row_tokens = p->row_tokens};
	struct timespec from, to;
	clock_gettime(CLOCK_MONOTONIC, &from);
	rc = runner_step(p->runner, &in, &out, e);
	clock_gettime(CLOCK_MONOTONIC, &to);
	if (rc)
		return rc;
	struct profiler_sample *sample = &shot->samples[shot->n];
	memcpy(sample->part_ns, out.part_ns, sizeof sample->part_ns);
	sample->total_ns = (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec;
	p->out->n_measured += shot->n == 0;
	shot->n++;
	if (shot_rows(shot) >= 64)
		p->ns_per_token = (double)sample->total_ns / (double)shot_rows(shot);
	return ERR_NONE;
}

static double left_s(const struct profiler *p)
{
	return p->setup->budget_s - (seconds() - p->began_s);
}

/* What it took, or, before it was tried, what as many tokens would. */
static double expected_s(const struct profiler *p, const struct profiler_shot *shot)
{
	if (shot->n)
		return (double)shot->samples[shot->n - 1].total_ns / 1e9;
	return p->ns_per_token * (double)shot_rows(shot) / 1e9;
}

static bool over(struct profiler *p)
{
	const struct profiler_setup *s = p->setup;
	double left = left_s(p);
	if (s->progress)
		s->progress(s->ctx, (int64_t)((s->budget_s - (left > 0 ? left : 0)) * 1e3),
			    (int64_t)(s->budget_s * 1e3));
	if (s->stop && *s->stop)
		p->out->interrupted = true;
	return p->out->interrupted || left <= 0;
}

static void shuffle(struct profiler *p, int32_t *at, int32_t n)
{
	for (int32_t i = n - 1; i > 0; i--) {
		int32_t k = (int32_t)rng_below(&p->rng, (uint64_t)i + 1), x = at[i];
		at[i] = at[k];
		at[k] = x;
	}
}

/* Each shot of a level once, and again where the first was only the warm-up of something quick. The corners are measured
 * even where the budget is short, but the very largest may be left out when they would take longer than there is. */
static int first_pass(struct profiler *p, int32_t *order, int level, struct err *e)
{
	struct profiler_result *r = p->out;
	int32_t n = 0;
	int rc = ERR_NONE;
	for (int32_t i = 0; i < r->n_shots; i++)
		if (r->shots[i].level == level)
			order[n++] = i;
	shuffle(p, order, n);
	for (int32_t i = 0; rc == ERR_NONE && i < n && !over(p); i++) {
		struct profiler_shot *shot = &r->shots[order[i]];
		if (expected_s(p, shot) > left_s(p))
			continue;
		rc = measure(p, shot, e);
		if (rc == ERR_NONE && expected_s(p, shot) < p->setup->budget_s / 200)
			rc = measure(p, shot, e);
	}
	return rc;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static bool known(const struct profiler *p, const struct profiler_shot *shot)
{
	int64_t ns[PROFILER_REPEATS];
	int32_t n = shot->n - WARM_UP;
	if (shot->n >= PROFILER_REPEATS)
		return true;
	/* What takes a large part of the budget is long enough to be steady. */
	if (n >= 1 && expected_s(p, shot) > p->setup->budget_s / 20)
		return true;
	if (n < ENOUGH)
		return false;
	for (int32_t i = 0; i < n; i++)
		ns[i] = shot->samples[WARM_UP + i].total_ns;
	qsort(ns, (size_t)n, sizeof *ns, by_value);
	return (double)(ns[3 * n / 4] - ns[n / 4]) <= SPREAD_FINE * (double)ns[n / 2];
}

static int rounds(struct profiler *p, int32_t *order, struct err *e)
{
	struct profiler_result *r = p->out;
	int rc = ERR_NONE;
	for (bool more = true; more && rc == ERR_NONE && !over(p);) {
		more = false;
		for (int32_t i = 0; i < r->n_shots; i++)
			order[i] = i;
		shuffle(p, order, r->n_shots);
		for (int32_t i = 0; rc == ERR_NONE && i < r->n_shots && !over(p); i++) {
			struct profiler_shot *shot = &r->shots[order[i]];
			if (known(p, shot) || expected_s(p, shot) > left_s(p))
				continue;
			rc = measure(p, shot, e);
			more = true;
		}
	}
	return rc;
}

static int measure_all(struct profiler *p, struct err *e)
{
	struct profiler_result *r = p->out;
	int32_t *order = mem_alloc((size_t)r->n_shots * sizeof *order);
	if (!order)
		return err_no_memory(e, "the profiler");
	int rc = ERR_NONE;
	p->began_s = seconds();
	for (int level = 0; rc == ERR_NONE && level < PROFILER_LEVELS; level++) {
		rc = first_pass(p, order, level, e);
		if (level == 0)
			r->coarse = over(p);
	}
	if (rc == ERR_NONE)
		rc = rounds(p, order, e);
	mem_free(order);
	r->spent_s = seconds() - p->began_s;
	return rc;
}

/* --- making it ---------------------------------------------------------------------------------------------------- */

static bool layers_alike(const struct model *m)
{
	for (int32_t i = 1; i < m->n_layers; i++)
		if (m->layers[i].window != m->layers[0].window)
			return false;
	return true;
}

/* How many CPUs a list such as "0-3,8" names. */
static int32_t count_cpus(const char *list)
{
	int32_t n = 0, first, last, used;
	for (; sscanf(list, "%d%n", &first, &used) == 1; list += *list == ',') {
		list += used;
		last = first;
		if (*list == '-' && sscanf(list + 1, "%d%n", &last, &used) == 1)
			list += used + 1;
		n += last >= first ? last - first + 1 : 1;
	}
	return n;
}

/* One line of /sys/devices/system/cpu/cpuN/cache/index3. */
static bool read_cache(int32_t cpu, const char *what, char *line, int size)
{
	char path[96];
	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index3/%s", cpu, what);
	FILE *f = fopen(path, "r");
	bool there = f && fgets(line, size, f);
	if (f)
		fclose(f);
	return there;
}

/* All third-level caches together: each CPU's share of its own, added up. (sysconf tells other things on some machines.)
 * 16 MiB at least, for what cannot be found out. */
static double cache_bytes(void)
{
	double bytes = 0;
	char size[64], sharing[256];
	long n = sysconf(_SC_NPROCESSORS_CONF);
	for (int32_t cpu = 0; cpu < n; cpu++) {
		int32_t among = read_cache(cpu, "shared_cpu_list", sharing, sizeof sharing) ? count_cpus(sharing) : 0;
		if (among > 0 && read_cache(cpu, "size", size, sizeof size))
			bytes += strtod(size, NULL) * (strchr(size, 'M') ? 1 << 20 : 1 << 10) / among;
	}
	return bytes > (16 << 20) ? bytes : 16 << 20;
}

int32_t profiler_layers(const struct model *m, enum num weight_type)
{
	double bytes = cache_bytes();
	double layer = (double)(m->params.attention + m->params.mlp) / m->n_layers * num_bytes(weight_type);
	double n = layer > 0 ? 2 * bytes / layer : 1;
	if (!layers_alike(m) || n > m->n_layers)
		return m->n_layers;
	return (int32_t)n + ((double)(int32_t)n < n);
}

static int make_pages(struct profiler *p, struct err *e)
{
	int64_t most = 1;
	for (int32_t i = 0; i < p->out->n_shots; i++) {
		int64_t pages = profiler_pages(&p->out->shots[i], p->setup->block_size);
		most = pages > most ? pages : most;
	}
	if (most > INT32_MAX / p->setup->block_size)
		return err_set(e, ERR_INPUT, "%lld pages of KV are too many to measure", (long long)most);
	p->n_pages = (int32_t)most;
	p->pages = mem_alloc((size_t)most * sizeof *p->pages);
	if (!p->pages)
		return err_no_memory(e, "the profiler's pages");
	for (int32_t i = 0; i < p->n_pages; i++)
		p->pages[i] = i;
	shuffle(p, p->pages, p->n_pages);
	return ERR_NONE;
}

static int make_runner(struct profiler *p, struct err *e)
{
	const struct profiler_setup *s = p->setup;
	p->out->layers = s->layers ? s->layers : profiler_layers(s->model, s->weight_type);
	const struct runner_setup setup = {.model = s->model,
					   .weights = s->weights,
					   .kernels = s->kernels,
					   .weight_type = s->weight_type,
					   .kv_type = s->kv_type,
					   .n_pages = p->n_pages,
					   .block_size = s->block_size,
					   .layers = p->out->layers,
					   /* Or recording them would be measured. */
					   .ready_rows = s->kernels->ops->graph_begin ? s->max_tokens : 0,
					   .ready_seqs = s->kernels->ops->graph_begin ? s->max_seqs : 0,
					   .ready_ctx = s->kernels->ops->graph_begin ? s->max_context : 0,
					   .sampling = SAMPLING_GREEDY};
	double began = seconds();
	int rc = runner_create(&p->runner, &setup, e);
	p->out->load_s = seconds() - began;
	return rc;
}

int profiler_run(struct profiler_result *out, const struct profiler_setup *s, struct err *e)
{
	struct profiler p = {.setup = s, .out = out};
	*out = (struct profiler_result){0};
	rng_init(&p.rng, s->seed, 0);
	int rc = profiler_grid(out, s, e);
	if (rc == ERR_NONE)
		rc = make_pages(&p, e);
	if (rc == ERR_NONE)
		rc = make_runner(&p, e);
	if (rc == ERR_NONE)
		rc = measure_all(&p, e);
	runner_free(p.runner);
	batch_tables_free(&p.tables);
	mem_free(p.row_tokens);
	mem_free(p.pages);
	if (rc)
		profiler_result_free(out);
	return rc;
}

void profiler_result_free(struct profiler_result *r)
{
	mem_free(r->shots);
	*r = (struct profiler_result){0};
}
