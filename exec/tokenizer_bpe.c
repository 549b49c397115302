/* tokenizer_bpe.c: llama2.c's tokenizer.bin: an int32 (the longest token's length), then of each token a float (its score),
 * an int32 (its length) and its bytes. Token 1 begins a text, 2 ends it, 3 to 258 are the bytes 0 to 255.
 *
 * A text is a space, then its characters, each a token if there is one, else its bytes. Then of all neighbours that
 * together are a token too, those with the highest score are joined (the leftmost of equals), again and again. Here with a
 * heap of such pairs instead of a search through the text for each: a pair joins only if both its sides are still what
 * they were. */
#include <math.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "exec/tokenizer_kind.h"

enum { MAX_VOCAB = 1 << 22, MAX_PIECE = 1 << 14, FIRST_BYTE = 3 };

struct piece {
	int32_t at, len; /* in the text of all */
	float score;
};

struct bpe {
	struct tokenizer base;
	struct piece *pieces; /* [vocab] */
	int64_t cap_pieces;
	char *text;
	int32_t longest;
	int32_t *table; /* [mask + 1] ids by hash of their bytes, -1 = free */
	uint32_t mask;
};

/* ---- which token some bytes are ---------------------------------------------------------------------------------- */

static uint64_t hash_more(uint64_t h, const char *s, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
	return h;
}

/* The token that is a followed by b; -1: none. */
static int32_t find(const struct bpe *t, const char *a, int32_t n, const char *b, int32_t m)
{
	if (n + m > t->longest || n + m == 0)
		return -1;
	uint32_t at = (uint32_t)rng_mix(hash_more(hash_more(0, a, n), b, m)) & t->mask;
	for (; t->table[at] >= 0; at = (at + 1) & t->mask) {
		const struct piece *p = &t->pieces[t->table[at]];
		if (p->len == n + m && memcmp(t->text + p->at, a, (size_t)n) == 0 &&
		    memcmp(t->text + p->at + n, b, (size_t)m) == 0)
			return t->table[at];
	}
	return -1;
}

