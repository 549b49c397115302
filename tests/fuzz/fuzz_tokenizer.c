/* Any bytes as a tokenizer (SentencePiece's own reader apart): an error with a text, or a tokenizer whose pieces lie in the
 * file and whose ids, for some texts and the file itself as text, are ids. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/tokenizer.h"
#include "tests/support/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

static volatile unsigned sink;

static void encode(struct tokenizer *t, const char *text)
{
	int32_t *ids = NULL, previous = -1, len;
	int64_t n = 0, cap = 0;
	struct err e = {0};
	int rc = tokenizer_encode(t, text, true, &ids, &n, &cap, &e);
	check(rc == ERR_NONE || e.text[0] != '\0');
	check(rc != ERR_NONE || n >= 1);
	for (int64_t i = 0; i < n; i++) {
		check(ids[i] >= 0);
		const char *p = tokenizer_piece(t, previous, ids[i], &len);
		check(len >= 0);
		for (int32_t k = 0; k < len; k++)
			sink += (unsigned char)p[k];
		previous = ids[i];
	}
	mem_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tokenizer *t;
	struct err e = {0};
	int32_t len;
	if (size > 3 && data[0] == '\n' && (data[2] || data[3]))
		return 0; /* SentencePiece's */
	if (tokenizer_open(&t, memory_file(data, size), 0, &e) != ERR_NONE) {
		check(e.text[0] != '\0' && !t);
		return 0;
	}
	char *own = mem_strndup((const char *)data, size);
	encode(t, "the aaa ab\xc3\xa9 on \xf0\x9f\x98\x80\xff\x80");
	encode(t, "");
	if (own)
		encode(t, own + (size > 40 ? 12 : 0));
	mem_free(own);
	for (int32_t id = -1; id < 600; id++)
		(void)tokenizer_piece(t, id, id + 1, &len);
	tokenizer_close(t);
	return 0;
}
