/* weights_safetensors.c: weights from Hugging Face checkpoints: one safetensors file, or a folder with one or several,
 * where model.safetensors.index.json (if there) says which file holds which tensor. Names are those that transformers gives
 * the tensors of Llama, Mistral, Qwen2 and Qwen3, with "model." before them or (the bare model saved) without. */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/mapped.h"
#include "exec/safetensors.h"
#include "exec/weights_source.h"
#include "models/json_read.h"

enum { MAX_FILES = 4096, PATH_SIZE = 1024, NAME_SIZE = 128 };
#define INDEX_NAME "model.safetensors.index.json"

struct shard {
	char *path;
	struct safetensors *tensors;
};

struct checkpoint {
	struct weights base;
	char *folder; /* with its last slash; "" = here */
	struct shard *shards; /* by path */
	int64_t n_shards, cap_shards;
	json_t *map; /* the index's: tensor -> file; NULL without one */
	const char *prefix; /* "model." or "" */
	struct tensor_data *at; /* [tensor of layer] */
	enum num type; /* of its largest matrix, to describe it */
};

static const char *const names[N_TENSORS] = {
	[TENSOR_EMBED] = "embed_tokens.weight",
	[TENSOR_FINAL_NORM] = "norm.weight",
	[TENSOR_HEAD] = "lm_head.weight",
	[TENSOR_ATTENTION_NORM] = "input_layernorm.weight",
	[TENSOR_Q] = "self_attn.q_proj.weight",
	[TENSOR_K] = "self_attn.k_proj.weight",
	[TENSOR_V] = "self_attn.v_proj.weight",
	[TENSOR_O] = "self_attn.o_proj.weight",
	[TENSOR_Q_BIAS] = "self_attn.q_proj.bias",
	[TENSOR_K_BIAS] = "self_attn.k_proj.bias",
	[TENSOR_V_BIAS] = "self_attn.v_proj.bias",
	[TENSOR_O_BIAS] = "self_attn.o_proj.bias",
	[TENSOR_Q_NORM] = "self_attn.q_norm.weight",
	[TENSOR_K_NORM] = "self_attn.k_norm.weight",
	[TENSOR_MLP_NORM] = "post_attention_layernorm.weight",
	[TENSOR_GATE] = "mlp.gate_proj.weight",
	[TENSOR_UP] = "mlp.up_proj.weight",
	[TENSOR_DOWN] = "mlp.down_proj.weight",
	[TENSOR_GATE_BIAS] = "mlp.gate_proj.bias",
	[TENSOR_UP_BIAS] = "mlp.up_proj.bias",
	[TENSOR_DOWN_BIAS] = "mlp.down_proj.bias",
};

static void tensor_name(const struct checkpoint *c, enum tensor t, int32_t layer, char name[NAME_SIZE])
{
	if (t == TENSOR_HEAD)
		snprintf(name, NAME_SIZE, "%s", names[t]);
	else if (tensor_in_layer(t))
		snprintf(name, NAME_SIZE, "%slayers.%d.%s", c->prefix, layer, names[t]);
	else
		snprintf(name, NAME_SIZE, "%s%s", c->prefix, names[t]);
}

/* The folder a path is in, with its last slash. */
static char *folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? mem_strndup(path, (size_t)(slash - path) + 1) : mem_strdup("");
}

/* ---- which files ------------------------------------------------------------------------------------------------- */

static int add_shard(struct checkpoint *c, const char *folder, const char *name, struct err *e)
{
	size_t size = strlen(folder) + strlen(name) + 1;
	if (c->n_shards == MAX_FILES)
		return err_set(e, ERR_INPUT, "%.400s: more than %d files", folder, MAX_FILES);
	if (mem_grow((void **)&c->shards, &c->cap_shards, c->n_shards + 1, sizeof *c->shards))
		return err_no_memory(e, "the files of a checkpoint");
	char *path = mem_alloc(size);
	if (!path)
		return err_no_memory(e, "the files of a checkpoint");
	snprintf(path, size, "%s%s", folder, name);
	c->shards[c->n_shards++] = (struct shard){.path = path};
	return ERR_NONE;
}

