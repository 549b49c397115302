/* weights.c: which source a name means, and the shapes every source's tensors must have. */
#include "exec/weights.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/mapped.h"
#include "exec/weights_source.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weight files are little-endian and read as they are");

bool tensor_in_layer(enum tensor t)
{
	return t >= TENSOR_ATTENTION_NORM;
}

bool tensor_shape(const struct model *m, enum tensor t, int64_t *rows, int64_t *cols)
{
	int64_t q = (int64_t)m->n_heads * m->head_dim, kv = (int64_t)m->n_kv_heads * m->head_dim;
	const struct {
		bool has;
		int64_t rows, cols;
	} shapes[N_TENSORS] = {
		[TENSOR_EMBED] = {true, m->vocab, m->hidden},
		[TENSOR_FINAL_NORM] = {true, 1, m->hidden},
		[TENSOR_HEAD] = {true, m->vocab, m->hidden},
		[TENSOR_ATTENTION_NORM] = {true, 1, m->hidden},
		[TENSOR_Q] = {true, q, m->hidden},
		[TENSOR_K] = {true, kv, m->hidden},
		[TENSOR_V] = {true, kv, m->hidden},
		[TENSOR_O] = {true, m->hidden, q},
		[TENSOR_Q_BIAS] = {m->qkv_bias, 1, q},
		[TENSOR_K_BIAS] = {m->qkv_bias, 1, kv},
		[TENSOR_V_BIAS] = {m->qkv_bias, 1, kv},
		[TENSOR_O_BIAS] = {m->o_bias, 1, m->hidden},
		[TENSOR_Q_NORM] = {m->qk_norm, 1, m->head_dim},
		[TENSOR_K_NORM] = {m->qk_norm, 1, m->head_dim},
		[TENSOR_MLP_NORM] = {true, 1, m->hidden},
		[TENSOR_GATE] = {true, m->intermediate, m->hidden},
		[TENSOR_UP] = {true, m->intermediate, m->hidden},
		[TENSOR_DOWN] = {true, m->hidden, m->intermediate},
		[TENSOR_GATE_BIAS] = {m->mlp_bias, 1, m->intermediate},
		[TENSOR_UP_BIAS] = {m->mlp_bias, 1, m->intermediate},
		[TENSOR_DOWN_BIAS] = {m->mlp_bias, 1, m->hidden},
	};
	*rows = shapes[t].rows;
	*cols = shapes[t].cols;
	return shapes[t].has;
}

struct weights *weights_new(size_t size, const struct weights_source *source, const struct model *m)
{
	struct weights *w = mem_zalloc(1, size);
	if (!w)
		return NULL;
	w->source = source;
	w->model = *m;
	w->model.layers = NULL;
	return w;
}

int weights_buffer(struct weights *w, size_t bytes, struct err *e)
{
	if (bytes <= w->buffer_bytes)
		return ERR_NONE;
	mem_free(w->buffer);
	w->buffer_bytes = 0;
	w->buffer = mem_alloc(bytes);
	if (!w->buffer)
		return err_no_memory(e, "a tensor of the model's weights");
	w->buffer_bytes = bytes;
	return ERR_NONE;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);
	return n >= m && strcmp(text + n - m, end) == 0;
}

/* A safetensors file begins with the length of its header, which begins with a brace. */
static int is_safetensors_file(const char *path, bool *yes, struct err *e)
{
	struct mapped f;
	uint64_t n = 0;
	int rc = mapped_open(&f, path, e);
	if (rc)
		return rc;
	if (f.n > 8)
		memcpy(&n, f.bytes, 8);
	*yes = ends_with(path, ".safetensors") || (n > 0 && n <= (uint64_t)f.n - 8 && f.bytes[8] == '{');
	mapped_close(&f);
	return ERR_NONE;
}

static int find_source(const char *name, const struct weights_source **out, struct err *e)
{
	struct stat st;
	bool safetensors = true;
	if (strncmp(name, "random:", 7) == 0 || strcmp(name, "random") == 0) {
		*out = &weights_random;
		return ERR_NONE;
	}
	if (stat(name, &st) != 0)
		return err_set(
			e, ERR_INPUT,
			"cannot open the weights %.300s: %s (a .safetensors file, a folder with such files, a .bin of "
			"llama2.c, or random:SEED)",
			name, strerror(errno));
	int rc = S_ISDIR(st.st_mode) ? ERR_NONE : is_safetensors_file(name, &safetensors, e);
	*out = safetensors ? &weights_safetensors : &weights_llama2c;
	return rc;
}

int weights_open(struct weights **out, const char *source, const struct model *m, struct err *e)
{
	const struct weights_source *s;
	*out = NULL;
	int rc = find_source(source, &s, e);
	if (!rc && m->numerics.unsupported[0])
		rc = err_set(e, ERR_INPUT, "%s cannot be run here: %s (it can be simulated)", m->name,
			     m->numerics.unsupported);
	return rc ? rc : s->open(out, source, m, e);
}

int weights_model(const char *source, struct model *m, struct err *e)
{
	const struct weights_source *s;
	memset(m, 0, sizeof *m);
	int rc = find_source(source, &s, e);
	if (rc)
		return rc;
	if (s == &weights_random)
		return err_set(e, ERR_INPUT, "%.100s says no shapes: --model NAME (or a config.json) must", source);
	return s == &weights_llama2c ? weights_llama2c_model(source, m, e) : weights_safetensors_model(source, m, e);
}

int weights_get(struct weights *w, enum tensor t, int32_t layer, struct tensor_data *out, struct err *e)
{
	int64_t rows, cols;
	if (t == TENSOR_HEAD && w->model.tied)
		t = TENSOR_EMBED;
	if (!tensor_shape(&w->model, t, &rows, &cols) ||
	    (tensor_in_layer(t) && (layer < 0 || layer >= w->model.n_layers)))
		return err_set(e, ERR_INVARIANT, "%s has no tensor %d in layer %d", w->model.name, (int)t, layer);
	*out = (struct tensor_data){.rows = rows, .cols = cols};
	return w->source->get(w, t, tensor_in_layer(t) ? layer : 0, out, e);
}

void weights_close(struct weights *w)
{
	if (!w)
		return;
	w->source->close(w);
	mem_free(w->buffer);
	mem_free(w);
}

const char *weights_describe(const struct weights *w)
{
	return w->describe;
}
