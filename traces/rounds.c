/* Sessions of agents, round by round: each prompt begins with what was said before it. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "traces/reader_impl.h"

static int copy_run(struct trace_reader *r, struct trace_run *run, struct err *e)
{
	struct workload *w = r->w;
	int64_t at = w->n_hash_ids;
	int code = ERR_NONE;
	for (int32_t k = 0; k < run->n && !code; k++)
		code = workload_add_segment(w, w->hash_ids[run->at + k], w->seg_tokens[run->at + k], e);
	run->at = at;
	return code;
}

int trace_run_add(struct trace_reader *r, struct trace_run *run, uint64_t id, int64_t tokens, struct err *e)
{
	if (tokens == 0)
		return ERR_NONE;
	int code = run->at + run->n == r->w->n_hash_ids ? ERR_NONE : copy_run(r, run, e);
	if (!code)
		code = workload_add_segment(r->w, id, (int32_t)tokens, e);
	if (code)
		return code;
	run->n++;
	run->tokens += tokens;
	return ERR_NONE;
}

int trace_run_cut(struct trace_reader *r, struct trace_run *run, int64_t tokens, struct err *e)
{
	int64_t more = 0;
	uint64_t id = 0;
	while (run->tokens > tokens) {
		int64_t last = run->at + --run->n;
		id = r->w->hash_ids[last];
		run->tokens -= r->w->seg_tokens[last];
		more = tokens - run->tokens;
	}
	/* The piece that is cut through. */
	return more > 0 ? trace_run_add(r, run, id, more, e) : ERR_NONE;
}

void trace_talks_free(struct trace_talks *t)
{
	mem_free(t->at);
	*t = (struct trace_talks){0};
}

int trace_talk(struct trace_reader *r, struct trace_talks *t, const char *field, const char *name, size_t n,
	       int32_t *session, struct trace_talk **talk, struct err *e)
{
	if (!n)
		return trace_bad(r, input_line_number(r->in), field, NULL, 0, "is empty", e);
	if (trace_session(r, name, n, session, e))
		return ERR_MEMORY;
	if (mem_grow((void **)&t->at, &t->cap, *session + 1, sizeof *t->at))
		return err_no_memory(e, "sessions");
	while (t->n <= *session)
		t->at[t->n++] = (struct trace_talk){.request = -1};
	*talk = &t->at[*session];
	(*talk)->text = trace_text_id(name, n);
	return ERR_NONE;
}

/* What a round adds to its session: its text (part 0), its answer (part 1). */
static uint64_t part_id(const struct trace_talk *t, int64_t number, uint64_t part)
{
	uint64_t id = rng_mix(t->text ^ rng_mix(2 * (uint64_t)number + part));
	return id ? id : 1;
}

static int grow_prompt(struct trace_reader *r, const struct trace_talk *t, const struct trace_round *x,
		       struct trace_run *run, struct err *e)
{
	int64_t said = run->tokens;
	int code = x->kept <= said ? trace_run_cut(r, run, x->kept, e)
				   : trace_run_add(r, run, t->output_id, x->kept - said, e);
	return code ? code : trace_run_add(r, run, part_id(t, x->number, 0), x->prompt - x->kept, e);
}

static int name_round(struct trace_reader *r, const struct trace_round *x, struct spec *s, struct err *e)
{
	const char *session = idmap_text(&r->sessions, x->session);
	size_t room = strlen(session) + 24;
	char *name = mem_alloc(room);
	if (!name)
		return err_no_memory(e, "names");
	int n = snprintf(name, room, "%s/%lld", session, (long long)x->number);
	int code = workload_add_name(r->w, name, n, &s->name_at, e);
	mem_free(name);
	return code;
}

int trace_add_round(struct trace_reader *r, struct trace_talk *t, const char *field, const struct trace_round *x,
		    struct err *e)
{
	struct spec s;
	struct trace_run run = t->run;
	bool first = t->request < 0;
	int code = row_lengths(r, field, x->prompt, x->output, &s, e);
	if (code)
		return code;
	if (!first && x->number <= t->number)
		return trace_bad(r, s.row, NULL, NULL, 0, "is not a later round than the session's one before it", e);
	code = grow_prompt(r, t, x, &run, e);
	if (!code)
		code = name_round(r, x, &s, e);
	if (!code && !first)
		code = trace_link(r, t->request, r->w->n, e);
	if (code)
		return code;
	s.session = x->session;
	s.arrival_ns = first ? x->arrival_ns : t->wait_ns;
	s.hash_at = run.at;
	s.n_hashes = run.n;
	s.output_id = part_id(t, x->number, 1);
	if (first)
		t->first_prompt = x->prompt;
	t->run = run;
	t->output = x->output;
	t->output_id = s.output_id;
	t->number = x->number;
	t->wait_ns = x->wait_ns;
	t->request = r->w->n;
	return workload_add(r->w, &s, e);
}
