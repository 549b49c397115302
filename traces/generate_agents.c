#include "traces/generate_agents.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "traces/subset.h"

/* Each thing drawn has its own stream, so that changing one distribution leaves the others' numbers as they were. */
enum stream {
	STREAM_TASK = 0x61676e01,
	STREAM_PROPOSAL,
	STREAM_INSTRUCTION,
	STREAM_REVIEW,
	STREAM_TOOL,
	STREAM_CHOICE,
	STREAM_CONTENT
};

void generate_agents_default(struct generate_agents *g)
{
	*g = (struct generate_agents){.workflows = 50,
				      .branches = 8,
				      .rounds = 2,
				      .depth = 1,
				      .system_tokens = 64,
				      .task = {.kind = DIST_UNIFORM, .a = 16, .b = 48, .hi = 1 << 28},
				      .proposal = {.kind = DIST_UNIFORM, .a = 16, .b = 64, .hi = 1 << 28},
				      .instruction = {.kind = DIST_FIXED, .a = 16, .hi = 1 << 28},
				      .review = {.kind = DIST_UNIFORM, .a = 8, .b = 24, .hi = 1 << 28},
				      .tool = {.kind = DIST_FIXED, .a = 0, .hi = INFINITY}};
	generate_default(&g->start);
}

/* A branch so far: where its latest request is, and that one's prompt. */
struct branch {
	int64_t request; /* -1: none yet */
	int64_t ids_at;
	int32_t n_ids, prompt, output;
	uint64_t output_id;
};

struct making {
	const struct generate_agents *g;
	struct workload *w;
	int64_t workflow;
	struct branch *branches; /* [g->branches] */
	struct rng task, proposal, instruction, review, tool, choice;
	int32_t *parent, *child;
	int64_t n_links;
};

static int check(const struct generate_agents *g, struct err *e)
{
	const struct dist *dists[] = {&g->task, &g->proposal, &g->instruction, &g->review, &g->tool};
	int64_t n = 0;
	if (g->workflows < 1 || g->branches < 1 || g->rounds < 1 || g->depth < 1)
		return err_set(e, ERR_INPUT, "generate: workflows, branches, rounds and depth are at least 1");
	if (g->system_tokens < 0)
		return err_set(e, ERR_INPUT, "generate: the system prompt must have at least 0 tokens");
	for (size_t i = 0; i < sizeof dists / sizeof dists[0]; i++)
		if (dists[i]->kind == DIST_RESAMPLE)
			return err_set(e, ERR_INPUT, "generate: agents' lengths and times cannot be resampled");
	/* Links: a round to the one before it, and all branches of a level to all of the next. */
	int64_t links, joins;
	if (__builtin_mul_overflow(g->workflows, (int64_t)g->branches, &n) ||
	    __builtin_mul_overflow(n, (int64_t)g->rounds, &n) || __builtin_mul_overflow(n, (int64_t)g->depth, &n) ||
	    n > INT32_MAX - 1 || __builtin_mul_overflow(n / g->rounds, (int64_t)g->branches, &joins) ||
	    __builtin_add_overflow(n, joins, &links) || links > INT32_MAX)
		return err_set(e, ERR_INPUT,
			       "generate: %lld workflows of %d branches, %d rounds and %d levels are too many: at most "
			       "2^31 requests and dependencies",
			       (long long)g->workflows, g->branches, g->rounds, g->depth);
	return generate_check(&g->start, e);
}

static int32_t draw(const struct dist *d, struct rng *r, int64_t least)
{
	int64_t x = dist_whole(d, r);
	return (int32_t)(x < least ? least : x > 1 << 28 ? 1 << 28 : x);
}

/* The identity of a piece of content: never 0, the same for the same seed. */
static uint64_t content_id(const struct making *m, uint64_t kind, int64_t a, int64_t b)
{
	uint64_t h = rng_mix(rng_mix(m->g->start.seed ^ STREAM_CONTENT) ^ kind);
	h = rng_mix(rng_mix(h ^ rng_mix((uint64_t)a + 1)) ^ (uint64_t)b);
	return h ? h : 1;
}

