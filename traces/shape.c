#include "traces/shape.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "traces/dist.h"
#include "traces/subset.h"

/* Lengths are scaled by a whole number of billionths, so that 0.07 x 100 is 7 and not 8. */
#define SCALE_ONE INT64_C(1000000000)
/* 73 years: later arrivals become this, so that sums of times stay within 64 bits. */
#define LATEST_NS 0x1p61
#define STREAM_ARRIVALS 0x6172726976616c73

void shape_default(struct shape *s)
{
	*s = (struct shape){.burstiness = 1,
			    .replay_speedup = 1,
			    .length_scale = 1,
			    .samples = 1,
			    .beam_every = 8,
			    .max_tokens_mode = MAX_TOKENS_MAX,
			    .max_tokens_cap = 2048};
}

int shape_parse_max_tokens(const char *text, struct shape *s, struct err *e)
{
	static const struct {
		const char *name;
		enum max_tokens_mode mode;
	} modes[] = {{"max", MAX_TOKENS_MAX}, {"pow2", MAX_TOKENS_POW2}, {"oracle", MAX_TOKENS_ORACLE}};
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
		if (!strcmp(text, modes[i].name)) {
			s->max_tokens_mode = modes[i].mode;
			return ERR_NONE;
		}
	char *end;
	long long n = strtoll(text, &end, 10);
	if (end == text || *end || n < 1 || n > INT32_MAX)
		return err_set(e, ERR_INPUT,
			       "--max-tokens-mode: \"%s\" is none of max, pow2, oracle, or a whole number above 0",
			       text);
	s->max_tokens_mode = MAX_TOKENS_MAX;
	s->max_tokens_cap = (int32_t)n;
	return ERR_NONE;
}

static int check(const struct shape *s, struct err *e)
{
	if (s->num_prompts < 0)
		return err_set(e, ERR_INPUT, "--num-prompts %lld: must be at least 0", (long long)s->num_prompts);
	if (!(s->request_rate >= 0))
		return err_set(e, ERR_INPUT, "--request-rate %g: must be at least 0", s->request_rate);
	if (s->request_rate > 0 && s->request_rate < 1e-6)
		return err_set(e, ERR_INPUT, "--request-rate %g: less than one request in 11 days", s->request_rate);
	if (!(s->burstiness > 0))
		return err_set(e, ERR_INPUT, "--burstiness %g: must be above 0", s->burstiness);
	if (!(s->replay_speedup > 0) || isinf(s->replay_speedup))
		return err_set(e, ERR_INPUT, "--replay-speedup %g: must be above 0", s->replay_speedup);
	if (!(s->length_scale >= 1e-6 && s->length_scale <= 1e6))
		return err_set(e, ERR_INPUT, "--length-scale %g: must be in 1e-6 .. 1e6", s->length_scale);
	if (s->samples < 0 || s->samples > SHAPE_SAMPLES)
		return err_set(e, ERR_INPUT, "--n %d: must be in 1 .. %d", s->samples, SHAPE_SAMPLES);
	if (s->beam_width < 0 || s->beam_width > SHAPE_SAMPLES || (s->beam_width > 1 && s->beam_every < 1))
		return err_set(e, ERR_INPUT, "--beam-width %d, --beam-every %d: must be in 1 .. %d, and at least 1",
			       s->beam_width, s->beam_every, SHAPE_SAMPLES);
	if (s->beam_width > 1 && s->samples > 1)
		return err_set(e, ERR_INPUT, "--n %d and --beam-width %d: samples or beams, give one of them",
			       s->samples, s->beam_width);
	if (s->max_tokens_cap < 1)
		return err_set(e, ERR_INPUT, "--max-tokens-mode %d: must be above 0", (int)s->max_tokens_cap);
	if (s->request_rate > 0 && s->replay_speedup != 1)
		return err_set(e, ERR_INPUT,
			       "--request-rate %g replaces the trace's arrivals, so --replay-speedup %g has nothing to "
			       "speed up: give one of them",
			       s->request_rate, s->replay_speedup);
	if (s->request_rate == 0 && s->burstiness != 1)
		return err_set(e, ERR_INPUT,
			       "--burstiness %g shapes the arrivals made by --request-rate: give that as well",
			       s->burstiness);
	return ERR_NONE;
}

