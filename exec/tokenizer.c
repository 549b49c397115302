#include "exec/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/mapped.h"
#include "exec/tokenizer_kind.h"

#define MAX_TEXT (INT64_C(1) << 28) /* bytes */

/* tokenizer.bin begins with the length of its longest token, a small number; SentencePiece's protocol buffer with field 1,
 * its first piece, a few bytes long: as a number that is far above. */
static int find_kind(const struct mapped *f, const char *path, const struct tokenizer_kind **out, struct err *e)
{
	uint32_t first;
	if (f->n < 12)
		return err_set(e, ERR_INPUT, "%.400s: %lld bytes are no tokenizer", path, (long long)f->n);
	memcpy(&first, f->bytes, 4);
	if (f->bytes[0] == '{')
		return err_set(
			e, ERR_INPUT,
			"%.400s: Hugging Face's tokenizer.json is not read: give SentencePiece's tokenizer.model or "
			"llama2.c's tokenizer.bin",
			path);
	*out = f->bytes[0] == 0x0a && first > 0xffff ? &tokenizer_spm : &tokenizer_bpe;
	return ERR_NONE;
}

int tokenizer_open(struct tokenizer **out, const char *path, int32_t vocab, struct err *e)
{
	struct mapped f;
	struct tokenizer *t = NULL;
	const struct tokenizer_kind *kind = NULL;
	*out = NULL;
	int rc = mapped_open(&f, path, e);
	if (rc)
		return rc;
	rc = find_kind(&f, path, &kind, e);
	if (!rc)
		rc = kind->open(&t, path, &f, e);
	mapped_close(&f);
	/* Models often have a few rows more than SentencePiece has pieces. */
	if (!rc && vocab > 0 && (t->vocab > vocab || (kind == &tokenizer_bpe && t->vocab != vocab)))
		rc = err_set(e, ERR_INPUT, "%.400s has %d tokens and the model %d: it is another model's tokenizer",
			     path, t->vocab, vocab);
	if (rc)
		tokenizer_close(t);
	else
		*out = t;
	return rc;
}

void tokenizer_close(struct tokenizer *t)
{
	if (t)
		t->kind->close(t);
	mem_free(t);
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
	return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
	return t->eos;
}

int tokenizer_put(int32_t **ids, int64_t *n, int64_t *cap, int32_t id, struct err *e)
{
	if (mem_grow((void **)ids, cap, *n + 1, sizeof **ids))
		return err_no_memory(e, "the tokens of a text");
	(*ids)[(*n)++] = id;
	return ERR_NONE;
}

int tokenizer_encode(struct tokenizer *t, const char *text, bool bos, int32_t **ids, int64_t *n, int64_t *cap,
		     struct err *e)
{
	int64_t len = (int64_t)strlen(text);
	if (len > MAX_TEXT)
		return err_set(e, ERR_INPUT, "a text of %lld bytes; at most %lld are tokenized", (long long)len,
			       (long long)MAX_TEXT);
	if (bos && t->bos >= 0) {
		int rc = tokenizer_put(ids, n, cap, t->bos, e);
		if (rc)
			return rc;
	}
	return len ? t->kind->encode(t, text, len, ids, n, cap, e) : ERR_NONE;
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789ABCDEF";
	const char *at = c ? strchr(digits, c >= 'a' && c <= 'f' ? c - 'a' + 'A' : c) : NULL;
	return at ? (int)(at - digits) : -1;
}

const char *tokenizer_piece(struct tokenizer *t, int32_t previous, int32_t id, int32_t *len)
{
	*len = 0;
	if (id < 0 || id >= t->vocab)
		return ""; /* a row of the model's that has no piece */
	const char *p = t->kind->piece(t, id, len);
	if (*len == 6 && memcmp(p, "<0x", 3) == 0 && p[5] == '>' && hex_digit(p[3]) >= 0 && hex_digit(p[4]) >= 0) {
		t->byte = (char)(hex_digit(p[3]) << 4 | hex_digit(p[4]));
		*len = 1;
		return &t->byte;
	}
	if (t->strips && *len > 0 && p[0] == ' ' && (previous < 0 || previous == t->bos)) {
		(*len)--;
		return p + 1;
	}
	return p;
}
