/* weights_llama2c.c: the .bin files of karpathy/llama2.c (its version 0): seven int32 (dim, hidden_dim, n_layers, n_heads,
 * n_kv_heads, vocab_size, seq_len; vocab_size negative: the head has weights of its own), then f32 tensors, each kind for
 * all layers: embedding, attention norms, wq, wk, wv, wo, MLP norms, w1 (gate), w2 (down), w3 (up), the last norm, two
 * tables of rotary cosines and sines that are no longer used, the head.
 *
 * Its rotary embedding turns pairs (2 i, 2 i + 1) of a head, ours (i, i + head_dim / 2): rows of q and k are reordered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/mapped.h"
#include "exec/weights_source.h"

enum { HEADER_BYTES = 28, LATER_MAGIC = 0x616b3432 };

struct llama2c_header {
	int32_t dim, hidden, n_layers, n_heads, n_kv_heads, vocab, seq_len;
	bool tied;
};

struct llama2c_weights {
	struct weights base;
	struct mapped file;
	const unsigned char *at[N_TENSORS]; /* of layer 0 */
};

/* Files of others that people have under such names. */
static const char *foreign(const unsigned char *bytes)
{
	if (memcmp(bytes, "PK\3\4", 4) == 0 || memcmp(bytes, "\x80\2", 2) == 0)
		return "a PyTorch checkpoint (convert it to safetensors)";
	if (memcmp(bytes, "GGUF", 4) == 0)
		return "a GGUF file (give the safetensors it was made from)";
	return NULL;
}

static int read_header(const struct mapped *f, const char *path, struct llama2c_header *h, struct err *e)
{
	int32_t v[7];
	if (f->n < HEADER_BYTES)
		return err_set(e, ERR_INPUT, "%.400s: %lld bytes are no weights (a llama2.c .bin has a header of 28)",
			       path, (long long)f->n);
	if (foreign(f->bytes))
		return err_set(e, ERR_INPUT, "%.400s: this is %s", path, foreign(f->bytes));
	memcpy(v, f->bytes, sizeof v);
	if (v[0] == LATER_MAGIC)
		return err_set(
			e, ERR_INPUT,
			"%.400s: version %d of llama2.c's format; only version 0 is read (export.py --version 0)", path,
			v[1]);
	if (v[5] == INT32_MIN)
		return err_set(e, ERR_INPUT, "%.400s: not a llama2.c .bin (vocab_size %d)", path, v[5]);
	*h = (struct llama2c_header){v[0], v[1], v[2], v[3], v[4], v[5] < 0 ? -v[5] : v[5], v[6], v[5] > 0};
	return ERR_NONE;
}

/* As a config.json, so that shapes are checked in one place. */
static int header_model(const struct llama2c_header *h, const char *path, struct model *m, struct err *e)
{
	char text[700];
	snprintf(text, sizeof text,
		 "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": %d, \"intermediate_size\": %d, "
		 "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
		 "\"vocab_size\": %d, \"max_position_embeddings\": %d, \"tie_word_embeddings\": %s, "
		 "\"torch_dtype\": \"float32\", \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000}",
		 h->dim, h->hidden, h->n_layers, h->n_heads, h->n_kv_heads, h->vocab, h->seq_len,
		 h->tied ? "true" : "false");
	int rc = model_parse(m, text, path, e);
	if (rc)
		return rc;
	/* Its tokenizer's <s> stands between texts: a model trained so ends with it, others with </s>. */
	if (m->vocab > 2) {
		m->numerics.bos = 1;
		m->numerics.eos[0] = 1;
		m->numerics.eos[1] = 2;
		m->numerics.n_eos = 2;
	}
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t n = strlen(name);
	if (n > 4 && strcmp(name + n - 4, ".bin") == 0)
		n -= 4;
	snprintf(m->name, sizeof m->name, "%.*s", (int)n, name);
	return ERR_NONE;
}

int weights_llama2c_model(const char *path, struct model *m, struct err *e)
{
	struct mapped f;
	struct llama2c_header h;
	int rc = mapped_open(&f, path, e);
	if (rc)
		return rc;
	rc = read_header(&f, path, &h, e);
	if (!rc)
		rc = header_model(&h, path, m, e);
	mapped_close(&f);
	return rc;
}

/* The order of the file. */
static const enum tensor file_order[] = {TENSOR_EMBED,     TENSOR_ATTENTION_NORM, TENSOR_Q,    TENSOR_K,    TENSOR_V,
					 TENSOR_O,         TENSOR_MLP_NORM,       TENSOR_GATE, TENSOR_DOWN, TENSOR_UP,
					 TENSOR_FINAL_NORM};

