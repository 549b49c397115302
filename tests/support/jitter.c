#include "tests/support/jitter.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"

static int64_t below(struct jitter *j, int64_t n)
{
	return (int64_t)rng_below(&j->rng, (uint64_t)n + 1);
}

static int start(void *self, const struct engine *engine, struct err *e)
{
	(void)e;
	((struct jitter *)self)->engine = engine;
	return 0;
}

static int64_t now(void *self)
{
	struct jitter *j = self;
	j->clock_ns += below(j, j->late_ns);
	return j->clock_ns;
}

static int wait_until(void *self, int64_t t_ns, struct err *e)
{
	struct jitter *j = self;
	if (links_next_ns(&j->links) < t_ns)
		t_ns = links_next_ns(&j->links);
	if (t_ns == INT64_MAX)
		return err_set(e, ERR_INVARIANT, "asked to wait for ever");
	if (t_ns > j->clock_ns)
		j->clock_ns = t_ns;
	j->clock_ns += below(j, j->late_ns);
	return 0;
}

static int draw_eos(struct jitter *j, struct jitter_flight *f, const struct batch *b, struct err *e)
{
	const struct batch_tables *t = &j->tables;
	int rc = batch_build(j->engine, b, &j->tables, e);
	f->n_eos = 0;
	for (int32_t s = 0; rc == 0 && s < t->n_seqs; s++) {
		if (!t->samples[s] || t->held[s] || below(j, 999) >= j->eos_in_1000)
			continue;
		if (mem_grow((void **)&f->eos, &f->cap_eos, f->n_eos + 1, sizeof *f->eos))
			return err_no_memory(e, "a test's ends of sequences");
		f->eos[f->n_eos++] = t->req[s];
	}
	return rc;
}

static int submit(void *self, const struct batch *b, struct err *e)
{
	struct jitter *j = self;
	struct jitter_flight *f = &j->flights[j->submitted++ & 1];
	j->clock_ns += below(j, j->late_ns);
	f->submitted_ns = j->clock_ns;
	f->copied_ns = links_end_of(&j->links, b->after_out);
	if (links_end_of(&j->links, b->after_in) > f->copied_ns)
		f->copied_ns = links_end_of(&j->links, b->after_in);
	f->cost_ns = 1 + below(j, 2 * j->step_ns) + j->token_ns * (b->decodes + b->prefill_tokens);
	return draw_eos(j, f, b, e);
}

static int wait_for(void *self, struct step_result *out, struct err *e)
{
	struct jitter *j = self;
	struct jitter_flight *f = &j->flights[j->waited++ & 1];
	int64_t begun = (f->submitted_ns > j->free_ns ? f->submitted_ns : j->free_ns) + below(j, j->late_ns);
	bool measured = below(j, 1);
	int64_t waited_ns = f->copied_ns > begun ? f->copied_ns - begun : 0;
	(void)e;
	j->end_ns = j->free_ns = begun + waited_ns + f->cost_ns;
	for (int i = 0; i < STEP_PARTS; i++)
		j->part_ns[i] = below(j, f->cost_ns / STEP_PARTS);
	if (j->end_ns > j->clock_ns)
		j->clock_ns = j->end_ns;
	*out = (struct step_result){.steps = 1,
				    .end_ns = &j->end_ns,
				    .start_ns = begun,
				    .host_ns = below(j, f->cost_ns),
				    .part_ns = measured ? j->part_ns : NULL,
				    .eos = f->eos,
				    .n_eos = f->n_eos,
				    .transfer_ns = waited_ns,
				    .outside = below(j, 9) == 0 ? 0.5 : 0};
	return 0;
}

static int transfer(void *self, const struct transfer *t, struct err *e)
{
	struct jitter *j = self;
	return links_start(&j->links, t, j->clock_ns, e);
}

static int transfers_done(void *self, struct transfer_news *out, struct err *e)
{
	struct jitter *j = self;
	return links_done(&j->links, j->clock_ns, out, e);
}

static int64_t transfer_next_ns(void *self)
{
	return links_next_ns(&((struct jitter *)self)->links);
}

static void finish(void *self)
{
	(void)self;
}

static const struct backend_ops jitter_ops = {.name = "jitter",
					      .init = start,
					      .now = now,
					      .wait_until = wait_until,
					      .submit = submit,
					      .wait = wait_for,
					      .transfer = transfer,
					      .transfers_done = transfers_done,
					      .transfer_next_ns = transfer_next_ns,
					      .close = finish};

void jitter_init(struct jitter *j, uint64_t seed, struct backend *out)
{
	memset(j, 0, sizeof *j);
	rng_init(&j->rng, seed, 11);
	j->step_ns = 1 + below(j, 4) * 500000;
	j->token_ns = below(j, 20000);
	j->late_ns = below(j, 300000);
	j->eos_in_1000 = below(j, 2) ? (int32_t)below(j, 100) : 0;
	struct link_speeds v = {.page_bytes = 1000};
	for (int i = 0; i < N_LINKS; i++)
		v.of[i] = (struct link_speed){.bytes_per_s = 1000000 * (1 + below(j, 2000)),
					      .latency_ns = below(j, 50000)};
	links_init(&j->links, &v);
	*out = (struct backend){&jitter_ops, j};
}

void jitter_free(struct jitter *j)
{
	batch_tables_free(&j->tables);
	for (int i = 0; i < 2; i++)
		mem_free(j->flights[i].eos);
	links_free(&j->links);
}
