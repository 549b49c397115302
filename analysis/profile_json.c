#include "analysis/profile_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/jout.h"
#include "core/err.h"
#include "models/json_read.h"

#define FORMAT 1

/* Key, field. */
#define TEXTS(X)                                                                                                       \
	X("name", name)                                                                                                \
	X("model", model)                                                                                              \
	X("weight_dtype", weight_dtype)                                                                                \
	X("kv_cache_dtype", kv_dtype)                                                                                  \
	X("device", device)                                                                                            \
	X("machine", machine)                                                                                          \
	X("library", library)                                                                                          \
	X("created", created)                                                                                          \
	X("program_version", program)                                                                                  \
	X("source", source)                                                                                            \
	X("note", note)
#define NUMBERS(X)                                                                                                     \
	X("layers", layers)                                                                                            \
	X("threads", threads)                                                                                          \
	X("block_size", block_size)                                                                                    \
	X("tensor_parallel_size", tensor_parallel)                                                                     \
	X("window", window)                                                                                            \
	X("measured_layers", measured_layers)

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void write_hex(struct jout *j, const char *key, uint64_t v)
{
	char text[24];
	snprintf(text, sizeof text, "%016" PRIx64, v);
	jout_text(j, key, text);
}

static void write_times(struct jout *j, double ns, double low_ns, double high_ns, int32_t repeats)
{
	jout_real(j, "ns", ns);
	jout_real(j, "low_ns", low_ns);
	jout_real(j, "high_ns", high_ns);
	jout_int(j, "repeats", repeats);
}

static void write_point(struct jout *j, const struct profile_point *t)
{
	jout_begin(j, NULL, '{');
	jout_text(j, "op", profile_op_names[t->op]);
	jout_int(j, "x", t->x);
	jout_int(j, "y", t->y);
	write_times(j, t->ns, t->low_ns, t->high_ns, t->repeats);
	jout_end(j, '}');
}

static void write_step(struct jout *j, const struct profile_step *t)
{
	jout_begin(j, NULL, '{');
	jout_int(j, "decodes", t->decodes);
	jout_int(j, "decode_mean", t->decode_mean);
	jout_int(j, "chunk", t->chunk);
	jout_int(j, "chunk_start", t->chunk_start);
	jout_int(j, "sampled", t->sampled);
	write_times(j, t->ns, t->low_ns, t->high_ns, t->repeats);
	jout_end(j, '}');
}

