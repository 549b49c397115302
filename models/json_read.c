#include "models/json_read.h"

#include <stdio.h>
#include <string.h>

#include "core/err.h"

json_t *json_read_object(const char *text, const char *where, struct err *e)
{
	json_error_t je;
	json_t *root = json_loadb(text, strlen(text), JSON_REJECT_DUPLICATES, &je);
	/* jansson does not always say so: without memory it may report no place at all */
	if (!root && (json_error_code(&je) == json_error_out_of_memory || je.line < 0)) {
		err_no_memory(e, "reading JSON");
		return NULL;
	}
	if (!root) {
		err_set(e, ERR_INPUT, "%s:%d:%d: not valid JSON: %s", where, je.line, je.column, je.text);
		return NULL;
	}
	if (!json_is_object(root)) {
		err_set(e, ERR_INPUT, "%s: must hold one JSON object", where);
		json_decref(root);
		return NULL;
	}
	return root;
}

const json_t *json_read_present(const struct json_reader *r, const char *key)
{
	const json_t *v = json_object_get(r->object, key);
	return json_is_null(v) ? NULL : v;
}

/* 10.0 is a whole number as well: some tools write integers so. */
static bool whole(const json_t *v, double *out)
{
	if (json_is_integer(v)) {
		*out = (double)json_integer_value(v);
		return true;
	}
	double x = json_is_real(v) ? json_real_value(v) : 0.5;
	*out = x;
	return x >= -9e15 && x <= 9e15 && x == (double)(int64_t)x;
}

static int32_t read_int(const struct json_reader *r, const char *key, const json_t *v, int32_t min, int32_t max)
{
	double x;
	if (!whole(v, &x)) {
		err_set(r->e, ERR_INPUT, "%s: %s must be a whole number", r->where, key);
		return min;
	}
	if (x < min || x > max) {
		err_set(r->e, ERR_INPUT, "%s: %s is %.0f; it must be between %d and %d", r->where, key, x, min, max);
		return min;
	}
	return (int32_t)x;
}

int32_t json_read_int(const struct json_reader *r, const char *key, int32_t min, int32_t max)
{
	const json_t *v = json_read_present(r, key);
	if (!v) {
		err_set(r->e, ERR_INPUT, "%s: %s is missing", r->where, key);
		return min;
	}
	return read_int(r, key, v, min, max);
}

int32_t json_read_int_or(const struct json_reader *r, const char *key, int32_t min, int32_t max, int32_t fallback)
{
	const json_t *v = json_read_present(r, key);
	return v ? read_int(r, key, v, min, max) : fallback;
}

bool json_read_bool_or(const struct json_reader *r, const char *key, bool fallback)
{
	const json_t *v = json_read_present(r, key);
	if (!v)
		return fallback;
	if (!json_is_boolean(v))
		err_set(r->e, ERR_INPUT, "%s: %s must be true or false", r->where, key);
	return json_is_true(v);
}

double json_read_real_or(const struct json_reader *r, const char *key, double min, double max, double current)
{
	const json_t *v = json_read_present(r, key);
	if (!v)
		return current;
	double x = json_number_value(v);
	if (!json_is_number(v))
		err_set(r->e, ERR_INPUT, "%s: %s must be a number", r->where, key);
	else if (!(x >= min && x <= max))
		err_set(r->e, ERR_INPUT, "%s: %s is %g; it must be between %g and %g", r->where, key, x, min, max);
	else
		return x;
	return current;
}

void json_read_string(const struct json_reader *r, const char *key, char *buf, size_t size)
{
	const json_t *v = json_read_present(r, key);
	if (!v)
		return;
	if (!json_is_string(v))
		err_set(r->e, ERR_INPUT, "%s: %s must be a string", r->where, key);
	else
		snprintf(buf, size, "%s", json_string_value(v));
}
