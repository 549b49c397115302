/* checkpoint.h: small models in Hugging Face's and llama2.c's formats, written by the tests themselves. */
#ifndef TESTS_SUPPORT_CHECKPOINT_H
#define TESTS_SUPPORT_CHECKPOINT_H

#include <stdint.h>

#include "exec/weights.h"

struct file_tensor {
	char name[96];
	const char *dtype; /* "F32", "BF16", ... */
	int32_t n_dims;
	int64_t dims[2];
	const void *data;
	int64_t bytes;
};

/* Writes them as one safetensors file, the header padded to `align` bytes (8 is usual). */
void checkpoint_write(const char *path, const struct file_tensor *t, int n, int align);
/* Any header over any data, as it is. */
void checkpoint_write_raw(const char *path, const char *header, int64_t header_bytes, const void *data, int64_t bytes);

/* Every tensor of a model, in f32, on the heap: values of a seed, made by the test's own generator. */
struct toy {
	struct model model;
	float *at[N_TENSORS][64]; /* [tensor][layer]; NULL where the model has none */
	int64_t n[N_TENSORS]; /* elements of one */
};
/* `config`: a config.json's text; exits when it is bad. At most 64 layers. */
void toy_create(struct toy *t, const char *config, uint64_t seed);
void toy_free(struct toy *t);
/* As transformers names them. `dtype`: F32, BF16 or F16 (values are rounded, those in memory too, so that they agree).
 * Returns how many; data and names are valid until toy_tensors_free. */
int toy_tensors(struct toy *t, const char *prefix, const char *dtype, struct file_tensor **out);
void toy_tensors_free(struct file_tensor *t, int n);

#endif
