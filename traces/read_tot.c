/* Tree-of-Thoughts: problem,node,parent_node,chars_new. Each node, a thought, is one request: its prompt is the problem and
 * the thoughts on the way to it, its output the text it adds. It starts when its parent has finished; parent 0 is the
 * problem itself. A thought's parent comes before it in the file.
 *
 * The file has sizes in characters, and of arithmetic: 2 tokens for 3 characters, rounded up, since vocabularies such as
 * Llama 3's spend a token on each figure, sign and space of "4 + 8 = 12 (left: 4 6 12)" (26 characters with the line's
 * end, 17 tokens). It does not have the problem's own text, which is counted as PROBLEM tokens. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "traces/reader_impl.h"

enum { NAME, NODE, PARENT, CHARS, N_FIELDS };
enum { PROBLEM = 16 };

static const struct row_field fields[N_FIELDS] = {
	[NAME] = {"problem", ROW_NAME, true},
	[NODE] = {"node", ROW_TOKENS, true},
	[PARENT] = {"parent_node", ROW_TOKENS, true},
	[CHARS] = {"chars_new", ROW_TOKENS, true},
};

struct thought {
	bool known;
	int32_t request; /* -1: the problem itself, which is none */
	int32_t tokens;
	uint64_t id; /* of its text */
	struct trace_run before; /* its prompt */
	struct trace_run with; /* prompt and text, once it has children: their prompt */
};

struct tree_file {
	struct idmap ids; /* "PROBLEM/NODE" */
	struct thought *at; /* [n], by id */
	int64_t n, cap;
	char *key;
	int64_t cap_key;
};

static int64_t tokens_of(int64_t chars)
{
	return (2 * chars + 2) / 3;
}

static int number_of(struct tree_file *f, const struct row_cell *problem, int64_t node, int32_t *number, struct err *e)
{
	if (mem_grow((void **)&f->key, &f->cap_key, (int64_t)problem->n + 24, 1))
		return err_no_memory(e, "problems");
	memcpy(f->key, problem->s, problem->n);
	int n = snprintf(f->key + problem->n, 24, "/%lld", (long long)node);
	if (idmap_number(&f->ids, f->key, (int64_t)problem->n + n, number, e))
		return ERR_MEMORY;
	if (mem_grow((void **)&f->at, &f->cap, f->ids.n, sizeof *f->at))
		return err_no_memory(e, "thoughts");
	while (f->n < f->ids.n)
		f->at[f->n++] = (struct thought){.request = -1};
	struct thought *t = &f->at[*number];
	if (t->id == 0) {
		uint64_t id = rng_mix(trace_text_id(problem->s, problem->n) ^ rng_mix((uint64_t)node + 1));
		t->id = id ? id : 1;
		t->known = node == 0;
		t->tokens = node == 0 ? PROBLEM : 0;
	}
	return ERR_NONE;
}

static int add(struct trace_reader *r, int32_t me, struct thought *parent, struct spec *s, struct err *e)
{
	struct tree_file *f = r->state;
	const char *name = idmap_text(&f->ids, me);
	if (workload_add_name(r->w, name, (int64_t)strlen(name), &s->name_at, e))
		return ERR_MEMORY;
	if (parent->request >= 0 && trace_link(r, parent->request, r->w->n, e))
		return ERR_MEMORY;
	s->hash_at = parent->with.at;
	s->n_hashes = parent->with.n;
	s->output_id = f->at[me].id;
	f->at[me].known = true;
	f->at[me].request = (int32_t)r->w->n;
	f->at[me].tokens = s->output_tokens;
	f->at[me].before = parent->with;
	return workload_add(r->w, s, e);
}

static int accept(struct trace_reader *r, const struct row_cell *c, struct err *e)
{
	struct tree_file *f = r->state;
	int64_t line = input_line_number(r->in);
	int32_t me, up;
	struct spec s;
	if (!c[NAME].seen)
		return trace_bad(r, line, fields[NAME].name, NULL, 0, "is empty", e);
	if (c[NODE].i == 0)
		return trace_bad(r, line, fields[NODE].name, NULL, 0, "is 0, which stands for the problem", e);
	int code = number_of(f, &c[NAME], c[NODE].i, &me, e);
	if (!code)
		code = number_of(f, &c[NAME], c[PARENT].i, &up, e);
	if (code)
		return code;
	struct thought *parent = &f->at[up];
	if (f->at[me].known)
		return trace_bad(r, line, fields[NODE].name, NULL, 0, "is that of an earlier row of the problem", e);
	if (!parent->known)
		return trace_bad(r, line, fields[PARENT].name, NULL, 0, "is no node of an earlier row of the problem",
				 e);
	int64_t prompt = parent->before.tokens + parent->tokens;
	code = row_lengths(r, fields[CHARS].name, prompt, tokens_of(c[CHARS].i), &s, e);
	if (!code)
		code = trace_session(r, c[NAME].s, c[NAME].n, &s.session, e);
	if (!code && parent->with.tokens < prompt) {
		parent->with = parent->before;
		code = trace_run_add(r, &parent->with, parent->id, parent->tokens, e);
	}
	return code ? code : add(r, me, parent, &s, e);
}

bool detect_tot(const struct trace_head *h)
{
	return h->kind == TRACE_HEAD_CSV && trace_head_has(h, "problem") && trace_head_has(h, "parent_node") &&
	       trace_head_has(h, "chars_new");
}

int read_tot(struct trace_reader *r, struct err *e)
{
	static const struct row_format format = {fields, N_FIELDS, accept, NULL};
	struct tree_file f = {0};
	r->state = &f;
	r->w->lengths_estimated = true;
	int code = rows_csv(r, &format, e);
	idmap_free(&f.ids);
	mem_free(f.at);
	mem_free(f.key);
	if (code)
		return code;
	trace_note(r,
		   "sizes are characters: counted as 2 tokens for 3 of them (arithmetic); each problem's own text is "
		   "not in the file: counted as 16 tokens");
	return trace_settle(r, NULL, e);
}
