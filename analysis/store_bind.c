#include "analysis/store_bind.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "analysis/store_internal.h"

void bind_text(struct binder *b, const char *v)
{
	if (sqlite3_bind_text(b->q, ++b->at, v, -1, SQLITE_TRANSIENT))
		b->no_memory = true;
}

void bind_text_or_null(struct binder *b, const char *v)
{
	bind_text(b, v && *v ? v : NULL);
}

void bind_int(struct binder *b, int64_t v)
{
	sqlite3_bind_int64(b->q, ++b->at, v);
}

void bind_int_if(struct binder *b, bool there, int64_t v)
{
	if (there)
		bind_int(b, v);
	else
		bind_null(b);
}

void bind_real(struct binder *b, double v)
{
	sqlite3_bind_double(b->q, ++b->at, v);
}

void bind_null(struct binder *b)
{
	sqlite3_bind_null(b->q, ++b->at);
}

void bind_hex(struct binder *b, uint64_t v)
{
	char text[24];
	snprintf(text, sizeof text, "%016" PRIx64, v);
	bind_text(b, text);
}

void bind_hex_or_null(struct binder *b, uint64_t v)
{
	if (v)
		bind_hex(b, v);
	else
		bind_null(b);
}

void bind_date(struct binder *b, int64_t unix_s)
{
	char text[32];
	time_t t = (time_t)unix_s;
	struct tm tm;
	bool known = unix_s && gmtime_r(&t, &tm) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
	bind_text(b, known ? text : NULL);
}

int store_run_once(struct store *s, struct binder *b, const char *what, struct err *e)
{
	int rc = ERR_NONE;
	if (b->no_memory)
		rc = err_no_memory(e, what);
	else if (sqlite3_step(b->q) != SQLITE_DONE)
		rc = store_fail(s, e, what);
	sqlite3_reset(b->q);
	b->at = 0;
	return rc;
}
