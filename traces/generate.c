#include "traces/generate.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "traces/subset.h"

const char *const arrivals_names[] = {"poisson", "gamma", "constant", "ramp", "at-once", NULL};

/* Each thing drawn has its own stream, so that changing one distribution leaves the others' numbers as they were. */
enum stream { STREAM_TURNS = 0x67656e01, STREAM_LENGTHS, STREAM_ARRIVALS, STREAM_THINK, STREAM_SYSTEM, STREAM_IDS };

void generate_default(struct generate *g)
{
	*g = (struct generate){.n = 1000,
			       .input = {.kind = DIST_LOGNORMAL, .a = 512, .b = 1, .hi = 1 << 20},
			       .output = {.kind = DIST_LOGNORMAL, .a = 128, .b = 1, .hi = 1 << 20},
			       .rate = 1,
			       .rate_end = 1,
			       .burstiness = 1,
			       .turns = {.kind = DIST_FIXED, .a = 1, .hi = INFINITY},
			       .think = {.kind = DIST_FIXED, .a = 0, .hi = INFINITY},
			       .system_prompts = 1};
}

struct plan {
	const struct generate *g;
	int32_t *turns; /* [sessions] requests of each */
	int64_t *start_ns; /* [sessions] */
	int64_t n_sessions, cap_turns;
	bool shares; /* prompts have content ids */
	bool chains; /* some session has several turns */
	struct rng lengths, think, system;
	/* links, as they come */
	int32_t *parent, *child;
	int64_t n_links;
};

/* A session in the making. */
struct talk {
	int64_t index;
	int32_t system; /* which system prompt */
	int32_t context; /* tokens said so far */
	int64_t ids_at; /* the content ids of the latest prompt */
	int32_t n_ids;
	uint64_t output_id; /* of the latest answer, 0 = none */
	int32_t output;
};

int generate_check(const struct generate *g, struct err *e)
{
	const struct {
		const char *name;
		bool bad;
		const char *why;
	} rules[] = {
		{"number of requests", g->n < 1 || g->n > INT32_MAX - 1, "must be in 1 .. 2^31 - 2"},
		{"request rate", g->arrivals != ARRIVALS_AT_ONCE && !(g->rate >= 1e-6 && g->rate <= 1e12),
		 "must be at least 1e-6 requests/s"},
		{"request rate at the end",
		 g->arrivals == ARRIVALS_RAMP && !(g->rate_end >= 1e-6 && g->rate_end <= 1e12),
		 "must be at least 1e-6 requests/s"},
		{"burstiness", g->arrivals == ARRIVALS_GAMMA && !(g->burstiness >= 1e-3), "must be at least 0.001"},
		{"number of turns", g->turns.kind == DIST_RESAMPLE, "cannot be resampled from a trace"},
		{"thinking time", g->think.kind == DIST_RESAMPLE, "cannot be resampled from a trace"},
		{"system prompt", g->system_tokens < 0, "must have at least 0 tokens"},
		{"number of system prompts", g->system_prompts < 1, "must be at least 1"},
		{"longest context", g->max_context && g->max_context < g->system_tokens + 2,
		 "leaves no room after the system prompt"},
		{"input lengths", g->input.kind == DIST_RESAMPLE && !(g->input_from && g->input_from->n),
		 "have no trace to be resampled from"},
		{"output lengths", g->output.kind == DIST_RESAMPLE && !(g->output_from && g->output_from->n),
		 "have no trace to be resampled from"},
	};
	for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
		if (rules[i].bad)
			return err_set(e, ERR_INPUT, "generate: the %s %s", rules[i].name, rules[i].why);
	return ERR_NONE;
}

static int plan_sessions(struct plan *p, struct err *e)
{
	struct rng r;
	rng_init(&r, p->g->seed, STREAM_TURNS);
	for (int64_t left = p->g->n; left > 0;) {
		int64_t turns = dist_whole(&p->g->turns, &r);
		turns = turns < 1 ? 1 : turns > left ? left : turns;
		if (mem_grow((void **)&p->turns, &p->cap_turns, p->n_sessions + 1, sizeof *p->turns))
			return err_no_memory(e, "sessions");
		p->turns[p->n_sessions++] = (int32_t)turns;
		p->chains |= turns > 1;
		left -= turns;
	}
	return ERR_NONE;
}

