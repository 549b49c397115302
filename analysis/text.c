#include "analysis/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *text_count(int64_t v, char buf[TEXT_NUMBER])
{
	char digits[24];
	int n = snprintf(digits, sizeof digits, "%" PRIu64, v < 0 ? -(uint64_t)v : (uint64_t)v), at = 0;
	if (v < 0)
		buf[at++] = '-';
	for (int i = 0; i < n; i++) {
		if (i > 0 && (n - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = digits[i];
	}
	buf[at] = '\0';
	return buf;
}

static bool is_count(const char *unit)
{
	return !*unit || strcmp(unit, "requests") == 0 || strcmp(unit, "tokens") == 0;
}

const char *text_value(double v, const char *unit, char buf[TEXT_NUMBER])
{
	if (isnan(v))
		return strcpy(buf, "-");
	if (isinf(v))
		return strcpy(buf, v > 0 ? "inf" : "-inf");
	if (strcmp(unit, "share") == 0)
		v *= 100;
	double size = fabs(v);
	if ((is_count(unit) && v == floor(v)) || (size >= 999.95 && size < 9e18))
		return text_count((int64_t)floor(v + 0.5), buf);
	if (size >= 9e18 || (size < 0.0001 && size > 0))
		snprintf(buf, TEXT_NUMBER, "%.3g", v);
	else
		snprintf(buf, TEXT_NUMBER, "%.*f",
			 size >= 99.995             ? 1
			 : size >= 9.9995           ? 2
			 : size >= 0.09995 || !size ? 3
						    : 4,
			 v);
	return buf;
}

const char *text_unit(const char *unit)
{
	return strcmp(unit, "share") == 0 ? "%" : unit;
}

int text_utf8(const char *s, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *u = (const unsigned char *)s;
	int n = u[0] < 0x80 ? 1 : u[0] >= 0xc2 && u[0] < 0xe0 ? 2 : u[0] >= 0xe0 && u[0] < 0xf0 ? 3 : 4;
	if (n == 4 && (u[0] < 0xf0 || u[0] > 0xf4))
		return 0;
	uint32_t c = n == 1 ? u[0] : u[0] & (0xffu >> (n + 1));
	for (int i = 1; i < n; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (u[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*code = c;
	return n;
}

/* Marks that turn the direction of writing, breaks of lines and paragraphs, byte order marks: they show nothing of themselves. */
static bool is_unseen(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
	       (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe0fff);
}

const char *text_clean(const char *text, char *buf, size_t size)
{
	static const char more[] = "...";
	size_t at = 0, fits = 0; /* fits: how long it may be for `more` to go behind it */
	while (*text) {
		uint32_t c = 0;
		int n = text_utf8(text, &c);
		bool bad = n == 0 || is_unseen(c);
		int shown = bad ? 1 : n;
		if (at + (size_t)shown + 1 > size) {
			memcpy(buf + fits, more, sizeof more);
			return buf;
		}
		if (bad)
			buf[at] = '?';
		else
			memcpy(buf + at, text, (size_t)n);
		at += (size_t)shown;
		if (at + sizeof more <= size)
			fits = at;
		text += n ? n : 1;
	}
	buf[at] = '\0';
	return buf;
}
