#include "models/dtype.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/err.h"

static const struct {
	const char *name;
	double bits;
} dtypes[DTYPE_COUNT] = {
	[DTYPE_FP32] = {"fp32", 32},
	[DTYPE_BF16] = {"bf16", 16},
	[DTYPE_FP8] = {"fp8", 8},
	[DTYPE_INT8] = {"int8", 8},
	[DTYPE_INT4] = {"int4", 4 + 16.0 / 128},
	[DTYPE_MXFP4] = {"mxfp4", 4 + 8.0 / 32},
	[DTYPE_NF4] = {"nf4", 4 + 8.0 / 64 + 32.0 / (64 * 256)},
};

static const struct {
	const char *word;
	enum dtype t;
} dtype_words[] = {
	{"float32", DTYPE_FP32}, {"float", DTYPE_FP32},      {"bfloat16", DTYPE_BF16}, {"float16", DTYPE_BF16},
	{"fp16", DTYPE_BF16},    {"half", DTYPE_BF16},       {"fp8_e4m3", DTYPE_FP8},  {"float8_e4m3fn", DTYPE_FP8},
	{"fp8_e5m2", DTYPE_FP8}, {"float8_e5m2", DTYPE_FP8},
};

const char *dtype_name(enum dtype t)
{
	return dtypes[t].name;
}

double dtype_bits(enum dtype t)
{
	return dtypes[t].bits;
}

bool dtype_find(const char *text, enum dtype *out)
{
	for (int i = 0; i < DTYPE_COUNT; i++) {
		if (!strcasecmp(text, dtypes[i].name)) {
			*out = (enum dtype)i;
			return true;
		}
	}
	for (size_t i = 0; i < sizeof dtype_words / sizeof dtype_words[0]; i++) {
		if (!strcasecmp(text, dtype_words[i].word)) {
			*out = dtype_words[i].t;
			return true;
		}
	}
	return false;
}

int weight_format_parse(const char *text, struct weight_format *out, struct err *e)
{
	static const char linear[] = ":linear";
	char word[32];
	struct weight_format f = {.scope = SCOPE_ALL};
	size_t len = strlen(text);
	if (len > sizeof linear - 1 && !strcasecmp(text + len - (sizeof linear - 1), linear)) {
		len -= sizeof linear - 1;
		f.scope = SCOPE_LINEAR;
	}
	snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), text);
	if (f.scope == SCOPE_ALL && !strcasecmp(word, "auto")) {
		*out = (struct weight_format){.automatic = true, .dtype = DTYPE_BF16};
		return ERR_NONE;
	}
	if (len >= sizeof word || !dtype_find(word, &f.dtype))
		return err_set(e, ERR_INPUT,
			       "weight format \"%s\" is unknown: use auto, fp32, bf16, fp8, int8, int4, mxfp4 or nf4, "
			       "or one of them with :linear to leave embeddings, LM head and norms in bf16",
			       text);
	if (f.dtype == DTYPE_MXFP4)
		f.scope = SCOPE_EXPERTS;
	*out = f;
	return ERR_NONE;
}

int weight_quantization_parse(const char *text, struct weight_format *out, struct err *e)
{
	struct weight_format f = {.scope = SCOPE_LINEAR};
	if (!dtype_find(text, &f.dtype) || f.dtype == DTYPE_FP32 || f.dtype == DTYPE_BF16)
		return err_set(e, ERR_INPUT, "quantization \"%s\" is unknown: use fp8, int8, int4, mxfp4 or nf4", text);
	if (f.dtype == DTYPE_MXFP4)
		f.scope = SCOPE_EXPERTS;
	*out = f;
	return ERR_NONE;
}

static const char *const kv_names[] = {
	[KV_AUTO] = "auto", [KV_FP8] = "fp8", [KV_INT8] = "int8", [KV_BF16] = "bf16", [KV_FP32] = "fp32"};

const char *kv_dtype_name(enum kv_dtype t)
{
	return kv_names[t];
}

int kv_dtype_parse(const char *text, enum kv_dtype *out, struct err *e)
{
	enum dtype t;
	if (!strcasecmp(text, "auto"))
		*out = KV_AUTO;
	else if (dtype_find(text, &t) && t == DTYPE_FP8)
		*out = KV_FP8;
	else if (dtype_find(text, &t) && t == DTYPE_INT8)
		*out = KV_INT8;
	else if (dtype_find(text, &t) && t == DTYPE_BF16)
		*out = KV_BF16;
	else if (dtype_find(text, &t) && t == DTYPE_FP32)
		*out = KV_FP32;
	else
		return err_set(e, ERR_INPUT, "KV cache dtype \"%s\" is unknown: use auto, fp8, int8, bf16 or fp32",
			       text);
	return ERR_NONE;
}
