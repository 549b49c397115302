#include "traces/scan.h"

#include <endian.h>
#include <string.h>

#include "traces/digits.h"

static const uint64_t pow10_table[20] = {
	1u,
	10u,
	100u,
	1000u,
	10000u,
	100000u,
	1000000u,
	10000000u,
	100000000u,
	1000000000u,
	10000000000u,
	100000000000u,
	1000000000000u,
	10000000000000u,
	100000000000000u,
	1000000000000000u,
	10000000000000000u,
	100000000000000000u,
	1000000000000000000u,
	10000000000000000000u,
};

static int is_digit(char c) /* int: it is used with & as well */
{
	return c >= '0' && c <= '9';
}

/* One more digit behind d->digits, or, when those are full, one more power of ten before it. */
static void add_digit(struct decimal *d, char c, bool fraction)
{
	if (d->digits < 1000000000000000000u) {
		d->digits = d->digits * 10 + (uint64_t)(c - '0');
		d->exp10 -= fraction;
	} else {
		d->cut |= c != '0';
		d->exp10 += !fraction;
	}
}

static const char *scan_exponent(const char *p, const char *end, int32_t *exp10)
{
	const char *s = p + 1;
	bool negative = s < end && *s == '-';
	if (s < end && (*s == '-' || *s == '+'))
		s++;
	if (s >= end || !is_digit(*s))
		return p;
	int32_t x = 0;
	for (; s < end && is_digit(*s); s++)
		if (x < 100000)
			x = x * 10 + (*s - '0');
	*exp10 += negative ? -x : x;
	return s;
}

bool scan_decimal(const char **p, const char *end, struct decimal *d)
{
	const char *s = *p;
	*d = (struct decimal){0};
	if (s < end && (*s == '-' || *s == '+'))
		d->negative = *s++ == '-';
	const char *digits = s;
	for (; s < end && is_digit(*s); s++)
		add_digit(d, *s, false);
	bool any = s > digits;
	if (s < end && *s == '.') {
		const char *fraction = ++s;
		for (; s < end && is_digit(*s); s++)
			add_digit(d, *s, true);
		any |= s > fraction;
	}
	if (!any)
		return false;
	if (s < end && (*s == 'e' || *s == 'E'))
		s = scan_exponent(s, end, &d->exp10);
	*p = s;
	return true;
}

static void trim(const char **s, const char **end)
{
	while (*s < *end && (**s == ' ' || **s == '\t'))
		(*s)++;
	while (*end > *s && ((*end)[-1] == ' ' || (*end)[-1] == '\t'))
		(*end)--;
}

/* digits * 10^exp10 as a whole number; false when it does not fit or is not whole (then *whole is false). */
static bool to_whole(const struct decimal *d, uint64_t *out, bool *whole)
{
	uint64_t x = d->digits;
	int32_t e = d->exp10;
	*whole = true;
	if (x == 0) {
		*out = 0;
		*whole = !d->cut;
		return *whole;
	}
	for (; e < 0 && x % 10 == 0; e++)
		x /= 10;
	*whole = e >= 0 && !(d->cut && d->exp10 <= 0);
	if (!*whole || e > 19 || d->cut || __builtin_mul_overflow(x, pow10_table[e], &x))
		return false;
	*out = x;
	return true;
}

/* The whole text as one number. */
static const char *whole_decimal(const char *s, size_t n, struct decimal *d, const char *what)
{
	const char *end = s + n;
	trim(&s, &end);
	if (s == end)
		return "is empty";
	if (!scan_decimal(&s, end, d) || s != end)
		return what;
	return NULL;
}

