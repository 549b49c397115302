#include "core/order_mlfq.h"

#include "core/err.h"
#include "core/mem.h"

struct place { /* of one request */
	int64_t since_ns; /* waiting */
	int64_t spent; /* service before it rose */
	int64_t service; /* as it began to wait */
	int32_t next, prev;
	int8_t level; /* waiting */
	int8_t risen; /* begins at level 0, whatever its prompt */
};

struct level {
	int32_t head, tail;
};

struct mlfq {
	const struct workload *w;
	struct order_params o;
	struct place *at; /* [w->n] */
	struct level levels[MLFQ_LEVELS_MAX];
};

int mlfq_create(struct mlfq **out, const struct workload *w, const struct order_params *o, struct err *e)
{
	struct mlfq *m = mem_zalloc(1, sizeof *m);
	if (!m)
		return err_no_memory(e, "waiting queue");
	m->w = w;
	m->o = *o;
	m->at = mem_zalloc((size_t)w->n + 1, sizeof *m->at);
	if (!m->at) {
		mem_free(m);
		return err_no_memory(e, "waiting queue");
	}
	for (int32_t i = 0; i < MLFQ_LEVELS_MAX; i++)
		m->levels[i] = (struct level){-1, -1};
	*out = m;
	return ERR_NONE;
}

void mlfq_free(struct mlfq *m)
{
	if (m)
		mem_free(m->at);
	mem_free(m);
}

static int64_t service_of(const struct mlfq *m, int32_t req, int32_t computed, int32_t outputs)
{
	int32_t prompt = m->w->specs[req].prompt_tokens;
	return (int64_t)m->o.input_weight * (computed < prompt ? computed : prompt) +
	       (int64_t)m->o.output_weight * outputs;
}

int32_t mlfq_level(const struct mlfq *m, int32_t req, int32_t computed, int32_t outputs)
{
	int64_t quantum = m->o.quantum, used = service_of(m, req, computed, outputs) - m->at[req].spent;
	int64_t joins = m->at[req].risen ? 0 : (int64_t)m->o.input_weight * m->w->specs[req].prompt_tokens;
	int32_t level = 0, last = m->o.levels - 1;
	for (; level < last && quantum < joins; level++)
		quantum *= 2;
	for (; level < last && used >= quantum; level++) {
		used -= quantum;
		quantum *= 2;
	}
	return level;
}

static void to_back(struct mlfq *m, int32_t req, int32_t level, int64_t now_ns)
{
	struct place *p = &m->at[req];
	struct level *l = &m->levels[level];
	p->level = (int8_t)level;
	p->since_ns = now_ns;
	p->prev = l->tail;
	p->next = -1;
	*(l->tail < 0 ? &l->head : &m->at[l->tail].next) = req;
	l->tail = req;
}

void mlfq_wait(struct mlfq *m, int32_t req, int32_t computed, int32_t outputs, int64_t now_ns)
{
	m->at[req].service = service_of(m, req, computed, outputs);
	to_back(m, req, mlfq_level(m, req, computed, outputs), now_ns);
}

void mlfq_remove(struct mlfq *m, int32_t req)
{
	const struct place *p = &m->at[req];
	struct level *l = &m->levels[p->level];
	*(p->prev < 0 ? &l->head : &m->at[p->prev].next) = p->next;
	*(p->next < 0 ? &l->tail : &m->at[p->next].prev) = p->prev;
}

static int32_t first_from(const struct mlfq *m, int32_t level)
{
	for (; level < m->o.levels; level++)
		if (m->levels[level].head >= 0)
			return m->levels[level].head;
	return -1;
}

int32_t mlfq_first(const struct mlfq *m)
{
	return first_from(m, 0);
}

int32_t mlfq_next(const struct mlfq *m, int32_t req)
{
	return m->at[req].next >= 0 ? m->at[req].next : first_from(m, m->at[req].level + 1);
}

int32_t mlfq_waits_at(const struct mlfq *m, int32_t req)
{
	return m->at[req].level;
}

/* The first of a level has waited longest. */
void mlfq_promote(struct mlfq *m, int64_t now_ns)
{
	for (int32_t level = 1; level < m->o.levels && m->o.promote_ns > 0; level++) {
		int32_t req;
		while ((req = m->levels[level].head) >= 0 && now_ns - m->at[req].since_ns >= m->o.promote_ns) {
			mlfq_remove(m, req);
			m->at[req].spent = m->at[req].service;
			m->at[req].risen = 1;
			to_back(m, req, 0, now_ns);
		}
	}
}
