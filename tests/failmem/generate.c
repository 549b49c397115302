/* Every allocation of reading weights and tokenizers, and of generating and comparing, fails once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/generate.h"
#include "core/err.h"
#include "core/mem.h"
#include "exec/tokenizer.h"
#include "exec/weights.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"

static int finish(int rc, const struct err *e, char text[1024])
{
	snprintf(text, 1024, "%s", e->text);
	return rc;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

struct source {
	const char *weights, *model; /* model: a config's text; NULL = what the weights say */
};

static int read_all(struct weights *w, const struct model *m, struct err *e)
{
	struct tensor_data d;
	int rc = ERR_NONE;
	for (int t = 0; t < N_TENSORS && !rc; t++)
		if (t < TENSOR_Q_BIAS || (t > TENSOR_K_NORM && t < TENSOR_GATE_BIAS))
			rc = weights_get(w, (enum tensor)t, m->n_layers - 1, &d, e);
	return rc;
}

static int read_weights(void *ctx, char text[1024])
{
	const struct source *s = ctx;
	struct model m = {0};
	struct weights *w = NULL;
	struct err e = {0};
	int rc = s->model ? model_parse(&m, s->model, "config", &e) : weights_model(s->weights, &m, &e);
	if (!rc)
		rc = weights_open(&w, s->weights, &m, &e);
	if (!rc)
		rc = read_all(w, &m, &e);
	weights_close(w);
	model_free(&m);
	return finish(rc, &e, text);
}

static const char small[] = "{\"model_type\": \"llama\", \"hidden_size\": 4, \"intermediate_size\": 6, "
			    "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
			    "\"vocab_size\": 8, \"max_position_embeddings\": 16}";

static void weights_of_every_source(void)
{
	struct source random = {"random:1", small}, llama2c = {"tests/corpus/llama2c/tied.bin", NULL},
		      file = {"tests/corpus/safetensors/f16_odd.safetensors", small};
	CU_ASSERT(failing_mem_each(read_weights, &random, 0) >= 3);
	CU_ASSERT(failing_mem_each(read_weights, &llama2c, 0) >= 3);
	CU_ASSERT(failing_mem_each(read_weights, &file, 0) >= 6);
	CHECK_INT(failing_mem_held(), 0);
}

static void copy_file(const char *from, const char *to)
{
	static char bytes[1 << 16];
	FILE *f = fopen(from, "rb"), *g = fopen(to, "wb");
	CU_ASSERT_FATAL(f != NULL && g != NULL);
	size_t n = fread(bytes, 1, sizeof bytes, f);
	CU_ASSERT_FATAL(n > 0 && fwrite(bytes, 1, n, g) == n);
	fclose(f);
	fclose(g);
}

static void a_folder_with_its_config(void)
{
	char path[512];
	char folder[256];
	snprintf(folder, sizeof folder, "%s", temp_path("checkpoint"));
	mkdir(folder, 0700);
	snprintf(path, sizeof path, "%s/a.safetensors", folder);
	copy_file("tests/corpus/safetensors/f32.safetensors", path);
	snprintf(path, sizeof path, "%s/config.json", folder);
	FILE *f = fopen(path, "w");
	CU_ASSERT_FATAL(f != NULL && fputs(small, f) >= 0 && fclose(f) == 0);
	struct source source = {folder, NULL};
	CU_ASSERT(failing_mem_each(read_weights, &source, 0) >= 8);
	CHECK_INT(failing_mem_held(), 0);
}

/* ---- tokenizers -------------------------------------------------------------------------------------------------- */

static int tokenize(void *ctx, char text[1024])
{
	struct tokenizer *t = NULL;
	struct err e = {0};
	int32_t *ids = NULL;
	int64_t n = 0, cap = 0;
	int rc = tokenizer_open(&t, ctx, 0, &e);
	if (!rc)
		rc = tokenizer_encode(t, "the one on the other hand, at the other end of the hen", true, &ids, &n, &cap,
				      &e);
	mem_free(ids);
	tokenizer_close(t);
	return finish(rc, &e, text);
}

static void a_tokenizer_and_a_text(void)
{
	char path[] = "tests/corpus/tokenizer/joins.bin";
	CU_ASSERT(failing_mem_each(tokenize, path, 0) >= 10);
	CHECK_INT(failing_mem_held(), 0);
}

/* ---- generating -------------------------------------------------------------------------------------------------- */

static int continue_prompt(void *ctx, char text[1024])
{
	static const int32_t prompt[] = {1, 5, 2};
	const bool *compares = ctx;
	struct model m;
	struct generation g = {0};
	struct likeness l = {0};
	struct err e = {0};
	int rc = weights_model("tests/corpus/llama2c/tied.bin", &m, &e);
	struct generate_setup s = {.model = &m,
				   .executor = {.backend = "cpu",
						.weights = "tests/corpus/llama2c/tied.bin",
						.threads = 1,
						.block_size = 4,
						.sampling = {.temperature = *compares ? 0 : 1, .top_p = 0.9}},
				   .prompt = prompt,
				   .n_prompt = 3,
				   .n_new = 5,
				   .chunk = 2};
	if (!rc)
		rc = *compares ? generate_compare(&s, NUM_I8, NUM_BF16, false, &l, &e) : generate(&s, &g, &e);
	generation_free(&g);
	likeness_free(&l);
	model_free(&m);
	return finish(rc, &e, text);
}

static void generating(void)
{
	bool compares = false;
	CU_ASSERT(failing_mem_each(continue_prompt, &compares, 0) > 20);
	compares = true;
	CU_ASSERT(failing_mem_each(continue_prompt, &compares, 0) > 40);
	CHECK_INT(failing_mem_held(), 0);
}

int main(void)
{
	static const struct test tests[] = {
		{"weights_of_every_source", weights_of_every_source},
		{"a_folder_with_its_config", a_folder_with_its_config},
		{"a_tokenizer_and_a_text", a_tokenizer_and_a_text},
		{"generating", generating},
	};
	return SUITE_RUN("failmem_generate", tests);
}
