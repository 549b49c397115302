#include "analysis/goodput.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"

static const char priority_word[] = "priority=";

/* An objective: where it is in the general ones and in a class's. */
static const struct objective {
	const char *name;
	size_t general, own;
} objectives[] = {
	{"ttft", offsetof(struct goodput_slo, ttft_ns), offsetof(struct goodput_class, ttft_ns)},
	{"tpot", offsetof(struct goodput_slo, tpot_ns), offsetof(struct goodput_class, tpot_ns)},
	{"e2el", offsetof(struct goodput_slo, e2el_ns), offsetof(struct goodput_class, e2el_ns)},
};
enum { N_OBJECTIVES = sizeof objectives / sizeof *objectives };

bool goodput_any(const struct goodput_slo *g)
{
	bool any = g->ttft_ns >= 0 || g->tpot_ns >= 0 || g->e2el_ns >= 0;
	for (int32_t i = 0; i < g->n_classes; i++)
		any |= g->classes[i].ttft_ns >= 0 || g->classes[i].tpot_ns >= 0 || g->classes[i].e2el_ns >= 0;
	return any;
}

/* --- words -------------------------------------------------------------------------------------------------------- */

static const struct objective *find(const char *name, size_t length)
{
	for (int i = 0; i < N_OBJECTIVES; i++)
		if (strlen(objectives[i].name) == length && strncmp(objectives[i].name, name, length) == 0)
			return &objectives[i];
	return NULL;
}

static int find_class(struct goodput_slo *g, const char *word, size_t length, struct goodput_class **out, struct err *e)
{
	if (length == 0 || length >= GOODPUT_CLASS_NAME)
		return err_set(e, ERR_INPUT, "goodput: \"%s\": a class has a name of 1 to %d bytes before the slash",
			       word, GOODPUT_CLASS_NAME - 1);
	for (int32_t i = 0; i < g->n_classes; i++) {
		*out = &g->classes[i];
		if (strlen((*out)->name) == length && strncmp((*out)->name, word, length) == 0)
			return ERR_NONE;
	}
	if (g->n_classes == GOODPUT_CLASSES)
		return err_set(e, ERR_INPUT, "goodput: \"%s\": more than %d classes", word, GOODPUT_CLASSES);
	*out = &g->classes[g->n_classes++];
	**out = (struct goodput_class){.ttft_ns = -1, .tpot_ns = -1, .e2el_ns = -1};
	memcpy((*out)->name, word, length);
	return ERR_NONE;
}

static int parse_ms(const char *word, const char *text, const char *name, bool none, int64_t *ns, struct err *e)
{
	char *end;
	if (none && strcmp(text, "none") == 0) {
		*ns = -2;
		return ERR_NONE;
	}
	double ms = strtod(text, &end);
	if (end == text || *end || !(ms >= 0 && ms < 1e12))
		return err_set(e, ERR_INPUT, "goodput: \"%s\" is not a time in milliseconds, like %s:500", word, name);
	*ns = (int64_t)(ms * 1e6 + 0.5);
	return ERR_NONE;
}

int goodput_parse(struct goodput_slo *g, const char *word, struct err *e)
{
	const char *slash = strrchr(word, '/'), *text = slash ? slash + 1 : word, *colon = strchr(text, ':');
	const struct objective *o = colon ? find(text, (size_t)(colon - text)) : NULL;
	struct goodput_class *c = NULL;
	int64_t ns = 0;
	if (!o)
		return err_set(e, ERR_INPUT,
			       "goodput: \"%s\" is not an objective; they are ttft:MS, tpot:MS and e2el:MS", word);
	int rc = parse_ms(word, colon + 1, o->name, slash != NULL, &ns, e);
	if (rc == ERR_NONE && slash)
		rc = find_class(g, word, (size_t)(slash - word), &c, e);
	if (rc)
		return rc;
	*(int64_t *)(void *)(c ? (char *)c + o->own : (char *)g + o->general) = ns;
	return ERR_NONE;
}

static int put(char *buf, int at, const char *class, const char *name, int64_t ns)
{
	if (ns == -1 || at >= GOODPUT_TEXT)
		return at;
	at += snprintf(buf + at, GOODPUT_TEXT - (size_t)at, "%s%s%s%s:", at ? " " : "", class, *class ? "/" : "", name);
	if (at >= GOODPUT_TEXT)
		return at;
	return at + (ns < 0 ? snprintf(buf + at, GOODPUT_TEXT - (size_t)at, "none")
			    : snprintf(buf + at, GOODPUT_TEXT - (size_t)at, "%.10g", (double)ns / 1e6));
}