enum content { CONTENT_SYSTEM = 1, CONTENT_TASK, CONTENT_INSTRUCTION, CONTENT_ANSWER };

static int add_piece(struct making *m, struct branch *b, uint64_t id, int32_t tokens, struct err *e)
{
	if (!tokens)
		return ERR_NONE;
	if (b->prompt > (1 << 30) - tokens)
		return err_set(e, ERR_INPUT, "generate: a prompt of workflow %lld is longer than 2^30 tokens",
			       (long long)m->workflow + 1);
	b->n_ids++;
	b->prompt += tokens;
	return workload_add_segment(m->w, id, tokens, e);
}

/* The prompt that goes on from `from`: all of its prompt, its answer, the instruction. */
static int add_prompt(struct making *m, struct branch *b, const struct branch *from, uint64_t instruction,
		      int32_t tokens, struct err *e)
{
	struct workload *w = m->w;
	*b = (struct branch){.request = -1, .ids_at = w->n_hash_ids};
	int code = ERR_NONE;
	for (int32_t k = 0; k < from->n_ids && !code; k++)
		code = add_piece(m, b, w->hash_ids[from->ids_at + k], w->seg_tokens[from->ids_at + k], e);
	if (!code && from->output)
		code = add_piece(m, b, from->output_id, from->output, e);
	return code ? code : add_piece(m, b, instruction, tokens, e);
}

static int first_prompt(struct making *m, struct branch *b, struct err *e)
{
	*b = (struct branch){.request = -1, .ids_at = m->w->n_hash_ids};
	int code = add_piece(m, b, content_id(m, CONTENT_SYSTEM, 0, 0), m->g->system_tokens, e);
	int32_t task = draw(&m->g->task, &m->task, 1);
	return code ? code : add_piece(m, b, content_id(m, CONTENT_TASK, m->workflow, 0), task, e);
}

static void link_to(struct making *m, int64_t parent)
{
	m->parent[m->n_links] = (int32_t)parent;
	m->child[m->n_links++] = (int32_t)m->w->n;
}

static int64_t tool_ns(struct making *m)
{
	double s = dist_real(&m->g->tool, &m->tool);
	return (int64_t)((s < 0 ? 0 : s > 1e6 ? 1e6 : s) * 1e9 + 0.5);
}

/* The request of branch `i` with prompt b; whatever it waits for is linked. */
static int add_request(struct making *m, struct branch *b, int32_t level, int32_t round, int32_t i, int64_t when,
		       struct err *e)
{
	const struct generate_agents *g = m->g;
	char name[96];
	int n = snprintf(name, sizeof name, "%lld/%d.%d.%d", (long long)m->workflow + 1, level + 1, round + 1, i + 1);
	struct spec s = {.arrival_ns = when,
			 .hash_at = b->ids_at,
			 .n_hashes = b->n_ids,
			 .prompt_tokens = b->prompt,
			 .session = (int32_t)m->workflow};
	s.output_tokens = round ? draw(&g->review, &m->review, 0) : draw(&g->proposal, &m->proposal, 0);
	if (round + 1 < g->rounds || level + 1 < g->depth)
		s.output_id = content_id(m, CONTENT_ANSWER, m->w->n, 0);
	b->output = s.output_tokens;
	b->output_id = s.output_id;
	b->request = m->w->n;
	int code = workload_add_name(m->w, name, n, &s.name_at, e);
	return code ? code : workload_add(m->w, &s, e);
}

