/* lockstep JSONL, the native format: a graph of requests. The fields are described in reader.h. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "traces/reader_impl.h"
#include "traces/scan.h"

enum {
	ID,
	TIME,
	PROMPT,
	OUTPUT,
	SESSION,
	AFTER,
	DELAY,
	PREFIX,
	HASHES,
	HASH_BLOCK,
	OUTPUT_ID,
	FORK_OF,
	FORK_AT,
	PRIORITY,
	CLASS,
	MAX_TOKENS,
	SLO_TTFT,
	ESTIMATED,
	N_FIELDS
};
enum { USUAL_BLOCK = 512 };

static const struct row_field fields[N_FIELDS] = {
	[ID] = {"id", ROW_NAME, false},
	[TIME] = {"arrival_s", ROW_TIME_S, false},
	[PROMPT] = {"input_tokens", ROW_TOKENS, true},
	[OUTPUT] = {"output_tokens", ROW_TOKENS, true},
	[SESSION] = {"session", ROW_NAME, false},
	[AFTER] = {"after", ROW_NAMES, false},
	[DELAY] = {"delay_s", ROW_DELAY_S, false},
	[PREFIX] = {"prefix", ROW_PREFIX, false},
	[HASHES] = {"hash_ids", ROW_HASHES, false},
	[HASH_BLOCK] = {"hash_block", ROW_TOKENS, false},
	[OUTPUT_ID] = {"output_id", ROW_NAME, false},
	[FORK_OF] = {"fork_of", ROW_NAME, false},
	[FORK_AT] = {"fork_at", ROW_TOKENS, false},
	[PRIORITY] = {"priority", ROW_INT32, false},
	[CLASS] = {"class", ROW_NAME, false},
	[MAX_TOKENS] = {"max_tokens", ROW_TOKENS, false},
	[SLO_TTFT] = {"slo_ttft_ms", ROW_TOKENS, false},
	[ESTIMATED] = {"estimated", ROW_SEEN, false},
};

/* "request child waits for the one of this id", which may come later in the file. */
struct wait {
	int32_t child, id;
};

/* A row that forks off another's context. */
struct fork_row {
	int32_t child, id; /* request; the id it forks off */
	int32_t at; /* tokens, 0 = as many as there can be */
	bool live;
	bool visited;
};

struct graph_file {
	struct idmap ids;
	int32_t *row_of; /* by id: index of the request, -1: none so far */
	int64_t n, cap;
	struct wait *waits;
	int64_t n_waits, cap_waits;
	struct fork_row *forks; /* in the order of their children */
	int64_t n_forks, cap_forks;
	int32_t *last; /* by session: its last request so far, -1: none */
	int64_t n_last, cap_last;
	enum { ROOTS_UNKNOWN, ROOTS_TIMED, ROOTS_UNTIMED } roots;
	int64_t times_ignored;
	int64_t hash_block;
};

static int bad(struct trace_reader *r, int field, const struct row_cell *c, const char *why, struct err *e)
{
	return trace_bad(r, input_line_number(r->in), fields[field].name, c ? c->s : NULL, c ? c->n : 0, why, e);
}

static int id_number(struct graph_file *g, const char *s, size_t n, int32_t *id, struct err *e)
{
	if (idmap_number(&g->ids, s, (int64_t)n, id, e))
		return ERR_MEMORY;
	if (mem_grow((void **)&g->row_of, &g->cap, g->ids.n, sizeof *g->row_of))
		return err_no_memory(e, "ids");
	while (g->n < g->ids.n)
		g->row_of[g->n++] = -1;
	return ERR_NONE;
}

static int last_of_session(struct graph_file *g, int32_t session, int32_t **last, struct err *e)
{
	if (mem_grow((void **)&g->last, &g->cap_last, session + 1, sizeof *g->last))
		return err_no_memory(e, "sessions");
	while (g->n_last <= session)
		g->last[g->n_last++] = -1;
	*last = &g->last[session];
	return ERR_NONE;
}

