/* Any bytes as a device's JSON (and, what follows its first zero byte, as a cost model's words): an error, or a device that
 * can be timed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "sim/cost_models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void time_it(const struct device *d, const char *words)
{
	struct model m;
	struct cost_setup setup;
	struct cost *c;
	struct cost_time t;
	struct err e = {0};
	struct batch b = {.decodes = 7, .decode_ctx = 700, .decode_ctx_window = 700, .sampled = 7};
	check(model_load(&m, "llama-3.2-1b", &e) == ERR_NONE);
	cost_setup_default(&setup, &m, d);
	if (cost_open(&c, words, &setup, &e) == ERR_NONE) {
		cost_step(c, &b, &t);
		check(t.device_ns >= 0 && t.host_ns >= 0);
		cost_free(c);
	} else {
		check(e.text[0] != '\0' && !c);
	}
	model_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct device d;
	struct err e = {0};
	char *text = mem_alloc(size + 2);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = text[size + 1] = '\0';
	const char *words = text + strlen(text) + 1;
	if (device_parse(&d, text, "fuzz.json", &e) == ERR_NONE) {
		check(d.memory_bytes > 0 && d.nominal_bytes > 0 && d.bandwidth > 0 && device_peak(&d, DTYPE_BF16) > 0);
		time_it(&d, "roofline");
		time_it(&d, words);
	} else {
		check(e.text[0] != '\0');
	}
	mem_free(text);
	return 0;
}
