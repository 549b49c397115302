#include "analysis/generate.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/single.h"

#define MOST_LOGIT_BYTES (INT64_C(1) << 30)

const char *const generation_end_names[] = {"length", "eos", "stopped", NULL};

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A loaded model with its one sequence. */
struct session {
	struct executor *x;
	struct single one;
};

static int session_open(struct session *o, const struct generate_setup *s, const struct executor_setup *how,
			struct err *e)
{
	struct executor_setup setup = *how;
	int32_t longest = s->n_prompt + s->n_new;
	*o = (struct session){0};
	setup.num_blocks = setup.kv_off ? 1 : SINGLE_PAGES(longest, setup.block_size);
	int rc = executor_open(&o->x, &setup, s->model, e);
	if (!rc)
		rc = single_open(&o->one, o->x->runner, setup.block_size, longest, setup.kv_off, e);
	o->one.kv_window = s->kv_window;
	o->one.kv_sink = s->kv_sink;
	return rc;
}

static void session_close(struct session *o)
{
	single_close(&o->one);
	executor_close(o->x);
}

static bool stopped(const struct generate_setup *s)
{
	return s->stop && *s->stop;
}

/* The prompt in pieces; a token is sampled after the last. */
static int prefill(struct session *o, const struct generate_setup *s, int32_t *token, struct err *e)
{
	int rc = ERR_NONE;
	for (int32_t at = 0; at < s->n_prompt && !rc;) {
		int32_t n = s->n_prompt - at < s->chunk ? s->n_prompt - at : s->chunk;
		if (stopped(s))
			return err_set(e, ERR_INTERRUPTED, "interrupted");
		rc = single_step(&o->one, s->prompt + at, n, at + n == s->n_prompt ? token : NULL, e);
		at += n;
	}
	return rc;
}

static bool ends(const struct generate_setup *s, int32_t token)
{
	for (int32_t i = 0; i < s->n_eos; i++)
		if (s->eos[i] == token)
			return true;
	return false;
}

static int sample_on(struct session *o, const struct generate_setup *s, int32_t token, struct generation *g,
		     struct err *e)
{
	int rc = ERR_NONE;
	for (;;) {
		if (ends(s, token)) {
			g->end = END_EOS;
			return ERR_NONE;
		}
		g->tokens[g->n++] = token;
		if (s->token)
			s->token(s->ctx, token);
		g->end = stopped(s) ? END_STOPPED : END_LENGTH;
		if (g->n == s->n_new || g->end == END_STOPPED)
			return ERR_NONE;
		double began = seconds();
		rc = single_step(&o->one, &token, 1, &token, e);
		if (rc)
			return rc;
		g->decode_s += seconds() - began;
		g->decode_tokens++;
	}
}

int generate(const struct generate_setup *s, struct generation *g, struct err *e)
{
	struct session o;
	int32_t token = -1;
	*g = (struct generation){.prefill_tokens = s->n_prompt};
	g->tokens = mem_alloc((size_t)s->n_new * sizeof *g->tokens);
	if (!g->tokens)
		return err_no_memory(e, "generated tokens");
	int rc = session_open(&o, s, &s->executor, e);
	if (!rc && s->loaded)
		s->loaded(s->ctx);
	if (!rc) {
		double began = seconds();
		memcpy(g->what, o.x->what, sizeof g->what);
		memcpy(g->weights_what, o.x->weights_what, sizeof g->weights_what);
		g->load_s = o.x->load_s;
		rc = prefill(&o, s, &token, e);
		g->prefill_s = seconds() - began;
	}
	if (!rc)
		rc = sample_on(&o, s, token, g, e);
	if (o.x && o.x->runner) {
		g->weight_bytes = runner_weight_bytes(o.x->runner);
		g->kv_bytes = runner_kv_bytes(o.x->runner);
	}
	session_close(&o);
	return rc;
}

void generation_free(struct generation *g)
{
	mem_free(g->tokens);
	*g = (struct generation){0};
}