/* What the prompt shares. */
static int content(struct trace_reader *r, const struct row_cell *c, struct spec *s, struct err *e)
{
	struct graph_file *g = r->state;
	if (c[PREFIX].seen && c[HASHES].seen)
		return bad(r, HASHES, NULL, "and prefix say the same thing twice; keep one", e);
	if (c[PREFIX].seen && c[PREFIX].tokens > s->prompt_tokens)
		return bad(r, PREFIX, NULL, "is longer than input_tokens", e);
	if (c[HASHES].seen && c[HASHES].i) {
		int64_t block = c[HASH_BLOCK].seen ? c[HASH_BLOCK].i : g->hash_block ? g->hash_block : USUAL_BLOCK;
		if (block < 1 || (g->hash_block && block != g->hash_block))
			return bad(r, HASH_BLOCK, NULL, block < 1 ? "is 0" : "is not that of the rows before it", e);
		if ((c[HASHES].i - 1) * block >= s->prompt_tokens)
			return bad(r, HASHES, NULL, "has more ids than input_tokens has blocks", e);
		g->hash_block = block;
	}
	const struct row_cell *x = c[PREFIX].seen ? &c[PREFIX] : &c[HASHES];
	s->hash_at = x->seen ? x->at : 0;
	s->n_hashes = x->seen ? (int32_t)x->i : 0;
	if (c[OUTPUT_ID].seen) {
		const char *why = c[OUTPUT_ID].quoted ? NULL : scan_id(c[OUTPUT_ID].s, c[OUTPUT_ID].n, &s->output_id);
		if (why)
			return bad(r, OUTPUT_ID, &c[OUTPUT_ID], why, e);
		if (c[OUTPUT_ID].quoted)
			s->output_id = trace_text_id(c[OUTPUT_ID].s, c[OUTPUT_ID].n);
	}
	return ERR_NONE;
}

/* When it starts: at a time of its own, or after others. *previous: of the session, -1 unless waited for. */
static int timing(struct trace_reader *r, const struct row_cell *c, int32_t last, struct spec *s, int32_t *previous,
		  struct err *e)
{
	struct graph_file *g = r->state;
	bool after = c[AFTER].seen && c[AFTER].i > 0;
	bool fork = c[FORK_OF].seen, follows = !after && !fork && !c[TIME].seen && last >= 0;
	*previous = follows ? last : -1;
	if (after || follows || fork) {
		s->arrival_ns = c[DELAY].seen ? c[DELAY].i : 0;
		g->times_ignored += c[TIME].seen;
		return ERR_NONE;
	}
	if (c[DELAY].seen && c[DELAY].i)
		return bad(r, DELAY, NULL, "needs after, or an earlier row of its session", e);
	if (g->roots == ROOTS_UNKNOWN)
		g->roots = c[TIME].seen ? ROOTS_TIMED : ROOTS_UNTIMED;
	if (c[TIME].seen != (g->roots == ROOTS_TIMED))
		return bad(r, TIME, NULL,
			   c[TIME].seen ? "is given, but not by earlier rows" : "is missing, but given by earlier rows",
			   e);
	s->arrival_ns = c[TIME].seen ? c[TIME].i : 0;
	return ERR_NONE;
}

/* What a fork may not say beside it. */
static int fork_fields(struct trace_reader *r, const struct row_cell *c, struct err *e)
{
	if (!c[FORK_OF].seen)
		return c[FORK_AT].seen ? bad(r, FORK_AT, NULL, "needs fork_of", e) : ERR_NONE;
	if (c[PREFIX].seen || c[HASHES].seen)
		return bad(r, FORK_OF, NULL, "says what the prompt begins with: leave prefix and hash_ids out", e);
	if (c[TIME].seen)
		return bad(r, FORK_OF, NULL,
			   "says when it starts (its parent has computed what it begins with): leave arrival_s out, "
			   "delay_s may come on top",
			   e);
	bool same = c[AFTER].seen && c[AFTER].i == 1 && r->names[0].n == c[FORK_OF].n &&
		    memcmp(r->names[0].s, c[FORK_OF].s, c[FORK_OF].n) == 0;
	if (c[AFTER].seen && c[AFTER].i > 0 && !same)
		return bad(r, AFTER, NULL,
			   "waits for others than the request it forks off: name that one alone, or give both rows the "
			   "same prefix instead of fork_of",
			   e);
	if (c[FORK_AT].seen && (c[FORK_AT].i < 1 || c[FORK_AT].i > c[PROMPT].i))
		return bad(r, FORK_AT, NULL, "is not within 1 and input_tokens", e);
	return ERR_NONE;
}

static int add_wait(struct graph_file *g, int64_t child, int32_t id, struct err *e)
{
	if (mem_grow((void **)&g->waits, &g->cap_waits, g->n_waits + 1, sizeof *g->waits))
		return err_no_memory(e, "dependencies");
	g->waits[g->n_waits++] = (struct wait){(int32_t)child, id};
	return ERR_NONE;
}

static int tenant(struct trace_reader *r, const struct row_cell *c, struct spec *s, struct err *e)
{
	char *name = mem_strndup(c->s, c->n);
	int code = name ? workload_tenant(r->w, name, &s->tenant, e) : err_no_memory(e, "classes");
	mem_free(name);
	return code;
}