static int keep_first(struct workload *w, int64_t n, struct err *e)
{
	if (n == 0 || n >= w->n)
		return ERR_NONE;
	struct slice s;
	slice_default(&s);
	s.num_prompts = n;
	return slice_apply(w, &s, NULL, e);
}

/* ceil(tokens x scale / 10^9), exactly; tokens < 2^31 and scale <= 10^15. */
static int64_t scale_up(int64_t tokens, int64_t scale)
{
	return tokens * (scale / SCALE_ONE) + (tokens * (scale % SCALE_ONE) + SCALE_ONE - 1) / SCALE_ONE;
}

static int scale_field(int32_t *field, int64_t scale, int32_t least, const char *what, const struct spec *s,
		       struct err *e)
{
	int64_t x = scale_up(*field, scale);
	if (x > INT32_MAX)
		return err_set(e, ERR_INPUT, "row %d: %s of %d tokens scaled by %.9g passes 2^31 - 1", s->row, what,
			       *field, (double)scale / (double)SCALE_ONE);
	*field = x < least ? least : (int32_t)x;
	return ERR_NONE;
}

/* The content ids of one request, whose prompt has its new length, appended to ids and tokens. */
static void scale_ids(const struct workload *w, const struct spec *s, int64_t scale, uint64_t *ids, int32_t *tokens,
		      int64_t *at)
{
	int64_t end = 0, done = 0;
	uint64_t pending = 0; /* of ids left without tokens: part of what comes next */
	for (int64_t k = s->hash_at; k < s->hash_at + s->n_hashes; k++) {
		end += w->seg_tokens ? w->seg_tokens[k] : w->hash_block;
		end = end > INT32_MAX ? INT32_MAX : end; /* no prompt is longer */
		int64_t to = scale_up(end, scale);
		to = to < s->prompt_tokens ? to : s->prompt_tokens; /* a last block is the prompt's rest */
		uint64_t id = pending ? rng_mix(pending ^ rng_mix(w->hash_ids[k])) : w->hash_ids[k];
		if (to == done) {
			pending = id ? id : 1;
			continue;
		}
		ids[*at] = id;
		tokens[(*at)++] = to - done > INT32_MAX ? INT32_MAX : (int32_t)(to - done);
		done = to;
		pending = 0;
	}
}

static int scale_content(struct workload *w, int64_t scale, struct err *e)
{
	if (!w->n_hash_ids)
		return ERR_NONE;
	/* Blocks that stay whole stay blocks. */
	int64_t block =
		(int64_t)w->hash_block * (scale / SCALE_ONE) + (int64_t)w->hash_block * (scale % SCALE_ONE) / SCALE_ONE;
	bool exact = !((int64_t)w->hash_block * (scale % SCALE_ONE) % SCALE_ONE) && block > 0 && block <= INT32_MAX;
	if (!w->seg_tokens && exact) {
		w->hash_block = (int32_t)block;
		return ERR_NONE;
	}
	int64_t total = 0, at = 0;
	for (int64_t i = 0; i < w->n; i++)
		total += w->specs[i].n_hashes;
	uint64_t *ids = mem_alloc((size_t)(total + 1) * sizeof *ids);
	int32_t *tokens = mem_alloc((size_t)(total + 1) * sizeof *tokens);
	if (!ids || !tokens) {
		mem_free(ids);
		mem_free(tokens);
		return err_no_memory(e, "content ids");
	}
	for (int64_t i = 0; i < w->n; i++) {
		int64_t from = at;
		scale_ids(w, &w->specs[i], scale, ids, tokens, &at);
		w->specs[i].hash_at = from;
		w->specs[i].n_hashes = (int32_t)(at - from);
	}
	mem_free(w->hash_ids);
	mem_free(w->seg_tokens);
	w->hash_ids = ids;
	w->seg_tokens = tokens;
	w->n_hash_ids = at;
	w->cap_hash_ids = w->cap_seg_tokens = total + 1;
	w->hash_block = 0;
	return ERR_NONE;
}