const char *scan_int(const char *s, size_t n, int64_t min, int64_t max, int64_t *out)
{
	/* The common case: a few digits and nothing else. */
	if (n > 0 && n <= 9) {
		int64_t x = 0;
		size_t i = 0;
		for (; i < n && is_digit(s[i]); i++)
			x = x * 10 + (s[i] - '0');
		if (i == n && x >= min && x <= max) {
			*out = x;
			return NULL;
		}
	}
	struct decimal d;
	const char *why = whole_decimal(s, n, &d, "is not a whole number");
	if (why)
		return why;
	uint64_t x = 0;
	bool whole;
	bool fits = to_whole(&d, &x, &whole) && x <= (uint64_t)INT64_MAX;
	if (!whole)
		return "is not a whole number";
	if (d.negative && (d.digits || d.cut) && min >= 0)
		return "is negative";
	if (!fits || (d.negative ? -(int64_t)x < min : (int64_t)x > max))
		return "is too large";
	*out = d.negative ? -(int64_t)x : (int64_t)x;
	return *out < min ? "is too small" : NULL;
}

const char *scan_id(const char *s, size_t n, uint64_t *out)
{
	struct decimal d;
	const char *why = whole_decimal(s, n, &d, "is not a whole number");
	if (why)
		return why;
	/* 20 digits do not fit `digits`: take the plain ones by hand, so that ids up to 2^64 - 1 survive. */
	if (d.cut || d.exp10 > 0) {
		uint64_t x = 0;
		for (size_t i = 0; i < n; i++)
			if (!is_digit(s[i]) || __builtin_mul_overflow(x, 10u, &x) ||
			    __builtin_add_overflow(x, (uint64_t)(s[i] - '0'), &x))
				return "does not fit 64 bits as a plain whole number";
		*out = x;
		return NULL;
	}
	bool whole;
	if (!to_whole(&d, out, &whole))
		return "is not a whole number";
	if (d.negative && *out > (uint64_t)INT64_MAX + 1)
		return "does not fit 64 bits as a plain whole number";
	if (d.negative)
		*out = ~*out + 1;
	return NULL;
}

/* Up to nine digits, a point, and no more digits than the unit has: what nearly all times look like. */
static bool plain_time(const char *s, size_t n, int unit, int64_t *ns)
{
	const char *p = s, *end = s + n;
	int64_t whole = 0, fraction = 0;
	while (p < end && is_digit(*p) && p - s < 9)
		whole = whole * 10 + (*p++ - '0');
	if (p == s)
		return false;
	const char *point = p;
	if (p < end && *p == '.')
		for (p++; p < end && is_digit(*p) && p - point <= unit; p++)
			fraction = fraction * 10 + (*p - '0');
	int digits = p > point ? (int)(p - point) - 1 : 0;
	*ns = whole * (int64_t)pow10_table[unit] + fraction * (int64_t)pow10_table[unit - digits];
	return p == end;
}

const char *scan_time(const char *s, size_t n, int unit, int64_t max, int64_t *ns)
{
	if (plain_time(s, n, unit, ns) && *ns <= max)
		return NULL;
	struct decimal d;
	const char *why = whole_decimal(s, n, &d, "is not a number");
	if (why)
		return why;
	if (d.negative && d.digits)
		return "is negative";
	int32_t e = d.exp10 + unit;
	uint64_t x = d.digits;
	if (e >= 0) {
		if (x && (e > 19 || __builtin_mul_overflow(x, pow10_table[e], &x)))
			return "is too large";
	} else if (e < -19) {
		x = 0;
	} else {
		uint64_t div = pow10_table[-e], rest = x % div;
		x = x / div + (rest >= div - rest);
	}
	if (x > (uint64_t)max)
		return "is too large";
	*ns = (int64_t)x;
	return NULL;
}

/* Exactly n digits, which must be there. */
static bool fixed_digits(const char **p, const char *end, int n, int *out)
{
	if (end - *p < n)
		return false;
	int x = 0;
	bool ok = true;
	for (int i = 0; i < n; i++) {
		ok &= is_digit((*p)[i]);
		x = x * 10 + ((*p)[i] - '0');
	}
	*p += n;
	*out = x;
	return ok;
}