/* Of equal tokens the first is found. */
static int make_table(struct bpe *t, struct err *e)
{
	uint32_t size = 16;
	while (size < 2 * (uint32_t)t->base.vocab)
		size *= 2;
	t->mask = size - 1;
	t->table = mem_alloc(size * sizeof *t->table);
	if (!t->table)
		return err_no_memory(e, "a tokenizer");
	memset(t->table, 0xff, size * sizeof *t->table);
	for (int32_t id = 0; id < t->base.vocab; id++) {
		const struct piece *p = &t->pieces[id];
		if (p->len == 0 || find(t, t->text + p->at, p->len, "", 0) >= 0)
			continue;
		uint32_t at = (uint32_t)rng_mix(hash_more(0, t->text + p->at, p->len)) & t->mask;
		while (t->table[at] >= 0)
			at = (at + 1) & t->mask;
		t->table[at] = id;
	}
	return ERR_NONE;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static int read_pieces(struct bpe *t, const char *path, const struct mapped *f, struct err *e)
{
	int64_t at = 4;
	int32_t used = 0;
	while (at < f->n) {
		struct piece p = {.at = used};
		int32_t id = t->base.vocab;
		if (f->n - at < 8)
			return err_set(e, ERR_INPUT, "%.400s: cut off in token %d", path, id);
		memcpy(&p.score, f->bytes + at, 4);
		memcpy(&p.len, f->bytes + at + 4, 4);
		at += 8;
		if (!isfinite(p.score) || p.len < 0 || p.len > t->longest || id == MAX_VOCAB)
			return err_set(e, ERR_INPUT,
				       "%.400s: not a tokenizer.bin of llama2.c: token %d has score %g, length %d",
				       path, id, (double)p.score, p.len);
		if (p.len > f->n - at)
			return err_set(e, ERR_INPUT, "%.400s: cut off in token %d", path, id);
		if (mem_grow((void **)&t->pieces, &t->cap_pieces, id + 1, sizeof *t->pieces))
			return err_no_memory(e, "a tokenizer");
		memcpy(t->text + used, f->bytes + at, (size_t)p.len);
		t->pieces[id] = p;
		t->base.vocab++;
		used += p.len;
		at += p.len;
	}
	return ERR_NONE;
}

static void bpe_close(struct tokenizer *base)
{
	struct bpe *t = (struct bpe *)base;
	mem_free(t->pieces);
	mem_free(t->text);
	mem_free(t->table);
}

static int bpe_open(struct tokenizer **out, const char *path, const struct mapped *f, struct err *e)
{
	int32_t longest;
	memcpy(&longest, f->bytes, 4);
	if (longest < 1 || longest > MAX_PIECE || f->n > INT32_MAX)
		return err_set(e, ERR_INPUT,
			       "%.400s: neither llama2.c's tokenizer.bin (which begins with its longest token's "
			       "length, here %d) "
			       "nor SentencePiece's tokenizer.model",
			       path, longest);
	struct bpe *t = mem_zalloc(1, sizeof *t);
	if (!t)
		return err_no_memory(e, "a tokenizer");
	t->base = (struct tokenizer){.kind = &tokenizer_bpe, .bos = 1, .eos = 2, .strips = true};
	t->longest = longest;
	*out = &t->base; /* closed by the caller */
	t->text = mem_alloc((size_t)f->n);
	if (!t->text)
		return err_no_memory(e, "a tokenizer");
	int rc = read_pieces(t, path, f, e);
	if (!rc && t->base.vocab < 3)
		rc = err_set(e, ERR_INPUT, "%.400s: %d tokens; <unk>, <s> and </s> are three", path, t->base.vocab);
	return rc ? rc : make_table(t, e);
}

static const char *bpe_piece(struct tokenizer *base, int32_t id, int32_t *len)
{
	const struct bpe *t = (const struct bpe *)base;
	*len = t->pieces[id].len;
	return t->text + t->pieces[id].at;
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

struct symbol {
	int32_t id; /* -1: joined to the one before */
	int32_t previous, next; /* -1: none */
};

struct pair {
	float score;
	int32_t left; /* a symbol */
	int32_t left_id, right_id, joined;
};

/* One text on its way. */
struct joining {
	const struct bpe *t;
	struct symbol *symbols;
	int64_t n, cap;
	struct pair *heap;
	int64_t n_pairs, cap_pairs;
};

static bool before(const struct pair *a, const struct pair *b)
{
	return a->score != b->score ? a->score > b->score : a->left < b->left;
}

static int push(struct joining *j, struct pair p, struct err *e)
{
	if (mem_grow((void **)&j->heap, &j->cap_pairs, j->n_pairs + 1, sizeof *j->heap))
		return err_no_memory(e, "a text's tokens");
	int64_t i = j->n_pairs++;
	for (int64_t up; i > 0 && before(&p, &j->heap[up = (i - 1) / 2]); i = up)
		j->heap[i] = j->heap[up];
	j->heap[i] = p;
	return ERR_NONE;
}

static struct pair pop(struct joining *j)
{
	struct pair top = j->heap[0], last = j->heap[--j->n_pairs];
	int64_t i = 0;
	for (int64_t child; (child = 2 * i + 1) < j->n_pairs; i = child) {
		if (child + 1 < j->n_pairs && before(&j->heap[child + 1], &j->heap[child]))
			child++;
		if (!before(&j->heap[child], &last))
			break;
		j->heap[i] = j->heap[child];
	}
	j->heap[i] = last;
	return top;
}

/* If symbol `left` and the one behind it are a token together, they may be joined. */
static int offer(struct joining *j, int32_t left, struct err *e)
{
	const struct bpe *t = j->t;
	int32_t right = left < 0 ? -1 : j->symbols[left].next;
	if (right < 0)
		return ERR_NONE;
	int32_t a = j->symbols[left].id, b = j->symbols[right].id;
	const struct piece *x = &t->pieces[a], *y = &t->pieces[b];
	int32_t joined = find(t, t->text + x->at, x->len, t->text + y->at, y->len);
	return joined < 0 ? ERR_NONE : push(j, (struct pair){t->pieces[joined].score, left, a, b, joined}, e);
}

static int join_all(struct joining *j, struct err *e)
{
	int rc = ERR_NONE;
	for (int32_t i = 0; i < j->n && !rc; i++)
		rc = offer(j, i, e);
	while (!rc && j->n_pairs > 0) {
		struct pair p = pop(j);
		struct symbol *left = &j->symbols[p.left];
		if (left->id != p.left_id || left->next < 0 || j->symbols[left->next].id != p.right_id)
			continue; /* one of them has been joined to another meanwhile */
		struct symbol *right = &j->symbols[left->next];
		left->id = p.joined;
		left->next = right->next;
		right->id = -1;
		if (left->next >= 0)
			j->symbols[left->next].previous = p.left;
		rc = offer(j, left->previous, e);
		if (!rc)
			rc = offer(j, p.left, e);
	}
	return rc;
}

static int add_symbol(struct joining *j, int32_t id, struct err *e)
{
	if (mem_grow((void **)&j->symbols, &j->cap, j->n + 1, sizeof *j->symbols))
		return err_no_memory(e, "a text's tokens");
	if (j->n > 0)
		j->symbols[j->n - 1].next = (int32_t)j->n;
	j->symbols[j->n] = (struct symbol){id, (int32_t)j->n - 1, -1};
	j->n++;
	return ERR_NONE;
}

/* A character of n bytes: its token, or its bytes' tokens. */
static int add_character(struct joining *j, const char *c, int32_t n, struct err *e)
{
	int32_t id = find(j->t, c, n, "", 0);
	int rc = id >= 0 ? add_symbol(j, id, e) : ERR_NONE;
	for (int32_t i = 0; i < n && id < 0 && !rc; i++) {
		int32_t byte = FIRST_BYTE + (unsigned char)c[i];
		rc = byte < j->t->base.vocab
			     ? add_symbol(j, byte, e)
			     : err_set(e, ERR_INPUT,
				       "the tokenizer has %d tokens, none for the byte 0x%02X of the text",
				       j->t->base.vocab, (unsigned)(unsigned char)c[i]);
	}
	return rc;
}

/* Bytes 10xxxxxx go on with a character, of at most four. */
static int add_text(struct joining *j, const char *text, int64_t len, struct err *e)
{
	int32_t space = find(j->t, " ", 1, "", 0);
	int rc = space >= 0 ? add_symbol(j, space, e) : ERR_NONE;
	for (int64_t at = 0, n; at < len && !rc; at += n) {
		for (n = 1; n < 4 && at + n < len && (text[at + n] & 0xc0) == 0x80; n++)
			;
		rc = add_character(j, text + at, (int32_t)n, e);
	}
	return rc;
}

static int bpe_encode(struct tokenizer *base, const char *text, int64_t len, int32_t **ids, int64_t *n, int64_t *cap,
		      struct err *e)
{
	struct joining j = {.t = (const struct bpe *)base};
	int rc = add_text(&j, text, len, e);
	if (!rc)
		rc = join_all(&j, e);
	for (int32_t i = j.n > 0 ? 0 : -1; i >= 0 && !rc; i = j.symbols[i].next)
		rc = tokenizer_put(ids, n, cap, j.symbols[i].id, e);
	mem_free(j.symbols);
	mem_free(j.heap);
	return rc;
}

const struct tokenizer_kind tokenizer_bpe = {bpe_open, bpe_close, bpe_encode, bpe_piece};