static struct shard *shard_named(const struct checkpoint *c, const char *name)
{
	size_t skip = strlen(c->folder);
	for (int64_t i = 0; i < c->n_shards; i++)
		if (strcmp(c->shards[i].path + skip, name) == 0)
			return &c->shards[i];
	return NULL;
}

/* The files that the index names. */
static int read_index(struct checkpoint *c, const char *path, struct err *e)
{
	struct mapped f;
	const char *tensor;
	json_t *file;
	int rc = mapped_open(&f, path, e);
	if (rc)
		return rc;
	char *text = mem_strndup(f.bytes ? (const char *)f.bytes : "", (size_t)f.n);
	mapped_close(&f);
	if (!text)
		return err_no_memory(e, "an index of weights");
	json_t *root = json_read_object(text, path, e);
	mem_free(text);
	if (!root)
		return e->code;
	c->map = json_incref(json_object_get(root, "weight_map"));
	json_decref(root);
	if (!json_is_object(c->map) || json_object_size(c->map) == 0)
		return err_set(e, ERR_INPUT, "%.400s: weight_map must say which file holds which tensor", path);
	json_object_foreach(c->map, tensor, file)
	{
		const char *name = json_string_value(file);
		if (!name || !name[0] || strchr(name, '/'))
			return err_set(e, ERR_INPUT,
				       "%.400s: tensor %.120s: its file must be the name of one in that folder", path,
				       tensor);
		if (!shard_named(c, name))
			rc = add_shard(c, c->folder, name, e);
		if (rc)
			return rc;
	}
	return ERR_NONE;
}

static int is_safetensors(const struct dirent *d)
{
	size_t n = strlen(d->d_name);
	return n > 12 && strcmp(d->d_name + n - 12, ".safetensors") == 0;
}

static int list_folder(struct checkpoint *c, struct err *e)
{
	struct dirent **found;
	int n = scandir(c->folder, &found, is_safetensors, alphasort), rc = ERR_NONE;
	if (n < 0)
		return errno == ENOMEM ? err_no_memory(e, "a folder's files")
				       : err_set(e, ERR_IO, "cannot read %.400s: %s", c->folder, strerror(errno));
	if (n == 0)
		rc = err_set(e, ERR_INPUT, "%.400s: there is no .safetensors file in it", c->folder);
	for (int i = 0; i < n; i++) {
		if (!rc)
			rc = add_shard(c, c->folder, found[i]->d_name, e);
		free(found[i]);
	}
	free(found);
	return rc;
}

static int find_files(struct checkpoint *c, const char *source, struct err *e)
{
	struct stat st;
	char index[PATH_SIZE];
	if (stat(source, &st) != 0)
		return err_set(e, ERR_INPUT, "cannot open %.400s: %s", source, strerror(errno));
	if (!S_ISDIR(st.st_mode)) {
		c->folder = folder_of(source);
		return c->folder ? add_shard(c, "", source, e) : err_no_memory(e, "a path");
	}
	size_t n = strlen(source);
	c->folder = mem_alloc(n + 2);
	if (!c->folder)
		return err_no_memory(e, "a path");
	snprintf(c->folder, n + 2, "%s%s", source, n && source[n - 1] == '/' ? "" : "/");
	if (snprintf(index, sizeof index, "%s" INDEX_NAME, c->folder) >= (int)sizeof index)
		return err_set(e, ERR_INPUT, "%.400s...: the path is too long", source);
	return stat(index, &st) == 0 ? read_index(c, index, e) : list_folder(c, e);
}

/* ---- which tensors ----------------------------------------------------------------------------------------------- */

/* The tensor and the file it is in; NULL without an error: it is nowhere. */
static const struct safetensor *find_tensor(const struct checkpoint *c, const char *name, const char **path,
					    struct err *e)
{
	const struct safetensor *found = NULL;
	*path = c->shards[0].path;
	if (c->map) {
		const char *file = json_string_value(json_object_get(c->map, name));
		if (!file)
			return NULL;
		const struct shard *s = shard_named(c, file);
		*path = s->path;
		found = safetensors_find(s->tensors, name);
		if (!found)
			err_set(e, ERR_INPUT, "%.400s: tensor %s is not in it, and " INDEX_NAME " says it is", s->path,
				name);
		return found;
	}
	for (int64_t i = 0; i < c->n_shards; i++) {
		const struct safetensor *t = safetensors_find(c->shards[i].tensors, name);
		if (t && found) {
			err_set(e, ERR_INPUT, "tensor %s is in two files, %.300s and %.300s", name, *path,
				c->shards[i].path);
			return NULL;
		}
		if (t) {
			found = t;
			*path = c->shards[i].path;
		}
	}
	return found;
}