/* "18:15:46" at p, or what else is three pairs of digits with `sep` between them. */
static bool three_pairs(const char *p, char sep, int out[3])
{
	uint64_t w, seps = (uint64_t)(unsigned char)sep << 16 | (uint64_t)(unsigned char)sep << 40;
	memcpy(&w, p, 8);
	w = le64toh(w) ^ (0x3030003030003030u | seps); /* digits are 0 to 9 now, separators 0 */
	if ((w | ((w & 0x7f7f7f7f7f7f7f7fu) + 0x76767f76767f7676u)) & 0x8080808080808080u)
		return false;
	w = w * 10 + (w >> 8);
	out[0] = (int)(w & 255);
	out[1] = (int)(w >> 24 & 255);
	out[2] = (int)(w >> 48 & 255);
	return true;
}

/* "2023-11-16 18:15:46" at p, 19 bytes: year, month, day, hour, minute, second. */
static bool fixed_date(const char *p, int out[6])
{
	if (!is_digit(p[0]) || !is_digit(p[1]) || (p[10] != ' ' && p[10] != 'T') || !three_pairs(p + 2, '-', out) ||
	    !three_pairs(p + 11, ':', out + 3))
		return false;
	out[0] += (p[0] - '0') * 1000 + (p[1] - '0') * 100;
	return true;
}

/* The digits behind the point as ns; what is finer is cut. */
static const char *scan_fraction(const char *p, const char *end, int64_t *ns)
{
	const char *first = p;
	int64_t x = 0;
	for (; p < end && is_digit(*p); p++)
		if (p - first < 9)
			x = x * 10 + (*p - '0');
	*ns = x * (int64_t)pow10_table[p - first < 9 ? 9 - (p - first) : 0];
	return p;
}

static bool take_byte(const char **p, const char *end, char a, char b)
{
	if (*p >= end || (**p != a && **p != b))
		return false;
	(*p)++;
	return true;
}

/* Days from 1970-01-01 in the proleptic Gregorian calendar, counting years from March so that the leap day is last. */
static int64_t days_from_civil(int year, int month, int day)
{
	int64_t y = month <= 2 ? year - 1 : year;
	int64_t m = month <= 2 ? month + 9 : month - 3;
	return y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
}

static bool date_exists(int year, int month, int day)
{
	static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
	return year >= 1970 && year <= 2200 && month >= 1 && month <= 12 && day >= 1 &&
	       day <= lengths[month - 1] + (leap && month == 2);
}

/* Of year, month, day, hour, minute, second. */
static bool moment_exists(const int d[6])
{
	return date_exists(d[0], d[1], d[2]) && d[3] <= 23 && d[4] <= 59 && d[5] <= 59;
}

static int64_t moment_seconds(const int d[6])
{
	return days_from_civil(d[0], d[1], d[2]) * 86400 + d[3] * 3600 + d[4] * 60 + d[5];
}

/* Nothing, Z, or +HH:MM, +HHMM, +HH: seconds to subtract. */
static bool scan_offset(const char *p, const char *end, int64_t *seconds)
{
	*seconds = 0;
	if (p == end || (end - p == 1 && (*p == 'Z' || *p == 'z')))
		return true;
	bool negative = *p == '-';
	int hour, minute = 0;
	if (!take_byte(&p, end, '+', '-') || !fixed_digits(&p, end, 2, &hour))
		return false;
	if (p < end && *p == ':')
		p++;
	if (p < end && !fixed_digits(&p, end, 2, &minute))
		return false;
	*seconds = (negative ? -1 : 1) * (hour * 3600 + minute * 60);
	return p == end && hour < 24 && minute < 60;
}

const char *scan_date(const char *s, size_t n, int64_t *ns)
{
	static const char *const bad = "is not a time like 2023-11-16 18:15:46.6805900";
	const char *p = s, *end = s + n;
	int d[6];
	trim(&p, &end);
	if (p == end)
		return "is empty";
	if (end - p < 19 || !fixed_date(p, d))
		return bad;
	p += 19;
	int64_t fraction = 0, offset;
	if (p < end && *p == '.') {
		const char *first = ++p;
		p = scan_fraction(p, end, &fraction);
		if (p == first)
			return bad;
	}
	if (!scan_offset(p, end, &offset))
		return bad;
	if (!moment_exists(d))
		return "is no date and time that exists (1970 to 2200)";
	*ns = (moment_seconds(d) - offset) * 1000000000 + fraction;
	return *ns < 0 ? "is before 1970" : NULL;
}

