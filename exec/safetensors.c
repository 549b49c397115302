#include "exec/safetensors.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/mapped.h"

#define MAX_HEADER INT64_C(100000000) /* the format's own limit */
enum { MAX_TENSORS = 1 << 20, SHOWN = 120 };

struct entry {
	struct safetensor t;
	int64_t begin, end; /* in the data */
};

struct safetensors {
	struct mapped file;
	const unsigned char *data; /* behind the header */
	int64_t data_bytes;
	json_t *header; /* owns the names */
	struct entry *entries; /* by name, once open */
	int32_t n;
};

static const struct {
	const char *name;
	int bits;
} dtypes[] = {
	{"BOOL", 8}, {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8},
	{"I16", 16}, {"U16", 16}, {"F16", 16}, {"BF16", 16},   {"I32", 32},    {"U32", 32},
	{"F32", 32}, {"F64", 64}, {"I64", 64}, {"U64", 64},
};

/* 0: not known. */
static int dtype_bytes(const char *name)
{
	for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
		if (strcmp(name, dtypes[i].name) == 0)
			return dtypes[i].bits / 8;
	return 0;
}

/* A whole number of at least 0. */
static bool read_count(const json_t *v, int64_t *out)
{
	*out = json_integer_value(v);
	return json_is_integer(v) && *out >= 0;
}

static int read_shape(struct entry *n, const json_t *shape, int64_t each, int64_t *bytes, const char *path,
		      struct err *e)
{
	const char *name = n->t.name;
	if (!json_is_array(shape))
		return err_set(e, ERR_INPUT, "%.400s: tensor %.*s has no shape", path, SHOWN, name);
	if (json_array_size(shape) > SAFETENSORS_DIMS)
		return err_set(e, ERR_INPUT, "%.400s: tensor %.*s has %zu dimensions; at most %d are read", path, SHOWN,
			       name, json_array_size(shape), SAFETENSORS_DIMS);
	n->t.n_dims = (int32_t)json_array_size(shape);
	*bytes = each;
	for (int32_t i = 0; i < n->t.n_dims; i++) {
		int64_t *d = &n->t.dims[i];
		if (!read_count(json_array_get(shape, (size_t)i), d))
			return err_set(e, ERR_INPUT, "%.400s: tensor %.*s: its shape must hold whole numbers", path,
				       SHOWN, name);
		if (__builtin_mul_overflow(*bytes, *d, bytes))
			return err_set(e, ERR_INPUT, "%.400s: tensor %.*s: its shape is larger than any memory", path,
				       SHOWN, name);
	}
	return ERR_NONE;
}

static int read_entry(const struct safetensors *s, struct entry *n, const json_t *v, const char *path, struct err *e)
{
	const char *name = n->t.name, *dtype = json_string_value(json_object_get(v, "dtype"));
	const json_t *offsets = json_object_get(v, "data_offsets");
	int64_t bytes = 0;
	if (!dtype || !dtype_bytes(dtype))
		return err_set(e, ERR_INPUT, "%.400s: tensor %.*s: dtype %.40s is not known", path, SHOWN, name,
			       dtype ? dtype : "(none)");
	memcpy(n->t.dtype, dtype, strlen(dtype) + 1);
	int rc = read_shape(n, json_object_get(v, "shape"), dtype_bytes(dtype), &bytes, path, e);
	if (rc)
		return rc;
	if (json_array_size(offsets) != 2 || !read_count(json_array_get(offsets, 0), &n->begin) ||
	    !read_count(json_array_get(offsets, 1), &n->end) || n->begin > n->end)
		return err_set(e, ERR_INPUT, "%.400s: tensor %.*s: data_offsets must be two whole numbers, ascending",
			       path, SHOWN, name);
	if (n->end > s->data_bytes)
		return err_set(e, ERR_INPUT,
			       "%.400s: tensor %.*s reaches to byte %lld, and the file has %lld: it is cut off", path,
			       SHOWN, name, (long long)(n->end + (s->data - s->file.bytes)), (long long)s->file.n);
	if (n->end - n->begin != bytes)
		return err_set(e, ERR_INPUT,
			       "%.400s: tensor %.*s has %lld bytes where its shape and dtype %s ask for %lld", path,
			       SHOWN, name, (long long)(n->end - n->begin), dtype, (long long)bytes);
	n->t.data = s->data + n->begin;
	n->t.bytes = bytes;
	return ERR_NONE;
}

static int by_place(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->t.name, ((const struct entry *)b)->t.name);
}

