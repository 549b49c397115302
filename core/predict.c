#include "core/predict.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"

enum { STREAM = 0x70726564 }; /* of the seed; each request has one of its own after it */

static const char *const plain[] = {"max", "oracle", NULL, "mean"};

__attribute__((format(printf, 2, 3))) static const char *put(char buf[40], const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(buf, 40, fmt, ap);
	va_end(ap);
	return buf;
}

const char *predict_text(const struct predict_config *c, char buf[40])
{
	return plain[c->kind] ? put(buf, "%s", plain[c->kind]) : put(buf, "noisy:%.15g", c->sigma);
}

/* Plain digits with an optional fraction: this file may call no locale. */
static bool parse_sigma(const char *text, double *sigma)
{
	double whole = 0, unit = 1;
	bool fraction = false, any = false;
	for (; *text; text++) {
		if (*text == '.' && !fraction) {
			fraction = true;
			continue;
		}
		if (*text < '0' || *text > '9' || whole > 1e12)
			return false;
		whole = whole * 10 + (*text - '0');
		unit *= fraction ? 10 : 1;
		any = true;
	}
	*sigma = whole / unit;
	return any && *sigma <= 10;
}

int predict_parse(struct predict_config *c, const char *text, struct err *e)
{
	*c = (struct predict_config){0};
	for (int i = 0; i < 4; i++)
		if (plain[i] && strcmp(text, plain[i]) == 0) {
			c->kind = (enum predict_kind)i;
			return ERR_NONE;
		}
	c->kind = PREDICT_NOISY;
	if (strncmp(text, "noisy:", 6) == 0 && parse_sigma(text + 6, &c->sigma))
		return ERR_NONE;
	return err_set(
		e, ERR_INPUT,
		"predictor \"%s\": expected max, oracle, mean, or noisy:SIGMA with a relative error from 0 to 10 "
		"such as noisy:0.5",
		text);
}

bool predict_is_oracle(const struct predict_config *c)
{
	return c->kind == PREDICT_ORACLE || (c->kind == PREDICT_NOISY && c->sigma == 0);
}

int predict_init(struct predictor *p, const struct predict_config *c, const struct workload *w, uint64_t seed,
		 struct err *e)
{
	*p = (struct predictor){.cfg = *c, .w = w, .seed = seed};
	if (c->kind != PREDICT_MEAN)
		return ERR_NONE;
	p->seen = mem_zalloc((size_t)w->n_tenants + 1, sizeof *p->seen);
	return p->seen ? ERR_NONE : err_no_memory(e, "predicted lengths");
}

void predict_free(struct predictor *p)
{
	mem_free(p->seen);
	p->seen = NULL;
}

static double noisy(const struct predictor *p, int32_t req, double length)
{
	struct rng r;
	double z = -6;
	rng_init(&r, p->seed, (uint64_t)STREAM << 32 | (uint32_t)req);
	for (int i = 0; i < 12; i++)
		z += rng_unit(&r);
	return length * (1 + p->cfg.sigma * z);
}

int32_t predict_outputs(const struct predictor *p, int32_t req, int32_t most)
{
	const struct spec *s = &p->w->specs[req];
	double length = most;
	if (p->cfg.kind == PREDICT_ORACLE)
		length = s->output_tokens;
	else if (p->cfg.kind == PREDICT_NOISY)
		length = noisy(p, req, s->output_tokens);
	else if (p->cfg.kind == PREDICT_MEAN && p->seen[s->tenant].requests)
		length = (double)p->seen[s->tenant].outputs / (double)p->seen[s->tenant].requests;
	if (length > most)
		return most;
	return length < 1 ? 1 : (int32_t)(length + 0.5);
}

void predict_saw(struct predictor *p, int32_t req, int32_t outputs)
{
	if (!p->seen)
		return;
	struct predict_seen *s = &p->seen[p->w->specs[req].tenant];
	s->requests++;
	s->outputs += outputs;
}
