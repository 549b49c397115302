/* Any bytes as a profile to import: an error, or a profile whose hash is right and that times steps or says what it lacks.
 * What follows the first zero byte is a second file. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/profile_import.h"
#include "core/err.h"
#include "core/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void time_steps(const struct profile_table *t)
{
	static const struct chunk chunks[] = {{.start = 3, .len = 100}, {.start = 0, .len = 1 << 20}};
	const struct batch batches[] = {{.decodes = 1, .decode_ctx = 1, .decode_ctx_window = 1, .sampled = 1},
					{.decodes = 900, .decode_ctx = 7000000, .decode_ctx_window = 9, .sampled = 5},
					{.n_chunks = 2, .chunks = chunks, .prefill_tokens = 100 + (1 << 20)}};
	for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
		double op_ns[PROFILE_OPS], outside = 0;
		profile_batch(t, &batches[i], op_ns, &outside);
		for (int op = 0; op < PROFILE_OPS; op++)
			check(op_ns[op] >= 0 && isfinite(op_ns[op]));
		check(outside >= 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile p;
	struct profile_table *t;
	struct err e = {0};
	char *text = mem_alloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	size_t first = strlen(text);
	const char *second = text + first + (first < size);
	const struct profile_text texts[] = {{"a.csv", text, first}, {"b.csv", second, strlen(second)}};
	struct profile_import o = {.model = "llama-2-7b", .device = "a100-80g", .fill = size % 2};
	if (profile_import_texts(&p, texts, first < size ? 2 : 1, &o, &e) == ERR_NONE) {
		check(profile_hash(&p) == p.hash);
		if (profile_table_create(&t, &p, &e) == ERR_NONE) {
			time_steps(t);
			profile_table_free(t);
		} else {
			check(e.text[0] != '\0' && !t);
		}
		profile_free(&p);
	} else {
		check(e.text[0] != '\0' && !p.points);
	}
	mem_free(text);
	return 0;
}
