#include "analysis/profile_roofline.h"

#include <stdio.h>
#include <string.h>

#include "core/err.h"

int profile_roofline_open(struct profile_roofline *r, const struct profile *p, const char *model, const char *device,
			  const char *cost, struct err *e)
{
	enum kv_dtype kv;
	struct cost_setup s;
	*r = (struct profile_roofline){.share = p->tensor_parallel > 1 ? 1.0 / p->tensor_parallel : 1};
	int rc = model_load(&r->model, model ? model : p->model, e);
	if (rc == ERR_NONE)
		rc = device_load(&r->device, device ? device : p->device, e);
	if (rc == ERR_NONE && p->shape && profile_shape(&r->model) != p->shape)
		rc = err_set(e, ERR_INPUT, "the profile is of %s, whose shape is not that of %s", p->model,
			     r->model.name);
	if (rc == ERR_NONE)
		rc = model_formats(&r->model, p->weight_dtype, p->kv_dtype, &r->format, &kv, e);
	if (rc == ERR_NONE) {
		cost_setup_default(&s, &r->model, &r->device);
		s.weights = r->format;
		s.kv = kv;
	}
	if (rc == ERR_NONE && cost && strncmp(cost, "roofline", 8) != 0)
		rc = err_set(e, ERR_INPUT,
			     "\"%.80s\" is not the roofline: it alone says what operations compute and move", cost);
	if (rc == ERR_NONE)
		rc = cost_open(&r->cost, cost ? cost : "roofline", &s, e);
	if (rc)
		profile_roofline_close(r);
	return rc;
}

void profile_roofline_close(struct profile_roofline *r)
{
	if (r->cost)
		cost_free(r->cost);
	model_free(&r->model);
	*r = (struct profile_roofline){0};
}

/* Which of a profile's operations a row of the roofline's table belongs to. */
static enum profile_op op_of(const char *name)
{
	static const struct {
		const char *name;
		enum profile_op op;
	} rows[] = {{"qkv", PROFILE_MATMUL},
		    {"out_proj", PROFILE_MATMUL},
		    {"mlp", PROFILE_MATMUL},
		    {"router", PROFILE_MATMUL},
		    {"experts", PROFILE_MATMUL},
		    {"lm_head", PROFILE_HEAD},
		    {"sampling", PROFILE_HEAD},
		    {"attention (decode)", PROFILE_DECODE},
		    {"attention (prefill)", PROFILE_PREFILL}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(rows[i].name, name) == 0)
			return rows[i].op;
	return PROFILE_OTHER;
}

void profile_roofline_op(const struct profile_roofline *r, enum profile_op op, int32_t x, int64_t y,
			 struct cost_op *out)
{
	struct cost_op rows[COST_OPS_MAX];
	struct chunk chunk = {.start = (int32_t)y, .len = x};
	struct batch b = {.sampled = op == PROFILE_HEAD ? x : 0};
	*out = (struct cost_op){.name = profile_op_names[op]};
	if (op == PROFILE_HOST)
		return;
	if (op == PROFILE_PREFILL) {
		b.n_chunks = 1;
		b.chunks = &chunk;
		b.prefill_tokens = x;
	} else {
		b.decodes = x;
		b.decode_ctx = b.decode_ctx_window = op == PROFILE_DECODE ? x * y : x;
	}
	int32_t n = cost_roofline_ops(r->cost, &b, rows);
	for (int32_t i = 0; i < n; i++) {
		if (op_of(rows[i].name) != op)
			continue;
		out->flops += rows[i].flops * r->share;
		out->bytes += rows[i].bytes * r->share;
		out->ns += rows[i].ns * r->share;
		out->kernels += rows[i].kernels;
		out->compute_bound |= rows[i].compute_bound;
	}
}

double profile_roofline_peak(const struct profile_roofline *r, enum profile_op op)
{
	return device_peak(&r->device, op == PROFILE_MATMUL ? r->format.dtype : DTYPE_BF16);
}

/* --- estimates ---------------------------------------------------------------------------------------------------- */

static bool has(const struct profile *p, enum profile_op op)
{
	for (int32_t i = 0; i < p->n_points; i++)
		if (p->points[i].op == op)
			return true;
	return false;
}

static int fill_op(struct profile *p, const struct profile_roofline *r, enum profile_op op, int64_t longest,
		   struct err *e)
{
	bool two = op == PROFILE_DECODE || op == PROFILE_PREFILL;
	int rc = ERR_NONE;
	for (int64_t x = 1; rc == ERR_NONE && x <= (op == PROFILE_DECODE ? 512 : 8192); x *= 2) {
		for (int64_t y = op == PROFILE_DECODE; rc == ERR_NONE && y <= (two ? longest : 0); y = y ? y * 8 : 64) {
			struct cost_op w;
			profile_roofline_op(r, op, (int32_t)x, y, &w);
			const struct profile_point t = {
				.op = op, .x = (int32_t)x, .y = y, .ns = w.ns, .low_ns = w.ns, .high_ns = w.ns};
			rc = profile_add(p, &t, e);
		}
	}
	return rc;
}

int profile_fill(struct profile *p, const struct profile_roofline *r, struct err *e)
{
	int rc = ERR_NONE;
	size_t used = 0;
	char filled[96] = "";
	int64_t longest = r->model.max_len > 4096 ? r->model.max_len : 4096;
	for (int op = 0; rc == ERR_NONE && op < PROFILE_HOST; op++) {
		if (has(p, (enum profile_op)op))
			continue;
		rc = fill_op(p, r, (enum profile_op)op, longest, e);
		used += (size_t)snprintf(filled + used, sizeof filled - used, "%s%s", used ? ", " : "",
					 profile_op_names[op]);
	}
	if (rc == ERR_NONE && used) {
		size_t n = strlen(p->note);
		snprintf(p->note + n, sizeof p->note - n, "%s%s estimated by the roofline, not measured", n ? "; " : "",
			 filled);
	}
	return rc ? rc : profile_sort(p, e);
}