/* When a Poisson process of linearly growing rate has seen `events` (in expectation): the inverse of its integral. */
static double ramp_time(const struct generate *g, double sessions, double events)
{
	double end_s = 2 * sessions / (g->rate + g->rate_end), slope = (g->rate_end - g->rate) / end_s;
	if (events <= 0)
		return 0;
	if (events >= sessions) /* the ramp is over */
		return end_s + (events - sessions) / g->rate_end;
	double root = g->rate * g->rate + 2 * slope * events;
	return 2 * events / (g->rate + sqrt(root > 0 ? root : 0));
}

int generate_arrivals(const struct generate *g, int64_t n, int64_t *start_ns, struct err *e)
{
	struct rng r;
	rng_init(&r, g->seed, STREAM_ARRIVALS);
	double s = 0; /* seconds, or expected events for a ramp */
	for (int64_t i = 0; i < n; i++) {
		double at = s;
		if (g->arrivals == ARRIVALS_CONSTANT)
			at = (double)i / g->rate;
		else if (g->arrivals == ARRIVALS_RAMP)
			at = ramp_time(g, (double)n, s);
		if (at > 2e9)
			return err_set(e, ERR_INPUT, "generate: session %lld would start after 63 years",
				       (long long)i + 1);
		start_ns[i] = (int64_t)(at * 1e9 + 0.5);
		if (g->arrivals == ARRIVALS_POISSON || g->arrivals == ARRIVALS_GAMMA)
			s += dist_gap(&r, g->arrivals == ARRIVALS_GAMMA ? g->burstiness : 1) / g->rate;
		else if (g->arrivals == ARRIVALS_RAMP)
			s += dist_exponential(&r);
	}
	return ERR_NONE;
}

static int32_t clamp(int64_t x, int64_t lo, int64_t hi)
{
	return (int32_t)(x < lo ? lo : x > hi ? hi : x);
}

/* New text and answer of one turn. */
static void draw_lengths(struct plan *p, int32_t *input, int32_t *output)
{
	const struct generate *g = p->g;
	int64_t in, out, row = -1;
	if (g->input.kind == DIST_RESAMPLE) {
		row = (int64_t)rng_below(&p->lengths, (uint64_t)g->input_from->n);
		in = g->input_from->specs[row].prompt_tokens;
	} else {
		in = dist_whole(&g->input, &p->lengths);
	}
	if (g->output.kind == DIST_RESAMPLE) {
		if (row < 0 || g->output_from != g->input_from)
			row = (int64_t)rng_below(&p->lengths, (uint64_t)g->output_from->n);
		out = g->output_from->specs[row].output_tokens;
	} else {
		out = dist_whole(&g->output, &p->lengths);
	}
	*input = clamp(in, 1, 1 << 28);
	*output = clamp(out, 0, 1 << 28);
}

/* The identity of a piece of content: never 0, the same for the same seed. */
static uint64_t content_id(const struct generate *g, uint64_t kind, uint64_t a, uint64_t b)
{
	uint64_t id = rng_mix(rng_mix(rng_mix(g->seed ^ STREAM_IDS) ^ kind) ^ rng_mix(a) * 3 ^ rng_mix(~b));
	return id ? id : 1;
}

enum content { CONTENT_SYSTEM = 1, CONTENT_TEXT, CONTENT_ANSWER };

static int add_piece(struct workload *w, struct talk *t, uint64_t id, int32_t tokens, struct err *e)
{
	if (tokens == 0)
		return ERR_NONE;
	t->n_ids++;
	return workload_add_segment(w, id, tokens, e);
}

/* The ids of turn k's prompt: those of turn k - 1, its answer, the new text (named only where a later turn repeats
 * it; as the end of a lone prompt it is that prompt's own). */
static int add_content(struct plan *p, struct workload *w, struct talk *t, int32_t turn, int32_t input, struct err *e)
{
	const struct generate *g = p->g;
	int64_t from = t->ids_at;
	int32_t n = t->n_ids;
	t->ids_at = w->n_hash_ids;
	t->n_ids = 0;
	int code = ERR_NONE;
	for (int32_t i = 0; i < n && !code; i++)
		code = add_piece(w, t, w->hash_ids[from + i], w->seg_tokens[from + i], e);
	if (!code && turn == 0)
		code = add_piece(w, t, content_id(g, CONTENT_SYSTEM, (uint64_t)t->system, 0), g->system_tokens, e);
	if (!code && turn > 0 && t->output_id)
		code = add_piece(w, t, t->output_id, t->output, e);
	if (!code && p->chains)
		code = add_piece(w, t, content_id(g, CONTENT_TEXT, (uint64_t)t->index, (uint64_t)turn), input, e);
	return code;
}