const char *goodput_text(const struct goodput_slo *g, char buf[GOODPUT_TEXT])
{
	int at = 0;
	buf[0] = '\0';
	for (int k = 0; k < N_OBJECTIVES; k++)
		at = put(buf, at, "", objectives[k].name,
			 *(const int64_t *)(const void *)((const char *)g + objectives[k].general));
	for (int32_t i = 0; i < g->n_classes; i++)
		for (int k = 0; k < N_OBJECTIVES; k++)
			at = put(buf, at, g->classes[i].name, objectives[k].name,
				 *(const int64_t *)(const void *)((const char *)&g->classes[i] + objectives[k].own));
	return buf;
}

/* --- whom they apply to ------------------------------------------------------------------------------------------- */

/* "priority=N" -> true and N. */
static bool is_priority(const char *name, long *priority)
{
	char *end;
	size_t n = sizeof priority_word - 1;
	if (strncmp(name, priority_word, n) != 0 || !name[n])
		return false;
	*priority = strtol(name + n, &end, 10);
	return !*end;
}

int32_t goodput_class_of(const struct goodput_slo *g, const struct workload *w, const struct spec *s)
{
	for (int32_t i = 0; i < g->n_classes; i++) {
		long priority;
		const char *name = g->classes[i].name;
		if (s->tenant > 0 && s->tenant < w->n_tenants && strcmp(name, w->tenants[s->tenant]) == 0)
			return i;
		if (is_priority(name, &priority) && s->priority == priority)
			return i;
	}
	return -1;
}

struct goodput_limits goodput_limits(const struct goodput_slo *g, const struct workload *w, const struct spec *s)
{
	struct goodput_limits l = {g->ttft_ns, g->tpot_ns, g->e2el_ns};
	int32_t k = goodput_class_of(g, w, s);
	if (k >= 0) {
		const struct goodput_class *c = &g->classes[k];
		l.ttft_ns = c->ttft_ns == -1 ? l.ttft_ns : c->ttft_ns;
		l.tpot_ns = c->tpot_ns == -1 ? l.tpot_ns : c->tpot_ns;
		l.e2el_ns = c->e2el_ns == -1 ? l.e2el_ns : c->e2el_ns;
	}
	if (l.ttft_ns >= 0 && s->slo_ttft_ms > 0)
		l.ttft_ns = s->slo_ttft_ms * NS_PER_MS;
	return l;
}

bool goodput_met(const struct request *r, const struct goodput_limits *l)
{
	if (r->state != REQUEST_FINISHED)
		return false;
	if (l->ttft_ns >= 0 && request_ttft_ns(r) > l->ttft_ns)
		return false;
	if (l->e2el_ns >= 0 && request_e2e_ns(r) > l->e2el_ns)
		return false;
	int64_t gaps = r->outputs - 1;
	return l->tpot_ns < 0 || gaps < 1 ||
	       (double)(r->last_token_ns - r->first_token_ns) / (double)gaps <= (double)l->tpot_ns;
}

/* The classes there are, for a message. */
static void list_classes(const struct workload *w, char *buf, size_t size)
{
	size_t at = 0;
	buf[0] = '\0';
	for (int32_t i = 1; i < w->n_tenants && at + 1 < size; i++)
		at += (size_t)snprintf(buf + at, size - at, "%s%s", at ? ", " : "", w->tenants[i]);
}

int goodput_check(const struct goodput_slo *g, const struct workload *w, struct err *e)
{
	char classes[300];
	for (int32_t i = 0; i < g->n_classes; i++) {
		struct goodput_slo one = {.n_classes = 1};
		bool there = false;
		one.classes[0] = g->classes[i];
		for (int64_t k = 0; !there && k < w->n; k++)
			there = goodput_class_of(&one, w, &w->specs[k]) == 0;
		if (there)
			continue;
		list_classes(w, classes, sizeof classes);
		return err_set(e, ERR_INPUT, "--goodput %s/...: no request is of that class; %s%s", g->classes[i].name,
			       *classes ? "there are " : "the trace has none, but priority=N may be given", classes);
	}
	return ERR_NONE;
}
