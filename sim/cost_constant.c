/* cost_constant.c: every step takes the same time. */
#include "core/err.h"
#include "core/mem.h"
#include "sim/cost_models.h"

struct constant {
	struct cost base;
	int64_t ns;
};

static void constant_step(const struct cost *cost, const struct batch *b, struct cost_time *out)
{
	(void)b;
	*out = (struct cost_time){.device_ns = ((const struct constant *)cost)->ns};
}

static void constant_destroy(struct cost *c)
{
	mem_free(c);
}

static const struct cost_ops constant_ops = {.name = "constant", .step = constant_step, .destroy = constant_destroy};

int cost_constant_create(struct cost **out, int64_t ns, struct err *e)
{
	*out = NULL;
	if (ns < 0 || ns > INT64_C(4600000000000000000))
		return err_set(e, ERR_INPUT, "constant cost: %lld ns must be at least 0", (long long)ns);
	struct constant *c = mem_alloc(sizeof *c);
	if (!c)
		return err_no_memory(e, "the constant cost model");
	*c = (struct constant){{&constant_ops}, ns};
	*out = &c->base;
	return ERR_NONE;
}
