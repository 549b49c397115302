/* profile.c: a profile as a thing: points put in and ordered, hashes, whether it is of what a run says. */
#include "sim/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "models/model.h"

const char *const profile_op_names[] = {"matmul", "other", "head", "decode", "prefill", "host", NULL};

void profile_free(struct profile *p)
{
	mem_free(p->points);
	mem_free(p->steps);
	*p = (struct profile){0};
}

int profile_add(struct profile *p, const struct profile_point *pt, struct err *e)
{
	if (mem_grow((void **)&p->points, &p->cap_points, (int64_t)p->n_points + 1, sizeof *p->points))
		return err_no_memory(e, "a profile");
	p->points[p->n_points++] = *pt;
	return ERR_NONE;
}

int profile_add_step(struct profile *p, const struct profile_step *s, struct err *e)
{
	if (mem_grow((void **)&p->steps, &p->cap_steps, (int64_t)p->n_steps + 1, sizeof *p->steps))
		return err_no_memory(e, "a profile");
	p->steps[p->n_steps++] = *s;
	return ERR_NONE;
}

static int by_place(const struct profile_point *a, const struct profile_point *b)
{
	if (a->op != b->op)
		return a->op < b->op ? -1 : 1;
	if (a->x != b->x)
		return a->x < b->x ? -1 : 1;
	return a->y < b->y ? -1 : a->y > b->y;
}

/* Stable, and without memory of its own. Points mostly come in order. */
static void merge_sort(struct profile_point *at, struct profile_point *spare, int32_t n)
{
	int32_t half = n / 2, i = 0, k = half, out = 0;
	if (n < 2)
		return;
	merge_sort(at, spare, half);
	merge_sort(at + half, spare, n - half);
	if (by_place(&at[half - 1], &at[half]) <= 0)
		return;
	memcpy(spare, at, (size_t)half * sizeof *at);
	while (i < half)
		at[out++] = k < n && by_place(&at[k], &spare[i]) < 0 ? at[k++] : spare[i++];
}

int profile_sort(struct profile *p, struct err *e)
{
	struct profile_point *spare = mem_alloc(((size_t)p->n_points / 2 + 1) * sizeof *spare);
	int32_t kept = 0;
	if (!spare)
		return err_no_memory(e, "a profile");
	merge_sort(p->points, spare, p->n_points);
	mem_free(spare);
	for (int32_t i = 0; i < p->n_points; i++) {
		if (kept > 0 && by_place(&p->points[kept - 1], &p->points[i]) == 0)
			kept--;
		p->points[kept++] = p->points[i];
	}
	p->n_points = kept;
	return ERR_NONE;
}

/* --- hashes ------------------------------------------------------------------------------------------------------- */

static void mix(uint64_t *h, uint64_t x)
{
	*h = rng_mix(*h ^ rng_mix(x + UINT64_C(0x9e3779b97f4a7c15)));
}

static void mix_real(uint64_t *h, double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof bits);
	mix(h, bits);
}

static void mix_text(uint64_t *h, const char *s)
{
	size_t n = strlen(s);
	mix(h, n);
	for (size_t i = 0; i < n; i++)
		mix(h, (unsigned char)s[i]);
}

uint64_t profile_hash(const struct profile *p)
{
	uint64_t h = 1;
	const char *const texts[] = {p->model,   p->weight_dtype, p->kv_dtype, p->device, p->machine,
				     p->library, p->created,      p->program,  p->source, p->note};
	const int64_t numbers[] = {p->layers,  p->threads,         p->block_size, p->tensor_parallel, p->window,
				   p->partial, p->measured_layers, p->n_points,   p->n_steps};
	mix(&h, p->shape);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		mix_text(&h, texts[i]);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		mix(&h, (uint64_t)numbers[i]);
	for (int32_t i = 0; i < p->n_points; i++) {
		const struct profile_point *q = &p->points[i];
		mix(&h, (uint64_t)q->op);
		mix(&h, (uint64_t)q->x);
		mix(&h, (uint64_t)q->y);
		mix_real(&h, q->ns);
		mix_real(&h, q->low_ns);
		mix_real(&h, q->high_ns);
		mix(&h, (uint64_t)q->repeats);
	}
	for (int32_t i = 0; i < p->n_steps; i++) {
		const struct profile_step *s = &p->steps[i];
		const int64_t at[] = {s->decodes, s->decode_mean, s->chunk, s->chunk_start, s->sampled, s->repeats};
		for (size_t k = 0; k < sizeof at / sizeof *at; k++)
			mix(&h, (uint64_t)at[k]);
		mix_real(&h, s->ns);
		mix_real(&h, s->low_ns);
		mix_real(&h, s->high_ns);
	}
	return h;
}

