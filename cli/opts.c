/* Parses a command line against a table of struct opt. */
#include "cli/command.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/near.h"

struct parse {
	const struct opt *opts;
	int n;
	void *dest;
	int argc;
	char **argv;
	int at; /* the word being looked at */
	int front; /* where the next positional word goes */
	bool *given;
	struct err *e;
};

/* Names match with _ for -, as vLLM allows. */
static bool name_is(const char *name, const char *text, size_t len)
{
	if (!name || strlen(name) != len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (name[i] != (text[i] == '_' ? '-' : text[i]))
			return false;
	return true;
}

static const struct opt *find_long(const struct parse *p, const char *text, size_t len)
{
	for (int i = 0; i < p->n; i++) {
		const struct opt *o = &p->opts[i];
		if (o->type != OPT_TITLE && (name_is(o->name, text, len) || name_is(o->alias, text, len)))
			return o;
	}
	return NULL;
}

static const struct opt *find_letter(const struct parse *p, char letter)
{
	for (int i = 0; i < p->n; i++)
		if (p->opts[i].type != OPT_TITLE && p->opts[i].letter == letter)
			return &p->opts[i];
	return NULL;
}

static int unknown(const struct parse *p, const char *word)
{
	char name[64], near[256];
	size_t len = strcspn(word + 2, "=");
	if (len >= sizeof name)
		len = sizeof name - 1;
	memcpy(name, word + 2, len);
	name[len] = '\0';

	struct near_match m;
	near_begin(&m, name);
	m.prefix = "--";
	for (int i = 0; i < p->n; i++) {
		if (p->opts[i].type == OPT_TITLE)
			continue;
		near_offer(&m, p->opts[i].name);
		if (p->opts[i].alias)
			near_offer(&m, p->opts[i].alias);
	}
	return err_set(p->e, ERR_INPUT, "unknown option --%s%s; --help lists the options", name,
		       near_text(&m, near, sizeof near));
}

static int out_of_bounds(const struct opt *o, const char *text, struct err *e)
{
	if (isinf(o->max))
		return err_set(e, ERR_INPUT, "--%s: %s is too small: it must be at least %.15g", o->name, text, o->min);
	return err_set(e, ERR_INPUT, "--%s: %s is not between %.15g and %.15g", o->name, text, o->min, o->max);
}

static bool within(const struct opt *o, double v)
{
	return (o->min == 0 && o->max == 0) || (v >= o->min && v <= o->max);
}

static int set_integer(const struct opt *o, const char *text, void *to, struct err *e)
{
	char *end;
	errno = 0;
	long long v = strtoll(text, &end, 10);
	if (end == text || *end || strspn(text, " \t"))
		return err_set(e, ERR_INPUT, "--%s: \"%s\" is not a whole number", o->name, text);
	if (errno == ERANGE || (o->type == OPT_INT32 && (v < INT32_MIN || v > INT32_MAX)))
		return err_set(e, ERR_INPUT, "--%s: %s is too large a number", o->name, text);
	if (!within(o, (double)v))
		return out_of_bounds(o, text, e);
	if (o->type == OPT_INT32)
		*(int32_t *)to = (int32_t)v;
	else
		*(int64_t *)to = v;
	return ERR_NONE;
}

static int set_unsigned(const struct opt *o, const char *text, uint64_t *to, struct err *e)
{
	char *end;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	if (end == text || *end || text[0] < '0' || text[0] > '9')
		return err_set(e, ERR_INPUT, "--%s: \"%s\" is not a whole number of at least 0", o->name, text);
	if (errno == ERANGE)
		return err_set(e, ERR_INPUT, "--%s: %s does not fit 64 bits", o->name, text);
	*to = v;
	return ERR_NONE;
}

static int set_double(const struct opt *o, const char *text, double *to, struct err *e)
{
	char *end;
	double v = strtod(text, &end);
	if (end == text || *end || isnan(v) || strspn(text, " \t"))
		return err_set(e, ERR_INPUT, "--%s: \"%s\" is not a number", o->name, text);
	if (isinf(v) && (v < 0 || !isinf(o->max)))
		return err_set(e, ERR_INPUT, "--%s: it must be a finite number, not %s", o->name, text);
	if (!within(o, v))
		return out_of_bounds(o, text, e);
	*to = v;
	return ERR_NONE;
}

static int set_onoff(const struct opt *o, const char *text, bool *to, struct err *e)
{
	static const char *const yes[] = {"on", "true", "1", "yes"}, *const no[] = {"off", "false", "0", "no"};
	for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
		if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
			*to = strcmp(text, yes[i]) == 0;
			return ERR_NONE;
		}
	}
	return err_set(e, ERR_INPUT, "--%s: \"%s\" is neither on nor off", o->name, text);
}