static void shape_text(int32_t n, const int64_t *dims, char *buf, size_t size)
{
	size_t at = (size_t)snprintf(buf, size, "[");
	for (int32_t i = 0; i < n && at < size; i++)
		at += (size_t)snprintf(buf + at, size - at, "%s%lld", i ? ", " : "", (long long)dims[i]);
	if (at < size)
		snprintf(buf + at, size - at, "]");
}

static int check_tensor(const struct checkpoint *c, const struct safetensor *t, const char *path,
			struct tensor_data *out, struct err *e)
{
	static const struct {
		const char *name;
		enum num type;
	} types[] = {{"F32", NUM_F32}, {"BF16", NUM_BF16}, {"F16", NUM_F16}};
	const int64_t want[2] = {out->rows, out->cols};
	int32_t n = out->rows == 1 && t->n_dims == 1 ? 1 : 2;
	size_t i = 0;
	while (i < 3 && strcmp(t->dtype, types[i].name) != 0)
		i++;
	if (i == 3)
		return err_set(e, ERR_INPUT, "%.400s: tensor %s is of type %s; weights are read in F32, BF16 and F16",
			       path, t->name, t->dtype);
	if (t->n_dims != n || memcmp(t->dims, want + 2 - n, (size_t)n * sizeof *want) != 0) {
		char has[200], needs[80];
		shape_text(t->n_dims, t->dims, has, sizeof has);
		shape_text(out->rows == 1 ? 1 : 2, out->rows == 1 ? want + 1 : want, needs, sizeof needs);
		return err_set(e, ERR_INPUT, "%.400s: tensor %s has the shape %s; %s needs %s", path, t->name, has,
			       c->base.model.name, needs);
	}
	out->type = types[i].type;
	out->data = t->data;
	return ERR_NONE;
}

static int place_tensor(struct checkpoint *c, enum tensor t, int32_t layer, struct err *e)
{
	char name[NAME_SIZE];
	const char *path;
	struct tensor_data *out = &c->at[layer * N_TENSORS + (int32_t)t];
	bool has = tensor_shape(&c->base.model, t, &out->rows, &out->cols);
	if (t == TENSOR_HEAD && c->base.model.tied)
		return ERR_NONE; /* some files hold it all the same */
	tensor_name(c, t, layer, name);
	const struct safetensor *found = find_tensor(c, name, &path, e);
	if (e->code)
		return e->code;
	if (!has && found)
		return err_set(e, ERR_INPUT, "%.400s: tensor %s is there, and %s as its config describes it has none",
			       path, name, c->base.model.name);
	if (has && !found)
		return err_set(e, ERR_INPUT, "%.400s: tensor %s is missing%s%s", path, name,
			       c->n_shards > 1 ? " (as it is in the other files)" : "",
			       t == TENSOR_HEAD ? " (does the model's config lack tie_word_embeddings?)" : "");
	return has ? check_tensor(c, found, path, out, e) : ERR_NONE;
}

/* With or without "model.". */
static int find_prefix(struct checkpoint *c, struct err *e)
{
	static const char *const prefixes[] = {"model.", ""};
	const char *path;
	for (int i = 0; i < 2; i++) {
		char name[NAME_SIZE];
		c->prefix = prefixes[i];
		tensor_name(c, TENSOR_EMBED, 0, name);
		if (find_tensor(c, name, &path, e) || e->code)
			return e->code;
	}
	return err_set(e, ERR_INPUT,
		       "%.400s: tensor model.embed_tokens.weight is missing: not a model of the Llama kind",
		       c->shards[0].path);
}