/* Cuts the first turn to the longest context; false: a later turn does not fit, the session ends. */
static bool fits(const struct generate *g, const struct talk *t, int32_t turn, int32_t *input, int32_t *output)
{
	int64_t room = (g->max_context ? g->max_context : INT32_MAX) - (int64_t)t->context;
	if ((int64_t)*input + *output <= room)
		return true;
	if (turn > 0)
		return false;
	if (*output > room - 1)
		*output = (int32_t)(room - 1);
	*input = (int32_t)(room - *output);
	return true;
}

static void add_link(struct plan *p, int64_t child)
{
	p->parent[p->n_links] = (int32_t)(child - 1);
	p->child[p->n_links++] = (int32_t)child;
}

static int add_session(struct plan *p, struct workload *w, int64_t s, struct err *e)
{
	const struct generate *g = p->g;
	struct talk t = {.index = s, .context = g->system_tokens};
	t.system = g->system_prompts > 1 ? (int32_t)rng_below(&p->system, (uint64_t)g->system_prompts) : 0;
	for (int32_t k = 0; k < p->turns[s]; k++) {
		int32_t input, output;
		draw_lengths(p, &input, &output);
		double think = k ? dist_real(&g->think, &p->think) : 0;
		if (!fits(g, &t, k, &input, &output))
			return ERR_NONE;
		int code = p->shares ? add_content(p, w, &t, k, input, e) : ERR_NONE;
		if (code)
			return code;
		bool last = k + 1 == p->turns[s];
		t.context += input + output;
		t.output = output;
		t.output_id = last || !output ? 0 : content_id(g, CONTENT_ANSWER, (uint64_t)s, (uint64_t)k);
		struct spec spec = {
			.arrival_ns = k ? (int64_t)((think < 0     ? 0
						     : think > 1e9 ? 1e9
								   : think) *
							    1e9 +
						    0.5)
					: p->start_ns[s],
			.hash_at = t.ids_at,
			.n_hashes = t.n_ids,
			.name_at = -1,
			.output_id = t.output_id,
			.prompt_tokens = t.context - output,
			.output_tokens = output,
			.session = p->chains ? (int32_t)s : -1,
		};
		if (k)
			add_link(p, w->n);
		if ((code = workload_add(w, &spec, e)))
			return code;
	}
	return ERR_NONE;
}

static int fill(struct plan *p, struct workload *w, struct err *e)
{
	const struct generate *g = p->g;
	rng_init(&p->lengths, g->seed, STREAM_LENGTHS);
	rng_init(&p->think, g->seed, STREAM_THINK);
	rng_init(&p->system, g->seed, STREAM_SYSTEM);
	p->shares = p->chains || g->system_tokens > 0;
	p->start_ns = mem_alloc((size_t)p->n_sessions * sizeof *p->start_ns);
	int code = p->start_ns ? generate_arrivals(g, p->n_sessions, p->start_ns, e) : err_no_memory(e, "sessions");
	if (!code && p->chains) {
		p->parent = mem_alloc((size_t)g->n * sizeof *p->parent);
		p->child = mem_alloc((size_t)g->n * sizeof *p->child);
		if (!p->parent || !p->child)
			code = err_no_memory(e, "sessions");
	}
	for (int64_t s = 0; !code && s < p->n_sessions; s++)
		code = add_session(p, w, s, e);
	if (!code)
		code = workload_link(w, p->parent, p->child, p->n_links, e);
	if (!code)
		code = subset_sort(w, e);
	for (int64_t i = 0; i < w->n; i++)
		w->specs[i].row = (int32_t)i + 1;
	return code;
}

int generate_workload(struct workload *w, const struct generate *g, struct err *e)
{
	struct plan p = {.g = g};
	int code = generate_check(g, e);
	if (!code)
		code = plan_sessions(&p, e);
	if (!code)
		code = fill(&p, w, e);
	mem_free(p.turns);
	mem_free(p.start_ns);
	mem_free(p.parent);
	mem_free(p.child);
	if (code)
		workload_free(w);
	return code;
}
