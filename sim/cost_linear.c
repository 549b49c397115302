/* cost_linear.c: a + b x prefill tokens + c x decodes + d x context: for schedules solved by hand, and for teaching. */
#include "core/err.h"
#include "core/mem.h"
#include "sim/cost_models.h"

struct linear {
	struct cost base;
	double a, b, c, d; /* ns */
};

static void linear_step(const struct cost *cost, const struct batch *b, struct cost_time *out)
{
	const struct linear *l = (const struct linear *)cost;
	double ns = l->a + l->b * (double)b->prefill_tokens + l->c * b->decodes + l->d * (double)b->decode_ctx;
	*out = (struct cost_time){.device_ns = ns < 4.6e18 ? (int64_t)(ns + 0.5) : INT64_C(4600000000000000000)};
}

static void linear_destroy(struct cost *c)
{
	mem_free(c);
}

static const struct cost_ops linear_ops = {.name = "linear", .step = linear_step, .destroy = linear_destroy};

int cost_linear_create(struct cost **out, double a, double b, double c, double d, struct err *e)
{
	*out = NULL;
	if (!(a >= 0 && b >= 0 && c >= 0 && d >= 0) || !(a + b + c + d < 4.6e18))
		return err_set(e, ERR_INPUT, "linear cost: a=%g b=%g c=%g d=%g must be times of at least 0", a, b, c,
			       d);
	struct linear *l = mem_alloc(sizeof *l);
	if (!l)
		return err_no_memory(e, "the linear cost model");
	*l = (struct linear){{&linear_ops}, a, b, c, d};
	*out = &l->base;
	return ERR_NONE;
}