/* ---- likeness ---------------------------------------------------------------------------------------------------- */

static int last_logits(const struct session *o, const float **logits, struct err *e)
{
	int32_t rows;
	return runner_logits(o->x->runner, logits, &rows, e);
}

/* Along its own greedy tokens; the logits of every step into `logits`. */
static int lead(struct session *o, const struct generate_setup *s, float *logits, struct likeness *l, struct err *e)
{
	const int64_t vocab = s->model->vocab;
	const float *x;
	int32_t token = -1, most = l->steps;
	int rc = prefill(o, s, &token, e);
	for (l->steps = 0; !rc; rc = single_step(&o->one, &token, 1, &token, e)) {
		rc = last_logits(o, &x, e);
		if (rc)
			break;
		memcpy(logits + l->steps * vocab, x, (size_t)vocab * sizeof *x);
		l->tokens[l->steps++] = token;
		if (l->steps == most || ends(s, token))
			break;
		if (stopped(s))
			return err_set(e, ERR_INTERRUPTED, "interrupted");
	}
	return rc;
}

/* Along the other one's tokens. */
static int follow(struct session *o, const struct generate_setup *s, const float *logits, struct likeness *l,
		  struct err *e)
{
	const int32_t vocab = s->model->vocab;
	const float *x;
	double wrong = 0, size = 0;
	int32_t token = -1;
	int rc = prefill(o, s, &token, e);
	for (int32_t i = 0; !rc; rc = single_step(&o->one, &l->tokens[i++], 1, &token, e)) {
		const float *r = logits + (int64_t)i * vocab;
		double step_wrong = 0, step_size = 0;
		rc = last_logits(o, &x, e);
		if (rc)
			break;
		for (int32_t k = 0; k < vocab; k++) {
			double d = (double)x[k] - (double)r[k];
			step_wrong += d * d;
			step_size += (double)r[k] * (double)r[k];
		}
		wrong += step_wrong;
		size += step_size;
		l->agree += token == l->tokens[i];
		if (step_size > 0)
			l->worst = fmax(l->worst, sqrt(step_wrong / step_size));
		if (i + 1 == l->steps)
			break;
		if (stopped(s))
			return err_set(e, ERR_INTERRUPTED, "interrupted");
	}
	l->error = size > 0 ? sqrt(wrong / size) : 0;
	return rc;
}

int generate_compare(const struct generate_setup *s, enum num weight_type, enum num kv_type, bool keep_all,
		     struct likeness *l, struct err *e)
{
	struct executor_setup mine = s->executor, other;
	struct session o;
	int64_t most = MOST_LOGIT_BYTES / ((int64_t)s->model->vocab * (int64_t)sizeof(float));
	*l = (struct likeness){.steps = s->n_new < most ? s->n_new : (int32_t)most};
	mine.sampling = SAMPLING_GREEDY;
	other = mine;
	other.weight_type = weight_type;
	other.kv_type = kv_type;
	l->tokens = mem_alloc((size_t)l->steps * sizeof *l->tokens);
	float *logits = mem_alloc((size_t)l->steps * (size_t)s->model->vocab * sizeof *logits);
	int rc = l->tokens && logits ? ERR_NONE : err_no_memory(e, "the logits to compare");
	if (!rc) {
		rc = session_open(&o, s, &other, e);
		if (keep_all)
			o.one.kv_window = o.one.kv_sink = 0;
		if (!rc) {
			memcpy(l->weights_what, o.x->weights_what, sizeof l->weights_what);
			rc = lead(&o, s, logits, l, e);
		}
		session_close(&o); /* one model at a time */
	}
	if (!rc) {
		rc = session_open(&o, s, &mine, e);
		if (!rc)
			rc = follow(&o, s, logits, l, e);
		session_close(&o);
	}
	mem_free(logits);
	return rc;
}

void likeness_free(struct likeness *l)
{
	mem_free(l->tokens);
	*l = (struct likeness){0};
}