static int place_tensors(struct llama2c_weights *l, const char *path, int32_t seq_len, struct err *e)
{
	const struct model *m = &l->base.model;
	int64_t rows, cols, at = HEADER_BYTES;
	for (size_t i = 0; i < sizeof file_order / sizeof file_order[0]; i++) {
		enum tensor t = file_order[i];
		tensor_shape(m, t, &rows, &cols);
		l->at[t] = l->file.bytes + at;
		at += 4 * rows * cols * (tensor_in_layer(t) ? m->n_layers : 1);
		if (at > l->file.n)
			return err_set(
				e, ERR_INPUT, "%.400s: cut off: it has %lld bytes, and its %s reach to byte %lld", path,
				(long long)l->file.n, t == TENSOR_EMBED ? "embeddings" : "weights", (long long)at);
	}
	at += 4 * (int64_t)seq_len * m->head_dim; /* cosines and sines, head_dim / 2 of each */
	l->at[TENSOR_HEAD] = m->tied ? l->at[TENSOR_EMBED] : l->file.bytes + at;
	if (!m->tied)
		at += 4 * (int64_t)m->vocab * m->hidden;
	if (at != l->file.n)
		return err_set(e, ERR_INPUT, "%.400s: %lld bytes, where its header asks for %lld: %s", path,
			       (long long)l->file.n, (long long)at, at > l->file.n ? "cut off" : "not such a file");
	return ERR_NONE;
}

static int same_shape(const struct model *asked, const struct model *file, const char *path, struct err *e)
{
	const struct {
		const char *what;
		int64_t asked, file;
	} all[] = {
		{"hidden_size", asked->hidden, file->hidden},
		{"intermediate_size", asked->intermediate, file->intermediate},
		{"num_hidden_layers", asked->n_layers, file->n_layers},
		{"num_attention_heads", asked->n_heads, file->n_heads},
		{"num_key_value_heads", asked->n_kv_heads, file->n_kv_heads},
		{"head_dim", asked->head_dim, file->head_dim},
		{"vocab_size", asked->vocab, file->vocab},
		{"tie_word_embeddings", asked->tied, file->tied},
		{"qkv bias", asked->qkv_bias, 0},
		{"o bias", asked->o_bias, 0},
		{"mlp_bias", asked->mlp_bias, 0},
		{"q and k norms", asked->qk_norm, 0},
	};
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		if (all[i].asked != all[i].file)
			return err_set(e, ERR_INPUT, "%.300s holds another model than %s: its %s is %lld, not %lld",
				       path, asked->name, all[i].what, (long long)all[i].file, (long long)all[i].asked);
	return ERR_NONE;
}

static void llama2c_close(struct weights *w)
{
	mapped_close(&((struct llama2c_weights *)w)->file);
}

static int llama2c_open(struct weights **out, const char *path, const struct model *m, struct err *e)
{
	struct llama2c_header h;
	struct model own = {0};
	const char *slash = strrchr(path, '/');
	struct llama2c_weights *l = (struct llama2c_weights *)weights_new(sizeof *l, &weights_llama2c, m);
	if (!l)
		return err_no_memory(e, "weights");
	int rc = mapped_open(&l->file, path, e);
	if (!rc)
		rc = read_header(&l->file, path, &h, e);
	if (!rc)
		rc = header_model(&h, path, &own, e);
	if (!rc)
		rc = same_shape(m, &own, path, e);
	if (!rc)
		rc = place_tensors(l, path, h.seq_len, e);
	model_free(&own);
	snprintf(l->base.describe, sizeof l->base.describe, "%.120s (llama2.c, f32)", slash ? slash + 1 : path);
	if (rc)
		weights_close(&l->base);
	else
		*out = &l->base;
	return rc;
}

/* Row i of a head's first half is row 2 i of the file, row i of its second half row 2 i + 1. */
static void reorder(const struct model *m, const unsigned char *from, int64_t rows, int64_t cols, float *to)
{
	int64_t half = m->head_dim / 2, bytes = 4 * cols;
	for (int64_t r = 0; r < rows; r++) {
		int64_t head = r / m->head_dim, i = r % m->head_dim;
		int64_t source = head * m->head_dim + (i < half ? 2 * i : 2 * (i - half) + 1);
		memcpy(to + r * cols, from + source * bytes, (size_t)bytes);
	}
}

static int llama2c_get(struct weights *w, enum tensor t, int32_t layer, struct tensor_data *out, struct err *e)
{
	const struct llama2c_weights *l = (const struct llama2c_weights *)w;
	int64_t bytes = 4 * out->rows * out->cols;
	const unsigned char *from = l->at[t] + layer * bytes;
	out->type = NUM_F32;
	out->data = from; /* 28 bytes of header: floats are aligned */
	if (t != TENSOR_Q && t != TENSOR_K)
		return ERR_NONE;
	int rc = weights_buffer(w, (size_t)bytes, e);
	if (rc)
		return rc;
	reorder(&w->model, from, out->rows, out->cols, w->buffer);
	out->data = w->buffer;
	return ERR_NONE;
}

const struct weights_source weights_llama2c = {llama2c_open, llama2c_get, llama2c_close};