/* The row's own id: given, or its line number. */
static int own_id(struct trace_reader *r, const struct row_cell *c, const struct spec *s, int32_t *id, struct err *e)
{
	struct graph_file *g = r->state;
	char line[16];
	int code;
	if (c[ID].seen) {
		code = id_number(g, c[ID].s, c[ID].n, id, e);
	} else {
		snprintf(line, sizeof line, "%d", s->row);
		code = id_number(g, line, strlen(line), id, e);
	}
	if (!code && g->row_of[*id] >= 0) {
		char why[80];
		snprintf(why, sizeof why, "is the id of line %d already", r->w->specs[g->row_of[*id]].row);
		const char *text = idmap_text(&g->ids, *id);
		code = trace_bad(r, s->row, "id", text, strlen(text), why, e);
	}
	return code;
}

/* Everything was found right: only memory can fail from here on. */
static int add(struct trace_reader *r, const struct row_cell *c, struct spec *s, int32_t id, int32_t previous,
	       struct err *e)
{
	struct graph_file *g = r->state;
	if (c[ID].seen && workload_add_name(r->w, c[ID].s, (int64_t)c[ID].n, &s->name_at, e))
		return ERR_MEMORY;
	if (previous >= 0 && trace_link(r, previous, r->w->n, e))
		return ERR_MEMORY;
	for (int64_t k = 0; c[AFTER].seen && k < c[AFTER].i; k++) {
		int32_t parent;
		if (id_number(g, r->names[k].s, r->names[k].n, &parent, e) || add_wait(g, r->w->n, parent, e))
			return ERR_MEMORY;
	}
	if (c[FORK_OF].seen) {
		struct fork_row f = {.child = (int32_t)r->w->n, .live = !(c[AFTER].seen && c[AFTER].i > 0)};
		f.at = c[FORK_AT].seen ? (int32_t)c[FORK_AT].i : 0;
		if (id_number(g, c[FORK_OF].s, c[FORK_OF].n, &f.id, e) || (f.live && add_wait(g, r->w->n, f.id, e)))
			return ERR_MEMORY;
		if (mem_grow((void **)&g->forks, &g->cap_forks, g->n_forks + 1, sizeof *g->forks))
			return err_no_memory(e, "forks");
		g->forks[g->n_forks++] = f;
	}
	g->row_of[id] = (int32_t)r->w->n;
	return workload_add(r->w, s, e);
}

static int accept(struct trace_reader *r, const struct row_cell *c, struct err *e)
{
	struct graph_file *g = r->state;
	struct spec s;
	int32_t id, previous, *last = NULL;
	int code = fork_fields(r, c, e);
	if (!code)
		code = row_lengths(r, fields[PROMPT].name, c[PROMPT].i, c[OUTPUT].i, &s, e);
	if (!code)
		code = own_id(r, c, &s, &id, e);
	if (!code)
		code = content(r, c, &s, e);
	if (!code && c[SESSION].seen)
		code = trace_session(r, c[SESSION].s, c[SESSION].n, &s.session, e);
	if (!code && s.session >= 0)
		code = last_of_session(g, s.session, &last, e);
	if (!code)
		code = timing(r, c, last ? *last : -1, &s, &previous, e);
	if (!code && c[CLASS].seen)
		code = tenant(r, &c[CLASS], &s, e);
	if (code)
		return code;
	s.priority = c[PRIORITY].seen ? (int32_t)c[PRIORITY].i : 0;
	s.slo_ttft_ms = c[SLO_TTFT].seen ? (int32_t)c[SLO_TTFT].i : 0;
	s.max_tokens = c[MAX_TOKENS].seen ? (int32_t)c[MAX_TOKENS].i : 0;
	code = add(r, c, &s, id, previous, e);
	r->w->lengths_estimated |= c[ESTIMATED].seen;
	if (!code && last)
		*last = (int32_t)r->w->n - 1;
	return code;
}

static void early(const struct trace_reader *r, int field, const struct row_cell *c)
{
	const struct graph_file *g = r->state;
	if (field == ID)
		idmap_prefetch(&g->ids, c->s, (int64_t)c->n);
}

/* Ids to requests. An id that no row has is an error, or, when rows may be absent for a reason, the end of those that
 * wait for it. */
static int resolve(struct trace_reader *r, struct graph_file *g, bool **dead, struct err *e)
{
	bool may_be_absent = r->report->stopped_early || r->o.on_bad_row == TRACE_BAD_ROW_SKIP;
	for (int64_t k = 0; k < g->n_waits; k++) {
		const struct wait *x = &g->waits[k];
		if (g->row_of[x->id] >= 0) {
			if (trace_link(r, g->row_of[x->id], x->child, e))
				return ERR_MEMORY;
			continue;
		}
		const char *text = idmap_text(&g->ids, x->id);
		if (!may_be_absent)
			return trace_bad(r, r->w->specs[x->child].row, "after", text, strlen(text),
					 "is the id of no row", e);
		if (!*dead && !(*dead = mem_zalloc((size_t)r->w->n, sizeof **dead)))
			return err_no_memory(e, "dependencies");
		(*dead)[x->child] = true;
	}
	return ERR_NONE;
}

