/* Any bytes as a model's config.json: an error or a model whose counts are sane and that can be timed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "sim/capacity.h"
#include "sim/cost_models.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

/* One mixed step on the default formats. */
static void time_it(const struct model *m)
{
	struct device d;
	struct cost_setup setup;
	struct cost *c;
	struct cost_time t;
	struct err e = {0};
	struct chunk chunk = {.start = 100, .len = 50, .samples = true};
	struct batch b = {.decodes = 7,
			  .decode_ctx = 700,
			  .decode_ctx_window = 70,
			  .n_chunks = 1,
			  .chunks = &chunk,
			  .prefill_tokens = 50,
			  .sampled = 8};
	check(device_load(&d, "h100-sxm", &e) == ERR_NONE);
	cost_setup_default(&setup, m, &d);
	check(cost_open(&c, "roofline", &setup, &e) == ERR_NONE);
	cost_step(c, &b, &t);
	check(t.device_ns > 0 && t.host_ns > 0);
	b.n_chunks = 0;
	b.prefill_tokens = 0;
	b.sampled = 7;
	cost_step(c, &b, &t);
	check(t.device_ns > 0);
	cost_free(c);
}

static void fit_it(const struct model *m)
{
	struct device d;
	struct capacity_options o;
	struct capacity c;
	struct err e = {0};
	check(device_load(&d, "rtx-4090", &e) == ERR_NONE);
	capacity_options_default(&o);
	check(capacity_compute(&c, m, &d, &o, &e) == ERR_NONE);
	check(c.num_blocks >= 0 && c.tokens >= 0 && c.activation_bytes > 0);
	check(capacity_sessions(&c, &o, 1) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct model m;
	struct err e = {0};
	char *text = mem_strndup((const char *)data, size);
	if (!text)
		return 0;
	if (model_parse(&m, text, "fuzz.json", &e) == ERR_NONE) {
		check(m.params.total > 0 && m.params.active > 0 && m.params.active <= m.params.total);
		check(model_weight_bytes(&m, &m.native) > 0);
		check(model_kv_bytes_per_token(&m, KV_INT8, &m.native) > 0);
		for (int32_t i = 0; i < m.n_layers; i++)
			check(m.layers[i].kv_from >= 0 && m.layers[i].kv_from <= i && m.layers[i].window >= 0);
		time_it(&m);
		fit_it(&m);
		model_free(&m);
	} else {
		check(e.text[0] != '\0');
	}
	mem_free(text);
	return 0;
}
