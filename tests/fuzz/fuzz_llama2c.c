/* Any bytes as a .bin of llama2.c: an error with a text, or a model whose every tensor lies in the file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "exec/weights.h"
#include "tests/support/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

static volatile float sink;

static void read_all(struct weights *w, const struct model *m)
{
	struct tensor_data d;
	struct err e = {0};
	for (int t = 0; t < N_TENSORS; t++)
		for (int32_t l = 0; l < m->n_layers; l++) {
			if ((t >= TENSOR_Q_BIAS && t <= TENSOR_K_NORM) || t >= TENSOR_GATE_BIAS)
				continue;
			check(weights_get(w, (enum tensor)t, l, &d, &e) == ERR_NONE && d.type == NUM_F32);
			for (int64_t i = 0; i < d.rows * d.cols; i++)
				sink = ((const float *)d.data)[i];
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path = memory_file(data, size);
	struct model m;
	struct weights *w;
	struct err e = {0};
	if (weights_model(path, &m, &e) != ERR_NONE) {
		check(e.text[0] != '\0');
		return 0;
	}
	check(m.params.total > 0);
	if (weights_open(&w, path, &m, &e) == ERR_NONE) {
		check(4 * m.params.total <= (int64_t)size);
		read_all(w, &m);
		weights_close(w);
	} else {
		check(e.text[0] != '\0' && !w);
	}
	model_free(&m);
	return 0;
}