const char *scan_plain_date(const char *s, const char *end, int64_t *ns)
{
	int d[6], n = 0;
	uint32_t fraction = 0;
	if (end - s < 19 || !fixed_date(s, d) || !moment_exists(d))
		return NULL;
	s += 19;
	if (*s == '.') {
		n = digits_8(++s, &fraction);
		if (n == 0 || n == 8)
			return NULL;
		s += n;
	}
	*ns = moment_seconds(d) * 1000000000 + fraction * (int64_t)pow10_table[9 - n];
	return s;
}

static bool json_fail(struct json *j, const char *why)
{
	if (!j->why)
		j->why = why;
	return false;
}

/* Strings are decoded in place later, so text is no pointer to const. */
/* NOLINTNEXTLINE(readability-non-const-parameter) */
void json_begin(struct json *j, char *text, size_t n)
{
	*j = (struct json){text, text + n, NULL};
}

void json_space(struct json *j)
{
	while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\t' || *j->p == '\r'))
		j->p++;
}

bool json_take(struct json *j, char c)
{
	json_space(j);
	if (j->p >= j->end || *j->p != c)
		return false;
	j->p++;
	return true;
}

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int32_t hex4(const char *p, const char *end)
{
	int32_t x = 0;
	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int d = hex_digit(p[i]);
		if (d < 0)
			return -1;
		x = x * 16 + d;
	}
	return x;
}

static char *put_utf8(char *to, int32_t c)
{
	if (c < 0x80) {
		*to++ = (char)c;
	} else if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
		*to++ = (char)(0x80 | (c & 63));
	} else {
		if (c < 0x10000) {
			*to++ = (char)(0xe0 | c >> 12);
		} else {
			*to++ = (char)(0xf0 | c >> 18);
			*to++ = (char)(0x80 | (c >> 12 & 63));
		}
		*to++ = (char)(0x80 | (c >> 6 & 63));
		*to++ = (char)(0x80 | (c & 63));
	}
	return to;
}

/* \uXXXX at p (behind the u), a pair of surrogates taken together; a lone one becomes U+FFFD. */
static const char *unescape_unicode(const char *p, const char *end, char **to)
{
	int32_t c = hex4(p, end);
	if (c < 0)
		return NULL;
	p += 4;
	if (c >= 0xd800 && c < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
		int32_t low = hex4(p + 2, end);
		if (low >= 0xdc00 && low < 0xe000) {
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
			p += 6;
		}
	}
	*to = put_utf8(*to, c >= 0xd800 && c < 0xe000 ? 0xfffd : c);
	return p;
}

/* Decodes [p, end) in place from `to` on; what it decodes to is never longer. */
static char *unescape(char *to, const char *p, const char *end)
{
	while (p < end) {
		if (*p != '\\') {
			const char *next = memchr(p, '\\', (size_t)(end - p));
			size_t n = (size_t)((next ? next : end) - p);
			memmove(to, p, n);
			to += n;
			p += n;
			continue;
		}
		static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
		char c = p[1]; /* a string never ends with a lone backslash */
		const char *known = c ? strchr(from, c) : NULL;
		p += 2;
		if (known)
			*to++ = into[known - from];
		else if (c != 'u' || !(p = unescape_unicode(p, end, &to)))
			return NULL;
	}
	return to;
}

bool json_text(struct json *j, char **s, size_t *n)
{
	if (!json_take(j, '"'))
		return json_fail(j, "a string is missing");
	char *from = j->p, *q = from, *near = j->end - from > 24 ? from + 24 : j->end;
	/* Keys and ids are short. */
	while (q < near && *q != '"' && *q != '\\')
		q++;
	if (q < near && *q == '"') {
		j->p = q + 1;
		*s = from;
		*n = (size_t)(q - from);
		return true;
	}
	for (;;) {
		q = memchr(q, '"', (size_t)(j->end - q));
		if (!q)
			return json_fail(j, "a string has no end");
		char *b = q;
		while (b > from && b[-1] == '\\')
			b--;
		if ((q - b) % 2 == 0)
			break;
		q++;
	}
	j->p = q + 1;
	*s = from;
	*n = (size_t)(q - from);
	char *escape = memchr(from, '\\', *n);
	if (!escape)
		return true;
	char *end = unescape(escape, escape, q);
	if (!end)
		return json_fail(j, "a string has an escape that JSON does not know");
	*n = (size_t)(end - from);
	return true;
}