static int place_tensors(struct checkpoint *c, struct err *e)
{
	const struct model *m = &c->base.model;
	char name[NAME_SIZE];
	const char *path;
	int rc = find_prefix(c, e);
	c->at = mem_zalloc((size_t)m->n_layers * N_TENSORS, sizeof *c->at);
	if (!c->at)
		return err_no_memory(e, "the places of weights");
	for (int32_t layer = 0; layer < m->n_layers && !rc; layer++)
		for (int t = 0; t < N_TENSORS && !rc; t++)
			if (layer == 0 || tensor_in_layer((enum tensor)t))
				rc = place_tensor(c, (enum tensor)t, layer, e);
	if (rc)
		return rc;
	tensor_name(c, TENSOR_ATTENTION_NORM, m->n_layers, name);
	if (find_tensor(c, name, &path, e))
		return err_set(e, ERR_INPUT, "%.400s: tensor %s is there, and %s has only %d layers", path, name,
			       m->name, m->n_layers);
	return e->code;
}

/* ---- as a source ------------------------------------------------------------------------------------------------- */

static void checkpoint_close(struct weights *w)
{
	struct checkpoint *c = (struct checkpoint *)w;
	for (int64_t i = 0; i < c->n_shards; i++) {
		safetensors_close(c->shards[i].tensors);
		mem_free(c->shards[i].path);
	}
	json_decref(c->map);
	mem_free(c->shards);
	mem_free(c->folder);
	mem_free(c->at);
}

static void describe(struct checkpoint *c, const char *source)
{
	char name[100];
	size_t n = strlen(source);
	while (n > 1 && source[n - 1] == '/')
		n--;
	size_t from = n;
	while (from > 0 && source[from - 1] != '/')
		from--;
	snprintf(name, sizeof name, "%.*s", (int)(n - from), source + from);
	snprintf(c->base.describe, sizeof c->base.describe, "%s (%lld file%s, %s)", name, (long long)c->n_shards,
		 c->n_shards == 1 ? "" : "s", num_names[c->at[TENSOR_Q].type]);
}

static int checkpoint_open(struct weights **out, const char *source, const struct model *m, struct err *caller)
{
	struct err own = {0}, *e = &own; /* it is looked at on the way, and the caller's may hold something */
	struct checkpoint *c = (struct checkpoint *)weights_new(sizeof *c, &weights_safetensors, m);
	if (!c)
		return err_no_memory(caller, "weights");
	int rc = find_files(c, source, e);
	for (int64_t i = 0; i < c->n_shards && !rc; i++)
		rc = safetensors_open(&c->shards[i].tensors, c->shards[i].path, e);
	if (!rc)
		rc = place_tensors(c, e);
	if (rc) {
		weights_close(&c->base);
		return err_set(caller, (enum err_code)rc, "%s", own.text);
	}
	describe(c, source);
	*out = &c->base;
	return ERR_NONE;
}

static int checkpoint_get(struct weights *w, enum tensor t, int32_t layer, struct tensor_data *out, struct err *e)
{
	const struct checkpoint *c = (const struct checkpoint *)w;
	*out = c->at[layer * N_TENSORS + (int32_t)t];
	size_t each = out->type == NUM_F32 ? 4 : 2, bytes = (size_t)(out->rows * out->cols) * each;
	if ((uintptr_t)out->data % each == 0)
		return ERR_NONE;
	/* A header of odd length: the numbers lie askew. */
	int rc = weights_buffer(w, bytes, e);
	if (rc)
		return rc;
	memcpy(w->buffer, out->data, bytes);
	out->data = w->buffer;
	return ERR_NONE;
}

const struct weights_source weights_safetensors = {checkpoint_open, checkpoint_get, checkpoint_close};

int weights_safetensors_model(const char *source, struct model *m, struct err *e)
{
	struct stat st;
	char path[PATH_SIZE];
	bool folder = stat(source, &st) == 0 && S_ISDIR(st.st_mode);
	const char *slash = strrchr(source, '/');
	int base = folder ? (int)strlen(source) : slash ? (int)(slash - source) : 1;
	int n = snprintf(path, sizeof path, "%.*s/config.json", base, folder || slash ? source : ".");
	if (n >= (int)sizeof path)
		return err_set(e, ERR_INPUT, "%.400s...: the path is too long", source);
	if (stat(path, &st) != 0)
		return err_set(e, ERR_INPUT, "%.400s is not there to say what model this is: give --model", path);
	return model_load(m, path, e);
}
