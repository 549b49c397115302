/* json_out.h: writes JSON, into memory or straight into a file. Keys come out in the order they are put in. An
 * allocation or a write that fails is remembered and reported by json_close; nothing has to be checked before. */
#ifndef ANALYSIS_JSON_OUT_H
#define ANALYSIS_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct err;

struct json_out {
	FILE *file; /* NULL: all of it stays in memory */
	char *text;
	int64_t len, cap;
	bool comma; /* something stands before the next value at this level */
	bool no_memory, io_error;
};

void json_open(struct json_out *j, FILE *file);
/* Into memory: *text is NUL-terminated, to be released with mem_free. Into a file: text is NULL and the rest is flushed
 * to the stream. ERR_MEMORY or ERR_IO. */
int json_close(struct json_out *j, char **text, struct err *e);

/* key is NULL inside an array and for the outermost value. */
void json_begin(struct json_out *j, const char *key, char bracket); /* '{' or '[' */
void json_end(struct json_out *j, char bracket); /* '}' or ']' */
void json_text(struct json_out *j, const char *key, const char *value); /* NULL -> null */
void json_int(struct json_out *j, const char *key, int64_t value);
void json_real(struct json_out *j, const char *key, double value); /* NAN and infinities -> null */
void json_bool(struct json_out *j, const char *key, bool value);
void json_raw(struct json_out *j, const char *key, const char *json); /* a value that is JSON already */
void json_null(struct json_out *j, const char *key);

#endif
