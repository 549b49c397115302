/* jout.h: writes JSON, into memory or straight into a file. Keys come out in the order they are put in. An
 * allocation or a write that fails is remembered and reported by jout_close; nothing has to be checked before. */
#ifndef ANALYSIS_JOUT_H
#define ANALYSIS_JOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct err;

struct jout {
	FILE *file; /* NULL: all of it stays in memory */
	char *text;
	int64_t len, cap;
	bool comma; /* something stands before the next value at this level */
	bool no_memory, io_error;
};

void jout_open(struct jout *j, FILE *file);
/* Into memory: *text is NUL-terminated, to be released with mem_free. Into a file: text is NULL and the rest is flushed
 * to the stream. ERR_MEMORY or ERR_IO. */
int jout_close(struct jout *j, char **text, struct err *e);

/* key is NULL inside an array and for the outermost value. */
void jout_begin(struct jout *j, const char *key, char bracket); /* '{' or '[' */
void jout_end(struct jout *j, char bracket); /* '}' or ']' */
void jout_text(struct jout *j, const char *key, const char *value); /* NULL -> null */
void jout_int(struct jout *j, const char *key, int64_t value);
void jout_real(struct jout *j, const char *key, double value); /* NAN and infinities -> null */
void jout_bool(struct jout *j, const char *key, bool value);
void jout_raw(struct jout *j, const char *key, const char *json); /* a value that is JSON already */
void jout_null(struct jout *j, const char *key);

#endif
