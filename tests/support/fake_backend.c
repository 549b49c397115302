#include "tests/support/fake_backend.h"

#include <string.h>

static int start(void *self, const struct engine *engine, struct err *e)
{
	(void)self, (void)engine, (void)e;
	return 0;
}

static int64_t now(void *self)
{
	return ((struct fake_backend *)self)->now_ns;
}

static int wait_until(void *self, int64_t t_ns, struct err *e)
{
	struct fake_backend *f = self;
	(void)e;
	if (links_next_ns(&f->links) < t_ns)
		t_ns = links_next_ns(&f->links);
	if (t_ns > f->now_ns)
		f->now_ns = t_ns;
	return 0;
}

static int transfer(void *self, const struct transfer *t, struct err *e)
{
	struct fake_backend *f = self;
	return links_start(&f->links, t, f->now_ns, e);
}

static int transfers_done(void *self, struct transfer_news *out, struct err *e)
{
	struct fake_backend *f = self;
	return links_done(&f->links, f->now_ns, out, e);
}

static int64_t transfer_next_ns(void *self)
{
	return links_next_ns(&((struct fake_backend *)self)->links);
}

/* The step is prepared while it waits for copies. */
static int64_t waits(const struct fake_backend *f, const struct batch *b, int64_t start_ns)
{
	int64_t out_ns = links_end_of(&f->links, b->after_out), in_ns = links_end_of(&f->links, b->after_in);
	int64_t ready_ns = start_ns + f->host_ns, copied_ns = out_ns > in_ns ? out_ns : in_ns;
	return copied_ns > ready_ns ? copied_ns - ready_ns : 0;
}

static int submit(void *self, const struct batch *b, struct err *e)
{
	struct fake_backend *f = self;
	int64_t k = f->submitted++ & 1;
	(void)e;
	f->flight[k] = *b;
	f->submitted_ns[k] = f->now_ns;
	return 0;
}

static int64_t price(const struct fake_backend *f, const struct batch *b)
{
	return f->host_ns + f->a + f->b * b->prefill_tokens + f->c * b->decodes + f->d * b->decode_ctx;
}

static int wait_for(void *self, struct step_result *out, struct err *e)
{
	struct fake_backend *f = self;
	int64_t k = f->waited++ & 1, n = 0;
	struct batch b = f->flight[k];
	int64_t start_ns = f->submitted_ns[k] > f->free_ns ? f->submitted_ns[k] : f->free_ns, t = start_ns;
	int64_t waited_ns = waits(f, &b, start_ns);
	(void)e;
	t += waited_ns;
	do {
		t += price(f, &b);
		f->end_ns[n++] = t;
		b.decode_ctx += b.decodes;
	} while (n < b.repeat && n < FAKE_REPEATS && t < b.until_ns && b.step + n != f->eos_step);
	*out = (struct step_result){
		.steps = n, .end_ns = f->end_ns, .start_ns = start_ns, .host_ns = f->host_ns, .transfer_ns = waited_ns};
	if (f->n_eos && b.step + n - 1 == f->eos_step) {
		out->eos = f->eos;
		out->n_eos = f->n_eos;
	}
	f->now_ns = f->free_ns = t;
	return 0;
}

static void finish(void *self)
{
	(void)self;
}

static const struct backend_ops fake_ops = {.name = "fake",
					    .init = start,
					    .now = now,
					    .wait_until = wait_until,
					    .submit = submit,
					    .wait = wait_for,
					    .transfer = transfer,
					    .transfers_done = transfers_done,
					    .transfer_next_ns = transfer_next_ns,
					    .close = finish};

void fake_backend_init(struct fake_backend *f, struct backend *out)
{
	memset(f, 0, sizeof *f);
	f->eos_step = -1;
	*out = (struct backend){&fake_ops, f};
}