/* The parent is what it will be. */
static int make_fork(struct trace_reader *r, const struct graph_file *g, const struct fork_row *f, bool **dead,
		     struct err *e)
{
	const struct spec *c = &r->w->specs[f->child], *p = &r->w->specs[g->row_of[f->id]];
	int64_t most = (int64_t)p->prompt_tokens + p->output_tokens;
	int32_t at = f->at ? f->at : c->prompt_tokens < most ? c->prompt_tokens : (int32_t)most;
	char why[96];
	snprintf(why, sizeof why, "is beyond the %lld tokens of prompt and output of the request it forks off",
		 (long long)most);
	if (at > most && r->o.on_bad_row == TRACE_BAD_ROW_ERROR)
		return trace_bad(r, c->row, "fork_at", NULL, 0, why, e);
	if (at > most) {
		if (!*dead && !(*dead = mem_zalloc((size_t)r->w->n, sizeof **dead)))
			return err_no_memory(e, "forks");
		(*dead)[f->child] = true;
		return ERR_NONE;
	}
	return workload_fork(r->w, g->row_of[f->id], f->child, at, f->live, e);
}

/* Parents before their forks, wherever they stand in the file. fork_of_row: [w->n] index in g->forks, -1 = none. A circle is
 * left to those who put requests in order. */
static int make_forks_of(struct trace_reader *r, struct graph_file *g, int32_t first, const int32_t *fork_of_row,
			 int32_t *stack, bool **dead, struct err *e)
{
	int64_t n = 0;
	for (int32_t i = first; i >= 0 && !g->forks[i].visited;) {
		g->forks[i].visited = true;
		stack[n++] = i;
		int32_t parent = g->row_of[g->forks[i].id];
		i = parent < 0 ? -1 : fork_of_row[parent];
	}
	while (n > 0) {
		struct fork_row *f = &g->forks[stack[--n]];
		int code =
			g->row_of[f->id] < 0 || g->row_of[f->id] == f->child ? ERR_NONE : make_fork(r, g, f, dead, e);
		if (code)
			return code;
	}
	return ERR_NONE;
}

static int make_forks(struct trace_reader *r, struct graph_file *g, bool **dead, struct err *e)
{
	if (!g->n_forks)
		return ERR_NONE;
	int32_t *fork_of_row = mem_alloc((size_t)r->w->n * sizeof *fork_of_row);
	int32_t *stack = mem_alloc((size_t)g->n_forks * sizeof *stack);
	int code = fork_of_row && stack ? ERR_NONE : err_no_memory(e, "forks");
	for (int64_t i = 0; i < r->w->n && !code; i++)
		fork_of_row[i] = -1;
	for (int64_t i = 0; i < g->n_forks && !code; i++)
		fork_of_row[g->forks[i].child] = (int32_t)i;
	for (int64_t i = 0; i < g->n_forks && !code; i++)
		code = make_forks_of(r, g, (int32_t)i, fork_of_row, stack, dead, e);
	mem_free(fork_of_row);
	mem_free(stack);
	return code;
}

bool detect_lockstep(const struct trace_head *h)
{
	return h->kind == TRACE_HEAD_OBJECTS && trace_head_has(h, "input_tokens");
}

int read_lockstep(struct trace_reader *r, struct err *e)
{
	static const struct row_format format = {fields, N_FIELDS, accept, early};
	struct graph_file g = {0};
	bool *dead = NULL;
	r->state = &g;
	int code = rows_jsonl(r, &format, e);
	if (!code)
		code = resolve(r, &g, &dead, e);
	if (!code) {
		r->w->hash_block = (int32_t)g.hash_block;
		code = make_forks(r, &g, &dead, e);
	}
	if (!code) {
		r->report->has_arrivals = g.roots == ROOTS_TIMED;
		r->report->hash_block = (int32_t)g.hash_block;
		if (g.times_ignored)
			trace_note(
				r,
				"%lld rows have both arrival_s and after: they start after what they wait for, their "
				"arrival_s is not used",
				(long long)g.times_ignored);
		code = trace_settle(r, dead, e);
	}
	mem_free(dead);
	idmap_free(&g.ids);
	mem_free(g.row_of);
	mem_free(g.waits);
	mem_free(g.forks);
	mem_free(g.last);
	return code;
}
