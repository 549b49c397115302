/* Any bytes as a measured log, and as the settings beside one: an error, or requests whose times make sense. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/measured.h"
#include "core/err.h"
#include "core/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void check_requests(struct measured *m)
{
	struct workload w;
	struct err e = {0};
	bool at_zero = false;
	for (int64_t i = 0; i < m->n; i++) {
		const struct measured_request *r = &m->at[i];
		check(r->prompt_tokens > 0 && r->output_tokens > 0 && r->arrival_ns >= 0);
		check(r->first_token_ns > r->arrival_ns && r->last_token_ns >= r->first_token_ns);
		check(r->scheduled_ns == -1 ||
		      (r->scheduled_ns >= r->arrival_ns && r->scheduled_ns < r->first_token_ns));
		at_zero |= r->arrival_ns == 0;
	}
	check(at_zero);
	workload_init(&w);
	check(measured_make_workload(m, &w, &e) == ERR_NONE && w.n == m->n);
	workload_free(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct measured m;
	struct measured_hints h = {0};
	struct err e = {0};
	char *text = mem_alloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (measured_parse(&m, "log", text, size, &e) == ERR_NONE)
		check_requests(&m);
	else
		check(e.text[0] != '\0');
	measured_free(&m);
	err_clear(&e);
	if (measured_parse_hints(&h, "meta.json", text, &e) == ERR_NONE)
		check(h.max_num_seqs >= 0 && h.block_size >= 0);
	else
		check(e.text[0] != '\0');
	mem_free(text);
	return 0;
}
