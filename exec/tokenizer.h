/* tokenizer.h: text <-> token ids: llama2.c's tokenizer.bin, or SentencePiece's tokenizer.model through its library. */
#ifndef EXEC_TOKENIZER_H
#define EXEC_TOKENIZER_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct tokenizer;

/* By content: a SentencePiece model or a tokenizer.bin. `vocab` is the model's number of tokens (0 = not known): a
 * tokenizer of another size is ERR_INPUT. */
int tokenizer_open(struct tokenizer **out, const char *path, int32_t vocab, struct err *e);
void tokenizer_close(struct tokenizer *t);
int32_t tokenizer_bos(const struct tokenizer *t);
int32_t tokenizer_eos(const struct tokenizer *t);

/* Appends the ids of text to *ids (mem_grow'n; *n of them used, *cap room). */
int tokenizer_encode(struct tokenizer *t, const char *text, bool bos, int32_t **ids, int64_t *n, int64_t *cap,
		     struct err *e);
/* The bytes that token `id` adds after token `previous` (-1 = none). Lives until the next call. */
const char *tokenizer_piece(struct tokenizer *t, int32_t previous, int32_t id, int32_t *len);

#endif
