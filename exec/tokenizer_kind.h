/* tokenizer_kind.h: what the kinds of tokenizers give exec/tokenizer.c. */
#ifndef EXEC_TOKENIZER_KIND_H
#define EXEC_TOKENIZER_KIND_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/mapped.h"
#include "exec/tokenizer.h"

/* Begins every kind's own struct. */
struct tokenizer {
	const struct tokenizer_kind *kind;
	int32_t vocab, bos, eos; /* ids: -1 = none */
	bool strips; /* text begins with a space of its own, which the first piece shows and the text has not */
	char byte; /* what a piece <0xNN> stands for */
};

struct tokenizer_kind {
	int (*open)(struct tokenizer **out, const char *path, const struct mapped *file, struct err *e);
	void (*close)(struct tokenizer *t);
	int (*encode)(struct tokenizer *t, const char *text, int64_t len, int32_t **ids, int64_t *n, int64_t *cap,
		      struct err *e);
	/* The piece as text: spaces are spaces, control tokens empty. */
	const char *(*piece)(struct tokenizer *t, int32_t id, int32_t *len);
};
extern const struct tokenizer_kind tokenizer_bpe, tokenizer_spm;

/* Appends one id. */
int tokenizer_put(int32_t **ids, int64_t *n, int64_t *cap, int32_t id, struct err *e);

#endif
