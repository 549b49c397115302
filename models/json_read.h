/* json_read.h: fields of a jansson object, checked, with errors that name the file, the key and what is wrong. */
#ifndef MODELS_JSON_READ_H
#define MODELS_JSON_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* Remembers the first error: callers read many keys and look at *e once. */
struct json_reader {
	const json_t *object;
	const char *where; /* file or built-in name */
	struct err *e;
};

/* Parses one object; NULL with ERR_INPUT (line and column) or ERR_MEMORY. Release with json_decref. */
json_t *json_read_object(const char *text, const char *where, struct err *e);

/* The key's value if it is there and not null, else NULL. */
const json_t *json_read_present(const struct json_reader *r, const char *key);

/* A whole number within [min, max]. */
int32_t json_read_int(const struct json_reader *r, const char *key, int32_t min, int32_t max);
/* The same, `fallback` when absent or null. */
int32_t json_read_int_or(const struct json_reader *r, const char *key, int32_t min, int32_t max, int32_t fallback);
bool json_read_bool_or(const struct json_reader *r, const char *key, bool fallback);
/* A finite number within [min, max]; `current` when absent. */
double json_read_real_or(const struct json_reader *r, const char *key, double min, double max, double current);
/* Copies a string into buf, cut to fit; leaves buf alone when absent. */
void json_read_string(const struct json_reader *r, const char *key, char *buf, size_t size);

#endif