/* One behind the other, from the first byte to the last. */
static int check_places(struct safetensors *s, const char *path, struct err *e)
{
	int64_t at = 0;
	qsort(s->entries, (size_t)s->n, sizeof *s->entries, by_place);
	for (int32_t i = 0; i < s->n; i++) {
		const struct entry *n = &s->entries[i];
		if (n->begin < at)
			return err_set(e, ERR_INPUT, "%.400s: tensors %.*s and %.*s overlap", path, SHOWN,
				       s->entries[i - 1].t.name, SHOWN, n->t.name);
		if (n->begin > at)
			return err_set(e, ERR_INPUT, "%.400s: %lld bytes before tensor %.*s belong to none", path,
				       (long long)(n->begin - at), SHOWN, n->t.name);
		at = n->end;
	}
	if (at != s->data_bytes)
		return err_set(e, ERR_INPUT, "%.400s: %lld bytes at its end belong to no tensor", path,
			       (long long)(s->data_bytes - at));
	return ERR_NONE;
}

static int read_header(struct safetensors *s, const char *path, struct err *e)
{
	uint64_t n = 0;
	json_error_t why;
	if (s->file.n >= 8)
		memcpy(&n, s->file.bytes, 8);
	if (s->file.n < 10 || n > (uint64_t)s->file.n - 8)
		return err_set(
			e, ERR_INPUT,
			"%.400s: cut off, or no safetensors file: %lld bytes, and a header of %llu should come first",
			path, (long long)s->file.n, (unsigned long long)n);
	if (n > (uint64_t)MAX_HEADER)
		return err_set(e, ERR_INPUT, "%.400s: a header of %llu bytes; at most %lld are allowed", path,
			       (unsigned long long)n, (long long)MAX_HEADER);
	s->data = s->file.bytes + 8 + n;
	s->data_bytes = s->file.n - 8 - (int64_t)n;
	s->header = json_loadb((const char *)s->file.bytes + 8, (size_t)n, JSON_REJECT_DUPLICATES, &why);
	if (!s->header && json_error_code(&why) == json_error_out_of_memory)
		return err_no_memory(e, "a safetensors header");
	if (!s->header)
		return err_set(e, ERR_INPUT, "%.400s: its header is not valid JSON (byte %d): %s", path,
			       why.position + 8, why.text);
	if (!json_is_object(s->header) || s->file.bytes[8] != '{')
		return err_set(e, ERR_INPUT, "%.400s: its header is no JSON object", path);
	return ERR_NONE;
}

static int read_entries(struct safetensors *s, const char *path, struct err *e)
{
	const char *name;
	json_t *v;
	size_t n = json_object_size(s->header);
	if (n > MAX_TENSORS)
		return err_set(e, ERR_INPUT, "%.400s: %zu tensors are more than any model has", path, n);
	s->entries = mem_zalloc(n, sizeof *s->entries);
	if (!s->entries)
		return err_no_memory(e, "the tensors of a file");
	json_object_foreach(s->header, name, v)
	{
		if (strcmp(name, "__metadata__") == 0)
			continue;
		struct entry *one = &s->entries[s->n];
		one->t.name = name;
		int rc = read_entry(s, one, v, path, e);
		if (rc)
			return rc;
		s->n++;
	}
	return ERR_NONE;
}

int safetensors_open(struct safetensors **out, const char *path, struct err *e)
{
	struct safetensors *s = mem_zalloc(1, sizeof *s);
	*out = NULL;
	if (!s)
		return err_no_memory(e, "a safetensors file");
	int rc = mapped_open(&s->file, path, e);
	if (!rc)
		rc = read_header(s, path, e);
	if (!rc)
		rc = read_entries(s, path, e);
	if (!rc)
		rc = check_places(s, path, e);
	if (rc) {
		safetensors_close(s);
		return rc;
	}
	qsort(s->entries, (size_t)s->n, sizeof *s->entries, by_name);
	*out = s;
	return ERR_NONE;
}

void safetensors_close(struct safetensors *s)
{
	if (!s)
		return;
	json_decref(s->header);
	mapped_close(&s->file);
	mem_free(s->entries);
	mem_free(s);
}

int32_t safetensors_count(const struct safetensors *s)
{
	return s->n;
}

const struct safetensor *safetensors_at(const struct safetensors *s, int32_t i)
{
	return &s->entries[i].t;
}

const struct safetensor *safetensors_find(const struct safetensors *s, const char *name)
{
	const struct entry key = {.t.name = name};
	const struct entry *found = bsearch(&key, s->entries, (size_t)s->n, sizeof *s->entries, by_name);
	return found ? &found->t : NULL;
}
