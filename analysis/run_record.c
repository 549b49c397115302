/* run_record.c: what is recorded while a run goes on. */
#include "analysis/run_parts.h"
#include "analysis/run_replicas.h"
#include "analysis/store.h"

static void on_gap(void *ctx, int64_t gap_ns, int64_t count)
{
	gaps_add(&((struct run_parts *)ctx)->gaps, gap_ns, count);
}

static void look(struct run_parts *p, int64_t ended)
{
	struct engine_glance now;
	if (p->replicas)
		run_replicas_glance(p->replicas, &now);
	else
		engine_glance(p->engine, &now);
	p->io->look(p->io->ctx, ended, p->workload->n, &now);
}

void run_record_progress(void *ctx, int64_t ended, int64_t total)
{
	struct run_parts *p = ctx;
	if (p->io->progress)
		p->io->progress(p->io->ctx, ended, total);
	if (p->io->look)
		look(p, ended);
}

static void on_step(void *ctx, const struct step_row *row)
{
	struct run_parts *p = ctx;
	/* Kernels take so long that nobody should have to wait for a request to end. */
	if (p->io->look && p->kernels)
		look(p, engine_count_ended(p->engine));
	step_tally_add(&p->tally, row->end_ns, row->sampled);
	if (p->io->step)
		p->io->step(p->io->ctx, row);
	/* A database that fails does not end the run. */
	if (p->store_steps && store_step(p->io->store, row, &p->result->store_err))
		p->store_steps = false;
}

static void on_run(void *ctx, int64_t start_ns, const int64_t *end_ns, int64_t steps, int64_t count)
{
	struct run_parts *p = ctx;
	gaps_add_run(&p->gaps, start_ns, end_ns, steps, count);
	step_tally_add_run(&p->tally, end_ns, steps, count);
}

static void on_event(void *ctx, const struct event *ev)
{
	struct run_parts *p = ctx;
	decision_hash_add(&p->decisions, ev);
	if (p->io->event)
		p->io->event(p->io->ctx, ev);
}

static void on_token(void *ctx, int32_t req, int32_t n, int64_t t_ns)
{
	struct run_result *r = ((struct run_parts *)ctx)->result;
	if (r->token_at[req] + n < r->token_at[req + 1])
		r->token_ns[r->token_at[req] + n] = t_ns;
}

struct recorder run_record(struct run_parts *p)
{
	const struct run_settings *s = p->settings;
	return (struct recorder){.ctx = p,
				 .step = on_step,
				 .gap = on_gap,
				 .run = p->keep_steps || p->io->step ? NULL : on_run,
				 .event = s->backend != BACKEND_SIM || p->io->event ? on_event : NULL,
				 .token = s->save_detailed ? on_token : NULL};
}
