/* weights_source.h: what the sources of weights share: exec/weights.c keeps the model's shapes and a buffer for tensors that
 * are made or converted, each source (weights_*.c) says where its tensors come from. */
#ifndef EXEC_WEIGHTS_SOURCE_H
#define EXEC_WEIGHTS_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

#include "exec/weights.h"

struct weights_source {
	/* Checks everything against w->model; sets w->describe. */
	int (*open)(struct weights **out, const char *name, const struct model *m, struct err *e);
	/* The tensor exists; rows and cols are set. */
	int (*get)(struct weights *w, enum tensor t, int32_t layer, struct tensor_data *out, struct err *e);
	void (*close)(struct weights *w);
};
extern const struct weights_source weights_random, weights_llama2c, weights_safetensors;

/* A source's own struct begins with this. */
struct weights {
	const struct weights_source *source;
	struct model model; /* shapes; its layers are not kept */
	char describe[160];
	void *buffer;
	size_t buffer_bytes;
};

/* Zeroed, `size` bytes of the source's own struct. NULL without memory. */
struct weights *weights_new(size_t size, const struct weights_source *source, const struct model *m);
/* Makes the buffer at least so large; what it held is lost. */
int weights_buffer(struct weights *w, size_t bytes, struct err *e);

/* Whether the model has such a tensor, and its shape; a vector has one row. */
bool tensor_shape(const struct model *m, enum tensor t, int64_t *rows, int64_t *cols);
bool tensor_in_layer(enum tensor t);

/* weights_model for a source. */
int weights_llama2c_model(const char *path, struct model *m, struct err *e);
int weights_safetensors_model(const char *path, struct model *m, struct err *e);

#endif
