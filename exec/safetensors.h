/* safetensors.h: one file of Hugging Face's format, memory-mapped: which tensors it has, and where their bytes are.
 * Format: a little-endian u64 length, a JSON header of that length, then the tensors' bytes with neither gap nor overlap
 * (https://huggingface.co/docs/safetensors). */
#ifndef EXEC_SAFETENSORS_H
#define EXEC_SAFETENSORS_H

#include <stdint.h>

struct err;
struct safetensors;

enum { SAFETENSORS_DIMS = 8 };

struct safetensor {
	const char *name;
	char dtype[12]; /* "F32", "BF16", "F16", ... */
	int32_t n_dims;
	int64_t dims[SAFETENSORS_DIMS];
	const void *data; /* aligned only as the file is */
	int64_t bytes;
};

/* Checks the whole header: ERR_INPUT names the file and the tensor. */
int safetensors_open(struct safetensors **out, const char *path, struct err *e);
void safetensors_close(struct safetensors *s);
int32_t safetensors_count(const struct safetensors *s);
const struct safetensor *safetensors_at(const struct safetensors *s, int32_t i); /* by name, ascending */
const struct safetensor *safetensors_find(const struct safetensors *s, const char *name); /* NULL: not there */

#endif