static int set_choice(const struct opt *o, const char *text, int32_t *to, struct err *e)
{
	char list[256] = "";
	size_t used = 0;
	for (int32_t i = 0; o->choices[i]; i++) {
		size_t n = strlen(o->choices[i]);
		if (strcmp(text, o->choices[i]) == 0) {
			*to = i;
			return ERR_NONE;
		}
		if (used + n + 3 < sizeof list) {
			if (i)
				list[used++] = ',', list[used++] = ' ';
			memcpy(list + used, o->choices[i], n + 1);
			used += n;
		}
	}
	return err_set(e, ERR_INPUT, "--%s: \"%s\" is not one of %s", o->name, text, list);
}

int opt_set(const struct opt *o, const char *text, void *dest, struct err *e)
{
	void *to = (char *)dest + o->offset;
	switch (o->type) {
	case OPT_INT32:
	case OPT_INT64:
		return set_integer(o, text, to, e);
	case OPT_UINT64:
		return set_unsigned(o, text, to, e);
	case OPT_DOUBLE:
		return set_double(o, text, to, e);
	case OPT_ONOFF:
		return set_onoff(o, text, to, e);
	case OPT_CHOICE:
		return set_choice(o, text, to, e);
	case OPT_STRING:
	case OPT_LIST:
	case OPT_SWITCH:
		*(const char **)to = text;
		return ERR_NONE;
	case OPT_FLAG:
	case OPT_WORDS:
	case OPT_TITLE:
		break;
	}
	return ERR_NONE;
}

/* "--x" and "-x" end a list of words and are no value; "-", "-1" and "-.5" may be one. */
static bool looks_like_option(const char *word)
{
	return word[0] == '-' && word[1] != '\0' && !strchr("0123456789.", word[1]);
}

/* The words after an OPT_WORDS option, one of which may have come with '='. */
static int take_words(struct parse *p, const struct opt *o, char *inline_value)
{
	struct words *w = (struct words *)((char *)p->dest + o->offset);
	if (inline_value)
		p->argv[p->at] = inline_value; /* the word itself becomes its first value */
	else
		p->at++;
	int first = p->at;
	if (inline_value)
		p->at++;
	while (p->at < p->argc && !looks_like_option(p->argv[p->at]))
		p->at++;
	if (p->at == first)
		return err_set(p->e, ERR_INPUT, "--%s needs at least one %s after it", o->name,
			       o->arg ? o->arg : "word");
	w->at = p->argv + first;
	w->n = p->at - first;
	return ERR_NONE;
}

/* Is it a value of OPT_ONOFF? */
static bool is_switch(const char *word, size_t n)
{
	static const char *const known[] = {"on", "off", "true", "false"};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strlen(known[i]) == n && strncmp(known[i], word, n) == 0)
			return true;
	return false;
}

/* Is it a value of OPT_SWITCH, or a word that has nothing to do with it? */
static bool is_switches(const char *word)
{
	while (true) {
		size_t n = strcspn(word, ",");
		if (!is_switch(word, n))
			return false;
		if (!word[n])
			return true;
		word += n + 1;
	}
}

static int take_switch(struct parse *p, const struct opt *o, const char *inline_value)
{
	const char *value = "on";
	p->at++;
	if (inline_value)
		value = inline_value;
	else if (p->at < p->argc && is_switches(p->argv[p->at]))
		value = p->argv[p->at++];
	return opt_set(o, value, p->dest, p->e);
}