uint64_t profile_shape(const struct model *m)
{
	const int64_t numbers[] = {m->kind,
				   m->hidden,
				   m->n_layers,
				   m->vocab,
				   m->n_heads,
				   m->n_kv_heads,
				   m->head_dim,
				   m->v_head_dim,
				   m->intermediate,
				   m->qkv_bias,
				   m->o_bias,
				   m->mlp_bias,
				   m->qk_norm,
				   m->sinks,
				   m->q_lora_rank,
				   m->kv_lora_rank,
				   m->rope_dim,
				   m->n_experts,
				   m->experts_per_token,
				   m->expert_intermediate,
				   m->shared_intermediate,
				   m->shared_gate,
				   m->expert_bias,
				   m->router_bias,
				   m->window};
	uint64_t h = 2;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		mix(&h, (uint64_t)numbers[i]);
	for (int32_t i = 0; i < m->n_layers && m->layers; i++) {
		mix(&h, (uint64_t)m->layers[i].window);
		mix(&h, (uint64_t)(m->layers[i].kv_from != i));
		mix(&h, (uint64_t)m->layers[i].moe);
	}
	return h ? h : 1;
}

/* --- is it of what the run says? ---------------------------------------------------------------------------------- */

const char *profile_weight_name(const struct weight_format *f)
{
	return dtype_name(f->dtype);
}

const char *profile_kv_name(enum kv_dtype kv, const struct weight_format *f)
{
	if (kv != KV_AUTO)
		return kv_dtype_name(kv);
	return f->scope == SCOPE_ALL && f->dtype == DTYPE_FP32 ? "fp32" : "bf16";
}

void profile_describe(const struct profile *p, char *buf, size_t size)
{
	if (p->name[0])
		snprintf(buf, size, "profile %" PRId64 " (%s)", p->id, p->name);
	else if (p->id)
		snprintf(buf, size, "profile %" PRId64, p->id);
	else
		snprintf(buf, size, "the profile of %s", p->model);
}

static int differs(const struct profile *p, const char *what, const char *measured, const char *said, struct err *e)
{
	char who[112];
	profile_describe(p, who, sizeof who);
	return err_set(
		e, ERR_INPUT,
		"%s is of %s \"%s\", the run says \"%s\": choose another (`lockstep profile list`), measure one, or "
		"write --cost-model profiled:...,any=on to take it all the same",
		who, what, measured, said);
}

static int check_text(const struct profile *p, const char *what, const char *measured, const char *said, struct err *e)
{
	if (!said || !said[0] || !measured[0] || strcmp(measured, said) == 0)
		return ERR_NONE;
	return differs(p, what, measured, said, e);
}

static int check_number(const struct profile *p, const char *what, int32_t measured, int32_t said, struct err *e)
{
	char a[16], b[16];
	if (!said || !measured || measured == said)
		return ERR_NONE;
	snprintf(a, sizeof a, "%" PRId32, measured);
	snprintf(b, sizeof b, "%" PRId32, said);
	return differs(p, what, a, b, e);
}

int profile_check_content(const struct profile *p, struct err *e)
{
	char who[112];
	profile_describe(p, who, sizeof who);
	if (profile_hash(p) != p->hash)
		return err_set(e, ERR_INPUT,
			       "%s: its points are not what was measured (hash %016" PRIx64 ", now %016" PRIx64
			       "): somebody changed them; measure or import it again",
			       who, p->hash, profile_hash(p));
	return ERR_NONE;
}

int profile_fits(const struct profile *p, const struct profile_use *u, struct err *e)
{
	int rc = ERR_NONE;
	if (u->model && p->shape && profile_shape(u->model) != p->shape) {
		bool named_alike = strcmp(p->model, u->model->name) == 0;
		rc = differs(p, named_alike ? "another shape of model" : "model", p->model, u->model->name, e);
	}
	const struct {
		const char *what, *measured, *said;
	} texts[] = {{"weight dtype", p->weight_dtype, u->weight_dtype},
		     {"KV cache dtype", p->kv_dtype, u->kv_dtype},
		     {"device", p->device, u->device},
		     {"machine", p->machine, u->machine},
		     {"kernels", p->library, u->library}};
	for (size_t i = 0; rc == ERR_NONE && i < sizeof texts / sizeof *texts; i++)
		rc = check_text(p, texts[i].what, texts[i].measured, texts[i].said, e);
	const struct {
		const char *what;
		int32_t measured, said;
	} numbers[] = {{"tensor-parallel size", p->tensor_parallel, u->tensor_parallel},
		       {"block size", p->block_size, u->block_size},
		       {"a number of threads", p->threads, u->threads}};
	for (size_t i = 0; rc == ERR_NONE && i < sizeof numbers / sizeof *numbers; i++)
		rc = check_number(p, numbers[i].what, numbers[i].measured, numbers[i].said, e);
	return rc;
}

int profile_check_use(const struct profile *p, const struct profile_use *u, struct err *e)
{
	int rc = profile_check_content(p, e);
	return rc ? rc : profile_fits(p, u, e);
}
