#include "analysis/validate_log.h"

#include <string.h>

#include "core/mem.h"

void event_log_add(void *log, const struct event *ev)
{
	struct event_log *l = log;
	if (l->no_memory || mem_grow((void **)&l->at, &l->cap, l->n + 1, sizeof *l->at))
		l->no_memory = true;
	else
		l->at[l->n++] = *ev;
}

void event_log_free(struct event_log *l)
{
	mem_free(l->at);
	*l = (struct event_log){0};
}

void log_check_begin(struct log_check *c, const struct event_log *l)
{
	*c = (struct log_check){.log = l, .all = {.step = -1}, .blocks = {.step = -1}};
}

static bool same(const struct event *a, const struct event *b)
{
	return a->kind == b->kind && a->step == b->step && a->at_ns == b->at_ns && a->req == b->req && a->a == b->a &&
	       a->b == b->b;
}

/* Who was given which block, whatever the time. */
static bool same_block(const struct event *a, const struct event *b)
{
	return a->step == b->step && a->req == b->req && a->a == b->a && a->b == b->b;
}

static void put_line(char out[DECISION_LINE], const struct event *ev)
{
	out[0] = '\0';
	if (ev)
		decision_line(ev, out);
	out[strcspn(out, "\n")] = '\0';
}

/* NULL: that log has ended; never both. */
static void part(struct validate_parting *p, int64_t line, const struct event *executed, const struct event *replayed)
{
	const struct event *either = executed ? executed : replayed;
	if (p->step >= 0 || !either)
		return;
	p->step = either->step;
	p->line = line;
	put_line(p->executed, executed);
	put_line(p->replayed, replayed);
}

static const struct event *next_block(struct log_check *c)
{
	while (c->block < c->log->n && c->log->at[c->block].kind != EVENT_BLOCK)
		c->block++;
	return c->block < c->log->n ? &c->log->at[c->block] : NULL;
}

static void check_block(struct log_check *c, const struct event *ev)
{
	const struct event *want = next_block(c);
	if (!want || !same_block(want, ev))
		part(&c->blocks, c->block + 1, want, ev);
	c->block++;
}

void log_check_add(void *check, const struct event *ev)
{
	struct log_check *c = check;
	const struct event *want = c->n < c->log->n ? &c->log->at[c->n] : NULL;
	c->n++;
	if (!want || !same(want, ev))
		part(&c->all, c->n, want, ev);
	if (ev->kind == EVENT_BLOCK)
		check_block(c, ev);
}

void log_check_end(struct log_check *c)
{
	if (c->n < c->log->n)
		part(&c->all, c->n + 1, &c->log->at[c->n], NULL);
	const struct event *left = next_block(c);
	if (left)
		part(&c->blocks, c->block + 1, left, NULL);
}
