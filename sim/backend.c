#include "sim/backend.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"

enum { REPEATS = 4096 };

struct flight {
	const struct batch *batch; /* the engine's */
	int64_t submitted_ns;
};

struct sim {
	const struct cost *cost;
	int64_t now_ns;
	int64_t device_free_ns; /* when the device has done what was submitted before */
	struct flight flights[2];
	int64_t submitted, waited;
	int64_t *end_ns; /* [REPEATS] */
	struct links links;
	double page_copy_ns;
};

static int sim_init(void *self, const struct engine *engine, struct err *e)
{
	(void)self, (void)engine, (void)e;
	return ERR_NONE;
}

static int64_t sim_now(void *self)
{
	return ((struct sim *)self)->now_ns;
}

static int sim_wait_until(void *self, int64_t t_ns, struct err *e)
{
	struct sim *s = self;
	(void)e;
	int64_t copy_ns = s->links.n_open ? links_next_ns(&s->links) : INT64_MAX;
	if (copy_ns < t_ns)
		t_ns = copy_ns;
	if (t_ns > s->now_ns)
		s->now_ns = t_ns;
	return ERR_NONE;
}

static int sim_submit(void *self, const struct batch *b, struct err *e)
{
	struct sim *s = self;
	(void)e;
	s->flights[s->submitted++ & 1] = (struct flight){b, s->now_ns};
	return ERR_NONE;
}

static int sim_transfer(void *self, const struct transfer *t, struct err *e)
{
	struct sim *s = self;
	return links_start(&s->links, t, s->now_ns, e);
}

static int sim_transfers_done(void *self, struct transfer_news *out, struct err *e)
{
	struct sim *s = self;
	return links_done(&s->links, s->now_ns, out, e);
}

static int64_t sim_transfer_next_ns(void *self)
{
	return links_next_ns(&((struct sim *)self)->links);
}

/* When the copies that b has to wait for are done. */
static int64_t copied_ns(const struct sim *s, const struct batch *b)
{
	int64_t out_ns = b->after_out ? links_end_of(&s->links, b->after_out) : 0;
	int64_t in_ns = b->after_in ? links_end_of(&s->links, b->after_in) : 0;
	return out_ns > in_ns ? out_ns : in_ns;
}

/* With a second batch in flight the host works ahead: a step starts on the device as soon as both its host part is done
 * and the device is free. Alone, host and device follow each other, which is the same rule. */
static int sim_wait(void *self, struct step_result *out, struct err *e)
{
	struct sim *s = self;
	struct flight *f = &s->flights[s->waited++ & 1];
	const struct batch *b = f->batch;
	struct cost_time cost;
	(void)e;
	int64_t n = 1, start = f->submitted_ns, copied = copied_ns(s, b), waited = 0;
	if (copied > start) { /* while the host prepares the step */
		cost_step(s->cost, b, &cost);
		waited = copied - start > cost.host_ns ? copied - start - cost.host_ns : 0;
		s->end_ns[0] = start + cost.host_ns + waited + cost.device_ns;
	} else if (s->device_free_ns > f->submitted_ns) {
		cost_step(s->cost, b, &cost);
		int64_t ready = f->submitted_ns + cost.host_ns;
		start = s->device_free_ns;
		s->end_ns[0] = (ready > start ? ready : start) + cost.device_ns;
	} else {
		int64_t most = b->repeat < REPEATS ? b->repeat : REPEATS;
		n = cost_run(s->cost, b, start, s->end_ns, most, &cost);
	}
	if (b->n_copies) /* then it was one step */
		s->end_ns[0] += (int64_t)(b->n_copies * s->page_copy_ns + 0.5);
	s->now_ns = s->device_free_ns = s->end_ns[n - 1];
	*out = (struct step_result){.steps = n,
				    .end_ns = s->end_ns,
				    .start_ns = start,
				    .host_ns = cost.host_ns,
				    .outside = cost.outside,
				    .transfer_ns = waited};
	return ERR_NONE;
}

static void sim_close(void *self)
{
	struct sim *s = self;
	links_free(&s->links);
	mem_free(s->end_ns);
	mem_free(s);
}

static const struct backend_ops sim_ops = {.name = "sim",
					   .init = sim_init,
					   .now = sim_now,
					   .wait_until = sim_wait_until,
					   .submit = sim_submit,
					   .wait = sim_wait,
					   .transfer = sim_transfer,
					   .transfers_done = sim_transfers_done,
					   .transfer_next_ns = sim_transfer_next_ns,
					   .close = sim_close};

int sim_backend_create(struct backend *out, const struct cost *cost, struct err *e)
{
	struct sim *s = mem_zalloc(1, sizeof *s);
	if (s)
		s->end_ns = mem_alloc(REPEATS * sizeof *s->end_ns);
	if (!s || !s->end_ns) {
		mem_free(s);
		return err_no_memory(e, "the simulator");
	}
	s->cost = cost;
	*out = (struct backend){&sim_ops, s};
	return ERR_NONE;
}

void sim_backend_links(struct backend *b, const struct link_speeds *speeds)
{
	links_init(&((struct sim *)b->self)->links, speeds);
}

void sim_backend_free(struct backend *b)
{
	if (b->ops)
		b->ops->close(b->self);
	b->ops = NULL;
}

void sim_backend_copies(struct backend *b, double page_ns)
{
	((struct sim *)b->self)->page_copy_ns = page_ns;
}

bool sim_backend_parts(const struct backend *b, const struct batch *batch, double part_ns[STEP_PARTS])
{
	if (b->ops != &sim_ops)
		return false;
	const struct cost *c = ((const struct sim *)b->self)->cost;
	if (!c->ops->parts)
		return false;
	c->ops->parts(c, batch, part_ns);
	return true;
}

const struct cost *sim_backend_cost(const struct backend *b)
{
	return b->ops == &sim_ops ? ((const struct sim *)b->self)->cost : NULL;
}