/* All proposals of a level, from one prompt. */
static int propose(struct making *m, int32_t level, int64_t start_ns, struct err *e)
{
	const struct generate_agents *g = m->g;
	struct branch prompt;
	int64_t last = m->w->n; /* those of the level before are right before it, branch by branch */
	int code;
	if (level == 0) {
		code = first_prompt(m, &prompt, e);
	} else {
		const struct branch *chosen = &m->branches[rng_below(&m->choice, (uint64_t)g->branches)];
		int32_t tokens = draw(&g->instruction, &m->instruction, 1);
		code = add_prompt(m, &prompt, chosen, content_id(m, CONTENT_INSTRUCTION, m->workflow, level), tokens,
				  e);
	}
	int64_t when = level ? tool_ns(m) : start_ns;
	for (int32_t i = 0; i < g->branches && !code; i++) {
		for (int32_t k = 0; level > 0 && k < g->branches; k++)
			link_to(m, last - g->branches + k);
		m->branches[i] = prompt;
		code = add_request(m, &m->branches[i], level, 0, i, when, e);
	}
	return code;
}

/* One more request in each branch. The instruction is the same text in all. */
static int review(struct making *m, int32_t level, int32_t round, struct err *e)
{
	const struct generate_agents *g = m->g;
	int32_t tokens = draw(&g->instruction, &m->instruction, 1);
	uint64_t id = content_id(m, CONTENT_INSTRUCTION, -1 - m->workflow, (int64_t)level * g->rounds + round);
	int code = ERR_NONE;
	for (int32_t i = 0; i < g->branches && !code; i++) {
		struct branch from = m->branches[i];
		link_to(m, from.request);
		code = add_prompt(m, &m->branches[i], &from, id, tokens, e);
		if (!code)
			code = add_request(m, &m->branches[i], level, round, i, tool_ns(m), e);
	}
	return code;
}

static int add_workflow(struct making *m, int64_t start_ns, struct err *e)
{
	int code = ERR_NONE;
	for (int32_t level = 0; level < m->g->depth && !code; level++) {
		code = propose(m, level, start_ns, e);
		for (int32_t round = 1; round < m->g->rounds && !code; round++)
			code = review(m, level, round, e);
	}
	return code;
}

static int fill(struct making *m, struct err *e)
{
	const struct generate_agents *g = m->g;
	int64_t n = g->workflows * g->branches * g->rounds * g->depth;
	int64_t links = n + n / g->rounds * g->branches;
	int64_t *start_ns = mem_alloc((size_t)g->workflows * sizeof *start_ns);
	m->branches = mem_alloc((size_t)g->branches * sizeof *m->branches);
	m->parent = mem_alloc((size_t)links * sizeof *m->parent);
	m->child = mem_alloc((size_t)links * sizeof *m->child);
	int code = ERR_NONE;
	if (!start_ns || !m->branches || !m->parent || !m->child)
		code = err_no_memory(e, "workflows");
	if (!code)
		code = generate_arrivals(&g->start, g->workflows, start_ns, e);
	for (m->workflow = 0; m->workflow < g->workflows && !code; m->workflow++)
		code = add_workflow(m, start_ns[m->workflow], e);
	if (!code && m->n_links)
		code = workload_link(m->w, m->parent, m->child, m->n_links, e);
	if (!code)
		code = subset_sort(m->w, e);
	for (int64_t i = 0; i < m->w->n; i++)
		m->w->specs[i].row = (int32_t)i + 1;
	mem_free(start_ns);
	return code;
}

int generate_agents(struct workload *w, const struct generate_agents *g, struct err *e)
{
	struct making m = {.g = g, .w = w};
	int code = check(g, e);
	if (code)
		return code;
	rng_init(&m.task, g->start.seed, STREAM_TASK);
	rng_init(&m.proposal, g->start.seed, STREAM_PROPOSAL);
	rng_init(&m.instruction, g->start.seed, STREAM_INSTRUCTION);
	rng_init(&m.review, g->start.seed, STREAM_REVIEW);
	rng_init(&m.tool, g->start.seed, STREAM_TOOL);
	rng_init(&m.choice, g->start.seed, STREAM_CHOICE);
	code = fill(&m, e);
	mem_free(m.branches);
	mem_free(m.parent);
	mem_free(m.child);
	if (code)
		workload_free(w);
	return code;
}
