/* cost_open.c: cost models from text such as "linear:a=5ms,b=20us". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/near.h"
#include "sim/cost_models.h"

const char cost_help[] =
	"roofline[:WORD=VALUE,...]  FLOPs and bytes of each operator against the device's peaks. "
	"attention=flash|standard,\n"
	"                           eager=on|off, gemm=, attn=, memory=, kv= (shares of the peaks, above 0 to 1),\n"
	"                           mixed= (of decode attention's speed, beside prompts), unhidden= (0 to 1: how much "
	"of\n"
	"                           the shorter of compute and memory time shows), step=, request=, prompt=, launch=,\n"
	"                           kernel= (times)\n"
	"linear:a=T,b=T,c=T,d=T     a + b per prefill token + c per decode + d per token of decode "
	"context; each 0 if left out\n"
	"constant:T                 every step takes T\n"
	"profiled[:WHICH][,...]     measured times, interpolated; WHICH: a number or name of `lockstep profile "
	"list`, else\n"
	"                           the latest that fits. step=, request= (host times on top), any=on (take it "
	"whatever it is of)\n"
	"A time T is a number with ns, us, ms or s behind it; a plain number is nanoseconds.\n";

enum value_type { VALUE_TIME, VALUE_SHARE, VALUE_PART, VALUE_WORD };

struct value {
	const char *name;
	enum value_type type;
	double *number; /* TIME; SHARE: above 0; PART: from 0 */
	const char *words[2]; /* WORD: false, true */
	bool *flag;
};

static int parse_time(const char *text, double *out)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"", 1}};
	char *end;
	double x = strtod(text, &end);
	if (end == text || !isfinite(x) || x < 0)
		return -1;
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
		if (!strcmp(end, units[i].name)) {
			*out = x * units[i].ns;
			return *out < 4.6e18 ? 0 : -1;
		}
	}
	return -1;
}

static int set_value(const struct value *v, const char *text, const char *whole, struct err *e)
{
	char *end;
	double x;
	switch (v->type) {
	case VALUE_TIME:
		if (parse_time(text, v->number))
			return err_set(e, ERR_INPUT,
				       "cost model \"%s\": %s=%s is not a time such as 10ms, 2.5us or 300ns", whole,
				       v->name, text);
		return ERR_NONE;
	case VALUE_SHARE:
		x = strtod(text, &end);
		if (end == text || *end || !(x > 0 && x <= 1))
			return err_set(e, ERR_INPUT, "cost model \"%s\": %s=%s must be above 0 and at most 1", whole,
				       v->name, text);
		*v->number = x;
		return ERR_NONE;
	case VALUE_PART:
		x = strtod(text, &end);
		if (end == text || *end || !(x >= 0 && x <= 1))
			return err_set(e, ERR_INPUT, "cost model \"%s\": %s=%s must be from 0 to 1", whole, v->name,
				       text);
		*v->number = x;
		return ERR_NONE;
	case VALUE_WORD:
		for (int i = 0; i < 2; i++) {
			if (!strcmp(text, v->words[i])) {
				*v->flag = i;
				return ERR_NONE;
			}
		}
		break;
	}
	return err_set(e, ERR_INPUT, "cost model \"%s\": %s must be %s or %s, not \"%s\"", whole, v->name, v->words[0],
		       v->words[1], text);
}

static int set_named(const struct value *values, int n, const char *word, const char *text, const char *whole,
		     struct err *e)
{
	char near[160];
	struct near_match m;
	near_begin(&m, word);
	for (int i = 0; i < n; i++) {
		if (!strcmp(word, values[i].name))
			return set_value(&values[i], text, whole, e);
		near_offer(&m, values[i].name);
	}
	return err_set(e, ERR_INPUT, "cost model \"%s\": unknown word \"%s\"%s", whole, word,
		       near_text(&m, near, sizeof near));
}

/* "a=1,b=2"; a text without '=' is the value of the first name (constant:10ms). */
static int parse_values(const char *text, const struct value *values, int n, const char *whole, struct err *e)
{
	char item[64];
	while (*text) {
		size_t len = strcspn(text, ",");
		if (len >= sizeof item)
			return err_set(e, ERR_INPUT, "cost model \"%s\": \"%.60s...\" is too long", whole, text);
		memcpy(item, text, len);
		item[len] = '\0';
		char *eq = strchr(item, '=');
		if (eq)
			*eq = '\0';
		else if (n > 1)
			return err_set(e, ERR_INPUT, "cost model \"%s\": \"%s\" must be written NAME=VALUE", whole,
				       item);
		int rc = set_named(values, n, eq ? item : values[0].name, eq ? eq + 1 : item, whole, e);
		if (rc)
			return rc;
		text += len + (text[len] == ',');
	}
	return ERR_NONE;
}

