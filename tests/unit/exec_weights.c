/* Weights: what is read is what was written, in every format; and whatever is wrong with a file is said with the file's and
 * the tensor's name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/err.h"
#include "exec/safetensors.h"
#include "exec/weights.h"
#include "tests/support/checkpoint.h"
#include "tests/support/suite.h"

/* Of all the bits of random:1 in the shape LLAMA. */
#define RANDOM_HASH 5230550387431948815
#define SHAPE                                                                                                          \
	"\"hidden_size\": 16, \"intermediate_size\": 24, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "       \
	"\"num_key_value_heads\": 2, \"vocab_size\": 40, \"max_position_embeddings\": 64"
#define LLAMA "{\"model_type\": \"llama\", " SHAPE "}"
#define TIED "{\"model_type\": \"llama\", " SHAPE ", \"tie_word_embeddings\": true}"
#define QWEN2 "{\"model_type\": \"qwen2\", " SHAPE "}"
#define QWEN3 "{\"model_type\": \"qwen3\", " SHAPE ", \"head_dim\": 6}"
#define BIASES "{\"model_type\": \"llama\", " SHAPE ", \"attention_bias\": true, \"mlp_bias\": true}"

static struct weights *open_weights(const char *source, const struct model *m)
{
	struct weights *w;
	struct err e = {0};
	int rc = weights_open(&w, source, m, &e);
	if (rc)
		fprintf(stderr, "  %s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	return w;
}

static struct tensor_data get(struct weights *w, enum tensor t, int32_t layer)
{
	struct tensor_data d = {0};
	struct err e = {0};
	int rc = weights_get(w, t, layer, &d, &e);
	if (rc)
		fprintf(stderr, "  %s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	return d;
}

static float element(const struct tensor_data *d, int64_t i)
{
	const uint16_t *h = d->data;
	uint32_t u;
	float x;
	if (d->type == NUM_F32)
		return ((const float *)d->data)[i];
	if (d->type == NUM_F16) /* normal numbers and 0 only */
		return h[i] & 0x7fff ? ldexpf((float)(1024 + (h[i] & 0x3ff)) * (h[i] >> 15 ? -1.0f : 1.0f),
					      (h[i] >> 10 & 31) - 25)
				     : 0;
	u = (uint32_t)h[i] << 16;
	memcpy(&x, &u, 4);
	return x;
}

/* Every tensor of w is the toy's. */
static void same_as_toy(struct weights *w, const struct toy *t)
{
	int64_t wrong = 0, seen = 0;
	for (int k = 0; k < N_TENSORS; k++)
		for (int l = 0; l < t->model.n_layers && t->at[k][l]; l++) {
			struct tensor_data d = get(w, (enum tensor)k, l);
			CHECK_INT(d.rows * d.cols, t->n[k]);
			for (int64_t i = 0; i < t->n[k]; i++, seen++)
				wrong += element(&d, i) != t->at[k][l][i];
		}
	CHECK_INT(wrong, 0);
	CU_ASSERT(seen > 1000);
	if (t->model.tied) {
		struct tensor_data d = get(w, TENSOR_HEAD, 0);
		CHECK_NEAR(element(&d, 77), t->at[TENSOR_EMBED][0][77], 0);
	}
}

static void refused(const char *source, const struct model *m, const char *why)
{
	struct weights *w;
	struct err e = {0};
	CHECK_INT(weights_open(&w, source, m, &e), ERR_INPUT);
	if (!strstr(e.text, why))
		fprintf(stderr, "  \"%s\" is not in: %s\n", why, e.text);
	CU_ASSERT(strstr(e.text, why) != NULL);
	CU_ASSERT(strchr(e.text, '\n') == NULL);
	CU_ASSERT(w == NULL);
}

/* ---- random ------------------------------------------------------------------------------------------------------ */

/* Everything measured with random:1 is measured on this model: it must stay the same, on every machine. */
static void random_weights_are_the_same_everywhere(void)
{
	struct model m;
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(model_parse(&m, LLAMA, "toy", &e), ERR_NONE);
	struct weights *w = open_weights("random:1", &m);
	CHECK_STR(weights_describe(w), "random:1 (bf16)");
	uint64_t hash = 1;
	for (int k = 0; k < N_TENSORS; k++)
		if (k < TENSOR_Q_BIAS || (k > TENSOR_K_NORM && k < TENSOR_GATE_BIAS))
			for (int l = 0; l < 2; l++) {
				struct tensor_data d = get(w, (enum tensor)k, l);
				CHECK_INT(d.type, NUM_BF16);
				for (int64_t i = 0; i < d.rows * d.cols; i++)
					hash = hash * 31 + ((const uint16_t *)d.data)[i];
			}
	CHECK_INT(hash, RANDOM_HASH);
	weights_close(w);
	model_free(&m);
}

static void a_random_element_depends_on_its_place_alone(void)
{
	struct toy small, large;
	struct weights *a, *b;
	toy_create(&small, LLAMA, 1);
	toy_create(
		&large,
		"{\"model_type\": \"llama\", \"hidden_size\": 16, \"intermediate_size\": 24, \"num_hidden_layers\": 3, "
		"\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 4000, "
		"\"max_position_embeddings\": 64, \"torch_dtype\": \"float32\"}",
		1);
	a = open_weights("random:7", &small.model);
	b = open_weights("random:7", &large.model);
	struct tensor_data x = get(a, TENSOR_EMBED, 0), y = get(b, TENSOR_EMBED, 0);
	CHECK_INT(x.type, NUM_BF16);
	CHECK_INT(y.type, NUM_F32);
	double apart = 0;
	for (int64_t i = 0; i < 40 * 16; i++)
		apart = fmax(apart, fabs((double)element(&x, i) - (double)element(&y, i)) / 0.44);
	CU_ASSERT(apart < 1.0 / 256); /* bf16 is f32 rounded */
	x = get(a, TENSOR_Q, 1);
	float first = element(&x, 0), last = element(&x, 255);
	(void)get(a, TENSOR_EMBED, 0);
	x = get(a, TENSOR_Q, 0);
	CU_ASSERT(element(&x, 0) != first);
	x = get(a, TENSOR_Q, 1);
	CU_ASSERT(element(&x, 0) == first && element(&x, 255) == last);
	weights_close(b);
	b = open_weights("random:8", &small.model);
	y = get(b, TENSOR_Q, 1);
	CU_ASSERT(element(&y, 0) != first);
	weights_close(a);
	weights_close(b);
	toy_free(&small);
	toy_free(&large);
}

static void random_matrices_keep_activations_at_their_size(void)
{
	struct model m;
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(model_load(&m, "llama-110m", &e), ERR_NONE);
	struct weights *w = open_weights("random:3", &m);
	const enum tensor some[] = {TENSOR_EMBED, TENSOR_O, TENSOR_DOWN};
	for (int k = 0; k < 3; k++) {
		struct tensor_data d = get(w, some[k], 0);
		double sum = 0, squares = 0;
		int64_t n = d.rows * d.cols;
		for (int64_t i = 0; i < n; i++) {
			sum += (double)element(&d, i);
			squares += (double)element(&d, i) * (double)element(&d, i);
		}
		CHECK_NEAR(squares / (double)n * (double)d.cols, 1, 0.01);
		CHECK_NEAR(sum / sqrt(squares), 0, 5); /* five standard deviations */
	}
	struct tensor_data d = get(w, TENSOR_MLP_NORM, 11);
	for (int64_t i = 0; i < d.cols; i++)
		CU_ASSERT(element(&d, i) > 0.9f && element(&d, i) < 1.1f);
	weights_close(w);
	model_free(&m);
}

static void a_seed_must_be_a_number(void)
{
	struct toy t;
	toy_create(&t, LLAMA, 1);
	refused("random:", &t.model, "random:SEED");
	refused("random", &t.model, "random:SEED");
	refused("random:x", &t.model, "random:SEED");
	refused("random:1x", &t.model, "random:SEED");
	refused("random:-1", &t.model, "random:SEED");
	refused("random:99999999999999999999", &t.model, "random:SEED");
	struct model m;
	struct err e = {0};
	CHECK_INT(weights_model("random:1", &m, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "--model") != NULL);
	toy_free(&t);
}

/* ---- llama2.c ---------------------------------------------------------------------------------------------------- */

/* Row r of a head in transformers' order is which row in llama2.c's. */
static int64_t their_row(const struct model *m, int64_t r)
{
	int64_t d = m->head_dim, head = r / d, i = r % d;
	return head * d + (i < d / 2 ? 2 * i : 2 * (i - d / 2) + 1);
}

static void put_floats(FILE *f, const float *x, int64_t n)
{
	CU_ASSERT_EQUAL_FATAL(fwrite(x, 4, (size_t)n, f), (size_t)n);
}

static void put_all_layers(FILE *f, const struct toy *t, enum tensor k)
{
	for (int l = 0; l < t->model.n_layers; l++) {
		if (k != TENSOR_Q && k != TENSOR_K) {
			put_floats(f, t->at[k][l], t->n[k]);
			continue;
		}
		int64_t h = t->model.hidden, rows = t->n[k] / h;
		float *theirs = malloc((size_t)t->n[k] * sizeof *theirs);
		CU_ASSERT_FATAL(theirs != NULL);
		for (int64_t r = 0; r < rows; r++)
			memcpy(theirs + their_row(&t->model, r) * h, t->at[k][l] + r * h, (size_t)h * 4);
		put_floats(f, theirs, t->n[k]);
		free(theirs);
	}
}

static const char *write_llama2c(const struct toy *t, const char *name)
{
	static const enum tensor order[] = {TENSOR_ATTENTION_NORM, TENSOR_Q,    TENSOR_K,    TENSOR_V, TENSOR_O,
					    TENSOR_MLP_NORM,       TENSOR_GATE, TENSOR_DOWN, TENSOR_UP};
	const struct model *m = &t->model;
	const char *path = temp_path(name);
	const int32_t header[7] = {m->hidden,  m->intermediate, m->n_layers,
				   m->n_heads, m->n_kv_heads,   m->tied ? m->vocab : -m->vocab,
				   m->max_len};
	FILE *f = fopen(path, "wb");
	CU_ASSERT_FATAL(f != NULL && fwrite(header, sizeof header, 1, f) == 1);
	put_floats(f, t->at[TENSOR_EMBED][0], t->n[TENSOR_EMBED]);
	for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
		put_all_layers(f, t, order[i]);
	put_floats(f, t->at[TENSOR_FINAL_NORM][0], m->hidden);
	for (int64_t i = 0; i < (int64_t)m->max_len * m->head_dim; i++)
		put_floats(f, &(float){-9}, 1);
	if (!m->tied)
		put_floats(f, t->at[TENSOR_HEAD][0], t->n[TENSOR_HEAD]);
	fclose(f);
	return path;
}

static void llama2c_files_are_read_in_transformers_order(void)
{
	const char *const configs[] = {TIED, LLAMA};
	for (int i = 0; i < 2; i++) {
		struct toy t;
		struct model own;
		struct err e = {0};
		toy_create(&t, configs[i], 5);
		const char *path = write_llama2c(&t, "toy.bin");
		struct weights *w = open_weights(path, &t.model);
		CHECK_STR(weights_describe(w), "toy.bin (llama2.c, f32)");
		same_as_toy(w, &t);
		weights_close(w);
		CU_ASSERT_EQUAL_FATAL(weights_model(path, &own, &e), ERR_NONE);
		CHECK_STR(own.name, "toy");
		CHECK_INT(own.tied, t.model.tied);
		CHECK_INT(own.params.total, t.model.params.total);
		CHECK_INT(own.max_len, 64);
		CHECK_NEAR(own.numerics.norm_eps, 1e-5, 0);
		CHECK_NEAR(own.numerics.rope_theta, 10000, 0);
		CHECK_INT(own.numerics.bos, 1);
		model_free(&own);
		toy_free(&t);
	}
}

static void llama2c_files_of_another_size_are_refused(void)
{
	struct toy t, other;
	toy_create(&t, LLAMA, 5);
	toy_create(&other, QWEN2, 5);
	char path[512];
	snprintf(path, sizeof path, "%s", write_llama2c(&t, "cut.bin"));
	struct stat st;
	CU_ASSERT_FATAL(stat(path, &st) == 0);
	refused(path, &other.model, "its qkv bias is 0, not 1");
	const int64_t sizes[] = {
		0, 7, 27, 28, 100, 28 + 40 * 16 * 4 - 1, 28 + 40 * 16 * 4 + 5, st.st_size - 1, st.st_size - 4};
	FILE *f = fopen(path, "ab");
	CU_ASSERT_FATAL(f != NULL && fwrite("x", 1, 1, f) == 1 && fclose(f) == 0);
	refused(path, &t.model, "not such a file");
	for (int i = (int)(sizeof sizes / sizeof sizes[0]) - 1; i >= 0; i--) {
		CU_ASSERT_EQUAL_FATAL(truncate(path, sizes[i]), 0);
		refused(path, &t.model, sizes[i] < 28 ? "no weights" : "cut off");
	}
	refused(temp_file("later.bin", "24ka\1\0\0\0aaaaaaaaaaaaaaaaaaaaaaaaaaaa"), &t.model, "no weights");
	toy_free(&t);
	toy_free(&other);
}

static void files_of_other_programs_are_named(void)
{
	struct toy t;
	char bytes[64];
	toy_create(&t, LLAMA, 5);
	memset(bytes, 'a', sizeof bytes);
	bytes[63] = '\0';
	memcpy(bytes, "24ka", 4);
	refused(temp_file("later.bin", bytes), &t.model, "export.py --version 0");
	memcpy(bytes, "GGUF", 4);
	refused(temp_file("x.gguf", bytes), &t.model, "GGUF");
	memcpy(bytes, "PK\3\4", 4);
	refused(temp_file("pytorch_model.bin", bytes), &t.model, "PyTorch");
	memcpy(bytes, "abcd", 4);
	refused(temp_file("abcd.bin", bytes), &t.model, "hidden_size is");
	refused("/nowhere/at/all", &t.model, "/nowhere/at/all");
	refused("/dev/null", &t.model, "not a file");
	toy_free(&t);
}

static void the_real_file_describes_itself(void)
{
	struct model m, named;
	struct err e = {0};
	const char *path = shared_data("models/stories260K/stories260K.bin");
	if (!path) {
		test_skip("stories260K is not here");
		return;
	}
	CU_ASSERT_EQUAL_FATAL(weights_model(path, &m, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(model_load(&named, "stories-260k", &e), ERR_NONE);
	CHECK_INT(m.params.total, named.params.total);
	CHECK_INT(m.n_kv_heads, 4);
	CHECK_INT(m.tied, true);
	struct weights *w = open_weights(path, &named);
	weights_close(w);
	model_free(&m);
	model_free(&named);
}

/* ---- safetensors ------------------------------------------------------------------------------------------------- */

static void safetensors_are_read_as_written(void)
{
	const char *const configs[] = {LLAMA, TIED, QWEN2, QWEN3, BIASES};
	const char *const dtypes[] = {"F32", "BF16", "F16"};
	for (int i = 0; i < 5; i++)
		for (int k = 0; k < 3; k++) {
			struct toy t;
			struct file_tensor *list;
			toy_create(&t, configs[i], 11);
			int n = toy_tensors(&t, k == 1 ? "" : "model.", dtypes[k], &list);
			const char *path = temp_path("one.safetensors");
			checkpoint_write(path, list, n, i == 0 ? 7 : 8); /* a header of odd length is allowed */
			struct weights *w = open_weights(path, &t.model);
			same_as_toy(w, &t);
			struct tensor_data d = get(w, TENSOR_Q, 0);
			CHECK_INT(d.type, k == 0 ? NUM_F32 : k == 1 ? NUM_BF16 : NUM_F16);
			CHECK_INT((uintptr_t)d.data % (k == 0 ? 4 : 2), 0);
			weights_close(w);
			toy_tensors_free(list, n);
			toy_free(&t);
		}
}

/* temp_path's strings do not live long. */
static void folder_path(char *buf, size_t size, const char *folder, const char *name)
{
	snprintf(buf, size, "%s%s%s", temp_path(folder), name[0] ? "/" : "", name);
}

static void write_index(const char *path, const struct file_tensor *list, int n, int first)
{
	FILE *f = fopen(path, "w");
	CU_ASSERT_FATAL(f != NULL);
	fprintf(f, "{\"metadata\": {}, \"weight_map\": {");
	for (int i = 0; i < n; i++)
		fprintf(f, "%s\"%s\": \"%s\"", i ? ", " : "", list[i].name,
			i < first ? "a.safetensors" : "b.safetensors");
	fprintf(f, "}}\n");
	fclose(f);
}

static void folders_with_shards_are_read_with_and_without_index(void)
{
	struct toy t;
	struct file_tensor *list;
	char dir[512], a[512], b[512], index[512], config[512];
	toy_create(&t, LLAMA, 12);
	int n = toy_tensors(&t, "model.", "BF16", &list), first = n / 3;
	mkdir(temp_path("shards"), 0700);
	folder_path(dir, sizeof dir, "shards", "");
	folder_path(a, sizeof a, "shards", "a.safetensors");
	folder_path(b, sizeof b, "shards", "b.safetensors");
	folder_path(index, sizeof index, "shards", "model.safetensors.index.json");
	folder_path(config, sizeof config, "shards", "config.json");
	refused(dir, &t.model, "no .safetensors file");
	checkpoint_write(a, list, first, 8);
	refused(dir, &t.model, "is missing");
	checkpoint_write(b, list + first, n - first, 8);
	struct weights *w = open_weights(dir, &t.model);
	CHECK_STR(weights_describe(w), "shards (2 files, bf16)");
	same_as_toy(w, &t);
	weights_close(w);

	struct model m;
	struct err e = {0};
	CHECK_INT(weights_model(dir, &m, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "give --model") != NULL);
	FILE *f = fopen(config, "w");
	CU_ASSERT_FATAL(f != NULL && fputs(LLAMA, f) >= 0 && fclose(f) == 0);
	e = (struct err){0};
	CHECK_INT(weights_model(dir, &m, &e), ERR_NONE);
	CHECK_STR(m.name, "shards");
	model_free(&m);
	CHECK_INT(weights_model(a, &m, &e), ERR_NONE); /* beside a file */
	model_free(&m);

	write_index(index, list, n, first);
	w = open_weights(dir, &t.model);
	same_as_toy(w, &t);
	weights_close(w);
	write_index(index, list, n, first + 1); /* the index errs about one tensor */
	refused(dir, &t.model, list[first].name);
	write_index(index, list, n - 1, first);
	refused(dir, &t.model, list[n - 1].name);
	remove(b);
	write_index(index, list, n, first);
	refused(dir, &t.model, "b.safetensors");
	f = fopen(index, "w");
	CU_ASSERT_FATAL(f != NULL && fputs("{\"weight_map\": {\"x\": \"../x\"}}", f) >= 0 && fclose(f) == 0);
	refused(dir, &t.model, "in that folder");
	remove(index);
	checkpoint_write(b, list, n, 8);
	refused(dir, &t.model, "in two files");
	toy_tensors_free(list, n);
	toy_free(&t);
}

static void a_checkpoint_that_is_not_the_models_names_the_tensor(void)
{
	struct toy t, other;
	struct file_tensor *list;
	char path[512], name[200];
	toy_create(&t, LLAMA, 13);
	snprintf(path, sizeof path, "%s", temp_path("wrong.safetensors"));
	int n = toy_tensors(&t, "model.", "F32", &list);
	for (int i = 0; i < n; i++) { /* each missing once */
		struct file_tensor gone = list[i];
		snprintf(list[i].name, sizeof list[i].name, "unrelated");
		checkpoint_write(path, list, n, 8);
		refused(path, &t.model, gone.name);
		list[i] = gone;
	}
	list[5].dtype = "I32";
	checkpoint_write(path, list, n, 8);
	snprintf(name, sizeof name, "%s is of type I32", list[5].name);
	refused(path, &t.model, name);
	list[5].dtype = "F32";
	list[5].dims[0]--;
	list[5].bytes -= 4 * list[5].dims[1];
	checkpoint_write(path, list, n, 8);
	snprintf(name, sizeof name, "%s has the shape [", list[5].name);
	refused(path, &t.model, name);
	toy_tensors_free(list, n);

	n = toy_tensors(&t, "model.", "F32", &list);
	checkpoint_write(path, list, n, 8);
	struct {
		const char *config, *why;
	} cases[] = {
		{QWEN2, "q_proj.bias is missing"},
		{"{\"model_type\": \"qwen3\", " SHAPE "}", "q_norm.weight is missing"},
		{"{\"model_type\": \"llama\", \"hidden_size\": 16, \"intermediate_size\": 24, \"num_hidden_layers\": "
		 "1, "
		 "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 40, "
		 "\"max_position_embeddings\": 64}",
		 "has only 1 layers"},
		{"{\"model_type\": \"llama\", \"hidden_size\": 16, \"intermediate_size\": 24, \"num_hidden_layers\": "
		 "3, "
		 "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 40, "
		 "\"max_position_embeddings\": 64}",
		 "layers.2.input_layernorm.weight is missing"},
		{"{\"model_type\": \"mixtral\", " SHAPE ", \"num_local_experts\": 4, \"num_experts_per_tok\": 2}",
		 "mixture of experts"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		toy_create(&other, cases[i].config, 1);
		refused(path, &other.model, cases[i].why);
		toy_free(&other);
	}
	toy_tensors_free(list, n);
	toy_create(&other, QWEN2, 1);
	n = toy_tensors(&other, "model.", "F32", &list);
	checkpoint_write(path, list, n, 8);
	refused(path, &t.model, "config describes it has none");
	toy_tensors_free(list, n);
	toy_free(&other);
	toy_free(&t);
}

static void broken_headers_say_file_and_tensor(void)
{
	static const struct {
		const char *header, *why;
	} cases[] = {
		{"", "header"},
		{"x", "not valid JSON"},
		{"[]", "no JSON object"},
		{" {}", "no JSON object"},
		{"{\"a\": 1}", "tensor a: dtype (none)"},
		{"{\"a\": {\"dtype\": \"F33\", \"shape\": [8], \"data_offsets\": [0, 32]}}", "tensor a: dtype F33"},
		{"{\"a\": {\"dtype\": \"F32\", \"data_offsets\": [0, 32]}}", "tensor a has no shape"},
		{"{\"a\": {\"dtype\": \"F32\", \"shape\": [-8], \"data_offsets\": [0, 32]}}",
		 "tensor a: its shape must"},
		{"{\"a\": {\"dtype\": \"F32\", \"shape\": [8.0], \"data_offsets\": [0, 32]}}",
		 "tensor a: its shape must"},
		{"{\"a\": {\"dtype\": \"F32\", \"shape\": [4611686018427387904, 4], \"data_offsets\": [0, 32]}}",
		 "larger than any memory"},
		{"{\"a\": {\"dtype\": \"F32\", \"shape\": [1,1,1,1,1,1,1,1,8], \"data_offsets\": [0, 32]}}",
		 "dimensions"},
		{"{\"a\": {\"dtype\": \"F32\", \"shape\": [8], \"data_offsets\": [0, 28]}}", "tensor a has 28 bytes"},
		{"{\"a\": {\"dtype\": \"F32\", \"shape\": [8], \"data_offsets\": [32, 0]}}", "tensor a: data_offsets"},
		{"{\"a\": {\"dtype\": \"F32\", \"shape\": [8], \"data_offsets\": [0]}}", "tensor a: data_offsets"},
		{"{\"a\": {\"dtype\": \"F32\", \"shape\": [8], \"data_offsets\": [-4, 28]}}", "tensor a: data_offsets"},
		{"{\"a\": {\"dtype\": \"F32\", \"shape\": [9], \"data_offsets\": [0, 36]}}",
		 "tensor a reaches to byte"},
		{"{\"a\": {\"dtype\": \"F32\", \"shape\": [6], \"data_offsets\": [0, 24]}}", "8 bytes at its end"},
		{"{\"a\": {\"dtype\": \"F32\", \"shape\": [6], \"data_offsets\": [8, 32]}}", "8 bytes before tensor a"},
		{"{\"a\": {\"dtype\": \"F32\", \"shape\": [8], \"data_offsets\": [0, 32]}, \"b\": {\"dtype\": \"F16\", "
		 "\"shape\": [2], \"data_offsets\": [28, 32]}}",
		 "a and b overlap"},
		{"{\"a\": {\"dtype\": \"F32\", \"shape\": [8], \"data_offsets\": [0, 32]}, \"a\": {\"dtype\": \"F32\", "
		 "\"shape\": [8], \"data_offsets\": [0, 32]}}",
		 "duplicate"},
	};
	static const char data[32];
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct safetensors *s;
		struct err e = {0};
		const char *path = temp_path("broken.safetensors");
		checkpoint_write_raw(path, cases[i].header, (int64_t)strlen(cases[i].header), data, sizeof data);
		CHECK_INT(safetensors_open(&s, path, &e), ERR_INPUT);
		if (!strstr(e.text, cases[i].why) || !strstr(e.text, "broken.safetensors"))
			fprintf(stderr, "  \"%s\" is not in: %s\n", cases[i].why, e.text);
		CU_ASSERT(strstr(e.text, cases[i].why) != NULL);
		CU_ASSERT(strstr(e.text, "broken.safetensors") != NULL);
	}
}

static void a_file_cut_anywhere_is_refused(void)
{
	struct toy t;
	struct file_tensor *list;
	struct stat st;
	char path[512];
	toy_create(&t, TIED, 14);
	int n = toy_tensors(&t, "model.", "F16", &list);
	snprintf(path, sizeof path, "%s", temp_path("cut.safetensors"));
	checkpoint_write(path, list, n, 8);
	CU_ASSERT_FATAL(stat(path, &st) == 0);
	int64_t tried = 0;
	for (int64_t size = st.st_size - 1; size >= 0; size -= size > 4000 ? 97 : 11, tried++) {
		CU_ASSERT_EQUAL_FATAL(truncate(path, size), 0);
		refused(path, &t.model, "cut.safetensors");
	}
	CU_ASSERT(tried > 200);
	toy_tensors_free(list, n);
	toy_free(&t);
}

static void empty_tensors_and_foreign_ones_do_no_harm(void)
{
	static const char header[] = "{\"b\": {\"dtype\": \"F32\", \"shape\": [0, 5], \"data_offsets\": [8, 8]}, "
				     "\"a\": {\"dtype\": \"I64\", \"shape\": [], \"data_offsets\": [0, 8]}}";
	struct safetensors *s;
	struct err e = {0};
	const char *path = temp_path("small.safetensors");
	checkpoint_write_raw(path, header, sizeof header - 1, "12345678", 8);
	CU_ASSERT_EQUAL_FATAL(safetensors_open(&s, path, &e), ERR_NONE);
	CHECK_INT(safetensors_count(s), 2);
	CHECK_STR(safetensors_at(s, 0)->name, "a");
	CHECK_INT(safetensors_find(s, "b")->bytes, 0);
	CU_ASSERT(safetensors_find(s, "c") == NULL);
	CU_ASSERT(memcmp(safetensors_find(s, "a")->data, "12345678", 8) == 0);
	safetensors_close(s);
}

static void asking_for_what_a_model_lacks_is_a_bug(void)
{
	struct toy t;
	struct tensor_data d;
	struct err e = {0};
	toy_create(&t, LLAMA, 1);
	struct weights *w = open_weights("random:1", &t.model);
	CHECK_INT(weights_get(w, TENSOR_Q_BIAS, 0, &d, &e), ERR_INVARIANT);
	e = (struct err){0};
	CHECK_INT(weights_get(w, TENSOR_Q, 2, &d, &e), ERR_INVARIANT);
	weights_close(w);
	toy_free(&t);
}

int main(void)
{
	static const struct test tests[] = {
		{"random_weights_are_the_same_everywhere", random_weights_are_the_same_everywhere},
		{"a_random_element_depends_on_its_place_alone", a_random_element_depends_on_its_place_alone},
		{"random_matrices_keep_activations_at_their_size", random_matrices_keep_activations_at_their_size},
		{"a_seed_must_be_a_number", a_seed_must_be_a_number},
		{"llama2c_files_are_read_in_transformers_order", llama2c_files_are_read_in_transformers_order},
		{"llama2c_files_of_another_size_are_refused", llama2c_files_of_another_size_are_refused},
		{"files_of_other_programs_are_named", files_of_other_programs_are_named},
		{"the_real_file_describes_itself", the_real_file_describes_itself},
		{"safetensors_are_read_as_written", safetensors_are_read_as_written},
		{"folders_with_shards_are_read_with_and_without_index",
		 folders_with_shards_are_read_with_and_without_index},
		{"a_checkpoint_that_is_not_the_models_names_the_tensor",
		 a_checkpoint_that_is_not_the_models_names_the_tensor},
		{"broken_headers_say_file_and_tensor", broken_headers_say_file_and_tensor},
		{"a_file_cut_anywhere_is_refused", a_file_cut_anywhere_is_refused},
		{"empty_tensors_and_foreign_ones_do_no_harm", empty_tensors_and_foreign_ones_do_no_harm},
		{"asking_for_what_a_model_lacks_is_a_bug", asking_for_what_a_model_lacks_is_a_bug},
	};
	return SUITE_RUN("exec_weights", tests);
}
