/* store_bind.h: values into a statement, one after the other; for the store's own files. */
#ifndef ANALYSIS_STORE_BIND_H
#define ANALYSIS_STORE_BIND_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

struct err;
struct store;

/* Start with {.q = statement}; store_run_once makes it ready for the next row. */
struct binder {
	sqlite3_stmt *q;
	int at; /* values bound */
	bool no_memory; /* a value was lost: the statement must not run */
};

void bind_text(struct binder *b, const char *v); /* NULL -> null */
void bind_text_or_null(struct binder *b, const char *v); /* "" -> null as well */
void bind_int(struct binder *b, int64_t v);
void bind_int_if(struct binder *b, bool there, int64_t v); /* else null */
void bind_real(struct binder *b, double v); /* NAN -> null */
void bind_null(struct binder *b);
void bind_hex(struct binder *b, uint64_t v); /* 16 digits */
void bind_hex_or_null(struct binder *b, uint64_t v); /* 0 -> null */
void bind_date(struct binder *b, int64_t unix_s); /* "2026-11-29 17:03:12" UTC; 0 -> null */

/* Runs the statement with what was bound, and resets it. `what`: as in store_fail. */
int store_run_once(struct store *s, struct binder *b, const char *what, struct err *e);

#endif