static int open_roofline(struct cost **out, const char *text, const char *whole, const struct cost_setup *s,
			 struct err *e)
{
	if (!s || !s->model || !s->device)
		return err_set(e, ERR_INPUT, "cost model \"%s\" needs a model and a device", whole);
	struct device d = *s->device;
	struct cost_setup mine = *s;
	bool standard = s->attention == ATTENTION_STANDARD;
	const struct value values[] = {
		{.name = "attention", .type = VALUE_WORD, .words = {"flash", "standard"}, .flag = &standard},
		{.name = "eager", .type = VALUE_WORD, .words = {"off", "on"}, .flag = &mine.eager},
		{.name = "gemm", .type = VALUE_SHARE, .number = &d.gemm_efficiency},
		{.name = "attn", .type = VALUE_SHARE, .number = &d.attention_efficiency},
		{.name = "memory", .type = VALUE_SHARE, .number = &d.memory_efficiency},
		{.name = "kv", .type = VALUE_SHARE, .number = &d.kv_efficiency},
		{.name = "mixed", .type = VALUE_SHARE, .number = &d.mixed_efficiency},
		{.name = "unhidden", .type = VALUE_PART, .number = &d.unhidden},
		{.name = "step", .type = VALUE_TIME, .number = &d.step_ns},
		{.name = "request", .type = VALUE_TIME, .number = &d.request_ns},
		{.name = "prompt", .type = VALUE_TIME, .number = &d.prompt_ns},
		{.name = "launch", .type = VALUE_TIME, .number = &d.launch_ns},
		{.name = "kernel", .type = VALUE_TIME, .number = &d.kernel_ns},
		{.name = "link", .type = VALUE_SHARE, .number = &d.link_efficiency},
		{.name = "collective", .type = VALUE_TIME, .number = &d.collective_ns},
		{.name = "hop", .type = VALUE_TIME, .number = &d.hop_ns},
	};
	int rc = parse_values(text, values, sizeof values / sizeof values[0], whole, e);
	if (rc)
		return rc;
	mine.device = &d;
	mine.attention = standard ? ATTENTION_STANDARD : ATTENTION_FLASH;
	return cost_roofline_create(out, &mine, e);
}

static int open_linear(struct cost **out, const char *text, const char *whole, struct err *e)
{
	double x[4] = {0};
	const struct value values[] = {{.name = "a", .number = &x[0]},
				       {.name = "b", .number = &x[1]},
				       {.name = "c", .number = &x[2]},
				       {.name = "d", .number = &x[3]}};
	int rc = parse_values(text, values, 4, whole, e);
	return rc ? rc : cost_linear_create(out, x[0], x[1], x[2], x[3], e);
}

static int open_constant(struct cost **out, const char *text, const char *whole, struct err *e)
{
	double ns = -1;
	const struct value value = {.name = "time", .number = &ns};
	int rc = parse_values(text, &value, 1, whole, e);
	if (!rc && ns < 0)
		rc = err_set(e, ERR_INPUT, "cost model \"%s\" needs a time: constant:10ms", whole);
	return rc ? rc : cost_constant_create(out, (int64_t)(ns + 0.5), e);
}

/* The first word of what follows "profiled:", unless it is a NAME=VALUE. */
static size_t which_length(const char *rest)
{
	size_t len = strcspn(rest, ",");
	return memchr(rest, '=', len) ? 0 : len;
}

static bool is_profiled(const char *text)
{
	return strncmp(text, "profiled", 8) == 0 && (text[8] == '\0' || text[8] == ':' || text[8] == ',');
}

bool cost_profile_which(const char *text, char *buf, size_t size)
{
	if (!is_profiled(text))
		return false;
	const char *rest = text[8] == ':' ? text + 9 : "";
	snprintf(buf, size, "%.*s", (int)which_length(rest), rest);
	return true;
}

static int open_profiled(struct cost **out, const char *rest, const char *whole, const struct cost_setup *s,
			 struct err *e)
{
	struct profiled_options o = {0};
	const struct value values[] = {
		{.name = "step", .type = VALUE_TIME, .number = &o.step_ns},
		{.name = "request", .type = VALUE_TIME, .number = &o.request_ns},
		{.name = "any", .type = VALUE_WORD, .words = {"off", "on"}, .flag = &o.any},
	};
	rest += which_length(rest);
	rest += *rest == ',';
	int rc = parse_values(rest, values, sizeof values / sizeof values[0], whole, e);
	return rc ? rc : cost_profiled_create(out, s, &o, e);
}

int cost_open(struct cost **out, const char *text, const struct cost_setup *s, struct err *e)
{
	size_t len = strcspn(text, ":");
	const char *rest = text[len] ? text + len + 1 : "";
	*out = NULL;
	if (is_profiled(text))
		return open_profiled(out, text[8] ? text + 9 : "", text, s, e);
	if (len == 8 && !strncmp(text, "roofline", len))
		return open_roofline(out, rest, text, s, e);
	if (len == 6 && !strncmp(text, "linear", len))
		return open_linear(out, rest, text, e);
	if (len == 8 && !strncmp(text, "constant", len))
		return open_constant(out, rest, text, e);
	return err_set(e, ERR_INPUT,
		       "cost model \"%.80s\" is unknown: use roofline, profiled, linear:a=..,b=..,c=..,d=.. or "
		       "constant:10ms",
		       text);
}
