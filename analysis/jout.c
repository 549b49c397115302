#include "analysis/jout.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/result_json.h"
#include "analysis/text.h"
#include "core/err.h"
#include "core/mem.h"

#define FLUSH_AT (64 << 10)

void jout_open(struct jout *j, FILE *file)
{
	*j = (struct jout){.file = file};
}

static void flush(struct jout *j)
{
	if (j->len && fwrite(j->text, 1, (size_t)j->len, j->file) != (size_t)j->len)
		j->io_error = true;
	j->len = 0;
}

static void put(struct jout *j, const char *s, size_t n)
{
	if (j->file && j->len >= FLUSH_AT)
		flush(j);
	if (mem_grow((void **)&j->text, &j->cap, j->len + (int64_t)n + 1, 1)) {
		j->no_memory = true;
		return;
	}
	memcpy(j->text + j->len, s, n);
	j->len += (int64_t)n;
}

static void put_text(struct jout *j, const char *s)
{
	put(j, s, strlen(s));
}

/* Bytes from s on that may stand between quotes as they are. */
static size_t plain_bytes(const char *s)
{
	size_t n = 0;
	uint32_t code;
	for (int len = 1; s[n] && len; n += (size_t)len)
		len = (unsigned char)s[n] >= 0x80                                 ? text_utf8(s + n, &code)
		      : (unsigned char)s[n] >= ' ' && s[n] != '"' && s[n] != '\\' ? 1
										  : 0;
	return n;
}

static void quoted(struct jout *j, const char *s)
{
	put(j, "\"", 1);
	while (*s) {
		size_t plain = plain_bytes(s);
		put(j, s, plain);
		s += plain;
		if (!*s)
			break;
		char esc[8];
		if (*s == '"' || *s == '\\')
			snprintf(esc, sizeof esc, "\\%c", *s);
		else if (*s == '\n' || *s == '\t')
			snprintf(esc, sizeof esc, "\\%c", *s == '\n' ? 'n' : 't');
		else if ((unsigned char)*s >= 0x80) /* not UTF-8: JSON has no way to say it */
			strcpy(esc, "\\ufffd");
		else
			snprintf(esc, sizeof esc, "\\u%04x", (unsigned char)*s);
		put_text(j, esc);
		s++;
	}
	put(j, "\"", 1);
}

static void lead(struct jout *j, const char *key)
{
	if (j->comma)
		put(j, ", ", 2);
	j->comma = true;
	if (key) {
		quoted(j, key);
		put(j, ": ", 2);
	}
}

void jout_begin(struct jout *j, const char *key, char bracket)
{
	lead(j, key);
	put(j, &bracket, 1);
	j->comma = false;
}

void jout_end(struct jout *j, char bracket)
{
	put(j, &bracket, 1);
	j->comma = true;
}

void jout_raw(struct jout *j, const char *key, const char *json)
{
	lead(j, key);
	put_text(j, json);
}

void jout_null(struct jout *j, const char *key)
{
	jout_raw(j, key, "null");
}

void jout_text(struct jout *j, const char *key, const char *value)
{
	lead(j, key);
	if (value)
		quoted(j, value);
	else
		put_text(j, "null");
}

void jout_int(struct jout *j, const char *key, int64_t value)
{
	char buf[32];
	snprintf(buf, sizeof buf, "%" PRId64, value);
	jout_raw(j, key, buf);
}

void jout_real(struct jout *j, const char *key, double value)
{
	char buf[32];
	jout_raw(j, key, json_number(value, buf));
}

void jout_bool(struct jout *j, const char *key, bool value)
{
	jout_raw(j, key, value ? "true" : "false");
}

int jout_close(struct jout *j, char **text, struct err *e)
{
	int saved = errno;
	*text = NULL;
	if (j->file && !j->no_memory) {
		errno = 0;
		flush(j);
		saved = errno;
	}
	if (j->no_memory || j->io_error || j->file) {
		mem_free(j->text);
		j->text = NULL;
		if (j->no_memory)
			return err_no_memory(e, "JSON output");
		return j->io_error ? err_set(e, ERR_IO, "writing JSON: %s", strerror(saved)) : ERR_NONE;
	}
	if (!j->text)
		return err_no_memory(e, "JSON output");
	j->text[j->len] = '\0';
	*text = j->text;
	return ERR_NONE;
}

const char *json_number(double v, char buf[32])
{
	if (!isfinite(v))
		return strcpy(buf, "null");
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(buf, 32, "%.*g", digits, v);
		if (strtod(buf, NULL) == v)
			break;
	}
	return buf;
}
