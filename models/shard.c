#include "models/shard.h"

#include "core/err.h"

static int split(int32_t *n, int32_t ranks, const char *what, const struct model *m, struct err *e)
{
	if (*n % ranks)
		return err_set(e, ERR_INPUT,
			       "%s cannot be split over %d devices: its %s %d do not divide by it (take a "
			       "tensor-parallel size that divides them)",
			       m->name, ranks, what, *n);
	*n /= ranks;
	return ERR_NONE;
}

/* KV heads are never cut: with fewer of them than devices each is held by several. */
static int split_kv_heads(struct model *out, int32_t ranks, struct err *e)
{
	if (out->n_kv_heads > ranks)
		return split(&out->n_kv_heads, ranks, "KV heads", out, e);
	if (ranks % out->n_kv_heads)
		return err_set(e, ERR_INPUT,
			       "%s cannot be split over %d devices: they cannot share its %d KV heads evenly (take a "
			       "tensor-parallel size that divides them or is a multiple of them)",
			       out->name, ranks, out->n_kv_heads);
	out->n_kv_heads = 1;
	return ERR_NONE;
}

int model_shard(struct model *out, const struct model *m, int32_t ranks, struct err *e)
{
	int rc;
	*out = *m;
	if (ranks == 1)
		return ERR_NONE;
	if ((rc = split(&out->n_heads, ranks, "attention heads", m, e)) ||
	    (rc = m->kind == ATTENTION_MLA ? ERR_NONE : split_kv_heads(out, ranks, e)) ||
	    (rc = split(&out->intermediate, ranks, "MLP columns", m, e)) ||
	    (rc = split(&out->expert_intermediate, ranks, "expert columns", m, e)) ||
	    (rc = split(&out->shared_intermediate, ranks, "shared expert columns", m, e)))
		return rc;
	out->vocab = (m->vocab + ranks - 1) / ranks;
	model_count_params(out);
	return ERR_NONE;
}
