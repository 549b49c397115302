/* Any bytes as a safetensors file: an error with a text, or tensors that lie in the file, and weights that can be read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "exec/safetensors.h"
#include "exec/weights.h"
#include "tests/support/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

static volatile unsigned sink;

/* Reads every byte: a sanitizer or the memory's end says if one is not the file's. */
static void touch(const void *data, int64_t bytes)
{
	for (int64_t i = 0; i < bytes; i++)
		sink += ((const unsigned char *)data)[i];
}

static void read_tensors(const char *path)
{
	struct safetensors *s;
	struct err e = {0};
	if (safetensors_open(&s, path, &e) != ERR_NONE) {
		check(e.text[0] != '\0' && !s);
		return;
	}
	int64_t total = 0;
	for (int32_t i = 0; i < safetensors_count(s); i++) {
		const struct safetensor *t = safetensors_at(s, i);
		check(safetensors_find(s, t->name) == t);
		touch(t->data, t->bytes);
		total += t->bytes;
	}
	check(total <= 1 << 16);
	safetensors_close(s);
}

/* The model that the corpus' files are of. */
static void read_weights(const char *path)
{
	static const char config[] =
		"{\"model_type\": \"llama\", \"hidden_size\": 4, \"intermediate_size\": 6, "
		"\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
		"\"vocab_size\": 8, \"max_position_embeddings\": 16}";
	struct model m;
	struct weights *w;
	struct tensor_data d;
	struct err e = {0};
	check(model_parse(&m, config, "fuzz", &e) == ERR_NONE);
	if (weights_open(&w, path, &m, &e) == ERR_NONE) {
		for (int t = 0; t < N_TENSORS; t++)
			if (t < TENSOR_Q_BIAS || (t > TENSOR_K_NORM && t < TENSOR_GATE_BIAS)) {
				check(weights_get(w, (enum tensor)t, 0, &d, &e) == ERR_NONE);
				touch(d.data, d.rows * d.cols * (d.type == NUM_F32 ? 4 : 2));
			}
		weights_close(w);
	} else {
		check(e.text[0] != '\0' && !w);
	}
	model_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = memory_file(data, size);
	read_tensors(path);
	read_weights(path);
	return 0;
}
