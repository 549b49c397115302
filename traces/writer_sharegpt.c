/* ShareGPT's JSON with invented text. The words are common English ones in random order: they mean nothing, and a
 * tokenizer sees about one token in each. Their number is chosen so that the reader's estimate (trace_estimate_tokens)
 * gives exactly the lengths of the workload. */
#include <stdbool.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "traces/reader.h"
#include "traces/writer_impl.h"

static const char *const words[] = {
	"the",    "of",     "and",     "to",    "in",    "is",        "that",    "it",    "for",     "was",   "on",
	"are",    "with",   "as",      "his",   "they",  "at",        "be",      "this",  "from",    "have",  "or",
	"by",     "one",    "had",     "not",   "but",   "what",      "all",     "were",  "when",    "we",    "there",
	"can",    "an",     "your",    "which", "their", "said",      "if",      "do",    "will",    "each",  "about",
	"how",    "up",     "out",     "them",  "then",  "she",       "many",    "some",  "so",      "these", "would",
	"other",  "into",   "has",     "more",  "her",   "two",       "like",    "him",   "see",     "time",  "could",
	"no",     "make",   "than",    "first", "been",  "its",       "who",     "now",   "people",  "my",    "made",
	"over",   "did",    "down",    "only",  "way",   "find",      "use",     "may",   "water",   "long",  "little",
	"very",   "after",  "called",  "just",  "where", "most",      "know",    "get",   "through", "back",  "much",
	"before", "good",   "new",     "write", "our",   "used",      "me",      "man",   "too",     "any",   "day",
	"same",   "right",  "look",    "think", "also",  "around",    "another", "came",  "come",    "work",  "three",
	"word",   "must",   "because", "does",  "part",  "even",      "place",   "well",  "such",    "here",  "take",
	"why",    "things", "help",    "put",   "years", "different", "away",    "again", "off",     "went",  "old",
	"number",
};
#define N_WORDS (sizeof words / sizeof words[0])
#define LONGEST 16 /* a word, its space and its full stop */

struct text {
	char *s;
	int64_t len, cap;
	int32_t in_sentence; /* words since the last full stop */
};

static int add_words(struct text *t, struct rng *r, int64_t n, struct err *e)
{
	if (mem_grow((void **)&t->s, &t->cap, t->len + n * LONGEST + 1, 1))
		return err_no_memory(e, "invented text");
	for (int64_t i = 0; i < n; i++) {
		const char *word = words[rng_below(r, N_WORDS)];
		size_t len = strlen(word);
		if (t->len)
			t->s[t->len++] = ' ';
		memcpy(t->s + t->len, word, len);
		if (t->in_sentence == 0)
			t->s[t->len] = (char)(t->s[t->len] - 'a' + 'A');
		t->len += (int64_t)len;
		if (++t->in_sentence > 7 && rng_below(r, 6) == 0) {
			t->s[t->len++] = '.';
			t->in_sentence = 0;
		}
	}
	t->s[t->len] = '\0';
	return ERR_NONE;
}

static bool is_worth(const struct text *t, int64_t tokens)
{
	return trace_estimate_tokens(t->s, (size_t)t->len) == tokens;
}

/* Shortens the text letter by letter until it is worth no more than `tokens`; where the last step was a little too
 * large, a mark or a figure makes up for it. False: it is not worth just that. add_words left room for a word. */
static bool trim(struct text *t, int64_t tokens)
{
	static const char *const ends[] = {"", ".", " 1", "!", "?!"};
	while (t->len > 1 && trace_estimate_tokens(t->s, (size_t)t->len) > tokens)
		t->s[--t->len] = '\0';
	int64_t at = t->len;
	for (size_t i = 0; i < sizeof ends / sizeof ends[0] && at + 2 < t->cap; i++) {
		t->len = at + snprintf(t->s + at, 3, "%s", ends[i]);
		if (is_worth(t, tokens))
			return true;
	}
	t->len = at;
	t->s[at] = '\0';
	return is_worth(t, tokens);
}