static int take_option(struct parse *p, const struct opt *o, char *inline_value)
{
	if (p->given)
		p->given[o - p->opts] = true;
	if (o->type == OPT_WORDS)
		return take_words(p, o, inline_value);
	if (o->type == OPT_SWITCH)
		return take_switch(p, o, inline_value);
	if (o->type == OPT_FLAG) {
		/* "--check on" too: so experiments write it. */
		p->at++;
		if (!inline_value && p->at < p->argc && is_switch(p->argv[p->at], strlen(p->argv[p->at])))
			inline_value = p->argv[p->at++];
		return set_onoff(o, inline_value ? inline_value : "on", (bool *)((char *)p->dest + o->offset), p->e);
	}
	char *value = inline_value;
	if (!value) {
		if (++p->at >= p->argc || looks_like_option(p->argv[p->at]))
			return err_set(p->e, ERR_INPUT, "--%s needs a value: --%s %s", o->name, o->name,
				       o->arg ? o->arg : "on|off");
		value = p->argv[p->at];
	}
	p->at++;
	return opt_set(o, value, p->dest, p->e);
}

static int take_off(struct parse *p, const struct opt *o)
{
	void *to = (char *)p->dest + o->offset;
	if (o->type == OPT_SWITCH)
		*(const char **)to = "off";
	else
		*(bool *)to = false;
	if (p->given)
		p->given[o - p->opts] = true;
	p->at++;
	return ERR_NONE;
}

static int take_long(struct parse *p, char *word)
{
	char *equals = strchr(word, '=');
	size_t len = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
	const struct opt *o = find_long(p, word + 2, len);
	if (o)
		return take_option(p, o, equals ? equals + 1 : NULL);
	/* --no-x clears the flag x. */
	if (len > 3 && strncmp(word + 2, "no-", 3) == 0 && !equals) {
		o = find_long(p, word + 5, len - 3);
		if (o && (o->type == OPT_FLAG || o->type == OPT_ONOFF || o->type == OPT_SWITCH))
			return take_off(p, o);
	}
	return unknown(p, word);
}

static int take_short(struct parse *p, char *word)
{
	const struct opt *o = find_letter(p, word[1]);
	if (!o)
		return err_set(p->e, ERR_INPUT, "unknown option -%c; --help lists the options", word[1]);
	return take_option(p, o, word[2] ? word + 2 : NULL);
}

/* Moves the positional word at p->at to the front; what lay between moves up by one, lists of words with it. */
static void take_positional(struct parse *p)
{
	char *word = p->argv[p->at];
	for (int i = 0; i < p->n; i++) {
		if (p->opts[i].type != OPT_WORDS)
			continue;
		struct words *w = (struct words *)((char *)p->dest + p->opts[i].offset);
		for (int j = p->front; j < p->at; j++) {
			if (w->at == p->argv + j) {
				w->at++;
				break;
			}
		}
	}
	memmove(p->argv + p->front + 1, p->argv + p->front, (size_t)(p->at - p->front) * sizeof *p->argv);
	p->argv[p->front++] = word;
	p->at++;
}

int opts_parse(const struct opt *opts, int n, void *dest, int argc, char **argv, int *n_positional, bool *given,
	       struct err *e)
{
	struct parse p = {opts, n, dest, argc, argv, .at = 1, .front = 1, .given = given, .e = e};
	bool only_words = false;
	if (given)
		memset(given, 0, (size_t)n * sizeof *given);
	while (p.at < argc) {
		char *word = argv[p.at];
		int rc = ERR_NONE;
		if (only_words || !looks_like_option(word))
			take_positional(&p);
		else if (strcmp(word, "--") == 0)
			only_words = true, p.at++;
		else if (word[1] == '-')
			rc = take_long(&p, word);
		else
			rc = take_short(&p, word);
		if (rc != ERR_NONE)
			return rc;
	}
	*n_positional = p.front - 1;
	return ERR_NONE;
}