int profile_write_json(FILE *f, const struct profile *p, struct err *e)
{
	struct jout j;
	char *unused;
	jout_open(&j, f);
	jout_begin(&j, NULL, '{');
	jout_int(&j, "lockstep_profile", FORMAT);
#define WRITE_TEXT(key, field) jout_text(&j, key, p->field);
#define WRITE_NUMBER(key, field) jout_int(&j, key, p->field);
	TEXTS(WRITE_TEXT)
	NUMBERS(WRITE_NUMBER)
	jout_bool(&j, "partial", p->partial);
	write_hex(&j, "shape", p->shape);
	write_hex(&j, "hash", p->hash);
	jout_begin(&j, "points", '[');
	for (int32_t i = 0; i < p->n_points; i++)
		write_point(&j, &p->points[i]);
	jout_end(&j, ']');
	jout_begin(&j, "steps", '[');
	for (int32_t i = 0; i < p->n_steps; i++)
		write_step(&j, &p->steps[i]);
	jout_end(&j, ']');
	jout_end(&j, '}');
	int rc = jout_close(&j, &unused, e);
	if (rc == ERR_NONE && fputc('\n', f) == EOF)
		rc = err_set(e, ERR_IO, "a profile cannot be written");
	return rc;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static uint64_t read_hex(const struct json_reader *r, const char *key)
{
	char text[24] = "", *end;
	json_read_string(r, key, text, sizeof text);
	uint64_t v = strtoull(text, &end, 16);
	if (strlen(text) != 16 || *end)
		err_set(r->e, ERR_INPUT, "%s: %s must be 16 hexadecimal digits", r->where, key);
	return v;
}

static double read_ns(const struct json_reader *r, const char *key)
{
	if (!json_read_present(r, key))
		err_set(r->e, ERR_INPUT, "%s: %s is missing", r->where, key);
	return json_read_real_or(r, key, 0, 1e18, 0);
}

static int find_op(const struct json_reader *r, enum profile_op *op)
{
	char name[32] = "";
	json_read_string(r, "op", name, sizeof name);
	for (int i = 0; i < PROFILE_OPS; i++)
		if (strcmp(name, profile_op_names[i]) == 0) {
			*op = (enum profile_op)i;
			return ERR_NONE;
		}
	return err_set(r->e, ERR_INPUT, "%s: there is no operation \"%s\"", r->where, name);
}

static int read_point(struct profile *p, const struct json_reader *r)
{
	struct profile_point t = {.x = json_read_int(r, "x", 1, INT32_MAX),
				  .y = json_read_int(r, "y", 0, INT32_MAX),
				  .ns = read_ns(r, "ns"),
				  .low_ns = read_ns(r, "low_ns"),
				  .high_ns = read_ns(r, "high_ns"),
				  .repeats = json_read_int(r, "repeats", 0, INT32_MAX)};
	if (r->e->code == ERR_NONE && find_op(r, &t.op) == ERR_NONE)
		profile_add(p, &t, r->e);
	return r->e->code;
}

static int read_step(struct profile *p, const struct json_reader *r)
{
	const struct profile_step t = {.decodes = json_read_int(r, "decodes", 0, INT32_MAX),
				       .decode_mean = json_read_int(r, "decode_mean", 0, INT32_MAX),
				       .chunk = json_read_int(r, "chunk", 0, INT32_MAX),
				       .chunk_start = json_read_int(r, "chunk_start", 0, INT32_MAX),
				       .sampled = json_read_int(r, "sampled", 0, INT32_MAX),
				       .ns = read_ns(r, "ns"),
				       .low_ns = read_ns(r, "low_ns"),
				       .high_ns = read_ns(r, "high_ns"),
				       .repeats = json_read_int(r, "repeats", 0, INT32_MAX)};
	if (r->e->code == ERR_NONE)
		profile_add_step(p, &t, r->e);
	return r->e->code;
}

static int read_array(struct profile *p, const struct json_reader *r, const char *key,
		      int (*read)(struct profile *p, const struct json_reader *item))
{
	const json_t *array = json_read_present(r, key);
	size_t n = json_array_size(array);
	if (!json_is_array(array))
		return err_set(r->e, ERR_INPUT, "%s: %s must be an array", r->where, key);
	for (size_t i = 0; i < n && r->e->code == ERR_NONE; i++) {
		char where[280];
		snprintf(where, sizeof where, "%.200s: %s[%zu]", r->where, key, i);
		const struct json_reader item = {json_array_get(array, i), where, r->e};
		if (!json_is_object(item.object))
			err_set(r->e, ERR_INPUT, "%s must be an object", where);
		else
			read(p, &item);
	}
	return r->e->code;
}

static int check_read(const struct profile *p, const char *where, struct err *e)
{
	uint64_t is = profile_hash(p);
	if (is == p->hash)
		return ERR_NONE;
	return err_set(e, ERR_INPUT,
		       "%s: its content has hash %016" PRIx64 ", not the %016" PRIx64
		       " it was written with: somebody changed "
		       "it",
		       where, is, p->hash);
}

static int read_all(struct profile *p, const struct json_reader *r)
{
	int32_t format = json_read_int(r, "lockstep_profile", 1, INT32_MAX);
	if (r->e->code == ERR_NONE && format != FORMAT)
		return err_set(r->e, ERR_INPUT, "%s: a profile of format %d; this Lockstep reads format %d", r->where,
			       format, FORMAT);
#define READ_TEXT(key, field) json_read_string(r, key, p->field, sizeof p->field);
#define READ_NUMBER(key, field) p->field = json_read_int_or(r, key, 0, INT32_MAX, 0);
	TEXTS(READ_TEXT)
	NUMBERS(READ_NUMBER)
	p->partial = json_read_bool_or(r, "partial", false);
	p->shape = read_hex(r, "shape");
	p->hash = read_hex(r, "hash");
	int rc = r->e->code ? (int)r->e->code : read_array(p, r, "points", read_point);
	if (rc == ERR_NONE)
		rc = read_array(p, r, "steps", read_step);
	if (rc == ERR_NONE)
		rc = profile_sort(p, r->e);
	return rc ? rc : check_read(p, r->where, r->e);
}

int profile_read_json(struct profile *out, const char *text, const char *where, struct err *e)
{
	struct err own = {0};
	*out = (struct profile){0};
	json_t *root = json_read_object(text, where, &own);
	if (root) {
		const struct json_reader r = {root, where, &own};
		read_all(out, &r);
		json_decref(root);
	}
	if (own.code == ERR_NONE)
		return ERR_NONE;
	profile_free(out);
	return err_set(e, own.code, "%s", own.text);
}
