/* Qwen-Bailian: {"chat_id", "parent_chat_id" (-1: none), "timestamp" (s), "input_length", "output_length", "type", "turn",
 * "hash_ids"}, ids of 16-token blocks.
 *
 * input_length is the whole prompt, the conversation so far included, so rows are requests as they are. A conversation
 * is all chats that lead back to the same root; each still arrives at its recorded time. `type` becomes the tenant. */
#include <string.h>

#include "core/mem.h"
#include "traces/reader_impl.h"

enum { CHAT, PARENT, TIME, PROMPT, OUTPUT, TYPE, HASHES, N_FIELDS };
enum { USUAL_BLOCK = 16 };

static const struct row_field fields[N_FIELDS] = {
	[CHAT] = {"chat_id", ROW_NAME, true},           [PARENT] = {"parent_chat_id", ROW_NAME, false},
	[TIME] = {"timestamp", ROW_TIME_S, true},       [PROMPT] = {"input_length", ROW_TOKENS, true},
	[OUTPUT] = {"output_length", ROW_TOKENS, true}, [TYPE] = {"type", ROW_NAME, false},
	[HASHES] = {"hash_ids", ROW_HASHES, false},
};

/* What is known of a chat id. */
struct chat {
	int32_t line; /* where it is a row, 0: not seen so far */
	int32_t parent; /* its number, -1: none */
	int32_t root; /* its conversation's, -1: not followed yet */
};

struct chats {
	struct idmap ids;
	struct chat *at; /* by number of the id */
	int64_t n, cap;
	int32_t *of_row; /* [workload.n] the row's chat */
	int64_t cap_rows;
};

static int chat_number(struct chats *c, const struct row_cell *cell, int32_t *number, struct err *e)
{
	if (idmap_number(&c->ids, cell->s, (int64_t)cell->n, number, e))
		return ERR_MEMORY;
	if (mem_grow((void **)&c->at, &c->cap, c->ids.n, sizeof *c->at))
		return err_no_memory(e, "chats");
	while (c->n < c->ids.n)
		c->at[c->n++] = (struct chat){0, -1, -1};
	return ERR_NONE;
}

static bool is_none(const struct row_cell *c)
{
	return !c->seen || (c->n == 2 && !memcmp(c->s, "-1", 2));
}

static int accept(struct trace_reader *r, const struct row_cell *c, struct err *e)
{
	struct chats *chats = r->state;
	struct spec s;
	int32_t me, parent = -1;
	int code = row_lengths(r, fields[PROMPT].name, c[PROMPT].i, c[OUTPUT].i, &s, e);
	if (!code)
		code = chat_number(chats, &c[CHAT], &me, e);
	if (!code && !is_none(&c[PARENT]))
		code = chat_number(chats, &c[PARENT], &parent, e);
	if (code)
		return code;
	if (chats->at[me].line)
		return trace_bad(r, s.row, fields[CHAT].name, c[CHAT].s, c[CHAT].n, "is an id that an earlier row has",
				 e);
	if (mem_grow((void **)&chats->of_row, &chats->cap_rows, r->w->n + 1, sizeof *chats->of_row))
		return err_no_memory(e, "chats");
	s.arrival_ns = c[TIME].i;
	s.hash_at = c[HASHES].seen ? c[HASHES].at : 0;
	s.n_hashes = c[HASHES].seen ? (int32_t)c[HASHES].i : 0;
	if (c[TYPE].seen) {
		char type[64];
		size_t n = c[TYPE].n < sizeof type ? c[TYPE].n : sizeof type - 1;
		memcpy(type, c[TYPE].s, n);
		type[n] = '\0';
		if (workload_tenant(r->w, type, &s.tenant, e))
			return ERR_MEMORY;
	}
	if (workload_add_name(r->w, c[CHAT].s, (int64_t)c[CHAT].n, &s.name_at, e) || workload_add(r->w, &s, e))
		return ERR_MEMORY;
	chats->of_row[r->w->n - 1] = me;
	chats->at[me].line = s.row;
	chats->at[me].parent = parent;
	return ERR_NONE;
}

static int missing_parent(struct trace_reader *r, const struct chats *c, int32_t me, int64_t *n_missing, struct err *e)
{
	const char *text = idmap_text(&c->ids, c->at[me].parent);
	if (r->report->stopped_early || (*n_missing)++ || r->o.on_bad_row == TRACE_BAD_ROW_SKIP)
		return ERR_NONE;
	return err_set(
		e, ERR_INPUT,
		"%s:%d: parent_chat_id: \"%.40s\" never appears as a chat_id (with --on-bad-row skip a conversation "
		"starts there)",
		input_name(r->in), c->at[me].line, text);
}

/* Follows parents up to the root, and writes it to all on the way. */
static int find_root(struct trace_reader *r, struct chats *c, int32_t me, int64_t *n_missing, struct err *e)
{
	int32_t i = me, root;
	int64_t steps = 0;
	while (c->at[i].root < 0 && c->at[i].parent >= 0) {
		if (!c->at[c->at[i].parent].line) {
			int code = missing_parent(r, c, i, n_missing, e);
			if (code)
				return code;
			c->at[i].parent = -1;
			break;
		}
		if (steps++ > c->n)
			return err_set(e, ERR_INPUT, "%s:%d: parent_chat_id: chats that follow one another in a circle",
				       input_name(r->in), c->at[me].line);
		i = c->at[i].parent;
	}
	root = c->at[i].root >= 0 ? c->at[i].root : i;
	for (; c->at[me].root < 0; me = c->at[me].parent) {
		c->at[me].root = root;
		if (me == i)
			break;
	}
	return ERR_NONE;
}

static int find_sessions(struct trace_reader *r, struct chats *c, struct err *e)
{
	int64_t n_missing = 0;
	int32_t n_sessions = 0;
	r->grouped = true;
	for (int64_t i = 0; i < r->w->n; i++) {
		int code = find_root(r, c, c->of_row[i], &n_missing, e);
		if (code)
			return code;
	}
	/* Conversations are numbered as they appear; a root keeps its number, negative, where its parent was. */
	for (int64_t i = 0; i < r->w->n; i++) {
		struct chat *root = &c->at[c->at[c->of_row[i]].root];
		if (root->parent > -2)
			root->parent = -2 - n_sessions++;
		r->w->specs[i].session = -2 - root->parent;
	}
	if (n_missing)
		trace_note(r, "%lld rows have a parent_chat_id that never appears: a conversation starts at each",
			   (long long)n_missing);
	return ERR_NONE;
}

bool detect_bailian(const struct trace_head *h)
{
	return h->kind == TRACE_HEAD_OBJECTS && trace_head_has(h, "chat_id") && trace_head_has(h, "parent_chat_id");
}

int read_bailian(struct trace_reader *r, struct err *e)
{
	static const struct row_format format = {fields, N_FIELDS, accept, NULL};
	struct chats chats = {0};
	r->state = &chats;
	r->report->has_arrivals = true;
	int code = rows_jsonl(r, &format, e);
	if (!code)
		code = find_sessions(r, &chats, e);
	if (!code)
		code = trace_settle_hash_block(r, USUAL_BLOCK, e);
	if (!code)
		code = trace_settle(r, NULL, e);
	idmap_free(&chats.ids);
	mem_free(chats.at);
	mem_free(chats.of_row);
	return code;
}