bool json_bare(struct json *j, char **s, size_t *n)
{
	json_space(j);
	*s = j->p;
	while (j->p < j->end && *j->p != ',' && *j->p != '}' && *j->p != ']' && *j->p > ' ' && *j->p != '"' &&
	       *j->p != ':')
		j->p++;
	*n = (size_t)(j->p - *s);
	return *n ? true : json_fail(j, "a value is missing");
}

static bool is_word(const char *s, size_t n, const char *word)
{
	return n == strlen(word) && !memcmp(s, word, n);
}

static bool skip_bare(struct json *j)
{
	char *s;
	size_t n;
	struct decimal d;
	if (!json_bare(j, &s, &n))
		return false;
	if (is_word(s, n, "null") || is_word(s, n, "true") || is_word(s, n, "false") || is_word(s, n, "NaN"))
		return true;
	const char *p = s;
	if (!scan_decimal(&p, s + n, &d) || p != s + n)
		return json_fail(j, "a value is none that JSON knows");
	return true;
}

/* Steps over a string without decoding it. */
static bool skip_string(struct json *j)
{
	char *from = ++j->p, *q = from;
	while ((q = memchr(q, '"', (size_t)(j->end - q)))) {
		char *b = q;
		while (b > from && b[-1] == '\\')
			b--;
		j->p = q + 1;
		if ((q - b) % 2 == 0)
			return true;
		q++;
	}
	return json_fail(j, "a string has no end");
}

bool json_skip(struct json *j)
{
	uint64_t is_object = 0; /* by depth */
	int depth = 0;
	for (;;) {
		json_space(j);
		char c = j->p < j->end ? *j->p : '\0';
		if (c == '{' || c == '[') {
			if (++depth > 63)
				return json_fail(j, "brackets are nested more than 63 deep");
			is_object = (is_object & ~((uint64_t)1 << depth)) | (uint64_t)(c == '{') << depth;
			j->p++;
			if (!json_take(j, c == '{' ? '}' : ']')) {
				if (c == '{' && (json_space(j), j->p >= j->end || *j->p != '"' || !skip_string(j) ||
									!json_take(j, ':')))
					return json_fail(j, "a key is missing");
				continue;
			}
			depth--;
		} else if (c == '"' ? !skip_string(j) : !skip_bare(j)) {
			return false;
		}
		/* A value is complete: close what ends here, or go to the next value. */
		for (; depth > 0; depth--) {
			bool object = is_object >> depth & 1;
			if (json_take(j, ',')) {
				if (object && (json_space(j),
					       j->p >= j->end || *j->p != '"' || !skip_string(j) || !json_take(j, ':')))
					return json_fail(j, "a key is missing");
				break;
			}
			if (!json_take(j, object ? '}' : ']'))
				return json_fail(j, "a bracket is not closed");
		}
		if (!depth)
			return true;
	}
}

bool json_key(struct json *j, bool *first, char **key, size_t *n)
{
	if (*first && !json_take(j, '{'))
		return json_fail(j, "an object {...} is missing");
	if (json_take(j, '}')) {
		return false;
	}
	if (!*first && !json_take(j, ','))
		return json_fail(j, "a comma or } is missing");
	*first = false;
	if (!json_text(j, key, n) || !json_take(j, ':')) {
		j->why = NULL;
		return json_fail(j, "a key is missing");
	}
	return true;
}

bool json_item(struct json *j, bool *first)
{
	if (*first && !json_take(j, '['))
		return json_fail(j, "a list [...] is missing");
	if (json_take(j, ']'))
		return false;
	if (!*first && !json_take(j, ','))
		return json_fail(j, "a comma or ] is missing");
	*first = false;
	return true;
}