/* A text the estimate finds `tokens` in. *exact: it does. */
static int make_text(struct text *t, struct rng *r, int64_t tokens, bool *exact, struct err *e)
{
	int code = ERR_NONE;
	t->len = 0;
	t->in_sentence = 0;
	for (int64_t have = 0; have < tokens && !code;) {
		int64_t missing = tokens - have;
		code = add_words(t, r, missing < 8 ? 1 : missing / 4, e);
		have = code ? 0 : trace_estimate_tokens(t->s, (size_t)t->len);
	}
	if (code)
		return code;
	if (tokens <= 0) { /* the format has no empty answers worth reading, but the row is kept */
		*exact = true;
		return mem_grow((void **)&t->s, &t->cap, 1, 1) ? err_no_memory(e, "invented text")
							       : (t->s[0] = '\0', 0);
	}
	*exact = trim(t, tokens);
	return ERR_NONE;
}

static void message(struct writing *x, const char *from, const struct text *t, bool more)
{
	fprintf(x->f, "%s{\"from\": \"%s\", \"value\": ", more ? ", " : "", from);
	writer_json_string(x->f, t->s);
	putc('}', x->f);
}

/* One turn: what the user adds to everything before it, and the answer. */
static int turn(struct writing *x, const struct spec *s, int64_t before, struct text *t, struct rng *r, struct err *e)
{
	bool exact = false, exact2 = false;
	int64_t fresh = s->prompt_tokens - before;
	int code = make_text(t, r, fresh < 1 ? 1 : fresh, &exact, e);
	if (code)
		return code;
	message(x, "human", t, before > 0);
	code = make_text(t, r, s->output_tokens, &exact2, e);
	if (code)
		return code;
	message(x, "gpt", t, true);
	x->loss->lengths += !exact || !exact2 || fresh < 1;
	return ERR_NONE;
}

/* next[i]: the request after i in its session, -1 = last; first[i]: i begins a conversation. By ready time. */
static void chain_sessions(const struct writing *x, int32_t *next, bool *first, int32_t *last, int64_t n_sessions)
{
	for (int64_t s = 0; s < n_sessions; s++)
		last[s] = -1;
	for (int64_t k = 0; k < x->w->n; k++) {
		int32_t i = x->order[k], session = x->w->specs[i].session;
		next[i] = -1;
		first[i] = session < 0 || last[session] < 0;
		if (session < 0)
			continue;
		if (last[session] >= 0)
			next[last[session]] = i;
		last[session] = i;
	}
}

static int conversation(struct writing *x, int32_t i, const int32_t *next, struct text *t, struct err *e)
{
	char buf[24];
	int64_t before = 0;
	struct rng r;
	rng_init(&r, 0x7368617265, (uint64_t)i);
	fputs("{\"id\": ", x->f);
	writer_json_string(x->f, workload_name(x->w, i, buf));
	fputs(", \"conversations\": [", x->f);
	for (; i >= 0; i = next[i]) {
		const struct spec *s = &x->w->specs[i];
		int code = turn(x, s, before, t, &r, e);
		if (code)
			return code;
		before = (int64_t)s->prompt_tokens + s->output_tokens;
	}
	fputs("]}", x->f);
	return ERR_NONE;
}

int writer_sharegpt(struct writing *x, struct err *e)
{
	const struct workload *w = x->w;
	struct text t = {0};
	int64_t n_sessions = 0;
	for (int64_t i = 0; i < w->n; i++)
		if (w->specs[i].session >= n_sessions)
			n_sessions = w->specs[i].session + 1;
	int32_t *next = mem_alloc((size_t)(w->n + 1) * sizeof *next);
	int32_t *last = mem_alloc((size_t)(n_sessions + 1) * sizeof *last);
	bool *first = mem_alloc((size_t)(w->n + 1) * sizeof *first);
	int code = next && last && first ? ERR_NONE : err_no_memory(e, "conversations");
	if (!code)
		chain_sessions(x, next, first, last, n_sessions);
	fputs("[\n", x->f);
	const char *comma = "";
	for (int64_t k = 0; k < w->n && !code; k++) {
		if (!first[x->order[k]])
			continue;
		fputs(comma, x->f);
		comma = ",\n";
		code = conversation(x, x->order[k], next, &t, e);
	}
	fputs("\n]\n", x->f);
	mem_free(t.s);
	mem_free(next);
	mem_free(last);
	mem_free(first);
	return code;
}
