/* effects_print.c: effects as sentences, and as JSON. */
#include <math.h>
#include <string.h>

#include "analysis/effects.h"
#include "analysis/jout.h"
#include "analysis/text.h"

#define NUMBER 32

/* A share as percent: two significant digits, one decimal at least where it is small. */
static const char *percent(double share, char buf[NUMBER])
{
	double p = 100 * share, size = fabs(p);
	/* Near the whole, what is left is what matters. */
	bool nearly = size >= 99.5 && size < 100;
	snprintf(buf, NUMBER, size < 0.095 && size > 0 ? "%.2g" : size < 9.95 ? "%.1f" : nearly ? "%.5g" : "%.0f", p);
	if (strcmp(buf, "-0.0") == 0)
		snprintf(buf, NUMBER, "0.0");
	return buf;
}

/* "by 34 % [31, 37]"; what is more than trebled is "to 5.2 times [4.9, 5.6]". */
static void change(const struct boot_effect *x, char *out, size_t size)
{
	char a[NUMBER], b[NUMBER], c[NUMBER];
	if (x->effect >= 2)
		snprintf(out, size, "to %.3g times [%.3g, %.3g]", x->effect + 1, x->low + 1, x->high + 1);
	else if (x->effect < 0)
		snprintf(out, size, "by %s %% [%s, %s]", percent(-x->effect, a), percent(-x->high, b),
			 percent(-x->low, c));
	else
		snprintf(out, size, "by %s %% [%s, %s]", percent(x->effect, a), percent(x->low, b),
			 percent(x->high, c));
}

static void sentence(const struct effect *v, char *out, size_t size)
{
	char by[120], a[NUMBER], b[NUMBER], c[NUMBER], from[TEXT_NUMBER], to[TEXT_NUMBER];
	const struct boot_effect *x = &v->x;
	switch (effect_verdict(x)) {
	case EFFECT_LOWERS:
	case EFFECT_RAISES:
		change(x, by, sizeof by);
		snprintf(out, size, "%s %s %s%s", effect_verdict_names[effect_verdict(x)], v->label, by,
			 x->thin ? "~" : "");
		return;
	case EFFECT_SAME: /* left_alone */
		break;
	case EFFECT_NONE:
		snprintf(out, size, "no difference beyond noise in %s: %s %% [%s, %s]%s", v->label,
			 percent(x->effect, a), percent(x->low, b), percent(x->high, c), x->thin ? "~" : "");
		return;
	case EFFECT_UNKNOWN:
		break;
	}
	snprintf(out, size, "%s: %s against %s%s%s, without an interval", v->label, text_value(x->b, v->unit, to),
		 text_value(x->a, v->unit, from), *v->unit ? " " : "", text_unit(v->unit));
}

/* All that are the same, in one line. */
static void left_alone(const struct effects *x, FILE *f)
{
	const char *before = "  leaves as they are: ";
	for (int32_t i = 0; i < x->n; i++) {
		if (effect_verdict(&x->list[i].x) != EFFECT_SAME)
			continue;
		fprintf(f, "%s%s", before, x->list[i].label);
		before = ", ";
	}
	if (*before == ',')
		fputc('\n', f);
}

void effects_print(const struct effects *x, FILE *f)
{
	char line[300], noise[NUMBER];
	bool less = false;
	fprintf(f, "%s against %s, ", x->label, x->against);
	if (x->by_request)
		fprintf(f, "%lld requests%s in %lld blocks", (long long)x->requests,
			x->paired ? ", pair by pair," : " of each", (long long)x->blocks);
	else
		fprintf(f, "%d run%s of each%s", x->runs, x->runs > 1 ? "s" : "", x->paired ? ", pair by pair" : "");
	fputs("; 95 % intervals:\n", f);
	for (int32_t i = 0; i < x->n; i++) {
		const struct boot_effect *v = &x->list[i].x;
		if (effect_verdict(v) == EFFECT_SAME)
			continue;
		sentence(&x->list[i], line, sizeof line);
		if (isnan(v->noise)) {
			fprintf(f, "  %s\n", line);
			continue;
		}
		bool within = fabs(v->effect) < v->noise && effect_verdict(v) != EFFECT_NONE;
		fprintf(f, "  %-58s  noise %s %%%s\n", line, percent(v->noise, noise), within ? " !" : "");
		less |= within;
	}
	left_alone(x, f);
	if (less)
		fprintf(f, "  ! paired, it is sure; but two runs like %s, of other requests, differ by as much\n",
			x->against);
	for (int32_t i = 0; i < x->n_warnings; i++)
		fprintf(f, "  note: %s\n", x->warnings[i]);
}

void effects_print_all(const struct effects *list, int32_t n, FILE *f)
{
	bool any = false, thin = false;
	for (int32_t k = 1; k < n; k++) {
		if (!list[k].list)
			continue;
		effects_print(&list[k], f);
		any = true;
		for (int32_t i = 0; i < list[k].n; i++)
			thin |= list[k].list[i].x.thin;
	}
	if (any)
		fprintf(f,
			"noise: by so much two runs like %s differ, of other requests of the kind, 19 times of "
			"20%s\n\n",
			list[n - 1].list ? list[n - 1].against : "the first",
			thin ? "\n~ from too few samples to be relied on" : "");
}

static void figure(struct jout *j, const struct effect *v)
{
	const struct boot_effect *x = &v->x;
	jout_begin(j, NULL, '{');
	jout_text(j, "metric", v->key);
	jout_text(j, "unit", v->unit);
	jout_real(j, "against", x->a);
	jout_real(j, "value", x->b);
	jout_real(j, "effect", x->effect);
	jout_real(j, "low", x->low);
	jout_real(j, "high", x->high);
	jout_real(j, "noise", x->noise);
	jout_int(j, "samples", x->n);
	jout_int(j, "blocks", x->blocks);
	jout_bool(j, "uncertain", x->thin);
	jout_text(j, "verdict", effect_verdict_names[effect_verdict(x)]);
	jout_end(j, '}');
}

void effects_json(const struct effects *x, struct jout *j)
{
	jout_begin(j, NULL, '{');
	jout_text(j, "label", x->label);
	jout_text(j, "against", x->against);
	jout_text(j, "by", x->by_request ? "request" : "run");
	jout_bool(j, "paired", x->paired);
	jout_int(j, "runs", x->runs);
	if (x->by_request)
		jout_int(j, "requests", x->requests);
	jout_begin(j, "figures", '[');
	for (int32_t i = 0; i < x->n; i++)
		figure(j, &x->list[i]);
	jout_end(j, ']');
	jout_begin(j, "notes", '[');
	for (int32_t i = 0; i < x->n_warnings; i++)
		jout_text(j, NULL, x->warnings[i]);
	jout_end(j, ']');
	jout_end(j, '}');
}