/* Its prompt has its new length. */
static int scale_fork(struct spec *s, int64_t scale, struct err *e)
{
	int32_t at = spec_fork_tokens(s);
	int code = scale_field(&at, scale, 1, "fork_at", s, e);
	if (at > s->prompt_tokens)
		at = s->prompt_tokens;
	s->fork_at = s->fork_at < 0 ? -at : at;
	return code;
}

static int scale_lengths(struct workload *w, double factor, struct err *e)
{
	int64_t scale = (int64_t)(factor * (double)SCALE_ONE + 0.5);
	if (scale == SCALE_ONE)
		return ERR_NONE;
	for (int64_t i = 0; i < w->n; i++) {
		struct spec *s = &w->specs[i];
		int code = scale_field(&s->prompt_tokens, scale, 1, "a prompt", s, e);
		if (!code)
			code = scale_field(&s->output_tokens, scale, 0, "an output", s, e);
		if (!code)
			code = scale_field(&s->max_tokens, scale, 0, "max_tokens", s, e);
		if (!code && s->fork_at)
			code = scale_fork(s, scale, e);
		if (code)
			return code;
	}
	return scale_content(w, scale, e);
}

static int speed_up(struct workload *w, double factor, struct err *e)
{
	if (factor == 1)
		return ERR_NONE;
	for (int64_t i = 0; i < w->n; i++) {
		double at = (double)w->specs[i].arrival_ns / factor + 0.5;
		w->specs[i].arrival_ns = at < LATEST_NS ? (int64_t)at : (int64_t)LATEST_NS;
	}
	return w->n_parents ? subset_sort(w, e) : ERR_NONE;
}

/* To the nearest nanosecond, and not past LATEST_NS. */
static double whole(double ns)
{
	return ns < LATEST_NS ? (double)(int64_t)(ns + 0.5) : LATEST_NS;
}

static int new_arrivals(struct workload *w, const struct shape *s, struct err *e)
{
	struct rng r;
	rng_init(&r, s->seed, STREAM_ARRIVALS);
	double at = 0; /* whole nanoseconds: exact up to 2^53, 104 days; beyond that rounded alike everywhere */
	int64_t k = 0;
	double gap_ns = (double)NS_PER_S / s->request_rate; /* 0 for an unlimited rate */
	for (int64_t i = 0; i < w->n; i++) {
		if (w->n_parents && w->n_parents[i])
			continue;
		if (k && gap_ns > 0 && isinf(s->burstiness))
			at = whole((double)k * gap_ns);
		else if (k && gap_ns > 0)
			at = whole(at + whole(dist_gap(&r, s->burstiness) * gap_ns));
		w->specs[i].arrival_ns = (int64_t)at;
		k++;
	}
	return w->n_parents ? subset_sort(w, e) : ERR_NONE;
}

int shape_apply(struct workload *w, const struct shape *s, struct err *e)
{
	int code = check(s, e);
	if (!code)
		code = keep_first(w, s->num_prompts, e);
	if (!code)
		code = scale_lengths(w, s->length_scale, e);
	if (!code && s->request_rate > 0)
		code = new_arrivals(w, s, e);
	if (!code && s->request_rate == 0)
		code = speed_up(w, s->replay_speedup, e);
	if (!code)
		workload_set_max_tokens(w, s->max_tokens_mode, s->max_tokens_cap);
	return code ? code : shape_samples(w, s, e);
}
