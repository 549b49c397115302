#include "tests/support/tiny.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"

static void must(bool ok, const char *what, const char *why)
{
	if (ok)
		return;
	fprintf(stderr, "tiny: %s: %s\n", what, why);
	exit(1);
}

/* Its config.json: these keys, but for those that `keys` tells otherwise. */
static void write_config(char *text, size_t size, const char *keys)
{
	static const char *const usual[][2] = {
		{"\"architectures\"", "[\"LlamaForCausalLM\"]"},
		{"\"hidden_size\"", "64"},
		{"\"intermediate_size\"", "112"},
		{"\"num_hidden_layers\"", "2"},
		{"\"num_attention_heads\"", "4"},
		{"\"num_key_value_heads\"", "2"},
		{"\"vocab_size\"", "97"},
		{"\"max_position_embeddings\"", "4096"},
		{"\"rms_norm_eps\"", "1e-5"},
		{"\"rope_theta\"", "10000.0"},
		{"\"torch_dtype\"", "\"float32\""},
	};
	size_t n = (size_t)snprintf(text, size, "{%s", keys ? keys : "\"model_type\": \"llama\"");
	for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
		if (!keys || !strstr(keys, usual[i][0]))
			n += (size_t)snprintf(text + n, size - n, ", %s: %s", usual[i][0], usual[i][1]);
	snprintf(text + n, size - n, "}");
}

void tiny_open(struct tiny *t, const char *keys, int32_t threads)
{
	char text[2048], why[256] = "";
	struct err e = {0};
	write_config(text, sizeof text, keys);
	*t = (struct tiny){.weights = "random:7"};
	must(!model_parse(&t->model, text, "tiny", &e), "model", e.text);
	if (!threads) {
		must(!reference_kernels_open(&t->kernels), "kernels", "none");
		return;
	}
	struct cpu_options o = {.threads = threads, .batch_invariant = true};
	must(!cpu_kernels_open(&t->kernels, &o, why, sizeof why), "kernels", why);
}

void tiny_close(struct tiny *t)
{
	for (int i = 0; i < 8; i++)
		runner_free(t->alone[i / 2][i % 2]);
	t->kernels->ops->close(t->kernels);
	model_free(&t->model);
}

struct runner *tiny_runner(const struct tiny *t, struct runner_setup s)
{
	struct runner *r = NULL;
	struct weights *w = NULL;
	struct err e = {0};
	must(!weights_open(&w, t->weights, &t->model, &e), "weights", e.text);
	s.model = &t->model;
	s.weights = w;
	s.kernels = t->kernels;
	must(!runner_create(&r, &s, &e), "runner", e.text);
	weights_close(w);
	return r;
}

int32_t by_hand_step(struct by_hand *h, const int32_t *tokens, int32_t n)
{
	struct step_output out;
	int32_t q_at[2] = {0, n}, ctx = h->ctx + n, zero = 0;
	int32_t indptr[2] = {0, (ctx + h->block_size - 1) / h->block_size};
	int64_t *slots = malloc((size_t)n * sizeof *slots), want_at = 0;
	uint8_t samples = 1, held = 0;
	must(slots != NULL && indptr[1] <= h->n_pages, "a step", "too little memory or pages");
	for (int32_t i = 0; i < n; i++) {
		int32_t j = h->ctx + i;
		slots[i] = (int64_t)h->pages[j / h->block_size] * h->block_size + j % h->block_size;
	}
	struct batch_tables t = {.n_seqs = 1,
				 .n_rows = n,
				 .n_decodes = n == 1,
				 .max_ctx = ctx,
				 .sum_ctx = n == 1 ? ctx : 0,
				 .req = &h->req,
				 .q_at = q_at,
				 .ctx_len = &ctx,
				 .pad = &zero,
				 .pad_rows = &zero,
				 .first_token = &h->ctx,
				 .kv_indptr = indptr,
				 .kv_indices = h->pages,
				 .slots = slots,
				 .samples = &samples,
				 .held = &held};
	struct step_input in = {.tables = &t, .row_tokens = tokens, .nth = &h->nth};
	if (h->tags) {
		in.row_tags = h->tags + h->ctx;
		in.want_tags = h->tags;
		in.want_at = &want_at;
	}
	int rc = runner_step(h->runner, &in, &out, h->err);
	free(slots);
	h->ctx = ctx;
	return rc ? -1 : out.tokens[0];
}

void tiny_alone(struct tiny *t, enum num kv_type, bool greedy, int32_t req, const int32_t *prompt, int32_t n,
		int32_t outputs, int32_t *out)
{
	int32_t pages[TINY_LONGEST / 16];
	struct err e = {0};
	struct runner **r = &t->alone[kv_type][greedy];
	struct by_hand h = {.block_size = 16, .n_pages = TINY_LONGEST / 16, .pages = pages, .req = req, .err = &e};
	for (int32_t i = 0; i < h.n_pages; i++)
		pages[i] = i;
	if (!*r)
		*r = tiny_runner(t, (struct runner_setup){.n_pages = h.n_pages,
							  .block_size = 16,
							  .kv_type = kv_type,
							  .sampling = greedy ? SAMPLING_GREEDY : TINY_SAMPLING});
	h.runner = *r;
	for (h.nth = 0; h.nth < outputs; h.nth++) {
		out[h.nth] = h.nth ? by_hand_step(&h, &out[h.nth - 1], 1) : by_hand_step(&h, prompt, n);
		must(out[h.nth] >= 0, "a step", e.text);
	}
}
